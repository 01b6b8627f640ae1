//! A single change of the delay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{DelayMoments, DelayRule, Drawing, check_positive, check_span};
use crate::ModelError;
use crate::law::{Deciding, Law, PacketFacts};
use crate::units::Span;

/// A delay that changes once, after a given time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Delay before the change.
    #[schemars(example = "20ms")]
    pub from: Span,
    /// Delay after the change.
    #[schemars(example = "80ms")]
    pub to: Span,
    /// Time of the change since the first packet, above 0.
    #[schemars(example = "10s")]
    pub at: Span,
}

impl Law for Step {
    type Running = Change;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_span(at, "from", self.from)?;
        check_span(at, "to", self.to)?;
        check_positive(at, "at", self.at)
    }

    fn start(&self) -> Change {
        Change { from_ns: self.from.0, to_ns: self.to.0, at_ns: self.at.0 }
    }
}

/// from while t < at, then to, with t the time since the first packet. Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    from_ns: u64,
    to_ns: u64,
    at_ns: u64,
}

impl Deciding for Change {
    type Outcome = u64;

    #[inline]
    fn decide(&mut self, packet: &PacketFacts, _: &mut Draws) -> u64 {
        if packet.elapsed_ns < self.at_ns { self.from_ns } else { self.to_ns }
    }
}

impl DelayRule for Step {
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
