//! Regular loss: every *n*-th packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::{LossProcess, LossRule};
use crate::ModelError;
use crate::law::{Law, Running, Words, refuse};

/// Every n-th packet is lost, starting with the n-th.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, title = "Every n-th packet", example = 100)]
pub struct EveryNth(pub u64);

impl Law for EveryNth {
    const SHORT_FORMS: &'static [&'static str] = &["every N"];
    type Running = Counting;

    fn read_short(words: &mut Words) -> Result<Option<Self>, ModelError> {
        if !words.took("every") {
            return Ok(None);
        }
        words.value().map(Self).map(Some)
    }

    fn short(&self) -> Option<String> {
        Some(format!("every {}", self.0))
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        if self.0 == 0 {
            return refuse(at, "", 0, "1 or more");
        }
        Ok(())
    }

    fn start(&self) -> Counting {
        Counting { n: self.0, passed: 0 }
    }
}

/// It draws nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Counting {
    n: u64,
    /// Packets since the last loss.
    passed: u64,
}

impl Running for Counting {
    type Outcome = bool;

    #[inline]
    fn next(&mut self, _: &mut Draws) -> bool {
        self.passed += 1;
        let lost = self.passed >= self.n;
        if lost {
            self.passed = 0;
        }
        lost
    }
}

impl LossRule for EveryNth {
    fn process(&self) -> Option<LossProcess> {
        Some(LossProcess::Periodic(self.0))
    }
}
