//! Tests without a control connection: this end measures what it sends, and the answers where the far end sends any.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::plan::{Connection, Echo, FlowSpec, Plan};
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::record::Record;
use weir_model::report::EndReport;
use weir_traffic::session::{
    self, End, FlowEvent, Framing, LOSS_THRESHOLD_NS, Numbering, Signals, Workers,
};
use weir_traffic::{ClientConfig, Event, Failure, Stop, TrafficError};

use crate::carried::{self, Side};
use crate::ending::{Over, nominal, stopped};
use crate::shown::Shown;

/// Sending starts this long after the sockets are open.
const START_NS: u64 = 20_000_000;

/// The plan of a test without a control connection, each connection of which is an echo. Options that are not `accepted` are
/// refused.
///
/// # Errors
/// [`TrafficError`] that names the field.
pub(crate) fn prepared(config: &ClientConfig, accepted: &[&str]) -> Result<Plan, TrafficError> {
    carried::check(config, |field| accepted.contains(&field).then_some(Side::Both))?;
    let mut plan = config.plan.clone();
    // There is no channel for round trips alongside the data.
    plan.latency = false;
    for (index, connection) in plan.connections.iter_mut().enumerate() {
        // The far end sends back all of it.
        if let Some(limit @ Echo::First(_)) = connection.echo {
            return Err(carried::of_connection(plan.peer, index, "echo", limit, "whole"));
        }
        connection.echo = Some(Echo::Whole);
    }
    Ok(plan)
}

/// What a protocol adds to the data of a flow.
#[derive(Default)]
pub(crate) struct Additions {
    /// The header of each message of a stream; absent: the stream has none.
    pub(crate) framing: Option<Box<dyn Framing>>,
    /// Its messages among them; absent: there are none.
    pub(crate) signals: Option<Box<dyn Signals>>,
    /// What each payload begins with after its header.
    pub(crate) prefix: Vec<u8>,
    /// The numbers in their headers.
    pub(crate) numbering: Numbering,
}

/// Makes the additions to a flow with this server.
pub(crate) type MakeAdditions<'a> =
    &'a mut dyn FnMut(&FlowSpec, SocketAddr) -> Result<Additions, TrafficError>;

/// Runs the test of a checked plan.
///
/// # Errors
/// [`Failure`] with the reason and what had been measured until then.
pub(crate) fn run(
    config: &ClientConfig,
    plan: Plan,
    additions: MakeAdditions,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let test = test(config, plan, additions, stop, observe);
    crate::run_test(config, "a test without a control connection has no commands", test)
}

async fn test(
    config: &ClientConfig,
    plan: Plan,
    additions: MakeAdditions<'_>,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let workers = Workers::start(&config.into())?;
    let opening = open(config, &plan, &workers, additions);
    let (peer, specs, end) = tokio::select! {
        opened = opening => opened?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    let family = crate::family(peer);
    observe(Event::Started { specs: specs.clone(), family });
    let asked_ns = match config.start_signal.clone() {
        None => config.start_at_ns,
        Some(mut signal) => {
            observe(Event::Ready);
            tokio::select! {
                start_ns = signal.wait() => start_ns,
                reason = stop.asked(1) => return Err(stopped(reason).into()),
            }
        }
    };
    let soonest_ns = workers.now_ns() + START_NS;
    let intervals = IntervalClock {
        start_ns: asked_ns.map_or(soonest_ns, |at| at.max(soonest_ns)),
        interval_ns: plan.interval.0,
        omit_ns: plan.omit.0,
    };
    end.start(intervals);
    let states = |state| specs.iter().map(move |spec| FlowProgress { id: spec.id, state });
    observe(Event::Flows(states(FlowState::Started).collect()));
    let mut shown = Shown::new(intervals);
    let mut running: HashSet<u32> = specs.iter().map(|spec| spec.id).collect();
    let (mut interrupted, mut failed) = (None, None);
    while !running.is_empty() {
        let stops = if interrupted.is_some() { 2 } else { 1 };
        tokio::select! {
            biased;
            reason = stop.asked(stops) => {
                if interrupted.replace(reason).is_some() {
                    break;
                }
                end.stop();
            }
            event = end.event() => {
                let (id, state) = match event {
                    FlowEvent::SenderDone(total) => (total.flow, FlowState::Finished),
                    FlowEvent::Failed(id, reason) => {
                        failed.get_or_insert((id, reason));
                        (id, FlowState::Failed)
                    }
                    _ => continue,
                };
                if running.remove(&id) {
                    observe(Event::Flows(vec![FlowProgress { id, state }]));
                }
            }
            interval = shown.next(&workers, &end) => observe(Event::Interval(Box::new(interval))),
        }
    }
    let report = end.finish();
    let failed = failed.map(|(flow, reason)| TrafficError::Flow {
        code: "flow",
        flow,
        name: specs
            .iter()
            .find(|spec| spec.id == flow)
            .map_or_else(String::new, |s| s.name.clone()),
        reason,
    });
    let failed = failed.or_else(|| silent(&report, &specs, peer));
    let over = match (interrupted, failed) {
        (Some(reason), _) => Over::Stopped(reason),
        (None, Some(failed)) => Over::Failed(failed),
        (None, None) => Over::Complete,
    };
    let (status, end_reason) = over.status();
    let peer_name = plan.peer.label().into();
    let record = assemble(Parts {
        // Without one, each connection names its own.
        plan: Plan {
            host: Some(config.host.clone()).filter(|host| !host.is_empty()),
            ..plan.clone()
        },
        specs,
        family,
        local: report,
        remote: None,
        peer: peer_name,
        one_sided: true,
        peer_reports: Default::default(),
        clock: None,
        intervals,
        intervals_shown: shown.count,
        status,
        end_reason,
        nominal: nominal(config, peer),
        latency: None,
        loss_threshold_ns: loss_threshold_ns(&plan),
        control_bytes: 0,
        path_mtu_bytes: Some(session::path_mtu_bytes(peer.ip())),
    });
    let record = Record { control_bytes: None, ..record };
    over.end(record, shown.count, observe)
}

fn loss_threshold_ns(plan: &Plan) -> u64 {
    plan.loss_threshold.map_or(LOSS_THRESHOLD_NS, |threshold| threshold.0)
}

/// Datagrams without a single answer: no server answers them, or the path blocks them.
fn silent(report: &EndReport, specs: &[FlowSpec], peer: SocketAddr) -> Option<TrafficError> {
    let is_silent = |spec: &FlowSpec| {
        let flow = report.flows.iter().find(|flow| flow.id == spec.id);
        let sent = flow.and_then(|flow| flow.sender.as_ref()).map_or(0, |sender| sender.packets);
        let back = flow.and_then(|flow| flow.echo.as_ref()).map_or(0, |echo| echo.packets);
        let is_echo = spec.connection.echo.is_some();
        is_echo && spec.connection.transport.datagrams() && sent > 0 && back == 0
    };
    let corrupted = |flow: &weir_model::report::FlowReport| flow.echo.as_ref()?.corrupted_packets;
    let corrupted: u64 = report.flows.iter().filter_map(corrupted).sum();
    let reason = match corrupted {
        0 => format!("no reply from UDP port {}", peer.port()),
        1.. => format!(
            "{corrupted} replies from UDP port {}, none of them intact: is the key the same?",
            peer.port()
        ),
    };
    specs.iter().all(is_silent).then(|| TrafficError::Lost {
        address: peer.into(),
        during: "the test",
        reason,
    })
}

/// Opens the sockets of all flows, each to the first address of its server that has the family of the plan's own address;
/// returns the address of the first one.
async fn open(
    config: &ClientConfig,
    plan: &Plan,
    workers: &Workers,
    additions: MakeAdditions<'_>,
) -> Result<(SocketAddr, Vec<FlowSpec>, End), TrafficError> {
    let servers = servers(config, plan).await?;
    let server = |connection: &Connection| servers.get(&server_of(connection)).copied();
    let first = plan.connections.first().and_then(server).ok_or_else(|| TrafficError::Input {
        field: "connection",
        given: "none".into(),
        accepted: "at least one".into(),
    })?;
    let specs = plan.flows(crate::family(first), session::path_mtu_bytes(first.ip()));
    let timed = Plan {
        loss_threshold: Some(weir_model::units::Span(loss_threshold_ns(plan))),
        ..plan.clone()
    };
    let key = session::random()?;
    let mut end = End::new(workers, &timed, false)
        .with_key(key)
        .with_hmac(config.hmac.clone())
        .with_host(first.ip(), plan.device.as_deref());
    for spec in &specs {
        let peer = server(&spec.connection).unwrap_or(first);
        let Additions { framing, signals, prefix, numbering } = additions(spec, peer)?;
        if spec.connection.transport.datagrams() {
            let local = shared_port(plan, &specs, spec, peer);
            let socket = session::open_datagrams(plan, spec, true, local, Some(peer))?;
            end = end.with_prefix(&prefix).with_numbering(numbering);
            end.datagrams(spec, true, socket, signals);
        } else {
            let timeout: Duration = config.connect_timeout;
            let stream = session::connect_stream(plan, spec, true, peer, timeout).await?;
            match framing {
                Some(framing) => end.framed_stream(spec, stream, framing)?,
                None => end.stream(spec, true, stream)?,
            }
        }
    }
    Ok((first, specs, end))
}

/// The server that a connection names: host and port.
type ServerName = (Option<String>, Option<u16>);

fn server_of(connection: &Connection) -> ServerName {
    (connection.host.clone(), connection.port)
}

/// The addresses of all servers.
async fn servers(
    config: &ClientConfig,
    plan: &Plan,
) -> Result<HashMap<ServerName, SocketAddr>, TrafficError> {
    let mut servers = HashMap::new();
    for connection in &plan.connections {
        let name = server_of(connection);
        if servers.contains_key(&name) {
            continue;
        }
        let host = name.0.as_ref().unwrap_or(&config.host);
        let found =
            session::resolve(host, &Plan { port: name.1.or(plan.port), ..plan.clone() }).await?;
        let fits =
            |to: &&SocketAddr| plan.bind.is_none_or(|bind| bind.first().is_ipv4() == to.is_ipv4());
        let peer = *found.iter().find(fits).ok_or_else(|| TrafficError::Input {
            field: "bind",
            given: plan.bind.map(|bind| bind.to_string()).unwrap_or_default(),
            accepted: format!("an address of the family of {host}"),
        })?;
        servers.insert(name, peer);
    }
    Ok(servers)
}

/// The local address of a flow whose port another flow has as well. The system then lets both use it.
fn shared_port(
    plan: &Plan,
    specs: &[FlowSpec],
    spec: &FlowSpec,
    peer: SocketAddr,
) -> Option<SocketAddr> {
    let port = spec.connection.client_port()?;
    let same = |other: &&FlowSpec| other.connection.client_port() == Some(port);
    if specs.iter().filter(same).count() < 2 {
        return None;
    }
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let ip = plan.bind.map_or(any[usize::from(peer.is_ipv6())], |bind| bind.first());
    Some(SocketAddr::new(ip, port))
}
