//! The receiver of one test, and the server of many concurrent tests. It sends nothing, so it cannot amplify. The
//! number of sessions and their duration are limited.
//!
//! Each stream is a session. The datagrams of one source are a session, which starts with the first data and ends
//! when nothing has arrived for `QUIET_NS` after a marker. Markers before the first data are ignored. A receiver of a
//! single test waits for its sender's second datagram (`codec::Candidates`).

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_model::plan::{ConnectionFields, Direction, FlowSpec, Plan};
use weir_model::record::{Record, Status};
use weir_model::report::EndReport;
use weir_model::units::{ByteSize, Span};
use weir_net::poll::{Events, Interest, Poller};
use weir_net::tcp::{TcpListener, TcpStream};
use weir_net::udp::{RecvBatch, RecvMode, UdpSocket};
use weir_traffic::session::{self, Arrival, End, FlowEvent, WorkerConfig, Workers};
use weir_traffic::{Failure, ServerEvent, Stop, StopReason, TrafficError};

use super::codec::{self, Candidates, EndMarker};
use super::{Ended, Settings, fields, plan, record, text};
use crate::{Event, ServeConfig, Server, Test, family};

/// Silence after a marker that ends a test. Data reordered behind the marker still counts.
const QUIET_NS: u64 = 500_000_000;
/// How often the limits of a session are checked.
const TICK: Duration = Duration::from_millis(500);
/// Silence that ends a session of datagrams in a server, at the latest: its source is not verified.
const DATAGRAM_SILENCE: Duration = Duration::from_secs(5);
/// Time for stopped sessions to report.
const ENDING: Duration = Duration::from_secs(2);
/// Silence that ends the single UDP test of a receiver without limits, since all end markers may be lost.
const SILENCE: Duration = Duration::from_secs(10);
/// How often the datagram thread checks whether it must stop.
const LOOK_NS: u64 = 100_000_000;
/// Receive calls on one socket before the other sockets are served.
const TURN: usize = 8;
/// Messages per receive call.
const MESSAGES: usize = 16;
/// Receive calls that drain a new socket of datagrams that arrived before it was connected.
const STRAYS: usize = 4;
/// Maximum number of datagrams of other sources that these calls store.
const MAX_STRAYS: usize = 256;
/// The one flow of a session.
const FLOW: u32 = 1;
/// Receive buffer of each session of a server: 2 GiB for the usual 64 of them.
const SERVER_BUFFER: ByteSize = ByteSize(32 << 20);

/// Limits of sessions.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    /// Maximum number of concurrent sessions.
    sessions: u64,
    /// Maximum number of sessions in all; absent: unlimited.
    total: Option<u64>,
    /// Maximum duration of a session.
    length: Option<Duration>,
    /// Silence that ends a session.
    silence: Option<Duration>,
}

/// A session that has ended.
struct Finished {
    session: u64,
    peer: SocketAddr,
    spec: FlowSpec,
    intervals: IntervalClock,
    report: EndReport,
    ended: Ended,
}

enum SessionEvent {
    Opened { session: u64, peer: SocketAddr },
    Refused { peer: SocketAddr },
    Closed(Box<Finished>),
}

/// What a session receives.
#[derive(Debug, Clone, Copy)]
enum SessionKind {
    Stream,
    Datagrams,
}

/// State shared by the sessions of a receiver.
struct Shared {
    workers: Workers,
    bounds: Bounds,
    with_host: bool,
    /// Open sessions: of streams, and of datagrams. The source of a datagram is not verified, so it takes no place of a stream.
    open: [AtomicU64; 2],
    granted: AtomicU64,
    next_session: AtomicU64,
    is_ending: AtomicBool,
    stop: Stop,
    events: mpsc::UnboundedSender<SessionEvent>,
}

impl Shared {
    /// The number of a new session; `None` if a limit is reached or the receiver is ending.
    fn grant(&self, kind: SessionKind) -> Option<u64> {
        if self.is_ending.load(Ordering::Acquire) {
            return None;
        }
        if self.open[kind as usize].fetch_add(1, Ordering::AcqRel) >= self.bounds.sessions {
            self.close(kind);
            return None;
        }
        if self.bounds.total.is_some_and(|most| self.granted.fetch_add(1, Ordering::AcqRel) >= most)
        {
            self.close(kind);
            return None;
        }
        Some(self.next_session.fetch_add(1, Ordering::Relaxed))
    }

    /// Time since `ns` of the workers' clock.
    fn age(&self, ns: u64) -> Duration {
        Duration::from_nanos(self.workers.now_ns().saturating_sub(ns))
    }

    fn close(&self, kind: SessionKind) {
        self.open[kind as usize].fetch_sub(1, Ordering::AcqRel);
    }

    fn has_sessions(&self) -> bool {
        self.open.iter().any(|open| open.load(Ordering::Acquire) > 0)
    }
}

/// Listening sockets.
pub(super) struct Listening {
    pub(super) streams: Vec<TcpListener>,
    pub(super) datagrams: Vec<(UdpSocket, SocketAddr)>,
    bound: Vec<SocketAddr>,
    /// Plans of received streams and of received datagrams.
    plans: [Plan; 2],
}

pub(super) fn open_sockets(
    bind: &[IpAddr],
    port: u16,
    [tcp, udp]: [bool; 2],
    plans: [Plan; 2],
) -> Result<Listening, TrafficError> {
    let mut listening = Listening { streams: vec![], datagrams: vec![], bound: vec![], plans };
    if tcp {
        (listening.streams, listening.bound) = session::listen_streams(bind, port)?;
    }
    if !udp {
        return Ok(listening);
    }
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let addresses: Vec<SocketAddr> = match listening.bound.is_empty() {
        true if bind.is_empty() => any.map(|ip| SocketAddr::new(ip, port)).into(),
        true => bind.iter().map(|ip| SocketAddr::new(*ip, port)).collect(),
        false => listening.bound.clone(),
    };
    let plan = &listening.plans[1];
    listening.bound.clear();
    for address in addresses {
        let spec = spec(plan, address);
        match session::open_datagrams(plan, &spec, false, Some(address), None) {
            Ok(socket) => {
                listening.datagrams.push((socket, address));
                listening.bound.push(address);
            }
            // A host without IPv6 is served over IPv4.
            Err(_) if bind.is_empty() && address.is_ipv6() => {}
            Err(e) => {
                return Err(TrafficError::Listen {
                    address: address.into(),
                    reason: e.to_string(),
                });
            }
        }
    }
    Ok(listening)
}

/// Sets SO_DEBUG if `-d` was given; accepted connections inherit it.
pub(super) fn set_debug(settings: &Settings, listening: &Listening) -> Result<(), TrafficError> {
    listening.streams.iter().try_for_each(|listener| super::set_debug(settings, listener))?;
    listening.datagrams.iter().try_for_each(|(socket, _)| super::set_debug(settings, socket))
}

/// The flow of a peer, as far as it is known before anything arrives.
pub(super) fn spec(plan: &Plan, peer: SocketAddr) -> FlowSpec {
    plan.flows(family(peer), u32::MAX).swap_remove(0)
}

/// Receives until `on_event` returns `false`, or until it is stopped.
async fn receive(
    listening: Listening,
    workers: Workers,
    (bounds, with_host): (Bounds, bool),
    stop: &Stop,
    on_event: &mut dyn FnMut(SessionEvent) -> bool,
) -> Result<(), TrafficError> {
    let (events, mut inbox) = mpsc::unbounded_channel();
    let first = getrandom::u32().unwrap_or_default();
    let shared = Arc::new(Shared {
        workers,
        bounds,
        with_host,
        open: Default::default(),
        granted: AtomicU64::new(0),
        next_session: AtomicU64::new(u64::from(first)),
        is_ending: AtomicBool::new(false),
        stop: stop.clone(),
        events,
    });
    let Listening { streams, datagrams, plans: [stream_plan, datagram_plan], .. } = listening;
    let stream_plan = Arc::new(stream_plan);
    let failed = |source| TrafficError::System { operation: "listening".into(), source };
    let mut accepting = tokio::task::JoinSet::new();
    for listener in streams {
        let listener = tokio::net::TcpListener::from_std(listener.into()).map_err(failed)?;
        accepting.spawn(accept(listener, shared.clone(), stream_plan.clone()));
    }
    // Stops its thread on every return from this function.
    let _front = (!datagrams.is_empty())
        .then(|| Front::start(datagrams, shared.clone(), datagram_plan))
        .transpose()?;
    loop {
        tokio::select! {
            Some(event) = inbox.recv() => {
                if !on_event(event) {
                    return Ok(());
                }
            }
            _ = stop.asked(1) => break,
        }
    }
    // Sessions observe the stop request themselves. A client that keeps sending would open another session each time.
    shared.is_ending.store(true, Ordering::Release);
    drop(accepting);
    while shared.has_sessions() {
        match tokio::time::timeout(ENDING, inbox.recv()).await {
            Ok(Some(event)) => drop(on_event(event)),
            _ => break,
        }
    }
    while let Ok(event) = inbox.try_recv() {
        on_event(event);
    }
    Ok(())
}

/// Accepts connections; each is a session.
async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>, plan: Arc<Plan>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(stream) = stream.into_std().map(TcpStream::from) else { continue };
                let Some(session) = shared.grant(SessionKind::Stream) else {
                    let _ = shared.events.send(SessionEvent::Refused { peer });
                    continue;
                };
                let spec = spec(&plan, peer);
                if let Some(window) = spec.connection.window {
                    // The record reports the size in effect.
                    let _ = stream.set_buffers(window.0 as usize);
                }
                let mut end = new_end(&shared, &plan, peer);
                match end.stream(&spec, false, stream) {
                    Ok(()) => {
                        let tasks = Handle::current();
                        let end = Arc::new(end);
                        begin(&tasks, &end, &shared, session, spec, peer, &[], &Arc::default());
                    }
                    Err(_) => shared.close(SessionKind::Stream),
                }
            }
            // Out of descriptors, or a connection that is gone already.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

fn new_end(shared: &Shared, plan: &Plan, peer: SocketAddr) -> End {
    let end = End::new(&shared.workers, plan, true);
    if shared.with_host { end.with_host(peer.ip(), None) } else { end }
}

/// A datagram that has been read, and when it arrived.
type Read = (Vec<u8>, Arrival);

/// Starts a session with the data that has already arrived, and a task that waits for its end. `cut_off_ns` is set
/// when the session ends at its time limit.
#[allow(clippy::too_many_arguments)]
fn begin(
    tasks: &Handle,
    end: &Arc<End>,
    shared: &Arc<Shared>,
    session: u64,
    spec: FlowSpec,
    peer: SocketAddr,
    arrived: &[Read],
    cut_off_ns: &Arc<AtomicU64>,
) {
    let start_ns = arrived.first().map_or_else(|| shared.workers.now_ns(), |(_, at)| at.at_ns);
    let intervals = IntervalClock { start_ns, interval_ns: 1_000_000_000, omit_ns: 0 };
    end.start(intervals);
    for (datagram, arrival) in arrived {
        match codec::is_marker(datagram) {
            true => end.drain(QUIET_NS),
            false => end.deliver(FLOW, datagram, *arrival),
        }
    }
    let _ = shared.events.send(SessionEvent::Opened { session, peer });
    let (end, shared, cut_off_ns) = (end.clone(), shared.clone(), cut_off_ns.clone());
    tasks.spawn(async move {
        let kind = match spec.connection.transport.datagrams() {
            true => SessionKind::Datagrams,
            false => SessionKind::Stream,
        };
        let ended = until_end(&end, &shared, kind, intervals.start_ns).await;
        if shared.bounds.length.is_some_and(|most| shared.age(intervals.start_ns) > most) {
            cut_off_ns.store(shared.workers.now_ns(), Ordering::Release);
        }
        let report = end.finish();
        shared.close(kind);
        let finished = Finished { session, peer, spec, intervals, report, ended };
        let _ = shared.events.send(SessionEvent::Closed(Box::new(finished)));
    });
}

async fn until_end(end: &End, shared: &Shared, kind: SessionKind, start_ns: u64) -> Ended {
    let partial = |reason: String| Ended::new(Status::Partial, reason);
    // A receiver of a single test waits for the sender that it has.
    let is_open_to_all = shared.bounds.total.is_none();
    let silence = shared.bounds.silence.map(|most| match kind {
        SessionKind::Datagrams if is_open_to_all => most.min(DATAGRAM_SILENCE),
        _ => most,
    });
    let mut ticks = tokio::time::interval_at(Instant::now() + TICK, TICK);
    loop {
        tokio::select! {
            event = end.event() => match event {
                FlowEvent::ReceiverDone(_) => {
                    return Ended::new(Status::Complete, "the sender finished");
                }
                FlowEvent::SenderEnded(_) => end.drain(QUIET_NS),
                FlowEvent::Failed(_, text) => return partial(text),
                _ => {}
            },
            _ = ticks.tick() => {
                if shared.bounds.length.is_some_and(|most| shared.age(start_ns) > most) {
                    return partial("the session reached the limit of its time".into());
                }
                let silent = shared.age(end.last_arrival_ns().max(start_ns));
                if silence.is_some_and(|most| silent > most) {
                    return partial(format!("nothing arrived for {} s", silent.as_secs()));
                }
            }
            reason = shared.stop.asked(1) => {
                return Ended::new(Status::Interrupted, reason.text());
            }
        }
    }
}

/// The thread that receives datagrams without a session. A session has its own socket, connected to its source and
/// read by the workers; datagrams that arrive here before that socket is connected are delivered to the session.
struct Front {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Front {
    fn start(
        sockets: Vec<(UdpSocket, SocketAddr)>,
        shared: Arc<Shared>,
        plan: Plan,
    ) -> Result<Front, TrafficError> {
        let failed =
            |source| TrafficError::System { operation: "receiving datagrams".into(), source };
        let poller = Poller::new().map_err(failed)?;
        for (token, (socket, _)) in (0..).zip(&sockets) {
            poller.add(socket, token, Interest::READ).map_err(failed)?;
        }
        let (tasks, own) = (Handle::current(), shared.clone());
        let thread = std::thread::Builder::new()
            .name("weir-datagrams".into())
            .spawn(move || {
                let (sources, candidates) = Default::default();
                Datagrams { sockets, sources, candidates, shared: own, plan, tasks }.run(&poller);
            })
            .map_err(failed)?;
        Ok(Front { shared, thread: Some(thread) })
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A source of datagrams that has or had a session.
struct Source {
    /// Its session; a finished one no longer upgrades.
    session: Weak<End>,
    /// When the session ended at its time limit, or a later datagram arrived, by the workers' clock, ns; 0 before.
    cut_off_ns: Arc<AtomicU64>,
}

impl Source {
    /// Whether the session was ended at its time limit and the source still sends, `now_ns`.
    fn is_cut_off(&self, now_ns: u64) -> bool {
        let last = self.cut_off_ns.load(Ordering::Acquire);
        last != 0 && Duration::from_nanos(now_ns.saturating_sub(last)) < DATAGRAM_SILENCE
    }
}

struct Datagrams {
    sockets: Vec<(UdpSocket, SocketAddr)>,
    sources: HashMap<SocketAddr, Source>,
    /// Of a receiver of a single test: the sources of one datagram.
    candidates: Candidates<Read>,
    shared: Arc<Shared>,
    plan: Plan,
    tasks: Handle,
}

impl Datagrams {
    fn run(mut self, poller: &Poller) {
        let mut events = Events::new(16);
        let mut batch = RecvBatch::new(MESSAGES, 1 << 16);
        let mut strays = VecDeque::new();
        while !self.shared.is_ending.load(Ordering::Acquire) {
            let _ = poller.wait(&mut events, Some(LOOK_NS));
            for event in events.iter() {
                self.read(event.token as usize, &mut batch, &mut strays);
            }
        }
    }

    fn read(
        &mut self,
        socket: usize,
        batch: &mut RecvBatch,
        strays: &mut VecDeque<(SocketAddr, Read)>,
    ) {
        for _ in 0..TURN {
            // Reading a pending ICMP error clears it.
            let Ok(got) = batch.recv(&self.sockets[socket].0, RecvMode::DontWait) else { return };
            let mut seen = vec![];
            for message in batch.messages() {
                let is_first = !seen.contains(&message.from);
                if is_first {
                    seen.push(message.from);
                }
                let arrival = self.shared.workers.arrival(message.kernel_realtime_ns, is_first);
                self.take(socket, message.from, message.data, arrival, strays);
            }
            while let Some((from, (datagram, arrival))) = strays.pop_front() {
                self.take(socket, from, &datagram, arrival, strays);
            }
            if got < batch.capacity() {
                return;
            }
        }
    }

    /// Handles one datagram that arrived at a socket without a session.
    fn take(
        &mut self,
        socket: usize,
        from: SocketAddr,
        datagram: &[u8],
        arrival: Arrival,
        strays: &mut VecDeque<(SocketAddr, Read)>,
    ) {
        let is_marker = codec::is_marker(datagram);
        let source = self.sources.get(&from);
        match source.and_then(|source| source.session.upgrade()) {
            Some(end) if is_marker => end.drain(QUIET_NS),
            Some(end) => end.deliver(FLOW, datagram, arrival),
            None if self.shared.bounds.total.is_some() => {
                let read = (datagram.to_vec(), arrival);
                if let Some(arrived) = self.candidates.add(from, is_marker, read) {
                    self.open(socket, from, arrived, strays);
                }
            }
            // A marker of a test that has ended or has not started.
            None if is_marker => {}
            None => match source.filter(|source| source.is_cut_off(arrival.at_ns)) {
                // A new session would undo the limit.
                Some(source) => source.cut_off_ns.store(arrival.at_ns, Ordering::Release),
                None => self.open(socket, from, vec![(datagram.to_vec(), arrival)], strays),
            },
        }
    }

    /// Opens the session of a source with its data so far. Over the limit or without a descriptor the datagram is
    /// dropped, and no event names its source, whose address is not verified.
    fn open(
        &mut self,
        socket: usize,
        from: SocketAddr,
        mut early: Vec<Read>,
        strays: &mut VecDeque<(SocketAddr, Read)>,
    ) {
        let Some(session) = self.shared.grant(SessionKind::Datagrams) else { return };
        // All datagrams have the size of the first, except perhaps the last.
        let size = ByteSize(early.first().map_or(0, |(data, _)| data.len() as u64)).into();
        let spec = FlowSpec { size, ..spec(&self.plan, from) };
        let local = self.sockets[socket].1;
        let opened = session::open_datagrams(&self.plan, &spec, false, Some(local), Some(from));
        let Ok(own) = opened else {
            self.shared.close(SessionKind::Datagrams);
            return;
        };
        // Between bind and connect, datagrams of any source may have arrived on it.
        let mut batch = RecvBatch::new(MESSAGES, 1 << 16);
        for _ in 0..STRAYS {
            if batch.recv(&own, RecvMode::DontWait).is_err() {
                break;
            }
            let mut is_first = true;
            for message in batch.messages() {
                let stamp = message.kernel_realtime_ns;
                let read =
                    |first| (message.data.to_vec(), self.shared.workers.arrival(stamp, first));
                if message.from == from {
                    early.push(read(std::mem::take(&mut is_first)));
                } else if strays.len() < MAX_STRAYS {
                    strays.push_back((message.from, read(true)));
                }
            }
        }
        let mut end = new_end(&self.shared, &self.plan, from);
        end.datagrams(&spec, false, own, Some(Box::new(EndMarker::default())));
        let end = Arc::new(end);
        let now = self.shared.workers.now_ns();
        self.sources.retain(|_, s| s.session.strong_count() > 0 || s.is_cut_off(now));
        let cut_off_ns = Arc::default();
        begin(&self.tasks, &end, &self.shared, session, spec, from, &early, &cut_off_ns);
        self.sources.insert(from, Source { session: Arc::downgrade(&end), cut_off_ns });
    }
}

/// The receiver of one test.
pub(super) struct Once(pub(super) Settings);

impl Test for Once {
    fn plan(&self) -> &Plan {
        &self.0.plan
    }

    fn run(
        self: Box<Self>,
        workers: &WorkerConfig,
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
    ) -> Result<Record, Failure> {
        let settings = self.0;
        let workers = Workers::start(workers)?;
        let line = |text: String| Event::Line(format!("{}: {text}", text::tag(false)));
        observe(Event::Line(text::settings(&settings)));
        let plans = [settings.plan.clone(), settings.plan.clone()];
        let transports = [!settings.udp, settings.udp];
        let listening = open_sockets(&[], settings.port, transports, plans)?;
        set_debug(&settings, &listening)?;
        observe(line("socket".into()));
        let silence = settings.udp.then_some(SILENCE);
        let bounds = Bounds { sessions: 1, total: Some(1), length: None, silence };
        let mut finished = None;
        let mut on_event = |event: SessionEvent| {
            match event {
                SessionEvent::Opened { peer, .. } if !settings.udp => {
                    observe(line(format!("accept from {}", peer.ip().to_canonical())));
                }
                SessionEvent::Closed(session) => finished = Some(session),
                _ => {}
            }
            finished.is_none()
        };
        let receiving = receive(listening, workers, (bounds, true), stop, &mut on_event);
        crate::runtime()?.block_on(receiving)?;
        let stopped = || {
            let reason = stop.reason().unwrap_or(StopReason::Interrupted);
            TrafficError::Stopped(reason.text(), reason.exit_code())
        };
        let Some(session) = finished else { return Err(stopped().into()) };
        let Finished { peer, spec, intervals, report, ended, .. } = *session;
        let error = match ended.status {
            Status::Complete => None,
            Status::Interrupted => Some(stopped()),
            Status::Partial => Some(TrafficError::Flow {
                code: "flow",
                flow: FLOW,
                name: super::PROTOCOL.name.into(),
                reason: ended.reason.clone(),
            }),
        };
        let plan =
            Plan { host: Some(peer.ip().to_canonical().to_string()), ..settings.plan.clone() };
        let record = record(plan, spec, peer, report, intervals, ended);
        text::figures(&settings, &record).into_iter().for_each(|line| observe(Event::Line(line)));
        match error {
            None => Ok(record),
            Some(error) => Err(Failure { error, partial: Some(Box::new(record)) }),
        }
    }
}

/// A server of any number of tests.
struct Many {
    listening: Listening,
    workers: Workers,
    bounds: Bounds,
}

/// Listens for tests.
pub(super) fn open(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    let received = |udp: bool| {
        plan(ConnectionFields {
            direction: Direction::Reverse,
            payload: Some(ByteSize(codec::BUFFER_BYTES).into()),
            duration: Some(Span(0)),
            window: udp.then_some(SERVER_BUFFER),
            ..fields(udp)
        })
    };
    let plans = [received(false), received(true)];
    let limits = &config.limits;
    Ok(Box::new(Many {
        listening: open_sockets(&config.bind, config.port, [true, true], plans)?,
        workers: Workers::start(&config.workers)?,
        bounds: Bounds {
            sessions: limits.sessions,
            total: None,
            length: Some(Duration::from_secs(limits.session_seconds)),
            silence: Some(Duration::from_secs(limits.silence_seconds)),
        },
    }))
}

impl Server for Many {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.listening.bound.clone()
    }

    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError> {
        let Many { listening, workers, bounds } = *self;
        let (most, plans) = (bounds.sessions, listening.plans.clone());
        let mut on_event = |event: SessionEvent| {
            observe(match event {
                SessionEvent::Opened { session, peer } => {
                    ServerEvent::SessionOpened { session, peer: peer.into(), flows: 1 }
                }
                SessionEvent::Refused { peer } => ServerEvent::Refused {
                    peer: peer.into(),
                    reason: format!("{most} sessions are open"),
                },
                SessionEvent::Closed(session) => {
                    let Finished { session, peer, spec, intervals, report, ended } = *session;
                    let reason = ended.reason.clone();
                    let plan = &plans[usize::from(spec.connection.transport.datagrams())];
                    let host = Some(peer.ip().to_canonical().to_string());
                    let plan = Plan { host, ..plan.clone() };
                    let record = record(plan, spec, peer, report.clone(), intervals, ended);
                    ServerEvent::SessionClosed {
                        session,
                        peer: peer.into(),
                        reason,
                        report: Some(Box::new(report)),
                        record: Some(Box::new(record)),
                    }
                }
            });
            true
        };
        crate::runtime()?.block_on(receive(
            listening,
            workers,
            (bounds, false),
            stop,
            &mut on_event,
        ))
    }
}
