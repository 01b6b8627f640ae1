//! Errors of links and captures.

use std::io;

/// An error: the operation, its object and the reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {operation} {object}: {source}")]
    System {
        /// The operation, as a verb phrase.
        operation: &'static str,
        /// Its object, usually an interface.
        object: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The interface was removed; the link can't be used any more.
    #[error("interface {0} is gone")]
    Gone(String),
    /// A setting or fact of an interface could not be read or changed.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Net(#[from] weir_net::Error),
    /// An interface setting could not be guarded.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Guard(#[from] weir_net::namespace::Error),
    /// The kernel's clocks were read out of order.
    #[error("cannot relate the clocks: {0}")]
    Clock(#[from] weir_stats::StatsError),
    /// An invalid or unsupported argument; nothing was changed.
    #[error("cannot {operation} {object}: {reason}")]
    Refused {
        /// The requested operation, as a verb phrase.
        operation: &'static str,
        /// Its object.
        object: String,
        /// The reason, or the accepted values.
        reason: String,
    },
    /// A capture is invalid.
    #[error("{capture}, byte {at}: {reason}")]
    Capture {
        /// The capture's name.
        capture: String,
        /// Offset of the error, bytes.
        at: u64,
        /// What is invalid.
        reason: String,
    },
}

/// The result of a link's operations.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The object of the failed operation, usually an interface.
    #[must_use]
    pub fn object(&self) -> Option<&str> {
        match self {
            Error::System { object, .. } | Error::Refused { object, .. } | Error::Gone(object) => {
                Some(object)
            }
            #[cfg(target_os = "linux")]
            Error::Net(error) => error.object(),
            _ => None,
        }
    }

    pub(crate) fn system(
        operation: &'static str,
        object: impl Into<String>,
        source: io::Error,
    ) -> Self {
        Error::System { operation, object: object.into(), source }
    }

    /// `errno`, with the operation and the object.
    #[cfg(target_os = "linux")]
    pub(crate) fn last(operation: &'static str, object: impl Into<String>) -> Self {
        Self::system(operation, object, io::Error::last_os_error())
    }

    pub(crate) fn refused(
        operation: &'static str,
        object: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Error::Refused { operation, object: object.into(), reason: reason.into() }
    }

    /// The system's error number, if the error came from the system.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::System { source, .. } => source.raw_os_error(),
            #[cfg(target_os = "linux")]
            Error::Net(error) => error.raw_os_error(),
            _ => None,
        }
    }
}
