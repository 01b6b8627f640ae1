use super::*;
use crate::impairment::Laws;
use weir_laws::{Direction, Philox, Place, flow_hash, slot};

fn law(text: &str) -> DelayLaw {
    DelayLaw::of(&text.parse::<Laws>().unwrap().delay.unwrap()).unwrap()
}

fn draws(text: &str, seed: u64, packets: u64) -> Vec<u64> {
    let (philox, law, flow) = (Philox::new(seed), law(text), flow_hash("test"));
    let draw = |packet| {
        let place = Place { flow, direction: Direction::Reverse, slot: slot::DELAY, packet };
        law.draw_ns(&mut place.draws(&philox))
    };
    (0..packets).map(draw).collect()
}

fn moments_of(sample: &[u64]) -> (f64, f64) {
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
            let asked = law(text).moments();
            let bound = 5.0 * asked.deviation_ns / (n as f64).sqrt();
            assert!((mean - asked.mean_ns).abs() <= bound.max(0.5), "{text}: {mean} {asked:?}");
            // The sample deviation of the heaviest tail here varies by 0.5 %.
            let off = (deviation - asked.deviation_ns).abs();
            assert!(off <= (0.02 * asked.deviation_ns).max(1e-9), "{text}: {deviation} {asked:?}");
        }
    }
}

#[test]
fn stated_moments_without_a_cut() {
    let normal = law("delay 40ms ±5ms normal").moments();
    assert!((normal.mean_ns - 40e6).abs() < 1e-3 && (normal.deviation_ns - 5e6).abs() < 1.0);
    let uniform = law("delay 20ms ±10ms uniform").moments();
    assert!((uniform.deviation_ns - 20e6 / 12f64.sqrt()).abs() < 10.0);
    let exponential = law("delay 30ms ±10ms exponential").moments();
    assert_eq!((exponential.mean_ns, exponential.deviation_ns), (30e6, 10e6));
}

/// The distribution of draws against its closed form, by Kolmogorov and Smirnov: over √n the distance stays
/// below 1.95 with probability 0.999.
fn fits(text: &str, below: fn(f64) -> f64) {
    let mut sample = draws(text, 7, 100_000);
    sample.sort_unstable();
    let n = sample.len() as f64;
    let distance = sample
        .iter()
        .enumerate()
        .map(|(i, d)| {
            let p = below(*d as f64);
            (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
        })
        .fold(0.0, f64::max);
    assert!(distance * n.sqrt() < 1.95, "{text}: {}", distance * n.sqrt());
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
