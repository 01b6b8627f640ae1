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

#[test]
fn an_expression_keeps_its_own_not() {
    let filter = read("pcap = \"not  tcp port 80\\nand (ip[2:2]+-20 > 5)\"").unwrap();
    let expression = filter.pcap.unwrap();
    assert_eq!(expression.text(), "not tcp port 80 and (ip[2:2]+ -20 > 5)");
    for bad in ["", " ", "ip)", "(ip", ")ip(", "host a, host b", "host ä", "ip\u{0}"] {
        let error = bad.parse::<PcapExpression>().unwrap_err();
        assert!(matches!(error, ModelError::Value { what: "pcap", .. }), "{bad:?}");
    }
    assert!("ip or ".repeat(170).parse::<PcapExpression>().is_ok());
    assert!("ip or ".repeat(171).parse::<PcapExpression>().is_err());
    let Err(ModelError::Document(error)) = read("pcap = '(ip'") else { panic!() };
    assert_eq!((error.field.as_str(), error.given.as_str()), ("flow[0].filter.pcap", "(ip"));
    let Err(ModelError::Document(error)) = read("pcap = 7") else { panic!() };
    assert_eq!(error.field, "flow[0].filter.pcap");
}

#[test]
fn expressions_are_equal_by_their_text_and_keep_their_program() {
    let [compiled, other] = ["ip", "ip"].map(|text| text.parse::<PcapExpression>().unwrap());
    let program = BpfInstruction { code: 6, jt: 0, jf: 0, k: 1 };
    compiled.set_program(vec![program]);
    compiled.set_program(vec![]);
    assert_eq!(compiled.clone().program(), Some(&[program][..]));
    assert_eq!(compiled, other);
    assert_eq!(other.program(), None);
}

#[test]
fn the_number_of_expressions_is_limited() {
    let with = |n: usize| {
        let flows = (0..n).map(|i| format!("[[flow]]\nname = '{i}'\nfilter = {{ pcap = 'ip' }}\n"));
        Impairment::parse(&format!("schema = 'weir.impair/1'\n{}", flows.collect::<String>()))
    };
    assert!(with(MAX_PCAP_EXPRESSIONS).is_ok());
    assert!(with(MAX_PCAP_EXPRESSIONS + 1).is_err());
}

#[test]
fn all_expressions_are_found_by_their_paths() {
    let text = "schema = 'weir.impair/1'
        [[filter_group]]
        name = 'g'
        filters = [{ vlan = 1 }, { pcap = 'g1' }]
        [[flow]]
        name = 'other filters'
        filter_groups = ['g']
        filter = { vlan = 2 }
        a_to_b = 'loss 1%, trigger match(vlan=1)'
        [[flow]]
        name = 'f'
        filter = { pcap = 'f' }
        filter_a = { pcap = 'fa' }
        filter_b = { pcap = 'fb' }
        a_to_b = 'trigger match(pcap=s1, vlan=4) stop match(pcap=(s2) and ((ip[0]=5)))'
        b_to_a = 'trigger stop match(pcap=s3)'
        [other]
        both = 'trigger match(pcap=o)'
        [timeline]
        change = [{ at = '1s', b_to_a = 'trigger match(pcap=t)' }]";
    let read = Impairment::parse(text).unwrap();
    let found = read.pcap_expressions();
    let found: Vec<_> = found.iter().map(|(at, one)| (at.as_str(), one.text())).collect();
    assert_eq!(
        found,
        [
            ("filter_group[0].filters[1].pcap", "g1"),
            ("flow[1].filter.pcap", "f"),
            ("flow[1].filter_a.pcap", "fa"),
            ("flow[1].filter_b.pcap", "fb"),
            ("flow[1].a_to_b.trigger.start.pcap", "s1"),
            ("flow[1].a_to_b.trigger.stop.pcap", "(s2) and ((ip[0]=5))"),
            ("flow[1].b_to_a.trigger.stop.pcap", "s3"),
            ("other.a_to_b.trigger.start.pcap", "o"),
            ("other.b_to_a.trigger.start.pcap", "o"),
            ("timeline.change[0].b_to_a.trigger.start.pcap", "t"),
        ]
    );
    let back = read.filters(crate::plan::Direction::Reverse, 1);
    let texts: Vec<_> = back.iter().filter_map(|(_, f)| f.pcap.as_ref()?.text().into()).collect();
    assert_eq!(texts, ["g1", "fb"]);
}

proptest! {
    #[test]
    fn an_expression_in_a_line_prints_back(text in "[a-z0-9 ()+=&|!:<>\\[\\]-]{1,40}") {
        if let Ok(expression) = text.parse::<PcapExpression>() {
            let again: PcapExpression = expression.text().parse().unwrap();
            prop_assert_eq!(again.text(), expression.text());
            let filter = Filter { pcap: Some(expression), ..Filter::default() };
            let start = Some(crate::impairment::TriggerCondition::Match(Box::new(filter)));
            let trigger = Some(crate::impairment::Trigger { start, ..Default::default() });
            let laws = crate::impairment::Laws { trigger, ..Default::default() };
            let line = laws.to_string();
            prop_assert_eq!(line.parse::<crate::impairment::Laws>(), Ok(laws));
        }
    }

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
