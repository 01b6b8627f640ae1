//! Triangulation: an emulator's packet trace and a receiver's packet log, joined by flow, sequence and copy.
//!
//! Three sources describe each packet: the laws, the emulator and the receiver. Where they disagree, one of the three
//! programs is wrong, and the difference is counted here. A packet's delay less the emulator's part is the error of
//! the tool and of the hosts: the *residual*.

use std::collections::BTreeMap;

use weir_model::plan::Direction;
use weir_wire::packets::{FLAG_MODIFIED, FLAG_WARM_UP, Judged, Record, RecordKind};

/// What to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Flow of the test.
    pub flow: u32,
    /// Direction in which its packets crossed the emulator.
    pub direction: Direction,
    /// Packets that its sender sent, sequence numbers 0 to one less.
    pub sent: u64,
    /// A packet with changed content can't reach the receiver's socket: its checksum was left wrong.
    pub damaged_are_dropped: bool,
}

/// Counts of each disposition, planned and observed, and the delays.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Triangulation {
    /// Packets sent.
    pub sent: u64,
    /// Packets that the emulator judged (copies not counted).
    pub judged: u64,
    /// Packets on whose disposition the emulator and the receiver agree.
    pub matched: u64,
    /// Packets on whose disposition they don't.
    pub disagreeing: u64,
    /// The first few of those, as text.
    pub examples: Vec<String>,
    /// Sent, but seen neither by the emulator nor by the receiver: lost before the emulator.
    pub lost_before: u64,
    /// Dropped by a loss law.
    pub lost: u64,
    /// Dropped by the planned queue.
    pub queue_dropped: u64,
    /// Dropped by the emulator without a law.
    pub unplanned: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets with changed content.
    pub modified: u64,
    /// Of those that the emulator forwarded unchanged, those that the receiver never saw: lost after the emulator.
    pub lost_behind: u64,
    /// Packets seen by the receiver that the packet trace lacks.
    pub unknown: u64,
    /// Delay of each joined packet beyond the emulator's, ns: (arrival − sending) − (departure − entry), ascending.
    pub residual_ns: Vec<i64>,
    /// Departure later than asked, ns, ascending: the emulator's lateness. Negative: early.
    pub lateness_ns: Vec<i64>,
    /// Delay asked by the laws, ns, ascending.
    pub asked_delay_ns: Vec<i64>,
    /// Delay in the emulator, ns, ascending.
    pub realised_delay_ns: Vec<i64>,
    /// Delay measured by the receiver, ns, ascending.
    pub measured_delay_ns: Vec<i64>,
}

/// Of one packet.
#[derive(Default, Clone)]
struct PacketHistory {
    /// Arrival, departure and planned departure of each forwarded copy, in the order of departure.
    departures: Vec<(u64, u64, Option<u64>)>,
    dropped: Option<RecordKind>,
    modified: bool,
    /// Arrivals, with the send time in the header.
    arrivals: Vec<(Option<u64>, u64)>,
    /// Damaged arrivals with a credible sequence number.
    damaged: u64,
}

/// Maximum number of disagreements reported as text.
const EXAMPLES: usize = 5;

/// Joins a packet trace and a receiver's log. `sender_offset_ns`: the sender's clock minus the receiver's.
///
/// A datagram with a damaged header arrives without a number; such arrivals are matched by count with changed packets
/// that are missing otherwise.
pub(crate) fn triangulate(
    subject: &Subject,
    packet_trace: impl IntoIterator<Item = (Record, Judged)>,
    received: impl IntoIterator<Item = Record>,
    sender_offset_ns: i64,
) -> Triangulation {
    let mut stories: BTreeMap<u64, PacketHistory> = BTreeMap::new();
    let mut out = Triangulation { sent: subject.sent, ..Triangulation::default() };
    let wanted = u8::from(subject.direction == Direction::Reverse);
    for (record, judged) in packet_trace {
        let Some(sequence) = judged.native_sequence else { continue };
        if judged.native_flow != subject.flow
            || record.direction != wanted
            || sequence >= subject.sent
        {
            continue;
        }
        let story = stories.entry(sequence).or_default();
        story.modified |= record.flags & FLAG_MODIFIED != 0;
        match (record.kind, record.time1_ns, record.time2_ns) {
            (RecordKind::FORWARDED, Some(entry), Some(departure)) => {
                story.departures.push((entry, departure, judged.asked_ns));
            }
            (kind, ..) => story.dropped = Some(kind),
        }
    }
    out.judged = stories.len() as u64;
    let mut nameless = 0u64;
    for record in received {
        if record.flow != subject.flow || record.flags & FLAG_WARM_UP != 0 {
            continue;
        }
        match record.kind {
            RecordKind::ARRIVED | RecordKind::LATE | RecordKind::DUPLICATE
                if record.sequence < subject.sent =>
            {
                if !stories.contains_key(&record.sequence) {
                    out.unknown += 1;
                    continue;
                }
                let story = stories.entry(record.sequence).or_default();
                if let Some(at) = record.time2_ns {
                    story.arrivals.push((record.time1_ns, at));
                }
                story.damaged += u64::from(record.flags & FLAG_MODIFIED != 0);
            }
            RecordKind::CORRUPTED | RecordKind::TRUNCATED => nameless += 1,
            _ => out.unknown += 1,
        }
    }
    for (sequence, story) in &mut stories {
        join(*sequence, story, subject, &mut nameless, sender_offset_ns, &mut out);
    }
    // Damage that the emulator did not do.
    out.disagreeing += nameless;
    out.lost_before = subject.sent.saturating_sub(out.judged + out.unknown);
    out.disagreeing += out.unknown;
    for series in [
        &mut out.residual_ns,
        &mut out.lateness_ns,
        &mut out.asked_delay_ns,
        &mut out.realised_delay_ns,
        &mut out.measured_delay_ns,
    ] {
        series.sort_unstable();
    }
    out
}

fn join(
    sequence: u64,
    story: &mut PacketHistory,
    subject: &Subject,
    nameless: &mut u64,
    sender_offset_ns: i64,
    out: &mut Triangulation,
) {
    match story.dropped {
        Some(RecordKind::LOST) => out.lost += 1,
        Some(RecordKind::QUEUE_DROPPED) => out.queue_dropped += 1,
        Some(_) => out.unplanned += 1,
        None => {}
    }
    out.modified += u64::from(story.modified);
    out.duplicated += (story.departures.len() as u64).saturating_sub(1);
    story.departures.sort_unstable_by_key(|d| d.1);
    for (entry, departure, asked) in &story.departures {
        if let Some(asked) = asked {
            out.lateness_ns.push(departure.wrapping_sub(*asked) as i64);
            out.asked_delay_ns.push(asked.wrapping_sub(*entry) as i64);
        }
        out.realised_delay_ns.push(departure.wrapping_sub(*entry) as i64);
    }
    let sent_on = story.departures.len() as u64;
    let seen = story.arrivals.len() as u64;
    let agree = if story.modified && subject.damaged_are_dropped {
        seen == 0
    } else if story.modified && seen < sent_on {
        // Damage in the header makes its number unreadable.
        let missing = sent_on - seen;
        let found = missing.min(*nameless);
        *nameless -= found;
        found == missing
    } else {
        seen == sent_on
    };
    if agree {
        out.matched += 1;
    } else {
        out.disagreeing += 1;
        out.lost_behind += sent_on.saturating_sub(seen);
        if out.examples.len() < EXAMPLES {
            let dropped = story.dropped.and_then(RecordKind::name).unwrap_or("sent on");
            out.examples.push(format!(
                "packet {sequence}: the emulator says {dropped}, {sent_on} copies forwarded; the receiver saw {seen}"
            ));
        }
    }
    for ((entry, departure, _), (sent, arrival)) in story.departures.iter().zip(&story.arrivals) {
        let Some(sent) = sent else { continue };
        let measured = arrival.wrapping_sub(sent.wrapping_add_signed(-sender_offset_ns)) as i64;
        out.measured_delay_ns.push(measured);
        out.residual_ns.push(measured - departure.wrapping_sub(*entry) as i64);
    }
}

/// The `q` quantile of an ascending series; nearest rank.
#[must_use]
pub fn quantile(sorted: &[i64], q: f64) -> Option<i64> {
    let rank = (q.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1).min(sorted.len().checked_sub(1)?)).copied()
}

/// Mean and standard deviation (of the population) of a series, ns.
#[must_use]
pub(crate) fn moments(series: &[i64]) -> Option<(f64, f64)> {
    if series.is_empty() {
        return None;
    }
    let n = series.len() as f64;
    let mean = series.iter().map(|&v| v as f64).sum::<f64>() / n;
    let variance = series.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / n;
    Some((mean, variance.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: Subject =
        Subject { flow: 1, direction: Direction::Forward, sent: 4, damaged_are_dropped: false };

    fn judged(sequence: u64, kind: RecordKind, flags: u32) -> (Record, Judged) {
        let leaves = kind == RecordKind::FORWARDED;
        let entry = 1_000 * sequence + 100;
        (
            Record {
                sequence,
                time1_ns: Some(entry),
                time2_ns: leaves.then_some(entry + 520),
                flow: 77,
                size_bytes: 202,
                copy: 0,
                kind,
                direction: 0,
                flags,
            },
            Judged {
                asked_ns: leaves.then_some(entry + 500),
                native_sequence: Some(sequence),
                native_flow: 1,
            },
        )
    }

    fn seen(sequence: u64, kind: RecordKind) -> Record {
        Record {
            sequence,
            time1_ns: Some(1_000 * sequence),
            time2_ns: Some(1_000 * sequence + 700),
            flow: 1,
            size_bytes: 160,
            copy: 0,
            kind,
            direction: 0,
            flags: 0,
        }
    }

    #[test]
    fn verdicts_that_agree() {
        let packet_trace = [
            judged(0, RecordKind::FORWARDED, 0),
            judged(1, RecordKind::LOST, 0),
            judged(2, RecordKind::FORWARDED, 0),
            judged(2, RecordKind::FORWARDED, 0),
            judged(3, RecordKind::QUEUE_DROPPED, 0),
        ];
        let log = [
            seen(0, RecordKind::ARRIVED),
            seen(2, RecordKind::ARRIVED),
            seen(2, RecordKind::DUPLICATE),
        ];
        let t = triangulate(&SUBJECT, packet_trace, log, 0);
        assert_eq!((t.matched, t.disagreeing, t.judged), (4, 0, 4));
        assert_eq!((t.lost, t.queue_dropped, t.duplicated, t.lost_before), (1, 1, 1, 0));
        // 700 measured, 520 of them in the emulator.
        assert_eq!(t.residual_ns, vec![180; 3]);
        assert_eq!(t.lateness_ns, vec![20; 3]);
        assert_eq!(t.asked_delay_ns, vec![500; 3]);
    }

    #[test]
    fn every_kind_of_disagreement_is_counted() {
        let packet_trace = [
            judged(0, RecordKind::LOST, 0),
            judged(1, RecordKind::FORWARDED, 0),
            judged(2, RecordKind::FORWARDED, 0),
        ];
        // 0 was dropped and arrived; 1 never arrived; 2 arrived twice; 3 arrived without the emulator.
        let log = [
            seen(0, RecordKind::ARRIVED),
            seen(2, RecordKind::ARRIVED),
            seen(2, RecordKind::DUPLICATE),
            seen(3, RecordKind::ARRIVED),
        ];
        let t = triangulate(&SUBJECT, packet_trace, log, 0);
        assert_eq!((t.matched, t.disagreeing, t.unknown, t.lost_behind), (0, 4, 1, 1));
        assert_eq!(t.lost_before, 0);
        assert_eq!(t.examples.len(), 3);
    }

    #[test]
    fn packets_the_emulator_never_saw_are_lost_before_it() {
        let t = triangulate(
            &SUBJECT,
            [judged(0, RecordKind::FORWARDED, 0)],
            [seen(0, RecordKind::ARRIVED)],
            0,
        );
        assert_eq!((t.matched, t.disagreeing, t.lost_before), (1, 0, 3));
    }

    #[test]
    fn a_damaged_header_joins_through_the_packet_trace() {
        let packet_trace =
            [judged(0, RecordKind::FORWARDED, FLAG_MODIFIED), judged(1, RecordKind::FORWARDED, 0)];
        let nameless = Record { sequence: 0, time1_ns: None, ..seen(0, RecordKind::CORRUPTED) };
        let t = triangulate(&SUBJECT, packet_trace, [nameless, seen(1, RecordKind::ARRIVED)], 0);
        assert_eq!((t.matched, t.disagreeing, t.modified), (2, 0, 1));
        // Damage without a cause is a disagreement.
        let t = triangulate(
            &SUBJECT,
            [judged(1, RecordKind::FORWARDED, 0)],
            [nameless, seen(1, RecordKind::ARRIVED)],
            0,
        );
        assert_eq!((t.matched, t.disagreeing), (1, 1));
        // With a wrong checksum the receiver must not see it at all.
        let dropped = Subject { damaged_are_dropped: true, ..SUBJECT };
        let t = triangulate(&dropped, packet_trace, [seen(1, RecordKind::ARRIVED)], 0);
        assert_eq!((t.matched, t.disagreeing), (2, 0));
        let t = triangulate(
            &dropped,
            packet_trace,
            [seen(0, RecordKind::ARRIVED), seen(1, RecordKind::ARRIVED)],
            0,
        );
        assert_eq!((t.matched, t.disagreeing), (1, 1));
    }

    #[test]
    fn other_flows_directions_and_offsets() {
        let mut other = judged(0, RecordKind::LOST, 0);
        other.1.native_flow = 2;
        let mut back = judged(0, RecordKind::LOST, 0);
        back.0.direction = 1;
        let packet_trace = [other, back, judged(0, RecordKind::FORWARDED, 0)];
        let mut arrival = seen(0, RecordKind::ARRIVED);
        // The sender's clock is 5000 ns ahead.
        arrival.time1_ns = Some(5_000);
        let mut foreign = seen(1, RecordKind::ARRIVED);
        foreign.flow = 9;
        let t = triangulate(&SUBJECT, packet_trace, [arrival, foreign], 5_000);
        assert_eq!((t.matched, t.disagreeing, t.lost), (1, 0, 0));
        assert_eq!(t.residual_ns, vec![180]);
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let sorted: Vec<i64> = (1..=100).collect();
        assert_eq!(quantile(&sorted, 0.5), Some(50));
        assert_eq!(quantile(&sorted, 0.99), Some(99));
        assert_eq!((quantile(&sorted, 0.0), quantile(&sorted, 1.0)), (Some(1), Some(100)));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(moments(&[1, 3]), Some((2.0, 1.0)));
    }
}
