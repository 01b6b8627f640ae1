//! `weir agent` and `weir fleet`: jobs on many hosts, coordinated through NATS.

mod agent;
mod clocks;
mod dev;
mod hosts;
mod key;
mod list;
mod logs;
mod run;
mod status;
mod together;
mod watch;

use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use weir_fleet::{
    AgentName, Campaign, Connection, Controller, Error, HOST_RESOURCE, JobId, Resource,
};
use weir_model::Refusal;

use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use crate::job::notice;
use crate::{random, signals, time};

pub(crate) use agent::AgentArgs;

/// How NATS is reached.
#[derive(Debug, Args)]
pub(crate) struct NatsArgs {
    /// The NATS server, or several of one cluster separated by commas
    #[arg(
        long,
        value_name = "URL",
        default_value = "nats://127.0.0.1:4222",
        global = true,
        help_heading = "NATS"
    )]
    nats: String,
    /// File with the seed of the key (nkey) that the server knows
    #[arg(long, value_name = "FILE", global = true, help_heading = "NATS")]
    nkey: Option<PathBuf>,
    /// Certificates (PEM) of authorities to trust besides those of the system; requires TLS
    #[arg(long, value_name = "FILE", global = true, help_heading = "NATS")]
    ca: Option<PathBuf>,
}

impl NatsArgs {
    fn connection(&self) -> Connection {
        Connection {
            url: self.nats.clone(),
            nkey_file: self.nkey.clone(),
            ca_file: self.ca.clone(),
        }
    }
}

/// Run jobs on agents, list agents, read results
#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    #[command(flatten)]
    nats: NatsArgs,
    /// Servers of a cluster that have a copy of jobs and results, when they are created
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5), global = true, help_heading = "NATS")]
    replicas: u8,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the agents that have connected
    Agents(list::AgentsArgs),
    /// Run a job on agents, or a scenario at agents, and wait for the results
    Run(run::RunArgs),
    /// Show what runs and waits at each agent
    Status(status::StatusArgs),
    /// Follow notices of agents and events of their jobs
    Logs(logs::LogsArgs),
    /// Measure continuously between agents
    Watch(watch::WatchArgs),
    /// Stop a job that runs or waits
    Stop(run::StopArgs),
    /// List the results that NATS has
    Results(list::ResultsArgs),
    /// Remove an agent that is gone from the list
    Forget(list::ForgetArgs),
    /// Start a NATS server and agents on this machine, to try the fleet
    Dev(dev::DevArgs),
    /// Make a key for an agent or a controller
    Key(key::KeyArgs),
    /// Print the users of the NATS server's configuration, with what each agent may do
    Config(key::ConfigArgs),
}

/// Runs the agent.
pub(crate) fn agent(args: &AgentArgs) -> Result<i32, CliError> {
    agent::run(args)
}

/// Runs a command of the fleet.
pub(crate) fn run(args: &FleetArgs) -> Result<i32, CliError> {
    let fleet = Fleet { connection: args.nats.connection(), replicas: args.replicas.into() };
    match &args.verb {
        Verb::Agents(args) => list::agents(&fleet, args),
        Verb::Run(args) => run::run(&fleet, args),
        Verb::Status(args) => status::run(&fleet, args),
        Verb::Logs(args) => logs::run(&fleet, args),
        Verb::Dev(args) => dev::run(args),
        Verb::Watch(args) => watch::run(&fleet, args),
        Verb::Stop(args) => run::stop(&fleet, args),
        Verb::Results(args) => list::results(&fleet, args),
        Verb::Forget(args) => list::forget(&fleet, args),
        Verb::Key(args) => key::key(args),
        Verb::Config(args) => key::config(args),
    }
}

/// Where the fleet is.
struct Fleet {
    connection: Connection,
    replicas: usize,
}

impl Fleet {
    async fn controller(&self) -> Result<Controller, CliError> {
        Controller::connect(&self.connection, self.replicas).await.map_err(refused)
    }
}

/// The error of the fleet; its fields are flags.
fn refused(error: Error) -> CliError {
    let refusal = error.refusal();
    match (&refusal.field, &refusal.given, &refusal.accepted) {
        (Some(field), Some(given), Some(accepted)) => {
            let flag = format!("--{field}");
            let message = format!("{flag}: {given}; accepted: {accepted}");
            CliError::Refused(Box::new(weir_model::Refusal {
                field: Some(flag),
                message,
                ..refusal
            }))
        }
        _ => CliError::Refused(Box::new(refusal)),
    }
}

/// The number of a campaign or of the jobs of a command, unique in the fleet.
fn number() -> String {
    let now = time::since_epoch(SystemTime::now());
    format!("{:x}-{:08x}", now.as_millis(), random::u64() as u32)
}

/// Holds agents, and says which of them are not free.
async fn hold(campaign: &mut Campaign, agents: &[AgentName], number: &str) -> Result<(), CliError> {
    let resource: Resource = HOST_RESOURCE.parse().map_err(|e: Refusal| refused(e.into()))?;
    // The parts are letters, digits and hyphens.
    let id = |at: usize| format!("{number}-h{at}").parse().map_err(|e: Refusal| refused(e.into()));
    let ids: Vec<JobId> = (0..agents.len()).map(id).collect::<Result<_, _>>()?;
    let waits = |agent: &AgentName, before: u64| {
        notice("waits", &format!("{agent}: waits for {before} of its queue"));
    };
    campaign.hold(agents, &resource, |at| ids[at].clone(), waits).await.map_err(refused)
}

/// Runs a task on this thread.
fn block_on<T>(task: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| CliError::Internal(format!("start the runtime: {e}")))?.block_on(task)
}

/// Completes when signals have asked this program to stop this many times.
async fn stopped(stop: &Stop, times: u32) -> StopReason {
    loop {
        match stop.reason() {
            Some(reason) if stop.requests() >= times => return reason,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// What signals request.
fn listening() -> Result<Stop, CliError> {
    let stop = Stop::new();
    signals::listen(&stop)?;
    Ok(stop)
}
