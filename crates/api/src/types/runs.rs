//! Kept runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_runs::RunRow;

use super::{number, several};

/// What became of a record that was to be kept.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ImportedRun {
    /// Its id.
    pub id: String,
    /// It is new; else one with this id was there and is as it was.
    pub added: bool,
}

/// Which runs; what is given must all hold.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunsQuery {
    /// At most so many, 1 to 1000.
    #[serde(deserialize_with = "number")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Started at or after: a date, an RFC 3339 time, or an age such as `2h` or `7d`.
    pub since: Option<String>,
    /// Started before or at.
    pub until: Option<String>,
    /// The peer, exactly.
    pub host: Option<String>,
    /// A tag, `KEY` or `KEY=VALUE`; may be given several times.
    #[serde(deserialize_with = "several")]
    pub tag: Vec<String>,
    /// Words in the title.
    pub title: Option<String>,
    /// A condition such as `transport=udp` or `loss>0.1%`, in the words of `weir runs list --where`; may be given several
    /// times.
    #[serde(rename = "where", deserialize_with = "several")]
    pub conditions: Vec<String>,
}

/// A run in a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunEntry {
    /// Its columns.
    #[serde(flatten)]
    pub run: RunRow,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// Runs, newest first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunList {
    /// Those within the limit.
    pub runs: Vec<RunEntry>,
    /// How many there are whatever the limit.
    pub total: u64,
}

/// Tags of a run: all of them, those that are not named are removed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Tags(pub BTreeMap<String, String>);

/// The form of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReportFormat {
    /// One page that stands alone.
    #[default]
    Html,
    /// Markdown.
    Md,
    /// Comma-separated values.
    Csv,
    /// The record.
    Json,
    /// One figure.
    Svg,
}

/// How a report is wanted.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReportQuery {
    /// Its form.
    pub format: ReportFormat,
    /// Which figure, by its id: with `svg` (absent: the first), or of a run with `csv` (absent: the record's own columns). Refused
    /// with the other forms.
    pub figure: Option<String>,
}

/// Runs side by side on one page, as `weir report RUN RUN…` has them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
// Read with a default, so that the handler's words refuse a query without runs.
#[schemars(transform = required_run)]
pub struct RunsReportQuery {
    /// A run's id; 1 to 50 of them, each once, in the order in which they are to stand.
    #[serde(deserialize_with = "several")]
    #[schemars(length(min = 1, max = 50))]
    pub run: Vec<String>,
    /// Its form; `csv` is the data of one figure, and there is no `json`.
    pub format: ReportFormat,
    /// With `svg` and `csv`: which figure, by its id; absent: the first. Refused with the other forms.
    pub figure: Option<String>,
}

fn required_run(schema: &mut schemars::Schema) {
    schema.insert("required".into(), serde_json::json!(["run"]));
    if let Some(run) = schema.pointer_mut("/properties/run").and_then(|run| run.as_object_mut()) {
        run.remove("default");
    }
}

/// What is compared.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparisonQuery {
    /// Ids of the runs of A and of B: `A,B`, or sets `A1+A2,B1+B2`; each run once.
    pub runs: String,
    /// Confidence of the intervals in percent, 50 to below 100.
    #[serde(default, deserialize_with = "number")]
    #[schemars(range(min = 50, max = 99.999))]
    pub confidence: Option<f64>,
}

/// Figures as data.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FigureList {
    /// In the order of the report.
    pub figures: Vec<FigureData>,
}

/// A figure as data.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FigureData {
    /// Name: lower-case letters, digits, hyphens.
    pub id: String,
    /// Title.
    pub title: String,
    /// What it shows, in words.
    pub caption: String,
    /// Across.
    pub x: FigureAxis,
    /// Up.
    pub y: FigureAxis,
    /// What is drawn, the first one lowest.
    pub series: Vec<FigureSeries>,
    /// Lines to compare with.
    pub references: Vec<FigureReference>,
    /// Stretches of `x` that are left out of the totals: begin, end.
    pub shades: Vec<[f64; 2]>,
}

/// An axis.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FigureAxis {
    /// What it measures, without the unit.
    pub label: String,
    /// Its name in files; ends in the SI unit.
    pub key: String,
    /// Kind of its values: `seconds`, `bits_per_second`, `packets_per_second`, `bytes`, `ratio`, `per_minute`, `count`, `number`.
    pub quantity: String,
    /// `linear`, `log` or `category`.
    pub scale: String,
    /// It begins at zero.
    pub from_zero: bool,
    /// The names of a category axis.
    pub categories: Vec<String>,
}

/// A series: arrays of one length, as plots take them. What is not there is null.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FigureSeries {
    /// Name.
    pub name: String,
    /// `line`, `step`, `area`, `bars`, `points` or `curve`.
    pub mark: String,
    /// A sum among its parts.
    pub heavy: bool,
    /// Where values are, or where their stretches begin.
    pub x: Vec<Option<f64>>,
    /// Where stretches end; empty when none do.
    pub x_end: Vec<Option<f64>>,
    /// Values; null is a gap.
    pub y: Vec<Option<f64>>,
    /// Lower ends of intervals; empty when there are none.
    pub low: Vec<Option<f64>>,
    /// Upper ends.
    pub high: Vec<Option<f64>>,
    /// Indices of host-limited values.
    pub host_limited: Vec<usize>,
}

/// A line to compare with.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FigureReference {
    /// What it is.
    pub name: String,
    /// `horizontal`, `vertical` or `diagonal`.
    pub place: String,
    /// Where; absent for a diagonal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
}
