//! The client of a test.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::plan::{FlowSpec, Plan, Shape};
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::record::Record;
use weir_model::report::EndReport;
use weir_model::units::Span;
use weir_traffic::session::{self, End, FlowEvent, SenderTotal, Workers};
use weir_traffic::{ClientConfig, Event, Failure, Stop, TrafficError};

use super::call_back::{CallBack, Listening};
use super::datagrams::{self, Ending};
use super::isochronous::{self, Isochronous};
use super::load::WorkingLoad;
use super::opening::{Opened, Opening, Part, open, width};
use super::senders::{AGAIN, PATIENCE, Sender, far, reported};
use super::settings;
use crate::ending::{Over, nominal, stopped};
use crate::serving::sends;
use crate::sessions::counted;
use crate::shown::Shown;

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
    run_with(config, &Extras::default(), stop, observe)
}

/// What only a client of iperf2 asks for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Extras {
    /// The server sends on connections of its own to this end; the plan has a forward and a reverse connection.
    pub call_back: Option<CallBack>,
    /// How long the server waits before each response of a test of round trips, µs.
    pub hold_us: u32,
    /// The server may delay acknowledgements of such a test.
    pub no_quick_ack: bool,
    /// Frames are sent, whose sizes vary; absent: the plan's writes or datagrams.
    pub isochronous: Option<Isochronous>,
    /// Streams alongside a test of round trips.
    pub load: Option<WorkingLoad>,
}

/// Runs a test with iperf2's protocol.
///
/// # Errors
/// [`Failure`] with the reason and what had been measured until then.
pub fn run_with(
    config: &ClientConfig,
    extras: &Extras,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let mut plan = settings::prepared(config)?;
    settings::check_extras(&plan, extras)?;
    if let Some(load) = extras.load {
        load.add(&mut plan)?;
    }
    let is_datagrams = plan.connections[0].transport.datagrams();
    if let Some(isochronous) = extras.isochronous.filter(|_| !is_datagrams) {
        isochronous.stream(&mut plan)?;
    }
    let test = test(config, (plan, extras), stop, observe);
    crate::run_test(config, "a test with iperf2 has no commands", test)
}

async fn test(
    config: &ClientConfig,
    (mut plan, extras): (Plan, &Extras),
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let workers = Workers::start(&config.into())?;
    let supply = isochronous::prepared(&mut plan, extras)?;
    let opening = Opening { config, plan: &plan, extras, supply, workers: &workers };
    let opened = tokio::select! {
        opened = open(&opening, observe) => opened?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    let Opened { peer, mut specs, part, listening } = opened;
    let family = crate::family(peer);
    observe(Event::Addresses(part.addresses.clone()));
    observe(Event::Started { specs: specs.clone(), family });
    // Those that have begun because the server was to connect back have a single sender.
    if part.senders.len() > 1 {
        for sender in &part.senders {
            sender.begin(&part.end);
            tokio::time::sleep(ONE_AFTER_THE_OTHER).await;
        }
    }
    // What the server sent before is a part of the test.
    let first_ns = part.early.iter().map(|(_, _, arrival)| arrival.at_ns).min();
    let now_ns = workers.now_ns();
    let intervals = IntervalClock {
        start_ns: first_ns.map_or(now_ns, |first| first.min(now_ns)),
        interval_ns: plan.interval.0,
        omit_ns: 0,
    };
    let mut test = Test {
        workers: &workers,
        peer,
        shown: Shown::new(intervals),
        stop,
        observe: &mut *observe,
    };
    let (mut over, mut near, far) = test.run(part, intervals).await;
    if matches!(over, Over::Complete)
        && let Some(listening) = listening
    {
        let part = Part::new(End::new(&workers, &counted(&plan), true), peer);
        let after = Span(workers.now_ns().saturating_sub(intervals.start_ns));
        over = test.called((&listening, part), &plan, (&mut specs, after), &mut near).await;
    }
    let shown = test.shown.count;
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

/// A client's test whose sockets are open.
struct Test<'a> {
    workers: &'a Workers,
    peer: SocketAddr,
    shown: Shown,
    stop: &'a Stop,
    observe: &'a mut dyn FnMut(Event),
}

impl Test<'_> {
    /// Runs flows to their end; returns this end's report, and what the server reported.
    async fn run(
        &mut self,
        part: Part,
        intervals: IntervalClock,
    ) -> (Over, EndReport, Option<EndReport>) {
        let Part { mut end, specs, mut streams, senders, requests, endings, early, called, .. } =
            part;
        let (is_called, header_bytes) = (part.is_called, part.header_bytes);
        let streams_sent = |spec: &&FlowSpec| {
            let connection = &spec.connection;
            let is_stream = connection.shape == Shape::Stream;
            sends(spec) && is_stream && !connection.transport.datagrams()
        };
        for spec in specs.iter().filter(streams_sent) {
            // The header is a part of the stream, and of its limit.
            end.sent_by_protocol(spec.id, 0, header_bytes);
        }
        // What arrived on another socket before comes first.
        for (spec, socket, signals) in called {
            end.datagrams(&spec, false, socket, Some(Box::new(signals)));
        }
        end.start(intervals);
        for (flow, bytes, arrival) in &early {
            end.deliver(*flow, bytes, *arrival);
            let spec = specs.iter().find(|spec| spec.id == *flow);
            let number = spec.and_then(|spec| width(spec).number(bytes));
            if number.is_some_and(|number| number < 0) {
                end.drain(QUIET_NS);
            }
        }
        let of = |forward: bool| {
            let flows = specs.iter().filter(|spec| sends(spec) == forward);
            flows.map(|spec| spec.id).collect::<HashSet<u32>>()
        };
        let mut running = Running {
            workers: self.workers,
            end: &end,
            specs: &specs,
            shown: &mut self.shown,
            receiving: of(false),
            sending: of(true),
            senders: &senders,
            requests: &requests,
            endings: &endings,
        };
        let over = running.run(self.peer, self.stop, self.observe).await;
        if !matches!(over, Over::Complete) {
            running.settle(self.observe).await;
            return (over, end.finish(), far(&senders));
        }
        let finishing = async {
            // A server of iperf closes what has loaded the path only when the round trips are over.
            let bounces = specs.iter().filter(|spec| spec.connection.shape != Shape::Stream);
            bounces.for_each(|spec| end.half_close(spec.id));
            deliver(&end, &mut streams, &specs).await;
            let near = is_called.then(|| end.report());
            let now_ns = self.workers.now_ns();
            for (flow, ending) in &endings {
                let report = near.as_ref().and_then(|near| datagrams::report(near, *flow));
                report.iter().for_each(|report| ending.answer(&end, *flow, now_ns, report));
            }
            let over = reported(&end, &senders, self.peer).await;
            if near.is_some() {
                for (_, ending) in &endings {
                    ending.settled(self.workers, self.stop).await;
                }
            }
            (over, near)
        };
        let (over, near) = tokio::select! {
            finished = finishing => finished,
            reason = self.stop.asked(1) => (Over::Stopped(reason), None),
        };
        (over, near.unwrap_or_else(|| end.finish()), far(&senders))
    }

    /// Receives what the server sends once this end has sent, and adds it to this end's report. `after`: the time since the start
    /// of the test.
    async fn called(
        &mut self,
        (listening, mut part): (&Listening, Part),
        plan: &Plan,
        (specs, after): (&mut [FlowSpec], Span),
        near: &mut EndReport,
    ) -> Over {
        for spec in specs.iter_mut().filter(|spec| !sends(spec)) {
            spec.connection.start_after = after;
            let called = tokio::select! {
                called = part.called(listening, plan, spec, self.workers) => called,
                reason = self.stop.asked(1) => return Over::Stopped(reason),
            };
            if let Err(error) = called {
                return Over::Failed(error);
            }
        }
        (self.observe)(Event::Addresses(part.addresses.clone()));
        let (over, report, _) = self.run(part, self.shown.intervals).await;
        near.flows.extend(report.flows);
        near.warnings.extend(report.warnings);
        // That of the first part is not that of the test.
        near.cpu = None;
        over
    }
}

/// A test whose data flows.
struct Running<'a> {
    workers: &'a Workers,
    end: &'a End,
    specs: &'a [FlowSpec],
    shown: &'a mut Shown,
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
