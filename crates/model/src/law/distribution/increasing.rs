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
        let last = (self.values - 1) as f64;
        // In steps. Wrapping, each number from 0 to `last` is as frequent as any other; bouncing, the ends are half as
        // frequent.
        let variance = match self.at_end {
            AtEnd::Wrap => last * (last + 2.0) / 12.0,
            AtEnd::Bounce => (last * last + 2.0) / 12.0,
        };
        let to = self.from + last * self.step;
        Moments {
            min: self.from.min(to),
            max: self.from.max(to),
            mean: self.from + last * self.step / 2.0,
            deviation: self.step.abs() * variance.sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_a_period() {
        for (from, step, range) in [(64.0, 8.0, 1336.0), (1400.0, -8.0, -1336.0), (5.0, 1.0, 1.0)] {
            for (at_end, period) in [(AtEnd::Wrap, 1), (AtEnd::Bounce, 2)] {
                let steps = Steps::new(from, step, range, at_end);
                let count = if period == 1 { steps.values } else { 2 * (steps.values - 1) };
                let each = (0..count).map(|index| (steps.at(index), 1.0 / count as f64));
                let (wanted, got) = (Moments::of_weighted(each), steps.moments(0.0, 1e9));
                assert_eq!((got.min, got.max), (wanted.min, wanted.max));
                assert!((got.mean - wanted.mean).abs() < 1e-9, "{got:?} {wanted:?}");
                assert!((got.deviation - wanted.deviation).abs() < 1e-9, "{got:?} {wanted:?}");
            }
        }
    }
}
