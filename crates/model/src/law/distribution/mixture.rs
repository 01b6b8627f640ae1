//! A mixture of laws.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_laws::{Draws, WeightedChoice};

use super::{Clamp, Distribution, Moments, Prepared, Quantity, Source, as_text, list};
use crate::ModelError;
use crate::law::refuse;

const FORM: &str = "LAW:WEIGHT, …";

/// A mixture: each value is of one of several laws, chosen by their relative weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture<Q: Quantity> {
    parts: Vec<(Q::Choice, f64)>,
    prepared: Prepared<Parts<Q>>,
}

as_text!(
    Mixture,
    "Laws with their relative weights, as LAW:WEIGHT, …; 1 to 1000.",
    Q::example("normal(mean=300, deviation=50):3, 1472:1", "exponential(mean=4ms):3, 10ms:2")
);

impl<Q: Quantity> FromStr for Mixture<Q> {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        Ok(Mixture { parts: list::read(text, FORM)?, prepared: Prepared::default() })
    }
}

impl<Q: Quantity> fmt::Display for Mixture<Q> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        list::write(f, &self.parts)
    }
}

impl<Q: Quantity> Distribution for Mixture<Q> {
    const SHORT_FORMS: &'static [&'static str] = &["mixture(LAW:WEIGHT, …)"];
    const IS_LIST: bool = true;
    const IS_ONE_DRAW: bool = false;
    const IS_CLAMPED: bool = false;
    type Quantity = Q;
    type Source = Parts<Q>;

    fn has_default_maximum(&self) -> bool {
        self.parts.iter().any(|(law, _)| Q::has_default_maximum(law))
    }

    fn has_default_minimum(&self) -> bool {
        self.parts.iter().any(|(law, _)| Q::has_default_minimum(law))
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        list::check(at, &self.parts)?;
        match self.parts.iter().find(|(law, _)| !Q::may_be_part(law)) {
            Some((law, _)) => refuse(
                at,
                "",
                law,
                "laws with a mean of their own whose values do not follow from those before",
            ),
            None => Ok(()),
        }
    }

    fn tables(&self) -> usize {
        self.parts.iter().map(|(law, _)| Q::tables(law)).sum()
    }

    fn source(&self) -> Parts<Q> {
        let probabilities = list::probabilities(&self.parts);
        let moments = self.parts.iter().filter_map(|(law, _)| Q::part_moments(law));
        Parts {
            laws: self.parts.iter().map(|(law, _)| Q::start(law)).collect(),
            choice: WeightedChoice::new(&probabilities),
            moments: moments.zip(probabilities).collect(),
        }
    }

    fn clamp(&self) -> Clamp {
        Clamp::outermost(self.parts.iter().map(|(law, _)| Q::part_clamp(law)))
    }

    fn prepared(&self) -> &Prepared<Parts<Q>> {
        &self.prepared
    }
}

/// Draw 0 chooses the law, as in a table; the following draws are its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<Q: Quantity> {
    laws: Vec<Q::Running>,
    choice: WeightedChoice,
    moments: Vec<(Moments, f64)>,
}

impl<Q: Quantity> Source for Parts<Q> {
    #[inline]
    fn value(&self, _: u64, draws: &mut Draws) -> f64 {
        Q::draw(&self.laws[self.choice.index(draws.bits())], draws)
    }

    fn moments(&self, _: f64, _: f64) -> Moments {
        let parts = self.moments.iter();
        let mean: f64 = parts.clone().map(|(of, p)| p * of.mean).sum();
        let variance =
            |of: &Moments| of.deviation * of.deviation + (of.mean - mean) * (of.mean - mean);
        let deviation = parts.clone().map(|(of, p)| p * variance(of)).sum::<f64>().sqrt();
        let min = parts.clone().map(|(of, _)| of.min).fold(f64::INFINITY, f64::min);
        Moments { min, max: parts.map(|(of, _)| of.max).fold(0.0, f64::max), mean, deviation }
    }
}
