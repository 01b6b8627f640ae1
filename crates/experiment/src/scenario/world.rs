//! Where a scenario happens: its lab, the servers in it, its emulators, and the programs that run tests.
//!
//! Everything is a program of its own that dies with this one, and is ended in order when the world is dropped.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_lab::{Lab, LabSpec, Topology};
use weir_model::experiment::Scenario;
use weir_model::impairment::Impairment;
use weir_model::plan::Plan;
use weir_model::record::Record;
use weir_net::namespace::{ChildSetup, Process, process_start_time};

use super::tools::{Figures, Load, Tool};
use super::{Files, Options, ScenarioError};

/// How long a program may take to begin.
const BEGIN: Duration = Duration::from_secs(5);
/// How long it may take to end when it was asked to.
const END: Duration = Duration::from_secs(10);
/// Longest line of a test's stream: its record.
const MOST_RECORD_BYTES: u64 = 512 << 20;
/// Signals as every Linux numbers them.
const TERMINATE: i32 = 15;
const KILL: i32 = 9;

/// Everything that runs.
pub(super) struct World<'a> {
    scenario: &'a Scenario,
    options: &'a Options<'a>,
    lab: Option<Lab>,
    servers: Mutex<BTreeMap<String, Program>>,
    keeper: Keeper,
    emulators: BTreeMap<String, Emulator>,
    /// Sockets of this experiment.
    directory: tempfile::TempDir,
    sockets: AtomicU32,
}

/// A program that is ended when it is dropped.
struct Program(Child);

impl Program {
    fn terminate(&self) {
        let pid = self.0.id();
        // Not waited for yet: the number is its own.
        let process = process_start_time(pid).and_then(|at| Process::open(pid, at).ok().flatten());
        if let Some(process) = process {
            let _ = process.signal(TERMINATE);
        }
    }

    fn end(&mut self) {
        self.terminate();
        let end = Instant::now() + END;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread that starts what outlives a step. A program dies with the thread that started it (PR_SET_PDEATHSIG), and steps
/// at the same time have threads of their own.
struct Keeper {
    requests: Mutex<mpsc::Sender<(Command, mpsc::Sender<std::io::Result<Child>>)>>,
}

impl Keeper {
    fn new() -> Keeper {
        let (requests, inbox) = mpsc::channel::<(Command, mpsc::Sender<std::io::Result<Child>>)>();
        std::thread::spawn(move || {
            for (mut command, answer) in inbox {
                let _ = answer.send(command.spawn());
            }
        });
        Keeper { requests: Mutex::new(requests) }
    }

    fn spawn(&self, command: Command) -> std::io::Result<Child> {
        let (answer, started) = mpsc::channel();
        let requests = self.requests.lock().unwrap_or_else(|e| e.into_inner());
        let gone = |_| std::io::Error::other("the thread that starts programs is gone");
        requests.send((command, answer)).map_err(|e| gone(e.to_string()))?;
        started.recv().map_err(|e| gone(e.to_string()))?
    }
}

struct Emulator {
    socket: PathBuf,
    /// What it does from its start, and when nothing more is to be impaired.
    initial: Impairment,
    _program: Option<Program>,
}

/// A test to be run.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) step: String,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) plan: Plan,
    pub(super) labels: Vec<(String, String)>,
    /// Latest end.
    pub(super) until: Option<Instant>,
    /// CLOCK_MONOTONIC, ns, at which sending starts.
    pub(super) start_at_ns: Option<u64>,
    /// Whether `weir ctl` may reach it.
    pub(super) socket: Option<PathBuf>,
}

/// How far a test is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    pub(super) bytes: u64,
    pub(super) packets: u64,
}

impl<'a> World<'a> {
    /// Makes the lab, starts its servers and the emulators.
    pub(super) fn make(
        scenario: &'a Scenario,
        options: &'a Options<'a>,
    ) -> Result<Self, ScenarioError> {
        let lab = match &scenario.lab {
            None => None,
            Some(setup) => {
                let topology = match (setup.middle, setup.hosts.unwrap_or(2)) {
                    (true, _) => Topology::Middle,
                    (false, 2) => Topology::Pair,
                    (false, hosts) => Topology::Switch(hosts as usize),
                };
                let spec = LabSpec {
                    topology,
                    mtu_bytes: setup.mtu_bytes,
                    cut: setup.cut,
                    ..LabSpec::default()
                };
                Some(Lab::up(&spec)?)
            }
        };
        let directory = tempfile::Builder::new()
            .prefix("weir-run-")
            .tempdir()
            .map_err(failed("make a directory for", "sockets"))?;
        let mut world = World {
            scenario,
            options,
            lab,
            servers: Mutex::default(),
            keeper: Keeper::new(),
            emulators: BTreeMap::new(),
            directory,
            sockets: AtomicU32::new(0),
        };
        for (name, spec) in &scenario.emulators {
            let initial = options.files.impairment(&spec.initial, &format!("emulator.{name}"))?;
            let emulator = match &spec.control_socket {
                Some(socket) => {
                    let mut emulator = Emulator {
                        socket: socket.into(),
                        initial: initial.clone(),
                        _program: None,
                    };
                    if spec.initial.is_empty() {
                        let found = ask(&emulator.socket, &json!({ "verb": "show" }))?;
                        emulator.initial = serde_json::from_value(found["impairment"].clone())
                            .map_err(failed("understand", "the emulator"))?;
                    } else {
                        set(&emulator.socket, &initial)?;
                    }
                    emulator
                }
                None => {
                    let interfaces = spec.interfaces.clone();
                    world.start_emulator(name, interfaces, initial)?
                }
            };
            world.emulators.insert(name.clone(), emulator);
        }
        Ok(world)
    }

    /// A command on a host of the lab, or here.
    fn command(&self, host: Option<&str>, program: &Path) -> Result<Command, ScenarioError> {
        let mut command = match (&self.lab, host) {
            (_, Some("local")) | (None, _) => Command::new(program),
            (Some(lab), Some(host)) => lab.command(host, program)?,
            (Some(lab), None) => lab.command("a", program)?,
        };
        // Deaf to the terminal: this program says when it ends, and it ends with this one.
        let setup = ChildSetup::new().new_session().parent_death_signal(KILL);
        setup.apply(&mut command).map_err(failed("start", &program.display().to_string()))?;
        Ok(command)
    }

    fn start_emulator(
        &self,
        name: &str,
        interfaces: Option<[String; 2]>,
        initial: Impairment,
    ) -> Result<Emulator, ScenarioError> {
        let what = format!("emulator {name}");
        let socket = self.socket();
        let (host, interfaces) = match interfaces {
            Some(own) => ("local", own),
            None => ("m", ["to-a".to_owned(), "to-b".to_owned()]),
        };
        let mut command = self.command(Some(host), &self.options.program)?;
        command.arg("impair").args(&interfaces).args(["--config", "-", "--json"]);
        command.arg("--control-socket").arg(&socket).env("NO_COLOR", "1");
        if host == "m" {
            // Its interfaces end with the lab.
            command.arg("--disposable");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = Program(command.spawn().map_err(failed("start", &what))?);
        let text = serde_json::to_vec(&initial).map_err(failed("start", &what))?;
        if let Some(mut stdin) = child.0.stdin.take() {
            // One that died of something else tells it on stderr.
            let _ = stdin.write_all(&text);
        }
        let words = child.0.stderr.take();
        let (sender, begun) = mpsc::channel();
        std::thread::spawn(move || {
            let mut said = String::new();
            let Some(words) = words else { return };
            for line in BufReader::new(words).lines().map_while(Result::ok) {
                if line.starts_with("control socket") {
                    let _ = sender.send(Ok(()));
                }
                if said.len() < 4096 {
                    said += &line;
                    said.push('\n');
                }
            }
            let _ = sender.send(Err(said));
        });
        match begun.recv_timeout(BEGIN) {
            Ok(Ok(())) => Ok(Emulator { socket, initial, _program: Some(child) }),
            Ok(Err(said)) => {
                Err(ScenarioError::program(&what, said.trim().trim_start_matches("error: ")))
            }
            Err(_) => Err(ScenarioError::program(&what, "it did not begin within 5 s")),
        }
    }

    /// A name for a socket of its own.
    pub(super) fn socket(&self) -> PathBuf {
        let n = self.sockets.fetch_add(1, Ordering::Relaxed);
        self.directory.path().join(format!("{n}.sock"))
    }

    /// The host that answers, its address and what `weir test` has to be told beside it. A host of the lab is served from
    /// its first use on.
    fn target(
        &self,
        to: Option<&str>,
        is_ipv6: bool,
    ) -> Result<(String, Vec<String>), ScenarioError> {
        let name = match to {
            Some(name) => name,
            None if self.lab.is_some() => "b",
            None => self.scenario.hosts.keys().next().map_or("b", String::as_str),
        };
        if let Some(host) = self.scenario.hosts.get(name) {
            let mut extra = vec![];
            if let Some(port) = host.port {
                extra.extend(["--port".into(), port.to_string()]);
            }
            if let Some(file) = &host.key_file {
                extra.extend([
                    "--key-file".into(),
                    self.options.files.path(file).display().to_string(),
                ]);
            }
            return Ok((host.address.clone(), extra));
        }
        let Some(lab) = &self.lab else {
            return Err(ScenarioError::program(name, "there is no such host"));
        };
        let host = lab.host(name)?;
        let address = if is_ipv6 { host.ipv6.to_string() } else { host.ipv4.to_string() };
        let mut servers = self.servers.lock().unwrap_or_else(|e| e.into_inner());
        if !servers.contains_key(name) {
            let mut command = self.command(Some(name), &self.options.program)?;
            command.arg("serve").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let what = format!("weir serve on {name}");
            let mut server = Program(self.keeper.spawn(command).map_err(failed("start", &what))?);
            listening(&mut server.0, &what)?;
            servers.insert(name.into(), server);
        }
        Ok((address, vec![]))
    }

    /// Runs a test to its end. The inner error is one that ended without figures.
    pub(super) fn test(
        &self,
        job: &Job,
        is_stopped: &dyn Fn() -> bool,
        progress: &dyn Fn(Progress),
    ) -> Result<Result<Box<Record>, String>, ScenarioError> {
        let what = format!("weir test of step {}", job.step);
        let is_ipv6 = job.plan.family == Some(weir_model::plan::Family::Ipv6);
        let (address, extra) = self.target(job.to.as_deref(), is_ipv6)?;
        let plan = tempfile::NamedTempFile::new_in(self.directory.path())
            .and_then(|mut file| {
                file.write_all(&serde_json::to_vec(&job.plan)?)?;
                Ok(file)
            })
            .map_err(failed("write the plan of", &job.step))?;
        let mut command = self.command(job.from.as_deref(), &self.options.program)?;
        command.args(["test", &address, "--json-stream", "--plan"]).arg(plan.path()).args(extra);
        for (key, value) in &job.labels {
            command.arg("--label").arg(format!("{key}={value}"));
        }
        if self.options.no_store {
            command.arg("--no-store");
        }
        if let Some(socket) = &job.socket {
            command.arg("--control-socket").arg(socket);
        }
        if let Some(at) = job.start_at_ns {
            command.arg("--start-at").arg(format!("monotonic:{at}"));
        }
        command
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = Program(command.spawn().map_err(failed("start", &what))?);
        let lines = lines(child.0.stdout.take());
        let words = all(child.0.stderr.take());
        let mut record: Option<Box<Record>> = None;
        let mut error: Option<String> = None;
        let mut so_far = Progress::default();
        let mut asked = false;
        let mut latest = job.until;
        loop {
            match lines.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => match serde_json::from_str::<Line>(&line) {
                    Ok(Line { event, data }) if event == "interval" => {
                        for end in ["forward", "reverse"] {
                            let sent = &data["total"][end]["sender"];
                            so_far.bytes += sent["bytes"].as_u64().unwrap_or(0);
                            so_far.packets += sent["packets"].as_u64().unwrap_or(0);
                        }
                        progress(so_far);
                    }
                    Ok(Line { event, data }) if event == "end" => {
                        record = serde_json::from_value(data).ok().map(Box::new);
                    }
                    Ok(Line { event, data }) if event == "error" => {
                        error = data["message"].as_str().map(Into::into);
                    }
                    _ => {}
                },
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let late = latest.is_some_and(|until| Instant::now() >= until);
            if late && asked {
                // It was asked and did not end.
                break;
            }
            if !asked && (late || is_stopped()) {
                asked = true;
                child.terminate();
                latest = Some(Instant::now() + END);
                if late {
                    error.get_or_insert_with(|| "it took longer than its step may".into());
                }
            }
        }
        drop(child);
        let words = words.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        match record {
            Some(mut record) if !record.flows.is_empty() => {
                if let Some(error) = error
                    && record.end_reason.is_empty()
                {
                    record.end_reason = error;
                }
                Ok(Ok(record))
            }
            _ => Ok(Err(error.unwrap_or_else(|| {
                let said = words.trim().trim_start_matches("error: ");
                if said.is_empty() {
                    "it ended without a result".into()
                } else {
                    said.chars().take(300).collect()
                }
            }))),
        }
    }

    /// Runs another tool: its server on a host of the lab (elsewhere it has to run already), its client here or there. The
    /// inner error is a run without figures.
    pub(super) fn tool(
        &self,
        tool: &Tool,
        load: &Load,
        from: Option<&str>,
        to: Option<&str>,
        until: Option<Instant>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Result<Figures, String>, ScenarioError> {
        let name = to.unwrap_or_else(|| match self.lab {
            Some(_) => "b",
            None => self.scenario.hosts.keys().next().map_or("b", String::as_str),
        });
        let (address, server) = match (self.scenario.hosts.get(name), &self.lab) {
            (Some(host), _) => (host.address.clone(), None),
            (None, Some(lab)) => {
                let words = (tool.server)(load);
                let mut command = self.command(Some(name), Path::new(&words[0]))?;
                command
                    .args(&words[1..])
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null());
                let mut server =
                    Program(command.spawn().map_err(failed("start", tool.programs[0]))?);
                let said = all(server.0.stdout.take());
                // It says nothing when it listens, and a connection to find out would be its one client.
                let listens = lab.run_in(name, || listens(tool.port.0, Instant::now() + BEGIN))?;
                if !listens {
                    return Ok(Err(format!("its server did not listen on port {}", tool.port.0)));
                }
                (lab.host(name)?.ipv4.to_string(), Some((server, said)))
            }
            (None, None) => return Err(ScenarioError::program(name, "there is no such host")),
        };
        let Some(words) = (tool.client)(load, &address) else {
            return Ok(Err("it has no words for this load".into()));
        };
        let from = from.or(self.lab.as_ref().map(|_| "a"));
        let longest = Instant::now() + Duration::from_secs(u64::from(load.seconds) + 20);
        let until = until.map_or(longest, |u| u.min(longest));
        let (code, text) = self.run(&words, from, Some(until), is_stopped)?;
        let report = server.map(|(server, said)| {
            // Some report when they are asked to end.
            drop(server);
            said.recv_timeout(Duration::from_secs(2)).unwrap_or_default()
        });
        Ok(match code {
            Some(0) => (tool.parse)(load, &text, &report.unwrap_or_default()),
            Some(code) => Err(match (tool.parse)(load, &text, "") {
                Err(said) => format!("exit code {code}: {said}"),
                Ok(_) => format!("exit code {code}"),
            }),
            None => Err("it did not end in its time".into()),
        })
    }

    /// Tells an emulator what to do; without an impairment, what it did at its start.
    pub(super) fn impair(
        &self,
        name: Option<&str>,
        to: Option<&Impairment>,
    ) -> Result<(), ScenarioError> {
        let emulator = self.emulator(name)?;
        let nothing = Impairment::default();
        set(&emulator.socket, to.unwrap_or(&nothing))
    }

    /// The counters of an emulator.
    pub(super) fn stats(&self, name: &str) -> Result<Value, ScenarioError> {
        Ok(ask(&self.emulator(Some(name))?.socket, &json!({ "verb": "stats" }))?["report"].take())
    }

    fn emulator(&self, name: Option<&str>) -> Result<&Emulator, ScenarioError> {
        match name {
            Some(name) => self.emulators.get(name),
            None => self.emulators.values().next(),
        }
        .ok_or_else(|| {
            ScenarioError::program(name.unwrap_or("emulator"), "there is no such emulator")
        })
    }

    /// Runs a command; returns its exit code (absent when it was ended) and what it printed.
    pub(super) fn run(
        &self,
        words: &[String],
        host: Option<&str>,
        until: Option<Instant>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(Option<i32>, String), ScenarioError> {
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| ScenarioError::program("command", "nothing to run"))?;
        let mut command = self.command(Some(host.unwrap_or("local")), Path::new(program))?;
        command.args(arguments).current_dir(&self.options.files.directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Program(command.spawn().map_err(failed("run", program))?);
        let (out, err) = (all(child.0.stdout.take()), all(child.0.stderr.take()));
        let code = loop {
            match child.0.try_wait().map_err(failed("wait for", program))? {
                Some(status) => break status.code(),
                None if is_stopped() || until.is_some_and(|u| Instant::now() >= u) => break None,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        drop(child);
        let patience = Duration::from_secs(1);
        let text = out.recv_timeout(patience).unwrap_or_default()
            + &err.recv_timeout(patience).unwrap_or_default();
        Ok((code, text))
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        // Emulators last: what still runs through them ends in order.
        self.servers.lock().unwrap_or_else(|e| e.into_inner()).clear();
        self.emulators.clear();
    }
}

/// Waits until something of this network namespace listens on a TCP or UDP port, without touching it.
fn listens(port: u16, until: Instant) -> bool {
    let end = format!(":{port:04X}");
    loop {
        for (table, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
            let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"))
                .unwrap_or_default();
            let found = text.lines().skip(1).any(|line| {
                let mut cells = line.split_whitespace().skip(1);
                cells.next().is_some_and(|local| local.ends_with(&end))
                    && cells.nth(1) == Some(state)
            });
            if found {
                return true;
            }
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[derive(serde::Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    data: Value,
}

/// Asks an emulator; its refusal is an error.
fn ask(socket: &Path, request: &Value) -> Result<Value, ScenarioError> {
    let what = format!("emulator at {}", socket.display());
    let answer = weir_emulator::control::ask(socket, request)
        .map_err(|e| ScenarioError::program(&what, &e.to_string()))?;
    match answer["ok"].as_bool() {
        Some(true) => Ok(answer),
        _ => Err(ScenarioError::program(&what, answer["error"].as_str().unwrap_or("no answer"))),
    }
}

fn set(socket: &Path, impairment: &Impairment) -> Result<(), ScenarioError> {
    let impairment = serde_json::to_value(impairment).map_err(failed("write", "impairment"))?;
    ask(socket, &json!({ "verb": "set", "impairment": impairment })).map(drop)
}

/// One line to a running test's control socket, and its answer.
pub(super) fn control(
    socket: &Path,
    verb: &str,
    connection: Option<&str>,
) -> Result<(), ScenarioError> {
    let what = format!("test at {}", socket.display());
    let mut stream =
        std::os::unix::net::UnixStream::connect(socket).map_err(failed("reach", &what))?;
    let _ = stream.set_read_timeout(Some(END));
    let mut request = json!({ "verb": verb });
    if let Some(connection) = connection {
        request["connection"] = connection.into();
    }
    stream.write_all(format!("{request}\n").as_bytes()).map_err(failed("ask", &what))?;
    let mut answer = String::new();
    let read = BufReader::new(Read::take(stream, 16 << 20)).read_line(&mut answer);
    read.map_err(failed("ask", &what))?;
    let answer: Value = serde_json::from_str(&answer).map_err(failed("understand", &what))?;
    match answer["ok"].as_bool() {
        Some(true) => Ok(()),
        _ => Err(ScenarioError::program(&what, answer["error"].as_str().unwrap_or("no answer"))),
    }
}

/// Waits for the first line of a server, which says that it listens.
fn listening(server: &mut Child, what: &str) -> Result<(), ScenarioError> {
    let lines = lines(server.stdout.take());
    let said = lines.recv_timeout(BEGIN);
    // The rest is read and dropped, or the server would stand still when the pipe is full.
    std::thread::spawn(move || lines.into_iter().for_each(drop));
    match said {
        Ok(_) => Ok(()),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(ScenarioError::program(what, "it ended before it listened"))
        }
        Err(_) => Err(ScenarioError::program(what, "it did not listen within 5 s")),
    }
}

fn lines(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let Some(stream) = stream else { return };
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            match Read::take(&mut reader, MOST_RECORD_BYTES).read_line(&mut line) {
                Ok(n) if n > 0 && sender.send(line).is_ok() => {}
                _ => break,
            }
        }
    });
    receiver
}

/// The first 64 KiB of a stream, the rest is dropped.
fn all(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    const MOST: usize = 64 << 10;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut kept, mut buffer) = (vec![], [0; 4096]);
        if let Some(mut stream) = stream {
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                kept.extend_from_slice(&buffer[..n.min(MOST.saturating_sub(kept.len()))]);
            }
        }
        let _ = sender.send(String::from_utf8_lossy(&kept).into_owned());
    });
    receiver
}

fn failed<E: std::fmt::Display>(
    operation: &'static str,
    what: &str,
) -> impl FnOnce(E) -> ScenarioError {
    let what = what.to_owned();
    move |reason| ScenarioError::Program { what, reason: format!("{operation}: {reason}") }
}

impl Files {
    /// A path beside the scenario.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}
