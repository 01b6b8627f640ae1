//! The demo: at most one runs; the latest result is stored until the next.

use std::sync::Mutex;

use weir_jobs::{DemoJob, Event, Job};

use super::orders::Order;
use super::output::follow;
use crate::app::{Shared, lock};
use crate::clock;
use crate::problem::Problem;
use crate::types::{AnyJson, DemoState, ObjectKind, State, StateEvent};

/// Maximum number of progress lines.
const MAX_LINES: usize = 200;

/// How it is.
#[derive(Debug, Default)]
pub(crate) struct Demo(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    latest: Option<DemoState>,
    pid: Option<u32>,
    /// It was stopped before its process was started.
    is_stopped: bool,
}

impl Demo {
    pub(crate) fn state(&self) -> DemoState {
        lock(&self.0).latest.clone().unwrap_or_else(none)
    }

    fn change(&self, change: impl FnOnce(&mut DemoState)) {
        if let Some(latest) = &mut lock(&self.0).latest {
            change(latest);
        }
    }
}

fn none() -> DemoState {
    DemoState {
        state: None,
        asked_at: None,
        ended_at: None,
        progress: vec![],
        result: None,
        exit_code: None,
        error: None,
    }
}

/// Starts one.
pub(crate) async fn start(app: &Shared, job: DemoJob) -> Result<(), Problem> {
    let before = {
        let mut inner = lock(&app.demo.0);
        if inner.latest.as_ref().and_then(|d| d.state).is_some_and(|s| !s.is_over()) {
            return Err(Problem::conflict("not-ended", "a demo is running"));
        }
        let asked =
            DemoState { state: Some(State::Starting), asked_at: Some(clock::now()), ..none() };
        let new = Inner { latest: Some(asked), ..Inner::default() };
        std::mem::replace(&mut *inner, new)
    };
    let started = match app.launcher.start(Order::job(Job::Demo(job))).await {
        Ok(started) => started,
        Err(problem) => {
            // The previous result is more useful than that of a demo that never started.
            *lock(&app.demo.0) = before;
            return Err(problem);
        }
    };
    let pid = started.pid;
    let is_stopped = {
        let mut inner = lock(&app.demo.0);
        inner.pid = Some(pid);
        let is_stopped = inner.is_stopped;
        if let Some(latest) = &mut inner.latest {
            latest.state = Some(if is_stopped { State::Ending } else { State::Running });
        }
        is_stopped
    };
    tell(app);
    tokio::spawn(watch(app.clone(), started));
    if is_stopped {
        let _ = app.launcher.order(Order::Stop { pid }).await;
    }
    Ok(())
}

async fn watch(app: Shared, started: super::launcher::Started) {
    let ended = follow(started, |event| {
        let Event::Progress(notice) = event else { return };
        let line: String = notice.message.trim().chars().take(1000).collect();
        app.demo.change(|demo| {
            if demo.progress.len() >= MAX_LINES {
                demo.progress.remove(0);
            }
            demo.progress.push(line);
        });
        tell(&app);
    })
    .await;
    let result = ended.result.clone();
    {
        let mut inner = lock(&app.demo.0);
        inner.pid = None;
        let is_stopped = inner.is_stopped;
        if let Some(demo) = &mut inner.latest {
            demo.ended_at = Some(clock::now());
            demo.exit_code = ended.exit.and_then(|e| e.code);
            demo.state = Some(match (&result, is_stopped) {
                (Some(_), _) => State::Ended,
                (None, true) => State::Interrupted,
                (None, false) => State::Failed,
            });
            demo.error = (demo.state == Some(State::Failed)).then(|| ended.why().message);
            demo.result = result.map(AnyJson);
        }
    }
    tell(&app);
}

/// Stops the demo; without a running one nothing happens.
pub(crate) async fn stop(app: &Shared) {
    let pid = {
        let mut inner = lock(&app.demo.0);
        let is_open = |demo: &&mut DemoState| demo.state.is_some_and(|s| !s.is_over());
        let Some(demo) = inner.latest.as_mut().filter(is_open) else { return };
        demo.state = Some(State::Ending);
        inner.is_stopped = true;
        inner.pid
    };
    tell(app);
    if let Some(pid) = pid {
        // A finished one needs no stopping.
        let _ = app.launcher.order(Order::Stop { pid }).await;
    }
}

fn tell(app: &Shared) {
    let demo = app.demo.state();
    let Some(state) = demo.state else { return };
    app.hub.state(&StateEvent {
        kind: ObjectKind::Demo,
        id: "demo".into(),
        state,
        error: demo.error,
        run_id: None,
        step: demo.progress.last().cloned(),
    });
}
