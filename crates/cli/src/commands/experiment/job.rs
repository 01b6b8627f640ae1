//! Runs an experiment: its checkpoint, its stored result, its exit code.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::SystemTime;

use weir_experiment::scenario::checkpoint::{
    CHECKPOINT_SCHEMA, Checkpoint, CheckpointHeader, Session,
};
use weir_experiment::scenario::{
    self, Ended, Files, Options, ParseTestFlags, ScenarioError, ScenarioEvent, check_unless, text,
};
use weir_jobs::{Event, RemoteHosts};
use weir_model::experiment::{Action, Experiment, HostSpec, Outcome, Scenario, Step, Variables};
use weir_model::record::Status;
use weir_model::units::Seed;
use weir_runs::{DataDirectory, Experiments};

use super::progress::{cleaned, estimate_text, head, print_event};
use super::result::{check_inputs, check_outputs, finish, has_stdout};
use super::{ResultArgs, flags, plan_from_flags, refused};
use crate::commands::runs::RunsError;
use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::job::{notice, report};
use crate::output::print;
use crate::stamp::{COMMIT, Identity, VERSION};
use crate::time::since_epoch;
use crate::{random, signals, terminal};

/// An experiment to run.
pub(crate) struct Job {
    pub(crate) scenario: Scenario,
    /// The scenario's file, if one was named.
    pub(crate) file: Option<PathBuf>,
    /// The file of `--plan`, if the scenario was made from flags.
    pub(crate) plan_file: Option<PathBuf>,
    /// The scenario's text, for the checkpoint.
    pub(crate) text: String,
    pub(crate) directory: PathBuf,
    pub(crate) quick: bool,
    pub(crate) simulate: bool,
    pub(crate) set: Variables,
    pub(crate) hosts: BTreeMap<String, HostSpec>,
    pub(crate) seed: Option<Seed>,
    /// The checkpoint of an earlier session, if the experiment is resumed.
    pub(crate) earlier: Option<(Checkpoint, CheckpointHeader)>,
    /// Warnings about the result, printed before anything is measured.
    pub(crate) warnings: Vec<String>,
    /// The axes named by flags, if the scenario was made from flags: its errors then name flags.
    pub(crate) axes: Option<Vec<String>>,
}

impl Job {
    /// The job of a scenario that was made from flags. The scenario is serialized and parsed again, so that it is checked like
    /// one from a file and can be resumed by `weir run --resume`.
    pub(crate) fn of_flags(scenario: &Scenario) -> Result<Job, CliError> {
        let text =
            serde_json::to_string(scenario).map_err(|e| CliError::Internal(e.to_string()))?;
        let set = Variables::new();
        let axes = axes_of(scenario);
        let scenario = Scenario::parse(&text, false, &set, &BTreeMap::new())
            .map_err(|e| CliError::Model(flags::named(e, &axes)))?;
        let directory = std::env::current_dir().map_err(CliError::io("find", "this directory"))?;
        Ok(Job {
            seed: scenario.seed,
            scenario,
            file: None,
            plan_file: None,
            text,
            directory,
            quick: false,
            simulate: false,
            set,
            hosts: BTreeMap::new(),
            earlier: None,
            warnings: vec![],
            axes: Some(axes),
        })
    }

    /// The files that it reads: its sources, files that its commands name, and those from which it is resumed.
    fn inputs(&self, files: &Files) -> Result<Vec<(&'static str, PathBuf)>, CliError> {
        let mut named = vec![];
        steps_files(&self.scenario.steps, &mut named);
        let named = named.into_iter().map(|name| self.directory.join(name));
        let named = named.filter(|path| path.is_file()).map(|path| ("a step's command", path));
        let resumed_from = match &self.earlier {
            Some((_, head)) => {
                let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
                let stored = Experiments::of(&data);
                vec![
                    ("--resume", stored.checkpoint(&head.id)),
                    ("--resume", stored.result(&head.id)),
                ]
            }
            None => vec![],
        };
        let keys = self.hosts.values().chain(self.scenario.hosts.values());
        let keys = keys.filter_map(|host| host.key_file.as_deref()).map(|k| self.directory.join(k));
        let keys = keys.map(|path| ("a host's key", path));
        let plan = self.plan_file.iter().map(|plan| ("--plan", plan.clone()));
        let read = files.paths().into_iter().map(|path| ("the scenario's files", path));
        let file = self.file.iter().map(|file| ("FILE", file.clone()));
        Ok(file.chain(plan).chain(read).chain(keys).chain(named).chain(resumed_from).collect())
    }

    /// An error of the scenario, by the flags that made it.
    fn refused(&self, error: ScenarioError) -> CliError {
        refused(match (&self.axes, error) {
            (Some(axes), ScenarioError::Model(error)) => {
                ScenarioError::Model(flags::named(error, axes))
            }
            (Some(axes), ScenarioError::Refused { field, given, reason }) => {
                ScenarioError::Refused { field: flags::flag_of(&field, axes), given, reason }
            }
            (Some(axes), ScenarioError::Flags { field, refusal }) => {
                ScenarioError::Flags { field: flags::flag_of(&field, axes), refusal }
            }
            (_, error) => error,
        })
    }
}

/// Collects from all steps the arguments of commands, which may be files, and the files that steps collect.
fn steps_files<'s>(steps: &'s [Step], out: &mut Vec<&'s str>) {
    for step in steps {
        match step.action() {
            Some(Action::Command(command)) => out.extend(command.run.iter().map(String::as_str)),
            Some(Action::Collect(collect)) => out.extend(collect.file.as_deref()),
            Some(Action::Parallel(steps)) => steps_files(steps, out),
            Some(Action::Repeat(repeat)) => steps_files(&repeat.steps, out),
            _ => {}
        }
    }
}

/// Names of the axes of a scenario that was made from flags: those of its only step.
fn axes_of(scenario: &Scenario) -> Vec<String> {
    let over = scenario.steps.iter().flat_map(|step| match step.action() {
        Some(Action::Sweep(sweep)) => sweep.over.clone(),
        Some(Action::Compare(compare)) => compare.over.clone(),
        _ => vec![],
    });
    over.filter_map(|axis| Some(axis.split_once('=')?.0.trim().to_owned())).collect()
}

/// Opens this user's stored experiments for writing.
fn open_stored() -> Result<(DataDirectory, Experiments), CliError> {
    let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
    let experiments = Experiments::prepare(&data).map_err(RunsError::from)?;
    Ok((data, experiments))
}

/// Creates the checkpoint of a new experiment.
fn create(head: &CheckpointHeader) -> Result<(Checkpoint, Experiments), CliError> {
    let (data, experiments) = open_stored()?;
    let path = experiments.checkpoint(&head.id);
    let checkpoint =
        Checkpoint::create(&path, head).map_err(CliError::io("write checkpoint", &path))?;
    if let Some(file) = checkpoint.file() {
        data.give(file, &path).map_err(RunsError::from)?;
    }
    Ok((checkpoint, experiments))
}

/// The session of this program on this host, starting now.
fn session(started_at: &str) -> Session {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Session {
        pid: std::process::id(),
        started_at: started_at.into(),
        version: VERSION.into(),
        commit: COMMIT.map(Into::into),
        host: host.trim().into(),
        boot_id: weir_net::process::boot_id(),
    }
}

/// Refuses to resume if a file has changed: results of the old and the new content must not be mixed.
fn same_files(
    id: &str,
    before: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Result<(), CliError> {
    match now.iter().find(|(name, hash)| before.get(*name) != Some(*hash)) {
        None => Ok(()),
        Some((name, _)) => Err(CliError::flag(
            "--resume",
            format!("{id}, while {name} has changed since the experiment started"),
            "the unchanged file, or a new experiment",
        )),
    }
}

/// Runs it and reports its progress; returns the exit code.
pub(crate) fn execute(job: Job, args: &ResultArgs, command: &[OsString]) -> Result<i32, CliError> {
    execute_at(job, args, command, None)
}

/// Finds a scenario's agents and holds them; `None` if it was stopped before it had them all.
pub(crate) type FindAgents<'a> =
    &'a dyn Fn(&Scenario, &Stop) -> Result<Option<Box<dyn RemoteHosts>>, CliError>;

/// Runs it as [`execute`] does, at the agents that it names.
pub(crate) fn execute_at(
    job: Job,
    args: &ResultArgs,
    command: &[OsString],
    find_agents: Option<FindAgents<'_>>,
) -> Result<i32, CliError> {
    // Before the check, which takes seconds if there are many points.
    let stop = Stop::new();
    signals::listen(&stop)?;
    check_outputs(args)?;
    let is_quiet = has_stdout(args);
    let parse_flags: ParseTestFlags<'_> = &plan_from_flags;
    let files = Files::new(job.directory.clone());
    let is_stopped = || stop.reason().is_some();
    // Before anything is stored.
    let estimate = match check_unless(&is_stopped, &job.scenario, &files, parse_flags) {
        Ok(estimate) => estimate,
        Err(ScenarioError::Stopped) => return Ok(nothing_run(&stop)),
        Err(error) => return Err(job.refused(error)),
    };
    check_inputs(args, &job.inputs(&files)?)?;
    if is_stopped() {
        return Ok(nothing_run(&stop));
    }
    let remote = match find_agents.filter(|_| !job.simulate) {
        _ if job.scenario.agents.is_empty() => None,
        Some(find_agents) => match find_agents(&job.scenario, &stop)? {
            Some(agents) => Some(agents),
            None => return Ok(nothing_run(&stop)),
        },
        None if job.simulate => None,
        None => {
            let accepted = "a scenario without agents, or weir fleet run FILE";
            return Err(CliError::flag("agents", "given", accepted));
        }
    };
    let resume = match remote {
        Some(_) => "weir fleet run -- run --resume",
        None => "weir run --resume",
    };
    let now = since_epoch(SystemTime::now());
    let identity = Identity::new(command, Default::default(), now, random::u64());
    // 32 bits: a seed that people can type, and that JSON numbers represent exactly.
    let drawn = Seed(random::u64() >> 32);
    // A resumed experiment stores its original command, since that is the one that repeats it.
    let (id, started_at, seed, command) = match &job.earlier {
        Some((_, head)) => {
            (head.id.clone(), head.started_at.clone(), head.seed, head.command.clone())
        }
        None => (
            args.id.clone().unwrap_or_else(|| identity.id.clone()),
            identity.started_at.clone(),
            job.seed.or(job.scenario.seed).unwrap_or(drawn),
            identity.command.clone(),
        ),
    };
    let is_resumed = job.earlier.is_some();
    let (checkpoint, experiments) = match job.earlier {
        Some((mut checkpoint, head)) => {
            let now = scenario::digests(&job.scenario, &files).map_err(refused)?;
            same_files(&id, &head.files, &now)?;
            let experiments = open_stored()?.1;
            let path = experiments.checkpoint(&id);
            checkpoint
                .go_on(session(&identity.started_at))
                .map_err(CliError::io("write checkpoint", &path))?;
            (checkpoint, Some(experiments))
        }
        None if args.no_store || job.simulate => (Checkpoint::default(), None),
        None => {
            let head = CheckpointHeader {
                schema: CHECKPOINT_SCHEMA.into(),
                id: id.clone(),
                started_at: started_at.clone(),
                scenario: job.text.clone(),
                quick: job.quick,
                set: job.set.clone(),
                hosts: job.hosts.clone(),
                seed,
                directory: job.directory.clone(),
                files: scenario::digests(&job.scenario, &files).map_err(refused)?,
                session: session(&started_at),
                command: identity.command.clone(),
            };
            let created = create(&head).inspect_err(|_| {
                notice(
                    "nothing-run",
                    "nothing was run: the experiment can't be stored; --no-store runs it without storing",
                );
            });
            let (checkpoint, experiments) = created?;
            (checkpoint, Some(experiments))
        }
    };
    let program = crate::job::program();
    let printing = Mutex::new(());
    let tell = |happening: &ScenarioEvent<'_>| {
        let _one = printing.lock().unwrap_or_else(|e| e.into_inner());
        print_event(happening, is_quiet, args.verbose);
    };
    let monotonic_ns = || weir_net::clock::Clock::System.monotonic_ns();
    let options = Options {
        program,
        id: id.clone(),
        started_at,
        version: VERSION.into(),
        command,
        seed,
        quick: job.quick,
        simulate: job.simulate,
        no_store: args.no_store,
        files,
        parse_flags,
        is_stopped: &is_stopped,
        tell: &tell,
        monotonic_ns: &monotonic_ns,
        remote: remote.as_deref(),
        warnings: job.warnings.clone(),
    };
    let estimate_line =
        estimate_text(&estimate, job.simulate, is_resumed.then(|| checkpoint.repetitions()));
    if !is_quiet {
        print(&head(&job.scenario, &options, estimate_line.as_deref()))?;
    } else if let Some(words) = estimate_line {
        notice("estimate", &words);
    }
    let Ended { experiment, error } = match scenario::run(&job.scenario, &options, checkpoint) {
        Ok(ended) => ended,
        Err(ScenarioError::Stopped) => {
            if experiments.is_some() {
                notice("resume", &format!("to resume: {resume} {id}"));
            }
            return Ok(nothing_run(&stop));
        }
        Err(error) => return Err(refused(error)),
    };
    let written = finish(&experiment, args, experiments.as_ref());
    let how_to_resume = (experiments.is_some() && experiment.status != Status::Complete)
        .then(|| format!("to resume: {resume} {id}"));
    let mut closing = text::closing(&experiment);
    closing.extend(how_to_resume.as_ref().map(|line| format!("{line}\n")));
    if !is_quiet {
        let tables = weir_report::tables_text(&experiment.tables, terminal::width());
        print(&(tables + &cleaned(&closing)))?;
    } else if !args.json {
        // Standard output holds only a table: the verdict goes to standard error.
        notice("verdict", cleaned(&closing).trim_end());
    } else if let Some(line) = how_to_resume {
        notice("resume", &line);
    }
    match error.map(refused).map_or(written, Err) {
        Ok(()) => Ok(exit_code(&experiment, &stop)),
        // The single object of --json has been printed already.
        Err(error) if args.json => {
            report(&Event::Error(error.refusal()), &cleaned(&format!("error: {}", error.chain())));
            Ok(error.exit_code())
        }
        Err(error) => Err(error),
    }
}

/// Prints that an experiment was stopped before its first run; returns the exit code.
fn nothing_run(stop: &Stop) -> i32 {
    let reason = stop.reason().unwrap_or(StopReason::Interrupted);
    notice("nothing-run", &format!("{}; nothing was run", reason.text()));
    reason.exit_code()
}

/// The exit code of an experiment.
fn exit_code(experiment: &Experiment, stop: &Stop) -> i32 {
    if experiment.status == Status::Interrupted {
        return stop.reason().unwrap_or(StopReason::Interrupted).exit_code();
    }
    match experiment.outcome {
        Outcome::Done | Outcome::Passed | Outcome::Skipped => 0,
        Outcome::Failed => 1,
        Outcome::Inconclusive => 5,
        Outcome::Error => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_changed_are_named() {
        let of = |files: &[(&str, &str)]| -> BTreeMap<String, String> {
            files.iter().map(|(n, h)| ((*n).to_owned(), (*h).to_owned())).collect()
        };
        let before = of(&[("plan.toml", "1"), ("laws.toml", "2")]);
        assert!(same_files("x", &before, &before).is_ok());
        let changed = same_files("x", &before, &of(&[("plan.toml", "1"), ("laws.toml", "3")]));
        let refused = changed.unwrap_err().refusal();
        assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--resume"), 2));
        assert!(refused.given.unwrap().contains("laws.toml"));
        assert!(
            same_files("x", &of(&[]), &before).is_err(),
            "a file that was not known at the start"
        );
    }
}
