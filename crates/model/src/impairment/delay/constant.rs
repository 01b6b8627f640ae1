//! The same delay for each packet.

use super::{Config, DelayMoments, Law};
use weir_laws::Draws;

/// The same delay for each packet. It draws nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    ns: u64,
}

impl Law for Constant {
    fn of(config: &Config) -> Option<Self> {
        config.constant.map(|span| Self { ns: span.0 })
    }

    #[inline]
    fn draw_ns(&self, _: &mut Draws) -> u64 {
        self.ns
    }

    fn moments(&self) -> DelayMoments {
        DelayMoments { mean_ns: self.ns as f64, deviation_ns: 0.0 }
    }
}
