//! The tracker compared with a simple model, and edge cases.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn tracker() -> SequenceTracker {
    SequenceTracker::new(SequenceConfig::default())
}

/// All figures of an arrival order that do not depend on time, by sets and scans.
#[derive(Default)]
struct Model {
    order: Vec<u64>,
    seen: BTreeSet<u64>,
    duplicates: u64,
    extents: Vec<u64>,
}

impl Model {
    fn on_packet(&mut self, seq: u64) {
        if !self.seen.insert(seq) {
            self.duplicates += 1;
            return;
        }
        if let Some(first_higher) = self.order.iter().position(|&other| other > seq) {
            self.extents.push((self.order.len() - first_higher) as u64);
        }
        self.order.push(seq);
    }

    fn runs(&self, sent: u64) -> BTreeMap<u64, u64> {
        let mut runs = BTreeMap::new();
        let mut length = 0;
        for seq in 0..=sent {
            if seq < sent && !self.seen.contains(&seq) {
                length += 1;
            } else if length > 0 {
                *runs.entry(length).or_default() += 1;
                length = 0;
            }
        }
        runs
    }
}

/// Arrivals around an increasing number: in order, gaps, reordered, copies, bursts.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let step = prop_oneof![
        6 => (0u64..1, 1u32..300),
        2 => (1u64..40, 1u32..20),
        2 => (0u64..1, 1u32..3).prop_map(|(_, count)| (u64::MAX, count)),
        1 => (100u64..5000, 1u32..4),
    ];
    (prop::collection::vec((step, 0u64..600), 1..120)).prop_map(|steps| {
        let mut next = 0u64;
        let mut out = Vec::new();
        for ((skip, count), back) in steps {
            let first = if skip == u64::MAX { next.saturating_sub(back) } else { next + skip };
            out.push((first, count));
            next = next.max(first + u64::from(count));
        }
        out
    })
}

proptest! {
    #[test]
    fn agrees_with_the_model(batches in arrivals(), tail in 0u64..50, marks in 1usize..20) {
        let config = SequenceConfig { initial_window_bytes: 16, max_gaps: 100_000, max_run_lengths: 100_000, ..Default::default() };
        let mut tracker = SequenceTracker::new(config);
        let mut model = Model::default();
        for (index, &(first, count)) in batches.iter().enumerate() {
            for seq in first..first + u64::from(count) {
                tracker.on_packet(seq, index as u64);
                model.on_packet(seq);
            }
            if index % marks == 0 {
                tracker.mark_interval(index as u64);
            }
        }
        let next = model.seen.last().map_or(0, |last| last + 1);
        let sent = next + tail;
        prop_assert_eq!(tracker.is_complete(sent), model.seen.len() as u64 == sent);
        let summary = tracker.finish(Some(sent), 1000);
        prop_assert_eq!(summary.counts.received, model.seen.len() as u64);
        prop_assert_eq!(summary.counts.lost, sent - model.seen.len() as u64);
        prop_assert_eq!(summary.counts.duplicates, model.duplicates);
        prop_assert_eq!(summary.counts.reordered, model.extents.len() as u64);
        prop_assert_eq!(summary.reorder_extent.sum, model.extents.iter().sum::<u64>());
        prop_assert_eq!(summary.reorder_extent.max, model.extents.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(&summary.loss_periods.lengths, &model.runs(sent));
        prop_assert_eq!(summary.interval_lost.iter().sum::<u64>(), summary.counts.lost);
        prop_assert!(!summary.counts.ambiguous);
    }

    #[test]
    fn a_batch_equals_single_calls(batches in arrivals(), gap_ns in 0u64..200_000_000, bytes in 16usize..4096) {
        let config = SequenceConfig { initial_window_bytes: 16, max_window_bytes: bytes, max_gaps: 8, ..Default::default() };
        let mut single = SequenceTracker::new(config);
        let mut batched = SequenceTracker::new(config);
        single.announce_total(3000);
        batched.announce_total(3000);
        for (index, &(first, count)) in batches.iter().enumerate() {
            let now = index as u64 * gap_ns;
            let mut sum = Arrivals::default();
            for seq in first..first + u64::from(count) {
                match single.on_packet(seq, now) {
                    Arrival::InOrder => sum.in_order += 1,
                    Arrival::Gap { missing } => { sum.in_order += 1; sum.missing += missing; }
                    Arrival::Reordered { .. } => sum.reordered += 1,
                    Arrival::Duplicate => sum.duplicates += 1,
                    Arrival::Late => sum.late += 1,
                    Arrival::Implausible => sum.implausible += 1,
                }
            }
            prop_assert_eq!(batched.on_consecutive(first, count, now), sum);
            prop_assert_eq!(batched.counts(), single.counts());
        }
        prop_assert_eq!(batched.finish(None, SECOND), single.finish(None, SECOND));
    }

    #[test]
    fn sums_hold_under_any_input(input in prop::collection::vec((any::<u64>(), 0u32..60, 0u64..u64::MAX / 200), 0..200), bytes in 0usize..512, sent in any::<u64>()) {
        let config = SequenceConfig { initial_window_bytes: bytes, max_window_bytes: bytes * 2, max_gaps: 4, max_run_lengths: 3, ..Default::default() };
        let mut tracker = SequenceTracker::new(config);
        let mut now = 0;
        for (raw, shift, step) in input {
            now += step >> (shift * 2 % 64);
            tracker.on_packet(raw >> shift, now);
            tracker.mark_interval(now.saturating_add(shift.into()));
        }
        if sent % 2 == 1 {
            tracker.ended_at(now.saturating_add(sent));
        }
        let summary = tracker.finish(Some(sent >> 2), now);
        prop_assert_eq!(summary.sent - summary.counts.received, summary.counts.lost);
        prop_assert_eq!(summary.loss_periods.packets(), summary.counts.lost);
        prop_assert_eq!(summary.interval_lost.iter().sum::<u64>(), summary.counts.lost);
        prop_assert!(summary.loss_periods.lengths.len() <= 3);
    }
}

#[test]
fn each_kind_of_arrival() {
    let mut tracker = tracker();
    assert_eq!(tracker.on_packet(0, 0), Arrival::InOrder);
    assert_eq!(tracker.on_packet(3, 1), Arrival::Gap { missing: 2 });
    assert_eq!(tracker.on_packet(4, 2), Arrival::InOrder);
    assert_eq!(tracker.on_packet(4, 2), Arrival::Duplicate);
    assert_eq!(tracker.on_packet(1, 3), Arrival::Reordered { extent: 2 });
    assert_eq!(tracker.on_packet(1, 4), Arrival::Duplicate);
    assert_eq!(tracker.counts().lost, 1);
    assert!(!tracker.is_complete(5));
    assert_eq!(tracker.on_packet(5, 3 * SECOND), Arrival::InOrder);
    assert_eq!(tracker.counts().awaited, 0);
    assert!(tracker.is_complete(6));
    assert_eq!(tracker.on_packet(2, 3 * SECOND), Arrival::Late);
    assert_eq!(tracker.on_packet(2, 3 * SECOND), Arrival::Duplicate);
    let summary = tracker.finish(Some(8), 3 * SECOND);
    assert_eq!((summary.counts.received, summary.counts.lost, summary.counts.late), (5, 3, 1));
    assert_eq!(summary.loss_periods.lengths, BTreeMap::from([(1, 1), (2, 1)]));
}

#[test]
fn the_threshold_starts_when_a_number_is_passed_even_after_silence() {
    for (wait, expected) in
        [(SECOND * 199 / 100, Arrival::Reordered { extent: 1 }), (SECOND * 2, Arrival::Late)]
    {
        let mut tracker = tracker();
        tracker.on_packet(0, 0);
        tracker.on_packet(2, 10);
        assert_eq!(tracker.on_packet(1, 10 + wait), expected);
    }
    // Silence alone settles it too.
    let mut tracker = tracker();
    tracker.on_packet(1, 0);
    tracker.advance(SECOND);
    assert_eq!(tracker.counts().awaited, 1);
    tracker.advance(2 * SECOND);
    assert_eq!((tracker.counts().awaited, tracker.counts().lost), (0, 1));
}

#[test]
fn a_steady_flow_gives_up_within_a_64th_of_the_threshold() {
    let mut tracker = tracker();
    let mut given_up_at = None;
    for seq in 0..4000u64 {
        if seq == 100 {
            continue;
        }
        tracker.on_packet(seq, seq * 1_000_000);
        if given_up_at.is_none() && seq > 100 && tracker.counts().awaited == 0 {
            given_up_at = Some((seq - 101) * 1_000_000);
        }
    }
    let waited = given_up_at.unwrap();
    assert!((2 * SECOND..=2 * SECOND + SECOND / 15).contains(&waited), "{waited}");
}

#[test]
fn a_clean_flow_stays_small_and_a_lossy_one_grows_to_its_threshold() {
    let mut tracker = tracker();
    for seq in 0..1_000_000u64 {
        tracker.on_packet(seq, seq * 1000);
    }
    assert_eq!(tracker.window_bytes(), 1024);
    // One missing packet keeps 2 s of a million packets a second in the window: 250 000 bytes.
    for seq in 1_000_001..3_500_000u64 {
        tracker.on_packet(seq, seq * 1000);
    }
    assert_eq!(tracker.window_bytes(), 256 * 1024);
    assert_eq!(tracker.counts().forced, 0);
    assert_eq!(tracker.counts().lost, 1);
    assert!(!tracker.counts().ambiguous);
}

#[test]
fn numbers_given_up_at_the_cap_are_counted() {
    let config = SequenceConfig { max_window_bytes: 1024, ..Default::default() };
    let mut tracker = SequenceTracker::new(config);
    for seq in 1..20_000u64 {
        tracker.on_packet(seq, seq);
    }
    let counts = tracker.counts();
    assert_eq!((counts.forced, counts.lost, counts.awaited, counts.ambiguous), (1, 1, 0, true));
    assert_eq!(tracker.on_packet(0, 20_000), Arrival::Late);
    assert_eq!(tracker.on_packet(0, 20_000), Arrival::Duplicate);
}

#[test]
fn hostile_jumps_are_refused_or_cheap() {
    let mut tracker = tracker();
    for seq in 0..100 {
        tracker.on_packet(seq, seq);
    }
    for seq in [1 << 63, u64::MAX, (1 << 32) + 101, 1 << 62] {
        assert_eq!(tracker.on_packet(seq, 100), Arrival::Implausible);
    }
    assert_eq!(tracker.on_consecutive(1 << 63, u32::MAX, 100).implausible, u64::from(u32::MAX));
    assert_eq!(tracker.on_packet(100, 101), Arrival::InOrder);
    // The largest plausible jump: a scan of the window, not of the gap.
    let far = (1 << 32) + 101;
    assert_eq!(tracker.on_packet(far, 102), Arrival::Gap { missing: 1 << 32 });
    assert_eq!(tracker.window_bytes(), 8 << 20);
    assert_eq!(tracker.on_packet(far - 1, 103), Arrival::Reordered { extent: 1 });
    let summary = tracker.finish(Some(far + 1), 104);
    assert_eq!(summary.counts.received, 103);
    assert_eq!(summary.counts.lost, (1 << 32) - 1);
    assert_eq!(summary.loss_periods.lengths, BTreeMap::from([((1 << 32) - 1, 1)]));
    assert!(summary.counts.ambiguous);
}

#[test]
fn an_announced_total_bounds_the_numbers() {
    let mut tracker = tracker();
    tracker.announce_total(3);
    assert_eq!(tracker.on_consecutive(0, 5, 0).implausible, 2);
    assert!(tracker.is_complete(3));
}

#[test]
fn a_count_below_the_numbers_is_a_contradiction() {
    let mut tracker = tracker();
    tracker.on_consecutive(0, 10, 0);
    let summary = tracker.finish(Some(8), 1);
    assert_eq!((summary.sent, summary.counts.lost, summary.counts.ambiguous), (10, 0, true));
}

#[test]
fn losses_belong_to_the_interval_in_which_they_would_have_arrived() {
    let mut tracker = tracker();
    tracker.on_packet(0, 0);
    tracker.on_packet(3, 30);
    tracker.mark_interval(30);
    tracker.on_packet(5, 50);
    assert_eq!((tracker.interval_lost(), tracker.open_interval_lost()), (vec![2], 1));
    tracker.mark_interval(60);
    tracker.on_packet(2, 61);
    assert_eq!(tracker.interval_lost(), [1, 1]);
    tracker.on_packet(7, 70);
    let summary = tracker.finish(Some(10), 80);
    assert_eq!(summary.interval_lost, [1, 1 + 1 + 2]);
    assert_eq!(summary.counts.lost, 5);
}

/// One packet each 10 ns, number n at 10 n; intervals of 100 ns. Numbers `from` to `to`, exclusive, are
/// lost.
fn outage(from: u64, to: u64, sent: u64) -> SequenceTracker {
    let mut tracker = tracker();
    tracker.begins_at(0);
    for seq in 0..sent {
        if seq % 10 == 0 && seq > 0 {
            tracker.mark_interval(seq * 10);
        }
        if !(from..to).contains(&seq) {
            tracker.on_packet(seq, seq * 10);
        }
    }
    tracker.mark_interval(sent * 10);
    tracker
}

#[test]
fn losses_of_an_outage_are_placed_in_its_intervals() {
    let outage = outage(15, 38, 50);
    assert_eq!(outage.interval_lost(), [0, 5, 10, 8, 0]);
    assert_eq!(outage.interval_lost_in(2), Some(10));
    let between = [(0, 3), (1, 4), (3, 3), (2, 9), (9, 2)].map(|(a, b)| outage.lost_between(a, b));
    assert_eq!(between, [15, 23, 0, 18, 0]);
    assert_eq!(outage.finish(Some(50), 1000).interval_lost, [0, 5, 10, 8, 0]);
}

#[test]
fn late_arrivals_are_subtracted_from_the_interval_of_their_loss() {
    let mut outage = outage(15, 38, 50);
    for seq in [20, 29, 30, 17] {
        assert!(matches!(outage.on_packet(seq, 501), Arrival::Reordered { .. }));
    }
    assert_eq!(outage.interval_lost(), [0, 4, 8, 7, 0]);
}

#[test]
fn a_lost_tail_is_placed_until_the_end_of_sending() {
    let mut with_end = outage(25, 50, 50);
    let without_end = with_end.clone();
    with_end.mark_interval(600);
    with_end.ended_at(500);
    assert_eq!(with_end.finish(Some(50), 1000).interval_lost, [0, 0, 5, 10, 10, 0]);
    assert_eq!(without_end.finish(Some(50), 1000).interval_lost, [0, 0, 0, 0, 25]);
}

#[test]
fn losses_before_the_first_arrival_are_placed_from_the_start_of_sending() {
    assert_eq!(outage(0, 25, 30).interval_lost(), [10, 10, 5]);
    let mut all = outage(0, 30, 30);
    all.ended_at(300);
    assert_eq!(all.finish(Some(30), 1000).interval_lost, [10, 10, 10]);
}

#[test]
fn narrow_numbers_are_extended_by_nearest_match() {
    let mut extender = SequenceExtender::new(8);
    let mut extend = |seq: u64, since| {
        let extended = extender.extend(seq & 0xff, since);
        extender.accept(extended);
        extended
    };
    for seq in 0..1000 {
        assert_eq!(extend(seq, 1), Extended { sequence: seq, ambiguous: false });
    }
    assert_eq!(extend(1010, 10).sequence, 1010);
    assert_eq!(extend(1005, 0), Extended { sequence: 1005, ambiguous: false });
    assert_eq!(extend(1011 + 100, 0), Extended { sequence: 1111, ambiguous: true });
    assert!(extend(1112, 0).ambiguous, "and so is all that follows");
    // Long silence: 128 or more may have passed.
    let silent = SequenceExtender::new(8);
    assert!(!silent.extend(0, 127).ambiguous);
    assert!(silent.extend(1, 128).ambiguous);
    // At the start there are no lower numbers.
    assert_eq!(SequenceExtender::new(16).extend(65_000, 0).sequence, 65_000);
}

#[test]
fn a_refused_number_does_not_affect_the_extension() {
    let mut extender = SequenceExtender::new(16);
    for seq in 0..100 {
        extender.accept(extender.extend(seq, 1));
    }
    assert_eq!(extender.extend(100 ^ 0x4000, 1).sequence, 16_484);
    assert_eq!(extender.extend(100, 1), Extended { sequence: 100, ambiguous: false });
    assert!(!extender.is_ambiguous());
}
