//! Tests and plans.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::plan::Plan;
use weir_model::progress::FlowState;
use weir_model::record::Interval;
use weir_model::units::SendRate;
use weir_model::warning::Warning;
use weir_report::FlowMeta;

use super::{LAB_HOST, host, number};
use crate::supervise::Written;

/// A request to run a test.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = without_host()))]
pub(crate) struct TestRequest {
    /// The server: `NAME`, `ADDRESS`, `NAME:PORT`. Absent: the plan's host; not needed if every connection has one.
    #[serde(default)]
    #[schemars(regex(pattern = host()))]
    pub host: Option<String>,
    /// What to run. Without a seed a new one is drawn, which the record has.
    pub plan: Plan,
    /// Labels stored with the result: at most 64, a key of at most 200 bytes without `=`, a value of at most 1000 bytes.
    #[serde(default)]
    #[schemars(extend(
        "maxProperties" = 64,
        "propertyNames" = { "pattern": r"^[^=\x00-\x1f\x7f-\x9f]*[^=\s\x00-\x1f\x7f-\x9f][^=\x00-\x1f\x7f-\x9f]*$", "maxLength": 200 },
        "additionalProperties" = { "type": "string", "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$", "maxLength": 1000 }
    ))]
    pub tags: BTreeMap<String, String>,
    /// Name of a key in the server's key directory; absent: none.
    #[serde(default)]
    pub key_name: Option<String>,
    /// Run it on this host of a lab, `LAB/HOST`; absent: here.
    #[serde(default)]
    #[schemars(regex(pattern = LAB_HOST))]
    pub from: Option<String>,
    /// Do not store the result.
    #[serde(default)]
    pub no_store: bool,
}

/// A request whose host is neither here nor in the plan.
fn without_host() -> serde_json::Value {
    let host = serde_json::json!({ "type": "null" });
    serde_json::json!({ "properties": { "host": host, "plan": { "properties": { "host": host } } } })
}

/// The parts of a test's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RecordParts {
    /// The whole record.
    #[default]
    All,
    /// Without intervals, histograms and samples of TCP information.
    Summary,
}

/// Query of a test's record.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RecordQuery {
    /// Its parts. Absent: all.
    pub parts: RecordParts,
}

/// A change of a connection's rate.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateRequest {
    /// The rate from now on; 0 is unlimited, for streams.
    pub rate: SendRate,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Its process was started.
    Starting,
    /// It runs.
    Running,
    /// It was asked to stop.
    Ending,
    /// It has ended, and its result is available.
    Ended,
    /// An experiment or a demo was stopped or killed before its end. (A stopped test has ended: what it measured is a
    /// complete run.)
    Interrupted,
    /// It ended without a result, or with a partial one after a failure; the error says why.
    Failed,
}

impl State {
    /// Whether its process has ended.
    #[must_use]
    pub(crate) fn is_over(self) -> bool {
        matches!(self, State::Ended | State::Interrupted | State::Failed)
    }
}

/// A running or finished test.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Test {
    /// Id of the test; its run has an id of its own.
    pub id: String,
    /// How far it is.
    pub state: State,
    /// The server, or the servers of its connections.
    pub host: String,
    /// The plan's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Labels.
    pub tags: BTreeMap<String, String>,
    /// When it was requested, RFC 3339, UTC.
    pub asked_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Id of its run in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Number of flows of the plan.
    pub flows: Vec<FlowMeta>,
    /// State of each flow, by name, once reported.
    pub flow_states: BTreeMap<String, FlowState>,
    /// If the peer is unreachable: time of its last message, from the start of the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_unreachable_since_seconds: Option<f64>,
    /// The latest interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<Interval>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// Exit code, as of the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Query of a history.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HistoryQuery {
    /// Only figures of a later time, s since the start. Absent: all.
    #[serde(deserialize_with = "number")]
    #[schemars(range(min = 0))]
    pub after: Option<f64>,
}

/// The figures of a running test so far.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct TestHistory {
    /// Intervals, oldest first. 8 MiB of them are stored: of a longer test the newest. None of a finished test, whose
    /// record has them.
    #[schemars(with = "Vec<Interval>")]
    pub intervals: Vec<Written>,
    /// Sums of all intervals, including those that are no longer stored.
    pub sums: SumsSoFar,
}

/// Sums since the start of a test, or since the end of its omitted part.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SumsSoFar {
    /// End of the latest interval, s since the start of the test.
    pub end_seconds: f64,
    /// Each flow.
    pub flows: Vec<FlowSumSoFar>,
    /// All flows that this side sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward: Option<SumSoFar>,
    /// All flows that the other side sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse: Option<SumSoFar>,
}

/// The sums of one flow.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct FlowSumSoFar {
    /// Flow number.
    pub id: u32,
    /// Its sums.
    #[serde(flatten)]
    pub sum: SumSoFar,
}

/// Sums of a flow or direction.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
pub(crate) struct SumSoFar {
    /// Packets sent.
    pub sent_packets: u64,
    /// Time that the receiver's figures cover, s.
    pub seconds: f64,
    /// Payload received: of each interval its rate times its length.
    pub received_bits: f64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Lost packets, with the corrections of later intervals; absent if the receiver has reported none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_packets: Option<i64>,
    /// The receiver's figures of some intervals are missing, so that the sums are lower bounds.
    pub partial: bool,
}

/// The tests of this server, newest first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct TestList {
    /// Running and the latest finished ones; those with a record without `latest`.
    pub tests: Vec<Test>,
}

/// A stored plan.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PlanEntry {
    /// Its name.
    pub name: String,
    /// Entity tag.
    pub etag: String,
    /// When it was written, RFC 3339, UTC.
    pub modified_at: String,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its connections.
    pub connections: usize,
    /// Why it is unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Stored plans.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PlanList {
    /// By name.
    pub plans: Vec<PlanEntry>,
    /// The directory of the plans.
    pub directory: String,
}
