//! Managed queues in virtual time: what their papers and RFCs promise.

use super::managed::class_of;
use super::tests::{both, count, engine, even, feed};
use super::*;
use crate::key::{FragmentPlace, Key};

const MS: u64 = 1_000_000;
/// A frame of 1000 bytes takes 1 ms.
const RATE: &str = "rate 8032k queue 100packets";

fn counters(engine: &Engine) -> Counters {
    engine.flows().next().unwrap().counters
}

/// A packet of 1000 bytes with a source port and an ECN field.
fn meta(at: u64, port: u32, ecn: u8) -> Meta {
    let mut meta = Meta::opaque(port, at, 1000);
    meta.key.ports = port << 16;
    meta.key.ecn = ecn;
    meta
}

fn sent(dispositions: &[Disposition]) -> impl Iterator<Item = &Disposition> {
    dispositions.iter().filter(|one| one.verdict == Verdict::Forwarded)
}

/// Time in the queue and on the link, of sent packets.
fn delays(dispositions: &[Disposition]) -> Vec<u64> {
    sent(dispositions).map(|one| one.at_ns - one.arrived_ns).collect()
}

#[test]
fn a_queue_that_nothing_is_dropped_from_is_that_of_tail_drop() {
    // Bursts of 50 packets, with idle times between them.
    let metas: Vec<Meta> = (0..2000)
        .map(|i| Meta::opaque(i as u32, i / 50 * 60 * MS + i % 50 * 1000, 100 + i as u32 % 1400))
        .collect();
    let plain = feed(&mut engine(&format!("{RATE}, delay 3ms")), &metas);
    assert!(plain.iter().all(|one| one.verdict == Verdict::Forwarded));
    for aqm in [
        "head_drop",
        "codel target 1m interval 1h",
        "red min 1M max 2M",
        "fq_codel flows 1 target 1m interval 1h",
    ] {
        let managed = feed(&mut engine(&format!("{RATE} {aqm}, delay 3ms")), &metas);
        let differs = managed.iter().zip(&plain).find(|(managed, plain)| managed != plain);
        assert_eq!((differs, managed.len()), (None, plain.len()), "{aqm}");
    }
}

#[test]
fn a_full_queue_drops_its_head_or_its_tail() {
    for (aqm, lost) in [("", 101..150), ("head_drop", 1..50)] {
        let dispositions = feed(&mut engine(&format!("{RATE} {aqm}")), &even(150, 1));
        let dropped = dispositions.iter().filter(|one| one.verdict == Verdict::QueueDropped);
        // The first packet is in transmission, and 100 wait.
        assert_eq!(dropped.map(|one| one.index).collect::<Vec<_>>(), lost.collect::<Vec<_>>());
    }
}

#[test]
fn codel_drops_by_its_control_law() {
    let mut engine = engine("rate 8032k queue 100000packets codel");
    // Twice the rate for 3 s.
    let dispositions = feed(&mut engine, &even(6000, MS / 2));
    let dropped = dispositions.iter().filter(|one| one.verdict == Verdict::QueueDropped);
    let times: Vec<u64> = dropped.map(|one| one.at_ns).take(12).collect();
    // A packet waits for 5 ms first after some 10 ms; the first drop is 100 ms later, and the n-th interval 100 ms/√n.
    let first = times[0] / MS;
    assert!((110..114).contains(&first), "{first}");
    for (n, pair) in times.windows(2).enumerate() {
        let expected = 100.0 / ((n + 1) as f64).sqrt();
        let interval = (pair[1] - pair[0]) as f64 / MS as f64;
        // Packets leave every millisecond.
        assert!((interval - expected).abs() <= 1.0, "{n}: {interval} {expected}");
    }
    let counters = counters(&engine);
    assert_eq!(counters.queue_dropped_packets, counters.aqm_dropped_packets);
    assert_eq!(counters.received_packets, counters.sent_packets + counters.queue_dropped_packets);
}

#[test]
fn codel_leaves_a_burst_below_its_interval_alone() {
    // Bursts of 60 ms each second.
    let metas: Vec<Meta> =
        (0..600).map(|i| Meta::opaque(0, i / 60 * 1000 * MS + i % 60, 1000)).collect();
    let dispositions = feed(&mut engine(&format!("{RATE} codel")), &metas);
    assert_eq!(count(&dispositions, Verdict::Forwarded), 600);
}

#[test]
fn marks_take_the_place_of_drops_for_capable_packets() {
    for aqm in ["codel", "red min 5K max 90K", "pie", "fq_codel"] {
        // 1.05 times the rate.
        let metas = |ecn| (0..4000).map(|i| meta(i * 950_000, 1, ecn)).collect::<Vec<_>>();
        let mut marking = engine(&format!("{RATE} {aqm} ecn"));
        feed(&mut marking, &metas(2));
        let of = counters(&marking);
        assert!(of.marked_packets > 0, "{aqm}");
        let mut dropping = engine(&format!("{RATE} {aqm} ecn"));
        feed(&mut dropping, &metas(0));
        let of = counters(&dropping);
        assert!(of.aqm_dropped_packets > 0 && of.marked_packets == 0, "{aqm}");
        let mut silent = engine(&format!("{RATE} {aqm}"));
        feed(&mut silent, &metas(2));
        assert_eq!(counters(&silent).marked_packets, 0, "{aqm}");
    }
}

#[test]
fn pie_keeps_its_target_against_a_constant_overload() {
    let mut engine = engine("rate 8032k queue 10000packets pie");
    // 1.25 times the rate, which no sender slows down.
    let dispositions = feed(&mut engine, &even(40_000, 800_000));
    let delays = delays(&dispositions);
    let late = &delays[delays.len() / 2..];
    let mean = late.iter().sum::<u64>() / late.len() as u64;
    assert!((10 * MS..20 * MS).contains(&mean), "{mean}");
    let tail = &dispositions[dispositions.len() / 2..];
    let dropped = count(tail, Verdict::QueueDropped) as f64 / tail.len() as f64;
    assert!((dropped - 0.2).abs() < 0.02, "{dropped}");
}

#[test]
fn fq_codel_shares_the_rate_and_lets_sparse_flows_pass() {
    // Two flows at twice the rate each, and a packet of a third one every 20 ms.
    let metas: Vec<Meta> = (0..8000)
        .flat_map(|i| {
            let at = i * MS / 2;
            let sparse = (i % 40 == 7).then(|| meta(at + 1, 3, 0));
            [meta(at, 1, 0), meta(at, 2, 0)].into_iter().chain(sparse)
        })
        .collect();
    let dispositions = feed(&mut engine(&format!("{RATE} fq_codel")), &metas);
    let of = |port| sent(&dispositions).filter(move |one| one.handle == port);
    let last = metas.last().unwrap().arrived_ns;
    let shares = [1, 2].map(|port| of(port).filter(|one| one.at_ns <= last).count());
    assert!(shares[0].abs_diff(shares[1]) <= 3 && shares[0] > 1850, "{shares:?}");
    assert_eq!(of(3).count(), 200);
    // It waits for a packet in transmission, and one more that its turn has begun with.
    let slowest = of(3).map(|one| one.at_ns - one.arrived_ns).max().unwrap();
    assert!(slowest <= 4 * MS, "{slowest}");
}

#[test]
fn dualpi2_separates_low_latency_from_classic_packets() {
    // Each kind at 0.52 of the rate.
    let metas: Vec<Meta> = (0..15_000)
        .flat_map(|i| [meta(i * 25 * MS / 13, 1, 1), meta(i * 25 * MS / 13 + 1000, 2, 0)])
        .collect();
    let mut engine = engine("rate 8032k queue 10000packets dualpi2");
    let dispositions = feed(&mut engine, &metas);
    let late = |port| {
        let late = dispositions[dispositions.len() / 2..].iter();
        late.filter(move |one| one.handle == port).collect::<Vec<_>>()
    };
    let (low, classic) = (late(1), late(2));
    let mean = |of: &[&Disposition]| {
        let sent: Vec<u64> = of
            .iter()
            .filter(|one| one.verdict == Verdict::Forwarded)
            .map(|one| one.at_ns - one.arrived_ns)
            .collect();
        sent.iter().sum::<u64>() / sent.len() as u64
    };
    assert!(mean(&low) < 5 * MS, "{}", mean(&low));
    assert!((8 * MS..25 * MS).contains(&mean(&classic)), "{}", mean(&classic));
    assert!(low.iter().all(|one| one.verdict == Verdict::Forwarded));
    assert!(low.iter().any(|one| one.flags & FLAG_MARKED != 0));
    assert!(classic.iter().all(|one| one.flags & FLAG_MARKED == 0));
    // 1.04 times the rate: the excess is dropped of classic packets alone.
    let dropped = classic.iter().filter(|one| one.verdict == Verdict::QueueDropped).count();
    let share = dropped as f64 / classic.len() as f64;
    assert!((share - 1.0 / 13.0).abs() < 0.01, "{share}");
}

#[test]
fn a_flood_of_low_latency_packets_leaves_a_tenth_to_classic_ones() {
    let metas: Vec<Meta> = (0..100).flat_map(|i| [meta(i, 1, 1), meta(i, 2, 0)]).collect();
    let dispositions = feed(&mut engine("rate 8032k queue 1000packets dualpi2"), &metas);
    let first = sent(&dispositions).take(100);
    assert_eq!(first.filter(|one| one.handle == 2).count(), 10);
}

#[test]
fn all_fragments_of_a_datagram_are_in_one_queue() {
    let mut first = meta(0, 7, 0).key;
    first.fragment = FragmentPlace::First;
    let later = Key { fragment: FragmentPlace::Later, ports: 0, ..first };
    let other = Key { source: first.source + 1, ..later };
    assert_eq!(class_of(&first), class_of(&later));
    assert_ne!(class_of(&later), class_of(&other));
    assert_ne!(class_of(&meta(0, 7, 0).key), class_of(&meta(0, 8, 0).key));
}

#[test]
fn an_overfull_queue_of_fq_codel_drops_from_the_longest() {
    let text = "rate 8032k queue 20packets fq_codel target 1m interval 1h";
    let greedy = (0..100).map(|i| meta(i, 1, 0));
    let metas: Vec<Meta> = greedy.chain([meta(200, 2, 0), meta(201, 2, 0)]).collect();
    let mut engine = engine(text);
    let dispositions = feed(&mut engine, &metas);
    let dropped = dispositions.iter().filter(|one| one.verdict == Verdict::QueueDropped);
    assert!(dropped.clone().count() >= 79 && dropped.clone().all(|one| one.handle == 1));
    assert_eq!(counters(&engine).aqm_dropped_packets, 0);
}

#[test]
fn a_new_configuration_waits_for_the_old_queue() {
    for (before, after) in
        [("codel", "head_drop"), ("codel", ""), ("", "codel"), ("fq_codel", "pie")]
    {
        let mut engine = engine(&format!("{RATE} {before}"));
        let mut dispositions = vec![];
        let metas = even(20, 1);
        engine.step(metas[0].arrived_ns, &metas, &mut dispositions);
        engine.configure(&both(&format!("rate 16064k queue 100packets {after}"))).unwrap();
        dispositions.extend(feed(&mut engine, &even(20, 1)));
        let times: Vec<u64> = sent(&dispositions).map(|one| one.at_ns).collect();
        assert_eq!(times.len(), 40, "{before} {after}");
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[..19].iter().all(|gap| *gap == MS), "{before} {after}: {gaps:?}");
        assert!(gaps[19..].iter().all(|gap| *gap == MS / 2), "{before} {after}: {gaps:?}");
    }
}

#[test]
fn queued_packets_are_abandoned_and_memory_is_limited() {
    for aqm in ["head_drop", "codel", "fq_codel", "dualpi2"] {
        let config = Impairment {
            memory: Some(weir_model::units::ByteSize(1 << 20)),
            ..both(&format!("rate 8032k queue 100000packets {aqm}"))
        };
        let mut engine = Engine::new(&config, Direction::Forward).unwrap();
        let mut dispositions = vec![];
        engine.step(MS, &even(2000, 0), &mut dispositions);
        assert!(engine.memory_used_bytes() <= 1 << 20);
        engine.abandon(&mut dispositions);
        assert_eq!((engine.held_packets(), engine.next_deadline_ns()), (0, None), "{aqm}");
        let unplanned = count(&dispositions, Verdict::Unplanned);
        assert_eq!(unplanned + count(&dispositions, Verdict::Forwarded), 2000, "{aqm}");
        assert!(unplanned > 1900);
    }
}

#[test]
fn a_queue_behind_a_delay_takes_packets_at_their_time() {
    let text = format!("delay 30ms, {RATE} codel, order delay rate");
    let dispositions = feed(&mut engine(&text), &even(10, 100));
    let first = dispositions[0].at_ns;
    assert_eq!(first, MS + 31 * MS);
    let times: Vec<u64> = dispositions.iter().map(|one| one.at_ns - first).collect();
    assert_eq!(times, (0..10).map(|i| i * MS).collect::<Vec<_>>());
}
