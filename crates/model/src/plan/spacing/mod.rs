//! Interval laws: the time from each packet to the next. A new one is a file here and a line in the list below.
//!
//! A law gives the shape: each interval as a multiple of the mean, which is the rate's unless the law states its own. With a
//! rate in bit/s the mean follows each packet's size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use crate::ModelError;
use crate::law::{Law, Running, choice_of_laws, refuse};
use crate::units::Span;

/// Longest mean interval.
const MAX_MEAN: Span = Span::from_seconds(3600);

/// What an interval law does on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpacingMoments {
    /// Mean; absent where it is the rate's.
    pub mean: Option<Span>,
    /// Standard deviation over the mean.
    pub variation: f64,
}

/// What an interval law does, seen from outside.
trait SpacingRule {
    /// What it does on average.
    fn moments(&self) -> SpacingMoments;
}

choice_of_laws! {
    /// The law of the intervals between packets.
    Spacing("spacing"): SpacingRule;
    /// An interval law at work: the next interval as a multiple of the mean.
    SpacingLaw -> f64;
    {
        constant: Constant,
        exponential: Exponential,
    }
}

impl Spacing {
    /// What the law does on average.
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

    /// Packets per second where the law states its mean.
    #[must_use]
    pub fn packets_per_second(&self) -> Option<f64> {
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

/// A time, never without its unit: 10 may be meant as milliseconds.
fn span(word: &str) -> Option<Span> {
    if word.ends_with(|c: char| c.is_ascii_digit()) { None } else { word.parse().ok() }
}
