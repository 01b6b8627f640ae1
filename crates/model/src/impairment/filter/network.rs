//! Values of conditions on the network and transport layers.

use std::fmt;
use std::str::FromStr;

use crate::ModelError;
use crate::impairment::value::{MAX_PARTS, whole, word_serde};

/// Writes items with a comma between them.
fn write_list<T: fmt::Display>(
    f: &mut fmt::Formatter,
    items: impl Iterator<Item = T>,
) -> fmt::Result {
    for (n, item) in items.enumerate() {
        write!(f, "{}{item}", if n == 0 { "" } else { "," })?;
    }
    Ok(())
}

/// The bits of names in a comma-separated list, numbered by their place among the names; `None` if one is unknown.
fn bits(text: &str, names: &[&str]) -> Option<u16> {
    text.split(',').try_fold(0, |bits, name| {
        let place = names.iter().position(|known| known.eq_ignore_ascii_case(name.trim()))?;
        Some(bits | 1 << place)
    })
}

fn names_of(bits: u16, names: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    names.iter().enumerate().filter(move |(place, _)| bits >> place & 1 == 1).map(|(_, name)| *name)
}

/// ECN code points (RFC 3168), any of which matches: `ce`, `ect0,ect1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EcnCodePoints(u8);

/// By code point.
const ECN_NAMES: [&str; 4] = ["not-ect", "ect1", "ect0", "ce"];

impl EcnCodePoints {
    /// The code points, 0 to 3.
    pub fn codes(self) -> impl Iterator<Item = u8> {
        (0..4).filter(move |code| self.0 >> code & 1 == 1)
    }
}

const ECN_FORM: &str = "ECN code points: not-ect, ect0, ect1, ce, or several such as ect0,ect1";

impl FromStr for EcnCodePoints {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "ecn", given: text.into(), accepted: ECN_FORM };
        bits(text, &ECN_NAMES).map(|bits| EcnCodePoints(bits as u8)).ok_or_else(bad)
    }
}

impl fmt::Display for EcnCodePoints {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write_list(f, names_of(self.0.into(), &ECN_NAMES))
    }
}

word_serde!(EcnCodePoints, ECN_FORM, ["ce", "ect0,ect1"]);

/// TCP flags that are set, and a mask of the flags that are compared: `syn`, `syn/syn,ack`, `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFlags {
    set: u16,
    mask: u16,
}

/// From the lowest bit (RFC 9293; AE: RFC 9768).
const FLAG_NAMES: [&str; 9] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ae"];
const ALL_FLAGS: u16 = (1 << FLAG_NAMES.len()) - 1;
const NO_FLAGS: &str = "none";

impl TcpFlags {
    /// The sets of flags that match, as ranges of the nine flag bits.
    #[must_use]
    pub fn ranges(self) -> Vec<(u16, u16)> {
        let mut ranges: Vec<(u16, u16)> = vec![];
        for flags in (0..=ALL_FLAGS).filter(|flags| flags & self.mask == self.set) {
            match ranges.last_mut() {
                Some(last) if last.1 + 1 == flags => last.1 = flags,
                _ => ranges.push((flags, flags)),
            }
        }
        ranges
    }
}

const FLAGS_FORM: &str = "TCP flags of fin, syn, rst, psh, ack, urg, ece, cwr, ae that are set, optionally with a mask of the compared ones: syn, syn,ack, syn/syn,ack, none, 0x02/0x12";

fn flags(text: &str) -> Option<u16> {
    match text.trim() {
        NO_FLAGS => Some(0),
        number if number.starts_with(|c: char| c.is_ascii_digit()) => {
            whole(number).and_then(|n| u16::try_from(n).ok()).filter(|n| *n <= ALL_FLAGS)
        }
        names => bits(names, &FLAG_NAMES),
    }
}

impl FromStr for TcpFlags {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let read = match text.split_once('/') {
            Some((set, mask)) => flags(set).zip(flags(mask)),
            None => flags(text).map(|set| (set, if set == 0 { ALL_FLAGS } else { set })),
        };
        // A set flag outside of the mask is never compared.
        let valid = read.filter(|(set, mask)| *mask != 0 && set & !mask == 0);
        valid.map(|(set, mask)| TcpFlags { set, mask }).ok_or_else(|| ModelError::Value {
            what: "TCP flags",
            given: text.into(),
            accepted: FLAGS_FORM,
        })
    }
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.set {
            0 => f.write_str(NO_FLAGS)?,
            set => write_list(f, names_of(set, &FLAG_NAMES))?,
        }
        if self.mask == self.set || self.set == 0 && self.mask == ALL_FLAGS {
            return Ok(());
        }
        f.write_str("/")?;
        write_list(f, names_of(self.mask, &FLAG_NAMES))
    }
}

word_serde!(TcpFlags, FLAGS_FORM, ["syn", "syn/syn,ack", "rst"]);

/// Which fragments of an IP datagram match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragments {
    /// All.
    Any,
    /// The first, which has the transport header.
    First,
    /// All others.
    Later,
}

const FRAGMENT_NAMES: [(&str, Fragments); 3] =
    [("any", Fragments::Any), ("first", Fragments::First), ("later", Fragments::Later)];
const FRAGMENT_FORM: &str = "any, first or later";

impl FromStr for Fragments {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let named = FRAGMENT_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
        named.map(|(_, fragments)| *fragments).ok_or_else(|| ModelError::Value {
            what: "fragment",
            given: text.into(),
            accepted: FRAGMENT_FORM,
        })
    }
}

impl fmt::Display for Fragments {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(FRAGMENT_NAMES[*self as usize].0)
    }
}

word_serde!(Fragments, FRAGMENT_FORM, ["any", "later"]);

/// Names of the ICMP types that filters are for (RFC 792).
const ICMP_NAMES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("redirect", 5),
    ("echo-request", 8),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
];
/// Names of the ICMPv6 types that filters are for (RFC 4443, RFC 4861).
const ICMPV6_NAMES: &[(&str, u8)] = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbor-solicitation", 135),
    ("neighbor-advertisement", 136),
    ("redirect", 137),
];

/// One part of a list: `TYPE`, `TYPE-TYPE`, `TYPE/CODE` or `TYPE/CODE-CODE`.
fn icmp_part(text: &str, names: &[(&str, u8)]) -> Option<(u16, u16)> {
    let byte = |text: &str| whole(text).and_then(|n| u8::try_from(n).ok());
    let range = |text: &str| {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        byte(low).zip(byte(high)).filter(|(low, high)| low <= high)
    };
    let (kind, codes) = match text.split_once('/') {
        Some((kind, codes)) => (kind.trim(), Some(range(codes)?)),
        None => (text.trim(), None),
    };
    let named = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(kind));
    let (low, high) = named.map(|(_, kind)| (*kind, *kind)).or_else(|| range(kind))?;
    let message = |kind: u8, code: u8| u16::from_be_bytes([kind, code]);
    match codes {
        None => Some((message(low, 0), message(high, 255))),
        Some((first, last)) if low == high => Some((message(low, first), message(low, last))),
        Some(_) => None,
    }
}

fn icmp_list(text: &str, names: &[(&str, u8)]) -> Option<Vec<(u16, u16)>> {
    let parts = text.split(',').take(MAX_PARTS + 1).map(|part| icmp_part(part, names));
    parts.collect::<Option<Vec<_>>>().filter(|parts| parts.len() <= MAX_PARTS)
}

fn icmp_text((low, high): (u16, u16), names: &[(&str, u8)]) -> String {
    let ([kind, first], [last_kind, last]) = (low.to_be_bytes(), high.to_be_bytes());
    let named = names.iter().find(|(_, known)| *known == kind);
    let name = named.map_or_else(|| kind.to_string(), |(name, _)| (*name).to_owned());
    match (first, last) {
        _ if kind != last_kind => format!("{kind}-{last_kind}"),
        (0, 255) => name,
        _ if first == last => format!("{name}/{first}"),
        _ => format!("{name}/{first}-{last}"),
    }
}

macro_rules! icmp_types {
    ($(#[$doc:meta])* $name:ident, $what:literal, $names:ident, $form:ident, $examples:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(Vec<(u16, u16)>);

        impl $name {
            /// First and last message of each part, type × 256 + code.
            #[must_use]
            pub fn ranges(&self) -> &[(u16, u16)] {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = ModelError;
            fn from_str(text: &str) -> Result<Self, ModelError> {
                icmp_list(text, $names).map(Self).ok_or_else(|| ModelError::Value {
                    what: $what,
                    given: text.into(),
                    accepted: $form,
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write_list(f, self.0.iter().map(|part| icmp_text(*part, $names)))
            }
        }

        word_serde!($name, $form, $examples);
    };
}

const ICMP_FORM: &str = "ICMP types or TYPE/CODE: 8, 3/4, 0,8, or echo-reply, destination-unreachable, redirect, echo-request, time-exceeded, parameter-problem (at most 64 parts)";
const ICMPV6_FORM: &str = "ICMPv6 types or TYPE/CODE: 128, 1/4, 133-137, or destination-unreachable, packet-too-big, time-exceeded, parameter-problem, echo-request, echo-reply, router-solicitation, router-advertisement, neighbor-solicitation, neighbor-advertisement, redirect (at most 64 parts)";

icmp_types!(
    /// ICMP messages by type and code, any of which matches: `8`, `3/4`, `echo-request`.
    IcmpTypes,
    "icmp",
    ICMP_NAMES,
    ICMP_FORM,
    ["echo-request", "3/4", "0,8"]
);
icmp_types!(
    /// ICMPv6 messages by type and code, any of which matches: `128`, `133-137`, `packet-too-big`.
    Icmpv6Types,
    "icmpv6",
    ICMPV6_NAMES,
    ICMPV6_FORM,
    ["packet-too-big", "1/4", "133-137"]
);
