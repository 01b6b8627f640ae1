//! Scenarios, sweeps and experiments.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_model::experiment::{Experiment as Outcome, Outcome as Verdict, Scenario};
use weir_model::plan::Plan;
use weir_model::units::Seed;

use super::State;

/// A scenario that can be picked.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ScenarioEntry {
    /// Its name in paths.
    pub name: String,
    /// Title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The method, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Steps.
    pub steps: usize,
    /// It makes a lab.
    pub needs_lab: bool,
    /// It runs commands: refused without `--allow-commands`.
    pub runs_commands: bool,
    /// Variables with their values.
    pub variables: BTreeMap<String, Value>,
    /// Hosts that have to be given; none when it makes a lab.
    pub hosts: Vec<String>,
    /// Why it can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Scenarios of the server's scenario directories.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ScenarioList {
    /// By name.
    pub scenarios: Vec<ScenarioEntry>,
    /// The directories that they are in.
    pub directories: Vec<String>,
}

/// One scenario.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ScenarioText {
    /// What the list says of it.
    #[serde(flatten)]
    pub entry: ScenarioEntry,
    /// The file's text.
    pub text: String,
    /// The scenario as it is understood, its variables replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<Scenario>,
}

/// An experiment to be run: a scenario by its name, or one in the request.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentRequest {
    /// A scenario of the list.
    #[serde(default)]
    pub scenario: Option<String>,
    /// A whole `weir.scenario/1` in its place.
    #[serde(default)]
    pub document: Option<Value>,
    /// Its quick form.
    #[serde(default)]
    pub quick: bool,
    /// On the virtual clock.
    #[serde(default)]
    pub simulate: bool,
    /// Other values for its variables.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// Hosts where `weir serve` runs, by the scenario's names: `ADDRESS[:PORT]`.
    #[serde(default)]
    pub hosts: BTreeMap<String, String>,
    /// A key for these hosts, by its name.
    #[serde(default)]
    pub key_name: Option<String>,
    /// Seed of the order of points.
    #[serde(default)]
    pub seed: Option<Seed>,
}

/// A sweep to be run, as `weir sweep` does.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepRequest {
    /// Who answers; absent with `lab`.
    #[serde(default)]
    pub host: Option<String>,
    /// What is run at each point.
    pub plan: Plan,
    /// Axes: `NAME=VALUES`, values separated by commas, ranges `A..B:STEP` or `A..B*FACTOR`.
    pub over: Vec<String>,
    /// Repetitions of each point, 1 to 1000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub runs: Option<u32>,
    /// Confidence of the intervals in percent.
    #[serde(default)]
    pub confidence_percentage: Option<f64>,
    /// What is tabulated.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// What has to come true at each point.
    #[serde(default)]
    pub expect: Vec<String>,
    /// The points in the order of the axes.
    #[serde(default)]
    pub in_order: bool,
    /// Between two hosts made of namespaces.
    #[serde(default)]
    pub lab: bool,
    /// Laws of the emulator in the lab, with `{NAME}` of axes.
    #[serde(default)]
    pub both: Option<String>,
    /// A running emulator that is given the laws, by its id.
    #[serde(default)]
    pub emulator: Option<String>,
    /// A key, by its name.
    #[serde(default)]
    pub key_name: Option<String>,
}

/// An experiment that runs or has ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ExperimentState {
    /// Its id: here, where it is kept (`weir report ID`, `weir run --resume ID`), and as the label `experiment` of its runs, from its
    /// beginning on.
    pub id: String,
    /// How far it is: `interrupted` where it was stopped or killed, `failed` where it was refused or a step could not be done.
    pub state: State,
    /// The scenario's name, or `sweep`.
    pub name: String,
    /// Title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it was asked for, RFC 3339, UTC; of one that this server did not begin, when it began.
    pub asked_at: String,
    /// When it ended; of one whose end this server did not see, when its result was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// What it said on its way, latest last, 200 lines at most.
    pub progress: Vec<String>,
    /// The verdict; absent while it runs and where it told none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What came of it, verdicts included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// It was interrupted, or a step could not be done, and what it measured is kept: `…/resume` goes on with it.
    pub can_go_on: bool,
    /// Exit code of its program, where this server saw its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it did not come to its end, or why it can't be gone on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Experiments of this server and those that are kept, newest first: the newest 50 that came to their end or that the command line
/// began, and the newest 50 that an earlier server began and that did not come to their end. `outcome` is left out of a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ExperimentList {
    /// Those that run and those that ended.
    pub experiments: Vec<ExperimentState>,
}
