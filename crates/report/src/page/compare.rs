//! The page that compares several runs.

use weir_model::metric::{Definition, METRICS, Statistic, largest};
use weir_model::plan::{Direction, TransportName};
use weir_model::record::Record;
use weir_model::warning::Severity;

use super::document::{Block, Document, Section};
use super::figures::figures_of_runs;
use super::grid::{Cell, Column, Grid};
use super::run::{generator, method, notices, of_run, status, what_ran};
use super::{phrases, tables};
use crate::plot::Quantity::{self, *};

/// A page about several runs: a table with a column for each run, overlaid charts, and warnings with their run. For a single
/// record it is that run's page.
pub fn of_runs(records: &[Record]) -> Document {
    if let [one] = records {
        return of_run(one);
    }
    let runs: Vec<(String, &Record)> =
        records.iter().enumerate().map(|(i, r)| (format!("run {}", i + 1), r)).collect();
    let all: Vec<&Record> = records.iter().collect();
    let mut sections = vec![
        Section::new("summary", "Runs", summary(&runs)),
        Section::new("results", "Side by side", vec![Block::Grid(side_by_side(&runs))]),
    ];
    let charts = figures_of_runs(&runs);
    if !charts.is_empty() {
        sections.push(Section::new("charts", "Charts", vec![Block::Figures(charts)]));
    }
    for (i, (name, record)) in runs.iter().enumerate() {
        let ran = what_ran(record);
        let heading = format!("What ran: {name}");
        sections.push(Section {
            background: true,
            ..Section::new(&format!("what-ran-{}", i + 1), &heading, ran.blocks)
        });
    }
    sections.push(method(&all));
    let verdicts: Vec<bool> =
        records.iter().filter_map(|r| Some(r.verdict.as_ref()?.passed)).collect();
    let mut notices: Vec<_> = runs.iter().flat_map(|(name, r)| notices(r, name)).collect();
    notices.sort_by_key(|n| match n.severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Info => 2,
    });
    Document {
        title: title(records),
        subtitle: format!("{} runs", records.len()),
        sentence: String::new(),
        passed: (!verdicts.is_empty()).then(|| verdicts.iter().all(|p| *p)),
        headlines: vec![],
        notices,
        sections,
        generator: generator(),
    }
}

fn title(records: &[Record]) -> String {
    let mut titles: Vec<String> = records.iter().map(phrases::title).collect();
    titles.dedup();
    match titles.as_slice() {
        [one] => format!("{one}: runs compared"),
        [] => "No runs".into(),
        _ => "Runs compared".into(),
    }
}

/// The table that identifies the runs, and how they differ.
fn summary(runs: &[(String, &Record)]) -> Vec<Block> {
    let mut grid = Grid::new(
        "Which run is which",
        [
            Column::text("Run"),
            Column::text("Id"),
            Column::text("Title"),
            Column::text("Started"),
            Column::figures("Length", Seconds),
            Column::text("Status"),
            Column::text("Flows"),
            Column::figures("Errors", Count),
            Column::figures("Warnings", Count),
            Column::figures("Notes", Count),
        ],
    );
    for (name, r) in runs {
        let count = |s| Cell::from(r.warnings.iter().filter(|w| w.severity == s).count() as u64);
        grid.row([
            name.as_str().into(),
            Cell::code(&r.id),
            phrases::title(r).into(),
            phrases::when(&r.started_at).into(),
            r.seconds.into(),
            status(r).into(),
            flows(r).into(),
            count(Severity::Error),
            count(Severity::Warning),
            count(Severity::Info),
        ]);
    }
    let mut blocks = vec![Block::Grid(grid)];
    let different = |what: fn(&Record) -> String| {
        runs.iter().any(|(_, r)| what(r) != runs.first().map_or(String::new(), |(_, r)| what(r)))
    };
    let host = |r: &Record| r.local.as_ref().map(|h| h.host.clone()).unwrap_or_default();
    let mut differences = vec![];
    for (what, differs) in [
        (
            "plans",
            different(|r| weir_model::json::to_line(&r.plan.connections).unwrap_or_default()),
        ),
        ("hosts", different(host)),
        ("versions of Weir", different(|r| r.version.clone())),
        (
            "time sources",
            different(|r| r.time_source.as_ref().map(|t| t.receive.clone()).unwrap_or_default()),
        ),
    ] {
        if differs {
            differences.push(what);
        }
    }
    blocks.push(Block::Text(if differences.is_empty() {
        "The runs have the same connections, host, version of Weir and time source.".into()
    } else {
        format!(
            "The runs differ in {}: what is compared is not only the path.",
            differences.join(", ")
        )
    }));
    blocks.push(Block::Text(
        "Whether a difference is more than chance needs repetitions: weir runs diff judges it."
            .into(),
    ));
    blocks
}

fn flows(record: &Record) -> String {
    let mut parts = vec![];
    for direction in [Direction::Forward, Direction::Reverse] {
        for transport in TransportName::ALL.iter().copied() {
            let n = record
                .flows
                .iter()
                .filter(|f| (f.direction, f.transport) == (direction, transport))
                .count();
            if n > 0 {
                parts.push(format!("{n} {} {direction}", transport.title()));
            }
        }
    }
    parts.join(", ")
}

/// A row for each figure, a column for each run.
fn side_by_side(runs: &[(String, &Record)]) -> Grid {
    let columns = std::iter::once(Column::text("Figure")).chain(
        runs.iter().map(|(name, _)| Column { quantity: Some(Number), ..Column::text(name) }),
    );
    let mut grid = Grid::new("Figures of each run", columns);
    let mut row = |what: &str, quantity: Quantity, value: &dyn Fn(&Record) -> Option<f64>| {
        let values: Vec<Option<f64>> =
            runs.iter().map(|(_, r)| value(r).filter(|v| v.is_finite())).collect();
        if values.iter().any(Option::is_some) {
            let cell = |v: Option<f64>| v.map_or(Cell::Absent, |v| Cell::With(quantity, v));
            let cells = values.into_iter().map(cell);
            grid.row(std::iter::once(Cell::from(what)).chain(cells));
        }
    };
    // Numbers of lost packets are included, in addition to their ratio.
    let compared = || METRICS.iter().filter(|m| m.is_compared || m.needs_both_ends);
    let mut metric = |m: &Definition, direction: Option<Direction>| {
        let statistics: &[Option<Statistic>] = match m.is_distribution() {
            true => &[Statistic::P50, Statistic::Min, Statistic::P99, Statistic::Max].map(Some),
            false => &[None],
        };
        let statistics = if m.is_of_run() { &statistics[..1] } else { statistics };
        for statistic in statistics {
            let mut head = m.label.to_string();
            if let Some(statistic) = statistic {
                head += &format!(", {}", tables::statistic(*statistic));
            }
            if let Some(direction) = direction {
                head += &format!(", {direction}");
            }
            row(&head, tables::quantity(m.unit), &|r| {
                let value = m.of(r, direction, *statistic);
                value.filter(|v| !m.is_rare || *v > 0.0)
            });
        }
    };
    for direction in [Direction::Forward, Direction::Reverse] {
        compared().filter(|m| !m.is_of_run()).for_each(|m| metric(m, Some(direction)));
    }
    compared().filter(|m| m.is_of_run()).for_each(|m| metric(m, None));
    for direction in [Direction::Forward, Direction::Reverse] {
        row(&format!("One-way delay ± error, {direction}"), Seconds, &|r| {
            let flows = r.flows.iter().filter(|f| f.direction == direction);
            let delays = flows.filter_map(|f| f.receiver.as_ref()?.one_way_delay.as_ref());
            largest(delays.map(|t| t.error_seconds))
        });
    }
    row("CPU this side, busiest core", Ratio, &|r| {
        r.cpu.as_ref()?.local.as_ref()?.busiest_core_ratio
    });
    row("CPU other side, busiest core", Ratio, &|r| {
        r.cpu.as_ref()?.remote.as_ref()?.busiest_core_ratio
    });
    grid.in_order = true;
    if runs.iter().any(|(_, r)| r.flows.len() > 1) {
        grid.caption
            .push_str("; times are those of the worst flow, minima the smallest of all flows");
    }
    grid
}
