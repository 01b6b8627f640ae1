//! The normal distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::normal_quantile;

use super::{
    Bounds, Distribution, Inverse, Prepared, Quantile, Quantity, check_positive, check_quantity,
    distribution,
};
use crate::ModelError;

distribution! {
    /// Normal (Gaussian) values.
    Normal: Inverse<Bell> {
        /// Mean before clamping, above 0.
        #[schemars(example = Q::example("700", "10ms"))]
        mean: Q,
        /// Standard deviation before clamping.
        #[schemars(example = Q::example("200", "2ms"))]
        deviation: Q,
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_positive(at, "mean", self.mean)?;
        check_quantity(at, "deviation", self.deviation)
    }

    fn source(&self) -> Self::Source {
        Inverse(Bell { mean: self.mean.value(), deviation: self.deviation.value() })
    }
}

/// mean + deviation·Φ⁻¹(p).
#[derive(Clone, Debug, PartialEq)]
pub struct Bell {
    mean: f64,
    deviation: f64,
}

impl Quantile for Bell {
    #[inline]
    fn at(&self, p: f64) -> f64 {
        self.mean + self.deviation * normal_quantile(p)
    }
}
