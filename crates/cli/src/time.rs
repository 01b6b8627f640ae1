//! Time stamps before lines of text, in local time.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// Time since 1970; zero if the clock is set to an earlier time.
pub(crate) fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn timestamp(since_epoch: Duration) -> Timestamp {
    let nanoseconds = i128::try_from(since_epoch.as_nanos()).unwrap_or(i128::MAX);
    Timestamp::from_nanosecond(nanoseconds).unwrap_or(Timestamp::MAX)
}

/// The local time zone (`TZ`, else the system's); UTC where it is unknown.
pub(crate) fn local_zone() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}

/// A checked strftime format, as [`strtime`] defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format(String);

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let format = Format(text.into());
        format.try_render(Duration::ZERO, TimeZone::UTC).map_err(|error| error.to_string())?;
        Ok(format)
    }
}

impl Format {
    /// The text for a time in a zone.
    pub(crate) fn render(&self, since_epoch: Duration, zone: TimeZone) -> String {
        // The format was checked when it was read.
        self.try_render(since_epoch, zone).unwrap_or_default()
    }

    fn try_render(&self, since_epoch: Duration, zone: TimeZone) -> Result<String, jiff::Error> {
        strtime::format(&self.0, &timestamp(since_epoch).to_zoned_datetime(zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let at = Duration::new(1_795_293_009, 125_000_001);
        let zone = |posix: &str| TimeZone::posix(posix).unwrap();
        let show_in = |f: &str, zone: TimeZone| f.parse::<Format>().unwrap().render(at, zone);
        let show = |f: &str| show_in(f, TimeZone::UTC);
        assert_eq!(show("%FT%T.%3f%:z "), "2026-11-21T20:30:09.125+00:00 ");
        let far_east = show_in("%FT%T%:z %s", zone("<+0545>-5:45"));
        assert_eq!(far_east, "2026-11-22T02:15:09+05:45 1795293009");
        let west = show_in("%F %H:%M %z %Z", zone("NST3:30"));
        assert_eq!(west, "2026-11-21 17:00 -0330 NST");
        assert_eq!(show("%Y/%m/%d %N 100%% %Z"), "2026/11/21 125000001 100% UTC");
        for bad in ["%", "%!", "%F %", "%:"] {
            assert!(bad.parse::<Format>().is_err(), "{bad}");
        }
    }
}
