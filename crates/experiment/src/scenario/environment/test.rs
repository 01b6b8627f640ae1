//! Tests as processes, exactly as `weir test` runs them.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_jobs::{EmulatorOnPath, Event, KeySource, NoEvent, Notice, Process, TestJob};
use weir_model::Refusal;
use weir_model::plan::Plan;
use weir_model::record::Record;
use weir_model::threads::Threads;

use super::{END, Environment, failed, not_started};
use crate::scenario::ScenarioError;

/// A test to run.
#[derive(Debug, Clone)]
pub(in crate::scenario) struct Job {
    pub(in crate::scenario) step: String,
    pub(in crate::scenario) from: Option<String>,
    pub(in crate::scenario) to: Option<String>,
    pub(in crate::scenario) plan: Plan,
    pub(in crate::scenario) threads: Threads,
    pub(in crate::scenario) labels: Vec<(String, String)>,
    /// Latest end.
    pub(in crate::scenario) until: Option<Instant>,
    /// Start of sending on CLOCK_MONOTONIC, ns.
    pub(in crate::scenario) start_at_ns: Option<u64>,
    /// Control socket for `weir ctl`, if any.
    pub(in crate::scenario) socket: Option<PathBuf>,
    /// Whether to store its record.
    pub(in crate::scenario) is_kept: bool,
}

/// Exit code of a test whose peer was unreachable, refused it, or disappeared.
const PEER_LOST: i32 = 3;

/// A test without a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::scenario) struct NoRecord {
    /// The error message.
    pub(in crate::scenario) reason: String,
    /// Its peer was unreachable, refused it, or disappeared.
    pub(in crate::scenario) peer_unreachable: bool,
    /// It was stopped early.
    pub(in crate::scenario) interrupted: bool,
    /// It can't be simulated.
    pub(in crate::scenario) not_simulated: bool,
}

/// A test with a record.
pub(in crate::scenario) struct Tested {
    pub(in crate::scenario) record: Box<Record>,
    /// Its peer disappeared during the test: the record is partial.
    pub(in crate::scenario) peer_unreachable: bool,
    /// It was stopped early.
    pub(in crate::scenario) interrupted: bool,
    /// Why the record was not stored, although it should have been.
    pub(in crate::scenario) unkept: Option<String>,
}

/// Progress of a test.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::scenario) struct Progress {
    pub(in crate::scenario) bytes: u64,
    pub(in crate::scenario) packets: u64,
}

impl Environment<'_> {
    /// Runs a test. The inner error is a test without a record.
    pub(in crate::scenario) fn test(
        &self,
        job: &Job,
        is_stopped: &dyn Fn() -> bool,
        progress: &dyn Fn(Progress),
    ) -> Result<Result<Tested, NoRecord>, ScenarioError> {
        let what = format!("weir test of step {}", job.step);
        let target = self.target(job.to.as_deref(), &job.plan)?;
        let emulator = self.emulator_of_test(job.from.as_deref(), job.to.as_deref());
        let test = TestJob {
            host: Some(target.address),
            port: target.port,
            plan: job.plan.clone(),
            key: KeySource::file(target.key_file),
            labels: job.labels.iter().cloned().collect(),
            store: job.is_kept && !self.options.no_store,
            control_socket: job.socket.clone(),
            emulator: emulator.map(|(socket, side)| EmulatorOnPath {
                control_socket: socket.into(),
                client_side: side.map(Into::into),
            }),
            start_at_ns: job.start_at_ns,
            threads: job.threads.clone(),
            ..TestJob::default()
        };
        let command = self.command(job.from.as_deref(), &self.options.program)?;
        let mut running = Process::start(command, &weir_jobs::Job::Test(Box::new(test)), END)
            .map_err(not_started(&what))?;
        let mut record: Option<Box<Record>> = None;
        let mut refusal: Option<Refusal> = None;
        let mut unkept = None;
        let mut is_late = false;
        let mut so_far = Progress::default();
        let mut asked = false;
        let mut latest = job.until;
        loop {
            match running.next_within(Duration::from_millis(20)) {
                Ok(Event::Interval(interval)) => {
                    for end in [&interval.total.forward, &interval.total.reverse] {
                        let sender = end.as_ref().and_then(|end| end.sender.as_ref());
                        so_far.bytes += sender.map_or(0, |sent| sent.bytes);
                        so_far.packets += sender.map_or(0, |sent| sent.packets);
                    }
                    progress(so_far);
                }
                Ok(Event::End(found)) => record = Some(found),
                Ok(Event::Error(found)) => refusal = Some(found),
                Ok(Event::Warning(notice)) if notice.code == Notice::NOT_STORED => {
                    unkept = Some(notice.message);
                }
                Ok(_) | Err(NoEvent::Timeout) => {}
                Err(NoEvent::Ended) => break,
            }
            let late = latest.is_some_and(|until| Instant::now() >= until);
            if late && asked {
                // It did not stop when asked.
                break;
            }
            if !asked && (late || is_stopped()) {
                asked = true;
                running.stop();
                latest = Some(Instant::now() + END);
                is_late = late;
            }
        }
        let peer_unreachable =
            refusal.as_ref().is_some_and(|refusal| refusal.exit_code == PEER_LOST);
        let late = is_late.then(|| "it took longer than its step may".to_owned());
        match record {
            Some(mut record) if !record.flows.is_empty() => {
                self.saw_hosts(job.from.as_deref(), job.to.as_deref(), &record);
                let error = refusal.map(|refusal| refusal.message).or(late);
                if let Some(error) = error
                    && record.end_reason.is_empty()
                {
                    record.end_reason = error;
                }
                Ok(Ok(Tested { record, peer_unreachable, interrupted: asked, unkept }))
            }
            _ => {
                let reason = match (&refusal, late) {
                    (None, Some(late)) => late,
                    _ => running.ended(refusal).message.chars().take(300).collect(),
                };
                let not_simulated = false;
                Ok(Err(NoRecord { reason, peer_unreachable, interrupted: asked, not_simulated }))
            }
        }
    }
}

/// Sends one request to the control socket of a running test; returns the answer.
pub(in crate::scenario) fn control(
    socket: &Path,
    verb: &str,
    connection: Option<&str>,
) -> Result<(), ScenarioError> {
    let what = format!("test at {}", socket.display());
    let mut stream = weir_net::local::connect(socket).map_err(failed("reach", &what))?;
    let _ = stream.set_read_timeout(Some(END));
    let mut request = json!({ "verb": verb });
    if let Some(connection) = connection {
        request["connection"] = connection.into();
    }
    stream.write_all(format!("{request}\n").as_bytes()).map_err(failed("ask", &what))?;
    let mut answer = String::new();
    let read = BufReader::new(Read::take(stream, 16 << 20)).read_line(&mut answer);
    read.map_err(failed("ask", &what))?;
    let answer: Value = serde_json::from_str(&answer).map_err(failed("understand", &what))?;
    match answer["ok"].as_bool() {
        Some(true) => Ok(()),
        _ => Err(ScenarioError::program(&what, answer["error"].as_str().unwrap_or("no answer"))),
    }
}
