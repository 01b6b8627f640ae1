//! Variation between neighbours (IPDV, RFC 3393, RFC 5481 section 4.1).

use crate::histogram::Histogram;

/// Delays remembered: a packet finds its neighbour if it is displaced by less than this.
const KEPT: usize = 32;
const NONE: u64 = u64::MAX;

/// Inter-packet delay variation: the delay of packet n minus that of packet n − 1, in order of sending.
///
/// A pair counts when both came; reordered packets find their neighbours if displaced by less than 32 numbers. The
/// distribution is that of the absolute value, as sender and receiver drift makes signs meaningless over time.
/// A copy must not be fed. Independent of the clocks' offset.
#[derive(Debug, Clone)]
pub struct Ipdv {
    recent: [(u64, i64); KEPT],
    absolute: Histogram,
    sum: u128,
}

impl Default for Ipdv {
    fn default() -> Self {
        Self::new()
    }
}

impl Ipdv {
    /// A distribution that has seen nothing.
    pub fn new() -> Self {
        Self { recent: [(NONE, 0); KEPT], absolute: Histogram::new(), sum: 0 }
    }

    /// Packet `seq` came with delay `delay_ns` (any clock offset).
    #[inline]
    pub fn record(&mut self, seq: u64, delay_ns: i64) {
        if seq > 0 {
            self.pair(seq - 1, delay_ns);
        }
        self.pair(seq.saturating_add(1), delay_ns);
        self.recent[seq as usize % KEPT] = (seq, delay_ns);
    }

    #[inline]
    fn pair(&mut self, neighbour: u64, delay_ns: i64) {
        // NONE is never a neighbour: the number it would be is out of reach.
        let (seq, other_ns) = self.recent[neighbour as usize % KEPT];
        if seq == neighbour && seq != NONE {
            let difference = delay_ns.abs_diff(other_ns);
            self.sum += u128::from(difference);
            self.absolute.record(difference);
        }
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

    /// The distribution of |IPDV|.
    pub fn histogram(&self) -> &Histogram {
        &self.absolute
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_by_sequence_whatever_the_arrival() {
        // Delays 10, 20, 40, 80; each order of arrival gives the same three pairs.
        let delays = [10, 20, 40, 80];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
            let mut ipdv = Ipdv::new();
            for seq in order {
                ipdv.record(seq, delays[seq as usize]);
            }
            assert_eq!(ipdv.count(), 3, "{order:?}");
            assert_eq!(ipdv.mean_ns(), Some(70.0 / 3.0), "{order:?}");
        }
    }

    #[test]
    fn a_lost_neighbour_makes_no_pair() {
        let mut ipdv = Ipdv::new();
        for seq in [0, 2, 4, 38, 39, u64::MAX, 0] {
            ipdv.record(seq, seq as i64);
        }
        assert_eq!(ipdv.count(), 1);
    }

    #[test]
    fn quantile_of_the_absolute_value() {
        let mut ipdv = Ipdv::new();
        for seq in 0..1001u64 {
            ipdv.record(seq, if seq % 2 == 0 { 0 } else { -500 });
        }
        assert_eq!(ipdv.quantile_ns(0.99), Some(500));
        assert_eq!(ipdv.histogram().max(), Some(500));
    }
}
