//! A command of the user that runs as a child process, and its output.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::child::{ChildGuard, Output, captured};

/// Time for a command to end after SIGTERM.
const END: Duration = Duration::from_secs(10);
/// Maximum length of each stream that is stored, bytes.
pub const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// Time to read the rest of an ended program's output; beyond it, another process holds its pipes.
const PIPES: Duration = Duration::from_secs(1);
/// Interval at which a command is checked.
const LOOK: Duration = Duration::from_millis(5);

/// A running command with its output so far. It is ended when this is dropped.
#[derive(Debug)]
pub struct RunningCommand {
    guard: ChildGuard,
    stdout: Output,
    stderr: Output,
}

/// What a command printed: the first 64 KiB of each stream.
#[derive(Debug)]
pub struct Printed {
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub stderr: String,
    /// One of them was longer.
    pub is_truncated: bool,
}

impl Printed {
    fn of(stdout: &Output, stderr: &Output) -> Printed {
        let is_truncated = stdout.is_truncated() || stderr.is_truncated();
        Printed { output: stdout.text(), stderr: stderr.text(), is_truncated }
    }

    /// The lines of standard output, then those of standard error.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.output.lines().chain(self.stderr.lines())
    }

    /// Standard output, then standard error.
    #[must_use]
    pub fn together(&self) -> String {
        self.output.clone() + &self.stderr
    }
}

impl RunningCommand {
    /// Starts a command that leads a session of its own; without standard input.
    ///
    /// # Errors
    /// Those of starting a process.
    pub fn start(command: &mut Command) -> std::io::Result<RunningCommand> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guard = ChildGuard::group(command.spawn()?, END);
        let stdout = captured(guard.child.stdout.take(), MAX_OUTPUT_BYTES);
        let stderr = captured(guard.child.stderr.take(), MAX_OUTPUT_BYTES);
        Ok(RunningCommand { guard, stdout, stderr })
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.guard.has_ended()
    }

    /// What it has printed so far.
    #[must_use]
    pub fn printed(&self) -> Printed {
        Printed::of(&self.stdout, &self.stderr)
    }

    /// Waits for its end until `is_stopped`; false if it still runs then.
    pub fn wait(&self, is_stopped: &dyn Fn() -> bool) -> bool {
        while !self.has_ended() {
            if is_stopped() {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Ends it, and the rest of its process group; returns its exit code, if it had one, and what it printed.
    #[must_use]
    pub fn end(self) -> (Option<i32>, Printed) {
        let RunningCommand { mut guard, stdout, stderr } = self;
        let rest = || stdout.ends_within(PIPES) && stderr.ends_within(PIPES);
        if guard.has_ended() && !rest() {
            // Processes that it left may print something when they are stopped.
            guard.terminate();
            rest();
        }
        let code = guard.end();
        rest();
        (code, Printed::of(&stdout, &stderr))
    }
}
