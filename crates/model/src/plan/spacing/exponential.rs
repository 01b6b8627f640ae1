//! Exponential intervals: Poisson arrivals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Draws, open_unit_interval};

use super::{SpacingMoments, SpacingRule, check_mean};
use crate::ModelError;
use crate::law::{Law, Running, Words};
use crate::units::Span;

/// Exponential intervals: arrivals of a Poisson process (RFC 2330, section 11.1.1).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exponential {
    /// Mean interval. Absent: given by the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "1ms")]
    pub mean: Option<Span>,
}

impl Law for Exponential {
    const SHORT_FORMS: &'static [&'static str] = &["exponential"];
    type Running = Decay;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        Ok(words.took("exponential").then(Self::default))
    }

    fn short(&self) -> Option<String> {
        self.mean.is_none().then(|| "exponential".into())
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_mean(at, self.mean)
    }

    fn start(&self) -> Decay {
        Decay
    }
}

/// −ln(*v*); *v* is draw 0 in the open interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Decay;

impl Running for Decay {
    type Outcome = f64;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> f64 {
        -libm::log(open_unit_interval(draws.bits()))
    }
}

impl SpacingRule for Exponential {
    fn moments(&self) -> SpacingMoments {
        SpacingMoments { mean: self.mean, variation: 1.0 }
    }
}
