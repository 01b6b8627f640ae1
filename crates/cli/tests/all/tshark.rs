//! Captures by Wireshark's programs are compared with our datagrams, and a second implementation recomputes our figures.

use crate::common;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, Running, recompute, run, signal, until};
use serde_json::Value;
use weir_model::record::Record;

const MARKER: &str = "all of it is here";

/// A running dumpcap on host b's interface.
pub(crate) struct Capture {
    file: PathBuf,
    running: Running,
    said: PathBuf,
}

impl Capture {
    fn start(bench: &Bench) -> Capture {
        Capture::of(bench, "udp or tcp")
    }

    /// Captures what `filter` selects, which must include UDP.
    pub(crate) fn of(bench: &Bench, filter: &str) -> Capture {
        let (file, said) = (bench.file("capture.pcapng"), bench.file("dumpcap.said"));
        let mut command = bench.lab.command("b", "sh").unwrap();
        command.args(["-c", "exec dumpcap -q -s 400 -B 16 -i eth0 -f \"$2\" -w \"$0\" 2>\"$1\""]);
        command.arg(&file).arg(&said).arg(filter);
        let running = Running::start(command);
        let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        // It prints the file's name once the interface is open.
        until("dumpcap captures", || text(&said).contains("File: "));
        Capture { file, running, said }
    }

    /// The file, which grows until [`Capture::stop`].
    pub(crate) fn so_far(&self) -> &Path {
        &self.file
    }

    /// Ends it after it has written all earlier packets; it must not have dropped any.
    pub(crate) fn stop(self, bench: &Bench) -> PathBuf {
        let send = format!("printf '{MARKER}' >/dev/udp/{}/9", bench.b());
        bench.tool("a", "bash", &["-c", &send]);
        until("the marker is in the capture", || {
            let bytes = std::fs::read(&self.file).unwrap_or_default();
            bytes.windows(MARKER.len()).any(|w| w == MARKER.as_bytes())
        });
        signal("INT", self.running.child());
        assert!(self.running.finish().status.success());
        let said = std::fs::read_to_string(&self.said).unwrap();
        assert!(said.contains("/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0)"), "{said}");
        self.file
    }
}

/// A datagram decoded by tshark.
pub(crate) struct Frame {
    /// CLOCK_REALTIME, ns.
    at_ns: u64,
    payload: Vec<u8>,
    pub(crate) udp_length: usize,
}

pub(crate) fn decode(file: &Path, filter: &str) -> Vec<Frame> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", file.to_str().unwrap(), "-Y", filter, "-T", "fields"]);
    command.args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]);
    // Decode our port as data, even if a dissector claims it.
    command.args(["-d", "udp.port==9347,data", "-e", "frame.time_epoch", "-e", "udp.length"]);
    command.args(["-e", "udp.payload"]);
    let text = run(command).good();
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let (seconds, fraction) = fields[0].split_once('.').unwrap();
            assert_eq!(fraction.len(), 9, "{line}");
            Frame {
                at_ns: seconds.parse::<u64>().unwrap() * 1_000_000_000
                    + fraction.parse::<u64>().unwrap(),
                // 0: not UDP.
                udp_length: fields[1].parse().unwrap_or(0),
                payload: fields[2]
                    .as_bytes()
                    .chunks(2)
                    .map(|h| u8::from_str_radix(std::str::from_utf8(h).unwrap(), 16).unwrap())
                    .collect(),
            }
        })
        .collect()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

fn numbers(value: &Value) -> Vec<u64> {
    let number = |v: &Value| v.as_u64().or_else(|| v.as_str()?.parse().ok()).unwrap();
    value.as_array().unwrap().iter().map(number).collect()
}

/// Asserts that the figures of the record's only flow equal those that the script computed from the log, to the last digit.
#[track_caller]
fn agrees(record: &Record, recomputed: &Value) {
    let receiver = record.flows[0].receiver.as_ref().unwrap();
    let delay = receiver.one_way_delay.as_ref().unwrap();
    assert_eq!(recomputed["kinds"], serde_json::json!({ "1": receiver.packets }));
    let get = |name: &str| recomputed[name].as_f64().unwrap();
    for (name, ours) in [
        ("count", delay.count as f64),
        ("jitter_seconds", receiver.jitter_seconds.unwrap()),
        ("min_seconds", delay.min_seconds),
        ("mean_seconds", delay.mean_seconds),
        ("max_seconds", delay.max_seconds),
    ] {
        assert_eq!(ours.to_bits(), get(name).to_bits(), "{name}: {ours} {}", get(name));
    }
    // Exact up to 256 samples.
    if delay.count <= 256 {
        assert_eq!(delay.p50_seconds.unwrap().to_bits(), get("p50_seconds").to_bits());
        assert_eq!(delay.p90_seconds.unwrap().to_bits(), get("p90_seconds").to_bits());
    }
}

#[test]
fn a_capture_shows_every_datagram_that_was_counted() {
    every_datagram("a_capture_shows_every_datagram_that_was_counted", false);
}

#[test]
fn a_capture_shows_every_datagram_over_ipv6() {
    every_datagram("a_capture_shows_every_datagram_over_ipv6", true);
}

fn every_datagram(test: &str, over_ipv6: bool) {
    let Some(mut bench) = Bench::up(test, &["tshark", "dumpcap", "python3", "bash"]) else {
        return;
    };
    let log = bench.file("packets");
    bench.serve(&["--packet-log", log.to_str().unwrap()]);
    let capture = Capture::start(&bench);
    let relation = || weir_net::clock::Clock::System.bracket().realtime_minus_monotonic();
    let before = relation();
    let words = ["-u", "-b", "500pps", "-l", "200", "-t", "1", "--gso", "off", "--gro", "off"];
    let host = bench.lab.host("b").unwrap();
    let to = if over_ipv6 { host.ipv6.to_string() } else { host.ipv4.to_string() };
    let record = bench.test_to(&to, &words);
    let after = relation();
    let file = capture.stop(&bench);
    bench.stop_server();

    let (sender, receiver) =
        (record.flows[0].sender.as_ref().unwrap(), record.flows[0].receiver.as_ref().unwrap());
    let version = if over_ipv6 { "ipv6" } else { "ip" };
    let frames = decode(&file, &format!("{version} && udp.dstport == 9347 && udp.length == 208"));
    assert_eq!(sender.packets, frames.len() as u64);
    assert_eq!(receiver.packets, frames.len() as u64);
    assert_eq!(sender.bytes, frames.iter().map(|f| f.udp_length as u64 - 8).sum::<u64>());
    let sequences: Vec<u64> = frames.iter().map(|f| number(&f.payload[..8])).collect();
    assert_eq!(sequences, (0..sender.packets).collect::<Vec<_>>());

    // The send time in each header is before the capture's time, by less than the maximum delay of a packet here.
    let slew_ns = before.abs_diff(after) as i64 + 100_000;
    for frame in &frames {
        let sent = number(&frame.payload[8..16]);
        let delay = frame.at_ns as i64 - before - sent as i64;
        assert!((-slew_ns..1_000_000_000).contains(&delay), "{delay} ns");
    }

    // The log equals the capture: the same send times, and arrivals by the same kernel stamps.
    let recomputed = recompute(&log);
    agrees(&record, &recomputed);
    assert_eq!(numbers(&recomputed["sequences"]), sequences);
    let sent: Vec<u64> = frames.iter().map(|f| number(&f.payload[8..16])).collect();
    assert_eq!(numbers(&recomputed["sent_ns"]), sent);
    assert_eq!(recomputed["sizes"], serde_json::json!([200]));
    assert_eq!(recomputed["directions"], serde_json::json!([0]));
    for (frame, arrival) in frames.iter().zip(numbers(&recomputed["arrivals_ns"])) {
        let mapped = frame.at_ns as i64 - before;
        assert!(mapped.abs_diff(arrival as i64) < slew_ns as u64, "{mapped} {arrival}");
    }

    // Jitter computed from the capture alone. Its stamps are by another clock, to which ours are related by a mapping that is
    // updated from time to time. The figures may differ by as much as the mapping changed; without a change they are equal.
    let arrivals = numbers(&recomputed["arrivals_ns"]);
    let apart = frames.iter().zip(&arrivals).map(|(frame, &at)| frame.at_ns as i64 - at as i64);
    let (least, most) = apart.fold((i64::MAX, i64::MIN), |(l, m), a| (l.min(a), m.max(a)));
    let captured = capture_jitter(&frames);
    let ours = receiver.jitter_seconds.unwrap();
    let moved = (most - least) as f64 / 1e9;
    assert!((captured - ours).abs() <= moved, "{captured} {ours}, moved {moved} s");
    assert!(most != least || captured.to_bits() == ours.to_bits(), "{captured} {ours}");
}

/// Interarrival jitter by RFC 3550, section A.8, of a capture's stamps and the headers' send times, s.
fn capture_jitter(frames: &[Frame]) -> f64 {
    let transit = |f: &Frame| f.at_ns as i64 - number(&f.payload[8..16]) as i64;
    let jitter = frames.windows(2).fold(0.0, |jitter: f64, pair| {
        jitter + ((transit(&pair[1]) - transit(&pair[0])).abs() as f64 - jitter) / 16.0
    });
    jitter / 1e9
}

#[test]
fn both_directions_of_a_stream_carry_the_flow_label() {
    let test = "both_directions_of_a_stream_carry_the_flow_label";
    let Some(mut bench) = Bench::up(test, &["tshark", "dumpcap", "bash"]) else { return };
    bench.serve(&[]);
    let capture = Capture::start(&bench);
    let to = bench.lab.host("b").unwrap().ipv6.to_string();
    let words = ["--bidir", "-b", "2M", "-l", "2000", "-t", "1", "-L", "74565", "--no-latency"];
    let record = bench.test_to(&to, &words);
    let file = capture.stop(&bench);
    for flow in &record.flows {
        let port = |address: &str| address.rsplit(':').next().unwrap().to_string();
        let (from, to) = (port(&flow.source), port(&flow.destination));
        let mut command = Command::new("tshark");
        let filter =
            format!("ipv6 && tcp.srcport == {from} && tcp.dstport == {to} && tcp.len > 100");
        command.args(["-n", "-r", file.to_str().unwrap(), "-Y", &filter, "-T", "fields"]);
        command.args(["-e", "ipv6.flow"]);
        let labels: Vec<u32> = run(command)
            .good()
            .lines()
            .map(|label| u32::from_str_radix(label.trim_start_matches("0x"), 16).unwrap())
            .collect();
        assert!(labels.len() > 10, "{}: {}", flow.direction, labels.len());
        assert!(labels.iter().all(|label| *label == 74_565), "{}: {labels:x?}", flow.direction);
    }
}

#[test]
fn a_capture_holds_the_bytes_of_a_stream() {
    let test = "a_capture_holds_the_bytes_of_a_stream";
    let Some(mut bench) = Bench::up(test, &["tshark", "dumpcap"]) else { return };
    bench.serve(&[]);
    let capture = Capture::start(&bench);
    let record = bench.test(&["-b", "4M", "-l", "2000", "-t", "1", "--no-latency"]);
    let file = capture.stop(&bench);
    let received = record.flows[0].receiver.as_ref().unwrap().bytes;
    assert_eq!(record.flows[0].sender.as_ref().unwrap().bytes, received);
    assert!(received > 100_000, "{received}");

    // The bytes sent to our port, by connection; retransmissions are counted once.
    let mut command = Command::new("tshark");
    let filter = "tcp.dstport == 9347 && tcp.len > 0 && !tcp.analysis.retransmission";
    command.args(["-n", "-r", file.to_str().unwrap(), "-Y", filter, "-T", "fields"]);
    command.args(["-e", "tcp.stream", "-e", "tcp.len"]);
    let mut streams = std::collections::BTreeMap::<u64, u64>::new();
    for line in run(command).good().lines() {
        let (stream, len) = line.split_once('\t').unwrap();
        *streams.entry(stream.parse().unwrap()).or_default() += len.parse::<u64>().unwrap();
    }
    assert_eq!(streams.len(), 2, "one control and one data connection: {streams:?}");
    let preface = weir_wire::preface::DATA_LEN as u64;
    assert!(streams.values().any(|&bytes| bytes == received + preface), "{streams:?} {received}");
}

#[test]
fn an_analyser_sees_an_rtp_stream() {
    let Some(mut bench) =
        Bench::up("an_analyser_sees_an_rtp_stream", &["tshark", "dumpcap", "bash"])
    else {
        return;
    };
    bench.serve(&[]);
    let capture = Capture::start(&bench);
    let words = ["-u", "-b", "50pps", "-l", "172", "-k", "50", "--header", "rtp", "--no-latency"];
    let record = bench.test(&words);
    let file = capture.stop(&bench);
    let port = record.flows[0].source.rsplit(':').next().unwrap().to_owned();
    let mut command = Command::new("tshark");
    let filter = format!("rtp.p_type == 96 && udp.srcport == {port}");
    command.args(["-n", "-r", file.to_str().unwrap(), "-d", "udp.port==9347,rtp", "-Y", &filter]);
    command.args(["-T", "fields", "-e", "rtp.seq", "-e", "rtp.timestamp", "-e", "rtp.ssrc"]);
    let text = run(command).good();
    let rows: Vec<(u16, u32, &str)> = text
        .lines()
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            (cells[0].parse().unwrap(), cells[1].parse().unwrap(), cells[2])
        })
        .collect();
    assert_eq!(rows.len(), 50);
    for pair in rows.windows(2) {
        assert_eq!(pair[1].0, pair[0].0.wrapping_add(1));
        // 20 ms at 8 kHz.
        assert_eq!(pair[1].1.wrapping_sub(pair[0].1), 160);
        assert_eq!(pair[1].2, pair[0].2);
    }
}

#[test]
fn jitter_and_delay_of_both_directions_are_recomputed_to_the_last_digit() {
    let test = "jitter_and_delay_of_both_directions_are_recomputed_to_the_last_digit";
    let Some(mut bench) = Bench::up(test, &["python3"]) else { return };
    let (there, back) = (bench.file("there"), bench.file("back"));
    bench.serve(&["--packet-log", there.to_str().unwrap()]);
    let words = ["-u", "-b", "1000pps", "-l", "64", "-k", "250"];
    let forward = bench.test(&words);
    let log = ["-R", "--packet-log", back.to_str().unwrap()];
    let reverse = bench.test(&[&words[..], &log[..]].concat());
    bench.stop_server();
    agrees(&forward, &recompute(&there));
    let recomputed = recompute(&back);
    agrees(&reverse, &recomputed);
    assert_eq!(recomputed["directions"], serde_json::json!([1]));
}

/// Values of `fields` of the packets that `filter` selects, by tshark.
fn fields(file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<u64>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", file.to_str().unwrap(), "-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let number = |text: &str| text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    run(command).good().lines().map(|line| line.split('\t').map(number).collect()).collect()
}

/// No packet of either protocol is longer than the stated MTU, and full ones have exactly its size.
#[test]
fn packets_fit_the_stated_path_mtu() {
    let test = "packets_fit_the_stated_path_mtu";
    let Some(mut bench) = Bench::up(test, &["tshark", "dumpcap", "ethtool", "bash"]) else {
        return;
    };
    // A capture would show the super-packets of the sender.
    for host in ["a", "b"] {
        bench.tool(host, "ethtool", &["-K", "eth0", "tso", "off", "gso", "off", "gro", "off"]);
    }
    bench.serve(&[]);
    let host = bench.lab.host("b").unwrap();
    let (v4, v6) = (host.ipv4.to_string(), host.ipv6.to_string());
    let capture = Capture::start(&bench);
    let common = ["--mtu", "700", "-t", "1", "-b", "4M", "--no-latency"];
    for to in [&v4, &v6] {
        let of = |words: &[&str]| bench.test_to(to, &[&common, words].concat());
        of(&["-l", "20K"]);
        of(&["-l", "20K", "-R"]);
        let udp = of(&["-u"]);
        let headers = if to == &v4 { 28 } else { 48 };
        assert_eq!(udp.flows[0].payload_bytes, 700 - headers);
    }
    let file = capture.stop(&bench);
    for (family, length, header) in [("ip", "ip.len", 0), ("ipv6", "ipv6.plen", 40)] {
        for (protocol, filter) in [
            ("tcp there", "tcp.dstport != 9347 && tcp.srcport != 9347 && tcp.len > 0"),
            ("udp", "udp.dstport == 9347 && udp.length > 100"),
        ] {
            let sizes = fields(&file, &format!("{family} && {filter}"), &[length]);
            let sizes: Vec<u64> = sizes.iter().map(|fields| fields[0] + header).collect();
            let full = sizes.iter().filter(|bytes| **bytes == 700).count();
            assert!(sizes.iter().all(|bytes| *bytes <= 700), "{family} {protocol}: {sizes:?}");
            assert!(full > 100, "{family} {protocol}: {full} of {}", sizes.len());
        }
        assert_eq!(fields(&file, &format!("{family}.fragment"), &["frame.number"]).len(), 0);
    }
}

/// The sender ends its direction before the reports are exchanged, unless it is to leave it open.
#[test]
fn a_stream_is_half_closed_as_the_plan_says() {
    let test = "a_stream_is_half_closed_as_the_plan_says";
    let Some(mut bench) = Bench::up(test, &["tshark", "dumpcap", "bash"]) else { return };
    bench.serve(&[]);
    for (words, is_half_closed) in [(&[][..], true), (&["--no-half-close"][..], false)] {
        let capture = Capture::start(&bench);
        let record = bench.test(&[&["-n", "1M", "-b", "20M", "--no-latency"], words].concat());
        let file = capture.stop(&bench);
        assert_eq!(record.flows[0].receiver.as_ref().unwrap().bytes, 1 << 20);
        let flow = &record.flows[0];
        let port = |address: &str| address.rsplit(':').next().unwrap().to_owned();
        let of_data = format!("tcp.srcport == {} && tcp.flags.fin == 1", port(&flow.source));
        let end = fields(&file, &of_data, &["frame.number"]).swap_remove(0)[0];
        let of_control =
            format!("tcp.srcport == 9347 && tcp.dstport != {} && tcp.len > 0", port(&flow.source));
        let report = fields(&file, &of_control, &["frame.number"]).pop().unwrap()[0];
        assert_eq!(end < report, is_half_closed, "{words:?}: FIN {end}, report {report}");
    }
}
