//! The commands of a running job.

use serde::{Deserialize, Serialize};
use weir_model::impairment::Impairment;

/// A line of standard input after the job's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Stop in order, as after SIGINT. A second one stops immediately.
    Stop,
    /// An emulator: put another configuration into force.
    Set {
        /// The whole configuration.
        impairment: Box<Impairment>,
    },
}
