//! ON and OFF phases: bursts with a law for each phase.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{Spacing, SpacingLaw, SpacingMoments, SpacingRule};
use crate::ModelError;
use crate::law::{Law, Running, refuse};
use crate::law::distribution::{Clamp, Moments, Quantity};

/// Phases in which packets are sent and phases without packets, in turn; each phase lasts as its law draws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// The law of the length of ON phases. Its mean is at least that of `interval`.
    #[schemars(with = "String", example = "1s")]
    pub on: Box<Spacing>,
    /// The law of the length of OFF phases.
    #[schemars(with = "String", example = "exponential(mean=1s)")]
    pub off: Box<Spacing>,
    /// The law of the intervals in ON phases.
    #[schemars(with = "String", example = "20ms")]
    pub interval: Box<Spacing>,
}

impl OnOff {
    /// The moments of its laws: ON, OFF, interval.
    fn parts(&self) -> Option<[Moments; 3]> {
        let [on, off, interval] = [&self.on, &self.off, &self.interval].map(|law| law.part_moments());
        Some([on?, off?, interval?])
    }
}

impl OnOff {
    /// Checks the means, for which tables may be made.
    pub(super) fn check_means(&self, at: &str) -> Result<(), ModelError> {
        match self.parts() {
            Some([on, _, interval]) if on.mean < interval.mean => {
                refuse(at, "on", &self.on, "a mean of at least that of interval")
            }
            _ => Ok(()),
        }
    }
}

impl Law for OnOff {
    type Running = Phases;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        for (field, law) in [("on", &self.on), ("off", &self.off), ("interval", &self.interval)] {
            if !law.may_be_part() {
                let accepted =
                    "a law with a mean of its own whose values do not follow from those before";
                return refuse(at, field, law, accepted);
            }
        }
        Ok(())
    }

    fn start(&self) -> Phases {
        let [on, off, interval] =
            [&self.on, &self.off, &self.interval].map(|law| Box::new(super::Interval::start(law)));
        let mean_ns = self.moments().mean_ns.unwrap_or(1.0);
        Phases { on, off, interval, left_ns: None, mean_ns }
    }
}

/// Maximum number of phases within one interval.
const MAX_PHASES: u32 = 1000;

/// Draw 0 is that of the interval. Where it ends the ON phase, an OFF phase is added and the next ON phase begins with what
/// the interval had too much, so that the phases have exactly their lengths in the mean: draws of OFF, then of ON. The
/// first ON phase is drawn before the first interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Phases {
    on: Box<(SpacingLaw, f64)>,
    off: Box<(SpacingLaw, f64)>,
    interval: Box<(SpacingLaw, f64)>,
    /// What is left of the ON phase; `None` before the first.
    left_ns: Option<f64>,
    mean_ns: f64,
}

impl Running for Phases {
    type Outcome = f64;

    fn next(&mut self, draws: &mut Draws) -> f64 {
        let mut draw = |(law, mean): &mut (SpacingLaw, f64)| law.next(draws) * *mean;
        let mut left_ns = match self.left_ns {
            Some(left_ns) => left_ns,
            None => draw(&mut self.on),
        };
        let mut interval_ns = draw(&mut self.interval);
        left_ns -= interval_ns;
        for _ in 0..MAX_PHASES {
            if left_ns > 0.0 {
                break;
            }
            interval_ns += draw(&mut self.off);
            left_ns += draw(&mut self.on);
        }
        self.left_ns = Some(left_ns);
        interval_ns / self.mean_ns
    }
}

impl SpacingRule for OnOff {
    fn within_burst(&self) -> Option<&Spacing> {
        Some(&self.interval)
    }

    /// By Wald's equation an interval of mean m ends m/on phases. The variation takes their number as Poisson's, which it
    /// nearly is where intervals are short.
    fn moments(&self) -> SpacingMoments {
        // A checked law has them.
        let Some([on, off, interval]) = self.parts() else {
            return SpacingMoments { mean_ns: None, variation: 0.0, min: 1.0, max: 1.0 };
        };
        let phases = interval.mean / on.mean;
        let mean = interval.mean + phases * off.mean;
        let square = off.mean * off.mean + off.deviation * off.deviation;
        let variance = interval.deviation * interval.deviation + phases * square;
        SpacingMoments {
            mean_ns: Some(mean),
            variation: variance.sqrt() / mean,
            min: interval.min / mean,
            max: (interval.max + off.max) / mean,
        }
    }

    fn is_independent(&self) -> bool {
        false
    }

    fn clamp(&self) -> Clamp {
        Clamp::outermost([&self.on, &self.off, &self.interval].into_iter().map(|law| law.clamp()))
    }

    fn has_mean(&self) -> bool {
        true
    }

    fn tables(&self) -> usize {
        [&self.on, &self.off, &self.interval].iter().map(|law| law.tables()).sum()
    }
}
