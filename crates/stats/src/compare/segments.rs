//! Two straight lines that meet: received against offered rate, below and above a limit.

/// A line through the origin up to a breakpoint, another one from there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoSegments {
    /// Where the lines meet.
    pub breakpoint: f64,
    /// Slope up to the breakpoint: received ÷ offered without a limit.
    pub slope_before: f64,
    /// Slope beyond the breakpoint: 0 for a plateau, negative where the received rate falls.
    pub slope_after: f64,
    /// Root mean square of the residuals.
    pub residual: f64,
}

impl TwoSegments {
    /// Received rate at `offered` by the lines.
    pub(crate) fn at(&self, offered: f64) -> f64 {
        self.slope_before * offered.min(self.breakpoint)
            + self.slope_after * (offered - self.breakpoint).max(0.0)
    }
}

/// One abscissa: offered, mean received, number of repetitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) offered: f64,
    pub(super) received: f64,
    pub(super) weight: f64,
}

/// The least-squares fit to groups in rising order of (positive, distinct) `offered`; absent below three.
///
/// For a given split of the groups the best lines are known in closed form, and the best breakpoint is where they meet if
/// that is between the two groups, else at one of them (D. J. Hudson, Fitting segmented curves whose join points have
/// to be estimated, JASA 61, 1966). One or two groups beyond the breakpoint do not determine both the start
/// and the slope of the second line: it is then a plateau.
pub(super) fn fit(groups: &[Group]) -> Option<TwoSegments> {
    if groups.len() < 3 {
        return None;
    }
    let mut best: Option<(f64, TwoSegments)> = None;
    let mut consider = |candidate: TwoSegments| {
        let squares: f64 =
            groups.iter().map(|g| g.weight * (g.received - candidate.at(g.offered)).powi(2)).sum();
        let sound = squares.is_finite() && candidate.slope_before.is_finite();
        // Of equally good fits the first one stays.
        if sound && best.is_none_or(|(least, _)| squares < least) {
            best = Some((squares, candidate));
        }
    };
    for split in 1..groups.len() {
        let (left, right) = groups.split_at(split);
        let (last, next) = (left[split - 1].offered, right[0].offered);
        let slope_before = through_origin(left);
        let (start, slope_after) = if right.len() > 2 { line(right) } else { (mean(right), 0.0) };
        let meeting = start / (slope_before - slope_after);
        let lines = |breakpoint, slope_before, slope_after| TwoSegments {
            breakpoint,
            slope_before,
            slope_after,
            residual: 0.0,
        };
        if slope_before > slope_after && (last..=next).contains(&meeting) {
            consider(lines(meeting, slope_before, slope_after));
        }
        // Both lines fitted together, with the breakpoint on a group.
        if right.len() > 1 {
            let (before, after) = joined(groups, last);
            consider(lines(last, before, after));
        }
    }
    let (squares, lines) = best?;
    let weight: f64 = groups.iter().map(|g| g.weight).sum();
    Some(TwoSegments { residual: (squares / weight).sqrt(), ..lines })
}

/// Slope of the best line through the origin.
fn through_origin(groups: &[Group]) -> f64 {
    let (mut xy, mut xx) = (0.0, 0.0);
    for g in groups {
        xy += g.weight * g.offered * g.received;
        xx += g.weight * g.offered * g.offered;
    }
    xy / xx
}

/// Mean received rate.
fn mean(groups: &[Group]) -> f64 {
    let weight: f64 = groups.iter().map(|g| g.weight).sum();
    groups.iter().map(|g| g.weight * g.received).sum::<f64>() / weight
}

/// Start and slope of the best line.
fn line(groups: &[Group]) -> (f64, f64) {
    let weight: f64 = groups.iter().map(|g| g.weight).sum();
    let x = groups.iter().map(|g| g.weight * g.offered).sum::<f64>() / weight;
    let y = mean(groups);
    let (mut xy, mut xx) = (0.0, 0.0);
    for g in groups {
        xy += g.weight * (g.offered - x) * (g.received - y);
        xx += g.weight * (g.offered - x) * (g.offered - x);
    }
    (y - xy / xx * x, xy / xx)
}

/// Slopes of the best pair of lines that meet at `breakpoint`, which lies on a group other than the last.
fn joined(groups: &[Group], breakpoint: f64) -> (f64, f64) {
    let (mut uu, mut uv, mut vv, mut uy, mut vy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for g in groups {
        let (u, v) = (g.offered.min(breakpoint), (g.offered - breakpoint).max(0.0));
        uu += g.weight * u * u;
        uv += g.weight * u * v;
        vv += g.weight * v * v;
        uy += g.weight * u * g.received;
        vy += g.weight * v * g.received;
    }
    let determinant = uu * vv - uv * uv;
    ((uy * vv - vy * uv) / determinant, (vy * uu - uy * uv) / determinant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups(truth: &TwoSegments, offered: &[f64]) -> Vec<Group> {
        let group =
            |offered: &f64| Group { offered: *offered, received: truth.at(*offered), weight: 3.0 };
        offered.iter().map(group).collect()
    }

    proptest! {
        #[test]
        fn lines_without_noise_are_found(
            breakpoint in 2.5..7.5f64, slope_before in 0.5..1.0f64, slope_after in -0.5..0.3f64,
        ) {
            let truth = TwoSegments { breakpoint, slope_before, slope_after, residual: 0.0 };
            let offered: Vec<f64> = (1..=10).map(f64::from).collect();
            let found = fit(&groups(&truth, &offered)).unwrap();
            prop_assert!((found.breakpoint - breakpoint).abs() < 1e-6, "{:?}", found);
            prop_assert!((found.slope_before - slope_before).abs() < 1e-6);
            prop_assert!((found.slope_after - slope_after).abs() < 1e-6 && found.residual < 1e-6);
        }

        /// No other breakpoint on a fine grid, with its best slopes, does better.
        #[test]
        fn nothing_fits_better(received in prop::collection::vec(0.1..10.0f64, 4..9)) {
            let groups: Vec<Group> = received.iter().enumerate()
                .map(|(i, y)| Group { offered: i as f64 + 1.0, received: *y, weight: 1.0 }).collect();
            let squares = |lines: &TwoSegments| -> f64 {
                groups.iter().map(|g| (g.received - lines.at(g.offered)).powi(2)).sum()
            };
            let found = fit(&groups).unwrap();
            // With fewer than two groups beyond it only the plateau is asked for.
            let end = (groups.len() - 2) as f64;
            for step in 0..200 {
                let breakpoint = 1.0 + (end - 1.0) * f64::from(step) / 200.0;
                let (slope_before, slope_after) = joined(&groups, breakpoint);
                let other = TwoSegments { breakpoint, slope_before, slope_after, residual: 0.0 };
                // A second line that rises more steeply than the first is no limit.
                if slope_after <= slope_before {
                    prop_assert!(squares(&found) <= squares(&other) + 1e-9, "{:?} {:?}", found, other);
                }
            }
        }
    }

    #[test]
    fn one_or_two_groups_beyond_are_a_plateau() {
        let truth =
            TwoSegments { breakpoint: 3.5, slope_before: 1.0, slope_after: 0.0, residual: 0.0 };
        let found = fit(&groups(&truth, &[1.0, 2.0, 3.0, 4.0])).unwrap();
        assert!((found.breakpoint - 3.5).abs() < 1e-9 && found.slope_after == 0.0, "{found:?}");
        let two = fit(&groups(&truth, &[1.0, 2.0, 3.0, 4.0, 5.0])).unwrap();
        assert!((two.breakpoint - 3.5).abs() < 1e-9 && two.slope_after == 0.0, "{two:?}");
        assert_eq!(fit(&groups(&truth, &[1.0, 2.0])), None);
    }
}
