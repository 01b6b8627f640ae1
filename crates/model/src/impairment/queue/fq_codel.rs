//! CoDel for each flow, with a fair share for each (RFC 8290).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{Codel, RunningCodel, interval, target};
use crate::ModelError;
use crate::law::{Law, refuse};
use crate::units::{ByteSize, Span};

/// Flows share the rate equally, those with few packets first, and CoDel manages the queue of each. A flow has the addresses, ports and
/// protocol of its packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "FQ-CoDel")]
pub struct FqCodel {
    /// Number of queues, 1 to 65536. Flows whose hash is equal share a queue.
    #[serde(default = "queues")]
    #[schemars(example = 1024)]
    pub flows: u32,
    /// Bytes that a queue sends before the next one does, 256 to 1000000.
    #[serde(default = "quantum")]
    #[schemars(example = "1514")]
    pub quantum: ByteSize,
    /// Waiting time to keep.
    #[serde(default = "target")]
    #[schemars(example = "5ms")]
    pub target: Span,
    /// Time for which the waiting time may be above the target, more than it: about the longest round-trip time of the flows.
    #[serde(default = "interval")]
    #[schemars(example = "100ms")]
    pub interval: Span,
    /// `true`: ECN-capable packets are marked instead of dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(title = "Mark instead of drop (ECN)", example = true)]
    pub ecn: bool,
}

fn queues() -> u32 {
    1024
}

fn quantum() -> ByteSize {
    ByteSize(1514)
}

impl FqCodel {
    fn codel(&self) -> Codel {
        Codel { target: self.target, interval: self.interval, ecn: self.ecn }
    }
}

impl Law for FqCodel {
    type Running = RunningCodel;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        if !(1..=65_536).contains(&self.flows) {
            return refuse(at, "flows", self.flows, "1 to 65536");
        }
        if !(256..=1_000_000).contains(&self.quantum.0) {
            return refuse(at, "quantum", self.quantum, "256 to 1000000");
        }
        self.codel().check(at)
    }

    /// The state of one queue.
    fn start(&self) -> RunningCodel {
        self.codel().start()
    }
}
