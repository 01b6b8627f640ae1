//! Errors of an emulator.

use std::fmt;
use std::path::PathBuf;

use weir_impair::ImpairError;

/// Why an interface is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A and B are one interface.
    SameTwice,
    /// A default route uses it.
    DefaultRoute,
    /// The session in which this program was started uses it; the peer's address.
    OwnSession(String),
    /// It belongs to a bridge or a bond.
    Member(String),
    /// It has these addresses: this host would answer packets to them, in addition to the emulation.
    Addresses(Vec<String>),
    /// An interface on top of it, or of which it is a member, is in use: its name, and for what. Packets of that
    /// interface cross this one.
    Upper(String, Box<Refusal>),
    /// It is down.
    Down,
    /// It carries no Ethernet frames.
    NotEthernet,
    /// Packets of the session in which this program was started would be impaired: the peer's address, and the prefix.
    SessionPrefix(String, String),
    /// Another emulator has it locked: its process, if known.
    InUse(Option<u32>),
}

impl Refusal {
    /// Whether force accepts it; what cannot work is refused in any case.
    #[must_use]
    pub(crate) fn may_be_forced(&self) -> bool {
        !matches!(
            self,
            Refusal::SameTwice | Refusal::Down | Refusal::NotEthernet | Refusal::InUse(_)
        )
    }
}

impl Refusal {
    /// A stable name of the reason.
    #[must_use]
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Refusal::SameTwice => "same-interface",
            Refusal::DefaultRoute => "default-route",
            Refusal::OwnSession(_) => "own-session",
            Refusal::Member(_) => "bridge-member",
            Refusal::Addresses(_) => "has-addresses",
            Refusal::Upper(_, why) => why.code(),
            Refusal::Down => "interface-down",
            Refusal::NotEthernet => "not-ethernet",
            Refusal::SessionPrefix(..) => "own-session",
            Refusal::InUse(_) => "interface-in-use",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::SameTwice => f.write_str("A and B are the same interface"),
            Refusal::DefaultRoute => f.write_str("the default route uses it"),
            Refusal::OwnSession(peer) => {
                write!(f, "your session uses it (from {peer})")
            }
            Refusal::Member(master) => write!(f, "it is a member of {master}"),
            Refusal::Addresses(addresses) => write!(
                f,
                "it has addresses ({}), for which this host would answer",
                addresses.join(", ")
            ),
            Refusal::Upper(name, why) => {
                write!(f, "{name} depends on it: {why}")
            }
            Refusal::Down => f.write_str("it is down: set it up first (ip link set dev … up)"),
            Refusal::NotEthernet => f.write_str("it does not carry Ethernet frames"),
            Refusal::SessionPrefix(peer, prefix) => {
                write!(f, "{prefix} contains {peer}, from which your session comes")
            }
            Refusal::InUse(Some(pid)) => write!(f, "it is in use by the emulator of process {pid}"),
            Refusal::InUse(None) => f.write_str("it is in use by another emulator"),
        }
    }
}

/// The operation, its object, and the reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// An interface is refused.
    #[error("{interface}: {}", reasons(.refusals))]
    Refused {
        /// The interface.
        interface: String,
        /// Every reason.
        refusals: Vec<Refusal>,
    },
    /// The configuration is invalid.
    #[error(transparent)]
    Impair(#[from] ImpairError),
    /// A link could not be opened or closed.
    #[error(transparent)]
    Link(#[from] weir_link::Error),
    /// A fact or setting of the system.
    #[error(transparent)]
    Net(#[from] weir_net::Error),
    /// The watchdog could not be set up.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Guard(#[from] weir_net::namespace::Error),
    /// A file.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was attempted.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The packet trace.
    #[error("packet trace {}", path.display())]
    PacketTrace {
        /// Its path.
        path: PathBuf,
        /// What was refused.
        #[source]
        source: weir_wire::packets::PacketsError,
    },
    /// The system lacks something that the emulator needs.
    #[error("cannot {operation}")]
    System {
        /// What was attempted.
        operation: &'static str,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A direction has not confirmed a configuration in time. It applies it when its thread continues; the report's
    /// `configurations` says when.
    #[error(
        "configuration {0} is pending: not confirmed yet; it is applied when the emulator's \
        thread continues (weir impair stats lists it then)"
    )]
    Pending(u64),
    /// A direction's thread panicked: a defect of this program. Its counters are lost.
    #[error("the thread of {0} panicked: this is a defect of weir")]
    Panicked(&'static str),
    /// The emulator has ended.
    #[error("the emulator has ended")]
    Ended,
    /// An unsupported argument.
    #[error("{what}: {given}; accepted: {accepted}")]
    Refusal {
        /// The argument.
        what: String,
        /// What was given.
        given: String,
        /// What is accepted.
        accepted: String,
    },
}

impl EmulatorError {
    /// The interface, or another object of the system.
    #[must_use]
    pub fn object(&self) -> Option<&str> {
        match self {
            EmulatorError::Refused { interface, .. } => Some(interface),
            EmulatorError::Link(error) => error.object(),
            EmulatorError::Net(error) => error.object(),
            _ => None,
        }
    }

    /// A stable name of the kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            EmulatorError::Refused { refusals, .. } => {
                // What force does not override comes first, and addresses, which come with all others, last.
                let rank = |r: &&Refusal| (r.may_be_forced(), r.code() == "has-addresses");
                refusals.iter().min_by_key(rank).map_or("emulator", Refusal::code)
            }
            EmulatorError::File { .. } | EmulatorError::PacketTrace { .. } => "file",
            _ if self.is_gone() => "interface-gone",
            _ => "emulator",
        }
    }

    /// Whether it is a refusal of an interface that force overrides.
    #[must_use]
    pub fn may_be_forced(&self) -> bool {
        matches!(self, EmulatorError::Refused { refusals, .. } if refusals.iter().all(Refusal::may_be_forced))
    }
}

fn reasons(refusals: &[Refusal]) -> String {
    let all: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    all.join("; ")
}

impl EmulatorError {
    /// The error and its causes in one line.
    pub(crate) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(cause) = next {
            let words = cause.to_string();
            if !text.ends_with(&words) {
                text = format!("{text}: {words}");
            }
            next = cause.source();
        }
        text
    }

    /// Whether an interface was removed while the emulator ran.
    #[must_use]
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, EmulatorError::Link(weir_link::Error::Gone(_)))
    }
}
