//! Agents and controllers that are killed.

use crate::agent::{ids, log, logging, submit, until};
use crate::process::Process;
use crate::server::{Agent, Server, outcomes, script};

#[tokio::test]
async fn a_controller_that_is_killed_in_any_phase_locks_nothing() {
    let test = "a_controller_that_is_killed_in_any_phase_locks_nothing";
    let Some(server) = Server::start(test, &["a"]) else { return };
    let controller = server.controller().await;
    let directory = server.directory.path().to_owned();
    let program = script(&directory, &logging(&directory, "0.2"));
    let _agent = Process::agent(&server, "a", &program);

    // Before it submits.
    Process::controller(&server).kill();
    // While it submits: the job is in its queue, or not.
    let mut one = Process::controller(&server);
    one.command("submit during");
    one.kill();
    // After it submitted.
    let mut one = Process::controller(&server);
    one.command("submit after");
    one.prints("done after");
    one.kill();
    // While it waits for the outcome.
    let mut one = Process::controller(&server);
    one.command("submit waiting");
    one.command("wait waiting");
    one.prints("waiting waiting");
    one.kill();
    // With the outcome.
    let mut one = Process::controller(&server);
    one.command("submit with");
    one.command("wait with");
    one.prints("waiting with");
    one.prints("done with");
    one.kill();

    submit(&controller, "a", &["last"]).await;
    outcomes(&controller, "a", &["last"]).await;
    let all = controller.outcomes().await.unwrap();
    let mut ids = ids(&all);
    ids.retain(|id| *id != "during");
    assert_eq!(ids, ["after", "last", "waiting", "with"]);
    // Each job ran once, in order.
    let begun: Vec<String> =
        log(&directory).into_iter().filter(|line| line.starts_with("begin")).collect();
    assert_eq!(begun.len(), all.len());
    assert!(all.iter().all(|outcome| outcome.error.is_none() && outcome.starts == 1));
}

#[tokio::test]
async fn a_job_that_ends_its_agent_is_given_up() {
    let test = "a_job_that_ends_its_agent_is_given_up";
    let Some(server) = Server::start(test, &["a"]) else { return };
    let controller = server.controller().await;
    let directory = server.directory.path().to_owned();
    // The first job runs until its agent ends.
    let body = logging(&directory, "0.1").replace("sleep 0.1", "[ $host = 1 ] && read -r command");
    let program = script(&directory, &body);
    submit(&controller, "a", &["1", "2"]).await;
    for start in 1..=5 {
        let agent = Process::agent(&server, "a", &program);
        until(|| log(&directory).iter().filter(|line| *line == "begin 1").count() == start).await;
        agent.kill();
    }
    let _agent = Process::agent(&server, "a", &program);
    let mut outcomes = outcomes(&controller, "a", &["1", "2"]).await;
    outcomes.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!((outcomes[0].starts, outcomes[1].starts), (5, 1));
    assert_eq!(outcomes[0].error.as_ref().unwrap().code, "agent");
    assert_eq!(outcomes[1].error, None);
    until(|| std::fs::read_dir(directory.join("outbox-a")).unwrap().next().is_none()).await;
    assert_eq!(controller.outcomes().await.unwrap().len(), 2);
}

/// The order in which jobs began.
fn begun(directory: &std::path::Path) -> Vec<String> {
    let log = log(directory).into_iter();
    log.filter_map(|line| line.strip_prefix("begin ").map(str::to_owned)).collect()
}

const MANY: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

#[tokio::test]
async fn an_agent_that_stops_keeps_the_order() {
    let test = "an_agent_that_stops_keeps_the_order";
    let Some(server) = Server::start(test, &["a"]) else { return };
    let controller = server.controller().await;
    let directory = server.directory.path().to_owned();
    let program = script(&directory, &logging(&directory, "0.1"));
    submit(&controller, "a", &MANY).await;
    // Several agents, one after the other, each of which is stopped while jobs wait.
    for count in [1, 3, 6] {
        let agent = Agent::start(&server, "a", program.clone());
        until(|| begun(&directory).len() >= count).await;
        agent.stop().await;
    }
    let _agent = Agent::start(&server, "a", program);
    outcomes(&controller, "a", &MANY).await;
    assert_eq!(begun(&directory), MANY);
    assert_eq!(controller.outcomes().await.unwrap().len(), MANY.len());
}

#[tokio::test]
async fn an_agent_that_is_killed_keeps_the_order() {
    let test = "an_agent_that_is_killed_keeps_the_order";
    let Some(server) = Server::start(test, &["a"]) else { return };
    let controller = server.controller().await;
    let directory = server.directory.path().to_owned();
    let program = script(&directory, &logging(&directory, "0.1"));
    let (first, rest) = MANY.split_at(6);
    submit(&controller, "a", first).await;
    let agent = Process::agent(&server, "a", &program);
    until(|| begun(&directory).len() >= 3).await;
    agent.kill();
    // These were not delivered to the killed one, and are there before those that were.
    submit(&controller, "a", rest).await;
    let _agent = Process::agent(&server, "a", &program);
    outcomes(&controller, "a", &MANY).await;
    // The one that ran may have run twice.
    let mut begun = begun(&directory);
    begun.dedup();
    assert_eq!(begun, MANY);
    assert_eq!(controller.outcomes().await.unwrap().len(), MANY.len());
}
