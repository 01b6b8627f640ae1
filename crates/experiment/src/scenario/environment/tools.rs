//! Other tools as processes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use weir_jobs::{ChildGuard, MAX_OUTPUT_BYTES, Process, ServeJob, collect, collect_last};
use weir_model::experiment::ToolVersion;

use super::{BEGIN, END, Environment, lock, not_started, refused};
use crate::scenario::ScenarioError;
use crate::scenario::pair::Pair;
use crate::scenario::tools::{Figures, Load, Tool, version_of};

impl Environment<'_> {
    /// Why a tool can't produce a load to a host, if so.
    pub(in crate::scenario) fn refusal(
        &self,
        tool: &Tool,
        load: &Load,
        to: Option<&str>,
    ) -> Option<&'static str> {
        tool.refusal(load, self.is_in_lab(to))
    }

    /// Whether the server's host is one of the lab, where this program starts the server.
    pub(in crate::scenario) fn is_in_lab(&self, to: Option<&str>) -> bool {
        self.lab.is_some() && !self.scenario.hosts.contains_key(self.answering(to))
    }

    /// Why there is no server for a pair, if so.
    pub(in crate::scenario) fn lacks_server(
        &self,
        pair: Pair,
        to: Option<&str>,
    ) -> Option<&'static str> {
        let host = self.scenario.hosts.get(self.answering(to))?;
        match pair {
            Pair::ToWeir(_) => {
                Some("the server on that host is what runs there: name the client's tool alone")
            }
            Pair::WeirTo(_) if host.port.is_some() => {
                Some("the port of that host is of Weir's own server")
            }
            _ => None,
        }
    }

    /// The version of a tool, as its client prints it.
    pub(in crate::scenario) fn version_of(&self, tool: &Tool) -> ToolVersion {
        let client = tool.programs.first().copied().unwrap_or_default();
        let words: Vec<String> =
            [&[client], tool.version].concat().iter().map(|w| (*w).into()).collect();
        let until = Some(Instant::now() + Duration::from_secs(2));
        let printed = self.run(&words, None, until, &|| false);
        ToolVersion {
            name: tool.name.into(),
            version: printed.ok().and_then(|(_, printed)| version_of(&printed.together())),
            programs: tool.programs.iter().map(|p| (*p).to_owned()).collect(),
        }
    }

    /// Address of the host that answers, over IPv4.
    pub(in crate::scenario) fn address(&self, to: Option<&str>) -> Result<String, ScenarioError> {
        let name = self.answering(to);
        match (self.scenario.hosts.get(name), &self.lab) {
            (Some(host), _) => Ok(host.address.clone()),
            (None, Some(lab)) => Ok(lab.host(name)?.ipv4.to_string()),
            (None, None) => Err(ScenarioError::program(name, "there is no such host")),
        }
    }

    /// The start of Weir's command line for a test to a host; and that of the server, if this program started it.
    pub(in crate::scenario) fn own_words(
        &self,
        pair: Pair,
        load: &Load,
        to: Option<&str>,
    ) -> Result<(Vec<String>, Vec<String>), ScenarioError> {
        let mut client = vec!["weir".into(), "test".into(), self.address(to)?];
        let Some(host) = self.scenario.hosts.get(self.answering(to)) else {
            let server = match pair {
                Pair::WeirTo(tool) => (tool.server)(load, "LOG"),
                _ => vec!["weir".into(), "serve".into()],
            };
            return Ok((client, server));
        };
        if let Some(port) = host.port {
            client.extend(["--port".into(), port.to_string()]);
        }
        Ok((client, vec![]))
    }

    /// Runs another tool: the server on a host of the lab (elsewhere it must be running already), its client on a
    /// host or here.
    pub(in crate::scenario) fn tool(
        &self,
        pair: Pair,
        load: &Load,
        (from, to): (Option<&str>, Option<&str>),
        until: Option<Instant>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<ToolRun, ScenarioError> {
        let mut done = ToolRun::default();
        let Some(tool) = pair.tool() else { return Ok(done) };
        match (tool.client)(load, &self.address(to)?) {
            Ok(words) => done.command = words,
            Err(lacks) => return Ok(ToolRun { figures: Err(lacks.into()), ..done }),
        }
        let server = match pair {
            Pair::ToWeir(tool) => self.serve_as(tool, to)?,
            _ => self.serve(tool, load, to)?,
        };
        done.server_command.clone_from(&server.command);
        if let Err(reason) = server.is_ready {
            return Ok(ToolRun { figures: Err(reason), ..done });
        }
        let from = from.or(self.lab.as_ref().map(|_| "a"));
        let longest = Instant::now() + Duration::from_secs(u64::from(load.seconds) + 20);
        let until = until.map_or(longest, |u| u.min(longest));
        let (code, printed) = self.run(&done.command, from, Some(until), is_stopped)?;
        let text = printed.together();
        let log = self.log(tool);
        let mut report = server.end();
        if let (Some(decode), Some(0)) = (tool.decode, code) {
            let end = Instant::now() + Duration::from_secs(u64::from(load.seconds) + 20);
            report = self.decoded(&decode(&log.to_string_lossy()), end, is_stopped)?;
        }
        // A log of every packet takes some hundred bytes per packet.
        let _ = std::fs::remove_file(&log);
        (done.output, done.server_output) = (kept(&text), report.as_deref().and_then(kept));
        done.figures = match code {
            Some(0) => (tool.parse)(load, &text, &report.unwrap_or_default()),
            Some(code) => Err(match (tool.parse)(load, &text, "") {
                Err(said) => format!("exit code {code}: {}", in_one_line(&said)),
                Ok(_) => format!("exit code {code}"),
            }),
            None => Err("it did not end in time".into()),
        };
        Ok(done)
    }

    /// The file for the log of a tool's server.
    fn log(&self, tool: &Tool) -> PathBuf {
        self.directory.path().join(format!("{}.log", tool.name))
    }

    /// Starts a tool's server on a host of the lab; elsewhere it must be running already.
    pub(in crate::scenario) fn serve(
        &self,
        tool: &Tool,
        load: &Load,
        to: Option<&str>,
    ) -> Result<Server, ScenarioError> {
        let name = self.answering(to);
        let Some(lab) = self.lab.as_ref().filter(|_| self.is_in_lab(to)) else {
            return Ok(Server::default());
        };
        let words = (tool.server)(load, &self.log(tool).to_string_lossy());
        let mut command = self.foreign(name, Path::new(&words[0]))?;
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().map_err(not_started(&words[0]))?;
        let mut child = ChildGuard::group(child, END);
        let said = collect(child.child.stdout.take(), MAX_OUTPUT_BYTES as u64);
        // It does not report that it listens, and a probe connection would use up its only client.
        let is_ready = lab.run_in(name, || listens(tool.port.0, Instant::now() + BEGIN))?;
        let running = Some(Running::Tool(child, said));
        Ok(Server { command: words, is_ready: ready(is_ready, tool), running })
    }

    /// Starts Weir's server with a tool's protocol on a host of the lab.
    fn serve_as(&self, tool: &Tool, to: Option<&str>) -> Result<Server, ScenarioError> {
        let name = self.answering(to);
        let (Some(lab), Some(peer)) = (&self.lab, tool.peer) else { return Ok(Server::default()) };
        // The one for Weir's own clients has the same port; its next client starts it again.
        lock(&self.servers).remove(name);
        let mut command = self.command(Some(name), &self.options.program)?;
        // The figures are the client's: the server's record is of no use.
        command.env("XDG_DATA_HOME", self.directory.path());
        let what = format!("weir serve on {name}");
        let peers = [(peer.label().to_owned(), peer.default_port())].into();
        let job = weir_jobs::Job::Serve(Box::new(ServeJob { peers, ..ServeJob::default() }));
        let mut server = Process::start(command, &job, END).map_err(not_started(&what))?;
        server.wait_ready().map_err(refused(&what))?;
        server.ignore_events();
        let is_ready = lab.run_in(name, || listens(tool.port.0, Instant::now() + BEGIN))?;
        let command = ["weir", "serve", "--peer", peer.label()].map(Into::into).into();
        let running = Some(Running::Weir { _server: Box::new(server) });
        Ok(Server { command, is_ready: ready(is_ready, tool), running })
    }
}

fn ready(is_ready: bool, tool: &Tool) -> Result<(), String> {
    let silent = || format!("its server did not listen on port {}", tool.port.0);
    is_ready.then_some(()).ok_or_else(silent)
}

/// The server of one run, which ends with this value; nothing if it runs elsewhere.
#[derive(Debug)]
pub(in crate::scenario) struct Server {
    /// Its command line, if this program started it.
    pub(in crate::scenario) command: Vec<String>,
    /// Or why it takes no client.
    pub(in crate::scenario) is_ready: Result<(), String>,
    running: Option<Running>,
}

impl Default for Server {
    fn default() -> Server {
        Server { command: vec![], is_ready: Ok(()), running: None }
    }
}

#[derive(Debug)]
enum Running {
    Tool(ChildGuard, Receiver<String>),
    Weir { _server: Box<Process> },
}

impl Server {
    /// Ends it; returns what a tool's server has printed.
    fn end(self) -> Option<String> {
        match self.running? {
            Running::Tool(server, said) => {
                // Some servers report when they are stopped.
                drop(server);
                Some(said.recv_timeout(Duration::from_secs(2)).unwrap_or_default())
            }
            Running::Weir { .. } => None,
        }
    }
}

/// A run of another tool.
#[derive(Debug)]
pub(in crate::scenario) struct ToolRun {
    /// The client's command line.
    pub(in crate::scenario) command: Vec<String>,
    /// The server's, if this program started it.
    pub(in crate::scenario) server_command: Vec<String>,
    /// The end of what the client printed.
    pub(in crate::scenario) output: Option<String>,
    /// The end of what the server printed, or of its log decoded.
    pub(in crate::scenario) server_output: Option<String>,
    /// The error is a run without figures.
    pub(in crate::scenario) figures: Result<Figures, String>,
}

impl Default for ToolRun {
    fn default() -> ToolRun {
        ToolRun {
            command: vec![],
            server_command: vec![],
            output: None,
            server_output: None,
            figures: Ok(Figures::new()),
        }
    }
}

/// Bytes of a tool's output that a result keeps.
const KEPT_BYTES: usize = 16 << 10;

/// The end of a tool's output; `None` if it is empty.
fn kept(text: &str) -> Option<String> {
    let start = text.len().saturating_sub(KEPT_BYTES);
    let start = (start..).find(|at| text.is_char_boundary(*at))?;
    Some(text[start..].trim_end()).filter(|text| !text.is_empty()).map(Into::into)
}

/// Joins the lines of a tool's output.
fn in_one_line(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

impl Environment<'_> {
    /// The end of a decoder's output; absent if it failed. Its spinner may print megabytes before.
    fn decoded(
        &self,
        words: &[String],
        until: Instant,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<String>, ScenarioError> {
        let mut command = self.command(Some("local"), Path::new(&words[0]))?;
        command.args(&words[1..]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().map_err(not_started(&words[0]))?;
        let mut program = ChildGuard::group(child, Duration::ZERO);
        let said = collect_last(program.child.stdout.take(), MAX_OUTPUT_BYTES);
        loop {
            match said.recv_timeout(Duration::from_millis(20)) {
                Ok(text) => return Ok(Some(text)),
                Err(_) if is_stopped() || Instant::now() >= until => return Ok(None),
                Err(_) => {}
            }
        }
    }
}

/// Waits until a TCP or UDP port is bound in this network namespace, without connecting.
pub(super) fn listens(port: u16, until: Instant) -> bool {
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

#[cfg(test)]
mod tests {
    #[test]
    fn the_end_of_a_long_output_is_kept() {
        assert_eq!(
            super::kept(
                " 
"
            ),
            None
        );
        assert_eq!(
            super::kept(
                "a
b
"
            )
            .as_deref(),
            Some(
                "a
b"
            )
        );
        let long = "é".repeat(super::KEPT_BYTES) + "x";
        let kept = super::kept(&long).unwrap();
        assert!(kept.len() <= super::KEPT_BYTES && kept.ends_with("éx"), "{}", kept.len());
    }

    #[test]
    fn several_lines_become_one() {
        assert_eq!(super::in_one_line("a\r\n\n  b \n"), "a; b");
        assert_eq!(super::in_one_line(""), "");
    }
}
