//! ECN: marks of a firewall on the path are those that the receiver counts.

use crate::common;
use common::Bench;

/// Marks every fourth ECN-capable datagram of the data, and all ECN-capable segments of TCP. Hellos and reports are shorter.
const MARKS: &str = "
table inet weir {
    counter marked {}
    chain output {
        type filter hook output priority 0;
        meta l4proto udp udp length 408 ip ecn { ect0, ect1 } numgen inc mod 4 0 counter name marked ip ecn set ce
        meta l4proto udp udp length 408 ip6 ecn { ect0, ect1 } numgen inc mod 4 0 counter name marked ip6 ecn set ce
        meta l4proto tcp ip ecn { ect0, ect1 } ip ecn set ce
    }
}
";

#[test]
fn the_receiver_counts_the_marks_of_the_path() {
    let test = "the_receiver_counts_the_marks_of_the_path";
    let Some(mut bench) = Bench::up(test, &["nft"]) else { return };
    bench.serve(&[]);
    bench.nft("a", MARKS);
    let host = bench.lab.host("b").unwrap();
    let addresses = [host.ipv4.to_string(), host.ipv6.to_string()];
    let mut marked = 0;
    for address in &addresses {
        for (ecn, dscp) in [("on", "ef"), ("ect1", "0")] {
            let words =
                ["-u", "--ecn", ecn, "--dscp", dscp, "-l", "400", "-b", "500pps", "-t", "0.4"];
            let record = bench.test_to(address, &words);
            let receiver = record.flows[0].receiver.as_ref().unwrap();
            let counts = receiver.ecn.clone().unwrap();
            let before = marked;
            marked = bench.nft_counter("a", "inet", "marked").0;
            assert!(receiver.packets > 50 && receiver.lost_packets == Some(0), "{receiver:?}");
            assert_eq!(counts.ce_packets, marked - before, "{ecn} {address}");
            let (of, other) = match ecn {
                "ect1" => (counts.ect1_packets, counts.ect0_packets),
                _ => (counts.ect0_packets, counts.ect1_packets),
            };
            assert_eq!(of + counts.ce_packets, receiver.packets, "{counts:?}");
            assert_eq!((other, counts.not_ect_packets), (0, 0), "{counts:?}");
        }
    }
    // Nothing is counted of datagrams that are not ECN-capable.
    let record = bench.test(&["-u", "-l", "400", "-b", "500pps", "-t", "0.3"]);
    assert_eq!(record.flows[0].receiver.as_ref().unwrap().ecn, None);
    assert_eq!(bench.nft_counter("a", "inet", "marked").0, marked);
}

#[test]
fn tcp_reports_whether_ecn_was_negotiated() {
    let test = "tcp_reports_whether_ecn_was_negotiated";
    let Some(mut bench) = Bench::up(test, &["nft"]) else { return };
    bench.serve(&[]);
    bench.nft("a", MARKS);
    for (setting, negotiated) in [("0", false), ("1", true)] {
        bench.tool("a", "sysctl", &["-q", "-w", &format!("net.ipv4.tcp_ecn={setting}")]);
        let record = bench.test(&["-b", "20M", "-t", "0.5"]);
        let tcp = record.flows[0].tcp.as_ref().unwrap();
        assert_eq!(tcp.ecn, Some(negotiated));
        assert_eq!(tcp.ce_segments.is_some_and(|marked| marked > 0), negotiated, "{tcp:?}");
    }
}
