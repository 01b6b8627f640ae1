//! Campaigns that are interrupted, resumed after files changed, or written to a full disk or standard output. The tests
//! need no lab; traffic is on loopback.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_model::Refusal;

use crate::common::{events, messages, refusal};

fn weir(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words).env("XDG_DATA_HOME", home).env("HOME", home).env("NO_COLOR", "1");
    command.env("WEIR_ERRORS", "json").stdin(Stdio::null()).current_dir(home);
    command.env_remove("SUDO_UID").env_remove("WEIR_KEY");
    command
}

/// Exit code, standard output and standard error.
fn run(home: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let output = weir(home, words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The refusal of a command line, which must have exit code 2.
#[track_caller]
fn refused(home: &Path, words: &[&str]) -> Refusal {
    let refused = refusal(&weir(home, words).output().unwrap());
    assert_eq!(refused.exit_code, 2, "{words:?}: {refused:?}");
    refused
}

/// A server on a free port of loopback, killed when this is dropped.
struct Server(Child, String);

impl Server {
    fn start() -> Server {
        // Another program may have bound the port in the meantime, or use it in UDP.
        for _ in 0..20 {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port().to_string();
            drop(listener);
            let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
            command.args(["serve", "-B", "127.0.0.1", "-p", &port]).env_remove("WEIR_KEY");
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut server = Server(command.spawn().unwrap(), port);
            let mut line = String::new();
            BufReader::new(server.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            if line.contains("listening") {
                return server;
            }
        }
        panic!("no server in 20 attempts");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The text of the only checkpoint that is stored in a home.
fn checkpoint(home: &Path) -> String {
    let entries = std::fs::read_dir(home.join("weir/experiments")).into_iter().flatten();
    let mut paths = entries.filter_map(|e| Some(e.ok()?.path()));
    let checkpoint = paths.find(|path| path.extension().is_some_and(|x| x == "checkpoint"));
    checkpoint.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
}

fn scenario(home: &Path, text: &str) -> String {
    let path = home.join("s.toml").display().to_string();
    std::fs::write(&path, format!("schema = \"weir.scenario/1\"\nname = \"s\"\n{text}\n")).unwrap();
    path
}

const SIMULATED: &str =
    "[lab]\n[[step]]\nsweep = { over = [\"size=64\"], test = { args = \"-u -b 100k -t 1\" } }";

/// Runs Weir until its checkpoint has `lines` lines, then sends it a signal. Exit code, standard output and standard error.
fn ended(home: &Path, words: &[&str], lines: usize, signal: &str) -> (Option<i32>, String, String) {
    let mut command = weir(home, words);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while checkpoint(home).lines().count() < lines
        && child.try_wait().unwrap().is_none()
        && Instant::now() < end
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// An interrupted campaign prints how to resume it and no error; the run in progress is marked as interrupted.
#[test]
fn an_interrupted_campaign_is_reported_and_resumed() {
    let server = Server::start();
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let dir = tempfile::tempdir().unwrap();
        let words =
            ["sweep", "127.0.0.1", "-p", &server.1, "--over", "size=100,200", "--runs", "50"];
        let words = [&words[..], &["-u", "-b", "500pps", "-t", "0.4", "--csv", "x.csv"]].concat();
        let (ended, out, err) = ended(dir.path(), &words, 3, signal);
        assert_eq!(ended, Some(code), "{out}{err}");
        // The last line ends with the command that resumes it.
        let (_, id) = out.lines().last().unwrap().rsplit_once("weir run --resume ").unwrap();
        let kept = std::fs::read_to_string(dir.path().join(format!("weir/experiments/{id}.json")));
        let kept: Value = serde_json::from_str(&kept.unwrap()).unwrap();
        assert_eq!(
            (&kept["status"], &kept["outcome"]),
            (&"interrupted".into(), &"inconclusive".into())
        );
        let step = &kept["steps"][0];
        assert_eq!(
            (&step["interrupted"], &step["outcome"]),
            (&true.into(), &"inconclusive".into())
        );
        // The text has the step's reason and no error.
        assert!(events(&err).iter().all(|event| event["event"] != "error"), "{err}");
        let reason = step["reason"].as_str().unwrap();
        assert!(out.contains(reason), "{reason}: {out}");
        let runs = step["runs"].as_array().unwrap();
        let cut = runs.iter().filter(|r| r["interrupted"] == true).count();
        let whole = runs.iter().filter(|r| r["error"].is_null()).count();
        assert!(reason.contains(&format!(" {whole} of 100 ")), "{reason} {kept}");
        let table = std::fs::read_to_string(dir.path().join("x.csv")).unwrap();
        let column =
            table.lines().next().unwrap().split(',').position(|c| c == "interrupted").unwrap();
        let most = table
            .lines()
            .skip(1)
            .filter_map(|l| l.split(',').nth(column)?.parse::<usize>().ok())
            .max();
        assert_eq!(most, Some(cut), "{table}");
    }
}

/// Checking ten thousand points takes seconds. A signal ends the check immediately, and nothing is stored.
#[test]
fn a_long_check_ends_immediately_on_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let path = scenario(
        dir.path(),
        "[host.b]\naddress = \"127.0.0.1\"\nport = 1\n[[step]]\nsweep = { over = [\"size=1..300:1\", \"connections=1..300:1\"], test = { args = \"-u\" } }",
    );
    for words in [&["run", "--check", &path][..], &["run", &path]] {
        let mut command = weir(dir.path(), words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It handles signals before it starts to check.
        let listens = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
            let caught =
                caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
            caught & 1 << (2 - 1) != 0
        };
        let end = Instant::now() + Duration::from_secs(60);
        while !listens() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{words:?}: {err}");
        let code = if words[1] == "--check" { "not-checked" } else { "nothing-run" };
        assert_eq!(messages(&err, code).len(), 1, "{words:?}: {err}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    assert_eq!(checkpoint(dir.path()), "");
}

/// A changed file is not used when resuming, and a message names it.
#[test]
fn a_changed_file_is_reported_when_its_experiment_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[host.b]\naddress = \"127.0.0.1\"\nport = 1\n[[step]]\ntest = { args = \"-u\" }";
    let path = scenario(dir.path(), text);
    let changed = |dir: &Path| messages(&run(dir, &["run", "--resume", "last"]).2, "file-changed");
    assert_eq!(run(dir.path(), &["run", &path]).0, Some(3), "no server");
    assert_eq!(changed(dir.path()), [""; 0]);
    scenario(dir.path(), &text.replace("-u", "-u -t 1"));
    let told = changed(dir.path());
    assert!(told.len() == 1 && told[0].contains("s.toml"), "{told:?}");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(changed(dir.path()), [""; 0], "the file was removed");

    let dir = tempfile::tempdir().unwrap();
    let plan = |seconds: u32| {
        let text = format!(
            "schema = \"weir.plan/1\"\nhost = \"127.0.0.1\"\nport = 1\n[[connection]]\nduration = {seconds}\n"
        );
        std::fs::write(dir.path().join("p.toml"), text).unwrap();
    };
    plan(1);
    let words = ["sweep", "--plan", "p.toml", "--over", "size=100"];
    let (code, out, err) = run(dir.path(), &words);
    assert_eq!(code, Some(3), "{out}{err}");
    assert_eq!(changed(dir.path()), [""; 0]);
    plan(2);
    let told = changed(dir.path());
    assert!(told.len() == 1 && told[0].contains("p.toml"), "{told:?}");
    // Nor may its own table overwrite it.
    let refused = refused(dir.path(), &[&words[..], &["--csv", "p.toml"]].concat());
    assert_eq!(refused.field.as_deref(), Some("--csv"));
}

/// The result has a warning that --host leaves out the lab's emulator.
#[test]
fn a_left_out_emulator_is_in_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[lab]\nmiddle = true\n[emulator.m]\nboth = \"loss 5%\"\n[[step]]\ntest = { args = \"-u -t 1\", to = \"b\" }";
    let path = scenario(dir.path(), text);
    let words = ["run", &path, "--host", "b=127.0.0.1:1", "--json"];
    let (code, out, err) = run(dir.path(), &words);
    assert_eq!(code, Some(3), "{out}{err}");
    let [told] = &messages(&err, "emulator-left-out")[..] else { panic!("{err}") };
    assert!(told.contains("--host") && told.contains(" m:"), "{told}");
    let warned = |out: &str| {
        let result: Value = serde_json::from_str(out).unwrap();
        assert_eq!(result["warnings"], serde_json::json!([told]), "{out}");
        result["id"].as_str().unwrap().to_owned()
    };
    let id = warned(&out);
    let (_, out, _) = run(dir.path(), &["run", "--resume", &id, "--json"]);
    assert_eq!(warned(&out), id);
    let (_, page, err) = run(dir.path(), &["report", &id, "--format", "md"]);
    assert!(page.contains(told), "{page}{err}");
    // Its only run failed.
    assert!(page.contains("· 0 runs"), "{page}");
}

/// A step that can't be simulated has no result: its expectations must not be reported as met.
#[test]
fn expectations_of_skipped_steps_are_not_judged() {
    let dir = tempfile::tempdir().unwrap();
    let tcp = "[lab]\n[[step]]\nexpect = [\"throughput > 1 Mbit/s\"]\ntest = { args = \"-t 1\" }";
    let mixed = "[lab]\n[[step]]\nexpect = [\"throughput > 1 bit/s where transport=tcp\"]\n\
                 sweep = { over = [\"transport=tcp,udp\"], test = { args = \"-b 100k -l 100 -t 1\" } }";
    let other = "[lab]\n[[step]]\nexpect = [\"throughput > 1 bit/s\"]\ncompare = { with = { seconds = 1 } }";
    for text in [tcp, mixed, other] {
        let path = scenario(dir.path(), text);
        let (code, out, err) = run(dir.path(), &["run", "--simulate", "--json", &path]);
        assert_eq!(code, Some(5), "{text}: {out}{err}");
        let result: Value = serde_json::from_str(&out).unwrap();
        let [judged] = &result["steps"][0]["expectations"].as_array().unwrap()[..] else {
            panic!("{text}: {out}");
        };
        let parts = (&judged["outcome"], &judged["code"], &judged["measured"]);
        assert_eq!(
            parts,
            (&"inconclusive".into(), &"not-simulated".into(), &Value::Null),
            "{text}"
        );
    }
    // An expectation that some step can judge is judged.
    let path = scenario(dir.path(), &mixed.replace(" where transport=tcp", ""));
    assert_eq!(run(dir.path(), &["run", "--simulate", &path]).0, Some(0));
    let path = scenario(dir.path(), &tcp.replace("expect = [\"throughput > 1 Mbit/s\"]\n", ""));
    assert_eq!(run(dir.path(), &["run", "--simulate", &path]).0, Some(0), "nothing was expected");
}

/// With `-`, standard output holds one result and nothing else.
#[test]
fn standard_output_holds_only_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let path = scenario(dir.path(), SIMULATED);
    for (flag, first) in [("--csv", "step,size,"), ("--junit", "<?xml"), ("--html", "<!")] {
        let (code, out, err) = run(dir.path(), &["run", "--simulate", &path, flag, "-"]);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.starts_with(first), "{flag}: {out}");
        let [verdict] = &messages(&err, "verdict")[..] else { panic!("{flag}: {err}") };
        let id = verdict.lines().next().unwrap().rsplit(' ').next().unwrap();
        assert!(id.starts_with('2'), "{flag}: {verdict}");
        assert!(!out.contains(verdict), "{flag}: {out}");
    }
    assert!(!dir.path().join("-").exists());
    // Two results on standard output are refused; the golden file of refusals has more cases.
    let both = refused(dir.path(), &["run", "--simulate", &path, "--json", "--csv", "-"]);
    assert_eq!(both.field.as_deref(), Some("--csv"));
    // The same for a single test.
    let server = Server::start();
    let test =
        ["test", "127.0.0.1", "-p", &server.1, "-u", "-k", "50", "-b", "500pps", "--csv", "-"];
    let (code, out, err) = run(dir.path(), &test);
    assert_eq!(code, Some(0), "{err}");
    let columns = out.lines().next().unwrap().split(',').count();
    assert!(out.lines().count() > 1 && columns > 10, "{out}");
    assert!(out.lines().all(|l| l.split(',').count() == columns), "stdout holds only rows: {out}");
    assert!(!err.is_empty(), "messages go to stderr");
    let both = refused(dir.path(), &[&test[..], &["--json"]].concat());
    assert_eq!(both.field.as_deref(), Some("--csv"));
}

/// No output overwrites another, including the files in a directory of figures.
#[test]
fn figures_overwrite_no_other_output() {
    let dir = tempfile::tempdir().unwrap();
    let path = scenario(dir.path(), SIMULATED);
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    // The golden file of refusals has the refused combinations.
    let beside = ["run", "--simulate", &path, "--csv", "sub/x.csv", "--svg", "sub"];
    assert_eq!(run(dir.path(), &beside).0, Some(0));
}

/// If an output file can't be written because the disk is full, the result is stored, and a message says how to write it again.
#[test]
fn an_output_lost_to_a_full_disk_can_be_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let test = ["-p", &server.1, "-u", "-k", "50", "-b", "500pps", "--csv", "/dev/full"];
    let words = [&["sweep", "127.0.0.1", "--over", "size=100"][..], &test].concat();
    let (code, out, err) = run(dir.path(), &words);
    assert_eq!(code, Some(4), "{out}{err}");
    // The last command of a message up to its file, without `weir`.
    let command = |told: &str, file: &str| {
        let told = told.rsplit_once("weir ").unwrap().1.split_once("FILE").unwrap().0;
        let words = told.split_whitespace().chain([file]);
        words.map(ToOwned::to_owned).collect::<Vec<String>>()
    };
    let again = |words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(run(dir.path(), &words).0, Some(0), "{words:?}");
    };
    let [told] = &messages(&err, "stored")[..] else { panic!("{err}") };
    again(&command(told, "x.csv"));
    assert!(std::fs::read_to_string(dir.path().join("x.csv")).unwrap().starts_with("step,size,"));
    let (code, out, err) = run(dir.path(), &[&["test", "127.0.0.1"][..], &test].concat());
    assert_eq!(code, Some(4), "{out}{err}");
    let [told] = &messages(&err, "stored")[..] else { panic!("{err}") };
    assert!(told.contains("weir runs show "), "{told}");
    again(&command(told, "y.csv"));
    assert!(std::fs::metadata(dir.path().join("y.csv")).unwrap().len() > 0);
    let (_, _, err) = run(dir.path(), &[&["test", "127.0.0.1", "--no-store"][..], &test].concat());
    assert!(messages(&err, "stored").is_empty(), "{err}");
}

/// An experiment's id given as a run is refused, naming the commands that accept it.
#[test]
fn an_experiments_id_in_place_of_a_runs_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[host.b]\naddress = \"127.0.0.1\"\nport = 1\n[[step]]\ntest = { args = \"-u\" }";
    let path = scenario(dir.path(), text);
    let (_, out, _) = run(dir.path(), &["run", &path, "--json"]);
    let result: Value = serde_json::from_str(&out).unwrap();
    let id = result["id"].as_str().unwrap();
    let shown = refused(dir.path(), &["runs", "show", id]);
    assert_eq!((shown.code.as_str(), shown.given.as_deref()), ("not-a-run", Some(id)));
    assert_eq!(refused(dir.path(), &["report", id, id]).field.as_deref(), Some("RUN"));
}

/// A running experiment has no page yet. It can't be resumed either, so the refusal must not suggest that.
#[test]
fn a_running_experiment_is_reported_as_running() {
    let dir = tempfile::tempdir().unwrap();
    let path = scenario(
        dir.path(),
        "[host.b]\naddress = \"127.0.0.1\"\nport = 1\n[[step]]\nwait = { time = 100 }",
    );
    let mut command = weir(dir.path(), &["run", &path]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !checkpoint(dir.path()).contains('\n') && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    let head: Value = serde_json::from_str(checkpoint(dir.path()).lines().next().unwrap()).unwrap();
    let id = head["id"].as_str().unwrap();
    let running = refused(dir.path(), &["report", id]);
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(running.field.as_deref(), Some("RUN"));
    let accepted = refused(dir.path(), &["report", id]).accepted.unwrap();
    assert!(accepted.contains(&format!("weir run --resume {id}")), "{accepted}");
}
