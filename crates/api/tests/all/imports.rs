//! Files with results, as bodies.

use std::io::Write;

use serde_json::{Value, json};

use crate::http::{ask_on, connect, get};
use crate::served::{Served, keep, serve};

/// A file that a tool wrote.
fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/../exchange/tests/files/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gzip.write_all(content).unwrap();
    gzip.finish().unwrap()
}

fn send_as(s: &Served, kind: &str, query: &str, content: &[u8]) -> crate::http::Reply {
    let path = format!("/api/v1/imports{query}");
    let headers = [("Content-Type", kind)];
    ask_on(connect(s.address), "POST", &path, &headers, Some(content)).unwrap()
}

fn send(s: &Served, content: &[u8]) -> crate::http::Reply {
    send_as(s, "application/octet-stream", "", content)
}

#[test]
fn files_of_each_tool_become_runs_once() {
    let s = serve(|_| {});
    for (name, tool, runs) in [
        ("iperf3/tcp_parallel.json", "iperf3", 1),
        ("iperf3/stream.jsonl", "iperf3", 1),
        ("netperf/udp_stream.txt", "netperf", 1),
        ("netperf/omni_rr.csv", "netperf", 1),
        ("nuttcp/udp_loss_parse.txt", "nuttcp", 1),
        ("itgdec/receiver.txt", "d-itg", 1),
        ("ditg/receiver.log", "d-itg", 1),
        ("flent/rrul.flent.gz", "flent", 1),
    ] {
        let content = file(name);
        let made = send(&s, &content).expect(201);
        assert_eq!((&made["added"], &made["already_there"]), (&runs.into(), &0.into()), "{name}");
        let ids = made["ids"].as_array().unwrap();
        assert_eq!(ids.len(), runs, "{name}");
        let record = get(s.address, &format!("/runs/{}", ids[0].as_str().unwrap())).expect(200);
        assert_eq!(record["labels"]["imported"], tool, "{name}");
        assert_eq!(record["version"], "0.0.0", "{name}");
        assert_eq!(record["plan_sha256"].as_str().map(str::len), Some(64), "{name}");
        assert!(!record["flows"].as_array().unwrap().is_empty(), "{name}");
        // The same again, compressed.
        let again = send(&s, &gzip(&content)).json();
        if !name.ends_with(".gz") {
            assert_eq!((&again["added"], &again["ids"]), (&0.into(), &made["ids"]), "{name}");
        }
    }
}

#[test]
fn several_runs_of_a_file_are_counted_and_named() {
    let s = serve(|_| {});
    let (one, other) = (file("iperf3/tcp_reverse.json"), file("iperf3/udp_loss.json"));
    let first = send(&s, &one).expect(201);
    let both = send(&s, &[one, other].concat()).expect(201);
    assert_eq!((&both["added"], &both["already_there"]), (&1.into(), &1.into()));
    assert_eq!(both["ids"].as_array().unwrap().len(), 2);
    assert_eq!(both["ids"][0], first["ids"][0]);
    // Records, as exported.
    let to = serve(|_| {});
    let records: Vec<String> = both["ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| {
            get(s.address, &format!("/runs/{}", id.as_str().unwrap())).expect(200).to_string()
        })
        .collect();
    let made = send(&to, records.join("\n").as_bytes()).expect(201);
    assert_eq!((&made["added"], &made["ids"]), (&2.into(), &both["ids"]));
    assert_eq!(send(&to, b"[]").expect(200), json!({ "added": 0, "already_there": 0, "ids": [] }));
    let list = get(to.address, "/runs?tag=imported%3Diperf3").expect(200);
    assert_eq!(list["total"], 2);
}

#[test]
fn the_time_of_the_file_is_the_start_where_it_states_none() {
    let s = serve(|_| {});
    let content = file("netperf/tcp_stream.txt");
    let kind = "application/octet-stream";
    let made = send_as(&s, kind, "?modified_at=2026-03-01T12:00:00.250Z", &content).expect(201);
    let path = format!("/runs/{}", made["ids"][0].as_str().unwrap());
    let started = get(s.address, &path).expect(200)["started_at"].clone();
    assert!(started.as_str().unwrap().starts_with("2026-03-01T12:00:00"), "{started}");
    let refused = send_as(&s, kind, "?modified_at=yesterday", &content).expect(422);
    assert_eq!(refused["errors"][0]["field"], "?modified_at");
}

#[test]
fn invalid_files_are_refused_with_the_place() {
    let s = serve(|_| {});
    let refused = |content: &[u8], field: &str| {
        let problem = send(&s, content).expect(422);
        let error = &problem["errors"][0];
        assert_eq!(error["field"], field, "{problem}");
        assert!(error["accepted"].is_string() && error["given"].is_string(), "{problem}");
        problem
    };
    let unknown = refused(b"hello", "");
    assert!(unknown["errors"][0]["accepted"].as_str().unwrap().contains("nuttcp"), "{unknown}");
    refused(b"", "");
    let mut iperf3: Value = serde_json::from_slice(&file("iperf3/tcp_reverse.json")).unwrap();
    iperf3["end"]["streams"][0]["sender"]["bytes"] = "many".into();
    refused(iperf3.to_string().as_bytes(), "/end/streams/0/sender/bytes");
    let damaged = gzip(&file("iperf3/tcp_reverse.json"));
    refused(&damaged[..damaged.len() / 2], "");
    let good = String::from_utf8(file("nuttcp/tcp.txt")).unwrap();
    let words: Vec<&str> = good.split_whitespace().collect();
    let line = words.join(" ").replace("sec = ", "sec = x");
    assert!(refused(line.as_bytes(), "")["detail"].as_str().unwrap().contains("line 1"));
    assert_eq!(get(s.address, "/runs").expect(200)["total"], 0);
    // Records before the invalid one are stored, and the number says which it is.
    let from = serve(|_| {});
    keep(&from, "20261122-1", "first");
    let record = get(from.address, "/runs/20261122-1").expect(200);
    let bad = json!({ "schema": "weir.run/1", "id": "x", "started_at": 7 });
    let problem = send(&s, format!("{record}\n{bad}\n").as_bytes()).expect(422);
    assert!(problem["detail"].as_str().unwrap().contains("record 2"), "{problem}");
    assert_eq!(get(s.address, "/runs").expect(200)["total"], 1);
}

#[test]
fn hostile_files_use_bounded_memory() {
    let s = serve(|_| {});
    // A page of another site can send text without a preflight request.
    for kind in ["text/plain", "application/json", "multipart/form-data"] {
        send_as(&s, kind, "", &file("nuttcp/tcp.txt")).expect(415);
    }
    send(&s, &vec![b'x'; (8 << 20) + 1]).expect(413);
    // What a compressed file becomes has the same limit.
    let bomb = gzip(&vec![0; 9 << 20]);
    assert!(bomb.len() < 1 << 20);
    let problem = send(&s, &bomb).expect(422);
    assert!(problem["errors"][0]["accepted"].as_str().unwrap().contains("8388608"), "{problem}");
    // Many small values, lines and results.
    send(&s, format!("[{}0]", "{},".repeat(100_000)).as_bytes()).expect(413);
    let line = String::from_utf8(file("nuttcp/tcp.txt")).unwrap();
    send(&s, line.repeat(20_000).as_bytes()).expect(413);
    let problem = send(&s, line.repeat(10_500).as_bytes()).expect(422);
    assert!(problem["errors"][0]["accepted"].as_str().unwrap().contains("10000"), "{problem}");
    assert_eq!(get(s.address, "/runs").expect(200)["total"], 0);
}
