//! `weir fleet logs`: notices of agents and events of their jobs, as they pass by.

use clap::Args;
use serde_json::json;
use weir_fleet::{AgentName, JobId, Selector};
use weir_jobs::Event;
use weir_report::clean;
use weir_report::page::in_one_sentence;

use super::{Fleet, block_on, listening, refused, stopped};
use crate::error::CliError;
use crate::output::print;
use crate::stamp;

/// From now on; what passed by before is not stored
#[derive(Debug, Args)]
#[command(after_help = "Ctrl-C ends it. Results are kept: weir fleet results.")]
pub(crate) struct LogsArgs {
    /// Only of these agents: names and labels KEY=VALUE, separated by commas [default: all, also those that connect later]
    #[arg(long, value_name = "AGENTS")]
    on: Option<Selector>,
    /// Only of this job
    #[arg(long, value_name = "JOB")]
    job: Option<JobId>,
    /// Print JSON lines: agent, job, and the event as in --json-stream
    #[arg(short = 'J', long)]
    json: bool,
}

pub(super) fn run(fleet: &Fleet, args: &LogsArgs) -> Result<i32, CliError> {
    let stop = listening()?;
    block_on(async {
        let controller = fleet.controller().await?;
        let chosen: Option<Vec<AgentName>> = match &args.on {
            None => None,
            Some(on) => {
                let agents = controller.agents().await.map_err(refused)?;
                let chosen = on.choose(&agents, stamp::VERSION);
                let chosen = chosen.map_err(|refusal| refused((*refusal).into()))?;
                Some(chosen.into_iter().map(|agent| agent.name.clone()).collect())
            }
        };
        let mut log = controller.log().await.map_err(refused)?;
        loop {
            let (agent, job, event) = tokio::select! {
                next = log.next() => match next {
                    Some(next) => next,
                    None => return Ok(3),
                },
                reason = stopped(&stop, 1) => return Ok(reason.service_exit_code()),
            };
            let is_other_agent = chosen.as_ref().is_some_and(|chosen| !chosen.contains(&agent));
            if is_other_agent || (args.job.is_some() && args.job != job) {
                continue;
            }
            let line = match args.json {
                true => json!({ "agent": agent, "job": job, "event": event }).to_string(),
                false => match words(&event) {
                    // An agent's own words must not control the terminal.
                    Some(words) => match (job, clean(&words)) {
                        (Some(job), words) => format!("{agent}: job {job}: {words}"),
                        (None, words) => format!("{agent}: {words}"),
                    },
                    None => continue,
                },
            };
            let code = print(&format!("{line}\n"))?;
            if code != 0 {
                return Ok(code);
            }
        }
    })
}

/// An event for people; `None` for those that only programs need.
fn words(event: &Event) -> Option<String> {
    Some(match event {
        Event::Progress(notice) => notice.message.clone(),
        Event::Warning(notice) => format!("warning: {}", notice.message),
        Event::Error(refusal) => format!("error: {}", refusal.message),
        Event::Listening(listening) => format!("listens on {}", listening.addresses.join(", ")),
        Event::Ready(_) => "ready".into(),
        Event::Start(_) => "the test starts".into(),
        Event::SessionOpened { peer, .. } => format!("session of {peer}"),
        Event::SessionClosed { peer, reason, .. } => format!("session of {peer} ended: {reason}"),
        Event::Refused { peer, reason, .. } => format!("{peer} was refused: {reason}"),
        Event::End(record) => in_one_sentence(record),
        _ => return None,
    })
}
