//! A server's range of data ports, behind a firewall that passes only the control port and this range.

use crate::common;
use common::{Bench, run};

/// Drops packets to any other port of host b. It would also drop answers to connections that b opens, but b opens none.
const FIREWALL: &str = "
table inet weir {
    counter refused {}
    chain input {
        type filter hook input priority 0; policy drop;
        iif lo accept
        meta l4proto { icmp, ipv6-icmp } accept
        tcp dport { 9347, 5000-5007 } accept
        udp dport { 9347, 5000-5007 } accept
        counter name refused
    }
}
";

const SHORT: [&str; 4] = ["-t", "0.3", "--loss-threshold", "300ms"];

#[test]
fn a_firewall_that_admits_the_range_lets_every_kind_of_test_through() {
    let test = "a_firewall_that_admits_the_range_lets_every_kind_of_test_through";
    let Some(mut bench) = Bench::up(test, &["nft"]) else { return };
    bench.serve(&["--data-ports", "5000-5007"]);
    bench.nft("b", FIREWALL);
    let udp = ["-u", "-b", "500pps", "-P", "4"];
    let tcp = ["-P", "6"];
    for mode in ["range", "dedicated"] {
        for kind in [&udp[..], &tcp[..], &["-R", "-u", "-b", "500pps", "-P", "4"], &["--bidir"]] {
            let record = bench.test(&[&SHORT[..], &["--data-ports", mode], kind].concat());
            for flow in &record.flows {
                let received = flow.receiver.as_ref().unwrap();
                assert!(received.bytes > 0 && received.lost_packets.unwrap_or(0) == 0, "{flow:?}");
                // The server's end has a port of the range.
                let there = [&flow.source, &flow.destination].map(|a| a.rsplit_once(':').unwrap());
                let port = there.iter().find(|(ip, _)| *ip == bench.b()).unwrap().1;
                assert!((5000..=5007).contains(&port.parse::<u16>().unwrap()), "{mode} {flow:?}");
            }
        }
    }
    // Every port is free again after each test, and no port outside the range was used.
    assert_eq!(bench.nft_counter("b", "inet", "refused"), (0, 0));

    // One flow more than the range has ports.
    let words = ["-u", "-P", "9", "--data-ports", "range"];
    let ended = run(bench.test_command(&words));
    assert_eq!((ended.refusal().code.as_str(), ended.refusal().exit_code), ("peer-unavailable", 3));
    bench.test(&[&SHORT[..], &["--data-ports", "range"], &udp].concat());
}

#[test]
fn without_a_range_the_same_firewall_is_in_the_way_and_a_range_is_refused() {
    let test = "without_a_range_the_same_firewall_is_in_the_way_and_a_range_is_refused";
    let Some(mut bench) = Bench::up(test, &["nft"]) else { return };
    // The system never chooses one of these ports.
    bench.tool("b", "sysctl", &["-q", "-w", "net.ipv4.ip_local_port_range=40000 60000"]);
    bench.serve(&[]);
    bench.nft("b", FIREWALL);
    let ended = run(bench.test_command(&["-u", "--data-ports", "dedicated"]));
    assert_eq!((ended.refusal().code.as_str(), ended.refusal().exit_code), ("udp-blocked", 3));
    assert!(bench.nft_counter("b", "inet", "refused").0 > 0);
    let ended = run(bench.test_command(&["-u", "--data-ports", "range"]));
    assert_eq!((ended.refusal().code.as_str(), ended.refusal().exit_code), ("peer-unavailable", 3));
}
