//! UDP-Lite, multicast and broadcast between two hosts; Wireshark's programs confirm what is on the wire.

use crate::common;
use crate::tshark::Capture;
use std::path::Path;
use std::process::Command;

use common::{Bench, Running, run, signal, until};
use weir_model::record::{Flow, Receiver, Record, Sender};

const TOOLS: [&str; 3] = ["tshark", "dumpcap", "bash"];
/// Data, and the reports of memberships.
const FILTER: &str = "udp or igmp or icmp6 or ip proto 136 or ip6 proto 136 or ip6[6] = 0";
const GROUP: &str = "239.1.1.1";
const GROUP_V6: &str = "ff15::77:1";

/// The values of some fields in each captured packet that a display filter selects.
fn fields(file: &Path, filter: &str, names: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", file.to_str().unwrap(), "-Y", filter, "-T", "fields"]);
    for name in names {
        command.args(["-e", name]);
    }
    let text = run(command).good();
    text.lines().map(|line| line.split('\t').map(Into::into).collect()).collect()
}

/// The kinds of records about a group in the reports of memberships that a running capture has, in their order. One report may
/// have records about several groups.
fn reported(capture: &Capture, group: &str) -> Vec<String> {
    let mut kinds = vec![];
    for [address, kind] in [
        ["igmp.maddr", "igmp.record_type"],
        ["icmpv6.mldr.mar.multicast_address", "icmpv6.mldr.mar.record_type"],
    ] {
        let file = capture.so_far().to_str().unwrap();
        let mut command = Command::new("tshark");
        command.args(["-n", "-r", file, "-Y", &format!("{address} == {group}"), "-T", "fields"]);
        command.args(["-e", address, "-e", kind]);
        // The last packet may be incomplete, and an address of the other version is no filter.
        for line in run(command).stdout.lines() {
            let Some((addresses, of)) = line.split_once('\t') else { continue };
            let records = addresses.split(',').zip(of.split(','));
            kinds.extend(records.filter(|(a, _)| *a == group).map(|(_, kind)| kind.to_owned()));
        }
    }
    kinds
}

/// Waits until a receiver has left a group, and has reported that by a record of this kind. The client does not wait for it.
fn until_left(bench: &Bench, capture: &Capture, group: &str, kind: &str) -> Vec<String> {
    until("the server has left", || !is_member(bench, group));
    let mut kinds = vec![];
    until("the server has reported that it left", || {
        kinds = reported(capture, group);
        kinds.last().is_some_and(|last| last == kind)
    });
    kinds
}

fn ends(flow: &Flow) -> (&Sender, &Receiver) {
    (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap())
}

/// All packets of a flow have arrived.
#[track_caller]
fn complete(flow: &Flow) {
    let (s, r) = ends(flow);
    assert!(s.packets > 10, "{flow:?}");
    assert_eq!((r.packets, r.lost_packets, r.corrupted_packets), (s.packets, Some(0), Some(0)));
}

#[test]
fn udp_lite_covers_as_many_bytes_as_requested() {
    let test = "udp_lite_covers_as_many_bytes_as_requested";
    let Some(mut bench) = Bench::up(test, &TOOLS) else { return };
    if weir_net::udp::try_lite().is_err() {
        return common::skip(test, "this kernel has no UDP-Lite");
    }
    bench.serve(&[]);
    let host = bench.lab.host("b").unwrap();
    let addresses = [host.ipv4.to_string(), host.ipv6.to_string()];
    for (address, version) in addresses.iter().zip(["ip", "ipv6"]) {
        for (coverage, bytes) in [("20", 20), ("full", 0)] {
            let capture = Capture::of(&bench, FILTER);
            let words = ["--udp-lite", "--checksum-coverage", coverage, "--bidir", "-b", "200pps"];
            let more = ["-l", "100", "-t", "0.3", "--verify"];
            let record = bench.test_to(address, &[&words[..], &more].concat());
            let file = capture.stop(&bench);
            for flow in &record.flows {
                complete(flow);
                let (s, r) = ends(flow);
                let read_back = (s.checksum_coverage_bytes, r.checksum_coverage_bytes);
                assert_eq!(read_back, (Some(bytes), Some(bytes)), "{coverage}");
            }
            let sent: u64 = record.flows.iter().map(|f| ends(f).0.packets).sum();
            let of_data = format!("{version} && udplite && !icmp && !icmpv6");
            let names = ["udp.checksum_coverage", "udp.length"];
            let seen = fields(&file, &of_data, &names);
            let covered = if bytes == 0 { ["0", "108"] } else { ["20", "20"] };
            let data = seen.iter().filter(|f| covered.contains(&f[0].as_str())).count() as u64;
            // On a loaded machine the capture may miss some; with another coverage it would have none.
            assert!(data > sent / 2, "{data} of {sent}: {seen:?}");
        }
    }
}

#[test]
fn a_server_joins_a_group_and_leaves_it_at_the_end() {
    let test = "a_server_joins_a_group_and_leaves_it_at_the_end";
    let Some(mut bench) = Bench::up(test, &TOOLS) else { return };
    bench.serve(&[]);
    for (group, ttl, of_data) in [
        (GROUP, "ip.ttl", "ip.dst == 239.1.1.1 && udp"),
        (GROUP_V6, "ipv6.hlim", "ipv6.dst == ff15::77:1 && udp"),
    ] {
        let host = bench.lab.host("b").unwrap();
        let is_v6 = group == GROUP_V6;
        let address = if is_v6 { host.ipv6.to_string() } else { host.ipv4.to_string() };
        let capture = Capture::of(&bench, FILTER);
        let words = ["--multicast", group, "--ttl", "5", "-b", "500pps", "-t", "0.5", "-l", "200"];
        let record = bench.test_to(&address, &words);
        // RFC 3376 and RFC 3810: change to exclude nothing, then to include nothing.
        let kinds = until_left(&bench, &capture, group, "3");
        assert_eq!(kinds.first().map(String::as_str), Some("4"), "{kinds:?}");
        let file = capture.stop(&bench);
        let flow = &record.flows[0];
        complete(flow);
        let member = ends(flow).1.membership.as_ref().unwrap();
        assert!(member.group.contains(group) && member.group.ends_with("9348"), "{member:?}");
        assert_eq!((member.interface.as_deref(), &member.source), (Some("eth0"), &None));
        assert_eq!(ends(flow).1.checksum_coverage_bytes, None, "a checksum of all");
        assert!(!member.is_part() && member.unjoined_packets.is_none(), "{member:?}");
        let hops = fields(&file, of_data, &[ttl, "udp.dstport"]);
        assert_eq!(hops.len() as u64, ends(flow).0.packets);
        assert!(hops.iter().all(|f| *f == ["5", "9348"]), "{hops:?}");
    }
}

/// Whether host b's interface is a member of a group.
pub(crate) fn is_member(bench: &Bench, group: &str) -> bool {
    bench.tool("b", "ip", &["maddress", "show", "dev", "eth0"]).contains(group)
}

#[test]
fn a_source_specific_member_asks_for_one_sender() {
    let test = "a_source_specific_member_asks_for_one_sender";
    let Some(mut bench) = Bench::up(test, &TOOLS) else { return };
    bench.serve(&["--multicast-scope", "global"]);
    let capture = Capture::of(&bench, FILTER);
    let words = ["--multicast", "232.1.1.1:5005", "--source-specific", "-b", "300pps", "-t", "0.3"];
    let record = bench.test(&words);
    // RFC 3376: allow new sources, then block old sources.
    let kinds = until_left(&bench, &capture, "232.1.1.1", "6");
    let file = capture.stop(&bench);
    let a = bench.lab.host("a").unwrap().ipv4.to_string();
    complete(&record.flows[0]);
    let member = ends(&record.flows[0]).1.membership.as_ref().unwrap();
    assert_eq!((member.source.as_deref(), member.group.as_str()), (Some(&a[..]), "232.1.1.1:5005"));
    let names = ["igmp.record_type", "igmp.saddr"];
    let reports = fields(&file, "igmp.maddr == 232.1.1.1", &names);
    assert_eq!(reports.first().unwrap(), &["5".to_owned(), a.clone()], "{kinds:?} {reports:?}");
}

#[test]
fn a_member_for_a_part_of_the_test_loses_only_what_was_sent_meanwhile() {
    let test = "a_member_for_a_part_of_the_test_loses_only_what_was_sent_meanwhile";
    let Some(mut bench) = Bench::up(test, &["nft"]) else { return };
    bench.serve(&[]);
    let words = ["--multicast", GROUP, "-b", "500pps", "-t", "1.5", "-i", "0.1"];
    let part = ["--join-after", "400ms", "--leave-after", "1100ms"];
    let test = |more: &[&str]| bench.test(&[&words[..], &part, more].concat());
    let agrees = |record: &Record| {
        let (s, r) = ends(&record.flows[0]);
        let member = r.membership.clone().unwrap();
        let (joined, left) = (member.joined_seconds.unwrap(), member.left_seconds.unwrap());
        assert!(joined >= 0.4 && left >= 1.1 && left > joined, "{member:?}");
        assert!(member.join_latency_seconds.unwrap() >= 0.0);
        // Nothing between these hosts stops what the receiver does not want: packets arrive until the sender ends.
        assert_eq!(member.leave_latency_is_bound, Some(true));
        let until = left + member.leave_latency_seconds.unwrap();
        assert!(until > left + 0.2 && until < 1.6, "{member:?}");
        assert!(r.start_seconds.unwrap() >= joined && r.end_seconds.unwrap() <= left + 0.01);
        (s.packets, r.packets, r.lost_packets.unwrap(), member.unjoined_packets.unwrap())
    };
    let record = test(&[]);
    let (sent, received, lost, unjoined) = agrees(&record);
    assert!(received > 0 && unjoined > 0);
    assert_eq!((lost, received + unjoined), (0, sent));
    assert_eq!(record.loss_ledger.as_ref().unwrap().missing_packets, 0);
    assert_eq!(
        record.total.forward.as_ref().unwrap().receiver.as_ref().unwrap().loss_ratio,
        Some(0.0)
    );
    let codes: Vec<&str> = record.warnings.iter().map(|w| w.code.as_str()).collect();
    assert!(!codes.contains(&"nothing-arrived"), "{codes:?}");

    // Every fifth packet that this host would receive is dropped.
    bench.nft(
        "b",
        "table inet weir {
            counter dropped {}
            chain input {
                type filter hook input priority 0;
                ip daddr 239.1.1.1 udp dport 9348 numgen inc mod 5 == 0 counter name dropped drop
            }
        }",
    );
    let record = test(&[]);
    let (sent, received, lost, unjoined) = agrees(&record);
    assert_eq!(received + lost + unjoined, sent);
    let (dropped, _) = bench.nft_counter("b", "inet", "dropped");
    // The first and the last dropped packet may be outside of what arrived.
    assert!(lost <= dropped && lost + 2 >= dropped, "{lost} of {dropped}");
    assert_eq!(record.loss_ledger.as_ref().unwrap().missing_packets, lost as i64);
    let by_interval = record.intervals.iter().flat_map(|i| &i.flows);
    let by_interval = by_interval.filter_map(|f| f.receiver.as_ref()?.lost_packets);
    assert_eq!(by_interval.sum::<u64>(), lost);

    // What is omitted at the start is neither in the loss nor in the ledger.
    let record = test(&["-O", "700ms"]);
    let r = ends(&record.flows[0]).1;
    let counted = record.intervals.iter().filter(|i| !i.omitted).flat_map(|i| &i.flows);
    let counted: u64 = counted.filter_map(|f| f.receiver.as_ref()?.lost_packets).sum();
    assert_eq!(r.lost_packets, Some(counted));
    assert_eq!(record.loss_ledger.as_ref().unwrap().missing_packets, counted as i64);
}

#[test]
fn datagrams_of_other_senders_to_the_group_do_not_count() {
    let test = "datagrams_of_other_senders_to_the_group_do_not_count";
    let Some(mut bench) = Bench::up(test, &["python3"]) else { return };
    bench.serve(&[]);
    // From another port of the sending host, and from the receiving host itself.
    let flood = format!(
        "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
         while True:\n s.sendto(b'x'*1472,('{GROUP}',9348)); time.sleep(.001)"
    );
    let start = |host: &str| {
        let mut command = bench.lab.command(host, "python3").unwrap();
        command.args(["-c", &flood]);
        Running::start(command)
    };
    for host in ["a", "b"] {
        let route = ["route", "replace", "239.0.0.0/8", "dev", "eth0"];
        bench.tool(host, "ip", &route);
    }
    let floods = [start("a"), start("b")];
    let record = bench.test(&["--multicast", GROUP, "-b", "500pps", "-t", "0.5"]);
    for flood in floods {
        signal("TERM", flood.child());
        flood.finish();
    }
    complete(&record.flows[0]);
    let r = ends(&record.flows[0]).1;
    assert_eq!((r.unreadable_packets, r.implausible_packets), (Some(0), Some(0)));
}

#[test]
fn several_receivers_share_one_stream() {
    let test = "several_receivers_share_one_stream";
    let Some(mut bench) = Bench::up(test, &TOOLS) else { return };
    bench.serve(&[]);
    let first = bench.keep_server();
    bench.serve(&["-p", "9400"]);
    let other = format!("{}:9400", bench.b());
    let capture = Capture::of(&bench, FILTER);
    let words =
        [&other[..], "--multicast", GROUP, "-b", "500pps", "-t", "0.6", "-i", "0.2", "-l", "200"];
    let record = bench.test(&words);
    let text = run(bench.test_command(&words)).good();
    let file = capture.stop(&bench);
    assert_eq!(record.flows.len(), 2);
    record.flows.iter().for_each(complete);
    let (s, r) = ends(&record.flows[0]);
    assert_eq!(record.flows[0].source, record.flows[1].source, "one sender");
    assert_eq!(ends(&record.flows[1]).0.packets, s.packets);
    let total = record.total.forward.as_ref().unwrap();
    let (sent, received) = (total.sender.as_ref().unwrap(), total.receiver.as_ref().unwrap());
    assert_eq!((sent.packets, received.packets), (s.packets, r.packets));
    let sums = record.intervals.iter().filter_map(|i| i.total.forward.as_ref());
    assert_eq!(sums.clone().map(|t| t.sender.as_ref().unwrap().packets).sum::<u64>(), s.packets);
    assert_eq!(sums.map(|t| t.receiver.as_ref().unwrap().packets).sum::<u64>(), r.packets);
    // On the wire once: this test, and the one whose text is shown.
    let port = record.flows[0].source.rsplit(':').next().unwrap().to_owned();
    let data = fields(&file, &format!("udp.srcport == {port} && ip.dst == {GROUP}"), &["ip.id"]);
    assert_eq!(data.len() as u64, s.packets);
    for wanted in [GROUP, "of 2", &other] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    drop(first);
}

#[test]
fn an_aborted_test_leaves_the_group() {
    let test = "an_aborted_test_leaves_the_group";
    let Some(mut bench) = Bench::up(test, &[]) else { return };
    bench.serve(&["--max-session-joins", "1", "--max-joins", "1"]);
    let words = ["--multicast", GROUP, "-b", "500pps", "-t", "0"];
    for _ in 0..2 {
        let client = Running::start(bench.test_command(&words));
        until("the server has joined", || is_member(&bench, GROUP));
        signal("KILL", client.child());
        client.finish();
        until("the server has left", || !is_member(&bench, GROUP));
    }
    // The memberships of aborted tests do not count any more.
    until("a further test runs", || {
        run(bench.test_command(&["--multicast", GROUP, "-b", "500pps", "-t", "0.2"]))
            .status
            .success()
    });
}

#[test]
fn a_late_join_that_fails_ends_its_flow() {
    let test = "a_late_join_that_fails_ends_its_flow";
    let Some(mut bench) = Bench::up(test, &["sysctl"]) else { return };
    bench.serve(&["--max-joins", "1"]);
    bench.tool("b", "sysctl", &["-qw", "net.ipv4.igmp_max_memberships=0"]);
    let words = ["--multicast", GROUP, "-b", "200pps", "-t", "20", "--join-after", "200ms"];
    let json = [&words[..], &["--json"]].concat();
    let ended = run(bench.test_command(&json));
    assert_eq!(common::refusal_in(&ended.stderr).unwrap().code, "flow");
    let record: Record = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(record.status, weir_model::record::Status::Partial);
    let failed = record.warnings.iter().find(|w| w.code == "flow-failed").unwrap();
    assert_eq!(failed.flow, Some(1));
    assert!(failed.text.contains(GROUP), "{failed:?}");
    let receiver = record.flows[0].receiver.as_ref();
    assert!(receiver.is_none_or(|r| r.packets == 0), "{receiver:?}");
    assert!(!is_member(&bench, GROUP));
    // Its membership is free again.
    bench.tool("b", "sysctl", &["-qw", "net.ipv4.igmp_max_memberships=20"]);
    complete(&bench.test(&["--multicast", GROUP, "-b", "200pps", "-t", "0.3"]).flows[0]);
}

#[test]
fn a_server_limits_scopes_and_memberships() {
    let test = "a_server_limits_scopes_and_memberships";
    let Some(mut bench) = Bench::up(test, &[]) else { return };
    bench.serve(&["--max-session-joins", "2", "--multicast-scope", "admin"]);
    let code = |words: &[&str]| {
        let ended =
            run(bench.test_command(&[&["--json", "-t", "0.2", "-b", "100pps"], words].concat()));
        (ended.status.code(), (!ended.status.success()).then(|| ended.refusal().code))
    };
    assert_eq!(code(&["--multicast", "239.1.1.1", "-P", "2"]), (Some(0), None));
    let refused = code(&["--multicast", "239.1.1.1", "-P", "3"]);
    assert_eq!(refused, code(&["--multicast", "224.0.1.200"]));
    assert_ne!(refused.0, Some(0));
    // A broadcast address of another network, and the interface that this host lacks.
    for words in [
        ["--broadcast", "198.51.100.255"].as_slice(),
        &["--multicast", "239.1.1.1", "--interface", "nope"],
    ] {
        assert_ne!(code(words).0, Some(0), "{words:?}");
    }
}

#[test]
fn broadcasts_reach_a_receiver() {
    let test = "broadcasts_reach_a_receiver";
    let Some(mut bench) = Bench::up(test, &TOOLS) else { return };
    bench.serve(&[]);
    let host = bench.lab.host("b").unwrap();
    let directed = bench.tool("a", "ip", &["-4", "-o", "address", "show", "dev", "eth0"]);
    let prefix = directed.split_whitespace().find(|w| w.contains('/')).unwrap();
    let (address, length) = prefix.split_once('/').unwrap();
    let bits = u32::from(address.parse::<std::net::Ipv4Addr>().unwrap());
    let hosts = u32::MAX >> length.parse::<u32>().unwrap();
    let directed = std::net::Ipv4Addr::from(bits | hosts).to_string();
    assert_ne!(directed, host.ipv4.to_string());
    for to in ["255.255.255.255", &directed] {
        let capture = Capture::of(&bench, FILTER);
        let record = bench.test(&["--broadcast", to, "-b", "300pps", "-t", "0.3", "-l", "100"]);
        let file = capture.stop(&bench);
        complete(&record.flows[0]);
        let member = ends(&record.flows[0]).1.membership.as_ref().unwrap();
        assert_eq!(member.group, format!("{to}:9348"));
        let filter = format!("eth.dst == ff:ff:ff:ff:ff:ff && ip.dst == {to} && udp");
        let seen = fields(&file, &filter, &["udp.dstport"]);
        assert_eq!(seen.len() as u64, ends(&record.flows[0]).0.packets);
    }
}
