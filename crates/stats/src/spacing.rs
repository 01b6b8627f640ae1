//! Timing errors of a paced sender.

use crate::histogram::rank_of;
use crate::signed::SignedHistogram;

/// Achieved spacing: for each two consecutive packets, actual gap − intended gap, signed ns.
///
/// Absolute values are exact below 2 µs and within 1/1024 above.
#[derive(Debug, Clone, Default)]
pub struct Spacing {
    errors: SignedHistogram,
    previous: Option<(u64, u64)>,
}

impl Spacing {
    /// A spacing without packets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a packet due at `intended_ns` that left at `actual_ns`.
    #[inline]
    pub fn on_sent(&mut self, intended_ns: u64, actual_ns: u64) {
        if let Some((intended, actual)) = self.previous {
            let actual_gap = actual_ns.wrapping_sub(actual) as i64;
            let intended_gap = intended_ns.wrapping_sub(intended) as i64;
            self.errors.record(actual_gap.wrapping_sub(intended_gap));
        }
        self.previous = Some((intended_ns, actual_ns));
    }

    /// Quantile (0 to 1) of the signed error, ns, by nearest rank, with at least 10 / (1 − q) gaps.
    pub fn quantile_ns(&self, quantile: f64) -> Option<i64> {
        self.errors.value_at_rank(rank_of(quantile, self.errors.count())?)
    }

    /// Half the range from the 16th to the 84th percentile of the error, ns: the standard deviation of
    /// normal errors, but insensitive to a few outliers. Needs 63 gaps.
    pub fn half_range_ns(&self) -> Option<f64> {
        let high = self.quantile_ns(0.84)?;
        let low = self.quantile_ns(0.16)?;
        Some((i128::from(high) - i128::from(low)) as f64 / 2.0)
    }

    /// Signed errors with their counts, from low to high.
    pub fn errors(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.errors.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_of_gaps() {
        let mut spacing = Spacing::new();
        // Every second packet is 300 ns late: gaps are off by +300 and −300 in turn.
        for slot in 0..101u64 {
            spacing.on_sent(slot * 1000, slot * 1000 + slot % 2 * 300);
        }
        assert_eq!(spacing.errors().collect::<Vec<_>>(), [(-300, 50), (300, 50)]);
        assert_eq!(spacing.half_range_ns(), Some(300.0));
    }

    #[test]
    fn few_gaps_give_no_range() {
        let mut spacing = Spacing::new();
        (0..63).for_each(|slot| spacing.on_sent(slot, slot));
        assert_eq!(spacing.errors.count(), 62);
        assert_eq!(spacing.half_range_ns(), None);
    }
}
