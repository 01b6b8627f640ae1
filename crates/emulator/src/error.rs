//! Why an emulator does not run.

use std::fmt;
use std::path::PathBuf;

use weir_impair::ImpairError;

/// Why an interface is not taken without force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A and B are one interface.
    SameTwice,
    /// A default route leaves by it.
    DefaultRoute,
    /// The session that this program was started from comes in by it; the peer's address.
    OwnSession(String),
    /// It belongs to a bridge or a bond.
    Member(String),
    /// It has these addresses: what is sent to them is answered by this host and emulated besides.
    Addresses(Vec<String>),
    /// An interface that is made on it, or that it is a member of, is needed: its name, and for what. What that one
    /// sends and receives passes through this one.
    Upper(String, Box<Refusal>),
    /// It is down.
    Down,
    /// It carries no Ethernet frames.
    NotEthernet,
    /// Another emulator has it: its process, where that is known.
    InUse(Option<u32>),
}

impl Refusal {
    /// Whether force lets it pass; what cannot work is refused all the same.
    #[must_use]
    pub fn may_be_forced(&self) -> bool {
        !matches!(
            self,
            Refusal::SameTwice | Refusal::Down | Refusal::NotEthernet | Refusal::InUse(_)
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::SameTwice => f.write_str("A and B are the same interface"),
            Refusal::DefaultRoute => f.write_str("the default route leaves by it"),
            Refusal::OwnSession(peer) => {
                write!(f, "the session you work in comes in by it (from {peer})")
            }
            Refusal::Member(master) => write!(f, "it is a member of {master}"),
            Refusal::Addresses(addresses) => write!(
                f,
                "it has addresses ({}), and this host would answer for them",
                addresses.join(", ")
            ),
            Refusal::Upper(name, why) => {
                write!(f, "{name} works through it, and of that one: {why}")
            }
            Refusal::Down => f.write_str("it is down: set it up first (ip link set dev … up)"),
            Refusal::NotEthernet => f.write_str("it does not carry Ethernet frames"),
            Refusal::InUse(Some(pid)) => write!(f, "it is in use by the emulator of process {pid}"),
            Refusal::InUse(None) => f.write_str("it is in use by another emulator"),
        }
    }
}

/// What went wrong: the operation, its object, the reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// An interface is not taken.
    #[error("{interface}: {}", reasons(.refusals))]
    Refused {
        /// The interface.
        interface: String,
        /// Every reason.
        refusals: Vec<Refusal>,
    },
    /// The configuration does not hold.
    #[error(transparent)]
    Impair(#[from] ImpairError),
    /// A link could not be opened or ended.
    #[error(transparent)]
    Link(#[from] weir_link::Error),
    /// A fact or setting of the system.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Net(#[from] weir_net::Error),
    /// Settings could not be guarded.
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
    /// Something of the system that the emulator needs to run.
    #[error("cannot {operation}")]
    System {
        /// What was attempted.
        operation: &'static str,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A configuration was handed over, and a direction has not confirmed it in time. It comes into force when the
    /// direction's thread gets on; the report's `configurations` tells when it has.
    #[error(
        "configuration {0} is pending: it was handed over, and is not confirmed yet; it comes into force when the \
         emulator's thread gets on (weir impair stats lists it then)"
    )]
    Pending(u64),
    /// A direction's thread panicked: a defect of this program. What the direction had counted is lost.
    #[error("the thread of {0} panicked: this is a defect of weir")]
    Panicked(&'static str),
    /// The emulator has ended.
    #[error("the emulator has ended")]
    Ended,
    /// An argument that cannot be served.
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
    /// The interface, or another object of the system, that it is about.
    #[must_use]
    pub fn object(&self) -> Option<&str> {
        match self {
            EmulatorError::Refused { interface, .. } => Some(interface),
            EmulatorError::Link(error) => error.object(),
            #[cfg(target_os = "linux")]
            EmulatorError::Net(error) => error.object(),
            _ => None,
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
    /// The error and what it came of, on one line.
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

    /// Whether an interface was removed under the emulator.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, EmulatorError::Link(weir_link::Error::Gone(_)))
    }
}
