//! Forms, limits and decisions of the laws.

use weir_laws::{Direction, DrawPosition, Philox};

use super::*;
use crate::impairment::Laws;
use crate::law::Law;

const MS: u64 = 1_000_000;

#[test]
fn forms_are_read_and_written() {
    for text in [
        "rate 10M head_drop",
        "rate 10M queue 100packets red min 30K max 90K probability_percentage 10 weight 0.002 gentle ecn",
        "rate 10M pie target 15ms update 15ms alpha 0.125 beta 1.25 ecn",
        "rate 10M codel target 5ms interval 100ms ecn overhead 38",
        "rate 10M fq_codel flows 1024 quantum 1514 target 5ms interval 100ms cells 48+5",
        "rate 10M dualpi2 target 15ms update 16ms alpha 0.16 beta 3.2 step 1ms coupling 2",
    ] {
        let laws: Laws = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(laws.to_string(), text);
    }
    let short: Laws = "rate 10M fq_codel".parse().unwrap();
    assert!(short.to_string().contains("flows 1024"), "{short}");
}

#[test]
fn parameters_are_checked() {
    for (text, field) in [
        ("red max 90K", "red.min"),
        ("red min 90K max 30K", "red.max"),
        ("red min 1K max 2K probability_percentage 0", "red.probability_percentage"),
        ("red min 1K max 2K weight 2", "red.weight"),
        ("codel target 200ms", "codel.interval"),
        ("codel target 1ns", "codel.target"),
        ("pie beta 1000", "pie.beta"),
        ("fq_codel flows 0", "fq_codel.flows"),
        ("fq_codel quantum 1", "fq_codel.quantum"),
        ("dualpi2 coupling 0", "dualpi2.coupling"),
    ] {
        let error = format!("rate 1M {text}").parse::<Laws>().unwrap_err();
        let ModelError::Field { field: refused, .. } = error else { panic!("{text}: {error:?}") };
        assert_eq!(refused, format!("impairment.rate.aqm.{field}"), "{text}");
    }
    for text in ["codel ecn ecn 5ms", "codel target", "codell", "codel pie"] {
        assert!(format!("rate 1M {text}").parse::<Laws>().is_err(), "{text}");
    }
}

/// Number of packets of `count` for which `decide` is true; each has draws of its own.
fn hits(count: u64, mut decide: impl FnMut(&mut Draws) -> bool) -> f64 {
    let philox = Philox::new(11);
    let at = |packet| DrawPosition { flow: 1, direction: Direction::Forward, slot: 2, packet };
    (0..count).filter(|packet| decide(&mut at(*packet).draws(&philox))).count() as f64
}

#[test]
fn red_drops_at_even_intervals_by_the_average_length() {
    let law = Red {
        min: crate::units::ByteSize(10_000),
        max: crate::units::ByteSize(30_000),
        probability_percentage: 10.0,
        weight: 1.0,
        gentle: true,
        ecn: false,
    };
    // The length, and the share of drops: intervals are uniform on 1 to 1/p − 1, so that it is 2·p.
    for (bytes, expected) in
        [(9_999, 0.0_f64), (20_000, 0.1), (30_000, 0.2), (45_000, 1.0), (60_000, 1.0)]
    {
        let mut red = law.start();
        let n = 200_000;
        let dropped = hits(n, |draws| red.arrives(bytes, 0, true, draws) == Managed::Drop);
        // 100 intervals of standard deviation 5.5 of 10 packets have one of 5.5 % of their mean; these are 20 000 or more.
        assert!(
            (dropped / n as f64 / expected.max(1e-9) - 1.0).abs() < 0.03
                || dropped == 0.0 && expected == 0.0,
            "{bytes}: {dropped}"
        );
    }
    // Without the gentle range everything beyond the maximum is dropped, marks or not.
    let mut red = Red { gentle: false, ecn: true, ..law.clone() }.start();
    assert_eq!(hits(1000, |draws| red.arrives(31_000, 0, true, draws) == Managed::Drop), 1000.0);
    let mut red = Red { ecn: true, ..law }.start();
    assert_eq!(hits(1000, |draws| red.arrives(20_000, 0, true, draws) == Managed::Drop), 0.0);
}

#[test]
fn the_average_of_red_follows_the_length_and_decays_while_idle() {
    let law = Red {
        min: crate::units::ByteSize(1000),
        max: crate::units::ByteSize(1001),
        probability_percentage: 100.0,
        weight: 0.002,
        gentle: false,
        ecn: false,
    };
    // From 0 towards 2000: 1000 after ln 2 / 0.002 = 346 packets.
    let mut red = law.start();
    let passed = hits(1000, |draws| red.arrives(2000, 0, false, draws) == Managed::Pass);
    assert!((345.0..349.0).contains(&passed), "{passed}");
    // 1000 packets while idle: a factor of 0.998^1000 = 0.135.
    let passed = hits(1, |draws| red.arrives(0, 1_000_000, false, draws) == Managed::Pass);
    assert_eq!(passed, 1.0);
}

#[test]
fn pie_is_the_same_after_a_long_silence_and_after_many_short_ones() {
    let law =
        Pie { target: Span(15 * MS), update: Span(15 * MS), alpha: 0.125, beta: 1.25, ecn: false };
    let (mut once, mut often) = (law.start(), law.start());
    for pie in [&mut once, &mut often] {
        pie.advance(0, |_| 0);
        pie.advance(3_000 * MS, |_| 100 * MS);
    }
    once.advance(100_000 * MS, |_| 0);
    for at in 3_001..=100_000 {
        often.advance(at * MS, |_| 0);
    }
    assert_eq!(once, often);
}

#[test]
fn a_high_probability_of_pie_grows_by_small_steps() {
    let law =
        Pie { target: Span(15 * MS), update: Span(15 * MS), alpha: 0.125, beta: 1.25, ecn: false };
    let mut pie = law.start();
    pie.advance(0, |_| 0);
    // A waiting time of 1 s: 0.02, 0.10, and then 0.04 with each of ten updates: 0.5. Without the limit of a step it would be 1.
    pie.advance(12 * 15 * MS, |_| 1000 * MS);
    let n = 10_000;
    let dropped = hits(n, |draws| pie.arrives(1_000_000, false, draws) == Managed::Drop);
    // One of 1 + 1/p packets.
    assert!((dropped / n as f64 - 1.0 / 3.0).abs() < 0.03, "{dropped}");
}

#[test]
fn codel_goes_on_at_its_last_rate_soon_after_it_stopped() {
    let law = Codel { target: Span(5 * MS), interval: Span(100 * MS), ecn: false };
    // Packets leave every ms. They wait for 50 ms in the first second and after the pause, and for 1 ms between.
    let interval = |pause_ms: u64| {
        let mut codel = law.start();
        let waits = |ms: u64| if (1000..1000 + pause_ms).contains(&ms) { MS } else { 50 * MS };
        let dropped = (0..1000 + pause_ms + 400).filter(|ms| {
            let is_dropped = codel.leaves(ms * MS, waits(*ms), 100_000, false) == Managed::Drop;
            is_dropped && *ms >= 1000 + pause_ms
        });
        let dropped: Vec<u64> = dropped.collect();
        dropped[1] - dropped[0]
    };
    assert_eq!(interval(2000), 100);
    // In the first second there were 24 drops, 100 ms·Σ 1/√n apart.
    assert!((20..24).contains(&interval(10)), "{}", interval(10));
}

#[test]
fn dualpi2_leaves_a_tenth_to_the_classic_queue() {
    let law: Laws = "rate 1M dualpi2".parse().unwrap();
    let mut dual = law.rate.unwrap().aqm.unwrap().dualpi2.unwrap().start();
    let low_latency = (0..1000).filter(|_| {
        let is_low_latency = dual.serves_low_latency();
        dual.served(is_low_latency, 1500);
        is_low_latency
    });
    assert_eq!(low_latency.count(), 900);
}

#[test]
fn dualpi2_couples_the_marks_to_the_square_root_of_the_drops() {
    let law = DualPi2 {
        target: Span(10 * MS),
        update: Span(16 * MS),
        alpha: 1.0,
        beta: 0.0,
        step: Span(MS),
        coupling: 2.0,
    };
    let mut dual = law.start();
    dual.advance(0, |_| 0);
    // One update with a waiting time 0.2 s above the target: a probability of 0.2.
    dual.advance(16 * MS, |_| 210 * MS);
    let n = 100_000;
    let of = |ecn: u8, waited_ns, wanted| {
        let mut dual = dual.clone();
        hits(n, |draws| dual.leaves(ecn, waited_ns, false, draws) == wanted) / n as f64
    };
    // 6.2 standard deviations of 0.04 and 0.4: 0.0039 and 0.0096.
    assert!((of(0, 5 * MS, Managed::Drop) - 0.04).abs() < 0.0039);
    assert!((of(2, 5 * MS, Managed::Mark) - 0.04).abs() < 0.0039);
    assert!((of(1, MS / 2, Managed::Mark) - 0.4).abs() < 0.0096);
    assert_eq!(of(1, MS + 1, Managed::Mark), 1.0);
    assert_eq!(of(3, MS + 1, Managed::Mark), 1.0);
    // Overload: the base probability is 0.6, and marks are not enough.
    dual.advance(48 * MS, |_| 210 * MS);
    let of = |ecn: u8, wanted| {
        let mut dual = dual.clone();
        hits(n, |draws| dual.leaves(ecn, 5 * MS, false, draws) == wanted) / n as f64
    };
    for ecn in 0..4 {
        assert!((of(ecn, Managed::Drop) - 0.36).abs() < 0.0095, "{ecn}");
    }
}
