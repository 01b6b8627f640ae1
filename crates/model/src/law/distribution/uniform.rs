//! The continuous uniform distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Distribution, Inverse, Prepared, Quantile, Quantity, check_quantity};
use crate::ModelError;
use crate::law::{Words, refuse};

/// Uniform values between two bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "Q: Quantity")]
#[schemars(bound = "Q: Quantity")]
pub struct Uniform<Q: Quantity> {
    /// Minimum.
    #[schemars(example = Q::example("64", "1ms"))]
    pub min: Q,
    /// Maximum.
    #[schemars(example = Q::example("1400", "20ms"))]
    pub max: Q,
    #[serde(skip)]
    prepared: Prepared<Inverse<Range>>,
}

impl<Q: Quantity> Distribution for Uniform<Q> {
    const SHORT_FORMS: &'static [&'static str] = &["MIN..MAX"];
    const IS_CLAMPED: bool = false;
    type Quantity = Q;
    type Source = Inverse<Range>;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let Some((min, max)) = words.next()?.split_once("..") else { return Ok(None) };
        let value = |word: &str| word.parse().map_err(|_| words.bad());
        Ok(Some(Self { min: value(min)?, max: value(max)?, prepared: Prepared::default() }))
    }

    fn short(&self) -> Option<String> {
        Some(format!("{}..{}", self.min, self.max))
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_quantity(at, "max", self.max)?;
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
    pub(crate) min: f64,
    pub(crate) range: f64,
}

impl Quantile for Range {
    #[inline]
    fn at(&self, p: f64) -> f64 {
        self.min + p * self.range
    }
}
