//! A server's state of one session, shared by its control task, the UDP front and the workers.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_flow::{DatagramTransfers, IntervalClock, SenderClock};
use weir_model::plan::{Direction, EngineName, FlowSpec, SourceAddresses};
use weir_net::tcp::TcpStream;
use weir_net::udp::{UdpOptions, UdpSocket};
use weir_wire::control::ClockState;
use weir_wire::datagram::DatagramKey;
use weir_wire::preface::DataPreface;

use super::SharedFile;
use crate::Address;
use crate::engine::{Accepted, Engine, Events, FlowEvent, Link, Proof, TransferCounts, lock};
use crate::flows::{Flow, SessionFacts};
use crate::log::PacketLog;
use crate::signals::ServerSignals;
use crate::transport::xdp::ReceiveEnd;
use crate::transport::{self, DatagramSocket, DatagramTransport, FrameSocket};

/// Data tokens are valid this long after the session was granted.
const TOKEN_NS: u64 = 10_000_000_000;

/// A client probes from one socket; the others are for a client behind a NAT that changes its mapping.
const MAX_PROBE_SOCKETS: u32 = 4;

/// Transfers of datagrams whose counts a session keeps, over all its flows (about 64 bytes each), and a flow at least.
const MAX_COUNTED_TRANSFERS: usize = 1 << 18;
const MIN_COUNTED_TRANSFERS: usize = 64;

/// A stream whose preface was admitted.
pub(crate) enum Admitted<'s> {
    /// The stream of a flow.
    Flow(&'s FlowSpec),
    /// The connection of one transaction of a flow.
    Transaction(&'s FlowSpec),
}

/// One session.
pub(crate) struct Session {
    pub(crate) facts: SessionFacts,
    pub(crate) datagram_key: DatagramKey,
    pub(crate) specs: HashMap<u32, FlowSpec>,
    /// The address that the client reached; a link-local one has its interface.
    local: SocketAddr,
    pub(crate) peer: Address,
    /// The addresses from which the client announced to connect.
    sources: Option<SourceAddresses>,
    pub(crate) opened_ns: u64,
    pub(crate) events: Events,
    pub(crate) flows: Mutex<HashMap<u32, Arc<Flow>>>,
    /// Set under the lock of `flows`: later connections find no session.
    closed: AtomicBool,
    /// Number of sockets that may still be opened for probes.
    probes_left: AtomicU32,
    pub(crate) log: Option<PacketLog>,
    /// The program that counts the data of its flows, if any has engine `xdp`.
    xdp: Option<ReceiveEnd>,
    used: Mutex<HashSet<u32>>,
    /// Flows that failed before they had a socket.
    failed: Mutex<HashSet<u32>>,
    /// The files of flows that are to be stored.
    pub(crate) files: HashMap<u32, SharedFile>,
    clock: Mutex<Option<ClockState>>,
    start: Mutex<Option<IntervalClock>>,
}

impl Session {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        facts: SessionFacts,
        specs: Vec<FlowSpec>,
        local: SocketAddr,
        peer: Address,
        sources: Option<SourceAddresses>,
        opened_ns: u64,
        events: Events,
        log: Option<PacketLog>,
        xdp: Option<ReceiveEnd>,
        files: HashMap<u32, SharedFile>,
    ) -> Session {
        Session {
            datagram_key: DatagramKey::for_session(&facts.key),
            facts,
            specs: specs.into_iter().map(|s| (s.id, s)).collect(),
            local,
            peer,
            sources,
            opened_ns,
            events,
            flows: Mutex::default(),
            closed: AtomicBool::new(false),
            probes_left: AtomicU32::new(MAX_PROBE_SOCKETS),
            log,
            xdp,
            failed: Mutex::default(),
            used: Mutex::default(),
            files,
            clock: Mutex::new(None),
            start: Mutex::new(None),
        }
    }

    /// Whether this end sends a flow.
    pub(crate) fn sends(spec: &FlowSpec) -> bool {
        spec.connection.direction == Direction::Reverse
    }

    /// The flow of the preface of a stream from `peer`. The error is the reason for a refusal.
    pub(crate) fn admit(
        &self,
        engine: &Engine,
        preface: &DataPreface,
        peer: &Address,
    ) -> Result<Admitted<'_>, &'static str> {
        if !preface.token_matches(&self.facts.token(preface.flow)) {
            return Err("wrong token");
        }
        let spec = self.specs.get(&preface.flow).ok_or("no such flow")?;
        // Where each transaction has a connection, all of them show the token of the flow: it is valid for the client only.
        if spec.connection.shape.connects() && lock(&self.used).contains(&preface.flow) {
            let [peer, client] = [peer, &self.peer].map(|address| address.ip().map(|ip| ip.ip()));
            let is_source = peer.zip(self.sources).is_some_and(|(ip, range)| range.contains(ip));
            if peer != client && !is_source {
                return Err("another address");
            }
            return Ok(Admitted::Transaction(spec));
        }
        if engine.clock().monotonic_ns().saturating_sub(self.opened_ns) > TOKEN_NS {
            return Err("token expired");
        }
        if !lock(&self.used).insert(preface.flow) {
            return Err("token used");
        }
        Ok(Admitted::Flow(spec))
    }

    /// Attaches a stream whose preface was admitted. The error is the reason for a refusal.
    pub(crate) fn attach_stream(
        &self,
        engine: &Engine,
        spec: &FlowSpec,
        stream: TcpStream,
    ) -> Result<(), &'static str> {
        let opened_by = transport::stream(spec).ok_or("no such flow")?;
        let transport = &spec.connection.transport;
        let ip = transport.ip().cloned().unwrap_or_default();
        if spec.connection.no_delay() && transport.tcp_options().is_some() {
            let _ = stream.set_nodelay(true);
        }
        let sends = Self::sends(spec);
        self.set_options_of_sender(spec, &stream)?;
        if let Some(label) = ip.flow_label.filter(|_| sends && self.local_ip().is_ipv6())
            && stream.flow_label().ok().flatten() != Some(label)
        {
            let reason = "the server's system does not apply a flow label to accepted connections";
            self.fail(spec.id, reason.into());
            return Err(reason);
        }
        stream.set_nonblocking(true).map_err(|_| "socket")?;
        let socket = opened_by.socket(spec, stream);
        let (facts, spec, events) = (&self.facts, spec.clone(), self.events.clone());
        let flow = match spec.connection.shape.has_transactions() {
            true => {
                let link = Link::Stream(socket);
                Flow::transactions(engine, facts, spec, false, link, None, events)
            }
            false => {
                let file = self.files.get(&spec.id).cloned();
                Flow::stream(engine, facts, spec, sends, socket, events, None, file, None)
            }
        };
        self.add(engine, Arc::new(flow));
        Ok(())
    }

    /// Sets the options of the plan that accepted connections do not have from their listener, if this end sends.
    fn set_options_of_sender(
        &self,
        spec: &FlowSpec,
        stream: &TcpStream,
    ) -> Result<(), &'static str> {
        let transport = &spec.connection.transport;
        if !Self::sends(spec) {
            return Ok(());
        }
        if transport.tcp_options().is_some_and(|o| o.cork) {
            let _ = stream.set_cork(true);
        }
        let ip = transport.ip().cloned().unwrap_or_default();
        if let Some(priority) = ip.priority
            && let Err(error) = stream.set_priority(priority)
        {
            self.fail(spec.id, format!("the server can't set SO_PRIORITY {priority}: {error}"));
            return Err("priority");
        }
        if let Some(rate) = ip.kernel_pacing {
            let _ = stream.set_pacing_rate(rate.0 / 8);
        }
        Ok(())
    }

    /// The address that the client reached.
    pub(crate) fn local_ip(&self) -> IpAddr {
        self.local.ip().to_canonical()
    }

    /// Fails a flow; the client gets the first reason.
    pub(crate) fn fail(&self, flow: u32, reason: String) {
        if lock(&self.failed).insert(flow) {
            let _ = self.events.send(FlowEvent::Failed(flow, reason));
        }
    }

    /// Hands over a connection of one transaction to its flow. `share`: its part of the server's limit of flows.
    /// `patience`: the longest wait for a part of its request. The error is the reason for a refusal.
    pub(crate) fn transaction(
        &self,
        engine: &Engine,
        spec: &FlowSpec,
        stream: TcpStream,
        share: Share,
        patience: Duration,
    ) -> Result<(), &'static str> {
        let transport = transport::stream(spec).ok_or("no such flow")?;
        let flow = self.flow(spec.id).ok_or("no such flow")?;
        if spec.connection.transport.tcp_options().is_some() {
            let _ = stream.set_nodelay(true);
        }
        self.set_options_of_sender(spec, &stream)?;
        stream.set_nonblocking(true).map_err(|_| "socket")?;
        let socket = transport.socket(spec, stream);
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        flow.accept(engine, Accepted { socket, _share: share, patience_ns });
        Ok(())
    }

    /// Opens the socket that serves a UDP flow, or the session's probes, from now on: bound to the address that the
    /// client reached and connected to the address of its valid hello.
    pub(crate) fn connected_socket(
        &self,
        flow: u32,
        port: u16,
        peer: SocketAddr,
    ) -> weir_net::Result<UdpSocket> {
        let bind = on_port(self.local, port);
        let flow = self.specs.get(&flow).and_then(|s| Some((s, transport::datagrams(s)?)));
        let options = match flow {
            Some((spec, transport)) => {
                transport.options(spec, bind, !Self::sends(spec), self.specs.len())
            }
            None => UdpOptions { timestamps: true, nonblocking: true, ..UdpOptions::bind(bind) },
        };
        UdpSocket::open(&UdpOptions { reuse_port: true, connect: Some(peer), ..options })
    }

    /// Opens the dedicated socket of a UDP flow on `port`, not yet connected.
    pub(crate) fn dedicated_socket(
        &self,
        spec: &FlowSpec,
        transport: &dyn DatagramTransport,
        port: u16,
    ) -> weir_net::Result<UdpSocket> {
        let bind = on_port(self.local, port);
        let datagrams = spec.datagrams_of_transfers();
        let spec = datagrams.as_ref().unwrap_or(spec);
        let options = transport.options(spec, bind, !Self::sends(spec), self.specs.len());
        UdpSocket::open(&options)
    }

    /// Whether the transfers of a flow arrive from many ports: its socket has no peer.
    pub(crate) fn has_many_ports(&self, flow: u32) -> bool {
        self.specs.get(&flow).is_some_and(|spec| spec.connection.transfers_datagrams())
    }

    /// Attaches a flow of transfers that are sent as datagrams to its socket.
    pub(crate) fn attach_transfers(&self, engine: &Engine, flow: u32, socket: Arc<UdpSocket>) {
        let (Some(spec), Some(peer)) = (self.specs.get(&flow), self.peer.ip()) else { return };
        let most = MAX_COUNTED_TRANSFERS / self.facts.flows.max(1);
        let counts = TransferCounts {
            socket,
            peer: peer.ip(),
            key: self.datagram_key,
            session: self.facts.session,
            flow,
            transfers: DatagramTransfers::new(most.max(MIN_COUNTED_TRANSFERS)),
        };
        let (events, log) = (self.events.clone(), self.log.clone());
        let flow = Flow::transfers(engine, &self.facts, spec.clone(), counts, events, log);
        self.add(engine, Arc::new(flow));
    }

    /// Whether a datagram comes from the host of the control connection. TCP's handshake has verified that address,
    /// so a hello replayed from another one directs no traffic there.
    pub(crate) fn is_from_peer(&self, from: SocketAddr) -> bool {
        self.peer.ip().is_some_and(|peer| from.ip() == peer.ip())
    }

    /// Reserves one of the few sockets that a session may have for its probes; `false` if none is left.
    pub(crate) fn take_probe_socket(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.probes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Whether a datagram flow has no socket yet, and may get one.
    pub(crate) fn is_awaited(&self, flow: u32) -> bool {
        self.specs.get(&flow).is_some_and(|s| s.connection.transport.datagrams())
            && !lock(&self.failed).contains(&flow)
            && !lock(&self.flows).contains_key(&flow)
    }

    /// Whether a datagram flow has no socket yet and may get one on the server's port.
    pub(crate) fn is_awaited_on_shared_port(&self, flow: u32) -> bool {
        self.specs.get(&flow).is_some_and(|s| s.connection.transport.shares_port())
            && self.is_awaited(flow)
    }

    /// The flow and its program, if its data ends in one.
    fn counted(&self, flow: u32) -> Option<(&FlowSpec, &ReceiveEnd)> {
        let spec = self.specs.get(&flow).filter(|spec| spec.connection.engine == EngineName::Xdp);
        spec.zip(self.xdp.as_ref())
    }

    /// Attaches a flow of UDP to its connected socket.
    pub(crate) fn attach_udp(&self, engine: &Engine, flow: u32, socket: UdpSocket) {
        match self.counted(flow) {
            None => self.attach_datagrams(engine, flow, Arc::new(socket)),
            Some((spec, end)) => {
                self.attach_counted(engine, flow, end.receiver(spec, &self.facts, socket));
            }
        }
    }

    /// Attaches a flow of Ethernet frames to its connected socket.
    pub(crate) fn attach_frames(&self, engine: &Engine, flow: u32, socket: FrameSocket) {
        match self.counted(flow) {
            None => self.attach_datagrams(engine, flow, Arc::new(socket)),
            Some((spec, end)) => {
                self.attach_counted(engine, flow, end.frame_receiver(spec, &self.facts, socket));
            }
        }
    }

    /// Attaches a flow whose data ends in a program, or fails it with the reason why there is none.
    fn attach_counted(
        &self,
        engine: &Engine,
        flow: u32,
        socket: Result<Arc<dyn DatagramSocket>, String>,
    ) {
        match socket {
            Ok(socket) => self.attach_datagrams(engine, flow, socket),
            Err(reason) => self.fail(flow, format!("server: {reason}")),
        }
    }

    /// Attaches a datagram flow to its socket.
    pub(crate) fn attach_datagrams(
        &self,
        engine: &Engine,
        flow: u32,
        socket: Arc<dyn DatagramSocket>,
    ) {
        let Some(spec) = self.specs.get(&flow) else { return };
        let alive = Arc::new(AtomicU64::new(engine.clock().monotonic_ns()));
        let signals = ServerSignals {
            key: self.datagram_key,
            session: self.facts.session,
            flow,
            alive: alive.clone(),
            last: 0,
        };
        if spec.connection.shape.has_transactions() {
            let proof = Some(Proof { alive, period_ns: self.facts.feedback_ns });
            let link = Link::Datagrams { socket, signals: Box::new(signals), proof };
            let (facts, spec, events) = (&self.facts, spec.clone(), self.events.clone());
            let flow = Flow::transactions(engine, facts, spec, false, link, None, events);
            self.add(engine, Arc::new(flow));
            return;
        }
        let flow = Flow::datagrams(
            engine,
            &self.facts,
            spec.clone(),
            Self::sends(spec),
            socket,
            Some(Box::new(signals)),
            Some(alive),
            self.events.clone(),
            self.log.clone(),
            None,
        );
        self.add(engine, Arc::new(flow));
    }

    /// Adds a flow, which is then ready.
    pub(crate) fn add(&self, engine: &Engine, flow: Arc<Flow>) {
        let id = flow.spec.id;
        if let Some(clock) = *lock(&self.clock) {
            flow.set_clock(sender_clock(&clock, engine.clock().monotonic_ns()));
        }
        if let Some(intervals) = *lock(&self.start) {
            flow.begin_intervals(intervals);
        }
        let mut flows = lock(&self.flows);
        if self.closed.load(Ordering::Relaxed) {
            // The session was closed meanwhile: the flow would never be removed from the engine.
            flow.remove(engine);
            return;
        }
        flows.insert(id, flow);
        drop(flows);
        let _ = self.events.send(FlowEvent::Ready(id));
    }

    /// Sets a newer relation of the clocks for all receivers.
    pub(crate) fn set_clock(&self, state: ClockState, now_ns: u64) {
        // No clock is centuries off or drifts by more than a per cent: such values are ignored.
        let far = |v: i64, most: u64| v.unsigned_abs() > most;
        if far(state.offset_ns, 1 << 61) || far(state.skew_ppb, 10_000_000) {
            return;
        }
        *lock(&self.clock) = Some(state);
        for flow in lock(&self.flows).values() {
            flow.set_clock(sender_clock(&state, now_ns));
        }
    }

    /// Sets time zero of the test and starts its flows.
    pub(crate) fn start(&self, engine: &Engine, clock: IntervalClock) {
        *lock(&self.start) = Some(clock);
        for flow in lock(&self.flows).values() {
            flow.begin_intervals(clock);
            if flow.sends() && flow.spec.connection.autostart {
                let after = flow.spec.connection.start_after.0;
                flow.start(engine, clock.start_ns.saturating_add(after), clock);
            }
        }
    }

    /// The intervals, once started.
    pub(crate) fn intervals(&self) -> Option<IntervalClock> {
        *lock(&self.start)
    }

    /// One flow.
    pub(crate) fn flow(&self, id: u32) -> Option<Arc<Flow>> {
        lock(&self.flows).get(&id).cloned()
    }

    /// All flows.
    pub(crate) fn all(&self) -> Vec<Arc<Flow>> {
        let mut flows: Vec<_> = lock(&self.flows).values().cloned().collect();
        flows.sort_by_key(|f| f.spec.id);
        flows
    }

    /// Stops and removes all flows.
    pub(crate) fn close(&self, engine: &Engine) {
        let mut flows = lock(&self.flows);
        self.closed.store(true, Ordering::Relaxed);
        for flow in flows.drain() {
            flow.1.stop(engine);
            flow.1.remove(engine);
        }
    }
}

/// An address with another port; a link-local one keeps its interface.
pub(super) fn on_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// The client's clock in the form that receivers use.
fn sender_clock(state: &ClockState, now_ns: u64) -> SenderClock {
    SenderClock {
        offset_ns: state.offset_at_server(now_ns).saturating_neg(),
        skew_ppb: -state.skew_ppb,
        reference_ns: now_ns,
        error_ns: state.error_ns,
    }
}

/// Counters of a server's load, for its limits.
#[derive(Debug, Default)]
pub struct Load {
    /// Sessions.
    pub sessions: AtomicU64,
    /// Flows of all sessions.
    pub flows: AtomicU64,
    /// Connections without a session.
    pub half_open: AtomicU64,
    pub(crate) large_plans: AtomicU64,
    pub(crate) joins: AtomicU64,
    pub(crate) frame_flows: AtomicU64,
    pub(crate) xdp_flows: AtomicU64,
}

/// A part of a limit, released when dropped.
#[derive(Debug)]
pub struct Share {
    load: Arc<Load>,
    count: fn(&Load) -> &AtomicU64,
    amount: u64,
}

impl Share {
    /// Reserves `amount` of what `count` counts; `None` if that exceeds `most`.
    pub fn take(
        load: &Arc<Load>,
        count: fn(&Load) -> &AtomicU64,
        amount: u64,
        most: u64,
    ) -> Option<Share> {
        let before = count(load).fetch_add(amount, Ordering::AcqRel);
        let share = Share { load: load.clone(), count, amount };
        // Dropping the share releases it.
        (before + amount <= most).then_some(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        (self.count)(&self.load).fetch_sub(self.amount, Ordering::AcqRel);
    }
}
