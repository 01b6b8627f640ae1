//! An emulator in a process of its own, in the middle of a lab.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use weir_model::impairment::Impairment;
use weir_net::namespace::{ChildSetup, Process, process_start_time};

use crate::error::CliError;

/// Interfaces of a lab's middle.
const MIDDLE: [&str; 2] = ["to-a", "to-b"];
/// SIGTERM, as every Unix numbers it.
const TERMINATE: i32 = 15;

/// An emulator that runs.
pub(crate) struct Spawned {
    child: Child,
    rest: BufReader<ChildStdout>,
    /// What it said when it began: links, laws, control socket.
    pub(crate) head: String,
}

/// This program as it runs, to be started again: the path leads to it even if its file was replaced since.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Starts `weir impair` by `command`, a command prepared for [`OWN_PROGRAM`] in the middle, and waits until it works.
///
/// # Errors
/// What it said when it could not.
pub(crate) fn start(
    mut command: Command,
    impairment: &Impairment,
    more: &[std::ffi::OsString],
) -> Result<Spawned, CliError> {
    let internal = |what: &str, e: &dyn std::fmt::Display| {
        CliError::Internal(format!("{what} the emulator: {e}"))
    };
    command.arg0("weir").arg("impair").args(MIDDLE).args(["--config", "-"]).args(more);
    // Deaf to the terminal: whoever started it says when it ends.
    ChildSetup::new().new_session().apply(&mut command).map_err(|e| internal("start", &e))?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("NO_COLOR", "1");
    let mut child = command.spawn().map_err(|e| internal("start", &e))?;
    let config = serde_json::to_vec(impairment).map_err(|e| internal("configure", &e))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that died of something else tells it on stderr.
        let _ = stdin.write_all(&config);
    }
    let Some(stdout) = child.stdout.take() else {
        return Err(internal("read from", &"no pipe"));
    };
    let mut rest = BufReader::new(stdout);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        let read = (&mut rest).take(1 << 20).read_line(&mut line);
        if read.is_err() || line.is_empty() {
            let mut reason = String::new();
            if let Some(stderr) = child.stderr.take() {
                let _ = stderr.take(1 << 16).read_to_string(&mut reason);
            }
            let status = child.wait().map_err(|e| internal("wait for", &e))?;
            let reason = reason.trim().trim_start_matches("error: ").to_owned();
            return Err(match status.code() {
                Some(2) => CliError::Usage(reason),
                Some(3 | 4) => CliError::Unavailable(reason),
                _ => internal("start", &format!("{status}: {reason}")),
            });
        }
        head += &line;
        if line.starts_with("control socket") || line.starts_with("no control socket") {
            return Ok(Spawned { child, rest, head });
        }
    }
}

impl Spawned {
    /// Ends it as its user would, and returns what it said at its end.
    pub(crate) fn finish(mut self) -> String {
        let pid = self.child.id();
        // The child is not waited for yet: the number is its own.
        let process = process_start_time(pid).and_then(|at| Process::open(pid, at).ok().flatten());
        if process.is_none_or(|process| process.signal(TERMINATE).is_err()) {
            let _ = self.child.kill();
        }
        let mut text = String::new();
        let _ = self.rest.by_ref().take(1 << 24).read_to_string(&mut text);
        let _ = self.child.wait();
        text
    }
}
