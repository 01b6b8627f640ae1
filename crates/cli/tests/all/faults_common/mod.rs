//! Helpers of tests with two processes: a server whose events are read, and a client that is watched, signalled or killed.
// Not every test uses each helper; a helper that fails is a failed test.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) use crate::common::{messages, refusal, refusal_in};

/// Time limit of a wait. Only a broken test reaches it.
pub const TIMEOUT: Duration = Duration::from_secs(40);

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The program, without the settings in the environment of the tests.
pub fn weir() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_weir")))
}

pub fn clean(mut command: Command) -> Command {
    command.env_remove("WEIR_KEY").env_remove("COLUMNS").stdin(Stdio::null());
    command.env("WEIR_ERRORS", "json");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process whose JSON lines are collected. Killed when dropped.
pub struct Watched {
    child: Child,
    pub lines: Arc<Mutex<Vec<Value>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Watched {
    pub fn start(mut command: Command) -> Watched {
        let mut child = command.spawn().unwrap();
        let lines: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (stdout, kept) = (BufReader::new(child.stdout.take().unwrap()), lines.clone());
        let reader = std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // A line that is not JSON fails the test when lines are read.
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                kept.lock().unwrap().push(value);
            }
        });
        Watched { child, lines, reader: Some(reader) }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Number of events of this name so far.
    pub fn count(&self, event: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|l| l["event"] == event).count()
    }

    pub fn wait_for(&self, event: &str, count: usize) {
        until(&format!("{count} × {event}"), || self.count(event) >= count);
    }

    /// The data of the last event of this name.
    pub fn last(&self, event: &str) -> Value {
        let lines = self.lines.lock().unwrap();
        let found = lines.iter().rev().find(|l| l["event"] == event);
        found.unwrap_or_else(|| panic!("no {event} in {lines:?}"))["data"].clone()
    }

    pub fn signal(&self, signal: i32) {
        // It has not been waited for, so its process id can't have been reused.
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end with all output read; returns its exit code (`None`: ended by a signal).
    pub fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        until("the process ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        status.unwrap().code()
    }

    /// Its standard error, after its end.
    pub fn errors(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).unwrap();
        }
        text
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub const INT: i32 = 2;
pub const KILL: i32 = 9;
pub const TERM: i32 = 15;
pub const STOP: i32 = 19;
pub const CONT: i32 = 18;

/// `weir serve` on loopback.
pub struct Serve {
    pub process: Watched,
    pub port: String,
}

impl Serve {
    pub fn start(words: &[&str]) -> Serve {
        Serve::start_with(words, &[])
    }

    /// The same with variables of the environment.
    pub fn start_with(words: &[&str], environment: &[(String, PathBuf)]) -> Serve {
        let port = free_port().to_string();
        let mut command = weir();
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.args(["serve", "-B", "127.0.0.1", "--json-stream", "-p", &port]).args(words);
        let process = Watched::start(command);
        process.wait_for("listening", 1);
        Serve { process, port }
    }

    /// The command `weir test` against this server.
    pub fn client(&self, words: &[&str]) -> Command {
        let mut command = weir();
        command.args(["test", "127.0.0.1", "-p", &self.port]).args(words);
        command
    }

    /// Starts a test without an end that prints its events; returns it once it is running.
    pub fn running(&self, words: &[&str]) -> Watched {
        let base = ["--json-stream", "-t", "0", "-i", "0.1", "-b", "2M"];
        let client = Watched::start(self.client(&[&base, words].concat()));
        client.wait_for("interval", 2);
        client
    }

    /// Asserts that a short test succeeds.
    pub fn still_serves(&self) {
        let output = self.client(&["-u", "-k", "50", "-b", "1000pps", "--no-store"]).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    }

    /// Waits until as many sessions are closed as were opened.
    pub fn idle(&self) {
        until("all sessions are closed", || {
            self.process.count("session_opened") == self.process.count("session_closed")
        });
    }
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The runs stored in a directory.
pub fn kept(directory: &Path) -> Vec<Value> {
    let output =
        weir().args(["runs", "list", "--json"]).env("WEIR_DATA_DIR", directory).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let list: Value = serde_json::from_str(&out(&output)).unwrap();
    list["runs"].as_array().or(list.as_array()).unwrap().clone()
}
