//! Bursty loss: the Gilbert-Elliott model (Gilbert, BSTJ 1960; Elliott, BSTJ 1963; parameters named as by
//! Hasslinger and Hohlfeld, 2008).

use super::{Config, Law, LossMoments};
use weir_laws::{Chance, Draws};
use crate::impairment::Chain;

/// A chain of two states with a loss probability each. The first packet finds the stationary state (draw 0
/// < p/(p + r) is bad); each further one first moves it (draw 0); then draw 1 decides on loss.
#[derive(Clone, Debug, PartialEq)]
pub struct GilbertElliott {
    to_bad: Chance,
    to_good: Chance,
    bad_loss: Chance,
    good_loss: Chance,
    chain: Chain,
    /// Whether the last packet found the bad state.
    bad: Option<bool>,
}

impl Law for GilbertElliott {
    fn of(config: &Config) -> Option<Self> {
        let chain = config.gilbert_elliott.as_ref()?.chain();
        Some(Self {
            to_bad: Chance::new(chain.to_bad),
            to_good: Chance::new(chain.to_good),
            bad_loss: Chance::new(chain.bad_loss),
            good_loss: Chance::new(chain.good_loss),
            chain,
            bad: None,
        })
    }

    #[inline]
    fn lost(&mut self, draws: &mut Draws) -> bool {
        let bits = draws.bits();
        let bad = match self.bad {
            None => Chance::new(self.stationary()).happens(bits),
            Some(false) => self.to_bad.happens(bits),
            Some(true) => !self.to_good.happens(bits),
        };
        self.bad = Some(bad);
        let loss = if bad { self.bad_loss } else { self.good_loss };
        // Both draws are of one block: the second costs nothing.
        loss.happens(draws.bits())
    }

    fn moments(&self) -> LossMoments {
        let Chain { to_bad, to_good, bad_loss, good_loss } = self.chain;
        let bad = self.stationary();
        let mean = bad * bad_loss + (1.0 - bad) * good_loss;
        // Covariance at distance k is bad·good·(difference of loss)²·ρᵏ, with ρ = 1 − p − r.
        let rho = 1.0 - to_bad - to_good;
        let between = bad * (1.0 - bad) * (bad_loss - good_loss).powi(2);
        LossMoments { mean, variance: mean * (1.0 - mean) + 2.0 * between * rho / (1.0 - rho) }
    }
}

impl GilbertElliott {
    /// The share of packets that find the bad state: p/(p + r).
    #[must_use]
    pub fn stationary(&self) -> f64 {
        self.chain.to_bad / (self.chain.to_bad + self.chain.to_good)
    }
}
