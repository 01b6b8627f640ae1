//! Builds one record from two ends' reports: totals, intervals, link usage, ledger and warnings, all by arithmetic.

mod echo;
mod link_usage;
mod rows;
mod servers;
#[cfg(test)]
mod tests;
mod totals;
mod voice;

use std::collections::BTreeMap;

use weir_model::plan::{Direction, Family, FlowSpec, Plan, Spacing};
use weir_model::record::{
    ClockRelation, CpuUse, Flow, Latency, RUN_SCHEMA, Receiver, Record, Sender, Status, TimeDraws,
    TimeSource, Totals,
};
use weir_model::report::{EndReport, FlowReport};

use crate::intervals::IntervalClock;
use crate::peer_reports::PeerReports;
use crate::{ledger, warnings};
use link_usage::link_usage;
pub(crate) use rows::add_interval;
use rows::intervals;
pub use rows::{interval, mark_missing, set_received_sum, sum};
pub use servers::{ServerPart, merge, merge_intervals, number_interval};
use totals::{Counted, total};
pub use totals::{run_seconds, totals};

/// The kind of a peer with Weir's own protocol.
pub const NATIVE_PEER: &str = "weir";

/// The inputs of a record.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The plan.
    pub plan: Plan,
    /// The plan's flows.
    pub specs: Vec<FlowSpec>,
    /// IP version used.
    pub family: Family,
    /// This end's report.
    pub local: EndReport,
    /// The other end's report, if it sent one.
    pub remote: Option<EndReport>,
    /// The kind of the other end: [`NATIVE_PEER`], or the name of another tool.
    pub peer: String,
    /// Its protocol has no report, so that a missing one is not a fault.
    pub one_sided: bool,
    /// The other end's reports during the test: all that is known of it if its final report is missing.
    pub peer_reports: PeerReports,
    /// The relation of the clocks.
    pub clock: Option<ClockRelation>,
    /// The intervals (its start does not matter).
    pub intervals: IntervalClock,
    /// How many of them have been shown already: these stay unchanged.
    pub intervals_shown: usize,
    /// How the test ended.
    pub status: Status,
    /// The reason.
    pub end_reason: String,
    /// Nominal rate of the path, and its source.
    pub nominal: Option<(u64, String)>,
    /// Round trips measured alongside the test.
    pub latency: Option<Latency>,
    /// Loss threshold.
    pub loss_threshold_ns: u64,
    /// Bytes of control traffic.
    pub control_bytes: u64,
    /// Largest IP packet of the path, as far as this host knows it.
    pub path_mtu_bytes: Option<u32>,
}

/// Builds the record. The caller fills in identity, start time, command and build.
pub fn assemble(parts: Parts) -> Record {
    let local: BTreeMap<u32, &FlowReport> = parts.local.flows.iter().map(|f| (f.id, f)).collect();
    let empty = EndReport::default();
    let far = parts.remote.as_ref().unwrap_or(&empty);
    let remote: BTreeMap<u32, &FlowReport> = far.flows.iter().map(|f| (f.id, f)).collect();
    let pairs: Vec<(&FlowSpec, Option<&FlowReport>, Option<&FlowReport>)> = parts
        .specs
        .iter()
        .map(|s| (s, local.get(&s.id).copied(), remote.get(&s.id).copied()))
        .map(|(s, near, far)| match s.connection.direction {
            Direction::Forward => (s, near, far),
            Direction::Reverse => (s, far, near),
        })
        .collect();

    let mut flows: Vec<Flow> = pairs
        .iter()
        .map(|(spec, sender, receiver)| flow(spec, parts.family, *sender, *receiver))
        .collect();
    // Of a peer without a final report, only what it reported during the test.
    let peer_reports = parts.remote.is_none().then_some(&parts.peer_reports);
    if let Some(peer_reports) = peer_reports {
        flows.iter_mut().for_each(|f| add_reported(f, peer_reports));
    }
    let mut unrated = vec![];
    for ((spec, ..), flow) in pairs.iter().zip(&mut flows) {
        let is_whole = parts.plan.omit.0 == 0;
        match voice::voice(spec, flow, parts.latency.as_ref(), is_whole).transpose() {
            Ok(voice) => flow.voice = voice,
            Err(reason) => unrated.push(reason.warning(flow.id)),
        }
    }
    let intervals = intervals(&pairs, parts.intervals, parts.intervals_shown, peer_reports);
    let mut record = Record {
        schema: RUN_SCHEMA.into(),
        status: parts.status,
        end_reason: parts.end_reason,
        seed: parts.plan.seed,
        peer: parts.peer,
        seconds: run_seconds(&flows),
        total: Totals {
            forward: total(
                &flows,
                Direction::Forward,
                &[],
                peer_reports.and_then(|h| h.receiver(0)),
            ),
            reverse: total(&flows, Direction::Reverse, &[], None),
        },
        intervals,
        histograms: pairs
            .iter()
            .flat_map(|(_, s, r)| [*s, *r].into_iter().flatten())
            .flat_map(|end| end.histograms.clone())
            .collect(),
        latency: parts.latency,
        cpu: Some(CpuUse { local: parts.local.cpu.clone(), remote: far.cpu.clone() }),
        clock: parts.clock,
        time_source: time_source(&pairs),
        control_bytes: Some(parts.control_bytes),
        omitted_seconds: (parts.plan.omit.0 > 0).then(|| parts.plan.omit.seconds()),
        loss_threshold_seconds: flows
            .iter()
            .any(|f| f.transport.datagrams())
            .then_some(parts.loss_threshold_ns as f64 / 1e9),
        local: parts.local.host.clone(),
        remote: far.host.clone(),
        plan: parts.plan,
        flows,
        ..Record::default()
    };
    if let Some((nominal, source)) = parts.nominal {
        record.link_usage = link_usage(&record, nominal, source);
    }
    record.loss_ledger = ledger::ledger(&record);
    record.warnings = parts.local.warnings;
    record.warnings.extend(far.warnings.iter().cloned());
    warnings::add(&mut record, &parts.specs, parts.path_mtu_bytes, parts.one_sided, unrated);
    record
}

fn flow(
    spec: &FlowSpec,
    family: Family,
    sender: Option<&FlowReport>,
    receiver: Option<&FlowReport>,
) -> Flow {
    let near = match spec.connection.direction {
        Direction::Forward => sender,
        Direction::Reverse => receiver,
    };
    let (mut source, mut destination) =
        near.map(|n| (n.local.clone(), n.remote.clone())).unwrap_or_default();
    if spec.connection.direction == Direction::Reverse {
        std::mem::swap(&mut source, &mut destination);
    }
    let varying_size = Some(&spec.size).filter(|size| !size.is_constant());
    let varying_spacing = Some(spec.connection.intervals()).filter(|law| !law.is_constant());
    let mut out = Flow {
        id: spec.id,
        name: spec.name.clone(),
        host: None,
        transport: spec.connection.transport.name(),
        carried_by: [sender, receiver].into_iter().flatten().find_map(|end| end.carried_by),
        family: spec.connection.transport.name().ip().then_some(family),
        direction: spec.connection.direction,
        source,
        destination,
        payload_bytes: spec.payload_bytes(),
        payload_draws: varying_size.map(Into::into),
        spacing_draws: varying_spacing.map(|law| spacing_draws(law, spec, sender)),
        payload_law: varying_size.cloned(),
        spacing_law: varying_spacing.cloned(),
        sender: sender.and_then(|s| s.sender.clone()),
        receiver: receiver.and_then(|r| r.receiver.clone()),
        transactions: near.and_then(|n| n.transactions.clone()),
        echo: near.and_then(|near| echo::echo(spec, near, receiver)),
        received_file: receiver.and_then(|r| r.received_file.clone()),
        round_trip: near.and_then(echo::round_trip),
        tcp: sender.and_then(|s| s.tcp.clone()),
        tcp_samples: sender.map(|s| s.tcp_samples.clone()).unwrap_or_default(),
        voice_codec: spec.connection.voice,
        voice: None,
        connect_seconds: near.and_then(|n| n.connect_seconds),
    };
    if let (Some(tcp), Some(window)) =
        (&mut out.tcp, receiver.and_then(|r| r.tcp.as_ref()).and_then(|t| t.receive_window_bytes))
    {
        tcp.receive_window_bytes = Some(window);
    }
    if let (Some(sent), Some(back)) = (&out.sender, &mut out.echo)
        && sent.packets > 0
        && sent.seconds > back.seconds
    {
        let per_second = |n: u64| Some(n as f64 / sent.seconds);
        back.bits_per_second = per_second(back.bytes.saturating_mul(8));
        back.packets_per_second = per_second(back.packets);
    }
    if let (Some(sent), Some(received)) = (&out.sender, &mut out.receiver)
        && !received.is_part()
    {
        rate_over_sending(sent, received);
    }
    out
}

/// What the law of a flow's intervals gives.
fn spacing_draws(law: &Spacing, spec: &FlowSpec, sender: Option<&FlowReport>) -> TimeDraws {
    let is_changed = spec.connection.rate_schedule.is_some()
        || sender.and_then(|s| s.sender.as_ref()).is_some_and(|s| !s.rate_changes.is_empty());
    let draws = TimeDraws::from(law);
    let by_rate = spec.packets_per_second().map(|rate| 1.0 / rate);
    TimeDraws { mean_seconds: draws.mean_seconds.or(by_rate).filter(|_| !is_changed), ..draws }
}

/// Fills in an end without a final report, from its reports during the test.
fn add_reported(flow: &mut Flow, peer_reports: &PeerReports) {
    match flow.direction {
        Direction::Forward if flow.receiver.is_none() => {
            flow.receiver = peer_reports.receiver(flow.id)
        }
        Direction::Reverse if flow.sender.is_none() => flow.sender = peer_reports.sender(flow.id),
        _ => {}
    }
}

/// A path that fails before its sender ends must not be credited with the time in which it still worked: rates are
/// over the time of sending if that is longer than from first to last arrival.
fn rate_over_sending(sent: &Sender, received: &mut Receiver) {
    if sent.packets == 0 || sent.seconds <= Counted::receiver(received).seconds {
        return;
    }
    let per_second = |n: u64| Some(n as f64 / sent.seconds);
    received.bits_per_second = per_second(received.bytes.saturating_mul(8));
    received.packets_per_second = per_second(received.packets);
}

fn time_source(
    pairs: &[(&FlowSpec, Option<&FlowReport>, Option<&FlowReport>)],
) -> Option<TimeSource> {
    let resolution = pairs
        .iter()
        .filter_map(|(_, _, r)| r.and_then(|r| r.time_resolution_seconds))
        .fold(0.0, f64::max);
    let mut sources: Vec<&str> = pairs
        .iter()
        .filter_map(|(_, _, r)| r.as_ref()?.time_source.as_deref())
        .flat_map(|s| s.split('+'))
        .collect();
    sources.sort_unstable();
    sources.dedup();
    if sources.is_empty() {
        return None;
    }
    let receive = sources.join("+");
    Some(TimeSource { send: "user".into(), receive, resolution_seconds: resolution })
}
