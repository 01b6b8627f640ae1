//! A test with several servers: one record for each server becomes one record of all.

use weir_model::plan::{Direction, Plan, TransportName};
use weir_model::record::{
    ClockRelation, CpuUse, Host, Interval, IntervalCount, IntervalEnds, IntervalFlow, LedgerRow,
    LossLedger, RUN_SCHEMA, Record, Server, Status, TimeSource, Totals,
};

use super::link_usage::link_usage;
use super::rows::{add_interval, drop_partial};
use super::totals::{representatives, run_seconds, total};
use crate::ledger::ledger;

/// One server's part of a test.
#[derive(Debug, Clone)]
pub struct ServerPart {
    /// The server's name in the results.
    pub name: String,
    /// Numbers of its flows in the whole test; its own record counts them from 1.
    pub flows: Vec<u32>,
    /// Its record.
    pub record: Record,
}

impl ServerPart {
    /// Numbers the flows of its record as in the whole test.
    fn number(&mut self) {
        let ServerPart { name, flows, record } = self;
        for flow in &mut record.flows {
            flow.id = number(flows, flow.id);
            flow.host = Some(name.clone());
        }
        for interval in &mut record.intervals {
            number_interval(interval, flows);
        }
        for histogram in &mut record.histograms {
            histogram.flow = histogram.flow.map(|id| number(flows, id));
        }
        for warning in &mut record.warnings {
            warning.flow = warning.flow.map(|id| number(flows, id));
        }
        // Its rows name the flows by their numbers.
        record.loss_ledger = ledger(record);
    }
}

/// The number in the whole test of flow `id` of one server; 0, which no flow has, for an unknown one.
fn number(flows: &[u32], id: u32) -> u32 {
    let index = id.checked_sub(1).map(|index| index as usize);
    index.and_then(|index| flows.get(index)).copied().unwrap_or(0)
}

/// Numbers the flows of one server's interval as in the whole test; `flows` as in [`ServerPart::flows`].
pub fn number_interval(interval: &mut Interval, flows: &[u32]) {
    for flow in &mut interval.flows {
        flow.id = number(flows, flow.id);
    }
}

/// The record of a test of `plan` with several servers. Totals are over all flows. What depends on the server is in
/// `servers`; the relation of the clocks is that with the largest bound, and absent if one is unknown.
pub fn merge(plan: Plan, mut parts: Vec<ServerPart>) -> Record {
    parts.iter_mut().for_each(ServerPart::number);
    let records = || parts.iter().map(|part| &part.record);
    let mut flows: Vec<_> = records().flat_map(|r| r.flows.iter().cloned()).collect();
    flows.sort_by_key(|flow| flow.id);
    let shared = plan.shared_streams();
    let (status, end_reason) = end(&parts);
    let sum_of_control = records().filter_map(|r| r.control_bytes).reduce(u64::saturating_add);
    let local_cpu = records().filter_map(|r| r.cpu.as_ref()?.local.clone());
    let local_cpu = local_cpu.max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let mut record = Record {
        schema: RUN_SCHEMA.into(),
        status,
        end_reason,
        seed: plan.seed,
        peer: records().next().map(|r| r.peer.clone()).unwrap_or_default(),
        seconds: run_seconds(&flows),
        total: Totals {
            forward: total(&flows, Direction::Forward, &shared, None),
            reverse: total(&flows, Direction::Reverse, &shared, None),
        },
        intervals: intervals(&parts, &flows, &shared),
        histograms: records().flat_map(|r| r.histograms.iter().cloned()).collect(),
        cpu: local_cpu.map(|local| CpuUse { local: Some(local), remote: None }),
        clock: worst_clock(records()),
        time_source: time_source(records()),
        control_bytes: sum_of_control,
        omitted_seconds: records().find_map(|r| r.omitted_seconds),
        loss_threshold_seconds: records()
            .filter_map(|r| r.loss_threshold_seconds)
            .max_by(f64::total_cmp),
        local: local(records()),
        loss_ledger: loss_ledger(&parts),
        warnings: warnings(&parts),
        plan,
        flows,
        ..Record::default()
    };
    if let Some((nominal, source)) = nominal(&parts) {
        record.link_usage = link_usage(&record, nominal, source);
    }
    record.servers = parts.into_iter().map(server).collect();
    record
}

fn server(ServerPart { name, record, .. }: ServerPart) -> Server {
    Server {
        name,
        status: record.status,
        end_reason: record.end_reason,
        total: record.total,
        host: record.remote,
        clock: record.clock,
        latency: record.latency,
        cpu: record.cpu.and_then(|cpu| cpu.remote),
    }
}

/// How the test ended: interrupted if any part was, else partial if any part is, with the names of these servers.
fn end(parts: &[ServerPart]) -> (Status, String) {
    let of = |status| parts.iter().filter(move |part| part.record.status == status);
    let partial: Vec<String> = of(Status::Partial)
        .map(|part| format!("{}: {}", part.name, part.record.end_reason))
        .collect();
    let partial = partial.join("; ");
    if let Some(interrupted) = of(Status::Interrupted).next() {
        let reason = interrupted.record.end_reason.clone();
        let both = format!("{reason}; {partial}");
        return (Status::Interrupted, if partial.is_empty() { reason } else { both });
    }
    if !partial.is_empty() {
        return (Status::Partial, partial);
    }
    let reason = parts.first().map(|part| part.record.end_reason.clone());
    (Status::Complete, reason.unwrap_or_default())
}

fn worst_clock<'a>(records: impl Iterator<Item = &'a Record>) -> Option<ClockRelation> {
    let clocks: Option<Vec<_>> = records.map(|r| r.clock.clone()).collect();
    clocks?.into_iter().max_by(|a, b| a.error_seconds.total_cmp(&b.error_seconds))
}

fn time_source<'a>(records: impl Iterator<Item = &'a Record>) -> Option<TimeSource> {
    let sources: Vec<&TimeSource> = records.filter_map(|r| r.time_source.as_ref()).collect();
    let mut receive: Vec<&str> = sources.iter().flat_map(|s| s.receive.split('+')).collect();
    receive.sort_unstable();
    receive.dedup();
    let resolutions = sources.iter().map(|s| s.resolution_seconds);
    Some(TimeSource {
        send: sources.first()?.send.clone(),
        receive: receive.join("+"),
        resolution_seconds: resolutions.fold(0.0, f64::max),
    })
}

/// This side's host, with the interfaces towards all servers.
fn local<'a>(records: impl Iterator<Item = &'a Record>) -> Option<Host> {
    let mut hosts = records.filter_map(|r| r.local.clone());
    let mut out = hosts.next()?;
    for host in hosts {
        for interface in host.interfaces {
            if out.interfaces.iter().all(|known| known.name != interface.name) {
                out.interfaces.push(interface);
            }
        }
        // The parts of the test took slightly different times: the longest count includes the others.
        for (name, count) in host.counters {
            let known = out.counters.entry(name).or_default();
            *known = count.max(*known);
        }
    }
    Some(out)
}

/// The nominal rate and its source, if it is the same for all servers that received anything.
fn nominal(parts: &[ServerPart]) -> Option<(u64, String)> {
    let mut out = None;
    for ServerPart { record, .. } in parts {
        let received = |r: &weir_model::record::Receiver| r.bytes > 0;
        let any = record.flows.iter().filter_map(|f| f.receiver.as_ref()).any(received);
        if !any {
            continue;
        }
        let usage = record.link_usage.as_ref()?;
        let own = (usage.nominal_bits_per_second, usage.source.clone());
        if out.as_ref().is_some_and(|known| *known != own) {
            return None;
        }
        out = Some(own);
    }
    out
}

/// The parts' ledgers in one. Counters that several parts share, those of this host, are in it once.
fn loss_ledger(parts: &[ServerPart]) -> Option<LossLedger> {
    let mut out: Option<LossLedger> = None;
    for ServerPart { name, record, .. } in parts {
        let Some(ledger) = &record.loss_ledger else {
            if record.flows.iter().any(|f| f.transport.datagrams()) {
                return None;
            }
            continue;
        };
        let sum = out.get_or_insert_default();
        sum.missing_packets = sum.missing_packets.saturating_add(ledger.missing_packets);
        for row in &ledger.rows {
            let mut row = row.clone();
            if row.side.as_deref() == Some("remote") && !record.is_one_namespace() {
                row.source += &format!(" at {name}");
            }
            let same = |known: &&mut LedgerRow| {
                (&known.stage, &known.source, &known.side) == (&row.stage, &row.source, &row.side)
            };
            match sum.rows.iter_mut().find(same) {
                Some(known) => {
                    // What counts for several parts is not the count of any of them.
                    known.kind = "bound".into();
                    known.packets = known.packets.max(row.packets);
                }
                None => sum.rows.push(row),
            }
        }
    }
    if let Some(sum) = &mut out {
        sum.settle();
    }
    out
}

/// The parts' warnings, each once. One about the run names the server that it concerns, unless others say the same.
fn warnings(parts: &[ServerPart]) -> Vec<weir_model::warning::Warning> {
    let all = || parts.iter().flat_map(|part| &part.record.warnings);
    let mut out: Vec<weir_model::warning::Warning> = vec![];
    for ServerPart { name, record, .. } in parts {
        for warning in &record.warnings {
            let alike = all().filter(|w| w.code == warning.code && w.text == warning.text);
            let mut warning = warning.clone();
            if warning.flow.is_none() {
                if alike.count() == 1 {
                    warning.text = format!("test with {name}: {}", warning.text);
                } else if out.iter().any(|w| w.code == warning.code && w.text == warning.text) {
                    continue;
                }
            }
            out.push(warning);
        }
    }
    out
}

fn intervals(
    parts: &[ServerPart],
    flows: &[weir_model::record::Flow],
    shared: &[Vec<u32>],
) -> Vec<Interval> {
    let kind = |id| {
        let index = flows.binary_search_by_key(&id, |flow| flow.id).ok()?;
        Some((flows[index].direction, flows[index].transport))
    };
    let count = parts.iter().map(|part| part.record.intervals.len()).max().unwrap_or(0);
    let at = |i| parts.iter().filter_map(move |part| part.record.intervals.get(i));
    (0..count).map(|i| merge_intervals(at(i), kind, shared)).collect()
}

/// The time that the rates of a sum are over, within an interval of `length` seconds.
fn seconds_of(count: &IntervalCount, length: f64) -> f64 {
    let over = |amount: f64, rate: Option<f64>| rate.filter(|r| *r > 0.0).map(|r| amount / r);
    over(8.0 * count.bytes as f64, count.bits_per_second)
        .or_else(|| over(count.packets as f64, count.packets_per_second))
        .unwrap_or(length)
}

/// Adds the sum of one server to that of all.
fn add(to: &mut Option<IntervalCount>, seconds: &mut f64, count: &IntervalCount, length: f64) {
    let earlier = to.as_ref().and_then(|sum| sum.earlier_lost_packets);
    add_interval(to, count);
    if let Some(sum) = to {
        let both = earlier.into_iter().chain(count.earlier_lost_packets);
        sum.earlier_lost_packets = both.reduce(i64::saturating_add);
    }
    *seconds = seconds.max(seconds_of(count, length));
}

/// The sums of one direction in one interval. `parts`: for each server its sums, the number of its flows, and the length
/// of its interval.
fn merge_ends<'a>(parts: impl Iterator<Item = (&'a IntervalEnds, u32, f64)>) -> IntervalEnds {
    let mut out = IntervalEnds::default();
    let (mut sending, mut receiving) = (0.0, 0.0);
    let (mut is_partial, mut counts) = (false, [0u32; 3]);
    for (ends, flows, length) in parts {
        for (to, seconds, count) in [
            (&mut out.sender, &mut sending, &ends.sender),
            (&mut out.receiver, &mut receiving, &ends.receiver),
        ] {
            if let Some(count) = count {
                add(to, seconds, count, length);
            }
        }
        is_partial |= ends.flows.is_some();
        let own = [ends.flows, ends.sender_flows, ends.receiver_flows];
        for (sum, own) in counts.iter_mut().zip(own) {
            *sum = sum.saturating_add(own.unwrap_or(flows));
        }
    }
    for (sum, seconds) in [(&mut out.sender, sending), (&mut out.receiver, receiving)] {
        let Some(sum) = sum else { continue };
        let per_second = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
        sum.bits_per_second = per_second(8.0 * sum.bytes as f64);
        sum.packets_per_second = per_second(sum.packets as f64);
    }
    if is_partial {
        [out.flows, out.sender_flows, out.receiver_flows] = counts.map(Some);
    }
    out
}

/// One interval of all servers, of those in which they have it. `kind`: direction and transport of a flow by its number
/// in the whole test, as the intervals have it. `shared`: numbers of the flows that share a sender.
pub fn merge_intervals<'a>(
    parts: impl Iterator<Item = &'a Interval> + Clone,
    kind: impl Fn(u32) -> Option<(Direction, TransportName)>,
    shared: &[Vec<u32>],
) -> Interval {
    let mut out = Interval {
        start_seconds: parts.clone().map(|i| i.start_seconds).fold(f64::INFINITY, f64::min),
        end_seconds: parts.clone().map(|i| i.end_seconds).fold(0.0, f64::max),
        omitted: parts.clone().any(|i| i.omitted),
        flows: parts.clone().flat_map(|i| i.flows.iter().cloned()).collect(),
        ..Interval::default()
    };
    out.flows.sort_by_key(|flow| flow.id);
    for direction in [Direction::Forward, Direction::Reverse] {
        let is_there = |id| kind(id).is_some_and(|(of, _)| of == direction);
        let ends = parts.clone().filter_map(|i| {
            let ends = match direction {
                Direction::Forward => i.total.forward.as_ref()?,
                Direction::Reverse => i.total.reverse.as_ref()?,
            };
            let flows = i.flows.iter().filter(|flow| is_there(flow.id)).count();
            Some((ends, flows as u32, i.end_seconds - i.start_seconds))
        });
        let mut sums = ends.clone().next().map(|_| merge_ends(ends));
        if let Some(sum) = sums.as_mut().and_then(|sums| sums.receiver.as_mut()) {
            let datagrams = |id| kind(id).is_some_and(|(_, transport)| transport.datagrams());
            let receivers = out.flows.iter().filter(|f| is_there(f.id) && datagrams(f.id));
            receivers.filter_map(|f| f.receiver.as_ref()).for_each(|c| drop_partial(sum, c));
        }
        match direction {
            Direction::Forward => out.total.forward = sums,
            Direction::Reverse => out.total.reverse = sums,
        }
    }
    if let Some(forward) = &mut out.total.forward {
        remove_copies(forward, &out.flows, shared);
    }
    out
}

/// Removes what sums count several times: the sender of a stream with several receivers, and all receivers but the one with
/// the fewest packets.
fn remove_copies(sums: &mut IntervalEnds, flows: &[IntervalFlow], shared: &[Vec<u32>]) {
    if shared.is_empty() {
        return;
    }
    let packets = |f: &IntervalFlow| f.receiver.as_ref().map(|r| r.packets);
    let sent = |f: &IntervalFlow| f.sender.as_ref().map(|s| s.packets);
    for (flow, [sends, receives]) in representatives(flows.iter(), shared, |f| f.id, sent, packets)
    {
        let ends = [
            (&mut sums.sender, flow.sender.as_ref(), sends),
            (&mut sums.receiver, flow.receiver.as_ref(), receives),
        ];
        for (sum, own, is_counted) in ends {
            if let (Some(sum), Some(own), false) = (sum.as_mut(), own, is_counted) {
                subtract(sum, own);
            }
        }
    }
}

/// Subtracts one flow's counts from a sum of the same time.
fn subtract(sum: &mut IntervalCount, own: &IntervalCount) {
    let seconds = seconds_of(sum, 0.0);
    sum.bytes = sum.bytes.saturating_sub(own.bytes);
    sum.packets = sum.packets.saturating_sub(own.packets);
    for (sum, own) in [
        (&mut sum.lost_packets, own.lost_packets),
        (&mut sum.lost_before_packets, own.lost_before_packets),
        (&mut sum.duplicate_packets, own.duplicate_packets),
        (&mut sum.reordered_packets, own.reordered_packets),
    ] {
        *sum = sum.map(|sum| sum.saturating_sub(own.unwrap_or(0)));
    }
    // As in the lines of the flows, absent rather than 0.
    let earlier = sum.earlier_lost_packets.unwrap_or(0);
    let earlier = earlier.saturating_sub(own.earlier_lost_packets.unwrap_or(0));
    sum.earlier_lost_packets = (earlier != 0).then_some(earlier);
    if seconds > 0.0 {
        sum.bits_per_second = Some(8.0 * sum.bytes as f64 / seconds);
        sum.packets_per_second = Some(sum.packets as f64 / seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::{CpuEnd, Flow, IntervalTotals, Latency, Receiver, Sender};
    use weir_model::warning::{Severity, Warning};

    /// A datagram flow that sent 1000 packets of 1000 bytes in a second, of which `lost` were lost.
    fn flow(id: u32, lost: u64) -> Flow {
        let packets = 1000 - lost;
        Flow {
            id,
            transport: TransportName::Udp,
            payload_bytes: 1000,
            sender: Some(Sender {
                packets: 1000,
                bytes: 1_000_000,
                seconds: 1.0,
                start_seconds: Some(0.0),
                end_seconds: Some(1.0),
                bits_per_second: Some(8e6),
                packets_per_second: Some(1000.0),
                ..Sender::default()
            }),
            receiver: Some(Receiver {
                packets,
                bytes: 1000 * packets,
                seconds: 1.0,
                start_seconds: Some(0.0),
                end_seconds: Some(1.0),
                lost_packets: Some(lost),
                late_packets: Some(lost),
                bits_per_second: Some(8000.0 * packets as f64),
                packets_per_second: Some(packets as f64),
                ..Receiver::default()
            }),
            ..Flow::default()
        }
    }

    fn count(packets: u64, seconds: f64) -> IntervalCount {
        IntervalCount {
            packets,
            bytes: 1000 * packets,
            lost_packets: Some(1),
            bits_per_second: Some(8000.0 * packets as f64 / seconds),
            packets_per_second: Some(packets as f64 / seconds),
            ..IntervalCount::default()
        }
    }

    /// An interval from 0 to 1 s of flows with these numbers, each of 100 packets.
    fn interval(flows: &[u32]) -> Interval {
        let ends = |n: u64| IntervalEnds {
            sender: Some(count(100 * n, 1.0)),
            receiver: Some(count(100 * n, 1.0)),
            ..IntervalEnds::default()
        };
        Interval {
            end_seconds: 1.0,
            flows: flows
                .iter()
                .map(|id| IntervalFlow {
                    id: *id,
                    sender: Some(count(100, 1.0)),
                    receiver: Some(count(100, 1.0)),
                })
                .collect(),
            total: IntervalTotals { forward: Some(ends(flows.len() as u64)), reverse: None },
            ..Interval::default()
        }
    }

    fn part(name: &str, flows: &[u32], error_seconds: f64) -> ServerPart {
        let own = 1..=flows.len() as u32;
        let record = Record {
            flows: own.clone().map(|id| flow(id, 10)).collect(),
            intervals: vec![interval(&own.collect::<Vec<_>>())],
            clock: Some(ClockRelation { error_seconds, ..ClockRelation::default() }),
            latency: Some(Latency { sent: 5, ..Latency::default() }),
            cpu: Some(CpuUse {
                local: Some(CpuEnd { seconds: error_seconds, ..CpuEnd::default() }),
                remote: Some(CpuEnd::default()),
            }),
            remote: Some(Host { host: name.into(), ..Host::default() }),
            control_bytes: Some(100),
            end_reason: "all flows ended".into(),
            ..Record::default()
        };
        ServerPart { name: name.into(), flows: flows.to_vec(), record }
    }

    fn both() -> Vec<ServerPart> {
        vec![part("a", &[1, 3], 0.25), part("b", &[2], 0.5)]
    }

    #[test]
    fn flows_have_the_numbers_of_the_whole_test_and_their_server() {
        let mut parts = both();
        let warned = Warning::new("x", Severity::Info, "of a flow").for_flow(2);
        parts[0].record.warnings.push(warned);
        let record = merge(Plan::default(), parts);
        let flows: Vec<_> = record.flows.iter().map(|f| (f.id, f.host.as_deref())).collect();
        assert_eq!(flows, [(1, Some("a")), (2, Some("b")), (3, Some("a"))]);
        assert_eq!(record.warnings[0].flow, Some(3));
        let of_intervals: Vec<u32> = record.intervals[0].flows.iter().map(|f| f.id).collect();
        assert_eq!(of_intervals, [1, 2, 3]);
        let rows = &record.loss_ledger.as_ref().unwrap().rows;
        assert!(rows.iter().any(|r| r.source.contains("(flow 3)") && r.source.ends_with(" at a")));
    }

    #[test]
    fn totals_are_over_all_flows() {
        let record = merge(Plan::default(), both());
        let total = record.total.forward.as_ref().unwrap();
        let (sender, receiver) = (total.sender.as_ref().unwrap(), total.receiver.as_ref().unwrap());
        assert_eq!((sender.packets, receiver.packets), (3000, 2970));
        assert_eq!((receiver.lost_packets, receiver.loss_ratio), (Some(30), Some(0.01)));
        assert_eq!((sender.bits_per_second, record.seconds), (Some(24e6), 1.0));
        let ledger = record.loss_ledger.as_ref().unwrap();
        assert_eq!((ledger.missing_packets, ledger.remainder_packets), (30, 0));
        assert_eq!(record.control_bytes, Some(200));
        let ends = record.intervals[0].total.forward.as_ref().unwrap();
        let receiver = ends.receiver.as_ref().unwrap();
        assert_eq!((receiver.packets, receiver.lost_packets, ends.flows), (300, Some(2), None));
        assert_eq!(receiver.bits_per_second, Some(2.4e6));
    }

    #[test]
    fn what_depends_on_the_server_is_stated_for_each() {
        let mut parts = both();
        let total = total(&parts[1].record.flows, Direction::Forward, &[], None);
        parts[1].record.total.forward.clone_from(&total);
        let record = merge(Plan::default(), parts);
        assert_eq!(record.clock.as_ref().map(|c| c.error_seconds), Some(0.5));
        assert!(record.remote.is_none() && record.latency.is_none());
        let cpu = record.cpu.as_ref().unwrap();
        assert!(cpu.remote.is_none() && cpu.local.as_ref().is_some_and(|c| c.seconds == 0.5));
        assert!(total.is_some() && record.servers[1].total.forward == total);
        let servers: Vec<_> = record
            .servers
            .iter()
            .map(|s| (s.name.as_str(), s.host.as_ref().unwrap().host.as_str()))
            .collect();
        assert_eq!(servers, [("a", "a"), ("b", "b")]);
        assert!(record.servers.iter().all(|s| s.clock.is_some() && s.latency.is_some()));
        // One unknown relation leaves no bound for all.
        let mut parts = both();
        parts[0].record.clock = None;
        assert!(merge(Plan::default(), parts).clock.is_none());
    }

    #[test]
    fn a_lost_server_makes_the_record_partial() {
        let mut parts = both();
        let lost = &mut parts[1].record;
        (lost.status, lost.end_reason) = (Status::Partial, "lost".into());
        lost.flows[0].receiver = None;
        lost.intervals.clear();
        let record = merge(Plan::default(), parts.clone());
        assert_eq!((record.status, record.end_reason.as_str()), (Status::Partial, "b: lost"));
        let of_servers: Vec<Status> = record.servers.iter().map(|s| s.status).collect();
        assert_eq!(of_servers, [Status::Complete, Status::Partial]);
        assert!(record.loss_ledger.is_none() && !record.is_loss_known(Direction::Forward));
        assert_eq!(record.intervals[0].flows.len(), 2);
        parts[0].record.status = Status::Interrupted;
        assert_eq!(merge(Plan::default(), parts).status, Status::Interrupted);
    }

    #[test]
    fn a_warning_of_the_run_names_its_server_unless_all_share_it() {
        let mut parts = both();
        let warn = |text: &str| Warning::new("x", Severity::Info, text);
        parts[0].record.warnings = vec![warn("shared"), warn("own")];
        parts[1].record.warnings = vec![warn("shared")];
        let texts: Vec<String> =
            merge(Plan::default(), parts).warnings.into_iter().map(|w| w.text).collect();
        assert_eq!(texts, ["shared", "test with a: own"]);
    }

    #[test]
    fn a_sum_of_fewer_flows_than_ran_says_so() {
        let (whole, mut partial) = (interval(&[1, 3]), interval(&[2]));
        let ends = partial.total.forward.as_mut().unwrap();
        ends.receiver = None;
        (ends.flows, ends.sender_flows, ends.receiver_flows) = (Some(1), Some(1), Some(0));
        partial.flows[0].receiver = None;
        let kind = |_| Some((Direction::Forward, TransportName::Udp));
        let merged = merge_intervals([&whole, &partial].into_iter(), kind, &[]);
        let ends = merged.total.forward.unwrap();
        let counts = (ends.flows, ends.sender_flows, ends.receiver_flows);
        assert_eq!(counts, (Some(3), Some(3), Some(2)));
        assert_eq!(ends.receiver.unwrap().packets, 200);
        assert!(merged.total.reverse.is_none());
    }

    #[test]
    fn rates_of_senders_that_ended_early_are_over_their_time() {
        let (mut first, mut second) = (interval(&[1]), interval(&[2]));
        for (i, seconds) in [(&mut first, 0.25), (&mut second, 0.5)] {
            i.total.forward.as_mut().unwrap().sender = Some(count(100, seconds));
        }
        second.end_seconds = 0.5;
        let merged = merge_intervals([&first, &second].into_iter(), |_| None, &[]);
        assert_eq!((merged.start_seconds, merged.end_seconds), (0.0, 1.0));
        let sender = merged.total.forward.unwrap().sender.unwrap();
        assert_eq!(sender.bits_per_second, Some(3.2e6));
    }

    #[test]
    fn link_usage_needs_one_nominal_rate() {
        let usage = |rate, source: &str| {
            let flows = [flow(1, 0)].to_vec();
            link_usage(&Record { flows, ..Record::default() }, rate, source.into())
        };
        let mut parts = both();
        for part in &mut parts {
            part.record.link_usage = usage(100_000_000, "stated");
        }
        let record = merge(Plan::default(), parts.clone());
        let ratio = record.link_usage.unwrap().payload_ratio;
        assert!((ratio - 0.2376).abs() < 1e-9, "{ratio}");
        parts[1].record.link_usage = usage(100_000_000, "eth1");
        assert!(merge(Plan::default(), parts).link_usage.is_none());
    }

    #[test]
    fn link_usage_counts_a_shared_stream_once_whichever_server_failed() {
        let to = |host: &str| {
            format!(
                "[[connection]]\nhost = \"{host}\"\ntransport = \"multicast\"\ngroup = \"239.1.1.1\"\n"
            )
        };
        let plan = Plan::parse(&["schema = \"weir.plan/1\"\n", &to("a"), &to("b")].concat());
        let mut flows = vec![flow(1, 0), flow(2, 0)];
        flows.iter_mut().for_each(|f| f.transport = TransportName::Multicast);
        let mut record = Record { plan: plan.unwrap(), flows, ..Record::default() };
        let usage = |record: &Record| link_usage(record, 100_000_000, "stated".into());
        let whole = usage(&record).unwrap();
        assert!((whole.payload_ratio - 0.08).abs() < 1e-9, "{whole:?}");
        for failed in [0, 1] {
            let receiver = record.flows[failed].receiver.take();
            assert_eq!(usage(&record), Some(whole.clone()), "{failed}");
            record.flows[failed].receiver = receiver;
        }
    }

    #[test]
    fn a_copy_is_subtracted_with_the_losses_of_earlier_intervals() {
        let count = |packets, earlier| IntervalCount {
            packets,
            bytes: packets,
            lost_packets: Some(1),
            earlier_lost_packets: earlier,
            ..IntervalCount::default()
        };
        let mut sum = count(20, Some(5));
        subtract(&mut sum, &count(10, Some(3)));
        assert_eq!((sum.packets, sum.earlier_lost_packets), (10, Some(2)));
        subtract(&mut sum, &count(5, Some(2)));
        assert_eq!(sum.earlier_lost_packets, None);
    }
}
