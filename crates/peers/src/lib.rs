//! Session protocols of other tools. Weir's workers move and count the data; the protocol decides which end connects,
//! which messages are exchanged, and when the session ends.
//!
//! A protocol is a folder: `codec.rs` turns bytes into values and does no I/O, `client.rs` runs its command, `server.rs`
//! serves its clients. It is registered by its `mod` line and its entry in [`PROTOCOLS`]: command, help, completions, flags
//! of `weir serve`, listings and refusals follow from its [`Protocol`].

mod buffered;
mod carried;
mod ditg;
mod echo;
mod ending;
#[doc(hidden)]
pub mod fuzz;
mod iperf2;
mod iperf3;
mod limit;
mod mgen;
mod netperf;
mod nuttcp;
mod one_sided;
mod options;
mod ports;
mod reflector;
pub mod scripts;
mod serving;
mod sessions;
mod shown;
mod stamp;
mod ttcp;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::mpsc;
use weir_model::Refusal;
use weir_model::impairment::Prefixes;
use weir_model::plan::{Connection, Family, PeerName, Plan};
use weir_model::record::Record;
use weir_traffic::session::{self, WorkerConfig};
use weir_traffic::{ClientConfig, Failure, Limits, ServerEvent, Stop, Stranger, TrafficError};
use weir_wire::hmac::HmacKey;

pub use ditg::{Managers, ScriptError, ditg_script};
pub use iperf2::{
    CallBack as Iperf2CallBack, Extras as Iperf2Extras, Group as Iperf2Group,
    Isochronous as Iperf2Isochronous, ServeOptions as Iperf2ServeOptions,
    WorkingLoad as Iperf2WorkingLoad, run_with as run_iperf2,
};
pub use iperf3::{Extras, Login, LoginError, Logins, Padding, TotalRateLimit, run_with};
pub use netperf::{
    Accepted as NetperfAccepted, Counted as NetperfCounted, Cpu as NetperfCpu,
    ServerOptions as NetperfServerOptions, Stated as NetperfStated, Wanted as NetperfWanted,
    run_with as run_netperf,
};
pub use options::{Form, Given, Opt};
pub use ports::SharedPorts;

/// The protocols, in the order in which they are listed.
pub static PROTOCOLS: &[Protocol] = &[
    ttcp::PROTOCOL,
    iperf2::PROTOCOL,
    iperf3::PROTOCOL,
    netperf::PROTOCOL,
    nuttcp::PROTOCOL,
    mgen::PROTOCOL,
    ditg::PROTOCOL,
    ditg::LOG_SERVER,
    ditg::MANAGER,
    echo::PROTOCOL,
    stamp::PROTOCOL,
    stamp::TWAMP_LIGHT,
];

/// Builds a test from the options of a command.
pub type MakeTest = fn(&Given) -> Result<Box<dyn Test>, Box<Refusal>>;
/// Runs a plan.
pub type RunTest =
    fn(&ClientConfig, &Stop, &mut dyn FnMut(weir_traffic::Event)) -> Result<Record, Failure>;
/// Makes a server of clients that another server gives away.
pub type Guests = fn(&ServeConfig) -> (mpsc::Sender<Stranger>, Box<dyn Server>);
/// The text of a session, of its record.
pub type Describe = fn(&Record) -> Option<String>;
/// Opens a server.
pub type Listen = fn(&ServeConfig) -> Result<Box<dyn Server>, TrafficError>;

/// A session protocol, as it is declared.
#[derive(Debug)]
pub struct Protocol {
    /// Name of the protocol and of its command; `peer` in records.
    pub name: &'static str,
    /// Default port.
    pub port: u16,
    /// Names of the supported transports.
    pub transports: &'static [&'static str],
    /// The command with the flags of the tool; absent: there is none.
    pub command: Option<Command>,
    /// Tests of a plan against a server of the tool; absent: `weir test` does not speak it.
    pub client: Option<Client>,
    /// Opens its server; absent if the protocol has none.
    pub serve: Option<Listen>,
    /// Serves clients that reach the port of Weir's own server; absent: their first bytes do not tell them apart. One protocol
    /// has it.
    pub guests: Option<Guests>,
    /// It is served only where it is named, never as one of all.
    pub is_served_by_name_only: bool,
}

/// Tests of a plan against a server of the tool.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// Checks that the protocol carries a test; an error names the field.
    pub check: fn(&ClientConfig) -> Result<(), TrafficError>,
    /// Runs the test.
    pub run: RunTest,
    /// Whether a server of the tool answers at an address; takes a few seconds at most, and starts no test. Absent: unknown.
    pub probe: Option<fn(SocketAddr) -> bool>,
}

/// A command with the flags of the tool.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// What it does, in one line.
    pub about: &'static str,
    /// Text at the end of its help.
    pub details: &'static str,
    /// Its options, in the order of the help.
    pub options: &'static [Opt],
    /// Builds a test from the options; a refusal names the option by [`Opt::name`].
    pub make: MakeTest,
}

/// Runs a test against the server that its plan's `peer` names: Weir's own, or that of another tool.
///
/// # Errors
/// [`Failure`] with the reason and what had been measured until then.
pub fn run(
    config: ClientConfig,
    stop: Stop,
    observe: &mut dyn FnMut(weir_traffic::Event),
) -> Result<Record, Failure> {
    if let Some(client) = client(&config) {
        return (client.run)(&config, &stop, observe);
    }
    let is_auto = config.plan.peer == PeerName::Auto;
    let native = Plan { peer: PeerName::Weir, ..config.plan.clone() };
    let config = ClientConfig { plan: native, ..config };
    let failure = match weir_traffic::run(config.clone(), stop.clone(), observe) {
        Ok(record) => return Ok(record),
        Err(failure) => failure,
    };
    let Some((peer, address)) = recognised(&config, &failure, is_auto) else { return Err(failure) };
    if !is_auto {
        let tool = peer.label();
        return Err(TrafficError::OtherTool { address: address.into(), tool }.into());
    }
    let plan = Plan { peer, port: Some(address.port()), ..config.plan.clone() };
    let config = ClientConfig { plan, commands: Default::default(), ..config };
    check(&config)?;
    run(config, stop, observe)
}

/// The tool whose server a test without a result reached instead of Weir's; `elsewhere`: the ports of the tools are tried as well
/// if the plan names none.
fn recognised(
    config: &ClientConfig,
    failure: &Failure,
    elsewhere: bool,
) -> Option<(PeerName, SocketAddr)> {
    let known = || {
        let probe = |peer: &PeerName| Some((*peer, Protocol::find(peer.label())?.client?.probe?));
        PeerName::ALL.iter().filter_map(probe)
    };
    if failure.partial.is_some() {
        return None;
    }
    match &failure.error {
        TrafficError::Lost { address, .. }
        | TrafficError::Protocol { address, .. }
        | TrafficError::Damaged { address, .. } => {
            let address = address.ip()?;
            known().find_map(|(peer, probe)| probe(address).then_some((peer, address)))
        }
        TrafficError::Connect { address, .. } if elsewhere && config.plan.port.is_none() => {
            let ip = address.ip()?.ip();
            known().find_map(|(peer, probe)| {
                let address = SocketAddr::new(ip, peer.default_port());
                probe(address).then_some((peer, address))
            })
        }
        _ => None,
    }
}

/// Checks that the protocol of a test carries it.
///
/// # Errors
/// [`TrafficError`] that names the field.
pub fn check(config: &ClientConfig) -> Result<(), TrafficError> {
    let peer = config.plan.peer;
    if config.hmac.is_some() && peer != PeerName::Stamp {
        return Err(carried::of_test(peer, "hmac_key_file", "given", "with peer stamp"));
    }
    client(config).map_or(Ok(()), |client| (client.check)(config))
}

fn client(config: &ClientConfig) -> Option<Client> {
    Protocol::find(config.plan.peer.label())?.client
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

/// Which tests a server of iperf2 serves by connecting back to the client (`-d`, `-r`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CallBacks {
    /// None.
    #[default]
    Never,
    /// Those over TCP, whose client has proved its address.
    Streams,
    /// Also those over UDP of these addresses: a forged source makes the server send to one of them, for an hour at most.
    Listed(Prefixes),
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
    /// What a client of netperf's server must send first; absent: nothing.
    pub passphrase: Option<String>,
    /// The key of STAMP's test packets in authenticated mode, the only ones that are answered then; absent: all are.
    pub hmac: Option<HmacKey>,
    /// The only users that iperf3's server serves; absent: all clients.
    pub logins: Option<Arc<Logins>>,
    /// Maximum rate of a test of iperf3's clients; absent: no limit.
    pub rate_limit: Option<TotalRateLimit>,
    /// Who may command D-ITG's sender, and to which addresses it sends; absent: it has no command interface.
    pub managers: Option<Managers>,
    /// Text for a client of iperf3 that asks for the server's output; absent: it gets none.
    pub describe: Option<Describe>,
    /// Tests in which iperf2's server connects back.
    pub call_backs: CallBacks,
    /// What only iperf2's server has.
    pub iperf2: Iperf2ServeOptions,
    /// Ports that servers with the same value of this may share, where their protocols allow it.
    pub ports: SharedPorts,
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

/// The IP version of an address; that of an IPv4 one behind a mapped address.
fn family(peer: SocketAddr) -> Family {
    if peer.ip().to_canonical().is_ipv6() { Family::Ipv6 } else { Family::Ipv4 }
}

/// Connects to the server's port for control, at the first of its addresses that answers.
async fn connect_control(
    config: &ClientConfig,
    plan: &Plan,
) -> Result<(tokio::net::TcpStream, SocketAddr), TrafficError> {
    // The options of the data do not concern it.
    let own = Plan { connections: vec![Connection::default()], ..plan.clone() };
    let mut failure = None;
    for peer in session::resolve(&config.host, plan).await? {
        let spec = own.flows(family(peer), u32::MAX).swap_remove(0);
        match session::connect_stream(&own, &spec, true, peer, config.connect_timeout).await {
            Ok(stream) => {
                let operation = "using a connection".into();
                let stream = tokio::net::TcpStream::from_std(stream.into())
                    .map_err(|source| TrafficError::System { operation, source })?;
                return Ok((stream, peer));
            }
            Err(error) => failure = Some(error),
        }
    }
    let reason = "no address".into();
    Err(failure.unwrap_or(TrafficError::Resolve { host: config.host.clone(), reason }))
}

/// Runs a test of a protocol whose running tests have no commands, for the reason `why`.
fn run_test(
    config: &ClientConfig,
    why: &'static str,
    test: impl Future<Output = Result<Record, Failure>>,
) -> Result<Record, Failure> {
    runtime()?.block_on(async {
        tokio::select! {
            record = test => record,
            never = config.commands.refuse(why) => match never {},
        }
    })
}

/// A single-threaded runtime for one protocol; the workers have their own threads.
fn runtime() -> Result<tokio::runtime::Runtime, TrafficError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built
        .map_err(|source| TrafficError::System { operation: "starting the runtime".into(), source })
}
