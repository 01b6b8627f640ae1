//! `weir impair` between the hosts of a lab: its effect on packets, its cleaning up, and its refusals.

use crate::common;
use crate::impair_path;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Running, WEIR, has_tools, messages, refusal_in, run, signal, skip, until};
use impair_path::{Path, round_trips};
use serde_json::Value;
use weir_model::plan::Direction;
use weir_model::record::Record;
use weir_net::namespace::{Process, effective_user_id, process_start_time};
use weir_runs::{Store, StoredCalibration};
use weir_wire::packets::{FLAG_CONTROL, Judged, PacketLogReader, Record as Verdict, RecordKind};

#[test]
fn ping_takes_forty_milliseconds_longer_each_way_and_nothing_is_left_behind() {
    let test = "ping_takes_forty_milliseconds_longer_each_way_and_nothing_is_left_behind";
    let Some(path) = Path::up(test, &["ping", "ip"]) else { return };
    let before = ["to-a", "to-b"].map(|i| (path.offloads(i), path.promiscuity(i)));
    let emulator = path.emulator(&["--both", "delay 40ms", "--seed", "7"]);
    let changed = ["to-a", "to-b"].map(|i| (path.offloads(i), path.promiscuity(i)));
    assert_ne!(before, changed);
    let b = path.lab.host("b").unwrap();
    for address in [b.ipv4.to_string(), b.ipv6.to_string()] {
        let text = path.tool("a", &["ping", "-c", "5", "-i", "0.2", &address]).good();
        let times = round_trips(&text);
        assert_eq!(times.len(), 5, "{text}");
        assert!(times.iter().all(|&ms| ms >= 80.0), "{text}");
    }
    let report = path.stats();
    assert_eq!(report["impairment"]["config"]["seed"], "0x7");
    // Delay needs the kernel's receive stamps.
    assert!(report["links"][0].as_str().unwrap().contains("tpacket-v2"), "{}", report["links"]);
    for flow in report["impairment"]["flows"].as_array().unwrap() {
        assert_eq!(flow["asked"], "delay 40ms");
        assert_eq!(flow["counters"]["sent_packets"], flow["counters"]["received_packets"]);
        assert!(flow["counters"]["received_packets"].as_u64() >= Some(10), "{flow}");
        assert!(flow["realised"]["delay_min_seconds"].as_f64() >= Some(0.04), "{flow}");
    }
    let (report, _) = emulator.report();
    for flow in report["impairment"]["flows"].as_array().unwrap() {
        assert!(flow["lateness"]["count"].as_u64() >= Some(10), "{flow}");
    }
    assert_eq!(["to-a", "to-b"].map(|i| (path.offloads(i), path.promiscuity(i))), before);
    let left: Vec<_> = std::fs::read_dir(path.file("runtime")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn lateness_is_judged_by_the_calibration_of_the_host() {
    let test = "lateness_is_judged_by_the_calibration_of_the_host";
    let Some(path) = Path::up(test, &["ping"]) else { return };
    let limit = || {
        let emulator = path.emulator(&["delay 1ms"]);
        let b = path.lab.host("b").unwrap().ipv4.to_string();
        path.tool("a", &["ping", "-c", "2", "-i", "0.05", &b]).good();
        let (report, _) = emulator.report();
        let flows = report["impairment"]["flows"].as_array().unwrap();
        let forward = flows.iter().find(|flow| flow["direction"] == "forward").unwrap();
        forward["current"]["fidelity"]["late_limit_seconds"].as_f64().unwrap()
    };
    assert_eq!(limit(), 0.001);
    let host = weir_net::host::host().unwrap().hostname;
    let at = "2026-01-01T00:00:00Z";
    let calibration = serde_json::json!({
        "schema": "weir.calibration/1", "id": "c", "at": at, "version": "0", "warnings": [],
        "host": { "hostname": host, "kernel": "", "cpu_cores": 1 },
        "figures": { "emulator_wakeup_late_p99_seconds": 0.0001 },
    });
    let stored = StoredCalibration { id: "c".into(), host, at: at.into(), calibration };
    Store::open(&path.file("runs.db")).unwrap().put_calibration(&stored).unwrap();
    assert!((limit() - 0.0003).abs() < 1e-8);
}

#[test]
fn without_a_control_socket_the_laws_end_after_the_keepalive_timeout() {
    let test = "without_a_control_socket_the_laws_end_after_the_keepalive_timeout";
    let Some(path) = Path::up(test, &["ping", "ip"]) else { return };
    // A file instead of the directory of sockets.
    std::fs::write(path.file("runtime"), "").unwrap();
    let emulator = path.emulator(&["--both", "loss 100%", "--keepalive-timeout", "1s"]);
    assert!(emulator.ready["control_socket"].is_null(), "{}", emulator.ready);
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    path.tool("a", &["ping", "-c", "20", "-i", "0.3", "-W", "1", &b]).good();
    let (_, stderr) = emulator.report();
    assert!(!messages(&stderr, "keepalive-expired").is_empty(), "{stderr}");
}

/// The same as text: what is in force at the start, counters of both directions at the end.
#[test]
fn seed_laws_socket_and_counters_are_printed() {
    let test = "seed_laws_socket_and_counters_are_printed";
    let Some(path) = Path::up(test, &["ping"]) else { return };
    let words = ["impair", "to-a", "to-b", "--both", "delay 7ms", "--seed", "7"];
    let emulator = Running::start(path.weir("m", &words));
    until("it listens", || run(path.weir("m", &["impair", "stats"])).status.success());
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    path.tool("a", &["ping", "-c", "2", "-i", "0.2", &b]).good();
    signal("INT", emulator.child());
    let socket = format!("impair-{}.socket", emulator.child().id());
    let ended = emulator.finish();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    for part in ["to-a ⇄ to-b", "0x7", "delay 7ms", &socket] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    // Of both directions: counters, and what is realised of the laws.
    let rows = ended.stdout.lines().filter(|line| line.starts_with("other "));
    assert_eq!(rows.count(), 4, "{}", ended.stdout);
}

#[test]
fn the_counters_of_an_emulator_are_exported() {
    let test = "the_counters_of_an_emulator_are_exported";
    let Some(path) = Path::up(test, &["ping"]) else { return };
    let listen = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, posted) = common::collector(path.lab.run_in("m", listen).unwrap());
    let emulator = path.emulator(&["--a-to-b", "loss 100%", "--otlp", &url]);
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    path.tool("a", &["ping", "-c", "3", "-i", "0.2", "-W", "1", &b]);
    let (report, _) = emulator.report();
    // The last one, at the end.
    let body = posted.try_iter().last().unwrap();
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let lost = metrics.iter().find(|m| m["name"] == "weir_emulator_lost_packets").unwrap();
    let points = lost["sum"]["dataPoints"].as_array().unwrap();
    for (point, flow) in points.iter().zip(report["impairment"]["flows"].as_array().unwrap()) {
        let lost = flow["counters"]["lost_packets"].to_string();
        assert_eq!(point["asInt"].as_str(), Some(&*lost), "{flow}");
    }
    // Neighbour discovery may add to the three.
    let count: u64 = points[0]["asInt"].as_str().unwrap().parse().unwrap();
    assert!(points.len() == 2 && count >= 3, "{lost}");
    let from = |point: &Value| point["attributes"][0]["value"]["stringValue"].clone();
    assert_eq!([from(&points[0]), from(&points[1])], ["to-a", "to-b"]);
}

/// All other packets are dropped, so only address resolution shows whether it is exempt.
#[test]
fn address_resolution_is_impaired_only_on_request() {
    let test = "address_resolution_is_impaired_only_on_request";
    let Some(path) = Path::up(test, &["ping", "ip"]) else { return };
    let b = path.lab.host("b").unwrap();
    let addresses = [b.ipv4.to_string(), b.ipv6.to_string()];
    for (more, is_exempt) in [(&[][..], true), (&["--impair-arp"], false)] {
        let words = [&["--both", "loss 100%", "--seed", "7"], more].concat();
        let emulator = path.emulator(&words);
        for host in ["a", "b"] {
            path.tool(host, &["ip", "neigh", "flush", "all"]).good();
        }
        for address in &addresses {
            let ping = path.tool("a", &["ping", "-c", "1", "-W", "2", address]);
            assert_eq!(ping.status.code(), Some(1), "{}", ping.stdout);
            let known = path.tool("a", &["ip", "neigh", "show", address]).good();
            assert_eq!(known.contains("lladdr"), is_exempt, "{known}");
        }
        let report = path.stats();
        let impaired = &report["impairment"]["config"]["impair_arp"];
        assert_eq!(impaired.as_bool().unwrap_or(false), !is_exempt);
        for direction in report["directions"].as_array().unwrap() {
            let exempt = direction["exempt_packets"].as_u64().unwrap();
            assert_eq!(exempt >= 2, is_exempt, "{direction}");
            assert_eq!(direction["sent_packets"], 0, "{direction}");
        }
        assert_eq!(emulator.interrupt().0, Some(130));
    }
}

/// Counts what kernels send, by filters that parse packets further, and by a group of filters.
#[test]
fn filters_choose_handshakes_echoes_and_the_ports_of_a_group() {
    let test = "filters_choose_handshakes_echoes_and_the_ports_of_a_group";
    let Some(path) = Path::up(test, &["ping", "python3"]) else { return };
    let file = path.file("filters.toml");
    let text = r#"
schema = "weir.impair/1"
[[filter_group]]
name = "two ports"
filters = [{ protocol = "udp", destination_port = "7001" }, { bytes = "1b5a at l4+2", protocol = "udp", dscp = "not ef" }]
[[flow]]
name = "syn"
filter = { tcp_flags = "syn/syn,ack" }
[[flow]]
name = "syn-ack"
filter_b = { tcp_flags = "syn,ack" }
[[flow]]
name = "echo"
filter = { icmp = "echo-request,echo-reply" }
[[flow]]
name = "echo6"
filter = { icmpv6 = "echo-request,echo-reply" }
[[flow]]
name = "ports"
filter_groups = ["two ports"]
a_to_b = "loss every 2"
"#;
    std::fs::write(&file, text).unwrap();
    let emulator = path.emulator(&["--config", file.to_str().unwrap()]);
    let b = path.lab.host("b").unwrap();
    for address in [b.ipv4.to_string(), b.ipv6.to_string()] {
        path.tool("a", &["ping", "-c", "3", "-i", "0.1", &address]).good();
    }
    // Ports 7001 and 7002 of a group, 7003 of none; a handshake that is refused, without an answer of SYN and ACK.
    let send = format!(
        "import socket\nu = socket.socket(type=socket.SOCK_DGRAM)\n\
         [u.sendto(b'x', ('{0}', port)) for port in (7001, 7001, 7002, 7002, 7003)]\n\
         socket.socket().connect_ex(('{0}', 7001))",
        b.ipv4
    );
    path.tool("a", &["python3", "-c", &send]).good();
    let (report, _) = emulator.report();
    let count = |name: &str, direction: &str, counter: &str| {
        let flows = report["impairment"]["flows"].as_array().unwrap();
        let is = |f: &&Value| f["name"] == name && f["direction"] == direction;
        flows.iter().find(is).unwrap()["counters"][counter].as_u64().unwrap()
    };
    let received = |name: &str| ["forward", "reverse"].map(|d| count(name, d, "received_packets"));
    assert_eq!(received("syn"), [1, 0], "{report}");
    assert_eq!(received("syn-ack"), [0, 0]);
    assert_eq!((received("echo"), received("echo6")), ([3, 3], [3, 3]));
    assert_eq!(received("ports"), [4, 0]);
    assert_eq!(count("ports", "forward", "lost_packets"), 2);
}

/// A pcap expression chooses the packets of real hosts, and is changed while the emulator runs.
#[test]
fn pcap_expressions_choose_packets_and_are_changed_live() {
    let test = "pcap_expressions_choose_packets_and_are_changed_live";
    let Some(path) = Path::up(test, &["ping"]) else { return };
    if let Err(error) = weir_link::pcap::compile("ip") {
        return skip(test, &error.to_string());
    }
    let file = path.file("flows.toml");
    let write = |expression: &str| {
        let text = format!(
            "schema = \"weir.impair/1\"\n[[flow]]\nname = \"f\"\nfilter = {{ pcap = \"{expression}\" }}\nboth = \"loss 100%\"\n"
        );
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap()
    };
    let b = path.lab.host("b").unwrap();
    // Whether an echo of this size is answered.
    let echo = |address: &str, bytes: &str| {
        let command = ["ping", "-c", "1", "-W", "1", "-s", bytes, address];
        path.tool("a", &command).status.success()
    };
    let (v4, v6) = (b.ipv4.to_string(), b.ipv6.to_string());
    let answered = || [echo(&v4, "56"), echo(&v4, "500"), echo(&v6, "56")];
    let emulator = path.emulator(&["--config", write("icmp and greater 300")]);
    assert_eq!(answered(), [true, false, true]);
    path.verb(&["set", "--config", write("icmp6[icmp6type] == icmp6-echoreply")]).good();
    assert_eq!(answered(), [true, true, false]);
    // A bad expression changes nothing.
    let bad = "icmp and grater 300";
    let refused = path.verb(&["set", "--config", write(bad)]);
    let refusal = refused.refusal();
    assert_eq!(refusal.field.as_deref(), Some("flow[0].filter.pcap"));
    assert_eq!(refusal.given.as_deref(), Some(bad));
    assert_eq!(answered(), [true, true, false]);
    path.verb(&["set", "--config", write(&format!("not host {v4} and not icmp6"))]).good();
    assert_eq!(answered(), [true, true, true]);
    // A trigger's condition, given through the control socket without libpcap on this side.
    let laws = "loss 100%, trigger match(pcap=icmp[icmptype] == icmp-echo and (greater 300))";
    path.verb(&["set", "--both", laws]).good();
    assert_eq!(answered(), [true, false, false]);
    let (report, _) = emulator.report();
    let counters = &report["impairment"]["flows"][0]["counters"];
    assert!(counters["lost_packets"].as_u64().is_some_and(|lost| lost > 0), "{report}");
}

#[test]
fn settings_are_restored_after_sigkill() {
    let test = "settings_are_restored_after_sigkill";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let before = ["to-a", "to-b"].map(|i| (path.offloads(i), path.promiscuity(i)));
    let emulator = path.emulator(&["--both", "delay 1ms"]);
    assert_ne!(["to-a", "to-b"].map(|i| (path.offloads(i), path.promiscuity(i))), before);
    signal("KILL", &emulator.child);
    drop(emulator);
    until("settings as before", || {
        ["to-a", "to-b"].map(|i| (path.offloads(i), path.promiscuity(i))) == before
    });
    // The watchdog has restored everything: the next start finds nothing to do.
    until("nothing is left", || std::fs::read_dir(path.file("runtime")).unwrap().next().is_none());
    let ended = run(path.weir("m", &["impair", "show"]));
    assert_eq!((ended.refusal().code.as_str(), ended.refusal().exit_code), ("control-socket", 3));
}

/// Permitted and effective capabilities of a thread, from its `status`.
fn capability_sets(status: &str) -> Vec<u64> {
    let set = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    ["CapPrm:", "CapEff:"].map(|name| u64::from_str_radix(set(name), 16).unwrap()).to_vec()
}

/// The maximum real-time priority that a process may set without a capability.
fn real_time_limit(pid: u32) -> u64 {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|l| l.strip_prefix("Max realtime priority")).unwrap();
    let soft = line.split_whitespace().next().unwrap();
    if soft == "unlimited" { u64::MAX } else { soft.parse().unwrap() }
}

#[test]
fn an_emulator_started_by_the_server_has_two_capabilities() {
    let test = "an_emulator_started_by_the_server_has_two_capabilities";
    let Some(path) = Path::up(test, &["ping"]) else { return };
    const NET_ADMIN: u64 = 1 << 12;
    const NET_RAW: u64 = 1 << 13;
    const SYS_NICE: u64 = 1 << 23;
    let before = ["to-a", "to-b"].map(|i| path.offloads(i));
    for words in [&["--no-real-time"][..], &[], &["--link", "xdp-generic"]] {
        let emulator = path.emulator_job(&serde_json::json!({
            "job": "emulator", "interfaces": ["to-a", "to-b"], "few_capabilities": true,
            "impairment": { "schema": "weir.impair/1", "other": { "a_to_b": "delay 1ms", "b_to_a": "delay 1ms" } },
            "real_time": words != ["--no-real-time"],
            "link": if words == ["--link", "xdp-generic"] { "xdp-generic" } else { "auto" },
        }));
        let pid = emulator.child.id();
        // If the limit could not be raised (without CAP_SYS_RESOURCE), the capability is needed.
        let is_limited = words != ["--no-real-time"] && real_time_limit(pid) < 10;
        let own = capability_sets(&std::fs::read_to_string("/proc/self/status").unwrap())[0];
        let expected = NET_ADMIN | NET_RAW | if is_limited { SYS_NICE & own } else { 0 };
        let mut threads = 0;
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            assert_eq!(capability_sets(&status), [expected; 2], "{words:?}: {status}");
            threads += 1;
        }
        assert!(threads >= 3, "one for each direction, and the main thread");
        // Its watchdog needs only the capability to configure interfaces.
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let watchdogs: Vec<&str> = children.split_whitespace().collect();
        assert_eq!(watchdogs.len(), 1, "{words:?}: {children}");
        let status = std::fs::read_to_string(format!("/proc/{}/status", watchdogs[0])).unwrap();
        assert_eq!(capability_sets(&status), [NET_ADMIN; 2], "{words:?}: {status}");
        // These suffice for all that it does: forwarding, changing laws and restoring the interfaces.
        let b = path.lab.host("b").unwrap().ipv4.to_string();
        let text = path.tool("a", &["ping", "-c", "3", "-i", "0.2", &b]).good();
        assert_eq!(round_trips(&text).len(), 3, "{text}");
        run(path.weir("m", &["impair", "set", "--both", "delay 3ms"])).good();
        assert_ne!(["to-a", "to-b"].map(|i| path.offloads(i)), before, "{words:?}");
        let (code, _, stderr) = emulator.interrupt();
        assert_eq!(code, Some(130), "{stderr}");
        assert_eq!(["to-a", "to-b"].map(|i| path.offloads(i)), before, "{words:?}");
    }
}

#[test]
fn an_unusable_control_socket_is_refused_before_anything_is_changed() {
    let test = "an_unusable_control_socket_is_refused_before_anything_is_changed";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let packet_trace = path.file("packet_trace");
    std::fs::write(&packet_trace, "an earlier measurement").unwrap();
    let before = ["to-a", "to-b"].map(|i| path.offloads(i));
    let file = path.file("file");
    std::fs::write(&file, "mine").unwrap();
    for socket in [path.file("no/such/directory"), file.clone()] {
        let mut command = path.weir("m", &["impair", "to-a", "to-b", "--both", "delay 1ms"]);
        command.arg("--packet-trace").arg(&packet_trace).arg("--control-socket").arg(&socket);
        let ended = run(command);
        assert_eq!(ended.refusal().given.as_deref(), socket.to_str(), "{:?}", ended.refusal());
        assert_eq!(std::fs::read_to_string(&packet_trace).unwrap(), "an earlier measurement");
        assert_eq!(["to-a", "to-b"].map(|i| path.offloads(i)), before);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

/// The path of the control socket is checked first and used after the interfaces are locked. A file that appears there in
/// between is left alone, and the emulator does not run without its control socket.
#[test]
fn a_path_taken_after_the_check_ends_the_emulator_and_restores_everything() {
    let test = "a_path_taken_after_the_check_ends_the_emulator_and_restores_everything";
    let Some(path) = Path::up(test, &["ip", "mkfifo"]) else { return };
    let before = ["to-a", "to-b"].map(|i| path.offloads(i));
    // Opening the packet trace blocks until the pipe has a reader.
    let (packet_trace, socket) = (path.file("packet_trace"), path.file("socket"));
    path.tool("m", &["mkfifo", packet_trace.to_str().unwrap()]).good();
    let mut command =
        path.weir("m", &["impair", "to-a", "to-b", "--both", "delay 1ms", "--duration", "2s"]);
    command.arg("--packet-trace").arg(&packet_trace).arg("--control-socket").arg(&socket);
    let running = Running::start(command);
    // The note of offloads is written after the check of the path.
    let note = path.file("runtime").join(format!("offloads-{}.restoration", running.child().id()));
    until("the path was looked at", || note.exists());
    std::fs::write(&socket, "mine").unwrap();
    let reader = std::thread::spawn(move || std::fs::read(packet_trace).unwrap());
    let ended = running.finish();
    assert_eq!(ended.refusal().exit_code, 2);
    assert!(ended.refusal().message.contains(socket.to_str().unwrap()));
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "mine");
    until("settings as before", || ["to-a", "to-b"].map(|i| path.offloads(i)) == before);
    assert!(!note.exists());
    reader.join().unwrap();
}

#[test]
fn a_drawn_seed_is_reported_and_a_packet_trace_ends_at_its_limit() {
    let test = "a_drawn_seed_is_reported_and_a_packet_trace_ends_at_its_limit";
    let Some(path) = Path::up(test, &["ping"]) else { return };
    let (laws, packet_trace) = (path.file("laws"), path.file("packet_trace"));
    std::fs::write(&laws, "schema = 'weir.impair/1'").unwrap();
    let (laws, file) = (laws.to_str().unwrap(), packet_trace.to_str().unwrap());
    let emulator =
        path.emulator(&["--config", laws, "--packet-trace", file, "--packet-trace-limit", "4096"]);
    let seed = path.stats()["impairment"]["config"]["seed"].as_str().unwrap().to_owned();
    assert_ne!(seed, "0x0");
    let printed = emulator.ready["message"].as_str().unwrap();
    assert!(printed.contains(&seed), "{seed}: {printed}");
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    path.tool("a", &["ping", "-q", "-c", "100", "-i", "0.002", &b]).good();
    let (report, _) = emulator.report();
    let written = &report["packet_trace"];
    assert_eq!(written["limit_bytes"], 4096, "{written}");
    assert!(written["dropped_records"].as_u64() > Some(0), "{written}");
    assert!(packet_trace.metadata().unwrap().len() <= 4096);
}

#[test]
fn an_interface_belongs_to_one_emulator() {
    let test = "an_interface_belongs_to_one_emulator";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let emulator = path.emulator(&["--both", "delay 1ms"]);
    let during = ["to-a", "to-b"].map(|i| path.offloads(i));
    for (words, interface) in [
        (&["to-a", "to-b", "--both", "delay 3ms"][..], "to-a"),
        (&["to-b", "to-a", "--force"], "to-b"),
    ] {
        let mut command = path.weir("m", &[&["impair"], words].concat());
        // As for an emulator of another user.
        command.env("WEIR_RUNTIME_DIR", path.file("other"));
        let ended = run(command);
        let pid = emulator.child.id();
        let refused = ended.refusal();
        assert_eq!((refused.code.as_str(), refused.exit_code), ("interface-in-use", 2));
        assert_eq!(refused.given.as_deref(), Some(interface));
        assert!(refused.message.contains(&pid.to_string()), "{refused:?}");
        assert!(!refused.accepted.unwrap().contains("force"));
        assert_eq!(["to-a", "to-b"].map(|i| path.offloads(i)), during);
    }
    assert_eq!(emulator.interrupt().0, Some(130));
    assert_eq!(path.emulator(&["--both", "delay 3ms"]).interrupt().0, Some(130));
}

#[test]
fn a_socket_left_by_a_killed_emulator_is_removed_at_the_next_start() {
    let test = "a_socket_left_by_a_killed_emulator_is_removed_at_the_next_start";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let emulator = path.emulator(&["--both", "delay 1ms"]);
    let socket = path.file("runtime").join(format!("impair-{}.socket", emulator.child.id()));
    signal("KILL", &emulator.child);
    drop(emulator);
    until("the watchdog has removed it", || !socket.exists());
    // As if the watchdog was killed too.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let next = path.emulator(&["--both", "delay 1ms"]);
    let all = std::fs::read_dir(path.file("runtime")).unwrap();
    let names: Vec<String> =
        all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let sockets: Vec<_> = names.iter().filter(|name| name.ends_with(".socket")).collect();
    assert_eq!(sockets, [&format!("impair-{}.socket", next.child.id())]);
    assert_eq!(next.interrupt().0, Some(130));
}

/// The two ends of an output whose buffer is full.
fn full() -> (UnixStream, OwnedFd) {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    for size in [4096, 1] {
        while writer.write(&vec![b' '; size]).is_ok() {}
    }
    writer.set_nonblocking(false).unwrap();
    (reader, writer.into())
}

/// It blocks on an output that is not read, so that it can't stop in order.
#[test]
fn three_signals_end_a_blocked_emulator_and_leave_nothing() {
    let test = "three_signals_end_a_blocked_emulator_and_leave_nothing";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let before = ["to-a", "to-b"].map(|i| path.offloads(i));
    let (reader, writer) = full();
    let mut command = path.weir("m", &["impair", "to-a", "to-b", "--both", "delay 1ms"]);
    let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let runtime = path.file("runtime");
    let left = || {
        let all = std::fs::read_dir(&runtime).into_iter().flatten().flatten();
        let names = all.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.contains(&child.id().to_string())).count()
    };
    // The control socket and the note of offloads.
    until("it runs", || left() == 2);
    assert_ne!(["to-a", "to-b"].map(|i| path.offloads(i)), before);
    // Repeatedly, since two pending signals of one kind may be merged.
    let id = child.id().to_string();
    until("nothing is left", || {
        let _ = Command::new("kill").args(["-s", "TERM", &id]).stderr(Stdio::null()).status();
        left() == 0
    });
    until("it ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    until("settings as before", || ["to-a", "to-b"].map(|i| path.offloads(i)) == before);
    assert_eq!(path.emulator(&["--both", "delay 3ms"]).interrupt().0, Some(130));
    drop(reader);
}

/// Runs a test through its own emulator; returns the record and the packet trace.
fn measured(path: &Path, laws: &[&str], words: &[&str]) -> (Record, Vec<(Verdict, Judged)>) {
    let packet_trace = path.file("packet_trace");
    let with = ["--seed", "7", "--packet-trace", packet_trace.to_str().unwrap()];
    let emulator = path.emulator(&[laws, &with].concat());
    let mut server = path.weir("b", &["serve", "-1"]);
    server.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    let words = [&["test", &b, "-u", "-l", "200", "--no-store", "--json"], words].concat();
    let ended = run(path.weir("a", &words));
    let record = ended.record();
    let _ = server.kill();
    let _ = server.wait();
    let (code, _, stderr) = emulator.interrupt();
    assert_eq!(code, Some(130), "{stderr}");
    let mut reader = PacketLogReader::new(std::fs::File::open(&packet_trace).unwrap()).unwrap();
    let read = || reader.read_judged().unwrap().map(|(record, judged)| (record, judged.unwrap()));
    (record, std::iter::from_fn(read).collect())
}

#[test]
fn loss_of_one_percent_agrees_in_packet_trace_and_receiver() {
    let test = "loss_of_one_percent_agrees_in_packet_trace_and_receiver";
    let Some(path) = Path::up(test, &[]) else { return };
    let (record, packet_trace) =
        measured(&path, &["--a-to-b", "loss 1%"], &["-b", "4000pps", "-k", "8000"]);
    let receiver = record.flows[0].receiver.as_ref().unwrap();
    let sent = record.flows[0].sender.as_ref().unwrap().packets;
    assert_eq!(sent, 8000);
    let flow = record.flows[0].id;
    let (mut lost, mut forwarded) = (0, 0);
    for (record, judged) in packet_trace {
        let ours = judged.native_flow == flow && judged.native_sequence.is_some_and(|s| s < sent);
        if record.direction == 0 && ours {
            lost += u64::from(record.kind == RecordKind::LOST);
            forwarded += u64::from(record.kind == RecordKind::FORWARDED);
        }
    }
    assert_eq!((lost + forwarded, Some(lost)), (sent, receiver.lost_packets));
    // The expected value is 80; the bounds are five standard deviations.
    assert!((35..=125).contains(&lost), "{lost}");
}

#[test]
fn the_same_seed_loses_the_same_packets_with_any_number_of_probes() {
    let test = "the_same_seed_loses_the_same_packets_with_any_number_of_probes";
    let Some(path) = Path::up(test, &[]) else { return };
    // The flow of the test's datagrams, hellos, probes and feedback; the control connection belongs to another flow.
    let laws = path.file("laws");
    let text = r#"
        schema = "weir.impair/1"
        [[flow]]
        name = "udp"
        filter = { protocol = "udp" }
        a_to_b = "loss 10% run 2"
    "#;
    std::fs::write(&laws, text).unwrap();
    let laws = ["--config", laws.to_str().unwrap()];
    let outcome = |rate: &str| {
        let (record, packet_trace) = measured(&path, &laws, &["-b", rate, "-k", "2000"]);
        let ahead = packet_trace.iter().filter(|(r, _)| r.direction == 0);
        let probes = ahead.clone().filter(|(r, _)| r.flags & FLAG_CONTROL != 0 && r.flow == 1);
        let lost = ahead.filter(|(r, _)| r.kind == RecordKind::LOST && r.flags & FLAG_CONTROL == 0);
        let lost: Vec<u64> = lost.filter_map(|(_, judged)| judged.native_sequence).collect();
        let receiver = record.flows[0].receiver.as_ref().unwrap();
        assert_eq!(receiver.lost_packets, Some(lost.len() as u64));
        (probes.count(), lost)
    };
    // The same number of datagrams in a quarter of the time, hence fewer probes, which are sent about 10 times a second.
    let (probes, lost) = outcome("2000pps");
    let (more, again) = outcome("500pps");
    assert!(probes < more, "the runs differ in the number of probes: {probes} {more}");
    assert!(!lost.is_empty());
    assert_eq!(lost, again);
}

#[test]
fn laws_can_be_changed_while_packets_are_queued() {
    let test = "laws_can_be_changed_while_packets_are_queued";
    let Some(path) = Path::up(test, &["ping"]) else { return };
    let emulator = path.emulator(&["--both", "delay 400ms"]);
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    let mut ping = path.lab.command("a", "ping").unwrap();
    ping.args(["-c", "4", "-i", "0.2", "-W", "5", &b]);
    let ping = Running::start(ping);
    until("something is held", || path.stats()["directions"][0]["held_packets"].as_u64() > Some(0));
    let set = run(path.weir("m", &["impair", "set", "--both", "delay 10ms"])).good();
    assert!(set.contains(" 1 "), "the configuration's number: {set}");
    let text = ping.finish().good();
    assert_eq!(round_trips(&text).len(), 4, "{text}");
    let shown = || -> Value {
        serde_json::from_str(&run(path.weir("m", &["impair", "show", "--json"])).good()).unwrap()
    };
    assert_eq!(path.stats()["impairment"]["flows"][0]["asked"], "delay 10ms");
    assert_eq!(shown()["stopped"], serde_json::json!([]));
    let saved = path.file("saved.toml");
    run(path.weir("m", &["impair", "save", saved.to_str().unwrap()])).good();
    run(path.weir("m", &["impair", "stop"])).good();
    assert_eq!(shown()["stopped"], serde_json::json!(["other"]));
    let text = run(path.weir("m", &["impair", "show"])).good();
    assert!(text.contains("to-a ⇄ to-b"), "{text}");
    run(path.weir("m", &["impair", "set", "--config", saved.to_str().unwrap()])).good();
    let bad = run(path.weir("m", &["impair", "start", "unknown"]));
    assert_eq!(bad.status.code(), Some(2), "{}", bad.stderr);
    let report = path.stats();
    assert_eq!(report["directions"][0]["unplanned_dropped_packets"], 0);
    emulator.interrupt();
}

#[test]
fn hops_and_parallel_paths_add_up_and_change_while_packets_pass() {
    let test = "hops_and_parallel_paths_add_up_and_change_while_packets_pass";
    let Some(path) = Path::up(test, &["ping"]) else { return };
    let laws = ["--both", "delay 20ms", "--path", "100% delay 30ms", "--hop", "delay 40ms"];
    let emulator = path.emulator(&laws);
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    // The fastest of five: a busy machine adds to some.
    let ping = || {
        let text = path.tool("a", &["ping", "-c", "5", "-i", "0.2", &b]).good();
        let times = round_trips(&text);
        assert_eq!(times.len(), 5, "{text}");
        times.into_iter().fold(f64::INFINITY, f64::min)
    };
    // Each way 30 ms by the path, and 40 ms by the hop.
    assert!((140.0..240.0).contains(&ping()));
    let flow = |report: &Value, name: &str| -> Value {
        let flows = report["impairment"]["flows"].as_array().unwrap();
        flows.iter().find(|flow| flow["name"] == name).unwrap().clone()
    };
    let count = |flow: &Value, counter: &str| flow["counters"][counter].as_u64().unwrap();
    let report = path.stats();
    let (near, far) = (flow(&report, "path 1"), flow(&report, "hop 2"));
    assert!(count(&near, "received_packets") >= 5 && far["hop"] == 2, "{report}");
    // A packet that both have counted is one of the direction.
    assert_eq!(near["counters"]["sent_packets"], far["counters"]["received_packets"]);
    assert_eq!(report["directions"][0]["received_packets"], near["counters"]["received_packets"]);
    assert_eq!(report["directions"][0]["sent_packets"], far["counters"]["sent_packets"]);
    // A third hop, and none, while it runs; the counters of flows that stay continue.
    let set = |more: &[&str]| run(path.weir("m", &[&["impair", "set"], more].concat())).good();
    set(&["--both", "none", "--hop", "delay 20ms", "--hop", "delay 30ms"]);
    assert!((100.0..140.0).contains(&ping()));
    // `--both` alone leaves the hops.
    set(&["--both", "delay 5ms"]);
    assert!((110.0..140.0).contains(&ping()));
    let file = path.file("plain.toml");
    std::fs::write(&file, "schema = 'weir.impair/1'").unwrap();
    set(&["--config", file.to_str().unwrap()]);
    assert!(ping() < 100.0);
    let (report, _) = emulator.report();
    let (near, far) = (flow(&report, "path 1"), flow(&report, "hop 2"));
    let other = count(&flow(&report, "other"), "received_packets");
    assert!(count(&far, "received_packets") >= 15 && other >= 15, "{report}");
    let all = report["directions"][0]["received_packets"].as_u64().unwrap();
    assert_eq!(count(&near, "received_packets") + other, all, "{report}");
}

#[test]
fn interfaces_in_use_are_refused_with_the_reason() {
    let test = "interfaces_in_use_are_refused_with_the_reason";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    path.tool("a", &["ip", "route", "add", "default", "dev", "eth0"]).good();
    path.tool("a", &["ip", "link", "add", "name", "other", "type", "veth", "peer", "name", "peer"])
        .good();
    path.tool("a", &["ip", "link", "add", "name", "bridge", "type", "bridge"]).good();
    path.tool("a", &["ip", "link", "set", "dev", "peer", "up", "master", "bridge"]).good();
    for (words, code, interface, may_be_forced) in [
        (&["eth0", "peer"][..], "default-route", "eth0", true),
        (&["peer", "eth0"], "bridge-member", "peer", true),
        (&["other", "peer"], "interface-down", "other", false),
        (&["peer", "peer"], "same-interface", "peer", false),
        (&["lo", "peer"], "not-ethernet", "lo", false),
        (&["nosuch", "peer"], "emulator", "nosuch", false),
        (&["other", "peer", "--force"], "interface-down", "other", false),
    ] {
        let refused = run(path.weir("a", &[&["impair"], words].concat())).refusal();
        assert_eq!((refused.code.as_str(), refused.exit_code), (code, 2), "{words:?}");
        assert_eq!(refused.given.as_deref(), Some(interface), "{words:?}");
        let force = refused.accepted.unwrap().contains("force");
        assert_eq!(force, may_be_forced, "{words:?}");
    }
    // The interface that carries this session.
    let mut command = path.weir("a", &["impair", "eth0", "peer"]);
    command.env("SSH_CONNECTION", "198.18.0.2 51000 198.18.0.1 22");
    assert!(run(command).refusal().message.contains("198.18.0.2"), "the session's peer");
}

#[test]
fn an_interface_under_a_used_upper_interface_is_refused() {
    let test = "an_interface_under_a_used_upper_interface_is_refused";
    let Some(path) = Path::up(test, &["ip"]) else { return };
    let ip = |words: &[&str]| path.tool("m", &[&["ip"], words].concat());
    // If the kernel supports neither kind, there is nothing to refuse.
    let kinds = [&["vlan", "id", "7"][..], &["macvlan", "mode", "bridge"]];
    let add = |kind: &&[&str]| {
        let words = [&["link", "add", "link", "to-a", "name", "upper", "type"], *kind].concat();
        ip(&words).status.success()
    };
    if !kinds.iter().any(add) {
        return skip(test, "the kernel has neither VLANs nor macvlans");
    }
    let refused = |code: &str| {
        let refused = run(path.weir("m", &["impair", "to-a", "to-b"])).refusal();
        assert_eq!((refused.code.as_str(), refused.exit_code), (code, 2));
        assert_eq!(refused.given.as_deref(), Some("to-a"));
        assert!(refused.message.contains("upper"), "{refused:?}");
        assert!(refused.accepted.unwrap().contains("force"));
    };
    ip(&["address", "add", "203.0.113.1/24", "dev", "upper"]).good();
    refused("has-addresses");
    ip(&["link", "set", "dev", "upper", "up"]).good();
    ip(&["route", "add", "default", "via", "203.0.113.2"]).good();
    refused("default-route");
    let mut command = path.weir("m", &["impair", "to-a", "to-b"]);
    command.env("SSH_CONNECTION", "203.0.113.2 51000 203.0.113.1 22");
    assert!(run(command).refusal().message.contains("203.0.113.2"), "the session's peer");
    // An unused upper interface is no reason to refuse.
    ip(&["address", "flush", "dev", "upper"]).good();
    let emulator = path.emulator(&["--both", "delay 1ms"]);
    assert_eq!(emulator.interrupt().0, Some(130));
}

#[test]
fn rates_of_each_interval_are_printed_until_the_emulator_ends() {
    let test = "rates_of_each_interval_are_printed_until_the_emulator_ends";
    let Some(path) = Path::up(test, &["ping"]) else { return };
    let _emulator = path.emulator(&["--a-to-b", "loss every 2", "--duration", "3s"]);
    let watch = |words: &[&str]| {
        let words = [&["impair", "stats", "--watch=100ms"], words].concat();
        Running::start(path.weir("m", &words))
    };
    let (text, json) = (watch(&[]), watch(&["--json"]));
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    path.tool("a", &["ping", "-c", "20", "-i", "0.05", &b]);
    // Half of the requests are lost, and no reply.
    let ended = text.finish();
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    let rows: Vec<Vec<&str>> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with("other"))
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let lost = |way: &str| -> Vec<&str> {
        rows.iter().filter(|row| row[1] == way).map(|row| row[5]).collect()
    };
    assert!(
        lost("A to B").len() > 2 && lost("A to B").iter().any(|lost| *lost != "0%"),
        "{rows:?}"
    );
    assert!(lost("B to A").iter().all(|lost| *lost == "0%"), "{rows:?}");
    let ended = json.finish();
    let reports: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The last line is the error.
    let (error, reports) = reports.split_last().unwrap();
    assert!(error["error"].is_object(), "{error}");
    assert!(reports.len() > 2);
    assert!(reports.is_sorted_by(|a, b| a["seconds"].as_f64() <= b["seconds"].as_f64()));
}

#[test]
fn a_removed_interface_ends_the_emulator_with_a_report() {
    let test = "a_removed_interface_ends_the_emulator_with_a_report";
    let Some(path) = Path::up(test, &["ip", "ping"]) else { return };
    let words = ["impair", "to-a", "to-b", "--both", "delay 1ms", "--json"];
    let emulator = Running::start(path.weir("m", &words));
    until("it listens", || run(path.weir("m", &["impair", "stats"])).status.success());
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    path.tool("a", &["ping", "-c", "2", "-i", "0.2", &b]).good();
    path.tool("m", &["ip", "link", "del", "dev", "to-b"]).good();
    let ended = emulator.finish();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    let refused = refusal_in(&ended.stderr).unwrap();
    assert_eq!((refused.code.as_str(), refused.exit_code), ("interface-gone", 3), "{refused:?}");
    assert_eq!(refused.given.as_deref(), Some("to-b"));
    // One JSON object, which includes the reason.
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let reason = report["end_reason"].as_str().unwrap();
    assert!(reason.contains("to-b"), "{reason}");
    assert_eq!(report["directions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_lab_runs_its_emulator_and_removes_it() {
    let test = "a_lab_runs_its_emulator_and_removes_it";
    if effective_user_id() != 0 {
        return skip(test, "needs root");
    }
    if !has_tools(test, &["ping"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let weir = |words: &[&str]| {
        let mut command = Command::new(WEIR);
        command.args(words).env("WEIR_RUNTIME_DIR", dir.path().join("runtime"));
        run(command)
    };
    let up = weir(&["lab", "up", "--lab", "g3lab", "--impair", "delay 30ms", "--seed", "1"]).good();
    assert!(up.contains("delay 30ms"), "{up}");
    let ping = weir(&[
        "lab",
        "exec",
        "--lab",
        "g3lab",
        "a",
        "--",
        "ping",
        "-c",
        "3",
        "-i",
        "0.2",
        "198.18.0.2",
    ]);
    let times = round_trips(&ping.good());
    assert!(times.len() == 3 && times[1..].iter().all(|&ms| ms >= 60.0), "{times:?}");
    let sockets = || {
        std::fs::read_dir(dir.path().join("runtime"))
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.strip_prefix("impair-")?.strip_suffix(".socket")?.parse::<u32>().ok()
            })
            .collect::<Vec<_>>()
    };
    let pid = sockets()[0];
    let process = Process::open(pid, process_start_time(pid).unwrap()).unwrap().unwrap();
    weir(&["lab", "down", "--lab", "g3lab"]).good();
    assert!(process.wait(std::time::Duration::from_secs(10)).unwrap(), "the emulator has ended");
    // The same if the lab's holder is killed: the emulator's socket is removed too.
    weir(&["lab", "up", "--lab", "g3lab", "--impair", "delay 30ms"]).good();
    assert_eq!(sockets().len(), 1);
    let entry = std::fs::read(dir.path().join("runtime/labs/g3lab.json")).unwrap();
    let entry: Value = serde_json::from_slice(&entry).unwrap();
    let holder = entry["holder"]["pid"].to_string();
    assert!(Command::new("kill").args(["-s", "KILL", &holder]).status().unwrap().success());
    until("the socket is gone", || sockets().is_empty());
}

/// A test in a host of a lab finds the lab's emulator: the record has its laws, seed and counters, and the ledger its exact
/// drops of test data, although it also drops packets of the control connection and probes.
#[test]
fn a_test_in_a_lab_attributes_the_losses_of_its_emulator() {
    let test = "a_test_in_a_lab_attributes_the_losses_of_its_emulator";
    if effective_user_id() != 0 {
        return skip(test, "needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let command = |words: &[&str]| {
        let mut command = Command::new(WEIR);
        command.args(words).env("WEIR_RUNTIME_DIR", dir.path().join("runtime"));
        command.env("XDG_DATA_HOME", dir.path()).env("HOME", dir.path());
        command
    };
    let weir = |words: &[&str]| run(command(words));
    // A queue that is too short for the offered rate, and loss: both kinds of planned drops.
    let laws = "loss 10%, rate 4M queue 50ms";
    weir(&["lab", "up", "--lab", "g3own", "--impair", laws, "--seed", "9"]).good();
    let servers = ["a", "b"].map(|host| {
        let mut serve = command(&["lab", "exec", "--lab", "g3own", host, "--", WEIR, "serve"]);
        let mut server = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(server.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        (server, said)
    });
    let tested = |host: &str, words: &[&str]| {
        let exec = ["lab", "exec", "--lab", "g3own", host, "--", WEIR, "test"];
        let all = [&exec[..], words, &["-u", "-t", "1", "-l", "500", "--json", "--no-store"]];
        weir(&all.concat()).record()
    };
    for (host, direction, words) in [
        ("a", Direction::Forward, &["198.18.0.2", "-b", "6M"][..]),
        ("a", Direction::Reverse, &["198.18.0.2", "-b", "6M", "-R"]),
        // The forward direction of the test is B to A.
        ("b", Direction::Reverse, &["198.18.0.1", "-b", "6M"]),
    ] {
        let record = tested(host, words);
        let ledger = record.loss_ledger.as_ref().unwrap();
        assert!(ledger.missing_packets > 100, "{ledger:?}");
        let of = |stage: &str| {
            let rows = ledger.rows.iter().filter(|row| row.stage == stage);
            rows.map(|row| (row.packets, row.kind.as_str())).collect::<Vec<_>>()
        };
        let (planned, queue) = (of("emulator planned"), of("emulator queue"));
        assert!(matches!(planned[..], [(1.., "exact")]), "{ledger:?}");
        assert!(matches!(queue[..], [(1.., "exact")]), "{ledger:?}");
        let placed: u64 = ledger.rows.iter().filter(|r| r.kind == "exact").map(|r| r.packets).sum();
        assert_eq!((placed as i64, ledger.remainder_packets), (ledger.missing_packets, 0));
        let used = record.impairment.as_ref().unwrap();
        assert_eq!((used.config.seed.0, used.client_side.as_deref()), (9, Some(host)));
        assert_eq!(used.config.other.a_to_b, laws.parse().unwrap());
        assert_eq!(used.changes, None);
        let flow = used.flows.iter().find(|f| f.direction == direction).unwrap();
        // Counted since the start of this test, without the one before it; they include the control connection.
        let sent = record.flows[0].sender.as_ref().unwrap().packets;
        let received = flow.counters["received_packets"];
        assert!(received > sent && received < sent + 500, "{received} of {sent}");
        assert!(flow.counters["lost_packets"] >= planned[0].0);
    }
    // Each transfer has a port of its own.
    let transfers = ["198.18.0.2", "--transfers", "5K", "-b", "50pps", "--transfer-rate", "1M"];
    let record = tested("a", &transfers);
    let ledger = record.loss_ledger.as_ref().unwrap();
    assert!(ledger.missing_packets > 5 && ledger.remainder_packets == 0, "{ledger:?}");
    // A test that does not cross the emulator has no losses attributed to it.
    let own = tested("a", &["127.0.0.1", "-b", "6M"]);
    assert!(own.impairment.is_none());
    let not_crossed =
        |record: &Record| record.warnings.iter().any(|w| w.code == "emulator-not-on-path");
    assert!(!not_crossed(&own), "it was not expected to cross the emulator");
    let socket = std::fs::read_dir(dir.path().join("runtime")).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.extension().is_some_and(|e| e == "socket").then_some(path)
    });
    let socket = socket.unwrap();
    let socket = socket.to_str().unwrap();
    let own = tested("a", &["127.0.0.1", "-b", "6M", "--emulator", socket]);
    assert!(own.impairment.is_none() && not_crossed(&own), "{:?}", own.warnings);
    let set = |laws: &str| weir(&["impair", "set", "--both", laws, "--socket", socket]).good();
    // Laws that change during the test cause a warning, but the same laws set again do not.
    let changed = |laws: [&str; 2]| {
        std::thread::scope(|scope| {
            let tested = scope.spawn(|| tested("a", &["198.18.0.2", "-b", "1M"]));
            let deadline = Instant::now() + Duration::from_secs(20);
            for laws in laws.into_iter().cycle() {
                if tested.is_finished() || Instant::now() > deadline {
                    break;
                }
                set(laws);
            }
            tested.join().unwrap()
        })
    };
    let is_told = |record: &Record| record.warnings.iter().any(|w| w.code == "laws-changed");
    let change = changed(["none", "delay 1ms"]);
    assert!(is_told(&change) && change.impairment.unwrap().changes.is_some_and(|n| n > 0));
    set("none");
    let same = changed(["none", "none"]);
    assert!(!is_told(&same) && same.impairment.unwrap().changes.is_none());
    // Corrupted packets that the receiver's kernel drops are attributed to the emulator, in either direction.
    set("corrupt 3% leave");
    for more in [&[][..], &["-R"]] {
        let record = tested(
            "a",
            &[&["198.18.0.2", "-b", "4M", "--gso", "off", "--no-latency"], more].concat(),
        );
        let ledger = record.loss_ledger.as_ref().unwrap();
        let rows: Vec<_> = ledger
            .rows
            .iter()
            .map(|r| (r.stage.as_str(), r.packets as i64, r.kind.as_str()))
            .collect();
        assert!(ledger.missing_packets > 5, "{ledger:?}");
        assert_eq!(rows, [("emulator damaged", ledger.missing_packets, "exact")]);
        assert_eq!(ledger.remainder_packets, 0);
        assert!(
            record.warnings.iter().all(|w| w.code != "checksum-errors"),
            "{:?}",
            record.warnings
        );
    }
    weir(&["lab", "down", "--lab", "g3own"]).good();
    for (mut server, _) in servers {
        server.wait().unwrap();
    }
}

#[test]
fn a_command_behind_the_emulator_reaches_this_host() {
    let test = "a_command_behind_the_emulator_reaches_this_host";
    if !has_tools(test, &["bash"]) {
        return;
    }
    let service = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let answering = std::thread::spawn(move || {
        use std::io::Write;
        service.accept().unwrap().0.write_all(b"here\n").unwrap();
    });
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(WEIR);
    let script = format!("exec 3<>/dev/tcp/$WEIR_HOST/{port}; cat <&3; exit 7");
    command.args(["impair", "exec", "--both", "delay 50ms", "--", "bash", "-c", &script]);
    command.env("WEIR_RUNTIME_DIR", dir.path().join("runtime")).env("WEIR_ERRORS", "json");
    let start = std::time::Instant::now();
    let ended = run(command);
    if ended.status.code() == Some(4) {
        return skip(test, &ended.refusal().message);
    }
    assert_eq!(
        (ended.status.code(), ended.stdout.as_str()),
        (Some(7), "here\n"),
        "{}",
        ended.stderr
    );
    // Handshake and answer: three one-way delays of 50 ms.
    assert!(start.elapsed().as_millis() >= 150);
    let [ready, report] = ["ready", "report"].map(|code| ended.messages(code));
    assert!(ready.len() == 1 && ready[0].contains("delay 50ms"), "{}", ended.stderr);
    assert_eq!(report.len(), 1, "{}", ended.stderr);
    answering.join().unwrap();
}

#[test]
fn captures_and_profiles_need_no_privileges() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // Classic pcap, µs, one frame of 60 bytes at 1 s.
    let mut bytes =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 60, 0, 0, 0]);
    bytes.extend([0xff; 60]);
    std::fs::write(file("in"), &bytes).unwrap();
    let weir = |words: &[&str]| {
        let mut command = Command::new(WEIR);
        command.args(words).env("NO_COLOR", "1").env("WEIR_ERRORS", "json");
        run(command)
    };
    let refused = |words: &[&str], flag: &str| {
        let refused = weir(words).refusal();
        assert_eq!((refused.field.as_deref(), refused.exit_code), (Some(flag), 2), "{words:?}");
        refused
    };
    let (from, to) = (file("in"), file("out"));
    let words =
        ["impair", "--pcap-in", &from, "--pcap-out", &to, "--both", "delay 500ms", "--json"];
    let report: Value = serde_json::from_str(&weir(&words).good()).unwrap();
    assert_eq!(report["impairment"]["flows"][0]["counters"]["sent_packets"], 1);
    let out = std::fs::read(file("out")).unwrap();
    assert_eq!(out[..4], [0x4d, 0x3c, 0xb2, 0xa1], "times in ns");
    assert_eq!(out[24..32], [1, 0, 0, 0, 0, 0x65, 0xcd, 0x1d], "1.5 s");
    // A trace of mahimahi starts with the first frame. From A to B it is the first one.
    std::fs::write(file("up"), "0\n250\n").unwrap();
    std::fs::write(file("down"), "1\n").unwrap();
    let (up, down) = (file("up"), file("down"));
    let words = ["impair", "--pcap-in", &from, "--pcap-out", &to, "--mahimahi", &up, &down];
    let laws = ["--both", "delay 250ms"];
    let report: Value =
        serde_json::from_str(&weir(&[&words[..], &laws, &["--json"]].concat()).good()).unwrap();
    let flows = &report["impairment"]["flows"];
    assert_eq!(flows[0]["asked"], "rate trace(0 250) queue 1T, delay 250ms");
    assert_eq!(flows[1]["asked"], "rate trace(1) queue 1T, delay 250ms");
    // Two opportunities of 1504 bytes in 250 ms.
    assert_eq!(flows[0]["asked_figures"]["bits_per_second"], 96_256);
    assert_eq!(std::fs::read(file("out")).unwrap()[28..32], [0, 0x65, 0xcd, 0x1d], "1.5 s");
    refused(&[&words[..], &["--both", "rate 1M"]].concat(), "--mahimahi");
    // A hard link or symbolic link is the same file.
    std::fs::hard_link(&from, file("again")).unwrap();
    for same in [from.clone(), file("again")] {
        refused(&["impair", "--pcap-in", &from, "--pcap-out", &same], "--pcap-out");
    }
    // Neither may be the packet trace, whether it exists or not; a refusal truncates no file.
    let new = file("new");
    for (to, packet_trace) in [(&to, &from), (&to, &to), (&new, &new)] {
        let words =
            ["impair", "--pcap-in", &from, "--pcap-out", to, "--packet-trace", packet_trace];
        refused(&words, "--packet-trace");
    }
    // A packet trace is a file with a second file next to it.
    for packet_trace in ["-", dir.path().to_str().unwrap()] {
        for words in [
            &["impair", "--pcap-in", &from, "--pcap-out", &to][..],
            &["impair", "a", "b"],
            &["impair", "exec"],
        ] {
            let mut words = [words, &["--packet-trace", packet_trace]].concat();
            words.extend(words[1].eq("exec").then_some(["--", "true"]).into_iter().flatten());
            assert!(
                refused(&words, "--packet-trace").given.unwrap().contains(packet_trace),
                "{words:?}"
            );
        }
    }
    // An invalid capture or an invalid packet trace leaves an earlier result unchanged.
    std::fs::write(file("nonsense"), "nonsense").unwrap();
    let directory = dir.path().to_str().unwrap();
    for (input, more) in [
        (file("nonsense"), &[][..]),
        (directory.to_owned(), &[]),
        (from.clone(), &["--packet-trace", "/nonexistent/j"]),
    ] {
        let words = [&["impair", "--pcap-in", &input, "--pcap-out", &to], more].concat();
        assert_eq!(weir(&words).status.code(), Some(2), "{words:?}");
        assert_eq!(std::fs::read(&to).unwrap(), out, "{words:?}");
    }
    // Neither may be the second file of the packet trace, which would be removed.
    let (beside, own) = (file("j.configurations"), file("j"));
    std::fs::copy(&from, &beside).unwrap();
    for (from, to) in [(&beside, &new), (&from, &beside)] {
        let refused =
            weir(&["impair", "--pcap-in", from, "--pcap-out", to, "--packet-trace", &own]);
        assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    }
    assert_eq!(std::fs::read(&beside).unwrap(), bytes);
    // A dangling link counts as its target.
    std::os::unix::fs::symlink("new", file("dangling")).unwrap();
    let words =
        ["impair", "--pcap-in", &from, "--pcap-out", &file("dangling"), "--packet-trace", &new];
    assert_eq!(weir(&words).status.code(), Some(2));
    // A packet trace must not overwrite the file of laws.
    let laws = file("laws");
    std::fs::write(&laws, "schema = 'weir.impair/1'").unwrap();
    refused(&["impair", "a", "b", "--config", &laws, "--packet-trace", &laws], "--packet-trace");
    assert_eq!((std::fs::read(&from).unwrap(), std::fs::read(&to).unwrap()), (bytes, out.clone()));
    assert!(!std::path::Path::new(&new).exists());
    // The same through pipes.
    let piped = Command::new(WEIR)
        .args(["impair", "--pcap-in", "-", "--pcap-out", "-", "--both", "delay 500ms"])
        .stdin(std::fs::File::open(file("in")).unwrap())
        .output()
        .unwrap();
    assert!(piped.status.success(), "{}", String::from_utf8_lossy(&piped.stderr));
    assert_eq!(piped.stdout, out, "only the capture");
    assert!(String::from_utf8_lossy(&piped.stderr).starts_with("stdin → stdout"));
    assert_eq!(weir(&["impair", "--pcap-in", &from]).status.code(), Some(2));
    let list = weir(&["profiles"]).good();
    assert!(list.contains("3g-good") && list.contains("[1]"), "{list}");
    let json: Value = serde_json::from_str(&weir(&["profiles", "--json"]).good()).unwrap();
    assert!(json["profiles"].as_array().unwrap().len() >= 20);
}

/// Captures what host a receives of ICMP and of fragments, for tshark.
fn capture_of_a(path: &Path) -> (Running, std::path::PathBuf) {
    let (file, said) = (path.file("capture.pcapng"), path.file("dumpcap.said"));
    let mut command = path.lab.command("a", "sh").unwrap();
    command.args(["-c", "exec dumpcap -q -i eth0 -f 'icmp or icmp6' -w \"$0\" 2>\"$1\""]);
    command.arg(&file).arg(&said);
    let running = Running::start(command);
    let is_open = || std::fs::read_to_string(&said).unwrap_or_default().contains("File: ");
    until("dumpcap captures", is_open);
    (running, file)
}

/// Kernels find the MTU by the emulator's reports, over IPv4 and IPv6, by ping and by TCP.
#[test]
fn the_path_mtu_is_discovered_by_the_reports_of_the_emulator() {
    let test = "the_path_mtu_is_discovered_by_the_reports_of_the_emulator";
    let Some(path) = Path::up(test, &["ping", "ip", "dumpcap", "tshark"]) else { return };
    let emulator = path.emulator(&["--both", "mtu 1400 icmp, delay 5ms"]);
    let (capture, file) = capture_of_a(&path);
    let b = path.lab.host("b").unwrap();
    let addresses = [(b.ipv4.to_string(), 28), (b.ipv6.to_string(), 48)];
    let ping = |address: &str, bytes: usize| {
        let bytes = bytes.to_string();
        path.tool(
            "a",
            &["ping", "-M", "do", "-c", "2", "-i", "0.2", "-W", "1", "-s", &bytes, address],
        )
    };
    let known = |address: &str| path.tool("a", &["ip", "route", "get", address]).good();
    for (address, headers) in &addresses {
        assert_eq!(ping(address, 1401 - headers).status.code(), Some(1));
        assert!(known(address).contains("mtu 1400"), "{}", known(address));
        ping(address, 1400 - headers).good();
    }
    signal("INT", capture.child());
    assert!(capture.finish().status.success());
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", file.to_str().unwrap(), "-o", "ip.check_checksum:TRUE"]);
    command.args(["-Y", "(icmp.type == 3 and icmp.code == 4) or icmpv6.type == 2", "-T", "fields"]);
    command.args(["-e", "icmp.mtu", "-e", "icmpv6.mtu", "-e", "ip.checksum.status"]);
    command.args(["-e", "icmp.checksum.status", "-e", "icmpv6.checksum.status"]);
    let text = run(command).good();
    // The status of a right checksum is 1; behind it are those of the packet that is quoted.
    for (line, mtu) in text.lines().zip(["1400\t", "\t1400"]) {
        assert!(line.starts_with(mtu), "{line}");
        let statuses = line.split('\t').skip(2).map(|field| field.split(',').next().unwrap());
        let statuses: Vec<&str> = statuses.filter(|status| !status.is_empty()).collect();
        assert!(!statuses.is_empty() && statuses.iter().all(|status| *status == "1"), "{line}");
    }
    assert_eq!(text.lines().count(), 2, "{text}");
    // TCP, after the kernel has forgotten the paths.
    for family in ["-4", "-6"] {
        path.tool("a", &["ip", family, "route", "flush", "cache"]).good();
    }
    for (address, _) in &addresses {
        let mut server = path.weir("b", &["serve", "-1"]);
        server.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = server.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let ended = run(path.weir("a", &["test", address, "-n", "2M", "--no-store", "--json"]));
        let receiver = ended.record().flows[0].receiver.clone().unwrap();
        assert_eq!(receiver.bytes, 2 << 20);
        let _ = server.kill();
        let _ = server.wait();
        assert!(known(address).contains("mtu 1400"), "{}", known(address));
    }
    let (report, _) = emulator.report();
    let flow = &report["impairment"]["flows"][0]["counters"];
    assert!(flow["too_big_messages"].as_u64() >= Some(4), "{flow}");
    assert_eq!(flow["lost_packets"], flow["too_long_packets"]);
    assert_eq!(report["directions"][0]["unplanned_dropped_packets"], 0);
}

/// Fragments arrive as the kernel reassembles them, and a black hole swallows what is too long.
#[test]
fn long_packets_arrive_in_fragments_or_not_at_all() {
    let test = "long_packets_arrive_in_fragments_or_not_at_all";
    let Some(path) = Path::up(test, &["ping", "ip"]) else { return };
    let b = path.lab.host("b").unwrap().ipv4.to_string();
    let ping = |more: &[&str]| {
        path.tool(
            "a",
            &[&["ping", "-c", "3", "-i", "0.2", "-W", "1", "-s", "1472", &*b], more].concat(),
        )
    };
    let emulator = path.emulator(&["--both", "mtu 576 fragment, delay 2ms"]);
    let text = ping(&["-M", "dont"]).good();
    assert_eq!(round_trips(&text).len(), 3, "{text}");
    let (report, _) = emulator.report();
    for flow in report["impairment"]["flows"].as_array().unwrap() {
        // 1480 bytes of data in three fragments of 552 or fewer.
        assert_eq!(flow["counters"]["added_fragments"], 6, "{flow}");
    }
    let emulator = path.emulator(&["--a-to-b", "mtu 1400"]);
    assert_eq!(ping(&["-M", "do"]).status.code(), Some(1));
    assert!(!path.tool("a", &["ip", "route", "get", &b]).good().contains("mtu"));
    let (report, _) = emulator.report();
    assert_eq!(report["impairment"]["flows"][0]["counters"]["too_long_packets"], 3, "{report}");
}
