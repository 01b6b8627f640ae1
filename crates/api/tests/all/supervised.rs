//! With a launcher whose program is a script: what is started, how often, and what stays behind.

use crate::http;
use crate::served;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use http::{Events, ask, connect, get};
use serde_json::{Value, json};
use served::{Served, serve_launched};
use weir_experiment::scenario::checkpoint::{CHECKPOINT_SCHEMA, Checkpoint, CheckpointHeader};

/// What each script begins with: its job is in `$job`, the job's kind in `$1` and its id in `$id`. `say` reports progress, `no`
/// refuses with an exit code, `result` makes the result of a document on standard input.
const PREAMBLE: &str = r#"
read -r job
kind=${job#*'"job":"'}; kind=${kind%%'"'*}
id=${job#*'"id":"'}; id=${id%%'"'*}
set -- "$kind"
say() { printf '{"event":"progress","data":{"message":"%s"}}\n' "$1"; }
no() { printf '{"event":"error","data":{"code":"x","message":"%s","exit_code":%s}}\n' "$1" "$2"; exit "$2"; }
result() { printf '{"event":"result","data":'; tr -d '\n'; printf '}\n'; }
"#;

/// A server whose jobs are this script; it may write next to itself.
fn with_script(script: &str) -> Served {
    with_script_in(tempfile::tempdir().unwrap(), script, |_| {})
}

/// The same in a directory that something is in already; `change` may change how it runs.
fn with_script_in(
    directory: tempfile::TempDir,
    script: &str,
    change: impl FnOnce(&mut weir_api::Config),
) -> Served {
    let program = directory.path().join("program");
    let text = format!("#!/bin/sh\nhere={}\n{PREAMBLE}{script}\n", directory.path().display());
    // By another program: one that is forked here meanwhile would keep it open for writing.
    let mut write = Command::new("sh");
    write.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(&program).stdin(Stdio::piped());
    let mut write = write.spawn().unwrap();
    write.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(write.wait().unwrap().success());
    serve_launched(directory, program, change)
}

fn plan() -> Value {
    json!({ "schema": "weir.plan/1", "connection": [{ "transport": "udp", "rate": "1M" }] })
}

/// Names in the server's private directory, sockets left out.
fn left(private: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(private).unwrap().flatten();
    let names = entries.map(|e| e.file_name().into_string().unwrap());
    names.filter(|n| n.ends_with(".plan") || n.ends_with(".record")).collect()
}

fn private(s: &Served) -> PathBuf {
    s.private.clone()
}

#[test]
fn a_look_at_the_host_is_made_once_for_all_who_ask() {
    let s = with_script("echo x >> $here/looks; sleep 1; result < $here/diagnosis");
    let found = weir_experiment::doctor::examine(&Default::default()).unwrap();
    let text = serde_json::to_string(&found).unwrap();
    std::fs::write(s.directory.path().join("diagnosis"), format!("{text}\n")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| get(s.address, "/doctor").expect(200));
        }
    });
    let looks = std::fs::read_to_string(s.directory.path().join("looks")).unwrap();
    assert!(looks.lines().count() <= 2, "{} looks", looks.lines().count());
}

#[test]
fn what_was_started_leaves_nothing_behind() {
    let s = with_script(
        "case $1 in\n\
         scenario) no 'no such parameter' 2;;\n\
         test) touch $here/begun; read -r stop; echo '{\"event\":\"end\",\"data\":{}}'; exit 130;;\n\
         esac",
    );
    let mode = private(&s).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "others may not read it");
    let mut events = Events::open(connect(s.address), "");
    let sweep = json!({ "host": "127.0.0.1", "plan": plan(), "over": ["rate=1M,2M"] });
    let begun = ask(s.address, "POST", "/sweeps", &[], Some(&sweep)).expect(201);
    events.until("state", |e| e["id"] == begun["id"] && e["state"] == "failed");
    assert_eq!(left(&private(&s)), Vec::<String>::new(), "after a sweep that was refused");
    // A test that is deleted while it runs.
    let test = json!({ "host": "127.0.0.1", "plan": plan() });
    let test = ask(s.address, "POST", "/tests", &[], Some(&test)).expect(201);
    let begun = s.directory.path().join("begun");
    let end = std::time::Instant::now() + http::LIMIT;
    while !begun.exists() {
        assert!(std::time::Instant::now() < end, "the test did not begin");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let path = format!("/tests/{}", test["id"].as_str().unwrap());
    ask(s.address, "DELETE", &path, &[], None).expect(204);
    get(s.address, &path).expect(404);
    assert_eq!(get(s.address, "/tests").expect(200)["tests"], json!([]));
    // Its end is published nevertheless.
    events.until("state", |e| e["id"] == test["id"] && e["state"] == "ended");
    // Told before it is removed.
    let end = std::time::Instant::now() + http::LIMIT;
    while !left(&private(&s)).is_empty() && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(left(&private(&s)), Vec::<String>::new(), "after a test that was deleted");
}

#[test]
fn states_of_flows_follow_the_program_and_none_is_left_running() {
    let script = r#"
        wait_for() { while [ ! -e $here/$1 ]; do sleep 0.02; done; }
        echo '{"event":"start","data":{"id":"r","flows":[{"id":1,"name":"one"},{"id":2,"name":"two"},{"id":3,"name":"three"}]}}'
        echo '{"event":"flows","data":[{"id":1,"state":"started"},{"id":2,"state":"started"},{"id":3,"state":"waiting"}]}'
        wait_for first
        echo '{"event":"flows","data":[{"id":2,"state":"finished"}]}'
        echo '{"event":"peer","data":{"unreachable_since_seconds":2.5}}'
        wait_for second
        [ -e $here/killed ] && exit 3
        echo '{"event":"end","data":{"schema":"weir.run/1","id":"r","intervals":[{"start_seconds":0.0,"end_seconds":1.0,"flows":[],"total":{}}],"flows":[{"id":1,"name":"one"},{"id":2,"name":"two"},{"id":3,"name":"three"}]}}'
    "#;
    for is_killed in [false, true] {
        let s = with_script(script);
        let file = |name: &str| std::fs::write(s.directory.path().join(name), "").unwrap();
        if is_killed {
            file("killed");
        }
        let mut events = Events::open(connect(s.address), "?topics=tests");
        let test = json!({ "host": "127.0.0.1", "plan": plan() });
        let test = ask(s.address, "POST", "/tests", &[], Some(&test)).expect(201);
        let path = format!("/tests/{}", test["id"].as_str().unwrap());
        let mut until = |states: Value, unreachable: Value| {
            let now = || get(s.address, &path).expect(200);
            let is = |t: &Value| {
                t["flow_states"] == states && t["peer_unreachable_since_seconds"] == unreachable
            };
            while !is(&now()) {
                // Each change is an event.
                events.until("state", |_| true);
            }
        };
        until(json!({ "one": "started", "two": "started", "three": "waiting" }), Value::Null);
        file("first");
        until(json!({ "one": "started", "two": "finished", "three": "waiting" }), json!(2.5));
        file("second");
        let last = if is_killed { "failed" } else { "finished" };
        until(json!({ "one": last, "two": "finished", "three": last }), Value::Null);
        if !is_killed {
            let record = |query: &str| get(s.address, &format!("{path}/record{query}")).expect(200);
            assert_eq!(record("")["intervals"].as_array().map(Vec::len), Some(1));
            let summary = record("?parts=summary");
            assert_eq!(summary["intervals"].as_array().map_or(0, Vec::len), 0, "{summary}");
            assert_eq!(summary["flows"].as_array().map(Vec::len), Some(3));
        }
    }
}

/// What a script has that prints what is in a file of this directory, with its id in it, and stores it as `weir run` does.
const TELL: &str = "kept=$here/data/experiments; mkdir -p $kept\n\
    tell() { sed \"s/ID/$id/\" $here/$1 | tee $kept/$id.json | result; }\n";

fn write_outcomes(s: &Served) {
    for status in ["interrupted", "partial", "complete"] {
        std::fs::write(s.directory.path().join(status), outcome("ID", status)).unwrap();
    }
    // Its checkpoint is a script's to put where it belongs.
    let head = serde_json::to_string(&head("ID", None)).unwrap();
    std::fs::write(s.directory.path().join("head"), format!("{head}\n")).unwrap();
}

fn experiment(s: &Served, one: &Value) -> Value {
    get(s.address, &format!("/experiments/{}", one["id"].as_str().unwrap())).expect(200)
}

fn sweep() -> Value {
    json!({ "host": "127.0.0.1", "plan": plan(), "over": ["rate=1M,2M"] })
}

#[test]
fn an_interrupted_experiment_is_resumed() {
    // The first session is interrupted, the second too, the third completes once it may.
    let script = "case $1 in\n\
         scenario) sed \"s/ID/$id/g\" $here/head > $kept/$id.checkpoint; tell interrupted; exit 130;;\n\
         resume) echo x >> $here/resumed\n\
         if [ $(wc -l < $here/resumed) -gt 1 ]; then while [ ! -e $here/go ]; do sleep 0.02; done; tell complete\n\
         else tell interrupted; exit 130; fi;;\n\
         esac";
    let s = with_script(&format!("{TELL}{script}"));
    write_outcomes(&s);
    let kept = weir_runs::Experiments::prepare(&served::data(s.directory.path())).unwrap();
    let mut events = Events::open(connect(s.address), "");
    let mut until = |one: &Value, state: &str| -> Value {
        events.until("state", |e| e["id"] == one["id"] && e["state"] == state);
        experiment(&s, one)
    };
    let first = ask(s.address, "POST", "/sweeps", &[], Some(&sweep())).expect(201);
    let id = first["id"].as_str().unwrap().to_owned();
    let resume = || ask(s.address, "POST", &format!("/experiments/{id}/resume"), &[], None);
    let interrupted = until(&first, "interrupted");
    // One id, here and there.
    assert_eq!(
        (&interrupted["outcome"]["id"], &interrupted["resumable"]),
        (&json!(id), &json!(true))
    );
    assert_eq!(resume().expect(202)["id"], id);
    assert_eq!(until(&first, "interrupted")["resumable"], true);
    // The content of its checkpoint is checked: it may be in another user's directory.
    let checkpoint = kept.checkpoint(&id);
    let before = std::fs::read(&checkpoint).unwrap();
    std::fs::remove_file(&checkpoint).unwrap();
    drop(Checkpoint::create(&checkpoint, &head(&id, Some(Path::new("/bin/sh")))).unwrap());
    let refused = resume().expect(409);
    assert!(refused["detail"].as_str().unwrap().contains("/bin/sh"), "{refused}");
    assert_eq!(experiment(&s, &first)["state"], "interrupted", "as it was");
    std::fs::write(&checkpoint, before).unwrap();
    let third = resume().expect(202);
    assert_eq!((&third["name"], &third["resumable"]), (&json!("sweep"), &json!(false)));
    assert_eq!(get(s.address, &format!("/experiments/{id}/report")).status, 409, "it runs");
    // One at a time.
    let refused = resume().expect(409);
    assert_eq!(refused["type"], "urn:weir:problem:not-ended", "{refused}");
    std::fs::write(s.directory.path().join("go"), "").unwrap();
    let ended = until(&first, "ended");
    assert_eq!(
        (&ended["outcome"]["status"], &ended["verdict"]),
        (&json!("complete"), &json!("passed"))
    );
    let refused = resume().expect(409);
    assert_eq!(refused["type"], "urn:weir:problem:complete", "{refused}");
    let list = get(s.address, "/experiments").expect(200);
    let list = list["experiments"].as_array().unwrap();
    assert_eq!(list.len(), 1, "it is one experiment: {list:?}");
    assert_eq!(list[0]["resumable"], false);
    ask(s.address, "POST", "/experiments/unknown/resume", &[], None).expect(404);
}

#[test]
fn an_experiment_that_is_deleted_while_it_runs_is_there_by_its_id() {
    let script = "case $1 in\n\
         scenario) sed \"s/ID/$id/g\" $here/head > $kept/$id.checkpoint\n\
         touch $here/begun; read -r stop; tell interrupted; exit 130;;\n\
         resume) tell complete;;\n\
         esac";
    let s = with_script(&format!("{TELL}{script}"));
    write_outcomes(&s);
    let mut events = Events::open(connect(s.address), "");
    let one = ask(s.address, "POST", "/sweeps", &[], Some(&sweep())).expect(201);
    let path = format!("/experiments/{}", one["id"].as_str().unwrap());
    until("it begins", || s.directory.path().join("begun").exists());
    ask(s.address, "DELETE", &path, &[], None).expect(204);
    let listed = || get(s.address, "/experiments").expect(200)["experiments"].clone();
    assert_eq!(listed(), json!([]));
    // It is being stopped, and has been.
    let state = get(s.address, &path).expect(200)["state"].clone();
    assert!(state == "ending" || state == "interrupted", "{state}");
    events.until("state", |e| e["id"] == one["id"] && e["state"] == "interrupted");
    let stopped = get(s.address, &path).expect(200);
    let told = (&stopped["outcome"]["status"], &stopped["resumable"]);
    assert_eq!(told, (&json!("interrupted"), &json!(true)), "{stopped}");
    assert_eq!(get(s.address, &format!("{path}/report?format=md")).status, 200);
    assert_eq!(listed(), json!([]), "a look at it puts it on no list");
    // Resuming it adds it to the list again.
    ask(s.address, "POST", &format!("{path}/resume"), &[], None).expect(202);
    assert_eq!(listed()[0]["id"], one["id"]);
    events.until("state", |e| e["id"] == one["id"] && e["state"] == "ended");
    // One that has ended, too.
    ask(s.address, "DELETE", &path, &[], None).expect(204);
    assert_eq!(
        (listed(), &get(s.address, &path).expect(200)["state"]),
        (json!([]), &json!("ended"))
    );
    get(s.address, "/experiments/unknown").expect(404);
    get(s.address, "/experiments/..%2Fx").expect(404);
}

#[test]
fn an_emulator_whose_configuration_names_no_seed_gets_a_new_one() {
    let s = with_script("printf '%s\\n' \"$job\" >> $here/seen; no no 2");
    let named = json!({ "schema": "weir.impair/1", "seed": "0x7" });
    let zero = json!({ "schema": "weir.impair/1", "seed": 0 });
    let none = json!({ "schema": "weir.impair/1" });
    for configuration in [Some(&named), Some(&zero), Some(&none), Some(&none), None] {
        let mut body = json!({ "interfaces": ["to-a", "to-b"] });
        if let Some(configuration) = configuration {
            body["configuration"] = configuration.clone();
        }
        ask(s.address, "POST", "/emulators", &[], Some(&body)).expect(422);
    }
    let seen = std::fs::read_to_string(s.directory.path().join("seen")).unwrap();
    let seen: Vec<Value> = seen.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seeds: Vec<&str> = seen.iter().map(|c| c["impairment"]["seed"].as_str().unwrap()).collect();
    assert_eq!(seeds[..2], ["0x7", "0x0"], "zero is a seed like others");
    let drawn: std::collections::BTreeSet<&str> = seeds[2..].iter().copied().collect();
    assert!(drawn.len() == 3 && !drawn.contains("0x0"), "{seeds:?}");
}

#[test]
fn a_test_whose_plan_names_no_seed_gets_a_new_one() {
    let s = with_script("printf '%s' \"$job\" > $here/$$.seen; mv $here/$$.seen $here/$$.plan");
    let mut events = Events::open(connect(s.address), "?topics=tests");
    for seed in [None, None, Some("0x7"), Some("0x0")] {
        let mut plan = plan();
        if let Some(seed) = seed {
            plan["seed"] = seed.into();
        }
        let body = json!({ "host": "127.0.0.1", "plan": plan });
        let one = ask(s.address, "POST", "/tests", &[], Some(&body)).expect(201);
        events.until("state", |e| e["id"] == one["id"] && e["state"] == "failed");
    }
    let files = std::fs::read_dir(s.directory.path()).unwrap().flatten().map(|e| e.path());
    let seeds: std::collections::BTreeSet<String> = files
        .filter(|path| path.extension().is_some_and(|e| e == "plan"))
        .map(|path| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap())
        .map(|job| job["plan"]["seed"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(seeds.len(), 4, "{seeds:?}");
    assert!(seeds.contains("0x7") && seeds.contains("0x0"), "{seeds:?}");
}

#[test]
fn how_an_experiment_ended_is_reported() {
    // Refused, killed with a checkpoint and without one, and a step that could not be done.
    let script = "checkpoint() { sed \"s/ID/$id/g\" $here/head > $kept/$id.checkpoint; }\n\
         case $job in\n\
         *'runs\\\":1,'*) no no 2;;\n\
         *'runs\\\":2,'*) kill -9 $$;;\n\
         *'runs\\\":3,'*) checkpoint; kill -9 $$;;\n\
         *'runs\\\":4,'*) checkpoint; tell partial; exit 3;;\n\
         esac";
    let s = with_script(&format!("{TELL}{script}"));
    write_outcomes(&s);
    let killed = "its process was killed by signal 9";
    let mut events = Events::open(connect(s.address), "");
    for (runs, state, resumable, error) in [
        (1, "failed", false, "no"),
        (2, "failed", false, killed),
        (3, "interrupted", true, killed),
        (4, "failed", true, "no peer"),
    ] {
        let mut asked = sweep();
        asked["runs"] = runs.into();
        let one = ask(s.address, "POST", "/sweeps", &[], Some(&asked)).expect(201);
        let is_over = |e: &Value| !matches!(e["state"].as_str(), Some("starting" | "running"));
        events.until("state", |e| e["id"] == one["id"] && is_over(e));
        let one = experiment(&s, &one);
        let told = (&one["state"], &one["resumable"], &one["error"]);
        assert_eq!(told, (&json!(state), &json!(resumable), &json!(error)), "{one}");
    }
}

#[test]
fn one_that_measured_more_and_was_killed_is_reported_without_what_it_came_to_before() {
    // The second session begins and is killed, the third makes a run before, the fourth completes.
    let script = "session() { echo \"{\\\"session\\\":{\\\"pid\\\":1,\\\"version\\\":\\\"0\\\",\\\"host\\\":\\\"x\\\",\\\"started_at\\\":\\\"$(date -u +%FT%T.%3NZ)\\\"}}\" >> $kept/$id.checkpoint; }\n\
         one() { echo '{\"key\":\"t#1\",\"run\":{},\"seconds\":1.0}' >> $kept/$id.checkpoint; }\n\
         case $1 in\n\
         scenario) sed \"s/ID/$id/g\" $here/head > $kept/$id.checkpoint; one; tell interrupted; sleep 0.01; exit 130;;\n\
         resume) echo x >> $here/tries; session; case $(wc -l < $here/tries) in\n\
         1) kill -9 $$;; 2) one; say '2 of 3'; kill -9 $$;; *) tell complete;; esac;;\n\
         esac";
    let s = with_script(&format!("{TELL}{script}"));
    write_outcomes(&s);
    let mut events = Events::open(connect(s.address), "");
    let first = ask(s.address, "POST", "/sweeps", &[], Some(&sweep())).expect(201);
    let path = format!("/experiments/{}", first["id"].as_str().unwrap());
    let mut until = |state: &str| -> Value {
        events.until("state", |e| e["id"] == first["id"] && e["state"] == state);
        get(s.address, &path).expect(200)
    };
    let before = until("interrupted");
    assert_eq!(before["exit_code"], 130);
    let resume = || ask(s.address, "POST", &format!("{path}/resume"), &[], None).expect(202);
    // Nothing was measured: what stood before stands.
    resume();
    let nothing = until("interrupted");
    for field in ["ended_at", "exit_code", "verdict", "outcome"] {
        assert_eq!(nothing[field], before[field], "{field}");
    }
    resume();
    let killed = until("interrupted");
    let is_right = |told: &Value| {
        let known = (&told["state"], &told["resumable"]);
        assert_eq!(known, (&json!("interrupted"), &json!(true)), "{told}");
        for field in ["exit_code", "verdict", "outcome"] {
            assert!(told[field].is_null(), "{field} of the session before: {told}");
        }
    };
    is_right(&killed);
    assert!(killed["error"].as_str().unwrap().ends_with(" 9"), "the signal: {killed}");
    assert!(killed["ended_at"].as_str() > before["ended_at"].as_str(), "{killed}");
    // Looked at where it is kept, as a later server does.
    ask(s.address, "DELETE", &path, &[], None).expect(204);
    let kept = get(s.address, &path).expect(200);
    is_right(&kept);
    assert!(kept["ended_at"].is_null(), "its end was not seen: {kept}");
    resume();
    let ended = until("ended");
    assert_eq!(ended["outcome"]["status"], "complete");
}

/// The head of a checkpoint as `weir run` begins one; `command` is what its one step runs.
fn head(id: &str, command: Option<&Path>) -> CheckpointHeader {
    let step = match command {
        Some(program) => json!({ "command": { "run": [program] } }),
        None => json!({ "wait": { "time": "1s" } }),
    };
    let scenario = json!({
        "schema": "weir.scenario/1", "name": format!("of-{id}"), "title": "A title",
        "host": { "b": { "address": "127.0.0.1" } }, "step": [step],
    });
    CheckpointHeader {
        schema: CHECKPOINT_SCHEMA.into(),
        id: id.into(),
        started_at: "2026-11-22T10:00:00Z".into(),
        scenario: scenario.to_string(),
        quick: false,
        set: Default::default(),
        hosts: Default::default(),
        seed: weir_model::units::Seed(7),
        directory: "/nonexistent".into(),
        files: Default::default(),
        command: vec![],
        session: Default::default(),
    }
}

fn outcome(id: &str, status: &str) -> String {
    let outcome = json!({
        "schema": "weir.experiment/1", "id": id, "version": "0", "name": "of",
        "started_at": "2026-11-22T10:00:00Z", "seconds": 1.0, "status": status, "command": [],
        "seed": "0x7", "outcome": if status == "partial" { "error" } else { "passed" },
        "steps": [
            { "name": "s", "action": "sweep", "outcome": "passed", "seconds": 1.0 },
            { "name": "t", "action": "test", "outcome": if status == "partial" { "error" } else { "passed" }, "seconds": 1.0, "reason": "no peer" },
        ],
    });
    format!("{outcome}\n")
}

#[test]
fn going_on_that_fails_leaves_what_the_next_try_needs() {
    // The first try is killed before it tells anything, the second is refused, the third completes.
    let script = "case $1 in\n\
         scenario) sed \"s/ID/$id/g\" $here/head > $kept/$id.checkpoint; tell interrupted; exit 130;;\n\
         resume) echo x >> $here/tries; case $(wc -l < $here/tries) in\n\
         1) kill -9 $$;; 2) no 'not now' 4;; *) tell complete;; esac;;\n\
         esac";
    let s = with_script(&format!("{TELL}{script}"));
    write_outcomes(&s);
    let mut events = Events::open(connect(s.address), "");
    let first = ask(s.address, "POST", "/sweeps", &[], Some(&sweep())).expect(201);
    let path = format!("/experiments/{}", first["id"].as_str().unwrap());
    events.until("state", |e| e["id"] == first["id"] && e["state"] == "interrupted");
    // Not while its checkpoint is another program's.
    let kept = weir_runs::Experiments::of(&served::data(s.directory.path()));
    let elsewhere = keep_again(&kept.checkpoint(first["id"].as_str().unwrap()));
    let refused = ask(s.address, "POST", &format!("{path}/resume"), &[], None).expect(409);
    assert_eq!(refused["type"], "urn:weir:problem:running-elsewhere", "{refused}");
    drop(elsewhere);
    for (words, after) in [
        ("its process was killed by signal 9", "a try that was killed"),
        ("not now", "one that was refused"),
    ] {
        ask(s.address, "POST", &format!("{path}/resume"), &[], None).expect(202);
        events.until("state", |e| e["id"] == first["id"] && e["state"] == "interrupted");
        let one = get(s.address, &path).expect(200);
        assert_eq!(one["resumable"], true, "after {after}: {one}");
        // What the session before it came to is there.
        let told = (&one["state"], &one["verdict"], &one["outcome"]["status"]);
        let stood = (&json!("interrupted"), &json!("passed"), &json!("interrupted"));
        assert_eq!(told, stood, "after {after}");
        assert!(one["error"].as_str().unwrap().ends_with(words), "{one}");
    }
    ask(s.address, "POST", &format!("{path}/resume"), &[], None).expect(202);
    events.until("state", |e| e["id"] == first["id"] && e["state"] == "ended");
    assert_eq!(get(s.address, &path).expect(200)["resumable"], false);
}

#[test]
fn what_an_earlier_server_began_is_resumed_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let kept = weir_runs::Experiments::prepare(&served::data(directory.path())).unwrap();
    let scripts = tempfile::tempdir().unwrap();
    for name in ["ours", "theirs"] {
        std::fs::write(scripts.path().join(name), "").unwrap();
    }
    std::fs::create_dir(scripts.path().join("deeper")).unwrap();
    std::fs::write(scripts.path().join("deeper/ours"), "").unwrap();
    let script = |name: &str| scripts.path().join(name);
    let keep =
        |head: &CheckpointHeader| Checkpoint::create(&kept.checkpoint(&head.id), head).unwrap();
    // Killed before it told anything, and stopped.
    drop(keep(&head("1-killed", None)));
    drop(keep(&head("2-stopped", None)));
    kept.keep("2-stopped", &outcome("2-stopped", "interrupted")).unwrap();
    // Complete (its checkpoint there or gone), of another id than its name says, and no checkpoint at all.
    drop(keep(&head("4-done", None)));
    kept.keep("4-done", &outcome("4-done", "complete")).unwrap();
    kept.keep("4-partial", &outcome("4-partial", "partial")).unwrap();
    kept.keep("4-other", &outcome("4-done", "complete")).unwrap();
    drop(keep(&head("5-other", None)));
    std::fs::rename(kept.checkpoint("5-other"), kept.checkpoint("5-named")).unwrap();
    std::fs::write(kept.checkpoint("6-nothing"), "x\n").unwrap();
    // A scenario that this version refuses.
    let kept_text = |id: &str, from: &str, to: &str| {
        let head = head(id, None);
        assert!(head.scenario.contains(from));
        drop(keep(&CheckpointHeader { scenario: head.scenario.replace(from, to), ..head }));
    };
    let wait = "\"wait\":{\"time\":\"1s\"}";
    kept_text("2-unread", wait, "\"dance\":{}");
    // It runs commands; those that this server may start, and others.
    drop(keep(&head("8-script", Some(&script("ours")))));
    drop(keep(&head("8-deeper", Some(&script("deeper/ours")))));
    drop(keep(&head("8-shell", Some(Path::new("/bin/sh")))));
    let files = [("plan.toml".to_owned(), "00".to_owned())].into();
    drop(keep(&CheckpointHeader { files, ..head("8-files", None) }));
    // Some program still has it.
    let running = keep(&head("9-running", None));
    std::fs::write(directory.path().join("complete"), outcome("2-stopped", "complete")).unwrap();
    let s = with_script_in(
        directory,
        "case \"$kind $id\" in\n\
         'resume 2-stopped') while [ ! -e $here/go ]; do sleep 0.02; done; result < $here/complete;;\n\
         *) echo \"$job\" >> $here/others; exit 2;;\n\
         esac",
        |config| config.scripts = Some(scripts.path().into()),
    );
    type Listed = (String, String, bool);
    let list = |s: &Served| -> Vec<Listed> {
        let list = get(s.address, "/experiments").expect(200);
        let word = |e: &Value, key: &str| e[key].as_str().unwrap().to_owned();
        let of = |e: &Value| (word(e, "id"), word(e, "state"), e["resumable"] == true);
        list["experiments"].as_array().unwrap().iter().map(of).collect()
    };
    let named = |all: &[(&str, &str, bool)]| -> Vec<Listed> {
        all.iter().map(|(id, state, can)| ((*id).into(), (*state).into(), *can)).collect()
    };
    let first = [
        ("8-shell", "interrupted", false),
        ("8-script", "interrupted", true),
        ("8-files", "interrupted", false),
        ("8-deeper", "interrupted", false),
        ("4-partial", "failed", false),
        ("4-done", "ended", false),
        ("2-unread", "interrupted", false),
        ("2-stopped", "interrupted", true),
        ("1-killed", "interrupted", true),
    ];
    assert_eq!(list(&s), named(&first));
    drop(running);
    let then = [&[("9-running", "interrupted", true)][..], &first].concat();
    until("what has stopped is taken up", || list(&s).len() > first.len());
    assert_eq!(list(&s), named(&then));
    assert_eq!(list(&s), named(&then), "it is taken up once");
    let shell = get(s.address, "/experiments/8-shell").expect(200);
    assert!(shell["error"].as_str().unwrap().contains("/bin/sh"), "{shell}");
    let unread = get(s.address, "/experiments/2-unread").expect(200);
    assert_eq!(unread["name"], "2-unread");
    let stopped = get(s.address, "/experiments/2-stopped").expect(200);
    assert_eq!(stopped["outcome"]["status"], "interrupted");
    assert_eq!((&stopped["name"], &stopped["verdict"]), (&json!("of"), &json!("passed")));
    let killed = get(s.address, "/experiments/1-killed").expect(200);
    assert_eq!((&killed["name"], &killed["title"]), (&json!("of-1-killed"), &json!("A title")));
    // What came of one that has ended is read when it is asked for.
    let done = get(s.address, "/experiments/4-done").expect(200);
    assert_eq!((&done["outcome"]["id"], &done["verdict"]), (&json!("4-done"), &json!("passed")));
    assert_eq!(get(s.address, "/experiments/4-done/report").status, 200);
    assert_eq!(get(s.address, "/experiments/4-partial").expect(200)["error"], "no peer");
    let resume = |id: &str| ask(s.address, "POST", &format!("/experiments/{id}/resume"), &[], None);
    for (id, kind, named) in [
        ("8-shell", "command", "/bin/sh"),
        ("8-deeper", "command", "deeper/ours"),
        ("8-files", "files", ""),
        ("2-unread", "scenario", ""),
        ("4-done", "complete", ""),
        ("4-partial", "complete", ""),
    ] {
        let refused = resume(id).expect(409);
        assert_eq!(refused["type"], format!("urn:weir:problem:{kind}"), "{id}: {refused}");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(named), "{refused}");
        if id == "2-unread" {
            // It is listed with the same reason.
            let (_, why) = detail.split_once(": ").unwrap();
            assert!(unread["error"].as_str().unwrap().contains(why), "{unread} {detail}");
        }
    }
    let none = get(s.address, "/experiments/1-killed/report").expect(409);
    assert_eq!(none["type"], "urn:weir:problem:no-result", "{none}");
    for id in ["4-other", "5-other", "5-named", "6-nothing"] {
        resume(id).expect(404);
    }
    // What is there now counts, not what was when the server began.
    std::fs::remove_file(script("ours")).unwrap();
    let refused = resume("8-script").expect(409);
    assert!(refused["detail"].as_str().unwrap().contains("8-script"), "{refused}");
    let again = keep_again(&kept.checkpoint("9-running"));
    let refused = resume("9-running").expect(409);
    assert_eq!(refused["type"], "urn:weir:problem:running-elsewhere", "{refused}");
    drop(again);
    let mut events = Events::open(connect(s.address), "");
    let later = resume("2-stopped").expect(202);
    assert_eq!(later["id"], "2-stopped");
    let refused = resume("2-stopped").expect(409);
    assert_eq!(refused["type"], "urn:weir:problem:not-ended", "{refused}");
    std::fs::write(s.directory.path().join("go"), "").unwrap();
    events.until("state", |e| e["id"] == later["id"] && e["state"] == "ended");
    resume("2-stopped").expect(409);
    assert_eq!(get(s.address, "/experiments/2-stopped").expect(200)["resumable"], false);
    assert!(!s.directory.path().join("others").exists(), "a program was started for a refusal");
}

/// Waits for what is looked at beside the request that asks.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + http::LIMIT;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}: it did not come");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn what_came_to_its_end_by_another_program_is_not_run_again() {
    let directory = tempfile::tempdir().unwrap();
    let kept = weir_runs::Experiments::prepare(&served::data(directory.path())).unwrap();
    for id in ["1-read", "2-listed", "3-gone", "4-open"] {
        drop(Checkpoint::create(&kept.checkpoint(id), &head(id, None)).unwrap());
        kept.keep(id, &outcome(id, "interrupted")).unwrap();
    }
    let s = with_script_in(directory, "echo x >> $here/begun", |_| {});
    let resumable = || -> Vec<bool> {
        let list = get(s.address, "/experiments").expect(200);
        list["experiments"].as_array().unwrap().iter().map(|e| e["resumable"] == true).collect()
    };
    assert_eq!(resumable(), [true; 4]);
    let resume = |id: &str| ask(s.address, "POST", &format!("/experiments/{id}/resume"), &[], None);
    // Resuming it is refused, whether the store was scanned meanwhile or not.
    kept.keep("1-read", &outcome("1-read", "complete")).unwrap();
    let refused = resume("1-read").expect(409);
    assert_eq!(refused["type"], "urn:weir:problem:complete", "{refused}");
    kept.keep("2-listed", &outcome("2-listed", "complete")).unwrap();
    until("the list tells", || resumable() == [true, true, false, false]);
    std::fs::remove_file(kept.checkpoint("3-gone")).unwrap();
    until("the list tells", || resumable() == [true, false, false, false]);
    let listed = get(s.address, "/experiments/2-listed").expect(200);
    assert_eq!(
        (&listed["state"], &listed["outcome"]["status"]),
        (&json!("ended"), &json!("complete"))
    );
    for id in ["1-read", "2-listed", "3-gone"] {
        let refused = resume(id).expect(409);
        assert_eq!(refused["type"], "urn:weir:problem:complete", "{refused}");
    }
    assert!(!s.directory.path().join("begun").exists());
}

#[test]
fn what_the_command_line_began_and_brought_to_its_end_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let kept = weir_runs::Experiments::prepare(&served::data(directory.path())).unwrap();
    for id in ["1-listed", "2-asked", "3-failed"] {
        drop(Checkpoint::create(&kept.checkpoint(id), &head(id, None)).unwrap());
        kept.keep(id, &outcome(id, "interrupted")).unwrap();
    }
    let s = with_script_in(directory, "echo x >> $here/begun", |_| {});
    let list = || -> Vec<Value> {
        let list = get(s.address, "/experiments").expect(200);
        let list = list["experiments"].as_array().unwrap();
        list.iter().rev().map(|e| json!([e["state"], e["verdict"]])).collect()
    };
    let stood = json!(["interrupted", "passed"]);
    assert_eq!(list(), [stood.clone(), stood.clone(), stood]);
    kept.keep("2-asked", &outcome("2-asked", "complete")).unwrap();
    // Also if the list was not requested since.
    let asked = get(s.address, "/experiments/2-asked").expect(200);
    let told = (&asked["state"], &asked["outcome"]["status"]);
    assert_eq!(told, (&json!("ended"), &json!("complete")), "{asked}");
    kept.keep("1-listed", &outcome("1-listed", "complete")).unwrap();
    kept.keep("3-failed", &outcome("3-failed", "partial")).unwrap();
    let ended = json!(["ended", "passed"]);
    let now = [ended.clone(), ended, json!(["failed", "error"])];
    until("the list tells", || list() == now);
}

fn keep_again(path: &Path) -> Checkpoint {
    Checkpoint::open(path, |_| false).unwrap().0
}

#[test]
fn the_demo_is_started_watched_and_stopped_one_at_a_time() {
    let s = with_script_in(
        tempfile::tempdir().unwrap(),
        "case $job in\n\
         *'\"seconds\":1,'*) say '  first row done'; touch $here/begun; read -r stop; exit 130;;\n\
         *'\"seconds\":2,\"simulate\":true'*) say '  all rows'; printf '{\\n\"schema\": \"weir.demo/1\",\\n\"paths\": [{\"name\": \"x\"}]\\n}\\n' | result; exit 5;;\n\
         *'\"seconds\":3,\"simulate\":true'*) no 'no lab here' 4;;\n\
         esac",
        |config| config.may_make_labs = true,
    );
    let demo = || get(s.address, "/demo").expect(200);
    let run = |body: Value| ask(s.address, "POST", "/demo", &[], Some(&body));
    assert_eq!(demo(), json!({ "progress": [] }));
    let mut events = Events::open(connect(s.address), "?topics=demo");
    for (body, field) in [
        (json!({ "seconds": 0 }), "/seconds"),
        (json!({ "seconds": 61 }), "/seconds"),
        (json!({ "second": 1 }), "/second"),
    ] {
        let refused = run(body).expect(422);
        assert_eq!(refused["errors"][0]["field"], field, "{refused}");
    }
    // Nothing to stop is no error.
    ask(s.address, "POST", "/demo/stop", &[], None).expect(202);
    assert_eq!(run(json!({})).expect(202)["state"], "running");
    run(json!({})).expect(409);
    events.until("state", |e| e["kind"] == "demo" && e["step"] == "first row done");
    assert_eq!(demo()["progress"], json!(["first row done"]));
    let end = std::time::Instant::now() + http::LIMIT;
    while !s.directory.path().join("begun").exists() {
        assert!(std::time::Instant::now() < end, "the demo did not begin");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(ask(s.address, "POST", "/demo/stop", &[], None).expect(202)["state"], "ending");
    events.until("state", |e| e["state"] == "interrupted");
    let stopped = demo();
    let told = (&stopped["state"], &stopped["exit_code"], &stopped["error"]);
    assert_eq!(told, (&json!("interrupted"), &json!(130), &Value::Null), "{stopped}");
    assert!(stopped["result"].is_null(), "{stopped}");
    // Its result is what it printed, whatever its verdict.
    run(json!({ "seconds": 2, "simulate": true })).expect(202);
    events.until("state", |e| e["state"] == "ended");
    let ended = demo();
    assert_eq!((&ended["exit_code"], &ended["state"]), (&json!(5), &json!("ended")));
    assert_eq!(ended["result"]["paths"][0]["name"], "x");
    run(json!({ "seconds": 3, "simulate": true })).expect(202);
    events.until("state", |e| e["state"] == "failed" && e["error"] == "no lab here");
    assert!(demo()["result"].is_null(), "of the one before");
}

#[test]
fn without_labs_the_demo_is_refused_before_it_begins_but_for_the_virtual_clock() {
    let s = with_script("echo x >> $here/begun");
    let refused = ask(s.address, "POST", "/demo", &[], Some(&json!({}))).expect(422);
    assert_eq!(refused["errors"][0]["field"], "/simulate");
    assert!(!s.directory.path().join("begun").exists());
    ask(s.address, "POST", "/demo", &[], Some(&json!({ "simulate": true }))).expect(202);
    // Without a launcher nothing begins, and nothing is left of it.
    let s = served::serve(|_| {});
    ask(s.address, "POST", "/demo", &[], Some(&json!({ "simulate": true }))).expect(503);
    assert_eq!(get(s.address, "/demo").expect(200), json!({ "progress": [] }));
}

#[test]
fn askers_who_hang_up_leave_nothing_half_started() {
    let s = with_script("sleep 0.05");
    let body = json!({ "host": "127.0.0.1", "plan": plan() }).to_string();
    for _ in 0..60 {
        let mut stream = connect(s.address);
        write!(stream, "POST /api/v1/tests HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut calibrate = connect(s.address);
        calibrate.write_all(b"POST /api/v1/calibration HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}").unwrap();
    }
    let end = std::time::Instant::now() + http::LIMIT;
    loop {
        let tests = get(s.address, "/tests").expect(200);
        let tests = tests["tests"].as_array().unwrap();
        let is_over = |t: &Value| t["state"] == "failed" || t["state"] == "ended";
        let calibration = get(s.address, "/calibration").expect(200);
        if tests.iter().all(is_over) && calibration["running"] == false {
            break;
        }
        assert!(std::time::Instant::now() < end, "{tests:?} {calibration}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let test = json!({ "host": "127.0.0.1", "plan": plan() });
    ask(s.address, "POST", "/tests", &[], Some(&test)).expect(201);
}
