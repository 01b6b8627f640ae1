//! `weir impair serve` and `--on`: emulators are started, listed, controlled and ended by a client of the network.

use crate::common;
use crate::impair_path;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{
    Ended, Running, default_signals, events, messages, refusal_in, run, signal, until, wait,
};
use impair_path::{Path, round_trips};
use serde_json::{Value, json};
use weir_jobs::{EmulatorAnswer, EmulatorJob, EmulatorRequest};
use weir_model::Refusal;
use weir_traffic::{Key, RequestClient, Service};

/// The service of `weir impair serve`, for a client that sends what the command does not.
const SERVICE: Service =
    Service { name: "emulators", max_request_bytes: 16 << 20, max_answer_bytes: 1 << 20 };
/// Only a broken test takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `weir impair serve` in the middle of a path.
struct Server<'p> {
    path: &'p Path,
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    /// The data of its event `listening`.
    listening: Value,
}

/// The command `weir impair …` in the middle, with the key of the test.
fn client(path: &Path, words: &[&str]) -> Command {
    let mut command = path.weir("m", &["impair"]);
    command.args(words).args(["--on", "127.0.0.1", "--key-file"]).arg(path.file("key"));
    command
}

impl<'p> Server<'p> {
    fn start(path: &'p Path, words: &[&str]) -> Server<'p> {
        let key = path.file("key");
        if !key.exists() {
            let mut keygen = path.weir("m", &["keygen", "--output"]);
            keygen.arg(&key);
            run(keygen).good();
        }
        let mut command = path.weir("m", &["impair", "serve"]);
        command.args(words);
        if !words.contains(&"--bind") {
            command.arg("--key-file").arg(&key);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        default_signals(&mut command);
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let listening = events(&line).into_iter().find(|event| event["event"] == "listening");
        let listening = listening.unwrap_or_else(|| panic!("{line}"))["data"].clone();
        Server { path, child, stderr, listening }
    }

    fn run(&self, words: &[&str]) -> Ended {
        run(client(self.path, words))
    }

    /// The emulators that it lists.
    fn list(&self) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.run(&["list", "--json"]).good()).unwrap();
        listed["emulators"].as_array().unwrap().clone()
    }

    /// Sends a request as it is.
    fn ask(&self, request: &EmulatorRequest) -> EmulatorAnswer {
        let key: Key =
            std::fs::read_to_string(self.path.file("key")).unwrap().trim().parse().unwrap();
        let asked = self.path.lab.run_in("m", || {
            let client = RequestClient::connect("127.0.0.1", 9349, Some(&key), &SERVICE, PATIENCE);
            client.unwrap().ask(request, PATIENCE).unwrap()
        });
        asked.unwrap()
    }

    fn refused(&self, request: &EmulatorRequest) -> Refusal {
        match self.ask(request) {
            EmulatorAnswer::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    /// Sends it a signal and waits for its end; returns its exit code and the rest of its messages.
    fn end(mut self, name: &str) -> (Option<i32>, String) {
        signal(name, &self.child);
        let status = wait(&mut self.child, "weir impair serve");
        let mut rest = String::new();
        while self.stderr.read_line(&mut rest).unwrap() > 0 {}
        (status.code(), rest)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What an emulator changes at the interfaces.
fn settings(path: &Path) -> [(std::collections::BTreeSet<String>, u64); 2] {
    ["to-a", "to-b"].map(|i| (path.offloads(i), path.promiscuity(i)))
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path.file("runtime")).unwrap().next().is_none()
}

#[test]
fn an_emulator_there_is_controlled_as_one_here() {
    let test = "an_emulator_there_is_controlled_as_one_here";
    let Some(path) = Path::up(test, &["ip", "ping"]) else { return };
    let before = settings(&path);
    let server = Server::start(&path, &[]);
    assert_eq!(server.listening["open"], false);
    assert_eq!(server.list(), [] as [Value; 0]);
    let none = server.run(&["show"]);
    assert_eq!((none.status.code(), none.refusal().exit_code), (Some(3), 3));

    let started = server.run(&["to-a", "to-b", "delay 20ms", "--seed", "7", "--detach"]).good();
    assert!(started.contains("seed 0x7"), "{started}");
    assert_ne!(settings(&path), before);
    let listed = server.list();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["interfaces"], json!(["to-a", "to-b"]));
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    assert!(started.contains(&format!("emulator {id} on 127.0.0.1:9349")), "{started}");
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    let pinged = path.tool("a", &["ping", "-c", "3", "-i", "0.2", &b]).good();
    assert!(round_trips(&pinged).iter().all(|time| *time >= 40.0), "{pinged}");

    // Each verb prints the same, and has the same exit code, as on the emulator's own host.
    for words in [
        &["set", "--both", "delay 1ms, loss 1%"][..],
        &["stop", "other"],
        &["start"],
        &["reset"],
        &["acknowledge"],
        &["clear", "--json"],
        &["thresholds", "--late-packets", "5"],
        &["show"],
        &["show", "--json"],
        &["save"],
        &["trigger"],
        &["trace", "off"],
        &["capture", "off"],
        &["log", "off", "--flow", "nosuch"],
        &["set", "--both", "loss 1%", "--flow", "nosuch"],
    ] {
        let there = server.run(words);
        let here = path.verb(words);
        // Each change has a number of its own.
        let text = |ended: &Ended| match ended.stdout.strip_prefix("configuration ") {
            Some(rest) => rest.split_once(' ').unwrap().1.to_owned(),
            None => ended.stdout.clone(),
        };
        assert_eq!(there.status.code(), here.status.code(), "{words:?}: {there:?} {here:?}");
        if matches!(words[0], "acknowledge" | "clear") && here.status.success() {
            // On a busy machine there is an alarm of late packets, for the first of the two.
            continue;
        }
        if here.status.success() {
            assert_eq!(text(&there), text(&here), "{words:?}");
        } else {
            assert_eq!(there.refusal().code, here.refusal().code, "{words:?}");
        }
    }
    let report: Value =
        serde_json::from_str(&server.run(&["--id", &id, "stats", "--json"]).good()).unwrap();
    assert_eq!(report["interfaces"], json!(["to-a", "to-b"]));
    assert!(report["impairment"]["flows"][0]["counters"]["received_packets"].as_u64() >= Some(3));

    // An interface has one emulator, on whichever host it was started.
    let second = server.run(&["to-a", "to-b", "delay 1ms", "--detach"]);
    let refused = second.refusal();
    assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("interfaces"), 2));

    server.run(&["end", "--id", &id]).good();
    assert_eq!((server.list().len(), settings(&path) == before), (0, true));
    let again = server.run(&["end"]);
    assert_eq!(again.status.code(), Some(3), "{again:?}");
    assert!(is_empty(&path));
}

#[test]
fn emulators_of_other_programs_are_listed_and_ended_too() {
    let test = "emulators_of_other_programs_are_listed_and_ended_too";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let server = Server::start(&path, &[]);
    let local = path.emulator(&["--both", "delay 1ms"]);
    let id = local.child.id().to_string();
    assert_eq!(server.list()[0]["id"], *id);
    assert_eq!(path.verb(&["list"]).good(), server.run(&["list"]).good());
    server.run(&["end"]).good();
    assert_eq!(local.ended().0, Some(0));
    // The same here.
    let local = path.emulator(&["--both", "delay 1ms"]);
    path.verb(&["end", "--id", &local.child.id().to_string()]).good();
    assert_eq!(local.ended().0, Some(0));
    let unknown = path.verb(&["end", "--id", "../x"]);
    let refused = unknown.refusal();
    assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--id"), 2));
}

#[test]
fn an_attached_client_ends_its_emulator_and_has_its_exit_code() {
    let test = "an_attached_client_ends_its_emulator_and_has_its_exit_code";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let before = settings(&path);
    let server = Server::start(&path, &[]);
    let start = |words: &[&str]| {
        let words = [&["to-a", "to-b", "delay 1ms", "--json"], words].concat();
        let client = Running::start(client(&path, &words));
        until("it is listed", || server.list().len() == 1);
        client
    };
    for (name, code) in [("INT", 130), ("TERM", 0)] {
        let client = start(&[]);
        signal(name, client.child());
        let ended = client.finish();
        assert_eq!(ended.status.code(), Some(code), "{}", ended.stderr);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(report["directions"].as_array().unwrap().len(), 2);
        assert_eq!((server.list().len(), settings(&path) == before), (0, true));
    }
    let ended = start(&["--duration", "1s"]).finish();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    // Ended by another client.
    let first = start(&[]);
    server.run(&["end"]).good();
    let ended = first.finish();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(serde_json::from_str::<Value>(&ended.stdout).is_ok());
    // A client that is killed leaves its emulator running.
    let killed = start(&[]);
    signal("KILL", killed.child());
    killed.finish();
    assert_eq!(server.list().len(), 1);
    server.run(&["end"]).good();
    let gone = start(&[]);
    path.tool("m", &["ip", "link", "del", "dev", "to-b"]).good();
    let ended = gone.finish();
    // Standard output has the report.
    let refused = refusal_in(&ended.stderr).unwrap();
    assert_eq!((ended.status.code(), refused.code.as_str()), (Some(3), "interface-gone"));
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(report["end_reason"].is_string(), "{report}");
}

#[test]
fn the_end_of_the_server_leaves_no_emulator_and_no_setting() {
    let test = "the_end_of_the_server_leaves_no_emulator_and_no_setting";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let before = settings(&path);
    for (name, code) in [("TERM", Some(0)), ("INT", Some(130)), ("KILL", None)] {
        let server = Server::start(&path, &[]);
        server.run(&["to-a", "to-b", "delay 1ms", "--detach"]).good();
        assert_ne!(settings(&path), before);
        let (ended, _) = server.end(name);
        assert_eq!(ended, code);
        // A killed server's emulator notices it by itself.
        until("nothing is left", || is_empty(&path) && settings(&path) == before);
        let absent = run(client(&path, &["list"]));
        let refused = absent.refusal();
        assert_eq!((absent.status.code(), refused.exit_code), (Some(3), 3));
    }
    // A client that follows its emulator notices it too.
    let server = Server::start(&path, &[]);
    let attached = Running::start(client(&path, &["to-a", "to-b", "delay 1ms"]));
    until("it is listed", || server.list().len() == 1);
    server.end("KILL");
    let ended = attached.finish();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    assert_eq!(messages(&ended.stderr, "emulator-left").len(), 1, "{}", ended.stderr);
    until("nothing is left", || is_empty(&path) && settings(&path) == before);
}

#[test]
fn strangers_files_and_too_many_emulators_are_refused() {
    let test = "strangers_files_and_too_many_emulators_are_refused";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let server = Server::start(&path, &["--max-emulators", "1"]);
    let key = path.file("other");
    let mut keygen = path.weir("m", &["keygen", "--output"]);
    keygen.arg(&key);
    run(keygen).good();
    let other = key.to_str().unwrap();
    for words in [
        &["impair", "list", "--on", "127.0.0.1"][..],
        &["impair", "list", "--on", "127.0.0.1", "--key-file", other],
        &["impair", "to-a", "to-b", "--on", "127.0.0.1", "--key-file", other],
        &["test", "127.0.0.1", "-p", "9349", "-t", "1", "--no-store", "--key-file", other],
    ] {
        let ended = run(path.weir("m", words));
        assert_eq!(ended.status.code(), Some(3), "{words:?}: {ended:?}");
    }
    assert!(is_empty(&path));
    // No file of the server is named, and a key has a purpose.
    for (words, field) in [
        (&["to-a", "to-b", "--packet-trace", "/x"][..], "--packet-trace"),
        (&["to-a", "to-b", "--capture", "/x"], "--capture"),
        (&["to-a", "to-b", "--log", "/x"], "--log"),
        (&["capture", "on", "/x"], "--on"),
        (&["log", "on", "/x"], "--on"),
        (&["to-a", "to-b", "--control-socket", "/x"], "--control-socket"),
        (&["--pcap-in", "/x", "--pcap-out", "/y"], "--pcap-in"),
        (&["--local", "to-a", "--to", "192.0.2.0/24"], "--local"),
        (&["show", "--socket", "/x"], "--socket"),
    ] {
        let ended = server.run(words);
        let refused = ended.refusal();
        assert_eq!((ended.status.code(), refused.field.as_deref()), (Some(2), Some(field)));
    }
    let alone = run(path.weir("m", &["impair", "show", "--key-file", other]));
    let refused = alone.refusal();
    assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--key-file"), 2));
    // Nor by a client of another make.
    let job = || EmulatorJob::new(["to-a", "to-b"].map(Into::into), Default::default());
    let start = |job| EmulatorRequest::Start { job: Box::new(job) };
    let traced = EmulatorJob { packet_trace: Some("/tmp/x".into()), ..job() };
    assert_eq!(server.refused(&start(traced)).field.as_deref(), Some("packet_trace"));
    let ask = |id: Option<&str>, request| EmulatorRequest::Ask { id: id.map(Into::into), request };
    for id in ["../../etc/passwd", "1"] {
        let refused = server.refused(&ask(Some(id), json!({ "verb": "show" })));
        assert_eq!((refused.given.as_deref(), refused.exit_code), (Some(id), 2));
        let end = EmulatorRequest::End { id: Some(id.into()) };
        assert_eq!(server.refused(&end).given.as_deref(), Some(id));
    }
    assert!(matches!(server.ask(&start(job())), EmulatorAnswer::Started { .. }));
    for verb in ["watch", "drops", "record"] {
        let refused = server.refused(&ask(None, json!({ "verb": verb })));
        assert_eq!(
            (refused.field.as_deref(), refused.given.as_deref()),
            (Some("verb"), Some(verb))
        );
    }
    assert_eq!(server.refused(&start(job())).code, "limit");
    // A message longer than a control socket's is refused by its length.
    let long = ask(None, json!({ "verb": "set", "both": "x".repeat(16 << 20) }));
    assert_eq!(server.refused(&long).code, "request");
    assert_eq!(server.list().len(), 1);
}

#[test]
fn without_a_key_a_server_listens_on_loopback_only() {
    let test = "without_a_key_a_server_listens_on_loopback_only";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let ended = run(path.weir("m", &["impair", "serve", "--bind", "0.0.0.0"]));
    let refused = ended.refusal();
    assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--bind"), 2));
    let server = Server::start(&path, &["--bind", "127.0.0.1"]);
    assert_eq!(server.listening, json!({ "addresses": ["127.0.0.1:9349"], "open": true }));
    run(path.weir("m", &["impair", "list", "--on", "127.0.0.1"])).good();
    let with_key = run(client(&path, &["list"]));
    assert_eq!(with_key.status.code(), Some(3), "{with_key:?}");
    let (code, rest) = server.end("TERM");
    assert_eq!(code, Some(0), "{rest}");
}
