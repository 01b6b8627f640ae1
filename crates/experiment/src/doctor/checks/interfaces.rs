//! Interfaces: offloads, egress queues, sizes, counters.

use super::super::facts::InterfaceFacts;
use super::{Facts, Finding, Group, Severity, judge};

const GROUP: Group = Group::Interfaces;
/// Queueing disciplines that are configured to delay or drop packets.
const SHAPERS: [&str; 7] = ["tbf", "htb", "hfsc", "cbq", "netem", "cake", "taprio"];

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    judge(&facts.interfaces, GROUP, "interfaces", "interfaces", |all, from| {
        let mut found = Vec::new();
        match all.iter().find(|i| i.interface.loopback) {
            Some(lo) if lo.interface.up => {}
            _ => found.push(
                Finding::new(
                    GROUP,
                    Severity::Error,
                    "loopback",
                    "loopback is down",
                    format!("{from}: no loopback interface is up"),
                    "no calibration, and no test with both ends on this host",
                )
                .change("ip link set dev lo up"),
            ),
        }
        // Settings of the loopback interface affect nothing else.
        let others: Vec<_> = all.iter().filter(|i| !i.interface.loopback || i.asked_for).collect();
        if others.is_empty() {
            found.push(Finding::new(
                GROUP,
                Severity::Info,
                "interfaces",
                "only loopback is up",
                format!("{from}: no other interface is up"),
                "tests with other hosts are not possible from this network namespace",
            ));
        }
        found.extend(others.iter().flat_map(|i| one(i)));
        found
    })
}

fn one(facts: &InterfaceFacts) -> Vec<Finding> {
    let mut found = link(facts);
    found.extend(offloads(facts));
    found.extend(egress(facts));
    found
}

fn id(what: &str, facts: &InterfaceFacts) -> String {
    format!("{what}:{}", facts.interface.name)
}

fn link(facts: &InterfaceFacts) -> Vec<Finding> {
    let i = &facts.interface;
    let name = &i.name;
    let speed = match facts.speed_bits_per_second {
        // veth and similar interfaces report a speed that limits nothing.
        Some(bits) if i.kind.is_none() => format!(", {} Mbit/s", bits / 1_000_000),
        _ => String::new(),
    };
    let c = &i.counters;
    let evidence = format!(
        "{name}: {}{}, MTU {}{speed}, {} transmit and {} receive queues",
        if i.up { "up" } else { "down" },
        if i.carrier { ", carrier" } else { ", no carrier" },
        i.mtu_bytes,
        i.tx_queues,
        i.rx_queues
    );
    let finding = |severity, id, title: String, effect: &str| {
        Finding::new(GROUP, severity, id, title, evidence.clone(), effect)
    };
    let mut found = Vec::new();
    if !(i.up && i.carrier) {
        // The user named it: the test can't run.
        let severity = if facts.asked_for { Severity::Error } else { Severity::Warning };
        let dead = finding(
            severity,
            id("link", facts),
            format!("{name} forwards no packets"),
            "no test over it",
        );
        found.push(if i.up { dead } else { dead.change(format!("ip link set dev {name} up")) });
    } else {
        found.push(finding(
            Severity::Ok,
            id("link", facts),
            format!("{name} is up"),
            "tests over it can run",
        ));
    }
    let mtu = format!("ip link set dev {name} mtu 1500");
    if i.mtu_bytes < 1280 {
        let effect = "below the minimum of IPv6, which is therefore disabled; datagrams above the MTU are fragmented";
        found.push(
            finding(
                Severity::Warning,
                id("mtu", facts),
                format!("{name}: MTU {} is very small", i.mtu_bytes),
                effect,
            )
            .change(mtu),
        );
    } else if i.mtu_bytes < 1500 {
        let effect =
            "correct if the network requires it; datagrams of 1472 bytes are fragmented or refused";
        found.push(finding(
            Severity::Info,
            id("mtu", facts),
            format!("{name}: MTU {} is below Ethernet's", i.mtu_bytes),
            effect,
        ));
    }
    if c.rx_errors + c.tx_errors + c.rx_missed_errors + c.rx_fifo_errors > 0 {
        found.push(Finding::new(
            GROUP,
            Severity::Warning,
            id("errors", facts),
            format!("{name} has counted errors"),
            format!("{name}: rx_errors {}, tx_errors {}, rx_missed_errors {}, rx_fifo_errors {}", c.rx_errors, c.tx_errors, c.rx_missed_errors, c.rx_fifo_errors),
            "frames were lost at the card or on the cable; if this continues, tests include losses of this host (a result has the counters before and after)",
        ));
    }
    found
}

fn offloads(facts: &InterfaceFacts) -> Vec<Finding> {
    let name = &facts.interface.name;
    judge(
        &facts.offloads,
        GROUP,
        &id("offloads", facts),
        &format!("offloads of {name}"),
        |list, from| {
            let state = |feature: &str| list.iter().find(|o| o.name == feature);
            // Feature, its ethtool name, expected state, id, effect otherwise.
            let wanted = [
                (
                    "tx-generic-segmentation",
                    "gso",
                    true,
                    Severity::Warning,
                    "each TCP segment and UDP datagram crosses the stack separately: maximum rates are several times lower",
                ),
                (
                    "tx-tcp-segmentation",
                    "tso",
                    true,
                    Severity::Warning,
                    "the kernel segments TCP's large writes itself: more CPU for the same rate",
                ),
                (
                    "tx-udp-segmentation",
                    "tx-udp-segmentation",
                    true,
                    Severity::Info,
                    "the kernel segments coalesced UDP sends above the driver: UDP crosses per-packet, with more CPU per packet",
                ),
                (
                    "rx-gro",
                    "gro",
                    true,
                    Severity::Warning,
                    "each received segment crosses the stack separately: TCP and coalesced UDP rates are several times lower",
                ),
                (
                    "rx-lro",
                    "lro",
                    false,
                    Severity::Warning,
                    "packets are coalesced irreversibly: sizes and spacing are lost, and an emulator here would forward wrong frames",
                ),
            ];
            let mut found = Vec::new();
            for (feature, word, on, severity, effect) in wanted {
                let Some(offload) = state(feature) else { continue };
                if offload.active == on {
                    continue;
                }
                let (is, turn) = if on { ("off", "on") } else { ("on", "off") };
                let evidence = format!(
                    "{from}: {feature} {is}{}",
                    if offload.changeable { "" } else { " [fixed]" }
                );
                let title = format!("{name}: {word} is {is}");
                // A missing feature of a driver is not a wrong setting.
                let severity = if offload.changeable { severity } else { Severity::Info };
                let finding =
                    Finding::new(GROUP, severity, id(feature, facts), title, evidence, effect);
                found.push(if offload.changeable {
                    finding.change(format!("ethtool -K {name} {word} {turn}"))
                } else {
                    finding
                });
            }
            if found.is_empty() {
                let evidence = format!("{from}: gso, tso, tx-udp-segmentation, gro on; lro off");
                let effect = "large sends and receives stay coalesced as long as possible; the result says whether datagrams crossed coalesced or per-packet";
                found.push(Finding::new(
                    GROUP,
                    Severity::Ok,
                    id("offloads", facts),
                    format!("{name}: offloads are on"),
                    evidence,
                    effect,
                ));
            }
            found
        },
    )
}

fn egress(facts: &InterfaceFacts) -> Vec<Finding> {
    let name = &facts.interface.name;
    let root = facts.qdiscs.iter().find(|q| q.is_root());
    let kind = root.map(|q| q.kind.as_str()).or(facts.interface.qdisc.as_deref()).unwrap_or("none");
    // Under mq each queue has its own discipline.
    let leaves: Vec<&str> =
        facts.qdiscs.iter().filter(|q| !q.is_root()).map(|q| q.kind.as_str()).collect();
    let fair = |k: &str| k == "fq" || k == "etf";
    let paces =
        fair(kind) || (kind == "mq" && !leaves.is_empty() && leaves.iter().all(|k| fair(k)));
    let drops: u64 = facts.qdiscs.iter().map(|q| u64::from(q.drops)).sum();
    let under =
        if leaves.is_empty() { String::new() } else { format!(" over {}", leaves.join(", ")) };
    let evidence = format!("{name}: root discipline {kind}{under}, {drops} dropped so far");
    let finding = |severity, title: String, effect: &str| {
        Finding::new(GROUP, severity, id("qdisc", facts), title, evidence.clone(), effect)
    };
    if SHAPERS.contains(&kind) || leaves.iter().any(|k| SHAPERS.contains(k)) {
        let effect = "it limits, delays or drops outgoing packets: results include this queue";
        return vec![
            finding(Severity::Warning, format!("{name}: egress is shaped by {kind}"), effect)
                .change(format!("tc qdisc del dev {name} root")),
        ];
    }
    vec![if paces {
        let effect = "the kernel spaces UDP by SO_MAX_PACING_RATE, and SO_TXTIME works";
        finding(Severity::Ok, format!("{name}: kernel pacing works"), effect)
    } else {
        let effect = "SO_MAX_PACING_RATE is accepted for UDP and does nothing, SO_TXTIME does not work; TCP paces itself, and Weir's own pacing is unaffected";
        finding(Severity::Info, format!("{name}: no kernel pacing for UDP"), effect)
            .change(format!("tc qdisc replace dev {name} root fq"))
    }]
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::Fact;
    use super::*;
    use weir_net::interface::{Interface, InterfaceCounters, Offload, Qdisc};

    fn lo() -> InterfaceFacts {
        let interface = Interface {
            name: "lo".into(),
            loopback: true,
            up: true,
            carrier: true,
            mtu_bytes: 65_536,
            ..Interface::default()
        };
        InterfaceFacts { interface, ..InterfaceFacts::default() }
    }

    fn eth() -> InterfaceFacts {
        let interface = Interface {
            name: "eth0".into(),
            up: true,
            carrier: true,
            mtu_bytes: 1500,
            ..Interface::default()
        };
        InterfaceFacts { interface, ..InterfaceFacts::default() }
    }

    fn findings(eth: InterfaceFacts) -> Vec<Finding> {
        check(&Facts { interfaces: Fact::read("rtnetlink", vec![lo(), eth]), ..Facts::default() })
    }

    fn one(eth: InterfaceFacts, id: &str) -> Finding {
        findings(eth).into_iter().find(|f| f.id == id).unwrap()
    }

    fn feature(name: &str, active: bool, changeable: bool) -> Offload {
        Offload { name: name.into(), active, requested: active, changeable }
    }

    #[test]
    fn loopback_is_essential() {
        let down = InterfaceFacts {
            interface: Interface { up: false, ..lo().interface },
            ..InterfaceFacts::default()
        };
        let facts = |all| Facts { interfaces: Fact::read("rtnetlink", all), ..Facts::default() };
        let found = check(&facts(vec![down]));
        assert_eq!((found[0].severity, found[0].id.as_str()), (Severity::Error, "loopback"));
        assert_eq!(
            check(&facts(vec![lo()])).iter().map(|f| f.severity).max(),
            Some(Severity::Info)
        );
    }

    #[test]
    fn a_dead_interface_matters_when_asked_for() {
        let dead = |up, asked_for| {
            let mut eth = eth();
            (eth.interface.up, eth.interface.carrier, eth.asked_for) = (up, false, asked_for);
            one(eth, "link:eth0")
        };
        assert_eq!(
            (dead(true, false).severity, dead(true, true).severity),
            (Severity::Warning, Severity::Error)
        );
        assert_eq!(
            (dead(true, true).change, dead(false, true).change.as_deref()),
            (None, Some("ip link set dev eth0 up"))
        );
        assert_eq!(one(eth(), "link:eth0").severity, Severity::Ok);
    }

    #[test]
    fn offloads_off_and_fixed() {
        let with = |list| InterfaceFacts { offloads: Fact::read("ethtool -k eth0", list), ..eth() };
        let off = one(with(vec![feature("rx-gro", false, true)]), "rx-gro:eth0");
        assert_eq!(
            (off.severity, off.change.as_deref()),
            (Severity::Warning, Some("ethtool -K eth0 gro on"))
        );
        assert_eq!(off.evidence, "ethtool -k eth0: rx-gro off");
        let fixed = one(
            with(vec![feature("tx-tcp-segmentation", false, false)]),
            "tx-tcp-segmentation:eth0",
        );
        assert_eq!((fixed.severity, fixed.change), (Severity::Info, None));
        let lro = one(with(vec![feature("rx-lro", true, true)]), "rx-lro:eth0");
        assert_eq!(lro.change.as_deref(), Some("ethtool -K eth0 lro off"));
        let good = one(
            with(vec![feature("rx-gro", true, true), feature("rx-lro", false, true)]),
            "offloads:eth0",
        );
        assert_eq!(good.severity, Severity::Ok);
    }

    #[test]
    fn mtu_and_errors() {
        let mtu = |mtu_bytes| InterfaceFacts {
            interface: Interface { mtu_bytes, ..eth().interface },
            ..eth()
        };
        assert_eq!(one(mtu(1000), "mtu:eth0").severity, Severity::Warning);
        assert_eq!(one(mtu(1400), "mtu:eth0").severity, Severity::Info);
        assert!(findings(mtu(9000)).iter().all(|f| f.id != "mtu:eth0"));
        let mut bad = eth();
        bad.interface.counters =
            InterfaceCounters { rx_missed_errors: 3, ..InterfaceCounters::default() };
        assert!(one(bad, "errors:eth0").evidence.contains("rx_missed_errors 3"));
    }

    #[test]
    fn egress_queues() {
        let queue =
            |kind: &str, parent| Qdisc { kind: kind.into(), parent, drops: 2, ..Qdisc::default() };
        let with = |list: &[(&str, u32)]| {
            let qdiscs = list.iter().map(|(k, p)| queue(k, *p)).collect();
            one(InterfaceFacts { qdiscs, ..eth() }, "qdisc:eth0")
        };
        assert_eq!(with(&[("fq", Qdisc::ROOT)]).severity, Severity::Ok);
        assert_eq!(with(&[("mq", Qdisc::ROOT), ("fq", 1), ("fq", 2)]).severity, Severity::Ok);
        let mixed = with(&[("mq", Qdisc::ROOT), ("fq", 1), ("pfifo_fast", 2)]);
        assert_eq!(
            (mixed.severity, mixed.change.as_deref()),
            (Severity::Info, Some("tc qdisc replace dev eth0 root fq"))
        );
        let shaped = with(&[("tbf", Qdisc::ROOT)]);
        assert_eq!(
            (shaped.severity, shaped.change.as_deref()),
            (Severity::Warning, Some("tc qdisc del dev eth0 root"))
        );
        assert!(shaped.evidence.contains("2 dropped"));
        assert!(with(&[]).evidence.contains("root discipline none"));
    }
}
