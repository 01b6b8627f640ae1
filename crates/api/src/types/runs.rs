//! Stored runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::record::Record;
use weir_report::page::{self, Block, Cell, Grid, Headline, Notice};
use weir_report::plot::FigureData;
use weir_runs::{RunKind, RunRow};

use super::{number, several, switch};

/// The result of importing a record.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ImportedRun {
    /// Its id.
    pub id: String,
    /// Whether it is new; else a run with this id exists and was not changed.
    pub added: bool,
}

/// The result of importing a file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ImportedFile {
    /// Number of new runs.
    pub added: u64,
    /// Number of runs that were stored already and were not changed.
    pub already_there: u64,
    /// Ids of the runs, new or not, in the order of the file: the first 1000.
    pub ids: Vec<String>,
}

/// What is known of a file besides its content.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ImportQuery {
    /// Time of the file: the start of its tests where it states none. Absent: now.
    #[schemars(schema_with = "moment")]
    pub modified_at: Option<String>,
}

/// Filter of runs; all given conditions must hold.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RunsQuery {
    /// Maximum number of runs, 1 to 1000.
    #[serde(deserialize_with = "number")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Started at or after: a date, an RFC 3339 time, or an age such as `2h` or `7d`.
    #[schemars(schema_with = "moment")]
    pub since: Option<String>,
    /// Started before or at.
    #[schemars(schema_with = "moment")]
    pub until: Option<String>,
    /// The peer, exactly.
    pub host: Option<String>,
    /// A tag, `KEY` or `KEY=VALUE`; may be repeated.
    #[serde(deserialize_with = "several")]
    #[schemars(length(max = 48))]
    pub tag: Vec<String>,
    /// Words in the title.
    pub title: Option<String>,
    /// Whether the runs are part of an experiment; absent: all runs.
    pub kind: RunKind,
    /// A condition such as `transport=udp` or `loss>0.1%`, as of `weir runs list --where`; may be repeated.
    #[serde(rename = "where", deserialize_with = "several")]
    #[schemars(length(max = 48), transform = condition)]
    pub conditions: Vec<String>,
}

/// The forms of a time in a query.
pub(super) fn moment(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "anyOf": [
        { "type": "string", "format": "date" },
        { "type": "string", "format": "date-time" },
        { "type": "string", "pattern": "^[0-9]{4}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$" },
        { "type": "string", "pattern": "^[0-9]{1,5}( ?(ms|s|m|min|h)|d)$" },
    ] })
}

/// The pattern of a condition: names, signs and the usual units.
fn condition(schema: &mut schemars::Schema) {
    use weir_model::plan::TransportName;
    let transports: Vec<&str> = TransportName::ALL.iter().map(|t| t.label()).collect();
    let (equal, any) = (" *[!=]?= *", " *([!=]?=|[<>]=?) *");
    let forms = [
        format!("transport{equal}({})", transports.join("|")),
        format!("direction{equal}(forward|reverse)"),
        format!("family{equal}ipv[46]"),
        format!("status{equal}(complete|partial|interrupted)"),
        format!("(size|length|payload|payload_bytes){any}[0-9]{{1,9}} ?[kKmMgG]?"),
        format!("(rate|bitrate){equal}0"),
        format!(
            "(rate|bitrate){any}[1-9][0-9]{{0,8}}((\\.[0-9]{{1,9}})? ?[kKmMgG]?(bits?|bps)?|pps)"
        ),
        format!(
            "((forward|reverse)_)?throughput{any}[0-9]{{1,9}}(\\.[0-9]{{1,9}})? ?[kKmMgG]?(bits?|bps)?"
        ),
        format!(
            "(time|seconds|duration){any}[0-9]{{1,5}}(\\.[0-9]{{1,9}})? ?(ns|us|ms|s|m|min|h|d)?"
        ),
        format!("(connections|warnings){any}[0-9]{{1,9}}"),
        format!("loss{any}(0|[0-9]{{1,2}}(\\.[0-9]{{1,9}})? ?%|100 ?%)"),
    ];
    if let Some(items) = schema.pointer_mut("/items").and_then(serde_json::Value::as_object_mut) {
        items.insert("pattern".into(), format!("^({})$", forms.join("|")).into());
    }
}

/// A run in a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RunEntry {
    /// Its columns.
    #[serde(flatten)]
    pub run: RunRow,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// Runs, newest first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RunList {
    /// The runs, up to the limit.
    pub runs: Vec<RunEntry>,
    /// Number of matching runs, regardless of the limit.
    pub total: u64,
    /// Number of runs that only `kind` excludes.
    pub excluded_by_kind: u64,
}

/// The tags of a run: replaces all of them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend(
    "propertyNames" = { "pattern": r"^[^=\x00-\x1f\x7f-\x9f]+$", "maxLength": 64 },
    "additionalProperties" = { "type": "string", "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$", "maxLength": 1000 }
))]
pub(crate) struct Tags(pub BTreeMap<String, String>);

/// The format of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReportFormat {
    /// A standalone page.
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

/// The format of a requested report.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReportQuery {
    /// Its form.
    pub format: ReportFormat,
    /// Figure id: with `svg` (absent: the first), or of a run with `csv` (absent: the record's own columns). Other
    /// formats have all figures, whatever is named here.
    pub figure: Option<String>,
    /// Start the vertical axes of all charts at zero, as `weir report --from-zero`.
    #[serde(deserialize_with = "switch")]
    pub from_zero: bool,
}

/// Several runs or experiments on one page, as `weir report ID ID…`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
// With defaults, so that the handler refuses a query without ids.
#[schemars(transform = without_empty_lists)]
pub(crate) struct SeveralReportQuery {
    /// A run's id; 1 to 50 distinct ones, in the order of the page.
    #[serde(deserialize_with = "several")]
    #[schemars(length(min = 1, max = 50), extend("uniqueItems" = true))]
    pub run: Vec<String>,
    /// An experiment's id; 1 to 10 distinct ones, in the order of their columns. Without runs.
    #[serde(deserialize_with = "several")]
    #[schemars(length(min = 1, max = 10), extend("uniqueItems" = true))]
    pub experiment: Vec<String>,
    /// Heading of an experiment's columns and series; none, or one for each experiment in their order, different ones. An empty
    /// one is the default: operating system and kernel of its hosts, or its title or name with the time of its start.
    #[serde(deserialize_with = "several")]
    #[schemars(length(max = 10), inner(length(max = 100)))]
    pub label: Vec<String>,
    /// Its format; `csv` is the data of one figure.
    #[schemars(schema_with = "formats_of_several")]
    pub format: ReportFormat,
    /// With `svg` and `csv`: figure id; absent: the first. Other formats have all figures, whatever is named here.
    pub figure: Option<String>,
    /// Start the vertical axes of all charts at zero, as `weir report --from-zero`.
    #[serde(deserialize_with = "switch")]
    pub from_zero: bool,
}

fn formats_of_several(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": ["html", "md", "csv", "svg"] })
}

fn without_empty_lists(schema: &mut schemars::Schema) {
    for list in ["/properties/run", "/properties/experiment"] {
        if let Some(list) = schema.pointer_mut(list).and_then(|list| list.as_object_mut()) {
            list.remove("default");
        }
    }
}

/// What is compared.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComparisonQuery {
    /// Ids of the runs of A and of B: `A,B`, or sets `A1+A2,B1+B2`; each run once, at most 100 on each side.
    #[schemars(regex(pattern = "^[^,]*[^,+ ][^,]*,[^,]*[^,+ ][^,]*$"))]
    pub runs: String,
    /// Confidence of the intervals, per cent, 50 to below 100.
    #[serde(default, deserialize_with = "number")]
    #[schemars(range(min = 50), extend("exclusiveMaximum" = 100))]
    pub confidence: Option<f64>,
}

/// The result of a run in words, as at the top of its report.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RunSummary {
    /// The plan's title, else the two hosts.
    pub title: String,
    /// Id, start, duration and status.
    pub subtitle: String,
    /// The result in one sentence.
    pub sentence: String,
    /// Whether all expectations were met; absent without expectations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The main figures, with units.
    pub headlines: Vec<Headline>,
    /// What ran, what arrived, what limited the rate, and whether the figures hold.
    pub paragraphs: Vec<String>,
    /// Warnings and notes, the most severe first.
    pub notices: Vec<Notice>,
    /// Hardware, system and kernel settings of the hosts; absent if nothing is known of any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostTable>,
}

/// Facts of hosts side by side.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct HostTable {
    /// The hosts' headings.
    pub hosts: Vec<String>,
    /// The facts, in the order of the report.
    pub facts: Vec<HostFact>,
}

/// A fact of several hosts.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct HostFact {
    /// Its name.
    pub name: String,
    /// Its value on each host, in their order; null where it is not known.
    pub values: Vec<Option<String>>,
}

impl From<Grid> for HostTable {
    fn from(grid: Grid) -> Self {
        let text = |cell: Cell| match cell {
            Cell::Text(text) | Cell::Code(text) => Some(text),
            _ => None,
        };
        let fact = |row: Vec<Cell>| {
            let mut cells = row.into_iter().map(text);
            HostFact { name: cells.next().flatten().unwrap_or_default(), values: cells.collect() }
        };
        HostTable {
            hosts: grid.columns.into_iter().skip(1).map(|column| column.head).collect(),
            facts: grid.rows.into_iter().map(fact).collect(),
        }
    }
}

impl From<&Record> for RunSummary {
    fn from(record: &Record) -> Self {
        let document = page::of_run(record);
        let blocks = document.sections.into_iter().find(|s| s.id == "summary").map(|s| s.blocks);
        let text = |block| match block {
            Block::Text(text) => Some(text),
            _ => None,
        };
        RunSummary {
            title: document.title,
            subtitle: document.subtitle,
            sentence: document.sentence,
            passed: document.passed,
            headlines: document.headlines,
            paragraphs: blocks.unwrap_or_default().into_iter().filter_map(text).collect(),
            notices: document.notices,
            hosts: page::hosts(record).map(HostTable::from),
        }
    }
}

/// Figures as data.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct FigureList {
    /// In the order of the report.
    pub figures: Vec<FigureData>,
}

#[cfg(test)]
mod unit {
    use serde_json::json;
    use weir_report::page::Column;

    use super::*;

    #[test]
    fn facts_of_hosts_keep_their_columns() {
        let columns = ["", "here", "there"].map(Column::text);
        let mut grid = Grid::new("Hosts", columns);
        grid.row([Cell::from("Memory"), Cell::Absent, Cell::Text("2 GiB".into())]);
        let table = serde_json::to_value(HostTable::from(grid)).unwrap();
        let facts = json!([{ "name": "Memory", "values": [null, "2 GiB"] }]);
        assert_eq!(table, json!({ "hosts": ["here", "there"], "facts": facts }));
    }
}
