//! The fields that filters match on, and the values of each that a filter accepts.

use weir_model::impairment::{Condition, Filter, Fragments, MacAddresses, Prefixes, Ranges, Share};

use super::rare::RareFields;
use crate::key::{FragmentPlace, Key, NO_VLAN};

/// A field of a packet with a numeric value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Property {
    Source,
    Destination,
    Protocol,
    SourcePort,
    DestinationPort,
    Dscp,
    Ecn,
    Vlan,
    EtherType,
    Length,
    Fragment,
    SourceMac,
    DestinationMac,
    VlanPriority,
    InnerVlan,
    InnerVlanPriority,
    MplsLabel,
    TcpFlags,
    Icmp,
    Icmpv6,
    ConnectionShare,
    PacketShare,
}

/// Number of the fields that come first in [`FIELDS`]: those that are in the key, except fragments.
pub(super) const COMMON_FIELDS: usize = 10;

/// All fields: first the common ones, and of these first those that differ most between packets.
pub(super) const FIELDS: [Property; 22] = [
    Property::DestinationPort,
    Property::SourcePort,
    Property::Destination,
    Property::Source,
    Property::Protocol,
    Property::Dscp,
    Property::Ecn,
    Property::Vlan,
    Property::EtherType,
    Property::Length,
    Property::SourceMac,
    Property::DestinationMac,
    Property::InnerVlan,
    Property::MplsLabel,
    Property::TcpFlags,
    Property::Icmp,
    Property::Icmpv6,
    Property::Fragment,
    Property::VlanPriority,
    Property::InnerVlanPriority,
    Property::ConnectionShare,
    Property::PacketShare,
];

/// Inclusive ranges of a field's values.
pub(super) type Intervals = Vec<(u128, u128)>;

/// The values of a field that a filter accepts.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub(super) ranges: Intervals,
    /// Whether a packet without the field is accepted.
    pub(super) absent: bool,
}

impl Accepted {
    fn of<T>(condition: &Condition<T>, ranges: impl FnOnce(&T) -> Intervals) -> Self {
        let ranges = ranges(&condition.value);
        match condition.negated {
            true => Self { ranges: complement(ranges), absent: true },
            false => Self { ranges, absent: false },
        }
    }

    #[cfg(test)]
    pub(super) fn contains(&self, value: Option<u128>) -> bool {
        match value {
            Some(value) => self.ranges.iter().any(|(low, high)| (*low..=*high).contains(&value)),
            None => self.absent,
        }
    }
}

/// All values outside of some ranges.
fn complement(mut ranges: Intervals) -> Intervals {
    ranges.sort_unstable();
    let mut outside = vec![];
    let mut next = Some(0u128);
    for (low, high) in ranges {
        let Some(from) = next else { break };
        if from < low {
            outside.push((from, low - 1));
        }
        next = high.checked_add(1).map(|after| after.max(from));
    }
    outside.extend(next.map(|from| (from, u128::MAX)));
    outside
}

fn share(condition: Option<Condition<Share>>) -> Option<Accepted> {
    condition
        .map(|c| Accepted::of(&c, |share| share.positions().map_or(vec![], |at| all_of(&[at]))))
}

fn one(value: impl Into<u128>) -> Intervals {
    let value = value.into();
    vec![(value, value)]
}

fn all_of<T: Copy + Into<u128>>(ranges: &[(T, T)]) -> Intervals {
    ranges.iter().map(|(low, high)| ((*low).into(), (*high).into())).collect()
}

impl Property {
    /// The values of this field that a filter accepts; `None` if its tables do not decide on the field.
    pub(super) fn accepted(self, filter: &Filter) -> Option<Accepted> {
        let prefixes = |condition: &Option<Condition<Prefixes>>| {
            let ranges = |p: &Prefixes| p.0.iter().flat_map(|p| p.mapped_ranges()).collect();
            condition.as_ref().map(|condition| Accepted::of(condition, ranges))
        };
        let numbers = |condition: &Option<Condition<Ranges>>| {
            condition.as_ref().map(|condition| Accepted::of(condition, |r| all_of(&r.0)))
        };
        match self {
            Property::Source => prefixes(&filter.source),
            Property::Destination => prefixes(&filter.destination),
            Property::Protocol => filter.protocol.map(|c| Accepted::of(&c, |p| one(p.0))),
            Property::SourcePort => numbers(&filter.source_port),
            Property::DestinationPort => numbers(&filter.destination_port),
            Property::Dscp => filter.dscp.map(|c| Accepted::of(&c, |d| one(d.0))),
            Property::Ecn => {
                filter.ecn.map(|c| Accepted::of(&c, |e| e.codes().flat_map(one).collect()))
            }
            Property::Vlan => numbers(&filter.vlan),
            Property::EtherType => filter.ethertype.map(|c| Accepted::of(&c, |e| one(e.0))),
            Property::Length => numbers(&filter.length),
            Property::Fragment => filter.fragment.map(|c| {
                Accepted::of(&c, |fragments| match fragments {
                    Fragments::Any => vec![(FIRST, LATER)],
                    Fragments::First => one(FIRST),
                    Fragments::Later => one(LATER),
                })
            }),
            // Other masks are a `Rest`.
            Property::SourceMac | Property::DestinationMac => {
                let condition = self.mac(filter)?;
                let ranges = condition.value.ranges()?;
                Some(Accepted::of(condition, |_| all_of(&ranges)))
            }
            Property::VlanPriority => numbers(&filter.vlan_priority),
            Property::InnerVlan => numbers(&filter.inner_vlan),
            Property::InnerVlanPriority => numbers(&filter.inner_vlan_priority),
            Property::MplsLabel => numbers(&filter.mpls_label),
            Property::TcpFlags => {
                filter.tcp_flags.map(|c| Accepted::of(&c, |flags| all_of(&flags.ranges())))
            }
            Property::Icmp => {
                filter.icmp.as_ref().map(|c| Accepted::of(c, |types| all_of(types.ranges())))
            }
            Property::Icmpv6 => {
                filter.icmpv6.as_ref().map(|c| Accepted::of(c, |types| all_of(types.ranges())))
            }
            Property::ConnectionShare => share(filter.connection_share),
            Property::PacketShare => share(filter.packet_share),
        }
    }

    /// The condition on this MAC address.
    pub(super) fn mac(self, filter: &Filter) -> Option<&Condition<MacAddresses>> {
        match self {
            Property::SourceMac => filter.source_mac.as_ref(),
            Property::DestinationMac => filter.destination_mac.as_ref(),
            _ => None,
        }
    }

    /// The packet's value of this field.
    #[inline]
    pub(super) fn value(self, key: &Key, length: u32, rare: &RareFields) -> Option<u128> {
        match self {
            Property::Source => key.is_ip().then_some(key.source),
            Property::Destination => key.is_ip().then_some(key.destination),
            Property::Protocol => key.is_ip().then_some(key.protocol.into()),
            Property::SourcePort => key.source_port().map(u128::from),
            Property::DestinationPort => key.destination_port().map(u128::from),
            Property::Dscp => key.is_ip().then_some(key.dscp.into()),
            Property::Ecn => key.is_ip().then_some(key.ecn.into()),
            Property::Vlan => (key.vlan != NO_VLAN).then_some(key.vlan.into()),
            Property::EtherType => Some(key.ethertype.into()),
            Property::Length => Some(length.into()),
            Property::Fragment => match key.fragment {
                FragmentPlace::Whole => None,
                FragmentPlace::First => Some(FIRST),
                FragmentPlace::Later => Some(LATER),
            },
            Property::SourceMac => rare.source_mac.map(u128::from),
            Property::DestinationMac => rare.destination_mac.map(u128::from),
            Property::VlanPriority => rare.vlan_priority.map(u128::from),
            Property::InnerVlan => rare.inner_vlan.map(u128::from),
            Property::InnerVlanPriority => rare.inner_vlan_priority.map(u128::from),
            Property::MplsLabel => rare.mpls_label.map(u128::from),
            Property::TcpFlags => rare.tcp_flags.map(u128::from),
            Property::Icmp => rare.icmp.map(u128::from),
            Property::Icmpv6 => rare.icmpv6.map(u128::from),
            Property::ConnectionShare => rare.connection.map(u128::from),
            Property::PacketShare => rare.packet.map(u128::from),
        }
    }
}

const FIRST: u128 = 1;
const LATER: u128 = 2;
