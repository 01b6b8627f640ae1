//! Data files of flent 2.1.1.

use std::io::Read;

use weir_exchange::{Format, NoForm, read};
use weir_model::plan::Direction::{Forward, Reverse};
use weir_model::record::Record;

use super::{content, has_warning, is_near, one, receiver, sender};

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn series_are_flows() {
    let record = one("flent/rrul.flent.gz");
    assert_eq!(record.plan.title.as_deref(), Some("rrul"));
    assert_eq!(record.labels["tool-version"], "2.1.1");
    assert_eq!(record.started_at, "2026-11-29T13:14:43.947Z");
    assert_eq!(record.local.as_ref().unwrap().host, "client");
    // 4 pings, 4 downloads, 4 uploads; sums and means are not flows.
    assert_eq!(record.flows.len(), 12);
    let flow = |name: &str| record.flows.iter().find(|flow| flow.name == name).unwrap();
    let up = flow("TCP upload BE");
    assert_eq!(
        (up.direction, sender(up).bytes, receiver(up).bytes),
        (Forward, 1_213_169_664, 1_213_178_204)
    );
    assert_eq!(up.tcp.as_ref().unwrap().retransmits, 108);
    let down = flow("TCP download EF");
    assert_eq!((down.direction, sender(down).bytes), (Reverse, 409_255_936));
    let ping = flow("Ping (ms) ICMP");
    assert!(ping.transport.echoes() && ping.sender.is_none());
    let round_trip = ping.round_trip.as_ref().unwrap();
    assert_eq!((round_trip.min_seconds, round_trip.max_seconds), (0.000_013, 0.000_228));
    assert!(round_trip.p50_seconds.is_some() && round_trip.p99_seconds.is_none());
    let udp = flow("Ping (ms) UDP EF").round_trip.as_ref().unwrap();
    assert!(udp.p50_seconds.is_none(), "values are means, not round trips");
    assert!(has_warning(&record, "means-of-intervals"));

    let rows = &record.intervals;
    assert_eq!((rows.len(), rows[1].start_seconds, rows[1].end_seconds), (71, 0.2, 0.4));
    let first = &rows[0].flows;
    assert_eq!(first.len(), 1, "the other series have no value yet: {first:?}");
    assert_eq!(first[0].sender.as_ref().unwrap().rtt_seconds, Some(0.000_016));
    assert!(rows[0].total.forward.is_none(), "a round trip is no amount");
    let middle = rows[35].total.forward.as_ref().unwrap().sender.as_ref().unwrap();
    assert!(middle.bits_per_second.is_some_and(|rate| rate > 1e9));
}

#[test]
fn a_run_is_written_as_a_test_of_flent() {
    let record = one("iperf3/tcp_parallel.json");
    let flent = Format::find("flent").unwrap();
    let bytes = flent.write(std::slice::from_ref(&record)).unwrap();
    assert_eq!(flent.write(std::slice::from_ref(&record)), Ok(bytes.clone()));
    let document: serde_json::Value = serde_json::from_str(&unpacked(&bytes)).unwrap();
    assert_eq!(document["version"], 4);
    assert_eq!(document["metadata"]["NAME"], "tcp_nup");
    assert_eq!(document["metadata"]["TEST_PARAMETERS"]["upload_streams"], 2);
    let results = document["results"].as_object().unwrap();
    let names: Vec<&str> = results.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["Ping (ms) ICMP", "TCP upload avg", "TCP upload sum", "TCP upload::1", "TCP upload::2"]
    );
    // Without the omitted start; each series has a value at each time.
    assert_eq!(document["x_values"].as_array().unwrap().len(), 2);
    assert!(results.values().all(|values| values.as_array().unwrap().len() == 2));
    let value = |name: &str| results[name][0].as_f64().unwrap();
    assert!(is_near(value("TCP upload::1"), 19.921_628, 1e-6));
    assert!(is_near(value("TCP upload sum"), 2.0 * value("TCP upload avg"), 1e-9));
    assert_eq!(document["raw_values"]["TCP upload::1"][0]["tcp_rtt"], 0.126);

    let again = read(&bytes, None, 0).unwrap().swap_remove(0);
    let figures = |r: &Record| {
        r.flows.iter().map(|f| (sender(f).bytes, receiver(f).bytes)).collect::<Vec<_>>()
    };
    assert_eq!(figures(&again), figures(&record));
    assert_eq!(again.started_at, record.started_at);
}

#[test]
fn each_kind_of_run_has_its_test() {
    let name = |file: &str| {
        let record = one(file);
        let bytes = Format::find("flent").unwrap().write(std::slice::from_ref(&record))?;
        let document: serde_json::Value = serde_json::from_str(&unpacked(&bytes)).unwrap();
        let again = read(&bytes, None, 0).unwrap().swap_remove(0);
        assert_eq!(again.intervals.len(), record.intervals.len(), "{file}");
        Ok(document["metadata"]["NAME"].as_str().unwrap().to_owned())
    };
    assert_eq!(name("iperf3/tcp_reverse.json"), Ok("tcp_ndown".into()));
    assert_eq!(name("iperf3/bidir.json"), Ok("tcp_bidirectional".into()));
    assert_eq!(name("iperf3/udp_loss.json"), Ok("udp_flood".into()));
    assert_eq!(name("flent/tcp_download.flent.gz"), Ok("tcp_ndown".into()));
    assert_eq!(name("iperf3/udp_reverse.json"), Err(NoForm::NoSeries));
    assert_eq!(name("netperf/rr_interim.txt"), Err(NoForm::NoSeries));
    assert_eq!(name("nuttcp/tcp.txt"), Err(NoForm::NoIntervals));
    let two = [one("iperf3/bidir.json"), one("iperf3/tcp_reverse.json")];
    assert_eq!(Format::find("flent").unwrap().write(&two), Err(NoForm::SeveralRuns));
}

#[test]
fn a_bad_field_is_named() {
    let text = unpacked(&content("flent/tcp_download.flent.gz"));
    let field = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        read(text.replacen(from, to, 1).as_bytes(), None, 0).err().and_then(|error| error.field)
    };
    let version = text.rfind("\"version\": 4").map(|_| ("\"version\": 4", "\"version\": 5"));
    let (from, to) = version.unwrap();
    assert_eq!(field(from, to).as_deref(), Some("version"));
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut bad = document.clone();
    bad["x_values"][3] = 0.into();
    let error = read(bad.to_string().as_bytes(), None, 0).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("x_values[3]"));
    let mut bad = document.clone();
    bad["results"]["TCP download"][40] = "x".into();
    let error = read(bad.to_string().as_bytes(), None, 0).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("results.TCP download"));
    let mut other = document;
    other["results"]["cpu_stats::load"] = other["results"]["TCP download"].clone();
    other["raw_values"]["cpu_stats::load"] = other["raw_values"]["TCP download"].clone();
    let record = read(other.to_string().as_bytes(), None, 0).unwrap().swap_remove(0);
    assert!(has_warning(&record, "series-left-out") && record.flows.len() == 2);
}
