//! The other end's reports during the test: shown beside this end's figures, and all that is known of that end if it
//! becomes unreachable before its final report.

use std::collections::{BTreeMap, HashMap};

use weir_model::record::{IntervalCount, Receiver, Sender};

use crate::assemble::add_interval;
use crate::intervals::IntervalClock;

/// Maximum number of counts stored by interval, some 100 MB; above it, the oldest intervals are dropped. Sums include
/// all of them.
const MAX_COUNTS: usize = 500_000;

/// One interval as the other end reported it.
#[derive(Debug, Clone, Default)]
pub struct PeerInterval {
    /// Counts by flow.
    pub flows: HashMap<u32, IntervalCount>,
    /// The sum of what it received, if it reported no single flows, and the number of flows in it (0: not stated).
    pub sum: Option<(IntervalCount, u32)>,
}

/// All that the peer reported of one flow.
#[derive(Debug, Clone, Default)]
struct FlowReport {
    sum: IntervalCount,
    start_ns: u64,
    end_ns: u64,
    /// Time of the reported intervals.
    reported_ns: u64,
}

/// The other end's reports, by interval and in all.
#[derive(Debug, Clone, Default)]
pub struct PeerReports {
    intervals: BTreeMap<usize, PeerInterval>,
    totals: BTreeMap<u32, FlowReport>,
    counts: usize,
    /// Intervals below this have been dropped.
    dropped: usize,
}

impl PeerReports {
    /// Stores interval `index` as reported: counts by flow, flow 0 being the sum of `of` flows. Earlier reports stay,
    /// except for a sum of fewer flows.
    pub fn take(
        &mut self,
        clock: &IntervalClock,
        index: usize,
        flows: impl IntoIterator<Item = (u32, IntervalCount)>,
        of: u32,
    ) {
        let Some(end_ns) = clock.end_offset_ns(index).filter(|_| index >= self.dropped) else {
            return;
        };
        let start_ns = clock.start_offset_ns(index);
        let interval = self.intervals.entry(index).or_default();
        for (id, count) in flows {
            let mut before = None;
            if id == 0 {
                if interval.sum.as_ref().is_some_and(|(_, known)| *known >= of) {
                    continue;
                }
                before = interval.sum.replace((count.clone(), of)).map(|(count, _)| count);
            } else {
                if interval.flows.contains_key(&id) {
                    continue;
                }
                interval.flows.insert(id, count.clone());
            }
            self.counts += usize::from(before.is_none());
            if index < clock.omitted() {
                continue;
            }
            let report = self.totals.entry(id).or_default();
            if let Some(before) = before {
                // A sum of more flows replaces one of fewer.
                report.sum.bytes = report.sum.bytes.saturating_sub(before.bytes);
                report.sum.packets = report.sum.packets.saturating_sub(before.packets);
                for (sum, before) in [
                    (&mut report.sum.lost_packets, before.lost_packets),
                    (&mut report.sum.duplicate_packets, before.duplicate_packets),
                    (&mut report.sum.reordered_packets, before.reordered_packets),
                ] {
                    *sum = sum.map(|s| s.saturating_sub(before.unwrap_or(0)));
                }
            } else {
                if report.reported_ns == 0 {
                    report.start_ns = start_ns;
                }
                report.start_ns = report.start_ns.min(start_ns);
                report.end_ns = report.end_ns.max(end_ns);
                report.reported_ns = report.reported_ns.saturating_add(end_ns - start_ns);
            }
            report.sum.jitter_seconds = count.jitter_seconds.or(report.sum.jitter_seconds);
            let mut sum = Some(std::mem::take(&mut report.sum));
            add_interval(&mut sum, &count);
            report.sum = sum.unwrap_or_default();
        }
        while self.counts > MAX_COUNTS
            && let Some((index, oldest)) = self.intervals.pop_first()
        {
            self.counts -= oldest.flows.len() + usize::from(oldest.sum.is_some());
            self.dropped = index + 1;
        }
    }

    /// What the peer reported of an interval.
    pub fn interval(&self, index: usize) -> Option<&PeerInterval> {
        self.intervals.get(&index)
    }

    /// One flow's count in an interval.
    pub(crate) fn count(&self, index: usize, flow: u32) -> Option<&IntervalCount> {
        self.intervals.get(&index)?.flows.get(&flow)
    }

    /// One past the last reported interval.
    pub(crate) fn intervals(&self) -> usize {
        self.intervals.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    /// What a flow had received, as reported so far. Flow 0: the sums of intervals without reports of single flows.
    pub(crate) fn receiver(&self, flow: u32) -> Option<Receiver> {
        let report = self.totals.get(&flow)?;
        let (seconds, per_second) = report.rates();
        let sent = report.sum.lost_packets.map(|lost| lost.saturating_add(report.sum.packets));
        Some(Receiver {
            bytes: report.sum.bytes,
            packets: report.sum.packets,
            seconds,
            start_seconds: Some(report.start_ns as f64 / 1e9),
            end_seconds: Some(report.end_ns as f64 / 1e9),
            bits_per_second: per_second(report.sum.bytes).map(|rate| 8.0 * rate),
            packets_per_second: per_second(report.sum.packets),
            lost_packets: report.sum.lost_packets,
            loss_ratio: sent
                .filter(|sent| *sent > 0)
                .map(|sent| report.sum.lost_packets.unwrap_or(0) as f64 / sent as f64),
            duplicate_packets: report.sum.duplicate_packets,
            reordered_packets: report.sum.reordered_packets,
            jitter_seconds: report.sum.jitter_seconds,
            reported_until_seconds: Some(report.end_ns as f64 / 1e9),
            ..Receiver::default()
        })
    }

    /// What a flow had sent, as reported so far.
    pub(crate) fn sender(&self, flow: u32) -> Option<Sender> {
        let report = self.totals.get(&flow)?;
        let (seconds, per_second) = report.rates();
        Some(Sender {
            bytes: report.sum.bytes,
            packets: report.sum.packets,
            seconds,
            start_seconds: Some(report.start_ns as f64 / 1e9),
            end_seconds: Some(report.end_ns as f64 / 1e9),
            bits_per_second: per_second(report.sum.bytes).map(|rate| 8.0 * rate),
            packets_per_second: per_second(report.sum.packets),
            reported_until_seconds: Some(report.end_ns as f64 / 1e9),
            ..Sender::default()
        })
    }
}

impl FlowReport {
    /// The time of the reports, and a function for amounts over it.
    fn rates(&self) -> (f64, impl Fn(u64) -> Option<f64> + use<>) {
        let seconds = self.reported_ns as f64 / 1e9;
        (seconds, move |n| (seconds > 0.0).then(|| n as f64 / seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn clock(omit_ns: u64) -> IntervalClock {
        IntervalClock { start_ns: 77, interval_ns: SECOND, omit_ns }
    }

    fn count(packets: u64) -> IntervalCount {
        IntervalCount {
            bytes: 1000 * packets,
            packets,
            lost_packets: Some(1),
            jitter_seconds: Some(packets as f64),
            ..IntervalCount::default()
        }
    }

    #[test]
    fn reports_make_a_receiver_s_part_until_their_end() {
        let (mut peer_reports, clock) = (PeerReports::default(), clock(SECOND));
        for index in [0, 1, 3] {
            peer_reports.take(&clock, index, [(1, count(10 + index as u64))], 0);
        }
        let r = peer_reports.receiver(1).unwrap();
        assert_eq!((r.packets, r.bytes, r.lost_packets), (24, 24_000, Some(2)), "0 is omitted");
        assert_eq!((r.start_seconds, r.reported_until_seconds), (Some(1.0), Some(4.0)));
        assert_eq!((r.seconds, r.packets_per_second), (2.0, Some(12.0)), "over what was reported");
        assert_eq!(r.jitter_seconds, Some(13.0));
        assert_eq!((peer_reports.intervals(), peer_reports.receiver(2)), (4, None));
        assert_eq!(peer_reports.sender(1).unwrap().bits_per_second, Some(96_000.0));
    }

    #[test]
    fn late_reports_are_added_and_repeated_ones_count_once() {
        let (mut peer_reports, clock) = (PeerReports::default(), clock(0));
        peer_reports.take(&clock, 0, [(1, count(5))], 0);
        peer_reports.take(&clock, 0, [(1, count(9)), (2, count(7))], 0);
        assert_eq!(peer_reports.count(0, 1).unwrap().packets, 5);
        assert_eq!(peer_reports.count(0, 2).unwrap().packets, 7);
        assert_eq!(peer_reports.receiver(1).unwrap().packets, 5);
    }

    #[test]
    fn a_sum_of_more_flows_replaces_one_of_fewer() {
        let (mut peer_reports, clock) = (PeerReports::default(), clock(0));
        peer_reports.take(&clock, 0, [(0, count(5))], 3);
        peer_reports.take(&clock, 0, [(0, count(8))], 4);
        peer_reports.take(&clock, 0, [(0, count(2))], 2);
        let (sum, of) = peer_reports.interval(0).unwrap().sum.clone().unwrap();
        assert_eq!((sum.packets, of), (8, 4));
        let all = peer_reports.receiver(0).unwrap();
        assert_eq!((all.packets, all.lost_packets, all.seconds), (8, Some(1), 1.0));
    }

    #[test]
    fn no_peer_fills_the_memory_nor_overflows() {
        let (mut peer_reports, clock) = (PeerReports::default(), clock(0));
        let wild = IntervalCount { bytes: u64::MAX, packets: u64::MAX, ..count(1) };
        for index in 0..6 {
            peer_reports.take(&clock, index, (0..100_001).map(|id| (id, wild.clone())), 1);
        }
        assert!(peer_reports.counts <= MAX_COUNTS);
        assert!(peer_reports.interval(0).is_none() && peer_reports.interval(5).is_some());
        peer_reports.take(&clock, 0, [(1, count(1))], 0);
        assert!(peer_reports.interval(0).is_none(), "a dropped interval stays dropped");
        peer_reports.take(&clock, usize::MAX, [(1, count(1))], 0);
        assert_eq!(peer_reports.receiver(1).unwrap().bytes, u64::MAX);
    }
}
