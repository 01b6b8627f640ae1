//! Link usage of payload: IP, Ethernet and wire bytes, usage of a nominal rate, and packets at line rate.
//!
//! *Ethernet* counts header and check sequence (18 bytes, 4 more for each VLAN tag) and the padding to the minimum
//! frame of 64 bytes, tags included. *Wire* adds preamble, start delimiter and gap between frames (20 bytes), IEEE
//! 802.3. IPv4 options, IPv6 extension headers other than Fragment, and link-layer retransmissions are not seen.

const ETHERNET_BYTES: u64 = 18;
const VLAN_TAG_BYTES: u64 = 4;
const MINIMUM_FRAME_BYTES: u64 = 64;
const PREAMBLE_AND_GAP_BYTES: u64 = 20;
/// Transport under the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkTransport {
    /// Bytes of its header in each packet, with options: UDP 8 (RFC 768); TCP 20 (RFC 9293), 32 with timestamps.
    pub header_bytes: u8,
    /// Whether it divides payload into segments, each with the header; else IP fragments datagrams above
    /// the MTU.
    pub segments: bool,
}

impl LinkTransport {
    /// A transport that does not divide its datagrams.
    #[must_use]
    pub fn datagrams(header_bytes: u8) -> Self {
        LinkTransport { header_bytes, segments: false }
    }

    /// A transport that sends segments.
    #[must_use]
    pub fn segments(header_bytes: u8) -> Self {
        LinkTransport { header_bytes, segments: true }
    }
}

/// IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkFamily {
    /// No IP: the transport's header is the first of the frame, and no datagram is fragmented.
    NoIp,
    /// IPv4: a header of 20 bytes (RFC 791).
    Ipv4,
    /// IPv6: a header of 40 bytes (RFC 8200).
    Ipv6,
}

/// How payload is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkShape {
    /// Transport.
    pub transport: LinkTransport,
    /// IP version.
    pub family: LinkFamily,
    /// VLAN tags in each frame.
    pub vlan_tags: u8,
    /// Largest IP packet, bytes; larger datagrams are counted in fragments. 1500 on plain Ethernet; at least 68 for
    /// IPv4 and 1280 for IPv6 is assumed.
    pub mtu_bytes: u32,
}

/// Bytes at each layer of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkBytes {
    /// Application payload.
    pub payload: u64,
    /// IP packets with their headers; without IP the payload of the frames.
    pub ip: u64,
    /// Ethernet frames: headers, tags, padding and check sequence.
    pub ethernet: u64,
    /// Frames with preamble and gap.
    pub wire: u64,
    /// Frames.
    pub frames: u64,
}

impl LinkShape {
    /// A shape on plain Ethernet: no tags, MTU 1500.
    pub fn new(transport: LinkTransport, family: LinkFamily) -> Self {
        Self { transport, family, vlan_tags: 0, mtu_bytes: 1500 }
    }

    fn transport_bytes(&self) -> u64 {
        u64::from(self.transport.header_bytes)
    }

    fn family_bytes(&self) -> (u64, u64) {
        match self.family {
            // A frame is never divided.
            LinkFamily::NoIp => (0, u64::MAX),
            LinkFamily::Ipv4 => (20, 68),
            LinkFamily::Ipv6 => (40, 1280),
        }
    }

    fn frame(&self, ip_bytes: u64) -> LinkBytes {
        let ethernet = (ip_bytes + ETHERNET_BYTES + VLAN_TAG_BYTES * u64::from(self.vlan_tags))
            .max(MINIMUM_FRAME_BYTES);
        let wire = ethernet + PREAMBLE_AND_GAP_BYTES;
        LinkBytes { payload: 0, ip: ip_bytes, ethernet, wire, frames: 1 }
    }

    /// Bytes of one datagram or segment with `payload_bytes` of payload. Above the MTU a datagram is
    /// counted in fragments (RFC 791, RFC 8200 section 4.5), a TCP segment in segments of the maximum size.
    pub fn packet(&self, payload_bytes: u64) -> LinkBytes {
        let (header, least_mtu) = self.family_bytes();
        let mtu = u64::from(self.mtu_bytes).max(least_mtu);
        let transport = self.transport_bytes();
        if header + transport + payload_bytes <= mtu {
            return LinkBytes {
                payload: payload_bytes,
                ..self.frame(header + transport + payload_bytes)
            };
        }
        // Bytes to divide, header bytes of each piece, and maximum data bytes of a piece.
        let (bytes, header, room) = match (self.transport.segments, self.family) {
            (true, _) => (payload_bytes, header + transport, mtu - header - transport),
            (false, LinkFamily::NoIp | LinkFamily::Ipv4) => {
                (payload_bytes + transport, header, (mtu - header) / 8 * 8)
            }
            (false, LinkFamily::Ipv6) => {
                (payload_bytes + transport, header + 8, (mtu - header - 8) / 8 * 8)
            }
        };
        let room = room.max(8);
        // The last piece has the remainder, from 1 byte to a full piece.
        let full = (bytes - 1) / room;
        let last = self.frame(header + bytes - full * room);
        let whole = self.frame(header + room);
        LinkBytes {
            payload: payload_bytes,
            ip: full * whole.ip + last.ip,
            ethernet: full * whole.ethernet + last.ethernet,
            wire: full * whole.wire + last.wire,
            frames: full + 1,
        }
    }

    /// Maximum packets per second of `payload_bytes` on a line of `nominal_bits_per_second`.
    pub fn line_rate_packets_per_second(
        &self,
        nominal_bits_per_second: f64,
        payload_bytes: u64,
    ) -> f64 {
        nominal_bits_per_second / (self.packet(payload_bytes).wire as f64 * 8.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: LinkTransport = LinkTransport { header_bytes: 20, segments: true };
    const UDP: LinkTransport = LinkTransport { header_bytes: 8, segments: false };

    #[test]
    fn full_frames_without_options() {
        for (transport, family, payload) in [
            (TCP, LinkFamily::Ipv4, 1460),
            (UDP, LinkFamily::Ipv4, 1472),
            (TCP, LinkFamily::Ipv6, 1440),
            (UDP, LinkFamily::Ipv6, 1452),
            (LinkTransport::segments(32), LinkFamily::Ipv4, 1448),
        ] {
            let shape = LinkShape::new(transport, family);
            let bytes = LinkBytes { payload, ip: 1500, ethernet: 1518, wire: 1538, frames: 1 };
            assert_eq!(shape.packet(payload), bytes);
            assert_eq!(shape.packet(payload + 1).frames, 2);
        }
    }

    #[test]
    fn small_frames_are_padded_and_tags_counted() {
        let mut shape = LinkShape::new(UDP, LinkFamily::Ipv4);
        assert_eq!((shape.packet(0).ethernet, shape.packet(18).ethernet), (64, 64));
        assert_eq!((shape.packet(19).ethernet, shape.packet(19).wire), (65, 85));
        shape.vlan_tags = 2;
        assert_eq!((shape.packet(10).ethernet, shape.packet(11).ethernet), (64, 65));
    }

    #[test]
    fn frames_without_ip_have_their_own_header_alone() {
        let shape = LinkShape::new(LinkTransport::datagrams(8), LinkFamily::NoIp);
        let full = LinkBytes { payload: 1492, ip: 1500, ethernet: 1518, wire: 1538, frames: 1 };
        assert_eq!(shape.packet(1492), full);
        assert_eq!((shape.packet(38).ethernet, shape.packet(39).ethernet), (64, 65));
        assert_eq!(shape.packet(8992).frames, 1, "they are never fragmented");
    }

    #[test]
    fn datagrams_above_the_mtu_are_fragments() {
        let mut shape = LinkShape::new(UDP, LinkFamily::Ipv4);
        // 65 515 bytes in pieces of 1480: 44 full and 395 bytes.
        let bytes = shape.packet(65_507);
        assert_eq!((bytes.frames, bytes.ip), (45, 65_515 + 45 * 20));
        assert_eq!(bytes.wire, bytes.ip + 45 * 38);
        shape.family = LinkFamily::Ipv6;
        let bytes = shape.packet(1453);
        assert_eq!((bytes.frames, bytes.ip), (2, 1461 + 2 * 48));
        assert_eq!(bytes.ethernet, 1448 + 48 + 18 + 13 + 48 + 18);
    }

    #[test]
    fn line_rate_of_fast_ethernet() {
        let shape = LinkShape::new(UDP, LinkFamily::Ipv4);
        let line = shape.line_rate_packets_per_second(1e8, 160);
        assert!((line - 55_309.7).abs() < 0.05, "{line}");
    }
}
