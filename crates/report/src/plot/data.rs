//! A figure as columns of values, for programs and the page.

use schemars::JsonSchema;
use serde::Serialize;

use super::figure::{
    Axis, Figure, Labels, Mark, Point, Reference, ReferenceLine, Scale, Series, Spread,
};
use super::quantity::Quantity;

/// A figure as data.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FigureData {
    /// Name: lower-case letters, digits, hyphens.
    pub id: String,
    /// Title.
    pub title: String,
    /// Caption.
    pub caption: String,
    /// The horizontal axis.
    pub x: FigureAxis,
    /// The vertical axis.
    pub y: FigureAxis,
    /// The series, bottom first.
    pub series: Vec<FigureSeries>,
    /// Reference lines.
    pub references: Vec<FigureReference>,
    /// Ranges of `x` that are excluded from the totals: start, end.
    pub shades: Vec<[f64; 2]>,
    /// `legend`: the names of series are above the plot; absent: beside the ends of lines if they are few and short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FigureAxis {
    /// The quantity, without the unit.
    pub label: String,
    /// Its name in files; ends in the SI unit.
    pub key: String,
    /// Kind of its values: `seconds`, `bits_per_second`, `packets_per_second`, `bytes_per_second`, `bytes`, `ratio`, `per_minute`, `count`, `number`.
    pub quantity: String,
    /// `linear`, `log` or `category`.
    pub scale: String,
    /// It starts at zero.
    pub from_zero: bool,
    /// The names of a category axis.
    pub categories: Vec<String>,
}

/// A series: arrays of one length. Absent values are null.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FigureSeries {
    /// Name.
    pub name: String,
    /// `line`, `step`, `area`, `bars`, `points` or `curve`.
    pub mark: String,
    /// `band`: intervals are a band behind the line; absent: a bar with caps at each point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<String>,
    /// Index in the palette, from 0; absent: its index in the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colour: Option<usize>,
    /// It is the sum of the others.
    pub heavy: bool,
    /// Positions of the values, or starts of their ranges.
    pub x: Vec<Option<f64>>,
    /// Ends of the ranges; empty without any.
    pub x_end: Vec<Option<f64>>,
    /// Values; null is a gap.
    pub y: Vec<Option<f64>>,
    /// Lower ends of intervals; empty without any.
    pub low: Vec<Option<f64>>,
    /// Upper ends.
    pub high: Vec<Option<f64>>,
    /// Indices of host-limited values.
    pub host_limited: Vec<usize>,
}

/// A reference line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FigureReference {
    /// What it is.
    pub name: String,
    /// `horizontal`, `vertical` or `diagonal`.
    pub place: String,
    /// Its position; absent for a diagonal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

impl From<&Figure> for FigureData {
    fn from(f: &Figure) -> FigureData {
        FigureData {
            id: f.id.clone(),
            title: f.title.clone(),
            caption: f.caption.clone(),
            x: FigureAxis::from(&f.x),
            y: FigureAxis::from(&f.y),
            series: f.series.iter().map(FigureSeries::from).collect(),
            references: f.references.iter().map(FigureReference::from).collect(),
            shades: f.shades.iter().map(|s| [s.x, s.x_end]).collect(),
            labels: (f.labels == Labels::Legend).then(|| "legend".into()),
        }
    }
}

impl From<&Axis> for FigureAxis {
    fn from(a: &Axis) -> FigureAxis {
        let quantity = match a.quantity {
            Quantity::Seconds => "seconds",
            Quantity::BitsPerSecond => "bits_per_second",
            Quantity::PacketsPerSecond => "packets_per_second",
            Quantity::TransactionsPerSecond => "transactions_per_second",
            Quantity::TransfersPerSecond => "transfers_per_second",
            Quantity::BytesPerSecond => "bytes_per_second",
            Quantity::Bytes => "bytes",
            Quantity::Ratio => "ratio",
            Quantity::PerMinute => "per_minute",
            Quantity::Count => "count",
            Quantity::Number => "number",
        };
        let scale = match a.scale {
            Scale::Linear => "linear",
            Scale::Log => "log",
            Scale::Category => "category",
        };
        FigureAxis {
            label: a.label.clone(),
            key: a.key.clone(),
            quantity: quantity.into(),
            scale: scale.into(),
            from_zero: a.from_zero,
            categories: a.categories.clone(),
        }
    }
}

impl From<&Series> for FigureSeries {
    fn from(s: &Series) -> FigureSeries {
        let mark = match s.mark {
            Mark::Line => "line",
            Mark::Step => "step",
            Mark::Area => "area",
            Mark::Bars => "bars",
            Mark::Points => "points",
            Mark::Curve => "curve",
        };
        let column = |of: fn(&Point) -> Option<f64>| -> Vec<Option<f64>> {
            let all: Vec<Option<f64>> = s.points.iter().map(|p| of(p).and_then(finite)).collect();
            if all.iter().any(Option::is_some) { all } else { vec![] }
        };
        FigureSeries {
            name: s.name.clone(),
            mark: mark.into(),
            spread: (s.spread == Spread::Band).then(|| "band".into()),
            colour: s.colour,
            heavy: s.heavy,
            x: s.points.iter().map(|p| finite(p.x)).collect(),
            x_end: column(|p| p.x_end),
            y: s.points.iter().map(|p| finite(p.y)).collect(),
            low: column(|p| p.low),
            high: column(|p| p.high),
            host_limited: (0..s.points.len()).filter(|i| s.points[*i].host_limited).collect(),
        }
    }
}

impl From<&Reference> for FigureReference {
    fn from(r: &Reference) -> FigureReference {
        let (place, at) = match r.line {
            ReferenceLine::Horizontal(at) => ("horizontal", finite(at)),
            ReferenceLine::Vertical(at) => ("vertical", finite(at)),
            ReferenceLine::Diagonal => ("diagonal", None),
        };
        FigureReference { name: r.name.clone(), place: place.into(), at }
    }
}
