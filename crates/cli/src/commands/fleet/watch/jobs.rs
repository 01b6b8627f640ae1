//! The jobs of a watch.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use weir_fleet::{
    AgentName, Controller, HOST_RESOURCE, JobId, PROBES_RESOURCE, Resource, Submission, Submitted,
    Work,
};
use weir_jobs::{Event, Job};
use weir_model::Refusal;

use super::{PairNames, refused};
use crate::error::CliError;
use crate::{random, time};

/// Events that wait.
const MAX_WAITING: usize = 4096;
/// A server stops by itself when it has no clients for some time: this limit is never reached before.
const LONGEST_SERVER: Duration = Duration::from_secs(30 * 24 * 3600);
/// A test ends by itself: this limit is for one that does not.
const LONGEST_TEST: Duration = Duration::from_secs(900);

/// What a job is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It replies to probes at this agent.
    Server(AgentName),
    /// It probes a pair.
    Probe(PairNames),
    /// A throughput burst from the first agent to the second.
    Burst(PairNames),
}

impl Purpose {
    /// Whether it needs another job at this agent.
    pub(super) fn is_with(&self, agent: &AgentName) -> bool {
        matches!(self, Purpose::Probe((_, to)) | Purpose::Burst((_, to)) if to == agent)
    }
}

struct Running {
    agent: AgentName,
    submitted: Submitted,
    purpose: Purpose,
    /// The task that passes its events on.
    events: AbortHandle,
}

/// The jobs that were submitted and have not ended.
pub(super) struct Jobs {
    controller: Controller,
    /// Common part of their numbers.
    prefix: String,
    count: u64,
    running: HashMap<JobId, Running>,
    events: mpsc::Sender<(JobId, Event)>,
}

impl Jobs {
    /// No jobs; the receiver gets the events of all.
    pub(super) fn new(controller: Controller) -> (Jobs, mpsc::Receiver<(JobId, Event)>) {
        let (events, receiver) = mpsc::channel(MAX_WAITING);
        let now = time::since_epoch(SystemTime::now());
        let prefix = format!("{:x}-{:08x}", now.as_millis(), random::u64() as u32);
        (Jobs { controller, prefix, count: 0, running: HashMap::new(), events }, receiver)
    }

    pub(super) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Submits a job and passes its events on.
    pub(super) async fn start(
        &mut self,
        agent: &AgentName,
        job: Job,
        purpose: Purpose,
    ) -> Result<JobId, CliError> {
        let number = format!("{}-{:x}", self.prefix, self.count);
        let id: JobId = number.parse().map_err(|error: Refusal| refused(error.into()))?;
        self.count += 1;
        let (resource, longest) = match purpose {
            Purpose::Server(_) => (PROBES_RESOURCE, LONGEST_SERVER),
            Purpose::Probe(_) => (PROBES_RESOURCE, LONGEST_TEST),
            // A burst waits for other jobs of the host.
            Purpose::Burst(_) => (HOST_RESOURCE, LONGEST_TEST),
        };
        let resource: Resource =
            resource.parse().map_err(|error: Refusal| refused(error.into()))?;
        let submission = Submission {
            id: id.clone(),
            resource,
            start_at_unix_ns: None,
            longest_seconds: longest.as_secs(),
            without_record: !matches!(purpose, Purpose::Burst(_)),
            hold: None,
            work: Work::Job(Box::new(job)),
        };
        let mut arriving = self.controller.events(agent, &id).await.map_err(refused)?;
        let submitted = self.controller.submit(agent, &submission).await.map_err(refused)?;
        let (sender, job) = (self.events.clone(), id.clone());
        let task = tokio::spawn(async move {
            while let Some(event) = arriving.next().await {
                if sender.send((job.clone(), event)).await.is_err() {
                    break;
                }
            }
        });
        let events = task.abort_handle();
        let agent = agent.clone();
        self.running.insert(id.clone(), Running { agent, submitted, purpose, events });
        Ok(id)
    }

    pub(super) fn purpose(&self, id: &JobId) -> Option<&Purpose> {
        self.running.get(id).map(|running| &running.purpose)
    }

    /// A job has ended; returns what it was for.
    pub(super) fn ended(&mut self, id: &JobId) -> Option<Purpose> {
        let running = self.running.remove(id)?;
        running.events.abort();
        Some(running.purpose)
    }

    /// Stops a job and forgets it.
    pub(super) async fn stop(&mut self, id: &JobId) {
        if let Some(running) = self.running.remove(id) {
            running.events.abort();
            // Without NATS there is nothing to do: the job ends by itself.
            let _ = self.controller.stop(&running.agent, id).await;
            let _ = self.controller.withdraw(&running.submitted).await;
        }
    }

    /// Stops jobs and forgets them. Those of an agent that is gone do not run again when it is back.
    pub(super) async fn stop_where(&mut self, is_chosen: impl Fn(&AgentName, &Purpose) -> bool) {
        let chosen =
            |(_, running): &(&JobId, &Running)| is_chosen(&running.agent, &running.purpose);
        let ids: Vec<JobId> =
            self.running.iter().filter(chosen).map(|(id, _)| id.clone()).collect();
        let stopping = ids.iter().filter_map(|id| {
            let running = self.running.remove(id)?;
            running.events.abort();
            let controller = &self.controller;
            Some(async move {
                // Without NATS there is nothing to do: the job ends by itself.
                let _ = controller.stop(&running.agent, id).await;
                let _ = controller.withdraw(&running.submitted).await;
            })
        });
        join_all(stopping).await;
    }

    /// Asks all jobs to stop.
    pub(super) async fn stop_all(&self) {
        let running = self.running.iter();
        join_all(running.map(|(id, job)| self.controller.stop(&job.agent, id))).await;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}
