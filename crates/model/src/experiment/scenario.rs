//! `weir.scenario/1`: an experiment as a file.
//!
//! Strings may hold `{name}` (see [`expand`]); a sweep's test and impairment may hold the names of its axes, which are
//! replaced at each point. Everything is checked before anything starts.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::variables::plain;
use super::{Metric, Rule, Variables, expand, ranges};
use crate::ModelError;
use crate::impairment::{Impairment, Laws};
use crate::plan::Plan;
use crate::units::{ByteSize, Seed, Span};

/// The schema name.
pub const SCENARIO_SCHEMA: &str = "weir.scenario/1";
/// Most steps, those inside of others included.
const MOST_STEPS: usize = 10_000;
/// Most runs of one sweep.
const MOST_RUNS: u64 = 100_000;

/// A whole scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// `weir.scenario/1`.
    pub schema: String,
    /// Short name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Title of its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The method, in words, printed with every result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Tags, kept as labels of its runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Seed of the order of points; absent: drawn, and printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The whole experiment ends after this time, what was measured is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Confidence of intervals over repetitions, per cent. Default 95.
    #[serde(default = "default_confidence")]
    pub confidence_percentage: f64,
    /// Names for `{name}`, with their values. `weir run --set NAME=VALUE` replaces them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Value>,
    /// What `--quick` makes of the variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quick: BTreeMap<String, Value>,
    /// Hosts made of namespaces for this experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabSetup>,
    /// Hosts by name. The hosts of the lab are there by themselves; `local` is this machine.
    #[serde(default, rename = "host", skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostSpec>,
    /// Emulators by name.
    #[serde(default, rename = "emulator", skip_serializing_if = "BTreeMap::is_empty")]
    pub emulators: BTreeMap<String, EmulatorSpec>,
    /// What is done, in order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

fn default_confidence() -> f64 {
    95.0
}

/// A lab for the experiment, taken down at its end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LabSetup {
    /// With an emulator between the hosts `a` and `b` (`m`); else they are joined directly. Hosts beyond two
    /// come with `hosts`.
    pub middle: bool,
    /// Hosts, 2 to 16: `a`, `b`, `c` … Only two with `middle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// MTU of its links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    /// Offloads off, so that each datagram crosses on its own.
    pub cut: bool,
}

/// A host that answers tests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// Name or address of a host where `weir serve` runs already.
    pub address: String,
    /// Its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// File with its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
}

/// An emulator: one that this experiment starts between two interfaces or in the lab's middle, or one that runs already.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EmulatorSpec {
    /// The two interfaces. Absent: the lab's middle, or with `control_socket` a running one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<[String; 2]>,
    /// The control socket of a running emulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_socket: Option<String>,
    /// What it does from the start.
    #[serde(flatten)]
    pub initial: Impairing,
}

/// An impairment, in one of its forms.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Impairing {
    /// Laws for both directions, in the words of `weir impair --both`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub both: Option<String>,
    /// Laws from A to B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_to_b: Option<String>,
    /// Laws from B to A.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_to_a: Option<String>,
    /// A profile by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// A whole `weir.impair/1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// A file with a whole `weir.impair/1`, beside the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_file: Option<String>,
    /// Seed of its draws.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
}

/// One step: exactly one action, and what is common to all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Its name, unique; made from its action where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// It ends after this time, as an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The experiment goes on when this step could not be done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_going: bool,
    /// What has to come true of its runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<String>,
    /// Runs a test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<TestStep>,
    /// Runs a test at each point of a grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Box<SweepStep>>,
    /// Searches a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<Box<SearchStep>>,
    /// Runs other tools over the same path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare: Option<Box<CompareStep>>,
    /// Waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitStep>,
    /// Starts connections of a test in the background that wait for it (`autostart = false`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<StopStep>,
    /// Stops connections of a test in the background, or the whole test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopStep>,
    /// Changes what an emulator does, at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impair: Option<ImpairStep>,
    /// Runs a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandStep>,
    /// Keeps an emulator's counters, or a finding of `weir doctor`, with the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collect: Option<CollectStep>,
    /// Steps that run at the same time; it ends when all have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Vec<Step>>,
    /// Steps that run several times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<RepeatStep>,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action<'a> {
    /// A test.
    Test(&'a TestStep),
    /// A sweep.
    Sweep(&'a SweepStep),
    /// A search.
    Search(&'a SearchStep),
    /// Other tools.
    Compare(&'a CompareStep),
    /// A wait.
    Wait(&'a WaitStep),
    /// Starting connections.
    Start(&'a StopStep),
    /// Stopping connections.
    Stop(&'a StopStep),
    /// An emulator's orders.
    Impair(&'a ImpairStep),
    /// A command.
    Command(&'a CommandStep),
    /// Keeping something.
    Collect(&'a CollectStep),
    /// Steps at the same time.
    Parallel(&'a [Step]),
    /// Steps several times.
    Repeat(&'a RepeatStep),
}

impl Action<'_> {
    /// Its name in the file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Action::Test(_) => "test",
            Action::Sweep(_) => "sweep",
            Action::Search(_) => "search",
            Action::Compare(_) => "compare",
            Action::Wait(_) => "wait",
            Action::Start(_) => "start",
            Action::Stop(_) => "stop",
            Action::Impair(_) => "impair",
            Action::Command(_) => "command",
            Action::Collect(_) => "collect",
            Action::Parallel(_) => "parallel",
            Action::Repeat(_) => "repeat",
        }
    }
}

impl Step {
    /// All actions that it names; a checked step has exactly one.
    fn actions(&self) -> Vec<Action<'_>> {
        let all = [
            self.test.as_ref().map(Action::Test),
            self.sweep.as_deref().map(Action::Sweep),
            self.search.as_deref().map(Action::Search),
            self.compare.as_deref().map(Action::Compare),
            self.wait.as_ref().map(Action::Wait),
            self.start.as_ref().map(Action::Start),
            self.stop.as_ref().map(Action::Stop),
            self.impair.as_ref().map(Action::Impair),
            self.command.as_ref().map(Action::Command),
            self.collect.as_ref().map(Action::Collect),
            self.parallel.as_deref().map(Action::Parallel),
            self.repeat.as_ref().map(Action::Repeat),
        ];
        all.into_iter().flatten().collect()
    }

    /// What it does; absent for a step that names no action or several, which [`Scenario::parse`] refuses.
    #[must_use]
    pub fn action(&self) -> Option<Action<'_>> {
        match self.actions()[..] {
            [action] => Some(action),
            _ => None,
        }
    }
}

/// A test: from which host to which, and its plan in one of three forms.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TestStep {
    /// The host that runs it. Absent: the lab's `a`, without a lab this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The host that answers. Absent: the lab's `b`, or the only `[host]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Flags of `weir test`, such as `-u -b 10M -t 5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// A plan, as in `weir.plan/1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// A file with a plan, beside the scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_file: Option<String>,
    /// Repetitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// The following steps run while it does; `wait` or `stop` ends it, else the end of the scenario.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

/// A sweep.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SweepStep {
    /// The axes: `NAME=VALUES`, such as `size=128..1408:128` or `transport=tcp,udp`. A name that the test does not hold as
    /// `{NAME}` is a parameter of its plan. None: one point, repeated.
    pub over: Vec<String>,
    /// Repetitions at each point. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// Most repetitions, when `precision_percentage` asks for more than `runs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_runs: Option<u32>,
    /// Repeats a point until its first metric's confidence interval is within this share of its mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision_percentage: Option<f64>,
    /// The points in the order of the axes, not shuffled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
    /// A disturbed run is done again, so often at most.
    #[serde(skip_serializing_if = "is_none_or_zero")]
    pub repeat_disturbed: u32,
    /// Rest between runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Span>,
    /// What is tabulated. Default: throughput, packet_rate, loss, jitter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// The test.
    pub test: TestStep,
    /// What an emulator is told before each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impair: Option<ImpairStep>,
    /// Figures that others published, printed beside ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

fn is_none_or_zero(n: &u32) -> bool {
    *n == 0
}

/// Published figures in a CSV file with a header line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Published {
    /// The file, beside the scenario.
    pub file: String,
    /// Where they were published.
    pub source: String,
    /// The column with the figure.
    pub column: String,
    /// One unit of the column in the metric's SI unit: 1e6 for Mbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// The metric that it stands beside.
    pub metric: String,
    /// Axis of the sweep → column that holds its value.
    #[serde(rename = "match")]
    pub matching: BTreeMap<String, String>,
    /// Column → the only value that counts.
    #[serde(rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub filter: BTreeMap<String, String>,
    /// Columns whose values name the figure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub label: Vec<String>,
}

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SearchKind {
    /// The greatest rate without loss (RFC 2544, section 26.1).
    #[default]
    Throughput,
    /// Delay at the throughput (RFC 2544, section 26.2).
    Latency,
    /// Loss at rates going down from the greatest (RFC 2544, section 26.3).
    FrameLoss,
    /// The longest burst without loss (RFC 2544, section 26.4; RFC 9004).
    BackToBack,
    /// Non-drop and partial-drop rate by multiple loss ratio search.
    Mlrsearch,
    /// The rate above which less arrives than is sent.
    Saturation,
}

/// A search. Its test may hold `{rate}` (packets/s, with its unit), `{seconds}` and `{packets}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchStep {
    /// What is searched.
    pub kind: SearchKind,
    /// Axes, as in a sweep: the search is made at each point.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<String>,
    /// Least rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<String>,
    /// Greatest rate, such as the line rate of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<String>,
    /// The search ends when its bounds are this close, per cent of the upper one. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision_percentage: Option<f64>,
    /// Length of a trial. RFC 2544 asks for 60 s.
    pub trial: Span,
    /// Loss that still counts as none, per cent (0 for RFC 2544); for `mlrsearch` the partial-drop ratio.
    pub loss_percentage: f64,
    /// Repetitions of what is averaged (latency, back-to-back).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// The test.
    pub test: TestStep,
}

/// Other tools over the same path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CompareStep {
    /// Tools, of those that `weir compare --list` names. Default: all that are installed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Axes: `size`, `mss`, `transport`, `connections`, `rate`, `seconds`.
    pub over: Vec<String>,
    /// Fixed parameters of the same names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, Value>,
    /// Repetitions. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// Sending host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Receiving host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Figures that others published, printed beside ours.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

/// A wait: for a time, for the end of a test in the background, or for a volume of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WaitStep {
    /// So long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// A test in the background, by its step's name: until its end, or until `bytes` or `packets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Until so much payload was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
    /// Until so many packets were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
}

/// Connections of a test in the background.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopStep {
    /// The test, by its step's name.
    pub test: String,
    /// The connection; absent: all of them, and to stop the test itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
}

/// Orders for an emulator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ImpairStep {
    /// Which; absent: the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulator: Option<String>,
    /// Nothing more is impaired.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clear: bool,
    /// What it is to do.
    #[serde(flatten)]
    pub to: Impairing,
}

/// A command of the person who runs the scenario.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CommandStep {
    /// Program and arguments; no shell reads them.
    pub run: Vec<String>,
    /// In which host of the lab; absent: this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The exit code that is right. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// What is kept with the result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CollectStep {
    /// The counters of this emulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulator: Option<String>,
    /// A file of this machine, its first 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// Steps that run several times.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RepeatStep {
    /// How often. Absent with `over`: once for each point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Axes whose names the steps may hold, as in a sweep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<String>,
    /// The steps.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

/// The values of the axes of a sweep.
pub type Values = Vec<(String, Vec<String>)>;

impl Scenario {
    /// Reads a scenario from TOML, or from JSON when it begins with `{`, replaces its variables (`--quick` and `set` win
    /// over the file's) and checks all that needs no file and no host. `hosts` replace those of the file; with one of them there
    /// is no lab: tests then run from this machine.
    ///
    /// # Errors
    /// [`ModelError`] with line, or with the path of the field, what was given and what is accepted.
    pub fn parse(
        text: &str,
        is_quick: bool,
        set: &Variables,
        hosts: &BTreeMap<String, HostSpec>,
    ) -> Result<Scenario, ModelError> {
        let document = |reason: String| ModelError::Document { document: SCENARIO_SCHEMA, reason };
        let raw: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|e| document(e.to_string()))?
        } else {
            toml::from_str(text).map_err(|e| document(e.to_string()))?
        };
        let mut raw = raw;
        if let (false, Some(fields)) = (hosts.is_empty(), raw.as_object_mut()) {
            fields.remove("lab");
            let given = fields.entry("host").or_insert_with(|| Value::Object(Default::default()));
            for (name, host) in hosts {
                given[name] = serde_json::to_value(host).map_err(|e| document(e.to_string()))?;
            }
        }
        let mut variables = Variables::new();
        let table =
            |name: &str| raw.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        variables.extend(table("variables"));
        if is_quick {
            variables.extend(table("quick"));
        }
        for (name, value) in set {
            if !variables.contains_key(name) {
                let known: Vec<&str> = variables.keys().map(String::as_str).collect();
                let hint = nearest(name, known.iter().copied())
                    .map_or_else(String::new, |n| format!(" (did you mean {n}?)"));
                return Err(ModelError::Field {
                    field: "--set".into(),
                    given: format!("'{name}'"),
                    accepted: format!("the scenario's variables: {}{hint}", known.join(", ")),
                });
            }
            variables.insert(name.clone(), value.clone());
        }
        for (name, value) in &variables {
            if value.is_array() || value.is_object() {
                return Err(ModelError::Field {
                    field: format!("variables.{name}"),
                    given: value.to_string(),
                    accepted: "a string, a number or a boolean".into(),
                });
            }
        }
        let mut expanded = expand(&raw, &variables, &BTreeSet::new(), "")?;
        if let Some(fields) = expanded.as_object_mut()
            && !variables.is_empty()
        {
            fields.insert("variables".into(), Value::Object(variables.into_iter().collect()));
        }
        let mut scenario: Scenario = read(&expanded)?;
        scenario.name_steps();
        scenario.check()?;
        Ok(scenario)
    }

    fn name_steps(&mut self) {
        fn name(steps: &mut [Step], count: &mut BTreeMap<&'static str, u32>) {
            for step in steps {
                if step.name.is_none()
                    && let Some(action) = step.action().map(|a| a.name())
                {
                    let n = count.entry(action).or_default();
                    *n += 1;
                    step.name = Some(format!("{action}-{n}"));
                }
                if let Some(inner) = &mut step.parallel {
                    name(inner, count);
                }
                if let Some(repeat) = &mut step.repeat {
                    name(&mut repeat.steps, count);
                }
            }
        }
        name(&mut self.steps, &mut BTreeMap::new());
    }

    fn check(&self) -> Result<(), ModelError> {
        if self.schema != SCENARIO_SCHEMA {
            return refuse("schema", &self.schema, SCENARIO_SCHEMA);
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(is_plain) {
            return refuse(
                "name",
                &format!("{:?}", self.name),
                "1 to 64 of letters, digits, '-', '_', '.'",
            );
        }
        if !(50.0..100.0).contains(&self.confidence_percentage) {
            return refuse(
                "confidence_percentage",
                &self.confidence_percentage.to_string(),
                "50 to below 100",
            );
        }
        if let Some(name) = self.quick.keys().find(|n| !self.variables.contains_key(*n)) {
            return refuse(&format!("quick.{name}"), "no such variable", "names of [variables]");
        }
        if self.steps.is_empty() {
            return refuse("step", "none", "at least one [[step]]");
        }
        if let Some(lab) = &self.lab {
            let hosts = lab.hosts.unwrap_or(2);
            if !(2..=16).contains(&hosts) || (lab.middle && hosts != 2) {
                return refuse("lab.hosts", &hosts.to_string(), "2 to 16, and 2 with middle");
            }
        }
        for (name, host) in &self.hosts {
            if host.address.is_empty() {
                return refuse(&format!("host.{name}.address"), "none", "a name or an address");
            }
            if name == "local" || self.lab_hosts().contains(name) {
                return refuse(&format!("host.{name}"), "a name that is taken", "another name");
            }
        }
        for (name, emulator) in &self.emulators {
            let at = format!("emulator.{name}");
            let has_middle = self.lab.as_ref().is_some_and(|l| l.middle);
            match (&emulator.interfaces, &emulator.control_socket) {
                (Some(_), Some(_)) => {
                    return refuse(&at, "interfaces and control_socket", "one of them");
                }
                (None, None) if !has_middle => {
                    return refuse(
                        &at,
                        "neither",
                        "interfaces, control_socket, or [lab] with middle = true",
                    );
                }
                _ => {}
            }
            emulator.initial.check(&at, false)?;
        }
        let mut names = BTreeSet::new();
        let mut count = 0;
        self.check_steps(&self.steps, "step", &mut names, &mut count, &BTreeSet::new())
    }

    /// Hosts of the lab.
    #[must_use]
    pub fn lab_hosts(&self) -> Vec<String> {
        let count = self.lab.as_ref().map_or(0, |l| l.hosts.unwrap_or(2).min(16));
        (b'a'..).take(count as usize).map(|c| char::from(c).to_string()).collect()
    }

    fn check_steps(
        &self,
        steps: &[Step],
        at: &str,
        names: &mut BTreeSet<String>,
        count: &mut usize,
        axes: &BTreeSet<String>,
    ) -> Result<(), ModelError> {
        for (i, step) in steps.iter().enumerate() {
            let at = format!("{at}[{i}]");
            *count += 1;
            if *count > MOST_STEPS {
                return refuse(&at, "too many", "at most 10000 steps");
            }
            let actions: Vec<&str> = step.actions().iter().map(Action::name).collect();
            let [_] = actions[..] else {
                let given =
                    if actions.is_empty() { "no action".into() } else { actions.join(" and ") };
                return refuse(
                    &at,
                    &given,
                    "one of test, sweep, search, compare, wait, start, stop, impair, command, collect, parallel, repeat",
                );
            };
            if let Some(name) = &step.name
                && !names.insert(name.clone())
            {
                return refuse(&format!("{at}.name"), name, "a name used once");
            }
            self.check_step(step, &at, names, count, axes)?;
        }
        Ok(())
    }

    fn check_step(
        &self,
        step: &Step,
        at: &str,
        names: &mut BTreeSet<String>,
        count: &mut usize,
        axes: &BTreeSet<String>,
    ) -> Result<(), ModelError> {
        let Some(action) = step.action() else { return Ok(()) };
        for text in &step.expect {
            text.parse::<Rule>().map_err(|e| inside(&format!("{at}.expect"), e))?;
        }
        let has_runs = matches!(
            action,
            Action::Test(_)
                | Action::Sweep(_)
                | Action::Compare(_)
                | Action::Wait(_)
                | Action::Stop(_)
        );
        if !step.expect.is_empty() && !has_runs {
            return refuse(
                &format!("{at}.expect"),
                &format!("on {}", action.name()),
                "expectations of test, sweep or compare, or of wait and stop, which end a test in the background",
            );
        }
        let at = format!("{at}.{}", action.name());
        match action {
            Action::Test(test) => self.check_test(test, &at, axes),
            Action::Sweep(sweep) => {
                let own = check_axes(&sweep.over, &at)?;
                let points: u64 = own.iter().map(|(_, v)| v.len() as u64).product();
                let most = u64::from(sweep.most_runs.or(sweep.runs).unwrap_or(1).max(1));
                if points.saturating_mul(most) > MOST_RUNS {
                    return refuse(
                        &format!("{at}.over"),
                        &format!("{points} points"),
                        "at most 100000 runs in all",
                    );
                }
                if sweep.runs == Some(0) {
                    return refuse(&format!("{at}.runs"), "0", "1 or more");
                }
                if sweep.precision_percentage.is_some_and(|p| !(p > 0.0 && p <= 100.0)) {
                    return refuse(
                        &format!("{at}.precision_percentage"),
                        "out of range",
                        "above 0 to 100",
                    );
                }
                for metric in &sweep.metrics {
                    metric.parse::<Metric>().map_err(|e| inside(&format!("{at}.metrics"), e))?;
                }
                for (i, published) in sweep.published.iter().enumerate() {
                    check_published(published, &own, &format!("{at}.published[{i}]"))?;
                }
                let mut axes = axes.clone();
                axes.extend(own.iter().map(|(n, _)| n.clone()));
                if sweep.test.background || sweep.test.runs.is_some() {
                    return refuse(
                        &format!("{at}.test"),
                        "runs or background",
                        "runs of the sweep itself",
                    );
                }
                self.check_test(&sweep.test, &format!("{at}.test"), &axes)?;
                sweep
                    .impair
                    .as_ref()
                    .map_or(Ok(()), |i| self.check_impair(i, &format!("{at}.impair"), true))
            }
            Action::Search(search) => {
                check_axes(&search.over, &at)?;
                if search.trial.0 == 0 && search.kind != SearchKind::BackToBack {
                    return refuse(
                        &format!("{at}.trial"),
                        "none",
                        "the length of a trial, such as 60s",
                    );
                }
                self.check_test(
                    &search.test,
                    &format!("{at}.test"),
                    &BTreeSet::from(["rate".into()]),
                )
            }
            Action::Compare(compare) => {
                let own = check_axes(&compare.over, &at)?;
                self.check_host(compare.from.as_deref(), &format!("{at}.from"))?;
                self.check_host(compare.to.as_deref(), &format!("{at}.to"))?;
                for (i, published) in compare.published.iter().enumerate() {
                    check_published(published, &own, &format!("{at}.published[{i}]"))?;
                }
                Ok(())
            }
            Action::Wait(wait) => match (wait.time, &wait.test) {
                (None, None) | (Some(_), Some(_)) => {
                    refuse(&at, "neither or both", "one of time and test")
                }
                (Some(_), None) if wait.bytes.is_some() || wait.packets.is_some() => {
                    refuse(&at, "bytes or packets of no test", "test with them")
                }
                (Some(_), None) => Ok(()),
                (None, Some(test)) => self.check_background(test, &format!("{at}.test")),
            },
            Action::Start(which) | Action::Stop(which) => {
                self.check_background(&which.test, &format!("{at}.test"))
            }
            Action::Impair(impair) => self.check_impair(impair, &at, !axes.is_empty()),
            Action::Command(command) => {
                if command.run.first().is_none_or(String::is_empty) {
                    return refuse(&format!("{at}.run"), "nothing", "a program and its arguments");
                }
                match &command.host {
                    Some(host) if !self.lab_hosts().contains(host) && host != "local" => refuse(
                        &format!("{at}.host"),
                        host,
                        "a host of the lab, or local: nothing runs commands elsewhere",
                    ),
                    _ => Ok(()),
                }
            }
            Action::Collect(collect) => match (&collect.emulator, &collect.file) {
                (Some(name), None) => self.check_emulator(Some(name), &format!("{at}.emulator")),
                (None, Some(_)) => Ok(()),
                _ => refuse(&at, "neither or both", "one of emulator and file"),
            },
            Action::Parallel(inner) => self.check_steps(inner, &at, names, count, axes),
            Action::Repeat(repeat) => {
                let own = check_axes(&repeat.over, &at)?;
                if own.is_empty() == repeat.times.is_none() {
                    return refuse(&at, "neither or both", "one of times and over");
                }
                if repeat.times.is_some_and(|t| t == 0 || t > 100_000) {
                    return refuse(&format!("{at}.times"), "out of range", "1 to 100000");
                }
                let mut axes = axes.clone();
                axes.extend(own.into_iter().map(|(n, _)| n));
                self.check_steps(&repeat.steps, &format!("{at}.step"), names, count, &axes)
            }
        }
    }

    fn check_test(
        &self,
        test: &TestStep,
        at: &str,
        axes: &BTreeSet<String>,
    ) -> Result<(), ModelError> {
        self.check_host(test.from.as_deref().filter(|h| *h != "local"), &format!("{at}.from"))?;
        if let Some(from) = &test.from
            && self.hosts.contains_key(from)
        {
            return refuse(
                &format!("{at}.from"),
                from,
                "local or a host of the lab: tests start on this machine",
            );
        }
        self.check_host(test.to.as_deref(), &format!("{at}.to"))?;
        if test.to.is_none() && self.lab.is_none() && self.hosts.len() != 1 {
            return refuse(&format!("{at}.to"), "none", "the host that answers");
        }
        let forms = [test.args.is_some(), test.plan.is_some(), test.plan_file.is_some()];
        if forms.iter().filter(|f| **f).count() > 1 {
            return refuse(at, "several", "one of args, plan and plan_file");
        }
        if test.runs == Some(0) {
            return refuse(&format!("{at}.runs"), "0", "1 or more");
        }
        if let Some(plan) = &test.plan
            && axes.is_empty()
        {
            test_plan(plan).map_err(|e| inside(&format!("{at}.plan"), e))?;
        }
        Ok(())
    }

    fn check_host(&self, name: Option<&str>, at: &str) -> Result<(), ModelError> {
        let Some(name) = name else { return Ok(()) };
        let lab = self.lab_hosts();
        if name.contains('{') || self.hosts.contains_key(name) || lab.iter().any(|h| h == name) {
            return Ok(());
        }
        let known: Vec<&str> =
            lab.iter().map(String::as_str).chain(self.hosts.keys().map(String::as_str)).collect();
        let known =
            if known.is_empty() { "a [host.NAME] or a [lab]".into() } else { known.join(", ") };
        refuse(at, name, &known)
    }

    fn check_emulator(&self, name: Option<&str>, at: &str) -> Result<(), ModelError> {
        match name {
            Some(name) if self.emulators.contains_key(name) => Ok(()),
            None if self.emulators.len() == 1 => Ok(()),
            given => {
                let known: Vec<&str> = self.emulators.keys().map(String::as_str).collect();
                let known =
                    if known.is_empty() { "an [emulator.NAME]".into() } else { known.join(", ") };
                refuse(at, given.unwrap_or("none"), &known)
            }
        }
    }

    fn check_impair(
        &self,
        impair: &ImpairStep,
        at: &str,
        is_later: bool,
    ) -> Result<(), ModelError> {
        self.check_emulator(impair.emulator.as_deref(), &format!("{at}.emulator"))?;
        if impair.clear != impair.to.is_empty() {
            return refuse(at, "neither or both", "clear = true, or what it is to do");
        }
        impair.to.check(at, is_later)
    }

    fn check_background(&self, test: &str, at: &str) -> Result<(), ModelError> {
        fn any<'a>(steps: &'a [Step], found: &mut Vec<&'a str>) {
            for step in steps {
                if let (Some(test), Some(name)) = (&step.test, &step.name)
                    && test.background
                {
                    found.push(name);
                }
                any(step.parallel.as_deref().unwrap_or_default(), found);
                any(step.repeat.as_ref().map_or(&[], |r| &r.steps), found);
            }
        }
        let mut known = vec![];
        any(&self.steps, &mut known);
        if known.contains(&test) {
            return Ok(());
        }
        let known = if known.is_empty() {
            "a test with background = true".into()
        } else {
            known.join(", ")
        };
        refuse(at, test, &known)
    }
}

/// A plan of a step: as `weir.plan/1`, whose schema need not be said.
///
/// # Errors
/// Those of [`Plan::parse`].
pub fn test_plan(plan: &Value) -> Result<Plan, ModelError> {
    let mut plan = plan.clone();
    if let Some(fields) = plan.as_object_mut() {
        fields.entry("schema").or_insert_with(|| crate::plan::PLAN_SCHEMA.into());
    }
    let plan: Plan = read(&plan)?;
    plan.check()?;
    Ok(plan)
}

impl Impairing {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Impairing { seed: self.seed, ..Impairing::default() }
    }

    fn check(&self, at: &str, is_later: bool) -> Result<(), ModelError> {
        if is_later || self.config_file.is_some() {
            return self.forms(at);
        }
        self.forms(at)?;
        self.impairment(at, "").map(drop)
    }

    fn forms(&self, at: &str) -> Result<(), ModelError> {
        let words = self.both.is_some() || self.a_to_b.is_some() || self.b_to_a.is_some();
        let forms =
            [words, self.profile.is_some(), self.config.is_some(), self.config_file.is_some()];
        if forms.iter().filter(|f| **f).count() > 1 {
            return refuse(
                at,
                "several",
                "one of laws (both, a_to_b, b_to_a), profile, config and config_file",
            );
        }
        Ok(())
    }

    /// The whole impairment; `file` is the text of `config_file`.
    ///
    /// # Errors
    /// [`ModelError`] for words that are no laws and documents that do not hold.
    pub fn impairment(&self, at: &str, file: &str) -> Result<Impairment, ModelError> {
        let mut impairment = if let Some(name) = &self.profile {
            Impairment::of_profile(name).map_err(|e| inside(&format!("{at}.profile"), e))?
        } else if let Some(config) = &self.config {
            let config: Impairment =
                read(config).map_err(|e| inside(&format!("{at}.config"), e))?;
            config.check().map_err(|e| inside(&format!("{at}.config"), e))?;
            config
        } else if self.config_file.is_some() {
            Impairment::parse(file).map_err(|e| inside(&format!("{at}.config_file"), e))?
        } else {
            let laws = |text: &Option<String>, name: &str| match text {
                Some(text) => text.parse::<Laws>().map_err(|e| inside(&format!("{at}.{name}"), e)),
                None => Ok(Laws::default()),
            };
            let both = laws(&self.both, "both")?;
            let mut impairment = Impairment::of_both(both.clone());
            if self.a_to_b.is_some() || self.b_to_a.is_some() {
                impairment.other.a_to_b = laws(&self.a_to_b, "a_to_b")?.over(&both);
                impairment.other.b_to_a = laws(&self.b_to_a, "b_to_a")?.over(&both);
            }
            impairment.check().map_err(|e| inside(at, e))?;
            impairment
        };
        if let Some(seed) = self.seed {
            impairment.seed = seed;
        }
        Ok(impairment)
    }
}

/// The axes of a sweep with their values.
///
/// # Errors
/// [`ModelError::Field`] for words that are no axis.
pub fn check_axes(over: &[String], at: &str) -> Result<Values, ModelError> {
    let mut out: Values = vec![];
    for axis in over {
        let at = format!("{at}.over");
        let (name, values) = match axis.split_once('=') {
            Some((name, values)) if !name.trim().is_empty() => (name.trim(), values),
            _ => {
                refuse(&at, axis, "NAME=VALUES such as size=128..1408:128 or transport=tcp,udp")?;
                continue;
            }
        };
        if out.iter().any(|(n, _)| n == name) {
            refuse(&at, name, "each axis once")?;
        }
        out.push((name.into(), ranges(&format!("{at} {name}"), values)?));
        let points = out.iter().try_fold(1u64, |all, (_, v)| all.checked_mul(v.len() as u64));
        if points.is_none_or(|points| points > MOST_RUNS) {
            refuse(&at, "too many points", "at most 100000 of all axes together")?;
        }
    }
    Ok(out)
}

fn check_published(published: &Published, axes: &Values, at: &str) -> Result<(), ModelError> {
    published.metric.parse::<Metric>().map_err(|e| inside(&format!("{at}.metric"), e))?;
    for axis in published.matching.keys() {
        if axis != "tool" && !axes.iter().any(|(name, _)| name == axis) {
            let known: Vec<&str> = axes.iter().map(|(n, _)| n.as_str()).collect();
            return refuse(
                &format!("{at}.match.{axis}"),
                "no axis of this sweep",
                &known.join(", "),
            );
        }
    }
    if published.file.is_empty() || published.column.is_empty() {
        return refuse(at, "incomplete", "file, source, column and metric");
    }
    Ok(())
}

fn refuse(field: &str, given: &str, accepted: &str) -> Result<(), ModelError> {
    Err(ModelError::Field { field: field.into(), given: given.into(), accepted: accepted.into() })
}

/// An error of something inside the document, with its place.
fn inside(at: &str, error: ModelError) -> ModelError {
    match error {
        ModelError::Field { field, given, accepted } => {
            ModelError::Field { field: format!("{at}: {field}"), given, accepted }
        }
        ModelError::Value { given, accepted, .. } => ModelError::Field {
            field: at.into(),
            given: format!("'{given}'"),
            accepted: accepted.into(),
        },
        ModelError::Document { document, reason } => {
            ModelError::Document { document, reason: format!("{at}: {reason}") }
        }
    }
}

/// Reads a value as a type; an unknown key is told with its path and the nearest known one.
fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, ModelError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let at = error.path().to_string();
        let reason = error.inner().to_string();
        let hint = unknown_key(&reason)
            .and_then(|(given, known)| {
                let n = nearest(given, known.iter().copied())?;
                Some(format!(" (did you mean {n}?)"))
            })
            .unwrap_or_default();
        let at = if at == "." { String::new() } else { format!("{at}: ") };
        ModelError::Document { document: SCENARIO_SCHEMA, reason: format!("{at}{reason}{hint}") }
    })
}

/// The key and the known ones in serde's words "unknown field `x`, expected one of `a`, `b`".
fn unknown_key(reason: &str) -> Option<(&str, Vec<&str>)> {
    let rest = reason
        .strip_prefix("unknown field `")
        .or_else(|| reason.strip_prefix("unknown variant `"))?;
    let (given, rest) = rest.split_once('`')?;
    Some((given, rest.split('`').skip(1).step_by(2).collect()))
}

/// The known name that is nearest to a given one, when it is near enough to be what was meant.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = given.chars().count().div_ceil(3);
    known
        .map(|name| (distance(given, name), name))
        .filter(|(d, name)| *d <= most || (given.len() >= 3 && name.contains(given)))
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

impl TestStep {
    /// Its plan at a point of a sweep: `{name}` replaced, and each value whose name it does not hold set as a parameter of
    /// the plan. The words of `args` are the caller's to read.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        let braced = format!("{{{name}}}");
        let in_plan = self.plan.as_ref().is_some_and(|p| p.to_string().contains(&braced));
        in_plan
            || [&self.args, &self.from, &self.to].into_iter().flatten().any(|t| t.contains(&braced))
    }
}

/// Sets a parameter of a plan by its name: a field of the plan, or of every connection (`NAME.field` for one of them). Short
/// names of the flags are known: `size`, `connections`, `time`.
///
/// # Errors
/// [`ModelError::Field`] for a name that no plan has or a value that it does not take.
pub fn set_parameter(plan: &Plan, name: &str, value: &str) -> Result<Plan, ModelError> {
    const SHORT: &[(&str, &str)] = &[
        ("size", "payload"),
        ("length", "payload"),
        ("connections", "count"),
        ("parallel", "count"),
        ("time", "duration"),
        ("seconds", "duration"),
        ("bitrate", "rate"),
        ("cc", "congestion"),
    ];
    let fail = |reason: String| ModelError::Document { document: crate::plan::PLAN_SCHEMA, reason };
    let mut raw = serde_json::to_value(plan).map_err(|e| fail(e.to_string()))?;
    let (only, field) = match name.rsplit_once('.') {
        Some((connection, field)) => (Some(connection), field),
        None => (None, name),
    };
    let field = SHORT.iter().find(|(short, _)| *short == field).map_or(field, |(_, long)| long);
    let of_plan = [
        "family",
        "interval",
        "omit",
        "data_ports",
        "loss_threshold",
        "latency",
        "nominal",
        "seed",
        "bind",
        "device",
    ];
    // As a number or a boolean where it reads as one; fields with units take both.
    let number: Value = match value {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => value.parse::<u64>().map_or_else(|_| Value::String(value.into()), Into::into),
    };
    let mut found = false;
    if only.is_none() && of_plan.contains(&field) {
        raw[field] = number;
        found = true;
    } else if let Some(connections) = raw.get_mut("connection").and_then(Value::as_array_mut) {
        for connection in connections {
            if only.is_none_or(|n| connection.get("name").map(plain).as_deref() == Some(n)) {
                connection[field] = number.clone();
                found = true;
            }
        }
    }
    if !found {
        return Err(ModelError::Field {
            field: name.into(),
            given: "no such connection".into(),
            accepted: "the name of a connection of the plan".into(),
        });
    }
    let plan: Plan = read(&raw).map_err(|e| match e {
        ModelError::Document { reason, .. } => ModelError::Field {
            field: name.into(),
            given: format!("'{value}'"),
            accepted: format!("a parameter of the plan: {reason}"),
        },
        other => other,
    })?;
    plan.check().map_err(|e| inside(name, e))?;
    Ok(plan)
}
