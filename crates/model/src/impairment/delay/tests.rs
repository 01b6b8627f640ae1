use super::*;
use crate::impairment::Laws;
use weir_laws::{Direction, DrawPosition, Philox, flow_hash};

fn slot(text: &str) -> Delay {
    text.parse::<Laws>().unwrap().delay.unwrap()
}

fn law(text: &str) -> DelayLaw {
    DelayLaw::of(&slot(text)).unwrap()
}

/// Mean and standard deviation of a law by its closed form.
fn stated(text: &str) -> (f64, f64) {
    let moments = slot(text).moments().unwrap();
    (moments.mean_ns.unwrap(), moments.deviation_ns.unwrap())
}

pub(super) fn draws(text: &str, seed: u64, packets: u64) -> Vec<u64> {
    let (philox, mut law, flow) = (Philox::new(seed), law(text), flow_hash("test"));
    let draw = |packet| {
        let position = DrawPosition {
            flow,
            direction: Direction::Reverse,
            slot: weir_laws::slot::DELAY,
            packet,
        };
        law.draw_ns(&mut position.draws(&philox))
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
