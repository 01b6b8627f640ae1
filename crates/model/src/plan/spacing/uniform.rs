//! Uniform intervals: all times of a range are equally likely.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Interval;
use crate::ModelError;
use crate::law::{Words, refuse};
use crate::law::distribution::{Distribution, Inverse, Prepared, Quantile, Quantity};

/// Uniform intervals between two bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// Minimum.
    #[schemars(example = "1ms")]
    pub min: Interval,
    /// Maximum, above 0.
    #[schemars(example = "20ms")]
    pub max: Interval,
    #[serde(skip)]
    prepared: Prepared<Inverse<Range>>,
}

impl Distribution for Uniform {
    const SHORT_FORMS: &'static [&'static str] = &["MIN..MAX"];
    const IS_CLAMPED: bool = false;
    type Quantity = Interval;
    type Source = Inverse<Range>;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let Some((min, max)) = words.next()?.split_once("..") else { return Ok(None) };
        let interval = |word: &str| word.parse().map_err(|_| words.bad());
        Ok(Some(Self { min: interval(min)?, max: interval(max)?, prepared: Prepared::default() }))
    }

    fn short(&self) -> Option<String> {
        Some(format!("{}..{}", self.min, self.max))
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        if !(1.0..=Interval::MAX).contains(&self.max.value()) {
            return refuse(at, "max", self.max, "1ns to 1h");
        }
        if self.min > self.max {
            return refuse(at, "min", self.min, "at most max");
        }
        Ok(())
    }

    fn source(&self) -> Self::Source {
        let (min, max) = (self.min.value(), self.max.value());
        Inverse(Range { min, range: max - min })
    }

    fn prepared(&self) -> &Prepared<Self::Source> {
        &self.prepared
    }
}

/// min + p·(max − min).
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    min: f64,
    range: f64,
}

impl Quantile for Range {
    #[inline]
    fn at(&self, p: f64) -> f64 {
        self.min + p * self.range
    }
}
