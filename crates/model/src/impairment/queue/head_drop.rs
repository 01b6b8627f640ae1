//! Drop-head: a packet that finds the queue full takes the place of the oldest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::law::Law;

/// The oldest packets are dropped to make room for one that finds the queue full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeadDrop {}

impl Law for HeadDrop {
    type Running = ();

    fn check(&self, _: &str) -> Result<(), ModelError> {
        Ok(())
    }

    fn start(&self) {}
}
