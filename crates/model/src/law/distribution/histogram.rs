//! A histogram: ranges with weights.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_laws::{Draws, open_unit_interval};

use super::{Distribution, Moments, Prepared, Quantity, Source, as_text, check_quantity, list};
use crate::ModelError;
use crate::law::refuse;

const FORM: &str = "MIN..MAX:WEIGHT, …";

/// A histogram: ranges with their relative weights, uniform within each.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram<Q: Quantity> {
    bins: Vec<(Bin<Q>, f64)>,
    prepared: Prepared<Bins>,
}

/// A range of a histogram.
#[derive(Debug, Clone, PartialEq)]
struct Bin<Q> {
    min: Q,
    max: Q,
}

impl<Q: Quantity> FromStr for Bin<Q> {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "range", given: text.into(), accepted: FORM };
        let (min, max) = text.split_once("..").ok_or_else(bad)?;
        Ok(Bin { min: min.parse()?, max: max.parse()? })
    }
}

impl<Q: Quantity> fmt::Display for Bin<Q> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}..{}", self.min, self.max)
    }
}

as_text!(
    Histogram,
    "Ranges in rising order with their relative weights, as MIN..MAX:WEIGHT, …; 1 to 1000.",
    Q::example("64..576:3, 576..1472:1", "10ms..20ms:9, 20ms..80ms:1")
);

impl<Q: Quantity> FromStr for Histogram<Q> {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        Ok(Histogram { bins: list::read(text, FORM)?, prepared: Prepared::default() })
    }
}

impl<Q: Quantity> fmt::Display for Histogram<Q> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        list::write(f, &self.bins)
    }
}

impl<Q: Quantity> Distribution for Histogram<Q> {
    const SHORT_FORMS: &'static [&'static str] = &["histogram(MIN..MAX:WEIGHT, …)"];
    const IS_LIST: bool = true;
    const IS_CLAMPED: bool = false;
    type Quantity = Q;
    type Source = Bins;

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        list::check(at, &self.bins)?;
        let mut last = None;
        for (bin, _) in &self.bins {
            check_quantity(at, "", bin.max)?;
            if bin.min > bin.max || last.is_some_and(|last| bin.min < last) {
                return refuse(at, "", bin, "ranges in rising order that do not overlap");
            }
            last = Some(bin.max);
        }
        match last {
            Some(max) if max.value() > 0.0 => Ok(()),
            _ => refuse(at, "", self, "a value above 0"),
        }
    }

    fn source(&self) -> Bins {
        let mut sum = 0.0;
        let parts = self.bins.iter().zip(list::probabilities(&self.bins));
        let parts = parts.map(|((bin, _), probability)| {
            sum += probability;
            let (low, high) = (bin.min.value(), bin.max.value());
            Part { low, high, probability, until: sum }
        });
        Bins(parts.collect())
    }

    fn prepared(&self) -> &Prepared<Bins> {
        &self.prepared
    }
}

/// A range, its probability, and that of all ranges up to it.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    low: f64,
    high: f64,
    probability: f64,
    until: f64,
}

/// The first range for which the sum of the probabilities up to it is above *v*, and the place in it that is left of the sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins(Vec<Part>);

impl Source for Bins {
    #[inline]
    fn value(&self, _: u64, draws: &mut Draws) -> f64 {
        let p = open_unit_interval(draws.bits());
        // The last sum may be rounded below 1.
        let bin = self.0.partition_point(|part| part.until <= p).min(self.0.len() - 1);
        let Part { low, high, probability, until } = self.0[bin];
        let place = 1.0 - ((until - p) / probability).clamp(0.0, 1.0);
        low + place * (high - low)
    }

    fn moments(&self, _: f64, _: f64) -> Moments {
        Moments::of_ranges(self.0.iter().map(|part| (part.low, part.high, part.probability)))
    }
}
