//! The agent: states its facts, takes jobs, runs one at a time for each resource, and sends their outcomes.

mod accepted;
pub(crate) mod delivery;
mod process;
mod queues;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{AckKind, Context, Message};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, sleep, timeout_at};
use weir_jobs::{Command, Event, Notice, Ready};
use weir_model::{Refusal, document};
use weir_net::clock::Clock;

use crate::bus::{Connection, jetstream_of};
use crate::document::{AgentFacts, AgentState, Outcome, Request, Submission, Work};
use crate::error::Error;
use crate::names::{
    AgentName, HOST_RESOURCE, JOBS, JobId, events, facts, jobs_of, notices, requests,
    resource_of_interface, seen, subject_of_key,
};
use crate::outbox::Outbox;
use delivery::{Delivery, is_connected};
use process::Running;
use queues::{Delivered, EndedHold, Queues, Task};

/// States in the key that an agent renews.
const HERE: &str = "1";
pub(crate) const STOPPED: &str = "0";
/// A job that an agent does not hold on to is delivered again after this time.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Between two messages that keep the agent's jobs and its place in the list of agents.
const RENEWAL: Duration = Duration::from_secs(10);
/// Renewals between two of the key that shows the agent as connected.
const RENEWALS_OF_SEEN: u32 = 2;
/// Most jobs that wait or run at an agent; the rest waits in the stream.
const MOST_JOBS: i64 = 256;
/// A job that has been delivered this often is given up: the agent may end because of it.
const MOST_STARTS: u64 = 5;
/// Between two looks at whether holds were renewed.
const LOOK_AT_HOLDS: Duration = Duration::from_secs(1);
/// Before another attempt at what failed.
const PAUSE: Duration = Duration::from_secs(2);
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
}

/// Runs an agent until `stop` completes. Then running jobs are stopped, and their outcomes sent.
///
/// # Errors
/// NATS could not be reached at first, or the outbox could not be opened. Later failures are notices, and are tried again.
pub async fn run(mut options: AgentOptions, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let outbox = Outbox::open(&options.outbox)?;
    let client = options.connection.open(Some(&options.name)).await?;
    let jetstream = jetstream_of(&client);
    let subject = requests(&options.name);
    let mut requested =
        client.subscribe(subject.clone()).await.map_err(Error::bus("subscribe to", subject))?;
    let (ended, mut ends) = mpsc::unbounded_channel();
    options.notice = published(options.notice, client.clone(), notices(&options.name));
    let delivery = Delivery::new(jetstream.clone(), outbox, options.notice.clone());
    let mut agent = Agent {
        options,
        clock: Clock::System,
        client,
        jetstream,
        delivery,
        queues: Queues::default(),
        ended,
    };
    agent.delivery.resend();
    let mut taken = agent.take_jobs();
    let mut renewal = interval(RENEWAL);
    let mut renewals = 0;
    let mut looking = interval(LOOK_AT_HOLDS);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(message) = taken.recv() => agent.on_message(message),
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
    drop(taken);
    let end = Instant::now() + ENDING;
    let (waiting, holds) = agent.queues.stop_all();
    agent.delivery.give_back(waiting).await;
    holds.into_iter().for_each(|hold| agent.hold_ended(hold, Some(agent_stops())));
    while agent.queues.has_running() {
        match timeout_at(end, ends.recv()).await {
            // No job is left in the queues that it could start.
            Ok(Some(outcome)) => agent.on_end(outcome),
            _ => break,
        }
    }
    agent.seen(STOPPED).await;
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
    clock: Clock,
    client: Client,
    jetstream: Context,
    delivery: Delivery,
    queues: Queues,
    ended: mpsc::UnboundedSender<Outcome>,
}

impl Agent {
    /// Takes jobs from the agent's queue, on a task of its own, which states the agent's facts first.
    fn take_jobs(&self) -> mpsc::Receiver<Message> {
        let (sender, receiver) = mpsc::channel(16);
        let (jetstream, name) = (self.jetstream.clone(), self.options.name.clone());
        let notice = self.options.notice.clone();
        let mut stated = self.options.facts.clone();
        stated.resources = vec![HOST_RESOURCE.into()];
        stated.resources.extend(stated.interfaces.iter().map(|it| resource_of_interface(&it.name)));
        tokio::spawn(async move {
            let mut was_ready = false;
            let mut told = String::new();
            loop {
                let taking = take(&jetstream, &name, &stated, &sender, &notice, &mut was_ready);
                let reason = tokio::select! {
                    () = sender.closed() => return,
                    result = taking => result,
                };
                // Each reason once, not with each attempt.
                if let Err(error) = reason
                    && error.to_string() != told
                {
                    told = error.to_string();
                    notice("waiting", told.clone());
                }
                sleep(PAUSE).await;
            }
        });
        receiver
    }

    /// Renews the key that shows the agent as connected, or states that it has stopped.
    async fn seen(&self, state: &'static str) {
        let subject = subject_of_key(&seen(self.options.name.as_str()));
        // Without a connection there is nothing to show.
        if is_connected(&self.client) {
            let _ = self.client.publish(subject, state.into()).await;
        }
    }

    fn on_message(&mut self, message: Message) {
        let (starts, sequence) = message
            .info()
            .map_or((1, 0), |info| (info.delivered.unsigned_abs(), info.stream_sequence));
        let read = document::parse_json::<Submission>(&message.payload);
        let (message, acker) = message.split();
        let submission = match read {
            Ok(submission) => submission,
            Err(error) => {
                // No controller of this version wrote it.
                (self.options.notice)("job", format!("{}: {error}", message.subject));
                tokio::spawn(async move { acker.ack_with(AckKind::Term).await });
                return;
            }
        };
        // Delivered again while it waits, runs, or has an outcome that NATS does not have yet.
        if !self.delivery.hold(&submission.id, acker) {
            return;
        }
        if starts > MOST_STARTS {
            let words = format!("the agent ended {MOST_STARTS} times while the job ran");
            let refusal = Refusal::new("agent", words, 70);
            let name = self.options.name.clone();
            return self.delivery.send(Outcome::refused(submission.id, name, starts, refusal));
        }
        let refused = match &submission.hold {
            Some(hold) if starts > 1 => {
                Some(format!("the agent ended while it ran under hold {hold}"))
            }
            Some(hold) if !self.queues.is_held(hold) => {
                Some(format!("hold {hold} is not in force"))
            }
            _ => None,
        };
        if let Some(words) = refused {
            let refusal = Refusal::new("hold", words, 3);
            let name = self.options.name.clone();
            return self.delivery.send(Outcome::refused(submission.id, name, starts, refusal));
        }
        if let Some(next) = self.queues.add(Delivered { submission, starts, sequence }) {
            self.start(next);
        }
    }

    fn start(&mut self, delivered: Delivered) {
        let Delivered { submission, starts, sequence } = delivered;
        let subject = events(&self.options.name, &submission.id);
        let job = match &submission.work {
            Work::Job(job) => (**job).clone(),
            Work::Hold { lapse_seconds } => {
                let lapse = Duration::from_secs(*lapse_seconds);
                let task = Task::Hold {
                    lapse,
                    until: Instant::now() + lapse,
                    starts,
                    since_unix_ns: self.clock.realtime_ns(),
                };
                self.queues.started(&submission, sequence, task);
                self.tell(subject, &Event::Ready(Ready::default()));
                return;
            }
        };
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
            self.clock.clone(),
            sender,
            self.ended.clone(),
        );
        self.queues.started(&submission, sequence, Task::Process(running));
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
            ended_unix_ns: Some(self.clock.realtime_ns()),
            exit_code: error.is_none().then_some(0),
            error,
            ..Outcome::refused(hold.id, self.options.name.clone(), hold.starts, Refusal::default())
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
                let at_ns = process::monotonic_ns(at_unix_ns, &self.clock);
                self.command(&job, Command::Start { at_ns });
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
        } else if let Some(starts) = self.queues.withdraw(job) {
            let refusal = Refusal::new("stopped", "stopped before it was started", 130);
            let name = self.options.name.clone();
            self.delivery.send(Outcome::refused(job.clone(), name, starts, refusal));
        }
    }
}

/// Why a hold ends with its agent.
fn agent_stops() -> Refusal {
    Refusal::new("stopped", "the agent was stopped", 3)
}

/// States the facts, creates the consumer and passes on what it gets, until that fails.
async fn take(
    jetstream: &Context,
    name: &AgentName,
    stated: &AgentFacts,
    sender: &mpsc::Sender<Message>,
    notice: &Notices,
    was_ready: &mut bool,
) -> Result<(), Error> {
    let subject = subject_of_key(&facts(name.as_str()));
    let text = serde_json::to_vec(stated).unwrap_or_default();
    let stated = match jetstream.publish(subject.clone(), text.into()).await {
        Ok(acknowledgement) => acknowledgement.await,
        Err(error) => Err(error),
    };
    stated.map_err(Error::bus("state the facts of the agent to", subject))?;
    let config = pull::Config {
        durable_name: Some(name.to_string()),
        filter_subject: jobs_of(name),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: MOST_JOBS,
        ..pull::Config::default()
    };
    let consumer = jetstream
        .create_consumer_on_stream(config, JOBS)
        .await
        .map_err(Error::bus("create the consumer of", name.as_str()))?;
    let mut messages = consumer
        .stream()
        .max_messages_per_batch(16)
        .expires(Duration::from_secs(60))
        .heartbeat(Duration::from_secs(20))
        .messages()
        .await
        .map_err(Error::bus("take jobs of", name.as_str()))?;
    if !std::mem::replace(was_ready, true) {
        notice("ready", format!("agent {name} takes jobs"));
    }
    while let Some(message) = messages.next().await {
        let message = message.map_err(Error::bus("take jobs of", name.as_str()))?;
        if sender.send(message).await.is_err() {
            break;
        }
    }
    Ok(())
}
