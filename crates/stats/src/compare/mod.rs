//! Comparing samples: whether two sets of measurements differ, by how much, and the effective size of a
//! series.
//!
//! Repetitions of a test are assumed to be independent. The intervals of one run seldom are, since queues,
//! windows and competing traffic last longer than an interval. [`Moments::of`] is for repetitions;
//! [`Moments::of_series`] and [`batch_means`] are for intervals and use the series' effective sample size.

mod autocorrelation;
mod bootstrap;
mod effect;
mod holm;
mod kolmogorov;
mod mann_whitney;
mod moments;
mod ratio;
mod saturation;
mod segments;
mod welch;

pub use autocorrelation::{autocorrelation, batch_means, effective_size};
pub use bootstrap::{SplitMix64, bootstrap_median};
pub use effect::hedges_g;
pub use holm::holm;
pub use kolmogorov::KolmogorovSmirnov;
pub use mann_whitney::MannWhitney;
pub use moments::Moments;
pub use ratio::MeanRatio;
pub use saturation::{LoadPoint, Saturation, SaturationPoint, saturation};
pub use segments::TwoSegments;
pub use welch::Welch;

/// Whether every value is finite.
fn all_finite(values: &[f64]) -> bool {
    values.iter().all(|v| v.is_finite())
}

/// P(Z > z) of the standard normal distribution.
fn normal_upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2)
}
