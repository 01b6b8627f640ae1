//! The text of iperf3, for programs and people that read that. Its lines are those of iperf3 3.12 to 3.21.

use std::str::FromStr;

use weir_model::ModelError;
use weir_model::plan::Direction;
use weir_model::record::{CpuEnd, Flow, Interval, IntervalCount, Receiver, Record, Sender};

use super::{Form, NoIperf3Form, Role, addresses, received_seconds, socket};
use crate::clean;

const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";

/// The unit of rates, `-f` of iperf3: lower case is bits with powers of ten, upper case bytes with powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Iperf3Unit {
    bytes: bool,
    /// Power of 1000 or 1024; absent: chosen by size.
    power: Option<usize>,
}

impl FromStr for Iperf3Unit {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let unit = |bytes, power| Ok(Iperf3Unit { bytes, power: Some(power) });
        match text {
            "k" => unit(false, 1),
            "m" => unit(false, 2),
            "g" => unit(false, 3),
            "t" => unit(false, 4),
            "K" => unit(true, 1),
            "M" => unit(true, 2),
            "G" => unit(true, 3),
            "T" => unit(true, 4),
            _ => Err(ModelError::Value {
                what: "format",
                given: text.into(),
                accepted: "k, m, g, t (bits, powers of ten), K, M, G or T (bytes, powers of 1024)",
            }),
        }
    }
}

impl Iperf3Unit {
    /// A rate, such as `10.5 Mbits/sec`.
    fn rate(self, bits_per_second: f64) -> String {
        let text = match self.bytes {
            true => scaled(bits_per_second / 8.0, 1024.0, self.power, "Byte"),
            false => scaled(bits_per_second, 1000.0, self.power, "bit"),
        };
        text + "/sec"
    }
}

/// A volume, such as `1.25 MBytes`.
fn volume(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, None, "Byte")
}

/// A number in at least four places, with its unit.
pub(crate) fn scaled(value: f64, kilo: f64, power: Option<usize>, unit: &str) -> String {
    let (mut value, mut at) = (value, 0);
    while at < 4 && power.map_or(value >= kilo, |power| at < power) {
        value /= kilo;
        at += 1;
    }
    let prefix = ["", "K", "M", "G", "T"][at];
    match value {
        _ if value < 9.995 => format!("{value:4.2} {prefix}{unit}s"),
        _ if value < 99.95 => format!("{value:4.1} {prefix}{unit}s"),
        _ => format!("{value:4.0} {prefix}{unit}s"),
    }
}

/// Options of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Iperf3Options {
    /// Unit of rates.
    pub unit: Iperf3Unit,
    /// Details, `-V`.
    pub verbose: bool,
}

/// The text of one test.
#[derive(Debug)]
pub struct Iperf3Text {
    /// What is known at the start: the plan, and the flows with their addresses.
    known: Record,
    options: Iperf3Options,
    has_rows: bool,
}

impl Iperf3Text {
    /// The text of the test with this record, of which only what is known at the start is needed.
    ///
    /// # Errors
    /// [`NoIperf3Form`].
    pub fn new(known: Record, options: Iperf3Options) -> Result<Self, NoIperf3Form> {
        Form::of(&known)?;
        Ok(Iperf3Text { known, options, has_rows: false })
    }

    /// All text of a finished test, without the last line of a client.
    ///
    /// # Errors
    /// [`NoIperf3Form`].
    pub fn of_record(record: &Record, options: Iperf3Options) -> Result<String, NoIperf3Form> {
        let mut text = Iperf3Text::new(record.clone(), options)?;
        let mut out = text.start();
        for interval in &record.intervals {
            out += &text.interval(interval);
        }
        Ok(out + &text.summary(record))
    }

    /// The lines of one part of the text, each with the title of the test.
    fn part(&self, text: impl FnOnce(&Form<'_>) -> String) -> String {
        let Ok(form) = Form::of(&self.known) else { return String::new() };
        let text = text(&form);
        match &self.known.plan.title {
            None => text,
            Some(title) => {
                let title = clean(title);
                text.split_inclusive('\n').map(|line| format!("{title}:  {line}")).collect()
            }
        }
    }

    /// What is printed before the first row: the streams and the heading.
    #[must_use]
    pub fn start(&self) -> String {
        self.part(|form| {
            let known = form.record;
            let mut out = String::new();
            let host = clean(known.plan.host.as_deref().unwrap_or_default());
            match form.role {
                Role::Client if form.is_reverse() => {
                    out += &format!("Reverse mode, remote host {host} is sending\n");
                }
                Role::Client => {}
                Role::Server => {
                    let port = known.flows.first().map_or(0, |flow| addresses(flow)[1].1);
                    out += &format!("Accepted connection from {host}, port {port}\n");
                }
            }
            for flow in &known.flows {
                let [(local, local_port), (remote, remote_port)] = addresses(flow);
                out += &format!(
                    "[{:3}] local {local} port {local_port} connected to {remote} port {remote_port}\n",
                    socket(flow.id)
                );
            }
            if self.options.verbose {
                out += &form.test();
            }
            out + &form.heading(false)
        })
    }

    /// The rows of an interval.
    #[must_use]
    pub fn interval(&mut self, interval: &Interval) -> String {
        let is_first = !std::mem::replace(&mut self.has_rows, true);
        self.part(|form| {
            let several = form.connection.count > 1;
            let mut out = String::new();
            if several && !is_first {
                out += SEPARATOR;
            }
            for counts in &interval.flows {
                let flow = form.record.flows.iter().find(|flow| flow.id == counts.id);
                let Some(flow) = flow else { continue };
                let sends = flow.direction == Direction::Forward;
                let count = match sends {
                    true => counts.sender.as_ref().or(counts.receiver.as_ref()),
                    false => counts.receiver.as_ref().or(counts.sender.as_ref()),
                };
                let label = format!("[{:3}]", socket(flow.id));
                out += &count.map_or_else(String::new, |count| {
                    form.row(&label, sends, interval, count, self.options.unit)
                });
            }
            if several {
                let totals = [
                    (Direction::Forward, &interval.total.forward),
                    (Direction::Reverse, &interval.total.reverse),
                ];
                for (direction, ends) in totals.iter().filter(|(d, _)| form.has(*d)) {
                    let sends = *direction == Direction::Forward;
                    let count = ends.as_ref().and_then(|ends| match sends {
                        true => ends.sender.as_ref().or(ends.receiver.as_ref()),
                        false => ends.receiver.as_ref().or(ends.sender.as_ref()),
                    });
                    // A sum has no jitter: iperf3 prints the mean of its streams.
                    let jitters = interval.flows.iter().filter_map(|counts| {
                        let flow = form.record.flows.iter().find(|flow| flow.id == counts.id)?;
                        let is_of = flow.direction == *direction;
                        counts.receiver.as_ref().filter(|_| is_of)?.jitter_seconds
                    });
                    let jitter_seconds = mean(jitters);
                    out += &count.map_or_else(String::new, |count| {
                        let count = IntervalCount { jitter_seconds, ..count.clone() };
                        form.row("[SUM]", sends, interval, &count, self.options.unit)
                    });
                }
            }
            out
        })
    }

    /// The results, of a complete or a partial record.
    #[must_use]
    pub fn summary(&self, record: &Record) -> String {
        self.part(|known| {
            // The same form: the plan of a record is that of its start.
            let form = Form { record, role: known.role, ..*known };
            let mut out = SEPARATOR.to_owned();
            if self.options.verbose {
                out += "Test Complete. Summary Results:\n";
            }
            out += &form.heading(true);
            for flow in &record.flows {
                let label = format!("[{:3}]", socket(flow.id));
                let flows = [flow];
                out += &form.totals(&label, &flows, self.options.unit);
            }
            if form.connection.count > 1 {
                for direction in [Direction::Forward, Direction::Reverse] {
                    let flows: Vec<&Flow> =
                        record.flows.iter().filter(|flow| flow.direction == direction).collect();
                    if !flows.is_empty() {
                        out += &form.totals("[SUM]", &flows, self.options.unit);
                    }
                }
            }
            if self.options.verbose {
                out += &form.hosts();
            }
            out
        })
    }
}

/// The mean, if there is a value.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// A percentage with two significant digits.
pub(crate) fn percentage(lost: u64, packets: u64) -> String {
    let value = super::json::percent(lost, packets);
    let digits = match value {
        _ if value == 0.0 || value >= 9.95 => 0,
        _ if value >= 0.995 => 1,
        _ => ((1.0 - value.log10().floor()) as usize).min(9),
    };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}%")
}

impl Form<'_> {
    /// What kind of test it is, `-V`.
    fn test(&self) -> String {
        let c = self.connection;
        let seconds = c.time_limit().map_or(0, |limit| limit.0.div_ceil(1_000_000_000));
        let amount = match (c.bytes, c.packets) {
            (Some(bytes), _) => format!("{} bytes to send", bytes.0 * u64::from(c.count)),
            (_, Some(packets)) => format!("{} blocks to send", packets * u64::from(c.count)),
            _ => format!("{seconds} second test"),
        };
        format!(
            "Starting Test: protocol: {}, {} streams, {} byte blocks, omitting {} seconds, {amount}, tos {}\n",
            if self.datagrams { "UDP" } else { "TCP" },
            c.count,
            self.record.flows.first().map_or(0, |flow| flow.payload_bytes),
            self.record.plan.omit.0 / 1_000_000_000,
            c.tos().unwrap_or(0),
        )
    }

    /// The role of this end in a flow, of a test in both directions.
    fn tag(&self, sends: bool) -> &'static str {
        match (self.is_bidirectional(), self.role, sends) {
            (false, ..) => "",
            (true, Role::Client, true) => "[TX-C]",
            (true, Role::Client, false) => "[RX-C]",
            (true, Role::Server, true) => "[TX-S]",
            (true, Role::Server, false) => "[RX-S]",
        }
    }

    fn heading(&self, summary: bool) -> String {
        let sends = self.has(Direction::Forward);
        // The client also knows the retransmissions of a server that sends.
        let retransmits = sends || (summary && self.role == Role::Client);
        let columns = match (self.datagrams, summary) {
            (true, true) => "         Jitter    Lost/Total Datagrams",
            (true, false) if sends && !self.is_bidirectional() => "         Total Datagrams",
            (true, false) => "         Jitter    Lost/Total Datagrams",
            (false, true) if retransmits => "         Retr",
            (false, false) if retransmits => "         Retr  Cwnd",
            (false, _) => "",
        };
        let role = if self.is_bidirectional() { "[Role]" } else { "" };
        format!("[ ID]{role} Interval           Transfer     Bitrate{columns}\n")
    }

    /// The row of an interval.
    fn row(
        &self,
        label: &str,
        sends: bool,
        interval: &Interval,
        count: &IntervalCount,
        unit: Iperf3Unit,
    ) -> String {
        let omitted = if interval.omitted { "(omitted)" } else { "" };
        let omit_seconds = self.record.plan.omit.seconds();
        // iperf3's times start again after the omitted time.
        let shift = if interval.omitted { 0.0 } else { omit_seconds };
        let (start, end) = (interval.start_seconds - shift, interval.end_seconds - shift);
        let bits = count.bits_per_second.unwrap_or_else(|| match end - start {
            seconds if seconds > 0.0 => 8.0 * count.bytes as f64 / seconds,
            _ => 0.0,
        });
        let span = format!(
            "{label}{} {start:6.2}-{end:<6.2} sec  {}  {}",
            self.tag(sends),
            volume(count.bytes),
            unit.rate(bits)
        );
        match (self.datagrams, sends) {
            (true, true) => {
                let gap = if self.is_bidirectional() { "          " } else { "" };
                format!("{span} {gap} {}  {omitted}\n", count.packets)
            }
            (true, false) => {
                let lost = count.lost_packets.unwrap_or(0);
                let packets = count.packets + lost;
                let jitter = 1000.0 * count.jitter_seconds.unwrap_or(0.0);
                let percentage = percentage(lost, packets);
                format!("{span}  {jitter:5.3} ms  {lost}/{packets} ({percentage})  {omitted}\n")
            }
            (false, true) => match (count.retransmits, count.cwnd_bytes) {
                (Some(retransmits), Some(cwnd)) => {
                    format!("{span}  {retransmits:3}   {}       {omitted}\n", volume(cwnd))
                }
                (Some(retransmits), None) => {
                    format!("{span}  {retransmits:3}             {omitted}\n")
                }
                (None, _) => format!("{span}                  {omitted}\n"),
            },
            (false, false) => format!("{span}                  {omitted}\n"),
        }
    }

    /// The rows of the totals of flows of one direction: the sender's and the receiver's.
    fn totals(&self, label: &str, flows: &[&Flow], unit: Iperf3Unit) -> String {
        let Some(first) = flows.first() else { return String::new() };
        let sends = first.direction == Direction::Forward;
        let tag = self.tag(sends);
        let senders: Vec<&Sender> = flows.iter().filter_map(|f| f.sender.as_ref()).collect();
        let receivers: Vec<&Receiver> = flows.iter().filter_map(|f| f.receiver.as_ref()).collect();
        let all = flows.len();
        let span = |seconds: f64, bytes: u64| {
            let bits = if seconds > 0.0 { 8.0 * bytes as f64 / seconds } else { 0.0 };
            format!(
                "{label}{tag} {:6.2}-{seconds:<6.2} sec  {}  {}",
                0.0,
                volume(bytes),
                unit.rate(bits)
            )
        };
        let longest = |seconds: &mut dyn Iterator<Item = f64>| seconds.fold(0.0, f64::max);
        let mut out = String::new();
        if senders.len() == all {
            let span = span(
                longest(&mut senders.iter().map(|s| s.seconds)),
                senders.iter().map(|s| s.bytes).sum(),
            );
            let packets: u64 = senders.iter().map(|s| s.packets).sum();
            let retransmits: Option<u64> =
                flows.iter().map(|f| f.tcp.as_ref().map(|tcp| tcp.retransmits)).sum();
            out += &match (self.datagrams, retransmits) {
                (true, _) => format!("{span}  {:5.3} ms  0/{packets} (0%)  sender\n", 0.0),
                (false, Some(n)) => format!("{span}  {n:3}             sender\n"),
                (false, None) => format!("{span}                  sender\n"),
            };
        } else if self.role == Role::Client {
            out += &format!("{label} (sender statistics not available)\n");
        }
        if receivers.len() == all {
            let span = span(
                longest(&mut flows.iter().filter_map(|f| received_seconds(f))),
                receivers.iter().map(|r| r.bytes).sum(),
            );
            let arrived: u64 = receivers.iter().map(|r| r.packets).sum();
            let lost: Option<u64> = receivers.iter().map(|r| r.lost_packets).sum();
            let jitter = mean(receivers.iter().filter_map(|r| r.jitter_seconds));
            let jitter = 1000.0 * jitter.unwrap_or(0.0);
            out += &match (self.datagrams, lost) {
                (true, Some(lost)) => {
                    let packets = arrived + lost;
                    let percentage = percentage(lost, packets);
                    format!("{span}  {jitter:5.3} ms  {lost}/{packets} ({percentage})  receiver\n")
                }
                (true, None) => format!("{span}  {jitter:5.3} ms  Unknown/{arrived}  receiver\n"),
                (false, _) => format!("{span}                  receiver\n"),
            };
        } else if self.role == Role::Client {
            out += &format!("{label} (receiver statistics not available)\n");
        }
        // A server prints its own end.
        match self.role {
            Role::Client => out,
            Role::Server => {
                let own = if sends { "sender\n" } else { "receiver\n" };
                out.split_inclusive('\n').filter(|line| line.ends_with(own)).collect()
            }
        }
    }

    /// CPU utilisation and congestion control, `-V`.
    fn hosts(&self) -> String {
        let record = self.record;
        let sends = self.has(Direction::Forward);
        let role = |sends| if sends { "sender" } else { "receiver" };
        let of = |end: &CpuEnd| {
            let (user, system) = (end.process_user_ratio, end.process_system_ratio);
            let [all, user, system] = [user + system, user, system].map(|ratio| 100.0 * ratio);
            format!("{all:.1}% ({user:.1}%u/{system:.1}%s)")
        };
        let cpu = record.cpu.as_ref();
        let ends = [
            ("local", sends, cpu.and_then(|cpu| cpu.local.as_ref())),
            ("remote", !sends, cpu.and_then(|cpu| cpu.remote.as_ref())),
        ];
        let known: Vec<String> = ends
            .iter()
            .filter_map(|(end, sends, cpu)| Some(format!("{end}/{} {}", role(*sends), of((*cpu)?))))
            .collect();
        let mut out = String::new();
        if !known.is_empty() {
            out += &format!("CPU Utilization: {}\n", known.join(", "));
        }
        let congestion = record.flows.iter().find_map(|flow| flow.tcp.as_ref());
        let congestion = congestion.map(|tcp| tcp.congestion_control.as_str()).unwrap_or_default();
        if !congestion.is_empty() {
            out += &format!("snd_tcp_congestion {congestion}\n");
        }
        out
    }
}

#[cfg(test)]
mod tests;
