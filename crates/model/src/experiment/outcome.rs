//! `weir.experiment/1`: the result of a scenario or a sweep.
//!
//! A view of run records, which are stored separately and referenced by id.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ResultTable;
use crate::metric::METRICS;
use crate::record::{Crossing, Host, Status};
use crate::units::Seed;

/// The schema name.
pub const EXPERIMENT_SCHEMA: &str = "weir.experiment/1";

/// The outcome of an expectation, a step or a whole experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Done, without expectations.
    Done,
    /// Done, and all expectations were met.
    Passed,
    /// The tool or the host was the limit, or the confidence interval still spans the bound: neither passed nor failed.
    Inconclusive,
    /// An expectation was not met.
    Failed,
    /// It could not be done: a peer was unreachable, or a command or a test failed.
    Error,
    /// Not started, because the experiment ended before.
    Skipped,
}

impl Outcome {
    /// The worse of two: an error, then failed, inconclusive, passed, done. A skipped one does not count.
    #[must_use]
    pub fn and(self, other: Outcome) -> Outcome {
        let rank = |o| match o {
            Outcome::Skipped => 0,
            Outcome::Done => 1,
            Outcome::Passed => 2,
            Outcome::Inconclusive => 3,
            Outcome::Failed => 4,
            Outcome::Error => 5,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

/// A whole experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// `weir.experiment/1`.
    pub schema: String,
    /// Unique, sortable by time. Its runs carry it as the label `experiment`.
    pub id: String,
    /// Version of Weir; if its sessions had different versions, all of them, each with its commit.
    pub version: String,
    /// Notes on the whole experiment, in words: sessions by other versions or on other hosts; an omitted
    /// emulator of the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Name of the scenario; `sweep` for `weir sweep`, `test` for `weir test --runs`.
    pub name: String,
    /// Title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The method, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Start, RFC 3339, UTC.
    pub started_at: String,
    /// Length of the session that completed it; if it was resumed, with the time of each run of earlier sessions.
    pub seconds: f64,
    /// How it ended.
    pub status: Status,
    /// The command as it was given; if it was resumed, the one that started it.
    pub command: Vec<String>,
    /// Seed of the order of points.
    pub seed: Seed,
    /// Fewer and shorter runs than the method requires: not for publication.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quick: bool,
    /// On the virtual clock: no packet crossed a network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// The values of the variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, serde_json::Value>,
    /// Kernel settings that the scenario made in every host of its lab.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Tables of the results, as the scenario lays them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<ResultTable>,
    /// The steps.
    pub steps: Vec<StepOutcome>,
    /// The verdict.
    pub outcome: Outcome,
    /// The hosts of its tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostUse>,
}

/// A host of an experiment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostUse {
    /// Its name in the scenario, such as `a`; `local` for this machine outside of a lab.
    pub role: String,
    /// Its properties, without counters.
    pub host: Host,
}

impl HostUse {
    /// A host with this role. Counters of a run are not its properties.
    #[must_use]
    pub fn new(role: &str, host: &Host) -> HostUse {
        let mut host = host.clone();
        host.counters.clear();
        for interface in &mut host.interfaces {
            interface.counters_before.clear();
            interface.counters_after.clear();
            interface.qdiscs.clear();
        }
        HostUse { role: role.into(), host }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepOutcome {
    /// Its name.
    pub name: String,
    /// What it does: `test` (also one that is repeated), `sweep`, `wait` and so on.
    pub action: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason for any other outcome than done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Stable name of the reason: `not-simulated` or `time-over`; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// Each run, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunRef>,
    /// The tools of a comparison at the points where they were not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// The other tools of a comparison that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolVersion>,
    /// The axes of a sweep, in the order in which they were given; of a search, its own and the load of a trial: `rate`,
    /// or `packets` of a burst.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<String>,
    /// The points of a sweep, in the order of its axes, or the trials of a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
    /// What a search found, or the ratio of a comparison of contents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Found>,
    /// How closely the tests of a parallel step, or the senders of a test, started together; of several runs, the
    /// one with the largest skew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// The start of a command's standard output, or the collected text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The start of a command's standard error; absent if it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Its expectations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Judged>,
    /// Steps inside of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepOutcome>,
    /// The user or the system interrupted it: unfinished steps have no result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// A tool at a point of a comparison where it was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Values of the axes, `tool` among them.
    pub at: BTreeMap<String, String>,
    /// The reason.
    pub why: LeftOutReason,
    /// What the tool lacks, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Why a tool was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LeftOutReason {
    /// One of its programs is not installed on this host.
    #[serde(rename = "not installed")]
    NotInstalled,
    /// It can't produce the load of the point.
    #[serde(rename = "not supported")]
    NotSupported,
}

impl LeftOutReason {
    /// As it is printed.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            LeftOutReason::NotInstalled => "not installed",
            LeftOutReason::NotSupported => "not supported",
        }
    }
}

/// A program of another tool, with its version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ToolVersion {
    /// Name of the tool.
    pub name: String,
    /// Its version as its client prints it; absent if it prints none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its programs.
    pub programs: Vec<String>,
}

/// One run of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunRef {
    /// The run's id; absent without a record. Of several senders, that of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The ids of its other senders' tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Values of the axes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// The tool that ran; absent for Weir.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// In a comparison: the client's command line. That of Weir also needs the seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The server's command line, if this program started the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_command: Vec<String>,
    /// Of another tool: the end of what its client printed, up to 16 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Of another tool: the end of what its server printed or logged, if this program started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_output: Option<String>,
    /// Seed of its plan; absent for other tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// Its metrics, in SI units. What was not measured is absent. For a tool that reports only what it sent,
    /// the rate is `sent_throughput`.
    pub metrics: BTreeMap<String, f64>,
    /// How its datagrams crossed the path; absent for TCP and where none arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossing: Option<Crossing>,
    /// The reasons for metrics that are absent for lack of samples, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<String, String>,
    /// It can't be simulated and was skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_simulated: bool,
    /// Codes of its warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The tool or the host limited the figures: see the warnings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_limited: bool,
    /// A host-limited run that was repeated; it is not included in the figures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
    /// Its first packet, if it had to start at a given time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_packet: Option<FirstPacket>,
    /// How closely its senders started, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// Why there is no record, or only a part of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The peer could not be reached, refused the test, or became unreachable during it: see the error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peer_unreachable: bool,
    /// The end of the experiment or its step interrupted it; it is repeated when the experiment is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// Arrival of the first packet of a test that starts together with others.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FirstPacket {
    /// Time since the common start, on the receiver's clock as related to this machine's.
    pub arrived_seconds: f64,
    /// Bound of the clocks' error; 0 if both ends share a clock. Absent: a clock's bound is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_seconds: Option<f64>,
}

/// How closely tests started together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Together {
    /// Tests whose first packet arrived.
    pub tests: u64,
    /// Time from the earliest first packet of a test to the latest, at arrival: it includes differences of the
    /// paths.
    pub first_packet_skew_seconds: f64,
    /// Bound of the clocks' error, of the two worst tests together. Absent: a clock's bound is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_seconds: Option<f64>,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// One point of a sweep.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Values of the axes.
    pub at: BTreeMap<String, String>,
    /// Runs on which the figures are based.
    pub runs: u64,
    /// Host-limited runs among them.
    pub host_limited: u64,
    /// Runs without figures, including those with an unreachable peer and interrupted ones.
    pub failed: u64,
    /// Failed runs whose peer was or became unreachable; absent for none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub peer_unreachable: u64,
    /// Failed runs that the end of the experiment or the step interrupted; absent for none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub interrupted: u64,
    /// Each metric over its repetitions, in SI units.
    pub metrics: BTreeMap<String, Summary>,
    /// How the datagrams of its runs crossed the path; absent for TCP and where none arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossing: Option<Crossing>,
    /// The result of a requested precision; absent if a number of runs was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
}

/// Payload rate at the receiver.
const THROUGHPUT: &str = "throughput";
/// Payload rate at the sender.
const SENT_THROUGHPUT: &str = "sent_throughput";
const SENT_PACKET_RATE: &str = "sent_packet_rate";

impl RunRef {
    /// Whether its figures count: it has any, and no later attempt replaced it. So a run that was repeated because it was
    /// host-limited counts once, by its last attempt.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        !self.superseded && self.error.is_none()
    }

    /// What client and server of another tool printed, each with the end's word.
    pub fn printed(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let ends = [("client", &self.output), ("server", &self.server_output)];
        ends.into_iter().filter_map(|(end, text)| Some((end, text.as_deref()?)))
    }

    /// A title for what one end printed: `size=128 tool=iperf3, run 2, client`.
    #[must_use]
    pub fn title_of(&self, end: &str) -> String {
        let at: Vec<String> =
            self.at.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}, run {}, {end}", at.join(" "), self.repetition)
    }
}

impl StepOutcome {
    /// The runs that count in every figure, table, chart and warning.
    pub fn counted_runs(&self) -> impl Iterator<Item = &RunRef> {
        self.runs.iter().filter(|run| run.is_counted())
    }

    /// The code of a step, or of an expectation, that can't be simulated.
    pub const NOT_SIMULATED: &str = "not-simulated";
    /// The code of a step that its time or the experiment's ended.
    pub const TIME_OVER: &str = "time-over";
    /// The metrics of a sent rate, the load of a search.
    pub const SENT_RATES: [&str; 2] = [SENT_THROUGHPUT, SENT_PACKET_RATE];

    /// What it printed or collected: each stream that has text, with its name if both have.
    #[must_use]
    pub fn printed(&self) -> Vec<(Option<&'static str>, &str)> {
        fn with_text(stream: &Option<String>) -> Option<&str> {
            stream.as_deref().filter(|text| !text.trim().is_empty())
        }
        match (with_text(&self.output), with_text(&self.stderr)) {
            (Some(output), Some(error)) => {
                vec![(Some("Standard output"), output), (Some("Standard error"), error)]
            }
            (one, other) => one.or(other).map(|text| (None, text)).into_iter().collect(),
        }
    }

    /// The metrics of its points, headline metrics first; of a search, the rates and their ratio. In a comparison, the rates of tools that report only
    /// what they sent are shown with the throughput of the others ([`StepOutcome::sent_instead`]).
    #[must_use]
    pub fn metric_names(&self) -> Vec<&str> {
        let mut out: Vec<&str> = vec![];
        let of_search = self.is_search().then(|| self.rates());
        let is_shown = |name: &&String| {
            of_search.is_none_or(|(sent, received)| {
                [sent, received, "received_ratio"].contains(&name.as_str())
            })
        };
        for name in self.points.iter().flat_map(|p| p.metrics.keys()).filter(is_shown) {
            let name = match name.as_str() {
                SENT_THROUGHPUT if self.is_comparison() => THROUGHPUT,
                name => name,
            };
            if !out.contains(&name) {
                out.push(name);
            }
        }
        let first = || METRICS.iter().filter(|m| m.is_headline);
        out.sort_by_key(|n| first().position(|m| m.name == *n).unwrap_or(METRICS.len()));
        out
    }

    /// The sent rate of a point in a comparison, in place of a throughput that its tool does not report.
    #[must_use]
    pub fn sent_instead<'p>(&self, point: &'p Point, metric: &str) -> Option<&'p Summary> {
        let is_absent = metric == THROUGHPUT && !point.metrics.contains_key(THROUGHPUT);
        point.metrics.get(SENT_THROUGHPUT).filter(|_| is_absent && self.is_comparison())
    }

    /// The tools that were not measured, with the reason and the number of points unless there are no others.
    #[must_use]
    pub fn left_out_words(&self) -> Vec<String> {
        const TOOL: &str = "tool";
        let of = |at: &BTreeMap<String, String>, tool: Option<&String>| at.get(TOOL) == tool;
        let mut groups: Vec<(&LeftOut, usize)> = vec![];
        for one in &self.left_out {
            let is_same = |(first, _): &&mut (&LeftOut, usize)| {
                of(&one.at, first.at.get(TOOL))
                    && (first.why, &first.detail) == (one.why, &one.detail)
            };
            match groups.iter_mut().find(is_same) {
                Some((_, count)) => *count += 1,
                None => groups.push((one, 1)),
            }
        }
        groups
            .into_iter()
            .map(|(first, count)| {
                let tool = first.at.get(TOOL);
                let here = self.points.iter().filter(|p| of(&p.at, tool)).count();
                let all = here + self.left_out.iter().filter(|l| of(&l.at, tool)).count();
                let mut text =
                    format!("{} is {}", tool.map_or("", String::as_str), first.why.word());
                if count < all {
                    text += &format!(" at {count} of {all} points");
                }
                first.detail.iter().for_each(|detail| text += &format!(": {detail}"));
                text
            })
            .collect()
    }

    /// Whether its points are the trials of a search.
    #[must_use]
    pub fn is_search(&self) -> bool {
        self.action == "search"
    }

    /// The metrics of the sent and the received rate of a search, in its unit.
    #[must_use]
    pub fn rates(&self) -> (&'static str, &'static str) {
        match self.found.first().is_some_and(|f| f.unit == "bits_per_second") {
            true => (SENT_THROUGHPUT, THROUGHPUT),
            false => (SENT_PACKET_RATE, "packet_rate"),
        }
    }

    fn is_comparison(&self) -> bool {
        self.action == "compare"
    }
}

/// The result of a requested precision at one point: Stein's two stages (1945), by one metric.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Precision {
    /// The metric that determined the number of runs.
    pub metric: String,
    /// Requested half width of the interval relative to the first stage's mean, such as 0.02.
    pub asked_ratio: f64,
    /// Requested runs of the first stage.
    pub first_stage_count: u64,
    /// Number of runs needed according to the first stage; absent if its figures are incomplete or no number
    /// would suffice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_count: Option<u64>,
    /// Runs with the figure.
    pub count: u64,
    /// Whether there are as many runs as needed. If not, the interval is wider than requested.
    pub reached: bool,
}

/// A metric over repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Repetitions.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Unbiased variance (n − 1); absent below two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variance: Option<f64>,
    /// Standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// The confidence interval of the mean (Student's t, within the figure's range; with a requested precision
    /// by the first stage's standard deviation).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Confidence>,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

/// A confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Confidence {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence, such as 0.95.
    pub confidence_ratio: f64,
    /// Whether an end was clipped to the figure's range (ratios: 0 to 1; rates, counts and times: from 0). The
    /// mean is then not in the middle; the confidence is the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clipped: bool,
    /// Number of repetitions of the first stage, if their standard deviation determined the number of runs
    /// (Stein 1945): the width is then from their standard deviation, by Student's t with one degree of freedom
    /// less. Absent: it is from all repetitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_stage_count: Option<u64>,
}

/// One result of a search.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Its name: `throughput`, `saturation point`, `latency at throughput`.
    pub name: String,
    /// Values of the axes, such as the frame size.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// The figure in the metric's SI unit; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Unit: `bits_per_second`, `packets_per_second`, `seconds`, `packets`, `ratio`, `number`.
    pub unit: String,
    /// Its confidence interval: of a saturation point by bootstrap, of a content ratio by Welch's test of logarithms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Confidence>,
    /// The last two bounds of the search: no confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    /// The tool or the host limited it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_limited: bool,
    /// Stable name of the conclusion of a comparison of contents: `compresses`, `no-sign` or `undecided`; absent for
    /// other figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Its meaning, or why there is no figure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl Found {
    /// The name of the rate of compressible content divided by that of incompressible content.
    pub const CONTENT_RATIO: &str = "content ratio";
    /// The name of a saturation point.
    pub const SATURATION_POINT: &str = "saturation point";
}

/// The trials just below and above the result of a search, in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// The largest value that passed, below all that failed; absent if none passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The smallest value that failed because of the path; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// The result of one expectation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// As it was written.
    pub text: String,
    /// Met, not met, or neither.
    pub outcome: Outcome,
    /// The point of a sweep.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// The measured value (the mean of repetitions), SI unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// The bound, SI unit.
    pub bound: f64,
    /// The interval of the mean over repetitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Confidence>,
    /// Repetitions.
    pub count: u64,
    /// In words: measured value, bound and confidence.
    pub reason: String,
    /// Stable name of the reason: `not-simulated`; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}
