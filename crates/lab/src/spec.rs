//! The specification of a lab: parsed and checked before anything is created.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Maximum number of hosts of a lab.
pub const MAX_HOSTS: usize = 16;

/// How the hosts are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// `a` and `b`, joined by one virtual cable.
    #[default]
    Pair,
    /// This many hosts (2 to [`MAX_HOSTS`]), each joined to a bridge in a namespace of its own.
    Switch(usize),
    /// This many hosts (2 to [`MAX_HOSTS`]) on both sides of a namespace `m`, whose interfaces `to-a` and `to-b` have no
    /// addresses and are not joined to each other: for an emulator. `a`, `c`, `e`, … are on the side of `to-a`, `b`, `d`,
    /// `f`, … on that of `to-b`; no host is named `m`. With more than two hosts, each side is a bridge, both in a namespace
    /// `switch`.
    Middle(usize),
}

impl Topology {
    /// `a` and `b` with an emulator's place between them.
    pub const MIDDLE: Topology = Topology::Middle(2);

    /// The topology of this many hosts, with or without a middle.
    #[must_use]
    pub fn of(hosts: usize, has_middle: bool) -> Topology {
        match (has_middle, hosts) {
            (true, hosts) => Topology::Middle(hosts),
            (false, 2) => Topology::Pair,
            (false, hosts) => Topology::Switch(hosts),
        }
    }

    /// Names of the namespaces without addresses.
    pub(crate) fn inner(self) -> &'static [&'static str] {
        match self {
            Topology::Pair => &[],
            Topology::Switch(_) => &["switch"],
            Topology::Middle(..=2) => &["m"],
            Topology::Middle(_) => &["m", "switch"],
        }
    }
}

/// The specification of a lab.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabSpec {
    /// How the hosts are joined.
    pub topology: Topology,
    /// MTU of every link, bytes, 1280 (what IPv6 needs) to 65 535; 1500 when absent.
    pub mtu_bytes: Option<u32>,
    /// Whether segmentation and receive offloads are disabled on every link, so that packets cross per-packet.
    pub no_offload: bool,
    /// Transmit queue length of every link, packets; the kernel's default (1000) when absent.
    pub transmit_queue_packets: Option<u32>,
    /// Kernel settings of each host by name (`net.…`), as in sysctl(8), with their values.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
}

impl LabSpec {
    /// Refuses an invalid specification, by field.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |field, given: &dyn fmt::Display, accepted: &str| {
            Err(Error::Invalid { field, given: given.to_string(), accepted: accepted.to_owned() })
        };
        match self.topology {
            Topology::Switch(hosts) | Topology::Middle(hosts)
                if !(2..=MAX_HOSTS).contains(&hosts) =>
            {
                return refuse("hosts", &hosts, "2 to 16");
            }
            _ => {}
        }
        for (name, value) in &self.sysctls {
            if !is_sysctl(name) || value.is_empty() || value.chars().any(char::is_control) {
                let given = format!("{name}={value}");
                return refuse("sysctls", &given, "net.NAME=VALUE, such as net.ipv4.tcp_sack=0");
            }
        }
        match self.mtu_bytes {
            Some(mtu) if !(1280..=65_535).contains(&mtu) => {
                return refuse("mtu_bytes", &mtu, "1280 (the minimum of IPv6) to 65535 bytes");
            }
            _ => {}
        }
        match self.transmit_queue_packets {
            Some(packets) if !(1..=1_000_000).contains(&packets) => {
                refuse("transmit_queue_packets", &packets, "1 to 1000000 packets")
            }
            _ => Ok(()),
        }
    }

    /// Number of hosts with addresses.
    pub(crate) fn hosts(&self) -> usize {
        match self.topology {
            Topology::Pair => 2,
            Topology::Switch(hosts) | Topology::Middle(hosts) => hosts,
        }
    }

    /// Names of the hosts, in order.
    pub(crate) fn host_names(&self) -> impl Iterator<Item = String> + use<> {
        host_names(matches!(self.topology, Topology::Middle(_))).take(self.hosts())
    }
}

/// Names of hosts: `a`, `b`, … With a middle, none is `m`.
pub(crate) fn host_names(has_middle: bool) -> impl Iterator<Item = String> {
    let letters = (b'a'..=b'z').filter(move |letter| !(has_middle && *letter == b'm'));
    letters.map(|letter| char::from(letter).to_string())
}

/// The side of a middle (`a` or `b`) on which a host of this name is; `None` for another name.
#[must_use]
pub fn side_of(host: &str) -> Option<&'static str> {
    let index = host_names(true).position(|name| name == host)?;
    Some(if index.is_multiple_of(2) { "a" } else { "b" })
}

/// Whether this names a kernel setting of a network namespace.
fn is_sysctl(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-');
    (name.starts_with("net.") || name.starts_with("net/"))
        && name.len() <= 128
        && name.chars().all(is_plain)
}

/// Bits of [`host_ipv4`]'s network, 198.18.0.0/15 (RFC 2544 appendix C.2.2, RFC 6890).
pub(crate) const IPV4_PREFIX_BITS: u8 = 15;
/// Bits of [`host_ipv6`]'s network, 2001:2::/48 (RFC 5180 section 8 with its erratum 1752).
pub(crate) const IPV6_PREFIX_BITS: u8 = 48;

/// Address of the host with this index, from the benchmarking range: 198.18.0.1 and up.
pub(crate) fn host_ipv4(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, index as u8 + 1)
}

/// Address of the host with this index, from the benchmarking range: 2001:2::1 and up.
pub(crate) fn host_ipv6(index: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, index as u16 + 1)
}

/// Name of a lab: 1 to 32 letters, digits, `-` and `_`, the first a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabName(String);

impl LabName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LabName {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl std::str::FromStr for LabName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let good = (1..=32).contains(&text.len())
            && text.bytes().all(word)
            && text.as_bytes()[0].is_ascii_alphanumeric();
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::Invalid {
                field: "name",
                given: format!("{text:?}"),
                accepted: "1 to 32 letters, digits, - and _, the first a letter or digit"
                    .to_owned(),
            })
        }
    }
}

impl TryFrom<String> for LabName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<LabName> for String {
    fn from(name: LabName) -> Self {
        name.0
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_registry_are_refused() {
        for bad in ["", ".", "..", "a/b", "a b", "-x", "_x", "ä", "a\n", &"x".repeat(33)] {
            assert!(bad.parse::<LabName>().is_err(), "{bad:?}");
        }
        for good in ["default", "a", "9", "wlab-1", "A_b", &"x".repeat(32)] {
            assert!(good.parse::<LabName>().is_ok(), "{good:?}");
        }
    }

    #[test]
    fn hosts_are_on_two_sides_of_a_middle() {
        let spec = LabSpec { topology: Topology::Middle(16), ..LabSpec::default() };
        let sides: Vec<_> = spec.host_names().map(|name| side_of(&name).unwrap()).collect();
        assert_eq!(sides, ["a", "b"].repeat(8));
        assert_eq!([side_of("m"), side_of("local"), side_of("aa")], [None; 3]);
    }

    #[test]
    fn refusals_name_the_field() {
        let text = |spec: LabSpec| spec.check().unwrap_err().to_string();
        let switch = |n| LabSpec { topology: Topology::Switch(n), ..LabSpec::default() };
        assert!(text(switch(1)).starts_with("hosts: 1;"));
        assert!(text(switch(17)).starts_with("hosts: 17;"));
        let mtu = |n| LabSpec { mtu_bytes: Some(n), ..LabSpec::default() };
        assert!(text(mtu(1279)).starts_with("mtu_bytes: 1279;"));
        assert!(text(mtu(65_536)).starts_with("mtu_bytes: 65536;"));
        assert!(mtu(1280).check().is_ok() && mtu(65_535).check().is_ok());
        let queue = LabSpec { transmit_queue_packets: Some(0), ..LabSpec::default() };
        assert!(text(queue).starts_with("transmit_queue_packets: 0;"));
        assert!(switch(2).check().is_ok() && switch(16).check().is_ok());
        let middle = |n| LabSpec { topology: Topology::Middle(n), ..LabSpec::default() };
        assert!(text(middle(1)).starts_with("hosts: 1;"));
        assert!(middle(2).check().is_ok() && middle(16).check().is_ok());
        let set = |name: &str, value: &str| LabSpec {
            sysctls: [(name.to_owned(), value.to_owned())].into(),
            ..LabSpec::default()
        };
        assert!(set("net.ipv4.tcp_rmem", "4096 8192 8192").check().is_ok());
        assert!(set("net/ipv4/conf/eth0.1/rp_filter", "0").check().is_ok());
        for (name, value) in
            [("kernel.pid_max", "1"), ("net.a b", "1"), ("net.a", ""), ("net.a", "1\n2")]
        {
            assert!(text(set(name, value)).starts_with("sysctls: "), "{name}={value}");
        }
    }
}
