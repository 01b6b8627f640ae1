//! Tables of a scenario: figures of its steps laid out as in a published study.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Action, Scenario, SearchKind, Step, check_axes, inside, nearest, refuse};
use crate::ModelError;
use crate::experiment::{Metric, Unit};

/// The name by which rows, columns and splits refer to the step of a figure.
pub const STEP_AXIS: &str = "step";

/// A table of the results.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TableSpec {
    /// Name, which files with the table have too: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Title. Default: the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The steps whose points it shows. Default: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Axes: one table for each combination of their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub split: Vec<String>,
    /// Axes whose values label the rows, outermost first. `step` is the step's name; `a|b` is the axis that a step has.
    pub rows: Vec<String>,
    /// Axes whose values make columns of measured figures. Default: one column.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Figures of a cell (none in a table with `row`): metrics, also `variance METRIC` and `deviation METRIC` over repetitions, and `found NAME` for
    /// the result of a search.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<String>,
    /// Formats of the cells. Each word that is a unit stands for the next figure, as in `Mb/s (%)`. Several formats
    /// make several columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<String>,
    /// Headings of the columns of several formats. Default: the formats.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<String>,
    /// Heading of the measured columns. Default: `measured`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// Axis → its heading.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Axis → value → the printed value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, BTreeMap<String, String>>,
    /// Charts of one figure against another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<ChartSpec>,
    /// Published figures, in columns of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedColumns>,
    /// What is measured for single rows of a table of published statements, each with its own figure. Its `rows` are then
    /// columns of the published files.
    #[serde(rename = "row", skip_serializing_if = "Vec::is_empty")]
    pub row_figures: Vec<RowFigure>,
}

/// A chart of a table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChartSpec {
    /// The figure along the horizontal axis.
    pub x: String,
    /// The figure along the vertical axis.
    pub y: String,
}

/// A figure that is measured for rows of a table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RowFigure {
    /// Heading of a row label → its value in the rows for which it is measured.
    #[serde(rename = "where")]
    pub filter: BTreeMap<String, String>,
    /// The step.
    pub step: String,
    /// Axis → value of its points. Of several points, the one with the largest figure counts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// The metric.
    pub figure: String,
    /// Its unit in the table.
    pub cell: String,
}

/// Published figures in a CSV file with a header line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PublishedColumns {
    /// The file, in the scenario's directory.
    pub file: String,
    /// Where they were published.
    pub source: String,
    /// Heading of their columns. Default: the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Column of the file → the value of the rows to use.
    #[serde(rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub filter: BTreeMap<String, String>,
    /// Axis → column of the file with its value, printed or as in the sweep.
    #[serde(rename = "match")]
    pub matching: BTreeMap<String, String>,
    /// Axis → the value to which these figures belong, where the file has no column for it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// Columns of the file whose values make columns of the table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Columns of the file with the figures, in the units and the order of `cells`; an empty name where none was
    /// published.
    pub figures: Vec<String>,
    /// Column of the file → the factor by which its figures are multiplied for the unit of the cell.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scale: BTreeMap<String, f64>,
}

/// A unit in which a cell is printed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellUnit {
    /// As it is printed.
    pub word: &'static str,
    /// The unit of its metrics.
    pub unit: Unit,
    /// The SI value of one.
    pub si: f64,
    /// Whether it is the square of a unit: of a variance.
    pub squared: bool,
}

const fn unit(word: &'static str, unit: Unit, si: f64) -> CellUnit {
    CellUnit { word, unit, si, squared: false }
}

/// Units of cells. `kB` are 1000 bytes, `KB` 1024.
const CELL_UNITS: [CellUnit; 20] = [
    unit("bit/s", Unit::BitsPerSecond, 1.0),
    unit("kb/s", Unit::BitsPerSecond, 1e3),
    unit("Mb/s", Unit::BitsPerSecond, 1e6),
    unit("Gb/s", Unit::BitsPerSecond, 1e9),
    unit("B/s", Unit::BitsPerSecond, 8.0),
    unit("kB/s", Unit::BitsPerSecond, 8e3),
    unit("KB/s", Unit::BitsPerSecond, 8192.0),
    unit("MB/s", Unit::BitsPerSecond, 8e6),
    CellUnit { word: "(Mb/s)²", unit: Unit::BitsPerSecond, si: 1e12, squared: true },
    unit("packets/s", Unit::PacketsPerSecond, 1.0),
    unit("kpackets/s", Unit::PacketsPerSecond, 1e3),
    unit("s", Unit::Seconds, 1.0),
    unit("ms", Unit::Seconds, 1e-3),
    unit("µs", Unit::Seconds, 1e-6),
    unit("bytes", Unit::Bytes, 1.0),
    unit("%", Unit::Ratio, 0.01),
    unit("ratio", Unit::Ratio, 1.0),
    unit("count", Unit::Count, 1.0),
    unit("calls", Unit::Count, 1.0),
    unit("calls/s", Unit::Count, 1.0),
];

/// A part of a cell's format.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// A figure.
    Figure(CellUnit),
    /// Text.
    Text(String),
}

/// The parts of a cell's format: words that are units stand for figures.
#[must_use]
pub fn cell_pieces(format: &str) -> Vec<Piece> {
    let is_word = |c: char| c.is_alphanumeric() || c == '/';
    let (mut out, mut rest, mut before) = (vec![], format, ' ');
    while let Some(next) = rest.chars().next() {
        let found = CELL_UNITS.iter().filter(|u| rest.starts_with(u.word)).filter(|u| {
            let after = rest[u.word.len()..].chars().next().unwrap_or(' ');
            let ends = u.word.chars().last().is_none_or(|last| !is_word(last) || !is_word(after));
            ends && (!is_word(next) || !is_word(before))
        });
        if let Some(unit) = found.max_by_key(|u| u.word.len()) {
            out.push(Piece::Figure(*unit));
            rest = &rest[unit.word.len()..];
            before = unit.word.chars().last().unwrap_or(' ');
            continue;
        }
        match out.last_mut() {
            Some(Piece::Text(text)) => text.push(next),
            _ => out.push(Piece::Text(next.into())),
        }
        rest = &rest[next.len_utf8()..];
        before = next;
    }
    out
}

/// A figure of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableFigure {
    /// The mean of a metric over repetitions.
    Mean(Metric),
    /// Its variance.
    Variance(Metric),
    /// Its standard deviation.
    Deviation(Metric),
    /// A result of a search, by its name.
    Found(String),
}

impl TableFigure {
    /// Reads a figure of a table.
    ///
    /// # Errors
    /// [`ModelError`] for a metric that is not declared.
    pub fn parse(text: &str) -> Result<TableFigure, ModelError> {
        let text = text.trim();
        if let Some(name) = text.strip_prefix("found ") {
            return Ok(TableFigure::Found(name.trim().into()));
        }
        match (text.strip_prefix("variance "), text.strip_prefix("deviation ")) {
            (Some(metric), _) => metric.parse().map(TableFigure::Variance),
            (_, Some(metric)) => metric.parse().map(TableFigure::Deviation),
            _ => text.parse().map(TableFigure::Mean),
        }
    }

    /// Whether it can be printed in this unit.
    fn fits(&self, unit: &CellUnit) -> bool {
        match self {
            TableFigure::Mean(metric) | TableFigure::Deviation(metric) => {
                metric.unit() == unit.unit && !unit.squared
            }
            TableFigure::Variance(metric) => metric.unit() == unit.unit && unit.squared,
            TableFigure::Found(_) => !unit.squared,
        }
    }
}

/// The axes of a table's row, column or split: `a|b` is either.
pub fn alternatives(axis: &str) -> impl Iterator<Item = &str> {
    axis.split('|').map(str::trim)
}

impl TableSpec {
    pub(super) fn check(&self, scenario: &Scenario, at: &str) -> Result<(), ModelError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(is_plain) {
            return refuse(
                &format!("{at}.name"),
                &format!("{:?}", self.name),
                "1 to 64 of letters, digits, '-', '_', '.'",
            );
        }
        let mut steps = vec![];
        collect(&scenario.steps, &mut BTreeSet::new(), &mut steps);
        let known: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
        for step in &self.steps {
            if !known.contains(&step.as_str()) {
                return refuse(&format!("{at}.steps"), step, &with_hint(step, &known));
            }
        }
        let own = |name: &str| self.steps.is_empty() || self.steps.iter().any(|s| s == name);
        let mut axes: BTreeSet<&str> = [STEP_AXIS].into();
        for (_, of_step) in steps.iter().filter(|(name, _)| own(name)) {
            axes.extend(of_step.iter().map(String::as_str));
        }
        // Statements have labels of their own.
        if !self.row_figures.is_empty() {
            axes.extend(self.rows.iter().map(String::as_str));
        }
        let known: Vec<&str> = axes.iter().copied().collect();
        let check_axis = |field: &str, axis: &str| match known.contains(&axis) {
            true => Ok(()),
            false => refuse(&format!("{at}.{field}"), axis, &with_hint(axis, &known)),
        };
        let lists = [("split", &self.split), ("rows", &self.rows), ("columns", &self.columns)];
        for (field, list) in lists {
            list.iter()
                .flat_map(|axis| alternatives(axis))
                .try_for_each(|axis| check_axis(field, axis))?;
        }
        let named = self.labels.keys().map(|a| ("labels", a));
        for (field, axis) in named.chain(self.names.keys().map(|a| ("names", a))) {
            alternatives(axis).try_for_each(|axis| check_axis(field, axis))?;
        }
        if self.rows.is_empty() {
            return refuse(&format!("{at}.rows"), "none", "at least one axis");
        }
        let figures = match self.row_figures.is_empty() {
            true => {
                self.check_cells(at)?;
                self.figures.len()
            }
            false => {
                self.check_rows(&steps, at)?;
                1
            }
        };
        for (i, published) in self.published.iter().enumerate() {
            let at = format!("{at}.published[{i}]");
            if published.file.is_empty() || published.source.is_empty() {
                return refuse(&at, "incomplete", "file, source, match and figures");
            }
            for axis in published.matching.keys().chain(published.at.keys()) {
                let listed = self.rows.iter().chain(&self.split).chain(&self.columns);
                if !listed.clone().any(|a| a == axis) {
                    let listed: Vec<&str> = listed.map(String::as_str).collect();
                    return refuse(&format!("{at}.match"), axis, &with_hint(axis, &listed));
                }
            }
            if published.figures.len() != figures {
                return refuse(
                    &format!("{at}.figures"),
                    &published.figures.len().to_string(),
                    &format!("{figures}, as the table has figures"),
                );
            }
        }
        Ok(())
    }

    fn check_cells(&self, at: &str) -> Result<(), ModelError> {
        let mut units = vec![];
        for format in &self.cells {
            let own = cell_pieces(format).into_iter().filter_map(|piece| match piece {
                Piece::Figure(unit) => Some(unit),
                Piece::Text(_) => None,
            });
            let before = units.len();
            units.extend(own);
            if units.len() == before {
                let words: Vec<&str> = CELL_UNITS.iter().map(|u| u.word).collect();
                let accepted = format!("text with units: {}", words.join(", "));
                return refuse(&format!("{at}.cells"), &format!("'{format}'"), &accepted);
            }
        }
        if units.len() != self.figures.len() || units.is_empty() {
            return refuse(
                &format!("{at}.cells"),
                &format!("{} units", units.len()),
                &format!("one for each of the {} figures", self.figures.len()),
            );
        }
        if !self.heads.is_empty() && self.heads.len() != self.cells.len() {
            return refuse(
                &format!("{at}.heads"),
                &self.heads.len().to_string(),
                &format!("{}, one for each of cells", self.cells.len()),
            );
        }
        for (text, unit) in self.figures.iter().zip(&units) {
            let field = format!("{at}.figures");
            let figure = TableFigure::parse(text).map_err(|e| inside(&field, e))?;
            if !figure.fits(unit) {
                let fitting = CELL_UNITS.iter().filter(|u| figure.fits(u)).map(|u| u.word);
                let fitting: Vec<&str> = fitting.collect();
                return refuse(&format!("{at}.cells"), unit.word, &fitting.join(", "));
            }
        }
        // A chart has the axis of a metric, so not of a variance nor of a search's result.
        let is_mean = |f: &&str| matches!(TableFigure::parse(f), Ok(TableFigure::Mean(_)));
        let known: Vec<&str> = self.figures.iter().map(String::as_str).filter(is_mean).collect();
        for (i, chart) in self.charts.iter().enumerate() {
            for (field, figure) in [("x", &chart.x), ("y", &chart.y)] {
                if !known.contains(&figure.as_str()) {
                    let accepted = with_hint(figure, &known);
                    return refuse(&format!("{at}.charts[{i}].{field}"), figure, &accepted);
                }
            }
        }
        Ok(())
    }

    /// Checks the figures of single rows.
    fn check_rows(&self, steps: &[(&str, BTreeSet<String>)], at: &str) -> Result<(), ModelError> {
        let lists = [
            ("figures", &self.figures),
            ("cells", &self.cells),
            ("heads", &self.heads),
            ("split", &self.split),
            ("columns", &self.columns),
        ];
        if let Some((field, _)) = lists.iter().find(|(_, list)| !list.is_empty()) {
            return refuse(&format!("{at}.{field}"), "given", "none in a table with row");
        }
        let rows: Vec<&str> = self.rows.iter().map(String::as_str).collect();
        for (i, published) in self.published.iter().enumerate() {
            let is_given = |axis: &&&str| {
                published.matching.contains_key(**axis) || published.at.contains_key(**axis)
            };
            if let Some(axis) = rows.iter().find(|axis| !is_given(axis)) {
                let field = format!("{at}.published[{i}].match");
                return refuse(&field, &format!("without {axis}"), "each of the table's rows");
            }
        }
        for (i, row) in self.row_figures.iter().enumerate() {
            let at = format!("{at}.row[{i}]");
            if let Some(axis) = row.filter.keys().find(|axis| !rows.contains(&axis.as_str())) {
                return refuse(&format!("{at}.where"), axis, &with_hint(axis, &rows));
            }
            let known: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
            let Some((_, axes)) = steps.iter().find(|(name, _)| *name == row.step) else {
                return refuse(&format!("{at}.step"), &row.step, &with_hint(&row.step, &known));
            };
            let axes: Vec<&str> = axes.iter().map(String::as_str).collect();
            if let Some(axis) = row.at.keys().find(|axis| !axes.contains(&axis.as_str())) {
                return refuse(&format!("{at}.at"), axis, &with_hint(axis, &axes));
            }
            let field = format!("{at}.figure");
            let metric: Metric = row.figure.parse().map_err(|e| inside(&field, e))?;
            if row.unit().is_none_or(|unit| !TableFigure::Mean(metric.clone()).fits(&unit)) {
                let fitting = CELL_UNITS.iter().filter(|u| u.unit == metric.unit() && !u.squared);
                let fitting: Vec<&str> = fitting.map(|u| u.word).collect();
                return refuse(&format!("{at}.cell"), &row.cell, &fitting.join(", "));
            }
        }
        Ok(())
    }
}

impl RowFigure {
    /// Its unit; absent if `cell` is not one unit.
    #[must_use]
    pub fn unit(&self) -> Option<CellUnit> {
        CELL_UNITS.into_iter().find(|unit| unit.word == self.cell)
    }
}

fn with_hint(given: &str, known: &[&str]) -> String {
    let hint = nearest(given, known.iter().copied());
    let hint = hint.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    format!("{}{hint}", known.join(", "))
}

/// All steps with their names and axes, those of the steps around them included.
fn collect<'a>(
    steps: &'a [Step],
    around: &mut BTreeSet<String>,
    out: &mut Vec<(&'a str, BTreeSet<String>)>,
) {
    let axes = |over: &[String]| -> Vec<String> {
        check_axes(over, "").unwrap_or_default().into_iter().map(|(name, _)| name).collect()
    };
    for step in steps {
        let name = step.name.as_deref().unwrap_or_default();
        let mut own = around.clone();
        match step.action() {
            Some(Action::Sweep(sweep)) => own.extend(axes(&sweep.over)),
            Some(Action::Search(search)) => {
                own.extend(axes(&search.over));
                let is_burst = search.kind == SearchKind::BackToBack;
                own.insert(if is_burst { "packets" } else { "rate" }.into());
            }
            Some(Action::Compare(compare)) => {
                own.extend(axes(&compare.over));
                own.insert("tool".into());
            }
            Some(Action::Parallel(inner)) => collect(inner, around, out),
            Some(Action::Repeat(repeat)) => {
                own.extend(axes(&repeat.over));
                collect(&repeat.steps, &mut own, out);
            }
            _ => {}
        }
        out.push((name, own));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(format: &str) -> Vec<&'static str> {
        cell_pieces(format)
            .into_iter()
            .filter_map(|piece| match piece {
                Piece::Figure(unit) => Some(unit.word),
                Piece::Text(_) => None,
            })
            .collect()
    }

    #[test]
    fn units_are_whole_words_of_a_format() {
        assert_eq!(words("Mb/s (%)"), ["Mb/s", "%"]);
        assert_eq!(words("(Mb/s)²"), ["(Mb/s)²"]);
        assert_eq!(words("(Mb/s)"), ["Mb/s"]);
        assert_eq!(words("kpackets/s"), ["kpackets/s"]);
        assert_eq!(words("calls/s, ms, s"), ["calls/s", "ms", "s"]);
        assert_eq!(words("mass of bits"), [""; 0]);
        let text = cell_pieces("about Mb/s!");
        assert_eq!(text.first(), Some(&Piece::Text("about ".into())));
        assert_eq!(text.last(), Some(&Piece::Text("!".into())));
    }

    #[test]
    fn a_wrong_table_is_refused_at_its_field() {
        let scenario = |table: &str| {
            let text = format!(
                "schema = \"weir.scenario/1\"\nname = \"s\"\n[[table]]\nname = \"t\"\n{table}\n[lab]\n[[step]]\nname = \"x\"\nsweep = {{ over = [\"size=1,2\"], test = {{ to = \"b\" }} }}\n"
            );
            Scenario::parse(&text, false, &Default::default(), &Default::default())
        };
        let good = "rows = [\"size\"]\nfigures = [\"throughput\", \"variance throughput\"]\ncells = [\"Mb/s\", \"(Mb/s)²\"]";
        let read = scenario(good).unwrap();
        assert_eq!(read.tables.len(), 1);
        for (from, to, field) in [
            ("\"size\"", "\"sizes\"", "table[0].rows"),
            ("\"throughput\",", "\"thruput\",", "table[0].figures"),
            ("\"Mb/s\"", "\"ms\"", "table[0].cells"),
            ("\"Mb/s\"", "\"mbit\"", "table[0].cells"),
            ("\"Mb/s\", ", "", "table[0].cells"),
            ("rows", "steps = [\"y\"]\nrows", "table[0].steps"),
            ("rows", "heads = [\"a\"]\nrows", "table[0].heads"),
            ("rows", "names = { rate = { x = \"y\" } }\nrows", "table[0].names"),
            (
                "rows",
                "charts = [{ x = \"throughput\", y = \"loss\" }]\nrows",
                "table[0].charts[0].y",
            ),
            (
                "rows",
                "charts = [{ x = \"variance throughput\", y = \"throughput\" }]\nrows",
                "table[0].charts[0].x",
            ),
        ] {
            let refused = scenario(&good.replacen(from, to, 1)).unwrap_err();
            let refusal = crate::Refusal::from(&refused);
            let named = refusal.field.unwrap_or_default();
            assert!(named.starts_with(field), "{field}: {named} {refused}");
        }
    }

    #[test]
    fn the_rows_of_statements_have_figures_of_their_own() {
        let scenario = |table: &str| {
            let text = format!(
                "schema = \"weir.scenario/1\"\nname = \"s\"\n[[table]]\nname = \"t\"\nrows = [\"what\"]\n{table}\n[lab]\n[[step]]\nname = \"x\"\nsweep = {{ over = [\"size=1,2\"], test = {{ to = \"b\" }} }}\n"
            );
            Scenario::parse(&text, false, &Default::default(), &Default::default())
        };
        let good = "published = [{ file = \"f.csv\", source = \"s\", match = { what = \"w\" }, figures = [\"v\"] }]\nrow = [{ where = { what = \"a\" }, step = \"x\", at = { size = \"1\" }, figure = \"throughput\", cell = \"kB/s\" }]";
        let read = scenario(good).unwrap();
        assert_eq!(read.tables[0].row_figures[0].unit().map(|u| u.word), Some("kB/s"));
        for (from, to, field) in [
            ("where = { what", "where = { other", "table[0].row[0].where"),
            ("step = \"x\"", "step = \"y\"", "table[0].row[0].step"),
            ("at = { size", "at = { sizes", "table[0].row[0].at"),
            ("\"throughput\"", "\"thruput\"", "table[0].row[0].figure"),
            ("kB/s", "%", "table[0].row[0].cell"),
            ("match = { what = \"w\" }, ", "", "table[0].published[0].match"),
            ("published", "figures = [\"loss\"]\npublished", "table[0].figures"),
        ] {
            let refused = scenario(&good.replacen(from, to, 1)).unwrap_err();
            let named = crate::Refusal::from(&refused).field.unwrap_or_default();
            assert!(named.starts_with(field), "{field}: {named} {refused}");
        }
    }
}
