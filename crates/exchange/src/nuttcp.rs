//! What nuttcp 6 to 8 prints: the line of a result, the lines of intervals (`-i`), the same as keys and values (`-fparse`),
//! and the blocks of `-v`.
//!
//! Amounts are rounded to 0.0001 MB of 2^20 bytes, times to 10 ms, rates are in units of 10^6 bit/s.

use weir_model::plan::{Connection, Direction, TransportName};
use weir_model::record::{Flow, IntervalCount, IntervalFlow, Receiver, Record, Sender, Tcp};

use crate::ReadError;
use crate::reading::{self, Reading, numbered, per_second};
use crate::rows::{MAX_ROWS, row};
use crate::text::{bytes, number, seconds, shortened, whole};

/// Bytes of nuttcp's MB.
const MB: f64 = 1_048_576.0;
/// What a line is expected to be.
const LINE: &str =
    "a line such as \"2.43 MB / 1.02 sec = 20.0 Mbps 77 %TX 0 %RX\" or megabytes=… of -fparse";

/// Whether a file looks like nuttcp's output.
pub(crate) fn recognises(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    text.lines().take(200).any(|line| {
        line.starts_with("nuttcp-t: ")
            || line.starts_with("nuttcp-r: ")
            || (line.contains(" MB / ") && line.contains(" sec = ") && line.contains(" Mbps"))
            || (line.contains("megabytes=") && line.contains("rate_Mbps="))
    })
}

/// The results of a file, each with the intervals above it.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Reading<'_>>, ReadError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| ReadError::new(format!("byte {}", e.valid_up_to()), "text in UTF-8"))?;
    let mut out = vec![];
    let mut test = Test::default();
    let mut from = 0;
    let mut to = 0;
    for (n, whole_line) in text.split_inclusive('\n').enumerate() {
        to += whole_line.len();
        let line = whole_line.trim();
        let fail = |given: &str| ReadError::at_line(n + 1, given, LINE);
        if let Some((end, rest)) = verbose_line(line) {
            // A transmitter's block above the receiver's, or the other way round, is one test.
            if test.verbose.contains(&end) && rest.ends_with(": socket") {
                out.extend(test.reading(&bytes[from..to - whole_line.len()]));
                (test, from) = (Test::default(), to - whole_line.len());
            }
            test.verbose_line(end, rest).map_err(fail)?;
        } else if let Some(figures) = figures(line).map_err(fail)? {
            if !test.verbose.is_empty() && test.result.is_none() && !test.blocks.is_empty() {
                out.extend(test.reading(&bytes[from..to - whole_line.len()]));
                (test, from) = (Test::default(), to - whole_line.len());
            }
            match figures.is_result {
                true => {
                    test.result = Some(figures);
                    out.extend(test.reading(&bytes[from..to]));
                    (test, from) = (Test::default(), to);
                }
                false if test.rows.len() < MAX_ROWS => test.rows.push(figures),
                false => return Err(ReadError::new("file", format!("at most {MAX_ROWS} rows"))),
            }
            reading::bounded(&out)?;
        }
        // Other lines are messages: warnings of a beta version, errors of the server.
    }
    out.extend(test.reading(&bytes[from..to]));
    Ok(out)
}

/// The end that printed a line of `-v`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Transmitter,
    Receiver,
}

fn verbose_line(line: &str) -> Option<(End, &str)> {
    let transmitter = line.strip_prefix("nuttcp-t: ").map(|rest| (End::Transmitter, rest));
    transmitter.or_else(|| line.strip_prefix("nuttcp-r: ").map(|rest| (End::Receiver, rest)))
}

/// The figures of a line.
#[derive(Debug, Clone, Default)]
struct Figures {
    megabytes: f64,
    seconds: f64,
    megabits_per_second: f64,
    /// Packets that were lost, and that were sent.
    lost_of: Option<(u64, u64)>,
    retransmits: Option<u64>,
    rtt_ms: Option<f64>,
    /// It is the result, not an interval.
    is_result: bool,
    identifier: Option<String>,
}

/// The figures of a line; `Ok(None)` for a line of another kind, `Err` with the invalid word.
fn figures(line: &str) -> Result<Option<Figures>, &str> {
    if line.contains("megabytes=") {
        return parsed(line).map(Some);
    }
    // A running total follows the figures of its interval.
    let line = line.split(" Tot: ").next().unwrap_or(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some(at) = words.iter().position(|word| *word == "MB").filter(|at| *at > 0) else {
        return Ok(None);
    };
    let [_, "/", time, "sec", "=", rate, "Mbps", rest @ ..] = &words[at..] else {
        return Ok(None);
    };
    let get = |word: &'_ &'_ str| number(word);
    let mut out = Figures {
        megabytes: get(&words[at - 1]).ok_or(line)?,
        seconds: seconds(time).ok_or(line)?,
        megabits_per_second: get(rate).ok_or(line)?,
        ..Figures::default()
    };
    let identifier = words[..at - 1].join(" ");
    out.identifier = Some(identifier.trim_end_matches(':').to_owned()).filter(|t| !t.is_empty());
    for (n, word) in rest.iter().enumerate() {
        let before = |back: usize| n.checked_sub(back).map(|at| rest[at]);
        match *word {
            "%TX" => out.is_result = true,
            "retrans" => out.retransmits = Some(before(1).and_then(whole).ok_or(line)?),
            "msRTT" => out.rtt_ms = Some(before(1).and_then(number).ok_or(line)?),
            "drop/pkt" | "~drop/pkt" => {
                let (lost, sent) = (before(3).and_then(whole), before(1).and_then(whole));
                out.lost_of = Some(lost.zip(sent).filter(|(l, s)| l <= s).ok_or(line)?);
            }
            _ => {}
        }
    }
    Ok(Some(out))
}

/// The figures of a line of `-fparse`.
fn parsed(line: &str) -> Result<Figures, &str> {
    let mut out = Figures::default();
    let (mut lost, mut sent, mut has_time, mut has_rate) = (None, None, false, false);
    for word in line.split_whitespace() {
        let Some((key, value)) = word.split_once('=') else { continue };
        let get = || number(value).ok_or(word);
        match key {
            "megabytes" => out.megabytes = get()?,
            "real_sec" | "real_seconds" => {
                out.seconds = seconds(value).ok_or(word)?;
                out.is_result = key == "real_seconds";
                has_time = true;
            }
            "rate_Mbps" => (out.megabits_per_second, has_rate) = (get()?, true),
            "retrans" => out.retransmits = Some(whole(value).ok_or(word)?),
            "rtt_ms" => out.rtt_ms = Some(get()?),
            "drop" => lost = Some(whole(value).ok_or(word)?),
            "pkt" => sent = Some(whole(value).ok_or(word)?),
            _ => {}
        }
    }
    if !has_time || !has_rate {
        return Err(line);
    }
    out.lost_of = match lost.zip(sent) {
        Some((lost, sent)) if lost > sent => return Err(line),
        known => known,
    };
    Ok(out)
}

/// A test while its lines are read.
#[derive(Debug, Default)]
struct Test {
    rows: Vec<Figures>,
    result: Option<Figures>,
    /// Ends of which `-v` printed a block, in the order of the file: the first is the end that printed it.
    verbose: Vec<End>,
    /// Their amounts.
    blocks: Vec<(End, Figures)>,
    version: Option<String>,
    host: Option<String>,
    transport: Option<TransportName>,
    buffer_bytes: Option<u64>,
    mss: Option<u32>,
}

impl Test {
    /// A line of `-v` without the end that printed it.
    fn verbose_line<'a>(&mut self, end: End, line: &'a str) -> Result<(), &'a str> {
        if !self.verbose.contains(&end) {
            self.verbose.push(end);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(version) = line.strip_suffix(": socket") {
            self.version = Some(version.trim_start_matches('v').to_owned());
        } else if line.starts_with("buflen=") {
            for word in &words {
                let word = word.trim_end_matches(',');
                if let Some(value) = word.strip_prefix("buflen=") {
                    self.buffer_bytes = Some(whole(value).ok_or(line)?);
                }
                match word {
                    "tcp" => self.transport = Some(TransportName::Tcp),
                    "udp" => self.transport = Some(TransportName::Udp),
                    _ => {}
                }
            }
            if let Some(at) = words.iter().position(|word| *word == "->") {
                self.host = words.get(at + 1).map(|host| shortened(host, 255));
            }
        } else if let Some(at) = line.find("mss=") {
            let digits = line[at + 4..].split(',').next().unwrap_or_default();
            self.mss = Some(digits.trim().parse().map_err(|_| line)?);
        } else if let Some(count) = line.strip_prefix("retrans = ") {
            let count = whole(count).ok_or(line)?;
            if let Some((_, figures)) = self.blocks.iter_mut().find(|(known, _)| *known == end) {
                figures.retransmits = Some(count);
            }
        } else if let [
            amount,
            "MB",
            "in",
            time,
            "real",
            "seconds",
            "=",
            _,
            "KB/sec",
            "=",
            rate,
            "Mbps",
            ..,
        ] = words.as_slice()
        {
            let figures = Figures {
                megabytes: number(amount).ok_or(line)?,
                seconds: seconds(time).ok_or(line)?,
                megabits_per_second: number(rate).ok_or(line)?,
                ..Figures::default()
            };
            self.blocks.push((end, figures));
        } else if let Some(at) = words.iter().position(|word| *word == "drop") {
            // `23116 / 53571 drop packets 43.15% data loss`
            let word = |back: usize| at.checked_sub(back).and_then(|at| whole(words[at]));
            if let (Some(lost), Some(sent)) = (word(3), word(1))
                && let Some((_, figures)) = self.blocks.iter_mut().find(|(known, _)| *known == end)
            {
                figures.lost_of = Some((lost, sent)).filter(|(lost, sent)| lost <= sent);
            }
        }
        Ok(())
    }

    /// The result, if the lines have one.
    fn reading<'a>(self, text: &'a [u8]) -> Option<Reading<'a>> {
        let block = |end| self.blocks.iter().find(|(known, _)| *known == end).map(|(_, f)| f);
        let transmitted = block(End::Transmitter);
        let received = self.result.as_ref().or(block(End::Receiver));
        // Without a result, as of an interrupted test, the intervals are all there is.
        let sum = received.is_none() && transmitted.is_none();
        let summed = (sum && !self.rows.is_empty()).then(|| sum_of(&self.rows));
        let received = received.or(summed.as_ref());
        let any = received.or(transmitted)?;
        let lost_of = received.and_then(|f| f.lost_of).or(transmitted.and_then(|f| f.lost_of));
        let transport = self.transport.unwrap_or(match lost_of {
            Some(_) => TransportName::Udp,
            None => TransportName::Tcp,
        });
        let direction = match self.verbose.first() {
            Some(End::Receiver) => Direction::Reverse,
            _ => Direction::Forward,
        };
        // All datagrams have one size, which the rounded amount still gives.
        let arrived = lost_of.map(|(lost, sent)| sent - lost).unwrap_or(0);
        let amount = |f: &Figures| bytes(f.megabytes, MB).unwrap_or(0);
        let size = received
            .filter(|_| arrived > 0)
            .map(|f| (amount(f) as f64 / arrived as f64).round() as u64);
        let datagram = size.filter(|_| transport.datagrams());
        let mut flow = Flow {
            transport,
            direction,
            payload_bytes: self.buffer_bytes.or(datagram).unwrap_or(0),
            destination: self.host.clone().unwrap_or_default(),
            connect_seconds: any.rtt_ms.map(|ms| ms / 1000.0),
            ..Flow::default()
        };
        flow.receiver = received.map(|f| {
            let bytes = datagram.map_or(amount(f), |size| arrived.saturating_mul(size));
            Receiver {
                bytes,
                packets: arrived,
                seconds: f.seconds,
                start_seconds: Some(0.0),
                end_seconds: Some(f.seconds),
                bits_per_second: Some(f.megabits_per_second * 1e6),
                packets_per_second: per_second(arrived, f.seconds).filter(|_| arrived > 0),
                lost_packets: lost_of.map(|(lost, _)| lost),
                loss_ratio: lost_of
                    .filter(|(_, sent)| *sent > 0)
                    .map(|(lost, sent)| lost as f64 / sent as f64),
                ..Receiver::default()
            }
        });
        let sent_bytes = match (transmitted, lost_of, datagram) {
            (Some(f), ..) => Some(amount(f)),
            (None, Some((_, sent)), Some(size)) => Some(sent.saturating_mul(size)),
            _ => None,
        };
        flow.sender = sent_bytes.map(|bytes| {
            let packets = lost_of.map_or(0, |(_, sent)| sent);
            let seconds = transmitted.unwrap_or(any).seconds;
            Sender {
                bytes,
                packets,
                seconds,
                start_seconds: Some(0.0),
                end_seconds: Some(seconds),
                bits_per_second: per_second(bytes, seconds).map(|rate| 8.0 * rate),
                packets_per_second: per_second(packets, seconds).filter(|_| packets > 0),
                ..Sender::default()
            }
        });
        let retransmits = any.retransmits.or(transmitted.and_then(|f| f.retransmits));
        flow.tcp = retransmits.filter(|_| !transport.datagrams()).map(|retransmits| Tcp {
            retransmits,
            mss_bytes: self.mss.unwrap_or(0),
            ..Tcp::default()
        });
        let mut record = Record { flows: vec![flow], ..Record::default() };
        numbered(&mut record.flows);
        record.plan.host = self.host;
        record.plan.title = any.identifier.as_ref().map(|text| shortened(text, 200));
        record.plan.latency = false;
        record.plan.connections =
            vec![Connection { transport: transport.into(), direction, ..Connection::default() }];
        record.end_reason = "completed".into();
        if sum {
            record.status = weir_model::record::Status::Partial;
            record.end_reason = "the output has no result, only intervals".into();
        }
        let mut start = 0.0;
        for f in &self.rows {
            let end = start + f.seconds;
            let count = row_count(f, transport.datagrams());
            // nuttcp prints the receiver's interval with the sender's retransmissions.
            let retransmits = count.retransmits;
            let sender =
                retransmits.map(|_| IntervalCount { retransmits, ..IntervalCount::default() });
            let of_flow = IntervalFlow {
                id: 1,
                sender,
                receiver: Some(IntervalCount { retransmits: None, ..count }),
            };
            record.intervals.push(row((start, end), false, vec![of_flow], &record.flows));
            start = end;
        }
        Some(Reading { record, version: self.version, started_ms: None, text })
    }
}

/// The counts of an interval.
fn row_count(f: &Figures, datagrams: bool) -> IntervalCount {
    let arrived = f.lost_of.map_or(0, |(lost, sent)| sent - lost);
    IntervalCount {
        bytes: bytes(f.megabytes, MB).unwrap_or(0),
        packets: arrived,
        bits_per_second: Some(f.megabits_per_second * 1e6),
        packets_per_second: per_second(arrived, f.seconds).filter(|_| datagrams),
        lost_packets: f.lost_of.map(|(lost, _)| lost),
        retransmits: f.retransmits.filter(|_| !datagrams),
        ..IntervalCount::default()
    }
}

/// The sum of intervals.
fn sum_of(rows: &[Figures]) -> Figures {
    let mut out = Figures::default();
    let add = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a.saturating_add(b?)));
    for f in rows {
        out.megabytes += f.megabytes;
        out.seconds += f.seconds;
        out.retransmits = add(out.retransmits, f.retransmits);
        if let Some((lost, sent)) = f.lost_of {
            let (l, s) = out.lost_of.unwrap_or((0, 0));
            out.lost_of = Some((l.saturating_add(lost), s.saturating_add(sent)));
        }
    }
    out.megabits_per_second =
        per_second(0, out.seconds).map_or(0.0, |_| out.megabytes * MB * 8.0 / out.seconds / 1e6);
    out
}
