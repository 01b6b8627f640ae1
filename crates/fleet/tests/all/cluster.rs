//! A cluster of three servers, of which one is killed.

use std::time::{Duration, Instant};

use weir_fleet::JOBS;

use crate::agent::{ids, log, logging, until};
use crate::server::{Agent, LIMIT, Server, job, options, outcomes, script};

#[tokio::test]
async fn a_cluster_without_one_server_loses_and_doubles_nothing() {
    let test = "a_cluster_without_one_server_loses_and_doubles_nothing";
    let Some(mut servers) = Server::cluster(test, &["a"], 3) else { return };
    let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
    let mut connection = servers[0].controller_connection();
    connection.url = urls.join(",");
    let controller = Server::controller_of(&connection, 3).await;
    let directory = servers[0].directory.path().to_owned();
    let mut connection = servers[0].agent_connection("a");
    connection.url = urls.join(",");
    let program = script(&directory, &logging(&directory, "0.3"));
    let _agent = Agent::run(options(connection, "a", directory.join("outbox-a"), program));
    let submit = async |id: &str| {
        let end = Instant::now() + LIMIT;
        // Until the cluster has a leader again. The job is accepted once.
        while let Err(error) = controller.submit(&"a".parse().unwrap(), &job(id)).await {
            assert!(Instant::now() < end, "{error}");
        }
    };
    for id in ["1", "2", "3"] {
        submit(id).await;
    }
    until(|| log(&directory).contains(&"begin 1".to_owned())).await;

    // The one that leads the stream of jobs.
    let stream = servers[1].jetstream().await.get_stream(JOBS).await.unwrap();
    let cluster = stream.cached_info().cluster.clone().unwrap();
    assert_eq!(cluster.replicas.len(), 2);
    let leader = cluster.leader.unwrap();
    let at = servers.iter().position(|server| server.name() == leader).unwrap();
    servers[at].kill();
    submit("4").await;
    let jobs = ["1", "2", "3", "4"];
    let outcomes = outcomes(&controller, "a", &jobs).await;
    assert_eq!(ids(&outcomes), jobs);
    assert!(outcomes.iter().all(|outcome| outcome.starts == 1 && outcome.error.is_none()));
    // All are read again, by requests to the two that are left.
    let end = Instant::now() + LIMIT;
    loop {
        match controller.outcomes().await {
            Ok(all) => break assert_eq!(ids(&all), jobs),
            Err(error) if Instant::now() > end => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
