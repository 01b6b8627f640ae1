//! The agent: states its facts, takes jobs, runs one at a time for each resource, and sends their outcomes.

mod accepted;
pub(crate) mod delivery;
mod process;
mod queues;
mod taking;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::{AckKind, Context, Message};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, sleep_until, timeout_at};
use weir_jobs::{Command, Event, Notice, Ready};
use weir_model::{Refusal, document};
use weir_net::clock::Clock;

use crate::bus::{Connection, Timing, jetstream_of};
use crate::document::{AgentFacts, AgentState, Outcome, Request, Submission, Work};
use crate::error::Error;
use crate::names::{
    AgentName, HOST_RESOURCE, JobId, PROBES_RESOURCE, events, notices, requests,
    resource_of_interface, seen, subject_of_key,
};
use crate::outbox::Outbox;
use delivery::{Delivered, Delivery, is_connected};
use process::Running;
use queues::{EndedHold, Next, Queues, Task};
use taking::{Taken, Taking};

/// States in the key that an agent renews.
const HERE: &str = "1";
pub(crate) const STOPPED: &str = "0";
/// Renewals of jobs between two of the key that shows the agent as connected.
const RENEWALS_OF_SEEN: u32 = 2;
/// A job that was started this many times without an outcome is given up: the agent may end because of it.
const MOST_STARTS: u64 = 5;
/// Longest time for which a hold stays without being renewed, s.
const LONGEST_LAPSE_SECONDS: u64 = 3600;
/// Between two looks at whether holds were renewed.
const LOOK_AT_HOLDS: Duration = Duration::from_secs(1);
/// For jobs that an earlier process of the agent had, beyond the time after which they are delivered again.
const DELIVERING: Duration = Duration::from_secs(5);
/// For running jobs to stop, and for their outcomes to be sent, when the agent ends.
const ENDING: Duration = Duration::from_secs(15);
/// Longest event that is passed on, bytes.
const LONGEST_EVENT: usize = 256 << 10;

/// Takes what an operator should know: a code and a text.
pub type Notices = Arc<dyn Fn(&str, String) + Send + Sync>;

/// What an agent needs.
pub struct AgentOptions {
    /// NATS.
    pub connection: Connection,
    /// Its name, unique in the fleet.
    pub name: AgentName,
    /// What it states about its host; its resources are added.
    pub facts: AgentFacts,
    /// Largest error of its clock now, ns, if that is known.
    pub clock_bound_ns: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// The directory with outcomes that have not been acknowledged yet.
    pub outbox: PathBuf,
    /// Makes the command that runs this program, to which `job` is added.
    pub program: Box<dyn Fn() -> std::process::Command + Send + Sync>,
    /// Takes what an operator should know.
    pub notice: Notices,
    /// The clock by which tests start at an instant, and outcomes are stamped.
    pub clock: Clock,
    /// How soon a lost connection is noticed.
    pub timing: Timing,
}

/// Runs an agent until `stop` completes. Then running jobs are stopped, and their outcomes sent.
///
/// # Errors
/// NATS could not be reached at first, or the outbox could not be opened. Later failures are notices, and are tried again.
pub async fn run(mut options: AgentOptions, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let outbox = Outbox::open(&options.outbox)?;
    let timing = options.timing;
    let client = options.connection.open(Some(&options.name), &timing).await?;
    let jetstream = jetstream_of(&client);
    let subject = requests(&options.name);
    let mut requested =
        client.subscribe(subject.clone()).await.map_err(Error::bus("subscribe to", subject))?;
    let (ended, mut ends) = mpsc::unbounded_channel();
    options.notice = published(options.notice, client.clone(), notices(&options.name));
    let delivery = Delivery::new(jetstream.clone(), outbox, options.notice.clone());
    let (queues, missing, resumes) = (Queues::default(), 0, Instant::now());
    let mut agent = Agent { options, client, jetstream, delivery, queues, ended, missing, resumes };
    agent.delivery.resend();
    let (mut taken, taking) = agent.take_jobs();
    let mut renewal = interval(timing.renewal);
    let mut renewals = 0;
    let mut looking = interval(LOOK_AT_HOLDS);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(taken) = taken.recv() => {
                if matches!(taken, Taken::Ready(_)) {
                    // Before, the bucket may not have been there.
                    agent.seen(HERE).await;
                }
                agent.on_taken(taken);
            }
            () = sleep_until(agent.resumes), if agent.queues.is_paused() => agent.resume(),
            Some(outcome) = ends.recv() => agent.on_end(outcome),
            Some(request) = requested.next() => agent.on_request(request).await,
            _ = looking.tick() => agent.end_lapsed_holds(),
            _ = renewal.tick() => {
                agent.delivery.renew().await;
                if renewals % RENEWALS_OF_SEEN == 0 {
                    agent.seen(HERE).await;
                }
                renewals += 1;
            }
        }
    }
    let end = Instant::now() + ENDING;
    agent.queues.pause();
    taken.close();
    while let Some(taken) = taken.recv().await {
        if let Taken::Job(message) = taken {
            agent.on_message(*message);
        }
    }
    // Its subscription ends with it: what is given back earlier could come again.
    let _ = taking.await;
    let (waiting, holds) = agent.queues.stop_all();
    let _ = timeout_at(end, agent.delivery.give_back(waiting)).await;
    holds.into_iter().for_each(|hold| agent.hold_ended(hold, Some(agent_stops())));
    while agent.queues.has_running() {
        match timeout_at(end, ends.recv()).await {
            // No job is left in the queues that it could start.
            Ok(Some(outcome)) => agent.on_end(outcome),
            _ => break,
        }
    }
    let _ = timeout_at(end, agent.seen(STOPPED)).await;
    let _ = timeout_at(end, agent.client.flush()).await;
    agent.delivery.finish(end).await;
    Ok(())
}

/// Notices that also pass by on the bus, for `weir fleet logs`.
fn published(own: Notices, client: Client, subject: String) -> Notices {
    let runtime = tokio::runtime::Handle::current();
    Arc::new(move |code, text| {
        own(code, text.clone());
        let (client, subject) = (client.clone(), subject.clone());
        if let Ok(line) = Event::Progress(Notice::new(code, text)).to_line()
            && is_connected(&client)
        {
            runtime.spawn(async move { client.publish(subject, line.into()).await });
        }
    })
}

struct Agent {
    options: AgentOptions,
    client: Client,
    jetstream: Context,
    delivery: Delivery,
    queues: Queues,
    ended: mpsc::UnboundedSender<Outcome>,
    /// Jobs of an earlier process of the agent that have not been delivered again. Until then the queues are paused: a job
    /// that comes sooner may have been submitted later.
    missing: u64,
    /// When a pause ends in any case.
    resumes: Instant,
}

impl Agent {
    fn take_jobs(&self) -> (mpsc::Receiver<Taken>, tokio::task::JoinHandle<()>) {
        let mut facts = self.options.facts.clone();
        facts.resources = vec![HOST_RESOURCE.into(), PROBES_RESOURCE.into()];
        facts.resources.extend(facts.interfaces.iter().map(|it| resource_of_interface(&it.name)));
        let taking = Taking {
            jetstream: self.jetstream.clone(),
            name: self.options.name.clone(),
            facts,
            ack_wait: self.options.timing.ack_wait,
            notice: self.options.notice.clone(),
        };
        taking.start()
    }

    /// Renews the key that shows the agent as connected, or states that it has stopped.
    async fn seen(&self, state: &'static str) {
        let subject = subject_of_key(&seen(self.options.name.as_str()));
        // Without a connection there is nothing to show.
        if is_connected(&self.client) {
            let _ = self.client.publish(subject, state.into()).await;
        }
    }

    fn on_taken(&mut self, taken: Taken) {
        match taken {
            Taken::Ready(0) => {}
            Taken::Ready(earlier) => {
                self.missing = earlier;
                self.resumes = Instant::now() + self.options.timing.ack_wait + DELIVERING;
                self.queues.pause();
            }
            Taken::Job(message) => {
                let is_missing = self.on_message(*message);
                if is_missing && self.missing > 0 {
                    self.missing -= 1;
                    if self.missing == 0 {
                        self.resume();
                    }
                }
            }
        }
    }

    fn resume(&mut self) {
        self.missing = 0;
        for submission in self.queues.resume() {
            self.start(submission);
        }
    }

    /// Takes a job; returns whether an earlier process of the agent had it.
    fn on_message(&mut self, message: Message) -> bool {
        // Without a place it did not come from the stream.
        let Ok(info) = message.info() else { return false };
        let (place, is_again) = (info.stream_sequence, info.delivered > 1);
        let read = document::parse_json::<Submission>(&message.payload);
        let (message, acker) = message.split();
        let submission = match read {
            Ok(submission) => submission,
            Err(error) => {
                // No controller of this version wrote it.
                (self.options.notice)("job", format!("{}: {error}", message.subject));
                tokio::spawn(async move { acker.ack_with(AckKind::Term).await });
                return is_again;
            }
        };
        match self.delivery.hold(&submission.id, acker) {
            Delivered::New => {}
            Delivered::Known => return false,
            Delivered::HasOutcome => return is_again,
        }
        let starts = self.delivery.starts(&submission.id);
        let refused = match &submission.hold {
            _ if starts >= MOST_STARTS => {
                let words = format!("the agent ended {starts} times while the job ran");
                Some(Refusal::new("agent", words, 70))
            }
            Some(hold) if starts > 0 => {
                let words = format!("the agent ended while it ran under hold {hold}");
                Some(Refusal::new("hold", words, 3))
            }
            Some(hold) if !self.queues.is_held(hold) => {
                Some(Refusal::new("hold", format!("hold {hold} is not in force"), 3))
            }
            _ => None,
        };
        if let Some(refusal) = refused {
            self.refuse(submission.id, refusal);
        } else if let Some(next) = self.queues.add(submission, place) {
            self.start(next);
        }
        is_again
    }

    /// Sends the outcome of a job that does not run.
    fn refuse(&mut self, id: JobId, refusal: Refusal) {
        let starts = self.delivery.starts(&id);
        let name = self.options.name.clone();
        self.delivery.send(Outcome::refused(id, name, starts, refusal));
    }

    fn start(&mut self, (submission, place): Next) {
        let subject = events(&self.options.name, &submission.id);
        let job = match &submission.work {
            Work::Job(job) => (**job).clone(),
            Work::Hold { lapse_seconds } => {
                let lapse = Duration::from_secs((*lapse_seconds).min(LONGEST_LAPSE_SECONDS));
                let until = Instant::now() + lapse;
                let since_unix_ns = self.options.clock.realtime_ns();
                let task = Task::Hold { lapse, until, since_unix_ns };
                self.queues.started(&submission, place, task);
                self.tell(subject, &Event::Ready(Ready::default()));
                return;
            }
        };
        let starts = self.delivery.count_start(&submission.id);
        let client = self.client.clone();
        let (sender, mut receiver) = mpsc::channel::<Event>(256);
        tokio::spawn(async move {
            while let Some(event) = receiver.recv().await {
                if let Ok(line) = event.to_line()
                    && line.len() <= LONGEST_EVENT
                {
                    let _ = client.publish(subject.clone(), line.into()).await;
                }
            }
        });
        let running = Running::start(
            (self.options.program)(),
            (submission.clone(), job),
            (self.options.name.clone(), starts),
            self.options.clock.clone(),
            sender,
            self.ended.clone(),
        );
        self.queues.started(&submission, place, Task::Process(running));
    }

    /// Publishes an event of a job.
    fn tell(&self, subject: String, event: &Event) {
        let client = self.client.clone();
        if let Ok(line) = event.to_line() {
            tokio::spawn(async move { client.publish(subject, line.into()).await });
        }
    }

    fn on_end(&mut self, outcome: Outcome) {
        let next = self.queues.ended(&outcome.id);
        self.delivery.send(outcome);
        if let Some(next) = next {
            self.start(next);
        }
    }

    /// Sends the outcome of a hold, and starts the next job of its resource.
    fn hold_ended(&mut self, hold: EndedHold, error: Option<Refusal>) {
        let outcome = Outcome {
            kind: "hold".into(),
            started_unix_ns: Some(hold.since_unix_ns),
            ended_unix_ns: Some(self.options.clock.realtime_ns()),
            exit_code: error.is_none().then_some(0),
            error,
            ..Outcome::refused(hold.id, self.options.name.clone(), 1, Refusal::default())
        };
        self.on_end(outcome);
    }

    fn end_lapsed_holds(&mut self) {
        for id in self.queues.lapsed() {
            if let Some(hold) = self.queues.end_hold(&id) {
                let words = "the controller did not renew the hold in time";
                self.hold_ended(hold, Some(Refusal::new("lapsed", words, 3)));
            }
        }
    }

    async fn on_request(&mut self, message: async_nats::Message) {
        match document::parse_json(&message.payload) {
            Ok(Request::State) => {}
            Ok(Request::Stop { job }) => self.stop(&job),
            Ok(Request::Renew { job }) => self.queues.renew(&job),
            Ok(Request::Start { job, at_unix_ns }) => {
                let at_ns = process::monotonic_ns(at_unix_ns, &self.options.clock);
                self.command(&job, Command::Start { at_ns });
            }
            Ok(Request::StartConnection { job, connection }) => {
                self.command(&job, Command::StartConnection { connection });
            }
            Ok(Request::StopConnection { job, connection }) => {
                self.command(&job, Command::StopConnection { connection });
            }
            Ok(Request::Set { job, impairment }) => {
                self.command(&job, Command::Set { impairment });
            }
            Err(error) => return (self.options.notice)("request", error.to_string()),
        }
        let clock_bound_ns = (self.options.clock_bound_ns)();
        let state = AgentState { jobs: self.queues.state(), clock_bound_ns };
        let state = serde_json::to_vec(&state);
        if let (Some(reply), Ok(state)) = (message.reply, state) {
            // A controller that gets no reply asks again.
            let _ = self.client.publish(reply, state.into()).await;
        }
    }

    fn command(&self, job: &JobId, command: Command) {
        if let Some(running) = self.queues.process(job) {
            running.command(command);
        }
    }

    fn stop(&mut self, job: &JobId) {
        if let Some(running) = self.queues.process(job) {
            running.stop();
        } else if let Some(hold) = self.queues.end_hold(job) {
            self.hold_ended(hold, None);
        } else if self.queues.withdraw(job) {
            let refusal = Refusal::new("stopped", "stopped before it was started", 130);
            self.refuse(job.clone(), refusal);
        }
    }
}

/// Why a hold ends with its agent.
fn agent_stops() -> Refusal {
    Refusal::new("stopped", "the agent was stopped", 3)
}
