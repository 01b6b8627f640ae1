//! A worker that panics fails its flows with a reason, and serves later flows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use weir_flow::{
    Drain, IntervalClock, Receiving, Scheduling, Sending, StreamReceiving, Transacting,
};
use weir_model::content::Content;
use weir_model::plan::{Connection, Direction, Family, FlowSpec, Plan, Shape, TransportName};
use weir_model::units::{ByteSize, Seed, Span};
use weir_net::clock::{Clock, InjectedClock};
use weir_net::tcp::{TcpListener, TcpOptions, TcpStream};
use weir_net::udp::{UdpOptions, UdpSocket};
use weir_wire::header::TagKey;

use super::worker::LOST;
use super::*;

pub(super) fn spec(id: u32, transport: TransportName) -> FlowSpec {
    FlowSpec {
        id,
        name: "x".into(),
        size: ByteSize(64).into(),
        seed: Seed(0),
        rate: "1000pps".parse().unwrap(),
        duration_ns: None,
        connection: Connection { transport: transport.into(), ..Connection::default() },
    }
}

#[test]
fn payloads_are_filled_before_the_first_datagram() {
    let bench = Bench::new();
    let mut rings = send::Rings::new();
    let mut shared = bench.flow(1, sending(1));
    send::prepare(&mut shared, &mut rings);
    assert_eq!((rings.len(), shared.own_ring.is_some()), (1, false));
    let mut own = bench.flow(1, sending(1));
    own.prefix = vec![7];
    send::prepare(&mut own, &mut rings);
    assert_eq!((rings.len(), own.own_ring.is_some()), (1, true));
}

#[test]
fn each_role_uses_all_of_its_workers() {
    let clock = Clock::Injected(InjectedClock::new());
    let engine = Engine::new(2, None, Scheduling::Normal, clock).unwrap();
    // A flow of datagrams has a receiver and a sender at each end.
    let flow = |_| [Role::Receive, Role::Send].map(|role| engine.slot(role));
    let slots: Vec<[WorkerSlot; 2]> = (0..4).map(flow).collect();
    for role in 0..2 {
        let workers: Vec<usize> = slots.iter().map(|flow| flow[role].worker).collect();
        assert_eq!(workers, [0, 1, 0, 1]);
    }
    let mut tokens: Vec<u64> = slots.iter().flatten().map(|slot| slot.token).collect();
    tokens.dedup();
    assert_eq!(tokens.len(), 8);
}

#[test]
fn streams_that_leave_room_have_half_of_the_workers() {
    let (events, _inbox) = tokio::sync::mpsc::unbounded_channel();
    for (count, worker) in [(1, 1), (2, 1), (3, 2), (4, 2)] {
        let clock = Clock::Injected(InjectedClock::new());
        let engine = Engine::new(count, None, Scheduling::Normal, clock).unwrap();
        let used: std::collections::HashSet<usize> = (0..2 * count)
            .map(|_| {
                let role = StreamRole::Receive {
                    state: Arc::new(Mutex::new(StreamReceiving::new(None))),
                    read_bytes: usize::MAX,
                    discard: false,
                    align: None,
                    echoes: false,
                    file: None,
                };
                let spec = spec(1, TransportName::Tcp);
                let transport = crate::transport::stream(&spec).unwrap();
                let socket = transport.socket(&spec, stream().0);
                let flow = StreamFlow { id: 1, socket, role, events: events.clone() };
                engine.add_stream(flow, true).worker
            })
            .collect();
        assert_eq!(used.len(), worker, "{count}");
    }
}

fn socket() -> Arc<UdpSocket> {
    let to = UdpSocket::open(&UdpOptions::bind("127.0.0.1:0".parse().unwrap())).unwrap();
    let options = UdpOptions { nonblocking: true, ..UdpOptions::connect(to.local_addr().unwrap()) };
    Arc::new(UdpSocket::open(&options).unwrap())
}

pub(super) fn stream() -> (TcpStream, TcpStream) {
    let options = TcpOptions::default();
    let listener = TcpListener::open("127.0.0.1:0".parse().unwrap(), &options, 4).unwrap();
    let near =
        TcpStream::connect(listener.local_addr().unwrap(), &options, Some(5_000_000_000)).unwrap();
    // The worker's side must not block.
    let (far, _) = listener.accept(true).unwrap();
    (far, near)
}

/// Reads events until a flow is done; returns the failure of flow `id`, if any, and the last event.
fn ending(inbox: &mut UnboundedReceiver<FlowEvent>, id: u32) -> (Option<String>, FlowEvent) {
    let mut failure = None;
    loop {
        // A channel whose senders are gone ends; a silent one is ended by the test's own limit.
        match inbox.blocking_recv().expect("an event") {
            FlowEvent::Failed(flow, text) if flow == id => failure = Some(text),
            done @ (FlowEvent::SenderDone(_) | FlowEvent::ReceiverDone(_)) => {
                return (failure, done);
            }
            _ => {}
        }
    }
}

/// Waits until something has happened, for as long as a loaded machine may need.
fn wait_for(what: &str, mut has_happened: impl FnMut() -> bool) {
    let limit = std::time::Instant::now() + Duration::from_secs(30);
    while !has_happened() {
        assert!(std::time::Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

const INTERVALS: IntervalClock = IntervalClock { start_ns: 0, interval_ns: 0, omit_ns: 0 };

fn sending(id: u32) -> Arc<Mutex<Sending>> {
    let key = TagKey::for_flow(&[0; 16], id);
    Arc::new(Mutex::new(Sending::new(&spec(id, TransportName::Udp), key, 0, false)))
}

struct Bench {
    engine: Engine,
    events: Events,
    inbox: UnboundedReceiver<FlowEvent>,
}

impl Bench {
    fn new() -> Bench {
        Bench::on(Clock::System)
    }

    fn on(clock: Clock) -> Bench {
        let engine = Engine::new(1, None, Scheduling::Normal, clock).unwrap();
        let (events, inbox) = tokio::sync::mpsc::unbounded_channel();
        Bench { engine, events, inbox }
    }

    fn sender(&self, id: u32) -> (WorkerSlot, Arc<Mutex<Sending>>) {
        let state = sending(id);
        (self.engine.add_sender(self.flow(id, state.clone())), state)
    }

    fn flow(&self, id: u32, state: Arc<Mutex<Sending>>) -> SendFlow {
        SendFlow {
            id,
            socket: socket(),
            state,
            content: Content::Zeros,
            seed: 1,
            max_segments: 1,
            proof: None,
            own_ring: None,
            prefix: vec![],
            echo: None,
            unreachable: None,
            is_retrying: false,
            events: self.events.clone(),
        }
    }

    fn receiver(&self, id: u32, drain: Option<Drain>) {
        let key = TagKey::for_flow(&[0; 16], id);
        let mut state = Receiving::new(&spec(id, TransportName::Udp), key, 1_000_000_000, None);
        drain.into_iter().for_each(|drain| state.drain(drain));
        self.engine.add_receiver(ReceiveFlow {
            id,
            socket: socket(),
            state: Some(Arc::new(Mutex::new(state))),
            payload: 64,
            coalesced: false,
            signals: None,
            events: self.events.clone(),
            log: None,
            direction: Direction::Forward,
            echo: None,
            transfers: None,
        });
    }

    fn stream(&self, id: u32, socket: TcpStream) -> Arc<Mutex<StreamReceiving>> {
        let state = Arc::new(Mutex::new(StreamReceiving::new(None)));
        let role = StreamRole::Receive {
            state: state.clone(),
            read_bytes: usize::MAX,
            discard: false,
            align: None,
            echoes: false,
            file: None,
        };
        let events = self.events.clone();
        let spec = spec(id, TransportName::Tcp);
        let transport = crate::transport::stream(&spec).unwrap();
        self.engine.add_stream(
            StreamFlow { id, socket: transport.socket(&spec, socket), role, events },
            false,
        );
        state
    }
}

#[test]
fn a_sender_s_panic_fails_its_flow_and_not_the_next() {
    let mut bench = Bench::new();
    let (_, state) = bench.sender(1);
    lock(&state).start(bench.engine.clock().monotonic_ns(), INTERVALS);
    bench.engine.senders[0].tell(send::Command::Panic);
    let (failure, done) = ending(&mut bench.inbox, 1);
    assert_eq!(failure.as_deref(), Some(LOST));
    assert!(matches!(done, FlowEvent::SenderDone(t) if t.flow == 1), "{done:?}");

    let (slot, state) = bench.sender(2);
    lock(&state).start(bench.engine.clock().monotonic_ns(), INTERVALS);
    bench.engine.poke(slot);
    while lock(&state).total().0 < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    lock(&state).stop();
    bench.engine.poke(slot);
    let (failure, done) = ending(&mut bench.inbox, 2);
    assert_eq!(failure, None);
    assert!(matches!(done, FlowEvent::SenderDone(t) if t.flow == 2 && t.packets >= 3), "{done:?}");
}

#[test]
fn a_receiver_s_panic_fails_its_flow_and_not_the_next() {
    let mut bench = Bench::new();
    bench.receiver(1, None);
    bench.engine.receivers[0].tell(receive::Command::Panic);
    let lost = (Some(LOST.to_string()), FlowEvent::ReceiverDone(1));
    assert_eq!(ending(&mut bench.inbox, 1), lost);
    // A receiver whose wait is over is done at the next tick.
    bench.receiver(2, Some(Drain::datagrams(0, 1)));
    assert_eq!(ending(&mut bench.inbox, 2), (None, FlowEvent::ReceiverDone(2)));
}

#[test]
fn a_stream_worker_s_panic_fails_its_flow_and_not_the_next() {
    let mut bench = Bench::new();
    let (near, _far) = stream();
    bench.stream(1, near);
    bench.engine.streams[0].tell(stream::Command::Panic);
    let lost = (Some(LOST.to_string()), FlowEvent::ReceiverDone(1));
    assert_eq!(ending(&mut bench.inbox, 1), lost);
    let (near, far) = stream();
    bench.stream(2, near);
    drop(far);
    assert_eq!(ending(&mut bench.inbox, 2), (None, FlowEvent::ReceiverDone(2)));
}

#[test]
fn a_slow_stream_is_received_to_its_last_byte_long_after_its_sender_finished() {
    let injected = InjectedClock::new();
    let mut bench = Bench::on(injected.clock());
    let (near, far) = stream();
    let state = bench.stream(1, near);
    lock(&state).set_sent_total(6000);
    lock(&state).drain(Drain::stream(bench.engine.clock().monotonic_ns(), 2_000_000_000));
    // 5 s of virtual time between two arrivals, 25 s in all: more than the 10 s after which a silent stream is given up.
    for n in 1..=5u64 {
        injected.set_monotonic_offset_ns(n as i64 * 5_000_000_000);
        far.send(&[0; 1000]).unwrap();
        while lock(&state).bytes() < n * 1000 {
            assert!(bench.inbox.try_recv().is_err(), "given up after {n} of 5 arrivals");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    far.send(&[0; 1000]).unwrap();
    assert_eq!(ending(&mut bench.inbox, 1), (None, FlowEvent::ReceiverDone(1)));
    assert_eq!(lock(&state).report("copy", None).undelivered_bytes, Some(0));
}

#[test]
fn a_silent_stream_is_given_up_and_reports_what_is_missing() {
    let injected = InjectedClock::new();
    let mut bench = Bench::on(injected.clock());
    let (near, far) = stream();
    let state = bench.stream(1, near);
    far.send(&[0; 1000]).unwrap();
    while lock(&state).bytes() < 1000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    lock(&state).set_sent_total(5000);
    lock(&state).drain(Drain::stream(bench.engine.clock().monotonic_ns(), 2_000_000_000));
    injected.set_monotonic_offset_ns(10_000_000_000);
    assert_eq!(ending(&mut bench.inbox, 1), (None, FlowEvent::ReceiverDone(1)));
    assert_eq!(lock(&state).report("copy", None).undelivered_bytes, Some(4000));
}

/// Adds a server of datagrams whose client has proved itself at time 0 only; returns its state, and the client's socket.
fn server(
    bench: &Bench,
    request: usize,
    response: usize,
) -> (Arc<Mutex<StreamReceiving>>, UdpSocket) {
    let near = UdpSocket::open(&UdpOptions::bind("127.0.0.1:0".parse().unwrap())).unwrap();
    let options =
        UdpOptions { nonblocking: true, ..UdpOptions::connect(near.local_addr().unwrap()) };
    let far = UdpSocket::open(&options).unwrap();
    near.connect(far.local_addr().unwrap()).unwrap();
    let alive = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let signals = crate::signals::ServerSignals {
        key: weir_wire::datagram::DatagramKey::from_bytes(&[0; 16]),
        session: 1,
        flow: 1,
        alive: alive.clone(),
        last: 0,
    };
    let state = Arc::new(Mutex::new(StreamReceiving::new(None)));
    bench.engine.add_transactions(TransactFlow {
        id: 1,
        link: Link::Datagrams {
            socket: Arc::new(far),
            signals: Box::new(signals),
            proof: Some(Proof { alive, period_ns: 1 }),
        },
        side: Side::Server(state.clone()),
        content: Content::Zeros,
        seed: 1,
        request,
        response,
        number: request.min(response).min(8),
        transfers: None,
        framed: None,
        events: bench.events.clone(),
    });
    (state, near)
}

#[test]
fn a_server_amplifies_only_for_a_client_that_proves_itself() {
    let bench = Bench::new();
    for (request, response, is_answered) in [(16, 16, true), (16, 4, true), (16, 17, false)] {
        let (state, client) = server(&bench, request, response);
        // Of another size: no request.
        client.send(&[7; 15]).unwrap();
        client.send(&[9; 16]).unwrap();
        wait_for("the request arrives", || lock(&state).bytes() >= 16);
        // Its state was locked until it had answered.
        let got = weir_net::udp::RecvBatch::new(2, 64)
            .recv(&client, weir_net::udp::RecvMode::DontWait)
            .map_or(0, |got| got);
        assert_eq!(got, usize::from(is_answered), "{request} {response}");
        assert_eq!(lock(&state).bytes(), 16);
    }
}

#[test]
fn a_transaction_worker_s_panic_fails_its_flow_and_not_the_next() {
    let mut bench = Bench::new();
    let (_, _client) = server(&bench, 1, 1);
    bench.engine.transactions[0].tell(transact::Command::Panic);
    let lost = (Some(LOST.to_string()), FlowEvent::ReceiverDone(1));
    assert_eq!(ending(&mut bench.inbox, 1), lost);
    let (state, client) = server(&bench, 1, 1);
    client.send(&[1]).unwrap();
    wait_for("the request arrives", || lock(&state).bytes() >= 1);
}

#[test]
fn a_client_whose_server_stops_reading_ends_all_the_same() {
    let injected = InjectedClock::new();
    let mut bench = Bench::on(injected.clock());
    let (near, _far) = stream();
    near.set_buffers(64 << 10).unwrap();
    let connection = Connection {
        shape: Shape::Rr,
        request: Some(ByteSize(16 << 20)),
        duration: Some(Span::from_seconds(1)),
        ..Connection::default()
    };
    let plan = Plan { connections: vec![connection], ..Plan::default() };
    let spec = plan.flows(Family::Ipv4, 1500).remove(0);
    let mut state = Transacting::new(&spec, 0, 2_000_000_000);
    state.start(bench.engine.clock().monotonic_ns(), INTERVALS);
    let state = Arc::new(Mutex::new(state));
    bench.engine.add_transactions(TransactFlow {
        id: 1,
        link: Link::Stream(crate::transport::stream(&spec).unwrap().socket(&spec, near)),
        side: Side::Client { state: state.clone(), dial: None },
        content: Content::Zeros,
        seed: 1,
        request: 16 << 20,
        response: 1,
        number: 0,
        transfers: None,
        framed: None,
        events: bench.events.clone(),
    });
    wait_for("a request is being sent", || lock(&state).in_flight() == 1);
    let mut seconds = 0;
    wait_for("the end", || {
        seconds += 1;
        injected.set_monotonic_offset_ns(seconds * 1_000_000_000);
        matches!(bench.inbox.try_recv(), Ok(FlowEvent::SenderDone(_)))
    });
    let state = lock(&state);
    let t = state.report(&state.sending.report("request", None));
    assert_eq!((t.completed, t.failures.get("timeout")), (0, Some(&1)));
}
