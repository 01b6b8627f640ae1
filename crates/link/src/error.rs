//! What can go wrong with a link.

use std::io;

/// What went wrong: the operation, its object, the reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error("cannot {operation} {object}: {source}")]
    System {
        /// What was attempted.
        operation: &'static str,
        /// What it was attempted on: an interface, mostly.
        object: String,
        /// What the system answered.
        #[source]
        source: io::Error,
    },
    /// The interface is no longer there; the link is of no more use.
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
    /// An argument that cannot be served; nothing was done.
    #[error("cannot {operation} {object}: {reason}")]
    Refused {
        /// What was asked.
        operation: &'static str,
        /// What it was asked of.
        object: String,
        /// Why not, or what is accepted.
        reason: String,
    },
    /// A capture's bytes are not what its format says.
    #[error("{capture}, byte {at}: {reason}")]
    Capture {
        /// The capture's name.
        capture: String,
        /// Where in it.
        at: u64,
        /// What is wrong.
        reason: String,
    },
}

/// The result of a link's operations.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What it is about: an interface, mostly.
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

    /// The system's error number, when the error came from the system.
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
