//! A sweep: points in shuffled blocks, disturbed runs again, repetition until it is precise.

use super::runs::by_point;
use super::*;

/// How long a host of the lab asks for its neighbour before it gives up: three times, a second each (Linux: mcast_solicit,
/// retrans_time_ms).
const NEIGHBOUR: Duration = Duration::from_millis(3200);

/// Runs that did not reach their peer, or lost it.
struct Losses {
    /// Of all points: whether a run of it was whole.
    had: Vec<bool>,
    /// How many lost it one after the other.
    in_a_row: u64,
    /// One of these is of a point that had its peer before.
    had_before: bool,
}

impl Losses {
    fn of(points: usize) -> Losses {
        Losses { had: vec![false; points], in_a_row: 0, had_before: false }
    }

    fn ran(&mut self, point: usize, run: &RunRef) {
        if run.peer_lost {
            self.in_a_row += 1;
            self.had_before |= self.had[point];
        } else {
            (self.in_a_row, self.had_before) = (0, false);
            self.had[point] |= run.error.is_none();
        }
    }

    /// The peer is gone: it was there for one of these points, or never for any. Points that never have it, as those of an
    /// address family that is not there, say nothing of the others.
    fn is_gone(&self) -> bool {
        self.in_a_row >= FAILURES && (self.had_before || !self.had.contains(&true))
    }
}

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
        let repeat = Repetition::of(sweep, doing.confidence());
        let (mut done, mut fresh, begun) = (0u64, 0u32, Instant::now());
        let (mut losses, mut given_up) = (Losses::of(all.len()), false);
        let first = metrics.first().map(ToString::to_string).unwrap_or_default();
        let mut series = vec![repeat.series(); all.len()];
        // Runs of all points, as far as it is known.
        let mut of: u64 = series.iter().map(|s| repeat.planned(s)).sum();
        'all: for repetition in 1..=repeat.most {
            let order = match sweep.in_order {
                true => (0..all.len()).collect(),
                false => block(all.len(), options.seed.0, repetition),
            };
            for i in order {
                if doing.is_stopped() || self.until.is_some_and(|u| Instant::now() >= u) {
                    break 'all;
                }
                if repeat.is_over(&series[i]) {
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
                        if losses.in_a_row > 0 && doing.has_lab() {
                            // A host that was asked for in vain is unreachable until that is given up, whatever the path does now.
                            self.sleep(NEIGHBOUR);
                        }
                    }
                    let one = OneRun {
                        test: &sweep.test,
                        plan: &plan,
                        at: &all[i],
                        repetition,
                        key,
                        metrics: &metrics,
                        is_first: out.runs.is_empty(),
                    };
                    let (mut run, is_old) = self.run(&one)?;
                    fresh += u32::from(!is_old);
                    // The virtual clock gives the same again: nothing disturbs it, and what it has not it will not have.
                    let is_last = options.simulate
                        || attempt == sweep.repeat_disturbed
                        || !(run.disturbed || run.error.is_some());
                    run.superseded = !is_last;
                    let mut words = None;
                    if is_last {
                        done += 1;
                        let before = repeat.planned(&series[i]);
                        let value = run.metrics.get(&first).filter(|_| run.error.is_none());
                        words = repeat.ran(&mut series[i], value.copied());
                        of = of - before + repeat.planned(&series[i]);
                    }
                    let left = (fresh > 0).then(|| {
                        (begun.elapsed() / fresh).saturating_mul(of.saturating_sub(done) as u32)
                    });
                    self.ran(&run, is_old, done, of, left);
                    if let Some(words) = words {
                        let at = &run.at;
                        (options.tell)(&Happening::Planned { step: self.name, at, words: &words });
                    }
                    if is_last {
                        losses.ran(i, &run);
                    }
                    out.runs.push(run);
                    if is_last || doing.is_stopped() {
                        break;
                    }
                }
                // Where the points change the path, one that carries nothing is a point like another.
                if losses.is_gone() && sweep.impair.is_none() {
                    given_up = true;
                    break 'all;
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
        out.points = self.points(&all, &out.runs, repeat.intervals(&first));
        for (point, series) in out.points.iter_mut().zip(&series) {
            point.precision = repeat.precision(series, &first);
        }
        for figures in &sweep.published {
            let table = published::read(figures, &options.files)?;
            published::beside(figures, &table, &mut out.points);
        }
        self.close_on(out, sweep.impair.is_some());
        // What is not on the virtual clock is neither reached nor missed.
        let named: Vec<_> = all
            .iter()
            .zip(&out.points)
            .zip(series)
            .filter(|((_, point), _)| !options.simulate || point.runs > 0)
            .map(|((at, _), series)| (key(at), series))
            .collect();
        let is_whole = done >= of && out.outcome != Outcome::Skipped;
        if let Some(words) = repeat.words(&named).filter(|_| is_whole) {
            // The interval still spans more than was asked for: neither pass nor fail.
            if named.iter().any(|(_, series)| !repeat.is_reached(series)) {
                out.outcome = out.outcome.and(Outcome::Inconclusive);
            }
            let failed = out.reason.take();
            out.reason = Some(failed.into_iter().chain([words]).collect::<Vec<_>>().join("; "));
        }
        if given_up && done < of {
            let lost = format!("{} in a row did not reach their peer, or lost it", losses.in_a_row);
            let reason = out.reason.take().into_iter();
            let rest = match of - done {
                1 => format!("{lost}: the one that is left was not tried"),
                left => format!("{lost}: the other {left} were not tried"),
            };
            out.reason = Some(reason.chain([rest]).collect::<Vec<_>>().join("; "));
        }
        self.close_unmade(out, of);
        Ok(())
    }

    /// What the runs came to at each of these points.
    pub(super) fn points(&self, all: &[At], runs: &[RunRef], intervals: Intervals) -> Vec<Point> {
        let of_points = by_point(runs.iter().filter(|r| !r.superseded));
        let each = all.iter().map(|at| {
            let at: BTreeMap<String, String> = at.iter().cloned().collect();
            let here = of_points.get(&at).map_or(&[][..], Vec::as_slice);
            let whole = || here.iter().copied().filter(|r| r.error.is_none());
            let not_simulated = here.iter().filter(|r| self.is_not_simulated(r)).count();
            Point {
                runs: whole().count() as u64,
                disturbed: whole().filter(|r| r.disturbed).count() as u64,
                failed: (here.len() - whole().count() - not_simulated) as u64,
                peer_lost: here.iter().filter(|r| r.peer_lost).count() as u64,
                cut: here.iter().filter(|r| r.cut).count() as u64,
                metrics: summaries(whole(), intervals.clone()),
                precision: None,
                published: vec![],
                at,
            }
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first run, counted from 1, at which the peer counts as gone; of points by letter, lost ones in capitals.
    fn gone_at(runs: &str) -> Option<usize> {
        let mut losses = Losses::of(26);
        runs.bytes().zip(1..).find_map(|(point, n)| {
            let peer_lost = point.is_ascii_uppercase();
            let error = peer_lost.then(|| "no hello".to_owned());
            let run = RunRef { peer_lost, error, ..RunRef::default() };
            losses.ran(usize::from(point.to_ascii_lowercase() - b'a'), &run);
            losses.is_gone().then_some(n)
        })
    }

    #[test]
    fn a_peer_is_gone_where_it_was_before_or_never_was() {
        assert_eq!(gone_at("ABC"), Some(3));
        assert_eq!(gone_at("abABC"), Some(5));
        // Points that never have it: others do.
        assert_eq!(gone_at("abcDEFabcDEFabc"), None);
        assert_eq!(gone_at("abcDEFabcDEFABC"), Some(13));
        // One that is heard of again is not gone.
        assert_eq!(gone_at("aAAaAAa"), None);
        assert_eq!(gone_at("aBCdA"), None);
    }
}
