//! An agent whose clock is stepped.

use weir_fleet::Submission;
use weir_net::clock::InjectedClock;

use crate::agent::{ids, log, logging, until};
use crate::server::{Agent, Server, job, options, outcomes, script};

const HOUR_NS: i64 = 3_600_000_000_000;

#[tokio::test]
async fn a_stepped_clock_loses_and_doubles_nothing() {
    let test = "a_stepped_clock_loses_and_doubles_nothing";
    let Some(server) = Server::start(test, &["a"]) else { return };
    let controller = server.controller().await;
    let directory = server.directory.path().to_owned();
    // The job that the agent gave its process is the result.
    let body = logging(&directory, "0.1")
        .replace(
            "sleep 0.1",
            &format!("until [ -e '{}/go-'$host ]; do sleep 0.05; done", directory.display()),
        )
        .replace("{\"host\":\"'$host'\"}", "'\"$job\"'");
    let (connection, outbox) = (server.agent_connection("a"), directory.join("outbox-a"));
    let mut options = options(connection, "a", outbox, script(&directory, &body));
    let injected = InjectedClock::new();
    let clock = injected.clock();
    options.clock = clock.clone();
    let _agent = Agent::run(options);

    let name = "a".parse().unwrap();
    // The clock is stepped while each job runs; the next one has a start instant by the stepped clock.
    let mut instants = vec![];
    for (id, step) in [("1", HOUR_NS), ("2", -2 * HOUR_NS), ("3", HOUR_NS), ("4", 0)] {
        let start_at = clock.realtime_ns() + 1_000_000_000;
        let submission = Submission { start_at_unix_ns: Some(start_at), ..job(id) };
        controller.submit(&name, &submission).await.unwrap();
        let begin = format!("begin {id}");
        until(|| log(&directory).contains(&begin)).await;
        instants.push((start_at, clock.bracket().realtime_minus_monotonic()));
        injected.step_realtime_ns(step);
        std::fs::write(directory.join(format!("go-{id}")), "").unwrap();
    }
    let mut outcomes = outcomes(&controller, "a", &["1", "2", "3", "4"]).await;
    assert_eq!(ids(&outcomes), ["1", "2", "3", "4"]);
    outcomes.sort_by(|a, b| a.id.cmp(&b.id));
    for (outcome, (start_at, offset)) in outcomes.iter().zip(instants) {
        let start_at_ns = outcome.result.as_ref().unwrap()["start_at_ns"].as_u64().unwrap();
        let expected = start_at.wrapping_sub(offset as u64);
        assert!(start_at_ns.abs_diff(expected) < 10_000_000_000, "{start_at_ns} {expected}");
        assert_eq!((outcome.starts, outcome.error.as_ref()), (1, None));
    }
    assert_eq!(controller.outcomes().await.unwrap().len(), 4);
}
