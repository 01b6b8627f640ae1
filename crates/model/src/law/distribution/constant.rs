//! The same value always.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{Distribution, Moments, Prepared, Quantity, Source, check_quantity};
use crate::ModelError;
use crate::law::Words;

/// The same value always.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent, bound = "Q: Quantity")]
#[schemars(inline, bound = "Q: Quantity", example = Q::example("300", "20ms"))]
pub struct Constant<Q: Quantity> {
    value: Q,
    #[serde(skip)]
    prepared: Prepared<Always>,
}

impl<Q: Quantity> Distribution for Constant<Q> {
    const SHORT_FORMS: &'static [&'static str] = &["VALUE"];
    const IS_CLAMPED: bool = false;
    type Quantity = Q;
    type Source = Always;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let word = words.next()?;
        if word.contains("..") || !word.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        let value = word.parse().map_err(|_| words.bad())?;
        Ok(Some(Self { value, prepared: Prepared::default() }))
    }

    fn short(&self) -> Option<String> {
        Some(self.value.to_string())
    }

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_quantity(at, "", self.value)
    }

    fn source(&self) -> Always {
        Always(self.value.value())
    }

    fn prepared(&self) -> &Prepared<Always> {
        &self.prepared
    }
}

/// Uses no draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Always(f64);

impl Source for Always {
    #[inline]
    fn value(&self, _: u64, _: &mut Draws) -> f64 {
        self.0
    }

    fn moments(&self, _: f64, _: f64) -> Moments {
        Moments { min: self.0, max: self.0, mean: self.0, deviation: 0.0 }
    }
}
