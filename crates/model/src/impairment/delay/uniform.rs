//! Uniform delay: every nanosecond of a range with equal probability.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{DelayMoments, DelayRule, check_span};
use crate::ModelError;
use crate::law::{Law, MeanAndSpread, Running, Words, refuse};
use crate::units::Span;

/// A uniform delay between two bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// Minimum delay.
    #[schemars(example = "10ms")]
    pub min: Span,
    /// Maximum delay.
    #[schemars(example = "30ms")]
    pub max: Span,
}

impl Law for Uniform {
    const SHORT_FORMS: &'static [&'static str] = &["T ±T uniform", "MIN..MAX"];
    type Running = Range;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        if let Some((min, max)) = words.peek().and_then(|word| word.split_once("..")) {
            words.next()?;
            return Ok(Some(Self { min: words.span(min)?, max: words.span(max)? }));
        }
        let Some(MeanAndSpread { mean, spread, has_sign }) = words.mean_and_spread()? else {
            return Ok(None);
        };
        // netem's default distribution.
        let is_default = !has_sign && words.is_law_complete();
        if !words.took_distribution("uniform") && !is_default {
            return Ok(None);
        }
        let min = mean.0.checked_sub(spread.0).ok_or_else(|| words.bad())?;
        let max = mean.0.checked_add(spread.0).ok_or_else(|| words.bad())?;
        Ok(Some(Self { min: Span(min), max: Span(max) }))
    }

    fn short(&self) -> Option<String> {
        let Self { min, max } = self;
        let (sum, width) = (min.0.saturating_add(max.0), max.0.saturating_sub(min.0));
        if sum.is_multiple_of(2) {
            return Some(format!("{} ±{} uniform", Span(sum / 2), Span(width / 2)));
        }
        Some(format!("{min}..{max}"))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_span(at, "max", self.max)?;
        if self.min > self.max {
            return refuse(at, "min", self.min, "at most max");
        }
        Ok(())
    }

    fn start(&self) -> Range {
        Range { min_ns: self.min.0, values: self.max.0.saturating_sub(self.min.0) + 1 }
    }
}

/// Each whole number of nanoseconds from min to max with equal probability: min + ⌊draw·(max − min + 1)/2⁶⁴⌋.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    min_ns: u64,
    values: u64,
}

impl Running for Range {
    type Outcome = u64;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> u64 {
        let part = (u128::from(draws.bits()) * u128::from(self.values)) >> 64;
        self.min_ns + part as u64
    }
}

impl DelayRule for Uniform {
    fn range(&self) -> [f64; 2] {
        [self.min.0 as f64, self.max.0 as f64]
    }

    fn moments(&self) -> DelayMoments {
        let n = self.start().values as f64;
        let mean = self.min.0 as f64 + (n - 1.0) / 2.0;
        DelayMoments::of(mean, ((n * n - 1.0) / 12.0).sqrt())
    }
}
