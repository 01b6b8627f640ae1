//! Loss by a recorded pattern.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{LossMoments, LossRule};
use crate::ModelError;
use crate::law::{Law, Running, is_default, refuse};

/// Maximum length of a pattern.
const MAX_LENGTH: usize = 1_000_000;

/// Loss by a recorded pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// A digit for each packet, 1 if it is lost, else 0; 1 to 1 000 000 digits.
    #[schemars(example = "0000100011")]
    pub lost: String,
    /// What follows the end of the pattern.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at_end: PatternEnd,
}

/// What follows the end of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PatternEnd {
    /// It starts again.
    #[default]
    Repeat,
    /// No further packet is lost.
    Stop,
}

impl Law for Pattern {
    type Running = Recorded;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        if !(1..=MAX_LENGTH).contains(&self.lost.len()) {
            let given = format!("{} digits", self.lost.len());
            return refuse(at, "lost", given, "1 to 1000000 digits");
        }
        match self.lost.chars().find(|c| !matches!(c, '0' | '1')) {
            Some(other) => refuse(at, "lost", other, "the digits 0 and 1"),
            None => Ok(()),
        }
    }

    fn start(&self) -> Recorded {
        Recorded {
            lost: self.lost.bytes().map(|digit| digit == b'1').collect(),
            repeats: self.at_end == PatternEnd::Repeat,
            at: 0,
        }
    }
}

/// Packet n is lost if digit n is 1; with `repeat`, digit n modulo their number. Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    lost: Box<[bool]>,
    repeats: bool,
    /// Index of the next packet's digit.
    at: usize,
}

impl Running for Recorded {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, _: &mut Draws) -> bool {
        if self.repeats && self.at >= self.lost.len() {
            self.at = 0;
        }
        let is_lost = self.lost.get(self.at).copied().unwrap_or(false);
        self.at = self.at.saturating_add(1);
        is_lost
    }
}

impl LossRule for Pattern {
    /// There is no long run of a pattern that is used once.
    fn moments(&self) -> Option<LossMoments> {
        let lost = self.lost.bytes().filter(|digit| *digit == b'1').count();
        let mean = lost as f64 / self.lost.len() as f64;
        let repeats = self.at_end == PatternEnd::Repeat;
        repeats.then_some(LossMoments { mean, variance: 0.0, burst: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agree_with_the_law, lost_packets, refused};

    #[test]
    fn packets_are_lost_as_recorded() {
        assert_eq!(lost_packets("loss pattern(lost=0100)", 10), [2, 6, 10]);
        assert_eq!(lost_packets("loss pattern(lost=0110, at_end=stop)", 10), [2, 3]);
        agree_with_the_law("loss pattern(lost=0000100011)");
    }

    #[test]
    fn parameters_are_checked() {
        assert_eq!(refused("loss pattern(lost=0120)"), "loss.pattern.lost");
        assert_eq!(refused("loss pattern(lost=01, at_end=never)"), "loss.pattern.at_end");
    }
}
