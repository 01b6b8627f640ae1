//! The marks of an axis: round numbers, few enough to read.

/// Values are clamped to this magnitude, so that sums and differences of two of them are finite.
const FAR: f64 = 1e300;

/// The marks of a linear axis: round numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Linear {
    pub(crate) marks: Vec<f64>,
    /// The number of decimals that distinguishes all marks.
    pub(crate) decimals: usize,
}

/// The distance of marks: 1, 2 or 5 times a power of ten.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    mantissa: f64,
    exponent: f64,
}

impl Step {
    /// The step that makes about `wanted` marks (3 or more, or as many as `high − low`) between two numbers.
    pub(crate) fn of(low: f64, high: f64, wanted: usize) -> Step {
        let (low, high) = widened(low, high);
        let raw = (high - low) / wanted.max(1) as f64;
        let exponent = raw.log10().floor();
        // A value slightly above a round number uses that number.
        let (mantissa, exponent) = match raw / 10f64.powf(exponent) {
            m if m <= 1.1 => (1.0, exponent),
            m if m <= 2.2 => (2.0, exponent),
            m if m <= 5.5 => (5.0, exponent),
            _ => (1.0, exponent + 1.0),
        };
        Step { mantissa, exponent }
    }

    /// Its length.
    pub(crate) fn length(self) -> f64 {
        self.mantissa * 10f64.powf(self.exponent)
    }

    /// Its multiples between two numbers.
    pub(crate) fn marks(self, low: f64, high: f64) -> Linear {
        let (low, high) = widened(low, high);
        let step = self.length();
        // Include marks that are slightly outside because of rounding.
        let first = (low / step - 1e-9).ceil();
        let last = (high / step + 1e-9).floor();
        let marks = (0..=64).map(|i| first + f64::from(i)).take_while(|k| *k <= last);
        // Dividing by a power of ten gives the float nearest to a decimal fraction; multiplying by its inverse does not.
        let scale = 10f64.powf(-self.exponent);
        let value = |k: f64| if self.exponent < 0.0 { k * self.mantissa / scale } else { k * step };
        Linear {
            marks: marks.map(|k| value(k) + 0.0).collect(),
            decimals: (-self.exponent).clamp(0.0, 12.0) as usize,
        }
    }
}

/// A range with finite ends and a length above zero.
pub(crate) fn widened(low: f64, high: f64) -> (f64, f64) {
    let (low, high) = (low.clamp(-FAR, FAR), high.clamp(-FAR, FAR));
    let (low, high) = if low <= high { (low, high) } else { (high, low) };
    let scale = low.abs().max(high.abs());
    if high - low > scale * 1e-9 && high - low > 1e-300 {
        (low, high)
    } else if scale < 1e-290 {
        (0.0, 1.0)
    } else {
        (low - scale * 0.1, high + scale * 0.1)
    }
}

/// A mark of a logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogMark {
    pub(crate) value: f64,
    /// Has a label.
    pub(crate) major: bool,
}

/// Ends of a logarithmic axis from `low` to `high`, both above zero: 1, 2 or 5 times powers of ten, or only powers of ten if it
/// spans more than four of them.
pub(crate) fn log_range(low: f64, high: f64) -> (f64, f64) {
    let low = low.clamp(1e-290, 1e290);
    let high = high.clamp(low, 1e290);
    let (mut down, mut up) = (decade(low), decade(high));
    if up * (1.0 + 1e-9) < high {
        up *= 10.0;
    }
    if up / down < 15_000.0 {
        for m in [5.0, 2.0] {
            if down * m <= low * (1.0 + 1e-9) {
                down *= m;
                break;
            }
        }
        for m in [0.2, 0.5] {
            if up * m >= high * (1.0 - 1e-9) && up * m > down * 1.5 {
                up *= m;
                break;
            }
        }
    }
    if up <= down * 1.5 {
        up = down * 10.0;
    }
    (down, up)
}

/// The power of ten at or below a positive number.
fn decade(value: f64) -> f64 {
    10f64.powf((value.log10() + 1e-12).floor())
}

/// Marks at powers of ten and, if there is room, at 2 and 5 times these, with at most `most` labels.
pub(crate) fn log(low: f64, high: f64, most: usize) -> Vec<LogMark> {
    let first = (low.log10() + 1e-9).floor() as i32;
    let last = (high.log10() + 1e-9).floor() as i32;
    let span = (high / low).log10();
    let inside = |v: f64| v >= low * (1.0 - 1e-9) && v <= high * (1.0 + 1e-9);
    let all_labelled = span * 3.0 <= most as f64;
    // Every nth power of ten has a label.
    let nth = (span / most.max(1) as f64).ceil().max(1.0) as i32;
    let mut marks = vec![];
    for e in (first..=last).take(700) {
        let power = 10f64.powi(e);
        for m in [1.0, 2.0, 5.0] {
            let value = power * m;
            let major =
                if m == 1.0 { all_labelled || e.rem_euclid(nth) == 0 } else { all_labelled };
            if inside(value) && (m == 1.0 || span <= 6.0) {
                marks.push(LogMark { value, major });
            }
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn linear(low: f64, high: f64, wanted: usize) -> Linear {
        Step::of(low, high, wanted).marks(low, high)
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(linear(0.0, 10.0, 5).marks, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let small = linear(0.0, 0.3, 3);
        assert_eq!((small.marks, small.decimals), (vec![0.0, 0.1, 0.2, 0.3], 1));
        assert_eq!(linear(-3.0, 3.0, 4).marks, [-2.0, 0.0, 2.0]);
        assert_eq!(linear(5.0, 5.0, 4).marks, [4.5, 5.0, 5.5]);
        assert_eq!(linear(0.0, 0.0, 4).marks, [0.0, 0.5, 1.0]);
    }

    #[test]
    fn logarithmic_ends_and_marks() {
        let close = |(a, b): (f64, f64), (c, d): (f64, f64)| {
            (a / c - 1.0).abs() + (b / d - 1.0).abs() < 1e-9
        };
        assert!(close(log_range(8e-6, 1.3e-3), (5e-6, 2e-3)));
        assert!(close(log_range(8e-9, 1.3e-3), (1e-9, 1e-2)));
        let (low, high) = log_range(1.2e-5, 4e-5);
        assert!(
            (low / 1e-5 - 1.0).abs() < 1e-9 && (high / 5e-5 - 1.0).abs() < 1e-9,
            "{low} {high}"
        );
        let marks = log(1e-6, 1e-2, 6);
        assert_eq!(marks.iter().filter(|m| m.major).count(), 5);
        assert!(log(1e-5, 1e-4, 6).iter().all(|m| m.major));
        assert!(log(1e-290, 1e290, 6).iter().filter(|m| m.major).count() <= 7);
    }

    proptest! {
        #[test]
        fn any_two_numbers_have_marks(a in any::<f64>(), b in any::<f64>(), wanted in 3usize..9) {
            prop_assume!(a.is_finite() && b.is_finite());
            let (low, high) = widened(a, b);
            prop_assert!(low < high && (high - low).is_finite());
            let ticks = linear(a, b, wanted);
            prop_assert!(ticks.marks.len() <= 65 && !ticks.marks.is_empty(), "{:?}", ticks);
            prop_assert!(ticks.marks.windows(2).all(|w| w[0] < w[1]), "{:?}", ticks);
            if a > 0.0 && b > 0.0 {
                let (low, high) = log_range(a.min(b), a.max(b));
                prop_assert!(low > 0.0 && low < high && high.is_finite());
                prop_assert!(!log(low, high, 6).is_empty());
                prop_assert!(log(low, high, 6).iter().filter(|m| m.major).count() <= 8);
            }
        }
    }
}
