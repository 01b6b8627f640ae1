//! Errors of labs, and the exit code of each.

use std::io;
use std::path::PathBuf;

/// The class of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// Invalid input (exit code 2).
    Usage,
    /// Not permitted or not available on this system (exit code 4).
    NotPermitted,
    /// Anything else (exit code 70).
    Internal,
}

/// A failed operation on a lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that is not accepted.
    #[error("{field}: {given}; accepted: {accepted}")]
    Invalid {
        /// The field: `name`, `hosts`, `mtu_bytes`, `transmit_queue_packets` or `sysctls`; or the variable
        /// `WEIR_RUNTIME_DIR`.
        field: &'static str,
        /// What was given.
        given: String,
        /// What is accepted.
        accepted: String,
    },
    /// A running lab has this name.
    #[error("a lab named {name} exists already")]
    Exists {
        /// Its name.
        name: String,
    },
    /// No running lab has the name.
    #[error("no lab named {name}{}", .known.as_ref().map_or_else(String::new, |k| format!(" (up: {k})")))]
    NoSuchLab {
        /// The requested name.
        name: String,
        /// Names of running labs, if any.
        known: Option<String>,
    },
    /// The lab has no such host.
    #[error("no host `{host}` in the lab (hosts: {known})")]
    NoSuchHost {
        /// The requested name.
        host: String,
        /// The existing names.
        known: String,
    },
    /// This system has no network namespaces.
    #[error("labs are not available on this system")]
    Unavailable,
    /// A namespace, interface setting or process.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Namespace(#[from] weir_net::namespace::Error),
    /// A request to the kernel's routing socket.
    #[error("cannot {operation} {object}: {source}")]
    Netlink {
        /// What was attempted.
        operation: &'static str,
        /// Interface or address.
        object: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A kernel setting of a host.
    #[error("cannot set {name}: {source}")]
    Sysctl {
        /// Its name.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file of the registry of running labs.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Registry {
        /// What was attempted.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// An entry of the registry that cannot be believed.
    #[error("lab entry is damaged: {why}")]
    Damaged {
        /// The rule that it violates.
        why: String,
    },
    /// A program that can't be started in a host.
    #[error("cannot run {program}: {source}")]
    Program {
        /// As it was given.
        program: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The holder process failed or disappeared.
    #[error("{text}")]
    Holder {
        /// Class of its own error.
        class: ErrorClass,
        /// Its message.
        text: String,
    },
}

impl Error {
    /// The class of the error, which determines the exit code.
    pub fn class(&self) -> ErrorClass {
        let of_io = |error: &io::Error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::EOPNOTSUPP | libc::EROFS) => {
                ErrorClass::NotPermitted
            }
            _ => ErrorClass::Internal,
        };
        match self {
            Self::Invalid { .. }
            | Self::Exists { .. }
            | Self::NoSuchLab { .. }
            | Self::NoSuchHost { .. } => ErrorClass::Usage,
            #[cfg(target_os = "linux")]
            Self::Namespace(error) if error.is_not_permitted() => ErrorClass::NotPermitted,
            #[cfg(target_os = "linux")]
            Self::Namespace(_) => ErrorClass::Internal,
            Self::Program { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ErrorClass::Usage
            }
            Self::Program { source, .. }
            | Self::Netlink { source, .. }
            | Self::Sysctl { source, .. }
            | Self::Registry { source, .. } => of_io(source),
            Self::Unavailable => ErrorClass::NotPermitted,
            Self::Holder { class, .. } => *class,
            Self::Damaged { .. } => ErrorClass::Internal,
        }
    }
}
