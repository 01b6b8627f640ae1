//! Warnings about a result, with stable codes and texts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a warning affects the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information; the figures are valid.
    Info,
    /// A figure is only a bound, or Weir or the host affected it.
    Warning,
    /// A figure can't be used for its purpose.
    Error,
}

/// Codes of warnings that the host or the tool limited the figures. Losses on the path are not among them.
const HOST_LIMITS: [&str; 8] = [
    "sender-cpu-bound",
    "receiver-cpu-bound",
    "cpu-stolen",
    "missed-slots",
    "late-slots",
    "socket-overflow",
    "emulator-overloaded",
    "clock-stepped",
];

/// Whether a warning with this code says that the host or the tool limited the figures.
#[must_use]
pub fn is_host_limit(code: &str) -> bool {
    HOST_LIMITS.contains(&code)
}

/// One warning of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable code that scripts may match, such as `sender-cpu-bound`.
    pub code: String,
    /// How much it affects the result.
    pub severity: Severity,
    /// The flow concerned; absent if it concerns the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<u32>,
    /// Text: what happened, what it means and what to change.
    pub text: String,
    /// The value that raised it, in the unit that the code implies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The bound that was exceeded.
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

    /// Adds the value that raised it and the exceeded bound.
    pub fn with_value(mut self, value: f64, bound: f64) -> Self {
        (self.value, self.bound) = (Some(value), Some(bound));
        self
    }

    /// Sets the flow concerned.
    pub fn for_flow(mut self, flow: u32) -> Self {
        self.flow = Some(flow);
        self
    }
}
