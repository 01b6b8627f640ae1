//! The kinds of lines, each by itself.

use super::keys;
use crate::text::{number, seconds};

/// Maximum length of a line that is looked at, bytes: all fields of omni output have 6000.
const MAX_LINE: usize = 64 << 10;

/// A unit of netperf's throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Unit {
    /// A rate; the factor makes it bit/s.
    Rate(f64),
    /// Transactions per second.
    Transactions,
}

impl Unit {
    /// Reads `10^6bits/s`, `KBytes/sec`, `Trans/s` and the like.
    pub(super) fn of(word: &str) -> Option<Unit> {
        let kib = 1024.0;
        Some(match word.trim_end_matches("ec") {
            "10^3bits/s" => Unit::Rate(1e3),
            "10^6bits/s" => Unit::Rate(1e6),
            "10^9bits/s" => Unit::Rate(1e9),
            "Bytes/s" => Unit::Rate(8.0),
            "KBytes/s" => Unit::Rate(8.0 * kib),
            "MBytes/s" => Unit::Rate(8.0 * kib * kib),
            "GBytes/s" => Unit::Rate(8.0 * kib * kib * kib),
            "Trans/s" => Unit::Transactions,
            _ => return None,
        })
    }
}

/// An interim result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interim {
    pub value: f64,
    pub unit: Unit,
    pub seconds: f64,
    /// End, seconds since 1970.
    pub ending: f64,
}

/// A line.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// The first line of a test.
    Banner { test: &'a str, host: Option<&'a str>, burst: u64 },
    /// The headings of CSV.
    Header(Vec<String>),
    /// A keyword and its value.
    Key { name: &'a str, value: &'a str },
    /// An interim result.
    Interim(Interim),
    /// The units below the headings of a table.
    Unit(Unit),
    /// A row of numbers.
    Row(Vec<f64>),
    /// Anything else.
    Other,
}

impl<'a> Line<'a> {
    pub(super) fn of(line: &'a str) -> Line<'a> {
        if line.len() > MAX_LINE {
            return Line::Other;
        }
        if let Some(banner) = banner(line) {
            return banner;
        }
        if let Some(rest) = line.strip_prefix("Interim result:") {
            return interim(rest).map_or(Line::Other, Line::Interim);
        }
        if let Some((name, value)) = line.split_once('=') {
            let is_name =
                |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "_[]".contains(c);
            if !name.is_empty() && name.chars().all(is_name) {
                return Line::Key { name, value: value.trim().trim_matches('"') };
            }
        }
        let names = fields(line);
        let known = names.iter().filter(|name| keys::of_heading(name).is_some()).count();
        if known >= 2 || (known == 1 && names.len() == 1) {
            return Line::Header(names);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let values: Option<Vec<f64>> = words.iter().map(|word| number(word)).collect();
        if let Some(values) = values.filter(|values| !values.is_empty()) {
            return Line::Row(values);
        }
        if words.first() == Some(&"bytes") {
            let unit = words.iter().find_map(|word| Unit::of(word));
            let is_per_second = words.windows(2).any(|two| two == ["per", "sec"]);
            let unit = unit.or(is_per_second.then_some(Unit::Transactions));
            return unit.map_or(Line::Other, Line::Unit);
        }
        Line::Other
    }
}

/// `MIGRATED TCP STREAM TEST from … to HOST (…) port 0 AF_INET : demo : first burst 0`.
fn banner(line: &str) -> Option<Line<'_>> {
    let (test, rest) = line.split_once(" TEST from ")?;
    let host = rest.split_once(" to ").and_then(|(_, rest)| rest.split_whitespace().next());
    let burst = rest.split_once("first burst ").and_then(|(_, n)| n.trim().parse().ok());
    Some(Line::Banner { test, host, burst: burst.unwrap_or(0) })
}

/// ` 5210.19 10^6bits/s over 1.000 seconds ending at 1385504800.123`.
fn interim(line: &str) -> Option<Interim> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [value, unit, "over", time, "seconds", "ending", "at", ending] = words.as_slice() else {
        return None;
    };
    Some(Interim {
        value: number(value)?,
        unit: Unit::of(unit)?,
        seconds: seconds(time)?,
        ending: number(ending).filter(|at| *at < 2.5e11)?,
    })
}

/// The fields of a line of CSV: separated by commas, in quotes where they have commas.
pub(super) fn fields(line: &str) -> Vec<String> {
    let mut out = vec![];
    let mut field = String::new();
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => out.push(std::mem::take(&mut field).trim().to_owned()),
            _ => field.push(c),
        }
    }
    out.push(field.trim().to_owned());
    out
}
