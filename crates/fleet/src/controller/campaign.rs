//! Agents that are held for one controller, so that its jobs at several of them run at the same time and nothing else does.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};
use weir_jobs::Event;
use weir_model::Refusal;

use super::{Controller, Submitted};
use crate::document::{Request, Submission, Work};
use crate::error::Error;
use crate::names::{AgentName, JobId, Resource};

/// A hold that is not renewed for this time ends.
pub const HOLD_LAPSE: Duration = Duration::from_secs(60);
/// Between two questions whether an agent is held yet; its event usually comes first.
const ASK: Duration = Duration::from_secs(1);

/// Agents that are held. Holds are taken one after the other in the order of the agents' names, so that two campaigns never wait
/// for each other. Dropping it lets them lapse; [`release`](Campaign::release) ends them.
pub struct Campaign {
    controller: Controller,
    lapse: Duration,
    holds: Vec<Hold>,
}

struct Hold {
    agent: AgentName,
    job: JobId,
    place: Submitted,
    renewing: Option<JoinHandle<()>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(renewing) = &self.renewing {
            renewing.abort();
        }
    }
}

impl Campaign {
    /// A campaign without agents, whose holds end this long after the controller has gone.
    #[must_use]
    pub fn new(controller: Controller, lapse: Duration) -> Campaign {
        Campaign { controller, lapse, holds: vec![] }
    }

    /// Waits until these agents are held, in the order of their names. `waits` is called for each agent that is not free, with
    /// the number of jobs before this one. `job` makes the number of each hold.
    ///
    /// # Errors
    /// NATS can't be reached. Holds that were taken stay until they are released.
    pub async fn hold(
        &mut self,
        agents: &[AgentName],
        resource: &Resource,
        job: impl Fn(usize) -> JobId,
        waits: impl Fn(&AgentName, u64),
    ) -> Result<(), Error> {
        let mut agents: Vec<&AgentName> = agents.iter().collect();
        agents.sort();
        agents.dedup();
        for (at, agent) in agents.into_iter().enumerate() {
            let id = job(at);
            let mut events = self.controller.events(agent, &id).await?;
            let submission = Submission {
                id: id.clone(),
                resource: resource.clone(),
                start_at_unix_ns: None,
                longest_seconds: u64::MAX,
                hold: None,
                without_record: false,
                work: Work::Hold { lapse_seconds: self.lapse.as_secs().max(1) },
            };
            let mut outcomes = self.controller.outcomes_of(&[(agent.clone(), id.clone())]).await?;
            let place = self.controller.submit(agent, &submission).await?;
            let hold = Hold { agent: agent.clone(), job: id.clone(), place, renewing: None };
            self.holds.push(hold);
            if place.before > 0 {
                waits(agent, place.before);
            }
            loop {
                tokio::select! {
                    event = timeout(ASK, events.next()) => match event {
                        Ok(Some(Event::Ready(_))) => break,
                        Ok(None) => tokio::time::sleep(ASK).await,
                        _ => {}
                    },
                    // It was stopped, or the agent refused it.
                    outcome = outcomes.next() => {
                        let error = outcome?.error.unwrap_or_else(|| {
                            Refusal::new("hold", format!("the hold of agent {agent} was ended"), 3)
                        });
                        return Err(error.into());
                    }
                }
                // An agent that does not answer now may come back.
                let Ok(state) = self.controller.state(agent).await else { continue };
                if state.jobs.iter().any(|job| job.id == id && job.running_seconds.is_some()) {
                    break;
                }
            }
            let renewing = renew(self.controller.clone(), agent.clone(), id, self.lapse / 4);
            if let Some(hold) = self.holds.last_mut() {
                hold.renewing = Some(tokio::spawn(renewing));
            }
        }
        Ok(())
    }

    /// The hold of an agent.
    #[must_use]
    pub fn hold_of(&self, agent: &AgentName) -> Option<&JobId> {
        self.holds.iter().find(|hold| hold.agent == *agent).map(|hold| &hold.job)
    }

    /// Ends all holds and removes those that wait; what runs under them is stopped. A hold of an agent that can't be reached
    /// lapses.
    pub async fn release(&mut self) {
        for hold in std::mem::take(&mut self.holds) {
            // Without an answer it lapses.
            let _ = self.controller.stop(&hold.agent, &hold.job).await;
            if hold.renewing.is_none() {
                // It may not have been delivered yet.
                let _ = self.controller.withdraw(&hold.place).await;
            }
        }
    }
}

async fn renew(controller: Controller, agent: AgentName, job: JobId, every: Duration) {
    let mut ticks = interval(every);
    loop {
        ticks.tick().await;
        // The next one counts as well.
        let _ = controller.ask(&agent, &Request::Renew { job: job.clone() }).await;
    }
}
