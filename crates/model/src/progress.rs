//! Progress of a running test: the states of its flows, and whether its peer is reachable. It is not part of
//! the record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of a flow of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowState {
    /// Not started, because of `autostart = false` in the plan.
    Waiting,
    /// Started.
    Started,
    /// Asked to stop; may still send.
    Stopping,
    /// Has ended sending.
    Finished,
    /// Ended early, or its test has no result.
    Failed,
}

impl FlowState {
    /// Whether the flow has ended sending.
    pub fn is_over(self) -> bool {
        matches!(self, FlowState::Finished | FlowState::Failed)
    }
}

/// A flow and its state.
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
    /// Time of the peer's last message, since the start of the test, if it has sent none for 5 s (one is due
    /// every 2 s). Absent while it is reachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_since_seconds: Option<f64>,
}
