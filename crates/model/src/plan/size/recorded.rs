//! Sizes of recorded packets, which the sender reads from a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{SizeMoments, SizeRule};
use crate::ModelError;
use crate::law::{Law, Stateless, refuse};
use crate::units::ByteSize;

/// Sizes of the packets of a capture, which only the sender knows (`weir test --replay`). The plan has their summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Minimum, bytes.
    #[schemars(example = "64")]
    pub min: ByteSize,
    /// Maximum, bytes.
    #[schemars(example = "1400")]
    pub max: ByteSize,
    /// Mean, bytes.
    #[schemars(example = 700.5)]
    pub mean: f64,
    /// Standard deviation, bytes.
    #[schemars(example = 250.0)]
    pub deviation: f64,
}

impl Law for Recorded {
    const IS_SUMMARY: bool = true;
    type Running = Between;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        let (min, max) = (self.min.0 as f64, self.max.0 as f64);
        if self.min > self.max {
            return refuse(at, "min", self.min, "at most max");
        }
        if !(min..=max).contains(&self.mean) {
            return refuse(at, "mean", self.mean, "min to max");
        }
        if !(0.0..=max - min).contains(&self.deviation) {
            return refuse(at, "deviation", self.deviation, "0 to max - min");
        }
        Ok(())
    }

    fn start(&self) -> Between {
        Between { min: self.min.0, values: self.max.0.saturating_sub(self.min.0) + 1 }
    }
}

/// A stand-in for the recorded sizes where these are unknown, as in a simulation: uniform between the bounds, by draw 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Between {
    min: u64,
    values: u64,
}

impl Stateless for Between {
    type Outcome = u64;

    #[inline]
    fn at(&self, draws: &mut Draws) -> u64 {
        let part = (u128::from(draws.bits()) * u128::from(self.values)) >> 64;
        self.min + part as u64
    }
}

impl SizeRule for Recorded {
    fn moments(&self) -> SizeMoments {
        SizeMoments {
            min_bytes: self.min.0,
            max_bytes: self.max.0,
            mean_bytes: self.mean,
            deviation_bytes: self.deviation,
        }
    }

    fn is_independent(&self) -> bool {
        false
    }
}
