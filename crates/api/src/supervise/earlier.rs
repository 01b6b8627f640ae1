//! Experiments that an earlier server began and that did not come to their end: their journals stand beside the runs.

use std::sync::Mutex;

use weir_experiment::scenario::journal::{Head, look};
use weir_model::experiment::Scenario;

use super::orders::word;
use crate::app::{App, lock};
use crate::problem::Problem;
use crate::scenarios;
use crate::types::{ExperimentState, State};

/// Most journals that are looked at when a server begins, and most experiments that it takes up: the newest.
const MOST_LOOKED_AT: usize = 1000;
const MOST_TAKEN_UP: usize = 50;

/// Kept experiments that were still running when they were looked at: of another server, or about to end with the one before.
#[derive(Debug, Default)]
pub(crate) struct Earlier(Mutex<Vec<String>>);

/// What there is of a kept experiment.
enum Found {
    /// It can be gone on with, or could be.
    Open(Box<ExperimentState>),
    /// Some program has it now.
    Running,
    /// It has come to its end, or the API did not begin it.
    Other,
}

/// Looks at the newest journals; to be called before anything is started here.
pub(crate) fn take_up(app: &App) {
    let kept = weir_runs::Experiments::of(&app.config.place);
    let mut taken = 0;
    for id in kept.ids().unwrap_or_default().into_iter().rev().take(MOST_LOOKED_AT) {
        match look_at(app, &id) {
            Found::Open(state) => {
                app.experiments.take_up(*state, id);
                taken += 1;
            }
            Found::Running => lock(&app.earlier.0).push(id),
            Found::Other => {}
        }
        if taken >= MOST_TAKEN_UP {
            return;
        }
    }
}

/// Whether some of them were running when they were last looked at.
pub(crate) fn is_waiting(app: &App) -> bool {
    !lock(&app.earlier.0).is_empty()
}

/// Looks once more at those that were running.
pub(crate) fn look_again(app: &App) {
    let waiting = std::mem::take(&mut *lock(&app.earlier.0));
    for id in waiting {
        match look_at(app, &id) {
            Found::Open(state) => app.experiments.take_up(*state, id),
            Found::Running => lock(&app.earlier.0).push(id),
            Found::Other => {}
        }
    }
}

fn look_at(app: &App, id: &str) -> Found {
    let kept = weir_runs::Experiments::of(&app.config.place);
    if word(id, 64).is_err() || !kept.is_open(id) {
        return Found::Other;
    }
    let (head, scenario) = match read(app, id) {
        Some((head, false, scenario)) => (head, scenario),
        Some((_, true, _)) => return Found::Running,
        None => return Found::Other,
    };
    let text = kept.read(id).ok().flatten();
    let outcome = text.and_then(|text| serde_json::from_str(&text).ok());
    let why_not = scenario.as_ref().map_err(Clone::clone).and_then(|s| right(app, &head, s)).err();
    // One that this version can't read is told of all the same.
    let (name, title) = scenario.map_or_else(|_| (id.into(), None), |s| (s.name, s.title));
    Found::Open(Box::new(ExperimentState {
        id: id.into(),
        state: State::Ended,
        name,
        title,
        asked_at: head.started_at,
        ended_at: None,
        progress: vec![
            "begun by an earlier start of this server, and did not come to its end".into(),
        ],
        outcome,
        exit_code: None,
        can_go_on: why_not.is_none(),
        error: why_not.map(|words| format!("it can't be gone on with: it {words}")),
    }))
}

/// The head of a journal that the API began, whether a program has it, and its scenario, or in words why that can't be read.
fn read(app: &App, id: &str) -> Option<(Head, bool, Result<Scenario, String>)> {
    let path = weir_runs::Experiments::of(&app.config.place).journal(id);
    let (head, is_running) = look(&path).ok()?;
    if !head.by_api || head.id != id {
        return None;
    }
    let scenario = Scenario::parse_kept(&head.scenario, head.quick, &head.set, &head.hosts)
        .map_err(|error| format!("has a scenario that this version does not take: {error}"));
    Some((head, is_running, scenario))
}

/// Whether this server would run it: it may have been started with other rights than the one that began it.
fn right(app: &App, head: &Head, scenario: &Scenario) -> Result<(), String> {
    scenarios::right_kept(scenario, app.config.scripts.as_deref())?;
    if !head.files.is_empty() && !head.directory.is_dir() {
        return Err("names files that were set beside it by a server that has ended".into());
    }
    Ok(())
}

/// Looks at a kept experiment once more, before it is gone on with.
pub(crate) fn check(app: &App, kept: &str) -> Result<(), Problem> {
    let refuse = |words: &str| {
        Problem::conflict(format!("experiment {kept} can't be gone on with: it {words}"))
    };
    match read(app, kept) {
        None => Err(refuse("has no journal any more that this server can read")),
        Some((_, true, _)) => Err(refuse("is being run by another program")),
        Some((head, false, scenario)) => {
            scenario.and_then(|s| right(app, &head, &s)).map_err(|w| refuse(&w))
        }
    }
}
