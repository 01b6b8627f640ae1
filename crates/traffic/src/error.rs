//! What can go wrong with a running test, each with its object, and its exit code by contract.

use crate::Address;

/// An error of a test or of the server.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// Something given can't be run.
    #[error(transparent)]
    Plan(#[from] weir_model::ModelError),
    /// A value given can't be used.
    #[error("{field}: {given}; accepted: {accepted}")]
    Input {
        /// The field of the plan or of the job.
        field: &'static str,
        /// What was given.
        given: String,
        /// What is accepted.
        accepted: String,
    },
    /// A name did not resolve.
    #[error("{host}: no address found ({reason})")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        reason: String,
    },
    /// The control connection could not be made.
    #[error("{address}: control connection failed: {reason}")]
    Connect {
        /// Where to.
        address: Address,
        /// Why.
        reason: String,
    },
    /// The peer ended the test that it had accepted, and said why.
    #[error("{address} ended the test: {text}")]
    Closed {
        /// Who.
        address: Address,
        /// In words.
        text: String,
    },
    /// The peer said no.
    #[error("{address}: refused ({code}): {text}")]
    Refused {
        /// Who.
        address: Address,
        /// The stable word.
        code: String,
        /// In words.
        text: String,
    },
    /// The handshake with a key failed.
    #[error(
        "{address}: the key is not accepted, or the server has none (give the same key to both sides)"
    )]
    Key {
        /// Who.
        address: Address,
    },
    /// No UDP hello came back.
    #[error(
        "UDP {port} is blocked: TCP {address} answers, but no UDP hello came back within 2 s; open UDP {port} on the way, or test with TCP"
    )]
    UdpBlocked {
        /// The port.
        port: u16,
        /// The server.
        address: Address,
    },
    /// The peer went away.
    #[error("{address}: the peer was lost during {during}: {reason}")]
    Lost {
        /// Who.
        address: Address,
        /// During what.
        during: &'static str,
        /// How it showed.
        reason: String,
    },
    /// Bytes of the control connection were changed on the path.
    #[error(
        "{address}: during {during}, a control message was corrupted although its TCP checksum was valid"
    )]
    Damaged {
        /// The peer.
        address: Address,
        /// During what.
        during: &'static str,
    },
    /// The peer spoke something else.
    #[error("{address}: not understood: {reason}")]
    Protocol {
        /// Who.
        address: Address,
        /// What.
        reason: String,
    },
    /// A listening socket could not be had.
    #[error("listening on {address}: {reason}")]
    Listen {
        /// Where.
        address: Address,
        /// Why.
        reason: String,
    },
    /// A data flow could not be set up.
    #[error("flow {flow} ({name}): {reason}")]
    Flow {
        /// Number.
        flow: u32,
        /// Name.
        name: String,
        /// Why.
        reason: String,
    },
    /// This system has not what was asked for.
    #[error("{field} {given}: {reason}")]
    Unavailable {
        /// The field of the plan.
        field: &'static str,
        /// Its value.
        given: String,
        /// Why it is unavailable, and what is available.
        reason: String,
    },
    /// A file or socket path that was named can't be used.
    #[error("{field} {}: {source}", path.display())]
    File {
        /// The field of the job that names it.
        field: &'static str,
        /// Where.
        path: std::path::PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// The system refused something.
    #[error("{operation}: {source}")]
    System {
        /// What was tried.
        operation: String,
        /// The system's words.
        source: std::io::Error,
    },
    /// The network layer refused something.
    #[error(transparent)]
    Net(#[from] weir_net::Error),
    /// Stopped by the user or a signal.
    #[error("{0}")]
    Stopped(&'static str, i32),
}

/// The exit code for a path that was named and can't be used, the same wherever one is: 4 where the system does not
/// permit it or has no room, else 2, since another path would do.
pub fn file_exit_code(kind: std::io::ErrorKind) -> i32 {
    use std::io::ErrorKind::{
        FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    match kind {
        PermissionDenied | StorageFull | ReadOnlyFilesystem | QuotaExceeded | FileTooLarge => 4,
        _ => 2,
    }
}

impl TrafficError {
    /// The exit code of the program by contract.
    pub fn exit_code(&self) -> i32 {
        match self {
            TrafficError::Plan(_) | TrafficError::Input { .. } => 2,
            TrafficError::Resolve { .. }
            | TrafficError::Connect { .. }
            | TrafficError::Closed { .. }
            | TrafficError::Refused { .. }
            | TrafficError::Key { .. }
            | TrafficError::UdpBlocked { .. }
            | TrafficError::Lost { .. }
            | TrafficError::Damaged { .. }
            | TrafficError::Protocol { .. }
            | TrafficError::Flow { .. } => 3,
            TrafficError::File { source, .. } => file_exit_code(source.kind()),
            TrafficError::Listen { .. } | TrafficError::Net(_) => 4,
            TrafficError::System { .. } | TrafficError::Unavailable { .. } => 4,
            TrafficError::Stopped(_, code) => *code,
        }
    }

    /// A stable name of the kind of error.
    pub fn code(&self) -> String {
        let code = match self {
            TrafficError::Plan(_) => "value",
            TrafficError::Input { .. } => "usage",
            TrafficError::Resolve { .. } => "resolve",
            TrafficError::Connect { .. } => "connect",
            TrafficError::Closed { .. } => "peer-closed",
            // With the peer's own code.
            TrafficError::Refused { code, .. } => return format!("peer-{code}"),
            TrafficError::Key { .. } => "key",
            TrafficError::UdpBlocked { .. } => "udp-blocked",
            TrafficError::Lost { .. } => "peer-lost",
            TrafficError::Damaged { .. } => "control-damaged",
            TrafficError::Protocol { .. } => "protocol",
            TrafficError::Listen { .. } => "listen",
            TrafficError::Flow { .. } => "flow",
            TrafficError::Unavailable { .. } => "not-available",
            TrafficError::File { .. } => "file",
            TrafficError::System { .. } | TrafficError::Net(_) => "system",
            TrafficError::Stopped(_, 130) => "interrupted",
            TrafficError::Stopped(..) => "terminated",
        };
        code.into()
    }

    /// What the error is about: a name, an address or a flow.
    pub fn given(&self) -> Option<String> {
        match self {
            TrafficError::Resolve { host, .. } => Some(host.clone()),
            TrafficError::Connect { address, .. }
            | TrafficError::Closed { address, .. }
            | TrafficError::Refused { address, .. }
            | TrafficError::Key { address }
            | TrafficError::UdpBlocked { address, .. }
            | TrafficError::Lost { address, .. }
            | TrafficError::Damaged { address, .. }
            | TrafficError::Protocol { address, .. }
            | TrafficError::Listen { address, .. } => Some(address.to_string()),
            TrafficError::Flow { name, .. } => Some(name.clone()),
            TrafficError::Unavailable { given, .. } | TrafficError::Input { given, .. } => {
                Some(given.clone())
            }
            TrafficError::File { path, .. } => Some(path.display().to_string()),
            _ => None,
        }
    }

    pub(crate) fn system(operation: impl Into<String>, source: std::io::Error) -> Self {
        TrafficError::System { operation: operation.into(), source }
    }
}
