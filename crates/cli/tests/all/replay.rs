//! Files as data: a file that is sent, and a capture that is replayed.

use std::path::{Path, PathBuf};

use serde_json::Value;
use weir_link::capture::{CaptureFormat, CaptureWriter};

use crate::common::Bench;
use crate::faults_common::*;
use crate::tshark::{Capture, decode};

/// Runs a test; its exit code and its record or error.
fn test(host: &str, words: &[&str]) -> (i32, Value) {
    let mut command = weir();
    command.args(["test", host, "--no-store", "--json"]).args(words);
    let output = command.output().unwrap();
    let text = out(&output);
    let value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{}", err(&output)));
    (output.status.code().unwrap(), value)
}

/// A frame of Ethernet and IPv4 with this protocol and transport part.
fn frame(protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0]].concat();
    frame.extend((20 + transport.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    frame.extend(transport);
    frame
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let header = [4000, port, 8 + payload.len() as u16, 0].map(u16::to_be_bytes).concat();
    frame(17, &[&header, payload].concat())
}

/// 100 datagrams of 20 to 416 bytes in 297 ms, 3 ms apart, and a TCP segment after every tenth.
fn capture(directory: &Path, format: CaptureFormat) -> PathBuf {
    let path = directory.join("calls.pcap");
    let mut writer =
        CaptureWriter::new(std::fs::File::create(&path).unwrap(), "calls", format, &["x"]).unwrap();
    for n in 0..100_u64 {
        let at = 1_700_000_000_000_000_000 + n * 3_000_000;
        let datagram = udp(5060 + (n % 2) as u16, &vec![n as u8; 20 + 4 * n as usize]);
        writer.write(0, at, datagram.len() as u32, &datagram).unwrap();
        if n % 10 == 9 {
            let tcp =
                frame(6, &[0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
            writer.write(0, at, tcp.len() as u32, &tcp).unwrap();
        }
    }
    path
}

const PAYLOAD_BYTES: u64 = 20 * 100 + 4 * 4950;

#[test]
fn a_capture_is_replayed_with_its_sizes_and_times() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    for format in [CaptureFormat::Pcap, CaptureFormat::PcapNg] {
        let path = capture(directory.path(), format);
        let (code, record) = test(&host, &["--replay", path.to_str().unwrap()]);
        assert_eq!(code, 0, "{record}");
        let flow = &record["flows"][0];
        let (sender, receiver) = (&flow["sender"], &flow["receiver"]);
        assert_eq!(flow["transport"], "udp");
        assert_eq!((&sender["packets"], &receiver["packets"]), (&100.into(), &100.into()));
        assert_eq!(receiver["lost_packets"], 0);
        assert_eq!(
            (&receiver["corrupted_packets"], &receiver["truncated_packets"]),
            (&0.into(), &0.into())
        );
        // Those of 20, 24 and 28 bytes have no room for the header.
        assert_eq!(receiver["bytes"], PAYLOAD_BYTES + 12 + 8 + 4);
        assert!(receiver["one_way_delay"]["mean_seconds"].is_f64(), "{receiver}");
        let seconds = sender["seconds"].as_f64().unwrap();
        assert!((0.297 - 0.05..0.297 + 0.05).contains(&seconds), "{seconds}");
        assert!(sender["spacing"]["max_seconds"].is_f64(), "{sender}");
        let source = &record["data_source"];
        assert_eq!((&source["kind"], &source["packets"]), (&"capture".into(), &100.into()));
        assert_eq!((&source["bytes"], &source["seconds"]), (&PAYLOAD_BYTES.into(), &0.297.into()));
        assert_eq!(
            (&source["lengthened_packets"], &source["speed"]),
            (&3.into(), &"original".into())
        );
        assert_eq!(source["left_out_packets"], serde_json::json!({ "tcp": 10 }));
    }
}

#[test]
fn a_replay_is_faster_repeated_filtered_or_without_header_as_asked() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    let path = capture(directory.path(), CaptureFormat::Pcap);
    let replay = |words: &[&str]| {
        let words = [&["--replay", path.to_str().unwrap()], words].concat();
        let (code, record) = test(&host, &words);
        assert_eq!(code, 0, "{words:?}: {record}");
        record
    };
    let receiver = |record: &Value| record["flows"][0]["receiver"].clone();
    let none = replay(&["--header", "none", "--replay-speed", "10x"]);
    assert_eq!(receiver(&none)["packets"], 100);
    assert_eq!(receiver(&none)["bytes"], PAYLOAD_BYTES, "as captured");
    assert!(none["flows"][0]["sender"]["seconds"].as_f64().unwrap() < 0.15, "{none}");
    let rounds = replay(&["--replay-speed", "top", "--loop", "3"]);
    assert_eq!(receiver(&rounds)["packets"], 300);
    assert_eq!(receiver(&rounds)["bytes"], 3 * (PAYLOAD_BYTES + 24));
    let rate = replay(&["--replay-speed", "1000pps", "--replay-port", "5061"]);
    assert_eq!(receiver(&rate)["packets"], 50);
    assert_eq!(rate["data_source"]["left_out_packets"]["not-chosen"], 50);
    let asked = rate["flows"][0]["sender"]["asked_packets_per_second"].as_f64().unwrap();
    assert!((asked - 1000.0).abs() < 1e-6, "{asked}");
}

#[test]
fn a_file_is_sent_once_or_repeatedly() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    let path = directory.path().join("data");
    std::fs::write(&path, (0..100_003_u32).map(|n| n as u8).collect::<Vec<_>>()).unwrap();
    let content = format!("file:{}", path.display());
    let sent = |words: &[&str]| {
        let (code, record) = test(&host, words);
        assert_eq!(code, 0, "{words:?}: {record}");
        assert_eq!(record["data_source"]["bytes"], 100_003, "{words:?}");
        record["flows"][0]["receiver"].clone()
    };
    assert_eq!(sent(&["--content", &content])["bytes"], 100_003);
    assert_eq!(sent(&["-F", path.to_str().unwrap()])["bytes"], 100_003);
    assert_eq!(sent(&["--content", &content, "-n", "1M", "-l", "3000"])["bytes"], 1 << 20);
    // 1000 bytes, of which 32 are the header.
    let datagrams = sent(&["-u", "-b", "0", "-l", "1000", "--content", &content]);
    assert_eq!(datagrams["packets"], 100_003_u32.div_ceil(968));
    let datagrams = sent(&["-u", "-k", "500", "-b", "20M", "--content", &content]);
    assert_eq!((&datagrams["packets"], &datagrams["bytes"]), (&500.into(), &(500 * 1400).into()));
}

#[test]
fn files_that_cannot_be_sent_are_refused_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let whole = std::fs::read(capture(directory.path(), CaptureFormat::Pcap)).unwrap();
    let mut foreign = whole.clone();
    foreign[20] = 105;
    let cases = [
        (file("cut", &whole[..whole.len() - 1]), "packet 110"),
        (file("foreign", &foreign), "packet 1: link type 105"),
        (file("none", &whole[..24]), "nothing to send"),
        (file("text", b"no capture, but a text"), "neither pcap nor pcapng"),
    ];
    // No server: a connection would fail with exit code 3.
    let refused = |words: &[&str]| {
        let (code, error) = test("127.0.0.1:9", words);
        assert_eq!(code, 2, "{words:?}: {error}");
        error["error"].clone()
    };
    for (path, what) in &cases {
        let error = refused(&["--replay", path]);
        let given = error["given"].as_str().unwrap();
        assert_eq!(error["field"], "--replay");
        assert!(given.contains(what) && given.contains(path.as_str()), "{given}");
    }
    assert_eq!(
        refused(&["--content", &format!("file:{}", file("empty", b""))])["field"],
        "--content"
    );
    assert_eq!(refused(&["--content", "file:/nonexistent/x"])["field"], "--content");
    assert_eq!(refused(&["--replay", "/nonexistent/x"])["field"], "--replay");
    let path = capture(directory.path(), CaptureFormat::Pcap);
    let stream = refused(&["--replay", path.to_str().unwrap(), "--transport", "tcp"]);
    assert_eq!(stream["field"], "--transport");
    let text = file("data", b"data");
    let with_plan = refused(&["--content", &format!("file:{text}"), "--save-plan", "/dev/null"]);
    assert_eq!(with_plan["field"], "--save-plan");
}

#[test]
fn a_document_names_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.toml");
    for connection in ["content = \"file\"", "content = \"file:/etc/passwd\""] {
        let text = format!(
            "schema = \"weir.plan/1\"\nhost = \"127.0.0.1:9\"\n[[connection]]\n{connection}\n"
        );
        std::fs::write(&plan, text).unwrap();
        let mut command = weir();
        command.args(["test", "--json", "--no-store", "--plan", plan.to_str().unwrap()]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{connection}: {}", out(&output));
    }
}

/// A receiver's capture has every frame, with the addresses and ports that were asked for and right checksums.
#[test]
fn frames_are_sent_on_an_interface() {
    let test = "frames_are_sent_on_an_interface";
    let Some(bench) = Bench::up(test, &["dumpcap", "tshark", "bash"]) else { return };
    let path = capture(&bench.file(""), CaptureFormat::PcapNg);
    let receiver = Capture::of(&bench, "udp or tcp");
    let record = bench.test_to(
        "interface:eth0",
        &[
            "--replay",
            path.to_str().unwrap(),
            "--map-address",
            "198.18.0.0/16=203.0.113.0/16",
            "--map-port",
            "5061=7061",
            "--destination-mac",
            "02:00:00:00:00:77",
            "--fix-checksums",
        ],
    );
    let sender = record.flows[0].sender.as_ref().unwrap();
    assert_eq!((sender.packets, &*record.peer), (110, "frames"));
    assert_eq!(sender.missed_slots, Some(0));
    assert!(record.flows[0].receiver.is_none());
    let source = record.data_source.as_ref().unwrap();
    assert_eq!(source.bytes, 100 * 42 + PAYLOAD_BYTES + 10 * 54);
    let file = receiver.stop(&bench);
    let of = |filter: &str| decode(&file, filter);
    let mapped = "eth.dst == 02:00:00:00:00:77 && ip.src == 203.0.0.1 && ip.dst == 203.0.0.2";
    let udp = of(&format!("{mapped} && udp"));
    assert_eq!(udp.len(), 100);
    for (n, frame) in udp.iter().enumerate() {
        assert_eq!(frame.udp_length, 28 + 4 * n);
    }
    assert_eq!(of(&format!("{mapped} && udp.dstport == 7061")).len(), 50);
    assert_eq!(of("udp.dstport == 5061").len(), 0);
    assert_eq!(of(&format!("{mapped} && tcp")).len(), 10);
    let wrong = "ip.checksum.status == 0 || tcp.checksum.status == 0";
    assert_eq!(of(&format!("{mapped} && ({wrong})")).len(), 0);
}

#[test]
fn frames_need_an_interface_and_a_capture() {
    let directory = tempfile::tempdir().unwrap();
    let path = capture(directory.path(), CaptureFormat::Pcap);
    let replay = ["--replay", path.to_str().unwrap()];
    let refused = |host: &str, words: &[&str]| {
        let (code, error) = test(host, words);
        assert_eq!(code, 2, "{words:?}: {error}");
        error["error"]["field"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused("interface:lo", &[]), "--content");
    assert_eq!(refused("interface:no-such-one", &replay), "HOST");
    assert_eq!(refused("interface:a/b", &replay), "HOST");
    let mapped = ["--replay", replay[1], "--map-port", "1=2"];
    assert_eq!(refused("127.0.0.1:9", &mapped), "--map-port");
    let header = ["--replay", replay[1], "--header", "native"];
    assert_eq!(refused("interface:lo", &header), "--header");
    for pair in ["10.0.0.1", "10.0.0.0/8=10.0.0.0/9", "10.0.0.1=::1", "=", "x=y"] {
        let words = ["--replay", replay[1], "--map-address", pair];
        assert_eq!(refused("interface:lo", &words), "--map-address");
    }
}
