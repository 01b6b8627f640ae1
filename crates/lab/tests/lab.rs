//! Labs made in this process, by root.
// Helper functions of tests: a failure is a failed test.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use weir_lab::{Error, ErrorClass, Lab, LabSpec, Topology};
use weir_net::namespace::{ChildSetup, LinkControl, effective_user_id};

/// A lab, or `None` after saying why the test is skipped; with CI set, root that cannot make one fails.
fn lab(test: &str, spec: &LabSpec) -> Option<Lab> {
    if effective_user_id() != 0 {
        eprintln!("SKIPPED {test}: needs root");
        return None;
    }
    match Lab::up(spec) {
        Ok(lab) => Some(lab),
        Err(error)
            if error.class() == ErrorClass::NotPermitted && std::env::var_os("CI").is_none() =>
        {
            eprintln!("SKIPPED {test}: {error}");
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

fn output(lab: &Lab, node: &str, program: &str, args: &[&str]) -> String {
    let output = lab.command(node, program).unwrap().args(args).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// One datagram there and one back, between two hosts.
fn exchange(lab: &Lab, from: &str, to: &str, address: impl Fn(&str) -> IpAddr) {
    let bind = |host: &str| {
        let local = address(host);
        let socket = lab.run_in(host, || UdpSocket::bind((local, 0))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket
    };
    let (one, other) = (bind(from), bind(to));
    let mut buffer = [0; 64];
    one.send_to(b"there", other.local_addr().unwrap()).unwrap();
    let (length, source) = other.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], source), (&b"there"[..], one.local_addr().unwrap()));
    other.send_to(b"back", source).unwrap();
    let (length, source) = one.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], source), (&b"back"[..], other.local_addr().unwrap()));
}

fn both_families(lab: &Lab, from: &str, to: &str) {
    exchange(lab, from, to, |host| lab.host(host).unwrap().ipv4.into());
    exchange(lab, from, to, |host| lab.host(host).unwrap().ipv6.into());
}

#[test]
fn a_pair_exchanges_datagrams_in_both_families() {
    let spec = LabSpec::default();
    let Some(lab) = lab("a_pair_exchanges_datagrams_in_both_families", &spec) else { return };
    let hosts: Vec<_> = lab.hosts().map(|h| format!("{} {} {}", h.name, h.ipv4, h.ipv6)).collect();
    assert_eq!(hosts, ["a 198.18.0.1 2001:2::1", "b 198.18.0.2 2001:2::2"]);
    both_families(&lab, "a", "b");
    assert_eq!(output(&lab, "a", "cat", &["/sys/class/net/eth0/mtu"]), "1500\n");
    match lab.host("c") {
        Err(Error::NoSuchHost { host, known }) => {
            assert_eq!((host.as_str(), known.as_str()), ("c", "a, b"));
        }
        other => panic!("{other:?}"),
    }
    assert!(lab.limits().is_empty());
}

#[test]
fn a_switch_joins_all_hosts() {
    let spec = LabSpec { topology: Topology::Switch(16), ..LabSpec::default() };
    let Some(lab) = lab("a_switch_joins_all_hosts", &spec) else { return };
    assert_eq!(lab.hosts().count(), 16);
    for (from, to) in [("a", "b"), ("a", "p"), ("m", "c")] {
        both_families(&lab, from, to);
    }
}

#[test]
fn the_middle_has_two_bare_legs() {
    let spec = LabSpec { topology: Topology::MIDDLE, ..LabSpec::default() };
    let Some(lab) = lab("the_middle_has_two_bare_legs", &spec) else { return };
    assert_eq!(lab.node_names().collect::<Vec<_>>(), ["a", "b", "m"]);
    assert!(lab.host("m").is_err(), "it has no addresses");
    let links = output(&lab, "m", "ls", &["/sys/class/net"]);
    assert!(links.lines().any(|l| l == "to-a") && links.lines().any(|l| l == "to-b"), "{links}");
    assert_eq!(output(&lab, "m", "cat", &["/sys/class/net/to-a/operstate"]), "up\n");
    assert_eq!(output(&lab, "m", "cat", &["/proc/self/net/if_inet6"]), "", "no address at all");
}

/// Forwards frames between the two interfaces of the middle until told to stop, as an emulator without laws does.
fn forward(lab: &Lab) -> impl FnOnce() + use<'_> {
    // A third bridge; tools of the system make it.
    for words in [
        &["link", "add", "br-m", "type", "bridge"][..],
        &["link", "set", "to-a", "master", "br-m"],
        &["link", "set", "to-b", "master", "br-m"],
        &["link", "set", "br-m", "up"],
    ] {
        output(lab, "m", "ip", words);
    }
    || drop(output(lab, "m", "ip", &["link", "del", "br-m"]))
}

#[test]
fn a_middle_has_many_hosts_on_two_sides() {
    let spec = LabSpec { topology: Topology::Middle(14), ..LabSpec::default() };
    let Some(lab) = lab("a_middle_has_many_hosts_on_two_sides", &spec) else { return };
    let names: Vec<_> = lab.node_names().collect();
    assert_eq!(names[10..], ["k", "l", "n", "o", "m", "switch"]);
    // Hosts of one side reach each other, those of the other side only while something forwards.
    for (from, to) in [("a", "c"), ("n", "a"), ("b", "o")] {
        both_families(&lab, from, to);
    }
    let crosses = |from: &str, to: &str| {
        let address = lab.host(to).unwrap().ipv4.to_string();
        let mut ping = lab.command(from, "ping").unwrap();
        ping.args(["-c1", "-W1", &address]).output().unwrap().status.success()
    };
    assert!(!crosses("a", "b") && !crosses("d", "e"));
    let stop = forward(&lab);
    for (from, to) in [("a", "d"), ("n", "o")] {
        both_families(&lab, from, to);
    }
    stop();
    assert!(!crosses("c", "d"));
}

#[test]
fn kernel_settings_are_those_of_the_hosts_alone() {
    let name = "net.ipv4.tcp_timestamps";
    let of = |value: &str| LabSpec {
        sysctls: [(name.to_owned(), value.to_owned())].into(),
        ..LabSpec::default()
    };
    let Some(lab) = lab("kernel_settings_are_those_of_the_hosts_alone", &of("0")) else { return };
    let own = weir_net::host::sysctl(name);
    assert_ne!(own.as_deref(), Some("0"), "nothing can be seen here");
    for host in ["a", "b"] {
        let there = lab.run_in(host, || weir_net::host::sysctl(name)).unwrap();
        assert_eq!(there.as_deref(), Some("0"));
    }
    // A setting of the machine.
    let machine = [("net.core.rmem_max".to_owned(), "1".to_owned())].into();
    match Lab::up(&LabSpec { sysctls: machine, ..LabSpec::default() }) {
        Err(Error::Sysctl { name, .. }) => assert_eq!(name, "net.core.rmem_max"),
        other => panic!("{other:?}"),
    }
    // A value out of range, and a setting that no namespace has.
    let unknown = [("net.core.no_such_setting".to_owned(), "1".to_owned())].into();
    for spec in [of("what"), LabSpec { sysctls: unknown, ..LabSpec::default() }] {
        match Lab::up(&spec) {
            Err(Error::Invalid { field, .. }) => assert_eq!(field, "sysctls"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(weir_net::host::sysctl(name), own);
}

#[test]
fn link_parameters_are_as_asked_on_both_ends() {
    let spec = LabSpec {
        mtu_bytes: Some(9000),
        no_offload: true,
        transmit_queue_packets: Some(77),
        ..LabSpec::default()
    };
    let Some(cut) = lab("link_parameters_are_as_asked_on_both_ends", &spec) else { return };
    let whole = Lab::up(&LabSpec::default()).unwrap();
    let features = |lab: &Lab, host: &str| {
        lab.run_in(host, || LinkControl::open().unwrap().active_features("eth0").unwrap()).unwrap()
    };
    for host in ["a", "b"] {
        assert_eq!(output(&cut, host, "cat", &["/sys/class/net/eth0/mtu"]), "9000\n");
        assert_eq!(output(&cut, host, "cat", &["/sys/class/net/eth0/tx_queue_len"]), "77\n");
        let on = features(&cut, host);
        let before = features(&whole, host);
        for name in [
            "tx-udp-segmentation",
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-generic-segmentation",
        ] {
            assert!(before.iter().any(|f| f == name), "{name} is on unless cut");
            assert!(!on.iter().any(|f| f == name), "{name} on {host}");
        }
        assert!(!on.iter().any(|f| f == "rx-gro"));
    }
    both_families(&cut, "b", "a");
}

#[test]
fn dropping_a_lab_leaves_nothing() {
    let Some(lab) = lab("dropping_a_lab_leaves_nothing", &LabSpec::default()) else { return };
    // Held beyond the lab, to see the far end of its cable go.
    let survivor = lab.namespace("a").unwrap().clone();
    let has_cable = || {
        let read = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        survivor.run_in(read).unwrap().contains("eth0")
    };
    assert!(has_cable());
    let mut command = lab.command("b", "sleep").unwrap();
    ChildSetup::new().default_signals().apply(&mut command).unwrap();
    let mut inside = command.arg("60").stdout(Stdio::null()).spawn().unwrap();
    drop(command); // it could start another, so it keeps the namespace
    drop(lab);
    assert_eq!(inside.wait().unwrap().signal(), Some(libc::SIGTERM));
    let started = Instant::now();
    while has_cable() {
        assert!(started.elapsed() < Duration::from_secs(20), "the other host lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let spec = LabSpec { mtu_bytes: Some(100), ..LabSpec::default() };
    let error = Lab::up(&spec).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Usage);
    assert!(error.to_string().contains("mtu_bytes: 100"), "{error}");
}
