//! Jobs that are submitted end in one outcome each, whatever fails in between.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_fleet::{Controller, HOST_RESOURCE, Outcome, PROBES_RESOURCE, Selector};
use weir_jobs::{DemoJob, Event, Job};

use crate::server::{Agent, LIMIT, Server, job, outcomes, script};

/// Writes the beginning and the end of each job into `log`, with `seconds` between.
pub(crate) fn logging(directory: &Path, seconds: &str) -> String {
    let log = directory.join("jobs").display().to_string();
    format!(
        r#"host=${{job#*\"host\":\"}}; host=${{host%%\"*}}
echo "begin $host" >>'{log}'
echo '{{"event":"progress","data":{{"message":"x"}}}}'
sleep {seconds}
echo "end $host" >>'{log}'
echo '{{"event":"result","data":{{"host":"'$host'"}}}}'"#
    )
}

pub(crate) fn log(directory: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(directory.join("jobs")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Waits until `is_done`.
pub(crate) async fn until(mut is_done: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_done() {
        assert!(Instant::now() < end, "it did not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A server with a key for agent `a`, a controller, and a directory; `None` after printing that the test is skipped.
async fn up(test: &str) -> Option<(Server, Controller, PathBuf)> {
    let server = Server::start(test, &["a"])?;
    let controller = server.controller().await;
    let directory = server.directory.path().to_owned();
    Some((server, controller, directory))
}

pub(crate) async fn submit(controller: &Controller, agent: &str, ids: &[&str]) {
    for id in ids {
        controller.submit(&agent.parse().unwrap(), &job(id)).await.unwrap();
    }
}

pub(crate) fn ids(outcomes: &[Outcome]) -> Vec<&str> {
    let mut ids: Vec<&str> = outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn jobs_of_a_resource_run_one_after_the_other() {
    let Some((server, controller, directory)) =
        up("jobs_of_a_resource_run_one_after_the_other").await
    else {
        return;
    };
    // Each waits until the file is there, so that the first one still runs when the last one was submitted.
    let go = directory.join("go");
    let body = logging(&directory, "0.1; until [ -e 'GO' ]; do sleep 0.05; done");
    let body = body.replace("GO", &go.display().to_string());
    let _agent = Agent::start(&server, "a", script(&directory, &body));
    let name = "a".parse().unwrap();
    let mut events = controller.events(&name, &"1".parse().unwrap()).await.unwrap();
    let mut before = vec![];
    for id in ["1", "2", "3"] {
        before.push(controller.submit(&name, &job(id)).await.unwrap().before);
    }
    assert!(before == [0, 1, 2], "{before:?}");
    let other = "eth0".parse().unwrap();
    let parallel = weir_fleet::Submission { resource: other, ..job("4") };
    controller.submit(&name, &parallel).await.unwrap();
    // The same job once more.
    controller.submit(&name, &job("3")).await.unwrap();

    until(|| log(&directory).iter().any(|line| line == "begin 4")).await;
    std::fs::write(&go, "").unwrap();
    let event = tokio::time::timeout(LIMIT, events.next()).await.unwrap().unwrap();
    assert!(matches!(event, Event::Progress(_)));
    let outcomes = outcomes(&controller, "a", &["1", "2", "3", "4"]).await;
    assert_eq!(ids(&outcomes), ["1", "2", "3", "4"]);
    for outcome in &outcomes {
        assert_eq!(outcome.result.as_ref().unwrap()["host"], outcome.id.as_str());
        assert_eq!((outcome.exit_code, outcome.error.as_ref()), (Some(0), None));
        assert!(outcome.started_unix_ns < outcome.ended_unix_ns);
    }
    let mut log = log(&directory);
    assert!(log.iter().position(|line| line == "begin 4") < log.iter().position(|l| l == "end 1"));
    log.retain(|line| !line.ends_with('4'));
    assert_eq!(log, ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]);
    assert_eq!(controller.outcomes().await.unwrap().len(), 4);
}

#[tokio::test]
async fn agents_are_listed_and_chosen() {
    let Some(server) = Server::start("agents_are_listed_and_chosen", &["a", "b"]) else { return };
    let controller = server.controller().await;
    assert_eq!(controller.agents().await.unwrap(), []);
    let directory = server.directory.path();
    let (one, two) = (
        Agent::start(&server, "a", script(directory, "")),
        Agent::start(&server, "b", script(directory, "")),
    );
    let end = Instant::now() + LIMIT;
    let agents = loop {
        let agents = controller.agents().await.unwrap();
        if agents.iter().filter(|agent| agent.is_here()).count() == 2 {
            break agents;
        }
        assert!(Instant::now() < end, "{agents:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(agents[0].facts.resources, [HOST_RESOURCE, PROBES_RESOURCE]);
    let selector: Selector = "site=paris".parse().unwrap();
    assert_eq!(selector.choose(&agents, "1").unwrap().len(), 2);
    one.stop().await;
    two.stop().await;
    let left = controller.agents().await.unwrap();
    assert!(left.iter().all(|agent| agent.has_stopped && !agent.is_here()));
    controller.forget(&"a".parse().unwrap()).await.unwrap();
    assert_eq!(controller.agents().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_killed_server_loses_and_doubles_nothing() {
    let Some((mut server, controller, directory)) =
        up("a_killed_server_loses_and_doubles_nothing").await
    else {
        return;
    };
    let _agent = Agent::start(&server, "a", script(&directory, &logging(&directory, "1")));
    submit(&controller, "a", &["1", "2"]).await;
    until(|| log(&directory) == ["begin 1"]).await;
    server.kill();
    // The first job ends without a server.
    until(|| directory.join("outbox-a/1.json").exists()).await;
    server.run();
    let outcomes = outcomes(&controller, "a", &["1", "2"]).await;
    assert_eq!(ids(&outcomes), ["1", "2"]);
    until(|| !directory.join("outbox-a/1.json").exists()).await;
    assert_eq!(log(&directory), ["begin 1", "end 1", "begin 2", "end 2"]);
    assert_eq!(controller.outcomes().await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_agent_that_is_killed_continues() {
    let Some((mut server, controller, directory)) = up("an_agent_that_is_killed_continues").await
    else {
        return;
    };
    let program = script(&directory, &logging(&directory, "0.3"));
    let agent = Agent::start(&server, "a", program.clone());
    submit(&controller, "a", &["1", "2"]).await;
    until(|| !log(&directory).is_empty()).await;
    server.kill();
    // Killed with an outcome that NATS does not have, and with a job that waits.
    until(|| directory.join("outbox-a/1.json").exists()).await;
    drop(agent);
    server.run();
    server.reached().await;
    let _agent = Agent::start(&server, "a", program);
    let outcomes = outcomes(&controller, "a", &["1", "2"]).await;
    assert_eq!(ids(&outcomes), ["1", "2"]);
    // The first was not run again.
    let begun = log(&directory).iter().filter(|line| *line == "begin 1").count();
    assert_eq!(begun, 1);
    until(|| !directory.join("outbox-a/1.json").exists()).await;
    assert_eq!(controller.outcomes().await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_agent_that_stops_gives_jobs_back() {
    let Some((server, controller, directory)) = up("an_agent_that_stops_gives_jobs_back").await
    else {
        return;
    };
    // Ends when it is asked to.
    let body = logging(&directory, "0.1") + "\n[ $host = 1 ] && read -r command\n";
    let program = script(&directory, &body);
    let agent = Agent::start(&server, "a", program.clone());
    submit(&controller, "a", &["1", "2"]).await;
    until(|| log(&directory) == ["begin 1", "end 1"]).await;
    agent.stop().await;
    let first = outcomes(&controller, "a", &["1"]).await;
    assert_eq!(first[0].exit_code, Some(0));
    assert_eq!(controller.outcomes().await.unwrap().len(), 1);
    let _agent = Agent::start(&server, "a", program);
    assert_eq!(ids(&outcomes(&controller, "a", &["1", "2"]).await), ["1", "2"]);
}

#[tokio::test]
async fn jobs_are_stopped_and_refused() {
    let Some((server, controller, directory)) = up("jobs_are_stopped_and_refused").await else {
        return;
    };
    let body = logging(&directory, "0.1") + "\nread -r command\n";
    let _agent = Agent::start(&server, "a", script(&directory, &body));
    let name = "a".parse().unwrap();
    submit(&controller, "a", &["1", "2"]).await;
    until(|| log(&directory) == ["begin 1", "end 1"]).await;
    // The second is stopped while it waits, the first while it runs; the third runs for longer than it may.
    for id in ["2", "1"] {
        controller.stop(&name, &id.parse().unwrap()).await.unwrap();
    }
    let late = weir_fleet::Submission { longest_seconds: 1, ..job("3") };
    controller.submit(&name, &late).await.unwrap();
    let demo = Job::Demo(DemoJob::default());
    let other = weir_fleet::Submission { work: weir_fleet::Work::Job(Box::new(demo)), ..job("4") };
    controller.submit(&name, &other).await.unwrap();
    let mut outcomes = outcomes(&controller, "a", &["1", "2", "3", "4"]).await;
    outcomes.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(outcomes[0].exit_code, Some(0));
    assert_eq!(outcomes[1].error.as_ref().unwrap().code, "stopped");
    assert_eq!(outcomes[1].started_unix_ns, None);
    assert_eq!(outcomes[2].warnings.len(), 1);
    assert_eq!(outcomes[3].error.as_ref().unwrap().given.as_deref(), Some("demo"));
    assert_eq!(log(&directory).last().unwrap(), "end 3");
}

#[tokio::test]
async fn a_job_that_fails_says_why() {
    let Some((server, controller, directory)) = up("a_job_that_fails_says_why").await else {
        return;
    };
    let _agent = Agent::start(&server, "a", script(&directory, "echo broken >&2; exit 7"));
    submit(&controller, "a", &["1"]).await;
    let outcomes = outcomes(&controller, "a", &["1"]).await;
    let error = outcomes[0].error.as_ref().unwrap();
    assert_eq!((outcomes[0].exit_code, error.exit_code), (Some(7), 7));
    assert!(error.message.contains("broken"));
}

#[tokio::test]
async fn an_outcome_of_many_parts_arrives_whole() {
    let Some((server, controller, directory)) = up("an_outcome_of_many_parts_arrives_whole").await
    else {
        return;
    };
    let body = r#"data=$(head -c 3000000 /dev/urandom | base64 -w 0)
echo '{"event":"result","data":{"bytes":"'$data'"}}'"#;
    let _agent = Agent::start(&server, "a", script(&directory, body));
    submit(&controller, "a", &["1"]).await;
    let outcomes = outcomes(&controller, "a", &["1"]).await;
    let bytes = outcomes[0].result.as_ref().unwrap()["bytes"].as_str().unwrap().len();
    assert_eq!(bytes, 4_000_000);
}

#[tokio::test]
async fn an_outcome_that_is_sent_again_exists_once() {
    let Some((server, controller, directory)) =
        up("an_outcome_that_is_sent_again_exists_once").await
    else {
        return;
    };
    let program = script(&directory, &logging(&directory, "0.1"));
    let agent = Agent::start(&server, "a", program.clone());
    submit(&controller, "a", &["1"]).await;
    let first = outcomes(&controller, "a", &["1"]).await;
    let stored = directory.join("outbox-a/1.json");
    until(|| !stored.exists()).await;
    agent.stop().await;
    // As if the agent had been killed before it removed the file.
    std::fs::write(&stored, serde_json::to_vec(&first[0]).unwrap()).unwrap();
    let _agent = Agent::start(&server, "a", program);
    submit(&controller, "a", &["2"]).await;
    outcomes(&controller, "a", &["2"]).await;
    assert_eq!(ids(&controller.outcomes().await.unwrap()), ["1", "2"]);
}

#[tokio::test]
async fn a_job_that_is_withdrawn_does_not_run() {
    let Some((server, controller, directory)) = up("a_job_that_is_withdrawn_does_not_run").await
    else {
        return;
    };
    let name = "a".parse().unwrap();
    let first = controller.submit(&name, &job("1")).await.unwrap();
    submit(&controller, "a", &["2"]).await;
    controller.withdraw(&first).await.unwrap();
    assert!(controller.withdraw(&first).await.is_err());
    let _agent = Agent::start(&server, "a", script(&directory, &logging(&directory, "0.1")));
    outcomes(&controller, "a", &["2"]).await;
    assert_eq!(log(&directory), ["begin 2", "end 2"]);
}

#[tokio::test]
async fn probes_run_at_the_same_time_and_have_no_record() {
    let Some((server, controller, directory)) =
        up("probes_run_at_the_same_time_and_have_no_record").await
    else {
        return;
    };
    let body =
        logging(&directory, "0.1") + "\necho '{\"event\":\"end\",\"data\":{}}'\nread -r command\n";
    let _agent = Agent::start(&server, "a", script(&directory, &body));
    let name = "a".parse().unwrap();
    submit(&controller, "a", &["0"]).await;
    for id in ["1", "2"] {
        let resource = PROBES_RESOURCE.parse().unwrap();
        let probes = weir_fleet::Submission { resource, without_record: true, ..job(id) };
        controller.submit(&name, &probes).await.unwrap();
    }
    let mut arriving = controller.outcomes_from_now().await.unwrap();
    // All are at their end and wait to be stopped.
    until(|| log(&directory).iter().filter(|line| line.starts_with("end")).count() == 3).await;
    for id in ["0", "1", "2"] {
        controller.stop(&name, &id.parse().unwrap()).await.unwrap();
        let next = tokio::time::timeout(LIMIT, arriving.next()).await;
        let outcome = next.expect("an outcome is missing").unwrap();
        assert_eq!((outcome.id.as_str(), outcome.record.is_some()), (id, id == "0"));
    }
}
