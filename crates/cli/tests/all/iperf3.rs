//! iperf3's protocol from outside: `weir test --peer iperf3`, `weir serve --peer iperf3`, and results in its form.

use serde_json::{Value, json};

use crate::ttcp::{Running, free_port, json_of, weir};

#[test]
fn a_test_is_served_stored_and_exported() {
    let directory = tempfile::tempdir().unwrap();
    let (own, port) = (free_port(), free_port());
    let peer = format!("--peer=iperf3={port}");
    let words = ["serve", "-B", "127.0.0.1", "-p", &own, &peer, "--json-stream"];
    let mut server = Running::start(weir(directory.path(), &words));
    let listening = server.event("peer_listening");
    assert_eq!(listening["transports"], json!(["tcp", "udp", "mptcp"]));
    let run = |words: &[&str]| {
        let all = [&["test", "127.0.0.1", "-p", &port, "--json"], words].concat();
        let output = weir(directory.path(), &all).output().unwrap();
        (output.status.code().unwrap(), json_of(&output))
    };
    let export = |id: &Value, format: &str| {
        let words = ["runs", "export", id.as_str().unwrap(), "--format", format];
        weir(directory.path(), &words).output().unwrap()
    };
    let of_udp = ["--peer", "iperf3", "-u", "-b", "1000pps", "-k", "100", "-P", "2", "-l", "500"];
    let (code, record) = run(&of_udp);
    assert_eq!((code, &record["peer"]), (0, &json!("iperf3")));
    let closed = server.event("session_closed");
    for flow in 0..2 {
        assert_eq!(record["flows"][flow]["receiver"]["packets"], 100);
        assert_eq!(closed["report"]["flows"][flow]["receiver"]["packets"], 100);
    }
    for id in [&record["id"], &closed["run"]] {
        let theirs = json_of(&export(id, "iperf3"));
        assert_eq!(theirs["end"]["sum"]["packets"], 200);
        assert_eq!(theirs["end"]["sum_received"]["bytes"], 100_000);
        assert_eq!(theirs["end"]["streams"][1]["udp"]["packets"], 100);
    }
    let lines = export(&record["id"], "iperf3-stream").stdout;
    let first: Value =
        serde_json::from_slice(lines.split(|b| *b == b'\n').next().unwrap()).unwrap();
    assert_eq!(
        (&first["event"], &first["data"]["test_start"]["protocol"]),
        (&json!("start"), &json!("UDP"))
    );

    // Weir's own port answers too.
    let words =
        ["test", "127.0.0.1", "-p", &own, "--json", "--peer", "iperf3", "-n", "10K", "-l", "1K"];
    for transport in [None, Some("-u")] {
        let words = [&words[..], transport.as_slice()].concat();
        let record = json_of(&weir(directory.path(), &words).output().unwrap());
        assert_eq!(record["total"]["forward"]["receiver"]["bytes"].as_u64().unwrap() / 1024, 10);
        assert_eq!(server.event("session_closed")["protocol"], "iperf3");
    }

    // Without the name of the tool: refused with it, or recognised.
    let (code, refused) = run(&["-n", "10K"]);
    assert_eq!((code, &refused["error"]["code"]), (3, &json!("other-tool")));
    let (code, record) = run(&["-n", "10K", "--peer", "auto"]);
    assert_eq!((code, &record["plan"]["peer"]), (0, &json!("iperf3")));
    assert_eq!(record["total"]["forward"]["receiver"]["bytes"], 10_240);
}

#[test]
fn what_iperf3_does_not_carry_is_refused_by_its_flag() {
    let directory = tempfile::tempdir().unwrap();
    for (words, flag) in [
        (&["-u", "--verify"][..], "--verify"),
        (&["--rr"], "--shape"),
        (&["-u", "-R", "--spacing", "exponential"], "--spacing"),
        (&["-O", "0.5"], "--omit"),
        (&["-P", "129"], "--parallel"),
        (&["--udp-lite"], "--udp-lite"),
        (&["--start-at", "+5s"], "--start-at"),
        (&["-u", "--header", "none"], "--header"),
    ] {
        let words = [&["test", "192.0.2.1", "--peer", "iperf3", "--json"], words].concat();
        let output = weir(directory.path(), &words).output().unwrap();
        let error = json_of(&output)["error"].clone();
        assert_eq!((output.status.code(), &error["field"]), (Some(2), &json!(flag)), "{error}");
    }
    // No format of another tool for what it can't say.
    let output = weir(directory.path(), &["test", "192.0.2.1", "--peer", "iperf", "--json"]);
    let output = { output }.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
