//! The units of figures: formatting with a fitting prefix, and parsing.

use crate::units::ByteSize;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    BitsPerSecond,
    /// Packets per second.
    PacketsPerSecond,
    /// Transactions per second.
    TransactionsPerSecond,
    /// Seconds.
    Seconds,
    /// A ratio, written as a percentage.
    Ratio,
    /// Bytes.
    Bytes,
    /// A count.
    Count,
    /// Times per minute.
    PerMinute,
}

impl Unit {
    /// Formats a figure: four significant digits and a prefix.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        let scaled = |steps: &[(f64, &str)]| {
            let (factor, prefix) = steps
                .iter()
                .find(|(factor, _)| value.abs() >= *factor)
                .or(steps.last())
                .copied()
                .unwrap_or((1.0, ""));
            format!("{} {prefix}", significant(value / factor))
        };
        const RATE: &[(f64, &str)] = &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
        match self {
            Unit::BitsPerSecond => scaled(RATE) + "bit/s",
            Unit::PacketsPerSecond => scaled(RATE) + "packets/s",
            Unit::TransactionsPerSecond => scaled(RATE) + "transactions/s",
            Unit::Bytes => {
                const SIZE: &[(f64, &str)] =
                    &[(1_073_741_824.0, "Gi"), (1_048_576.0, "Mi"), (1024.0, "Ki"), (1.0, "")];
                scaled(SIZE) + "B"
            }
            Unit::Seconds => scaled(&[(1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")]) + "s",
            Unit::Ratio => format!("{} %", significant(value * 100.0)),
            Unit::Count => significant(value),
            Unit::PerMinute => format!("{} per minute", significant(value)),
        }
    }

    /// Its SI unit as it ends the names of fields: `bits_per_second`.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::BitsPerSecond => "bits_per_second",
            Unit::PacketsPerSecond => "packets_per_second",
            Unit::TransactionsPerSecond => "transactions_per_second",
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
            Unit::Ratio => "ratio",
            Unit::Count => "count",
            Unit::PerMinute => "per_minute",
        }
    }

    /// Reads a figure with its unit (`95 Mbit/s`, `0.1 %`, `30 ms`); a bare number is in the SI unit. Unless
    /// they are 0, ratios must be percentages and times must have a unit.
    #[must_use]
    pub(crate) fn read(self, text: &str) -> Option<f64> {
        let text = text.trim();
        let end = text
            .char_indices()
            .find(|(i, c)| {
                let exponent = matches!(c, 'e' | 'E')
                    && text[i + 1..].starts_with(|d: char| d.is_ascii_digit() || d == '-');
                let sign = matches!(c, '-' | '+') && (*i == 0 || text[..*i].ends_with(['e', 'E']));
                !(c.is_ascii_digit() || *c == '.' || exponent || sign)
            })
            .map_or(text.len(), |(i, _)| i);
        let (number, suffix) = text.split_at(end);
        let number: f64 = number.parse().ok().filter(|n: &f64| n.is_finite())?;
        let suffix = suffix.trim();
        let prefixed = |names: &[&str]| {
            let stem = names.iter().find_map(|n| suffix.strip_suffix(n)).unwrap_or(suffix);
            match stem.trim() {
                "" => Some(1.0),
                "k" | "K" => Some(1e3),
                "M" => Some(1e6),
                "G" => Some(1e9),
                "T" => Some(1e12),
                _ => None,
            }
        };
        let factor: f64 = match self {
            Unit::BitsPerSecond => prefixed(&["bit/s", "bits/s", "bps"])?,
            Unit::PacketsPerSecond => prefixed(&["packets/s", "pps"])?,
            Unit::TransactionsPerSecond => prefixed(&["transactions/s", "tps"])?,
            // As in all sizes, K is 1024.
            Unit::Bytes => match suffix {
                "bytes" => 1.0,
                _ => format!("1{suffix}").parse::<ByteSize>().ok()?.0 as f64,
            },
            Unit::Seconds => match suffix {
                "s" => 1.0,
                // `jitter < 5` means milliseconds; 5 s would hold on any path.
                "" if number == 0.0 => 1.0,
                "ms" => 1e-3,
                "us" | "µs" | "μs" => 1e-6,
                "ns" => 1e-9,
                "m" | "min" => 60.0,
                _ => return None,
            },
            Unit::Ratio => match suffix {
                "%" => 0.01,
                // `loss < 1` means 1 %; as a ratio it would always hold. 0 is the same in both.
                "" if number == 0.0 => 1.0,
                _ => return None,
            },
            Unit::Count => match suffix {
                "" | "packets" | "segments" | "slots" => 1.0,
                _ => prefixed(&[])?,
            },
            Unit::PerMinute => match suffix {
                "" | "per minute" | "/min" | "rpm" | "RPM" => 1.0,
                _ => return None,
            },
        };
        // Division is exact where multiplication is not: 30 ms is exactly 0.03 s.
        let value =
            if factor < 1.0 { number / (1.0_f64 / factor).round() } else { number * factor };
        Some(value).filter(|v| v.is_finite())
    }

    /// The forms that [`Unit::read`] accepts.
    #[must_use]
    pub(crate) fn accepted(self) -> &'static str {
        match self {
            Unit::BitsPerSecond => "a rate such as 95 Mbit/s",
            Unit::PacketsPerSecond => "a packet rate such as 50000 or 50 kpps",
            Unit::TransactionsPerSecond => "transactions per second such as 10000 or 10 ktps",
            Unit::Bytes => "bytes such as 1460, 64K or 10M (K is 1024)",
            Unit::Seconds => "a time with its unit, such as 30 ms or 250 us",
            Unit::Ratio => "per cent with its sign, such as 0.1 %, 1 % or 100 %",
            Unit::Count => "a number",
            Unit::PerMinute => "a number per minute",
        }
    }
}

/// Four significant digits, without trailing zeros.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { value.to_string() };
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.*}", digits as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_parsed_and_formatted_with_units() {
        for (unit, text, value) in [
            (Unit::BitsPerSecond, "95 Mbit/s", 95e6),
            (Unit::BitsPerSecond, "1.5G", 1.5e9),
            (Unit::PacketsPerSecond, "50 kpps", 50e3),
            (Unit::TransactionsPerSecond, "10 ktps", 10e3),
            (Unit::Seconds, "30 ms", 0.03),
            (Unit::Seconds, "250us", 0.00025),
            (Unit::Seconds, "-1e-3 s", -0.001),
            (Unit::Seconds, "0", 0.0),
            (Unit::Ratio, "0.1 %", 0.001),
            (Unit::Ratio, "100%", 1.0),
            (Unit::Ratio, "0", 0.0),
            (Unit::Ratio, "0.0", 0.0),
            (Unit::Count, "12", 12.0),
            (Unit::Bytes, "64 KiB", 65536.0),
            (Unit::Bytes, "64K", 65536.0),
            (Unit::Bytes, "1 MB", 1_048_576.0),
            (Unit::Bytes, "1460 bytes", 1460.0),
        ] {
            assert_eq!(unit.read(text), Some(value), "{text}");
        }
        for (unit, text) in [
            (Unit::Seconds, "30 Mbit/s"),
            (Unit::Seconds, "5"),
            (Unit::Seconds, "0.005"),
            (Unit::Ratio, "1 ms"),
            (Unit::Ratio, "1"),
            (Unit::Ratio, "0.001"),
            (Unit::Count, "many"),
            (Unit::Seconds, ""),
        ] {
            assert_eq!(unit.read(text), None, "{text}");
        }
        assert_eq!(Unit::BitsPerSecond.show(94_937_123.0), "94.94 Mbit/s");
        assert_eq!(Unit::Seconds.show(0.000_031), "31 µs");
        assert_eq!(Unit::Ratio.show(0.001), "0.1 %");
        assert_eq!(Unit::Count.show(0.0), "0");
        assert_eq!(Unit::Bytes.show(65536.0), "64 KiB");
    }
}
