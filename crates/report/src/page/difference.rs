//! Differences between figures of two experiments.

use crate::markup::grouped;
use crate::plot::Quantity;

/// What the columns of differences show.
pub(crate) const NOTE: &str = "Differences are relative to the first experiment: in per cent of its figure, of ratios in percentage \
                               points (pp), of counts as a count. Whether a difference is more than chance is shown by the intervals.";

/// The difference of `to` from `from` as text: relative, of ratios and counts absolute; absent if a relative one is undefined.
pub(crate) fn difference(quantity: Quantity, from: f64, to: f64) -> Option<String> {
    let change = to - from;
    if !change.is_finite() {
        return None;
    }
    let (value, unit) = match quantity {
        Quantity::Ratio => (change * 100.0, " pp"),
        Quantity::Count => (change, ""),
        _ if from == 0.0 && to == 0.0 => (0.0, " %"),
        _ if from == 0.0 || (from < 0.0) != (to < 0.0) => return None,
        _ => (change / from.abs() * 100.0, " %"),
    };
    let size = value.abs();
    let decimals = match size {
        _ if quantity == Quantity::Count && value.fract() == 0.0 => 0,
        _ if size < 10.0 => 2,
        _ if size < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{size:.decimals$}");
    let is_zero = text.chars().all(|c| matches!(c, '0' | '.'));
    let sign = match value {
        _ if is_zero => "",
        v if v < 0.0 => "−",
        _ => "+",
    };
    let text = if value == 0.0 { "0".into() } else { grouped(&text) };
    Some(format!("{sign}{text}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantity_determines_whether_a_difference_is_relative() {
        for (quantity, from, to, wanted) in [
            (Quantity::BitsPerSecond, 100e6, 94.2e6, Some("−5.80 %")),
            (Quantity::Seconds, 1e-3, 1.5e-3, Some("+50.0 %")),
            (Quantity::Seconds, 1e-3, 12e-3, Some("+1100 %")),
            (Quantity::Seconds, 1e-3, 1e-3, Some("0 %")),
            (Quantity::Seconds, 1.0, 1.00001, Some("0.00 %")),
            (Quantity::Seconds, 0.0, 1.0, None),
            (Quantity::Seconds, -1e-3, 1e-3, None),
            (Quantity::Ratio, 0.0, 0.0125, Some("+1.25 pp")),
            (Quantity::Count, 0.0, 12.0, Some("+12")),
            (Quantity::PacketsPerSecond, 1.0, f64::NAN, None),
        ] {
            let text = difference(quantity, from, to).map(|text| text.replace('\u{202f}', ""));
            assert_eq!(text.as_deref(), wanted, "{quantity:?} {from} {to}");
        }
    }
}
