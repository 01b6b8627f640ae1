//! A delay that oscillates as a sine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{DelayMoments, DelayRule, Drawing, check_cycle, round_ns};
use crate::ModelError;
use crate::law::{Deciding, Law, PacketFacts};
use crate::units::Span;

/// A delay that follows a sine between two bounds, from the minimum on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sine {
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

impl Law for Sine {
    type Running = Swing;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_cycle(at, (self.min, self.max), self.cycle)
    }

    fn start(&self) -> Swing {
        Swing {
            min_ns: self.min.0 as f64,
            range_ns: self.max.0.saturating_sub(self.min.0) as f64,
            cycle_ns: self.cycle.0,
        }
    }
}

/// min + (max − min)·(1 − cos(2π·t/cycle))/2, with t the time since the first packet. Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Swing {
    min_ns: f64,
    range_ns: f64,
    /// Above 0.
    cycle_ns: u64,
}

impl Deciding for Swing {
    type Outcome = u64;

    #[inline]
    fn decide(&mut self, packet: &PacketFacts, _: &mut Draws) -> u64 {
        let phase = (packet.elapsed_ns % self.cycle_ns) as f64 / self.cycle_ns as f64;
        let height = (1.0 - libm::cos(2.0 * core::f64::consts::PI * phase)) / 2.0;
        round_ns(self.min_ns + self.range_ns * height)
    }
}

impl DelayRule for Sine {
    /// Of packets at equal intervals, over whole cycles.
    fn moments(&self) -> DelayMoments {
        let Swing { min_ns, range_ns, .. } = self.start();
        DelayMoments::of(min_ns + range_ns / 2.0, range_ns / 8.0f64.sqrt())
    }

    fn draws(&self) -> Drawing {
        Drawing::Nothing
    }

    fn follows_time(&self) -> bool {
        true
    }
}
