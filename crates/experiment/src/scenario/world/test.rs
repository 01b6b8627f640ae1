//! Tests as programs: what a scenario measures is what a person would.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_model::plan::Plan;
use weir_model::record::Record;
use weir_model::threads::Threads;

use super::{END, World, failed, not_started};
use crate::lines::TestLine;
use crate::process::{MOST_WORDS_BYTES, Running, lines, read_all, without_head};
use crate::scenario::ScenarioError;

/// A test to be run.
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
    /// CLOCK_MONOTONIC, ns, at which sending starts.
    pub(in crate::scenario) start_at_ns: Option<u64>,
    /// Whether `weir ctl` may reach it.
    pub(in crate::scenario) socket: Option<PathBuf>,
    /// Whether the store gets its record, where runs are kept.
    pub(in crate::scenario) is_kept: bool,
}

/// How a test says that its record could not be kept.
const NOT_KEPT: &str = "warning: the result was not kept: ";

/// The exit code that a test's error names where its peer was not reached, refused it, or was lost.
const PEER_LOST: i32 = 3;

/// A test that gave no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::scenario) struct NoRecord {
    /// Why, in its own words where it had some.
    pub(in crate::scenario) reason: String,
    /// Its peer was not reached, refused it, or was lost.
    pub(in crate::scenario) peer_lost: bool,
    /// It was asked to end before its time.
    pub(in crate::scenario) cut: bool,
}

/// A test that gave a record.
pub(in crate::scenario) struct Tested {
    pub(in crate::scenario) record: Box<Record>,
    /// Its peer was lost on the way: the record is a part of one.
    pub(in crate::scenario) peer_lost: bool,
    /// It was asked to end before its time.
    pub(in crate::scenario) cut: bool,
    /// Why it is not in the store, though it was to be.
    pub(in crate::scenario) unkept: Option<String>,
}

/// How far a test is.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::scenario) struct Progress {
    pub(in crate::scenario) bytes: u64,
    pub(in crate::scenario) packets: u64,
}

impl World<'_> {
    /// Runs a test to its end. The inner error is of one that ended without figures.
    pub(in crate::scenario) fn test(
        &self,
        job: &Job,
        is_stopped: &dyn Fn() -> bool,
        progress: &dyn Fn(Progress),
    ) -> Result<Result<Tested, NoRecord>, ScenarioError> {
        let what = format!("weir test of step {}", job.step);
        let is_ipv6 = job.plan.family == Some(weir_model::plan::Family::Ipv6);
        let target = self.target(job.to.as_deref(), is_ipv6)?;
        let plan = tempfile::NamedTempFile::new_in(self.directory.path())
            .and_then(|mut file| {
                file.write_all(&serde_json::to_vec(&job.plan)?)?;
                Ok(file)
            })
            .map_err(failed("write the plan of", &job.step))?;
        let mut command = self.command(job.from.as_deref(), &self.options.program)?;
        let line = TestLine {
            host: &target.address,
            port: target.port,
            plan: Some(plan.path()),
            key_file: target.key_file.as_deref(),
            labels: &job.labels,
            no_store: self.options.no_store || !job.is_kept,
            control_socket: job.socket.as_deref(),
            emulator: self.emulator_of_tests(job.from.as_deref()),
            start_at_ns: job.start_at_ns,
            threads: Some(&job.threads),
        };
        command
            .args(line.words().map_err(|e| ScenarioError::program(&what, &e))?)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = Running::patient(command.spawn().map_err(not_started(&what))?, END);
        let lines = lines(running.child.stdout.take());
        let words = read_all(running.child.stderr.take(), MOST_WORDS_BYTES);
        let mut record: Option<Box<Record>> = None;
        let mut error: Option<String> = None;
        let mut peer_lost = false;
        let mut so_far = Progress::default();
        let mut asked = false;
        let mut latest = job.until;
        loop {
            match lines.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => match serde_json::from_str::<Line>(&line) {
                    Ok(Line { event, data }) if event == "interval" => {
                        for end in ["forward", "reverse"] {
                            let sent = &data["total"][end]["sender"];
                            so_far.bytes += sent["bytes"].as_u64().unwrap_or(0);
                            so_far.packets += sent["packets"].as_u64().unwrap_or(0);
                        }
                        progress(so_far);
                    }
                    Ok(Line { event, data }) if event == "end" => {
                        record = serde_json::from_value(data).ok().map(Box::new);
                    }
                    Ok(Line { event, data }) if event == "error" => {
                        error = data["message"].as_str().map(Into::into);
                        peer_lost = data["exit_code"] == PEER_LOST;
                    }
                    _ => {}
                },
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let late = latest.is_some_and(|until| Instant::now() >= until);
            if late && asked {
                // It was asked and did not end.
                break;
            }
            if !asked && (late || is_stopped()) {
                asked = true;
                running.terminate();
                latest = Some(Instant::now() + END);
                if late {
                    error.get_or_insert_with(|| "it took longer than its step may".into());
                }
            }
        }
        drop(running);
        let words = words.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        match record {
            Some(mut record) if !record.flows.is_empty() => {
                if let Some(error) = error
                    && record.end_reason.is_empty()
                {
                    record.end_reason = error;
                }
                let unkept = words.lines().find_map(|line| line.strip_prefix(NOT_KEPT));
                Ok(Ok(Tested { record, peer_lost, cut: asked, unkept: unkept.map(Into::into) }))
            }
            _ => {
                let reason = error.unwrap_or_else(|| match without_head(&words) {
                    said if said.is_empty() => "it ended without a result".into(),
                    said => said.chars().take(300).collect(),
                });
                Ok(Err(NoRecord { reason, peer_lost, cut: asked }))
            }
        }
    }
}

#[derive(serde::Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    data: Value,
}

/// One line to a running test's control socket, and its answer.
pub(in crate::scenario) fn control(
    socket: &Path,
    verb: &str,
    connection: Option<&str>,
) -> Result<(), ScenarioError> {
    let what = format!("test at {}", socket.display());
    let mut stream =
        std::os::unix::net::UnixStream::connect(socket).map_err(failed("reach", &what))?;
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
