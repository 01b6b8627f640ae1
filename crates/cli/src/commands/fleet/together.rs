//! `weir fleet run --together`: tests of several agents that start at the same instant.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};
use weir_fleet::{
    Agent, AgentName, Campaign, Controller, HOLD_LAPSE, JobId, Outcome, StartSpread, Submission,
    Work,
};
use weir_jobs::{Event, Job};
use weir_model::Refusal;
use weir_net::clock::Clock;

use super::clocks::{check_clocks, start_of};
use super::hosts::Held;
use super::run::{Ended, RunArgs, stop_all};
use super::{hold, list, number, refused, stopped};
use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::job::notice;

/// Between two looks whether agents still answer.
const LOOK: Duration = Duration::from_secs(10);
/// An agent that has not answered for this long is lost.
const LOST: Duration = Duration::from_secs(60);
/// From the moment when all tests are ready to their start: each agent has to learn of it.
const LEAD: Duration = Duration::from_millis(500);

/// Holds the agents, runs the test at each, and starts all when all are ready.
pub(super) async fn run(
    controller: &Controller,
    args: &RunArgs,
    job: &Job,
    agents: &[&Agent],
    stop: &Stop,
) -> Result<Ended, CliError> {
    let mut held: Vec<Held> = agents
        .iter()
        .map(|agent| Held {
            name: agent.name.clone(),
            facts: agent.facts.clone(),
            clock_bound_ns: agent.facts.clock_bound_ns,
        })
        .collect();
    let names: Vec<AgentName> = held.iter().map(|held| held.name.clone()).collect();
    let number = number();
    let mut campaign = Campaign::new(controller.clone(), HOLD_LAPSE);
    let ended = async {
        tokio::select! {
            taken = hold(&mut campaign, &names, &number) => taken?,
            reason = stopped(stop, 1) => {
                return Ok(Ended { outcomes: vec![], reason: Some(reason), spread: None });
            }
        }
        check_clocks(controller, held.iter_mut(), args.max_start_error_ns()).await?;
        tests(controller, args, job, (&campaign, &held, &number), stop).await
    }
    .await;
    campaign.release().await;
    ended
}

async fn tests(
    controller: &Controller,
    args: &RunArgs,
    job: &Job,
    (campaign, held, number): (&Campaign, &[Held], &str),
    stop: &Stop,
) -> Result<Ended, CliError> {
    let mut job = job.clone();
    if let Job::Test(test) = &mut job {
        test.wait_for_start = true;
        test.start_at_ns = None;
    }
    let mut jobs: Vec<(AgentName, JobId)> = vec![];
    for (at, one) in held.iter().enumerate() {
        let id: JobId = format!("{number}-{at}").parse().map_err(|e: Refusal| refused(e.into()))?;
        jobs.push((one.name.clone(), id));
    }
    let mut arriving = controller.outcomes_of(&jobs).await.map_err(refused)?;
    let (ready, mut are_ready) = mpsc::unbounded_channel();
    let mut listening = JoinSet::new();
    for (agent, id) in &jobs {
        let mut events = controller.events(agent, id).await.map_err(refused)?;
        let submission = Submission {
            id: id.clone(),
            resource: weir_fleet::HOST_RESOURCE.parse().map_err(|e: Refusal| refused(e.into()))?,
            start_at_unix_ns: None,
            longest_seconds: args.longest_seconds(),
            hold: campaign.hold_of(agent).cloned(),
            without_record: false,
            work: Work::Job(Box::new(job.clone())),
        };
        let (ready, id) = (ready.clone(), id.clone());
        listening.spawn(async move {
            while let Some(event) = events.next().await {
                if matches!(event, Event::Ready(_)) {
                    let _ = ready.send(id);
                    return;
                }
            }
        });
        controller.submit(agent, &submission).await.map_err(refused)?;
    }
    let mut waiting: Vec<JobId> = jobs.iter().map(|(_, id)| id.clone()).collect();
    let mut start_at = None;
    let mut outcomes: Vec<Outcome> = vec![];
    let mut reason: Option<StopReason> = None;
    let mut look = interval(LOOK);
    let mut answered: Vec<Instant> = vec![Instant::now(); jobs.len()];
    while outcomes.len() < jobs.len() {
        tokio::select! {
            outcome = arriving.next() => {
                let outcome = outcome.map_err(refused)?;
                args.keep(&outcome);
                if start_at.is_none() && reason.is_none() {
                    // The others would measure something else than what was asked for.
                    notice("not-started", &format!("{}: not ready; the others are stopped", outcome.agent));
                    stop_all(controller, &jobs).await;
                    start_at = Some(0);
                }
                outcomes.push(outcome);
            }
            Some(id) = are_ready.recv() => {
                waiting.retain(|job| *job != id);
                if waiting.is_empty() && start_at.is_none() {
                    let now = Clock::System.realtime_ns();
                    let at = now.saturating_add(LEAD.as_nanos() as u64);
                    start_at = Some(at);
                    let mut starting = JoinSet::new();
                    for (agent, id) in jobs.clone() {
                        let controller = controller.clone();
                        starting.spawn(async move { controller.start(&agent, &id, at).await });
                    }
                    while let Some(started) = starting.join_next().await {
                        if let Ok(Err(error)) = started {
                            notice("not-started", &format!("{error}; all are stopped"));
                            stop_all(controller, &jobs).await;
                        }
                    }
                }
            }
            _ = look.tick() => {
                let waits = |id: &JobId| outcomes.iter().all(|outcome| outcome.id != *id);
                for (at, (agent, id)) in jobs.iter().enumerate().filter(|(_, (_, id))| waits(id)) {
                    if controller.state(agent).await.is_ok() {
                        answered[at] = Instant::now();
                    } else if answered[at].elapsed() > LOST {
                        stop_all(controller, &jobs).await;
                        let words = format!("job {id}: agent {agent} does not answer");
                        return Err(refused(Refusal::new("agent", words, 3).into()));
                    }
                }
            }
            asked = stopped(stop, 1), if reason.is_none() => {
                reason = Some(asked);
                stop_all(controller, &jobs).await;
            }
            _ = stopped(stop, 2) => break,
        }
    }
    outcomes.sort_by(|a, b| a.agent.cmp(&b.agent));
    let starts: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| {
            let one = held.iter().find(|held| held.name == outcome.agent)?;
            start_of(&list::record(outcome)?, start_at?, one)
        })
        .collect();
    let spread = StartSpread::of(&starts);
    Ok(Ended { outcomes, reason, spread })
}
