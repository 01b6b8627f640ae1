//! Copies, reordering and batches.

use super::tests::{both, control, count, engine, even, feed};
use super::*;

const MS: u64 = 1_000_000;

/// Index and time (ms after the first arrival at 1 ms) of the packets that leave, in the order in which they leave.
fn left(dispositions: &[Disposition]) -> Vec<(u64, u64)> {
    let sent = dispositions.iter().filter(|one| one.verdict == Verdict::Forwarded);
    sent.map(|one| (one.index, (one.at_ns - MS) / MS)).collect()
}

fn order(dispositions: &[Disposition]) -> Vec<u64> {
    left(dispositions).into_iter().map(|(index, _)| index).collect()
}

#[test]
fn each_selected_packet_has_its_copies() {
    let dispositions = feed(&mut engine("duplicate every 2 copies 3"), &even(4, MS));
    assert_eq!(order(&dispositions), [0, 1, 1, 1, 1, 2, 3, 3, 3, 3]);
    assert_eq!(count(&dispositions, Verdict::Copied), 6);
    let copies = dispositions.iter().filter(|one| one.verdict == Verdict::Forwarded);
    let copies: Vec<u8> = copies.map(|one| one.copy).collect();
    assert_eq!(copies, [0, 0, 1, 2, 3, 0, 0, 1, 2, 3]);
    // Copies have draws of their own: some of them are lost.
    let mut engine = engine("duplicate 100% copies 4, loss 50%, order duplicate loss");
    let dispositions = feed(&mut engine, &even(1000, MS));
    let lost = count(&dispositions, Verdict::Lost);
    // 5000 packets: ± 6.2 standard deviations.
    assert!((2281..2719).contains(&lost), "{lost}");
    assert_eq!(engine.flows[0].counters.duplicated_packets, 4000);
}

#[test]
fn copies_are_delayed_by_their_law() {
    let dispositions = feed(&mut engine("duplicate every 2 copies 2 after 5ms"), &even(4, 2 * MS));
    assert_eq!(
        left(&dispositions),
        [(0, 0), (1, 2), (2, 4), (3, 6), (1, 7), (1, 7), (3, 11), (3, 11)]
    );
    // Also behind a delay that is passed ahead of time.
    let text = "duplicate every 2 after 5ms, delay 4ms, order delay duplicate";
    let dispositions = feed(&mut engine(text), &even(4, 2 * MS));
    assert_eq!(left(&dispositions), [(0, 4), (1, 6), (2, 8), (3, 10), (1, 11), (3, 15)]);
    // 2000 copies of mean 10 ms: ± 6.2 standard deviations.
    let mut engine = engine("duplicate 100% after exponential(mean=10ms)");
    let dispositions = feed(&mut engine, &even(2000, MS));
    let copies = dispositions.iter().filter(|one| one.copy == 1);
    let mean = copies.map(|one| (one.at_ns - one.arrived_ns) as f64 / 1e6).sum::<f64>() / 2000.0;
    assert!((mean - 10.0).abs() < 6.2 * 10.0 / 2000f64.sqrt(), "{mean}");
}

#[test]
fn correlated_copies_keep_their_mean() {
    let mut engine = engine("duplicate 10% 50%");
    feed(&mut engine, &even(100_000, 1000));
    let copies = engine.flows[0].counters.duplicated_packets as f64;
    // The variance is the binomial one times (1 + ρ)/(1 − ρ): 6.2 standard deviations.
    let bound = 6.2 * (100_000.0 * 0.09 * 3.0f64).sqrt();
    assert!((copies - 10_000.0).abs() < bound, "{copies}");
}

#[test]
fn packets_move_back_by_their_number() {
    let dispositions = feed(&mut engine("reorder every 4 by 2packets"), &even(10, MS));
    assert_eq!(
        left(&dispositions),
        [(0, 0), (1, 1), (2, 2), (4, 4), (5, 5), (3, 5), (6, 6), (8, 8), (9, 9), (7, 9)]
    );
    // Selected packets do not count; each is overtaken by one that is not.
    let dispositions = feed(&mut engine("reorder every 1"), &even(3, MS));
    assert_eq!(left(&dispositions), [(0, 1000), (1, 1001), (2, 1002)]);
    // The last one leaves after the timeout.
    let mut engine = engine("reorder every 4 by 2packets within 10ms");
    let dispositions = feed(&mut engine, &even(5, MS));
    assert_eq!(left(&dispositions), [(0, 0), (1, 1), (2, 2), (4, 4), (3, 13)]);
    assert_eq!(engine.flows[0].counters.reordered_packets, 1);
}

#[test]
fn packets_move_by_time() {
    let dispositions = feed(&mut engine("reorder every 3 by 2500us"), &even(6, MS));
    assert_eq!(order(&dispositions), [0, 1, 3, 4, 2, 5]);
    let dispositions = feed(&mut engine("reorder every 3 by 2500us ahead"), &even(6, MS));
    assert_eq!(order(&dispositions), [2, 0, 1, 5, 3, 4]);
    // The delay before it is passed ahead of time.
    let text = "delay 20ms, reorder every 3 by 2500us";
    let dispositions = feed(&mut engine(text), &even(6, MS));
    assert_eq!(order(&dispositions), [0, 1, 3, 4, 2, 5]);
    assert_eq!(left(&dispositions)[0], (0, 20));
}

#[test]
fn packets_move_ahead_by_their_number() {
    // Each of the others waits for two more of them; packets 3 and 7 pass.
    let mut engine = engine("reorder every 4 by 2packets ahead within 20ms");
    let dispositions = feed(&mut engine, &even(9, MS));
    assert_eq!(
        left(&dispositions),
        [(0, 2), (3, 3), (1, 4), (2, 5), (4, 6), (7, 7), (5, 8), (6, 26), (8, 28)]
    );
}

#[test]
fn the_reordered_fraction_is_that_of_the_law() {
    let mut engine = engine("reorder 5% by 3packets");
    feed(&mut engine, &even(100_000, 1000));
    let reordered = engine.flows[0].counters.reordered_packets as f64;
    assert!((reordered - 5000.0).abs() < 6.2 * (100_000.0 * 0.05 * 0.95f64).sqrt(), "{reordered}");
}

#[test]
fn batches_leave_together() {
    let mut engine = engine("batch 3 within 10ms");
    let dispositions = feed(&mut engine, &even(7, MS));
    assert_eq!(left(&dispositions), [(0, 2), (1, 2), (2, 2), (3, 5), (4, 5), (5, 5), (6, 16)]);
    // The one that completes a batch has not waited.
    assert_eq!(engine.flows[0].counters.batched_packets, 5);
    let dispositions =
        feed(&mut super::tests::engine("delay 20ms, batch 2 within 9ms"), &even(3, MS));
    assert_eq!(left(&dispositions), [(0, 21), (1, 21), (2, 31)]);
}

#[test]
fn slots_release_packets_at_their_times() {
    let mut engine = engine("batch every 10ms packets 2");
    let dispositions = feed(&mut engine, &even(6, MS));
    assert_eq!(left(&dispositions), [(0, 0), (1, 10), (2, 10), (3, 20), (4, 20), (5, 30)]);
    assert_eq!(engine.flows[0].counters.batched_packets, 5);
}

#[test]
fn other_flows_do_not_wait() {
    // Both flows are without a path of their own.
    let text = r#"
        schema = "weir.impair/1"
        [[flow]]
        name = "slow"
        filter = { length = 100 }
        a_to_b = "batch every 50ms"
        [[flow]]
        name = "fast"
        filter = { length = 1000 }
        a_to_b = "duplicate 0%, corrupt 0%"
    "#;
    let mut engine = Engine::new(&Impairment::parse(text).unwrap(), Direction::Forward).unwrap();
    let metas: Vec<Meta> = (0..6)
        .map(|i| Meta::opaque(i, MS + u64::from(i) * MS, [100, 1000][i as usize % 2]))
        .collect();
    for one in feed(&mut engine, &metas).iter().filter(|one| one.length == 1000) {
        assert_eq!(one.at_ns, one.arrived_ns);
    }
}

#[test]
fn packets_of_a_group_leave_at_their_own_time() {
    // The flows share a FIFO queue, which always has later packets of the fast one.
    let text = r#"
        schema = "weir.impair/1"
        [[flow]]
        name = "slow"
        filter = { length = 100 }
        a_to_b = "batch every 50ms"
        [[flow]]
        name = "fast"
        filter = { length = 1000 }
        [[aggregate]]
        flows = ["slow", "fast"]
        a_to_b = "delay 9ms"
    "#;
    let mut engine = Engine::new(&Impairment::parse(text).unwrap(), Direction::Forward).unwrap();
    let length = |i: u32| if i.is_multiple_of(7) { 100 } else { 1000 };
    let metas: Vec<Meta> =
        (0..300).map(|i| Meta::opaque(i, MS + u64::from(i) * MS, length(i))).collect();
    for one in feed(&mut engine, &metas) {
        if one.length == 1000 {
            assert_eq!(one.at_ns, one.arrived_ns + 9 * MS);
        } else {
            // The first slot is when the first packet reaches the stage.
            assert_eq!((one.at_ns - 10 * MS) % (50 * MS), 0, "{one:?}");
        }
    }
}

#[test]
fn control_traffic_waits_apart() {
    for text in ["reorder every 2 by 1packet", "batch 2 within 50ms", "duplicate every 2"] {
        let alone = left(&feed(&mut engine(text), &even(8, 3 * MS)));
        let mixed =
            even(8, 3 * MS).into_iter().flat_map(|meta| [meta, control(9, meta.arrived_ns)]);
        let dispositions = feed(&mut engine(text), &mixed.collect::<Vec<_>>());
        let own: Vec<Disposition> =
            dispositions.into_iter().filter(|one| one.flags & FLAG_CONTROL == 0).collect();
        let times = |all: &[(u64, u64)]| all.iter().map(|(_, at)| *at).collect::<Vec<_>>();
        assert_eq!(times(&left(&own)), times(&alone), "{text}");
    }
}

#[test]
fn waiting_packets_leave_after_their_laws() {
    for text in ["reorder every 1 by 5packets within 30ms", "batch 100 within 30ms"] {
        let mut engine = engine(text);
        let mut dispositions = vec![];
        for meta in even(3, MS) {
            engine.step(meta.arrived_ns, &[meta], &mut dispositions);
        }
        assert_eq!(engine.held_packets(), 3);
        engine.configure(&both("none")).unwrap();
        dispositions.extend(feed(&mut engine, &[Meta::opaque(7, 10 * MS, 100)]));
        let all = left(&dispositions);
        assert_eq!((all.len(), all[0]), (4, (3, 9)), "{text}");
        assert!(all[1..].iter().all(|(_, at)| *at >= 30), "{text}: {all:?}");
    }
}

#[test]
fn waiting_packets_are_dropped_at_the_end() {
    for text in ["reorder every 1 by 5packets", "batch 100 within 30ms", "batch every 1s"] {
        let mut engine = engine(text);
        let mut dispositions = vec![];
        for meta in even(4, MS) {
            engine.step(meta.arrived_ns, &[meta], &mut dispositions);
        }
        assert!(engine.held_packets() >= 3);
        engine.abandon(&mut dispositions);
        assert_eq!((engine.held_packets(), engine.held_bytes()), (0, 0));
        assert!(count(&dispositions, Verdict::Unplanned) >= 3);
        // The engine can be used again.
        assert!(!feed(&mut engine, &[Meta::opaque(7, 10 * MS, 100)]).is_empty());
    }
}
