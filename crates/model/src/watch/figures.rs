//! Figures of a pair of agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::Delay;

/// What was measured from one agent to another and back in some time. A figure is measured or absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PairFigures {
    /// Time that the figures cover, s; less than the time that they are of if measuring was interrupted.
    pub covered_seconds: f64,
    /// Probes sent.
    pub sent_packets: u64,
    /// Probes that came back within the loss threshold.
    pub received_packets: u64,
    /// Probes that did not: sent - received.
    pub lost_packets: u64,
    /// Lost / sent; absent if none was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    /// Probes that arrived at the far agent, by its own count, in this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_packets: Option<u64>,
    /// Probes lost on the path there, by gaps in the numbers that arrived. They are counted when a later probe arrives, so that
    /// those of an outage are counted after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_forward_packets: Option<u64>,
    /// Round trips, by the probing agent's clock, including the time that the far agent takes to reply. Percentiles are absent
    /// below 10 / (1 - q) samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<Delay>,
    /// Mean one-way delay there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_delay_seconds: Option<f64>,
    /// Mean round trip minus mean one-way delay there: the mean delay of the way back, including the time that the far agent
    /// takes to reply. Absent if probes were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_delay_seconds: Option<f64>,
    /// Bound of the error of both one-way delays: that of the relation of the agents' clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way_error_seconds: Option<f64>,
}
