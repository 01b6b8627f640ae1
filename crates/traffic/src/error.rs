//! Errors of a running test or server, each with its subject and exit code.

use crate::Address;

/// An error of a test or of the server.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The plan can't be run.
    #[error(transparent)]
    Plan(#[from] weir_model::ModelError),
    /// A given value can't be used.
    #[error("{field}: {given}; accepted: {accepted}")]
    Input {
        /// The field of the plan or of the job.
        field: &'static str,
        /// The given value.
        given: String,
        /// What is accepted.
        accepted: String,
    },
    /// A name did not resolve.
    #[error("{host}: no address found ({reason})")]
    Resolve {
        /// The name.
        host: String,
        /// The reason.
        reason: String,
    },
    /// A connection could not be established.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// The address.
        address: Address,
        /// The reason.
        reason: String,
    },
    /// The peer ended a test that it had accepted, with a reason.
    #[error("{address} ended the test: {text}")]
    Closed {
        /// The peer.
        address: Address,
        /// The reason.
        text: String,
    },
    /// The peer refused.
    #[error("{address}: refused ({code}): {text}")]
    Refused {
        /// The peer.
        address: Address,
        /// The stable code.
        code: String,
        /// The reason.
        text: String,
    },
    /// The handshake with a key failed.
    #[error(
        "{address}: the key is not accepted, or the server has none (give the same key to both sides)"
    )]
    Key {
        /// The peer.
        address: Address,
    },
    /// No UDP hello came back.
    #[error(
        "UDP {port} is blocked: TCP {address} answers, but no UDP hello came back within 2 s; open UDP {port} on the path, or test with TCP"
    )]
    UdpBlocked {
        /// The port.
        port: u16,
        /// The server.
        address: Address,
    },
    /// The peer became unreachable.
    #[error("{address}: the peer was lost during {during}: {reason}")]
    Lost {
        /// The peer.
        address: Address,
        /// The phase of the test.
        during: &'static str,
        /// The symptom.
        reason: String,
    },
    /// Bytes of the control connection were changed on the path.
    #[error(
        "{address}: during {during}, a control message was corrupted although its TCP checksum was valid"
    )]
    Damaged {
        /// The peer.
        address: Address,
        /// The phase of the test.
        during: &'static str,
    },
    /// The peer sent an unexpected message.
    #[error("{address}: not understood: {reason}")]
    Protocol {
        /// The peer.
        address: Address,
        /// What was unexpected.
        reason: String,
    },
    /// The server is that of another tool.
    #[error("{address}: this is a server of {tool}; use --peer {tool}")]
    OtherTool {
        /// The address.
        address: Address,
        /// The tool.
        tool: &'static str,
    },
    /// A listening socket could not be opened.
    #[error("listening on {address}: {reason}")]
    Listen {
        /// The address.
        address: Address,
        /// The reason.
        reason: String,
    },
    /// A data flow failed.
    #[error("flow {flow} ({name}): {reason}")]
    Flow {
        /// Its code: `flow`, `no-route` if there was no route to the receiver, or `frames-blocked` if no frame came back.
        code: &'static str,
        /// Number.
        flow: u32,
        /// Name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// This system lacks a requested feature.
    #[error("{field} {given}: {reason}")]
    Unavailable {
        /// The field of the plan.
        field: &'static str,
        /// Its value.
        given: String,
        /// Why it is unavailable, and what is available.
        reason: String,
    },
    /// A plan needs more local ports at the same time than the system has.
    #[error("{field}: {given}; accepted: {accepted}")]
    AddressSpace {
        /// The field of the plan.
        field: &'static str,
        /// The connections that it needs.
        given: String,
        /// The connections for which there are ports.
        accepted: String,
    },
    /// A given file or socket path can't be used.
    #[error("{field} {}: {source}", path.display())]
    File {
        /// The field of the job that names it.
        field: &'static str,
        /// The path.
        path: std::path::PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system refused something.
    #[error("{operation}: {source}")]
    System {
        /// The failed operation.
        operation: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The network layer refused something.
    #[error(transparent)]
    Net(#[from] weir_net::Error),
    /// Stopped by the user or a signal.
    #[error("{0}")]
    Stopped(&'static str, i32),
}

/// The exit code for a given path that can't be used: 4 if the system does not permit it or has no room, else 2,
/// since another path would do.
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
    /// The documented exit code of the program.
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
            | TrafficError::OtherTool { .. }
            | TrafficError::Flow { .. } => 3,
            TrafficError::File { source, .. } => file_exit_code(source.kind()),
            TrafficError::Listen { .. } | TrafficError::Net(_) => 4,
            TrafficError::System { .. }
            | TrafficError::Unavailable { .. }
            | TrafficError::AddressSpace { .. } => 4,
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
            TrafficError::OtherTool { .. } => "other-tool",
            TrafficError::Listen { .. } => "listen",
            TrafficError::Flow { code, .. } => code,
            TrafficError::Unavailable { .. } => "not-available",
            TrafficError::AddressSpace { .. } => "address-space-exhausted",
            TrafficError::File { .. } => "file",
            TrafficError::System { .. } | TrafficError::Net(_) => "system",
            TrafficError::Stopped(_, 130) => "interrupted",
            TrafficError::Stopped(_, 141) => "output-closed",
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
            | TrafficError::OtherTool { address, .. }
            | TrafficError::Listen { address, .. } => Some(address.to_string()),
            TrafficError::Flow { name, .. } => Some(name.clone()),
            TrafficError::Unavailable { given, .. }
            | TrafficError::AddressSpace { given, .. }
            | TrafficError::Input { given, .. } => Some(given.clone()),
            TrafficError::File { path, .. } => Some(path.display().to_string()),
            _ => None,
        }
    }

    pub(crate) fn system(operation: impl Into<String>, source: std::io::Error) -> Self {
        TrafficError::System { operation: operation.into(), source }
    }
}
