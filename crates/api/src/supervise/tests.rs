//! Running tests, from the events of their jobs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::{Value, json};
use weir_jobs::{Event, Job, KeySource, Notice, TestJob};
use weir_model::plan::Plan;
use weir_model::progress::{FlowProgress, FlowState};
use weir_model::units::SendRate;
use weir_model::warning::{Severity, Warning};
use weir_report::Start;

use super::beyond;
use super::history::{Intervals, Written};
use super::launcher::Started;
use super::orders::{LabNode, Order};
use super::output::follow;
use crate::app::{App, Shared, lock};
use crate::clock;
use crate::problem::Problem;
use crate::types::{ObjectKind, State, StateEvent, Test, TestHistory, WarningEvent};

/// A valid request for a test.
pub(crate) struct CheckedTest {
    /// The server of connections that name none.
    pub(crate) host: Option<String>,
    pub(crate) plan: Plan,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) from: Option<LabNode>,
    pub(crate) no_store: bool,
}

/// All tests, by id.
#[derive(Debug, Default)]
pub(crate) struct Tests(Mutex<BTreeMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    test: Test,
    pid: Option<u32>,
    /// The file of its record, once it has one.
    record: Option<PathBuf>,
    history: Intervals,
    /// It was removed from the list, and is dropped when it has ended.
    is_forgotten: bool,
}

impl Tests {
    /// Newest first.
    pub(crate) fn list(&self) -> Vec<Test> {
        let all = lock(&self.0);
        let listed = all.values().rev().filter(|e| !e.is_forgotten).map(|e| {
            let mut test = e.test.clone();
            if e.record.is_some() {
                test.latest = None;
            }
            test
        });
        listed.collect()
    }

    /// The figures of a test that are later than `after_seconds`.
    pub(crate) fn history(&self, id: &str, after_seconds: f64) -> Result<TestHistory, Problem> {
        let all = lock(&self.0);
        let found = all.get(id).filter(|e| !e.is_forgotten);
        found.map(|e| e.history.after(after_seconds)).ok_or_else(|| Problem::missing("test", id))
    }

    pub(crate) fn get(&self, id: &str) -> Result<Test, Problem> {
        let all = lock(&self.0);
        let found = all.get(id).filter(|e| !e.is_forgotten).map(|e| e.test.clone());
        found.ok_or_else(|| Problem::missing("test", id))
    }

    /// The file of a test's record.
    pub(crate) fn record(&self, id: &str) -> Result<PathBuf, Problem> {
        let all = lock(&self.0);
        let entry = all.get(id).filter(|e| !e.is_forgotten);
        let entry = entry.ok_or_else(|| Problem::missing("test", id))?;
        let state = entry.test.state;
        entry.record.clone().ok_or_else(|| match state {
            State::Failed => {
                Problem::conflict("no-result", "the test failed before it measured anything")
            }
            _ => Problem::conflict("not-ended", "the test has not ended yet"),
        })
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = lock(&self.0).get_mut(id) {
            change(entry);
        }
    }

    /// Removes a test from the list. A running one is dropped when its end was reported.
    pub(crate) fn forget(&self, id: &str) {
        let gone = {
            let mut all = lock(&self.0);
            match all.get_mut(id) {
                Some(entry) if !entry.test.state.is_over() => {
                    entry.is_forgotten = true;
                    None
                }
                _ => all.remove(id),
            }
        };
        if let Some(path) = gone.and_then(|e| e.record) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Drops the oldest finished tests.
    fn tidy(&self, most: usize) {
        let over: Vec<String> = {
            let all = lock(&self.0);
            let ended = all.values().map(|e| &e.test).filter(|t| t.state.is_over());
            beyond(most, ended.map(|t| (t.ended_at.as_ref().unwrap_or(&t.asked_at), &t.id)))
        };
        over.iter().for_each(|id| self.forget(id));
    }
}

/// Starts a test and follows it.
pub(crate) async fn start(app: &Shared, wanted: CheckedTest) -> Result<Test, Problem> {
    let limits = app.config.limits;
    app.tests.tidy(limits.ended_kept);
    let id = clock::new_id();
    {
        let mut all = lock(&app.tests.0);
        let running = all.values().filter(|e| !e.test.state.is_over()).count();
        if running >= limits.tests {
            return Err(Problem::conflict(
                "limit",
                format!("the limit of {running} running tests is reached"),
            ));
        }
        let test = Test {
            id: id.clone(),
            state: State::Starting,
            host: match wanted.plan.names_servers() {
                true => wanted.plan.server_labels().join(", "),
                false => wanted.host.clone().unwrap_or_default(),
            },
            title: wanted.plan.title.clone(),
            tags: wanted.tags.clone(),
            asked_at: clock::now(),
            ended_at: None,
            run_id: None,
            flows: vec![],
            flow_states: BTreeMap::new(),
            peer_unreachable_since_seconds: None,
            latest: None,
            warnings: vec![],
            exit_code: None,
            error: None,
        };
        all.insert(
            id.clone(),
            Entry {
                test,
                pid: None,
                record: None,
                history: Intervals::default(),
                is_forgotten: false,
            },
        );
    }
    let job = TestJob {
        host: wanted.host,
        plan: wanted.plan,
        key: KeySource::file(wanted.key_file),
        labels: wanted.tags,
        store: !wanted.no_store,
        control_socket: Some(app.private(&socket(&id))),
        ..TestJob::default()
    };
    let job = Box::new(Job::Test(Box::new(job)));
    let order = Order::Start { job, at: wanted.from, log: None };
    let begun = app.launcher.start(order);
    match begun.await {
        Ok(started) => {
            // It may have been stopped or removed before its process was started.
            let mut is_stopped = false;
            app.tests.change(&id, |e| {
                e.pid = Some(started.pid);
                is_stopped = e.is_forgotten || e.test.state == State::Ending;
            });
            if is_stopped {
                let _ = app.launcher.order(Order::Stop { pid: started.pid }).await;
            }
            tell(app, &id);
            tokio::spawn(watch(app.clone(), id.clone(), started));
            app.tests.get(&id)
        }
        Err(problem) => {
            app.tests.change(&id, |e| e.test.state = State::Failed);
            app.tests.forget(&id);
            Err(problem)
        }
    }
}

fn socket(id: &str) -> String {
    format!("{id}.ctl")
}

/// Publishes the state of a test.
fn tell(app: &App, id: &str) {
    let Some(test) = lock(&app.tests.0).get(id).map(|e| e.test.clone()) else { return };
    app.hub.state(&StateEvent {
        kind: ObjectKind::Tests,
        id: test.id,
        state: test.state,
        error: test.error,
        run_id: test.run_id,
        step: None,
    });
}

async fn watch(app: Shared, id: String, started: Started) {
    let ended = follow(started, |event| hear(&app, &id, event)).await;
    app.tests.change(&id, |entry| {
        entry.pid = None;
        entry.history.clear();
        entry.test.ended_at = Some(clock::now());
        entry.test.exit_code = ended.exit.and_then(|e| e.code);
        // A stop that was requested before the first figures is no failure.
        entry.test.state = match (&entry.record, entry.test.state) {
            (Some(_), _) => State::Ended,
            (None, State::Ending) => State::Interrupted,
            (None, _) => State::Failed,
        };
        entry.test.peer_unreachable_since_seconds = None;
        let is_failed = entry.test.state == State::Failed;
        let last = if is_failed { FlowState::Failed } else { FlowState::Finished };
        for flow in &entry.test.flows {
            let state = entry.test.flow_states.entry(flow.name.clone()).or_insert(last);
            if !state.is_over() {
                *state = last;
            }
        }
        entry.test.error = match (&ended.refusal, entry.test.state) {
            (_, State::Interrupted) => None,
            (Some(refusal), _) => Some(refusal.message.clone()),
            (None, State::Failed) => Some(ended.why().message),
            _ => None,
        };
    });
    tell(&app, &id);
    if lock(&app.tests.0).get(&id).is_some_and(|e| e.is_forgotten) {
        app.tests.forget(&id);
    }
}

/// Takes one event.
fn hear(app: &App, id: &str, event: &Event) {
    match event {
        Event::Start(start) => {
            app.tests.change(id, |entry| {
                entry.test.run_id = Some(start.id.clone());
                entry.test.flows.clone_from(&start.flows);
                if entry.test.state == State::Starting {
                    entry.test.state = State::Running;
                }
            });
            tell(app, id);
        }
        Event::Flows(changed) => {
            app.tests.change(id, |entry| {
                // In the order of the flows.
                let mut changed = changed.iter().peekable();
                for flow in &entry.test.flows {
                    if let Some(FlowProgress { state, .. }) = changed.next_if(|c| c.id == flow.id) {
                        entry.test.flow_states.insert(flow.name.clone(), *state);
                    }
                }
            });
            tell(app, id);
        }
        Event::Peer(status) => {
            app.tests.change(id, |entry| {
                entry.test.peer_unreachable_since_seconds = status.unreachable_since_seconds;
            });
            tell(app, id);
        }
        Event::Interval(interval) => {
            let Some(written) = Written::of(&**interval) else { return };
            app.hub.sample(ObjectKind::Tests, id, "interval", &written);
            app.tests.change(id, |entry| {
                entry.history.push(interval, written);
                entry.test.latest = Some((**interval).clone());
            });
        }
        Event::End(record) => {
            let text = weir_model::json::to_line(record).unwrap_or_default();
            if let Ok(path) = app.write_private(&format!("{id}.record"), text.as_bytes()) {
                app.tests.change(id, |entry| entry.record = Some(path));
            }
            app.tests.change(id, |entry| {
                let is_stored = entry.test.warnings.iter().all(|w| w.code != Notice::NOT_STORED);
                entry.test.run_id = is_stored.then(|| record.id.clone());
                entry.test.flows = Start::from(&**record).flows;
                // Those of the program stay: what it could not store or read is not in the record.
                let in_record = |w: &Warning| record.warnings.iter().any(|r| r.code == w.code);
                entry.test.warnings.retain(|warning| !in_record(warning));
                entry.test.warnings.extend(record.warnings.iter().cloned());
            });
            for warning in &record.warnings {
                let warning = warning.clone();
                app.hub.warning(&WarningEvent { kind: ObjectKind::Tests, id: id.into(), warning });
            }
        }
        Event::Warning(notice) => {
            let warning = Warning::new(&notice.code, Severity::Warning, &notice.message);
            app.tests.change(id, |entry| {
                if notice.code == Notice::NOT_STORED {
                    entry.test.run_id = None;
                }
                entry.test.warnings.push(warning.clone());
            });
            app.hub.warning(&WarningEvent { kind: ObjectKind::Tests, id: id.into(), warning });
        }
        _ => {}
    }
}

/// Stops a test.
pub(crate) async fn stop(app: &Shared, id: &str) -> Result<Test, Problem> {
    let test = app.tests.get(id)?;
    if test.state.is_over() {
        return Ok(test);
    }
    let mut pid = None;
    app.tests.change(id, |entry| {
        if !entry.test.state.is_over() {
            entry.test.state = State::Ending;
            pid = entry.pid;
        }
    });
    tell(app, id);
    // A finished one needs no stopping; one without a process yet is stopped when that has started. A second request
    // stops it immediately, as a second Ctrl-C does.
    if let Some(pid) = pid {
        let _ = app.launcher.order(Order::Stop { pid }).await;
    }
    app.tests.get(id)
}

/// Starts or stops one connection of a running test, or changes its rate.
pub(crate) async fn connection(
    app: &Shared,
    id: &str,
    verb: &str,
    name: &str,
    rate: Option<SendRate>,
) -> Result<Test, Problem> {
    let test = app.tests.get(id)?;
    if test.state.is_over() {
        return Err(Problem::conflict("ended", "the test has ended"));
    }
    let request = json!({ "verb": verb, "connection": name, "rate": rate });
    let states = ask(app, id, request).await?;
    app.tests.change(id, |entry| {
        if let Some(rate) = rate {
            let changed = entry.test.flows.iter_mut().filter(|f| states.contains_key(&f.name));
            changed.for_each(|flow| flow.rate = rate.to_string());
        }
        entry.test.flow_states.extend(states);
    });
    app.tests.get(id)
}

async fn ask(
    app: &Shared,
    id: &str,
    request: Value,
) -> Result<BTreeMap<String, FlowState>, Problem> {
    let path = app.private(&socket(id));
    let asked = tokio::task::spawn_blocking(move || weir_emulator::control::ask(&path, &request));
    let answer = asked
        .await
        .map_err(Problem::internal)?
        .map_err(|e| Problem::unavailable(format!("the test does not answer: {e}")))?;
    if let Some(error) = answer["error"].as_str() {
        return Err(Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, error));
    }
    let flows = answer["flows"].as_array().into_iter().flatten();
    let state = |flow: &Value| serde_json::from_value(flow["state"].clone()).ok();
    Ok(flows.filter_map(|f| Some((f["name"].as_str()?.to_owned(), state(f)?))).collect())
}
