//! Saturation of a path: the largest offered rate that is still received almost completely.

use super::all_finite;
use super::bootstrap::{SplitMix64, middle};
use super::segments::{Group, TwoSegments, fit};

/// Received rates at one offered rate, in the same unit, one for each repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPoint {
    /// Offered rate: what the sender really sent, not its target.
    pub offered: f64,
    /// Received, each repetition.
    pub received: Vec<f64>,
}

/// Offered rate at which the received fraction falls below the threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SaturationPoint {
    /// At this offered rate.
    At(f64),
    /// Beyond the largest rate that was offered.
    Above(f64),
    /// Already below the smallest rate that was offered.
    Below(f64),
}

/// The saturation point of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// By the fitted lines.
    pub point: SaturationPoint,
    /// Percentile interval of the point by bootstrap over repetitions; absent when no rate has two. The
    /// lower end is 0 where it lies below the smallest rate, the upper end infinite where it lies beyond
    /// the largest.
    pub interval: Option<(f64, f64)>,
    /// The fit itself.
    pub fit: TwoSegments,
    /// Largest offered rate up to which the mean received fraction of all rates reaches the threshold,
    /// without any model. Absent when the smallest rate does not reach it.
    pub highest_passing: Option<f64>,
    /// The next larger offered rate; absent when all pass.
    pub lowest_failing: Option<f64>,
}

/// Finds the saturation point: the largest offered rate of which at least `threshold` (such as 0.99) is received.
///
/// Two lines that meet are fitted by least squares to received against offered, the first through the origin (Hudson
/// 1966, see [`TwoSegments`]), and the rate is where the second one falls below `threshold` × offered. The interval at
/// `confidence` comes from `resamples` bootstrap samples: repetitions resampled within each offered rate, fitted again.
///
/// Absent below three distinct offered rates with values, when a number is not finite or an offered rate not positive,
/// or for a threshold outside 0 to 1 (1 included).
pub fn saturation(
    points: &[LoadPoint],
    threshold: f64,
    confidence: f64,
    resamples: u32,
    random: &mut SplitMix64,
) -> Option<Saturation> {
    let sound = |p: &LoadPoint| p.offered.is_finite() && p.offered > 0.0 && all_finite(&p.received);
    if !(threshold > 0.0 && threshold <= 1.0 && points.iter().all(sound)) {
        return None;
    }
    let points = merged(points);
    if points.len() < 3 {
        return None;
    }
    let groups: Vec<Group> = points.iter().map(|p| group(p, &p.received)).collect();
    let fitted = fit(&groups)?;
    let repeated = points.iter().any(|p| p.received.len() > 1);
    let interval = repeated
        .then(|| {
            let results = (0..resamples).filter_map(|_| {
                let lines = fit(&resampled(&points, random))?;
                Some(match crossing(&lines, &groups, threshold) {
                    SaturationPoint::At(rate) => rate,
                    SaturationPoint::Above(_) => f64::INFINITY,
                    SaturationPoint::Below(_) => 0.0,
                })
            });
            middle(results.collect(), confidence)
        })
        .flatten();
    let passing = groups.iter().take_while(|g| g.received >= threshold * g.offered).count();
    Some(Saturation {
        point: crossing(&fitted, &groups, threshold),
        interval,
        fit: fitted,
        highest_passing: passing.checked_sub(1).map(|last| groups[last].offered),
        lowest_failing: groups.get(passing).map(|g| g.offered),
    })
}

/// Points by rising offered rate; equal rates are merged, points without values left out.
fn merged(points: &[LoadPoint]) -> Vec<LoadPoint> {
    let mut sorted: Vec<&LoadPoint> = points.iter().filter(|p| !p.received.is_empty()).collect();
    sorted.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    let mut out: Vec<LoadPoint> = vec![];
    for point in sorted {
        match out.last_mut() {
            Some(last) if last.offered == point.offered => last.received.extend(&point.received),
            _ => out.push(point.clone()),
        }
    }
    out
}

fn group(point: &LoadPoint, received: &[f64]) -> Group {
    let weight = received.len() as f64;
    Group { offered: point.offered, received: received.iter().sum::<f64>() / weight, weight }
}

/// Each point with its repetitions resampled.
fn resampled(points: &[LoadPoint], random: &mut SplitMix64) -> Vec<Group> {
    points
        .iter()
        .map(|point| {
            let count = point.received.len();
            let drawn: Vec<f64> =
                (0..count).map(|_| point.received[random.below(count as u64) as usize]).collect();
            group(point, &drawn)
        })
        .collect()
}

/// Offered rate at which the lines fall below `threshold` × offered.
fn crossing(lines: &TwoSegments, groups: &[Group], threshold: f64) -> SaturationPoint {
    let (smallest, largest) = (groups[0].offered, groups[groups.len() - 1].offered);
    if lines.slope_before < threshold {
        return SaturationPoint::Below(smallest);
    }
    if lines.slope_after >= threshold {
        return SaturationPoint::Above(largest);
    }
    let rate = lines.breakpoint * (lines.slope_before - lines.slope_after)
        / (threshold - lines.slope_after);
    if rate > largest {
        SaturationPoint::Above(largest)
    } else if rate < smallest {
        SaturationPoint::Below(smallest)
    } else {
        SaturationPoint::At(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that carries `capacity`, with this much noise, offered 1 to 12.
    fn sweep(capacity: f64, noise: f64, repetitions: usize, seed: u64) -> Vec<LoadPoint> {
        let mut random = SplitMix64::new(seed);
        (1..=12)
            .map(|offered| {
                let offered = f64::from(offered);
                let mut once = || offered.min(capacity) * (1.0 + noise * (random.unit() - 0.5));
                LoadPoint { offered, received: (0..repetitions).map(|_| once()).collect() }
            })
            .collect()
    }

    fn find(points: &[LoadPoint]) -> Saturation {
        saturation(points, 0.99, 0.95, 500, &mut SplitMix64::new(7)).unwrap()
    }

    #[test]
    fn a_plateau_is_found_with_its_interval() {
        let found = find(&sweep(6.5, 0.01, 5, 1));
        let SaturationPoint::At(rate) = found.point else { panic!("{found:?}") };
        let (low, high) = found.interval.unwrap();
        // A plateau at 6.5 is 99 % of 6.566.
        assert!(
            low < 6.57 && 6.56 < high && high - low < 0.2 && (low..=high).contains(&rate),
            "{found:?}"
        );
        assert_eq!((found.highest_passing, found.lowest_failing), (Some(6.0), Some(7.0)));
        assert!((found.fit.breakpoint - 6.5).abs() < 0.05 && found.fit.slope_after.abs() < 0.02);
    }

    #[test]
    fn falling_throughput_beyond_saturation_is_found() {
        let points: Vec<LoadPoint> = (1..=10)
            .map(|x| {
                let offered = f64::from(x);
                let received = if offered <= 4.0 { offered } else { 4.0 - 0.5 * (offered - 4.0) };
                LoadPoint { offered, received: vec![received] }
            })
            .collect();
        let found = find(&points);
        let SaturationPoint::At(rate) = found.point else { panic!("{found:?}") };
        assert!((rate - 6.0 / 1.49).abs() < 1e-9 && found.interval.is_none(), "{found:?}");
        assert!((found.fit.slope_after + 0.5).abs() < 1e-9);
    }

    #[test]
    fn saturation_outside_the_offered_rates_is_reported() {
        let open = find(&sweep(100.0, 0.001, 3, 2));
        assert_eq!(open.point, SaturationPoint::Above(12.0));
        assert_eq!((open.highest_passing, open.lowest_failing), (Some(12.0), None));
        assert_eq!(open.interval.unwrap().1, f64::INFINITY);
        let lossy: Vec<LoadPoint> = (1..=5)
            .map(|x| LoadPoint { offered: f64::from(x), received: vec![0.9 * f64::from(x)] })
            .collect();
        let lossy = find(&lossy);
        assert_eq!(lossy.point, SaturationPoint::Below(1.0));
        assert_eq!((lossy.highest_passing, lossy.lowest_failing), (None, Some(1.0)));
    }

    #[test]
    fn order_and_splitting_of_points_do_not_matter() {
        let points = sweep(5.2, 0.02, 4, 3);
        let mut split: Vec<LoadPoint> = points
            .iter()
            .flat_map(|p| {
                p.received.chunks(2).map(|r| LoadPoint { offered: p.offered, received: r.to_vec() })
            })
            .collect();
        // Whole points in another order; the two halves of one stay in order.
        split.sort_by(|a, b| b.offered.total_cmp(&a.offered));
        assert_eq!(find(&points), find(&split));
    }

    #[test]
    fn invalid_sweeps_are_refused() {
        let mut random = SplitMix64::new(1);
        let mut refused = |points: &[LoadPoint], threshold| {
            assert_eq!(saturation(points, threshold, 0.95, 10, &mut random), None);
        };
        let points = sweep(5.0, 0.0, 1, 1);
        refused(&points[..2], 0.99);
        refused(&points, 0.0);
        refused(&points, 1.5);
        refused(&[LoadPoint { offered: 0.0, received: vec![1.0] }], 0.99);
        let mut bad = points.clone();
        bad[3].received = vec![f64::NAN];
        refused(&bad, 0.99);
    }
}
