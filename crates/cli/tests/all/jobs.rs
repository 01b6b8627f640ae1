//! Jobs as separate processes. No program that starts a job reads its texts for people, and a job ends when its starter has
//! ended. `ui.rs` tests the jobs of the API, `demo.rs` those of the demo.

use crate::common;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Time limit of a job. Only a broken test reaches it.
const LIMIT: Duration = Duration::from_secs(120);

fn weir(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(common::WEIR);
    command.args(arguments).env("XDG_DATA_HOME", directory.join("data"));
    command.env("WEIR_RUNTIME_DIR", directory.join("runtime"));
    command.env("WEIR_PROGRAM", common::mute(directory)).stdin(Stdio::null());
    command
}

#[test]
fn everything_works_with_all_messages_replaced() {
    let test = "everything_works_with_all_messages_replaced";
    if common::Bench::up(test, &[]).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Servers, tests and an emulator as jobs. Without expectations, which would be inconclusive on a busy host.
    let scenario = json!({
        "schema": "weir.scenario/1", "name": "muted", "lab": { "middle": true }, "emulator": { "m": {} },
        "step": [
            { "name": "clean", "test": { "plan": { "schema": "weir.plan/1",
                "connection": [{ "transport": "udp", "rate": "500pps", "duration": "300ms" }] } } },
            { "name": "laws", "impair": { "both": "delay 1ms" } },
            { "name": "tcp", "test": { "plan": { "schema": "weir.plan/1",
                "connection": [{ "transport": "tcp", "bytes": "100K" }] } } },
        ],
    });
    let file = dir.path().join("scenario.json");
    std::fs::write(&file, scenario.to_string()).unwrap();
    let output = weir(dir.path(), &["run", "--json", file.to_str().unwrap()]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code(), Some(0), "{found:#}");
    assert_eq!((&found["status"], &found["outcome"]), (&json!("complete"), &json!("done")));
    // A command behind an emulator.
    let exec =
        ["impair", "exec", "--both", "delay 1ms", "--", "sh", "-c", "test -n \"$WEIR_EMULATOR\""];
    let status = weir(dir.path(), &exec).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert_eq!(status.unwrap().code(), Some(0));
    // A lab with an emulator in the middle: `up` fails if the emulator does not start.
    for words in [["lab", "up", "--impair=delay 1ms"].as_slice(), &["lab", "down"]] {
        let status = weir(dir.path(), words).stdout(Stdio::null()).status();
        assert_eq!(status.unwrap().code(), Some(0), "{words:?}");
    }
}

/// A job with its standard input open.
fn job(directory: &Path, job: &Value) -> Child {
    let mut child = weir(directory, &["job"])
        .env_remove("WEIR_PROGRAM")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    writeln!(child.stdin.as_mut().unwrap(), "{job}").unwrap();
    child
}

fn events(child: &mut Child) -> impl Iterator<Item = Value> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

fn ended(child: &mut Child) -> Option<i32> {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(Instant::now() < end, "the job did not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_job_ends_with_its_starter_or_on_request() {
    let dir = tempfile::tempdir().unwrap();
    for (asks, code) in [(true, 130), (false, 0)] {
        let mut server =
            job(dir.path(), &json!({ "job": "serve", "port": 0xffff - u16::from(asks) }));
        let mut events = events(&mut server);
        assert_eq!(events.next().unwrap()["event"], "listening");
        let mut input = server.stdin.take().unwrap();
        if asks {
            writeln!(input, r#"{{"command":"stop"}}"#).unwrap();
        } else {
            drop(input);
        }
        assert_eq!(ended(&mut server), Some(code));
    }
}

#[test]
fn a_command_that_a_job_does_not_have_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = job(dir.path(), &json!({ "job": "serve", "port": 39_472 }));
    let mut events = events(&mut server);
    assert_eq!(events.next().unwrap()["event"], "listening");
    let input = server.stdin.as_mut().unwrap();
    let set = json!({ "command": "set", "impairment": { "schema": "weir.impair/1" } });
    writeln!(input, "{set}\n{}", json!({ "command": "stop-connection" })).unwrap();
    let answers: Vec<Value> = events
        .by_ref()
        .filter(|event| event["event"] == "configured" || event["event"] == "commanded")
        .take(2)
        .collect();
    assert_eq!(
        (&answers[0]["event"], &answers[1]["event"]),
        (&"configured".into(), &"commanded".into())
    );
    assert!(answers.iter().all(|answer| answer["data"]["error"].is_string()));
    drop(server.stdin.take());
    ended(&mut server);
}

#[test]
fn a_calibration_ends_with_its_starter() {
    let dir = tempfile::tempdir().unwrap();
    let mut calibration = job(dir.path(), &json!({ "job": "calibrate", "no_lab": true }));
    assert_eq!(events(&mut calibration).next().unwrap()["event"], "progress");
    drop(calibration.stdin.take());
    assert_eq!(ended(&mut calibration), Some(143));
}

#[test]
fn a_test_is_a_job_with_its_record_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = job(dir.path(), &json!({ "job": "serve", "port": 39_471 }));
    let mut of_server = events(&mut server);
    assert_eq!(of_server.next().unwrap()["event"], "listening");
    let plan = json!({ "schema": "weir.plan/1", "connection": [{ "transport": "udp", "rate": "500pps", "duration": "300ms" }] });
    let asked =
        json!({ "job": "test", "host": "127.0.0.1:39471", "plan": plan, "labels": { "a": "b" } });
    let mut test = job(dir.path(), &asked);
    let all: Vec<Value> = events(&mut test).collect();
    assert_eq!(ended(&mut test), Some(0));
    let end = all.last().unwrap();
    assert_eq!((&end["event"], &end["data"]["labels"]["a"]), (&json!("end"), &json!("b")));
    let sender = &end["data"]["flows"][0]["sender"];
    // A busy host skips slots and counts them.
    let missed = sender["missed_slots"].as_u64().unwrap_or(0);
    assert_eq!(sender["packets"].as_u64().unwrap() + missed, 150, "{sender}");
    drop(server.stdin.take());
    ended(&mut server);
}

#[test]
fn an_invalid_job_is_refused_by_field() {
    let dir = tempfile::tempdir().unwrap();
    for (line, field, accepted) in [
        (json!({ "job": "serve", "prot": 1 }), "prot", "port"),
        (json!({ "job": "tset" }), "job", "test"),
        (
            json!({ "job": "test", "host": "h", "plan": { "schema": "weir.plan/1", "connection": [{ "payload": "x" }] } }),
            "plan.connection[0].payload",
            "",
        ),
        (json!({ "job": "demo", "seconds": 61 }), "seconds", "1 to 60"),
        (json!({ "job": "serve", "threads": { "affinity": "x" } }), "threads.affinity", "CPU"),
    ] {
        let mut child = job(dir.path(), &line);
        drop(child.stdin.take());
        let all: Vec<Value> = events(&mut child).collect();
        let error = &all.last().unwrap()["data"];
        assert_eq!(ended(&mut child), Some(2), "{line}: {all:?}");
        assert_eq!(error["field"], field, "{line}: {error}");
        let given = error["accepted"].as_str().unwrap_or_default();
        assert!(given.contains(accepted), "{line}: {error}");
    }
}
