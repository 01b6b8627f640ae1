//! Equal intervals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{SpacingMoments, SpacingRule, check_mean};
use crate::ModelError;
use crate::law::{Law, Running, Words};
use crate::units::Span;

/// Equal intervals.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// The interval. Absent: given by the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "20ms")]
    pub mean: Option<Span>,
}

impl Law for Constant {
    const SHORT_FORMS: &'static [&'static str] = &["constant", "TIME such as 20ms"];
    type Running = Even;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        if words.took("constant") {
            return Ok(Some(Self::default()));
        }
        let word = words.next()?;
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        Ok(Some(Self { mean: Some(words.span(word)?) }))
    }

    fn short(&self) -> Option<String> {
        Some(self.mean.map_or("constant".into(), |mean| mean.to_string()))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_mean(at, self.mean)
    }

    fn start(&self) -> Even {
        Even
    }
}

/// Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Even;

impl Running for Even {
    type Outcome = f64;

    #[inline]
    fn next(&mut self, _: &mut Draws) -> f64 {
        1.0
    }
}

impl SpacingRule for Constant {
    fn moments(&self) -> SpacingMoments {
        SpacingMoments { mean: self.mean, variation: 0.0 }
    }
}
