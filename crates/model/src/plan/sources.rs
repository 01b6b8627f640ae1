//! The local addresses from which connections are made in turn.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;

/// Maximum number of addresses.
const MAX_ADDRESSES: u128 = 65_536;
const ACCEPTED: &str = "an address of this host, a range FIRST-LAST or a network ADDRESS/PREFIX of at most 65536 addresses";

/// One local address, or a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceAddresses {
    first: IpAddr,
    count: u32,
}

impl From<IpAddr> for SourceAddresses {
    fn from(address: IpAddr) -> Self {
        SourceAddresses { first: address, count: 1 }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl SourceAddresses {
    /// The addresses from `first` to `last`; `None`: of different families, none, or too many.
    fn between(first: IpAddr, last: IpAddr) -> Option<Self> {
        let more = number(last).checked_sub(number(first))?;
        let is_valid = first.is_ipv4() == last.is_ipv4() && more < MAX_ADDRESSES;
        is_valid.then_some(SourceAddresses { first, count: more as u32 + 1 })
    }

    /// The addresses of hosts in a network: not those of the network, of broadcasts (IPv4) and of its routers (IPv6).
    fn of_network(address: IpAddr, prefix: u32) -> Option<Self> {
        let bits: u32 = if address.is_ipv4() { 32 } else { 128 };
        let host_bits = bits.checked_sub(prefix).filter(|bits| *bits <= 16)?;
        let mask = (1u128 << host_bits) - 1;
        let (first, last) = (number(address) & !mask, number(address) | mask);
        let (first, last) = match (host_bits, address.is_ipv4()) {
            (0 | 1, _) => (first, last),
            (_, true) => (first + 1, last - 1),
            (_, false) => (first + 1, last),
        };
        let of = |number: u128| match address {
            IpAddr::V4(_) => Ipv4Addr::from_bits(number as u32).into(),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from_bits(number)),
        };
        Self::between(of(first), of(last))
    }

    /// The first address, from which control connections are made.
    #[must_use]
    pub fn first(self) -> IpAddr {
        self.first
    }

    /// How many there are, at least 1.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// The address of connection `turn`, counted from 0.
    #[must_use]
    pub fn in_turn(self, turn: u64) -> IpAddr {
        let at = (turn % u64::from(self.count)) as u32;
        match self.first {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits().wrapping_add(at)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits().wrapping_add(at.into())).into(),
        }
    }

    /// Whether an address is one of them.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4()
            && number(address)
                .checked_sub(number(self.first))
                .is_some_and(|at| at < u128::from(self.count))
    }
}

impl std::str::FromStr for SourceAddresses {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let parsed = match (text.split_once('-'), text.split_once('/')) {
            (Some((first, last)), None) => first
                .parse()
                .ok()
                .zip(last.parse().ok())
                .and_then(|(first, last)| Self::between(first, last)),
            (None, Some((address, prefix))) => address
                .parse()
                .ok()
                .zip(prefix.parse().ok())
                .and_then(|(address, prefix)| Self::of_network(address, prefix)),
            _ => text.parse::<IpAddr>().ok().map(Into::into),
        };
        parsed.ok_or_else(|| ModelError::Value {
            what: "local address",
            given: text.into(),
            accepted: ACCEPTED,
        })
    }
}

impl std::fmt::Display for SourceAddresses {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.count {
            1 => self.first.fmt(f),
            more => write!(f, "{}-{}", self.first, self.in_turn(u64::from(more) - 1)),
        }
    }
}

impl Serialize for SourceAddresses {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SourceAddresses {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(crate::document::refused)
    }
}

impl JsonSchema for SourceAddresses {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SourceAddresses".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "An address, a range FIRST-LAST, or a network ADDRESS/PREFIX (the addresses of its hosts)",
            "examples": ["192.0.2.1", "192.0.2.1-192.0.2.20", "2001:db8::/124"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_networks_are_addresses_in_turn() {
        for (text, count, shown) in [
            ("192.0.2.7", 1, "192.0.2.7"),
            ("10.0.0.254-10.0.1.1", 4, "10.0.0.254-10.0.1.1"),
            ("10.0.0.9/29", 6, "10.0.0.9-10.0.0.14"),
            ("10.0.0.9/31", 2, "10.0.0.8-10.0.0.9"),
            ("10.0.0.9/32", 1, "10.0.0.9"),
            ("2001:db8::/126", 3, "2001:db8::1-2001:db8::3"),
            ("::ffff-::1:2", 4, "::ffff-::1:2"),
        ] {
            let sources: SourceAddresses = text.parse().unwrap();
            assert_eq!((sources.count(), &*sources.to_string()), (count, shown), "{text}");
            assert_eq!(shown.parse::<SourceAddresses>().unwrap(), sources);
            let turns: Vec<IpAddr> = (0..u64::from(count)).map(|n| sources.in_turn(n)).collect();
            assert!(turns.iter().all(|address| sources.contains(*address)), "{text}");
            assert_eq!(turns[0], sources.first());
            assert_eq!(sources.in_turn(u64::from(count)), sources.first());
            let distinct: std::collections::HashSet<_> = turns.iter().collect();
            assert_eq!(distinct.len(), turns.len());
            let other: IpAddr =
                if sources.first().is_ipv4() { "::1" } else { "10.0.0.1" }.parse().unwrap();
            assert!(!sources.contains(other));
        }
        let range: SourceAddresses = "10.0.0.2-10.0.0.3".parse().unwrap();
        assert!(!range.contains("10.0.0.1".parse().unwrap()));
        assert!(!range.contains("10.0.0.4".parse().unwrap()));
        for text in [
            "",
            "h",
            "10.0.0.2-10.0.0.1",
            "10.0.0.1-::1",
            "10.0.0.0/15",
            "10.0.0.0/33",
            "::/64",
            "10.0.0.0-10.1.0.0",
            "10.0.0.1-",
            "-10.0.0.1",
            "10.0.0.1-10.0.0.9/2",
        ] {
            assert!(text.parse::<SourceAddresses>().is_err(), "{text}");
        }
    }
}
