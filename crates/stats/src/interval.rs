//! Bytes and packets by interval, aligned to the start of the test.

/// Bytes and packets of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Start, ns on the clock that was given.
    pub start_ns: u64,
    /// End, ns: the aligned one, or where the flow ended.
    pub end_ns: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

impl Interval {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }

    /// 8 × bytes ÷ seconds, bit/s; absent for an interval without length.
    pub fn bits_per_second(&self) -> Option<f64> {
        (self.end_ns > self.start_ns).then(|| self.bytes as f64 * 8.0 / self.seconds())
    }

    /// Packets ÷ seconds; absent for an interval without length.
    pub fn packets_per_second(&self) -> Option<f64> {
        (self.end_ns > self.start_ns).then(|| self.packets as f64 / self.seconds())
    }
}

/// Sums bytes and packets between aligned ends: start + n × length, whenever the calls come.
///
/// Before adding what came at a time, call [`roll`](Self::roll) with it until it returns nothing; intervals without
/// traffic are returned too.
#[derive(Debug, Clone)]
pub struct IntervalAccumulator {
    length_ns: u64,
    open: Interval,
    total_bytes: u64,
    total_packets: u64,
    start_ns: u64,
}

impl IntervalAccumulator {
    /// Intervals of `length_ns` (at least 1) from `start_ns` on.
    pub fn new(start_ns: u64, length_ns: u64) -> Self {
        let length_ns = length_ns.max(1);
        let end_ns = start_ns.saturating_add(length_ns);
        Self {
            length_ns,
            open: Interval { start_ns, end_ns, bytes: 0, packets: 0 },
            total_bytes: 0,
            total_packets: 0,
            start_ns,
        }
    }

    /// The time from which [`roll`](Self::roll) has something to return, ns: compare before calling.
    #[inline]
    pub fn end_ns(&self) -> u64 {
        self.open.end_ns
    }

    /// Closes and returns the open interval if it has ended by `now_ns`.
    pub fn roll(&mut self, now_ns: u64) -> Option<Interval> {
        // At the end of time there is no next interval.
        if now_ns < self.open.end_ns || self.open.end_ns == u64::MAX {
            return None;
        }
        let start_ns = self.open.end_ns;
        let end_ns = start_ns.saturating_add(self.length_ns);
        Some(std::mem::replace(&mut self.open, Interval { start_ns, end_ns, bytes: 0, packets: 0 }))
    }

    /// Adds to the open interval.
    #[inline]
    pub fn add(&mut self, bytes: u64, packets: u64) {
        self.open.bytes += bytes;
        self.open.packets += packets;
        self.total_bytes += bytes;
        self.total_packets += packets;
    }

    /// Ends at `now_ns`: returns the last, partial interval, and the whole. Call [`roll`](Self::roll) before. The
    /// partial one is absent if it has neither length nor traffic.
    pub fn finish(self, now_ns: u64) -> (Option<Interval>, Interval) {
        let end_ns = now_ns.max(self.open.start_ns);
        let last = Interval { end_ns, ..self.open };
        let is_empty = last.end_ns == last.start_ns && last.packets == 0 && last.bytes == 0;
        let whole = Interval {
            start_ns: self.start_ns,
            end_ns,
            bytes: self.total_bytes,
            packets: self.total_packets,
        };
        ((!is_empty).then_some(last), whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_aligned_however_late_the_calls_come() {
        let mut intervals = IntervalAccumulator::new(500, 1000);
        intervals.add(100, 1);
        assert_eq!(intervals.roll(1499), None);
        assert_eq!(
            intervals.roll(3700),
            Some(Interval { start_ns: 500, end_ns: 1500, bytes: 100, packets: 1 })
        );
        assert_eq!(
            intervals.roll(3700),
            Some(Interval { start_ns: 1500, end_ns: 2500, bytes: 0, packets: 0 })
        );
        assert!(intervals.roll(3700).is_some());
        assert_eq!(intervals.roll(3700), None);
        intervals.add(50, 2);
        let (last, whole) = intervals.finish(4000);
        assert_eq!(last, Some(Interval { start_ns: 3500, end_ns: 4000, bytes: 50, packets: 2 }));
        assert_eq!(whole, Interval { start_ns: 500, end_ns: 4000, bytes: 150, packets: 3 });
    }

    #[test]
    fn rates() {
        let second = Interval { start_ns: 0, end_ns: 500_000_000, bytes: 1000, packets: 10 };
        assert_eq!(second.bits_per_second(), Some(16_000.0));
        assert_eq!(second.packets_per_second(), Some(20.0));
        assert_eq!(Interval { end_ns: 0, ..second }.bits_per_second(), None);
        let (last, _) = IntervalAccumulator::new(7, 1).finish(7);
        assert_eq!(last, None);
        assert_eq!(IntervalAccumulator::new(u64::MAX - 1, 10).roll(u64::MAX), None);
    }
}
