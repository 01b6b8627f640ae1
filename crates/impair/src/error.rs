//! Errors of engines.

use weir_model::ModelError;

/// An error of configuring an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImpairError {
    /// The configuration is invalid.
    #[error("impairment: {0}")]
    Config(#[from] ModelError),
    /// Two flows would draw the same random numbers.
    #[error(
        "impairment: flows {first:?} and {second:?} have the same hash {hash:#010x} and would draw the same numbers; rename one"
    )]
    NameCollision {
        /// Name of one flow.
        first: String,
        /// Name of the other.
        second: String,
        /// The hash of both names.
        hash: u32,
    },
    /// The tables that classify packets would take too much memory.
    #[error(
        "impairment: {flows} flows with these filters need classification tables of {bytes} \
        bytes, the maximum is {most}; use fewer flows, or fewer different values in their \
        filters"
    )]
    TablesTooLarge {
        /// Flows with a filter in the direction.
        flows: usize,
        /// Size of the tables, bytes.
        bytes: u64,
        /// Maximum size, bytes.
        most: u64,
    },
    /// The configurations since the start have too many different flow names.
    #[error("impairment: more than {most} flow names since the start; restart the emulator")]
    TooManyNames {
        /// Maximum number of names.
        most: usize,
    },
}
