//! Correlated loss that keeps its ratio.
//!
//! netem adds parts of uniform draws instead, so that at small ratios next to nothing is lost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Chance, Draws};

use super::{LossChain, LossProcess, LossRule};
use crate::ModelError;
use crate::law::{Law, Running, Words, check_percentage, refuse};

/// Correlated losses with a given mean: after a lost packet the next one is lost more often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Correlated {
    /// Mean loss in percent.
    #[schemars(example = 1)]
    pub percentage: f64,
    /// Correlation of the losses of consecutive packets, in percent, 0 to below 100.
    #[schemars(example = 25)]
    pub correlation_percentage: f64,
}

impl Correlated {
    /// The probability of loss after a packet that was not lost, and after one that was.
    fn probabilities(&self) -> [f64; 2] {
        let (p, rho) = (self.percentage / 100.0, self.correlation_percentage / 100.0);
        [p * (1.0 - rho), p + rho * (1.0 - p)]
    }
}

impl Law for Correlated {
    const SHORT_FORMS: &'static [&'static str] = &["P% CORRELATION%"];
    type Running = Alike;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        words.took("random");
        let Some(percentage) = words.percent_if_number()? else { return Ok(None) };
        if words.is_law_complete() {
            return Ok(None);
        }
        let correlation = words.percent_if_number()?;
        Ok(correlation.map(|correlation_percentage| Self { percentage, correlation_percentage }))
    }

    fn short(&self) -> Option<String> {
        Some(format!("{}% {}%", self.percentage, self.correlation_percentage))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_percentage(at, "percentage", self.percentage)?;
        if !(0.0..100.0).contains(&self.correlation_percentage) {
            let given = self.correlation_percentage;
            return refuse(at, "correlation_percentage", given, "0 to below 100 percent");
        }
        Ok(())
    }

    fn start(&self) -> Alike {
        let [after_sent, after_lost] = self.probabilities().map(Chance::new);
        Alike { chance: Chance::percent(self.percentage), after_sent, after_lost }
    }
}

/// Lost when draw 0 < *p* for the first packet, *p*·(1 − ρ) after a packet that was not lost, and *p* + ρ·(1 − *p*) after one
/// that was.
#[derive(Clone, Debug, PartialEq)]
pub struct Alike {
    /// Of the next packet.
    chance: Chance,
    after_sent: Chance,
    after_lost: Chance,
}

impl Running for Alike {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> bool {
        let is_lost = self.chance.happens(draws.bits());
        self.chance = if is_lost { self.after_lost } else { self.after_sent };
        is_lost
    }
}

impl LossRule for Correlated {
    fn process(&self) -> Option<LossProcess> {
        let p = self.percentage / 100.0;
        let [after_sent, after_lost] = self.probabilities();
        Some(LossProcess::Chain(LossChain {
            stationary: vec![1.0 - p, p],
            step: vec![vec![1.0 - after_sent, after_sent], vec![1.0 - after_lost, after_lost]],
            loss: vec![0.0, 1.0],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agree_with_the_law, losses, moments, refused};

    #[test]
    fn the_ratio_and_the_correlation_are_kept() {
        for text in ["loss 0.3% 25%", "loss 10% 25%", "loss 2% 90%", "loss 60% 50%", "loss 5% 0%"] {
            agree_with_the_law(text);
        }
        let of = moments("loss 10% 25%");
        assert!((of.mean - 0.1).abs() < 1e-12);
        assert!((of.burst.unwrap() - 1.0 / (0.9 * 0.75)).abs() < 1e-9, "{of:?}");
        // The correlation of neighbours; 6.2 standard deviations of about √((1 − ρ²)/n), widened for the skew of losses.
        let lost = losses("loss 10% 25%", 4, 1_000_000);
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64 / 1e6;
        let rho = (pairs - 0.01) / 0.09;
        assert!((rho - 0.25).abs() < 0.015, "{rho}");
    }

    #[test]
    fn without_correlation_losses_are_independent_ones() {
        assert_eq!(losses("loss 7% 0%", 4, 10_000), losses("loss 7%", 4, 10_000));
    }

    #[test]
    fn parameters_are_checked() {
        assert_eq!(refused("loss 101% 20%"), "loss.correlated.percentage");
        assert_eq!(refused("loss 1% 100%"), "loss.correlated.correlation_percentage");
    }
}
