//! Views over the bytes of a frame: Ethernet with stacked VLAN tags, IPv4, IPv6, TCP, UDP, UDP-Lite, ICMP.
//!
//! A view is checked once, when it is made, and its accessors can't fail. Nothing is copied or allocated.
//! Chains that a sender controls (tags, extension headers, options) are bounded.
//!
//! [`Packet`] parses from the outermost header to the transport; each view can also be made on its own.
//!
//! ```
//! use weir_wire::packet::{Network, Packet, Transport};
//! let mut frame = vec![0u8; 12];
//! frame.extend([0x08, 0x00]); // IPv4
//! frame.extend([0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1]);
//! frame.extend([0x24, 0x83, 0x24, 0x83, 0, 10, 0, 0, b'h', b'i']);
//! let packet = Packet::from_ethernet(&frame)?;
//! let Transport::Udp(udp) = packet.transport else { panic!("not UDP") };
//! assert_eq!((udp.destination_port(), udp.payload()), (9347, &b"hi"[..]));
//! # Ok::<(), weir_wire::packet::PacketError>(())
//! ```

mod ethernet;
mod icmp;
mod ipv4;
mod ipv6;
mod tcp;
mod udp;

pub use ethernet::{Ethernet, MAX_VLAN_TAGS, VlanTag, ethertype};
pub use icmp::Icmp;
pub use ipv4::Ipv4;
pub use ipv6::{Ipv6, MAX_EXTENSION_HEADERS};
pub use tcp::{Tcp, TcpOption, TcpOptions};
pub use udp::{Udp, UdpLite};

use crate::checksum::Sum;
use core::net::IpAddr;

/// IP protocol numbers of the supported transports.
pub mod protocol {
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: u8 = 1;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: u8 = 136;
}

/// The header at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Ethernet II and its VLAN tags.
    Ethernet,
    /// IPv4.
    Ipv4,
    /// IPv6 and its extension headers.
    Ipv6,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// UDP-Lite.
    UdpLite,
    /// ICMP or ICMPv6.
    Icmp,
}

/// Why bytes are not a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The bytes end before the end of the header or of its stated length.
    #[error("{layer:?}: {have} bytes, {need} are needed")]
    Truncated {
        /// The header.
        layer: Layer,
        /// Available bytes.
        have: usize,
        /// Bytes needed, as far as is known.
        need: usize,
    },
    /// A field has an invalid value.
    #[error("{layer:?}: invalid {field} {value}")]
    BadField {
        /// The header.
        layer: Layer,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
    },
    /// There are more VLAN tags or extension headers than the limit.
    #[error("{layer:?}: more than {limit} headers in a chain")]
    TooDeep {
        /// The header.
        layer: Layer,
        /// Maximum number of headers.
        limit: usize,
    },
}

fn need(layer: Layer, bytes: &[u8], need: usize) -> Result<(), PacketError> {
    if bytes.len() < need {
        return Err(PacketError::Truncated { layer, have: bytes.len(), need });
    }
    Ok(())
}

// Readers for views: the bytes were checked when the view was made.

#[inline]
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Position of a fragment in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Identification, 16 bits in IPv4, 32 in IPv6.
    pub id: u32,
    /// Offset of this fragment's data in bytes, a multiple of 8.
    pub offset: u32,
    /// Whether more fragments follow.
    pub more: bool,
}

impl Fragment {
    /// Whether this fragment carries the transport header.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.offset == 0
    }
}

/// The network layer of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network<'a> {
    /// IPv4.
    Ipv4(Ipv4<'a>),
    /// IPv6.
    Ipv6(Ipv6<'a>),
    /// ARP; not parsed.
    Arp(&'a [u8]),
    /// Another protocol, by EtherType (or, below 1536, an IEEE 802.3 length).
    Other(u16, &'a [u8]),
}

/// The transport layer of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport<'a> {
    /// None: not an IP packet, or an IPv6 packet without a next header.
    None,
    /// TCP.
    Tcp(Tcp<'a>),
    /// UDP.
    Udp(Udp<'a>),
    /// UDP-Lite.
    UdpLite(UdpLite<'a>),
    /// ICMP over IPv4.
    Icmp(Icmp<'a>),
    /// ICMPv6 over IPv6.
    Icmpv6(Icmp<'a>),
    /// A fragment after the first: data of this protocol, without its header.
    LaterFragment(u8, &'a [u8]),
    /// Another protocol, by number.
    Other(u8, &'a [u8]),
}

/// A frame or IP packet, parsed up to its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The link layer; `None` for a bare IP packet.
    pub ethernet: Option<Ethernet<'a>>,
    /// The network layer.
    pub network: Network<'a>,
    /// The transport layer.
    pub transport: Transport<'a>,
}

impl<'a> Packet<'a> {
    /// Parses an Ethernet frame (without preamble and check sequence).
    ///
    /// # Errors
    /// [`PacketError`] with the header at fault. The headers before it are valid and can be parsed by their
    /// own views.
    pub fn from_ethernet(frame: &'a [u8]) -> Result<Self, PacketError> {
        let ethernet = Ethernet::new(frame)?;
        let payload = ethernet.payload();
        let (network, transport) = match ethernet.ethertype() {
            ethertype::IPV4 => parse_v4(payload)?,
            ethertype::IPV6 => parse_v6(payload)?,
            ethertype::ARP => (Network::Arp(payload), Transport::None),
            other => (Network::Other(other, payload), Transport::None),
        };
        Ok(Self { ethernet: Some(ethernet), network, transport })
    }

    /// Parses a bare IP packet of either version.
    ///
    /// # Errors
    /// As [`Packet::from_ethernet`]; an empty packet or another version is reported as a fault of IPv4.
    pub fn from_ip(packet: &'a [u8]) -> Result<Self, PacketError> {
        let (network, transport) = match packet.first().map(|byte| byte >> 4) {
            Some(6) => parse_v6(packet)?,
            _ => parse_v4(packet)?,
        };
        Ok(Self { ethernet: None, network, transport })
    }

    /// Source and destination address of an IP packet.
    #[must_use]
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        match &self.network {
            Network::Ipv4(ip) => Some((ip.source().into(), ip.destination().into())),
            Network::Ipv6(ip) => Some((ip.source().into(), ip.destination().into())),
            Network::Arp(_) | Network::Other(..) => None,
        }
    }

    /// Source and destination port of TCP, UDP and UDP-Lite.
    #[must_use]
    pub fn ports(&self) -> Option<(u16, u16)> {
        match &self.transport {
            Transport::Tcp(t) => Some((t.source_port(), t.destination_port())),
            Transport::Udp(t) => Some((t.source_port(), t.destination_port())),
            Transport::UdpLite(t) => Some((t.source_port(), t.destination_port())),
            _ => None,
        }
    }

    /// The position of a fragment; `None` if the packet is not a fragment.
    #[must_use]
    pub fn fragment(&self) -> Option<Fragment> {
        match &self.network {
            Network::Ipv4(ip) => ip.fragment(),
            Network::Ipv6(ip) => ip.fragment(),
            Network::Arp(_) | Network::Other(..) => None,
        }
    }

    /// Whether the transport's checksum is correct; `None` if it can't be checked: another transport, a
    /// fragment, or UDP over IPv4 without a checksum.
    #[must_use]
    pub fn transport_checksum_ok(&self) -> Option<bool> {
        if self.fragment().is_some() {
            return None;
        }
        let pseudo = |number: u8, length: usize| match &self.network {
            // A transport packet in IPv4 is shorter than 64 KiB, except for super-packets. Their length
            // exceeds the field; like the kernel, sum its low bits.
            Network::Ipv4(ip) => {
                Sum::new().add_pseudo_v4(ip.source(), ip.destination(), number, length as u16)
            }
            Network::Ipv6(ip) => {
                Sum::new().add_pseudo_v6(ip.source(), ip.final_destination(), number, length as u32)
            }
            Network::Arp(_) | Network::Other(..) => Sum::new(),
        };
        let right = |sum: Sum| Some(sum.folded() == 0xffff);
        match &self.transport {
            Transport::Tcp(t) => right(pseudo(protocol::TCP, t.bytes().len()).add_bytes(t.bytes())),
            Transport::Udp(t) if t.checksum() == 0 => match self.network {
                Network::Ipv6(_) => Some(false), // RFC 8200 §8.1: not optional there.
                _ => None,
            },
            Transport::Udp(t) => right(pseudo(protocol::UDP, t.bytes().len()).add_bytes(t.bytes())),
            Transport::UdpLite(t) => {
                right(pseudo(protocol::UDP_LITE, t.bytes().len()).add_bytes(t.covered()))
            }
            Transport::Icmp(t) => right(Sum::new().add_bytes(t.bytes())),
            Transport::Icmpv6(t) => {
                right(pseudo(protocol::ICMPV6, t.bytes().len()).add_bytes(t.bytes()))
            }
            Transport::None | Transport::LaterFragment(..) | Transport::Other(..) => None,
        }
    }
}

fn parse_v4(bytes: &[u8]) -> Result<(Network<'_>, Transport<'_>), PacketError> {
    let ip = Ipv4::new(bytes)?;
    let transport = parse_transport(ip.protocol(), ip.payload(), ip.fragment())?;
    Ok((Network::Ipv4(ip), transport))
}

fn parse_v6(bytes: &[u8]) -> Result<(Network<'_>, Transport<'_>), PacketError> {
    let ip = Ipv6::new(bytes)?;
    let transport = parse_transport(ip.protocol(), ip.payload(), ip.fragment())?;
    Ok((Network::Ipv6(ip), transport))
}

fn parse_transport(
    number: u8,
    bytes: &[u8],
    fragment: Option<Fragment>,
) -> Result<Transport<'_>, PacketError> {
    const NO_NEXT_HEADER: u8 = 59;
    if fragment.is_some_and(|f| !f.is_first()) {
        return Ok(Transport::LaterFragment(number, bytes));
    }
    // A first fragment has the length of the whole datagram, which is incomplete here.
    let whole = fragment.is_none();
    Ok(match number {
        protocol::TCP => Transport::Tcp(Tcp::new(bytes)?),
        protocol::UDP if whole => Transport::Udp(Udp::new(bytes)?),
        protocol::UDP => Transport::Udp(Udp::first_fragment(bytes)?),
        protocol::UDP_LITE if whole => Transport::UdpLite(UdpLite::new(bytes)?),
        protocol::UDP_LITE => Transport::UdpLite(UdpLite::first_fragment(bytes)?),
        protocol::ICMP => Transport::Icmp(Icmp::new(bytes)?),
        protocol::ICMPV6 => Transport::Icmpv6(Icmp::new(bytes)?),
        NO_NEXT_HEADER => Transport::None,
        other => Transport::Other(other, bytes),
    })
}

#[cfg(test)]
mod tests;
