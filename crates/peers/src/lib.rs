//! Session protocols of other tools. Weir's workers move and count the data; the protocol decides which end connects,
//! which messages are exchanged, and when the session ends.
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

pub use options::{Form, Given, Opt};

/// The protocols, in the order in which they are listed.
pub static PROTOCOLS: &[Protocol] = &[ttcp::PROTOCOL];

/// Builds a test from the options of a command.
pub type MakeTest = fn(&Given) -> Result<Box<dyn Test>, Box<Refusal>>;
/// Opens a server.
pub type Listen = fn(&ServeConfig) -> Result<Box<dyn Server>, TrafficError>;

/// A session protocol, as it is declared.
#[derive(Debug)]
pub struct Protocol {
    /// Name of the protocol and of its command; `peer` in records.
    pub name: &'static str,
    /// Its command in one line.
    pub about: &'static str,
    /// Text at the end of its help.
    pub details: &'static str,
    /// Default port.
    pub port: u16,
    /// Names of the supported transports.
    pub transports: &'static [&'static str],
    /// Options of its command, in the order of the help.
    pub options: &'static [Opt],
    /// Builds a test from the options of its command; a refusal names the option by [`Opt::name`].
    pub command: MakeTest,
    /// Opens its server; absent if the protocol has none.
    pub serve: Option<Listen>,
}

impl Protocol {
    /// The protocol with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Protocol> {
        PROTOCOLS.iter().find(|protocol| protocol.name == name)
    }

    /// Titles of its transports, as shown to users.
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

/// A standard stream of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardStream {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
}

/// A test that is ready to run.
pub trait Test: Send {
    /// The plan that it runs.
    fn plan(&self) -> &Plan;

    /// The standard stream that carries the data; absent: none.
    fn standard_stream(&self) -> Option<StandardStream> {
        None
    }

    /// Runs the test and returns its record, in which the caller fills in identity, command and start time.
    ///
    /// # Errors
    /// [`Failure`] with the reason and the partial record.
    fn run(
        self: Box<Self>,
        workers: &WorkerConfig,
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
    ) -> Result<Record, Failure>;
}

/// Configuration of a protocol's server.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// Addresses to listen on; empty: all IPv4 and IPv6 addresses.
    pub bind: Vec<IpAddr>,
    /// The port; 0: chosen by the system.
    pub port: u16,
    /// Limits on the number of sessions, their duration and their silence.
    pub limits: Limits,
    /// Its worker threads.
    pub workers: WorkerConfig,
}

/// A listening server.
pub trait Server: Send {
    /// The addresses that it listens on.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// Serves until it is stopped; a misbehaving client never stops it.
    ///
    /// # Errors
    /// [`TrafficError::System`] if threads or descriptors run out at startup.
    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError>;
}

/// A single-threaded runtime for one protocol; the workers have their own threads.
fn runtime() -> Result<tokio::runtime::Runtime, TrafficError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built
        .map_err(|source| TrafficError::System { operation: "starting the runtime".into(), source })
}
