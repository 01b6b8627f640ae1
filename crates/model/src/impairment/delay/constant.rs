//! The same delay for each packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{DelayMoments, DelayRule, check_span};
use crate::ModelError;
use crate::law::{Law, Running, Words};
use crate::units::Span;

/// The same delay for each packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, example = "20ms")]
pub struct Constant(pub Span);

impl Law for Constant {
    const SHORT_FORMS: &'static [&'static str] = &["T"];
    type Running = Fixed;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        let word = words.next()?;
        if word.contains("..") {
            return Ok(None);
        }
        let span = words.span(word)?;
        Ok(words.is_law_complete().then_some(Self(span)))
    }

    fn short(&self) -> Option<String> {
        Some(self.0.to_string())
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_span(at, "", self.0)
    }

    fn start(&self) -> Fixed {
        Fixed(self.0.0)
    }
}

/// It draws nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Fixed(u64);

impl Running for Fixed {
    type Outcome = u64;

    #[inline]
    fn next(&mut self, _: &mut Draws) -> u64 {
        self.0
    }
}

impl DelayRule for Constant {
    fn range(&self) -> [f64; 2] {
        [self.0.0 as f64; 2]
    }

    fn moments(&self) -> DelayMoments {
        DelayMoments::of(self.0.0 as f64, 0.0)
    }

    fn is_constant(&self) -> bool {
        true
    }
}
