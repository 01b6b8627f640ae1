//! The saturation point: the highest sent rate of which 99 % is received, from repeated rates on both sides of it.
//!
//! Rates are compared: sent, and received between first and last arrival. Packets that are still queued when the
//! sender stops arrive later and are not lost, but the path did not carry them in time.

use weir_model::counted;
use weir_stats::compare::{LoadPoint, SaturationPoint, SplitMix64, saturation};

use super::*;

/// Ratio of the sent rate that must be received.
const THRESHOLD: f64 = 0.99;
/// Number of rates across the saturation point.
const LADDER: u32 = 11;
/// Samples of the bootstrap.
const RESAMPLES: u32 = 1000;

/// Rates near the fitted point: their distance from it, in units of the precision.
const NEAR: [f64; 4] = [-3.0, -1.0, 1.0, 3.0];

/// The number of trials if none is repeated: doubled rates, one of them host-limited, then repeated ones.
pub(super) fn most_trials(terms: &Terms) -> f64 {
    let doubled = (terms.high / terms.low).log2().ceil() + 1.0;
    doubled + f64::from(LADDER + NEAR.len() as u32) * f64::from(terms.runs.max(1))
}

/// All trials of a rate.
struct Level {
    asked: f64,
    trials: Vec<Trial>,
}

impl Level {
    fn mean(&self, of: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.trials.iter().map(of).collect();
        values.filter(|v| !v.is_empty()).map(|v| v.iter().sum::<f64>() / v.len() as f64)
    }
}

fn is_saturated(trial: &Trial) -> bool {
    trial.received_share().is_none_or(|share| share < THRESHOLD)
}

/// Whether less was received perhaps because of the tool or the host: such a trial says nothing about the path.
fn is_unusable(trial: &Trial) -> bool {
    trial.host_limited && is_saturated(trial)
}

impl<E> Searching<'_, E> {
    /// Rates doubling from the minimum until one saturates, then evenly spaced rates across that point, then rates
    /// near the fitted point, each repeated.
    pub(super) fn saturation(&mut self) -> Result<Vec<Found>, E> {
        let terms = self.terms;
        let mut levels: Vec<Level> = vec![];
        let mut rate = terms.low;
        let mut passed: Option<f64> = None;
        let mut was_unusable = false;
        self.reserved = LADDER;
        let saturated = loop {
            let trial = self.measure(rate, None, is_saturated)?;
            let is_full = is_saturated(&trial);
            let is_short = !trial.is_offered(self.ask(rate, None));
            let is_unusable = is_unusable(&trial);
            levels.push(Level { asked: rate, trials: vec![trial] });
            // A host that was busy for a moment does not end the search; the second such rate does.
            let is_skipped = is_unusable && !was_unusable && rate < terms.high && !self.is_over();
            was_unusable = is_unusable;
            if is_full && !is_skipped {
                break Some(rate);
            }
            if is_skipped {
                rate = (rate * 2.0).min(terms.high);
                continue;
            }
            passed = levels.last().and_then(|l| l.mean(|t| t.sent_rate));
            if is_short || rate >= terms.high || self.is_over() {
                break None;
            }
            rate = (rate * 2.0).min(terms.high);
        };
        let point = match (saturated, passed) {
            (Some(_), None) => {
                let found = self.found(Found::SATURATION_POINT, None, terms.unit, "");
                let bounds = Some(Bounds { low: None, high: Some(terms.low) });
                let why = "less than 99 % is received even at the minimum rate";
                self.leave_open(Found::SATURATION_POINT, why);
                Found { bounds, text: why.into(), ..found }
            }
            (Some(rate), Some(_)) => self.across(rate, &mut levels)?,
            (None, _) => self.not_saturated(passed),
        };
        Ok(vec![point])
    }

    /// The point from rates around one that saturates, while half of it does not.
    fn across(&mut self, rate: f64, levels: &mut Vec<Level>) -> Result<Found, E> {
        let terms = self.terms;
        let (low, high) = ((rate / 4.0).max(terms.low), (rate * 1.25).min(terms.high));
        let step = (high - low) / f64::from(LADDER - 1);
        let whole = |rate: f64| rate.round().clamp(terms.low, terms.high);
        let ladder: Vec<f64> = (0..LADDER).map(|i| whole(low + f64::from(i) * step)).collect();
        self.levels(&ladder, levels)?;
        self.reserved = 0;
        if let Some(SaturationPoint::At(point)) = self.fit(levels).map(|s| s.point) {
            let near = NEAR.map(|n| point * (1.0 + n * terms.precision));
            let near = near.into_iter().filter(|r| (terms.low..=terms.high).contains(r));
            let near: Vec<f64> = near.map(whole).collect();
            self.levels(&near, levels)?;
        }
        let name = Found::SATURATION_POINT;
        let mut found = self.found(name, None, terms.unit, "");
        let (mut said, mut open) = (vec![], vec![]);
        if let Some(fitted) = self.fit(levels) {
            found.bounds =
                Some(Bounds { low: fitted.highest_passing, high: fitted.lowest_failing });
            match fitted.point {
                SaturationPoint::At(point) => {
                    found.value = Some(point);
                    let line = fitted.fit.slope_after;
                    said.push(format!(
                        "two lines fitted: above it {:+.3} of each further unit sent is received; residual {}",
                        if line.abs() < 0.0005 { 0.0 } else { line },
                        shown(fitted.fit.residual, terms.unit)
                    ));
                }
                SaturationPoint::Above(rate) => {
                    open.push(format!("above {}, the maximum rate sent", shown(rate, terms.unit)))
                }
                SaturationPoint::Below(rate) => {
                    open.push(format!("below {}, the minimum rate sent", shown(rate, terms.unit)))
                }
            }
            match fitted.interval {
                Some((low, high)) if low > 0.0 && high.is_finite() => {
                    let confidence_ratio = terms.confidence;
                    found.interval =
                        Some(Confidence { low, high, confidence_ratio, ..Confidence::default() });
                }
                Some(_) => open.push("its interval extends beyond the rates that were sent".into()),
                None => said.push("no interval from one run at each rate".to_owned()),
            }
        } else {
            open.push("too few rates were received to fit lines".into());
        }
        let left_out = levels.iter().flat_map(|l| &l.trials).filter(|t| is_unusable(t)).count();
        if left_out > 0 {
            let why = format!(
                "{} left out, in which the tool or the host was the limit while less was received",
                counted(left_out as u64, "trial")
            );
            // What remains may not show the point.
            found.host_limited = !open.is_empty();
            if found.host_limited {
                open.push(why);
            } else {
                said.push(why);
            }
        }
        if self.is_over() {
            said.push(format!("ended after {} trials", terms.max_trials));
        }
        for why in &open {
            self.leave_open(name, why);
        }
        said.extend(open);
        found.text = said.join("; ");
        Ok(found)
    }

    /// Measures rates in rounds: every rate once per round.
    fn levels(&mut self, rates: &[f64], levels: &mut Vec<Level>) -> Result<(), E> {
        for round in 0..self.terms.runs.max(1) {
            for (at, rate) in rates.iter().enumerate() {
                if self.is_over() {
                    return Ok(());
                }
                // Every rate is measured once before trials are repeated.
                self.reserved = if round == 0 { (rates.len() - 1 - at) as u32 } else { 0 };
                let trial = self.measure(*rate, None, is_saturated)?;
                match levels.iter_mut().find(|l| l.asked == *rate) {
                    Some(level) => level.trials.push(trial),
                    None => levels.push(Level { asked: *rate, trials: vec![trial] }),
                }
            }
        }
        Ok(())
    }

    fn fit(&self, levels: &[Level]) -> Option<weir_stats::compare::Saturation> {
        // A rate without a usable trial, or without a sent or received rate in one, is skipped.
        let points = levels.iter().filter_map(|level| {
            let usable = Level {
                asked: level.asked,
                trials: level.trials.iter().filter(|t| !is_unusable(t)).cloned().collect(),
            };
            let received: Option<Vec<f64>> =
                usable.trials.iter().map(|t| t.received_rate).collect();
            Some(LoadPoint { offered: usable.mean(|t| t.sent_rate)?, received: received? })
        });
        let points: Vec<LoadPoint> = points.collect();
        let mut random = SplitMix64::new(self.terms.seed);
        saturation(&points, THRESHOLD, self.terms.confidence, RESAMPLES, &mut random)
    }

    /// No rate saturated: reports the maximum that was requested, or that the sender reached.
    fn not_saturated(&mut self, passed: Option<f64>) -> Found {
        let why = match (self.is_over(), self.limit) {
            (true, _) => "trials ran out".into(),
            (false, Some(limit)) => format!(
                "the sender reached {}, all of which was received: the path may carry more",
                shown(limit, self.terms.unit)
            ),
            (false, None) => "the maximum rate was received completely".to_owned(),
        };
        self.leave_open(Found::SATURATION_POINT, &why);
        let found = self.found(Found::SATURATION_POINT, None, self.terms.unit, &why);
        Found { bounds: Some(Bounds { low: passed, high: None }), ..found }
    }
}

#[cfg(test)]
mod tests {
    use super::super::virtual_path::{path, terms, weak};
    use super::*;

    fn of(runs: u32) -> Terms {
        Terms { runs, precision: 0.02, ..terms(SearchKind::Saturation) }
    }

    /// 1 % is not received at 303 030.
    #[test]
    fn the_point_is_where_the_fitted_lines_fall_below_the_threshold() {
        let searched = search(&of(3), &mut path(300_000.0)).unwrap();
        let point = &searched.found[0];
        let value = point.value.unwrap();
        assert!((value - 303_030.3).abs() < 1.0, "{value}");
        let (interval, bounds) = (point.interval.unwrap(), point.bounds.unwrap());
        assert!(interval.low <= value && value <= interval.high);
        assert_eq!(interval.confidence_ratio, 0.95);
        let (low, high) = (bounds.low.unwrap(), bounds.high.unwrap());
        assert!(low < value && value < high && high - low < 0.05 * value, "{bounds:?}");
        assert!(searched.open.is_empty(), "{:?}", searched.open);
        assert_eq!(searched.found.len(), 1);
    }

    /// Packets queued at the end arrive, so that little is lost above the capacity.
    #[test]
    fn what_a_queue_holds_at_the_end_was_not_carried() {
        let (capacity, queue) = (230.0, 60.0);
        let mut queued = |ask: TrialRequest| {
            let sent = ask.rate * ask.seconds;
            let lost = (sent - capacity * ask.seconds - queue).max(0.0);
            Ok::<_, ()>(Trial {
                sent: sent as u64,
                lost: lost as u64,
                sent_rate: Some(ask.rate),
                received_rate: Some(ask.rate.min(capacity)),
                ..Trial::default()
            })
        };
        let terms = Terms { low: 100.0, high: 1000.0, ..of(2) };
        let searched = search(&terms, &mut queued).unwrap();
        let value = searched.found[0].value.unwrap();
        assert!((value - capacity / 0.99).abs() < 0.1, "{value}: by loss it would be 293");
    }

    #[test]
    fn repetitions_that_differ_make_an_interval_about_the_truth() {
        let mut random = SplitMix64::new(5);
        let mut inner = path(300_000.0);
        let mut noisy = |ask: TrialRequest| {
            let mut trial = inner(ask)?;
            trial.received_rate = trial
                .received_rate
                .map(|r| r * (1.0 - 0.01 * random.unit() * f64::from(ask.rate > 3e5)));
            Ok::<_, ()>(trial)
        };
        let searched = search(&of(5), &mut noisy).unwrap();
        let interval = searched.found[0].interval.unwrap();
        assert!(interval.low < interval.high && interval.high - interval.low < 10_000.0);
        assert!((interval.low..=interval.high).contains(&searched.found[0].value.unwrap()));
    }

    #[test]
    fn a_sender_that_falls_short_first_has_no_saturation_point() {
        let searched = search(&of(3), &mut weak(300_000.0)).unwrap();
        let point = &searched.found[0];
        assert_eq!((point.value, point.bounds.unwrap().low), (None, Some(300_000.0)));
        let [open] = &searched.open[..] else { panic!("{:?}", searched.open) };
        assert!(open.starts_with("saturation point: "), "{open}");
    }

    #[test]
    fn a_path_without_end_or_with_none_has_no_point() {
        for capacity in [2e6, 10.0] {
            let searched = search(&of(2), &mut path(capacity)).unwrap();
            assert_eq!((searched.found[0].value, searched.open.len()), (None, 1));
        }
    }

    /// A busy host beyond the point hides it.
    #[test]
    fn disturbance_beyond_the_point_leaves_it_open() {
        let mut inner = path(300_000.0);
        let mut busy = |ask: TrialRequest| {
            let trial = inner(ask)?;
            Ok::<_, ()>(Trial { host_limited: ask.rate > 300_000.0, ..trial })
        };
        let searched = search(&of(2), &mut busy).unwrap();
        assert!(searched.found[0].host_limited && searched.found[0].value.is_none());
        assert!(!searched.open.is_empty());
    }

    /// Trials that stay host-limited are left out: those of one rate, of every seventh trial, and of a rate below the point.
    #[test]
    fn a_host_that_was_busy_for_a_while_does_not_spoil_the_search() {
        type Busy = fn(TrialRequest) -> bool;
        let cases: [Busy; 3] = [
            |ask| (350_000.0..400_000.0).contains(&ask.rate),
            |ask| ask.number % 7 == 0,
            |ask| ask.rate == 8000.0,
        ];
        for busy in cases {
            let mut inner = path(300_000.0);
            let mut worse = |ask: TrialRequest| {
                let mut trial = inner(ask)?;
                if busy(ask) {
                    trial.host_limited = true;
                    trial.received_rate = trial.received_rate.map(|rate| rate / 2.0);
                }
                Ok::<_, ()>(trial)
            };
            let searched = search(&of(2), &mut worse).unwrap();
            let value = searched.found[0].value.unwrap();
            assert!((value - 303_030.3).abs() < 1.0, "{value}");
            assert!(searched.open.is_empty(), "{:?}", searched.open);
            assert!(!searched.found[0].host_limited);
        }
    }

    /// Repetitions do not take the trials that the rates across the point need.
    #[test]
    fn a_search_of_few_trials_measures_every_rate() {
        for (most, is_busy) in [(30, false), (30, true), (25, true)] {
            let (mut inner, mut made) = (path(300_000.0), 0);
            let mut counting = |ask: TrialRequest| {
                made += 1;
                let trial = inner(ask)?;
                let host_limited = is_busy && ask.number.is_multiple_of(3) && ask.rate > 320_000.0;
                Ok::<_, ()>(Trial { host_limited, ..trial })
            };
            let terms = Terms { max_trials: most, ..of(3) };
            let searched = search(&terms, &mut counting).unwrap();
            assert!(searched.found[0].value.is_some(), "{most}: {:?}", searched.open);
            assert!(made <= most && made == terms.most_trials(), "{made} of {most}");
        }
    }
}
