//! Session protocols of other tools. Weir's workers move and count the data; a protocol here decides who connects, what is
//! said, and when the end is.
//!
//! A protocol is a folder: `codec.rs` turns bytes into values and does no I/O, `client.rs` runs its command, `server.rs`
//! serves its clients. It is registered by its `mod` line and its entry in [`PROTOCOLS`]: command, help, completions, flags
//! of `weir serve`, listings and refusals follow from its [`Protocol`].

mod options;
mod ttcp;

use std::net::{IpAddr, SocketAddr};

use weir_model::Refusal;
use weir_model::plan::Plan;
use weir_model::record::Record;
use weir_traffic::session::WorkerConfig;
use weir_traffic::{Failure, Limits, ServerEvent, Stop, TrafficError};

pub use options::{Given, Opt};

/// The protocols, in the order in which they are listed.
pub static PROTOCOLS: &[Protocol] = &[ttcp::PROTOCOL];

/// Makes a test of the options of a command.
pub type MakeTest = fn(&Given) -> Result<Box<dyn Test>, Box<Refusal>>;
/// Opens a server.
pub type Listen = fn(&ServeConfig) -> Result<Box<dyn Server>, TrafficError>;

/// A session protocol, as it is declared.
#[derive(Debug)]
pub struct Protocol {
    /// Its name: that of its command, and `peer` in records.
    pub name: &'static str,
    /// Its command in one line.
    pub about: &'static str,
    /// What its help ends with.
    pub details: &'static str,
    /// Default port.
    pub port: u16,
    /// Names of the transports that it has.
    pub transports: &'static [&'static str],
    /// Options of its command, in the order of the help.
    pub options: &'static [Opt],
    /// Makes a test of the options of its command; refusals name an option by [`Opt::name`].
    pub command: MakeTest,
    /// Listens for its clients; absent where it has no server.
    pub serve: Option<Listen>,
}

impl Protocol {
    /// The protocol of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Protocol> {
        PROTOCOLS.iter().find(|protocol| protocol.name == name)
    }

    /// Its transports as they are shown.
    #[must_use]
    pub fn transport_titles(&self) -> String {
        let titles = self.transports.iter().filter_map(|name| {
            name.parse::<weir_model::plan::TransportName>().ok().map(|name| name.title())
        });
        titles.collect::<Vec<_>>().join(" and ")
    }
}

/// What a running test reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A line of text, as the tool itself prints it.
    Line(String),
}

/// A test that is ready to run.
pub trait Test: Send {
    /// What it is going to do.
    fn plan(&self) -> &Plan;

    /// Runs it and returns its record (identity, command and start time are the caller's to fill).
    ///
    /// # Errors
    /// [`Failure`] with the reason and what had been measured until then.
    fn run(
        self: Box<Self>,
        workers: &WorkerConfig,
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
    ) -> Result<Record, Failure>;
}

/// How a protocol is served.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Addresses to listen on; empty: all of both families.
    pub bind: Vec<IpAddr>,
    /// The port; 0: chosen by the system.
    pub port: u16,
    /// Limits: those of sessions, their time and their silence.
    pub limits: Limits,
    /// Its threads.
    pub workers: WorkerConfig,
}

/// A server that listens.
pub trait Server: Send {
    /// Where.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// Serves until it is stopped. A client's fault never ends it.
    ///
    /// # Errors
    /// [`TrafficError::System`] where the system has no more threads or descriptors at its start.
    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError>;
}

/// The runtime of one protocol: on one thread, since the workers have their own.
fn runtime() -> Result<tokio::runtime::Runtime, TrafficError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built
        .map_err(|source| TrafficError::System { operation: "starting the runtime".into(), source })
}
