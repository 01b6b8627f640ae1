//! Stored experiments that an earlier server or the command line started: their checkpoints and results.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use weir_experiment::scenario::checkpoint::{CheckpointHeader, read_header, read_sessions};
use weir_model::experiment::{Experiment, Outcome, Scenario};
use weir_model::record::Status;

use super::experiments::{reason_of, state_of, tell};
use super::orders::word;
use crate::app::{App, Shared, lock};
use crate::clock;
use crate::handlers::heavy;
use crate::problem::Problem;
use crate::scenarios;
use crate::types::{ExperimentState, State};

/// Limits of the scan at the start: experiments examined, the newest first, and entries added of those that can be
/// resumed and of all others.
const MAX_LOOKED_AT: usize = 1000;
const MAX_TAKEN_UP: usize = 50;
/// Results read completely during the scan, and bytes read of another to see whether it is complete.
const MAX_READ: usize = 4 * MAX_TAKEN_UP;
const MAX_BEGINNING_BYTES: u64 = 64 << 10;
/// Time that the start of the server waits for the scan. The rest of a slow scan continues in the background, and its
/// findings are added to the list and published.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// Time that a list of experiments waits for the check for changes.
const LOOK: Duration = Duration::from_secs(1);

/// How long the lock of an ended program may persist: a child between its fork and its exec has a copy.
const LINGER: Duration = Duration::from_secs(1);

/// State of the scan, which is repeated from time to time.
#[derive(Debug, Default)]
pub(crate) struct StoredExperiments {
    /// Those that another program was running, or that were about to end with the previous server.
    waiting: Mutex<Vec<String>>,
    /// For each stored experiment: the version of its files when they were examined.
    seen: Mutex<BTreeMap<String, StoredVersion>>,
    /// Those that a client removed from the list.
    removed: Mutex<BTreeSet<String>>,
    /// A scan is running.
    is_looking: AtomicBool,
}

/// Identifies the version of a file: length, time of last change.
type FileVersion = (u64, SystemTime);

/// Identifies the version of a stored experiment: its result, and whether it has a checkpoint.
type StoredVersion = (Option<FileVersion>, bool);

/// The state of a stored experiment.
enum StoredState {
    /// It can be resumed, perhaps by the command line only.
    Open(Box<ExperimentState>),
    /// It is complete, or has no readable checkpoint.
    Closed(Box<ExperimentState>),
    /// Another program is running it.
    Running,
    /// Nothing readable.
    Other,
}

/// Scans the store, waiting at most this long.
pub(crate) async fn take_up_within(app: &Shared, patience: Duration) {
    let app = app.clone();
    let looking = tokio::spawn(async move {
        let all = app.clone();
        // An unreadable store is not an error of the server.
        let _ = heavy(&app, move || {
            take_up(&all);
            Ok(())
        })
        .await;
    });
    let _ = tokio::time::timeout(patience, looking).await;
}

/// Scans the store, the newest first.
fn take_up(app: &App) {
    let kept = weir_runs::Experiments::of(&app.config.data);
    let (mut open, mut closed, mut read) = (0, 0, 0);
    let newest = newest(&kept);
    lock(&app.stored.seen).extend(newest.iter().map(|id| (id.clone(), version(&kept, id))));
    for id in newest {
        // This server has started it meanwhile and reports it itself.
        if app.experiments.knows(&id) {
            continue;
        }
        if (open >= MAX_TAKEN_UP && closed >= MAX_TAKEN_UP) || read >= MAX_READ {
            break;
        }
        // A result can have megabytes: the start is enough for those that are not listed.
        if closed >= MAX_TAKEN_UP && is_complete(&kept.result(&id)) {
            continue;
        }
        read += 1;
        let (state, count) = match look_at(app, &id) {
            StoredState::Open(state) => (state, &mut open),
            StoredState::Closed(state) => (state, &mut closed),
            StoredState::Running => {
                lock(&app.stored.waiting).push(id);
                continue;
            }
            StoredState::Other => continue,
        };
        if *count < MAX_TAKEN_UP {
            *count += 1;
            app.experiments.take_up(*state);
            tell(app, &id);
        }
    }
}

/// The ids of the newest stored experiments, newest first.
fn newest(kept: &weir_runs::Experiments) -> Vec<String> {
    kept.ids().unwrap_or_default().into_iter().rev().take(MAX_LOOKED_AT).collect()
}

fn version(kept: &weir_runs::Experiments, id: &str) -> StoredVersion {
    let found = kept.result(id).symlink_metadata().ok();
    let result = found.and_then(|f| Some((f.len(), f.modified().ok()?)));
    (result, kept.checkpoint(id).exists())
}

/// Checks again what may have changed: experiments that other programs have started since, that were running, and
/// incomplete ones that `weir run --resume` may have resumed. Changes are published. Waits for a moment unless other
/// requests occupy the server; a longer check continues in the background.
pub(crate) async fn look_beside(app: &Shared) {
    if app.stored.is_looking.swap(true, Ordering::Relaxed) {
        return;
    }
    let is_occupied = app.heavy.available_permits() == 0;
    let app = app.clone();
    let looking = tokio::spawn(async move {
        let looking = app.clone();
        // Unreadable: keep the known state.
        let _ = heavy(&app, move || {
            look_again(&looking);
            Ok(())
        })
        .await;
        app.stored.is_looking.store(false, Ordering::Relaxed);
    });
    if !is_occupied {
        let _ = tokio::time::timeout(LOOK, looking).await;
    }
}

fn look_again(app: &App) {
    let kept = weir_runs::Experiments::of(&app.config.data);
    let unsettled = app.experiments.unsettled();
    let mut waiting = std::mem::take(&mut *lock(&app.stored.waiting));
    // A result can have megabytes: it is read again only when it was rewritten.
    let mut changed = vec![];
    {
        let newest = newest(&kept);
        let mut seen = lock(&app.stored.seen);
        let stored: BTreeSet<&String> = newest.iter().collect();
        seen.retain(|id, _| unsettled.contains(id) || stored.contains(id));
        let others = unsettled.iter().filter(|id| !stored.contains(id));
        for id in newest.iter().chain(others) {
            let now = version(&kept, id);
            if seen.insert(id.clone(), now) != Some(now) {
                changed.push(id.clone());
            }
        }
    }
    for id in changed {
        if unsettled.contains(&id) {
            renew(app, &id);
        } else if !app.experiments.knows(&id)
            && !lock(&app.stored.removed).contains(&id)
            && !waiting.contains(&id)
        {
            waiting.push(id);
        }
    }
    let mut is_added = false;
    for id in waiting {
        match look_at(app, &id) {
            StoredState::Open(state) | StoredState::Closed(state) => {
                app.experiments.take_up(*state);
                is_added = true;
                tell(app, &id);
            }
            StoredState::Running => lock(&app.stored.waiting).push(id),
            StoredState::Other => {}
        }
    }
    if is_added {
        app.experiments.tidy(app.config.limits.ended_kept);
    }
}

/// Removes an experiment from the list; its files remain.
pub(crate) fn remove(app: &App, id: &str) {
    lock(&app.stored.removed).insert(id.to_owned());
    app.experiments.forget(id);
}

/// Checks an experiment that another program may have resumed or completed.
pub(super) fn renew(app: &App, id: &str) {
    if !weir_runs::Experiments::of(&app.config.data).is_open(id) {
        settle(app, id);
    } else if let StoredState::Open(found) | StoredState::Closed(found) = look_at(app, id)
        && app.experiments.renew(*found)
    {
        tell(app, id);
    }
}

/// It can't be resumed any more.
fn settle(app: &App, id: &str) {
    let (found, words) = match look_at(app, id) {
        StoredState::Closed(found) => (Some(*found), "it was completed by another program"),
        _ => (None, "its checkpoint is missing"),
    };
    if app.experiments.settle(id, found, words) {
        tell(app, id);
    }
}

/// The parts of a result that a list needs, without its runs and points.
#[derive(Deserialize)]
struct Summary {
    id: String,
    name: String,
    title: Option<String>,
    started_at: String,
    status: Status,
    outcome: Outcome,
    steps: Vec<StepSummary>,
}

#[derive(Deserialize)]
struct StepSummary {
    outcome: Outcome,
    reason: Option<String>,
}

/// The outcome of a stored experiment's latest session.
pub(super) fn outcome(app: &App, id: &str) -> Option<Experiment> {
    let text = weir_runs::Experiments::of(&app.config.data).read(id).ok().flatten()?;
    weir_model::document::parse_json(text.as_bytes())
        .ok()
        .filter(|found: &Experiment| found.id == id)
}

/// Number of runs in an experiment's checkpoint.
pub(super) fn noted_runs(app: &App, id: &str) -> Option<u64> {
    let checkpoint = weir_runs::Experiments::of(&app.config.data).checkpoint(id);
    Some(read_sessions(&checkpoint).ok()?.iter().map(|(_, runs)| runs).sum())
}

/// Whether a session that started after the stored result was written has made runs, which the result lacks.
fn has_grown_since(kept: &weir_runs::Experiments, id: &str) -> bool {
    let written = kept.result(id).metadata().and_then(|m| m.modified()).map(clock::of);
    let sessions = read_sessions(&kept.checkpoint(id)).unwrap_or_default();
    // Both have the same format, which sorts by time.
    written.is_ok_and(|at| sessions.iter().any(|(s, runs)| *runs > 0 && s.started_at > at))
}

/// A stored experiment that is not in the list: it was removed, or exceeds the limits.
pub(super) async fn kept(app: &Shared, id: &str) -> Result<ExperimentState, Problem> {
    let (looking, id) = (app.clone(), id.to_owned());
    heavy(app, move || match look_at(&looking, &id) {
        StoredState::Open(state) | StoredState::Closed(state) => Ok(*state),
        StoredState::Running => {
            let detail = format!("experiment {id} is being run by another program");
            Err(Problem::conflict("running-elsewhere", detail))
        }
        StoredState::Other => Err(Problem::missing("experiment", &id)),
    })
    .await
}

/// Whether a result says that it is complete, from its start only.
fn is_complete(result: &Path) -> bool {
    struct ResultHead(Option<Status>);
    impl<'de> Visitor<'de> for &mut ResultHead {
        type Value = ();
        fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
            f.write_str("a result")
        }
        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
            while let Some(key) = map.next_key::<String>()? {
                if key == "status" {
                    self.0 = Some(map.next_value()?);
                    // An error ends the reading.
                    return Err(serde::de::Error::custom("enough"));
                }
                map.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }
    let Ok(file) = std::fs::File::open(result) else { return false };
    let mut beginning = ResultHead(None);
    let mut reader =
        serde_json::Deserializer::from_reader(BufReader::new(file.take(MAX_BEGINNING_BYTES)));
    let _ = reader.deserialize_map(&mut beginning);
    beginning.0 == Some(Status::Complete)
}

fn look_at(app: &App, id: &str) -> StoredState {
    if word(id, 64).is_err() {
        return StoredState::Other;
    }
    let kept = weir_runs::Experiments::of(&app.config.data);
    let text = kept.read(id).ok().flatten();
    let result: Option<Summary> = text.and_then(|text| serde_json::from_str(&text).ok());
    let result = result.filter(|found| found.id == id);
    let ended_at = || kept.result(id).metadata().and_then(|m| m.modified()).ok().map(clock::of);
    let of_result = |found: &Summary| ExperimentState {
        id: id.into(),
        state: state_of(found.status),
        name: found.name.clone(),
        title: found.title.clone(),
        asked_at: found.started_at.clone(),
        ended_at: ended_at(),
        progress: vec![],
        verdict: Some(found.outcome),
        outcome: None,
        exit_code: None,
        resumable: false,
        error: (found.status == Status::Partial)
            .then(|| reason_of(found.steps.iter().map(|s| (s.outcome, s.reason.as_deref())))),
    };
    let is_complete = |found: &Summary| found.status == Status::Complete;
    if let Some(done) = result.as_ref().filter(|found| is_complete(found)) {
        return StoredState::Closed(Box::new(of_result(done)));
    }
    let (head, scenario) = match read(app, id) {
        Some((head, false, scenario)) => (head, scenario),
        Some((_, true, _)) => return StoredState::Running,
        // It can't be resumed, but its measurements exist.
        None => {
            return result
                .map_or(StoredState::Other, |r| StoredState::Closed(Box::new(of_result(&r))));
        }
    };
    let why_not = scenario.as_ref().map_err(Clone::clone).and_then(|s| right(app, &head, s)).err();
    let why_not = why_not.map(|(_, words)| words);
    let mut state = match &result {
        Some(found) if !has_grown_since(&kept, id) => of_result(found),
        // Killed before its first result. One that this version can't read is listed too.
        _ => ExperimentState {
            id: id.into(),
            state: State::Interrupted,
            name: scenario.as_ref().map_or_else(|_| id.into(), |s| s.name.clone()),
            title: scenario.ok().and_then(|s| s.title),
            asked_at: head.started_at,
            ended_at: None,
            progress: vec!["its program ended before it was complete".into()],
            verdict: None,
            outcome: None,
            exit_code: None,
            resumable: false,
            error: None,
        },
    };
    state.resumable = why_not.is_none();
    let why_not = why_not.map(|words| format!("it can't be resumed: it {words}"));
    let told: Vec<String> = state.error.take().into_iter().chain(why_not).collect();
    state.error = (!told.is_empty()).then(|| told.join("; "));
    StoredState::Open(Box::new(state))
}

/// Why an experiment can't be resumed: a problem's type, and the words after `it`.
type WhyNot = (&'static str, String);

/// The header of a checkpoint, whether a program has it locked, and its scenario, or why that can't be read.
fn read(app: &App, id: &str) -> Option<(CheckpointHeader, bool, Result<Scenario, WhyNot>)> {
    let path = weir_runs::Experiments::of(&app.config.data).checkpoint(id);
    let (head, is_running) = read_header(&path).ok()?;
    if head.id != id {
        return None;
    }
    let scenario = Scenario::parse(&head.scenario, head.quick, &head.set, &head.hosts)
        .map_err(|e| ("scenario", format!("has a scenario that this version refuses: {e}")));
    Some((head, is_running, scenario))
}

/// Whether this server may run it: commands must be scripts of its own `--allow-commands`.
fn right(app: &App, head: &CheckpointHeader, scenario: &Scenario) -> Result<(), WhyNot> {
    scenarios::right_kept(scenario, app.config.scripts.as_deref())
        .map_err(|words| ("command", words))?;
    if !head.files.is_empty() && !head.directory.is_dir() {
        return Err(("files", "names files that an earlier server created for it".into()));
    }
    Ok(())
}

/// Whether an experiment can be resumed now.
pub(crate) fn check(app: &App, kept: &str, is_of_earlier: bool) -> Result<(), Problem> {
    let refuse = |kind: &str, words: &str| {
        Problem::conflict(kind, format!("experiment {kept} can't be resumed: it {words}"))
    };
    if !weir_runs::Experiments::of(&app.config.data).is_open(kept) {
        settle(app, kept);
        return Err(refuse("complete", "is complete, or its checkpoint is missing"));
    }
    let mut found = read(app, kept);
    // The lock of a program that has just ended may persist for a moment.
    let end = Instant::now() + LINGER;
    while !is_of_earlier && matches!(found, Some((_, true, _))) && Instant::now() < end {
        std::thread::sleep(LINGER / 20);
        found = read(app, kept);
    }
    match found {
        None => Err(refuse("checkpoint", "has no readable checkpoint")),
        Some((_, true, _)) => Err(refuse("running-elsewhere", "is being run by another program")),
        Some((head, _, scenario)) => scenario
            .and_then(|s| right(app, &head, &s))
            .map_err(|(kind, words)| refuse(kind, &words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::State;
    use weir_experiment::scenario::checkpoint::Checkpoint;

    #[tokio::test]
    async fn the_list_waits_for_no_place_among_those_that_work() {
        let (_, app) = crate::server::for_tests();
        let kept = weir_runs::Experiments::prepare(&app.config.data).unwrap();
        let head = serde_json::json!({
            "schema": "weir.checkpoint/1", "id": "1-x", "started_at": "T", "quick": false, "set": {},
            "scenario": "schema = \"weir.scenario/1\"\nname = \"x\"\n[host.b]\naddress = \"::1\"\n[[step]]\nwait = { time = \"1s\" }\n",
            "seed": "0x7", "directory": "/", "command": [],
            "session": { "pid": 1, "started_at": "T", "version": "0", "host": "x" },
        });
        let running =
            Checkpoint::create(&kept.checkpoint("1-x"), &serde_json::from_value(head).unwrap())
                .unwrap();
        take_up_within(&app, LIMIT).await;
        assert_eq!(*lock(&app.stored.waiting), ["1-x"]);
        let all = app.heavy.clone().acquire_many_owned(4).await.unwrap();
        let list = || crate::handlers::experiments::list(State(app.clone()));
        for _ in 0..3 {
            tokio::select! {
                biased;
                answer = list() => assert!(answer.unwrap().0.experiments.is_empty()),
                () = tokio::task::yield_now() => panic!("it waits"),
            }
        }
        // It is checked once the limit permits.
        drop((running, all));
        listed(&app).await;
        assert!(app.experiments.list()[0].resumable);
    }

    #[tokio::test]
    async fn a_look_that_takes_long_holds_no_server_up_and_is_heard_of_later() {
        let (_, app) = crate::server::for_tests();
        let kept = weir_runs::Experiments::prepare(&app.config.data).unwrap();
        let done = serde_json::json!({
            "schema": "weir.experiment/1", "id": "1-x", "version": "0", "name": "x", "started_at": "T",
            "seconds": 1.0, "status": "complete", "command": [], "seed": "0x7", "steps": [], "outcome": "failed",
        });
        kept.keep("1-x", &done.to_string()).unwrap();
        // All permits are taken: no scan can run.
        let all = app.heavy.clone().acquire_many_owned(4).await.unwrap();
        let waited = tokio::time::timeout(LIMIT, take_up_within(&app, Duration::from_millis(1)));
        assert!(waited.await.is_ok(), "the server waits");
        assert!(app.experiments.list().is_empty());
        drop(all);
        listed(&app).await;
        assert_eq!(app.experiments.list()[0].verdict, Some(Outcome::Failed));
    }

    #[test]
    fn of_a_result_no_more_is_read_than_says_that_all_was_done() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            let path = dir.path().join("x.json");
            std::fs::write(&path, text).unwrap();
            is_complete(&path)
        };
        let beginning = r#"{"schema":"x","tags":["a",{"b":1}],"status":"#;
        // The rest is unreadable.
        assert!(of(&format!("{beginning}\"complete\",\"steps\":[[[ \u{0}")));
        for text in ["\"partial\"}", "\"interrupted\"}", "7}", "", "\"complete"] {
            assert!(!of(&format!("{beginning}{text}")), "{text}");
        }
        let far = format!("{{\"name\":\"{}\",\"status\":\"complete\"}}", "x".repeat(1 << 20));
        assert!(!of(&far) && !of("[]") && !is_complete(dir.path()));
    }

    #[test]
    fn what_can_be_resumed_is_found_behind_many_that_have_come_to_their_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _in = runtime.enter();
        let (_, app) = crate::server::for_tests();
        let kept = weir_runs::Experiments::prepare(&app.config.data).unwrap();
        let result = |id: &str, status: &str| {
            let text = serde_json::json!({
                "schema": "weir.experiment/1", "id": id, "version": "0", "name": "x", "started_at": "T",
                "seconds": 1.0, "status": status, "command": [], "seed": "0x7", "steps": [], "outcome": "passed",
            });
            kept.keep(id, &text.to_string()).unwrap();
        };
        for n in 0..MAX_READ + 10 {
            result(&format!("2-{n:04}"), "complete");
        }
        result("1-interrupted", "interrupted");
        let head = serde_json::json!({
            "schema": "weir.checkpoint/1", "id": "1-interrupted", "started_at": "T", "quick": false, "set": {},
            "scenario": "schema = \"weir.scenario/1\"\nname = \"x\"\n[host.b]\naddress = \"::1\"\n[[step]]\nwait = { time = \"1s\" }\n",
            "seed": "0x7", "directory": "/", "command": [],
            "session": { "pid": 1, "started_at": "T", "version": "0", "host": "x" },
        });
        let head = serde_json::from_value(head).unwrap();
        drop(Checkpoint::create(&kept.checkpoint("1-interrupted"), &head).unwrap());
        take_up(&app);
        let all = app.experiments.list();
        assert!(all.iter().any(|e| e.id == "1-interrupted" && e.resumable), "{}", all.len());
        assert_eq!(all.len(), MAX_TAKEN_UP + 1);
    }

    /// Timeout of a broken test.
    const LIMIT: Duration = Duration::from_secs(60);

    async fn listed(app: &Shared) {
        let coming = async {
            while app.experiments.list().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LIMIT, coming).await.expect("it does not come into the list");
    }
}
