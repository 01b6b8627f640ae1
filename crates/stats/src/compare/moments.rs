//! Mean and variance with the effective sample size.

use super::{all_finite, effective_size};
use crate::Sample;

/// Mean, variance and effective size of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// The number of repetitions, or the effective size of a series (not an integer then).
    pub size: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Variance, unbiased for that many independent values.
    pub variance: f64,
}

impl Moments {
    /// The moments of independent values; absent below two, or when one is not finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        let sample = Sample::of(values).filter(|_| all_finite(values))?;
        Some(Moments { size: sample.count as f64, mean: sample.mean, variance: sample.variance? })
    }

    /// The moments of a time series, by its [`effective_size`]. Absent where that is absent or 1.
    ///
    /// Dependent values spread less about their own mean than about the true one. So the variance is the
    /// sum of squares ÷ n ÷ (1 − 1 / effective size), which is the usual variance when they are
    /// independent.
    pub fn of_series(values: &[f64]) -> Option<Self> {
        let size = effective_size(values).filter(|size| *size > 1.0)?;
        let sample = Sample::of(values)?;
        let count = sample.count as f64;
        let plain = sample.variance? * (count - 1.0) / count;
        Some(Moments { size, mean: sample.mean, variance: plain / (1.0 - 1.0 / size) })
    }

    /// Standard deviation: the root of the variance.
    pub fn standard_deviation(&self) -> f64 {
        self.variance.sqrt()
    }

    /// Square of the standard error of the mean.
    pub(crate) fn error_square(&self) -> f64 {
        self.variance / self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_dependent_series_is_below_its_length() {
        let steps: Vec<f64> = (0..64).map(|i| f64::from(i / 16 % 2)).collect();
        let (series, naive) = (Moments::of_series(&steps).unwrap(), Moments::of(&steps).unwrap());
        assert!(series.size < 16.0 && naive.size == 64.0, "{series:?}");
        assert_eq!(series.mean, naive.mean);
        assert!(series.variance > naive.variance);
    }

    #[test]
    fn invalid_values_have_no_moments() {
        assert_eq!(Moments::of(&[1.0]), None);
        assert_eq!(Moments::of(&[1.0, f64::NAN]), None);
        assert_eq!(Moments::of_series(&[1.0; 3]), None);
        assert_eq!(Moments::of_series(&[5.0; 10]).unwrap().variance, 0.0);
    }
}
