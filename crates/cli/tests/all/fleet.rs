//! `weir agent` and `weir fleet` with a real server of NATS: jobs run at agents, and a killed agent's job ends once.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{WEIR, refusal};

/// A program that ends with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Fleet {
    directory: tempfile::TempDir,
    url: String,
    _nats: Ending,
}

impl Fleet {
    /// A server of NATS with keys for a controller and these agents; `None` after printing that the test is skipped.
    fn up(test: &str, agents: &[&str]) -> Option<Fleet> {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let built = target.parent().unwrap().join("tools/nats-server");
        let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
        let Some(program) = named.into_iter().chain([built]).find(|path| path.exists()) else {
            eprintln!("SKIPPED {test}: nats-server missing (scripts/ensure.sh test)");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let key = |name: &str| {
            let made = weir(directory.path(), &["fleet", "key", "--output", name]);
            assert!(made.status.success(), "{made:?}");
            String::from_utf8(made.stdout).unwrap().trim().to_owned()
        };
        let mut words: Vec<String> = vec!["fleet".into(), "config".into(), "--controller".into()];
        words.push(key("controller.key"));
        for name in agents {
            words.extend(["--agent".into(), format!("{name}={}", key(&format!("{name}.key")))]);
        }
        words.extend(["--store".into(), "store".into(), "--port".into(), port.to_string()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let config = weir(directory.path(), &words);
        assert!(config.status.success(), "{config:?}");
        std::fs::write(directory.path().join("nats.conf"), config.stdout).unwrap();
        let nats = Command::new(program)
            .args(["--config", "nats.conf"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let url = format!("nats://127.0.0.1:{port}");
        Some(Fleet { directory, url, _nats: Ending(nats) })
    }

    fn agent(&self, name: &str) -> Ending {
        let key = format!("{name}.key");
        let words = ["agent", "--name", name, "--nkey", &key, "--nats", &self.url];
        let mut command = command(self.directory.path(), &words);
        Ending(command.args(["--label", "site=lab"]).stderr(Stdio::null()).spawn().unwrap())
    }

    fn controller(&self, words: &[&str]) -> Command {
        let words: Vec<&str> = ["fleet"].iter().chain(words).copied().collect();
        let mut command = command(self.directory.path(), &words[..2]);
        command.args(["--nkey", "controller.key", "--nats", &self.url]).args(&words[2..]);
        command
    }

    /// The document that a command of the controller prints, once `is_done`.
    fn until(&self, words: &[&str], is_done: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let output = self.controller(words).output().unwrap();
            if let Ok(value) = serde_json::from_slice(&output.stdout)
                && is_done(&value)
            {
                return value;
            }
            assert!(Instant::now() < end, "{output:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn until_connected(&self, agents: usize) {
        self.until(&["agents", "--json"], |value| {
            let list = value["agents"].as_array().unwrap();
            list.iter().filter(|agent| agent["connected"] == true).count() == agents
        });
    }
}

fn command(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.args(words).current_dir(directory).env("XDG_DATA_HOME", directory.join("data"));
    command.env("WEIR_ERRORS", "json");
    command
}

fn weir(directory: &Path, words: &[&str]) -> std::process::Output {
    command(directory, words).output().unwrap()
}

/// A server of tests on loopback, and its port.
fn serve(directory: &Path) -> (Ending, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut command = command(directory, &["serve", "-p", &port, "--bind", "127.0.0.1"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
    (Ending(child), port)
}

#[test]
fn a_test_runs_at_all_agents() {
    let Some(fleet) = Fleet::up("a_test_runs_at_all_agents", &["a", "b"]) else { return };
    let _agents = (fleet.agent("a"), fleet.agent("b"));
    fleet.until_connected(2);
    let (_server, port) = serve(fleet.directory.path());
    let host = format!("127.0.0.1:{port}");
    let words =
        ["run", "--json", "--on", "site=lab", "--", "test", &host, "-u", "-b", "1M", "-t", "0.5"];
    let output = fleet.controller(&words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = value["results"].as_array().unwrap();
    let agents: Vec<_> = results.iter().map(|result| result["agent"].as_str().unwrap()).collect();
    assert_eq!(agents, ["a", "b"]);
    for result in results {
        assert_eq!(result["record"]["status"], "complete");
        assert_eq!(result["record"]["labels"]["agent"], result["agent"]);
    }
    // The runs are stored where the controller is, too.
    let id = results[0]["record"]["id"].as_str().unwrap();
    assert!(weir(fleet.directory.path(), &["runs", "show", id]).status.success());

    // What is refused names its flag; nothing was submitted.
    for (words, field, code) in [
        (&["run", "--on", "c", "--", "test", &host][..], "--on", 2),
        (&["run", "--on", "site=la", "--", "test", &host], "--on", 2),
        (&["run", "--on", "a", "--", "test", &host, "--packet-log", "x"], "--packet-log", 2),
        (&["run", "--on", "a", "--", "test", &host, "--size", "0"], "--length", 2),
    ] {
        let output = fleet.controller(words).output().unwrap();
        let refusal = refusal(&output);
        assert_eq!(refusal.field.as_deref(), Some(field), "{refusal:?}");
        assert_eq!(output.status.code(), Some(code), "{refusal:?}");
    }
    let results = fleet.until(&["results", "--json"], |_| true);
    assert_eq!(results["results"].as_array().unwrap().len(), 2);
}

#[test]
fn a_job_of_a_killed_agent_ends_once() {
    let Some(fleet) = Fleet::up("a_job_of_a_killed_agent_ends_once", &["a"]) else { return };
    let mut agent = fleet.agent("a");
    fleet.until_connected(1);
    let (_server, port) = serve(fleet.directory.path());
    let host = format!("127.0.0.1:{port}");
    let words = ["run", "--json", "--on", "a", "--", "test", &host, "-u", "-b", "1M", "-t", "2"];
    let run = fleet.controller(&words).stdout(Stdio::piped()).spawn().unwrap();
    // It runs once the agent has a job below it.
    let end = Instant::now() + Duration::from_secs(60);
    while !is_parent(agent.0.id()) {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(10));
    }
    agent.0.kill().unwrap();
    agent.0.wait().unwrap();
    let _again = fleet.agent("a");
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let results = fleet.until(&["results", "--json"], |_| true);
    let results = results["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(
        (&results[0]["record"]["status"], &results[0]["starts"]),
        (&"complete".into(), &2.into())
    );
}

/// Whether a process has a child.
fn is_parent(id: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{id}/task")) else { return false };
    tasks.flatten().any(|task| {
        let text = std::fs::read_to_string(task.path().join("children"));
        text.is_ok_and(|text| !text.trim().is_empty())
    })
}
