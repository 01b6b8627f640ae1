//! The running calibration; at most one.

use std::sync::Mutex;

use weir_jobs::{CalibrateJob, Event, Job};

use super::orders::Order;
use super::output::follow;
use crate::app::{Shared, lock};
use crate::problem::Problem;
use crate::types::{ObjectKind, State, StateEvent};

/// How it is.
#[derive(Debug, Default)]
pub(crate) struct Calibrating(Mutex<Progress>);

/// Its progress.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    pub(crate) running: bool,
    pub(crate) step: Option<String>,
    pub(crate) error: Option<String>,
}

impl Calibrating {
    pub(crate) fn progress(&self) -> Progress {
        lock(&self.0).clone()
    }
}

/// Starts one.
pub(crate) async fn start(app: &Shared, job: CalibrateJob) -> Result<(), Problem> {
    {
        let mut progress = lock(&app.calibrating.0);
        if progress.running {
            return Err(Problem::conflict("not-ended", "a calibration is running"));
        }
        *progress = Progress { running: true, ..Progress::default() };
    }
    let started = match app.launcher.start(Order::job(Job::Calibrate(job))).await {
        Ok(started) => started,
        Err(problem) => {
            *lock(&app.calibrating.0) = Progress::default();
            return Err(problem);
        }
    };
    tell(app, State::Running, None);
    let app = app.clone();
    tokio::spawn(async move {
        let ended = follow(started, |event| {
            if let Event::Progress(notice) = event {
                let step = notice.message.chars().take(1000).collect();
                lock(&app.calibrating.0).step = Some(step);
            }
        })
        .await;
        let is_done = ended.exit.and_then(|e| e.code) == Some(0);
        let error = (!is_done).then(|| ended.why().message);
        *lock(&app.calibrating.0) = Progress { error: error.clone(), ..Progress::default() };
        tell(&app, if error.is_some() { State::Failed } else { State::Ended }, error);
    });
    Ok(())
}

fn tell(app: &Shared, state: State, error: Option<String>) {
    app.hub.state(&StateEvent {
        kind: ObjectKind::Calibration,
        id: "calibration".into(),
        state,
        error,
        run_id: None,
        step: None,
    });
}
