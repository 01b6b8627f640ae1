//! Filters of flows: conditions on the fields of a packet, each of which may be negated.

mod bytes;
mod condition;
mod link;
mod network;
mod pcap;
mod share;

pub use bytes::BytesAt;
pub use condition::Condition;
pub use link::{MacAddresses, MacPrefix};
pub use network::{EcnCodePoints, Fragments, IcmpTypes, Icmpv6Types, TcpFlags};
pub use pcap::{BpfInstruction, MAX_PCAP_EXPRESSIONS, PcapExpression};
pub use share::Share;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::value::{EtherType, Prefixes, Protocol, Ranges};
use crate::ModelError;
use crate::plan::Direction;
use crate::units::Dscp;

/// Filter of a flow's packets: all fields that are set must match. An empty filter matches all packets. `not` before a value
/// negates it: `not 5060-5090`. A packet without a field matches no condition on it, and each negated one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = crate::schema::in_order::<Filter>)]
pub struct Filter {
    /// Source address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-group" = "what"))]
    pub source: Option<Condition<Prefixes>>,
    /// Destination address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-group" = "what"))]
    pub destination: Option<Condition<Prefixes>>,
    /// IP protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-group" = "what"))]
    pub protocol: Option<Condition<Protocol>>,
    /// Source port of TCP, UDP, UDP-Lite and SCTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-group" = "what"))]
    pub source_port: Option<Condition<Ranges>>,
    /// Destination port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-group" = "what"))]
    pub destination_port: Option<Condition<Ranges>>,
    /// TCP flags that are set: `syn`, `syn,ack` (both). With a mask, the other flags of the mask are clear: `syn/syn,ack` is SYN
    /// without ACK.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "TCP flags")]
    pub tcp_flags: Option<Condition<TcpFlags>>,
    /// ICMP type, or type and code, of IPv4.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "ICMP")]
    pub icmp: Option<Condition<IcmpTypes>>,
    /// ICMPv6 type, or type and code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "ICMPv6")]
    pub icmpv6: Option<Condition<Icmpv6Types>>,
    /// Differentiated services code point.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "DSCP", extend("x-group" = "what"))]
    pub dscp: Option<Condition<Dscp>>,
    /// ECN code point of the IP header.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "ECN")]
    pub ecn: Option<Condition<EcnCodePoints>>,
    /// Fragments of IP datagrams: `any`, `first` or `later`. Of a whole datagram, only a negated condition matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragment: Option<Condition<Fragments>>,
    /// VLAN identifier of the outermost tag, 0 to 4095.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "VLAN", extend("x-group" = "what"))]
    pub vlan: Option<Condition<Ranges>>,
    /// Priority code point (PCP) of the outermost tag, 0 to 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "VLAN priority")]
    pub vlan_priority: Option<Condition<Ranges>>,
    /// VLAN identifier of the second tag, 0 to 4095.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Inner VLAN")]
    pub inner_vlan: Option<Condition<Ranges>>,
    /// Priority code point (PCP) of the second tag, 0 to 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Inner VLAN priority")]
    pub inner_vlan_priority: Option<Condition<Ranges>>,
    /// Label at the top of the MPLS stack, 0 to 1048575.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "MPLS label")]
    pub mpls_label: Option<Condition<Ranges>>,
    /// EtherType after VLAN tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "EtherType")]
    pub ethertype: Option<Condition<EtherType>>,
    /// Source MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Source MAC")]
    pub source_mac: Option<Condition<MacAddresses>>,
    /// Destination MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Destination MAC")]
    pub destination_mac: Option<Condition<MacAddresses>>,
    /// Length of the frame in bytes, without check sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Frame length", extend("x-unit" = "bytes"))]
    pub length: Option<Condition<Ranges>>,
    /// Bytes at an offset from a layer, without padding: `0a/0f at l3+1`. The payload follows the header of TCP, UDP,
    /// UDP-Lite, SCTP (the common one) or ICMP; of other protocols it is all of `l4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Condition<BytesAt>>,
    /// Expression of pcap-filter(7) on the frame, compiled by libpcap: `tcp port 80 and not host 10.0.0.1`. It is tried
    /// unchanged in both directions. Negation is part of the expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "pcap expression", extend("x-group" = "what"))]
    pub pcap: Option<PcapExpression>,
    /// Share of the connections: `30%`, or a part such as `30%-100%`. A connection is identified by its addresses, ports and protocol, and is
    /// in the same share in both directions. Only IP packets match.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Share of connections")]
    pub connection_share: Option<Condition<Share>>,
    /// Share of the packets, in turns: with `30%`, 3 of 10 consecutive packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Share of packets")]
    pub packet_share: Option<Condition<Share>>,
}

impl Filter {
    /// A filter that is written for A to B as packets of a direction have it: swapped for B to A.
    #[must_use]
    pub(super) fn seen_in(&self, direction: Direction) -> Filter {
        let mut out = self.clone();
        if direction == Direction::Reverse {
            std::mem::swap(&mut out.source, &mut out.destination);
            std::mem::swap(&mut out.source_port, &mut out.destination_port);
            std::mem::swap(&mut out.source_mac, &mut out.destination_mac);
        }
        out
    }

    pub(super) fn check(&self, at: &str) -> Result<(), ModelError> {
        for (field, ranges, most) in [
            ("source_port", &self.source_port, 65_535),
            ("destination_port", &self.destination_port, 65_535),
            ("vlan", &self.vlan, 4095),
            ("vlan_priority", &self.vlan_priority, 7),
            ("inner_vlan", &self.inner_vlan, 4095),
            ("inner_vlan_priority", &self.inner_vlan_priority, 7),
            ("mpls_label", &self.mpls_label, (1 << 20) - 1),
            ("length", &self.length, 1 << 20),
        ] {
            let high = ranges.iter().flat_map(|r| &r.value.0).map(|r| r.1).max();
            if high.is_some_and(|high| high > most) {
                return Err(ModelError::Field {
                    field: format!("{at}.{field}"),
                    given: high.unwrap_or_default().to_string(),
                    accepted: format!("0 to {most}"),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
