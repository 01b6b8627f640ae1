//! Tests without a control connection: the far end answers what arrives, and this end measures the answers.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use weir_flow::IntervalClock;
use weir_flow::assemble::{Parts, assemble};
use weir_model::plan::{Echo, FlowSpec, Plan};
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::record::Record;
use weir_model::report::EndReport;
use weir_traffic::session::{self, End, FlowEvent, LOSS_THRESHOLD_NS, Signals, Workers};
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

/// The messages of the protocol among the datagrams of a flow; `None`: there are none.
pub(crate) type MakeSignals<'a> = &'a mut dyn FnMut(&FlowSpec) -> Option<Box<dyn Signals>>;

/// Runs the test of a checked plan.
///
/// # Errors
/// [`Failure`] with the reason and what had been measured until then.
pub(crate) fn run(
    config: &ClientConfig,
    plan: Plan,
    signals: MakeSignals,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let test = test(config, plan, signals, stop, observe);
    crate::run_test(config, "a test without a control connection has no commands", test)
}

async fn test(
    config: &ClientConfig,
    plan: Plan,
    signals: MakeSignals<'_>,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let workers = Workers::start(&config.into())?;
    let opening = open(config, &plan, &workers, signals);
    let (peer, specs, end) = tokio::select! {
        opened = opening => opened?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    let family = crate::family(peer);
    observe(Event::Started { specs: specs.clone(), family });
    let soonest_ns = workers.now_ns() + START_NS;
    let intervals = IntervalClock {
        start_ns: config.start_at_ns.map_or(soonest_ns, |at| at.max(soonest_ns)),
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
        plan: Plan { host: Some(config.host.clone()), ..plan.clone() },
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
        spec.connection.transport.datagrams() && sent > 0 && back == 0
    };
    specs.iter().all(is_silent).then(|| TrafficError::Lost {
        address: peer.into(),
        during: "the test",
        reason: format!("no reply from UDP port {}", peer.port()),
    })
}

/// Opens the sockets of all flows, to the first address of the server that has the family of the plan's own address.
async fn open(
    config: &ClientConfig,
    plan: &Plan,
    workers: &Workers,
    signals: MakeSignals<'_>,
) -> Result<(SocketAddr, Vec<FlowSpec>, End), TrafficError> {
    let found = session::resolve(&config.host, plan).await?;
    let fits =
        |to: &&SocketAddr| plan.bind.is_none_or(|bind| bind.first().is_ipv4() == to.is_ipv4());
    let peer = *found.iter().find(fits).ok_or_else(|| TrafficError::Input {
        field: "bind",
        given: plan.bind.map(|bind| bind.to_string()).unwrap_or_default(),
        accepted: format!("an address of the family of {}", config.host),
    })?;
    let specs = plan.flows(crate::family(peer), session::path_mtu_bytes(peer.ip()));
    let timed = Plan {
        loss_threshold: Some(weir_model::units::Span(loss_threshold_ns(plan))),
        ..plan.clone()
    };
    let key = session::random()?;
    let mut end =
        End::new(workers, &timed, false).with_key(key).with_host(peer.ip(), plan.device.as_deref());
    for spec in &specs {
        if spec.connection.transport.datagrams() {
            let socket = session::open_datagrams(plan, spec, true, None, Some(peer))?;
            end.datagrams(spec, true, socket, signals(spec));
        } else {
            let timeout: Duration = config.connect_timeout;
            let stream = session::connect_stream(plan, spec, true, peer, timeout).await?;
            end.stream(spec, true, stream)?;
        }
    }
    Ok((peer, specs, end))
}
