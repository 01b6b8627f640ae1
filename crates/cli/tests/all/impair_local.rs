//! `weir impair --local`: this host's own traffic, in a lab of two hosts without a middle.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use weir_lab::{Lab, LabSpec, Topology};
use weir_net::namespace::effective_user_id;

use crate::common::{Ended, WEIR, events, has_tools, run, signal, skip, until, wait};
use crate::impair_path::round_trips;

/// Hosts a and b, where the emulator is in a. Each has further addresses that are not impaired.
struct Hosts {
    lab: Lab,
    directory: tempfile::TempDir,
}

const OTHER: [&str; 2] = ["198.51.100.1", "198.51.100.2"];

impl Hosts {
    fn up(test: &str, tools: &[&str]) -> Option<Hosts> {
        if effective_user_id() != 0 {
            skip(test, "needs root");
            return None;
        }
        if !has_tools(test, &[&["ip", "ping"], tools].concat()) {
            return None;
        }
        let spec = LabSpec { topology: Topology::Pair, ..LabSpec::default() };
        let hosts = Hosts { lab: Lab::up(&spec).unwrap(), directory: tempfile::tempdir().unwrap() };
        for (host, address) in ["a", "b"].into_iter().zip(OTHER) {
            hosts
                .tool(host, &["ip", "addr", "add", &format!("{address}/24"), "dev", "eth0"])
                .good();
        }
        Some(hosts)
    }

    /// The addresses of b that are impaired.
    fn b(&self) -> [String; 2] {
        let b = self.lab.host("b").unwrap();
        [b.ipv4.to_string(), b.ipv6.to_string()]
    }

    fn tool(&self, host: &str, words: &[&str]) -> Ended {
        let mut command = self.lab.command(host, words[0]).unwrap();
        command.args(&words[1..]);
        run(command)
    }

    fn weir(&self, words: &[&str]) -> Command {
        let mut command = self.lab.command("a", WEIR).unwrap();
        command.args(words).env("WEIR_DATA_DIR", self.directory.path());
        command.env("WEIR_RUNTIME_DIR", self.directory.path().join("runtime"));
        command.env("WEIR_ERRORS", "json").env_remove("SSH_CONNECTION");
        command
    }

    /// Starts an emulator of the traffic with b's two addresses and waits until it is ready.
    fn emulator(&self, words: &[&str]) -> Emulator {
        let [v4, v6] = self.b();
        let common = ["impair", "--local", "eth0", "--to", &v4, "--to", &v6, "--json"];
        let mut command = self.weir(&[&common, words].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !events(&said).iter().any(|event| event["event"] == "ready") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "it did not start: {said}");
        }
        Emulator { child, _stderr: stderr }
    }

    /// Round-trip times from `host` to `to`, ms.
    fn ping(&self, host: &str, to: &str, count: &str) -> Vec<f64> {
        round_trips(&self.tool(host, &["ping", "-c", count, "-i", "0.1", "-W", "2", to]).stdout)
    }

    /// Whether a has no interface but its own.
    fn is_clean(&self) -> bool {
        let links = self.tool("a", &["ip", "-br", "link"]).good();
        links.lines().all(|line| line.starts_with("lo ") || line.starts_with("eth0@"))
    }
}

struct Emulator {
    child: Child,
    /// Open, so that it can be written to.
    _stderr: BufReader<std::process::ChildStderr>,
}

impl Emulator {
    /// Stops it by an interrupt; returns its report.
    fn report(mut self) -> Value {
        signal("INT", &self.child);
        let status = wait(&mut self.child, "weir impair");
        assert_eq!(status.code(), Some(130));
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The counter of the flow of a direction.
fn counter(report: &Value, direction: usize, name: &str) -> u64 {
    report["impairment"]["flows"][direction]["counters"][name].as_u64().unwrap()
}

#[test]
fn own_traffic_with_the_given_addresses_is_delayed_in_both_directions() {
    let test = "own_traffic_with_the_given_addresses_is_delayed_in_both_directions";
    let Some(hosts) = Hosts::up(test, &[]) else { return };
    let emulator = hosts.emulator(&["delay 400ms"]);
    for address in hosts.b() {
        let times = hosts.ping("a", &address, "3");
        assert!(times.len() == 3 && times.iter().all(|&ms| ms >= 800.0), "{times:?}");
    }
    let a = hosts.lab.host("a").unwrap().ipv4.to_string();
    assert!(hosts.ping("b", &a, "1").iter().all(|&ms| ms >= 800.0));
    assert_eq!(hosts.ping("a", OTHER[1], "3").len(), 3);
    let report = emulator.report();
    assert_eq!(report["interfaces"], serde_json::json!(["this-host", "eth0"]));
    for direction in [0, 1] {
        // Three of each family, and one from b; none of the other addresses.
        assert_eq!(counter(&report, direction, "received_packets"), 7, "{report}");
        assert_eq!(counter(&report, direction, "sent_packets"), 7, "{report}");
    }
    until("its veths are removed", || hosts.is_clean());
}

#[test]
fn losses_of_own_traffic_are_those_of_the_law_in_each_direction() {
    let test = "losses_of_own_traffic_are_those_of_the_law_in_each_direction";
    let Some(hosts) = Hosts::up(test, &[]) else { return };
    let emulator = hosts.emulator(&["--a-to-b", "loss every 2", "--b-to-a", "loss every 5"]);
    let [v4, _] = hosts.b();
    let answered = hosts.ping("a", &v4, "20").len() as u64;
    let report = emulator.report();
    assert_eq!(counter(&report, 0, "received_packets"), 20, "{report}");
    assert_eq!(counter(&report, 0, "lost_packets"), 10, "{report}");
    assert_eq!(counter(&report, 1, "received_packets"), 10, "{report}");
    assert_eq!(counter(&report, 1, "lost_packets"), 2, "{report}");
    assert_eq!(answered, 8);
}

#[test]
fn own_traffic_flows_unimpaired_after_a_sigkill() {
    let test = "own_traffic_flows_unimpaired_after_a_sigkill";
    let Some(hosts) = Hosts::up(test, &[]) else { return };
    let [v4, _] = hosts.b();
    let mut emulator = hosts.emulator(&["loss 100%"]);
    assert!(hosts.ping("a", &v4, "2").is_empty());
    emulator.child.kill().unwrap();
    emulator.child.wait().unwrap();
    until("the traffic flows", || hosts.ping("a", &v4, "1").len() == 1);
    until("its veths are removed", || hosts.is_clean());
    // Nothing prevents another one.
    let emulator = hosts.emulator(&["loss 100%"]);
    assert!(hosts.ping("a", &v4, "2").is_empty());
    assert_eq!(counter(&emulator.report(), 0, "lost_packets"), 2);
}

/// Super-packets of TCP are segmented, with complete checksums.
#[test]
fn a_stream_of_own_traffic_arrives_intact() {
    let test = "a_stream_of_own_traffic_arrives_intact";
    let Some(hosts) = Hosts::up(test, &[]) else { return };
    let emulator = hosts.emulator(&["delay 1ms"]);
    let mut server = hosts.lab.command("b", WEIR).unwrap();
    server.arg("serve").env("WEIR_DATA_DIR", hosts.directory.path()).env_remove("WEIR_KEY");
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    let [v4, _] = hosts.b();
    const BYTES: u64 = 20_000_000;
    for reverse in [&[][..], &["-R"]] {
        let size = BYTES.to_string();
        let words = [&["test", &v4, "--verify", "-n", &size, "--json"][..], reverse].concat();
        let mut ended = run(hosts.weir(&words));
        // The server may not listen yet.
        until("the server answers", || {
            if !ended.status.success() {
                ended = run(hosts.weir(&words));
            }
            ended.status.success()
        });
        let record = ended.record();
        let text = serde_json::to_value(&record).unwrap().to_string();
        assert!(text.contains(&size), "{text}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
    let report = emulator.report();
    for direction in [0, 1] {
        let bytes = counter(&report, direction, "received_bytes");
        assert!(bytes >= BYTES, "{report}");
        assert_eq!(report["directions"][direction]["link"]["refused_packets"], 0, "{report}");
    }
}

#[test]
fn unusable_arguments_for_own_traffic_are_refused() {
    let test = "unusable_arguments_for_own_traffic_are_refused";
    let Some(hosts) = Hosts::up(test, &[]) else { return };
    let [v4, _] = hosts.b();
    let session = format!("{v4} 50000 {} 22", hosts.lab.host("a").unwrap().ipv4);
    let refused = |words: &[&str]| {
        let mut command = hosts.weir(&[&["impair", "--local"], words].concat());
        command.env("SSH_CONNECTION", &session);
        let ended = run(command);
        (ended.refusal().code, ended.status.code())
    };
    let code = |words: &[&str]| refused(words).1;
    assert_eq!(code(&["eth0", "delay 1ms"]), Some(2), "no --to");
    assert_eq!(code(&["none", "--to", OTHER[1], "delay 1ms"]), Some(2));
    assert_eq!(code(&["eth0", "--to", "198.51.100.0/33", "delay 1ms"]), Some(2));
    assert_eq!(code(&["eth0", "--to", OTHER[1], "delay 1ms", "--both", "delay 1ms"]), Some(2));
    assert_eq!(refused(&["lo", "--to", OTHER[1], "delay 1ms"]).0, "not-ethernet");
    let own = refused(&["eth0", "--to", "0.0.0.0/0", "delay 1ms"]);
    assert_eq!(own, ("own-session".to_owned(), Some(2)));
    let emulator = hosts.emulator(&["delay 1ms"]);
    let second = refused(&["eth0", "--to", OTHER[1], "delay 1ms"]);
    assert_eq!(second, ("interface-in-use".to_owned(), Some(2)));
    drop(emulator);
    // Without the session's peer, also on the interface of the default route.
    hosts.tool("a", &["ip", "route", "add", "default", "via", OTHER[1]]).good();
    let mut command =
        hosts.weir(&["impair", "--local", "eth0", "--to", OTHER[1], "--duration", "1ms", "none"]);
    command.env("SSH_CONNECTION", &session);
    run(command).good();
}

#[test]
fn the_interface_of_own_traffic_is_watched() {
    let test = "the_interface_of_own_traffic_is_watched";
    let Some(hosts) = Hosts::up(test, &[]) else { return };
    let mut emulator = hosts.emulator(&["delay 1ms"]);
    let alarms = || -> Vec<(String, bool)> {
        let text = run(hosts.weir(&["impair", "stats", "--json"])).good();
        let shown: Value = serde_json::from_str(&text).unwrap();
        let all = shown["alarms"].as_array().into_iter().flatten();
        let down = all.filter(|alarm| alarm["kind"] == "link-down");
        down.map(|alarm| (alarm["object"].as_str().unwrap().into(), alarm["active"] == true))
            .collect()
    };
    hosts.tool("a", &["ip", "link", "set", "eth0", "down"]).good();
    until("it is down", || alarms() == [("eth0".to_owned(), true)]);
    hosts.tool("a", &["ip", "link", "set", "eth0", "up"]).good();
    until("it is up", || alarms() == [("eth0".to_owned(), false)]);
    hosts.tool("a", &["ip", "link", "del", "eth0"]).good();
    assert_eq!(wait(&mut emulator.child, "weir impair").code(), Some(3));
}
