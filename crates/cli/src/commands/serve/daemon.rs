//! `weir serve -D`: starts the same command in the background and waits until it listens.
//!
//! Starting the program again instead of forking avoids problems with threads and locks. The background process has its own
//! session, so that the terminal's signals don't reach it, and none of the terminal's streams.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_model::Refusal;
use weir_net::process::{lead_session, own_program};

use super::args::ServeArgs;
use crate::error::CliError;
use crate::output::{Sink, print};

/// The line that the background process prints once it listens.
const READY: &str = "weir: in the background";
/// Maximum length of the error of a background process that does not start, bytes.
const MAX_ERROR_BYTES: u64 = 64 << 10;

/// Starts the background process, prints its output until it listens, and returns. `is_quiet`: without a line of its own.
///
/// # Errors
/// [`CliError::Daemon`] with its message and exit code if it ends before it listens.
pub(crate) fn start(is_quiet: bool, words: &[OsString]) -> Result<i32, CliError> {
    let failed = |reason: String| CliError::Daemon { reason, exit_code: 70 };
    let mut command = Command::new(own_program());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::arg0(&mut command, "weir");
    command
        .args(words.iter().skip(1))
        .arg("--in-background")
        .env("WEIR_ERRORS", "json")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    lead_session(&mut command).map_err(|e| CliError::Unavailable(e.to_string()))?;
    let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;

    let mut lines = String::new();
    let mut ready = false;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            ready = line == READY;
            if ready {
                break;
            }
            lines += &line;
            lines.push('\n');
        }
    }
    if ready {
        if !is_quiet {
            lines += &format!("running in the background, process {}\n", child.id());
        }
        return print(&lines);
    }
    let code = child.wait().ok().and_then(|status| status.code()).filter(|code| *code != 0);
    let refused = lines.lines().rev().find_map(refusal);
    Err(refused.unwrap_or_else(|| {
        let mut reason = String::new();
        if let Some(stderr) = child.stderr.take() {
            // If the message can't be read, the exit code is still reported.
            let _ = stderr.take(MAX_ERROR_BYTES).read_to_string(&mut reason);
        }
        let reason = if reason.is_empty() { "it ended without an error" } else { reason.trim() };
        CliError::Daemon { reason: reason.into(), exit_code: code.unwrap_or(70) }
    }))
}

/// The error in a line that the background process printed: an object, or an event of `--json-stream`.
fn refusal(line: &str) -> Option<CliError> {
    let mut line: serde_json::Value = serde_json::from_str(line).ok()?;
    let key = if line["event"] == "error" { "data" } else { "error" };
    let refusal: Refusal = serde_json::from_value(line.get_mut(key)?.take()).ok()?;
    let message = format!("the daemon did not start: {}", refusal.message);
    Some(CliError::Refused(Box::new(Refusal { message, ..refusal })))
}

/// Called in the background process: passes the first lines to the foreground process, which then exits.
pub(crate) fn hand_over(lines: &str) {
    let mut stdout = std::io::stdout();
    // If the foreground process has ended, its user ended it; the server continues.
    let _ = writeln!(stdout, "{lines}{READY}").and_then(|()| stdout.flush());
}

/// The output of the background process: the logfile, if there is one.
///
/// # Errors
/// [`CliError::Io`] when the file can't be opened.
pub(crate) fn sink(args: &ServeArgs) -> Result<Sink, CliError> {
    match &args.output.logfile {
        Some(path) => Sink::open(Some(path), args.output.timestamps.clone()),
        None => Ok(Sink::to(Box::new(std::io::sink()))),
    }
}

/// A file with the process id, removed when this is dropped.
pub(crate) struct PidFile {
    path: PathBuf,
    text: String,
}

impl PidFile {
    /// Writes the file.
    ///
    /// # Errors
    /// [`CliError::Io`] naming it.
    pub(crate) fn write(path: &Path) -> Result<PidFile, CliError> {
        let text = format!("{}\n", std::process::id());
        std::fs::write(path, &text).map_err(CliError::io("write pidfile", path))?;
        Ok(PidFile { path: path.into(), text })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another server may have replaced the file since; a file that can't be removed does no harm.
        if std::fs::read_to_string(&self.path).is_ok_and(|now| now == self.text) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_is_removed_only_by_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        let file = PidFile::write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), std::process::id().to_string());
        drop(file);
        assert!(!path.exists());
        let file = PidFile::write(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(file);
        assert!(path.exists(), "another's file stays");
        assert!(PidFile::write(&dir.path().join("none/pid")).is_err());
    }
}
