//! What runs: programs of this binary, started by the launcher, watched and told of here.

mod calibrating;
mod clients;
mod command_line;
pub(crate) mod demo;
pub(crate) mod earlier;
pub(crate) mod emulators;
mod experiments;
mod launch;
mod launcher;
mod orders;
mod output;
mod tests;

use std::time::Duration;

use axum::http::StatusCode;

use crate::app::Shared;
use crate::problem::Problem;
use output::{Line, follow, keep_words};

pub(crate) use calibrating::{Calibrating, start as calibrate};
pub(crate) use clients::Clients;
pub use clients::ServerNews;
pub(crate) use demo::Demo;
pub(crate) use earlier::Earlier;
pub(crate) use emulators::Emulators;
pub(crate) use experiments::{
    Experiments, get as experiment, outcome as experiment_outcome, resume as resume_experiment,
    start as start_experiment, stop as stop_experiment,
};
pub use launch::{LaunchError, launch};
pub(crate) use launcher::Launcher;
pub(crate) use orders::{LabNode, Order, socket_name, word};
pub(crate) use tests::{Tests, Wanted, connection, start as start_test, stop as stop_test};

/// Most that is kept of what a program of short life prints.
const MOST_PRINTED_BYTES: usize = 4 << 20;
/// Time for what a program said at last, once it has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The ids of those that ended first (their times are RFC 3339), where there are more than are kept.
fn beyond<'a>(most: usize, ended: impl Iterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    let mut ended: Vec<_> = ended.collect();
    ended.sort_unstable();
    let over = ended.len().saturating_sub(most);
    ended.into_iter().take(over).map(|(_, id)| id.clone()).collect()
}

/// What a program of short life came to.
pub(crate) struct Finished {
    /// Exit code.
    pub(crate) code: Option<i32>,
    /// What it printed.
    pub(crate) printed: String,
    /// What it said on standard error.
    words: String,
}

/// Runs a program to its end. One that leaves another behind has ended all the same.
pub(crate) async fn finished(app: &Shared, order: Order) -> Result<Finished, Problem> {
    let started = app.launcher.start(order).await?;
    let mut exit = started.exit;
    let (mut printed, mut words) = (String::new(), String::new());
    let Some(output) = started.output else {
        let code = exit.await.ok().and_then(|e| e.code);
        return Ok(Finished { code, printed, words });
    };
    let mut take = |line: Line| match line {
        Line::Words(line) => keep_words(&mut words, &line),
        Line::Out(line) if printed.len() < MOST_PRINTED_BYTES => {
            printed = format!("{printed}{line}\n")
        }
        Line::Out(_) => {}
    };
    let mut lines = output.lines();
    let ended = loop {
        tokio::select! {
            ended = &mut exit => break ended.ok(),
            Some(line) = lines.recv() => take(line),
        }
    };
    while let Ok(Some(line)) = tokio::time::timeout(LAST_WORDS, lines.recv()).await {
        take(line);
    }
    Ok(Finished { code: ended.and_then(|e| e.code), printed, words })
}

/// Runs a program to its end; what it refuses is a problem with its words.
pub(crate) async fn finish(app: &Shared, order: Order) -> Result<(), Problem> {
    let finished = finished(app, order).await?;
    let status = match finished.code {
        Some(0) => return Ok(()),
        Some(2) => StatusCode::UNPROCESSABLE_ENTITY,
        Some(4) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let said = finished.words.trim().trim_start_matches("error: ");
    let said = if said.is_empty() { "it ended without a word" } else { said };
    Err(Problem::new(status, said))
}

/// Starts the answering side and hands its lines on; its exit code comes at the end.
pub(crate) async fn answer_tests(
    app: &Shared,
    mut line: impl FnMut(&str) + Send + 'static,
) -> Result<tokio::task::JoinHandle<Option<i32>>, Problem> {
    let started = app.launcher.start(Order::Serve {}).await?;
    Ok(tokio::spawn(async move {
        let exit = follow(started, |found| match found {
            Line::Out(text) => line(&text),
            Line::Words(text) => eprintln_quietly(&text),
        });
        exit.await.and_then(|e| e.code)
    }))
}

/// A line to stderr that must not end the program when stderr is gone.
fn eprintln_quietly(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
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
