//! A running job, wherever it runs.

use std::time::{Duration, Instant};

use weir_model::Refusal;

use crate::{Command, Event, Job, NoEvent};

/// Timeout until a job is ready.
const START: Duration = Duration::from_secs(60);

/// A running job: a process of this host, or a job that an agent of a fleet runs. It is stopped when this is dropped.
pub trait RunningJob: Send {
    /// The next event.
    ///
    /// # Errors
    /// [`NoEvent`].
    fn next_within(&mut self, timeout: Duration) -> Result<Event, NoEvent>;

    /// Sends a command. A process of this host that has ended ignores it; an agent's job has taken it.
    ///
    /// # Errors
    /// Its agent can't be reached, or its emulator refuses the configuration.
    fn command(&mut self, command: &Command) -> Result<(), Box<Refusal>>;

    /// Asks it to stop in order; a second time, immediately.
    fn stop(&mut self);

    /// The reason of an unexpected end: `refusal`, which is the job's last error, if it reported one.
    fn ended(&mut self, refusal: Option<Refusal>) -> Refusal;

    /// Whether it has ended.
    fn has_ended(&self) -> bool;

    /// Discards events from now on: those of a long job would otherwise accumulate in memory.
    fn ignore_events(&self);

    /// Waits until a server listens, or an emulator, a lab or a test is ready; returns the event that says so.
    ///
    /// # Errors
    /// Its own refusal, or a refusal made from how it ended.
    fn wait_until_up(&mut self) -> Result<Event, Box<Refusal>> {
        let end = Instant::now() + START;
        let mut refusal = None;
        loop {
            match self.next_within(end.saturating_duration_since(Instant::now())) {
                Ok(event @ (Event::Ready(_) | Event::Listening(_))) => return Ok(event),
                Ok(Event::Error(error)) => refusal = Some(error),
                Ok(_) => {}
                Err(NoEvent::Ended) => return Err(Box::new(self.ended(refusal))),
                Err(NoEvent::Timeout) => {
                    let words = format!("not ready within {} s", START.as_secs());
                    return Err(Box::new(Refusal::new("timeout", words, 3)));
                }
            }
        }
    }
}

/// Hosts elsewhere that run jobs: the agents of a fleet.
pub trait RemoteHosts: Sync {
    /// The agents that a name of the scenario stands for.
    fn members(&self, name: &str) -> Vec<String>;

    /// Whether there is an agent with this name.
    fn is_agent(&self, host: &str) -> bool;

    /// The key of the servers that are started at agents, as `KeySource` takes it.
    fn key(&self) -> String;

    /// Largest error of an agent's clock, ns; absent: unknown.
    fn clock_bound_ns(&self, agent: &str) -> Option<u64>;

    /// Starts a job at an agent. Times in it are those of this host's CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The fleet can't be reached, or refuses the job.
    fn start(&self, agent: &str, job: Job) -> Result<Box<dyn RunningJob>, Box<Refusal>>;

    /// The address at which others reach an agent.
    ///
    /// # Errors
    /// It has none of that IP version.
    fn address(&self, agent: &str, is_ipv6: bool) -> Result<String, Box<Refusal>>;
}
