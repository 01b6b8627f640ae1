//! Tests of round trips (`--bounceback`).

use weir_model::plan::Shape;
use weir_model::record::{Interval, Record};

use super::{Flow, Iperf2Bounce, Iperf2Text};

pub(super) const HEADING: &str = "[ ID] Interval            Transfer    Bandwidth         BB cnt=avg/min/max/stdev         Rtry  Cwnd/RTT    RPS\n";

/// A row: its time, bytes in both directions, round trips, their mean, minimum, maximum and standard deviation, and what TCP has.
#[derive(Debug, Default)]
struct Row {
    span: [f64; 2],
    bytes: u64,
    count: u64,
    times_seconds: [Option<f64>; 4],
    retransmits: Option<u64>,
    cwnd_bytes: Option<u64>,
    rtt_seconds: Option<f64>,
}

impl Iperf2Text {
    pub(super) fn is_bounce(&self) -> bool {
        self.known.plan.connections.first().is_some_and(|c| c.shape == Shape::Rr)
    }

    /// Whether streams load the path meanwhile.
    pub(super) fn has_load(&self) -> bool {
        self.is_bounce() && self.known.plan.connections.len() > 1
    }

    /// Whether a flow is one of round trips.
    pub(super) fn is_round_trips(&self, flow: &Flow) -> bool {
        self.is_bounce() && flow.id <= self.round_trip_flows()
    }

    fn round_trip_flows(&self) -> u32 {
        self.known.plan.connections.first().map_or(0, |c| c.count)
    }

    /// The number of a stream that loads the path, from 0: after those of round trips. Both directions of one have the same.
    pub(super) fn load_number(&self, flow: &Flow) -> u32 {
        let own = self.round_trip_flows();
        let streams = self.known.plan.connections.get(1).map_or(1, |c| c.count);
        own.saturating_add(flow.id.saturating_sub(own.saturating_add(1)) % streams.max(1))
    }

    /// The lines of the streams of a test with a load.
    pub(super) fn loaded_start(&mut self) -> String {
        let both = self.known.plan.connections.len() > 2;
        let listed = std::mem::replace(&mut self.listed, self.known.flows.len());
        let mut out = String::new();
        for flow in self.known.flows.iter().skip(listed) {
            let mode = match (self.is_round_trips(flow), Self::sends(flow), both) {
                (true, ..) => self.bounce_mode(),
                (_, true, true) => " (full-duplex)".into(),
                // It has the line of the other direction.
                (_, false, true) => continue,
                (_, true, false) => String::new(),
                (_, false, false) => " (reverse)".into(),
            };
            out += &self.connected(flow, &mode);
        }
        out
    }

    /// Whether this end measures round trips.
    pub(super) fn has_bounces(&self) -> bool {
        self.is_bounce() && !self.is_served() && !self.options.csv
    }

    /// What follows the addresses of a stream.
    pub(super) fn bounce_mode(&self) -> String {
        let connections = &self.known.plan.connections;
        let length = connections.first().map_or(0, |c| c.request_bytes());
        match self.options.bounce {
            Some(Iperf2Bounce { hold_us, quick_ack }) => {
                let quick_ack = if quick_ack { " w/quickack" } else { "" };
                format!(" (bb{quick_ack} len/hold={length}/{hold_us})")
            }
            None => format!(" (bb len={length})"),
        }
    }

    fn bounce_row(&self, label: &str, row: &Row) -> String {
        let [start, end] = row.span;
        let seconds = end - start;
        let rate = if seconds > 0.0 { 8.0 * row.bytes as f64 / seconds } else { 0.0 };
        let unit = self.options.unit;
        let missing = || "-".to_owned();
        let ms = |seconds: Option<f64>| seconds.map_or_else(missing, |s| format!("{:.3}", 1e3 * s));
        let [mean, min, max, deviation] = row.times_seconds.map(ms);
        let cwnd = row.cwnd_bytes.map_or_else(missing, |bytes| format!("{}K", bytes / 1024));
        let rtt = row.rtt_seconds.map_or_else(missing, |rtt| format!("{:.0}", 1e6 * rtt));
        let retransmits = row.retransmits.map_or_else(missing, |n| n.to_string());
        // Responses per second, as iperf defines it: the inverse of the mean round trip.
        let per_second = row.times_seconds[0].filter(|mean| *mean > 0.0);
        let per_second = per_second.map_or_else(missing, |mean| format!("{:.0}", 1.0 / mean));
        format!(
            "{label} {start:6.4}-{end:6.4} sec  {}  {}    {}={mean}/{min}/{max}/{deviation} ms {retransmits:>4} {cwnd:>5}/{rtt} us {per_second:>7} rps\n",
            unit.volume(row.bytes),
            unit.rate(rate),
            row.count,
        )
    }

    /// Bytes of a request and its response.
    fn bounce_bytes(&self) -> u64 {
        self.known.plan.connections.first().map_or(0, |c| c.request_bytes() + c.response_bytes())
    }

    /// The rows of an interval. It has no times of its own.
    pub(super) fn bounce_rows(&self, interval: &Interval) -> String {
        let mut out = String::new();
        for counts in &interval.flows {
            let flow = self.known.flows.iter().find(|flow| flow.id == counts.id);
            let flow = flow.filter(|flow| self.is_round_trips(flow));
            let (Some(flow), Some(sent)) = (flow, &counts.sender) else { continue };
            let count = sent.transactions.unwrap_or(0);
            let row = Row {
                span: [interval.start_seconds, interval.end_seconds],
                bytes: count.saturating_mul(self.bounce_bytes()),
                count,
                retransmits: sent.retransmits,
                cwnd_bytes: sent.cwnd_bytes,
                rtt_seconds: sent.rtt_seconds,
                ..Row::default()
            };
            out += &self.bounce_row(&self.label(flow), &row);
        }
        out
    }

    /// The results.
    pub(super) fn bounces(&self, record: &Record) -> String {
        let mut out = String::new();
        for flow in &record.flows {
            let Some(done) = &flow.transactions else { continue };
            let times = done.response_time.as_ref();
            let tcp = flow.tcp.as_ref();
            let row = Row {
                span: [0.0, done.seconds],
                bytes: done.completed.saturating_mul(self.bounce_bytes()),
                count: done.completed,
                times_seconds: [
                    times.map(|times| times.mean_seconds),
                    times.map(|times| times.min_seconds),
                    times.map(|times| times.max_seconds),
                    done.response_time_deviation_seconds,
                ],
                retransmits: tcp.map(|tcp| tcp.retransmits),
                cwnd_bytes: tcp.and_then(|tcp| tcp.cwnd_bytes),
                rtt_seconds: tcp.and_then(|tcp| tcp.rtt_seconds),
            };
            out += &self.bounce_row(&self.label(flow), &row);
        }
        out
    }
}
