//! Lines and numbers of tools' texts.

/// A text without control characters, in at most `max` characters.
pub(crate) fn shortened(text: &str, max: usize) -> String {
    let mut out: String = text.chars().filter(|c| !c.is_control()).take(max + 1).collect();
    if out.chars().count() > max {
        out = out.chars().take(max).chain(['…']).collect();
    }
    out
}

/// A finite number that is not negative.
pub(crate) fn number(word: &str) -> Option<f64> {
    // Only what tools print: no `inf`, no `nan`, no exponent of a thousand digits.
    let is_plain =
        word.len() <= 40 && word.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    word.parse::<f64>().ok().filter(|n| is_plain && n.is_finite() && *n >= 0.0)
}

/// A whole number.
pub(crate) fn whole(word: &str) -> Option<u64> {
    word.parse().ok()
}

/// A length of time, 0 s to 10 years.
pub(crate) fn seconds(word: &str) -> Option<f64> {
    number(word).filter(|s| *s < 3.2e8)
}

/// A number of bytes from a rounded amount and its unit; absent if it does not fit.
pub(crate) fn bytes(amount: f64, unit: f64) -> Option<u64> {
    let bytes = (amount * unit).round();
    (0.0..9.2e18).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_finite_and_not_negative() {
        assert_eq!(
            (number("1.50"), number("1e3"), whole("12")),
            (Some(1.5), Some(1000.0), Some(12))
        );
        for bad in ["", "inf", "nan", "-1", "1e999", "0x10", "1_0"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        assert_eq!((seconds("4e8"), bytes(1e30, 1e6)), (None, None));
    }

    #[test]
    fn texts_are_short_and_plain() {
        assert_eq!(shortened("a\u{1b}[1mb\nc", 4), "a[1m…");
        assert_eq!(shortened("abcd", 4), "abcd");
    }
}
