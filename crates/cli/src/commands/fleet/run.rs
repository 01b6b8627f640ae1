//! `weir fleet run` and `stop`.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, FromArgMatches};
use serde_json::json;
use weir_fleet::{
    Agent, AgentName, Controller, HOST_RESOURCE, JobId, Outcome, Resource, Selector, Submission,
    Submitted,
};
use weir_jobs::{Job, MAX_JOB_BYTES, parse_job};
use weir_model::units::Span;
use weir_model::{Refusal, document};
use weir_runs::{DataDirectory, Store};

use super::{Fleet, block_on, list, listening, refused, stopped};
use crate::commands::test::{self, TestArgs};
use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::job::{notice, warn};
use crate::output::{print, print_object};
use crate::{random, stamp, time};

/// The job is a file, or a test as `weir test` would run it
#[derive(Debug, Args)]
#[command(
    override_usage = "weir fleet run --on AGENTS [OPTIONS] -- test [FLAGS] HOST\n       weir fleet run --on AGENTS [OPTIONS] FILE",
    after_help = "Jobs of one resource of an agent run one after the other; those of different resources at the same time.\n\
                  Ctrl-C stops the jobs; what was measured until then is printed.\n\
                  Exit code: that of the first job that failed, in the order of the agents' names."
)]
pub(crate) struct RunArgs {
    /// Agents: names and labels KEY=VALUE, separated by commas, or all
    #[arg(long, value_name = "AGENTS")]
    on: Selector,
    /// What the job needs for itself on its host, such as an interface
    #[arg(long, value_name = "NAME", default_value = HOST_RESOURCE)]
    resource: Resource,
    /// Start the tests of all agents at the same instant, this long from now; by each agent's clock
    #[arg(long, value_name = "TIME")]
    start_in: Option<Span>,
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
    /// A file with a job (JSON or TOML), or the words of a test
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
    let job = read(&args.job)?;
    let stop = listening()?;
    block_on(async {
        let controller = fleet.controller().await?;
        let agents = controller.agents().await.map_err(refused)?;
        let chosen = args.on.choose(&agents, stamp::VERSION);
        let chosen = chosen.map_err(|refusal| refused((*refusal).into()))?;
        let jobs = submit(&controller, args, &job, &chosen).await?;
        if args.detach {
            let list: Vec<_> = jobs
                .list
                .iter()
                .map(|(agent, job)| json!({ "agent": agent, "job": job }))
                .collect();
            return match args.json {
                true => print_object(&json!({ "jobs": list })),
                false => Ok(0),
            };
        }
        let (outcomes, reason) = collect(&controller, &jobs, &stop, args).await?;
        let code = if args.json {
            print_object(&json!({ "results": outcomes }))?
        } else {
            print(&list::table(&outcomes))?
        };
        if code != 0 {
            return Ok(code);
        }
        let failed = outcomes.iter().map(exit_code).find(|code| *code != 0);
        Ok(reason.map_or(failed.unwrap_or(0), StopReason::exit_code))
    })
}

/// The job of a file, or of the words of a command.
fn read(words: &[OsString]) -> Result<Job, CliError> {
    if words[0] == "test" {
        return of_words(words);
    }
    let path = PathBuf::from(&words[0]);
    if let Some(further) = words.get(1) {
        let given = further.to_string_lossy().into_owned();
        return Err(CliError::flag("JOB", given, "one file, or test and its flags"));
    }
    let mut text = String::new();
    let read = std::fs::File::open(&path)
        .and_then(|file| file.take(MAX_JOB_BYTES + 1).read_to_string(&mut text));
    if read.map_err(CliError::io("read job", &path))? as u64 > MAX_JOB_BYTES {
        let given = format!("{} is longer", path.display());
        return Err(CliError::flag("JOB", given, "a file of up to 32M"));
    }
    let tree = document::tree(&text)
        .map_err(|error| CliError::Plan { path: path.clone(), error: error.into() })?;
    parse_job(&tree.to_string()).map_err(CliError::Refused)
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
    let now = time::since_epoch(SystemTime::now());
    let number = format!("{:x}-{:08x}", now.as_millis(), random::u64() as u32);
    let start_at = args.start_in.map(|after| (now.as_nanos() as u64).saturating_add(after.0));
    let mut jobs = Jobs { list: vec![], places: vec![] };
    for (at, agent) in agents.iter().enumerate() {
        let id: JobId = format!("{number}-{at}").parse().map_err(|e: Refusal| refused(e.into()))?;
        let submission = Submission {
            id: id.clone(),
            resource: args.resource.clone(),
            start_at_unix_ns: start_at,
            longest_seconds: args.longest.0.div_ceil(1_000_000_000).max(1),
            job: job.clone(),
        };
        let submitted = controller.submit(&agent.name, &submission).await.map_err(refused)?;
        let waits = match submitted.before {
            0 => String::new(),
            before => format!(", after {before} of its queue"),
        };
        notice("submitted", &format!("{}: job {id}{waits}", agent.name));
        jobs.list.push((agent.name.clone(), id));
        jobs.places.push(submitted);
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
                for (agent, id) in &jobs.list {
                    controller.stop(agent, id).await.map_err(refused)?;
                }
                continue;
            }
            _ = stopped(stop, 2) => {
                withdraw(controller, jobs, &outcomes).await;
                break;
            }
        };
        if !args.no_store
            && let Some(record) = list::record(&outcome)
        {
            keep(&record);
        }
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

/// Stores a record among the runs of this host, unless an agent of this host has.
fn keep(record: &weir_model::record::Record) {
    let store = || -> Result<(), weir_runs::StoreError> {
        match Store::open_at(&DataDirectory::of_this_user()?)?.insert(record) {
            Err(weir_runs::StoreError::Exists { .. }) => Ok(()),
            other => other,
        }
    };
    if let Err(error) = store() {
        let words = format!("the result of run {} was not stored: {error}", record.id);
        warn(weir_jobs::Notice::NOT_STORED, &words);
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
