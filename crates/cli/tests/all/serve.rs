//! `weir serve` from outside: its first lines, signals, and running in the background.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::refusal;

/// A port that is probably free.
fn free_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn serve(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["serve", "-B", "127.0.0.1"]).args(words);
    command.env_remove("WEIR_KEY").env("WEIR_ERRORS", "json").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a server and reads its first line.
fn listening(words: &[&str]) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut child = serve(words).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    (child, stdout, line)
}

fn signal(name: &str, process: &str) {
    let sent = Command::new("kill").args(["-s", name, process]).status().unwrap();
    assert!(sent.success(), "kill -s {name} {process}");
}

/// Waits for a condition that is sure to become true; the limit only ends a broken test.
fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn addresses_and_the_lack_of_a_key_are_printed() {
    let port = free_port();
    let (mut child, _stdout, line) = listening(&["-p", &port, "--json-stream"]);
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    let wanted = serde_json::json!({ "addresses": [format!("127.0.0.1:{port}")], "open": true });
    assert_eq!((&event["event"], &event["data"]), (&"listening".into(), &wanted));
    signal("TERM", &child.id().to_string());
    assert_eq!(child.wait().unwrap().code(), Some(0), "the ordinary end of a service");
}

#[test]
fn with_a_key_it_is_not_open_and_sigint_ends_it() {
    let key = Command::new(env!("CARGO_BIN_EXE_weir")).arg("keygen").output().unwrap();
    let key = String::from_utf8(key.stdout).unwrap();
    let port = free_port();
    let mut command = serve(&["-p", &port, "--json-stream"]);
    let mut child = command.env("WEIR_KEY", key.trim()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&event["event"], &event["data"]["open"]), (&"listening".into(), &false.into()));
    signal("INT", &child.id().to_string());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    child.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn a_port_in_use_is_exit_4_and_named() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let output = serve(&["-p", &port]).output().unwrap();
    let refused = refusal(&output);
    assert_eq!((refused.code.as_str(), refused.exit_code), ("listen", 4));
    assert!(refused.given.unwrap().ends_with(&port));
}

fn ended(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_background_listens_when_the_foreground_returns() {
    let dir = tempfile::tempdir().unwrap();
    let (pidfile, log) = (dir.path().join("pid"), dir.path().join("log"));
    let port = free_port();
    let output = serve(&["-p", &port, "-D", "--pidfile"])
        .arg(&pidfile)
        .arg("--logfile")
        .arg(&log)
        .output()
        .unwrap();
    assert_eq!(ended(&output), (Some(0), String::new()));
    let said = String::from_utf8(output.stdout).unwrap();
    let pid = std::fs::read_to_string(&pidfile).unwrap().trim().to_string();
    let address = format!("127.0.0.1:{port}");
    assert!(said.contains(&address) && said.contains(&format!(" {pid}")), "{said}");
    assert!(std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok());
    assert!(std::fs::read_to_string(&log).unwrap().contains(&address));
    #[cfg(target_os = "linux")]
    {
        let of_process = |file| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        assert_eq!(of_process("comm"), "weir\n", "as process listings show it");
        assert!(of_process("cmdline").starts_with("weir\0serve\0"));
    }
    signal("TERM", &pid);
    until("the pid file goes", || !pidfile.exists());
    if Path::new("/proc/self").exists() {
        // This test does not reap the process, which may remain as a zombie.
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        until("the process ends", || state().is_empty() || state().contains(") Z "));
    }
}

#[test]
fn a_background_process_that_does_not_start_reports_why() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let output = serve(&["-p", &port, "-D"]).output().unwrap();
    assert_eq!((refusal(&output).code.as_str(), refusal(&output).exit_code), ("listen", 4));
    let output = serve(&["-p", &port, "-D", "--logfile", "/no/such/dir/log"]).output().unwrap();
    assert_eq!(refusal(&output).given.as_deref(), Some("/no/such/dir/log"));
}
