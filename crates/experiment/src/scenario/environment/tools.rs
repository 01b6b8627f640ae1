//! Other tools as processes.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use weir_jobs::{ChildGuard, MAX_OUTPUT_BYTES, collect, collect_last};
use weir_model::experiment::ToolVersion;

use super::{BEGIN, END, Environment, not_started};
use crate::scenario::ScenarioError;
use crate::scenario::tools::{Figures, Load, Tool, version_of};

impl Environment<'_> {
    /// Why a tool can't produce a load to a host, if so.
    pub(in crate::scenario) fn refusal(
        &self,
        tool: &Tool,
        load: &Load,
        to: Option<&str>,
    ) -> Option<&'static str> {
        tool.refusal(load, !self.scenario.hosts.contains_key(self.answering(to)))
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
        to: Option<&str>,
    ) -> Result<(Vec<String>, Vec<String>), ScenarioError> {
        let mut client = vec!["weir".into(), "test".into(), self.address(to)?];
        let Some(host) = self.scenario.hosts.get(self.answering(to)) else {
            return Ok((client, vec!["weir".into(), "serve".into()]));
        };
        if let Some(port) = host.port {
            client.extend(["--port".into(), port.to_string()]);
        }
        Ok((client, vec![]))
    }

    /// Runs another tool: its server on a host of the lab (elsewhere it must be running already), its client on a
    /// host or here.
    pub(in crate::scenario) fn tool(
        &self,
        tool: &Tool,
        load: &Load,
        from: Option<&str>,
        to: Option<&str>,
        until: Option<Instant>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<ToolRun, ScenarioError> {
        let name = self.answering(to);
        let address = self.address(to)?;
        let mut done =
            ToolRun { command: vec![], server_command: vec![], figures: Err(String::new()) };
        match (tool.client)(load, &address) {
            Ok(words) => done.command = words,
            Err(lacks) => return Ok(ToolRun { figures: Err(lacks.into()), ..done }),
        }
        let log = self.directory.path().join(format!("{}.log", tool.name));
        let server = match (self.scenario.hosts.get(name), &self.lab) {
            (None, Some(lab)) => {
                let words = (tool.server)(load, &log.to_string_lossy());
                done.server_command.clone_from(&words);
                let mut command = self.foreign(name, Path::new(&words[0]))?;
                command
                    .args(&words[1..])
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null());
                let child = command.spawn().map_err(not_started(&words[0]))?;
                let mut server = ChildGuard::group(child, END);
                let said = collect(server.child.stdout.take(), MAX_OUTPUT_BYTES as u64);
                // It does not report that it listens, and a probe connection would use up its only client.
                let listens = lab.run_in(name, || listens(tool.port.0, Instant::now() + BEGIN))?;
                if !listens {
                    let reason = format!("its server did not listen on port {}", tool.port.0);
                    return Ok(ToolRun { figures: Err(reason), ..done });
                }
                Some((server, said))
            }
            _ => None,
        };
        let from = from.or(self.lab.as_ref().map(|_| "a"));
        let longest = Instant::now() + Duration::from_secs(u64::from(load.seconds) + 20);
        let until = until.map_or(longest, |u| u.min(longest));
        let (code, printed) = self.run(&done.command, from, Some(until), is_stopped)?;
        let text = printed.together();
        let mut report = server.map(|(server, said)| {
            // Some servers report when they are stopped.
            drop(server);
            said.recv_timeout(Duration::from_secs(2)).unwrap_or_default()
        });
        if let (Some(decode), Some(0)) = (tool.decode, code) {
            let end = Instant::now() + Duration::from_secs(u64::from(load.seconds) + 20);
            report = self.decoded(&decode(&log.to_string_lossy()), end, is_stopped)?;
        }
        // A log of every packet takes some hundred bytes per packet.
        let _ = std::fs::remove_file(&log);
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
}

/// A run of another tool.
pub(in crate::scenario) struct ToolRun {
    /// The client's command line.
    pub(in crate::scenario) command: Vec<String>,
    /// The server's, if this program started it.
    pub(in crate::scenario) server_command: Vec<String>,
    /// The error is a run without figures.
    pub(in crate::scenario) figures: Result<Figures, String>,
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
    fn several_lines_become_one() {
        assert_eq!(super::in_one_line("a\r\n\n  b \n"), "a; b");
        assert_eq!(super::in_one_line(""), "");
    }
}
