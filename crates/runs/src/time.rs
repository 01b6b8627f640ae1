//! Times of ids and searches, in UTC. No clock.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use weir_model::ModelError;
use weir_model::units::Span;

/// A time in milliseconds since 1970; beyond the year 9999, the last time of that year.
fn timestamp(unix_ms: u64) -> Timestamp {
    let time = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.unwrap_or(Timestamp::MAX)
}

/// An id that sorts by time and can be typed: `20261121-203009-2000ab12`, the UTC second, its fraction in units of 2⁻¹⁶ s, and
/// 16 random bits.
///
/// `now` is the time since 1970-01-01T00:00:00Z.
pub fn new_run_id(now: Duration, random: u64) -> String {
    let second = timestamp(now.as_secs().saturating_mul(1000)).strftime("%Y%m%d-%H%M%S");
    let fraction = (u64::from(now.subsec_nanos()) << 16) / 1_000_000_000;
    format!("{second}-{fraction:04x}{:04x}", random & 0xffff)
}

/// Milliseconds since 1970 as RFC 3339 in UTC with milliseconds: `2026-11-21T20:30:09.125Z`.
pub fn rfc3339(unix_ms: u64) -> String {
    format!("{:.3}", timestamp(unix_ms))
}

/// Milliseconds since 1970 of an RFC 3339 time, such as `2026-11-21T20:30:09.125Z`; absent if it is invalid.
pub fn unix_ms_of(rfc3339: &str) -> Option<i64> {
    rfc3339.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

/// Whether a time is the start or the end of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The start: this time or later.
    Since,
    /// The end: before this time. A day is included completely.
    Until,
}

/// Parses a time, in milliseconds since 1970: a duration before now (`90m`, `24h`, `7d`), a day (`2026-11-22`), a
/// minute or second (`2026-11-22T10:30`), or a complete RFC 3339 time. UTC without an offset.
///
/// # Errors
/// [`ModelError::Value`] for anything else.
pub fn moment_of(text: &str, now_unix_ms: i64, edge: Edge) -> Result<i64, ModelError> {
    let text = text.trim();
    let in_utc = |date: DateTime| date.to_zoned_datetime(TimeZone::UTC).ok();
    let moment = unix_ms_of(text).or_else(|| {
        let date = text.parse::<DateTime>().ok().and_then(in_utc)?;
        Some(date.timestamp().as_millisecond())
    });
    if let Some(moment) = moment {
        let is_day = text.len() == "2026-11-22".len();
        return Ok(moment + if is_day && edge == Edge::Until { 86_400_000 } else { 0 });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        let ms = Duration::from_millis;
        assert_eq!(new_run_id(ms(1_795_293_009_125), 0xffff_ab12), "20261121-203009-2000ab12");
        assert_eq!(new_run_id(ms(0), 0), "19700101-000000-00000000");
        assert_eq!(new_run_id(ms(951_782_400_000), 1), "20000229-000000-00000001");
        assert_eq!(&new_run_id(Duration::MAX, 0)[..4], "9999");
        // Within a second too, whatever the random bits are.
        let start = ms(1_795_293_009_999);
        for later in [Duration::from_micros(16), ms(1), ms(500)] {
            assert!(new_run_id(start, u64::MAX) < new_run_id(start + later, 0), "{later:?}");
        }
    }

    #[test]
    fn times_of_records() {
        assert_eq!(rfc3339(1_795_293_009_125), "2026-11-21T20:30:09.125Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(&rfc3339(u64::MAX)[..4], "9999");
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
    fn moments_are_dates_or_durations_before_now() {
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
}
