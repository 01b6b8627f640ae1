//! A figure's data as CSV, long and tidy: one row for each value, in SI units, with full precision.

use std::fmt::Write as _;

use weir_model::csv::text_cell;

use super::{Figure, Scale};

impl Figure {
    /// The data of the figure. RFC 4180, lines end in LF.
    ///
    /// The columns are `series`, the key of the x axis (with `end_…` if points span a range), the key of the y axis, `low_…` and
    /// `high_…` if there are intervals, and `host_limited` if any value is. It has all values, even if the drawing shows fewer; a
    /// gap is an empty cell.
    pub fn csv(&self) -> String {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let ends = points().any(|p| p.x_end.is_some());
        let spread = points().any(|p| p.low.is_some() || p.high.is_some());
        let host_limited = points().any(|p| p.host_limited);
        let (x, y) = (&self.x.key, &self.y.key);
        let mut header = vec!["series".to_string(), x.clone()];
        if ends {
            header.push(format!("end_{x}"));
        }
        header.push(y.clone());
        if spread {
            header.extend([format!("low_{y}"), format!("high_{y}")]);
        }
        if host_limited {
            header.push("host_limited".into());
        }
        let mut out = String::with_capacity(64 + points().count() * 40);
        out.push_str(&header.iter().map(|h| text_cell(h)).collect::<Vec<_>>().join(","));
        out.push('\n');
        for series in &self.series {
            let name = text_cell(&series.name);
            for p in &series.points {
                out.push_str(&name);
                out.push(',');
                match (self.x.scale, self.category(p.x)) {
                    (Scale::Category, Some(category)) => out.push_str(&text_cell(category)),
                    _ => number(&mut out, Some(p.x)),
                }
                let cell = |out: &mut String, value| {
                    out.push(',');
                    number(out, value);
                };
                if ends {
                    cell(&mut out, p.x_end);
                }
                cell(&mut out, Some(p.y));
                if spread {
                    cell(&mut out, p.low);
                    cell(&mut out, p.high);
                }
                if host_limited {
                    out.push_str(if p.host_limited { ",true" } else { ",false" });
                }
                out.push('\n');
            }
        }
        out
    }

    /// The name of a position on an axis of names.
    pub(super) fn category(&self, position: f64) -> Option<&str> {
        let at = (position >= 0.0 && position.fract() == 0.0).then_some(position as usize)?;
        self.x.categories.get(at).map(String::as_str)
    }
}

/// The shortest decimal that reads back as the same number; empty for a value that is not finite.
fn number(out: &mut String, value: Option<f64>) {
    let Some(value) = value.filter(|v| v.is_finite()) else { return };
    let magnitude = value.abs();
    // Writing into a string cannot fail.
    let _ = if value == 0.0 {
        write!(out, "0")
    } else if (1e-5..1e16).contains(&magnitude) {
        write!(out, "{value}")
    } else {
        write!(out, "{value:e}")
    };
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Point, Quantity, Series};
    use super::*;

    #[test]
    fn one_row_for_each_value() {
        let y = Axis::new("Rate", "rate_bits_per_second", Quantity::BitsPerSecond);
        let figure = Figure::grouped_bars("t", "T", ["a,b", "=c"], y)
            .with(Series::curve("x").points([Point::at(0.0, 1e9).between(9e8, 1.1e9)]))
            .with(
                Series::curve("y")
                    .points([Point::at(1.0, f64::NAN), Point::at(7.0, -1.5e-9).host_limited(true)]),
            );
        assert_eq!(
            figure.csv(),
            "series,category,rate_bits_per_second,low_rate_bits_per_second,high_rate_bits_per_second,host_limited\n\
             x,\"a,b\",1000000000,900000000,1100000000,false\n\
             y,'=c,,,,false\n\
             y,7,-1.5e-9,,,true\n"
        );
    }

    #[test]
    fn ranges_have_an_end_column() {
        let figure = Figure::over_time("t", "T", Axis::new("n", "n", Quantity::Count))
            .with(Series::curve("s").points([Point::over(0.0, 0.5, 0.1 + 0.2)]));
        assert_eq!(
            figure.csv(),
            "series,time_seconds,end_time_seconds,n\ns,0,0.5,0.30000000000000004\n"
        );
    }
}
