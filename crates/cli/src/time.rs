//! Civil dates without a library: two formats are all that is needed. Records are in UTC, lines of text in local time.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_net::clock::Zone;

/// Year, month, day, hour, minute, second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

/// The proleptic Gregorian date of a number of seconds since 1970, by the count of days from 1 March of year 0: leap
/// days then are at the end of a year, and months follow a pattern of 153 days in five.
fn civil(unix_seconds: u64) -> Civil {
    let days = (unix_seconds / 86_400) as i64 + 719_468;
    let in_day = (unix_seconds % 86_400) as u32;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 } as u32;
    Civil {
        year: era * 400 + year_of_era + i64::from(month <= 2),
        month,
        day: (day_of_year - (153 * from_march + 2) / 5 + 1) as u32,
        hour: in_day / 3600,
        minute: in_day / 60 % 60,
        second: in_day % 60,
    }
}

/// Time since 1970; zero for a clock set before.
pub(crate) fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// RFC 3339 in UTC with milliseconds: `2026-11-21T20:30:09.125Z`.
pub(crate) fn rfc3339(since_epoch: Duration) -> String {
    let c = civil(since_epoch.as_secs());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        c.year,
        c.month,
        c.day,
        c.hour,
        c.minute,
        c.second,
        since_epoch.subsec_millis()
    )
}

/// A strftime format, checked: `%Y %m %d %H %M %S %L %N %F %T %s %Z %z %:z %%`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format(String);

const SPECIFIERS: &str = "YmdHMSLNFTsZz%";

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                continue;
            }
            let known = match rest.next() {
                Some(':') => rest.next() == Some('z'),
                specifier => specifier.is_some_and(|s| SPECIFIERS.contains(s)),
            };
            if !known {
                return Err(
                    "expected % followed by one of Y m d H M S L (ms) N (ns) F T s Z z :z %".into(),
                );
            }
        }
        Ok(Format(text.into()))
    }
}

impl Format {
    /// The text for a time in a zone.
    pub(crate) fn render(&self, since_epoch: Duration, zone: &Zone) -> String {
        let c = civil(since_epoch.as_secs().saturating_add_signed(zone.offset_seconds.into()));
        let sign = if zone.offset_seconds < 0 { '-' } else { '+' };
        let minutes = zone.offset_seconds.unsigned_abs() / 60;
        let (hours, minutes) = (minutes / 60, minutes % 60);
        let mut out = String::new();
        let mut rest = self.0.chars();
        while let Some(ch) = rest.next() {
            if ch != '%' {
                out.push(ch);
                continue;
            }
            match rest.next() {
                Some('Y') => out += &format!("{:04}", c.year),
                Some('m') => out += &format!("{:02}", c.month),
                Some('d') => out += &format!("{:02}", c.day),
                Some('H') => out += &format!("{:02}", c.hour),
                Some('M') => out += &format!("{:02}", c.minute),
                Some('S') => out += &format!("{:02}", c.second),
                Some('L') => out += &format!("{:03}", since_epoch.subsec_millis()),
                Some('N') => out += &format!("{:09}", since_epoch.subsec_nanos()),
                Some('F') => out += &format!("{:04}-{:02}-{:02}", c.year, c.month, c.day),
                Some('T') => out += &format!("{:02}:{:02}:{:02}", c.hour, c.minute, c.second),
                Some('s') => out += &since_epoch.as_secs().to_string(),
                Some('Z') => out += &zone.name,
                Some('z') => out += &format!("{sign}{hours:02}{minutes:02}"),
                Some(':') => {
                    rest.next();
                    out += &format!("{sign}{hours:02}:{minutes:02}");
                }
                // The form was checked when it was read.
                _ => out.push('%'),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_799, "2000-02-29T23:59:59.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_795_293_009, "2026-11-21T20:30:09.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799, "9999-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), text);
        }
        assert_eq!(rfc3339(Duration::from_millis(1_125)), "1970-01-01T00:00:01.125Z");
    }

    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let mut before = civil(0);
        for day in 1..292_194u64 {
            let now = civil(day * 86_400);
            let leap = before.year % 4 == 0 && (before.year % 100 != 0 || before.year % 400 == 0);
            let length = match before.month {
                2 => 28 + u32::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let expected = if before.day < length {
                (before.year, before.month, before.day + 1)
            } else if before.month < 12 {
                (before.year, before.month + 1, 1)
            } else {
                (before.year + 1, 1, 1)
            };
            assert_eq!((now.year, now.month, now.day), expected);
            before = now;
        }
    }

    #[test]
    fn formats() {
        let at = Duration::new(1_795_293_009, 125_000_001);
        let show_in = |f: &str, zone: &Zone| f.parse::<Format>().unwrap().render(at, zone);
        let show = |f: &str| show_in(f, &Zone::utc());
        assert_eq!(show("%FT%T.%L%:z "), "2026-11-21T20:30:09.125+00:00 ");
        let zone = |offset_seconds, name: &str| Zone { offset_seconds, name: name.into() };
        let far_east = zone(5 * 3600 + 45 * 60, "+0545");
        assert_eq!(show_in("%FT%T%:z %s", &far_east), "2026-11-22T02:15:09+05:45 1795293009");
        let west = zone(-(3 * 3600 + 30 * 60), "NST");
        assert_eq!(show_in("%F %H:%M %z %Z", &west), "2026-11-21 17:00 -0330 NST");
        let before_1970 = "%F %T".parse::<Format>().unwrap().render(Duration::ZERO, &west);
        assert_eq!(before_1970, "1970-01-01 00:00:00");
        assert_eq!(
            show("%Y/%m/%d %H:%M:%S %N %s 100%% %Z%z"),
            "2026/11/21 20:30:09 125000001 1795293009 100% UTC+0000"
        );
        for bad in ["%", "%q", "%F %", "%:", "%:F"] {
            assert!(bad.parse::<Format>().is_err(), "{bad}");
        }
    }
}
