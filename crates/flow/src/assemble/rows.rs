//! The record's rows of intervals, from both ends' reports or from one end's reports during the test.

use weir_model::plan::{Direction, FlowSpec, TransportName};
use weir_model::record::{Interval, IntervalCount, IntervalEnds, IntervalFlow, IntervalTotals};
use weir_model::report::FlowReport;

use crate::intervals::{IntervalClock, MAX_INTERVALS};
use crate::loss_lines::without_reported;
use crate::peer_reports::PeerReports;

/// Adds one flow's interval to a sum, without its rates.
pub(crate) fn add_interval(to: &mut Option<IntervalCount>, c: &IntervalCount) {
    let sum = to.get_or_insert_with(IntervalCount::default);
    // Half of them are the peer's figures, which may be any number.
    sum.bytes = sum.bytes.saturating_add(c.bytes);
    sum.packets = sum.packets.saturating_add(c.packets);
    for (to, from) in [
        (&mut sum.lost_packets, c.lost_packets),
        (&mut sum.lost_before_packets, c.lost_before_packets),
        (&mut sum.duplicate_packets, c.duplicate_packets),
        (&mut sum.reordered_packets, c.reordered_packets),
        (&mut sum.retransmits, c.retransmits),
        (&mut sum.transactions, c.transactions),
    ] {
        if let Some(v) = from {
            *to = Some(to.unwrap_or(0).saturating_add(v));
        }
    }
}

/// Removes each figure of a sum that a datagram flow lacks: the sum of some flows is a different figure.
pub(super) fn drop_partial(sum: &mut IntervalCount, c: &IntervalCount) {
    for (sum, part) in [
        (&mut sum.lost_packets, c.lost_packets),
        (&mut sum.lost_before_packets, c.lost_before_packets),
        (&mut sum.duplicate_packets, c.duplicate_packets),
        (&mut sum.reordered_packets, c.reordered_packets),
    ] {
        *sum = sum.filter(|_| part.is_some());
    }
}

/// The sum of several receivers' counts in one interval, without rates; `None` without counts.
pub fn sum<'a>(
    counts: impl Iterator<Item = (TransportName, &'a IntervalCount)> + Clone,
) -> Option<IntervalCount> {
    let mut out = None;
    counts.clone().for_each(|(_, c)| add_interval(&mut out, c));
    if let Some(sum) = &mut out {
        let datagrams = counts.filter(|(transport, _)| transport.datagrams());
        datagrams.for_each(|(_, c)| drop_partial(sum, c));
    }
    out
}

/// Adds the counts of the next interval to an interval.
fn join(count: &mut IntervalCount, next: &IntervalCount) {
    let (before, after) = (count.packets as f64, next.packets as f64);
    count.mean_delay_seconds = match (count.mean_delay_seconds, next.mean_delay_seconds) {
        (Some(a), Some(b)) if before + after > 0.0 => {
            Some((a * before + b * after) / (before + after))
        }
        (a, b) => a.or(b),
    };
    let limited_by = count.limited_by.or(next.limited_by);
    let mut sum = Some(std::mem::take(count));
    add_interval(&mut sum, next);
    // Momentary figures are those of the later end.
    *count = sum.unwrap_or_default();
    count.limited_by = limited_by;
    count.jitter_seconds = next.jitter_seconds.or(count.jitter_seconds);
    count.cwnd_bytes = next.cwnd_bytes.or(count.cwnd_bytes);
    count.rtt_seconds = next.rtt_seconds.or(count.rtt_seconds);
}

/// One flow's counts in an interval: `(flow, direction, transport, sender's, receiver's)`.
pub(crate) type FlowCounts =
    (u32, Direction, TransportName, Option<IntervalCount>, Option<IntervalCount>);

/// Builds one interval from each flow's counts, with their rates over its time: until its boundary, or until `end_ns`
/// from the start of the test if it ended there.
pub fn interval(
    clock: &IntervalClock,
    index: usize,
    end_ns: Option<u64>,
    flows: impl Iterator<Item = FlowCounts>,
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
        c.transactions_per_second = c.transactions.and_then(per_second);
    };
    let mut totals: [IntervalEnds; 2] = Default::default();
    let mut received: [Vec<(TransportName, IntervalCount)>; 2] = Default::default();
    for (id, direction, transport, mut sender, mut receiver) in flows {
        let end = usize::from(direction == Direction::Reverse);
        let total = &mut totals[end];
        if let Some(c) = &mut sender {
            add_interval(&mut total.sender, c);
            set_rates(c);
        }
        if let Some(c) = &mut receiver {
            received[end].push((transport, c.clone()));
            set_rates(c);
        }
        if sender.is_some() || receiver.is_some() {
            out.flows.push(IntervalFlow { id, sender, receiver });
        }
    }
    for (total, received) in totals.iter_mut().zip(&received) {
        total.receiver = sum(received.iter().map(|(transport, c)| (*transport, c)));
    }
    let ends = totals.iter_mut().flat_map(|t| [&mut t.sender, &mut t.receiver]);
    ends.flatten().for_each(set_rates);
    let some = |e: IntervalEnds| (e != IntervalEnds::default()).then_some(e);
    let [forward, reverse] = totals;
    out.total = IntervalTotals { forward: some(forward), reverse: some(reverse) };
    out
}

/// Sets the rates of senders that ended within an interval over their own time of sending: the last interval ends
/// with the last arrival, which is later. Over less than `shortest_ns` a rate would be meaningless.
fn sending_rates(
    interval: &mut Interval,
    pairs: &[(&FlowSpec, Option<&FlowReport>, Option<&FlowReport>)],
    shortest_ns: u64,
) {
    let start = interval.start_seconds;
    let set = |count: &mut IntervalCount, end: f64| {
        let seconds = end - start;
        count.bits_per_second = Some(8.0 * count.bytes as f64 / seconds);
        count.packets_per_second = Some(count.packets as f64 / seconds);
        count.transactions_per_second = count.transactions.map(|n| n as f64 / seconds);
    };
    let mut latest: [Option<f64>; 2] = [None; 2];
    for (spec, sender, _) in pairs {
        let Some(flow) = interval.flows.iter_mut().find(|f| f.id == spec.id) else { continue };
        let Some(count) = &mut flow.sender else { continue };
        let end = sender.and_then(|s| s.sender.as_ref()).and_then(|s| s.end_seconds);
        let is_long = |end: &f64| *end - start >= shortest_ns as f64 / 1e9 && *end > start;
        let end = end.filter(is_long).unwrap_or(interval.end_seconds);
        let end = end.min(interval.end_seconds);
        if end < interval.end_seconds {
            set(count, end);
        }
        let latest = &mut latest[usize::from(spec.connection.direction == Direction::Reverse)];
        *latest = Some(latest.map_or(end, |other| other.max(end)));
    }
    let totals = [&mut interval.total.forward, &mut interval.total.reverse];
    for (ends, latest) in totals.into_iter().zip(latest) {
        if let (Some(sum), Some(end)) = (ends.as_mut().and_then(|e| e.sender.as_mut()), latest)
            && end < interval.end_seconds
        {
            set(sum, end);
        }
    }
}

/// Marks in an interval how many flows' figures are missing. `due`: for each flow that ran, whether its sender's and
/// its receiver's figures are in the sums.
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

/// Uses the peer's sum of received data where it reported no figures of the flows.
pub fn set_received_sum(interval: &mut Interval, mut sum: IntervalCount) {
    let seconds = interval.end_seconds - interval.start_seconds;
    let per_second = |n: u64| (seconds > 0.0).then(|| n as f64 / seconds);
    sum.bits_per_second = per_second(sum.bytes).map(|rate| 8.0 * rate);
    sum.packets_per_second = per_second(sum.packets);
    if let Some(ends) = &mut interval.total.forward {
        ends.receiver = Some(sum);
    }
}

/// One end's counts of a flow in interval `index`, which includes all later ones if it is the last.
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
    // The seconds were computed from whole nanoseconds: rounding restores these.
    ends.flatten().max_by(f64::total_cmp).map(|s| (s * 1e9).round() as u64)
}

pub(super) fn intervals(
    pairs: &[(&FlowSpec, Option<&FlowReport>, Option<&FlowReport>)],
    clock: IntervalClock,
    shown: usize,
    peer_reports: Option<&PeerReports>,
) -> Vec<Interval> {
    if clock.interval_ns == 0 {
        return vec![];
    }
    let length = |f: Option<&FlowReport>| f.map_or(0, |f| f.intervals.len());
    let mut count = pairs.iter().map(|(_, s, r)| length(*s).max(length(*r))).max().unwrap_or(0);
    count = count.max(peer_reports.map_or(0, PeerReports::intervals)).min(MAX_INTERVALS);
    let end = end_offset_ns(pairs);
    if let Some(end) = end {
        // Intervals that one end closed while it waited for the other are empty.
        while count > 1 && clock.start_offset_ns(count - 1) >= end {
            count -= 1;
        }
        // A short remainder would have a meaningless rate: it is added to the interval before, at both ends.
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
                // A receiver without any arrival has closed no interval: it counted nothing. That of another tool may have
                // no intervals.
                let is_empty = |r: &FlowReport| {
                    r.receiver.as_ref().is_none_or(|r| r.bytes == 0 && r.packets == 0)
                };
                let received_nothing =
                    r.is_some_and(is_empty) && sender.as_ref().is_some_and(|s| s.packets > 0);
                let mut receiver = receiver.or(received_nothing.then(IntervalCount::default));
                if let Some(reported) = peer_reports.and_then(|h| h.count(i, spec.id)) {
                    match spec.connection.direction {
                        Direction::Forward => receiver.get_or_insert_with(|| reported.clone()),
                        Direction::Reverse => sender.get_or_insert_with(|| reported.clone()),
                    };
                }
                let connection = &spec.connection;
                (spec.id, connection.direction, connection.transport.name(), sender, receiver)
            });
            // An interval that was shown after everything had ended has its whole length.
            let end = end.filter(|end| is_last && *end > clock.start_offset_ns(i));
            let counts: Vec<_> = counts.collect();
            let reported =
                peer_reports.map(|h| h.interval(i).and_then(|reported| reported.sum.clone()));
            let due: Vec<_> =
                counts.iter().map(|(_, d, _, s, r)| (*d, s.is_some(), r.is_some())).collect();
            let mut out = interval(&clock, i, end, counts.into_iter());
            sending_rates(&mut out, pairs, clock.tail_ns());
            if let Some(reported) = reported {
                mark_reported(&mut out, due, reported);
            }
            without_reported(&mut out);
            out
        })
        .collect()
}

/// Marks an interval for which the other end's final report is missing. `reported`: that end's sum of it.
fn mark_reported(
    interval: &mut Interval,
    due: Vec<(Direction, bool, bool)>,
    reported: Option<(IntervalCount, u32)>,
) {
    let ran = |(_, sender, receiver): &(_, bool, bool)| *sender || *receiver;
    let mut summed = reported.as_ref().map_or(0, |(_, of)| if *of == 0 { u32::MAX } else { *of });
    let due: Vec<_> = due
        .into_iter()
        .filter(ran)
        .map(|(direction, sender, receiver)| {
            let in_sum = direction == Direction::Forward && summed > 0;
            summed -= u32::from(in_sum);
            (direction, sender, receiver || in_sum)
        })
        .collect();
    if let Some((sum, _)) = reported {
        set_received_sum(interval, sum);
    }
    mark_missing(interval, due);
}
