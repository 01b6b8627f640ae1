//! Autocorrelation and effective sample size of a time series.

use super::all_finite;

/// Minimum length: a shorter series does not show how its values depend on each other.
const MIN: usize = 8;
/// Longer series are averaged down to at most this length first, so that the work is bounded.
const MAX: usize = 4096;

/// Autocorrelation at `lag`, from −1 to 1: the autocovariance (divided by n at every lag, Box & Jenkins 1976,
/// section 2.1.5) over the variance. Absent when the values are all equal, not finite, or fewer than `lag` + 1.
pub fn autocorrelation(values: &[f64], lag: usize) -> Option<f64> {
    if values.len() <= lag || !all_finite(values) {
        return None;
    }
    let centred = centred(values);
    let power: f64 = centred.iter().map(|v| v * v).sum();
    (power > 0.0).then(|| covariance(&centred, lag) / power)
}

/// Effective sample size: the number of independent values with an equally precise mean, from 1 to the
/// length n. It is n ÷ τ with the integrated autocorrelation time τ = 1 + 2 Σ ρ(lag). τ is the larger of
/// two estimates:
///
/// - Geyer's initial positive sequence (Practical Markov Chain Monte Carlo, Statistical Science 7, 1992, section 3.3):
///   pairs ρ(2k) + ρ(2k + 1) are summed until one is not positive. It assumes no model, and needs a long series.
/// - The τ of a first-order autoregressive series, (1 + φ) ÷ (1 − φ), with φ = ρ(1) + (1 + 3 ρ(1)) ÷ n: the
///   correction of M. G. Kendall (Biometrika 41, 1954) for the bias of a short series, which is measured
///   about its own mean.
///
/// With Geyer's alone, series of ten values with φ = 0.9 would be called different 40 times of 100 at the 5 % level;
/// with both, 8 times. Negative correlation (τ below 1) is not counted in favour of the series. All values equal: n.
/// Absent below 8 values, or when one is not finite. Beyond 4096 values neighbours are averaged first, and the answer
/// is at most the number of averages.
pub fn effective_size(values: &[f64]) -> Option<f64> {
    if values.len() < MIN || !all_finite(values) {
        return None;
    }
    if values.len() > MAX {
        return effective_size(&means(values, values.len().div_ceil(MAX)));
    }
    let count = values.len() as f64;
    let centred = centred(values);
    let power: f64 = centred.iter().map(|v| v * v).sum();
    if power == 0.0 {
        return Some(count);
    }
    let mut sum = 0.0;
    for lag in (0..values.len() - 1).step_by(2) {
        let pair = (covariance(&centred, lag) + covariance(&centred, lag + 1)) / power;
        if pair <= 0.0 {
            break;
        }
        sum += pair;
    }
    let neighbours = covariance(&centred, 1) / power;
    let coefficient = (neighbours + (1.0 + 3.0 * neighbours) / count).min(1.0 - 1.0 / count);
    let autoregressive = (1.0 + coefficient) / (1.0 - coefficient);
    let time = (2.0 * sum - 1.0).max(autoregressive).max(1.0);
    Some((count / time).max(1.0))
}

/// Means of consecutive batches that are long enough to be independent of each other, for tests that need
/// independent values. A batch has n ÷ effective size values, rounded up; an incomplete last batch is left
/// out. Returns the series itself where its values are independent. Absent where [`effective_size`] is.
pub fn batch_means(values: &[f64]) -> Option<Vec<f64>> {
    // A quotient such as 12 / (12 / 3) must not be rounded up by its last bit.
    let length = (values.len() as f64 / effective_size(values)? * (1.0 - 1e-12)).ceil() as usize;
    Some(means(values, length.max(1)))
}

/// Means of consecutive whole batches of `length` values.
fn means(values: &[f64], length: usize) -> Vec<f64> {
    values.chunks_exact(length).map(|batch| batch.iter().sum::<f64>() / length as f64).collect()
}

fn centred(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|v| v - mean).collect()
}

/// Sum of products of values `lag` apart.
fn covariance(centred: &[f64], lag: usize) -> f64 {
    centred.iter().zip(centred.iter().skip(lag)).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::SplitMix64;

    /// AR(1) with this coefficient and uniform shocks, after 200 values, so that it is stationary.
    fn autoregressive(coefficient: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut random = SplitMix64::new(seed);
        let mut value = 0.0;
        (0..count + 200)
            .map(|_| {
                value = coefficient * value + random.unit() - 0.5;
                value
            })
            .skip(200)
            .collect()
    }

    #[test]
    fn effective_size_of_an_autoregressive_series_agrees_with_theory() {
        // τ of AR(1) is (1 + φ) / (1 − φ).
        for coefficient in [0.0, 0.3, 0.6, 0.9] {
            let theory = (1.0 - coefficient) / (1.0 + coefficient);
            let sizes: Vec<f64> = (0..20)
                .map(|seed| effective_size(&autoregressive(coefficient, 4000, seed)).unwrap())
                .collect();
            let share = sizes.iter().sum::<f64>() / 20.0 / 4000.0;
            assert!((0.75..1.25).contains(&(share / theory)), "{coefficient}: {share} {theory}");
        }
    }

    #[test]
    fn effective_size_of_an_alternating_series_is_its_length() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert_eq!(effective_size(&values), Some(100.0));
        assert!(autocorrelation(&values, 1).unwrap() < -0.9);
    }

    #[test]
    fn a_trend_has_a_small_effective_size() {
        let values: Vec<f64> = (0..60).map(f64::from).collect();
        assert!(effective_size(&values).unwrap() < 4.0);
        assert!(batch_means(&values).unwrap().len() < 5);
    }

    #[test]
    fn long_series_are_bounded_and_agree() {
        let long = autoregressive(0.9, 50_000, 1);
        let share = effective_size(&long).unwrap() / 50_000.0;
        assert!((0.03..0.07).contains(&share), "{share}");
        let independent = autoregressive(0.0, 50_000, 2);
        assert!(effective_size(&independent).unwrap() > 3000.0);
    }

    #[test]
    fn batches_of_independent_values_are_the_values() {
        let values = autoregressive(0.0, 40, 5);
        let same = effective_size(&values).unwrap();
        let batches = batch_means(&values).unwrap();
        assert_eq!(batches.len(), 40 / (40.0 / same * (1.0 - 1e-12)).ceil() as usize);
        let alternating = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0];
        assert_eq!(batch_means(&alternating).unwrap(), alternating);
    }

    #[test]
    fn series_without_a_result_are_absent() {
        assert_eq!(effective_size(&[1.0; 7]), None);
        assert_eq!(effective_size(&[1.0; 8]), Some(8.0));
        assert_eq!(effective_size(&[f64::INFINITY; 10]), None);
        assert_eq!(autocorrelation(&[1.0, 2.0], 2), None);
        assert_eq!(autocorrelation(&[2.0, 2.0, 2.0], 1), None);
    }
}
