//! Scenarios run through the crate's API, with a script instead of `weir test`: what ends them before their time, what
//! is repeated when they are resumed, and what is left behind.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_experiment::scenario::checkpoint::{
    CHECKPOINT_SCHEMA, Checkpoint, CheckpointHeader, Session,
};
use weir_experiment::scenario::{self, Ended, Files, Options, ScenarioError};
use weir_model::experiment::{Outcome, Scenario, StepOutcome, Variables};
use weir_model::plan::{Connection, Plan, Transport};
use weir_model::record::{Flow, Record, Status};
use weir_model::units::{Seed, Span};

const HEAD: &str = "schema = \"weir.scenario/1\"\nname = \"s\"\n";
const HOST: &str = "[host.b]\naddress = \"192.0.2.1\"\n";

/// A directory with a program that answers as `weir test` does. It fails while a file `down` is there (one of a step's name for
/// that step), and leaves a line in `made` for each test.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench { dir: tempfile::tempdir().unwrap() };
        let record = Record { flows: vec![Flow::default()], ..Record::default() };
        let end = json!({ "event": "end", "data": record });
        std::fs::write(bench.path("end"), format!("{end}\n")).unwrap();
        let script = "#!/bin/sh\ncd \"${0%/*}\"\n\
            read -r job\n\
            step=${job#*'\"step\":\"'}; step=${step%%'\"'*}\n\
            step=$(echo \"$step\" | tr '/' '-')\n\
            echo \"$step\" >> made\n\
            [ -e \"slow-$step\" ] && { read -r stop; exit 130; }\n\
            [ -e down ] || [ -e \"down-$step\" ] && { echo '{\"event\":\"error\",\"data\":{\"message\":\"no server answers\"}}'; exit 3; }\n\
            cat end\n";
        // By another program: one that is forked here meanwhile would keep it open for writing.
        let mut write = Command::new("sh");
        write.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(bench.path("weir"));
        let mut write = write.stdin(Stdio::piped()).spawn().unwrap();
        write.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(write.wait().unwrap().success());
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn put(&self, name: &str) {
        std::fs::write(self.path(name), "").unwrap();
    }

    fn made(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("made")).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(Into::into).collect();
        lines.sort();
        lines
    }

    fn checkpoint(&self) -> Checkpoint {
        let path = self.path("checkpoint");
        if path.exists() {
            return Checkpoint::open(&path, |_| false).unwrap().0;
        }
        let head = CheckpointHeader {
            schema: CHECKPOINT_SCHEMA.into(),
            id: "x".into(),
            started_at: String::new(),
            scenario: String::new(),
            quick: false,
            set: Variables::new(),
            hosts: BTreeMap::new(),
            seed: Seed(7),
            directory: self.dir.path().into(),
            files: BTreeMap::new(),
            command: vec![],
            session: Session::default(),
        };
        Checkpoint::create(&path, &head).unwrap()
    }

    fn run(&self, text: &str, checkpoint: Checkpoint) -> Ended {
        self.run_with(text, checkpoint, false, &|| false, &|_| Ok(one()))
    }

    fn run_with(
        &self,
        text: &str,
        checkpoint: Checkpoint,
        simulate: bool,
        is_stopped: &(dyn Fn() -> bool + Sync),
        parse_flags: scenario::ParseTestFlags<'_>,
    ) -> Ended {
        let options = Options {
            program: self.path("weir"),
            id: "x".into(),
            started_at: String::new(),
            version: "0".into(),
            command: vec![],
            seed: Seed(7),
            quick: false,
            simulate,
            no_store: true,
            files: Files::new(self.dir.path()),
            parse_flags,
            is_stopped,
            tell: &|_| (),
            monotonic_ns: &|| 0,
            remote: None,
            warnings: vec![],
        };
        scenario::run(&parsed(text), &options, checkpoint).unwrap()
    }
}

/// A plan of one connection.
fn one() -> Plan {
    Plan { connections: vec![Connection::default()], ..Plan::default() }
}

fn parsed(text: &str) -> Scenario {
    Scenario::parse(&format!("{HEAD}{text}"), false, &Variables::new(), &BTreeMap::new()).unwrap()
}

fn outcomes(steps: &[StepOutcome]) -> Vec<Outcome> {
    steps.iter().map(|s| s.outcome).collect()
}

#[test]
fn a_scenario_whose_time_is_over_is_not_passed() {
    let bench = Bench::new();
    let late = "timeout = \"300ms\"\n[[step]]\nwait = { time = 1000 }\n";
    let ended = bench.run(late, Checkpoint::default()).experiment;
    assert_eq!((ended.outcome, ended.status), (Outcome::Error, Status::Partial));
    assert_eq!(ended.steps[0].code.as_deref(), Some(StepOutcome::TIME_OVER));
    // Also where what it cut does not matter: the rest was not done.
    let rest = "timeout = \"300ms\"\n[[step]]\nwait = { time = 1000 }\nkeep_going = true\n\
                [[step]]\ncommand = { run = [\"false\"] }\n[[step]]\ncommand = { run = [\"false\"] }\n";
    let ended = bench.run(rest, Checkpoint::default()).experiment;
    assert_eq!(outcomes(&ended.steps), [Outcome::Error, Outcome::Error, Outcome::Skipped]);
    assert_eq!(ended.steps[1].code.as_deref(), Some(StepOutcome::TIME_OVER));
    assert_eq!(ended.steps[2].code, None);
    // And inside of others.
    let inside = "timeout = \"300ms\"\n[[step]]\nrepeat = { times = 2, step = [\n\
                  { wait = { time = 0.2 } }, { wait = { time = 0 } }] }\n[[step]]\nwait = { time = 0 }\n";
    let ended = bench.run(inside, Checkpoint::default()).experiment;
    assert_eq!((ended.outcome, ended.status), (Outcome::Error, Status::Partial));
    // A step's own time.
    let own = "[[step]]\ntimeout = \"50ms\"\nwait = { time = 1000 }\n";
    assert_eq!(bench.run(own, Checkpoint::default()).experiment.outcome, Outcome::Error);
}

#[test]
fn an_experiment_that_was_stopped_is_not_passed() {
    let bench = Bench::new();
    let begun = Instant::now();
    let stopped = move || begun.elapsed() > Duration::from_millis(200);
    let text = "[[step]]\nwait = { time = 1000 }\n[[step]]\ncommand = { run = [\"false\"] }\n";
    let ended = bench.run_with(text, Checkpoint::default(), false, &stopped, &|_| Ok(one()));
    let ended = ended.experiment;
    assert_eq!((ended.outcome, ended.status), (Outcome::Inconclusive, Status::Interrupted));
}

#[test]
fn a_test_that_no_step_waited_for_is_judged() {
    let bench = Bench::new();
    let text = format!(
        "{HOST}[[step]]\nname = \"bg\"\ntest = {{ background = true }}\nexpect = [\"throughput >= 1\"]\n\
         [[step]]\ncommand = {{ run = [\"sh\", \"-c\", \"until [ -s made ]; do sleep 0.02; done\"] }}\n"
    );
    bench.put("down");
    let ended = bench.run(&text, Checkpoint::default()).experiment;
    assert!(!matches!(ended.outcome, Outcome::Done | Outcome::Passed), "{:?}", ended.outcome);
    let last = ended.steps.last().unwrap();
    assert_eq!((last.name.as_str(), ended.steps.len()), ("bg (at the end)", 3));
    assert!(last.runs[0].error.is_some(), "its words, or none when it was ended before it had any");
    assert_eq!(last.expectations.len(), 1);
    // One that a step waits for is judged there, once.
    let waited = text.replace("command = ", "wait = { test = \"bg\" }\n[[step]]\ncommand = ");
    std::fs::remove_file(bench.path("down")).unwrap();
    let ended = bench.run(&waited, Checkpoint::default()).experiment;
    assert_eq!(ended.steps.len(), 3);
    assert!(ended.steps[0].expectations.is_empty() && ended.steps[1].expectations.len() == 1);
    assert_eq!(ended.steps[1].runs[0].error, None);
}

#[test]
fn what_failed_is_made_again_when_it_is_resumed() {
    let bench = Bench::new();
    let text = format!(
        "{HOST}[[step]]\nname = \"one\"\ntest = {{ runs = 2 }}\n[[step]]\nname = \"two\"\ntest = {{}}\n"
    );
    bench.put("down-two");
    let first = bench.run(&text, bench.checkpoint()).experiment;
    assert_eq!(outcomes(&first.steps), [Outcome::Done, Outcome::Error]);
    assert_eq!(bench.made(), ["one", "one", "two"]);
    std::fs::remove_file(bench.path("down-two")).unwrap();
    let second = bench.run(&text, bench.checkpoint()).experiment;
    assert_eq!((second.outcome, second.status), (Outcome::Done, Status::Complete));
    assert_eq!(bench.made(), ["one", "one", "two", "two"]);
    let third = bench.run(&text, bench.checkpoint()).experiment;
    assert_eq!((third.outcome, bench.made().len()), (Outcome::Done, 4));
}

#[test]
fn other_programs_and_hosts_are_reported_with_the_result() {
    let bench = Bench::new();
    let text = format!("{HOST}[[step]]\ntest = {{}}\n");
    let first = bench.run(&text, bench.checkpoint()).experiment;
    assert_eq!(first.warnings, [""; 0]);
    let mut checkpoint = bench.checkpoint();
    checkpoint
        .go_on(Session { version: "2".into(), host: "other".into(), ..Session::default() })
        .unwrap();
    let second = bench.run(&text, checkpoint).experiment;
    assert_eq!(second.version, " (commit unknown), 2 (commit unknown)");
    assert_eq!(second.warnings.len(), 2, "{:?}", second.warnings);
    for warning in &second.warnings {
        assert!(scenario::text::closing(&second).contains(warning), "{warning}");
    }
}

/// So is what a step's own time cut.
#[test]
fn what_a_time_out_cut_is_made_again() {
    let bench = Bench::new();
    let text = format!("{HOST}[[step]]\nname = \"one\"\ntimeout = \"300ms\"\ntest = {{}}\n");
    bench.put("slow-one");
    let first = bench.run(&text, bench.checkpoint()).experiment;
    assert_eq!(first.outcome, Outcome::Error);
    std::fs::remove_file(bench.path("slow-one")).unwrap();
    let second = bench.run(&text.replace("300ms", "60s"), bench.checkpoint()).experiment;
    assert_eq!((second.outcome, bench.made().len()), (Outcome::Done, 2));
}

#[test]
fn steps_at_the_same_time_are_done_again_together() {
    let bench = Bench::new();
    let text = format!(
        "{HOST}[[step]]\nname = \"both\"\nparallel = [{{ name = \"a\", test = {{}} }}, {{ name = \"b\", test = {{}} }}]\n"
    );
    bench.put("down-both-b");
    let first = bench.run(&text, bench.checkpoint()).experiment;
    assert_eq!(first.outcome, Outcome::Error);
    std::fs::remove_file(bench.path("down-both-b")).unwrap();
    let second = bench.run(&text, bench.checkpoint()).experiment;
    assert_eq!(second.outcome, Outcome::Done);
    assert_eq!(bench.made(), ["both-a", "both-a", "both-b", "both-b"]);
    // And not once more.
    let third = bench.run(&text, bench.checkpoint()).experiment;
    assert_eq!((third.outcome, bench.made().len()), (Outcome::Done, 4));
    assert_eq!(third.steps[0].steps[1].runs.len(), 1);
}

/// A panic in one of several threads ends the experiment, and is reported as such.
#[test]
fn a_panic_beside_others_is_an_internal_error() {
    let bench = Bench::new();
    let asked = AtomicU32::new(0);
    let words = |words: &[String]| {
        let is_boom = words.iter().any(|w| w == "boom");
        // The first time is the check of the whole.
        if is_boom && asked.fetch_add(1, Ordering::Relaxed) > 0 {
            panic!("boom");
        }
        Ok(one())
    };
    let text = format!(
        "{HOST}[[step]]\nname = \"both\"\nparallel = [{{ name = \"a\", test = {{}} }}, {{ name = \"b\", test = {{ args = \"boom\" }} }}]\n\
         [[step]]\nname = \"never\"\ntest = {{}}\n"
    );
    let ended = bench.run_with(&text, Checkpoint::default(), false, &|| false, &words);
    assert!(matches!(&ended.error, Some(ScenarioError::Internal(text)) if text == "step b: boom"));
    let steps = &ended.experiment.steps;
    assert_eq!(outcomes(steps), [Outcome::Error, Outcome::Skipped]);
    assert_eq!(outcomes(&steps[0].steps), [Outcome::Done, Outcome::Error]);
}

#[test]
fn what_is_not_on_the_virtual_clock_is_no_failure() {
    let bench = Bench::new();
    let words = |_: &[String]| {
        let connection = Connection {
            transport: Transport::udp(),
            rate: Some("1M".parse().unwrap()),
            duration: Some(Span::from_seconds(1)),
            ..Connection::default()
        };
        Ok(Plan { connections: vec![connection], ..Plan::default() })
    };
    let text = format!(
        "{HOST}[emulator.m]\ncontrol_socket = \"/nowhere\"\n[[step]]\nsweep = {{ over = [\"transport=tcp,udp\"], runs = 3, in_order = true, test = {{ args = \"\" }} }}\n\
         expect = [\"loss <= 0.1 % where transport=udp\"]\n"
    );
    let ended = bench.run_with(&text, Checkpoint::default(), true, &|| false, &words).experiment;
    let step = &ended.steps[0];
    assert_eq!(ended.outcome, Outcome::Passed, "{:?}", step.reason);
    assert_eq!(step.points.iter().map(|p| p.runs).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(step.expectations.len(), 1);
}

#[test]
fn the_files_of_a_scenario_are_known_by_what_is_in_them() {
    let bench = Bench::new();
    let plan = one();
    let plan = serde_json::to_string(&plan).unwrap();
    std::fs::write(bench.path("plan.json"), &plan).unwrap();
    std::fs::write(bench.path("k"), "key").unwrap();
    let text =
        format!("{HOST}key_file = \"k\"\n[[step]]\ntest = {{ plan_file = \"plan.json\" }}\n");
    let files = Files::new(bench.dir.path());
    let of = |files: &Files| scenario::files(&parsed(&text), files, &|_| Ok(one())).unwrap();
    let before = of(&files);
    assert_eq!(before.keys().collect::<Vec<_>>(), ["k", "plan.json"]);
    // SHA-256 of "key".
    assert_eq!(before["k"], "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683");
    std::fs::write(bench.path("plan.json"), format!("{plan} ")).unwrap();
    assert_eq!(of(&files), before, "one session reads a file once");
    assert_ne!(of(&Files::new(bench.dir.path()))["plan.json"], before["plan.json"]);
}

/// A command that is ended takes with it what it started, and keeps what it said.
#[test]
fn a_command_that_is_ended_leaves_nothing_but_its_words() {
    let bench = Bench::new();
    let text = "[[step]]\ntimeout = \"1s\"\ncommand = { run = [\"sh\", \"-c\", \"sleep 1000 & echo $! > pid; echo said; wait\"] }\n\
                [[step]]\nname = \"x\"\ncommand = { run = [\"sh\", \"-c\", \"sleep 1000 & echo $! > pid2; echo left\"] }\n";
    let text = text.replacen("timeout", "keep_going = true\ntimeout", 1);
    let ended = bench.run(&text, Checkpoint::default()).experiment;
    assert_eq!(outcomes(&ended.steps), [Outcome::Error, Outcome::Done]);
    assert_eq!(ended.steps[0].output.as_deref(), Some("said\n"));
    assert_eq!(ended.steps[1].output.as_deref(), Some("left\n"));
    for name in ["pid", "pid2"] {
        let pid = std::fs::read_to_string(bench.path(name)).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        // When it is dead, the process that inherits it may have to reap it first.
        let end = Instant::now() + Duration::from_secs(20);
        while state().is_ok_and(|s| !s.contains(") Z ")) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(state().map_or(true, |s| s.contains(") Z ")), "{name}");
    }
}

/// A command in the background: its step is done when it is ready, later steps run while it does, `stop` ends and judges it.
#[test]
fn a_background_command_runs_until_it_is_stopped() {
    let bench = Bench::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let serve = "import signal, socket, sys\n\
                 signal.signal(signal.SIGTERM, lambda *_: (print('bye'), sys.exit()))\n\
                 s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n\
                 print('up', flush=True)\n\
                 while True: signal.pause()\n";
    std::fs::write(bench.path("serve.py"), serve).unwrap();
    let command = format!("run = [\"python3\", \"serve.py\", \"{port}\"], background = true");
    for ready in [format!("{{ port = {port} }}"), "{ line = \"up\" }".into()] {
        let text = format!(
            "[[step]]\nname = \"s\"\ncommand = {{ {command}, ready = {ready} }}\n\
             expect = [\"output contains bye\", \"exit_code == 0\", \"duration < 100 s\"]\n\
             [[step]]\ncommand = {{ run = [\"python3\", \"-c\", \"import socket; socket.create_connection(('127.0.0.1', {port}))\"] }}\n\
             [[step]]\nstop = {{ command = \"s\" }}\n"
        );
        let ended = bench.run(&text, Checkpoint::default()).experiment;
        assert_eq!(
            outcomes(&ended.steps),
            [Outcome::Done, Outcome::Done, Outcome::Passed],
            "{ended:?}"
        );
        assert_eq!(ended.steps[2].output.as_deref(), Some("up\nbye\n"));
        assert_eq!(ended.steps[2].expectations.len(), 3);
        // Without a step that stops it, at the end.
        let (without_stop, _) = text.rsplit_once("[[step]]").unwrap();
        let ended = bench.run(without_stop, Checkpoint::default()).experiment;
        assert_eq!(ended.steps[2].outcome, Outcome::Passed, "{ended:?}");
    }
}

/// The streams of a command are stored apart. Patterns look at each line of both; an invalid one is refused by field.
#[test]
fn the_streams_of_a_command_are_kept_apart_and_matched() {
    let bench = Bench::new();
    let text = |pattern: &str| {
        format!(
            "[[step]]\ncommand = {{ run = [\"sh\", \"-c\", \"echo 12 packets; echo late >&2\"] }}\n\
             expect = ['output matches {pattern}', 'output does not match error', 'output matches ^late$']\n"
        )
    };
    for (pattern, outcome) in [("^[1-9]\\d* p", Outcome::Passed), ("^packets", Outcome::Failed)] {
        let ended = bench.run(&text(pattern), Checkpoint::default()).experiment;
        let step = &ended.steps[0];
        assert_eq!(step.outcome, outcome, "{step:?}");
        assert_eq!(step.output.as_deref(), Some("12 packets\n"));
        assert_eq!(step.stderr.as_deref(), Some("late\n"));
        let streams = "<system-out>12 packets\n</system-out><system-err>late\n</system-err>";
        assert_eq!(scenario::junit::junit(&ended).matches(streams).count(), 1);
    }
    let invalid = format!("{HEAD}{}", text("(a"));
    let refused = Scenario::parse(&invalid, false, &Variables::new(), &BTreeMap::new());
    let refusal = weir_model::Refusal::from(&refused.unwrap_err());
    assert_eq!(refusal.field.as_deref(), Some("step[0].expect: expectation 'output matches (a'"));
    assert_eq!(refusal.given.as_deref(), Some("(a"));
}

#[test]
fn a_background_command_that_does_not_become_ready_is_an_error_with_its_output() {
    let bench = Bench::new();
    for (script, ready, timeout) in [
        ("echo no; exit 3", "{ line = \"up\" }", "60s"),
        ("echo no; sleep 1000", "{ line = \"up\" }", "1s"),
        ("echo no; sleep 1000", "{ port = 1 }", "1s"),
    ] {
        let text = format!(
            "[[step]]\ntimeout = \"{timeout}\"\n\
             command = {{ run = [\"sh\", \"-c\", \"{script}\"], background = true, ready = {ready} }}\n\
             [[step]]\nwait = {{ time = 0 }}\n"
        );
        let ended = bench.run(&text, Checkpoint::default()).experiment;
        assert_eq!(outcomes(&ended.steps), [Outcome::Error, Outcome::Skipped], "{script} {ready}");
        assert_eq!(ended.steps[0].output.as_deref(), Some("no\n"));
    }
}

/// What a running emulator would answer to `show` and `set`.
fn emulator(path: &Path) -> Arc<Mutex<Value>> {
    let laws = Arc::new(Mutex::new(json!({ "schema": "weir.impair/1" })));
    let (listener, own) = (UnixListener::bind(path).unwrap(), laws.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let asked: Value = serde_json::from_str(&line).unwrap();
            let mut laws = own.lock().unwrap();
            if asked["verb"] == "set" {
                *laws = asked["impairment"].clone();
            }
            let answer = json!({ "ok": true, "impairment": *laws });
            (&stream).write_all(format!("{answer}\n").as_bytes()).unwrap();
        }
    });
    laws
}

/// `weir sweep --emulator`: laws are given at each point, none at the start; it is left as it was also when it is stopped.
#[test]
fn a_swept_emulator_is_left_as_it_was() {
    let bench = Bench::new();
    let socket = bench.path("m.sock");
    let laws = emulator(&socket);
    let before = laws.lock().unwrap().clone();
    let text = format!(
        "{HOST}[emulator.middle]\ncontrol_socket = \"{}\"\n[[step]]\nname = \"sweep\"\n\
         sweep = {{ over = [\"loss=1,2\"], in_order = true, impair = {{ both = \"loss {{loss}}%\" }}, test = {{}} }}\n",
        socket.display()
    );
    let (is_swept, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let is_stopped = || {
        if laws.lock().unwrap().to_string().contains("loss") {
            is_swept.store(true, Ordering::Relaxed);
            is_over.fetch_or(bench.path("slow-sweep").exists(), Ordering::Relaxed);
        }
        is_over.load(Ordering::Relaxed)
    };
    let words = |_: &[String]| Ok(one());
    let ended = bench.run_with(&text, Checkpoint::default(), false, &is_stopped, &words);
    assert_eq!(ended.experiment.outcome, Outcome::Done, "{:?}", ended.experiment.steps);
    assert!(is_swept.load(Ordering::Relaxed));
    assert_eq!(
        serde_json::from_value::<weir_model::impairment::Impairment>(laws.lock().unwrap().clone())
            .unwrap(),
        serde_json::from_value::<weir_model::impairment::Impairment>(before).unwrap()
    );
    bench.put("slow-sweep");
    let ended = bench.run_with(&text, Checkpoint::default(), false, &is_stopped, &words);
    assert_eq!(ended.experiment.status, Status::Interrupted);
    assert!(!laws.lock().unwrap().to_string().contains("loss"));
}

/// A pipe without a writer would block its reader forever.
#[test]
fn only_regular_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap();
    assert!(made.success());
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    std::fs::write(dir.path().join("plain"), "text").unwrap();
    let files = weir_experiment::scenario::Files::new(dir.path());
    for name in ["pipe", "dir", "/dev/null"] {
        let error = files.read(name).unwrap_err().to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
    assert_eq!(files.read("plain").unwrap(), "text");
}
