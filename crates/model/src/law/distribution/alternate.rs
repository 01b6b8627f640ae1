//! Two values in turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{Distribution, Moments, Prepared, Quantity, Source, check_quantity};
use crate::ModelError;
use crate::law::refuse;

/// Two values in turn. Uses no draws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "Q: Quantity")]
#[schemars(bound = "Q: Quantity")]
pub struct Alternate<Q: Quantity> {
    /// The first value.
    #[schemars(example = Q::example("64", "1ms"))]
    pub first: Q,
    /// The second value.
    #[schemars(example = Q::example("1400", "20ms"))]
    pub second: Q,
    /// How often the first occurs before the second, 1 to 1 000 000. Absent: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub first_count: u32,
    /// How often the second occurs before the first, 1 to 1 000 000. Absent: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub second_count: u32,
    #[serde(skip)]
    prepared: Prepared<Turns>,
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

impl<Q: Quantity> Distribution for Alternate<Q> {
    const IS_INDEPENDENT: bool = false;
    const IS_CLAMPED: bool = false;
    type Quantity = Q;
    type Source = Turns;

    fn check_source(&self, at: &str) -> Result<(), ModelError> {
        check_quantity(at, "first", self.first)?;
        check_quantity(at, "second", self.second)?;
        for (field, count) in
            [("first_count", self.first_count), ("second_count", self.second_count)]
        {
            if !(1..=1_000_000).contains(&count) {
                return refuse(at, field, count, "1 to 1000000");
            }
        }
        if self.first.value() + self.second.value() <= 0.0 {
            return refuse(at, "second", self.second, "above 0, as the first is 0");
        }
        Ok(())
    }

    fn source(&self) -> Turns {
        Turns {
            values: [self.first.value(), self.second.value()],
            first: self.first_count.into(),
            all: u64::from(self.first_count) + u64::from(self.second_count),
        }
    }

    fn prepared(&self) -> &Prepared<Turns> {
        &self.prepared
    }
}

/// The second value where index mod (both counts) is not below the first count.
#[derive(Clone, Debug, PartialEq)]
pub struct Turns {
    values: [f64; 2],
    first: u64,
    all: u64,
}

impl Source for Turns {
    #[inline]
    fn value(&self, index: u64, _: &mut Draws) -> f64 {
        self.values[usize::from(index % self.all >= self.first)]
    }

    fn moments(&self, _: f64, _: f64) -> Moments {
        let first = self.first as f64 / self.all as f64;
        Moments::of_weighted(self.values.into_iter().zip([first, 1.0 - first]))
    }
}
