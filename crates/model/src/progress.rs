//! Progress of a running test: the states of its flows, what came back of echoes, and whether its peer is reachable. It is
//! not part of the record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::Delay;

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

/// The datagrams of an echoed flow that were sent in one interval, and what came back of them. It is reported when all of them
/// have come back, or when the loss threshold has passed since the end of the interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EchoInterval {
    /// Flow number.
    pub id: u32,
    /// Start of the interval, since the start of the test.
    pub start_seconds: f64,
    /// End.
    pub end_seconds: f64,
    /// Datagrams sent in the interval.
    pub sent_packets: u64,
    /// Of these, datagrams whose echo arrived, without copies.
    pub received_packets: u64,
    /// The rest.
    pub lost_packets: u64,
    /// Round trips of these datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<Delay>,
    /// Distribution of the round trips: the highest value of each cell in use, ns, and its count. A cell spans at most 1/1024 of
    /// its value. Empty with more than 1024 cells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub round_trip_cells: Vec<(u64, u64)>,
    /// Bound of the error of the relation of the two ends' clocks at this time, and so of one-way delays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_error_seconds: Option<f64>,
}
