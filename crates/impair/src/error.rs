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
}
