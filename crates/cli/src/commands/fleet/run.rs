//! `weir fleet run` and `stop`.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

use clap::{Args, FromArgMatches};
use futures_util::future::join_all;
use serde_json::json;
use tokio::task::JoinSet;
use weir_fleet::{
    Agent, AgentName, Controller, HOST_RESOURCE, JobId, Outcome, Resource, Selector, StartSpread,
    Submission, Submitted, Work,
};
use weir_jobs::{Job, MAX_JOB_BYTES, RemoteHosts, parse_job};
use weir_model::experiment::{SCENARIO_SCHEMA, Scenario};
use weir_model::units::Span;
use weir_model::{Refusal, document};

use super::clocks::spread_line;
use super::hosts::FleetHosts;
use super::{Fleet, block_on, list, listening, number, refused, stopped, together};
use crate::commands::experiment::run as scenario_run;
use crate::commands::test::{self, TestArgs};
use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::job::{notice, warn};
use crate::output::{print, print_object};
use crate::stamp;
use crate::user_data::keep_record;

/// The job is a file, or a test as `weir test` would run it; a scenario names its agents itself
#[derive(Debug, Args)]
#[command(
    override_usage = "weir fleet run --on AGENTS [OPTIONS] -- test [FLAGS] HOST\n       weir fleet run --on AGENTS [OPTIONS] FILE\n       weir fleet run [OPTIONS] SCENARIO\n       weir fleet run [OPTIONS] -- run [FLAGS] SCENARIO",
    after_help = "Jobs of one resource of an agent run one after the other; those of different resources at the same time.\n\
                  A scenario holds all its agents while it runs. Ctrl-C stops the jobs; what was measured until then is printed.\n\
                  Exit code: that of the first job that failed, in the order of the agents' names; of a scenario that of weir run."
)]
pub(crate) struct RunArgs {
    /// Agents: names and labels KEY=VALUE, separated by commas, or all
    #[arg(long, value_name = "AGENTS")]
    on: Option<Selector>,
    /// What the job needs for itself on its host, such as an interface
    #[arg(long, value_name = "NAME", default_value = HOST_RESOURCE)]
    resource: Resource,
    /// Hold all agents, and start their tests at the same instant once all are ready
    #[arg(long, conflicts_with_all = ["detach", "resource"])]
    together: bool,
    /// Refuse agents whose clock may be further off than this; with --together, or for a scenario
    #[arg(long, value_name = "TIME")]
    max_start_error: Option<Span>,
    /// Stop a job that runs for longer
    #[arg(long, value_name = "TIME", default_value = "1h")]
    longest: Span,
    /// Submit the jobs and return; weir fleet results has their results later
    #[arg(long)]
    detach: bool,
    /// Do not store the results among the runs of this host
    #[arg(long)]
    no_store: bool,
    /// Print the results as JSON
    #[arg(short = 'J', long)]
    json: bool,
    /// A file with a job or a scenario (JSON or TOML), or the words of a test or of `run`
    #[arg(value_name = "JOB", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    job: Vec<OsString>,
}

/// A job that waits is removed from its queue
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The agent
    agent: AgentName,
    /// The job, as weir fleet run prints it
    job: JobId,
}

/// Jobs for agents, in the order of their names, and their places in queues.
struct Jobs {
    list: Vec<(AgentName, JobId)>,
    places: Vec<Submitted>,
}

pub(super) fn run(fleet: &Fleet, args: &RunArgs) -> Result<i32, CliError> {
    let job = match read(&args.job)? {
        What::Scenario(words) => return scenario(fleet, args, &words),
        What::Job(job) => *job,
    };
    let Some(on) = &args.on else {
        return Err(CliError::flag("--on", "absent", "names or labels of agents, or all"));
    };
    if args.max_start_error.is_some() && !args.together {
        let given = "given without --together";
        return Err(CliError::flag("--max-start-error", given, "--together with it"));
    }
    if args.together && !matches!(job, Job::Test(_)) {
        return Err(CliError::flag("--together", format!("with a job {}", job.kind()), "a test"));
    }
    let stop = listening()?;
    block_on(async {
        let controller = fleet.controller().await?;
        let agents = controller.agents().await.map_err(refused)?;
        let chosen = on.choose(&agents, stamp::VERSION);
        let chosen = chosen.map_err(|refusal| refused((*refusal).into()))?;
        let ended = if args.together {
            together::run(&controller, args, &job, &chosen, &stop).await?
        } else {
            let jobs = submit(&controller, args, &job, &chosen).await?;
            if args.detach {
                return detached(&jobs, args);
            }
            let (outcomes, reason) = collect(&controller, &jobs, &stop, args).await?;
            Ended { outcomes, reason, spread: None }
        };
        print_ended(&ended, args)
    })
}

/// How the jobs ended.
pub(super) struct Ended {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) reason: Option<StopReason>,
    /// How closely tests of `--together` started; absent where fewer than two starts were measured.
    pub(super) spread: Option<StartSpread>,
}

fn detached(jobs: &Jobs, args: &RunArgs) -> Result<i32, CliError> {
    let list: Vec<_> =
        jobs.list.iter().map(|(agent, job)| json!({ "agent": agent, "job": job })).collect();
    match args.json {
        true => print_object(&json!({ "jobs": list })),
        false => Ok(0),
    }
}

fn print_ended(ended: &Ended, args: &RunArgs) -> Result<i32, CliError> {
    let Ended { outcomes, reason, spread } = ended;
    let code = if args.json {
        let mut object = json!({ "results": outcomes });
        if let Some(spread) = spread {
            object["start_spread"] = json!(spread);
        }
        print_object(&object)?
    } else {
        let spread = spread.as_ref().map(spread_line).unwrap_or_default();
        print(&(list::table(outcomes) + &spread))?
    };
    if code != 0 {
        return Ok(code);
    }
    let failed = outcomes.iter().map(exit_code).find(|code| *code != 0);
    Ok(reason.map_or(failed.unwrap_or(0), StopReason::exit_code))
}

/// What is to be run.
enum What {
    Job(Box<Job>),
    /// The words of `weir run`.
    Scenario(Vec<OsString>),
}

/// What a file has, or the words of a command.
fn read(words: &[OsString]) -> Result<What, CliError> {
    if words[0] == "test" {
        return of_words(words).map(|job| What::Job(Box::new(job)));
    }
    if words[0] == "run" {
        return Ok(What::Scenario(words.to_vec()));
    }
    if words[0].to_string_lossy().starts_with('-') {
        let given = words[0].to_string_lossy().into_owned();
        let accepted = "a file, or test or run with its flags; weir fleet run --help lists the flags before it";
        return Err(CliError::flag("JOB", given, accepted));
    }
    let path = PathBuf::from(&words[0]);
    let mut text = String::new();
    let read = std::fs::File::open(&path)
        .and_then(|file| file.take(MAX_JOB_BYTES + 1).read_to_string(&mut text));
    if read.map_err(CliError::io("read job", &path))? as u64 > MAX_JOB_BYTES {
        let given = format!("{} is longer", path.display());
        return Err(CliError::flag("JOB", given, "a file of up to 32M"));
    }
    let tree = document::tree(&text)
        .map_err(|error| CliError::Plan { path: path.clone(), error: error.into() })?;
    if tree.get("schema").is_some_and(|schema| schema == SCENARIO_SCHEMA) {
        let words = [OsString::from("run")].into_iter().chain(words.iter().cloned());
        return Ok(What::Scenario(words.collect()));
    }
    if let Some(further) = words.get(1) {
        let given = further.to_string_lossy().into_owned();
        return Err(CliError::flag("JOB", given, "one file, or test and its flags"));
    }
    parse_job(&tree.to_string()).map(|job| What::Job(Box::new(job))).map_err(CliError::Refused)
}

/// Runs a scenario at the agents that it names.
fn scenario(fleet: &Fleet, args: &RunArgs, words: &[OsString]) -> Result<i32, CliError> {
    let given = [
        ("--on", args.on.is_some()),
        ("--together", args.together),
        ("--detach", args.detach),
        ("--resource", args.resource.as_str() != HOST_RESOURCE),
    ];
    if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(CliError::flag(
            flag,
            "with a scenario",
            "absent: the scenario names its agents",
        ));
    }
    let command = scenario_run::RunArgs::augment_args(clap::Command::new("weir run"));
    let parsed = command.try_get_matches_from(words);
    let run = parsed.and_then(|matches| scenario_run::RunArgs::from_arg_matches(&matches));
    let mut run =
        run.map_err(|error| CliError::Refused(Box::new(crate::parsed::refusal(&error, words))))?;
    run.in_fleet(args.json, args.no_store);
    let most_ns = args.max_start_error.map(|span| span.0);
    let find = |scenario: &Scenario, stop: &Stop| {
        let held = FleetHosts::hold(fleet, scenario, most_ns, stop)?;
        Ok(held.map(|held| Box::new(held) as Box<dyn RemoteHosts>))
    };
    let command: Vec<OsString> =
        ["weir", "fleet"].map(OsString::from).into_iter().chain(words.iter().cloned()).collect();
    scenario_run::run_at(&run, &command, Some(&find))
}

/// The job of `test` and its flags. What only this host has can't be part of it.
fn of_words(words: &[OsString]) -> Result<Job, CliError> {
    let command = TestArgs::augment_args(clap::Command::new("weir test"));
    let parsed = command.try_get_matches_from(words);
    let args = parsed.and_then(|matches| TestArgs::from_arg_matches(&matches));
    let args =
        args.map_err(|error| CliError::Refused(Box::new(crate::parsed::refusal(&error, words))))?;
    test::job_elsewhere(&args).map(|job| Job::Test(Box::new(job)))
}

async fn submit(
    controller: &Controller,
    args: &RunArgs,
    job: &Job,
    agents: &[&Agent],
) -> Result<Jobs, CliError> {
    let number = number();
    let mut submissions = vec![];
    for (at, agent) in agents.iter().enumerate() {
        let id: JobId = format!("{number}-{at}").parse().map_err(|e: Refusal| refused(e.into()))?;
        let submission = Submission {
            id,
            resource: args.resource.clone(),
            start_at_unix_ns: None,
            longest_seconds: args.longest_seconds(),
            hold: None,
            without_record: false,
            work: Work::Job(Box::new(job.clone())),
        };
        submissions.push((&agent.name, submission));
    }
    let submit = |(agent, submission)| controller.submit(agent, submission);
    let submitted = join_all(submissions.iter().map(|(agent, it)| submit((*agent, it)))).await;
    let mut jobs = Jobs { list: vec![], places: vec![] };
    let mut failed = None;
    for ((agent, submission), submitted) in submissions.into_iter().zip(submitted) {
        match submitted {
            Ok(submitted) => {
                jobs.list.push((agent.clone(), submission.id));
                jobs.places.push(submitted);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if let Some(error) = failed {
        stop_all(controller, &jobs.list).await;
        withdraw(controller, &jobs, &[]).await;
        return Err(refused(error));
    }
    for ((agent, id), submitted) in jobs.list.iter().zip(&jobs.places) {
        let waits = match submitted.before {
            0 => String::new(),
            before => format!(", after {before} of its queue"),
        };
        notice("submitted", &format!("{agent}: job {id}{waits}"));
    }
    Ok(jobs)
}

/// Waits for the outcomes. A first signal stops the jobs; a second removes those from their queues that did not, and ends the
/// waiting.
async fn collect(
    controller: &Controller,
    jobs: &Jobs,
    stop: &Stop,
    args: &RunArgs,
) -> Result<(Vec<Outcome>, Option<StopReason>), CliError> {
    let mut arriving = controller.outcomes_of(&jobs.list).await.map_err(refused)?;
    let mut outcomes: Vec<Outcome> = vec![];
    let mut reason = None;
    while outcomes.len() < jobs.list.len() {
        let outcome = tokio::select! {
            outcome = arriving.next() => outcome.map_err(refused)?,
            asked = stopped(stop, 1), if reason.is_none() => {
                reason = Some(asked);
                stop_all(controller, &jobs.list).await;
                continue;
            }
            _ = stopped(stop, 2) => {
                withdraw(controller, jobs, &outcomes).await;
                break;
            }
        };
        args.keep(&outcome);
        outcomes.push(outcome);
    }
    outcomes.sort_by(|a, b| a.agent.cmp(&b.agent));
    Ok((outcomes, reason))
}

/// Removes jobs without an outcome from their queues, so that an agent that comes back does not run them.
async fn withdraw(controller: &Controller, jobs: &Jobs, outcomes: &[Outcome]) {
    for ((agent, id), place) in jobs.list.iter().zip(&jobs.places) {
        if outcomes.iter().any(|outcome| outcome.id == *id) {
            continue;
        }
        match controller.withdraw(place).await {
            Ok(()) => warn("withdrawn", &format!("{agent}: job {id} was removed from its queue")),
            Err(error) => warn("withdrawn", &format!("{agent}: job {id}: {error}")),
        }
    }
}

/// Asks for all jobs to be stopped. One of an agent that does not answer goes on.
pub(super) async fn stop_all(controller: &Controller, jobs: &[(AgentName, JobId)]) {
    let mut stopping = JoinSet::new();
    for (agent, id) in jobs {
        let (controller, agent, id) = (controller.clone(), agent.clone(), id.clone());
        stopping.spawn(async move {
            let stopped = controller.stop(&agent, &id).await;
            stopped.map_err(|error| format!("{agent}: job {id}: {error}"))
        });
    }
    while let Some(stopped) = stopping.join_next().await {
        if let Ok(Err(words)) = stopped {
            warn("not-stopped", &words);
        }
    }
}

impl RunArgs {
    pub(super) fn longest_seconds(&self) -> u64 {
        self.longest.0.div_ceil(1_000_000_000).max(1)
    }

    pub(super) fn max_start_error_ns(&self) -> Option<u64> {
        self.max_start_error.map(|span| span.0)
    }

    /// Stores the record of an outcome among the runs of this host, unless an agent of this host has.
    pub(super) fn keep(&self, outcome: &Outcome) {
        if self.no_store {
            return;
        }
        if let Some(record) = list::record(outcome)
            && let Err(error) = keep_record(&record)
        {
            let words = format!("the result of run {} was not stored: {error}", record.id);
            warn(weir_jobs::Notice::NOT_STORED, &words);
        }
    }
}

fn exit_code(outcome: &Outcome) -> i32 {
    let of_error = outcome.error.as_ref().map_or(0, |error| error.exit_code);
    match outcome.exit_code {
        Some(0) | None => of_error,
        Some(code) => code,
    }
}

pub(super) fn stop(fleet: &Fleet, args: &StopArgs) -> Result<i32, CliError> {
    block_on(async {
        fleet.controller().await?.stop(&args.agent, &args.job).await.map_err(refused)
    })?;
    Ok(0)
}
