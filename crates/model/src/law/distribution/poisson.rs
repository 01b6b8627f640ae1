//! The Poisson distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Draws, WeightedChoice};

use super::{
    Bounds, Distribution, Moments, Prepared, Quantity, Source, check_positive, distribution,
};
use crate::ModelError;
use crate::law::refuse;

/// Maximum of mean ÷ unit.
const MAX_MEAN: f64 = 100_000.0;

distribution! {
    /// Poisson values: whole multiples of `unit`.
    Poisson: Counts {
        /// Mean before clamping: above 0, up to 100 000 units.
        #[schemars(example = Q::example("500", "10ms"))]
        mean: Q,
        /// The unit. Absent: 1 byte; for intervals 1 ms.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unit: Option<Q>,
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_positive(at, "mean", self.mean)?;
        let unit = self.unit.unwrap_or(Q::STEP);
        check_positive(at, "unit", unit)?;
        if self.mean.value() > MAX_MEAN * unit.value() {
            return refuse(at, "mean", self.mean, "up to 100000 units");
        }
        Ok(())
    }

    fn tables(&self) -> usize {
        1
    }

    fn source(&self) -> Counts {
        let unit = self.unit.unwrap_or(Q::STEP).value();
        Counts::new(self.mean.value() / unit, unit)
    }
}

/// A number of units: those that occur with a probability of at least about 10⁻¹⁷.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    first: u64,
    unit: f64,
    weights: Vec<f64>,
    choice: WeightedChoice,
}

impl Counts {
    fn new(mean: f64, unit: f64) -> Self {
        // Chernoff's bound on both sides.
        let width = 9.0 * mean.sqrt() + 40.0;
        let first = (mean - width).max(0.0) as u64;
        let log_mean = libm::log(mean);
        let weight = |n: u64| {
            let n = n as f64;
            libm::exp(n * log_mean - mean - libm::lgamma(n + 1.0))
        };
        let weights: Vec<f64> = (first..=(mean + width) as u64).map(weight).collect();
        let total: f64 = weights.iter().sum();
        let weights: Vec<f64> = weights.into_iter().map(|weight| weight / total).collect();
        Counts { first, unit, choice: WeightedChoice::new(&weights), weights }
    }
}

impl Source for Counts {
    #[inline]
    fn value(&self, _: u64, draws: &mut Draws) -> f64 {
        (self.first + self.choice.index(draws.bits()) as u64) as f64 * self.unit
    }

    fn moments(&self, low: f64, high: f64) -> Moments {
        let counts = (self.first..).map(|n| (n as f64 * self.unit).clamp(low, high));
        Moments::of_weighted(counts.zip(self.weights.iter().copied()))
    }
}
