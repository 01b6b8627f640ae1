//! Segments super-packets as a card with TCP or UDP segmentation offload does, by their `struct
//! virtio_net_hdr`.

use weir_wire::checksum::Sum;
use weir_wire::packet::{Ethernet, Ipv4, Ipv6, ethertype, protocol};

/// `struct virtio_net_hdr` as the kernel writes it, in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    pub(crate) flags: u8,
    pub(crate) gso_type: u8,
    pub(crate) gso_size: u16,
    pub(crate) csum_start: u16,
    pub(crate) csum_offset: u16,
}

impl VnetHeader {
    pub(crate) const LEN: usize = 10;
    pub(crate) const NEEDS_CHECKSUM: u8 = 1;
    pub(crate) const GSO_NONE: u8 = 0;
    pub(crate) const GSO_TCPV4: u8 = 1;
    pub(crate) const GSO_TCPV6: u8 = 4;
    pub(crate) const GSO_UDP_L4: u8 = 5;
    /// Flag in the type: only the first segment has CWR (which is always done).
    const GSO_ECN: u8 = 0x80;

    pub(crate) fn read(bytes: &[u8; Self::LEN]) -> Self {
        // Bytes 2..4 are the headers' length, which not all drivers fill in.
        let [flags, gso_type, _, _, c, d, e, f, g, h] = *bytes;
        VnetHeader {
            flags,
            gso_type: gso_type & !Self::GSO_ECN,
            gso_size: u16::from_ne_bytes([c, d]),
            csum_start: u16::from_ne_bytes([e, f]),
            csum_offset: u16::from_ne_bytes([g, h]),
        }
    }

    pub(crate) fn is_super_packet(&self) -> bool {
        self.gso_type != Self::GSO_NONE
    }

    /// That of a super-packet with complete headers, which says how it is segmented; the kind is in its first layers.
    pub(crate) fn of_super_packet(frame: &[u8], gso_size: u16) -> Self {
        let (v6, number) = match Ethernet::new(frame)
            .map(|ethernet| (ethernet.ethertype(), ethernet.payload()))
        {
            Ok((ethertype::IPV6, bytes)) => (true, Ipv6::new(bytes).map_or(0, |ip| ip.protocol())),
            Ok((ethertype::IPV4, bytes)) => (false, Ipv4::new(bytes).map_or(0, |ip| ip.protocol())),
            _ => (false, 0),
        };
        let gso_type = match (number, v6) {
            (protocol::UDP, _) => Self::GSO_UDP_L4,
            (_, false) => Self::GSO_TCPV4,
            (_, true) => Self::GSO_TCPV6,
        };
        VnetHeader { gso_type, gso_size, ..Self::default() }
    }

    /// The header as the kernel reads it, for a packet with this many bytes of headers.
    pub(crate) fn bytes(&self, header_bytes: u16) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..2].copy_from_slice(&[self.flags, self.gso_type]);
        for (to, word) in bytes[2..].chunks_exact_mut(2).zip([
            header_bytes,
            self.gso_size,
            self.csum_start,
            self.csum_offset,
        ]) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// How to segment a super-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segmentation {
    v6: bool,
    udp: bool,
    /// Offset of the network header.
    network: usize,
    /// Offset of the final destination's address in the network header; unused in IPv4.
    destination: usize,
    /// Offset of the transport header.
    transport: usize,
    /// Bytes of all headers.
    headers: usize,
    /// Bytes of payload in each segment except the last.
    size: usize,
    /// Total bytes of payload.
    payload: usize,
}

impl Segmentation {
    /// Parses a super-packet's headers; `None` if its kind is not supported (tunnels, IP fragmentation
    /// offload) or its headers are inconsistent.
    pub(crate) fn plan(frame: &[u8], vnet: &VnetHeader) -> Option<Self> {
        let ethernet = Ethernet::new(frame).ok()?;
        let network = ethernet.header_len();
        let bytes = ethernet.payload();
        let (v6, number, header, destination, end) = match ethernet.ethertype() {
            ethertype::IPV4 => {
                let ip = Ipv4::new(bytes).ok()?;
                if ip.fragment().is_some() {
                    return None;
                }
                (false, ip.protocol(), ip.header_len(), 0, ip.bytes().len())
            }
            ethertype::IPV6 => {
                let ip = Ipv6::new(bytes).ok()?;
                if ip.fragment().is_some() {
                    return None;
                }
                let destination = ip.final_destination_at();
                (true, ip.protocol(), ip.header_len(), destination, ip.bytes().len())
            }
            _ => return None,
        };
        let transport = network + header;
        let udp = match (vnet.gso_type, number, v6) {
            (VnetHeader::GSO_TCPV4, protocol::TCP, false) => false,
            (VnetHeader::GSO_TCPV6, protocol::TCP, true) => false,
            (VnetHeader::GSO_UDP_L4, protocol::UDP, _) => true,
            _ => return None,
        };
        // In a tunnel the checksum is that of the inner headers: not supported.
        if vnet.flags & VnetHeader::NEEDS_CHECKSUM != 0 && usize::from(vnet.csum_start) != transport
        {
            return None;
        }
        let header = if udp { 8 } else { usize::from(*frame.get(transport + 12)? >> 4) * 4 };
        let headers = transport + header;
        let payload = (network + end).checked_sub(headers)?;
        let size = usize::from(vnet.gso_size);
        let sound = size > 0 && payload > 0 && (udp || header >= 20);
        sound.then_some(Segmentation {
            v6,
            udp,
            network,
            destination,
            transport,
            headers,
            size,
            payload,
        })
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> usize {
        self.payload.div_ceil(self.size)
    }

    /// Length of a segment's frame, bytes.
    pub(crate) fn len(&self, segment: usize) -> usize {
        self.headers + self.size.min(self.payload - segment * self.size)
    }

    /// Writes a segment's frame into `to`, which is [`Segmentation::len`] bytes long.
    pub(crate) fn write(&self, frame: &[u8], segment: usize, to: &mut [u8]) {
        self.write_headers(frame, segment, 1, &mut to[..self.headers]);
        to[self.headers..].copy_from_slice(self.payload(frame, segment, 1));
        // The field contains the pseudo header's sum.
        let transport = &mut to[self.transport..];
        let sum = Sum::new().add_bytes(transport);
        let sum = if self.udp { sum.udp_checksum() } else { sum.checksum() };
        let at = self.checksum_at();
        transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// Payload of `count` segments from `first` on.
    pub(crate) fn payload<'a>(&self, frame: &'a [u8], first: usize, count: usize) -> &'a [u8] {
        let end = self.payload.min((first + count) * self.size);
        &frame[self.headers + first * self.size..self.headers + end]
    }

    /// Offset of the checksum in the transport header.
    fn checksum_at(&self) -> usize {
        if self.udp { 6 } else { 16 }
    }

    /// Whether its segments are UDP datagrams, and not TCP segments.
    pub(crate) fn is_udp(&self) -> bool {
        self.udp
    }

    /// Bytes of all headers.
    pub(crate) fn header_bytes(&self) -> usize {
        self.headers
    }

    /// Whether its frames have neither a VLAN tag nor IPv6 extension headers, behind which not every card segments.
    pub(crate) fn is_plain(&self) -> bool {
        self.network == ETHERNET_BYTES && (!self.v6 || self.transport == self.network + IPV6_BYTES)
    }

    /// Whether its first segment alone has a flag (CWR), which not every card leaves out of the others.
    pub(crate) fn has_flag_of_first(&self, frame: &[u8]) -> bool {
        !self.udp && frame[self.transport + 13] & CWR != 0
    }

    /// Writes the headers of a packet with `count` segments from `first` on into `to`, which is
    /// [`Segmentation::header_bytes`] long. The transport's checksum is partial: the sum of the pseudo header.
    pub(crate) fn write_headers(&self, frame: &[u8], first: usize, count: usize, to: &mut [u8]) {
        let payload = self.payload(frame, first, count).len();
        to.copy_from_slice(&frame[..self.headers]);
        let (head, transport) = to.split_at_mut(self.transport);
        let ip = &mut head[self.network..];
        let transport_len = transport.len() + payload;
        let number = if self.udp { protocol::UDP } else { protocol::TCP };
        let pseudo = if self.v6 {
            let len = (ip.len() - 40 + transport_len) as u16;
            ip[4..6].copy_from_slice(&len.to_be_bytes());
            let (a, b) = (octets::<16>(ip, 8), octets::<16>(ip, self.destination));
            Sum::new().add_pseudo_v6(a.into(), b.into(), number, transport_len as u32)
        } else {
            let len = (ip.len() + transport_len) as u16;
            ip[2..4].copy_from_slice(&len.to_be_bytes());
            let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(first as u16);
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            ip[10..12].fill(0);
            let sum = Sum::new().add_bytes(ip).checksum();
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            let (a, b) = (octets::<4>(ip, 12), octets::<4>(ip, 16));
            Sum::new().add_pseudo_v4(a.into(), b.into(), number, transport_len as u16)
        };
        if self.udp {
            transport[4..6].copy_from_slice(&(transport_len as u16).to_be_bytes());
        } else {
            let from = (first * self.size) as u32;
            let sequence = u32::from_be_bytes(octets::<4>(transport, 4)).wrapping_add(from);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            // RFC 3168 §6.1.2: only the first segment has CWR. Only the last has FIN and PSH.
            if first > 0 {
                transport[13] &= !CWR;
            }
            if first + count < self.segments() {
                transport[13] &= !PSH_FIN;
            }
        }
        let at = self.checksum_at();
        transport[at..at + 2].copy_from_slice(&pseudo.folded().to_be_bytes());
    }

    /// The kernel's description of a packet with the headers of [`Segmentation::write_headers`].
    pub(crate) fn vnet(&self, count: usize) -> [u8; VnetHeader::LEN] {
        let kind = match (self.udp, self.v6) {
            _ if count == 1 => VnetHeader::GSO_NONE,
            (true, _) => VnetHeader::GSO_UDP_L4,
            (false, false) => VnetHeader::GSO_TCPV4,
            (false, true) => VnetHeader::GSO_TCPV6,
        };
        let header = VnetHeader {
            flags: VnetHeader::NEEDS_CHECKSUM,
            gso_type: kind,
            gso_size: if count == 1 { 0 } else { self.size as u16 },
            csum_start: self.transport as u16,
            csum_offset: self.checksum_at() as u16,
        };
        header.bytes(self.headers as u16)
    }
}

/// Ethernet's header without tags.
const ETHERNET_BYTES: usize = 14;
const IPV6_BYTES: usize = 40;
/// TCP flags that only the first segment has.
const CWR: u8 = 0x80;
/// TCP flags that only the last segment has.
const PSH_FIN: u8 = 0x09;

/// A field of headers that are already validated.
fn octets<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

/// Fuzz body: checks that segments are valid frames and together contain the payload.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((head, frame)) = data.split_first_chunk::<{ VnetHeader::LEN }>() else { return };
    let vnet = VnetHeader::read(head);
    let Some(segmentation) = Segmentation::plan(frame, &vnet) else { return };
    assert!(segmentation.segments() <= frame.len());
    let mut payload: Vec<u8> = Vec::new();
    for segment in 0..segmentation.segments() {
        let mut to = vec![0; segmentation.len(segment)];
        segmentation.write(frame, segment, &mut to);
        if let Ok(packet) = weir_wire::packet::Packet::from_ethernet(&to) {
            assert_ne!(packet.transport_checksum_ok(), Some(false));
        }
        payload.extend_from_slice(&to[segmentation.headers..]);
    }
    assert_eq!(payload, frame[segmentation.headers..][..segmentation.payload]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::tests::partial_frame;
    use weir_wire::packet::{Network, Packet, Transport};

    fn all(frame: &[u8], gso_type: u8, size: u16) -> Vec<Vec<u8>> {
        let start = 14 + if frame[12] == 0x86 { 40 } else { 20 };
        let vnet = VnetHeader {
            flags: VnetHeader::NEEDS_CHECKSUM,
            gso_type,
            gso_size: size,
            csum_start: start,
            csum_offset: 16,
        };
        let segmentation = Segmentation::plan(frame, &vnet).expect("a super-packet");
        (0..segmentation.segments())
            .map(|segment| {
                let mut to = vec![0xee; segmentation.len(segment)];
                segmentation.write(frame, segment, &mut to);
                to
            })
            .collect()
    }

    #[test]
    fn tcp_is_segmented_as_by_a_card() {
        let payload: Vec<u8> = (0..10_000_u32).map(|i| i as u8).collect();
        for (v6, kind) in [(false, VnetHeader::GSO_TCPV4), (true, VnetHeader::GSO_TCPV6)] {
            let frame = partial_frame(v6, protocol::TCP, &[], &payload);
            let frames = all(&frame, kind, 1448);
            assert_eq!(frames.len(), 7);
            let mut joined: Vec<u8> = Vec::new();
            for (i, bytes) in frames.iter().enumerate() {
                let packet = Packet::from_ethernet(bytes).expect("a frame");
                assert_eq!(packet.transport_checksum_ok(), Some(true));
                let Transport::Tcp(tcp) = packet.transport else { panic!("not TCP") };
                // The sequence numbers wrap.
                assert_eq!(tcp.sequence(), 0xffff_ff00_u32.wrapping_add(joined.len() as u32));
                let flags = bytes[bytes.len() - tcp.payload().len() - 32 + 13];
                let expected = match i {
                    0 => 0x90,
                    6 => 0x19,
                    _ => 0x10,
                };
                assert_eq!(flags, expected, "segment {i}");
                if let Network::Ipv4(ip) = packet.network {
                    assert!(ip.header_checksum_ok());
                    assert_eq!(ip.id(), 0xfffe_u16.wrapping_add(i as u16));
                }
                joined.extend_from_slice(tcp.payload());
            }
            assert_eq!(joined, payload);
        }
    }

    #[test]
    fn udp_is_segmented_into_datagrams() {
        let payload = vec![7; 1001];
        for v6 in [false, true] {
            let frame = partial_frame(v6, protocol::UDP, &[], &payload);
            let frames = all(&frame, VnetHeader::GSO_UDP_L4, 100);
            assert_eq!(frames.len(), 11);
            for (i, bytes) in frames.iter().enumerate() {
                let packet = Packet::from_ethernet(bytes).expect("a frame");
                assert_eq!(packet.transport_checksum_ok(), Some(true));
                let Transport::Udp(udp) = packet.transport else { panic!("not UDP") };
                assert_eq!(udp.payload().len(), if i == 10 { 1 } else { 100 });
            }
        }
    }

    /// A super-packet of a host that routes by segments (RFC 8754): its checksums cover the last segment's address.
    #[test]
    fn a_routed_super_packet_is_segmented_with_correct_checksums() {
        let mut frame = partial_frame(true, protocol::TCP, &[], &[7; 3000]);
        let last = frame[38..54].to_vec();
        frame[38..54].fill(0xab);
        let mut routing = vec![protocol::TCP, 4, 4, 1, 1, 0, 0, 0];
        routing.extend([&last[..], &[0xab; 16]].concat());
        frame[20] = 43;
        let len = u16::from_be_bytes([frame[18], frame[19]]) + routing.len() as u16;
        frame[18..20].copy_from_slice(&len.to_be_bytes());
        let start = 54 + routing.len();
        frame.splice(54..54, routing);
        let vnet = VnetHeader {
            flags: VnetHeader::NEEDS_CHECKSUM,
            gso_type: VnetHeader::GSO_TCPV6,
            gso_size: 1400,
            csum_start: start as u16,
            csum_offset: 16,
        };
        let segmentation = Segmentation::plan(&frame, &vnet).expect("a super-packet");
        let last: [u8; 16] = last.try_into().expect("an address");
        for segment in 0..3 {
            let mut to = vec![0; segmentation.len(segment)];
            segmentation.write(&frame, segment, &mut to);
            let tcp = &to[start..];
            let pseudo =
                Sum::new().add_pseudo_v6([0xfd; 16].into(), last.into(), 6, tcp.len() as u32);
            assert_eq!(pseudo.add_bytes(tcp).folded(), 0xffff, "segment {segment}");
        }
    }

    #[test]
    fn inconsistent_headers_are_refused() {
        let frame = partial_frame(false, protocol::TCP, &[], &[0; 3000]);
        let good = VnetHeader {
            flags: 1,
            gso_type: VnetHeader::GSO_TCPV4,
            gso_size: 1000,
            csum_start: 34,
            csum_offset: 16,
        };
        assert!(Segmentation::plan(&frame, &good).is_some());
        for bad in [
            VnetHeader { gso_size: 0, ..good },
            VnetHeader { csum_start: 84, ..good },
            VnetHeader { gso_type: VnetHeader::GSO_TCPV6, ..good },
            VnetHeader { gso_type: 3, ..good },
        ] {
            assert_eq!(Segmentation::plan(&frame, &bad), None, "{bad:?}");
        }
        assert_eq!(Segmentation::plan(&frame[..60], &good), None);
    }

    #[test]
    fn the_header_has_the_kernels_layout() {
        let mut bytes = [0; VnetHeader::LEN];
        bytes[0] = 1;
        bytes[1] = 0x81;
        bytes[4..6].copy_from_slice(&1448_u16.to_ne_bytes());
        bytes[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        bytes[8..10].copy_from_slice(&16_u16.to_ne_bytes());
        let vnet = VnetHeader::read(&bytes);
        assert_eq!(
            (vnet.gso_type, vnet.gso_size, vnet.csum_start, vnet.csum_offset),
            (1, 1448, 34, 16)
        );
        assert!(vnet.is_super_packet());
    }
}
