//! The controller: lists agents, submits jobs, and reads their outcomes.

mod campaign;
mod collecting;
mod selector;
mod starts;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{Context, kv};
use async_nats::{Client, RequestErrorKind, Subscriber};
use futures_util::StreamExt;
use futures_util::stream::{Select, select};
use weir_jobs::Event;
use weir_model::document;
use weir_model::impairment::Impairment;

use crate::agent::STOPPED;
use crate::bus::{Connection, TIMEOUT, Timing, jetstream_of, prepare};
use crate::document::{AgentFacts, AgentState, Outcome, Request, Submission};
use crate::error::Error;
use crate::names::{
    AGENTS, AgentName, JOBS, JobId, NOW, events, facts, jobs, outcome_of, requests,
    seen as seen_key,
};
pub use campaign::{Campaign, HOLD_LAPSE};
use collecting::Collecting;
pub use selector::Selector;
pub use starts::{StartInstant, StartSpread};

/// The subjects of all outcomes.
const OUTCOME_SUBJECTS: &str = "weir.outcome.*.*.*";
/// An agent that was last seen longer ago than this is gone: it renews its key every 20 s.
const GONE: Duration = Duration::from_secs(50);

/// An agent, as the bucket has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// What it states about itself.
    pub facts: AgentFacts,
    /// How long ago it was last seen; absent: never since it stated its facts.
    pub seen: Option<Duration>,
    /// It was stopped in order.
    pub has_stopped: bool,
}

impl Agent {
    /// Whether it is connected, as far as is known.
    #[must_use]
    pub fn is_here(&self) -> bool {
        !self.has_stopped && self.seen.is_some_and(|seen| seen < GONE)
    }
}

/// A job in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    /// Its place in the stream of jobs.
    pub sequence: u64,
    /// Jobs of the same resource that are to end before.
    pub before: u64,
}

/// The agent whose key this is, if it has this prefix.
fn agent_of(key: &str, prefix: &str) -> Option<AgentName> {
    key.strip_prefix(prefix)?.parse().ok()
}

/// A controller.
#[derive(Clone)]
pub struct Controller {
    client: Client,
    jetstream: Context,
    agents: kv::Store,
}

impl Controller {
    /// Connects, and makes the bucket and the streams with this many replicas unless they are there.
    ///
    /// # Errors
    /// NATS can't be reached, or does not let this controller make them.
    pub async fn connect(connection: &Connection, replicas: usize) -> Result<Controller, Error> {
        let client = connection.open(None, &Timing::default()).await?;
        let jetstream = jetstream_of(&client);
        prepare(&jetstream, replicas).await?;
        let agents =
            jetstream.get_key_value(AGENTS).await.map_err(Error::bus("open bucket", AGENTS))?;
        Ok(Controller { client, jetstream, agents })
    }

    /// All agents that have ever connected, by name.
    ///
    /// # Errors
    /// NATS can't be reached.
    pub async fn agents(&self) -> Result<Vec<Agent>, Error> {
        let now = self.now().await?;
        let failed = |reason: String| Error::bus("list agents in", AGENTS)(reason);
        let entries = self.agents.watch_with_history(">").await;
        let mut entries = entries.map_err(|error| failed(error.to_string()))?;
        let (mut stated, mut seen) = (BTreeMap::new(), HashMap::new());
        // The key with the time is there, so there is a last entry.
        loop {
            let next = tokio::time::timeout(TIMEOUT, entries.next()).await;
            let next = next.map_err(|_| failed("no reply".into()))?;
            let entry = next.ok_or_else(|| failed("it was closed".into()))?;
            let entry = entry.map_err(|error| failed(error.to_string()))?;
            if entry.operation == kv::Operation::Put {
                if let Some(name) = agent_of(&entry.key, &facts("")) {
                    let facts: Option<AgentFacts> = document::parse_json(&entry.value).ok();
                    stated.extend(facts.map(|facts| (name, facts)));
                } else if let Some(name) = agent_of(&entry.key, &seen_key("")) {
                    let ago = now.duration_since(entry.created.into()).unwrap_or_default();
                    seen.insert(name, (ago, entry.value == STOPPED.as_bytes()));
                }
            }
            if entry.delta == 0 {
                break;
            }
        }
        let agents = stated.into_iter().map(|(name, facts)| {
            let seen = seen.get(&name);
            let has_stopped = seen.is_some_and(|(_, has_stopped)| *has_stopped);
            Agent { name, facts, seen: seen.map(|(ago, _)| *ago), has_stopped }
        });
        Ok(agents.collect())
    }

    /// The server's time, by which keys are stamped. This host's clock may differ.
    async fn now(&self) -> Result<SystemTime, Error> {
        let failed = |reason: String| Error::bus("read the time of", "NATS")(reason);
        self.agents.put(NOW, "".into()).await.map_err(|error| failed(error.to_string()))?;
        let entry = self.agents.entry(NOW).await.map_err(|error| failed(error.to_string()))?;
        entry.map(|entry| entry.created.into()).ok_or_else(|| failed("no stamp".into()))
    }

    /// Forgets an agent that is gone.
    ///
    /// # Errors
    /// NATS can't be reached.
    pub async fn forget(&self, name: &AgentName) -> Result<(), Error> {
        for key in [facts(name.as_str()), seen_key(name.as_str())] {
            self.agents.purge(&key).await.map_err(Error::bus("remove", &key))?;
        }
        Ok(())
    }

    /// Puts a job into the queue of its resource at an agent. A job with the same number is accepted once.
    ///
    /// # Errors
    /// NATS can't be reached, or did not take it.
    pub async fn submit(
        &self,
        agent: &AgentName,
        submission: &Submission,
    ) -> Result<Submitted, Error> {
        let subject = jobs(agent, &submission.resource);
        let text = serde_json::to_vec(submission)
            .map_err(Error::bus("write job", submission.id.as_str()))?;
        let message =
            PublishMessage::build().payload(text.into()).message_id(submission.id.as_str());
        let published = match self.jetstream.send_publish(subject.clone(), message).await {
            Ok(acknowledgement) => acknowledgement.await,
            Err(error) => Err(error),
        };
        let acknowledgement = match published {
            Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                let words = format!("job {}: longer than NATS takes", submission.id);
                return Err(weir_model::Refusal::new("job", words, 2).into());
            }
            other => other.map_err(Error::bus("submit to", &subject))?,
        };
        let before = self.queued(&subject).await.map_err(Error::bus("read queue", &subject))?;
        Ok(Submitted { sequence: acknowledgement.sequence, before: before.saturating_sub(1) })
    }

    /// The number of jobs with this subject that have not ended.
    async fn queued(&self, subject: &str) -> Result<u64, async_nats::Error> {
        let stream = self.jetstream.get_stream_no_info(JOBS).await?;
        let mut info = stream.info_builder().subjects(subject).fetch().await?;
        let mut jobs = 0;
        while let Some(entry) = info.next().await {
            jobs += entry?.1 as u64;
        }
        Ok(jobs)
    }

    /// Removes a job from its queue. An agent that has it already continues it.
    ///
    /// # Errors
    /// NATS can't be reached, or the job has left its queue.
    pub async fn withdraw(&self, submitted: &Submitted) -> Result<(), Error> {
        let failed = |reason: String| Error::bus("remove a job from", JOBS)(reason);
        let stream = self.jetstream.get_stream_no_info(JOBS).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        let removed = stream.delete_message(submitted.sequence).await;
        removed.map(drop).map_err(|error| failed(error.to_string()))
    }

    /// Asks an agent to stop a job, or to end a hold. One that waits is removed from its queue.
    ///
    /// # Errors
    /// The agent does not answer, or NATS can't be reached.
    pub async fn stop(&self, agent: &AgentName, job: &JobId) -> Result<(), Error> {
        self.ask(agent, &Request::Stop { job: job.clone() }).await.map(drop)
    }

    /// Starts a test that waits for its start, at this time on the wall clock, ns since 1970.
    ///
    /// # Errors
    /// As [`stop`](Controller::stop).
    pub async fn start(&self, agent: &AgentName, job: &JobId, unix_ns: u64) -> Result<(), Error> {
        self.ask(agent, &Request::Start { job: job.clone(), at_unix_ns: unix_ns }).await.map(drop)
    }

    /// Starts a waiting connection of a test, or all. The job's event `commanded` says what became of it.
    ///
    /// # Errors
    /// As [`stop`](Controller::stop).
    pub async fn start_connection(
        &self,
        agent: &AgentName,
        job: &JobId,
        connection: Option<String>,
    ) -> Result<(), Error> {
        self.ask(agent, &Request::StartConnection { job: job.clone(), connection }).await.map(drop)
    }

    /// Stops a connection of a test, or all, as [`start_connection`](Controller::start_connection) starts it.
    ///
    /// # Errors
    /// As [`stop`](Controller::stop).
    pub async fn stop_connection(
        &self,
        agent: &AgentName,
        job: &JobId,
        connection: Option<String>,
    ) -> Result<(), Error> {
        self.ask(agent, &Request::StopConnection { job: job.clone(), connection }).await.map(drop)
    }

    /// Changes the laws of an emulator that runs at an agent. The job's event `configured` says whether they are in force.
    ///
    /// # Errors
    /// As [`stop`](Controller::stop).
    pub async fn set(
        &self,
        agent: &AgentName,
        job: &JobId,
        impairment: Impairment,
    ) -> Result<(), Error> {
        let impairment = Box::new(impairment);
        self.ask(agent, &Request::Set { job: job.clone(), impairment }).await.map(drop)
    }

    /// What an agent does now.
    ///
    /// # Errors
    /// As [`stop`](Controller::stop).
    pub async fn state(&self, agent: &AgentName) -> Result<AgentState, Error> {
        self.ask(agent, &Request::State).await
    }

    async fn ask(&self, agent: &AgentName, request: &Request) -> Result<AgentState, Error> {
        let text =
            serde_json::to_vec(request).map_err(Error::bus("write request for", agent.as_str()))?;
        let replied = self.client.request(requests(agent), text.into()).await;
        let reply = replied.map_err(|error| {
            let reason = match error.kind() {
                RequestErrorKind::NoResponders => "it is not connected".to_owned(),
                _ => error.to_string(),
            };
            Error::bus("ask agent", agent.as_str())(reason)
        })?;
        document::parse_json(&reply.payload)
            .map_err(Error::bus("read the reply of", agent.as_str()))
    }

    /// Notices of agents, and events of their jobs, from now on: each with the agent, the job if it belongs to one, and the
    /// event.
    ///
    /// # Errors
    /// NATS can't be reached.
    pub async fn log(&self) -> Result<Log, Error> {
        let failed = Error::bus("subscribe to", "weir.event.>");
        let events = self.client.subscribe("weir.event.*.*").await.map_err(failed)?;
        let failed = Error::bus("subscribe to", "weir.notice.*");
        let notices = self.client.subscribe("weir.notice.*").await.map_err(failed)?;
        self.client.flush().await.map_err(Error::bus("reach", "NATS"))?;
        Ok(Log(select(events, notices)))
    }

    /// The events of a job at an agent from now on.
    ///
    /// # Errors
    /// NATS can't be reached.
    pub async fn events(&self, agent: &AgentName, job: &JobId) -> Result<Events, Error> {
        let subject = events(agent, job);
        let subscriber = self.client.subscribe(subject.clone()).await;
        let subscriber = subscriber.map_err(Error::bus("subscribe to", subject))?;
        self.client.flush().await.map_err(Error::bus("reach", "NATS"))?;
        Ok(Events(subscriber))
    }

    /// The outcomes of these jobs at these agents, each once, as they arrive.
    ///
    /// # Errors
    /// NATS can't be reached.
    pub async fn outcomes_of(&self, jobs: &[(AgentName, JobId)]) -> Result<Outcomes, Error> {
        let filters = jobs.iter().map(|(agent, job)| outcome_of(agent, job)).collect();
        Collecting::new(&self.jetstream, filters, DeliverPolicy::All).await.map(Outcomes)
    }

    /// The outcomes of all jobs from now on, as they arrive.
    ///
    /// # Errors
    /// NATS can't be reached.
    pub async fn outcomes_from_now(&self) -> Result<Outcomes, Error> {
        let filters = vec![OUTCOME_SUBJECTS.into()];
        Collecting::new(&self.jetstream, filters, DeliverPolicy::New).await.map(Outcomes)
    }

    /// All outcomes that NATS has, in the order in which they came. One that can't be read has an error that says so.
    ///
    /// # Errors
    /// NATS can't be reached.
    pub async fn outcomes(&self) -> Result<Vec<Outcome>, Error> {
        let filters = vec![OUTCOME_SUBJECTS.into()];
        let collecting = Collecting::new(&self.jetstream, filters, DeliverPolicy::All).await?;
        collecting.all().await
    }
}

/// Notices of agents and events of jobs.
pub struct Log(Select<Subscriber, Subscriber>);

impl Log {
    /// The next one that this version knows; `None` if the connection was closed.
    pub async fn next(&mut self) -> Option<(AgentName, Option<JobId>, Event)> {
        loop {
            let message = self.0.next().await?;
            let mut parts = message.subject.as_str().split('.').skip(2);
            let agent = parts.next().and_then(|name| name.parse().ok());
            let job = parts.next().and_then(|name| name.parse().ok());
            let event = std::str::from_utf8(&message.payload).ok().and_then(Event::parse);
            if let (Some(agent), Some(event)) = (agent, event) {
                return Some((agent, job, event));
            }
        }
    }
}

/// Events of a job.
pub struct Events(Subscriber);

impl Events {
    /// The next event that this version knows; `None` if the connection was closed.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let message = self.0.next().await?;
            let line = std::str::from_utf8(&message.payload).ok();
            if let Some(event) = line.and_then(Event::parse) {
                return Some(event);
            }
        }
    }
}

/// Outcomes as they arrive.
pub struct Outcomes(Collecting);

impl Outcomes {
    /// Waits for the next one. One that can't be read has an error that says so.
    ///
    /// # Errors
    /// NATS can't be reached.
    pub async fn next(&mut self) -> Result<Outcome, Error> {
        self.0.next().await
    }
}
