//! One `weir impair` with several pairs of interfaces.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::common::{run, until};
use crate::impair_path::{Path, round_trips};

/// Connects a and b by a second pair of interfaces in the middle, to-a2 and to-b2.
fn connect(path: &Path) {
    for (host, address) in [("a", "10.99.0.1/24"), ("b", "10.99.0.2/24")] {
        let (near, far) = (format!("to-{host}2"), format!("far-{host}2"));
        let mut sleeping =
            Sleeping(path.lab.command(host, "sleep").unwrap().arg("60").spawn().unwrap());
        let process = sleeping.0.id().to_string();
        let ip =
            |host: &str, words: &[&str]| drop(path.tool(host, &[&["ip"], words].concat()).good());
        ip("m", &["link", "add", &near, "type", "veth", "peer", "name", &far]);
        ip("m", &["link", "set", &far, "netns", &process]);
        ip("m", &["link", "set", &near, "up"]);
        ip(host, &["address", "add", address, "dev", &far]);
        ip(host, &["link", "set", &far, "up"]);
        sleeping.0.kill().unwrap();
    }
}

/// A process that keeps a host's namespace open by its number.
struct Sleeping(Child);

impl Drop for Sleeping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn pairs_have_the_same_laws_and_draws_commands_and_ends_of_their_own() {
    let test = "pairs_have_the_same_laws_and_draws_commands_and_ends_of_their_own";
    let Some(path) = Path::up(test, &["ip", "ping", "sleep"]) else { return };
    connect(&path);
    let first = path.lab.host("b").unwrap().ipv4.to_string();
    let ping = |address: &str| {
        let text = path.tool("a", &["ping", "-c", "3", "-i", "0.2", address]).good();
        let times = round_trips(&text);
        assert_eq!(times.len(), 3, "{text}");
        times.into_iter().fold(f64::INFINITY, f64::min)
    };
    let before = path.offloads("to-b");
    let emulator = path.emulator(&["--pair", "to-a2", "to-b2", "delay 40ms", "--seed", "7"]);
    let list = || -> Value {
        serde_json::from_str::<Value>(&path.verb(&["list", "--json"]).good()).unwrap()["emulators"]
            .take()
    };
    until("both listen", || list().as_array().unwrap().len() == 2);
    let process = emulator.child.id();
    let second = format!("{process}-2");
    let ids: Vec<Value> = list().as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, [process.to_string(), second.clone()]);
    assert!(ping(&first) >= 80.0 && ping("10.99.0.2") >= 80.0);
    // A command is for one of them.
    path.verb(&["set", "--id", &second, "--both", "delay 150ms"]).good();
    assert!(ping("10.99.0.2") >= 300.0);
    assert!(ping(&first) < 300.0);
    // An interface that is removed ends its pair alone.
    path.tool("m", &["ip", "link", "del", "dev", "to-b2"]).good();
    until("its end is in the alarms", || {
        path.verb(&["stats", "--json", "--id", &second]).status.code() != Some(0)
    });
    assert!(ping(&first) >= 80.0);
    let (code, stdout, stderr) = emulator.interrupt();
    assert_eq!(code, Some(3), "{stderr}");
    let reports: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    let of = |field: &str| reports.iter().map(|report| report[field].clone()).collect::<Vec<_>>();
    assert_eq!(
        of("interfaces"),
        [serde_json::json!(["to-a", "to-b"]), serde_json::json!(["to-a2", "to-b2"])]
    );
    let reasons: Vec<bool> =
        of("end_reason").iter().map(|reason| reason.as_str().unwrap().contains("to-b2")).collect();
    assert_eq!(reasons, [false, true]);
    let seeds: Vec<Value> =
        reports.iter().map(|report| report["impairment"]["config"]["seed"].clone()).collect();
    assert_eq!(seeds, ["0x7", "0x8"]);
    assert_eq!(path.offloads("to-b"), before);
    assert_eq!(std::fs::read_dir(path.file("runtime")).unwrap().count(), 0);
}

#[test]
fn a_pair_that_is_refused_starts_nothing() {
    let test = "a_pair_that_is_refused_starts_nothing";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    connect(&path);
    let before = path.offloads("to-a");
    for (pair, given) in [(["to-a2", "absent"], "absent"), (["to-a2", "to-a"], "to-a")] {
        let words = ["impair", "to-a", "to-b", "--pair", pair[0], pair[1], "delay 1ms"];
        let mut command: Command = path.weir("m", &words);
        command.stdin(Stdio::null());
        let refused = run(command).refusal();
        assert_eq!((refused.given.as_deref(), refused.exit_code), (Some(given), 2), "{refused:?}");
        assert_eq!(path.offloads("to-a"), before);
        assert_eq!(std::fs::read_dir(path.file("runtime")).unwrap().count(), 0);
    }
}
