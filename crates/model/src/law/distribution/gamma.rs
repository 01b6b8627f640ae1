//! The gamma distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::QuantileTable;

use super::{
    Bounds, Distribution, Inverse, Prepared, Quantile, Quantity, check_number, check_scale,
    distribution,
};
use crate::ModelError;

distribution! {
    /// Gamma values: mean `shape`·`scale`, variance `shape`·`scale`². With a whole shape: Erlang.
    Gamma: Inverse<Tabled> {
        /// Shape, 0.1 to 1000.
        #[schemars(example = 2)]
        shape: f64,
        /// Scale, above 0. Absent: of intervals, given by the rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(example = Q::example("300", "5ms"))]
        scale: Option<Q>,
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_number(at, "shape", self.shape, 0.1, 1000.0)?;
        check_scale(at, "scale", self.scale)
    }

    fn tables(&self) -> usize {
        1
    }

    fn source(&self) -> Self::Source {
        Inverse(Tabled {
            location: 0.0,
            scale: self.scale.map_or(1.0, Q::value),
            table: QuantileTable::gamma(self.shape),
        })
    }

    fn unit_mean(&self) -> Option<f64> {
        self.scale.is_none().then_some(self.shape)
    }
}

/// location + scale·Q(p), Q from a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Tabled {
    pub(super) location: f64,
    pub(super) scale: f64,
    pub(super) table: QuantileTable,
}

impl Quantile for Tabled {
    #[inline]
    fn at(&self, p: f64) -> f64 {
        self.location + self.scale * self.table.at(p)
    }
}
