//! The client: requests a session, sets up the flows, relates the clocks, reports intervals, and makes the record of
//! both ends' measurements.

mod alone;
mod commands;
pub(crate) mod connect;
mod latency;
mod setup;
mod several;
mod streams;
mod test;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_flow::{Scheduling, Supply};
use weir_model::content::Content;
use weir_model::plan::{Connection, Direction, Family, FlowSpec, Plan, Server, Size};
use weir_model::progress::{EchoInterval, FlowProgress, PeerStatus};
use weir_model::record::{Interval, Record};
use weir_net::clock::Clock;
use weir_wire::hmac::HmacKey;

use crate::engine::check_scheduling;
use crate::key::Key;
use crate::report_timeout::{ReportTimeout, SILENCE};
use crate::stop::Stop;
use crate::{Address, TrafficError};
pub use commands::{Answer, Commands};
use test::Gate;
pub use test::LOSS_THRESHOLD_NS;

/// Configuration of a test.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// The plan to run.
    pub plan: Plan,
    /// The server of connections that name none: a name or an address. Empty if all name one.
    pub host: String,
    /// The server's key.
    pub key: Option<Key>,
    /// The key of the HMACs in headers that have one.
    pub hmac: Option<HmacKey>,
    /// Limit for a connection to be established.
    pub connect_timeout: Duration,
    /// A socket on which connections of the running test can be started and stopped.
    pub control_socket: Option<PathBuf>,
    /// The same from other threads of this program.
    pub commands: Commands,
    /// Packets received on this side are logged here.
    pub packet_log: Option<PathBuf>,
    /// The file that the server stored is fetched into this one, after the test.
    pub fetch: Option<PathBuf>,
    /// Processors for the workers.
    pub cpus: Option<Vec<usize>>,
    /// Scheduling of the threads that send datagrams; [`Scheduling::Fifo`] is an error where the system refuses it.
    pub scheduling: Scheduling,
    /// Time that these threads spin before a datagram is due, up to 10 ms. Absent: 60 µs, or under SCHED_FIFO as long
    /// as their wake-ups require.
    pub spin: Option<Duration>,
    /// The data of connections with the content [`Content::File`].
    pub supply: Option<Arc<Supply>>,
    /// Use the interface's speed as nominal rate if the plan has none.
    pub nominal_auto: bool,
    /// Sending starts at this time of the clock, ns, or as soon as both ends are ready, when that is later.
    pub start_at_ns: Option<u64>,
    /// Sending waits, after [`Event::Ready`], for the time that this brings; it replaces `start_at_ns`.
    pub start_signal: Option<StartSignal>,
    /// A server that sends nothing for this long while the test runs counts as lost.
    pub silence: Duration,
    /// Timeouts for the server's report.
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
            hmac: None,
            connect_timeout: Duration::from_secs(3),
            control_socket: None,
            commands: Commands::default(),
            packet_log: None,
            fetch: None,
            cpus: None,
            scheduling: Scheduling::Auto,
            spin: None,
            supply: None,
            nominal_auto: false,
            start_at_ns: None,
            start_signal: None,
            silence: SILENCE,
            report: ReportTimeout::default(),
            clock: Clock::System,
        }
    }

    /// Whether another program decides when sending starts.
    #[must_use]
    pub fn has_start(&self) -> bool {
        self.start_at_ns.is_some() || self.start_signal.is_some()
    }
}

/// Brings a test the time of its start.
#[derive(Debug, Clone)]
pub struct StartSignal(watch::Receiver<Option<u64>>);

/// The other end of a [`StartSignal`]. If it is dropped, the test starts as soon as it is ready.
#[derive(Debug)]
pub struct Starter(watch::Sender<Option<u64>>);

impl StartSignal {
    /// A signal, and what sends it.
    #[must_use]
    pub fn new() -> (Starter, StartSignal) {
        let (sender, receiver) = watch::channel(None);
        (Starter(sender), StartSignal(receiver))
    }

    /// Waits for the time of the start; `None` without a sender: as soon as both ends are ready.
    pub async fn wait(&mut self) -> Option<u64> {
        // Without its sender the start is given up.
        self.0.wait_for(Option::is_some).await.ok().and_then(|start_ns| *start_ns)
    }
}

impl Starter {
    /// Starts the test at this time of CLOCK_MONOTONIC, ns, or at once where that has passed. Only the first call counts.
    pub fn start(&self, at_ns: u64) {
        self.0.send_if_modified(|start| start.is_none() && start.replace(at_ns).is_none());
    }
}

/// What a running test reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The control connection is established.
    Connected {
        /// Local address.
        local: Address,
        /// Remote address.
        remote: Address,
    },
    /// The data connections of a test have these addresses; before [`Event::Started`], where they are known by then.
    Addresses(Vec<FlowAddresses>),
    /// All data connections are established; sending starts.
    Started {
        /// The flows.
        specs: Vec<FlowSpec>,
        /// IP version; with several servers that of the first.
        family: Family,
    },
    /// Both ends are ready, and sending waits for [`ClientConfig::start_signal`].
    Ready,
    /// States of flows that have changed; of all flows when sending begins.
    Flows(Vec<FlowProgress>),
    /// The peer has become unreachable, or reachable again.
    Peer(PeerStatus),
    /// What the server of another tool has printed of the test, if it was asked for.
    ServerOutput(String),
    /// An interval has ended. Its losses are final only after the loss threshold. Where figures are late, its totals
    /// state how many flows they cover.
    Interval(Box<Interval>),
    /// The late figures of a printed interval have arrived: it is complete now. Figures that never arrive are in the
    /// record only, as far as it has them.
    Late(Box<Interval>),
    /// Intervals of echoed flows whose echoes have all come back, or are given up. Those of the last intervals may be missing.
    Echoes(Vec<EchoInterval>),
}

/// The addresses of a data connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowAddresses {
    /// Flow number.
    pub flow: u32,
    /// Who sends.
    pub direction: Direction,
    /// Of this end.
    pub local: SocketAddr,
    /// Of the far end.
    pub remote: SocketAddr,
}

/// The failure of a test, with its partial record.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    /// The reason.
    pub error: TrafficError,
    /// The partial record, if anything was measured.
    pub partial: Option<Box<Record>>,
}

impl From<TrafficError> for Failure {
    fn from(error: TrafficError) -> Self {
        Failure { error, partial: None }
    }
}

/// Runs a test and returns its record, in which the caller fills in identity, command and start time.
///
/// # Errors
/// [`Failure`] with the reason and what had been measured until then.
pub fn run(
    config: ClientConfig,
    stop: Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    config.plan.check().map_err(TrafficError::from)?;
    check_scheduling(config.scheduling)?;
    check_supply(&config)?;
    let (config, servers) = servers(config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| TrafficError::system("starting the runtime", e))?;
    runtime.block_on(async {
        // An unusable socket path is refused before anything is sent.
        let asked = config.commands.take();
        let listen = |path| commands::listen(path, config.commands.sender());
        let _socket = config.control_socket.as_deref().map(listen).transpose()?;
        if servers.len() > 1 {
            return several::run(config, servers, asked, stop, observe).await;
        }
        let control = test::Control {
            asked,
            engine: None,
            gate: config.start_signal.clone().map(|signal| Gate::of(signal, 0)),
            streams: Arc::default(),
            senders: Arc::default(),
        };
        test::run(config, control, stop, observe).await
    })
}

/// Refuses a plan that sends a file without one: documents name none.
fn check_supply(config: &ClientConfig) -> Result<(), TrafficError> {
    let with_file = || config.plan.connections.iter().filter(|c| c.content == Content::File);
    let Some(supply) = &config.supply else {
        return match with_file().next() {
            None => Ok(()),
            Some(_) => Err(TrafficError::Input {
                field: "content",
                given: "file, and no file is given".into(),
                accepted: "content that is generated; a file or capture is named on the command line only \
                           (`weir test --content file:PATH`, `weir test --replay FILE`)"
                    .into(),
            }),
        };
    };
    let is_recorded = |c: &Connection| {
        c.spacing.is_recorded() || c.payload.as_ref().is_some_and(Size::is_recorded)
    };
    if supply.packets().is_none()
        && let Some(c) = with_file().find(|c| is_recorded(c))
    {
        return Err(TrafficError::Input {
            field: "content",
            given: format!("a file, while connection '{}' replays a capture", c.name),
            accepted: "a capture".into(),
        });
    }
    Ok(())
}

/// The refusal of fetching a file where there is not one.
fn fetch_refused(path: &std::path::Path, with: &str) -> TrafficError {
    TrafficError::Input {
        field: "fetch",
        given: format!("{} with {with}", path.display()),
        accepted: "a test of one flow that its server stores (`to_file`)".into(),
    }
}

/// The servers of the connections, if there are several; one server is the test's own.
fn servers(mut config: ClientConfig) -> Result<(ClientConfig, Vec<Server>), TrafficError> {
    if !config.plan.names_servers() {
        return Ok((config, vec![]));
    }
    if !config.host.is_empty() {
        config.plan.host = Some(config.host.clone());
    }
    let servers = config.plan.servers()?;
    if let [server] = &servers[..] {
        config.plan = config.plan.of_server(server);
        config.host.clone_from(&server.host);
    } else if let Some(path) = &config.fetch {
        return Err(fetch_refused(path, &format!("{} servers", servers.len())));
    } else if let Some(path) = &config.packet_log {
        return Err(TrafficError::Input {
            field: "packet_log",
            given: format!("{} with {} servers", path.display(), servers.len()),
            accepted: "a test with one server: flows of several have the same numbers there".into(),
        });
    }
    Ok((config, servers))
}
