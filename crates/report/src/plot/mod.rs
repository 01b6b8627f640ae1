//! Charts: a [`Figure`] is data that can be drawn as SVG and written as CSV.
//!
//! A [`Figure`] is independent of runs: whether over time, by a swept parameter, by category or as a distribution, it consists
//! of axes and series of points. Points may have a confidence interval and a mark that they are host-limited. A value that was
//! not measured has no point, or one whose `y` is NaN: a gap, never zero.
//!
//! ```
//! use weir_report::plot::{Axis, Figure, Point, Quantity, Series};
//! let figure = Figure::curve(
//!     "throughput-by-size",
//!     "Throughput by payload",
//!     Axis::new("Payload", "payload_bytes", Quantity::Number),
//!     Axis::new("Received", "received_bits_per_second", Quantity::BitsPerSecond),
//! )
//! .with(Series::curve("weir").points([
//!     Point::at(128.0, 410e6).between(400e6, 420e6),
//!     Point::at(1408.0, 941e6).between(940e6, 942e6),
//! ]));
//! assert!(figure.svg().starts_with("<svg "));
//! assert!(figure.csv().starts_with("series,payload_bytes,received_bits_per_second,low_received_bits_per_second"));
//! ```

mod csv;
mod data;
mod decimate;
mod figure;
mod label;
mod layout;
mod quantity;
mod svg;
mod ticks;

pub use data::{FigureAxis, FigureData, FigureReference, FigureSeries};
pub use figure::{
    Axis, Figure, Labels, Mark, Point, Reference, ReferenceLine, Scale, Series, Shade, Spread,
};
pub use quantity::Quantity;
pub(crate) use svg::{COLOURS, SLOTS, STYLE};
