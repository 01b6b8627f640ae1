//! An agent that can't reach the server, and deliveries that come more than once.

use std::time::{Duration, Instant};

use weir_fleet::JOBS;

use crate::agent::{ids, log, logging, submit, until};
use crate::proxy::Proxy;
use crate::server::{Agent, LIMIT, Server, options, outcomes, script};

#[tokio::test]
async fn a_partitioned_agent_loses_and_doubles_nothing() {
    let test = "a_partitioned_agent_loses_and_doubles_nothing";
    let Some(server) = Server::start(test, &["a"]) else { return };
    let controller = server.controller().await;
    let directory = server.directory.path().to_owned();
    let proxy = Proxy::start(server.port).await;
    let mut connection = server.agent_connection("a");
    connection.url = proxy.url();
    // The first job ends when the test says so.
    let body = logging(&directory, "0.1").replace(
        "sleep 0.1",
        &format!("[ $host = 1 ] && until [ -e '{}/go' ]; do sleep 0.05; done", directory.display()),
    );
    let outbox = directory.join("outbox-a");
    let _agent = Agent::run(options(connection, "a", outbox.clone(), script(&directory, &body)));
    submit(&controller, "a", &["1", "2", "3"]).await;
    until(|| log(&directory) == ["begin 1"]).await;
    proxy.cut();
    submit(&controller, "a", &["4"]).await;
    // The agent gives the connection up, and then a second one, for which the server would deliver jobs again.
    until(|| proxy.connections() >= 3).await;
    std::fs::write(directory.join("go"), "").unwrap();
    // Its queue goes on meanwhile.
    until(|| ["1", "2", "3"].iter().all(|id| outbox.join(format!("{id}.json")).exists())).await;
    proxy.heal();

    let outcomes = outcomes(&controller, "a", &["1", "2", "3", "4"]).await;
    assert_eq!(ids(&outcomes), ["1", "2", "3", "4"]);
    // Jobs that were delivered again were not started again.
    assert!(outcomes.iter().all(|outcome| outcome.starts == 1 && outcome.error.is_none()));
    let jobs = ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3", "begin 4", "end 4"];
    assert_eq!(log(&directory), jobs);
    until(|| std::fs::read_dir(&outbox).unwrap().next().is_none()).await;
    assert_eq!(controller.outcomes().await.unwrap().len(), 4);
}

#[tokio::test]
async fn deliveries_are_no_starts() {
    let test = "deliveries_are_no_starts";
    let Some(server) = Server::start(test, &["a"]) else { return };
    let controller = server.controller().await;
    let directory = server.directory.path().to_owned();
    let body = logging(&directory, "0.1").replace(
        "sleep 0.1",
        &format!("until [ -e '{}/go' ]; do sleep 0.05; done", directory.display()),
    );
    let program = script(&directory, &body);
    let (connection, outbox) = (server.agent_connection("a"), directory.join("outbox-a"));
    let mut options = options(connection, "a", outbox, program.clone());
    // It renews no job, so the server delivers all again and again.
    options.timing.ack_wait = Duration::from_millis(300);
    options.timing.renewal = Duration::from_secs(3600);
    let agent = Agent::run(options);
    submit(&controller, "a", &["1", "2"]).await;
    until(|| log(&directory) == ["begin 1"]).await;
    let stream = server.jetstream().await.get_stream(JOBS).await.unwrap();
    let end = Instant::now() + LIMIT;
    while stream.consumer_info("a").await.unwrap().delivered.consumer_sequence < 20 {
        assert!(Instant::now() < end, "jobs are not delivered again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // None of these deliveries started a job.
    assert_eq!(log(&directory), ["begin 1"]);

    // The next process of the agent starts the first for the second time, and the other one for the first.
    drop(agent);
    let _agent = Agent::start(&server, "a", program);
    until(|| log(&directory) == ["begin 1", "begin 1"]).await;
    std::fs::write(directory.join("go"), "").unwrap();
    let mut outcomes = outcomes(&controller, "a", &["1", "2"]).await;
    outcomes.sort_by(|a, b| a.id.cmp(&b.id));
    assert!(outcomes.iter().all(|outcome| outcome.error.is_none()));
    assert_eq!((outcomes[0].starts, outcomes[1].starts), (2, 1));
    assert_eq!(log(&directory).iter().filter(|line| *line == "begin 2").count(), 1);
    assert_eq!(controller.outcomes().await.unwrap().len(), 2);
}
