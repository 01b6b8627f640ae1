//! The answer to a packet that is longer than a link's MTU: ICMP "fragmentation needed" (RFC 792, RFC 1191) or ICMPv6 "packet too
//! big" (RFC 4443, section 3.2).
//!
//! The sender of the message is the packet's destination, since a device between two interfaces has no address of its own.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::Sum;
use crate::packet::{Ethernet, Network, Packet, Transport, protocol};

/// Bytes of a message of ICMP with its IP header at most (RFC 1812, section 4.3.2.3).
const MAX_V4_BYTES: usize = 576;
/// The same of ICMPv6: the minimum MTU (RFC 4443, section 2.4 c).
const MAX_V6_BYTES: usize = 1280;
const V4_HEADER_BYTES: usize = 20;
const V6_HEADER_BYTES: usize = 40;
const ICMP_HEADER_BYTES: usize = 8;
/// Precedence 6, internetwork control (RFC 1812, section 4.3.2.5).
const TOS: u8 = 0xc0;
const TTL: u8 = 64;

/// The packet in `frame`, if a message to its sender is permitted.
fn answerable(frame: &[u8]) -> Option<(Packet<'_>, Ethernet<'_>)> {
    let packet = Packet::from_ethernet(frame).ok()?;
    let ethernet = packet.ethernet?;
    let is_group = |mac: [u8; 6]| mac[0] & 1 != 0;
    let is_first = packet.fragment().is_none_or(|fragment| fragment.is_first());
    let is_error = match packet.transport {
        // RFC 1122, section 3.2.2.
        Transport::Icmp(icmp) => matches!(icmp.message_type(), 3 | 4 | 5 | 11 | 12),
        Transport::Icmpv6(icmp) => icmp.message_type() < 128 || icmp.message_type() == 137,
        _ => false,
    };
    if is_group(ethernet.destination()) || is_group(ethernet.source()) || !is_first || is_error {
        return None;
    }
    let are_hosts = match packet.addresses()? {
        (IpAddr::V4(from), IpAddr::V4(to)) => is_v4_host(from) && is_v4_host(to),
        (IpAddr::V6(from), IpAddr::V6(to)) => is_v6_host(from) && is_v6_host(to),
        _ => false,
    };
    are_hosts.then_some((packet, ethernet))
}

/// Whether there is a [`message`] to the sender of the packet in `frame`: not for an ICMP error or redirect, a fragment other than the
/// first, multicast or broadcast of either layer, a source that is no single host, and frames that are not IP or malformed
/// (RFC 1812, section 4.3.2.7; RFC 4443, section 2.4 e).
#[must_use]
pub fn is_answered(frame: &[u8]) -> bool {
    answerable(frame).is_some()
}

/// The message to the sender of the packet in `frame`, with `mtu` in bytes, as an Ethernet frame without check sequence. `None`
/// unless the packet [is answered](is_answered).
#[must_use]
pub fn message(frame: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let (packet, ethernet) = answerable(frame)?;
    let mut out = Vec::with_capacity(frame.len().min(ethernet.header_len() + MAX_V6_BYTES));
    out.extend(ethernet.source());
    out.extend(ethernet.destination());
    out.extend(&frame[12..ethernet.header_len()]);
    match (&packet.network, packet.addresses()?) {
        (Network::Ipv4(ip), (IpAddr::V4(from), IpAddr::V4(to))) => {
            let quoted = ip.bytes();
            let quoted =
                &quoted[..quoted.len().min(MAX_V4_BYTES - V4_HEADER_BYTES - ICMP_HEADER_BYTES)];
            let mut icmp = vec![3, 4, 0, 0, 0, 0];
            icmp.extend(u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes());
            icmp.extend(quoted);
            let checksum = Sum::new().add_bytes(&icmp).checksum();
            icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
            let length = (V4_HEADER_BYTES + icmp.len()) as u16;
            // Not fragmented (RFC 6864): it needs no identification.
            let mut header =
                [0x45, TOS, 0, 0, 0, 0, 0x40, 0, TTL, protocol::ICMP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            header[2..4].copy_from_slice(&length.to_be_bytes());
            header[12..16].copy_from_slice(&to.octets());
            header[16..20].copy_from_slice(&from.octets());
            let checksum = Sum::new().add_bytes(&header).checksum();
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            out.extend(header);
            out.extend(icmp);
        }
        (Network::Ipv6(ip), (IpAddr::V6(from), IpAddr::V6(to))) => {
            let quoted = ip.bytes();
            let quoted =
                &quoted[..quoted.len().min(MAX_V6_BYTES - V6_HEADER_BYTES - ICMP_HEADER_BYTES)];
            let mut icmp = vec![2, 0, 0, 0];
            icmp.extend(mtu.to_be_bytes());
            icmp.extend(quoted);
            let length = icmp.len() as u32;
            let sum = Sum::new().add_pseudo_v6(to, from, protocol::ICMPV6, length).add_bytes(&icmp);
            icmp[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
            out.extend((6 << 28 | u32::from(TOS) << 20).to_be_bytes());
            out.extend((length as u16).to_be_bytes());
            out.extend([protocol::ICMPV6, TTL]);
            out.extend(to.octets());
            out.extend(from.octets());
            out.extend(icmp);
        }
        _ => return None,
    }
    Some(out)
}

/// Whether an address may belong to a single host.
fn is_v4_host(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    (1..224).contains(&first) && !address.is_loopback()
}

fn is_v6_host(address: Ipv6Addr) -> bool {
    !address.is_multicast() && !address.is_unspecified() && !address.is_loopback()
}

/// The message to any frame is valid, bounded and not answered itself.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((mtu, frame)) = data.split_first_chunk::<2>() else { return };
    let Some(of_frame) = message(frame, u16::from_be_bytes(*mtu).into()) else { return };
    let packet = Packet::from_ethernet(&of_frame).unwrap_or_else(|error| panic!("{error}"));
    assert!(of_frame.len() <= frame.len() + V6_HEADER_BYTES + ICMP_HEADER_BYTES);
    assert_eq!(packet.transport_checksum_ok(), Some(true));
    assert!(message(&of_frame, 1280).is_none(), "an error is answered");
    match packet.network {
        Network::Ipv4(ip) => assert!(ip.header_checksum_ok() && ip.bytes().len() <= MAX_V4_BYTES),
        Network::Ipv6(ip) => assert!(ip.bytes().len() <= MAX_V6_BYTES),
        Network::Arp(_) | Network::Other(..) => panic!("not IP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp_frame::UdpFrame;

    /// A frame with a datagram of 1400 bytes.
    fn frame(source: &str, destination: &str) -> Vec<u8> {
        let headers = UdpFrame {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            tos: 0,
            ttl: Some(9),
            flow_label: 0,
        };
        headers.encode(&[7; 1400]).unwrap().0
    }

    fn v4() -> Vec<u8> {
        frame("192.0.2.1:5000", "198.51.100.2:9348")
    }

    fn v6() -> Vec<u8> {
        frame("[2001:db8::1]:5000", "[2001:db8:1::2]:9348")
    }

    /// Type, code and MTU of a message, and the bytes that it quotes.
    fn read(message: &[u8]) -> (u8, u8, u32, &[u8]) {
        let packet = Packet::from_ethernet(message).unwrap();
        assert_eq!(packet.transport_checksum_ok(), Some(true));
        let (Transport::Icmp(icmp) | Transport::Icmpv6(icmp)) = packet.transport else {
            panic!("not ICMP")
        };
        (icmp.message_type(), icmp.code(), icmp.rest_of_header(), icmp.payload())
    }

    #[test]
    fn the_message_goes_back_to_the_sender_with_the_mtu() {
        for (frame, kind, most, quoted) in [(v4(), (3, 4), 576, 548), (v6(), (2, 0), 1280, 1232)] {
            let message = message(&frame, 1300).unwrap();
            let of = read(&message);
            assert_eq!((of.0, of.1, of.2), (kind.0, kind.1, 1300));
            assert_eq!(of.3, &frame[14..14 + quoted]);
            assert_eq!(message.len(), 14 + most);
            assert_eq!((&message[..6], &message[6..12]), (&frame[6..12], &frame[..6]));
            let [sent, answered] =
                [&frame, &message].map(|one| Packet::from_ethernet(one).unwrap());
            let (from, to) = sent.addresses().unwrap();
            assert_eq!(answered.addresses(), Some((to, from)));
        }
    }

    #[test]
    fn tags_stay() {
        let mut tagged = v4();
        tagged.splice(12..12, [0x81, 0x00, 0x60, 0x05]);
        let message = message(&tagged, 1300).unwrap();
        assert_eq!(message[12..16], [0x81, 0x00, 0x60, 0x05]);
        assert_eq!(read(&message).2, 1300);
    }

    #[test]
    fn some_packets_are_not_answered() {
        type Change = fn(&mut Vec<u8>);
        let v4_changes: [Change; 10] = [
            |frame| frame[0] = 1,
            |frame| frame[6] = 1,
            |frame| frame[12] = 9,
            // A later fragment.
            |frame| frame[21] = 1,
            // Multicast, broadcast, and no host's address.
            |frame| frame[30] = 239,
            |frame| frame[30..34].fill(255),
            |frame| frame[26..30].fill(0),
            |frame| frame[26] = 127,
            // ICMP: destination unreachable, time exceeded.
            |frame| (frame[23], frame[34]) = (1, 3),
            |frame| (frame[23], frame[34]) = (1, 11),
        ];
        let v6_changes: [Change; 6] = [
            |frame| frame[0] = 0x33,
            |frame| frame[38] = 0xff,
            |frame| frame[22..38].fill(0),
            |frame| (frame[20], frame[54]) = (58, 1),
            |frame| (frame[20], frame[54]) = (58, 137),
            |frame| frame.truncate(50),
        ];
        for (original, changes) in [(v4(), &v4_changes[..]), (v6(), &v6_changes)] {
            assert!(message(&original, 1300).is_some());
            for (number, change) in changes.iter().enumerate() {
                let mut frame = original.clone();
                change(&mut frame);
                assert_eq!(message(&frame, 1300), None, "{number}");
            }
        }
        // A first fragment and an echo request are.
        let mut first = v4();
        first[20] = 0x20;
        assert!(message(&first, 1300).is_some());
        let mut echo = v6();
        (echo[20], echo[54]) = (58, 128);
        assert!(message(&echo, 1300).is_some());
    }
}
