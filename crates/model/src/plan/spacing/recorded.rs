//! Intervals of recorded packets, which the sender reads from a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{Interval, SpacingMoments, SpacingRule};
use crate::ModelError;
use crate::law::{Law, Running, refuse};
use crate::law::distribution::Quantity;

/// Intervals between the packets of a capture, which only the sender knows (`weir test --replay`). The plan has their
/// summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Mean.
    #[schemars(example = "10ms")]
    pub mean: Interval,
    /// Minimum.
    #[schemars(example = "1us")]
    pub min: Interval,
    /// Maximum.
    #[schemars(example = "2s")]
    pub max: Interval,
    /// Standard deviation.
    #[schemars(example = "5ms")]
    pub deviation: Interval,
}

impl Law for Recorded {
    const IS_SUMMARY: bool = true;
    type Running = Means;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        if !(1.0..=Interval::MAX).contains(&self.mean.value()) {
            return refuse(at, "mean", self.mean, "1ns to 1h");
        }
        if self.max > Interval::LIMIT {
            return refuse(at, "max", self.max, &format!("up to {}", Interval::LIMIT));
        }
        if self.min > self.mean {
            return refuse(at, "min", self.min, "at most mean");
        }
        if self.max < self.mean {
            return refuse(at, "max", self.max, "at least mean");
        }
        if self.deviation > self.max {
            return refuse(at, "deviation", self.deviation, "at most max");
        }
        Ok(())
    }

    fn start(&self) -> Means {
        Means
    }
}

/// A stand-in for the recorded intervals where these are unknown, as in a simulation: their mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Means;

impl Running for Means {
    type Outcome = f64;

    #[inline]
    fn next(&mut self, _: &mut Draws) -> f64 {
        1.0
    }
}

impl SpacingRule for Recorded {
    fn is_independent(&self) -> bool {
        false
    }

    fn has_mean(&self) -> bool {
        true
    }

    fn moments(&self) -> SpacingMoments {
        let mean = self.mean.value();
        SpacingMoments {
            mean_ns: Some(mean),
            variation: self.deviation.value() / mean,
            min: self.min.value() / mean,
            max: self.max.value() / mean,
        }
    }
}
