//! Outcomes on their way: stored here, then in NATS, then the job leaves its queue, then the stored outcome is removed. In
//! this order, no outcome is lost and none exists twice, wherever the agent or the server ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::{Acker, PublishMessage};
use async_nats::jetstream::{AckKind, Context};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::Notices;
use crate::document::Outcome;
use crate::error::Error;
use crate::names::{JobId, outcome as subject_of_outcome};
use crate::outbox::Outbox;
use crate::parts::cut;

/// Header with the number of an outcome's parts.
pub(crate) const PARTS: &str = "Weir-Parts";

/// Before another attempt.
const PAUSE: Duration = Duration::from_secs(1);
/// A stored outcome whose job does not come again within this time after it was sent belongs to a job that has left its
/// queue: only its removal was missing.
const SETTLED: Duration = Duration::from_secs(300);

/// What a delivered job is to this process of the agent.
pub(super) enum Delivered {
    /// A job to run.
    New,
    /// A job that waits, runs, or has an outcome on its way.
    Known,
    /// An earlier process stored its outcome.
    HasOutcome,
}

type Ackers = Arc<Mutex<HashMap<JobId, Arc<Acker>>>>;

pub(super) struct Delivery {
    sender: Sender,
    /// Tasks that send outcomes of this process.
    tasks: JoinSet<()>,
    /// Tasks that send what an earlier process left.
    earlier: JoinSet<()>,
}

#[derive(Clone)]
struct Sender {
    jetstream: Context,
    outbox: Outbox,
    /// How jobs are acknowledged that wait, run, or have an outcome on its way.
    ackers: Ackers,
    notice: Notices,
}

impl Delivery {
    pub(super) fn new(jetstream: Context, outbox: Outbox, notice: Notices) -> Delivery {
        let sender = Sender { jetstream, outbox, ackers: Ackers::default(), notice };
        Delivery { sender, tasks: JoinSet::new(), earlier: JoinSet::new() }
    }

    /// Sends what an earlier process of the agent left.
    pub(super) fn resend(&mut self) {
        let jobs = match self.sender.outbox.jobs() {
            Ok(jobs) => jobs,
            Err(error) => return (self.sender.notice)("outbox", error.to_string()),
        };
        for id in jobs {
            let Some(outcome) = self.sender.outbox.get(&id) else {
                (self.sender.notice)("outbox", format!("outcome of job {id} can't be read"));
                continue;
            };
            let sender = self.sender.clone();
            self.earlier.spawn(async move {
                sender.publish(&outcome).await;
                let end = Instant::now() + SETTLED;
                while Instant::now() < end {
                    if sender.acknowledge(&id).await {
                        return;
                    }
                    sleep(PAUSE).await;
                }
                sender.remove(&id);
            });
        }
        self.forget_starts();
    }

    /// Forgets the starts of jobs that were removed from their queue while the agent did not run: these do not come again.
    fn forget_starts(&mut self) {
        let sender = self.sender.clone();
        let Ok(started) = sender.outbox.started() else { return };
        if started.is_empty() {
            return;
        }
        self.earlier.spawn(async move {
            sleep(SETTLED).await;
            for id in started.iter().filter(|id| !sender.ackers().contains_key(id)) {
                // What can't be removed now is removed later.
                let _ = sender.outbox.remove_starts(id);
            }
        });
    }

    /// Keeps a job that was delivered; returns what it is.
    pub(super) fn hold(&mut self, id: &JobId, acker: Acker) -> Delivered {
        let is_known = self.sender.ackers().insert(id.clone(), Arc::new(acker)).is_some();
        // The task that sends a stored outcome finds the acker.
        match self.sender.outbox.get(id) {
            _ if is_known => Delivered::Known,
            Some(_) => Delivered::HasOutcome,
            None => Delivered::New,
        }
    }

    /// How many times a job was started, by earlier processes too.
    pub(super) fn starts(&self, id: &JobId) -> u64 {
        self.sender.outbox.starts(id)
    }

    /// Counts a start of a job; returns which one it is.
    pub(super) fn count_start(&self, id: &JobId) -> u64 {
        let starts = self.starts(id) + 1;
        if let Err(error) = self.sender.outbox.put_starts(id, starts) {
            // The job runs: a full disk is no reason to stop measuring.
            (self.sender.notice)("outbox", error.refusal().message);
        }
        starts
    }

    /// Sends an outcome on a task of its own.
    pub(super) fn send(&mut self, outcome: Outcome) {
        let sender = self.sender.clone();
        if let Err(error) = sender.outbox.put(&outcome) {
            // It is in memory still, and NATS may take it.
            (sender.notice)("outbox", error.refusal().message);
        }
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(async move {
            sender.publish(&outcome).await;
            while !sender.acknowledge(&outcome.id).await {
                sleep(PAUSE).await;
            }
        });
    }

    /// Tells the server that jobs are held, so that they are not delivered again.
    pub(super) async fn renew(&self) {
        if !is_connected(&self.sender.jetstream.client()) {
            return;
        }
        let ackers: Vec<_> = self.sender.ackers().values().cloned().collect();
        for acker in ackers {
            // Without a connection it is delivered again later, which changes nothing.
            let _ = acker.ack_with(AckKind::Progress).await;
        }
    }

    /// Gives jobs back that were not started, so that they are delivered again at once.
    pub(super) async fn give_back(&self, jobs: Vec<JobId>) {
        for id in jobs {
            let acker = self.sender.ackers().remove(&id);
            if let Some(acker) = acker {
                // Otherwise it is delivered again later.
                let _ = acker.ack_with(AckKind::Nak(None)).await;
            }
        }
    }

    /// Waits until the outcomes of this process are sent, until `end`. The rest stays stored.
    pub(super) async fn finish(mut self, end: Instant) {
        while let Ok(Some(_)) = timeout_at(end, self.tasks.join_next()).await {}
    }
}

/// Whether a client is connected now.
pub(super) fn is_connected(client: &Client) -> bool {
    client.connection_state() == State::Connected
}

impl Sender {
    fn ackers(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, Arc<Acker>>> {
        self.ackers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a connection: what is sent without one would wait in memory, once for each attempt.
    async fn connected(&self) {
        while !is_connected(&self.jetstream.client()) {
            sleep(PAUSE).await;
        }
    }

    /// Publishes all parts of an outcome; goes on until NATS has them.
    async fn publish(&self, outcome: &Outcome) {
        let mut told = false;
        loop {
            self.connected().await;
            match self.try_publish(outcome).await {
                Ok(()) => return,
                Err(error) if !told => {
                    told = true;
                    (self.notice)("outcome", format!("{error}; it is tried again"));
                }
                Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }

    async fn try_publish(&self, outcome: &Outcome) -> Result<(), Error> {
        let id = outcome.id.as_str();
        let parts = cut(outcome).map_err(Error::bus("write outcome", id))?;
        let count = parts.len();
        for (at, part) in parts.into_iter().enumerate() {
            let subject = subject_of_outcome(&outcome.agent, &outcome.id, at);
            let message = PublishMessage::build()
                .payload(part.into())
                .header(PARTS, count.to_string().as_str())
                // One message a subject: what was sent before is refused.
                .expected_last_subject_sequence(0);
            let acknowledged = match self.jetstream.send_publish(subject.clone(), message).await {
                Ok(acknowledgement) => acknowledgement.await.map(|_| ()),
                Err(error) => Err(error),
            };
            match acknowledged {
                Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {}
                other => other.map_err(Error::bus("publish", subject))?,
            }
        }
        Ok(())
    }

    /// Acknowledges the job and removes its stored outcome; `false` if that is to be tried again.
    async fn acknowledge(&self, id: &JobId) -> bool {
        let Some(acker) = self.ackers().get(id).cloned() else { return false };
        self.connected().await;
        if acker.double_ack().await.is_err() {
            return false;
        }
        self.ackers().remove(id);
        self.remove(id);
        true
    }

    fn remove(&self, id: &JobId) {
        if let Err(error) = self.outbox.remove(id) {
            (self.notice)("outbox", error.refusal().message);
        }
    }
}
