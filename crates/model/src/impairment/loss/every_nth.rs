//! Regular loss: every *n*-th packet.

use super::{Config, Law, LossMoments};
use weir_laws::Draws;

/// Every *n*-th packet is lost, the *n*-th first. It draws nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct EveryNth {
    n: u64,
    /// Packets since the last loss.
    passed: u64,
}

impl Law for EveryNth {
    fn of(config: &Config) -> Option<Self> {
        config.every_nth.map(|n| Self { n, passed: 0 })
    }

    #[inline]
    fn lost(&mut self, _: &mut Draws) -> bool {
        self.passed += 1;
        let lost = self.passed >= self.n;
        if lost {
            self.passed = 0;
        }
        lost
    }

    fn moments(&self) -> LossMoments {
        LossMoments { mean: 1.0 / self.n.max(1) as f64, variance: 0.0 }
    }
}
