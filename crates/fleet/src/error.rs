//! Errors of the fleet.

use std::path::PathBuf;

use weir_model::Refusal;

/// An error of an agent or a controller.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server of NATS can't be reached, or refused the connection.
    #[error("NATS at {url}: {reason}")]
    Connection {
        /// Its address.
        url: String,
        /// Why.
        reason: String,
    },
    /// A request to NATS failed.
    #[error("{operation} {object}: {reason}")]
    Bus {
        /// What was tried.
        operation: &'static str,
        /// With what.
        object: String,
        /// Why it failed.
        reason: String,
    },
    /// A file.
    #[error("{operation} {}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// A value that is not accepted.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
}

impl Error {
    pub(crate) fn bus<E: std::fmt::Display>(
        operation: &'static str,
        object: impl Into<String>,
    ) -> impl FnOnce(E) -> Error {
        let object = object.into();
        move |error| Error::Bus { operation, object, reason: error.to_string() }
    }

    pub(crate) fn file(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { operation, path, source }
    }

    /// The error as data, with its exit code: 2 for values that are not accepted, 1 for files, 3 for NATS.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        match self {
            Error::Refused(refusal) => (**refusal).clone(),
            Error::File { source, .. } => Refusal::new("file", format!("{self}: {source}"), 1),
            Error::Connection { .. } | Error::Bus { .. } => {
                Refusal::new("nats", self.to_string(), 3)
            }
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::Refused(Box::new(refusal))
    }
}
