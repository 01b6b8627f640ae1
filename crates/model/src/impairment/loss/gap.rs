//! Single losses with a law of the number of packets between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{LossMoments, LossRule};
use crate::ModelError;
use crate::impairment::count::{Count, CountLaw};
use crate::law::{Law, Running};

/// Losses with a law of the number of packets between them: a renewal process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, example = "exponential(mean=99)")]
pub struct Gap(pub Count);

impl Law for Gap {
    const IS_LIST: bool = true;
    type Running = Gaps;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        self.0.check(at)
    }

    fn start(&self) -> Gaps {
        Gaps { law: self.0.start(), left: None }
    }
}

/// The first packet draws a gap, and each lost one the next. The fraction of a gap is carried over to the next, so that the
/// mean of the gaps is that of the law.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaps {
    law: CountLaw,
    /// Packets before the next loss; absent before the first packet.
    left: Option<f64>,
}

impl Running for Gaps {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> bool {
        let left = match self.left {
            Some(left) => left,
            None => self.law.next(draws),
        };
        let is_lost = left < 1.0;
        self.left = Some(if is_lost { left + self.law.next(draws) } else { left - 1.0 });
        is_lost
    }
}

impl LossRule for Gap {
    /// With μ and σ of the distance of two losses: 1/μ, and σ²/μ³ (Cox, "Renewal theory", 1962, section 3.3). The length of
    /// bursts has no simple form.
    fn moments(&self) -> Option<LossMoments> {
        let gap = self.0.moments();
        let distance = gap.mean + 1.0;
        let variance = gap.deviation * gap.deviation / distance.powi(3);
        Some(LossMoments { mean: 1.0 / distance, variance, burst: None })
    }

    fn tables(&self) -> usize {
        self.0.tables()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agree_with_the_law, losses, lost_packets, refused};

    #[test]
    fn losses_agree_with_the_moments() {
        for text in [
            "loss gap(exponential(mean=20))",
            "loss gap(exponential(mean=1.5))",
            "loss gap(2..6)",
            "loss gap(gamma(shape=0.5, scale=40))",
            "loss gap(poisson(mean=9))",
            "loss gap(mixture(exponential(mean=3):5, 60:1))",
        ] {
            agree_with_the_law(text);
        }
    }

    #[test]
    fn gaps_are_those_of_the_law() {
        assert_eq!(lost_packets("loss gap(4)", 16), [5, 10, 15]);
        assert_eq!(lost_packets("loss gap(0)", 4), [1, 2, 3, 4]);
        assert_eq!(lost_packets("loss gap(values(1, 3))", 14), [2, 6, 8, 12, 14]);
        // Half a packet is carried over: distances of 3 and 4 in turn.
        assert_eq!(lost_packets("loss gap(2.5)", 18), [3, 7, 10, 14, 17]);
        let lost = losses("loss gap(2..4)", 1, 10_000);
        let gaps = lost.split(|lost| *lost).map(<[bool]>::len);
        assert!(gaps.take(1000).all(|gap| (2..=4).contains(&gap)));
    }

    #[test]
    fn parameters_are_checked() {
        for law in ["exponential(mean=0)", "cauchy(location=9, scale=1)", "-1", ""] {
            assert_eq!(refused(&format!("loss gap({law})")), "loss.gap.gap", "{law}");
        }
    }
}
