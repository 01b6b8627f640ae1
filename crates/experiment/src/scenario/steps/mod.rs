//! Execution of a scenario's steps.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use weir_jobs::Command;
use weir_model::experiment::{
    Action, CompareStep, HostUse, Metric, Outcome, Point, Rule, RunRef, Scenario, SearchStep, Step,
    StepOutcome, StopStep, SweepStep, TestStep, WaitStep, check_axes,
};
use weir_model::impairment::Impairment;
use weir_model::plan::Plan;
use weir_model::record::{Crossing, Record};
use weir_model::units::{RateLimit, SendRate};
use weir_net::thread::lock;
use weir_sim::Simulation;

use super::checkpoint::{Checkpoint, StoredRun};
use super::environment::{Environment, Job, NoRecord, Order, Progress, StartGate, Tested};
use super::grid::{AxisValues, block, key, points};
use super::judge::{Intervals, judge, run_ref, summaries};
use super::plans::TestPath;
use super::repetition::Repetition;
use super::tools::{Load, PAYLOAD_SIZE, TOOLS};
use super::{Options, ScenarioError, ScenarioEvent, plans};

mod background;
mod command;
mod compare;
mod content;
mod losses;
mod runs;
mod search;
mod sweep;
mod together;

use command::BackgroundCommand;
pub use compare::is_installed;
pub(super) use compare::{check_compare, compared};
pub(super) use content::check as check_content;
pub(super) use search::check_search;

/// Default metrics of a sweep.
const METRICS: &[&str] = &["throughput", "packet_rate", "loss", "jitter"];
/// Delay between preparing and starting concurrent steps: time to connect and to measure the idle round trip.
const TOGETHER: Duration = Duration::from_millis(2500);
/// Metrics of the sent and the received rate, in bits and in packets.
const RATES_IN_BITS: (&str, &str) = ("sent_throughput", "throughput");
const RATES_IN_PACKETS: (&str, &str) = ("sent_packet_rate", "packet_rate");
/// A sweep stops if its first runs all fail.
const FAILURES: u64 = 3;

/// A background test: runs while other steps do, until a step waits for it.
struct Background {
    name: String,
    /// Takes commands for its connections.
    orders: mpsc::Sender<Order>,
    stop: Arc<AtomicBool>,
    state: Arc<(Mutex<BackgroundState>, Condvar)>,
    /// Its expectations.
    rules: Vec<Rule>,
    /// Values of the enclosing axes.
    at: AxisValues,
}

#[derive(Default)]
struct BackgroundState {
    progress: Progress,
    ended: Option<Result<Result<Tested, NoRecord>, ScenarioError>>,
}

/// Concurrent steps, whose runs are stored together.
struct Unit {
    path: String,
    runs: Vec<StoredRun>,
}

/// Where tests run.
enum Backend<'a> {
    Real(Environment<'a>),
    /// Simulated: the current impairment of each emulator.
    Virtual(Mutex<BTreeMap<String, Impairment>>),
}

/// A running scenario.
pub(super) struct Execution<'a> {
    scenario: &'a Scenario,
    options: &'a Options<'a>,
    backend: Backend<'a>,
    checkpoint: Mutex<Checkpoint>,
    background: Mutex<Vec<Background>>,
    commands: Mutex<Vec<BackgroundCommand>>,
    units: Mutex<Vec<Unit>>,
    /// Deadline of the whole scenario.
    until: Option<Instant>,
    /// The checkpoint could not be written: no further step starts.
    fatal: Mutex<Option<ScenarioError>>,
}

/// The steps around a step.
#[derive(Clone, Default)]
struct StepContext {
    /// Names of the enclosing steps, with the values of their axes.
    path: String,
    /// Values of the enclosing axes.
    at: AxisValues,
    depth: usize,
    /// Concurrent steps start their tests at this time.
    start_at_ns: Option<u64>,
    /// Metrics to sum over concurrent tests.
    metrics: Vec<Metric>,
}

impl<'a> Execution<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        options: &'a Options<'a>,
        checkpoint: Mutex<Checkpoint>,
    ) -> Result<Self, ScenarioError> {
        let backend = if options.simulate {
            let mut emulators = BTreeMap::new();
            for (name, spec) in &scenario.emulators {
                let at = format!("emulator.{name}");
                emulators.insert(name.clone(), options.files.impairment(&spec.initial, &at)?);
            }
            Backend::Virtual(Mutex::new(emulators))
        } else {
            Backend::Real(Environment::make(scenario, options)?)
        };
        Ok(Execution {
            scenario,
            options,
            backend,
            checkpoint,
            background: Mutex::default(),
            commands: Mutex::default(),
            units: Mutex::default(),
            until: scenario.timeout.map(|t| Instant::now() + Duration::from_nanos(t.0)),
            fatal: Mutex::default(),
        })
    }

    /// Runs all steps; returns their outcomes, with those of background tests that no step waited for.
    pub(super) fn all(&self) -> Vec<StepOutcome> {
        let mut interruption = vec![];
        let mut steps = std::thread::scope(|scope| {
            let steps = self.steps(&self.scenario.steps, &StepContext::default(), scope);
            // Background tests that no step waited for stop at the end of the scenario.
            for background in lock(&self.background).iter() {
                interruption.push(lock(&background.state.0).ended.is_none() || self.is_stopped());
                background.stop.store(true, Ordering::Relaxed);
            }
            steps
        });
        steps.extend(self.unstopped());
        let rest = std::mem::take(&mut *lock(&self.background));
        steps.extend(
            rest.into_iter()
                .zip(interruption)
                .map(|(test, interruption)| self.unwaited(test, interruption)),
        );
        steps
    }

    /// Stops the environment. Returns what ended it early, or failed during clean-up.
    pub(super) fn end(mut self) -> Option<ScenarioError> {
        let restored = match &mut self.backend {
            Backend::Real(environment) => environment.restore().err(),
            Backend::Virtual(_) => None,
        };
        self.fatal.into_inner().unwrap_or_else(|e| e.into_inner()).or(restored)
    }

    fn is_stopped(&self) -> bool {
        (self.options.is_stopped)()
            || self.until.is_some_and(|until| Instant::now() >= until)
            || lock(&self.fatal).is_some()
    }

    /// Whether tests run between hosts of a lab.
    /// The agents that the scenario names.
    fn agents(&self) -> plans::Agents<'a> {
        plans::Agents { named: &self.scenario.agents, remote: self.options.remote }
    }

    fn has_lab(&self) -> bool {
        matches!(self.backend, Backend::Real(_)) && self.scenario.lab.is_some()
    }

    fn confidence(&self) -> f64 {
        self.scenario.confidence_percentage / 100.0
    }

    fn steps<'s>(
        &'s self,
        steps: &[Step],
        around: &StepContext,
        scope: &'s std::thread::Scope<'s, '_>,
    ) -> Vec<StepOutcome> {
        let mut out: Vec<StepOutcome> = vec![];
        let mut skipped: Option<String> = None;
        for step in steps {
            // The first step after the deadline reports that the scenario is incomplete.
            let mut is_late = false;
            if skipped.is_none() && self.is_stopped() {
                skipped = Some(match (&*lock(&self.fatal), (self.options.is_stopped)()) {
                    (Some(error), _) => error.to_string(),
                    (None, true) => "the experiment was stopped".into(),
                    (None, false) => {
                        is_late = true;
                        TIME_OVER.into()
                    }
                });
            }
            let (name, action) = (step.name.clone().unwrap_or_default(), step.action());
            let mut outcome = begun(&name, action.map_or("", kind));
            if let Some(reason) = &skipped {
                outcome.outcome = if is_late { Outcome::Error } else { Outcome::Skipped };
                outcome.reason = Some(reason.clone());
                outcome.code = is_late.then(|| StepOutcome::TIME_OVER.into());
                out.push(outcome);
                continue;
            }
            let Some(action) = action else { continue };
            (self.options.tell)(&ScenarioEvent::Began {
                name: &name,
                action: kind(action),
                depth: around.depth,
            });
            let begun = Instant::now();
            let until = step.timeout.map(|t| begun + Duration::from_nanos(t.0));
            let inner = Inner {
                execution: self,
                around,
                name: &name,
                path: match around.path.as_str() {
                    "" => name.clone(),
                    path => format!("{path}/{name}"),
                },
                until: [until, self.until].into_iter().flatten().min(),
                rules: match action {
                    // Its expectations have a grammar of their own.
                    Action::Command(_) => vec![],
                    _ => step.expect.iter().filter_map(|text| text.parse().ok()).collect(),
                },
            };
            if let Err(error) = inner.act(action, &step.expect, &mut outcome, scope) {
                let is_fatal = lock(&self.fatal).is_some();
                if inner.is_interrupted() && !is_fatal {
                    // Interruption is not an error of the step.
                    interrupted(&mut outcome, interrupted_by(&error, &name));
                } else {
                    outcome.outcome = outcome.outcome.and(Outcome::Error);
                    outcome.reason = Some(without_name(&error, &name));
                    if inner.interruption() == Some(Interruption::Late) {
                        outcome.code = Some(StepOutcome::TIME_OVER.into());
                    }
                }
                // Unavailable or not permitted on this system: has an exit code of its own.
                let is_unavailable =
                    matches!(error, ScenarioError::Program { is_unavailable: true, .. });
                if is_unavailable
                    && outcome.outcome == Outcome::Error
                    && !step.keep_going
                    && around.depth == 0
                {
                    lock(&self.fatal).get_or_insert(error);
                }
            }
            // Expectations of a background test are judged when it has finished.
            if !matches!(action, Action::Test(test) if test.background) {
                let intervals = match action {
                    Action::Sweep(sweep) => {
                        let first = inner.metrics(&sweep.metrics).ok();
                        let first = first.and_then(|m| m.first().map(ToString::to_string));
                        let repeat = Repetition::of(sweep, self.confidence());
                        repeat.intervals(&first.unwrap_or_default())
                    }
                    _ => self.confidence().into(),
                };
                inner.expect(&mut outcome, intervals);
            }
            outcome.seconds = begun.elapsed().as_secs_f64();
            outcome.together = outcome.together.or_else(|| together::worst(&outcome.runs));
            (self.options.tell)(&ScenarioEvent::Ended { step: &outcome, depth: around.depth });
            if outcome.outcome == Outcome::Error && !step.keep_going {
                // An error that ends the whole experiment is the more important one.
                let fatal = lock(&self.fatal).as_ref().map(ToString::to_string);
                skipped = Some(fatal.unwrap_or_else(|| format!("step {name} failed to run")));
            }
            out.push(outcome);
        }
        out
    }

    /// The hosts of all tests, those of earlier sessions included.
    pub(super) fn hosts(&self) -> Vec<HostUse> {
        self.keep_hosts();
        lock(&self.checkpoint).hosts().to_vec()
    }

    fn keep_hosts(&self) {
        if let Backend::Real(environment) = &self.backend {
            let hosts = environment.hosts();
            self.write(|checkpoint| checkpoint.saw_hosts(&hosts));
        }
    }

    /// Stores a run in the checkpoint; runs of concurrent steps are stored together.
    fn keep(&self, key: &str, run: &RunRef, seconds: f64) {
        self.keep_hosts();
        let beside = |unit: &&mut Unit| {
            key.strip_prefix(unit.path.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        if let Some(unit) = lock(&self.units).iter_mut().find(beside) {
            unit.runs.push(StoredRun { key: key.into(), run: run.clone(), seconds });
            return;
        }
        self.write(|checkpoint| checkpoint.keep(key, run, seconds));
    }

    /// Writes to the checkpoint; a failure ends the experiment.
    fn write(&self, line: impl FnOnce(&mut Checkpoint) -> std::io::Result<()>) {
        let mut checkpoint = lock(&self.checkpoint);
        if let Err(source) = line(&mut checkpoint) {
            let path = checkpoint.path().map(Into::into).unwrap_or_default();
            lock(&self.fatal).get_or_insert(ScenarioError::File {
                operation: "write",
                path,
                source,
            });
        }
    }
}

impl Execution<'_> {
    /// The store refuses new runs: ends the experiment, since further runs would be lost when it is resumed.
    fn unkept(&self, reason: &str) {
        lock(&self.fatal).get_or_insert(ScenarioError::Program {
            what: "a run was not stored".into(),
            reason: reason.into(),
            is_unavailable: true,
        });
    }
}

/// Why the first step after the deadline does not run.
const TIME_OVER: &str = "the experiment's time was over";

/// The name of a step's action; repetitions at one point are those of a test.
fn kind(action: Action<'_>) -> &'static str {
    match action {
        Action::Sweep(sweep) if sweep.over.is_empty() => "test",
        action => action.name(),
    }
}

/// The outcome of a step that has not started.
fn begun(name: &str, action: &str) -> StepOutcome {
    StepOutcome {
        name: name.into(),
        action: action.into(),
        outcome: Outcome::Done,
        reason: None,
        code: None,
        seconds: 0.0,
        runs: vec![],
        left_out: vec![],
        tools: vec![],
        axes: vec![],
        points: vec![],
        found: vec![],
        together: None,
        output: None,
        stderr: None,
        expectations: vec![],
        steps: vec![],
        interrupted: false,
    }
}

/// Marks a step as interrupted by the user: an incomplete step is not a failure.
fn interrupted(out: &mut StepOutcome, reason: String) {
    out.interrupted = true;
    out.outcome = out.outcome.and(Outcome::Inconclusive);
    out.reason = Some(reason);
}

/// The text of an error of a step, without the step's name, which views put before it.
fn without_name(error: &ScenarioError, name: &str) -> String {
    match error {
        ScenarioError::Program { what, reason, .. } if what == name => reason.clone(),
        error => error.to_string(),
    }
}

/// Why a step is incomplete that ended with this error when it was interrupted.
fn interrupted_by(error: &ScenarioError, name: &str) -> String {
    match without_name(error, name) {
        reason if reason.starts_with("interrupted") => reason,
        reason => format!("interrupted: {reason}"),
    }
}

/// One running step.
struct Inner<'d, 'r, 'a> {
    execution: &'d Execution<'a>,
    around: &'r StepContext,
    name: &'r str,
    /// Its key in the checkpoint.
    path: String,
    until: Option<Instant>,
    rules: Vec<Rule>,
}

/// What ended a step early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interruption {
    /// The experiment was stopped.
    Stopped,
    /// The deadline passed.
    Late,
}

/// Whether the newest run was interrupted.
fn is_interrupted_run(runs: &[RunRef]) -> bool {
    runs.last().is_some_and(|run| run.interrupted)
}

/// Why a step is incomplete: counts complete, interrupted and failed runs.
fn unmade(runs: &[RunRef], of: u64, interruption: Option<Interruption>) -> String {
    let why = match interruption {
        Some(Interruption::Stopped) => "interrupted: ",
        Some(Interruption::Late) => "its time was over: ",
        None => "",
    };
    let counted = || runs.iter().filter(|run| !run.superseded);
    let whole = counted().filter(|run| run.error.is_none()).count();
    let is_short = is_interrupted_run(runs);
    if of == 1 && whole == 0 && (is_short || runs.is_empty()) && interruption.is_some() {
        return format!("{why}the run was {}", if is_short { "cut short" } else { "not made" });
    }
    // The attempt before an interrupted one was to be repeated, and is in no figures.
    let is_counted = is_short && runs.last().is_some_and(|run| !run.superseded);
    let failed = counted().count() - whole - usize::from(is_counted);
    let mut words = format!("{why}{whole} of {of} runs were made");
    if is_short {
        words += ", 1 was cut short";
    }
    if failed > 0 {
        words += &format!(", {failed} failed");
    }
    words
}

impl<'d> Inner<'d, '_, '_> {
    /// What ended the step early, if anything did.
    fn interruption(&self) -> Option<Interruption> {
        let is_late = || self.until.is_some_and(|until| Instant::now() >= until);
        match self.is_interrupted() {
            true => Some(Interruption::Stopped),
            false => is_late().then_some(Interruption::Late),
        }
    }

    /// Adds the reason to a step with fewer than `of` runs, unless an error already says why.
    fn close_unmade(&self, out: &mut StepOutcome, of: u64) {
        if out.outcome == Outcome::Error {
            return;
        }
        match (self.unmade(&out.runs, of), self.interruption()) {
            (Some(reason), Some(Interruption::Stopped)) => interrupted(out, reason),
            (Some(reason), late) => {
                (out.outcome, out.reason) = (Outcome::Error, Some(reason));
                out.code = late.map(|_| StepOutcome::TIME_OVER.into());
            }
            (None, _) => {}
        }
    }

    /// Why fewer than `of` runs finished because the step ended early; absent if all finished, with any result.
    fn unmade(&self, runs: &[RunRef], of: u64) -> Option<String> {
        let ended = runs.iter().filter(|run| !run.superseded).count() as u64;
        let interruption = self.interruption();
        (ended < of || is_interrupted_run(runs)).then(|| unmade(runs, of, interruption))
    }

    fn act<'s>(
        &self,
        action: Action<'_>,
        expect: &[String],
        out: &mut StepOutcome,
        scope: &'s std::thread::Scope<'s, '_>,
    ) -> Result<(), ScenarioError>
    where
        'd: 's,
    {
        let execution = self.execution;
        match action {
            // A simulated test ends immediately.
            Action::Test(test) if test.background && execution.options.simulate => {
                self.not_simulated(out, "a test in the background")
            }
            Action::Test(test) if test.background => self.begin(test, scope),
            Action::Test(test) => {
                self.tests(test, out)?;
                let wanted = test.runs.unwrap_or(1);
                // A single run reports the reason itself.
                let is_told = wanted == 1 && !out.runs.is_empty();
                let unmade = self.unmade(&out.runs, wanted.into());
                match unmade.filter(|_| !is_told && !out.interrupted) {
                    Some(reason) if self.is_interrupted() && out.outcome != Outcome::Error => {
                        interrupted(out, reason);
                    }
                    Some(reason) => return Err(ScenarioError::program(self.name, &reason)),
                    None => {}
                }
                Ok(())
            }
            Action::Sweep(sweep) => self.sweep(sweep, out),
            Action::Search(terms) => self.search(terms, out),
            Action::Compare(compare) => self.compare(compare, out),
            Action::Stop(StopStep { command: Some(command), .. }) => {
                self.stop_command(command, out)
            }
            Action::Wait(WaitStep { test: Some(_), .. }) | Action::Start(_) | Action::Stop(_)
                if execution.options.simulate =>
            {
                self.not_simulated(out, "a test in the background")
            }
            Action::Wait(wait) => self.wait(wait, out),
            Action::Start(which) => self.start(which),
            Action::Stop(which) => self.stop(which, out),
            Action::Impair(step) => {
                let to = plans::impairment(step, &vec![], &execution.options.files, self.name)?;
                self.impair(step.emulator.as_deref(), to)
            }
            Action::Command(command) => self.command(command, expect, out),
            Action::Collect(collect) => {
                if let Some(path) = &collect.file {
                    let path = execution.options.files.path(path);
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
                    let Backend::Real(environment) = &execution.backend else {
                        return self.not_simulated(out, "counters of a running emulator");
                    };
                    out.output = Some(environment.stats(name)?.to_string());
                }
                Ok(())
            }
            Action::Parallel(steps) => {
                self.parallel(steps, out);
                Ok(())
            }
            Action::Repeat(repeat) => {
                let axes = check_axes(&repeat.over, self.name)?;
                let times = repeat.times.unwrap_or(1);
                for at in points(&axes) {
                    for n in 1..=times {
                        let all: AxisValues = [self.around.at.clone(), at.clone()].concat();
                        let steps: Vec<Step> = plans::at_point(&repeat.steps, &all, self.name)?;
                        let mut label = key(&at);
                        if times > 1 {
                            label = format!("{label} {n}").trim().into();
                        }
                        let around = StepContext {
                            path: format!("{} [{label}]", self.path),
                            at: all,
                            depth: self.around.depth + 1,
                            start_at_ns: None,
                            metrics: vec![],
                        };
                        let mut done = execution.steps(&steps, &around, scope);
                        done.iter_mut().for_each(|s| s.name = format!("{} [{label}]", s.name));
                        place(&mut done, &at);
                        out.steps.append(&mut done);
                    }
                }
                out.outcome = out.steps.iter().fold(out.outcome, |all, s| all.and(s.outcome));
                out.interrupted = out.steps.iter().any(|s| s.interrupted);
                Ok(())
            }
        }
    }

    fn not_simulated(&self, out: &mut StepOutcome, what: &str) -> Result<(), ScenarioError> {
        out.outcome = Outcome::Skipped;
        out.reason = Some(format!("can't be simulated: {what}"));
        out.code = Some(StepOutcome::NOT_SIMULATED.into());
        Ok(())
    }

    fn impair(&self, emulator: Option<&str>, to: Option<Impairment>) -> Result<(), ScenarioError> {
        match &self.execution.backend {
            Backend::Real(environment) => environment.impair(emulator, &to.unwrap_or_default()),
            Backend::Virtual(emulators) => {
                let mut emulators = lock(emulators);
                let name = emulator.map(Into::into).or_else(|| emulators.keys().next().cloned());
                if let Some(name) = name {
                    emulators.insert(name, to.unwrap_or_default());
                }
                Ok(())
            }
        }
    }

    fn ran(&self, run: &RunRef, is_old: bool, done: u64, of: u64, left: Option<Duration>) {
        (self.execution.options.tell)(&ScenarioEvent::Ran {
            step: self.name,
            run,
            is_old,
            done,
            of,
            point: None,
            around: &self.around.at,
            rates: RATES_IN_BITS,
            left,
        });
    }

    /// Sleeps; false if interrupted.
    fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.execution.is_stopped() && self.until.is_none_or(|until| Instant::now() < until)
        {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
        Instant::now() >= end
    }
}

/// One run of a step.
struct SingleRun<'a> {
    test: &'a TestStep,
    plan: &'a Plan,
    at: &'a AxisValues,
    repetition: u32,
    /// Its key in the checkpoint.
    key: String,
    metrics: &'a [Metric],
    /// The first run of its step: it starts together with concurrent steps. Later ones start when they are ready.
    is_first: bool,
}

/// Adds the axes of a repetition to what the steps inside of it measured.
fn place(steps: &mut [StepOutcome], around: &AxisValues) {
    for step in steps {
        let runs = step.runs.iter_mut().map(|run| &mut run.at);
        let points = step.points.iter_mut().map(|point| &mut point.at);
        let left_out = step.left_out.iter_mut().map(|left_out| &mut left_out.at);
        for at in runs.chain(points).chain(left_out) {
            at.extend(around.iter().cloned());
        }
        place(&mut step.steps, around);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_neither_its_step_nor_the_interruption_twice() {
        let of = |what: &str, reason: &str| {
            let error = ScenarioError::program(what, reason);
            (without_name(&error, "udp"), interrupted_by(&error, "udp"))
        };
        assert_eq!(of("udp", "interrupted"), ("interrupted".into(), "interrupted".into()));
        assert_eq!(of("udp", "late"), ("late".into(), "interrupted: late".into()));
        assert_eq!(
            of("iperf3", "late"),
            ("iperf3: late".into(), "interrupted: iperf3: late".into())
        );
    }

    #[test]
    fn runs_that_were_not_made_have_a_reason_and_one_that_was_cut_short_is_not_whole() {
        let whole = RunRef::default();
        let failed = RunRef { error: Some("no".into()), ..RunRef::default() };
        let short = RunRef { interrupted: true, ..failed.clone() };
        let again = RunRef { superseded: true, ..failed.clone() };
        let short_again = RunRef { superseded: true, ..short.clone() };
        let (stopped, late) = (Some(Interruption::Stopped), Some(Interruption::Late));
        for (runs, interruption, wanted) in [
            (vec![&whole, &whole], stopped, "interrupted: 2 of 40 runs were made"),
            (vec![&whole, &short], stopped, "interrupted: 1 of 40 runs were made, 1 was cut short"),
            // A run that failed before the stop was not interrupted.
            (vec![&whole, &failed], stopped, "interrupted: 1 of 40 runs were made, 1 failed"),
            (
                vec![&whole, &short],
                late,
                "its time was over: 1 of 40 runs were made, 1 was cut short",
            ),
            (vec![&failed, &whole], late, "its time was over: 1 of 40 runs were made, 1 failed"),
            (vec![&again, &whole], late, "its time was over: 1 of 40 runs were made"),
            (
                vec![&whole, &short_again],
                stopped,
                "interrupted: 1 of 40 runs were made, 1 was cut short",
            ),
            (
                vec![&failed, &whole, &failed, &short],
                stopped,
                "interrupted: 1 of 40 runs were made, 1 was cut short, 2 failed",
            ),
            (vec![&whole, &failed], None, "1 of 40 runs were made, 1 failed"),
            (vec![], stopped, "interrupted: 0 of 40 runs were made"),
        ] {
            let runs: Vec<RunRef> = runs.into_iter().cloned().collect();
            assert_eq!(unmade(&runs, 40, interruption), wanted);
        }
        assert_eq!(unmade(&[short], 1, stopped), "interrupted: the run was cut short");
        assert_eq!(unmade(&[], 1, late), "its time was over: the run was not made");
    }
}
