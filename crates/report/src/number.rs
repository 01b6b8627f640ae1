//! Formats numbers for people: at most four significant digits, with a unit chosen by magnitude.

use std::str::FromStr;

use weir_model::ModelError;

/// The unit of rates, `-f`: lower case is bits with powers of ten, upper case bytes with powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Units {
    bytes: bool,
    /// Power of 1000 or 1024; absent: chosen by size.
    power: Option<u8>,
}

impl Units {
    /// Bits per second, the prefix chosen by size.
    pub const ADAPTIVE: Units = Units { bytes: false, power: None };

    /// A rate, such as `9.41 Gbit/s` or `1.12 GiB/s`. Without a figure (not finite): `-`.
    pub fn rate(&self, bits_per_second: f64) -> String {
        let (value, names) = if self.bytes {
            (bits_per_second / 8.0, ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"])
        } else {
            (bits_per_second, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
        };
        scaled(value, if self.bytes { 1024.0 } else { 1000.0 }, self.power, names)
    }

    /// The width that a column of rates needs.
    pub fn rate_width(&self) -> usize {
        match (self.power, self.bytes) {
            // A fixed small unit needs long numbers.
            (Some(_), _) => 15,
            (None, _) => 11,
        }
    }
}

impl FromStr for Units {
    type Err = ModelError;
    /// `a` and `A` (chosen by size, as bits or bytes), `k m g t K M G T`.
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let power = match text {
            "a" | "A" => None,
            "k" | "K" => Some(1),
            "m" | "M" => Some(2),
            "g" | "G" => Some(3),
            "t" | "T" => Some(4),
            _ => {
                return Err(ModelError::Value {
                    what: "format",
                    given: text.into(),
                    accepted: "k, m, g, t (bits, powers of ten), K, M, G, T (bytes, K is 1024), a or A",
                });
            }
        };
        Ok(Units { bytes: text.chars().all(char::is_uppercase), power })
    }
}

/// A volume in bytes with powers of 1024, such as `1.25 MiB`.
pub fn volume(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, None, ["B", "KiB", "MiB", "GiB", "TiB"])
}

fn scaled(value: f64, kilo: f64, power: Option<u8>, names: [&str; 5]) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let (mut value, mut at) = (value, 0);
    while at < 4 && power.map_or(value.abs() >= kilo, |p| at < usize::from(p)) {
        value /= kilo;
        at += 1;
    }
    format!("{} {}", significant(value), names[at])
}

/// Three significant digits, all whole digits from 1000 on (so never more than four below 10 000): `9.41`, `94.1`, `941`.
pub fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        "-".into()
    } else if magnitude < 9.995 {
        format!("{value:.2}")
    } else if magnitude < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A duration in a unit chosen by magnitude: `12 ns`, `5.20 µs`, `40.1 ms`, `1.50 s`.
pub fn duration(seconds: f64) -> String {
    let magnitude = seconds.abs();
    let nanoseconds = seconds * 1e9;
    if !seconds.is_finite() {
        "-".into()
    } else if magnitude < 999.5e-9 {
        // Time stamps are whole nanoseconds; only means have a fraction.
        if nanoseconds.fract().abs() < 1e-6 || magnitude >= 99.95e-9 {
            format!("{nanoseconds:.0} ns")
        } else {
            format!("{} ns", significant(nanoseconds))
        }
    } else if magnitude < 999.5e-6 {
        format!("{} µs", significant(seconds * 1e6))
    } else if magnitude < 999.5e-3 {
        format!("{} ms", significant(seconds * 1e3))
    } else {
        format!("{} s", significant(seconds))
    }
}

/// A ratio as a percentage. Only exactly 0 and 1 give `0%` and `100%`.
pub fn percent(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "-".into();
    }
    let value = ratio * 100.0;
    if value == 0.0 {
        "0%".into()
    } else if value.abs() < 0.001 {
        format!("{}<0.001%", if value < 0.0 { "-" } else { "" })
    } else if value.abs() < 0.1 {
        format!("{value:.3}%")
    } else if (99.95..100.0).contains(&value) {
        ">99.9%".into()
    } else {
        format!("{}%", significant(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_have_the_same_units_as_other_outputs() {
        let a = Units::ADAPTIVE;
        assert_eq!(a.rate(9.41e9), "9.41 Gbit/s");
        assert_eq!(a.rate(94.14e6), "94.1 Mbit/s");
        assert_eq!(a.rate(941.4e3), "941 kbit/s");
        assert_eq!(a.rate(0.0), "0.00 bit/s");
        assert_eq!(a.rate(f64::NAN), "-");
        assert_eq!("k".parse::<Units>().unwrap().rate(1e9), "1000000 kbit/s");
        assert_eq!("M".parse::<Units>().unwrap().rate(8.0 * 1048576.0), "1.00 MiB/s");
        assert_eq!("A".parse::<Units>().unwrap().rate(8.0 * 1023.0 * 1024.0), "1023 KiB/s");
        assert!("x".parse::<Units>().is_err() && "".parse::<Units>().is_err());
        assert!("kk".parse::<Units>().is_err());
    }

    #[test]
    fn volumes_are_powers_of_1024() {
        assert_eq!(volume(1_310_720), "1.25 MiB");
        assert_eq!(volume(1023), "1023 B");
    }

    #[test]
    fn durations_choose_their_unit() {
        assert_eq!(duration(0.0), "0 ns");
        assert_eq!(duration(12e-9), "12 ns");
        assert_eq!(duration(5.2e-6), "5.20 µs");
        assert_eq!(duration(0.0401), "40.1 ms");
        assert_eq!(duration(1.5), "1.50 s");
        assert_eq!(duration(-3e-6), "-3.00 µs");
        assert_eq!(duration(999.7e-6), "1.00 ms");
    }

    #[test]
    fn percentages_never_round_to_none_or_all() {
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(1e-9), "<0.001%");
        assert_eq!(percent(0.00012), "0.012%");
        assert_eq!(percent(0.0132), "1.32%");
        assert_eq!(percent(0.99999), ">99.9%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(percent(1.004), "100%");
    }

    proptest! {
        #[test]
        fn adaptive_numbers_keep_four_digits_and_the_column(bits in 0.0f64..9.9e15) {
            for units in [Units::ADAPTIVE, "A".parse().unwrap()] {
                let text = units.rate(bits);
                let digits = text.chars().filter(char::is_ascii_digit).count();
                prop_assert!(digits <= 4, "{}", text);
                prop_assert!(text.len() <= units.rate_width(), "{}", text);
            }
        }

        #[test]
        fn printed_rates_are_within_half_a_percent(bits in 1.0f64..9.9e14) {
            let text = Units::ADAPTIVE.rate(bits);
            let (number, unit) = text.split_once(' ').unwrap();
            let power = ["b", "k", "M", "G", "T"].iter().position(|p| unit.starts_with(p)).unwrap();
            let back = number.parse::<f64>().unwrap() * 1000f64.powi(power as i32);
            prop_assert!((back / bits - 1.0).abs() <= 0.0051, "{} for {}", text, bits);
        }
    }
}
