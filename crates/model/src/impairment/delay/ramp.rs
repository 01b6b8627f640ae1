//! A delay that rises or falls once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{DelayMoments, DelayRule, Drawing, check_positive, check_span, round_ns};
use crate::ModelError;
use crate::law::{Deciding, Law, PacketFacts};
use crate::units::Span;

/// A delay that changes linearly from one value to another, and then stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    /// Delay before the change.
    #[schemars(example = "20ms")]
    pub from: Span,
    /// Delay after the change.
    #[schemars(example = "80ms")]
    pub to: Span,
    /// Time that the change takes from the first packet on, above 0.
    #[schemars(example = "10s")]
    pub duration: Span,
}

impl Law for Ramp {
    type Running = Slope;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_span(at, "from", self.from)?;
        check_span(at, "to", self.to)?;
        check_positive(at, "duration", self.duration)
    }

    fn start(&self) -> Slope {
        Slope { from_ns: self.from.0, to_ns: self.to.0, duration_ns: self.duration.0 }
    }
}

/// from + (to − from)·min(t/duration, 1), with t the time since the first packet. Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Slope {
    from_ns: u64,
    to_ns: u64,
    duration_ns: u64,
}

impl Deciding for Slope {
    type Outcome = u64;

    #[inline]
    fn decide(&mut self, packet: &PacketFacts, _: &mut Draws) -> u64 {
        let place = (packet.elapsed_ns as f64 / self.duration_ns as f64).min(1.0);
        let (from, to) = (self.from_ns as f64, self.to_ns as f64);
        round_ns(from + place * (to - from))
    }
}

impl DelayRule for Ramp {
    /// There is no long run: they depend on how long the law has been applied.
    fn moments(&self) -> DelayMoments {
        DelayMoments { mean_ns: None, deviation_ns: None }
    }

    fn draws(&self) -> Drawing {
        Drawing::Nothing
    }

    fn follows_time(&self) -> bool {
        true
    }
}
