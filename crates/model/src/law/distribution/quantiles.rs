//! An inverse distribution function as a table.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_laws::{Draws, open_unit_interval};

use super::{Distribution, Moments, Prepared, Quantity, Source, as_text, check_quantity};
use crate::ModelError;
use crate::law::{refuse, split_list};

/// Maximum number of values.
const MAX_VALUES: usize = 10_000;

/// An inverse distribution function: values at equal steps of probability, linear between them. The first is the minimum,
/// the last the maximum.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantiles<Q: Quantity> {
    values: Vec<Q>,
    prepared: Prepared<Inverted>,
}

as_text!(
    Quantiles,
    "An inverse distribution function: values in rising order at equal steps of probability, from the minimum to the maximum, as VALUE, …; 2 to 10 000.",
    Q::example("64, 200, 576, 1472", "10ms, 12ms, 15ms, 40ms")
);

impl<Q: Quantity> FromStr for Quantiles<Q> {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let values: Result<_, _> = split_list(text).map(str::parse).collect();
        Ok(Quantiles { values: values?, prepared: Prepared::default() })
    }
}

impl<Q: Quantity> fmt::Display for Quantiles<Q> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        super::values::write(f, &self.values)
    }
}

impl<Q: Quantity> Distribution for Quantiles<Q> {
    const SHORT_FORMS: &'static [&'static str] = &["quantiles(VALUE, …)"];
    const IS_LIST: bool = true;
    const IS_CLAMPED: bool = false;
    type Quantity = Q;
    type Source = Inverted;

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        if !(2..=MAX_VALUES).contains(&self.values.len()) {
            return refuse(at, "", format!("{} values", self.values.len()), "2 to 10000 values");
        }
        for pair in self.values.windows(2) {
            check_quantity(at, "", pair[1])?;
            if pair[0] > pair[1] {
                return refuse(at, "", pair[1], "values in rising order");
            }
        }
        match self.values.last() {
            Some(max) if max.value() > 0.0 => Ok(()),
            _ => refuse(at, "", self, "a value above 0"),
        }
    }

    fn source(&self) -> Inverted {
        Inverted(self.values.iter().map(|value| value.value()).collect())
    }

    fn prepared(&self) -> &Prepared<Inverted> {
        &self.prepared
    }
}

/// With n values, at position *v*·(n − 1), linear between the values on either side.
#[derive(Clone, Debug, PartialEq)]
pub struct Inverted(Vec<f64>);

impl Source for Inverted {
    #[inline]
    fn value(&self, _: u64, draws: &mut Draws) -> f64 {
        let position = open_unit_interval(draws.bits()) * (self.0.len() - 1) as f64;
        let index = (position as usize).min(self.0.len() - 2);
        let (low, high) = (self.0[index], self.0[index + 1]);
        low + (position - index as f64) * (high - low)
    }

    fn moments(&self, _: f64, _: f64) -> Moments {
        let part = 1.0 / (self.0.len() - 1) as f64;
        Moments::of_ranges(self.0.windows(2).map(|pair| (pair[0], pair[1], part)))
    }
}
