//! What laws do, by the engine on the virtual clock.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::impairment::Impairment;
use weir_model::plan::Direction;

/// Packets to be sent through one flow's laws.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewRequest {
    /// The configuration; its seed is used.
    pub configuration: Impairment,
    /// Which flow; `other` for what no filter matches.
    #[serde(default = "other")]
    pub flow: String,
    /// `forward` is A to B.
    #[serde(default)]
    pub direction: Direction,
    /// How many packets, 1 to 100 000.
    #[serde(default = "packets")]
    #[schemars(range(min = 1, max = 100_000))]
    pub packets: u32,
    /// Time between two packets, 1 µs to 10 s.
    #[serde(default = "interval")]
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

/// What became of the packets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Preview {
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
    /// Share of what came.
    pub loss_ratio: f64,
    /// Dropped where the queue was full.
    pub queue_dropped_packets: u64,
    /// Copies made.
    pub duplicated_packets: u64,
    /// Left before one that had come earlier.
    pub reordered_packets: u64,
    /// Loss periods (RFC 3357): length in packets → number of periods.
    pub loss_periods: BTreeMap<u32, u64>,
    /// The first packets, one character each: `.` passed, `x` lost, `q` dropped by the queue, `2` duplicated; at most 2000.
    pub dispositions: String,
    /// Between arrival and departure of what left; absent when nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<PreviewDelay>,
    /// Rate at which bytes left, from the first departure to the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bits_per_second: Option<f64>,
    /// The laws in one line, as understood.
    pub laws: String,
    /// What to know of it, in words.
    pub notes: Vec<String>,
}

/// Delays as they came out under the order policy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PreviewDelay {
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
    /// Packets of each bin.
    pub histogram_packets: Vec<u64>,
    /// Delays at which the distribution is given, ascending.
    pub cdf_seconds: Vec<f64>,
    /// Share of packets with at most that delay.
    pub cdf_ratio: Vec<f64>,
}

/// A preset.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProfileEntry {
    /// Its name, as a flow's `profile` takes it.
    pub name: String,
    /// What it stands for.
    pub title: String,
    /// Where its figures are from.
    pub source: String,
    /// Its laws from A (the client's side) to B, in words.
    pub a_to_b: String,
    /// Its laws from B to A.
    pub b_to_a: String,
}

/// Presets.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProfileList {
    /// All of them.
    pub profiles: Vec<ProfileEntry>,
}
