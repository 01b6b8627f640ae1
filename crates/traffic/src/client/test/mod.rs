//! One test from beginning to end.

mod clocks;
mod fetch;
mod finish;
mod live;
mod play;

pub(super) use play::start_late;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_flow::assemble::{NATIVE_PEER, Parts, assemble};
use weir_flow::budget::StatedRate;
use weir_flow::{IntervalClock, MAX_DRAIN_NS, PeerReports, SenderClock, Supply};
use weir_model::content::Content;
use weir_model::plan::{Connection, Direction, Family, FlowSpec, Plan, SourceAddresses};
use weir_model::progress::{FlowProgress, FlowState, PeerStatus};
use weir_model::record::{ClockRelation, Latency, Record, Status};
use weir_model::report::{EndReport, FlowReport};
use weir_model::warning::{Severity, Warning};
use weir_net::reference::ReferenceReader;
use weir_wire::control::{
    ClientMessage, ClockReference, ClockState, Open, Opened, SenderTotal, ServerMessage,
};

use super::commands::{NamedFlow, PendingRequest, Reply, Request, has_ended, unknown};
use super::connect::{self, Connected, broken, refused};
use super::latency::{IDLE_PROBES, Probes};
use super::setup::{HELLO_PATIENCE_NS, Setup};
use super::streams::Streams;
use super::{ClientConfig, Event, Failure, StartSignal, alone};
use crate::channel::{ChannelError, Meter, Writer, clean};
use crate::engine::{Engine, FlowEvent, NO_ROUTE, lock};
use crate::flows::{Flow, SessionFacts};
use crate::reference::{self, Choice};
use crate::report_timeout::{TimedOut, Waiting};
use crate::stop::{Stop, StopReason};
use crate::transport::xdp::{self, SendEnd, Senders};
use crate::transport::{self, LinkEnd};
use crate::{Address, START_NS, TrafficError, clock_identity, host};

/// Silence after which a server counts as unreachable, since it answers each keepalive; longer where keepalives are
/// further apart.
const UNREACHABLE: Duration = Duration::from_secs(5);
/// Time between the keepalives of a test that waits for others.
const KEEPALIVE: Duration = Duration::from_secs(2);
/// Minimum time between two reports of flows' states.
const STATES_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of bytes of a server's report.
const REPORT_BYTES: u64 = 1 << 30;

/// The first clock relation holds for this part of the usual period, each further one for twice as long: probes over a
/// short time say little of the skew.
const CLOCK_FIRST: f64 = 0.1;
/// How long to wait for the other end once everything should have ended, in addition to that end's own timeouts.
const GRACE: Duration = Duration::from_secs(12);
/// Default loss threshold, which RFC 7680 leaves to the implementation, ns.
pub const LOSS_THRESHOLD_NS: u64 = 2_000_000_000;

/// How the running part ended.
struct Ended {
    status: Status,
    reason: String,
    error: Option<TrafficError>,
}

/// What starts and controls a test: the single one of a client, or one of several with a server each.
pub(super) struct Control {
    /// Requests on the control socket.
    pub(super) asked: mpsc::UnboundedReceiver<PendingRequest>,
    /// The workers that tests of one client share; absent: its own.
    pub(super) engine: Option<Arc<Engine>>,
    /// The common start of several tests.
    pub(super) gate: Option<Gate>,
    /// The streams to groups, which tests of one client share.
    pub(super) streams: Arc<Streams>,
    /// The programs that send flows with engine `xdp`.
    pub(super) senders: Arc<Senders>,
}

/// Where a test of several waits until all are ready.
pub(super) struct Gate {
    /// Is sent this test's index when it is ready; absent: [`Event::Ready`] is observed.
    pub(super) ready: Option<mpsc::UnboundedSender<usize>>,
    /// Index of this test.
    pub(super) index: usize,
    /// Brings the time of the start.
    pub(super) start: StartSignal,
}

impl Gate {
    /// That of a test which another program starts.
    pub(super) fn of(signal: StartSignal, index: usize) -> Gate {
        Gate { ready: None, index, start: signal }
    }

    /// Reports that the test is ready.
    pub(super) fn is_ready(&self, observe: &mut dyn FnMut(Event)) {
        match &self.ready {
            Some(ready) => drop(ready.send(self.index)),
            None => observe(Event::Ready),
        }
    }
}

struct Test<'a> {
    config: &'a ClientConfig,
    /// Sending starts at this time, or later if it has passed.
    start_at_ns: Option<u64>,
    engine: Arc<Engine>,
    meter: Meter,
    writer: Writer,
    remote: Address,
    specs: Vec<FlowSpec>,
    family: Family,
    path_mtu_bytes: u32,
    flows: Vec<Arc<Flow>>,
    facts: SessionFacts,
    stated: StatedRate,
    shared_clock: bool,
    udp_port: u16,
    probes: Option<Probes>,
    /// Flows whose sender / receiver has ended.
    sender_done: HashMap<u32, SenderTotal>,
    receiver_done: std::collections::HashSet<u32>,
    /// The flows before this index are known to have ended, and their senders: [`Test::is_over`].
    ended_before: Cell<usize>,
    sent_before: Cell<usize>,
    failed: HashMap<u32, String>,
    /// Flows that were started by themselves or by the control socket.
    started: std::collections::HashSet<u32>,
    /// Flows stopped over the control socket; they end when their data has arrived or is given up.
    stopping: std::collections::HashSet<u32>,
    /// States of flows as last reported.
    reported_states: HashMap<u32, FlowState>,
    /// Whether a state may have changed since the last report.
    states_changed: bool,
    live: live::Live,
    /// This end's reference for its clock, and the other end's.
    references: Option<ReferenceReader>,
    remote_reference: Option<ClockReference>,
    /// The relation with the largest bound of those used, with the services' names if it is theirs.
    worst_clock: Option<(ClockState, Option<String>)>,
    cpu: host::CpuMeter,
    warnings: Vec<Warning>,
    /// The file into which a stored one is fetched.
    fetched: Option<std::fs::File>,
}

/// This host's end of the link to the server, if the plan sends frames of it.
fn link_of(plan: &Plan, server: Address) -> Result<Option<LinkEnd>, TrafficError> {
    let Some(name) = plan.connections.iter().map(|c| c.transport.name()).find(|t| t.frames())
    else {
        return Ok(None);
    };
    let found = LinkEnd::towards(server.ip_or_none(), plan.device.as_deref());
    found.map(Some).map_err(|reason| TrafficError::Input {
        field: "transport",
        given: format!("{name} ({reason})"),
        accepted: "a host on the same Ethernet link".into(),
    })
}

/// The program that sends the data of flows with engine `xdp`, attached to the interface towards the server.
fn sending_end(
    senders: &Senders,
    plan: &Plan,
    specs: &[FlowSpec],
    server: Address,
) -> Result<Option<SendEnd>, TrafficError> {
    let Some(first) = xdp::flows(specs).next() else { return Ok(None) };
    let server = server.ip_or_none();
    let given = first.connection.engine.to_string();
    let end = senders
        .towards(server, plan.device.as_deref())
        .map_err(|reason| TrafficError::Unavailable { field: "engine", given, reason })?;
    let too_large = xdp::flows(specs).find_map(|spec| {
        let (payload, most) = (spec.max_payload(), end.max_payload(spec, server));
        (payload > most).then_some((payload, most))
    });
    match too_large {
        Some((payload, most)) => Err(TrafficError::Input {
            field: "payload",
            given: format!("{payload} bytes with engine {}", first.connection.engine),
            accepted: format!(
                "up to {most} bytes through {}: frames are not fragmented",
                end.name()
            ),
        }),
        None => Ok(Some(end)),
    }
}

/// Runs a test.
pub(super) async fn run(
    config: ClientConfig,
    control: Control,
    stop: Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    if alone::is_alone(&config.plan) {
        return alone::run(config, control, stop, observe).await;
    }
    let Control { mut asked, engine, gate, streams, senders } = control;
    let meter = Meter::default();
    let stopped = |reason: StopReason| TrafficError::Stopped(reason.text(), reason.exit_code());
    for connection in &config.plan.connections {
        let name = connection.transport.name();
        if let Some(reason) = transport::unavailable(name) {
            let given = name.to_string();
            return Err(TrafficError::Unavailable { field: "transport", given, reason }.into());
        }
    }
    for name in config.plan.connections.iter().filter_map(host::congestion_of) {
        host::congestion_control(name).map_err(|reason| TrafficError::Unavailable {
            field: "congestion",
            given: name.to_owned(),
            reason,
        })?;
    }
    check_ports(&config.plan)?;
    check_sources(&config.plan)?;
    let log = config.packet_log.as_ref().map(|p| crate::log::open(p)).transpose()?;
    let fetched =
        config.fetch.as_deref().map(|path| fetch::open(path, &config.plan)).transpose()?;
    let mut connected = tokio::select! {
        connected = connect::connect(&config, &meter) => connected?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    let server = connected.remote.ip();
    let is_ipv6 = server.is_some_and(|server| server.is_ipv6());
    // A Unix socket counts as IPv4: no figure of its flows depends on it.
    let family = if is_ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    observe(Event::Connected { local: connected.local, remote: connected.remote });
    let mut path_mtu_bytes = server.map_or(u32::MAX, |server| host::path_mtu(server.ip()));
    let link = link_of(&config.plan, connected.remote)?;
    if let Some(link) = &link {
        path_mtu_bytes = path_mtu_bytes.min(link.mtu_bytes());
    }
    config.plan.check_mtu(family).map_err(TrafficError::from)?;
    let specs = config.plan.flows(family, path_mtu_bytes);
    if let Some(link) = link
        && let Some((payload_bytes, most)) = link.oversized(transport::frames(&specs))
    {
        return Err(TrafficError::Input {
            field: "payload",
            given: format!("{payload_bytes} bytes in a frame"),
            accepted: format!("up to {most} bytes through {}", link.name()),
        }
        .into());
    }
    let mtu = server.map_or(u32::MAX, host::min_path_mtu);
    if let Some(refusal) = host::oversized(specs.iter(), family, mtu) {
        let host::Oversized { payload_bytes, most, path_mtu_bytes } = refusal;
        return Err(TrafficError::Input {
            field: "dont_fragment",
            given: format!("datagrams of {payload_bytes} bytes (`payload`)"),
            accepted: format!("up to {most} bytes, since the path MTU is {path_mtu_bytes} bytes"),
        }
        .into());
    }
    let xdp = sending_end(&senders, &config.plan, &specs, connected.remote)?;
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
    let stated = StatedRate::of(&config.plan, &specs);
    let facts = facts(&config, &opened, loss_threshold_ns, &stated, specs.len());
    let facts = facts.ok_or_else(|| TrafficError::Protocol {
        address: connected.remote,
        reason: "a session without usable keys".into(),
    })?;

    let _ = weir_net::thread::raise_descriptor_limit(65_536);
    let engine = match engine {
        Some(engine) => engine,
        None => Arc::new(start_engine(&config)?),
    };
    let (events, mut flow_events) = mpsc::unbounded_channel();

    let shared_clock = clock_identity(&config.clock).is_same_clock(&connected.server.clock);
    // Setting up waits for the network, so it runs on its own thread: signals are still handled.
    let (flows, probes, references) = {
        let (plan, opened, engine) = (config.plan.clone(), opened.clone(), engine.clone());
        let (server, events, log) = (connected.remote, events.clone(), log.clone());
        let timeout = u64::try_from(config.connect_timeout.as_nanos()).unwrap_or(u64::MAX);
        let (clock, meter) = (config.clock.clone(), meter.clone());
        let supply = config.supply.clone();
        let (specs, has_udp) =
            (specs.clone(), specs.iter().any(|s| s.connection.transport.datagrams()));
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let of_setup = facts.clone();
        std::thread::spawn(move || {
            let facts = of_setup;
            let setup = Setup {
                plan: &plan,
                facts: facts.clone(),
                opened: &opened,
                server,
                engine: &engine,
                events: &events,
                connect_timeout_ns: timeout,
                log,
                meter: meter.clone(),
                streams,
                xdp,
                supply,
            };
            // Streams need no datagrams: where UDP is blocked, the test does not wait long for probes.
            let probe = |patience| {
                let server = server.ip()?;
                Probes::start(
                    &plan,
                    stated,
                    facts.clone(),
                    server,
                    clock.clone(),
                    meter.clone(),
                    patience,
                )
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
            // The reference is checked against the probes; without these it is not used.
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
        start_at_ns: config.start_at_ns,
        engine: engine.clone(),
        meter,
        writer,
        remote,
        specs,
        family,
        path_mtu_bytes: mtu,
        flows,
        facts,
        stated,
        shared_clock,
        udp_port: opened.udp_port,
        probes,
        sender_done: HashMap::new(),
        receiver_done: Default::default(),
        ended_before: Cell::default(),
        sent_before: Cell::default(),
        failed: HashMap::new(),
        started: Default::default(),
        stopping: Default::default(),
        reported_states: HashMap::new(),
        states_changed: false,
        live: live::Live::default(),
        references,
        remote_reference: None,
        worst_clock: None,
        cpu: host::CpuMeter::new(&config.clock),
        warnings: vec![],
        fetched,
    };
    let before = host::before(remote.ip().map(|remote| remote.ip()), config.plan.device.as_deref());
    let notes_before = engine.notes().len();

    let mut asked_reference = test.own_reference().is_some();
    if asked_reference {
        test.probe_control().await?;
    }
    test.join_groups().await?;
    let mut remote_reference = None;
    // The server reports each data connection that it accepts; nothing starts before.
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
                Err(e) => return Err(broken(remote, "setting up", &e)),
            }
        }
        Ok(())
    };
    tokio::select! {
        ready = tokio::time::timeout(Duration::from_secs(5), ready) => match ready {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(e.into()),
            Err(_) => return Err(TrafficError::Lost { address: remote, during: "setting up", reason: "it does not confirm the data connections (is there a NAT or a firewall on the path?)".into() }.into()),
        },
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    }

    test.remote_reference = remote_reference;
    // Reported first: probing the idle path takes a tenth of a second, and far more on a long path.
    observe(Event::Started { specs: test.specs.clone(), family });
    test.idle_probes(&stop).await.map_err(|r| Failure::from(stopped(r)))?;
    if let Some(gate) = gate {
        gate.is_ready(observe);
        test.start_at_ns = test.common_start(gate, &stop).await?;
    }
    let ended = test.play(&mut reader, &mut flow_events, &mut asked, &stop, observe).await;
    test.report_states(observe);
    let shown = test.live.shown;
    let lines = std::mem::take(&mut test.live.lines);
    let (record, error) =
        test.finish(&mut reader, ended, shown, &before, notes_before, &stop).await;
    // The last intervals, with both ends' figures.
    for (i, interval) in record.intervals.iter().enumerate().skip(shown) {
        let mut interval = interval.clone();
        if i == shown {
            lines.finish(&mut interval, &record.intervals[..shown]);
        }
        observe(Event::Interval(Box::new(interval)));
    }
    // If the requested log could not be written, the test is done but a result is missing.
    let error = error.or(log.and_then(|log| lock(&log).flush().err()));
    match error {
        None => Ok(record),
        Some(error) => Err(Failure { error, partial: Some(Box::new(record)) }),
    }
}

/// Starts the workers of a client.
pub(super) fn start_engine(config: &ClientConfig) -> Result<Engine, TrafficError> {
    Engine::start(
        config.cpus.as_deref(),
        crate::engine::asked(config.scheduling, config.spin),
        config.clock.clone(),
    )
}

/// Refuses a plan whose connections of transactions need more ports at the same time than this host has. Those that were
/// closed need none, since the server closes first. Where requests are sent at a rate, the number that is open depends on
/// the server: those without a port fail.
fn check_ports(plan: &Plan) -> Result<(), TrafficError> {
    let addresses = u64::from(plan.bind.map_or(1, SourceAddresses::count));
    let of_ip =
        || plan.connections.iter().filter(|c| c.shape.connects() && c.transport.ip().is_some());
    let of = |c: &Connection| u64::from(c.count) * (1 + u64::from(c.closed_loop_connections()));
    for (connection, (first, last)) in of_ip().filter_map(|c| Some((c, c.client_ports()?))) {
        let (needed, ports) = (of(connection), u64::from(last.saturating_sub(first)) + 1);
        if needed > ports * addresses {
            return Err(TrafficError::AddressSpace {
                field: "client_port",
                given: format!(
                    "{first}-{last} for {needed} connections at the same time, that of each flow included"
                ),
                accepted: format!("at least {} ports", needed.div_ceil(addresses)),
            });
        }
    }
    let needed: u64 = of_ip().filter(|c| c.client_ports().is_none()).map(of).sum();
    let ports = host::local_ports().map(|ports| ports.saturating_mul(addresses));
    let ports = ports.filter(|ports| needed > *ports);
    ports.map_or(Ok(()), |ports| {
        Err(TrafficError::AddressSpace {
            field: "outstanding",
            given: format!("{needed} connections at the same time"),
            accepted: format!(
                "up to {ports}, by net.ipv4.ip_local_port_range and the local addresses (`bind`)"
            ),
        })
    })
}

/// Refuses a range of source addresses of which this host lacks one: connections from it would be missing or fail.
fn check_sources(plan: &Plan) -> Result<(), TrafficError> {
    let Some(sources) = plan.bind.filter(|sources| sources.count() > 1) else { return Ok(()) };
    for turn in 0..u64::from(sources.count()) {
        let address = sources.in_turn(turn);
        match std::net::UdpSocket::bind((address, 0)) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
                return Err(TrafficError::Input {
                    field: "bind",
                    given: format!("{sources}, and this host does not have {address}"),
                    accepted: "addresses of this host (`ip address`)".into(),
                });
            }
            _ => {}
        }
    }
    Ok(())
}

/// How long a test of streams alone waits for the answer to a probe's hello: at least three hellos, longer on a long
/// path. `round_trip` is that of a request over TCP.
fn probe_patience_ns(round_trip: Duration) -> u64 {
    let longer = u64::try_from((8 * round_trip).as_nanos()).unwrap_or(u64::MAX);
    longer.clamp(300_000_000, HELLO_PATIENCE_NS)
}

/// The session's secrets as the server gave them.
fn facts(
    config: &ClientConfig,
    opened: &Opened,
    loss_threshold_ns: u64,
    stated: &StatedRate,
    flows: usize,
) -> Option<SessionFacts> {
    let secret = |text: &str| crate::key::from_hex(text)?.try_into().ok();
    Some(SessionFacts {
        session: opened.session,
        key: secret(&opened.key)?,
        hmac: None,
        token_secret: secret(&opened.token_secret)?,
        seed: config.plan.seed.0,
        omit_ns: config.plan.omit.0,
        loss_threshold_ns,
        feedback_ns: stated.feedback_ns(),
        any_size: false,
        is_unnumbered: false,
        flows,
        expected: Arc::default(),
        prefix: Arc::default(),
        numbering: Default::default(),
    })
}

impl Test<'_> {
    async fn send(&mut self, message: &ClientMessage) -> Result<(), TrafficError> {
        let writing = self.writer.write(message);
        match tokio::time::timeout(Duration::from_secs(10), writing).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(broken(self.remote, "the test", &e)),
            Err(_) => Err(broken(self.remote, "the test", &ChannelError::Closed)),
        }
    }

    /// Requests the server to receive the flows that are sent to groups.
    async fn join_groups(&mut self) -> Result<(), TrafficError> {
        let joins = self.flows.iter().filter_map(|flow| {
            let join = flow.join()?;
            Some(ClientMessage::Join {
                flow: flow.spec.id,
                source: join.source?,
                name: join.name.clone(),
                key: crate::key::to_hex(&join.key),
            })
        });
        for message in joins.collect::<Vec<_>>() {
            self.send(&message).await?;
        }
        Ok(())
    }

    /// Waits for the probes of the idle path: the idle round trip, and the clocks' first relation.
    async fn idle_probes(&self, stop: &Stop) -> Result<(), StopReason> {
        let Some(probes) = &self.probes else { return Ok(()) };
        let begun = Instant::now();
        // A long path answers late: wait up to 2 s.
        while probes.answered() < IDLE_PROBES && begun.elapsed() < Duration::from_secs(2) {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
                reason = stop.asked(1) => return Err(reason),
            }
        }
        probes.set_loaded(false);
        Ok(())
    }

    /// Waits until another decides when the test starts. Returns the time.
    async fn common_start(
        &mut self,
        mut gate: Gate,
        stop: &Stop,
    ) -> Result<Option<u64>, TrafficError> {
        loop {
            tokio::select! {
                start_ns = gate.start.wait() => return Ok(start_ns),
                () = tokio::time::sleep(KEEPALIVE) => self.probe_control().await?,
                reason = stop.asked(1) => {
                    return Err(TrafficError::Stopped(reason.text(), reason.exit_code()));
                }
            }
        }
    }
}
