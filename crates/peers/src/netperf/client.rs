//! The client of a test.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::plan::{Direction, FlowSpec, Plan, Shape};
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::record::Record;
use weir_model::units::Span;
use weir_traffic::session::{
    self, DatagramSocket, End, Exchange, FlowEvent, LOSS_THRESHOLD_NS, Signal, Signals, Workers,
};
use weir_traffic::{ClientConfig, Event, Failure, Stop, TrafficError};

use super::codec::{MESSAGE_BYTES, Message, Response, Results, kind};
use super::control::{Control, ControlError};
use super::cpu::Meter;
use super::ends::{Accepted, Counted, Stated, Wanted};
use super::{far, settings};
use crate::ending::{Over, nominal, stopped};
use crate::shown::Shown;

/// The one flow of a test.
const FLOW: u32 = 1;
/// How long the server may take to answer a request: it may have to measure its idle rate first.
const PREPARATION: Duration = Duration::from_secs(60);
/// How long it may take for its results: it may wait for the end of its own clock, and for data in its socket.
const RESULTS: Duration = Duration::from_secs(120);
/// Time beyond the test after which a server that still sends has failed.
const OVERDUE: Duration = Duration::from_secs(10);
/// Pause before the datagrams that end a test: the server reads none after them.
const READING: Duration = Duration::from_millis(50);
/// Empty datagrams that end a test, of which some may be lost.
const END_DATAGRAMS: usize = 3;
/// Silence after which what is still under way is given up once the server has finished.
const QUIET_NS: u64 = 1_000_000_000;
/// Time for a server to answer a probe.
const PROBE: Duration = Duration::from_secs(2);

/// Responses of a server: empty datagrams end its side.
#[derive(Debug)]
struct EmptyIsNone;

impl Signals for EmptyIsNone {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        if bytes.is_empty() { Signal::Message } else { Signal::Data }
    }
}

/// Whether a server answers a message that concerns its log.
pub(super) fn probe(address: SocketAddr) -> bool {
    use std::io::{Read, Write};
    let answer = || -> std::io::Result<Message> {
        let mut stream = std::net::TcpStream::connect_timeout(&address, PROBE)?;
        stream.set_read_timeout(Some(PROBE))?;
        stream.set_write_timeout(Some(PROBE))?;
        stream.write_all(&Message::new(kind::DEBUG_OFF, -1).to_bytes())?;
        let mut bytes = [0; MESSAGE_BYTES];
        stream.read_exact(&mut bytes)?;
        Ok(Message::parse(&bytes))
    };
    answer().is_ok_and(|message| message.kind == kind::DEBUG_OK)
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
    run_with(config, &Wanted::default(), stop, observe).0
}

/// Runs a test with netperf's protocol; also returns what the two ends state beyond the record.
pub fn run_with(
    config: &ClientConfig,
    wanted: &Wanted,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> (Result<Record, Failure>, Stated) {
    let mut stated = Stated::default();
    let plan = match settings::prepared(config) {
        Ok(plan) => plan,
        Err(error) => return (Err(error.into()), stated),
    };
    let test = test((config, wanted), plan, stop, observe, &mut stated);
    let outcome = crate::run_test(config, "a test with netperf has no commands", test);
    (outcome, stated)
}

async fn test(
    (config, wanted): (&ClientConfig, &Wanted),
    plan: Plan,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
    stated: &mut Stated,
) -> Result<Record, Failure> {
    let workers = Workers::start(&config.into())?;
    let preparing = prepare((config, wanted), &plan, &workers, observe);
    let (mut session, spec, end, accepted) = tokio::select! {
        prepared = preparing => prepared?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    stated.accepted = Some(Accepted::from(&accepted));
    let peer = session.peer;
    let (specs, family) = (vec![spec.clone()], crate::family(peer));
    observe(Event::Started { specs: specs.clone(), family });
    let intervals = IntervalClock {
        start_ns: workers.now_ns(),
        interval_ns: plan.interval.0,
        omit_ns: plan.omit.0,
    };
    let mut running = Running {
        workers: &workers,
        end: &end,
        spec: &spec,
        shown: Shown::new(intervals),
        early: None,
    };
    let meter = Meter::start(wanted.cpu[0]);
    let over = running.run(&plan, &mut session, stop, observe).await;
    stated.local_cpu = meter.report();
    let (shown, early) = (running.shown.count, running.early);
    let (results, over) = match over {
        Over::Complete => {
            let finishing = finish(&mut session, &spec, &end, early);
            tokio::select! {
                finished = finishing => match finished {
                    Ok(results) => (Some(results), Over::Complete),
                    Err(error) => (None, Over::Failed(error)),
                },
                reason = stop.asked(1) => (None, Over::Stopped(reason)),
            }
        }
        over => (None, over),
    };
    stated.results = results.as_ref().map(Counted::from);
    let near = end.finish();
    let remote = results.map(|results| far::to_report(&spec, &results, &near));
    let (status, end_reason) = over.status();
    let record = assemble(Parts {
        plan: Plan { host: Some(config.host.clone()), ..plan.clone() },
        specs,
        family,
        local: near,
        remote,
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
        path_mtu_bytes: Some(session::path_mtu_bytes(peer.ip())),
    });
    // netperf has no loss threshold: what has not arrived at the end is lost.
    let record = Record { loss_threshold_seconds: None, ..record };
    over.end(record, shown, observe)
}

/// A session with a server that has accepted the request.
struct Session {
    control: Control,
    peer: SocketAddr,
}

/// Connects, requests the test, and opens its data socket.
async fn prepare(
    (config, wanted): (&ClientConfig, &Wanted),
    plan: &Plan,
    workers: &Workers,
    observe: &mut dyn FnMut(Event),
) -> Result<(Session, FlowSpec, End, Response), TrafficError> {
    let mut session = connect(config, plan).await?;
    let peer = session.peer;
    if let Some(local) = session.control.local() {
        observe(Event::Connected { local: local.into(), remote: peer.into() });
    }
    let mtu = session::path_mtu_bytes(peer.ip());
    let spec = plan.flows(crate::family(peer), mtu).swap_remove(0);
    let mut request = settings::request(plan, &spec, peer.is_ipv6());
    wanted.apply(&mut request);
    const DURING: &str = "the request";
    let lost = |error: ControlError| error.during(peer, DURING);
    if let Some(passphrase) = &wanted.passphrase {
        session.control.send(&Message::passphrase(passphrase)).await.map_err(lost)?;
    }
    session.control.send(&request.to_message()).await.map_err(lost)?;
    let answer = session.control.owed(PREPARATION).await.map_err(lost)?;
    checked(&answer, peer)?;
    let response = Response::parse(&answer)
        .filter(|response| answer.kind == kind::OMNI_RESPONSE && response.data_port > 0);
    let response = response.ok_or_else(|| TrafficError::Protocol {
        address: peer.into(),
        reason: format!("a message of type {} without a data port", answer.kind),
    })?;
    let mut to = peer;
    to.set_port(response.data_port);
    if let Some(address) = wanted.data_address {
        to.set_ip(address);
    }
    let loss_threshold = plan.loss_threshold.or(Some(Span(LOSS_THRESHOLD_NS)));
    let timed = Plan { loss_threshold, ..plan.clone() };
    let end = End::new(workers, &timed, true).with_host(peer.ip(), plan.device.as_deref());
    let end = open(config, plan, &spec, to, end).await?;
    Ok((session, spec, end, response))
}

/// The error of a message, if it has a number.
fn checked(message: &Message, peer: SocketAddr) -> Result<(), TrafficError> {
    match message.number {
        0 => Ok(()),
        number => Err(TrafficError::Refused {
            address: peer.into(),
            code: "server-error".into(),
            text: format!("error {}", std::io::Error::from_raw_os_error(number)),
        }),
    }
}

/// Connects to the server.
async fn connect(config: &ClientConfig, plan: &Plan) -> Result<Session, TrafficError> {
    let (stream, peer) = crate::connect_control(config, plan).await?;
    Ok(Session { control: Control::new(stream), peer })
}

/// Opens the data socket to an address, and gives it to this end.
async fn open(
    config: &ClientConfig,
    plan: &Plan,
    spec: &FlowSpec,
    to: SocketAddr,
    mut end: End,
) -> Result<End, TrafficError> {
    let sends = spec.connection.direction == Direction::Forward;
    let timeout = config.connect_timeout;
    match (spec.connection.shape, spec.connection.transport.datagrams()) {
        (Shape::Stream, false) => {
            let stream = session::connect_stream(plan, spec, sends, to, timeout).await?;
            end.stream(spec, sends, stream)?;
        }
        (Shape::Stream, true) => {
            let socket = session::open_datagrams(plan, spec, true, None, Some(to))?;
            end.datagrams(spec, true, socket, None);
        }
        (Shape::Rr, true) => {
            let socket = session::open_datagrams(plan, spec, false, None, Some(to))?;
            end.transactions(spec, true, Exchange::Datagrams(socket, Box::new(EmptyIsNone)))?;
        }
        (Shape::Rr, false) => {
            let stream = session::connect_stream(plan, spec, true, to, timeout).await?;
            end.transactions(spec, true, Exchange::Stream(stream))?;
        }
        (Shape::Crr | Shape::Cc | Shape::Transfers, _) => {
            end.transactions(spec, true, Exchange::Connect(plan, to))?;
        }
    }
    Ok(end)
}

/// A running test.
struct Running<'a> {
    workers: &'a Workers,
    end: &'a End,
    spec: &'a FlowSpec,
    shown: Shown,
    /// Results that arrived before this end had read all data.
    early: Option<Message>,
}

impl Running<'_> {
    /// Runs until this end has sent or received everything.
    async fn run(
        &mut self,
        plan: &Plan,
        session: &mut Session,
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
    ) -> Over {
        let peer = session.peer;
        self.end.start(self.shown.intervals);
        observe_flow(observe, FlowState::Started);
        let connection = &self.spec.connection;
        let receives = connection.direction == Direction::Reverse;
        let limit = connection.time_limit().filter(|_| receives);
        let overdue = limit.map(|limit| {
            let whole = Duration::from_nanos(limit.0.saturating_add(plan.omit.0));
            Instant::now() + whole + OVERDUE
        });
        loop {
            tokio::select! {
                biased;
                reason = stop.asked(1) => {
                    self.end.stop();
                    return Over::Stopped(reason);
                }
                event = self.end.event() => match event {
                    FlowEvent::SenderDone(_) | FlowEvent::ReceiverDone(_) => {
                        observe_flow(observe, FlowState::Finished);
                        return Over::Complete;
                    }
                    FlowEvent::Failed(flow, reason) => {
                        observe_flow(observe, FlowState::Failed);
                        let name = self.spec.name.clone();
                        return Over::Failed(TrafficError::Flow { code: "flow", flow, name, reason });
                    }
                    _ => {}
                },
                message = session.control.message(), if self.early.is_none() => match message {
                    // A server that has ended its part sends its results, and its data may still be under way.
                    Ok(message) => {
                        if let Err(error) = checked(&message, peer) {
                            return Over::Failed(error);
                        }
                        self.early = Some(message);
                        self.end.drain(QUIET_NS);
                        if !receives {
                            self.end.stop();
                        }
                    }
                    Err(error) => return Over::Failed(error.during(peer, "the test")),
                },
                () = wait_until(overdue) => {
                    let reason = "the server still sends after the end of the test".into();
                    return Over::Failed(TrafficError::Protocol { address: peer.into(), reason });
                }
                interval = self.shown.next(self.workers, self.end) => {
                    observe(Event::Interval(Box::new(interval)));
                }
            }
        }
    }
}

fn observe_flow(observe: &mut dyn FnMut(Event), state: FlowState) {
    observe(Event::Flows(vec![FlowProgress { id: FLOW, state }]));
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Ends the test at the server, and waits for its results.
async fn finish(
    session: &mut Session,
    spec: &FlowSpec,
    end: &End,
    early: Option<Message>,
) -> Result<Results, TrafficError> {
    if spec.connection.transport.datagrams() {
        if spec.connection.shape == Shape::Stream {
            tokio::time::sleep(READING).await;
        }
        for _ in 0..END_DATAGRAMS {
            let _ = end.send_message(FLOW, &[]);
        }
    }
    let message = match early {
        Some(message) => message,
        None => {
            let peer = session.peer;
            let owed = session.control.owed(RESULTS).await;
            owed.map_err(|error| error.during(peer, "the exchange of results"))?
        }
    };
    checked(&message, session.peer)?;
    Ok(Results::parse(&message))
}
