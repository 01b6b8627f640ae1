//! The loss ledger: every datagram that was sent and not counted as received is attributed, or in the remainder.

use weir_model::plan::Direction;
use weir_model::record::{Crossing, Host, LedgerRow, LossLedger, Record};

use crate::socket_drops::socket_drops;
use weir_model::record::stage;

/// Source of the drops at a full socket buffer.
const OVERFLOW: &str = "SK_MEMINFO drops less checksum errors";
/// Counter of the frames of XDP that an interface's queue had no room for.
const REFUSED_FRAMES: &str = "xdp_xmit_errors";

/// The ledger of a record's datagram flows; `None` when there is none, or when one end did not report.
pub(crate) fn ledger(record: &Record) -> Option<LossLedger> {
    let (mut missing, mut any) = (0i64, false);
    let mut rows = vec![];
    let drops = socket_drops(record);
    for f in record.flows.iter().filter(|f| f.transport.datagrams()) {
        let (Some(s), Some(r)) = (&f.sender, &f.receiver) else { return None };
        if r.reported_until_seconds.or(s.reported_until_seconds).is_some() {
            return None;
        }
        any = true;
        // It is unknown how many packets were sent while it was a member.
        if r.is_part() && r.lost_packets.is_none() {
            return None;
        }
        // The two ends cut an omitted start at slightly different packets: the receiver's own figure is used.
        let of_flow = match (record.omitted_seconds, r.lost_packets) {
            (Some(_), Some(lost)) => lost as i64,
            // What was sent while the receiver was not in the group is not missing.
            (None, Some(lost)) if r.is_part() => lost as i64,
            _ => (s.packets as i64).saturating_sub(r.packets as i64),
        };
        missing = missing.saturating_add(of_flow);
        let receiver_side = match f.direction {
            Direction::Forward => "remote",
            Direction::Reverse => "local",
        };
        let mut row = |stage: &str, packets: u64, source: &str, exact: bool, side: &str| {
            if packets > 0 {
                rows.push(LedgerRow {
                    stage: stage.into(),
                    packets,
                    source: format!("{source} (flow {})", f.id),
                    kind: if exact { "exact" } else { "bound" }.into(),
                    side: Some(side.into()),
                });
            }
        };
        // One drop is counted for each buffer, which may hold many coalesced datagrams.
        let overflow = drops(f.direction).overflow(r.socket_dropped_packets.unwrap_or(0));
        if r.crossing != Some(Crossing::Coalesced) {
            row(stage::SOCKET_OVERFLOW, overflow.packets, OVERFLOW, overflow.exact, receiver_side);
        } else {
            // At most as many datagrams as the sender put into one super-packet.
            let each = s.segments_per_message.unwrap_or(1.0).max(1.0);
            let buffers = overflow.packets;
            let source = format!("{OVERFLOW}: {buffers} buffers of up to {each:.0} datagrams");
            row(
                stage::SOCKET_OVERFLOW,
                (buffers as f64 * each).round() as u64,
                &source,
                false,
                receiver_side,
            );
        }
        // A number too old to distinguish a late datagram from a copy counts as late.
        row(
            stage::LATE,
            r.late_packets.unwrap_or(0),
            "sequence, after the loss threshold",
            record.omitted_seconds.is_none() && r.ambiguous != Some(true),
            receiver_side,
        );
        // Damaged content behind a good header was received: it is not missing.
        let unreadable = r.unreadable_packets.unwrap_or(0);
        row(stage::DAMAGED_HEADER, unreadable, "tag or size", true, receiver_side);
        // A datagram that an intruder sent is not one of the missing.
        let implausible = r.implausible_packets.unwrap_or(0);
        row(stage::IMPLAUSIBLE_NUMBER, implausible, "sequence", false, receiver_side);
    }
    if !any {
        return None;
    }
    let udp = || record.flows.iter().filter(|f| f.transport.datagrams());
    let sends = |direction| udp().any(|f| f.direction == direction);
    // Both ends then report the same counters.
    let is_shared = record.is_one_namespace();
    for (direction, side) in [(Direction::Forward, "remote"), (Direction::Reverse, "local")] {
        let here = udp().filter(|f| f.direction == direction);
        let one_by_one = matches!(Crossing::of(here), None | Some(Crossing::PerPacket));
        let damaged = drops(direction).damaged();
        let is_counted = is_shared && rows.iter().any(|row| row.stage == stage::DAMAGED);
        if damaged.packets > 0 && sends(direction) && !is_counted {
            rows.push(LedgerRow {
                stage: stage::DAMAGED.into(),
                packets: damaged.packets,
                source: "UDP InCsumErrors".into(),
                kind: if damaged.exact && one_by_one { "exact" } else { "bound" }.into(),
                side: Some(side.into()),
            });
        }
    }
    let (forward, reverse) = (sends(Direction::Forward), sends(Direction::Reverse));
    if let Some(host) = &record.local {
        host_rows(record, host, "local", forward || (is_shared && reverse), &mut rows);
    }
    if let Some(host) = record.remote.as_ref().filter(|_| !is_shared) {
        host_rows(record, host, "remote", reverse, &mut rows);
    }
    softnet_rows(record, &mut rows);
    let mut out = LossLedger { rows, remainder_packets: 0, missing_packets: missing };
    out.settle();
    Some(out)
}

/// A count of frames in datagrams at most, and a note on that for its source: a frame may be a super-packet, with as
/// many datagrams as a sender put into one.
pub(crate) fn datagrams(record: &Record, frames: u64) -> (u64, String) {
    let senders = record.flows.iter().filter_map(|f| f.sender.as_ref()?.segments_per_message);
    let each = senders.fold(1.0, f64::max).ceil();
    match each > 1.0 {
        true => (
            (frames as f64 * each) as u64,
            format!(": {frames} frames of up to {each:.0} datagrams"),
        ),
        false => (frames, String::new()),
    }
}

/// Counters of the whole host and its interfaces: bounds, since other traffic counts there too. Frames of XDP are of the test
/// alone.
fn host_rows(record: &Record, host: &Host, side: &str, sends: bool, rows: &mut Vec<LedgerRow>) {
    let mut row = |stage: &str, frames: u64, source: String, exact: bool| {
        if frames > 0 {
            let (packets, of) = datagrams(record, frames);
            rows.push(LedgerRow {
                stage: stage.into(),
                packets,
                source: source + &of,
                kind: if exact { "exact" } else { "bound" }.into(),
                side: Some(side.into()),
            });
        }
    };
    for i in &host.interfaces {
        // Never exact: the control connection and the probes pass through the same discipline. An end that only
        // receives can lose only these in its egress queue; its filters may drop incoming packets.
        for q in i.qdiscs.iter().filter(|q| sends || q.hook == "filter") {
            let source = format!("qdisc {} drops on {} (RTM_GETQDISC)", q.kind, i.name);
            row(stage::QDISC, q.dropped_packets, source, false);
        }
        let counted = |key| {
            let (before, after) = (i.counters_before.get(key)?, i.counters_after.get(key)?);
            Some(after.saturating_sub(*before))
        };
        let refused = counted(REFUSED_FRAMES).filter(|_| sends_frames(record)).unwrap_or(0);
        let source = format!("{} {REFUSED_FRAMES}", i.name);
        row(stage::INTERFACE_QUEUE, refused, source, true);
        for (key, stage) in [
            ("tx_dropped", stage::CARD_TX),
            ("rx_dropped", stage::CARD_RX),
            ("rx_missed_errors", stage::CARD_RX),
            ("rx_crc_errors", stage::CARD_RX),
        ] {
            if let Some(frames) = counted(key) {
                // It includes them.
                let other = if key == "tx_dropped" { refused } else { 0 };
                row(stage, frames.saturating_sub(other), format!("{} {key}", i.name), false);
            }
        }
    }
}

/// Whether programs sent frames of the record's flows.
fn sends_frames(record: &Record) -> bool {
    let senders = record.flows.iter().filter_map(|flow| flow.sender.as_ref());
    senders.into_iter().any(|sender| sender.max_call_packets.is_some())
}

/// Drops of the backlog queues, counted per host: once if both ends are on one host.
fn softnet_rows(record: &Record, rows: &mut Vec<LedgerRow>) {
    let dropped = |host: &Option<Host>| {
        host.as_ref().and_then(|h| h.counters.get("softnet_dropped")).copied().unwrap_or(0)
    };
    let (local, remote) = (dropped(&record.local), dropped(&record.remote));
    let counts = if record.is_one_host() {
        [(local.max(remote), None), (0, None)]
    } else {
        [(local, Some("local")), (remote, Some("remote"))]
    };
    rows.extend(counts.into_iter().filter(|(frames, _)| *frames > 0).map(|(frames, side)| {
        let (packets, of) = datagrams(record, frames);
        LedgerRow {
            stage: stage::SOFTNET.into(),
            packets,
            source: format!("/proc/net/softnet_stat dropped{of}"),
            kind: "bound".into(),
            side: side.map(Into::into),
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::TransportName;
    use weir_model::record::stage::DAMAGED;
    use weir_model::record::{ClockRelation, Flow, Interface, QdiscUse, Receiver, Sender};

    fn record(sent: u64, received: u64, dropped: u64, late: u64, crossing: Crossing) -> Record {
        let flow = Flow {
            id: 1,
            transport: TransportName::Udp,
            sender: Some(Sender { packets: sent, ..Sender::default() }),
            receiver: Some(Receiver {
                packets: received,
                lost_packets: Some(sent - received),
                socket_dropped_packets: Some(dropped),
                late_packets: Some(late),
                crossing: Some(crossing),
                ..Receiver::default()
            }),
            ..Flow::default()
        };
        let full = ("udp_receive_buffer_errors".to_string(), dropped);
        let remote = Host { counters: [full].into(), ..Host::default() };
        Record { flows: vec![flow], remote: Some(remote), ..Record::default() }
    }

    #[test]
    fn late_is_a_bound_where_it_may_be_a_copy() {
        let mut r = record(1000, 900, 0, 7, Crossing::PerPacket);
        let kind = |r: &Record| {
            let rows = ledger(r).unwrap().rows;
            rows.into_iter().find(|r| r.stage == "late").unwrap().kind
        };
        assert_eq!(kind(&r), "exact");
        r.flows[0].receiver.as_mut().unwrap().ambiguous = Some(true);
        assert_eq!(kind(&r), "bound");
    }

    #[test]
    fn damage_on_the_path_is_no_overflow() {
        let mut r = record(1000, 900, 100, 0, Crossing::PerPacket);
        let counters = &mut r.remote.as_mut().unwrap().counters;
        counters.insert("udp_receive_buffer_errors".into(), 30);
        counters.insert("udp_checksum_errors".into(), 70);
        let rows = |r: &Record| -> Vec<(String, u64, String)> {
            let rows = ledger(r).unwrap().rows;
            rows.into_iter().map(|r| (r.stage, r.packets, r.kind)).collect()
        };
        let row = |stage: &str, n, kind: &str| (stage.to_string(), n, kind.to_string());
        assert_eq!(rows(&r), [row("socket overflow", 30, "exact"), row(DAMAGED, 70, "exact")]);
        assert_eq!(ledger(&r).unwrap().remainder_packets, 0);
        // Those of the omitted start can't be subtracted: both are bounds.
        r.omitted_seconds = Some(1.0);
        assert_eq!(rows(&r), [row("socket overflow", 30, "bound"), row(DAMAGED, 70, "bound")]);
        r.omitted_seconds = None;
        // One more than the socket's own drops: another program's, or a datagram that reached no socket.
        r.remote.as_mut().unwrap().counters.insert("udp_checksum_errors".into(), 71);
        assert_eq!(rows(&r), [row("socket overflow", 30, "bound"), row(DAMAGED, 71, "bound")]);
        assert_eq!(ledger(&r).unwrap().remainder_packets, 0);
    }

    #[test]
    fn sums_are_conserved() {
        let l = ledger(&record(1000, 900, 70, 5, Crossing::PerPacket)).unwrap();
        assert_eq!((l.missing_packets, l.remainder_packets), (100, 25));
        let exact: u64 = l.rows.iter().filter(|r| r.kind == "exact").map(|r| r.packets).sum();
        assert_eq!(exact as i64 + l.remainder_packets, l.missing_packets);
    }

    #[test]
    fn only_damaged_headers_are_missing() {
        let mut r = record(1000, 990, 0, 0, Crossing::PerPacket);
        let receiver = r.flows[0].receiver.as_mut().unwrap();
        receiver.corrupted_packets = Some(30);
        receiver.unreadable_packets = Some(10);
        receiver.bit_errors = Some(25);
        let l = ledger(&r).unwrap();
        assert_eq!((l.rows[0].stage.as_str(), l.rows[0].packets), ("damaged header", 10));
        assert_eq!(l.remainder_packets, 0);
    }

    #[test]
    fn coalesced_drops_are_a_bound() {
        let mut coalesced = record(1000, 900, 2, 0, Crossing::Coalesced);
        coalesced.flows[0].sender.as_mut().unwrap().segments_per_message = Some(40.0);
        let l = ledger(&coalesced).unwrap();
        assert_eq!((l.rows[0].kind.as_str(), l.rows[0].packets), ("bound", 80));
        assert_eq!(l.remainder_packets, 20);
        // A bound explains no more than what is missing.
        coalesced.flows[0].sender.as_mut().unwrap().segments_per_message = Some(64.0);
        assert_eq!(ledger(&coalesced).unwrap().remainder_packets, 0);
    }

    fn queueing(kind: &str, hook: &str, dropped: u64) -> Host {
        let qdisc = QdiscUse {
            kind: kind.into(),
            hook: hook.into(),
            sent_packets: 1000,
            dropped_packets: dropped,
        };
        let interface =
            Interface { name: "eth0".into(), qdiscs: vec![qdisc], ..Interface::default() };
        Host { interfaces: vec![interface], ..Host::default() }
    }

    #[test]
    fn drops_of_the_senders_discipline_are_a_bound() {
        let mut r = record(1000, 900, 10, 0, Crossing::PerPacket);
        r.local = Some(queueing("tbf", "egress", 93));
        let l = ledger(&r).unwrap();
        let row = &l.rows[1];
        assert_eq!((row.stage.as_str(), row.packets, row.kind.as_str()), ("qdisc", 93, "bound"));
        assert_eq!(row.source, "qdisc tbf drops on eth0 (RTM_GETQDISC)");
        assert_eq!((row.side.as_deref(), l.remainder_packets), (Some("local"), 0));
        r.local = Some(queueing("tbf", "egress", 60));
        assert_eq!(ledger(&r).unwrap().remainder_packets, 30);
    }

    #[test]
    fn frames_that_the_interface_refused_are_exact_and_no_other_drops() {
        let counters = |dropped, refused| {
            [("tx_dropped".to_string(), dropped), (REFUSED_FRAMES.to_string(), refused)].into()
        };
        let interface = Interface {
            name: "eth0".into(),
            counters_before: counters(10, 5),
            counters_after: counters(105, 95),
            ..Interface::default()
        };
        let host = Host { interfaces: vec![interface], ..Host::default() };
        let mut r = record(1000, 900, 0, 0, Crossing::PerPacket);
        r.local = Some(host);
        let rows = |r: &Record| -> Vec<(String, u64, String)> {
            let rows = ledger(r).unwrap().rows;
            rows.into_iter().map(|r| (r.stage, r.packets, r.kind)).collect()
        };
        let row = |stage: &str, n, kind: &str| (stage.to_string(), n, kind.to_string());
        // Sockets send no frames of XDP.
        assert_eq!(rows(&r), [row("card tx", 95, "bound")]);
        r.flows[0].sender.as_mut().unwrap().max_call_packets = Some(64);
        assert_eq!(
            rows(&r),
            [row("interface queue full", 90, "exact"), row("card tx", 5, "bound")]
        );
        assert_eq!(ledger(&r).unwrap().remainder_packets, 5);
    }

    #[test]
    fn an_end_that_only_receives_loses_no_data_in_its_own_queue() {
        let mut r = record(1000, 900, 0, 0, Crossing::PerPacket);
        r.remote = Some(queueing("tbf", "egress", 93));
        assert_eq!(ledger(&r).unwrap().remainder_packets, 100);
        r.remote = Some(queueing("clsact", "filter", 93));
        assert_eq!(ledger(&r).unwrap().remainder_packets, 7);
    }

    #[test]
    fn nothing_missing_is_an_empty_ledger() {
        let l = ledger(&record(10, 10, 0, 0, Crossing::PerPacket)).unwrap();
        assert!(l.rows.is_empty() && l.remainder_packets == 0);
        assert!(ledger(&Record::default()).is_none());
    }

    /// Both ends on one host, over these interfaces.
    fn on_one_host(mut r: Record, interface: &str) -> Record {
        let relation = ClockRelation { method: "shared".into(), ..ClockRelation::default() };
        r.clock = Some(relation);
        for host in [&mut r.local, &mut r.remote] {
            let host = host.get_or_insert_default();
            host.counters.insert("softnet_dropped".into(), 5);
            let counters = |n| [("rx_dropped".to_string(), n)].into();
            host.interfaces = vec![Interface {
                name: interface.into(),
                counters_before: counters(1),
                counters_after: counters(4),
                ..Interface::default()
            }];
        }
        r
    }

    #[test]
    fn counters_that_both_ends_share_are_in_the_ledger_once() {
        let rows = |r: &Record| -> Vec<(String, u64, Option<String>)> {
            ledger(r).unwrap().rows.into_iter().map(|r| (r.stage, r.packets, r.side)).collect()
        };
        let row = |stage: &str, n, side: Option<&str>| (stage.into(), n, side.map(Into::into));
        let (local, remote) = (Some("local"), Some("remote"));
        let mut r = on_one_host(record(1000, 900, 0, 0, Crossing::PerPacket), "eth0");
        assert_eq!(
            rows(&r),
            [row("card rx", 3, local), row("card rx", 3, remote), row("softnet", 5, None)]
        );
        r.clock = None;
        assert_eq!(rows(&r)[2..], [row("softnet", 5, local), row("softnet", 5, remote)]);
        // One namespace: its UDP counters hold the drops of both directions' sockets.
        let mut r = on_one_host(record(1000, 900, 3, 0, Crossing::PerPacket), "lo");
        let mut reverse = r.flows[0].clone();
        (reverse.direction, reverse.id) = (Direction::Reverse, 2);
        r.flows.push(reverse);
        for host in [&mut r.local, &mut r.remote] {
            let counters = &mut host.as_mut().unwrap().counters;
            counters.insert("udp_receive_buffer_errors".into(), 0);
            counters.insert("udp_checksum_errors".into(), 6);
        }
        assert_eq!(
            rows(&r),
            [row(DAMAGED, 6, remote), row("card rx", 3, local), row("softnet", 5, None)]
        );
        assert_eq!(ledger(&r).unwrap().rows[0].kind, "exact");
        // So is the warning, also where an end did not report and there is no ledger.
        let warned = |r: &Record| crate::warnings::checksum_errors(r).len();
        assert_eq!(warned(&r), 1);
        r.loss_ledger = ledger(&r);
        assert_eq!(warned(&r), 1);
    }
}
