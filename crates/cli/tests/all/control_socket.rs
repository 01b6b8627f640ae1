//! Connections of a running test are started and stopped individually by `weir ctl`.

use crate::faults_common;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use faults_common::*;
use serde_json::Value;

const PLAN: &str = r#"
schema = "weir.plan/1"
interval = "100ms"
[[connection]]
name = "voice"
transport = "udp"
rate = "500pps"
duration = "0s"
[[connection]]
name = "later"
transport = "udp"
rate = "500pps"
duration = "0s"
autostart = false
[[connection]]
name = "back"
transport = "udp"
direction = "reverse"
rate = "500pps"
duration = "0s"
autostart = false
"#;

fn ctl(socket: &Path, words: &[&str]) -> (i32, String) {
    let output = weir().args(["ctl", "--socket"]).arg(socket).args(words).output().unwrap();
    (output.status.code().unwrap(), out(&output) + &err(&output))
}

/// The state of a connection, as `status` reports it.
fn state(socket: &Path, name: &str) -> String {
    let (code, text) = ctl(socket, &["status", "--json", name]);
    assert_eq!(code, 0, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["flows"].as_array().unwrap().len(), 1);
    answer["flows"][0]["state"].as_str().unwrap().into()
}

#[test]
fn one_of_several_connections_is_started_and_stopped_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, plan) = (dir.path().join("socket"), dir.path().join("plan.toml"));
    let server = Serve::start(&[]);
    let text = PLAN.replacen("interval", &format!("port = {}\ninterval", server.port), 1);
    fs::write(&plan, text).unwrap();
    let mut command = weir();
    command.args(["test", "127.0.0.1", "--json-stream", "--no-store", "--plan"]);
    command.arg(&plan).arg("--control-socket").arg(&socket);
    let mut client = Watched::start(command);
    client.wait_for("interval", 2);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let states = || ["voice", "later", "back"].map(|name| state(&socket, name));
    assert_eq!(states(), ["started", "waiting", "waiting"]);
    // As text: one line for each.
    let text = ctl(&socket, &["status"]);
    let lines = "[  1] voice: started\n[  2] later: waiting\n[  3] back: waiting\n";
    assert_eq!(text, (0, lines.into()));

    let (code, text) = ctl(&socket, &["start", "unknown"]);
    let refused = refusal_in(&text).unwrap();
    assert_eq!((code, refused.exit_code), (2, 2), "{refused:?}");
    assert!(refused.message.contains("unknown"), "{refused:?}");
    assert!(refused.message.contains("voice, later, back"), "{refused:?}");
    // An invalid request is answered too, and the length of a line is limited.
    let mut stream = UnixStream::connect(&socket).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for bad in [
        "{}",
        "nonsense",
        r#"{"verb":"explode","connection":"voice"}"#,
        r#"{"verb":"status","x":1}"#,
    ] {
        stream.write_all(format!("{bad}\n").as_bytes()).unwrap();
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["ok"], false, "{bad}");
        assert!(answer["error"].is_string(), "{bad}");
    }

    for name in ["later", "back"] {
        assert_eq!(ctl(&socket, &["start", name]).0, 0);
        assert_eq!(state(&socket, name), "started");
    }
    let seen = client.count("interval");
    client.wait_for("interval", seen + 3);
    assert_eq!(ctl(&socket, &["stop", "voice"]).0, 0);
    until("voice ends", || state(&socket, "voice") == "finished");
    assert_eq!([state(&socket, "later"), state(&socket, "back")], ["started", "started"]);
    let seen = client.count("interval");
    client.wait_for("interval", seen + 3);
    // Without a name: all connections. Then the test is over.
    assert_eq!(ctl(&socket, &["stop"]).0, 0);
    assert_eq!(client.ended(), Some(0), "{}", client.errors());
    assert!(!socket.exists());
    let record = client.last("end");
    assert_eq!(record["status"], "complete");
    let packets = |i: usize| record["flows"][i]["receiver"]["packets"].as_u64().unwrap();
    assert!(packets(0) > 0 && packets(1) > 0 && packets(2) > 0, "{record}");
    // The record says why the connections ended when they did.
    let notes: Vec<&Value> = record["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|w| w["code"] == "stopped-by-request")
        .collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0]["text"].as_str().unwrap().starts_with("voice "), "{notes:?}");
    assert_eq!(notes[0]["flow"], 1);
    assert!(notes[1]["text"].as_str().unwrap().starts_with("2 "), "{notes:?}");
    assert!(notes[1]["flow"].is_null(), "{notes:?}");
    for flow in record["flows"].as_array().unwrap() {
        assert_eq!(flow["sender"]["packets"], flow["receiver"]["packets"], "{flow}");
    }
}

#[test]
fn rates_change_while_connections_run_at_either_end() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, plan) = (dir.path().join("socket"), dir.path().join("plan.toml"));
    let server = Serve::start(&[]);
    let text = r#"
schema = "weir.plan/1"
interval = "100ms"
[[connection]]
name = "there"
transport = "udp"
rate = "200pps"
duration = "0s"
[[connection]]
name = "back"
transport = "udp"
direction = "reverse"
rate = "200pps"
duration = "0s"
[[connection]]
name = "stream"
rate = "1M"
duration = "0s"
"#;
    fs::write(&plan, text.replacen("interval", &format!("port = {}\ninterval", server.port), 1))
        .unwrap();
    let mut command = weir();
    command.args(["test", "127.0.0.1", "--json-stream", "--no-store", "--plan"]);
    command.arg(&plan).arg("--control-socket").arg(&socket);
    let mut client = Watched::start(command);
    client.wait_for("interval", 3);
    // Delays could not be counted from scheduled times; an invalid rate; an unknown connection.
    for words in [&["rate", "0", "there"][..], &["rate", "-1M", "there"], &["rate", "1M", "none"]] {
        assert_eq!(ctl(&socket, words).0, 2, "{words:?}");
    }
    for name in ["there", "back"] {
        assert_eq!(ctl(&socket, &["rate", "1000pps", name]).0, 0);
    }
    assert_eq!(ctl(&socket, &["rate", "20M", "stream"]).0, 0);
    let seen = client.count("interval");
    client.wait_for("interval", seen + 10);
    assert_eq!(ctl(&socket, &["stop"]).0, 0);
    assert_eq!(client.ended(), Some(0), "{}", client.errors());
    let record = client.last("end");
    for (flow, rate) in
        record["flows"].as_array().unwrap().iter().zip(["1000pps", "1000pps", "20M"])
    {
        let sender = &flow["sender"];
        let changes = sender["rate_changes"].as_array().unwrap();
        assert_eq!(changes.len(), 1, "{flow}");
        assert_eq!(changes[0]["rate"], rate);
        // The mean of the two rates, and it was kept: every slot of both is sent or counted as missed.
        let asked = sender["asked_packets_per_second"].as_f64().unwrap();
        let at = changes[0]["at_seconds"].as_f64().unwrap();
        let number = |name: &str| sender[name].as_u64().unwrap();
        assert_eq!(number("intended_slots"), number("packets") + number("missed_slots"), "{flow}");
        if flow["transport"] == "udp" {
            let end = sender["end_seconds"].as_f64().unwrap();
            let start = sender["start_seconds"].as_f64().unwrap();
            let mean = (200.0 * (at - start) + 1000.0 * (end - at)) / (end - start);
            assert!((asked / mean - 1.0).abs() < 0.02, "{asked} {mean} {flow}");
            assert!(asked > 300.0, "{asked}");
        }
    }
}

#[test]
fn a_command_to_one_receiver_concerns_all_of_its_stream() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, plan) = (dir.path().join("socket"), dir.path().join("plan.toml"));
    let servers = [Serve::start(&[]), Serve::start(&[])];
    let to = |name: &str, server: &Serve| {
        format!(
            "[[connection]]\nname = \"{name}\"\nhost = \"127.0.0.1\"\nport = {}\ntransport = \"multicast\"\n\
             group = \"239.77.3.1\"\nrate = \"200pps\"\nduration = \"0s\"\n",
            server.port
        )
    };
    let head = "schema = \"weir.plan/1\"\ninterval = \"100ms\"\n";
    let text = [head, &to("near", &servers[0]), &to("far", &servers[1])].concat();
    fs::write(&plan, text).unwrap();
    let mut command = weir();
    command.args(["test", "--json-stream", "--no-store", "--plan"]);
    command.arg(&plan).arg("--control-socket").arg(&socket);
    let mut client = Watched::start(command);
    client.wait_for("interval", 3);
    assert_eq!(ctl(&socket, &["rate", "1000pps", "far"]).0, 0);
    let seen = client.count("interval");
    client.wait_for("interval", seen + 3);
    assert_eq!(ctl(&socket, &["stop", "far"]).0, 0);
    assert_eq!(client.ended(), Some(0), "{}", client.errors());
    let record = client.last("end");
    let flows = record["flows"].as_array().unwrap();
    for flow in flows {
        let changes = flow["sender"]["rate_changes"].as_array().unwrap();
        assert_eq!((changes.len(), &changes[0]["rate"]), (1, &"1000pps".into()), "{flow}");
        assert_eq!(flow["sender"]["packets"], flows[0]["sender"]["packets"], "one sender");
        assert_eq!(flow["receiver"]["packets"], flow["sender"]["packets"], "{flow}");
    }
    let stopped = record["warnings"].as_array().unwrap().iter();
    let stopped = stopped.filter(|w| w["code"] == "stopped-by-request").map(|w| &w["flow"]);
    let mut stopped: Vec<u64> = stopped.map(|flow| flow.as_u64().unwrap()).collect();
    stopped.sort_unstable();
    assert_eq!(stopped, [1, 2], "{record}");
}

#[test]
fn only_a_socket_left_by_a_killed_test_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let path = socket.to_str().unwrap();
    let server = Serve::start(&[]);
    let words = ["-u", "--no-store", "--control-socket", path];
    let mut client = server.running(&words);
    // A socket in use is not replaced.
    let output = server.client(&words).output().unwrap();
    let refused = refusal(&output);
    let parts = (refused.field.as_deref(), refused.given.as_deref());
    assert_eq!(parts, (Some("--control-socket"), Some(path)));
    assert_eq!(ctl(&socket, &["status"]).0, 0);
    client.signal(KILL);
    client.ended();
    assert!(socket.exists());
    assert_eq!(ctl(&socket, &["status"]).0, 3);
    let mut client = server.running(&words);
    assert_eq!(ctl(&socket, &["status"]).0, 0);
    client.signal(INT);
    assert_eq!(client.ended(), Some(130));
    assert!(!socket.exists());
    // A file that is not a socket is not replaced.
    fs::write(&socket, "precious").unwrap();
    let output = server.client(&words).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
}
