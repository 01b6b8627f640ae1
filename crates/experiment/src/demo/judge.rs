//! Judging a row: counts must be exact; rates and times are compared with the requested ones, and a host-limited run
//! is undecided rather than passed or failed.

use std::collections::BTreeMap;

use weir_model::plan::Direction;
use weir_model::record::{Crossing, Record, Status};

use super::cases::{Case, Expectation};
use super::excused;

/// A verdict with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The claim holds.
    Passed,
    /// It does not.
    Failed(String),
    /// The host was too busy to decide.
    Undecided(String),
}

/// Tolerance of a paced rate, relative, after missed slots.
const RATE_TOLERANCE: f64 = 0.001;

/// The figures of a row, summed over both directions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Packets or writes sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Rate received, bit/s.
    pub bits_per_second: f64,
    /// Rate received, packets/s.
    pub packets_per_second: f64,
    /// Lost packets.
    pub lost_packets: Option<u64>,
    /// Skipped slots.
    pub missed_slots: u64,
    /// Jitter of the first flow.
    pub jitter_seconds: Option<f64>,
    /// Median one-way delay of the first flow.
    pub delay_p50_seconds: Option<f64>,
    /// Its error bound.
    pub delay_error_seconds: Option<f64>,
    /// Standard deviation of the first flow's sending spacing.
    pub spacing_seconds: Option<f64>,
    /// How its datagrams crossed.
    pub crossing: Option<Crossing>,
}

/// The figures of a record.
pub fn figures(record: &Record) -> Figures {
    let mut out = Figures::default();
    for direction in [Direction::Forward, Direction::Reverse] {
        let Some(total) = record.direction(direction) else { continue };
        if let Some(s) = &total.sender {
            out.sent_packets += s.packets;
            out.sent_bytes += s.bytes;
            out.missed_slots += s.missed_slots.unwrap_or(0);
        }
        if let Some(r) = &total.receiver {
            out.received_bytes += r.bytes;
            out.received_packets += r.packets;
            out.bits_per_second += r.bits_per_second.unwrap_or(0.0);
            out.packets_per_second += r.packets_per_second.unwrap_or(0.0);
            if let Some(lost) = r.lost_packets {
                *out.lost_packets.get_or_insert(0) += lost;
            }
        }
    }
    if let Some(flow) = record.flows.first() {
        out.spacing_seconds =
            flow.sender.as_ref().and_then(|s| s.spacing.as_ref()).map(|s| s.deviation_seconds);
        if let Some(r) = &flow.receiver {
            out.jitter_seconds = r.jitter_seconds;
            out.crossing = r.crossing;
            if let Some(d) = &r.one_way_delay {
                out.delay_p50_seconds = d.p50_seconds;
                out.delay_error_seconds = d.error_seconds;
            }
        }
    }
    out
}

/// Losses and their places as text; `None` without losses, or if the places are unknown.
pub fn losses(record: &Record) -> Option<String> {
    let f = figures(record);
    let lost = f.lost_packets.filter(|l| *l > 0)?;
    let mut stages: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    let ledger = record.loss_ledger.as_ref();
    for row in ledger.iter().flat_map(|l| &l.rows).filter(|r| r.packets > 0) {
        let (packets, exact) = stages.entry(&row.stage).or_insert((0, true));
        *packets += row.packets;
        *exact &= row.kind == "exact";
    }
    let mut places: Vec<String> = stages
        .into_iter()
        // A stage that counts buffers of many datagrams reports an upper bound.
        .map(|(stage, (packets, exact))| match (exact, stage) {
            (true, stage) => format!("{packets} by {stage}"),
            (false, stage) => format!("{} by {stage} (a bound)", packets.min(lost)),
        })
        .collect();
    match ledger.map(|l| l.remainder_packets) {
        Some(rest) if rest != 0 => places.push(format!("{rest} not placed")),
        None => places.push("no ledger".into()),
        _ => {}
    }
    let mut text = format!("{lost} of {} datagrams lost: {}", f.sent_packets, places.join(", "));
    if overflowed(record) > 0 {
        text += "; the receiver was slower than the sender";
    }
    Some(text)
}

/// Datagrams that full socket buffers dropped, by the loss ledger.
fn overflowed(record: &Record) -> u64 {
    let rows = record.loss_ledger.iter().flat_map(|l| &l.rows);
    rows.filter(|r| r.stage == "socket overflow").map(|r| r.packets).sum()
}

/// Judges a record against its case. `host_limited` is what other programs did to the host: it excuses an incomplete
/// test, but no wrong count.
pub(crate) fn judge(case: &Case, record: &Record, host_limited: Option<&str>) -> Verdict {
    if record.status != Status::Complete {
        return excused(record.end_reason.clone(), host_limited);
    }
    let f = figures(record);
    if f.received_bytes == 0 {
        return excused("nothing was received".into(), host_limited);
    }
    match case.expectation {
        Expectation::EveryByte if f.sent_bytes == f.received_bytes => Verdict::Passed,
        Expectation::EveryByte => {
            Verdict::Failed(format!("{} bytes sent, {} received", f.sent_bytes, f.received_bytes))
        }
        Expectation::EveryLossPlaced => match &record.loss_ledger {
            Some(l) if l.remainder_packets == 0 => Verdict::Passed,
            Some(l) => Verdict::Failed(format!(
                "{} of {} missing packets are unaccounted for",
                l.remainder_packets, l.missing_packets
            )),
            None => Verdict::Failed("no loss ledger".into()),
        },
        Expectation::EveryPacketAt { packets_per_second } => paced(record, &f, packets_per_second),
    }
}

fn paced(record: &Record, f: &Figures, asked: f64) -> Verdict {
    let lost = f.sent_packets.saturating_sub(f.received_packets);
    if lost > 0 {
        let dropped = overflowed(record);
        let text = format!(
            "{lost} of {} packets lost, {dropped} of them by the receiver's socket",
            f.sent_packets
        );
        // Losses that kernel counters account for (full socket buffer, full backlog) mean that the host did not keep
        // up; other loss on a plain link is a fault.
        let is_placed = record.loss_ledger.as_ref().is_some_and(|l| l.remainder_packets == 0);
        return match dropped >= lost || is_placed {
            true => Verdict::Undecided(text),
            false => Verdict::Failed(text),
        };
    }
    let Some(sender) = record.flows.first().and_then(|f| f.sender.as_ref()) else {
        return Verdict::Failed("the sender did not report".into());
    };
    if f.missed_slots > 0 {
        return Verdict::Undecided(format!(
            "{} sending slots missed: the host was busy",
            f.missed_slots
        ));
    }
    // Slots served between the first and the last of them: n packets span n - 1 periods.
    let rate = sender.packets.saturating_sub(1) as f64 / sender.seconds.max(1e-9);
    let planned = sender.packets as f64 / sender.seconds.max(1e-9);
    let error = ((rate - asked) / asked).abs().min(((planned - asked) / asked).abs());
    if error > RATE_TOLERANCE {
        return Verdict::Undecided(format!("sent {planned:.1} packets/s instead of {asked:.1}"));
    }
    Verdict::Passed
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::Plan;
    use weir_model::record::{DirectionTotal, Flow, LedgerRow, LossLedger, Receiver, Sender, Sums};

    fn record(sent: u64, received: u64, missed: u64, dropped: u64) -> Record {
        let mut r = Record::default();
        r.flows.push(Flow {
            sender: Some(Sender {
                packets: sent,
                seconds: 1.0,
                missed_slots: Some(missed),
                ..Sender::default()
            }),
            receiver: Some(Receiver { packets: received, ..Receiver::default() }),
            ..Flow::default()
        });
        let overflow = LedgerRow {
            stage: "socket overflow".into(),
            packets: dropped,
            kind: "exact".into(),
            ..LedgerRow::default()
        };
        let missing_packets = sent as i64 - received as i64;
        r.loss_ledger = (dropped > 0).then(|| LossLedger {
            rows: vec![overflow],
            missing_packets,
            remainder_packets: missing_packets - dropped as i64,
        });
        r.total.forward = Some(DirectionTotal {
            sender: Some(Sums {
                packets: sent,
                bytes: sent * 100,
                missed_slots: Some(missed),
                ..Sums::default()
            }),
            receiver: Some(Sums { packets: received, bytes: received * 100, ..Sums::default() }),
        });
        r
    }

    fn case(expectation: Expectation) -> Case {
        Case { name: "t", asked: String::new(), ipv6: false, plan: Plan::default(), expectation }
    }

    #[test]
    fn counts_fail_and_host_limit_is_undecided() {
        let paced = case(Expectation::EveryPacketAt { packets_per_second: 1000.0 });
        assert_eq!(judge(&paced, &record(1000, 1000, 0, 0), None), Verdict::Passed);
        assert!(matches!(judge(&paced, &record(1000, 999, 0, 0), None), Verdict::Failed(_)));
        assert!(matches!(judge(&paced, &record(1000, 999, 0, 1), None), Verdict::Undecided(_)));
        assert!(matches!(judge(&paced, &record(990, 990, 10, 0), None), Verdict::Undecided(_)));
        // A missed slot is reported even if the rate is within its tolerance.
        assert!(matches!(judge(&paced, &record(1000, 1000, 1, 0), None), Verdict::Undecided(_)));
        assert!(matches!(judge(&paced, &record(950, 950, 0, 0), None), Verdict::Undecided(_)));
        let bytes = case(Expectation::EveryByte);
        assert_eq!(judge(&bytes, &record(10, 10, 0, 0), None), Verdict::Passed);
        assert!(matches!(judge(&bytes, &record(10, 9, 0, 0), None), Verdict::Failed(_)));
    }

    #[test]
    fn loss_that_the_kernel_accounts_for_is_undecided() {
        let paced = case(Expectation::EveryPacketAt { packets_per_second: 1000.0 });
        let mut r = record(1000, 990, 0, 0);
        let ledger = |remainder_packets| {
            Some(LossLedger { rows: vec![], remainder_packets, missing_packets: 10 })
        };
        r.loss_ledger = ledger(0);
        assert!(matches!(judge(&paced, &r, None), Verdict::Undecided(_)));
        r.loss_ledger = ledger(1);
        assert!(matches!(judge(&paced, &r, Some("busy")), Verdict::Failed(_)));
    }

    #[test]
    fn a_host_limited_host_excuses_a_test_without_an_end_but_no_count() {
        let bytes = case(Expectation::EveryByte);
        let mut r = record(10, 10, 0, 0);
        r.status = Status::Partial;
        assert!(matches!(judge(&bytes, &r, None), Verdict::Failed(_)));
        assert!(matches!(judge(&bytes, &r, Some("busy")), Verdict::Undecided(_)));
        let silent = record(10, 0, 0, 0);
        assert!(matches!(judge(&bytes, &silent, None), Verdict::Failed(_)));
        assert!(matches!(judge(&bytes, &silent, Some("busy")), Verdict::Undecided(_)));
        assert!(matches!(judge(&bytes, &record(10, 9, 0, 0), Some("busy")), Verdict::Failed(_)));
    }

    #[test]
    fn a_remainder_in_the_ledger_fails() {
        let placed = case(Expectation::EveryLossPlaced);
        let mut r = record(10, 5, 0, 5);
        r.loss_ledger = Some(LossLedger { rows: vec![], remainder_packets: 0, missing_packets: 5 });
        assert_eq!(judge(&placed, &r, None), Verdict::Passed);
        r.loss_ledger = Some(LossLedger { rows: vec![], remainder_packets: 5, missing_packets: 5 });
        assert!(matches!(judge(&placed, &r, None), Verdict::Failed(_)));
    }

    #[test]
    fn losses_are_reported_with_their_place() {
        let mut r = record(1000, 900, 0, 3);
        let row = |stage: &str, packets, kind: &str| LedgerRow {
            stage: stage.into(),
            packets,
            kind: kind.into(),
            ..LedgerRow::default()
        };
        let total = r.total.forward.as_mut().and_then(|t| t.receiver.as_mut()).unwrap();
        total.lost_packets = Some(100);
        r.loss_ledger = Some(LossLedger {
            rows: vec![row("socket overflow", 120, "bound"), row("late", 1, "exact")],
            remainder_packets: -21,
            missing_packets: 100,
        });
        let text = losses(&r).unwrap();
        for words in [
            "100 of 1000 datagrams lost: 1 by late",
            "100 by socket overflow (a bound)",
            "-21 not placed",
            "was slower than the sender",
        ] {
            assert!(text.contains(words), "{text}");
        }
        assert_eq!(losses(&record(1000, 1000, 0, 0)), None);
    }

    #[test]
    fn an_incomplete_run_fails_with_its_reason() {
        let mut r = record(10, 10, 0, 0);
        r.status = Status::Partial;
        r.end_reason = "peer lost".into();
        assert_eq!(
            judge(&case(Expectation::EveryByte), &r, None),
            Verdict::Failed("peer lost".into())
        );
    }

    #[test]
    fn what_was_not_received_or_not_reported_fails() {
        let bytes = case(Expectation::EveryByte);
        assert!(matches!(judge(&bytes, &record(0, 0, 0, 0), None), Verdict::Failed(_)));
        assert!(matches!(judge(&bytes, &record(9, 10, 0, 0), None), Verdict::Failed(_)));
        let placed = case(Expectation::EveryLossPlaced);
        assert!(matches!(judge(&placed, &record(10, 10, 0, 0), None), Verdict::Failed(_)));
        // Accounting for more than is missing is as wrong as for less.
        let mut r = record(10, 5, 0, 5);
        let rows = vec![];
        r.loss_ledger = Some(LossLedger { rows, remainder_packets: -1, missing_packets: 5 });
        assert!(matches!(judge(&placed, &r, None), Verdict::Failed(_)));
        let paced = case(Expectation::EveryPacketAt { packets_per_second: 10.0 });
        let mut r = record(10, 10, 0, 0);
        r.flows[0].sender = None;
        assert!(matches!(judge(&paced, &r, None), Verdict::Failed(_)));
    }

    #[test]
    fn a_rate_is_the_asked_one_within_a_thousandth() {
        let paced = case(Expectation::EveryPacketAt { packets_per_second: 10_000.0 });
        // By the planned time, or by the time from first to last packet, which spans one gap less.
        for (packets, passes) in [
            (9_989, false),
            (9_990, true),
            (10_000, true),
            (10_009, true),
            (10_011, true),
            (10_012, false),
        ] {
            let verdict = judge(&paced, &record(packets, packets, 0, 0), None);
            assert_eq!(verdict == Verdict::Passed, passes, "{packets}: {verdict:?}");
            assert!(passes || matches!(verdict, Verdict::Undecided(_)));
        }
    }

    #[test]
    fn every_loss_must_be_the_receivers_own_to_be_undecided() {
        let paced = case(Expectation::EveryPacketAt { packets_per_second: 1000.0 });
        for (dropped, undecided) in [(1, false), (2, true), (3, true)] {
            let verdict = judge(&paced, &record(1000, 998, 0, dropped), None);
            assert_eq!(matches!(verdict, Verdict::Undecided(_)), undecided, "{dropped}");
        }
    }

    #[test]
    fn figures_sum_both_directions_and_show_the_first_flow() {
        use weir_model::record::{Delay, Spacing};
        let mut r = record(10, 9, 3, 0);
        let sender = Sums { packets: 100, bytes: 500, missed_slots: Some(4), ..Sums::default() };
        let receiver = Sums {
            packets: 90,
            bytes: 450,
            bits_per_second: Some(8e3),
            packets_per_second: Some(90.0),
            lost_packets: Some(10),
            ..Sums::default()
        };
        r.total.reverse = Some(DirectionTotal { sender: Some(sender), receiver: Some(receiver) });
        let forward = r.total.forward.as_mut().unwrap().receiver.as_mut().unwrap();
        (forward.bits_per_second, forward.lost_packets) = (Some(1e3), Some(1));
        forward.packets_per_second = Some(9.0);
        let flow = &mut r.flows[0];
        flow.sender.as_mut().unwrap().spacing =
            Some(Spacing { deviation_seconds: 0.5, ..Spacing::default() });
        let seen = flow.receiver.as_mut().unwrap();
        (seen.jitter_seconds, seen.crossing) = (Some(0.25), Some(Crossing::PerPacket));
        seen.one_way_delay = Some(Delay {
            p50_seconds: Some(0.125),
            p99_seconds: Some(7.0),
            error_seconds: Some(0.0625),
            ..Delay::default()
        });
        let expected = Figures {
            sent_packets: 110,
            sent_bytes: 1500,
            received_bytes: 1350,
            received_packets: 99,
            bits_per_second: 9e3,
            packets_per_second: 99.0,
            lost_packets: Some(11),
            missed_slots: 7,
            jitter_seconds: Some(0.25),
            delay_p50_seconds: Some(0.125),
            delay_error_seconds: Some(0.0625),
            spacing_seconds: Some(0.5),
            crossing: Some(Crossing::PerPacket),
        };
        assert_eq!(figures(&r), expected);
    }
}
