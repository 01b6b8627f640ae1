//! All integration tests of this crate in one program, which is linked once. The files under `files` are what the programs
//! printed; hosts were renamed.
// A helper that fails is a failed test. Helpers are shared, and not every test uses each.
#![allow(dead_code, clippy::unwrap_used)]

mod ditg;
mod flent;
mod hostile;
mod iperf3;
mod itgdec;
mod netperf;
mod nuttcp;

use weir_exchange::{Format, ReadError, read};
use weir_model::record::{Flow, Receiver, Record, Sender};

/// The time of the file where a test states one.
const MODIFIED_MS: u64 = 1_795_293_009_125;

/// The content of a file.
fn content(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/files/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn try_read(name: &str) -> Result<Vec<Record>, ReadError> {
    read(&content(name), None, MODIFIED_MS)
}

/// The only result of a file, whose format is recognised. It is stored as it is.
fn one(name: &str) -> Record {
    let [record] = <[Record; 1]>::try_from(try_read(name).unwrap()).unwrap();
    let text = weir_model::json::to_line(&record).unwrap();
    let stored: Record = weir_model::document::parse_json(text.as_bytes()).unwrap();
    assert_eq!(stored, record, "{name}");
    assert!(record.plan.connections.iter().map(|c| c.count as usize).sum::<usize>() >= 1);
    record
}

fn sender(flow: &Flow) -> &Sender {
    flow.sender.as_ref().unwrap()
}

fn receiver(flow: &Flow) -> &Receiver {
    flow.receiver.as_ref().unwrap()
}

fn has_warning(record: &Record, code: &str) -> bool {
    record.warnings.iter().any(|warning| warning.code == code)
}

/// Whether two numbers differ by at most this fraction.
fn is_near(a: f64, b: f64, fraction: f64) -> bool {
    (a - b).abs() <= fraction * a.abs().max(b.abs())
}

/// Each file is of the format of its directory, and of no other that reads it.
#[test]
fn each_file_is_recognised() {
    let formats: Vec<&str> = Format::read_ones().map(|format| format.name).collect();
    assert_eq!(
        formats,
        ["iperf3", "iperf3-stream", "netperf", "nuttcp", "itgdec", "ditg", "flent"]
    );
    for (name, tool) in [
        ("iperf3/bidir.json", "iperf3"),
        ("iperf3/stream.jsonl", "iperf3"),
        ("netperf/tcp_stream.txt", "netperf"),
        ("netperf/omni_rr.csv", "netperf"),
        ("netperf/interim_keyval.txt", "netperf"),
        ("nuttcp/tcp.txt", "nuttcp"),
        ("nuttcp/udp_parse.txt", "nuttcp"),
        ("nuttcp/verbose.txt", "nuttcp"),
        ("itgdec/receiver.txt", "d-itg"),
        ("ditg/receiver.log", "d-itg"),
        ("flent/rrul.flent.gz", "flent"),
    ] {
        let record = one(name);
        assert_eq!(
            (record.peer.as_str(), record.labels["imported"].as_str()),
            (tool, tool),
            "{name}"
        );
    }
}

#[test]
fn an_id_is_of_the_content() {
    let content = content("nuttcp/tcp.txt");
    let id = |bytes: &[u8], ms| read(bytes, None, ms).unwrap().swap_remove(0).id;
    assert_eq!(id(&content, 1), id(&content, MODIFIED_MS), "the time of the file does not matter");
    let other = String::from_utf8(content.clone()).unwrap().replace("77 %TX", "78 %TX");
    assert_ne!(id(&content, 1), id(other.as_bytes(), 1));
    let record = one("nuttcp/tcp.txt");
    assert_eq!(record.started_at, "2026-11-21T20:30:09.125Z");
    assert!(has_warning(&record, "start-unknown") && record.id.starts_with("nuttcp-"));
}

/// A named format reads what is not recognised, or refuses it.
#[test]
fn a_format_may_be_named() {
    let nuttcp = Format::find("nuttcp");
    assert!(nuttcp.is_some() && Format::find("weir").is_none());
    assert_eq!(read(&content("nuttcp/tcp.txt"), nuttcp, 0).unwrap().len(), 1);
    assert!(read(&content("netperf/tcp_stream.txt"), nuttcp, 0).is_err());
}
