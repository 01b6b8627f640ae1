//! `--before` and `--after`: commands of the user around a test, whose output is stored with its record.

use std::process::Command;
use std::time::Instant;

use weir_jobs::RunningCommand;
use weir_model::record::{CommandTime, SurroundingCommand};
use weir_model::warning::{Severity, Warning};
use weir_net::process::lead_session;

use crate::engine::{Stop, TrafficError};
use crate::error::CliError;

/// The commands around a test.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl Hooks {
    /// Runs the command of `--before`, if there is one. A stop ends it.
    ///
    /// # Errors
    /// [`CliError::Flag`] if it fails; [`TrafficError::Stopped`].
    pub(super) fn before(&self, stop: &Stop) -> Result<Option<SurroundingCommand>, CliError> {
        let Some(command) = &self.before else { return Ok(None) };
        let ran = run(CommandTime::Before, command, &|| stop.reason().is_some());
        let ran = ran.map_err(|source| CliError::Command { program: command.clone(), source })?;
        if let Some(reason) = stop.reason() {
            return Err(TrafficError::Stopped(reason.text(), reason.exit_code()).into());
        }
        if ran.exit_code == Some(0) {
            return Ok(Some(ran));
        }
        let last = ran.output.lines().last().unwrap_or_default();
        let given = format!("{command:?} failed: {}: {last}", exit(&ran));
        Err(CliError::flag("--before", given, "a command that exits with 0"))
    }

    /// Runs the command of `--after`, if there is one. A further stop ends it.
    pub(super) fn after(&self, stop: &Stop) -> Option<SurroundingCommand> {
        let command = self.after.as_ref()?;
        let (requests, started) = (stop.requests(), Instant::now());
        let ran = run(CommandTime::After, command, &|| stop.requests() > requests);
        // The test has been made: its record says why the command could not run.
        Some(ran.unwrap_or_else(|error| SurroundingCommand {
            when: CommandTime::After,
            command: command.clone(),
            exit_code: None,
            seconds: started.elapsed().as_secs_f64(),
            output: error.to_string(),
            is_truncated: false,
        }))
    }
}

/// The warning of a failed command.
pub(super) fn failed(ran: &SurroundingCommand) -> Option<Warning> {
    (ran.exit_code != Some(0)).then(|| {
        let text = format!("the command of --after failed: {}", exit(ran));
        Warning::new("after-command-failed", Severity::Warning, text)
    })
}

fn exit(ran: &SurroundingCommand) -> String {
    ran.exit_code.map_or("it was ended".into(), |code| format!("exit code {code}"))
}

/// Runs a command of the shell until it ends or `is_stopped`.
fn run(
    when: CommandTime,
    text: &str,
    is_stopped: &dyn Fn() -> bool,
) -> std::io::Result<SurroundingCommand> {
    let started = Instant::now();
    // Both streams are one pipe, so that lines keep their order.
    let mut command = if cfg!(windows) {
        let mut command = Command::new("cmd");
        command.args(["/C", &format!("{text} 2>&1")]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 2>&1\n{text}")]);
        command
    };
    lead_session(&mut command).map_err(std::io::Error::other)?;
    let running = RunningCommand::start(&mut command)?;
    let is_done = running.wait(is_stopped);
    let (code, printed) = running.end();
    Ok(SurroundingCommand {
        when,
        command: text.into(),
        exit_code: code.filter(|_| is_done),
        seconds: started.elapsed().as_secs_f64(),
        is_truncated: printed.is_truncated,
        output: printed.output,
    })
}
