//! `weir fleet dev`: a NATS server and agents on this machine, each agent in a network namespace of its own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use weir_fleet::{AgentName, Connection, Controller, NewKey, new_key, server_configuration};
use weir_jobs::ChildGuard;
use weir_lab::{Lab, LabSpec, Topology};
use weir_net::process::{die_with_starter, lead_session};

use super::{block_on, listening, refused, stopped};
use crate::commands::keygen;
use crate::engine::Stop;
use crate::error::CliError;
use crate::job::program;
use crate::output::{print, print_object};

/// The oldest version of NATS's server that a fleet works with.
const LEAST: (u32, u32) = (2, 15);
/// How it is built.
const INSTALL: &str =
    "go install github.com/nats-io/nats-server/v2@v2.15.3 (scripts/ensure.sh fleet does it)";
/// For the server and the agents to be ready.
const BEGIN: Duration = Duration::from_secs(60);
/// For each to end.
const END: Duration = Duration::from_secs(10);
/// Where an agent finds the server within its namespace.
const INSIDE: &str = "nats://127.0.0.1:4222";

/// The agents are named as the hosts of a lab: a, b, c; all is gone when it ends
#[derive(Debug, Args)]
#[command(
    after_help = "It needs nats-server 2.15 or newer, and what weir lab up needs. Ctrl-C ends it."
)]
pub(crate) struct DevArgs {
    /// Number of agents, each in a network namespace of its own
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    agents: u8,
    /// Port of the NATS server on 127.0.0.1; 0: a free one
    #[arg(long, value_name = "PORT", default_value_t = 4222)]
    port: u16,
    /// The program nats-server [default: the one in PATH]
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
    /// Print what is there as one JSON object
    #[arg(short = 'J', long)]
    json: bool,
}

pub(super) fn run(args: &DevArgs) -> Result<i32, CliError> {
    let server = find_server(args.nats_server.as_deref())?;
    let stop = listening()?;
    let spec = LabSpec {
        topology: Topology::of(usize::from(args.agents).max(2), false),
        ..LabSpec::default()
    };
    let lab = Lab::up(&spec)?;
    let names: Vec<String> = lab.hosts().map(|host| host.name.clone()).collect();
    let names = &names[..names.len().min(args.agents.into())];
    let directory = tempfile::Builder::new()
        .prefix("weir-fleet-")
        .tempdir()
        .map_err(CliError::io("make a directory in", std::env::temp_dir()))?;
    let (files, nats) = start_server(&server, directory.path(), names, args.port, &stop)?;
    let agents: Vec<(String, ChildGuard)> = names
        .iter()
        .map(|name| Ok((name.clone(), start_agent(&lab, name, &files)?)))
        .collect::<Result<_, CliError>>()?;
    let mut running: Vec<(String, ChildGuard)> = vec![("nats-server".into(), nats)];
    // The server ends last, so that the agents can state that they have stopped.
    running.extend(agents);
    running.reverse();
    if !block_on(ready(&files, names.len(), &running, &stop))? {
        return Ok(stop.reason().map_or(0, crate::engine::StopReason::service_exit_code));
    }
    present(args, &files, names)?;
    block_on(async {
        loop {
            if let Some((what, _)) = running.iter().find(|(_, child)| child.has_ended()) {
                let words = format!("{what} has ended; {}", files.logs());
                return Err(CliError::Experiment { reason: words, exit_code: 3 });
            }
            tokio::select! {
                reason = stopped(&stop, 1) => return Ok(reason.service_exit_code()),
                () = tokio::time::sleep(Duration::from_millis(500)) => {}
            }
        }
    })
}

/// The program, if its version is new enough.
fn find_server(given: Option<&Path>) -> Result<PathBuf, CliError> {
    let path = given.unwrap_or(Path::new("nats-server"));
    let missing = |reason: &str| {
        CliError::Unavailable(format!(
            "{}: {reason}; version {}.{} or newer is needed: {INSTALL}",
            path.display(),
            LEAST.0,
            LEAST.1
        ))
    };
    let printed = Command::new(path).arg("--version").output();
    let printed = printed.map_err(|error| missing(&error.to_string()))?;
    let text = String::from_utf8_lossy(&printed.stdout);
    let version = text.split_once(": v").map_or("", |(_, version)| version.trim());
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match found >= LEAST {
        true => Ok(path.to_owned()),
        false => Err(missing(&format!("it is version {version:?}"))),
    }
}

/// Keys and the server's configuration.
struct Files {
    directory: PathBuf,
    port: u16,
}

impl Files {
    fn make(directory: &Path, names: &[String], port: u16) -> Result<Files, CliError> {
        let port = match port {
            0 => free_port().map_err(|e| CliError::Internal(format!("find a free port: {e}")))?,
            port => port,
        };
        let files = Files { directory: directory.to_owned(), port };
        let write_key = |name: &str| -> Result<NewKey, CliError> {
            let key = new_key().map_err(refused)?;
            keygen::write(&files.key(name), &format!("{}\n", key.seed))?;
            Ok(key)
        };
        let controller = write_key("controller")?.public;
        let agents = names.iter().map(|name| {
            let agent: AgentName =
                name.parse().map_err(|e: weir_model::Refusal| refused(e.into()))?;
            Ok((agent, write_key(name)?.public))
        });
        let agents: Vec<(AgentName, String)> = agents.collect::<Result<_, CliError>>()?;
        let store = directory.join("store");
        let text = server_configuration(&[controller], &agents, Some((&store, port)));
        let path = files.configuration();
        std::fs::write(&path, text).map_err(CliError::io("write", &path))?;
        Ok(files)
    }

    fn key(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.key"))
    }

    fn configuration(&self) -> PathBuf {
        self.directory.join("nats.conf")
    }

    /// A new log of one of the programs.
    fn log(&self, name: &str) -> Result<std::fs::File, CliError> {
        let path = self.directory.join(format!("{name}.log"));
        std::fs::File::create(&path).map_err(CliError::io("create", &path))
    }

    /// The last line of each log, for an error: the directory is removed.
    fn logs(&self) -> String {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let logs =
            entries.map(|entry| entry.path()).filter(|p| p.extension().is_some_and(|e| e == "log"));
        let last = logs.filter_map(|path| {
            let text = std::fs::read_to_string(&path).ok()?;
            let name = path.file_stem()?.to_string_lossy().into_owned();
            Some(format!("{name}: {}", text.lines().last()?))
        });
        last.collect::<Vec<_>>().join("; ")
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Starts the server and waits until it listens: an agent that can't reach it ends. With port 0, another program may take the
/// free port first; then it is another one.
fn start_server(
    program: &Path,
    directory: &Path,
    names: &[String],
    port: u16,
    stop: &Stop,
) -> Result<(Files, ChildGuard), CliError> {
    let tries = if port == 0 { 5 } else { 1 };
    let mut reason = String::new();
    for attempt in 0..tries {
        let directory = directory.join(attempt.to_string());
        std::fs::create_dir(&directory).map_err(CliError::io("create", &directory))?;
        let files = Files::make(&directory, names, port)?;
        let mut command = Command::new(program);
        command.arg("--config").arg(files.configuration());
        let nats = start(command, files.log("nats-server")?, program)?;
        let end = Instant::now() + BEGIN;
        while stop.reason().is_none() && Instant::now() < end && !nats.has_ended() {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, files.port)).is_ok() && !nats.has_ended() {
                return Ok((files, nats));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if stop.reason().is_some() {
            return Ok((files, nats));
        }
        reason = format!("nats-server does not listen on port {}; {}", files.port, files.logs());
    }
    Err(CliError::Experiment { reason, exit_code: 3 })
}

/// Starts an agent in its namespace, where the server is reached through a forwarded port.
fn start_agent(lab: &Lab, name: &str, files: &Files) -> Result<ChildGuard, CliError> {
    let inside = lab.run_in(name, || TcpListener::bind((Ipv4Addr::LOCALHOST, 4222)))?;
    let inside = inside.map_err(|e| CliError::Internal(format!("listen within {name}: {e}")))?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, files.port));
    let forwarding = std::thread::Builder::new().name("weir-forward".into());
    forwarding
        .spawn(move || forward(&inside, to))
        .map_err(|e| CliError::Internal(format!("start a thread: {e}")))?;
    let program = program();
    let mut command = lab.command(name, &program)?;
    command
        .args(["agent", "--name", name, "--label", &format!("host={name}"), "--nats", INSIDE])
        .arg("--nkey")
        .arg(files.key(name))
        .arg("--outbox")
        .arg(files.directory.join(format!("outbox-{name}")));
    start(command, files.log(name)?, &program)
}

fn start(mut command: Command, log: std::fs::File, program: &Path) -> Result<ChildGuard, CliError> {
    // Signals of the terminal go to this program alone, which stops the others.
    let failed =
        |e: weir_net::Error| CliError::Internal(format!("start {}: {e}", program.display()));
    lead_session(&mut command).map_err(failed)?;
    die_with_starter(&mut command).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().map_err(CliError::io("start", program))?;
    Ok(ChildGuard::graceful(child, END))
}

/// Forwards connections for as long as this process runs.
fn forward(from: &TcpListener, to: SocketAddr) {
    for stream in from.incoming().flatten() {
        let Ok(onward) = TcpStream::connect(to) else { continue };
        let copies = [(stream.try_clone(), onward.try_clone()), (Ok(onward), Ok(stream))];
        for copy in copies {
            let (Ok(mut source), Ok(mut sink)) = copy else { continue };
            std::thread::spawn(move || {
                let _ = io::copy(&mut source, &mut sink);
                let _ = sink.shutdown(std::net::Shutdown::Both);
                let _ = source.shutdown(std::net::Shutdown::Both);
            });
        }
    }
}

/// Waits until all agents are connected; false if it was stopped before.
async fn ready(
    files: &Files,
    count: usize,
    running: &[(String, ChildGuard)],
    stop: &Stop,
) -> Result<bool, CliError> {
    let connection =
        Connection { url: files.url(), nkey_file: Some(files.key("controller")), ca_file: None };
    let end = Instant::now() + BEGIN;
    loop {
        if stop.reason().is_some() {
            return Ok(false);
        }
        let agents = match Controller::connect(&connection, 1).await {
            Ok(controller) => controller.agents().await,
            Err(error) => Err(error),
        };
        let here =
            agents.as_ref().map_or(0, |agents| agents.iter().filter(|a| a.is_here()).count());
        if here >= count {
            return Ok(true);
        }
        let ended = running.iter().find(|(_, child)| child.has_ended());
        if ended.is_some() || Instant::now() > end {
            let what = ended
                .map_or("not ready in time".to_owned(), |(what, _)| format!("{what} has ended"));
            let reason = format!("{what}; {}", files.logs());
            return Err(CliError::Experiment { reason, exit_code: 3 });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn present(args: &DevArgs, files: &Files, names: &[String]) -> Result<i32, CliError> {
    let key = files.key("controller");
    if args.json {
        return print_object(&json!({
            "nats": files.url(),
            "nkey": key,
            "agents": names,
        }));
    }
    let nats = format!("--nats {} --nkey {}", files.url(), key.display());
    print(&format!(
        "{} agents are connected: {}. Ctrl-C ends all. In another terminal:\n\n  \
         weir fleet agents {nats}\n  \
         weir fleet run --on a {nats} -- test --help\n  \
         weir fleet run {nats} scenarios/fleet-mesh.toml\n",
        names.len(),
        names.join(", "),
    ))
}
