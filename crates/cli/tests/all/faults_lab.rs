//! Network faults between two hosts of a lab, such as a firewall that drops datagrams or an interface that is removed.

use crate::faults_common;
use std::time::{Duration, Instant};

use faults_common::*;
use weir_lab::{Lab, LabSpec};

/// A lab, or `None` after printing why the test is skipped. If root can't create one in CI, the test fails.
fn lab(test: &str) -> Option<Lab> {
    // The owner of our own /proc entry is this user.
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    if uid != 0 {
        eprintln!("SKIPPED {test}: needs root");
        return None;
    }
    match Lab::up(&LabSpec::default()) {
        Ok(lab) => Some(lab),
        Err(e) if std::env::var_os("CI").is_none() => {
            eprintln!("SKIPPED {test}: {e}");
            None
        }
        Err(e) => panic!("{test}: {e}"),
    }
}

/// Runs a tool on a host; `false` after printing that it is not installed.
fn tool(lab: &Lab, test: &str, host: &str, program: &str, words: &str) -> bool {
    let output = match lab.command(host, program).unwrap().args(words.split(' ')).output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && std::env::var_os("CI").is_none() => {
            eprintln!("SKIPPED {test}: no {program}");
            return false;
        }
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{program} {words}: {}", err(&output));
    true
}

fn serve(lab: &Lab) -> Watched {
    let mut command = clean(lab.command("b", env!("CARGO_BIN_EXE_weir")).unwrap());
    command.args(["serve", "--json-stream"]);
    let server = Watched::start(command);
    server.wait_for("listening", 1);
    server
}

fn client(lab: &Lab, words: &[&str]) -> std::process::Command {
    let mut command = clean(lab.command("a", env!("CARGO_BIN_EXE_weir")).unwrap());
    command.args(["test", &lab.host("b").unwrap().ipv4.to_string(), "--no-store"]).args(words);
    command
}

#[test]
fn a_firewall_that_drops_udp_is_reported_as_such() {
    let test = "a_firewall_that_drops_udp_is_reported_as_such";
    let Some(lab) = lab(test) else { return };
    let _server = serve(&lab);
    for words in [
        "add table inet faults",
        "add chain inet faults in { type filter hook input priority 0 ; }",
        "add rule inet faults in udp dport 9347 drop",
    ] {
        if !tool(&lab, test, "b", "nft", words) {
            return;
        }
    }
    let begun = Instant::now();
    let output = client(&lab, &["-u"]).output().unwrap();
    assert_eq!((refusal(&output).code.as_str(), refusal(&output).exit_code), ("udp-blocked", 3));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // TCP is not affected.
    let output = client(&lab, &["-n", "1M", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let record: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    let told = |record: &serde_json::Value| {
        record["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "latency-missing")
    };
    assert!(told(&record) && record.get("latency").is_none(), "{record}");
    // Nothing is printed about what was not requested.
    let output = client(&lab, &["-n", "1M", "--json", "--no-latency"]).output().unwrap();
    assert!(!told(&serde_json::from_str(&out(&output)).unwrap()));
}

#[test]
fn a_host_without_a_route_is_unreachable() {
    let Some(lab) = lab("a_host_without_a_route_is_unreachable") else { return };
    for address in ["203.0.113.1", "2001:db8::1"] {
        let mut command = clean(lab.command("a", env!("CARGO_BIN_EXE_weir")).unwrap());
        let output = command.args(["test", address, "--no-store"]).output().unwrap();
        let refused = refusal(&output);
        assert_eq!((refused.code.as_str(), refused.exit_code), ("connect", 3));
        assert!(refused.given.unwrap().contains(address));
    }
}

#[test]
fn a_removed_interface_ends_the_test_and_results_are_stored() {
    let test = "a_removed_interface_ends_the_test_and_results_are_stored";
    let Some(lab) = lab(test) else { return };
    let server = serve(&lab);
    let base = ["--json-stream", "-t", "0", "-i", "0.1", "-b", "2M"];
    let shapes = [&["-u"][..], &["-u", "-R"], &[], &["-R"], &["-u", "-b", "0", "-l", "1000"]];
    let mut clients: Vec<_> = shapes
        .iter()
        .map(|words| {
            let base = if words.len() > 2 { &base[..5] } else { &base[..] };
            let client = Watched::start(client(&lab, &[base, words].concat()));
            client.wait_for("interval", 2);
            client
        })
        .collect();
    let interface = &lab.host("a").unwrap().interface;
    if !tool(&lab, test, "a", "ip", &format!("link del dev {interface}")) {
        return;
    }
    for (client, words) in clients.iter_mut().zip(shapes) {
        assert_eq!(client.ended(), Some(3), "{words:?}");
        let record = client.last("end");
        assert_eq!(record["status"], "partial", "{words:?}");
        let flow = &record["flows"][0];
        let counted = if words.contains(&"-R") { &flow["receiver"] } else { &flow["sender"] };
        assert!(counted["bytes"].as_u64().unwrap() > 0, "{words:?}: {flow}");
        assert_eq!(client.last("error")["exit_code"], 3, "{words:?}");
        if words.first() == Some(&"-u") && !words.contains(&"-R") {
            // The error names the cause, not the silence that followed from it.
            assert_eq!(client.last("error")["code"], "no-route", "{words:?}");
        }
    }
    drop(server);
}

/// Without the timeout neither end would fail for minutes, since the control connection still works.
#[test]
fn data_that_stays_unacknowledged_fails_after_the_timeout() {
    let test = "data_that_stays_unacknowledged_fails_after_the_timeout";
    let Some(lab) = lab(test) else { return };
    let _server = serve(&lab);
    for (port, words) in [("5001", &[][..]), ("5002", &["-R"])] {
        let base = ["--json-stream", "-t", "3600", "-i", "0.1", "-b", "2M"];
        let more = ["--cport", port, "--snd-timeout", "1s"];
        let mut client = Watched::start(client(&lab, &[&base[..], &more[..], words].concat()));
        client.wait_for("interval", 2);
        for rule in [
            "add table inet faults".to_owned(),
            "add chain inet faults in { type filter hook input priority 0 ; }".into(),
            format!("add rule inet faults in tcp sport {port} drop"),
        ] {
            if !tool(&lab, test, "b", "nft", &rule) {
                return;
            }
        }
        // Limited by the timeout of the tests; the test itself would take an hour.
        assert_ne!(client.ended(), Some(0), "{words:?}");
        let flow = client.last("end")["flows"][0].clone();
        assert!(flow["sender"]["bytes"].as_u64().unwrap() > 0, "{words:?}: {flow}");
    }
}

#[test]
fn datagrams_that_do_not_fit_the_path_are_refused_before_anything_starts() {
    let test = "datagrams_that_do_not_fit_the_path_are_refused_before_anything_starts";
    let Some(lab) = lab(test) else { return };
    let server = serve(&lab);
    let b = lab.host("b").unwrap();
    let send = |address: &str, length: &str, words: &[&str]| {
        let mut command = clean(lab.command("a", env!("CARGO_BIN_EXE_weir")).unwrap());
        let base = ["-u", "-k", "10", "-b", "1000pps", "--no-store", "--dont-fragment"];
        command.args(["test", address, "-l", length]).args(base).args(words).output().unwrap()
    };
    let (v4, v6) = (b.ipv4.to_string(), b.ipv6.to_string());
    // First the MTU of the interface, then a smaller one of the route.
    for (address, fits, too_large) in [(&v4, "1472", "1473"), (&v6, "1452", "1453")] {
        let output = send(address, fits, &[]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        for words in [&[][..], &["-R"]] {
            let sessions = server.count("session_opened");
            let output = send(address, too_large, words);
            let refused = refusal(&output);
            let parts = (refused.field.as_deref(), refused.exit_code);
            assert_eq!(parts, (Some("--dont-fragment"), 2), "{words:?}");
            assert!(refused.given.unwrap().contains(too_large), "{words:?}");
            assert!(refused.accepted.unwrap().contains(fits), "{words:?}");
            assert_eq!(server.count("session_opened"), sessions, "a session was opened");
        }
    }
    let route = format!("route add {v4}/32 dev {} mtu 1000", lab.host("a").unwrap().interface);
    if !tool(&lab, test, "a", "ip", &route) {
        return;
    }
    let output = send(&v4, "973", &[]);
    assert!(refusal(&output).accepted.unwrap().contains("972"));
    assert_eq!(send(&v4, "972", &[]).status.code(), Some(0));
}
