//! Previews of laws by the engine on the virtual clock.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::impairment::Impairment;
use weir_model::plan::{Direction, Plan};

/// A request to send packets through one flow's laws.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewRequest {
    /// The configuration; its seed is used.
    pub configuration: Impairment,
    /// The flow; `other` for packets that no filter matches.
    #[serde(default = "other")]
    pub flow: String,
    /// `forward` is A to B.
    #[serde(default)]
    pub direction: Direction,
    /// Number of packets, 1 to 100 000.
    #[serde(default = "packets")]
    #[schemars(range(min = 1, max = 100_000))]
    pub packets: u32,
    /// Time between two packets, 1 µs to 10 s.
    #[serde(default = "interval")]
    #[schemars(range(min = 0.000_001, max = 10.0))]
    pub interval_seconds: f64,
    /// Bytes of each frame, 14 to 65 535.
    #[serde(default = "size")]
    #[schemars(range(min = 14, max = 65_535))]
    pub size_bytes: u32,
}

fn other() -> String {
    weir_model::impairment::OTHER.into()
}
fn packets() -> u32 {
    10_000
}
fn interval() -> f64 {
    0.001
}
fn size() -> u32 {
    1000
}

/// The result of a preview.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Preview {
    /// Packets that came.
    pub packets: u64,
    /// Time between two packets, s.
    pub interval_seconds: f64,
    /// Bytes of each.
    pub size_bytes: u32,
    /// Packets that left, copies included.
    pub sent_packets: u64,
    /// Lost by law.
    pub lost_packets: u64,
    /// Fraction of the packets that arrived.
    pub loss_ratio: f64,
    /// Dropped because the queue was full.
    pub queue_dropped_packets: u64,
    /// Copies made.
    pub duplicated_packets: u64,
    /// Left before one that had arrived earlier.
    pub reordered_packets: u64,
    /// Loss periods (RFC 3357): length in packets → number of periods.
    pub loss_periods: BTreeMap<u32, u64>,
    /// The first packets, one character each: `.` forwarded, `x` lost, `q` dropped by the queue, `2` duplicated; at
    /// most 2000.
    pub dispositions: String,
    /// Delay of the packets that left; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<PreviewDelay>,
    /// The same by the delay law alone: without a rate, and packets may overtake each other. In the same bins; absent
    /// without a delay law.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_delay: Option<PreviewDelay>,
    /// Where `delay` differs from `asked_delay` by more than 5 %.
    pub differences: Vec<PreviewDifference>,
    /// Output rate, from the first departure to the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bits_per_second: Option<f64>,
    /// The laws in one line, as parsed.
    pub laws: String,
    /// Notes about the preview.
    pub notes: Vec<String>,
}

/// Delays under the order policy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PreviewDelay {
    /// Mean.
    pub mean_seconds: f64,
    /// Standard deviation.
    pub deviation_seconds: f64,
    /// Least.
    pub min_seconds: f64,
    /// Median.
    pub p50_seconds: f64,
    /// 90th percentile.
    pub p90_seconds: f64,
    /// 99th percentile.
    pub p99_seconds: f64,
    /// Greatest.
    pub max_seconds: f64,
    /// Bins of equal width: edges, one more than counts.
    pub histogram_edges_seconds: Vec<f64>,
    /// Number of packets in each bin.
    pub histogram_packets: Vec<u64>,
    /// Delays at which the distribution function is given, ascending.
    pub cdf_seconds: Vec<f64>,
    /// Fraction of packets with at most that delay.
    pub cdf_ratio: Vec<f64>,
}

/// A delay figure of which the outcome differs from the law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PreviewDifference {
    /// Which one.
    pub figure: DelayFigure,
    /// By the law alone, s.
    pub asked_seconds: f64,
    /// With all stages, s.
    pub outcome_seconds: f64,
    /// What changes it most.
    pub reason: DifferenceReason,
}

/// A figure of delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DelayFigure {
    /// Mean.
    Mean,
    /// Standard deviation.
    Deviation,
}

/// What makes a delay differ from its law.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DifferenceReason {
    /// The order of packets is preserved.
    Order,
    /// Packets wait in the queue of the rate.
    Queue,
}

/// Laws that a flow has in addition to its own.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct InheritedLaws {
    /// The flow; `other` for packets that no filter matches.
    pub flow: String,
    /// `forward` is A to B.
    pub direction: Direction,
    /// Where they are from.
    pub origin: LawOrigin,
    /// The preset, or the other flows of the aggregate.
    pub name: String,
    /// The laws, in slots that the flow leaves empty.
    pub laws: weir_model::impairment::Laws,
}

/// Where laws are from that are not a flow's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LawOrigin {
    /// A preset.
    Preset,
    /// An aggregate: shared with other flows.
    Aggregate,
}

/// A preset.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ProfileEntry {
    /// Its name in a flow's `profile`.
    pub name: String,
    /// What it stands for.
    pub title: String,
    /// Source of its figures.
    pub source: String,
    /// Its laws from A (the client's side) to B, as text.
    pub a_to_b: String,
    /// Its laws from B to A.
    pub b_to_a: String,
}

/// A traffic profile.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct TrafficEntry {
    /// Its name in a connection's `profile`.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Source of its figures.
    pub source: String,
    /// Whether it is a file of this user's, not of the program.
    pub own: bool,
    /// Its plan.
    pub plan: Plan,
}

/// Presets.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ProfileList {
    /// Links.
    pub profiles: Vec<ProfileEntry>,
    /// Traffic of applications. Files of this user's that are not plans are omitted.
    pub traffic: Vec<TrafficEntry>,
}
