//! A job as a process of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc as threads;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use weir_jobs::{Command, Event, Job, NoEvent, Process};
use weir_model::Refusal;
use weir_model::json::to_line;
use weir_net::clock::Clock;

use super::accepted::accepted;
use crate::document::{Outcome, Submission};
use crate::names::{AgentName, JobId};

/// Longest time for which a job runs, s: a year.
const LONGEST_SECONDS: u64 = 365 * 24 * 3600;
/// For a job to end after it was asked to.
const GRACE: Duration = Duration::from_secs(10);
/// Between two looks at what it is asked to do.
const LOOK: Duration = Duration::from_millis(20);
/// Most warnings of an outcome.
const MOST_WARNINGS: usize = 1000;

/// A job that runs.
pub(super) struct Running {
    asked: threads::Sender<Command>,
}

impl Running {
    /// Starts the job on a thread of its own, which passes events on and sends the outcome. Events that are not
    /// taken fast enough are dropped.
    pub(super) fn start(
        program: std::process::Command,
        (submission, job): (Submission, Job),
        (agent, starts): (AgentName, u64),
        clock: Clock,
        events: mpsc::Sender<Event>,
        ended: mpsc::UnboundedSender<Outcome>,
    ) -> Running {
        let (asked, commands) = threads::channel();
        let (id, name) = (submission.id.clone(), agent.clone());
        let sender = ended.clone();
        let thread = std::thread::Builder::new().name("weir-job".into()).spawn(move || {
            let refused = failed(&submission.id, &agent, starts);
            // Its resource must become free, whatever happens.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                run(program, (submission, job), (agent, starts), &clock, &events, &commands)
            }));
            let _ = sender.send(outcome.unwrap_or_else(|_| refused("a defect of the agent")));
        });
        if let Err(error) = thread {
            let _ = ended.send(failed(&id, &name, starts)(&format!("start a thread: {error}")));
        }
        Running { asked }
    }

    /// Passes a command on; ignored if the job has ended.
    pub(super) fn command(&self, command: Command) {
        let _ = self.asked.send(command);
    }

    /// Asks it to stop.
    pub(super) fn stop(&self) {
        self.command(Command::Stop);
    }
}

/// Makes the outcome of a job that the agent could not run, of the reason.
fn failed(id: &JobId, agent: &AgentName, starts: u64) -> impl Fn(&str) -> Outcome + use<> {
    let (id, agent) = (id.clone(), agent.clone());
    move |reason| {
        let refusal = Refusal::new("agent", reason, 70);
        Outcome::refused(id.clone(), agent.clone(), starts, refusal)
    }
}

fn run(
    program: std::process::Command,
    (submission, job): (Submission, Job),
    (agent, starts): (AgentName, u64),
    clock: &Clock,
    events: &mpsc::Sender<Event>,
    commands: &threads::Receiver<Command>,
) -> Outcome {
    let longest = Duration::from_secs(submission.longest_seconds.min(LONGEST_SECONDS));
    let kind = job.kind();
    let without_record = submission.without_record;
    let mut outcome = Outcome {
        kind: kind.into(),
        started_unix_ns: Some(clock.realtime_ns()),
        error: None,
        ..Outcome::refused(submission.id.clone(), agent, starts, Refusal::default())
    };
    let job = match prepared(submission, job, &outcome.agent, clock) {
        Ok(job) => job,
        Err(refusal) => {
            outcome.started_unix_ns = None;
            outcome.error = Some(*refusal);
            return outcome;
        }
    };
    let mut process = match Process::start(program, &job, GRACE) {
        Ok(process) => process,
        Err(error) => {
            outcome.error = Some(Refusal::new("agent", format!("start the job: {error}"), 70));
            return outcome;
        }
    };
    let end = Instant::now() + longest;
    let mut is_stopping = false;
    loop {
        match process.next_within(LOOK) {
            Ok(event) => {
                keep(&mut outcome, &event);
                let _ = events.try_send(event);
            }
            Err(NoEvent::Ended) => break,
            Err(NoEvent::Timeout) => {}
        }
        let is_late = Instant::now() >= end;
        let mut is_asked = false;
        for command in commands.try_iter() {
            match command {
                Command::Stop => is_asked = true,
                other => process.command(&other),
            }
        }
        if !is_stopping && (is_late || is_asked) {
            is_stopping = true;
            process.stop();
            if is_late {
                outcome.warnings.push(format!("stopped after {} s", longest.as_secs()));
            }
        }
    }
    if outcome.error.is_none()
        && outcome.record.is_none()
        && outcome.result.is_none()
        && !is_stopping
    {
        // A server that was asked to stop has none of these; anything else ended for a reason.
        let ended = process.ended(None);
        outcome.error = (ended.exit_code != 0).then_some(ended);
    }
    let (rest, code) = process.finish();
    rest.iter().for_each(|event| keep(&mut outcome, event));
    outcome.exit_code = code;
    outcome.ended_unix_ns = Some(clock.realtime_ns());
    if without_record {
        outcome.record = None;
    }
    outcome
}

/// The job with what only this host knows: its clock and its name.
fn prepared(
    submission: Submission,
    job: Job,
    agent: &AgentName,
    clock: &Clock,
) -> Result<Job, Box<Refusal>> {
    let mut job = accepted(job)?;
    if let Job::Test(test) = &mut job {
        test.labels.insert("agent".into(), agent.to_string());
        test.labels.insert("job".into(), submission.id.to_string());
        if let Some(unix_ns) = submission.start_at_unix_ns {
            test.start_at_ns = Some(monotonic_ns(unix_ns, clock));
        }
    }
    Ok(job)
}

/// The time of CLOCK_MONOTONIC at this time of the wall clock, both in ns.
pub(super) fn monotonic_ns(unix_ns: u64, clock: &Clock) -> u64 {
    let offset_ns = clock.bracket().realtime_minus_monotonic();
    unix_ns.saturating_add_signed(offset_ns.saturating_neg())
}

/// Keeps what belongs to the outcome.
fn keep(outcome: &mut Outcome, event: &Event) {
    match event {
        Event::End(record) => outcome.record = tree(record),
        Event::Result(value) => outcome.result = Some(value.clone()),
        Event::Error(refusal) => outcome.error = Some(refusal.clone()),
        Event::Warning(notice) if outcome.warnings.len() < MOST_WARNINGS => {
            outcome.warnings.push(notice.message.clone());
        }
        _ => {}
    }
}

/// A record as a tree, without figures that are not finite.
fn tree<T: Serialize>(value: &T) -> Option<Value> {
    serde_json::from_str(&to_line(value).ok()?).ok()
}
