use proptest::prelude::*;

use super::*;
use crate::impairment::Impairment;

fn read(filter: &str) -> Result<Filter, ModelError> {
    let text = format!("schema = 'weir.impair/1'\n[[flow]]\nname = 'f'\nfilter = {{ {filter} }}");
    Ok(Impairment::parse(&text)?.flows[0].filter.clone().unwrap_or_default())
}

#[test]
fn a_condition_may_be_negated() {
    let filter = read("destination_port = 'not 22,80', dscp = '!ef', vlan = 'not  5'").unwrap();
    let port = filter.destination_port.unwrap();
    assert_eq!((port.negated, &port.value.0[..]), (true, &[(22, 22), (80, 80)][..]));
    assert_eq!(port.matching(), None);
    assert_eq!(port.to_string(), "not 22,80");
    assert_eq!(filter.dscp, Some(Condition { negated: true, value: Dscp(46) }));
    assert_eq!(filter.vlan.unwrap().to_string(), "not 5");
    // A value that begins like the word.
    let ecn = read("ecn = 'not-ect'").unwrap().ecn.unwrap();
    assert!(!ecn.negated);
    let ecn = read("ecn = 'not not-ect'").unwrap().ecn.unwrap();
    assert_eq!((ecn.negated, ecn.to_string().as_str()), (true, "not not-ect"));
    for bad in ["not", "!", "not not 5", "not5", "! !5", "notable"] {
        assert!(bad.parse::<Condition<Ranges>>().is_err(), "{bad}");
    }
}

#[test]
fn values_print_back_in_canonical_form() {
    fn canonical<T: FromStr<Err = ModelError> + ToString>(text: &str) -> String {
        text.parse::<T>().map(|value| value.to_string()).unwrap_or_default()
    }
    use std::str::FromStr;
    for (given, expected) in
        [("CE", "ce"), ("ect0, ect1", "ect1,ect0"), ("not-ect", "not-ect"), ("", ""), ("ect2", "")]
    {
        assert_eq!(canonical::<EcnCodePoints>(given), expected, "{given}");
    }
    for (given, expected) in [
        ("SYN", "syn"),
        ("ack,syn", "syn,ack"),
        ("syn/syn,ack", "syn/syn,ack"),
        ("0x02/0x12", "syn/syn,ack"),
        ("syn/syn", "syn"),
        ("none", "none"),
        ("none/syn", "none/syn"),
        ("syn/ack", ""),
        ("0/0", ""),
        ("0x200", ""),
        ("syn,", ""),
    ] {
        assert_eq!(canonical::<TcpFlags>(given), expected, "{given}");
    }
    for (given, expected) in [
        ("8", "echo-request"),
        ("echo-request,0", "echo-request,echo-reply"),
        ("3/4", "destination-unreachable/4"),
        ("destination-unreachable/0-3", "destination-unreachable/0-3"),
        ("3/0-255", "destination-unreachable"),
        ("13-18", "13-18"),
        ("13-18/1", ""),
        ("256", ""),
        ("3/256", ""),
        ("packet-too-big", ""),
    ] {
        assert_eq!(canonical::<IcmpTypes>(given), expected, "{given}");
    }
    assert_eq!(canonical::<Icmpv6Types>("2,135/0"), "packet-too-big,neighbor-solicitation/0");
    for (given, expected) in [
        ("02:00:00:00:00:0A", "02:00:00:00:00:0a"),
        ("02-00-00-00-00-01,02:00:00:00:00:02", "02:00:00:00:00:01,02:00:00:00:00:02"),
        ("02:03:04:05:06:07/16", "02:03:00:00:00:00/16"),
        ("02:03:04:05:06:07/ff:ff:00:00:00:00", "02:03:00:00:00:00/16"),
        ("03:03:04:05:06:07/01:00:00:00:00:01", "01:00:00:00:00:01/01:00:00:00:00:01"),
        ("02:00:00:00:00:00/0", "00:00:00:00:00:00/0"),
        ("02:00:00:00:00", ""),
        ("02:00:00:00:00:00:00", ""),
        ("02:00:00:00:00:00/49", ""),
        ("2:0:0:0:0:0", ""),
        ("02:00:00:00:00:+1", ""),
    ] {
        assert_eq!(canonical::<MacAddresses>(given), expected, "{given}");
    }
    for (given, expected) in [
        ("0A at l3+9", "0a at l3+9"),
        ("40/f0  at l4+12", "40/f0 at l4+12"),
        ("00ff at l2+0", "00ff at l2"),
        ("16 at payload+65535", "16 at payload+65535"),
        ("16 at payload+65536", ""),
        ("16 at payload++1", ""),
        ("16 at l5", ""),
        ("16", ""),
        ("1 at l2", ""),
        ("16/ff00 at l2", ""),
        (" at l2", ""),
    ] {
        assert_eq!(canonical::<BytesAt>(given), expected, "{given}");
    }
    assert_eq!(canonical::<Fragments>("Later"), "later");
    assert_eq!(canonical::<Fragments>("middle"), "");
}

#[test]
fn flags_match_by_their_mask() {
    let matches = |text: &str, flags: u16| {
        let ranges = text.parse::<TcpFlags>().unwrap().ranges();
        ranges.iter().any(|(low, high)| (*low..=*high).contains(&flags))
    };
    const SYN: u16 = 2;
    const ACK: u16 = 16;
    for (text, flags, expected) in [
        ("syn", SYN, true),
        ("syn", SYN | ACK, true),
        ("syn", ACK, false),
        ("syn/syn,ack", SYN, true),
        ("syn/syn,ack", SYN | ACK, false),
        ("syn/syn,ack", SYN | 0x100, true),
        ("syn,ack", SYN, false),
        ("syn,ack", SYN | ACK | 1, true),
        ("none", 0, true),
        ("none", 0x100, false),
        ("none/syn", ACK, true),
    ] {
        assert_eq!(matches(text, flags), expected, "{text} {flags:#x}");
    }
}

#[test]
fn numbers_out_of_range_are_refused_by_field() {
    for (field, given, accepted) in [
        ("vlan_priority", "8", "0 to 7"),
        ("inner_vlan", "4096", "0 to 4095"),
        ("inner_vlan_priority", "not 9", "0 to 7"),
        ("mpls_label", "1048576", "0 to 1048575"),
    ] {
        let Err(ModelError::Document(error)) = read(&format!("{field} = '{given}'")) else {
            panic!("{field}")
        };
        assert_eq!(error.field, format!("flow[0].filter.{field}"));
        assert_eq!(error.accepted, accepted);
    }
}

#[test]
fn the_reverse_direction_swaps_mac_addresses() {
    let filter = read("source_mac = '02:00:00:00:00:01', tcp_flags = 'syn'").unwrap();
    let back = filter.seen_in(crate::plan::Direction::Reverse);
    assert_eq!((&back.source_mac, &back.destination_mac), (&None, &filter.source_mac));
    assert_eq!(back.tcp_flags, filter.tcp_flags);
}

proptest! {
    #[test]
    fn any_text_is_refused_or_prints_back(
        text in "(not |!)?([a-z]{0,4}[0-9a-f:,/ -]{0,24}|(syn|ack|fin|ce|ect0|redirect)[,/](syn,ack|ect1|[0-9]-9)|[0-9a-f]{1,8} at (l[2-4]|payload)([+][0-9]{1,6})?|([0-9a-f]{2}:){5}[0-9a-f]{2}/([0-9]{1,2}|([0-9a-f]{2}:){5}[0-9a-f]{2}))",
    ) {
        macro_rules! back { ($t:ty) => {
            if let Ok(value) = text.parse::<Condition<$t>>() {
                prop_assert_eq!(value.to_string().parse::<Condition<$t>>().unwrap(), value);
            }
        } }
        back!(Ranges);
        back!(EcnCodePoints);
        back!(TcpFlags);
        back!(Fragments);
        back!(IcmpTypes);
        back!(Icmpv6Types);
        back!(MacAddresses);
        back!(BytesAt);
    }
}
