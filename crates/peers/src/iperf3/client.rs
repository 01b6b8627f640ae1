//! The client of a test.

use std::collections::HashSet;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::plan::{Direction, FlowSpec, Plan};
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::record::Record;
use weir_model::report::EndReport;
use weir_model::units::Span;
use weir_net::udp::{RecvMode, UdpSocket};
use weir_traffic::session::{
    self, DatagramSocket, End, FlowEvent, SenderTotal, Signal, Signals, Workers,
};
use weir_traffic::{ClientConfig, Event, Failure, FlowAddresses, Stop, TrafficError};

use super::auth::{self, Login};
use super::codec::{self, Cookie, Parameters, Results, State};
use super::control::{Control, ControlError, PATIENCE, is_closed};
use super::{results, settings};
use crate::ending::{Over, nominal, stopped};
use crate::sessions::counted;
use crate::shown::Shown;

/// How often the hello of a UDP stream is sent, and how long each waits for its reply. A server reads a second one as data,
/// so it is sent only when the first was lost.
const HELLO_TRIES: (u32, Duration) = (3, Duration::from_secs(1));
/// Pause between two looks for what the system does not announce.
const LOOK: Duration = Duration::from_millis(1);
/// Silence that ends what is still under way when the server has stopped sending.
const QUIET_NS: u64 = 200_000_000;
/// The same where only the amount ends a test, and datagrams may be lost.
const AMOUNT_QUIET_NS: u64 = 2_000_000_000;
/// Most time to wait for acknowledgements at the end, and the time that the server is given to read what it has acknowledged.
const DELIVERY: Duration = Duration::from_secs(3);
const READING: Duration = Duration::from_millis(20);
/// Most time for what is still under way.
const DRAIN: Duration = Duration::from_secs(10);

/// Datagrams of a stream: a late reply to its hello is no data.
#[derive(Debug)]
struct HelloSignals;

impl Signals for HelloSignals {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        if bytes.len() == codec::HELLO_BYTES { Signal::Message } else { Signal::Data }
    }
}

/// Runs a test.
///
/// # Errors
/// [`Failure`] with the reason and what had been measured until then.
pub(super) fn run(
    config: &ClientConfig,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    run_with(config, &Extras::default(), stop, observe)
}

/// What only a client of iperf3 asks for.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Credentials for the server.
    pub login: Option<Login>,
    /// The server sends the text that it prints.
    pub server_output: bool,
    /// Text that both ends have in their results.
    pub extra_data: Option<String>,
}

/// Runs a test with iperf3's protocol.
///
/// # Errors
/// [`Failure`] with the reason and what had been measured until then.
pub fn run_with(
    config: &ClientConfig,
    extras: &Extras,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let plan = settings::prepared(config)?;
    let test = test((config, extras), plan, stop, observe);
    crate::run_test(config, "a test with iperf3 has no commands", test)
}

/// Time for each step of a probe.
const PROBE: Duration = Duration::from_secs(2);
/// How often a server is asked, and the pause between. One that has just refused a client of Weir closes the next connection
/// too, or does not listen for a moment.
const PROBES: (usize, Duration) = (4, Duration::from_millis(500));

/// Whether a server answers a cookie: one that is free asks for parameters, one that is busy says so.
pub(super) fn probe(address: SocketAddr) -> bool {
    use std::io::ErrorKind::ConnectionRefused;
    let (times, pause) = PROBES;
    for time in 0..times {
        if time > 0 {
            std::thread::sleep(pause);
        }
        match answer(address) {
            Ok(state) => {
                return matches!(state, Some(State::ParamExchange | State::AccessDenied));
            }
            Err(error) if is_closed(&error) || error.kind() == ConnectionRefused => {}
            Err(_) => return false,
        }
    }
    false
}

/// The first state that a server sends to a client with a cookie; `None`: another byte.
fn answer(address: SocketAddr) -> std::io::Result<Option<State>> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect_timeout(&address, PROBE)?;
    stream.set_read_timeout(Some(PROBE))?;
    stream.set_write_timeout(Some(PROBE))?;
    stream.write_all(Cookie::of(&[0; codec::COOKIE_BYTES - 1]).as_bytes())?;
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    Ok(State::parse(byte[0]))
}

/// Waits for something before the test, unless it is stopped.
async fn unless_stopped<T>(
    stop: &Stop,
    waiting: impl Future<Output = Result<T, TrafficError>>,
) -> Result<T, TrafficError> {
    tokio::select! {
        done = waiting => done,
        reason = stop.asked(1) => Err(stopped(reason)),
    }
}

/// A session with a server that has accepted its parameters.
struct Session {
    control: Control,
    cookie: Cookie,
    peer: SocketAddr,
}

async fn test(
    (config, extras): (&ClientConfig, &Extras),
    plan: Plan,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let workers = Workers::start(&config.into())?;
    let mut session = unless_stopped(stop, connect(config, &plan)).await?;
    let peer = session.peer;
    if let Some(local) = session.control.local() {
        observe(Event::Connected { local: local.into(), remote: peer.into() });
    }
    let family = crate::family(peer);
    let mtu = session::path_mtu_bytes(peer.ip());
    let mut specs = plan.flows(family, mtu);
    // The numbers of streams follow their order, and the client's senders come first.
    specs.sort_by_key(|spec| spec.connection.direction == Direction::Reverse);
    unless_stopped(stop, agree(&mut session, &plan, &specs, extras)).await?;
    let mut end =
        End::new(&workers, &counted(&plan), true).with_host(peer.ip(), plan.device.as_deref());
    end = end.with_supply(config.supply.clone());
    let opening = open(config, &plan, &specs, &session, &mut end);
    let addresses = unless_stopped(stop, opening).await?;
    observe(Event::Addresses(addresses));
    observe(Event::Started { specs: specs.clone(), family });
    let starting = async {
        loop {
            match owed(&mut session, "the start").await? {
                State::TestStart => {}
                State::TestRunning => return Ok(()),
                other => return Err(unexpected(other, peer, "the start")),
            }
        }
    };
    unless_stopped(stop, starting).await?;
    let intervals = IntervalClock {
        start_ns: workers.now_ns(),
        interval_ns: plan.interval.0,
        omit_ns: plan.omit.0,
    };
    let mut running = Running {
        workers: &workers,
        end: &end,
        specs: &specs,
        shown: Shown::new(intervals),
        receiving: of_direction(&specs, Direction::Reverse),
        sending: of_direction(&specs, Direction::Forward),
        totals: vec![],
    };
    let over = running.run(&mut session, stop, observe).await;
    let shown = running.shown.count;
    let (near, far, over) = match over {
        Over::Complete => {
            let exchanging = exchange(
                &mut session,
                &specs,
                &end,
                (&running.totals, running.receiving),
                plan.omit,
                observe,
            );
            tokio::select! {
                exchanged = exchanging => exchanged,
                reason = stop.asked(1) => (end.finish(), None, Over::Stopped(reason)),
            }
        }
        over => {
            // The server frees the test when it reads this, or the end of the connection.
            let _ = session.control.send_state(State::ClientTerminate).await;
            (end.finish(), None, over)
        }
    };
    let (status, end_reason) = over.status();
    let record = assemble(Parts {
        plan: Plan { host: Some(config.host.clone()), ..plan },
        specs,
        family,
        local: near,
        remote: far,
        peer: super::PROTOCOL.name.into(),
        one_sided: false,
        peer_reports: Default::default(),
        clock: None,
        intervals,
        intervals_shown: shown,
        status,
        end_reason,
        nominal: nominal(config, peer),
        latency: None,
        loss_threshold_ns: 0,
        control_bytes: session.control.bytes,
        path_mtu_bytes: Some(mtu),
    });
    // iperf3 has no loss threshold: what has not arrived at the end is lost.
    let record = Record { loss_threshold_seconds: None, ..record };
    over.end(record, shown, observe)
}

fn of_direction(specs: &[FlowSpec], direction: Direction) -> HashSet<u32> {
    let of = |spec: &&FlowSpec| spec.connection.direction == direction;
    specs.iter().filter(of).map(|spec| spec.id).collect()
}

/// Connects to the server and names the session.
async fn connect(config: &ClientConfig, plan: &Plan) -> Result<Session, TrafficError> {
    let (stream, peer) = crate::connect_control(config, plan).await?;
    let mut control = Control::new(stream);
    let cookie = Cookie::of(&session::random()?);
    let sent = control.send(cookie.as_bytes()).await;
    sent.map_err(|error| error.during(peer, "the greeting"))?;
    Ok(Session { control, cookie, peer })
}

fn unexpected(state: State, peer: SocketAddr, during: &str) -> TrafficError {
    TrafficError::Protocol {
        address: peer.into(),
        reason: format!("the state {state:?} during {during}"),
    }
}

/// A state that the server owes. What ends the test is an error.
async fn owed(session: &mut Session, during: &'static str) -> Result<State, TrafficError> {
    let state = session.control.owed_state().await;
    checked(session, state, during).await
}

/// A state that does not end the test.
async fn checked(
    session: &mut Session,
    state: Result<State, ControlError>,
    during: &'static str,
) -> Result<State, TrafficError> {
    let address = session.peer.into();
    let state = state.map_err(|error| error.during(session.peer, during))?;
    match state {
        State::AccessDenied => Err(TrafficError::Refused {
            address,
            code: "busy".into(),
            text: "the server is busy with another test".into(),
        }),
        State::ServerTerminate => {
            Err(TrafficError::Closed { address, text: "the server was stopped".into() })
        }
        State::ServerError => {
            let numbers = session.control.error_numbers().await;
            let [number, system] = numbers.map_err(|error| error.during(session.peer, during))?;
            let text = match (codec::error_text(number), system) {
                (Some(text), _) => text.to_string(),
                (None, 0) => format!("error {number} of iperf3"),
                (None, system) => {
                    let system = std::io::Error::from_raw_os_error(system);
                    format!("error {number} of iperf3: {system}")
                }
            };
            Err(TrafficError::Refused { address, code: "server-error".into(), text })
        }
        state => Ok(state),
    }
}

/// Exchanges the parameters, until the server waits for the streams.
async fn agree(
    session: &mut Session,
    plan: &Plan,
    specs: &[FlowSpec],
    extras: &Extras,
) -> Result<(), TrafficError> {
    const DURING: &str = "the exchange of parameters";
    let Some(spec) = specs.first() else { return Ok(()) };
    match owed(session, DURING).await? {
        State::ParamExchange => {}
        other => return Err(unexpected(other, session.peer, DURING)),
    }
    let token = extras.login.as_ref().map(|login| login.token(auth::now_seconds())).transpose();
    // It was encrypted once, to check it.
    let token = token.map_err(|error| TrafficError::System {
        operation: "encrypting the credentials".into(),
        source: std::io::Error::other(error),
    })?;
    let wants_output = extras.server_output;
    let extra_data = extras.extra_data.clone();
    let parameters =
        Parameters { token, wants_output, extra_data, ..settings::parameters(plan, spec) };
    let sent = session.control.send_json(&parameters.to_json()).await;
    sent.map_err(|error| error.during(session.peer, DURING))?;
    match owed(session, DURING).await? {
        State::CreateStreams => Ok(()),
        other => Err(unexpected(other, session.peer, DURING)),
    }
}

/// Opens the streams, one after the other.
async fn open(
    config: &ClientConfig,
    plan: &Plan,
    specs: &[FlowSpec],
    session: &Session,
    end: &mut End,
) -> Result<Vec<FlowAddresses>, TrafficError> {
    let peer = session.peer;
    let mut addresses = vec![];
    let mut know = |spec: &FlowSpec, local: std::io::Result<SocketAddr>| {
        let (flow, direction) = (spec.id, spec.connection.direction);
        addresses.extend(local.map(|local| FlowAddresses { flow, direction, local, remote: peer }));
    };
    for spec in specs {
        let sends = spec.connection.direction == Direction::Forward;
        if spec.connection.transport.datagrams() {
            let socket = session::open_datagrams(plan, spec, sends, None, Some(peer))?;
            greet(&socket, peer).await?;
            know(spec, socket.local_addr());
            end.datagrams(spec, sends, socket, Some(Box::new(HelloSignals)));
        } else {
            let stream =
                session::connect_stream(plan, spec, sends, peer, config.connect_timeout).await?;
            let failed = |reason: String| TrafficError::Lost {
                address: peer.into(),
                during: "the opening of a stream",
                reason,
            };
            // A new connection has room for it.
            match stream.send(session.cookie.as_bytes()) {
                Ok(codec::COOKIE_BYTES) => {}
                Ok(_) => return Err(failed("there was no room for the cookie".into())),
                Err(error) => return Err(failed(error.to_string())),
            }
            know(spec, stream.local_addr());
            end.stream(spec, sends, stream)?;
        }
    }
    Ok(addresses)
}

/// Sends the hello of a UDP stream and waits for its reply.
async fn greet(socket: &UdpSocket, peer: SocketAddr) -> Result<(), TrafficError> {
    let (tries, patience) = HELLO_TRIES;
    for _ in 0..tries {
        // A refused hello is as good as a lost one: the server may be about to open its socket.
        let _ = socket.send(&codec::HELLO);
        let until = Instant::now() + patience;
        while Instant::now() < until {
            let mut bytes = [0; 64];
            match socket.recv(&mut bytes, RecvMode::DontWait) {
                Ok(n) if codec::is_reply(&bytes[..n]) => return Ok(()),
                Ok(_) => {}
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }
    Err(TrafficError::UdpBlocked { port: peer.port(), address: peer.into() })
}

/// A test whose data flows.
struct Running<'a> {
    workers: &'a Workers,
    end: &'a End,
    specs: &'a [FlowSpec],
    shown: Shown,
    /// Flows whose receiver is at this end and has not finished.
    receiving: HashSet<u32>,
    /// The same of senders.
    sending: HashSet<u32>,
    /// Totals of this end's senders.
    totals: Vec<SenderTotal>,
}

impl Running<'_> {
    /// Runs the test until its end.
    async fn run(
        &mut self,
        session: &mut Session,
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
    ) -> Over {
        let started = |spec: &FlowSpec| FlowProgress { id: spec.id, state: FlowState::Started };
        self.end.start(self.shown.intervals);
        self.expect_amounts();
        observe(Event::Flows(self.specs.iter().map(started).collect()));
        // The server sends until the end of the test.
        let limit = self.specs.iter().find_map(|spec| spec.connection.time_limit());
        let limit = limit.map(|limit| {
            Duration::from_nanos(limit.0.saturating_add(self.shown.intervals.omit_ns))
        });
        let ends = limit.map(|limit| Instant::now() + limit);
        let mut is_time_over = self.receiving.is_empty();
        loop {
            // Receivers end with the time, or with their amount.
            if self.sending.is_empty() && (self.receiving.is_empty() || is_time_over) {
                return Over::Complete;
            }
            tokio::select! {
                biased;
                reason = stop.asked(1) => {
                    self.end.stop();
                    return Over::Stopped(reason);
                }
                state = session.control.state() => {
                    const DURING: &str = "the test";
                    return Over::Failed(match checked(session, state, DURING).await {
                        Ok(state) => unexpected(state, session.peer, DURING),
                        Err(error) => error,
                    });
                }
                event = self.end.event() => {
                    if let Some(error) = self.event(event, observe) {
                        return Over::Failed(error);
                    }
                }
                () = wait_until(ends), if !is_time_over => is_time_over = true,
                interval = self.shown.next(self.workers, self.end) => {
                    observe(Event::Interval(Box::new(interval)));
                }
            }
        }
    }

    /// Receivers of a test that ends with an amount wait for it. A server counts it for all streams together.
    fn expect_amounts(&self) {
        for spec in self.specs.iter().filter(|spec| self.receiving.contains(&spec.id)) {
            let connection = &spec.connection;
            if connection.bytes.is_none() && connection.packets.is_none() {
                continue;
            }
            let size = spec.payload_bytes().max(1);
            let packets = connection.packets;
            let packets = packets.or(connection.bytes.map(|bytes| bytes.0.div_ceil(size)));
            let packets = packets.unwrap_or(0);
            let bytes = connection.bytes.map_or(packets.saturating_mul(size), |bytes| bytes.0);
            let total =
                SenderTotal { flow: spec.id, packets, bytes, omitted_packets: 0, end_ns: None };
            self.end.expect(&total, AMOUNT_QUIET_NS);
        }
    }

    /// Takes an event of a flow; returns the error that ends the test.
    fn event(&mut self, event: FlowEvent, observe: &mut dyn FnMut(Event)) -> Option<TrafficError> {
        let (id, state) = match event {
            FlowEvent::SenderDone(total) => {
                self.sending.remove(&total.flow);
                let id = total.flow;
                self.totals.push(total);
                (id, FlowState::Finished)
            }
            FlowEvent::ReceiverDone(id) => {
                self.receiving.remove(&id);
                (id, FlowState::Finished)
            }
            FlowEvent::Failed(flow, reason) => {
                observe(Event::Flows(vec![FlowProgress { id: flow, state: FlowState::Failed }]));
                let name = self.specs.iter().find(|spec| spec.id == flow);
                let name = name.map_or_else(String::new, |spec| spec.name.clone());
                return Some(TrafficError::Flow { code: "flow", flow, name, reason });
            }
            _ => return None,
        };
        observe(Event::Flows(vec![FlowProgress { id, state }]));
        None
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Ends the test, and exchanges the results.
async fn exchange(
    session: &mut Session,
    specs: &[FlowSpec],
    end: &End,
    (totals, receiving): (&[SenderTotal], HashSet<u32>),
    omit: Span,
    observe: &mut dyn FnMut(Event),
) -> (EndReport, Option<EndReport>, Over) {
    const DURING: &str = "the exchange of results";
    let peer = session.peer;
    deliver(end).await;
    let lost = |error: ControlError| error.during(peer, DURING);
    let ending = async {
        session.control.send_state(State::TestEnd).await.map_err(lost)?;
        match owed(session, DURING).await? {
            State::ExchangeResults => Ok(()),
            other => Err(unexpected(other, peer, DURING)),
        }
    };
    if let Err(error) = ending.await {
        return (end.finish(), None, Over::Failed(error));
    }
    drain(end, receiving).await;
    let near = end.finish();
    let exchanging = async {
        let omitted = |flow| {
            totals.iter().find(|total| total.flow == flow).map_or(0, |total| total.omitted_packets)
        };
        let seconds = specs.iter().find_map(|spec| spec.connection.time_limit());
        let seconds = seconds.map_or(0.0, |span| span.seconds());
        let ours = results::of_report(specs, &near, omitted, seconds);
        let control = &mut session.control;
        control.send_json(&ours.to_json()).await.map_err(lost)?;
        let json = control.json(codec::MAX_SERVER_RESULTS).await.map_err(lost)?;
        let theirs = Results::parse(&json);
        let theirs =
            theirs.map_err(|error| lost(ControlError::Message { what: "results", error }))?;
        // The results are complete: what is missing now is courtesy.
        if session.control.owed_state().await.is_ok_and(|state| state == State::DisplayResults) {
            let _ = session.control.send_state(State::Done).await;
        }
        Ok(theirs)
    };
    match exchanging.await {
        Ok(mut theirs) => {
            theirs.output.take().into_iter().for_each(|text| observe(Event::ServerOutput(text)));
            let far = results::to_report(specs, &theirs, &near, omit);
            // What was sent last and is lost is only known now.
            let is_datagrams = specs.iter().any(|spec| spec.connection.transport.datagrams());
            let known = results::totals(specs, &theirs, omit).filter(|_| is_datagrams);
            known.for_each(|total| end.expect(&total, 0));
            (end.finish(), Some(far), Over::Complete)
        }
        Err(error) => (near, None, Over::Failed(error)),
    }
}

/// Waits until the server has what was sent: it reads no more once it knows of the end.
async fn deliver(end: &End) {
    let delivering = async {
        while end.unacknowledged_bytes() > 0 {
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(READING).await;
    };
    let _ = tokio::time::timeout(DELIVERY, delivering).await;
}

/// Waits for what is still under way to these receivers. Their connections may break: the server has closed them.
async fn drain(end: &End, mut receiving: HashSet<u32>) {
    end.drain(QUIET_NS);
    let draining = async {
        while !receiving.is_empty() {
            match end.event().await {
                FlowEvent::ReceiverDone(id) | FlowEvent::Failed(id, _) => {
                    receiving.remove(&id);
                }
                _ => {}
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN.min(PATIENCE), draining).await;
}
