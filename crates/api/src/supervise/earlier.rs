//! Experiments that an earlier server began and that did not come to their end: their journals stand beside the runs.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_experiment::scenario::journal::{Head, look};
use weir_model::experiment::Scenario;

use super::experiments::tell;
use super::orders::word;
use crate::app::{App, Shared, lock};
use crate::handlers::heavy;
use crate::problem::Problem;
use crate::scenarios;
use crate::types::{ExperimentState, State};

/// Most journals that are looked at when a server begins, and most experiments that it takes up: the newest.
const MOST_LOOKED_AT: usize = 1000;
const MOST_TAKEN_UP: usize = 50;

/// What is known of kept experiments, and may be otherwise when it is looked at again.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Those that were still running: of another server, or about to end with the one before.
    waiting: Mutex<Vec<String>>,
    /// The results of those that can be gone on with, as they were when they were read last.
    seen: Mutex<BTreeMap<String, Option<Stamp>>>,
    /// Somebody looks.
    is_looking: AtomicBool,
}

/// By what a file that was written anew is told from the one before: node, length, time of its last change.
type Stamp = (u64, u64, i64, i64);

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
            Found::Running => lock(&app.earlier.waiting).push(id),
            Found::Other => {}
        }
        if taken >= MOST_TAKEN_UP {
            return;
        }
    }
}

/// Looks once more at what may have changed since, beside whoever asks: at those that were running, and at those that can be gone
/// on with, since `weir run --resume` may have done so. Readers of the stream hear of what is found.
pub(crate) fn look_beside(app: &Shared) {
    let is_idle = lock(&app.earlier.waiting).is_empty() && app.experiments.offered().is_empty();
    if is_idle || app.earlier.is_looking.swap(true, Ordering::Relaxed) {
        return;
    }
    let app = app.clone();
    tokio::spawn(async move {
        let looking = app.clone();
        // What can't be looked at is as it was.
        let _ = heavy(&app, move || {
            look_again(&looking);
            Ok(())
        })
        .await;
        app.earlier.is_looking.store(false, Ordering::Relaxed);
    });
}

fn look_again(app: &App) {
    let waiting = std::mem::take(&mut *lock(&app.earlier.waiting));
    for id in waiting {
        match look_at(app, &id) {
            Found::Open(state) => {
                app.experiments.take_up(*state, id.clone());
                tell(app, &id);
            }
            Found::Running => lock(&app.earlier.waiting).push(id),
            Found::Other => {}
        }
    }
    let kept = weir_runs::Experiments::of(&app.config.place);
    let offered = app.experiments.offered();
    lock(&app.earlier.seen).retain(|id, _| offered.contains(id));
    for id in offered {
        let found = kept.result(&id).symlink_metadata().ok();
        let stamp = found.map(|f| (f.ino(), f.len(), f.mtime(), f.mtime_nsec()));
        // A result can have megabytes: it is read again when it was written again.
        if lock(&app.earlier.seen).get(&id) == Some(&stamp) && kept.journal(&id).exists() {
            continue;
        }
        if kept.is_open(&id) {
            lock(&app.earlier.seen).insert(id, stamp);
        } else {
            settle(app, &id);
        }
    }
}

/// With no part of it can be gone on any more.
fn settle(app: &App, kept: &str) {
    let words = "it has come to its end by another program, or its journal is gone";
    app.experiments.settle(kept, Some(words)).iter().for_each(|id| tell(app, id));
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
    // What this server made for it stands in a directory of its own.
    let private = app.directory.path().canonicalize().ok();
    let is_private = private.is_some() && head.directory.parent() == private.as_deref();
    let own = is_private.then_some(head.directory.as_path());
    scenarios::right_kept_files(head, scenario, &app.config, own)?;
    if !head.files.is_empty() && !head.directory.is_dir() {
        return Err("names files that were set beside it by a server that has ended".into());
    }
    Ok(())
}

/// Looks at a kept experiment once more, before it is gone on with, whoever began it: under sudo its journal is in another user's
/// directory. What was looked at, to be told to the program that reads it again.
pub(crate) fn check(app: &App, kept: &str, is_of_earlier: bool) -> Result<String, Problem> {
    let refuse = |words: &str| {
        Problem::conflict(format!("experiment {kept} can't be gone on with: it {words}"))
    };
    if !weir_runs::Experiments::of(&app.config.place).is_open(kept) {
        settle(app, kept);
        return Err(refuse("has come to its end, or its journal is gone"));
    }
    match read(app, kept) {
        None => Err(refuse("has no journal any more that this server can read")),
        // The lock of a program that has just ended here may outlive it for a moment: the next one waits for it.
        Some((_, true, _)) if is_of_earlier => Err(refuse("is being run by another program")),
        Some((head, _, scenario)) => {
            scenario.and_then(|s| right(app, &head, &s)).map_err(|words| refuse(&words))?;
            head.digest().map_err(Problem::internal)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::State;
    use weir_experiment::scenario::journal::Journal;

    #[tokio::test]
    async fn the_list_waits_for_no_place_among_those_that_work() {
        let (_, app) = crate::server::for_tests();
        let kept = weir_runs::Experiments::prepare(&app.config.place).unwrap();
        let head = serde_json::json!({
            "schema": "weir.journal/1", "id": "1-x", "started_at": "T", "quick": false, "set": {},
            "scenario": "schema = \"weir.scenario/1\"\nname = \"x\"\n[host.b]\naddress = \"::1\"\n[[step]]\nwait = { time = \"1s\" }\n",
            "seed": "0x7", "directory": "/", "command": [], "by_api": true,
            "session": { "pid": 1, "started_at": "T", "version": "0", "host": "x" },
        });
        let running =
            Journal::create(&kept.journal("1-x"), &serde_json::from_value(head).unwrap()).unwrap();
        take_up(&app);
        assert_eq!(*lock(&app.earlier.waiting), ["1-x"]);
        let all = app.heavy.clone().acquire_many_owned(4).await.unwrap();
        let list = || crate::handlers::experiments::list(State(app.clone()));
        for _ in 0..3 {
            tokio::select! {
                biased;
                answer = list() => assert!(answer.unwrap().0.experiments.is_empty()),
                () = tokio::task::yield_now() => panic!("it waits"),
            }
        }
        // It is looked at once there is a place.
        drop((running, all));
        while app.experiments.list().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(app.experiments.list()[0].can_go_on);
    }
}
