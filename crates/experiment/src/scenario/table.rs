//! Result tables: the points of steps laid out as a scenario's tables say, with published figures beside them.

use std::collections::BTreeMap;

use weir_model::experiment::{
    CellUnit, ChartSpec, Found, Metric, Piece, Point, PublishedColumns, ResultTable, RowFigure,
    STEP_AXIS, StepOutcome, TableAxis, TableCell, TableChart, TableColumn, TableFigure,
    TableReference, TableRow, TableSpec, alternatives, cell_pieces,
};

use super::published::{self, CsvTable};
use super::{Files, ScenarioError};

/// Heading of the measured columns, unless the table has one.
const MEASURED: &str = "measured";
/// Why a measured cell is empty that no single host can fill.
const NO_COUNTERPART: &str = "no counterpart";
/// A published file does not say more digits than this.
const MAX_DECIMALS: usize = 9;

/// Checks that the files of a table exist and have their columns.
pub(super) fn check(spec: &TableSpec, files: &Files) -> Result<(), ScenarioError> {
    for columns in &spec.published {
        read(columns, files)?;
    }
    Ok(())
}

fn read(columns: &PublishedColumns, files: &Files) -> Result<CsvTable, ScenarioError> {
    let named = columns.matching.values().chain(columns.filter.keys()).chain(&columns.columns);
    let figures = columns.figures.iter().filter(|name| !name.is_empty());
    published::file(&columns.file, named.chain(figures).chain(columns.scale.keys()), files)
}

/// The tables of a scenario from its steps.
///
/// # Errors
/// [`ScenarioError`] for a published file that can't be read.
pub(super) fn tables(
    specs: &[TableSpec],
    steps: &[StepOutcome],
    files: &Files,
) -> Result<Vec<ResultTable>, ScenarioError> {
    let mut out = vec![];
    for spec in specs {
        let read = |columns: &PublishedColumns| Ok((columns.clone(), read(columns, files)?));
        let files: Vec<_> =
            spec.published.iter().map(read).collect::<Result<_, ScenarioError>>()?;
        out.extend(Pivot::new(spec, &files).tables(steps));
    }
    Ok(out)
}

/// Where a figure belongs: the printed values of the split, of the rows and of the columns.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    split: Vec<String>,
    row: Vec<String>,
    column: ColumnKey,
}

#[derive(Debug, Clone, PartialEq)]
struct ColumnKey {
    group: String,
    head: String,
    /// Number of the published block; absent: measured.
    block: Option<usize>,
}

/// The figures of one place, one for each of the table's figures.
struct Entry {
    place: Place,
    values: Vec<Option<f64>>,
    /// Printed as they were published.
    texts: Vec<Option<String>>,
    absent: Option<&'static str>,
    host_limited: bool,
    /// Which of its values are lower bounds; empty: none.
    at_least: Vec<bool>,
}

/// A row of published statements.
struct Statement {
    labels: Vec<String>,
    /// The published text of each column that has one.
    texts: Vec<(ColumnKey, String)>,
}

struct Pivot<'a> {
    spec: &'a TableSpec,
    figures: Vec<TableFigure>,
    /// The pieces of each format, and the unit of each figure.
    formats: Vec<Vec<Piece>>,
    units: Vec<CellUnit>,
    files: &'a [(PublishedColumns, CsvTable)],
}

impl<'a> Pivot<'a> {
    fn new(spec: &'a TableSpec, files: &'a [(PublishedColumns, CsvTable)]) -> Pivot<'a> {
        let formats: Vec<Vec<Piece>> = spec.cells.iter().map(|cell| cell_pieces(cell)).collect();
        let units = formats.iter().flatten().filter_map(|piece| match piece {
            Piece::Figure(unit) => Some(*unit),
            Piece::Text(_) => None,
        });
        Pivot {
            spec,
            // The scenario was checked.
            figures: spec.figures.iter().filter_map(|f| TableFigure::parse(f).ok()).collect(),
            units: units.collect(),
            formats,
            files,
        }
    }

    fn tables(&self, steps: &[StepOutcome]) -> Vec<ResultTable> {
        if !self.spec.row_figures.is_empty() {
            return vec![self.statements(steps)];
        }
        let mut entries: Vec<Entry> = vec![];
        for (i, (columns, file)) in self.files.iter().enumerate() {
            entries.extend((0..file.len()).filter_map(|row| self.published(i, columns, file, row)));
        }
        self.measured(steps, &mut entries);
        let decimals: Vec<Option<usize>> =
            (0..self.figures.len()).map(|i| self.decimals(&entries, i)).collect();
        unique(entries.iter().map(|e| &e.place.split))
            .into_iter()
            .map(|split| {
                let own: Vec<&Entry> = entries.iter().filter(|e| e.place.split == split).collect();
                let charts = self.charts(&split, steps);
                ResultTable { charts, ..self.table(&split, &own, &decimals) }
            })
            .collect()
    }

    /// Decimals of a figure: those that were published.
    fn decimals(&self, entries: &[Entry], figure: usize) -> Option<usize> {
        let texts = entries.iter().filter_map(|e| e.texts.get(figure)?.as_deref());
        let numbers = texts.filter(|text| text.parse::<f64>().is_ok());
        numbers.map(decimals_of).max()
    }

    fn table(
        &self,
        split: &[String],
        entries: &[&Entry],
        decimals: &[Option<usize>],
    ) -> ResultTable {
        let mut keys = unique(entries.iter().map(|e| &e.place.column));
        keys.sort_by_key(|key| (key.block.is_none(), key.block));
        let rows = unique(entries.iter().map(|e| &e.place.row));
        let spec = self.spec;
        let axis = |(axis, value): (&String, &String)| TableAxis {
            axis: self.label(axis),
            value: value.clone(),
        };
        let at = spec.split.iter().zip(split).map(axis).collect();
        let title = spec.title.as_deref().unwrap_or(&spec.name);
        let title = match split.is_empty() {
            true => title.to_owned(),
            false => format!("{title}: {}", split.join(", ")),
        };
        let sources = keys.iter().filter_map(|key| Some(&self.files.get(key.block?)?.0.source));
        let row = |labels: &Vec<String>| TableRow {
            labels: labels.clone(),
            cells: keys
                .iter()
                .flat_map(|key| {
                    let here = entries
                        .iter()
                        .find(|e| e.place.row == *labels && e.place.column == *key)
                        .copied();
                    self.cells(here, key, decimals)
                })
                .collect(),
        };
        ResultTable {
            name: spec.name.clone(),
            title,
            at,
            row_heads: spec.rows.iter().map(|axis| self.label(axis)).collect(),
            columns: keys.iter().flat_map(|key| self.columns(key)).collect(),
            rows: rows.iter().map(row).collect(),
            sources: unique(sources),
            charts: vec![],
        }
    }

    /// The columns of one key: one for each format.
    fn columns(&self, key: &ColumnKey) -> Vec<TableColumn> {
        let mut first = 0;
        let mut out = vec![];
        for (i, pieces) in self.formats.iter().enumerate() {
            let count = pieces.iter().filter(|p| matches!(p, Piece::Figure(_))).count();
            let range = first..first + count;
            first += count;
            let own = self.spec.heads.get(i).map(String::as_str);
            let head = [key.head.as_str(), own.unwrap_or_default()];
            let head: Vec<&str> = head.into_iter().filter(|h| !h.is_empty()).collect();
            out.push(TableColumn {
                group: key.group.clone(),
                head: head.join(", "),
                format: self.spec.cells[i].clone(),
                units: self.units[range.clone()].iter().map(|u| u.word.to_owned()).collect(),
                metrics: self.spec.figures[range].to_vec(),
                published: key.block.is_some(),
            });
        }
        out
    }

    fn cells(
        &self,
        entry: Option<&Entry>,
        key: &ColumnKey,
        decimals: &[Option<usize>],
    ) -> Vec<TableCell> {
        let mut figure = 0;
        self.formats
            .iter()
            .map(|pieces| {
                let (mut text, mut texts, mut figures) = (String::new(), vec![], vec![]);
                for piece in pieces {
                    match piece {
                        Piece::Text(literal) => text += literal,
                        Piece::Figure(unit) => {
                            let value = entry.and_then(|e| *e.values.get(figure)?);
                            let is_bound =
                                entry.is_some_and(|e| e.at_least.get(figure) == Some(&true));
                            let bound = if is_bound { "≥ " } else { "" };
                            let measured =
                                |v: f64| format!("{bound}{}", show(v / unit.si, decimals[figure]));
                            let printed = entry
                                .and_then(|e| e.texts.get(figure)?.clone())
                                .or_else(|| value.map(measured));
                            text += printed.as_deref().unwrap_or("–");
                            texts.push(printed.unwrap_or_default());
                            figures.push(value.filter(|_| !is_bound));
                            figure += 1;
                        }
                    }
                }
                if texts.iter().all(String::is_empty) {
                    let why = match (entry, key.block) {
                        (_, Some(_)) => "not published",
                        (Some(entry), None) => entry.absent.unwrap_or("not measured"),
                        (None, None) => "not run",
                    };
                    return absent(why);
                }
                let host_limited = entry.is_some_and(|e| e.host_limited);
                TableCell { text, texts, figures, absent: None, host_limited }
            })
            .collect()
    }

    /// The heading of an axis.
    fn label(&self, axis: &str) -> String {
        self.spec.labels.get(axis).cloned().unwrap_or_else(|| axis.replace(['_', '|'], " "))
    }

    /// The printed value of an axis.
    fn printed(&self, axis: &str, value: &str) -> String {
        let names = self.spec.names.get(axis);
        let named = names.and_then(|names| {
            let is_it = |known: &str| known.eq_ignore_ascii_case(value);
            names.iter().find(|(from, to)| is_it(from) || is_it(to)).map(|(_, to)| to.clone())
        });
        named.unwrap_or_else(|| value.to_owned())
    }

    /// Where the figures of a row of a published file belong; absent if the block leaves the row out.
    fn published_place(
        &self,
        block: usize,
        columns: &PublishedColumns,
        file: &CsvTable,
        row: usize,
    ) -> Option<Place> {
        let cell = |name: &str| file.cell(row, name).unwrap_or_default();
        if columns.filter.iter().any(|(name, value)| cell(name) != value) {
            return None;
        }
        let at = |axis: &String| {
            let value = columns.matching.get(axis).map(|name| cell(name));
            let value = value.or_else(|| columns.at.get(axis).map(String::as_str));
            self.printed(axis, value.unwrap_or_default())
        };
        let heads: Vec<&str> = columns.columns.iter().map(|name| cell(name)).collect();
        let column = ColumnKey {
            group: columns.group.clone().unwrap_or_else(|| columns.source.clone()),
            head: heads.join(", "),
            block: Some(block),
        };
        let split = self.spec.split.iter().map(at).collect();
        Some(Place { split, row: self.spec.rows.iter().map(at).collect(), column })
    }

    fn published(
        &self,
        block: usize,
        columns: &PublishedColumns,
        file: &CsvTable,
        row: usize,
    ) -> Option<Entry> {
        let place = self.published_place(block, columns, file, row)?;
        let cell = |name: &str| file.cell(row, name).unwrap_or_default();
        let (mut values, mut texts) = (vec![], vec![]);
        for (name, unit) in columns.figures.iter().zip(&self.units) {
            let given = cell(name);
            let number: Option<f64> = given.parse().ok();
            let scale = columns.scale.get(name).copied();
            let scaled = number.map(|v| v * scale.unwrap_or(1.0));
            values.push(scaled.map(|v| v * unit.si));
            texts.push(match (given, scale, scaled) {
                ("", ..) => None,
                (_, Some(_), Some(value)) => Some(show(value, None)),
                (text, ..) => Some(text.to_owned()),
            });
        }
        Some(Entry { place, values, texts, absent: None, host_limited: false, at_least: vec![] })
    }

    /// The table of published statements: each row has one figure, in a unit of its own.
    fn statements(&self, steps: &[StepOutcome]) -> ResultTable {
        let spec = self.spec;
        let mut columns: Vec<ColumnKey> = vec![];
        let mut rows: Vec<Statement> = vec![];
        for (i, (block, file)) in self.files.iter().enumerate() {
            let name = block.figures.first().map_or("", String::as_str);
            for row in 0..file.len() {
                let Some(place) = self.published_place(i, block, file, row) else { continue };
                let text = file.cell(row, name).unwrap_or_default().to_owned();
                if !columns.contains(&place.column) {
                    columns.push(place.column.clone());
                }
                match rows.iter_mut().find(|known| known.labels == place.row) {
                    Some(known) => known.texts.push((place.column, text)),
                    None => {
                        let texts = vec![(place.column, text)];
                        rows.push(Statement { labels: place.row, texts });
                    }
                }
            }
        }
        let row = |Statement { labels, texts }: &Statement| {
            let own = spec.row_figures.iter().find(|row| {
                row.filter.iter().all(|(axis, value)| {
                    let place = spec.rows.iter().position(|a| a == axis);
                    let label = place.and_then(|i| labels.get(i));
                    label.is_some_and(|l| l.eq_ignore_ascii_case(&self.printed(axis, value)))
                })
            });
            let unit = own.and_then(RowFigure::unit);
            let mut decimals = None;
            let mut cells: Vec<TableCell> = columns
                .iter()
                .map(|key| {
                    let text = texts.iter().find(|(k, text)| k == key && !text.is_empty());
                    let Some((_, text)) = text else { return absent("not published") };
                    let number: Option<f64> = text.parse().ok();
                    decimals = decimals.max(number.map(|_| decimals_of(text)));
                    let figure = number.zip(unit).map(|(value, unit)| value * unit.si);
                    TableCell {
                        text: text.clone(),
                        texts: vec![text.clone()],
                        figures: vec![figure],
                        ..TableCell::default()
                    }
                })
                .collect();
            let measured = own.zip(unit).map(|(row, unit)| (largest(row, steps), unit));
            cells.push(match measured {
                None => absent(NO_COUNTERPART),
                Some((None, _)) => absent("not run"),
                Some((Some((value, host_limited)), unit)) => {
                    let text = show(value / unit.si, decimals);
                    let texts = vec![text.clone()];
                    TableCell {
                        text,
                        texts,
                        figures: vec![Some(value)],
                        absent: None,
                        host_limited,
                    }
                }
            });
            TableRow { labels: labels.clone(), cells }
        };
        let rows = rows.iter().map(row).collect();
        let measured = ColumnKey {
            group: spec.measured.clone().unwrap_or_else(|| MEASURED.into()),
            head: String::new(),
            block: None,
        };
        let columns = columns.into_iter().chain([measured]).map(|key| TableColumn {
            group: key.group,
            head: key.head,
            units: vec![String::new()],
            published: key.block.is_some(),
            ..TableColumn::default()
        });
        ResultTable {
            name: spec.name.clone(),
            title: spec.title.clone().unwrap_or_else(|| spec.name.clone()),
            row_heads: spec.rows.iter().map(|axis| self.label(axis)).collect(),
            columns: columns.collect(),
            rows,
            sources: unique(self.files.iter().map(|(block, _)| &block.source)),
            ..ResultTable::default()
        }
    }

    /// The charts of one table, with the saturation points that searches found where the horizontal axis is a sent rate.
    fn charts(&self, split: &[String], steps: &[StepOutcome]) -> Vec<TableChart> {
        let of = |text: &str| match TableFigure::parse(text) {
            Ok(TableFigure::Mean(metric)) => metric.to_string(),
            _ => text.to_owned(),
        };
        let chart = |chart: &ChartSpec| TableChart {
            x: of(&chart.x),
            y: of(&chart.y),
            references: self.saturation_points(&of(&chart.x), split, steps),
        };
        self.spec.charts.iter().map(chart).collect()
    }

    fn saturation_points(
        &self,
        x: &str,
        split: &[String],
        steps: &[StepOutcome],
    ) -> Vec<TableReference> {
        let mut out = vec![];
        if !StepOutcome::SENT_RATES.contains(&x) {
            return out;
        }
        for step in steps.iter().filter(|s| self.is_of(s)) {
            for found in step.found.iter().filter(|f| f.name == Found::SATURATION_POINT) {
                let here = self.values_of(step, &found.at, &self.spec.split);
                let (Some(value), true) = (found.value, here.as_deref() == Some(split)) else {
                    continue;
                };
                // In the unit of the horizontal axis, by the rates of a trial at the same axes.
                let is_same =
                    |p: &&Point| found.at.iter().all(|(axis, at)| p.at.get(axis) == Some(at));
                let rates = step.points.iter().filter(is_same).find_map(|p| {
                    Some((p.metrics.get(x)?.mean, p.metrics.get(step.rates().0)?.mean))
                });
                if let Some((to, from)) = rates.filter(|(_, from)| *from > 0.0) {
                    let value = value * to / from;
                    out.push(TableReference { name: found.name.clone(), value });
                }
            }
        }
        out
    }

    /// Whether a table shows a step.
    fn is_of(&self, step: &StepOutcome) -> bool {
        self.spec.steps.is_empty() || self.spec.steps.iter().any(|name| name == own_name(step))
    }

    /// The printed values of axes at a point of a step; absent if it lacks one.
    fn values_of(
        &self,
        step: &StepOutcome,
        at: &BTreeMap<String, String>,
        axes: &[String],
    ) -> Option<Vec<String>> {
        let of = |axis: &String| {
            let given = alternatives(axis).find_map(|one| match one == STEP_AXIS {
                true => Some(own_name(step)),
                false => at.get(one).map(String::as_str),
            })?;
            Some(self.printed(axis, given))
        };
        axes.iter().map(of).collect()
    }

    /// Whether a row, a column or a split is by one of these axes.
    fn is_by(&self, axis: &str) -> bool {
        let lists = [&self.spec.split, &self.spec.rows, &self.spec.columns];
        lists.into_iter().flatten().any(|listed| alternatives(listed).any(|one| one == axis))
    }

    fn measured(&self, steps: &[StepOutcome], out: &mut Vec<Entry>) {
        for step in steps {
            if self.is_of(step) {
                for left_out in &step.left_out {
                    let before = out.len();
                    self.add(step, &left_out.at, &|_| None, out);
                    if let Some(entry) = out.get_mut(before) {
                        entry.absent = Some(left_out.why.word());
                    }
                }
                // A table of results of a search that is not by the load has none of its trials.
                let load = step.axes.last().filter(|_| step.is_search());
                let has_points = load.is_none_or(|load| self.is_by(load));
                for point in step.points.iter().filter(|_| has_points) {
                    let before = out.len();
                    self.add(step, &point.at, &|figure| of_point(step, point, figure), out);
                    for entry in &mut out[before..] {
                        entry.host_limited = point.host_limited > 0;
                        entry.absent = (point.runs == 0 && point.failed > 0).then_some("failed");
                    }
                }
                let mut at: Vec<&BTreeMap<String, String>> = vec![];
                for found in &step.found {
                    let is_shown = self.figures.iter().any(|f| result(&[found], f).is_some());
                    if is_shown && !at.contains(&&found.at) {
                        at.push(&found.at);
                    }
                }
                for at in at {
                    let here: Vec<&Found> = step.found.iter().filter(|f| f.at == *at).collect();
                    let before = out.len();
                    self.add(step, at, &|figure| of_found(&here, figure), out);
                    for entry in &mut out[before..] {
                        entry.host_limited = here.iter().any(|found| found.host_limited);
                        entry.at_least = self.figures.iter().map(|f| is_bound(&here, f)).collect();
                    }
                }
            }
            self.measured(&step.steps, out);
        }
    }

    /// Adds the figures at a point, unless it lacks an axis of the table.
    fn add(
        &self,
        step: &StepOutcome,
        at: &BTreeMap<String, String>,
        value: &dyn Fn(&TableFigure) -> Option<f64>,
        out: &mut Vec<Entry>,
    ) {
        let values_of = |axes: &[String]| self.values_of(step, at, axes);
        let spec = self.spec;
        let (Some(split), Some(row), Some(head)) =
            (values_of(&spec.split), values_of(&spec.rows), values_of(&spec.columns))
        else {
            return;
        };
        let column = ColumnKey {
            group: spec.measured.clone().unwrap_or_else(|| MEASURED.into()),
            head: head.join(", "),
            block: None,
        };
        out.push(Entry {
            place: Place { split, row, column },
            values: self.figures.iter().map(value).collect(),
            texts: vec![],
            absent: None,
            host_limited: false,
            at_least: vec![],
        });
    }
}

/// The name of a step, without that of the repetition of the steps around it.
fn own_name(step: &StepOutcome) -> &str {
    step.name.split(" [").next().unwrap_or_default()
}

fn of_point(step: &StepOutcome, point: &Point, figure: &TableFigure) -> Option<f64> {
    let summary = |metric: &str| {
        point.metrics.get(metric).or_else(|| step.sent_instead(point, metric)).copied()
    };
    match figure {
        TableFigure::Mean(metric) => summary(&metric.to_string()).map(|s| s.mean),
        TableFigure::Variance(metric) => summary(&metric.to_string())?.variance,
        TableFigure::Deviation(metric) => summary(&metric.to_string())?.deviation,
        TableFigure::Found(_) => None,
    }
}

/// A result of a search, or a figure of the trial at it.
fn result<'f>(found: &[&'f Found], figure: &TableFigure) -> Option<&'f Found> {
    let name = match figure {
        TableFigure::Found(name) => name.clone(),
        TableFigure::Mean(metric) => metric.to_string(),
        TableFigure::Variance(_) | TableFigure::Deviation(_) => return None,
    };
    found.iter().find(|f| f.name == name).copied()
}

/// Whether only a lower bound is known: of the result, or with it of a rate at it.
fn is_bound(found: &[&Found], figure: &TableFigure) -> bool {
    let of = match figure {
        TableFigure::Mean(metric) if metric.is_reached() => found.first().copied(),
        figure => result(found, figure),
    };
    of.is_some_and(|of| of.value.is_none())
}

/// The value of a result, or its lower bound.
fn of_found(found: &[&Found], figure: &TableFigure) -> Option<f64> {
    let found = result(found, figure)?;
    found.value.or_else(|| found.bounds?.low)
}

/// The largest mean of a row's figure over the points of its step, and whether runs of that point were host-limited.
fn largest(row: &RowFigure, steps: &[StepOutcome]) -> Option<(f64, bool)> {
    let metric: Metric = row.figure.parse().ok()?;
    let name = metric.to_string();
    let of_step = |step: &StepOutcome| {
        let here = step.points.iter().filter(|_| own_name(step) == row.step);
        let here =
            here.filter(|p| row.at.iter().all(|(axis, value)| p.at.get(axis) == Some(value)));
        let figures = here.filter_map(|p| Some((p.metrics.get(&name)?.mean, p.host_limited > 0)));
        figures.chain(largest(row, &step.steps)).max_by(|(a, _), (b, _)| a.total_cmp(b))
    };
    steps.iter().filter_map(of_step).max_by(|(a, _), (b, _)| a.total_cmp(b))
}

fn absent(why: &str) -> TableCell {
    TableCell { absent: Some(why.into()), ..TableCell::default() }
}

/// The decimals of a number.
fn decimals_of(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, decimals)| decimals.len().min(MAX_DECIMALS))
}

/// A figure with these decimals; without, with four significant digits.
fn show(value: f64, decimals: Option<usize>) -> String {
    let decimals = decimals.unwrap_or_else(|| {
        let whole = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
        (3.0 - whole).clamp(0.0, MAX_DECIMALS as f64) as usize
    });
    let text = format!("{value:.decimals$}");
    // What rounds to nothing has no sign.
    if text.bytes().all(|b| matches!(b, b'-' | b'0' | b'.')) { text.replace('-', "") } else { text }
}

fn unique<'a, T: Clone + PartialEq + 'a>(all: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut out: Vec<T> = vec![];
    for one in all {
        if !out.contains(one) {
            out.push(one.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::experiment::Scenario;

    const TABLE: &str = r#"
rows = ["connections", "transport"]
split = ["nominal"]
figures = ["throughput", "ethernet_usage"]
cells = ["Mb/s (%)"]
measured = "here"
names = { transport = { udp = "UDP" }, nominal = { "100M" = "100BASE-TX" } }
labels = { transport = "Protocol" }
[[table.published]]
file = "study.csv"
source = "a study"
match = { nominal = "link", connections = "n", transport = "protocol" }
columns = ["os"]
figures = ["rate", "usage"]
"#;

    fn spec(table: &str) -> TableSpec {
        let text = format!(
            "schema = \"weir.scenario/1\"\nname = \"s\"\n[[table]]\nname = \"t\"\n{table}\n[lab]\n[[step]]\nname = \"x\"\nsweep = {{ over = [\"nominal=100M\", \"connections=1,16\", \"transport=udp,tcp\"], test = {{ to = \"b\" }} }}\n"
        );
        Scenario::parse(&text, false, &Default::default(), &Default::default())
            .unwrap()
            .tables
            .remove(0)
    }

    fn step() -> StepOutcome {
        let point = |connections: &str, transport: &str, rate: f64| {
            serde_json::json!({
                "at": { "nominal": "100M", "connections": connections, "transport": transport },
                "runs": 2, "host_limited": u8::from(rate > 9e7), "failed": 0,
                "metrics": {
                    "throughput": { "count": 2, "mean": rate, "variance": 4e12, "min": rate, "max": rate },
                    "ethernet_usage": { "count": 2, "mean": rate / 1e8, "min": 0.0, "max": 1.0 },
                },
            })
        };
        serde_json::from_value(serde_json::json!({
            "name": "x", "action": "sweep", "outcome": "done", "seconds": 1.0,
            "axes": ["nominal", "connections", "transport"],
            "points": [point("16", "tcp", 94.87e6), point("1", "udp", 8.5e7)],
        }))
        .unwrap()
    }

    fn csv(text: &str) -> CsvTable {
        published::parse(text).unwrap()
    }

    const STUDY: &str = "link,n,protocol,os,rate,usage\n100BASE-TX,1,udp,XP,93.3,96.2\n100BASE-TX,1,udp,Vista,95.0,97.9\n100BASE-TX,1,tcp,XP,92.8,\n1000BASE-T,1,udp,XP,809.8,~80\n";

    fn pivot(table: &str) -> Vec<ResultTable> {
        let spec = spec(table);
        let files: Vec<(PublishedColumns, CsvTable)> =
            spec.published.iter().map(|p| (p.clone(), csv(STUDY))).collect();
        Pivot::new(&spec, &files).tables(&[step()])
    }

    #[test]
    fn a_table_has_the_studys_rows_and_columns_and_ours() {
        let tables = pivot(TABLE);
        let titles: Vec<&str> = tables.iter().map(|t| t.title.as_str()).collect();
        assert_eq!(titles, ["t: 100BASE-TX", "t: 1000BASE-T"]);
        let first = &tables[0];
        assert_eq!(first.row_heads, ["connections", "Protocol"]);
        let heads: Vec<(&str, &str)> =
            first.columns.iter().map(|c| (c.group.as_str(), c.head.as_str())).collect();
        assert_eq!(heads, [("a study", "XP"), ("a study", "Vista"), ("here", "")]);
        let rows: Vec<Vec<&str>> = first
            .rows
            .iter()
            .map(|row| {
                let cells = row.cells.iter().map(|c| c.absent.as_deref().unwrap_or(&c.text));
                row.labels.iter().map(String::as_str).chain(cells).collect()
            })
            .collect();
        assert_eq!(
            rows,
            [
                vec!["1", "UDP", "93.3 (96.2)", "95.0 (97.9)", "85.0 (85.0)"],
                vec!["1", "tcp", "92.8 (–)", "not published", "not run"],
                // Only measured, with the decimals of the study.
                vec!["16", "tcp", "not published", "not published", "94.9 (94.9)"],
            ]
        );
        let usage = first.rows[0].cells[0].figures[1].unwrap();
        assert!((usage - 0.962).abs() < 1e-9, "{usage}");
        assert_eq!(first.rows[0].cells[0].figures[0], Some(93.3e6));
        assert!(first.rows[2].cells[2].host_limited && !first.rows[0].cells[2].host_limited);
        assert_eq!(first.sources, ["a study"]);
        // What is not a number is printed as it was published.
        assert_eq!(tables[1].rows[0].cells[0].text, "809.8 (~80)");
    }

    #[test]
    fn cells_may_be_columns_with_variances_and_scaled_figures() {
        let table = TABLE
            .replace("\"ethernet_usage\"", "\"variance throughput\"")
            .replace("[\"Mb/s (%)\"]", "[\"Mb/s\", \"(Mb/s)²\"]\nheads = [\"mean\", \"variance\"]")
            .replace("[\"rate\", \"usage\"]", "[\"rate\", \"\"]\nscale = { rate = 0.5 }");
        let first = &pivot(&table)[0];
        let heads: Vec<&str> = first.columns.iter().map(|c| c.head.as_str()).collect();
        assert_eq!(
            heads,
            ["XP, mean", "XP, variance", "Vista, mean", "Vista, variance", "mean", "variance"]
        );
        let cells: Vec<&str> = first.rows[0].cells.iter().map(|c| c.text.as_str()).collect();
        assert_eq!(cells, ["46.65", "", "47.50", "", "85.00", "4.000"]);
    }

    #[test]
    fn a_table_shows_what_searches_found_at_their_outer_axes() {
        let spec = |rows: &str, figures: &str| {
            let text = format!(
                "schema = \"weir.scenario/1\"\nname = \"s\"\n[[table]]\nname = \"t\"\nsteps = [\"x\"]\nrows = [{rows}]\ncolumns = [\"flows\"]\nfigures = [{figures}]\ncells = [\"packets/s (%)\"]\n[lab]\n[[step]]\nrepeat = {{ over = [\"flows=0,1\"], step = [{{ name = \"x\", search = {{ kind = \"throughput\", over = [\"size=1,2\"], trial = \"1s\", test = {{ to = \"b\" }} }} }}] }}\n"
            );
            let none = Default::default();
            Scenario::parse(&text, false, &Default::default(), &none).unwrap().tables.remove(0)
        };
        let step = |flows: &str, found: serde_json::Value| -> StepOutcome {
            let point = serde_json::json!({
                "at": { "size": "1", "flows": flows, "rate": "5pps" }, "runs": 1, "host_limited": 0, "failed": 0,
                "metrics": { "packet_rate": { "count": 1, "mean": 4.0, "min": 4.0, "max": 4.0 } },
            });
            serde_json::from_value(serde_json::json!({
                "name": format!("x [flows={flows}]"), "action": "search", "outcome": "done", "seconds": 1.0,
                "axes": ["size", "rate"], "points": [point], "found": found,
            }))
            .unwrap()
        };
        let found = |name: &str, flows: &str, value: Option<f64>| {
            serde_json::json!({
                "name": name, "at": { "size": "1", "flows": flows }, "value": value, "unit": "x",
                "bounds": { "low": 7.0 }, "host_limited": flows == "1",
            })
        };
        let steps = [
            step(
                "0",
                serde_json::json!([
                    found("throughput", "0", Some(9.0)),
                    found("emulator_cpu", "0", Some(0.5))
                ]),
            ),
            step(
                "1",
                serde_json::json!([
                    found("throughput", "1", None),
                    found("emulator_cpu", "1", Some(0.25))
                ]),
            ),
        ];
        let rows = |spec: &TableSpec| -> Vec<Vec<String>> {
            let tables = Pivot::new(spec, &[]).tables(&steps);
            let rows = tables[0].rows.iter();
            rows.map(|row| row.cells.iter().map(|cell| cell.text.clone()).collect()).collect()
        };
        let results = spec("\"size\"", "\"found throughput\", \"emulator_cpu\"");
        assert_eq!(rows(&results), [["9.000 (50.00)", "≥ 7.000 (25.00)"]]);
        let cells = &Pivot::new(&results, &[]).tables(&steps)[0].rows[0].cells;
        assert_eq!(cells[1].figures, [None, Some(0.25)]);
        assert!(cells[1].host_limited && !cells[0].host_limited);
        // A table of metrics has those at the result.
        let metrics = spec("\"size\"", "\"packet_rate\", \"emulator_cpu\"");
        assert_eq!(rows(&metrics), [["– (50.00)", "– (25.00)"]]);
        let trials = spec("\"size\", \"rate\"", "\"packet_rate\", \"loss\"");
        assert_eq!(rows(&trials), [["4.000 (–)", "4.000 (–)"]]);
    }

    /// A tool that was not measured keeps its row and column, and the cell has the reason.
    #[test]
    fn the_cell_of_a_tool_that_was_left_out_has_the_reason() {
        let table = "rows = [\"size\"]\ncolumns = [\"tool\"]\nfigures = [\"throughput\"]\ncells = [\"Mb/s\"]";
        let text = format!(
            "schema = \"weir.scenario/1\"\nname = \"s\"\n[[table]]\nname = \"t\"\n{table}\n[lab]\n[[step]]\nname = \"x\"\ncompare = {{ over = [\"size=1,2\"] }}\n"
        );
        let read = Scenario::parse(&text, false, &Default::default(), &Default::default());
        let spec = read.unwrap().tables.remove(0);
        let step = serde_json::from_value(serde_json::json!({
            "name": "x", "action": "compare", "outcome": "done", "seconds": 1.0, "axes": ["size", "tool"],
            "points": [{
                "at": { "size": "1", "tool": "weir" }, "runs": 1, "host_limited": 0, "failed": 0,
                "metrics": { "throughput": { "count": 1, "mean": 4e6, "min": 4e6, "max": 4e6 } },
            }],
            "left_out": [
                { "at": { "size": "1", "tool": "netperf" }, "why": "not installed" },
                { "at": { "size": "2", "tool": "d-itg" }, "why": "not supported", "detail": "no window" },
            ],
        }))
        .unwrap();
        let table = Pivot::new(&spec, &[]).tables(&[step]).remove(0);
        let heads: Vec<&str> = table.columns.iter().map(|c| c.head.as_str()).collect();
        assert_eq!(heads, ["netperf", "d-itg", "weir"]);
        let absent = |row: usize| -> Vec<Option<&str>> {
            table.rows[row].cells.iter().map(|c| c.absent.as_deref()).collect()
        };
        assert_eq!(absent(0), [Some("not installed"), Some("not run"), None]);
        assert_eq!(absent(1), [Some("not run"), Some("not supported"), Some("not run")]);
    }

    /// One of the tables of a scenario with a search in a repetition.
    fn of_search(table: &str, study: &str) -> Vec<ResultTable> {
        let text = format!(
            "schema = \"weir.scenario/1\"\nname = \"s\"\n[[table]]\nname = \"t\"\n{table}\n[lab]\n[[step]]\nrepeat = {{ over = [\"flows=1\"], step = [{{ name = \"x\", search = {{ kind = \"saturation\", low = \"1pps\", high = \"9pps\", trial = \"1s\", over = [\"size=2,500\"], test = {{}} }} }}] }}\n"
        );
        let read = Scenario::parse(&text, false, &Default::default(), &Default::default());
        let spec = read.unwrap().tables.remove(0);
        let point = |size: &str, rate: f64, received: f64| {
            let summary = |mean: f64| serde_json::json!({ "count": 1, "mean": mean, "min": 0.0, "max": mean });
            let bits = 8.0 * size.parse::<f64>().unwrap();
            serde_json::json!({
                "at": { "size": size, "rate": format!("{rate}pps") }, "runs": 1, "host_limited": 0, "failed": 0,
                "metrics": {
                    "sent_packet_rate": summary(rate), "sent_throughput": summary(rate * bits),
                    "throughput": summary(received * bits), "received_ratio": summary(received / rate),
                },
            })
        };
        let step: StepOutcome = serde_json::from_value(serde_json::json!({
            "name": "x [flows=1]", "action": "search", "outcome": "done", "seconds": 1.0, "axes": ["size", "rate"],
            "points": [point("500", 1e3, 1e3), point("2", 1e3, 1e3), point("2", 4e3, 3e3)],
            "found": [{ "name": "saturation point", "at": { "size": "2" }, "value": 3e3, "unit": "packets_per_second" }],
        }))
        .unwrap();
        let files: Vec<(PublishedColumns, CsvTable)> =
            spec.published.iter().map(|p| (p.clone(), csv(study))).collect();
        Pivot::new(&spec, &files).tables(&[step])
    }

    #[test]
    fn trials_of_a_search_are_rows_and_its_result_is_a_line_in_the_chart() {
        let table = "split = [\"size\"]\nrows = [\"rate\"]\nfigures = [\"sent_throughput\", \"received_ratio\"]\ncells = [\"kB/s\", \"%\"]\ncharts = [{ x = \"sent_throughput\", y = \"received_ratio\" }]";
        let tables = of_search(table, "");
        assert_eq!(tables.len(), 2);
        let texts = |row: &TableRow| -> Vec<String> {
            let cells = row.cells.iter().map(|c| c.text.clone());
            row.labels.iter().cloned().chain(cells).collect()
        };
        let rows: Vec<Vec<String>> = tables[1].rows.iter().map(texts).collect();
        assert_eq!(rows, [["1000pps", "2.000", "100.0"], ["4000pps", "8.000", "75.00"]]);
        let chart = &tables[1].charts[0];
        // 3000 packets/s of 16 bit.
        assert_eq!((chart.references.len(), chart.references[0].value), (1, 48e3));
        assert!(tables[0].charts[0].references.is_empty());
        // Without a split, by the trials of the same size, although others precede them. Only sent rates are comparable.
        let table = "rows = [\"size\", \"rate\"]\nfigures = [\"sent_throughput\", \"received_ratio\"]\ncells = [\"kB/s\", \"%\"]\ncharts = [{ x = \"sent_throughput\", y = \"received_ratio\" }, { x = \"received_ratio\", y = \"sent_throughput\" }]";
        let charts = &of_search(table, "")[0].charts;
        let lines: Vec<Vec<f64>> =
            charts.iter().map(|c| c.references.iter().map(|line| line.value).collect()).collect();
        assert_eq!(lines, [vec![48e3], vec![]]);
        // Its results, without the trials.
        let table =
            "rows = [\"size\"]\nfigures = [\"found saturation point\"]\ncells = [\"packets/s\"]";
        let tables = of_search(table, "");
        let rows: Vec<Vec<String>> = tables[0].rows.iter().map(texts).collect();
        assert_eq!(rows, [["2", "3000"]]);
    }

    #[test]
    fn a_statement_is_beside_the_largest_figure_of_its_points() {
        let table = "rows = [\"bytes\", \"what\"]\npublished = [{ file = \"f.csv\", source = \"a study\", match = { bytes = \"n\", what = \"statement\" }, figures = [\"value\"] }]\nrow = [{ where = { bytes = \"2\", what = \"maximum\" }, step = \"x\", at = { size = \"2\" }, figure = \"throughput\", cell = \"kB/s\" }, { where = { what = \"share\" }, step = \"x\", at = { size = \"3\" }, figure = \"throughput\", cell = \"B/s\" }]";
        let study =
            "n,statement,value\n2,maximum,5.5\n2,ratio of two,2.1\n500,maximum,7\n3,share,1.0\n";
        let [table] = &of_search(table, study)[..] else { panic!("one table") };
        let cells: Vec<Vec<&str>> = table
            .rows
            .iter()
            .map(|row| row.cells.iter().map(|c| c.absent.as_deref().unwrap_or(&c.text)).collect())
            .collect();
        assert_eq!(
            cells,
            [["5.5", "6.0"], ["2.1", NO_COUNTERPART], ["7", NO_COUNTERPART], ["1.0", "not run"]]
        );
        assert_eq!(table.rows[0].cells[1].figures, [Some(48e3)]);
        assert_eq!(table.rows[0].cells[0].figures, [Some(44e3)]);
        let published: Vec<bool> = table.columns.iter().map(|c| c.published).collect();
        assert_eq!((published, table.sources.len()), (vec![true, false], 1));
    }

    /// The published cells of a shipped scenario in the order of its file, each with its figures.
    fn cells_of(scenario: &str, table: &str) -> Vec<String> {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let text = std::fs::read_to_string(directory.join(scenario)).unwrap();
        let scenario =
            Scenario::parse(&text, false, &Default::default(), &Default::default()).unwrap();
        let tables = tables(&scenario.tables, &[], &Files::new(directory)).unwrap();
        let own = tables.iter().filter(|t| t.name == table);
        let rows = own.flat_map(|t| t.rows.iter().map(move |row| (t, row)));
        rows.flat_map(|(t, row)| {
            let cells = t.columns.iter().zip(&row.cells).filter(|(c, _)| c.published);
            cells.flat_map(|(_, cell)| cell.texts.clone()).collect::<Vec<_>>()
        })
        .collect()
    }

    /// Every figure of the study is there, in its order, as it was printed.
    #[test]
    fn shipped_tables_have_the_rows_of_their_studies() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        for (scenario, table, file, wanted, columns) in [
            (
                "packet-rate.toml",
                "packet-rate",
                "ip-traffic-packets.csv",
                None,
                &["packets_per_second"][..],
            ),
            (
                "emulator-throughput.toml",
                "throughput",
                "netdisturb-throughput.csv",
                None,
                &["mac_megabits_per_second"],
            ),
            (
                "emulator-packets.toml",
                "packet-rate",
                "netdisturb-packets.csv",
                None,
                &["packets_per_second"],
            ),
            (
                "link-throughput.toml",
                "throughput",
                "ip-traffic-throughput.csv",
                None,
                &["payload_megabits_per_second", "link_usage_percent"],
            ),
            (
                "tools.toml",
                "tools",
                "tools-2011.csv",
                None,
                &["tcp_megabits_per_second", "variance"],
            ),
            (
                "ttcp-link.toml",
                "receiver",
                "ttcp-note.csv",
                Some(("side", "receiver")),
                &[
                    "bytes",
                    "seconds",
                    "printed_rate",
                    "io_calls",
                    "printed_ms_per_call",
                    "printed_calls_per_second",
                ],
            ),
            (
                "ttcp-link.toml",
                "transmitter",
                "ttcp-note.csv",
                Some(("side", "transmitter")),
                &["bytes", "seconds", "printed_rate", "io_calls"],
            ),
            ("saturation.toml", "statements", "sender-receiver-2000.csv", None, &["value"]),
        ] {
            let text = std::fs::read_to_string(directory.join("published").join(file)).unwrap();
            let study = csv(&text);
            let rows = (0..study.len()).filter(|row| {
                wanted.is_none_or(|(column, value)| study.cell(*row, column) == Some(value))
            });
            let figures: Vec<String> = rows
                .flat_map(|row| columns.iter().map(move |name| (row, *name)).collect::<Vec<_>>())
                .map(|(row, name)| study.cell(row, name).unwrap().to_owned())
                .filter(|text| !text.is_empty())
                .collect();
            let mut cells = cells_of(scenario, table);
            // The ratio is printed as a percentage.
            if table == "receiver" {
                assert_eq!([&cells[6], &cells[11]], ["85.00", "588.0"]);
                cells.retain(|text| text != "85.00" && text != "588.0");
            }
            assert_eq!(cells, figures, "{scenario} {table}");
        }
    }
}
