//! Scenarios and sweeps end to end: in a lab of namespaces, on the virtual clock, interrupted and gone on with.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

fn weir(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words).env("XDG_DATA_HOME", home).env("HOME", home).env("NO_COLOR", "1");
    command.env_remove("SUDO_UID").stdin(Stdio::null());
    command
}

fn run(home: &Path, words: &[&str]) -> (Output, String, String) {
    let output = weir(home, words).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, out, err)
}

/// Whether labs can be made; one test at a time makes them.
fn turn(test: &str) -> Option<MutexGuard<'static, ()>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if weir_net::namespace::effective_user_id() != 0 {
        common::skip(test, "needs root");
        return None;
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn file(dir: &Path, text: &str) -> String {
    let path = dir.join("s.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn every_shipped_scenario_holds_also_when_quick() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(scenarios()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            for flags in [&["run", "--check"][..], &["run", "--check", "--quick"]] {
                let words = [flags, &[path.to_str().unwrap()]].concat();
                let (output, out, err) = run(dir.path(), &words);
                assert_eq!(output.status.code(), Some(0), "{}: {out}{err}", path.display());
            }
            count += 1;
        }
    }
    assert!(count >= 9, "{count} scenarios");
}

/// The virtual clock: the same text on any machine.
#[test]
fn a_simulated_scenario_is_exact() {
    let dir = tempfile::tempdir().unwrap();
    let path = scenarios().join("voice-over-bad-path.toml");
    let words = ["run", "--simulate", "--json", path.to_str().unwrap()];
    let (output, out, err) = run(dir.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["simulated"], true);
    let step = |name: &str| {
        let steps = result["steps"].as_array().unwrap();
        steps.iter().find(|s| s["name"] == name).unwrap().clone()
    };
    assert_eq!(step("clean")["runs"][0]["metrics"]["loss"], 0.0);
    assert_eq!(step("clean")["runs"][0]["metrics"]["p99 one_way_delay"], 0.001);
    let bad = step("bad");
    let losses: Vec<f64> = bad["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["metrics"]["loss"].as_f64().unwrap())
        .collect();
    // Drawn from the scenario's seed: these and no others.
    assert_eq!(losses.len(), 3);
    assert!(losses.windows(2).any(|w| w[0] != w[1]), "repetitions differ: {losses:?}");
    assert_eq!(bad["runs"][0]["metrics"]["mean one_way_delay"], 0.02);
    assert_eq!(step("tcp")["outcome"], "skipped");
    let (_, again, _) = run(dir.path(), &words);
    let again: Value = serde_json::from_str(&again).unwrap();
    let bare = |mut v: Value| {
        for key in ["id", "started_at", "seconds"] {
            v[key] = Value::Null;
        }
        fn untimed(v: &mut Value) {
            for step in v["steps"].as_array_mut().into_iter().flatten() {
                step["seconds"] = Value::Null;
                untimed(step);
            }
        }
        untimed(&mut v);
        v
    };
    assert_eq!(bare(result), bare(again));
}

#[test]
fn bad_scenarios_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let head = "schema = \"weir.scenario/1\"\nname = \"s\"\n[host.b]\naddress = \"192.0.2.1\"\n";
    for (text, words) in [
        ("[[step]]\ntset = { args = \"-u\" }", "did you mean test?"),
        ("[[step]]\ntest = { args = \"-u --bogus\" }", "--bogus"),
        ("[[step]]\ntest = { args = \"-u\", form = \"a\" }", "did you mean from?"),
        ("[[step]]\ntest = { args = \"-u\", to = \"c\" }", "step[0].test.to: c; accepted: b"),
        ("[[step]]\ntest = {}\nexpect = [\"throughput >= 3 ms\"]", "a rate such as"),
        ("[[step]]\ntest = { args = \"{x}\" }", "{x} is no variable"),
        ("[[step]]\nsweep = { over = [\"colour=red\"], test = {} }", "colour"),
        ("[[step]]\nsweep = { over = [\"size=5..1\"], test = {} }", "A..B:STEP"),
        ("[[step]]\nimpair = { both = \"loss 1%\" }", "an [emulator.NAME]"),
        ("[[step]]\ncommand = { run = [\"id\"], host = \"b\" }", "nothing runs commands elsewhere"),
        ("[[step]]\nwait = { test = \"none\" }", "background = true"),
        ("[[step]]\nwait = { time = 1 }\ntest = {}", "test and wait"),
        ("", "missing field `step`"),
        ("[[step]\n", "line 5"),
    ] {
        let path = file(dir.path(), &format!("{head}{text}\n"));
        let (output, _, err) = run(dir.path(), &["run", "--check", &path]);
        assert_eq!(output.status.code(), Some(2), "{text}: {err}");
        assert!(err.contains(words), "{text}\n  said: {err}\n  wanted: {words}");
    }
    let (output, _, err) = run(
        dir.path(),
        &["run", "--set", "runz=1", scenarios().join("saturation.toml").to_str().unwrap()],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(err.contains("did you mean runs?"), "{err}");
}

#[test]
fn a_peer_that_is_not_there_is_an_error_and_the_rest_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[host.b]\naddress = \"127.0.0.1\"\nport = 1\n\
                [[step]]\ntest = { args = \"-t 1\" }\n[[step]]\nwait = { time = 1 }\n";
    let path = file(dir.path(), text);
    let junit = dir.path().join("j.xml");
    let (output, out, err) = run(
        dir.path(),
        &["run", &path, "--json", "--no-store", "--junit", junit.to_str().unwrap()],
    );
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["steps"][0]["outcome"], "error");
    assert_eq!(result["steps"][1]["outcome"], "skipped");
    assert!(result["steps"][0]["reason"].as_str().unwrap().contains("127.0.0.1"), "{out}");
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(xml.contains("tests=\"2\" failures=\"0\" errors=\"1\" skipped=\"1\""), "{xml}");
}

/// A sweep in a lab, killed in the middle and gone on with: what was done is not done again.
#[test]
fn a_killed_sweep_goes_on_where_it_was() {
    let Some(_turn) = turn("a_killed_sweep_goes_on_where_it_was") else { return };
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "sweep",
        "--lab",
        "--over",
        "size=100,200",
        "--runs",
        "4",
        "-u",
        "-b",
        "500pps",
        "-t",
        "0.3",
        "--order-seed",
        "7",
    ];
    let mut child =
        weir(dir.path(), &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let journals = dir.path().join("weir/experiments");
    let lines = || {
        let entry = std::fs::read_dir(&journals)
            .ok()?
            .filter_map(Result::ok)
            .find(|e| e.path().extension().is_some_and(|x| x == "journal"))?;
        Some(std::fs::read_to_string(entry.path()).ok()?.lines().count())
    };
    let end = Instant::now() + Duration::from_secs(60);
    while lines().unwrap_or(0) < 4 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = lines().unwrap() - 1;
    assert!((3..8).contains(&before), "{before} runs were done");
    let (output, out, err) = run(dir.path(), &["run", "--resume", "last", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 5)), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(err.matches("(done before)").count(), before, "{err}");
    let points = result["steps"][0]["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        assert_eq!(point["runs"], 4, "{point}");
        let rate = &point["metrics"]["sent_packet_rate"];
        assert!(rate.is_null(), "not asked for");
        assert!(point["metrics"]["throughput"]["interval"]["low"].is_number());
    }
    // Its runs are kept, each with the experiment's label.
    let label = format!("experiment={}", result["id"].as_str().unwrap());
    let (_, out, _) =
        run(dir.path(), &["runs", "list", "--json", "--number", "0", "--label", &label]);
    let kept: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(kept["runs"].as_array().unwrap().len(), 8, "{kept}");
}

#[test]
fn an_interrupt_ends_a_scenario_in_order() {
    let Some(_turn) = turn("an_interrupt_ends_a_scenario_in_order") else { return };
    let dir = tempfile::tempdir().unwrap();
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\nmiddle = true\n[emulator.m]\nboth = \"delay 5ms\"\n\
                [[step]]\nname = \"long\"\ntest = { args = \"-u -b 1000pps -t 60\" }\n\
                [[step]]\nname = \"never\"\nwait = { time = 1 }\n";
    let path = file(dir.path(), text);
    let mut child = weir(dir.path(), &["run", &path, "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut out = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{out}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["status"], "interrupted");
    assert_eq!(result["steps"][1]["outcome"], "skipped");
    // What was measured is there.
    assert!(result["steps"][0]["runs"][0]["id"].is_string(), "{out}");
    let (_, labs, _) = run(dir.path(), &["lab", "list", "--json"]);
    assert!(!labs.contains("weir-run"), "{labs}");
}

/// What a scenario asks of an emulator is what its tests measure, and what fails is told with the figure.
#[test]
fn expectations_meet_an_impaired_path() {
    let Some(_turn) = turn("expectations_meet_an_impaired_path") else { return };
    let dir = tempfile::tempdir().unwrap();
    // What the test itself says over TCP and its hellos are impaired alike: the share of data is not exact.
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\nmiddle = true\n[emulator.m]\n\
                [[step]]\nname = \"lossy\"\nsweep = { over = [\"every=5,10\"], metrics = [\"loss\"], impair = { both = \"loss every {every}\" }, \
                test = { args = \"-u -k 1000 -b 2000pps --no-latency\" } }\n\
                expect = [\"loss >= 19 % where every=5\", \"loss <= 11 % where every=10\", \"loss < 1 % where every=10\"]\n";
    let path = file(dir.path(), text);
    let (output, out, err) = run(dir.path(), &["run", &path, "--json", "--no-store"]);
    let result: Value = serde_json::from_str(&out).unwrap();
    let judged = result["steps"][0]["expectations"].as_array().unwrap();
    let measured =
        |i: usize| judged[i]["measured"].as_f64().unwrap_or_else(|| panic!("{out}{err}"));
    assert!((0.19..=0.21).contains(&measured(0)), "{out}");
    assert!((0.09..=0.11).contains(&measured(1)), "{out}");
    assert_eq!(
        (&judged[0]["outcome"], &judged[1]["outcome"]),
        (&Value::from("passed"), &Value::from("passed"))
    );
    assert_eq!(judged[2]["outcome"], "failed");
    let reason = judged[2]["reason"].as_str().unwrap();
    assert!(reason.starts_with("measured ") && reason.contains("expected < 1 %"), "{reason}");
    assert_eq!(output.status.code(), Some(1));
}

/// A server that a step in a thread of its own was the first to need is there for the steps behind it.
#[test]
fn a_server_outlives_the_step_that_needed_it_first() {
    let Some(_turn) = turn("a_server_outlives_the_step_that_needed_it_first") else { return };
    let dir = tempfile::tempdir().unwrap();
    let test = "{ args = \"-u -k 100 -b 1000pps --no-latency\" }";
    let text = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\nparallel = [{{ name = \"one\", test = {test} }}]\n\
         [[step]]\nname = \"after\"\ntest = {test}\nexpect = [\"packets == 100\"]\n"
    );
    let path = file(dir.path(), &text);
    let (output, out, err) = run(dir.path(), &["run", &path, "--no-store"]);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
}
