//! Which jobs wait and which run: one at a time for each resource, in the order in which they came.

use std::collections::{HashMap, VecDeque};

use super::process::Running;
use crate::document::Submission;
use crate::names::{JobId, Resource};

/// A job and how many times it was delivered.
type Waiting = (Submission, u64);

#[derive(Default)]
pub(super) struct Queues {
    waiting: HashMap<Resource, VecDeque<Waiting>>,
    running: HashMap<JobId, (Resource, Running)>,
}

impl Queues {
    fn is_busy(&self, resource: &Resource) -> bool {
        self.running.values().any(|(taken, _)| taken == resource)
    }

    /// Adds a job; returns it if it is to be started now.
    pub(super) fn add(&mut self, submission: Submission, starts: u64) -> Option<Waiting> {
        if !self.is_busy(&submission.resource) {
            return Some((submission, starts));
        }
        let queue = self.waiting.entry(submission.resource.clone()).or_default();
        queue.push_back((submission, starts));
        None
    }

    pub(super) fn started(&mut self, id: JobId, resource: Resource, running: Running) {
        self.running.insert(id, (resource, running));
    }

    /// Removes a job that has ended; returns the next one of its resource.
    pub(super) fn ended(&mut self, id: &JobId) -> Option<Waiting> {
        let (resource, _) = self.running.remove(id)?;
        let queue = self.waiting.get_mut(&resource)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&resource);
        }
        next
    }

    /// Stops a running job, or removes a waiting one: then it returns how many times that was delivered.
    pub(super) fn stop(&mut self, id: &JobId) -> Option<u64> {
        if let Some((_, running)) = self.running.get(id) {
            running.stop();
            return None;
        }
        for queue in self.waiting.values_mut() {
            if let Some(at) = queue.iter().position(|(submission, _)| submission.id == *id) {
                return queue.remove(at).map(|(_, starts)| starts);
            }
        }
        None
    }

    /// Stops all that run; returns the jobs that waited.
    pub(super) fn stop_all(&mut self) -> Vec<JobId> {
        for (_, running) in self.running.values() {
            running.stop();
        }
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_values().flatten().map(|(submission, _)| submission.id).collect()
    }

    pub(super) fn has_running(&self) -> bool {
        !self.running.is_empty()
    }
}
