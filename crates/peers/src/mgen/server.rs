//! The receiver: each flow of a source is a session, which ends when nothing has arrived for some seconds, and so is each
//! stream, until its sender closes it. Nothing is sent.
//!
//! Flows of one source may share a port. The socket of its first session is connected to the source and gets the datagrams of
//! all of them, so that they are counted in the order of their arrival; it passes those of other flows on.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use weir_model::plan::{
    ConnectionFields, Direction, FlowSpec, HeaderFormat, Plan, Switch, Transport,
};
use weir_model::units::{ByteSize, SendRate, Span};
use weir_model::warning::{Severity, Warning};
use weir_net::poll::{Events, Interest, Poller, Waker};
use weir_net::tcp::TcpListener;
use weir_net::udp::{RecvBatch, RecvMode, UdpSocket};
use weir_traffic::session::{self, End, Numbering, Workers};
use weir_traffic::{ServerEvent, Stop, TrafficError};

use super::codec::{Belongs, MAX_BYTES, Series};
use super::opening::{Opening, OwnMessages, Passed, Read};
use crate::sessions::{
    self, Bounds, DATAGRAM_SILENCE, SessionEvent, SessionKind, Shared, announce, begin, counted,
    new_end, spec,
};
use crate::{ServeConfig, Server};

/// How often the thread checks whether it must stop, ns.
const LOOK_NS: u64 = 100_000_000;
/// Receive calls on one socket before the other sockets are served.
const TURN: usize = 8;
/// Messages per receive call.
const MESSAGES: usize = 16;
/// Receive calls that empty a socket when a session begins, so that its datagrams are counted in the order of their arrival.
const DRAINS: usize = 64;
/// Maximum number of datagrams that wait for their session.
pub(super) const MAX_WAITING: usize = 1024;
/// The one flow of a session.
pub(super) const FLOW: u32 = 1;
/// Receive buffer of each session: 2 GiB for the usual 64 of them.
const BUFFER: ByteSize = ByteSize(32 << 20);
/// Bytes per read of a stream.
const READ: ByteSize = ByteSize(64 << 10);
/// Token of the waker.
const PASSED: u64 = u64::MAX;

/// The plan of a received flow.
fn plan() -> Plan {
    let fields = ConnectionFields {
        transport: Transport::udp().name(),
        direction: Direction::Reverse,
        header: HeaderFormat::Mgen,
        payload: Some(ByteSize(MAX_BYTES).into()),
        rate: Some(SendRate::UNLIMITED),
        duration: Some(Span(0)),
        window: Some(BUFFER),
        // The flow of each datagram is looked at.
        gro: Some(Switch::Off),
        ..ConnectionFields::default()
    };
    Plan { latency: false, connections: vec![fields.into()], ..Plan::default() }
}

/// The plan of a received stream, whose messages are not read: its bytes are counted.
fn stream_plan() -> Plan {
    let fields = ConnectionFields {
        direction: Direction::Reverse,
        payload: Some(READ.into()),
        rate: Some(SendRate::UNLIMITED),
        duration: Some(Span(0)),
        ..ConnectionFields::default()
    };
    Plan { latency: false, connections: vec![fields.into()], ..Plan::default() }
}

/// The server before it runs.
struct Mgen {
    streams: Vec<TcpListener>,
    sockets: Vec<(UdpSocket, SocketAddr)>,
    workers: Workers,
    bounds: Bounds,
}

/// Listens for messages.
pub(super) fn open(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let addresses = if config.bind.is_empty() { &any[..] } else { &config.bind };
    let plan = plan();
    let mut sockets: Vec<(UdpSocket, SocketAddr)> = vec![];
    for ip in addresses {
        let port = sockets.first().map_or(config.port, |(_, bound)| bound.port());
        let address = SocketAddr::new(*ip, port);
        let failed = |reason: String| TrafficError::Listen { address: address.into(), reason };
        let opened =
            session::open_datagrams(&plan, &spec(&plan, address), false, Some(address), None)
                .map_err(|error| failed(error.to_string()))
                .and_then(|socket| {
                    let bound = socket.local_addr().map_err(|error| failed(error.to_string()))?;
                    Ok((socket, bound))
                });
        match opened {
            Ok(bound) => sockets.push(bound),
            // A host without IPv6 is served over IPv4.
            Err(_) if config.bind.is_empty() && ip.is_ipv6() => {}
            Err(error) => return Err(error),
        }
    }
    // Where the system has chosen the port, that of datagrams.
    let port = sockets.first().map_or(config.port, |(_, bound)| bound.port());
    let (streams, _) = session::listen_streams(&config.bind, port)?;
    Ok(Box::new(Mgen {
        streams,
        sockets,
        workers: Workers::start(&config.workers)?,
        bounds: Bounds { is_over_by_silence: true, ..Bounds::of(&config.limits) },
    }))
}

impl Server for Mgen {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|(_, address)| *address).collect()
    }

    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError> {
        let Mgen { streams, sockets, workers, bounds } = *self;
        let dropped: Arc<AtomicU64> = Arc::default();
        let front = |shared: &Arc<Shared>| Front::start(sockets, shared.clone(), dropped.clone());
        let mut on_event = |mut event: SessionEvent| {
            if let SessionEvent::Closed(finished) = &mut event
                && finished.spec.connection.transport.datagrams()
            {
                finished.report.warnings.extend(lost_here(dropped.swap(0, Ordering::Relaxed)));
            }
            observe(event.of_server(super::PROTOCOL.name, plan_of, bounds.sessions));
            true
        };
        let receiving = sessions::receive(
            (streams, stream_plan()),
            workers,
            (bounds, false),
            stop,
            front,
            &mut on_event,
        );
        crate::runtime()?.block_on(receiving)
    }
}

/// A warning of datagrams that arrived and were not counted.
fn lost_here(datagrams: u64) -> Option<Warning> {
    let text = "datagrams of flows that share a source port arrived faster than they could be assigned to their flows, and count as lost";
    let warning = Warning::new("datagrams-not-assigned", Severity::Warning, text);
    (datagrams > 0).then(|| warning.with_value(datagrams as f64, 0.0))
}

/// The plan of a session. That of datagrams has the number of their flow as the name of its connection.
fn plan_of(spec: &FlowSpec) -> Plan {
    if !spec.connection.transport.datagrams() {
        return stream_plan();
    }
    let mut plan = plan();
    plan.connections[0].name.clone_from(&spec.name);
    plan
}

/// The thread that receives datagrams without a session. A session has its own socket, connected to its source and
/// read by the workers; datagrams that arrive here before that socket is connected are delivered to the session.
struct Front {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Front {
    fn start(
        sockets: Vec<(UdpSocket, SocketAddr)>,
        shared: Arc<Shared>,
        dropped: Arc<AtomicU64>,
    ) -> Result<Front, TrafficError> {
        let failed =
            |source| TrafficError::System { operation: "receiving datagrams".into(), source };
        let poller = Poller::new().map_err(failed)?;
        let waker = Waker::new(&poller, PASSED).map_err(failed)?;
        for (token, (socket, _)) in (0..).zip(&sockets) {
            poller.add(socket, token, Interest::READ).map_err(failed)?;
        }
        let (passing, passed) = sync_channel(MAX_WAITING);
        let sources = Sources {
            known: HashMap::new(),
            waiting: VecDeque::new(),
            shared: shared.clone(),
            tasks: Handle::current(),
            plan: plan(),
            passing,
            passed,
            waker: waker.clone(),
            dropped,
        };
        let thread = std::thread::Builder::new()
            .name("weir-datagrams".into())
            .spawn(move || sources.run(&sockets, &poller))
            .map_err(failed)?;
        Ok(Front { shared, waker, thread: Some(thread) })
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A flow of a source that has or had a session.
struct Known {
    /// Its session; a finished one no longer upgrades.
    session: Weak<End>,
    series: Series,
    /// The address of the server's socket to which it sends.
    local: SocketAddr,
    /// When the session ended at its time limit, or a later datagram arrived, by the workers' clock, ns; 0 before.
    cut_off_ns: Arc<AtomicU64>,
}

impl Known {
    /// Whether the session was ended at its time limit and the source still sends, `now_ns`.
    fn is_cut_off(&self, now_ns: u64) -> bool {
        let last = self.cut_off_ns.load(Ordering::Acquire);
        last != 0 && Duration::from_nanos(now_ns.saturating_sub(last)) < DATAGRAM_SILENCE
    }
}

/// The sources of datagrams of a server.
struct Sources {
    known: HashMap<(SocketAddr, u32), Known>,
    /// Datagrams that have been read and not handled.
    waiting: VecDeque<(SocketAddr, Read)>,
    shared: Arc<Shared>,
    tasks: Handle,
    plan: Plan,
    passing: SyncSender<Passed>,
    passed: Receiver<Passed>,
    waker: Waker,
    dropped: Arc<AtomicU64>,
}

impl Sources {
    fn run(mut self, sockets: &[(UdpSocket, SocketAddr)], poller: &Poller) {
        let mut events = Events::new(16);
        let mut batch = RecvBatch::new(MESSAGES, 1 << 16);
        while !self.shared.is_ending.load(Ordering::Acquire) {
            let _ = poller.wait(&mut events, Some(LOOK_NS));
            for event in events.iter() {
                let Some(socket) = sockets.get(event.token as usize) else {
                    self.waker.clear();
                    continue;
                };
                for _ in 0..TURN {
                    let is_empty = self.read(&socket.0, &mut batch);
                    while let Some((from, read)) = self.waiting.pop_front() {
                        self.take(socket, from, read, &mut batch);
                    }
                    if is_empty {
                        break;
                    }
                }
            }
            for _ in 0..MAX_WAITING {
                let Ok((from, read)) = self.passed.try_recv() else { break };
                // Of the socket to which its source sends: that of the session that has passed it on.
                let local = self.known.iter().find(|((source, _), _)| *source == from);
                let local = local.map(|(_, known)| known.local);
                let socket = sockets.iter().find(|(_, address)| Some(*address) == local);
                if let Some(socket) = socket {
                    self.take(socket, from, read, &mut batch);
                    // What opening a session has read.
                    while let Some((from, read)) = self.waiting.pop_front() {
                        self.take(socket, from, read, &mut batch);
                    }
                }
            }
        }
    }

    /// Reads datagrams once; returns whether there are no more.
    fn read(&mut self, socket: &UdpSocket, batch: &mut RecvBatch) -> bool {
        // Reading a pending ICMP error clears it.
        let Ok(got) = batch.recv(socket, RecvMode::DontWait) else { return true };
        let mut seen = vec![];
        for message in batch.messages() {
            let is_first = !seen.contains(&message.from);
            if is_first {
                seen.push(message.from);
            }
            let arrival = self.shared.workers.arrival(message.kernel_realtime_ns, is_first);
            match self.waiting.len() < MAX_WAITING {
                true => self.waiting.push_back((message.from, (message.data.to_vec(), arrival))),
                false => {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        got < batch.capacity()
    }

    /// Reads a socket until it is empty.
    fn drain(&mut self, socket: &UdpSocket, batch: &mut RecvBatch) {
        for _ in 0..DRAINS {
            if self.read(socket, batch) {
                break;
            }
        }
    }

    /// Handles one datagram that no session has counted. One that is no message is dropped, and no event names its source,
    /// whose address is not verified.
    fn take(
        &mut self,
        socket: &(UdpSocket, SocketAddr),
        from: SocketAddr,
        (datagram, arrival): Read,
        batch: &mut RecvBatch,
    ) {
        let Some(series) = Series::begun_by(&datagram) else { return };
        if let Some(known) = self.known.get_mut(&(from, series.flow)) {
            if let Some(end) = known.session.upgrade() {
                if known.series.belongs(&datagram) == Belongs::Yes {
                    end.deliver(FLOW, &datagram, arrival);
                }
                return;
            }
            if known.is_cut_off(arrival.at_ns) {
                // A new session would undo the limit.
                return known.cut_off_ns.store(arrival.at_ns, Ordering::Release);
            }
        }
        self.open(socket, from, series, (datagram, arrival), batch);
    }

    /// Opens the session of a flow with its first datagram. Over the limit or without a descriptor the datagram is dropped.
    fn open(
        &mut self,
        (socket, local): &(UdpSocket, SocketAddr),
        from: SocketAddr,
        mut series: Series,
        first: Read,
        batch: &mut RecvBatch,
    ) {
        let Some(session) = self.shared.grant(SessionKind::Datagrams) else { return };
        let name = series.flow.to_string();
        let spec = FlowSpec { name, ..spec(&self.plan, from) };
        let mut of_source = self.known.iter().filter(|((source, _), _)| *source == from);
        let is_further = of_source.any(|(_, known)| known.session.strong_count() > 0);
        // Two sockets for one source would be two queues, between which the order is lost: that of a further flow gets nothing.
        let at = if is_further { SocketAddr::new(local.ip(), 0) } else { *local };
        let opened = session::open_datagrams(&self.plan, &spec, false, Some(at), Some(from));
        let Ok(own) = opened else { return self.shared.close(SessionKind::Datagrams) };
        // From now on the source's datagrams arrive on this socket, on which those of any source may have arrived before.
        self.drain(socket, batch);
        self.drain(&own, batch);
        let mut early = vec![first];
        for (source, read) in std::mem::take(&mut self.waiting) {
            match source == from && series.belongs(&read.0) == Belongs::Yes {
                true => early.push(read),
                false => self.waiting.push_back((source, read)),
            }
        }
        early.sort_by_key(|(_, arrival)| arrival.at_ns);
        let numbering = Numbering { flow: None, first: series.first.into() };
        let mut end = new_end(&self.shared, &counted(&self.plan), from).with_numbering(numbering);
        let opening = Arc::<Opening>::default();
        let signals = OwnMessages {
            series,
            opening: opening.clone(),
            from,
            passed: self.passing.clone(),
            waker: self.waker.clone(),
            dropped: self.dropped.clone(),
        };
        end.datagrams(&spec, false, own, Some(Box::new(signals)));
        let end = Arc::new(end);
        let intervals = begin(&end, early[0].1.at_ns);
        for (datagram, arrival) in &early {
            end.deliver(FLOW, datagram, *arrival);
        }
        opening.finish(&end);
        let now = self.shared.workers.now_ns();
        self.known.retain(|_, k| k.session.strong_count() > 0 || k.is_cut_off(now));
        let cut_off_ns: Arc<AtomicU64> = Arc::default();
        let known = Known {
            session: Arc::downgrade(&end),
            series,
            local: *local,
            cut_off_ns: cut_off_ns.clone(),
        };
        self.known.insert((from, series.flow), known);
        announce(&self.tasks, end, &self.shared, session, spec, from, intervals, cut_off_ns);
    }
}
