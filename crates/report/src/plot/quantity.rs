//! The quantity of an axis or a column, and its unit, with a prefix chosen by magnitude.

use crate::markup::grouped;
use crate::number::{percent, significant};

/// The kind of a figure. Values are in its SI unit: seconds, bit/s, packets/s, bytes, a ratio of 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quantity {
    /// A duration, in seconds.
    Seconds,
    /// A rate, in bit/s; prefixes are powers of 1000.
    BitsPerSecond,
    /// A rate, in packets/s.
    PacketsPerSecond,
    /// A rate, in transactions/s.
    TransactionsPerSecond,
    /// A rate, in transfers/s.
    TransfersPerSecond,
    /// A rate, in bytes per second, shown in kB/s (1000 bytes), as studies do.
    BytesPerSecond,
    /// A volume in bytes; prefixes are powers of 1024.
    Bytes,
    /// A ratio, shown in percent.
    Ratio,
    /// Times per minute.
    PerMinute,
    /// A number of things: whole when exact.
    Count,
    /// A bare number.
    #[default]
    Number,
}

/// A unit: the value that is 1 of it, and its symbol.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unit {
    pub(crate) factor: f64,
    pub(crate) symbol: &'static str,
}

impl Quantity {
    /// The unit in which values up to `magnitude` have one to three whole digits.
    pub(crate) fn unit(self, magnitude: f64) -> Unit {
        let table: &[(f64, &'static str)] = match self {
            Quantity::Seconds => &[(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")],
            Quantity::BitsPerSecond => &[
                (1.0, "bit/s"),
                (1e3, "kbit/s"),
                (1e6, "Mbit/s"),
                (1e9, "Gbit/s"),
                (1e12, "Tbit/s"),
            ],
            Quantity::PacketsPerSecond => {
                &[(1.0, "packets/s"), (1e3, "kpackets/s"), (1e6, "Mpackets/s")]
            }
            Quantity::TransactionsPerSecond => {
                &[(1.0, "transactions/s"), (1e3, "ktransactions/s"), (1e6, "Mtransactions/s")]
            }
            Quantity::TransfersPerSecond => {
                &[(1.0, "transfers/s"), (1e3, "ktransfers/s"), (1e6, "Mtransfers/s")]
            }
            Quantity::BytesPerSecond => &[(1e3, "kB/s")],
            Quantity::Bytes => &[
                (1.0, "B"),
                (1024.0, "KiB"),
                (1_048_576.0, "MiB"),
                (1_073_741_824.0, "GiB"),
                (1_099_511_627_776.0, "TiB"),
            ],
            Quantity::Ratio => &[(0.01, "%")],
            Quantity::PerMinute => &[(1.0, "per minute")],
            Quantity::Count | Quantity::Number => &[(1.0, "")],
        };
        // A value that rounds to 1000 of a unit is shown as 1 of the next.
        let found = table.iter().rev().find(|(factor, _)| magnitude >= factor * 0.9995);
        let (factor, symbol) = *found.unwrap_or(&table[0]);
        Unit { factor, symbol }
    }

    /// A figure with its unit, to three significant digits: `9.41 Gbit/s`. Not finite: `–`.
    pub(crate) fn format(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".into();
        }
        match self {
            Quantity::Ratio => percent(value).replace('%', "\u{a0}%"),
            // Above 2^53 not every count is representable, but the digits of the float are exact.
            Quantity::Count if value.fract() == 0.0 => grouped(&format!("{value:.0}")),
            Quantity::Count | Quantity::Number => number(value),
            Quantity::Seconds if value == 0.0 => "0\u{a0}s".into(),
            _ => {
                let unit = self.unit(value.abs());
                format!("{}\u{a0}{}", grouped(&significant(value / unit.factor)), unit.symbol)
            }
        }
    }
}

/// A bare number to three significant digits, in scientific notation if it is very small or very large.
fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 || (0.9995..1e7).contains(&magnitude) {
        grouped(&significant(value))
    } else if (1e-4..0.9995).contains(&magnitude) {
        let decimals = (2.0 - magnitude.log10().floor()) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:.2e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_unit_chosen_by_magnitude() {
        let nb = |text: String| text.replace('\u{a0}', " ").replace('\u{202f}', "_");
        for (quantity, value, text) in [
            (Quantity::BitsPerSecond, 9.41e9, "9.41 Gbit/s"),
            (Quantity::BitsPerSecond, 999.97e6, "1.00 Gbit/s"),
            (Quantity::BitsPerSecond, 0.0, "0.00 bit/s"),
            (Quantity::Seconds, 1.25e-5, "12.5 µs"),
            (Quantity::Seconds, -3e-3, "-3.00 ms"),
            (Quantity::Seconds, 7200.0, "7200 s"),
            (Quantity::Seconds, 0.0, "0 s"),
            (Quantity::PacketsPerSecond, 50_000.0, "50.0 kpackets/s"),
            (Quantity::BytesPerSecond, 1_250_000.0, "1250 kB/s"),
            (Quantity::Bytes, 1_310_720.0, "1.25 MiB"),
            (Quantity::Ratio, 0.0012, "0.12 %"),
            (Quantity::PerMinute, 1225.4, "1225 per minute"),
            (Quantity::PerMinute, 18_400_000.0, "18_400_000 per minute"),
            (Quantity::Ratio, 1e-9, "<0.001 %"),
            (Quantity::Count, 1_234_567.0, "1_234_567"),
            (Quantity::Count, 2.5, "2.50"),
            (Quantity::Number, 1e-6, "1.00e-6"),
            (Quantity::Number, 1_265_881_250.0, "1.27e9"),
            (Quantity::Number, 1_840_000.0, "1_840_000"),
            (Quantity::Number, 0.0437, "0.0437"),
            (Quantity::Number, 0.0, "0.00"),
            (Quantity::Number, f64::NAN, "–"),
        ] {
            assert_eq!(nb(quantity.format(value)), text);
        }
    }
}
