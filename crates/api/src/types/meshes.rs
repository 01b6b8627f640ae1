//! Continuous measurement between agents: figures of `weir fleet watch`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::watch::{AgentState, BurstLine, ChangeLine, PairFigures};

use super::runs::moment;

/// Meshes, by name.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct MeshList {
    /// This server's time, s since 1970.
    pub now_unix_seconds: f64,
    /// The meshes.
    pub meshes: Vec<MeshEntry>,
}

/// A mesh in a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct MeshEntry {
    /// Its name.
    pub name: String,
    /// Start of the latest second that was measured, s since 1970; absent if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_at_unix_seconds: Option<f64>,
    /// Number of its agents.
    pub agents: u64,
    /// Number of those that were connected when they were last seen by the watch.
    pub connected_agents: u64,
    /// Number of pairs that have figures.
    pub pairs: u64,
}

/// A mesh: its agents and the latest figures of each pair.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct MeshState {
    /// Its name.
    pub name: String,
    /// This server's time, s since 1970: figures are as old as the difference to it.
    pub now_unix_seconds: f64,
    /// Start of the latest second that was measured, s since 1970; absent if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_at_unix_seconds: Option<f64>,
    /// Its agents, by name.
    pub agents: Vec<MeshAgent>,
    /// The latest figures of each pair.
    pub pairs: MeshPairs,
    /// The latest burst of each direction of each pair.
    pub bursts: MeshBursts,
}

/// An agent of a mesh.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct MeshAgent {
    /// Its name.
    pub name: String,
    /// Its state; absent if only its figures are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<AgentState>,
    /// When it took on this state, s since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_unix_seconds: Option<f64>,
    /// Its address, to which others send probes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Why it can't be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Figures of pairs as columns of equal length; `null` is a figure that was not measured. They are those of the shortest rolling
/// window, or of the latest second in a mesh without windows.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(crate) struct MeshPairs {
    /// The agent that probes: its index in `agents`.
    pub from: Vec<u32>,
    /// The agent that replies: its index in `agents`.
    pub to: Vec<u32>,
    /// Start of the latest second, s since 1970.
    pub at_unix_seconds: Vec<f64>,
    /// Length of the window, s.
    pub window_seconds: Vec<f64>,
    /// Probes sent in the window.
    pub sent_packets: Vec<u64>,
    /// Lost / sent.
    pub loss_ratio: Vec<Option<f64>>,
    /// Median round trip.
    pub round_trip_p50_seconds: Vec<Option<f64>>,
    /// Mean round trip.
    pub round_trip_mean_seconds: Vec<Option<f64>>,
    /// Mean one-way delay to the agent that replies.
    pub forward_delay_seconds: Vec<Option<f64>>,
    /// Mean delay of the way back, including the time that the far agent takes to reply.
    pub return_delay_seconds: Vec<Option<f64>>,
    /// Bound of the error of both one-way delays.
    pub one_way_error_seconds: Vec<Option<f64>>,
    /// Probes sent in the latest second.
    pub last_sent_packets: Vec<u64>,
    /// Probes of the latest second that did not come back.
    pub last_lost_packets: Vec<u64>,
}

/// Bursts as columns of equal length.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(crate) struct MeshBursts {
    /// The agent that sent: its index in `agents`.
    pub from: Vec<u32>,
    /// The agent that received: its index in `agents`.
    pub to: Vec<u32>,
    /// When its result arrived, s since 1970.
    pub at_unix_seconds: Vec<f64>,
    /// Payload rate at the receiver; `null` if the burst failed.
    pub bits_per_second: Vec<Option<f64>>,
}

/// The time of a pair's figures.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PairQuery {
    /// From this time on: a date, an RFC 3339 time, or an age such as `2h` or `7d`. Absent: a day before `until`.
    #[schemars(schema_with = "moment")]
    pub since: Option<String>,
    /// Before this time. Absent: now.
    #[schemars(schema_with = "moment")]
    pub until: Option<String>,
}

/// Figures of a pair over time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PairHistory {
    /// The name of the mesh.
    pub mesh: String,
    /// The agent that probes.
    pub from: String,
    /// The agent that replies.
    pub to: String,
    /// Start of the time, s since 1970.
    pub since_unix_seconds: i64,
    /// Its end, s since 1970.
    pub until_unix_seconds: i64,
    /// Length of a point, s: 60, or a multiple where more than 1500 minutes are in the time.
    pub point_seconds: i64,
    /// The points that have figures, in order of time.
    pub points: Vec<PairPoint>,
    /// Bursts in both directions, in order of time: the latest 1000 of each.
    pub bursts: Vec<MeshBurst>,
    /// Changes of its figures, in order of time: the latest 1000.
    pub changes: Vec<ChangeLine>,
}

/// Figures of a pair over one or several minutes. Of several, percentiles are absent, and means are weighted by their probes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PairPoint {
    /// Its start, s since 1970: a multiple of `point_seconds`.
    pub at_unix_seconds: i64,
    /// Its figures; `covered_seconds` is what was measured of it.
    #[serde(flatten)]
    pub figures: PairFigures,
}

/// A burst.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct MeshBurst {
    /// Its figures.
    #[serde(flatten)]
    pub burst: BurstLine,
    /// Whether its run is stored on this host too; the sending agent stores it.
    pub is_stored_here: bool,
}
