//! The figures that an end states in lines of text, in either form: for people, or keys and values (`-fparse`).
//!
//! Amounts are rounded to 0.0001 MB of 2^20 bytes, times to 10 ms, rates are in units of 10^6 bit/s.

use std::fmt::Write as _;

use super::codec::{self, FORMAT_PARSE, FORMAT_RUNNING, VERSION};

/// Bytes of nuttcp's MB.
const MB: f64 = 1_048_576.0;
/// Largest amount that is read, bytes.
const MAX_BYTES: f64 = 9e18;

/// A line of a server, of the form with keys.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    /// The server receives, and this interval has ended.
    Interval(Amount),
    /// No more intervals follow.
    Done,
    /// The figures of the whole test.
    Result(Amount),
    /// Segments that the server has retransmitted.
    Retransmits(u64),
    /// Calls for input or output.
    Calls(u64),
    /// The test can't continue.
    Error(String),
    Other,
}

/// What one end has counted in a time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Amount {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Lost datagrams, and those that were sent; absent: unknown.
    pub(super) lost_of: Option<(u64, u64)>,
}

impl Line {
    pub(super) fn parse(line: &str) -> Line {
        if line == "DONE" {
            return Line::Done;
        }
        let tagged =
            [true, false].map(codec::tag).into_iter().find_map(|tag| line.strip_prefix(tag));
        let Some(rest) = tagged.and_then(|rest| rest.strip_prefix(':')) else {
            return match Amount::parse(line, "real_sec") {
                Some(amount) => Line::Interval(amount),
                None => Line::Other,
            };
        };
        let rest = rest.trim();
        if let Some((_, error)) = rest.split_once(": Error: ") {
            return Line::Error(error.to_owned());
        }
        if let Some(amount) = Amount::parse(rest, "real_seconds") {
            return Line::Result(amount);
        }
        let number = |key: &str| -> Option<u64> { value(rest, key)?.parse().ok() };
        match (number("retrans"), number("io_calls")) {
            (Some(retransmits), _) => Line::Retransmits(retransmits),
            (_, Some(calls)) => Line::Calls(calls),
            _ => Line::Other,
        }
    }
}

/// The value of a key in a line.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.into_iter().find(|(own, _)| *own == key).map(|(_, value)| value)
}

impl Amount {
    fn parse(line: &str, time: &str) -> Option<Amount> {
        let number = |key: &str, most: f64| {
            let number: f64 = value(line, key)?.parse().ok()?;
            (0.0..=most).contains(&number).then_some(number)
        };
        let bytes = number("megabytes", MAX_BYTES / MB)? * MB;
        let seconds = number(time, 1e9)?;
        let whole = |key: &str| value(line, key)?.parse::<u64>().ok();
        let lost_of = whole("drop").zip(whole("pkt")).filter(|(lost, sent)| lost <= sent);
        Some(Amount { bytes: bytes.round() as u64, seconds, lost_of })
    }

    fn megabits(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8.0 / 1e6 / self.seconds } else { 0.0 }
    }

    /// The line of an interval. `total`: the amount so far.
    pub(super) fn interval_line(&self, total: &Amount, format: u32) -> String {
        let is_parsed = format & FORMAT_PARSE != 0;
        let mut line = String::new();
        let (mb, seconds, rate) = (self.bytes as f64 / MB, self.seconds, self.megabits());
        let _ = match is_parsed {
            true => {
                write!(line, "megabytes={mb:.4} real_sec={seconds:.2} rate_Mbps={rate:.4}")
            }
            false => write!(line, "{mb:10.4} MB / {seconds:6.2} sec = {rate:9.4} Mbps"),
        };
        if let Some((lost, sent)) = self.lost_of {
            let part = if sent > 0 { lost as f64 / sent as f64 * 100.0 } else { 0.0 };
            let _ = match is_parsed {
                true => write!(line, " drop={lost} pkt={sent} data_loss={part:.5}"),
                false => write!(line, " {lost:5} / {sent:5} ~drop/pkt {part:5.2} ~%loss"),
            };
        }
        if format & FORMAT_RUNNING != 0 {
            line.push(' ');
            let tail = total.interval_line(total, format & !FORMAT_RUNNING);
            let mut tail = tail.trim_end().to_owned();
            match is_parsed {
                true => {
                    for key in ["megabytes=", "real_sec=", "rate_Mbps="] {
                        tail = tail.replace(key, &format!("total_{key}"));
                    }
                }
                false => tail.insert_str(0, "Tot: "),
            }
            line.push_str(&tail);
        }
        line.push('\n');
        line
    }
}

/// What a server states of a test before its figures.
#[derive(Debug, Clone, Default)]
pub(super) struct Beginning {
    pub(super) is_sender: bool,
    pub(super) format: u32,
    pub(super) buffer_bytes: u64,
    pub(super) streams: u16,
    pub(super) port: u16,
    pub(super) is_udp: bool,
    pub(super) client: String,
    /// Whether the server has connected to the client; it has accepted otherwise.
    pub(super) has_connected: bool,
    /// Maximum segment, bytes, and round trip, ms, of its first connection.
    pub(super) path: Option<(u32, f64)>,
    pub(super) interval: f64,
    pub(super) seconds: f64,
}

impl Beginning {
    pub(super) fn lines(&self) -> String {
        let tag = codec::tag(self.is_sender);
        let Beginning { buffer_bytes, streams, port, client, .. } = self;
        let mode = if self.is_udp { "udp" } else { "tcp" };
        let mut out = format!("{tag}: v{VERSION}: socket\n");
        let is_parsed = self.format & FORMAT_PARSE != 0;
        let mut line = |text: String| {
            let _ = writeln!(out, "{tag}: {text}");
        };
        line(match (is_parsed, self.is_sender) {
            (true, true) => {
                format!(
                    "buflen={buffer_bytes} nstream={streams} port={port} mode={mode} host={client}"
                )
            }
            (true, false) => {
                format!("buflen={buffer_bytes} nstream={streams} port={port} mode={mode}")
            }
            (false, true) => {
                format!("buflen={buffer_bytes}, nstream={streams}, port={port} {mode} -> {client}")
            }
            (false, false) => {
                format!("buflen={buffer_bytes}, nstream={streams}, port={port} {mode}")
            }
        });
        if self.is_sender && self.seconds > 0.0 {
            line(match is_parsed {
                true => format!("time_limit={:.2}", self.seconds),
                false => format!("time limit = {:.2} second{}", self.seconds, plural(self.seconds)),
            });
        }
        if !self.is_sender && self.interval > 0.0 {
            line(match is_parsed {
                true => format!("reporting_interval={:.2}", self.interval),
                false => format!(
                    "interval reporting every {:.2} second{}",
                    self.interval,
                    plural(self.interval)
                ),
            });
        }
        if !self.is_udp {
            let name = if self.has_connected { "connect" } else { "accept" };
            let link = if self.has_connected { "to" } else { "from" };
            line(match (is_parsed, self.path) {
                (true, None) => format!("{name}={client}"),
                (true, Some((mss, ms))) => format!("{name}={client} mss={mss} rtt_ms={ms:.3}"),
                (false, None) => format!("{name} {link} {client}"),
                (false, Some((mss, ms))) => {
                    format!("{name} {link} {client} with mss={mss}, RTT={ms:.3} ms")
                }
            });
        }
        out
    }
}

fn plural(seconds: f64) -> &'static str {
    if seconds == 1.0 { "" } else { "s" }
}

/// The figures of a whole test at a server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) amount: Amount,
    /// Processor time of this program, user and system, s.
    pub(super) cpu: Option<[f64; 2]>,
    pub(super) retransmits: Option<u64>,
    pub(super) calls: u64,
}

impl Totals {
    /// The last lines of a server.
    pub(super) fn lines(&self, is_sender: bool, format: u32) -> String {
        let tag = codec::tag(is_sender);
        let is_parsed = format & FORMAT_PARSE != 0;
        let mut out = String::new();
        let mut line = |text: String| {
            let _ = writeln!(out, "{tag}: {text}");
        };
        let Amount { bytes, seconds, .. } = self.amount;
        let (mb, kilobytes, rate) =
            (bytes as f64 / MB, bytes as f64 / 1024.0, self.amount.megabits());
        let per = |amount: f64, of: f64| if of > 0.0 { amount / of } else { 0.0 };
        let speed = per(kilobytes, seconds);
        line(match is_parsed {
            true => format!(
                "megabytes={mb:.4} real_seconds={seconds:.2} rate_KBps={speed:.2} rate_Mbps={rate:.4}"
            ),
            false => format!(
                "{mb:.4} MB in {seconds:.2} real seconds = {speed:.2} KB/sec = {rate:.4} Mbps"
            ),
        });
        if let Some([user, system]) = self.cpu {
            let cpu = user + system;
            let speed = per(kilobytes, cpu);
            line(match is_parsed {
                true => {
                    format!("megabytes={mb:.4} cpu_seconds={cpu:.2} KB_per_cpu_second={speed:.2}")
                }
                false => format!("{mb:.4} MB in {cpu:.2} CPU seconds = {speed:.2} KB/cpu sec"),
            });
        }
        if let Some(retransmits) = self.retransmits.filter(|_| is_sender) {
            line(match is_parsed {
                true => format!("retrans={retransmits}"),
                false => format!("retrans = {retransmits}"),
            });
        }
        let calls = self.calls;
        let (each, rate) = (per(seconds * 1e3, calls as f64), per(calls as f64, seconds));
        line(match is_parsed {
            true => format!("io_calls={calls} msec_per_call={each:.2} calls_per_sec={rate:.2}"),
            false => format!("{calls} I/O calls, msec/call = {each:.2}, calls/sec = {rate:.2}"),
        });
        if let Some([user, system]) = self.cpu {
            let part = per((user + system) * 100.0, seconds).round();
            let (minutes, rest) = (seconds as u64 / 60, seconds as u64 % 60);
            line(match is_parsed {
                true => format!(
                    "stats=cpu user={user:.1} system={system:.1} elapsed={minutes}:{rest:02} cpu={part}%"
                ),
                false => {
                    format!("{user:.1}user {system:.1}sys {minutes}:{rest:02}real {part}%")
                }
            });
        }
        out
    }
}

/// Fuzz body: any line of a server is read.
pub(super) fn fuzz(text: &str) {
    for line in text.lines() {
        if let Line::Interval(amount) | Line::Result(amount) = Line::parse(line) {
            assert!(amount.seconds >= 0.0 && amount.bytes as f64 <= MAX_BYTES * 1.1);
            let _ = (amount.interval_line(&amount, 0), amount.interval_line(&amount, u32::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_lines_are_read() {
        let of = |bytes, seconds, lost_of| Amount { bytes, seconds, lost_of };
        for (line, expected) in [
            (
                "megabytes=0.2969 real_sec=0.50 rate_Mbps=4.9802 drop=3 pkt=38 data_loss=0.00000",
                Line::Interval(of(311_322, 0.5, Some((3, 38)))),
            ),
            (
                "nuttcp-r: megabytes=1744.9375 real_seconds=1.00 rate_KBps=1785501.87 rate_Mbps=14626.8313",
                Line::Result(of(1_829_699_584, 1.0, None)),
            ),
            (
                "nuttcp-r: megabytes=1744.9375 cpu_seconds=0.67 KB_per_cpu_second=2649042.13",
                Line::Other,
            ),
            ("DONE", Line::Done),
            ("nuttcp-t: retrans=7", Line::Retransmits(7)),
            (
                "nuttcp-r: io_calls=28113 msec_per_call=0.04 calls_per_sec=28092.32",
                Line::Calls(28_113),
            ),
            (
                "nuttcp-r: v6.1.2: Error: bind: Address already in use",
                Line::Error("bind: Address already in use".into()),
            ),
            ("nuttcp-r: v6.1.2: socket", Line::Other),
            ("megabytes=-1 real_sec=1", Line::Other),
            ("megabytes=1e30 real_sec=1", Line::Other),
            ("", Line::Other),
        ] {
            assert_eq!(Line::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn intervals_are_written_as_nuttcp_does() {
        let amount = Amount { bytes: 122_880, seconds: 1.0, lost_of: Some((0, 15)) };
        let total = Amount { bytes: 245_760, seconds: 2.0, lost_of: Some((0, 30)) };
        assert_eq!(
            amount.interval_line(&total, 0),
            "    0.1172 MB /   1.00 sec =    0.9830 Mbps     0 /    15 ~drop/pkt  0.00 ~%loss\n"
        );
        assert_eq!(
            amount.interval_line(&total, FORMAT_PARSE | FORMAT_RUNNING),
            "megabytes=0.1172 real_sec=1.00 rate_Mbps=0.9830 drop=0 pkt=15 data_loss=0.00000 \
             total_megabytes=0.2344 total_real_sec=2.00 total_rate_Mbps=0.9830 drop=0 pkt=30 data_loss=0.00000\n"
        );
        let streams = Amount { lost_of: None, ..amount };
        let line = streams.interval_line(&Amount { lost_of: None, ..total }, FORMAT_RUNNING);
        assert!(line.contains(" Mbps Tot:     0.2344 MB /   2.00 sec ="), "{line}");
    }

    #[test]
    fn totals_are_read_as_they_are_written() {
        let amount = Amount { bytes: 1 << 20, seconds: 2.0, lost_of: None };
        let totals = Totals { amount, cpu: Some([0.25, 0.5]), retransmits: Some(3), calls: 20 };
        let text = totals.lines(true, FORMAT_PARSE);
        let lines: Vec<Line> = text.lines().map(Line::parse).collect();
        assert_eq!(
            lines,
            [Line::Result(amount), Line::Other, Line::Retransmits(3), Line::Calls(20), Line::Other]
        );
        let text = totals.lines(false, 0);
        let first = "nuttcp-r: 1.0000 MB in 2.00 real seconds = 512.00 KB/sec = 4.1943 Mbps";
        assert_eq!(text.lines().next(), Some(first));
        assert!(text.ends_with("nuttcp-r: 0.2user 0.5sys 0:02real 38%\n"), "{text}");
    }
}
