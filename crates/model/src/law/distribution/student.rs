//! Student's t distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::QuantileTable;

use super::gamma::Tabled;
use super::{
    Bounds, Distribution, Inverse, Prepared, Quantity, check_number, check_positive,
    check_quantity, distribution,
};
use crate::ModelError;

distribution! {
    /// Values of Student's t distribution, scaled and moved.
    Student: Inverse<Tabled> {
        /// Degrees of freedom, 0.25 to 1000. Up to 1 there is no mean: sizes and intervals require `max`.
        #[schemars(example = 4)]
        degrees: f64,
        /// Median.
        #[schemars(example = Q::example("700", "40ms"))]
        location: Q,
        /// Scale, above 0.
        #[schemars(example = Q::example("100", "2ms"))]
        scale: Q,
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_number(at, "degrees", self.degrees, 0.25, 1000.0)?;
        check_quantity(at, "location", self.location)?;
        check_positive(at, "scale", self.scale)
    }

    fn tables(&self) -> usize {
        1
    }

    fn source(&self) -> Self::Source {
        Inverse(Tabled {
            location: self.location.value(),
            scale: self.scale.value(),
            table: QuantileTable::student(self.degrees),
        })
    }

    fn has_mean(&self) -> bool {
        self.degrees > 1.0
    }

    fn has_variance(&self) -> bool {
        self.degrees > 2.0
    }
}
