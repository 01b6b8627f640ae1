//! Facts of interfaces and the kernel's counters, against interfaces made for the purpose.
#![cfg(target_os = "linux")]

use std::os::fd::AsRawFd;
use std::process::Command;

use weir_net::counters::{cpu_times, protocol_counters, softnet};
use weir_net::interface::*;
use weir_net::udp::{UdpOptions, UdpSocket};

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).output().is_ok_and(|o| o.status.success())
}

/// A network namespace of this test's own, removed at the end.
struct Namespace(String);

impl Namespace {
    fn make(test: &str) -> Option<Namespace> {
        // SAFETY: takes nothing.
        let root = unsafe { libc::geteuid() } == 0;
        let name = format!("wnet-{}-{test}", std::process::id());
        if root && ip(&format!("netns add {name}")) {
            return Some(Namespace(name));
        }
        assert!(
            !(root && std::env::var_os("CI").is_some()),
            "{test}: no namespace could be made, though root"
        );
        eprintln!("SKIPPED {test}: needs root and the ip command to make a network namespace");
        None
    }

    fn ip(&self, arguments: &str) {
        assert!(ip(&format!("-n {} {arguments}", self.0)), "ip {arguments}");
    }

    /// Runs `body` on a thread inside the namespace.
    fn inside(&self, body: impl FnOnce() + Send + 'static) {
        let file = std::fs::File::open(format!("/run/netns/{}", self.0)).unwrap();
        std::thread::spawn(move || {
            // SAFETY: takes integers only; it is this thread alone that changes its namespace.
            assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            body();
        })
        .join()
        .unwrap();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.0));
    }
}

#[test]
fn loopback_is_known() {
    let lo = interface("lo").unwrap();
    assert!(lo.loopback && lo.mtu_bytes >= 1280);
    let error = interface("wnet-none").unwrap_err();
    assert_eq!((error.object(), error.raw_os_error()), (Some("wnet-none"), Some(19)), "{error}");
    let egress = egress_interface("127.0.0.1".parse().unwrap()).unwrap();
    assert_eq!((egress.interface.as_str(), egress.local), ("lo", true));
    assert_eq!(egress.source, Some("127.0.0.1".parse().unwrap()));
    assert!(!has_default_route("lo").unwrap());
    assert!(offloads("lo").unwrap().iter().any(|o| o.name == "rx-gro"));
    assert!(driver("wnet-none").unwrap_err().raw_os_error().is_some());
    assert!(offloads("").is_err() && offloads("a-name-far-too-long-to-be-one").is_err());
}

#[test]
fn veth_in_a_namespace() {
    let Some(ns) = Namespace::make("veth") else { return };
    ns.ip("link add wnet-a mtu 1400 address 02:00:00:00:00:01 type veth peer name wnet-b");
    ns.ip("addr add 198.18.9.1/24 dev wnet-a");
    ns.ip("addr add 2001:2:0:9::1/64 dev wnet-a nodad");
    ns.ip("link set dev wnet-a up");
    ns.ip("link set dev wnet-b up");
    ns.ip("route add default via 198.18.9.2 dev wnet-a");
    ns.ip("route add 198.18.10.0/24 via 198.18.9.2 dev wnet-a mtu 1300");
    ns.inside(|| {
        let a = interface("wnet-a").unwrap();
        assert_eq!((a.mtu_bytes, a.up, a.carrier, a.loopback), (1400, true, true, false));
        assert_eq!(a.kind.as_deref(), Some("veth"));
        assert_eq!(a.mac, Some([2, 0, 0, 0, 0, 1]));
        let has = |text: &str, prefix_length| {
            let address = text.parse().unwrap();
            a.addresses.contains(&InterfaceAddress { address, prefix_length })
        };
        assert!(has("198.18.9.1", 24) && has("2001:2:0:9::1", 64), "{:?}", a.addresses);
        assert_eq!(driver("wnet-a").unwrap().name, "veth");
        assert_eq!(speed_bits_per_second("wnet-a").unwrap(), Some(10_000_000_000));
        assert!(has_default_route("wnet-a").unwrap());
        assert!(!has_default_route("wnet-b").unwrap());

        let egress = egress_interface("203.0.113.1".parse().unwrap()).unwrap();
        assert_eq!(
            (egress.interface.as_str(), egress.mtu_bytes, egress.local),
            ("wnet-a", 1400, false)
        );
        assert_eq!(egress.gateway, Some("198.18.9.2".parse().unwrap()));
        assert_eq!(egress.source, Some("198.18.9.1".parse().unwrap()));
        assert_eq!(egress_interface("198.18.10.7".parse().unwrap()).unwrap().mtu_bytes, 1300);
        let v6 = egress_interface("2001:2:0:9::7".parse().unwrap()).unwrap();
        assert_eq!((v6.interface.as_str(), v6.gateway), ("wnet-a", None));
        let error = egress_interface("2001:db8::1".parse().unwrap()).unwrap_err();
        assert_eq!(error.object(), Some("2001:db8::1"), "{error}");
    });
}

#[test]
fn offloads_are_read_and_set() {
    let Some(ns) = Namespace::make("offload") else { return };
    ns.ip("link add wnet-a type veth peer name wnet-b");
    ns.inside(|| {
        let active = |name: &str| {
            offloads("wnet-a").unwrap().into_iter().find(|o| o.name == name).unwrap().active
        };
        for (short, long) in [
            ("tso", "tx-tcp-segmentation"),
            ("tso", "tx-tcp6-segmentation"),
            ("gso", "tx-generic-segmentation"),
            ("uso", "tx-udp-segmentation"),
            ("gro", "rx-gro"),
            ("tx-checksumming", "tx-checksum-ip-generic"),
        ] {
            set_offload("wnet-a", short, true).unwrap();
            assert!(active(long), "{long}");
            set_offload("wnet-a", short, false).unwrap();
            assert!(!active(long), "{long}");
        }
        // Off and on again by the kernel's own name.
        for on in [false, true] {
            set_offload("wnet-a", "rx-udp-gro-forwarding", on).unwrap();
            assert_eq!(active("rx-udp-gro-forwarding"), on);
        }
        let unknown = set_offload("wnet-a", "warp", true).unwrap_err();
        assert!(matches!(unknown, weir_net::Error::Refused { .. }), "{unknown:?}");
        let object = unknown.object().unwrap();
        assert!(object.contains("warp") && object.contains("wnet-a"), "{object}");
        let fixed =
            offloads("wnet-a").unwrap().into_iter().find(|o| !o.changeable && !o.active).unwrap();
        assert!(set_offload("wnet-a", &fixed.name, true).is_err());
        // Segmentation needs checksums, which are off by now.
        let kept = set_offload("wnet-a", "tso", true).unwrap_err();
        assert!(matches!(kept, weir_net::Error::Refused { .. }), "{kept:?}");
        assert!(kept.object().unwrap().contains("tso"), "{kept}");
    });
}

#[test]
fn qdiscs_and_counters_follow_the_packets() {
    let Some(ns) = Namespace::make("qdisc") else { return };
    ns.ip("link set dev lo up");
    ns.ip("link add wnet-a type veth peer name wnet-b");
    ns.ip("addr add 198.18.9.1/24 dev wnet-a");
    ns.ip("link set dev wnet-a up");
    ns.ip("link set dev wnet-b up");
    ns.ip("neigh add 198.18.9.2 lladdr 02:00:00:00:00:02 dev wnet-a");
    let tbf = format!("-n {} qdisc add dev wnet-a root tbf rate 8mbit burst 2kb limit 3000", ns.0);
    let has_tbf =
        Command::new("tc").args(tbf.split(' ')).output().is_ok_and(|o| o.status.success());
    ns.inside(move || {
        let before = interface("wnet-a").unwrap();
        let mut counters = CounterReader::open(before.index).unwrap();
        assert_eq!(counters.read().unwrap(), before.counters);
        let source =
            UdpSocket::open(&UdpOptions::connect("198.18.9.2:9".parse().unwrap())).unwrap();
        for _ in 0..50 {
            // A full queue may say so.
            let _ = source.send(&[0; 972]);
        }
        let after = interface("wnet-a").unwrap();
        let qdisc =
            qdiscs().unwrap().into_iter().find(|q| q.interface_index == after.index && q.is_root());
        if has_tbf {
            let qdisc = qdisc.unwrap();
            assert_eq!((qdisc.kind.as_str(), after.qdisc.as_deref()), ("tbf", Some("tbf")));
            assert!(qdisc.drops > 0 && qdisc.queued_packets > 0, "{qdisc:?}");
            assert!(after.counters.tx_packets - before.counters.tx_packets < 50);
        } else {
            eprintln!("SKIPPED qdiscs_and_counters_follow_the_packets (part): no tbf");
            assert!(after.counters.tx_packets - before.counters.tx_packets >= 50);
        }
        assert!(after.counters.tx_bytes > before.counters.tx_bytes);
        assert!(counters.read().unwrap().tx_bytes >= after.counters.tx_bytes);
        assert!(CounterReader::open(9999).unwrap().read().is_err());
        let own = driver_statistics("wnet-a").unwrap();
        let peer = own.iter().find(|(name, _)| name == "peer_ifindex").unwrap();
        assert_eq!(peer.1, interface("wnet-b").unwrap().index.into());
        assert_eq!(driver_statistics("lo").unwrap(), []);
    });
    // Protocol counters are those of the thread's namespace, exactly.
    ns.inside(|| {
        let options = UdpOptions {
            receive_buffer: Some(4096),
            ..UdpOptions::bind("127.0.0.1:0".parse().unwrap())
        };
        let sink = UdpSocket::open(&options).unwrap();
        let source = UdpSocket::open(&UdpOptions::connect(sink.local_addr().unwrap())).unwrap();
        let before = protocol_counters().unwrap();
        for _ in 0..60 {
            source.send(&[0; 500]).unwrap();
        }
        let change = protocol_counters().unwrap().since(&before);
        assert_eq!(change.get("Udp", "OutDatagrams"), Some(60));
        let drops = i64::from(sink.socket_memory().unwrap().drops);
        assert_eq!(change.get("Udp", "RcvbufErrors"), Some(drops));
        assert_eq!(change.get("Udp", "InErrors"), Some(drops));
        assert_eq!(change.get("Udp", "Nonsense"), None);
        assert!(change.iter().all(|(_, value)| value != 0));
    });
}

#[test]
fn machine_counters_grow() {
    let (before, cpu) = (softnet().unwrap(), cpu_times().unwrap());
    assert!(!before.is_empty() && !cpu.cores.is_empty());
    let sum: u64 = cpu.cores.iter().map(|(_, t)| t.user_ns).sum();
    // The total is summed in finer units than the lines show: a tick per core of difference.
    assert!(sum.abs_diff(cpu.total.user_ns) <= 20_000_000 * cpu.cores.len() as u64);
    assert!(cpu.total.busy_ns() < cpu.total.total_ns());
    let lo = UdpSocket::open(&UdpOptions::bind("127.0.0.1:0".parse().unwrap())).unwrap();
    for _ in 0..100 {
        lo.send_to(b"x", lo.local_addr().unwrap()).unwrap();
    }
    let processed = |rows: &[weir_net::counters::Softnet]| {
        rows.iter().fold(0_u32, |s, r| s.wrapping_add(r.processed))
    };
    assert!(processed(&softnet().unwrap()).wrapping_sub(processed(&before)) >= 100);
}

/// Set for the process that does the work of the test, which leaves it without descriptors.
const WITHOUT_DESCRIPTORS: &str = "WEIR_TEST_WITHOUT_DESCRIPTORS";

#[test]
fn a_running_child_has_not_ended_when_descriptors_run_out() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use weir_net::process::has_ended;
    if std::env::var_os(WITHOUT_DESCRIPTORS).is_none() {
        let name = "facts::a_running_child_has_not_ended_when_descriptors_run_out";
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let output = again.args(["--exact", name]).env(WITHOUT_DESCRIPTORS, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum }).unwrap();
    let is_early = has_ended(&child);
    child.kill().unwrap();
    while !has_ended(&child) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.wait().unwrap();
    assert!(!is_early);
}
