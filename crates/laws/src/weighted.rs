//! A choice between weighted alternatives.

/// Chooses an index with a probability in proportion to its weight, within 2⁻⁵³.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedChoice {
    /// For each index but the last: draws below this choose it or one before.
    thresholds: Box<[u64]>,
}

impl WeightedChoice {
    /// Weights that are not negative and not all zero.
    #[must_use]
    pub fn new(weights: &[f64]) -> Self {
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let thresholds = weights.iter().take(weights.len().saturating_sub(1)).map(|weight| {
            sum += weight;
            // The product is below 2⁶⁴ or saturates.
            (sum / total * 2f64.powi(64)) as u64
        });
        Self { thresholds: thresholds.collect() }
    }

    /// The index that 64 random bits choose.
    #[inline]
    #[must_use]
    pub fn index(&self, bits: u64) -> usize {
        self.thresholds.partition_point(|threshold| *threshold <= bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_index_has_its_part_of_the_draws() {
        let choice = WeightedChoice::new(&[1.0, 0.0, 2.0, 1.0]);
        let quarter = 1u64 << 62;
        for (bits, index) in [
            (0, 0),
            (quarter - 1, 0),
            (quarter, 2),
            (3 * quarter - 1, 2),
            (3 * quarter, 3),
            (u64::MAX, 3),
        ] {
            assert_eq!(choice.index(bits), index, "{bits}");
        }
        assert_eq!(WeightedChoice::new(&[5.0]).index(u64::MAX), 0);
    }
}
