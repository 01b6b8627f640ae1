//! Uniform sizes: all whole numbers of bytes of a range are equally likely.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{SizeMoments, SizeRule};
use crate::ModelError;
use crate::law::{Law, Stateless, Words, refuse};
use crate::units::ByteSize;

/// Uniform sizes between two bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// Minimum, bytes.
    #[schemars(example = "64")]
    pub min: ByteSize,
    /// Maximum, bytes.
    #[schemars(example = "1400")]
    pub max: ByteSize,
}

impl Law for Uniform {
    const SHORT_FORMS: &'static [&'static str] = &["MIN..MAX"];
    type Running = Range;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let Some((min, max)) = words.next()?.split_once("..") else { return Ok(None) };
        let size = |word: &str| word.parse().map_err(|_| words.bad());
        Ok(Some(Self { min: size(min)?, max: size(max)? }))
    }

    fn short(&self) -> Option<String> {
        Some(format!("{}..{}", self.min, self.max))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        if self.min > self.max {
            return refuse(at, "min", self.min, "at most max");
        }
        Ok(())
    }

    fn start(&self) -> Range {
        Range { min: self.min.0, values: self.max.0.saturating_sub(self.min.0) + 1 }
    }
}

/// min + ⌊draw·(max − min + 1)/2⁶⁴⌋; draw is draw 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    min: u64,
    values: u64,
}

impl Stateless for Range {
    type Outcome = u64;

    #[inline]
    fn at(&self, draws: &mut Draws) -> u64 {
        let part = (u128::from(draws.bits()) * u128::from(self.values)) >> 64;
        self.min + part as u64
    }
}

impl SizeRule for Uniform {
    fn moments(&self) -> SizeMoments {
        let Self { min: ByteSize(min), max: ByteSize(max) } = *self;
        let n = (max.saturating_sub(min) + 1) as f64;
        SizeMoments {
            min_bytes: min,
            max_bytes: max,
            mean_bytes: min as f64 + (n - 1.0) / 2.0,
            deviation_bytes: ((n * n - 1.0) / 12.0).sqrt(),
        }
    }
}
