//! Result tables of an experiment: measured figures laid out as in a published study, with its figures beside them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ResultTable {
    /// Name of the scenario's table. Tables of one name differ in `at`.
    pub name: String,
    /// Title, with the values of `at`.
    pub title: String,
    /// The axes that select this table's figures, in the scenario's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<TableAxis>,
    /// Headings of the row labels.
    pub row_heads: Vec<String>,
    /// Columns of figures: published ones first.
    pub columns: Vec<TableColumn>,
    /// Rows: published ones first, in their order, then those that were only measured.
    pub rows: Vec<TableRow>,
    /// Sources of the published figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Charts of its measured figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<TableChart>,
}

/// A chart of a table: a figure against another, with a point for each row.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TableChart {
    /// The metric along the horizontal axis.
    pub x: String,
    /// The metric along the vertical axis.
    pub y: String,
    /// Vertical lines to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<TableReference>,
}

/// A vertical line in a chart.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TableReference {
    /// What it is, such as `saturation point`.
    pub name: String,
    /// Its position, in the SI unit of the horizontal metric.
    pub value: f64,
}

/// An axis and its value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TableAxis {
    /// Its heading.
    pub axis: String,
    /// The printed value.
    pub value: String,
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TableColumn {
    /// Heading of its group, such as a study, or `measured`.
    pub group: String,
    /// Heading.
    pub head: String,
    /// Its cells' format, in which each word that is a unit stands for a figure: `Mb/s (%)`.
    pub format: String,
    /// The units in the format, in order.
    pub units: Vec<String>,
    /// The metrics of its figures, in order.
    pub metrics: Vec<String>,
    /// Whether others published its figures; else they were measured.
    pub published: bool,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TableRow {
    /// Its labels.
    pub labels: Vec<String>,
    /// A cell for each column.
    pub cells: Vec<TableCell>,
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TableCell {
    /// Its text, figures in the units of the column; empty without a figure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The text of each figure; empty where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// The figures in SI units; absent where there is none or the published one is not a number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Option<f64>>,
    /// Why there is no figure, such as `not run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// The tool or the host limited runs on which it is based.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_limited: bool,
}
