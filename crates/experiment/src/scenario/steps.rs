//! Doing the steps of a scenario.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use weir_model::experiment::{
    Action, CompareStep, Metric, Outcome, Point, Rule, RunRef, Scenario, SearchStep, Step,
    StepOutcome, StopStep, SweepStep, TestStep, WaitStep, check_axes,
};
use weir_model::impairment::Impairment;
use weir_model::plan::Plan;
use weir_model::record::Record;
use weir_model::units::{RateLimit, SendRate};
use weir_sim::Simulation;

use super::grid::{At, block, key, points};
use super::journal::Journal;
use super::judge::{judge, run_ref, summaries};
use super::search::{Ask, Terms, Trial, search};
use super::tools::{Load, TOOLS};
use super::world::{Job, Progress, World, control};
use super::{Happening, Options, ScenarioError, plans, published};

/// Metrics of a sweep that names none.
const METRICS: &[&str] = &["throughput", "packet_rate", "loss", "jitter"];
/// Steps at the same time start so long after they were begun: time to connect and to measure the idle round trip.
const TOGETHER: Duration = Duration::from_millis(2500);
/// A sweep whose first runs all fail is not gone on with.
const FAILURES: u64 = 3;

/// A test that runs while other steps do.
struct Background {
    socket: std::path::PathBuf,
    stop: Arc<AtomicBool>,
    state: Arc<(Mutex<BackgroundState>, Condvar)>,
}

#[derive(Default)]
struct BackgroundState {
    progress: Progress,
    ended: Option<Result<Result<Box<Record>, String>, ScenarioError>>,
}

/// Where tests run.
enum Place<'a> {
    Real(World<'a>),
    /// On the virtual clock: what each emulator does now.
    Virtual(Mutex<BTreeMap<String, Impairment>>),
}

/// A scenario that is being done.
pub(super) struct Doing<'a> {
    scenario: &'a Scenario,
    options: &'a Options<'a>,
    place: Place<'a>,
    journal: Mutex<Journal>,
    background: Mutex<HashMap<String, Background>>,
    /// Latest end of the whole.
    until: Option<Instant>,
    /// The journal could not be written: nothing more is begun.
    fatal: Mutex<Option<ScenarioError>>,
}

/// What surrounds a step.
#[derive(Clone, Default)]
struct Around {
    /// Names of the steps around it, with the values of their axes.
    path: String,
    /// Values of the axes around it.
    at: At,
    depth: usize,
    /// Steps beside it start their tests at this time.
    start_at_ns: Option<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl<'a> Doing<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        options: &'a Options<'a>,
        journal: Mutex<Journal>,
    ) -> Result<Self, ScenarioError> {
        let place = if options.simulate {
            let mut emulators = BTreeMap::new();
            for (name, spec) in &scenario.emulators {
                let at = format!("emulator.{name}");
                emulators.insert(name.clone(), options.files.impairment(&spec.initial, &at)?);
            }
            Place::Virtual(Mutex::new(emulators))
        } else {
            Place::Real(World::make(scenario, options)?)
        };
        Ok(Doing {
            scenario,
            options,
            place,
            journal,
            background: Mutex::default(),
            until: scenario.timeout.map(|t| Instant::now() + Duration::from_nanos(t.0)),
            fatal: Mutex::default(),
        })
    }

    /// All steps.
    pub(super) fn all(&self) -> Vec<StepOutcome> {
        std::thread::scope(|scope| {
            let steps = self.steps(&self.scenario.steps, &Around::default(), scope);
            // Tests that nobody waited for end with the scenario.
            for background in lock(&self.background).values() {
                background.stop.store(true, Ordering::Relaxed);
            }
            steps
        })
    }

    /// What ended it before its time, if anything did.
    pub(super) fn end(self) -> Option<ScenarioError> {
        self.fatal.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    fn is_stopped(&self) -> bool {
        (self.options.is_stopped)()
            || self.until.is_some_and(|until| Instant::now() >= until)
            || lock(&self.fatal).is_some()
    }

    fn confidence(&self) -> f64 {
        self.scenario.confidence_percentage / 100.0
    }

    fn steps<'s>(
        &'s self,
        steps: &[Step],
        around: &Around,
        scope: &'s std::thread::Scope<'s, '_>,
    ) -> Vec<StepOutcome> {
        let mut out: Vec<StepOutcome> = vec![];
        let mut skipped: Option<String> = None;
        for step in steps {
            if skipped.is_none() && self.is_stopped() {
                skipped = Some(match (self.options.is_stopped)() {
                    true => "the experiment was stopped".into(),
                    false => "the experiment's time was over".into(),
                });
            }
            let (name, action) = (step.name.clone().unwrap_or_default(), step.action());
            let mut outcome = StepOutcome {
                name: name.clone(),
                action: action.map_or("", |a| a.name()).into(),
                outcome: Outcome::Passed,
                reason: None,
                seconds: 0.0,
                runs: vec![],
                axes: vec![],
                points: vec![],
                found: vec![],
                output: None,
                expectations: vec![],
                steps: vec![],
            };
            if let Some(reason) = &skipped {
                outcome.outcome = Outcome::Skipped;
                outcome.reason = Some(reason.clone());
                out.push(outcome);
                continue;
            }
            let Some(action) = action else { continue };
            (self.options.tell)(&Happening::Began {
                name: &name,
                action: action.name(),
                depth: around.depth,
            });
            let begun = Instant::now();
            let until = step.timeout.map(|t| begun + Duration::from_nanos(t.0));
            let inner = Inner {
                doing: self,
                around,
                name: &name,
                path: match around.path.as_str() {
                    "" => name.clone(),
                    path => format!("{path}/{name}"),
                },
                until: [until, self.until].into_iter().flatten().min(),
                rules: step.expect.iter().filter_map(|text| text.parse().ok()).collect(),
            };
            if let Err(error) = inner.act(action, &mut outcome, scope) {
                outcome.outcome = outcome.outcome.and(Outcome::Error);
                outcome.reason = Some(error.to_string());
            }
            inner.expect(&mut outcome);
            outcome.seconds = begun.elapsed().as_secs_f64();
            (self.options.tell)(&Happening::Ended { step: &outcome, depth: around.depth });
            if outcome.outcome == Outcome::Error && !step.keep_going {
                skipped = Some(format!("step {name} could not be done"));
            }
            out.push(outcome);
        }
        out
    }

    /// Keeps a run in the journal; a journal that cannot be written ends the experiment.
    fn keep(&self, key: &str, run: &RunRef, seconds: f64) {
        let mut journal = lock(&self.journal);
        if let Err(source) = journal.keep(key, run, seconds) {
            let path = journal.path().map(Into::into).unwrap_or_default();
            lock(&self.fatal).get_or_insert(ScenarioError::File {
                operation: "write",
                path,
                source,
            });
        }
    }
}

/// One step that is being done.
struct Inner<'d, 'r, 'a> {
    doing: &'d Doing<'a>,
    around: &'r Around,
    name: &'r str,
    /// Its place in the journal.
    path: String,
    until: Option<Instant>,
    rules: Vec<Rule>,
}

impl<'d> Inner<'d, '_, '_> {
    fn act<'s>(
        &self,
        action: Action<'_>,
        out: &mut StepOutcome,
        scope: &'s std::thread::Scope<'s, '_>,
    ) -> Result<(), ScenarioError>
    where
        'd: 's,
    {
        let doing = self.doing;
        match action {
            // A virtual test is over before anything else can happen.
            Action::Test(test) if test.background && doing.options.simulate => {
                self.not_simulated(out, "a test in the background")
            }
            Action::Test(test) if test.background => self.begin(test, scope),
            Action::Test(test) => self.tests(test, out),
            Action::Sweep(sweep) => self.sweep(sweep, out),
            Action::Search(terms) => self.search(terms, out),
            Action::Compare(compare) => self.compare(compare, out),
            Action::Wait(WaitStep { test: Some(_), .. }) | Action::Start(_) | Action::Stop(_)
                if doing.options.simulate =>
            {
                self.not_simulated(out, "a test in the background")
            }
            Action::Wait(wait) => self.wait(wait, out),
            Action::Start(which) => self.start(which),
            Action::Stop(which) => self.stop(which, out),
            Action::Impair(step) => {
                let to = plans::impairment(step, &vec![], &doing.options.files, self.name)?;
                self.impair(step.emulator.as_deref(), to)
            }
            Action::Command(command) => {
                let Place::Real(world) = &doing.place else {
                    return self.not_simulated(out, "a command");
                };
                let stopped = || doing.is_stopped();
                let (code, text) =
                    world.run(&command.run, command.host.as_deref(), self.until, &stopped)?;
                out.output = Some(text);
                let wanted = command.exit_code.unwrap_or(0);
                match code {
                    Some(code) if code == wanted => {}
                    Some(code) => {
                        out.outcome = Outcome::Failed;
                        out.reason = Some(format!("exit code {code}, expected {wanted}"));
                    }
                    None => return Err(ScenarioError::program(&command.run[0], "it was ended")),
                }
                Ok(())
            }
            Action::Collect(collect) => {
                if let Some(path) = &collect.file {
                    let path = doing.options.files.path(path);
                    let mut bytes = vec![];
                    let fail = |source| ScenarioError::File {
                        operation: "collect",
                        path: path.clone(),
                        source,
                    };
                    let file = std::fs::File::open(&path).map_err(fail)?;
                    file.take(64 << 10).read_to_end(&mut bytes).map_err(fail)?;
                    out.output = Some(String::from_utf8_lossy(&bytes).into_owned());
                }
                if let Some(name) = &collect.emulator {
                    let Place::Real(world) = &doing.place else {
                        return self.not_simulated(out, "counters of a running emulator");
                    };
                    out.output = Some(world.stats(name)?.to_string());
                }
                Ok(())
            }
            Action::Parallel(steps) => {
                let now = (doing.options.monotonic_ns)();
                let around = Around {
                    path: self.path.clone(),
                    depth: self.around.depth + 1,
                    start_at_ns: Some(now + TOGETHER.as_nanos() as u64),
                    ..self.around.clone()
                };
                let around = &around;
                out.steps = std::thread::scope(|own| {
                    let each: Vec<_> = steps
                        .iter()
                        .map(|step| {
                            own.spawn(move || {
                                std::thread::scope(|inner| doing.together(step, around, inner))
                            })
                        })
                        .collect();
                    each.into_iter().flat_map(|t| t.join().unwrap_or_default()).collect()
                });
                out.outcome = out.steps.iter().fold(out.outcome, |all, s| all.and(s.outcome));
                Ok(())
            }
            Action::Repeat(repeat) => {
                let axes = check_axes(&repeat.over, self.name)?;
                let times = repeat.times.unwrap_or(1);
                for at in points(&axes) {
                    for n in 1..=times {
                        let all: At = [self.around.at.clone(), at.clone()].concat();
                        let steps: Vec<Step> = plans::at_point(&repeat.steps, &all, self.name)?;
                        let mut label = key(&at);
                        if times > 1 {
                            label = format!("{label} {n}").trim().into();
                        }
                        let around = Around {
                            path: format!("{} [{label}]", self.path),
                            at: all,
                            depth: self.around.depth + 1,
                            start_at_ns: None,
                        };
                        let mut done = doing.steps(&steps, &around, scope);
                        done.iter_mut().for_each(|s| s.name = format!("{} [{label}]", s.name));
                        out.steps.append(&mut done);
                    }
                }
                out.outcome = out.steps.iter().fold(out.outcome, |all, s| all.and(s.outcome));
                Ok(())
            }
        }
    }

    fn not_simulated(&self, out: &mut StepOutcome, what: &str) -> Result<(), ScenarioError> {
        out.outcome = Outcome::Skipped;
        out.reason = Some(format!("not on the virtual clock: {what}"));
        Ok(())
    }

    fn impair(&self, emulator: Option<&str>, to: Option<Impairment>) -> Result<(), ScenarioError> {
        match &self.doing.place {
            Place::Real(world) => world.impair(emulator, to.as_ref()),
            Place::Virtual(emulators) => {
                let mut emulators = lock(emulators);
                let name = emulator.map(Into::into).or_else(|| emulators.keys().next().cloned());
                if let Some(name) = name {
                    emulators.insert(name, to.unwrap_or_default());
                }
                Ok(())
            }
        }
    }

    /// Runs one test, or takes what an earlier session measured.
    fn run(&self, run: &OneRun<'_>) -> Result<(RunRef, bool), ScenarioError> {
        let doing = self.doing;
        if let Some(done) = lock(&doing.journal).done(&run.key) {
            return Ok((done.run.clone(), true));
        }
        let begun = Instant::now();
        let record = self.record(run)?;
        let mut found = match &record {
            Ok(record) => run_ref(record, run.metrics),
            Err(reason) => RunRef { error: Some(reason.clone()), ..RunRef::default() },
        };
        if let Ok(record) = &record
            && record.status != weir_model::record::Status::Complete
        {
            found.error = Some(match record.end_reason.as_str() {
                "" => "it ended early".into(),
                reason => reason.into(),
            });
        }
        found.at = run.at.iter().cloned().collect();
        found.repetition = run.repetition;
        // What a stop cut short is done again when the experiment goes on.
        if !(doing.is_stopped() && found.error.is_some()) {
            doing.keep(&run.key, &found, begun.elapsed().as_secs_f64());
        }
        Ok((found, false))
    }

    fn record(&self, run: &OneRun<'_>) -> Result<Result<Box<Record>, String>, ScenarioError> {
        let doing = self.doing;
        let plan = plans::seeded(run.plan.clone(), doing.options.seed.0, &run.key);
        match &doing.place {
            Place::Virtual(emulators) => Ok(simulated(plan, &lock(emulators))),
            Place::Real(world) => {
                let stopped = || doing.is_stopped();
                world.test(&self.job(run, plan, None), &stopped, &|_| {})
            }
        }
    }

    fn job(&self, run: &OneRun<'_>, plan: Plan, socket: Option<std::path::PathBuf>) -> Job {
        let doing = self.doing;
        let mut labels = vec![
            ("experiment".to_owned(), doing.options.id.clone()),
            ("scenario".to_owned(), doing.scenario.name.clone()),
            ("step".to_owned(), self.path.clone()),
        ];
        labels.extend(run.at.iter().cloned());
        labels.extend(doing.scenario.tags.iter().map(|t| ("tag".to_owned(), t.clone())).take(1));
        if run.repetition > 1 {
            labels.push(("repetition".into(), run.repetition.to_string()));
        }
        Job {
            step: self.name.into(),
            from: run.test.from.clone(),
            to: run.test.to.clone(),
            plan,
            labels,
            until: self.until,
            start_at_ns: self.around.start_at_ns,
            socket,
        }
    }

    /// A test, so often as it asks for.
    fn tests(&self, test: &TestStep, out: &mut StepOutcome) -> Result<(), ScenarioError> {
        let at = &self.around.at;
        let own: BTreeSet<String> = at.iter().map(|(n, _)| n.clone()).collect();
        let options = self.doing.options;
        let plan = plans::plan(test, at, &own, &options.files, options.words, self.name)?;
        let metrics = self.metrics(&[])?;
        let runs = test.runs.unwrap_or(1);
        for repetition in 1..=runs {
            if self.doing.is_stopped() {
                break;
            }
            let key = format!("{}#{repetition}", self.path);
            let one = OneRun { test, plan: &plan, at, repetition, key, metrics: &metrics };
            let (run, is_old) = self.run(&one)?;
            self.ran(&run, is_old, u64::from(repetition), u64::from(runs), None);
            out.runs.push(run);
        }
        self.close(out);
        Ok(())
    }

    fn ran(&self, run: &RunRef, is_old: bool, done: u64, of: u64, left: Option<Duration>) {
        (self.doing.options.tell)(&Happening::Ran { step: self.name, run, is_old, done, of, left });
    }

    /// What runs without figures make of a step.
    fn close(&self, out: &mut StepOutcome) {
        let failed = out.runs.iter().filter(|r| r.error.is_some()).count();
        let Some(reason) = out.runs.iter().find_map(|r| r.error.clone()) else { return };
        let only_virtual = self.doing.options.simulate && reason.starts_with(NOT_SIMULATED);
        out.outcome = out.outcome.and(match () {
            () if only_virtual => Outcome::Skipped,
            () if failed == out.runs.len() => Outcome::Error,
            () => Outcome::Inconclusive,
        });
        if only_virtual && failed == out.runs.len() {
            out.outcome = Outcome::Skipped;
        }
        out.reason = Some(match failed {
            n if n == out.runs.len() => reason,
            n => format!("{n} of {} runs gave no whole result: {reason}", out.runs.len()),
        });
    }

    /// The metrics that are asked for and those of the expectations.
    fn metrics(&self, names: &[String]) -> Result<Vec<Metric>, ScenarioError> {
        let mut out: Vec<Metric> = vec![];
        if names.is_empty() {
            for name in METRICS {
                out.push(name.parse()?);
            }
        }
        for name in names {
            out.push(name.parse()?);
        }
        for rule in &self.rules {
            if !out.contains(&rule.metric) {
                out.push(rule.metric.clone());
            }
        }
        Ok(out)
    }

    fn sweep(&self, sweep: &SweepStep, out: &mut StepOutcome) -> Result<(), ScenarioError> {
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
                if done == FAILURES && out.runs.iter().all(|r| r.error.is_some()) {
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

    fn point(&self, at: &At, runs: &[RunRef]) -> Point {
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
    fn is_precise(
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

    fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.doing.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    fn search(&self, step: &SearchStep, out: &mut StepOutcome) -> Result<(), ScenarioError> {
        let options = self.doing.options;
        let axes = check_axes(&step.over, self.name)?;
        let terms = terms(step, self.name)?;
        let statistics = ["min", "mean", "p50", "p99", "max"];
        let mut names: Vec<String> =
            statistics.iter().map(|s| format!("{s} one_way_delay")).collect();
        names.extend(
            [
                "sent_packets",
                "lost_packets",
                "loss",
                "sent_throughput",
                "sent_packet_rate",
                "throughput",
                "packet_rate",
            ]
            .map(Into::into),
        );
        let metrics = self.metrics(&names)?;
        let in_bits = terms.unit == "bits_per_second";
        for at in points(&axes) {
            let around: At = [self.around.at.clone(), at.clone()].concat();
            let mut runs = vec![];
            let mut trial = |ask: Ask| -> Result<Trial, ScenarioError> {
                if self.doing.is_stopped() {
                    return Err(ScenarioError::program(self.name, "the search was stopped"));
                }
                let rate = if in_bits {
                    format!("{:.0}", ask.rate)
                } else {
                    format!("{:.3}pps", ask.rate)
                };
                // A burst is sent as fast as can be.
                let rate = if ask.packets.is_some() { "0".into() } else { rate };
                let mut values = around.clone();
                values.push(("rate".into(), rate));
                values.push(("seconds".into(), ask.seconds.to_string()));
                if let Some(packets) = ask.packets {
                    values.push(("packets".into(), packets.to_string()));
                }
                let own: BTreeSet<String> = ["rate", "seconds", "packets"]
                    .map(String::from)
                    .into_iter()
                    .chain(self.around.at.iter().map(|(n, _)| n.clone()))
                    .collect();
                let mut plan = plans::plan(
                    &step.test,
                    &values,
                    &own,
                    &options.files,
                    options.words,
                    self.name,
                )?;
                for connection in &mut plan.connections {
                    if !step.test.holds("rate") {
                        connection.rate = values[around.len()].1.parse().ok();
                    }
                    match ask.packets {
                        Some(packets) => {
                            (connection.packets, connection.duration) = (Some(packets), None)
                        }
                        None if !step.test.holds("seconds") => {
                            connection.duration = Some(step.trial)
                        }
                        None => {}
                    }
                }
                let key = format!("{}|{}#{}", self.path, key(&at), ask.number);
                let one = OneRun {
                    test: &step.test,
                    plan: &plan,
                    at: &at,
                    repetition: ask.number,
                    key,
                    metrics: &metrics,
                };
                let (run, is_old) = self.run(&one)?;
                self.ran(&run, is_old, u64::from(ask.number), 0, None);
                if let Some(error) = &run.error {
                    return Err(ScenarioError::program(self.name, error));
                }
                let of = |name: &str| run.metrics.get(name).copied();
                let delays = statistics
                    .iter()
                    .filter_map(|s| Some(((*s).to_owned(), of(&format!("{s} one_way_delay"))?)))
                    .collect();
                let trial = Trial {
                    sent: of("sent_packets").unwrap_or(0.0) as u64,
                    lost: of("lost_packets").unwrap_or(0.0) as u64,
                    sent_rate: of(if in_bits { "sent_throughput" } else { "sent_packet_rate" }),
                    received_rate: of(if in_bits { "throughput" } else { "packet_rate" }),
                    delays,
                    disturbed: run.disturbed,
                };
                runs.push(run);
                Ok(trial)
            };
            let found = search(&terms, &mut trial);
            out.runs.append(&mut runs);
            for mut figure in found? {
                figure.at.extend(at.iter().cloned());
                out.found.push(figure);
            }
        }
        out.axes = axes.into_iter().map(|(name, _)| name).collect();
        Ok(())
    }

    /// Other tools and Weir over the same path: every tool at every point, in shuffled blocks.
    fn compare(&self, step: &CompareStep, out: &mut StepOutcome) -> Result<(), ScenarioError> {
        let doing = self.doing;
        let Place::Real(world) = &doing.place else {
            return self.not_simulated(out, "other tools");
        };
        let axes = check_axes(&step.over, self.name)?;
        // What several tools tell.
        let names = ["throughput", "packet_rate", "loss", "jitter", "retransmits"];
        let metrics = self.metrics(&names.map(String::from))?;
        let mut here: Vec<&str> = vec![WEIR];
        here.extend(
            TOOLS.iter().filter(|t| t.programs.iter().all(|p| is_installed(p))).map(|t| t.name),
        );
        let wanted: Vec<&str> = match step.tools.is_empty() {
            true => here.clone(),
            false => step.tools.iter().map(String::as_str).collect(),
        };
        let missing: Vec<&str> = wanted.iter().copied().filter(|t| !here.contains(t)).collect();
        let tools: Vec<&str> = wanted.iter().copied().filter(|t| here.contains(t)).collect();
        if !missing.is_empty() {
            out.reason = Some(format!("not installed here: {}", missing.join(", ")));
        }
        let mut all: Vec<At> = vec![];
        for at in points(&axes) {
            all.extend(
                tools
                    .iter()
                    .map(|tool| [at.clone(), vec![(TOOL.to_owned(), (*tool).to_owned())]].concat()),
            );
        }
        let runs = step.runs.unwrap_or(1);
        let of = all.len() as u64 * u64::from(runs);
        let (mut done, mut fresh, begun) = (0u64, 0u32, Instant::now());
        'all: for repetition in 1..=runs {
            for i in block(all.len(), doing.options.seed.0, repetition) {
                if doing.is_stopped() || self.until.is_some_and(|u| Instant::now() >= u) {
                    break 'all;
                }
                let at = &all[i];
                let (run, is_old) = self.one_tool(world, step, at, repetition, &metrics)?;
                done += 1;
                fresh += u32::from(!is_old);
                let left = (fresh > 0).then(|| {
                    (begun.elapsed() / fresh).saturating_mul(of.saturating_sub(done) as u32)
                });
                self.ran(&run, is_old, done, of, left);
                out.runs.push(run);
            }
        }
        out.axes = axes.iter().map(|(name, _)| name.clone()).chain([TOOL.to_owned()]).collect();
        out.points = all.iter().map(|at| self.point(at, &out.runs)).collect();
        for figures in &step.published {
            let table = published::read(figures, &doing.options.files)?;
            published::beside(figures, &table, &mut out.points);
        }
        let reason = out.reason.take();
        self.close(out);
        out.reason = out.reason.take().or(reason);
        if done < of && out.outcome != Outcome::Error {
            out.outcome = Outcome::Error;
            out.reason = Some(format!("{done} of {of} runs were made"));
        }
        Ok(())
    }

    fn one_tool(
        &self,
        world: &World<'_>,
        step: &CompareStep,
        at: &At,
        repetition: u32,
        metrics: &[Metric],
    ) -> Result<(RunRef, bool), ScenarioError> {
        let doing = self.doing;
        let key = format!("{}|{}#{repetition}", self.path, key(at));
        let load = compared(step, at, self.name)?;
        let (_, name) = at.last().cloned().unwrap_or_default();
        let Some(tool) = TOOLS.iter().find(|t| t.name == name) else {
            let test =
                TestStep { from: step.from.clone(), to: step.to.clone(), ..TestStep::default() };
            let plan = own_plan(&load);
            let one = OneRun { test: &test, plan: &plan, at, repetition, key, metrics };
            return self.run(&one);
        };
        if let Some(done) = lock(&doing.journal).done(&key) {
            return Ok((done.run.clone(), true));
        }
        let begun = Instant::now();
        let stopped = || doing.is_stopped();
        let found = world.tool(
            tool,
            &load,
            step.from.as_deref(),
            step.to.as_deref(),
            self.until,
            &stopped,
        )?;
        let mut run = RunRef {
            at: at.iter().cloned().collect(),
            repetition,
            tool: Some(name),
            ..RunRef::default()
        };
        match found {
            Ok(figures) => {
                let wanted: Vec<String> = metrics.iter().map(ToString::to_string).collect();
                run.metrics = figures.into_iter().filter(|(n, _)| wanted.contains(n)).collect();
            }
            Err(reason) => run.error = Some(reason),
        }
        if !(doing.is_stopped() && run.error.is_some()) {
            doing.keep(&key, &run, begun.elapsed().as_secs_f64());
        }
        Ok((run, false))
    }

    /// Starts a test in the background.
    fn begin<'s>(
        &self,
        test: &TestStep,
        scope: &'s std::thread::Scope<'s, '_>,
    ) -> Result<(), ScenarioError>
    where
        'd: 's,
    {
        let doing = self.doing;
        let options = doing.options;
        let at = &self.around.at;
        let own: BTreeSet<String> = at.iter().map(|(n, _)| n.clone()).collect();
        let plan = plans::plan(test, at, &own, &options.files, options.words, self.name)?;
        let Place::Real(world) = &doing.place else {
            return Err(ScenarioError::program(
                self.name,
                "a test in the background is not on the virtual clock",
            ));
        };
        let socket = world.socket();
        let key = format!("{}#1", self.path);
        let one = OneRun { test, plan: &plan, at, repetition: 1, key, metrics: &[] };
        let plan = plans::seeded(plan.clone(), options.seed.0, &one.key);
        let job = self.job(&one, plan, Some(socket.clone()));
        let stop = Arc::new(AtomicBool::new(false));
        let state = Arc::new((Mutex::new(BackgroundState::default()), Condvar::new()));
        let background = Background { socket, stop: stop.clone(), state: state.clone() };
        lock(&doing.background).insert(self.name.into(), background);
        scope.spawn(move || {
            let stopped = || stop.load(Ordering::Relaxed) || doing.is_stopped();
            let progress = |progress| {
                lock(&state.0).progress = progress;
                state.1.notify_all();
            };
            let ended = world.test(&job, &stopped, &progress);
            lock(&state.0).ended = Some(ended);
            state.1.notify_all();
        });
        Ok(())
    }

    /// Waits until `enough` of a test in the background, or its end; takes its record at its end.
    fn follow(
        &self,
        name: &str,
        out: &mut StepOutcome,
        enough: &dyn Fn(Progress) -> bool,
    ) -> Result<(), ScenarioError> {
        let state = match lock(&self.doing.background).get(name) {
            Some(background) => background.state.clone(),
            None => {
                return Err(ScenarioError::program(
                    name,
                    "it was not started, or has been waited for",
                ));
            }
        };
        let mut now = lock(&state.0);
        loop {
            if let Some(ended) = now.ended.take() {
                drop(now);
                lock(&self.doing.background).remove(name);
                let metrics = self.metrics(&[])?;
                let run = match ended? {
                    Ok(record) => run_ref(&record, &metrics),
                    Err(reason) => RunRef { error: Some(reason), ..RunRef::default() },
                };
                self.ran(&run, false, 1, 1, None);
                out.runs.push(RunRef { repetition: 1, ..run });
                self.close(out);
                return Ok(());
            }
            if enough(now.progress) {
                return Ok(());
            }
            if self.until.is_some_and(|u| Instant::now() >= u) {
                return Err(ScenarioError::program(self.name, "its time was over"));
            }
            let waited = state.1.wait_timeout(now, Duration::from_millis(20));
            now = waited.unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    fn wait(&self, wait: &WaitStep, out: &mut StepOutcome) -> Result<(), ScenarioError> {
        if let Some(time) = wait.time {
            if !self.doing.options.simulate {
                self.sleep(Duration::from_nanos(time.0));
            }
            return Ok(());
        }
        let Some(test) = &wait.test else { return Ok(()) };
        let asked = wait.bytes.is_some() || wait.packets.is_some();
        self.follow(test, out, &|progress| {
            asked
                && wait.bytes.is_none_or(|b| progress.bytes >= b.0)
                && wait.packets.is_none_or(|p| progress.packets >= p)
        })
    }

    fn start(&self, which: &StopStep) -> Result<(), ScenarioError> {
        control(&self.socket(&which.test)?, "start", which.connection.as_deref())
    }

    fn stop(&self, which: &StopStep, out: &mut StepOutcome) -> Result<(), ScenarioError> {
        let socket = self.socket(&which.test)?;
        if let Some(connection) = &which.connection {
            return control(&socket, "stop", Some(connection));
        }
        // All connections: the test ends in order by itself, with a whole record.
        if control(&socket, "stop", None).is_err()
            && let Some(background) = lock(&self.doing.background).get(&which.test)
        {
            background.stop.store(true, Ordering::Relaxed);
        }
        self.follow(&which.test, out, &|_| false)
    }

    /// The control socket of a test in the background, once it listens.
    fn socket(&self, test: &str) -> Result<std::path::PathBuf, ScenarioError> {
        let (socket, state) = match lock(&self.doing.background).get(test) {
            Some(background) => (background.socket.clone(), background.state.clone()),
            None => {
                return Err(ScenarioError::program(
                    test,
                    "it was not started, or has been waited for",
                ));
            }
        };
        let end = Instant::now() + Duration::from_secs(10);
        while !socket.exists()
            && lock(&state.0).ended.is_none()
            && Instant::now() < end
            && !self.doing.is_stopped()
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(socket)
    }

    /// Judges what is expected of the runs.
    fn expect(&self, out: &mut StepOutcome) {
        if self.rules.is_empty() || out.outcome == Outcome::Skipped {
            return;
        }
        let counted: Vec<&RunRef> =
            out.runs.iter().filter(|r| !r.superseded && r.error.is_none()).collect();
        let mut judged = vec![];
        for rule in &self.rules {
            if out.points.is_empty() {
                judged.push(judge(rule, &BTreeMap::new(), &counted, self.doing.confidence()));
                continue;
            }
            for point in &out.points {
                let values: Vec<(String, String)> = point.at.clone().into_iter().collect();
                if rule.concerns(&values) {
                    let here: Vec<&RunRef> =
                        counted.iter().filter(|r| r.at == point.at).copied().collect();
                    judged.push(judge(rule, &point.at, &here, self.doing.confidence()));
                }
            }
        }
        out.outcome = judged.iter().fold(out.outcome, |all, j| all.and(j.outcome));
        out.expectations = judged;
    }
}

impl<'a> Doing<'a> {
    /// One of several steps at the same time.
    fn together<'s>(
        &'s self,
        step: &Step,
        around: &Around,
        scope: &'s std::thread::Scope<'s, '_>,
    ) -> Vec<StepOutcome> {
        self.steps(std::slice::from_ref(step), around, scope)
    }
}

/// One run of a step.
struct OneRun<'a> {
    test: &'a TestStep,
    plan: &'a Plan,
    at: &'a At,
    repetition: u32,
    /// Its place in the journal.
    key: String,
    metrics: &'a [Metric],
}

/// Weir among the tools, and the axis that names them.
const WEIR: &str = "weir";
const TOOL: &str = "tool";

/// Whether a program is to be found, in the places of administrators' tools too.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(Into::into));
    places.map(|place| place.join(program)).any(|file| file.is_file())
}

/// The load of a point of a comparison.
pub(super) fn compared(step: &CompareStep, at: &At, place: &str) -> Result<Load, ScenarioError> {
    let mut load =
        Load { is_udp: false, size: None, mss: None, connections: 1, rate: None, seconds: 10 };
    let fixed = step.with.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), Into::into);
        (name.clone(), text)
    });
    for (name, value) in fixed.chain(at.iter().cloned()) {
        let refuse = |accepted: &str| {
            ScenarioError::Model(weir_model::ModelError::Field {
                field: format!("{place}.{name}"),
                given: format!("'{value}'"),
                accepted: accepted.into(),
            })
        };
        match name.as_str() {
            "transport" => {
                load.is_udp = match value.as_str() {
                    "udp" => true,
                    "tcp" => false,
                    _ => return Err(refuse("tcp or udp")),
                }
            }
            "size" => load.size = Some(value.parse::<weir_model::units::ByteSize>()?.0.max(1)),
            "mss" => load.mss = Some(value.parse().map_err(|_| refuse("bytes"))?),
            "connections" => {
                let count = value.parse().ok().filter(|n| (1..=128).contains(n));
                load.connections = count.ok_or_else(|| refuse("1 to 128"))?;
            }
            "rate" => {
                load.rate = Some(value.parse::<weir_model::units::BitRate>()?.0).filter(|r| *r > 0)
            }
            "seconds" => {
                let seconds = value.parse().ok().filter(|n| (1..=86_400).contains(n));
                load.seconds = seconds.ok_or_else(|| refuse("1 to 86400, whole seconds"))?;
            }
            TOOL => {}
            _ => return Err(refuse("of transport, size, mss, connections, rate and seconds")),
        }
    }
    if load.is_udp && load.mss.is_some() {
        return Err(ScenarioError::program(place, "mss is TCP's"));
    }
    Ok(load)
}

/// The plan of Weir for the load of the others.
fn own_plan(load: &Load) -> Plan {
    use weir_model::plan::{Connection, Transport};
    use weir_model::units::{BitRate, ByteSize, Span};
    let bits = load.rate.map(|r| SendRate { limit: RateLimit::Bits(BitRate(r)), burst: 1 });
    let connection = Connection {
        transport: if load.is_udp { Transport::Udp } else { Transport::Tcp },
        count: load.connections,
        payload: load.size.map(ByteSize),
        mss: load.mss,
        rate: bits.or(load.is_udp.then_some(SendRate::UNLIMITED)),
        duration: Some(Span::from_seconds(u64::from(load.seconds))),
        ..Connection::default()
    };
    Plan { connections: vec![connection], ..Plan::default() }
}

/// How a reason begins why something is not on the virtual clock.
const NOT_SIMULATED: &str = "not on the virtual clock";

fn simulated(plan: Plan, emulators: &BTreeMap<String, Impairment>) -> Result<Box<Record>, String> {
    let mut impairment = emulators.values().next().cloned().unwrap_or_default();
    // Repetitions are to differ as those of a running emulator do, whose draws go on.
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

/// The terms of a search.
pub(super) fn terms(step: &SearchStep, place: &str) -> Result<Terms, ScenarioError> {
    let rate = |text: &Option<String>, name: &str| -> Result<Option<(f64, bool)>, ScenarioError> {
        let Some(text) = text else { return Ok(None) };
        let parsed: SendRate = text.parse()?;
        match parsed.limit {
            RateLimit::Bits(bits) => Ok(Some((bits.0 as f64, true))),
            RateLimit::Packets(packets) => Ok(Some((packets, false))),
            RateLimit::Unlimited => Err(ScenarioError::program(
                &format!("{place}.{name}"),
                "a rate with an end, such as 100M or 50000pps",
            )),
        }
    };
    let high = rate(&step.high, "high")?.ok_or_else(|| {
        ScenarioError::program(
            &format!("{place}.high"),
            "missing: the greatest rate, such as the line rate",
        )
    })?;
    let low = rate(&step.low, "low")?.unwrap_or((0.0, high.1));
    if low.1 != high.1 || low.0 >= high.0 {
        return Err(ScenarioError::program(
            &format!("{place}.low"),
            "a rate below high, of the same unit",
        ));
    }
    let precision = step.precision_percentage.unwrap_or(1.0) / 100.0;
    if !(precision > 0.0 && precision < 1.0) {
        return Err(ScenarioError::program(
            &format!("{place}.precision_percentage"),
            "above 0 and below 100",
        ));
    }
    Ok(Terms {
        kind: step.kind,
        low: low.0,
        high: high.0,
        unit: if high.1 { "bits_per_second" } else { "packets_per_second" },
        precision,
        seconds: step.trial.seconds(),
        loss: step.loss_percentage / 100.0,
        runs: step.runs.unwrap_or(1),
    })
}
