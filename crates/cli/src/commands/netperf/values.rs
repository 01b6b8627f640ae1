//! Values of netperf's flags.

use weir_model::plan::Family;
use weir_model::units::Dscp;

use crate::error::CliError;

/// A number with netperf's suffix: K, M and G are powers of 1024, k, m and g of 1000.
///
/// # Errors
/// The flag, and what it accepts.
pub(super) fn number(flag: &str, text: &str) -> Result<i64, CliError> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => Some(1_i64),
        "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1 << 30),
        "k" => Some(1_000),
        "m" => Some(1_000_000),
        "g" => Some(1_000_000_000),
        _ => None,
    };
    let number = digits.parse::<i64>().ok().zip(factor).and_then(|(n, by)| n.checked_mul(by));
    number.ok_or_else(|| {
        CliError::flag(flag, text, "a number, optionally with K, M, G (powers of 1024), k, m or g")
    })
}

/// A size of up to 2^31 - 1 bytes; 0 stands for the default.
pub(super) fn size(flag: &str, text: &str) -> Result<Option<u32>, CliError> {
    let size = number(flag, text)?;
    match u32::try_from(size).ok().filter(|size| *size <= i32::MAX as u32) {
        Some(size) => Ok(Some(size).filter(|size| *size > 0)),
        None => Err(CliError::flag(flag, text, "0 to 2147483647 bytes")),
    }
}

/// A pair of values, of which one alone is both.
pub(super) fn both(text: Option<&str>) -> [Option<&str>; 2] {
    let Some(text) = text else { return [None; 2] };
    match text.contains(',') {
        true => explicit(Some(text)),
        false => [Some(text); 2],
    }
}

/// A pair of values, of which one alone is the first.
pub(super) fn explicit(text: Option<&str>) -> [Option<&str>; 2] {
    let Some(text) = text else { return [None; 2] };
    let (first, second) = text.split_once(',').unwrap_or((text, ""));
    [first, second].map(|part| Some(part).filter(|part| !part.is_empty()))
}

/// An address family by netperf's names; `None` for either.
pub(super) fn family(flag: &str, text: &str) -> Result<Option<Family>, CliError> {
    match text.to_ascii_lowercase() {
        text if text.contains('6') => Ok(Some(Family::Ipv6)),
        text if text.contains("inet") || text.contains('4') => Ok(Some(Family::Ipv4)),
        text if text.contains("unspec") || text == "0" => Ok(None),
        _ => Err(CliError::flag(flag, text, "4, inet, 6, inet6 or unspec")),
    }
}

/// A TOS byte, as a number or by the name of a DSCP.
pub(super) fn tos(flag: &str, text: &str) -> Result<u8, CliError> {
    let (digits, radix) = match text.to_ascii_lowercase().strip_prefix("0x") {
        Some(hex) => (hex.to_owned(), 16),
        None if text.len() > 1 && text.starts_with('0') => (text.to_owned(), 8),
        None => (text.to_owned(), 10),
    };
    let number = u8::from_str_radix(&digits, radix).ok();
    let named = || text.parse::<Dscp>().ok().map(|dscp| dscp.0 << 2);
    number.or_else(named).ok_or_else(|| {
        let accepted =
            "0 to 255 (decimal, 0x hexadecimal or 0 octal), or a DSCP such as CS5, AF41 or EF";
        CliError::flag(flag, text, accepted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_netperfs_suffixes() {
        for (text, expected) in [("10", 10), ("-1000", -1000), ("64K", 65_536), ("2m", 2_000_000)] {
            assert_eq!(number("-l", text).unwrap(), expected, "{text}");
        }
        for text in ["", "K", "1.5", "10X", "99999999999G"] {
            assert!(number("-l", text).is_err(), "{text}");
        }
        assert_eq!(size("-m", "0").unwrap(), None);
        assert!(size("-m", "-1").is_err() && size("-m", "3G").is_err());
    }

    #[test]
    fn a_single_value_is_the_first_or_both() {
        assert_eq!(both(Some("5")), [Some("5"), Some("5")]);
        assert_eq!(both(Some("5,")), [Some("5"), None]);
        assert_eq!(explicit(Some("5")), [Some("5"), None]);
        assert_eq!(explicit(Some(",6")), [None, Some("6")]);
        assert_eq!(explicit(None), [None, None]);
    }

    #[test]
    fn a_tos_byte_has_a_name_or_a_number() {
        for (text, expected) in [("0xb8", 184), ("184", 184), ("010", 8), ("EF", 184), ("cs5", 160)]
        {
            assert_eq!(tos("-Y", text).unwrap(), expected, "{text}");
        }
        assert!(tos("-Y", "256").is_err() && tos("-Y", "fast").is_err());
        assert_eq!(family("-H", "AF_INET6").unwrap(), Some(Family::Ipv6));
        assert_eq!(family("-H", "inet").unwrap(), Some(Family::Ipv4));
        assert!(family("-H", "ipx").is_err());
    }
}
