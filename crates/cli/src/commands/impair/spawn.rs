//! An emulator in a process of its own, in the middle of a lab.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use weir_emulator::Report;
use weir_jobs::{EmulatorEnd, EmulatorJob, Event, Notice, Process as JobProcess, Ready};
use weir_model::Refusal;
use weir_model::impairment::Impairment;
use weir_net::namespace::{ChildSetup, Process, process_start_time};

use crate::error::CliError;
use crate::job::report;

/// SIGTERM, as every Unix numbers it.
pub(super) const TERMINATE: i32 = 15;
/// SIGKILL, likewise.
pub(super) const KILL: i32 = 9;
/// Time for the emulator to end: queued packets leave within 2 s, and the packet trace is flushed.
const END: Duration = Duration::from_secs(10);

/// The job of an emulator in a lab's middle; its interfaces are removed with the lab.
pub(crate) fn in_the_middle(impairment: &Impairment) -> EmulatorJob {
    let interfaces = ["to-a", "to-b"].map(ToOwned::to_owned);
    EmulatorJob { disposable: true, ..EmulatorJob::new(interfaces, impairment.clone()) }
}

/// A running emulator.
pub(crate) struct Spawned {
    process: JobProcess,
    /// What it printed when it was ready: links, laws, control socket.
    pub(crate) head: String,
    /// Its control socket.
    pub(crate) control_socket: Option<PathBuf>,
    /// Its report and error, from its last events.
    last: Last,
}

/// What an emulator reported at its end.
#[derive(Default)]
struct Last {
    report: Option<Report>,
    error: Option<Refusal>,
}

/// How an emulator ended.
pub(crate) struct Ended {
    /// Its report.
    pub(crate) report: Option<Report>,
    /// The error, if there was one, and its exit code.
    pub(crate) failure: Option<(String, i32)>,
}

/// Starts an emulator by `command`, which runs this program in the middle of a lab, and waits until it is
/// ready.
///
/// # Errors
/// Why it could not start.
pub(crate) fn start(mut command: Command, job: EmulatorJob) -> Result<Spawned, CliError> {
    let internal =
        |e: &dyn std::fmt::Display| CliError::Internal(format!("start the emulator: {e}"));
    // Outside the terminal's process group: the parent decides when it ends.
    ChildSetup::new().new_session().apply(&mut command).map_err(|e| internal(&e))?;
    let job = weir_jobs::Job::Emulator(Box::new(job));
    let mut process = JobProcess::start(command, &job, END).map_err(|e| internal(&e))?;
    let Ready { control_socket, message } = process.wait_ready().map_err(CliError::Refused)?;
    Ok(Spawned { process, head: message, control_socket, last: Last::default() })
}

/// Sends a signal to a child; returns whether it was sent. The child must not have been waited for, else its process id may
/// be reused.
pub(super) fn send_signal(child: &Child, signal: i32) -> bool {
    let pid = child.id();
    let process = process_start_time(pid).and_then(|at| Process::open(pid, at).ok().flatten());
    process.is_some_and(|process| process.signal(signal).is_ok())
}

impl Last {
    /// Stores an event, or returns the warning that it is.
    fn take(&mut self, event: Event) -> Option<Notice> {
        match event {
            Event::Warning(notice) => return Some(notice),
            Event::Result(report) => self.report = weir_model::document::read(&report).ok(),
            Event::Error(error) => self.error = Some(error),
            _ => {}
        }
        None
    }
}

/// Prints a warning of an emulator.
pub(super) fn print_warning(warning: Notice) {
    let text = warning.message.clone();
    report(&Event::Warning(warning), &text);
}

impl Spawned {
    /// Its warnings since the last call.
    pub(super) fn warnings(&mut self) -> Vec<Notice> {
        let mut warnings = vec![];
        while let Ok(event) = self.process.next_within(Duration::ZERO) {
            warnings.extend(self.last.take(event));
        }
        warnings
    }

    /// Whether the emulator has ended by itself.
    pub(super) fn is_over(&self) -> bool {
        self.process.has_ended()
    }

    /// Whether the emulator has ended by itself. Prints its pending alarms.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.warnings().into_iter().for_each(print_warning);
        self.is_over()
    }

    /// Stops the emulator; kills it if it does not end within [`END`]. Its last warnings are discarded.
    pub(super) fn end(self) -> EmulatorEnd {
        let Spawned { process, mut last, .. } = self;
        let (events, code) = process.finish();
        events.into_iter().for_each(|event| drop(last.take(event)));
        let error = last.error.or_else(|| match code {
            Some(0 | 130 | 143) => None,
            Some(code) => {
                Some(Refusal::new("ended", format!("it ended with exit code {code}"), code))
            }
            None => Some(Refusal::new("ended", "it was killed", 70)),
        });
        EmulatorEnd { report: last.report.and_then(|r| serde_json::to_value(r).ok()), error }
    }

    /// Leaves a detached emulator running; returns the lines printed at its start.
    pub(crate) fn leave(self) -> String {
        self.process.leave();
        self.head
    }

    /// Stops the emulator; kills it if it does not end within [`END`].
    pub(crate) fn finish(mut self) -> Ended {
        let early = self.has_ended();
        let (events, code) = self.process.finish();
        events.into_iter().filter_map(|event| self.last.take(event)).for_each(print_warning);
        let Last { report, error } = self.last;
        let failure = match code {
            // Ended as requested.
            Some(0 | 130) if !early => None,
            code => {
                let when = if early { "ended early" } else { "did not stop when asked" };
                let reason = error.map_or_else(
                    || code.map_or("it was killed".into(), |code| format!("exit code {code}")),
                    |error| error.message,
                );
                // 3: the path was lost, or another process ended the emulator; 4: the system refused an operation.
                let code = match code {
                    Some(code @ (3 | 4)) => code,
                    Some(0 | 130) => 3,
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

    /// Starts a shell script in place of the emulator.
    fn shell_emulator(script: &str) -> Result<Spawned, CliError> {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\nread job\n{script}\n")).unwrap();
        let mut command = Command::new("sh");
        command.arg(&program);
        start(command, in_the_middle(&Impairment::default()))
    }

    const READY: &str = r#"echo '{"event":"ready","data":{"message":"up"}}'"#;

    #[test]
    fn more_alarms_than_a_pipe_holds_do_not_block_the_end() {
        // Twice the capacity of a pipe, all written before the stop.
        let script = format!(
            r#"{READY}; i=0
            while [ $i -lt 2000 ]; do i=$((i+1))
                echo '{{"event":"progress","data":{{"message":"words that make the line sixty bytes long"}}}}'
            done
            read stop; exit 130"#
        );
        let ended = shell_emulator(&script).unwrap().finish();
        assert_eq!(ended.failure, None);
    }

    #[test]
    fn an_early_end_is_reported_with_its_reason() {
        let error = r#"echo '{"event":"error","data":{"message":"gone"}}'"#;
        for (end, wanted) in [("exit 3", 3), ("exit 0", 3), ("exit 101", 70), ("kill -9 $$", 70)] {
            let mut spawned = shell_emulator(&format!("{READY}; {error}; {end}")).unwrap();
            while !spawned.has_ended() {
                std::thread::sleep(Duration::from_millis(5));
            }
            let (reason, code) = spawned.finish().failure.unwrap();
            assert!(reason.contains("gone"), "{end}: {reason}");
            assert_eq!(code, wanted, "{end}");
        }
    }

    #[test]
    fn a_refusal_keeps_its_exit_code() {
        let refused = r#"echo '{"event":"error","data":{"code":"usage","message":"no","exit_code":2}}'; exit 2"#;
        let error = shell_emulator(refused).err().unwrap();
        assert_eq!((error.refusal().code.as_str(), error.exit_code()), ("usage", 2));
    }
}
