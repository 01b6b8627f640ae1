use super::*;
use crate::key::tests::udp_frame;
use proptest::prelude::*;
use weir_model::impairment::Ranges;

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
    assert_eq!(classifier.flow(&v4, length, 1), OTHER);
    let v6 = Key { source: mapped("2001:db8::1".parse().unwrap()), ..v4 };
    assert_eq!(classifier.flow(&v6, length, 1), 0);
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
        let first = classifier.flow(&key, length, 1);
        // The second time from the cache.
        assert_eq!(classifier.flow(&key, length, 1), first);
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
    assert_eq!(none.flow(&key, 60, 0), OTHER);
    let mut all = Classifier::new(&[Filter::default(), Filter::default()]).unwrap();
    assert!(!all.needs_keys());
    assert_eq!(all.flow(&key, 60, 0), 0);
}

#[test]
fn later_fragments_follow_the_first() {
    let mut classifier = Classifier::new(&[filter("destination_port = 5060")]).unwrap();
    let mut first = udp_frame((9, 5060), b"12345678");
    first[20] = 0x20;
    let mut later = udp_frame((0, 0), b"12345678");
    later[21] = 2;
    let (first, later) = (key_of(&first), key_of(&later));
    let mut flow = |(key, length): (Key, u32), now| classifier.flow(&key, length, now);
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
        classifier.flow(&key, length, 1 + u64::from(id));
    }
    let mut known = |id: u32| {
        let later = Key {
            fragment_id: id,
            fragment: FragmentPlace::Later,
            has_ports: false,
            ports: 0,
            ..key
        };
        classifier.flow(&later, length, 50_000) == 0
    };
    assert!((49_000..50_000).filter(|id| known(*id)).count() > 900);
    assert!((0..10_000).filter(|id| known(*id)).count() < 50);
}

fn arbitrary_filter() -> impl Strategy<Value = Filter> {
    let port = prop::option::of(
        (0u32..8, 0u32..8).prop_map(|(a, b)| Ranges(vec![(a.min(b), a.max(b)), (7, 7)])),
    );
    let address = prop::option::of(
        (0u8..4, 30u8..=32).prop_map(|(a, bits)| format!("10.0.0.{a}/{bits}").parse().unwrap()),
    );
    let small = prop::option::of(0u8..4);
    let vlan = prop::option::of((0u32..3).prop_map(|n| Ranges(vec![(n, n)])));
    let length =
        prop::option::of((40u32..50, 0u32..10).prop_map(|(a, b)| Ranges(vec![(a, a + b)])));
    (port.clone(), port, address.clone(), address, small.clone(), small, vlan, length).prop_map(
        |(source_port, destination_port, source, destination, protocol, dscp, vlan, length)| {
            Filter {
                source,
                destination,
                protocol: protocol
                    .map(|n| weir_model::impairment::Protocol(if n == 0 { 17 } else { n })),
                source_port,
                destination_port,
                dscp: dscp.map(weir_model::units::Dscp),
                vlan,
                ethertype: None,
                length,
            }
        },
    )
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
                vlan: if vlan == 3 { NO_VLAN } else { vlan },
                ethertype: 0x800,
                ..Key::default()
            };
            let expected = filters.iter().position(|filter| matches(filter, &key, length));
            let found = classifier.flow(&key, length, 1);
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
