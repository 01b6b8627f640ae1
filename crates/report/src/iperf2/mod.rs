//! A test as iperf (iperf2) prints it: text and CSV. The lines are those of iperf 2.1.8.

mod bounce;
mod rows;

use std::str::FromStr;

use weir_model::ModelError;
use weir_model::plan::{Direction, Shape};
use weir_model::record::{Flow, Interval, IntervalCount, Record, SERVED};

use crate::clean;
use crate::iperf3::addresses;
use crate::iperf3::text::{mean, scaled};
use rows::Row;

const RULE: &str = "------------------------------------------------------------\n";

/// The unit of volumes and rates, `-f` of iperf: lower case is bits with powers of ten, upper case bytes with powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Iperf2Unit {
    bytes: bool,
    /// Power of 1000 or 1024; absent: chosen by size.
    power: Option<usize>,
}

impl FromStr for Iperf2Unit {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let refused = || ModelError::Value {
            what: "format",
            given: text.into(),
            accepted: "a, b, k, m, g, t (bits, powers of ten), A, B, K, M, G or T (bytes, powers of 1024)",
        };
        let mut letters = text.chars();
        let (Some(letter), None) = (letters.next(), letters.next()) else { return Err(refused()) };
        let power = match letter.to_ascii_lowercase() {
            'a' => None,
            'b' => Some(0),
            'k' => Some(1),
            'm' => Some(2),
            'g' => Some(3),
            't' => Some(4),
            _ => return Err(refused()),
        };
        Ok(Iperf2Unit { bytes: letter.is_ascii_uppercase(), power })
    }
}

impl Iperf2Unit {
    fn volume(self, bytes: u64) -> String {
        scaled(bytes as f64, 1024.0, self.power, "Byte")
    }

    fn rate(self, bits_per_second: f64) -> String {
        let text = match self.bytes {
            true => scaled(bits_per_second / 8.0, 1024.0, self.power, "Byte"),
            false => scaled(bits_per_second, 1000.0, self.power, "bit"),
        };
        text + "/sec"
    }
}

/// Options of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Iperf2Options {
    /// Unit of volumes and rates.
    pub unit: Iperf2Unit,
    /// More columns for what this end sends, `-e`.
    pub enhanced: bool,
    /// Lines of CSV, `-y C`.
    pub csv: bool,
    /// Whether sums of several streams alone are printed, `--sum-only`.
    pub sum_only: bool,
    /// Whether the server connects back, so that each direction has sockets of its own.
    pub calls_back: bool,
    /// What a test of round trips asks of the server; absent: it is unknown, or another test.
    pub bounce: Option<Iperf2Bounce>,
}

/// What a client asks of the server of a test of round trips (`--bounceback`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Iperf2Bounce {
    /// How long it waits before each response, µs.
    pub hold_us: u32,
    /// Whether it acknowledges segments without a delay.
    pub quick_ack: bool,
}

/// A size of a window, such as `16.0 KByte`.
fn window(bytes: u64) -> String {
    let text = scaled(bytes as f64, 1024.0, None, "Byte");
    text.trim_end_matches('s').to_owned()
}

/// The first lines: what is connected or listens, with the bytes of its socket buffer and those that the user requested.
#[must_use]
pub fn iperf2_banner(
    title: &str,
    datagrams: bool,
    details: &[String],
    buffer: Option<u64>,
    requested: Option<u64>,
) -> String {
    let mut out = format!("{RULE}{}\n", clean(title));
    for line in details {
        out += &format!("{}\n", clean(line));
    }
    if let Some(buffer) = buffer {
        let name = if datagrams { "UDP buffer size" } else { "TCP window size" };
        let note = match requested {
            None => "(default)".into(),
            Some(requested) if requested == buffer => String::new(),
            Some(requested) => format!("(WARNING: requested {})", window(requested)),
        };
        out += format!("{name}: {} {note}", window(buffer)).trim_end();
        out.push('\n');
    }
    out + RULE
}

/// The text of one test.
#[derive(Debug)]
pub struct Iperf2Text {
    /// What is known at the start: the plan, and the flows with their addresses.
    known: Record,
    options: Iperf2Options,
    /// Number of its first stream.
    first: u32,
    has_heading: bool,
    /// How many flows have their line.
    listed: usize,
}

/// Why a record has no such form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoIperf2Form;

impl std::fmt::Display for NoIperf2Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("iperf has no form for it: its flows are neither streams over TCP or UDP nor requests on one")
    }
}

impl Iperf2Text {
    /// The text of the test with this record, of which only what is known at the start is needed. `first`: the number of its
    /// first stream.
    ///
    /// # Errors
    /// [`NoIperf2Form`].
    pub fn new(known: Record, options: Iperf2Options, first: u32) -> Result<Self, NoIperf2Form> {
        let connections = &known.plan.connections;
        let is_stream = connections.iter().all(|c| {
            let is_bounce = c.shape == Shape::Rr && !c.transport.datagrams();
            (c.shape == Shape::Stream || is_bounce) && c.transport.name().ip() && c.echo.is_none()
        });
        match is_stream && !connections.is_empty() {
            true => Ok(Iperf2Text { known, options, first, has_heading: false, listed: 0 }),
            false => Err(NoIperf2Form),
        }
    }

    /// All text of a finished test. `time` gives the time of a row of CSV by its end, seconds after the start.
    ///
    /// # Errors
    /// [`NoIperf2Form`].
    pub fn of_record(
        record: &Record,
        options: Iperf2Options,
        first: u32,
        time: &dyn Fn(f64) -> String,
    ) -> Result<String, NoIperf2Form> {
        let mut text = Iperf2Text::new(record.clone(), options, first)?;
        let mut out = text.start();
        for interval in &record.intervals {
            out += &text.interval(interval, time);
        }
        Ok(out + &text.summary(record, time))
    }

    fn is_served(&self) -> bool {
        self.known.labels.contains_key(SERVED)
    }

    fn datagrams(&self) -> bool {
        self.known.plan.connections.first().is_some_and(|c| c.transport.datagrams())
    }

    /// Whether both ends send on one socket.
    fn is_both_ways(&self) -> bool {
        self.known.plan.connections.len() > 1 && !self.options.calls_back
    }

    /// How many streams there are, each of both directions where both ends send.
    fn streams(&self) -> u32 {
        let connections = self.known.plan.connections.iter();
        let count = connections.map(|c| c.count).reduce(|first, second| {
            if self.options.calls_back { first.saturating_add(second) } else { first }
        });
        count.unwrap_or(1)
    }

    /// The lines of flows that have been opened since the start.
    pub fn opened(&mut self, flows: Vec<Flow>) -> String {
        self.known.flows.extend(flows);
        self.start()
    }

    /// Whether this end sends a flow.
    fn sends(flow: &Flow) -> bool {
        flow.direction == Direction::Forward
    }

    /// The number of a flow, which both directions of a stream share.
    fn number(&self, flow: &Flow) -> u32 {
        match self.has_load() {
            true if !self.is_round_trips(flow) => self.first + self.load_number(flow),
            _ => self.first + (flow.id.saturating_sub(1)) % self.streams().max(1),
        }
    }

    /// The line of a stream.
    fn connected(&self, flow: &Flow, mode: &str) -> String {
        let [(local, local_port), (remote, remote_port)] = addresses(flow);
        let number = self.number(flow);
        format!(
            "[{number:3}] local {local} port {local_port} connected with {remote} port {remote_port}{mode}\n"
        )
    }

    /// The number of a flow in brackets. A star marks what comes from the server.
    fn label(&self, flow: &Flow) -> String {
        let number = self.number(flow);
        let is_of_server = match self.is_served() {
            true => Self::sends(flow) && self.is_both_ways(),
            false => !Self::sends(flow) && !self.options.calls_back,
        };
        match is_of_server {
            true => format!("[{:>3}]", format!("*{number}")),
            false => format!("[{number:3}]"),
        }
    }

    /// The lines of the streams.
    #[must_use]
    pub fn start(&mut self) -> String {
        if self.options.csv {
            return String::new();
        }
        if self.has_load() {
            return self.loaded_start();
        }
        let mut out = String::new();
        let mode = match (self.is_both_ways(), self.known.flows.first().map(Self::sends)) {
            _ if self.is_bounce() => self.bounce_mode(),
            (true, _) => " (full-duplex)".into(),
            (false, _) if self.options.calls_back => String::new(),
            (false, Some(sends)) if sends == self.is_served() => " (reverse)".into(),
            _ => String::new(),
        };
        let streams = self.streams() as usize;
        let listed = std::mem::replace(&mut self.listed, self.known.flows.len().min(streams));
        for flow in self.known.flows.iter().take(streams).skip(listed) {
            out += &self.connected(flow, &mode);
        }
        out
    }

    /// The rows of an interval.
    #[must_use]
    pub fn interval(&mut self, interval: &Interval, time: &dyn Fn(f64) -> String) -> String {
        let mut heading = self.heading_once();
        if self.has_bounces() {
            heading += &self.bounce_rows(interval);
            if !self.has_load() {
                return heading;
            }
            heading += self.heading_of_streams(false);
        }
        let mut rows = vec![];
        for counts in &interval.flows {
            let flow = self.known.flows.iter().find(|flow| flow.id == counts.id);
            let flow = flow.filter(|flow| !self.has_bounces() || !self.is_round_trips(flow));
            let Some(flow) = flow else { continue };
            let sends = Self::sends(flow);
            let count = if sends { counts.sender.as_ref() } else { counts.receiver.as_ref() };
            let span = [interval.start_seconds, interval.end_seconds];
            rows.extend(count.map(|count| Row::of_interval(flow, sends, span, count)));
        }
        self.add_ways(&mut rows);
        heading + &self.printed(&rows, time)
    }

    /// The results, of a complete or a partial record.
    #[must_use]
    pub fn summary(&mut self, record: &Record, time: &dyn Fn(f64) -> String) -> String {
        let mut out = self.heading_once();
        let mut flows: Vec<&Flow> = record.flows.iter().collect();
        if self.has_bounces() {
            out += &self.bounces(record);
            if !self.has_load() {
                return out;
            }
            out += self.heading_of_streams(false);
            flows.retain(|flow| !self.is_round_trips(flow));
        }
        let mut rows: Vec<Row<'_>> = flows.into_iter().filter_map(Row::of_flow).collect();
        self.add_ways(&mut rows);
        out += &self.printed(&rows, time);
        // What the server sends back is reported to it.
        let reported = |flow: &&Flow| !self.options.calls_back || Self::sends(flow);
        let reports = record.flows.iter().filter(reported);
        let reports: Vec<Row<'_>> = reports.filter_map(Row::of_report).collect();
        let is_reported = self.datagrams() && !self.is_served();
        if is_reported && !self.options.csv {
            for row in rows.iter().filter(|row| row.sends) {
                out += &format!("{} Sent {} datagrams\n", self.label(row.flow), row.packets);
            }
        }
        if is_reported {
            for (i, row) in reports.iter().enumerate() {
                if !self.options.csv {
                    out += &format!("{} Server Report:\n", self.label(row.flow));
                    out += if i == 0 { self.heading(true) } else { "" };
                }
                out += &self.row(&self.label(row.flow), row, time);
            }
        }
        out
    }

    /// Counts what goes both ways: a server of round trips sends back what it receives.
    fn add_ways(&self, rows: &mut [Row<'_>]) {
        for row in rows.iter_mut().filter(|row| self.is_round_trips(row.flow)) {
            row.bytes = row.bytes.saturating_mul(2);
        }
    }

    fn heading_once(&mut self) -> String {
        let is_repeated = self.has_load() && !self.options.csv;
        let has_heading = std::mem::replace(&mut self.has_heading, true);
        if self.options.csv || has_heading && !is_repeated {
            return String::new();
        }
        let receives = self.known.flows.first().is_some_and(|flow| !Self::sends(flow));
        self.heading(receives).to_owned()
    }

    fn heading(&self, receives: bool) -> &'static str {
        if self.has_bounces() {
            return bounce::HEADING;
        }
        self.heading_of_streams(receives)
    }

    fn heading_of_streams(&self, receives: bool) -> &'static str {
        match (self.datagrams(), receives, self.options.enhanced) {
            (true, true, _) => {
                "[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams\n"
            }
            (true, false, true) => {
                "[ ID] Interval            Transfer     Bandwidth      Write/Err  PPS\n"
            }
            (false, false, true) => {
                "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     Cwnd/RTT        NetPwr\n"
            }
            _ => "[ ID] Interval       Transfer     Bandwidth\n",
        }
    }

    /// Rows with the sums of several: of each direction, where each has sockets of its own.
    fn printed(&self, rows: &[Row<'_>], time: &dyn Fn(f64) -> String) -> String {
        let mut out = String::new();
        let (sent, received): (Vec<Row<'_>>, Vec<Row<'_>>) =
            rows.iter().cloned().partition(|row| row.sends || !self.options.calls_back);
        let parts = [sent, received].map(|part| (part.len() > 1).then_some(part));
        let has_sum = |row: &Row<'_>| match row.sends || !self.options.calls_back {
            true => parts[0].is_some(),
            false => parts[1].is_some(),
        };
        for row in rows.iter().filter(|row| !(self.options.sum_only && has_sum(row))) {
            out += &self.row(&self.label(row.flow), row, time);
        }
        // CSV has sums only where they are all that is wanted: those of stream -1.
        if self.options.sum_only || !self.options.csv {
            for sum in parts.iter().flatten().filter_map(|part| Row::sum(part)) {
                out += &self.row("[SUM]", &sum, time);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests;
