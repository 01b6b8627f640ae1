//! What an agent's key lets it do: what an agent needs, and nothing of another agent.

use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt;
use weir_fleet::{AGENTS, JOBS, OUTCOMES};

use crate::server::{Agent, LIMIT, Server, job, script};

async fn client(server: &Server, name: &str, inbox: &str) -> Result<Client, String> {
    let options = ConnectOptions::with_nkey(server.seed(name))
        .custom_inbox_prefix(format!("_INBOX.{inbox}"))
        .request_timeout(Some(Duration::from_millis(500)));
    options.connect(&server.url).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn an_agent_reaches_nothing_of_another() {
    let test = "an_agent_reaches_nothing_of_another";
    let Some(server) = Server::start(test, &["a", "b"]) else { return };
    let controller = server.controller().await;
    let _agent = Agent::start(&server, "a", script(server.directory.path(), "sleep 0.1"));
    controller.submit(&"b".parse().unwrap(), &job("1")).await.unwrap();
    let a = client(&server, "a", "a").await.unwrap();
    let mut jetstream = async_nats::jetstream::new(a.clone());
    // What is not allowed gets no answer.
    jetstream.set_timeout(Duration::from_secs(1));

    // Reads: streams, the bucket, jobs of the other, its replies, its requests, events.
    assert!(jetstream.get_stream(JOBS).await.is_err());
    assert!(jetstream.get_key_value(AGENTS).await.is_err());
    for subject in ["weir.request.b", "_INBOX.b.>", "weir.event.>", "weir.job.>", "$KV.>", ">"] {
        let mut taken = a.subscribe(subject).await.unwrap();
        a.flush().await.unwrap();
        // The server ends a subscription that it does not allow without a message.
        let next = tokio::time::timeout(Duration::from_millis(200), taken.next()).await;
        assert!(!matches!(next, Ok(Some(_))), "{subject}");
    }
    for (stream, name, filter) in [
        (JOBS, "a", "weir.job.b.*"),
        (JOBS, "a", "weir.job.>"),
        (JOBS, "b", "weir.job.b.*"),
        (JOBS, "b", "weir.job.a.*"),
        (OUTCOMES, "a", "weir.outcome.>"),
    ] {
        let config = pull::Config {
            durable_name: Some(name.into()),
            filter_subject: filter.into(),
            ..pull::Config::default()
        };
        let made = jetstream.create_consumer_on_stream(config, stream).await;
        assert!(made.is_err(), "{stream} {name} {filter}");
    }
    // Its own subject, with another filter in the request.
    let request = serde_json::json!({ "stream_name": JOBS, "config": {
        "name": "a", "durable_name": "a", "filter_subject": "weir.job.b.*", "ack_policy": "explicit",
    } });
    let subject = format!("$JS.API.CONSUMER.CREATE.{JOBS}.a.weir.job.a.*");
    let reply = a.request(subject, request.to_string().into()).await.unwrap();
    let reply: serde_json::Value = serde_json::from_slice(&reply.payload).unwrap();
    assert!(reply["error"].is_object(), "{reply}");

    // Writes.
    for subject in [
        "weir.outcome.b.1.0",
        "weir.event.b.1",
        "weir.job.a.host",
        "weir.request.b",
        "$KV.weir-agents.facts.b",
        "$KV.weir-agents.seen.b",
        "$JS.API.STREAM.DELETE.weir-jobs",
        "$JS.API.STREAM.PURGE.weir-outcomes",
        "$JS.API.CONSUMER.DELETE.weir-jobs.b",
        "$JS.API.CONSUMER.MSG.NEXT.weir-jobs.b",
    ] {
        assert!(jetstream.publish(subject, "{}".into()).await.unwrap().await.is_err(), "{subject}");
    }
    assert!(controller.outcomes().await.unwrap().is_empty());
    assert!(controller.agents().await.unwrap().iter().all(|agent| agent.name.as_str() != "b"));

    // The job is there, for the one that it is for.
    let _agent = Agent::start(&server, "b", script(server.directory.path(), "sleep 0.1"));
    crate::server::outcomes(&controller, "b", &["1"]).await;
}

#[tokio::test]
async fn a_revoked_key_can_do_nothing() {
    let Some(mut server) = Server::start("a_revoked_key_can_do_nothing", &["a"]) else { return };
    let _controller = server.controller().await;
    assert!(client(&server, "a", "a").await.is_ok());
    server.configure(|_| false);
    server.kill();
    server.run();
    let _controller = server.controller().await;
    assert!(client(&server, "a", "a").await.is_err());
    let agent = Agent::start(&server, "a", script(server.directory.path(), ""));
    let ended = tokio::time::timeout(LIMIT, agent.ended()).await.unwrap();
    assert_eq!(ended.unwrap_err().refusal().exit_code, 3);
}

#[tokio::test]
async fn what_an_agent_writes_harms_no_other() {
    let test = "what_an_agent_writes_harms_no_other";
    let Some(server) = Server::start(test, &["a", "b"]) else { return };
    let controller = server.controller().await;
    let directory = server.directory.path().to_owned();
    let a = client(&server, "a", "a").await.unwrap();
    let jetstream = async_nats::jetstream::new(a);
    // An outcome of the other's job, parts of nothing, and names that are none.
    for (subject, parts) in [
        ("weir.outcome.a.1.0", Some("1")),
        ("weir.outcome.a.2.0", None),
        ("weir.outcome.a.3.x", Some("1")),
        ("weir.outcome.a.4.7", Some("3")),
        ("weir.outcome.a.5.0", Some("18446744073709551615")),
        ("weir.outcome.a.6_.0", Some("1")),
        ("weir.outcome.a.7.0", Some("2")),
    ] {
        let mut headers = async_nats::HeaderMap::new();
        if let Some(parts) = parts {
            headers.insert("Weir-Parts", parts);
        }
        let sent = jetstream.publish_with_headers(subject, headers, "x".into()).await.unwrap();
        sent.await.unwrap();
    }
    controller.submit(&"b".parse().unwrap(), &job("1")).await.unwrap();
    let _agent =
        Agent::start(&server, "b", script(&directory, "echo '{\"event\":\"result\",\"data\":1}'"));
    let own = crate::server::outcomes(&controller, "b", &["1"]).await;
    assert_eq!((own[0].agent.as_str(), own[0].error.as_ref()), ("b", None));
    let all = controller.outcomes().await.unwrap();
    let broken: Vec<&str> = all
        .iter()
        .filter(|outcome| outcome.error.as_ref().is_some_and(|error| error.code == "outcome"))
        .map(|outcome| outcome.id.as_str())
        .collect();
    assert_eq!(broken, ["1", "2", "3", "4", "5"]);
    assert!(all.iter().all(|outcome| outcome.error.is_none() || outcome.agent.as_str() == "a"));
}
