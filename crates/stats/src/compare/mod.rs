//! Comparing samples: whether two sets of measurements differ, by how much, and what one run is worth.
//!
//! Repetitions of a test are taken as independent; the intervals of one run seldom are, since queues, windows and
//! neighbours last longer than an interval. [`Moments::of`] is for the former, [`Moments::of_series`] and
//! [`batch_means`] for the latter: they count a series as the number of independent values that it is worth.

mod autocorrelation;
mod bootstrap;
mod effect;
mod holm;
mod kolmogorov;
mod mann_whitney;
mod moments;
mod saturation;
mod segments;
mod welch;

pub use autocorrelation::{autocorrelation, batch_means, effective_size};
pub use bootstrap::{SplitMix64, bootstrap, bootstrap_median, median};
pub use effect::hedges_g;
pub use holm::holm;
pub use kolmogorov::KolmogorovSmirnov;
pub use mann_whitney::MannWhitney;
pub use moments::Moments;
pub use saturation::{LoadPoint, Saturation, SaturationPoint, saturation};
pub use segments::TwoSegments;
pub use welch::Welch;

/// Whether every value is a number that can be computed with.
fn all_finite(values: &[f64]) -> bool {
    values.iter().all(|v| v.is_finite())
}

/// P(Z > z) of the standard normal distribution.
fn normal_upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2)
}
