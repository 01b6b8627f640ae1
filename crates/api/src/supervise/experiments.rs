//! Running experiments: `weir run` and `weir sweep` processes. The same id identifies the experiment here, in the
//! store, and as a label of its runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use weir_jobs::{Event, Job, ResumeJob, ScenarioJob};
use weir_model::experiment::{Experiment, Outcome};
use weir_model::record::Status;

use super::launcher::Started;
use super::orders::Order;
use super::output::{JobOutcome, follow};
use super::{beyond, stored};
use crate::app::{App, Shared, lock};
use crate::clock;
use crate::handlers::heavy;
use crate::problem::Problem;
use crate::types::{ExperimentState, ObjectKind, State, StateEvent};

/// Maximum number of progress lines.
const MAX_LINES: usize = 200;

/// All experiments, by id.
#[derive(Debug, Default)]
pub(crate) struct Experiments(Mutex<BTreeMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    state: ExperimentState,
    pid: Option<u32>,
    /// The file or directory created for it; deleted at its end.
    made_of: Option<PathBuf>,
    /// It was found in the store: an earlier server or the command line started it.
    is_of_earlier: bool,
    /// Its outcome is read from the store on request, since it may have megabytes.
    is_outcome_kept: bool,
    /// It can't be resumed any more.
    has_ended: bool,
    /// Its state before it was resumed.
    before: Option<BeforeResume>,
    /// It was removed from the list, and is dropped when it has ended.
    is_forgotten: bool,
}

/// The state of an experiment before it was resumed: restored if the new session reports nothing and makes no run.
#[derive(Debug)]
struct BeforeResume {
    state: ExperimentState,
    is_outcome_kept: bool,
    /// Number of runs in its checkpoint, if readable.
    noted_runs: Option<u64>,
}

impl Entry {
    /// Whether a result that was found differs from the state here.
    fn differs(&self, found: &ExperimentState) -> bool {
        found.verdict.is_some()
            && (found.state, found.verdict) != (self.state.state, self.state.verdict)
    }

    /// Replaces the state with one that was found, except for its progress.
    fn renew(&mut self, found: ExperimentState) {
        let progress = std::mem::take(&mut self.state.progress);
        self.state = ExperimentState { progress, ..found };
        self.is_outcome_kept = true;
    }
}

impl Experiments {
    /// All, newest first, without their outcomes.
    pub(crate) fn list(&self) -> Vec<ExperimentState> {
        let all = lock(&self.0);
        let shown = all.values().rev().filter(|e| !e.is_forgotten);
        shown.map(|e| ExperimentState { outcome: None, ..e.state.clone() }).collect()
    }

    /// One experiment, even if it is being stopped after its removal from the list; its outcome only if this server
    /// received it.
    fn get(&self, id: &str) -> Result<ExperimentState, Problem> {
        Ok(self.look(id)?.0)
    }

    /// The same, and whether its outcome has to be read from the store.
    fn look(&self, id: &str) -> Result<(ExperimentState, bool), Problem> {
        let all = lock(&self.0);
        let entry = all.get(id).ok_or_else(|| Problem::missing("experiment", id))?;
        let is_elsewhere = entry.is_outcome_kept && entry.state.outcome.is_none();
        Ok((entry.state.clone(), is_elsewhere))
    }

    /// One experiment with the outcome that was read from the store, if that belongs to its current state: it may
    /// have been resumed since.
    fn with(&self, id: &str, read: Option<Experiment>) -> Result<ExperimentState, Problem> {
        let (mut state, is_elsewhere) = self.look(id)?;
        if is_elsewhere {
            state.outcome = read.filter(|read| is_told(&state, read));
        }
        Ok(state)
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        lock(&self.0).contains_key(id)
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = lock(&self.0).get_mut(id) {
            change(entry);
        }
    }

    /// Removes an experiment from the list. A running one is dropped when its end was reported.
    pub(crate) fn forget(&self, id: &str) {
        let mut all = lock(&self.0);
        match all.get_mut(id) {
            Some(entry) if !entry.state.state.is_over() => entry.is_forgotten = true,
            _ => {
                let made_of = all.remove(id).and_then(|e| e.made_of);
                made_of.iter().for_each(|path| remove(path));
            }
        }
    }

    /// Resuming failed to start: restores the former state, or drops the experiment if it was removed meanwhile.
    fn not_begun(&self, id: &str) {
        let mut is_forgotten = false;
        self.change(id, |entry| {
            if let Some(before) = entry.before.take() {
                (entry.state, entry.is_outcome_kept) = (before.state, before.is_outcome_kept);
            }
            is_forgotten = entry.is_forgotten;
        });
        if is_forgotten {
            self.forget(id);
        }
    }

    /// Marks a stored experiment as not resumable, since it was completed elsewhere (`found` is its state) or its checkpoint is missing. Returns whether that is a change.
    pub(super) fn settle(&self, id: &str, found: Option<ExperimentState>, words: &str) -> bool {
        let mut all = lock(&self.0);
        // A running one reports its end itself.
        let Some(entry) = all.get_mut(id).filter(|e| e.state.state.is_over()) else { return false };
        entry.has_ended = true;
        let could_go_on = std::mem::take(&mut entry.state.resumable);
        let found = found.filter(|found| could_go_on || entry.differs(found));
        let is_news = could_go_on || found.is_some();
        if let Some(found) = found {
            entry.renew(ExperimentState { resumable: false, ..found });
        }
        if is_news {
            entry.state.progress.push(words.into());
        }
        is_news
    }

    /// The result of a resumable experiment was rewritten by another program. Returns whether that is a change.
    pub(super) fn renew(&self, found: ExperimentState) -> bool {
        let mut all = lock(&self.0);
        let entry = all.get_mut(&found.id).filter(|e| e.state.state.is_over());
        let Some(entry) = entry.filter(|e| e.differs(&found)) else { return false };
        entry.renew(found);
        true
    }

    /// Those that can be resumed here or, if the command line started them, by `weir run --resume`.
    pub(super) fn unsettled(&self) -> BTreeSet<String> {
        let all = lock(&self.0);
        let is_open = |e: &Entry| {
            let is_elsewhere = e.is_of_earlier && e.state.state.is_over();
            e.state.resumable || (is_elsewhere && e.state.state != State::Ended)
        };
        let open = all.iter().filter(|(_, e)| is_open(e) && !e.is_forgotten);
        open.map(|(id, _)| id.clone()).collect()
    }

    /// Adds a stored experiment, unless it is listed already.
    pub(super) fn take_up(&self, state: ExperimentState) {
        let entry = Entry {
            pid: None,
            made_of: None,
            is_of_earlier: true,
            is_outcome_kept: state.verdict.is_some(),
            has_ended: state.state == State::Ended,
            before: None,
            is_forgotten: false,
            state,
        };
        lock(&self.0).entry(entry.state.id.clone()).or_insert(entry);
    }

    /// Removes the oldest finished ones beyond a number.
    pub(super) fn tidy(&self, most: usize) {
        let over: Vec<String> = {
            let all = lock(&self.0);
            let ended = all.values().map(|e| &e.state).filter(|s| s.state.is_over());
            beyond(most, ended.map(|s| (s.ended_at.as_ref().unwrap_or(&s.asked_at), &s.id)))
        };
        over.iter().for_each(|id| self.forget(id));
    }
}

fn remove(path: &Path) {
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}

/// An experiment with its outcome, also one that is stored but not listed.
pub(crate) async fn get(app: &Shared, id: &str) -> Result<ExperimentState, Problem> {
    let Ok((state, is_elsewhere)) = app.experiments.look(id) else {
        let mut state = stored::kept(app, id).await?;
        // Without a verdict, the stored result is not its outcome.
        if state.verdict.is_some() {
            let (looking, kept) = (app.clone(), id.to_owned());
            state.outcome = heavy(app, move || Ok(stored::outcome(&looking, &kept))).await?;
        }
        return Ok(state);
    };
    if !is_elsewhere {
        return Ok(state);
    }
    let (looking, kept) = (app.clone(), id.to_owned());
    let outcome = heavy(app, move || {
        let found = stored::outcome(&looking, &kept);
        // Another program has resumed it since.
        if found.as_ref().is_some_and(|found| !is_told(&state, found)) {
            stored::renew(&looking, &kept);
        }
        Ok(found)
    });
    app.experiments.with(id, outcome.await?)
}

/// Whether a result belongs to an experiment in this state.
fn is_told(state: &ExperimentState, outcome: &Experiment) -> bool {
    (state_of(outcome.status), Some(outcome.outcome)) == (state.state, state.verdict)
}

/// The outcome of an experiment that has ended.
pub(crate) async fn outcome(app: &Shared, id: &str) -> Result<Experiment, Problem> {
    let state = get(app, id).await?;
    state.outcome.ok_or_else(|| match state.state {
        State::Failed => {
            Problem::conflict("no-result", "the experiment failed before its first result")
        }
        State::Ended => {
            Problem::conflict("no-result", "the experiment's result is missing in the store")
        }
        State::Interrupted => {
            Problem::conflict("no-result", "the experiment ended without a result")
        }
        _ => Problem::conflict("not-ended", "the experiment has not ended yet"),
    })
}

/// The state of an experiment with this status.
pub(super) fn state_of(status: Status) -> State {
    match status {
        Status::Complete => State::Ended,
        Status::Partial => State::Failed,
        Status::Interrupted => State::Interrupted,
    }
}

/// Why an experiment is incomplete: the message of the step that failed to run.
pub(super) fn reason_of<'a>(mut steps: impl Iterator<Item = (Outcome, Option<&'a str>)>) -> String {
    let step = steps.find(|(outcome, _)| *outcome == Outcome::Error);
    step.and_then(|(_, reason)| reason).unwrap_or("a step could not be done").into()
}

/// Refuses more than the maximum number of running experiments.
fn refuse_too_many(all: &BTreeMap<String, Entry>, most: usize) -> Result<(), Problem> {
    let running = all.values().filter(|e| !e.state.state.is_over()).count();
    if running < most {
        return Ok(());
    }
    let words = format!("the limit of {running} running experiments is reached");
    Err(Problem::conflict("limit", words))
}

/// Starts an experiment and watches it; `job` makes the job for its id. The files that it is `made_of` are deleted at
/// its end, or when it can't be resumed any more.
pub(crate) async fn start(
    app: &Shared,
    name: &str,
    title: Option<String>,
    job: impl FnOnce(String) -> ScenarioJob,
    made_of: Option<PathBuf>,
) -> Result<ExperimentState, Problem> {
    let limits = app.config.limits;
    app.experiments.tidy(limits.ended_kept);
    let id = {
        let mut all = lock(&app.experiments.0);
        if let Err(problem) = refuse_too_many(&all, limits.experiments) {
            made_of.iter().for_each(|path| remove(path));
            return Err(problem);
        }
        let mut id = clock::new_id();
        while all.contains_key(&id) {
            id = clock::new_id();
        }
        let state = ExperimentState {
            id: id.clone(),
            state: State::Starting,
            name: name.into(),
            title,
            asked_at: clock::now(),
            ended_at: None,
            progress: vec![],
            verdict: None,
            outcome: None,
            exit_code: None,
            error: None,
            resumable: false,
        };
        let entry = Entry {
            state,
            pid: None,
            made_of,
            is_of_earlier: false,
            is_outcome_kept: false,
            has_ended: false,
            before: None,
            is_forgotten: false,
        };
        all.insert(id.clone(), entry);
        id
    };
    let job = Job::Scenario(Box::new(job(id.clone())));
    match app.launcher.start(Order::job(job)).await {
        Ok(started) => begun(app, id, started).await,
        Err(problem) => {
            app.experiments.change(&id, |e| e.state.state = State::Failed);
            app.experiments.forget(&id);
            Err(problem)
        }
    }
}

/// Resumes an incomplete experiment of this server, an earlier one, or the command line. Its result has the runs of
/// all its sessions.
pub(crate) async fn resume(app: &Shared, id: &str) -> Result<ExperimentState, Problem> {
    if !app.experiments.knows(id) {
        app.experiments.take_up(stored::kept(app, id).await?);
    }
    let before = app.experiments.get(id)?;
    if !before.state.is_over() {
        return Err(Problem::conflict("not-ended", format!("experiment {id} has not ended yet")));
    }
    let (is_of_earlier, has_ended) = {
        let all = lock(&app.experiments.0);
        all.get(id).map_or((false, false), |e| (e.is_of_earlier, e.has_ended))
    };
    // An earlier server's experiment is checked again now, so that the refusal is up to date.
    if !before.resumable && (has_ended || !is_of_earlier) {
        let (kind, why_not) = match &before.outcome {
            Some(outcome) if outcome.simulated => ("simulated", "was simulated, and is not stored"),
            None if !has_ended => ("no-result", "failed before its first result"),
            _ => ("complete", "is complete, or its checkpoint is missing"),
        };
        let words = format!("experiment {id} can't be resumed: it {why_not}");
        return Err(Problem::conflict(kind, words));
    }
    let (looking, looked_at) = (app.clone(), id.to_owned());
    let looked = heavy(app, move || {
        stored::check(&looking, &looked_at, is_of_earlier)?;
        Ok(stored::noted_runs(&looking, &looked_at))
    });
    let noted_runs = looked.await?;
    {
        let mut all = lock(&app.experiments.0);
        refuse_too_many(&all, app.config.limits.experiments)?;
        // It may have been removed, or resumed, while its checkpoint was read.
        let entry = all.get_mut(id).filter(|e| !e.is_forgotten);
        let entry = entry.ok_or_else(|| Problem::missing("experiment", id))?;
        if !entry.state.state.is_over() {
            return Err(Problem::conflict(
                "not-ended",
                format!("experiment {id} has not ended yet"),
            ));
        }
        entry.before = Some(BeforeResume {
            state: entry.state.clone(),
            is_outcome_kept: entry.is_outcome_kept,
            noted_runs,
        });
        entry.is_outcome_kept = false;
        entry.state = ExperimentState {
            state: State::Starting,
            ended_at: None,
            verdict: None,
            outcome: None,
            exit_code: None,
            error: None,
            resumable: false,
            ..entry.state.clone()
        };
        add_line(&mut entry.state.progress, format!("resumed at {}", clock::now()));
    }
    match app.launcher.start(Order::job(Job::Resume(ResumeJob { id: id.into() }))).await {
        Ok(started) => begun(app, id.into(), started).await,
        Err(problem) => {
            app.experiments.not_begun(id);
            Err(problem)
        }
    }
}

/// Its process has started.
async fn begun(app: &Shared, id: String, started: Started) -> Result<ExperimentState, Problem> {
    let pid = started.pid;
    // It may have been stopped or removed before its process was started.
    let mut is_stopped = false;
    app.experiments.change(&id, |e| {
        e.pid = Some(pid);
        is_stopped = e.is_forgotten || e.state.state == State::Ending;
        if !is_stopped {
            e.state.state = State::Running;
        }
    });
    if is_stopped {
        let _ = app.launcher.order(Order::Stop { pid }).await;
    }
    tell(app, &id);
    tokio::spawn(watch(app.clone(), id.clone(), started));
    app.experiments.get(&id)
}

pub(super) fn tell(app: &App, id: &str) {
    let Some(state) = lock(&app.experiments.0).get(id).map(|e| e.state.clone()) else { return };
    app.hub.state(&StateEvent {
        kind: ObjectKind::Experiments,
        id: state.id,
        state: state.state,
        error: state.error,
        run_id: None,
        step: state.progress.last().cloned(),
    });
}

fn add_line(progress: &mut Vec<String>, line: String) {
    if progress.len() >= MAX_LINES {
        progress.remove(0);
    }
    progress.push(line);
}

async fn watch(app: Shared, id: String, started: Started) {
    let came = follow(started, |event| {
        let (Event::Progress(notice) | Event::Warning(notice)) = event else { return };
        let line = notice.message.chars().take(1000).collect();
        app.experiments.change(&id, |entry| add_line(&mut entry.state.progress, line));
        tell(&app, &id);
    })
    .await;
    let outcome: Option<Experiment> =
        came.result.as_ref().and_then(|result| weir_model::document::read(result).ok());
    let kept = weir_runs::Experiments::of(&app.config.data);
    let left = {
        let (app, id) = (app.clone(), id.clone());
        // A checkpoint without a complete result can be resumed, also that of a killed program.
        tokio::task::spawn_blocking(move || {
            (kept.is_open(&id), kept.result(&id).exists(), stored::noted_runs(&app, &id))
        })
        .await
    };
    let (is_open, has_result, noted_runs) = left.unwrap_or_default();
    let is_complete = outcome.as_ref().is_some_and(|o| o.status == Status::Complete);
    let resumable = is_open && !is_complete;
    let mut given_up = None;
    app.experiments.change(&id, |entry| {
        entry.pid = None;
        entry.has_ended = !resumable && (outcome.is_some() || entry.is_of_earlier);
        let before = entry.before.take();
        // The result of an earlier session lacks the runs of this one.
        let both = before.as_ref().and_then(|before| before.noted_runs.zip(noted_runs));
        let has_grown = both.is_some_and(|(before, now)| now > before);
        // The result of an earlier session, if this one has none.
        entry.is_outcome_kept = outcome.is_none() && has_result && !has_grown;
        let state = &mut entry.state;
        let (how, error) = ended(outcome.as_ref(), &came, resumable);
        // It was refused or killed before any run: the former state stays.
        if let Some(before) = before.filter(|_| outcome.is_none() && !has_grown) {
            let progress = std::mem::take(&mut state.progress);
            let before = before.state;
            let error = error.map(|why| not_gone_on(before.error.as_deref(), &why));
            *state = ExperimentState { progress, resumable, error, ..before };
        } else {
            state.ended_at = Some(clock::now());
            state.exit_code = came.exit.and_then(|e| e.code);
            state.resumable = resumable;
            state.verdict = outcome.as_ref().map(|o| o.outcome);
            (state.state, state.error) = (how, error);
            state.outcome = outcome;
        }
        if !resumable {
            given_up = entry.made_of.take();
        }
    });
    given_up.iter().for_each(|path| remove(path));
    tell(&app, &id);
    if lock(&app.experiments.0).get(&id).is_some_and(|e| e.is_forgotten) {
        app.experiments.forget(&id);
    }
}

/// The messages of a failed attempt to resume, after the experiment's own; only the latest attempt's.
fn not_gone_on(told: Option<&str>, why: &str) -> String {
    const TRIED: &str = "it could not be resumed: ";
    let told = told.and_then(|told| told.split(TRIED).next()).unwrap_or_default();
    let mark = if told.is_empty() || told.ends_with("; ") { "" } else { "; " };
    format!("{told}{mark}{TRIED}{why}")
}

/// The final state, and why it is incomplete.
fn ended(
    outcome: Option<&Experiment>,
    came: &JobOutcome,
    resumable: bool,
) -> (State, Option<String>) {
    let Some(outcome) = outcome else {
        // It was killed: there is no exit code.
        let is_killed = came.exit.and_then(|e| e.code).is_none();
        let state = if is_killed && resumable { State::Interrupted } else { State::Failed };
        return (state, Some(came.why().message));
    };
    let state = state_of(outcome.status);
    let steps = outcome.steps.iter().map(|s| (s.outcome, s.reason.as_deref()));
    (state, (state == State::Failed).then(|| reason_of(steps)))
}

/// Stops an experiment.
pub(crate) async fn stop(app: &Shared, id: &str) -> Result<ExperimentState, Problem> {
    if app.experiments.get(id)?.state.is_over() {
        return app.experiments.get(id);
    }
    let mut pid = None;
    app.experiments.change(id, |entry| {
        if !entry.state.state.is_over() {
            entry.state.state = State::Ending;
            pid = entry.pid;
        }
    });
    tell(app, id);
    // A finished one needs no stopping; one without a process yet is stopped when that has started.
    if let Some(pid) = pid {
        let _ = app.launcher.order(Order::Stop { pid }).await;
    }
    app.experiments.get(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_try_is_reported_behind_what_was_reported() {
        let first = not_gone_on(Some("no peer"), "busy");
        assert!(first.starts_with("no peer; ") && first.ends_with(": busy"), "{first}");
        let second = not_gone_on(Some(&first), "killed");
        assert_eq!(second, first.replace("busy", "killed"));
        let alone = not_gone_on(None, "busy");
        assert_eq!(format!("no peer; {alone}"), first);
        assert_eq!(not_gone_on(Some(&alone), "killed"), alone.replace("busy", "killed"));
    }

    #[tokio::test]
    async fn one_that_is_stopped_before_its_program_is_there_does_not_run() {
        let (_, app) = crate::server::for_tests();
        let id = "1-x";
        app.experiments.take_up(ExperimentState {
            id: id.into(),
            state: State::Starting,
            name: "x".into(),
            title: None,
            asked_at: "T".into(),
            ended_at: None,
            progress: vec![],
            verdict: None,
            outcome: None,
            exit_code: None,
            resumable: false,
            error: None,
        });
        assert_eq!(stop(&app, id).await.unwrap().state, State::Ending);
        let (_end, exit) = tokio::sync::oneshot::channel();
        let begun = begun(&app, id.into(), Started { pid: 7, exit, output: None }).await;
        assert_eq!(begun.unwrap().state, State::Ending);
    }

    #[tokio::test]
    async fn what_came_of_it_before_is_not_reported_of_one_that_is_being_resumed() {
        let (_, app) = crate::server::for_tests();
        let id = "1-x";
        let text = serde_json::json!({
            "schema": "weir.experiment/1", "id": id, "version": "0", "name": "x", "started_at": "T",
            "seconds": 1.0, "status": "interrupted", "command": [], "seed": "0x7", "steps": [], "outcome": "passed",
        });
        let kept = weir_runs::Experiments::prepare(&app.config.data).unwrap();
        kept.keep(id, &text.to_string()).unwrap();
        app.experiments.take_up(ExperimentState {
            id: id.into(),
            state: State::Interrupted,
            name: "x".into(),
            title: None,
            asked_at: "T".into(),
            ended_at: None,
            progress: vec![],
            verdict: Some(Outcome::Passed),
            outcome: None,
            exit_code: None,
            resumable: true,
            error: None,
        });
        assert!(get(&app, id).await.unwrap().outcome.is_some());
        // It is resumed before its outcome could be read.
        let all = app.heavy.clone().acquire_many_owned(4).await.unwrap();
        let asking = tokio::spawn({
            let app = app.clone();
            async move { get(&app, id).await }
        });
        tokio::task::yield_now().await;
        assert!(!asking.is_finished());
        app.experiments.change(id, |e| {
            (e.state.state, e.state.verdict, e.is_outcome_kept) = (State::Starting, None, false);
        });
        drop(all);
        let told = asking.await.unwrap().unwrap();
        assert_eq!((told.state, told.outcome.is_none()), (State::Starting, true));
    }

    #[test]
    fn what_could_not_be_begun_stands_as_before_or_is_gone_when_it_was_forgotten() {
        let all = Experiments::default();
        for id in ["1-stays", "2-forgotten"] {
            let stood = ExperimentState {
                id: id.into(),
                state: State::Interrupted,
                name: "x".into(),
                title: None,
                asked_at: "T".into(),
                ended_at: None,
                progress: vec![],
                verdict: Some(Outcome::Passed),
                outcome: None,
                exit_code: None,
                resumable: true,
                error: None,
            };
            all.take_up(stood.clone());
            all.change(id, |e| {
                e.before =
                    Some(BeforeResume { state: stood, is_outcome_kept: true, noted_runs: None });
                (e.state.state, e.state.verdict) = (State::Starting, None);
            });
        }
        all.forget("2-forgotten");
        assert!(all.knows("2-forgotten"), "it is being begun");
        all.not_begun("1-stays");
        all.not_begun("2-forgotten");
        let stays = all.get("1-stays").unwrap();
        assert_eq!((stays.state, stays.verdict), (State::Interrupted, Some(Outcome::Passed)));
        assert!(!all.knows("2-forgotten"));
    }
}
