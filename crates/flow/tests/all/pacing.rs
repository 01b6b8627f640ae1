//! Guarantees of a pacer, for any rate, bursts, policy and times at which the sender wakes.

use proptest::prelude::*;
use weir_flow::{Due, MAX_BACKLOG_NS, Pacer};
use weir_model::plan::CatchUp;

/// Slots `first .. first + count` were served at `at_ns`; `allowed` is how many might have been.
#[derive(Debug, Clone, Copy)]
struct Served {
    first: u64,
    count: u32,
    allowed: u32,
    at_ns: u64,
}

/// A sender that wakes `delays` after the requested time, and serves `takes` of the slots that are due (0: all).
fn drive(p: &mut Pacer, end_ns: u64, delays: &[u64], takes: &[u32]) -> Vec<Served> {
    let (mut now, mut out, mut sleeps) = (p.intended_ns(0), vec![], 0usize);
    while now < end_ns {
        match p.due(now) {
            Due::At(t) => {
                assert!(t > now, "{t} is not after {now}");
                now = t + delays[sleeps % delays.len()];
                sleeps += 1;
            }
            Due::Now(allowed) => {
                assert!(allowed > 0);
                let take = takes[out.len() % takes.len()];
                let count = if take == 0 { allowed } else { take.min(allowed) };
                out.push(Served { first: p.slot(), count, allowed, at_ns: now });
                p.served(count, now);
            }
        }
    }
    p.end(end_ns);
    out
}

fn policies() -> impl Strategy<Value = CatchUp> {
    prop_oneof![
        Just(CatchUp::None),
        (1.0f64..100.0).prop_map(CatchUp::Spread),
        (1u32..40).prop_map(CatchUp::Burst),
    ]
}

/// Wake-ups in time, some periods late, and later than any backlog that is made up.
fn delays(period_ns: u64) -> impl Strategy<Value = Vec<u64>> {
    let delay = prop_oneof![
        4 => Just(0),
        3 => 0..=2 * period_ns,
        2 => 0..=50 * period_ns,
        1 => 0..=3 * MAX_BACKLOG_NS,
    ];
    prop::collection::vec(delay, 1..30)
}

fn schedules() -> impl Strategy<Value = (f64, u32, CatchUp, Vec<u64>, Vec<u32>, u64)> {
    (1.5f64..7.0).prop_flat_map(|exponent| {
        let period = 10f64.powf(exponent) + 0.37;
        (
            Just(period),
            1u32..20,
            policies(),
            delays(period as u64),
            prop::collection::vec(prop_oneof![3 => Just(0u32), 1 => 1u32..5], 1..8),
            0u64..10_000_000_000,
        )
    })
}

proptest! {
    /// Never early, every slot that was due is sent or missed, and late slots are counted.
    #[test]
    fn slots_sent_and_missed_are_slots_due(
        (period, burst, policy, delays, takes, start) in schedules(),
    ) {
        let mut p = Pacer::new(1e9 / period, burst, policy, start);
        let end = start + (period * 400.0) as u64;
        let served = drive(&mut p, end, &delays, &takes);
        let (mut sent, mut late, mut next) = (0u64, 0u64, 0u64);
        for s in &served {
            prop_assert!(s.first >= next, "a slot was served twice: {s:?}");
            next = s.first + u64::from(s.count);
            sent += u64::from(s.count);
            let last = s.first + u64::from(s.allowed) - 1;
            prop_assert!(p.intended_ns(last) <= s.at_ns, "early: {s:?}");
            prop_assert!(s.at_ns - p.intended_ns(s.first) <= MAX_BACKLOG_NS, "too late: {s:?}");
            for slot in s.first..next {
                late += u64::from(s.at_ns > p.intended_ns(slot) + p.period_ns());
            }
        }
        prop_assert_eq!(sent + p.missed(), p.slot());
        prop_assert_eq!(late, p.late());
        // Due before the end: all slots below the next one, and not that one.
        prop_assert!(p.intended_ns(p.slot()) >= end);
        if p.slot() > 0 {
            prop_assert!(p.intended_ns(p.slot() - 1) < end);
        }
    }

    /// `none`: nothing is sent later than the next burst's time.
    #[test]
    fn none_sends_no_late_slot((period, burst, _, delays, takes, start) in schedules()) {
        let mut p = Pacer::new(1e9 / period, burst, CatchUp::None, start);
        let end = start + (period * 400.0) as u64;
        for s in drive(&mut p, end, &delays, &takes) {
            let behind = s.at_ns - p.intended_ns(s.first);
            prop_assert!(behind <= p.period_ns() * u64::from(burst), "{behind} ns behind: {s:?}");
        }
    }

    /// `burst:N`: at one moment at most N slots that were overdue and the burst that is due now.
    #[test]
    fn burst_sends_no_more_at_once(
        (period, burst, _, delays, _, start) in schedules(),
        most in 1u32..40,
    ) {
        let mut p = Pacer::new(1e9 / period, burst, CatchUp::Burst(most), start);
        let end = start + (period * 400.0) as u64;
        let served = drive(&mut p, end, &delays, &[0]);
        for at_once in served.chunk_by(|a, b| a.at_ns == b.at_ns) {
            let sent: u64 = at_once.iter().map(|s| u64::from(s.count)).sum();
            prop_assert!(sent <= u64::from(most + burst), "{sent} at once: {at_once:?}");
        }
    }

    /// `spread:P`: made up at the rate plus P percent, never two at once.
    #[test]
    fn spread_never_exceeds_its_rate(
        (period, burst, _, delays, _, start) in schedules(),
        percent in 1.0f64..100.0,
    ) {
        let mut p = Pacer::new(1e9 / period, burst, CatchUp::Spread(percent), start);
        let end = start + (period * 400.0) as u64;
        let served = drive(&mut p, end, &delays, &[0]);
        // Half a gap may be taken back after a late wake-up; gaps are whole nanoseconds of a rounded period.
        let gap = (period - 0.5) * f64::from(burst) / (1.0 + percent / 100.0) - 1.0;
        for ahead in [1usize, 2, 7, 30] {
            for pair in served.windows(ahead + 1) {
                let passed = (pair[ahead].at_ns - pair[0].at_ns) as f64;
                prop_assert!(passed + 1.0 >= (ahead as f64 - 0.5) * gap, "{ahead} gaps in {passed} ns");
            }
        }
    }
}

#[test]
fn a_backlog_of_100_ms_is_made_up_and_no_more() {
    for (stall, missed) in [(99_000_000, 0), (101_000_000, 1), (150_000_000, 50)] {
        let mut p = Pacer::new(1000.0, 1, CatchUp::Spread(5.0), 0);
        assert_eq!(p.due(stall), Due::Now(1));
        assert_eq!(p.missed(), missed, "after {stall} ns");
    }
}

#[test]
fn spread_makes_up_at_exactly_the_stated_rate() {
    // 20 ms asleep at 1 ms a slot: 20 slots behind, of which half a gap is given at once and the rest regained at
    // P percent of a slot each millisecond: 80 ms at 25 %, 400 ms at 5 %.
    for (percent, regained_ms) in [(25.0, 76..=81), (5.0, 388..=401)] {
        let mut p = Pacer::new(1000.0, 1, CatchUp::Spread(percent), 0);
        let mut now = 20_000_000;
        let last_late = loop {
            match p.due(now) {
                Due::Now(n) => {
                    let behind = now - p.intended_ns(p.slot());
                    p.served(n, now);
                    if behind == 0 {
                        break now;
                    }
                }
                Due::At(t) => now = t,
            }
        };
        let took = (last_late - 20_000_000) / 1_000_000;
        assert!(regained_ms.contains(&took), "{percent} %: {took} ms");
        assert_eq!(p.missed(), 0);
    }
}

#[test]
fn a_slot_is_late_after_more_than_one_period() {
    for (behind, late) in [(0, 0), (999_999, 0), (1_000_000, 0), (1_000_001, 1), (1_999_999, 1)] {
        let mut p = Pacer::new(1000.0, 1, CatchUp::default(), 0);
        p.served(1, behind);
        assert_eq!(p.late(), late, "{behind} ns");
    }
}

#[test]
fn an_interrupted_burst_is_finished_before_the_next() {
    let mut p = Pacer::new(1000.0, 10, CatchUp::Burst(3), 0);
    assert_eq!(p.due(0), Due::Now(10));
    p.served(4, 0);
    assert_eq!(p.due(0), Due::Now(6));
    p.served(6, 0);
    assert_eq!(p.due(0), Due::At(10_000_000));
}

#[test]
fn policy_none_misses_nothing_in_a_stall_of_one_period() {
    // The burst that is due is sent as long as the next one is not due.
    let mut p = Pacer::new(1000.0, 4, CatchUp::None, 0);
    assert_eq!(p.due(4_000_000), Due::Now(4));
    assert_eq!(p.missed(), 0);
    let mut p = Pacer::new(1000.0, 4, CatchUp::None, 0);
    assert_eq!(p.due(4_000_001), Due::Now(4));
    assert_eq!((p.missed(), p.slot()), (4, 4));
}

#[test]
fn a_period_is_rounded_to_the_nearest_nanosecond() {
    assert_eq!(Pacer::new(1e9 / 3.6, 1, CatchUp::None, 0).period_ns(), 4);
    assert_eq!(Pacer::new(1e9 / 3.4, 1, CatchUp::None, 0).period_ns(), 3);
    assert_eq!(Pacer::new(1e9, 0, CatchUp::None, 7).intended_ns(5), 12, "a burst of 0 is one of 1");
}

#[test]
fn burst_serves_what_is_due_up_to_its_number() {
    // At 3 ms four slots are due, the one of this moment included.
    for (most, now) in [(5, Due::Now(4)), (4, Due::Now(4)), (3, Due::Now(3))] {
        let mut p = Pacer::new(1000.0, 1, CatchUp::Burst(most), 0);
        assert_eq!(p.due(3_000_000), now, "burst:{most}");
        assert_eq!(p.missed(), 0);
    }
}

#[test]
fn a_late_wake_up_does_not_delay_the_next_slot() {
    let mut p = Pacer::new(1000.0, 1, CatchUp::Spread(5.0), 0);
    p.served(1, 0);
    assert_eq!(p.due(1_200_000), Due::Now(1));
    p.served(1, 1_200_000);
    assert_eq!(p.due(1_200_000), Due::At(2_000_000));
}
