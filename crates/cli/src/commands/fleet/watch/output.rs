//! What a watch prints: a table on a terminal, else a line for each event.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stdout};

use weir_fleet::AgentName;
use weir_model::json::to_line;
use weir_model::units::Span;
use weir_model::watch::{AgentState, ChangedFigure, Line, Mesh, PairFigures};
use weir_report::{Align, Table, duration, percent};

use super::PairNames;
use super::probes::Pair;
use crate::error::CliError;
use crate::output::Sink;
use crate::terminal;

/// Cursor to the first line, and an empty screen from there.
const CLEAR: &str = "\x1b[H\x1b[J";
/// Latest events below the table.
const MAX_EVENTS: usize = 8;
/// Figures that are older than this are not current, s.
const STALE_SECONDS: u64 = 15;

enum Form {
    Json,
    Lines,
    /// The latest events below the table.
    Table(Vec<String>),
}

pub(super) struct Output {
    form: Form,
    sink: Sink,
}

impl Output {
    pub(super) fn new(is_json: bool) -> Output {
        let form = match is_json {
            true => Form::Json,
            false if stdout().is_terminal() => Form::Table(vec![]),
            false => Form::Lines,
        };
        Output { form, sink: Sink::to(Box::new(stdout())) }
    }

    /// Whether the reader of the output is gone, or it can't be written.
    pub(super) fn is_over(&self) -> bool {
        self.sink.is_gone()
    }

    /// Why the output could not be written.
    pub(super) fn failure(&mut self) -> Option<CliError> {
        self.sink.failure()
    }

    /// Prints an event.
    pub(super) fn line(&mut self, line: &Line) {
        let is_event = !matches!(line, Line::Second(_) | Line::Start(_));
        match &mut self.form {
            Form::Json => {
                let text = to_line(line).unwrap_or_default();
                self.sink.raw(&(text + "\n"));
            }
            Form::Lines => self.sink.text(&format!("{}\n", weir_report::clean(&text(line)))),
            Form::Table(events) if is_event => {
                // Names and reasons come from agents.
                events.push(weir_report::clean(&text(line)).into_owned());
                let more = events.len().saturating_sub(MAX_EVENTS);
                events.drain(..more);
            }
            Form::Table(_) => {}
        }
    }

    /// Draws the table, on a terminal.
    pub(super) fn draw(
        &mut self,
        mesh: &Mesh,
        pairs: &BTreeMap<PairNames, Pair>,
        is_gone: &dyn Fn(&AgentName) -> bool,
        now: f64,
    ) {
        let Form::Table(events) = &self.form else { return };
        let table = table(mesh, pairs, is_gone, now).render(&terminal::style());
        let text = format!("{CLEAR}mesh {}\n{table}{}\n", mesh.name, events.join("\n"));
        self.sink.raw(&text);
    }
}

fn table(
    mesh: &Mesh,
    pairs: &BTreeMap<PairNames, Pair>,
    is_gone: &dyn Fn(&AgentName) -> bool,
    now: f64,
) -> Table {
    let (left, right) = (Align::Left, Align::Right);
    let mut headings = vec![
        ("from".to_owned(), left),
        ("to".to_owned(), left),
        ("round trip".to_owned(), right),
        ("there".to_owned(), right),
        ("back".to_owned(), right),
        ("loss".to_owned(), right),
    ];
    let mut windows: Vec<Span> = mesh.windows.clone();
    windows.sort_unstable();
    for window in &windows {
        headings.push((format!("median {window}"), right));
        headings.push((format!("loss {window}"), right));
    }
    let mut table = Table::new(headings);
    for (names, pair) in pairs {
        let mut cells = vec![names.0.to_string(), names.1.to_string()];
        let gone = [&names.0, &names.1].into_iter().find(|name| is_gone(name));
        match (gone, pair.latest(), pair.failure()) {
            (Some(name), ..) => cells.push(format!("{name} gone")),
            (None, _, Some(_)) => cells.push("no answer".into()),
            (None, None, None) => cells.push("starting".into()),
            (None, Some((at, figures, windows)), None) => {
                let is_stale = now as u64 > at.saturating_add(STALE_SECONDS);
                let latest = if is_stale { &PairFigures::default() } else { figures };
                let mean = latest.round_trip.as_ref().map(|delay| delay.mean_seconds);
                cells.push(time(mean));
                cells.push(time(latest.forward_delay_seconds));
                cells.push(time(latest.return_delay_seconds));
                cells.push(ratio(latest.loss_ratio));
                for window in windows {
                    let trips = window.figures.round_trip.as_ref();
                    cells.push(time(trips.and_then(|delay| delay.p50_seconds)));
                    cells.push(ratio(window.figures.loss_ratio));
                }
            }
        }
        table.row(cells);
    }
    table
}

fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), duration)
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), percent)
}

/// A line as text.
fn text(line: &Line) -> String {
    match line {
        Line::Start(start) => {
            let (agents, pairs) = (start.agents.len(), start.pairs.len());
            let agents = weir_model::counted(agents as u64, "agent");
            format!("mesh {}: {agents}, {}", start.mesh, weir_model::counted(pairs as u64, "pair"))
        }
        Line::Agent(agent) => {
            let address = agent.address.as_ref().map(|address| format!(" at {address}"));
            let state = match agent.state {
                AgentState::Connected => "connected",
                AgentState::Gone => "gone",
                AgentState::Unusable => "can't be measured",
            };
            let reason = agent.reason.as_ref().map(|reason| format!(": {reason}"));
            let (address, reason) = (address.unwrap_or_default(), reason.unwrap_or_default());
            format!("agent {} {state}{address}{reason}", agent.agent)
        }
        Line::Second(second) => {
            let figures = &second.figures;
            let trips = figures.round_trip.as_ref().map(|delay| {
                let mean = duration(delay.mean_seconds);
                let (least, most) = (duration(delay.min_seconds), duration(delay.max_seconds));
                format!("round trip {mean} ({least} to {most})")
            });
            format!(
                "{} to {}: {}, there {}, back {}, {} of {} lost",
                second.from,
                second.to,
                trips.unwrap_or_else(|| "no answer".into()),
                time(figures.forward_delay_seconds),
                time(figures.return_delay_seconds),
                figures.lost_packets,
                figures.sent_packets,
            )
        }
        Line::Burst(burst) => {
            let rate = burst.bits_per_second.map(|rate| weir_report::Units::ADAPTIVE.rate(rate));
            let result = rate.or_else(|| burst.error.clone()).unwrap_or_else(|| "no result".into());
            format!("{} to {}: {} burst: {result}", burst.from, burst.to, burst.transport)
        }
        Line::Change(change) => {
            let (name, value): (&str, fn(Option<f64>) -> String) = match change.figure {
                ChangedFigure::RoundTrip => ("median round trip", time),
                ChangedFigure::Loss => ("loss", ratio),
            };
            let (before, after) = (value(Some(change.before)), value(Some(change.after)));
            format!("{} to {}: {name} changed from {before} to {after}", change.from, change.to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_report::Style;

    #[test]
    fn a_pair_without_figures_has_a_row() {
        let mesh = Mesh::parse("schema = \"weir.mesh/1\"\nname = \"m\"").unwrap();
        let names = ("a".parse().unwrap(), "b".parse().unwrap());
        let pairs = [(names, Pair::new(&mesh))].into();
        let rows = |is_gone: bool| {
            table(&mesh, &pairs, &|_| is_gone, 0.0).render(&Style::PLAIN).lines().count()
        };
        assert_eq!((rows(false), rows(true)), (2, 2));
    }
}
