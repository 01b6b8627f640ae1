//! Tests as processes, exactly as `weir test` runs them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use weir_jobs::{Command, EmulatorOnPath, Event, NoEvent, Notice, Process, RunningJob, TestJob};
use weir_model::Refusal;
use weir_model::plan::Plan;
use weir_model::record::Record;
use weir_model::threads::Threads;
use weir_net::thread::lock;

use super::{END, Environment, not_started, refused};
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
    /// Where it waits until others are ready as well, if any.
    pub(in crate::scenario) gate: Option<Arc<StartGate>>,
    /// Brings commands for its connections, if any.
    pub(in crate::scenario) orders: Option<Arc<Mutex<mpsc::Receiver<Order>>>>,
    /// Whether to store its record.
    pub(in crate::scenario) is_kept: bool,
}

/// A command for connections of a running test.
#[derive(Debug)]
pub(in crate::scenario) struct Order {
    pub(in crate::scenario) command: Command,
    /// Gets the answer; closed without one if the test has ended.
    pub(in crate::scenario) reply: mpsc::SyncSender<Result<(), String>>,
}

impl Job {
    /// The commands that have come, once the test `is_running`.
    fn orders_of(&self, is_running: bool) -> Vec<Order> {
        let orders = self.orders.as_ref().filter(|_| is_running);
        orders.map(|orders| lock(orders).try_iter().collect()).unwrap_or_default()
    }
}

/// Between two looks at what a test is asked to do.
const LOOK: Duration = Duration::from_millis(20);
/// The same for a test whose connections can be started and stopped.
const ORDERS_LOOK: Duration = Duration::from_millis(2);
/// From the moment when the last test is ready to the common start: the others have to learn of it.
const START_LEAD: Duration = Duration::from_millis(500);
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

/// Tests that start at the same instant, once all of them are ready.
#[derive(Debug)]
pub(in crate::scenario) struct StartGate {
    waiting: Mutex<usize>,
    at_ns: OnceLock<u64>,
}

impl StartGate {
    /// For this many tests.
    pub(in crate::scenario) fn of(tests: usize) -> StartGate {
        StartGate { waiting: Mutex::new(tests), at_ns: OnceLock::new() }
    }

    /// One more test is ready, or has ended before it was; the last one decides when all start.
    fn arrive(&self, now_ns: u64) {
        let mut waiting = lock(&self.waiting);
        *waiting = waiting.saturating_sub(1);
        if *waiting == 0 {
            let _ = self.at_ns.set(now_ns.saturating_add(START_LEAD.as_nanos() as u64));
        }
    }
}

impl Environment<'_> {
    /// Starts a job at a host.
    fn start(
        &self,
        host: Option<&str>,
        job: weir_jobs::Job,
        what: &str,
    ) -> Result<Box<dyn RunningJob>, ScenarioError> {
        if let Some((agent, remote)) = host.and_then(|host| Some((host, self.remote_of(host)?))) {
            return remote.start(agent, job).map_err(refused(what));
        }
        let command = self.command(host, &self.options.program)?;
        Ok(Box::new(Process::start(command, &job, END).map_err(not_started(what))?))
    }

    /// Runs a test. The inner error is a test without a record.
    pub(in crate::scenario) fn test(
        &self,
        job: &Job,
        is_stopped: &dyn Fn() -> bool,
        progress: &dyn Fn(Progress),
    ) -> Result<Result<Tested, NoRecord>, ScenarioError> {
        let what = format!("weir test of step {}", job.step);
        // The others of its group must not wait for it.
        let gives_up = |_: &ScenarioError| {
            job.gate.iter().for_each(|gate| gate.arrive((self.options.monotonic_ns)()));
        };
        let target = self.target(job.to.as_deref(), &job.plan).inspect_err(gives_up)?;
        let is_remote = job.from.as_deref().is_some_and(|from| self.remote_of(from).is_some());
        let emulator = self.emulator_of_test(job.from.as_deref(), job.to.as_deref());
        let emulator = emulator.filter(|_| !is_remote);
        let test = TestJob {
            host: Some(target.address),
            port: target.port,
            plan: job.plan.clone(),
            key: target.key,
            labels: job.labels.iter().cloned().collect(),
            store: job.is_kept && !self.options.no_store,
            emulator: emulator.map(|(socket, side)| EmulatorOnPath {
                control_socket: socket.into(),
                client_side: side.map(Into::into),
            }),
            start_at_ns: job.start_at_ns,
            wait_for_start: job.gate.is_some(),
            threads: job.threads.clone(),
            ..TestJob::default()
        };
        let test = weir_jobs::Job::Test(Box::new(test));
        let mut running = self.start(job.from.as_deref(), test, &what).inspect_err(gives_up)?;
        let (mut has_arrived, mut has_started) = (job.gate.is_none(), false);
        let mut record: Option<Box<Record>> = None;
        let mut refusal: Option<Refusal> = None;
        let mut unkept = None;
        let mut is_late = false;
        let mut so_far = Progress::default();
        let mut asked = false;
        let mut latest = job.until;
        let mut is_running = false;
        let mut unanswered: VecDeque<mpsc::SyncSender<_>> = VecDeque::new();
        let look = if job.orders.is_some() { ORDERS_LOOK } else { LOOK };
        loop {
            match running.next_within(look) {
                Ok(Event::Start(_)) => is_running = true,
                Ok(Event::Commanded(answer)) => {
                    if let Some(reply) = unanswered.pop_front() {
                        let _ = reply.try_send(answer.error.map_or(Ok(()), Err));
                    }
                }
                Ok(Event::Interval(interval)) => {
                    for end in [&interval.total.forward, &interval.total.reverse] {
                        let sender = end.as_ref().and_then(|end| end.sender.as_ref());
                        so_far.bytes += sender.map_or(0, |sent| sent.bytes);
                        so_far.packets += sender.map_or(0, |sent| sent.packets);
                    }
                    progress(so_far);
                }
                Ok(Event::Ready(_)) if !has_arrived => {
                    has_arrived = true;
                    job.gate.iter().for_each(|gate| gate.arrive((self.options.monotonic_ns)()));
                }
                Ok(Event::End(found)) => record = Some(found),
                Ok(Event::Error(found)) => refusal = Some(found),
                Ok(Event::Warning(notice)) if notice.code == Notice::NOT_STORED => {
                    unkept = Some(notice.message);
                }
                Ok(_) | Err(NoEvent::Timeout) => {}
                Err(NoEvent::Ended) => break,
            }
            for Order { command, reply } in job.orders_of(is_running) {
                match running.command(&command) {
                    Ok(()) => unanswered.push_back(reply),
                    Err(error) => drop(reply.try_send(Err(error.message))),
                }
            }
            if let Some(at_ns) = job.gate.as_ref().and_then(|gate| gate.at_ns.get())
                && !std::mem::replace(&mut has_started, true)
                && let Err(error) = running.command(&Command::Start { at_ns: *at_ns })
            {
                refusal = Some(*error);
                running.stop();
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
        if let Some(gate) = job.gate.as_ref().filter(|_| !has_arrived) {
            gate.arrive((self.options.monotonic_ns)());
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
