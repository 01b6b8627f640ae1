//! `weir serve`: makes a configuration from flags, runs the server and prints its events.

mod args;
pub(crate) mod daemon;
mod figures;
mod output;
mod peers;
mod speed;
pub(crate) mod ui;

use std::ffi::OsString;

pub(crate) use args::ServeArgs;
pub(crate) use daemon::PidFile;
pub(crate) use peers::{Kept, trim};

use weir_jobs::{Event, ServeJob};

use crate::commands::exporter;
use crate::engine::{self, ServerConfig, ServerEvent, Stop, StopReason, TrafficError};
use crate::error::CliError;
use crate::job::{emit, warn};
use crate::key;
use crate::output::Sink;
use crate::signals;
use figures::SessionSums;
use output::EventFormat;

/// Runs the command until it is stopped or, with `-1`, its client is served.
pub(crate) fn run(args: &ServeArgs, words: &[OsString]) -> Result<i32, CliError> {
    let in_background = args.general.in_background;
    let (key, warnings) = args.key.resolve()?;
    let job = args::job(args);
    let mut config = args::config(&job, key)?;
    if !in_background {
        warnings.iter().for_each(|w| warn("key-exposed", w));
    }
    if args.general.daemon && !in_background {
        return daemon::start(args.output.json_stream, words);
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
    let peers = peers::open(&job, &mut config)?;
    let mut head: Vec<Event> = peers.iter().filter_map(peers::Listening::event).collect();
    head.extend(speed.as_ref().map(speed::Serving::event));
    let otlp = args.output.otlp.as_deref().map(exporter::start_otlp_service).transpose()?;
    let mut sums = SessionSums::default();
    let ended = answer(args, &mut sink, &head, |observe| {
        serve_all(config, &stop, (peers, words), engine::serve, &mut |event| {
            if let Some(otlp) = otlp.as_ref().filter(|_| sums.add(&event)) {
                otlp.set(sums.series());
            }
            observe(event);
        })
    });
    otlp.into_iter().for_each(|otlp| exporter::finish_otlp_service(otlp, &stop));
    drop(speed);
    ended?;
    if let Some(failure) = sink.failure() {
        return Err(failure);
    }
    Ok(stop.reason().map_or(0, StopReason::service_exit_code))
}

/// Runs a job of `weir job`.
pub(crate) fn run_job(job: ServeJob) -> Result<i32, CliError> {
    job.threads.check("threads").map_err(CliError::Model)?;
    let key = key::resolve(&job.key)?;
    let mut config = args::config(&job, key)?;
    let stop = Stop::new();
    signals::listen(&stop)?;
    let speed = speed::start(job.speed_test.as_ref())?;
    let peers = peers::open(&job, &mut config)?;
    let mut head: Vec<Event> = peers.iter().filter_map(peers::Listening::event).collect();
    head.extend(speed.as_ref().map(speed::Serving::event));
    let words = ["weir", "job"].map(OsString::from);
    serve_all(config, &stop, (peers, &words), engine::serve, &mut |event| {
        emit(&event);
        if matches!(event, Event::Listening(_)) {
            head.iter().for_each(emit);
        }
    })?;
    drop(speed);
    Ok(stop.reason().map_or(0, StopReason::service_exit_code))
}

/// Events that may wait for a slow reader of the output. When more come, the servers wait too.
const MAX_WAITING: usize = 1024;

/// Stops the other servers when dropped, so that they also stop after a panic.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.request(StopReason::Terminated);
    }
}

/// Runs Weir's server, and the servers of other tools' protocols until it ends; `observe` gets all events.
fn serve_all(
    config: ServerConfig,
    stop: &Stop,
    (peers, words): (Vec<peers::Listening>, &[OsString]),
    engine: impl FnOnce(ServerConfig, Stop, &mut dyn FnMut(ServerEvent)) -> Result<(), TrafficError>
    + Send,
    observe: &mut dyn FnMut(Event),
) -> Result<(), TrafficError> {
    let (events, received) = std::sync::mpsc::sync_channel(MAX_WAITING);
    let peers_stop = Stop::new();
    std::thread::scope(|scope| {
        for peer in peers {
            peer.start(scope, peers_stop.clone(), events.clone(), words);
        }
        let own = scope.spawn(move || {
            let _stop_on_drop = StopOnDrop(peers_stop);
            engine(config, stop.clone(), &mut |event| {
                let _ = events.send(output::event_of(event));
            })
        });
        received.iter().for_each(observe);
        // Propagate a panic of the server's thread.
        own.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs the servers and prints their events; `head` is printed once Weir's own server listens.
fn answer(
    args: &ServeArgs,
    sink: &mut Sink,
    head: &[Event],
    serve: impl FnOnce(&mut dyn FnMut(Event)) -> Result<(), TrafficError>,
) -> Result<(), CliError> {
    let format = EventFormat { json: args.output.json_stream, verbose: args.output.verbose };
    let mut pid_file = None;
    let mut observe = |event: Event| {
        let mut lines = format.lines(&event);
        if matches!(event, Event::Listening(_)) {
            lines.extend(head.iter().map(|event| format.lines(event)));
        }
        if format.json {
            sink.raw(&lines);
        } else {
            sink.text(&lines);
        }
        if matches!(event, Event::Listening(_)) {
            match args.general.pidfile.as_deref().map(PidFile::write).transpose() {
                Ok(written) => pid_file = written,
                Err(e) => warn("pidfile", &e.chain()),
            }
            if args.general.in_background {
                daemon::hand_over(&lines);
            }
        }
    };
    let ended = serve(&mut observe);
    drop(pid_file);
    Ok(ended?)
}
