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

use crate::heard::Heard;
use crate::intervals::{IntervalClock, MAX_INTERVALS};
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
    /// What the other side told while the test ran: all there is of it where it did not report.
    pub heard: Heard,
    /// The clocks.
    pub clock: Option<ClockRelation>,
    /// The intervals (its start does not matter).
    pub intervals: IntervalClock,
    /// How many of them have been shown already: these stay as they were.
    pub intervals_shown: usize,
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

    let mut flows: Vec<Flow> = pairs
        .iter()
        .map(|(spec, sender, receiver)| flow(spec, parts.family, *sender, *receiver))
        .collect();
    // Of an end that was lost only what it had told.
    let heard = parts.remote.is_none().then_some(&parts.heard);
    if let Some(heard) = heard {
        flows.iter_mut().for_each(|f| add_heard(f, heard));
    }
    let intervals = intervals(&pairs, parts.intervals, parts.intervals_shown, heard);
    let mut record = Record {
        schema: RUN_SCHEMA.into(),
        status: parts.status,
        end_reason: parts.end_reason,
        seed: parts.plan.seed,
        peer: "weir".into(),
        seconds: run_seconds(&flows),
        total: Totals {
            forward: total(&flows, Direction::Forward, heard.and_then(|h| h.receiver(0))),
            reverse: total(&flows, Direction::Reverse, None),
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
    if let (Some(sent), Some(received)) = (&out.sender, &mut out.receiver) {
        rate_over_sending(sent, received);
    }
    out
}

/// The part of an end that was lost, as far as it had told it.
fn add_heard(flow: &mut Flow, heard: &Heard) {
    match flow.direction {
        Direction::Forward if flow.receiver.is_none() => flow.receiver = heard.receiver(flow.id),
        Direction::Reverse if flow.sender.is_none() => flow.sender = heard.sender(flow.id),
        _ => {}
    }
}

/// A path that dies before its sender ends must not be credited with the time in which it still carried: rates are over
/// the time of sending where that is longer than from first to last arrival.
fn rate_over_sending(sent: &Sender, received: &mut Receiver) {
    if sent.packets == 0 || sent.seconds <= Counted::receiver(received).seconds {
        return;
    }
    let per_second = |n: u64| Some(n as f64 / sent.seconds);
    received.bits_per_second = per_second(8 * received.bytes);
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

/// When a flow began and for how long it counted, both by its own figures: a receiver's time is slightly longer than
/// from first to last packet, since n packets span n gaps.
#[derive(Debug, Clone, Copy)]
struct Counted {
    start: Option<f64>,
    seconds: f64,
}

impl Counted {
    fn new(
        (start, seconds): (Option<f64>, f64),
        (packets, packets_per_second): (u64, Option<f64>),
        (bytes, bits_per_second): (u64, Option<f64>),
    ) -> Self {
        let over = |amount: f64, rate: Option<f64>| {
            rate.filter(|r| *r > 0.0 && amount > 0.0).map(|r| amount / r)
        };
        let counted = over(packets as f64, packets_per_second)
            .or_else(|| over(8.0 * bytes as f64, bits_per_second));
        Counted { start, seconds: counted.unwrap_or(seconds) }
    }

    fn sender(s: &Sender) -> Self {
        let packets = (s.packets, s.packets_per_second);
        Self::new((s.start_seconds, s.seconds), packets, (s.bytes, s.bits_per_second))
    }

    fn receiver(r: &Receiver) -> Self {
        let packets = (r.packets, r.packets_per_second);
        Self::new((r.start_seconds, r.seconds), packets, (r.bytes, r.bits_per_second))
    }
}

/// From the start of the first to the end of the last; of flows that don't say when they began, the longest.
fn union_seconds(flows: &[Counted]) -> f64 {
    let known = flows.iter().filter_map(|c| Some((c.start?, c.start? + c.seconds)));
    let (first, last) = known
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (from, to)| (a.min(from), b.max(to)));
    let longest = flows.iter().map(|c| c.seconds).fold(0.0, f64::max);
    longest.max(last - first)
}

/// A sum's rates: all that was carried over the time in which any flow ran. Adding the flows' own rates would give more
/// than ever crossed when they ran one after another, or some were shorter than others.
fn set_rates(sums: &mut Sums, flows: &[Counted], at_least_seconds: f64) {
    let least = |values: &mut dyn Iterator<Item = f64>| values.min_by(f64::total_cmp);
    let span = union_seconds(flows).max(at_least_seconds);
    sums.start_seconds = least(&mut flows.iter().filter_map(|c| c.start));
    sums.bits_per_second = (span > 0.0).then(|| 8.0 * sums.bytes as f64 / span);
    sums.packets_per_second = (span > 0.0).then(|| sums.packets as f64 / span);
}

/// The length of the run: from the first send to the last end of sending, else of what was received.
fn run_seconds(flows: &[Flow]) -> f64 {
    let whole = |start, seconds| Counted { start, seconds };
    let senders: Vec<_> = flows.iter().filter_map(|f| f.sender.as_ref()).collect();
    let mut ends: Vec<_> = senders.iter().map(|s| whole(s.start_seconds, s.seconds)).collect();
    if ends.is_empty() {
        let receivers = flows.iter().filter_map(|f| f.receiver.as_ref());
        ends = receivers.map(|r| whole(r.start_seconds, r.seconds)).collect();
    }
    union_seconds(&ends)
}

/// Sums of one direction. `told`: what its receivers told in sum, where they told no more and did not report.
fn total(flows: &[Flow], direction: Direction, told: Option<Receiver>) -> Option<DirectionTotal> {
    let mut out = DirectionTotal::default();
    let (mut senders, mut receivers) = (vec![], vec![]);
    let last = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).max_by(f64::total_cmp);
    for f in flows.iter().filter(|f| f.direction == direction) {
        if let Some(s) = &f.sender {
            let sums = out.sender.get_or_insert_with(Sums::default);
            add_sender(sums, s);
            sums.end_seconds = last(sums.end_seconds, s.end_seconds);
            senders.push(Counted::sender(s));
            if let Some(tcp) = &f.tcp {
                *sums.retransmits.get_or_insert(0) += tcp.retransmits;
            }
        }
        if let Some(r) = &f.receiver {
            let sums = out.receiver.get_or_insert_with(Sums::default);
            add_receiver(sums, r);
            sums.end_seconds = last(sums.end_seconds, r.end_seconds);
            receivers.push(Counted::receiver(r));
        }
    }
    let mut partial = flows.iter().any(|f| {
        f.direction == direction
            && f.receiver.as_ref().is_some_and(|r| r.reported_until_seconds.is_some())
    });
    if let Some(told) = told.filter(|_| flows.iter().any(|f| f.direction == direction)) {
        partial = true;
        let sums = out.receiver.get_or_insert_with(Sums::default);
        add_receiver(sums, &told);
        sums.end_seconds = last(sums.end_seconds, told.end_seconds);
        receivers.push(Counted::receiver(&told));
    }
    // What was sent behind a lost receiver's last word is no time in which it received nothing.
    let sending = if senders.is_empty() || partial { 0.0 } else { union_seconds(&senders) };
    for (sums, counted, at_least) in
        [(&mut out.sender, &senders, 0.0), (&mut out.receiver, &receivers, sending)]
    {
        if let Some(sums) = sums {
            set_rates(sums, counted, at_least);
            if let (Some(start), Some(end)) = (sums.start_seconds, sums.end_seconds) {
                sums.seconds = (end - start).max(0.0);
            }
        }
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
pub(crate) fn add_interval(to: &mut Option<IntervalCount>, c: &IntervalCount) {
    let sum = to.get_or_insert_with(IntervalCount::default);
    // Half of them are the other side's words.
    sum.bytes = sum.bytes.saturating_add(c.bytes);
    sum.packets = sum.packets.saturating_add(c.packets);
    for (to, from) in [
        (&mut sum.lost_packets, c.lost_packets),
        (&mut sum.duplicate_packets, c.duplicate_packets),
        (&mut sum.reordered_packets, c.reordered_packets),
        (&mut sum.retransmits, c.retransmits),
    ] {
        if let Some(v) = from {
            *to = Some(to.unwrap_or(0).saturating_add(v));
        }
    }
}

/// The sum of several flows' counts in one interval, without rates; `None` of none.
pub fn sum<'a>(counts: impl Iterator<Item = &'a IntervalCount>) -> Option<IntervalCount> {
    let mut out = None;
    counts.for_each(|c| add_interval(&mut out, c));
    out
}

/// Joins what followed an interval to it.
fn join(count: &mut IntervalCount, next: &IntervalCount) {
    let (before, after) = (count.packets as f64, next.packets as f64);
    count.mean_delay_seconds = match (count.mean_delay_seconds, next.mean_delay_seconds) {
        (Some(a), Some(b)) if before + after > 0.0 => {
            Some((a * before + b * after) / (before + after))
        }
        (a, b) => a.or(b),
    };
    let mut sum = Some(std::mem::take(count));
    add_interval(&mut sum, next);
    // What stands for a moment is that of the later end.
    *count = sum.unwrap_or_default();
    count.jitter_seconds = next.jitter_seconds.or(count.jitter_seconds);
    count.cwnd_bytes = next.cwnd_bytes.or(count.cwnd_bytes);
    count.rtt_seconds = next.rtt_seconds.or(count.rtt_seconds);
}

/// One interval from each flow's counts, `(flow, direction, sender's, receiver's)`, with their rates over its time: until
/// its boundary, or until `end_ns` from the start of the test where that is where it ended.
pub fn interval(
    clock: &IntervalClock,
    index: usize,
    end_ns: Option<u64>,
    flows: impl Iterator<Item = (u32, Direction, Option<IntervalCount>, Option<IntervalCount>)>,
) -> Interval {
    let start = clock.start_offset_ns(index);
    let end = end_ns.or(clock.end_offset_ns(index)).unwrap_or(start).max(start);
    let seconds = (end - start) as f64 / 1e9;
    let mut out = Interval {
        start_seconds: start as f64 / 1e9,
        end_seconds: end as f64 / 1e9,
        omitted: index < clock.omitted(),
        ..Interval::default()
    };
    let set_rates = |c: &mut IntervalCount| {
        let per_second = |n: u64| (seconds > 0.0).then(|| n as f64 / seconds);
        c.bits_per_second = per_second(c.bytes).map(|rate| 8.0 * rate);
        c.packets_per_second = per_second(c.packets);
    };
    let mut totals: [IntervalEnds; 2] = Default::default();
    for (id, direction, mut sender, mut receiver) in flows {
        let total = &mut totals[usize::from(direction == Direction::Reverse)];
        if let Some(c) = &mut sender {
            add_interval(&mut total.sender, c);
            set_rates(c);
        }
        if let Some(c) = &mut receiver {
            add_interval(&mut total.receiver, c);
            set_rates(c);
        }
        if sender.is_some() || receiver.is_some() {
            out.flows.push(IntervalFlow { id, sender, receiver });
        }
    }
    let ends = totals.iter_mut().flat_map(|t| [&mut t.sender, &mut t.receiver]);
    ends.flatten().for_each(set_rates);
    let some = |e: IntervalEnds| (e != IntervalEnds::default()).then_some(e);
    let [forward, reverse] = totals;
    out.total = IntervalTotals { forward: some(forward), reverse: some(reverse) };
    out
}

/// Notes in an interval which flows' figures had not come. `due`: flows that ran, whether each one's sender's and
/// receiver's figures are in the sums.
pub fn mark_missing(
    interval: &mut Interval,
    due: impl IntoIterator<Item = (Direction, bool, bool)>,
) {
    let mut counts = [[0u32; 3]; 2];
    for (direction, sender, receiver) in due {
        let [flows, senders, receivers] = &mut counts[usize::from(direction == Direction::Reverse)];
        *flows += 1;
        *senders += u32::from(sender);
        *receivers += u32::from(receiver);
    }
    let total = &mut interval.total;
    for ([flows, senders, receivers], ends) in
        counts.into_iter().zip([&mut total.forward, &mut total.reverse])
    {
        if senders < flows || receivers < flows {
            let ends = ends.get_or_insert_with(IntervalEnds::default);
            ends.flows = Some(flows);
            ends.sender_flows = Some(senders);
            ends.receiver_flows = Some(receivers);
        }
    }
}

/// Puts the other side's sum of what it received in the place of the flows' own figures, where it told no more.
pub fn set_received_sum(interval: &mut Interval, mut sum: IntervalCount) {
    let seconds = interval.end_seconds - interval.start_seconds;
    let per_second = |n: u64| (seconds > 0.0).then(|| n as f64 / seconds);
    sum.bits_per_second = per_second(sum.bytes).map(|rate| 8.0 * rate);
    sum.packets_per_second = per_second(sum.packets);
    if let Some(ends) = &mut interval.total.forward {
        ends.receiver = Some(sum);
    }
}

/// One end's counts of a flow in interval `index`, which takes in all later ones where it is the last.
fn counted(report: Option<&FlowReport>, index: usize, is_last: bool) -> Option<IntervalCount> {
    let counts = &report?.intervals;
    let mut out = counts.get(index).cloned();
    if is_last {
        for tail in counts.iter().skip(index + 1) {
            join(out.get_or_insert_with(IntervalCount::default), tail);
        }
    }
    out
}

/// When the test ended, ns from its start: with the last end of sending or the last arrival, each on its own clock.
fn end_offset_ns(pairs: &[(&FlowSpec, Option<&FlowReport>, Option<&FlowReport>)]) -> Option<u64> {
    let ends = pairs.iter().flat_map(|(_, s, r)| {
        let sender = s.and_then(|s| s.sender.as_ref()).and_then(|s| s.end_seconds);
        let receiver = r.and_then(|r| r.receiver.as_ref()).and_then(|r| r.end_seconds);
        [sender, receiver]
    });
    // Whole nanoseconds were made seconds by division: rounding gives them back.
    ends.flatten().max_by(f64::total_cmp).map(|s| (s * 1e9).round() as u64)
}

fn intervals(
    pairs: &[(&FlowSpec, Option<&FlowReport>, Option<&FlowReport>)],
    clock: IntervalClock,
    shown: usize,
    heard: Option<&Heard>,
) -> Vec<Interval> {
    if clock.interval_ns == 0 {
        return vec![];
    }
    let length = |f: Option<&FlowReport>| f.map_or(0, |f| f.intervals.len());
    let mut count = pairs.iter().map(|(_, s, r)| length(*s).max(length(*r))).max().unwrap_or(0);
    count = count.max(heard.map_or(0, Heard::intervals)).min(MAX_INTERVALS);
    let end = end_offset_ns(pairs);
    if let Some(end) = end {
        // What one end closed while it waited for the other has nothing in it.
        while count > 1 && clock.start_offset_ns(count - 1) >= end {
            count -= 1;
        }
        // A short remainder has a wild rate: it belongs to the interval before, at both ends.
        let tail = end.saturating_sub(clock.start_offset_ns(count.saturating_sub(1)));
        if count > clock.omitted() + 1 && tail < clock.tail_ns() && shown < count - 1 {
            count -= 1;
        }
    }
    (0..count.max(shown))
        .map(|i| {
            let is_last = i + 1 == count.max(shown);
            let counts = pairs.iter().map(|(spec, s, r)| {
                let (mut sender, receiver) = (counted(*s, i, is_last), counted(*r, i, is_last));
                // A receiver that heard nothing to the end has closed no interval: it counted nothing in it.
                let heard_nothing = r.is_some() && sender.as_ref().is_some_and(|s| s.packets > 0);
                let mut receiver = receiver.or(heard_nothing.then(IntervalCount::default));
                if let Some(told) = heard.and_then(|h| h.count(i, spec.id)) {
                    match spec.connection.direction {
                        Direction::Forward => receiver.get_or_insert_with(|| told.clone()),
                        Direction::Reverse => sender.get_or_insert_with(|| told.clone()),
                    };
                }
                (spec.id, spec.connection.direction, sender, receiver)
            });
            // One that was shown after everything had ended has its whole length.
            let end = end.filter(|end| is_last && *end > clock.start_offset_ns(i));
            let counts: Vec<_> = counts.collect();
            let told = heard.map(|h| h.interval(i).and_then(|told| told.sum.clone()));
            let due: Vec<_> =
                counts.iter().map(|(_, d, s, r)| (*d, s.is_some(), r.is_some())).collect();
            let mut out = interval(&clock, i, end, counts.into_iter());
            if let Some(told) = told {
                mark_heard(&mut out, due, told);
            }
            out
        })
        .collect()
}

/// The marks of an interval of which the other end's report never came: what it had told is all.
fn mark_heard(
    interval: &mut Interval,
    due: Vec<(Direction, bool, bool)>,
    told: Option<(IntervalCount, u32)>,
) {
    let ran = |(_, sender, receiver): &(_, bool, bool)| *sender || *receiver;
    let mut summed = told.as_ref().map_or(0, |(_, of)| if *of == 0 { u32::MAX } else { *of });
    let due: Vec<_> = due
        .into_iter()
        .filter(ran)
        .map(|(direction, sender, receiver)| {
            let in_sum = direction == Direction::Forward && summed > 0;
            summed -= u32::from(in_sum);
            (direction, sender, receiver || in_sum)
        })
        .collect();
    if let Some((sum, _)) = told {
        set_received_sum(interval, sum);
    }
    mark_missing(interval, due);
}

/// Use of a nominal rate by what the receivers of the busier direction got.
fn link_usage(record: &Record, nominal: u64, source: String) -> Option<LinkUsage> {
    let mtu =
        record.local.as_ref().and_then(|h| h.interfaces.first()).map_or(1500, |i| i.mtu_bytes);
    let rates = |direction| {
        let mut sums = [0.0; 4];
        let mut times = vec![];
        for f in record.flows.iter().filter(|f| f.direction == direction) {
            let Some(r) = &f.receiver else { continue };
            times.push(Counted::receiver(r));
            for (sum, bits) in sums.iter_mut().zip(level_bits(f, r, mtu)) {
                *sum += bits;
            }
        }
        let seconds = union_seconds(&times);
        sums.map(|bits| if seconds > 0.0 { bits / seconds } else { 0.0 })
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

/// Bits of a flow as received: payload, IP, Ethernet, wire.
fn level_bits(f: &Flow, r: &Receiver, mtu: u32) -> [f64; 4] {
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
    let packets = match f.transport {
        Transport::Udp => r.packets as f64,
        Transport::Tcp => r.bytes as f64 / packet as f64,
    };
    [one.payload, one.ip, one.ethernet, one.wire].map(|bytes| 8.0 * bytes as f64 * packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn received(bytes: u64, start: Option<f64>, seconds: f64) -> Flow {
        let per_second = |n: f64| (seconds > 0.0).then(|| n / seconds);
        Flow {
            receiver: Some(Receiver {
                bytes,
                packets: bytes / 1000,
                seconds,
                start_seconds: start,
                end_seconds: start.map(|s| s + seconds),
                bits_per_second: per_second(8.0 * bytes as f64),
                packets_per_second: per_second(bytes as f64 / 1000.0),
                ..Receiver::default()
            }),
            payload_bytes: 1000,
            transport: Transport::Udp,
            ..Flow::default()
        }
    }

    fn sums(flows: &[Flow]) -> Sums {
        total(flows, flows[0].direction, None).unwrap().receiver.unwrap()
    }

    #[test]
    fn a_total_rate_is_what_was_carried_over_the_time_shown() {
        for start in [None, Some(0.0)] {
            let s = sums(&[received(1_000_000, start, 2.0), received(1_000_000, start, 1.0)]);
            assert!((s.bits_per_second.unwrap() - 8e6).abs() < 1.0, "{s:?}");
            assert!((s.packets_per_second.unwrap() - 1000.0).abs() < 1e-6, "{s:?}");
        }
    }

    #[test]
    fn flows_one_after_another_are_summed_over_the_whole_time() {
        let flows = [received(1_000_000, Some(0.0), 1.0), received(1_000_000, Some(1.0), 1.0)];
        let s = sums(&flows);
        assert_eq!((s.start_seconds, s.end_seconds, s.seconds), (Some(0.0), Some(2.0), 2.0));
        assert!((s.bits_per_second.unwrap() - 8e6).abs() < 1.0, "{s:?}");
        let mut record = Record { flows: flows.to_vec(), ..Record::default() };
        let usage = link_usage(&record, 8_000_000, "stated".into()).unwrap();
        assert!((usage.payload_ratio - 1.0).abs() < 1e-9, "{usage:?}");
        for f in &mut record.flows {
            let r = f.receiver.as_ref().unwrap();
            f.sender = Some(Sender {
                seconds: r.seconds,
                start_seconds: r.start_seconds,
                ..Sender::default()
            });
        }
        assert_eq!(run_seconds(&record.flows), 2.0);
    }

    #[test]
    fn one_packet_has_no_rate() {
        let s = sums(&[received(1000, Some(0.5), 0.0)]);
        assert_eq!((s.bits_per_second, s.packets_per_second, s.seconds), (None, None, 0.0));
    }

    fn count(packets: u64) -> IntervalCount {
        IntervalCount {
            bytes: packets * 1000,
            packets,
            lost_packets: Some(1),
            jitter_seconds: Some(packets as f64),
            mean_delay_seconds: Some(packets as f64),
            ..IntervalCount::default()
        }
    }

    /// Two reports of one flow that ended `end_ns` after the start, with these packets in each interval.
    fn pair(sent: &[u64], got: &[u64], sent_until: u64, got_until: u64) -> [FlowReport; 2] {
        let seconds = |ns: u64| Some(ns as f64 / 1e9);
        let report = |packets: &[u64]| FlowReport {
            intervals: packets.iter().map(|n| count(*n)).collect(),
            ..FlowReport::default()
        };
        let sender = Sender { end_seconds: seconds(sent_until), ..Sender::default() };
        let receiver = Receiver { end_seconds: seconds(got_until), ..Receiver::default() };
        [
            FlowReport { sender: Some(sender), ..report(sent) },
            FlowReport { receiver: Some(receiver), ..report(got) },
        ]
    }

    fn rows([s, r]: &[FlowReport; 2], omit_ns: u64, shown: usize) -> Vec<Interval> {
        let plan = Plan { connections: vec![Default::default()], ..Plan::default() };
        let spec = plan.flows(Family::Ipv4, 1500).remove(0);
        let clock = IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns };
        intervals(&[(&spec, Some(s), Some(r))], clock, shown, None)
    }

    #[test]
    fn a_short_remainder_extends_the_interval_before_at_both_ends() {
        // The sender closed empty intervals while it waited; only the receiver heard something after the boundary.
        let reports = pair(&[10, 10, 0, 0], &[10, 8, 2], 2 * SECOND, 2 * SECOND + 30_000);
        let rows = rows(&reports, 0, 0);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].end_seconds, 2.00003);
        let flow = &rows[1].flows[0];
        let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert_eq!((s.packets, r.packets, r.lost_packets), (10, 10, Some(2)));
        assert_eq!((r.jitter_seconds, r.mean_delay_seconds), (Some(2.0), Some(6.8)));
        let rate = 10.0 / 1.00003;
        assert!((r.packets_per_second.unwrap() - rate).abs() < 1e-9, "{r:?}");
        assert!((s.packets_per_second.unwrap() - rate).abs() < 1e-9, "{s:?}");
        let sum = rows[1].total.forward.as_ref().unwrap().receiver.as_ref().unwrap();
        assert!((sum.packets_per_second.unwrap() - rate).abs() < 1e-9, "{sum:?}");
    }

    #[test]
    fn a_longer_remainder_has_its_own_row_and_so_has_one_after_a_shown_row() {
        let reports = pair(&[10, 2], &[10, 2], SECOND + 200_000_000, SECOND + 100_000_000);
        let two = rows(&reports, 0, 0);
        assert_eq!((two.len(), two[1].end_seconds), (2, 1.2));
        let rate = two[1].flows[0].receiver.as_ref().unwrap().packets_per_second.unwrap();
        assert!((rate - 10.0).abs() < 1e-9, "over the row's time, not to the last packet: {rate}");
        let short = pair(&[10, 2], &[10, 2], SECOND + 50_000_000, SECOND + 50_000_000);
        assert_eq!(rows(&short, 0, 0).len(), 1);
        assert_eq!(rows(&short, 0, 1).len(), 2, "a row that was shown stays as it was");
        assert_eq!(rows(&short, SECOND, 0).len(), 2, "what counts never joins what is omitted");
        let idle = rows(&short, 0, 4);
        assert_eq!((idle.len(), idle[3].end_seconds), (4, 4.0), "shown while nothing ran");
    }

    #[test]
    fn a_slow_flow_s_last_interval_lasts_until_the_end_of_sending() {
        let reports = pair(&[1, 1, 1], &[1, 1], 2 * SECOND + 500_000_000, SECOND + 1000);
        let rows = rows(&reports, 0, 0);
        assert_eq!((rows.len(), rows[2].end_seconds), (3, 2.5));
        let flow = &rows[2].flows[0];
        assert_eq!(flow.sender.as_ref().unwrap().packets_per_second, Some(2.0));
        let r = flow.receiver.as_ref().unwrap();
        assert_eq!((r.packets, r.packets_per_second), (0, Some(0.0)));
    }

    #[test]
    fn an_interval_without_length_has_no_rate() {
        let clock = IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns: 0 };
        let flows = [(1, Direction::Forward, Some(count(1)), None)];
        let i = interval(&clock, 1, Some(SECOND), flows.into_iter());
        assert_eq!(i.flows[0].sender.as_ref().unwrap().bits_per_second, None);
        assert_eq!(i.total.forward.unwrap().sender.unwrap().packets_per_second, None);
    }

    #[test]
    fn the_time_sources_of_all_receivers_are_named() {
        let plan = Plan { connections: vec![Default::default()], ..Plan::default() };
        let spec = plan.flows(Family::Ipv4, 1500).remove(0);
        let report = |source: Option<&str>| FlowReport {
            time_source: source.map(Into::into),
            ..FlowReport::default()
        };
        let named = |a, b| {
            let (a, b) = (report(a), report(b));
            time_source(&[(&spec, None, Some(&a)), (&spec, None, Some(&b))]).map(|t| t.receive)
        };
        assert_eq!(named(Some("kernel"), None).as_deref(), Some("kernel"));
        assert_eq!(named(Some("kernel"), Some("user")).as_deref(), Some("kernel+user"));
        assert_eq!(named(Some("kernel+user"), Some("kernel")).as_deref(), Some("kernel+user"));
        assert_eq!(named(None, None), None);
    }
}
