//! An emulator in a process of its own, in the middle of a lab.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use weir_model::impairment::Impairment;
use weir_net::namespace::{ChildSetup, Process, process_start_time};

use super::control;
use crate::app::note;
use crate::error::CliError;

/// Interfaces of a lab's middle.
const MIDDLE: [&str; 2] = ["to-a", "to-b"];
/// SIGTERM, as every Unix numbers it.
pub(super) const TERMINATE: i32 = 15;
/// SIGKILL, likewise.
pub(super) const KILL: i32 = 9;
/// How long it may take to end: what it holds leaves within 2 s, and its journal is written out.
const END: Duration = Duration::from_secs(10);
/// How long what a dead process said may take to be read.
const READ: Duration = Duration::from_secs(2);
/// Longest line that is passed on; most that is kept of what is not.
const MOST_WORDS: usize = 1 << 16;
/// Most that is kept of its report.
const MOST_REPORT: u64 = 1 << 24;

/// An emulator that runs.
pub(crate) struct Spawned {
    child: Child,
    /// What it says on stdout behind its head, once it has ended.
    report: Receiver<String>,
    /// What it says on stderr, alarms left out, once it has ended.
    words: Receiver<String>,
    /// What it said when it began: links, laws, control socket.
    pub(crate) head: String,
}

/// How an emulator ended.
pub(crate) struct Ended {
    /// What it said at its end.
    pub(crate) report: String,
    /// What went wrong, if anything did, and the exit code for it.
    pub(crate) failure: Option<(String, i32)>,
}

/// This program as it runs, to be started again: the path leads to it even if its file was replaced since.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Starts `weir impair` by `command`, a command prepared for [`OWN_PROGRAM`] in the middle, and waits until it works.
/// Its alarms are passed on to stderr.
///
/// # Errors
/// What it said when it could not.
pub(crate) fn start(
    command: Command,
    impairment: &Impairment,
    more: &[std::ffi::OsString],
) -> Result<Spawned, CliError> {
    start_telling(command, impairment, more, note, &OnceLock::new())
}

/// The same; `born` has its process as soon as there is one, for callers that may not wait until it is ready.
pub(super) fn start_known(
    command: Command,
    impairment: &Impairment,
    more: &[std::ffi::OsString],
    born: &OnceLock<Process>,
) -> Result<Spawned, CliError> {
    start_telling(command, impairment, more, note, born)
}

/// Ends an emulator that is no longer waited for, and removes its control socket, which it can't do any more.
pub(super) fn abandon(emulator: &Process) {
    let _ = emulator.signal(KILL);
    // Else it could still make what is taken away.
    let _ = emulator.wait(READ);
    if let Ok(directory) = weir_lab::runtime_directory() {
        let name = format!("{}{}{}", control::PREFIX, emulator.pid(), control::SUFFIX);
        let _ = std::fs::remove_file(directory.join(name));
    }
}

fn start_telling(
    mut command: Command,
    impairment: &Impairment,
    more: &[std::ffi::OsString],
    alarm: fn(&str),
    born: &OnceLock<Process>,
) -> Result<Spawned, CliError> {
    let internal = |what: &str, e: &dyn std::fmt::Display| {
        CliError::Internal(format!("{what} the emulator: {e}"))
    };
    command
        .arg0("weir")
        .arg("impair")
        .args(MIDDLE)
        .args(["--config", "-", "--disposable"])
        .args(more);
    // Not in the terminal's process group: its parent decides when it ends.
    ChildSetup::new().new_session().apply(&mut command).map_err(|e| internal("start", &e))?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("NO_COLOR", "1");
    let mut child = command.spawn().map_err(|e| internal("start", &e))?;
    // Not waited for yet, so that its number is its own.
    let process = process_start_time(child.id()).map(|at| Process::open(child.id(), at));
    if let Some(Ok(Some(process))) = process {
        let _ = born.set(process);
    }
    let config = serde_json::to_vec(impairment).map_err(|e| internal("configure", &e))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that died of something else tells it on stderr.
        let _ = stdin.write_all(&config);
    }
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(internal("read from", &"no pipe"));
    };
    let words =
        on_thread(move || passed_on(stderr, alarm)).map_err(|e| internal("read from", &e))?;
    let mut stdout = BufReader::new(stdout);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        let read = (&mut stdout).take(1 << 20).read_line(&mut line);
        if read.is_err() || line.is_empty() {
            let status = ended(&mut child, END).map_err(|e| internal("wait for", &e))?;
            let reason = reason(&words);
            return Err(match status.code() {
                Some(2) => CliError::Usage(reason),
                Some(3 | 4) => CliError::Unavailable(reason),
                _ => internal("start", &format!("{status}: {reason}")),
            });
        }
        head += &line;
        if line.starts_with("control socket") || line.starts_with("no control socket") {
            break;
        }
    }
    let rest = move || {
        let mut text = String::new();
        let _ = stdout.take(MOST_REPORT).read_to_string(&mut text);
        text
    };
    let report = on_thread(rest).map_err(|e| internal("read from", &e))?;
    Ok(Spawned { child, report, words, head })
}

/// Reads on a thread, so that the emulator never waits for its reader; the text comes when it has ended.
fn on_thread(read: impl FnOnce() -> String + Send + 'static) -> std::io::Result<Receiver<String>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().name("weir-reader".into()).spawn(move || {
        // Of no interest when the receiver is gone.
        let _ = sender.send(read());
    })?;
    Ok(receiver)
}

/// Passes alarms on; returns the rest.
fn passed_on(stderr: impl Read, alarm: fn(&str)) -> String {
    let mut stderr = BufReader::new(stderr);
    let mut kept = String::new();
    loop {
        let mut line = Vec::new();
        match (&mut stderr).take(MOST_WORDS as u64).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 => {}
            _ => return kept,
        }
        let line = String::from_utf8_lossy(&line);
        if line.starts_with("alarm: ") {
            alarm(line.trim_end());
        } else if kept.len() < MOST_WORDS {
            kept += &line;
        }
    }
}

/// What a dead emulator said of its end.
fn reason(words: &Receiver<String>) -> String {
    let words = words.recv_timeout(READ).unwrap_or_default();
    words.trim().trim_start_matches("error: ").to_owned()
}

/// Waits until a child has ended; one that has not within `patience` is killed.
fn ended(child: &mut Child, patience: Duration) -> std::io::Result<ExitStatus> {
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= until {
            child.kill()?;
            return child.wait();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a child that was not waited for yet: the number is its own. Whether it was sent.
pub(super) fn tell(child: &Child, signal: i32) -> bool {
    let pid = child.id();
    let process = process_start_time(pid).and_then(|at| Process::open(pid, at).ok().flatten());
    process.is_some_and(|process| process.signal(signal).is_ok())
}

impl Spawned {
    /// Whether it has ended without having been asked to.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it as its user would; one that does not end is killed.
    pub(crate) fn finish(self) -> Ended {
        self.finish_within(END)
    }

    fn finish_within(mut self, patience: Duration) -> Ended {
        let early = self.has_ended();
        if !early && !tell(&self.child, TERMINATE) {
            let _ = self.child.kill();
        }
        let status = ended(&mut self.child, patience);
        let report = self.report.recv_timeout(READ).unwrap_or_default();
        let failure = match &status {
            Err(e) => Some((format!("the emulator cannot be waited for: {e}"), 70)),
            // Terminated, as it was asked.
            Ok(status) if !early && status.code() == Some(128 + TERMINATE) => None,
            Ok(status) => {
                let reason = reason(&self.words);
                let reason = if reason.is_empty() { status.to_string() } else { reason };
                let when = if early { "ended early" } else { "did not end as asked" };
                // 3: its path was lost, or another process ended it; 4: the system refused it something.
                let code = match status.code() {
                    Some(code @ (3 | 4)) => code,
                    Some(0 | 130 | 143) => 3,
                    _ => 70,
                };
                Some((format!("the emulator {when}: {reason}"), code))
            }
        };
        Ended { report, failure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell in the emulator's place; `script` says when it works.
    fn in_its_place(script: &str) -> Spawned {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("cat >/dev/null; {script}")]);
        start_telling(command, &Impairment::default(), &[], |_| {}, &OnceLock::new()).unwrap()
    }

    /// A test that would hang fails instead.
    fn bounded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(work()));
        receiver.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn more_alarms_than_a_pipe_holds_do_not_keep_it_from_ending() {
        let ended = bounded(|| {
            // Twice what a pipe holds, all of it before the end can be asked for.
            let script = "trap 'over=1' TERM; echo no control socket; i=0
                while [ $i -lt 2000 ]; do i=$((i+1))
                    echo \"alarm: number $i, and words that make the line sixty bytes long\" >&2
                done
                while [ -z \"$over\" ]; do sleep 0.02; done; echo report; exit 143";
            in_its_place(script).finish()
        });
        assert_eq!((ended.report.as_str(), ended.failure), ("report\n", None));
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        let ended = bounded(|| {
            let spawned = in_its_place("trap '' TERM; echo no control socket; exec sleep 600");
            spawned.finish_within(Duration::from_millis(50))
        });
        let (reason, code) = ended.failure.unwrap();
        assert!(reason.contains("did not end as asked") && code == 70, "{reason} {code}");
    }

    #[test]
    fn an_early_death_is_told_with_its_reason() {
        for (end, wanted) in [("exit 3", 3), ("exit 0", 3), ("exit 101", 70), ("kill -9 $$", 70)] {
            let script = format!("echo no control socket; echo 'error: gone' >&2; {end}");
            let mut spawned = in_its_place(&script);
            let ended = bounded(move || {
                while !spawned.has_ended() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                spawned.finish()
            });
            let (reason, code) = ended.failure.unwrap();
            assert_eq!(reason, "the emulator ended early: gone", "{end}");
            assert_eq!(code, wanted, "{end}");
        }
    }

    #[test]
    fn one_that_cannot_begin_says_why() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat >/dev/null; echo 'error: no such thing' >&2; exit 2"]);
        let error = start(command, &Impairment::default(), &[]).err().unwrap();
        assert_eq!((error.chain().as_str(), error.exit_code()), ("no such thing", 2));
    }
}
