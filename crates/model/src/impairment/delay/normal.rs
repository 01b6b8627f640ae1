//! Normal delay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Draws, QuantileTable, normal_quantile, open_unit_interval};

use super::{DelayMoments, DelayRule, check_span, round_ns};
use crate::ModelError;
use crate::law::distribution::{Clamp, FURTHEST};
use crate::law::{Law, MeanAndSpread, Running, Words};
use crate::units::Span;

/// A normal (Gaussian) delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Normal {
    /// Mean delay.
    #[schemars(example = "20ms")]
    pub mean: Span,
    /// Standard deviation.
    #[schemars(example = "5ms")]
    pub deviation: Span,
}

impl Law for Normal {
    const SHORT_FORMS: &'static [&'static str] = &["T ±T [normal]"];
    type Running = Bell;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let Some(MeanAndSpread { mean, spread, has_sign }) = words.mean_and_spread()? else {
            return Ok(None);
        };
        let is_named = words.took_distribution("normal");
        let is_default = has_sign && words.is_law_complete();
        Ok((is_named || is_default).then_some(Self { mean, deviation: spread }))
    }

    fn short(&self) -> Option<String> {
        Some(format!("{} ±{} normal", self.mean, self.deviation))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_span(at, "mean", self.mean)?;
        check_span(at, "deviation", self.deviation)
    }

    fn start(&self) -> Bell {
        Bell {
            mean_ns: self.mean.0 as f64,
            deviation_ns: self.deviation.0 as f64,
            quantile: QuantileTable::normal(),
        }
    }
}

/// mean + deviation·Φ⁻¹(*v*), rounded, with Φ⁻¹ from a table; *v* is draw 0 in the open interval.
#[derive(Clone, Debug)]
pub struct Bell {
    mean_ns: f64,
    deviation_ns: f64,
    quantile: &'static QuantileTable,
}

/// There is one table.
impl PartialEq for Bell {
    fn eq(&self, other: &Self) -> bool {
        (self.mean_ns, self.deviation_ns) == (other.mean_ns, other.deviation_ns)
    }
}

impl Running for Bell {
    type Outcome = u64;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> u64 {
        round_ns(self.mean_ns + self.deviation_ns * self.quantile.at(open_unit_interval(draws.bits())))
    }
}

impl DelayRule for Normal {
    fn range(&self) -> [f64; 2] {
        let Bell { mean_ns, deviation_ns, .. } = self.start();
        let reach = deviation_ns * normal_quantile(FURTHEST);
        [mean_ns + reach, mean_ns - reach].map(|ns| ns.max(0.0))
    }

    fn clamp(&self) -> Clamp {
        let Bell { mean_ns, deviation_ns, .. } = self.start();
        Clamp::at_zero(mean_ns + deviation_ns * normal_quantile(FURTHEST))
    }

    /// A normal variable censored at 0: with a = mean/deviation, E = mean·Φ(a) + deviation·φ(a),
    /// E² = (mean² + deviation²)·Φ(a) + mean·deviation·φ(a).
    fn moments(&self) -> DelayMoments {
        let Bell { mean_ns: mean, deviation_ns: deviation, .. } = self.start();
        if deviation == 0.0 {
            return DelayMoments::of(mean, 0.0);
        }
        let a = mean / deviation;
        let phi = libm::exp(-a * a / 2.0) / (2.0 * core::f64::consts::PI).sqrt();
        let below = libm::erfc(-a / core::f64::consts::SQRT_2) / 2.0;
        let first = mean * below + deviation * phi;
        let second = (mean * mean + deviation * deviation) * below + mean * deviation * phi;
        DelayMoments::of_powers(first, second)
    }
}
