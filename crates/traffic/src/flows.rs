//! One flow of a session at one end: its socket, its counters, its place in the engine, and its report.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_flow::{
    Drain, FEW_SEGMENTS, IntervalClock, MAX_SEGMENTS, PayloadRing, Receiving, SenderClock, Sending,
    StreamPool, StreamReceiving,
};
use weir_model::plan::{FlowSpec, Switch};
use weir_model::record::{IntervalCount, Tcp};
use weir_model::report::FlowReport;
use weir_net::tcp::{TcpInfo, TcpOptions, TcpStream};
use weir_net::udp::{UdpOptions, UdpSocket, gso_max_segments};
use weir_wire::control::SenderTotal;
use weir_wire::data::TagKey;

use crate::engine::{
    ControlRole, Engine, Events, Place, Proof, ReceiveFlow, SendFlow, StreamFlow, StreamRole,
    TcpSamples, lock,
};
use crate::log::PacketLog;

/// Receive buffer asked for when the plan names none: 100 ms at 1 Mpps of small datagrams, as the kernel counts them.
const UDP_RECEIVE_BUFFER: usize = 32 << 20;
/// The same when the sender has no limit: 20 ms at 40 Gbit/s. Arrival times are the kernel's, so waiting here spoils none.
const UDP_UNLIMITED_RECEIVE_BUFFER: usize = 128 << 20;
/// Send buffer asked for.
const UDP_SEND_BUFFER: usize = 4 << 20;
/// With very many flows each gets less, so that all of them fit.
const UDP_BUFFERS_TOTAL: usize = 2 << 30;

/// What both ends of a session know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionFacts {
    pub(crate) session: u64,
    pub(crate) key: [u8; 16],
    pub(crate) token_secret: [u8; 16],
    pub(crate) seed: u64,
    pub(crate) omit_ns: u64,
    pub(crate) loss_threshold_ns: u64,
    /// How often a receiver at the client proves that it wants to be sent to.
    pub(crate) feedback_ns: u64,
}

impl SessionFacts {
    /// The single-use token of a data connection: a tag that only a holder of the session's secret can make.
    pub(crate) fn token(&self, flow: u32) -> [u8; 16] {
        use weir_wire::datagram::{ControlDatagram, DatagramKey, Kind};
        let tag = |sequence| {
            let d = ControlDatagram {
                kind: Kind::Hello,
                flow,
                session: self.session,
                sequence,
                t1_ns: 0,
                t2_ns: 0,
                t3_ns: 0,
            };
            let bytes = d.encode(&DatagramKey::from_bytes(&self.token_secret));
            let mut out = [0; 8];
            out.copy_from_slice(&bytes[56..]);
            out
        };
        let mut out = [0; 16];
        out[..8].copy_from_slice(&tag(1));
        out[8..].copy_from_slice(&tag(2));
        out
    }
}

enum Part {
    UdpSend(Arc<Mutex<Sending>>),
    UdpReceive { state: Arc<Mutex<Receiving>>, base_drops: u32 },
    TcpSend { state: Arc<Mutex<Sending>>, samples: Arc<Mutex<TcpSamples>> },
    TcpReceive { state: Arc<Mutex<StreamReceiving>> },
}

enum Socket {
    Udp(Arc<UdpSocket>),
    Tcp(Arc<TcpStream>),
}

/// A flow that has its connection.
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    part: Part,
    socket: Socket,
    places: Vec<Place>,
    coalesced: bool,
    pub(crate) connect_seconds: Option<f64>,
    /// Last sign of life of the receiver (server's senders).
    alive: Arc<AtomicU64>,
    error: Mutex<Option<String>>,
}

/// The options of a datagram socket of a flow. `receives`: data comes in on it.
pub(crate) fn udp_options(
    spec: &FlowSpec,
    bind: SocketAddr,
    receives: bool,
    flows: usize,
) -> UdpOptions {
    let (c, udp) = (&spec.connection, offloads(spec));
    let ip = c.transport.ip().cloned().unwrap_or_default();
    let share = |most: usize| most.min(UDP_BUFFERS_TOTAL / flows.max(1)).max(256 << 10);
    let window = c.window.map(|w| w.0 as usize);
    let receive_buffer = match spec.rate.packets_per_second(1) {
        Some(_) => UDP_RECEIVE_BUFFER,
        None => UDP_UNLIMITED_RECEIVE_BUFFER,
    };
    UdpOptions {
        send_buffer: (!receives).then(|| window.unwrap_or(share(UDP_SEND_BUFFER))),
        receive_buffer: receives.then(|| window.unwrap_or(share(receive_buffer))),
        tos: ip.tos,
        ttl: ip.ttl,
        flow_label: if bind.is_ipv6() { ip.flow_label } else { None },
        // Without the flag: fragmentation as the system does it, so that large payloads pass.
        dont_fragment: udp.dont_fragment.then_some(true),
        gro: receives && wants_coalescing(spec),
        timestamps: receives,
        rxq_overflow: receives,
        pacing_bytes_per_second: if receives { None } else { ip.kernel_pacing.map(|r| r.0 / 8) },
        nonblocking: true,
        ..UdpOptions::bind(bind)
    }
}

/// Options of UDP, or their defaults.
fn offloads(spec: &FlowSpec) -> weir_model::plan::UdpOptions {
    spec.connection.transport.udp_options().cloned().unwrap_or_default()
}

/// Whether a receiver asks for coalesced datagrams: where spacing is not of interest, or as configured.
fn wants_coalescing(spec: &FlowSpec) -> bool {
    match offloads(spec).gro {
        Switch::On => true,
        Switch::Off => false,
        Switch::Auto => {
            spec.rate.packets_per_second(1).is_none() && offloads(spec).gso != Switch::Off
        }
    }
}

/// Whether a sender hands over super-packets.
fn wants_segmentation(spec: &FlowSpec, socket: &UdpSocket) -> bool {
    let possible = spec.payload_bytes > 0
        && spec.payload_bytes * 2 <= 65_507
        && gso_max_segments() > 1
        && socket.segmentation_available();
    match offloads(spec).gso {
        Switch::On => possible,
        Switch::Off => false,
        Switch::Auto => possible && spec.rate.packets_per_second(1).is_none(),
    }
}

/// The options of a TCP data connection.
pub(crate) fn tcp_options(spec: &FlowSpec, sends: bool) -> TcpOptions {
    let transport = &spec.connection.transport;
    let (tcp, ip) = (transport.tcp_options(), transport.ip().cloned().unwrap_or_default());
    let window = spec.connection.window.map(|w| w.0 as usize);
    TcpOptions {
        send_buffer: window,
        receive_buffer: window,
        mss: tcp.and_then(|o| o.mss).map(|m| m as u16),
        congestion_control: tcp.and_then(|o| o.congestion.clone()),
        nodelay: tcp.is_some_and(|o| o.no_delay),
        tos: ip.tos,
        ttl: ip.ttl,
        flow_label: ip.flow_label,
        pacing_bytes_per_second: if sends { ip.kernel_pacing.map(|r| r.0 / 8) } else { None },
        ..TcpOptions::default()
    }
}

/// Options of a byte stream, or their defaults.
fn byte_stream(spec: &FlowSpec) -> weir_model::plan::StreamOptions {
    spec.connection.transport.stream().cloned().unwrap_or_default()
}

impl Flow {
    /// A datagram flow on its connected socket. `sends`: this end sends.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn udp(
        engine: &Engine,
        facts: &SessionFacts,
        spec: FlowSpec,
        sends: bool,
        socket: Arc<UdpSocket>,
        role: ControlRole,
        alive: Arc<AtomicU64>,
        events: Events,
        log: Option<PacketLog>,
    ) -> Flow {
        let key = TagKey::for_flow(&facts.key, spec.id);
        let content = spec.connection.content;
        let mut places = vec![];
        let segmented = sends && wants_segmentation(&spec, &socket);
        let coalesced = !sends && wants_coalescing(&spec);
        let is_server = matches!(role, ControlRole::Server { .. });
        let receive = |state, events, payload, log| ReceiveFlow {
            id: spec.id,
            socket: socket.clone(),
            state,
            payload,
            coalesced,
            role,
            events,
            log,
            direction: spec.connection.direction,
        };
        let part = if sends {
            let state = Arc::new(Mutex::new(Sending::new(&spec, key, facts.omit_ns, segmented)));
            places.push(engine.add_sender(SendFlow {
                id: spec.id,
                socket: socket.clone(),
                state: state.clone(),
                content,
                seed: facts.seed,
                most_segments: match (segmented, spec.rate.packets_per_second(1).is_some()) {
                    (false, _) => 1,
                    (true, true) => FEW_SEGMENTS,
                    (true, false) => MAX_SEGMENTS.min(gso_max_segments().into()),
                },
                proof:
                    is_server.then(|| Proof { alive: alive.clone(), period_ns: facts.feedback_ns }),
                unreachable: None,
                is_retrying: false,
                events: events.clone(),
            }));
            // The peer's signs of life come in on the same socket.
            places.push(engine.add_receiver(receive(None, events, 64, None)));
            Part::UdpSend(state)
        } else {
            let ring = spec
                .connection
                .verify
                .then(|| PayloadRing::new(content, facts.seed, spec.payload_bytes as usize));
            let state =
                Arc::new(Mutex::new(Receiving::new(&spec, key, facts.loss_threshold_ns, ring)));
            let base_drops = socket.socket_memory().map_or(0, |m| m.drops);
            places.push(engine.add_receiver(receive(
                Some(state.clone()),
                events,
                spec.payload_bytes as usize,
                log,
            )));
            Part::UdpReceive { state, base_drops }
        };
        Flow {
            spec,
            part,
            socket: Socket::Udp(socket),
            places,
            coalesced,
            connect_seconds: None,
            alive,
            error: Mutex::new(None),
        }
    }

    /// A stream on its connection.
    pub(crate) fn tcp(
        engine: &Engine,
        facts: &SessionFacts,
        spec: FlowSpec,
        sends: bool,
        socket: TcpStream,
        events: Events,
    ) -> Flow {
        let socket = Arc::new(socket);
        let content = spec.connection.content;
        let (role, part) = if sends {
            let key = TagKey::for_flow(&facts.key, spec.id);
            let state = Arc::new(Mutex::new(Sending::new(&spec, key, facts.omit_ns, false)));
            let samples = Arc::new(Mutex::new(TcpSamples::default()));
            let role = StreamRole::Send {
                state: state.clone(),
                content,
                seed: facts.seed,
                zero_copy: byte_stream(&spec).zero_copy,
                samples: samples.clone(),
            };
            (role, Part::TcpSend { state, samples })
        } else {
            let pool =
                spec.connection.verify.then(|| StreamPool::new(content, facts.seed, 1 << 20));
            let state = Arc::new(Mutex::new(StreamReceiving::new(pool)));
            let role =
                StreamRole::Receive { state: state.clone(), discard: byte_stream(&spec).discard };
            (role, Part::TcpReceive { state })
        };
        let place =
            engine.add_stream(StreamFlow { id: spec.id, socket: socket.clone(), role, events });
        Flow {
            spec,
            part,
            socket: Socket::Tcp(socket),
            places: vec![place],
            coalesced: false,
            connect_seconds: None,
            alive: Arc::default(),
            error: Mutex::new(None),
        }
    }

    fn poke(&self, engine: &Engine) {
        for place in &self.places {
            engine.poke(*place);
        }
    }

    /// Sets the intervals of a receiver. Data may come at once.
    pub(crate) fn begin_intervals(&self, clock: IntervalClock) {
        match &self.part {
            Part::UdpReceive { state, .. } => lock(state).start(clock),
            Part::TcpReceive { state, .. } => lock(state).start(clock),
            _ => {}
        }
    }

    /// A sender starts at `at_ns`.
    pub(crate) fn start(&self, engine: &Engine, at_ns: u64, clock: IntervalClock) {
        if let Part::UdpSend(state) | Part::TcpSend { state, .. } = &self.part {
            let mut state = lock(state);
            if !state.is_started() {
                // The test has just asked for it, once: the receiver is as alive as it was at its hello.
                self.alive.fetch_max(at_ns, Ordering::Relaxed);
                state.start(at_ns, clock);
            }
            drop(state);
            self.poke(engine);
        }
    }

    /// A sender ends now.
    pub(crate) fn stop(&self, engine: &Engine) {
        if let Part::UdpSend(state) | Part::TcpSend { state, .. } = &self.part {
            lock(state).stop();
            self.poke(engine);
        }
    }

    /// Whether this end sends.
    pub(crate) fn sends(&self) -> bool {
        matches!(self.part, Part::UdpSend(_) | Part::TcpSend { .. })
    }

    /// The sender at the other end has finished with these totals: from now on the receiver waits for the rest.
    pub(crate) fn sender_done(&self, engine: &Engine, total: &SenderTotal, loss_threshold_ns: u64) {
        let now = engine.clock().monotonic_ns();
        match &self.part {
            Part::UdpReceive { state, .. } => {
                let mut state = lock(state);
                state.set_sent_total(total.packets);
                state.set_sent_omitted(total.omitted_packets);
                total.end_ns.into_iter().for_each(|end| state.set_sender_end(end));
                state.drain(Drain::datagrams(now, loss_threshold_ns));
            }
            Part::TcpReceive { state } => {
                let mut state = lock(state);
                state.set_sent_total(total.bytes);
                state.drain(Drain::stream(now, loss_threshold_ns));
            }
            _ => {}
        }
        self.poke(engine);
    }

    /// A newer relation of the clocks.
    pub(crate) fn set_clock(&self, clock: SenderClock) {
        if let Part::UdpReceive { state, .. } = &self.part {
            lock(state).set_clock(clock);
        }
    }

    /// Why it ended early.
    pub(crate) fn fail(&self, text: String) {
        lock(&self.error).get_or_insert(text);
    }

    /// The count of an interval that is over, for live lines: `None` while datagrams of it may still be unread, for a
    /// sender that had not started, and behind one's end.
    pub(crate) fn interval(&self, index: usize, now_ns: u64) -> Option<IntervalCount> {
        match &self.part {
            Part::UdpSend(state) | Part::TcpSend { state, .. } => {
                let mut state = lock(state);
                let clock = state.log.clock()?;
                // One that waits for its turn, for room or for an answer closes no interval by itself.
                state.advance(clock.end_ns(index).filter(|end| *end <= now_ns)?);
                let seconds = clock.seconds(index)?;
                state.log.closed().get(index).map(|c| c.count(Some(seconds)))
            }
            Part::UdpReceive { state, .. } => lock(state).interval_count(index),
            Part::TcpReceive { state, .. } => {
                let mut state = lock(state);
                let end = state.log.clock()?.end_ns(index).filter(|end| *end <= now_ns)?;
                // Bytes belong to the interval in which they are read: none of this one are still to come.
                state.advance(end);
                state.interval_count(index)
            }
        }
    }

    /// Takes it out of the engine and reports.
    pub(crate) fn report(&self, engine: &Engine, now_ns: u64) -> FlowReport {
        let (local, remote) = self.addresses();
        let mut out = FlowReport {
            id: self.spec.id,
            local: local.map_or_else(String::new, |a| a.to_string()),
            remote: remote.map_or_else(String::new, |a| a.to_string()),
            connect_seconds: self.connect_seconds,
            error: lock(&self.error).clone(),
            ..FlowReport::default()
        };
        if let Socket::Tcp(socket) = &self.socket {
            out.tcp = socket.info().ok().map(|info| tcp_record(&info, socket));
        }
        match &self.part {
            Part::UdpSend(state) => {
                let mut state = lock(state);
                state.finish(now_ns);
                let method = if state.has_coalesced() { "gso" } else { "sendmmsg" };
                out.sender = Some(state.report(method, self.buffer(true)));
                out.intervals = state.interval_counts();
            }
            Part::TcpSend { state, samples } => {
                let mut state = lock(state);
                state.finish(now_ns);
                // Those after the end of sending too, so that the intervals add up to the total.
                if let Some(tcp) = &out.tcp {
                    state.note_retransmits(tcp.retransmits);
                }
                let method = if byte_stream(&self.spec).zero_copy { "sendfile" } else { "write" };
                out.sender = Some(state.report(method, self.buffer(true)));
                out.intervals = state.interval_counts();
                if let Some(tcp) = &mut out.tcp {
                    state.report_tcp(tcp);
                }
                out.tcp_samples = lock(samples).samples.clone();
            }
            Part::UdpReceive { state, base_drops, .. } => {
                let mut state = lock(state);
                let dropped = match &self.socket {
                    Socket::Udp(s) => {
                        s.socket_memory().ok().map(|m| u64::from(m.drops.wrapping_sub(*base_drops)))
                    }
                    Socket::Tcp(_) => None,
                };
                state.finish(now_ns);
                let method = if self.coalesced { "gro" } else { "recvmmsg" };
                out.receiver = Some(state.report(method, self.buffer(false), dropped));
                out.intervals = state.interval_counts();
                out.histograms = state.histograms(self.spec.id);
                out.time_source = state.time_source().map(Into::into);
                out.time_resolution_seconds =
                    Some(weir_net::clock::monotonic_resolution_ns() as f64 / 1e9);
            }
            Part::TcpReceive { state, .. } => {
                let mut state = lock(state);
                state.finish(now_ns);
                let method = if byte_stream(&self.spec).discard && !state.wants_bytes() {
                    "discard"
                } else {
                    "copy"
                };
                out.receiver = Some(state.report(method, self.buffer(false)));
                out.intervals = state.interval_counts();
            }
        }
        self.remove(engine);
        out
    }

    /// Takes it out of the engine.
    pub(crate) fn remove(&self, engine: &Engine) {
        for place in &self.places {
            engine.remove(*place);
        }
    }

    fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        match &self.socket {
            Socket::Udp(s) => (s.local_addr().ok(), s.peer_addr().ok()),
            Socket::Tcp(s) => (s.local_addr().ok(), s.peer_addr().ok()),
        }
    }

    /// Socket buffer in effect, as the kernel counts it.
    fn buffer(&self, send: bool) -> Option<u64> {
        let bytes = match (&self.socket, send) {
            (Socket::Udp(s), true) => s.send_buffer(),
            (Socket::Udp(s), false) => s.receive_buffer(),
            (Socket::Tcp(s), true) => s.send_buffer(),
            (Socket::Tcp(s), false) => s.receive_buffer(),
        };
        bytes.ok().map(|b| b as u64)
    }
}

fn tcp_record(info: &TcpInfo, socket: &TcpStream) -> Tcp {
    let share = |part: Option<u64>| match (part, info.busy_us) {
        (Some(part), Some(busy)) if busy > 0 => Some(part as f64 / busy as f64),
        _ => None,
    };
    Tcp {
        retransmits: u64::from(info.total_retransmits),
        mss_bytes: info.send_mss_bytes,
        min_rtt_seconds: info.min_rtt_us.filter(|r| *r != u32::MAX).map(|r| f64::from(r) / 1e6),
        congestion_control: socket.congestion_control().unwrap_or_default(),
        send_window_bytes: info.send_window_bytes.map(u64::from),
        receive_window_bytes: info.receive_window_bytes.map(u64::from),
        retransmitted_bytes: info.bytes_retransmitted,
        receive_window_limited_ratio: share(info.receive_window_limited_us),
        send_buffer_limited_ratio: share(info.send_buffer_limited_us),
        timestamps: Some(info.timestamps),
        ..Tcp::default()
    }
}
