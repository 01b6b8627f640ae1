//! Uniform delay: every nanosecond of a range alike.

use super::{Config, DelayMoments, Law};
use weir_laws::Draws;

/// Each whole number of nanoseconds from min to max alike: min + ⌊draw·(max − min + 1)/2⁶⁴⌋.
#[derive(Clone, Debug, PartialEq)]
pub struct Uniform {
    min_ns: u64,
    values: u64,
}

impl Law for Uniform {
    fn of(config: &Config) -> Option<Self> {
        let config = config.uniform.as_ref()?;
        Some(Self { min_ns: config.min.0, values: config.max.0.saturating_sub(config.min.0) + 1 })
    }

    #[inline]
    fn draw_ns(&self, draws: &mut Draws) -> u64 {
        let part = (u128::from(draws.bits()) * u128::from(self.values)) >> 64;
        self.min_ns + part as u64
    }

    fn moments(&self) -> DelayMoments {
        let n = self.values as f64;
        DelayMoments {
            mean_ns: self.min_ns as f64 + (n - 1.0) / 2.0,
            deviation_ns: ((n * n - 1.0) / 12.0).sqrt(),
        }
    }
}
