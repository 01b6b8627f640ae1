//! Nothing is counted twice or lost between intervals and totals, whatever arrives when.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use weir_flow::{
    IntervalClock, Next, PayloadRing, Receiving, SenderClock, Sending, StreamPool, StreamReceiving,
};
use weir_model::content::Content;
use weir_model::plan::{Connection, Family, FlowSpec, Plan, Transport};
use weir_model::record::IntervalCount;
use weir_model::units::ByteSize;
use weir_wire::data::TagKey;

const MS: u64 = 1_000_000;

fn spec(payload: u64, change: impl FnOnce(&mut Connection)) -> FlowSpec {
    let mut connection = Connection {
        transport: Transport::Udp,
        payload: Some(ByteSize(payload)),
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

/// The interval that holds `at_ns`, by looking at every boundary.
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
            if let Next::Now(_) = tx.next(now) {
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

    /// Lost, copied, overtaken, damaged, cut and merged datagrams, at any distance.
    #[test]
    fn datagrams_are_all_in_their_intervals(
        clock in clocks(),
        payload in prop_oneof![Just(2u64), Just(8), Just(16), Just(40), Just(200)],
        fates in prop::collection::vec((0u64..20 * MS, 0u8..12, 0u64..40 * MS), 1..150),
        merge in any::<bool>(),
    ) {
        let s = spec(payload, |_| {});
        let key = TagKey::for_flow(&[1; 16], s.id);
        let mut ring = PayloadRing::new(Content::Random, 1, payload as usize);
        let mut tx = Sending::new(&spec(payload, |c| c.rate = Some("0".parse().unwrap())), key, 0, false);
        tx.start(0, IntervalClock { start_ns: 0, interval_ns: 0, omit_ns: 0 });
        let mut arrivals: Vec<(u64, Vec<u8>)> = vec![];
        let (mut now, sent) = (clock.start_ns, fates.len() as u64);
        for (gap, fate, delay) in fates {
            now += gap;
            let (bytes, _) = tx.fill(&mut ring, 1, now);
            let mut datagram = bytes.to_vec();
            tx.sent(1, 1, 0);
            match fate {
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
        let equal = |a: &(u64, Vec<u8>), b: &(u64, Vec<u8>)| a.1.len() == b.1.len();
        if merge {
            // Neighbours of one size arrive as one message, at the time of the last of them.
            for run in arrivals.chunk_by(equal).flat_map(|run| run.chunks(7)) {
                let message: Vec<u8> = run.iter().flat_map(|a| a.1.clone()).collect();
                last = run.last().unwrap().0;
                rx.on_message(&message, Some(run[0].1.len()), last, |_| {});
            }
        } else {
            for (at, datagram) in &arrivals {
                last = *at;
                rx.on_message(datagram, None, *at, |_| {});
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
        // Everything that was sent has come or is lost, the omitted part included.
        let all = sum(&counts, |c| c.packets) + sum(&counts, |c| c.lost_packets.unwrap());
        prop_assert_eq!(all, sent);
        if payload >= 16 {
            let damaged: u64 = rx.log.closed().iter().skip(clock.omitted()).map(|c| c.corrupted).sum();
            prop_assert_eq!(report.corrupted_packets, Some(damaged));
        }
        if clock.omitted() > 0 && kept.is_empty() {
            prop_assert_eq!((report.packets, report.one_way_delay), (0, None));
        }
    }
}

#[test]
fn a_stream_is_verified_at_its_position() {
    let pool = StreamPool::new(Content::Random, 3, 4096);
    let mut r = StreamReceiving::new(Some(pool.clone()));
    assert!(r.wants_bytes());
    r.start(IntervalClock { start_ns: 0, interval_ns: 0, omit_ns: 0 });
    // Reads longer than the pool lends at once, so that one is compared in parts.
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
    assert_eq!(r.report("copy", None).bit_errors, Some(3));
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
    // Ended long after: no empty intervals up to there.
    r.finish(10_000 * MS);
    let counts = r.interval_counts();
    assert_eq!(counts.len(), 2);
    assert_eq!(
        (counts[0].bits_per_second, counts[0].packets_per_second),
        (Some(1e6), Some(1000.0))
    );
    // Where the last one was cut is for the record to say, which knows both ends.
    assert_eq!(counts[1].bits_per_second, Some(51.0 * 1000.0 / 0.1));
}
