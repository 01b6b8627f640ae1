//! Values that fall by equal steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::increasing::{AtEnd, Steps, check_steps};
use super::{Distribution, Prepared, Quantity};
use crate::ModelError;
use crate::law::is_default;

/// Values that fall by equal steps. Uses no draws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "Q: Quantity")]
#[schemars(bound = "Q: Quantity")]
pub struct Decreasing<Q: Quantity> {
    /// The first value.
    #[schemars(example = Q::example("1400", "20ms"))]
    pub start: Q,
    /// No value is below this.
    #[schemars(example = Q::example("64", "1ms"))]
    pub end: Q,
    /// The step, above 0; at most 100 000 steps.
    #[schemars(example = Q::example("8", "1ms"))]
    pub step: Q,
    /// What follows the last value: `wrap` starts again, `bounce` returns by the same steps. Absent: `wrap`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at_end: AtEnd,
    #[serde(skip)]
    prepared: Prepared<Steps>,
}

impl<Q: Quantity> Distribution for Decreasing<Q> {
    const IS_INDEPENDENT: bool = false;
    const IS_CLAMPED: bool = false;
    type Quantity = Q;
    type Source = Steps;

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_steps(at, self.step, (self.end, self.start), "end")
    }

    fn source(&self) -> Steps {
        let range = self.end.value() - self.start.value();
        Steps::new(self.start.value(), -self.step.value(), range, self.at_end)
    }

    fn prepared(&self) -> &Prepared<Steps> {
        &self.prepared
    }
}
