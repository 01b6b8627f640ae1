//! A delay that alternates between two values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{DelayMoments, DelayRule, Drawing, check_cycle, round_ns};
use crate::ModelError;
use crate::law::{Deciding, Law, PacketFacts};
use crate::units::Span;

/// A delay that is at its minimum for the first half of each cycle and at its maximum for the second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Square {
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

impl Law for Square {
    type Running = Halves;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_cycle(at, (self.min, self.max), self.cycle)
    }

    fn start(&self) -> Halves {
        Halves {
            min_ns: self.min.0 as f64,
            range_ns: self.max.0.saturating_sub(self.min.0) as f64,
            cycle_ns: self.cycle.0,
        }
    }
}

/// min while t mod cycle < ⌈cycle/2⌉, else max, with t the time since the first packet. Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Halves {
    min_ns: f64,
    range_ns: f64,
    /// Above 0.
    cycle_ns: u64,
}

impl Deciding for Halves {
    type Outcome = u64;

    #[inline]
    fn decide(&mut self, packet: &PacketFacts, _: &mut Draws) -> u64 {
        let is_second = packet.elapsed_ns % self.cycle_ns >= self.cycle_ns.div_ceil(2);
        round_ns(self.min_ns + self.range_ns * f64::from(u8::from(is_second)))
    }
}

impl DelayRule for Square {
    /// Of packets at equal intervals, over whole cycles.
    fn moments(&self) -> DelayMoments {
        let Halves { min_ns, range_ns, .. } = self.start();
        DelayMoments::of(min_ns + range_ns / 2.0, range_ns / 2.0)
    }

    fn draws(&self) -> Drawing {
        Drawing::Nothing
    }

    fn follows_time(&self) -> bool {
        true
    }
}
