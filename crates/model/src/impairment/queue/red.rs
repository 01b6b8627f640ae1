//! Random early detection: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993; the gentle variant: Floyd, 2000.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{Managed, unit};
use crate::ModelError;
use crate::law::{Law, refuse};
use crate::units::ByteSize;

/// Bytes of a typical packet, by which the average decays while the link is idle.
const TYPICAL_BYTES: u64 = 1000;

/// Arriving packets are dropped with a probability that grows with the average length of the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "RED")]
pub struct Red {
    /// Average length of the queue in bytes from which packets are dropped.
    #[schemars(example = "30K")]
    pub min: ByteSize,
    /// Average length of the queue in bytes at which the probability has its maximum, more than `min`. Beyond it, all packets are
    /// dropped.
    #[schemars(example = "90K")]
    pub max: ByteSize,
    /// Probability at `max`, in percent, above 0 to 100. Drops are spread evenly: between two of them at most 100 / probability packets pass.
    #[serde(default = "ten")]
    #[schemars(example = 10)]
    pub probability_percentage: f64,
    /// Weight of a new sample in the average, above 0 to 1.
    #[serde(default = "weight")]
    #[schemars(example = 0.002)]
    pub weight: f64,
    /// `true`: beyond `max` the probability grows to 100 % at twice `max`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub gentle: bool,
    /// `true`: ECN-capable packets are marked instead of dropped, up to `max` (RFC 3168, section 7).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(title = "Mark instead of drop (ECN)", example = true)]
    pub ecn: bool,
}

fn ten() -> f64 {
    10.0
}

fn weight() -> f64 {
    0.002
}

impl Law for Red {
    type Running = RunningRed;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        if self.min.0 == 0 {
            return refuse(at, "min", self.min, "1 or more");
        }
        if self.max.0 <= self.min.0 {
            return refuse(at, "max", self.max, "more than min");
        }
        if !(self.probability_percentage > 0.0 && self.probability_percentage <= 100.0) {
            let given = self.probability_percentage;
            return refuse(at, "probability_percentage", given, "above 0 to 100");
        }
        if !(self.weight > 0.0 && self.weight <= 1.0) {
            return refuse(at, "weight", self.weight, "above 0 to 1");
        }
        Ok(())
    }

    fn start(&self) -> RunningRed {
        RunningRed { law: self.clone(), average: 0.0, passed: None }
    }
}

/// The state of RED.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningRed {
    law: Red,
    /// Average length of the queue in bytes.
    average: f64,
    /// Packets that have passed since the last drop while the average was above the minimum; `None` below it.
    passed: Option<u64>,
}

impl RunningRed {
    /// Decides for an arriving packet. `waiting_bytes`: the length of the queue. `idle_bytes`: what the link could have sent since it
    /// became idle.
    pub fn arrives(
        &mut self,
        waiting_bytes: u64,
        idle_bytes: u64,
        is_capable: bool,
        draws: &mut Draws<'_>,
    ) -> Managed {
        let Red { min, max, probability_percentage, weight, gentle, ecn } = self.law;
        self.average *= power(1.0 - weight, idle_bytes / TYPICAL_BYTES);
        self.average += weight * (waiting_bytes as f64 - self.average);
        let (min, max, most) = (min.0 as f64, max.0 as f64, probability_percentage / 100.0);
        if self.average < min {
            self.passed = None;
            return Managed::Pass;
        }
        let probability = match self.average {
            average if average < max => most * (average - min) / (max - min),
            average if gentle && average < 2.0 * max => {
                most + (1.0 - most) * (average - max) / max
            }
            _ => 1.0,
        };
        let passed = self.passed.map_or(0, |passed| passed + 1);
        let left = 1.0 - passed as f64 * probability;
        // Drops at intervals that are uniform instead of geometric.
        let is_hit = probability >= left || unit(draws) < probability / left;
        self.passed = Some(if is_hit { 0 } else { passed });
        match is_hit {
            true => Managed::signal(ecn && is_capable && self.average < max),
            false => Managed::Pass,
        }
    }
}

/// `base` to the power of `exponent`, by the same multiplications on every machine.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut out = 1.0;
    while exponent > 0 && out > 0.0 {
        if exponent & 1 == 1 {
            out *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    out
}
