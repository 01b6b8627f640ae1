//! One flow of a session at one end: its socket, its counters, its workers, and its report.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weir_flow::assemble::interval;
use weir_flow::{
    Drain, FEW_SEGMENTS, IntervalClock, MAX_MESSAGE, MAX_SEGMENTS, Numbering, Receiving,
    SenderClock, Sending, StreamReceiving, Supply, Transacting,
};
use weir_model::content::Content;
use weir_model::plan::{Direction, EngineName, FlowSpec};
use weir_model::progress::EchoInterval;
use weir_model::record::{Histogram, Interval, IntervalCount, Membership, Tcp};
use weir_model::report::FlowReport;
use weir_model::units::{BitRate, SendRate};
use weir_net::tcp::TcpInfo;
use weir_wire::control::SenderTotal;
use weir_wire::header::{Epoch, TagKey};
use weir_wire::hmac::HmacKey;

use crate::engine::{
    self, Accepted, AwaitedEcho, Dialling, EchoBack, EchoRole, Engine, Events, Link, Messages,
    Proof, ReceiveFlow, SendFlow, Side, StreamFlow, StreamRole, TcpSamples, TransactFlow,
    TransferCounts, TransferRole, WorkerSlot, lock,
};
use crate::expected::Expected;
use crate::framing::{Framer, Framing};
use crate::log::PacketLog;
use crate::server::SharedFile;
use crate::session::Arrival;
use crate::signals::Signals;
use crate::transport::{
    self, DatagramSocket, FlowCounts, StreamSocket, byte_stream, wants_coalescing,
    wants_segmentation,
};

/// Smallest limit of unsent bytes of a paced stream.
const MIN_UNSENT_BYTES: u32 = 4096;

/// The counts of an interval that has ended, of flows of which this end's are known.
pub(crate) fn live_interval(
    flows: &[Flow],
    intervals: &IntervalClock,
    index: usize,
    now_ns: u64,
) -> Interval {
    let counts = flows.iter().map(|flow| {
        let connection = &flow.spec.connection;
        let here = flow.interval(index, now_ns);
        let (sender, receiver) = match connection.direction {
            Direction::Forward => (here, None),
            Direction::Reverse => (None, here),
        };
        (flow.spec.id, connection.direction, connection.transport.name(), sender, receiver)
    });
    interval(intervals, index, None, counts)
}

/// Parameters that both ends of a session know.
#[derive(Debug, Clone)]
pub(crate) struct SessionFacts {
    pub(crate) session: u64,
    pub(crate) key: [u8; 16],
    /// The key of the HMACs in headers that have one; absent: it follows from `key`.
    pub(crate) hmac: Option<HmacKey>,
    pub(crate) token_secret: [u8; 16],
    pub(crate) seed: u64,
    pub(crate) omit_ns: u64,
    pub(crate) loss_threshold_ns: u64,
    /// Interval of the feedback by which a receiver at the client proves that it still wants data.
    pub(crate) feedback_ns: u64,
    /// The far end does not announce the size of its datagrams: any size is received, and none counts as truncated.
    pub(crate) any_size: bool,
    /// The datagrams of transactions have no numbers: the far end would not send them back.
    pub(crate) is_unnumbered: bool,
    /// Number of flows, which share the memory for what arrives out of order.
    pub(crate) flows: usize,
    /// What receivers verify.
    pub(crate) expected: Arc<Expected>,
    /// What the payload of each sent datagram begins with after its header; empty: nothing.
    pub(crate) prefix: Arc<[u8]>,
    /// Numbers in the headers of datagrams.
    pub(crate) numbering: Numbering,
}

impl SessionFacts {
    /// The key of a flow's tags.
    pub(crate) fn tag_key(&self, flow: u32) -> TagKey {
        let key = TagKey::for_flow(&self.key, flow);
        match &self.hmac {
            Some(hmac) => key.with_hmac(hmac.clone()),
            None => key,
        }
    }

    /// The single-use token of a data connection: a tag that only a holder of the session's secret can make.
    pub(crate) fn token(&self, flow: u32) -> [u8; 16] {
        use weir_wire::datagram::{ControlDatagram, DatagramKey, DatagramKind};
        let tag = |sequence| {
            let d = ControlDatagram {
                kind: DatagramKind::Hello,
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

#[derive(Clone)]
enum Part {
    DatagramSend {
        state: Arc<Mutex<Sending>>,
        echo: Option<Returning>,
    },
    DatagramReceive {
        state: Arc<Mutex<Receiving>>,
        base_overflow: Option<u32>,
        /// Datagrams that could not be sent back, if they are to be.
        unechoed: Option<Arc<AtomicU64>>,
    },
    StreamSend {
        state: Arc<Mutex<Sending>>,
        samples: Arc<Mutex<TcpSamples>>,
        /// What comes back of an echo.
        echo: Option<Arc<Mutex<StreamReceiving>>>,
    },
    StreamReceive {
        state: Arc<Mutex<StreamReceiving>>,
        /// What arrives is stored there.
        file: Option<SharedFile>,
    },
    Client {
        state: Arc<Mutex<Transacting>>,
    },
    Server {
        state: Arc<Mutex<StreamReceiving>>,
    },
}

/// What comes back of the datagrams of an echo.
#[derive(Clone)]
struct Returning {
    state: Arc<Mutex<Receiving>>,
    base_overflow: Option<u32>,
}

#[derive(Clone)]
enum Socket {
    Datagrams(Arc<dyn DatagramSocket>),
    Stream(Arc<dyn StreamSocket>),
    /// None of the flow's own: the addresses of this end and of the peer.
    Absent([String; 2]),
}

/// A connected flow.
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    part: Part,
    socket: Socket,
    slots: Vec<WorkerSlot>,
    coalesced: bool,
    pub(crate) connect_seconds: Option<f64>,
    /// Time of the receiver's last feedback, where it must send any (server's senders).
    alive: Option<Arc<AtomicU64>>,
    any_size: bool,
    error: Mutex<Option<String>>,
    /// The part in a sender that several sessions share.
    stream: Option<StreamPart>,
    /// The group that a receiver is a member of, for its report.
    membership: Mutex<Option<Membership>>,
}

/// A sender to a group, shared by the sessions of its receivers: it stops when all of them have stopped it.
#[derive(Debug, Default)]
pub(crate) struct SharedStream {
    /// What the receivers must know to join.
    pub(crate) join: Join,
    /// The flow that the sender was made for: those of the other sessions have other names, which seed laws of sizes and
    /// intervals.
    spec: Option<FlowSpec>,
    /// The rate that was set last.
    rate: Mutex<Option<SendRate>>,
    /// Sessions that have not stopped it, and those that have not removed it from the engine.
    running: AtomicUsize,
    used: AtomicUsize,
    /// A command to one of its sessions has stopped it for all.
    is_stopped_by_command: AtomicBool,
}

/// What a receiver must know to join a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Join {
    pub(crate) source: Option<std::net::SocketAddr>,
    pub(crate) name: String,
    pub(crate) key: [u8; 16],
}

impl SharedStream {
    pub(crate) fn new(join: Join, spec: FlowSpec) -> Self {
        SharedStream { join, spec: Some(spec), ..SharedStream::default() }
    }

    fn share(self: Arc<Self>) -> StreamPart {
        self.running.fetch_add(1, Ordering::AcqRel);
        self.used.fetch_add(1, Ordering::AcqRel);
        StreamPart {
            stream: self,
            is_stopped: AtomicBool::new(false),
            is_removed: AtomicBool::new(false),
        }
    }
}

/// One session's part in a shared sender.
struct StreamPart {
    stream: Arc<SharedStream>,
    is_stopped: AtomicBool,
    is_removed: AtomicBool,
}

/// Marks one of several parts as done; returns whether all are.
fn is_last(done: &AtomicBool, left: &AtomicUsize) -> bool {
    !done.swap(true, Ordering::AcqRel) && left.fetch_sub(1, Ordering::AcqRel) == 1
}

/// A sender of `spec`, with the data of a file if the plan has it.
fn sending(
    engine: &Engine,
    facts: &SessionFacts,
    spec: &FlowSpec,
    key: TagKey,
    segmented: bool,
    supply: Option<Arc<Supply>>,
) -> Arc<Mutex<Sending>> {
    let sending = Sending::new(spec, key, facts.omit_ns, segmented).with_numbering(facts.numbering);
    let sending = match sending.header().carries().time.map(|time| time.epoch) {
        Some(Epoch::Realtime | Epoch::Midnight) => {
            sending.with_epoch(engine.clock().bracket().realtime_minus_monotonic() as u64)
        }
        _ => sending,
    };
    Arc::new(Mutex::new(match supply.filter(|_| spec.connection.content == Content::File) {
        Some(supply) => sending.with_supply(spec, supply),
        None => sending,
    }))
}

impl Flow {
    /// A datagram flow on its connected socket. `sends`: this end sends; with `alive`, the time of the receiver's
    /// last feedback, it stops when that is too long ago.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn datagrams(
        engine: &Engine,
        facts: &SessionFacts,
        spec: FlowSpec,
        sends: bool,
        socket: Arc<dyn DatagramSocket>,
        signals: Option<Box<dyn Signals>>,
        alive: Option<Arc<AtomicU64>>,
        events: Events,
        log: Option<PacketLog>,
        supply: Option<Arc<Supply>>,
    ) -> Flow {
        // A group's stream has a key of its own, whatever its number in this session.
        let number = if transport::group(&spec).is_some() { 0 } else { spec.id };
        let key = facts.tag_key(number);
        let content = spec.connection.content;
        let mut slots = vec![];
        let segmented = sends && wants_segmentation(&spec, &*socket);
        let echo = spec.connection.echo;
        let coalesced = (!sends || echo.is_some()) && wants_coalescing(&spec);
        let receive = |signals, state, events, payload, log, echo| ReceiveFlow {
            id: spec.id,
            socket: socket.clone(),
            state,
            payload,
            coalesced,
            signals,
            events,
            log,
            direction: spec.connection.direction,
            echo,
            transfers: None,
        };
        let verifying = || {
            let ring = || facts.expected.ring(content, facts.seed, spec.max_payload() as usize);
            spec.connection.verify.then(ring)
        };
        let receiving = || {
            let state = Receiving::new(&spec, key.clone(), facts.loss_threshold_ns, verifying());
            state.sharing_memory(facts.flows)
        };
        let part = if sends {
            let state = sending(engine, facts, &spec, key.clone(), segmented, supply);
            let awaited = echo.map(|echo| {
                let epoch_ns = lock(&state).epoch_ns();
                let back = receiving().of_echo(echo.most_bytes(), epoch_ns);
                let back = Arc::new(Mutex::new(back));
                AwaitedEcho::new(back, facts.loss_threshold_ns)
            });
            slots.push(engine.add_sender(SendFlow {
                id: spec.id,
                socket: socket.clone(),
                state: state.clone(),
                content,
                seed: facts.seed,
                max_segments: match (segmented, spec.is_paced()) {
                    (false, _) => 1,
                    (true, true) => FEW_SEGMENTS,
                    (true, false) => MAX_SEGMENTS.min(socket.max_segments()),
                },
                proof: alive.clone().map(|alive| Proof { alive, period_ns: facts.feedback_ns }),
                own_ring: None,
                prefix: facts.prefix.to_vec(),
                echo: awaited.clone(),
                unreachable: None,
                is_retrying: false,
                events: events.clone(),
            }));
            // The peer's messages arrive on the same socket.
            let back = awaited.as_ref().map(|echo| echo.receiving.clone());
            if signals.is_some() || back.is_some() {
                let most = if back.is_some() { spec.max_payload() as usize } else { 64 };
                let role = awaited.map(EchoRole::Await);
                let receiver = receive(signals, back.clone(), events, most, log, role);
                slots.push(engine.add_receiver(receiver));
            }
            let base_overflow = socket.overflow();
            let echo = back.map(|state| Returning { state, base_overflow });
            Part::DatagramSend { state, echo }
        } else {
            let mut state = receiving().with_first_number(facts.numbering.first);
            if socket.counter().is_some() {
                state = state.counted_elsewhere();
            }
            let group = spec.connection.transport.group();
            if let Some(group) = group.filter(|g| g.join_after.or(g.leave_after).is_some()) {
                state.expect_membership(group.join_after.is_none());
            }
            let state = Arc::new(Mutex::new(state));
            let base_overflow = socket.overflow();
            let most = if facts.any_size { MAX_MESSAGE } else { spec.max_payload() as usize };
            let unechoed = echo.map(|_| Arc::new(AtomicU64::new(0)));
            let role = echo
                .zip(unechoed.clone())
                .map(|(echo, unsent)| EchoRole::Back(EchoBack::new(echo.most_bytes(), unsent)));
            let receiver = receive(signals, Some(state.clone()), events, most, log, role);
            slots.push(engine.add_receiver(receiver));
            Part::DatagramReceive { state, base_overflow, unechoed }
        };
        Flow {
            spec,
            part,
            socket: Socket::Datagrams(socket),
            slots,
            coalesced,
            connect_seconds: None,
            alive,
            any_size: facts.any_size,
            error: Mutex::new(None),
            stream: None,
            membership: Mutex::default(),
        }
    }

    /// The receiver of a flow whose transfers are sent as datagrams, to one socket without a peer.
    pub(crate) fn transfers(
        engine: &Engine,
        facts: &SessionFacts,
        spec: FlowSpec,
        counts: TransferCounts,
        events: Events,
        log: Option<PacketLog>,
    ) -> Flow {
        let socket: Arc<dyn DatagramSocket> = counts.socket.clone();
        let base_overflow = socket.overflow();
        let datagrams = spec.datagrams_of_transfers().unwrap_or_else(|| spec.clone());
        let key = facts.tag_key(spec.id);
        let state = Receiving::new(&datagrams, key, facts.loss_threshold_ns, None);
        let state = Arc::new(Mutex::new(state.sharing_memory(facts.flows)));
        let slot = engine.add_receiver(ReceiveFlow {
            id: spec.id,
            socket: socket.clone(),
            state: Some(state.clone()),
            payload: spec.max_payload() as usize,
            coalesced: false,
            signals: None,
            events,
            log,
            direction: spec.connection.direction,
            echo: None,
            transfers: Some(counts),
        });
        Flow {
            spec,
            part: Part::DatagramReceive { state, base_overflow, unechoed: None },
            socket: Socket::Datagrams(socket),
            slots: vec![slot],
            coalesced: false,
            connect_seconds: None,
            alive: None,
            any_size: false,
            error: Mutex::new(None),
            stream: None,
            membership: Mutex::default(),
        }
    }

    /// The same sender as part of another session, which has a receiver of its own.
    pub(crate) fn of_session(&self, spec: FlowSpec, stream: Arc<SharedStream>) -> Flow {
        Flow {
            spec,
            part: self.part.clone(),
            socket: self.socket.clone(),
            slots: self.slots.clone(),
            coalesced: self.coalesced,
            connect_seconds: None,
            alive: None,
            any_size: self.any_size,
            error: Mutex::new(None),
            stream: Some(stream.share()),
            membership: Mutex::default(),
        }
    }

    /// A stream on its connection. `file`: what arrives is stored there; `framing`: each write begins with a header.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn stream(
        engine: &Engine,
        facts: &SessionFacts,
        spec: FlowSpec,
        sends: bool,
        socket: Arc<dyn StreamSocket>,
        events: Events,
        supply: Option<Arc<Supply>>,
        file: Option<SharedFile>,
        framing: Option<Box<dyn Framing>>,
    ) -> Flow {
        let content = spec.connection.content;
        let receiving = || {
            let pool = || facts.expected.pool(content, facts.seed);
            Arc::new(Mutex::new(StreamReceiving::new(spec.connection.verify.then(pool))))
        };
        let (role, part) = if sends {
            if let Some(rate) = spec.connection.transport.ip().and_then(|ip| ip.kernel_pacing) {
                weir_net::socket::limit_unsent(&*socket, unsent_at(rate));
            }
            let key = facts.tag_key(spec.id);
            let state = sending(engine, facts, &spec, key, false, supply);
            let samples = Arc::new(Mutex::new(TcpSamples::default()));
            let echo = spec.connection.echo.map(|_| receiving());
            let role = StreamRole::Send {
                state: state.clone(),
                content,
                seed: facts.seed,
                zero_copy: byte_stream(&spec).zero_copy,
                align: byte_stream(&spec).align,
                samples: samples.clone(),
                stays_open: byte_stream(&spec).no_half_close,
                framing: framing.map(|framing| Mutex::new(Framer::new(framing))),
                echo: echo.clone(),
            };
            (role, Part::StreamSend { state, samples, echo })
        } else {
            let state = receiving();
            let options = byte_stream(&spec);
            let role = StreamRole::Receive {
                state: state.clone(),
                // Other tools read one buffer of the length that they were given.
                read_bytes: if facts.any_size { spec.max_payload() as usize } else { usize::MAX },
                discard: options.discard,
                align: options.align,
                echoes: spec.connection.echo.is_some(),
                file: file.clone(),
            };
            (role, Part::StreamReceive { state, file })
        };
        // Another tool's program has few threads, which compete with the workers: two workers and iperf3 on two processors
        // lose a sixth of the rate.
        let leaves_room = facts.any_size && weir_net::socket::is_within_host(&*socket);
        let flow = StreamFlow { id: spec.id, socket: socket.clone(), role, events };
        let slot = engine.add_stream(flow, leaves_room);
        Flow {
            spec,
            part,
            socket: Socket::Stream(socket),
            slots: vec![slot],
            coalesced: false,
            connect_seconds: None,
            alive: None,
            any_size: facts.any_size,
            error: Mutex::new(None),
            stream: None,
            membership: Mutex::default(),
        }
    }

    /// A flow of transactions on its socket. `dial`: how each gets a socket of its own at the client, if it does.
    pub(crate) fn transactions(
        engine: &Engine,
        facts: &SessionFacts,
        spec: FlowSpec,
        is_client: bool,
        messages: impl Into<Messages>,
        dial: Option<Dialling>,
        events: Events,
    ) -> Flow {
        let Messages { link, framed } = messages.into();
        let (side, part) = if is_client {
            let key = facts.tag_key(spec.id);
            let state = Transacting::new(&spec, facts.omit_ns, facts.loss_threshold_ns);
            let state = state.with_key(&spec, key);
            let state = if facts.is_unnumbered { state.without_numbers() } else { state };
            let state = if framed.is_some() { state.one_at_a_time() } else { state };
            let state = Arc::new(Mutex::new(state));
            (Side::Client { state: state.clone(), dial }, Part::Client { state })
        } else {
            let state = Arc::new(Mutex::new(StreamReceiving::new(None)));
            (Side::Server(state.clone()), Part::Server { state })
        };
        let (socket, alive) = match &link {
            Link::Stream(socket) => (Socket::Stream(socket.clone()), None),
            Link::Datagrams { socket, proof, .. } => {
                (Socket::Datagrams(socket.clone()), proof.as_ref().map(|proof| proof.alive.clone()))
            }
            Link::Absent(addresses) => (Socket::Absent(addresses.clone()), None),
        };
        let connection = &spec.connection;
        let slot = engine.add_transactions(TransactFlow {
            id: spec.id,
            link,
            side,
            content: connection.content,
            seed: facts.seed,
            request: connection.request_bytes() as usize,
            response: connection.response_bytes() as usize,
            number: if facts.is_unnumbered { 0 } else { connection.number_bytes() },
            transfers: TransferRole::of(connection),
            framed,
            events,
        });
        Flow {
            spec,
            part,
            socket,
            slots: vec![slot],
            coalesced: false,
            connect_seconds: None,
            alive,
            any_size: facts.any_size,
            error: Mutex::new(None),
            stream: None,
            membership: Mutex::default(),
        }
    }

    /// Takes a connection of one transaction.
    pub(crate) fn accept(&self, engine: &Engine, accepted: Accepted) {
        if let (Part::Server { .. }, [slot]) = (&self.part, &self.slots[..]) {
            engine.accept(*slot, accepted);
        }
    }

    fn poke(&self, engine: &Engine) {
        for slot in &self.slots {
            engine.poke(*slot);
        }
    }

    /// Sets the intervals of a receiver. Data may arrive immediately.
    pub(crate) fn begin_intervals(&self, clock: IntervalClock) {
        match &self.part {
            Part::DatagramReceive { state, .. } => {
                let mut state = lock(state);
                state.start(clock);
                self.inform_counter(&state, clock.start_ns);
            }
            Part::StreamReceive { state, .. } | Part::Server { state } => lock(state).start(clock),
            _ => {}
        }
    }

    /// Starts a sender at `at_ns`.
    pub(crate) fn start(&self, engine: &Engine, at_ns: u64, clock: IntervalClock) {
        if let Part::DatagramSend { state, .. } | Part::StreamSend { state, .. } = &self.part {
            let mut state = lock(state);
            if !state.is_started() {
                // The client has just requested this start, once: that counts as feedback.
                if let Some(alive) = &self.alive {
                    alive.fetch_max(at_ns, Ordering::Relaxed);
                }
                state.start(at_ns, clock);
                match &self.part {
                    Part::DatagramSend { echo: Some(echo), .. } => lock(&echo.state).start(clock),
                    Part::StreamSend { echo: Some(echo), .. } => lock(echo).start(clock),
                    _ => {}
                }
            }
            drop(state);
            self.poke(engine);
        }
        if let Part::Client { state } = &self.part {
            let mut state = lock(state);
            if !state.sending.is_started() {
                state.start(at_ns, clock);
            }
            drop(state);
            self.poke(engine);
        }
    }

    /// Counts a datagram that arrived on a socket other than the flow's own, or the bytes of a stream that were read before.
    pub(crate) fn deliver(&self, bytes: &[u8], arrival: Arrival) {
        match &self.part {
            Part::DatagramReceive { state, .. } => {
                let mut state = lock(state);
                state.called(u64::from(arrival.is_first_of_call));
                if !arrival.is_stamped {
                    state.timed_by_reading();
                }
                state.on_message(bytes, None, arrival.at_ns, |_| {});
            }
            Part::StreamReceive { state, .. } => {
                lock(state).on_read(bytes.len(), Some(bytes), arrival.at_ns);
            }
            _ => {}
        }
    }

    /// Counts data that the session protocol sent on the flow's socket itself.
    pub(crate) fn sent_by_protocol(&self, engine: &Engine, packets: u64, bytes: u64) {
        if let Part::DatagramSend { state, .. } | Part::StreamSend { state, .. } = &self.part {
            lock(state).sent_by_protocol(packets, bytes, engine.clock().monotonic_ns());
        }
    }

    /// Ends a receiver when nothing has arrived for the time of `drain`.
    pub(crate) fn drain(&self, engine: &Engine, drain: Drain) {
        match &self.part {
            Part::DatagramReceive { state, .. } => lock(state).drain(drain),
            Part::StreamReceive { state, .. } | Part::Server { state } => lock(state).drain(drain),
            _ => {}
        }
        self.poke(engine);
    }

    /// When the last data arrived at a receiver, by the clock of the workers, ns; 0 before the first.
    pub(crate) fn last_arrival_ns(&self) -> u64 {
        match &self.part {
            Part::DatagramReceive { state, .. } => lock(state).last_ns(),
            Part::StreamReceive { state, .. } | Part::Server { state } => lock(state).last_ns(),
            _ => 0,
        }
    }

    /// Sends one datagram of the session protocol from the flow's socket.
    pub(crate) fn send_message(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match &self.socket {
            Socket::Datagrams(socket) => socket.send_control(bytes),
            Socket::Stream(_) | Socket::Absent(_) => Err(std::io::ErrorKind::Unsupported.into()),
        }
    }

    /// Closes this end's direction of a stream. An error is that of a connection that is over.
    pub(crate) fn half_close(&self) {
        if let Socket::Stream(socket) = &self.socket {
            let _ = socket.half_close();
        }
    }

    /// Stops a sender.
    pub(crate) fn stop(&self, engine: &Engine) {
        let shared = self.stream.as_ref();
        if shared.is_some_and(|part| !is_last(&part.is_stopped, &part.stream.running)) {
            return;
        }
        self.stop_sender(engine);
    }

    /// Stops a sender by a command, for all sessions that share it.
    pub(crate) fn stop_by_command(&self, engine: &Engine) {
        if let Some(part) = &self.stream {
            part.stream.is_stopped_by_command.store(true, Ordering::Release);
        }
        self.stop_sender(engine);
    }

    /// Whether a command to any of its sessions has stopped the shared sender.
    pub(crate) fn is_stopped_by_command(&self) -> bool {
        let part = self.stream.as_ref();
        part.is_some_and(|part| part.stream.is_stopped_by_command.load(Ordering::Acquire))
    }

    fn stop_sender(&self, engine: &Engine) {
        let was_stopped = match &self.part {
            Part::DatagramSend { state, .. } | Part::StreamSend { state, .. } => lock(state).stop(),
            Part::Client { state } => lock(state).stop(),
            _ => return,
        };
        if !was_stopped {
            self.poke(engine);
        }
    }

    /// What a receiver must know to join the stream that this end sends to a group.
    pub(crate) fn join(&self) -> Option<&Join> {
        self.stream.as_ref().map(|part| &part.stream.join)
    }

    /// The receiver asks to join its group now.
    pub(crate) fn joins(&self, now_ns: u64, membership: Membership) {
        lock(&self.membership).get_or_insert(membership);
        if let Part::DatagramReceive { state, .. } = &self.part {
            lock(state).joined(now_ns);
        }
    }

    /// The receiver asks to leave its group now. `is_watched`: what still arrives is observed.
    pub(crate) fn leaves(&self, now_ns: u64, is_watched: bool) {
        if let Part::DatagramReceive { state, .. } = &self.part {
            let mut state = lock(state);
            state.left(now_ns);
            if is_watched {
                state.watched();
            }
        }
    }

    /// A datagram that arrived after leaving, or its beginning.
    pub(crate) fn arrived_after_leaving(&self, datagram: &[u8], at_ns: u64) {
        if let Part::DatagramReceive { state, .. } = &self.part {
            lock(state).arrived_after_leaving(datagram, at_ns);
        }
    }

    /// Changes the rate of a sender. False without effect: it has no more changes, or this end does not send.
    pub(crate) fn set_rate(&self, engine: &Engine, rate: SendRate) -> bool {
        // A command to all flows arrives once for each receiver of a shared stream.
        let mut last = self.stream.as_ref().map(|part| lock(&part.stream.rate));
        if last.as_deref() == Some(&Some(rate)) {
            return true;
        }
        let sent = self.stream.as_ref().and_then(|part| part.stream.spec.as_ref());
        let mut spec = sent.unwrap_or(&self.spec).clone();
        spec.rate = rate;
        let now = engine.clock().monotonic_ns();
        let is_set = match &self.part {
            Part::DatagramSend { state, .. } | Part::StreamSend { state, .. } => {
                lock(state).set_rate(&spec, now)
            }
            Part::Client { state } => lock(state).set_rate(&spec, now),
            _ => return false,
        };
        self.poke(engine);
        if let Some(last) = last.as_deref_mut().filter(|_| is_set) {
            *last = Some(rate);
        }
        is_set
    }

    /// Bytes of a stream that the far end has not acknowledged; 0 where the system does not tell.
    pub(crate) fn unacknowledged_bytes(&self) -> u64 {
        match &self.socket {
            Socket::Stream(socket) => {
                weir_net::tcp::unacknowledged_bytes(&**socket).unwrap_or(0).into()
            }
            Socket::Datagrams(_) | Socket::Absent(_) => 0,
        }
    }

    /// Whether this end sends.
    pub(crate) fn sends(&self) -> bool {
        matches!(
            self.part,
            Part::DatagramSend { .. } | Part::StreamSend { .. } | Part::Client { .. }
        )
    }

    /// The sender at the other end has finished with these totals: the receiver now waits for the remaining data.
    pub(crate) fn sender_done(&self, engine: &Engine, total: &SenderTotal, loss_threshold_ns: u64) {
        let now = engine.clock().monotonic_ns();
        let drain = match &self.part {
            Part::StreamReceive { .. } => Drain::stream(now, loss_threshold_ns),
            // The client has the responses, or has given them up: nothing more is expected.
            Part::Server { .. } => Drain::datagrams(now, 0),
            _ => Drain::datagrams(now, loss_threshold_ns),
        };
        self.expect(engine, total, drain);
    }

    /// The same with a wait of its own.
    pub(crate) fn expect(&self, engine: &Engine, total: &SenderTotal, drain: Drain) {
        match &self.part {
            Part::DatagramReceive { state, .. } => {
                let mut state = lock(state);
                state.set_sent_total(total.packets);
                state.set_sent_omitted(total.omitted_packets);
                total.end_ns.into_iter().for_each(|end| state.set_sender_end(end));
                state.drain(drain);
            }
            Part::StreamReceive { state, .. } => {
                let mut state = lock(state);
                state.set_sent_total(total.bytes);
                state.drain(drain);
            }
            Part::Server { state } => {
                let mut state = lock(state);
                state.set_sent_total(total.bytes);
                state.set_sent_packets(total.packets);
                state.drain(drain);
            }
            _ => {}
        }
        self.poke(engine);
    }

    /// Sets a newer relation of the clocks.
    pub(crate) fn set_clock(&self, clock: SenderClock) {
        if let Part::DatagramReceive { state, .. } = &self.part {
            let mut state = lock(state);
            state.set_clock(clock);
            self.inform_counter(&state, clock.reference_ns);
        }
    }

    /// States what the counter of the flow must know, if it has one: datagrams may arrive before the worker's next tick.
    fn inform_counter(&self, state: &Receiving, now_ns: u64) {
        if let Socket::Datagrams(socket) = &self.socket
            && let Some(counter) = socket.counter()
        {
            // The worker's next reading reports a failure.
            let _ = counter.state(state.stated(now_ns));
        }
    }

    /// Sets why the flow ended early; the first reason stays.
    pub(crate) fn fail(&self, text: String) {
        lock(&self.error).get_or_insert(text);
    }

    /// The count of a completed interval, for live output. `None` while datagrams of it may still be unread, before a
    /// sender has started, and after its end.
    pub(crate) fn interval(&self, index: usize, now_ns: u64) -> Option<IntervalCount> {
        match &self.part {
            Part::DatagramSend { state, .. } | Part::StreamSend { state, .. } => {
                let mut state = lock(state);
                let clock = state.log.clock()?;
                // A sender that waits for its turn, for room or for an answer closes no interval by itself.
                state.advance(clock.end_ns(index).filter(|end| *end <= now_ns)?);
                let seconds = clock.seconds(index)?;
                state.log.closed().get(index).map(|c| c.count(Some(seconds)))
            }
            Part::DatagramReceive { state, .. } => lock(state).interval_count(index),
            Part::Client { state } => {
                let mut state = lock(state);
                let clock = state.sending.log.clock()?;
                state.advance(clock.end_ns(index).filter(|end| *end <= now_ns)?);
                state.interval_count(index)
            }
            Part::StreamReceive { state, .. } | Part::Server { state } => {
                let mut state = lock(state);
                let end = state.log.clock()?.end_ns(index).filter(|end| *end <= now_ns)?;
                // Bytes belong to the interval in which they are read: this one gets no more.
                state.advance(end);
                state.interval_count(index)
            }
        }
    }

    /// What came back of an echo in intervals below `shown`: each once, when it is complete or when its echoes are given up at
    /// `now_ns`.
    pub(crate) fn echoes(
        &self,
        shown: usize,
        loss_threshold_ns: u64,
        now_ns: u64,
    ) -> Vec<EchoInterval> {
        let mut all = vec![];
        let Part::DatagramSend { state, echo: Some(echo) } = &self.part else { return all };
        let mut back = lock(&echo.state);
        while let Some(index) = back.next_echoes().filter(|index| *index < shown) {
            let mut sending = lock(state);
            let end = sending.log.clock().and_then(|clock| clock.end_ns(index));
            let Some(end) = end.filter(|end| *end <= now_ns) else { break };
            sending.advance(end);
            let Some(sent) = sending.log.closed().get(index).map(|count| count.packets) else {
                break;
            };
            drop(sending);
            let is_late = now_ns >= end.saturating_add(loss_threshold_ns);
            let Some(interval) = back.take_echoes(self.spec.id, sent, is_late) else { break };
            all.push(interval);
        }
        all
    }

    /// Removes the flow from the engine and returns its report.
    pub(crate) fn report(&self, engine: &Engine, now_ns: u64) -> FlowReport {
        let report = self.finish(now_ns);
        self.remove(engine);
        report
    }

    /// Ends the counts of the flow and returns its report. Its workers still read its socket, for messages.
    pub(crate) fn finish(&self, now_ns: u64) -> FlowReport {
        let [local, remote] = self.addresses();
        let mut out = FlowReport {
            id: self.spec.id,
            local,
            remote,
            connect_seconds: self.connect_seconds,
            error: lock(&self.error).clone(),
            ..FlowReport::default()
        };
        if let Socket::Stream(socket) = &self.socket {
            // Where each transaction has a connection, this one is idle.
            let is_idle = self.spec.connection.shape.connects();
            let info = socket.info().filter(|_| !is_idle);
            out.tcp = info.map(|info| tcp_record(&info, socket.congestion_control()));
            out.carried_by = socket.fallback();
        }
        match &self.part {
            Part::DatagramSend { state, echo } => {
                let mut state = lock(state);
                // Other sessions may still send it.
                let is_last = |part: &StreamPart| part.stream.used.load(Ordering::Acquire) <= 1;
                if state.has_finished() || self.stream.as_ref().is_none_or(is_last) {
                    state.finish(now_ns);
                }
                let method = match self.spec.connection.engine {
                    EngineName::Xdp => "xdp",
                    EngineName::Sockets if state.has_coalesced() => "gso",
                    EngineName::Sockets => "sendmmsg",
                };
                let mut sender = state.report(method, self.buffer(true));
                sender.checksum_coverage_bytes = self.checksum_coverage(true);
                out.sender = Some(sender);
                out.intervals = state.interval_counts();
                drop(state);
                if let Some(echo) = echo {
                    self.report_echo(echo, now_ns, &mut out);
                }
            }
            Part::StreamSend { state, samples, echo } => {
                let mut state = lock(state);
                state.finish(now_ns);
                // Retransmits after the end of sending are included, so that the intervals add up to the total.
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
                out.echo = echo.as_ref().map(|echo| {
                    let mut echo = lock(echo);
                    echo.finish(now_ns);
                    echo.report("copy", self.buffer(false))
                });
            }
            Part::Client { state } => {
                let mut state = lock(state);
                state.finish(now_ns);
                let sender = state.sending.report("request", self.buffer(true));
                out.transactions = Some(state.report(&sender));
                match self.spec.connection.direction {
                    Direction::Forward => {
                        let datagrams = state.datagrams();
                        let datagrams = datagrams.map(|d| d.report("send", self.buffer(true)));
                        out.sender = datagrams.or(Some(sender));
                    }
                    Direction::Reverse => {
                        out.receiver = Some(state.report_received(&sender, self.buffer(false)));
                    }
                }
                out.intervals = state.interval_counts();
                out.histograms = state.histograms(self.spec.id);
            }
            Part::Server { state } => {
                let mut state = lock(state);
                state.finish(now_ns);
                let connection = &self.spec.connection;
                let is_lossy = !connection.transport.ordered();
                match (connection.shape.has_volumes(), connection.direction) {
                    (true, Direction::Reverse) => {
                        out.sender = Some(state.report_sent(self.buffer(true)));
                    }
                    _ => out.receiver = Some(state.report_requests(self.buffer(false), is_lossy)),
                }
                out.intervals = state.interval_counts();
            }
            Part::DatagramReceive { state, base_overflow, unechoed } => {
                let mut state = lock(state);
                let dropped = self.overflow(*base_overflow);
                let counter = match &self.socket {
                    Socket::Datagrams(socket) => socket.counter(),
                    Socket::Stream(_) | Socket::Absent(_) => None,
                };
                if let Some(counter) = counter
                    && let Err(error) = read_counts(counter, &mut state, now_ns)
                {
                    out.error.get_or_insert(error.to_string());
                }
                state.finish(now_ns);
                let coalesced = if self.coalesced { "gro" } else { "recvmmsg" };
                let method = counter.map_or(coalesced, |counter| counter.method());
                let mut receiver = state.report(method, self.buffer(false), dropped);
                receiver.truncated_packets = receiver.truncated_packets.filter(|_| !self.any_size);
                receiver.membership = lock(&self.membership).clone().map(|known| {
                    let part = state.membership().unwrap_or_default();
                    Membership {
                        joined_seconds: part.joined_seconds,
                        left_seconds: part.left_seconds,
                        join_latency_seconds: part.join_latency_seconds,
                        leave_latency_seconds: part.leave_latency_seconds,
                        leave_latency_is_bound: part.leave_latency_is_bound,
                        unjoined_packets: part.unjoined_packets,
                        ..known
                    }
                });
                receiver.checksum_coverage_bytes = self.checksum_coverage(false);
                out.unechoed_packets =
                    unechoed.as_ref().map(|unechoed| unechoed.load(Ordering::Relaxed));
                out.receiver = Some(receiver);
                out.intervals = state.interval_counts();
                out.histograms = state.histograms(self.spec.id);
                out.time_source = state.time_source().map(Into::into);
                out.time_resolution_seconds =
                    Some(weir_net::clock::monotonic_resolution_ns() as f64 / 1e9);
            }
            Part::StreamReceive { state, file } => {
                let mut state = lock(state);
                state.finish(now_ns);
                out.received_file = file.as_ref().map(|file| lock(file).report());
                let method = if byte_stream(&self.spec).discard && !state.wants_bytes() {
                    "discard"
                } else {
                    "copy"
                };
                out.receiver = Some(state.report(method, self.buffer(false)));
                out.intervals = state.interval_counts();
            }
        }
        out
    }

    /// Reports what came back of the datagrams of this end.
    fn report_echo(&self, echo: &Returning, now_ns: u64, out: &mut FlowReport) {
        let mut state = lock(&echo.state);
        let dropped = self.overflow(echo.base_overflow);
        state.finish(now_ns);
        let method = if self.coalesced { "gro" } else { "recvmmsg" };
        out.echo = Some(state.report(method, self.buffer(false), dropped));
        // Its delays are those of a round trip.
        out.histograms.extend(state.histograms(self.spec.id).into_iter().map(|histogram| {
            let metric = histogram.metric.replace("one_way_delay", "round_trip");
            Histogram { metric, ..histogram }
        }));
    }

    /// Datagrams for which the socket had no room since its counter was `base`.
    fn overflow(&self, base: Option<u32>) -> Option<u64> {
        let Socket::Datagrams(socket) = &self.socket else { return None };
        socket.overflow().zip(base).map(|(now, base)| u64::from(now.wrapping_sub(base)))
    }

    /// Removes the flow from the engine.
    pub(crate) fn remove(&self, engine: &Engine) {
        let shared = self.stream.as_ref();
        if shared.is_some_and(|part| !is_last(&part.is_removed, &part.stream.used)) {
            return;
        }
        for slot in &self.slots {
            engine.remove(*slot);
        }
    }

    fn addresses(&self) -> [String; 2] {
        match &self.socket {
            Socket::Datagrams(s) => s.addresses(),
            Socket::Stream(s) => s.addresses(),
            Socket::Absent(addresses) => addresses.clone(),
        }
    }

    /// Checksum coverage in effect, bytes; 0: all. `None`: the checksum always covers all.
    fn checksum_coverage(&self, send: bool) -> Option<u16> {
        // Sockets of UDP answer as well.
        self.spec.connection.transport.coverage()?;
        match &self.socket {
            Socket::Datagrams(s) => s.checksum_coverage(send),
            Socket::Stream(_) | Socket::Absent(_) => None,
        }
    }

    /// Socket buffer in effect, as the kernel counts it.
    fn buffer(&self, send: bool) -> Option<u64> {
        match &self.socket {
            Socket::Datagrams(s) => s.buffer_bytes(send),
            Socket::Stream(s) => s.buffer_bytes(send),
            Socket::Absent(_) => None,
        }
    }
}

/// Takes the last counts of a flow whose data ended in a program, and the delays that it counted.
fn read_counts(
    counter: &dyn FlowCounts,
    state: &mut Receiving,
    now_ns: u64,
) -> std::io::Result<()> {
    engine::count(counter, state, now_ns)?;
    if let Some(delays) = counter.delays()? {
        state.set_delays(delays);
    }
    Ok(())
}

/// Bytes that the kernel may hold unsent where it paces a stream at `rate`: a tenth of a second. The socket's buffer would take
/// longer to drain after the end of sending than the test, at low rates.
fn unsent_at(rate: BitRate) -> u32 {
    u32::try_from(rate.0 / 8 / 10).unwrap_or(u32::MAX).max(MIN_UNSENT_BYTES)
}

/// TCP information as a record has it. Round trip and window are those of samples, and absent here.
pub(crate) fn tcp_record(info: &TcpInfo, congestion_control: Option<String>) -> Tcp {
    let ratio = |part: Option<u64>| match (part, info.busy_us) {
        (Some(part), Some(busy)) if busy > 0 => Some(part as f64 / busy as f64),
        _ => None,
    };
    Tcp {
        retransmits: u64::from(info.total_retransmits),
        mss_bytes: info.send_mss_bytes,
        min_rtt_seconds: info.min_rtt_us.filter(|r| *r != u32::MAX).map(|r| f64::from(r) / 1e6),
        congestion_control: congestion_control.unwrap_or_default(),
        send_window_bytes: info.send_window_bytes.map(u64::from),
        receive_window_bytes: info.receive_window_bytes.map(u64::from),
        retransmitted_bytes: info.bytes_retransmitted,
        ecn: Some(info.ecn),
        ce_segments: info.delivered_ce_segments.filter(|_| info.ecn).map(u64::from),
        receive_window_limited_ratio: ratio(info.receive_window_limited_us),
        send_buffer_limited_ratio: ratio(info.send_buffer_limited_us),
        timestamps: Some(info.timestamps),
        ..Tcp::default()
    }
}
