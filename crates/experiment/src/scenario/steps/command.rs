//! Commands of a scenario: in the foreground, and in the background until a step stops them or the scenario ends.

use std::time::{Duration, Instant};

use weir_jobs::{Printed, RunningCommand};
use weir_model::experiment::{
    CommandFigure, CommandRule, CommandStep, Judged, Outcome, Readiness, StepOutcome,
};
use weir_net::thread::lock;

use super::super::environment::Environment;
use super::super::{ScenarioError, ScenarioEvent};
use super::{Backend, Execution, Inner, begun, interrupted};

/// Time for a command in the background to be ready, if its step has no timeout.
const READY: Duration = Duration::from_secs(20);
/// Interval at which it is checked whether a command is ready.
const LOOK: Duration = Duration::from_millis(20);

/// A command in the background.
pub(super) struct BackgroundCommand {
    name: String,
    command: CommandStep,
    rules: Vec<CommandRule>,
    started: Instant,
    running: RunningCommand,
}

/// How a command ended.
struct Ended {
    /// Absent if a signal ended it.
    code: Option<i32>,
    /// Whether it ended by itself.
    by_itself: bool,
    seconds: f64,
    printed: Printed,
}

impl BackgroundCommand {
    fn end(self, out: &mut StepOutcome) {
        let by_itself = self.running.has_ended();
        let seconds = self.started.elapsed().as_secs_f64();
        let (code, printed) = self.running.end();
        let ended = Ended { code, by_itself, seconds, printed };
        conclude(&self.command, &self.rules, ended, out);
    }
}

impl Inner<'_, '_, '_> {
    pub(super) fn command(
        &self,
        command: &CommandStep,
        expect: &[String],
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        let execution = self.execution;
        let rules: Vec<CommandRule> = expect.iter().filter_map(|text| text.parse().ok()).collect();
        let Backend::Real(environment) = &execution.backend else {
            out.expectations.extend(rules.iter().map(not_judged));
            self.not_simulated(out, "a command")?;
            if !rules.is_empty() {
                out.outcome = out.outcome.and(Outcome::Inconclusive);
            }
            return Ok(());
        };
        if command.background {
            return self.begin_command(environment, command, rules, out);
        }
        let started = Instant::now();
        let (code, printed) =
            environment.run(&command.run, command.host.as_deref(), self.until, &|| {
                execution.is_stopped()
            })?;
        let seconds = started.elapsed().as_secs_f64();
        if code.is_none() {
            keep(printed, out);
            return Err(ScenarioError::program(&command.run[0], "it was ended"));
        }
        conclude(command, &rules, Ended { code, by_itself: true, seconds, printed }, out);
        Ok(())
    }

    fn begin_command(
        &self,
        environment: &Environment<'_>,
        command: &CommandStep,
        rules: Vec<CommandRule>,
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        let execution = self.execution;
        if lock(&execution.commands).iter().any(|other| other.name == self.name) {
            return Err(ScenarioError::program(self.name, "it runs already"));
        }
        let started = Instant::now();
        let running = environment.begin(&command.run, command.host.as_deref())?;
        let until = self.until.unwrap_or(started + READY);
        let unready = loop {
            if is_ready(environment, command, &running)? {
                break None;
            }
            if running.has_ended() {
                break Some("it ended before it was ready");
            }
            if execution.is_stopped() {
                interrupted(out, "interrupted".into());
                return Ok(());
            }
            if Instant::now() >= until {
                break Some("it was not ready in time");
            }
            std::thread::sleep(LOOK);
        };
        if let Some(reason) = unready {
            let by_itself = running.has_ended();
            let (code, printed) = running.end();
            keep(printed, out);
            let code = code.filter(|_| by_itself).map(|code| format!(" (exit code {code})"));
            let reason = format!("{reason}{}", code.unwrap_or_default());
            return Err(ScenarioError::program(&command.run[0], &reason));
        }
        let (name, command) = (self.name.to_owned(), command.clone());
        let command = BackgroundCommand { name, command, rules, started, running };
        lock(&execution.commands).push(command);
        Ok(())
    }

    /// Stops a command in the background, and judges it.
    pub(super) fn stop_command(
        &self,
        name: &str,
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        if self.execution.options.simulate {
            return self.not_simulated(out, "a command");
        }
        let mut all = lock(&self.execution.commands);
        let at = all.iter().position(|command| command.name == name);
        let command = at.map(|at| all.remove(at));
        drop(all);
        let missing = || ScenarioError::program(name, "it was not started, or has been stopped");
        command.ok_or_else(missing)?.end(out);
        Ok(())
    }
}

impl Execution<'_> {
    /// Stops the commands that no step stopped, the newest first; returns their outcomes.
    pub(super) fn unstopped(&self) -> Vec<StepOutcome> {
        let rest = std::mem::take(&mut *lock(&self.commands));
        let stop = |command: BackgroundCommand| {
            let mut out = begun(&format!("{} (at the end)", command.name), "command");
            command.end(&mut out);
            (self.options.tell)(&ScenarioEvent::Ended { step: &out, depth: 0 });
            out
        };
        rest.into_iter().rev().map(stop).collect()
    }
}

fn is_ready(
    environment: &Environment<'_>,
    command: &CommandStep,
    running: &RunningCommand,
) -> Result<bool, ScenarioError> {
    match &command.ready {
        Some(Readiness { port: Some(port), .. }) => {
            environment.listens(command.host.as_deref(), *port, Instant::now() + LOOK)
        }
        Some(Readiness { line: Some(wanted), .. }) => {
            Ok(running.printed().lines().any(|line| line.contains(wanted.as_str())))
        }
        _ => Ok(true),
    }
}

/// Puts what a command printed into its outcome.
fn keep(printed: Printed, out: &mut StepOutcome) {
    out.output = Some(printed.output);
    out.stderr = Some(printed.stderr).filter(|text| !text.is_empty());
}

/// The outcome of a command that has ended.
fn conclude(command: &CommandStep, rules: &[CommandRule], ended: Ended, out: &mut StepOutcome) {
    let judges_code = rules.iter().any(|rule| rule.figure == CommandFigure::ExitCode);
    // A command that was stopped may return anything.
    let wanted = command.exit_code.or(ended.by_itself.then_some(0)).filter(|_| !judges_code);
    if let Some(wanted) = wanted.filter(|wanted| ended.code != Some(*wanted)) {
        out.outcome = out.outcome.and(Outcome::Failed);
        let code = ended.code.map_or("a signal".into(), |code| format!("exit code {code}"));
        out.reason = Some(format!("{code}, expected {wanted}"));
    }
    for rule in rules {
        let judged = judged(rule, &ended);
        out.outcome = out.outcome.and(judged.outcome);
        out.expectations.push(judged);
    }
    keep(ended.printed, out);
}

fn judged(rule: &CommandRule, ended: &Ended) -> Judged {
    let (measured, reason) = match &rule.figure {
        CommandFigure::Duration => (Some(ended.seconds), format!("{:.3} s", ended.seconds)),
        CommandFigure::ExitCode => match ended.code {
            Some(code) => (Some(code.into()), format!("exit code {code}")),
            None => (None, "a signal ended it".into()),
        },
        CommandFigure::Lines(test) => {
            let lines = ended.printed.lines().filter(|line| test.is_met(line)).count();
            let reason = match lines {
                0 => "no line of the output".into(),
                lines => format!("{} of the output", weir_model::counted(lines, "line")),
            };
            (Some(lines as f64), reason)
        }
    };
    let holds = measured.is_some_and(|value| rule.comparison.holds(value, rule.bound));
    let outcome = if holds { Outcome::Passed } else { Outcome::Failed };
    Judged { outcome, measured, count: 1, reason, code: None, ..not_judged(rule) }
}

/// An expectation of a command that was not run.
fn not_judged(rule: &CommandRule) -> Judged {
    Judged {
        text: rule.text.clone(),
        outcome: Outcome::Inconclusive,
        at: std::collections::BTreeMap::new(),
        measured: None,
        bound: rule.bound,
        interval: None,
        count: 0,
        reason: "not judged: commands can't be simulated".into(),
        code: Some(StepOutcome::NOT_SIMULATED.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concluded(command: &CommandStep, expect: &[&str], ended: Ended) -> StepOutcome {
        let rules: Vec<CommandRule> = expect.iter().map(|text| text.parse().unwrap()).collect();
        let mut out = begun("c", "command");
        conclude(command, &rules, ended, &mut out);
        out
    }

    #[test]
    fn commands_are_judged_by_exit_code_duration_and_output() {
        let ended = |code: Option<i32>, by_itself| Ended {
            code,
            by_itself,
            seconds: 1.5,
            printed: Printed {
                output: "ok 1\nok 2".into(),
                stderr: "warning\n".into(),
                is_truncated: false,
            },
        };
        let any = CommandStep::default();
        let coded = CommandStep { exit_code: Some(143), ..CommandStep::default() };
        for (command, expect, ended, outcome) in [
            (&any, &[][..], ended(Some(0), true), Outcome::Done),
            (&any, &[], ended(Some(1), true), Outcome::Failed),
            (&any, &[], ended(None, true), Outcome::Failed),
            // One that was stopped.
            (&any, &[], ended(None, false), Outcome::Done),
            (&coded, &[], ended(Some(0), false), Outcome::Failed),
            (&any, &["exit_code == 1"], ended(Some(1), true), Outcome::Passed),
            (&any, &["exit_code == 1"], ended(None, true), Outcome::Failed),
            (
                &any,
                &["duration < 2 s", "output contains ok 2"],
                ended(Some(0), true),
                Outcome::Passed,
            ),
            (&any, &["duration < 1 s"], ended(Some(0), true), Outcome::Failed),
            (&any, &["output lacks warning"], ended(Some(0), true), Outcome::Failed),
            (&any, &["output lacks error"], ended(Some(0), true), Outcome::Passed),
            (&any, &["output contains error"], ended(Some(0), true), Outcome::Failed),
            (&any, &["output matches ^ok [2-9]$"], ended(Some(0), true), Outcome::Passed),
            // The streams have lines of their own.
            (&any, &["output matches '^warn'"], ended(Some(0), true), Outcome::Passed),
            (&any, &["output matches ^k"], ended(Some(0), true), Outcome::Failed),
            (&any, &["output does not match ok.*g"], ended(Some(0), true), Outcome::Passed),
            (&any, &["output does not match ok"], ended(Some(0), true), Outcome::Failed),
            // A met expectation does not hide the exit code.
            (&any, &["output contains ok"], ended(Some(1), true), Outcome::Failed),
        ] {
            let out = concluded(command, expect, ended);
            assert_eq!(out.outcome, outcome, "{expect:?}: {out:?}");
            assert_eq!(out.expectations.len(), expect.len());
        }
        let out = concluded(&any, &["output contains ok"], ended(Some(0), true));
        assert_eq!((out.expectations[0].measured, out.expectations[0].bound), (Some(2.0), 1.0));
        assert_eq!(out.printed().len(), 2);
        assert_eq!(out.stderr.as_deref(), Some("warning\n"));
    }
}
