//! Warnings that travel with a result, each with a stable code, and the words for a person.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a warning bears on the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; the figures stand.
    Info,
    /// A figure is a bound, or the tool or host shaped it.
    Warning,
    /// A figure can't be used for what was asked.
    Error,
}

/// One warning of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable code that scripts may match, such as `sender-cpu-bound`.
    pub code: String,
    /// How much it bears on the result.
    pub severity: Severity,
    /// The flow concerned; absent when it concerns the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<u32>,
    /// What happened, what it means and what to change, in words.
    pub text: String,
    /// The figure that raised it, in the unit that the code implies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The bound that it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
}

impl Warning {
    /// A warning about the whole run.
    pub fn new(code: &str, severity: Severity, text: impl Into<String>) -> Self {
        Warning {
            code: code.into(),
            severity,
            flow: None,
            text: text.into(),
            value: None,
            bound: None,
        }
    }

    /// The same warning with its figure and the bound that it passed.
    pub fn with_value(mut self, value: f64, bound: f64) -> Self {
        (self.value, self.bound) = (Some(value), Some(bound));
        self
    }

    /// The same warning about one flow.
    pub fn for_flow(mut self, flow: u32) -> Self {
        self.flow = Some(flow);
        self
    }
}
