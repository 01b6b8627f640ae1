//! A packet's fields that filters match on, and the offsets of its layers.

use weir_wire::packet::{Ethernet, Fragment, Ipv4, Ipv6, ethertype, protocol};

/// No VLAN tag.
pub(crate) const NO_VLAN: u16 = u16::MAX;
/// Not an IP packet.
pub(crate) const NO_PROTOCOL: u16 = u16::MAX;

/// Offsets of a frame's layers, in bytes from its start. The offset of an absent layer is the end of the
/// frame without padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layers {
    /// Network header.
    pub l3: u32,
    /// Transport header; the data of a later fragment.
    pub l4: u32,
    /// The transport's payload.
    pub payload: u32,
    /// End of the packet, without padding.
    pub end: u32,
}

/// A packet's fields that filters match on. A damaged or unknown frame has the fields before the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Source address, IPv4 as IPv4-mapped IPv6; 0 when it is no IP packet.
    pub(crate) source: u128,
    /// Destination address.
    pub(crate) destination: u128,
    /// Source port in the upper half, destination port in the lower.
    pub(crate) ports: u32,
    /// Identification of a fragmented datagram.
    pub(crate) fragment_id: u32,
    /// Outermost VLAN identifier, or [`NO_VLAN`].
    pub(crate) vlan: u16,
    /// EtherType behind the tags.
    pub(crate) ethertype: u16,
    /// IP protocol, or [`NO_PROTOCOL`].
    pub(crate) protocol: u16,
    /// Code point; 0 when it is no IP packet.
    pub(crate) dscp: u8,
    /// ECN field (RFC 3168); 0 when it is no IP packet.
    pub(crate) ecn: u8,
    pub(crate) has_ports: bool,
    pub(crate) fragment: FragmentPlace,
}

/// Which fragment of a datagram a packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FragmentPlace {
    /// Not a fragment: a whole datagram.
    #[default]
    Whole,
    /// The first, with the transport header.
    First,
    /// A later one.
    Later,
}

impl Default for Key {
    fn default() -> Self {
        Self {
            source: 0,
            destination: 0,
            ports: 0,
            fragment_id: 0,
            vlan: NO_VLAN,
            ethertype: 0,
            protocol: NO_PROTOCOL,
            dscp: 0,
            ecn: 0,
            has_ports: false,
            fragment: FragmentPlace::Whole,
        }
    }
}

impl Key {
    /// Parses an Ethernet frame (without check sequence). Any bytes have a key.
    #[inline]
    #[must_use]
    pub(crate) fn of_frame(frame: &[u8]) -> (Self, Layers) {
        match Self::of_plain_ipv4(frame) {
            Some(known) => known,
            None => Self::of_any_frame(frame),
        }
    }

    /// Fast path for the usual packet: an untagged frame with a whole IPv4 packet without options. The
    /// result is that of [`Self::of_any_frame`].
    #[inline]
    fn of_plain_ipv4(frame: &[u8]) -> Option<(Self, Layers)> {
        let head = frame.first_chunk::<34>()?;
        let be16 = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let address = |at: usize| {
            let v4 = u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            0xffff_0000_0000 | u128::from(v4)
        };
        // EtherType, version and header length, neither offset nor more fragments, length.
        let plain = be16(12) == ethertype::IPV4 && head[14] == 0x45 && be16(20) & 0x3fff == 0;
        let end = 14 + usize::from(be16(16));
        if !plain || !(34..=frame.len()).contains(&end) {
            return None;
        }
        let mut key = Self {
            source: address(26),
            destination: address(30),
            ethertype: ethertype::IPV4,
            protocol: head[23].into(),
            dscp: head[15] >> 2,
            ecn: head[15] & 3,
            ..Self::default()
        };
        let mut layers = Layers { l3: 14, l4: 34, payload: 34, end: end as u32 };
        key.transport(head[23], &frame[34..end], None, &mut layers);
        Some((key, layers))
    }

    fn of_any_frame(frame: &[u8]) -> (Self, Layers) {
        let len = frame.len() as u32;
        let mut key = Self::default();
        let mut layers = Layers { l3: len, l4: len, payload: len, end: len };
        let Ok(ethernet) = Ethernet::new(frame) else { return (key, layers) };
        key.ethertype = ethernet.ethertype();
        if let Some(tag) = ethernet.vlan_tags().next() {
            key.vlan = tag.id;
        }
        layers.l3 = ethernet.header_len() as u32;
        match key.ethertype {
            ethertype::IPV4 => {
                let Ok(ip) = Ipv4::new(ethernet.payload()) else { return (key, layers) };
                key.source = u128::from(ip.source().to_ipv6_mapped());
                key.destination = u128::from(ip.destination().to_ipv6_mapped());
                key.dscp = ip.dscp();
                key.ecn = ip.ecn();
                key.protocol = ip.protocol().into();
                layers.l4 = layers.l3 + ip.header_len() as u32;
                layers.end = layers.l3 + ip.bytes().len() as u32;
                key.transport(ip.protocol(), ip.payload(), ip.fragment(), &mut layers);
            }
            ethertype::IPV6 => {
                let Ok(ip) = Ipv6::new(ethernet.payload()) else { return (key, layers) };
                key.source = u128::from(ip.source());
                key.destination = u128::from(ip.destination());
                key.dscp = ip.dscp();
                key.ecn = ip.ecn();
                key.protocol = ip.protocol().into();
                layers.l4 = layers.l3 + ip.header_len() as u32;
                layers.end = layers.l3 + ip.bytes().len() as u32;
                key.transport(ip.protocol(), ip.payload(), ip.fragment(), &mut layers);
            }
            _ => {}
        }
        (key, layers)
    }

    #[inline]
    fn transport(
        &mut self,
        number: u8,
        bytes: &[u8],
        fragment: Option<Fragment>,
        layers: &mut Layers,
    ) {
        if let Some(fragment) = fragment {
            self.fragment_id = fragment.id;
            self.fragment =
                if fragment.is_first() { FragmentPlace::First } else { FragmentPlace::Later };
            if !fragment.is_first() {
                layers.payload = layers.l4;
                return;
            }
        }
        let header = match number {
            protocol::UDP | protocol::UDP_LITE => 8,
            // The data offset, in 32-bit words. If it is too small or too large, there is no TCP header.
            protocol::TCP => match bytes.get(12) {
                Some(byte) if byte >> 4 >= 5 => usize::from(byte >> 4) * 4,
                _ => usize::MAX,
            },
            protocol::ICMP | protocol::ICMPV6 => 8,
            // The common header (RFC 9260, section 3.1).
            protocol::SCTP => 12,
            _ => 0,
        };
        if header > bytes.len() {
            layers.payload = layers.end;
            return;
        }
        layers.payload = layers.l4 + header as u32;
        if matches!(number, protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP) {
            self.ports = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            self.has_ports = true;
        }
    }

    /// Source port; `None` if the packet has none.
    #[inline]
    pub(crate) fn source_port(&self) -> Option<u32> {
        self.has_ports.then_some(self.ports >> 16)
    }

    /// Destination port; `None` if the packet has none.
    #[inline]
    pub(crate) fn destination_port(&self) -> Option<u32> {
        self.has_ports.then_some(self.ports & 0xffff)
    }

    /// Whether the source or destination port is `port`.
    #[inline]
    pub(crate) fn has_port(&self, port: u16) -> bool {
        let port = u32::from(port);
        self.has_ports && (self.ports >> 16 == port || self.ports & 0xffff == port)
    }

    #[inline]
    pub(crate) fn is_ip(&self) -> bool {
        self.protocol != NO_PROTOCOL
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A UDP datagram over IPv4 in an untagged frame.
    pub(crate) fn udp_frame(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
        let total = 28 + payload.len() as u16;
        frame.extend([0x45, 0xb8]);
        frame.extend(total.to_be_bytes());
        frame.extend([0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 9, 0, 2]);
        frame.extend(ports.0.to_be_bytes());
        frame.extend(ports.1.to_be_bytes());
        frame.extend((8 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        frame
    }

    proptest! {
        #[test]
        fn the_fast_path_has_the_same_result(
            changes in prop::collection::vec((0usize..60, any::<u8>()), 0..4),
            protocol in prop::sample::select(vec![1u8, 6, 17, 58, 132, 136, 99]),
            length in 0usize..60,
        ) {
            let mut frame = udp_frame((5000, 5060), &[0x55; 18]);
            frame[23] = protocol;
            for (at, byte) in changes {
                frame[at] = byte;
            }
            for frame in [&frame[..], &frame[..length]] {
                prop_assert_eq!(Key::of_frame(frame), Key::of_any_frame(frame));
            }
        }
    }

    #[test]
    fn fields_of_a_datagram() {
        let mut frame = udp_frame((5000, 5060), b"hello");
        frame.extend([0; 9]); // padding
        let (key, layers) = Key::of_frame(&frame);
        assert_eq!((key.source_port(), key.destination_port()), (Some(5000), Some(5060)));
        assert_eq!((key.dscp, key.protocol, key.vlan), (46, 17, NO_VLAN));
        assert_eq!(key.source, 0xffff_0a00_0001);
        assert_eq!(layers, Layers { l3: 14, l4: 34, payload: 42, end: 47 });
    }

    #[test]
    fn sctp_has_ports_where_its_common_header_is_complete() {
        for (bytes, ports) in [(4, Some((9, 36412))), (3, None)] {
            // The UDP header is the first eight bytes of SCTP's common header.
            let mut frame = udp_frame((9, 36412), &[0; 8][..bytes]);
            frame[23] = 132;
            let (key, layers) = Key::of_frame(&frame);
            assert_eq!(key.source_port().zip(key.destination_port()), ports);
            assert_eq!(layers.payload, layers.end);
        }
    }

    #[test]
    fn tags_fragments_and_unknown_frames() {
        let mut frame = udp_frame((5000, 5060), b"hello");
        frame.splice(12..12, [0x88, 0xa8, 0x20, 0x05, 0x81, 0x00, 0x00, 0x09]);
        let (key, layers) = Key::of_frame(&frame);
        assert_eq!((key.vlan, key.ethertype, layers.payload), (5, 0x0800, 50));
        let mut later = udp_frame((5000, 5060), b"hello");
        later[20..22].copy_from_slice(&[0x00, 0x10]);
        let (key, layers) = Key::of_frame(&later);
        assert_eq!(
            (key.fragment, key.fragment_id, key.has_ports),
            (FragmentPlace::Later, 7, false)
        );
        assert_eq!(layers.payload, 34);
        let mut first = udp_frame((5000, 5060), b"hello");
        first[20] = 0x20;
        assert_eq!(Key::of_frame(&first).0.fragment, FragmentPlace::First);
        let (key, layers) = Key::of_frame(&[0xff; 60]);
        assert!(!key.is_ip());
        assert_eq!((key.ethertype, layers.l3, layers.end), (0xffff, 14, 60));
        assert_eq!(Key::of_frame(&[]).1, Layers::default());
        // Of a frame with a broken IP header only the EtherType is known.
        let mut broken = udp_frame((1, 2), b"");
        broken[14] = 0x41;
        let (key, layers) = Key::of_frame(&broken);
        assert_eq!((key.is_ip(), key.ethertype, layers.l3), (false, 0x0800, 14));
        assert_eq!(layers.l4, layers.end);
    }
}
