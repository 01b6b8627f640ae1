//! The log server: the role of ITGLog. A client of D-ITG (`ITGSend -L`, or ITGRecv at the request of `ITGSend -X`) connects,
//! announces a log, and sends the entries of its packets to a port that the server names, over UDP or TCP.
//!
//! The figures of the entries become a record, and no file is written: a client does not choose files of this host. The server
//! sends a byte and a port over the connection, and no datagrams.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_flow::DitgLog;
use weir_model::record::Status;
use weir_model::warning::{Severity, Warning};
use weir_net::tcp::{TcpListener, TcpOptions};
use weir_net::udp::UdpOptions;
use weir_traffic::session::{self, Load, Share};
use weir_traffic::{Limits, ServerEvent, Stop, TrafficError};
use weir_wire::ditg_log::{ENTRY_BYTES, Entry};

use super::codec::{LOG_REQUEST_BYTES, LogRequest};
use crate::sessions::Ended;
use crate::{Protocol, ServeConfig, Server, serving};

/// Declaration of the protocol.
pub(crate) const PROTOCOL: Protocol = Protocol {
    name: "ditg-log",
    port: 9001,
    transports: &["tcp", "udp"],
    command: None,
    client: None,
    serve: Some(open),
    guests: None,
    // Its figures are what clients state, not what this host measured.
    is_served_by_name_only: true,
};

/// Maximum number of packets of a log: 80 MB of memory.
const MAX_PACKETS: u64 = 2_000_000;
/// Maximum number of packets of all open logs.
const MAX_ALL_PACKETS: u64 = 4_000_000;
/// Maximum number of flows of a log: a record has rows for each.
const MAX_FLOWS: usize = 256;
/// Requested receive buffer of datagrams with entries, bytes.
const BUFFER_BYTES: usize = 4 << 20;
/// What the server sends first.
const READY: u8 = 1;
/// Silence after the end of a log, for entries that are still on the way.
const QUIET: Duration = Duration::from_millis(250);
/// Maximum time for these.
const DELIVERY: Duration = Duration::from_secs(10);
/// How often the limits of a log are checked.
const TICK: Duration = Duration::from_millis(250);
/// Bytes that are read in one call.
const READ_BYTES: usize = 1 << 16;

/// State shared by the clients.
struct Shared {
    limits: Limits,
    stop: Stop,
    load: Arc<Load>,
    /// Packets of all open logs.
    packets: AtomicU64,
    events: mpsc::UnboundedSender<ServerEvent>,
    next_session: AtomicU64,
}

impl Shared {
    fn refused(&self, peer: SocketAddr, reason: impl Into<String>) {
        let event = ServerEvent::Refused { peer: peer.into(), reason: reason.into() };
        let _ = self.events.send(event);
    }
}

/// The server before it runs.
struct LogServer {
    streams: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    limits: Limits,
}

/// Listens for clients.
fn open(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    let (streams, addresses) = session::listen_streams(&config.bind, config.port)?;
    Ok(Box::new(LogServer { streams, addresses, limits: config.limits.clone() }))
}

impl Server for LogServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError> {
        crate::runtime()?.block_on(serve(*self, stop, observe))
    }
}

async fn serve(
    server: LogServer,
    stop: &Stop,
    observe: &mut dyn FnMut(ServerEvent),
) -> Result<(), TrafficError> {
    let (events, inbox) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        limits: server.limits,
        stop: stop.clone(),
        load: Arc::default(),
        packets: AtomicU64::new(0),
        events,
        next_session: AtomicU64::new(getrandom::u32().unwrap_or_default().into()),
    });
    let accepting = shared.clone();
    let listening = serving::accept(server.streams, move |stream, peer| {
        tokio::spawn(client(stream, peer, accepting.clone()));
    })?;
    let has_sessions = || shared.load.sessions.load(Ordering::Acquire) > 0;
    serving::until_stopped(inbox, listening, stop, has_sessions, observe).await;
    Ok(())
}

/// Where the entries of a log arrive.
enum Data {
    Datagrams(UdpSocket),
    Listening(tokio::net::TcpListener),
    Stream(TcpStream),
    /// The stream has ended.
    Ended,
}

/// Serves a client.
async fn client(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    let half_open = Share::take(&shared.load, |l| &l.half_open, 1, shared.limits.half_open);
    if half_open.is_none() {
        return;
    }
    let patience = Duration::from_secs(shared.limits.hello_seconds);
    let Ok(Some((mut stream, request))) = tokio::time::timeout(patience, hello(stream)).await
    else {
        return;
    };
    let most = shared.limits.sessions;
    let Some(_share) = Share::take(&shared.load, |l| &l.sessions, 1, most) else {
        return shared.refused(peer, format!("{most} logs are open"));
    };
    drop(half_open);
    let request = match request {
        Ok(request) => request,
        Err(number) => return shared.refused(peer, format!("a log by protocol {number}")),
    };
    let Ok(local) = stream.local_addr() else { return };
    // The same address, which of IPv6 may have a scope.
    let mut at = local;
    at.set_port(0);
    let data = match request.is_udp {
        true => datagrams(at).map(Data::Datagrams),
        false => tokio::net::TcpListener::bind(at).await.map(Data::Listening),
    };
    let port = data.and_then(|data| {
        let at = match &data {
            Data::Datagrams(socket) => socket.local_addr(),
            Data::Listening(listener) => listener.local_addr(),
            Data::Stream(_) | Data::Ended => Ok(local),
        };
        Ok((data, at?.port()))
    });
    let (data, port) = match port {
        Ok(port) => port,
        Err(error) => return shared.refused(peer, format!("a port for its log: {error}")),
    };
    if stream.write_all(&u32::from(port).to_be_bytes()).await.is_err() {
        return;
    }
    let log = Log {
        peer: peer.ip(),
        shared: &shared,
        log: DitgLog::with_max_flows(MAX_FLOWS),
        packets: 0,
        wrong: 0,
        full: None,
        rest: vec![],
        active: Instant::now(),
    };
    let session = shared.next_session.fetch_add(1, Ordering::Relaxed);
    let opened = ServerEvent::SessionOpened { session, peer: peer.into(), flows: 1 };
    let _ = shared.events.send(opened);
    let (record, reason) = log.run(stream, data, &request).await;
    let _ = shared.events.send(ServerEvent::SessionClosed {
        session,
        peer: peer.into(),
        reason,
        report: None,
        record: record.map(Box::new),
    });
}

/// A socket for entries. A client sends those of many packets without a pause.
fn datagrams(at: SocketAddr) -> std::io::Result<UdpSocket> {
    let options = UdpOptions {
        nonblocking: true,
        receive_buffer: Some(BUFFER_BYTES),
        ..UdpOptions::bind(at)
    };
    let socket = weir_net::udp::UdpSocket::open(&options).map_err(std::io::Error::other)?;
    UdpSocket::from_std(socket.into())
}

/// Greets a client and reads which log it announces.
async fn hello(stream: TcpStream) -> Option<(TcpStream, Result<LogRequest, u32>)> {
    let stream: weir_net::tcp::TcpStream = stream.into_std().ok()?.into();
    let _ = stream.set_options(&TcpOptions { nodelay: true, ..serving::watched() });
    let mut stream = TcpStream::from_std(stream.into()).ok()?;
    stream.write_all(&[READY]).await.ok()?;
    let mut bytes = [0; LOG_REQUEST_BYTES];
    stream.read_exact(&mut bytes).await.ok()?;
    Some((stream, LogRequest::parse(&bytes)))
}

/// The log of a client.
struct Log<'a> {
    peer: IpAddr,
    shared: &'a Shared,
    log: DitgLog,
    packets: u64,
    /// Entries that are none, and datagrams that are not of whole entries.
    wrong: u64,
    /// The limit that was exceeded: later entries are not stored.
    full: Option<String>,
    /// The beginning of an entry, of a stream.
    rest: Vec<u8>,
    /// When the client last sent something.
    active: Instant,
}

impl Drop for Log<'_> {
    fn drop(&mut self) {
        self.shared.packets.fetch_sub(self.packets, Ordering::AcqRel);
    }
}

impl Log<'_> {
    /// Receives the entries until the client ends the log; returns their record and the reason of the end.
    async fn run(
        mut self,
        mut control: TcpStream,
        mut data: Data,
        request: &LogRequest,
    ) -> (Option<weir_model::record::Record>, String) {
        let started = Instant::now();
        let shared = self.shared;
        let limits = &shared.limits;
        let partial = |reason: String| Err(Ended::new(Status::Partial, reason));
        let mut ticks = tokio::time::interval(TICK);
        let mut message = [0; LOG_REQUEST_BYTES];
        let mut buffer = vec![0; READ_BYTES];
        let ended = loop {
            tokio::select! {
                // The message that ends the log, or the end of the connection.
                read = control.read(&mut message) => {
                    let is_end = read.is_ok_and(|bytes| bytes > 0);
                    break if is_end { Ok(()) } else { partial("the client closed the connection".into()) };
                }
                () = receive(&mut data, &mut buffer, &mut self) => {}
                _ = ticks.tick() => {
                    let (most, silence) = (limits.session_seconds, limits.silence_seconds);
                    if started.elapsed() >= Duration::from_secs(most) {
                        break partial("the session reached the limit of its time".into());
                    }
                    // ITGSend sends nothing until it has 50 entries: only a client that is gone is silent for longer.
                    if self.active.elapsed() >= Duration::from_secs(most.min(silence.saturating_mul(10))) {
                        break partial(format!("nothing arrived for {} s", self.active.elapsed().as_secs()));
                    }
                }
                reason = shared.stop.asked(1) => {
                    break Err(Ended::new(Status::Interrupted, reason.text()));
                }
            }
        };
        if ended.is_ok() {
            // What was sent before the end may arrive after it.
            let until = Instant::now() + DELIVERY;
            while !matches!(data, Data::Ended) && Instant::now() < until {
                let reading = receive(&mut data, &mut buffer, &mut self);
                if tokio::time::timeout(QUIET, reading).await.is_err() {
                    break;
                }
            }
        }
        let name = &request.name;
        let Ended { status, reason } = match (ended, &self.full) {
            (Ok(()), None) => Ended::new(Status::Complete, format!("the client finished {name}")),
            (Ok(()), Some(limit)) => {
                Ended::new(Status::Partial, format!("{name} was cut off: {limit}"))
            }
            (Err(ended), _) => ended,
        };
        let log = std::mem::take(&mut self.log);
        if log.is_empty() {
            return (None, reason);
        }
        // Millions of packets take a while, in which other logs continue.
        let text = reason.clone();
        let Ok(mut record) = tokio::task::spawn_blocking(move || log.record(status, text)).await
        else {
            return (None, reason);
        };
        if request.is_udp {
            let text =
                "the entries of the log arrived as datagrams: a lost entry counts as a lost packet";
            record.warnings.push(Warning::new("log-over-udp", Severity::Info, text));
        }
        if self.wrong > 0 {
            let text = format!("{} entries of the log were invalid and were left out", self.wrong);
            record.warnings.push(Warning::new("entries-invalid", Severity::Warning, text));
        }
        (Some(record), reason)
    }

    /// Takes bytes of a stream.
    fn stream(&mut self, mut bytes: &[u8]) {
        self.active = Instant::now();
        while !bytes.is_empty() {
            let (part, more) = bytes.split_at(bytes.len().min(ENTRY_BYTES - self.rest.len()));
            self.rest.extend_from_slice(part);
            bytes = more;
            if let Some(entry) = self.rest.first_chunk().copied() {
                self.rest.clear();
                self.entry(&entry);
            }
        }
    }

    /// Takes a datagram.
    fn datagram(&mut self, bytes: &[u8]) {
        self.active = Instant::now();
        let entries = bytes.chunks_exact(ENTRY_BYTES);
        self.wrong += u64::from(!entries.remainder().is_empty());
        for entry in entries.filter_map(|entry| entry.first_chunk()) {
            self.entry(entry);
        }
    }

    fn entry(&mut self, bytes: &[u8; ENTRY_BYTES]) {
        let Ok(entry) = Entry::parse_sent(bytes) else {
            self.wrong += 1;
            return;
        };
        if self.full.is_some() {
            return;
        }
        if self.packets >= MAX_PACKETS {
            self.full = Some(format!("more than {MAX_PACKETS} packets"));
            return;
        }
        if self.shared.packets.fetch_add(1, Ordering::AcqRel) >= MAX_ALL_PACKETS {
            self.shared.packets.fetch_sub(1, Ordering::AcqRel);
            self.full = Some(format!("more than {MAX_ALL_PACKETS} packets in all open logs"));
            return;
        }
        self.packets += 1;
        self.full = self.log.push(&entry).err().map(|error| error.to_string());
    }
}

/// Receives once what has arrived, or waits for it.
async fn receive(data: &mut Data, buffer: &mut [u8], log: &mut Log<'_>) {
    let is_peer =
        |from: SocketAddr, log: &Log<'_>| from.ip().to_canonical() == log.peer.to_canonical();
    match data {
        Data::Datagrams(socket) => match socket.recv_from(buffer).await {
            Ok((bytes, from)) if is_peer(from, log) => log.datagram(&buffer[..bytes]),
            Ok(_) => {}
            Err(_) => tokio::time::sleep(TICK).await,
        },
        Data::Listening(listener) => match listener.accept().await {
            Ok((stream, from)) if is_peer(from, log) => *data = Data::Stream(stream),
            Ok(_) => {}
            Err(_) => tokio::time::sleep(TICK).await,
        },
        Data::Stream(stream) => match stream.read(buffer).await {
            Ok(bytes) if bytes > 0 => log.stream(&buffer[..bytes]),
            _ => *data = Data::Ended,
        },
        Data::Ended => std::future::pending().await,
    }
}
