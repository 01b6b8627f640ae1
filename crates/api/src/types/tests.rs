//! Tests and plans.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::plan::Plan;
use weir_model::progress::FlowState;
use weir_model::record::Interval;
use weir_model::warning::Warning;
use weir_report::FlowMeta;

/// A test to be run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestRequest {
    /// Who answers: `NAME`, `ADDRESS`, `NAME:PORT`. Absent: the plan's host.
    #[serde(default)]
    pub host: Option<String>,
    /// What is to be run. A plan that names no seed gets a new one, which the record tells.
    pub plan: Plan,
    /// Labels kept with the result.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// A key of the server's key directory, by its name; absent: none.
    #[serde(default)]
    pub key_name: Option<String>,
    /// Run it on this host of a lab, `LAB/HOST`; absent: here.
    #[serde(default)]
    pub from: Option<String>,
    /// Don't keep the result among the runs.
    #[serde(default)]
    pub no_store: bool,
}

/// Which parts of a test's record are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordParts {
    /// The whole record.
    #[default]
    All,
    /// Without intervals, histograms and samples of TCP information.
    Summary,
}

/// How the record of a test is wanted.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecordQuery {
    /// Its parts. Absent: all.
    pub parts: RecordParts,
}

/// How far something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its program was started.
    Starting,
    /// It runs.
    Running,
    /// It was asked to end.
    Ending,
    /// It ended, and what it measured is there.
    Ended,
    /// An experiment or a demo was stopped, or its program killed, before it came to its end; a test that was stopped has ended, since
    /// what it measured until then is a whole run.
    Interrupted,
    /// It ended without a result, or with what was measured before something could not be done; the error tells why.
    Failed,
}

impl State {
    /// Whether its program is gone.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, State::Ended | State::Interrupted | State::Failed)
    }
}

/// A test that runs or has ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Test {
    /// Id of the test here; its run has an id of its own.
    pub id: String,
    /// How far it is.
    pub state: State,
    /// Who answers.
    pub host: String,
    /// The plan's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Labels.
    pub tags: BTreeMap<String, String>,
    /// When it was asked for, RFC 3339, UTC.
    pub asked_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Id that its run has among the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Flows that the plan expands to.
    pub flows: Vec<FlowMeta>,
    /// State of each flow, by its name, as soon as its program tells it.
    pub flow_states: BTreeMap<String, FlowState>,
    /// Time of the peer's last message, since the start of the test, where the peer is unreachable; absent while it is reachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_unreachable_since_seconds: Option<f64>,
    /// The latest interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<Interval>,
    /// What was warned of, as the stream told it.
    pub warnings: Vec<Warning>,
    /// Exit code of its program, as the command line defines them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The tests of this server, newest first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TestList {
    /// Those that run and the latest that ended.
    pub tests: Vec<Test>,
}

/// A kept plan.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PlanEntry {
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
    /// Why it can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Kept plans.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PlanList {
    /// By name.
    pub plans: Vec<PlanEntry>,
    /// The directory that they are in.
    pub directory: String,
}
