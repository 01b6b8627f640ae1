//! A figure as data.

use super::Quantity;
use crate::markup::slug;

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Equal differences have equal lengths.
    #[default]
    Linear,
    /// Equal ratios have equal lengths. Values at or below zero are drawn at the lower end.
    Log,
    /// The value is a position in [`Axis::categories`], from 0.
    Category,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// The measured quantity, without the unit.
    pub label: String,
    /// The column's name in CSV; ends in its SI unit.
    pub key: String,
    /// The kind of its values; the unit follows from it.
    pub quantity: Quantity,
    /// Its scale.
    pub scale: Scale,
    /// Whether a linear axis starts at zero, unless values are below.
    pub from_zero: bool,
    /// The names of a [`Scale::Category`] axis.
    pub categories: Vec<String>,
}

impl Axis {
    /// A linear axis that starts at zero.
    pub fn new(label: &str, key: &str, quantity: Quantity) -> Axis {
        Axis {
            label: label.into(),
            key: key.into(),
            quantity,
            from_zero: true,
            ..Default::default()
        }
    }

    /// Time since the start of a test, in seconds.
    pub fn time() -> Axis {
        Axis::new("Time since the start", "time_seconds", Quantity::Seconds)
    }

    /// An axis of names.
    pub(crate) fn categories<I: IntoIterator<Item = S>, S: Into<String>>(
        label: &str,
        key: &str,
        names: I,
    ) -> Axis {
        Axis {
            scale: Scale::Category,
            categories: names.into_iter().map(Into::into).collect(),
            ..Axis::new(label, key, Quantity::Number)
        }
    }

    /// The axis, made logarithmic.
    pub fn log(self) -> Axis {
        Axis { scale: Scale::Log, ..self }
    }

    /// The axis, from the smallest to the largest value.
    pub(crate) fn tight(self) -> Axis {
        Axis { from_zero: false, ..self }
    }
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Its position, or the start of its range.
    pub x: f64,
    /// The end of its range, such as an interval or a bin.
    pub x_end: Option<f64>,
    /// The value; not finite: a gap.
    pub y: f64,
    /// Lower end of the confidence interval, or of a range.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Whether it is host-limited, that is, has a warning.
    pub host_limited: bool,
}

impl Point {
    /// A value at a position.
    pub fn at(x: f64, y: f64) -> Point {
        Point { x, x_end: None, y, low: None, high: None, host_limited: false }
    }

    /// A value over a range.
    pub fn over(x: f64, x_end: f64, y: f64) -> Point {
        Point { x_end: Some(x_end), ..Point::at(x, y) }
    }

    /// The value with the ends of its interval.
    pub fn between(self, low: f64, high: f64) -> Point {
        Point { low: Some(low), high: Some(high), ..self }
    }

    /// The value, marked if it is host-limited.
    pub fn host_limited(self, host_limited: bool) -> Point {
        Point { host_limited, ..self }
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mark {
    /// A line through the points.
    #[default]
    Line,
    /// A level over each range.
    Step,
    /// As [`Mark::Step`], filled down to the axis.
    Area,
    /// A bar over each range, or in each category alongside those of the other series.
    Bars,
    /// Dots.
    Points,
    /// Dots joined by a line.
    Curve,
}

/// How the ends of intervals are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spread {
    /// A bar with caps at each point.
    #[default]
    Bars,
    /// A band behind the line.
    Band,
}

/// Values of one kind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Its name next to the line or in the legend.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// How its intervals are drawn.
    pub spread: Spread,
    /// The values, ascending in `x`.
    pub points: Vec<Point>,
    /// Whether the line is thicker, as for a sum among its parts.
    pub heavy: bool,
    /// Index in the palette; absent: its index in the figure.
    pub colour: Option<usize>,
}

impl Series {
    /// An empty series.
    pub fn new(name: impl Into<String>, mark: Mark) -> Series {
        Series { name: name.into(), mark, ..Default::default() }
    }

    /// A series by a swept parameter: dots, a line, error bars.
    pub fn curve(name: impl Into<String>) -> Series {
        Series::new(name, Mark::Curve)
    }

    /// The series with these values.
    pub fn points(mut self, points: impl IntoIterator<Item = Point>) -> Series {
        self.points.extend(points);
        self
    }

    /// Whether anything was measured.
    pub(crate) fn is_empty(&self) -> bool {
        !self.points.iter().any(|p| p.y.is_finite())
    }
}

/// A line across a chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReferenceLine {
    /// At this `y`.
    Horizontal(f64),
    /// At this `x`.
    Vertical(f64),
    /// Where `y` equals `x`.
    Diagonal,
}

/// A line to compare with: the nominal rate, a requested value, the result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its position.
    pub line: ReferenceLine,
}

/// A shaded range of `x`: time left out of the totals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shade {
    /// Its start.
    pub x: f64,
    /// Its end.
    pub x_end: f64,
}

/// The position of the names of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Labels {
    /// Beside the ends of lines if they are few and short, else above.
    #[default]
    Auto,
    /// Above the plot.
    Legend,
}

/// A chart as data: [`Figure::svg`] draws it, [`Figure::csv`] writes its data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figure {
    /// Name of its files and id of its element: lower-case letters, digits, hyphens.
    pub id: String,
    /// Title.
    pub title: String,
    /// The caption, which is also part of the description for screen readers.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series; the first is drawn first, below the others.
    pub series: Vec<Series>,
    /// Lines to compare with.
    pub references: Vec<Reference>,
    /// Shaded ranges.
    pub shades: Vec<Shade>,
    /// The position of the names of series.
    pub labels: Labels,
}

impl Figure {
    /// A figure without series. The id is reduced to a valid file name.
    pub fn new(id: &str, title: &str, x: Axis, y: Axis) -> Figure {
        Figure { id: slug(id), title: title.into(), x, y, ..Default::default() }
    }

    /// Values over time since the start of a test.
    pub fn over_time(id: &str, title: &str, y: Axis) -> Figure {
        Figure::new(id, title, Axis::time(), y)
    }

    /// Values by a swept parameter: series are best made by [`Series::curve`].
    pub fn curve(id: &str, title: &str, x: Axis, y: Axis) -> Figure {
        Figure::new(id, title, x.tight(), y)
    }

    /// Bars by name, side by side for each series: tools compared, hosts compared.
    pub fn grouped_bars<I: IntoIterator<Item = S>, S: Into<String>>(
        id: &str,
        title: &str,
        names: I,
        y: Axis,
    ) -> Figure {
        let x = Axis::categories("", "category", names);
        Figure { labels: Labels::Legend, ..Figure::new(id, title, x, y) }
    }

    /// Measured against requested values of one quantity, with the line on which they are equal.
    pub fn asked_measured(id: &str, title: &str, quantity: Quantity, unit_suffix: &str) -> Figure {
        let axis = |label: &str| {
            let key = format!("{}{unit_suffix}", label.to_lowercase());
            Axis::new(label, &key, quantity)
        };
        Figure::new(id, title, axis("Asked"), axis("Measured"))
            .reference("equal", ReferenceLine::Diagonal)
    }

    /// The fraction of values at or below `x`.
    pub(crate) fn cdf(id: &str, title: &str, x: Axis) -> Figure {
        let y = Axis::new("Fraction at or below", "fraction_ratio", Quantity::Ratio);
        Figure { labels: Labels::Legend, ..Figure::new(id, title, x.tight(), y) }
    }

    /// The fraction of values above `x`, logarithmic: the tail.
    pub(crate) fn ccdf(id: &str, title: &str, x: Axis) -> Figure {
        let y = Axis::new("Fraction above", "fraction_above_ratio", Quantity::Ratio).log();
        Figure { labels: Labels::Legend, ..Figure::new(id, title, x.tight(), y) }
    }

    /// The fraction of values in each bin.
    pub(crate) fn histogram(id: &str, title: &str, x: Axis) -> Figure {
        let y = Axis::new("Fraction of samples", "fraction_ratio", Quantity::Ratio);
        Figure { labels: Labels::Legend, ..Figure::new(id, title, x.tight(), y) }
    }

    /// The figure with one more series.
    pub fn with(mut self, series: Series) -> Figure {
        self.series.push(series);
        self
    }

    /// The figure with a caption.
    pub fn caption(mut self, caption: impl Into<String>) -> Figure {
        self.caption = caption.into();
        self
    }

    /// The figure with a line to compare with.
    pub fn reference(mut self, name: &str, line: ReferenceLine) -> Figure {
        self.references.push(Reference { name: name.into(), line });
        self
    }

    /// Whether anything was measured.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(Series::is_empty)
    }
}
