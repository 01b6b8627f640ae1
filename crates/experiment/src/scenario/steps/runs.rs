//! A test with its repetitions, and the outcome of its step.

use weir_model::experiment::Judged;

use super::losses::is_lost;
use super::*;

impl<'d> Inner<'d, '_, '_> {
    /// Runs one test, or takes the result of an earlier session.
    pub(super) fn run(&self, run: &SingleRun<'_>) -> Result<(RunRef, bool), ScenarioError> {
        let execution = self.execution;
        if let Some(done) = lock(&execution.checkpoint).done(&run.key) {
            return Ok((done.run.clone(), true));
        }
        let begun = Instant::now();
        let paths = plans::paths(run.test, run.at, self.execution.agents(), self.name)?;
        let tests = self.tests_of(run, &paths, true)?;
        let unkept = tests.iter().find_map(|test| test.as_ref().ok()?.unkept.clone());
        let mut found = self.found(run, &paths, &tests);
        self.tell_cut(&mut found);
        if losses::is_silence(&found)
            && let Backend::Real(environment) = &execution.backend
            && let Some(laws) =
                paths.iter().find_map(|p| environment.path_that_loses(p.to.as_deref()))
        {
            // The server in the lab is this experiment's own and is running.
            let said = found.error.take().unwrap_or_default();
            found.error = Some(format!("the path lost too much ({laws}): {said}"));
        }
        found.at = run.at.iter().cloned().collect();
        found.repetition = run.repetition;
        if let Some(reason) = unkept {
            found.id = None;
            execution.unkept(&reason);
            return Ok((found, false));
        }
        // An interrupted run is repeated when the experiment is resumed.
        if !(execution.is_stopped() && found.error.is_some()) {
            execution.keep(&run.key, &found, begun.elapsed().as_secs_f64());
        }
        Ok((found, false))
    }

    /// The figures of a run: of all its senders together.
    fn found(
        &self,
        run: &SingleRun<'_>,
        paths: &[TestPath],
        tests: &[Result<Tested, NoRecord>],
    ) -> RunRef {
        let whole: Vec<&Tested> = tests.iter().filter_map(|test| test.as_ref().ok()).collect();
        let records: Vec<&Record> = whole.iter().map(|test| &*test.record).collect();
        let all = run_ref(&records, run.metrics);
        let mut found = match tests.iter().find_map(|test| test.as_ref().err()) {
            // Figures of the others are not those of the run.
            Some(failed) => RunRef { id: all.id, also: all.also, ..no_record(failed) },
            None => all,
        };
        found.peer_unreachable |= whole.iter().any(|test| test.peer_unreachable);
        found.interrupted |= whole.iter().any(|test| test.interrupted);
        let partial = records.iter().find(|r| r.status != weir_model::record::Status::Complete);
        if let Some(record) = partial
            && found.error.is_none()
        {
            found.error = Some(match record.end_reason.as_str() {
                "" => "it ended early".into(),
                reason => reason.into(),
            });
        }
        if self.start_at_ns(run).is_some() || tests.len() > 1 {
            let remote = self.execution.options.remote;
            let of = |(path, test): (&TestPath, &Result<Tested, NoRecord>)| {
                let record = &test.as_ref().ok()?.record;
                let agent = path.from.as_deref().zip(remote);
                match agent.filter(|(from, remote)| remote.is_agent(from)) {
                    Some((agent, remote)) => together::first_packet_of_agent(record, agent, remote),
                    None => together::first_packet(record),
                }
            };
            let first = || paths.iter().zip(tests).filter_map(of);
            found.first_packet =
                first().min_by(|a, b| a.arrived_seconds.total_cmp(&b.arrived_seconds));
            found.together = together::skew(first());
        }
        found
    }

    /// The tests of a run, one for each of its paths, at the same time.
    fn tests_of(
        &self,
        run: &SingleRun<'_>,
        paths: &[TestPath],
        is_kept: bool,
    ) -> Result<Vec<Result<Tested, NoRecord>>, ScenarioError> {
        let execution = self.execution;
        let environment = match &execution.backend {
            Backend::Virtual(emulators) => {
                let none = |reason| NoRecord {
                    reason,
                    peer_unreachable: false,
                    interrupted: false,
                    not_simulated: true,
                };
                if paths.len() > 1 {
                    return Ok(vec![Err(none("can't be simulated: several senders".into()))]);
                }
                let plan = plans::seeded(run.plan.clone(), execution.options.seed.0, &run.key);
                let made = simulated(plan, &lock(emulators));
                let whole = |record| Tested {
                    record,
                    peer_unreachable: false,
                    interrupted: false,
                    unkept: None,
                };
                return Ok(vec![made.map(whole).map_err(none)]);
            }
            Backend::Real(environment) => environment,
        };
        // Tests of agents start when all are ready; those of this machine after a time in which they are.
        let is_remote = paths.iter().all(|path| {
            let agent = path.from.as_deref().zip(execution.options.remote);
            agent.is_some_and(|(from, remote)| remote.is_agent(from))
        });
        let gate = (is_remote && paths.len() > 1 && self.start_at_ns(run).is_none())
            .then(|| Arc::new(StartGate::of(paths.len())));
        let start = self.start_at_ns(run).or_else(|| {
            let now =
                (paths.len() > 1 && gate.is_none()).then(|| (execution.options.monotonic_ns)())?;
            Some(now + TOGETHER.as_nanos() as u64)
        });
        let jobs = paths.iter().enumerate().map(|(i, path)| {
            let key = if i == 0 { run.key.clone() } else { format!("{} sender {i}", run.key) };
            let plan = plans::seeded(run.plan.clone(), execution.options.seed.0, &key);
            let own = self.job(run, path, plan);
            let mut job = Job { is_kept, start_at_ns: start, gate: gate.clone(), ..own };
            if paths.len() > 1 {
                let hosts = [("sender", &path.from), ("receiver", &path.to)];
                let named =
                    hosts.into_iter().filter_map(|(n, host)| Some((n.into(), host.clone()?)));
                job.labels.extend(named);
            }
            job
        });
        let jobs: Vec<Job> = jobs.collect();
        let stopped = || execution.is_stopped();
        let [rest @ .., last] = &jobs[..] else { return Ok(vec![]) };
        std::thread::scope(|scope| {
            let others: Vec<_> = rest
                .iter()
                .map(|job| {
                    scope.spawn(move || environment.test(job, &|| execution.is_stopped(), &|_| {}))
                })
                .collect();
            let last = environment.test(last, &stopped, &|_| {});
            let ended = others.into_iter().map(|test| {
                test.join().unwrap_or_else(|payload| {
                    Err(ScenarioError::Internal(execution.panicked(self.name, payload.as_ref())))
                })
            });
            ended.chain([last]).collect()
        })
    }

    /// Whether one more run, which is not stored, finds the peer unreachable.
    pub(super) fn is_lost(&self, run: &SingleRun<'_>, change: bool) -> Result<bool, ScenarioError> {
        if let Backend::Virtual(_) = &self.execution.backend {
            return Ok(false);
        }
        let paths = plans::paths(run.test, run.at, self.execution.agents(), self.name)?;
        let tests = self.tests_of(run, &paths, false)?;
        let lost = |test: &Result<Tested, NoRecord>| match test {
            Ok(tested) => RunRef {
                error: Some(tested.record.end_reason.clone()),
                peer_unreachable: tested.peer_unreachable,
                ..RunRef::default()
            },
            Err(failed) => no_record(failed),
        };
        Ok(tests.iter().any(|test| is_lost(&lost(test), change)))
    }

    pub(super) fn job(&self, run: &SingleRun<'_>, path: &TestPath, plan: Plan) -> Job {
        let execution = self.execution;
        let mut labels = vec![
            ("experiment".to_owned(), execution.options.id.clone()),
            ("scenario".to_owned(), execution.scenario.name.clone()),
            ("step".to_owned(), self.path.clone()),
        ];
        labels.extend(run.at.iter().cloned());
        labels.extend(tags(&execution.scenario.tags));
        if run.repetition > 1 {
            labels.push(("repetition".into(), run.repetition.to_string()));
        }
        Job {
            step: self.name.into(),
            from: path.from.clone(),
            to: path.to.clone(),
            plan,
            threads: run.test.threads.clone(),
            labels,
            until: self.until,
            start_at_ns: self.start_at_ns(run),
            gate: None,
            orders: None,
            is_kept: true,
        }
    }

    /// The start time of concurrent tests; later runs start when they are ready.
    fn start_at_ns(&self, run: &SingleRun<'_>) -> Option<u64> {
        self.around.start_at_ns.filter(|_| run.is_first)
    }

    /// A test with its repetitions.
    pub(super) fn tests(
        &self,
        test: &TestStep,
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        let at = &self.around.at;
        let own: BTreeSet<String> = at.iter().map(|(n, _)| n.clone()).collect();
        let options = self.execution.options;
        let plan = plans::plan(test, at, &own, &options.files, options.parse_flags, self.name)?;
        let metrics = self.metrics(&[])?;
        let runs = test.runs.unwrap_or(1);
        for repetition in 1..=runs {
            if self.execution.is_stopped() {
                break;
            }
            let key = format!("{}#{repetition}", self.path);
            let is_first = repetition == 1;
            let metrics = &metrics;
            let one = SingleRun { test, plan: &plan, at, repetition, key, metrics, is_first };
            let (run, is_old) = self.run(&one)?;
            self.ran(&run, is_old, u64::from(repetition), u64::from(runs), None);
            out.runs.push(run);
        }
        self.close(out);
        Ok(())
    }

    /// Clears the interrupted mark of a complete run; gives an interrupted one the reason.
    pub(super) fn tell_cut(&self, run: &mut RunRef) {
        run.interrupted &= run.error.is_some();
        if run.interrupted && self.is_interrupted() {
            (run.error, run.peer_unreachable) = (Some("interrupted".into()), false);
        }
    }

    /// Whether the user or the system stopped the experiment.
    pub(super) fn is_interrupted(&self) -> bool {
        (self.execution.options.is_stopped)()
    }

    /// The outcome of a step from its failed runs.
    pub(super) fn close(&self, out: &mut StepOutcome) {
        self.close_on(out, false);
    }

    /// The same for points that may `change` the path: a point that carries nothing is a valid result then, and only
    /// an answer shows that the peer is unreachable.
    pub(super) fn close_on(&self, out: &mut StepOutcome, change: bool) {
        // A run interrupted by the user proves nothing about the rest.
        let is_counted = |run: &&RunRef| !(run.interrupted && self.is_interrupted());
        let counted = out.runs.iter().filter(is_counted).count();
        let errors: Vec<&String> =
            out.runs.iter().filter(is_counted).filter_map(|r| r.error.as_ref()).collect();
        let Some(first) = errors.first() else {
            if counted < out.runs.len() {
                let reason = unmade(&out.runs, out.runs.len() as u64, Some(Interruption::Stopped));
                interrupted(out, reason);
            }
            return;
        };
        let is_all = errors.len() == counted;
        let left_out = out.runs.iter().filter(|r| r.not_simulated).count();
        let is_virtual = left_out == errors.len();
        let reason = match is_all {
            true => (*first).clone(),
            false if is_virtual => {
                format!("{left_out} of {} runs were skipped: {first}", out.runs.len())
            }
            false => {
                format!(
                    "{} of {} runs have no complete result: {first}",
                    errors.len(),
                    out.runs.len()
                )
            }
        };
        // A run that reached the peer when repeated does not count.
        let peer_unreachable = out.runs.iter().any(|r| is_lost(r, change) && !r.superseded);
        out.outcome = match (is_virtual, is_all) {
            // It would work on a network: the scenario is fine.
            (true, true) => Outcome::Skipped,
            (true, false) => out.outcome,
            (false, true) => out.outcome.and(Outcome::Error),
            (false, false) if peer_unreachable => out.outcome.and(Outcome::Error),
            (false, false) => out.outcome.and(Outcome::Inconclusive),
        };
        out.reason = Some(reason);
        out.code = is_virtual.then(|| StepOutcome::NOT_SIMULATED.into());
    }

    /// The requested metrics, and those of the expectations.
    pub(super) fn metrics(&self, names: &[String]) -> Result<Vec<Metric>, ScenarioError> {
        let mut out: Vec<Metric> = vec![];
        if names.is_empty() {
            for name in METRICS {
                out.push(name.parse()?);
            }
        }
        for name in names {
            out.push(name.parse()?);
        }
        for metric in self.rules.iter().map(|rule| &rule.metric).chain(&self.around.metrics) {
            if !out.contains(metric) {
                out.push(metric.clone());
            }
        }
        Ok(out)
    }

    /// Judges the expectations of the runs.
    pub(super) fn expect(&self, out: &mut StepOutcome, intervals: Intervals) {
        if out.outcome == Outcome::Skipped {
            self.not_judged(out);
            return;
        }
        let counted: Vec<&RunRef> = out.counted_runs().collect();
        let mut judged = vec![];
        let of_points = by_point(counted.iter().copied());
        for rule in &self.rules {
            // Enclosing axes are not those of the points: at their other values the expectation does not apply.
            let is_around = |name: &String| self.around.at.iter().any(|(n, _)| n == name);
            let (around, own): (Vec<_>, Vec<_>) =
                rule.at.iter().partition(|(name, _)| is_around(name));
            if !around.iter().all(|wanted| self.around.at.contains(wanted)) {
                continue;
            }
            if out.points.is_empty() && own.is_empty() {
                judged.push(judge(rule, &BTreeMap::new(), &counted, intervals.clone()));
                continue;
            }
            let (mut is_anywhere, before) = (false, judged.len());
            for point in &out.points {
                if own.iter().all(|(name, value)| point.at.get(name) == Some(value)) {
                    is_anywhere = true;
                    // What can't be simulated is not judged.
                    if self.execution.options.simulate && point.runs == 0 {
                        continue;
                    }
                    let here = of_points.get(&point.at).map_or(&[][..], Vec::as_slice);
                    judged.push(judge(rule, &point.at, here, intervals.clone()));
                }
            }
            if !is_anywhere {
                let mut nowhere = judge(rule, &BTreeMap::new(), &[], intervals.clone());
                nowhere.reason = "it applies to none of the points".into();
                judged.push(nowhere);
            } else if judged.len() == before {
                judged.push(unjudged(rule, NOT_SIMULATED, Some(StepOutcome::NOT_SIMULATED)));
            }
        }
        out.outcome = judged.iter().fold(out.outcome, |all, j| all.and(j.outcome));
        out.expectations.append(&mut judged);
    }

    /// Expectations of a skipped step: neither met nor missed.
    fn not_judged(&self, out: &mut StepOutcome) {
        let around = &self.around.at;
        let is_around = |name: &str| around.iter().any(|(n, _)| n == name);
        let is_here =
            |rule: &&Rule| rule.at.iter().all(|at| !is_around(&at.0) || around.contains(at));
        let reason = out.reason.clone().unwrap_or_else(|| "the step was skipped".into());
        let judged: Vec<_> = self
            .rules
            .iter()
            .filter(is_here)
            .map(|rule| unjudged(rule, &reason, out.code.as_deref()))
            .collect();
        out.expectations.extend(judged);
        if !out.expectations.is_empty() {
            out.outcome = out.outcome.and(Outcome::Inconclusive);
        }
    }
}

/// An expectation on a metric that was not measured.
fn unjudged(rule: &Rule, reason: &str, code: Option<&str>) -> Judged {
    Judged {
        text: rule.text.clone(),
        outcome: Outcome::Inconclusive,
        at: rule.at.iter().cloned().collect(),
        measured: None,
        bound: rule.bound,
        interval: None,
        count: 0,
        reason: format!("not judged: {reason}"),
        code: code.map(Into::into),
    }
}

/// A run without a record.
pub(super) fn no_record(failed: &NoRecord) -> RunRef {
    RunRef {
        error: Some(failed.reason.clone()),
        peer_unreachable: failed.peer_unreachable,
        interrupted: failed.interrupted,
        not_simulated: failed.not_simulated,
        ..RunRef::default()
    }
}

/// A label for each tag (`tag.NAME`), since a label has one value.
pub(super) fn tags(tags: &[String]) -> impl Iterator<Item = (String, String)> {
    tags.iter().map(|tag| (format!("tag.{tag}"), tag.clone()))
}

/// Runs grouped by the values of their axes.
pub(super) fn by_point<'r>(
    runs: impl Iterator<Item = &'r RunRef>,
) -> BTreeMap<&'r BTreeMap<String, String>, Vec<&'r RunRef>> {
    let mut out: BTreeMap<_, Vec<&RunRef>> = BTreeMap::new();
    for run in runs {
        out.entry(&run.at).or_default().push(run);
    }
    out
}

/// Prefix of the reason why something can't be simulated.
const NOT_SIMULATED: &str = "can't be simulated";

fn simulated(plan: Plan, emulators: &BTreeMap<String, Impairment>) -> Result<Box<Record>, String> {
    let mut impairment = emulators.values().next().cloned().unwrap_or_default();
    // Repetitions must differ, as with a running emulator, whose draws continue.
    impairment.seed.0 ^= plan.seed.0;
    let simulation = Simulation { plan: plan.clone(), impairment, before_ns: 0, after_ns: 0 };
    match simulation.run() {
        Ok(outcome) => {
            let mut record = outcome.record;
            record.plan = plan;
            Ok(Box::new(record))
        }
        Err(e) => Err(format!("{NOT_SIMULATED}: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_the_values_of_their_axes() {
        let run = |size: &str, repetition| RunRef {
            at: [("size".to_owned(), size.to_owned())].into(),
            repetition,
            ..RunRef::default()
        };
        let runs = [run("1", 1), run("2", 1), run("1", 2)];
        let found = by_point(runs.iter());
        let repetitions: Vec<u32> = found[&runs[0].at].iter().map(|r| r.repetition).collect();
        assert_eq!((found.len(), repetitions), (2, vec![1, 2]));
    }

    #[test]
    fn every_tag_is_a_label() {
        let labels: Vec<_> = tags(&["a".into(), "b".into()]).collect();
        let keys: std::collections::BTreeSet<_> = labels.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), 2, "{labels:?}");
    }
}
