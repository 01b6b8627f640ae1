//! Values that rise by equal steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{Distribution, Moments, Prepared, Quantity, Source, check_quantity};
use crate::ModelError;
use crate::law::{is_default, refuse};

/// Maximum number of steps.
const MAX_STEPS: f64 = 100_000.0;

/// Values that rise by equal steps. Uses no draws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "Q: Quantity")]
#[schemars(bound = "Q: Quantity")]
pub struct Increasing<Q: Quantity> {
    /// The first value.
    #[schemars(example = Q::example("64", "1ms"))]
    pub start: Q,
    /// No value is above this.
    #[schemars(example = Q::example("1400", "20ms"))]
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

/// What follows the last value of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AtEnd {
    /// The first value.
    #[default]
    Wrap,
    /// The value before the last.
    Bounce,
}

impl<Q: Quantity> Distribution for Increasing<Q> {
    const IS_INDEPENDENT: bool = false;
    const IS_CLAMPED: bool = false;
    type Quantity = Q;
    type Source = Steps;

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_steps(at, self.step, (self.start, self.end), "start")
    }

    fn source(&self) -> Steps {
        let range = self.end.value() - self.start.value();
        Steps::new(self.start.value(), self.step.value(), range, self.at_end)
    }

    fn prepared(&self) -> &Prepared<Steps> {
        &self.prepared
    }
}

/// Checks a sequence from the lower to the higher of its ends; `lower` is the field of the former.
pub(super) fn check_steps<Q: Quantity>(
    at: &str,
    step: Q,
    (low, high): (Q, Q),
    lower: &str,
) -> Result<(), ModelError> {
    let higher = if lower == "start" { "end" } else { "start" };
    check_quantity(at, higher, high)?;
    if low >= high {
        return refuse(at, lower, low, &format!("below {higher}"));
    }
    let steps = (high.value() - low.value()) / step.value();
    if !(1.0..=MAX_STEPS).contains(&steps) {
        return refuse(at, "step", step, "at least one and at most 100000 steps");
    }
    Ok(())
}

/// from + n·step, n = index mod steps; where it bounces, n = index mod 2·(steps − 1) from either end.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    from: f64,
    step: f64,
    values: u64,
    at_end: AtEnd,
}

impl Steps {
    /// A sequence from `from` over `range`, both with the sign of `step`.
    pub(super) fn new(from: f64, step: f64, range: f64, at_end: AtEnd) -> Self {
        Steps { from, step, values: (range / step) as u64 + 1, at_end }
    }

    fn at(&self, index: u64) -> f64 {
        let last = self.values - 1;
        let n = match self.at_end {
            AtEnd::Wrap => index % self.values,
            // There is at least one step.
            AtEnd::Bounce => {
                let n = index % (2 * last);
                n.min(2 * last - n)
            }
        };
        self.from + n as f64 * self.step
    }
}

impl Source for Steps {
    #[inline]
    fn value(&self, index: u64, _: &mut Draws) -> f64 {
        self.at(index)
    }

    fn moments(&self, _: f64, _: f64) -> Moments {
        let period = match self.at_end {
            AtEnd::Wrap => self.values,
            AtEnd::Bounce => 2 * (self.values - 1),
        };
        let part = 1.0 / period as f64;
        Moments::of_weighted((0..period).map(|index| (self.at(index), part)))
    }
}
