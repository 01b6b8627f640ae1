//! Marks of changes: when a figure of a pair is another than before.
//!
//! Two adjacent windows of the same length are compared, 12 times in the length of one. With z = 5, one in 1.7 million comparisons of
//! independent values exceeds the noise by chance:
//!
//! - Median round trip: the half-width h of its interval is half the distance between the quantiles 1/2 ± z / (2 √n). The noise is
//!   √(h₁² + h₂²). n is the number of seconds and not that of probes: round trips within a second depend on each other.
//! - Loss: z √(p (1 − p) (1/n₁ + 1/n₂)), p the loss of both windows together and n₁, n₂ their probes.
//!
//! A change exceeds both its threshold and the noise. The difference is largest when the windows meet where the figure changed, which is
//! within the length of a window after it first exceeds them: that comparison is the mark. Then the time before it is forgotten, so
//! that each change is marked once.

use std::collections::VecDeque;

use weir_model::watch::{ChangedFigure, Changes};

use super::PairSum;

/// Standard errors that a change must exceed.
const Z: f64 = 5.0;
/// The windows are compared this many times in the length of one.
const STEPS: u64 = 12;
/// Minimum fraction of a window that must be covered.
const MIN_COVERED: f64 = 0.5;
/// Minimum number of round trips in each window.
const MIN_ROUND_TRIPS: u64 = 20;

/// A change of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The second with which the second window starts.
    pub second: u64,
    /// The figure.
    pub figure: ChangedFigure,
    /// Its values.
    pub before: f64,
    /// In the second window.
    pub after: f64,
    /// What the change had to exceed.
    pub threshold: f64,
}

impl Change {
    fn difference(&self) -> f64 {
        (self.after - self.before).abs()
    }
}

/// Finds changes in the seconds of a pair.
#[derive(Debug, Clone)]
pub struct ChangeDetector {
    changes: Changes,
    /// Length of a window, s.
    window: u64,
    /// Seconds of the two windows.
    seconds: VecDeque<(u64, PairSum)>,
    /// Of each figure: seconds before this one are not compared any more.
    from: [u64; 2],
    /// Of each figure: the second in which a change was first seen, and its largest difference since.
    seen: [Option<(u64, Change)>; 2],
}

impl ChangeDetector {
    /// A detector with these thresholds.
    #[must_use]
    pub fn new(changes: Changes) -> ChangeDetector {
        let window = (changes.window.0 / 1_000_000_000).max(1);
        ChangeDetector { changes, window, seconds: VecDeque::new(), from: [0; 2], seen: [None; 2] }
    }

    /// Adds a second, by its number since any fixed time; returns the changes that it shows. Seconds arrive in order.
    pub fn add(&mut self, second: u64, sum: &PairSum) -> Vec<Change> {
        self.seconds.push_back((second, sum.clone()));
        if !second.saturating_add(1).is_multiple_of((self.window / STEPS).max(1)) {
            return vec![];
        }
        let start = second.saturating_add(1).saturating_sub(2 * self.window);
        while self.seconds.front().is_some_and(|(at, _)| *at < start) {
            self.seconds.pop_front();
        }
        let middle = second.saturating_add(1).saturating_sub(self.window);
        let figures = [ChangedFigure::RoundTrip, ChangedFigure::Loss];
        let mut found = vec![];
        for (place, figure) in figures.into_iter().enumerate() {
            let before = self.window_of(self.from[place], middle);
            let after = self.window_of(self.from[place].max(middle), u64::MAX);
            let change = match figure {
                ChangedFigure::RoundTrip => self.of_round_trip(&before, &after),
                ChangedFigure::Loss => self.of_loss(&before, &after),
            };
            let change = change
                .map(|(before, after, threshold)| Change {
                    second: middle,
                    figure,
                    before,
                    after,
                    threshold,
                })
                .filter(|change| change.difference() > change.threshold);
            let seen = &mut self.seen[place];
            match (&mut *seen, change) {
                (None, Some(change)) => *seen = Some((second, change)),
                (Some((_, largest)), Some(change))
                    if change.difference() > largest.difference() =>
                {
                    *largest = change;
                }
                _ => {}
            }
            if let Some((_, largest)) =
                seen.take_if(|(first, _)| second >= first.saturating_add(self.window))
            {
                self.from[place] = largest.second;
                found.push(largest);
            }
        }
        found
    }

    fn window_of(&self, from: u64, to: u64) -> PairSum {
        let mut sum = PairSum::default();
        let seconds = self.seconds.iter().filter(|(at, _)| (from..to).contains(at));
        seconds.for_each(|(_, second)| sum.add(second));
        sum
    }

    fn is_covered(&self, sum: &PairSum) -> bool {
        sum.covered_seconds() >= MIN_COVERED * self.window as f64
    }

    /// Both medians, s, and what their difference has to exceed.
    fn of_round_trip(&self, before: &PairSum, after: &PairSum) -> Option<(f64, f64, f64)> {
        let (a, b) = (self.median(before)?, self.median(after)?);
        let noise = a.1.hypot(b.1);
        let relative = a.0 * self.changes.round_trip_percentage / 100.0;
        let threshold = relative.max(self.changes.round_trip_minimum.seconds()).max(noise);
        Some((a.0, b.0, threshold))
    }

    /// The median and the half-width of its interval, s.
    fn median(&self, sum: &PairSum) -> Option<(f64, f64)> {
        let trips = sum.round_trips();
        if !self.is_covered(sum) || trips.count() < MIN_ROUND_TRIPS {
            return None;
        }
        let spread = Z / (2.0 * sum.covered_seconds().max(1.0).sqrt());
        let [low, median, high] = [0.5 - spread, 0.5, 0.5 + spread].map(|quantile| {
            let rank = (quantile.clamp(0.0, 1.0) * trips.count() as f64).ceil() as u64;
            let mut below = 0;
            let cell = trips.cells().find(|(_, _, count)| {
                below += count;
                below >= rank.max(1)
            });
            cell.map(|(_, highest, _)| highest as f64 / 1e9)
        });
        Some((median?, (high? - low?) / 2.0))
    }

    /// Both ratios, and what their difference has to exceed.
    fn of_loss(&self, before: &PairSum, after: &PairSum) -> Option<(f64, f64, f64)> {
        let are_covered = self.is_covered(before) && self.is_covered(after);
        if !are_covered || before.sent() == 0 || after.sent() == 0 {
            return None;
        }
        let (sent_before, sent_after) = (before.sent() as f64, after.sent() as f64);
        let (lost_before, lost_after) = (before.lost() as f64, after.lost() as f64);
        let both = (lost_before + lost_after) / (sent_before + sent_after);
        let noise = Z * (both * (1.0 - both) * (1.0 / sent_before + 1.0 / sent_after)).sqrt();
        let threshold = noise.max(self.changes.loss_percentage / 100.0);
        Some((lost_before / sent_before, lost_after / sent_after, threshold))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sum::tests::second;
    use super::*;

    /// Pseudorandom numbers from 0 to 1 (SplitMix64).
    fn random(state: &mut u64) -> f64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Changes that are found in seconds of ten probes: `path` has the round trip, ns, its range, and the loss of each second.
    fn found(seconds: u64, seed: u64, path: impl Fn(u64) -> (f64, f64, f64)) -> Vec<Change> {
        let mut detector = ChangeDetector::new(Changes::default());
        let mut state = seed;
        let mut found = vec![];
        for at in 0..seconds {
            let (round_trip, range, loss) = path(at);
            let mut trips = vec![];
            for _ in 0..10 {
                if random(&mut state) >= loss {
                    trips.push((round_trip + range * random(&mut state)) as u64);
                }
            }
            found.extend(detector.add(at, &second(10, &trips)));
        }
        found
    }

    #[test]
    fn a_step_of_the_round_trip_is_marked_once() {
        for seed in 0..4 {
            let path = |at| (if at < 300 { 10e6 } else { 13e6 }, 1e6, 0.0);
            let changes = found(700, seed, path);
            let [change] = changes[..] else { panic!("{changes:?}") };
            assert_eq!(change.figure, ChangedFigure::RoundTrip);
            assert!(change.second.abs_diff(300) <= 10, "{change:?}");
            assert!((change.before - 10.5e-3).abs() < 0.5e-3, "{change:?}");
            assert!(change.after > change.before + change.threshold);
        }
    }

    #[test]
    fn a_step_of_the_loss_is_marked_and_so_is_its_end() {
        for seed in 0..4 {
            let path = |at| (10e6, 1e6, if (300..600).contains(&at) { 0.1 } else { 0.0 });
            let changes = found(1000, seed, path);
            assert_eq!(changes.len(), 2, "{changes:?}");
            assert!(changes.iter().all(|change| change.figure == ChangedFigure::Loss));
            assert!(changes[0].second.abs_diff(300) <= 10, "{changes:?}");
            assert!(changes[1].second.abs_diff(600) <= 10, "{changes:?}");
            assert!(changes[0].after > changes[0].before, "{changes:?}");
            assert!(changes[1].after < changes[1].before, "{changes:?}");
        }
    }

    #[test]
    fn noise_is_not_a_change() {
        for seed in 0..4 {
            // Half of the range is five times the threshold.
            let changes = found(2000, seed, |_| (1e6, 20e6, 0.02));
            assert_eq!(changes, []);
        }
    }

    #[test]
    fn less_than_the_threshold_is_not_a_change() {
        let path = |at| (if at < 300 { 10e6 } else { 10.5e6 }, 1e3, 0.0);
        assert_eq!(found(700, 1, path), []);
    }

    #[test]
    fn without_figures_there_is_no_change() {
        let mut detector = ChangeDetector::new(Changes::default());
        let mut found = vec![];
        // Ten seconds, a pause, and another round trip.
        for at in (0..10).chain(500..505) {
            let round_trip = if at < 100 { 1_000_000 } else { 9_000_000 };
            found.extend(detector.add(at, &second(10, &[round_trip; 10])));
        }
        assert_eq!(found, []);
        assert!(detector.seconds.len() <= 15);
    }
}
