//! `weir serve --ui` from outside: tests, plans, emulators and experiments over HTTP, on real servers in a lab.

use crate::common;
use crate::http;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{WEIR, messages, skip, until, wait};
use http::{Events, Reply, ask_on};
use serde_json::{Value, json};
use weir_lab::{Lab, LabSpec, Topology};
use weir_net::namespace::effective_user_id;

/// A server with its page, in a host of a lab or in this namespace.
struct Ui<'a> {
    child: Child,
    address: SocketAddr,
    lab: Option<(&'a Lab, &'a str)>,
    _stdout: BufReader<std::process::ChildStdout>,
}

impl Drop for Ui<'_> {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            common::signal("TERM", &self.child);
            wait(&mut self.child, "weir serve --ui");
        }
    }
}

impl<'a> Ui<'a> {
    fn start(directory: &Path, lab: Option<(&'a Lab, &'a str)>, words: &[&str]) -> Ui<'a> {
        Ui::start_with(Path::new(WEIR), directory, lab, words)
    }

    /// A server whose jobs are run by `program`.
    fn start_with(
        program: &Path,
        directory: &Path,
        lab: Option<(&'a Lab, &'a str)>,
        words: &[&str],
    ) -> Ui<'a> {
        let mut command = match lab {
            Some((lab, host)) => lab.command(host, WEIR).unwrap(),
            None => Command::new(WEIR),
        };
        command.args(["serve", "--ui=127.0.0.1:0"]).args(words);
        command.env_remove("WEIR_KEY").env("NO_COLOR", "1");
        command.env("WEIR_DATA_DIR", directory.join("data"));
        command.env("WEIR_CONFIG_DIR", directory.join("config"));
        command.env("WEIR_RUNTIME_DIR", directory.join("runtime")).env("WEIR_PROGRAM", program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "weir serve --ui ended");
            // The program may be built with or without the page.
            if let Some((_, at)) = line.split_once("API on http://") {
                break at.split('/').next().unwrap().trim().parse().unwrap();
            }
        };
        Ui { child, address, lab, _stdout: stdout }
    }

    fn connect(&self) -> TcpStream {
        let connect = || {
            let stream = TcpStream::connect(self.address).unwrap();
            stream.set_read_timeout(Some(http::LIMIT)).unwrap();
            stream
        };
        match self.lab {
            // A socket stays in the namespace in which it was created.
            Some((lab, host)) => lab.run_in(host, connect).unwrap(),
            None => connect(),
        }
    }

    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        self.ask_with(method, path, &[], body)
    }

    fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Reply {
        let text = body.map(|b| b.to_string().into_bytes());
        let path = format!("/api/v1{path}");
        ask_on(self.connect(), method, &path, headers, text.as_deref()).unwrap()
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, None).expect(200)
    }

    fn events(&self, query: &str) -> Events {
        Events::open(self.connect(), query)
    }
}

/// A free port.
fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

fn udp(packets: u64, rate: &str) -> Value {
    json!({
        "schema": "weir.plan/1", "interval": "100ms",
        "connection": [{ "name": "one", "transport": "udp", "rate": rate, "packets": packets }],
    })
}

#[test]
fn a_test_is_started_watched_and_stored() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let ui = Ui::start(dir.path(), None, &["-p", &port, "-B", "127.0.0.1"]);
    let system = ui.get("/system");
    assert_eq!(system["may"]["capabilities"], json!([]), "the web server has none");
    let mut events = ui.events("?topics=tests,clients");
    events.until("hello", |h| h["instance"] == system["instance"]);
    let request = json!({
        "host": format!("127.0.0.1:{port}"), "plan": udp(2000, "1000pps"), "tags": { "from": "page" },
    });
    let test = ui.ask("POST", "/tests", Some(request)).expect(201);
    let id = test["id"].as_str().unwrap().to_owned();
    let mine = |e: &Value| e["id"] == id.as_str() && e["kind"] == "tests";
    events.until("state", |e| mine(e) && e["state"] == "running");
    let sample = events.until("sample", mine);
    assert!(sample["interval"]["total"]["forward"].is_object(), "{sample}");
    let ended = events.until("state", |e| mine(e) && e["state"] == "ended");
    let run = ended["run_id"].as_str().unwrap();
    let record = ui.get(&format!("/tests/{id}/record"));
    assert_eq!(record["flows"][0]["sender"]["packets"], 2000);
    let kept = ui.get(&format!("/runs/{run}"));
    assert_eq!((&kept["id"], &kept["labels"]["from"]), (&json!(run), &json!("page")));
    assert_eq!(kept["flows"], record["flows"]);
    // Clients that connect later get it too.
    let now = ui.get(&format!("/tests/{id}"));
    let warned = record["warnings"].as_array().cloned().unwrap_or_default();
    assert_eq!(now["warnings"].as_array(), Some(&warned), "{now}");
    let client = &ui.get("/clients")["clients"][0];
    assert_eq!(client["report"]["flows"][0]["receiver"]["packets"], 2000, "{client}");
    ui.ask("DELETE", &format!("/tests/{id}"), None).expect(204);
    ui.ask("GET", &format!("/tests/{id}"), None).expect(404);
    ui.get(&format!("/runs/{run}"));
}

#[test]
fn all_jobs_work_with_all_messages_replaced() {
    const TEST: &str = "all_jobs_work_with_all_messages_replaced";
    if effective_user_id() != 0 {
        return skip(TEST, "needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let ui = Ui::start_with(&common::mute(dir.path()), dir.path(), None, &["-p", &port]);
    // Runs concurrently with the others, since it takes some seconds.
    ui.ask("POST", "/calibration", Some(json!({ "no_lab": true }))).expect(202);
    let request = json!({ "host": format!("127.0.0.1:{port}"), "plan": udp(200, "1000pps") });
    let test = ui.ask("POST", "/tests", Some(request)).expect(201);
    until("the test has ended", || {
        ui.get(&format!("/tests/{}", test["id"].as_str().unwrap()))["state"] == "ended"
    });
    let record = ui.get(&format!("/tests/{}/record", test["id"].as_str().unwrap()));
    assert_eq!(record["flows"][0]["sender"]["packets"], 200);
    assert!(ui.get("/doctor")["findings"].as_array().is_some_and(|all| !all.is_empty()));
    // The refusal of a job names the field.
    let lab = json!({ "name": "muted", "middle": true });
    ui.ask("POST", "/labs", Some(lab)).expect(201);
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let wrong = json!({ "interfaces": ["to-a", "to-z"], "lab": "muted/m" });
        let refused = ui.ask("POST", "/emulators", Some(wrong)).expect(422);
        assert_eq!(refused["errors"][0]["field"], "/interfaces/1", "{refused}");
        let emulator = json!({ "interfaces": ["to-a", "to-b"], "lab": "muted/m" });
        let emulator = ui.ask("POST", "/emulators", Some(emulator)).expect(201);
        let path = format!("/emulators/{}", emulator["id"].as_str().unwrap());
        assert!(ui.get(&format!("{path}/counters"))["directions"].is_array());
        ui.ask("DELETE", &path, None).expect(204);
    }));
    ui.ask("DELETE", "/labs/muted", None).expect(204);
    if let Err(why) = found {
        std::panic::resume_unwind(why);
    }
    // A scenario with its own lab, servers, emulator and tests.
    let scenario = json!({
        "schema": "weir.scenario/1", "name": "muted", "lab": { "middle": true }, "emulator": { "m": { "both": "delay 1ms" } },
        "step": [{ "name": "tcp", "test": { "plan": { "schema": "weir.plan/1",
            "connection": [{ "transport": "tcp", "bytes": "100K" }] } } }],
    });
    let experiment =
        ui.ask("POST", "/experiments", Some(json!({ "document": scenario }))).expect(201);
    let path = format!("/experiments/{}", experiment["id"].as_str().unwrap());
    until("the experiment has ended", || ui.get(&path)["state"] == "ended");
    assert_eq!(ui.get(&path)["outcome"]["outcome"], "done");
    ui.ask("POST", "/demo", Some(json!({ "simulate": true }))).expect(202);
    until("the demo has ended", || ui.get("/demo")["state"] == "ended");
    assert_eq!(ui.get("/demo")["result"]["exit_code"], 0);
    until("the calibration has ended", || ui.get("/calibration")["running"] == false);
    let calibration = ui.get("/calibration");
    assert!(calibration["kept"]["figures"].is_object(), "{calibration}");
}

#[test]
fn a_new_token_is_reported_once_and_in_no_log() {
    use std::os::unix::fs::PermissionsExt;
    for json in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (tokens, log) = (dir.path().join("tokens"), dir.path().join("log"));
        let port = free_port();
        let mut command = Command::new(WEIR);
        command.args(["serve", "--ui=127.0.0.1:0", "-p", &port, "-B", "127.0.0.1"]);
        command.arg("--ui-token-file").arg(&tokens).arg("--logfile").arg(&log);
        command.args(json.then_some("--json-stream"));
        command.env("WEIR_DATA_DIR", dir.path().join("data")).env("NO_COLOR", "1");
        command.env("WEIR_CONFIG_DIR", dir.path().join("config"));
        command.env("WEIR_RUNTIME_DIR", dir.path().join("runtime"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        until("the log has the page's request", || logged().contains("127.0.0.1:"));
        common::signal("TERM", &child);
        let printed = child.wait_with_output().unwrap().stdout;
        let token = if json {
            let event: Value = serde_json::from_str(&said).unwrap();
            assert_eq!(event["event"], "token");
            assert!(logged().lines().all(|l| serde_json::from_str::<Value>(l).is_ok()));
            event["data"]["token"].as_str().unwrap().to_owned()
        } else {
            said.trim().rsplit(' ').next().unwrap().to_owned()
        };
        assert!(token.starts_with("weir_") && token.len() > 60, "{said}");
        assert!(!logged().contains(&token), "{}", logged());
        assert!(!String::from_utf8_lossy(&printed).contains(&token));
        assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_stopped_tests_results_are_stored() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let ui = Ui::start(dir.path(), None, &["-p", &port, "-B", "127.0.0.1"]);
    let mut plan = udp(1_000_000, "1000pps");
    let second = json!({ "name": "two", "transport": "udp", "rate": "100pps", "duration": "0", "autostart": false });
    plan["connection"].as_array_mut().unwrap().push(second);
    let mut events = ui.events("");
    let request = json!({ "host": format!("127.0.0.1:{port}"), "plan": plan });
    let test = ui.ask("POST", "/tests", Some(request)).expect(201);
    let path = format!("/tests/{}", test["id"].as_str().unwrap());
    events.until("sample", |e| e["id"] == test["id"] && e["sequence"].as_u64() > Some(2));
    assert_eq!(ui.get(&path)["flows"].as_array().unwrap().len(), 2);
    ui.ask("POST", &format!("{path}/connections/two/start"), None).expect(200);
    ui.ask("POST", &format!("{path}/connections/three/start"), None).expect(422);
    ui.ask("POST", &format!("{path}/connections/one/stop"), None).expect(200);
    ui.ask("POST", &format!("{path}/stop"), None).expect(202);
    let ended = events.until("state", |e| e["id"] == test["id"] && e["state"] == "ended");
    assert_eq!(ui.get(&path)["flow_states"], json!({ "one": "finished", "two": "finished" }));
    let run = ui.get(&format!("/runs/{}", ended["run_id"].as_str().unwrap()));
    assert_eq!(run["status"], "interrupted");
    assert!(run["flows"][0]["sender"]["packets"].as_u64() > Some(0), "{run}");
    // A test of an unreachable server fails with the program's message.
    let nobody = json!({ "host": format!("127.0.0.1:{}", free_port()), "plan": udp(1, "1M") });
    let test = ui.ask("POST", "/tests", Some(nobody)).expect(201);
    let failed = events.until("state", |e| e["id"] == test["id"] && e["state"] == "failed");
    assert!(failed["error"].as_str().is_some_and(|e| e.contains("refused")), "{failed}");
}

#[test]
fn running_jobs_end_with_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut ui = Ui::start(dir.path(), None, &["-p", &port, "-B", "127.0.0.1"]);
    let request = json!({ "host": format!("127.0.0.1:{port}"), "plan": udp(1_000_000, "1000pps") });
    let test = ui.ask("POST", "/tests", Some(request)).expect(201);
    let mut events = ui.events("");
    events.until("sample", |e| e["id"] == test["id"]);
    ui.child.kill().unwrap();
    ui.child.wait().unwrap();
    // The launcher detects it and stops the test server too: its port is free again.
    until("the test server has ended", || {
        std::net::TcpListener::bind(format!("127.0.0.1:{port}")).is_ok()
    });
}

#[test]
fn an_experiment_is_simulated_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let scenarios = dir.path().join("config/scenarios");
    std::fs::create_dir_all(&scenarios).unwrap();
    let text = r#"
        schema = "weir.scenario/1"
        name = "lossy"
        [lab]
        middle = true
        [emulator.m]
        both = "loss every 10"
        [[step]]
        test = { args = "-u -b 1000pps -k 1000" }
        expect = ["loss >= 9 %"]
        [[step]]
        sweep = { over = ["size=200,400"], metrics = ["throughput"], test = { args = "-u -b 1000pps -k 100" } }
    "#;
    std::fs::write(scenarios.join("lossy.toml"), text).unwrap();
    let ui = Ui::start(dir.path(), None, &["-p", &port, "-B", "127.0.0.1"]);
    assert_eq!(ui.get("/scenarios")["scenarios"][0]["name"], "lossy");
    let mut events = ui.events("?topics=experiments");
    let request = json!({ "scenario": "lossy", "simulate": true });
    let begun = ui.ask("POST", "/experiments", Some(request)).expect(201);
    let path = format!("/experiments/{}", begun["id"].as_str().unwrap());
    events.until("state", |e| e["id"] == begun["id"] && e["state"] == "ended");
    let done = ui.get(&path);
    assert_eq!(done["outcome"]["outcome"], "passed", "{done}");
    let report = ui.ask("GET", &format!("{path}/report"), None);
    assert!(report.status == 200 && report.text().contains("lossy"));
    let figures = ui.get(&format!("{path}/figures"));
    let scaled =
        figures["figures"].as_array().unwrap().iter().find(|f| f["y"]["from_zero"] == false);
    let figure = scaled.expect("a chart of the sweep")["id"].as_str().unwrap();
    let svg = |query: &str| {
        let path = format!("{path}/report?format=svg&figure={figure}{query}");
        let reply = ui.ask("GET", &path, None);
        assert_eq!(reply.status, 200);
        reply.text()
    };
    assert_eq!(svg("&from_zero=false"), svg(""));
    assert_ne!(svg("&from_zero=true"), svg(""));
    let mut document: Value = serde_json::to_value(&done).unwrap();
    document = json!({ "scenario": document["name"], "document": {} });
    ui.ask("POST", "/experiments", Some(document)).expect(422);
}

#[test]
fn an_emulator_applies_its_laws_and_outlives_its_server() {
    const TEST: &str = "an_emulator_applies_its_laws_and_outlives_its_server";
    if effective_user_id() != 0 {
        return skip(TEST, "needs root");
    }
    let spec = LabSpec { topology: Topology::MIDDLE, ..LabSpec::default() };
    let lab = Lab::up(&spec).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let far = tempfile::tempdir().unwrap();
    let _b = Ui::start(far.path(), Some((&lab, "b")), &[]);
    let a = Ui::start(dir.path(), Some((&lab, "a")), &[]);
    let mut m = Ui::start(dir.path(), Some((&lab, "m")), &[]);
    let laws = json!({
        "schema": "weir.impair/1", "seed": "0x7",
        "other": { "a_to_b": { "delay": { "constant": "1ms" } } },
    });
    let request = json!({ "interfaces": ["to-a", "to-b"], "configuration": laws });
    let made = m.ask("POST", "/emulators", Some(request)).expect(201);
    let path = format!("/emulators/{}", made["id"].as_str().unwrap());
    let mut events = m.events("");
    // Changes are staged, then applied together; a conflicting change is refused.
    let read = m.ask("GET", &format!("{path}/configuration"), None);
    let mut laws = read.expect(200);
    laws["flow"] = json!([{
        "name": "weir", "filter": { "protocol": "udp" },
        "a_to_b": { "loss": { "every_nth": 10 }, "delay": { "constant": "20ms" } },
    }]);
    let preview =
        json!({ "configuration": laws, "flow": "weir", "packets": 1000, "size_bytes": 1000 });
    let preview = m.ask("POST", "/laws/preview", Some(preview)).expect(200);
    let configuration = format!("{path}/configuration");
    let tag = read.etag();
    let put = m.ask_with("PUT", &configuration, &[("If-Match", &tag)], Some(laws.clone()));
    put.expect(200);
    events.until("edited", |e| e["document"] == configuration[1..]);
    let late = m.ask_with("PUT", &configuration, &[("If-Match", &tag)], Some(laws)).expect(412);
    assert_eq!(late["changed"]["by"], "127.0.0.1");
    let wrong = json!({ "schema": "weir.impair/1", "other": { "a_to_b": { "loss": { "percentage": 200.0 } } } });
    let refused = m.ask("PUT", &configuration, Some(wrong)).expect(422);
    assert!(
        refused["errors"][0]["field"].as_str().unwrap().starts_with("/other/a_to_b/loss"),
        "{refused}"
    );
    // The requested, the previewed and the measured values agree.
    let b = lab.host("b").unwrap().ipv4.to_string();
    let request = json!({ "host": b, "plan": udp(1000, "1000pps") });
    let mut of_a = a.events("?topics=tests");
    let test = a.ask("POST", "/tests", Some(request)).expect(201);
    of_a.until("state", |e| e["id"] == test["id"] && e["state"] == "ended");
    let record = a.get(&format!("/tests/{}/record", test["id"].as_str().unwrap()));
    let receiver = &record["flows"][0]["receiver"];
    assert_eq!(preview["lost_packets"], 100);
    // Hellos and feedback are packets of the flow too, but do not advance the counter of the law.
    let lost = receiver["lost_packets"].as_i64().unwrap();
    assert_eq!(preview["lost_packets"], lost, "{receiver}");
    let delay = receiver["one_way_delay"]["p50_seconds"].as_f64().unwrap();
    assert!((0.02..0.025).contains(&delay), "{delay}");
    let counters = m.get(&format!("{path}/counters"));
    let flow = counters["impairment"]["flows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["name"] == "weir" && f["direction"] == "forward")
        .unwrap()
        .clone();
    assert!(flow["counters"]["lost_packets"].as_i64() >= Some(lost), "{flow}");
    // The flow was added with its laws. A reset starts a new period and does not change the counters since the start.
    let current = || {
        let counters = m.get(&format!("{path}/counters"));
        let flows = counters["impairment"]["flows"].as_array().unwrap().clone();
        let forward = |f: &Value| f["name"] == "weir" && f["direction"] == "forward";
        flows.into_iter().find(forward).unwrap()["current"].clone()
    };
    assert_eq!(current()["reason"], "laws");
    assert!(current()["counters"]["lost_packets"].as_i64() >= Some(lost), "{}", current());
    m.ask("POST", &format!("{path}/flows/unknown/reset"), None).expect(404);
    m.ask("POST", &format!("{path}/flows/weir/reset"), None).expect(204);
    assert_eq!(current()["reason"], "reset");
    assert_eq!(current()["counters"]["lost_packets"], 0);
    m.ask("POST", &format!("{path}/reset"), None).expect(204);
    let sample = events.until("sample", |e| e["kind"] == "emulators");
    assert_eq!(sample["id"], made["id"]);
    assert!(sample["emulator"]["directions"].is_array());
    m.ask("POST", &format!("{path}/flows/weir/stop"), None).expect(200);
    assert_eq!(m.get(&path)["stopped_flows"], json!(["weir"]));
    m.ask("POST", &format!("{path}/flows/unknown/stop"), None).expect(404);
    // The server ends, the emulator continues, and another server finds it.
    m.child.kill().unwrap();
    m.child.wait().unwrap();
    // The first test server may still be stopping.
    let again = Ui::start(dir.path(), Some((&lab, "m")), &["-p", "9350"]);
    assert_eq!(again.get(&path)["stopped_flows"], json!(["weir"]));
    assert_eq!(again.get("/emulators")["emulators"].as_array().unwrap().len(), 1);
    assert!(again.get(&path)["lab"].is_null(), "its lab has no name");
    again.ask("DELETE", &path, None).expect(204);
    assert_eq!(again.get("/emulators")["emulators"], json!([]));
    // A refusal has the emulator's message.
    let request = json!({ "interfaces": ["to-a", "lo"] });
    let refused = again.ask("POST", "/emulators", Some(request)).expect(422);
    assert!(refused["detail"].as_str().unwrap().contains("lo"), "{refused}");
}

#[test]
fn alarms_are_acknowledged_and_cleared_for_all_clients() {
    const TEST: &str = "alarms_are_acknowledged_and_cleared_for_all_clients";
    if effective_user_id() != 0 {
        return skip(TEST, "needs root");
    }
    let spec = LabSpec { topology: Topology::MIDDLE, ..LabSpec::default() };
    let lab = Lab::up(&spec).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let m = Ui::start(dir.path(), Some((&lab, "m")), &[]);
    let link = |state: &str| {
        let command = format!("link set to-b {state}");
        let done = lab.command("m", "ip").unwrap().args(command.split(' ')).status().unwrap();
        assert!(done.success());
    };
    let request = json!({ "interfaces": ["to-a", "to-b"] });
    let made = m.ask("POST", "/emulators", Some(request)).expect(201);
    let path = format!("/emulators/{}", made["id"].as_str().unwrap());
    let down = |report: &Value| -> Vec<Value> {
        let all = report["alarms"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|a| a["kind"] == "link-down").collect()
    };
    let mut events = m.events(&format!("?samples=emulators:{}", made["id"].as_str().unwrap()));
    link("down");
    let is_down = |e: &Value| e["alarm"]["kind"] == "link-down";
    let raised = events.until("alarm", is_down);
    assert_eq!(
        (&raised["alarm"]["object"], &raised["alarm"]["active"]),
        (&json!("to-b"), &json!(true))
    );
    let which = json!({ "kind": "link-down", "object": "to-b" });
    let verb = |verb: &str, which: &Value| {
        m.ask("POST", &format!("{path}/alarms/{verb}"), Some(which.clone())).expect(200)["alarms"]
            .clone()
    };
    assert_eq!(verb("clear", &which), 0, "an active one stays");
    assert_eq!(verb("acknowledge", &which), 1);
    assert_eq!(verb("acknowledge", &which), 0, "it is acknowledged already");
    // All others: a busy host may have raised some.
    let others = verb("acknowledge", &json!({})).as_u64().unwrap();
    let told =
        events.until("alarm", |e| is_down(e) && e["alarm"]["acknowledged_at_seconds"].is_number());
    let [alarm] = &down(&m.get(&format!("{path}/counters")))[..] else { panic!("one alarm") };
    assert_eq!(told["alarm"], *alarm);
    assert!(alarm["acknowledged_at_seconds"].as_f64() >= alarm["at_seconds"].as_f64());
    link("up");
    events.until("alarm", |e| is_down(e) && e["alarm"]["active"] == false);
    assert_eq!(verb("clear", &which), 1);
    assert!(down(&m.get(&format!("{path}/counters"))).is_empty());
    events.until("sample", |e| e["id"] == made["id"] && down(&e["emulator"]).is_empty());
    let thresholds = format!("{path}/alarms/thresholds");
    let mut wanted = m.get(&thresholds);
    assert_eq!(wanted["late_packets"], 0);
    wanted["late_packets"] = json!(100);
    assert_eq!(m.ask("PUT", &thresholds, Some(wanted.clone())).expect(200), wanted);
    let refused = m.ask("PUT", &thresholds, Some(json!({ "cpu_percentage": 0 }))).expect(422);
    assert_eq!(refused["errors"][0]["field"], "/cpu_percentage");
    assert_eq!(m.get(&thresholds), wanted);
    events.until("sample", |e| e["emulator"]["alarm_thresholds"] == wanted);
    let changes = m.get(&format!("{path}/log"))["changes"].as_array().unwrap().len();
    let wanted = 4 + usize::from(others > 0);
    assert_eq!(changes, wanted, "the start, verbs that changed alarms, the thresholds");
    m.ask("DELETE", &path, None).expect(204);
    m.ask("POST", &format!("{path}/alarms/clear"), Some(json!({}))).expect(404);
}

#[test]
fn a_packet_trace_is_written_in_the_servers_directory_and_deleted_with_its_emulator() {
    const TEST: &str =
        "a_packet_trace_is_written_in_the_servers_directory_and_deleted_with_its_emulator";
    if effective_user_id() != 0 {
        return skip(TEST, "needs root");
    }
    let spec = LabSpec { topology: Topology::MIDDLE, ..LabSpec::default() };
    let lab = Lab::up(&spec).unwrap();
    let (dir, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _b = Ui::start(far.path(), Some((&lab, "b")), &[]);
    let a = Ui::start(far.path(), Some((&lab, "a")), &[]);
    let m = Ui::start(dir.path(), Some((&lab, "m")), &[]);
    let start = |more: Value| {
        let mut request = json!({ "interfaces": ["to-a", "to-b"] });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        m.ask("POST", "/emulators", Some(request))
    };
    // A client can't choose the path.
    let named = start(json!({ "packet_trace": "/tmp/x" })).expect(422);
    assert_eq!(named["errors"][0]["field"], "/packet_trace", "{named}");
    let bare = start(json!({})).expect(201);
    let path = format!("/emulators/{}", bare["id"].as_str().unwrap());
    assert_eq!(bare["packet_trace"], "none");
    let log = |path: &str, on: bool| {
        m.ask("PUT", &format!("{path}/flows/other/trace"), Some(json!({ "on": on })))
    };
    let refused = log(&path, true).expect(409);
    assert_eq!(refused["errors"][0]["field"], "/on", "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("\"packet_trace\": true"), "{refused}");
    m.ask("GET", &format!("{path}/packet-trace"), None).expect(404);
    m.ask("DELETE", &path, None).expect(204);
    let made = start(json!({ "packet_trace": true })).expect(201);
    let id = made["id"].as_str().unwrap();
    let path = format!("/emulators/{id}");
    assert_eq!(made["packet_trace"], "stored");
    let send = |packets: u64| {
        let b = lab.host("b").unwrap().ipv4.to_string();
        let mut events = a.events("?topics=tests");
        let request = json!({ "host": b, "plan": udp(packets, "2000pps") });
        let test = a.ask("POST", "/tests", Some(request)).expect(201);
        events.until("state", |e| e["id"] == test["id"] && e["state"] == "ended");
    };
    send(500);
    let records = || -> Vec<(u64, Option<u64>)> {
        let reply = m.ask("GET", &format!("{path}/packet-trace"), None);
        assert_eq!(reply.status, 200);
        let mut reader = weir_wire::packets::PacketLogReader::new(&reply.body[..]).unwrap();
        let native = |(record, judged): (weir_wire::packets::Record, Option<_>)| {
            let judged: weir_wire::packets::Judged = judged.unwrap();
            (record.sequence, judged.native_sequence)
        };
        std::iter::from_fn(|| reader.read_judged().unwrap().map(native)).collect()
    };
    let data = |records: &[(u64, Option<u64>)]| {
        records.iter().filter(|(_, native)| native.is_some_and(|n| (400..500).contains(&n))).count()
    };
    until("the packet trace has the test's last packets", || data(&records()) >= 100);
    log(&path, false).expect(204);
    let counters = m.get(&format!("{path}/counters"));
    assert_eq!(counters["impairment"]["flows"][0]["traced"], false, "{counters}");
    let counters = m.get(&format!("{path}/counters"));
    let before = counters["packet_trace"]["records"].as_u64().unwrap();
    send(500);
    let counters = m.get(&format!("{path}/counters"));
    assert_eq!(counters["packet_trace"]["records"].as_u64(), Some(before), "{counters}");
    assert_eq!(counters["packet_trace"]["limit_bytes"], 1 << 30);
    let file = dir.path().join(format!("data/emulators/{id}.packets"));
    assert!(file.exists());
    m.ask("POST", &format!("{path}/stop"), None).expect(200);
    let lines = m.ask("GET", &format!("{path}/packet-trace/configurations"), None);
    assert_eq!((lines.status, lines.text().lines().count()), (200, 1));
    m.ask("DELETE", &path, None).expect(204);
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 0);
    m.ask("GET", &format!("{path}/packet-trace"), None).expect(404);
    // The packet trace of an emulator that ended by itself is stored until the emulator is removed.
    let made = start(json!({ "packet_trace": true, "duration_seconds": 1 })).expect(201);
    let path = format!("/emulators/{}", made["id"].as_str().unwrap());
    until("it has ended", || m.ask("GET", &path, None).status == 404);
    assert_eq!(m.ask("GET", &format!("{path}/packet-trace"), None).status, 200);
    m.ask("DELETE", &path, None).expect(204);
    m.ask("DELETE", &path, None).expect(404);
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 0);
    // Packet traces of killed emulators, whose sockets have no listener, are deleted like others.
    let most = m.get("/system")["limits"]["emulators"].as_u64().unwrap();
    for n in 0..most + 2 {
        std::fs::write(file.with_file_name(format!("k{n}.packets")), "").unwrap();
        let socket = dir.path().join(format!("runtime/impair-k{n}.socket"));
        drop(std::os::unix::net::UnixListener::bind(socket).unwrap());
    }
    let made = start(json!({ "packet_trace": true })).expect(201);
    let left = std::fs::read_dir(file.parent().unwrap()).unwrap().flatten();
    let left = left.filter(|e| e.file_name().as_encoded_bytes().starts_with(b"k")).count();
    assert_eq!(left as u64, most - 1, "with the new one the maximum number of emulators");
    m.ask("DELETE", &format!("/emulators/{}", made["id"].as_str().unwrap()), None).expect(204);
}

#[test]
fn a_named_lab_and_its_emulator_are_reported_by_their_names() {
    const TEST: &str = "a_named_lab_and_its_emulator_are_reported_by_their_names";
    if effective_user_id() != 0 {
        return skip(TEST, "needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let words = ["-p", &*port, "-B", "127.0.0.1"];
    let ui = Ui::start(dir.path(), None, &words);
    let lab = json!({ "name": "the_lab", "middle": true });
    ui.ask("POST", "/labs", Some(lab.clone())).expect(201);
    // Remove the lab before the assertions, which may fail.
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let refused = ui.ask("POST", "/labs", Some(lab)).expect(409);
        assert_eq!(refused["errors"][0]["field"], "/name", "{refused}");
        let wrong = json!({ "interfaces": ["to-a", "to-z"], "lab": "the_lab/m" });
        let refused = ui.ask("POST", "/emulators", Some(wrong)).expect(422);
        assert_eq!(refused["errors"][0]["field"], "/interfaces/1", "{refused}");
        let wanted = json!({ "interfaces": ["to-a", "to-b"], "lab": "the_lab/m" });
        let made = ui.ask("POST", "/emulators", Some(wanted)).expect(201);
        assert_eq!(made["lab"], "the_lab/m");
        // Another server finds the lab too.
        let other = Ui::start(dir.path(), None, &["-p", &free_port(), "-B", "127.0.0.1"]);
        let path = format!("/emulators/{}", made["id"].as_str().unwrap());
        assert_eq!(other.get(&path)["lab"], "the_lab/m");
    }));
    ui.ask("DELETE", "/labs/the_lab", None).expect(204);
    if let Err(why) = found {
        std::panic::resume_unwind(why);
    }
}

#[test]
fn a_server_is_started_in_a_host_of_a_lab_and_stopped() {
    const TEST: &str = "a_server_is_started_in_a_host_of_a_lab_and_stopped";
    if effective_user_id() != 0 {
        return skip(TEST, "needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let ui = Ui::start(dir.path(), None, &["-p", &free_port(), "-B", "127.0.0.1"]);
    let lab = || ui.ask("POST", "/labs", Some(json!({ "name": "served" }))).expect(201);
    let host = |name: &str| {
        let labs = ui.get("/labs");
        let hosts = labs["labs"][0]["hosts"].as_array().unwrap().clone();
        hosts.into_iter().find(|h| h["name"] == name).unwrap()
    };
    lab();
    // Remove the lab before the assertions, which may fail.
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let at = "/labs/served/hosts/b/server";
        ui.ask("DELETE", at, None).expect(404);
        for absent in ["/labs/served/hosts/z/server", "/labs/none/hosts/b/server"] {
            ui.ask("POST", absent, None).expect(404);
        }
        let server = ui.ask("POST", at, None).expect(201);
        assert_eq!((&server["port"], &server["open"]), (&json!(9347), &json!(true)), "{server}");
        assert_eq!(ui.ask("POST", at, None).expect(409)["type"], "urn:weir:problem:not-ended");
        assert_eq!(host("b")["server"], server);
        assert!(host("a")["server"].is_null());
        let plan = json!({ "schema": "weir.plan/1", "connection": [{ "name": "x", "transport": "tcp", "duration": "200ms" }] });
        let test = json!({ "host": host("b")["ipv4"], "from": "served/a", "plan": plan });
        let test = ui.ask("POST", "/tests", Some(test)).expect(201);
        let test = format!("/tests/{}", test["id"].as_str().unwrap());
        until("the test has a record", || ui.get(&test)["state"] == "ended");
        ui.ask("DELETE", at, None).expect(204);
        assert!(host("b")["server"].is_null());
        // Started again, it ends with its lab.
        ui.ask("POST", at, None).expect(201);
        ui.ask("DELETE", "/labs/served", None).expect(204);
        lab();
        until("nothing is left of it", || host("b")["server"].is_null());
        ui.ask("POST", at, None).expect(201);
    }));
    ui.ask("DELETE", "/labs/served", None).expect(204);
    if let Err(why) = found {
        std::panic::resume_unwind(why);
    }
}

/// The network namespaces, other than this program's, of processes that were started with this directory, by their environment.
fn namespaces_of(directory: &Path) -> BTreeSet<PathBuf> {
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let mark = format!("WEIR_DATA_DIR={}", directory.join("data").display());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let is_of = |path: &Path| {
        let words = std::fs::read(path.join("environ")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    // Skip a process that has ended in the meantime.
    let found = all.map(|entry| entry.path()).filter(|path| is_of(path));
    found
        .filter_map(|path| std::fs::read_link(path.join("ns/net")).ok())
        .filter(|at| *at != own)
        .collect()
}

#[test]
fn a_stopped_demo_leaves_nothing_behind() {
    const TEST: &str = "a_stopped_demo_leaves_nothing_behind";
    if effective_user_id() != 0 {
        return skip(TEST, "needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let ui = Ui::start(dir.path(), None, &["-p", &free_port(), "-B", "127.0.0.1"]);
    let mut events = ui.events("?topics=demo");
    ui.ask("POST", "/demo", Some(json!({}))).expect(202);
    until("its hosts are there", || !namespaces_of(dir.path()).is_empty());
    ui.ask("POST", "/demo/stop", None).expect(202);
    events.until("state", |e| e["kind"] == "demo" && e["state"] == "interrupted");
    until("its hosts are gone", || namespaces_of(dir.path()).is_empty());
    let demo = ui.get("/demo");
    assert_eq!(
        (&demo["state"], &demo["exit_code"]),
        (&json!("interrupted"), &json!(130)),
        "{demo}"
    );
    assert!(demo["result"].is_null(), "{demo}");
    assert_eq!(ui.get("/labs")["labs"], json!([]));
}

#[test]
fn after_the_keepalive_timeout_packets_are_forwarded_unchanged() {
    const TEST: &str = "after_the_keepalive_timeout_packets_are_forwarded_unchanged";
    if effective_user_id() != 0 {
        return skip(TEST, "needs root");
    }
    let spec = LabSpec { topology: Topology::MIDDLE, ..LabSpec::default() };
    let lab = Lab::up(&spec).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut m = Ui::start(dir.path(), Some((&lab, "m")), &[]);
    let request = json!({ "interfaces": ["to-a", "to-b"], "keepalive_timeout_seconds": 1 });
    let made = m.ask("POST", "/emulators", Some(request)).expect(201);
    assert_eq!(made["keepalive_timeout_seconds"], 1);
    m.child.kill().unwrap();
    m.child.wait().unwrap();
    let log = dir.path().join(format!("runtime/impair-{}.log", made["id"].as_str().unwrap()));
    until("the alarm of the keepalive timeout", || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        !messages(&log, "keepalive-expired").is_empty()
    });
    let m = Ui::start(dir.path(), Some((&lab, "m")), &["-p", "9350"]);
    let path = format!("/emulators/{}", made["id"].as_str().unwrap());
    assert_eq!(m.get(&path)["stopped_flows"], json!(["other"]));
    m.ask("DELETE", &path, None).expect(204);
}

#[test]
fn a_client_that_reads_nothing_does_not_renew_the_keepalive_timer() {
    const TEST: &str = "a_client_that_reads_nothing_does_not_renew_the_keepalive_timer";
    if effective_user_id() != 0 {
        return skip(TEST, "needs root");
    }
    let spec = LabSpec { topology: Topology::MIDDLE, ..LabSpec::default() };
    let lab = Lab::up(&spec).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let m = Ui::start(dir.path(), Some((&lab, "m")), &[]);
    let request = json!({ "interfaces": ["to-a", "to-b"], "keepalive_timeout_seconds": 1 });
    let made = m.ask("POST", "/emulators", Some(request)).expect(201);
    let id = made["id"].as_str().unwrap();
    // One client reads other events; one requests the emulator's samples and reads nothing.
    let _elsewhere = m.events("?samples=tests");
    let _dead = m.events(&format!("?samples=emulators:{id}"));
    let log = dir.path().join(format!("runtime/impair-{id}.log"));
    until("the alarm of the keepalive timeout", || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        !messages(&log, "keepalive-expired").is_empty()
    });
    m.ask("DELETE", &format!("/emulators/{id}"), None).expect(204);
}

#[test]
fn an_experiment_outlives_its_server_and_is_resumed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let words = ["-p", &*port, "-B", "127.0.0.1"];
    let sweep = json!({
        "host": format!("127.0.0.1:{port}"), "plan": udp(100, "200pps"), "over": ["payload=100,200,300"], "runs": 1000,
    });
    // Half a second each, so that the server is stopped before they end, however slow it is.
    let first = Ui::start(dir.path(), None, &words);
    let begun = first.ask("POST", "/sweeps", Some(sweep)).expect(201);
    // Its runs can be found by its id while it runs.
    let label = format!("/runs?tag=experiment={}", begun["id"].as_str().unwrap());
    until("a run is done", || first.get(&label)["total"].as_u64() >= Some(1));
    drop(first);
    let ui = Ui::start(dir.path(), None, &words);
    let open = || -> Option<Value> {
        let list = ui.get("/experiments");
        list["experiments"].as_array().unwrap().iter().find(|e| e["resumable"] == true).cloned()
    };
    until("it is offered", || open().is_some());
    let one = open().unwrap();
    assert_eq!((&one["name"], &one["state"]), (&json!("sweep"), &json!("interrupted")), "{one}");
    let mut events = ui.events("?topics=experiments");
    let path = format!("/experiments/{}", one["id"].as_str().unwrap());
    assert_eq!(one["id"], begun["id"], "the id that it was started with");
    let later = ui.ask("POST", &format!("{path}/resume"), None).expect(202);
    assert_eq!(later["id"], one["id"]);
    let total = || ui.get("/runs")["total"].as_u64();
    let before = total();
    until("it goes on", || total() > before);
    ui.ask("POST", &format!("{path}/stop"), None).expect(202);
    events.until("state", |e| e["id"] == later["id"] && e["state"] == "interrupted");
    let ended = ui.get(&path);
    assert_eq!(
        (&ended["outcome"]["status"], &ended["resumable"]),
        (&json!("interrupted"), &json!(true)),
        "{ended}"
    );
    // The same experiment, with the runs of both sessions; completed runs were not repeated.
    assert_eq!(ended["outcome"]["id"], one["id"]);
    let runs = ended["outcome"]["steps"][0]["runs"].as_array().unwrap();
    let total = total().unwrap();
    assert!(runs.len() as u64 >= total - 1, "{} of {total} runs: {ended}", runs.len());
    let oldest =
        ui.get(&format!("/runs?limit={total}"))["runs"].as_array().unwrap().last().unwrap()["id"]
            .clone();
    assert!(runs.iter().any(|run| run["id"] == oldest), "{oldest} is of the first server: {ended}");
}
