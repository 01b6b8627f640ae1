//! The log-normal distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::normal_quantile;

use super::{
    Bounds, Distribution, Inverse, Prepared, Quantile, Quantity, check_positive, check_quantity,
    distribution,
};
use crate::ModelError;

distribution! {
    /// Log-normal values: their logarithm is normal.
    LogNormal: Inverse<LogBell> {
        /// Mean of the values, not of their logarithm, before clamping; above 0.
        #[schemars(example = Q::example("700", "10ms"))]
        mean: Q,
        /// Standard deviation of the values before clamping.
        #[schemars(example = Q::example("400", "5ms"))]
        deviation: Q,
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_positive(at, "mean", self.mean)?;
        check_quantity(at, "deviation", self.deviation)
    }

    fn source(&self) -> Self::Source {
        let (mean, deviation) = (self.mean.value(), self.deviation.value());
        let variance = libm::log1p((deviation / mean) * (deviation / mean));
        Inverse(LogBell { median: mean * libm::exp(-variance / 2.0), sigma: variance.sqrt() })
    }
}

/// median·exp(σ·Φ⁻¹(p)), with σ² = ln(1 + deviation²/mean²) and median = mean·exp(−σ²/2).
#[derive(Clone, Debug, PartialEq)]
pub struct LogBell {
    median: f64,
    sigma: f64,
}

impl Quantile for LogBell {
    #[inline]
    fn at(&self, p: f64) -> f64 {
        self.median * libm::exp(self.sigma * normal_quantile(p))
    }
}
