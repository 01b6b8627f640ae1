//! The page of an experiment: expectations, the outcome of each step, tables and curves of sweeps.

use weir_model::counted;
use weir_model::experiment::{
    Experiment, Found, Metric, Outcome, ResultTable, RunRef, StepOutcome, Unit,
};
use weir_model::record::Status;
use weir_model::units::ByteSize;
use weir_model::warning::{Severity, is_host_limit};

use super::document::{Block, Document, Headline, Notice, Section, bind_colours};
use super::grid::{Cell, Column, Grid};
use super::run::generator;
use super::tables;
use crate::experiment::flat;
use crate::plot::{Axis, Figure, Mark, Point, Quantity, ReferenceLine, Series};
use crate::result_table;

/// A page about an experiment.
pub fn of_experiment(experiment: &Experiment) -> Document {
    let mut sections = vec![];
    let mut notices = vec![];
    let mut notice = |severity, code: &str, about: &str, text: String| {
        notices.push(Notice { severity, code: code.into(), about: about.into(), text });
    };
    if experiment.quick {
        let text = "Fewer and shorter runs than the method asks for: not for publication.".into();
        notice(Severity::Warning, "quick", "", text);
    }
    if experiment.simulated {
        let text = "On a virtual clock: no packet crossed a network.".into();
        notice(Severity::Info, "simulated", "", text);
    }
    if experiment.status != Status::Complete {
        let text = "The experiment is incomplete; the page shows the results so far.".into();
        notice(Severity::Warning, "partial", "", text);
    }
    for text in &experiment.warnings {
        // A text that starts with "resumed" lists how a later session differed; other texts are complete sentences.
        match text.starts_with("resumed ") {
            true => notice(
                Severity::Warning,
                "sessions",
                "",
                format!("The runs were not all made under the same conditions: {text}."),
            ),
            false => notice(Severity::Warning, "left-out", "", format!("{text}.")),
        }
    }
    let all = flat(&experiment.steps, "");
    for (name, step) in &all {
        let counted = || step.counted_runs();
        let host_limited = counted().filter(|r| r.host_limited).count();
        // The tests in a parallel step have their own notices.
        if host_limited > 0 && step.steps.is_empty() {
            let shaped = counted().filter(|r| r.host_limited);
            let mut codes: Vec<&str> =
                shaped.flat_map(|r| r.warnings.iter().map(String::as_str)).collect();
            codes.retain(|code| is_host_limit(code));
            codes.sort_unstable();
            codes.dedup();
            let text = format!(
                "{host_limited} of {} runs were host-limited: {}.",
                counted().count(),
                codes.join(", ")
            );
            notice(Severity::Warning, "host_limited", name, text);
        }
        for left_out in step.left_out_words() {
            notice(Severity::Info, "tool-left-out", name, format!("{left_out}."));
        }
        if let Some(reason) = &step.reason {
            let severity = match step.outcome {
                Outcome::Done | Outcome::Passed | Outcome::Skipped => Severity::Info,
                Outcome::Inconclusive => Severity::Warning,
                Outcome::Failed | Outcome::Error => Severity::Error,
            };
            let code = match (step.interrupted, step.outcome) {
                (true, Outcome::Inconclusive) => "interrupted",
                (_, Outcome::Done | Outcome::Passed) => "note",
                (_, outcome) => word(outcome),
            };
            notice(severity, code, name, reason.clone());
        }
    }
    let mut summary = vec![];
    if let Some(method) = &experiment.method {
        summary.push(Block::Text(method.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    summary.push(Block::Grid(expectations(&all)));
    sections.push(Section::new("summary", "Expectations and results", summary));
    if !experiment.tables.is_empty() {
        sections.push(Section::new("tables", "Tables", result_tables(&experiment.tables)));
    }
    for (i, (name, step)) in all.iter().enumerate() {
        let blocks = blocks(step, i);
        if !blocks.is_empty() {
            sections.push(Section::new(&format!("step-{}", i + 1), name, blocks));
        }
    }
    let heads: Vec<_> =
        experiment.hosts.iter().map(|used| (used.role.as_str(), Some(&used.host))).collect();
    sections.extend(tables::side_by_side(&heads).map(|grid| Section {
        background: true,
        ..Section::new("hosts", "Hosts", vec![Block::Grid(grid)])
    }));
    let commands: Vec<Block> = all.iter().flat_map(|(name, step)| commands(name, step)).collect();
    if !commands.is_empty() {
        sections.push(Section {
            background: true,
            ..Section::new("commands", "Commands, versions and seeds", commands)
        });
    }
    let variables = experiment.variables.iter().map(|(name, value)| {
        (format!("Variable {name}"), value.as_str().map_or_else(|| value.to_string(), Into::into))
    });
    let mut facts = vec![
        ("Experiment".to_owned(), experiment.id.clone()),
        ("Started".to_owned(), experiment.started_at.clone()),
        ("Seed of the order".to_owned(), experiment.seed.to_string()),
        ("Version".to_owned(), experiment.version.clone()),
    ];
    facts.extend(variables);
    sections.push(Section {
        background: true,
        ..Section::new(
            "what-ran",
            "What ran",
            vec![how_to_repeat(&experiment.command, &experiment.id), Block::Facts(facts)],
        )
    });
    sections.extend(meaning([experiment]));
    // The runs of a parallel step are sums over its nested steps.
    let own = all.iter().filter(|(_, s)| s.steps.is_empty());
    let made: Vec<_> = own.flat_map(|(_, s)| &s.runs).collect();
    let runs = made.iter().filter(|r| r.is_counted()).count();
    let again = made.iter().filter(|r| r.superseded).count();
    let failed = made.len() - runs - again;
    let beyond: Vec<String> = [(failed, "failed"), (again, "host-limited and repeated")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} more {what}"))
        .collect();
    let beyond = beyond.join(", ");
    bind_colours(&mut sections);
    Document {
        title: experiment.title.clone().unwrap_or_else(|| experiment.name.clone()),
        subtitle: format!(
            "{} · experiment {} · {} · {}",
            experiment.name,
            experiment.id,
            experiment.started_at,
            counted(runs, "run")
        ),
        sentence: String::new(),
        passed: match experiment.outcome {
            Outcome::Passed => Some(true),
            Outcome::Failed => Some(false),
            _ => None,
        },
        headlines: vec![
            Headline::new("Outcome", Some(outcome_text(experiment)), ""),
            Headline::new("Runs", Some(runs.to_string()), &beyond),
        ],
        notices,
        sections,
        generator: generator(),
    }
}

/// The definitions of the metrics that experiments show; absent without any.
pub(super) fn meaning<'a>(
    experiments: impl IntoIterator<Item = &'a Experiment>,
) -> Option<Section> {
    let mut names: Vec<&str> = vec![];
    for experiment in experiments {
        for (_, step) in flat(&experiment.steps, "") {
            names.extend(step.metric_names());
            if step.points.is_empty() {
                names.extend(step.runs.iter().flat_map(|r| r.metrics.keys().map(String::as_str)));
            }
        }
        let columns = experiment.tables.iter().flat_map(|t| &t.columns);
        names.extend(columns.flat_map(|c| c.metrics.iter().map(String::as_str)));
    }
    let definitions = super::definitions::of_metrics(names);
    (!definitions.is_empty()).then(|| super::run::meaning(definitions))
}

/// How to repeat the experiment: the command, or a note if a server started it with its own document, for which there is no
/// command.
fn how_to_repeat(command: &[String], id: &str) -> Block {
    // The server adds this flag (`ResultArgs::by_api` of the program).
    if command.iter().any(|word| word.starts_with("--by-api")) {
        return Block::Text(format!(
            "The API of weir serve --ui started it, with a scenario or a plan in a temporary file, so no command repeats it. \
             If it is stored, the first line of experiments/{id}.checkpoint in the directory of stored runs has its scenario under \
             \"scenario\". Save that to a file and run it with weir run and the seed below. Hosts named by the request are under \
             \"hosts\"."
        ));
    }
    Block::Command(super::run::command(command))
}

/// The verdict, or that the experiment was interrupted.
pub(super) fn outcome_text(experiment: &Experiment) -> String {
    let word = word(experiment.outcome);
    match (experiment.status, experiment.outcome) {
        (Status::Interrupted, Outcome::Inconclusive) => "interrupted".into(),
        (Status::Interrupted, _) => format!("{word}, interrupted"),
        _ => word.into(),
    }
}

/// A cell with a text; absent if the text is empty.
fn text_cell(text: String) -> Cell {
    if text.is_empty() { Cell::default() } else { Cell::Text(text) }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Passed => "passed",
        Outcome::Inconclusive => "inconclusive",
        Outcome::Failed => "failed",
        Outcome::Error => "error",
        Outcome::Skipped => "skipped",
    }
}

fn expectations(steps: &[(String, &StepOutcome)]) -> Grid {
    let heads = ["Step", "Expected", "Outcome", "Explanation"]
        .map(|head| Column { is_detail: head == "Explanation", ..Column::text(head) });
    let mut grid = Grid::new("Expectations, and steps without any", heads).keyed(2);
    for (name, step) in steps {
        for judged in &step.expectations {
            let at: Vec<String> = judged.at.iter().map(|(n, v)| format!("{n}={v}")).collect();
            let text = match at.is_empty() {
                true => judged.text.clone(),
                false => format!("{} [{}]", judged.text, at.join(" ")),
            };
            let outcome = Cell::Text(word(judged.outcome).into());
            grid.row([
                Cell::Text(name.clone()),
                Cell::Text(text),
                outcome,
                text_cell(judged.reason.clone()),
            ]);
        }
        if step.expectations.is_empty() && step.steps.is_empty() {
            let reason = step.reason.clone().unwrap_or_default();
            let outcome = match (step.interrupted, step.outcome) {
                (true, Outcome::Inconclusive) => "interrupted",
                (_, outcome) => word(outcome),
            };
            let outcome = Cell::Text(outcome.into());
            grid.row([
                Cell::Text(name.clone()),
                Cell::Text(step.action.clone()),
                outcome,
                text_cell(reason),
            ]);
        }
    }
    grid.without_empty_columns()
}

pub(crate) fn quantity(metric: &str) -> Quantity {
    match metric.parse::<Metric>().map(|m| m.unit()) {
        Ok(Unit::BitsPerSecond) => Quantity::BitsPerSecond,
        Ok(Unit::PacketsPerSecond) => Quantity::PacketsPerSecond,
        Ok(Unit::TransactionsPerSecond) => Quantity::TransactionsPerSecond,
        Ok(Unit::Seconds) => Quantity::Seconds,
        Ok(Unit::Ratio) => Quantity::Ratio,
        Ok(Unit::Bytes) => Quantity::Bytes,
        Ok(Unit::Count) => Quantity::Count,
        Ok(Unit::PerMinute) => Quantity::PerMinute,
        Err(_) => Quantity::Number,
    }
}

/// The end of a column's name for a quantity.
pub(crate) fn suffix(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Seconds => "_seconds",
        Quantity::BitsPerSecond => "_bits_per_second",
        Quantity::BytesPerSecond => "_bytes_per_second",
        Quantity::PacketsPerSecond => "_packets_per_second",
        Quantity::TransactionsPerSecond => "_transactions_per_second",
        Quantity::TransfersPerSecond => "_transfers_per_second",
        Quantity::Bytes => "_bytes",
        Quantity::Ratio => "_ratio",
        Quantity::PerMinute => "_per_minute",
        Quantity::Count | Quantity::Number => "",
    }
}

/// The name of a variance's column: it has the square of the unit, without a prefix.
fn variance(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::BitsPerSecond => "Variance, (bit/s)²",
        Quantity::PacketsPerSecond => "Variance, (packets/s)²",
        Quantity::TransactionsPerSecond => "Variance, (transactions/s)²",
        Quantity::TransfersPerSecond => "Variance, (transfers/s)²",
        Quantity::Seconds => "Variance, s²",
        Quantity::Bytes => "Variance, B²",
        Quantity::PerMinute => "Variance, (per minute)²",
        Quantity::Ratio | Quantity::Count | Quantity::Number | Quantity::BytesPerSecond => {
            "Variance"
        }
    }
}

fn blocks(step: &StepOutcome, number: usize) -> Vec<Block> {
    let mut out = vec![];
    let charts = figures(step, number).into_iter().chain(found_figures(step, number));
    let charts = charts.chain(super::search::trials(step, number));
    let charts: Vec<Figure> = charts.filter(|f| !f.is_empty()).collect();
    if !charts.is_empty() {
        out.push(Block::Figures(charts));
    }
    match step.is_search() {
        false => {
            out.extend(step.metric_names().into_iter().map(|name| Block::Grid(table(step, name))))
        }
        // Of other searches, the result says it all.
        true if has_saturation(step) => out.push(Block::Grid(trials(step))),
        true => {}
    }
    if !step.found.is_empty() {
        out.push(Block::Grid(found(step)));
    }
    if let Some(together) = &step.together {
        let time = |seconds| Unit::Seconds.show(seconds);
        let mut facts = vec![
            ("Tests that began together".to_owned(), together.tests.to_string()),
            (
                "Their first packets arrived within".to_owned(),
                time(together.first_packet_skew_seconds),
            ),
        ];
        facts.push((
            "Error of the clocks, at most".to_owned(),
            together.error_seconds.map_or_else(|| "not known".to_owned(), time),
        ));
        out.push(Block::Facts(facts));
    }
    if step.points.is_empty() && step.found.is_empty() {
        let with: Vec<_> = step.runs.iter().filter(|r| !r.metrics.is_empty()).collect();
        let has_crossing = with.iter().any(|r| r.crossing.is_some());
        let mut names: Vec<&str> = vec![];
        for name in with.iter().flat_map(|r| r.metrics.keys()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        if !names.is_empty() {
            let mut columns = vec![Column::text("Run")];
            columns.extend(names.iter().map(|n| Column::figures(n, quantity(n))));
            columns.extend(has_crossing.then(|| Column::text("Crossing")));
            let mut grid = Grid::new("Runs", columns);
            for run in with {
                let mut row = vec![Cell::code(run.id.as_deref().unwrap_or_default())];
                row.extend(names.iter().map(|n| figure(run.metrics.get(*n).copied())));
                let crossing =
                    || text_cell(run.crossing.map_or(String::new(), |c| c.word().into()));
                row.extend(has_crossing.then(crossing));
                grid.row(row);
            }
            out.push(Block::Grid(grid));
        }
    }
    for (stream, text) in step.printed() {
        let title = stream.unwrap_or("Output").into();
        out.push(Block::Verbatim { title, text: text.into() });
    }
    out
}

/// The scenario's tables, each with the sources of its published figures.
pub(super) fn result_tables(tables: &[ResultTable]) -> Vec<Block> {
    let mut out = vec![];
    for table in tables {
        let charts = result_table::figures(table);
        if !charts.is_empty() {
            out.push(Block::Figures(charts));
        }
        out.push(Block::Grid(result_table::grid(table)));
        out.extend(result_table::legend(table).map(|text| Block::Text(text.into())));
        if !table.sources.is_empty() {
            out.push(Block::Text(format!("Published: {}.", table.sources.join("; "))));
        }
    }
    out
}

/// The other tools of a step with their versions, and the command lines and seeds at each of its points.
fn commands(name: &str, step: &StepOutcome) -> Vec<Block> {
    let mut out = vec![];
    if !step.tools.is_empty() {
        let heads = ["Tool", "Version", "Programs"].map(Column::text);
        let mut grid = Grid::new(&format!("Tools of {name}"), heads);
        for tool in &step.tools {
            let version = tool.version.clone().unwrap_or_default();
            grid.row([Cell::from(&*tool.name), version.into(), tool.programs.join(", ").into()]);
        }
        out.push(Block::Grid(grid));
    }
    type Row<'a> = (&'a RunRef, Vec<String>);
    let mut rows: Vec<Row<'_>> = vec![];
    for run in &step.runs {
        let seed = run.seed.map(|seed| seed.to_string());
        let place =
            |run: &RunRef| (run.at.clone(), run.command.clone(), run.server_command.clone());
        match rows.iter_mut().find(|(first, _)| place(first) == place(run)) {
            Some((_, seeds)) => seeds.extend(seed),
            None => rows.push((run, seed.into_iter().collect())),
        }
    }
    // Runs are in shuffled order.
    rows.sort_by_key(|(run, _)| step.points.iter().position(|point| point.at == run.at));
    let mut axes: Vec<&String> = step.axes.iter().collect();
    for axis in rows.iter().flat_map(|(run, _)| run.at.keys()) {
        if !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    let heads = axes.iter().map(|axis| axis.as_str()).chain(["Client", "Server", "Seeds"]);
    let mut grid = Grid::new(&format!("Runs of {name}"), heads.map(Column::text));
    for (run, seeds) in rows {
        if run.command.is_empty() && seeds.is_empty() {
            continue;
        }
        let at = axes.iter().map(|axis| Cell::from(run.at.get(*axis).cloned().unwrap_or_default()));
        let command = |words: &[String]| Cell::code(&super::run::command(words));
        let rest = [command(&run.command), command(&run.server_command), seeds.join(" ").into()];
        grid.row(at.chain(rest));
    }
    let grid = grid.without_empty_columns();
    if !grid.rows.is_empty() {
        out.push(Block::Grid(grid));
    }
    // Every repetition's is in the result itself.
    for run in step.runs.iter().filter(|run| run.repetition == 1 || run.error.is_some()) {
        out.extend(run.printed().map(|(end, text)| Block::Verbatim {
            title: format!("{name}: {}", run.title_of(end)),
            text: text.into(),
        }));
    }
    out
}

/// Whether a step searched a saturation point.
fn has_saturation(step: &StepOutcome) -> bool {
    step.found.iter().any(|f| f.name == Found::SATURATION_POINT)
}

/// The trials of a search, a row for each load.
fn trials(step: &StepOutcome) -> Grid {
    let (sent, received) = step.rates();
    let mut columns: Vec<Column> = step.axes.iter().map(|a| Column::text(a)).collect();
    columns.push(Column::figures("Sent", quantity(sent)).group("rate"));
    columns.push(Column::figures("Received", quantity(received)).group("rate").compared());
    columns.push(Column::figures("Received of sent", Quantity::Ratio).compared());
    columns.push(Column::figures("Runs", Quantity::Count).detail());
    columns.push(Column::figures("Host-limited", Quantity::Count));
    let mut grid = Grid::new("Trials", columns).keyed(step.axes.len());
    for point in &step.points {
        let mean = |name: &str| figure(point.metrics.get(name).map(|s| s.mean));
        let at = step.axes.iter().map(|a| Cell::Text(point.at.get(a).cloned().unwrap_or_default()));
        let figures = [
            mean(sent),
            mean(received),
            mean("received_ratio"),
            Cell::Figure(point.runs as f64),
            Cell::Figure(point.host_limited as f64),
        ];
        grid.row(at.chain(figures));
    }
    grid
}

fn figure(value: Option<f64>) -> Cell {
    value.map_or(Cell::default(), Cell::Figure)
}

fn table(step: &StepOutcome, metric: &str) -> Grid {
    let kind = quantity(metric);
    let mut columns: Vec<Column> = step.axes.iter().map(|a| Column::text(a)).collect();
    columns.push(Column::figures("Mean", kind).group("metric").compared());
    columns.push(Column::figures("Interval, low", kind).group("metric"));
    columns.push(Column::figures("Interval, high", kind).group("metric"));
    // Often a thousandth of the mean: with a common unit, mean and interval would lose the digits in which they differ.
    columns.push(Column::figures("Deviation", kind).detail());
    columns.push(Column::figures(variance(kind), Quantity::Number).detail());
    columns.push(Column::figures("Min", kind).group("metric").detail());
    columns.push(Column::figures("Max", kind).group("metric").detail());
    columns.push(Column::figures("Runs", Quantity::Count).detail());
    columns.push(Column::figures("Host-limited", Quantity::Count));
    columns.push(Column::figures("Failed", Quantity::Count));
    columns.push(Column::text("Crossing"));
    let has_failed = step.points.iter().any(|p| p.failed > 0);
    let mut grid = Grid::new(metric, columns).keyed(step.axes.len());
    for point in &step.points {
        let summary = point.metrics.get(metric);
        let mut row: Vec<Cell> = step
            .axes
            .iter()
            .map(|axis| Cell::Text(point.at.get(axis).cloned().unwrap_or_default()))
            .collect();
        row.push(match step.sent_instead(point, metric) {
            Some(sent) => Cell::Text(format!("{} sent", kind.format(sent.mean))),
            None => figure(summary.map(|s| s.mean)),
        });
        row.push(figure(summary.and_then(|s| Some(s.interval?.low))));
        row.push(figure(summary.and_then(|s| Some(s.interval?.high))));
        row.push(figure(summary.and_then(|s| s.deviation)));
        row.push(figure(summary.and_then(|s| s.variance)));
        row.push(figure(summary.map(|s| s.min)));
        row.push(figure(summary.map(|s| s.max)));
        row.push(Cell::Figure(point.runs as f64));
        row.push(Cell::Figure(point.host_limited as f64));
        row.push(figure(has_failed.then_some(point.failed as f64)));
        row.push(text_cell(point.crossing.map_or(String::new(), |c| c.word().into())));
        grid.row(row);
    }
    grid.without_empty_columns()
}

fn unit_of(found: &Found) -> Quantity {
    match found.unit.as_str() {
        "bits_per_second" => Quantity::BitsPerSecond,
        "packets_per_second" => Quantity::PacketsPerSecond,
        "seconds" => Quantity::Seconds,
        "ratio" => Quantity::Ratio,
        "packets" => Quantity::Count,
        _ => Quantity::Number,
    }
}

fn found(step: &StepOutcome) -> Grid {
    let heads = [
        "What",
        "Where",
        "Figure",
        "Interval, low",
        "Interval, high",
        "Passed",
        "Did not pass",
        "Explanation",
    ]
    .map(|head| Column {
        is_compared: head == "Figure",
        is_detail: head == "Explanation",
        ..Column::text(head)
    });
    let mut grid = Grid::new("Found", heads).keyed(2);
    for found in &step.found {
        let at: Vec<String> = found.at.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let with = |v: Option<f64>| v.map_or(Cell::default(), |v| Cell::With(unit_of(found), v));
        grid.row([
            Cell::Text(found.name.clone()),
            text_cell(at.join(" ")),
            with(found.value),
            with(found.interval.map(|i| i.low)),
            with(found.interval.map(|i| i.high)),
            with(found.bounds.and_then(|b| b.low)),
            with(found.bounds.and_then(|b| b.high)),
            text_cell(match (found.host_limited, found.text.as_str()) {
                (true, "") => "host-limited".into(),
                (true, text) => format!("host-limited; {text}"),
                (false, text) => text.into(),
            }),
        ]);
    }
    grid.without_empty_columns()
}

/// A curve of each metric by the first numeric axis, with a series for each combination of the other axes; bars if no axis is
/// numeric.
fn figures(step: &StepOutcome, number: usize) -> Vec<Figure> {
    let numeric = |axis: &String| {
        let values = step.points.iter().filter_map(|p| p.at.get(axis));
        let read: Vec<Option<f64>> = values.map(|v| number_of(axis, v)).collect();
        read.len() > 1 && read.iter().all(Option::is_some)
    };
    let across = step.axes.iter().find(|a| numeric(a));
    let mut out = vec![];
    // The trials of a search have charts of their own.
    let names = if step.is_search() { vec![] } else { step.metric_names() };
    for metric in names {
        let kind = quantity(metric);
        let key = format!("{}{}", metric.replace([' ', '.'], "_"), suffix(kind));
        let y = Axis::new(metric, &key, kind);
        let id = format!("step-{}-{metric}", number + 1);
        let rest = |at: &std::collections::BTreeMap<String, String>, but: &[&String]| -> String {
            let words = step.axes.iter().filter(|a| !but.contains(a)).filter_map(|a| at.get(a));
            words.cloned().collect::<Vec<_>>().join(" ")
        };
        let title = format!("{}: {metric}", step.name);
        let mut names: Vec<String> = vec![];
        let mut figure = match across {
            Some(axis) => Figure::curve(&id, &title, axis_of(step, axis), y.tight()),
            None => {
                for point in &step.points {
                    let name = rest(&point.at, &[]);
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                Figure::grouped_bars(&id, &title, names.clone(), y)
            }
        };
        let by_tool = step.axes.iter().all(|a| a == TOOL || Some(a) == across);
        let mut series: Vec<(String, Option<usize>, Vec<Point>)> = vec![];
        for point in &step.points {
            let Some(summary) = point.metrics.get(metric) else { continue };
            let (name, x) = match across {
                Some(axis) => {
                    (rest(&point.at, &[axis]), point.at.get(axis).and_then(|v| number_of(axis, v)))
                }
                None => {
                    let name = rest(&point.at, &[]);
                    let place = names.iter().position(|n| *n == name).map(|i| i as f64);
                    (metric.to_owned(), place)
                }
            };
            let Some(x) = x else { continue };
            let mut drawn = Point::at(x, summary.mean).host_limited(point.host_limited > 0);
            if let Some(interval) = summary.interval {
                drawn = drawn.between(interval.low, interval.high);
            }
            // Rates of coalesced and per-packet runs are not comparable.
            let crossing = point.crossing.map_or(String::new(), |c| format!(" ({})", c.word()));
            let name = if name.is_empty() { metric.to_owned() } else { name } + &crossing;
            let tool = point.at.get(TOOL).filter(|_| by_tool && across.is_some());
            let colour = tool.and_then(|tool| TOOL_COLOURS.iter().position(|known| known == tool));
            match series.iter_mut().find(|(n, ..)| *n == name) {
                Some((.., points)) => points.push(drawn),
                None => series.push((name, colour, vec![drawn])),
            }
        }
        for (name, colour, mut points) in series {
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let series = match across {
                Some(_) => Series { colour, ..Series::curve(name) },
                None => Series::new(name, Mark::Bars),
            };
            figure = figure.with(series.points(points));
        }
        let intervals = || step.points.iter().filter_map(|p| p.metrics.get(metric)?.interval);
        let interval = intervals().next();
        let mut caption = vec![];
        if let Some(interval) = interval {
            // 95 % is whole, 99.9 % is not.
            let percentage = (interval.confidence_ratio * 1e6).round() / 1e4;
            caption.push(format!(
                "Means of the repetitions; error bars are {percentage} % confidence intervals of the mean."
            ));
            if intervals().any(|i| i.clipped) {
                caption.push("They end where the figure's own range does.".into());
            }
        }
        if step.points.iter().any(|p| p.host_limited > 0 && p.metrics.contains_key(metric)) {
            caption.push(
                "Hollow circles: tool or host, not the path, was the limit in runs of the point."
                    .into(),
            );
        }
        figure = figure.caption(caption.join(" "));
        out.push(figure);
    }
    out
}

/// The charts of a search: received against sent, the ratio received, and the loss at each fraction of the maximum rate, with a
/// series for each combination of its own axes.
fn found_figures(step: &StepOutcome, number: usize) -> Vec<Figure> {
    let curve = |id: &str, title: &str, x: Axis, y: Axis, points: Vec<(String, Point)>| {
        let id = format!("step-{}-{id}", number + 1);
        let figure = Figure::curve(&id, &format!("{}: {title}", step.name), x, y);
        let mut series: Vec<(String, Vec<Point>)> = vec![];
        for (name, point) in points {
            match series.iter_mut().find(|(n, _)| *n == name) {
                Some((_, points)) => points.push(point),
                None => series.push((name, vec![point])),
            }
        }
        series.into_iter().fold(figure, |figure, (name, mut points)| {
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let name = if name.is_empty() { title.to_owned() } else { name };
            figure.with(Series::curve(name).points(points))
        })
    };
    let axis = |name: &str, kind| {
        Axis::new(name, &format!("{}{}", name.replace(' ', "_"), suffix(kind)), kind)
    };
    let mut out = vec![];
    if has_saturation(step) {
        let (sent, received) = step.rates();
        let kind = quantity(sent);
        let charts = [
            (received, "received", "received", kind),
            ("received_ratio", "received-ratio", "received of sent", Quantity::Ratio),
        ];
        for (metric, id, what, y) in charts {
            let drawn = step.points.iter().filter_map(|point| {
                let (x, y) = (point.metrics.get(sent)?.mean, point.metrics.get(metric)?);
                let at = Point::at(x, y.mean).host_limited(point.host_limited > 0);
                let at = y.interval.map_or(at, |i| at.between(i.low, i.high));
                Some((super::search::name_of(step, &point.at), at))
            });
            let points: Vec<(String, Point)> = drawn.collect();
            if points.is_empty() {
                continue;
            }
            let title = format!("{what} against sent");
            let mut figure = curve(id, &title, axis("sent", kind), axis(what, y), points);
            for found in step.found.iter().filter(|f| f.name == Found::SATURATION_POINT) {
                if let Some(value) = found.value {
                    let name =
                        format!("{} {}", found.name, super::search::name_of(step, &found.at));
                    figure = figure.reference(name.trim(), ReferenceLine::Vertical(value));
                }
            }
            out.push(figure);
        }
    }
    let mut points = vec![];
    for loss in step.found.iter().filter(|f| f.name == "frame loss") {
        let share = loss.at.get("rate").and_then(|rate| number_of("rate", rate));
        if let (Some(share), Some(y)) = (share, loss.value) {
            let point = Point::at(share / 100.0, y).host_limited(loss.host_limited);
            points.push((super::search::name_of(step, &loss.at), point));
        }
    }
    if !points.is_empty() {
        let x = axis("fraction of the maximum rate", Quantity::Ratio);
        out.push(curve("frame-loss", "frame loss", x, axis("frame loss", Quantity::Ratio), points));
    }
    out
}

/// The axis of a comparison that names the tool.
const TOOL: &str = "tool";
/// Tools in the order of their colours: a tool has the same colour on all pages, whichever others were measured.
const TOOL_COLOURS: [&str; 6] = ["weir", "iperf3", "iperf", "nuttcp", "netperf", "d-itg"];

/// Parameters that are sizes in bytes, by the names that axes have.
const SIZES: [&str; 6] = ["size", "length", "payload", "bytes", "window", "mss"];
/// Sizes below this are drawn in bytes, without a prefix.
const PREFIX_FROM_BYTES: f64 = 10_000.0;

/// The horizontal axis of a step's charts, with the unit of its values.
fn axis_of(step: &StepOutcome, name: &str) -> Axis {
    let field = name.rsplit_once('.').map_or(name, |(_, field)| field);
    let values: Vec<&str> =
        step.points.iter().filter_map(|p| p.at.get(name)).map(String::as_str).collect();
    let all_end_in = |units: &[&str]| {
        let has_unit = |value: &&str| {
            let start = value.trim_end_matches(|c: char| c.is_alphabetic() || c == '%').len();
            units.contains(&&value[start..])
        };
        !values.is_empty() && values.iter().all(has_unit)
    };
    let largest = values.iter().filter_map(|value| number_of(name, value)).fold(0.0, f64::max);
    let number = |unit: &str| Axis::new(&format!("{name}, {unit}"), name, Quantity::Number);
    let with = |quantity| Axis::new(name, &format!("{name}{}", suffix(quantity)), quantity);
    match field {
        _ if SIZES.contains(&field) && largest < PREFIX_FROM_BYTES => number("B"),
        _ if SIZES.contains(&field) => with(Quantity::Bytes),
        _ if all_end_in(&["%"]) => number("%"),
        _ if all_end_in(&["pps"]) => with(Quantity::PacketsPerSecond),
        "rate" | "bitrate" | "nominal" => with(Quantity::BitsPerSecond),
        "duration" | "time" | "seconds" | "interval" | "omit" => with(Quantity::Seconds),
        _ if all_end_in(&["s", "ms", "us", "µs"]) => with(Quantity::Seconds),
        _ => Axis::new(name, name, Quantity::Number),
    }
}

/// A value of an axis as a number: `160`, `1.5`; `10M` with powers of ten, `64K` of a size with powers of 1024; a time with its
/// unit in seconds.
pub(crate) fn number_of(axis: &str, text: &str) -> Option<f64> {
    let field = axis.rsplit_once('.').map_or(axis, |(_, field)| field);
    if SIZES.contains(&field)
        && let Ok(size) = text.parse::<ByteSize>()
    {
        return Some(size.0 as f64);
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let number: f64 = number.parse().ok()?;
    let factor = match unit {
        "" | "%" | "s" | "pps" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        _ => return None,
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::experiment::{Confidence, Summary};

    fn sweep(axes: &[&str], points: &[(&[&str], f64)]) -> StepOutcome {
        let points = points.iter().map(|(at, mean)| weir_model::experiment::Point {
            at: axes
                .iter()
                .map(|a| (*a).to_owned())
                .zip(at.iter().map(|v| (*v).to_owned()))
                .collect(),
            runs: 3,
            metrics: [(
                "throughput".to_owned(),
                Summary {
                    count: 3,
                    mean: *mean,
                    interval: Some(Confidence {
                        low: mean - 1.0,
                        high: mean + 1.0,
                        confidence_ratio: 0.95,
                        ..Confidence::default()
                    }),
                    ..Summary::default()
                },
            )]
            .into(),
            ..Default::default()
        });
        StepOutcome {
            name: "s".into(),
            action: "sweep".into(),
            outcome: Outcome::Passed,
            reason: None,
            code: None,
            seconds: 1.0,
            runs: vec![],
            left_out: vec![],
            tools: vec![],
            axes: axes.iter().map(|a| (*a).to_owned()).collect(),
            points: points.collect(),
            found: vec![],
            together: None,
            output: None,
            stderr: None,
            expectations: vec![],
            steps: vec![],
            interrupted: false,
        }
    }

    fn experiment(step: StepOutcome) -> Experiment {
        let mut experiment: Experiment = serde_json::from_value(serde_json::json!({
            "schema": "weir.experiment/1", "id": "e", "version": "0", "name": "e", "started_at": "2026-11-22T10:00:00Z",
            "seconds": 1.0, "status": "complete", "command": [], "seed": "0x7", "steps": [], "outcome": "passed",
        }))
        .unwrap();
        experiment.steps.push(step);
        experiment
    }

    /// Sent and received rates are distinguished, and so are coalesced and per-packet rates.
    #[test]
    fn rows_and_series_say_which_rate_they_show() {
        use weir_model::experiment::Point;
        use weir_model::record::Crossing;
        let mut step = StepOutcome { action: "compare".into(), ..sweep(&["tool"], &[]) };
        let point = |tool: &str, metric: &str, crossing| Point {
            at: [("tool".to_owned(), tool.to_owned())].into(),
            runs: 1,
            crossing: Some(crossing),
            metrics: [(metric.to_owned(), Summary { count: 1, mean: 1e7, ..Summary::default() })]
                .into(),
            ..Point::default()
        };
        step.points = vec![
            point("weir", "throughput", Crossing::Coalesced),
            point("iperf", "sent_throughput", Crossing::PerPacket),
        ];
        let grid = table(&step, "throughput");
        let cell = |row: usize, head: &str| {
            let at = grid.columns.iter().position(|c| c.head == head).unwrap();
            grid.rows[row][at].clone()
        };
        assert_eq!(cell(0, "Mean"), Cell::Figure(1e7));
        assert_eq!(
            cell(1, "Mean"),
            Cell::Text(format!("{} sent", Quantity::BitsPerSecond.format(1e7)))
        );
        assert_eq!(cell(0, "Crossing"), Cell::Text("coalesced".into()));
        assert_eq!(cell(1, "Crossing"), Cell::Text("per-packet".into()));
        let drawn = figures(&step, 0);
        let series: Vec<&str> = drawn[0].series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!((drawn.len(), series), (1, vec!["throughput (coalesced)"]));
    }

    /// Without expectations the outcome is "done", not "passed".
    #[test]
    fn an_experiment_without_expectations_is_done() {
        let done = Experiment { outcome: Outcome::Done, ..experiment(sweep(&[], &[])) };
        let page = of_experiment(&done);
        assert_eq!(page.passed, None);
        assert_eq!(page.headlines[0].value.as_deref(), Some("done"));
    }

    /// As in the text output, superseded and failed runs are not counted.
    #[test]
    fn host_limited_runs_are_counted() {
        use weir_model::experiment::RunRef;
        let run = |superseded, error: Option<&str>, warning: Option<&str>| RunRef {
            superseded,
            error: error.map(Into::into),
            host_limited: warning.is_some(),
            // One that a limit of the host does not explain.
            warnings: warning.into_iter().chain(["window-limited"]).map(Into::into).collect(),
            ..RunRef::default()
        };
        let step = StepOutcome {
            runs: vec![
                run(true, None, Some("late-slots")),
                run(false, None, Some("cpu-stolen")),
                run(false, None, None),
                run(false, Some("terminated"), Some("missed-slots")),
            ],
            ..sweep(&[], &[])
        };
        let page = of_experiment(&experiment(step));
        let texts: Vec<&str> = page.notices.iter().map(|n| n.text.as_str()).collect();
        assert_eq!(texts, ["1 of 2 runs were host-limited: cpu-stolen."]);
    }

    /// Mean and interval keep the digits in which they differ, although the deviation is far smaller; failures are counted.
    #[test]
    fn a_small_deviation_costs_no_digits_and_failures_are_counted() {
        let mut step = sweep(&["direction"], &[(&["up"], 20_915.0), (&["down"], 20_917.0)]);
        for point in &mut step.points {
            let summary = point.metrics.get_mut("throughput").unwrap();
            (summary.deviation, summary.min, summary.max) = (Some(8.9), 20_900.0, 20_930.0);
            summary.variance = Some(279_947_489_391_985.0);
        }
        let text = |step: &StepOutcome| -> Vec<(String, String)> {
            let laid = table(step, "throughput").laid();
            let heads = laid.heads.iter().map(|(name, unit, _)| format!("{name} {unit}"));
            heads.zip(laid.rows[0].iter().map(|c| c.text.clone())).collect()
        };
        let cell = |rows: &[(String, String)], head: &str| {
            rows.iter().find(|(h, _)| h.trim() == head).map(|(_, text)| text.clone())
        };
        let cells = text(&step);
        assert_eq!(cell(&cells, "Min kbit/s").as_deref(), Some("20.90"), "{cells:?}");
        assert_eq!(cell(&cells, "Mean kbit/s").as_deref(), Some("20.91"), "{cells:?}");
        assert_eq!(cell(&cells, "Deviation bit/s").as_deref(), Some("8.900"), "{cells:?}");
        assert!(
            cells.iter().any(|(_, text)| text == "2.80e14"),
            "no digits that are none: {cells:?}"
        );
        assert_eq!(cell(&cells, "Failed"), None);
        step.points[1].failed = 1;
        assert_eq!(cell(&text(&step), "Failed").as_deref(), Some("0"));
    }

    /// The unit is shown in the heading.
    #[test]
    fn responsiveness_has_its_unit() {
        let mut step = sweep(&["direction"], &[(&["forward"], 1225.0)]);
        let summary = step.points[0].metrics.remove("throughput").unwrap();
        step.points[0].metrics.insert("responsiveness".into(), summary);
        let page = of_experiment(&experiment(step));
        let html = crate::page::html(&page);
        assert!(html.contains("responsiveness, per minute"), "{html}");
    }

    #[test]
    fn a_curve_runs_along_the_axis_of_numbers_with_a_line_for_each_of_the_others() {
        let step = sweep(
            &["tool", "size"],
            &[(&["a", "200"], 4.0), (&["a", "100"], 2.0), (&["b", "100"], 3.0)],
        );
        let figures = figures(&step, 0);
        let names: Vec<&str> = figures[0].series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let points: Vec<(f64, f64, Option<f64>)> =
            figures[0].series[0].points.iter().map(|p| (p.x, p.y, p.low)).collect();
        assert_eq!(points, [(100.0, 2.0, Some(1.0)), (200.0, 4.0, Some(3.0))]);
        assert!(figures[0].caption.contains("95 %"));
    }

    /// For an experiment started by the API the page shows no command.
    #[test]
    fn experiments_started_by_the_api_have_no_command() {
        let page_of = |line: &str| {
            let command = line.split(' ').map(Into::into).collect();
            let experiment = Experiment { command, ..experiment(sweep(&[], &[])) };
            let document = of_experiment(&experiment);
            crate::page::markdown(&document) + &crate::page::html(&document)
        };
        let page = page_of("weir run --json --by-api=e -- /tmp/weir-ui-x/1/scenario.json");
        assert!(!page.contains("To repeat") && !page.contains("--by-api"), "{page}");
        assert!(!page.contains("/tmp/weir-ui-"), "{page}");
        assert!(page.contains("experiments/e.checkpoint"), "{page}");
        let page = page_of("weir run --json -- scenario.json");
        assert!(page.contains("To repeat: `weir run --json -- scenario.json`"), "{page}");
    }

    /// For example that a precision was not reached, or that a tool was left out, even if the table has rows of expectations.
    #[test]
    fn the_reason_of_a_passed_step_is_a_notice() {
        let reason = "± 1 % was not reached: 214 runs were needed, 100 gave the figure";
        let step = StepOutcome { reason: Some(reason.into()), ..sweep(&[], &[(&[], 4.0)]) };
        let experiment: Experiment = serde_json::from_value(serde_json::json!({
            "schema": "weir.experiment/1", "id": "x", "version": "0", "name": "test", "started_at": "", "seconds": 1.0,
            "status": "complete", "command": [], "seed": 1, "steps": [step], "outcome": "passed",
        }))
        .unwrap();
        let notices = of_experiment(&experiment).notices;
        let [notice] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!((notice.severity, notice.about.as_str()), (Severity::Info, "s"));
        assert_eq!(notice.text, reason);
    }

    #[test]
    fn axes_without_numbers_are_bars() {
        let step = sweep(&["transport"], &[(&["tcp"], 4.0), (&["udp"], 2.0)]);
        let figures = figures(&step, 0);
        assert_eq!(figures[0].x.categories, ["tcp", "udp"]);
        assert_eq!(figures[0].series.len(), 1);
    }

    #[test]
    fn searches_are_drawn_against_the_sent_rate() {
        use weir_model::experiment::Point;
        let mut step = sweep(&["size", "rate"], &[]);
        step.action = "search".into();
        let summary = |mean| Summary { count: 1, mean, ..Summary::default() };
        let point = |rate: &str, sent: f64, received: f64| Point {
            at: [("size", "500"), ("rate", rate)].map(|(n, v)| (n.to_owned(), v.to_owned())).into(),
            runs: 1,
            metrics: [
                ("sent_packet_rate".to_owned(), summary(sent)),
                ("packet_rate".to_owned(), summary(received)),
                ("received_ratio".to_owned(), summary(received / sent)),
                ("loss".to_owned(), summary(0.0)),
            ]
            .into(),
            ..Point::default()
        };
        step.points = vec![point("20pps", 20.0, 10.0), point("10pps", 10.0, 10.0)];
        let found = |name: &str, at: &[(&str, &str)], value| Found {
            name: name.into(),
            at: at.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            value: Some(value),
            unit: "packets_per_second".into(),
            ..Found::default()
        };
        step.found = vec![found(Found::SATURATION_POINT, &[("size", "500")], 10.0)];
        let drawn = found_figures(&step, 0);
        let points = |i: usize| -> Vec<(f64, f64)> {
            drawn[i].series[0].points.iter().map(|p| (p.x, p.y)).collect()
        };
        assert_eq!(drawn[0].series[0].name, "size=500");
        assert_eq!(points(0), [(10.0, 10.0), (20.0, 10.0)]);
        assert_eq!(points(1), [(10.0, 1.0), (20.0, 0.5)]);
        assert_eq!(drawn[1].y.quantity, Quantity::Ratio);
        assert_eq!(drawn[0].references[0].line, ReferenceLine::Vertical(10.0));
        // No chart and no table of each metric of the trials.
        assert!(figures(&step, 0).is_empty());
        let grids = blocks(&step, 0).iter().filter(|b| matches!(b, Block::Grid(_))).count();
        assert_eq!(grids, 2);
        step.found = vec![found("frame loss", &[("rate", "90 %")], 0.25)];
        let drawn = found_figures(&step, 0);
        let point = &drawn[0].series[0].points[0];
        assert_eq!((drawn.len(), point.x, point.y), (1, 0.9, 0.25));
    }

    #[test]
    fn the_axis_has_the_unit_of_its_values() {
        let axis = |name: &str, values: [&str; 2]| {
            let [first, second] = values.map(|value| [value]);
            let axis = axis_of(&sweep(&[name], &[(&first, 1.0), (&second, 1.0)]), name);
            (axis.label, axis.key, axis.quantity)
        };
        let of = |label: &str, key: &str, quantity| (label.to_owned(), key.to_owned(), quantity);
        assert_eq!(axis("mss", ["128", "1408"]), of("mss, B", "mss", Quantity::Number));
        assert_eq!(axis("window", ["8K", "64K"]), of("window", "window_bytes", Quantity::Bytes));
        assert_eq!(axis("loss", ["1%", "5%"]), of("loss, %", "loss", Quantity::Number));
        let rate = of("rate", "rate_bits_per_second", Quantity::BitsPerSecond);
        assert_eq!(axis("rate", ["10M", "20M"]), rate);
        let rate = of("rate", "rate_packets_per_second", Quantity::PacketsPerSecond);
        assert_eq!(axis("rate", ["10pps", "20pps"]), rate);
        assert_eq!(axis("delay", ["5ms", "1s"]), of("delay", "delay_seconds", Quantity::Seconds));
        assert_eq!(axis("flows", ["1", "16"]), of("flows", "flows", Quantity::Number));
    }

    /// Without iperf3, too; and the axis starts at the data unless asked.
    #[test]
    fn a_tool_keeps_its_colour_and_charts_are_scaled_to_the_data() {
        let points =
            [(&["128", "weir"][..], 90.0), (&["256", "weir"], 95.0), (&["128", "nuttcp"], 91.0)];
        let step = StepOutcome { action: "compare".into(), ..sweep(&["size", "tool"], &points) };
        let drawn = figures(&step, 0);
        let series: Vec<_> = drawn[0].series.iter().map(|s| (s.name.as_str(), s.colour)).collect();
        assert_eq!(series, [("weir", Some(0)), ("nuttcp", Some(3))]);
        assert!(!drawn[0].y.from_zero);
        let mut page = of_experiment(&experiment(step));
        page.start_at_zero();
        assert!(page.figures().all(|f| f.y.from_zero) && page.figures().count() == 1);
    }

    #[test]
    fn a_page_says_which_commands_ran_on_which_hosts() {
        use weir_model::experiment::{HostUse, ToolVersion};
        let words = |text: &str| text.split(' ').map(Into::into).collect::<Vec<String>>();
        let run = |seed: Option<u64>, command: &str| RunRef {
            at: [("size".to_owned(), "128".to_owned())].into(),
            command: words(command),
            seed: seed.map(weir_model::units::Seed),
            ..RunRef::default()
        };
        let step = StepOutcome {
            runs: vec![
                run(Some(7), "weir test h"),
                run(Some(9), "weir test h"),
                RunRef {
                    output: Some("0-1 s 9 Mbit/s".into()),
                    repetition: 1,
                    ..run(None, "iperf -c h")
                },
            ],
            tools: vec![ToolVersion {
                name: "iperf".into(),
                version: Some("iperf version 2.1.8".into()),
                programs: words("iperf"),
            }],
            ..sweep(&["size"], &[])
        };
        let mut experiment = experiment(step);
        let mut host = HostUse { role: "a".into(), ..HostUse::default() };
        host.host.cpu.cache_bytes = [("L2".to_owned(), 1 << 20)].into();
        host.host.interfaces = vec![weir_model::record::Interface {
            name: "eth0".into(),
            card: Some("82574L (8086:10d3)".into()),
            bus: Some("pci 0000:03:00.0".into()),
            ..Default::default()
        }];
        experiment.hosts.push(host);
        let page = of_experiment(&experiment);
        let of = |id: &str| page.sections.iter().find(|s| s.id == id).unwrap();
        let grids = |id: &str| -> Vec<Grid> {
            let blocks = of(id).blocks.iter();
            blocks
                .filter_map(|b| if let Block::Grid(grid) = b { Some(grid.clone()) } else { None })
                .collect()
        };
        let verbatim = of("commands").blocks.iter().find_map(|block| match block {
            Block::Verbatim { title, text } => Some((title.clone(), text.clone())),
            _ => None,
        });
        assert_eq!(verbatim, Some(("s: size=128, run 1, client".into(), "0-1 s 9 Mbit/s".into())));
        let tools = &grids("commands")[0];
        assert_eq!(tools.rows[0][1], Cell::Text("iperf version 2.1.8".into()));
        let runs = &grids("commands")[1];
        let code = |text: &str| Cell::Code(text.into());
        assert_eq!(runs.rows[0], ["128".into(), code("weir test h"), "0x7 0x9".into()]);
        assert_eq!(runs.rows[1], ["128".into(), code("iperf -c h"), Cell::Absent]);
        let facts = format!("{:?}", grids("hosts")[0].rows).replace("\\u{a0}", " ");
        for fact in ["L2 1.00 MiB", "82574L (8086:10d3)", "pci 0000:03:00.0"] {
            assert!(facts.contains(fact), "{fact}: {facts}");
        }
    }

    #[test]
    fn values_with_units_are_numbers() {
        assert_eq!(number_of("rate", "10M"), Some(1e7));
        assert_eq!(number_of("size", "64K"), Some(65536.0));
        assert_eq!(number_of("data.payload", "1M"), Some(1_048_576.0));
        assert_eq!(number_of("delay", "5ms"), Some(0.005));
        assert_eq!(number_of("transport", "tcp"), None);
    }
}
