//! `weir agent` and `weir fleet` with a real server of NATS: jobs run at agents, and a killed agent's job ends once.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{WEIR, refusal};

/// A program that ends with the test.
pub(crate) struct Ending(pub(crate) Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Fleet {
    pub(crate) directory: tempfile::TempDir,
    url: String,
    _nats: Ending,
}

impl Fleet {
    /// A server of NATS with keys for a controller and these agents; `None` after printing that the test is skipped.
    pub(crate) fn up(test: &str, agents: &[&str]) -> Option<Fleet> {
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
        // An agent that can't reach it at its start ends.
        let end = Instant::now() + Duration::from_secs(60);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "nats-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let url = format!("nats://127.0.0.1:{port}");
        Some(Fleet { directory, url, _nats: Ending(nats) })
    }

    fn agent(&self, name: &str) -> Ending {
        self.agent_with(name, &[])
    }

    /// An agent with further words.
    pub(crate) fn agent_with(&self, name: &str, further: &[&str]) -> Ending {
        let key = format!("{name}.key");
        let words = ["agent", "--name", name, "--nkey", &key, "--nats", &self.url];
        let mut command = command(self.directory.path(), &words);
        command.args(["--label", "site=lab"]).args(further);
        Ending(command.stderr(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn controller(&self, words: &[&str]) -> Command {
        let words: Vec<&str> = ["fleet"].iter().chain(words).copied().collect();
        let mut command = command(self.directory.path(), &words[..2]);
        command.args(["--nkey", "controller.key", "--nats", &self.url]).args(&words[2..]);
        command
    }

    /// The document that a command of the controller prints, once `is_done`.
    pub(crate) fn until(&self, words: &[&str], is_done: impl Fn(&Value) -> bool) -> Value {
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

    pub(crate) fn until_connected(&self, agents: usize) {
        self.until(&["agents", "--json"], |value| {
            let list = value["agents"].as_array().into_iter().flatten();
            list.filter(|agent| agent["connected"] == true).count() == agents
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

/// `weir fleet dev` with agents in namespaces; `None` after printing that the test is skipped.
fn dev(test: &str, agents: &str) -> Option<(tempfile::TempDir, Ending, Value)> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let built = target.parent().unwrap().join("tools/nats-server");
    if !built.exists() {
        eprintln!("SKIPPED {test}: nats-server missing (scripts/ensure.sh test)");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let built = built.display().to_string();
    let words =
        ["fleet", "dev", "--json", "--port", "0", "--agents", agents, "--nats-server", &built];
    let mut child = command(directory.path(), &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stream =
        serde_json::Deserializer::from_reader(child.stdout.take().unwrap()).into_iter();
    let first = stream.next().and_then(Result::ok).filter(|up: &Value| up["nats"].is_string());
    let Some(up) = first else {
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(4) && std::env::var_os("CI").is_none() {
            eprintln!("SKIPPED {test}: {}", refusal(&output).message);
            return None;
        }
        panic!("{output:?}");
    };
    Some((directory, Ending(child), up))
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

#[test]
fn a_scenario_runs_at_agents_that_it_names() {
    let Some((directory, mut child, up)) = dev("a_scenario_runs_at_agents_that_it_names", "3")
    else {
        return;
    };
    let fleet = |words: &[&str]| -> (Option<i32>, Value) {
        let nats = ["--nats", up["nats"].as_str().unwrap(), "--nkey", up["nkey"].as_str().unwrap()];
        let words = [&["fleet"], &words[..1], &nats, &words[1..]].concat();
        let output = weir(directory.path(), &words);
        // A scenario with an error in a step has a result.
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let json = match output.status.code() {
            Some(2..=4) if printed["steps"].is_null() => {
                serde_json::to_value(refusal(&output)).unwrap()
            }
            _ => printed,
        };
        (output.status.code(), json)
    };
    let scenario = |agents: &str, steps: &str| {
        let text =
            format!("schema = \"weir.scenario/1\"\nname = \"f\"\n[agents]\n{agents}\n{steps}");
        std::fs::write(directory.path().join("f.toml"), text).unwrap();
    };
    let test = |topology: &str, hosts: &str| {
        format!(
            "[[step]]\nname = \"{topology}\"\ntest = {{ topology = \"{topology}\", {hosts}, args = \"-u -b 200k -t 0.5\" }}\n"
        )
    };
    let emulator = "[emulator.link]\nagent = \"third\"\ninterfaces = [\"tap:w0\", \"tap:w1\"]\nboth = \"delay 1ms\"\n";
    let change = "[[step]]\nname = \"change\"\nimpair = { both = \"delay 2ms\" }\n";
    let agents = "one = \"a\"\nrest = \"b, c\"\nthird = \"host=c\"\nevery = \"all\"";
    let steps = [
        emulator,
        change,
        &test("many-to-one", "from = \"rest\", to = \"one\""),
        &test("full-mesh", "from = \"every\""),
    ];
    scenario(agents, &steps.concat());
    let (code, result) = fleet(&["run", "--json", "f.toml"]);
    assert!(matches!(code, Some(0 | 5)), "{code:?} {result}");
    let steps = result["steps"].as_array().unwrap();
    let tests: Vec<_> = steps
        .iter()
        .map(|step| (step["outcome"].as_str().unwrap(), &step["together"]["tests"]))
        .collect();
    assert_eq!(tests[1..], [("done", &Value::from(2)), ("done", &Value::from(6))]);
    assert_eq!(tests[0].0, "done");
    // The agents are free again, and each job has one result.
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, state) = fleet(&["status", "--json"]);
        let agents = state["agents"].as_array().map_or(&[][..], Vec::as_slice);
        if agents.len() == 3 && agents.iter().all(|agent| agent["jobs"] == serde_json::json!([])) {
            break;
        }
        assert!(Instant::now() < end, "{state}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let (_, results) = fleet(&["results", "--json"]);
    let results = results["results"].as_array().unwrap();
    let of_kind =
        |kind: &str| results.iter().filter(|result| result["kind"] == kind).collect::<Vec<_>>();
    assert_eq!((of_kind("test").len(), of_kind("serve").len(), of_kind("hold").len()), (8, 3, 3));
    // The emulator had two configurations: the first, and the one of the step.
    let emulated = &of_kind("emulator")[0]["result"];
    assert_eq!(emulated["configurations"].as_array().unwrap().len(), 2, "{emulated}");

    // Connections of a test in the background are started and stopped at its agent.
    let connection = |name: &str, more: &str| {
        format!(
            "{{ name = \"{name}\", transport = \"udp\", rate = \"100pps\", duration = \"0s\"{more} }}"
        )
    };
    let background = format!(
        "[[step]]\nname = \"bg\"\n[step.test]\nfrom = \"one\"\nto = \"third\"\nbackground = true\n\
         plan = {{ schema = \"weir.plan/1\", connection = [{}, {}] }}\n",
        connection("now", ""),
        connection("later", ", autostart = false")
    );
    let start =
        |name: &str| format!("[[step]]\nstart = {{ test = \"bg\", connection = \"{name}\" }}\n");
    let wait = "[[step]]\nwait = { test = \"bg\", packets = 50 }\n";
    let stop = "[[step]]\nstop = { test = \"bg\" }\n";
    scenario(agents, &[&background, &start("later"), wait, stop].concat());
    let (_, result) = fleet(&["run", "--json", "f.toml"]);
    let outcomes = |result: &Value| -> Vec<String> {
        let steps = result["steps"].as_array().unwrap().iter();
        steps.map(|step| step["outcome"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(outcomes(&result), ["done"; 4], "{result}");
    let (_, results) = fleet(&["results", "--json"]);
    let results = results["results"].as_array().unwrap();
    let record = &results.iter().rfind(|result| result["kind"] == "test").unwrap()["record"];
    assert_eq!(record["status"], "complete");
    for flow in record["flows"].as_array().unwrap() {
        assert!(flow["sender"]["packets"].as_u64().unwrap() > 0, "{flow}");
    }
    scenario(agents, &(background.clone() + &start("none")));
    let (_, result) = fleet(&["run", "--json", "f.toml"]);
    assert_eq!(outcomes(&result)[..2], ["done", "error"], "{result}");

    // Refused before anything starts, by field.
    for (agents, steps, field) in [
        ("one = \"absent\"", test("pairs", "from = \"one\", to = \"one\""), "agents.one"),
        ("one = \"all\"", test("one-to-many", "from = \"one\", to = \"one\""), "one-to-many.test.from"),
        (
            "third = \"c\"",
            "[emulator.link]\nagent = \"third\"\ninterfaces = [\"none0\", \"tap:w1\"]\n[[step]]\nwait = { time = \"1s\" }\n".into(),
            "emulator.link.interfaces",
        ),
    ] {
        scenario(agents, &steps);
        let (code, refused) = fleet(&["run", "f.toml"]);
        assert_eq!((code, refused["field"].as_str()), (Some(2), Some(field)), "{refused}");
    }
    let (code, refused) = fleet(&["run", "--on", "a", "--together", "f.toml"]);
    assert_eq!((code, refused["field"].as_str()), (Some(2), Some("--on")));

    interrupt(&child.0);
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}

#[test]
fn tests_of_several_agents_start_together() {
    let Some((directory, mut child, up)) = dev("tests_of_several_agents_start_together", "3")
    else {
        return;
    };
    let nats = ["--nats", up["nats"].as_str().unwrap(), "--nkey", up["nkey"].as_str().unwrap()];
    let fleet = |words: &[&str]| {
        let words = [&["fleet"], &words[..1], &nats, &words[1..]].concat();
        weir(directory.path(), &words)
    };
    std::fs::write(directory.path().join("serve.toml"), "job = \"serve\"\nport = 5999\n").unwrap();
    let submitted = fleet(&["run", "--on", "a", "--detach", "--json", "serve.toml"]);
    let submitted: Value = serde_json::from_slice(&submitted.stdout).unwrap();
    let test = ["--", "test", "198.18.0.1", "-p", "5999", "-u", "-b", "100k", "-t", "0.5"];
    // The server may not listen yet.
    let end = Instant::now() + Duration::from_secs(60);
    let ended = loop {
        let words = [
            &["run", "--on", "b,c", "--together", "--max-start-error", "1ms", "--json"],
            &test[..],
        ];
        let output = fleet(&words.concat());
        if output.status.success() {
            break serde_json::from_slice::<Value>(&output.stdout).unwrap();
        }
        assert!(Instant::now() < end, "{output:?}");
    };
    // Namespaces of one machine share a clock, which has no error against itself.
    let spread = &ended["start_spread"];
    assert_eq!(
        (&spread["tests"], &spread["bound_ns"]),
        (&Value::from(2), &Value::from(0)),
        "{ended}"
    );
    assert!(spread["spread_ns"].is_u64());
    let job = submitted["jobs"][0]["job"].as_str().unwrap();
    assert!(fleet(&["stop", "a", job]).status.success());
    interrupt(&child.0);
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}
