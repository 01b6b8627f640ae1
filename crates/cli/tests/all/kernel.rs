//! Comparison with the kernel's own counters: of UDP, of the interface, and of a packet filter on the path.

use crate::common;
use std::collections::BTreeMap;

use common::Bench;
use serde_json::Value;

/// The `Udp` counters in /proc/net/snmp of a host.
fn udp(bench: &Bench, host: &str) -> BTreeMap<String, u64> {
    let text = bench.tool(host, "cat", &["/proc/self/net/snmp"]);
    let mut lines = text.lines().filter_map(|l| l.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    names
        .split_whitespace()
        .map(String::from)
        .zip(values.split_whitespace().map(|v| v.parse().unwrap()))
        .collect()
}

/// Counters of eth0 as iproute2 reads them, named as in the record.
fn link(bench: &Bench, host: &str) -> BTreeMap<String, u64> {
    let text = bench.tool(host, "ip", &["-s", "-s", "-j", "link", "show", "dev", "eth0"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    let stats = &json[0]["stats64"];
    let mut all = BTreeMap::new();
    for side in ["rx", "tx"] {
        for name in ["packets", "bytes", "errors", "dropped"] {
            all.insert(format!("{side}_{name}"), stats[side][name].as_u64().unwrap());
        }
    }
    all
}

/// Rules that count frames arriving at host b's interface: data and control datagrams, each by size, and all others.
const INGRESS: &str = "
table netdev weir {
    counter data {}
    counter control {}
    counter others {}
    chain ingress {
        type filter hook ingress device \"eth0\" priority 0;
        udp dport 9347 udp length 308 counter name data accept
        udp dport 9347 udp length 72 counter name control accept
        counter name others accept
    }
}
";
/// Rules that count what host a sends to itself: the program tests segmentation offload on loopback before it uses it.
const LOOPBACK: &str = "
table inet weir {
    counter own {}
    chain output {
        type filter hook output priority 0;
        oif lo meta l4proto udp counter name own
    }
}
";
const PAYLOAD: u64 = 300;

#[test]
fn the_kernels_counts_equal_ours_exactly() {
    let test = "the_kernels_counts_equal_ours_exactly";
    let Some(mut bench) = Bench::up(test, &["nft", "ip"]) else { return };
    bench.serve(&[]);
    bench.nft("b", INGRESS);
    bench.nft("a", LOOPBACK);
    let hosts = ["a", "b"];
    let udp_before = hosts.map(|h| udp(&bench, h));
    let filter = |name| bench.nft_counter("b", "netdev", name);
    let before = ["data", "control", "others"].map(filter);
    let link_before = link(&bench, "b");

    let size = PAYLOAD.to_string();
    let words = ["-u", "-b", "2000pps", "-l", &size, "-t", "1", "--gso", "off", "--gro", "off"];
    let record = bench.test(&words);

    let link_after = link(&bench, "b");
    let after = ["data", "control", "others"].map(filter);
    let udp_after = hosts.map(|h| udp(&bench, h));
    let since = |i: usize| (after[i].0 - before[i].0, after[i].1 - before[i].1);
    let ((data, data_bytes), (control, control_bytes)) = (since(0), since(1));
    let (others, other_bytes) = since(2);
    let (sender, receiver) =
        (record.flows[0].sender.as_ref().unwrap(), record.flows[0].receiver.as_ref().unwrap());

    // The filter counted exactly our data, including headers.
    assert_eq!((sender.packets, receiver.packets), (data, data));
    assert_eq!((receiver.lost_packets, receiver.duplicate_packets), (Some(0), Some(0)));
    assert_eq!(data_bytes, data * (PAYLOAD + 28));
    assert_eq!((sender.bytes, receiver.bytes), (data * PAYLOAD, data * PAYLOAD));

    // The UDP counters hold the data and the control datagrams: probes, and hellos for the flow and for the probes. A hello
    // is retransmitted if its answer takes 100 ms.
    let probes = record.latency.as_ref().unwrap();
    assert_eq!(probes.lost, 0);
    let hellos = control - probes.sent;
    assert!((2..=8).contains(&hellos), "{hellos}");
    let count = |host: usize, name: &str| udp_after[host][name] - udp_before[host][name];
    let own = bench.nft_counter("a", "inet", "own").0;
    assert_eq!(count(0, "OutDatagrams"), data + control + own);
    assert_eq!(count(1, "InDatagrams"), data + control);
    for name in ["InErrors", "RcvbufErrors", "SndbufErrors", "InCsumErrors", "NoPorts"] {
        for host in [0, 1] {
            assert_eq!(count(host, name), 0, "{name} of {}", hosts[host]);
        }
    }
    // b answers each control datagram with one of the same length.
    assert_eq!(count(1, "OutDatagrams"), count(0, "InDatagrams"));
    assert_eq!(count(1, "OutDatagrams"), control);

    // The interface: every frame is of one of the three kinds; 14 bytes of Ethernet are added to each.
    let link_since = |name: &str| link_after[name] - link_before[name];
    let frames = data + control + others;
    let stray = link_since("rx_packets").abs_diff(frames);
    assert!(stray <= 2, "{} frames, {frames} filtered", link_since("rx_packets"));
    if stray == 0 {
        assert_eq!(link_since("rx_bytes"), data_bytes + control_bytes + other_bytes + 14 * frames);
    }

    // The record's counters are within these bounds and include all data.
    let host = record.remote.as_ref().unwrap();
    assert_eq!(host.interfaces.len(), 1, "{:?}", host.interfaces);
    let interface = &host.interfaces[0];
    assert_eq!(interface.name, "eth0");
    for (name, first) in &link_before {
        let (ours_before, ours_after) =
            (interface.counters_before[name], interface.counters_after[name]);
        let last = link_after[name];
        assert!(
            *first <= ours_before && ours_before <= ours_after && ours_after <= last,
            "{name}: {first} {ours_before} {ours_after} {last}"
        );
    }
    let within = interface.counters_after["rx_packets"] - interface.counters_before["rx_packets"];
    assert!((data..=frames).contains(&within), "{data} {within} {frames}");
    assert_eq!(record.loss_ledger.as_ref().unwrap().rows, vec![]);
}

#[test]
fn drops_of_a_full_socket_equal_the_kernels_counter() {
    let test = "drops_of_a_full_socket_equal_the_kernels_counter";
    let Some(mut bench) = Bench::up(test, &[]) else { return };
    bench.serve(&[]);
    let before = udp(&bench, "b");
    // A small buffer, and a receiver that shares its processors with the sender.
    let words = ["-u", "-b", "0", "-l", "1000", "-t", "0.5", "-w", "4K", "--gso", "off"];
    let more = ["--gro", "off", "--loss-threshold", "300ms"];
    let record = bench.test(&[&words[..], &more[..]].concat());
    let after = udp(&bench, "b");
    let (sender, receiver) =
        (record.flows[0].sender.as_ref().unwrap(), record.flows[0].receiver.as_ref().unwrap());
    let dropped = after["RcvbufErrors"] - before["RcvbufErrors"];
    assert!(dropped > 0, "nothing overflowed: {receiver:?}");
    assert_eq!(receiver.socket_dropped_packets, Some(dropped));
    assert_eq!(receiver.lost_packets, Some(sender.packets - receiver.packets));
    assert_eq!(receiver.lost_packets, Some(dropped));
    let ledger = record.loss_ledger.as_ref().unwrap();
    assert_eq!((ledger.missing_packets, ledger.remainder_packets), (dropped as i64, 0));
    let row = &ledger.rows[0];
    assert_eq!((row.stage.as_str(), row.kind.as_str()), ("socket overflow", "exact"));
    assert_eq!(row.packets, dropped);
}

/// Rules that flip a bit in every 20th data datagram (8 + 400 bytes) and count these. A fixed wrong checksum would be right
/// for one datagram in 65 536.
const DAMAGING: &str = "table netdev weir {
    counter damaged {}
    chain ingress {
        type filter hook ingress device \"eth0\" priority -10;
        udp dport 9347 udp length 408 numgen inc mod 20 == 0 @th,1600,16 set @th,1600,16 ^ 1 counter name damaged
    }
}";

#[test]
fn damage_on_the_path_is_distinguished_from_a_full_socket_by_the_kernels_counters() {
    let test = "damage_on_the_path_is_distinguished_from_a_full_socket_by_the_kernels_counters";
    let Some(mut bench) = Bench::up(test, &["nft", "ethtool"]) else { return };
    bench.serve(&[]);
    bench.nft("b", DAMAGING);
    // A virtual link does not verify checksums that are left to the sender's interface: disable that offload.
    bench.tool("a", "ethtool", &["-K", "eth0", "tx", "off"]);
    let words = ["-u", "-b", "2000pps", "-k", "2000", "-l", "400", "--loss-threshold", "300ms"];
    let more = ["--gso", "off", "--gro", "off"];
    for address in [bench.b(), bench.lab.host("b").unwrap().ipv6.to_string()] {
        let before = bench.nft_counter("b", "netdev", "damaged").0;
        let record = bench.test_to(&address, &[&words[..], &more[..]].concat());
        let damaged = bench.nft_counter("b", "netdev", "damaged").0 - before;
        assert_eq!(damaged, 100, "{address}");
        let ledger = record.loss_ledger.as_ref().unwrap();
        let rows: Vec<_> =
            ledger.rows.iter().map(|r| (r.stage.as_str(), r.packets, r.kind.as_str())).collect();
        assert_eq!(rows, [("damaged on the path", damaged, "exact")], "{address}");
        assert_eq!((ledger.missing_packets, ledger.remainder_packets), (damaged as i64, 0));
        let codes: Vec<_> = record.warnings.iter().map(|w| w.code.as_str()).collect();
        assert!(codes.contains(&"checksum-errors"), "{codes:?}");
        assert!(!codes.contains(&"socket-overflow"), "{codes:?}");
    }
}

/// Rules that count the packets that a host sends: those with queueing priority 5, segments with data, and bare acknowledgements.
const SENT: &str = "
table inet weir {
    counter urgent {}
    counter segments {}
    counter acknowledgements {}
    chain output {
        type filter hook output priority 0;
        meta priority 0:5 meta length > 1000 counter name urgent
        meta l4proto tcp meta length > 100 counter name segments
        meta l4proto tcp tcp flags == ack meta length <= 80 counter name acknowledgements
    }
}
";

#[test]
fn packets_have_the_queueing_priority_of_the_plan_at_either_end() {
    let test = "packets_have_the_queueing_priority_of_the_plan_at_either_end";
    let Some(mut bench) = Bench::up(test, &["nft"]) else { return };
    bench.serve(&[]);
    for host in ["a", "b"] {
        bench.nft(host, SENT);
    }
    let urgent = |host| bench.nft_counter(host, "inet", "urgent").0;
    let words =
        ["-u", "-b", "2000pps", "-l", "1200", "-k", "300", "--gso", "off", "--priority", "5"];
    bench.test(&words);
    assert_eq!(urgent("a"), 300);
    bench.test(&["-R", "-n", "200K", "-l", "64K", "--priority", "5"]);
    assert!(urgent("b") > 0, "data of the server's connections has it too");
    assert_eq!(urgent("a"), 300, "acknowledgements do not");
}

#[test]
fn corked_writes_leave_in_full_segments() {
    let test = "corked_writes_leave_in_full_segments";
    let Some(mut bench) = Bench::up(test, &["nft"]) else { return };
    bench.serve(&[]);
    bench.nft("a", SENT);
    let segments = |words: &[&str]| {
        let before = bench.nft_counter("a", "inet", "segments").0;
        let writes = ["-l", "100", "-b", "2000pps", "-k", "1000", "-i", "0", "--no-latency"];
        bench.test(&[&writes, words].concat());
        bench.nft_counter("a", "inet", "segments").0 - before
    };
    let (small, corked) = (segments(&["-N"]), segments(&["--cork"]));
    // 100 000 bytes: 70 full segments, and one more every 200 ms.
    assert!(corked < 200 && small > 2 * corked, "{small} without, {corked} with --cork");
}

#[test]
fn acknowledgements_are_delayed_as_the_plan_says() {
    let test = "acknowledgements_are_delayed_as_the_plan_says";
    let Some(mut bench) = Bench::up(test, &["nft"]) else { return };
    bench.serve(&[]);
    bench.nft("b", SENT);
    let sent = |delayed| {
        let before = bench.nft_counter("b", "inet", "acknowledgements").0;
        let writes = ["-N", "-l", "1000", "-b", "50pps", "-k", "60", "-i", "0", "--no-latency"];
        bench.test(&[&writes[..], &["--delayed-ack", delayed]].concat());
        bench.nft_counter("b", "inet", "acknowledgements").0 - before
    };
    // A delayed acknowledgement covers two segments.
    let (immediate, delayed) = (sent("off"), sent("on"));
    assert!(immediate >= 50 && delayed + 15 < immediate, "{immediate} off, {delayed} on");
}
