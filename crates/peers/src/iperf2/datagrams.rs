//! Datagrams at a server: each source is a session, which begins with a number above 0 and ends with a negative one. A negative
//! number is answered by the report.
//!
//! A source may be forged. Therefore nothing is sent to it but the report, and in all never more bytes than it has sent.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_model::plan::{FlowSpec, Plan};
use weir_model::record::{Receiver, Status};
use weir_model::report::EndReport;
use weir_model::units::ByteSize;
use weir_net::thread::lock;
use weir_traffic::Stop;
use weir_traffic::session::{
    self, Arrival, DatagramSocket, End, FlowEvent, Share, Signal, Signals, Workers,
};

use super::calling::Call;
use super::codec::{Header, Report, Width};
use super::server::Shared;
use super::settings;
use crate::ports::{Copies, Inlet, Read, Sources};
use crate::sessions::{DATAGRAM_SILENCE, Ended, TICK, counted, intervals};

/// Silence after the last number that ends a session. Data reordered behind it still counts.
const QUIET_NS: u64 = 100_000_000;
/// A client that asks for no report any more has it.
const SETTLED: Duration = Duration::from_millis(250);
/// Most time for a client to ask again.
const LINGER: Duration = Duration::from_secs(3);
/// How often these are checked.
const LOOK: Duration = Duration::from_millis(50);
/// The one flow of a session.
const FLOW: u32 = 1;
/// Receive buffer of each session: 2 GiB for the usual 64 of them.
pub(super) const BUFFER: ByteSize = ByteSize(32 << 20);

/// The end of a flow of datagrams, as its session and its worker know it.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// The report of this end, once there is one.
    reply: Mutex<Option<Vec<u8>>>,
    /// The number of the last datagram; 0 until it has arrived.
    last: AtomicU64,
    /// When a negative number arrived last, by the workers' clock, ns.
    asked_ns: AtomicU64,
    /// Bytes that the source has sent and that were not sent to it.
    credit: AtomicU64,
}

impl Ending {
    /// How many datagrams the far sender has sent; 0 until it has ended.
    pub(super) fn sent(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Sends the report of a flow, and has the worker repeat it.
    pub(super) fn answer(&self, end: &End, flow: u32, now_ns: u64, report: &Report) {
        // A repeated one was counted by the worker.
        self.credit.fetch_add(report.bytes, Ordering::AcqRel);
        self.asked_ns.fetch_max(now_ns, Ordering::AcqRel);
        let bytes = report.to_bytes();
        if self.permits(bytes.len() as u64) {
            let _ = end.send_message(flow, &bytes);
        }
        *lock(&self.reply) = Some(bytes.into());
    }

    /// Waits until the far sender asks for the report no more.
    pub(super) async fn settled(&self, workers: &Workers, stop: &Stop) {
        let until = Instant::now() + LINGER;
        while Instant::now() < until {
            let asked_ns = self.asked_ns.load(Ordering::Acquire);
            let silent = workers.now_ns().saturating_sub(asked_ns);
            if Duration::from_nanos(silent) > SETTLED || stop.reason().is_some() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether `bytes` may be sent to the source.
    fn permits(&self, bytes: u64) -> bool {
        let spend = |credit: u64| credit.checked_sub(bytes);
        self.credit.fetch_update(Ordering::AcqRel, Ordering::Acquire, spend).is_ok()
    }
}

/// Recognizes the last datagram of a flow, and answers those that repeat it.
pub(super) struct LastNumber {
    width: Width,
    is_over: bool,
    ending: Arc<Ending>,
    /// Copies of datagrams that were counted on the socket of the port.
    copies: Copies,
}

impl LastNumber {
    pub(super) fn new(width: Width, ending: Arc<Ending>) -> Self {
        LastNumber { width, is_over: false, ending, copies: Copies::default() }
    }

    /// The same of a flow of which these were counted before.
    fn without(self, copies: Copies) -> Self {
        LastNumber { copies, ..self }
    }
}

impl Signals for LastNumber {
    fn classify(&mut self, socket: &dyn DatagramSocket, bytes: &[u8], now_ns: u64) -> Signal {
        let number = self.width.number(bytes);
        if self.copies.has(number) {
            return Signal::Message;
        }
        match number {
            // A report of a server that receives as well.
            None => Signal::Message,
            Some(0) if self.width == Width::Wide => Signal::Message,
            Some(0..) => Signal::Data,
            Some(last) => {
                self.ending.asked_ns.store(now_ns, Ordering::Release);
                if !std::mem::replace(&mut self.is_over, true) {
                    self.ending.last.store(last.unsigned_abs(), Ordering::Release);
                    return Signal::Last;
                }
                self.ending.credit.fetch_add(bytes.len() as u64, Ordering::AcqRel);
                if let Some(reply) = &*lock(&self.ending.reply)
                    && self.ending.permits(reply.len() as u64)
                {
                    let _ = socket.send_control(reply);
                }
                Signal::Message
            }
        }
    }
}

/// A source of datagrams that has or had a session.
struct Source {
    /// Its session; a finished one no longer upgrades.
    session: Weak<End>,
    width: Width,
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

/// The sources of datagrams of a server. A session has its own socket, connected to its source and read by the workers;
/// datagrams that arrive before that socket is connected are delivered to the session.
pub(super) struct Datagrams {
    known: HashMap<SocketAddr, Source>,
    shared: Arc<Shared>,
    tasks: Handle,
}

impl Sources for Datagrams {
    fn has(&self, from: SocketAddr, now_ns: u64) -> bool {
        let source = self.known.get(&from);
        source.is_some_and(|s| s.session.strong_count() > 0 || s.is_cut_off(now_ns))
    }

    /// A datagram that begins no session is dropped, and no event names its source, whose address is not verified.
    fn take(&mut self, inlet: &mut Inlet<'_>, from: SocketAddr, (datagram, arrival): Read) {
        let source = self.known.get(&from);
        if let Some(source) = source
            && let Some(end) = source.session.upgrade()
        {
            // In a group the session's own socket has it as well.
            if self.shared.group.is_none() {
                deliver(&end, source.width, &datagram, arrival);
            }
            return;
        }
        if let Some(source) = source.filter(|source| source.is_cut_off(arrival.at_ns)) {
            // A new session would undo the limit.
            return source.cut_off_ns.store(arrival.at_ns, Ordering::Release);
        }
        let header = Header::of_datagram(&datagram);
        let is_wide = header.is_some_and(|header| header.is_wide);
        let width = if is_wide { Width::Wide } else { Width::Narrow };
        // A negative number is that of a session that has ended.
        let begins = width.number(&datagram).is_some_and(|number| number >= i64::from(is_wide));
        // No event names a source whose address is not verified.
        let Ok((header, call)) = Call::of(header, from, true, &self.shared.call_backs) else {
            return;
        };
        let call = call.map(|call| call.at_address(Some(inlet.at)));
        if call.is_some_and(|call| call.plan(&self.shared, true).is_err()) {
            return;
        }
        let longest = self.shared.limits.session_seconds;
        let plan = settings::plan(header.as_ref(), true, datagram.len() as u64, longest);
        if let (true, Ok(plan)) = (begins, plan) {
            // A group is no address that has asked for a report.
            let wants_report =
                self.shared.group.is_none() && !header.is_some_and(|header| header.wants_no_report);
            let first = (datagram, arrival);
            if let Some((end, session)) = self.open(inlet, from, (plan, width), first) {
                self.spawn(end, Session { call, ..session }, width, wants_report);
            }
        }
    }
}

impl Datagrams {
    /// Sources without a session yet. Sessions are tasks of the current runtime.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Datagrams { known: HashMap::new(), shared, tasks: Handle::current() }
    }

    /// Opens the session of a source with its first datagram. `None`: over the limit, or without a descriptor.
    fn open(
        &mut self,
        inlet: &mut Inlet<'_>,
        from: SocketAddr,
        (plan, width): (Plan, Width),
        first: Read,
    ) -> Option<(End, Session)> {
        let most = self.shared.limits.sessions;
        let share = Share::take(&self.shared.datagrams, |l| &l.sessions, 1, most)?;
        let mut plan = Plan { host: Some(from.ip().to_canonical().to_string()), ..plan };
        plan.connections[0].window = Some(BUFFER);
        let spec = plan.flows(crate::family(from), u32::MAX).swap_remove(0);
        let shared = &self.shared;
        let (own, early, copies) = match &shared.group {
            Some(group) => {
                let port = inlet.at.port();
                let own = session::open_group(&plan, &spec, group, port, Some(from)).ok()?;
                let number = |datagram: &[u8]| width.number(datagram);
                let (early, copies) = inlet.begun_in_group(&own, from, first, number);
                (own, early, copies)
            }
            None => {
                let own = session::open_datagrams(&plan, &spec, false, Some(inlet.at), Some(from));
                let own = own.ok()?;
                let early = inlet.begun(&own, from, vec![first]);
                (own, early, Copies::default())
            }
        };
        let ending = Arc::<Ending>::default();
        let mut end = End::new(&shared.workers, &counted(&plan), true);
        let signals = LastNumber::new(width, ending.clone()).without(copies);
        end.datagrams(&spec, false, own, Some(Box::new(signals)));
        let intervals = intervals(early[0].1.at_ns, 0);
        end.start(intervals);
        for (datagram, arrival) in &early {
            deliver(&end, width, datagram, *arrival);
        }
        let session = Session {
            number: shared.next_session.fetch_add(1, Ordering::Relaxed),
            from,
            plan,
            spec,
            intervals,
            ending,
            cut_off_ns: Arc::default(),
            call: None,
            _share: share,
        };
        Some((end, session))
    }

    fn spawn(&mut self, end: End, session: Session, width: Width, wants_report: bool) {
        let (end, now) = (Arc::new(end), self.shared.workers.now_ns());
        self.known.retain(|_, s| s.session.strong_count() > 0 || s.is_cut_off(now));
        let cut_off_ns = session.cut_off_ns.clone();
        let source = Source { session: Arc::downgrade(&end), width, cut_off_ns };
        self.known.insert(session.from, source);
        self.tasks.spawn(session.run(end, self.shared.clone(), wants_report));
    }
}

/// Delivers a datagram that arrived on another socket than that of its session.
fn deliver(end: &End, width: Width, datagram: &[u8], arrival: Arrival) {
    match width.number(datagram) {
        None => {}
        Some(0) if width == Width::Wide => {}
        Some(number) => {
            end.deliver(FLOW, datagram, arrival);
            if number < 0 {
                end.drain(QUIET_NS);
            }
        }
    }
}

/// A session of datagrams.
struct Session {
    number: u64,
    from: SocketAddr,
    plan: Plan,
    spec: FlowSpec,
    intervals: IntervalClock,
    ending: Arc<Ending>,
    cut_off_ns: Arc<AtomicU64>,
    /// The source has asked to be called back.
    call: Option<Call>,
    _share: Share,
}

impl Session {
    async fn run(self, end: Arc<End>, shared: Arc<Shared>, wants_report: bool) {
        shared.opened(self.number, self.from, 1);
        if let Some(call) = self.call.filter(|call| !call.is_after) {
            tokio::spawn(call.datagrams(shared.clone()));
        }
        let ended = self.until_end(&end, &shared).await;
        let report = end.report();
        let is_complete = ended.status == Status::Complete;
        let receiver = report.flows.first().and_then(|flow| flow.receiver.as_ref());
        let reply = receiver.filter(|_| is_complete && wants_report).map(reply);
        if let Some(reply) = reply {
            self.ending.answer(&end, FLOW, shared.workers.now_ns(), &reply);
        }
        let specs = vec![self.spec.clone()];
        shared.closed(
            self.number,
            (self.plan.clone(), specs),
            self.from,
            (report, None),
            self.intervals,
            ended,
        );
        if reply.is_some() {
            self.ending.settled(&shared.workers, &shared.stop).await;
        }
        // The session is over for its source as well when its end is dropped.
        drop(end);
        if let Some(call) = self.call.filter(|call| call.is_after && is_complete) {
            tokio::spawn(call.datagrams(shared.clone()));
        }
    }

    async fn until_end(&self, end: &End, shared: &Shared) -> Ended {
        let partial = |reason: String| Ended::new(Status::Partial, reason);
        let silence = Duration::from_secs(shared.limits.silence_seconds).min(DATAGRAM_SILENCE);
        let longest = Duration::from_secs(shared.limits.session_seconds);
        let age = |ns: u64| Duration::from_nanos(shared.workers.now_ns().saturating_sub(ns));
        let mut ticks = tokio::time::interval_at(Instant::now() + TICK, TICK);
        loop {
            tokio::select! {
                event = end.event() => match event {
                    FlowEvent::ReceiverDone(_) => {
                        return Ended::new(Status::Complete, "the client finished");
                    }
                    FlowEvent::SenderEnded(_) => end.drain(QUIET_NS),
                    FlowEvent::Failed(_, text) => return partial(text),
                    _ => {}
                },
                _ = ticks.tick() => {
                    if age(self.intervals.start_ns) > longest {
                        self.cut_off_ns.store(shared.workers.now_ns(), Ordering::Release);
                        return partial("the session reached the limit of its time".into());
                    }
                    let silent = age(end.last_arrival_ns().max(self.intervals.start_ns));
                    if silent > silence {
                        return partial(format!("nothing arrived for {} s", silent.as_secs()));
                    }
                }
                reason = shared.stop.asked(1) => {
                    return Ended::new(Status::Interrupted, reason.text());
                }
            }
        }
    }
}

/// What this end received of a flow, as iperf2's report.
pub(super) fn report(near: &EndReport, flow: u32) -> Option<Report> {
    let flow = near.flows.iter().find(|report| report.id == flow);
    flow.and_then(|flow| flow.receiver.as_ref()).map(reply)
}

/// The figures of a receiver as iperf2's report.
fn reply(receiver: &Receiver) -> Report {
    let us = |seconds: f64| (seconds * 1e6).round() as u64;
    let lost = receiver.lost_packets.unwrap_or(0);
    Report {
        bytes: receiver.bytes,
        time_us: us(receiver.seconds),
        datagrams: receiver.packets.saturating_add(lost),
        lost,
        out_of_order: receiver.reordered_packets.unwrap_or(0),
        jitter_us: us(receiver.jitter_seconds.unwrap_or(0.0)),
    }
}
