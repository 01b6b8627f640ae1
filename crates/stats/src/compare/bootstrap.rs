//! The percentile bootstrap: an interval for a figure whose distribution is not known.

use super::all_finite;

/// The SplitMix64 generator (G. L. Steele, D. Lea and C. H. Flood, OOPSLA 2014): for resampling, never for traffic.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A whole number below `bound` (0 for a bound of 0). Its bias is below `bound` × 2⁻⁶⁴.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to 1, 1 left out, of 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The median. Sorts the values; NaN without any.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => 0.5 * (values[middle - 1] + values[middle]),
    }
}

/// The percentile interval of the median at `confidence` (such as 0.95) from `resamples` of these independent values
/// (B. Efron, Annals of Statistics 7, 1979): the values are resampled with replacement, and the interval
/// spans the middle of the medians.
///
/// Absent below two values, when one is not finite, without resamples, or for an invalid confidence.
pub fn bootstrap_median(
    values: &[f64],
    resamples: u32,
    confidence: f64,
    random: &mut SplitMix64,
) -> Option<(f64, f64)> {
    if values.len() < 2 || !all_finite(values) {
        return None;
    }
    let mut drawn = vec![0.0; values.len()];
    let medians = (0..resamples).map(|_| {
        drawn.fill_with(|| values[random.below(values.len() as u64) as usize]);
        median(&mut drawn)
    });
    middle(medians.collect(), confidence)
}

/// Ends of the middle `confidence` of the results, by nearest rank, so that infinite results are allowed.
pub(super) fn middle(mut results: Vec<f64>, confidence: f64) -> Option<(f64, f64)> {
    if results.is_empty() || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    results.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    let at = |share: f64| {
        let rank = (share * results.len() as f64 * (1.0 - 1e-12)).ceil() as usize;
        results[rank.clamp(1, results.len()) - 1]
    };
    Some((at(tail), at(1.0 - tail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // The reference's first outputs for seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(
            [random.draw(), random.draw(), random.draw()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        assert_eq!(SplitMix64::new(1).below(0), 0);
        assert!((0..1000).all(|seed| SplitMix64::new(seed).below(7) < 7));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut []).is_nan());
    }

    /// About 90 % of the intervals at 90 % contain the true value, somewhat fewer with so few values.
    #[test]
    fn intervals_have_their_nominal_coverage() {
        let mut random = SplitMix64::new(3);
        let held = (0..400)
            .filter(|_| {
                let values: Vec<f64> = (0..25).map(|_| random.unit()).collect();
                let (low, high) = bootstrap_median(&values, 400, 0.9, &mut random).unwrap();
                (low..=high).contains(&0.5)
            })
            .count();
        assert!((340..=385).contains(&held), "{held} of 400");
    }

    #[test]
    fn invalid_input_has_no_interval() {
        let mut random = SplitMix64::new(1);
        assert_eq!(bootstrap_median(&[1.0], 100, 0.95, &mut random), None);
        assert_eq!(bootstrap_median(&[1.0, 2.0], 0, 0.95, &mut random), None);
        assert_eq!(bootstrap_median(&[1.0, 2.0], 10, 1.0, &mut random), None);
        assert_eq!(bootstrap_median(&[1.0, f64::NAN], 10, 0.9, &mut random), None);
        assert_eq!(bootstrap_median(&[2.0, 2.0], 10, 0.9, &mut random), Some((2.0, 2.0)));
    }
}
