//! Loss whose probability depends on the number of packets lost before.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Chance, Draws};

use super::{LossChain, LossProcess, LossRule};
use crate::ModelError;
use crate::impairment::value::Percentages;
use crate::law::{Law, Running, check_percentage, refuse};

/// Loss with a probability that depends on the number of consecutive losses so far: percentages for none, one, two and so on; the last one repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, example = "1, 30, 50")]
pub struct Conditional(pub Percentages);

impl Conditional {
    fn probabilities(&self) -> Vec<f64> {
        self.0.0.iter().map(|percentage| percentage / 100.0).collect()
    }
}

impl Law for Conditional {
    const IS_LIST: bool = true;
    type Running = Given;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        for percentage in &self.0.0 {
            check_percentage(at, "", *percentage)?;
        }
        match self.0.0.last() {
            Some(last) if *last >= 100.0 => {
                refuse(at, "", last, "a last value below 100, so that bursts end")
            }
            _ => Ok(()),
        }
    }

    fn start(&self) -> Given {
        let chances = self.probabilities().into_iter().map(Chance::new).collect();
        Given { chances, lost: 0 }
    }
}

/// Lost when draw 0 < value *k*, with *k* the number of consecutively lost packets so far, or the last value. None is lost
/// before the first packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// Not empty.
    chances: Box<[Chance]>,
    /// Consecutively lost packets, at most the index of the last value.
    lost: usize,
}

impl Running for Given {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> bool {
        let is_lost = self.chances[self.lost].happens(draws.bits());
        self.lost = if is_lost { (self.lost + 1).min(self.chances.len() - 1) } else { 0 };
        is_lost
    }
}

impl LossRule for Conditional {
    /// State *k* is the *k*-th consecutively lost packet, the last one all later ones too, and 0 a packet that is not lost.
    fn process(&self) -> Option<LossProcess> {
        let p = self.probabilities();
        let states = p.len() + 1;
        let mut weights = vec![1.0];
        for k in 0..p.len() {
            weights.push(weights[k] * p[k]);
        }
        // The last state also follows itself.
        let last = p[p.len() - 1];
        weights[p.len()] /= 1.0 - last;
        let total: f64 = weights.iter().sum();
        let step = |state: usize| {
            let lost = p[state.min(p.len() - 1)];
            let mut row = vec![0.0; states];
            row[(state + 1).min(p.len())] = lost;
            row[0] = 1.0 - lost;
            row
        };
        let is_loss = |state: usize| f64::from(u8::from(state > 0));
        Some(LossProcess::Chain(LossChain {
            stationary: weights.into_iter().map(|weight| weight / total).collect(),
            step: (0..states).map(step).collect(),
            loss: (0..states).map(is_loss).collect(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agree_with_the_law, losses, moments, refused};

    #[test]
    fn losses_agree_with_the_chain() {
        for text in [
            "loss conditional(1%, 30%, 50%)",
            "loss conditional(5, 100, 100, 20)",
            "loss conditional(20, 0)",
            "loss conditional(2)",
        ] {
            agree_with_the_law(text);
        }
        // By hand: weights 1, 0.01 and 0.01·0.3/(1 − 0.5).
        let of = moments("loss conditional(1%, 30%, 50%)");
        assert!((of.mean - 0.016 / 1.016).abs() < 1e-12, "{of:?}");
        assert!((of.burst.unwrap() - 1.6).abs() < 1e-9, "{of:?}");
    }

    #[test]
    fn each_loss_has_its_own_probability() {
        // 6.2 standard deviations.
        let lost = losses("loss conditional(10%, 60%, 30%)", 8, 600_000);
        let mut counts = [[0.0; 2]; 4];
        let mut run = 0;
        for lost in lost {
            counts[run.min(3)][usize::from(lost)] += 1.0;
            run = if lost { run + 1 } else { 0 };
        }
        for ([kept, lost], p) in counts.into_iter().zip([0.1f64, 0.6, 0.3, 0.3]) {
            let n: f64 = kept + lost;
            assert!((lost - n * p).abs() < 6.2 * (n * p * (1.0 - p)).sqrt(), "{p}: {lost} of {n}");
        }
    }

    #[test]
    fn parameters_are_checked() {
        for text in ["1, 101", "1, 100"] {
            assert_eq!(refused(&format!("loss conditional({text})")), "loss.conditional");
        }
        for text in ["x", ""] {
            let field = refused(&format!("loss conditional({text})"));
            assert_eq!(field, "loss.conditional.conditional");
        }
    }
}
