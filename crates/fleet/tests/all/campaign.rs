//! Agents that are held for one controller.

use std::time::{Duration, Instant};

use weir_fleet::{
    AgentName, Campaign, Controller, HOLD_LAPSE, HOST_RESOURCE, JobId, Resource, Submission,
};

use crate::server::{Agent, LIMIT, Server, job, outcomes, script};

fn name(text: &str) -> AgentName {
    text.parse().unwrap()
}

fn host() -> Resource {
    HOST_RESOURCE.parse().unwrap()
}

async fn hold(campaign: &mut Campaign, number: &str, agents: &[&str]) {
    let agents: Vec<AgentName> = agents.iter().map(|text| name(text)).collect();
    let id = |at: usize| format!("{number}-h{at}").parse().unwrap();
    let resource = host();
    let holding = campaign.hold(&agents, &resource, id, |_, _| ());
    tokio::time::timeout(LIMIT, holding).await.expect("not held").unwrap();
}

/// The jobs that an agent has, and whether each of them runs.
async fn jobs(controller: &Controller, agent: &str) -> Vec<(String, bool)> {
    let state = controller.state(&name(agent)).await.unwrap();
    let jobs = state.jobs.into_iter();
    jobs.map(|job| (job.id.to_string(), job.running_seconds.is_some())).collect()
}

/// Waits until an agent has these jobs.
async fn until_jobs(controller: &Controller, agent: &str, wanted: &[(&str, bool)]) {
    let wanted: Vec<(String, bool)> = wanted.iter().map(|(id, on)| ((*id).into(), *on)).collect();
    let end = Instant::now() + LIMIT;
    loop {
        let found = jobs(controller, agent).await;
        if found == wanted {
            return;
        }
        assert!(Instant::now() < end, "{found:?} instead of {wanted:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn jobs_run_at_agents_that_are_held() {
    let Some(server) = Server::start("jobs_run_at_agents_that_are_held", &["a"]) else { return };
    let controller = server.controller().await;
    // Each job runs until it is stopped.
    let _agent = Agent::start(&server, "a", script(server.directory.path(), "read -r command"));
    let mut campaign = Campaign::new(controller.clone(), HOLD_LAPSE);
    hold(&mut campaign, "c", &["a"]).await;
    let a = name("a");
    let held = campaign.hold_of(&a).cloned();
    assert_eq!(held.as_ref().map(JobId::as_str), Some("c-h0"));

    controller.submit(&a, &job("other")).await.unwrap();
    for id in ["1", "2"] {
        let own = Submission { hold: held.clone(), ..job(id) };
        controller.submit(&a, &own).await.unwrap();
    }
    let stranger = Submission { hold: Some("x-h0".parse().unwrap()), ..job("3") };
    controller.submit(&a, &stranger).await.unwrap();
    let refused = outcomes(&controller, "a", &["3"]).await;
    assert_eq!(refused[0].error.as_ref().unwrap().code, "hold");
    until_jobs(&controller, "a", &[("c-h0", true), ("1", true), ("2", true), ("other", false)])
        .await;

    // What runs under the hold ends with it; then the other one has its turn.
    campaign.release().await;
    let ended = outcomes(&controller, "a", &["c-h0", "1", "2"]).await;
    assert!(ended.iter().all(|outcome| outcome.error.is_none()), "{ended:?}");
    until_jobs(&controller, "a", &[("other", true)]).await;
}

#[tokio::test]
async fn campaigns_wait_for_agents_in_one_order() {
    let test = "campaigns_wait_for_agents_in_one_order";
    let Some(server) = Server::start(test, &["a", "b", "c"]) else { return };
    let controller = server.controller().await;
    let program = script(server.directory.path(), "read -r command");
    let _agents = ["a", "b", "c"].map(|agent| Agent::start(&server, agent, program.clone()));
    let campaign = |number: &'static str, agents: [&'static str; 2]| {
        let controller = controller.clone();
        tokio::spawn(async move {
            for round in 0..5 {
                let mut campaign = Campaign::new(controller.clone(), HOLD_LAPSE);
                hold(&mut campaign, &format!("{number}{round}"), &agents).await;
                for agent in agents {
                    let jobs = jobs(&controller, agent).await;
                    let running: Vec<_> =
                        jobs.iter().filter(|(_, is_running)| *is_running).collect();
                    assert!(matches!(running[..], [(id, _)] if id.starts_with(number)), "{jobs:?}");
                }
                campaign.release().await;
            }
        })
    };
    // In the order of names, whatever the order in which they are given.
    let all = [campaign("x", ["a", "b"]), campaign("y", ["b", "a"]), campaign("z", ["c", "b"])];
    for one in all {
        tokio::time::timeout(LIMIT, one).await.expect("they wait for each other").unwrap();
    }
}

#[tokio::test]
async fn what_a_lost_controller_held_becomes_free() {
    let test = "what_a_lost_controller_held_becomes_free";
    let Some(server) = Server::start(test, &["a"]) else { return };
    let controller = server.controller().await;
    let program = script(server.directory.path(), "read -r command");
    let _agent = Agent::start(&server, "a", program);
    let mut campaign = Campaign::new(controller.clone(), Duration::from_secs(3));
    hold(&mut campaign, "c", &["a"]).await;
    let a = name("a");
    let own = Submission { hold: campaign.hold_of(&a).cloned(), ..job("1") };
    controller.submit(&a, &own).await.unwrap();
    controller.submit(&a, &job("2")).await.unwrap();
    until_jobs(&controller, "a", &[("c-h0", true), ("1", true), ("2", false)]).await;

    // It is not renewed from here on.
    drop(campaign);
    let ended = outcomes(&controller, "a", &["c-h0", "1"]).await;
    let hold = ended.iter().find(|outcome| outcome.id.as_str() == "c-h0").unwrap();
    assert_eq!(hold.error.as_ref().map(|error| error.code.as_str()), Some("lapsed"));
    until_jobs(&controller, "a", &[("2", true)]).await;
}
