//! `weir serve`: flags become a configuration, the server runs, its events become lines.

mod args;
mod daemon;
mod output;
mod speed;
pub(crate) mod ui;

use std::ffi::OsString;

pub(crate) use args::ServeArgs;

use weir_jobs::{Event, ServeJob};

use crate::app::note;
use crate::engine::{self, ServerConfig, ServerEvent, Stop, TrafficError};
use crate::error::CliError;
use crate::job::emit;
use crate::key;
use crate::output::Sink;
use crate::signals;
use daemon::PidFile;
use output::Telling;

/// Runs the command until it is stopped or, with `-1`, its client is served.
pub(crate) fn run(args: &ServeArgs, words: &[OsString]) -> Result<i32, CliError> {
    let in_background = args.general.in_background;
    let (key, warnings) = args.key.resolve()?;
    let job = args::job(args);
    let config = args::config(&job, key)?;
    if !in_background {
        warnings.iter().for_each(|w| note(&format!("warning: {w}")));
    }
    if args.general.daemon && !in_background {
        return daemon::start(args, words);
    }
    let mut sink = if in_background {
        daemon::sink(args)?
    } else {
        Sink::open(args.output.logfile.as_deref(), args.output.timestamps.clone())?
    };
    if let Some(address) = args.ui.ui {
        return ui::run(args, address, sink);
    }
    let stop = Stop::new();
    signals::listen(&stop)?;
    let speed = speed::start(job.speed_test.as_ref())?;
    let head = speed.as_ref().map(speed::Serving::event);
    let ended = answer(args, config, &stop, &mut sink, head.as_ref(), engine::serve);
    drop(speed);
    ended?;
    if let Some(failure) = sink.failure() {
        return Err(failure);
    }
    Ok(stop.reason().map_or(0, |reason| reason.exit_code()))
}

/// Runs a job of `weir job`.
pub(crate) fn run_job(job: ServeJob) -> Result<i32, CliError> {
    job.threads.check("threads").map_err(CliError::Model)?;
    let key = key::resolve(&job.key)?;
    let config = args::config(&job, key)?;
    let stop = Stop::new();
    signals::listen(&stop)?;
    let speed = speed::start(job.speed_test.as_ref())?;
    engine::serve(config, stop.clone(), &mut |event| {
        let is_listening = matches!(event, ServerEvent::Listening { .. });
        emit(&output::event_of(event));
        if let Some(speed) = speed.as_ref().filter(|_| is_listening) {
            emit(&speed.event());
        }
    })?;
    drop(speed);
    Ok(stop.reason().map_or(0, |reason| reason.exit_code()))
}

/// Runs the engine and prints its events; `head` is printed once it listens.
fn answer(
    args: &ServeArgs,
    config: ServerConfig,
    stop: &Stop,
    sink: &mut Sink,
    head: Option<&Event>,
    engine: impl FnOnce(ServerConfig, Stop, &mut dyn FnMut(ServerEvent)) -> Result<(), TrafficError>,
) -> Result<(), CliError> {
    let telling = Telling { json: args.output.json_stream, verbose: args.output.verbose };
    let mut pid_file = None;
    let mut observe = |event: ServerEvent| {
        let event = output::event_of(event);
        let mut lines = telling.lines(&event);
        if let (Event::Listening(_), Some(head)) = (&event, head) {
            lines += &telling.lines(head);
        }
        if telling.json {
            sink.raw(&lines);
        } else {
            sink.text(&lines);
        }
        if matches!(event, Event::Listening(_)) {
            match args.general.pidfile.as_deref().map(PidFile::write).transpose() {
                Ok(written) => pid_file = written,
                Err(e) => note(&format!("warning: {}", e.chain())),
            }
            if args.general.in_background {
                daemon::hand_over(&lines);
            }
        }
    };
    let ended = engine(config, stop.clone(), &mut observe);
    drop(pid_file);
    Ok(ended?)
}
