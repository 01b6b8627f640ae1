//! Why an impairment can't be run.

use weir_model::ModelError;

/// An error of making an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImpairError {
    /// The configuration does not hold.
    #[error("impairment: {0}")]
    Config(#[from] ModelError),
    /// Two flows would draw the same random numbers.
    #[error(
        "impairment: flows {first:?} and {second:?} have the same hash {hash:#010x} and would draw the same numbers; rename one"
    )]
    NameCollision {
        /// One of them.
        first: String,
        /// The other.
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
        /// What the tables would take.
        bytes: u64,
        /// What they may take.
        most: u64,
    },
    /// Configurations brought ever new names.
    #[error("impairment: more than {most} flow names since the start; restart the emulator")]
    TooManyNames {
        /// What is possible.
        most: usize,
    },
}
