//! Which jobs wait and which run: one at a time for each resource except that of probes, in the order in which they were
//! submitted. Jobs under a hold run at once, beside each other.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::process::Running;
use crate::document::{JobState, Submission};
use crate::names::{JobId, PROBES_RESOURCE, Resource};

/// A job that is to be started, and its place in the stream of jobs.
pub(super) type Next = (Submission, u64);

/// What runs.
pub(super) enum Task {
    Process(Running),
    /// A hold, until then unless it is renewed.
    Hold {
        lapse: Duration,
        until: Instant,
        since_unix_ns: u64,
    },
}

struct Entry {
    kind: &'static str,
    resource: Resource,
    hold: Option<JobId>,
    place: u64,
    since: Instant,
    task: Task,
}

/// A hold that has ended.
pub(super) struct EndedHold {
    pub(super) id: JobId,
    pub(super) since_unix_ns: u64,
}

#[derive(Default)]
pub(super) struct Queues {
    /// The jobs that wait, by their places in the stream of jobs.
    waiting: HashMap<Resource, BTreeMap<u64, Submission>>,
    running: HashMap<JobId, Entry>,
    is_paused: bool,
}

impl Queues {
    /// Whether jobs of a resource run one after the other.
    fn is_exclusive(resource: &Resource) -> bool {
        resource.as_str() != PROBES_RESOURCE
    }

    fn is_busy(&self, resource: &Resource) -> bool {
        // What runs under a hold that has ended still takes the resource until it has stopped.
        let is_beside = |entry: &Entry| entry.hold.as_ref().is_some_and(|hold| self.is_held(hold));
        let takes = |entry: &Entry| entry.resource == *resource && !is_beside(entry);
        Self::is_exclusive(resource) && self.running.values().any(takes)
    }

    /// The next job of a resource, if none of that resource runs.
    fn next(&mut self, resource: &Resource) -> Option<Next> {
        if self.is_paused || self.is_busy(resource) {
            return None;
        }
        let queue = self.waiting.get_mut(resource)?;
        let (place, next) = queue.pop_first()?;
        if queue.is_empty() {
            self.waiting.remove(resource);
        }
        Some((next, place))
    }

    /// Adds a job; returns the one that is to be started now.
    pub(super) fn add(&mut self, submission: Submission, place: u64) -> Option<Next> {
        if submission.hold.is_some() {
            return Some((submission, place));
        }
        let resource = submission.resource.clone();
        self.waiting.entry(resource.clone()).or_default().insert(place, submission);
        self.next(&resource)
    }

    /// Whether a hold is in force.
    pub(super) fn is_held(&self, hold: &JobId) -> bool {
        self.running.get(hold).is_some_and(|entry| matches!(entry.task, Task::Hold { .. }))
    }

    pub(super) fn started(&mut self, submission: &Submission, place: u64, task: Task) {
        let entry = Entry {
            kind: submission.work.kind(),
            resource: submission.resource.clone(),
            hold: submission.hold.clone(),
            place,
            since: Instant::now(),
            task,
        };
        self.running.insert(submission.id.clone(), entry);
    }

    /// Removes a job that has ended; returns the next one of its resource.
    pub(super) fn ended(&mut self, id: &JobId) -> Option<Next> {
        let ended = self.running.remove(id)?;
        self.next(&ended.resource)
    }

    /// Starts no job until [`Queues::resume`].
    pub(super) fn pause(&mut self) {
        self.is_paused = true;
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Ends a pause; returns the jobs that are to be started now.
    pub(super) fn resume(&mut self) -> Vec<Next> {
        self.is_paused = false;
        let resources: Vec<Resource> = self.waiting.keys().cloned().collect();
        let mut due = vec![];
        for resource in &resources {
            // All probes, and one job of each other resource.
            while let Some(next) = self.next(resource) {
                due.push(next);
                if Self::is_exclusive(resource) {
                    break;
                }
            }
        }
        due
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
        let entry = self.running.get_mut(hold);
        if let Some(Entry { task: Task::Hold { lapse, until, .. }, .. }) = entry {
            *until = Instant::now() + *lapse;
        }
    }

    /// The holds that were not renewed in time.
    pub(super) fn lapsed(&self) -> Vec<JobId> {
        let now = Instant::now();
        let has_lapsed =
            |entry: &Entry| matches!(&entry.task, Task::Hold { until, .. } if *until <= now);
        let lapsed = self.running.iter().filter(|(_, entry)| has_lapsed(entry));
        lapsed.map(|(id, _)| id.clone()).collect()
    }

    /// Stops the jobs under a hold, and returns it as ended; `None` if there is no such hold.
    pub(super) fn end_hold(&mut self, hold: &JobId) -> Option<EndedHold> {
        let Task::Hold { since_unix_ns, .. } = self.running.get(hold)?.task else { return None };
        for entry in self.running.values().filter(|entry| entry.hold.as_ref() == Some(hold)) {
            if let Task::Process(running) = &entry.task {
                running.stop();
            }
        }
        Some(EndedHold { id: hold.clone(), since_unix_ns })
    }

    /// Removes a waiting job; returns whether it was there.
    pub(super) fn withdraw(&mut self, id: &JobId) -> bool {
        self.waiting.values_mut().any(|queue| {
            let place =
                queue.iter().find(|(_, submission)| submission.id == *id).map(|(at, _)| *at);
            place.is_some_and(|place| queue.remove(&place).is_some())
        })
    }

    /// Stops all that run; returns the jobs that waited, in the order in which they were submitted, and the holds, which have
    /// ended.
    pub(super) fn stop_all(&mut self) -> (Vec<JobId>, Vec<EndedHold>) {
        for entry in self.running.values() {
            if let Task::Process(running) = &entry.task {
                running.stop();
            }
        }
        let ids: Vec<JobId> = self.running.keys().cloned().collect();
        let holds = ids.iter().filter_map(|id| self.end_hold(id)).collect();
        let waiting: BTreeMap<u64, Submission> =
            std::mem::take(&mut self.waiting).into_values().flatten().collect();
        (waiting.into_values().map(|submission| submission.id).collect(), holds)
    }

    pub(super) fn has_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// What runs and waits.
    pub(super) fn state(&self) -> Vec<JobState> {
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by_key(|(_, entry)| entry.place);
        let running = running.into_iter().map(|(id, entry)| JobState {
            id: id.clone(),
            kind: entry.kind.into(),
            resource: entry.resource.clone(),
            hold: entry.hold.clone(),
            before: 0,
            running_seconds: Some(entry.since.elapsed().as_secs()),
        });
        let mut waiting: BTreeMap<u64, JobState> = BTreeMap::new();
        for (resource, queue) in &self.waiting {
            let first = u64::from(self.is_busy(resource));
            waiting.extend(queue.iter().zip(first..).map(|((place, submission), before)| {
                let state = JobState {
                    id: submission.id.clone(),
                    kind: submission.work.kind().into(),
                    resource: resource.clone(),
                    hold: None,
                    before,
                    running_seconds: None,
                };
                (*place, state)
            }));
        }
        running.chain(waiting.into_values()).collect()
    }
}
