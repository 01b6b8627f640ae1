use super::*;
use crate::impairment::Laws;
use weir_laws::{Chance, Direction, DrawPosition, Philox, flow_hash};

fn slot(text: &str) -> Loss {
    text.parse::<Laws>().unwrap().loss.unwrap()
}

pub(super) fn law(text: &str) -> LossLaw {
    LossLaw::of(&slot(text)).unwrap()
}

pub(super) fn moments(text: &str) -> LossMoments {
    slot(text).moments().unwrap()
}

/// The losses of packets at equal times.
pub(super) fn losses(text: &str, seed: u64, packets: u64) -> Vec<bool> {
    losses_every(text, seed, 0, packets)
}

/// The losses of packets of 1000 bytes, one every `spacing_ns`.
pub(super) fn losses_every(text: &str, seed: u64, spacing_ns: u64, packets: u64) -> Vec<bool> {
    let of = |packet| PacketFacts { elapsed_ns: packet * spacing_ns, bytes: 1000 };
    losses_of(&mut law(text), seed, packets, of)
}

pub(super) fn losses_of(
    law: &mut LossLaw,
    seed: u64,
    packets: u64,
    of: impl Fn(u64) -> PacketFacts,
) -> Vec<bool> {
    let (philox, flow) = (Philox::new(seed), flow_hash("test"));
    let disposition = |packet| {
        let position = DrawPosition {
            flow,
            direction: Direction::Forward,
            slot: weir_laws::slot::LOSS,
            packet,
        };
        law.lost(&of(packet), &mut position.draws(&philox))
    };
    (0..packets).map(disposition).collect()
}

/// The numbers of the lost packets, from 1.
pub(super) fn lost_packets(text: &str, packets: u64) -> Vec<u64> {
    let lost = losses(text, 1, packets);
    (1..).zip(lost).filter(|(_, lost)| *lost).map(|(number, _)| number).collect()
}

/// The field of the error of an invalid law.
pub(super) fn refused(text: &str) -> String {
    match text.parse::<Laws>().unwrap_err() {
        ModelError::Field { field, .. } => field.trim_start_matches("impairment.").to_owned(),
        other => panic!("{text}: {other:?}"),
    }
}

/// Count and burst length agree with the law's moments, for several seeds.
pub(super) fn agree_with_the_law(text: &str) {
    for seed in [1, 2, 3] {
        let lost = losses(text, seed, 400_000);
        within(text, &lost);
        if moments(text).burst.is_some() {
            burst_within(text, &lost);
        }
    }
}

pub(super) fn burst_lengths(lost: &[bool]) -> Vec<usize> {
    lost.split(|l| !l).map(<[bool]>::len).filter(|n| *n > 0).collect()
}

/// The mean length of the runs lies within 5 standard deviations of the law's.
pub(super) fn burst_within(text: &str, lost: &[bool]) {
    let runs = burst_lengths(lost);
    let n = runs.len() as f64;
    let mean = runs.iter().sum::<usize>() as f64 / n;
    let square = runs.iter().map(|run| (*run as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let stated = moments(text).burst.unwrap();
    assert!(
        (mean - stated).abs() <= 5.0 * (square / n).sqrt() + 5.0 / n,
        "{text}: {mean} of {stated}"
    );
}

/// The count is within 6.2 standard deviations of the law: probability 1 − 10⁻⁹ (the seeds are fixed).
pub(super) fn within(text: &str, lost: &[bool]) {
    let (n, stated) = (lost.len() as f64, moments(text));
    let count = lost.iter().filter(|l| **l).count() as f64;
    let bound = 6.2 * (n * stated.variance).sqrt();
    assert!(
        (count - n * stated.mean).abs() <= bound.max(0.5),
        "{text}: {count} of {n}, bound {bound}"
    );
}

#[test]
fn losses_agree_with_each_laws_moments() {
    for text in [
        "loss 0.1%",
        "loss 1%",
        "loss 50%",
        "loss 5% run 4",
        "loss 1% run 20",
        "loss 30% run 1.5",
        "loss ge 1% to-good 10% bad 60% good 0.5%",
        "loss every 100",
    ] {
        for seed in [1, 2, 3] {
            let lost = losses(text, seed, 400_000);
            within(text, &lost);
            burst_within(text, &lost);
        }
    }
}

#[test]
fn moments_are_the_closed_forms() {
    let plain = moments("loss 5%");
    assert!((plain.mean - 0.05).abs() < 1e-12 && (plain.variance - 0.0475).abs() < 1e-12);
    // (1 + ρ)/(1 − ρ) times the binomial variance: 6.6 at 5 % with mean run 4.
    let bursty = moments("loss 5% run 4");
    let rho: f64 = 1.0 - 0.25 - 0.05 / (4.0 * 0.95);
    assert!((bursty.mean - 0.05).abs() < 1e-12);
    assert!((bursty.variance / 0.0475 - (1.0 + rho) / (1.0 - rho)).abs() < 1e-9);
    assert!((bursty.variance / 0.0475 - 6.6).abs() < 0.01);
    assert!((bursty.burst.unwrap() - 4.0).abs() < 1e-9);
    assert!((plain.burst.unwrap() - 1.0 / 0.95).abs() < 1e-9);
    assert_eq!((moments("loss 0%").burst, moments("loss 100%").burst), (None, None));
    let every = moments("loss every 4");
    assert_eq!((every.mean, every.variance, every.burst), (0.25, 0.0, Some(1.0)));
    // [p(1-h) + r(1-k)]/(p+r)
    let full = moments("loss ge 1% to-good 10% bad 60% good 0.5%");
    assert!((full.mean - (0.01 * 0.6 + 0.1 * 0.005) / 0.11).abs() < 1e-12);
}

#[test]
fn the_variance_is_that_of_repeated_runs() {
    // 400 runs of 5000 packets: the sample variance within 30 % (deviation about 7 %).
    let text = "loss 5% run 4";
    let counts: Vec<f64> = (0..400)
        .map(|seed| losses(text, seed, 5000).iter().filter(|l| **l).count() as f64)
        .collect();
    let mean = counts.iter().sum::<f64>() / 400.0;
    let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 399.0;
    let expected = 5000.0 * moments(text).variance;
    assert!((variance / expected - 1.0).abs() < 0.3, "{variance} {expected}");
}

#[test]
fn runs_are_geometric() {
    // Run lengths of mean B: the share of length k is (1 − r)^(k−1) r. Deviations below are sampling's.
    let lost = losses("loss 5% run 4", 11, 1_000_000);
    let runs = burst_lengths(&lost);
    let n = runs.len() as f64;
    let mean = runs.iter().sum::<usize>() as f64 / n;
    assert!((mean - 4.0).abs() < 5.0 * (12.0 / n).sqrt(), "{mean}");
    for k in 1..=8 {
        let share = runs.iter().filter(|r| **r == k).count() as f64 / n;
        let p: f64 = 0.75f64.powi(k as i32 - 1) * 0.25;
        assert!((share - p).abs() < 5.0 * (p * (1.0 - p) / n).sqrt(), "{k}: {share} {p}");
    }
    // Independent loss has mean run 1/(1 − p).
    let runs = burst_lengths(&losses("loss 20%", 5, 300_000));
    let mean = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
    assert!((mean - 1.25).abs() < 0.012, "{mean}");
}

#[test]
fn every_nth_is_exact() {
    let lost = losses("loss every 4", 0, 12);
    let at: Vec<usize> = lost.iter().enumerate().filter(|(_, l)| **l).map(|(i, _)| i).collect();
    assert_eq!(at, [3, 7, 11]);
    assert!(losses("loss every 1", 0, 9).iter().all(|l| *l));
}

#[test]
fn ends_are_exact() {
    assert!(losses("loss 0%", 1, 10_000).iter().all(|l| !l));
    assert!(losses("loss 100%", 1, 10_000).iter().all(|l| *l));
    // A millionth of a percent is not nothing: about 10 of 10⁹, so a long stretch without any is right.
    assert!(!Chance::percent(1e-6).is_never());
}
