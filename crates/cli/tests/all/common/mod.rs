//! Helpers of the tests against outside references: a lab with a server in host `b`, tests in host `a`, and outside tools.
//! Each program has a time limit and is ended with the test.
// Not every test uses each helper; a helper that fails is a failed test.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_lab::{ErrorClass, Lab, LabSpec};
use weir_model::Refusal;
use weir_model::record::Record;
use weir_net::namespace::{ChildSetup, ClockOffset, effective_user_id};

/// The program under test.
pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// Time limit of a program. Only a broken test reaches it.
const LIMIT: Duration = Duration::from_secs(60);

/// Writes a script into `directory` for `WEIR_PROGRAM`. It runs Weir and replaces every text for people in its events and on
/// standard error. The `reason` of an emulator's period stays: it is a code, not a text.
pub(crate) fn mute(directory: &Path) -> PathBuf {
    let path = directory.join("mute");
    let script = format!(
        "#!/bin/bash\nset -o pipefail\n\
         '{}' \"$@\" 2>/dev/null | sed -u -E 's/\"reason\":\"(start|laws|reset)\"/\"reason\": \"\\1\"/g; s/\"(message|reason|end_reason|text)\":\"([^\"\\\\]|\\\\.)*\"/\"\\1\":\"?\"/g'\n",
        WEIR
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Measuring tests hold it for reading; tests whose figures need a free processor hold it for writing.
static MEASURING: RwLock<()> = RwLock::new(());

/// The right of a test to measure, until it is dropped.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Concurrently with other measuring tests.
    Shared(#[expect(dead_code, reason = "held until dropped")] RwLockReadGuard<'static, ()>),
    /// While no other test measures.
    Alone(#[expect(dead_code, reason = "held until dropped")] RwLockWriteGuard<'static, ()>),
}

/// Waits until no test that measures alone is running.
pub(crate) fn turn() -> Turn {
    Turn::Shared(MEASURING.read().unwrap_or_else(PoisonError::into_inner))
}

/// Waits until no other measuring test is running.
fn turn_alone() -> Turn {
    Turn::Alone(MEASURING.write().unwrap_or_else(PoisonError::into_inner))
}

/// Two hosts, `a` and `b`, and the programs that run in them.
pub(crate) struct Bench {
    // Fields are dropped in this order: the server first, then the namespaces.
    server: Option<Server>,
    pub(crate) lab: Lab,
    pub(crate) directory: tempfile::TempDir,
    _turn: Turn,
}

pub(crate) struct Server {
    child: Child,
    _stdout: BufReader<std::process::ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The exit status and output of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The standard output of a program that must have succeeded.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert!(self.status.success(), "{}: {}{}", self.status, self.stdout, self.stderr);
        self.stdout
    }

    /// Its refusal, if it printed errors as JSON.
    #[track_caller]
    pub(crate) fn refusal(&self) -> Refusal {
        refusal_in(&self.stdout).unwrap_or_else(|| panic!("no refusal: {self:?}"))
    }

    /// The messages with a code that it printed on standard error as data.
    pub(crate) fn messages(&self, code: &str) -> Vec<String> {
        messages(&self.stderr, code)
    }

    /// The record of a run, whatever its exit code.
    #[track_caller]
    pub(crate) fn record(&self) -> Record {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}{}", self.stdout, self.stderr))
    }
}

/// The refusal that a program printed as JSON, because of `--json` or `WEIR_ERRORS=json`.
#[track_caller]
pub(crate) fn refusal(output: &Output) -> Refusal {
    let out = String::from_utf8_lossy(&output.stdout);
    refusal_in(&out).unwrap_or_else(|| {
        panic!("no refusal: {}{out}{}", output.status, String::from_utf8_lossy(&output.stderr))
    })
}

/// The last refusal in an output: an object, or an event.
pub(crate) fn refusal_in(out: &str) -> Option<Refusal> {
    let error = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let error =
            line.get("error").or_else(|| line.get("data").filter(|_| line["event"] == "error"));
        error.cloned()
    };
    out.lines().rev().find_map(error).map(|error| serde_json::from_value(error).unwrap())
}

/// The events that a program printed because of `WEIR_ERRORS=json`; lines of other programs are left out.
pub(crate) fn events(output: &str) -> Vec<Value> {
    let events = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["event"].is_string()).collect()
}

/// The messages with a code in such an output: progress and warnings.
pub(crate) fn messages(output: &str, code: &str) -> Vec<String> {
    let events = events(output).into_iter().map(|mut event| event["data"].take());
    let with_code = events.filter(|data| data["code"] == code);
    with_code.map(|data| data["message"].as_str().unwrap().to_owned()).collect()
}

/// Compares a text with a committed file; WEIR_BLESS=1 rewrites the file.
#[track_caller]
pub(crate) fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{name} differs: WEIR_BLESS=1 writes it; got\n{text}");
}

/// Prints why a test is skipped. As root in CI that is a failure.
pub(crate) fn skip(test: &str, why: &str) {
    assert!(
        std::env::var_os("CI").is_none() || effective_user_id() != 0,
        "{test}: {why}, but CI must run it"
    );
    eprintln!("SKIPPED {test}: {why}");
}

/// Whether a program is installed, in PATH or in a directory of administrators' tools.
fn is_there(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"])
        .any(|d| Path::new(d).join(tool).is_file())
}

/// Whether `tools` are installed; if not, prints that `test` is skipped.
pub(crate) fn has_tools(test: &str, tools: &[&str]) -> bool {
    let missing: Vec<_> = tools.iter().copied().filter(|t| !is_there(t)).collect();
    if !missing.is_empty() {
        skip(test, &format!("{} missing (scripts/ensure.sh test)", missing.join(", ")));
    }
    missing.is_empty()
}

/// The same of tools without a package: where they are missing the test is skipped, also in CI.
pub(crate) fn has_unpackaged(test: &str, tools: &[&str]) -> bool {
    let missing: Vec<_> = tools.iter().copied().filter(|t| !is_there(t)).collect();
    if !missing.is_empty() {
        eprintln!("SKIPPED {test}: {} missing, of which Debian has no package", missing.join(", "));
    }
    missing.is_empty()
}

impl Bench {
    /// A lab; `None` after printing that the test is skipped if this user or the tools can't create one.
    pub(crate) fn up(test: &str, tools: &[&str]) -> Option<Bench> {
        Bench::with(turn, test, tools)
    }

    /// Like [`Bench::up`], for a test whose figures need a free processor.
    pub(crate) fn alone(test: &str, tools: &[&str]) -> Option<Bench> {
        Bench::with(turn_alone, test, tools)
    }

    fn with(turn: fn() -> Turn, test: &str, tools: &[&str]) -> Option<Bench> {
        if effective_user_id() != 0 {
            skip(test, "needs root");
            return None;
        }
        if !has_tools(test, tools) {
            return None;
        }
        let turn = turn();
        match Lab::up(&LabSpec::default()) {
            Ok(lab) => Some(Bench {
                server: None,
                lab,
                directory: tempfile::tempdir().unwrap(),
                _turn: turn,
            }),
            Err(error) if error.class() == ErrorClass::NotPermitted => {
                skip(test, &error.to_string());
                None
            }
            Err(error) => panic!("{test}: {error}"),
        }
    }

    /// Host b's address.
    pub(crate) fn b(&self) -> String {
        self.lab.host("b").unwrap().ipv4.to_string()
    }

    /// The path of a file in the test's directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts `weir serve` in host b and waits until it listens.
    pub(crate) fn serve(&mut self, words: &[&str]) {
        let command = self.lab.command("b", WEIR).unwrap();
        self.start_server(command, words);
    }

    /// Starts `weir serve` with a monotonic clock that is `seconds` ahead of host a's.
    pub(crate) fn serve_ahead(&mut self, seconds: i64, words: &[&str]) {
        let mut command = Command::new(WEIR);
        ChildSetup::new()
            .namespace(self.lab.namespace("b").unwrap())
            .clock_offset(ClockOffset { seconds })
            .apply(&mut command)
            .unwrap();
        self.start_server(command, words);
    }

    /// Starts a server by a command to which `serve` and these words are added.
    pub(crate) fn start_server(&mut self, mut command: Command, words: &[&str]) {
        command.arg("serve").args(words);
        isolate(&mut command, self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        default_signals(&mut command);
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        self.server = Some(Server { child, _stdout: stdout });
    }

    /// Hands over the running server, so that another one can be started.
    pub(crate) fn keep_server(&mut self) -> Server {
        self.server.take().unwrap()
    }

    /// Ends the server by SIGTERM, so that it completes its files.
    pub(crate) fn stop_server(&mut self) {
        let mut server = self.server.take().unwrap();
        signal("TERM", &server.child);
        let status = wait(&mut server.child, "weir serve");
        assert_eq!(status.code(), Some(0), "weir serve: {status}");
    }

    /// The command `weir test` against host b.
    pub(crate) fn test_command(&self, words: &[&str]) -> Command {
        self.command_to(&self.b(), words)
    }

    pub(crate) fn command_to(&self, address: &str, words: &[&str]) -> Command {
        let mut command = self.lab.command("a", WEIR).unwrap();
        command.args(["test", address, "--no-store"]).args(words);
        isolate(&mut command, self.directory.path());
        command
    }

    /// Runs `weir test --json` against host b; it must succeed.
    #[track_caller]
    pub(crate) fn test(&self, words: &[&str]) -> Record {
        self.test_to(&self.b(), words)
    }

    /// Runs `weir test --json` against another address of host b; it must succeed.
    #[track_caller]
    pub(crate) fn test_to(&self, address: &str, words: &[&str]) -> Record {
        let ended = run(self.command_to(address, &[&["--json"], words].concat()));
        assert!(ended.status.success(), "{}: {}{}", ended.status, ended.stdout, ended.stderr);
        ended.record()
    }

    /// Runs a tool in a host; it must succeed. Returns its standard output.
    #[track_caller]
    pub(crate) fn tool(&self, host: &str, program: &str, words: &[&str]) -> String {
        let mut command = self.lab.command(host, program).unwrap();
        command.args(words);
        run(command).good()
    }

    /// Loads an nftables ruleset in a host.
    pub(crate) fn nft(&self, host: &str, rules: &str) {
        let file = self.file("rules.nft");
        std::fs::write(&file, rules).unwrap();
        self.tool(host, "nft", &["-f", file.to_str().unwrap()]);
    }

    /// Packets and bytes of a named nftables counter of table `inet weir` or `netdev weir`.
    pub(crate) fn nft_counter(&self, host: &str, family: &str, name: &str) -> (u64, u64) {
        let text = self.tool(host, "nft", &["-j", "list", "counter", family, "weir", name]);
        let json: Value = serde_json::from_str(&text).unwrap();
        let all = json["nftables"].as_array().unwrap();
        let counter = all.iter().find_map(|o| o.get("counter")).unwrap();
        (counter["packets"].as_u64().unwrap(), counter["bytes"].as_u64().unwrap())
    }
}

/// Hides the configuration of the user who runs the tests.
fn isolate(command: &mut Command, data: &Path) {
    command.env_remove("WEIR_KEY").env("WEIR_DATA_DIR", data).env("NO_COLOR", "1");
    command.env("WEIR_ERRORS", "json");
}

/// Restores the default actions of signals, in case the tests were started with a signal ignored, as by `nohup` or `&`.
pub(crate) fn default_signals(command: &mut Command) {
    ChildSetup::new().default_signals().apply(command).unwrap();
}

pub(crate) fn signal(name: &str, child: &Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

/// Waits for a child to end. If it doesn't, it is killed and the test fails.
#[track_caller]
pub(crate) fn wait(child: &mut Child, name: &str) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > LIMIT {
            let threads = threads(child.id());
            let _ = child.kill();
            let _ = child.wait();
            panic!("{name} has not ended within {LIMIT:?}; its threads:\n{threads}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The states of a process's threads, for the message of a failure.
fn threads(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let told = |task: std::fs::DirEntry| {
        let file = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let [name, wait, call] = ["comm", "wchan", "syscall"].map(file);
        format!("{} waits in {wait}, call {}", name.trim(), call.trim())
    };
    tasks.map(told).collect::<Vec<_>>().join("\n")
}

/// A program that runs during the test; killed on drop.
pub(crate) struct Running {
    child: Child,
    name: String,
    stdout: Option<std::thread::JoinHandle<String>>,
    stderr: Option<std::thread::JoinHandle<String>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        default_signals(&mut command);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{name}: {e}"));
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (stdout, stderr) = (Some(read(stdout)), Some(read(stderr)));
        Running { child, name, stdout, stderr }
    }

    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    pub(crate) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(crate) fn finish(mut self) -> Ended {
        let status = wait(&mut self.child, &self.name);
        let text =
            |t: &mut Option<std::thread::JoinHandle<String>>| t.take().unwrap().join().unwrap();
        Ended { status, stdout: text(&mut self.stdout), stderr: text(&mut self.stderr) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = vec![];
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Runs a program to its end.
pub(crate) fn run(command: Command) -> Ended {
    Running::start(command).finish()
}

/// Waits for a condition that is sure to become true; the limit only ends a broken test.
#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The figures that `recompute.py` computes from a packet log.
pub(crate) fn recompute(log: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recompute.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(log);
    serde_json::from_str(&run(command).good()).unwrap()
}

/// The number of runs in the only checkpoint of a home; 0 before there is one.
pub(crate) fn checkpointed_runs(home: &Path) -> usize {
    let entries = std::fs::read_dir(home.join("weir/experiments"));
    let mut paths = entries.into_iter().flatten().filter_map(|e| Some(e.ok()?.path()));
    let checkpoint =
        paths.find(|path: &PathBuf| path.extension().is_some_and(|x| x == "checkpoint"));
    checkpoint
        .and_then(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default()
        .lines()
        .filter(|line| line.starts_with(r#"{"key":"#))
        .count()
}

/// A collector for OTLP on a listener: its URL, and the bodies that it gets.
pub(crate) fn collector(listener: TcpListener) -> (String, std::sync::mpsc::Receiver<Value>) {
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (bodies, posted) = std::sync::mpsc::channel();
    // Until the test ends; the thread then waits for a connection that does not come.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut length = 0;
            for line in reader.by_ref().lines().map(Result::unwrap) {
                if let Some(n) = line.strip_prefix("Content-Length: ") {
                    length = n.parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            reader.into_inner().write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let _ = bodies.send(serde_json::from_slice(&body).unwrap());
        }
    });
    (url, posted)
}
