//! Commands whose stdout can't be written: a closed pipe (`weir … | head -1`) is no failure and the command does its work; a
//! full disk is an error. Also early interruption, and requested pauses.

use crate::faults_common;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use faults_common::{INT, Serve, Watched, messages, refusal_in, until, weir};

/// A pipe whose reader has closed its end.
fn left() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn ended(home: &Path, words: &[&str], stdout: Stdio) -> Output {
    command(home, words).stdout(stdout).output().unwrap()
}

fn command(home: &Path, words: &[&str]) -> Command {
    let mut command = weir();
    command.args(words).env("HOME", home).env("XDG_DATA_HOME", home).env("XDG_CACHE_HOME", home);
    command.env("WEIR_RUNTIME_DIR", home.join("runtime")).env_remove("SUDO_UID");
    command
}

/// Stores a run and creates a capture without frames, for the commands that need them.
fn with_things(home: &Path) -> Serve {
    let server = Serve::start(&[]);
    let words = ["test", "127.0.0.1", "-p", &server.port, "-u", "-b", "100pps", "-t", "0.2"];
    let done = ended(home, &words, Stdio::piped());
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let header =
        [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0_u8];
    std::fs::write(home.join("in.pcap"), header).unwrap();
    let scenario =
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\nwait = { time = 1 }\n";
    std::fs::write(home.join("s.toml"), scenario).unwrap();
    server
}

/// Commands that print and end, with their exit codes; `None`: the code depends on what they find.
const PRINTING: [(&[&str], Option<i32>); 21] = [
    (&["--version"], Some(0)),
    (&["--help"], Some(0)),
    (&["test", "--help"], Some(0)),
    (&["profiles"], Some(0)),
    (&["profiles", "--json"], Some(0)),
    (&["schema", "run"], Some(0)),
    (&["keygen"], Some(0)),
    (&["completions", "bash"], Some(0)),
    (&["man"], Some(0)),
    (&["demo", "--simulate"], Some(0)),
    (&["doctor"], None),
    (&["lab", "list"], Some(0)),
    (&["lab", "list", "--json"], Some(0)),
    (&["runs", "list"], Some(0)),
    (&["runs", "show", "last"], Some(0)),
    (&["runs", "show", "last", "--json"], Some(0)),
    (&["runs", "export", "--all"], Some(0)),
    (&["report", "last", "-o", "-"], Some(0)),
    (&["report", "last", "--format", "md", "-o", "-"], Some(0)),
    (&["run", "--check", "HOME/s.toml"], Some(0)),
    (&["impair", "--pcap-in", "HOME/in.pcap", "--pcap-out", "HOME/out.pcap"], Some(0)),
];

/// The arguments, with the directory filled in.
fn at(home: &Path, words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.replace("HOME", home.to_str().unwrap())).collect()
}

#[test]
fn a_closed_pipe_is_no_failure_of_any_command() {
    let home = tempfile::tempdir().unwrap();
    let server = with_things(home.path());
    for (words, code) in PRINTING {
        let words = at(home.path(), words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let wanted = code.or_else(|| ended(home.path(), &words, Stdio::piped()).status.code());
        let done = ended(home.path(), &words, left());
        let said = String::from_utf8_lossy(&done.stderr);
        // A process ended by a signal (SIGPIPE) would have no exit code.
        assert_eq!(done.status.code(), wanted, "{words:?}: {said}");
        assert!(!said.contains("error") && !said.contains("panicked"), "{words:?}: {said}");
    }
    // A test that prints while it runs ends when its only reader is gone; one that prints at its end completes. Both are stored.
    let kept = || {
        let list = ended(home.path(), &["runs", "list", "--json"], Stdio::piped());
        let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
        list["runs"].as_array().unwrap().len()
    };
    let base = ["test", "127.0.0.1", "-p", &server.port, "-u", "-b", "100pps", "-i", "0.1"];
    for (more, read) in [(&["-t", "60"][..], 1), (&["-t", "60", "--json-stream"], 8)] {
        let before = kept();
        let mut test = command(home.path(), &[&base, more].concat()).spawn().unwrap();
        // The header's first line, or some intervals too.
        let mut lines = BufReader::new(test.stdout.take().unwrap()).lines();
        assert!(lines.by_ref().take(read).all(|line| line.is_ok()), "{more:?}");
        drop(lines);
        let done = test.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!((done.status.code(), &*said), (Some(141), ""), "{more:?}");
        assert_eq!(kept(), before + 1, "{more:?}");
    }
    let before = kept();
    let done = ended(home.path(), &[&base[..], &["-t", "0.3", "--json"]].concat(), left());
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!((done.status.code(), kept()), (Some(0), before + 1), "{said}");
}

/// Except for help and version: the parser prints these and ignores write errors.
#[test]
fn a_full_disk_is_an_error_of_every_command() {
    let home = tempfile::tempdir().unwrap();
    let _server = with_things(home.path());
    // stderr says that there is no lab.
    let told = |words: &[&str]| {
        !words.iter().any(|word| word.starts_with("--he") || word.starts_with("--ver"))
    };
    let told = PRINTING.iter().filter(|(words, _)| told(words) && *words != ["lab", "list"]);
    for (words, _) in told {
        let words = at(home.path(), words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let done = ended(home.path(), &words, full.into());
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(4), "{words:?}: {said}");
        assert!(!said.contains("panicked"), "{words:?}: {said}");
        assert_eq!(
            refusal_in(&said).map(|refused| refused.exit_code),
            Some(4),
            "{words:?}: {said}"
        );
    }
}

/// Checking the maximum number of points takes some time.
#[test]
fn an_interrupt_while_a_sweep_is_checked_runs_nothing() {
    let home = tempfile::tempdir().unwrap();
    let words =
        ["sweep", "127.0.0.1", "--over", "size=1..10000:1", "--runs", "10", "-u", "-t", "60"];
    let mut sweep = Watched::start(command(home.path(), &words));
    let status = format!("/proc/{}/status", sweep.id());
    until("it hears signals", || {
        let text = std::fs::read_to_string(&status).unwrap();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (INT - 1)) != 0
    });
    sweep.signal(INT);
    assert_eq!(sweep.ended(), Some(130));
    let said = sweep.errors();
    assert_eq!(messages(&said, "nothing-run").len(), 1, "{said}");
    assert!(!home.path().join("weir/experiments").exists(), "nothing was stored");
}

/// A step that waits, two such steps, and the pause after each run each take at least the requested time.
#[test]
fn waits_and_pauses_take_at_least_their_time() {
    let home = tempfile::tempdir().unwrap();
    let server = Serve::start(&[]);
    let head = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[host.b]\naddress = \"127.0.0.1\"\nport = {}\n",
        server.port
    );
    let wait = |time: &str| format!("[[step]]\nwait = {{ time = \"{time}\" }}\n");
    let sweep = |pause: &str| {
        format!(
            "[[step]]\nsweep = {{ over = [\"size=64,128\"], {pause} test = {{ args = \"-u -b 100k -t 0.1\" }} }}\n"
        )
    };
    for (steps, least) in [
        (wait("900ms"), 0.9),
        (wait("500ms") + &wait("600ms"), 1.1),
        (sweep("pause = \"1500ms\","), 3.2),
    ] {
        std::fs::write(home.path().join("w.toml"), format!("{head}{steps}")).unwrap();
        let path = home.path().join("w.toml");
        let done = ended(home.path(), &["run", "--json", path.to_str().unwrap()], Stdio::piped());
        let said = String::from_utf8_lossy(&done.stderr);
        // 5: the host was busy, which does not shorten the waits.
        assert!(matches!(done.status.code(), Some(0 | 5)), "{steps}: {said}");
        let result: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let seconds = result["seconds"].as_f64().unwrap();
        assert!(seconds >= least, "{steps}: {seconds}");
    }
}
