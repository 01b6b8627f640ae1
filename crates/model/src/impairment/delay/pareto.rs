//! Pareto delay: a heavy tail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Draws, open_unit_interval};

use super::{DelayMoments, DelayRule, check_span, round_ns};
use crate::ModelError;
use crate::law::distribution::{Clamp, FURTHEST};
use crate::law::{Law, Running, refuse};
use crate::units::Span;

/// A Pareto delay: longer than `t` with probability (`scale`/t) to the power of `shape`. A heavy tail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pareto {
    /// Minimum delay, above 0.
    #[schemars(example = "10ms")]
    pub scale: Span,
    /// Exponent of the tail, above 0 to 1000. Up to 1 there is no mean, up to 2 no variance, unless `max` cuts the tail.
    #[schemars(example = 3)]
    pub shape: f64,
    /// Maximum delay: longer draws become this. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "1s")]
    pub max: Option<Span>,
}

impl Law for Pareto {
    type Running = Tail;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_span(at, "scale", self.scale)?;
        check_span(at, "max", self.max.unwrap_or_default())?;
        if self.scale.0 == 0 {
            return refuse(at, "scale", self.scale, "above 0");
        }
        if !(self.shape > 0.0 && self.shape <= 1000.0) {
            return refuse(at, "shape", self.shape, "above 0 to 1000");
        }
        if let Some(max) = self.max.filter(|max| *max < self.scale) {
            return refuse(at, "max", max, "at least the scale");
        }
        Ok(())
    }

    fn start(&self) -> Tail {
        Tail {
            scale_ns: self.scale.0 as f64,
            exponent: -1.0 / self.shape,
            max_ns: self.max.map_or(u64::MAX, |max| max.0),
        }
    }
}

/// scale·*v*^(−1/shape), rounded, at most max; *v* is draw 0 in the open interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    scale_ns: f64,
    exponent: f64,
    max_ns: u64,
}

impl Running for Tail {
    type Outcome = u64;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> u64 {
        // The power by its logarithm costs half of `pow`.
        let factor = libm::exp(self.exponent * libm::log(open_unit_interval(draws.bits())));
        round_ns(self.scale_ns * factor).min(self.max_ns)
    }
}

impl DelayRule for Pareto {
    fn range(&self) -> [f64; 2] {
        let Tail { scale_ns, exponent, max_ns } = self.start();
        [scale_ns, (scale_ns * libm::pow(FURTHEST, exponent)).min(max_ns as f64)]
    }

    fn clamp(&self) -> Clamp {
        Clamp::at_max(self.max.map(|max| max.0 as f64))
    }

    /// E Xᵏ = a·sᵏ/(a − k) for k < a. With a cut at c the moments always exist: with q = (s/c)ᵃ⁻ᵏ, E min(X, c)ᵏ
    /// = sᵏ·(a − k·q)/(a − k), and sᵏ·(1 + k·ln(c/s)) for a = k.
    fn moments(&self) -> DelayMoments {
        let (scale, shape) = (self.scale.0 as f64, self.shape);
        let power = |k: f64| {
            let unit = match self.max {
                Some(max) if shape == k => 1.0 + k * libm::log(max.0 as f64 / scale),
                Some(max) => {
                    let q = libm::pow(scale / max.0 as f64, shape - k);
                    (shape - k * q) / (shape - k)
                }
                None if shape > k => shape / (shape - k),
                None => return None,
            };
            Some(unit)
        };
        // In units of the scale, so that the difference of two large squares keeps its digits.
        let variance = |(first, second): (f64, f64)| (second - first * first).max(0.0);
        let (first, second) = (power(1.0), power(2.0));
        DelayMoments {
            mean_ns: first.map(|mean| scale * mean),
            deviation_ns: first.zip(second).map(|both| scale * variance(both).sqrt()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{distance, draws, moments_of};
    use super::*;
    use crate::impairment::Laws;

    fn moments(text: &str) -> DelayMoments {
        text.parse::<Laws>().unwrap().delay.unwrap().moments().unwrap()
    }

    #[test]
    fn moments_exist_where_the_tail_allows() {
        // a·s/(a − 1), and s²·a/((a − 1)²(a − 2)).
        let three = moments("delay pareto(scale=10ms, shape=3)");
        assert!((three.mean_ns.unwrap() - 15e6).abs() < 1.0);
        assert!((three.deviation_ns.unwrap() - 10e6 * 0.75f64.sqrt()).abs() < 1.0);
        let two = moments("delay pareto(scale=10ms, shape=2)");
        assert!((two.mean_ns.unwrap() - 20e6).abs() < 1.0 && two.deviation_ns.is_none());
        let one = moments("delay pareto(scale=10ms, shape=1)");
        assert_eq!((one.mean_ns, one.deviation_ns), (None, None));
        // s(1 + ln(c/s)) at shape 1, and 2sc − s² for the square.
        let cut = moments("delay pareto(scale=10ms, shape=1, max=100ms)");
        let mean = 10e6 * (1.0 + 10f64.ln());
        assert!((cut.mean_ns.unwrap() - mean).abs() < 1.0, "{cut:?}");
        let deviation = (19e14 - mean * mean).sqrt();
        assert!((cut.deviation_ns.unwrap() - deviation).abs() < 1.0, "{cut:?}");
    }

    #[test]
    fn draws_follow_the_law() {
        // Tails whose sample moments converge; tolerance of 5 standard deviations, fixed seeds.
        for text in [
            "delay pareto(scale=10ms, shape=8) allow",
            "delay pareto(scale=10ms, shape=1, max=100ms) allow",
            "delay pareto(scale=10ms, shape=2, max=50ms) allow",
            "delay pareto(scale=10ms, shape=0.5, max=80ms) allow",
        ] {
            let (mean, deviation) = moments_of(&draws(text, 1, 200_000));
            let stated = moments(text);
            let (m, d) = (stated.mean_ns.unwrap(), stated.deviation_ns.unwrap());
            assert!((mean - m).abs() <= 5.0 * d / 200_000f64.sqrt(), "{text}: {mean} of {m}");
            assert!((deviation / d - 1.0).abs() < 0.03, "{text}: {deviation} of {d}");
        }
        let below = |d: f64| 1.0 - (10e6 / d).powf(1.5);
        let far = distance("delay pareto(scale=10ms, shape=1.5)", below);
        assert!(far < 1.95, "{far}");
        assert!(distance("delay pareto(scale=10ms, shape=1.6)", below) > 1.95);
        // Without a mean, the median is what can be checked: s·2^(1/a).
        let mut sample = draws("delay pareto(scale=10ms, shape=0.95)", 3, 100_001);
        sample.sort_unstable();
        let median = 10e6 * 2f64.powf(1.0 / 0.95);
        assert!((sample[50_000] as f64 / median - 1.0).abs() < 0.02, "{}", sample[50_000]);
        let capped = draws("delay pareto(scale=10ms, shape=0.5, max=80ms)", 1, 9000);
        assert!(capped.iter().all(|ns| (10_000_000..=80_000_000).contains(ns)));
    }

    #[test]
    fn parameters_are_checked() {
        for (text, field) in [
            ("scale=0ms, shape=3", "scale"),
            ("scale=2h, shape=3", "scale"),
            ("scale=10ms, shape=0", "shape"),
            ("scale=10ms, shape=nan", "shape"),
            ("scale=10ms, shape=3, max=9ms", "max"),
            ("scale=10ms", "shape"),
        ] {
            let error = format!("delay pareto({text})").parse::<Laws>().unwrap_err();
            let ModelError::Field { field: named, .. } = error else { panic!("{text}") };
            assert_eq!(named, format!("impairment.delay.pareto.{field}"), "{text}");
        }
        let text = "delay pareto(max=1s, scale=10ms, shape=1.5) allow";
        assert_eq!(text.parse::<Laws>().unwrap().to_string(), text);
    }
}
