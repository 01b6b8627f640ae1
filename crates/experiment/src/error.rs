//! What can keep an experiment from being made: the operation, its object and the cause.

use std::io;

/// An experiment that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused a request for a socket, a setting or a fact.
    #[error(transparent)]
    Net(#[from] weir_net::Error),
    /// Sending, receiving or waiting failed on a socket that was open.
    #[error("{operation} {object}: {source}")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// On what.
        object: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The two hosts for the measurement could not be made.
    #[error(transparent)]
    Lab(#[from] weir_lab::Error),
    /// Stamps that cannot be joined with the monotonic clock.
    #[error(transparent)]
    Stats(#[from] weir_stats::StatsError),
    /// Packets were sent and none arrived.
    #[error("{operation} over {object}: nothing arrived")]
    Nothing {
        /// What was being done.
        operation: &'static str,
        /// Over which path.
        object: String,
    },
    /// The interface named by the user does not exist.
    #[error("interface {name}: no such interface; available: {known}")]
    NoInterface {
        /// The name given.
        name: String,
        /// Those that exist, separated by commas.
        known: String,
    },
}

/// Gives an [`io::Result`] its operation and object.
pub(crate) trait Context<T> {
    fn context(self, operation: &'static str, object: impl Into<String>) -> Result<T, Error>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, operation: &'static str, object: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::Io { operation, object: object.into(), source })
    }
}
