//! A flow whose datagrams are accounted for outside of this program, which reads the counts from time to time.

use weir_stats::DelaySummary;

use super::{ReceiveCount, Receiving, Tracking};

/// Counts so far of a flow that is accounted for elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// Unique datagrams.
    pub packets: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Copies.
    pub duplicates: u64,
    /// Datagrams too late to be known as new.
    pub late: u64,
    /// Payload bytes of copies and late datagrams.
    pub repeated_bytes: u64,
    /// Reordered.
    pub reordered: u64,
    /// Arrival of the first datagram, if any, on this host's monotonic clock.
    pub first_ns: Option<u64>,
    /// Arrival of the last one, or 0.
    pub last_ns: u64,
    /// Datagrams whose delay is known.
    pub delays: u64,
    /// Sum of these delays, ns.
    pub delay_sum_ns: i64,
    /// Interarrival jitter, ns.
    pub jitter_ns: Option<f64>,
}

/// What the counter of such a flow must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stated {
    /// The sender's clock minus this host's, ns, if known.
    pub clock_offset_ns: Option<i64>,
    /// End of the current interval: the counts at that time are wanted.
    pub interval_end_ns: u64,
}

impl Receiving {
    /// The same receiver for datagrams that are accounted for elsewhere.
    #[must_use]
    pub fn counted_elsewhere(mut self) -> Self {
        self.tracking = Tracking::Elsewhere(Counted::default());
        self
    }

    /// What the counter must know at `now_ns`.
    pub fn stated(&self, now_ns: u64) -> Stated {
        Stated {
            clock_offset_ns: self.related.then(|| self.clock.offset_at(now_ns)),
            interval_end_ns: self.log.next_end_ns(),
        }
    }

    /// Takes counts that were read at `read_ns`, and, if a datagram has arrived since the end of the current interval, those
    /// at that end.
    pub fn take_counts(&mut self, now: &Counted, at_interval_end: Option<&Counted>, read_ns: u64) {
        if self.log.is_due(read_ns) {
            self.add_counts(at_interval_end.unwrap_or(now));
            while self.log.is_due(read_ns) {
                self.close_interval();
            }
        }
        self.add_counts(now);
    }

    fn add_counts(&mut self, counted: &Counted) {
        let Tracking::Elsewhere(before) = &mut self.tracking else { return };
        let before = std::mem::replace(before, *counted);
        // Counts never fall; what was read in the middle of a change may lag.
        let new = |of: fn(&Counted) -> u64| of(counted).saturating_sub(of(&before));
        let delays = new(|c| c.delays);
        let arrived = new(|c| c.packets) + new(|c| c.duplicates) + new(|c| c.late);
        self.count(ReceiveCount {
            packets: new(|c| c.packets),
            bytes: new(|c| c.bytes),
            duplicates: new(|c| c.duplicates),
            late: new(|c| c.late),
            repeated_bytes: new(|c| c.repeated_bytes),
            reordered: new(|c| c.reordered),
            ..ReceiveCount::default()
        });
        self.log.current.delays += delays;
        self.log.current.delay_sum_ns += counted.delay_sum_ns.wrapping_sub(before.delay_sum_ns);
        self.messages += arrived;
        self.first_ns = self.first_ns.or(counted.first_ns);
        self.last_ns = self.last_ns.max(counted.last_ns);
    }

    /// Sets the delays that the counter knows, at the end.
    pub fn set_delays(&mut self, delays: DelaySummary) {
        self.delay = delays;
    }

    /// Datagrams that arrived here although they are accounted for elsewhere.
    pub fn strays(&self) -> u64 {
        self.strays
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::IntervalClock;
    use weir_model::plan::{Connection, EngineName, Family, Plan, TransportName};
    use weir_wire::header::TagKey;

    const SECOND: u64 = 1_000_000_000;

    /// A receiver whose intervals of a second begin at 10 s.
    fn receiving() -> Receiving {
        let connection = Connection {
            transport: TransportName::Udp.into(),
            engine: EngineName::Xdp,
            ..Connection::default()
        };
        let plan = Plan { connections: vec![connection], ..Plan::default() };
        plan.check().unwrap();
        let spec = plan.flows(Family::Ipv4, 1500).remove(0);
        let key = TagKey::for_flow(&[7; 16], spec.id);
        let mut receiving = Receiving::new(&spec, key, SECOND, None).counted_elsewhere();
        receiving.start(IntervalClock { start_ns: 10 * SECOND, interval_ns: SECOND, omit_ns: 0 });
        receiving
    }

    fn counted(packets: u64, at_ns: u64) -> Counted {
        Counted {
            packets,
            bytes: 100 * packets,
            duplicates: packets / 10,
            repeated_bytes: 100 * (packets / 10),
            reordered: 1,
            first_ns: Some(10 * SECOND + 1),
            last_ns: at_ns,
            delays: packets,
            delay_sum_ns: 500 * packets as i64,
            jitter_ns: Some(20.0),
            ..Counted::default()
        }
    }

    #[test]
    fn counts_belong_to_the_interval_in_which_they_were_counted() {
        let mut receiving = receiving();
        assert_eq!(receiving.stated(0).interval_end_ns, 11 * SECOND);
        let (early, end) = (counted(30, 10 * SECOND + 500), counted(40, 11 * SECOND - 1));
        receiving.take_counts(&early, None, 10 * SECOND + 600);
        // Read late: ten more have arrived since the end of the interval.
        receiving.take_counts(&counted(50, 11 * SECOND + 900), Some(&end), 11 * SECOND + 1000);
        assert_eq!(receiving.stated(0).interval_end_ns, 12 * SECOND);
        // Nothing arrived in the third interval, or after the second.
        receiving.take_counts(&counted(60, 12 * SECOND - 5), None, 13 * SECOND + 1000);
        receiving.set_sent_total(70);
        assert!(!receiving.is_complete());
        receiving.finish(13 * SECOND + 2000);
        let packets: Vec<_> = receiving.interval_counts().iter().map(|c| c.packets).collect();
        assert_eq!(packets, [40, 20, 0]);
        let first = receiving.interval_counts().remove(0);
        assert_eq!((first.bytes, first.duplicate_packets), (4000, Some(4)));
        assert_eq!((first.mean_delay_seconds, first.lost_packets), (Some(500e-9), None));
        let report = receiving.report("xdp-native", None, None);
        assert_eq!((report.packets, report.bytes), (60, 6000));
        assert_eq!((report.lost_packets, report.duplicate_packets), (Some(10), Some(6)));
        assert_eq!((report.jitter_seconds, report.io_calls), (Some(20e-9), None));
        assert_eq!(report.loss_periods, None, "not known without the order of arrivals");
        assert_eq!(receiving.time_source(), Some("xdp"));
    }

    #[test]
    fn a_clock_offset_is_stated_once_it_is_known() {
        let mut receiving = receiving();
        assert_eq!(receiving.stated(5).clock_offset_ns, None);
        let clock = crate::SenderClock { offset_ns: -7, skew_ppb: 1000, ..Default::default() };
        receiving.set_clock(clock);
        assert_eq!(receiving.stated(2_000_000).clock_offset_ns, Some(-5));
    }

    #[test]
    fn all_that_was_sent_has_arrived() {
        let mut receiving = receiving();
        receiving.take_counts(&counted(60, 10 * SECOND + 5), None, 10 * SECOND + 10);
        receiving.set_sent_total(60);
        assert!(receiving.is_complete() && receiving.is_over(0));
    }
}
