//! Other addresses and ports in a captured frame, with the checksums that cover them.
//!
//! Checksums change by what was replaced (RFC 1624), so that a wrong one stays wrong and a truncated frame keeps its own.

use core::net::IpAddr;

use weir_model::impairment::Prefix;

use crate::checksum::{Sum, update16};
use crate::packet::{Ethernet, Network, Packet, Transport, protocol};

/// What to replace in each frame. The first matching pair counts; what matches none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remap {
    /// Source address of Ethernet.
    pub source_mac: Option<[u8; 6]>,
    /// Destination address of Ethernet.
    pub destination_mac: Option<[u8; 6]>,
    /// Addresses of IP and ARP, as source and as destination: the first prefix is replaced by the second, of the same
    /// family and length; the bits behind stay.
    pub addresses: Vec<(Prefix, Prefix)>,
    /// Ports of TCP, UDP and UDP-Lite, as source and as destination.
    pub ports: Vec<(u16, u16)>,
    /// Whether the checksums of complete packets are computed from their bytes: a capture on the sending host has incomplete ones if
    /// the interface completes them.
    pub new_checksums: bool,
}

/// Where in a frame the fields are that are replaced.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    /// Length of an address, and offsets of source and destination.
    addresses: Option<(usize, [usize; 2])>,
    /// The final destination behind a routing header.
    final_destination: Option<usize>,
    /// Checksum of the IPv4 header.
    header_sum: Option<usize>,
    /// Source port; that of the destination follows.
    ports: Option<usize>,
    transport_sum: Option<TransportSum>,
}

#[derive(Clone, Copy, Debug)]
struct TransportSum {
    at: usize,
    /// 0 means "none" (RFC 768).
    may_be_absent: bool,
    /// 0 is sent as 0xFFFF (RFC 768, RFC 3828).
    is_never_zero: bool,
    covers_addresses: bool,
}

impl Remap {
    /// Whether nothing is replaced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Remap::default()
    }

    /// Replaces what matches. Bytes that are not a valid packet keep all but the addresses of Ethernet. `is_whole`: no byte of
    /// the frame is missing; otherwise its transport's checksum is not computed.
    pub fn apply(&self, frame: &mut [u8], is_whole: bool) {
        if let (Some(mac), Some(field)) = (self.destination_mac, frame.get_mut(..6)) {
            field.copy_from_slice(&mac);
        }
        if let (Some(mac), Some(field)) = (self.source_mac, frame.get_mut(6..12)) {
            field.copy_from_slice(&mac);
        }
        let Some(places) = places(frame) else { return };
        if let Some((len, [source, destination])) = places.addresses {
            let is_final = places.final_destination.is_none();
            for (at, is_covered) in [
                (Some(source), true),
                (Some(destination), is_final),
                (places.final_destination, true),
            ] {
                let Some(at) = at else { continue };
                let Some(new) = self.address(&frame[at..at + len]) else { continue };
                // Checksums follow in words; the field is at an even offset of all that they cover.
                for (i, word) in new[..len].chunks_exact(2).enumerate() {
                    let word = [word[0], word[1]];
                    let transport =
                        places.transport_sum.filter(|sum| sum.covers_addresses && is_covered);
                    replace(frame, at + 2 * i, word, places.header_sum, transport);
                }
            }
        }
        for at in places.ports.into_iter().flat_map(|at| [at, at + 2]) {
            let old = u16::from_be_bytes([frame[at], frame[at + 1]]);
            if let Some((_, new)) = self.ports.iter().find(|(from, _)| *from == old) {
                replace(frame, at, new.to_be_bytes(), None, places.transport_sum);
            }
        }
        if self.new_checksums {
            complete(frame, &places, is_whole);
        }
    }

    /// The address in place of this one, in the first bytes; `None` if it stays.
    fn address(&self, old: &[u8]) -> Option<[u8; 16]> {
        let address: IpAddr = match old.len() {
            4 => <[u8; 4]>::try_from(old).ok()?.into(),
            _ => <[u8; 16]>::try_from(old).ok()?.into(),
        };
        let new = self.addresses.iter().find_map(|(from, to)| replaced(address, from, to))?;
        let mut bytes = [0; 16];
        match new {
            IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => bytes = v6.octets(),
        }
        Some(bytes)
    }
}

/// `address` with the prefix `to` in place of `from`; `None` if it is not in `from`.
fn replaced(address: IpAddr, from: &Prefix, to: &Prefix) -> Option<IpAddr> {
    match (address, from.address, to.address) {
        (IpAddr::V4(address), IpAddr::V4(first), IpAddr::V4(new)) => {
            let host = u32::MAX.checked_shr(from.length.into()).unwrap_or(0);
            let (address, first) = (u32::from(address), u32::from(first));
            (address & !host == first & !host)
                .then(|| IpAddr::V4((u32::from(new) & !host | address & host).into()))
        }
        (IpAddr::V6(address), IpAddr::V6(first), IpAddr::V6(new)) => {
            let host = u128::MAX.checked_shr(from.length.into()).unwrap_or(0);
            let (address, first) = (u128::from(address), u128::from(first));
            (address & !host == first & !host)
                .then(|| IpAddr::V6((u128::from(new) & !host | address & host).into()))
        }
        _ => None,
    }
}

/// Writes a word and updates the checksums that cover it.
fn replace(
    frame: &mut [u8],
    at: usize,
    new: [u8; 2],
    header_sum: Option<usize>,
    transport: Option<TransportSum>,
) {
    let (old, word) = (u16::from_be_bytes([frame[at], frame[at + 1]]), u16::from_be_bytes(new));
    frame[at..at + 2].copy_from_slice(&new);
    if old == word {
        return;
    }
    let header = header_sum.map(|at| (at, false, false));
    let transport = transport.map(|sum| (sum.at, sum.may_be_absent, sum.is_never_zero));
    for (at, may_be_absent, is_never_zero) in header.into_iter().chain(transport) {
        let sum = u16::from_be_bytes([frame[at], frame[at + 1]]);
        if may_be_absent && sum == 0 {
            continue;
        }
        let sum = match update16(sum, old, word) {
            0 if is_never_zero => 0xffff,
            sum => sum,
        };
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// `None`: not a valid packet of a protocol with addresses.
fn places(frame: &[u8]) -> Option<Places> {
    let start = Ethernet::new(frame).ok()?.header_len();
    let packet = Packet::from_ethernet(frame).ok()?;
    let (mut places, transport) = match &packet.network {
        // Hardware Ethernet, protocol IPv4: sender at 14, target at 24 (RFC 826).
        Network::Arp(arp) => {
            let is_of_ipv4 = arp.get(..8)? == [0, 1, 8, 0, 6, 4, arp[6], arp[7]] && arp.len() >= 28;
            let addresses = is_of_ipv4.then_some((4, [start + 14, start + 24]));
            return Some(Places { addresses, ..Places::default() });
        }
        Network::Other(..) => return None,
        Network::Ipv4(ip) => {
            let addresses = Some((4, [start + 12, start + 16]));
            let header_sum = Some(start + 10);
            (Places { addresses, header_sum, ..Places::default() }, start + ip.header_len())
        }
        Network::Ipv6(ip) => {
            let addresses = Some((16, [start + 8, start + 24]));
            let final_destination =
                Some(start + ip.final_destination_at()).filter(|at| *at != start + 24);
            (Places { addresses, final_destination, ..Places::default() }, start + ip.header_len())
        }
    };
    let sum = |offset: usize| TransportSum {
        at: transport + offset,
        may_be_absent: false,
        is_never_zero: false,
        covers_addresses: true,
    };
    let of_datagrams = TransportSum { is_never_zero: true, ..sum(6) };
    (places.ports, places.transport_sum) = match &packet.transport {
        Transport::Tcp(_) => (Some(transport), Some(sum(16))),
        Transport::Udp(_) => {
            (Some(transport), Some(TransportSum { may_be_absent: true, ..of_datagrams }))
        }
        Transport::UdpLite(_) => (Some(transport), Some(of_datagrams)),
        Transport::Icmpv6(_) => (None, Some(sum(2))),
        Transport::Icmp(_) => (None, Some(TransportSum { covers_addresses: false, ..sum(2) })),
        _ => (None, None),
    };
    Some(places)
}

/// Computes the checksums, the transport's only of a whole packet.
fn complete(frame: &mut [u8], places: &Places, is_whole: bool) {
    let put = |frame: &mut [u8], at: usize, sum: u16| {
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    };
    if let (Some(at), Ok(Packet { network: Network::Ipv4(ip), .. })) =
        (places.header_sum, Packet::from_ethernet(frame))
    {
        let (start, len) = (at - 10, ip.header_len());
        put(frame, at, 0);
        let sum = Sum::new().add_bytes(&frame[start..start + len]).checksum();
        put(frame, at, sum);
    }
    let is_fragment =
        |frame: &[u8]| Packet::from_ethernet(frame).is_ok_and(|packet| packet.fragment().is_some());
    let Some(sum) = places.transport_sum.filter(|_| is_whole && !is_fragment(frame)) else {
        return;
    };
    let is_absent = frame[sum.at..sum.at + 2] == [0, 0] && sum.may_be_absent;
    // UDP over IPv6 has one (RFC 8200, section 8.1).
    if is_absent && places.header_sum.is_some() {
        return;
    }
    put(frame, sum.at, 0);
    let Ok(packet) = Packet::from_ethernet(frame) else { return };
    let (number, whole, covered) = match &packet.transport {
        Transport::Tcp(t) => (protocol::TCP, t.bytes().len(), t.bytes()),
        Transport::Udp(t) => (protocol::UDP, t.bytes().len(), t.bytes()),
        Transport::UdpLite(t) => (protocol::UDP_LITE, t.bytes().len(), t.covered()),
        Transport::Icmpv6(t) => (protocol::ICMPV6, t.bytes().len(), t.bytes()),
        Transport::Icmp(t) => (protocol::ICMP, t.bytes().len(), t.bytes()),
        _ => return,
    };
    let pseudo = match &packet.network {
        _ if !sum.covers_addresses => Sum::new(),
        Network::Ipv4(ip) => {
            Sum::new().add_pseudo_v4(ip.source(), ip.destination(), number, whole as u16)
        }
        Network::Ipv6(ip) => {
            Sum::new().add_pseudo_v6(ip.source(), ip.final_destination(), number, whole as u32)
        }
        Network::Arp(_) | Network::Other(..) => return,
    };
    let sum_of = pseudo.add_bytes(covered);
    let value = if sum.is_never_zero { sum_of.udp_checksum() } else { sum_of.checksum() };
    put(frame, sum.at, value);
}

/// Fuzz body: nothing but the named fields changes, and correct checksums stay correct.
pub(crate) fn fuzz(data: &[u8]) {
    let prefix = |text: &str| text.parse::<Prefix>();
    let (Ok(all), Ok(new), Ok(all6), Ok(new6)) =
        (prefix("0.0.0.0/1"), prefix("128.0.0.0/1"), prefix("2000::/3"), prefix("4000::/3"))
    else {
        return;
    };
    let mut remap = Remap {
        destination_mac: Some([2, 0, 0, 0, 0, 1]),
        addresses: vec![(all, new), (all6, new6)],
        ports: vec![(80, 8080), (53, 5353)],
        ..Remap::default()
    };
    let is_right = |frame: &[u8]| {
        let packet = Packet::from_ethernet(frame).ok()?;
        let is_header_right = match packet.network {
            Network::Ipv4(ip) => ip.header_checksum_ok(),
            _ => true,
        };
        Some((is_header_right, packet.transport_checksum_ok()))
    };
    let mut frame = data.to_vec();
    remap.apply(&mut frame, true);
    let before = is_right(data);
    assert_eq!(is_right(&frame).is_some(), before.is_some());
    if before == Some((true, Some(true))) {
        assert_eq!(is_right(&frame), before);
    }
    remap.new_checksums = true;
    remap.apply(&mut frame, true);
    if let Some((header, transport)) = is_right(&frame) {
        assert!(header && transport != Some(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    const V4: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::new(10, 1, 9, 9));
    const V6: (Ipv6Addr, Ipv6Addr) =
        (Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 1), Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 2));

    /// A frame with right checksums, one VLAN tag, and `number` as its protocol.
    fn frame(is_v6: bool, number: u8, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa, 0x81, 0, 0, 7];
        let mut transport = vec![];
        if number != protocol::ICMPV6 {
            transport.extend(ports.0.to_be_bytes());
            transport.extend(ports.1.to_be_bytes());
        }
        match number {
            protocol::TCP => {
                transport.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0])
            }
            protocol::ICMPV6 => transport.extend([128, 0, 0, 0, 0, 1, 0, 1]),
            _ => transport.extend([((8 + data.len()) >> 8) as u8, (8 + data.len()) as u8, 0, 0]),
        }
        transport.extend(data);
        if is_v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((transport.len() as u16).to_be_bytes());
            frame.extend([number, 64]);
            frame.extend(V6.0.octets());
            frame.extend(V6.1.octets());
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + transport.len() as u16).to_be_bytes());
            frame.extend([0, 1, 0, 0, 64, number, 0, 0]);
            frame.extend(V4.0.octets());
            frame.extend(V4.1.octets());
        }
        frame.extend(transport);
        // A checksum of 0 would be taken as absent.
        let places = places(&frame).unwrap();
        frame[places.transport_sum.unwrap().at] = 1;
        complete(&mut frame, &places, true);
        frame
    }

    fn is_right(frame: &[u8]) -> bool {
        let packet = Packet::from_ethernet(frame).unwrap();
        let header = match packet.network {
            Network::Ipv4(ip) => ip.header_checksum_ok(),
            _ => true,
        };
        header && packet.transport_checksum_ok() == Some(true)
    }

    fn remap() -> Remap {
        let pair = |from: &str, to: &str| (from.parse().unwrap(), to.parse().unwrap());
        Remap {
            source_mac: Some([6; 6]),
            destination_mac: Some([4; 6]),
            addresses: vec![
                pair("10.1.2.0/24", "192.168.77.0/24"),
                pair("fd00:0:0:1::/64", "2001:db8:0:9::/64"),
            ],
            ports: vec![(80, 8080)],
            new_checksums: false,
        }
    }

    proptest! {
        #[test]
        fn checksums_follow(
            is_v6: bool,
            kind in 0..3_usize,
            source in 0..3_u16,
            data in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let number = match (kind, is_v6) {
                (0, _) => protocol::TCP,
                (1, true) => protocol::ICMPV6,
                _ => protocol::UDP,
            };
            let mut frame = frame(is_v6, number, (79 + source, 80), &data);
            prop_assert!(is_right(&frame));
            remap().apply(&mut frame, true);
            prop_assert!(is_right(&frame));
            let packet = Packet::from_ethernet(&frame).unwrap();
            let [source_address, destination] = match is_v6 {
                true => ["2001:db8:0:9::1", "2001:db8:0:9::2"],
                // Outside the prefix.
                false => ["192.168.77.3", "10.1.9.9"],
            };
            prop_assert_eq!(
                packet.addresses(),
                Some((source_address.parse().unwrap(), destination.parse().unwrap()))
            );
            if number != protocol::ICMPV6 {
                let mapped = if source == 1 { 8080 } else { 79 + source };
                prop_assert_eq!(packet.ports(), Some((mapped, 8080)));
            }
            prop_assert_eq!(&frame[..12], &[4, 4, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6]);
        }
    }

    #[test]
    fn a_wrong_checksum_stays_wrong_unless_it_is_computed() {
        let mut frame = frame(false, protocol::TCP, (80, 9), b"data");
        frame[16 + 2 + 20 + 16] ^= 0x5a;
        remap().apply(&mut frame, true);
        assert!(!is_right(&frame));
        Remap { new_checksums: true, ..remap() }.apply(&mut frame, true);
        assert!(is_right(&frame));
    }

    #[test]
    fn a_fragment_and_a_truncated_packet_keep_their_checksum() {
        let remap = Remap { new_checksums: true, ..Remap::default() };
        let mut first = frame(false, protocol::TCP, (80, 9), b"data");
        first[18 + 16] ^= 0x5a;
        let sum = first[18 + 36..][..2].to_vec();
        // The first fragment: more follow.
        first[18 + 6] = 0x20;
        remap.apply(&mut first, true);
        assert_eq!(first[18 + 36..][..2], sum);
        let mut cut = frame(false, protocol::TCP, (80, 9), b"data");
        let before = cut.clone();
        let last = cut.len() - 1;
        cut[last] = 0;
        remap.apply(&mut cut, false);
        assert_eq!(cut[..last], before[..last]);
    }

    #[test]
    fn an_absent_checksum_stays_absent() {
        let mut frame = frame(false, protocol::UDP, (80, 9), b"data");
        let at = frame.len() - 6;
        frame[at..at + 2].fill(0);
        Remap { new_checksums: true, ..remap() }.apply(&mut frame, true);
        assert_eq!(frame[at..at + 2], [0, 0]);
    }

    #[test]
    fn arp_names_the_new_addresses() {
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 0xa, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend([2, 0, 0, 0, 0, 0xa, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 10, 1, 2, 4]);
        remap().apply(&mut frame, true);
        assert_eq!(frame[28..32], [192, 168, 77, 3]);
        assert_eq!(frame[38..42], [192, 168, 77, 4]);
    }
}
