//! ON and OFF phases: bursts with a law for each phase.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::interval::Interval;
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
    /// The law of the length of OFF phases. Absent: `period` gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", example = "exponential(mean=1s)")]
    pub off: Option<Box<Spacing>>,
    /// Instead of `off`: the law of the time from the start of an ON phase to the start of the next one, which follows without a
    /// pause where the ON phase is longer. It and `on` are constant, or exponential without `min` and `clamped_mean`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // No example: that of the law is made of those of its fields, and has `off`.
    #[schemars(with = "Option<String>")]
    pub period: Option<Box<Spacing>>,
    /// The law of the intervals in ON phases.
    #[schemars(with = "String", example = "20ms")]
    pub interval: Box<Spacing>,
}

impl OnOff {
    /// The moments of its laws: ON, OFF, interval.
    fn parts(&self) -> Option<[Moments; 3]> {
        let off = match (&self.off, &self.period) {
            (Some(off), _) => off.part_moments()?,
            (None, Some(period)) => pause(Length::of(&self.on)?, Length::of(period)?),
            (None, None) => return None,
        };
        Some([self.on.part_moments()?, off, self.interval.part_moments()?])
    }

    /// Its laws, by their fields.
    fn laws(&self) -> impl Iterator<Item = (&'static str, &Spacing)> + Clone {
        let off = self.off.iter().map(|law| ("off", &**law));
        let period = self.period.iter().map(|law| ("period", &**law));
        [("on", &*self.on)].into_iter().chain(off).chain(period).chain([("interval", &*self.interval)])
    }
}

/// A length that is constant, or exponential up to a maximum; ns.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Length {
    /// Mean before clamping; absent: it is constant.
    decay: Option<f64>,
    /// Maximum.
    most: f64,
}

impl Length {
    fn of(law: &Spacing) -> Option<Length> {
        match law {
            Spacing::Constant(_) => {
                law.part_moments().map(|m| Length { decay: None, most: m.mean })
            }
            Spacing::Exponential(e) if e.min.is_none() && e.clamped_mean.is_none() => {
                let most = e.max.map_or(Interval::MAX, Quantity::value);
                e.mean.map(|mean| Length { decay: Some(mean.value()), most })
            }
            _ => None,
        }
    }

    /// Mean of the smaller one of these: of the time until either ends.
    fn mean_of_smaller(lengths: &[Length]) -> f64 {
        let most = lengths.iter().map(|length| length.most).fold(f64::INFINITY, f64::min);
        let rate: f64 = lengths.iter().filter_map(|length| length.decay).map(|mean| 1.0 / mean).sum();
        if rate > 0.0 { -libm::expm1(-rate * most) / rate } else { most }
    }
}

/// The moments of what is left of a period after an ON phase, if anything is. The deviation is without the maximum of
/// exponential lengths.
fn pause(on: Length, period: Length) -> Moments {
    let mean = Length::mean_of_smaller(&[period]) - Length::mean_of_smaller(&[on, period]);
    let square = match (on.decay, period.decay) {
        (None, None) => (period.most - on.most).max(0.0).powi(2),
        (Some(on), None) => {
            let left = period.most * period.most - 2.0 * on * period.most;
            left - 2.0 * on * on * libm::expm1(-period.most / on)
        }
        // What is left of an exponential length is exponential, too.
        (None, Some(period)) => 2.0 * period * period * libm::exp(-on.most / period),
        (Some(on), Some(period)) => 2.0 * period * period * period / (period + on),
    };
    let min = match (on.decay, period.decay) {
        (None, None) => (period.most - on.most).max(0.0),
        _ => 0.0,
    };
    let deviation = (square - mean * mean).max(0.0).sqrt();
    Moments { min, max: period.most, mean, deviation }
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
        if self.off.is_some() == self.period.is_some() {
            let given = if self.off.is_some() { "both" } else { "neither" };
            return refuse(at, "off", given, "one of off and period");
        }
        for (field, law) in self.laws() {
            if !law.may_be_part() {
                let accepted =
                    "a law with a mean of its own whose values do not follow from those before";
                return refuse(at, field, law, accepted);
            }
            let is_fit = self.period.is_none() || field == "interval" || Length::of(law).is_some();
            if !is_fit {
                let accepted =
                    "with a period: constant, or exponential without min and clamped_mean";
                return refuse(at, field, law, accepted);
            }
        }
        Ok(())
    }

    fn start(&self) -> Phases {
        let started = |law: &Spacing| Box::new(Interval::start(law));
        // A checked law has one of them.
        let rest = self.off.as_ref().or(self.period.as_ref()).unwrap_or(&self.on);
        Phases {
            on: started(&self.on),
            rest: started(rest),
            is_period: self.off.is_none(),
            interval: started(&self.interval),
            on_ns: 0.0,
            left_ns: None,
            mean_ns: self.moments().mean_ns.unwrap_or(1.0),
        }
    }
}

/// Maximum number of phases within one interval.
const MAX_PHASES: u32 = 1000;

/// Draw 0 is that of the interval. Where it ends the ON phase, an OFF phase is added and the next ON phase begins with what
/// the interval had too much, so that the phases have exactly their lengths in the mean: draws of OFF or of the period, then of
/// ON. The first ON phase is drawn before the first interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Phases {
    on: Box<(SpacingLaw, f64)>,
    /// The law of OFF phases, or of periods.
    rest: Box<(SpacingLaw, f64)>,
    is_period: bool,
    interval: Box<(SpacingLaw, f64)>,
    /// Length of the ON phase.
    on_ns: f64,
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
            None => {
                self.on_ns = draw(&mut self.on);
                self.on_ns
            }
        };
        let mut interval_ns = draw(&mut self.interval);
        left_ns -= interval_ns;
        for _ in 0..MAX_PHASES {
            if left_ns > 0.0 {
                break;
            }
            let rest_ns = draw(&mut self.rest);
            interval_ns += if self.is_period { (rest_ns - self.on_ns).max(0.0) } else { rest_ns };
            self.on_ns = draw(&mut self.on);
            left_ns += self.on_ns;
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
        Clamp::outermost(self.laws().map(|(_, law)| law.clamp()))
    }

    fn has_mean(&self) -> bool {
        true
    }

    fn tables(&self) -> usize {
        self.laws().map(|(_, law)| law.tables()).sum()
    }
}
