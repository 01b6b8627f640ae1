//! The Weibull distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Bounds, Distribution, Inverse, Prepared, Quantile, Quantity, check_number, check_scale,
    distribution,
};
use crate::ModelError;

distribution! {
    /// Weibull values: above x with probability exp(−(x/`scale`)^`shape`).
    Weibull: Inverse<Stretched> {
        /// Shape, 0.1 to 1000: 1 is exponential, less has a heavier tail.
        #[schemars(example = 1.5)]
        shape: f64,
        /// Scale, above 0. Absent: of intervals, given by the rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(example = Q::example("500", "5ms"))]
        scale: Option<Q>,
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_number(at, "shape", self.shape, 0.1, 1000.0)?;
        check_scale(at, "scale", self.scale)
    }

    fn source(&self) -> Self::Source {
        Inverse(Stretched { scale: self.scale.map_or(1.0, Q::value), exponent: 1.0 / self.shape })
    }

    fn unit_mean(&self) -> Option<f64> {
        self.scale.is_none().then(|| libm::tgamma(1.0 + 1.0 / self.shape))
    }
}

/// scale·(−ln p)^(1/shape), which falls with p.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretched {
    scale: f64,
    exponent: f64,
}

impl Quantile for Stretched {
    #[inline]
    fn at(&self, p: f64) -> f64 {
        // The power by its logarithm costs a third of `pow`, and loses no digit that matters.
        self.scale * libm::exp(self.exponent * libm::log(-libm::log(p)))
    }
}
