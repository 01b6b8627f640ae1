//! Proportional Integral controller Enhanced (RFC 8033).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{Managed, Updates, check_controller, seconds, unit};
use crate::ModelError;
use crate::law::Law;
use crate::units::Span;

/// Packets below two of this size in the queue are never dropped.
const PACKET_BYTES: u64 = 1518;
/// Bursts of this length pass an idle queue, ns (RFC 8033, section 4.4: MAX_BURST).
const BURST_NS: u64 = 150_000_000;
/// Marks become drops above this probability (section 5.1).
const MOST_MARKED: f64 = 0.1;
/// A smaller probability is none.
const LEAST: f64 = 1e-12;

/// Arriving packets are dropped with a probability that keeps the waiting time near a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "PIE")]
pub struct Pie {
    /// Waiting time to keep.
    #[serde(default = "target")]
    #[schemars(example = "15ms")]
    pub target: Span,
    /// Time between two updates of the probability, 1 ms or more.
    #[serde(default = "target")]
    #[schemars(example = "15ms")]
    pub update: Span,
    /// Change of the probability for each second of difference from the target, 0 to 100.
    #[serde(default = "alpha")]
    #[schemars(example = 0.125)]
    pub alpha: f64,
    /// Change of the probability for each second of growth since the last update, 0 to 100.
    #[serde(default = "beta")]
    #[schemars(example = 1.25)]
    pub beta: f64,
    /// `true`: ECN-capable packets are marked instead of dropped while the probability is below 10 % (RFC 8033, section 5.1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(title = "Mark instead of drop (ECN)", example = true)]
    pub ecn: bool,
}

fn target() -> Span {
    Span(15_000_000)
}

fn alpha() -> f64 {
    0.125
}

fn beta() -> f64 {
    1.25
}

impl Law for Pie {
    type Running = RunningPie;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_controller(at, self.target, self.update, self.alpha, self.beta)
    }

    fn start(&self) -> RunningPie {
        RunningPie {
            law: self.clone(),
            probability: 0.0,
            earlier_ns: 0,
            burst_ns: BURST_NS,
            accumulated: 0.0,
            updates: Updates::new(self.update),
        }
    }
}

/// The state of PIE.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningPie {
    law: Pie,
    probability: f64,
    /// The waiting time at the last update.
    earlier_ns: u64,
    /// What is left of the burst allowance.
    burst_ns: u64,
    /// Sum of the probabilities since the last drop.
    accumulated: f64,
    updates: Updates,
}

impl RunningPie {
    /// Updates the probability for all times up to `now_ns`; `waiting_ns` is the waiting time at a time since the queue last changed.
    pub fn advance(&mut self, now_ns: u64, waiting_ns: impl Fn(u64) -> u64) {
        while let Some(at) = self.updates.due(now_ns) {
            let waiting = waiting_ns(at);
            self.update(waiting);
            if waiting == 0 && self.probability == 0.0 && self.burst_ns == BURST_NS {
                self.updates.skip(now_ns);
            }
        }
    }

    fn update(&mut self, waiting_ns: u64) {
        let Pie { target, update, alpha, beta, .. } = self.law;
        let (waiting, earlier) = (seconds(waiting_ns), seconds(self.earlier_ns));
        let change = alpha * (waiting - seconds(target.0)) + beta * (waiting - earlier);
        // Smaller steps for small probabilities (section 4.2).
        let scale = match self.probability {
            p if p < 0.000_001 => 2048.0,
            p if p < 0.000_01 => 512.0,
            p if p < 0.000_1 => 128.0,
            p if p < 0.001 => 32.0,
            p if p < 0.01 => 8.0,
            p if p < 0.1 => 2.0,
            _ => 1.0,
        };
        let mut change = change / scale;
        if self.probability >= 0.1 {
            change = change.min(0.02);
        }
        let mut probability = self.probability + change;
        if waiting_ns == 0 && self.earlier_ns == 0 {
            probability *= 0.98;
        }
        if waiting > 0.25 {
            probability += 0.02;
        }
        self.probability = if probability < LEAST { 0.0 } else { probability.min(1.0) };
        let is_low = |ns: u64| ns < target.0 / 2;
        if self.probability == 0.0 && is_low(waiting_ns) && is_low(self.earlier_ns) {
            self.burst_ns = BURST_NS;
        } else {
            self.burst_ns = self.burst_ns.saturating_sub(update.0);
        }
        self.earlier_ns = waiting_ns;
    }

    /// Decides for an arriving packet. `waiting_bytes`: the length of the queue.
    pub fn arrives(
        &mut self,
        waiting_bytes: u64,
        is_capable: bool,
        draws: &mut Draws<'_>,
    ) -> Managed {
        let is_short = waiting_bytes <= 2 * PACKET_BYTES;
        let is_early = self.earlier_ns < self.law.target.0 / 2 && self.probability < 0.2;
        if self.burst_ns > 0 || is_short || is_early {
            return Managed::Pass;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        // Neither two drops in quick succession nor a long time without one (section 5.4).
        let is_hit = self.accumulated >= 0.85
            && (self.accumulated >= 8.5 || unit(draws) < self.probability);
        if !is_hit {
            return Managed::Pass;
        }
        self.accumulated = 0.0;
        Managed::signal(self.law.ecn && is_capable && self.probability < MOST_MARKED)
    }
}
