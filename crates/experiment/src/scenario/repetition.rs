//! How often a point runs: so often as was asked for, or in two stages until a precision (`weir_stats::Sample::repetitions_for`).

use weir_model::experiment::SweepStep;
use weir_stats::Sample;

use super::judge::Intervals;

/// Runs of the first stage where none were asked for: Student's t with 9 degrees of freedom is 2.26, so that a second stage
/// makes a third more runs than one of a deviation known beforehand would need; with 2 degrees it would be nearly five times
/// as many.
const FIRST_STAGE: u32 = 10;

/// How often each point of a sweep runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Repetition {
    /// Runs of each point in any case: with a precision those of the first stage.
    pub(super) first: u32,
    /// Most of them.
    pub(super) most: u32,
    /// Half the interval against the mean that is asked for, per cent.
    precision: Option<f64>,
    confidence: f64,
}

/// How many runs a point needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    /// Not known before the first stage has given all of its figures.
    Open,
    /// So many with the figure.
    Runs(u64),
    /// No number would do: the first stage's mean is 0.
    Never,
}

impl Repetition {
    pub(super) fn of(sweep: &SweepStep, confidence: f64) -> Self {
        let precision = sweep.precision_percentage;
        let runs = sweep.runs.unwrap_or(1);
        let (first, most) = match (precision, sweep.most_runs) {
            (Some(_), most) => {
                // Of one run there is no deviation.
                let most = most.unwrap_or(FIRST_STAGE).max(2);
                let first = sweep.runs.unwrap_or(FIRST_STAGE.min(most)).max(2);
                (first, most.max(first))
            }
            (None, _) => (runs, runs),
        };
        Repetition { first, most, precision, confidence }
    }

    /// How the intervals of what comes of it are made.
    pub(super) fn intervals(&self) -> Intervals {
        let first_stage = self.precision.map(|_| self.first as usize);
        Intervals { confidence: self.confidence, first_stage }
    }

    /// What the first metric of a point's runs says of how many are needed.
    pub(super) fn needed(&self, values: &[f64]) -> Needed {
        let Some(percentage) = self.precision else { return Needed::Runs(self.first.into()) };
        let first = values.get(..self.first as usize).and_then(Sample::of);
        let Some(first) = first else { return Needed::Open };
        let half = percentage / 100.0 * first.mean.abs();
        first.repetitions_for(half, self.confidence).map_or(Needed::Never, Needed::Runs)
    }

    /// Whether a point is not run again, which has been so often and gave these values.
    pub(super) fn is_over(&self, made: u32, values: &[f64]) -> bool {
        let is_precise = match self.needed(values) {
            Needed::Open | Needed::Never => false,
            // A run without the figure counts among those that were asked for, not among those that make it precise.
            Needed::Runs(needed) => self.precision.is_none() || values.len() as u64 >= needed,
        };
        made >= self.most || made >= self.first && is_precise
    }

    /// How often a point will have run at the end, as far as its runs tell.
    pub(super) fn planned(&self, made: u32, values: &[f64]) -> u64 {
        let needed = match (self.needed(values), self.precision) {
            (Needed::Runs(runs), None) => return runs.max(made.into()),
            (Needed::Runs(runs), _) => runs,
            (Needed::Open, _) => self.first.into(),
            (Needed::Never, _) => u64::MAX,
        };
        let more = needed.saturating_sub(values.len() as u64);
        u64::from(made).saturating_add(more).min(self.most.into())
    }

    /// What is to be said when a point's first stage has just ended.
    pub(super) fn stage_words(&self, values: &[f64]) -> Option<String> {
        let (percentage, first) = (self.precision?, Sample::of(values)?);
        if values.len() != self.first as usize {
            return None;
        }
        let deviation = 100.0 * first.standard_deviation()? / first.mean.abs();
        let most = self.most;
        Some(match self.needed(values) {
            Needed::Runs(runs) => {
                let cap = match runs > u64::from(most) {
                    true => format!("; {most} are made at most, so that it will not be reached"),
                    false => String::new(),
                };
                format!(
                    "the first {} runs deviate by {deviation:.2} %: ± {percentage} % needs {runs} runs{cap}",
                    self.first
                )
            }
            _ => format!("± {percentage} % of a mean of 0 can't be reached by any number of runs"),
        })
    }

    /// What came of the precision: at each point with its name, how many runs it needed, and where they were not reached.
    pub(super) fn words(&self, points: &[(String, Vec<f64>)]) -> Option<String> {
        let percentage = self.precision?;
        let (mut least, mut greatest) = (u64::MAX, 0);
        let mut missed = vec![];
        for (name, values) in points {
            let made = values.len() as u64;
            let words = match self.needed(values) {
                Needed::Runs(needed) => {
                    (least, greatest) = (least.min(needed), greatest.max(needed));
                    if made >= needed {
                        continue;
                    }
                    format!("{needed} runs were needed, {made} gave the figure")
                }
                Needed::Never => format!("the mean of the first {} runs is 0", self.first),
                Needed::Open => {
                    format!("{made} of the {} runs of the first stage gave the figure", self.first)
                }
            };
            missed.push(if name.is_empty() { words } else { format!("{name}: {words}") });
        }
        let how = format!("intervals by the deviation of the first {} runs", self.first);
        if missed.is_empty() {
            let runs = match least == greatest {
                true => format!("{least} runs"),
                false => format!("{least} to {greatest} runs"),
            };
            return Some(format!("± {percentage} % was reached, which needed {runs} ({how})"));
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

/// So many points that missed their precision are named.
const NAMED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn repetition(runs: Option<u32>, most: u32, percentage: f64) -> Repetition {
        let step = SweepStep {
            runs,
            most_runs: Some(most),
            precision_percentage: Some(percentage),
            ..SweepStep::default()
        };
        Repetition::of(&step, 0.95)
    }

    /// Mean 96, deviation 1, n = 3: t is 4.303, so that ± 1 % (0.96) needs (4.303 / 0.96)² = 20.09 runs.
    const FIRST: [f64; 3] = [95.0, 96.0, 97.0];

    #[test]
    fn the_first_stage_tells_how_many_runs_are_needed() {
        let of = |percentage| repetition(Some(3), 100, percentage).needed(&FIRST);
        assert_eq!(of(1.0), Needed::Runs(21));
        assert_eq!(of(2.6), Needed::Runs(3));
        let repetition = repetition(Some(3), 100, 1.0);
        assert_eq!(repetition.needed(&FIRST[..2]), Needed::Open);
        assert_eq!((repetition.planned(0, &[]), repetition.planned(3, &FIRST)), (3, 21));
        // Whatever the later ones are, and however often it is asked.
        let mut values = FIRST.to_vec();
        for later in [96.0, 500.0, 96.0] {
            values.push(later);
            assert_eq!(repetition.needed(&values), Needed::Runs(21));
            assert!(!repetition.is_over(values.len() as u32, &values));
        }
        values.resize(21, 96.0);
        assert!(repetition.is_over(21, &values) && !repetition.is_over(20, &values[..20]));
    }

    #[test]
    fn runs_without_the_figure_are_made_up_for_within_the_cap() {
        let repetition = repetition(Some(3), 10, 2.6);
        assert!(!repetition.is_over(3, &FIRST[..2]), "one of three failed");
        assert_eq!(repetition.planned(3, &FIRST[..2]), 4);
        assert!(repetition.is_over(4, &FIRST));
        assert!(repetition.is_over(10, &[]) && !repetition.is_over(9, &[]));
        assert_eq!(repetition.planned(10, &[]), 10);
    }

    #[test]
    fn a_number_that_was_given_is_the_number() {
        let step = SweepStep { runs: Some(3), ..SweepStep::default() };
        let repetition = Repetition::of(&step, 0.95);
        assert!(!repetition.is_over(2, &FIRST[..2]) && repetition.is_over(3, &[]));
        assert_eq!((repetition.planned(0, &[]), repetition.planned(3, &[])), (3, 3));
        assert_eq!(repetition.intervals(), 0.95.into());
        assert_eq!((repetition.words(&[]), repetition.stage_words(&FIRST)), (None, None));
        assert_eq!(Repetition::of(&SweepStep::default(), 0.95).first, 1);
    }

    #[test]
    fn a_first_stage_is_ten_runs_where_none_are_given_and_two_at_least() {
        let of = |runs, most| {
            let r = repetition(runs, most, 1.0);
            (r.first, r.most, r.intervals().first_stage)
        };
        assert_eq!(of(None, 100), (10, 100, Some(10)));
        assert_eq!(of(None, 5), (5, 5, Some(5)));
        assert_eq!(of(Some(1), 100), (2, 100, Some(2)));
        assert_eq!(of(Some(7), 7), (7, 7, Some(7)));
    }

    #[test]
    fn words_say_how_many_were_needed_and_what_was_not_reached() {
        let of = repetition(Some(3), 21, 1.0);
        let stage = "the first 3 runs deviate by 1.04 %: ± 1 % needs 21 runs";
        assert_eq!(of.stage_words(&FIRST).as_deref(), Some(stage));
        assert_eq!(of.stage_words(&FIRST[..2]), None);
        let values = [&FIRST[..], &[96.0; 18]].concat();
        assert_eq!(
            of.words(&[(String::new(), values)]).unwrap(),
            "± 1 % was reached, which needed 21 runs (intervals by the deviation of the first 3 runs)"
        );
        let of = repetition(Some(3), 10, 1.0);
        assert_eq!(
            of.stage_words(&FIRST).unwrap(),
            format!("{stage}; 10 are made at most, so that it will not be reached")
        );
        let short = [&FIRST[..], &[96.0; 7]].concat();
        assert_eq!(
            of.words(&[(String::new(), short.clone())]).unwrap(),
            "± 1 % was not reached: 21 runs were needed, 10 gave the figure \
             (intervals by the deviation of the first 3 runs)"
        );
        let points = [
            ("size=1".to_owned(), short),
            ("size=2".to_owned(), vec![0.0, 1.0, -1.0]),
            ("size=3".to_owned(), vec![5.0; 3]),
            ("size=4".to_owned(), vec![5.0]),
        ];
        assert_eq!(
            of.words(&points).unwrap(),
            "± 1 % was not reached at 3 of 4 points: size=1: 21 runs were needed, 10 gave the figure; \
             size=2: the mean of the first 3 runs is 0; size=4: 1 of the 3 runs of the first stage gave the figure \
             (intervals by the deviation of the first 3 runs)"
        );
    }
}
