//! The demo: at most one runs, and the latest is remembered until the next.

use std::sync::Mutex;

use serde_json::Value;

use super::MOST_PRINTED_BYTES;
use super::orders::Order;
use super::output::{Line, error_in, keep_words};
use crate::app::{Shared, lock};
use crate::clock;
use crate::problem::Problem;
use crate::types::{AnyJson, DemoState, Kind, State, StateEvent};

/// Most lines of progress that are kept.
const MOST_LINES: usize = 200;
/// The schema of a result.
const SCHEMA: &str = "weir.demo/1";

/// How it is.
#[derive(Debug, Default)]
pub(crate) struct Demo(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    latest: Option<DemoState>,
    pid: Option<u32>,
    /// It was stopped before its program was there.
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
pub(crate) async fn start(app: &Shared, seconds: u32, simulate: bool) -> Result<(), Problem> {
    let before = {
        let mut inner = lock(&app.demo.0);
        if inner.latest.as_ref().and_then(|d| d.state).is_some_and(|s| !s.is_over()) {
            return Err(Problem::conflict("a demo is running"));
        }
        let asked =
            DemoState { state: Some(State::Starting), asked_at: Some(clock::now()), ..none() };
        let new = Inner { latest: Some(asked), ..Inner::default() };
        std::mem::replace(&mut *inner, new)
    };
    let started = match app.launcher.start(Order::Demo { seconds, simulate }).await {
        Ok(started) => started,
        Err(problem) => {
            // What came of the one before is worth more than one that never was.
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
    let (mut words, mut printed) = (String::new(), String::new());
    if let Some(output) = started.output {
        let mut lines = output.lines();
        while let Some(line) = lines.recv().await {
            match line {
                Line::Words(line) => {
                    keep_words(&mut words, &line);
                    let line: String = line.trim().chars().take(1000).collect();
                    app.demo.change(|demo| {
                        if demo.progress.len() >= MOST_LINES {
                            demo.progress.remove(0);
                        }
                        demo.progress.push(line);
                    });
                    tell(&app);
                }
                Line::Out(line) if printed.len() < MOST_PRINTED_BYTES => {
                    printed.push_str(&line);
                    printed.push('\n');
                }
                Line::Out(_) => {}
            }
        }
    }
    let exit = started.exit.await.ok();
    let found: Option<Value> = serde_json::from_str(&printed).ok();
    let result = found.filter(|value| value["schema"] == SCHEMA);
    {
        let mut inner = lock(&app.demo.0);
        inner.pid = None;
        let is_stopped = inner.is_stopped;
        if let Some(demo) = &mut inner.latest {
            demo.ended_at = Some(clock::now());
            demo.exit_code = exit.and_then(|e| e.code);
            demo.state = Some(State::Ended);
            if result.is_none() && !is_stopped {
                demo.state = Some(State::Failed);
                let told = [error_in(&printed), words.trim().into()];
                let told = told.into_iter().find(|words: &String| !words.is_empty());
                demo.error = Some(match (told, exit.and_then(|e| e.signal)) {
                    (_, Some(signal)) => format!("its program was killed by signal {signal}"),
                    (told, None) => {
                        told.unwrap_or_else(|| "its program ended without a word".into())
                    }
                });
            }
            demo.result = result.map(AnyJson);
        }
    }
    tell(&app);
}

/// Asks it to end; what it made goes with it. Nothing happens where none runs.
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
        // One that has just ended needs no stopping.
        let _ = app.launcher.order(Order::Stop { pid }).await;
    }
}

fn tell(app: &Shared) {
    let demo = app.demo.state();
    let Some(state) = demo.state else { return };
    app.hub.state(&StateEvent {
        kind: Kind::Demo,
        id: "demo".into(),
        state,
        error: demo.error,
        run_id: None,
        step: demo.progress.last().cloned(),
    });
}
