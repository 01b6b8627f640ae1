//! A Pareto law by its mean and standard deviation, as netem's table `pareto` has it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Draws, open_unit_interval};

use super::{DelayMoments, DelayRule, check_span, round_ns};
use crate::ModelError;
use crate::law::distribution::{Clamp, FURTHEST};
use crate::law::{Law, MeanAndSpread, Running, Words};
use crate::units::Span;

/// Mean of a Pareto variable of shape 3 and scale 1.
const MEAN: f64 = 1.5;
/// Its variance.
const VARIANCE: f64 = 0.75;

/// A delay with a long upper tail: a Pareto delay of shape 3, moved and scaled to the stated mean and standard deviation. netem's
/// `pareto`, whose tail is not cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Shifted Pareto")]
pub struct ShiftedPareto {
    /// Mean delay.
    #[schemars(example = "20ms")]
    pub mean: Span,
    /// Standard deviation.
    #[schemars(example = "5ms")]
    pub deviation: Span,
}

impl Law for ShiftedPareto {
    const SHORT_FORMS: &'static [&'static str] = &["T ±T pareto"];
    type Running = Shifted;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let Some(MeanAndSpread { mean, spread, .. }) = words.mean_and_spread()? else {
            return Ok(None);
        };
        let is_named = words.took_distribution("pareto");
        Ok(is_named.then_some(Self { mean, deviation: spread }))
    }

    fn short(&self) -> Option<String> {
        Some(format!("{} ±{} pareto", self.mean, self.deviation))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_span(at, "mean", self.mean)?;
        check_span(at, "deviation", self.deviation)
    }

    fn start(&self) -> Shifted {
        let scale_ns = self.deviation.0 as f64 / VARIANCE.sqrt();
        Shifted { offset_ns: self.mean.0 as f64 - MEAN * scale_ns, scale_ns }
    }
}

/// mean + deviation·((1 − *v*)^(−⅓) − 3/2)/√¾, with *v* draw 0 in the open interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Shifted {
    offset_ns: f64,
    scale_ns: f64,
}

impl Running for Shifted {
    type Outcome = u64;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> u64 {
        let above = 1.0 - open_unit_interval(draws.bits());
        round_ns(self.offset_ns + self.scale_ns / libm::cbrt(above))
    }
}

impl DelayRule for ShiftedPareto {
    fn range(&self) -> [f64; 2] {
        let Shifted { offset_ns, scale_ns } = self.start();
        [1.0, FURTHEST].map(|above| (offset_ns + scale_ns / libm::cbrt(above)).max(0.0))
    }

    fn clamp(&self) -> Clamp {
        let Shifted { offset_ns, scale_ns } = self.start();
        Clamp::at_zero(offset_ns + scale_ns)
    }

    /// The integrals of (offset + scale·x) and of its square with the density 3/x⁴, from where the delay is above 0.
    fn moments(&self) -> DelayMoments {
        let Shifted { offset_ns: a, scale_ns: c } = self.start();
        if c == 0.0 {
            return DelayMoments::of(self.mean.0 as f64, 0.0);
        }
        let from = (-a / c).max(1.0);
        let first = a / from.powi(3) + 1.5 * c / from.powi(2);
        let second = a * a / from.powi(3) + 3.0 * a * c / from.powi(2) + 3.0 * c * c / from;
        DelayMoments::of_powers(first, second)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{distance, stated};
    use super::*;

    #[test]
    fn draws_follow_the_formula() {
        let law = ShiftedPareto { mean: Span(40_000_000), deviation: Span(5_000_000) }.start();
        let below = |d: f64| {
            let x = (d - law.offset_ns) / law.scale_ns;
            if x < 1.0 { 0.0 } else { 1.0 - x.powi(-3) }
        };
        assert!(distance("delay 40ms ±5ms pareto", below) < 1.95);
        assert!(distance("delay 40ms ±5100us pareto", below) > 1.95);
    }

    #[test]
    fn moments_are_the_stated_ones_unless_delays_would_be_negative() {
        let (mean, deviation) = stated("delay 40ms ±5ms pareto");
        assert!((mean - 40e6).abs() < 1.0 && (deviation - 5e6).abs() < 1.0, "{mean} {deviation}");
        assert_eq!(stated("delay 40ms ±0ms pareto"), (40e6, 0.0));
        // Cut at 0: the mean grows.
        let (mean, deviation) = stated("delay 1ms ±5ms pareto");
        assert!(mean > 1.2e6 && deviation < 5e6, "{mean} {deviation}");
    }
}
