//! Dual-queue coupled PI² for low latency, low loss and scalable throughput (RFC 9332, appendix A).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{Managed, Updates, check_controller, check_time, seconds, unit};
use crate::ModelError;
use crate::law::{Law, refuse};
use crate::units::Span;

/// Bytes of classic packets for each byte of low-latency ones, in percent, while both wait.
const CLASSIC_SHARE: i64 = 10;

/// Packets of scalable congestion control, ECT(1) or CE, have a queue of their own with marks from a short waiting time on; the queue of
/// the others is dropped or marked with the square of the probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "DualPI2")]
pub struct DualPi2 {
    /// Waiting time of the classic queue to keep.
    #[serde(default = "target")]
    #[schemars(example = "15ms")]
    pub target: Span,
    /// Time between two updates of the probability, 1 ms or more.
    #[serde(default = "update")]
    #[schemars(example = "16ms")]
    pub update: Span,
    /// Change of the probability for each second of difference from the target, 0 to 100.
    #[serde(default = "alpha")]
    #[schemars(example = 0.16)]
    pub alpha: f64,
    /// Change of the probability for each second of growth since the last update, 0 to 100.
    #[serde(default = "beta")]
    #[schemars(example = 3.2)]
    pub beta: f64,
    /// Waiting time from which every packet of the low-latency queue is marked.
    #[serde(default = "step")]
    #[schemars(example = "1ms")]
    pub step: Span,
    /// Factor from the base probability to that of marks in the low-latency queue, 1 to 100.
    #[serde(default = "coupling")]
    #[schemars(example = 2)]
    pub coupling: f64,
}

fn target() -> Span {
    Span(15_000_000)
}

fn update() -> Span {
    Span(16_000_000)
}

fn alpha() -> f64 {
    0.16
}

fn beta() -> f64 {
    3.2
}

fn step() -> Span {
    Span(1_000_000)
}

fn coupling() -> f64 {
    2.0
}

impl Law for DualPi2 {
    type Running = RunningDualPi2;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_controller(at, self.target, self.update, self.alpha, self.beta)?;
        check_time(at, "step", self.step)?;
        if !(1.0..=100.0).contains(&self.coupling) {
            return refuse(at, "coupling", self.coupling, "1 to 100");
        }
        Ok(())
    }

    fn start(&self) -> RunningDualPi2 {
        let (law, updates) = (self.clone(), Updates::new(self.update));
        RunningDualPi2 { law, probability: 0.0, earlier_ns: 0, updates, credit: 0 }
    }
}

/// The state of DualPI2. The ECN field of a packet is that of RFC 3168.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningDualPi2 {
    law: DualPi2,
    /// The base probability.
    probability: f64,
    /// The waiting time at the last update.
    earlier_ns: u64,
    updates: Updates,
    /// Bytes by which the classic queue is behind its share, times 100.
    credit: i64,
}

impl RunningDualPi2 {
    /// Whether a packet belongs to the low-latency queue.
    #[must_use]
    pub fn is_low_latency(ecn: u8) -> bool {
        ecn & 1 == 1
    }

    /// Updates the probability for all times up to `now_ns`; `waited_ns` is for how long the oldest packet has waited at a time since the queue
    /// last changed.
    pub fn advance(&mut self, now_ns: u64, waited_ns: impl Fn(u64) -> u64) {
        let DualPi2 { target, alpha, beta, .. } = self.law;
        while let Some(at) = self.updates.due(now_ns) {
            let waited = waited_ns(at);
            let change = alpha * (seconds(waited) - seconds(target.0))
                + beta * (seconds(waited) - seconds(self.earlier_ns));
            self.probability = (self.probability + change).clamp(0.0, 1.0);
            self.earlier_ns = waited;
            if waited == 0 && self.probability == 0.0 {
                self.updates.skip(now_ns);
            }
        }
    }

    /// Whether the next packet is one of the low-latency queue, if both queues have packets; the classic one gets 10 % of the rate at least.
    #[must_use]
    pub fn serves_low_latency(&self) -> bool {
        self.credit <= 0
    }

    /// A packet is sent while both queues had packets.
    pub fn served(&mut self, is_low_latency: bool, bytes: u32) {
        let bytes = i64::from(bytes);
        self.credit += match is_low_latency {
            true => CLASSIC_SHARE * bytes,
            false => -(100 - CLASSIC_SHARE) * bytes,
        };
    }

    /// Decides for the packet at the head of its queue. `waited_ns`: for how long it has waited. `is_last`: none waits behind it.
    pub fn leaves(
        &mut self,
        ecn: u8,
        waited_ns: u64,
        is_last: bool,
        draws: &mut Draws<'_>,
    ) -> Managed {
        let classic = self.probability * self.probability;
        let coupled = self.probability * self.law.coupling;
        let is_overloaded = coupled >= 1.0;
        // With the square of a probability: two draws are both below it.
        let is_squared = |draws: &mut Draws<'_>| unit(draws).max(unit(draws)) < self.probability;
        if !Self::is_low_latency(ecn) {
            return match classic > 0.0 && is_squared(draws) {
                true => Managed::signal(ecn != 0 && !is_overloaded),
                false => Managed::Pass,
            };
        }
        if is_overloaded && is_squared(draws) {
            return Managed::Drop;
        }
        let is_long = waited_ns > self.law.step.0 && !is_last;
        match is_long || unit(draws) < coupled {
            true => Managed::Mark,
            false => Managed::Pass,
        }
    }
}
