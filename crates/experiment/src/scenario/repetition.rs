//! The number of runs of a point: fixed, or in two stages until a precision (`weir_stats::Sample::repetitions_for`).

use weir_model::experiment::{Precision, SweepStep};
use weir_stats::Sample;

use super::judge::Intervals;

/// Default number of runs of the first stage. With 9 degrees of freedom Student's t is 2.26, so that two stages need
/// a third more runs than a known standard deviation would; with 2 degrees nearly five times as many.
const FIRST_STAGE: u32 = 10;

/// The number of runs of each point of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Repetition {
    /// Minimum number of runs of each point; with a precision, those of the first stage.
    pub(super) first: u32,
    /// Most of them.
    pub(super) most: u32,
    /// Requested half-width of the interval relative to the mean, per cent.
    precision: Option<f64>,
    confidence: f64,
}

/// The runs of one point so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    /// How many.
    made: u32,
    /// The first metric of the runs that count.
    values: Vec<f64>,
    needed: RequiredRuns,
}

/// The number of runs that a point needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequiredRuns {
    /// Unknown until the first stage is complete.
    Open,
    /// This many runs with the metric.
    Runs(u64),
    /// No number of runs suffices: the mean of the first stage is 0 or near it.
    Never,
}

impl Repetition {
    pub(super) fn of(sweep: &SweepStep, confidence: f64) -> Self {
        let precision = sweep.precision_percentage;
        let runs = sweep.runs.unwrap_or(1);
        let (first, most) = match (precision, sweep.max_runs) {
            (Some(_), most) => {
                // One run has no standard deviation.
                let most = most.unwrap_or(FIRST_STAGE).max(2);
                let first = sweep.runs.unwrap_or(FIRST_STAGE.min(most)).max(2);
                (first, most.max(first))
            }
            (None, _) => (runs, runs),
        };
        Repetition { first, most, precision, confidence }
    }

    /// How the intervals are computed if this metric decides the number of runs.
    pub(super) fn intervals(&self, metric: &str) -> Intervals {
        let first_stage = self.precision.map(|_| (metric.to_owned(), self.first as usize));
        Intervals { confidence: self.confidence, first_stage }
    }

    /// The number of runs that the first metric's values require.
    fn needed(&self, values: &[f64]) -> RequiredRuns {
        let Some(percentage) = self.precision else { return RequiredRuns::Runs(self.first.into()) };
        let first = values.get(..self.first as usize).and_then(Sample::of);
        let Some(first) = first else { return RequiredRuns::Open };
        let half = percentage / 100.0 * first.mean.abs();
        first.repetitions_for(half, self.confidence).map_or(RequiredRuns::Never, RequiredRuns::Runs)
    }

    /// A point without runs.
    pub(super) fn series(&self) -> Series {
        Series { made: 0, values: vec![], needed: self.needed(&[]) }
    }

    /// Adds a run of a point, with its first metric if it counts. Returns the message to show if it completes the
    /// first stage.
    pub(super) fn ran(&self, series: &mut Series, value: Option<f64>) -> Option<String> {
        series.made += 1;
        series.values.push(value?);
        if series.needed != RequiredRuns::Open {
            return None;
        }
        series.needed = self.needed(&series.values);
        self.stage_words(&series.values)
    }

    /// Whether the point needs no further run.
    pub(super) fn is_over(&self, series: &Series) -> bool {
        let is_precise = match series.needed {
            RequiredRuns::Open | RequiredRuns::Never => false,
            // A run without the metric counts as one of the requested runs, but adds no precision.
            RequiredRuns::Runs(needed) => {
                self.precision.is_none() || series.values.len() as u64 >= needed
            }
        };
        series.made >= self.most || series.made >= self.first && is_precise
    }

    /// The number of runs that the point will have, as far as known.
    pub(super) fn planned(&self, series: &Series) -> u64 {
        let made = u64::from(series.made);
        let needed = match series.needed {
            RequiredRuns::Runs(runs) if self.precision.is_none() => return runs.max(made),
            RequiredRuns::Runs(runs) => runs,
            RequiredRuns::Open => self.first.into(),
            RequiredRuns::Never => u64::MAX,
        };
        let more = needed.saturating_sub(series.values.len() as u64);
        made.saturating_add(more).min(self.most.into())
    }

    /// The message at the end of a point's first stage.
    fn stage_words(&self, values: &[f64]) -> Option<String> {
        let (percentage, first) = (self.precision?, Sample::of(values)?);
        if values.len() != self.first as usize {
            return None;
        }
        // Equal values have no standard deviation, even if the mean is 0.
        let deviation = match first.standard_deviation()? {
            0.0 => 0.0,
            deviation => 100.0 * deviation / first.mean.abs(),
        };
        let most = self.most;
        Some(match self.needed(values) {
            RequiredRuns::Runs(runs) => {
                let cap = match runs > u64::from(most) {
                    true => format!("; at most {most} are made, so that it will not be reached"),
                    false => String::new(),
                };
                format!(
                    "the standard deviation of the first {} runs is {deviation:.2} %: ± {percentage} % needs {runs} runs{cap}",
                    self.first
                )
            }
            _ => format!(
                "± {percentage} % of a mean of {} can't be reached by any number of runs",
                first.mean
            ),
        })
    }

    /// Whether a point has the runs that its precision needs, or no precision was requested.
    pub(super) fn is_reached(&self, series: &Series) -> bool {
        let count = series.values.len() as u64;
        self.precision.is_none() || matches!(series.needed, RequiredRuns::Runs(n) if count >= n)
    }

    /// The precision reached at a point; absent if none was requested.
    pub(super) fn precision(&self, series: &Series, metric: &str) -> Option<Precision> {
        let asked_ratio = self.precision? / 100.0;
        let count = series.values.len() as u64;
        let needed_count = match series.needed {
            RequiredRuns::Runs(needed) => Some(needed),
            RequiredRuns::Open | RequiredRuns::Never => None,
        };
        Some(Precision {
            metric: metric.to_owned(),
            asked_ratio,
            first_stage_count: self.first.into(),
            needed_count,
            count,
            reached: self.is_reached(series),
        })
    }

    /// The precision reached: at each point the number of runs that it needed, and where it was missed.
    pub(super) fn text(&self, points: &[(String, Series)]) -> Option<String> {
        let percentage = self.precision?;
        let (mut least, mut greatest) = (u64::MAX, 0);
        let mut missed = vec![];
        for (name, series) in points {
            let made = series.values.len() as u64;
            let words = match series.needed {
                RequiredRuns::Runs(needed) => {
                    (least, greatest) = (least.min(needed), greatest.max(needed));
                    if made >= needed {
                        continue;
                    }
                    format!("{needed} runs were needed, {made} gave the figure")
                }
                RequiredRuns::Never => {
                    format!("no number of runs suffices after the first {}", self.first)
                }
                RequiredRuns::Open => {
                    format!("{made} of the {} runs of the first stage gave the figure", self.first)
                }
            };
            missed.push(if name.is_empty() { words } else { format!("{name}: {words}") });
        }
        let how = format!("intervals by the standard deviation of the first {} runs", self.first);
        if missed.is_empty() {
            let runs = match least == greatest {
                true => format!("{least} runs"),
                false => format!("{least} to {greatest} runs"),
            };
            return Some(format!(
                "± {percentage} % of the first runs' mean was reached, which needed {runs} ({how})"
            ));
        }
        let (count, all) = (missed.len(), points.len());
        let at = if all > 1 { format!(" at {count} of {all} points") } else { String::new() };
        let mut list = missed.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
        if count > NAMED {
            list += &format!("; and {} more", count - NAMED);
        }
        Some(format!("± {percentage} % was not reached{at}: {list} ({how})"))
    }
}

/// Maximum number of points named that missed their precision.
const NAMED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn repetition(runs: Option<u32>, most: u32, percentage: f64) -> Repetition {
        let step = SweepStep {
            runs,
            max_runs: Some(most),
            precision_percentage: Some(percentage),
            ..SweepStep::default()
        };
        Repetition::of(&step, 0.95)
    }

    /// A point with these runs, some of which failed.
    fn ran(repetition: &Repetition, values: &[f64], failed: u32) -> Series {
        let mut series = repetition.series();
        for _ in 0..failed {
            assert_eq!(repetition.ran(&mut series, None), None);
        }
        for value in values {
            repetition.ran(&mut series, Some(*value));
        }
        series
    }

    /// Mean 96, standard deviation 1, n = 3: t is 4.303, so that ± 1 % (0.96) needs (4.303 / 0.96)² = 20.09 runs.
    const FIRST: [f64; 3] = [95.0, 96.0, 97.0];

    #[test]
    fn the_first_stage_reports_how_many_runs_are_needed() {
        let of = |percentage| repetition(Some(3), 100, percentage).needed(&FIRST);
        assert_eq!(of(1.0), RequiredRuns::Runs(21));
        assert_eq!(of(2.6), RequiredRuns::Runs(3));
        let repetition = repetition(Some(3), 100, 1.0);
        assert_eq!(repetition.needed(&FIRST[..2]), RequiredRuns::Open);
        let mut series = ran(&repetition, &[], 0);
        assert_eq!(repetition.planned(&series), 3);
        let stage = "the standard deviation of the first 3 runs is 1.04 %: ± 1 % needs 21 runs";
        for (value, words) in FIRST.into_iter().zip([None, None, Some(stage)]) {
            assert_eq!(repetition.ran(&mut series, Some(value)).as_deref(), words);
        }
        // Independent of later values.
        for later in [96.0, 500.0].into_iter().chain([96.0; 16]) {
            assert!(!repetition.is_over(&series));
            assert_eq!(repetition.ran(&mut series, Some(later)), None);
            assert_eq!((series.needed, repetition.planned(&series)), (RequiredRuns::Runs(21), 21));
        }
        assert_eq!(series.made, 21);
        assert!(repetition.is_over(&series));
    }

    #[test]
    fn runs_without_the_figure_are_made_up_for_within_the_cap() {
        let repetition = repetition(Some(3), 10, 2.6);
        let series = ran(&repetition, &FIRST[..2], 1);
        assert!(!repetition.is_over(&series), "one of three failed");
        assert_eq!(repetition.planned(&series), 4);
        assert!(repetition.is_over(&ran(&repetition, &FIRST, 1)));
        let (nine, ten) = (ran(&repetition, &[], 9), ran(&repetition, &[], 10));
        assert!(repetition.is_over(&ten) && !repetition.is_over(&nine));
        assert_eq!(repetition.planned(&ten), 10);
    }

    #[test]
    fn a_number_that_was_given_is_the_number() {
        let step = SweepStep { runs: Some(3), ..SweepStep::default() };
        let repetition = Repetition::of(&step, 0.95);
        let mut series = ran(&repetition, &[], 2);
        assert!(!repetition.is_over(&series));
        assert_eq!(
            (repetition.planned(&series), repetition.ran(&mut series, Some(1.0))),
            (3, None)
        );
        assert!(repetition.is_over(&series));
        assert_eq!(repetition.planned(&series), 3);
        assert_eq!((repetition.intervals("x"), repetition.text(&[])), (0.95.into(), None));
        assert_eq!(Repetition::of(&SweepStep::default(), 0.95).first, 1);
    }

    #[test]
    fn a_first_stage_is_ten_runs_where_none_are_given_and_two_at_least() {
        let of = |runs, most| {
            let r = repetition(runs, most, 1.0);
            (r.first, r.most, r.intervals("x").first_stage.map(|(_, first)| first))
        };
        assert_eq!(of(None, 100), (10, 100, Some(10)));
        assert_eq!(of(None, 5), (5, 5, Some(5)));
        assert_eq!(of(Some(1), 100), (2, 100, Some(2)));
        assert_eq!(of(Some(7), 7), (7, 7, Some(7)));
    }

    /// The same as data.
    #[test]
    fn what_came_of_a_precision_is_reported_in_fields() {
        let short = [&FIRST[..], &[96.0; 7]].concat();
        let whole = [&FIRST[..], &[96.0; 18]].concat();
        let of = |most, values: &[f64]| {
            let repetition = repetition(Some(3), most, 1.0);
            let told = repetition.precision(&ran(&repetition, values, 1), "loss").unwrap();
            assert_eq!((told.metric.as_str(), told.asked_ratio), ("loss", 0.01));
            assert_eq!(told.first_stage_count, 3);
            (told.needed_count, told.count, told.reached)
        };
        assert_eq!(of(100, &whole), (Some(21), 21, true));
        assert_eq!(of(11, &short), (Some(21), 10, false));
        assert_eq!(of(100, &[0.0, 1.0, -1.0]), (None, 3, false), "no number would do");
        assert_eq!(of(100, &FIRST[..2]), (None, 2, false), "the first stage is not whole");
        let given = Repetition::of(&SweepStep { runs: Some(3), ..SweepStep::default() }, 0.95);
        assert_eq!(given.precision(&ran(&given, &FIRST, 0), "loss"), None);
    }

    #[test]
    fn words_say_how_many_were_needed_and_what_was_not_reached() {
        let words = |most, points: &[(&str, &[f64])]| {
            let of = repetition(Some(3), most, 1.0);
            let points: Vec<_> =
                points.iter().map(|(n, v)| ((*n).to_owned(), ran(&of, v, 0))).collect();
            of.text(&points).unwrap()
        };
        assert_eq!(
            words(21, &[("", &[&FIRST[..], &[96.0; 18]].concat())]),
            "± 1 % of the first runs' mean was reached, which needed 21 runs (intervals by the standard deviation of the first 3 runs)"
        );
        assert_eq!(
            repetition(Some(3), 10, 1.0).stage_words(&FIRST).unwrap(),
            "the standard deviation of the first 3 runs is 1.04 %: ± 1 % needs 21 runs; at most 10 are made, so that it will not be reached"
        );
        assert_eq!(
            repetition(Some(3), 10, 1.0).stage_words(&[0.0; 3]).unwrap(),
            "the standard deviation of the first 3 runs is 0.00 %: ± 1 % needs 3 runs"
        );
        let short = [&FIRST[..], &[96.0; 7]].concat();
        assert_eq!(
            words(10, &[("", &short)]),
            "± 1 % was not reached: 21 runs were needed, 10 gave the figure \
             (intervals by the standard deviation of the first 3 runs)"
        );
        let points: [(&str, &[f64]); 4] = [
            ("size=1", &short),
            ("size=2", &[0.0, 1.0, -1.0]),
            ("size=3", &[5.0; 3]),
            ("size=4", &[5.0]),
        ];
        assert_eq!(
            words(10, &points),
            "± 1 % was not reached at 3 of 4 points: size=1: 21 runs were needed, 10 gave the figure; \
             size=2: no number of runs suffices after the first 3; size=4: 1 of the 3 runs of the first stage gave the figure \
             (intervals by the standard deviation of the first 3 runs)"
        );
    }
}
