//! Rows of the text, of an interval or of a whole test.

use super::{Flow, IntervalCount, Iperf2Text, addresses, mean};
use crate::iperf3::text::percentage;

/// One row.
#[derive(Debug, Clone)]
pub(super) struct Row<'a> {
    pub(super) flow: &'a Flow,
    pub(super) sends: bool,
    /// Start and end, seconds after the start.
    pub(super) span: [f64; 2],
    pub(super) bytes: u64,
    /// Datagrams, or writes to a stream.
    pub(super) packets: u64,
    lost: Option<u64>,
    reordered: Option<u64>,
    jitter_seconds: Option<f64>,
    retransmits: Option<u64>,
    cwnd_bytes: Option<u64>,
    rtt_seconds: Option<f64>,
    is_sum: bool,
}

impl<'a> Row<'a> {
    pub(super) fn of_interval(
        flow: &'a Flow,
        sends: bool,
        span: [f64; 2],
        count: &IntervalCount,
    ) -> Self {
        Row {
            flow,
            sends,
            span,
            bytes: count.bytes,
            packets: count.packets,
            lost: count.lost_packets,
            reordered: count.reordered_packets,
            jitter_seconds: count.jitter_seconds,
            retransmits: count.retransmits,
            cwnd_bytes: count.cwnd_bytes,
            rtt_seconds: count.rtt_seconds,
            is_sum: false,
        }
    }

    /// The totals of this end.
    pub(super) fn of_flow(flow: &'a Flow) -> Option<Self> {
        if !Iperf2Text::sends(flow) {
            return Self::of_report(flow);
        }
        let sender = flow.sender.as_ref()?;
        let tcp = flow.tcp.as_ref();
        Some(Row {
            flow,
            sends: true,
            span: [0.0, sender.seconds],
            bytes: sender.bytes,
            packets: sender.packets,
            lost: None,
            reordered: None,
            jitter_seconds: None,
            retransmits: tcp.map(|tcp| tcp.retransmits),
            cwnd_bytes: None,
            rtt_seconds: tcp.and_then(|tcp| tcp.rtt_seconds),
            is_sum: false,
        })
    }

    /// The totals of the receiver.
    pub(super) fn of_report(flow: &'a Flow) -> Option<Self> {
        let receiver = flow.receiver.as_ref()?;
        Some(Row {
            flow,
            sends: false,
            span: [0.0, receiver.seconds],
            bytes: receiver.bytes,
            packets: receiver.packets,
            lost: receiver.lost_packets,
            reordered: receiver.reordered_packets,
            jitter_seconds: receiver.jitter_seconds,
            retransmits: None,
            cwnd_bytes: None,
            rtt_seconds: None,
            is_sum: false,
        })
    }

    /// The sum of rows, over the longest of their times.
    pub(super) fn sum(rows: &[Row<'a>]) -> Option<Self> {
        let first = rows.first()?;
        let total = |of: fn(&Row<'_>) -> Option<u64>| rows.iter().map(of).sum::<Option<u64>>();
        Some(Row {
            span: [first.span[0], rows.iter().map(|row| row.span[1]).fold(0.0, f64::max)],
            bytes: rows.iter().map(|row| row.bytes).sum(),
            packets: rows.iter().map(|row| row.packets).sum(),
            sends: rows.iter().all(|row| row.sends),
            lost: total(|row| row.lost),
            reordered: total(|row| row.reordered),
            jitter_seconds: mean(rows.iter().filter_map(|row| row.jitter_seconds)),
            retransmits: total(|row| row.retransmits),
            cwnd_bytes: None,
            rtt_seconds: None,
            is_sum: true,
            ..first.clone()
        })
    }

    fn bits_per_second(&self) -> f64 {
        let seconds = self.span[1] - self.span[0];
        if seconds > 0.0 { 8.0 * self.bytes as f64 / seconds } else { 0.0 }
    }
}

impl Iperf2Text {
    /// A row of text or CSV.
    pub(super) fn row(&self, label: &str, row: &Row<'_>, time: &dyn Fn(f64) -> String) -> String {
        if self.options.csv {
            return self.csv(row, time);
        }
        let [start, end] = row.span;
        let unit = self.options.unit;
        let bits = row.bits_per_second();
        let text = format!(
            "{label} {start:6.4}-{end:6.4} sec  {}  {}",
            unit.volume(row.bytes),
            unit.rate(bits)
        );
        let received = row.packets + row.lost.unwrap_or(0);
        match (self.datagrams(), row.sends, self.options.enhanced) {
            (true, false, _) => {
                let jitter = 1000.0 * row.jitter_seconds.unwrap_or(0.0);
                match row.lost {
                    Some(lost) => format!(
                        "{text}  {jitter:6.3} ms {lost}/{received} ({})\n",
                        percentage(lost, received)
                    ),
                    None => format!("{text}  {jitter:6.3} ms -/{received}\n"),
                }
            }
            (true, true, true) => {
                let seconds = end - start;
                let rate = if seconds > 0.0 { row.packets as f64 / seconds } else { 0.0 };
                format!("{text}  {}/0 {rate:8.0} pps\n", row.packets)
            }
            (false, true, true) => {
                let retransmits = row.retransmits.map_or_else(|| "-".into(), |n| n.to_string());
                let cwnd = row.cwnd_bytes.map_or_else(|| "-".into(), |b| format!("{}K", b / 1024));
                let rtt_us = row.rtt_seconds.map(|rtt| 1e6 * rtt).filter(|rtt| *rtt > 0.0);
                let rtt = rtt_us.map_or_else(|| "-".into(), |rtt| format!("{rtt:.0}"));
                // Throughput over round trip, as iperf defines it: bytes per second and microsecond.
                let power =
                    rtt_us.map_or_else(|| "-".into(), |rtt| format!("{:.0}", bits / 8.0 / rtt));
                format!("{text}  {}/0 {retransmits:>10} {cwnd:>8}/{rtt} us  {power}\n", row.packets)
            }
            _ => text + "\n",
        }
    }

    /// A line of CSV: time, this end's address and port, the other's, number, interval, bytes, bit/s, and of received datagrams
    /// jitter (ms), lost, all, percent lost, reordered.
    fn csv(&self, row: &Row<'_>, time: &dyn Fn(f64) -> String) -> String {
        let [(local, local_port), (remote, remote_port)] = addresses(row.flow);
        let [start, end] = row.span;
        let number = match row.is_sum {
            true => "-1".into(),
            false => {
                (self.first + row.flow.id.saturating_sub(1) % self.streams().max(1)).to_string()
            }
        };
        let [local_port, remote_port] = match row.is_sum {
            true => [0, remote_port],
            false => [local_port, remote_port],
        };
        let mut line = format!(
            "{},{local},{local_port},{remote},{remote_port},{number},{start:.1}-{end:.1},{},{:.0}",
            time(end),
            row.bytes,
            row.bits_per_second()
        );
        if self.datagrams() && !row.sends {
            let lost = row.lost.unwrap_or(0);
            let all = row.packets + lost;
            let percent = if all > 0 { 100.0 * lost as f64 / all as f64 } else { 0.0 };
            line += &format!(
                ",{:.3},{lost},{all},{percent:.3},{}",
                1000.0 * row.jitter_seconds.unwrap_or(0.0),
                row.reordered.unwrap_or(0)
            );
        }
        line + "\n"
    }
}
