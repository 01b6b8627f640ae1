//! Interval laws: the time from each packet to the next. A new one is a file here and a line in the list below; one that
//! sizes have as well is a file in `law/distribution/`.
//!
//! A law returns each interval as a multiple of the mean, which the rate determines unless the law states its
//! own. With a rate in bit/s, the mean depends on each packet's size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use crate::ModelError;
use crate::law::distribution::{Clamp, Distribution, Drawn, Moments, Source};
use crate::law::{Law, Running, choice_of_laws, refuse};

mod interval;

use interval::Interval;

/// Moments of an interval law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpacingMoments {
    /// Mean, ns; absent if the rate determines it.
    pub mean_ns: Option<f64>,
    /// Standard deviation ÷ mean.
    pub variation: f64,
    /// Minimum ÷ mean.
    pub min: f64,
    /// Maximum ÷ mean.
    pub max: f64,
}

/// Properties of an interval law.
trait SpacingRule {
    /// Its moments.
    fn moments(&self) -> SpacingMoments;

    /// Whether an interval depends on nothing but its own draws.
    fn is_independent(&self) -> bool {
        true
    }

    /// The number of tables that it draws from.
    fn tables(&self) -> usize {
        0
    }

    /// Whether it has a mean of its own.
    fn has_mean(&self) -> bool;

    /// The bounds that its draws can exceed, ns.
    fn clamp(&self) -> Clamp {
        Clamp::default()
    }

    /// The law of the intervals within a burst, if there are bursts with pauses between them.
    fn within_burst(&self) -> Option<&Spacing> {
        None
    }
}

impl<D: Distribution<Quantity = Interval>> SpacingRule for D {
    fn moments(&self) -> SpacingMoments {
        let Moments { min, max, mean, deviation } = self.started().moments;
        SpacingMoments {
            mean_ns: self.unit_mean().is_none().then_some(mean),
            variation: deviation / mean,
            min: min / mean,
            max: max / mean,
        }
    }

    fn is_independent(&self) -> bool {
        D::IS_INDEPENDENT
    }

    fn tables(&self) -> usize {
        Distribution::tables(self) + usize::from(self.clamped_mean().is_some())
    }

    fn has_mean(&self) -> bool {
        self.unit_mean().is_none()
    }

    fn clamp(&self) -> Clamp {
        Distribution::clamp(self)
    }
}

impl<S: Source> Running for Drawn<S, Interval> {
    type Outcome = f64;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> f64 {
        let index = self.count();
        self.value(index, draws) / self.mean()
    }
}

choice_of_laws! {
    /// The law of the intervals between packets.
    Spacing("spacing"): SpacingRule;
    /// A running interval law: the next interval as a multiple of the mean.
    SpacingLaw: next(&mut) -> f64;
    {
        constant: Constant,
        uniform: Uniform,
        on_off: OnOff,
        recorded: Recorded,
    }
    of Interval {
        exponential: Exponential,
        pareto: Pareto,
        cauchy: Cauchy,
        normal: Normal,
        log_normal: LogNormal,
        poisson: Poisson,
        gamma: Gamma,
        weibull: Weibull,
        student: Student,
        alternate: Alternate,
        increasing: Increasing,
        decreasing: Decreasing,
        histogram: Histogram,
        quantiles: Quantiles,
        table: Table,
        mixture: Mixture,
        values: Values,
    }
}

impl Spacing {
    /// Its moments.
    #[must_use]
    pub fn moments(&self) -> SpacingMoments {
        self.rule().moments()
    }

    /// The bounds that its draws can exceed, and to which they are clamped, ns. Of a mixture and of ON and OFF phases: the
    /// outermost of its parts.
    #[must_use]
    pub(crate) fn clamp(&self) -> Clamp {
        self.rule().clamp()
    }

    /// The law of the intervals within a burst; its own without bursts.
    #[must_use]
    pub(crate) fn within_burst(&self) -> &Spacing {
        self.rule().within_burst().unwrap_or(self)
    }

    /// Whether all intervals are equal.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.moments().variation == 0.0
    }

    /// Whether only the sender knows the intervals.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        matches!(self, Spacing::Recorded(_))
    }

    pub(super) fn check(&self, at: &str) -> Result<(), ModelError> {
        self.check_parameters(at)?;
        if self.moments().mean_ns.is_some_and(|mean| mean < 1.0) {
            return refuse(at, "", self, "a law with a mean of at least 1 ns");
        }
        match self {
            Self::OnOff(law) => law.check_means(&format!("{at}.on_off")),
            _ => Ok(()),
        }
    }

    /// Packets per second, if the law states its mean.
    #[must_use]
    pub(crate) fn packets_per_second(&self) -> Option<f64> {
        self.moments().mean_ns.map(|mean| 1e9 / mean)
    }

    /// The number of tables that it draws from.
    pub(super) fn tables(&self) -> usize {
        self.rule().tables()
    }

    /// Whether it has a mean of its own and may be a part of another law.
    fn may_be_part(&self) -> bool {
        self.rule().is_independent() && self.rule().has_mean()
    }

    /// Its moments in ns, if it has a mean of its own and may be a part of another law.
    fn part_moments(&self) -> Option<Moments> {
        let SpacingMoments { mean_ns, variation, min, max } = self.moments();
        let mean = mean_ns.filter(|_| self.rule().is_independent())?;
        Some(Moments { min: min * mean, max: max * mean, mean, deviation: variation * mean })
    }
}

impl Default for Spacing {
    fn default() -> Self {
        Spacing::Constant(Constant::default())
    }
}
