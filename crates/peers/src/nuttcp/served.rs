//! One test at the server, from its parameters to its figures.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_model::plan::{FlowSpec, Plan};
use weir_model::record::{Receiver, Record, Status};
use weir_model::report::{EndReport, FlowReport};
use weir_net::tcp::TcpStream;
use weir_traffic::session::{self, End, FlowEvent, SenderTotal};
use weir_traffic::{ServerEvent, Stop};

use super::codec::{Parameters, tag};
use super::control::{Control, ControlError};
use super::datagrams::{self, EndMarkers, NoData};
use super::ends::Ends;
use super::figures::{Amount, Beginning, Totals};
use super::level::{self, ENDING, Markers, Stream};
use super::server::{Shared, Turn};
use crate::ports::{self, Arrived, Lease, Rules, Waiting};
use crate::serving::{self, sends};
use crate::sessions::{self, Ended};

/// How long streams may take to connect, and the pause between two tries.
const CONNECTING: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(20));
/// How long a client may take for its first datagram: other sessions of its host wait for it.
const FIRST_DATAGRAM: Duration = Duration::from_secs(5);
/// How long the ports of a session that has ended may take to close, and the pause between two tries.
const CLOSING: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(10));
/// Silence after the end of the data. Datagrams reordered behind it still count.
const QUIET_NS: u64 = 100_000_000;
/// Most time without progress for a client to acknowledge what was sent to it.
const DELIVERY: Duration = Duration::from_secs(5);
/// How often the limits of a session are checked.
const TICK: Duration = Duration::from_millis(100);
/// Pause between two looks for what the system does not announce.
const LOOK: Duration = Duration::from_millis(5);
/// Shortest interval that is reported, s.
const MIN_INTERVAL: f64 = 0.1;

/// How the data of a client begins.
const RULES: Rules = Rules {
    identity_bytes: [0, 0],
    number: |_| None,
    begins: datagrams::begins,
    start_ns: |read| datagrams::start_ns(std::slice::from_ref(read)).unwrap_or(read.1.at_ns),
    deliver: |end, flow, _, read| {
        datagrams::deliver(end, flow, std::slice::from_ref(read), QUIET_NS)
    },
};

/// A session.
pub(super) struct Session<'a> {
    parameters: Parameters,
    plan: Plan,
    specs: Vec<FlowSpec>,
    peer: SocketAddr,
    /// The address at which the client has reached this host.
    local: SocketAddr,
    shared: &'a Shared,
    number: u64,
    started: Instant,
    /// When the data began, by the workers' clock, ns; 0 before.
    start_ns: Arc<AtomicU64>,
    ends: Ends,
    /// Sent streams, to make them equally long.
    streams: Vec<Stream>,
    arriving: (mpsc::UnboundedSender<Arrived>, mpsc::UnboundedReceiver<Arrived>),
    leases: Vec<Lease>,
    turn: Option<Turn>,
    /// Flows that have not finished.
    running: HashSet<u32>,
    /// Flows whose data has not arrived.
    awaited: HashSet<u32>,
    totals: Vec<SenderTotal>,
    is_ending: bool,
    rest: Option<Rest>,
}

/// The markers for a client that has received neither of the first two.
pub(super) struct Rest {
    markers: Markers,
    end: Arc<End>,
}

impl Rest {
    /// Sends them. It is dropped when the client has ended: its port may be that of the next test.
    pub(super) async fn send(mut self) {
        while !self.markers.is_last_sent() {
            tokio::time::sleep(ENDING).await;
            self.markers.send_next(&self.end);
        }
    }
}

impl<'a> Session<'a> {
    pub(super) fn new(
        parameters: Parameters,
        plan: Plan,
        peer: SocketAddr,
        local: SocketAddr,
        shared: &'a Shared,
    ) -> Session<'a> {
        let specs = plan.flows(crate::family(peer), session::path_mtu_bytes(peer.ip()));
        let ids: HashSet<u32> = specs.iter().map(|spec| spec.id).collect();
        Session {
            parameters,
            plan,
            specs,
            peer,
            local,
            shared,
            number: shared.session(),
            started: Instant::now(),
            start_ns: Arc::default(),
            ends: Ends::new(),
            streams: vec![],
            arriving: mpsc::unbounded_channel(),
            leases: vec![],
            turn: None,
            running: ids.clone(),
            awaited: ids,
            totals: vec![],
            is_ending: false,
            rest: None,
        }
    }

    /// Serves the client until its test has ended, it is gone, or a limit is reached.
    ///
    /// # Errors
    /// The reason for which the test is refused.
    pub(super) async fn run(mut self, control: &mut Control) -> Result<Option<Rest>, String> {
        if self.listens() {
            let host = self.peer.ip().to_canonical();
            self.turn = tokio::select! {
                turn = self.shared.turn(host) => Some(turn),
                _ = control.line() => return Ok(None),
                _ = self.shared.stop.asked(1) => return Ok(None),
            };
            self.started = Instant::now();
            self.listen().await?;
        }
        if control.send(&super::codec::accepted()).await.is_err() {
            return Ok(None);
        }
        let (session, peer) = (self.number, self.peer.into());
        let flows = self.specs.len();
        self.shared.report(ServerEvent::SessionOpened { session, peer, flows });
        let ended = match self.attach(control).await {
            Ok(()) => self.until_over(control).await,
            Err(ended) => ended,
        };
        let rest = self.rest.take();
        self.report(ended, control).await;
        Ok(rest)
    }

    fn is_sender(&self) -> bool {
        !self.parameters.client_sends
    }

    /// Whether the client connects, or sends datagrams.
    fn listens(&self) -> bool {
        self.parameters.client_sends != self.parameters.is_flipped
    }

    /// Opens the ports of the data.
    async fn listen(&mut self) -> Result<(), String> {
        let (patience, pause) = CLOSING;
        let until = Instant::now() + patience;
        while let Err(reason) = self.open_ports() {
            if Instant::now() >= until {
                return Err(reason);
            }
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// Opens the ports that are not open yet.
    fn open_ports(&mut self) -> Result<(), String> {
        let interval_ns = self.interval_ns();
        let all = self.specs.iter().zip(self.parameters.port..=u16::MAX);
        for (spec, port) in all.skip(self.leases.len()) {
            let at = super::with_port(self.local, port);
            let waiting = Waiting {
                client: self.peer.ip().to_canonical(),
                number: None,
                rules: RULES,
                signals: Some(Box::<EndMarkers>::default()),
                interval_ns,
                plan: self.plan.clone(),
                spec: spec.clone(),
                start_ns: self.start_ns.clone(),
                arrived: self.arriving.0.clone(),
            };
            let lease = self.shared.ports.open(at, waiting);
            self.leases.push(lease.map_err(|error| format!("bind: {error}"))?);
        }
        Ok(())
    }

    /// Duration of the intervals, ns.
    fn interval_ns(&self) -> u64 {
        match self.parameters.interval {
            interval if interval > 0.0 => (interval.max(MIN_INTERVAL) * 1e9) as u64,
            _ => sessions::INTERVAL_NS,
        }
    }

    /// Makes the flows whose sockets this end opens or that are connections.
    async fn attach(&mut self, control: &mut Control) -> Result<(), Ended> {
        if self.parameters.is_udp && !self.is_sender() {
            // Each flow begins with its first datagram.
            let _ = control.send(&self.beginning(None)).await;
            return Ok(());
        }
        let partial = |reason: String| Ended::new(Status::Partial, reason);
        let shared = self.shared;
        let mut end =
            End::new(&self.shared.workers, &self.plan, true).with_host(self.peer.ip(), None);
        if self.parameters.is_udp {
            let from = super::with_port(self.local, 0);
            for (spec, port) in self.specs.iter().zip(self.parameters.port..=u16::MAX) {
                let to = super::with_port(self.peer, port);
                let socket = session::open_datagrams(&self.plan, spec, true, Some(from), Some(to));
                let socket = socket.map_err(|error| partial(error.to_string()))?;
                end.datagrams(spec, true, socket, Some(Box::new(NoData)));
            }
            let _ = control.send(&self.beginning(None)).await;
            tokio::select! {
                () = level::begin_datagrams(&end, &self.specs) => {}
                _ = control.line() => return Err(partial(GONE.into())),
                reason = shared.stop.asked(1) => {
                    return Err(Ended::new(Status::Interrupted, reason.text()));
                }
            }
        } else {
            let connections = tokio::select! {
                connections = self.connections() => connections.map_err(partial)?,
                _ = control.line() => return Err(partial(GONE.into())),
                reason = shared.stop.asked(1) => {
                    return Err(Ended::new(Status::Interrupted, reason.text()));
                }
            };
            self.turn = None;
            let _ = control.send(&self.beginning(connections.first())).await;
            for (spec, stream) in self.specs.iter().zip(connections) {
                let added = attach_stream(&mut end, spec, stream, self.specs.len() > 1);
                let stream = added.map_err(|error| partial(error.to_string()))?;
                self.streams.extend(stream.map(|stream| (spec.id, stream)));
            }
        }
        self.awaited.clear();
        let now_ns = self.shared.workers.now_ns();
        end.start(ports::intervals(&self.start_ns, now_ns, self.interval_ns()));
        self.ends.add(Arc::new(end));
        Ok(())
    }

    /// The connections of all streams, in their order.
    async fn connections(&mut self) -> Result<Vec<TcpStream>, String> {
        let (patience, pause) = CONNECTING;
        let until = Instant::now() + patience;
        let mut connections: Vec<(u32, TcpStream)> = vec![];
        if self.listens() {
            while connections.len() < self.specs.len() {
                let arrived = tokio::time::timeout_at(until, self.arriving.1.recv());
                match arrived.await {
                    Ok(Some(Arrived::Stream(id, stream, _))) => connections.push((id, stream)),
                    Ok(Some(Arrived::Failed(_, reason))) => return Err(reason),
                    Ok(Some(Arrived::Datagrams(..))) => {}
                    Ok(None) | Err(_) => return Err("the client did not connect".into()),
                }
            }
        } else {
            for (spec, port) in self.specs.iter().zip(self.parameters.port..=u16::MAX) {
                let to = super::with_port(self.peer, port);
                loop {
                    let left = until.saturating_duration_since(Instant::now());
                    let connecting =
                        session::connect_stream(&self.plan, spec, sends(spec), to, left);
                    match connecting.await {
                        Ok(stream) => break connections.push((spec.id, stream)),
                        Err(error) if Instant::now() >= until => return Err(error.to_string()),
                        // The client listens only after it has read the acceptance.
                        Err(_) => tokio::time::sleep(pause).await,
                    }
                }
            }
        }
        connections.sort_by_key(|(id, _)| *id);
        Ok(connections.into_iter().map(|(_, stream)| stream).collect())
    }

    /// The lines before the data. `connection`: that of the first stream.
    fn beginning(&self, connection: Option<&TcpStream>) -> String {
        let p = &self.parameters;
        let has_connected = !self.listens();
        let path = connection.filter(|_| has_connected || self.is_sender());
        let path = path
            .and_then(session::tcp_info)
            .map(|tcp| (tcp.mss_bytes, tcp.rtt_seconds.unwrap_or(0.0) * 1e3));
        Beginning {
            is_sender: self.is_sender(),
            format: p.format,
            buffer_bytes: p.buffer_bytes,
            streams: p.streams,
            port: p.port,
            is_udp: p.is_udp,
            client: self.peer.ip().to_canonical().to_string(),
            has_connected,
            path,
            interval: p.interval,
            seconds: p.seconds,
        }
        .lines()
    }

    /// Runs until the test has ended.
    async fn until_over(&mut self, control: &mut Control) -> Ended {
        let partial = |reason: String| Ended::new(Status::Partial, reason);
        let mut ticks = tokio::time::interval_at(Instant::now() + TICK, TICK);
        let mut rows = Rows::default();
        let ends_with_control = self.parameters.is_udp && !self.is_sender();
        let mut is_half_closed = false;
        while !self.running.is_empty() {
            // Another look follows each tick.
            let row = self.until_row(&rows);
            tokio::select! {
                event = self.ends.event() => {
                    if let Some(ended) = self.event(event) {
                        return ended;
                    }
                }
                Some(arrived) = self.arriving.1.recv() => match arrived {
                    Arrived::Datagrams(id, end) => self.begun(id, end),
                    Arrived::Stream(..) => {}
                    Arrived::Failed(_, reason) => return partial(reason),
                },
                line = control.line(), if !is_half_closed => match line {
                    // A client states nothing during a test.
                    Ok(_) => {}
                    // nuttcp closes its direction after the last marker, any of which may be lost.
                    Err(ControlError::Closed) if ends_with_control => {
                        is_half_closed = true;
                        self.drain();
                    }
                    Err(_) => return partial(GONE.into()),
                },
                _ = ticks.tick() => if let Some(ended) = self.over() {
                    return ended;
                },
                () = tokio::time::sleep(row.unwrap_or(TICK)), if row.is_some() => {
                    let line = self.row(&mut rows);
                    if control.send(&line).await.is_err() {
                        return partial(GONE.into());
                    }
                }
                reason = self.shared.stop.asked(1) => {
                    self.ends.stop();
                    return Ended::new(Status::Interrupted, reason.text());
                }
            }
        }
        if let Some(ended) = self.end_sent(control).await {
            return ended;
        }
        if !self.is_sender() && self.parameters.interval > 0.0 {
            let _ = control.send("DONE\n").await;
        }
        Ended::new(
            Status::Complete,
            if self.is_sender() { "all was sent" } else { "the client finished" },
        )
    }

    /// The first datagram of a flow has arrived.
    fn begun(&mut self, id: u32, end: Arc<End>) {
        if self.is_ending {
            end.drain(QUIET_NS);
            self.running.insert(id);
        }
        self.ends.add(end);
        self.awaited.remove(&id);
        if self.awaited.is_empty() {
            self.turn = None;
        }
    }

    /// Takes an event of a flow.
    fn event(&mut self, event: FlowEvent) -> Option<Ended> {
        match event {
            FlowEvent::SenderDone(total) => {
                self.running.remove(&total.flow);
                self.totals.push(total);
            }
            FlowEvent::ReceiverDone(id) => {
                self.running.remove(&id);
            }
            // The marker of the end is that of all flows.
            FlowEvent::SenderEnded(_) => self.drain(),
            FlowEvent::Failed(_, reason) => return Some(Ended::new(Status::Partial, reason)),
            FlowEvent::Ready(_) => {}
        }
        None
    }

    /// The client has sent everything: what is on its way is awaited.
    fn drain(&mut self) {
        self.is_ending = true;
        self.ends.drain(QUIET_NS);
        self.running.retain(|id| !self.awaited.contains(id));
    }

    /// Whether a limit is reached.
    fn over(&self) -> Option<Ended> {
        let limits = &self.shared.limits;
        let partial = |reason: String| Some(Ended::new(Status::Partial, reason));
        if self.started.elapsed() >= Duration::from_secs(limits.session_seconds) {
            return partial("the session reached the limit of its time".into());
        }
        let has_begun = self.awaited.len() < self.specs.len();
        let most = Duration::from_secs(limits.silence_seconds);
        let most = if has_begun { most } else { most.min(FIRST_DATAGRAM) };
        let silent = match self.ends.last_arrival_ns() {
            0 => self.started.elapsed(),
            ns => Duration::from_nanos(self.shared.workers.now_ns().saturating_sub(ns)),
        };
        if !self.is_sender() && silent >= most {
            return partial(format!("nothing arrived for {} s", most.as_secs()));
        }
        None
    }

    /// Ends what this end has sent. `Some`: it could not, since the client is gone or the server is stopped.
    async fn end_sent(&mut self, control: &mut Control) -> Option<Ended> {
        let end = self.ends.first().filter(|_| self.is_sender()).cloned()?;
        if self.parameters.is_udp {
            let first = async {
                let markers = Markers::send_first(&end, &self.specs, &self.totals).await;
                tokio::time::sleep(ENDING).await;
                markers
            };
            let mut markers = tokio::select! {
                markers = first => markers,
                ended = cut_short(control, &self.shared.stop) => return Some(ended),
            };
            markers.send_next(&end);
            self.rest = Some(Rest { markers, end });
            return None;
        }
        tokio::select! {
            () = level::end_streams(&end, &self.specs, &self.totals, &mut self.streams) => {}
            ended = cut_short(control, &self.shared.stop) => return Some(ended),
        }
        let (mut left, mut since) = (u64::MAX, Instant::now());
        loop {
            match self.ends.unacknowledged_bytes() {
                0 => return None,
                now if now < left => (left, since) = (now, Instant::now()),
                _ if since.elapsed() > DELIVERY => {
                    let reason =
                        format!("the client acknowledged nothing for {} s", DELIVERY.as_secs());
                    return Some(Ended::new(Status::Partial, reason));
                }
                _ => {}
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                ended = cut_short(control, &self.shared.stop) => return Some(ended),
            }
        }
    }

    fn intervals(&self) -> IntervalClock {
        let start_ns = match self.start_ns.load(Ordering::Acquire) {
            0 => self.shared.workers.now_ns(),
            start_ns => start_ns,
        };
        IntervalClock { start_ns, interval_ns: self.interval_ns(), omit_ns: 0 }
    }

    /// How long until the next interval that is reported ends; `None`: there is none yet.
    fn until_row(&self, rows: &Rows) -> Option<Duration> {
        let is_wanted = self.parameters.interval > 0.0 && !self.is_sender();
        let has_begun = self.start_ns.load(Ordering::Acquire) > 0;
        let at_ns = self.intervals().shown_ns(rows.count).filter(|_| is_wanted && has_begun)?;
        Some(Duration::from_nanos(at_ns.saturating_sub(self.shared.workers.now_ns())))
    }

    /// The line of the next interval.
    fn row(&self, rows: &mut Rows) -> String {
        let (bytes, packets, lost) = self.ends.received(&self.intervals(), rows.count);
        rows.count += 1;
        let lost_of = lost.filter(|_| self.parameters.is_counted());
        let lost_of = lost_of.map(|lost| (lost, packets.saturating_add(lost)));
        let seconds = self.interval_ns() as f64 / 1e9;
        let amount = Amount { bytes, seconds, lost_of };
        rows.total.bytes = rows.total.bytes.saturating_add(bytes);
        rows.total.seconds += seconds;
        let before = rows.total.lost_of.unwrap_or_default();
        rows.total.lost_of = lost_of.map(|(lost, sent)| (before.0 + lost, before.1 + sent));
        amount.interval_line(&rows.total, self.parameters.format)
    }

    /// States the figures of the test to the client, and reports the session with its record.
    async fn report(self, ended: Ended, control: &mut Control) {
        let intervals = self.intervals();
        let is_sender = self.is_sender();
        let Session { plan, specs, shared, peer, parameters, ends, number, .. } = self;
        let mut report = ends.finish();
        let known: HashSet<u32> = report.flows.iter().map(|flow| flow.id).collect();
        for spec in specs.iter().filter(|spec| !known.contains(&spec.id)) {
            // Nothing of it has arrived.
            let receiver = Some(Receiver::default()).filter(|_| !is_sender);
            report.flows.push(FlowReport { id: spec.id, receiver, ..FlowReport::default() });
        }
        let text = match ended.status {
            Status::Complete => totals(&report, is_sender).lines(is_sender, parameters.format),
            _ => {
                format!("{}: v{}: Error: {}\n", tag(is_sender), super::codec::VERSION, ended.reason)
            }
        };
        let _ = control.send(&text).await;
        let (name, reason) = (super::PROTOCOL.name, ended.reason.clone());
        let ends = (report.clone(), None);
        let record = sessions::record(name, plan, specs, peer, ends, intervals, ended);
        let record = Record { control_bytes: Some(control.bytes()), ..record };
        shared.report(ServerEvent::SessionClosed {
            session: number,
            peer: peer.into(),
            reason,
            report: Some(Box::new(report)),
            record: Some(Box::new(record)),
        });
    }
}

/// Waits until the client is gone or the server is stopped.
async fn cut_short(control: &mut Control, stop: &Stop) -> Ended {
    tokio::select! {
        _ = control.line() => Ended::new(Status::Partial, GONE),
        reason = stop.asked(1) => Ended::new(Status::Interrupted, reason.text()),
    }
}

/// Why a session ended whose control connection did.
const GONE: &str = "the client closed the control connection";

/// Intervals that were reported to the client.
#[derive(Debug, Default)]
struct Rows {
    count: usize,
    total: Amount,
}

/// Adds a stream; returns the connection of one that may have to be made longer.
fn attach_stream(
    end: &mut End,
    spec: &FlowSpec,
    stream: TcpStream,
    is_one_of_several: bool,
) -> Result<Option<tokio::net::TcpStream>, weir_traffic::TrafficError> {
    let system = |source| weir_traffic::TrafficError::System {
        operation: "using a connection".into(),
        source,
    };
    let _ = stream.set_options(&serving::watched());
    session::accepted_stream(spec, sends(spec), &stream)?;
    let mut own = spec.clone();
    let mut second = None;
    if sends(spec) && is_one_of_several {
        let stream = stream.try_clone().map_err(system)?;
        stream.set_nonblocking(true).map_err(system)?;
        second = Some(tokio::net::TcpStream::from_std(stream.into()).map_err(system)?);
        own.connection = level::open_ended(&spec.connection);
    }
    end.stream(&own, sends(spec), stream)?;
    Ok(second)
}

/// The figures of all flows together.
fn totals(report: &EndReport, is_sender: bool) -> Totals {
    let mut out = Totals::default();
    for flow in &report.flows {
        let (bytes, seconds, calls) = match (&flow.sender, &flow.receiver) {
            (Some(s), _) if is_sender => (s.bytes, s.seconds, s.io_calls.unwrap_or(s.packets)),
            (_, Some(r)) => (r.bytes, r.seconds, r.io_calls.unwrap_or(r.packets)),
            _ => (0, 0.0, 0),
        };
        out.amount.bytes = out.amount.bytes.saturating_add(bytes);
        out.amount.seconds = out.amount.seconds.max(seconds);
        out.calls = out.calls.saturating_add(calls);
        if let Some(tcp) = flow.tcp.as_ref().filter(|_| is_sender) {
            *out.retransmits.get_or_insert(0) += tcp.retransmits;
        }
    }
    out.cpu = report
        .cpu
        .as_ref()
        .map(|cpu| [cpu.process_user_ratio * cpu.seconds, cpu.process_system_ratio * cpu.seconds]);
    out
}
