//! Sessions without messages of their own: each stream that a server accepts is one, and so is each source of datagrams
//! where the protocol says so. Number, duration and silence of sessions are limited.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::plan::{FlowSpec, Plan};
use weir_model::record::{Record, Status};
use weir_model::report::EndReport;
use weir_model::units::Span;
use weir_net::tcp::{TcpListener, TcpStream};
use weir_traffic::session::{self, End, FlowEvent, Workers};
use weir_traffic::{Limits, ServerEvent, Stop, TrafficError};

use crate::family;

/// Silence after a marker that ends a session of datagrams. Data reordered behind the marker still counts.
pub(crate) const QUIET_NS: u64 = 500_000_000;
/// How often the limits of a session are checked.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// Silence that ends a session of datagrams in a server, at the latest: its source is not verified.
pub(crate) const DATAGRAM_SILENCE: Duration = Duration::from_secs(5);
/// Time for stopped sessions to report.
const ENDING: Duration = Duration::from_secs(2);
/// Rows of a session's intervals: one a second.
pub(crate) const INTERVAL_NS: u64 = 1_000_000_000;

/// Time within which a datagram of a protocol without a loss threshold counts as reordered, and not as lost.
const LATE: Span = Span::from_seconds(60);

/// The plan by which an end counts the datagrams of a protocol without a loss threshold.
pub(crate) fn counted(plan: &Plan) -> Plan {
    Plan { loss_threshold: Some(LATE), ..plan.clone() }
}

/// The intervals of a session that begins at `start_ns`.
pub(crate) fn intervals(start_ns: u64, omit_ns: u64) -> IntervalClock {
    IntervalClock { start_ns, interval_ns: INTERVAL_NS, omit_ns }
}

/// Limits of sessions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds {
    /// Maximum number of concurrent sessions.
    pub(crate) sessions: u64,
    /// Maximum number of sessions in all; absent: unlimited.
    pub(crate) total: Option<u64>,
    /// Maximum duration of a session.
    pub(crate) length: Option<Duration>,
    /// Silence that ends a session.
    pub(crate) silence: Option<Duration>,
    /// The protocol has no other end: a session of datagrams that silence ends is complete.
    pub(crate) is_over_by_silence: bool,
}

/// A session that has ended.
pub(crate) struct Finished {
    pub(crate) session: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) spec: FlowSpec,
    pub(crate) intervals: IntervalClock,
    pub(crate) report: EndReport,
    pub(crate) ended: Ended,
}

pub(crate) enum SessionEvent {
    Opened { session: u64, peer: SocketAddr },
    Refused { peer: SocketAddr },
    Closed(Box<Finished>),
}

/// What a session receives.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SessionKind {
    Stream,
    Datagrams,
}

/// State shared by the sessions of a receiver.
pub(crate) struct Shared {
    pub(crate) workers: Workers,
    pub(crate) bounds: Bounds,
    with_host: bool,
    /// Open sessions: of streams, and of datagrams. The source of a datagram is not verified, so it takes no place of a stream.
    open: [AtomicU64; 2],
    granted: AtomicU64,
    pub(crate) next_session: AtomicU64,
    pub(crate) is_ending: AtomicBool,
    pub(crate) stop: Stop,
    pub(crate) events: mpsc::UnboundedSender<SessionEvent>,
}

impl Shared {
    /// The number of a new session; `None` if a limit is reached or the receiver is ending.
    pub(crate) fn grant(&self, kind: SessionKind) -> Option<u64> {
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
    pub(crate) fn age(&self, ns: u64) -> Duration {
        Duration::from_nanos(self.workers.now_ns().saturating_sub(ns))
    }

    pub(crate) fn close(&self, kind: SessionKind) {
        self.open[kind as usize].fetch_sub(1, Ordering::AcqRel);
    }

    fn has_sessions(&self) -> bool {
        self.open.iter().any(|open| open.load(Ordering::Acquire) > 0)
    }
}

/// The flow of a peer, as far as it is known before anything arrives.
pub(crate) fn spec(plan: &Plan, peer: SocketAddr) -> FlowSpec {
    plan.flows(family(peer), u32::MAX).swap_remove(0)
}

/// Serves streams by `plan` until `on_event` returns `false`, or until it is stopped. `front` starts what receives datagrams,
/// which ends when it is dropped.
pub(crate) async fn receive<F>(
    (streams, plan): (Vec<TcpListener>, Plan),
    workers: Workers,
    (bounds, with_host): (Bounds, bool),
    stop: &Stop,
    front: impl FnOnce(&Arc<Shared>) -> Result<F, TrafficError>,
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
    let plan = Arc::new(plan);
    let failed = |source| TrafficError::System { operation: "listening".into(), source };
    let mut accepting = tokio::task::JoinSet::new();
    for listener in streams {
        let listener = tokio::net::TcpListener::from_std(listener.into()).map_err(failed)?;
        accepting.spawn(accept(listener, shared.clone(), plan.clone()));
    }
    let front = front(&shared)?;
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
    drop((accepting, front));
    last_events(&mut inbox, || shared.has_sessions(), &mut |event| {
        on_event(event);
    })
    .await;
    Ok(())
}

/// Takes the events of sessions that are being stopped.
pub(crate) async fn last_events<E>(
    inbox: &mut mpsc::UnboundedReceiver<E>,
    has_sessions: impl Fn() -> bool,
    on_event: &mut dyn FnMut(E),
) {
    while has_sessions() {
        match tokio::time::timeout(ENDING, inbox.recv()).await {
            Ok(Some(event)) => on_event(event),
            _ => break,
        }
    }
    while let Ok(event) = inbox.try_recv() {
        on_event(event);
    }
}

/// Accepts connections; each is a session.
async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>, plan: Arc<Plan>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(stream) = stream.into_std().map(TcpStream::from) else { continue };
                open_stream(stream, peer, &shared, &plan, &Handle::current());
            }
            // Out of descriptors, or a connection that is gone already.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Opens the session of a connection.
pub(crate) fn open_stream(
    stream: TcpStream,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    plan: &Plan,
    tasks: &Handle,
) {
    let Some(session) = shared.grant(SessionKind::Stream) else {
        let _ = shared.events.send(SessionEvent::Refused { peer });
        return;
    };
    let spec = spec(plan, peer);
    // The record reports the sizes in effect.
    let _ = session::accepted_stream(&spec, false, &stream);
    let mut end = new_end(shared, plan, peer);
    match end.stream(&spec, false, stream) {
        Ok(()) => {
            let intervals = begin(&end, shared.workers.now_ns());
            let (end, cut_off_ns) = (Arc::new(end), Arc::default());
            announce(tasks, end, shared, session, spec, peer, intervals, cut_off_ns);
        }
        Err(_) => shared.close(SessionKind::Stream),
    }
}

pub(crate) fn new_end(shared: &Shared, plan: &Plan, peer: SocketAddr) -> End {
    let end = End::new(&shared.workers, plan, true);
    if shared.with_host { end.with_host(peer.ip(), None) } else { end }
}

/// Starts a session at `start_ns`; returns its intervals.
pub(crate) fn begin(end: &End, start_ns: u64) -> IntervalClock {
    let intervals = intervals(start_ns, 0);
    end.start(intervals);
    intervals
}

/// Announces a session that has begun, and starts a task that waits for its end. `cut_off_ns` is set when the session ends
/// at its time limit.
#[allow(clippy::too_many_arguments)]
pub(crate) fn announce(
    tasks: &Handle,
    end: Arc<End>,
    shared: &Arc<Shared>,
    session: u64,
    spec: FlowSpec,
    peer: SocketAddr,
    intervals: IntervalClock,
    cut_off_ns: Arc<AtomicU64>,
) {
    let _ = shared.events.send(SessionEvent::Opened { session, peer });
    let shared = shared.clone();
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
                    let reason = format!("nothing arrived for {} s", silent.as_secs());
                    if shared.bounds.is_over_by_silence && matches!(kind, SessionKind::Datagrams) {
                        return Ended::new(Status::Complete, reason);
                    }
                    return partial(reason);
                }
            }
            reason = shared.stop.asked(1) => {
                return Ended::new(Status::Interrupted, reason.text());
            }
        }
    }
}

impl Bounds {
    /// The limits of a server.
    pub(crate) fn of(limits: &Limits) -> Bounds {
        Bounds {
            sessions: limits.sessions,
            total: None,
            length: Some(Duration::from_secs(limits.session_seconds)),
            silence: Some(Duration::from_secs(limits.silence_seconds)),
            is_over_by_silence: false,
        }
    }
}

/// How a test ended.
pub(crate) struct Ended {
    pub(crate) status: Status,
    pub(crate) reason: String,
}

impl Ended {
    pub(crate) fn new(status: Status, reason: impl Into<String>) -> Ended {
        Ended { status, reason: reason.into() }
    }
}

impl SessionEvent {
    /// The event of a server of the protocol `name`, with the record of a session. `plan`: that of a flow; `most`: the maximum
    /// number of sessions.
    pub(crate) fn of_server(
        self,
        name: &str,
        plan: impl FnOnce(&FlowSpec) -> Plan,
        most: u64,
    ) -> ServerEvent {
        match self {
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
                let host = Some(peer.ip().to_canonical().to_string());
                let plan = Plan { host, ..plan(&spec) };
                let record =
                    record(name, plan, vec![spec], peer, (report.clone(), None), intervals, ended);
                ServerEvent::SessionClosed {
                    session,
                    peer: peer.into(),
                    reason,
                    report: Some(Box::new(report)),
                    record: Some(Box::new(record)),
                }
            }
        }
    }
}

/// The record of this end of a test with `peer`, by the protocol `name`, without bytes of control.
pub(crate) fn record(
    name: &str,
    plan: Plan,
    specs: Vec<FlowSpec>,
    peer: SocketAddr,
    (local, remote): (EndReport, Option<EndReport>),
    intervals: IntervalClock,
    ended: Ended,
) -> Record {
    let record = assemble(Parts {
        plan,
        specs,
        family: family(peer),
        local,
        one_sided: remote.is_none(),
        remote,
        peer: name.into(),
        peer_reports: Default::default(),
        clock: None,
        intervals,
        intervals_shown: 0,
        status: ended.status,
        end_reason: ended.reason,
        nominal: None,
        latency: None,
        loss_threshold_ns: 0,
        control_bytes: 0,
        path_mtu_bytes: Some(session::path_mtu_bytes(peer.ip())),
    });
    // This end has no loss threshold.
    Record { control_bytes: None, loss_threshold_seconds: None, ..record }
}
