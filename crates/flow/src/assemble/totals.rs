//! Sums over flows: amounts, and rates over the time in which any of them ran. A peer may report any number: sums saturate.

use weir_model::plan::Direction;
use weir_model::record::{DirectionTotal, Flow, Receiver, Sender, Sums, Totals};

/// Adds what one end sent or received to a sum.
fn add_sender(sums: &mut Sums, s: &Sender) {
    sums.bytes = sums.bytes.saturating_add(s.bytes);
    sums.packets = sums.packets.saturating_add(s.packets);
    sums.seconds = sums.seconds.max(s.seconds);
    if let Some(missed) = s.missed_slots {
        let sum = sums.missed_slots.get_or_insert(0);
        *sum = sum.saturating_add(missed);
    }
}

fn add_receiver(sums: &mut Sums, r: &Receiver) {
    sums.bytes = sums.bytes.saturating_add(r.bytes);
    sums.packets = sums.packets.saturating_add(r.packets);
    sums.seconds = sums.seconds.max(r.seconds);
    let mut add = |to: fn(&mut Sums) -> &mut Option<u64>, value: Option<u64>| {
        if let Some(v) = value {
            let sum = to(sums).get_or_insert(0);
            *sum = sum.saturating_add(v);
        }
    };
    add(|s| &mut s.lost_packets, r.lost_packets);
    add(|s| &mut s.late_packets, r.late_packets);
    add(|s| &mut s.duplicate_packets, r.duplicate_packets);
    add(|s| &mut s.reordered_packets, r.reordered_packets);
    add(|s| &mut s.corrupted_packets, r.corrupted_packets);
    add(|s| &mut s.implausible_packets, r.implausible_packets);
}

/// Removes each figure that a receiver of datagrams lacks: a sum of some flows is a different figure.
fn drop_partial(sums: &mut Sums, r: &Receiver) {
    for (sum, part) in [
        (&mut sums.lost_packets, r.lost_packets),
        (&mut sums.late_packets, r.late_packets),
        (&mut sums.duplicate_packets, r.duplicate_packets),
        (&mut sums.reordered_packets, r.reordered_packets),
        (&mut sums.corrupted_packets, r.corrupted_packets),
        (&mut sums.implausible_packets, r.implausible_packets),
    ] {
        *sum = sum.filter(|_| part.is_some());
    }
}

/// When a flow started and for how long it counted, both by its own figures: a receiver's time is slightly longer
/// than from first to last packet, since n packets span n gaps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    start: Option<f64>,
    pub(super) seconds: f64,
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

    pub(super) fn receiver(r: &Receiver) -> Self {
        let packets = (r.packets, r.packets_per_second);
        Self::new((r.start_seconds, r.seconds), packets, (r.bytes, r.bits_per_second))
    }
}

/// From the first start to the last end, and no less than the longest flow, which may have no start.
pub(super) fn union_seconds(flows: &[Counted]) -> f64 {
    let known = flows.iter().filter_map(|c| Some((c.start?, c.start? + c.seconds)));
    let (first, last) = known
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (from, to)| (a.min(from), b.max(to)));
    let longest = flows.iter().map(|c| c.seconds).fold(0.0, f64::max);
    longest.max(last - first)
}

/// Sets a sum's rates: its amounts over the time in which any flow ran. Added up, the flows' own rates would exceed
/// what ever crossed if they ran one after another, or some were shorter than others.
fn set_rates(sums: &mut Sums, flows: &[Counted], at_least_seconds: f64) {
    let earliest = |values: &mut dyn Iterator<Item = f64>| values.min_by(f64::total_cmp);
    let span = union_seconds(flows).max(at_least_seconds);
    sums.start_seconds = earliest(&mut flows.iter().filter_map(|c| c.start));
    sums.bits_per_second = (span > 0.0).then(|| 8.0 * sums.bytes as f64 / span);
    sums.packets_per_second = (span > 0.0).then(|| sums.packets as f64 / span);
}

/// The duration of the run: from the first send to the last end of sending; without senders, of receiving.
pub fn run_seconds(flows: &[Flow]) -> f64 {
    let whole = |start, seconds| Counted { start, seconds };
    let senders: Vec<_> = flows.iter().filter_map(|f| f.sender.as_ref()).collect();
    let mut ends: Vec<_> = senders.iter().map(|s| whole(s.start_seconds, s.seconds)).collect();
    if ends.is_empty() {
        let receivers = flows.iter().filter_map(|f| f.receiver.as_ref());
        ends = receivers.map(|r| whole(r.start_seconds, r.seconds)).collect();
    }
    union_seconds(&ends)
}

/// The flows whose senders and receivers make the sums. Of a stream with several receivers, which are flows of their own
/// in `shared`, they are its sender, as the session reports it that saw most of it, and the receiver with the fewest packets.
pub(super) fn representatives<'a, T>(
    flows: impl Iterator<Item = &'a T>,
    shared: &[Vec<u32>],
    id: impl Fn(&T) -> u32,
    sent: impl Fn(&T) -> Option<u64>,
    received: impl Fn(&T) -> Option<u64>,
) -> Vec<(&'a T, [bool; 2])> {
    let flows: Vec<&T> = flows.collect();
    let by_id = |wanted: &u32| flows.iter().find(|f| id(f) == *wanted);
    let mut out = vec![];
    for flow in &flows {
        let own = id(flow);
        let Some(stream) = shared.iter().find(|ids| ids.contains(&own)) else {
            out.push((*flow, [true, true]));
            continue;
        };
        let there = || stream.iter().filter_map(by_id);
        // The first of several with as many.
        let longest = there().rev().max_by_key(|f| sent(f));
        let is_longest = longest.is_some_and(|f| id(f) == own);
        let fewest = there().filter(|f| received(f).is_some()).min_by_key(|f| received(f));
        let is_fewest = fewest.is_some_and(|f| id(f) == own);
        out.push((*flow, [is_longest, is_fewest]));
    }
    out
}

/// Sums of the flows of a test in each direction that ran.
#[must_use]
pub fn totals(flows: &[Flow]) -> Totals {
    let of = |direction| total(flows, direction, &[], None);
    Totals { forward: of(Direction::Forward), reverse: of(Direction::Reverse) }
}

/// Sums of one direction. `shared`: numbers of the flows that share a sender. `reported`: its receivers' sum during the test, if they reported no single flows and no
/// end.
pub(super) fn total(
    flows: &[Flow],
    direction: Direction,
    shared: &[Vec<u32>],
    reported: Option<Receiver>,
) -> Option<DirectionTotal> {
    let of_direction = flows.iter().filter(|f| f.direction == direction);
    let packets = |f: &Flow| f.receiver.as_ref().map(|r| r.packets);
    let sent = |f: &Flow| f.sender.as_ref().map(|s| s.packets);
    let counted = representatives(of_direction, shared, |f| f.id, sent, packets);
    let mut out = DirectionTotal::default();
    let (mut senders, mut receivers) = (vec![], vec![]);
    let last = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).max_by(f64::total_cmp);
    for &(f, [sends, receives]) in &counted {
        if let Some(s) = f.sender.as_ref().filter(|_| sends) {
            let sums = out.sender.get_or_insert_with(Sums::default);
            add_sender(sums, s);
            sums.end_seconds = last(sums.end_seconds, s.end_seconds);
            senders.push(Counted::sender(s));
            if let Some(tcp) = &f.tcp {
                let sum = sums.retransmits.get_or_insert(0);
                *sum = sum.saturating_add(tcp.retransmits);
            }
        }
        if let Some(r) = f.receiver.as_ref().filter(|_| receives) {
            let sums = out.receiver.get_or_insert_with(Sums::default);
            add_receiver(sums, r);
            sums.end_seconds = last(sums.end_seconds, r.end_seconds);
            receivers.push(Counted::receiver(r));
        }
    }
    let mut partial = flows.iter().any(|f| {
        f.direction == direction
            && f.receiver
                .as_ref()
                .is_some_and(|r| r.reported_until_seconds.is_some() || r.is_part())
    });
    if let Some(reported) = reported.filter(|_| flows.iter().any(|f| f.direction == direction)) {
        partial = true;
        let sums = out.receiver.get_or_insert_with(Sums::default);
        add_receiver(sums, &reported);
        sums.end_seconds = last(sums.end_seconds, reported.end_seconds);
        receivers.push(Counted::receiver(&reported));
    }
    // Sending after the last report of an unreachable receiver, or while a receiver was not in the group, is not time in
    // which it received nothing.
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
    if let Some(sums) = &mut out.receiver {
        let datagrams =
            counted.iter().filter(|(f, [_, receives])| f.transport.datagrams() && *receives);
        let receivers = datagrams.filter_map(|(f, _)| f.receiver.as_ref());
        receivers.for_each(|r| drop_partial(sums, r));
    }
    if let Some(r) = &mut out.receiver
        && let Some(lost) = r.lost_packets
    {
        let sent = lost.saturating_add(r.packets);
        r.loss_ratio = (sent > 0).then(|| lost as f64 / sent as f64);
    }
    (out.sender.is_some() || out.receiver.is_some()).then_some(out)
}
