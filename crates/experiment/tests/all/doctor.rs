//! Findings by creating the condition: in a network namespace of the test's own, where the command that the finding
//! names is then run and must make it go away.
#![cfg(target_os = "linux")]

use std::process::Command;

use weir_experiment::doctor::{Finding, Options, Severity, check, gather};
use weir_net::interface::set_offload;
use weir_net::namespace::{NetNamespace, create, effective_user_id};
use weir_net::udp::{UdpOptions, UdpSocket};

/// A namespace with loopback up, or `None` after saying why the test is skipped.
fn namespace(test: &str) -> Option<NetNamespace> {
    let root = effective_user_id() == 0;
    if root
        && let Ok(mut made) = create(&[Default::default()])
        && let Some(parts) = made.pop()
    {
        let up = parts.namespace.run_in(|| sh("ip link set dev lo up")).unwrap();
        assert!(up, "{test}: loopback can't be switched on");
        return Some(parts.namespace);
    }
    assert!(!(root && std::env::var_os("CI").is_some()), "{test}: no namespace, though root");
    eprintln!("SKIPPED {test}: needs root to make a network namespace");
    None
}

/// Runs a command in the calling thread's namespace.
fn sh(command: &str) -> bool {
    let out = Command::new("sh").args(["-c", command]).output().unwrap();
    if !out.status.success() {
        eprintln!("{command}: {}", String::from_utf8_lossy(&out.stderr));
    }
    out.status.success()
}

fn look(interface: Option<&str>) -> Vec<Finding> {
    let interface = interface.map(str::to_owned);
    check(&gather(&Options { interface, cpu_sample_ms: 20 }).unwrap())
}

fn find(findings: &[Finding], id: &str) -> Option<Finding> {
    findings.iter().find(|f| f.id == id).cloned()
}

/// The finding is there with this severity; the command it names makes it go, or makes it `ok`.
fn changes(id: &str, severity: Severity) {
    let found = find(&look(None), id).unwrap_or_else(|| panic!("no finding {id}"));
    assert_eq!(found.severity, severity, "{found:?}");
    let command = found.change.clone().unwrap_or_else(|| panic!("no command: {found:?}"));
    assert!(sh(&command), "{command}");
    let after = find(&look(None), id);
    assert!(after.as_ref().is_none_or(|f| f.severity == Severity::Ok), "{command}: {after:?}");
}

#[test]
fn loopback_down_is_an_error_that_its_command_ends() {
    let Some(ns) = namespace("loopback_down") else { return };
    ns.run_in(|| {
        assert!(find(&look(None), "loopback").is_none());
        assert!(sh("ip link set dev lo down"));
        changes("loopback", Severity::Error);
    })
    .unwrap();
}

#[test]
fn offload_mtu_and_queue_of_a_veth() {
    let Some(ns) = namespace("offload_mtu_and_queue") else { return };
    ns.run_in(|| {
        assert!(sh("ip link add wdoc-a type veth peer name wdoc-b"));
        assert!(sh("ip link set dev wdoc-a up && ip link set dev wdoc-b up"));
        let before = look(None);
        assert!(find(&before, "rx-gro:wdoc-a").is_none_or(|f| f.severity == Severity::Warning));
        assert_eq!(find(&before, "link:wdoc-a").unwrap().severity, Severity::Ok);
        if sh("command -v ethtool") {
            set_offload("wdoc-a", "gro", true).unwrap();
            assert!(find(&look(None), "rx-gro:wdoc-a").is_none());
            for (word, id) in [("gro", "rx-gro:wdoc-a"), ("tso", "tx-tcp-segmentation:wdoc-a")] {
                set_offload("wdoc-a", word, false).unwrap();
                changes(id, Severity::Warning);
            }
        } else {
            eprintln!("SKIPPED offload_mtu_and_queue (offloads): ethtool is not installed");
        }
        assert!(sh("ip link set dev wdoc-a mtu 1000"));
        changes("mtu:wdoc-a", Severity::Warning);
        if sh("tc qdisc add dev wdoc-a root tbf rate 10mbit burst 10k latency 50ms") {
            let shaped = find(&look(Some("wdoc-a")), "qdisc:wdoc-a").unwrap();
            assert_eq!((shaped.severity, shaped.title.contains("tbf")), (Severity::Warning, true));
            assert!(sh(&shaped.change.unwrap()));
            assert_ne!(find(&look(None), "qdisc:wdoc-a").unwrap().severity, Severity::Warning);
        } else {
            eprintln!("SKIPPED offload_mtu_and_queue (queue): no tc, or no tbf in this kernel");
        }
        assert!(sh("ip link set dev wdoc-b down"));
        let dead = find(&look(Some("wdoc-a")), "link:wdoc-a").unwrap();
        assert_eq!(dead.severity, Severity::Error);
        let error =
            gather(&Options { interface: Some("wdoc-x".into()), cpu_sample_ms: 20 }).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("wdoc-x") && error.contains(": lo, "), "{error}");
    })
    .unwrap();
}

#[test]
fn a_rule_against_the_port_is_lifted_by_its_command() {
    let Some(ns) = namespace("firewall") else { return };
    ns.run_in(|| {
        if !sh("nft add table inet wdoc") {
            eprintln!("SKIPPED firewall: nft is not installed, or not in this kernel");
            return;
        }
        assert_eq!(find(&look(None), "firewall").unwrap().severity, Severity::Ok);
        assert!(sh("nft 'add chain inet wdoc in { type filter hook input priority 0; }'"));
        assert!(sh("nft 'add rule inet wdoc in udp dport { 22, 9000-9400 } counter drop'"));
        changes("firewall-udp-input", Severity::Warning);
        assert!(sh("nft 'add rule inet wdoc in tcp dport 9347 reject'"));
        changes("firewall-tcp-input", Severity::Warning);
        assert!(sh("nft 'chain inet wdoc in { policy drop; }'"));
        changes("firewall-udp-input", Severity::Warning);
        changes("firewall-tcp-input", Severity::Warning);
    })
    .unwrap();
}

#[test]
fn settings_of_the_namespace() {
    let Some(ns) = namespace("settings") else { return };
    ns.run_in(|| {
        let set = |path: &str, value: &str| std::fs::write(format!("/proc/sys/{path}"), value);
        set("net/ipv4/ip_local_port_range", "40000 40999").unwrap();
        changes("ephemeral-ports", Severity::Warning);
        set("net/ipv4/ip_local_port_range", "1024 65535").unwrap();
        assert_eq!(find(&look(None), "port-in-range").unwrap().severity, Severity::Warning);
        if set("net/ipv6/conf/all/disable_ipv6", "1").is_ok() {
            changes("ipv6", Severity::Info);
        } else {
            eprintln!("SKIPPED settings (IPv6): this kernel has none");
        }
        assert_eq!(find(&look(None), "udp-port").unwrap().severity, Severity::Ok);
        let held = UdpSocket::open(&UdpOptions::bind("0.0.0.0:9347".parse().unwrap())).unwrap();
        let used = look(None);
        assert_eq!(find(&used, "udp-port").unwrap().severity, Severity::Info);
        assert_eq!(find(&used, "tcp-port").unwrap().severity, Severity::Ok);
        drop(held);
    })
    .unwrap();
}

#[test]
fn a_spinning_process_is_seen() {
    struct Spinner(std::process::Child);
    impl Drop for Spinner {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let spinner = Spinner(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let facts = gather(&Options { cpu_sample_ms: 1000, ..Options::default() }).unwrap();
    let sample = facts.cpu.value().unwrap();
    assert!(
        sample.consumers.iter().any(|c| c.pid == spinner.0.id() && c.cpu_ratio > 0.0),
        "{sample:?}"
    );
    assert!(sample.busy_ratio.iter().any(|core| core.1 > 0.0));
}
