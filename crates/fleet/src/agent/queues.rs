//! Which jobs wait and which run: one at a time for each resource, in the order in which they were submitted. Jobs under a
//! hold run at once, beside each other.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::process::Running;
use crate::document::{JobState, Submission};
use crate::names::{JobId, Resource};

/// A job as it was delivered.
pub(super) struct Delivered {
    pub(super) submission: Submission,
    /// How many times it was delivered.
    pub(super) starts: u64,
    /// Its place in the stream of jobs.
    pub(super) sequence: u64,
}

/// What runs.
pub(super) enum Task {
    Process(Running),
    /// A hold, until then unless it is renewed.
    Hold {
        lapse: Duration,
        until: Instant,
        starts: u64,
        since_unix_ns: u64,
    },
}

struct Entry {
    kind: &'static str,
    resource: Resource,
    hold: Option<JobId>,
    sequence: u64,
    since: Instant,
    task: Task,
}

/// A hold that has ended.
pub(super) struct EndedHold {
    pub(super) id: JobId,
    pub(super) starts: u64,
    pub(super) since_unix_ns: u64,
}

#[derive(Default)]
pub(super) struct Queues {
    /// By their places in the stream.
    waiting: HashMap<Resource, BTreeMap<u64, Delivered>>,
    running: HashMap<JobId, Entry>,
}

impl Queues {
    fn is_busy(&self, resource: &Resource) -> bool {
        self.running.values().any(|entry| entry.hold.is_none() && entry.resource == *resource)
    }

    /// Adds a job; returns it if it is to be started now.
    pub(super) fn add(&mut self, delivered: Delivered) -> Option<Delivered> {
        let Submission { resource, hold, .. } = &delivered.submission;
        if hold.is_some() || !self.is_busy(resource) {
            return Some(delivered);
        }
        let queue = self.waiting.entry(resource.clone()).or_default();
        queue.insert(delivered.sequence, delivered);
        None
    }

    /// Whether a hold is in force.
    pub(super) fn is_held(&self, hold: &JobId) -> bool {
        self.running.get(hold).is_some_and(|entry| matches!(entry.task, Task::Hold { .. }))
    }

    pub(super) fn started(&mut self, submission: &Submission, sequence: u64, task: Task) {
        let entry = Entry {
            kind: submission.work.kind(),
            resource: submission.resource.clone(),
            hold: submission.hold.clone(),
            sequence,
            since: Instant::now(),
            task,
        };
        self.running.insert(submission.id.clone(), entry);
    }

    /// Removes a job that has ended; returns the next one of its resource.
    pub(super) fn ended(&mut self, id: &JobId) -> Option<Delivered> {
        let ended = self.running.remove(id)?;
        if self.is_busy(&ended.resource) {
            return None;
        }
        let queue = self.waiting.get_mut(&ended.resource)?;
        let next = queue.pop_first().map(|(_, delivered)| delivered);
        if queue.is_empty() {
            self.waiting.remove(&ended.resource);
        }
        next
    }

    /// The process of a running job.
    pub(super) fn process(&self, id: &JobId) -> Option<&Running> {
        match &self.running.get(id)?.task {
            Task::Process(running) => Some(running),
            Task::Hold { .. } => None,
        }
    }

    /// Keeps a hold for another while.
    pub(super) fn renew(&mut self, hold: &JobId) {
        if let Some(Entry { task: Task::Hold { lapse, until, .. }, .. }) =
            self.running.get_mut(hold)
        {
            *until = Instant::now() + *lapse;
        }
    }

    /// The holds that were not renewed in time.
    pub(super) fn lapsed(&self) -> Vec<JobId> {
        let now = Instant::now();
        let lapsed = self
            .running
            .iter()
            .filter(|(_, entry)| matches!(&entry.task, Task::Hold { until, .. } if *until <= now));
        lapsed.map(|(id, _)| id.clone()).collect()
    }

    /// Stops the jobs under a hold, and returns it as ended; `None` if there is no such hold.
    pub(super) fn end_hold(&mut self, hold: &JobId) -> Option<EndedHold> {
        let Task::Hold { starts, since_unix_ns, .. } = self.running.get(hold)?.task else {
            return None;
        };
        for entry in self.running.values().filter(|entry| entry.hold.as_ref() == Some(hold)) {
            if let Task::Process(running) = &entry.task {
                running.stop();
            }
        }
        Some(EndedHold { id: hold.clone(), starts, since_unix_ns })
    }

    /// Removes a waiting job; returns how many times it was delivered.
    pub(super) fn withdraw(&mut self, id: &JobId) -> Option<u64> {
        let queues = self.waiting.values_mut();
        queues.into_iter().find_map(|queue| {
            let found = queue.values().find(|waiting| waiting.submission.id == *id)?.sequence;
            queue.remove(&found).map(|waiting| waiting.starts)
        })
    }

    /// Stops all that run and returns the jobs that waited, and the holds, which have ended.
    pub(super) fn stop_all(&mut self) -> (Vec<JobId>, Vec<EndedHold>) {
        for entry in self.running.values() {
            if let Task::Process(running) = &entry.task {
                running.stop();
            }
        }
        let holds: Vec<JobId> = self.running.keys().cloned().collect();
        let holds = holds.iter().filter_map(|id| self.end_hold(id)).collect();
        let waiting: BTreeMap<u64, JobId> = std::mem::take(&mut self.waiting)
            .into_values()
            .flatten()
            .map(|(sequence, delivered)| (sequence, delivered.submission.id))
            .collect();
        (waiting.into_values().collect(), holds)
    }

    pub(super) fn has_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// What runs and waits.
    pub(super) fn state(&self) -> Vec<JobState> {
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by_key(|(_, entry)| entry.sequence);
        let running = running.into_iter().map(|(id, entry)| JobState {
            id: id.clone(),
            kind: entry.kind.into(),
            resource: entry.resource.clone(),
            hold: entry.hold.clone(),
            before: 0,
            running_seconds: Some(entry.since.elapsed().as_secs()),
        });
        let mut waiting: Vec<(&u64, JobState)> = vec![];
        for (resource, queue) in &self.waiting {
            let first = u64::from(self.is_busy(resource));
            waiting.extend(queue.iter().zip(first..).map(|((sequence, delivered), before)| {
                let state = JobState {
                    id: delivered.submission.id.clone(),
                    kind: delivered.submission.work.kind().into(),
                    resource: resource.clone(),
                    hold: None,
                    before,
                    running_seconds: None,
                };
                (sequence, state)
            }));
        }
        waiting.sort_by_key(|(sequence, _)| **sequence);
        running.chain(waiting.into_iter().map(|(_, state)| state)).collect()
    }
}
