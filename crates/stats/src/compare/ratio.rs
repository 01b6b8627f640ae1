//! The ratio of two means of positive values, such as rates.

use super::{Moments, Welch};

/// The geometric mean of one sample divided by that of another.
///
/// Rates of repeated runs differ by factors, so their logarithms are compared: the interval is that of
/// [`Welch`] on them, turned back. It is never negative, and swapping the samples inverts it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanRatio {
    /// First divided by second.
    pub ratio: f64,
    /// Its confidence interval; absent without any spread.
    pub interval: Option<(f64, f64)>,
}

impl MeanRatio {
    /// Compares two samples of independent values at `confidence` (such as 0.95). Absent below two values on a
    /// side, or if one is not positive.
    pub fn of(first: &[f64], second: &[f64], confidence: f64) -> Option<Self> {
        let logarithms = |values: &[f64]| {
            let all: Vec<f64> = values.iter().map(|v| libm::log(*v)).collect();
            Moments::of(&all)
        };
        let (first, second) = (logarithms(first)?, logarithms(second)?);
        let interval = Welch::of(&first, &second).and_then(|welch| welch.interval(confidence));
        let ratio = libm::exp(first.mean - second.mean);
        let interval = interval.map(|(low, high)| (libm::exp(low), libm::exp(high)));
        ratio.is_finite().then_some(MeanRatio { ratio, interval })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn swapping_the_samples_inverts_the_interval(
            a in prop::collection::vec(0.1..1e3f64, 2..20),
            b in prop::collection::vec(0.1..1e3f64, 2..20),
        ) {
            let (Some(there), Some(back)) = (MeanRatio::of(&a, &b, 0.95), MeanRatio::of(&b, &a, 0.95))
            else { return Ok(()) };
            prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
            if let (Some((low, high)), Some((other, _))) = (there.interval, back.interval) {
                prop_assert!(low <= there.ratio && there.ratio <= high && low >= 0.0);
                prop_assert!((high * other - 1.0).abs() < 1e-6 || !high.is_normal() || other == 0.0);
            }
        }
    }

    #[test]
    fn the_interval_is_that_of_the_logarithms() {
        // Logarithms 1 ± 0.1 and 0 ± 0.1: three values each, standard error 0.1 × √(2 / 3), 4 degrees of freedom,
        // of which the 97.5 % quantile of Student's t is 2.776445.
        let about = |mean: f64| [-0.1, 0.0, 0.1].map(|off| libm::exp(mean + off));
        let found = MeanRatio::of(&about(1.0), &about(0.0), 0.95).unwrap();
        let half = 2.776_445 * 0.1 * (2.0f64 / 3.0).sqrt();
        let (low, high) = found.interval.unwrap();
        assert!((found.ratio - std::f64::consts::E).abs() < 1e-9, "{found:?}");
        assert!((low - libm::exp(1.0 - half)).abs() < 1e-5, "{found:?}");
        assert!((high - libm::exp(1.0 + half)).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn rates_of_zero_and_single_values_have_no_ratio() {
        assert_eq!(MeanRatio::of(&[0.0, 1.0], &[1.0, 1.0], 0.95), None);
        assert_eq!(MeanRatio::of(&[1.0], &[1.0, 1.0], 0.95), None);
        let steady = MeanRatio::of(&[2.0, 2.0], &[1.0, 1.0], 0.95).unwrap();
        assert!((steady.ratio - 2.0).abs() < 1e-12 && steady.interval.is_none());
    }
}
