//! The side that runs a test: it asks for a session, sets up the flows, keeps the clocks related, shows intervals, and
//! makes the record of what both ends measured.

mod commands;
pub(crate) mod connect;
mod latency;
mod setup;
mod test;

use std::path::PathBuf;
use std::time::Duration;

use weir_flow::Scheduling;
use weir_model::plan::{Family, FlowSpec, Plan};
use weir_model::progress::{FlowProgress, PeerStatus};
use weir_model::record::{Interval, Record};
use weir_net::clock::Clock;

use crate::key::Key;
use crate::report_timeout::{ReportTimeout, SILENCE};
use crate::stop::Stop;
use crate::{Address, TrafficError};

/// How a test is to run.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// What is to be run.
    pub plan: Plan,
    /// The server: a name or an address.
    pub host: String,
    /// The server's key.
    pub key: Option<Key>,
    /// Limit for a connection to be established.
    pub connect_timeout: Duration,
    /// A socket on which connections of the running test can be started and stopped.
    pub control_socket: Option<PathBuf>,
    /// Packets received on this side are logged here.
    pub packet_log: Option<PathBuf>,
    /// Processors for the workers.
    pub cpus: Option<Vec<usize>>,
    /// What the threads that send datagrams may take; [`Scheduling::Fifo`] is refused where the system refuses it.
    pub scheduling: Scheduling,
    /// How long they spin before a datagram is due, up to 10 ms; absent: 60 µs, under SCHED_FIFO as long as their wake-ups need it.
    pub spin: Option<Duration>,
    /// Takes the nominal rate from the interface, when the plan names none.
    pub nominal_auto: bool,
    /// Sending starts at this time of the clock, ns, or as soon as both ends are ready, when that is later.
    pub start_at_ns: Option<u64>,
    /// A server that sends nothing for this long while the test runs counts as lost.
    pub silence: Duration,
    /// How long the server's report is waited for.
    pub report: ReportTimeout,
    /// The clock; a test may inject one.
    pub clock: Clock,
}

impl ClientConfig {
    /// A test of `plan` against `host` with the defaults.
    pub fn new(plan: Plan, host: impl Into<String>) -> Self {
        ClientConfig {
            plan,
            host: host.into(),
            key: None,
            connect_timeout: Duration::from_secs(3),
            control_socket: None,
            packet_log: None,
            cpus: None,
            scheduling: Scheduling::Auto,
            spin: None,
            nominal_auto: false,
            start_at_ns: None,
            silence: SILENCE,
            report: ReportTimeout::default(),
            clock: Clock::System,
        }
    }
}

/// What a running test reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The control connection stands.
    Connected {
        /// This side.
        local: Address,
        /// The other side.
        remote: Address,
    },
    /// All data connections stand; sending begins.
    Started {
        /// The flows.
        specs: Vec<FlowSpec>,
        /// IP version.
        family: Family,
    },
    /// States of flows that have changed; of all flows when sending begins.
    Flows(Vec<FlowProgress>),
    /// The peer has become unreachable, or reachable again.
    Peer(PeerStatus),
    /// An interval has ended. Losses are final only after the loss threshold. Where figures had not come in time, its
    /// totals say of how many flows they are.
    Interval(Box<Interval>),
    /// The figures that an interval lacked when it was printed have arrived: it is complete now. Those that never arrive are
    /// in the record alone, as far as it has them.
    Late(Box<Interval>),
}

/// An incomplete test, with what it had measured.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    /// Why.
    pub error: TrafficError,
    /// What had been measured, if anything.
    pub partial: Option<Box<Record>>,
}

impl From<TrafficError> for Failure {
    fn from(error: TrafficError) -> Self {
        Failure { error, partial: None }
    }
}

/// Runs a test and gives its record (identity, command and start time are the caller's to fill).
///
/// # Errors
/// [`Failure`] with the reason and what had been measured until then.
pub fn run(
    config: ClientConfig,
    stop: Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    config.plan.check().map_err(TrafficError::from)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| TrafficError::system("starting the runtime", e))?;
    runtime.block_on(test::run(config, stop, observe))
}
