//! A figure as data.

use super::Quantity;
use crate::markup::slug;

/// How values lie along an axis.
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
    /// What it measures, without the unit.
    pub label: String,
    /// The column's name in CSV; ends in its SI unit.
    pub key: String,
    /// The kind of its values; the unit follows from it.
    pub quantity: Quantity,
    /// How values lie along it.
    pub scale: Scale,
    /// A linear axis begins at zero, where no value is below.
    pub from_zero: bool,
    /// The names of a [`Scale::Category`] axis.
    pub categories: Vec<String>,
}

impl Axis {
    /// A linear axis that begins at zero.
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
    pub fn categories<I: IntoIterator<Item = S>, S: Into<String>>(
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

    /// The same axis, logarithmic.
    pub fn log(self) -> Axis {
        Axis { scale: Scale::Log, ..self }
    }

    /// The same axis, from the smallest to the largest value.
    pub(crate) fn tight(self) -> Axis {
        Axis { from_zero: false, ..self }
    }
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Where it is, or where its stretch begins.
    pub x: f64,
    /// Where its stretch ends: of an interval, of a histogram's bin.
    pub x_end: Option<f64>,
    /// The value; not finite: a gap.
    pub y: f64,
    /// Lower end of the interval of confidence, or of a range.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// It is host-limited: a warning belongs to it.
    pub host_limited: bool,
}

impl Point {
    /// A value at a place.
    pub fn at(x: f64, y: f64) -> Point {
        Point { x, x_end: None, y, low: None, high: None, host_limited: false }
    }

    /// A value over a stretch.
    pub fn over(x: f64, x_end: f64, y: f64) -> Point {
        Point { x_end: Some(x_end), ..Point::at(x, y) }
    }

    /// The same value with the ends of its interval.
    pub fn between(self, low: f64, high: f64) -> Point {
        Point { low: Some(low), high: Some(high), ..self }
    }

    /// The same value, marked where it is host-limited.
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
    /// A level over each stretch.
    Step,
    /// As [`Mark::Step`], filled down to the axis.
    Area,
    /// A bar over each stretch, or in each category alongside those of the other series.
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
    /// Drawn heavier: a sum among its parts.
    pub heavy: bool,
    /// Place in the palette; absent: its place in the figure.
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

    /// The same series with these values.
    pub fn points(mut self, points: impl IntoIterator<Item = Point>) -> Series {
        self.points.extend(points);
        self
    }

    /// Whether anything was measured.
    pub fn is_empty(&self) -> bool {
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

/// A line to compare with: the nominal rate, what was asked, a point that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// What it is.
    pub name: String,
    /// Where.
    pub line: ReferenceLine,
}

/// A stretch of `x` that is set apart: time left out of the totals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shade {
    /// Where it begins.
    pub x: f64,
    /// Where it ends.
    pub x_end: f64,
}

/// Where the names of series stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Labels {
    /// Beside the lines' ends where they are few and short, else above.
    #[default]
    Auto,
    /// Above the plot.
    Legend,
}

/// A chart as data: [`Figure::svg`] draws it, [`Figure::csv`] writes it out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figure {
    /// Name of its files and of its element: lower-case letters, digits, hyphens.
    pub id: String,
    /// Title.
    pub title: String,
    /// What it shows, in words: a reader's caption and the description for those who can't see it.
    pub caption: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn, the first one lowest.
    pub series: Vec<Series>,
    /// Lines to compare with.
    pub references: Vec<Reference>,
    /// Stretches set apart.
    pub shades: Vec<Shade>,
    /// Where names stand.
    pub labels: Labels,
}

impl Figure {
    /// A figure without series. The id is made one that serves as a file's name.
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

    /// What was measured against what was asked, both of one kind, with the line on which they are equal.
    pub fn asked_measured(id: &str, title: &str, quantity: Quantity, unit_suffix: &str) -> Figure {
        let axis = |label: &str| {
            let key = format!("{}{unit_suffix}", label.to_lowercase());
            Axis::new(label, &key, quantity)
        };
        Figure::new(id, title, axis("Asked"), axis("Measured"))
            .reference("equal", ReferenceLine::Diagonal)
    }

    /// The share of values at or below `x`.
    pub fn cdf(id: &str, title: &str, x: Axis) -> Figure {
        let y = Axis::new("Fraction at or below", "fraction_ratio", Quantity::Ratio);
        Figure { labels: Labels::Legend, ..Figure::new(id, title, x.tight(), y) }
    }

    /// The share of values above `x`, logarithmic: the tail.
    pub(crate) fn ccdf(id: &str, title: &str, x: Axis) -> Figure {
        let y = Axis::new("Fraction above", "fraction_above_ratio", Quantity::Ratio).log();
        Figure { labels: Labels::Legend, ..Figure::new(id, title, x.tight(), y) }
    }

    /// How often values fell into each bin.
    pub fn histogram(id: &str, title: &str, x: Axis) -> Figure {
        let y = Axis::new("Fraction of samples", "fraction_ratio", Quantity::Ratio);
        Figure { labels: Labels::Legend, ..Figure::new(id, title, x.tight(), y) }
    }

    /// The same figure and one series more.
    pub fn with(mut self, series: Series) -> Figure {
        self.series.push(series);
        self
    }

    /// The same figure with a caption.
    pub fn caption(mut self, caption: impl Into<String>) -> Figure {
        self.caption = caption.into();
        self
    }

    /// The same figure and a line to compare with.
    pub fn reference(mut self, name: &str, line: ReferenceLine) -> Figure {
        self.references.push(Reference { name: name.into(), line });
        self
    }

    /// Whether anything was measured.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(Series::is_empty)
    }
}
