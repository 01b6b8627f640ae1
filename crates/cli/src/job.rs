//! `weir job`: reads one job from standard input and prints events on standard output ([`weir_jobs`] defines the protocol).
//!
//! The commands of the command line make a job from their flags and run it by the same functions. Only the output of messages
//! differs: it is the only code that asks [`is_job`].

use std::io::{BufRead, BufReader, Read, Write, stderr, stdin, stdout};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use weir_jobs::{Answer, Command, Event, Job, MAX_JOB_BYTES, Notice, parse_job};
use weir_model::impairment::Impairment;
use weir_net::process::own_program;
use weir_net::thread::lock;

use crate::app::ErrorForm;
use crate::commands;
use crate::engine::StopReason;
use crate::error::CliError;

/// A job that has not stopped this long after its standard input was closed is ended.
const ORPHANED: Duration = Duration::from_secs(30);

type OnStart = Box<dyn FnMut(u64) + Send>;
type OnSet = Box<dyn FnMut(Impairment) -> Result<(), String> + Send>;
type OnConnection = Box<dyn FnMut(ConnectionCommand, Option<&str>) -> Result<(), String> + Send>;

/// What a connection of a running test is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConnectionCommand {
    Start,
    Stop,
}

/// The state of the process that runs a job.
struct Session {
    /// Standard input after the job's line; the thread that reads commands takes it.
    input: Mutex<Option<BufReader<std::io::Stdin>>>,
    is_detached: bool,
    on_set: Mutex<Option<OnSet>>,
    on_start: Mutex<Option<OnStart>>,
    on_connection: Mutex<Option<OnConnection>>,
}

static SESSION: OnceLock<Session> = OnceLock::new();

/// Environment variable with the program to start for jobs instead of this one; tests use it to wrap the program.
const PROGRAM: &str = "WEIR_PROGRAM";

/// The program that runs jobs: the running program, even if its file was replaced.
pub(crate) fn program() -> PathBuf {
    std::env::var_os(PROGRAM).map_or_else(own_program, PathBuf::from)
}

/// Whether this process is a job: its standard output carries events.
pub(crate) fn is_job() -> bool {
    SESSION.get().is_some()
}

/// Reports an event. A reader that has closed its end is no error.
pub(crate) fn emit(event: &Event) {
    let line = event.to_line().unwrap_or_default();
    let mut out = stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Registers the emulator's handler of the command that changes its configuration.
pub(crate) fn on_set(handler: impl FnMut(Impairment) -> Result<(), String> + Send + 'static) {
    if let Some(session) = SESSION.get() {
        *lock(&session.on_set) = Some(Box::new(handler));
    }
}

/// Registers the handler of commands for connections of a running test; `None`: all of them.
pub(crate) fn on_connection(
    handler: impl FnMut(ConnectionCommand, Option<&str>) -> Result<(), String> + Send + 'static,
) {
    if let Some(session) = SESSION.get() {
        *lock(&session.on_connection) = Some(Box::new(handler));
    }
}

/// Registers the handler of the command that starts a waiting test at a time of CLOCK_MONOTONIC, ns.
pub(crate) fn on_start(handler: impl FnMut(u64) + Send + 'static) {
    if let Some(session) = SESSION.get() {
        *lock(&session.on_start) = Some(Box::new(handler));
    }
}

/// Runs the job on standard input; returns the exit code.
pub(crate) fn run() -> i32 {
    let mut input = BufReader::new(stdin());
    let mut line = String::new();
    let read = (&mut input).take(MAX_JOB_BYTES).read_line(&mut line);
    let job = match read {
        Err(error) => {
            Err(Box::new(weir_model::Refusal::new("job", format!("standard input: {error}"), 2)))
        }
        Ok(_) => parse_job(&line),
    };
    let session = Session {
        input: Mutex::new(Some(input)),
        is_detached: job.as_ref().is_ok_and(Job::is_detached),
        on_set: Mutex::new(None),
        on_start: Mutex::new(None),
        on_connection: Mutex::new(None),
    };
    // It is set only here, so this can't fail.
    let _ = SESSION.set(session);
    let done = match job {
        Err(refusal) => Err(CliError::Refused(refusal)),
        Ok(job) => dispatch(job),
    };
    done.unwrap_or_else(|error| {
        emit(&Event::Error(error.refusal()));
        error.exit_code()
    })
}

fn dispatch(job: Job) -> Result<i32, CliError> {
    match job {
        Job::Serve(job) => commands::serve::run_job(*job),
        Job::Test(job) => Ok(commands::test::run_job(*job)),
        Job::Emulator(job) => commands::impair::run_job(*job),
        Job::Scenario(job) => commands::experiment::run::run_job(*job),
        Job::Resume(job) => commands::experiment::run::resume_job(&job),
        Job::LabUp(job) => commands::lab::up_job(*job),
        Job::LabDown(job) => commands::lab::down_job(&job),
        Job::Calibrate(job) => commands::calibrate::run_job(&job),
        Job::Demo(job) => commands::demo::run_job(&job),
        Job::Doctor {} => commands::doctor::run_job(),
        Job::Peer(job) => Ok(commands::peers::run_job(*job)),
    }
}

/// Reads commands on a thread of its own until standard input is closed, which stops the job unless it is detached.
/// Does nothing if this process is not a job.
///
/// # Errors
/// The thread can't be started.
pub(crate) fn listen(mut stop: impl FnMut(StopReason) + Send + 'static) -> Result<(), CliError> {
    let Some(session) = SESSION.get() else { return Ok(()) };
    let input = lock(&session.input).take();
    let Some(input) = input else { return Ok(()) };
    let is_detached = session.is_detached;
    let read = move || {
        let mut is_stopping = false;
        for line in input.lines().map_while(Result::ok) {
            match weir_model::document::parse_json(line.as_bytes()) {
                Ok(Command::Stop) => {
                    is_stopping = true;
                    stop(StopReason::Interrupted);
                }
                Ok(Command::Start { at_ns }) => match lock(&session.on_start).as_mut() {
                    Some(handler) => handler(at_ns),
                    None => warn("start", "this job does not wait for its start"),
                },
                Ok(Command::StartConnection { connection }) => {
                    of_connection(session, ConnectionCommand::Start, connection.as_deref());
                }
                Ok(Command::StopConnection { connection }) => {
                    of_connection(session, ConnectionCommand::Stop, connection.as_deref());
                }
                Ok(Command::Set { impairment }) => set(session, *impairment),
                Err(error) => warn("command", &format!("not a command: {error}")),
            }
        }
        if is_detached {
            return;
        }
        if !is_stopping {
            stop(StopReason::Terminated);
        }
        std::thread::sleep(ORPHANED);
        std::process::exit(StopReason::Terminated.exit_code());
    };
    let thread = std::thread::Builder::new().name("weir-commands".into()).spawn(read);
    thread.map(drop).map_err(|e| CliError::Internal(format!("start a thread: {e}")))
}

fn of_connection(session: &Session, command: ConnectionCommand, connection: Option<&str>) {
    let done = match lock(&session.on_connection).as_mut() {
        Some(handler) => handler(command, connection),
        None => Err("this job has no connections".to_owned()),
    };
    emit(&Event::Commanded(Answer { error: done.err() }));
}

fn set(session: &Session, impairment: Impairment) {
    let mut handler = lock(&session.on_set);
    let done = match handler.as_mut() {
        Some(handler) => handler(impairment),
        None => Err("this job has no configuration".to_owned()),
    };
    emit(&Event::Configured(Answer { error: done.err() }));
}

/// A warning with a stable code.
pub(crate) fn warn(code: &str, message: &str) {
    report(&Event::Warning(Notice::new(code, message)), &format!("warning: {message}"));
}

/// Progress with a stable code.
pub(crate) fn notice(code: &str, message: &str) {
    report(&Event::Progress(Notice::new(code, message)), message);
}

/// An error that does not end this program, or whose result was printed on standard output already.
pub(crate) fn report_error(error: &CliError) {
    report(&Event::Error(error.refusal()), &format!("error: {}", error.chain()));
}

/// Reports an event: a job on standard output; other commands on standard error, as `text` or, if the environment requests
/// errors as data, as the event.
pub(crate) fn report(event: &Event, text: &str) {
    if is_job() {
        return emit(event);
    }
    let line = match ErrorForm::of_environment() {
        ErrorForm::Text => None,
        ErrorForm::Json | ErrorForm::Stream => event.to_line().ok(),
    };
    // Unlike `eprintln!`, this does not panic when stderr is closed.
    let text = clean_lines(text);
    let _ = writeln!(stderr(), "{}", line.as_deref().map_or(&*text, str::trim_end));
}

/// A text whose lines control no terminal: parts of it may come from other hosts.
fn clean_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(weir_report::clean).collect();
    lines.join("\n")
}
