use super::*;
use crate::impairment::Laws;
use weir_laws::{Direction, DrawPosition, Philox, flow_hash};

fn slot(text: &str) -> Delay {
    text.parse::<Laws>().unwrap().delay.unwrap()
}

fn law(text: &str) -> RunningDelay {
    RunningDelay::of(&slot(text)).unwrap()
}

/// Mean and standard deviation of a law by its closed form.
pub(super) fn stated(text: &str) -> (f64, f64) {
    let moments = slot(text).moments().unwrap();
    (moments.mean_ns.unwrap(), moments.deviation_ns.unwrap())
}

/// The delays of packets at equal times.
pub(super) fn draws(text: &str, seed: u64, packets: u64) -> Vec<u64> {
    draws_every(text, seed, 0, packets)
}

/// The delays of packets, one every `spacing_ns`.
pub(super) fn draws_every(text: &str, seed: u64, spacing_ns: u64, packets: u64) -> Vec<u64> {
    let of = |packet| PacketFacts { elapsed_ns: packet * spacing_ns, bytes: 1000 };
    let (philox, mut law, flow) = (Philox::new(seed), law(text), flow_hash("test"));
    let draw = |packet| {
        let position = DrawPosition {
            flow,
            direction: Direction::Reverse,
            slot: weir_laws::slot::DELAY,
            packet,
        };
        law.draw_ns(&of(packet), &mut position.draws(&philox))
    };
    (0..packets).map(draw).collect()
}

pub(super) fn moments_of(sample: &[u64]) -> (f64, f64) {
    let n = sample.len() as f64;
    let mean = sample.iter().map(|d| *d as f64).sum::<f64>() / n;
    let variance = sample.iter().map(|d| (*d as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, variance.sqrt())
}

#[test]
fn realised_moments_are_the_stated_ones() {
    for text in [
        "delay 40ms",
        "delay 40ms ±5ms normal",
        "delay 5ms ±5ms normal",
        "delay 20ms ±10ms uniform",
        "delay 0ns..3ns",
        "delay 30ms ±30ms exponential",
        "delay 30ms ±10ms exponential",
        "delay 30ms ±10ms exponential most 45ms",
        "delay 40ms ±5ms paretonormal",
        "delay 5ms ±5ms paretonormal",
        "delay gamma(shape=2, scale=5ms)",
        "delay weibull(shape=1.5, scale=5ms)",
        "delay log_normal(mean=10ms, deviation=3ms)",
        "delay student(degrees=9, location=40ms, scale=2ms)",
        "delay poisson(mean=10ms)",
        "delay cauchy(location=10ms, scale=1ms, max=20ms)",
        "delay table(1ms:9, 20ms:1)",
        "delay histogram(10ms..20ms:9, 20ms..80ms:1)",
        "delay quantiles(10ms, 12ms, 15ms, 40ms)",
        "delay mixture(exponential(mean=4ms):3, 10ms:2, 5ms..9ms:1)",
    ] {
        for seed in [1, 2] {
            let n = 200_000;
            let (mean, deviation) = moments_of(&draws(text, seed, n));
            let (asked_mean, asked_deviation) = stated(text);
            let bound = 5.0 * asked_deviation / (n as f64).sqrt();
            assert!((mean - asked_mean).abs() <= bound.max(0.5), "{text}: {mean} {asked_mean}");
            // The sample deviation of the heaviest tail here varies by 0.5 %.
            let off = (deviation - asked_deviation).abs();
            assert!(
                off <= (0.02 * asked_deviation).max(1e-9),
                "{text}: {deviation} {asked_deviation}"
            );
        }
    }
}

#[test]
fn weighted_delays_have_the_stated_moments() {
    for (text, within) in [
        ("delay 40ms", 1e-9),
        ("delay 40ms ±5ms normal", 1e-3),
        ("delay 5ms ±5ms normal", 1e-3),
        ("delay 20ms ±10ms uniform", 1e-3),
        ("delay 30ms ±10ms exponential most 45ms", 1e-3),
        ("delay 40ms ±5ms paretonormal", 2e-3),
        // 5 % is between the middles of two parts, which count for either value.
        ("delay table(1ms:19, 20ms:1)", 0.03),
    ] {
        let values = slot(text).weighted_ns().unwrap();
        let sum = |of: &dyn Fn(f64) -> f64| values.iter().map(|(ns, p)| p * of(*ns)).sum::<f64>();
        assert!((sum(&|_| 1.0) - 1.0).abs() < 1e-12, "{text}");
        let mean = sum(&|ns| ns);
        let deviation = sum(&|ns| (ns - mean) * (ns - mean)).sqrt();
        let (asked_mean, asked_deviation) = stated(text);
        let close = |value: f64, asked: f64| (value - asked).abs() <= within * asked + 0.1;
        assert!(close(mean, asked_mean), "{text}: {mean} {asked_mean}");
        assert!(close(deviation, asked_deviation), "{text}: {deviation} {asked_deviation}");
    }
    for text in ["mixture(1ms:1, 2ms:1)", "values(1ms, 2ms)", "40ms ±5ms correlation 25%"] {
        assert_eq!(slot(&format!("delay {text}")).weighted_ns(), None, "{text}");
    }
}

#[test]
fn stated_moments_without_a_cut() {
    let (mean, deviation) = stated("delay 40ms ±5ms normal");
    assert!((mean - 40e6).abs() < 1e-3 && (deviation - 5e6).abs() < 1.0);
    assert!((stated("delay 20ms ±10ms uniform").1 - 20e6 / 12f64.sqrt()).abs() < 10.0);
    assert_eq!(stated("delay 30ms ±10ms exponential"), (30e6, 10e6));
}

/// The Kolmogorov–Smirnov distance of draws from the closed form, times √n: below 1.95 with probability 0.999.
pub(super) fn distance(text: &str, below: impl Fn(f64) -> f64) -> f64 {
    let mut sample = draws(text, 7, 100_000);
    sample.sort_unstable();
    let n = sample.len() as f64;
    let distance = |(i, d): (usize, &u64)| {
        let p = below(*d as f64);
        (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
    };
    sample.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
}

fn fits(text: &str, below: fn(f64) -> f64) {
    let distance = distance(text, below);
    assert!(distance < 1.95, "{text}: {distance}");
}

#[test]
fn distributions_have_their_shape() {
    fits("delay 40ms ±5ms normal", |d| libm::erfc((40e6 - d) / 5e6 / 2f64.sqrt()) / 2.0);
    fits("delay 10ms..30ms", |d| (d - 10e6) / 20e6);
    fits("delay 30ms ±10ms exponential", |d| 1.0 - libm::exp(-(d - 20e6) / 10e6));
}

#[test]
fn bounds_hold() {
    assert!(draws("delay 10ns..12ns", 1, 1000).iter().all(|d| (10..=12).contains(d)));
    assert!(
        draws("delay 30ms ±30ms exponential most 31ms", 1, 9000).iter().all(|d| *d <= 31_000_000)
    );
    assert!(draws("delay 30ms ±10ms exponential", 1, 9000).iter().all(|d| *d >= 20_000_000));
    assert!(draws("delay 1ms ±5ms normal", 1, 9000).contains(&0));
}

#[test]
fn moments_are_absent_where_the_tail_has_none() {
    let of = |text: &str| slot(text).moments().unwrap();
    let cauchy = of("delay cauchy(location=10ms, scale=1ms)");
    assert_eq!((cauchy.mean_ns, cauchy.deviation_ns), (None, None));
    let student = of("delay student(degrees=1.5, location=10ms, scale=1ms)");
    assert!(student.mean_ns.is_some() && student.deviation_ns.is_none(), "{student:?}");
    // The median is what can be checked: its standard deviation is π·scale/(2·√n).
    let mut sample = draws("delay cauchy(location=10ms, scale=1ms)", 3, 100_001);
    sample.sort_unstable();
    let bound = 6.2 * core::f64::consts::FRAC_PI_2 * 1e6 / 100_001f64.sqrt();
    assert!((sample[50_000] as f64 - 10e6).abs() < bound, "{}", sample[50_000]);
}

#[test]
fn shared_distributions_have_their_shape() {
    fits("delay weibull(shape=2, scale=5ms)", |d| 1.0 - libm::exp(-(d / 5e6) * (d / 5e6)));
    fits("delay gamma(shape=2, scale=5ms)", |d| 1.0 - (1.0 + d / 5e6) * libm::exp(-d / 5e6));
    fits("delay histogram(10ms..20ms:3, 40ms..80ms:1)", |d| match d / 1e6 {
        ms if ms < 20.0 => 0.75 * (ms - 10.0) / 10.0,
        ms if ms < 40.0 => 0.75,
        ms => 0.75 + 0.25 * (ms - 40.0) / 40.0,
    });
    fits("delay quantiles(10ms, 12ms, 40ms)", |d| match d / 1e6 {
        ms if ms < 12.0 => (ms - 10.0) / 4.0,
        ms => 0.5 + (ms - 12.0) / 56.0,
    });
}

#[test]
fn sequences_are_in_their_order() {
    let ms = |text| draws(text, 1, 5).into_iter().map(|ns| ns / 1_000_000).collect::<Vec<_>>();
    assert_eq!(ms("delay values(5ms, 1ms, 9ms)"), [5, 1, 9, 5, 1]);
    assert_eq!(ms("delay alternate(first=2ms, second=8ms)"), [2, 8, 2, 8, 2]);
    assert_eq!(ms("delay increasing(start=1ms, end=3ms, step=1ms)"), [1, 2, 3, 1, 2]);
}

#[test]
fn delays_that_follow_time_are_exact() {
    // One packet a second.
    let ms = |text| {
        let delays = draws_every(text, 1, 1_000_000_000, 9);
        delays.into_iter().map(|ns| ns / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(ms("delay step(from=20ms, to=5ms, at=3s)"), [20, 20, 20, 5, 5, 5, 5, 5, 5]);
    let ramp = ms("delay ramp(from=10ms, to=50ms, duration=4s)");
    assert_eq!(ramp, [10, 20, 30, 40, 50, 50, 50, 50, 50]);
    assert_eq!(ms("delay square(min=1ms, max=9ms, cycle=4s)"), [1, 1, 9, 9, 1, 1, 9, 9, 1]);
    assert_eq!(ms("delay saw(min=0s, max=8ms, cycle=4s)"), [0, 2, 4, 6, 0, 2, 4, 6, 0]);
    assert_eq!(ms("delay sine(min=0s, max=8ms, cycle=4s)"), [0, 4, 8, 4, 0, 4, 8, 4, 0]);
    for text in
        ["sine", "square", "saw"].map(|law| format!("delay {law}(min=2ms, max=8ms, cycle=1s)"))
    {
        // 100 cycles of 1000 packets; the edges of a cycle count for a packet.
        let (mean, deviation) = moments_of(&draws_every(&text, 1, 1_000_000, 100_000));
        let (asked_mean, asked_deviation) = stated(&text);
        assert!((mean - asked_mean).abs() < 0.002 * asked_mean, "{text}: {mean} {asked_mean}");
        assert!((deviation / asked_deviation - 1.0).abs() < 0.002, "{text}: {deviation}");
    }
}

/// The correlation of neighbours.
fn lag(sample: &[u64]) -> f64 {
    let (mean, deviation) = moments_of(sample);
    let product = |pair: &[u64]| (pair[0] as f64 - mean) * (pair[1] as f64 - mean);
    sample.windows(2).map(product).sum::<f64>() / sample.len() as f64 / (deviation * deviation)
}

#[test]
fn correlation_keeps_the_distribution() {
    let n = 200_000;
    for (law, rho) in [
        ("40ms ±5ms normal", 0.25),
        ("40ms ±5ms normal", 0.9),
        ("10ms..30ms", 0.5),
        ("gamma(shape=2, scale=5ms)", 0.5),
        ("30ms ±10ms exponential", 0.5),
        ("40ms ±5ms paretonormal", 0.25),
    ] {
        let text = format!("delay {law} allow correlation {}%", rho * 100.0);
        let sample = draws(&text, 4, n);
        let (mean, deviation) = moments_of(&sample);
        let (asked_mean, asked_deviation) = stated(&text);
        // The variance of a mean is at most that of independent delays times (1 + ρ)/(1 − ρ).
        let wide = ((1.0 + rho) / (1.0 - rho) / n as f64).sqrt();
        assert!((mean - asked_mean).abs() < 6.2 * wide * asked_deviation, "{text}: {mean}");
        assert!((deviation / asked_deviation - 1.0).abs() < 10.0 * wide, "{text}: {deviation}");
        // Of normal delays the correlation is ρ; of others it is nearer to zero, by the law's shape.
        let lag = lag(&sample);
        let is_normal = law.ends_with("normal") && !law.contains("pareto");
        let least = if is_normal { rho - 0.015 } else { 0.7 * rho };
        assert!(lag > least && lag < rho + 0.015, "{text}: {lag}");
    }
}

#[test]
fn a_half_life_does_not_depend_on_the_packet_rate() {
    for (spacing_ns, rho) in [(10_000_000, 0.5), (5_000_000, 0.5f64.sqrt()), (20_000_000, 0.25)] {
        let text = "delay 40ms ±5ms normal half-life 10ms";
        let lag = lag(&draws_every(text, 6, spacing_ns, 200_000));
        assert!((lag - rho).abs() < 0.015, "{spacing_ns}: {lag}");
    }
}

#[test]
fn correlation_needs_a_random_law() {
    let field = |text: &str| match format!("delay {text}").parse::<Laws>().unwrap_err() {
        ModelError::Field { field, .. } => field.trim_start_matches("impairment.delay.").to_owned(),
        other => panic!("{text}: {other:?}"),
    };
    for text in [
        "40ms ±5ms correlation 100%",
        "40ms correlation 25%",
        "values(1ms, 2ms) correlation 25%",
        "mixture(1ms:1, exponential(mean=1ms):1) correlation 25%",
        "sine(min=1ms, max=2ms, cycle=1s) correlation 25%",
        "40ms ±5ms smooth correlation 25%",
    ] {
        assert_eq!(field(text), "correlation_percentage", "{text}");
    }
    for text in [
        "40ms ±5ms smooth",
        "40ms ±5ms half-life 0s",
        "40ms ±5ms correlation 25% half-life 1s",
        "40ms half-life 1s",
    ] {
        assert_eq!(field(text), "half_life", "{text}");
    }
    assert_eq!(field("saw(min=2ms, max=1ms, cycle=1s)"), "saw.min");
    assert_eq!(field("sine(min=1ms, max=2ms, cycle=0s)"), "sine.cycle");
    assert_eq!(field("ramp(from=1ms, to=2ms, duration=0s)"), "ramp.duration");
    assert_eq!(field("step(from=1ms, to=2h, at=1s)"), "step.to");
    assert_eq!(field("histogram(5ms..9ms:1, 8ms..9ms:1)"), "histogram");
    assert_eq!(field("quantiles(5ms, 4ms)"), "quantiles");
}

#[test]
fn tables_are_limited() {
    let parts = |count: usize| vec!["gamma(shape=2, scale=1ms):1"; count].join(", ");
    assert!(format!("delay mixture({})", parts(32)).parse::<Laws>().is_ok());
    assert!(format!("delay mixture({})", parts(33)).parse::<Laws>().is_err());
}
