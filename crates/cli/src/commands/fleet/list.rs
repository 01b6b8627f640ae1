//! `weir fleet agents`, `results` and `forget`.

use clap::Args;
use serde_json::json;
use weir_fleet::{Agent, AgentName, Outcome};
use weir_model::record::Record;
use weir_report::page::in_one_sentence;
use weir_report::{Align, Table};

use super::{Fleet, block_on, refused};
use crate::error::CliError;
use crate::output::{print, print_object};
use crate::terminal;

/// Their names, labels, hosts and clocks
#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// Print JSON
    #[arg(short = 'J', long)]
    json: bool,
}

/// One line for each job
#[derive(Debug, Args)]
pub(crate) struct ResultsArgs {
    /// Print JSON, with records
    #[arg(short = 'J', long)]
    json: bool,
}

/// One that connects again is listed again
#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// Its name
    name: AgentName,
}

pub(super) fn agents(fleet: &Fleet, args: &AgentsArgs) -> Result<i32, CliError> {
    let agents = block_on(async { fleet.controller().await?.agents().await.map_err(refused) })?;
    if args.json {
        let list: Vec<_> = agents.iter().map(object).collect();
        return print_object(&json!({ "agents": list }));
    }
    if agents.is_empty() {
        return print("no agent has connected yet (weir agent --name NAME)\n");
    }
    let left = |heading| (heading, Align::Left);
    let mut table =
        Table::new(["agent", "seen", "labels", "host", "addresses", "clock", "version"].map(left));
    for agent in &agents {
        let facts = &agent.facts;
        let labels: Vec<_> = facts.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let addresses: Vec<_> = facts
            .interfaces
            .iter()
            .flat_map(|it| it.addresses.iter())
            .filter(|address| !address.starts_with("fe80:"))
            .map(String::as_str)
            .collect();
        let seen = match agent.seen {
            Some(_) if agent.is_here() => "connected".to_owned(),
            Some(_) if agent.has_stopped => "stopped".to_owned(),
            Some(seen) => format!("gone for {}", weir_report::duration(seen.as_secs_f64())),
            None => "never".to_owned(),
        };
        let clock = match (&facts.clock_source, facts.clock_bound_ns) {
            (Some(source), Some(bound_ns)) => {
                format!("{source} ±{:.3} ms", bound_ns as f64 / 1e6)
            }
            _ => "no bound known".to_owned(),
        };
        table.row([
            agent.name.as_str(),
            &seen,
            &labels.join(" "),
            &facts.host,
            &addresses.join(" "),
            &clock,
            &facts.version,
        ]);
    }
    print(&table.render(&terminal::style()))
}

fn object(agent: &Agent) -> serde_json::Value {
    json!({
        "name": agent.name,
        "connected": agent.is_here(),
        "stopped": agent.has_stopped,
        "seen_seconds": agent.seen.map(|seen| seen.as_secs_f64()),
        "facts": agent.facts,
    })
}

pub(super) fn results(fleet: &Fleet, args: &ResultsArgs) -> Result<i32, CliError> {
    let outcomes = block_on(async { fleet.controller().await?.outcomes().await.map_err(refused) })?;
    match args.json {
        true => print_object(&json!({ "results": outcomes })),
        false => print(&table(&outcomes)),
    }
}

pub(super) fn forget(fleet: &Fleet, args: &ForgetArgs) -> Result<i32, CliError> {
    block_on(async { fleet.controller().await?.forget(&args.name).await.map_err(refused) })?;
    Ok(0)
}

/// One line for each outcome.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let left = |heading| (heading, Align::Left);
    let mut table = Table::new(["agent", "job", "kind", "result"].map(left));
    for outcome in outcomes {
        let kind = if outcome.kind.is_empty() { "-" } else { &outcome.kind };
        table.row([outcome.agent.as_str(), outcome.id.as_str(), kind, &sentence(outcome)]);
    }
    table.render(&terminal::style())
}

/// The record of an outcome, if it has one that this version reads.
pub(super) fn record(outcome: &Outcome) -> Option<Record> {
    weir_model::document::read(outcome.record.as_ref()?).ok()
}

fn sentence(outcome: &Outcome) -> String {
    let measured = record(outcome).map(|record| in_one_sentence(&record));
    let failed = outcome.error.as_ref().map(|error| format!("failed: {}", error.message));
    let ended = || match outcome.exit_code {
        Some(0) => "done".to_owned(),
        Some(code) => format!("exit code {code}"),
        None => "killed".to_owned(),
    };
    let parts: Vec<String> = failed.into_iter().chain(measured).collect();
    if parts.is_empty() { ended() } else { parts.join("; ") }
}
