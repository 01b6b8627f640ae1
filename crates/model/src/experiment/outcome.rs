//! `weir.experiment/1`: what came of a scenario or a sweep.
//!
//! A view of run records, which are stored separately and referenced by id.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric::METRICS;
use crate::record::{Crossing, Status};
use crate::units::Seed;

/// The schema name.
pub const EXPERIMENT_SCHEMA: &str = "weir.experiment/1";

/// The outcome of an expectation, a step or a whole experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Done, with nothing expected of it.
    Done,
    /// Done, and all that was expected came true.
    Passed,
    /// The tool or the host was the limit, or the confidence interval still spans the bound: neither passed nor failed.
    Inconclusive,
    /// Something expected did not come true.
    Failed,
    /// It could not be done: a peer was not there, a command or a test ended in an error.
    Error,
    /// Not begun, since something before it ended the experiment.
    Skipped,
}

impl Outcome {
    /// The worse of two: an error, then failed, inconclusive, passed, done. What was skipped says nothing.
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
    /// Version of Weir; of several sessions that were made by several, each with its commit.
    pub version: String,
    /// What is to be known of the whole, in words: sessions that were made by other programs, or on other hosts; an emulator of
    /// the scenario that was left out.
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
    /// Fewer and shorter runs than the method asks for: not for publication.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quick: bool,
    /// On the virtual clock: no packet crossed a network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// Variables as they were.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, serde_json::Value>,
    /// The steps.
    pub steps: Vec<StepOutcome>,
    /// The verdict.
    pub outcome: Outcome,
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
    /// Why, where it is not simply done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// Each run, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunRef>,
    /// The axes of a sweep, in the order in which they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<String>,
    /// The points of a sweep, in the order of its axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
    /// What a search found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Found>,
    /// How closely the tests of a parallel step began together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// What a command printed (its beginning), or what was collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Its expectations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Judged>,
    /// Steps inside of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepOutcome>,
    /// The user or the system interrupted it: unfinished steps say nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// One run of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunRef {
    /// The run's id; absent without a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Values of the axes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// The tool that ran; absent for Weir.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its metrics, in SI units. What was not measured is absent. Of a tool that reports what it sent and not what arrived,
    /// the rate is `sent_throughput`.
    pub metrics: BTreeMap<String, f64>,
    /// How its datagrams crossed the path; absent for TCP and where none arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossing: Option<Crossing>,
    /// Why metrics are absent that it has too few samples for, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<String, String>,
    /// Codes of its warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Tool or host shaped the figures: the warnings tell how.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_limited: bool,
    /// A host-limited run that was repeated: it is not in the figures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
    /// Its first packet, where it was to start at a given time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_packet: Option<FirstPacket>,
    /// Why there is no record, or only a part of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The peer was not reached, refused the test, or was lost on the way: the error says how.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peer_unreachable: bool,
    /// The end of the experiment or its step cut it short; it is repeated when the experiment is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// When the first packet of a test that starts together with others arrived.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct FirstPacket {
    /// After the time at which all were to start, on its receiver's clock as it was related to this machine's.
    pub arrived_seconds: f64,
    /// Bound of the clocks' error; 0 where both ends share one.
    pub error_seconds: f64,
}

/// How closely tests began together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Together {
    /// Tests whose first packet arrived.
    pub tests: u64,
    /// From the earliest first packet of a test to the latest one, as they arrived: differences of the paths are in it.
    pub first_packet_skew_seconds: f64,
    /// Bound of the clocks' error, of the two worst tests together.
    pub error_seconds: f64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// One point of a sweep.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Values of the axes.
    pub at: BTreeMap<String, String>,
    /// Runs that the figures rest on.
    pub runs: u64,
    /// Those of them that were host-limited.
    pub host_limited: u64,
    /// Runs without figures, including those that lost their peer and those that were interrupted.
    pub failed: u64,
    /// Those of the failed that did not reach their peer, or lost it; absent for none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub peer_unreachable: u64,
    /// Those of the failed that were cut short by what ended the experiment or the step; absent for none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub interrupted: u64,
    /// Each metric over its repetitions, in SI units.
    pub metrics: BTreeMap<String, Summary>,
    /// How the datagrams of its runs crossed the path; absent for TCP and where none arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossing: Option<Crossing>,
    /// What came of a precision that was asked for; absent where a number of runs was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// What others published for the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedFigure>,
}

/// Payload rate at the receiver.
const THROUGHPUT: &str = "throughput";
/// Payload rate at the sender.
const SENT_THROUGHPUT: &str = "sent_throughput";

impl StepOutcome {
    /// The metrics of its points, those that people look for first. In a comparison the rates of tools that report only what
    /// they sent stand with the throughput of the others ([`StepOutcome::sent_instead`]).
    #[must_use]
    pub fn metric_names(&self) -> Vec<&str> {
        let mut out: Vec<&str> = vec![];
        for name in self.points.iter().flat_map(|p| p.metrics.keys()) {
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

    /// The figure of a point for a comparison: its throughput, or the rate sent of a tool that reports no other.
    #[must_use]
    pub fn sent_instead<'p>(&self, point: &'p Point, metric: &str) -> Option<&'p Summary> {
        let is_absent = metric == THROUGHPUT && !point.metrics.contains_key(THROUGHPUT);
        point.metrics.get(SENT_THROUGHPUT).filter(|_| is_absent && self.is_comparison())
    }

    fn is_comparison(&self) -> bool {
        self.action == "compare"
    }
}

/// What came of a precision at one point: Stein's two stages (1945), by one metric.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Precision {
    /// The metric that decided how many runs there are.
    pub metric: String,
    /// Half the interval against the first stage's mean that was asked for, such as 0.02.
    pub asked_ratio: f64,
    /// Runs of the first stage that were asked for.
    pub first_stage_count: u64,
    /// Runs with the figure that the first stage found to be needed; absent where it did not give all of its figures, and
    /// where no number would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_count: Option<u64>,
    /// Runs that gave the figure.
    pub count: u64,
    /// They are as many as are needed. Where not, the interval is wider than was asked for.
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
    /// The confidence interval of the mean (Student's t, within what the figure can be; of runs until a precision by the first
    /// stage's deviation).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Confidence>,
    /// Least.
    pub min: f64,
    /// Greatest.
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
    /// An end of it is the end of what the figure can be (a share: 0 to 1; rates, counts and times: from 0), since Student's t put
    /// it beyond that: the mean is not its middle, and its confidence is the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clipped: bool,
    /// The first so many repetitions alone gave the width its deviation, by Student's t of one less: those of the first stage,
    /// where their deviation decided how many were to be made (Stein 1945). Absent: all repetitions did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_stage_count: Option<u64>,
}

/// A figure that others published.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PublishedFigure {
    /// Whose, such as `Windows XP`.
    pub label: String,
    /// Of which metric.
    pub metric: String,
    /// In the metric's SI unit.
    pub value: f64,
    /// Where it was published.
    pub source: String,
}

/// One thing that a search found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// What: `throughput`, `saturation point`, `latency at throughput`.
    pub name: String,
    /// At which frame size or the like, where there are several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// The figure, in the metric's SI unit; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Unit: `bits_per_second`, `packets_per_second`, `seconds`, `packets`, `ratio`.
    pub unit: String,
    /// Its confidence interval: of a saturation point by bootstrap, of rates at one load by Student's t.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Confidence>,
    /// The last two bounds of the search: no confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    /// Tool or host shaped it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_limited: bool,
    /// What it means, or why there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What others published for the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedFigure>,
}

/// What was tried on either side of what a search found, in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// The greatest that passed, below all that did not; absent when nothing passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The least that did not pass on the path's account; absent when none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// One expectation, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// As it was written.
    pub text: String,
    /// Met, not met, or neither.
    pub outcome: Outcome,
    /// At which point of a sweep.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// What was measured (the mean of repetitions), SI unit.
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
}
