//! The queries of the Grafana dashboard (packaging/grafana) have plausible answers from a real Prometheus.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use weir_api::MeshMetrics;
use weir_model::record::Delay;
use weir_model::watch::{AgentState, BurstLine, PairFigures};

/// Only a broken test takes this long.
const LIMIT: Duration = Duration::from_secs(60);

struct Prometheus {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// A server that scrapes `target` each second; `None` after printing that the test is skipped.
    fn start(test: &str, target: std::net::SocketAddr) -> Option<Prometheus> {
        let built = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let program = built.parent().unwrap().join("tools/prometheus/usr/bin/prometheus");
        if !program.exists() {
            eprintln!("SKIPPED {test}: prometheus missing (scripts/ensure.sh test)");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\n\
             scrape_configs: [{{ job_name: weir, static_configs: [{{ targets: ['{target}'] }}] }}]\n"
        );
        std::fs::write(directory.path().join("prometheus.yml"), config).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--enable-feature=native-histograms")
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Prometheus { child, port, _directory: directory })
    }

    /// The results of a query; `None` until the server answers.
    fn query(&self, query: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        // Without chunks.
        let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let body = answer.split_once("\r\n\r\n")?.1;
        let mut value: Value = serde_json::from_str(body).ok()?;
        let is_started = answer.starts_with("HTTP/1.0 200") || !answer.contains(" 503 ");
        assert!(!is_started || value["status"] == "success", "{query}: {value}");
        Some(value["data"]["result"].take())
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Adds a second of each pair: ten probes, one lost, round trips from 16 to 24 ms.
fn add(metrics: &MeshMetrics) {
    let trips: Vec<u64> = (0..9).map(|at| 16_000_000 + 1_000_000 * at).collect();
    let figures = PairFigures {
        sent_packets: 10,
        received_packets: 9,
        lost_packets: 1,
        round_trip: Some(Delay { count: 9, mean_seconds: 0.020, ..Delay::default() }),
        forward_delay_seconds: Some(0.008),
        return_delay_seconds: Some(0.012),
        one_way_error_seconds: Some(0.001),
        ..PairFigures::default()
    };
    for to in ["b", "c"] {
        metrics.second(("a", to), now(), &figures, trips.iter().map(|trip| (*trip, 1)));
    }
}

/// The range in which the values of a panel's queries must be.
fn plausible(title: &str) -> (f64, f64) {
    match title {
        "Loss" => (0.099, 0.101),
        "Round trip, median" => (0.018, 0.022),
        "Round trip, 99th percentile" => (0.022, 0.027),
        "Round trip, mean" => (0.0199, 0.0201),
        "One-way delay" => (0.008, 0.012),
        "Bound of the error of one-way delays" => (0.001, 0.001),
        "Throughput bursts" => (5e8, 5e8),
        "Age of the figures" => (-5.0, 120.0),
        "Agents" => (1.0, 1.0),
        other => panic!("panel {other} has no range"),
    }
}

#[test]
fn the_queries_of_the_dashboard_have_answers() {
    let name = "the_queries_of_the_dashboard_have_answers";
    let mut metrics = MeshMetrics::new("lab");
    let address = metrics.serve("127.0.0.1:0".parse().unwrap(), vec![]).unwrap();
    let Some(prometheus) = Prometheus::start(name, address) else { return };
    for agent in ["a", "b", "c"] {
        metrics.agent(agent, AgentState::Connected);
    }
    for to in ["b", "c"] {
        metrics.burst(&BurstLine {
            from: "a".into(),
            to: to.into(),
            transport: "tcp".into(),
            bits_per_second: Some(5e8),
            at_unix_seconds: now(),
            ..BurstLine::default()
        });
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana/weir-mesh.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let end = Instant::now() + LIMIT;
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$mesh", ".*").replace("$__rate_interval", "60s");
            loop {
                add(&metrics);
                let results = prometheus.query(&query).unwrap_or_default();
                let results = results.as_array().cloned().unwrap_or_default();
                if !results.is_empty() && is_plausible(title, &results) {
                    break;
                }
                assert!(Instant::now() < end, "{title}: {query}: {results:?}");
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

fn is_plausible(title: &str, results: &[Value]) -> bool {
    // A native histogram has its counts in place of a value.
    if title == "Round trips of all pairs" {
        let buckets = results[0]["histogram"][1]["buckets"].as_array();
        let bounds = |bucket: &Value| {
            let bound = |at: usize| bucket[at].as_str().unwrap().parse::<f64>().unwrap();
            bound(1) > 0.0145 && bound(2) < 0.027
        };
        return buckets.is_some_and(|buckets| buckets.iter().all(bounds));
    }
    let (least, most) = plausible(title);
    let is_within = |result: &Value| {
        let value: f64 = result["value"][1].as_str().unwrap().parse().unwrap();
        (least..=most).contains(&value)
    };
    results.len() >= 2 && results.iter().all(is_within)
}
