//! Laws of a number of packets. A law that other quantities have as well is a file in `law/distribution/` and a line in
//! the list below.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use crate::ModelError;
use crate::law::distribution::{Drawn, Moments, Quantity, Rule, Source};
use crate::law::{Law, Running, choice_of_laws};

/// A number of packets; a mean need not be whole.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Packets(pub f64);

impl FromStr for Packets {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let number = text.trim().parse().ok().filter(|number: &f64| *number >= 0.0);
        number.map(Self).ok_or_else(|| ModelError::Value {
            what: "packets",
            given: text.into(),
            accepted: "a number of packets, such as 20",
        })
    }
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Quantity for Packets {
    const MIN: f64 = 0.0;
    const MAX: f64 = 1e12;
    const LIMIT: Self = Packets(1e12);
    const IS_RATED: bool = false;
    const STEP: Self = Packets(1.0);
    type Choice = Count;
    type Running = CountLaw;

    fn value(self) -> f64 {
        self.0
    }

    fn example(number: &'static str, _: &'static str) -> &'static str {
        number
    }

    fn start(part: &Count) -> CountLaw {
        part.start()
    }

    #[inline]
    fn draw(part: &CountLaw, draws: &mut Draws) -> f64 {
        // A part has no state.
        part.clone().next(draws)
    }

    fn may_be_part(part: &Count) -> bool {
        part.rule().is_independent()
    }

    fn has_default_maximum(part: &Count) -> bool {
        part.rule().has_default_maximum()
    }

    fn has_default_minimum(part: &Count) -> bool {
        part.rule().has_default_minimum()
    }

    fn part_moments(part: &Count) -> Option<Moments> {
        Some(part.moments())
    }

    fn tables(law: &Count) -> usize {
        law.tables()
    }
}

impl<S: Source> Running for Drawn<S, Packets> {
    type Outcome = f64;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> f64 {
        let index = self.count();
        self.value(index, draws)
    }
}

choice_of_laws! {
    /// The law of a number of packets.
    Count("packets"): Rule;
    /// A running law of a number of packets, not rounded.
    CountLaw: next(&mut) -> f64;
    {}
    of Packets {
        constant: Constant,
        uniform: Uniform,
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

impl Count {
    /// Its moments after clamping, packets.
    pub(super) fn moments(&self) -> Moments {
        self.rule().moments()
    }

    /// Checks the law; `at` is its path in the document.
    pub(super) fn check(&self, at: &str) -> Result<(), ModelError> {
        self.check_parameters(at)
    }

    /// The number of tables that it draws from.
    pub(super) fn tables(&self) -> usize {
        self.rule().tables()
    }
}
