//! Bursts of random length that start at random.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Chance, Draws};

use super::{LossMoments, LossRule};
use crate::ModelError;
use crate::law::{Law, Running, check_percentage, refuse};

/// Bursts that start at random, each with a random number of lost packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Random bursts")]
pub struct RandomBurst {
    /// Probability that a burst starts at a packet outside of bursts, in percent.
    #[schemars(example = 0.5)]
    pub start_percentage: f64,
    /// Minimum number of consecutively lost packets, at least 1.
    #[schemars(example = 2)]
    pub min: u64,
    /// Maximum number, up to 1 000 000; each number up to it is equally likely.
    #[schemars(example = 8)]
    pub max: u64,
}

impl Law for RandomBurst {
    type Running = Bursting;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_percentage(at, "start_percentage", self.start_percentage)?;
        if self.min == 0 {
            return refuse(at, "min", 0, "1 or more");
        }
        if !(self.min..=1_000_000).contains(&self.max) {
            return refuse(at, "max", self.max, "min to 1000000");
        }
        Ok(())
    }

    fn start(&self) -> Bursting {
        let values = self.max.saturating_sub(self.min) + 1;
        Bursting { chance: Chance::percent(self.start_percentage), min: self.min, values, left: 0 }
    }
}

/// Outside of bursts a burst starts when draw 0 < *p*, and has min + ⌊draw 1·(max − min + 1)/2⁶⁴⌋ packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Bursting {
    chance: Chance,
    min: u64,
    /// max − min + 1.
    values: u64,
    /// Packets still to be lost.
    left: u64,
}

impl Running for Bursting {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> bool {
        if self.left == 0 && self.chance.happens(draws.bits()) {
            let more = (u128::from(draws.bits()) * u128::from(self.values)) >> 64;
            self.left = self.min + more as u64;
        }
        let is_lost = self.left > 0;
        self.left -= u64::from(is_lost);
        is_lost
    }
}

impl LossRule for RandomBurst {
    /// A renewal-reward process (Cox, "Renewal theory", 1962): cycles of G packets outside, geometric with mean (1 − p)/p and
    /// variance (1 − p)/p², and L lost ones. With m the mean, the variance is Var(L − m·(G + L))/E(G + L). Bursts between which no
    /// packet arrives are one loss period.
    fn moments(&self) -> Option<LossMoments> {
        let p = self.start().chance.probability();
        if p <= 0.0 {
            return Some(LossMoments { mean: 0.0, variance: 0.0, burst: None });
        }
        let (min, max) = (self.min as f64, self.max as f64);
        let (length, width) = ((min + max) / 2.0, max - min + 1.0);
        let cycle = length + (1.0 - p) / p;
        let mean = length / cycle;
        let (of_length, of_gap) = ((width * width - 1.0) / 12.0, (1.0 - p) / (p * p));
        let variance =
            ((1.0 - mean) * (1.0 - mean) * of_length + mean * mean * of_gap) / cycle;
        Some(LossMoments { mean, variance, burst: (p < 1.0).then(|| length / (1.0 - p)) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agree_with_the_law, burst_lengths, losses, refused};

    #[test]
    fn losses_agree_with_the_moments() {
        for text in [
            "loss random_burst(start_percentage=0.5, min=2, max=8)",
            "loss random_burst(start_percentage=1, min=1, max=1)",
            "loss random_burst(start_percentage=20, min=5, max=6)",
        ] {
            agree_with_the_law(text);
        }
    }

    #[test]
    fn lengths_are_uniform() {
        // So rare that bursts seldom touch; 6.2 standard deviations.
        let lost = losses("loss random_burst(start_percentage=0.1, min=2, max=5)", 3, 2_000_000);
        let lengths = burst_lengths(&lost);
        let n = lengths.len() as f64;
        for length in 2..=5 {
            let found = lengths.iter().filter(|l| **l == length).count() as f64;
            assert!((found - n / 4.0).abs() < 6.2 * (n * 3.0 / 16.0).sqrt() + 0.002 * n, "{length}");
        }
        assert!(!lengths.contains(&1));
    }

    #[test]
    fn parameters_are_checked() {
        let of = |text: &str| refused(&format!("loss random_burst({text})"));
        assert_eq!(of("start_percentage=101, min=1, max=1"), "loss.random_burst.start_percentage");
        assert_eq!(of("start_percentage=1, min=0, max=1"), "loss.random_burst.min");
        assert_eq!(of("start_percentage=1, min=3, max=2"), "loss.random_burst.max");
    }
}
