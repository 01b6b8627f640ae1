//! Faults around `weir impair` (docs/emulator.md): each has its defined behaviour, and packets lost by it are counted.

use crate::common;
use crate::impair_path;
use std::net::UdpSocket;
use std::process::Child;
use std::time::Duration;

use common::{messages, signal, until};
use impair_path::{Path, round_trips};
use serde_json::Value;

/// Totals of A to B.
fn forward(report: &Value) -> &Value {
    &report["directions"][0]
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn alarms(report: &Value, kind: &str) -> Vec<bool> {
    let all = report["alarms"].as_array().into_iter().flatten();
    all.filter(|a| a["kind"] == kind).map(|a| a["active"].as_bool().unwrap()).collect()
}

/// Stops a process and waits until each of its threads is stopped.
fn stop(child: &Child) {
    signal("STOP", child);
    let tasks = format!("/proc/{}/task", child.id());
    until("it stands", || {
        std::fs::read_dir(&tasks).unwrap().all(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
        })
    });
}

impl Path {
    fn ip(&self, host: &str, words: &str) {
        let words: Vec<&str> = ["ip"].into_iter().chain(words.split(' ')).collect();
        self.tool(host, &words).good();
    }

    fn b(&self) -> String {
        self.lab.host("b").unwrap().ipv4.to_string()
    }

    /// Echo requests from a to b that were answered.
    fn answered(&self, requests: &str, bytes: &str) -> usize {
        let b = self.b();
        let words = ["ping", "-c", requests, "-i", "0.05", "-W", "1", "-s", bytes, "-M", "do", &b];
        round_trips(&self.tool("a", &words).stdout).len()
    }

    /// Adds permanent neighbour entries, so that only the test's own packets cross.
    fn introduce(&self) {
        for (host, other) in [("a", "b"), ("b", "a")] {
            let mac = self.lab.run_in(other, || weir_net::interface::interface("eth0")).unwrap();
            let mac = mac.unwrap().mac.unwrap().map(|octet| format!("{octet:02x}")).join(":");
            let address = self.lab.host(other).unwrap().ipv4;
            self.ip(host, &format!("neigh replace {address} lladdr {mac} dev eth0 nud permanent"));
            // Otherwise a router solicitation or a multicast listener report would cross some seconds later.
            let off = || std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
            self.lab.run_in(host, off).unwrap().unwrap();
        }
    }

    /// A socket in b with a large buffer, and one in a connected to it.
    fn datagrams(&self) -> (UdpSocket, UdpSocket) {
        let b = self.lab.host("b").unwrap().ipv4;
        let receiver = self.lab.run_in("b", || UdpSocket::bind((b, 5000)).unwrap()).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let sender = self.lab.run_in("a", || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.connect((b, 5000)).unwrap();
            socket
        });
        (sender.unwrap(), receiver)
    }
}

#[test]
fn packets_sent_while_an_interface_is_down_are_counted_as_lost() {
    let test = "packets_sent_while_an_interface_is_down_are_counted_as_lost";
    for words in [&["--both", "delay 5ms"][..], &["--link", "xdp"]] {
        let Some(path) = Path::up(test, &["ip", "ping"]) else { return };
        path.introduce();
        let emulator = path.emulator(words);
        until("the path works", || path.answered("1", "56") == 1);
        let lost = |report: &Value| count(&forward(report)["unplanned_dropped_packets"]);
        let before = lost(&path.stats());
        path.ip("m", "link set dev to-b down");
        assert_eq!(path.answered("4", "56"), 0, "{words:?}");
        until("the drops and the alarm", || {
            let report = path.stats();
            let is_counted = lost(&report) >= before + 3;
            if !is_counted {
                // On a busy host not all of the packets above were sent.
                path.answered("1", "56");
            }
            is_counted && alarms(&report, "link-down").contains(&true)
        });
        path.verb(&["acknowledge", "link-down", "to-b"]).good();
        path.verb(&["clear"]).good();
        let kept = path.stats();
        let kept = kept["alarms"].as_array().unwrap().iter().find(|a| a["kind"] == "link-down");
        assert!(kept.unwrap()["acknowledged_at_seconds"].is_number(), "{words:?}: {kept:?}");
        assert_eq!(path.verb(&["acknowledge", "link-up"]).status.code(), Some(2));
        path.ip("m", "link set dev to-b up");
        until("the path works again", || path.answered("1", "56") == 1);
        until("the alarm has passed", || {
            let alarms = alarms(&path.stats(), "link-down");
            !alarms.is_empty() && !alarms.contains(&true)
        });
        path.verb(&["clear", "link-down"]).good();
        assert!(alarms(&path.stats(), "link-down").is_empty(), "{words:?}");
        let thresholds = path.verb(&["thresholds", "--late-packets", "7", "--json"]).good();
        let thresholds: Value = serde_json::from_str(&thresholds).unwrap();
        assert_eq!(
            (&thresholds["late_packets"], &thresholds["cpu_percentage"]),
            (&7.into(), &90.into())
        );
        let (report, stderr) = emulator.report();
        let told = messages(&stderr, "link-down");
        assert!(told.len() == 1 && told[0].contains("to-b"), "{words:?}: {stderr}");
        assert!(count(&forward(&report)["link"]["refused_packets"]) >= 3, "{words:?}: {report}");
    }
}

#[test]
fn a_changed_mtu_is_followed_or_long_packets_are_counted() {
    let test = "a_changed_mtu_is_followed_or_long_packets_are_counted";
    for link in ["packet", "xdp"] {
        let Some(path) = Path::up(test, &["ip"]) else { return };
        path.introduce();
        let emulator = path.emulator(&["--link", link]);
        let (sender, receiver) = path.datagrams();
        let mut expected_loss = 0;
        // Sends three datagrams of `bytes` (IP length); returns whether they arrive. If not, they must be counted.
        let mut send = |bytes: usize, arrive: bool| {
            for _ in 0..3 {
                sender.send(&vec![7; bytes - 28]).unwrap();
            }
            if arrive {
                for _ in 0..3 {
                    assert_eq!(receiver.recv(&mut [0; 4000]).unwrap(), bytes - 28, "{link}");
                }
            } else {
                expected_loss += 3;
            }
            let lost = || count(&forward(&path.stats())["unplanned_dropped_packets"]);
            until("what is lost is counted", || lost() >= expected_loss);
            assert_eq!(lost(), expected_loss, "{link}: {bytes}");
        };
        send(1400, true);
        path.ip("m", "link set dev to-b mtu 1000");
        send(900, true);
        // AF_XDP sends any frame that fits its memory; the virtual cable accepts it.
        send(1400, link == "xdp");
        for (host, interface) in [("m", "to-a"), ("m", "to-b"), ("a", "eth0"), ("b", "eth0")] {
            path.ip(host, &format!("link set dev {interface} mtu 3000"));
        }
        send(1400, true);
        // AF_XDP's shared memory is divided into chunks of a fixed size when the link is opened.
        send(2900, link == "packet");
        send(1400, true);
        let (code, _, stderr) = emulator.interrupt();
        assert_eq!(code, Some(130), "{link}: {stderr}");
    }
}

#[test]
fn a_stopped_emulator_delays_a_full_ring_and_counts_packets_beyond_it() {
    let test = "a_stopped_emulator_delays_a_full_ring_and_counts_packets_beyond_it";
    for link in ["packet", "xdp"] {
        let Some(path) = Path::up(test, &["ip"]) else { return };
        path.introduce();
        let emulator = path.emulator(&["--link", link, "--ring", "64"]);
        let (sender, receiver) = path.datagrams();
        let before = path.stats();
        let arrive = |packets: u64| {
            for _ in 0..packets {
                receiver.recv(&mut [0; 100]).unwrap();
            }
        };
        // A number that is sure to fit.
        stop(&emulator.child);
        for _ in 0..50 {
            sender.send(&[1; 18]).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
        signal("CONT", &emulator.child);
        arrive(50);
        let fit = path.stats();
        assert_eq!(count(&forward(&fit)["unplanned_dropped_packets"]), 0, "{link}");
        assert_eq!(
            count(&forward(&fit)["received_packets"]),
            count(&forward(&before)["received_packets"]) + 50,
            "{link}"
        );
        if link == "packet" {
            // The kernel's time stamps show how long they waited. AF_XDP has no stamps, so arrival is when they are read.
            assert!(count(&forward(&fit)["late_packets"]) >= 50, "{}", forward(&fit));
        }
        // More than a ring of that size can hold.
        stop(&emulator.child);
        for _ in 0..2000 {
            sender.send(&[2; 18]).unwrap();
        }
        signal("CONT", &emulator.child);
        let mut after = Value::Null;
        until("all are accounted for", || {
            after = path.stats();
            let seen = count(&forward(&after)["received_packets"])
                + count(&forward(&after)["link"]["kernel_dropped_packets"]);
            seen == count(&forward(&fit)["received_packets"]) + 2000
        });
        let dropped = count(&forward(&after)["link"]["kernel_dropped_packets"]);
        assert!(dropped >= 1000, "{link}: {dropped}");
        assert_eq!(count(&forward(&after)["unplanned_dropped_packets"]), dropped, "{link}");
        arrive(2000 - dropped);
        until("the alarm", || !alarms(&path.stats(), "unplanned-drop").is_empty());
        let (report, stderr) = emulator.report();
        let told = messages(&stderr, "unplanned-drop");
        assert!(told.iter().any(|text| text.contains("a-to-b")), "{link}: {stderr}");
        assert_eq!(count(&forward(&report)["link"]["kernel_dropped_packets"]), dropped, "{link}");
    }
}

#[test]
fn drops_by_the_memory_limit_are_counted_and_reported() {
    let test = "drops_by_the_memory_limit_are_counted_and_reported";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    path.introduce();
    let file = path.file("cap.toml");
    let text = "schema = \"weir.impair/1\"\nmemory = \"64K\"\n[other]\na_to_b = { delay = { constant = \"1h\" } }\n";
    std::fs::write(&file, text).unwrap();
    let emulator = path.emulator(&["--config", file.to_str().unwrap()]);
    let (sender, _receiver) = path.datagrams();
    for _ in 0..1000 {
        sender.send(&[1; 18]).unwrap();
    }
    let mut report = Value::Null;
    until("all are in", || {
        report = path.stats();
        count(&forward(&report)["received_packets"]) >= 1000
    });
    let held = count(&forward(&report)["held_packets"]);
    // 60 bytes plus the bookkeeping for each packet.
    assert!(held > 100 && held <= (64 << 10) / 60, "{held}");
    assert_eq!(
        count(&forward(&report)["unplanned_dropped_packets"]),
        count(&forward(&report)["received_packets"]) - held
    );
    until("the alarms", || {
        let report = path.stats();
        alarms(&report, "memory-cap-near") == [true]
            && !alarms(&report, "unplanned-drop").is_empty()
    });
    // Packets delayed by an hour do not delay the end: it takes two seconds at most, and less after a second signal.
    signal("INT", &emulator.child);
    let (report, stderr) = emulator.report();
    assert_eq!(messages(&stderr, "memory-cap-near").len(), 1, "{stderr}");
    let flows = report["impairment"]["flows"].as_array().unwrap();
    let ahead = flows.iter().find(|flow| flow["direction"] == "forward").unwrap();
    let [received, sent, unplanned] = ["received", "sent", "unplanned_dropped"]
        .map(|name| count(&ahead["counters"][format!("{name}_packets")]));
    assert!(received >= 1000 && sent == 0 && unplanned == received, "{ahead}");
}

#[test]
fn offloads_and_promiscuous_mode_are_restored_after_any_end() {
    let test = "offloads_and_promiscuous_mode_are_restored_after_any_end";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    // One offload more than a virtual cable has enabled by default.
    let on = || weir_net::interface::set_offload("to-a", "rx-gro", true).unwrap();
    path.lab.run_in("m", on).unwrap();
    let offloads = || ["to-a", "to-b"].map(|i| path.offloads(i));
    let promiscuity = || ["to-a", "to-b"].map(|i| path.promiscuity(i));
    let (offloads_before, promiscuity_before) = (offloads(), promiscuity());
    assert!(offloads_before[0].contains("rx-gro"), "{offloads_before:?}");
    for link in ["packet", "xdp"] {
        for name in ["KILL", "TERM", "INT", "ABRT"] {
            let emulator = path.emulator(&["--link", link]);
            let changed = offloads();
            assert!(!changed[0].contains("rx-gro"), "{changed:?}");
            assert_ne!(changed[1], offloads_before[1], "{changed:?}");
            assert_eq!(promiscuity(), promiscuity_before.map(|n| n + 1), "{link}");
            signal(name, &emulator.child);
            let (code, ..) = emulator.ended();
            let expected = [("INT", 130), ("TERM", 0)].into_iter().find(|(n, _)| *n == name);
            assert_eq!(code, expected.map(|(_, code)| code), "{name}");
            until("settings as before", || {
                offloads() == offloads_before && promiscuity() == promiscuity_before
            });
        }
    }
}

/// Child processes of a process that have this name.
fn children(parent: u32, name: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let is_child = |stat: &str| {
        let (command, rest) = stat.rsplit_once(')').unwrap();
        command.ends_with(&format!("({name}"))
            && rest.split_whitespace().nth(1) == Some(parent.to_string().as_str())
    };
    all.filter(|process| {
        std::fs::read_to_string(process.path().join("stat")).is_ok_and(|stat| is_child(&stat))
    })
    .map(|process| process.file_name().into_string().unwrap())
    .collect()
}

#[test]
fn the_next_start_does_not_repeat_the_watchdogs_restoration() {
    let test = "the_next_start_does_not_repeat_the_watchdogs_restoration";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let set = |on: bool| {
        let set = || weir_net::interface::set_offload("to-a", "rx-gro", on).unwrap();
        path.lab.run_in("m", set).unwrap();
    };
    set(true);
    let before = path.offloads("to-a");
    let emulator = path.emulator(&[]);
    signal("KILL", &emulator.child);
    drop(emulator);
    until("settings as before", || path.offloads("to-a") == before);
    until("no note is left", || std::fs::read_dir(path.file("runtime")).unwrap().next().is_none());
    // The administrator disables it; it must stay disabled before, during and after the next emulator.
    set(false);
    let (_, stderr) = path.emulator(&[]).report();
    assert!(messages(&stderr, "restored").is_empty(), "{stderr}");
    assert!(!path.offloads("to-a").contains("rx-gro"));
}

#[test]
fn the_next_start_restores_after_emulator_and_watchdog_were_killed() {
    let test = "the_next_start_restores_after_emulator_and_watchdog_were_killed";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let on = || weir_net::interface::set_offload("to-a", "rx-gro", true).unwrap();
    path.lab.run_in("m", on).unwrap();
    let offloads = || ["to-a", "to-b"].map(|i| path.offloads(i));
    let before = offloads();
    let noted = || -> Vec<_> {
        let all = std::fs::read_dir(path.file("runtime")).unwrap().flatten();
        all.map(|f| f.path())
            .filter(|f| f.extension().is_some_and(|e| e == "restoration"))
            .collect()
    };
    let emulator = path.emulator(&[]);
    let off = offloads();
    assert!(!off[0].contains("rx-gro"), "{off:?}");
    let found = noted();
    assert_eq!(found.len(), 1, "{found:?}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&found[0].metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let watchdogs = children(emulator.child.id(), "weir-watchdog");
    assert_eq!(watchdogs.len(), 1);
    assert!(
        std::process::Command::new("kill")
            .args(["-s", "KILL", &watchdogs[0]])
            .status()
            .unwrap()
            .success()
    );
    signal("KILL", &emulator.child);
    drop(emulator);
    // A start on other interfaces does not restore these.
    let elsewhere = path.weir("a", &["impair", "eth0", "nosuch"]);
    assert_eq!(common::run(elsewhere).status.code(), Some(2));
    assert_eq!((offloads(), noted().len()), (off, 1));
    let (_, stderr) = path.emulator(&[]).report();
    let told = messages(&stderr, "restored");
    assert!(told.iter().any(|text| text.contains("to-a") && text.contains("rx-gro")), "{stderr}");
    assert_eq!(offloads(), before);
    assert!(noted().is_empty(), "{:?}", noted());
}
