//! Nothing is counted twice or lost between intervals and totals, whatever arrives when.

use proptest::prelude::*;
use weir_flow::{
    IntervalClock, Logged, NextSend, PayloadRing, Receiving, SenderClock, Sending, StreamPool,
    StreamReceiving,
};
use weir_model::content::Content;
use weir_model::plan::{Connection, Family, FlowSpec, Plan, Transport};
use weir_model::record::IntervalCount;
use weir_model::units::ByteSize;
use weir_stats::Arrival;
use weir_wire::header::TagKey;

const MS: u64 = 1_000_000;

fn spec(payload: u64, change: impl FnOnce(&mut Connection)) -> FlowSpec {
    let mut connection = Connection {
        transport: Transport::udp(),
        payload: Some(ByteSize(payload).into()),
        rate: Some("1000pps".parse().unwrap()),
        ..Connection::default()
    };
    change(&mut connection);
    Plan { connections: vec![connection], ..Plan::default() }
        .flows(Family::Ipv4, 1500)
        .pop()
        .unwrap()
}

/// Boundaries of every kind: intervals that do not divide the omitted time, longer than it, or none.
fn clocks() -> impl Strategy<Value = IntervalClock> {
    let omit = prop_oneof![2 => Just(0u64), 2 => 1..300 * MS, 1 => 300 * MS..900 * MS];
    let interval = prop_oneof![1 => Just(0u64), 4 => 10 * MS..200 * MS];
    (0u64..1 << 40, interval, omit).prop_map(|(start_ns, interval_ns, omit_ns)| IntervalClock {
        start_ns,
        interval_ns,
        omit_ns,
    })
}

/// The interval that contains `at_ns`, found by checking every boundary.
fn interval_of(clock: &IntervalClock, at_ns: u64) -> usize {
    (0..).find(|i| clock.end_ns(*i).is_none_or(|end| at_ns < end)).unwrap()
}

fn sum(counts: &[IntervalCount], of: impl Fn(&IntervalCount) -> u64) -> u64 {
    counts.iter().map(of).sum()
}

proptest! {
    #[test]
    fn a_streams_reads_are_all_in_their_intervals(
        clock in clocks(),
        reads in prop::collection::vec((0u64..60 * MS, 1usize..100_000), 1..60),
    ) {
        let mut r = StreamReceiving::new(None);
        r.start(clock);
        let (mut now, mut expected, mut total) = (clock.start_ns, vec![0u64; 200], 0);
        for (gap, bytes) in &reads {
            now += gap;
            r.on_read(*bytes, None, now);
            expected[interval_of(&clock, now)] += *bytes as u64;
            total += *bytes as u64;
        }
        r.finish(now + 5 * MS);
        let counts = r.interval_counts();
        let got: Vec<u64> = counts.iter().map(|c| c.bytes).collect();
        prop_assert_eq!(&got[..], &expected[..got.len()]);
        prop_assert_eq!((sum(&counts, |c| c.bytes), r.bytes()), (total, total));
        let kept: Vec<_> = counts.iter().skip(clock.omitted()).cloned().collect();
        let report = r.report("copy", None);
        prop_assert_eq!(report.bytes, sum(&kept, |c| c.bytes));
        prop_assert_eq!(report.packets, sum(&kept, |c| c.packets));
        prop_assert_eq!(report.io_calls, Some(reads.len() as u64));
    }

    #[test]
    fn what_is_sent_is_all_in_its_intervals(
        clock in clocks(),
        sends in prop::collection::vec((0u64..60 * MS, 0u32..30), 1..60),
    ) {
        let s = spec(100, |c| c.rate = Some("0".parse().unwrap()));
        let mut tx = Sending::new(&s, TagKey::for_flow(&[1; 16], 1), clock.omit_ns, false);
        tx.start(clock.start_ns, clock);
        let (mut now, mut expected, mut total) = (clock.start_ns, vec![0u64; 200], 0u64);
        for (gap, packets) in sends {
            now += gap;
            if let NextSend::Now(_) = tx.next(now) {
                tx.sent(packets, packets, now);
                expected[interval_of(&clock, now)] += u64::from(packets);
                total += u64::from(packets);
            }
        }
        tx.finish(now);
        let counts = tx.interval_counts();
        let got: Vec<u64> = counts.iter().map(|c| c.packets).collect();
        prop_assert_eq!(&got[..], &expected[..got.len()]);
        prop_assert_eq!(tx.total(), (total, 100 * total));
        prop_assert_eq!(sum(&counts, |c| c.packets), total);
        let kept: Vec<_> = counts.iter().skip(clock.omitted()).cloned().collect();
        let report = tx.report("send", None);
        prop_assert_eq!(report.packets, sum(&kept, |c| c.packets));
        prop_assert_eq!(report.bytes, sum(&kept, |c| c.bytes));
    }

    /// Lost, copied, overtaken, damaged, truncated and coalesced datagrams, at any distance.
    #[test]
    fn datagrams_are_all_in_their_intervals(
        clock in clocks(),
        payload in prop_oneof![Just(2u64), Just(8), Just(16), Just(40), Just(200)],
        dispositions in prop::collection::vec((0u64..20 * MS, 0u8..12, 0u64..40 * MS), 1..150),
        coalesce in any::<bool>(),
    ) {
        let s = spec(payload, |_| {});
        let key = TagKey::for_flow(&[1; 16], s.id);
        let mut ring = PayloadRing::new(Content::Random, 1, payload as usize);
        let mut tx = Sending::new(&spec(payload, |c| c.rate = Some("0".parse().unwrap())), key.clone(), 0, false);
        tx.start(0, IntervalClock { start_ns: 0, interval_ns: 0, omit_ns: 0 });
        let mut arrivals: Vec<(u64, Vec<u8>)> = vec![];
        let (mut now, sent) = (clock.start_ns, dispositions.len() as u64);
        for (gap, disposition, delay) in dispositions {
            now += gap;
            let (bytes, _) = tx.fill(&mut ring, 1, now);
            let mut datagram = bytes.to_vec();
            tx.sent(1, 1, 0);
            match disposition {
                0 => continue,
                1 => arrivals.push((now + delay + MS, datagram.clone())),
                2 if payload >= 16 => datagram[0] ^= 1,
                3 if payload > 32 => datagram.truncate(35),
                _ => {}
            }
            arrivals.push((now + delay, datagram));
        }
        arrivals.sort_by_key(|a| a.0);
        let mut rx = Receiving::new(&s, key, 10_000 * MS, None);
        rx.start(clock);
        rx.set_clock(SenderClock::default());
        let mut last = clock.start_ns;
        let mut logged = vec![];
        let mut log = |one: Logged| logged.push(one.arrival);
        let equal = |a: &(u64, Vec<u8>), b: &(u64, Vec<u8>)| a.1.len() == b.1.len();
        if coalesce {
            // Neighbours of one size arrive as one message, at the time of the last of them.
            for run in arrivals.chunk_by(equal).flat_map(|run| run.chunks(7)) {
                let message: Vec<u8> = run.iter().flat_map(|a| a.1.clone()).collect();
                last = run.last().unwrap().0;
                rx.on_message(&message, Some(run[0].1.len()), last, &mut log);
            }
        } else {
            for (at, datagram) in &arrivals {
                last = *at;
                rx.on_message(datagram, None, *at, &mut log);
            }
        }
        rx.set_sent_total(sent);
        rx.finish(last + 20_000 * MS);
        let counts = rx.interval_counts();
        let kept: Vec<_> = counts.iter().skip(clock.omitted()).cloned().collect();
        let report = rx.report("recvmmsg", None, None);
        prop_assert_eq!(report.packets, sum(&kept, |c| c.packets));
        prop_assert_eq!(report.bytes, sum(&kept, |c| c.bytes));
        prop_assert_eq!(report.duplicate_packets.unwrap(), sum(&kept, |c| c.duplicate_packets.unwrap()));
        prop_assert_eq!(report.reordered_packets.unwrap(), sum(&kept, |c| c.reordered_packets.unwrap()));
        prop_assert_eq!(report.lost_packets.unwrap(), sum(&kept, |c| c.lost_packets.unwrap()));
        // Everything that was sent has arrived or is lost, the omitted part included.
        let all = sum(&counts, |c| c.packets) + sum(&counts, |c| c.lost_packets.unwrap());
        prop_assert_eq!(all, sent);
        // Every datagram that was delivered is in exactly one counter.
        let whole: Vec<_> = rx.log.closed().to_vec();
        let counted: u64 = whole
            .iter()
            .map(|c| c.packets + c.duplicates + c.late + c.unreadable + c.implausible)
            .sum();
        prop_assert_eq!(counted, arrivals.len() as u64);
        // The packet log has each with the disposition that was counted.
        prop_assert_eq!(logged.len(), arrivals.len());
        let is = |wanted: fn(&Arrival) -> bool| logged.iter().filter(|a| wanted(a)).count() as u64;
        let (duplicates, late) = whole.iter().fold((0, 0), |(d, l), c| (d + c.duplicates, l + c.late));
        prop_assert_eq!(is(|a| matches!(a, Arrival::Duplicate)), duplicates);
        prop_assert_eq!(is(|a| matches!(a, Arrival::Late)), late);
        let reordered: u64 = whole.iter().map(|c| c.reordered).sum();
        prop_assert_eq!(is(|a| matches!(a, Arrival::Reordered { .. })), reordered);
        if payload >= 16 {
            let damaged: u64 = rx.log.closed().iter().skip(clock.omitted()).map(|c| c.corrupted).sum();
            prop_assert_eq!(report.corrupted_packets, Some(damaged));
        }
        if clock.omitted() > 0 && kept.is_empty() {
            prop_assert_eq!((report.packets, report.one_way_delay), (0, None));
        }
    }
}

proptest! {
    /// A stream's sender: what is counted while it sends, between its last write and its end, and after that.
    #[test]
    fn retransmitted_segments_are_all_in_their_intervals(
        clock in clocks(),
        steps in prop::collection::vec((0u64..60 * MS, 0u64..5, any::<bool>()), 1..60),
        behind in prop::collection::vec(0u64..5, 0..4),
    ) {
        let s = spec(100, |c| (c.transport, c.rate) = (Transport::tcp(), None));
        let mut tx = Sending::new(&s, TagKey::for_flow(&[1; 16], 1), clock.omit_ns, false);
        tx.start(clock.start_ns, clock);
        let (mut now, mut total) = (clock.start_ns, 0);
        tx.wrote(100, true, now);
        for (gap, retransmits, writes) in steps {
            now += gap;
            total += retransmits;
            tx.note_tcp(total, 1, 1);
            tx.advance(now);
            if writes {
                tx.wrote(100, true, now);
            }
        }
        tx.stop();
        tx.finish(now);
        for retransmits in behind {
            total += retransmits;
            tx.note_tcp(total, 1, 1);
        }
        total += 3;
        tx.note_retransmits(total);
        let counts = tx.interval_counts();
        prop_assert_eq!(sum(&counts, |c| c.retransmits.unwrap_or(0)), total);
        prop_assert_eq!(sum(&counts, |c| c.bytes), tx.total().1);
        prop_assert_eq!(sum(&counts, |c| c.packets), tx.total().0);
    }

    /// One-byte numbers under losses of any length: they wrap unseen.
    #[test]
    fn ambiguous_numbers_make_no_loss_and_no_copies(
        clock in clocks(),
        bursts in prop::collection::vec((1u64..300, 0u64..2000, 0u64..20 * MS), 2..40),
        omit_boundary in any::<bool>(),
    ) {
        let clock = IntervalClock { omit_ns: if omit_boundary { clock.omit_ns } else { 0 }, ..clock };
        let s = spec(1, |c| c.rate = Some("0".parse().unwrap()));
        let key = TagKey::for_flow(&[1; 16], s.id);
        let mut ring = PayloadRing::new(Content::Random, 1, 1);
        let mut tx = Sending::new(&s, key.clone(), clock.omit_ns, false);
        let mut rx = Receiving::new(&s, key, 2000 * MS, None);
        tx.start(clock.start_ns, clock);
        rx.start(clock);
        let (mut now, mut delivered) = (clock.start_ns, 0u64);
        for (arrive, lost, gap) in bursts {
            now += gap;
            let _ = tx.next(now);
            for n in 0..arrive + lost {
                let datagram = tx.fill(&mut ring, 1, now).0.to_vec();
                tx.sent(1, 1, now);
                if n < arrive {
                    rx.on_message(&datagram, None, now, |_| {});
                    delivered += 1;
                }
            }
        }
        tx.finish(now);
        let sent = tx.total().0;
        rx.set_sent_total(sent);
        rx.set_sent_omitted(tx.omitted_packets());
        rx.finish(now + 4000 * MS);
        let counts = rx.interval_counts();
        let kept: Vec<_> = counts.iter().skip(clock.omitted()).cloned().collect();
        let (tx, rx) = (tx.report("send", None), rx.report("recvmmsg", None, None));
        // Losses of whole wraps may go unnoticed, but the number of losses is right.
        prop_assert_eq!(sum(&counts, |c| c.packets), delivered);
        prop_assert_eq!(rx.packets, sum(&kept, |c| c.packets));
        prop_assert_eq!(rx.bytes, rx.packets);
        if rx.ambiguous == Some(true) || clock.omitted() == 0 {
            prop_assert_eq!(rx.lost_packets, Some(tx.packets - rx.packets));
        }
        if rx.ambiguous == Some(true) {
            prop_assert_eq!((rx.duplicate_packets, rx.reordered_packets), (None, None));
            prop_assert_eq!((rx.late_packets, rx.loss_periods), (None, None));
            prop_assert!(kept.iter().all(|c| c.lost_packets.is_none() && c.duplicate_packets.is_none()));
        } else {
            prop_assert_eq!(rx.duplicate_packets, Some(0));
            prop_assert_eq!(rx.lost_packets, Some(sum(&kept, |c| c.lost_packets.unwrap())));
        }
    }
}

#[test]
fn damaged_numbers_without_a_tag_are_refused_and_hide_no_good_ones() {
    let s = spec(2, |c| c.packets = Some(4000));
    let key = TagKey::for_flow(&[1; 16], s.id);
    let mut ring = PayloadRing::new(Content::Random, 1, 2);
    let mut tx = Sending::new(&s, key.clone(), 0, false);
    let mut rx = Receiving::new(&s, key, 2000 * MS, None);
    let clock = IntervalClock { start_ns: 0, interval_ns: 1000 * MS, omit_ns: 0 };
    tx.start(0, clock);
    rx.start(clock);
    // Of each hundred datagrams one has one bit flipped: each of the 16 bits in turn.
    for n in 0..4000u64 {
        let mut datagram = tx.fill(&mut ring, 1, n * MS).0.to_vec();
        tx.sent(1, 1, n * MS);
        if n % 100 == 99 {
            let bit = n / 100 % 16;
            datagram[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        rx.on_message(&datagram, None, n * MS, |_| {});
    }
    rx.set_sent_total(4000);
    rx.finish(10_000 * MS);
    let r = rx.report("recvmmsg", None, None);
    let implausible = r.implausible_packets.unwrap();
    // Bits 12 to 15 always make a number beyond 4000, lower ones do where the number is near it.
    assert!((10..=20).contains(&implausible), "{implausible}");
    assert!(r.packets >= 3920, "{r:?}");
    let others = r.duplicate_packets.unwrap_or(0) + r.late_packets.unwrap_or(0);
    assert_eq!(r.packets + others + implausible + r.unreadable_packets.unwrap(), 4000);
}

#[test]
fn a_stream_is_verified_at_its_position() {
    let pool = || StreamPool::new(Content::Random, 3, 4096);
    let mut r = StreamReceiving::new(Some(std::sync::Arc::new(pool())));
    let pool = pool();
    assert!(r.wants_bytes());
    r.start(IntervalClock { start_ns: 0, interval_ns: 0, omit_ns: 0 });
    // Reads longer than the pool provides at once, so that one is compared in parts.
    let mut position = 0u64;
    for length in [1000usize, 10_000, 1, 4097] {
        let mut data: Vec<u8> =
            (position..position + length as u64).map(|p| pool.at(p, 1)[0]).collect();
        if length == 10_000 {
            data[9_000] ^= 0b1101;
        }
        r.on_read(length, Some(&data), position);
        position += length as u64;
    }
    let report = r.report("copy", None);
    assert_eq!((report.bit_errors, report.verified_bytes), (Some(3), Some(position)));
    assert_eq!(StreamReceiving::new(None).report("copy", None).bit_errors, None);
}

#[test]
fn a_stream_is_complete_at_its_end_or_its_count() {
    let mut r = StreamReceiving::new(None);
    r.on_read(999, None, 1);
    assert!(!r.is_complete());
    r.set_sent_total(1000);
    assert!(!r.is_complete());
    r.on_read(1, None, 2);
    assert!(r.is_complete());
    let mut r = StreamReceiving::new(None);
    r.on_end();
    assert!(r.is_complete());
}

#[test]
fn a_streams_rates_are_bits_over_the_time_of_each_interval() {
    let mut r = StreamReceiving::new(None);
    r.start(IntervalClock { start_ns: 0, interval_ns: 100 * MS, omit_ns: 0 });
    for ms in 0..=150 {
        r.on_read(125, None, ms * MS);
    }
    r.finish(150 * MS);
    // Finished long after: no empty intervals until then.
    r.finish(10_000 * MS);
    let counts = r.interval_counts();
    assert_eq!(counts.len(), 2);
    assert_eq!(
        (counts[0].bits_per_second, counts[0].packets_per_second),
        (Some(1e6), Some(1000.0))
    );
    // The record, which knows both ends, states where the last one was cut.
    assert_eq!(counts[1].bits_per_second, Some(51.0 * 1000.0 / 0.1));
}
