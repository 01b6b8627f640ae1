//! Scenarios, sweeps and experiments.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_model::experiment::{Experiment as Outcome, Outcome as Verdict, Scenario};
use weir_model::plan::Plan;
use weir_model::units::Seed;

use super::{State, host, not_one_of};

/// A scenario of the server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ScenarioEntry {
    /// Its name in paths.
    pub name: String,
    /// Title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Steps.
    pub steps: usize,
    /// It creates a lab.
    pub needs_lab: bool,
    /// It runs commands: refused without `--allow-commands`.
    pub runs_commands: bool,
    /// Variables with their values.
    pub variables: BTreeMap<String, Value>,
    /// Hosts that must be given; none if it creates a lab.
    pub hosts: Vec<String>,
    /// Why it is unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Scenarios of the server's scenario directories.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ScenarioList {
    /// By name.
    pub scenarios: Vec<ScenarioEntry>,
    /// The directories that were searched.
    pub directories: Vec<String>,
}

/// One scenario.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ScenarioText {
    /// Its entry in the list.
    #[serde(flatten)]
    pub entry: ScenarioEntry,
    /// The file's text.
    pub text: String,
    /// The scenario as parsed, with its variables replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<Scenario>,
}

/// A request to run an experiment: a scenario by name, or one in the request.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = not_one_of("scenario", "document")))]
pub(crate) struct ExperimentRequest {
    /// A scenario of the list.
    #[serde(default)]
    pub scenario: Option<String>,
    /// A `weir.scenario/1` instead.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub document: Option<Value>,
    /// Its quick form.
    #[serde(default)]
    pub quick: bool,
    /// Simulate instead of using a network.
    #[serde(default)]
    pub simulate: bool,
    /// Values for its variables.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// Hosts that run `weir serve`, by the scenario's names: `ADDRESS[:PORT]`.
    #[serde(default)]
    #[schemars(extend(
        "maxProperties" = 64,
        "propertyNames" = { "pattern": crate::document::FILE_NAME },
        "additionalProperties" = { "type": "string", "pattern": host() }
    ))]
    pub hosts: BTreeMap<String, String>,
    /// A key for these hosts, by its name.
    #[serde(default)]
    pub key_name: Option<String>,
    /// Seed of the order of points.
    #[serde(default)]
    pub seed: Option<Seed>,
}

/// A request to run a sweep, as `weir sweep` does.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = wrong_place()))]
pub(crate) struct SweepRequest {
    /// The server; absent with `lab`.
    #[serde(default)]
    #[schemars(regex(pattern = host()))]
    pub host: Option<String>,
    /// The test of each point.
    pub plan: Plan,
    /// Axes: `NAME=VALUES`, values separated by commas, ranges `A..B:STEP` or `A..B*FACTOR`.
    #[schemars(
        length(min = 1, max = 16),
        inner(length(max = 4000), regex(pattern = r"^[^=]*[^= ][^=]*=.+"))
    )]
    pub over: Vec<String>,
    /// Repetitions of each point, 1 to 1000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub runs: Option<u32>,
    /// Confidence of the intervals, per cent.
    #[serde(default)]
    #[schemars(range(min = 50), extend("exclusiveMaximum" = 100))]
    pub confidence_percentage: Option<f64>,
    /// What is tabulated.
    #[serde(default)]
    #[schemars(length(max = 64), inner(length(max = 4000)))]
    pub metrics: Vec<String>,
    /// Expectations at each point.
    #[serde(default)]
    #[schemars(length(max = 64), inner(length(max = 4000)))]
    pub expect: Vec<String>,
    /// Run the points in the order of the axes.
    #[serde(default)]
    pub in_order: bool,
    /// Run between two hosts in network namespaces.
    #[serde(default)]
    pub lab: bool,
    /// Laws of the emulator in the lab, with `{NAME}` of axes.
    #[serde(default)]
    #[schemars(length(max = 4000))]
    pub both: Option<String>,
    /// A running emulator that gets the laws, by its id.
    #[serde(default)]
    pub emulator: Option<String>,
    /// A key, by its name.
    #[serde(default)]
    pub key_name: Option<String>,
}

/// Sweeps without a place, or with two: neither a host nor a lab, a host or an emulator with a lab, laws for nothing.
fn wrong_place() -> Value {
    let none = json!({ "type": "null" });
    let given = json!({ "not": none });
    let lab = json!({ "const": true });
    let no_lab = json!({ "not": lab });
    let plan = |host: &Value| json!({ "properties": { "host": host } });
    json!({ "anyOf": [
        { "properties": { "lab": no_lab, "host": none, "plan": plan(&none) } },
        { "properties": { "lab": lab, "host": given }, "required": ["lab", "host"] },
        { "properties": { "lab": lab, "plan": { "properties": { "host": given }, "required": ["host"] } }, "required": ["lab"] },
        { "properties": { "lab": lab, "emulator": given }, "required": ["lab", "emulator"] },
        { "properties": { "lab": no_lab, "both": given, "emulator": none }, "required": ["both"] },
    ] })
}

/// A running or finished experiment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ExperimentState {
    /// Its id, also in the store (`weir report ID`, `weir run --resume ID`), and from the start as the label
    /// `experiment` of its runs.
    pub id: String,
    /// Its state: `interrupted` if it was stopped or killed, `failed` if it was refused or a step failed to run.
    pub state: State,
    /// The scenario's name, or `sweep`.
    pub name: String,
    /// Title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it was requested, RFC 3339, UTC; when it started, if another program started it.
    pub asked_at: String,
    /// When it ended; if this server did not see that, when its result was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Progress messages, latest last, 200 lines at most.
    pub progress: Vec<String>,
    /// The verdict; absent while it runs or if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The outcome with its verdicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// It is incomplete, and can be resumed by `…/resume`.
    pub resumable: bool,
    /// Exit code, if this server saw its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it is incomplete, or can't be resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Experiments of this server and of the store, newest first: the newest 50 that are complete or that the command
/// line started, and the newest 50 incomplete ones of earlier servers. `outcome` is omitted in a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ExperimentList {
    /// Running and finished ones.
    pub experiments: Vec<ExperimentState>,
}
