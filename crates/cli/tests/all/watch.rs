//! `weir fleet watch` with a real server of NATS, and agents on addresses of loopback.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::refusal;
use crate::fleet::Fleet;

/// Only a broken test takes this long.
const LIMIT: Duration = Duration::from_secs(60);

const MESH: &str = "schema = \"weir.mesh/1\"\nname = \"lab\"\nagents = \"site=lab,a\"\n\
                    windows = [\"10s\"]\nprobes = { per_second = 20 }\n";

/// A running watch and its lines.
struct Watch {
    child: Child,
    lines: mpsc::Receiver<Value>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watch {
    fn start(fleet: &Fleet, words: &[&str]) -> Watch {
        let words: Vec<&str> = ["watch", "--json"].iter().chain(words).copied().collect();
        let mut child = fleet.controller(&words).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        Watch { child, lines }
    }

    /// The next line for which this holds.
    fn until(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).expect("a line is missing");
            if is_wanted(&line) {
                return line;
            }
        }
    }

    /// The next second of a pair in which probes came back.
    fn second(&self, from: &str, to: &str) -> Value {
        self.until(|line| {
            line["line"] == "second"
                && (line["from"] == from && line["to"] == to)
                && line["received_packets"].as_u64() > Some(0)
        })
    }

    fn agent(&self, agent: &str, state: &str) -> Value {
        self.until(|line| {
            line["line"] == "agent" && line["agent"] == agent && line["state"] == state
        })
    }
}

fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

#[test]
fn a_mesh_is_measured_and_an_agent_that_returns_resumes() {
    let name = "a_mesh_is_measured_and_an_agent_that_returns_resumes";
    let Some(fleet) = Fleet::up(name, &["a", "b", "c"]) else { return };
    let agent = |name: &str, address: &str| {
        fleet.agent_with(name, &["--label", &format!("address={address}")])
    };
    let _a = agent("a", "127.0.0.2");
    let b = agent("b", "127.0.0.3");
    let _c = agent("c", "127.0.0.4");
    fleet.until_connected(3);
    std::fs::write(fleet.directory.path().join("mesh.toml"), MESH).unwrap();
    let mut watch = Watch::start(&fleet, &["mesh.toml"]);
    let start = watch.until(|line| line["line"] == "start");
    assert_eq!(
        (start["mesh"].as_str(), start["schema"].as_str()),
        (Some("lab"), Some("weir.watch/1"))
    );
    assert_eq!(start["pairs"], serde_json::json!([["a", "b"], ["a", "c"], ["b", "c"]]));
    assert_eq!(watch.agent("a", "connected")["address"], "127.0.0.2");

    for (from, to) in [("a", "b"), ("a", "c"), ("b", "c")] {
        let second = watch.second(from, to);
        let number = |key: &str| second[key].as_u64().unwrap();
        assert_eq!(number("sent_packets"), number("received_packets") + number("lost_packets"));
        let trip = &second["round_trip"];
        let mean = trip["mean_seconds"].as_f64().unwrap();
        assert!(mean > 0.0 && trip["max_seconds"].as_f64().unwrap() >= mean, "{second}");
        assert_eq!(trip["count"].as_u64(), Some(number("received_packets")));
        assert_eq!(second["windows"][0]["window_seconds"], 10.0);
    }
    // The figures of the far agent arrive while the test runs: both one-way delays, which share a clock here.
    let second = watch.until(|line| line["return_delay_seconds"].is_number());
    let (there, back) = (&second["forward_delay_seconds"], &second["return_delay_seconds"]);
    let sum = there.as_f64().unwrap() + back.as_f64().unwrap();
    let mean = second["round_trip"]["mean_seconds"].as_f64().unwrap();
    assert!((sum - mean).abs() < 1e-9, "{second}");
    assert!(second["one_way_error_seconds"].as_f64().unwrap() < 0.001, "{second}");

    terminate(&b.0);
    watch.agent("b", "gone");
    // The other pair goes on.
    watch.second("a", "c");
    drop(b);
    let _b = agent("b", "127.0.0.3");
    watch.agent("b", "connected");
    watch.second("a", "b");
    watch.second("b", "c");

    terminate(&watch.child);
    let status = watch.child.wait().unwrap();
    assert!(status.success(), "{status:?}");
    // All jobs have ended: an agent that connects finds none.
    let results = fleet.until(&["results", "--json"], |value| {
        let results = value["results"].as_array().unwrap();
        results.iter().filter(|result| result["kind"] == "serve").count() >= 2
    });
    let records = results["results"].as_array().unwrap().iter();
    assert_eq!(records.filter(|result| result["record"].is_object()).count(), 0);
    // What was measured is stored.
    let file = fleet.directory.path().join("data/weir/watches.db");
    assert!(file.exists());
    let stored = weir_runs::Watches::open(&file).unwrap();
    let latest = stored.latest("lab").unwrap();
    let pairs: Vec<_> = latest.iter().map(|one| (one.from.as_str(), one.to.as_str())).collect();
    assert_eq!(pairs, [("a", "b"), ("a", "c"), ("b", "c")]);
    assert!(latest.iter().all(|one| one.window_seconds == 10.0));
    let agents = stored.agents("lab").unwrap();
    assert_eq!(agents.iter().map(|one| one.agent.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn what_a_mesh_names_must_exist() {
    let Some(fleet) = Fleet::up("what_a_mesh_names_must_exist", &["a"]) else { return };
    let _a = fleet.agent_with("a", &[]);
    fleet.until_connected(1);
    for (text, field, given) in [
        ("agents = \"b\"", "agents", "b"),
        ("agents = \"site=x\"", "agents", "site=x"),
        ("agents = \"a,,b\"", "agents", "a,,b"),
        ("hub = \"b\"", "hub", "b"),
        ("pairs = [[\"a\", \"b\"]]", "pairs[0]", "b"),
        ("windows = [\"1s\"]", "windows[0]", "1s"),
    ] {
        let text = format!("schema = \"weir.mesh/1\"\nname = \"lab\"\n{text}\n");
        std::fs::write(fleet.directory.path().join("mesh.toml"), text).unwrap();
        let output = fleet.controller(&["watch", "mesh.toml"]).output().unwrap();
        let refused = refusal(&output);
        assert_eq!(output.status.code(), Some(2), "{field}: {output:?}");
        let found = (refused.field.as_deref(), refused.given.as_deref());
        assert_eq!(found, (Some(field), Some(given)));
    }
}
