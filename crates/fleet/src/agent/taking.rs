//! Takes jobs from the agent's queue, on a task of its own.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{Context, Message};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Notices;
use crate::document::AgentFacts;
use crate::error::Error;
use crate::names::{AgentName, JOBS, facts, jobs_of, subject_of_key};

/// Most jobs that wait or run at an agent; the rest waits in the stream.
const MOST_JOBS: i64 = 16_384;
/// Before another attempt at what failed.
const PAUSE: Duration = Duration::from_secs(2);

/// What the agent gets.
pub(super) enum Taken {
    /// Jobs are taken from now on. An earlier process of the agent had this many that have not left the queue.
    Ready(u64),
    /// A job.
    Job(Box<Message>),
}

pub(super) struct Taking {
    pub(super) jetstream: Context,
    pub(super) name: AgentName,
    pub(super) facts: AgentFacts,
    pub(super) ack_wait: Duration,
    pub(super) notice: Notices,
}

impl Taking {
    /// States the agent's facts and takes jobs until the receiver is dropped or closed; the task ends then.
    pub(super) fn start(self) -> (mpsc::Receiver<Taken>, JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(16);
        let task = tokio::spawn(async move {
            let mut is_first = true;
            let mut told = String::new();
            loop {
                let reason = tokio::select! {
                    () = sender.closed() => return,
                    result = self.take(&sender, &mut is_first) => result,
                };
                // Each reason once, not with each attempt.
                if let Err(error) = reason
                    && error.to_string() != told
                {
                    told = error.to_string();
                    (self.notice)("waiting", told.clone());
                }
                tokio::select! {
                    () = sender.closed() => return,
                    () = sleep(PAUSE) => {}
                }
            }
        });
        (receiver, task)
    }

    /// States the facts, creates the consumer and passes on what it gets, until that fails.
    async fn take(&self, sender: &mpsc::Sender<Taken>, is_first: &mut bool) -> Result<(), Error> {
        let name = self.name.as_str();
        let subject = subject_of_key(&facts(name));
        let text = serde_json::to_vec(&self.facts).unwrap_or_default();
        let stated = match self.jetstream.publish(subject.clone(), text.into()).await {
            Ok(acknowledgement) => acknowledgement.await,
            Err(error) => Err(error),
        };
        stated.map_err(Error::bus("state the facts of the agent to", subject))?;
        let config = pull::Config {
            durable_name: Some(name.to_owned()),
            filter_subject: jobs_of(&self.name),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.ack_wait,
            max_ack_pending: MOST_JOBS,
            ..pull::Config::default()
        };
        let consumer = self
            .jetstream
            .create_consumer_on_stream(config, JOBS)
            .await
            .map_err(Error::bus("create the consumer of", name))?;
        let earlier = consumer.cached_info().num_ack_pending;
        let mut messages = consumer
            .stream()
            .max_messages_per_batch(16)
            .expires(Duration::from_secs(60))
            .heartbeat(Duration::from_secs(20))
            .messages()
            .await
            .map_err(Error::bus("take jobs of", name))?;
        if std::mem::replace(is_first, false) {
            let _ = sender.send(Taken::Ready(earlier as u64)).await;
            (self.notice)("ready", format!("agent {name} takes jobs"));
        }
        while let Some(message) = messages.next().await {
            let message = message.map_err(Error::bus("take jobs of", name))?;
            if sender.send(Taken::Job(Box::new(message))).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}
