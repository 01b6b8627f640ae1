//! Labels of an axis, and the width of text.

use super::quantity::{Quantity, Unit};
use crate::markup::grouped;

/// Width of a character of the charts' text, which is 11 units high: that of wide
/// sans-serif fonts, so that no label of an axis is cut.
pub(super) const CHARACTER: f64 = 6.6;

/// The width of a text, in the drawing's units. Ideographs count twice.
pub(super) fn width(text: &str) -> f64 {
    let columns: u32 =
        text.chars().map(|c| if c as u32 >= 0x1100 && c.is_alphabetic() { 2 } else { 1 }).sum();
    f64::from(columns) * CHARACTER
}

/// A text that fits, shortened with an ellipsis if necessary.
pub(super) fn fitted(text: &str, room: f64) -> String {
    if width(text) <= room {
        return text.into();
    }
    let mut out = String::new();
    for c in text.chars() {
        out.push(c);
        if width(&out) + CHARACTER > room {
            out.pop();
            break;
        }
    }
    out.push('…');
    out
}

/// A mark of a linear axis, in the axis' unit.
pub(super) fn linear(scaled: f64, decimals: usize) -> String {
    let magnitude = scaled.abs();
    if magnitude >= 1e7 || decimals > 6 {
        if magnitude == 0.0 {
            return "0".into();
        }
        // As many digits as distinguish the marks.
        let digits = (decimals as i32 + magnitude.log10().floor() as i32).clamp(0, 12) as usize;
        return trimmed(&format!("{scaled:.digits$e}"));
    }
    grouped(&format!("{scaled:.decimals$}"))
}

/// A mark of a logarithmic axis, with its own unit.
pub(super) fn logarithmic(value: f64, quantity: Quantity) -> String {
    let Unit { factor, symbol } = quantity.unit(value);
    let scaled = value / factor;
    let text = if (1e-4..1e7).contains(&scaled) {
        // Marks have one significant digit; further digits are rounding errors.
        let decimals = (-scaled.log10().floor()).clamp(0.0, 6.0) as usize;
        grouped(&format!("{scaled:.decimals$}"))
    } else {
        trimmed(&format!("{scaled:.0e}"))
    };
    if symbol.is_empty() { text } else { format!("{text}\u{a0}{symbol}") }
}

/// `1.500e9` as `1.5e9`.
fn trimmed(text: &str) -> String {
    match text.split_once('e') {
        Some((digits, exponent)) if digits.contains('.') => {
            format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.into(),
    }
}

/// The axis' name and unit.
pub(super) fn axis(label: &str, symbol: &str) -> String {
    match (label.is_empty(), symbol.is_empty()) {
        (_, true) => label.into(),
        (true, false) => symbol.into(),
        (false, false) => format!("{label}, {symbol}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_the_digits_that_they_need() {
        assert_eq!(linear(0.30000000000000004, 1), "0.3");
        assert_eq!(linear(1.5e9, 0), "1.5e9");
        assert_eq!(linear(1.00000002, 8), "1.00000002e0");
        assert_eq!([linear(0.0, 9), linear(2e-9, 9)], ["0", "2e-9"]);
        let log = |v, q| logarithmic(v, q).replace('\u{a0}', " ");
        assert_eq!(log(1e-5, Quantity::Seconds), "10 µs");
        assert_eq!(log(5e-10, Quantity::Seconds), "0.5 ns");
        assert_eq!(log(1e-4, Quantity::Ratio), "0.01 %");
        assert_eq!(log(1e-9, Quantity::Ratio), "1e-7 %");
        assert_eq!(log(1e9, Quantity::BitsPerSecond), "1 Gbit/s");
        assert_eq!(log(1e200, Quantity::Number), "1e200");
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        assert_eq!(fitted("short", 100.0), "short");
        assert_eq!(fitted("abcdefghij", 5.0 * CHARACTER), "abcd…");
        assert_eq!(fitted("abc", 0.0), "…");
    }
}
