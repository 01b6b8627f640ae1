//! The layout of a drawing: the rulers of both axes.

use super::figure::{Axis, Figure, Mark, ReferenceLine, Scale};
use super::ticks::{self, Step};
use super::{Quantity, label};

/// A mark of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// Position in the drawing.
    pub(super) at: f64,
    /// Its label, if it has one.
    pub(super) label: Option<String>,
}

/// The upper end of an axis if all values are zero.
fn end_if_all_zero(quantity: Quantity) -> f64 {
    match quantity {
        Quantity::Ratio => 0.01,
        Quantity::Seconds => 1e-6,
        _ => 1.0,
    }
}

/// Maps values of one axis to positions in the drawing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ruler {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
    /// Marks.
    pub(super) ticks: Vec<Tick>,
    /// The axis' name with its unit.
    pub(super) title: String,
}

/// The range of the values along an axis, and the smallest value above zero.
#[derive(Debug, Clone, Copy)]
struct DataRange {
    low: f64,
    high: f64,
    positive: f64,
}

impl DataRange {
    fn of(values: impl Iterator<Item = f64>) -> DataRange {
        let mut e =
            DataRange { low: f64::INFINITY, high: f64::NEG_INFINITY, positive: f64::INFINITY };
        for v in values.filter(|v| v.is_finite()) {
            e.low = e.low.min(v);
            e.high = e.high.max(v);
            if v > 0.0 {
                e.positive = e.positive.min(v);
            }
        }
        if e.low > e.high { DataRange { low: 0.0, high: 1.0, positive: 1.0 } } else { e }
    }
}

impl Ruler {
    /// The horizontal ruler, between the positions `from` and `to`.
    pub(super) fn across(figure: &Figure, from: f64, to: f64) -> Ruler {
        let measured = figure.series.iter().flat_map(|s| &s.points).filter(|p| p.y.is_finite());
        let points = measured.flat_map(|p| [Some(p.x), p.x_end]).flatten();
        let lines = figure.references.iter().filter_map(|r| match r.line {
            ReferenceLine::Vertical(x) => Some(x),
            _ => None,
        });
        let shades = figure.shades.iter().flat_map(|s| [s.x, s.x_end]);
        let range = DataRange::of(points.chain(lines).chain(shades));
        if figure.x.scale == Scale::Category {
            return Ruler::names(&figure.x, from, to);
        }
        // Dots must not lie on the frame.
        let dots = figure.series.iter().any(|s| matches!(s.mark, Mark::Points | Mark::Curve));
        let inset = if dots && !figure.x.from_zero { 8.0 } else { 0.0 };
        Ruler::new(&figure.x, range, (from + inset, to - inset), 7, false)
    }

    /// The vertical ruler; `bottom` is greater than `top`.
    pub(super) fn up(figure: &Figure, bottom: f64, top: f64) -> Ruler {
        let points = figure
            .series
            .iter()
            .flat_map(|s| &s.points)
            .filter(|p| p.y.is_finite())
            .flat_map(|p| [Some(p.y), p.low, p.high])
            .flatten();
        let lines = figure.references.iter().filter_map(|r| match r.line {
            ReferenceLine::Horizontal(y) => Some(y),
            _ => None,
        });
        Ruler::new(&figure.y, DataRange::of(points.chain(lines)), (bottom, top), 5, true)
    }

    fn new(
        axis: &Axis,
        range: DataRange,
        (from, to): (f64, f64),
        wanted: usize,
        round: bool,
    ) -> Ruler {
        if axis.scale == Scale::Log {
            // No value above zero: use any decade.
            let positive = if range.positive.is_finite() { range.positive } else { 0.1 };
            let (low, high) = ticks::log_range(positive, range.high.max(positive));
            let mut ruler = Ruler {
                low: low.log10(),
                high: high.log10(),
                log: true,
                from,
                to,
                ticks: vec![],
                title: axis.label.clone(),
            };
            ruler.ticks = ticks::log(low, high, wanted)
                .into_iter()
                .map(|m| Tick {
                    at: ruler.place(m.value),
                    label: m.major.then(|| label::logarithmic(m.value, axis.quantity)),
                })
                .collect();
            return ruler;
        }
        let (low, high) = match axis.from_zero {
            false => (range.low, range.high),
            // An axis from zero with end_if_all_zero above it still has a length.
            true if range.low == 0.0 && range.high == 0.0 => (0.0, end_if_all_zero(axis.quantity)),
            true => (range.low.min(0.0), range.high.max(0.0)),
        };
        let (low, high) = ticks::widened(low, high);
        let unit = axis.quantity.unit(low.abs().max(high.abs()));
        let (mut bottom, mut top) = (low / unit.factor, high / unit.factor);
        // Counts have whole marks only.
        let whole = axis.quantity == Quantity::Count;
        let most = (top - bottom).ceil().clamp(1.0, 9.0) as usize;
        let step = Step::of(bottom, top, if whole { wanted.min(most) } else { wanted });
        if round {
            bottom = (bottom / step.length() + 1e-9).floor() * step.length();
            top = (top / step.length() - 1e-9).ceil() * step.length();
        }
        let marks = step.marks(bottom, top);
        let mut ruler = Ruler {
            low: bottom * unit.factor,
            high: top * unit.factor,
            log: false,
            from,
            to,
            ticks: vec![],
            title: label::axis(&axis.label, unit.symbol),
        };
        ruler.ticks = marks
            .marks
            .iter()
            .map(|m| Tick {
                at: ruler.place(m * unit.factor),
                label: Some(label::linear(*m, marks.decimals)),
            })
            .collect();
        ruler
    }

    /// The ruler of an axis of names: position n is the middle of the nth of equal parts.
    fn names(axis: &Axis, from: f64, to: f64) -> Ruler {
        let count = axis.categories.len().max(1);
        let band = (to - from) / count as f64;
        // If there is no room for 5 characters of each name, show every nth name.
        let nth = (5.0 * label::CHARACTER / band).ceil().max(1.0) as usize;
        let mut ruler = Ruler {
            low: -0.5,
            high: count as f64 - 0.5,
            log: false,
            from,
            to,
            ticks: vec![],
            title: axis.label.clone(),
        };
        ruler.ticks = axis
            .categories
            .iter()
            .enumerate()
            .step_by(nth)
            .map(|(i, name)| Tick {
                at: ruler.place(i as f64),
                label: Some(label::fitted(name, band * nth as f64 - 4.0)),
            })
            .collect();
        ruler
    }

    /// The position of a value in the drawing, clamped to the ends of the axis.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.log { value.max(1e-300).log10() } else { value };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// The position of zero, or of the end nearest to it, from which bars are drawn.
    pub(super) fn floor(&self) -> f64 {
        if self.log { self.from } else { self.place(0.0) }
    }

    /// The values at both ends.
    pub(super) fn ends(&self) -> (f64, f64) {
        if self.log { (10f64.powf(self.low), 10f64.powf(self.high)) } else { (self.low, self.high) }
    }

    /// The width of one of `count` parts of an axis of names.
    pub(super) fn band(&self) -> f64 {
        ((self.to - self.from) / (self.high - self.low)).abs()
    }
}
