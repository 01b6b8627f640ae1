//! Variation between neighbours (IPDV, RFC 3393, RFC 5481 section 4.1).

use crate::histogram::Histogram;
use crate::sequence::SequenceTracker;

/// Initial size of the ring, delays.
const MIN_KEPT: usize = 32;
/// Maximum size of the ring, delays: 8 MiB.
const MAX_KEPT: usize = 1 << 19;
/// Maximum size of the ring per stored delay: few packets with distant numbers take little memory, and the
/// first packets of a widely reordered flow still find room.
const SLOTS_PER_DELAY: usize = 1024;
const NONE: u64 = u64::MAX;

/// Inter-packet delay variation: the delay of packet n minus that of packet n − 1, in order of sending.
///
/// A pair counts when both packets were received, in either order. A delay is stored as long as a neighbour
/// of its packet may still arrive. The ring has at most 1024 times the stored delays and at most 524 288;
/// pairs missed for that reason are counted as omitted. The distribution is that of the absolute value, as
/// clock drift makes signs meaningless over time. Copies must not be recorded. Independent of the clocks'
/// offset.
#[derive(Debug, Clone)]
pub struct Ipdv {
    /// Ring of (number, delay); its length is a power of two.
    recent: Vec<(u64, i64)>,
    most: usize,
    /// Number of delays in the ring.
    stored: usize,
    /// Delays of numbers below this may have been dropped.
    floor: u64,
    absolute: Histogram,
    sum: u128,
    omitted: u64,
}

impl Default for Ipdv {
    fn default() -> Self {
        Self::new()
    }
}

impl Ipdv {
    /// An empty distribution.
    pub fn new() -> Self {
        Self {
            recent: vec![(NONE, 0); MIN_KEPT],
            most: MAX_KEPT,
            stored: 0,
            floor: 0,
            absolute: Histogram::new(),
            sum: 0,
            omitted: 0,
        }
    }

    /// Limits the delays that are kept for neighbours that are still awaited: 16 bytes each.
    pub fn limit(&mut self, most: usize) {
        self.most = most.clamp(MIN_KEPT, MAX_KEPT);
    }

    /// Packet `seq` arrived with delay `delay_ns` (any clock offset). `tracker` must have recorded it
    /// before; it determines which neighbours are still awaited.
    #[inline]
    pub fn record(&mut self, seq: u64, delay_ns: i64, tracker: &SequenceTracker) {
        if seq > 0 {
            self.pair(seq - 1, delay_ns, tracker);
        }
        self.pair(seq.saturating_add(1), delay_ns, tracker);
        self.store(seq, delay_ns, tracker);
    }

    #[inline]
    fn index(&self, seq: u64) -> usize {
        seq as usize & (self.recent.len() - 1)
    }

    #[inline]
    fn pair(&mut self, neighbour: u64, delay_ns: i64, tracker: &SequenceTracker) {
        // NONE is never a neighbour: sequence numbers stay far below it.
        let (seq, other_ns) = self.recent[self.index(neighbour)];
        if seq == neighbour && seq != NONE {
            let difference = delay_ns.abs_diff(other_ns);
            self.sum += u128::from(difference);
            self.absolute.record(difference);
        } else if neighbour < self.floor && tracker.has_arrived(neighbour) {
            self.omitted += 1;
        }
    }

    /// Stores a delay. Of two packets with the same slot the lower number is dropped; while one of its
    /// neighbours is awaited, the ring grows instead.
    #[inline]
    fn store(&mut self, seq: u64, delay_ns: i64, tracker: &SequenceTracker) {
        let mut index = self.index(seq);
        loop {
            let other = self.recent[index].0;
            if other == NONE {
                self.stored += 1;
                break;
            }
            let lower = other.min(seq);
            let is_wanted = tracker.is_awaited(lower.saturating_sub(1))
                || tracker.is_awaited(lower.saturating_add(1));
            let max = self.most.min(SLOTS_PER_DELAY * self.stored);
            if !is_wanted || self.recent.len() >= max {
                self.floor = self.floor.max(lower + 1);
                if lower == seq {
                    return;
                }
                break;
            }
            self.grow();
            index = self.index(seq);
        }
        self.recent[index] = (seq, delay_ns);
    }

    #[cold]
    fn grow(&mut self) {
        let doubled = vec![(NONE, 0); 2 * self.recent.len()];
        for (seq, delay_ns) in std::mem::replace(&mut self.recent, doubled) {
            if seq != NONE {
                let index = self.index(seq);
                self.recent[index] = (seq, delay_ns);
            }
        }
    }

    /// Upper bound of the pairs of received neighbours that are missing, because their packets were
    /// displaced too far.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Pairs seen.
    pub fn count(&self) -> u64 {
        self.absolute.count()
    }

    /// Mean of |IPDV|, ns.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// Quantile (0 to 1) of |IPDV|, ns, when at least 10 / (1 − q) pairs were seen.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        self.absolute.quantile(quantile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::SequenceConfig;
    use proptest::prelude::*;

    /// The distribution of packets (number, delay) in order of arrival, one each 100 µs.
    fn ipdv_of(packets: &[(u64, i64)]) -> Ipdv {
        let mut tracker = SequenceTracker::new(SequenceConfig::default());
        let mut ipdv = Ipdv::new();
        for (n, &(seq, delay_ns)) in (0u64..).zip(packets) {
            tracker.on_packet(seq, n * 100_000);
            ipdv.record(seq, delay_ns, &tracker);
        }
        ipdv
    }

    /// Packets sent every 100 µs, in the order in which they arrive.
    fn by_arrival(mut packets: Vec<(u64, i64)>) -> Vec<(u64, i64)> {
        packets.sort_by_key(|&(seq, delay_ns)| (seq as i64 * 100_000 + delay_ns, seq));
        packets
    }

    #[test]
    fn pairs_are_by_sequence_whatever_the_arrival() {
        // Delays 10, 20, 40, 80; each order of arrival gives the same three pairs.
        let delays = [10, 20, 40, 80];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
            let ipdv = ipdv_of(&order.map(|seq| (seq, delays[seq as usize])));
            assert_eq!(ipdv.count(), 3, "{order:?}");
            assert_eq!(ipdv.mean_ns(), Some(70.0 / 3.0), "{order:?}");
        }
    }

    #[test]
    fn a_lost_neighbour_makes_no_pair() {
        let ipdv = ipdv_of(&[0, 2, 4, 38, 39].map(|seq| (seq, seq as i64)));
        assert_eq!((ipdv.count(), ipdv.omitted()), (1, 0));
    }

    #[test]
    fn quantile_of_the_absolute_value() {
        let packets: Vec<_> =
            (0..1001).map(|seq| (seq, if seq % 2 == 0 { 0 } else { -500 })).collect();
        let ipdv = ipdv_of(&packets);
        assert_eq!(ipdv.quantile_ns(0.99), Some(500));
        assert_eq!(ipdv.absolute.max(), Some(500));
        assert_eq!(ipdv.recent.len(), MIN_KEPT, "a flow in order needs no more");
    }

    proptest! {
        /// Delays that reorder by any distance within the loss threshold, some packets lost.
        #[test]
        fn every_pair_counts_however_far_its_packets_were_reordered(
            seed in any::<u64>(),
            spread_us in 1u64..500_000,
            packets in 2u64..6000,
        ) {
            let mut state = seed;
            let mut draw = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            let mut delays: Vec<(u64, i64)> =
                (0..packets).map(|seq| (seq, draw(spread_us) as i64 * 1000)).collect();
            delays.retain(|_| draw(20) > 0);
            let ipdv = ipdv_of(&by_arrival(delays.clone()));
            let pairs = delays.windows(2).filter(|w| w[0].0 + 1 == w[1].0);
            let pairs: Vec<u64> = pairs.map(|w| w[0].1.abs_diff(w[1].1)).collect();
            prop_assert_eq!((ipdv.count(), ipdv.omitted()), (pairs.len() as u64, 0));
            prop_assert_eq!(ipdv.sum, pairs.iter().map(|&p| u128::from(p)).sum::<u128>());
        }
    }

    #[test]
    fn variation_that_reorders_is_not_cut_off() {
        // Alternately 0 and 40 ms: neighbours arrive 400 numbers apart.
        let delay = |seq: u64| if seq.is_multiple_of(2) { 0 } else { 40_000_000 };
        let ipdv = ipdv_of(&by_arrival((0..20_000).map(|seq| (seq, delay(seq))).collect()));
        assert_eq!((ipdv.count(), ipdv.omitted()), (19_999, 0));
        let p99 = ipdv.quantile_ns(0.99).unwrap();
        assert!(p99.abs_diff(40_000_000) <= 40_000_000 / 1024, "{p99}");
    }

    #[test]
    fn pairs_beyond_the_largest_window_are_counted_as_omitted() {
        let far = MAX_KEPT as u64 + 10;
        let mut tracker = SequenceTracker::new(SequenceConfig::default());
        let mut ipdv = Ipdv::new();
        for seq in (0..far).filter(|n| *n != 5).chain([5]) {
            tracker.on_packet(seq, seq);
            ipdv.record(seq, 7, &tracker);
        }
        assert_eq!((ipdv.count(), ipdv.omitted()), (far - 1 - 2, 2));
        assert_eq!(ipdv.recent.len(), MAX_KEPT);
    }

    #[test]
    fn memory_after_a_far_jump_depends_on_the_number_of_packets() {
        let mut tracker = SequenceTracker::new(SequenceConfig::default());
        let mut ipdv = Ipdv::new();
        for seq in [0, 1 << 20, 1, 1 << 31, 1 << 30, u64::from(u32::MAX)] {
            tracker.on_packet(seq, 0);
            ipdv.record(seq, 0, &tracker);
        }
        assert!(ipdv.recent.len() <= 6 * SLOTS_PER_DELAY, "{}", ipdv.recent.len());
    }
}
