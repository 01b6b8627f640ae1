//! A sweep: points in shuffled blocks, disturbed runs again, repetition until it is precise.

use super::runs::by_point;
use super::*;

impl<'d> Inner<'d, '_, '_> {
    pub(super) fn sweep(
        &self,
        sweep: &SweepStep,
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        let doing = self.doing;
        let options = doing.options;
        let axes = check_axes(&sweep.over, self.name)?;
        let all = points(&axes);
        let metrics = self.metrics(&sweep.metrics)?;
        let (runs, most) = (sweep.runs.unwrap_or(1), sweep.most_runs.or(sweep.runs).unwrap_or(1));
        let most = most.max(runs);
        let of = all.len() as u64 * u64::from(runs);
        let (mut done, mut fresh, begun) = (0u64, 0u32, Instant::now());
        // The first metric at each point, of the runs that count.
        let first = metrics.first().map(ToString::to_string).unwrap_or_default();
        let mut firsts: Vec<Vec<f64>> = vec![vec![]; all.len()];
        'all: for repetition in 1..=most {
            let order = match sweep.in_order {
                true => (0..all.len()).collect(),
                false => block(all.len(), options.seed.0, repetition),
            };
            for i in order {
                if doing.is_stopped() || self.until.is_some_and(|u| Instant::now() >= u) {
                    break 'all;
                }
                if repetition > runs && is_precise(sweep, &firsts[i], self.doing.confidence()) {
                    continue;
                }
                let at: At = [self.around.at.clone(), all[i].clone()].concat();
                let mut own = plans::names_of(sweep.impair.as_ref(), &at);
                own.extend(self.around.at.iter().map(|(n, _)| n.clone()));
                let plan =
                    plans::plan(&sweep.test, &at, &own, &options.files, options.words, self.name)?;
                for attempt in 0..=sweep.repeat_disturbed {
                    let key = format!("{}|{}#{repetition}.{attempt}", self.path, key(&all[i]));
                    let is_old = lock(&doing.journal).done(&key).is_some();
                    if !is_old && let Some(impair) = &sweep.impair {
                        let to = plans::impairment(impair, &at, &options.files, self.name)?;
                        self.impair(impair.emulator.as_deref(), to)?;
                    }
                    let one = OneRun {
                        test: &sweep.test,
                        plan: &plan,
                        at: &all[i],
                        repetition,
                        key,
                        metrics: &metrics,
                    };
                    let (mut run, is_old) = self.run(&one)?;
                    fresh += u32::from(!is_old);
                    let is_last = attempt == sweep.repeat_disturbed
                        || !(run.disturbed || run.error.is_some());
                    run.superseded = !is_last;
                    if is_last {
                        done += 1;
                    }
                    let left = (fresh > 0).then(|| {
                        (begun.elapsed() / fresh).saturating_mul(of.saturating_sub(done) as u32)
                    });
                    self.ran(&run, is_old, done, of.max(done), left);
                    if is_last && run.error.is_none() {
                        firsts[i].extend(run.metrics.get(&first));
                    }
                    out.runs.push(run);
                    if is_last || doing.is_stopped() {
                        break;
                    }
                }
                // What is not on the virtual clock is no failure of it.
                if !options.simulate
                    && done == FAILURES
                    && out.runs.iter().all(|r| r.error.is_some())
                {
                    break 'all;
                }
                if let Some(pause) = sweep.pause
                    && !options.simulate
                {
                    self.sleep(Duration::from_nanos(pause.0));
                }
            }
        }
        out.axes = axes.iter().map(|(name, _)| name.clone()).collect();
        out.points = self.points(&all, &out.runs);
        for figures in &sweep.published {
            let table = published::read(figures, &options.files)?;
            published::beside(figures, &table, &mut out.points);
        }
        self.close(out);
        if let Some(percentage) = sweep.precision_percentage {
            let words = format!(
                "repeated until within ± {percentage} %: an interval that ended the runs covers less often than it says"
            );
            out.reason.get_or_insert(words);
        }
        let wanted = all.len() as u64 * u64::from(runs);
        if done < wanted && out.outcome != Outcome::Error {
            out.outcome = Outcome::Error;
            out.reason = Some(format!("{done} of {wanted} runs were made"));
        }
        Ok(())
    }

    /// What the runs came to at each of these points.
    pub(super) fn points(&self, all: &[At], runs: &[RunRef]) -> Vec<Point> {
        let of_points = by_point(runs.iter().filter(|r| !r.superseded));
        let each = all.iter().map(|at| {
            let at: BTreeMap<String, String> = at.iter().cloned().collect();
            let here = of_points.get(&at).map_or(&[][..], Vec::as_slice);
            let whole = || here.iter().copied().filter(|r| r.error.is_none());
            Point {
                runs: whole().count() as u64,
                disturbed: whole().filter(|r| r.disturbed).count() as u64,
                failed: (here.len() - whole().count()) as u64,
                metrics: summaries(whole(), self.doing.confidence()),
                published: vec![],
                at,
            }
        });
        each.collect()
    }
}

/// Whether a point's first metric is known closely enough.
fn is_precise(sweep: &SweepStep, values: &[f64], confidence: f64) -> bool {
    let Some(percentage) = sweep.precision_percentage else { return true };
    let interval = summary(values, confidence).and_then(|s| Some((s.mean, s.interval?)));
    interval.is_some_and(|(mean, i)| (i.high - i.low) / 2.0 <= percentage / 100.0 * f64::abs(mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_is_of_the_interval_against_the_mean() {
        let step = SweepStep { precision_percentage: Some(3.0), ..SweepStep::default() };
        // Mean 96, deviation 1, n = 3: ± 2.484, which is 2.6 %.
        assert!(is_precise(&step, &[95.0, 96.0, 97.0], 0.95));
        assert!(!is_precise(&step, &[94.0, 96.0, 98.0], 0.95));
        assert!(!is_precise(&step, &[96.0], 0.95), "one run has no interval");
        assert!(is_precise(&SweepStep::default(), &[96.0], 0.95), "nothing was asked for");
    }
}
