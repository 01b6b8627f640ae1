//! How well the clocks of agents agree, and how closely tests started by them.

use weir_fleet::{Controller, StartInstant, StartSpread};
use weir_model::plan::Direction;
use weir_model::record::Record;

use super::hosts::Held;
use super::refused;
use crate::error::CliError;

/// Asks each agent for the error of its clock now, and refuses the first one whose clock may be further off than `most_ns`.
pub(super) async fn check_clocks<'a>(
    controller: &Controller,
    agents: impl Iterator<Item = &'a mut Held>,
    most_ns: Option<u64>,
) -> Result<(), CliError> {
    let mut agents: Vec<&mut Held> = agents.collect();
    for held in &mut agents {
        held.clock_bound_ns = controller.state(&held.name).await.map_err(refused)?.clock_bound_ns;
    }
    let Some(most_ns) = most_ns else { return Ok(()) };
    let seconds = |ns: u64| weir_report::duration(ns as f64 / 1e9);
    for held in &agents {
        let bound = bound_between(agents.iter().map(|held| &**held), held);
        let given = match bound {
            Some(bound_ns) if bound_ns <= most_ns => continue,
            Some(bound_ns) => {
                format!("{}, whose clock may be {} off", held.name, seconds(bound_ns))
            }
            None => format!("{}, whose clock has no known bound", held.name),
        };
        let accepted = format!("agents whose clocks are within {}", seconds(most_ns));
        return Err(CliError::flag("--max-start-error", given, &accepted));
    }
    Ok(())
}

/// Largest error of an agent's clock against the others', ns: none if all have the same clock. `None`: unknown.
pub(super) fn bound_between<'a>(
    mut all: impl Iterator<Item = &'a Held>,
    one: &Held,
) -> Option<u64> {
    let is_own =
        |other: &Held| one.facts.clock_id.is_some() && other.facts.clock_id == one.facts.clock_id;
    match all.all(is_own) {
        true => Some(0),
        false => one.clock_bound_ns,
    }
}

/// When an agent's test sent its first data; `None` if that was not measured: it sent nothing itself.
pub(super) fn start_of(record: &Record, at_unix_ns: u64, held: &Held) -> Option<StartInstant> {
    let late = record.warnings.iter().find(|w| w.code == "start-late").and_then(|w| w.value);
    let sent = record
        .flows
        .iter()
        .filter(|flow| flow.direction == Direction::Forward)
        .filter_map(|flow| flow.sender.as_ref()?.start_seconds)
        .reduce(f64::min)?;
    let after_ns = ((sent + late.unwrap_or(0.0)) * 1e9).round().max(0.0) as u64;
    Some(StartInstant {
        unix_ns: at_unix_ns.saturating_add(after_ns),
        bound_ns: held.clock_bound_ns,
        clock_id: held.facts.clock_id.clone(),
    })
}

/// The spread of starts in a line.
pub(super) fn spread_line(spread: &StartSpread) -> String {
    let time = |ns: u64| weir_report::duration(ns as f64 / 1e9);
    let bound = match spread.bound_ns {
        Some(0) => "by one clock".to_owned(),
        Some(ns) => format!("clocks: ± {}", time(ns)),
        None => "clocks: no bound known".to_owned(),
    };
    format!("{} tests started within {} ({bound})\n", spread.tests, time(spread.spread_ns))
}
