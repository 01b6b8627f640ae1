//! `weir impair tap:NAME …`: the emulator as the wire behind a TAP device (docs/emulator.md).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::common::{run, signal, until, wait};
use crate::impair_path::{Path, round_trips};

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

impl Path {
    fn ip_in_middle(&self, words: &str) {
        self.tool("m", &["ip"].into_iter().chain(words.split(' ')).collect::<Vec<_>>()).good();
    }

    fn found_in_middle(&self, name: &str) -> Option<weir_net::interface::Interface> {
        self.lab.run_in("m", || weir_net::interface::interface(name).ok()).unwrap()
    }

    fn address(&self, host: &str) -> String {
        self.lab.host(host).unwrap().ipv4.to_string()
    }

    /// Round trips from a host to b, ms.
    fn round_trips_to_b(&self, from: &str) -> Vec<f64> {
        let b = self.address("b");
        let words = ["ping", "-c", "5", "-i", "0.05", "-W", "5", &b];
        round_trips(&self.tool(from, &words).stdout)
    }

    /// Sends bytes from a host to b and back over TCP.
    fn echoed(&self, from: &str) {
        let sent: Vec<u8> = (0..2_000_000_u32).map(|i| (i ^ i >> 8) as u8).collect();
        let at_b = (self.lab.host("b").unwrap().ipv4, 5001);
        let listener = self.lab.run_in("b", || TcpListener::bind(at_b).unwrap()).unwrap();
        let len = sent.len();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(LIMIT).unwrap();
            let mut got = vec![0; len];
            stream.read_exact(&mut got).unwrap();
            stream.write_all(&got).unwrap();
        });
        let connect = || TcpStream::connect(at_b).unwrap();
        let mut stream = self.lab.run_in(from, connect).unwrap();
        stream.set_read_timeout(LIMIT).unwrap();
        stream.write_all(&sent).unwrap();
        let mut got = vec![0; len];
        stream.read_exact(&mut got).unwrap();
        server.join().unwrap();
        assert!(got == sent, "other bytes than were sent");
    }
}

/// Super-packets that arrived and left in each direction, and frames lost without a law.
fn passed(report: &Value) -> Vec<[u64; 3]> {
    let directions = report["directions"].as_array().unwrap().iter();
    let each = directions.map(|direction| {
        let link = &direction["link"];
        let lost = &direction["unplanned_dropped_packets"];
        [&link["super_packets"], &link["sent_super_packets"], lost].map(|v| v.as_u64().unwrap())
    });
    each.collect()
}

#[test]
fn a_host_reaches_another_through_the_wire_behind_its_tap_device() {
    let test = "a_host_reaches_another_through_the_wire_behind_its_tap_device";
    for ends in [["tap:vm1", "to-b"], ["to-b", "tap:vm1"]] {
        let Some(path) = Path::up(test, &["ip", "ping"]) else { return };
        let emulator = path.emulator_between(ends, &["--both", "delay 10ms"]);
        path.ip_in_middle(&format!("addr add {}/24 dev vm1", path.address("a")));
        until("the path works", || !path.round_trips_to_b("m").is_empty());
        let times = path.round_trips_to_b("m");
        assert!(times.len() == 5 && times.iter().all(|ms| *ms >= 20.0), "{times:?}");
        path.echoed("m");
        // The end keeps its name where the emulator reports it.
        assert_eq!(path.stats()["interfaces"], serde_json::json!(ends));
        path.ip_in_middle("link set dev vm1 down");
        let alarms = || path.stats()["alarms"].as_array().cloned().unwrap_or_default();
        let is_down = |a: &Value| a["kind"] == "link-down" && a["object"] == "tap:vm1";
        until("the alarm", || alarms().iter().any(is_down));
        let (report, _) = emulator.report();
        for [super_packets, sent_super_packets, _] in passed(&report) {
            assert!(super_packets > 0 && sent_super_packets > 0, "{report}");
        }
        assert!(path.found_in_middle("vm1").is_none(), "it is removed at the end");
    }
}

/// As for a virtual machine's device: the TAP device is a port of a bridge.
#[test]
fn a_bridge_is_connected_by_the_wire_behind_its_port() {
    let test = "a_bridge_is_connected_by_the_wire_behind_its_port";
    let Some(path) = Path::up(test, &["ip", "ping"]) else { return };
    path.ip_in_middle("link add name bridge type bridge");
    path.ip_in_middle("link set dev bridge up");
    path.ip_in_middle("link set dev to-a master bridge");
    path.ip_in_middle("tuntap add dev vm1 mode tap");
    path.ip_in_middle("link set dev vm1 up master bridge");
    let emulator = path.emulator_job(&serde_json::json!({
        "job": "emulator", "interfaces": ["tap:vm1", "to-b"], "few_capabilities": true,
        "impairment": { "schema": "weir.impair/1", "other": { "a_to_b": "delay 10ms" } },
    }));
    until("the path works", || !path.round_trips_to_b("a").is_empty());
    let times = path.round_trips_to_b("a");
    assert!(times.len() == 5 && times.iter().all(|ms| *ms >= 10.0), "{times:?}");
    path.echoed("a");
    assert!(passed(&path.stats()).iter().all(|[.., lost]| *lost == 0));
    drop(emulator);
    let stayed = path.found_in_middle("vm1").unwrap();
    assert!(stayed.up && stayed.master.is_some(), "{stayed:?}");
}

#[test]
fn a_created_tap_device_ends_with_its_emulator_and_the_emulator_with_it() {
    let test = "a_created_tap_device_ends_with_its_emulator_and_the_emulator_with_it";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let mut emulator = path.emulator_between(["tap:vm1", "tap:vm2"], &[]);
    assert!(path.found_in_middle("vm1").unwrap().up);
    signal("KILL", &emulator.child);
    wait(&mut emulator.child, "weir impair");
    until("it is removed", || path.found_in_middle("vm1").is_none());
    let emulator = path.emulator_between(["tap:vm1", "to-b"], &[]);
    path.ip_in_middle("link delete dev vm1");
    let (code, stdout, stderr) = emulator.ended();
    assert_eq!(code, Some(3), "{stdout}{stderr}");
}

#[test]
fn unusable_tap_devices_are_refused() {
    let test = "unusable_tap_devices_are_refused";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let _running = path.emulator_between(["tap:vm1", "to-b"], &[]);
    path.ip_in_middle("tuntap add dev down mode tap");
    for (ends, code, given) in [
        ("tap:vm1 to-a", "emulator", "tap:vm1"),
        ("to-b tap:vm2", "interface-in-use", "to-b"),
        ("vm1 to-a", "interface-in-use", "vm1"),
        ("to-a tap:to-b", "emulator", "tap:to-b"),
        ("tap:to-a to-a", "same-interface", "tap:to-a"),
        ("tap:vm2 tap:vm2", "same-interface", "tap:vm2"),
        ("tap:vm2 nosuch", "emulator", "nosuch"),
        ("tap:down to-a", "interface-down", "tap:down"),
        ("tap:a/b to-a", "usage", "tap:a/b"),
        ("to-a tap:", "usage", "tap:"),
        ("tap:vm2 to-a --threads 2", "usage", "2"),
    ] {
        let words: Vec<&str> = ["impair"].into_iter().chain(ends.split(' ')).collect();
        let refused = run(path.weir("m", &words)).refusal();
        assert_eq!((refused.code.as_str(), refused.exit_code), (code, 2), "{ends}: {refused:?}");
        assert_eq!(refused.given.as_deref(), Some(given), "{ends}: {refused:?}");
        assert!(refused.accepted.is_some_and(|accepted| !accepted.is_empty()), "{ends}");
    }
    assert!(path.found_in_middle("vm2").is_none(), "nothing is left of a refused start");
}
