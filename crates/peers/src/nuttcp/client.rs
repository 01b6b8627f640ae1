//! The client of a test.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::plan::{FlowSpec, Plan};
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::record::Record;
use weir_model::report::EndReport;
use weir_net::tcp::TcpOptions;
use weir_traffic::session::{self, End, FlowEvent, SenderTotal, Workers};
use weir_traffic::{ClientConfig, Event, Failure, FlowAddresses, Stop, TrafficError};

use super::codec::{self, Answer, Version};
use super::control::{Control, ControlError};
use super::datagrams::{self, EndMarkers, Expected, NoData, Read};
use super::far::Stated;
use super::level::{self, ENDING, Markers, Stream};
use super::settings;
use crate::ending::{Over, nominal, stopped};
use crate::sessions::counted;
use crate::shown::Shown;

/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a server may take to listen for data, and the pause between two tries.
const LISTENING: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(10));
/// Silence of a server that is to send, after which it is not there.
const SILENCE: Duration = Duration::from_secs(10);
/// Silence after the end of the data. Datagrams reordered behind it still count.
const QUIET_NS: u64 = 200_000_000;
/// How long the server may take for its figures once it has all data.
const FIGURES: Duration = Duration::from_secs(5);
/// Time without an acknowledgement after which no more is awaited.
const DELIVERY: Duration = Duration::from_secs(30);
/// How often what the system does not announce is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Most time for the workers to stop.
const SETTLING: Duration = Duration::from_millis(500);
/// Time for a server to answer a probe.
const PROBE: Duration = Duration::from_secs(2);
/// Versions before this one read other parameters.
const OLDEST: Version = Version([5, 5, 1]);

/// Whether a server answers a greeting.
pub(super) fn probe(address: SocketAddr) -> bool {
    use std::io::{BufRead, Read, Write};
    let answer = || -> std::io::Result<bool> {
        let mut stream = std::net::TcpStream::connect_timeout(&address, PROBE)?;
        stream.set_read_timeout(Some(PROBE))?;
        stream.set_write_timeout(Some(PROBE))?;
        stream.write_all(codec::hello().as_bytes())?;
        let mut line = String::new();
        std::io::BufReader::new(stream).take(64).read_line(&mut line)?;
        Ok(codec::greeted(line.trim_end()).is_some())
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
    crate::run_test(config, "a test with nuttcp has no commands", test)
}

async fn test(
    config: &ClientConfig,
    plan: Plan,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let workers = Workers::start(&config.into())?;
    let preparing = prepare(config, &plan, &workers, observe);
    let opened = tokio::select! {
        opened = preparing => opened?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    let Opened { session, specs, end, mut streams, addresses, early } = opened;
    let peer = session.peer;
    let family = crate::family(peer);
    observe(Event::Addresses(addresses));
    observe(Event::Started { specs: specs.clone(), family });
    let is_sender = specs.first().is_some_and(crate::serving::sends);
    let is_datagrams = specs.iter().any(|spec| spec.connection.transport.datagrams());
    if is_sender && is_datagrams {
        tokio::select! {
            () = level::begin_datagrams(&end, &specs) => {}
            reason = stop.asked(1) => return Err(stopped(reason).into()),
        }
    }
    let start_ns = datagrams::start_ns(&early).unwrap_or_else(|| workers.now_ns());
    let intervals = IntervalClock { start_ns, interval_ns: plan.interval.0, omit_ns: 0 };
    let mut running = Running {
        workers: &workers,
        end: &end,
        specs: &specs,
        session,
        shown: Shown::new(intervals),
        running: specs.iter().map(|spec| spec.id).collect(),
        totals: vec![],
    };
    let over = running.run((is_sender, &early), stop, observe).await;
    if is_sender && !matches!(over, Over::Complete) {
        running.settle(observe).await;
    }
    // A server that receives ends a test that was stopped as usual.
    let over = match over {
        Over::Failed(error) => Over::Failed(error),
        // The server states nothing before it has sent all.
        Over::Stopped(reason) if !is_sender => Over::Stopped(reason),
        over => {
            let stops = if matches!(over, Over::Stopped(_)) { 2 } else { 1 };
            tokio::select! {
                finished = running.finish(is_sender, is_datagrams, &mut streams) => {
                    match (over, finished) {
                        (Over::Complete, Err(error)) => Over::Failed(error),
                        (over, _) => over,
                    }
                }
                reason = stop.asked(stops) => Over::Stopped(reason),
            }
        }
    };
    let shown = running.shown.count;
    let Session { control, stated, .. } = running.session;
    let mut near = end.finish();
    if let (false, true, Some(spec)) = (is_sender, is_datagrams, specs.first())
        && let Some(packets) = stated.packets(spec.max_payload(), received_packets(&near, spec.id))
    {
        // What was sent last and is lost is only known now.
        let (bytes, omitted_packets, end_ns) = (0, 0, None);
        let total = SenderTotal { flow: spec.id, packets, bytes, omitted_packets, end_ns };
        end.expect(&total, 0);
        near = end.finish();
    }
    let far = match &specs[..] {
        [spec] => stated.report(spec, &near),
        _ => stated.result.map(|_| Default::default()),
    };
    let (status, end_reason) = over.status();
    let mut record = assemble(Parts {
        plan: Plan { host: Some(config.host.clone()), ..plan },
        specs: specs.clone(),
        family,
        local: near,
        one_sided: false,
        remote: far,
        peer: super::PROTOCOL.name.into(),
        peer_reports: Default::default(),
        clock: None,
        intervals,
        intervals_shown: shown,
        status,
        end_reason,
        nominal: nominal(config, peer),
        latency: None,
        loss_threshold_ns: 0,
        control_bytes: control.bytes(),
        path_mtu_bytes: Some(session::path_mtu_bytes(peer.ip())),
    });
    stated.set_sum(&mut record, &specs);
    // nuttcp has no loss threshold: what has not arrived at the end is lost.
    let record = Record { loss_threshold_seconds: None, ..record };
    over.end(record, shown, observe)
}

/// Datagrams of a flow that this end has received.
fn received_packets(near: &EndReport, flow: u32) -> u64 {
    let own = near.flows.iter().find(|own| own.id == flow);
    own.and_then(|own| own.receiver.as_ref()).map_or(0, |receiver| receiver.packets)
}

/// A session with a server.
struct Session {
    control: Control,
    peer: SocketAddr,
    stated: Stated,
    /// The server has closed the connection: it states no more.
    is_closed: bool,
}

/// The sockets of a test that a server has accepted.
struct Opened {
    session: Session,
    specs: Vec<FlowSpec>,
    end: End,
    /// Sent streams, to make them equally long.
    streams: Vec<Stream>,
    addresses: Vec<FlowAddresses>,
    /// The first datagrams of a server.
    early: Vec<Read>,
}

/// Connects, states the parameters, and opens the sockets of the data.
async fn prepare(
    config: &ClientConfig,
    plan: &Plan,
    workers: &Workers,
    observe: &mut dyn FnMut(Event),
) -> Result<Opened, TrafficError> {
    let (stream, peer) = crate::connect_control(config, plan).await?;
    let keepalive = TcpOptions { nodelay: true, ..crate::serving::watched() };
    let control = Control::new(stream).with_options(&keepalive);
    let system = |source| TrafficError::System { operation: "using a connection".into(), source };
    let mut control = control.map_err(system)?;
    let local = control.local();
    if let Some(local) = local {
        observe(Event::Connected { local: local.into(), remote: peer.into() });
    }
    const DURING: &str = "the greeting";
    let lost = |error: ControlError| error.during(peer, DURING);
    control.send(&codec::hello()).await.map_err(lost)?;
    let greeting = control.owed(ANSWER).await.map_err(lost)?;
    let unexpected = |reason: String| TrafficError::Protocol { address: peer.into(), reason };
    match codec::greeted(&greeting) {
        Some(version) if version >= OLDEST => {}
        Some(version) => {
            return Err(TrafficError::Refused {
                address: peer.into(),
                code: "version".into(),
                text: format!("nuttcp {version}, while {OLDEST} is the oldest that is spoken to"),
            });
        }
        None => return Err(unexpected("the greeting is not nuttcp's".into())),
    }
    let specs = plan.flows(crate::family(peer), session::path_mtu_bytes(peer.ip()));
    let first = specs.first().ok_or_else(|| unexpected("no flow".into()))?;
    let parameters = settings::parameters(plan, first);
    let is_sender = parameters.client_sends;
    let received = match (parameters.is_udp && !is_sender, local) {
        (true, Some(local)) => {
            let at = super::with_port(local, parameters.port);
            Some(Expected::open(plan, first, at)?)
        }
        _ => None,
    };
    let lost = |error: ControlError| error.during(peer, "the exchange of parameters");
    control.send(&format!("{parameters}\n")).await.map_err(lost)?;
    let answer = control.owed(ANSWER).await.map_err(lost)?;
    match Answer::parse(&answer) {
        Some(Answer::Accepted) => {}
        Some(Answer::Refused) => return Err(refusal(&mut control, peer).await),
        None => return Err(unexpected(format!("the answer {answer:?} to the parameters"))),
    }
    let session = Session { control, peer, stated: Stated::default(), is_closed: false };
    let end = End::new(workers, &counted(plan), true).with_host(peer.ip(), plan.device.as_deref());
    let mut opened = Opened {
        session,
        specs: specs.clone(),
        end,
        streams: vec![],
        addresses: vec![],
        early: vec![],
    };
    if let Some(received) = received {
        opened.receive_datagrams(received, workers).await?;
        return Ok(opened);
    }
    for (spec, port) in specs.iter().zip(parameters.port..=u16::MAX) {
        let to = super::with_port(peer, port);
        if parameters.is_udp {
            let socket = session::open_datagrams(plan, spec, true, None, Some(to))?;
            opened.know(spec, socket.local_addr(), to);
            opened.end.datagrams(spec, true, socket, Some(Box::new(NoData)));
        } else {
            opened.open_stream(config, plan, spec, to).await?;
        }
    }
    Ok(opened)
}

/// The refusal of a server, whose reasons follow.
async fn refusal(control: &mut Control, peer: SocketAddr) -> TrafficError {
    let mut reasons: Vec<String> = vec![];
    while let Ok(line) = control.owed(ANSWER).await {
        if Answer::parse(&line) == Some(Answer::Refused) || reasons.len() > 8 {
            break;
        }
        // The reason follows the end's name and version.
        let reason = line.rsplit_once(": ").map_or(&*line, |(_, text)| text);
        reasons.push(reason.to_owned());
    }
    let text = reasons.join("; ");
    TrafficError::Refused { address: peer.into(), code: "server-error".into(), text }
}

impl Opened {
    fn know(&mut self, spec: &FlowSpec, local: std::io::Result<SocketAddr>, remote: SocketAddr) {
        let (flow, direction) = (spec.id, spec.connection.direction);
        let known = local.map(|local| FlowAddresses { flow, direction, local, remote });
        self.addresses.extend(known);
    }

    /// Connects a stream. The server may not listen yet: it opens the port of each stream when it has accepted the one before.
    async fn open_stream(
        &mut self,
        config: &ClientConfig,
        plan: &Plan,
        spec: &FlowSpec,
        to: SocketAddr,
    ) -> Result<(), TrafficError> {
        let sends = crate::serving::sends(spec);
        let (patience, pause) = LISTENING;
        let until = Instant::now() + patience;
        let connecting = async {
            loop {
                let timeout = config.connect_timeout;
                match session::connect_stream(plan, spec, sends, to, timeout).await {
                    Err(_) if Instant::now() < until => tokio::time::sleep(pause).await,
                    done => return done,
                }
            }
        };
        let stream = tokio::select! {
            connected = connecting => connected?,
            error = self.session.failure("the opening of a stream") => return Err(error),
        };
        self.know(spec, stream.local_addr(), to);
        let system =
            |source| TrafficError::System { operation: "using a connection".into(), source };
        let mut own = spec.clone();
        if sends && self.specs.len() > 1 {
            let second = stream.try_clone().map_err(system)?;
            let second = tokio::net::TcpStream::from_std(second.into()).map_err(system)?;
            self.streams.push((spec.id, second));
            // It may have to be made longer.
            own.connection = level::open_ended(&spec.connection);
        }
        self.end.stream(&own, sends, stream)
    }

    /// Waits for the first datagram of the server.
    async fn receive_datagrams(
        &mut self,
        expected: Expected,
        workers: &Workers,
    ) -> Result<(), TrafficError> {
        let spec = self.specs[0].clone();
        let port = expected.port();
        let first = expected.first(self.session.peer.ip(), workers);
        let (socket, from, early) = tokio::select! {
            first = first => first?,
            error = self.session.failure("the start of the test") => return Err(error),
            () = tokio::time::sleep(SILENCE) => return Err(TrafficError::Lost {
                address: self.session.peer.into(),
                during: "the start of the test",
                reason: format!("no datagrams at UDP port {port} of this host"),
            }),
        };
        self.know(&spec, socket.local_addr(), from);
        self.end.datagrams(&spec, false, socket, Some(Box::<EndMarkers>::default()));
        self.early = early;
        Ok(())
    }
}

impl Session {
    /// Takes a line of the server, or the end of the connection.
    fn take(&mut self, line: Result<String, ControlError>) -> Result<(), ControlError> {
        match line {
            Ok(line) => {
                self.stated.take(&line);
                Ok(())
            }
            Err(ControlError::Closed | ControlError::Reset) => {
                self.is_closed = true;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes lines of the server until one of them means that it can't continue.
    async fn failure(&mut self, during: &'static str) -> TrafficError {
        loop {
            let line = self.control.line().await;
            if let Err(error) = self.take(line) {
                return error.during(self.peer, during);
            }
            if let Some(error) = self.over(during) {
                return error;
            }
        }
    }

    /// Why the server can't continue.
    fn over(&self, during: &'static str) -> Option<TrafficError> {
        let address = self.peer.into();
        if let Some(text) = self.stated.error.clone() {
            return Some(TrafficError::Closed { address, text });
        }
        self.is_closed.then(|| ControlError::Closed.during(self.peer, during))
    }
}

/// A test whose data flows.
struct Running<'a> {
    workers: &'a Workers,
    end: &'a End,
    specs: &'a [FlowSpec],
    session: Session,
    shown: Shown,
    /// Flows that have not finished.
    running: HashSet<u32>,
    /// What this end has sent.
    totals: Vec<SenderTotal>,
}

impl Running<'_> {
    /// Runs until all flows have finished. `early`: datagrams that have arrived before.
    async fn run(
        &mut self,
        (is_sender, early): (bool, &[Read]),
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
    ) -> Over {
        const DURING: &str = "the test";
        self.end.start(self.shown.intervals);
        let started = |spec: &FlowSpec| FlowProgress { id: spec.id, state: FlowState::Started };
        observe(Event::Flows(self.specs.iter().map(started).collect()));
        if let Some(spec) = self.specs.first() {
            datagrams::deliver(self.end, spec.id, early, QUIET_NS);
        }
        let begun = Instant::now();
        let mut closed = None;
        let mut ticks = tokio::time::interval(LOOK);
        while !self.running.is_empty() {
            let is_open = !self.session.is_closed;
            tokio::select! {
                biased;
                reason = stop.asked(1) => return Over::Stopped(reason),
                event = self.end.event() => {
                    if let Some(error) = self.event(event, observe) {
                        return Over::Failed(error);
                    }
                }
                line = self.session.control.line(), if is_open => {
                    if let Err(error) = self.session.take(line) {
                        return Over::Failed(error.during(self.session.peer, DURING));
                    }
                    let is_done = self.session.stated.result.is_some();
                    match self.session.over(DURING) {
                        Some(error) if !is_done => return Over::Failed(error),
                        // It has read the stream to its end, or for as long as it was to.
                        Some(_) if is_sender => self.end.stop(),
                        // The last of what it has sent may not have arrived.
                        _ => {}
                    }
                }
                _ = ticks.tick() => {
                    if self.session.is_closed {
                        closed.get_or_insert_with(Instant::now);
                    }
                    if let Some(error) = self.overdue(is_sender, begun, closed) {
                        return Over::Failed(error);
                    }
                }
                interval = self.shown.next(self.workers, self.end) => {
                    observe(Event::Interval(Box::new(interval)));
                }
            }
        }
        Over::Complete
    }

    /// The error of a test whose data does not arrive or end. `closed`: when the server closed the session.
    fn overdue(
        &self,
        is_sender: bool,
        begun: Instant,
        closed: Option<Instant>,
    ) -> Option<TrafficError> {
        let silent = match self.end.last_arrival_ns() {
            0 => begun.elapsed(),
            last_ns => Duration::from_nanos(self.workers.now_ns().saturating_sub(last_ns)),
        };
        let limit = self.specs.iter().find_map(|spec| spec.connection.time_limit());
        let is_late = limit.is_none_or(|limit| begun.elapsed() > Duration::from_nanos(limit.0));
        let is_over = closed.is_some_and(|closed| closed.elapsed() > FIGURES);
        let is_silent = !is_sender && is_late && silent > SILENCE;
        (is_over || is_silent).then(|| TrafficError::Lost {
            address: self.session.peer.into(),
            during: "the test",
            reason: match is_over {
                true => "the server closed the control connection before the data ended".into(),
                false => format!("nothing arrived for {} s", silent.as_secs()),
            },
        })
    }

    /// Takes an event of a flow; returns the error that ends the test.
    fn event(&mut self, event: FlowEvent, observe: &mut dyn FnMut(Event)) -> Option<TrafficError> {
        let id = match event {
            FlowEvent::SenderDone(total) => {
                let id = total.flow;
                self.totals.push(total);
                id
            }
            FlowEvent::ReceiverDone(id) => id,
            FlowEvent::SenderEnded(_) => {
                self.end.drain(QUIET_NS);
                return None;
            }
            FlowEvent::Failed(flow, reason) => {
                self.running.remove(&flow);
                observe(Event::Flows(vec![FlowProgress { id: flow, state: FlowState::Failed }]));
                let name = self.specs.iter().find(|spec| spec.id == flow);
                let name = name.map_or_else(String::new, |spec| spec.name.clone());
                return Some(TrafficError::Flow { code: "flow", flow, name, reason });
            }
            FlowEvent::Ready(_) => return None,
        };
        if self.running.remove(&id) {
            observe(Event::Flows(vec![FlowProgress { id, state: FlowState::Finished }]));
        }
        None
    }

    /// Stops what is sent, so that its counts are final.
    async fn settle(&mut self, observe: &mut dyn FnMut(Event)) {
        self.end.stop();
        let until = Instant::now() + SETTLING;
        while !self.running.is_empty() {
            match tokio::time::timeout_at(until, self.end.event()).await {
                Ok(event) => drop(self.event(event, observe)),
                Err(_) => return,
            }
        }
    }

    /// Ends the flows, and waits for the figures of the server.
    async fn finish(
        &mut self,
        is_sender: bool,
        is_datagrams: bool,
        streams: &mut [Stream],
    ) -> Result<(), TrafficError> {
        let totals = std::mem::take(&mut self.totals);
        match (is_sender, is_datagrams) {
            (true, true) => self.end_datagrams(&totals).await,
            (true, false) => self.end_streams(&totals, streams).await,
            (false, _) => self.figures(FIGURES).await,
        }
    }

    /// Ends sent streams, and waits for the figures of the server.
    async fn end_streams(
        &mut self,
        totals: &[SenderTotal],
        streams: &mut [Stream],
    ) -> Result<(), TrafficError> {
        level::end_streams(self.end, self.specs, totals, streams).await;
        let (mut left, mut since) = (u64::MAX, Instant::now());
        while !self.session.is_closed {
            match self.end.unacknowledged_bytes() {
                now if now < left => (left, since) = (now, Instant::now()),
                0 if since.elapsed() > FIGURES => break,
                1.. if since.elapsed() > DELIVERY => break,
                _ => {}
            }
            self.take_for(LOOK).await?;
        }
        self.complete()
    }

    /// Announces the end of sent datagrams until the server has stated its figures.
    async fn end_datagrams(&mut self, totals: &[SenderTotal]) -> Result<(), TrafficError> {
        let mut markers = Markers::send_first(self.end, self.specs, totals).await;
        while !self.session.is_closed && !markers.is_last_sent() {
            self.take_for(ENDING).await?;
            if self.session.stated.result.is_some() {
                break;
            }
            markers.send_next(self.end);
        }
        // For a server that has received no marker, this is the end.
        self.session.control.half_close().await;
        self.figures(FIGURES).await
    }

    /// Waits until the server has stated its figures and closed the connection.
    async fn figures(&mut self, patience: Duration) -> Result<(), TrafficError> {
        self.take_for(patience).await?;
        self.complete()
    }

    /// Takes what the server states, until it has closed the connection or the time is over.
    async fn take_for(&mut self, time: Duration) -> Result<(), TrafficError> {
        const DURING: &str = "the end of the test";
        let until = Instant::now() + time;
        while !self.session.is_closed {
            let line = tokio::time::timeout_at(until, self.session.control.line());
            let Ok(line) = line.await else { return Ok(()) };
            let taken = self.session.take(line);
            taken.map_err(|error| error.during(self.session.peer, DURING))?;
        }
        Ok(())
    }

    /// Whether the server has stated its figures.
    fn complete(&self) -> Result<(), TrafficError> {
        let address = self.session.peer.into();
        match (&self.session.stated.error, self.session.stated.result) {
            (Some(text), _) => Err(TrafficError::Closed { address, text: text.clone() }),
            (None, Some(_)) => Ok(()),
            (None, None) => Err(TrafficError::Lost {
                address,
                during: "the end of the test",
                reason: "the server stated no figures".into(),
            }),
        }
    }
}
