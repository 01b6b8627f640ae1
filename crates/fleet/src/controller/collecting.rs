//! Reads outcomes from their stream: puts parts together.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{Consumer, DeliverPolicy};
use futures_util::StreamExt;
use weir_model::Refusal;

use crate::agent::delivery::PARTS;
use crate::document::Outcome;
use crate::error::Error;
use crate::names::{AgentName, OUTCOMES};
use crate::parts::{MOST_PARTS, join};

/// Most bytes of parts of an agent's outcomes whose other parts have not come.
const MOST_BYTES: usize = 256 << 20;

pub(super) struct Collecting {
    messages: Ordered,
    /// Messages that were there at the beginning and have not been read.
    left: u64,
    /// Parts of outcomes that are not complete, by their subjects.
    parts: HashMap<String, BTreeMap<usize, Vec<u8>>>,
    /// Their sizes, by agents.
    bytes: HashMap<AgentName, usize>,
}

impl Collecting {
    pub(super) async fn new(
        jetstream: &Context,
        filters: Vec<String>,
        deliver_policy: DeliverPolicy,
    ) -> Result<Collecting, Error> {
        let config =
            OrderedConfig { filter_subjects: filters, deliver_policy, ..OrderedConfig::default() };
        let consumer: Consumer<OrderedConfig> = jetstream
            .create_consumer_on_stream(config, OUTCOMES)
            .await
            .map_err(Error::bus("read stream", OUTCOMES))?;
        let left = consumer.cached_info().num_pending;
        let messages = consumer.messages().await.map_err(Error::bus("read stream", OUTCOMES))?;
        Ok(Collecting { messages, left, parts: HashMap::new(), bytes: HashMap::new() })
    }

    /// The outcomes that were there at the beginning.
    pub(super) async fn all(mut self) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = vec![];
        while self.left > 0 {
            outcomes.extend(self.read().await?);
        }
        Ok(outcomes)
    }

    pub(super) async fn next(&mut self) -> Result<Outcome, Error> {
        loop {
            if let Some(outcome) = self.read().await? {
                return Ok(outcome);
            }
        }
    }

    /// Reads a message; returns the outcome that it completes.
    async fn read(&mut self) -> Result<Option<Outcome>, Error> {
        let message = loop {
            match self.messages.next().await {
                Some(Ok(message)) => break message,
                // Without a connection for some time: the client makes another consumer.
                Some(Err(_)) => tokio::time::sleep(Duration::from_millis(500)).await,
                None => return Err(Error::bus("read stream", OUTCOMES)("it was closed")),
            }
        };
        self.left = self.left.saturating_sub(1);
        let Some((subject, part)) = message.subject.rsplit_once('.') else { return Ok(None) };
        // The server lets an agent write below its own name only: what it writes there is its own.
        let mut names = subject.rsplit('.');
        let (Some(Ok(job)), Some(Ok(agent))) =
            (names.next().map(str::parse), names.next().map(str::parse))
        else {
            return Ok(None);
        };
        let header = message.headers.as_ref().and_then(|headers| headers.get(PARTS));
        let count = header.and_then(|value| value.as_str().parse().ok());
        let whole = self.add((subject, &agent), part, count, &message.payload);
        let outcome = match whole {
            Ok(None) => return Ok(None),
            Ok(Some(parts)) => join(&parts),
            Err(reason) => Err(reason.to_owned()),
        };
        let read = outcome.and_then(|outcome| match outcome.id == job && outcome.agent == agent {
            true => Ok(outcome),
            false => Err("it names another agent or another job".to_owned()),
        });
        Ok(Some(read.unwrap_or_else(|reason| {
            let words = format!("the outcome can't be read: {reason}");
            Outcome::refused(job, agent, 0, Refusal::new("outcome", words, 1))
        })))
    }

    /// Adds a part; returns all parts when they are complete.
    fn add(
        &mut self,
        (subject, agent): (&str, &AgentName),
        part: &str,
        count: Option<usize>,
        bytes: &[u8],
    ) -> Result<Option<Vec<Vec<u8>>>, &'static str> {
        let count = count.filter(|count| (1..=MOST_PARTS).contains(count));
        let part = part.parse().ok().zip(count).filter(|(part, count)| part < count);
        let Some((part, count)) = part else { return Err("a message that is no part of one") };
        let parts = self.parts.entry(subject.to_owned()).or_default();
        parts.insert(part, bytes.to_vec());
        let held = self.bytes.entry(agent.clone()).or_default();
        *held += bytes.len();
        if parts.len() < count && *held <= MOST_BYTES {
            return Ok(None);
        }
        let parts = self.parts.remove(subject).unwrap_or_default();
        *held = held.saturating_sub(parts.values().map(Vec::len).sum());
        if *held == 0 {
            self.bytes.remove(agent);
        }
        if parts.len() < count {
            return Err("the agent has too many incomplete outcomes");
        }
        Ok(Some(parts.into_values().collect()))
    }
}
