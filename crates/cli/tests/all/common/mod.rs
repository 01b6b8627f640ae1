//! What the tests against outside references share: a lab whose host `b` answers, tests run in host `a`, and outside
//! tools, every one of them bounded in time and ended with the test.
// Each test file is a crate of its own and uses its part; a helper that can't go on is a failed test.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
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
/// Ends a broken run; no good one comes near it.
const LIMIT: Duration = Duration::from_secs(60);

/// A script in `directory` for `WEIR_PROGRAM`: Weir with every text that is meant for people replaced, in its events and on
/// standard error. Why an emulator's period began is no text, although its field is called `reason`.
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

/// Tests that measure hold it for reading; those whose figures depend on a processor's being free, for writing.
static MEASURING: RwLock<()> = RwLock::new(());

/// The time in which a test measures, until it is dropped.
#[derive(Debug)]
pub(crate) enum Turn {
    /// With other tests that measure.
    Shared(#[expect(dead_code, reason = "held until dropped")] RwLockReadGuard<'static, ()>),
    /// Without.
    Alone(#[expect(dead_code, reason = "held until dropped")] RwLockWriteGuard<'static, ()>),
}

/// Waits until no test measures alone.
pub(crate) fn turn() -> Turn {
    Turn::Shared(MEASURING.read().unwrap_or_else(PoisonError::into_inner))
}

/// Waits until no other test measures.
fn turn_alone() -> Turn {
    Turn::Alone(MEASURING.write().unwrap_or_else(PoisonError::into_inner))
}

/// Two hosts, `a` and `b`, and what runs in them.
pub(crate) struct Bench {
    // Dropped in this order: the server first, then the namespaces.
    server: Option<Server>,
    pub(crate) lab: Lab,
    pub(crate) directory: tempfile::TempDir,
    _turn: Turn,
}

struct Server {
    child: Child,
    _stdout: BufReader<std::process::ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a program ended and what it said.
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

    /// What it was refused for, where it printed errors as JSON.
    #[track_caller]
    pub(crate) fn refusal(&self) -> Refusal {
        refusal_in(&self.stdout).unwrap_or_else(|| panic!("no refusal: {self:?}"))
    }

    /// The record of a run, whatever its exit code.
    #[track_caller]
    pub(crate) fn record(&self) -> Record {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}{}", self.stdout, self.stderr))
    }
}

/// What a program refused that printed errors as JSON: with `--json`, or under `WEIR_ERRORS=json`.
#[track_caller]
pub(crate) fn refusal(output: &Output) -> Refusal {
    let out = String::from_utf8_lossy(&output.stdout);
    refusal_in(&out).unwrap_or_else(|| {
        panic!("no refusal: {}{out}{}", output.status, String::from_utf8_lossy(&output.stderr))
    })
}

fn refusal_in(out: &str) -> Option<Refusal> {
    let error = |line: &str| Some(serde_json::from_str::<Value>(line).ok()?.get("error")?.clone());
    out.lines().rev().find_map(error).map(|error| serde_json::from_value(error).unwrap())
}

/// Compares with a committed file; WEIR_BLESS=1 writes it again.
#[track_caller]
pub(crate) fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{name} differs: WEIR_BLESS=1 writes it; got\n{text}");
}

/// Says why a test is skipped; with CI set, root has no excuse.
pub(crate) fn skip(test: &str, why: &str) {
    assert!(
        std::env::var_os("CI").is_none() || effective_user_id() != 0,
        "{test}: {why}, and CI wants it run"
    );
    eprintln!("SKIPPED {test}: {why}");
}

/// Whether a program is to be found, in the places of administrators' tools too.
fn is_there(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"])
        .any(|d| Path::new(d).join(tool).is_file())
}

/// Whether `tools` are there; if not, says that `test` is skipped.
pub(crate) fn has_tools(test: &str, tools: &[&str]) -> bool {
    let missing: Vec<_> = tools.iter().copied().filter(|t| !is_there(t)).collect();
    if !missing.is_empty() {
        skip(test, &format!("{} missing (scripts/ensure.sh test)", missing.join(", ")));
    }
    missing.is_empty()
}

impl Bench {
    /// A lab, when this user and the tools can make it; otherwise says so.
    pub(crate) fn up(test: &str, tools: &[&str]) -> Option<Bench> {
        Bench::with(turn, test, tools)
    }

    /// The same for a test whose figures depend on a processor's being free.
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

    /// A file of this test.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts `weir serve` in host b and waits until it listens.
    pub(crate) fn serve(&mut self, words: &[&str]) {
        let command = self.lab.command("b", WEIR).unwrap();
        self.start_server(command, words);
    }

    /// The same, with a monotonic clock that is `seconds` ahead of host a's.
    pub(crate) fn serve_ahead(&mut self, seconds: i64, words: &[&str]) {
        let mut command = Command::new(WEIR);
        ChildSetup::new()
            .namespace(self.lab.namespace("b").unwrap())
            .clock_offset(ClockOffset { seconds })
            .apply(&mut command)
            .unwrap();
        self.start_server(command, words);
    }

    fn start_server(&mut self, mut command: Command, words: &[&str]) {
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

    /// Ends the server as its user would, so that it finishes its files.
    pub(crate) fn stop_server(&mut self) {
        let mut server = self.server.take().unwrap();
        signal("TERM", &server.child);
        let status = wait(&mut server.child, "weir serve");
        assert_eq!(status.code(), Some(143), "weir serve: {status}");
    }

    /// `weir test` against host b, not yet started.
    pub(crate) fn test_command(&self, words: &[&str]) -> Command {
        self.command_to(&self.b(), words)
    }

    fn command_to(&self, address: &str, words: &[&str]) -> Command {
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

    /// The same against another of its addresses.
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

/// No configuration of the user who runs the tests.
fn isolate(command: &mut Command, data: &Path) {
    command.env_remove("WEIR_KEY").env("WEIR_DATA_DIR", data).env("NO_COLOR", "1");
    command.env("WEIR_ERRORS", "json");
}

/// A signal that the test sends takes effect also when the tests were started with it ignored, as by `nohup` or behind a `&`.
pub(crate) fn default_signals(command: &mut Command) {
    ChildSetup::new().default_signals().apply(command).unwrap();
}

pub(crate) fn signal(name: &str, child: &Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

/// Waits for a child to end; one that doesn't is killed, and the test failed.
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

/// What the threads of a process do, for the words of a failure.
fn threads(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let told = |task: std::fs::DirEntry| {
        let file = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let [name, wait, call] = ["comm", "wchan", "syscall"].map(file);
        format!("{} waits in {wait}, call {}", name.trim(), call.trim())
    };
    tasks.map(told).collect::<Vec<_>>().join("\n")
}

/// A program that runs beside the test; killed on drop.
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

/// Waits for something that comes surely; the limit only ends a broken test.
#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What `recompute.py` makes of a packet log.
pub(crate) fn recompute(log: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recompute.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(log);
    serde_json::from_str(&run(command).good()).unwrap()
}
