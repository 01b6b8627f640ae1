//! Invalid input and faults with two processes, signals and full disks: messages, exit codes and stored results.

use crate::faults_common;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use faults_common::*;
use serde_json::Value;

/// Asserts that a record is partial: complete JSON with the counts of this side.
fn assert_partial(record: &Value, status: &str) {
    assert_eq!(record["schema"], "weir.run/1");
    assert_eq!(record["status"], status);
    let sender = &record["flows"][0]["sender"];
    assert!(sender["packets"].as_u64().unwrap() > 0, "{sender}");
    assert!(!record["intervals"].as_array().unwrap().is_empty());
}

#[test]
fn an_invalid_plan_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.toml");
    let deep = format!("{{\"schema\":{}", "[".repeat(10_000));
    for text in [&b""[..], b"\0\x01", b"\xff\xfe\0", deep.as_bytes()] {
        fs::write(&path, text).unwrap();
        let output = weir().args(["test", "h", "--plan"]).arg(&path).output().unwrap();
        assert_eq!(refusal(&output).exit_code, 2);
    }
    let output = weir().args(["test", "h", "--plan"]).arg(dir.path()).output().unwrap();
    assert_eq!(refusal(&output).field.as_deref(), Some("--plan"));
    // The refusal lists the processors of this host as accepted.
    for more in [&[][..], &["--runs", "2"]] {
        let output = weir().args(["test", "h", "-A", "9999"]).args(more).output().unwrap();
        let refused = refusal(&output);
        assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--affinity"), 2));
    }
}

#[test]
fn an_unreachable_server_is_named_with_exit_code_3() {
    let port = free_port().to_string();
    for (words, code, given) in [
        (&["no-such-host.invalid", "-p", "9347"], "resolve", "no-such-host.invalid".to_string()),
        (&["127.0.0.1", "-p", &port], "connect", format!("127.0.0.1:{port}")),
        (&["::1", "-p", &port], "connect", format!("[::1]:{port}")),
        // The system's error would not say which argument is invalid.
        (&["fe80::1", "-p", "9347"], "resolve", "fe80::1".into()),
    ] {
        let output = weir().arg("test").args(words).output().unwrap();
        let refused = refusal(&output);
        assert_eq!((refused.code.as_str(), refused.exit_code), (code, 3), "{words:?}");
        assert_eq!(refused.given, Some(given), "{words:?}");
    }
    // Another program listens on the port.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let closes = std::thread::spawn(move || drop(other.accept()));
    let output = weir().args(["test", "127.0.0.1", "-p", &port]).output().unwrap();
    assert_eq!((refusal(&output).code.as_str(), refusal(&output).exit_code), ("peer-lost", 3));
    closes.join().unwrap();
}

#[test]
fn a_client_of_a_killed_server_stores_its_results() {
    let dir = tempfile::tempdir().unwrap();
    for words in [&["-u"][..], &["-u", "--bidir"], &[]] {
        let server = Serve::start(&[]);
        let mut command = server.client(&["--json-stream", "-t", "0", "-i", "0.1", "-b", "2M"]);
        command.args(words).env("WEIR_DATA_DIR", dir.path());
        let mut client = Watched::start(command);
        client.wait_for("interval", 2);
        server.process.signal(KILL);
        assert_eq!(client.ended(), Some(3), "{words:?}");
        assert!(client.lines.lock().unwrap().iter().all(Value::is_object));
        assert_partial(&client.last("end"), "partial");
        assert_eq!(client.last("error")["exit_code"], 3);
    }
    let runs = kept(dir.path());
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(|r| r["status"] == "partial"), "{runs:?}");
}

#[test]
fn a_killed_client_makes_room_for_the_next_immediately() {
    let server = Serve::start(&["--max-sessions", "1"]);
    for words in
        [&["-u", "-R", "--no-store"][..], &["-R", "--no-store"], &["--bidir", "--no-store"]]
    {
        let mut client = server.running(words);
        client.signal(KILL);
        assert_eq!(client.ended(), None);
        server.idle();
        server.still_serves();
        server.idle();
    }
    assert_eq!(server.process.count("refused"), 0);
    // While a test runs, the refusal names the limit.
    let holder = server.running(&["-u", "--no-store"]);
    let output = server.client(&["--no-store"]).output().unwrap();
    assert_eq!(refusal(&output).code, "peer-busy");
    drop(holder);
}

#[test]
fn sessions_leave_nothing_behind_in_a_busy_server() {
    let entries = |path: String| fs::read_dir(path).map_or(0, Iterator::count);
    let server = Serve::start(&[]);
    let id = server.process.id();
    let held = || (entries(format!("/proc/{id}/fd")), entries(format!("/proc/{id}/task")));
    if held().0 == 0 {
        eprintln!("SKIPPED sessions_leave_nothing_behind_in_a_busy_server: no /proc");
        return;
    }
    // The server is never idle: anything that is cleaned up only when idle would accumulate.
    let busy = server.running(&["-u", "--bidir", "--no-store"]);
    let before = held();
    for words in [&["-u", "-k", "20", "-P", "5"][..], &["-n", "9999", "-P", "5", "--bidir"]] {
        for _ in 0..4 {
            let output = server.client(&[words, &["--no-store"]].concat()).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        }
        let mut killed = server.running(&["-u", "-R", "-P", "5", "--no-store"]);
        killed.signal(KILL);
        killed.ended();
    }
    until("descriptors and threads are given back", || {
        let now = held();
        // Threads for blocking work stay for a while before they end; there are few of them.
        now.0 <= before.0 && now.1 <= before.1 + 3
    });
    drop(busy);
}

#[test]
fn a_signalled_client_stores_and_prints_its_results() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serve::start(&[]);
    for (signal, code) in [(INT, 130), (TERM, 143)] {
        for words in [&["-u"][..], &["-R"]] {
            let mut command = server.client(&["--json-stream", "-t", "0", "-i", "0.1", "-b", "2M"]);
            command.args(words).env("WEIR_DATA_DIR", dir.path());
            let mut client = Watched::start(command);
            client.wait_for("interval", 2);
            client.signal(signal);
            assert_eq!(client.ended(), Some(code), "{words:?}");
            let record = client.last("end");
            assert_partial(&record, "interrupted");
            // The record has the server's report too.
            let (sent, received) = (&record["flows"][0]["sender"], &record["flows"][0]["receiver"]);
            assert_eq!(sent["bytes"], received["bytes"], "{words:?}");
        }
    }
    assert_eq!(kept(dir.path()).len(), 4);
    // As one JSON object, and as text.
    let csv = dir.path().join("rows.csv");
    let base = ["-u", "-t", "0", "-i", "0.1", "--no-store", "--csv", csv.to_str().unwrap()];
    for form in ["--json", "--verbose"] {
        let _ = std::fs::remove_file(&csv); // of the form before
        let child = server.client(&[&base[..], &[form]].concat()).spawn().unwrap();
        // The test is running once the file has a row of an interval.
        until("the first interval", || {
            std::fs::read_to_string(&csv).is_ok_and(|text| text.contains("\ninterval,"))
        });
        let id = child.id().to_string();
        let killed = std::process::Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", err(&output));
        if form == "--json" {
            assert_eq!(
                serde_json::from_str::<Value>(&out(&output)).unwrap()["status"],
                "interrupted"
            );
        } else {
            // The record's status.
            assert!(out(&output).to_lowercase().contains("interrupted"), "{}", out(&output));
        }
    }
    server.idle();
}

#[test]
fn signals_before_the_start_and_while_draining() {
    // Before the start: a server that accepts the connection and sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    for (signal, code) in [(INT, 130), (TERM, 143)] {
        let mut command = weir();
        command.args(["test", "127.0.0.1", "-p", &port, "--json-stream"]);
        let mut client = Watched::start(command);
        let _held = silent.accept().unwrap();
        let begun = Instant::now();
        client.signal(signal);
        assert_eq!(client.ended(), Some(code));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert_eq!(client.last("error")["exit_code"], code);
    }
    // Draining: the server is stopped (SIGSTOP), so that its report is missing; the second signal does not wait for it.
    let dir = tempfile::tempdir().unwrap();
    let (socket, plan) = (dir.path().join("socket"), dir.path().join("plan.toml"));
    let server = Serve::start(&[]);
    let text = format!(
        "schema = 'weir.plan/1'\nport = {}\ninterval = '100ms'\n\
         [[connection]]\nname = 'first'\ntransport = 'udp'\nrate = '1000pps'\npackets = 600\n\
         [[connection]]\nname = 'second'\ntransport = 'udp'\nautostart = false\n",
        server.port
    );
    fs::write(&plan, text).unwrap();
    let mut command = weir();
    command.args(["test", "127.0.0.1", "--json-stream", "--no-store", "--plan"]).arg(&plan);
    let mut client = Watched::start({
        command.arg("--control-socket").arg(&socket);
        command
    });
    client.wait_for("interval", 2);
    server.process.signal(STOP);
    let ended = |name: &str| {
        let output =
            weir().args(["ctl", "--json", "--socket"]).arg(&socket).args(["status", name]).output();
        let answer: Value = serde_json::from_str(&out(&output.unwrap())).unwrap_or_default();
        answer["flows"][0]["state"] == "finished"
    };
    until("sending ends", || ended("first"));
    assert!(!ended("second"));
    client.signal(TERM);
    until("the first signal is heard", || ended("second"));
    client.signal(TERM);
    assert_eq!(client.ended(), Some(143));
    assert_partial(&client.last("end"), "interrupted");
    assert!(!socket.exists());
    server.process.signal(CONT);
    server.still_serves();
}

#[test]
fn a_signalled_server_ends_and_reports_its_clients() {
    for (signal, code) in [(INT, 130), (TERM, 0)] {
        let mut server = Serve::start(&[]);
        let words = ["-u", "-t", "3600", "-i", "0.1", "-b", "2M", "--json-stream", "--no-store"];
        let mut client = Watched::start(server.client(&words));
        client.wait_for("interval", 2);
        let begun = Instant::now();
        server.process.signal(signal);
        assert_eq!(server.process.ended(), Some(code));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert_eq!(server.process.count("session_closed"), 1);
        assert_eq!(client.ended(), Some(3));
        let partial = client.last("end");
        assert_partial(&partial, "partial");
        assert_eq!(client.last("error")["code"], "peer-closed");
        // Sending ended at the signal, before its planned end.
        for (key, end) in [("sender", "seconds"), ("sender", "end_seconds")] {
            let seconds = partial["flows"][0][key][end].as_f64().unwrap();
            assert!(seconds < 600.0, "{key} {end}: {seconds}");
        }
        let last = partial["intervals"].as_array().unwrap().last().unwrap().clone();
        assert!(last["end_seconds"].as_f64().unwrap() < 600.0, "{last}");
        // The port is free again.
        std::net::TcpListener::bind(("127.0.0.1", server.port.parse().unwrap())).unwrap();
    }
}

#[test]
fn a_server_for_one_client_refuses_the_second() {
    let mut server = Serve::start(&["-1"]);
    let mut first = server.running(&["-u", "--no-store"]);
    let second = server.client(&["-u", "-k", "5", "--no-store"]).output().unwrap();
    assert_eq!((refusal(&second).code.as_str(), refusal(&second).exit_code), ("peer-busy", 3));
    first.signal(INT);
    assert_eq!(first.ended(), Some(130));
    assert_eq!(server.process.ended(), Some(0));
    assert_eq!(server.process.count("session_opened"), 1);
}

#[test]
fn a_server_for_one_client_that_it_refuses_serves_the_next() {
    let mut server = Serve::start(&["-1", "--max-flows", "2"]);
    // The client already has the session when its plan is refused.
    let first = server.client(&["-P", "3", "-k", "5", "--no-store"]).output().unwrap();
    assert_eq!((refusal(&first).code.as_str(), refusal(&first).exit_code), ("peer-limit", 3));
    let second = server.client(&["-k", "5", "--no-store"]).output().unwrap();
    assert_eq!(second.status.code(), Some(0), "{}", err(&second));
    assert_eq!(server.process.ended(), Some(0));
}

#[test]
fn a_full_disk_is_reported_and_loses_no_result() {
    if !Path::new("/dev/full").exists() {
        eprintln!("SKIPPED a_full_disk_is_reported_and_loses_no_result: no /dev/full");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Serve::start(&[]);
    let short = ["-u", "-k", "20", "-b", "1000pps"];
    // A result that can't be printed is still stored.
    for form in ["--json", "--json-stream", "--verbose"] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = server.client(&[&short[..], &[form]].concat());
        let output = command.env("WEIR_DATA_DIR", dir.path()).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{form}: {}", err(&output));
        let refused = refusal_in(&err(&output)).unwrap();
        assert_eq!(refused.given.as_deref(), Some("stdout"), "{form}: {refused:?}");
    }
    assert_eq!(kept(dir.path()).len(), 3);
    // A result whose CSV file can't be written is still printed.
    for flag in ["--csv", "--packet-log"] {
        let words = [&short[..], &["-R", "--json", "--no-store", flag, "/dev/full"]].concat();
        let output = server.client(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{flag}: {}", err(&output));
        let refused = refusal_in(&err(&output)).unwrap();
        assert_eq!(refused.given.as_deref(), Some("/dev/full"), "{flag}: {refused:?}");
        let record: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(record["flows"][0]["receiver"]["packets"], 20, "{flag}");
    }
    let words = [&short[..], &["--logfile", "/dev/full", "--no-store"]].concat();
    let output = server.client(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", err(&output));
    // A store that can't be written causes a warning, but the result is printed.
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let mut command = server.client(&[&short[..], &["--json"]].concat());
    let output = command.env("WEIR_DATA_DIR", file.join("below")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(messages(&err(&output), "not-stored").len(), 1, "{}", err(&output));
    assert!(serde_json::from_str::<Value>(&out(&output)).is_ok());
}

#[test]
fn wrong_keys_are_reported() {
    let key = |_| out(&weir().arg("keygen").output().unwrap()).trim().to_string();
    let [right, wrong] = [0, 1].map(key);
    let port = free_port().to_string();
    let mut command = weir();
    command.args(["serve", "-B", "127.0.0.1", "--json-stream", "-p", &port]);
    let server = Watched::start({
        command.env("WEIR_KEY", &right);
        command
    });
    server.wait_for("listening", 1);
    let with = |key: Option<&str>| {
        let mut command = weir();
        command.args(["test", "127.0.0.1", "-p", &port, "-n", "1000", "--no-store"]);
        key.map(|key| command.env("WEIR_KEY", key));
        command.output().unwrap()
    };
    assert_eq!(with(Some(&right)).status.code(), Some(0));
    for output in [with(Some(&wrong)), with(None)] {
        assert!(["key", "peer-key"].contains(&&*refusal(&output).code), "{:?}", refusal(&output));
        assert_eq!(output.status.code(), Some(3));
        assert!(!(out(&output) + &err(&output)).contains(&wrong));
    }
    assert_eq!(server.count("session_opened"), 1);
}
