//! The client of a test.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::plan::{Direction, FlowSpec, HeaderFormat, Plan};
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::record::{Receiver, Record};
use weir_model::report::{EndReport, FlowReport};
use weir_net::thread::lock;
use weir_traffic::session::{self, DatagramSocket, End, FlowEvent, Signal, Signals, Workers};
use weir_traffic::{ClientConfig, Event, Failure, Stop, TrafficError};

use super::codec::{self, Header, Mode, Report, Width};
use super::datagrams::LastNumber;
use super::settings;
use crate::ending::{Over, nominal, stopped};
use crate::shown::Shown;

/// How long a server may take to acknowledge the header of a stream. Old ones never do.
const ACK: Duration = Duration::from_secs(2);
/// Pause between two requests for the data or the report of a server.
const AGAIN: Duration = Duration::from_millis(20);
/// How long a server is asked to send datagrams, and to report those that it received.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most time for a server to read a stream to its end.
const DELIVERY: Duration = Duration::from_secs(10);
/// Time beyond that of the test in which a server may still send.
const SLOP: Duration = Duration::from_secs(2);
/// Silence after which no more datagrams are expected.
const QUIET_NS: u64 = 200_000_000;
/// The same where an amount ends the test.
const AMOUNT_QUIET: Duration = Duration::from_secs(5);
/// Pause between the first datagrams of several flows. iperf2's server accepts one source at a time: what arrives from another
/// meanwhile is lost, or counted as the first one's.
const ONE_AFTER_THE_OTHER: Duration = Duration::from_millis(10);
/// Most time for the workers to stop.
const SETTLING: Duration = Duration::from_millis(500);

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
    crate::runtime()?.block_on(async {
        let refusing = config.commands.refuse("a test with iperf2 has no commands");
        tokio::select! {
            record = test(config, plan, stop, observe) => record,
            never = refusing => match never {},
        }
    })
}

/// The report of the server among what arrives at a sender of datagrams.
struct Reported(Arc<Mutex<Option<Report>>>);

impl Signals for Reported {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        if let Some(report) = Report::parse(bytes) {
            lock(&self.0).get_or_insert(report);
        }
        Signal::Message
    }
}

/// A flow of datagrams that this end sends.
struct Sender {
    spec: FlowSpec,
    /// The datagram that announces the end; without its number and time until then.
    last: Mutex<Vec<u8>>,
    is_announced: AtomicBool,
    /// The server sends a report of them.
    wants_report: bool,
    report: Arc<Mutex<Option<Report>>>,
}

/// The sockets of a test.
struct Opened {
    peer: SocketAddr,
    specs: Vec<FlowSpec>,
    end: End,
    /// Connections, to await their end.
    streams: Vec<tokio::net::TcpStream>,
    senders: Vec<Sender>,
    /// First datagrams, by which a server is asked to send, by flow.
    requests: Vec<(u32, Vec<u8>)>,
}

async fn test(
    config: &ClientConfig,
    plan: Plan,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let workers = Workers::start(&config.into())?;
    let opening = open(config, &plan, &workers, observe);
    let opened = tokio::select! {
        opened = opening => opened?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    let Opened { peer, specs, end, mut streams, senders, requests } = opened;
    let family = crate::family(peer);
    observe(Event::Started { specs: specs.clone(), family });
    if senders.len() > 1 {
        for sender in &senders {
            sender.begin(&end);
            tokio::time::sleep(ONE_AFTER_THE_OTHER).await;
        }
    }
    let intervals =
        IntervalClock { start_ns: workers.now_ns(), interval_ns: plan.interval.0, omit_ns: 0 };
    let streams_sent = |spec: &&FlowSpec| sends(spec) && !spec.connection.transport.datagrams();
    for spec in specs.iter().filter(streams_sent) {
        // The header is a part of the stream, and of its limit.
        end.sent_by_protocol(spec.id, 0, codec::HEADER_BYTES as u64);
    }
    end.start(intervals);
    let of = |forward: bool| {
        let flows = specs.iter().filter(|spec| sends(spec) == forward);
        flows.map(|spec| spec.id).collect::<HashSet<u32>>()
    };
    let mut running = Running {
        workers: &workers,
        end: &end,
        specs: &specs,
        shown: Shown::new(intervals),
        receiving: of(false),
        sending: of(true),
        senders: &senders,
        requests: &requests,
    };
    let over = running.run(peer, stop, observe).await;
    if !matches!(over, Over::Complete) {
        running.settle(observe).await;
    }
    let shown = running.shown.count;
    let over = match over {
        Over::Complete => {
            let finishing = async {
                deliver(&end, &mut streams, &specs).await;
                reported(&end, &senders, peer).await
            };
            tokio::select! {
                finished = finishing => finished,
                reason = stop.asked(1) => Over::Stopped(reason),
            }
        }
        over => over,
    };
    let near = end.finish();
    let far = far(&senders);
    let (status, end_reason) = over.status();
    let record = assemble(Parts {
        plan: Plan { host: Some(config.host.clone()), ..plan },
        specs,
        family,
        local: near,
        one_sided: far.is_none(),
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
        control_bytes: 0,
        path_mtu_bytes: Some(session::path_mtu_bytes(peer.ip())),
    });
    // iperf2 has no loss threshold: what has not arrived at the end is lost. Its messages are a part of the data.
    let record = Record { loss_threshold_seconds: None, control_bytes: None, ..record };
    over.end(record, shown, observe)
}

fn sends(spec: &FlowSpec) -> bool {
    spec.connection.direction == Direction::Forward
}

/// Opens the sockets, to the first address of the server that accepts them.
async fn open(
    config: &ClientConfig,
    plan: &Plan,
    workers: &Workers,
    observe: &mut dyn FnMut(Event),
) -> Result<Opened, TrafficError> {
    let mut failure = None;
    for peer in session::resolve(&config.host, plan).await? {
        match open_to(config, plan, workers, peer, observe).await {
            Ok(opened) => return Ok(opened),
            Err(error) => failure = Some(error),
        }
    }
    let reason = "no address".into();
    Err(failure.unwrap_or(TrafficError::Resolve { host: config.host.clone(), reason }))
}

async fn open_to(
    config: &ClientConfig,
    plan: &Plan,
    workers: &Workers,
    peer: SocketAddr,
    observe: &mut dyn FnMut(Event),
) -> Result<Opened, TrafficError> {
    let specs = plan.flows(crate::family(peer), session::path_mtu_bytes(peer.ip()));
    let header = specs.first().map(|spec| settings::header(plan, spec, peer.port()));
    let header = header.ok_or_else(|| TrafficError::Input {
        field: "connection",
        given: "none".into(),
        accepted: "at least one".into(),
    })?;
    let counted = settings::counted(plan);
    let end = End::new(workers, &counted, true).with_host(peer.ip(), plan.device.as_deref());
    let mut opened = Opened {
        peer,
        end: end.with_prefix(&header.datagram_bytes()),
        streams: vec![],
        senders: vec![],
        requests: vec![],
        specs: specs.clone(),
    };
    // Both directions of a stream, or of datagrams, have one socket.
    let pairs = match header.mode {
        Mode::FullDuplex => {
            let (forward, reverse): (Vec<_>, Vec<_>) = specs.iter().partition(|spec| sends(spec));
            forward.into_iter().zip(reverse.into_iter().map(Some)).collect()
        }
        _ => specs.iter().map(|spec| (spec, None)).collect::<Vec<_>>(),
    };
    for (spec, back) in pairs {
        if spec.connection.transport.datagrams() {
            opened.open_datagrams(plan, spec, back, &header)?;
        } else {
            opened.open_stream(config, plan, spec, back, &header).await?;
        }
        if let Some(local) = opened.streams.first().and_then(|stream| stream.local_addr().ok())
            && opened.streams.len() == 1
        {
            observe(Event::Connected { local: local.into(), remote: peer.into() });
        }
    }
    Ok(opened)
}

impl Opened {
    fn open_datagrams(
        &mut self,
        plan: &Plan,
        spec: &FlowSpec,
        back: Option<&FlowSpec>,
        header: &Header,
    ) -> Result<(), TrafficError> {
        let width = if header.is_wide { Width::Wide } else { Width::Narrow };
        let is_sent = sends(spec);
        let receiver = if is_sent { back } else { Some(spec) };
        // A socket that also receives has the buffers for it.
        let socket = session::open_datagrams(
            plan,
            spec,
            is_sent && receiver.is_none(),
            None,
            Some(self.peer),
        )?;
        let prefix = header.datagram_bytes();
        let size = usize::try_from(spec.max_payload()).unwrap_or(0);
        let mut last = vec![0; size.max(codec::NUMBER_BYTES + prefix.len())];
        let at = match width {
            Width::Wide => codec::NUMBER_BYTES,
            Width::Narrow => codec::NARROW_BYTES,
        };
        last[at..at + prefix.len()].copy_from_slice(&prefix);
        if is_sent {
            let report = Arc::default();
            let to_receive = receiver.map(|_| socket.try_clone()).transpose();
            let to_receive =
                to_receive.map_err(|source| super::system("using a socket", source))?;
            let signals: Option<Box<dyn Signals>> = match receiver {
                Some(_) => None,
                None => Some(Box::new(Reported(Arc::clone(&report)))),
            };
            self.end.datagrams(&settings::sent(spec), true, socket, signals);
            self.senders.push(Sender {
                spec: spec.clone(),
                last: Mutex::new(last),
                is_announced: AtomicBool::new(false),
                wants_report: !header.wants_no_report,
                report,
            });
            if let (Some(back), Some(socket)) = (receiver, to_receive) {
                let signals = Box::new(LastNumber::new(width));
                self.end.datagrams(back, false, socket, Some(signals));
            }
        } else {
            number(&mut last, width, 1);
            self.requests.push((spec.id, last));
            self.end.datagrams(spec, false, socket, Some(Box::new(LastNumber::new(width))));
        }
        Ok(())
    }

    async fn open_stream(
        &mut self,
        config: &ClientConfig,
        plan: &Plan,
        spec: &FlowSpec,
        back: Option<&FlowSpec>,
        header: &Header,
    ) -> Result<(), TrafficError> {
        let peer = self.peer;
        let connecting =
            session::connect_stream(plan, spec, sends(spec), peer, config.connect_timeout);
        let stream = connecting.await?;
        let lost = |reason: String| TrafficError::Lost {
            address: peer.into(),
            during: "the start of a stream",
            reason,
        };
        // A new connection has room for it.
        match stream.send(&header.stream_bytes()) {
            Ok(codec::HEADER_BYTES) => {}
            Ok(_) => return Err(lost("there was no room for the header".into())),
            Err(error) => return Err(lost(error.to_string())),
        }
        let clone = || stream.try_clone().map_err(|error| lost(error.to_string()));
        let watched = tokio::net::TcpStream::from_std(clone()?.into());
        let mut watched = watched.map_err(|error| lost(error.to_string()))?;
        if header.awaits_ack {
            acknowledged(&mut watched, peer).await?;
        }
        if let Some(back) = back {
            self.end.stream(back, false, clone()?)?;
        }
        self.end.stream(spec, sends(spec), stream)?;
        self.streams.push(watched);
        Ok(())
    }
}

/// Waits for the acknowledgement of a stream's header, which servers before 2.0.10 do not send.
async fn acknowledged(
    stream: &mut tokio::net::TcpStream,
    peer: SocketAddr,
) -> Result<(), TrafficError> {
    let mut ack = [0; codec::ACK_BYTES];
    match tokio::time::timeout(ACK, stream.read_exact(&mut ack)).await {
        Ok(Ok(_)) if codec::is_ack(&ack) => Ok(()),
        Ok(Ok(_)) => Err(TrafficError::Protocol {
            address: peer.into(),
            reason: "the answer to the header is no acknowledgement of iperf2".into(),
        }),
        Ok(Err(error)) => Err(TrafficError::Lost {
            address: peer.into(),
            during: "the start of a stream",
            reason: error.to_string(),
        }),
        Err(_) => Ok(()),
    }
}

/// Writes the number of a datagram, and the time by this host's realtime clock.
fn number(datagram: &mut [u8], width: Width, number: i64) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let words = [number as u32, now.as_secs() as u32, now.subsec_micros(), (number >> 32) as u32];
    let words = if width == Width::Wide { &words[..] } else { &words[..3] };
    for (bytes, word) in datagram.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
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
    senders: &'a [Sender],
    requests: &'a [(u32, Vec<u8>)],
}

impl Running<'_> {
    /// Runs the test until its end.
    async fn run(&mut self, peer: SocketAddr, stop: &Stop, observe: &mut dyn FnMut(Event)) -> Over {
        let started = |spec: &FlowSpec| FlowProgress { id: spec.id, state: FlowState::Started };
        observe(Event::Flows(self.specs.iter().map(started).collect()));
        let begun = Instant::now();
        let limit = self.specs.iter().find_map(|spec| spec.connection.time_limit());
        let limit = limit.map(|limit| begun + Duration::from_nanos(limit.0) + SLOP);
        let mut ticks = tokio::time::interval(AGAIN);
        loop {
            if self.sending.is_empty() && self.receiving.is_empty() {
                return Over::Complete;
            }
            tokio::select! {
                biased;
                reason = stop.asked(1) => {
                    self.end.stop();
                    return Over::Stopped(reason);
                }
                event = self.end.event() => {
                    if let Some(error) = self.event(event, observe) {
                        return Over::Failed(error);
                    }
                }
                _ = ticks.tick(), if !self.receiving.is_empty() => {
                    if let Some(over) = self.watch(peer, begun, limit) {
                        return over;
                    }
                }
                interval = self.shown.next(self.workers, self.end) => {
                    observe(Event::Interval(Box::new(interval)));
                }
            }
        }
    }

    /// Stops what is sent, so that the server learns of the end.
    async fn settle(&mut self, observe: &mut dyn FnMut(Event)) {
        self.end.stop();
        let until = Instant::now() + SETTLING;
        while !self.sending.is_empty() {
            match tokio::time::timeout_at(until, self.end.event()).await {
                Ok(event) => drop(self.event(event, observe)),
                Err(_) => return,
            }
        }
    }

    /// Takes an event of a flow; returns the error that ends the test.
    fn event(&mut self, event: FlowEvent, observe: &mut dyn FnMut(Event)) -> Option<TrafficError> {
        let (id, state) = match event {
            FlowEvent::SenderDone(total) => {
                self.sending.remove(&total.flow);
                let sender = self.senders.iter().find(|sender| sender.spec.id == total.flow);
                if let Some(sender) = sender {
                    sender.announce(self.end, total.packets);
                }
                (total.flow, FlowState::Finished)
            }
            FlowEvent::SenderEnded(_) => {
                self.end.drain(QUIET_NS);
                return None;
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
            FlowEvent::Ready(_) => return None,
        };
        observe(Event::Flows(vec![FlowProgress { id, state }]));
        None
    }

    /// Asks a server for datagrams until they arrive, and ends a test whose end is missing.
    fn watch(&self, peer: SocketAddr, begun: Instant, limit: Option<Instant>) -> Option<Over> {
        let last_ns = self.end.last_arrival_ns();
        let lost = |reason: String| {
            let (address, during) = (peer.into(), "the test");
            Some(Over::Failed(TrafficError::Lost { address, during, reason }))
        };
        if last_ns == 0 {
            for (flow, datagram) in self.requests {
                let _ = self.end.send_message(*flow, datagram);
            }
            return match begun.elapsed() > PATIENCE && !self.requests.is_empty() {
                true => lost(format!("no datagrams from UDP port {}", peer.port())),
                false => None,
            };
        }
        let silent = Duration::from_nanos(self.workers.now_ns().saturating_sub(last_ns));
        let is_late = match limit {
            Some(limit) => Instant::now() > limit,
            None => silent > AMOUNT_QUIET,
        };
        if is_late && !self.requests.is_empty() {
            // The datagram that announces the end was lost.
            self.end.drain(QUIET_NS);
        }
        None
    }
}

impl Sender {
    fn width(&self) -> Width {
        let is_wide = self.spec.connection.header == HeaderFormat::Iperf2;
        if is_wide { Width::Wide } else { Width::Narrow }
    }

    /// Sends the first datagram.
    fn begin(&self, end: &End) {
        let mut first = lock(&self.last);
        number(&mut first, self.width(), 1);
        self.send(end, &first);
    }

    fn send(&self, end: &End, datagram: &[u8]) {
        if end.send_message(self.spec.id, datagram).is_ok() {
            end.sent_by_protocol(self.spec.id, 1, datagram.len() as u64);
        }
    }

    /// Sends the datagram that announces the end, after `packets` of data. It is data as well: the server counts it.
    fn announce(&self, end: &End, packets: u64) {
        let mut last = lock(&self.last);
        let packets = i64::try_from(packets).unwrap_or(i64::MAX);
        number(&mut last, self.width(), packets.saturating_add(1));
        self.width().negate(&mut last);
        self.send(end, &last);
        self.is_announced.store(true, Ordering::Relaxed);
    }

    /// Sends it again: it may have been lost, or the report.
    fn repeat(&self, end: &End) {
        if self.is_announced.load(Ordering::Relaxed) {
            let _ = end.send_message(self.spec.id, &lock(&self.last));
        }
    }

    fn is_awaited(&self) -> bool {
        self.wants_report && lock(&self.report).is_none()
    }
}

/// Waits until the server has read the streams to their end and closed them.
async fn deliver(end: &End, streams: &mut [tokio::net::TcpStream], specs: &[FlowSpec]) {
    if !specs.iter().any(sends) {
        return;
    }
    let closing = async {
        let mut bytes = [0; 4096];
        for stream in streams {
            // What an end of a server sends besides data is an acknowledgement that came late.
            while stream.read(&mut bytes).await.is_ok_and(|length| length > 0) {}
        }
    };
    if tokio::time::timeout(DELIVERY, closing).await.is_err() {
        let delivering = async {
            while end.unacknowledged_bytes() > 0 {
                tokio::time::sleep(AGAIN).await;
            }
        };
        let _ = tokio::time::timeout(DELIVERY, delivering).await;
    }
}

/// Asks for the reports of the server until they have arrived. Without a single one, it is not there.
async fn reported(end: &End, senders: &[Sender], peer: SocketAddr) -> Over {
    let asked = Instant::now();
    while senders.iter().any(Sender::is_awaited) && asked.elapsed() < PATIENCE {
        tokio::time::sleep(AGAIN).await;
        let awaited = senders.iter().filter(|sender| sender.is_awaited());
        awaited.for_each(|sender| sender.repeat(end));
    }
    if senders.is_empty() || !senders.iter().all(Sender::is_awaited) {
        return Over::Complete;
    }
    Over::Failed(TrafficError::Lost {
        address: peer.into(),
        during: "the end of the test",
        reason: format!("no report from UDP port {}", peer.port()),
    })
}

/// The reports of the server as the report of the far end.
fn far(senders: &[Sender]) -> Option<EndReport> {
    let flow = |sender: &Sender| {
        let report = (*lock(&sender.report))?;
        Some(FlowReport {
            id: sender.spec.id,
            receiver: Some(receiver(&report)),
            ..FlowReport::default()
        })
    };
    let flows: Vec<FlowReport> = senders.iter().filter_map(flow).collect();
    (!flows.is_empty()).then(|| EndReport { flows, ..EndReport::default() })
}

fn receiver(report: &Report) -> Receiver {
    let seconds = report.time_us as f64 / 1e6;
    let per_second = |amount: u64| (seconds > 0.0).then(|| amount as f64 / seconds);
    let packets = report.datagrams.saturating_sub(report.lost);
    Receiver {
        bytes: report.bytes,
        packets,
        seconds,
        bits_per_second: per_second(report.bytes.saturating_mul(8)),
        packets_per_second: per_second(packets),
        lost_packets: Some(report.lost),
        loss_ratio: (report.datagrams > 0).then(|| report.lost as f64 / report.datagrams as f64),
        reordered_packets: Some(report.out_of_order),
        jitter_seconds: Some(report.jitter_us as f64 / 1e6),
        ..Receiver::default()
    }
}
