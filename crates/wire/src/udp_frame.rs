//! Whole frames with a UDP datagram, for senders without a socket.

use core::net::{IpAddr, SocketAddr};

use crate::checksum::Sum;

const UDP: u8 = 17;
/// Time to live where none is stated, as the kernel's.
const DEFAULT_TTL: u8 = 64;

/// Headers of a frame: Ethernet, IPv4 without options or IPv6, UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFrame {
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// Destination MAC address.
    pub destination_mac: [u8; 6],
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port, of the same family.
    pub destination: SocketAddr,
    /// TOS or traffic-class byte.
    pub tos: u8,
    /// Time to live or hop limit; `None`: 64.
    pub ttl: Option<u8>,
    /// IPv6 flow label, of which the lower 20 bits are used.
    pub flow_label: u32,
}

impl UdpFrame {
    /// The frame with a payload, and the sum that its UDP checksum is made of. The checksum itself is 0. IPv4: identification
    /// 0 and don't-fragment set (RFC 6864, an atomic datagram).
    ///
    /// `None`: the families of the addresses differ, or the payload is longer than a datagram can be.
    #[must_use]
    pub fn encode(&self, payload: &[u8]) -> Option<(Vec<u8>, Sum)> {
        let length = u16::try_from(payload.len() + 8).ok()?;
        let mut udp = [0; 8];
        udp[..2].copy_from_slice(&self.source.port().to_be_bytes());
        udp[2..4].copy_from_slice(&self.destination.port().to_be_bytes());
        udp[4..6].copy_from_slice(&length.to_be_bytes());
        let ttl = self.ttl.unwrap_or(DEFAULT_TTL);
        let mut out = Vec::with_capacity(14 + 40 + usize::from(length));
        out.extend(self.destination_mac);
        out.extend(self.source_mac);
        let addresses = (self.source.ip().to_canonical(), self.destination.ip().to_canonical());
        let pseudo = match addresses {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let total = length.checked_add(20)?;
                let mut ip =
                    [0x45, self.tos, 0, 0, 0, 0, 0x40, 0, ttl, UDP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                ip[2..4].copy_from_slice(&total.to_be_bytes());
                ip[12..16].copy_from_slice(&from.octets());
                ip[16..].copy_from_slice(&to.octets());
                let checksum = Sum::new().add_bytes(&ip).checksum();
                ip[10..12].copy_from_slice(&checksum.to_be_bytes());
                out.extend([0x08, 0x00]);
                out.extend(ip);
                Sum::new().add_pseudo_v4(from, to, UDP, length)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let first = 6 << 28 | u32::from(self.tos) << 20 | self.flow_label & 0xf_ffff;
                out.extend([0x86, 0xdd]);
                out.extend(first.to_be_bytes());
                out.extend(length.to_be_bytes());
                out.extend([UDP, ttl]);
                out.extend(from.octets());
                out.extend(to.octets());
                Sum::new().add_pseudo_v6(from, to, UDP, length.into())
            }
            _ => return None,
        };
        out.extend(udp);
        out.extend(payload);
        Some((out, pseudo.add_bytes(&udp).add_bytes(payload)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Network, Packet, Transport};
    use proptest::prelude::*;

    fn frame(source: &str, destination: &str) -> UdpFrame {
        UdpFrame {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            tos: 0xb8,
            ttl: Some(9),
            flow_label: 0xa_bcde,
        }
    }

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written(v6: bool, payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let headers = match v6 {
                false => frame("192.0.2.1:5000", "198.51.100.2:9348"),
                true => frame("[2001:db8::1]:5000", "[2001:db8:1::2]:9348"),
            };
            let (mut bytes, sum) = headers.encode(&payload).unwrap();
            let at = bytes.len() - payload.len() - 2;
            bytes[at..at + 2].copy_from_slice(&sum.udp_checksum().to_be_bytes());
            let packet = Packet::from_ethernet(&bytes).unwrap();
            prop_assert_eq!(packet.transport_checksum_ok(), Some(true));
            prop_assert_eq!(packet.addresses(), Some((headers.source.ip(), headers.destination.ip())));
            prop_assert_eq!(packet.ports(), Some((5000, 9348)));
            match packet.network {
                Network::Ipv4(ip) => {
                    prop_assert!(ip.header_checksum_ok() && ip.dont_fragment());
                    prop_assert_eq!((ip.dscp(), ip.ecn(), ip.ttl()), (46, 0, 9));
                }
                Network::Ipv6(ip) => {
                    prop_assert_eq!((ip.dscp(), ip.ecn(), ip.hop_limit(), ip.flow_label()), (46, 0, 9, 0xa_bcde));
                }
                _ => prop_assert!(false, "no IP"),
            }
            let Transport::Udp(udp) = packet.transport else { return Err(TestCaseError::fail("no UDP")) };
            prop_assert_eq!(udp.payload(), &payload[..]);
        }
    }

    #[test]
    fn what_is_no_datagram_is_refused() {
        assert!(frame("192.0.2.1:1", "[2001:db8::1]:1").encode(&[]).is_none());
        assert!(frame("192.0.2.1:1", "192.0.2.2:1").encode(&[0; 65_508]).is_none());
        assert!(frame("192.0.2.1:1", "192.0.2.2:1").encode(&[0; 65_507]).is_some());
    }
}
