//! Files that were changed in any way.

use std::io::Read;

use proptest::prelude::*;
use weir_exchange::{Format, read};

use super::content;

const SAMPLES: [&str; 12] = [
    "iperf3/tcp_parallel.json",
    "iperf3/server_loss.json",
    "iperf3/stream_udp_bidir.jsonl",
    "netperf/udp_stream.txt",
    "netperf/tcp_rr_cpu.txt",
    "netperf/omni_rr.csv",
    "netperf/interim_keyval.txt",
    "nuttcp/udp_loss_parse.txt",
    "nuttcp/tcp_interval.txt",
    "nuttcp/verbose.txt",
    "itgdec/receiver.txt",
    "flent/tcp_download.flent.gz",
];

#[test]
fn hostile_files() {
    let text = |name: &str| {
        let bytes = content(name);
        let mut unpacked = String::new();
        match flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut unpacked) {
            Ok(_) => unpacked,
            Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
        }
    };
    let samples = SAMPLES.map(text);
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    weir_laws::mutation::replay(&samples, 300, weir_exchange::fuzz::fuzz_results);
    let log = content("ditg/receiver.log");
    let log = &log[..144 * 12];
    weir_laws::mutation::replay(&[log], 300, weir_exchange::fuzz::fuzz_results);
}

#[test]
fn many_objects_are_refused() {
    let text =
        format!("{{\"start\":{{\"connected\":[]}},\"intervals\":[{}0]}}", "{},".repeat(20_000));
    assert!(read(text.as_bytes(), Format::find("iperf3"), 0).is_err());
    let streams = serde_json::json!({
        "start": { "connected": [], "test_start": { "protocol": "TCP" } },
        "end": { "streams": vec![serde_json::json!({ "sender": { "socket": 5, "sender": true } }); 1001] },
    });
    let error = read(streams.to_string().as_bytes(), None, 0).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("end.streams"));
    let deep = "[".repeat(1_000_000);
    for format in Format::read_ones() {
        assert!(read(deep.as_bytes(), Some(format), 0).is_err(), "{}", format.name);
    }
}

proptest! {
    /// A stream's figures of any size are read as they are written.
    #[test]
    fn figures_of_iperf3_survive(bytes in 0u64.., retransmits in 0u64.., seconds in 0.0..1e8) {
        let text = serde_json::json!({
            "start": {
                "connected": [{
                    "socket": 5, "local_host": "192.0.2.1", "local_port": 1, "remote_host": "::1", "remote_port": 2,
                }],
                "timestamp": { "timesecs": 1_795_969_295 },
                "test_start": { "protocol": "TCP", "blksize": bytes },
            },
            "end": { "streams": [{
                "sender": { "socket": 5, "seconds": seconds, "bytes": bytes, "retransmits": retransmits, "sender": true },
                "receiver": { "socket": 5, "end": seconds, "bytes": bytes, "sender": true },
            }] },
        });
        let record = read(text.to_string().as_bytes(), None, 0).unwrap().swap_remove(0);
        let flow = &record.flows[0];
        prop_assert_eq!(flow.sender.as_ref().map(|s| (s.bytes, s.seconds)), Some((bytes, seconds)));
        prop_assert_eq!(flow.receiver.as_ref().map(|r| r.bytes), Some(bytes));
        prop_assert_eq!(flow.tcp.as_ref().map(|t| t.retransmits), Some(retransmits));
        prop_assert_eq!(&flow.destination, "[::1]:2");
    }

    /// A result of nuttcp keeps its loss whatever its numbers.
    #[test]
    fn figures_of_nuttcp_survive(megabytes in 0u32.., sent in 1u64..1 << 50, lost in 0u64..1 << 49) {
        let lost = lost.min(sent);
        let line = format!(
            "{megabytes}.25 MB / 1.50 sec = 2.5 Mbps 1 %TX 2 %RX {lost} / {sent} drop/pkt 0.00 %loss\n"
        );
        let record = read(line.as_bytes(), None, 0).unwrap().swap_remove(0);
        let arrived = record.flows[0].receiver.clone().unwrap();
        prop_assert_eq!((arrived.packets, arrived.lost_packets), (sent - lost, Some(lost)));
        prop_assert_eq!(arrived.bits_per_second, Some(2.5e6));
    }
}
