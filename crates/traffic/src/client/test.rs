//! One test from beginning to end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_flow::assemble::{Parts, assemble, interval};
use weir_flow::{IntervalClock, SenderClock};
use weir_model::plan::{Direction, Family, FlowSpec, Transport};
use weir_model::record::{ClockRelation, Interval, IntervalCount, Latency, Record, Status};
use weir_model::report::{EndReport, FlowReport};
use weir_model::warning::{Severity, Warning};
use weir_net::reference::ReferenceReader;
use weir_wire::control::{
    ClientMessage, ClockReference, ClockState, Open, Opened, SenderTotal, ServerMessage,
};

use super::commands::{self, Asked, FlowState, Reply, Request};
use super::connect::{self, Connected, refused};
use super::latency::{IDLE_PROBES, Probes};
use super::setup::{HELLO_PATIENCE_NS, Setup};
use super::{ClientConfig, Event, Failure};
use crate::channel::{ChannelError, Meter, Writer, clean};
use crate::engine::{Engine, FlowEvent, check_scheduling, lock};
use crate::flows::{Flow, SessionFacts};
use crate::reference::{self, Choice};
use crate::stop::{Stop, StopReason};
use crate::{START_NS, TrafficError, clock_identity, host};

/// A sign of life goes to the server this often; it answers.
const ALIVE: Duration = Duration::from_secs(2);
/// A server of which nothing is heard for this long is gone, even if nothing says so: a path or an interface may be.
const SILENCE: Duration = Duration::from_secs(12);
/// Most bytes of a server's report.
const REPORT_BYTES: u64 = 1 << 30;

/// An interval is shown this long after its end, or when the other side's figures have come.
const SHOW_NS: u64 = 150_000_000;
/// The clocks are related anew after this time, then after twice as long each time, at last after that: probes over a
/// short time say little of the skew, so that the first relations don't hold for long.
const CLOCK_FIRST: Duration = Duration::from_millis(100);
const CLOCK_LAST: Duration = Duration::from_secs(1);
/// Once everything should have ended, this long is waited for the other side beside its own waiting.
const GRACE: Duration = Duration::from_secs(12);
/// Loss threshold when none is asked for (RFC 7680 leaves it to us): at least this.
const LOSS_THRESHOLD_NS: u64 = 2_000_000_000;

/// How the running part ended.
struct Ended {
    status: Status,
    reason: String,
    error: Option<TrafficError>,
}

struct Test<'a> {
    config: &'a ClientConfig,
    engine: Arc<Engine>,
    meter: Meter,
    writer: Writer,
    remote: std::net::SocketAddr,
    specs: Vec<FlowSpec>,
    family: Family,
    flows: Vec<Arc<Flow>>,
    facts: SessionFacts,
    shared_clock: bool,
    udp_port: u16,
    probes: Option<Probes>,
    /// Flows whose sender / receiver has ended.
    sender_done: HashMap<u32, SenderTotal>,
    receiver_done: std::collections::HashSet<u32>,
    failed: HashMap<u32, String>,
    /// Flows that were started by themselves or by the control socket.
    started: std::collections::HashSet<u32>,
    live: HashMap<usize, HashMap<u32, IntervalCount>>,
    /// This end's own reference for its clock, and what the other end says of its.
    references: Option<ReferenceReader>,
    remote_reference: Option<ClockReference>,
    /// The relation with the greatest bound that was used; with the services' names when it was theirs.
    worst_clock: Option<(ClockState, Option<String>)>,
    warnings: Vec<Warning>,
}

/// Runs it.
pub(super) async fn run(
    config: ClientConfig,
    stop: Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    check_scheduling(config.scheduling)?;
    let meter = Meter::default();
    let stopped = |reason: StopReason| TrafficError::Stopped(reason.text(), reason.exit_code());
    // Refused before anything is sent: a path that can't be used.
    let (requests, mut asked) = mpsc::unbounded_channel();
    let _socket =
        config.control_socket.as_ref().map(|path| commands::listen(path, requests)).transpose()?;
    for name in config.plan.connections.iter().filter_map(|c| c.congestion.as_deref()) {
        host::congestion_control(name).map_err(|reason| TrafficError::Unavailable {
            what: format!("congestion control {name}"),
            reason,
        })?;
    }
    let log = config.packet_log.as_ref().map(|p| crate::log::open(p)).transpose()?;
    let mut connected = tokio::select! {
        connected = connect::connect(&config, &meter) => connected?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    let family = if connected.remote.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
    observe(Event::Connected { local: connected.local, remote: connected.remote });
    let path_mtu_bytes = host::path_mtu(connected.remote.ip());
    let specs = config.plan.flows(family, path_mtu_bytes);
    let mtu = host::least_path_mtu(connected.remote);
    if let Some(refusal) = host::oversized(specs.iter(), family, mtu) {
        let host::Oversized { payload_bytes, most, path_mtu_bytes } = refusal;
        return Err(TrafficError::Input {
            what: "--dont-fragment",
            given: format!("datagrams of {payload_bytes} bytes (-l/--length)"),
            accepted: format!(
                "up to {most} bytes, since the path takes packets of {path_mtu_bytes} bytes"
            ),
        }
        .into());
    }
    let loss_threshold_ns = config.plan.loss_threshold.map_or(LOSS_THRESHOLD_NS, |t| t.0);
    let request = Open {
        plan: config.plan.clone(),
        family,
        path_mtu_bytes,
        loss_threshold_ns,
        live: config.plan.interval.0 > 0,
    };
    let asked_at = Instant::now();
    let opened = tokio::select! {
        opened = connect::open(&mut connected, request) => opened?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    let patience_ns = probe_patience_ns(asked_at.elapsed());
    let facts =
        facts(&config, &opened, loss_threshold_ns).ok_or_else(|| TrafficError::Protocol {
            address: connected.remote,
            reason: "a session without usable keys".into(),
        })?;

    let _ = weir_net::thread::raise_descriptor_limit(65_536);
    let count = config
        .cpus
        .as_ref()
        .map_or_else(|| weir_net::thread::allowed_cpus().map_or(1, |c| c.len()), Vec::len);
    let engine = Arc::new(Engine::new(
        count,
        config.cpus.as_deref(),
        config.scheduling,
        config.clock.clone(),
    )?);
    let (events, mut flow_events) = mpsc::unbounded_channel();

    let shared_clock = clock_identity(&config.clock).is_same_clock(&connected.server.clock);
    // Setting up waits for the network: on a thread of its own, so that a signal is heard meanwhile.
    let (flows, probes, references) = {
        let (plan, opened, engine) = (config.plan.clone(), opened.clone(), engine.clone());
        let (server, events, log) = (connected.remote, events.clone(), log.clone());
        let timeout = u64::try_from(config.connect_timeout.as_nanos()).unwrap_or(u64::MAX);
        let (clock, meter) = (config.clock.clone(), meter.clone());
        let (specs, has_udp) =
            (specs.clone(), specs.iter().any(|s| s.connection.transport == Transport::Udp));
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let setup = Setup {
                plan: &plan,
                facts,
                opened: &opened,
                server,
                engine: &engine,
                events: &events,
                connect_timeout_ns: timeout,
                log,
            };
            // Streams need no datagrams: where these are blocked, the test does not wait for long.
            let probe = |patience| {
                Probes::start(&plan, facts, server, clock.clone(), meter.clone(), patience)
            };
            let (flows, probes) = if has_udp {
                let flows = setup.flows(&specs);
                let probes = flows.is_ok().then(|| probe(HELLO_PATIENCE_NS)).flatten();
                (flows, probes)
            } else {
                std::thread::scope(|scope| {
                    let probes = plan.latency.then(|| scope.spawn(|| probe(patience_ns)));
                    let flows = setup.flows(&specs);
                    (flows, probes.and_then(|p| p.join().ok().flatten()))
                })
            };
            // Its answer is held against the probes': without these it is not used.
            let references =
                (probes.is_some() && !shared_clock).then(|| ReferenceReader::open(engine.clock()));
            let _ = sender.send((flows, probes, references));
        });
        tokio::select! {
            outcome = receiver => match outcome {
                Ok((flows, probes, references)) => (flows?, probes, references),
                Err(_) => return Err(TrafficError::system("setting up", std::io::Error::other("the thread ended")).into()),
            },
            reason = stop.asked(1) => return Err(stopped(reason).into()),
        }
    };
    let Connected { mut reader, writer, server: _, local: _, remote } = connected;
    let mut test = Test {
        config: &config,
        engine: engine.clone(),
        meter,
        writer,
        remote,
        specs,
        family,
        flows,
        facts,
        shared_clock,
        udp_port: opened.udp_port,
        probes,
        sender_done: HashMap::new(),
        receiver_done: Default::default(),
        failed: HashMap::new(),
        started: Default::default(),
        live: HashMap::new(),
        references,
        remote_reference: None,
        worst_clock: None,
        warnings: vec![],
    };
    let before = host::before(remote.ip(), config.plan.device.as_deref(), &config.clock);
    let notes_before = engine.notes().len();

    let mut asked_reference = test.own_reference().is_some();
    if asked_reference {
        test.probe_control().await?;
    }
    let mut remote_reference = None;
    // The server tells of each data connection when it has it; nothing starts before.
    let ready = async {
        let mut missing: std::collections::HashSet<u32> = test.specs.iter().map(|s| s.id).collect();
        while !missing.is_empty() || asked_reference {
            match reader.read::<ServerMessage>().await {
                Ok(ServerMessage::FlowReady { flow }) => {
                    missing.remove(&flow);
                }
                Ok(ServerMessage::ProbeReply { reference, .. }) => {
                    asked_reference = false;
                    remote_reference = reference;
                }
                Ok(ServerMessage::Refused { code, text }) => {
                    return Err(refused(remote, &code, &text));
                }
                Ok(_) => {}
                Err(e) => return Err(lost(remote, "setting up", &e)),
            }
        }
        Ok(())
    };
    tokio::select! {
        ready = tokio::time::timeout(Duration::from_secs(5), ready) => match ready {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(e.into()),
            Err(_) => return Err(TrafficError::Lost { address: remote, during: "setting up", reason: "it does not confirm the data connections (an address translator or a firewall between?)".into() }.into()),
        },
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    }

    test.remote_reference = remote_reference;
    // Told first: the probes of the idle path take a tenth of a second, and far more on a long one.
    observe(Event::Started { specs: test.specs.clone(), family });
    test.idle_probes(&stop).await.map_err(|r| Failure::from(stopped(r)))?;
    let mut shown = 0;
    let ended =
        test.play(&mut reader, &mut flow_events, &mut asked, &stop, observe, &mut shown).await;
    let (record, error) =
        test.finish(&mut reader, ended, shown, &before, notes_before, &stop).await;
    // The last intervals, with both ends' figures.
    for interval in record.intervals.iter().skip(shown) {
        observe(Event::Interval(Box::new(interval.clone())));
    }
    // Without a log that was asked for the test is done, but a result is missing.
    let error = error.or(log.and_then(|log| lock(&log).flush().err()));
    match error {
        None => Ok(record),
        Some(error) => Err(Failure { error, partial: Some(Box::new(record)) }),
    }
}

/// The other side's sum of what it received in an interval, where it told no more.
fn set_received(interval: &mut Interval, mut sum: IntervalCount) {
    let seconds = interval.end_seconds - interval.start_seconds;
    let per_second = |n: u64| (seconds > 0.0).then(|| n as f64 / seconds);
    sum.bits_per_second = per_second(sum.bytes).map(|rate| 8.0 * rate);
    sum.packets_per_second = per_second(sum.packets);
    if let Some(ends) = &mut interval.total.forward {
        ends.receiver.get_or_insert(sum);
    }
}

/// How long a test of streams alone waits for the answer to a probe's hello, when a question over TCP took
/// `round_trip`: three hellos at least, and more on a long path.
fn probe_patience_ns(round_trip: Duration) -> u64 {
    let longer = u64::try_from((8 * round_trip).as_nanos()).unwrap_or(u64::MAX);
    longer.clamp(300_000_000, HELLO_PATIENCE_NS)
}

/// The session's secrets as the server gave them.
fn facts(config: &ClientConfig, opened: &Opened, loss_threshold_ns: u64) -> Option<SessionFacts> {
    let secret = |text: &str| crate::key::from_hex(text)?.try_into().ok();
    Some(SessionFacts {
        session: opened.session,
        key: secret(&opened.key)?,
        token_secret: secret(&opened.token_secret)?,
        seed: config.plan.seed.0,
        omit_ns: config.plan.omit.0,
        loss_threshold_ns,
    })
}

fn lost(address: std::net::SocketAddr, during: &'static str, e: &ChannelError) -> TrafficError {
    TrafficError::Lost { address, during, reason: e.to_string() }
}

impl Test<'_> {
    async fn send(&mut self, message: &ClientMessage) -> Result<(), TrafficError> {
        let writing = self.writer.write(message);
        match tokio::time::timeout(Duration::from_secs(10), writing).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(lost(self.remote, "the test", &e)),
            Err(_) => Err(lost(self.remote, "the test", &ChannelError::Closed)),
        }
    }

    /// Waits for the probes of the idle path: the idle round trip, and the clocks' first relation.
    async fn idle_probes(&self, stop: &Stop) -> Result<(), StopReason> {
        let Some(probes) = &self.probes else { return Ok(()) };
        let begun = Instant::now();
        // A long path answers late: up to 2 s.
        while probes.answered() < IDLE_PROBES && begun.elapsed() < Duration::from_secs(2) {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
                reason = stop.asked(1) => return Err(reason),
            }
        }
        probes.load();
        Ok(())
    }

    /// What this end's time service promises; none without probes to hold it against.
    fn own_reference(&self) -> Option<ClockReference> {
        reference::read(self.references.as_ref()?)
    }

    /// A sign of life, and a question for the other end's reference while this one has one.
    async fn probe_control(&mut self) -> Result<(), TrafficError> {
        let reference = self.own_reference().is_some();
        let t1_ns = self.engine.clock().monotonic_ns();
        self.send(&ClientMessage::Probe { t1_ns, reference }).await
    }

    /// The clocks' relation now, by probes.
    fn clock_state(&self) -> Option<ClockState> {
        self.clock_state_for(Duration::ZERO)
    }

    /// The relation to be used until `valid` from now, and the services' names when it is theirs.
    fn related(&mut self, valid: Duration) -> Option<(ClockState, Option<String>)> {
        let probes = self.clock_state_for(valid)?;
        let ends = self.own_reference().filter(|_| !self.shared_clock);
        let Some((own, other)) = ends.zip(self.remote_reference.as_ref()) else {
            return Some((probes, None));
        };
        let until_ns = probes.reference_ns.saturating_add(valid.as_nanos() as u64);
        let by_services = reference::relation(&own, other, probes.reference_ns, until_ns);
        match (reference::choose(&probes, by_services.as_ref()), by_services) {
            (Choice::References, Some(state)) => Some((state, Some(reference::names(&own, other)))),
            (Choice::Contradiction, Some(state)) => {
                let by = (state.offset_ns as f64 - probes.offset_ns as f64) / 1e9;
                let text = format!(
                    "{} at both ends relates the clocks {by:.6} s beside the probes, further than both bounds allow: a time service is wrong, and is not used",
                    reference::names(&own, other)
                );
                let bound = (state.error_ns as f64 + probes.error_ns as f64) / 1e9;
                self.warnings.push(
                    Warning::new("clock-reference", Severity::Warning, text).with_value(by, bound),
                );
                self.references = None;
                Some((probes, None))
            }
            _ => Some((probes, None)),
        }
    }

    /// The same with a bound that holds for packets that arrive within `valid` from now.
    fn clock_state_for(&self, valid: Duration) -> Option<ClockState> {
        let now = self.engine.clock().monotonic_ns();
        if self.shared_clock {
            let error_ns = weir_net::clock::monotonic_resolution_ns();
            return Some(ClockState { offset_ns: 0, skew_ppb: 0, reference_ns: now, error_ns });
        }
        self.probes.as_ref()?.clock_state(now, now + valid.as_nanos() as u64)
    }

    /// Tells both sides' receivers how the clocks relate, until they are told anew after `period`.
    async fn relate_clocks(&mut self, period: Duration) -> Result<(), TrafficError> {
        // Half as long again: the next word may be late, and has to travel.
        let valid = period + period / 2;
        let Some((state, services)) = self.related(valid) else { return Ok(()) };
        if self.worst_clock.as_ref().is_none_or(|(worst, _)| worst.error_ns <= state.error_ns) {
            self.worst_clock = Some((state, services));
        }
        let now = self.engine.clock().monotonic_ns();
        let server = SenderClock {
            offset_ns: state.offset_at_client(now),
            skew_ppb: state.skew_ppb,
            reference_ns: now,
            error_ns: state.error_ns,
        };
        for flow in &self.flows {
            flow.set_clock(server);
        }
        self.send(&ClientMessage::Clock(state)).await
    }

    /// From time zero to the end of the last flow.
    async fn play(
        &mut self,
        reader: &mut crate::channel::Reader,
        flow_events: &mut mpsc::UnboundedReceiver<FlowEvent>,
        asked: &mut mpsc::UnboundedReceiver<Asked>,
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
        shown: &mut usize,
    ) -> (Ended, IntervalClock) {
        let clock = self.engine.clock().clone();
        let now = clock.monotonic_ns();
        let start_ns = now + START_NS;
        let intervals = IntervalClock {
            start_ns,
            interval_ns: self.config.plan.interval.0,
            omit_ns: self.config.plan.omit.0,
        };
        let done = |status, reason: &str| Ended { status, reason: reason.into(), error: None };
        let fail = |error: TrafficError| Ended {
            status: Status::Partial,
            reason: error.to_string(),
            error: Some(error),
        };
        if let Err(e) = self.relate_clocks(CLOCK_FIRST).await {
            return (fail(e), intervals);
        }
        let at_ns =
            self.clock_state().map_or(0, |s| start_ns.wrapping_add_signed(s.offset_at_client(now)));
        for flow in &self.flows {
            flow.begin_intervals(intervals);
        }
        if let Err(e) = self.send(&ClientMessage::Start { at_ns }).await {
            return (fail(e), intervals);
        }
        for flow in self.flows.iter().filter(|f| f.sends() && f.spec.connection.autostart) {
            let at = start_ns.saturating_add(flow.spec.connection.start_after.0);
            flow.start(&self.engine, at, intervals);
        }
        let autostarted = self.specs.iter().filter(|s| s.connection.autostart).map(|s| s.id);
        self.started.extend(autostarted);
        let mut next_alive = Instant::now() + ALIVE;
        let mut heard = Instant::now();
        let mut clock_period = CLOCK_FIRST;
        let mut next_clock = Instant::now() + clock_period;
        let mut interrupted: Option<StopReason> = None;
        let mut give_up: Option<Instant> = None;
        loop {
            if self.is_over() {
                let ended = match (interrupted, self.failed_in_words()) {
                    (Some(reason), _) => done(Status::Interrupted, reason.text()),
                    (None, Some(words)) => done(Status::Partial, &words),
                    (None, None) => done(Status::Complete, "all flows ended"),
                };
                return (ended, intervals);
            }
            // Once no sender is left, the rest must come within the other side's own limits.
            if give_up.is_none() && self.senders_over() {
                give_up = Some(
                    Instant::now() + Duration::from_nanos(self.facts.loss_threshold_ns) + GRACE,
                );
            }
            let over = self.senders_over();
            let show_at = intervals.end_ns(*shown).filter(|_| !over).map(|end| {
                // First when its remainder is over, then when the other side's figures are late.
                let now = clock.monotonic_ns();
                let tail = end + intervals.tail_ns();
                let due = if now < tail { tail } else { end + SHOW_NS };
                let wait = due.saturating_sub(now);
                Instant::now() + Duration::from_nanos(wait)
            });
            let show_due = async {
                match show_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let give_up_due = async {
                match give_up {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                reason = stop.asked(if interrupted.is_some() { 2 } else { 1 }) => {
                    if interrupted.is_some() {
                        return (done(Status::Interrupted, reason.text()), intervals);
                    }
                    interrupted = Some(reason);
                    for flow in &self.flows {
                        flow.stop(&self.engine);
                    }
                    if let Err(e) = self.send(&ClientMessage::StopFlow { flow: None }).await {
                        return (fail(e), intervals);
                    }
                    // Flows that were never started will not end.
                    for spec in &self.specs {
                        if !self.started.contains(&spec.id) && !self.sender_done.contains_key(&spec.id) {
                            self.receiver_done.insert(spec.id);
                            self.sender_done.entry(spec.id).or_insert(SenderTotal { flow: spec.id, packets: 0, bytes: 0 });
                        }
                    }
                }
                message = reader.read::<ServerMessage>() => match message {
                    Ok(message) => {
                        heard = Instant::now();
                        if let Err(e) = self.heard(message, &clock) {
                            return (fail(e), intervals);
                        }
                        self.show(shown, &intervals, clock.monotonic_ns(), observe);
                    }
                    Err(e) => {
                        for flow in &self.flows {
                            flow.stop(&self.engine);
                        }
                        return (fail(lost(self.remote, "the test", &e)), intervals);
                    }
                },
                Some(event) = flow_events.recv() => {
                    if let Err(e) = self.happened(event).await {
                        return (fail(e), intervals);
                    }
                }
                Some((request, reply)) = asked.recv() => {
                    let answer = self.command(&request, intervals).await;
                    let _ = reply.send(answer);
                }
                () = show_due => {
                    let now = clock.monotonic_ns();
                    self.show(shown, &intervals, now, observe);
                }
                () = tokio::time::sleep_until(next_clock) => {
                    clock_period = (clock_period * 2).min(CLOCK_LAST);
                    next_clock += clock_period;
                    if !self.shared_clock && let Err(e) = self.relate_clocks(clock_period).await {
                        return (fail(e), intervals);
                    }
                }
                () = tokio::time::sleep_until(next_alive) => {
                    next_alive = Instant::now() + ALIVE;
                    if let Err(e) = self.probe_control().await {
                        return (fail(e), intervals);
                    }
                }
                () = tokio::time::sleep_until(heard + SILENCE) => {
                    for flow in &self.flows {
                        flow.stop(&self.engine);
                    }
                    return (fail(self.silent("the test")), intervals);
                }
                () = give_up_due => {
                    let missing: Vec<u32> = self.specs.iter().map(|s| s.id).filter(|id| !self.receiver_done.contains(id)).collect();
                    self.warnings.push(Warning::new("not-drained", Severity::Warning, format!("{} flows had not been accounted for when waiting ended (first: flow {})", missing.len(), missing.first().copied().unwrap_or(0))));
                    return (done(Status::Complete, "waiting for the rest ended"), intervals);
                }
            }
        }
    }

    /// Nothing came for too long.
    fn silent(&self, during: &'static str) -> TrafficError {
        let reason = format!("nothing was heard of it for {} s", SILENCE.as_secs());
        TrafficError::Lost { address: self.remote, during, reason }
    }

    /// The first flow that failed.
    fn first_failed(&self) -> Option<TrafficError> {
        let (&flow, reason) = self.failed.iter().min_by_key(|f| f.0)?;
        let name = self.flow(flow).map(|f| f.spec.name.clone()).unwrap_or_default();
        Some(TrafficError::Flow { flow, name, reason: reason.clone() })
    }

    fn failed_in_words(&self) -> Option<String> {
        self.first_failed().map(|e| e.to_string())
    }

    fn is_ended(&self, id: u32) -> bool {
        self.failed.contains_key(&id)
            || (self.sender_done.contains_key(&id) && self.receiver_done.contains(&id))
    }

    fn is_over(&self) -> bool {
        self.specs.iter().all(|s| self.is_ended(s.id))
    }

    fn senders_over(&self) -> bool {
        self.specs
            .iter()
            .all(|s| self.failed.contains_key(&s.id) || self.sender_done.contains_key(&s.id))
    }

    fn flow(&self, id: u32) -> Option<&Arc<Flow>> {
        // Flows are sorted by id, which count from 1.
        self.flows.get(id.checked_sub(1)? as usize)
    }

    /// A message from the server.
    fn heard(
        &mut self,
        message: ServerMessage,
        clock: &weir_net::clock::Clock,
    ) -> Result<(), TrafficError> {
        match message {
            ServerMessage::SenderDone(total) => {
                if let Some(flow) = self.flow(total.flow) {
                    let wait = match flow.transport() {
                        Transport::Udp => self.facts.loss_threshold_ns,
                        Transport::Tcp => self.facts.loss_threshold_ns.max(10_000_000_000),
                    };
                    flow.sender_done(
                        &self.engine,
                        total.packets,
                        total.bytes,
                        clock.monotonic_ns() + wait,
                    );
                    self.sender_done.insert(total.flow, total);
                }
            }
            ServerMessage::ReceiverDone { flow } if self.flow(flow).is_some() => {
                self.receiver_done.insert(flow);
            }
            ServerMessage::Live { interval, flows } => {
                let most = self.specs.len() as u32;
                let kept = self.live.entry(interval as usize).or_default();
                kept.extend(flows.into_iter().filter(|(id, _)| *id <= most));
                // 0 is the sum of what the server received, where each flow's part would be too much traffic.
                // Only the last few are ever shown.
                self.live.retain(|i, _| *i + 8 > interval as usize);
            }
            // Once for each flow that there is: the peer decides how often it says so.
            ServerMessage::FlowFailed { flow, text }
                if self.flow(flow).is_some() && !self.failed.contains_key(&flow) =>
            {
                let text = clean(&text);
                self.warnings.push(
                    Warning::new("flow-failed", Severity::Error, format!("the other side: {text}"))
                        .for_flow(flow),
                );
                self.failed.insert(flow, text);
            }
            // Kept for as long as its bound, which grows, is of use.
            ServerMessage::ProbeReply { reference: Some(reference), .. } => {
                self.remote_reference = Some(reference);
            }
            ServerMessage::Refused { code, text } => {
                return Err(refused(self.remote, &code, &text));
            }
            _ => {}
        }
        Ok(())
    }

    /// Something that a worker tells.
    async fn happened(&mut self, event: FlowEvent) -> Result<(), TrafficError> {
        match event {
            FlowEvent::SenderDone(total) => {
                self.sender_done.insert(total.flow, total);
                self.send(&ClientMessage::SenderDone(total)).await?;
            }
            FlowEvent::ReceiverDone(flow) => {
                self.receiver_done.insert(flow);
            }
            FlowEvent::Failed(flow, text) => {
                if let Some(f) = self.flow(flow) {
                    f.fail(text.clone());
                }
                self.warnings.push(
                    Warning::new("flow-failed", Severity::Error, text.clone()).for_flow(flow),
                );
                self.failed.insert(flow, text);
            }
            FlowEvent::Ready(_) => {}
        }
        Ok(())
    }

    /// Shows the intervals that have ended, each when the other side's figures are there or it is late for them.
    fn show(
        &mut self,
        shown: &mut usize,
        intervals: &IntervalClock,
        now: u64,
        observe: &mut dyn FnMut(Event),
    ) {
        while let Some(end) = intervals.end_ns(*shown) {
            // What ends shortly after a boundary belongs to the interval before it: it may not be over yet.
            if now < end + intervals.tail_ns() {
                return;
            }
            let index = *shown;
            let remote = self.live.get(&index);
            if now < end + SHOW_NS && remote.is_none() {
                return;
            }
            let counts: Vec<_> = self
                .specs
                .iter()
                .zip(&self.flows)
                .map(|(spec, flow)| {
                    let here = flow.interval(index);
                    let there = remote.and_then(|r| r.get(&spec.id).cloned());
                    match spec.connection.direction {
                        Direction::Forward => (spec.id, Direction::Forward, here, there),
                        Direction::Reverse => (spec.id, Direction::Reverse, there, here),
                    }
                })
                .collect();
            // Once the senders have ended, the rest is shown from the reports, with both ends' figures.
            if self.senders_over() {
                return;
            }
            let mut shown_now = interval(intervals, index, None, counts.into_iter());
            if let Some(sum) = remote.and_then(|r| r.get(&0)) {
                set_received(&mut shown_now, sum.clone());
            }
            observe(Event::Interval(Box::new(shown_now)));
            *shown += 1;
            self.live.remove(&index);
        }
    }

    /// A request on the control socket.
    async fn command(&mut self, request: &Request, intervals: IntervalClock) -> Reply {
        let named: Vec<FlowSpec> = self
            .specs
            .iter()
            .filter(|s| {
                // By name, or by the number that the text shows in front of each line.
                request.connection.as_ref().is_none_or(|n| {
                    *n == s.name || *n == s.connection.name || *n == s.id.to_string()
                })
            })
            .cloned()
            .collect();
        if named.is_empty() {
            let names: Vec<&str> = self.specs.iter().take(20).map(|s| s.name.as_str()).collect();
            return Reply::error(format!(
                "connection: {}; accepted: {}",
                request.connection.as_deref().unwrap_or(""),
                names.join(", ")
            ));
        }
        let now = self.engine.clock().monotonic_ns();
        for spec in &named {
            let Some(flow) = self.flow(spec.id).cloned() else { continue };
            let sent = match request.verb.as_str() {
                "status" => Ok(()),
                "start" if flow.sends() => {
                    self.started.insert(spec.id);
                    flow.start(&self.engine, now, intervals);
                    Ok(())
                }
                "stop" if flow.sends() => {
                    flow.stop(&self.engine);
                    Ok(())
                }
                "start" if self.started.insert(spec.id) => {
                    self.send(&ClientMessage::StartFlow { flow: spec.id }).await
                }
                "start" => Ok(()),
                "stop" => self.send(&ClientMessage::StopFlow { flow: Some(spec.id) }).await,
                other => {
                    return Reply::error(format!("verb: {other}; accepted: start, stop, status"));
                }
            };
            if let Err(e) = sent {
                return Reply::error(e.to_string());
            }
        }
        let state = |id| {
            if self.is_ended(id) || self.sender_done.contains_key(&id) {
                "ended"
            } else if self.started.contains(&id) {
                "started"
            } else {
                "waiting"
            }
        };
        Reply {
            ok: true,
            flows: named
                .iter()
                .map(|s| FlowState { id: s.id, name: s.name.clone(), state: state(s.id).into() })
                .collect(),
            error: None,
        }
    }

    /// Exchanges reports and makes the record.
    async fn finish(
        mut self,
        reader: &mut crate::channel::Reader,
        (ended, intervals): (Ended, IntervalClock),
        intervals_shown: usize,
        before: &host::Before,
        notes_before: usize,
        stop: &Stop,
    ) -> (Record, Option<TrafficError>) {
        let clock = self.engine.clock().clone();
        let Ended { mut status, mut reason, mut error } = ended;
        // Both ends' processor time ends here: before the reports are made.
        let cpu = host::cpu(before, &clock);
        let mut remote = None;
        if error.is_none() {
            let exchange = self.exchange(reader);
            let outcome = tokio::select! {
                outcome = exchange => outcome,
                reason = stop.asked(2) => Err(TrafficError::Stopped(reason.text(), reason.exit_code())),
            };
            match outcome {
                Ok(report) => remote = Some(report),
                Err(e) => {
                    if status == Status::Complete {
                        status = Status::Partial;
                        reason = e.to_string();
                    }
                    error = Some(e);
                }
            }
        }
        if error.is_none() && status == Status::Partial {
            error = self.first_failed();
        }
        let now = clock.monotonic_ns();
        let relation = self.clock_relation(intervals.start_ns);
        let latency = self.latency();
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(self.engine.notes().into_iter().skip(notes_before));
        let mut local = EndReport {
            host: host::after(before),
            cpu,
            warnings,
            flows: self.flows.iter().map(|f| f.report(&self.engine, now)).collect(),
        };
        let nominal = match self.config.plan.nominal {
            Some(rate) => Some((rate.0, "stated".to_string())),
            None if self.config.nominal_auto => host::nominal(self.remote.ip()),
            None => None,
        };
        if nominal.is_none() && self.config.nominal_auto {
            local.warnings.push(Warning::new(
                "nominal-unknown",
                Severity::Warning,
                "--nominal auto: the interface towards the server is virtual or knows no speed, so that no link usage was computed; state the rate, such as --nominal 1G",
            ));
        }
        let record = assemble(Parts {
            plan: weir_model::plan::Plan {
                host: Some(self.config.host.clone()),
                ..self.config.plan.clone()
            },
            specs: self.specs.clone(),
            family: self.family,
            local,
            remote,
            clock: relation,
            intervals,
            intervals_shown,
            status,
            end_reason: reason,
            nominal,
            latency,
            loss_threshold_ns: self.facts.loss_threshold_ns,
            control_bytes: self.meter.bytes(),
        });
        let _ = self.send(&ClientMessage::Close).await;
        if error.is_none() && status == Status::Interrupted {
            let reason = stop.reason().unwrap_or(StopReason::Interrupted);
            error = Some(TrafficError::Stopped(reason.text(), reason.exit_code()));
        }
        (record, error)
    }

    async fn exchange(
        &mut self,
        reader: &mut crate::channel::Reader,
    ) -> Result<EndReport, TrafficError> {
        self.send(&ClientMessage::Report).await?;
        let mut flows: Vec<FlowReport> = vec![];
        let deadline = Instant::now() + Duration::from_secs(120);
        let most = self.meter.bytes().saturating_add(REPORT_BYTES);
        loop {
            if self.meter.bytes() > most {
                let reason = "a report of more than 1 GiB".into();
                return Err(TrafficError::Protocol { address: self.remote, reason });
            }
            let until = deadline.min(Instant::now() + SILENCE);
            let Ok(message) = tokio::time::timeout_at(until, reader.read::<ServerMessage>()).await
            else {
                return Err(self.silent("the exchange of results"));
            };
            match message {
                Ok(ServerMessage::Flow(flow)) => {
                    // A server reports each flow once.
                    if flows.len() < self.specs.len() {
                        flows.push(*flow);
                    }
                }
                Ok(ServerMessage::End(end)) => return Ok(EndReport { flows, ..*end }),
                Ok(ServerMessage::Refused { code, text }) => {
                    return Err(refused(self.remote, &code, &text));
                }
                Ok(_) => {}
                Err(e) => return Err(lost(self.remote, "the exchange of results", &e)),
            }
        }
    }

    fn clock_relation(&self, start_ns: u64) -> Option<ClockRelation> {
        if self.shared_clock {
            return Some(ClockRelation {
                method: "shared".into(),
                error_seconds: weir_net::clock::monotonic_resolution_ns() as f64 / 1e9,
                ..ClockRelation::default()
            });
        }
        let worst = self.worst_clock.as_ref();
        let worst_ns = worst.map_or(0, |(state, _)| state.error_ns);
        let by_probes = self.probes.as_ref()?.clock_relation(start_ns, worst_ns)?;
        let Some((state, Some(services))) = worst else { return Some(by_probes) };
        Some(ClockRelation {
            source: Some(services.clone()),
            offset_seconds: state.offset_at_client(start_ns) as f64 / 1e9,
            skew_ratio: 0.0,
            error_seconds: worst_ns as f64 / 1e9,
            ..by_probes
        })
    }

    fn latency(&mut self) -> Option<Latency> {
        let Some(probes) = self.probes.take() else {
            if self.config.plan.latency {
                let port = self.udp_port;
                self.warnings.push(Warning::new(
                    "latency-missing",
                    Severity::Warning,
                    format!("no UDP hello came back from port {port}: round trips, idle and under load, were not measured; open UDP {port} on the way, or leave them out with --no-latency"),
                ));
            }
            return None;
        };
        let (latency, steps) = probes.finish();
        if let (Some(step), false) = (steps.first(), self.shared_clock) {
            self.warnings.push(
                Warning::new(
                    "clock-stepped",
                    Severity::Warning,
                    format!("the two hosts' clocks moved against each other by {:.6} s during the run: one-way delays around it are off by as much", step.by_ns as f64 / 1e9),
                )
                .with_value(step.by_ns as f64 / 1e9, 0.0),
            );
        }
        self.config.plan.latency.then_some(latency)
    }
}
