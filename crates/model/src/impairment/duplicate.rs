//! The slot of duplication.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slot::Slot;
use crate::ModelError;
use crate::law::Words;
use crate::law::check_percentage;

/// Duplication: one copy, immediately after its original, with draws of its own in the later stages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Duplicate {
    /// Probability for each packet, in percent.
    #[schemars(example = 1)]
    pub percentage: f64,
}

impl Slot for Duplicate {
    const TERM: &'static str = "duplicate";
    const OTHER_NAMES: &'static [&'static str] = &["dup", "duplication"];

    fn form() -> &'static str {
        "duplicate P%"
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        words.percent().map(|percentage| Self { percentage })
    }

    fn text(&self) -> String {
        format!("duplicate {}%", self.percentage)
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_percentage(at, "percentage", self.percentage)
    }
}
