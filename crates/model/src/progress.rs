//! How far the flows of a running test are, and whether its peer is reachable: told while a test runs, in no record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a flow of a test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowState {
    /// It has not been started: the plan says `autostart = false`.
    Waiting,
    /// It was started.
    Started,
    /// It was asked to stop and may still send.
    Stopping,
    /// It sends nothing more.
    Finished,
    /// It ended early, or its test left no result.
    Failed,
}

impl FlowState {
    /// Whether the flow sends nothing more.
    pub fn is_over(self) -> bool {
        matches!(self, FlowState::Finished | FlowState::Failed)
    }

    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            FlowState::Waiting => "waiting",
            FlowState::Started => "started",
            FlowState::Stopping => "stopping",
            FlowState::Finished => "finished",
            FlowState::Failed => "failed",
        }
    }
}

/// One flow and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowProgress {
    /// Flow number.
    pub id: u32,
    /// Its state.
    pub state: FlowState,
}

/// Whether the peer of a running test is reachable.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PeerStatus {
    /// Time of the peer's last message, since the start of the test, where it has sent none for 5 s although it has to
    /// send one every 2 s. Absent while it is reachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_since_seconds: Option<f64>,
}
