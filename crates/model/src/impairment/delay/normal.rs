//! Normal delay.

use super::{Config, DelayMoments, Law, round_ns};
use weir_laws::{Draws, normal_quantile, open_unit_interval};

/// mean + deviation·Φ⁻¹(*v*), rounded; *v* is draw 0 in the open interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    mean_ns: f64,
    deviation_ns: f64,
}

impl Law for Normal {
    fn of(config: &Config) -> Option<Self> {
        let config = config.normal.as_ref()?;
        Some(Self { mean_ns: config.mean.0 as f64, deviation_ns: config.deviation.0 as f64 })
    }

    #[inline]
    fn draw_ns(&self, draws: &mut Draws) -> u64 {
        round_ns(self.mean_ns + self.deviation_ns * normal_quantile(open_unit_interval(draws.bits())))
    }

    fn moments(&self) -> DelayMoments {
        let (mean, deviation) = (self.mean_ns, self.deviation_ns);
        if deviation == 0.0 {
            return DelayMoments { mean_ns: mean, deviation_ns: 0.0 };
        }
        // A normal variable censored at 0: with a = mean/deviation, E = mean·Φ(a) + deviation·φ(a),
        // E² = (mean² + deviation²)·Φ(a) + mean·deviation·φ(a).
        let a = mean / deviation;
        let phi = libm::exp(-a * a / 2.0) / (2.0 * core::f64::consts::PI).sqrt();
        let below = libm::erfc(-a / core::f64::consts::SQRT_2) / 2.0;
        let first = mean * below + deviation * phi;
        let second = (mean * mean + deviation * deviation) * below + mean * deviation * phi;
        DelayMoments { mean_ns: first, deviation_ns: (second - first * first).max(0.0).sqrt() }
    }
}
