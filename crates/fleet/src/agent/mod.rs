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
use weir_jobs::Event;
use weir_model::{Refusal, document};
use weir_net::clock::Clock;

use crate::bus::{Connection, jetstream_of};
use crate::document::{AgentFacts, Outcome, Request, Submission};
use crate::error::Error;
use crate::names::{
    AgentName, HOST_RESOURCE, JOBS, JobId, events, facts, jobs_of, requests, resource_of_interface,
    seen, subject_of_key,
};
use crate::outbox::Outbox;
use delivery::{Delivery, is_connected};
use process::Running;
use queues::Queues;

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
pub async fn run(options: AgentOptions, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let outbox = Outbox::open(&options.outbox)?;
    let client = options.connection.open(Some(&options.name)).await?;
    let jetstream = jetstream_of(&client);
    let subject = requests(&options.name);
    let mut requested =
        client.subscribe(subject.clone()).await.map_err(Error::bus("subscribe to", subject))?;
    let (ended, mut ends) = mpsc::unbounded_channel();
    let delivery = Delivery::new(jetstream.clone(), outbox, options.notice.clone());
    let mut agent =
        Agent { options, client, jetstream, delivery, queues: Queues::default(), ended };
    agent.delivery.resend();
    let mut taken = agent.take_jobs();
    let mut renewal = interval(RENEWAL);
    let mut renewals = 0;
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(message) = taken.recv() => agent.on_message(message),
            Some(outcome) = ends.recv() => agent.on_end(outcome),
            Some(request) = requested.next() => agent.on_request(&request.payload),
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
    let waiting = agent.queues.stop_all();
    agent.delivery.give_back(waiting).await;
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

struct Agent {
    options: AgentOptions,
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
        let starts = message.info().map_or(1, |info| info.delivered.unsigned_abs());
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
        if let Some(next) = self.queues.add(submission, starts) {
            self.start(next.0, next.1);
        }
    }

    fn start(&mut self, submission: Submission, starts: u64) {
        let (id, resource) = (submission.id.clone(), submission.resource.clone());
        let subject = events(&self.options.name, &id);
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
            submission,
            (self.options.name.clone(), starts),
            Clock::System,
            sender,
            self.ended.clone(),
        );
        self.queues.started(id, resource, running);
    }

    fn on_end(&mut self, outcome: Outcome) {
        let next = self.queues.ended(&outcome.id);
        self.delivery.send(outcome);
        if let Some((submission, starts)) = next {
            self.start(submission, starts);
        }
    }

    fn on_request(&mut self, payload: &[u8]) {
        match document::parse_json(payload) {
            Ok(Request::Stop { job }) => self.stop(&job),
            Err(error) => (self.options.notice)("request", error.to_string()),
        }
    }

    fn stop(&mut self, job: &JobId) {
        if let Some(starts) = self.queues.stop(job) {
            let refusal = Refusal::new("stopped", "stopped before it was started", 130);
            let name = self.options.name.clone();
            self.delivery.send(Outcome::refused(job.clone(), name, starts, refusal));
        }
    }
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
