//! Values of filters and laws that are written as one word: ranges, prefixes, protocols, queue limits.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::time::Time;
use crate::ModelError;
use crate::units::{ByteSize, Span};

/// Maximum number of parts of a comma-separated list.
pub(super) const MAX_PARTS: usize = 64;

/// A value that is written as one word.
pub(super) trait Word:
    FromStr<Err = ModelError> + fmt::Display + schemars::JsonSchema
{
    /// What is accepted.
    const FORM: &'static str;
}

/// Reads strings and whole numbers; writes a string.
macro_rules! word_serde {
    ($name:ident, $form:expr, $examples:expr) => {
        impl $crate::impairment::value::Word for $name {
            const FORM: &'static str = $form;
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct V;
                impl serde::de::Visitor<'_> for V {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                        f.write_str($form)
                    }
                    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<$name, E> {
                        v.parse().map_err(crate::document::refused)
                    }
                    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<$name, E> {
                        v.to_string().parse().map_err(crate::document::refused)
                    }
                    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<$name, E> {
                        v.to_string().parse().map_err(crate::document::refused)
                    }
                }
                deserializer.deserialize_any(V)
            }
        }
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": ["string", "integer"], "description": $form, "examples": $examples })
            }
        }
    };
}

pub(super) fn whole(text: &str) -> Option<u32> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u32::from_str_radix(hex, 16).ok(),
        None if !text.starts_with('+') => text.parse().ok(),
        _ => None,
    }
}

pub(super) use word_serde;

/// Whole numbers as inclusive ranges: `5060`, `5060-5090`, `80,443,8000-8100`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges(pub Vec<(u32, u32)>);

const RANGES_FORM: &str = "a number or ranges such as 80, 5060-5090 or 80,443 (at most 64 parts)";

impl FromStr for Ranges {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "range", given: text.into(), accepted: RANGES_FORM };
        let mut parts = vec![];
        for part in text.split(',') {
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (whole(low), whole(high)),
                None => (whole(part), whole(part)),
            };
            match (low, high) {
                (Some(low), Some(high)) if low <= high && parts.len() < MAX_PARTS => {
                    parts.push((low, high));
                }
                _ => return Err(bad()),
            }
        }
        Ok(Ranges(parts))
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, (low, high)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if low == high {
                write!(f, "{comma}{low}")?;
            } else {
                write!(f, "{comma}{low}-{high}")?;
            }
        }
        Ok(())
    }
}

word_serde!(
    Ranges,
    "a number or ranges such as 80, 5060-5090 or 80,443 (at most 64 parts)",
    ["80", "5060-5090", "80,443"]
);

/// Maximum number of parts of a list that a law has.
const MAX_LAW_PARTS: usize = 1000;

/// The parts of a list that a law has: separated by white space, since a comma ends an argument, or by commas.
fn law_parts(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\t', '\n']).filter(|part| !part.is_empty())
}

/// Writes parts with a space between them.
fn write_parts<T: fmt::Display>(
    f: &mut fmt::Formatter,
    parts: impl Iterator<Item = T>,
) -> fmt::Result {
    for (n, part) in parts.enumerate() {
        let separator = if n == 0 { "" } else { " " };
        write!(f, "{separator}{part}")?;
    }
    Ok(())
}

/// Numbers of packets as inclusive ranges in rising order, from 1: `3 7 10-20`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketNumbers(pub Vec<(u64, u64)>);

const NUMBERS_FORM: &str =
    "numbers or ranges from 1 in rising order, such as 3 7 10-20 (at most 1000 parts)";

impl PacketNumbers {
    /// The last number.
    pub(super) fn last(&self) -> u64 {
        self.0.last().map_or(0, |range| range.1)
    }
}

impl FromStr for PacketNumbers {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad =
            || ModelError::Value { what: "packets", given: text.into(), accepted: NUMBERS_FORM };
        let mut ranges: Vec<(u64, u64)> = vec![];
        for part in law_parts(text) {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| whole(text).map(u64::from).ok_or_else(bad);
            let (low, high) = (number(low)?, number(high)?);
            let before = ranges.last().map_or(0, |range| range.1);
            if low <= before || low > high || ranges.len() >= MAX_LAW_PARTS {
                return Err(bad());
            }
            ranges.push((low, high));
        }
        if ranges.is_empty() { Err(bad()) } else { Ok(PacketNumbers(ranges)) }
    }
}

impl fmt::Display for PacketNumbers {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let part = |(low, high): &(u64, u64)| match low == high {
            true => low.to_string(),
            false => format!("{low}-{high}"),
        };
        write_parts(f, self.0.iter().map(part))
    }
}

word_serde!(
    PacketNumbers,
    "numbers or ranges from 1 in rising order, such as 3 7 10-20 (at most 1000 parts)",
    ["3 7 10-20"]
);

/// Periods of time in rising order: `5s..6s 20s..22s`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Periods(pub Vec<(Span, Span)>);

const PERIODS_FORM: &str =
    "periods in rising order up to 1h, such as 5s..6s 20s..22s (at most 1000)";

impl Periods {
    /// End of the last one.
    pub(super) fn end(&self) -> Span {
        self.0.last().map_or(Span(0), |period| period.1)
    }
}

impl FromStr for Periods {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad =
            || ModelError::Value { what: "periods", given: text.into(), accepted: PERIODS_FORM };
        let mut periods: Vec<(Span, Span)> = vec![];
        for part in law_parts(text) {
            let (from, to) = part.split_once("..").ok_or_else(bad)?;
            let time = |text: &str| text.parse::<Time>().map(|time| time.0).map_err(|_| bad());
            let (from, to) = (time(from)?, time(to)?);
            let before = periods.last().map_or(Span(0), |period| period.1);
            let is_rising = before <= from && from < to && to <= Span::from_seconds(3600);
            if !is_rising || periods.len() >= MAX_LAW_PARTS {
                return Err(bad());
            }
            periods.push((from, to));
        }
        if periods.is_empty() { Err(bad()) } else { Ok(Periods(periods)) }
    }
}

impl fmt::Display for Periods {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write_parts(f, self.0.iter().map(|(from, to)| format!("{from}..{to}")))
    }
}

word_serde!(
    Periods,
    "periods in rising order up to 1h, such as 5s..6s 20s..22s (at most 1000)",
    ["5s..6s 20s..22s"]
);

/// Percentages: `1, 30, 50`.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentages(pub Vec<f64>);

const PERCENTAGES_FORM: &str = "percentages such as 1, 30, 50 (at most 64)";

impl FromStr for Percentages {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value {
            what: "percentages",
            given: text.into(),
            accepted: PERCENTAGES_FORM,
        };
        let number = |part: &str| part.strip_suffix('%').unwrap_or(part).parse().ok();
        let all: Option<Vec<f64>> = law_parts(text).map(number).collect();
        let all = all.filter(|all| (1..=MAX_PARTS).contains(&all.len()));
        // What is no number at all has no order with others.
        all.filter(|all| all.iter().all(|one| !one.is_nan())).map(Percentages).ok_or_else(bad)
    }
}

impl fmt::Display for Percentages {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (n, percentage) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { ", " };
            write!(f, "{separator}{percentage}")?;
        }
        Ok(())
    }
}

word_serde!(Percentages, "percentages such as 1, 30, 50 (at most 64)", ["1, 30, 50"]);

/// An address prefix; the bits after its length are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The first address.
    pub address: IpAddr,
    /// Length in bits: 0 to 32, or to 128 for IPv6.
    pub length: u8,
}

impl Prefix {
    /// First and last address of each part, IPv4 as IPv4-mapped IPv6 (RFC 4291 §2.5.5.2).
    ///
    /// A short IPv6 prefix such as `::/0` contains the mapped block but is not meant for IPv4: the block is
    /// excluded. A prefix inside the block matches IPv4.
    #[must_use]
    pub fn mapped_ranges(&self) -> Vec<(u128, u128)> {
        const FIRST_MAPPED: u128 = 0xffff_0000_0000;
        const LAST_MAPPED: u128 = 0xffff_ffff_ffff;
        let (low, high) = self.mapped_range();
        if self.length >= 96 || self.address.is_ipv4() || low > FIRST_MAPPED || high < LAST_MAPPED {
            return vec![(low, high)];
        }
        let parts = [(low, FIRST_MAPPED - 1), (LAST_MAPPED + 1, high)];
        parts.into_iter().filter(|(low, high)| low <= high).collect()
    }

    /// First and last address, the mapped block included.
    fn mapped_range(&self) -> (u128, u128) {
        let (first, length) = match self.address {
            IpAddr::V4(v4) => (u128::from(v4.to_ipv6_mapped()), u32::from(self.length) + 96),
            IpAddr::V6(v6) => (u128::from(v6), u32::from(self.length)),
        };
        let host_bits = u128::MAX.checked_shr(length).unwrap_or(0);
        (first & !host_bits, first | host_bits)
    }
}

impl FromStr for Prefix {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad =
            || ModelError::Value { what: "address", given: text.into(), accepted: PREFIXES_FORM };
        let (address, length) = match text.trim().split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(length) => whole(length).filter(|l| *l <= most).ok_or_else(bad)?,
            None => most,
        };
        let address = match address {
            IpAddr::V4(a) => {
                let host_bits = u32::MAX.checked_shr(length).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(a) & !host_bits))
            }
            IpAddr::V6(a) => {
                let host_bits = u128::MAX.checked_shr(length).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(a) & !host_bits))
            }
        };
        Ok(Prefix { address, length: length as u8 })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let most = if self.address.is_ipv4() { 32 } else { 128 };
        if self.length == most {
            write!(f, "{}", self.address)
        } else {
            write!(f, "{}/{}", self.address, self.length)
        }
    }
}

/// Address prefixes, any of which matches: `10.0.0.0/8`, `2001:db8::/32,fe80::/10`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefixes(pub Vec<Prefix>);

const PREFIXES_FORM: &str =
    "addresses or prefixes such as 10.0.0.0/8 or 2001:db8::1,fe80::/10 (at most 64)";

impl FromStr for Prefixes {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let parts: Vec<Prefix> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if parts.len() > MAX_PARTS {
            return Err(ModelError::Value {
                what: "address",
                given: text.into(),
                accepted: PREFIXES_FORM,
            });
        }
        Ok(Prefixes(parts))
    }
}

impl fmt::Display for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, prefix) in self.0.iter().enumerate() {
            write!(f, "{}{prefix}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

word_serde!(
    Prefixes,
    "addresses or prefixes such as 10.0.0.0/8 or 2001:db8::1,fe80::/10 (at most 64)",
    ["10.0.0.0/8", "2001:db8::1,fe80::/10"]
);

/// An IP protocol by number or by its IANA keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol(pub u8);

const PROTOCOLS: [(&str, u8); 10] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("icmpv6", 58),
    ("ospf", 89),
    ("sctp", 132),
    ("udp-lite", 136),
];

impl FromStr for Protocol {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let lower = text.trim().to_ascii_lowercase();
        let named = PROTOCOLS.iter().find(|(name, _)| *name == lower).map(|(_, n)| *n);
        named.or_else(|| whole(&lower).and_then(|n| u8::try_from(n).ok())).map(Protocol).ok_or_else(
            || ModelError::Value { what: "protocol", given: text.into(), accepted: PROTOCOL_FORM },
        )
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match PROTOCOLS.iter().find(|(_, n)| *n == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

const PROTOCOL_FORM: &str = "an IP protocol: tcp, udp, icmp, icmpv6, sctp, udp-lite, gre, esp, igmp, ospf or a number 0 to 255";

word_serde!(
    Protocol,
    "an IP protocol: tcp, udp, icmp, icmpv6, sctp, udp-lite, gre, esp, igmp, ospf or a number 0 to 255",
    ["udp", "tcp", "47"]
);

/// An EtherType by number or name; a value below 1536 is the length of an IEEE 802.3 frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EtherType(pub u16);

const ETHERTYPES: [(&str, u16); 5] =
    [("ipv4", 0x0800), ("arp", 0x0806), ("ipv6", 0x86dd), ("mpls", 0x8847), ("lldp", 0x88cc)];

impl FromStr for EtherType {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let lower = text.trim().to_ascii_lowercase();
        let named = ETHERTYPES.iter().find(|(name, _)| *name == lower).map(|(_, n)| *n);
        named
            .or_else(|| whole(&lower).and_then(|n| u16::try_from(n).ok()))
            .map(EtherType)
            .ok_or_else(|| ModelError::Value {
                what: "ethertype",
                given: text.into(),
                accepted: ETHERTYPE_FORM,
            })
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match ETHERTYPES.iter().find(|(_, n)| *n == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{:#06x}", self.0),
        }
    }
}

const ETHERTYPE_FORM: &str = "an EtherType: ipv4, arp, ipv6, mpls, lldp or a number such as 0x88cc";

word_serde!(
    EtherType,
    "an EtherType: ipv4, arp, ipv6, mpls, lldp or a number such as 0x88cc",
    ["ipv6", "0x88cc"]
);

/// Limit of a queue, without the packet in transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// The time until a packet's own transmission starts.
    Time(Span),
    /// Waiting bytes, framing overhead included.
    Bytes(ByteSize),
    /// Waiting packets.
    Packets(u32),
}

const QUEUE_FORM: &str = "a time (250ms), a size (64K; K is 1024) or packets (100packets)";

impl FromStr for QueueLimit {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "queue", given: text.into(), accepted: QUEUE_FORM };
        let word = text.trim();
        if let Some(number) = word.strip_suffix("packets").or_else(|| word.strip_suffix("packet")) {
            return whole(number).map(QueueLimit::Packets).ok_or_else(bad);
        }
        // A time ends with a lower-case letter; a size with a digit or an upper-case letter.
        if word.ends_with(['s', 'm', 'n', 'h']) {
            return word.parse().map(QueueLimit::Time).map_err(|_| bad());
        }
        word.parse().map(QueueLimit::Bytes).map_err(|_| bad())
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            QueueLimit::Time(span) => span.fmt(f),
            QueueLimit::Bytes(size) => size.fmt(f),
            QueueLimit::Packets(n) => write!(f, "{n}packets"),
        }
    }
}

word_serde!(
    QueueLimit,
    "a time (250ms), a size (64K; K is 1024) or packets (100packets)",
    ["250ms", "64K", "100packets"]
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_have_their_values() {
        assert_eq!("80,5060-5090".parse::<Ranges>().unwrap().0, [(80, 80), (5060, 5090)]);
        let prefix = "10.1.2.3/8".parse::<Prefix>().unwrap();
        assert_eq!(prefix.to_string(), "10.0.0.0/8");
        let low = 0xffff_0a00_0000u128;
        assert_eq!(prefix.mapped_range(), (low, low + 0xff_ffff));
        let ranges = |text: &str| text.parse::<Prefix>().unwrap().mapped_ranges();
        let (first, last) = (0xffff_0000_0000, 0xffff_ffff_ffff_u128);
        assert_eq!(ranges("0.0.0.0/0"), [(first, last)]);
        // IPv6 does not match IPv4, except for a prefix within the mapped block.
        assert_eq!(ranges("::/0"), [(0, first - 1), (last + 1, u128::MAX)]);
        assert_eq!(ranges("::/80"), [(0, first - 1)]);
        assert_eq!(ranges("::ffff:0:0/96"), [(first, last)]);
        assert_eq!(ranges("2000::/3"), [(1 << 125, (1 << 126) - 1)]);
        assert_eq!("0.0.0.0/0".parse::<Prefix>().unwrap().to_string(), "0.0.0.0/0");
        assert_eq!("UDP".parse::<Protocol>().unwrap(), Protocol(17));
        assert_eq!("0x88cc".parse::<EtherType>().unwrap().to_string(), "lldp");
        assert_eq!("250ms".parse::<QueueLimit>().unwrap(), QueueLimit::Time(Span(250_000_000)));
        assert_eq!("64K".parse::<QueueLimit>().unwrap(), QueueLimit::Bytes(ByteSize(65_536)));
        assert_eq!("625B".parse::<QueueLimit>().unwrap(), QueueLimit::Bytes(ByteSize(625)));
        assert_eq!("9packets".parse::<QueueLimit>().unwrap(), QueueLimit::Packets(9));
    }

    #[test]
    fn invalid_values_are_refused() {
        for bad in ["", "9-3", "1-", "-1", "x", "1,,2", "+5", "4294967296"] {
            assert!(bad.parse::<Ranges>().is_err(), "{bad}");
        }
        for bad in ["10.0.0.0/33", "::/129", "host", "1.2.3", "10.0.0.0/", "10.0.0.0/+8"] {
            assert!(bad.parse::<Prefixes>().is_err(), "{bad}");
        }
        for bad in ["256", "tcpp", ""] {
            assert!(bad.parse::<Protocol>().is_err(), "{bad}");
        }
        assert!("65536".parse::<EtherType>().is_err());
        assert!("packets".parse::<QueueLimit>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_prints_back(text in "[0-9a-fxmsKB:./, -]{0,24}") {
            macro_rules! back { ($t:ty) => {
                if let Ok(value) = text.parse::<$t>() {
                    prop_assert_eq!(value.to_string().parse::<$t>().unwrap(), value);
                }
            } }
            back!(Ranges);
            back!(Prefixes);
            back!(Protocol);
            back!(EtherType);
            back!(QueueLimit);
            back!(PacketNumbers);
            back!(Periods);
            back!(Percentages);
        }
    }
}
