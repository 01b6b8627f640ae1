//! A sweep: points in shuffled blocks, disturbed runs again, repetition until it is precise.

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
        'all: for repetition in 1..=most {
            let order = match sweep.in_order {
                true => (0..all.len()).collect(),
                false => block(all.len(), options.seed.0, repetition),
            };
            for i in order {
                if doing.is_stopped() || self.until.is_some_and(|u| Instant::now() >= u) {
                    break 'all;
                }
                if repetition > runs && self.is_precise(sweep, &all[i], &metrics, out) {
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
        out.points = all.iter().map(|at| self.point(at, &out.runs)).collect();
        for figures in &sweep.published {
            let table = published::read(figures, &options.files)?;
            published::beside(figures, &table, &mut out.points);
        }
        self.close(out);
        let wanted = all.len() as u64 * u64::from(runs);
        if done < wanted && out.outcome != Outcome::Error {
            out.outcome = Outcome::Error;
            out.reason = Some(format!("{done} of {wanted} runs were made"));
        }
        Ok(())
    }

    pub(super) fn point(&self, at: &At, runs: &[RunRef]) -> Point {
        let at: BTreeMap<String, String> = at.iter().cloned().collect();
        let here = || runs.iter().filter(|r| r.at == at && !r.superseded);
        let whole = || here().filter(|r| r.error.is_none());
        Point {
            runs: whole().count() as u64,
            disturbed: whole().filter(|r| r.disturbed).count() as u64,
            failed: here().filter(|r| r.error.is_some()).count() as u64,
            metrics: summaries(whole(), self.doing.confidence()),
            published: vec![],
            at,
        }
    }

    /// Whether a point's first metric is known closely enough.
    pub(super) fn is_precise(
        &self,
        sweep: &SweepStep,
        at: &At,
        metrics: &[Metric],
        out: &StepOutcome,
    ) -> bool {
        let Some(percentage) = sweep.precision_percentage else { return true };
        let point = self.point(at, &out.runs);
        let first = metrics.first().and_then(|m| point.metrics.get(&m.to_string()));
        first.is_some_and(|s| {
            s.interval.is_some_and(|i| (i.high - i.low) / 2.0 <= percentage / 100.0 * s.mean.abs())
        })
    }
}
