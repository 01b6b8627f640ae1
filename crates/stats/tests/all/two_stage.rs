//! Coverage of sequential rules for a mean's precision. Stein's two-stage rule has its nominal coverage;
//! stopping as soon as the interval is narrow enough has not.

use proptest::prelude::*;
use weir_stats::compare::SplitMix64;
use weir_stats::{Sample, student_t_quantile};

const CONFIDENCE: f64 = 0.95;
const MEAN: f64 = 100.0;
const TRIALS: u32 = 20_000;
/// Four standard errors of a fraction of these trials.
const TOLERANCE: f64 = 0.006;

/// A value of the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// A finished campaign: number of runs, mean, and half the width of its interval.
type Ended = (u64, f64, f64);

/// Two stages with a relative precision and a cap, as with `--precision`.
fn two_stage(first: u64, most: u64, precision: f64, draw: &mut dyn FnMut() -> f64) -> Ended {
    let mut values: Vec<f64> = (0..first).map(|_| draw()).collect();
    let stage = Sample::of(&values).unwrap();
    let needed = stage.repetitions_for(precision * stage.mean.abs(), CONFIDENCE);
    let count = needed.unwrap_or(most).min(most).max(first);
    values.extend((first..count).map(|_| draw()));
    let half = stage.half_width_over(count, CONFIDENCE).unwrap();
    (count, Sample::of(&values).unwrap().mean, half)
}

/// Stops as soon as the interval of all runs so far is narrow enough.
fn optional(first: u64, most: u64, precision: f64, draw: &mut dyn FnMut() -> f64) -> Ended {
    thread_local! {
        static T: Vec<f64> = (0..=100)
            .map(|n| student_t_quantile(0.5 + CONFIDENCE / 2.0, f64::from(n) - 1.0).unwrap_or(f64::NAN))
            .collect();
    }
    let mut values = vec![];
    loop {
        values.push(draw());
        let count = values.len() as u64;
        if count < first {
            continue;
        }
        let all = Sample::of(&values).unwrap();
        let half = T.with(|t| t[values.len()]) * (all.variance.unwrap() / count as f64).sqrt();
        if half <= precision * all.mean.abs() || count >= most {
            return (count, all.mean, half);
        }
    }
}

/// Fraction of campaigns whose interval contains the true mean, and the mean number of runs.
fn coverage(
    mut campaign: impl FnMut(&mut dyn FnMut() -> f64) -> Ended,
    deviation: f64,
) -> (f64, f64) {
    let mut random = SplitMix64::new(0x57E1);
    let (mut covered, mut runs) = (0u32, 0u64);
    for _ in 0..TRIALS {
        let (count, mean, half) = campaign(&mut || MEAN + deviation * normal(&mut random));
        covered += u32::from((mean - MEAN).abs() <= half);
        runs += count;
    }
    (f64::from(covered) / f64::from(TRIALS), runs as f64 / f64::from(TRIALS))
}

#[test]
fn two_stages_have_their_nominal_coverage() {
    for (first, deviation, precision) in [
        (2, 1.0, 0.02),
        (3, 5.0, 0.025),
        (5, 5.0, 0.025),
        (10, 5.0, 0.025),
        (10, 5.0, 0.02),
        (10, 20.0, 0.1),
        (10, 0.5, 0.02),
        (20, 5.0, 0.01),
    ] {
        let (share, runs) = coverage(|draw| two_stage(first, 100, precision, draw), deviation);
        println!(
            "two-stage first={first} deviation={deviation} precision={precision}: {share} {runs}"
        );
        assert!(
            (share - CONFIDENCE).abs() <= TOLERANCE,
            "{share} with {first} first runs, deviation {deviation}, precision {precision}"
        );
    }
}

/// Optional stopping with the same parameters: fewer intervals contain the mean than claimed.
#[test]
fn optional_stopping_covers_less_than_nominal() {
    for (first, deviation, precision) in [(3, 5.0, 0.025), (5, 5.0, 0.025), (10, 5.0, 0.02)] {
        let (share, runs) = coverage(|draw| optional(first, 100, precision, draw), deviation);
        println!(
            "optional first={first} deviation={deviation} precision={precision}: {share} {runs}"
        );
        assert!(share < CONFIDENCE - TOLERANCE, "{share} with {first} first runs");
    }
}

/// The means of an exponential figure are not normal: as with any t interval, the coverage is lower.
#[test]
fn a_skewed_figure_costs_coverage_with_or_without_a_second_stage() {
    let mut random = SplitMix64::new(7);
    let mut draw = || -MEAN * (1.0 - random.unit()).ln();
    let (mut two, mut fixed) = (0u32, 0u32);
    for _ in 0..TRIALS {
        let (_, mean, half) = two_stage(10, 1000, 0.2, &mut draw);
        two += u32::from((mean - MEAN).abs() <= half);
        let (_, mean, half) = two_stage(10, 10, 0.2, &mut draw);
        fixed += u32::from((mean - MEAN).abs() <= half);
    }
    let [two, fixed] = [two, fixed].map(|n| f64::from(n) / f64::from(TRIALS));
    println!("skewed: {two} {fixed}");
    assert!((0.85..0.95).contains(&two) && (0.85..0.95).contains(&fixed), "{two} {fixed}");
}

proptest! {
    #[test]
    fn the_number_of_repetitions_is_the_minimum(
        values in proptest::collection::vec(1.0..1e9f64, 2..40),
        share in 0.001..0.5f64,
        confidence in 0.5..0.999f64,
    ) {
        let first = Sample::of(&values).unwrap();
        let half = share * first.mean;
        let needed = first.repetitions_for(half, confidence).unwrap();
        prop_assert!(needed >= first.count);
        prop_assert!(first.half_width_over(needed, confidence).unwrap() <= half * (1.0 + 1e-9));
        if needed > first.count {
            let fewer = first.half_width_over(needed - 1, confidence).unwrap();
            prop_assert!(fewer > half * (1.0 - 1e-9), "{fewer} of {needed} - 1 would do for {half}");
        }
    }

    #[test]
    fn higher_precision_or_confidence_needs_more_repetitions(
        values in proptest::collection::vec(1.0..1e3f64, 2..40),
        half in 0.01..10.0f64,
        confidence in 0.5..0.99f64,
    ) {
        let first = Sample::of(&values).unwrap();
        let needed = first.repetitions_for(half, confidence).unwrap();
        prop_assert!(first.repetitions_for(half / 2.0, confidence).unwrap() >= needed);
        prop_assert!(first.repetitions_for(half, (1.0 + confidence) / 2.0).unwrap() >= needed);
        // In other units the number is the same.
        let scaled: Vec<f64> = values.iter().map(|v| v * 1024.0).collect();
        let scaled = Sample::of(&scaled).unwrap();
        prop_assert_eq!(scaled.repetitions_for(half * 1024.0, confidence).unwrap(), needed);
        prop_assert_eq!(first.half_width_over(first.count, confidence), first.half_width(confidence));
    }
}
