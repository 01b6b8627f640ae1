//! The environment of a scenario: its lab, servers, emulators, and the processes that run tests.
//!
//! Every part is a process of its own that ends with this one. The environment stops them in order when dropped, and
//! restores emulators that were already running.

mod emulators;
mod test;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weir_jobs::{
    Event, KeySource, Printed, Process, RemoteHosts, RunningCommand, RunningJob, ServeJob,
};
use weir_lab::{Lab, LabSpec, Topology};
use weir_model::Refusal;
use weir_model::experiment::{HostUse, Scenario};
use weir_model::plan::{Family, PeerName, Plan};
use weir_model::record::Record;
use weir_net::process::{die_with_starter, lead_session};
use weir_net::thread::lock;

use super::{Options, ScenarioError};

use emulators::Emulator;
pub(super) use test::{Job, NoRecord, Order, Progress, StartGate, Tested};
pub(super) use tools::Server;

/// Time for a program to end after SIGTERM.
const END: Duration = Duration::from_secs(10);
/// Time for a program to start listening.
const BEGIN: Duration = Duration::from_secs(20);

/// Everything that runs.
pub(super) struct Environment<'a> {
    scenario: &'a Scenario,
    options: &'a Options<'a>,
    lab: Option<Lab>,
    servers: Mutex<BTreeMap<String, RunningServer>>,
    /// Hosts of the tests so far.
    hosts: Mutex<Vec<HostUse>>,
    emulators: BTreeMap<String, Emulator>,
    /// Directory of the experiment's sockets.
    directory: tempfile::TempDir,
    sockets: AtomicU32,
}

/// A server that this experiment started.
struct RunningServer {
    job: Box<dyn RunningJob>,
    /// Its port, if the system chose it.
    port: Option<u16>,
}

/// The server of a test.
struct Target {
    address: String,
    port: Option<u16>,
    key: KeySource,
}

impl<'a> Environment<'a> {
    /// Creates the lab and starts the emulators.
    pub(super) fn make(
        scenario: &'a Scenario,
        options: &'a Options<'a>,
    ) -> Result<Self, ScenarioError> {
        let lab = match &scenario.lab {
            None => None,
            Some(setup) => {
                let spec = LabSpec {
                    topology: Topology::of(setup.hosts.unwrap_or(2) as usize, setup.middle),
                    mtu_bytes: setup.mtu_bytes,
                    no_offload: setup.no_offload,
                    sysctls: setup.sysctls.clone(),
                    ..LabSpec::default()
                };
                Some(Lab::up(&spec)?)
            }
        };
        // The page of a run takes this name to mean that its plan file no longer exists.
        let directory =
            tempfile::Builder::new().prefix("weir-run-").tempdir().map_err(|source| {
                let path = std::env::temp_dir();
                ScenarioError::File { operation: "make a directory for sockets in", path, source }
            })?;
        let mut environment = Environment {
            scenario,
            options,
            lab,
            servers: Mutex::default(),
            hosts: Mutex::default(),
            emulators: BTreeMap::new(),
            directory,
            sockets: AtomicU32::new(0),
        };
        for (name, spec) in &scenario.emulators {
            let emulator = environment.emulator_of(name, spec)?;
            environment.emulators.insert(name.clone(), emulator);
        }
        Ok(environment)
    }

    /// A command on a host of the lab, or on this machine.
    fn command(&self, host: Option<&str>, program: &Path) -> Result<Command, ScenarioError> {
        let mut command = match (&self.lab, host) {
            (_, Some("local")) | (None, _) => Command::new(program),
            (Some(lab), Some(host)) => lab.command(host, program)?,
            (Some(lab), None) => lab.command("a", program)?,
        };
        // Signals of the terminal go to this program alone, which stops the others.
        lead_session(&mut command).map_err(failed("start", &program.display().to_string()))?;
        Ok(command)
    }

    /// A command for a program that is not Weir: it is killed when the thread that starts it ends.
    fn foreign(&self, host: &str, program: &Path) -> Result<Command, ScenarioError> {
        let mut command = self.command(Some(host), program)?;
        die_with_starter(&mut command).map_err(failed("start", &program.display().to_string()))?;
        Ok(command)
    }

    /// A new path for a control socket.
    pub(super) fn socket(&self) -> PathBuf {
        let n = self.sockets.fetch_add(1, Ordering::Relaxed);
        self.directory.path().join(format!("{n}.sock"))
    }

    /// The server's host if a step names none.
    fn answering<'n>(&'n self, to: Option<&'n str>) -> &'n str {
        match to {
            Some(name) => name,
            None if self.lab.is_some() => "b",
            None => self.scenario.hosts.keys().next().map_or("b", String::as_str),
        }
    }

    /// The server of a test. A host of the lab gets its server at the first use.
    /// That of another tool must be running already.
    fn target(&self, to: Option<&str>, plan: &Plan) -> Result<Target, ScenarioError> {
        let is_ipv6 = plan.family == Some(Family::Ipv6);
        let name = self.answering(to);
        if let Some(host) = self.scenario.hosts.get(name) {
            let key = host.key_file.as_ref().map(|file| self.options.files.path(file));
            let key = KeySource::file(key);
            return Ok(Target { address: host.address.clone(), port: host.port, key });
        }
        if let Some(remote) = self.remote_of(name) {
            return self.target_at_agent(name, is_ipv6, remote);
        }
        let Some(lab) = &self.lab else {
            return Err(ScenarioError::program(name, "there is no such host"));
        };
        let host = lab.host(name)?;
        let address = if is_ipv6 { host.ipv6.to_string() } else { host.ipv4.to_string() };
        let mut servers = self.servers.lock().unwrap_or_else(|e| e.into_inner());
        if plan.peer == PeerName::Weir && !servers.contains_key(name) {
            let command = self.command(Some(name), &self.options.program)?;
            let what = format!("weir serve on {name}");
            let job = weir_jobs::Job::Serve(Box::default());
            let mut server = Process::start(command, &job, END).map_err(not_started(&what))?;
            server.wait_ready().map_err(refused(&what))?;
            server.ignore_events();
            servers.insert(name.into(), RunningServer { job: Box::new(server), port: None });
        }
        Ok(Target { address, port: None, key: KeySource::default() })
    }

    /// The fleet, if this host is one of its agents.
    fn remote_of(&self, host: &str) -> Option<&'a dyn RemoteHosts> {
        self.options.remote.filter(|remote| remote.is_agent(host))
    }

    /// The server at an agent, which is started at the first use, on a port that the system chooses.
    fn target_at_agent(
        &self,
        agent: &str,
        is_ipv6: bool,
        remote: &dyn RemoteHosts,
    ) -> Result<Target, ScenarioError> {
        let what = format!("weir serve on {agent}");
        let address = remote.address(agent, is_ipv6).map_err(refused(&what))?;
        let key = KeySource { key: Some(remote.key()), ..KeySource::default() };
        let mut servers = self.servers.lock().unwrap_or_else(|e| e.into_inner());
        servers.retain(|name, server| name != agent || !server.job.has_ended());
        let port = match servers.get(agent) {
            Some(server) => server.port,
            None => {
                let job = ServeJob { port: 0, key: key.clone(), ..ServeJob::default() };
                let job = weir_jobs::Job::Serve(Box::new(job));
                let mut job = remote.start(agent, job).map_err(refused(&what))?;
                let port = match job.wait_until_up().map_err(refused(&what))? {
                    Event::Listening(listening) => listening.port(),
                    _ => None,
                };
                job.ignore_events();
                servers.insert(agent.into(), RunningServer { job, port });
                port
            }
        };
        Ok(Target { address, port, key })
    }

    /// The hosts of the tests so far.
    pub(super) fn hosts(&self) -> Vec<HostUse> {
        lock(&self.hosts).clone()
    }

    /// Notes the hosts of a test.
    fn saw_hosts(&self, from: Option<&str>, to: Option<&str>, record: &Record) {
        let from = from.unwrap_or(if self.lab.is_some() { "a" } else { "local" });
        let mut hosts = lock(&self.hosts);
        for (role, host) in [(from, &record.local), (self.answering(to), &record.remote)] {
            if let Some(found) = host.as_ref().map(|host| HostUse::new(role, host))
                && !hosts.contains(&found)
            {
                hosts.push(found);
            }
        }
    }

    /// Whether the server that this experiment started on a host of the lab is still running.
    fn lab_server_is_there(&self, name: &str) -> bool {
        let servers = self.servers.lock().unwrap_or_else(|e| e.into_inner());
        servers.get(name).is_some_and(|server| !server.job.has_ended())
    }

    /// Runs a command; returns its exit code (absent if killed) and what it printed. The rest of its process group is ended
    /// with it.
    pub(super) fn run(
        &self,
        words: &[String],
        host: Option<&str>,
        until: Option<Instant>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(Option<i32>, Printed), ScenarioError> {
        let running = self.begin(words, host)?;
        let is_late = || until.is_some_and(|u| Instant::now() >= u);
        let is_done = running.wait(&|| is_stopped() || is_late());
        let (code, printed) = running.end();
        Ok((code.filter(|_| is_done), printed))
    }

    /// Starts a command. It is killed when the thread that starts it ends.
    pub(super) fn begin(
        &self,
        words: &[String],
        host: Option<&str>,
    ) -> Result<RunningCommand, ScenarioError> {
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| ScenarioError::program("command", "nothing to run"))?;
        let mut command = self.foreign(host.unwrap_or("local"), Path::new(program))?;
        command.args(arguments).current_dir(&self.options.files.directory);
        RunningCommand::start(&mut command).map_err(not_started(program))
    }

    /// Whether a socket on a host listens on this TCP port or is bound to this UDP port; waits for it until `until`.
    pub(super) fn listens(
        &self,
        host: Option<&str>,
        port: u16,
        until: Instant,
    ) -> Result<bool, ScenarioError> {
        Ok(match (&self.lab, host) {
            (Some(lab), Some(host)) if host != "local" => {
                lab.run_in(host, || tools::listens(port, until))?
            }
            _ => tools::listens(port, until),
        })
    }
}

impl Drop for Environment<'_> {
    fn drop(&mut self) {
        // Emulators last, so that what still runs through them can stop in order.
        self.servers.lock().unwrap_or_else(|e| e.into_inner()).clear();
        self.emulators.clear();
    }
}

/// An error of a request to a program.
fn failed<E: std::fmt::Display>(
    operation: &'static str,
    what: &str,
) -> impl FnOnce(E) -> ScenarioError {
    let what = what.to_owned();
    move |reason| ScenarioError::program(&what, &format!("{operation}: {reason}"))
}

/// The error for a program that is missing or may not be executed.
fn not_started(what: &str) -> impl FnOnce(std::io::Error) -> ScenarioError {
    let what = what.to_owned();
    move |source| ScenarioError::Program {
        what,
        reason: format!("start: {source}"),
        is_unavailable: true,
    }
}

/// The error for a job that failed to start; "unavailable" if its exit code says so.
fn refused(what: &str) -> impl FnOnce(Box<Refusal>) -> ScenarioError {
    let what = what.to_owned();
    move |refusal| ScenarioError::Program {
        what,
        reason: refusal.message,
        is_unavailable: refusal.exit_code == 4,
    }
}
