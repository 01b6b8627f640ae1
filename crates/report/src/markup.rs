//! Escapes untrusted text for HTML and SVG, and formats numbers so that the same figure always gives the same bytes.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::style::clean;

/// Escapes text for the content of an element or a quoted attribute, in HTML and XML. The five special characters become
/// references. Characters that could control a terminal or are invalid in XML become U+FFFD.
pub fn escape(text: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '&' | '<' | '>' | '"' | '\'' | '\u{fffe}' | '\u{ffff}');
    let text = clean(text);
    if !text.contains(special) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Reduces a text to lower-case letters, digits and hyphens, for an element's id or a file's name.
pub(crate) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => out.push(c),
            _ if out.is_empty() || out.ends_with('-') => {}
            _ => out.push('-'),
        }
        if out.len() >= 64 {
            break;
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { "x".into() } else { out.into() }
}

/// A coordinate with at most one decimal, without a trailing zero and without minus zero.
pub(crate) fn coordinate(out: &mut String, value: f64) {
    // Drawings are a few hundred units wide: larger values are not valid coordinates.
    let tenths = (value.clamp(-1e6, 1e6) * 10.0).round() as i64;
    // Writing into a string cannot fail.
    let _ = match (tenths < 0, tenths.unsigned_abs() / 10, tenths.unsigned_abs() % 10) {
        (false, whole, 0) => write!(out, "{whole}"),
        (true, whole, 0) => write!(out, "-{whole}"),
        (false, whole, part) => write!(out, "{whole}.{part}"),
        (true, whole, part) => write!(out, "-{whole}.{part}"),
    };
}

/// Groups the whole digits by three with a narrow no-break space, from five digits on: `10 000`.
pub(crate) fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let (whole, part) = digits.split_once('.').map_or((digits, None), |(w, p)| (w, Some(p)));
    let mut out = String::from(sign);
    for (i, c) in whole.chars().enumerate() {
        if whole.len() > 4 && i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    if let Some(part) = part {
        out.push('.');
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_escaped_can_open_or_close(text in "\\PC{0,40}|[<>&\"'a]{0,40}") {
            let safe = escape(&text);
            prop_assert!(!safe.contains(['<', '>', '"', '\'']));
            prop_assert!(!safe.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "").replace("&quot;", "").replace("&#39;", "").contains('&'));
        }

        #[test]
        fn a_slug_is_a_valid_id_and_file_name(text in "\\PC{0,100}") {
            let slug = slug(&text);
            prop_assert!((1..=64).contains(&slug.len()));
            prop_assert!(slug.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
            prop_assert!(!slug.starts_with('-') && !slug.ends_with('-'));
        }
    }

    #[test]
    fn control_characters_do_not_pass() {
        assert_eq!(escape("a\u{7}<b\u{ffff}\u{202e}"), "a\u{fffd}&lt;b\u{fffd}\u{fffd}");
        assert_eq!(escape("plain ± text"), "plain ± text");
        assert_eq!(slug("One-way delay (p99)"), "one-way-delay-p99");
        assert_eq!(slug("../…"), "x");
    }

    #[test]
    fn coordinates_are_short() {
        for (value, text) in
            [(0.0, "0"), (-0.04, "0"), (12.34, "12.3"), (-0.5, "-0.5"), (7.0, "7"), (f64::NAN, "0")]
        {
            let mut out = String::new();
            coordinate(&mut out, value);
            assert_eq!(out, text);
        }
    }

    #[test]
    fn digits_are_grouped_from_five_on() {
        assert_eq!(grouped("1234"), "1234");
        assert_eq!(grouped("12345"), "12\u{202f}345");
        assert_eq!(grouped("-1234567.5"), "-1\u{202f}234\u{202f}567.5");
    }
}
