//! `weir serve`: flags become a configuration, the server runs, its events become lines.

mod args;
mod daemon;
mod output;
mod speed;
pub(crate) mod ui;

use std::ffi::OsString;

pub(crate) use args::ServeArgs;

use crate::app::note;
use crate::commands::values::Cpus;
use crate::engine::{self, ServerConfig, ServerEvent, Stop, TrafficError};
use crate::error::CliError;
use crate::output::Sink;
use crate::signals;
use daemon::PidFile;
use output::Telling;

/// Runs the command until it is stopped or, with `-1`, its client is served.
pub(crate) fn run(args: &ServeArgs, words: &[OsString]) -> Result<i32, CliError> {
    let in_background = args.general.in_background;
    let (key, warnings) = args.key.resolve()?;
    args.general.affinity.as_ref().map_or(Ok(()), Cpus::check)?;
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
        return ui::run(args, address, words, sink);
    }
    let stop = Stop::new();
    signals::listen(&stop)?;
    let speed = speed::start(&args.speed)?;
    let head = speed.as_ref().map(|speed| speed.line(args.output.json_stream)).unwrap_or_default();
    let ended = answer(args, args::config(args, key), &stop, &mut sink, &head, engine::serve);
    drop(speed);
    ended?;
    if let Some(failure) = sink.failure() {
        return Err(failure);
    }
    Ok(stop.reason().map_or(0, |reason| reason.exit_code()))
}

/// Runs the engine and prints its events; `head` is called once it listens.
fn answer(
    args: &ServeArgs,
    config: ServerConfig,
    stop: &Stop,
    sink: &mut Sink,
    head: &str,
    engine: impl FnOnce(ServerConfig, Stop, &mut dyn FnMut(ServerEvent)) -> Result<(), TrafficError>,
) -> Result<(), CliError> {
    let telling = Telling { json: args.output.json_stream, verbose: args.output.verbose };
    let mut pid_file = None;
    let mut observe = |event: ServerEvent| {
        let mut lines = telling.lines(&event);
        if matches!(event, ServerEvent::Listening { .. }) {
            lines += head;
        }
        if telling.json {
            sink.raw(&lines);
        } else {
            sink.text(&lines);
        }
        if matches!(event, ServerEvent::Listening { .. }) {
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
