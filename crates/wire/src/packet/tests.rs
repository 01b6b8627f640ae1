//! Frames built by hand, byte by byte, and read by the views.

use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};

const V4: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 19, 0, 2));
const V6: (Ipv6Addr, Ipv6Addr) =
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 2));

fn ethernet(tags: &[[u8; 4]], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa];
    tags.iter().for_each(|tag| frame.extend(tag));
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

fn ipv4(protocol: u8, fragment: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0xb9];
    packet.extend(((header_len + payload.len()) as u16).to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(V4.0.octets());
    packet.extend(V4.1.octets());
    packet.extend(options);
    let sum = Sum::new().add_bytes(&packet).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x6b, 0x9a, 0xbc, 0xde];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 63]);
    packet.extend(V6.0.octets());
    packet.extend(V6.1.octets());
    packet.extend(payload);
    packet
}

/// `bytes` with a correct checksum at `at` for IPv4.
fn with_checksum_v4(number: u8, mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    let sum = Sum::new().add_pseudo_v4(V4.0, V4.1, number, bytes.len() as u16).add_bytes(&bytes);
    bytes[at..at + 2].copy_from_slice(&sum.udp_checksum().to_be_bytes());
    bytes
}

const UDP: [u8; 13] = [0x24, 0x83, 0x30, 0x39, 0, 13, 0, 0, b'h', b'e', b'l', b'l', b'o'];

#[test]
fn a_published_header_checksum() {
    // The example of many textbooks: 192.168.0.1 to 192.168.0.199, UDP, checksum b861.
    let mut header = vec![0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61];
    header.extend([0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7]);
    header.resize(0x73, 0);
    assert!(Ipv4::new(&header).unwrap().header_checksum_ok());
    header[8] -= 1;
    assert!(!Ipv4::new(&header).unwrap().header_checksum_ok());
}

#[test]
fn udp_over_ipv4_with_tags_options_and_padding() {
    let udp = with_checksum_v4(protocol::UDP, UDP.to_vec(), 6);
    let mut frame = ethernet(
        &[[0x88, 0xa8, 0xf0, 0x64], [0x81, 0, 0x0f, 0xff]],
        ethertype::IPV4,
        &ipv4(17, 0x4000, &[1, 1, 1, 0], &udp),
    );
    frame.extend([0xee; 9]);
    let packet = Packet::from_ethernet(&frame).unwrap();
    let link = packet.ethernet.unwrap();
    assert_eq!(link.destination(), [2, 0, 0, 0, 0, 0xb]);
    assert_eq!(link.source(), [2, 0, 0, 0, 0, 0xa]);
    assert_eq!((link.header_len(), link.ethertype()), (22, 0x0800));
    let tags: Vec<_> = link.vlan_tags().collect();
    let tag =
        |ethertype, priority, drop_eligible, id| VlanTag { ethertype, priority, drop_eligible, id };
    assert_eq!(tags, [tag(0x88a8, 7, true, 100), tag(0x8100, 0, false, 4095)]);
    let Network::Ipv4(ip) = packet.network else { panic!("{packet:?}") };
    assert_eq!((ip.header_len(), ip.options()), (24, &[1, 1, 1, 0][..]));
    assert_eq!((ip.dscp(), ip.ecn(), ip.ttl(), ip.id()), (46, 1, 64, 0x1234));
    assert!(ip.dont_fragment() && ip.fragment().is_none() && ip.header_checksum_ok());
    assert_eq!(packet.addresses(), Some((V4.0.into(), V4.1.into())));
    assert_eq!(packet.ports(), Some((9347, 12345)));
    assert_eq!(ip.payload().len(), 13, "without the padding");
    let Transport::Udp(udp) = packet.transport else { panic!("{packet:?}") };
    assert_eq!(udp.payload(), b"hello");
    assert_eq!(packet.transport_checksum_ok(), Some(true));
    let at = frame.len() - 10;
    frame[at] ^= 1;
    assert_eq!(Packet::from_ethernet(&frame).unwrap().transport_checksum_ok(), Some(false));
}

#[test]
fn a_udp_checksum_of_none() {
    let v4 = ipv4(17, 0, &[], &UDP);
    assert_eq!(Packet::from_ip(&v4).unwrap().transport_checksum_ok(), None);
    let v6 = ipv6(17, &UDP);
    assert_eq!(Packet::from_ip(&v6).unwrap().transport_checksum_ok(), Some(false));
}

#[test]
fn fragments() {
    let first = ipv4(17, 0x2000, &[], &UDP[..8]);
    let packet = Packet::from_ip(&first).unwrap();
    assert_eq!(packet.fragment(), Some(Fragment { id: 0x1234, offset: 0, more: true }));
    assert_eq!(packet.ports(), Some((9347, 12345)));
    assert_eq!(packet.transport_checksum_ok(), None);
    let later = ipv4(17, 1, &[], &UDP[8..]);
    let packet = Packet::from_ip(&later).unwrap();
    assert_eq!(packet.fragment(), Some(Fragment { id: 0x1234, offset: 8, more: false }));
    assert_eq!(packet.transport, Transport::LaterFragment(17, b"hello"));
    // The same bytes are incomplete as a whole datagram.
    assert!(Packet::from_ip(&ipv4(17, 0, &[], &UDP[..8])).is_err());
}

#[test]
fn ipv6_extension_headers() {
    let mut chain = vec![60, 0, 1, 4, 0, 0, 0, 0]; // hop by hop, then destination options
    chain.extend([51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // 16 bytes, then authentication
    chain.extend([44, 4]); // authentication of (4 + 2) * 4 bytes, then fragment
    chain.extend([0; 22]);
    chain.extend([17, 0, 0, 0, 0, 0, 0, 9]); // an atomic fragment
    let headers = 40 + chain.len();
    let mut udp = UDP.to_vec();
    let sum = Sum::new().add_pseudo_v6(V6.0, V6.1, 17, 13).add_bytes(&udp).udp_checksum();
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    chain.extend(&udp);
    let frame = ethernet(&[], ethertype::IPV6, &ipv6(0, &chain));
    let packet = Packet::from_ethernet(&frame).unwrap();
    let Network::Ipv6(ip) = packet.network else { panic!("{packet:?}") };
    assert_eq!((ip.dscp(), ip.ecn(), ip.flow_label(), ip.hop_limit()), (46, 1, 0xabcde, 63));
    assert_eq!((ip.protocol(), ip.header_len(), ip.fragment()), (17, headers, None));
    assert_eq!(packet.addresses(), Some((V6.0.into(), V6.1.into())));
    assert_eq!(packet.ports(), Some((9347, 12345)));
    assert_eq!(packet.transport_checksum_ok(), Some(true));
}

#[test]
fn checksums_cover_the_final_destination_of_a_routing_header() {
    let last = Ipv6Addr::new(0x2001, 2, 0, 9, 0, 0, 0, 9);
    let listed = |kind| match kind {
        4 => [last, V6.1],
        _ => [V6.1, last],
    };
    for (kind, segments_left, to) in [
        (0, 1, last),
        (2, 1, last),
        (4, 1, last),
        (4, 0, V6.1),
        // Compressed addresses (RFC 6554).
        (3, 1, V6.1),
    ] {
        let mut chain = vec![17, 4, kind, segments_left, 0, 0, 0, 0];
        chain.extend(listed(kind).map(|a| a.octets()).concat());
        let mut udp = UDP.to_vec();
        let sum = Sum::new().add_pseudo_v6(V6.0, to, 17, 13).add_bytes(&udp).udp_checksum();
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        let bytes = ipv6(43, &[chain, udp].concat());
        let packet = Packet::from_ip(&bytes).unwrap();
        assert_eq!(packet.transport_checksum_ok(), Some(true), "type {kind}");
        let Network::Ipv6(ip) = packet.network else { panic!("{packet:?}") };
        assert_eq!((ip.destination(), ip.final_destination()), (V6.1, to), "type {kind}");
    }
    // Too short for an address.
    let short = ipv6(43, &[59, 0, 4, 1, 0, 0, 0, 0]);
    assert_eq!(Ipv6::new(&short).unwrap().final_destination(), V6.1);
}

#[test]
fn ipv6_fragments() {
    let mut bytes = vec![17, 0, 0, 9, 1, 2, 3, 4];
    bytes.extend(&UDP[8..]);
    let packet = ipv6(44, &bytes);
    let packet = Packet::from_ip(&packet).unwrap();
    assert_eq!(packet.fragment(), Some(Fragment { id: 0x0102_0304, offset: 8, more: true }));
    assert_eq!(packet.transport, Transport::LaterFragment(17, b"hello"));
    // The data of a later fragment is not a header, even if the next header is an extension header.
    bytes[0] = 60;
    let packet = ipv6(44, &bytes);
    let packet = Packet::from_ip(&packet).unwrap();
    assert_eq!(packet.transport, Transport::LaterFragment(60, b"hello"));
}

#[test]
fn chains_are_bounded() {
    let options = [60, 0, 0, 0, 0, 0, 0, 0];
    let mut chain = options.repeat(MAX_EXTENSION_HEADERS - 1);
    chain.extend([59, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Packet::from_ip(&ipv6(60, &chain)).unwrap().transport, Transport::None);
    let chain = options.repeat(MAX_EXTENSION_HEADERS + 1);
    let deep = PacketError::TooDeep { layer: Layer::Ipv6, limit: MAX_EXTENSION_HEADERS };
    assert_eq!(Ipv6::new(&ipv6(60, &chain)), Err(deep));

    let tag = [0x81, 0, 0, 1];
    let frame = ethernet(&[tag; MAX_VLAN_TAGS], 0x0806, &[]);
    assert_eq!(Ethernet::new(&frame).unwrap().vlan_tags().count(), MAX_VLAN_TAGS);
    let frame = ethernet(&[tag; MAX_VLAN_TAGS + 1], 0x0806, &[]);
    let deep = PacketError::TooDeep { layer: Layer::Ethernet, limit: MAX_VLAN_TAGS };
    assert_eq!(Ethernet::new(&frame), Err(deep));
}

#[test]
fn tcp_with_options() {
    let mut tcp =
        vec![0x24, 0x83, 0x30, 0x39, 0, 0, 0, 1, 0, 0, 0, 2, 0xa1, 0x12, 0xff, 0xfe, 0, 0, 0, 3];
    tcp.extend([2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 8, 1, 3, 3, 10]);
    tcp.extend(b"data");
    let tcp = with_checksum_v4(protocol::TCP, tcp, 16);
    let bytes = ipv4(6, 0, &[], &tcp);
    let packet = Packet::from_ip(&bytes).unwrap();
    assert_eq!(packet.transport_checksum_ok(), Some(true));
    let Transport::Tcp(tcp) = packet.transport else { panic!("{packet:?}") };
    assert_eq!(
        (tcp.sequence(), tcp.acknowledgement(), tcp.window(), tcp.urgent_pointer()),
        (1, 2, 0xfffe, 3)
    );
    // AE, ACK, SYN.
    assert_eq!(tcp.flags(), 0x112);
    assert_eq!(tcp.payload(), b"data");
    let options: Vec<_> = tcp.options().collect();
    let want = [
        TcpOption::MaximumSegmentSize(1460),
        TcpOption::SackPermitted,
        TcpOption::Timestamps { value: 7, echo: 8 },
        TcpOption::WindowScale(10),
    ];
    assert_eq!(options, want);
}

#[test]
fn malformed_tcp_options_end_the_list() {
    let mut tcp = [0; 28];
    tcp[12] = 0x70;
    for (bytes, count) in [
        ([253, 3, 9, 2, 0, 0, 0, 0], 1), // a length of 0
        ([2, 9, 0, 0, 0, 0, 0, 0], 0),   // a length beyond the header
        ([1, 1, 1, 1, 1, 1, 1, 4], 0),   // a kind without length
        ([0, 4, 2, 4, 2, 4, 2, 4], 0),   // the end, then ignored bytes
    ] {
        tcp[20..].copy_from_slice(&bytes);
        assert_eq!(Tcp::new(&tcp).unwrap().options().count(), count, "{bytes:?}");
    }
}

#[test]
fn udp_lite_has_its_stated_coverage() {
    let lite = |coverage: u8| {
        let mut bytes = UDP.to_vec();
        bytes[5] = coverage;
        let covered = if coverage == 0 { 13 } else { usize::from(coverage).min(13) };
        let sum = Sum::new().add_pseudo_v4(V4.0, V4.1, 136, 13).add_bytes(&bytes[..covered]);
        bytes[6..8].copy_from_slice(&sum.udp_checksum().to_be_bytes());
        ipv4(136, 0, &[], &bytes)
    };
    for (coverage, tail_counts) in [(0, true), (13, true), (8, false)] {
        let mut bytes = lite(coverage);
        assert_eq!(Packet::from_ip(&bytes).unwrap().transport_checksum_ok(), Some(true));
        *bytes.last_mut().unwrap() ^= 1;
        let ok = Packet::from_ip(&bytes).unwrap().transport_checksum_ok();
        assert_eq!(ok, Some(!tail_counts), "coverage {coverage}");
    }
    for coverage in [1, 7, 14] {
        let error = Packet::from_ip(&lite(coverage)).unwrap_err();
        let (layer, value) = (Layer::UdpLite, coverage.into());
        assert_eq!(error, PacketError::BadField { layer, field: "checksum coverage", value });
    }
}

#[test]
fn icmp_of_both_families() {
    let mut echo = vec![8, 0, 0, 0, 0x12, 0x34, 0, 7, b'p'];
    let sum = Sum::new().add_bytes(&echo).checksum();
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    let bytes = ipv4(1, 0, &[], &echo);
    let packet = Packet::from_ip(&bytes).unwrap();
    let Transport::Icmp(icmp) = packet.transport else { panic!("{packet:?}") };
    assert_eq!(
        (icmp.message_type(), icmp.code(), icmp.echo_id(), icmp.echo_sequence()),
        (8, 0, 0x1234, 7)
    );
    assert_eq!((icmp.payload(), icmp.rest_of_header()), (&b"p"[..], 0x1234_0007));
    assert_eq!(packet.transport_checksum_ok(), Some(true));

    let mut echo = vec![128, 0, 0, 0, 0x12, 0x34, 0, 7];
    let sum = Sum::new().add_pseudo_v6(V6.0, V6.1, 58, 8).add_bytes(&echo).checksum();
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    let bytes = ipv6(58, &echo);
    let packet = Packet::from_ip(&bytes).unwrap();
    assert!(matches!(packet.transport, Transport::Icmpv6(_)));
    assert_eq!(packet.transport_checksum_ok(), Some(true));
}

#[test]
fn other_protocols_are_returned_whole() {
    let frame = ethernet(&[], ethertype::ARP, &[1, 2, 3]);
    let packet = Packet::from_ethernet(&frame).unwrap();
    assert_eq!((packet.network, packet.transport), (Network::Arp(&[1, 2, 3]), Transport::None));
    let frame = ethernet(&[], 0x0026, &[0x42, 0x42, 3]);
    let packet = Packet::from_ethernet(&frame).unwrap();
    assert_eq!(packet.network, Network::Other(0x26, &[0x42, 0x42, 3]));
    let esp = ipv4(50, 0, &[], &[9; 5]);
    assert_eq!(Packet::from_ip(&esp).unwrap().transport, Transport::Other(50, &[9; 5]));
}

#[test]
fn each_error_has_its_header() {
    let truncated = |layer, have, need| PacketError::Truncated { layer, have, need };
    assert_eq!(Packet::from_ethernet(&[0; 13]), Err(truncated(Layer::Ethernet, 13, 14)));
    assert_eq!(Packet::from_ip(&[]), Err(truncated(Layer::Ipv4, 0, 20)));
    let good = ipv4(17, 0, &[], &UDP);
    assert_eq!(Packet::from_ip(&good[..32]), Err(truncated(Layer::Ipv4, 32, 33)));
    let bad = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Packet::from_ip(&bytes).unwrap_err()
    };
    let field = |layer, field, value| PacketError::BadField { layer, field, value };
    assert_eq!(bad(0, 0x55), field(Layer::Ipv4, "version", 5));
    assert_eq!(bad(0, 0x44), field(Layer::Ipv4, "header length", 16));
    assert_eq!(bad(3, 19), field(Layer::Ipv4, "total length", 19));
    assert_eq!(bad(25, 7), field(Layer::Udp, "length", 7));
    assert_eq!(bad(25, 14), truncated(Layer::Udp, 13, 14));
    assert_eq!(bad(9, 6), truncated(Layer::Tcp, 13, 20));
    let mut tcp = [0; 20];
    tcp[12] = 0x40;
    assert_eq!(Tcp::new(&tcp), Err(field(Layer::Tcp, "data offset", 16)));
    assert_eq!(Packet::from_ip(&[0x60; 39]), Err(truncated(Layer::Ipv6, 39, 40)));
}

#[test]
fn super_packets_have_a_length_of_zero() {
    let mut bytes = ipv4(17, 0, &[], &UDP);
    bytes[2..4].fill(0);
    bytes[24..26].fill(0);
    assert_eq!(
        Packet::from_ip(&bytes),
        Err(PacketError::BadField { layer: Layer::Ipv4, field: "total length", value: 0 })
    );
    bytes.resize(70_000, 0);
    let Transport::Udp(udp) = Packet::from_ip(&bytes).unwrap().transport else { panic!() };
    assert_eq!(udp.bytes().len(), 70_000 - 20);
    let mut bytes = ipv6(17, &UDP);
    bytes[4..6].fill(0);
    bytes[44..46].fill(0);
    bytes.resize(70_000, 0);
    let Transport::Udp(udp) = Packet::from_ip(&bytes).unwrap().transport else { panic!() };
    assert_eq!(udp.bytes().len(), 70_000 - 40);
}
