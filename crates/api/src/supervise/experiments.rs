//! Experiments that run: `weir run` and `weir sweep` programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;

use weir_model::experiment::Experiment;
use weir_model::record::Status;

use super::earlier;
use super::launcher::Started;
use super::orders::Order;
use super::output::{Line, error_in, keep_words};
use crate::app::{App, Shared, lock};
use crate::clock;
use crate::handlers::heavy;
use crate::problem::Problem;
use crate::types::{ExperimentState, Kind, State, StateEvent};

/// Most lines of progress that are kept.
const MOST_LINES: usize = 200;

/// All experiments, by id.
#[derive(Debug, Default)]
pub(crate) struct Experiments(Mutex<BTreeMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    state: ExperimentState,
    pid: Option<u32>,
    /// What it was made of, a directory or a file of its own; goes at its end.
    made_of: Option<PathBuf>,
    /// The id under which it is kept: of one that goes on, or that has told what came of it.
    kept: Option<String>,
    /// An earlier server began it.
    is_of_earlier: bool,
    /// Nothing of it is left to be gone on with.
    has_ended: bool,
    /// It is off the list, and gone as soon as it has ended.
    is_forgotten: bool,
}

impl Experiments {
    /// Newest first, without what came of them.
    pub(crate) fn list(&self) -> Vec<ExperimentState> {
        let all = lock(&self.0);
        let shown = all.values().rev().filter(|e| !e.is_forgotten);
        shown.map(|e| ExperimentState { outcome: None, ..e.state.clone() }).collect()
    }

    pub(crate) fn get(&self, id: &str) -> Result<ExperimentState, Problem> {
        let all = lock(&self.0);
        let found = all.get(id).filter(|e| !e.is_forgotten).map(|e| e.state.clone());
        found.ok_or_else(|| Problem::missing("experiment", id))
    }

    /// What came of one that has ended.
    pub(crate) fn outcome(&self, id: &str) -> Result<Experiment, Problem> {
        let state = self.get(id)?;
        state.outcome.ok_or_else(|| match state.state {
            State::Failed => Problem::conflict("the experiment failed before it had a result"),
            state if state.is_over() => {
                Problem::conflict("the experiment was ended before it told a result")
            }
            _ => Problem::conflict("the experiment has not ended yet"),
        })
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = lock(&self.0).get_mut(id) {
            change(entry);
        }
    }

    /// Takes an experiment off the list. One that still runs is kept until its end was told.
    pub(crate) fn forget(&self, id: &str) {
        let mut all = lock(&self.0);
        match all.get_mut(id) {
            Some(entry) if !entry.state.state.is_over() => entry.is_forgotten = true,
            _ => {
                let gone = all.remove(id);
                let (kept, made_of) = gone.map_or((None, None), |e| (e.kept, e.made_of));
                if let Some(path) = made_of {
                    give_up(&mut all, kept.as_deref(), path);
                }
            }
        }
    }

    /// A kept experiment has come to its end, in a way to be told of where it did so elsewhere: with no part of it that was
    /// interrupted can be gone on. The ids of these parts.
    pub(super) fn settle(&self, kept: &str, words: Option<&str>) -> Vec<String> {
        let mut changed = vec![];
        let mut all = lock(&self.0);
        if words.is_some() && goes_on(&all, kept).is_some() {
            // It is about to tell its end itself.
            return changed;
        }
        for (id, entry) in all.iter_mut() {
            if entry.kept.as_deref() != Some(kept) || !entry.state.state.is_over() {
                continue;
            }
            entry.has_ended = true;
            if std::mem::take(&mut entry.state.can_go_on) {
                entry.state.progress.extend(words.map(Into::into));
                changed.push(id.clone());
            }
        }
        changed
    }

    /// The ids under which those are kept that can be gone on with.
    pub(super) fn offered(&self) -> BTreeSet<String> {
        let all = lock(&self.0);
        let open = all.values().filter(|e| e.state.can_go_on && !e.is_forgotten);
        open.filter_map(|e| e.kept.clone()).collect()
    }

    /// Takes up one that an earlier server began, unless it is here already.
    pub(super) fn take_up(&self, state: ExperimentState, kept: String) {
        let mut all = lock(&self.0);
        if all.values().all(|e| e.kept.as_ref() != Some(&kept)) {
            let entry = Entry {
                pid: None,
                made_of: None,
                kept: Some(kept),
                is_of_earlier: true,
                has_ended: false,
                is_forgotten: false,
                state,
            };
            all.entry(entry.state.id.clone()).or_insert(entry);
        }
    }

    fn tidy(&self, most: usize) {
        let over: Vec<String> = {
            let all = lock(&self.0);
            let ended: Vec<_> = all.values().filter(|e| e.state.state.is_over()).collect();
            let beyond = ended.len().saturating_sub(most);
            ended.iter().take(beyond).map(|e| e.state.id.clone()).collect()
        };
        over.iter().for_each(|id| self.forget(id));
    }
}

/// The one in the list that has this kept experiment now.
fn goes_on<'a>(all: &'a BTreeMap<String, Entry>, kept: &str) -> Option<&'a str> {
    let is_it = |e: &&Entry| !e.state.state.is_over() && e.kept.as_deref() == Some(kept);
    all.values().find(is_it).map(|e| e.state.id.as_str())
}

fn refuse_twice(all: &BTreeMap<String, Entry>, kept: &str) -> Result<(), Problem> {
    goes_on(all, kept).map_or(Ok(()), |other| {
        Err(Problem::conflict(format!("experiment {other} goes on with it already")))
    })
}

/// What an experiment was made of is not needed for it any more: it goes, unless another part of the same one can be gone on with.
fn give_up(all: &mut BTreeMap<String, Entry>, kept: Option<&str>, path: PathBuf) {
    let is_part = |e: &&mut Entry| kept.is_some() && e.kept.as_deref() == kept && e.state.can_go_on;
    match all.values_mut().find(|e| is_part(e)) {
        Some(other) => other.made_of = Some(path),
        None => remove(&path),
    }
}

fn remove(path: &std::path::Path) {
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}

/// Starts an experiment and watches it; what it is `made_of` goes at its end, or when nobody can go on with it any more.
pub(crate) async fn start(
    app: &Shared,
    name: &str,
    title: Option<String>,
    order: Order,
    made_of: Option<PathBuf>,
) -> Result<ExperimentState, Problem> {
    begin(app, name, title, order, made_of, None).await
}

/// Goes on with an experiment that this server or an earlier one started and that did not come to its end. It is one of its own in
/// the list; what it comes to holds the runs of both. Scenarios of others are not gone on with: nobody looked at what they would
/// run.
pub(crate) async fn resume(app: &Shared, id: &str) -> Result<ExperimentState, Problem> {
    let before = app.experiments.get(id)?;
    if !before.state.is_over() {
        return Err(Problem::conflict(format!("experiment {id} has not ended yet")));
    }
    let (kept, is_of_earlier, has_ended) = {
        let all = lock(&app.experiments.0);
        let known = |e: &Entry| (e.kept.clone(), e.is_of_earlier, e.has_ended);
        all.get(id).map_or((None, false, false), known)
    };
    // Of an earlier server's it is looked at now, whatever was found when this one began: the refusal tells what is found.
    let may_go_on = before.can_go_on || (is_of_earlier && !has_ended);
    let why_not = match (kept.filter(|_| may_go_on), &before.outcome) {
        (Some(kept), _) => {
            refuse_twice(&lock(&app.experiments.0), &kept)?;
            let (looking, looked_at) = (app.clone(), kept.clone());
            let head =
                heavy(app, move || earlier::check(&looking, &looked_at, is_of_earlier)).await?;
            let order = Order::Resume { id: kept.clone(), head };
            return begin(app, &before.name, before.title, order, None, Some(kept)).await;
        }
        (None, Some(outcome)) if outcome.simulated => {
            "ran on the virtual clock, and nothing of it is kept"
        }
        (None, None) if !has_ended => "failed before it had a result",
        (None, _) => "has come to its end, or its journal is gone",
    };
    Err(Problem::conflict(format!("experiment {id} can't be gone on with: it {why_not}")))
}

async fn begin(
    app: &Shared,
    name: &str,
    title: Option<String>,
    order: Order,
    made_of: Option<PathBuf>,
    kept: Option<String>,
) -> Result<ExperimentState, Problem> {
    let limits = app.config.limits;
    app.experiments.tidy(limits.ended_kept);
    let id = clock::new_id();
    {
        let mut all = lock(&app.experiments.0);
        let open = all.values().filter(|e| !e.state.state.is_over());
        kept.as_ref().map_or(Ok(()), |kept| refuse_twice(&all, kept))?;
        let running = open.count();
        if running >= limits.experiments {
            if let Some(path) = made_of {
                remove(&path);
            }
            return Err(Problem::conflict(format!(
                "{running} experiments are running, which is the limit"
            )));
        }
        let state = ExperimentState {
            id: id.clone(),
            state: State::Starting,
            name: name.into(),
            title,
            asked_at: clock::now(),
            ended_at: None,
            progress: vec![],
            outcome: None,
            exit_code: None,
            error: None,
            can_go_on: false,
        };
        // Going on needs the files of the scenario for as long as the later part can be gone on with.
        let parts = all.values_mut().filter(|e| kept.is_some() && e.kept == kept);
        let (mut made_of, mut is_of_earlier) = (made_of, false);
        for part in parts {
            made_of = made_of.or_else(|| part.made_of.take());
            is_of_earlier |= part.is_of_earlier;
        }
        let entry = Entry {
            state,
            pid: None,
            made_of,
            kept,
            is_of_earlier,
            has_ended: false,
            is_forgotten: false,
        };
        all.insert(id.clone(), entry);
    }
    match app.launcher.start(order).await {
        Ok(started) => {
            let mut is_forgotten = false;
            app.experiments.change(&id, |e| {
                e.pid = Some(started.pid);
                e.state.state = State::Running;
                is_forgotten = e.is_forgotten;
            });
            if is_forgotten {
                let _ = app.launcher.order(Order::Stop { pid: started.pid }).await;
            }
            tell(app, &id);
            tokio::spawn(watch(app.clone(), id.clone(), started));
            app.experiments.get(&id)
        }
        Err(problem) => {
            app.experiments.change(&id, |e| e.state.state = State::Failed);
            app.experiments.forget(&id);
            Err(problem)
        }
    }
}

pub(super) fn tell(app: &App, id: &str) {
    let Some(state) = lock(&app.experiments.0).get(id).map(|e| e.state.clone()) else { return };
    app.hub.state(&StateEvent {
        kind: Kind::Experiments,
        id: state.id,
        state: state.state,
        error: state.error,
        run_id: None,
        step: state.progress.last().cloned(),
    });
}

async fn watch(app: Shared, id: String, started: Started) {
    let mut words = String::new();
    let mut printed = String::new();
    if let Some(output) = started.output {
        let mut lines = output.lines();
        while let Some(line) = lines.recv().await {
            match line {
                Line::Out(line) => printed = line,
                Line::Words(line) => {
                    keep_words(&mut words, &line);
                    app.experiments.change(&id, |entry| {
                        let progress = &mut entry.state.progress;
                        if progress.len() >= MOST_LINES {
                            progress.remove(0);
                        }
                        progress.push(line.chars().take(1000).collect());
                    });
                    tell(&app, &id);
                }
            }
        }
    }
    let exit = started.exit.await.ok();
    let outcome: Option<Experiment> = serde_json::from_str(&printed).ok();
    let kept = weir_runs::Experiments::of(&app.config.place);
    let can_go_on = outcome.as_ref().is_some_and(|outcome| {
        outcome.status != Status::Complete && kept.journal(&outcome.id).exists()
    });
    if let Some(done) = outcome.as_ref().filter(|_| !can_go_on) {
        app.experiments.settle(&done.id, None);
    }
    app.experiments.change(&id, |entry| {
        entry.pid = None;
        if let Some(outcome) = &outcome {
            entry.kept = Some(outcome.id.clone());
            entry.has_ended = !can_go_on;
        }
        entry.state.ended_at = Some(clock::now());
        entry.state.exit_code = exit.and_then(|e| e.code);
        entry.state.state = if outcome.is_some() { State::Ended } else { State::Failed };
        if outcome.is_none() {
            let message = Some(error_in(&printed)).filter(|m| !m.is_empty());
            let said = words.trim().trim_start_matches("error: ").to_owned();
            entry.state.error = Some(match (message, exit.and_then(|e| e.signal)) {
                (Some(message), _) => message,
                (None, Some(signal)) => format!("its program was killed by signal {signal}"),
                (None, None) if said.is_empty() => "its program ended without a word".into(),
                (None, None) => said,
            });
        }
        entry.state.outcome = outcome;
        entry.state.can_go_on = can_go_on;
    });
    {
        let mut all = lock(&app.experiments.0);
        let entry = all.get_mut(&id).filter(|_| !can_go_on);
        let given_up = entry.and_then(|e| Some((e.kept.clone(), e.made_of.take()?)));
        if let Some((kept, path)) = given_up {
            give_up(&mut all, kept.as_deref(), path);
        }
    }
    tell(&app, &id);
    if lock(&app.experiments.0).get(&id).is_some_and(|e| e.is_forgotten) {
        app.experiments.forget(&id);
    }
}

/// Asks an experiment to end.
pub(crate) async fn stop(app: &Shared, id: &str) -> Result<ExperimentState, Problem> {
    let state = app.experiments.get(id)?;
    let pid = lock(&app.experiments.0).get(id).and_then(|e| e.pid);
    let Some(pid) = pid.filter(|_| !state.state.is_over()) else { return Ok(state) };
    app.experiments.change(id, |entry| {
        if !entry.state.state.is_over() {
            entry.state.state = State::Ending;
        }
    });
    tell(app, id);
    // One that has just ended needs no stopping.
    let _ = app.launcher.order(Order::Stop { pid }).await;
    app.experiments.get(id)
}
