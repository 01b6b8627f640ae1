//! Independent loss: each packet with the same probability.

use super::{Config, Law, LossMoments};
use weir_laws::{Chance, Draws};

/// Each packet is lost alone: draw 0 < *p*.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentage {
    chance: Chance,
}

impl Law for Percentage {
    fn of(config: &Config) -> Option<Self> {
        config.percentage.map(|percentage| Self { chance: Chance::percent(percentage) })
    }

    #[inline]
    fn lost(&mut self, draws: &mut Draws) -> bool {
        self.chance.happens(draws.bits())
    }

    fn moments(&self) -> LossMoments {
        let p = self.chance.probability();
        LossMoments { mean: p, variance: p * (1.0 - p) }
    }
}
