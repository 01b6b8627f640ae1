//! A discrete distribution: values with weights.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_laws::{Draws, WeightedChoice};

use super::{Distribution, Moments, Prepared, Quantity, Source, as_text, check_quantity, list};
use crate::ModelError;
use crate::law::refuse;

const FORM: &str = "VALUE:WEIGHT, …";

/// A discrete distribution: values with their relative weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Table<Q: Quantity> {
    entries: Vec<(Q, f64)>,
    prepared: Prepared<Entries>,
}

as_text!(
    Table,
    "Values with their relative weights, as VALUE:WEIGHT, …; 1 to 1000.",
    Q::example("64:7, 576:4, 1472:1", "1ms:9, 20ms:1")
);

impl<Q: Quantity> FromStr for Table<Q> {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        Ok(Table { entries: list::read(text, FORM)?, prepared: Prepared::default() })
    }
}

impl<Q: Quantity> fmt::Display for Table<Q> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        list::write(f, &self.entries)
    }
}

impl<Q: Quantity> Distribution for Table<Q> {
    const SHORT_FORMS: &'static [&'static str] = &["table(VALUE:WEIGHT, …)"];
    const IS_LIST: bool = true;
    const IS_CLAMPED: bool = false;
    type Quantity = Q;
    type Source = Entries;

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        list::check(at, &self.entries)?;
        for (value, _) in &self.entries {
            check_quantity(at, "", *value)?;
        }
        if self.entries.iter().all(|(value, _)| value.value() <= 0.0) {
            return refuse(at, "", self, "a value above 0");
        }
        Ok(())
    }

    fn source(&self) -> Entries {
        let probabilities = list::probabilities(&self.entries);
        Entries {
            values: self.entries.iter().map(|(value, _)| value.value()).collect(),
            choice: WeightedChoice::new(&probabilities),
            probabilities,
        }
    }

    fn prepared(&self) -> &Prepared<Entries> {
        &self.prepared
    }
}

/// The first value for which the sum of the weights so far is above draw 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Entries {
    values: Vec<f64>,
    probabilities: Vec<f64>,
    choice: WeightedChoice,
}

impl Source for Entries {
    #[inline]
    fn value(&self, _: u64, draws: &mut Draws) -> f64 {
        self.values[self.choice.index(draws.bits())]
    }

    fn moments(&self, _: f64, _: f64) -> Moments {
        let values = self.values.iter().copied();
        Moments::of_weighted(values.zip(self.probabilities.iter().copied()))
    }
}
