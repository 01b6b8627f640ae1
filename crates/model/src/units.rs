//! Units as newtypes, which are parsed here and printed in canonical form.
//!
//! Rates use powers of ten (`10M` is 10^7 bit/s), sizes powers of two (`64K` is 65 536 bytes), as in other
//! network tools. All parse from strings and, in JSON or TOML, also from numbers.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ModelError;

/// Splits `12.5M` into its number and suffix.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text.split_at(end)
}

/// Multiplies a decimal number by an integer factor, rounded to nearest; `None` on overflow.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    product(number, factor).map(|(value, _)| value)
}

/// A decimal number times an integer factor, rounded to nearest, and whether the product is exact; `None` on
/// overflow.
fn product(number: &str, factor: u64) -> Option<(u64, bool)> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.len() > 18 {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() { Some(0u128) } else { text.parse::<u64>().ok().map(u128::from) }
    };
    // 2^64 × 10^12 and 10^18 × 10^14 both fit 128 bits.
    let factor = u128::from(factor);
    let unit = 10u128.pow(part.len() as u32);
    let part = digits(part)? * factor;
    let value = digits(whole)? * factor + (part + unit / 2) / unit;
    let value = u64::try_from(value).ok().filter(|v| *v < 1 << 63)?;
    Some((value, part.is_multiple_of(unit)))
}

/// Pattern of a decimal number with at most this many digits before the point.
fn decimal(digits: u32) -> String {
    format!(r"([0-9]{{1,{digits}}}(\.[0-9]{{0,18}})?|\.[0-9]{{1,18}})")
}

/// Pattern of a number with one of these suffixes, each with the digits that keep the value below 2^63.
fn with_suffixes(suffixes: &[(u32, &str)]) -> String {
    let forms: Vec<String> =
        suffixes.iter().map(|(digits, suffix)| format!("{} ?{suffix}", decimal(*digits))).collect();
    forms.join("|")
}

/// Powers of ten in a rate.
const POWERS: [(u32, &str); 5] = [(18, ""), (15, "[kK]"), (12, "[mM]"), (9, "[gG]"), (6, "[tT]")];

macro_rules! string_serde {
    ($name:ident $(in $unit:literal)?, $expect:literal, $examples:expr, $pattern:expr, $number:tt, $from_number:expr) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct V;
                impl<'de> Visitor<'de> for V {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                        f.write_str($expect)
                    }
                    fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<$name, D::Error> {
                        d.deserialize_any(self)
                    }
                    fn visit_str<E: de::Error>(self, v: &str) -> Result<$name, E> {
                        v.parse().map_err(crate::document::refused)
                    }
                    fn visit_u64<E: de::Error>(self, v: u64) -> Result<$name, E> {
                        let convert: fn(f64) -> Option<$name> = $from_number;
                        convert(v as f64).ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(v), &self))
                    }
                    fn visit_i64<E: de::Error>(self, v: i64) -> Result<$name, E> {
                        let convert: fn(f64) -> Option<$name> = $from_number;
                        convert(v as f64).ok_or_else(|| E::invalid_value(de::Unexpected::Signed(v), &self))
                    }
                    fn visit_f64<E: de::Error>(self, v: f64) -> Result<$name, E> {
                        let convert: fn(f64) -> Option<$name> = $from_number;
                        convert(v).ok_or_else(|| E::invalid_value(de::Unexpected::Float(v), &self))
                    }
                }
                // As a named newtype, so that a deserializer knows the quantity.
                deserializer.deserialize_newtype_struct(stringify!($name), V)
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut schema = schemars::json_schema!($number);
                schema.insert("description".into(), $expect.into());
                schema.insert("examples".into(), serde_json::json!($examples));
                schema.insert("pattern".into(), String::from($pattern).into());
                $(schema.insert("x-unit".into(), $unit.into());)?
                schema
            }
        }
    };
}

/// A rate in bits per second. `K M G T` are powers of ten in either case; `bit`, `bit/s` and `bps` may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct BitRate(pub u64);

const RATE_FORM: &str =
    "bits per second such as 64k, 10M, 2.5G or 100Mbit (K, M, G, T are powers of ten)";

impl FromStr for BitRate {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "rate", given: text.into(), accepted: RATE_FORM };
        let trimmed = text.trim();
        let (number, suffix) = split_number(trimmed);
        let suffix = suffix.trim();
        // `bit` is tc's spelling. `bps` is bits, as in iperf3; in tc it is bytes.
        let unit = ["bits/s", "bit/s", "bps", "bits", "bit"];
        let suffix = unit.iter().find_map(|unit| suffix.strip_suffix(unit)).unwrap_or(suffix);
        let factor = match suffix {
            "" => 1,
            "k" | "K" => 1000,
            "m" | "M" => 1_000_000,
            "g" | "G" => 1_000_000_000,
            "t" | "T" => 1_000_000_000_000,
            _ => return Err(bad()),
        };
        scaled(number, factor).map(BitRate).ok_or_else(bad)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (factor, suffix) in
            [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")]
        {
            if self.0 >= factor && self.0.is_multiple_of(factor / 1000) {
                return write_thousandths(f, self.0 / (factor / 1000), suffix);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// Prints a number of thousandths without trailing zeros: 2500 with `G` is `2.5G`.
fn write_thousandths(f: &mut fmt::Formatter, thousandths: u64, suffix: &str) -> fmt::Result {
    let (whole, part) = (thousandths / 1000, thousandths % 1000);
    if part == 0 {
        return write!(f, "{whole}{suffix}");
    }
    let digits = format!("{part:03}");
    write!(f, "{whole}.{}{suffix}", digits.trim_end_matches('0'))
}

string_serde!(
    BitRate in "bit/s",
    "bits per second such as 64k, 10M, 2.5G or 100Mbit (K, M, G, T are powers of ten)",
    ["10M", "64k", "2.5G", "100Mbit"],
    format!("^({})(bits?(/s)?|bps)?$", with_suffixes(&POWERS)),
    { "type": ["string", "number"], "minimum": 0, "exclusiveMaximum": 9.2e18 },
    |v| { (0.0..9.2e18).contains(&v).then_some(BitRate(v as u64)) }
);

/// A size in whole bytes: `1.5K` is 1536, and `0.5` is refused. `K M G T` are powers of 1024 in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ByteSize(pub u64);

const SIZE_FORM: &str = "whole bytes such as 1460, 64K or 1M (K is 1024)";

impl FromStr for ByteSize {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "size", given: text.into(), accepted: SIZE_FORM };
        let (number, suffix) = split_number(text.trim());
        let factor = match suffix.trim().trim_end_matches('B').trim_end_matches('i') {
            "" => 1,
            "k" | "K" => 1 << 10,
            "m" | "M" => 1 << 20,
            "g" | "G" => 1 << 30,
            "t" | "T" => 1 << 40,
            _ => return Err(bad()),
        };
        let (bytes, is_whole) = product(number, factor).ok_or_else(bad)?;
        is_whole.then_some(ByteSize(bytes)).ok_or_else(bad)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (shift, suffix) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
            if self.0 >= 1 << shift && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{suffix}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

string_serde!(
    ByteSize in "bytes",
    "whole bytes such as 1460, 64K or 1M (K is 1024)",
    ["1M", "1460", "64K"],
    // Fractions of a K are whole bytes only in sixteenths and the like.
    r"^([0-9]{1,18}(\.0{0,18})?|([0-9]{1,15} ?[kK]|[0-9]{1,12} ?[mM]|[0-9]{1,9} ?[gG]|[0-9]{1,6} ?[tT])|[0-9]{1,6}\.(0|5|25|75|125|375|625|875|0625|1875|3125|4375|5625|6875|8125|9375)0{0,12} ?[kKmMgGtT])i?B?$",
    { "type": ["string", "integer"], "minimum": 0, "exclusiveMaximum": 9.2e18 },
    |v| { ((0.0..9.2e18).contains(&v) && v.fract() == 0.0).then_some(ByteSize(v as u64)) }
);

/// A length of time in nanoseconds. Written with `ns us µs ms s m h d`; a bare number is seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(pub u64);

impl Span {
    /// A whole number of seconds.
    pub const fn from_seconds(seconds: u64) -> Self {
        Span(seconds * 1_000_000_000)
    }
    /// The length in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

const SPAN_FORM: &str =
    "a time such as 10, 2.5s, 40ms, 100us, 2m, 1h or 1d (a bare number is seconds)";

impl FromStr for Span {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad =
            || ModelError::Value { what: "duration", given: text.into(), accepted: SPAN_FORM };
        let (number, suffix) = split_number(text.trim());
        let factor = match suffix.trim() {
            "" | "s" => 1_000_000_000,
            "ns" => 1,
            "us" | "µs" | "μs" => 1000,
            "ms" => 1_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(bad()),
        };
        scaled(number, factor).map(Span).ok_or_else(bad)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            0 => write!(f, "0s"),
            n if n.is_multiple_of(1_000_000_000) => write!(f, "{}s", n / 1_000_000_000),
            n if n >= 1_000_000_000 && n.is_multiple_of(1_000_000) => {
                write_thousandths(f, n / 1_000_000, "s")
            }
            n if n.is_multiple_of(1_000_000) => write!(f, "{}ms", n / 1_000_000),
            n if n.is_multiple_of(1000) => write!(f, "{}us", n / 1000),
            n => write!(f, "{n}ns"),
        }
    }
}

string_serde!(
    Span in "s",
    "a time such as 10, 2.5s, 40ms, 100us, 2m, 1h or 1d (a bare number is seconds)",
    ["40ms", "10", "2.5s", "100us", "2m"],
    format!("^({}|[1-8][0-9]{{9}} ?s?)$", with_suffixes(&[(9, "s?"), (18, "ns"), (15, "[uµμ]s"), (12, "ms"), (8, "m(in)?"), (6, "h"), (5, "d")])),
    { "type": ["string", "number"], "minimum": 0, "exclusiveMaximum": 9.2e9 },
    |v| { (0.0..9.2e9).contains(&v).then_some(Span((v * 1e9).round() as u64)) }
);

/// A seed of the counter-based generator; written in hexadecimal (`0x7`) or decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seed(pub u64);

impl Seed {
    /// Whether a document, in TOML or JSON, has a `seed`. Documents without one are read with seed 0; callers
    /// may draw a random one instead.
    #[must_use]
    pub fn is_named_in(document: &str) -> bool {
        crate::document::tree(document).is_ok_and(|tree| !tree["seed"].is_null())
    }
}

impl FromStr for Seed {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let t = text.trim();
        let parsed = match t.strip_prefix("0x").or_else(|| t.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => t.parse(),
        };
        parsed.map(Seed).map_err(|_| ModelError::Value {
            what: "seed",
            given: text.into(),
            accepted: "a 64-bit number, decimal or 0x hexadecimal",
        })
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

string_serde!(
    Seed,
    "a 64-bit seed, decimal or 0x hexadecimal, as a string",
    ["42", "0x2a"],
    "^([0-9]{1,19}|1[0-7][0-9]{18}|18[0-3][0-9]{17}|18446744073709551615|0[xX][0-9a-fA-F]{1,16})$",
    { "type": ["string", "integer"], "minimum": 0, "maximum": 9.0e15 },
    |v| ((0.0..=9.0e15).contains(&v) && v.fract() == 0.0).then_some(Seed(v as u64))
);

/// Target rate of a sender: no limit, payload bits per second or packets per second; optionally in bursts of
/// n.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SendRate {
    /// The limit.
    pub limit: RateLimit,
    /// Packets sent back to back at each deadline; 1 means even spacing.
    pub burst: u32,
}

/// The limit of a [`SendRate`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RateLimit {
    /// As fast as the path and this host allow.
    Unlimited,
    /// Payload bits per second.
    Bits(BitRate),
    /// Packets (datagrams, or writes of a stream) per second.
    Packets(f64),
}

impl Default for SendRate {
    /// No limit.
    fn default() -> Self {
        SendRate::UNLIMITED
    }
}

impl SendRate {
    /// No limit.
    pub const UNLIMITED: SendRate = SendRate { limit: RateLimit::Unlimited, burst: 1 };

    /// Packets per second at a mean payload size; `None` when unlimited.
    pub fn packets_per_second(&self, payload_bytes: f64) -> Option<f64> {
        match self.limit {
            RateLimit::Unlimited => None,
            RateLimit::Bits(b) => Some(b.0 as f64 / (8.0 * payload_bytes.max(1.0))),
            RateLimit::Packets(p) => Some(p),
        }
    }

    /// This rate shared equally by n connections.
    pub fn divided(&self, n: u32) -> SendRate {
        let n = n.max(1);
        let limit = match self.limit {
            RateLimit::Unlimited => RateLimit::Unlimited,
            RateLimit::Bits(b) => RateLimit::Bits(BitRate((b.0 / u64::from(n)).max(1))),
            RateLimit::Packets(p) => RateLimit::Packets(p / f64::from(n)),
        };
        SendRate { limit, burst: self.burst }
    }
}

const SEND_RATE_FORM: &str =
    "a rate such as 10M, 2.5G, 50000pps or 10M/32 (bursts of 32); 0 is unlimited";

impl FromStr for SendRate {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad =
            || ModelError::Value { what: "rate", given: text.into(), accepted: SEND_RATE_FORM };
        let (rate, burst) = match text.trim().split_once('/') {
            Some((r, b)) if b != "s" => {
                (r, b.parse::<u32>().ok().filter(|b| *b >= 1).ok_or_else(bad)?)
            }
            _ => (text.trim(), 1),
        };
        let limit = if let Some(p) = rate.strip_suffix("pps").or_else(|| rate.strip_suffix("pkt/s"))
        {
            let (number, suffix) = split_number(p.trim());
            let factor = match suffix {
                "" => 1.0,
                "k" | "K" => 1e3,
                "m" | "M" => 1e6,
                _ => return Err(bad()),
            };
            let value = number.parse::<f64>().map_err(|_| bad())? * factor;
            if !(value > 0.0 && value <= 1e9) {
                return Err(bad());
            }
            RateLimit::Packets(value)
        } else {
            match rate.parse::<BitRate>().map_err(|_| bad())? {
                // Only zero means unlimited; a rate that rounds to zero was meant to be slow.
                BitRate(0) if rate.contains(|c: char| matches!(c, '1'..='9')) => return Err(bad()),
                BitRate(0) => RateLimit::Unlimited,
                bits => RateLimit::Bits(bits),
            }
        };
        Ok(SendRate { limit, burst })
    }
}

impl fmt::Display for SendRate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.limit {
            RateLimit::Unlimited => write!(f, "0")?,
            RateLimit::Bits(b) => write!(f, "{b}")?,
            RateLimit::Packets(p) => write!(f, "{p}pps")?,
        }
        if self.burst > 1 { write!(f, "/{}", self.burst) } else { Ok(()) }
    }
}

string_serde!(
    SendRate in "bit/s",
    "a rate such as 10M, 2.5G, 50000pps or 10M/32 (bursts of 32); 0 is unlimited",
    ["10M", "50000pps", "10M/32", "0"],
    {
        // No fraction that rounds to zero, which would be unlimited.
        let bits = r"([1-9][0-9]{0,17}(\.[0-9]{0,18})?|0(\.0{0,18})?|[0-9]{1,15}(\.[0-9]{0,3})? ?[kK]|[0-9]{1,12}(\.[0-9]{0,6})? ?[mM]|[0-9]{1,9}(\.[0-9]{0,9})? ?[gG]|[0-9]{1,6}(\.[0-9]{0,12})? ?[tT])";
        let packets = r"([1-9][0-9]{0,8}(\.[0-9]{0,18})?|1000000000|0?\.[0-9]{0,8}[1-9][0-9]{0,9}|[1-9][0-9]{0,5}(\.[0-9]{0,9})?[kK]|[1-9][0-9]{0,2}(\.[0-9]{0,9})?[mM])";
        format!("^(({bits}(bits?|bps)?|{packets} ?pps)(/[1-9][0-9]{{0,8}})?|{bits}bits?/s|{packets} ?pkt/s)$")
    },
    { "type": ["string", "number"], "minimum": 0, "exclusiveMaximum": 9.2e18 },
    |v| {
        if v == 0.0 {
            return Some(SendRate::UNLIMITED);
        }
        (v > 0.0 && v < 9.2e18)
            .then_some(SendRate { limit: RateLimit::Bits(BitRate(v as u64)), burst: 1 })
    }
);

/// A differentiated-services code point, 0 to 63 (RFC 2474), by number or by its IANA name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dscp(pub u8);

/// IANA names of code points: CSn, AFxy and single ones.
const DSCP_NAMES: [(&str, u8); 23] = [
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
    ("voice-admit", 44),
    ("le", 1),
];

impl FromStr for Dscp {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let lower = text.trim().to_ascii_lowercase();
        if let Some((_, v)) = DSCP_NAMES.iter().find(|(n, _)| *n == lower) {
            return Ok(Dscp(*v));
        }
        let number = match lower.strip_prefix("0x") {
            Some(hex) => u8::from_str_radix(hex, 16).ok(),
            None => lower.parse().ok(),
        };
        number.filter(|v| *v < 64).map(Dscp).ok_or(ModelError::Value {
            what: "dscp",
            given: text.into(),
            accepted: "a code point 0 to 63 or a name such as ef, cs5, af41, le",
        })
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match DSCP_NAMES.iter().find(|(_, v)| *v == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

string_serde!(
    Dscp,
    "a DSCP code point 0 to 63 or its name",
    ["EF", "46"],
    "^([cC][sS][0-7]|[aA][fF][1-4][1-3]|[eE][fF]|[lL][eE]|[vV][oO][iI][cC][eE]-[aA][dD][mM][iI][tT]|0*([0-9]|[1-5][0-9]|6[0-3])|0x0*[0-3]?[0-9a-fA-F])$",
    { "type": ["string", "integer"], "minimum": 0, "maximum": 63 },
    |v| ((0.0..64.0).contains(&v) && v.fract() == 0.0).then_some(Dscp(v as u8))
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_powers_of_ten_and_sizes_of_two() {
        assert_eq!("10M".parse::<BitRate>().unwrap(), BitRate(10_000_000));
        assert_eq!("2.5g".parse::<BitRate>().unwrap(), BitRate(2_500_000_000));
        for hundred in ["100 Mbit/s", "100Mbit", "100mbit", "100Mbits/s", "100Mbps", "0.1gbit"] {
            assert_eq!(hundred.parse::<BitRate>().unwrap(), BitRate(100_000_000), "{hundred}");
        }
        assert_eq!("5bit".parse::<BitRate>().unwrap(), BitRate(5));
        for bad in ["100MB", "100MBps", "100Mbitbit", "100Mbit/h", "bit", "Mbit"] {
            assert!(bad.parse::<BitRate>().is_err(), "{bad}");
        }
        assert_eq!("64K".parse::<ByteSize>().unwrap(), ByteSize(65_536));
        assert_eq!("1.5M".parse::<ByteSize>().unwrap(), ByteSize(1_572_864));
        assert_eq!("1MiB".parse::<ByteSize>().unwrap(), ByteSize(1 << 20));
        // Sizes must be whole bytes in every unit.
        assert_eq!("1.5K".parse::<ByteSize>().unwrap(), ByteSize(1536));
        assert_eq!("8.0".parse::<ByteSize>().unwrap(), ByteSize(8));
        for part in ["0.1", "0.5", "1.5", "0.3K", "1.0001K"] {
            let Err(ModelError::Value { what, given, .. }) = part.parse::<ByteSize>() else {
                panic!("{part}")
            };
            assert_eq!((what, given.as_str()), ("size", part));
        }
        assert_eq!(serde_json::from_str::<ByteSize>("1536").unwrap(), ByteSize(1536));
        assert!(serde_json::from_str::<ByteSize>("0.5").is_err());
        // Fractions of rates and times are rounded.
        assert_eq!("0.3K".parse::<BitRate>().unwrap(), BitRate(300));
    }

    #[test]
    fn spans_default_to_seconds() {
        assert_eq!("10".parse::<Span>().unwrap(), Span::from_seconds(10));
        assert_eq!("2.5s".parse::<Span>().unwrap(), Span(2_500_000_000));
        assert_eq!("100us".parse::<Span>().unwrap(), Span(100_000));
        assert_eq!("2m".parse::<Span>().unwrap(), Span::from_seconds(120));
        assert_eq!("7d".parse::<Span>().unwrap(), Span::from_seconds(604_800));
        assert!("-1".parse::<Span>().is_err());
        assert!("".parse::<Span>().is_err());
        assert!("10x".parse::<Span>().is_err());
    }

    #[test]
    fn send_rates() {
        for zero in ["0", "0.0", "0M"] {
            assert_eq!(zero.parse::<SendRate>().unwrap(), SendRate::UNLIMITED, "{zero}");
        }
        for slow in ["0.4", "0.0001", "0.0001k"] {
            assert!(slow.parse::<SendRate>().is_err(), "{slow} is not unlimited");
        }
        assert_eq!("50000pps".parse::<SendRate>().unwrap().limit, RateLimit::Packets(50_000.0));
        let r: SendRate = "10M/32".parse().unwrap();
        assert_eq!((r.limit, r.burst), (RateLimit::Bits(BitRate(10_000_000)), 32));
        for bad in ["10M/0", "pps", "-5M", "1e999pps", "0pps", "10Q", "nanpps"] {
            assert!(bad.parse::<SendRate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_name_value_and_form() {
        let e = "10Q".parse::<SendRate>().unwrap_err().to_string();
        assert!(e.contains("10Q") && e.contains("50000pps"), "{e}");
    }

    #[test]
    fn dscp_names() {
        assert_eq!("EF".parse::<Dscp>().unwrap(), Dscp(46));
        assert_eq!(Dscp(46).to_string(), "ef");
        assert!("64".parse::<Dscp>().is_err());
    }

    /// Texts that a quantity's pattern admits.
    fn admitted<T: JsonSchema>() -> impl Strategy<Value = String> {
        let schema = schemars::schema_for!(T);
        let pattern = schema.get("pattern").unwrap().as_str().unwrap();
        proptest::string::string_regex(pattern.trim_matches(['^', '$'])).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_a_pattern_admits_is_parsed(
            bits in admitted::<BitRate>(), bytes in admitted::<ByteSize>(), span in admitted::<Span>(),
            seed in admitted::<Seed>(), rate in admitted::<SendRate>(), dscp in admitted::<Dscp>(),
        ) {
            prop_assert!(bits.parse::<BitRate>().is_ok(), "{bits}");
            prop_assert!(bytes.parse::<ByteSize>().is_ok(), "{bytes}");
            prop_assert!(span.parse::<Span>().is_ok(), "{span}");
            prop_assert!(seed.parse::<Seed>().is_ok(), "{seed}");
            prop_assert!(rate.parse::<SendRate>().is_ok(), "{rate}");
            prop_assert!(dscp.parse::<Dscp>().is_ok(), "{dscp}");
        }
    }

    /// Whether a quantity's pattern admits the text of a value.
    fn admits<T: JsonSchema + fmt::Display>(value: T) -> bool {
        let schema = schemars::schema_for!(T);
        let pattern = schema.get("pattern").unwrap().as_str().unwrap();
        regex_lite::Regex::new(pattern).unwrap().is_match(&value.to_string())
    }

    proptest! {
        #[test]
        fn what_is_printed_is_admitted(
            bits in 0u64..1_000_000_000_000_000_000, bytes in 0u64..1_000_000_000_000_000_000,
            ns in 0u64..1_000_000_000_000_000_000, seed: u64, total in 1u64..=1_000_000_000,
            share in 1u32..100_000, dscp in 0u8..64,
        ) {
            prop_assert!(admits(BitRate(bits)), "{}", BitRate(bits));
            prop_assert!(admits(ByteSize(bytes)), "{}", ByteSize(bytes));
            prop_assert!(admits(Span(ns)), "{}", Span(ns));
            prop_assert!(admits(Seed(seed)), "{}", Seed(seed));
            prop_assert!(admits(Dscp(dscp)), "{}", Dscp(dscp));
            for unit in ["", "pps"] {
                let rate: SendRate = format!("{total}{unit}").parse().unwrap();
                let rate = rate.divided(share);
                prop_assert!(admits(rate), "{rate}");
            }
        }
    }

    #[test]
    fn the_largest_values_are_admitted() {
        assert!(admits("1000000000pps".parse::<SendRate>().unwrap()));
        assert!(admits("1000pps".parse::<SendRate>().unwrap().divided(3)));
        assert!(admits(Seed(u64::MAX)) && admits(Span(8_999_999_999 * 1_000_000_000)));
    }

    proptest! {
        #[test]
        fn display_parses_back(bits in 0u64..9_000_000_000_000_000, ns in 0u64..9_000_000_000_000_000, bytes in 0u64..9_000_000_000_000_000) {
            prop_assert_eq!(BitRate(bits).to_string().parse::<BitRate>().unwrap(), BitRate(bits));
            prop_assert_eq!(Span(ns).to_string().parse::<Span>().unwrap(), Span(ns));
            prop_assert_eq!(ByteSize(bytes).to_string().parse::<ByteSize>().unwrap(), ByteSize(bytes));
            prop_assert_eq!(Seed(bits).to_string().parse::<Seed>().unwrap(), Seed(bits));
        }
        #[test]
        fn arbitrary_text_does_not_panic(text in ".{0,24}") {
            let _ = text.parse::<BitRate>();
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<Span>();
            let _ = text.parse::<SendRate>();
            let _ = text.parse::<Dscp>();
            let _ = text.parse::<Seed>();
        }
    }
}
