//! What can go wrong with a lab, and to which exit code of the contract it belongs.

use std::io;
use std::path::PathBuf;

/// Where the blame for an [`Error`] lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// Bad input: the caller asked for something that cannot be (exit code 2).
    Usage,
    /// Not permitted or not available on this system (exit code 4).
    NotPermitted,
    /// Anything else (exit code 70).
    Internal,
}

/// An operation on a lab that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that is not accepted.
    #[error("{field}: {given}; accepted: {accepted}")]
    Invalid {
        /// The field: `name`, `hosts`, `mtu_bytes` or `transmit_queue_packets`.
        field: &'static str,
        /// What was given.
        given: String,
        /// What is accepted.
        accepted: String,
    },
    /// The name is taken by a running lab.
    #[error("a lab named {name} exists already (weir lab down --lab {name} removes it)")]
    Exists {
        /// Its name.
        name: String,
    },
    /// No running lab has the name.
    #[error("no lab named {name}{}", .known.as_ref().map_or_else(String::new, |k| format!(" (up: {k})")))]
    NoSuchLab {
        /// The name asked for.
        name: String,
        /// Names of those that are up, if any.
        known: Option<String>,
    },
    /// The lab has no host of the name.
    #[error("no host `{host}` in the lab (hosts: {known})")]
    NoSuchHost {
        /// The name asked for.
        host: String,
        /// The names there are.
        known: String,
    },
    /// A namespace, interface setting or process.
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
    /// A file of the registry of running labs.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Registry {
        /// What was attempted.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system answered.
        #[source]
        source: io::Error,
    },
    /// A registry directory or entry that someone else could have made or changed.
    #[error("{} is not safe to use: {why}", .path.display())]
    Unsafe {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// An entry of the registry that cannot be believed.
    #[error("lab entry is damaged: {why}")]
    Damaged {
        /// Which rule it breaks.
        why: String,
    },
    /// A program that cannot be started inside a host.
    #[error("cannot run {program}: {source}")]
    Program {
        /// As it was given.
        program: String,
        /// What the system answered.
        #[source]
        source: io::Error,
    },
    /// The holder process failed or went away.
    #[error("{text}")]
    Holder {
        /// Class of its own error.
        class: ErrorClass,
        /// Its message.
        text: String,
    },
}

impl Error {
    /// The class of the error, from which the exit code follows.
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
            Self::Namespace(error) if error.is_not_permitted() => ErrorClass::NotPermitted,
            Self::Program { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                ErrorClass::Usage
            }
            Self::Program { source, .. }
            | Self::Netlink { source, .. }
            | Self::Registry { source, .. } => of_io(source),
            Self::Unsafe { .. } => ErrorClass::NotPermitted,
            Self::Holder { class, .. } => *class,
            Self::Namespace(_) | Self::Damaged { .. } => ErrorClass::Internal,
        }
    }
}
