use super::*;
use crate::key::NO_VLAN;
use crate::key::tests::udp_frame;
use proptest::prelude::*;
use weir_model::impairment::{Condition, Protocol, Ranges};
use weir_model::units::Dscp;
use weir_wire::bpf::Instruction;

fn filter(text: &str) -> Filter {
    // From a file, as users write it.
    let file = format!("schema = \"weir.impair/1\"\n[[flow]]\nname = \"f\"\nfilter = {{ {text} }}");
    let read = weir_model::impairment::Impairment::parse(&file).unwrap();
    read.flows[0].filter.clone().unwrap()
}

fn key_of(frame: &[u8]) -> (Key, u32) {
    (Key::of_frame(frame).0, frame.len() as u32)
}

#[test]
fn an_ipv6_prefix_does_not_match_ipv4() {
    let mut classifier = Classifier::new(&[filter("source = \"::/0\"")]).unwrap();
    let (v4, length) = key_of(&udp_frame((9, 5060), b""));
    assert_eq!(classifier.flow(&v4, length, RareMatch::NONE, 1), OTHER);
    let v6 = Key { source: mapped("2001:db8::1".parse().unwrap()), ..v4 };
    assert_eq!(classifier.flow(&v6, length, RareMatch::NONE, 1), 0);
}

#[test]
fn the_first_match_wins() {
    let filters = [
        filter("protocol = \"udp\", destination_port = \"5060-5090\", dscp = 46"),
        filter("destination = \"10.9.0.0/16\""),
        filter("protocol = \"udp\""),
        filter("length = \"0-50\""),
    ];
    let mut classifier = Classifier::new(&filters).unwrap();
    assert!(classifier.needs_keys());
    let mut flow = |frame: &[u8]| {
        let (key, length) = key_of(frame);
        let first = classifier.flow(&key, length, RareMatch::NONE, 1);
        // The second time from the cache.
        assert_eq!(classifier.flow(&key, length, RareMatch::NONE, 1), first);
        first
    };
    assert_eq!(flow(&udp_frame((9, 5060), b"")), 0);
    assert_eq!(flow(&udp_frame((9, 5090), b"")), 0);
    assert_eq!(flow(&udp_frame((9, 5091), b"")), 1);
    let mut other_network = udp_frame((9, 5059), b"");
    other_network[31] = 8;
    assert_eq!(flow(&other_network), 2);
    other_network[23] = 6; // TCP, too short for a header
    assert_eq!(flow(&other_network), 3);
    other_network.extend([0; 20]);
    assert_eq!(flow(&other_network), OTHER);
    assert_eq!(flow(&[]), 3);
}

#[test]
fn filters_without_fields_need_no_keys() {
    let key = Key::default();
    let mut none = Classifier::new(&[]).unwrap();
    assert!(!none.needs_keys());
    assert_eq!(none.flow(&key, 60, RareMatch::NONE, 0), OTHER);
    let mut all = Classifier::new(&[Filter::default(), Filter::default()]).unwrap();
    assert!(!all.needs_keys());
    assert_eq!(all.flow(&key, 60, RareMatch::NONE, 0), 0);
}

#[test]
fn later_fragments_follow_the_first() {
    let mut classifier = Classifier::new(&[filter("destination_port = 5060")]).unwrap();
    let mut first = udp_frame((9, 5060), b"12345678");
    first[20] = 0x20;
    let mut later = udp_frame((0, 0), b"12345678");
    later[21] = 2;
    let (first, later) = (key_of(&first), key_of(&later));
    let mut flow =
        |(key, length): (Key, u32), now| classifier.flow(&key, length, RareMatch::NONE, now);
    // Without the first fragment the ports are unknown.
    assert_eq!(flow(later, 5), OTHER);
    assert_eq!(flow(first, 10), 0);
    assert_eq!(flow(later, 20), 0);
    let mut another = later;
    another.0.fragment_id += 1;
    assert_eq!(flow(another, 20), OTHER);
    assert_eq!(flow(later, 10 + FRAGMENT_AGE_NS), 0);
    assert_eq!(flow(later, 11 + FRAGMENT_AGE_NS), OTHER);
}

#[test]
fn the_table_of_fragments_is_bounded_and_forgets_the_oldest() {
    let mut classifier = Classifier::new(&[filter("destination_port = 5060")]).unwrap();
    let mut first = udp_frame((9, 5060), b"12345678");
    first[20] = 0x20;
    let (mut key, length) = key_of(&first);
    for id in 0..50_000u32 {
        key.fragment_id = id;
        classifier.flow(&key, length, RareMatch::NONE, 1 + u64::from(id));
    }
    let mut known = |id: u32| {
        let later = Key {
            fragment_id: id,
            fragment: FragmentPlace::Later,
            has_ports: false,
            ports: 0,
            ..key
        };
        classifier.flow(&later, length, RareMatch::NONE, 50_000) == 0
    };
    assert!((49_000..50_000).filter(|id| known(*id)).count() > 900);
    assert!((0..10_000).filter(|id| known(*id)).count() < 50);
}

/// A condition that is absent, set or negated.
fn condition<T: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<Condition<T>>> {
    let any = (any::<bool>(), value).prop_map(|(negated, value)| Condition { negated, value });
    prop::option::of(any)
}

fn arbitrary_filter() -> impl Strategy<Value = Filter> {
    let port = || {
        condition((0u32..8, 0u32..8).prop_map(|(a, b)| Ranges(vec![(a.min(b), a.max(b)), (7, 7)])))
    };
    let address = || {
        let text = |(a, bits)| format!("10.0.0.{a}/{bits}").parse().unwrap();
        condition((0u8..4, 30u8..=32).prop_map(text))
    };
    let protocol = (0u8..4).prop_map(|n| Protocol(if n == 0 { 17 } else { n }));
    let vlan = (0u32..3).prop_map(|n| Ranges(vec![(n, n)]));
    let length = (40u32..50, 0u32..10).prop_map(|(a, b)| Ranges(vec![(a, a + b)]));
    let ecn = prop::sample::select(vec!["ce", "ect0,ect1", "not-ect"]);
    (
        (port(), port(), address(), address()),
        (condition(protocol), condition((0u8..4).prop_map(Dscp))),
        (condition(vlan), condition(length), condition(ecn.prop_map(|e| e.parse().unwrap()))),
    )
        .prop_map(|(ends, (protocol, dscp), (vlan, length, ecn))| {
            let (source_port, destination_port, source, destination) = ends;
            Filter {
                source,
                destination,
                protocol,
                source_port,
                destination_port,
                dscp,
                ecn,
                vlan,
                length,
                ..Filter::default()
            }
        })
}

proptest! {
    #[test]
    fn the_tables_agree_with_the_filters(
        filters in prop::collection::vec(arbitrary_filter(), 1..150),
        packets in prop::collection::vec((0u8..4, 0u8..4, 0u32..9, 0u32..9, 0u8..4, 0u8..5, 0u16..4, 38u32..64, 0u8..8), 1..60),
    ) {
        let mut classifier = Classifier::new(&filters).unwrap();
        for (from, to, source, destination, protocol, dscp, vlan, length, kind) in packets {
            let mapped = |last: u8| mapped(IpAddr::from([10, 0, 0, last]));
            let ip = kind > 0;
            let key = Key {
                source: if ip { mapped(from) } else { 0 },
                destination: if ip { mapped(to) } else { 0 },
                ports: if kind > 1 { source << 16 | destination } else { 0 },
                has_ports: kind > 1,
                protocol: if !ip { crate::key::NO_PROTOCOL } else if protocol == 0 { 17 } else { protocol.into() },
                dscp: if ip { dscp } else { 0 },
                ecn: if ip { from & 3 } else { 0 },
                vlan: if vlan == 3 { NO_VLAN } else { vlan },
                ethertype: 0x800,
                ..Key::default()
            };
            let expected = filters.iter().position(|filter| matches(filter, &key, length));
            let found = classifier.flow(&key, length, RareMatch::NONE, 1);
            prop_assert_eq!(found, expected.map_or(OTHER, |n| n as u32));
        }
    }
}

#[test]
fn too_large_tables_are_refused() {
    let filters = |count: u32| -> Vec<Filter> {
        (0..count)
            .map(|i| filter(&format!("source = \"10.{}.{}.0/25\"", i >> 8, i & 0xff)))
            .collect()
    };
    assert!(Classifier::new(&filters(4000)).is_ok());
    // An interval for each network and one after it, with a bit for each flow: 2 · 40 000² bits are 400 MB.
    let error = Classifier::new(&filters(40_000)).unwrap_err();
    let crate::ImpairError::TablesTooLarge { flows, bytes, most } = error else {
        panic!("{error}")
    };
    assert_eq!((flows, most), (40_000, MAX_TABLE_BYTES));
    assert!((400_000_000..410_000_000).contains(&bytes), "{bytes}");
}

/// The flow of each frame, in order.
fn flows(filters: &[&str], frames: &[&[u8]]) -> Vec<u32> {
    let filters: Vec<Filter> = filters.iter().map(|text| filter(text)).collect();
    let mut classifier = Classifier::new(&filters).unwrap();
    frames.iter().map(|frame| flow_of(&mut classifier, frame)).collect()
}

fn flow_of(classifier: &mut Classifier, frame: &[u8]) -> u32 {
    let (key, layers) = Key::of_frame(frame);
    let matching = |filters: &RareFilters| filters.matching(None, frame, &key, &layers);
    let rare = classifier.rare().map_or(RareMatch::NONE, matching);
    classifier.flow(&key, frame.len() as u32, rare, 1)
}

fn is(condition: &str, frame: &[u8]) -> bool {
    let matched = flows(&[condition], &[frame])[0] == 0;
    // The negated condition is the opposite, whatever the frame.
    if let Some((field, value)) = condition.split_once(" = ") {
        let value = value.trim_matches('"');
        let negated = format!("{field} = \"not {value}\"");
        assert_eq!(flows(&[&negated], &[frame])[0] == 0, !matched, "{negated}");
    }
    matched
}

fn tcp_frame(flags: u16) -> Vec<u8> {
    let mut frame = udp_frame((9, 80), &[0; 20]);
    frame[23] = 6;
    frame[46] = 0x50 | (flags >> 8) as u8;
    frame[47] = flags as u8;
    frame
}

fn tagged(mut frame: Vec<u8>, tags: &[[u8; 4]]) -> Vec<u8> {
    frame.splice(12..12, tags.concat());
    frame
}

#[test]
fn negated_conditions_match_packets_without_the_field() {
    let [http, other, arp] = [udp_frame((9, 80), b""), udp_frame((9, 81), b""), {
        let mut frame = vec![2; 60];
        frame[12..14].copy_from_slice(&[8, 6]);
        frame
    }];
    let frames = [&http[..], &other, &arp, &[]];
    assert_eq!(flows(&["destination_port = \"not 80\""], &frames), [OTHER, 0, 0, 0]);
    // All conditions must match.
    let udp = "protocol = \"udp\", destination_port = \"not 80\"";
    assert_eq!(flows(&[udp], &frames), [OTHER, 0, OTHER, OTHER]);
    assert_eq!(flows(&["source = \"not 10.0.0.0/8\""], &frames), [OTHER, OTHER, 0, 0]);
    assert_eq!(flows(&["source = \"not ::/0\""], &frames), [0, 0, 0, 0]);
    assert_eq!(flows(&["length = \"not 0-59\""], &frames), [OTHER, OTHER, 0, OTHER]);
    assert_eq!(flows(&["vlan = \"not 0-4095\""], &frames), [0, 0, 0, 0]);
}

#[test]
fn code_points_of_ecn() {
    let mut frame = udp_frame((9, 80), b"");
    for (code, name) in [(0, "not-ect"), (1, "ect1"), (2, "ect0"), (3, "ce")] {
        frame[15] = 0xb8 | code;
        for other in ["not-ect", "ect1", "ect0", "ce"] {
            assert_eq!(is(&format!("ecn = \"{other}\""), &frame), name == other, "{code} {other}");
        }
        assert_eq!(is("ecn = \"ect0,ect1\"", &frame), code == 1 || code == 2);
    }
    // Without an IP header there is no ECN field.
    assert!(!is("ecn = \"not-ect\"", &[2; 60]));
}

#[test]
fn flags_of_tcp() {
    for (condition, flags, expected) in [
        ("syn", 0x02, true),
        ("syn", 0x12, true),
        ("syn/syn,ack", 0x02, true),
        ("syn/syn,ack", 0x12, false),
        ("ae", 0x100, true),
        ("ae", 0x0ff, false),
    ] {
        let frame = tcp_frame(flags);
        let condition = format!("tcp_flags = \"{condition}\"");
        assert_eq!(is(&condition, &frame), expected, "{condition} {flags:#x}");
        assert_eq!(is(&condition, &tagged(frame, &[[0x81, 0, 0, 5]])), expected);
    }
    // Not of other protocols, of truncated headers, and of later fragments.
    let syn = "tcp_flags = \"syn\"";
    let mut udp = tcp_frame(2);
    udp[23] = 17;
    assert!(!is(syn, &udp));
    let mut later = tcp_frame(2);
    later[21] = 2;
    assert!(!is(syn, &later));
    let mut short = tcp_frame(2);
    short[46] = 0xf0;
    assert!(!is(syn, &short));
}

#[test]
fn messages_of_icmp() {
    let v4 = |kind: u8, code: u8| {
        let mut frame = udp_frame((u16::from_be_bytes([kind, code]), 0), b"");
        frame[23] = 1;
        frame
    };
    let v6 = |kind: u8, code: u8| {
        let mut frame = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 58, 64]].concat();
        frame.extend([0xfe; 32]);
        frame.extend([kind, code, 0, 0, 0, 0, 0, 0]);
        frame
    };
    for (condition, frame, expected) in [
        ("icmp = \"echo-request\"", v4(8, 0), true),
        ("icmp = 8", v4(8, 3), true),
        ("icmp = \"3/4\"", v4(3, 4), true),
        ("icmp = \"3/4\"", v4(3, 3), false),
        ("icmp = \"3/0-3,11\"", v4(11, 1), true),
        ("icmp = 8", v6(8, 0), false),
        ("icmpv6 = \"packet-too-big\"", v6(2, 0), true),
        ("icmpv6 = \"133-137\"", v6(136, 0), true),
        ("icmpv6 = \"133-137\"", v6(138, 0), false),
        ("icmpv6 = 8", v4(8, 0), false),
        ("icmp = 8", udp_frame((0x0800, 0), b""), false),
    ] {
        assert_eq!(is(condition, &frame), expected, "{condition} {frame:x?}");
    }
    // A message is at least eight bytes long.
    let mut short = v6(2, 0);
    short[19] = 7;
    assert!(!is("icmpv6 = 2", &short));
}

#[test]
fn fragments_by_their_place() {
    let fragment = |field: u16| {
        let mut frame = udp_frame((9, 80), b"12345678");
        frame[20..22].copy_from_slice(&field.to_be_bytes());
        frame
    };
    let (whole, first, later) = (fragment(0), fragment(0x2000), fragment(2));
    let frames = [&whole[..], &first, &later];
    let by = |condition: &str| frames.map(|frame| is(condition, frame));
    assert_eq!(by("fragment = \"any\""), [false, true, true]);
    assert_eq!(by("fragment = \"first\""), [false, true, false]);
    assert_eq!(by("fragment = \"later\""), [false, false, true]);
    assert_eq!(flows(&["fragment = \"not any\""], &frames), [0, OTHER, OTHER]);
    assert_eq!(flows(&["fragment = \"not first\""], &frames), [0, OTHER, 0]);
    // Later fragments follow the first one, unless a filter with a condition on fragments matches before.
    let port = "destination_port = 80";
    assert_eq!(flows(&[port, "fragment = \"later\""], &frames), [0, 0, 0]);
    assert_eq!(flows(&["fragment = \"first\"", port], &frames), [1, 0, 1]);
    assert_eq!(flows(&["fragment = \"later\"", port], &frames), [1, 1, 0]);
    let rare = "bytes = \"0050 at l4+2\"";
    assert_eq!(flows(&["fragment = \"first\"", rare], &frames), [1, 0, 1]);
    assert_eq!(flows(&[rare], &[&later]), [OTHER]);
}

#[test]
fn fields_of_the_link_layer() {
    // From 02:00:00:00:00:02 to 02:00:00:00:00:01.
    let plain = udp_frame((9, 80), b"");
    let vlan = tagged(plain.clone(), &[[0x81, 0, 0xa0, 5]]);
    let stacked = tagged(plain.clone(), &[[0x88, 0xa8, 0xe0, 7], [0x81, 0, 0x20, 9]]);
    let mut mpls = plain.clone();
    mpls.splice(12..14, [0x88, 0x47, 0x12, 0x34, 0x51, 0x40]);
    for (condition, expected) in [
        ("source_mac = \"02:00:00:00:00:02\"", [true, true, true, true]),
        ("source_mac = \"02:00:00:00:00:01\"", [false; 4]),
        ("destination_mac = \"02:00:00:00:00:00/40\"", [true; 4]),
        ("destination_mac = \"00:00:00:00:00:01/01:00:00:00:00:01\"", [true; 4]),
        ("destination_mac = \"01:00:00:00:00:01/01:00:00:00:00:01\"", [false; 4]),
        ("vlan_priority = 5", [false, true, false, false]),
        ("vlan_priority = \"5-7\"", [false, true, true, false]),
        ("inner_vlan = 9", [false, false, true, false]),
        ("inner_vlan_priority = 1", [false, false, true, false]),
        ("vlan = 7", [false, false, true, false]),
        ("mpls_label = 74565", [false, false, false, true]),
        ("mpls_label = \"0-74564\"", [false; 4]),
    ] {
        let found: Vec<bool> =
            [&plain, &vlan, &stacked, &mpls].iter().map(|frame| is(condition, frame)).collect();
        assert_eq!(found, expected, "{condition}");
    }
    mpls.truncate(17);
    assert!(!is("mpls_label = \"0-1048575\"", &mpls));
    assert!(!is("source_mac = \"02:00:00:00:00:02\"", &plain[..13]));
}

#[test]
fn bytes_at_an_offset() {
    let mut frame = udp_frame((9, 80), b"\x16\x03\x01");
    frame.extend([0x77; 9]); // padding
    for (condition, expected) in [
        ("0200 at l2", true),
        ("45 at l3", true),
        ("40/f0 at l3", true),
        ("50/f0 at l3", false),
        ("0050 at l4+2", true),
        ("160301 at payload", true),
        ("03 at payload+1", true),
        ("16ff01/ff00ff at payload", true),
        ("16030177 at payload", false),
        ("77 at payload+3", false),
        ("00/00 at l2+65535", false),
    ] {
        assert_eq!(is(&format!("bytes = \"{condition}\""), &frame), expected, "{condition}");
    }
    // The payload of a damaged transport header is unknown, and that of a frame without IP.
    let mut short = tcp_frame(2);
    short[46] = 0x40;
    let no_ip = [&frame[..12], &[0x12, 0x34], &frame[14..]].concat();
    // The data of a later fragment has no transport header.
    let mut later = frame.clone();
    later[21] = 2;
    assert!(is("bytes = \"45 at l3\"", &later));
    assert!(!is("bytes = \"00/00 at l4\"", &later));
    for damaged in [short, no_ip, later] {
        assert!(!is("bytes = \"00/00 at payload\"", &damaged));
    }
}

#[test]
fn filters_on_rare_fields_keep_their_place_among_the_others() {
    let (syn, ack) = (tcp_frame(2), tcp_frame(16));
    let frames = [&syn[..], &ack];
    let (flags, port) = ("tcp_flags = \"syn\"", "destination_port = 80");
    assert_eq!(flows(&[port, flags], &frames), [0, 0]);
    assert_eq!(flows(&[flags, port], &frames), [0, 1]);
    assert_eq!(flows(&[flags, "", port], &frames), [0, 1]);
    assert_eq!(flows(&[flags, "tcp_flags = \"ack\""], &frames), [0, 1]);
    // Of a combination, all conditions must match.
    assert_eq!(flows(&["tcp_flags = \"syn\", destination_port = 81"], &frames), [OTHER; 2]);
}

/// The instructions of `udp dst port N` for IPv4 without options.
fn to_udp_port(port: u32) -> Vec<Instruction> {
    let code = |code, jt, jf, k| Instruction { code, jt, jf, k };
    vec![
        code(0x30, 0, 0, 23),
        code(0x15, 0, 3, 17),
        code(0x28, 0, 0, 36),
        code(0x15, 0, 1, port),
        code(0x06, 0, 0, 65_535),
        code(0x06, 0, 0, 0),
    ]
}

#[test]
fn expressions_match_by_their_programs() {
    let filter = |port: u32, others: &str| {
        let filter = filter(&format!("{others}pcap = \"udp dst port {port}\""));
        filter.pcap.as_ref().unwrap().set_program(to_udp_port(port));
        filter
    };
    let [dns, web] = [udp_frame((9, 53), b"12345678"), udp_frame((9, 80), b"12345678")];
    let flows = |filters: &[Filter], frames: &[&[u8]]| -> Vec<u32> {
        let mut classifier = Classifier::new(filters).unwrap();
        frames.iter().map(|frame| flow_of(&mut classifier, frame)).collect()
    };
    let filters = [filter(80, "source_port = 8, "), filter(53, ""), self::filter("")];
    assert_eq!(flows(&filters, &[&dns, &web, &tcp_frame(2), &[]]), [1, 2, 2, 2]);
    // A later fragment belongs to the flow of the first one.
    let mut first = dns.clone();
    first[20] = 0x20;
    let mut later = first.clone();
    later[20..22].copy_from_slice(&[0, 1]);
    let mut stray = later.clone();
    stray[19] = 9;
    assert_eq!(flows(&filters[1..], &[&first, &later, &stray]), [0, 0, 0]);
    later[36..38].fill(0);
    stray[36..38].fill(0);
    assert_eq!(flows(&filters[1..], &[&first, &later, &stray]), [0, 0, 1]);
}

fn rare_filter() -> impl Strategy<Value = String> {
    let conditions = prop::sample::select(vec![
        "tcp_flags = \"N syn\"",
        "tcp_flags = \"N ack/ack,rst\"",
        "icmp = \"N 8\"",
        "icmpv6 = \"N 1-200\"",
        "fragment = \"N any\"",
        "fragment = \"N later\"",
        "vlan_priority = \"N 3\"",
        "inner_vlan = \"N 0-9\"",
        "source_mac = \"N 02:00:00:00:00:02\"",
        "destination_mac = \"N 01:00:00:00:00:00/01:00:00:00:00:00\"",
        "bytes = \"N 00/01 at l4+13\"",
        "bytes = \"N 00/ff at payload\"",
        "destination_port = \"N 80\"",
        "ecn = \"N not-ect\"",
        "length = \"N 40-60\"",
    ]);
    let negated = (conditions, any::<bool>())
        .prop_map(|(text, negated)| text.replace("N ", if negated { "not " } else { "" }));
    prop::collection::vec(negated, 0..3).prop_map(|mut all| {
        let field = |text: &String| text.split(' ').next().map(str::to_owned);
        all.dedup_by_key(|text| field(text));
        all.sort();
        all.dedup_by_key(|text| field(text));
        all.join(", ")
    })
}

proptest! {
    #[test]
    fn the_first_filter_that_matches_alone_wins(
        filters in prop::collection::vec(rare_filter(), 1..80),
        changes in prop::collection::vec((0usize..62, any::<u8>()), 0..4),
        base in 0usize..4,
        flags in 0u16..512,
    ) {
        let mut frame = match base {
            0 => udp_frame((9, 80), b"123"),
            1 => tcp_frame(flags),
            2 => tagged(tcp_frame(flags), &[[0x88, 0xa8, 0x60, 7], [0x81, 0, 0x20, 9]]),
            _ => tagged(udp_frame((0x800, 80), b"123"), &[[0x81, 0, 0x20, 9]]),
        };
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        let texts: Vec<&str> = filters.iter().map(String::as_str).collect();
        let alone = texts.iter().position(|one| flows(&[one], &[&frame])[0] == 0);
        let together = flows(&texts, &[&frame])[0];
        prop_assert_eq!(together, alone.map_or(OTHER, |n| n as u32));
    }
}

#[test]
fn shares_divide_connections_and_packets() {
    let filters = |name: &str| {
        let shares = ["30%", "30%-50%", "not 50%"];
        shares.map(|share| filter(&format!("{name} = \"{share}\"")))
    };
    let count = |name: &str, frame: &dyn Fn(u16) -> Vec<u8>| {
        let mut classifier = Classifier::new(&filters(name)).unwrap();
        let mut counts = [0_u32; 3];
        for n in 0..10_000 {
            let frame = frame(n);
            let (key, layers) = Key::of_frame(&frame);
            let rare = classifier.rare().unwrap().matching(None, &frame, &key, &layers);
            counts[classifier.flow(&key, frame.len() as u32, rare, 1) as usize] += 1;
        }
        counts
    };
    // Packets of one connection: in turns, so that every share has its part of any 1000.
    let counts = count("packet_share", &|_| udp_frame((1, 2), b""));
    assert!(
        counts.iter().zip([3000_u32, 2000, 5000]).all(|(n, of)| n.abs_diff(of) < 4),
        "{counts:?}"
    );
    assert!(count("connection_share", &|_| udp_frame((1, 2), b"")).contains(&10_000));
    // Connections: a hash, of which 10^9 trials would not show so great a deviation if it were random.
    let counts = count("connection_share", &|n| udp_frame((n, 2), b""));
    assert!(
        counts.iter().zip([3000_u32, 2000, 5000]).all(|(n, of)| n.abs_diff(of) < 310),
        "{counts:?}"
    );
}

#[test]
fn a_connection_is_in_one_share_in_both_directions() {
    let classifier = Classifier::new(&[filter("connection_share = \"50%\"")]).unwrap();
    let matches = |frame: &[u8]| {
        let (key, layers) = Key::of_frame(frame);
        classifier.rare().unwrap().matching(None, frame, &key, &layers)
    };
    let mut seen = [0, 0];
    for port in 0..200 {
        let there = udp_frame((port, 9), b"");
        let mut back = udp_frame((9, port), b"");
        back[26..30].copy_from_slice(&there[30..34]);
        back[30..34].copy_from_slice(&there[26..30]);
        assert_eq!(matches(&there), matches(&back), "{port}");
        seen[usize::from(matches(&there) == RareMatch::NONE)] += 1;
    }
    assert!(seen[0] > 40 && seen[1] > 40, "{seen:?}");
    // A frame that is not IP has no connection.
    assert_eq!(matches(&[0xff; 60]), RareMatch::NONE);
}
