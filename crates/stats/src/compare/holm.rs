//! Correction for multiple tests: of twenty tests, one is below 0.05 by chance.

/// p values adjusted for their number, in the order given (S. Holm, Scandinavian Journal of Statistics 6,
/// 1979). The chance of any false positive stays below the level, even if the tests depend on each other.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut highest: f64 = 0.0;
    for (rank, place) in order.into_iter().enumerate() {
        highest = highest.max(((p.len() - rank) as f64 * p[place]).min(1.0));
        adjusted[place] = highest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_is_multiplied_by_the_number_of_tests() {
        let adjusted = holm(&[0.04, 0.01, 0.03, 0.5]);
        for (got, expected) in adjusted.iter().zip([0.09, 0.04, 0.09, 0.5]) {
            assert!((got - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.2]), [0.2]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
