//! A mixture of normal and Pareto shape, as netem's table `paretonormal` has it.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Draws, QuantileTable, clamped_moments, normal_quantile, open_unit_interval};

use super::{DelayMoments, DelayRule, check_span, round_ns};
use crate::ModelError;
use crate::law::distribution::{Clamp, FURTHEST};
use crate::law::{Law, MeanAndSpread, Running, Words};
use crate::units::Span;

/// A delay with a long upper tail: one quarter of normal and three quarters of Pareto shape. netem's `paretonormal`, with the
/// stated mean and standard deviation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Pareto-normal")]
pub struct ParetoNormal {
    /// Mean delay.
    #[schemars(example = "20ms")]
    pub mean: Span,
    /// Standard deviation.
    #[schemars(example = "5ms")]
    pub deviation: Span,
}

impl Law for ParetoNormal {
    const SHORT_FORMS: &'static [&'static str] = &["T ±T paretonormal"];
    type Running = Mixed;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let Some(MeanAndSpread { mean, spread, .. }) = words.mean_and_spread()? else {
            return Ok(None);
        };
        let is_named = words.took_distribution("paretonormal");
        Ok(is_named.then_some(Self { mean, deviation: spread }))
    }

    fn short(&self) -> Option<String> {
        Some(format!("{} ±{} paretonormal", self.mean, self.deviation))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_span(at, "mean", self.mean)?;
        check_span(at, "deviation", self.deviation)
    }

    fn start(&self) -> Mixed {
        let (table, middle, spread) = &*SHAPE;
        let scale = self.deviation.0 as f64 / spread;
        Mixed { table, offset_ns: self.mean.0 as f64 - scale * middle, scale_ns: scale }
    }
}

/// The shape S(p) = Φ⁻¹(p)/4 + 3·P(p)/4 as a table, with its mean and standard deviation. P is the quantile of a Pareto
/// variable of shape 3 less its mean 3/2, over its standard deviation √(3/4).
static SHAPE: LazyLock<(QuantileTable, f64, f64)> = LazyLock::new(|| {
    let table = QuantileTable::new(|tail, is_upper| {
        let z = normal_quantile(tail);
        let of_normal = (2.0 * core::f64::consts::PI).sqrt() * libm::exp(z * z / 2.0);
        // 1 − p, and the slopes by the tail.
        let (above, sign) = if is_upper { (tail, -1.0) } else { (1.0 - tail, 1.0) };
        let of_pareto = libm::pow(above, -4.0 / 3.0) / 3.0;
        let pareto = (libm::pow(above, -1.0 / 3.0) - 1.5) / 0.75f64.sqrt();
        let value = 0.25 * sign * z + 0.75 * pareto;
        (value, sign * (0.25 * of_normal + 0.75 * of_pareto / 0.75f64.sqrt()))
    });
    let (middle, spread) = clamped_moments(|p| table.at(p), f64::NEG_INFINITY, f64::INFINITY);
    (table, middle, spread)
});

/// mean + deviation·(S(*v*) − its mean)/(its standard deviation), with S the function above, and *v* draw 0 in the open interval.
#[derive(Clone, Debug)]
pub struct Mixed {
    table: &'static QuantileTable,
    offset_ns: f64,
    scale_ns: f64,
}

/// There is one table.
impl PartialEq for Mixed {
    fn eq(&self, other: &Self) -> bool {
        (self.offset_ns, self.scale_ns) == (other.offset_ns, other.scale_ns)
    }
}

impl Mixed {
    #[inline]
    fn value(&self, p: f64) -> f64 {
        self.offset_ns + self.scale_ns * self.table.at(p)
    }
}

impl Running for Mixed {
    type Outcome = u64;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> u64 {
        round_ns(self.value(open_unit_interval(draws.bits())))
    }
}

impl DelayRule for ParetoNormal {
    fn range(&self) -> [f64; 2] {
        let running = self.start();
        [FURTHEST, 1.0 - FURTHEST].map(|p| running.value(p).max(0.0))
    }

    fn clamp(&self) -> Clamp {
        Clamp::at_zero(self.start().value(FURTHEST))
    }

    fn moments(&self) -> DelayMoments {
        let running = self.start();
        let (mean, deviation) = clamped_moments(|p| running.value(p), 0.0, f64::INFINITY);
        DelayMoments::of(mean, deviation)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::distance;
    use super::*;

    #[test]
    fn the_table_is_that_of_the_formula() {
        let (table, ..) = &*SHAPE;
        for p in (0..100_000u64).map(|n| (2 * n + 1) as f64 / 200_000.0) {
            let pareto = ((1.0 - p).powf(-1.0 / 3.0) - 1.5) / 0.75f64.sqrt();
            let wanted = 0.25 * normal_quantile(p) + 0.75 * pareto;
            assert!((table.at(p) - wanted).abs() < 2e-6 * wanted.abs().max(1.0), "{p}");
        }
    }

    #[test]
    fn draws_follow_the_formula() {
        // The probability of less than d, by bisection of the quantile.
        let law = ParetoNormal { mean: Span(40_000_000), deviation: Span(5_000_000) }.start();
        let below = |d: f64| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..40 {
                let p = (low + high) / 2.0;
                if law.value(p) < d { low = p } else { high = p }
            }
            low
        };
        assert!(distance("delay 40ms ±5ms paretonormal", below) < 1.95);
        assert!(distance("delay 40ms ±5100us paretonormal", below) > 1.95);
    }
}
