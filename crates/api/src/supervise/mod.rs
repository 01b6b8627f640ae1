//! Running jobs: started through the launcher, and followed here.

mod calibrating;
mod clients;
pub(crate) mod demo;
pub(crate) mod emulators;
mod experiments;
mod history;
pub(crate) mod lab_servers;
#[cfg(target_os = "linux")]
mod launch;
mod launcher;
mod orders;
mod output;
#[cfg_attr(not(unix), path = "sockets/absent.rs")]
mod sockets;
pub(crate) mod stored;
mod tests;

use std::time::Duration;

use crate::app::Shared;
use crate::problem::Problem;
use output::{JobOutcome, follow};
use weir_jobs::{Event, Job, ServeJob};

pub(crate) use calibrating::{Calibrating, start as calibrate};
pub(crate) use clients::Clients;
pub(crate) use demo::Demo;
pub(crate) use emulators::Emulators;
pub(crate) use experiments::{
    Experiments, get as experiment, outcome as experiment_outcome, resume as resume_experiment,
    start as start_experiment, stop as stop_experiment,
};
pub(crate) use history::Written;
pub(crate) use lab_servers::LabServers;
#[cfg(target_os = "linux")]
pub use launch::{LaunchError, launch};
pub(crate) use launcher::Launcher;
pub(crate) use orders::{LabNode, Order};
pub(crate) use stored::StoredExperiments;
pub(crate) use tests::{CheckedTest, Tests, connection, start as start_test, stop as stop_test};

/// Time for the last events of a job after its end.
const LAST_EVENTS: Duration = Duration::from_millis(500);

/// The ids of the oldest finished entries (times are RFC 3339) beyond the maximum.
fn beyond<'a>(most: usize, ended: impl Iterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    let mut ended: Vec<_> = ended.collect();
    ended.sort_unstable();
    let over = ended.len().saturating_sub(most);
    ended.into_iter().take(over).map(|(_, id)| id.clone()).collect()
}

/// Runs a job to its end; a process that it leaves behind does not matter.
pub(crate) async fn finished(app: &Shared, order: Order) -> Result<JobOutcome, Problem> {
    let started = app.launcher.start(order).await?;
    let mut exit = started.exit;
    let mut ended = JobOutcome::default();
    let Some(output) = started.output else {
        ended.exit = exit.await.ok();
        return Ok(ended);
    };
    let mut events = output.events();
    ended.exit = loop {
        tokio::select! {
            exit = &mut exit => break exit.ok(),
            Some(heard) = events.recv() => ended.take(heard),
        }
    };
    while let Ok(Some(heard)) = tokio::time::timeout(LAST_EVENTS, events.recv()).await {
        ended.take(heard);
    }
    Ok(ended)
}

/// Runs a job to its end; a refusal is a problem, whose fields `field` maps to those of the request.
pub(crate) async fn finish(
    app: &Shared,
    order: Order,
    field: impl Fn(&str) -> String,
) -> Result<(), Problem> {
    let ended = finished(app, order).await?;
    match ended.exit.and_then(|e| e.code) {
        Some(0) => Ok(()),
        _ => Err(Problem::of_refusal(&ended.why(), field)),
    }
}

/// Starts the test server and forwards its events; resolves to its exit code.
pub(crate) async fn serve_tests(
    app: &Shared,
    job: ServeJob,
    mut take: impl FnMut(&Event) + Send + 'static,
) -> Result<tokio::task::JoinHandle<Option<i32>>, Problem> {
    let started = app.launcher.start(Order::job(Job::Serve(Box::new(job)))).await?;
    Ok(tokio::spawn(async move {
        let ended = follow(started, |event| take(event)).await;
        ended.exit.and_then(|e| e.code)
    }))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn those_that_ended_first_go_first() {
        let all =
            [("3", "b"), ("1", "z"), ("2", "a")].map(|(at, id)| (at.to_owned(), id.to_owned()));
        let over = |most| beyond(most, all.iter().map(|(at, id)| (at, id)));
        assert_eq!(over(2), ["z"], "and not what has the smallest id");
        assert_eq!(over(1), ["z", "a"]);
        assert_eq!(over(3), [""; 0]);
    }
}
