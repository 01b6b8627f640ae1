//! Errors of requests to the operating system: the operation, its object and the cause.
//!
//! Calls of the data path (send, receive, wait) return plain [`std::io::Error`]: they are matched on, not printed.

use std::io;

/// A refused or failed request to the operating system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call, or the reading of a kernel file, failed.
    #[error("{operation} {object}: {source}")]
    System {
        /// The operation, as a verb phrase: `bind`, `set SO_RCVBUF on`, `read`.
        operation: &'static str,
        /// Its object: an address, a path, an interface.
        object: String,
        /// The system's error.
        source: io::Error,
    },
    /// No interface has this name.
    #[cfg(target_os = "linux")]
    #[error("there is no interface {name:?}")]
    NoInterface {
        /// The given name.
        name: String,
    },
    /// This platform does not support the operation.
    #[error("{operation} {object}: not available on this system")]
    Unsupported {
        /// The operation.
        operation: &'static str,
        /// Its object.
        object: String,
    },
    /// The system returned malformed data.
    #[error("{operation} {object}: {reason}")]
    Malformed {
        /// The operation.
        operation: &'static str,
        /// Its object.
        object: String,
        /// What is malformed.
        reason: &'static str,
    },
    /// An argument that the call does not accept; nothing was done.
    #[error("{operation} {object}: {reason}")]
    Refused {
        /// The operation.
        operation: &'static str,
        /// Its object, with the given value.
        object: String,
        /// What is accepted.
        reason: &'static str,
    },
}

/// The result of a request to the operating system.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The object of the operation: an address, a path, an interface.
    #[must_use]
    pub fn object(&self) -> Option<&str> {
        match self {
            Error::System { object, .. }
            | Error::Unsupported { object, .. }
            | Error::Malformed { object, .. }
            | Error::Refused { object, .. } => Some(object),
            #[cfg(target_os = "linux")]
            Error::NoInterface { name } => Some(name),
        }
    }

    /// An error of the system, with the operation and the object.
    pub fn system(operation: &'static str, object: impl Into<String>, source: io::Error) -> Self {
        Error::System { operation, object: object.into(), source }
    }

    /// The last system error of this thread (`errno`), with the operation and the object.
    #[cfg(target_os = "linux")]
    pub(crate) fn last(operation: &'static str, object: impl Into<String>) -> Self {
        Error::system(operation, object, io::Error::last_os_error())
    }

    /// Whether the host has no addresses of an IP version: it is not compiled in (`EAFNOSUPPORT`) or disabled
    /// (`EADDRNOTAVAIL`).
    #[must_use]
    pub fn lacks_family(&self) -> bool {
        let Error::System { source, .. } = self else { return false };
        let number = source.raw_os_error();
        // The standard library has no kind for the first.
        #[cfg(unix)]
        let is_unsupported = number == Some(libc::EAFNOSUPPORT);
        #[cfg(not(unix))]
        let is_unsupported = number == Some(10_047);
        is_unsupported || source.kind() == io::ErrorKind::AddrNotAvailable
    }

    /// The system's error number, when the error came from the system, or the one that it has for the error.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Error::System { source, .. } => source.raw_os_error(),
            #[cfg(target_os = "linux")]
            Error::NoInterface { .. } => Some(libc::ENODEV),
            _ => None,
        }
    }
}

/// Adds an operation and an object to an [`io::Result`].
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) trait Context<T> {
    fn context(self, operation: &'static str, object: impl Into<String>) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, operation: &'static str, object: impl Into<String>) -> Result<T> {
        self.map_err(|source| Error::system(operation, object, source))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_two_errors_mean_that_an_ip_version_is_missing() {
        for (number, expected) in [
            (libc::EAFNOSUPPORT, true),
            (libc::EADDRNOTAVAIL, true),
            (libc::EADDRINUSE, false),
            (libc::EACCES, false),
            (libc::EMFILE, false),
        ] {
            let error = Error::system("bind", "[::]:1", io::Error::from_raw_os_error(number));
            assert_eq!(error.lacks_family(), expected, "{number}");
        }
    }
}
