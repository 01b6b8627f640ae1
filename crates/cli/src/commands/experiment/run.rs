//! `weir run`: a scenario from a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use weir_experiment::scenario::checkpoint::{Checkpoint, CheckpointHeader, Session};
use weir_experiment::scenario::{Files, ScenarioError, check_unless, read};
use weir_jobs::{ResumeJob, ScenarioJob};
use weir_model::ModelError;
use weir_model::experiment::{HostSpec, Scenario, Variables};
use weir_model::names::Host;
use weir_model::units::Seed;
use weir_net::process::{boot_id, process_start_time};
use weir_runs::{DataDirectory, Experiments};

use super::progress::cleaned;
use super::{FindAgents, Job, ResultArgs, execute, execute_at, is_id, plan_from_flags, refused};
use crate::commands::runs::RunsError;
use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::job::notice;
use crate::output::print;
use crate::{signals, user_data};

/// Run a scenario: steps, expectations, verdict
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all expectations met, 1 one was not, 2 the scenario is invalid, 3 a step could not be \
                        done, 4 not permitted or not available, 5 inconclusive (tool or host was the limit, or an interval \
                        spans its bound), 130 interrupted, 143 terminated. Completed runs are stored; --resume continues."
)]
pub(crate) struct RunArgs {
    /// The scenario (weir.scenario/1, TOML or JSON), or the name of one of your own or of those installed with Weir
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// Check the scenario, its plans and its files without running it
    #[arg(long, conflicts_with_all = ["resume", "simulate"])]
    check: bool,
    /// Run sender, emulator and receiver on a virtual clock; steps that need a network are skipped
    #[arg(long, conflicts_with = "resume")]
    simulate: bool,
    /// Use the scenario's quick values: fewer and shorter runs, not for publication
    #[arg(long, conflicts_with = "resume")]
    quick: bool,
    /// Set a variable of the scenario; may be repeated
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "resume")]
    set: Vec<String>,
    /// Use a host that runs `weir serve` for a host of the scenario, which then has no lab; may be repeated
    #[arg(long, value_name = "NAME=ADDRESS[:PORT]", conflicts_with = "resume")]
    host: Vec<String>,
    /// Key file for hosts given by --host
    #[arg(long, value_name = "FILE", requires = "host")]
    key_file: Option<PathBuf>,
    /// Seed of the order of points, and of plans without a seed [default: the scenario's, else a new one]
    #[arg(long, value_name = "SEED", conflicts_with = "resume")]
    seed: Option<Seed>,
    /// Resume an experiment: its id, or last for the newest incomplete one; complete runs are not repeated
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    resume: Option<String>,
    /// Print the whole output of commands, not only the end of one that failed
    #[arg(short = 'V', long)]
    verbose: bool,
    #[command(flatten)]
    result: ResultArgs,
}

impl RunArgs {
    /// The scenario's file.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Adds the flags that a fleet's command has for the result.
    pub(crate) fn in_fleet(&mut self, json: bool, no_store: bool) {
        self.result.json |= json;
        self.result.no_store |= no_store;
    }

    fn result(&self) -> ResultArgs {
        ResultArgs { verbose: self.verbose, ..self.result.clone() }
    }
}

/// The file of a scenario. A plain name, without a path or an ending, that is no file is looked up among the scenarios.
fn found(given: &Path) -> Result<PathBuf, CliError> {
    let is_name = given.extension().is_none() && given.components().count() == 1;
    if !is_name || given.exists() {
        return Ok(given.to_owned());
    }
    let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
    let directories = user_data::scenario_directories(&data);
    in_directories(&given.display().to_string(), &directories)
}

/// The scenario of this name in the first directory that has it.
fn in_directories(name: &str, directories: &[PathBuf]) -> Result<PathBuf, CliError> {
    let files = directories.iter().flat_map(|directory| {
        ["toml", "json"].map(|ending| directory.join(format!("{name}.{ending}")))
    });
    files.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        let places: Vec<String> = directories.iter().map(|d| d.display().to_string()).collect();
        let accepted = format!(
            "a file such as scenarios/{name}.toml, or a scenario in {}",
            places.join(" or ")
        );
        CliError::flag("FILE", format!("'{name}'"), &accepted)
    })
}

/// Runs the command.
pub(crate) fn run(args: &RunArgs, command: &[OsString]) -> Result<i32, CliError> {
    run_at(args, command, None)
}

/// Runs the command at the agents that the scenario names.
pub(crate) fn run_at(
    args: &RunArgs,
    command: &[OsString],
    find_agents: Option<FindAgents<'_>>,
) -> Result<i32, CliError> {
    if let Some(id) = &args.resume {
        if args.result.no_store {
            return Err(CliError::flag(
                "--no-store",
                "with --resume",
                "--resume without it: a resumed experiment is stored where it started",
            ));
        }
        return resume(id, &args.result(), command, find_agents);
    }
    let Some(path) = &args.file else {
        return Err(CliError::flag("FILE", "nothing", "a file, or --resume ID"));
    };
    let path = &found(path)?;
    let text = read(path).map_err(refused)?;
    let mut set = Variables::new();
    for word in &args.set {
        let Some((name, value)) = word.split_once('=') else {
            return Err(CliError::flag("--set", format!("'{word}'"), "NAME=VALUE"));
        };
        set.insert(name.trim().into(), value_of(value.trim()));
    }
    let mut hosts = BTreeMap::new();
    for word in &args.host {
        let (name, target) = word
            .split_once('=')
            .ok_or_else(|| CliError::flag("--host", format!("'{word}'"), "NAME=ADDRESS[:PORT]"))?;
        let target = Host::parse(target).map_err(|e| CliError::of_field(e, "--host"))?;
        let key_file = args.key_file.as_ref().map(|p| p.display().to_string());
        hosts.insert(
            name.to_owned(),
            HostSpec { address: target.name, port: target.port, key_file },
        );
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = std::fs::canonicalize(parent).map_err(CliError::io("find", parent))?;
    let job = ScenarioJob {
        id: None,
        text,
        directory,
        quick: args.quick,
        simulate: args.simulate,
        set,
        hosts,
        seed: args.seed,
        store: !args.result.no_store,
    };
    let job = prepared(job, Some(path))?;
    if args.check {
        let scenario = job.scenario;
        let files = Files::new(job.directory);
        let stop = Stop::new();
        signals::listen(&stop)?;
        let is_stopped = || stop.reason().is_some();
        let estimate = match check_unless(&is_stopped, &scenario, &files, &plan_from_flags) {
            Err(ScenarioError::Stopped) => {
                let reason = stop.reason().unwrap_or(StopReason::Interrupted);
                notice("not-checked", &format!("{}; it was not checked to its end", reason.text()));
                return Ok(reason.exit_code());
            }
            checked => checked.map_err(refused)?,
        };
        let plural = if scenario.steps.len() == 1 { "" } else { "s" };
        return print(&format!(
            "{}: {} step{plural}, valid\n{}\n",
            scenario.name,
            scenario.steps.len(),
            estimate.text(None)
        ));
    }
    execute_at(job, &args.result(), command, find_agents)
}

/// Runs a job of `weir job`.
///
/// # Errors
/// As `weir run`.
pub(crate) fn run_job(job: ScenarioJob) -> Result<i32, CliError> {
    if let Some(id) = job.id.as_ref().filter(|id| !is_id(id)) {
        return Err(CliError::flag("id", id, "letters, digits and '-', at most 64"));
    }
    let result = ResultArgs {
        json: true,
        no_store: !job.store,
        id: job.id.clone(),
        ..ResultArgs::default()
    };
    execute(prepared(job, None)?, &result, &["weir", "job"].map(OsString::from))
}

/// Resumes an experiment as a job of `weir job`.
///
/// # Errors
/// As `weir run --resume`.
pub(crate) fn resume_job(job: &ResumeJob) -> Result<i32, CliError> {
    let result = ResultArgs { json: true, ..ResultArgs::default() };
    resume(&job.id, &result, &["weir", "job"].map(OsString::from), None)
}

fn is_field(error: &ModelError, name: &str) -> bool {
    matches!(error, ModelError::Field { field, .. } if field == name)
}

/// Reads the scenario of a job; `path` is its file, if it has one.
fn prepared(job: ScenarioJob, path: Option<&Path>) -> Result<Job, CliError> {
    let parse = |hosts: &BTreeMap<String, HostSpec>| {
        Scenario::parse(&job.text, job.quick, &job.set, hosts).map_err(|error| match path {
            Some(_) if is_field(&error, "set") => CliError::of_field(error, "--set"),
            Some(_) if is_field(&error, "hosts") => CliError::of_field(error, "--host"),
            Some(path) => CliError::Plan { path: path.into(), error },
            None => CliError::Model(error),
        })
    };
    let scenario = parse(&job.hosts)?;
    // With --host the laws of the lab's path do not apply, which a reader of the result has to know.
    let whole = (!job.hosts.is_empty()).then(|| parse(&BTreeMap::new()).ok()).flatten();
    let left_out = whole.and_then(|whole| left_out(&whole, &scenario));
    left_out.iter().for_each(|words| notice("emulator-left-out", words));
    Ok(Job {
        scenario,
        file: path.map(Into::into),
        plan_file: None,
        text: job.text,
        directory: job.directory,
        quick: job.quick,
        simulate: job.simulate,
        set: job.set,
        hosts: job.hosts,
        seed: job.seed,
        earlier: None,
        warnings: left_out.into_iter().collect(),
        axes: None,
    })
}

/// A warning about the emulators and kernel settings that a scenario loses because `--host` replaces its lab.
fn left_out(whole: &Scenario, left: &Scenario) -> Option<String> {
    let gone = whole.emulators.keys().filter(|name| !left.emulators.contains_key(*name));
    let gone: Vec<&str> = gone.map(String::as_str).collect();
    let emulators = (!gone.is_empty()).then(|| {
        format!("there is no emulator {}: its laws are not on this path", gone.join(", "))
    });
    let lost = whole.lab.as_ref().filter(|_| left.lab.is_none());
    let settings: Vec<&str> =
        lost.iter().flat_map(|lab| lab.sysctls.keys()).map(String::as_str).collect();
    let settings = (!settings.is_empty()).then(|| format!("{} is not set", settings.join(", ")));
    let words: Vec<String> = emulators.into_iter().chain(settings).collect();
    (!words.is_empty()).then(|| format!("--host: without the lab {}", words.join("; ")))
}

/// The value of a variable: a number or a boolean if the text is one, else the text.
fn value_of(text: &str) -> Value {
    match text {
        "true" => true.into(),
        "false" => false.into(),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(n), _) => n.into(),
            (_, Ok(n)) if n.is_finite() => n.into(),
            _ => text.into(),
        },
    }
}

/// Whether a session's process has ended, as far as this host knows.
fn is_gone(session: &Session) -> bool {
    let here = boot_id();
    here.is_some() && here == session.boot_id && process_start_time(session.pid).is_none()
}

fn resume(
    selector: &str,
    args: &ResultArgs,
    command: &[OsString],
    find_agents: Option<FindAgents<'_>>,
) -> Result<i32, CliError> {
    let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
    let experiments = Experiments::of(&data);
    let id = experiments.unfinished(selector).map_err(RunsError::from)?;
    let path = experiments.checkpoint(&id);
    let (checkpoint, head) =
        Checkpoint::open(&path, is_gone).map_err(|error| match error.kind() {
            ErrorKind::ResourceBusy => CliError::Unavailable(format!("experiment {id}: {error}")),
            _ => CliError::io("read checkpoint", &path)(error),
        })?;
    let parse = |hosts: &BTreeMap<String, HostSpec>| {
        Scenario::parse(&head.scenario, head.quick, &head.set, hosts)
    };
    let refuse = |error| CliError::Plan { path: path.clone(), error };
    let scenario = parse(&head.hosts)
        .map_err(refuse)
        .inspect_err(|_| notice("start-again", &start_again(&head)))?;
    let whole = (!head.hosts.is_empty()).then(|| parse(&BTreeMap::new()).ok()).flatten();
    let warnings = whole.and_then(|whole| left_out(&whole, &scenario)).into_iter().collect();
    notice(
        "resuming",
        &cleaned(&format!(
            "resuming experiment {id}: {}, started {}, {} run{} done",
            scenario.title.as_ref().unwrap_or(&scenario.name),
            head.started_at,
            checkpoint.repetitions(),
            if checkpoint.repetitions() == 1 { "" } else { "s" },
        )),
    );
    if let Some(changed) = super::changes::changed(&head, &scenario) {
        notice(
            "file-changed",
            &cleaned(&format!(
                "{} has changed since this experiment started, which uses the text as it was; to use the new one, start a new experiment",
                changed.display()
            )),
        );
    }
    let job = Job {
        scenario,
        file: None,
        plan_file: None,
        text: head.scenario.clone(),
        directory: head.directory.clone(),
        quick: head.quick,
        simulate: false,
        set: head.set.clone(),
        hosts: head.hosts.clone(),
        seed: Some(head.seed),
        earlier: Some((checkpoint, head)),
        warnings,
        axes: None,
    };
    execute_at(job, args, command, find_agents)
}

/// What to do if this version refuses an experiment that an earlier version started.
fn start_again(head: &CheckpointHeader) -> String {
    let by = &head.session;
    let commit = by.commit.as_ref().map_or_else(String::new, |c| format!(" (commit {c})"));
    let words = format!(
        "experiment {} was started by weir {}{commit}, and this version refuses part of it: start it again, \
         or resume it with that version. What it measured is stored: weir runs list --label experiment={}",
        head.id, by.version, head.id
    );
    cleaned(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_found_by_its_name_in_the_first_directory_that_has_it() {
        let root = tempfile::tempdir().unwrap();
        let directories = ["own", "shared"].map(|name| root.path().join(name)).to_vec();
        for (directory, file) in [(0, "a.json"), (1, "a.toml"), (1, "b.toml")] {
            std::fs::create_dir_all(&directories[directory]).unwrap();
            std::fs::write(directories[directory].join(file), "").unwrap();
        }
        let of = |name: &str| in_directories(name, &directories);
        assert_eq!(of("a").unwrap(), directories[0].join("a.json"));
        assert_eq!(of("b").unwrap(), directories[1].join("b.toml"));
        assert_eq!(of("c").unwrap_err().exit_code(), 2);
        // Paths and names with an ending are taken as they are.
        for given in ["./c", "c.toml", "directory/c"] {
            assert_eq!(found(Path::new(given)).unwrap(), Path::new(given));
        }
    }
}
