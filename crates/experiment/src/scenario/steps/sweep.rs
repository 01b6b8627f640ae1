//! A sweep: points in shuffled blocks, host-limited runs repeated, repetitions until the precision is reached.

use super::losses::{LossDecision, PeerLosses};
use super::runs::by_point;
use super::*;

/// Time until a host gives up address resolution: three requests, 1 s each (Linux: mcast_solicit, retrans_time_ms).
const NEIGHBOUR: Duration = Duration::from_millis(3200);

impl<'d> Inner<'d, '_, '_> {
    pub(super) fn sweep(
        &self,
        sweep: &SweepStep,
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        let execution = self.execution;
        let options = execution.options;
        let axes = check_axes(&sweep.over, self.name)?;
        let all = points(&axes);
        let mut metrics = self.metrics(&sweep.metrics)?;
        if sweep.compare_content {
            let rate = content::METRIC.parse()?;
            if !metrics.contains(&rate) {
                metrics.push(rate);
            }
        }
        let repeat = Repetition::of(sweep, execution.confidence());
        let (mut done, mut fresh, begun) = (0u64, 0u32, Instant::now());
        let change = sweep.impair.is_some();
        let (mut losses, mut given_up) = (PeerLosses::of(all.len(), change), false);
        let (mut probed, mut planned) = (None, None);
        let first = metrics.first().map(ToString::to_string).unwrap_or_default();
        let mut series = vec![repeat.series(); all.len()];
        // Number of runs of all points, as far as known.
        let mut of: u64 = series.iter().map(|s| repeat.planned(s)).sum();
        'all: for repetition in 1..=repeat.most {
            let order = match sweep.in_order {
                true => (0..all.len()).collect(),
                false => block(all.len(), options.seed.0, repetition),
            };
            for i in order {
                if execution.is_stopped() || self.until.is_some_and(|u| Instant::now() >= u) {
                    break 'all;
                }
                if repeat.is_over(&series[i]) {
                    continue;
                }
                let at: AxisValues = [self.around.at.clone(), all[i].clone()].concat();
                let mut own = plans::names_of(sweep.impair.as_ref(), &at);
                own.extend(self.around.at.iter().map(|(n, _)| n.clone()));
                let plan = plans::plan(
                    &sweep.test,
                    &at,
                    &own,
                    &options.files,
                    options.parse_flags,
                    self.name,
                )?;
                planned = content::planned_rate(&plan);
                for attempt in 0..=sweep.repeat_host_limited {
                    let key = format!("{}|{}#{repetition}.{attempt}", self.path, key(&all[i]));
                    let is_old = lock(&execution.checkpoint).done(&key).is_some();
                    if !is_old {
                        self.path_of(
                            sweep,
                            &at,
                            out.runs.last().is_some_and(|r| r.peer_unreachable),
                        )?;
                    }
                    let one = SingleRun {
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
                    // A simulated run gives the same result again.
                    let is_last = options.simulate
                        || attempt == sweep.repeat_host_limited
                        || !(run.host_limited || run.error.is_some());
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
                        (options.tell)(&ScenarioEvent::Planned {
                            step: self.name,
                            at,
                            text: &words,
                        });
                    }
                    if is_last {
                        losses.ran(i, &run, is_old);
                    }
                    out.runs.push(run);
                    if is_last || execution.is_stopped() {
                        break;
                    }
                }
                if let LossDecision::Probe(point) = losses.next()
                    && done < of
                {
                    let at = &all[point];
                    let is_lost = self.is_lost_at(sweep, at)?;
                    if execution.is_stopped() || self.until.is_some_and(|u| Instant::now() >= u) {
                        break 'all;
                    }
                    let words = match is_lost {
                        true => "a further run, not stored, did not reach its peer",
                        false => "a further run, not stored, reached its peer: continuing",
                    };
                    let named: BTreeMap<_, _> = at.iter().cloned().collect();
                    (options.tell)(&ScenarioEvent::Planned {
                        step: self.name,
                        at: &named,
                        text: words,
                    });
                    losses.probed(is_lost);
                    probed = is_lost.then(|| key(at));
                }
                if losses.next() == LossDecision::Stop {
                    given_up = true;
                    break 'all;
                }
                // A point that can't be simulated is not a failure.
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
        if sweep.compare_content {
            out.found.push(content::compared(&out.runs, planned, execution.confidence()));
        }
        self.close_on(out, change);
        // A point that can't be simulated neither reaches nor misses the precision.
        let named: Vec<_> = all
            .iter()
            .zip(&out.points)
            .zip(series)
            .filter(|((_, point), _)| !options.simulate || point.runs > 0)
            .map(|((at, _), series)| (key(at), series))
            .collect();
        let is_whole = done >= of && out.outcome != Outcome::Skipped;
        if let Some(words) = repeat.text(&named).filter(|_| is_whole) {
            // The interval is still wider than requested: neither passed nor failed.
            if named.iter().any(|(_, series)| !repeat.is_reached(series)) {
                out.outcome = out.outcome.and(Outcome::Inconclusive);
            }
            let failed = out.reason.take();
            out.reason = Some(failed.into_iter().chain([words]).collect::<Vec<_>>().join("; "));
        }
        if given_up && done < of {
            let mut lost =
                format!("{} consecutive runs did not reach their peer", losses.in_a_row());
            if let Some(at) = probed {
                lost += &format!(
                    ", and neither did a further one at {at}, which had reached it before"
                );
            }
            let reason = out.reason.take().into_iter();
            let rest = match of - done {
                1 => format!("{lost}: the remaining run was not made"),
                left => format!("{lost}: the remaining {left} runs were not made"),
            };
            out.reason = Some(reason.chain([rest]).collect::<Vec<_>>().join("; "));
        }
        self.close_unmade(out, of);
        Ok(())
    }

    /// Sets the laws of a point, if it has any.
    fn path_of(
        &self,
        sweep: &SweepStep,
        at: &AxisValues,
        was_lost: bool,
    ) -> Result<(), ScenarioError> {
        let Some(impair) = &sweep.impair else { return Ok(()) };
        let to = plans::impairment(impair, at, &self.execution.options.files, self.name)?;
        self.impair(impair.emulator.as_deref(), to)?;
        if was_lost && self.execution.has_lab() {
            // A host whose address could not be resolved stays unreachable until that times out.
            self.sleep(NEIGHBOUR);
        }
        Ok(())
    }

    /// Whether the peer is unreachable at a point that reached it before, by one more run, which is not stored.
    fn is_lost_at(&self, sweep: &SweepStep, point: &AxisValues) -> Result<bool, ScenarioError> {
        let options = self.execution.options;
        let at: AxisValues = [self.around.at.clone(), point.clone()].concat();
        let own = at.iter().map(|(n, _)| n.clone());
        let own = plans::names_of(sweep.impair.as_ref(), &at).into_iter().chain(own).collect();
        let plan =
            plans::plan(&sweep.test, &at, &own, &options.files, options.parse_flags, self.name)?;
        self.path_of(sweep, &at, true)?;
        let one = SingleRun {
            test: &sweep.test,
            plan: &plan,
            at: point,
            repetition: 0,
            key: format!("{}|{}#probe", self.path, key(point)),
            metrics: &[],
            is_first: false,
        };
        self.is_lost(&one, sweep.impair.is_some())
    }

    /// Summaries of the runs at each of these points.
    pub(super) fn points(
        &self,
        all: &[AxisValues],
        runs: &[RunRef],
        intervals: Intervals,
    ) -> Vec<Point> {
        let of_points = by_point(runs.iter().filter(|r| !r.superseded));
        let each = all.iter().map(|at| {
            let at: BTreeMap<String, String> = at.iter().cloned().collect();
            let here = of_points.get(&at).map_or(&[][..], Vec::as_slice);
            let whole = || here.iter().copied().filter(|r| r.error.is_none());
            let not_simulated = here.iter().filter(|r| r.not_simulated).count();
            Point {
                runs: whole().count() as u64,
                host_limited: whole().filter(|r| r.host_limited).count() as u64,
                failed: (here.len() - whole().count() - not_simulated) as u64,
                peer_unreachable: here.iter().filter(|r| r.peer_unreachable).count() as u64,
                interrupted: here.iter().filter(|r| r.interrupted).count() as u64,
                metrics: summaries(whole(), intervals.clone()),
                crossing: Crossing::all(whole().map(|r| r.crossing)),
                precision: None,
                at,
            }
        });
        each.collect()
    }
}
