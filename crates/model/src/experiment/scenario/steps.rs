//! The steps of a scenario.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CommandStep, Impairing};
use crate::ModelError;
use crate::threads::Threads;
use crate::units::{ByteSize, Span};

/// One step: exactly one action, and options common to all actions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Unique name. Absent: made from the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// It is stopped after this time, as an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The experiment continues if this step fails to run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_going: bool,
    /// Expectations of its runs, or of a command: `duration < 2 s`, `exit_code == 0`, `output contains TEXT`.
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
    /// Stops connections of a test in the background, or the whole test, or a command in the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopStep>,
    /// Changes an emulator's laws immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impair: Option<ImpairStep>,
    /// Runs a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandStep>,
    /// Stores an emulator's counters, or a file, with the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collect: Option<CollectStep>,
    /// Steps that run concurrently; it ends when all have ended.
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
    /// New laws of an emulator.
    Impair(&'a ImpairStep),
    /// A command.
    Command(&'a CommandStep),
    /// Counters or a file to store.
    Collect(&'a CollectStep),
    /// Concurrent steps.
    Parallel(&'a [Step]),
    /// Repeated steps.
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
    /// All its actions; a checked step has exactly one.
    pub(super) fn actions(&self) -> Vec<Action<'_>> {
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

    /// Its action; absent if it has none or several, which [`Scenario::parse`] refuses.
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
    /// The client host. Absent: the lab's `a`, or this machine without a lab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The server host. Absent: the lab's `b`, or the only `[host]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Which of `from` sends to which of `to`, all at the same time. Absent: `pairs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Flags of `weir test`, such as `-u -b 10M -t 5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// A plan, as in `weir.plan/1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// A file with a plan, in the scenario's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_file: Option<String>,
    /// Repetitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// The following steps run while it runs. `wait` or `stop` ends it, else the end of the scenario.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// The threads of `from`'s end.
    #[serde(skip_serializing_if = "Threads::is_default")]
    pub threads: Threads,
}

/// Which hosts of a test send to which. Each pair is a test of its own; all run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// The first of `from` to the first of `to`, the second to the second, and so on; a shorter list is repeated.
    #[default]
    Pairs,
    /// The one host `from` to each of `to`.
    OneToMany,
    /// Each of `from` to the one host `to`.
    ManyToOne,
    /// The one host `from` to each of `to`, and each of `to` to `from`.
    Star,
    /// Each of `from` to each other one; `to` is absent.
    FullMesh,
}

impl Topology {
    /// The pairs of hosts. A host that `to` has in common with `from` sends nothing to itself.
    ///
    /// # Errors
    /// The field, what was given, and what is accepted.
    pub fn pairs(
        self,
        from: &[String],
        to: &[String],
    ) -> Result<Vec<(String, String)>, ModelError> {
        let refused = |field: &str, hosts: &[String], accepted: &str| {
            let given = if hosts.is_empty() { "none".to_owned() } else { hosts.join("+") };
            Err(ModelError::Field { field: field.into(), given, accepted: accepted.into() })
        };
        let one = "one host, with this topology";
        match self {
            Topology::OneToMany | Topology::Star if from.len() != 1 => {
                return refused("from", from, one);
            }
            Topology::ManyToOne if to.len() != 1 => return refused("to", to, one),
            Topology::FullMesh if !to.is_empty() => {
                return refused("to", to, "absent: full-mesh has its hosts in from");
            }
            Topology::FullMesh if from.len() < 2 => {
                return refused("from", from, "two hosts or more, with full-mesh");
            }
            _ => {}
        }
        let count = from.len().max(to.len());
        let cycled = || from.iter().cycle().zip(to.iter().cycle()).take(count);
        let pairs: Vec<(&String, &String)> = match self {
            Topology::Pairs | Topology::OneToMany | Topology::ManyToOne => cycled().collect(),
            Topology::Star => cycled().flat_map(|(hub, leaf)| [(hub, leaf), (leaf, hub)]).collect(),
            Topology::FullMesh => {
                from.iter().flat_map(|a| from.iter().map(move |b| (a, b))).collect()
            }
        };
        let others = pairs.into_iter().filter(|(a, b)| a != b);
        let pairs: Vec<_> = others.map(|(a, b)| (a.clone(), b.clone())).collect();
        if pairs.is_empty() {
            return refused("to", to, "another host than from");
        }
        Ok(pairs)
    }
}

/// A sweep.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SweepStep {
    /// The axes: `NAME=VALUES`, such as `size=128..1408:128` or `transport=tcp,udp`. A name that the test does
    /// not contain as `{NAME}` is a parameter of its plan. Empty: one point, repeated.
    pub over: Vec<String>,
    /// Repetitions at each point. Default 1. With `precision_percentage`, those of the first stage: default 10,
    /// at least 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// Maximum number of repetitions; required with `precision_percentage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<u32>,
    /// Repeats a point until the confidence interval of its first metric is within this percentage of its mean,
    /// at most `max_runs` times. The standard deviation of the first `runs` determines the number and the
    /// interval (Stein's two stages).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision_percentage: Option<f64>,
    /// Compares the rates of compressible and incompressible content, which shows compression on the path. `over` is
    /// then the one axis `content=zeros,random`, `runs` is 2 or more, and the test has one direction.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compare_content: bool,
    /// Runs the points in the order of the axes, not shuffled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_order: bool,
    /// Maximum number of times that a host-limited run is repeated.
    #[serde(skip_serializing_if = "is_none_or_zero")]
    pub repeat_host_limited: u32,
    /// Pause between runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Span>,
    /// The tabulated metrics. Default: throughput, packet_rate, loss, jitter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// The test.
    pub test: TestStep,
    /// Laws to set in an emulator before each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impair: Option<ImpairStep>,
}

impl SweepStep {
    /// The axis of a comparison of contents: the compressible one first.
    pub const CONTENTS: &str = "content=zeros,random";
}

fn is_none_or_zero(n: &u32) -> bool {
    *n == 0
}

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SearchKind {
    /// The maximum rate without loss (RFC 2544, section 26.1).
    #[default]
    Throughput,
    /// Delay at the throughput (RFC 2544, section 26.2).
    Latency,
    /// Loss at rates decreasing from the maximum (RFC 2544, section 26.3).
    FrameLoss,
    /// The longest burst without loss (RFC 2544, section 26.4; RFC 9004).
    BackToBack,
    /// Non-drop and partial-drop rate by multiple loss ratio search.
    Mlrsearch,
    /// The rate above which less arrives than is sent.
    Saturation,
}

/// A search with datagrams. Its test may contain `{rate}` (the sum of all flows, with its unit), `{seconds}`
/// and `{packets}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchStep {
    /// What is searched.
    pub kind: SearchKind,
    /// Axes, as in a sweep: there is a search at each point.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<String>,
    /// Minimum rate, above 0: a trial at this rate sends at least 100 packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<String>,
    /// Maximum rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<String>,
    /// Instead of `high`: the nominal rate of an Ethernet link. The maximum rate is then its line rate for each
    /// size of datagrams, preamble and gap included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominal: Option<String>,
    /// The search ends when the distance of its bounds is at most this percentage of the upper one. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision_percentage: Option<f64>,
    /// Length of a trial. RFC 2544 requires 60 s.
    pub trial: Span,
    /// Maximum loss that counts as none, percent (0 for RFC 2544); for `mlrsearch` the partial-drop ratio.
    pub loss_percentage: f64,
    /// Repetitions that are averaged (latency, back-to-back), repetitions of each rate (saturation), or maximum
    /// trials of a load (mlrsearch).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// Maximum number of trials of the search at each point, 1 to 1000, repeated ones included. Default 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_trials: Option<u32>,
    /// Further figures, of the trial at the rate that was found (`throughput` and `latency`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// The test.
    pub test: TestStep,
}

/// Other tools over the same path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CompareStep {
    /// Tools from the list of `weir compare --list`. Default: all that are installed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Axes: `size`, `mss`, `window`, `transport`, `connections`, `rate`, `congestion`, `seconds`.
    pub over: Vec<String>,
    /// Fixed parameters of the same names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, Value>,
    /// Tool → its own fixed parameters, which replace those of `with`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub of: BTreeMap<String, BTreeMap<String, Value>>,
    /// Weir may send and receive UDP in super-packets (GSO, GRO). Default: per-packet, like the other tools.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub coalesced: bool,
    /// Repetitions. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// Sending host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Receiving host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// A wait: for a time, for the end of a test in the background, or for a volume of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WaitStep {
    /// Duration of the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// A test in the background, by its step's name: until its end, or until `bytes` or `packets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// Waits until this much payload was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
    /// Waits until this number of packets was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
}

/// A test in the background, or one of its connections; or a command in the background.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopStep {
    /// The test, by its step's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub test: String,
    /// For `stop`, instead of a test: the command, by its step's name. It gets SIGTERM, and after 10 s SIGKILL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The connection. Absent: all of them; `stop` then stops the test itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
}

/// New laws for an emulator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = super::types::both_alone)]
pub struct ImpairStep {
    /// The emulator. Absent: the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulator: Option<String>,
    /// Removes all laws.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub clear: bool,
    /// The new laws.
    #[serde(flatten)]
    pub to: Impairing,
}

super::types::impairing_fields! {
    ImpairFields -> ImpairStep { emulator: Option<String>, clear: bool, } to
}

/// Files stored with the result.
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
    /// Number of repetitions. Absent with `over`: once for each point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Axes whose names the steps may contain, as in a sweep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<String>,
    /// The steps.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

impl TestStep {
    /// Whether the test contains `{name}`. At each point of a sweep the value replaces it; a value whose name
    /// is not contained is set as a parameter of the plan.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        let braced = format!("{{{name}}}");
        let in_plan = self.plan.as_ref().is_some_and(|p| p.to_string().contains(&braced));
        in_plan
            || [&self.args, &self.from, &self.to].into_iter().flatten().any(|t| t.contains(&braced))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_pairs_hosts() {
        let of = |topology: Topology, from: &str, to: &str| -> Result<String, String> {
            let list =
                |text: &str| text.split_terminator('+').map(str::to_owned).collect::<Vec<_>>();
            let pairs = topology.pairs(&list(from), &list(to)).map_err(|error| match error {
                ModelError::Field { field, .. } => field,
                other => panic!("{other}"),
            })?;
            Ok(pairs.iter().map(|(a, b)| format!("{a}>{b}")).collect::<Vec<_>>().join(" "))
        };
        let ok = |text: &str| Ok(text.to_owned());
        let refused = |field: &str| Err(field.to_owned());
        assert_eq!(of(Topology::Pairs, "a+c+e", "b+d"), ok("a>b c>d e>b"));
        assert_eq!(of(Topology::Pairs, "a", "a"), refused("to"));
        assert_eq!(of(Topology::OneToMany, "a", "b+c+a"), ok("a>b a>c"));
        assert_eq!(of(Topology::OneToMany, "a+b", "c"), refused("from"));
        assert_eq!(of(Topology::ManyToOne, "a+b", "c"), ok("a>c b>c"));
        assert_eq!(of(Topology::ManyToOne, "a", "b+c"), refused("to"));
        assert_eq!(of(Topology::Star, "a", "b+c"), ok("a>b b>a a>c c>a"));
        assert_eq!(of(Topology::FullMesh, "a+b+c", ""), ok("a>b a>c b>a b>c c>a c>b"));
        assert_eq!(of(Topology::FullMesh, "a+b", "c"), refused("to"));
        assert_eq!(of(Topology::FullMesh, "a", ""), refused("from"));
    }
}
