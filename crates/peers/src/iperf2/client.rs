//! The client of a test.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::plan::{FlowSpec, Plan};
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::record::Record;
use weir_traffic::session::{self, End, FlowEvent, SenderTotal, Workers};
use weir_traffic::{ClientConfig, Event, Failure, FlowAddresses, Stop, TrafficError};

use super::codec::{self, Header, Mode, Width};
use super::datagrams::{Ending, LastNumber};
use super::senders::{AGAIN, PATIENCE, Sender, far, number, reported};
use super::settings;
use crate::ending::{Over, nominal, stopped};
use crate::serving::sends;
use crate::sessions::counted;
use crate::shown::Shown;

/// How long a server may take to acknowledge the header of a stream. Old ones never do.
const ACK: Duration = Duration::from_secs(2);
/// Most time for a server to read a stream to its end.
const DELIVERY: Duration = Duration::from_secs(10);
/// Time beyond that of the test in which a server may still send.
const SLOP: Duration = Duration::from_secs(2);
/// Silence after which no more datagrams are expected.
const QUIET_NS: u64 = 200_000_000;
/// The same where an amount ends the test.
const AMOUNT_QUIET: Duration = Duration::from_secs(5);
/// Silence of a server that is to send a stream, after which it is not there.
const SILENCE: Duration = Duration::from_secs(10);
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
    let test = test(config, plan, stop, observe);
    crate::run_test(config, "a test with iperf2 has no commands", test)
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
    /// Ends of received datagrams, by flow.
    endings: Vec<(u32, Arc<Ending>)>,
    addresses: Vec<FlowAddresses>,
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
    let Opened { peer, specs, end, mut streams, senders, requests, endings, addresses } = opened;
    let family = crate::family(peer);
    observe(Event::Addresses(addresses));
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
        endings: &endings,
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
    let end = End::new(workers, &counted(plan), true).with_host(peer.ip(), plan.device.as_deref());
    let mut opened = Opened {
        peer,
        end: end.with_prefix(&header.datagram_bytes()),
        streams: vec![],
        senders: vec![],
        requests: vec![],
        endings: vec![],
        addresses: vec![],
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
        if opened.addresses.first().is_some_and(|first| first.flow == spec.id) {
            let local = opened.addresses[0].local;
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
        self.know(&[Some(spec), back], socket.local_addr());
        let prefix = header.datagram_bytes();
        let size = usize::try_from(spec.max_payload()).unwrap_or(0);
        let mut last = vec![0; size.max(codec::NUMBER_BYTES + prefix.len())];
        let at = match width {
            Width::Wide => codec::NUMBER_BYTES,
            Width::Narrow => codec::NARROW_BYTES,
        };
        last[at..at + prefix.len()].copy_from_slice(&prefix);
        if is_sent {
            let sender = Sender::new(spec, last, !header.wants_no_report);
            let to_receive = receiver.map(|_| socket.try_clone()).transpose();
            let to_receive =
                to_receive.map_err(|source| super::system("using a socket", source))?;
            // The receiver of the same socket reads all of it.
            let signals = receiver.is_none().then(|| sender.signals());
            self.end.datagrams(&settings::sent(spec), true, socket, signals);
            self.senders.push(sender);
            if let (Some(back), Some(socket)) = (receiver, to_receive) {
                let signals = Box::new(self.last_number(back, width));
                self.end.datagrams(back, false, socket, Some(signals));
            }
        } else {
            number(&mut last, width, 1);
            self.requests.push((spec.id, last));
            let signals = Box::new(self.last_number(spec, width));
            self.end.datagrams(spec, false, socket, Some(signals));
        }
        Ok(())
    }

    /// The addresses of the flows of a socket.
    fn know(&mut self, specs: &[Option<&FlowSpec>], local: std::io::Result<SocketAddr>) {
        let Ok(local) = local else { return };
        let remote = self.peer;
        self.addresses.extend(specs.iter().flatten().map(|spec| FlowAddresses {
            flow: spec.id,
            direction: spec.connection.direction,
            local,
            remote,
        }));
    }

    /// The end of datagrams that arrive here.
    fn last_number(&mut self, spec: &FlowSpec, width: Width) -> LastNumber {
        let ending = Arc::<Ending>::default();
        self.endings.push((spec.id, ending.clone()));
        LastNumber::new(width, ending)
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
        self.know(&[Some(spec), back], stream.local_addr());
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
    endings: &'a [(u32, Arc<Ending>)],
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
            FlowEvent::SenderEnded(flow) => {
                let ending = self.endings.iter().find(|(id, _)| *id == flow);
                let packets = ending.map_or(0, |(_, ending)| ending.sent());
                let (bytes, omitted_packets, end_ns) = (0, 0, None);
                let total = SenderTotal { flow, packets, bytes, omitted_packets, end_ns };
                self.end.expect(&total, QUIET_NS);
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
        let is_datagrams = self.specs.iter().any(|spec| spec.connection.transport.datagrams());
        let last_ns = self.end.last_arrival_ns();
        let lost = |reason: String| {
            let (address, during) = (peer.into(), "the test");
            Some(Over::Failed(TrafficError::Lost { address, during, reason }))
        };
        let silent = match last_ns {
            0 => begun.elapsed(),
            last_ns => Duration::from_nanos(self.workers.now_ns().saturating_sub(last_ns)),
        };
        let is_late = limit.is_none_or(|limit| Instant::now() > limit);
        match (is_datagrams, last_ns) {
            (false, _) if is_late && silent > SILENCE => {
                return lost(format!("nothing arrived for {} s", SILENCE.as_secs()));
            }
            (true, 0) if silent > PATIENCE => {
                return lost(format!("no datagrams from UDP port {}", peer.port()));
            }
            (true, 0) => {
                for (flow, datagram) in self.requests {
                    let _ = self.end.send_message(*flow, datagram);
                }
            }
            // The datagram that announces the end was lost.
            (true, _) if is_late && (limit.is_some() || silent > AMOUNT_QUIET) => {
                self.end.drain(QUIET_NS);
            }
            _ => {}
        }
        None
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
