//! The client of a test.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::plan::{FlowSpec, Plan};
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::record::Record;
use weir_model::units::Span;
use weir_traffic::session::{self, End, FlowEvent, LOSS_THRESHOLD_NS, Workers};
use weir_traffic::{ClientConfig, Event, Failure, Stop, TrafficError};

use super::codec::{Frames, Message, Reply};
use super::control::{Control, ControlError};
use super::{icmp, settings};
use crate::ending::{Over, nominal, stopped};
use crate::shown::Shown;

/// How long a receiver may take to accept a flow.
const ACCEPTANCE: Duration = Duration::from_secs(5);
/// How long it may take to close a flow: ITGRecv waits a second for data of each, one flow after the other.
const CLOSING: Duration = Duration::from_secs(10);
/// How long it may take to close the session, after which this end closes it.
const GOODBYE: Duration = Duration::from_secs(2);
/// Most time for streams to be acknowledged to their end.
const DELIVERY: Duration = Duration::from_secs(10);
/// Pause between two looks for that.
const LOOK: Duration = Duration::from_millis(5);
/// Most time for the workers to stop.
const SETTLING: Duration = Duration::from_millis(500);
/// Time for a receiver to answer a probe.
const PROBE: Duration = Duration::from_secs(2);

/// Whether a receiver opens and closes a session.
pub(super) fn probe(address: SocketAddr) -> bool {
    use std::io::{Read, Write};
    let answer = || -> std::io::Result<bool> {
        let mut stream = std::net::TcpStream::connect_timeout(&address, PROBE)?;
        stream.set_read_timeout(Some(PROBE))?;
        stream.set_write_timeout(Some(PROBE))?;
        stream.write_all(&Message::Connect.to_bytes())?;
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        let is_known = Reply::parse(&byte) == Ok(Some((Reply::Connected, 1)));
        if is_known {
            stream.write_all(&Message::Close.to_bytes())?;
            // ITGRecv ends if it can't send this.
            stream.read_exact(&mut byte)?;
        }
        Ok(is_known)
    };
    answer().unwrap_or(false)
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
    let plan = settings::prepared(config)?;
    let test = test(config, plan, stop, observe);
    crate::run_test(config, "a test with D-ITG has no commands", test)
}

async fn test(
    config: &ClientConfig,
    plan: Plan,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let workers = Workers::start(&config.into())?;
    let preparing = prepare(config, &plan, &workers, observe);
    let (mut session, specs, end) = tokio::select! {
        prepared = preparing => prepared?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    let peer = session.peer;
    let family = crate::family(peer);
    observe(Event::Started { specs: specs.clone(), family });
    let intervals =
        IntervalClock { start_ns: workers.now_ns(), interval_ns: plan.interval.0, omit_ns: 0 };
    let mut running = Running {
        workers: &workers,
        end: &end,
        specs: &specs,
        shown: Shown::new(intervals),
        sending: specs.iter().map(|spec| spec.id).collect(),
    };
    let over = running.run(&mut session, stop, observe).await;
    if !matches!(over, Over::Complete) {
        running.settle(observe).await;
    }
    let shown = running.shown.count;
    let over = tokio::select! {
        closed = close(&mut session, &end, &specs) => match (over, closed) {
            (Over::Complete, Err(error)) => Over::Failed(error),
            (over, _) => over,
        },
        reason = stop.asked(if matches!(over, Over::Stopped(_)) { 2 } else { 1 }) => match over {
            Over::Complete => Over::Stopped(reason),
            over => over,
        },
    };
    let near = end.finish();
    let (status, end_reason) = over.status();
    let echoes = specs.iter().any(|spec| spec.connection.echo.is_some());
    let record = assemble(Parts {
        plan: Plan { host: Some(config.host.clone()), ..plan.clone() },
        specs,
        family,
        local: near,
        remote: None,
        peer: super::PROTOCOL.name.into(),
        one_sided: true,
        peer_reports: Default::default(),
        clock: None,
        intervals,
        intervals_shown: shown,
        status,
        end_reason,
        nominal: nominal(config, peer),
        latency: None,
        loss_threshold_ns: loss_threshold(&plan).0,
        control_bytes: session.control.bytes(),
        path_mtu_bytes: Some(session::path_mtu_bytes(peer.ip())),
    });
    let threshold = record.loss_threshold_seconds.filter(|_| echoes);
    let record = Record { loss_threshold_seconds: threshold, ..record };
    over.end(record, shown, observe)
}

/// After this time a packet that has not come back is lost.
fn loss_threshold(plan: &Plan) -> Span {
    plan.loss_threshold.unwrap_or(Span(LOSS_THRESHOLD_NS))
}

/// A session with a receiver.
struct Session {
    control: Control,
    peer: SocketAddr,
}

/// Connects, announces the flows, and opens their data sockets.
async fn prepare(
    config: &ClientConfig,
    plan: &Plan,
    workers: &Workers,
    observe: &mut dyn FnMut(Event),
) -> Result<(Session, Vec<FlowSpec>, End), TrafficError> {
    let mut session = connect(config, plan).await?;
    let peer = session.peer;
    if let Some(local) = session.control.local() {
        observe(Event::Connected { local: local.into(), remote: peer.into() });
    }
    const DURING: &str = "the start of the session";
    let lost = |error: ControlError| error.during(peer, DURING);
    session.control.send(&Message::Connect.to_bytes()).await.map_err(lost)?;
    match session.control.owed(ACCEPTANCE).await.map_err(lost)? {
        Reply::Connected => {}
        other => return Err(unexpected(peer, other)),
    }
    let specs = plan.flows(crate::family(peer), session::path_mtu_bytes(peer.ip()));
    let timed = Plan { loss_threshold: Some(loss_threshold(plan)), ..plan.clone() };
    let mut end = End::new(workers, &timed, true).with_host(peer.ip(), plan.device.as_deref());
    for spec in &specs {
        if spec.connection.transport.echoes() {
            let socket = icmp::sender(plan, spec, peer)?;
            session.announce(spec).await?;
            end.datagrams(spec, true, socket, None);
            continue;
        }
        let to = SocketAddr::new(peer.ip(), session.announce(spec).await?);
        if spec.connection.transport.datagrams() {
            let socket = session::open_datagrams(plan, spec, true, None, Some(to))?;
            end.datagrams(spec, true, socket, None);
        } else {
            // ITGRecv accepts a stream before it announces the next one at the same port.
            let timeout = config.connect_timeout;
            let stream = session::connect_stream(plan, spec, true, to, timeout).await?;
            end.framed_stream(spec, stream, Box::new(Frames { flow: spec.id }))?;
        }
    }
    Ok((session, specs, end))
}

impl Session {
    /// Announces a flow; returns the port of its data.
    async fn announce(&mut self, spec: &FlowSpec) -> Result<u16, TrafficError> {
        let peer = self.peer;
        let lost = |error: ControlError| error.during(peer, "the announcement of a flow");
        let request = settings::request(spec, peer);
        self.control.send(&Message::Flow(request).to_bytes()).await.map_err(lost)?;
        match self.control.owed(ACCEPTANCE).await.map_err(lost)? {
            Reply::Accepted { flow, port } if flow == spec.id && port > 0 => Ok(port),
            Reply::NoIcmp(_) => Err(TrafficError::Refused {
                address: peer.into(),
                code: "server-error".into(),
                text: "the receiver has no permission for raw ICMP sockets (CAP_NET_RAW)".into(),
            }),
            Reply::NoPort(_) => Err(TrafficError::Refused {
                address: peer.into(),
                code: "server-error".into(),
                text: format!(
                    "port {} for the data of flow {} is not available",
                    request.port, spec.id
                ),
            }),
            other => Err(unexpected(peer, other)),
        }
    }
}

fn unexpected(peer: SocketAddr, reply: Reply) -> TrafficError {
    let reason = format!("a message that is not expected: {reply:?}");
    TrafficError::Protocol { address: peer.into(), reason }
}

/// Connects to the receiver.
async fn connect(config: &ClientConfig, plan: &Plan) -> Result<Session, TrafficError> {
    let (stream, peer) = crate::connect_control(config, plan).await?;
    Ok(Session { control: Control::new(stream), peer })
}

/// A test whose data flows.
struct Running<'a> {
    workers: &'a Workers,
    end: &'a End,
    specs: &'a [FlowSpec],
    shown: Shown,
    /// Flows that have not finished.
    sending: HashSet<u32>,
}

impl Running<'_> {
    /// Runs until all flows have finished.
    async fn run(
        &mut self,
        session: &mut Session,
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
    ) -> Over {
        self.end.start(self.shown.intervals);
        let started = |spec: &FlowSpec| FlowProgress { id: spec.id, state: FlowState::Started };
        observe(Event::Flows(self.specs.iter().map(started).collect()));
        while !self.sending.is_empty() {
            tokio::select! {
                biased;
                reason = stop.asked(1) => return Over::Stopped(reason),
                event = self.end.event() => {
                    if let Some(error) = self.event(event, observe) {
                        return Over::Failed(error);
                    }
                }
                reply = session.control.reply() => return Over::Failed(match reply {
                    Ok(reply) => unexpected(session.peer, reply),
                    Err(error) => error.during(session.peer, "the test"),
                }),
                interval = self.shown.next(self.workers, self.end) => {
                    observe(Event::Interval(Box::new(interval)));
                }
            }
        }
        Over::Complete
    }

    /// Takes an event of a flow; returns the error that ends the test.
    fn event(&mut self, event: FlowEvent, observe: &mut dyn FnMut(Event)) -> Option<TrafficError> {
        let progress = |id, state| Event::Flows(vec![FlowProgress { id, state }]);
        match event {
            FlowEvent::SenderDone(total) => {
                if self.sending.remove(&total.flow) {
                    observe(progress(total.flow, FlowState::Finished));
                }
                None
            }
            FlowEvent::Failed(flow, reason) => {
                self.sending.remove(&flow);
                observe(progress(flow, FlowState::Failed));
                let name = self.specs.iter().find(|spec| spec.id == flow);
                let name = name.map_or_else(String::new, |spec| spec.name.clone());
                Some(TrafficError::Flow { code: "flow", flow, name, reason })
            }
            _ => None,
        }
    }

    /// Stops what is sent, so that its counts are final.
    async fn settle(&mut self, observe: &mut dyn FnMut(Event)) {
        self.end.stop();
        let until = tokio::time::Instant::now() + SETTLING;
        while !self.sending.is_empty() {
            match tokio::time::timeout_at(until, self.end.event()).await {
                Ok(event) => drop(self.event(event, observe)),
                Err(_) => return,
            }
        }
    }
}

/// Waits until the streams are delivered, and closes the flows and the session.
async fn close(session: &mut Session, end: &End, specs: &[FlowSpec]) -> Result<(), TrafficError> {
    let delivering = async {
        while end.unacknowledged_bytes() > 0 {
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(DELIVERY, delivering).await;
    let peer = session.peer;
    let lost = |error: ControlError| error.during(peer, "the end of the test");
    let control = &mut session.control;
    for spec in specs {
        control.send(&Message::CloseFlow(spec.id).to_bytes()).await.map_err(lost)?;
    }
    let mut open: HashSet<u32> = specs.iter().map(|spec| spec.id).collect();
    while !open.is_empty() {
        match control.owed(CLOSING).await.map_err(lost)? {
            Reply::FlowClosed(flow) if open.remove(&flow) => {}
            other => return Err(unexpected(peer, other)),
        }
    }
    control.send(&Message::Close.to_bytes()).await.map_err(lost)?;
    // All is counted by now.
    let _ = control.owed(GOODBYE).await;
    Ok(())
}
