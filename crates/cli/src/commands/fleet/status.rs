//! `weir fleet status`: what runs and waits at each agent.

use clap::Args;
use serde_json::json;
use tokio::task::JoinSet;
use weir_fleet::{AgentName, AgentState};
use weir_report::{Align, Table};

use super::{Fleet, block_on, refused};
use crate::error::CliError;
use crate::output::{print, print_object};
use crate::terminal;

/// Jobs in the order in which they run
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print JSON
    #[arg(short = 'J', long)]
    json: bool,
}

pub(super) fn run(fleet: &Fleet, args: &StatusArgs) -> Result<i32, CliError> {
    let states = block_on(states(fleet))?;
    if args.json {
        let list: Vec<_> = states
            .iter()
            .map(|(agent, state)| match state {
                Ok(state) => json!({ "agent": agent, "jobs": state.jobs }),
                Err(reason) => json!({ "agent": agent, "error": reason }),
            })
            .collect();
        return print_object(&json!({ "agents": list }));
    }
    let left = |heading| (heading, Align::Left);
    let mut table = Table::new(["agent", "job", "kind", "resource", "state"].map(left));
    for (agent, state) in &states {
        let jobs = match state {
            Err(reason) => {
                table.row([agent.as_str(), "-", "-", "-", reason]);
                continue;
            }
            Ok(state) => &state.jobs,
        };
        if jobs.is_empty() {
            table.row([agent.as_str(), "-", "-", "-", "idle"]);
        }
        for job in jobs {
            let state = match job.running_seconds {
                Some(seconds) => format!("running for {}", weir_report::duration(seconds as f64)),
                None => format!("waiting, after {}", job.before),
            };
            let resource = match &job.hold {
                Some(hold) => format!("{} (hold {hold})", job.resource),
                None => job.resource.to_string(),
            };
            table.row([agent.as_str(), job.id.as_str(), &job.kind, &resource, &state]);
        }
    }
    print(&table.render(&terminal::style()))
}

type State = (AgentName, Result<AgentState, String>);

async fn states(fleet: &Fleet) -> Result<Vec<State>, CliError> {
    let controller = fleet.controller().await?;
    let agents = controller.agents().await.map_err(refused)?;
    let mut asking = JoinSet::new();
    let mut states: Vec<State> = vec![];
    for agent in agents {
        if !agent.is_here() {
            let word = if agent.has_stopped { "stopped" } else { "gone" };
            states.push((agent.name, Err(word.into())));
            continue;
        }
        let controller = controller.clone();
        asking.spawn(async move {
            let state = controller.state(&agent.name).await;
            (agent.name, state.map_err(|error| error.to_string()))
        });
    }
    while let Some(Ok(state)) = asking.join_next().await {
        states.push(state);
    }
    states.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(states)
}
