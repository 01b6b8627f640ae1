//! A sawtooth delay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{DelayMoments, DelayRule, Drawing, check_cycle, round_ns};
use crate::ModelError;
use crate::law::{Deciding, Law, PacketFacts};
use crate::units::Span;

/// A delay that rises linearly from its minimum to its maximum in each cycle, and falls back at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Saw {
    /// Minimum delay.
    #[schemars(example = "20ms")]
    pub min: Span,
    /// Maximum delay.
    #[schemars(example = "80ms")]
    pub max: Span,
    /// Length of a cycle, above 0. The first one starts with the first packet.
    #[schemars(example = "10s")]
    pub cycle: Span,
}

impl Law for Saw {
    type Running = Teeth;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_cycle(at, (self.min, self.max), self.cycle)
    }

    fn start(&self) -> Teeth {
        Teeth {
            min_ns: self.min.0 as f64,
            range_ns: self.max.0.saturating_sub(self.min.0) as f64,
            cycle_ns: self.cycle.0,
        }
    }
}

/// min + (max − min)·(t mod cycle)/cycle, with t the time since the first packet. Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Teeth {
    min_ns: f64,
    range_ns: f64,
    /// Above 0.
    cycle_ns: u64,
}

impl Deciding for Teeth {
    type Outcome = u64;

    #[inline]
    fn decide(&mut self, packet: &PacketFacts, _: &mut Draws) -> u64 {
        let phase = (packet.elapsed_ns % self.cycle_ns) as f64 / self.cycle_ns as f64;
        round_ns(self.min_ns + self.range_ns * phase)
    }
}

impl DelayRule for Saw {
    /// Of packets at equal intervals, over whole cycles.
    fn moments(&self) -> DelayMoments {
        let Teeth { min_ns, range_ns, .. } = self.start();
        DelayMoments::of(min_ns + range_ns / 2.0, range_ns / 12.0f64.sqrt())
    }

    fn draws(&self) -> Drawing {
        Drawing::Nothing
    }

    fn follows_time(&self) -> bool {
        true
    }
}
