//! `make bench-fleet`: what a fleet of 300 agents costs. The agents are those of this crate, in one process; their jobs are
//! processes that end immediately.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use weir_fleet::{AgentOptions, Connection, Controller, OUTCOMES, Timing};

use crate::proxy::Proxy;
use crate::server::{Agent, LIMIT, Server, job, options};

const AGENTS: usize = 300;
const RESULTS: usize = 3000;
/// Without jobs.
const IDLE: Duration = Duration::from_secs(60);

fn name(at: usize) -> String {
    format!("agent-{at}")
}

/// Agents, how many of them take jobs, and how many jobs they have started.
struct Fleet {
    agents: Vec<Agent>,
    ready: Arc<AtomicUsize>,
    started: Arc<AtomicUsize>,
}

impl Fleet {
    fn start(server: &Server, url: &str) -> Fleet {
        let (ready, started) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let agent = |at: usize| {
            let name = name(at);
            let connection = Connection { url: url.into(), ..server.agent_connection(&name) };
            let outbox = server.directory.path().join(format!("outbox-{name}"));
            let (ready, started) = (ready.clone(), started.clone());
            Agent::run(AgentOptions {
                program: Box::new(move || {
                    started.fetch_add(1, Ordering::Relaxed);
                    Command::new("/bin/true")
                }),
                notice: Arc::new(move |code, text| match code {
                    "ready" => {
                        ready.fetch_add(1, Ordering::Relaxed);
                    }
                    _ => eprintln!("{code}: {text}"),
                }),
                timing: Timing::default(),
                ..options(connection, &name, outbox, "/bin/true".into())
            })
        };
        let agents = (0..AGENTS).map(agent).collect();
        Fleet { agents, ready, started }
    }

    async fn stop(self) {
        join_all(self.agents.into_iter().map(Agent::stop)).await;
    }
}

async fn until(count: &AtomicUsize, wanted: usize) {
    let end = Instant::now() + LIMIT;
    while count.load(Ordering::Relaxed) < wanted {
        assert!(Instant::now() < end, "{} of {wanted}", count.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until the stream of outcomes has this many messages.
async fn stored(server: &Server, wanted: u64) {
    let mut stream = server.jetstream().await.get_stream(OUTCOMES).await.unwrap();
    let end = Instant::now() + LIMIT;
    while stream.info().await.unwrap().state.messages < wanted {
        assert!(Instant::now() < end, "outcomes are missing");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn print(what: &str, figure: f64, unit: &str, bar: Option<f64>) {
    let verdict = match bar {
        Some(bar) if figure <= bar => format!("bar {bar} {unit}: met"),
        Some(bar) => format!("bar {bar} {unit}: MISSED"),
        None => String::new(),
    };
    println!("{what:<62} {figure:>8.3} {unit:<7} {verdict}");
}

/// Leaves results in the agents' outboxes, as if an earlier process had had no server.
fn leave_results(directory: &Path) {
    // As long as the record of a short test.
    let record = json!({ "intervals": vec![[0.123_456_789, 9_876_543.21, 0.000_123]; 40] });
    for at in 0..RESULTS {
        let (agent, id) = (name(at % AGENTS), format!("result-{at}"));
        let outcome =
            json!({ "id": id, "agent": agent, "kind": "test", "starts": 1, "record": record });
        let path = directory.join(format!("outbox-{agent}/{id}.json"));
        std::fs::write(path, outcome.to_string()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a benchmark: make bench-fleet"]
async fn benchmark() {
    let names: Vec<String> = (0..AGENTS).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(server) = Server::start("bench-fleet", &names) else { return };
    let controller = server.controller().await;

    let begin = Instant::now();
    let fleet = Fleet::start(&server, &server.url);
    until(&fleet.ready, AGENTS).await;
    print("registration of 300 agents", begin.elapsed().as_secs_f64(), "s", Some(1.0));
    let begin = Instant::now();
    let listed = controller.agents().await.unwrap();
    assert_eq!(listed.iter().filter(|agent| agent.is_here()).count(), AGENTS);
    print("list of the agents", begin.elapsed().as_secs_f64(), "s", None);

    let begin = Instant::now();
    submit_to_all(&controller).await;
    print("  a job for each submitted", begin.elapsed().as_secs_f64(), "s", None);
    until(&fleet.started, AGENTS).await;
    print("fan-out: a job started at each", begin.elapsed().as_secs_f64(), "s", Some(0.5));
    stored(&server, AGENTS as u64).await;
    print("  its outcomes stored by NATS", begin.elapsed().as_secs_f64(), "s", None);
    fleet.stop().await;

    leave_results(server.directory.path());
    let begin = Instant::now();
    let proxy = Proxy::start(server.port).await;
    let fleet = Fleet::start(&server, &proxy.url());
    stored(&server, (AGENTS + RESULTS) as u64).await;
    print("  3000 results sent by agents that start", begin.elapsed().as_secs_f64(), "s", None);
    let begin = Instant::now();
    let outcomes = controller.outcomes().await.unwrap();
    let seconds = begin.elapsed().as_secs_f64() * RESULTS as f64 / outcomes.len() as f64;
    assert_eq!(outcomes.len(), AGENTS + RESULTS);
    print("3000 results collected by a controller", seconds, "s", Some(2.0));

    until(&fleet.ready, AGENTS).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = proxy.bytes();
    tokio::time::sleep(IDLE).await;
    let bits = (proxy.bytes() - before) as f64 * 8.0 / IDLE.as_secs_f64() / AGENTS as f64;
    print(
        "idle traffic of an agent, both directions, bytes of TCP",
        bits / 1e3,
        "kbit/s",
        Some(1.0),
    );
    fleet.stop().await;
}

async fn submit_to_all(controller: &Controller) {
    let submitting = (0..AGENTS).map(async |at| {
        let agent = name(at).parse().unwrap();
        controller.submit(&agent, &job(&format!("job-{at}"))).await.unwrap();
    });
    join_all(submitting).await;
}
