//! Ethernet frames between two hosts; Wireshark's programs confirm what is on the wire, and an emulator in the middle what is lost.

use crate::common;
use crate::impair_path::Path;
use crate::tshark::Capture;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{Bench, WEIR, run};
use weir_model::record::{Flow, Receiver, Sender};
use weir_wire::packets::{PacketLogReader, RecordKind};

fn ends(flow: &Flow) -> (&Sender, &Receiver) {
    (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap())
}

/// MAC address of a host's interface.
fn mac(bench: &Bench, host: &str) -> String {
    let text = bench.tool(host, "cat", &["/sys/class/net/eth0/address"]);
    text.trim().to_owned()
}

#[test]
fn a_capture_shows_the_frames_of_both_directions() {
    let test = "a_capture_shows_the_frames_of_both_directions";
    let Some(mut bench) = Bench::up(test, &["tshark", "dumpcap", "bash", "cat"]) else { return };
    bench.serve(&[]);
    let capture = Capture::of(&bench, "ether proto 0x88b5 or udp");
    let words = ["--ethernet", "--bidir", "-b", "500pps", "-l", "100", "-k", "200", "--verify"];
    let record = bench.test(&words);
    let file = capture.stop(&bench);
    let macs = ["a", "b"].map(|host| mac(&bench, host));
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r", file.to_str().unwrap(), "-Y", "eth.type == 0x88b5", "-T", "fields"]);
    tshark.args(["-e", "eth.src", "-e", "eth.dst", "-e", "data.data", "-e", "frame.len"]);
    let text = run(tshark).good();
    let frames: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    for (flow, [from, to]) in record.flows.iter().zip([[0, 1], [1, 0]].map(|e| e.map(|i| &macs[i])))
    {
        let (s, r) = ends(flow);
        assert_eq!((s.packets, s.bytes), (200, 20_000));
        assert_eq!((r.packets, r.bytes), (200, 20_000));
        assert_eq!((r.lost_packets, r.corrupted_packets), (Some(0), Some(0)));
        assert_eq!((&flow.source, &flow.destination, flow.family), (from, to, None));
        // Protocol and version, two flow numbers, the length of the payload.
        let is_data = |f: &&Vec<&str>| {
            f[0] == from && f[1] == to && f[2].starts_with("5701") && f[2][12..16] == *"0064"
        };
        let data: Vec<_> = frames.iter().filter(is_data).collect();
        assert_eq!(data.len(), 200);
        assert!(data.iter().all(|f| f[3] == "122" && f[2].len() == 2 * 108), "{data:?}");
    }
}

#[test]
fn all_sizes_and_shapes_work_over_both_versions_of_ip() {
    let test = "all_sizes_and_shapes_work_over_both_versions_of_ip";
    let Some(mut bench) = Bench::up(test, &[]) else { return };
    bench.serve(&[]);
    let host = bench.lab.host("b").unwrap();
    for address in [host.ipv4.to_string(), host.ipv6.to_string()] {
        for size in ["0", "1", "1492"] {
            let words = ["--ethernet", "-R", "-l", size, "-b", "500pps", "-k", "100"];
            let record = bench.test_to(&address, &words);
            let (s, r) = ends(&record.flows[0]);
            assert_eq!((s.packets, r.packets, s.bytes), (100, 100, r.bytes), "{size}");
        }
        let words = ["--ethernet", "--rr", "-b", "200pps", "-k", "100"];
        let record = bench.test_to(&address, &words);
        let transactions = record.flows[0].transactions.as_ref().unwrap();
        assert_eq!((transactions.completed, transactions.failed), (100, 0));
    }
    let record = bench.test(&["--ethernet", "-t", "0.2", "-b", "1M", "--nominal", "10M"]);
    assert_eq!(record.flows[0].payload_bytes, 1492, "the MTU less Weir's header");
    let usage = record.link_usage.as_ref().unwrap();
    let ratio = usage.ethernet_ratio / usage.payload_ratio;
    assert!((ratio - 1518.0 / 1492.0).abs() < 1e-9, "{usage:?}");
}

#[test]
fn an_emulators_losses_are_those_of_the_receiver() {
    let test = "an_emulators_losses_are_those_of_the_receiver";
    let Some(path) = Path::up(test, &[]) else { return };
    let laws = path.file("laws.toml");
    let text = "schema = \"weir.impair/1\"\nseed = 7\n[[flow]]\nname = \"frames\"\nfilter = { ethertype = \"0x88b5\", length = \"222\" }\na_to_b = { loss = { percentage = 20.0 }, delay = { constant = \"20ms\" } }\n";
    std::fs::write(&laws, text).unwrap();
    let packet_trace = path.file("packet_trace");
    let trace = ["--packet-trace", packet_trace.to_str().unwrap()];
    let emulator = path.emulator(&[&["--config", laws.to_str().unwrap()], &trace[..]].concat());
    let mut server = path.weir("b", &["serve", "-1"]);
    server.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    let words = ["test", &b, "--json", "--no-store", "--ethernet", "-l", "200", "-b", "1000pps"];
    let ended =
        run(path.weir("a", &[&words[..], &["-k", "1000", "--loss-threshold", "1s"]].concat()));
    let _ = (server.kill(), server.wait());
    let (report, _) = emulator.report();
    let record = ended.record();
    let (s, r) = ends(&record.flows[0]);
    let flows = report["impairment"]["flows"].as_array().unwrap();
    let of_frames = |f: &&serde_json::Value| f["name"] == "frames" && f["direction"] == "forward";
    let flow = flows.iter().find(of_frames).unwrap_or_else(|| panic!("{report}"));
    let count = |name: &str| flow["counters"][name].as_u64().unwrap();
    assert_eq!((s.packets, count("received_packets")), (1000, 1000), "{flow}");
    assert_eq!(count("sent_packets"), r.packets, "{flow}");
    let lost = r.lost_packets.unwrap();
    assert_eq!(r.packets + lost, 1000);
    // 20 % of 1000, plus and minus 6 standard deviations.
    assert!((124..=276).contains(&lost), "{lost}");
    let delay = r.one_way_delay.as_ref().unwrap();
    assert!(delay.min_seconds >= 0.02, "{delay:?}");
    // The trace names the lost frames by the numbers of their data headers.
    let mut reader = PacketLogReader::new(std::fs::File::open(&packet_trace).unwrap()).unwrap();
    let all = std::iter::from_fn(|| reader.read_judged().unwrap());
    let numbers =
        all.filter(|(record, _)| (record.direction, record.kind) == (0, RecordKind::LOST));
    let numbers = numbers.filter_map(|(_, judged)| judged.unwrap().native_sequence);
    assert_eq!(numbers.collect::<BTreeSet<u64>>().len() as u64, lost);
}

#[test]
fn what_frames_need_is_refused_by_name() {
    let test = "what_frames_need_is_refused_by_name";
    let Some(mut bench) = Bench::up(test, &["setpriv", "ip"]) else { return };
    let limited = ["--bounding-set", "-net_raw", "--inh-caps", "-net_raw", WEIR];
    let mut command = bench.lab.command("b", "setpriv").unwrap();
    command.args(limited);
    bench.start_server(command, &[]);
    let frames = ["--ethernet", "-t", "0.1", "--json"];
    // The server has no capability, the client has.
    let ended = run(bench.test_command(&frames));
    assert_eq!((ended.status.code(), ended.refusal().code.as_str()), (Some(3), "peer-unavailable"));
    bench.stop_server();
    bench.serve(&[]);
    let mut command = bench.lab.command("a", "setpriv").unwrap();
    command.args(limited).args(["test", &bench.b(), "--no-store"]).args(frames);
    command.env("WEIR_ERRORS", "json").env("WEIR_DATA_DIR", bench.file("home"));
    let ended = run(command);
    let refusal = ended.refusal();
    assert_eq!(ended.status.code(), Some(4));
    assert_eq!(
        (refusal.code.as_str(), refusal.given.as_deref()),
        ("not-available", Some("ethernet"))
    );
    // A payload beyond the MTU.
    let ended = run(bench.test_command(&[&frames[..], &["-l", "1493"]].concat()));
    assert_eq!(
        (ended.status.code(), ended.refusal().field.as_deref()),
        (Some(2), Some("--length"))
    );
    // An address behind a router.
    bench.tool("b", "ip", &["address", "add", "198.51.100.9/32", "dev", "eth0"]);
    bench.tool("a", "ip", &["route", "add", "198.51.100.9/32", "via", &bench.b()]);
    let mut command = bench.lab.command("a", WEIR).unwrap();
    command.args(["test", "198.51.100.9", "--no-store"]).args(frames);
    command.env("WEIR_ERRORS", "json").env("WEIR_DATA_DIR", bench.file("home"));
    let ended = run(command);
    let refusal = ended.refusal();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(refusal.given.is_some_and(|given| given.contains("198.51.100.9")));
    bench.stop_server();
    bench.serve(&["--max-frame-flows", "0"]);
    let ended = run(bench.test_command(&frames));
    assert_eq!((ended.status.code(), ended.refusal().code.as_str()), (Some(3), "peer-limit"));
}
