//! Calendar arithmetic for ids and searches: UTC, the proleptic Gregorian calendar, no clock.

use weir_model::ModelError;
use weir_model::units::Span;

/// An id that sorts by time and can be typed: `20261121-203009-ab12cd`, the UTC second and 24 random bits.
///
/// `now_unix_ms` is milliseconds since 1970-01-01T00:00:00Z; years beyond 9999 are held at the last second of 9999.
pub fn new_run_id(now_unix_ms: u64, random: u64) -> String {
    const LAST: u64 = 253_402_300_799;
    let seconds = (now_unix_ms / 1000).min(LAST);
    let (year, month, day) = civil((seconds / 86_400) as i64);
    let s = seconds % 86_400;
    format!(
        "{year:04}{month:02}{day:02}-{:02}{:02}{:02}-{:06x}",
        s / 3600,
        s / 60 % 60,
        s % 60,
        random & 0xff_ffff
    )
}

/// Milliseconds since 1970 of an RFC 3339 time, such as `2026-11-21T20:30:09.125Z`; absent if invalid.
pub fn unix_ms_of(rfc3339: &str) -> Option<i64> {
    let b = rfc3339.as_bytes();
    if b.len() < 20 || b.len() > 40 || !b.is_ascii() {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = rfc3339.get(from..to)?;
        part.bytes().all(|c| c.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let marks = b[4] == b'-' && b[7] == b'-' && matches!(b[10], b'T' | b't' | b' ');
    if !(marks && b[13] == b':' && b[16] == b':') {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // 60 is a leap second (RFC 3339, section 5.7).
    let ranges = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !(ranges && hour < 24 && minute < 60 && second <= 60) {
        return None;
    }
    let mut at = 19;
    let mut milliseconds = 0;
    if b[at] == b'.' {
        let end = (at + 1..b.len()).find(|i| !b[*i].is_ascii_digit())?;
        let digits: String =
            rfc3339.get(at + 1..end)?.chars().chain("000".chars()).take(3).collect();
        if end == at + 1 {
            return None;
        }
        milliseconds = digits.parse().ok()?;
        at = end;
    }
    let offset_minutes = match *b.get(at)? {
        b'Z' | b'z' if b.len() == at + 1 => 0,
        sign @ (b'+' | b'-') if b.len() == at + 6 && b[at + 3] == b':' => {
            let minutes = number(at + 1, at + 3)? * 60 + number(at + 4, at + 6)?;
            if sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some((seconds - offset_minutes * 60) * 1000 + milliseconds)
}

/// Whether a time is the start or the end of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// From then on.
    Since,
    /// Until then: of a day, all of it.
    Until,
}

/// Parses a time, in milliseconds since 1970: a duration before now (`90m`, `24h`, `7d`), a day (`2026-11-22`), a
/// minute or second (`2026-11-22T10:30`), or a complete RFC 3339 time. UTC without an offset.
///
/// # Errors
/// [`ModelError::Value`] for anything else.
pub fn moment_of(text: &str, now_unix_ms: i64, edge: Edge) -> Result<i64, ModelError> {
    let text = text.trim();
    if text.as_bytes().get(4) == Some(&b'-') {
        let (rest, whole_day) = match text.len() {
            10 => ("T00:00:00Z", true),
            16 => (":00Z", false),
            19 => ("Z", false),
            _ => ("", false),
        };
        if let Some(at) = unix_ms_of(&format!("{text}{rest}")) {
            let day = if whole_day && edge == Edge::Until { 86_400_000 } else { 0 };
            return Ok(at + day);
        }
    }
    let before = match text.strip_suffix('d') {
        Some(days) => days.parse::<u32>().ok().map(|days| i64::from(days) * 86_400_000),
        None => text.parse::<Span>().ok().map(|span| (span.0 / 1_000_000) as i64),
    };
    before.map(|before| now_unix_ms.saturating_sub(before)).ok_or_else(|| ModelError::Value {
        what: "time",
        given: text.into(),
        accepted: "a time before now such as 90m, 24h or 7d, or a date such as 2026-11-22 or 2026-11-22T10:30 (UTC)",
    })
}

/// Days since 1970 to year, month, day. Years are counted from March, so that a leap day ends one.
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Year, month, day to days since 1970; the inverse of [`civil`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        assert_eq!(new_run_id(1_795_293_009_125, 0xffab_12cd), "20261121-203009-ab12cd");
        assert_eq!(new_run_id(0, 0), "19700101-000000-000000");
        assert_eq!(new_run_id(951_782_400_000, 1), "20000229-000000-000001");
        assert_eq!(&new_run_id(u64::MAX, 0)[..15], "99991231-235959");
        assert!(new_run_id(1_795_293_009_999, u64::MAX) < new_run_id(1_795_293_010_000, 0));
    }

    #[test]
    fn times_of_records() {
        assert_eq!(unix_ms_of("2026-11-21T20:30:09.125Z"), Some(1_795_293_009_125));
        assert_eq!(unix_ms_of("2026-11-21T22:30:09.125+02:00"), Some(1_795_293_009_125));
        assert_eq!(unix_ms_of("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(unix_ms_of("1970-01-01T00:00:00.5Z"), Some(500));
        for bad in [
            "",
            "yesterday",
            "2026-11-21",
            "2026-13-21T20:30:09Z",
            "2026-11-21T20:30:09",
            "2026-11-21T20:30:09.Z",
            "2026-11-21T20:30:09+2",
            "+026-11-21T20:30:09Z",
        ] {
            assert_eq!(unix_ms_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn moments_are_dates_or_lengths_of_time_before_now() {
        let now = 1_795_293_009_125;
        let since = |text| moment_of(text, now, Edge::Since);
        assert_eq!(since("90s"), Ok(now - 90_000));
        assert_eq!(since("2h"), Ok(now - 7_200_000));
        assert_eq!(since("7d"), Ok(now - 604_800_000));
        let day = unix_ms_of("2026-11-21T00:00:00Z").unwrap();
        assert_eq!(since("2026-11-21"), Ok(day));
        assert_eq!(moment_of("2026-11-21", now, Edge::Until), Ok(day + 86_400_000));
        let minute = day + 37_800_000;
        for text in ["2026-11-21T10:30", "2026-11-21 10:30:00", "2026-11-21T12:30:00+02:00"] {
            assert_eq!(since(text), Ok(minute), "{text}");
            assert_eq!(moment_of(text, now, Edge::Until), Ok(minute), "{text}");
        }
        for bad in ["", "yesterday", "2026-13-01", "2026-11", "d", "-3d", "2026-11-21T25:00"] {
            assert!(since(bad).unwrap_err().to_string().contains("2026-11-22"), "{bad}");
        }
    }

    #[test]
    fn days_and_civil_are_inverse() {
        for day in (-800_000..3_000_000).step_by(37) {
            let (y, m, d) = civil(day);
            assert_eq!(days(y, m, d), day);
        }
    }
}
