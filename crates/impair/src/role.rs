//! The role of a frame: an ordinary packet, control traffic of a Weir test, or a frame that a link needs to work.

use weir_model::impairment::{Condition, Filter, MacPrefix};
use weir_wire::datagram::looks_like_control;
use weir_wire::ethernet::{ETHERTYPE, EthernetFrame};
use weir_wire::packet::{ethertype, protocol};

use crate::key::{FragmentPlace, Key, Layers};

/// Destination of frames that a bridge does not forward: 01:80:C2:00:00:0X, without X (IEEE 802.1Q, table 8-1).
const BRIDGE_GROUP: [u8; 5] = [0x01, 0x80, 0xc2, 0x00, 0x00];
/// ICMPv6 types of neighbour discovery (RFC 4861 §4).
const NEIGHBOR_DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;

/// How the engine treats a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// By its flow's laws.
    #[default]
    Ordinary,
    /// By its flow's laws too, but with separate draws and loss state: the control connection and control
    /// datagrams of a Weir test.
    Control,
    /// ARP. This and the following are exempt from laws, unless the configuration includes them.
    Arp,
    /// ICMPv6 neighbour discovery.
    NeighborDiscovery,
    /// A frame to 01:80:C2:00:00:0X, such as spanning tree, LLDP or 802.1X.
    Bridge,
}

impl Role {
    /// The roles that are exempt.
    pub(crate) const EXEMPT: [Role; 3] = [Role::Arp, Role::NeighborDiscovery, Role::Bridge];

    /// Position among [`Self::EXEMPT`]; `None` for frames that laws apply to.
    #[inline]
    pub(crate) fn exempt_place(self) -> Option<usize> {
        (self as usize).checked_sub(Role::Arp as usize)
    }

    /// The role of a frame with a parsed key. `native_port` is the port of Weir's servers on this path.
    #[inline]
    pub(crate) fn of(key: &Key, layers: &Layers, frame: &[u8], native_port: u16) -> Self {
        if is_to_bridges(frame) {
            return Role::Bridge;
        }
        match u8::try_from(key.protocol) {
            Ok(protocol::TCP) if key.has_port(native_port) => Role::Control,
            Ok(protocol::UDP) if key.has_ports && key.fragment == FragmentPlace::Whole => {
                of_datagram(frame.get(layers.payload as usize..layers.end as usize))
            }
            Ok(protocol::ICMPV6) if key.ethertype == ethertype::IPV6 => {
                let byte = |at: u32| frame.get(at as usize).copied();
                let is_discovery = key.fragment == FragmentPlace::Whole
                    // A hop limit below 255 means that it passed a router, so that it is not a neighbour's
                    // (RFC 4861 §6.1).
                    && byte(layers.l3 + 7) == Some(255)
                    && byte(layers.l4).is_some_and(|kind| NEIGHBOR_DISCOVERY.contains(&kind));
                if is_discovery { Role::NeighborDiscovery } else { Role::Ordinary }
            }
            Err(_) if key.ethertype == ethertype::ARP => Role::Arp,
            Err(_) if key.ethertype == ETHERTYPE => {
                of_datagram(EthernetFrame::decode(frame).ok().map(|frame| frame.payload))
            }
            _ => Role::Ordinary,
        }
    }

    /// The role of a frame of which no other fields are needed.
    #[inline]
    pub(crate) fn of_frame(frame: &[u8], native_port: u16) -> Self {
        match Self::of_plain_ipv4(frame, native_port) {
            Some(role) => role,
            None => {
                let (key, layers) = Key::of_frame(frame);
                Self::of(&key, &layers, frame, native_port)
            }
        }
    }

    /// Fast path for the usual packet: an untagged frame with a complete IPv4 packet without options.
    #[inline]
    fn of_plain_ipv4(frame: &[u8], native_port: u16) -> Option<Self> {
        let head = frame.first_chunk::<38>()?;
        let be16 = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let is_plain = be16(12) == ethertype::IPV4 && head[14] == 0x45 && be16(20) & 0x3fff == 0;
        let end = 14 + usize::from(be16(16));
        if !is_plain || !(42..=frame.len()).contains(&end) || is_to_bridges(frame) {
            return None;
        }
        match head[23] {
            // A truncated header is parsed by the general code.
            protocol::TCP if be16(34) == native_port || be16(36) == native_port => None,
            protocol::UDP => Some(of_datagram(frame.get(42..end))),
            _ => Some(Role::Ordinary),
        }
    }

    /// Whether a filter names frames of this role, so that they belong to its flow.
    pub(crate) fn is_named_by(self, filter: &Filter) -> bool {
        match self {
            Role::Ordinary | Role::Control => false,
            Role::Arp => named(&filter.ethertype).is_some_and(|e| e.0 == ethertype::ARP),
            Role::NeighborDiscovery => {
                let is_protocol = named(&filter.protocol).is_some_and(|p| p.0 == protocol::ICMPV6);
                is_protocol || named(&filter.icmpv6).is_some()
            }
            Role::Bridge => {
                let groups = named(&filter.destination_mac);
                // The mask covers the leading 44 bits.
                let is_group = |to: &MacPrefix| {
                    to.mask >> 4 == (1 << 44) - 1 && is_to_bridges(&to.address.to_be_bytes()[2..])
                };
                named(&filter.ethertype).is_some()
                    || groups.is_some_and(|groups| groups.0.iter().any(is_group))
            }
        }
    }
}

/// The values that a filter asks for; a negated condition names none.
fn named<T>(condition: &Option<Condition<T>>) -> Option<&T> {
    condition.as_ref()?.matching()
}

#[inline]
fn is_to_bridges(frame: &[u8]) -> bool {
    frame.first_chunk::<6>().is_some_and(|to| to[..5] == BRIDGE_GROUP && to[5] >> 4 == 0)
}

#[inline]
fn of_datagram(payload: Option<&[u8]>) -> Role {
    if payload.is_some_and(looks_like_control) { Role::Control } else { Role::Ordinary }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_model::impairment::Impairment;
    use weir_wire::datagram::{LEN, MAGIC};

    use super::*;
    use crate::key::tests::udp_frame;

    fn role(frame: &[u8]) -> Role {
        Role::of_frame(frame, 9347)
    }

    fn control(ports: (u16, u16)) -> Vec<u8> {
        let mut payload = vec![0; LEN];
        payload[..8].copy_from_slice(&MAGIC.to_be_bytes());
        udp_frame(ports, &payload)
    }

    fn in_frame(payload: &[u8]) -> Vec<u8> {
        let end = weir_wire::ethernet::Endpoint { mac: [2; 6], port: 1 };
        EthernetFrame { source: end, destination: end, payload }.encode()
    }

    fn tcp(ports: (u16, u16)) -> Vec<u8> {
        let mut frame = udp_frame(ports, &[0; 12]);
        frame[23] = protocol::TCP;
        frame[46] = 0x50;
        frame
    }

    fn icmp_v6(kind: u8, hop_limit: u8) -> Vec<u8> {
        let mut frame = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 58, hop_limit]].concat();
        frame.extend([0xfe; 32]);
        frame.push(kind);
        frame.extend([0; 23]);
        frame
    }

    fn tagged(mut frame: Vec<u8>) -> Vec<u8> {
        frame.splice(12..12, [0x81, 0, 0, 5]);
        frame
    }

    #[test]
    fn control_traffic_is_known_by_its_port_and_its_magic_number() {
        for frame in [control((1, 2)), tcp((9347, 40_000)), tcp((40_000, 9347))] {
            assert_eq!(role(&frame), Role::Control, "{frame:x?}");
            assert_eq!(role(&tagged(frame)), Role::Control);
        }
        let mut short = control((9347, 1));
        short.truncate(short.len() - 1);
        // One byte more, another magic number, data on the native port, another port.
        let mut long = vec![0; LEN + 1];
        long[..8].copy_from_slice(&MAGIC.to_be_bytes());
        let other = udp_frame((9347, 1), &[1; LEN]);
        for frame in [short, udp_frame((1, 2), &long), other, tcp((1, 2)), vec![]] {
            assert_eq!(role(&frame), Role::Ordinary, "{frame:x?}");
        }
    }

    #[test]
    fn control_datagrams_in_frames_without_ip_are_known_too() {
        let mut payload = vec![0; LEN];
        payload[..8].copy_from_slice(&MAGIC.to_be_bytes());
        let frame = in_frame(&payload);
        assert_eq!(role(&frame), Role::Control);
        assert_eq!(role(&[&frame[..], &[0; 4]].concat()), Role::Control, "padded");
        assert_eq!(role(&frame[..frame.len() - 1]), Role::Ordinary);
        assert_eq!(role(&in_frame(&[1; LEN])), Role::Ordinary);
    }

    #[test]
    fn exempt_roles_are_recognised() {
        let arp = [&[0xff; 6][..], &[2; 6], &[0x08, 0x06], &[0; 46]].concat();
        assert_eq!(role(&arp), Role::Arp);
        assert_eq!(role(&tagged(arp)), Role::Arp);
        for (kind, hop_limit, expected) in [
            (132, 255, Role::Ordinary),
            (133, 255, Role::NeighborDiscovery),
            (137, 255, Role::NeighborDiscovery),
            (138, 255, Role::Ordinary),
            (135, 254, Role::Ordinary),
            (128, 255, Role::Ordinary),
        ] {
            assert_eq!(role(&icmp_v6(kind, hop_limit)), expected, "{kind} {hop_limit}");
            assert_eq!(role(&tagged(icmp_v6(kind, hop_limit))), expected);
        }
        for frame in [udp_frame((1, 2), b""), control((1, 2)), tcp((1, 9347)), vec![0; 60]] {
            for (last, expected) in [(0, true), (14, true), (15, true), (16, false)] {
                let mut frame = frame.clone();
                frame[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, last]);
                assert_eq!(role(&frame) == Role::Bridge, expected, "{last}");
            }
        }
    }

    #[test]
    fn a_filter_names_a_role_by_ethertype_or_protocol() {
        let filter = |text: &str| {
            let text =
                format!("schema = 'weir.impair/1'\n[[flow]]\nname = 'x'\nfilter = {{ {text} }}");
            Impairment::parse(&text).unwrap().flows[0].filter.clone().unwrap()
        };
        for (text, named) in [
            ("", vec![]),
            ("vlan = '5'", vec![]),
            ("ethertype = 'arp'", vec![Role::Arp, Role::Bridge]),
            ("ethertype = '0x88cc'", vec![Role::Bridge]),
            ("ethertype = 'ipv6'", vec![Role::Bridge]),
            ("protocol = 'icmpv6'", vec![Role::NeighborDiscovery]),
            ("icmpv6 = '133-137'", vec![Role::NeighborDiscovery]),
            ("destination_mac = '01:80:c2:00:00:0e'", vec![Role::Bridge]),
            ("destination_mac = '01:80:c2:00:00:00/44'", vec![Role::Bridge]),
            ("destination_mac = '01:80:c2:00:00:00/40'", vec![]),
            ("destination_mac = '01:80:c2:00:00:10'", vec![]),
            // A negated condition names nothing.
            ("ethertype = 'not ipv4'", vec![]),
            ("protocol = 'not tcp'", vec![]),
            ("destination_mac = 'not 01:80:c2:00:00:0e'", vec![]),
            ("protocol = 'udp'", vec![]),
        ] {
            let all = Role::EXEMPT.into_iter().filter(|role| role.is_named_by(&filter(text)));
            assert_eq!(all.collect::<Vec<_>>(), named, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_fast_path_has_the_same_result(
            changes in prop::collection::vec((0usize..106, any::<u8>()), 0..4),
            which in 0usize..4,
            length in 0usize..106,
        ) {
            let base =
                [control((9, 9)), tcp((9347, 1)), udp_frame((1, 9347), &[0; 64]), icmp_v6(135, 255)];
            let mut frame = base[which].clone();
            for (at, byte) in changes {
                if let Some(place) = frame.get_mut(at) {
                    *place = byte;
                }
            }
            for frame in [&frame[..], &frame[..length.min(frame.len())]] {
                let (key, layers) = Key::of_frame(frame);
                prop_assert_eq!(role(frame), Role::of(&key, &layers, frame, 9347));
            }
        }
    }
}
