//! The Cauchy distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Bounds, Distribution, Inverse, Prepared, Quantile, Quantity, check_positive, check_quantity,
    distribution,
};
use crate::ModelError;

distribution! {
    /// Cauchy values. They have no mean: sizes and intervals require `max`.
    Cauchy: Inverse<Tangent> {
        /// Median.
        #[schemars(example = Q::example("700", "10ms"))]
        location: Q,
        /// Half of the distance between the quartiles, above 0.
        #[schemars(example = Q::example("50", "1ms"))]
        scale: Q,
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_quantity(at, "location", self.location)?;
        check_positive(at, "scale", self.scale)
    }

    fn source(&self) -> Self::Source {
        Inverse(Tangent { location: self.location.value(), scale: self.scale.value() })
    }

    fn has_mean(&self) -> bool {
        false
    }

    fn has_variance(&self) -> bool {
        false
    }
}

/// location − scale/tan(π·p), which rises with p.
#[derive(Clone, Debug, PartialEq)]
pub struct Tangent {
    location: f64,
    scale: f64,
}

impl Quantile for Tangent {
    #[inline]
    fn at(&self, p: f64) -> f64 {
        // Towards the nearer end, where the angle keeps its digits.
        let (tail, sign) = if p < 0.5 { (p, -1.0) } else { (1.0 - p, 1.0) };
        self.location + sign * self.scale / libm::tan(core::f64::consts::PI * tail)
    }
}
