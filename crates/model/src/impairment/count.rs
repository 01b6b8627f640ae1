//! Laws of a number of packets. A law that other quantities have as well is a file in `law/distribution/` and a line in
//! the list below.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use crate::ModelError;
use crate::law::distribution::{Drawn, Quantity, Rule, Source, parts_of_choice};
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

    #[inline]
    fn draw(part: &CountLaw, draws: &mut Draws) -> f64 {
        // A part has no state.
        part.clone().next(draws)
    }

    parts_of_choice!(Count);
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
    Count("packets");
    /// A running law of a number of packets, not rounded.
    CountLaw: next(&mut) -> f64;
    all of Packets
}
