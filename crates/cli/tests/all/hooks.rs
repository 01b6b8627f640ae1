//! What accompanies a test: commands before and after it, and its figures for Prometheus.

use std::net::TcpListener;

use crate::common::collector;
use crate::faults_common;

use faults_common::*;
use serde_json::Value;

fn test(words: &[&str], host: &str) -> (i32, String) {
    let mut command = weir();
    command.env("WEIR_ERRORS", "json").args(["test", host, "--no-store", "--json", "-n", "1M"]);
    let output = command.args(words).output().unwrap();
    (output.status.code().unwrap(), out(&output))
}

#[test]
fn commands_around_a_test_are_in_its_record() {
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    let words =
        ["--before", "echo one; echo two >&2", "--after", "head -c 70000 /dev/zero; exit 7"];
    let (code, text) = test(&words, &host);
    assert_eq!(code, 0, "the measurement is complete");
    let record: Value = serde_json::from_str(&text).unwrap();
    let [before, after] = record["commands"].as_array().unwrap().as_slice() else {
        panic!("{}", record["commands"])
    };
    assert_eq!((&before["when"], &before["exit_code"]), (&"before".into(), &0.into()));
    assert_eq!((&before["output"], &before["is_truncated"]), (&"one\ntwo\n".into(), &false.into()));
    assert_eq!((&after["when"], &after["exit_code"]), (&"after".into(), &7.into()));
    let kept = after["output"].as_str().unwrap().len();
    assert_eq!((kept, &after["is_truncated"]), (65_536, &true.into()));
    let codes = record["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap());
    assert!(codes.into_iter().any(|code| code == "after-command-failed"), "{record}");
}

#[test]
fn a_command_that_fails_before_the_test_refuses_it() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("after");
    let after = format!("touch {}", trace.display());
    // No server: a connection would fail with exit code 3.
    let (code, text) =
        test(&["--before", "echo no modem; exit 3", "--after", &after], "127.0.0.1:9");
    let error: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &error["error"]["field"]), (2, &"--before".into()), "{text}");
    assert!(error["error"]["given"].as_str().unwrap().contains("no modem"), "{text}");
    assert!(!trace.exists(), "no test was made, so nothing runs after it");
}

#[test]
fn the_command_after_a_test_that_failed_undoes_what_was_done_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("set-up");
    let (before, after) = (format!("touch {}", trace.display()), format!("rm {}", trace.display()));
    let (code, _) = test(&["--before", &before, "--after", &after], "127.0.0.1:9");
    assert_eq!((code, trace.exists()), (3, false));
}

#[test]
fn a_running_test_serves_its_figures() {
    use std::io::{BufRead, BufReader, Read, Write};
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    // A free port, which the test takes next.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = free.to_string();
    let mut command = weir();
    command.args(["test", &host, "-u", "-b", "1000pps", "-t", "60", "-i", "0.1", "--no-store"]);
    command.args(["--json-stream", "--prometheus", &address]).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Two intervals have been reported, so that the figures of the first are there.
    let intervals = lines.by_ref().map(Result::unwrap).filter(|line| line.contains("\"interval\""));
    assert_eq!(intervals.take(2).count(), 2);
    let mut stream = std::net::TcpStream::connect(free).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{"))).expect(name);
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(value("weir_sent_packets_total") > 0.0, "{text}");
    assert!(value("weir_sent_bytes_total") > value("weir_sent_packets_total"), "{text}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_running_test_posts_its_figures_to_a_collector() {
    let (url, posted) = collector(TcpListener::bind("127.0.0.1:0").unwrap());
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    let mut command = weir();
    command.args(["test", &host, "-n", "1M", "-i", "0.1", "--no-store", "--json", "--otlp", &url]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let last = posted.try_iter().last().expect("an export at the end");
    let resource = &last["resourceMetrics"][0];
    let id = serde_json::json!({ "key": "service.instance.id", "value": { "stringValue": record["id"] } });
    assert!(resource["resource"]["attributes"].as_array().unwrap().contains(&id), "{resource}");
    let metrics = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let sent = metrics.iter().find(|metric| metric["name"] == "weir_sent_bytes").unwrap();
    let bytes = sent["sum"]["dataPoints"][0]["asInt"].as_str().unwrap();
    assert_eq!(bytes, record["flows"][0]["sender"]["bytes"].to_string());

    for wrong in ["https://127.0.0.1", "127.0.0.1:4318"] {
        let output = weir().args(["test", &host, "--otlp", wrong]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

/// With and without the page, whose test server is another process.
#[test]
fn a_server_exports_sums_over_its_sessions() {
    let (url, posted) = collector(TcpListener::bind("127.0.0.1:0").unwrap());
    exports_sums(Serve::start(&["--otlp", &url]), &posted);
    if cfg!(target_os = "linux") {
        let home = tempfile::tempdir().unwrap();
        let directory =
            |name: &str| (format!("WEIR_{}_DIR", name.to_uppercase()), home.path().join(name));
        let environment = ["data", "config", "runtime"].map(directory);
        let (url, posted) = collector(TcpListener::bind("127.0.0.1:0").unwrap());
        let words = ["--otlp", &url, "--ui=127.0.0.1:0"];
        exports_sums(Serve::start_with(&words, &environment), &posted);
    }
    for words in [&["serve", "--otlp", "https://h"][..], &["impair", "a", "b", "--otlp", "h"]] {
        assert_eq!(weir().args(words).output().unwrap().status.code(), Some(2), "{words:?}");
    }
}

fn exports_sums(server: Serve, posted: &std::sync::mpsc::Receiver<serde_json::Value>) {
    let host = format!("127.0.0.1:{}", server.port);
    let output = weir().args(["test", &host, "-n", "1M", "--no-store"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let value = |body: &serde_json::Value, name: &str| {
        let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap();
        let kind = if metric["sum"].is_object() { "sum" } else { "gauge" };
        metric[kind]["dataPoints"][0]["asInt"].as_str().unwrap().to_owned()
    };
    loop {
        // Until the session has ended.
        let body = posted.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
        if value(&body, "weir_received_bytes") == (1 << 20).to_string() {
            assert_eq!(value(&body, "weir_server_sessions"), "1");
            assert_eq!(value(&body, "weir_server_open_sessions"), "0");
            break;
        }
    }
}
