//! Exponential delay above a minimum.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Draws, open_unit_interval};

use super::{DelayMoments, DelayRule, check_span, round_ns};
use crate::ModelError;
use crate::law::distribution::{Clamp, FURTHEST};
use crate::law::{Law, MeanAndSpread, Running, Words, is_default, refuse};
use crate::units::Span;

/// An exponential delay: `min` and an exponential part of mean `mean` − `min`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exponential {
    /// Mean delay, `min` included, before the cut at `max`.
    #[schemars(example = "20ms")]
    pub mean: Span,
    /// Minimum delay. Absent: 0.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(example = "10ms")]
    pub min: Span,
    /// Maximum delay: longer draws become this. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "100ms")]
    pub max: Option<Span>,
}

impl Law for Exponential {
    const SHORT_FORMS: &'static [&'static str] = &["T ±T exponential [most T]"];
    type Running = Decay;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let Some(MeanAndSpread { mean, spread, .. }) = words.mean_and_spread()? else {
            return Ok(None);
        };
        if !words.took_distribution("exponential") {
            return Ok(None);
        }
        let min = Span(mean.0.checked_sub(spread.0).ok_or_else(|| words.bad())?);
        let max = match words.took("most") {
            true => Some(words.next().and_then(|word| words.span(word))?),
            false => None,
        };
        Ok(Some(Self { mean, min, max }))
    }

    fn short(&self) -> Option<String> {
        let spread = Span(self.mean.0.saturating_sub(self.min.0));
        let mut text = format!("{} ±{spread} exponential", self.mean);
        if let Some(max) = self.max {
            text += &format!(" most {max}");
        }
        Some(text)
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_span(at, "mean", self.mean)?;
        check_span(at, "max", self.max.unwrap_or_default())?;
        if self.min > self.mean {
            return refuse(at, "min", self.min, "at most the mean");
        }
        if let Some(max) = self.max.filter(|max| *max < self.min) {
            return refuse(at, "max", max, "at least min");
        }
        Ok(())
    }

    fn start(&self) -> Decay {
        Decay {
            min_ns: self.min.0,
            scale_ns: self.mean.0.saturating_sub(self.min.0) as f64,
            max_ns: self.max.map_or(u64::MAX, |max| max.0),
        }
    }
}

/// min − scale·ln(*v*), rounded, at most max; *v* is draw 0 in the open interval and scale = mean − min.
#[derive(Clone, Debug, PartialEq)]
pub struct Decay {
    min_ns: u64,
    scale_ns: f64,
    max_ns: u64,
}

impl Running for Decay {
    type Outcome = u64;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> u64 {
        let part = round_ns(-self.scale_ns * libm::log(open_unit_interval(draws.bits())));
        self.min_ns.saturating_add(part).min(self.max_ns)
    }
}

impl DelayRule for Exponential {
    fn range(&self) -> [f64; 2] {
        let Decay { min_ns, scale_ns, max_ns } = self.start();
        let longest = min_ns as f64 - scale_ns * libm::log(FURTHEST);
        [min_ns as f64, longest.min(max_ns as f64)]
    }

    fn clamp(&self) -> Clamp {
        Clamp::at_max(self.max.map(|max| max.0 as f64))
    }

    /// min(X, c) of an exponential X: E = s(1 − e^(−c/s)), E² = 2s²(1 − e^(−c/s)(1 + c/s)).
    fn moments(&self) -> DelayMoments {
        let Decay { min_ns, scale_ns: scale, max_ns } = self.start();
        let min = min_ns as f64;
        if max_ns == u64::MAX || scale == 0.0 {
            return DelayMoments::of(min + scale, scale);
        }
        let c = (max_ns - min_ns) as f64 / scale;
        let tail = libm::exp(-c);
        let first = scale * (1.0 - tail);
        let second = 2.0 * scale * scale * (1.0 - tail * (1.0 + c));
        let part = DelayMoments::of_powers(first, second);
        DelayMoments { mean_ns: Some(min + first), ..part }
    }
}
