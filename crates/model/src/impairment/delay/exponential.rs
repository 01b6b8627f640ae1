//! Exponential delay, from a least delay on.

use super::{Config, DelayMoments, Law, round_ns};
use weir_laws::{Draws, open_unit_interval};

/// min − scale·ln(*v*), rounded, at most max; *v* is draw 0 in the open interval and scale = mean − min.
#[derive(Clone, Debug, PartialEq)]
pub struct Exponential {
    min_ns: u64,
    scale_ns: f64,
    max_ns: u64,
}

impl Law for Exponential {
    fn of(config: &Config) -> Option<Self> {
        let config = config.exponential.as_ref()?;
        Some(Self {
            min_ns: config.min.0,
            scale_ns: config.mean.0.saturating_sub(config.min.0) as f64,
            max_ns: config.max.map_or(u64::MAX, |max| max.0),
        })
    }

    #[inline]
    fn draw_ns(&self, draws: &mut Draws) -> u64 {
        let part = round_ns(-self.scale_ns * libm::log(open_unit_interval(draws.bits())));
        self.min_ns.saturating_add(part).min(self.max_ns)
    }

    fn moments(&self) -> DelayMoments {
        let (min, scale) = (self.min_ns as f64, self.scale_ns);
        if self.max_ns == u64::MAX || scale == 0.0 {
            return DelayMoments { mean_ns: min + scale, deviation_ns: scale };
        }
        // min(X, c) of an exponential X: E = s(1 − e^(−c/s)), E² = 2s²(1 − e^(−c/s)(1 + c/s)).
        let c = (self.max_ns - self.min_ns) as f64 / scale;
        let tail = libm::exp(-c);
        let first = scale * (1.0 - tail);
        let second = 2.0 * scale * scale * (1.0 - tail * (1.0 + c));
        DelayMoments {
            mean_ns: min + first,
            deviation_ns: (second - first * first).max(0.0).sqrt(),
        }
    }
}
