//! The command interface of ITGSend (`ITGSend -Q`, for ITGManager): a datagram has the options of a flow, which this host then
//! sends, and two replies say when it starts and when it has ended.
//!
//! A datagram proves nothing of its source, and what it starts is traffic to another host. So the interface is served only with
//! lists of managers and of receivers, a flow goes only to an address in the second list whose receiver accepts it on its
//! signalling connection, requests from ports of services are ignored, and a reply is never longer than its request.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use weir_model::impairment::Prefixes;
use weir_model::plan::{Connection, Plan};
use weir_traffic::session::{Load, Share, WorkerConfig};
use weir_traffic::{ClientConfig, Event, Limits, ServerEvent, Stop, StopReason, TrafficError};

use super::client;
use super::script::ditg_script;
use crate::limit::AddressLimits;
use crate::reflector::{self, Counts, FIRST_CLIENT_PORT};
use crate::serving::has;
use crate::{Protocol, ServeConfig, Server, serving};

/// Declaration of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: "ditg-manager",
    port: 8998,
    transports: &["udp"],
    command: None,
    client: None,
    serve: Some(open),
    guests: None,
    // It makes this host send.
    is_served_by_name_only: true,
};

/// Who may command this host, and to which addresses it then sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Managers {
    /// The managers' addresses.
    pub from: Prefixes,
    /// The receivers' addresses.
    pub to: Prefixes,
}

/// Maximum length of a command, bytes: that of ITGSend.
const MAX_BYTES: usize = 300;
/// Types of replies: a flow starts, and has ended.
const STARTED: u8 = 1;
const ENDED: u8 = 2;
/// Bytes of a reply before its text.
const HEAD_BYTES: usize = 8;
/// Commands of one address per second, on average, and without a pause.
const COMMANDS_PER_SECOND: u64 = 1;
const BURST: u64 = 10;
/// Time for the receiver of a stopped flow to close it, within that for a stopped server to report.
const CLOSING: Duration = Duration::from_secs(1);
/// Time for a flow to end after that.
const ENDING: Duration = Duration::from_secs(5);

/// The test that a command means.
///
/// # Errors
/// The reason for which it is not run.
fn commanded(command: &str, to: &Prefixes) -> Result<(Plan, IpAddr), String> {
    if command.chars().any(char::is_control) {
        return Err("a command with control characters".into());
    }
    let text = ditg_script(command)
        .map_err(|e| format!("{} {}: expected {}", e.option, e.given, e.accepted))?;
    let mut plan = Plan::parse(&text).map_err(|error| error.to_string())?;
    if plan.connections.is_empty() {
        return Err("an empty command".into());
    }
    let has_ports = |connection: &Connection| !connection.transport.echoes();
    if !plan.connections.iter().all(has_ports) {
        return Err("-T ICMP: expected UDP or TCP".into());
    }
    // A name may have another address at its next resolution.
    let host = plan.host.take().unwrap_or_default();
    let address: IpAddr =
        host.parse().map_err(|_| format!("-a {host}: expected an address, not a name"))?;
    if !has(to, address) {
        return Err(format!("-a {host}: no receiver to which managers may send"));
    }
    let data = plan.connections.iter().filter_map(|connection| connection.port);
    if let Some(port) = data.chain(plan.port).find(|port| *port < FIRST_CLIENT_PORT) {
        return Err(format!("port {port}: expected 1024 to 65535"));
    }
    let own = plan.connections.iter().filter_map(|connection| connection.client_port());
    match own.filter(|port| *port > 0).find(|port| *port < FIRST_CLIENT_PORT) {
        Some(port) => Err(format!("-sp {port}: expected 1024 to 65535")),
        None => Ok((plan, address)),
    }
}

/// A reply to a command, as long as it; `None`: the command is too short. ITGSend's replies are longer, with the whole text.
fn reply(kind: u8, command: &[u8]) -> Option<Vec<u8>> {
    let text = &command[..command.len().checked_sub(HEAD_BYTES)?];
    let mut bytes = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    // ITGSend states the length at another place of each.
    match kind {
        STARTED => bytes[2..4].copy_from_slice(&(text.len() as u16).to_le_bytes()),
        _ => bytes[4..8].copy_from_slice(&(text.len() as u32).to_le_bytes()),
    }
    bytes.extend_from_slice(text);
    Some(bytes)
}

/// The server before it runs.
struct Manager {
    sockets: Vec<(weir_net::udp::UdpSocket, SocketAddr)>,
    managers: Managers,
    limits: Limits,
    workers: WorkerConfig,
}

/// Listens for commands.
fn open(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    let Some(managers) = config.managers.clone() else {
        return Err(TrafficError::Input {
            field: "ditg_managers",
            given: "none".into(),
            accepted: "the addresses of managers, with those of receivers".into(),
        });
    };
    Ok(Box::new(Manager {
        sockets: reflector::listen(&config.bind, config.port)?,
        managers,
        limits: config.limits.clone(),
        workers: config.workers.clone(),
    }))
}

impl Server for Manager {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|(_, address)| *address).collect()
    }

    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError> {
        crate::runtime()?.block_on(serve(*self, stop, observe))
    }
}

/// State shared by the sockets and the flows.
struct Shared {
    managers: Managers,
    limits: Limits,
    workers: WorkerConfig,
    stop: Stop,
    load: Arc<Load>,
    events: mpsc::UnboundedSender<ServerEvent>,
    next_session: AtomicU64,
    commands: Mutex<AddressLimits>,
    /// When it began: the start of the time of these limits.
    began: Instant,
    counts: Counts,
}

impl Shared {
    /// Whether a command of `address` is within its limit; counts it, if so.
    fn permits(&self, address: IpAddr) -> bool {
        let now_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // A panic leaves no invalid limits.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).permits(address, now_ns)
    }
}

async fn serve(
    server: Manager,
    stop: &Stop,
    observe: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    let (events, inbox) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        managers: server.managers,
        limits: server.limits,
        workers: server.workers,
        stop: stop.clone(),
        load: Arc::default(),
        events,
        next_session: AtomicU64::new(getrandom::u32().unwrap_or_default().into()),
        commands: Mutex::new(AddressLimits::of(COMMANDS_PER_SECOND, BURST)),
        began: Instant::now(),
        counts: Counts::default(),
    });
    let mut listening = tokio::task::JoinSet::new();
    for (socket, _) in server.sockets {
        let socket = UdpSocket::from_std(socket.into()).map_err(serving::not_listening)?;
        listening.spawn(receive(Arc::new(socket), shared.clone()));
    }
    let has_sessions = || shared.load.sessions.load(Ordering::Acquire) > 0;
    serving::until_stopped(inbox, listening, stop, has_sessions, observe).await;
    observe(shared.counts.event());
    Ok(())
}

/// Receives commands.
async fn receive(socket: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut buffer = [0; MAX_BYTES + 1];
    loop {
        let Ok((bytes, from)) = socket.recv_from(&mut buffer).await else {
            // An ICMP error of a reply, or no memory.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        shared.counts.requests.fetch_add(1, Ordering::Relaxed);
        if from.port() < FIRST_CLIENT_PORT || !has(&shared.managers.from, from.ip()) {
            // No event: its source is not verified, and there may be any number of these.
            continue;
        }
        // Each command costs its parsing and an event, and its source can be forged.
        if !shared.permits(from.ip()) {
            shared.counts.limited.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        if bytes <= MAX_BYTES {
            command(&buffer[..bytes], from, &socket, &shared);
        }
    }
}

/// Starts the flow of a command.
fn command(bytes: &[u8], from: SocketAddr, socket: &Arc<UdpSocket>, shared: &Arc<Shared>) {
    let refused = |reason: String| {
        let _ = shared.events.send(ServerEvent::Refused { peer: from.into(), reason });
    };
    let text = String::from_utf8_lossy(bytes);
    let (plan, to) = match commanded(text.trim_end_matches('\0').trim(), &shared.managers.to) {
        Ok(commanded) => commanded,
        Err(reason) => return refused(reason),
    };
    let most = shared.limits.sessions;
    let Some(share) = Share::take(&shared.load, |l| &l.sessions, 1, most) else {
        return refused(format!("{most} flows are being sent"));
    };
    let mut config = ClientConfig::new(plan, to.to_string());
    config.cpus.clone_from(&shared.workers.cpus);
    config.scheduling = shared.workers.scheduling;
    config.spin = shared.workers.spin;
    config.clock = shared.workers.clock.clone();
    tokio::spawn(send(bytes.to_vec(), (config, from), socket.clone(), (shared.clone(), share)));
}

/// Stops a flow and waits for its record: a second request ends it even if its receiver does not close it. `None`: it does not
/// end.
async fn stopped<T>(
    stopping: &Stop,
    reason: StopReason,
    test: &mut JoinHandle<T>,
) -> Option<Result<T, JoinError>> {
    for patience in [CLOSING, ENDING] {
        stopping.request(reason);
        if let Ok(ended) = tokio::time::timeout(patience, &mut *test).await {
            return Some(ended);
        }
    }
    None
}

/// Sends the flow of a command.
async fn send(
    command: Vec<u8>,
    (config, from): (ClientConfig, SocketAddr),
    socket: Arc<UdpSocket>,
    (shared, share): (Arc<Shared>, Share),
) {
    let answer = async |kind| {
        if let Some(reply) = reply(kind, &command) {
            let counter = match socket.send_to(&reply, from).await {
                Ok(_) => &shared.counts.replies,
                Err(_) => &shared.counts.unsent,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (session, peer) = (shared.next_session.fetch_add(1, Ordering::Relaxed), from.into());
    let own = Stop::new();
    let stopping = own.clone();
    let (started, mut starting) = mpsc::unbounded_channel();
    // A test has a runtime of its own. Its share is taken for as long as its thread runs, and until its record is sent.
    let mut test = tokio::task::spawn_blocking(move || {
        let result = client::run(&config, &own, &mut |event| {
            if let Event::Started { .. } = event {
                let _ = started.send(());
            }
        });
        (result, share)
    });
    let limit = Duration::from_secs(shared.limits.session_seconds);
    let mut limited = std::pin::pin!(tokio::time::sleep(limit));
    let begin = async || {
        answer(STARTED).await;
        let opened = ServerEvent::SessionOpened { session, peer: from.into(), flows: 1 };
        let _ = shared.events.send(opened);
    };
    let mut has_started = false;
    let ended = loop {
        tokio::select! {
            Some(()) = starting.recv(), if !has_started => {
                has_started = true;
                begin().await;
            }
            ended = &mut test => break Some(ended),
            () = &mut limited => break stopped(&stopping, StopReason::Terminated, &mut test).await,
            reason = shared.stop.asked(1) => break stopped(&stopping, reason, &mut test).await,
        }
    };
    // A short flow may end before its start is noticed here.
    if !has_started && starting.try_recv().is_ok() {
        has_started = true;
        begin().await;
    }
    let (record, reason, _share) = match ended {
        Some(Ok((Ok(record), share))) => {
            let reason = record.end_reason.clone();
            (Some(record), reason, Some(share))
        }
        Some(Ok((Err(failure), share))) => {
            (failure.partial.map(|record| *record), failure.error.to_string(), Some(share))
        }
        Some(Err(_)) | None => (None, "the flow did not end".into(), None),
    };
    if !has_started {
        let _ = shared.events.send(ServerEvent::Refused { peer, reason });
        return;
    }
    answer(ENDED).await;
    let record = record.map(Box::new);
    let closed = ServerEvent::SessionClosed { session, peer, reason, report: None, record };
    let _ = shared.events.send(closed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(text: &str) -> Prefixes {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_of_a_prefix_in_their_own_family() {
        let list = prefixes("192.0.2.0/24,2001:db8::/32");
        for (address, is_of) in [
            ("192.0.2.7", true),
            ("::ffff:192.0.2.7", true),
            ("192.0.3.7", false),
            ("2001:db8::1", true),
            ("2001:db9::1", false),
        ] {
            assert_eq!(has(&list, address.parse().unwrap()), is_of, "{address}");
        }
        assert!(!has(&prefixes("::/0"), "192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn a_flow_goes_to_listed_receivers_alone() {
        let to = prefixes("192.0.2.0/24");
        let of = |command: &str| commanded(command, &to);
        let (plan, address) = of("-a 192.0.2.9 -T UDP -C 100 -c 200 -t 500").unwrap();
        assert_eq!((plan.connections.len(), address.to_string().as_str()), (1, "192.0.2.9"));
        for refused in [
            "",
            "-T UDP",
            "-a 192.0.3.9 -T UDP",
            "-a host.example -T UDP",
            "-a 192.0.2.9 -Sdp 22",
            "-a 192.0.2.9 -rp 53",
            "-a 192.0.2.9 -sp 53",
            "-a 192.0.2.9\n-a 198.51.100.1",
            "-a 192.0.2.9 -a 198.51.100.1 -T FOO",
            "-a 192.0.2.9 -T ICMP",
            "-a 192.0.2.9 -L 198.51.100.1",
            "-a 192.0.2.9 -H",
        ] {
            assert!(of(refused).is_err(), "{refused}");
        }
        assert!(of("-a 192.0.2.9 -sp 1024").is_ok());
        // The last one counts, as in a script.
        assert!(of("-a 192.0.2.9 -a 198.51.100.1").is_err());
    }

    #[test]
    fn a_reply_is_as_long_as_its_command() {
        let command = b"-a 127.0.0.1 -T UDP -C 20 -c 100 -t 500";
        for kind in [STARTED, ENDED] {
            let reply = reply(kind, command).unwrap();
            assert_eq!(reply.len(), command.len());
            assert_eq!((reply[0], &reply[8..18]), (kind, &command[..10]));
        }
        // As ITGSend -Q 2.8.1 replies, but for the length.
        assert_eq!(reply(STARTED, command).unwrap()[..4], [1, 0, 31, 0]);
        assert_eq!(reply(ENDED, command).unwrap()[..8], [2, 0, 0, 0, 31, 0, 0, 0]);
        assert_eq!(reply(ENDED, b"-a 1"), None);
    }
}
