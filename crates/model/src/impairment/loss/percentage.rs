//! Independent loss: each packet with the same probability.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Chance, Draws};

use super::{LossProcess, LossRule};
use crate::ModelError;
use crate::law::{Law, Running, Words, check_percentage};

/// Each packet is lost independently with this probability, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, title = "Random", example = 1)]
pub struct Percentage(pub f64);

impl Law for Percentage {
    const SHORT_FORMS: &'static [&'static str] = &["P%"];
    type Running = Chance;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        // netem's name of this law.
        words.took("random");
        let percentage = words.percent_if_number()?;
        Ok(percentage.filter(|_| words.is_law_complete()).map(Self))
    }

    fn short(&self) -> Option<String> {
        Some(format!("{}%", self.0))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_percentage(at, "", self.0)
    }

    fn start(&self) -> Chance {
        Chance::percent(self.0)
    }
}

/// Lost when draw 0 < *p*.
impl Running for Chance {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, draws: &mut Draws) -> bool {
        self.happens(draws.bits())
    }
}

impl LossRule for Percentage {
    fn is_stateless(&self) -> bool {
        true
    }

    fn process(&self) -> Option<LossProcess> {
        Some(LossProcess::independent(self.start().probability()))
    }
}
