//! The receiver of one test, and the server of many concurrent tests. It sends nothing, so it cannot amplify. The
//! number of sessions and their duration are limited.
//!
//! Each stream is a session. The datagrams of one source are a session, which starts with the first data and ends
//! when nothing has arrived for `QUIET_NS` after a marker. Markers before the first data are ignored. A receiver of a
//! single test waits for its sender's second datagram (`codec::Candidates`).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use weir_model::plan::{ConnectionFields, Direction, FlowSpec, Plan};
use weir_model::record::{Record, Status};
use weir_model::units::{ByteSize, Span};
use weir_net::tcp::TcpListener;
use weir_net::udp::UdpSocket;
use weir_traffic::session::{self, End, WorkerConfig, Workers};
use weir_traffic::{Failure, Limits, ServerEvent, Stop, StopReason, TrafficError};

use super::codec::{self, Candidates, EndMarker};
use super::{Settings, fields, plan, record, text};
use crate::ending::stopped;
use crate::ports::{self, Inlet, Read, Receiver, Registry, Sources};
use crate::sessions::{
    Bounds, DATAGRAM_SILENCE, Finished, QUIET_NS, SessionEvent, SessionKind, Shared, announce,
    begin, new_end, open_stream, receive, spec,
};
use crate::{Event, ServeConfig, Server, Test};

/// Silence that ends the single UDP test of a receiver without limits, since all end markers may be lost.
const SILENCE: Duration = Duration::from_secs(10);
/// The one flow of a session.
const FLOW: u32 = 1;
/// Receive buffer of each session of a server: 2 GiB for the usual 64 of them.
const SERVER_BUFFER: ByteSize = ByteSize(32 << 20);

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

/// The ports of a receiver, and its plans of received streams and of received datagrams.
struct Receives {
    listening: ports::Listening,
    plans: [Plan; 2],
    limits: Limits,
}

impl Receives {
    /// Receives until `on_event` returns `false`, or until it is stopped.
    async fn run(
        self,
        workers: Workers,
        bounds: (Bounds, bool),
        stop: &Stop,
        on_event: &mut dyn FnMut(SessionEvent) -> bool,
    ) -> Result<(), TrafficError> {
        let Receives { listening, plans: [stream_plan, plan], limits } = self;
        let own_plan = stream_plan.clone();
        let front = |shared: &Arc<Shared>| {
            let (own, tasks) = (shared.clone(), Handle::current());
            let (sources, candidates, shared) =
                (HashMap::new(), Default::default(), shared.clone());
            let datagrams = Datagrams { sources, candidates, shared, plan, tasks: tasks.clone() };
            listening.start(Receiver {
                // Its data has no header.
                claims: None,
                limits,
                on_stream: Box::new(move |stream, peer| {
                    open_stream(stream.into(), peer, &own, &own_plan, &tasks);
                }),
                datagrams: Arc::new(Mutex::new(datagrams)),
            })
        };
        receive((vec![], stream_plan), workers, bounds, stop, front, on_event).await
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

/// The sources of datagrams. A session has its own socket, connected to its source and read by the workers; datagrams that
/// arrive before that socket is connected are delivered to the session.
struct Datagrams {
    sources: HashMap<SocketAddr, Source>,
    /// Of a receiver of a single test: the sources of one datagram.
    candidates: Candidates<Read>,
    shared: Arc<Shared>,
    plan: Plan,
    tasks: Handle,
}

impl Sources for Datagrams {
    fn has(&self, from: SocketAddr, now_ns: u64) -> bool {
        let source = self.sources.get(&from);
        source.is_some_and(|s| s.session.strong_count() > 0 || s.is_cut_off(now_ns))
    }

    fn take(&mut self, inlet: &mut Inlet<'_>, from: SocketAddr, (datagram, arrival): Read) {
        let is_marker = codec::is_marker(&datagram);
        let source = self.sources.get(&from);
        match source.and_then(|source| source.session.upgrade()) {
            Some(end) if is_marker => end.drain(QUIET_NS),
            Some(end) => end.deliver(FLOW, &datagram, arrival),
            None if self.shared.bounds.total.is_some() => {
                let read = (datagram, arrival);
                if let Some(arrived) = self.candidates.add(from, is_marker, read) {
                    self.open(inlet, from, arrived);
                }
            }
            // A marker of a test that has ended or has not started.
            None if is_marker => {}
            None => match source.filter(|source| source.is_cut_off(arrival.at_ns)) {
                // A new session would undo the limit.
                Some(source) => source.cut_off_ns.store(arrival.at_ns, Ordering::Release),
                None => self.open(inlet, from, vec![(datagram, arrival)]),
            },
        }
    }
}

impl Datagrams {
    /// Opens the session of a source with its data so far. Over the limit or without a descriptor the datagram is
    /// dropped, and no event names its source, whose address is not verified.
    fn open(&mut self, inlet: &mut Inlet<'_>, from: SocketAddr, early: Vec<Read>) {
        let Some(session) = self.shared.grant(SessionKind::Datagrams) else { return };
        // All datagrams have the size of the first, except perhaps the last.
        let size = ByteSize(early.first().map_or(0, |(data, _)| data.len() as u64)).into();
        let spec = FlowSpec { size, ..spec(&self.plan, from) };
        let opened = session::open_datagrams(&self.plan, &spec, false, Some(inlet.at), Some(from));
        let Ok(own) = opened else {
            self.shared.close(SessionKind::Datagrams);
            return;
        };
        let early = inlet.begun(&own, from, early);
        let mut end = new_end(&self.shared, &self.plan, from);
        end.datagrams(&spec, false, own, Some(Box::new(EndMarker::default())));
        let end = Arc::new(end);
        let now = self.shared.workers.now_ns();
        self.sources.retain(|_, s| s.session.strong_count() > 0 || s.is_cut_off(now));
        let cut_off_ns: Arc<AtomicU64> = Arc::default();
        let start_ns =
            early.first().map_or_else(|| self.shared.workers.now_ns(), |(_, at)| at.at_ns);
        let intervals = begin(&end, start_ns);
        for (datagram, arrival) in &early {
            match codec::is_marker(datagram) {
                true => end.drain(QUIET_NS),
                false => end.deliver(FLOW, datagram, *arrival),
            }
        }
        let (own, cut_off) = (end.clone(), cut_off_ns.clone());
        announce(&self.tasks, own, &self.shared, session, spec, from, intervals, cut_off);
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
        let bounds = Bounds { sessions: 1, total: Some(1), silence, ..Bounds::default() };
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
        let Listening { streams, datagrams, plans, .. } = listening;
        let listening = Registry::start()?.adopt(streams, datagrams, &workers)?;
        let receives = Receives { listening, plans, limits: Limits::default() };
        let receiving = receives.run(workers, (bounds, true), stop, &mut on_event);
        crate::runtime()?.block_on(receiving)?;
        let stopped = || stopped(stop.reason().unwrap_or(StopReason::Interrupted));
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
    receives: Receives,
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
    let workers = Workers::start(&config.workers)?;
    let ports = config.ports.registry()?;
    let listening = ports.listen(&config.bind, config.port, &workers, &plans[1])?;
    let receives = Receives { listening, plans, limits: config.limits.clone() };
    Ok(Box::new(Many { receives, workers, bounds: Bounds::of(&config.limits) }))
}

impl Server for Many {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.receives.listening.addresses.clone()
    }

    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError> {
        let Many { receives, workers, bounds } = *self;
        let plans = receives.plans.clone();
        let plan =
            |spec: &FlowSpec| plans[usize::from(spec.connection.transport.datagrams())].clone();
        let mut on_event = |event: SessionEvent| {
            observe(event.of_server(super::PROTOCOL.name, plan, bounds.sessions));
            true
        };
        crate::runtime()?.block_on(receives.run(workers, (bounds, false), stop, &mut on_event))
    }
}
