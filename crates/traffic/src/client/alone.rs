//! A test without a server: ICMP echo, which the host's system answers, and frames on an interface, which anyone may
//! receive. There is neither a control connection nor a relation of clocks, and the record has the figures of this end
//! alone.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::names::INTERFACE;
use weir_model::plan::{Family, FlowSpec, Plan};
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::record::{Record, Status};
use weir_model::report::EndReport;
use weir_model::warning::{Severity, Warning};
use weir_net::interface::Interface;

use super::commands::Reply;
use super::connect::{bind_address, resolve_elsewhere};
use super::test::{Control, LOSS_THRESHOLD_NS, start_engine, start_late};
use super::{ClientConfig, Event, Failure};
use crate::engine::{Engine, Events, FlowEvent, Link, NO_ROUTE};
use crate::flows::{Flow, SessionFacts, live_interval};
use crate::signals::{Signal, Signals};
use crate::stop::{Stop, StopReason};
use crate::transport::{self, DatagramSocket, EchoSocket, ReplaySocket};
use crate::{START_NS, TrafficError, host};

/// The far end sends replies and nothing else.
struct NoSignals;

impl Signals for NoSignals {
    fn classify(&mut self, _: &dyn DatagramSocket, _: &[u8], _: u64) -> Signal {
        Signal::Data
    }
}

/// Whether a plan is such a test; its check refuses a mixture.
pub(super) fn is_alone(plan: &Plan) -> bool {
    plan.connections.iter().any(|connection| !connection.transport.has_server())
}

/// Where its packets go.
enum Target {
    Host(SocketAddr),
    Interface(Box<Interface>),
}

impl Target {
    async fn of(config: &ClientConfig) -> Result<Target, TrafficError> {
        match config.host.strip_prefix(INTERFACE) {
            Some(name) => Ok(Target::Interface(Box::new(weir_net::interface::interface(name)?))),
            None => address(config).await.map(Target::Host),
        }
    }

    fn ip(&self) -> Option<IpAddr> {
        match self {
            Target::Host(to) => Some(to.ip()),
            Target::Interface(_) => None,
        }
    }

    fn device<'a>(&'a self, plan: &'a Plan) -> Option<&'a str> {
        match self {
            Target::Host(_) => plan.device.as_deref(),
            Target::Interface(interface) => Some(&interface.name),
        }
    }

    /// IP packets of at most this size pass without fragmentation, bytes.
    fn mtu_bytes(&self) -> u32 {
        match self {
            Target::Host(to) => host::min_path_mtu(*to),
            Target::Interface(interface) => interface.mtu_bytes,
        }
    }

    fn nominal(&self) -> Option<(u64, String)> {
        match self {
            Target::Host(to) => host::nominal(to.ip()),
            Target::Interface(interface) => host::nominal_of(&interface.name),
        }
    }

    /// A flow on its socket.
    fn flow(
        &self,
        config: &ClientConfig,
        engine: &Engine,
        facts: &SessionFacts,
        spec: &FlowSpec,
        events: Events,
    ) -> Result<Flow, TrafficError> {
        match self {
            Target::Host(to) => {
                let bind = bind_address(&config.plan, *to, 0, 0);
                let key = crate::key::random()?;
                let device = config.plan.device.clone();
                let socket = Arc::new(EchoSocket::open(spec, bind, device, *to, &key)?);
                let link = Link::Datagrams { socket, signals: Box::new(NoSignals), proof: None };
                Ok(Flow::transactions(engine, facts, spec.clone(), true, link, None, events))
            }
            Target::Interface(interface) => {
                let socket = Arc::new(ReplaySocket::open(interface)?);
                let (spec, supply) = (spec.clone(), config.supply.clone());
                let (signals, alive, log) = (None, None, None);
                Ok(Flow::datagrams(
                    engine, facts, spec, true, socket, signals, alive, events, log, supply,
                ))
            }
        }
    }
}

/// Refuses what a test without a server can't do.
fn check(config: &ClientConfig) -> Result<(), TrafficError> {
    let refused = [
        ("packet_log", config.packet_log.is_some(), "no packet log: replies are not logged"),
        ("key", config.key.is_some(), "no key: there is no server"),
    ];
    for (field, is_set, accepted) in refused {
        if is_set {
            let (given, accepted) = ("in a test without a server".into(), accepted.into());
            return Err(TrafficError::Input { field, given, accepted });
        }
    }
    for connection in &config.plan.connections {
        let name = connection.transport.name();
        if let Some(reason) = transport::unavailable(name) {
            let given = name.to_string();
            return Err(TrafficError::Unavailable { field: "transport", given, reason });
        }
    }
    Ok(())
}

/// The first address of the host of the family to send from.
async fn address(config: &ClientConfig) -> Result<SocketAddr, TrafficError> {
    let found = resolve_elsewhere(&config.host, &config.plan).await?;
    let bind = config.plan.bind;
    let fits = |to: &&SocketAddr| bind.is_none_or(|bind| bind.first().is_ipv4() == to.is_ipv4());
    let mut to = *found.iter().find(fits).ok_or_else(|| TrafficError::Input {
        field: "bind",
        given: bind.map(|bind| bind.to_string()).unwrap_or_default(),
        accepted: format!("an address of the family of {}", config.host),
    })?;
    // ICMP has no ports.
    to.set_port(0);
    Ok(to)
}

/// A running test.
struct Running {
    engine: Arc<Engine>,
    specs: Vec<FlowSpec>,
    flows: Vec<Flow>,
    intervals: IntervalClock,
    ended: HashSet<u32>,
    failed: Vec<(u32, String)>,
    warnings: Vec<Warning>,
    shown: usize,
}

/// Runs a test.
pub(super) async fn run(
    config: ClientConfig,
    control: Control,
    stop: Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let Control { mut asked, engine, gate, .. } = control;
    check(&config)?;
    let stopped = |reason: StopReason| TrafficError::Stopped(reason.text(), reason.exit_code());
    let to = tokio::select! {
        to = Target::of(&config) => to?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    // No figure of frames depends on the family.
    let family = if to.ip().is_some_and(|ip| ip.is_ipv6()) { Family::Ipv6 } else { Family::Ipv4 };
    let path_mtu_bytes = to.mtu_bytes();
    let specs = config.plan.flows(family, to.ip().map_or(path_mtu_bytes, host::path_mtu));
    let engine = match engine {
        Some(engine) => engine,
        None => Arc::new(start_engine(&config)?),
    };
    let notes_before = engine.notes().len();
    let facts = SessionFacts {
        session: 0,
        key: [0; 16],
        hmac: None,
        token_secret: [0; 16],
        seed: config.plan.seed.0,
        omit_ns: config.plan.omit.0,
        loss_threshold_ns: config.plan.loss_threshold.map_or(LOSS_THRESHOLD_NS, |t| t.0),
        feedback_ns: 0,
        any_size: false,
        is_unnumbered: false,
        flows: specs.len(),
        expected: Arc::default(),
        prefix: Arc::default(),
        numbering: Default::default(),
    };
    let _ = weir_net::thread::raise_descriptor_limit(65_536);
    let (events, mut inbox) = mpsc::unbounded_channel();
    let mut flows = vec![];
    for spec in &specs {
        flows.push(to.flow(&config, &engine, &facts, spec, events.clone())?);
    }
    let before = host::before(to.ip(), to.device(&config.plan));
    let mut cpu = host::CpuMeter::new(&config.clock);
    observe(Event::Started { specs: specs.clone(), family });
    let common = match gate {
        None => config.start_at_ns,
        Some(mut gate) => {
            gate.is_ready(observe);
            tokio::select! {
                start = gate.start.wait() => start,
                reason = stop.asked(1) => return Err(stopped(reason).into()),
            }
        }
    };
    let soonest_ns = engine.clock().monotonic_ns() + START_NS;
    let mut test = Running {
        intervals: IntervalClock {
            start_ns: soonest_ns.max(common.unwrap_or(0)),
            interval_ns: config.plan.interval.0,
            omit_ns: config.plan.omit.0,
        },
        engine,
        specs,
        flows,
        ended: HashSet::new(),
        failed: vec![],
        warnings: common
            .filter(|at| *at < soonest_ns)
            .map(|at| start_late(soonest_ns - at))
            .into_iter()
            .collect(),
        shown: 0,
    };
    cpu.start();
    for flow in &test.flows {
        let after = flow.spec.connection.start_after.0;
        flow.start(&test.engine, test.intervals.start_ns.saturating_add(after), test.intervals);
    }
    let states = |state| test.specs.iter().map(move |spec| FlowProgress { id: spec.id, state });
    observe(Event::Flows(states(FlowState::Started).collect()));
    let mut interrupted = None;
    while test.ended.len() < test.flows.len() {
        let wait = test.show_in();
        tokio::select! {
            biased;
            reason = stop.asked(if interrupted.is_some() { 2 } else { 1 }) => {
                if interrupted.replace(reason).is_some() {
                    break;
                }
                test.flows.iter().for_each(|flow| flow.stop(&test.engine));
            }
            Some(event) = inbox.recv() => test.event(event, observe),
            Some((_, reply)) = asked.recv() => {
                let _ = reply.send(Reply::error("a test without a server has no commands; accepted: an interrupt"));
            }
            () = tokio::time::sleep_until(Instant::now() + wait.unwrap_or_default()), if wait.is_some() => {
                test.show(observe);
            }
        }
    }
    let failed = test.failed.first().map(|(flow, reason)| TrafficError::Flow {
        code: if reason.starts_with(NO_ROUTE) { "no-route" } else { "flow" },
        flow: *flow,
        name: test
            .specs
            .iter()
            .find(|s| s.id == *flow)
            .map_or_else(String::new, |s| s.name.clone()),
        reason: reason.clone(),
    });
    let (status, end_reason, error) = match (interrupted, failed) {
        (Some(reason), _) => {
            (Status::Interrupted, reason.text().to_string(), Some(stopped(reason)))
        }
        (None, Some(failed)) => (Status::Partial, failed.to_string(), Some(failed)),
        (None, None) => (Status::Complete, "all flows ended".into(), None),
    };
    let cpu = cpu.report();
    let now = test.engine.clock().monotonic_ns();
    let mut warnings = std::mem::take(&mut test.warnings);
    warnings.extend(test.engine.notes().into_iter().skip(notes_before));
    let local = EndReport {
        host: host::after(&before),
        cpu,
        warnings,
        flows: test.flows.iter().map(|flow| flow.report(&test.engine, now)).collect(),
    };
    let nominal = match config.plan.nominal {
        Some(rate) => Some((rate.0, "stated".to_string())),
        None if config.nominal_auto => to.nominal(),
        None => None,
    };
    let peer = test.specs.first().map(|spec| spec.connection.transport.label().to_owned());
    let peer = peer.unwrap_or_default();
    let record = assemble(Parts {
        plan: Plan { host: Some(config.host.clone()), ..config.plan.clone() },
        specs: std::mem::take(&mut test.specs),
        family,
        local,
        remote: None,
        peer,
        one_sided: true,
        peer_reports: Default::default(),
        clock: None,
        intervals: test.intervals,
        intervals_shown: test.shown,
        status,
        end_reason,
        nominal,
        latency: None,
        loss_threshold_ns: facts.loss_threshold_ns,
        control_bytes: 0,
        path_mtu_bytes: Some(path_mtu_bytes),
    });
    let record = Record { control_bytes: None, ..record };
    for interval in record.intervals.iter().skip(test.shown) {
        observe(Event::Interval(Box::new(interval.clone())));
    }
    match error {
        None => Ok(record),
        Some(error) => Err(Failure { error, partial: Some(Box::new(record)) }),
    }
}

impl Running {
    fn event(&mut self, event: FlowEvent, observe: &mut dyn FnMut(Event)) {
        let (id, state) = match event {
            FlowEvent::SenderDone(total) => (total.flow, FlowState::Finished),
            FlowEvent::Failed(id, text) => {
                if let Some(flow) = self.flows.iter().find(|flow| flow.spec.id == id) {
                    flow.fail(text.clone());
                }
                let warning = Warning::new("flow-failed", Severity::Error, text.clone());
                self.warnings.push(warning.for_flow(id));
                self.failed.push((id, text));
                (id, FlowState::Failed)
            }
            _ => return,
        };
        if self.ended.insert(id) {
            observe(Event::Flows(vec![FlowProgress { id, state }]));
        }
    }

    /// How long until the next interval can be shown; `None`: there are none.
    fn show_in(&self) -> Option<Duration> {
        let at = self.intervals.shown_ns(self.shown)?;
        Some(Duration::from_nanos(at.saturating_sub(self.engine.clock().monotonic_ns())))
    }

    /// Shows the next interval. The last ones are shown from the record.
    fn show(&mut self, observe: &mut dyn FnMut(Event)) {
        let now = self.engine.clock().monotonic_ns();
        let shown = live_interval(&self.flows, &self.intervals, self.shown, now);
        self.shown += 1;
        observe(Event::Interval(Box::new(shown)));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.flows.iter().for_each(|flow| flow.remove(&self.engine));
    }
}
