//! Interval laws: the time from each packet to the next. A new one is a file here and a line in the list below.
//!
//! A law returns each interval as a multiple of the mean, which the rate determines unless the law states its
//! own. With a rate in bit/s, the mean depends on each packet's size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use crate::ModelError;
use crate::law::{Law, Running, choice_of_laws, refuse};
use crate::units::Span;

/// Maximum mean interval.
const MAX_MEAN: Span = Span::from_seconds(3600);

/// Moments of an interval law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpacingMoments {
    /// Mean; absent if the rate determines it.
    pub mean: Option<Span>,
    /// Standard deviation ÷ mean.
    pub variation: f64,
}

/// Properties of an interval law.
trait SpacingRule {
    /// Its moments.
    fn moments(&self) -> SpacingMoments;
}

choice_of_laws! {
    /// The law of the intervals between packets.
    Spacing("spacing"): SpacingRule;
    /// A running interval law: the next interval as a multiple of the mean.
    SpacingLaw -> f64;
    {
        constant: Constant,
        exponential: Exponential,
    }
}

impl Spacing {
    /// Its moments.
    #[must_use]
    pub fn moments(&self) -> SpacingMoments {
        self.rule().moments()
    }

    /// Whether all intervals are equal.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.moments().variation == 0.0
    }

    pub(super) fn check(&self, at: &str) -> Result<(), ModelError> {
        self.check_parameters(at)
    }

    /// Packets per second, if the law states its mean.
    #[must_use]
    pub(crate) fn packets_per_second(&self) -> Option<f64> {
        self.moments().mean.map(|mean| 1e9 / mean.0 as f64)
    }
}

impl Default for Spacing {
    fn default() -> Self {
        Spacing::Constant(Constant::default())
    }
}

fn check_mean(at: &str, mean: Option<Span>) -> Result<(), ModelError> {
    match mean {
        Some(mean) if mean.0 == 0 || mean > MAX_MEAN => refuse(at, "mean", mean, "1ns to 1h"),
        _ => Ok(()),
    }
}
