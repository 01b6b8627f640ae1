//! What the server states during and after a test, and the report of the far end that it makes.

use weir_model::plan::{Direction, FlowSpec};
use weir_model::record::{DirectionTotal, IntervalCount, Receiver, Record, Sender, Sums, Tcp};
use weir_model::report::{EndReport, FlowReport};

use super::figures::{Amount, Line};

/// Most intervals that are stored.
const MAX_INTERVALS: usize = 100_000;
/// Amounts are rounded to this many bytes: 0.0001 MB.
const ROUNDING: u64 = 105;

/// What the server has stated.
#[derive(Debug, Default)]
pub(super) struct Stated {
    pub(super) result: Option<Amount>,
    intervals: Vec<Amount>,
    retransmits: Option<u64>,
    calls: Option<u64>,
    /// Why the server can't continue.
    pub(super) error: Option<String>,
}

impl Stated {
    pub(super) fn take(&mut self, line: &str) {
        match Line::parse(line) {
            Line::Interval(amount) if self.intervals.len() < MAX_INTERVALS => {
                self.intervals.push(amount);
            }
            Line::Result(amount) => self.result = Some(amount),
            Line::Retransmits(number) => self.retransmits = Some(number),
            Line::Calls(number) => self.calls = Some(number),
            Line::Error(text) => {
                self.error.get_or_insert(text);
            }
            Line::Interval(_) | Line::Done | Line::Other => {}
        }
    }

    /// Datagrams of `size` bytes that the server has sent or received. `near`: those of this end.
    pub(super) fn packets(&self, size: u64, near: u64) -> Option<u64> {
        self.result.map(|amount| nearest(amount.bytes, size, near))
    }

    /// The report of the far end of the only flow. `near`: this end's.
    pub(super) fn report(&self, spec: &FlowSpec, near: &EndReport) -> Option<EndReport> {
        let amount = self.result?;
        let own = near.flows.iter().find(|flow| flow.id == spec.id);
        let report = FlowReport { id: spec.id, ..FlowReport::default() };
        let is_datagrams = spec.connection.transport.datagrams();
        let size = spec.max_payload();
        let near_packets = own.map_or(0, |own| match spec.connection.direction {
            Direction::Forward => own.sender.as_ref().map_or(0, |sender| sender.packets),
            Direction::Reverse => own.receiver.as_ref().map_or(0, |receiver| receiver.packets),
        });
        let packets = if is_datagrams { nearest(amount.bytes, size, near_packets) } else { 0 };
        let near_bytes = own.map(|own| match spec.connection.direction {
            Direction::Forward => own.sender.as_ref().map_or(0, |sender| sender.bytes),
            Direction::Reverse => own.receiver.as_ref().map_or(0, |receiver| receiver.bytes),
        });
        let bytes = match near_bytes {
            _ if is_datagrams => packets.saturating_mul(size),
            // The stated amount is a rounded one.
            Some(near) if near.abs_diff(amount.bytes) <= ROUNDING / 2 + 1 => near,
            _ => amount.bytes,
        };
        let per_second = |count: u64| (amount.seconds > 0.0).then(|| count as f64 / amount.seconds);
        let flow = match spec.connection.direction {
            Direction::Forward => {
                let sent = own.and_then(|own| own.sender.as_ref()).filter(|_| is_datagrams);
                let sent = sent.map(|sent| sent.packets);
                let lost = sent.map(|sent| sent.saturating_sub(packets));
                FlowReport {
                    receiver: Some(Receiver {
                        bytes,
                        packets,
                        seconds: amount.seconds,
                        bits_per_second: per_second(bytes.saturating_mul(8)),
                        packets_per_second: per_second(packets).filter(|_| is_datagrams),
                        io_calls: self.calls,
                        lost_packets: lost,
                        loss_ratio: ratio(lost, sent),
                        ..Receiver::default()
                    }),
                    intervals: self.interval_counts(bytes, is_datagrams.then_some((packets, size))),
                    ..report
                }
            }
            Direction::Reverse => FlowReport {
                sender: Some(Sender {
                    bytes,
                    packets,
                    seconds: amount.seconds,
                    bits_per_second: per_second(bytes.saturating_mul(8)),
                    packets_per_second: per_second(packets).filter(|_| is_datagrams),
                    io_calls: self.calls,
                    ..Sender::default()
                }),
                tcp: self.retransmits.filter(|_| !is_datagrams).map(|retransmits| Tcp {
                    retransmits,
                    mss_bytes: own.and_then(|own| own.tcp.as_ref()).map_or(0, |tcp| tcp.mss_bytes),
                    ..Tcp::default()
                }),
                ..report
            },
        };
        Some(EndReport { flows: vec![flow], ..EndReport::default() })
    }

    /// The server's intervals, and what it received after them. `datagrams`: their number and size.
    fn interval_counts(&self, bytes: u64, datagrams: Option<(u64, u64)>) -> Vec<IntervalCount> {
        let count = |amount: &Amount| {
            let packets = datagrams.map(|(_, size)| packets(amount.bytes, size));
            IntervalCount {
                bytes: amount.bytes,
                packets: packets.unwrap_or(0),
                lost_packets: amount.lost_of.map(|(lost, _)| lost).filter(|_| packets.is_some()),
                ..IntervalCount::default()
            }
        };
        let mut counts: Vec<IntervalCount> = self.intervals.iter().map(count).collect();
        let sum = counts.iter().fold(0_u64, |sum, count| sum.saturating_add(count.bytes));
        let rest = bytes.saturating_sub(sum);
        if !counts.is_empty() && rest > ROUNDING * counts.len() as u64 {
            let amount = Amount { bytes: rest, ..Amount::default() };
            counts.push(count(&amount));
        }
        counts
    }

    /// Sets the server's figures of several flows in a record: it states their sum alone.
    pub(super) fn set_sum(&self, record: &mut Record, specs: &[FlowSpec]) {
        let (Some(amount), [first, _, ..]) = (self.result, specs) else { return };
        let is_datagrams = first.connection.transport.datagrams();
        let is_received = first.connection.direction == Direction::Reverse;
        let totals = &mut record.total;
        let total = if is_received { &mut totals.reverse } else { &mut totals.forward };
        let total = total.get_or_insert_with(DirectionTotal::default);
        let near = if is_received { &total.receiver } else { &total.sender };
        let size = first.max_payload();
        let near_packets = near.as_ref().map_or(0, |near| near.packets);
        let packets = if is_datagrams { nearest(amount.bytes, size, near_packets) } else { 0 };
        let bytes = match near.as_ref().map(|near| near.bytes) {
            _ if is_datagrams => packets.saturating_mul(size),
            Some(near) if near.abs_diff(amount.bytes) <= ROUNDING / 2 + 1 => near,
            _ => amount.bytes,
        };
        let sent = near.as_ref().map(|near| near.packets).filter(|_| is_datagrams && !is_received);
        let lost = sent.map(|sent| sent.saturating_sub(packets));
        let per_second = |count: u64| (amount.seconds > 0.0).then(|| count as f64 / amount.seconds);
        let sums = Sums {
            bytes,
            packets,
            seconds: amount.seconds,
            bits_per_second: per_second(bytes.saturating_mul(8)),
            packets_per_second: per_second(packets).filter(|_| is_datagrams),
            lost_packets: lost,
            loss_ratio: ratio(lost, sent),
            retransmits: self.retransmits.filter(|_| is_received),
            ..Sums::default()
        };
        *(if is_received { &mut total.sender } else { &mut total.receiver }) = Some(sums);
        // It has reported, although not of each flow.
        record.warnings.retain(|warning| warning.code != "end-lost");
    }
}

fn packets(bytes: u64, size: u64) -> u64 {
    let size = size.max(1);
    bytes.saturating_add(size / 2) / size
}

/// The same, or `near`, the number at this end, where it is within the rounding: several numbers of short datagrams are.
fn nearest(bytes: u64, size: u64, near: u64) -> u64 {
    match near.saturating_mul(size).abs_diff(bytes) <= ROUNDING / 2 + 1 {
        true => near,
        false => packets(bytes, size),
    }
}

fn ratio(lost: Option<u64>, sent: Option<u64>) -> Option<f64> {
    let (lost, sent) = lost.zip(sent)?;
    (sent > 0).then(|| lost as f64 / sent as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stated_number_of_short_datagrams_is_the_near_one_within_the_rounding() {
        // 0.0005 MB: 524 bytes.
        assert_eq!(nearest(524, 10, 50), 50);
        assert_eq!(nearest(524, 10, 60), 52);
        assert_eq!(nearest(524, 500, 2), 1);
        assert_eq!(nearest(u64::MAX, 0, 3), u64::MAX);
    }
}
