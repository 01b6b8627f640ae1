//! Given values, one after another.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_laws::Draws;

use super::{Distribution, Moments, Prepared, Quantity, Source, as_text, check_quantity};
use crate::ModelError;
use crate::law::{refuse, split_list};

/// Maximum number of values.
const MAX_VALUES: usize = 10_000;

/// Given values in their order, repeatedly. Uses no draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Values<Q: Quantity> {
    values: Vec<Q>,
    prepared: Prepared<Sequence>,
}

as_text!(
    Values,
    "Values in their order, as VALUE, …; 1 to 10 000.",
    Q::example("64, 1400, 200", "1ms, 20ms, 5ms")
);

impl<Q: Quantity> FromStr for Values<Q> {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let values: Result<_, _> = split_list(text).map(str::parse).collect();
        Ok(Values { values: values?, prepared: Prepared::default() })
    }
}

impl<Q: Quantity> fmt::Display for Values<Q> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write(f, &self.values)
    }
}

/// Writes `VALUE, …`.
pub(super) fn write<Q: Quantity>(f: &mut fmt::Formatter, values: &[Q]) -> fmt::Result {
    for (n, value) in values.iter().enumerate() {
        let separator = if n == 0 { "" } else { ", " };
        write!(f, "{separator}{value}")?;
    }
    Ok(())
}

impl<Q: Quantity> Distribution for Values<Q> {
    const SHORT_FORMS: &'static [&'static str] = &["values(VALUE, …)"];
    const IS_LIST: bool = true;
    const IS_INDEPENDENT: bool = false;
    const IS_CLAMPED: bool = false;
    type Quantity = Q;
    type Source = Sequence;

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        if self.values.is_empty() || self.values.len() > MAX_VALUES {
            return refuse(at, "", format!("{} values", self.values.len()), "1 to 10000 values");
        }
        for value in &self.values {
            check_quantity(at, "", *value)?;
        }
        if self.values.iter().all(|value| value.value() <= 0.0) {
            return refuse(at, "", self, "a value above 0");
        }
        Ok(())
    }

    fn source(&self) -> Sequence {
        Sequence(self.values.iter().map(|value| value.value()).collect())
    }

    fn prepared(&self) -> &Prepared<Sequence> {
        &self.prepared
    }
}

/// Value index mod their number.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence(Vec<f64>);

impl Source for Sequence {
    #[inline]
    fn value(&self, index: u64, _: &mut Draws) -> f64 {
        self.0[(index % self.0.len() as u64) as usize]
    }

    fn moments(&self, _: f64, _: f64) -> Moments {
        let part = 1.0 / self.0.len() as f64;
        Moments::of_weighted(self.0.iter().map(|value| (*value, part)))
    }
}
