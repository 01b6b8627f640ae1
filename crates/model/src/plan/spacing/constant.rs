//! Equal intervals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::interval::FORM;
use super::{Interval, SpacingMoments, SpacingRule};
use crate::ModelError;
use crate::law::{Law, Running, Words, refuse};
use crate::law::distribution::Quantity;

/// Equal intervals.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// The interval. Absent: given by the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "20ms")]
    pub mean: Option<Interval>,
}

impl Law for Constant {
    const SHORT_FORMS: &'static [&'static str] = &["constant", "TIME such as 20ms", "RATEpps"];
    type Running = Even;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        if words.took("constant") {
            return Ok(Some(Self::default()));
        }
        let word = words.next()?;
        if word.contains("..") || !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        let mean = word.parse().map_err(|_| words.refused(FORM))?;
        Ok(Some(Self { mean: Some(mean) }))
    }

    fn short(&self) -> Option<String> {
        Some(self.mean.map_or("constant".into(), |mean| mean.to_string()))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        match self.mean {
            Some(mean) if !(1.0..=Interval::MAX).contains(&mean.value()) => {
                refuse(at, "mean", mean, "1ns to 1h")
            }
            _ => Ok(()),
        }
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
    fn has_mean(&self) -> bool {
        self.mean.is_some()
    }

    fn moments(&self) -> SpacingMoments {
        let mean_ns = self.mean.map(Interval::value);
        SpacingMoments { mean_ns, variation: 0.0, min: 1.0, max: 1.0 }
    }
}
