//! The Pareto distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Bounds, Distribution, Inverse, Prepared, Quantile, Quantity, check_number, check_scale,
    distribution,
};
use crate::ModelError;
use crate::law::refuse;

distribution! {
    /// Pareto values: above x with probability (`scale`/x) to the power of `shape`. A heavy tail.
    Pareto: Inverse<Tail> {
        /// Exponent of the tail, 0.1 to 1000. Up to 1 there is no mean, and `max` is required.
        #[schemars(example = 3)]
        shape: f64,
        /// Minimum before clamping, above 0. Absent: of intervals, given by the rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(example = Q::example("200", "5ms"))]
        scale: Option<Q>,
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_number(at, "shape", self.shape, 0.1, 1000.0)?;
        check_scale(at, "scale", self.scale)?;
        if self.scale.is_none() && self.shape <= 1.0 {
            let accepted = "above 1, or a law with scale and max: up to 1 there is no mean";
            return refuse(at, "shape", self.shape, accepted);
        }
        Ok(())
    }

    fn source(&self) -> Self::Source {
        Inverse(Tail { scale: self.scale.map_or(1.0, Q::value), exponent: -1.0 / self.shape })
    }

    fn unit_mean(&self) -> Option<f64> {
        self.scale.is_none().then(|| self.shape / (self.shape - 1.0))
    }

    fn has_mean(&self) -> bool {
        self.shape > 1.0
    }
}

/// scale·p^(−1/shape), which falls with p.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    scale: f64,
    exponent: f64,
}

impl Quantile for Tail {
    #[inline]
    fn at(&self, p: f64) -> f64 {
        self.scale * libm::pow(p, self.exponent)
    }
}
