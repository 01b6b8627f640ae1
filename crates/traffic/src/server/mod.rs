//! The server: any number of concurrent clients on one port, TCP and UDP.

mod control;
mod files;
mod front;
mod groups;
mod live;
mod ports;
mod session;
mod unix;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use weir_flow::Scheduling;
use weir_model::plan::{DEFAULT_PORT, Scope};
use weir_net::clock::Clock;
use weir_net::socket::borrow;
use weir_net::tcp::{TcpListener, TcpOptions};
use weir_wire::preface::{CONTROL_LEN, ControlMode, DATA_LEN, Preface};

pub use files::FileConfig;
use files::Files;
pub(crate) use files::SharedFile;
pub(crate) use front::{Front, Registry};
pub(crate) use ports::DataPortPool;
use session::{Admitted, Session};
pub use session::{Load, Share};

use crate::engine::{Engine, check_scheduling, lock};
use crate::key::Key;
use crate::log::PacketLog;
use crate::report_timeout::ReportTimeout;
use crate::stop::Stop;
use crate::transport::xdp;
use crate::{Address, TrafficError, transport};

/// Limits of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of concurrent sessions.
    pub sessions: u64,
    /// Maximum duration of a session.
    pub session_seconds: u64,
    /// Maximum number of concurrent flows of all sessions.
    pub flows: u64,
    /// Time to send the hello and request a session.
    pub hello_seconds: u64,
    /// Maximum number of connections that have not yet done so.
    pub half_open: u64,
    /// Silence of a client after which its session ends.
    pub silence_seconds: u64,
    /// Widest scope of multicast groups that a session may request to join; absent: none.
    pub multicast_scope: Option<Scope>,
    /// Maximum number of multicast memberships of a session.
    pub session_joins: u64,
    /// Maximum number of multicast memberships of all sessions.
    pub joins: u64,
    /// Maximum number of flows of all sessions that are sent as frames of a link: every arriving frame is compared with
    /// each.
    pub frame_flows: u64,
    /// How long a client may take to read its report: its session ends when it reads nothing, or not all, in time.
    pub report: ReportTimeout,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 64,
            session_seconds: 3600,
            flows: 10_000,
            hello_seconds: 10,
            half_open: 20_000,
            silence_seconds: 30,
            multicast_scope: Some(Scope::Admin),
            session_joins: 32,
            joins: 256,
            frame_flows: 256,
            report: ReportTimeout::default(),
        }
    }
}

/// Configuration of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Addresses to listen on; empty: all IPv4 and IPv6 addresses.
    pub bind: Vec<IpAddr>,
    /// The port, TCP and UDP.
    pub port: u16,
    /// Listens on this Unix socket only, and on no address.
    pub unix: Option<PathBuf>,
    /// The key that clients must use.
    pub key: Option<Key>,
    /// Limits.
    pub limits: Limits,
    /// Ends after one session.
    pub one_off: bool,
    /// Ends after this long without a session.
    pub idle_timeout: Option<Duration>,
    /// Packets received are logged here.
    pub packet_log: Option<PathBuf>,
    /// Where it stores what clients ask it to store; absent: it stores nothing.
    pub files: Option<FileConfig>,
    /// Range of the sessions' own data ports; absent: the system chooses.
    pub data_ports: Option<RangeInclusive<u16>>,
    /// Processors for the workers.
    pub cpus: Option<Vec<usize>>,
    /// Scheduling of the threads that send datagrams; [`Scheduling::Fifo`] is an error where the system refuses it.
    pub scheduling: Scheduling,
    /// Time that these threads spin before a datagram is due, up to 10 ms. Absent: 60 µs, or under SCHED_FIFO as long
    /// as their wake-ups require.
    pub spin: Option<Duration>,
    /// The clock; a test may inject one.
    pub clock: Clock,
    /// Takes what reaches the port from clients of other tools; absent: it is dropped. What does not fit is dropped too.
    pub strangers: Option<mpsc::Sender<Stranger>>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            bind: vec![],
            port: DEFAULT_PORT,
            unix: None,
            key: None,
            limits: Limits::default(),
            one_off: false,
            idle_timeout: None,
            packet_log: None,
            files: None,
            data_ports: None,
            cpus: None,
            scheduling: Scheduling::Auto,
            spin: None,
            clock: Clock::System,
            strangers: None,
        }
    }
}

/// What reached the server's port and is not Weir's.
#[derive(Debug)]
pub enum Stranger {
    /// A connection.
    Stream {
        /// It.
        stream: weir_net::tcp::TcpStream,
        /// Its other end.
        peer: SocketAddr,
        /// The bytes that were read: at least one.
        begun: Vec<u8>,
    },
    /// A datagram of 4 bytes: none of Weir's is as short.
    Datagram {
        /// Its source.
        from: SocketAddr,
        /// It.
        bytes: [u8; 4],
    },
}

/// Events of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerEvent {
    /// The server listens.
    Listening {
        /// Its addresses.
        addresses: Vec<Address>,
        /// Whether any client may use it, since it has no key.
        open: bool,
    },
    /// A session was granted.
    SessionOpened {
        /// Session number.
        session: u64,
        /// The client.
        peer: Address,
        /// Number of flows.
        flows: usize,
    },
    /// A session has ended.
    SessionClosed {
        /// Session number.
        session: u64,
        /// The client.
        peer: Address,
        /// How it ended.
        reason: String,
        /// This end's report.
        report: Option<Box<weir_model::report::EndReport>>,
        /// The record, where this end has all of it: of a client of another tool, which stores none.
        record: Option<Box<weir_model::record::Record>>,
    },
    /// A client was refused.
    Refused {
        /// The client.
        peer: Address,
        /// The reason.
        reason: String,
    },
    /// A server that answers datagrams without sessions has stopped; its totals. The rest of the requests was ignored.
    Reflected {
        /// Datagrams that arrived.
        requests: u64,
        /// Replies that were sent.
        replies: u64,
        /// Requests above the limit of replies to their address.
        limited: u64,
        /// Replies that the system did not accept.
        unsent: u64,
    },
}

/// State shared by all tasks of a server.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    /// The only session of [`ServerConfig::one_off`] is granted.
    pub(crate) is_taken: AtomicBool,
    pub(crate) engine: Arc<Engine>,
    pub(crate) registry: Registry,
    pub(crate) front: Front,
    pub(crate) load: Arc<Load>,
    pub(crate) data_ports: DataPortPool,
    pub(crate) xdp: xdp::Receivers,
    pub(crate) next_session: AtomicU64,
    pub(crate) events: mpsc::UnboundedSender<ServerEvent>,
    pub(crate) log: Option<PacketLog>,
    pub(crate) files: Option<Files>,
    pub(crate) stop: Stop,
    pub(crate) port: u16,
}

/// Runs a server until it is asked to stop, or its work is done (`one_off`, `idle_timeout`).
///
/// # Errors
/// If it can't listen; a misbehaving client never stops it.
pub fn serve(
    config: ServerConfig,
    stop: Stop,
    observe: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| TrafficError::system("starting the runtime", e))?;
    runtime.block_on(run(config, stop, observe))
}

/// Listens for connections on `port` of the addresses `bind`. Without addresses it listens on all, of IPv4 only if
/// the host has no IPv6. With port 0 the system chooses one port for all.
pub(crate) fn listen(
    bind: &[IpAddr],
    port: u16,
) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), TrafficError> {
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let (mut listeners, mut bound): (Vec<TcpListener>, Vec<SocketAddr>) = (vec![], vec![]);
    for ip in if bind.is_empty() { &any } else { bind } {
        let mut address = SocketAddr::new(*ip, port);
        // With port 0 the first listener chooses for all.
        if let Some(first) = bound.first() {
            address.set_port(first.port());
        }
        let options =
            TcpOptions { v6_only: address.is_ipv6(), nonblocking: true, ..TcpOptions::default() };
        match TcpListener::open(address, &options, 4096) {
            Ok(l) => {
                let local = l
                    .local_addr()
                    .map_err(|e| TrafficError::system("reading the listener's address", e))?;
                bound.push(SocketAddr::new(address.ip(), local.port()));
                listeners.push(l);
            }
            // A host without IPv6 is served over IPv4.
            Err(e) if bind.is_empty() && address.is_ipv6() && e.lacks_family() => {}
            Err(e) => {
                return Err(TrafficError::Listen { address: address.into(), reason: why_not(&e) });
            }
        }
    }
    Ok((listeners, bound))
}

/// How often the system chooses another port if its choice is in use for UDP or on another address.
const PORT_CHOICES: u32 = 16;

/// Listens on the server's port, for TCP and for UDP. With port 0 it is one that is free for both: the system knows only
/// that it is free for TCP on the first address.
fn open_port(
    config: &ServerConfig,
    registry: &Registry,
    engine: &Arc<Engine>,
) -> Result<(Vec<TcpListener>, Vec<SocketAddr>, Front), TrafficError> {
    let mut left = if config.port == 0 { PORT_CHOICES } else { 1 };
    loop {
        left -= 1;
        let opened = listen(&config.bind, config.port).and_then(|(listeners, bound)| {
            let strangers = config.strangers.clone();
            let front = Front::start(&bound, registry.clone(), engine.clone(), strangers)?;
            Ok((listeners, bound, front))
        });
        match opened {
            Err(TrafficError::Listen { .. }) if left > 0 => {}
            opened => return opened,
        }
    }
}

async fn run(
    config: ServerConfig,
    stop: Stop,
    observe: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    // Ten thousand half-open connections need as many descriptors; fewer show as refusals later.
    let _ = weir_net::thread::raise_descriptor_limit(65_536);
    check_scheduling(config.scheduling)?;
    let files = config.files.as_ref().map(Files::open).transpose()?;
    let local = config.unix.as_deref().map(unix::Listener::open).transpose()?;
    let engine = Arc::new(Engine::start(
        config.cpus.as_deref(),
        crate::engine::asked(config.scheduling, config.spin),
        config.clock.clone(),
    )?);
    let registry: Registry = Arc::new(Mutex::new(HashMap::new()));
    let (listeners, bound, front) = match &config.unix {
        Some(_) => (vec![], vec![], Front::start(&[], registry.clone(), engine.clone(), None)?),
        None => open_port(&config, &registry, &engine)?,
    };
    let log = config.packet_log.as_ref().map(|path| crate::log::open(path)).transpose()?;
    let (events, mut inbox) = mpsc::unbounded_channel();
    let port = bound.first().map_or(config.port, SocketAddr::port);
    let mut addresses: Vec<Address> = bound.into_iter().map(Address::from).collect();
    addresses.extend(local.as_ref().map(unix::Listener::address));
    observe(ServerEvent::Listening { addresses, open: config.key.is_none() });
    let shared = Arc::new(Shared {
        is_taken: AtomicBool::new(false),
        data_ports: DataPortPool::new(config.data_ports.clone()),
        xdp: xdp::Receivers::default(),
        next_session: AtomicU64::new(u64::from(u32::from_be_bytes(crate::key::random()?))),
        config,
        engine,
        registry,
        front,
        load: Arc::default(),
        events,
        log,
        files,
        stop: stop.clone(),
        port,
    });
    let (closed, mut sessions_closed) = mpsc::unbounded_channel::<()>();
    let mut accepting = vec![];
    for listener in listeners {
        let listener = tokio::net::TcpListener::from_std(listener.into())
            .map_err(|e| TrafficError::system("listening", e))?;
        let (shared, closed) = (shared.clone(), closed.clone());
        accepting.push(tokio::spawn(accept(listener, shared, Some(closed))));
    }
    if let Some(local) = local {
        accepting.push(tokio::spawn(local.accept(shared.clone(), closed.clone())));
    }
    drop(closed);
    let idle = shared.config.idle_timeout;
    let mut idle_since = tokio::time::Instant::now();
    loop {
        let idle_end = async {
            match idle {
                Some(limit) => tokio::time::sleep_until(idle_since + limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(event) = inbox.recv() => {
                idle_since = tokio::time::Instant::now();
                observe(event);
            }
            Some(()) = sessions_closed.recv() => {
                if shared.config.one_off {
                    break;
                }
            }
            () = idle_end => {
                if shared.load.sessions.load(Ordering::Relaxed) == 0 {
                    break;
                }
                idle_since = tokio::time::Instant::now();
            }
            _ = stop.asked(1) => break,
        }
    }
    for task in &accepting {
        task.abort();
    }
    // Sessions observe the stop request themselves and report; a second request, or 2 s, ends them.
    let ending = async {
        while shared.load.sessions.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = ending => {}
        () = tokio::time::sleep(Duration::from_secs(2)) => {}
        _ = stop.asked(2) => {}
    }
    while let Ok(event) = inbox.try_recv() {
        observe(event);
    }
    for session in lock(&shared.registry).drain().filter_map(|(_, s)| s.upgrade()) {
        session.close(&shared.engine);
    }
    shared.log.as_ref().map_or(Ok(()), |log| lock(log).flush())
}

/// Accepts connections; each has its own task and its own time limit for the hello. Without `closed`, only data
/// connections are accepted.
pub(crate) async fn accept(
    listener: tokio::net::TcpListener,
    shared: Arc<Shared>,
    closed: Option<mpsc::UnboundedSender<()>>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Above the limit the newest is dropped, so that older ones can complete.
                let Some(share) =
                    Share::take(&shared.load, |l| &l.half_open, 1, shared.config.limits.half_open)
                else {
                    continue;
                };
                tokio::spawn(connection(
                    stream,
                    peer.into(),
                    shared.clone(),
                    share,
                    closed.clone(),
                ));
            }
            // Out of descriptors, or a connection that was closed already: continue after a moment.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(
    mut stream: TcpStream,
    peer: Address,
    shared: Arc<Shared>,
    share: Share,
    closed: Option<mpsc::UnboundedSender<()>>,
) {
    let limit = Duration::from_secs(shared.config.limits.hello_seconds);
    let deadline = tokio::time::Instant::now() + limit;
    let Ok(read) = tokio::time::timeout_at(deadline, read_greeting(&mut stream)).await else {
        return;
    };
    let preface = match read {
        Ok(preface) => preface,
        Err(begun) => return give_away(&shared, stream, peer, begun),
    };
    match preface {
        Preface::Control { mode } => {
            let Some(closed) = closed else { return };
            let noise = mode == ControlMode::Noise;
            if control::session(stream, peer, &shared, noise, deadline, share).await {
                let _ = closed.send(());
            }
        }
        Preface::Data(preface) => {
            drop(share);
            let session =
                lock(&shared.registry).get(&preface.session).and_then(std::sync::Weak::upgrade);
            // An unknown connection is closed without a message.
            let Some(session) = session else { return };
            let spec = match session.admit(&shared.engine, &preface, &peer) {
                Ok(Admitted::Flow(spec)) => spec,
                Ok(Admitted::Transaction(spec)) => {
                    let most = shared.config.limits.flows;
                    let share = Share::take(&shared.load, |l| &l.flows, 1, most);
                    if let (Some(share), Ok(stream)) = (share, stream.into_std()) {
                        let stream = stream.into();
                        let _ = session.transaction(&shared.engine, spec, stream, share, limit);
                    }
                    return;
                }
                Err(_) => return,
            };
            let Some(transport) = transport::passed(spec) else {
                if let Ok(stream) = stream.into_std() {
                    let _ = session.attach_stream(&shared.engine, spec, stream.into());
                }
                return;
            };
            let take = || transport.take(spec, borrow(&stream), !Session::sends(spec));
            let taken = stream.async_io(tokio::io::Interest::READABLE, take);
            if let Ok(Ok(socket)) = tokio::time::timeout_at(deadline, taken).await {
                session.attach_datagrams(&shared.engine, spec.id, socket);
            }
        }
        _ => {}
    }
}

/// Gives a connection that is not Weir's to the one who takes them.
fn give_away(shared: &Shared, stream: TcpStream, peer: Address, begun: Vec<u8>) {
    if let (Some(strangers), Some(peer), false) =
        (&shared.config.strangers, peer.ip(), begun.is_empty())
        && let Ok(stream) = stream.into_std()
    {
        let _ = strangers.try_send(Stranger::Stream { stream: stream.into(), peer, begun });
    }
}

/// Reads exactly the preface and no byte after it. `None`: not Weir's, or closed.
pub(crate) async fn read_preface(stream: &mut TcpStream) -> Option<Preface> {
    read_greeting(stream).await.ok()
}

/// The same; the error is what was read of a connection that is not Weir's, nothing of one that was closed.
async fn read_greeting(stream: &mut TcpStream) -> Result<Preface, Vec<u8>> {
    let mut bytes = [0; DATA_LEN];
    let mut have = 0;
    let mut need = CONTROL_LEN;
    loop {
        let n = stream.read(&mut bytes[have..need]).await.map_err(|_| vec![])?;
        if n == 0 {
            return Err(vec![]);
        }
        have += n;
        match Preface::decode(&bytes[..have]) {
            Preface::NeedMore if have == CONTROL_LEN => need = DATA_LEN,
            Preface::NeedMore => {}
            Preface::Foreign => return Err(bytes[..have].to_vec()),
            Preface::OtherVersion(_) => return Err(vec![]),
            known => return Ok(known),
        }
    }
}

/// Why a port can't be listened on.
fn why_not(error: &weir_net::Error) -> String {
    let source = match error {
        weir_net::Error::System { source, .. } => Some(source.kind()),
        _ => None,
    };
    match source {
        Some(std::io::ErrorKind::AddrInUse) => {
            "the port is in use, perhaps by another server (`ss -lntup` lists them); choose another port".into()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_in_use_for_ipv6_alone_is_refused() {
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        let options = TcpOptions { v6_only: true, ..TcpOptions::default() };
        let Ok(other) = TcpListener::open(any, &options, 1) else {
            return println!("SKIPPED a_port_that_is_in_use_for_ipv6_alone_is_refused: no IPv6");
        };
        let port = other.local_addr().unwrap().port();
        let refused = listen(&[], port).err();
        assert!(
            matches!(&refused, Some(TrafficError::Listen { address, .. }) if address.ip().is_some_and(|a| a.is_ipv6())),
            "{refused:?}"
        );
    }
}
