//! What an agent's key lets it do: what an agent needs, and nothing of another agent.

use async_nats::{Client, ConnectOptions, Event};
use tokio::sync::mpsc;
use weir_fleet::{AGENTS, JOBS, OUTCOMES};

use crate::server::{Agent, LIMIT, Server, job, script};

/// A client with an agent's key, and what the server denies it.
async fn client(
    server: &Server,
    name: &str,
) -> Result<(Client, mpsc::UnboundedReceiver<String>), String> {
    let (sender, denied) = mpsc::unbounded_channel();
    let options = ConnectOptions::with_nkey(server.seed(name))
        .custom_inbox_prefix(format!("_INBOX.{name}"))
        .request_timeout(Some(LIMIT))
        .event_callback(move |event| {
            let sender = sender.clone();
            async move {
                if let Event::ServerError(error) = event {
                    let _ = sender.send(error.to_string().to_lowercase());
                }
            }
        });
    let client = options.connect(&server.url).await.map_err(|error| error.to_string())?;
    Ok((client, denied))
}

/// Waits until the server says that it denies `what`.
async fn denies(denied: &mut mpsc::UnboundedReceiver<String>, what: &str) {
    let what = what.to_lowercase();
    let waiting = async { while !denied.recv().await.unwrap().contains(&what) {} };
    tokio::time::timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("allowed: {what}"));
}

#[tokio::test]
async fn an_agent_reaches_nothing_of_another() {
    let test = "an_agent_reaches_nothing_of_another";
    let Some(server) = Server::start(test, &["a", "b"]) else { return };
    let controller = server.controller().await;
    let _agent = Agent::start(&server, "a", script(server.directory.path(), "sleep 0.1"));
    controller.submit(&"b".parse().unwrap(), &job("1")).await.unwrap();
    let (a, mut denied) = client(&server, "a").await.unwrap();

    // Reads: jobs of the other, its requests, replies to it, events, the bucket.
    for subject in ["weir.request.b", "_INBOX.b.>", "weir.event.>", "weir.job.>", "$KV.>", ">"] {
        let _taken = a.subscribe(subject).await.unwrap();
        denies(&mut denied, &format!("subscription to \"{subject}\"")).await;
    }

    // Writes, and requests to JetStream: of streams, of the bucket, of consumers.
    let create = format!("$JS.API.CONSUMER.CREATE.{JOBS}");
    for subject in [
        "weir.outcome.b.1.0",
        "weir.event.b.1",
        "weir.job.a.host",
        "weir.request.b",
        "weir.notice.b",
        "_INBOX.controller.1",
        "$KV.weir-agents.facts.b",
        "$KV.weir-agents.seen.b",
        &format!("$JS.API.STREAM.INFO.{JOBS}"),
        &format!("$JS.API.STREAM.INFO.KV_{AGENTS}"),
        &format!("$JS.API.STREAM.MSG.GET.{OUTCOMES}"),
        &format!("$JS.API.DIRECT.GET.{OUTCOMES}"),
        &format!("$JS.API.STREAM.DELETE.{JOBS}"),
        &format!("$JS.API.STREAM.PURGE.{OUTCOMES}"),
        &format!("$JS.API.CONSUMER.DELETE.{JOBS}.b"),
        &format!("$JS.API.CONSUMER.MSG.NEXT.{JOBS}.b"),
        &format!("$JS.API.CONSUMER.CREATE.{OUTCOMES}.a.weir.outcome.a.*"),
        &format!("{create}.a"),
        &format!("{create}.a.weir.job.b.*"),
        &format!("{create}.a.weir.job.*.*"),
        &format!("{create}.b.weir.job.b.*"),
        &format!("{create}.b.weir.job.a.*"),
        &format!("$JS.ACK.{JOBS}.b.1.1.1.1.0"),
    ] {
        a.publish(subject.to_owned(), "{}".into()).await.unwrap();
        denies(&mut denied, &format!("publish to \"{subject}\"")).await;
    }
    // Its own subject, with another filter in the request.
    let request = serde_json::json!({ "stream_name": JOBS, "config": {
        "name": "a", "durable_name": "a", "filter_subject": "weir.job.b.*", "ack_policy": "explicit",
    } });
    let subject = format!("$JS.API.CONSUMER.CREATE.{JOBS}.a.weir.job.a.*");
    let reply = a.request(subject, request.to_string().into()).await.unwrap();
    let reply: serde_json::Value = serde_json::from_slice(&reply.payload).unwrap();
    assert!(reply["error"].is_object(), "{reply}");

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
    assert!(client(&server, "a").await.is_ok());
    server.configure(|_| false);
    server.kill();
    server.run();
    let _controller = server.controller().await;
    assert!(client(&server, "a").await.is_err());
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
    let (a, _denied) = client(&server, "a").await.unwrap();
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
