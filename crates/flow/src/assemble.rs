//! Two ends' reports become one record: totals, intervals, link usage, ledger and warnings, all by arithmetic.

use std::collections::BTreeMap;

use weir_model::plan::{Direction, Family, FlowSpec, Plan, Transport};
use weir_model::record::{
    ClockRelation, CpuUse, DirectionTotal, Flow, Interval, IntervalCount, IntervalEnds,
    IntervalFlow, IntervalTotals, Latency, LinkUsage, RUN_SCHEMA, Receiver, Record, Sender, Status,
    Sums, TimeSource, Totals,
};
use weir_model::report::{EndReport, FlowReport};
use weir_stats::{LinkFamily, LinkShape, LinkTransport};

use crate::intervals::IntervalClock;
use crate::{ledger, warnings};

/// What a record is made of.
#[derive(Debug, Clone)]
pub struct Parts {
    /// What was asked.
    pub plan: Plan,
    /// The plan's flows.
    pub specs: Vec<FlowSpec>,
    /// IP version used.
    pub family: Family,
    /// This side.
    pub local: EndReport,
    /// The other side, if it reported.
    pub remote: Option<EndReport>,
    /// The clocks.
    pub clock: Option<ClockRelation>,
    /// The intervals (its start does not matter).
    pub intervals: IntervalClock,
    /// How it ended.
    pub status: Status,
    /// Why.
    pub end_reason: String,
    /// Nominal rate of the path and where it is from.
    pub nominal: Option<(u64, String)>,
    /// Round trips beside the test.
    pub latency: Option<Latency>,
    /// Loss threshold.
    pub loss_threshold_ns: u64,
    /// Bytes of control traffic.
    pub control_bytes: u64,
}

/// Makes the record. Identity, start time, command and build are the caller's to fill.
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

    let flows: Vec<Flow> = pairs
        .iter()
        .map(|(spec, sender, receiver)| flow(spec, parts.family, *sender, *receiver))
        .collect();
    let intervals = intervals(&pairs, parts.intervals);
    let mut record = Record {
        schema: RUN_SCHEMA.into(),
        status: parts.status,
        end_reason: parts.end_reason,
        seed: parts.plan.seed,
        peer: "weir".into(),
        seconds: flows
            .iter()
            .flat_map(|f| {
                [f.sender.as_ref().map(|s| s.seconds), f.receiver.as_ref().map(|r| r.seconds)]
            })
            .flatten()
            .fold(0.0, f64::max),
        total: Totals {
            forward: total(&flows, Direction::Forward),
            reverse: total(&flows, Direction::Reverse),
        },
        intervals,
        histograms: pairs
            .iter()
            .flat_map(|(_, _, r)| r.map(|r| r.histograms.clone()).unwrap_or_default())
            .collect(),
        latency: parts.latency,
        cpu: Some(CpuUse { local: parts.local.cpu.clone(), remote: far.cpu.clone() }),
        clock: parts.clock,
        time_source: time_source(&pairs),
        control_bytes: Some(parts.control_bytes),
        omitted_seconds: (parts.plan.omit.0 > 0).then(|| parts.plan.omit.seconds()),
        loss_threshold_seconds: flows
            .iter()
            .any(|f| f.transport == Transport::Udp)
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
    warnings::add(&mut record, &parts.specs);
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
    let mut out = Flow {
        id: spec.id,
        name: spec.name.clone(),
        transport: spec.connection.transport,
        family: Some(family),
        direction: spec.connection.direction,
        source,
        destination,
        payload_bytes: spec.payload_bytes,
        sender: sender.and_then(|s| s.sender.clone()),
        receiver: receiver.and_then(|r| r.receiver.clone()),
        round_trip: None,
        tcp: sender.and_then(|s| s.tcp.clone()),
        tcp_samples: sender.map(|s| s.tcp_samples.clone()).unwrap_or_default(),
        connect_seconds: near.and_then(|n| n.connect_seconds),
    };
    if let (Some(tcp), Some(window)) =
        (&mut out.tcp, receiver.and_then(|r| r.tcp.as_ref()).and_then(|t| t.receive_window_bytes))
    {
        tcp.receive_window_bytes = Some(window);
    }
    out
}

fn time_source(
    pairs: &[(&FlowSpec, Option<&FlowReport>, Option<&FlowReport>)],
) -> Option<TimeSource> {
    let resolution = pairs
        .iter()
        .filter_map(|(_, _, r)| r.and_then(|r| r.time_resolution_seconds))
        .fold(0.0, f64::max);
    let receive = pairs.iter().find_map(|(_, _, r)| r.and_then(|r| r.time_source.clone()))?;
    Some(TimeSource { send: "user".into(), receive, resolution_seconds: resolution })
}

/// Adds what one end sent or received to a sum.
fn add_sender(sums: &mut Sums, s: &Sender) {
    sums.bytes += s.bytes;
    sums.packets += s.packets;
    sums.seconds = sums.seconds.max(s.seconds);
    if let Some(missed) = s.missed_slots {
        *sums.missed_slots.get_or_insert(0) += missed;
    }
}

fn add_receiver(sums: &mut Sums, r: &Receiver) {
    sums.bytes += r.bytes;
    sums.packets += r.packets;
    sums.seconds = sums.seconds.max(r.seconds);
    let mut add = |to: fn(&mut Sums) -> &mut Option<u64>, value: Option<u64>| {
        if let Some(v) = value {
            *to(sums).get_or_insert(0) += v;
        }
    };
    add(|s| &mut s.lost_packets, r.lost_packets);
    add(|s| &mut s.late_packets, r.late_packets);
    add(|s| &mut s.duplicate_packets, r.duplicate_packets);
    add(|s| &mut s.reordered_packets, r.reordered_packets);
    add(|s| &mut s.corrupted_packets, r.corrupted_packets);
}

/// The longest time over which one of several flows counted, by its own figures; a receiver's is slightly longer than
/// first to last packet, since n packets span n gaps.
fn span_seconds(bytes: u64, packets: u64, bits_per_second: f64, packets_per_second: f64) -> f64 {
    if packets_per_second > 0.0 {
        packets as f64 / packets_per_second
    } else if bits_per_second > 0.0 {
        8.0 * bytes as f64 / bits_per_second
    } else {
        0.0
    }
}

/// A sum's rates: all that was carried over the longest flow's time. Adding the flows' own rates would give more than
/// ever crossed when some are shorter than others.
fn set_rates(sums: &mut Sums, span: f64) {
    if span > 0.0 {
        sums.bits_per_second = 8.0 * sums.bytes as f64 / span;
        sums.packets_per_second = sums.packets as f64 / span;
    }
}

fn total(flows: &[Flow], direction: Direction) -> Option<DirectionTotal> {
    let mut out = DirectionTotal::default();
    let (mut sender_span, mut receiver_span) = (0.0_f64, 0.0_f64);
    for f in flows.iter().filter(|f| f.direction == direction) {
        if let Some(s) = &f.sender {
            let sums = out.sender.get_or_insert_with(Sums::default);
            add_sender(sums, s);
            sender_span = sender_span.max(span_seconds(
                s.bytes,
                s.packets,
                s.bits_per_second,
                s.packets_per_second,
            ));
            if let Some(tcp) = &f.tcp {
                *sums.retransmits.get_or_insert(0) += tcp.retransmits;
            }
        }
        if let Some(r) = &f.receiver {
            let sums = out.receiver.get_or_insert_with(Sums::default);
            add_receiver(sums, r);
            receiver_span = receiver_span.max(span_seconds(
                r.bytes,
                r.packets,
                r.bits_per_second,
                r.packets_per_second,
            ));
        }
    }
    if let Some(s) = &mut out.sender {
        set_rates(s, sender_span);
    }
    if let Some(r) = &mut out.receiver {
        set_rates(r, receiver_span);
    }
    if let Some(r) = &mut out.receiver
        && let Some(lost) = r.lost_packets
    {
        let sent = lost + r.packets;
        r.loss_ratio = (sent > 0).then(|| lost as f64 / sent as f64);
    }
    (out.sender.is_some() || out.receiver.is_some()).then_some(out)
}

/// Adds one flow's interval to a sum, without its rates.
fn add_interval(to: &mut Option<IntervalCount>, c: &IntervalCount) {
    let sum = to.get_or_insert_with(IntervalCount::default);
    sum.bytes += c.bytes;
    sum.packets += c.packets;
    for (to, from) in [
        (&mut sum.lost_packets, c.lost_packets),
        (&mut sum.duplicate_packets, c.duplicate_packets),
        (&mut sum.reordered_packets, c.reordered_packets),
        (&mut sum.retransmits, c.retransmits),
    ] {
        if let Some(v) = from {
            *to.get_or_insert(0) += v;
        }
    }
}

/// One interval from each flow's counts: `(flow, direction, sender's, receiver's)`.
pub fn interval(
    clock: &IntervalClock,
    index: usize,
    flows: impl Iterator<Item = (u32, Direction, Option<IntervalCount>, Option<IntervalCount>)>,
) -> Interval {
    let start = clock.start_offset_ns(index);
    let mut out = Interval {
        start_seconds: start as f64 / 1e9,
        end_seconds: clock.end_offset_ns(index).unwrap_or(start) as f64 / 1e9,
        omitted: index < clock.omitted(),
        ..Interval::default()
    };
    let mut totals: [IntervalEnds; 2] = Default::default();
    for (id, direction, sender, receiver) in flows {
        let total = &mut totals[usize::from(direction == Direction::Reverse)];
        if let Some(c) = &sender {
            add_interval(&mut total.sender, c);
        }
        if let Some(c) = &receiver {
            add_interval(&mut total.receiver, c);
        }
        if sender.is_some() || receiver.is_some() {
            out.flows.push(IntervalFlow { id, sender, receiver });
        }
    }
    // The last interval ends when the last flow did, not at its boundary; its sum is over that time.
    let full = out.end_seconds - out.start_seconds;
    let ends = out.flows.iter().flat_map(|f| [&f.sender, &f.receiver]).flatten();
    let longest = ends
        .map(|c| span_seconds(c.bytes, c.packets, c.bits_per_second, c.packets_per_second))
        .fold(0.0, f64::max);
    if longest > 0.0 && (full <= 0.0 || longest < 0.99 * full) {
        out.end_seconds = out.start_seconds + longest;
    }
    for sum in totals.iter_mut().flat_map(|t| [&mut t.sender, &mut t.receiver]).flatten() {
        let span = out.end_seconds - out.start_seconds;
        if span > 0.0 {
            sum.bits_per_second = 8.0 * sum.bytes as f64 / span;
            sum.packets_per_second = sum.packets as f64 / span;
        }
    }
    let some = |e: IntervalEnds| (e != IntervalEnds::default()).then_some(e);
    let [forward, reverse] = totals;
    out.total = IntervalTotals { forward: some(forward), reverse: some(reverse) };
    out
}

fn intervals(
    pairs: &[(&FlowSpec, Option<&FlowReport>, Option<&FlowReport>)],
    clock: IntervalClock,
) -> Vec<Interval> {
    if clock.interval_ns == 0 {
        return vec![];
    }
    let length = |f: Option<&FlowReport>| f.map_or(0, |f| f.intervals.len());
    let count = pairs.iter().map(|(_, s, r)| length(*s).max(length(*r))).max().unwrap_or(0);
    (0..count)
        .map(|i| {
            let at = |f: Option<&FlowReport>| f.and_then(|f| f.intervals.get(i).cloned());
            interval(
                &clock,
                i,
                pairs
                    .iter()
                    .map(|(spec, s, r)| (spec.id, spec.connection.direction, at(*s), at(*r))),
            )
        })
        .collect()
}

/// Use of a nominal rate by what the receivers of the busier direction got.
fn link_usage(record: &Record, nominal: u64, source: String) -> Option<LinkUsage> {
    let mtu =
        record.local.as_ref().and_then(|h| h.interfaces.first()).map_or(1500, |i| i.mtu_bytes);
    let rates = |direction| {
        let mut sums = [0.0; 4];
        for f in record.flows.iter().filter(|f| f.direction == direction) {
            let Some(r) = &f.receiver else { continue };
            for (sum, rate) in sums.iter_mut().zip(level_rates(f, r, mtu)) {
                *sum += rate;
            }
        }
        sums
    };
    let (forward, reverse) = (rates(Direction::Forward), rates(Direction::Reverse));
    let (direction, [payload, ip, ethernet, wire]) = if reverse[0] > forward[0] {
        (Direction::Reverse, reverse)
    } else {
        (Direction::Forward, forward)
    };
    (nominal > 0 && payload > 0.0).then(|| LinkUsage {
        nominal_bits_per_second: nominal,
        source,
        payload_ratio: payload / nominal as f64,
        ip_ratio: ip / nominal as f64,
        ethernet_ratio: ethernet / nominal as f64,
        wire_ratio: wire / nominal as f64,
        direction,
    })
}

/// Bit rates of a flow as received: payload, IP, Ethernet, wire.
fn level_rates(f: &Flow, r: &Receiver, mtu: u32) -> [f64; 4] {
    let family = if f.family == Some(Family::Ipv6) { LinkFamily::Ipv6 } else { LinkFamily::Ipv4 };
    let (transport, packet) = match f.transport {
        Transport::Udp => (LinkTransport::Udp, f.payload_bytes),
        Transport::Tcp => {
            let tcp = f.tcp.as_ref();
            let option_bytes = if tcp.and_then(|t| t.timestamps).unwrap_or(true) { 12 } else { 0 };
            (
                LinkTransport::Tcp { option_bytes },
                tcp.map_or(1448, |t| u64::from(t.mss_bytes)).max(1),
            )
        }
    };
    let shape = LinkShape { mtu_bytes: mtu, ..LinkShape::new(transport, family) };
    let one = shape.packet(packet);
    let packets_per_second = match f.transport {
        Transport::Udp => r.packets_per_second,
        Transport::Tcp => r.bits_per_second / (8.0 * packet as f64),
    };
    [one.payload, one.ip, one.ethernet, one.wire]
        .map(|bytes| 8.0 * bytes as f64 * packets_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(bytes: u64, seconds: f64) -> Flow {
        Flow {
            receiver: Some(Receiver {
                bytes,
                packets: bytes / 1000,
                seconds,
                bits_per_second: 8.0 * bytes as f64 / seconds,
                packets_per_second: bytes as f64 / 1000.0 / seconds,
                ..Receiver::default()
            }),
            ..Flow::default()
        }
    }

    #[test]
    fn a_total_rate_is_what_was_carried_over_the_time_shown() {
        let flows = [received(1_000_000, 2.0), received(1_000_000, 1.0)];
        let sums = total(&flows, flows[0].direction).unwrap().receiver.unwrap();
        assert!((sums.bits_per_second - 8e6).abs() < 1.0, "{}", sums.bits_per_second);
        assert!((sums.packets_per_second - 1000.0).abs() < 1e-6, "{}", sums.packets_per_second);
    }

    #[test]
    fn a_cut_interval_ends_where_its_rates_do() {
        let clock = IntervalClock { start_ns: 0, interval_ns: 1_000_000_000, omit_ns: 0 };
        let count = |bytes: u64, seconds: f64| {
            Some(IntervalCount {
                bytes,
                packets: 10,
                bits_per_second: 8.0 * bytes as f64 / seconds,
                packets_per_second: 10.0 / seconds,
                ..IntervalCount::default()
            })
        };
        let flows = [
            (1, Direction::Forward, None, count(1000, 0.001)),
            (2, Direction::Forward, None, count(1000, 0.000_1)),
        ];
        let tail = interval(&clock, 1, flows.clone().into_iter());
        assert!((tail.end_seconds - 1.001).abs() < 1e-9, "{}", tail.end_seconds);
        let sum = tail.total.forward.unwrap().receiver.unwrap();
        assert!((sum.bits_per_second - 16e6).abs() < 1.0, "{}", sum.bits_per_second);
        let whole = [(1, Direction::Forward, count(1000, 1.0), None)];
        assert!((interval(&clock, 1, whole.into_iter()).end_seconds - 2.0).abs() < 1e-9);
    }
}
