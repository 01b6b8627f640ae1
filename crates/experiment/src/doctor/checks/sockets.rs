//! Buffers, descriptors, ports.

use super::super::facts::PortUse;
use super::{Fact, Facts, Finding, Group, PORT, Severity, judge};

const GROUP: Group = Group::Sockets;

/// Receive buffer for high packet rates, bytes: a reader that is not scheduled for 10 ms at 500 000 packets/s, with
/// 2304 bytes of kernel memory per 1500-byte frame, needs 11.5 MB; rounded up.
const BUFFER_WANTED: u64 = 16 << 20;
/// Below this a stall of 2 ms at a few hundred thousand packets/s overflows.
const MIN_BUFFER: u64 = 4 << 20;
/// File descriptors for 1000 connections on one side, and some more.
const DESCRIPTORS_WANTED: u64 = 1100;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = buffers(facts);
    found.extend(overflows(facts));
    found.extend(softnet(facts));
    found.extend(descriptors(facts));
    found.extend(ports(facts));
    found.extend(families(facts));
    found
}

fn buffers(facts: &Facts) -> Vec<Finding> {
    // SO_RCVBUFFORCE and SO_SNDBUFFORCE may exceed the limits.
    let passes = facts.capabilities.value().is_some_and(|c| c.net_admin);
    let limit = |fact: &Fact<u64>,
                 id: &str,
                 what: &str,
                 name: &str,
                 wanted: u64,
                 least: u64,
                 effect: &str| {
        judge(fact, GROUP, id, what, |&bytes, from| {
            let evidence = format!("{from} = {bytes}");
            let finding = |severity, title: String, effect: &str| {
                Finding::new(GROUP, severity, id, title, evidence.clone(), effect)
            };
            vec![if bytes >= wanted {
                finding(
                    Severity::Ok,
                    format!("{what} is large enough"),
                    "short stalls of a program lose no packets",
                )
            } else if passes {
                let effect = "CAP_NET_ADMIN overrides it; it applies without that capability or as another user";
                finding(Severity::Ok, format!("{what} is overridden by a capability"), effect)
            } else {
                let severity = if bytes < least { Severity::Warning } else { Severity::Info };
                finding(severity, format!("{what} is {} KiB", bytes >> 10), effect)
                    .change(format!("sysctl -w {name}={wanted}"))
            }]
        })
    };
    let mut found = limit(
        &facts.rmem_max,
        "receive-buffer-limit",
        "limit of receive buffers",
        "net.core.rmem_max",
        BUFFER_WANTED,
        MIN_BUFFER,
        "at high UDP rates a reader that stalls for milliseconds overflows its buffer: the result reports such losses as socket overflow",
    );
    found.extend(limit(
        &facts.wmem_max,
        "send-buffer-limit",
        "limit of send buffers",
        "net.core.wmem_max",
        MIN_BUFFER,
        1 << 20,
        "a fast UDP sender waits for the queue more often",
    ));
    found
}

fn overflows(facts: &Facts) -> Vec<Finding> {
    judge(
        &facts.receive_buffer_errors,
        GROUP,
        "receive-buffer-errors",
        "socket overflows",
        |&count, from| {
            if count == 0 {
                return Vec::new();
            }
            vec![Finding::new(
                GROUP,
                Severity::Info,
                "receive-buffer-errors",
                "sockets have overflowed here before",
                format!("{from}: RcvbufErrors {count}"),
                "some program on this host was too slow for what it received; a test counts its own overflows separately",
            )]
        },
    )
}

fn softnet(facts: &Facts) -> Vec<Finding> {
    let mut found = judge(
        &facts.softnet,
        GROUP,
        "softnet",
        "receive processing",
        |&(dropped, squeezed), from| {
            let evidence =
                format!("{from}: {dropped} dropped, {squeezed} times out of budget, since boot");
            vec![if dropped == 0 {
                Finding::new(
                    GROUP,
                    Severity::Ok,
                    "softnet",
                    "no packet was dropped in a CPU's backlog",
                    evidence,
                    "the kernel has kept up so far",
                )
            } else {
                let backlog = facts.netdev_max_backlog.value().copied().unwrap_or(1000);
                let wanted = backlog.saturating_mul(4).clamp(4000, 100_000);
                let effect = "a CPU's backlog was full: losses before any socket; the loss ledger has them as a counter of the whole host";
                Finding::new(
                    GROUP,
                    Severity::Warning,
                    "softnet",
                    "packets were dropped in a CPU's backlog",
                    evidence,
                    effect,
                )
                .change(format!("sysctl -w net.core.netdev_max_backlog={wanted}"))
            }]
        },
    );
    // The second is only checked for being readable; its value is checked above.
    found.extend(judge(
        &facts.netdev_max_backlog,
        GROUP,
        "backlog",
        "length of the backlog",
        |_, _| Vec::new(),
    ));
    found
}

fn descriptors(facts: &Facts) -> Vec<Finding> {
    judge(
        &facts.descriptors,
        GROUP,
        "descriptors",
        "limit of open descriptors",
        |&(soft, hard), from| {
            let evidence = format!("{from}: {soft}, at most {hard}");
            let raises = facts.capabilities.value().is_some_and(|c| c.sys_resource);
            vec![if soft < 64 && hard < 64 && !raises {
                let effect = "not even one test can open its sockets";
                Finding::new(
                    GROUP,
                    Severity::Error,
                    "descriptors",
                    "too few descriptors for any test",
                    evidence,
                    effect,
                )
                .change("ulimit -n 65536")
            } else if hard < DESCRIPTORS_WANTED && !raises {
                let effect = "1000 concurrent connections are not possible, a few are";
                Finding::new(
                    GROUP,
                    Severity::Warning,
                    "descriptors",
                    "few descriptors",
                    evidence,
                    effect,
                )
                .change("ulimit -n 65536")
            } else {
                let effect = "Weir raises its own limit as far as a test needs";
                Finding::new(
                    GROUP,
                    Severity::Ok,
                    "descriptors",
                    "enough descriptors for 1000 connections",
                    evidence,
                    effect,
                )
            }]
        },
    )
}

fn ports(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    for (fact, id, name) in
        [(&facts.udp_port, "udp-port", "UDP"), (&facts.tcp_port, "tcp-port", "TCP")]
    {
        found.extend(judge(fact, GROUP, id, &format!("{name} port {PORT}"), |used, from| {
            vec![match used {
                PortUse::Free => Finding::new(
                    GROUP,
                    Severity::Ok,
                    id,
                    format!("{name} port {PORT} is free"),
                    format!("{from}: done"),
                    "weir serve can start on it",
                ),
                PortUse::Used => Finding::new(
                    GROUP,
                    Severity::Info,
                    id,
                    format!("{name} port {PORT} is in use"),
                    format!("{from}: address in use"),
                    "a weir serve runs here already, or another program has the port: a second server needs another one",
                )
                .change("weir serve -p 9350"),
            }]
        }));
    }
    found.extend(judge(&facts.ephemeral_ports, GROUP, "ephemeral-ports", "ephemeral ports", |&(first, last), from| {
        let count = u32::from(last) - u32::from(first) + 1;
        let evidence = format!("{from} = {first} {last}: {count} ports");
        let mut found = vec![if count < 10_000 {
            let effect = "many short connections to one server use up the ports: each stays in TIME_WAIT for a minute";
            Finding::new(GROUP, Severity::Warning, "ephemeral-ports", "few ephemeral ports", evidence.clone(), effect)
                .change("sysctl -w net.ipv4.ip_local_port_range=\"32768 60999\"")
        } else {
            let effect = "the number of concurrent connections, or per minute if this side closes first, to one address and port";
            Finding::new(GROUP, Severity::Ok, "ephemeral-ports", "enough ephemeral ports", evidence.clone(), effect)
        }];
        if (first..=last).contains(&PORT) {
            let effect = "any program's outgoing connection may take Weir's port, and weir serve then fails to start";
            found.push(
                Finding::new(GROUP, Severity::Warning, "port-in-range", format!("{PORT} is an ephemeral port"), evidence, effect)
                    .change(format!("sysctl -w net.ipv4.ip_local_reserved_ports={PORT}")),
            );
        }
        found
    }));
    found
}

fn families(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    match &facts.ipv4 {
        Fact::NotAsked => {}
        Fact::Read { from, .. } => found.push(Finding::new(
            GROUP,
            Severity::Ok,
            "ipv4",
            "IPv4 works",
            format!("{from}: done"),
            "tests over IPv4 can run",
        )),
        Fact::Unreadable { from, why } => {
            // Without either family nothing can be measured.
            let severity =
                if facts.ipv6.value().is_some() { Severity::Warning } else { Severity::Error };
            let effect = "tests over IPv4 can't run";
            found.push(
                Finding::new(GROUP, severity, "ipv4", "no IPv4", format!("{from}: {why}"), effect)
                    .change("ip addr add 127.0.0.1/8 dev lo && ip link set dev lo up"),
            );
        }
    }
    match &facts.ipv6 {
        Fact::NotAsked => {}
        Fact::Read { from, .. } => found.push(Finding::new(
            GROUP,
            Severity::Ok,
            "ipv6",
            "IPv6 works",
            format!("{from}: done"),
            "tests over IPv6 can run",
        )),
        Fact::Unreadable { from, why } => found.push(
            Finding::new(
                GROUP,
                Severity::Info,
                "ipv6",
                "no IPv6",
                format!("{from}: {why}"),
                "tests over IPv6 can't run; IPv4 is unaffected",
            )
            .change("sysctl -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0"),
        ),
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_net::capability::Capabilities;

    fn one(facts: &Facts, id: &str) -> Finding {
        check(facts).into_iter().find(|f| f.id == id).unwrap()
    }

    #[test]
    fn receive_buffers() {
        let with = |bytes, net_admin| {
            let capabilities =
                Fact::read("status", Capabilities { net_admin, ..Capabilities::default() });
            one(
                &Facts {
                    rmem_max: Fact::read("net.core.rmem_max", bytes),
                    capabilities,
                    ..Facts::default()
                },
                "receive-buffer-limit",
            )
        };
        let small = with(212_992, false);
        assert_eq!(small.severity, Severity::Warning);
        assert_eq!(small.change.as_deref(), Some("sysctl -w net.core.rmem_max=16777216"));
        assert_eq!(small.evidence, "net.core.rmem_max = 212992");
        assert_eq!(with(4 << 20, false).severity, Severity::Info);
        assert_eq!(with(16 << 20, false).severity, Severity::Ok);
        assert_eq!(
            (with(212_992, true).severity, with(212_992, true).change),
            (Severity::Ok, None)
        );
        let send = one(
            &Facts { wmem_max: Fact::read("w", 212_992), ..Facts::default() },
            "send-buffer-limit",
        );
        assert_eq!(send.severity, Severity::Warning);
    }

    #[test]
    fn drops_so_far() {
        let softnet = |dropped| {
            one(&Facts { softnet: Fact::read("s", (dropped, 9)), ..Facts::default() }, "softnet")
        };
        assert_eq!((softnet(0).severity, softnet(1).severity), (Severity::Ok, Severity::Warning));
        assert_eq!(
            softnet(1).change.as_deref(),
            Some("sysctl -w net.core.netdev_max_backlog=4000")
        );
        let errors =
            |n| check(&Facts { receive_buffer_errors: Fact::read("s", n), ..Facts::default() });
        assert_eq!((errors(0).len(), errors(3).len()), (0, 1));
    }

    #[test]
    fn descriptors_matter_by_the_hard_limit() {
        let with = |soft, hard| {
            one(
                &Facts { descriptors: Fact::read("l", (soft, hard)), ..Facts::default() },
                "descriptors",
            )
            .severity
        };
        assert_eq!(with(1024, 4096), Severity::Ok);
        assert_eq!(with(256, 1024), Severity::Warning);
        assert_eq!(with(32, 32), Severity::Error);
    }

    #[test]
    fn ports_used_few_or_in_the_range() {
        let facts = Facts {
            udp_port: Fact::read("bind", PortUse::Used),
            tcp_port: Fact::read("bind", PortUse::Free),
            ..Facts::default()
        };
        assert_eq!(one(&facts, "udp-port").severity, Severity::Info);
        assert_eq!(one(&facts, "tcp-port").severity, Severity::Ok);
        let range = |first, last| Facts {
            ephemeral_ports: Fact::read("r", (first, last)),
            ..Facts::default()
        };
        assert_eq!(one(&range(32_768, 60_999), "ephemeral-ports").severity, Severity::Ok);
        assert_eq!(one(&range(40_000, 40_999), "ephemeral-ports").severity, Severity::Warning);
        assert!(one(&range(1024, 65_535), "port-in-range").change.unwrap().ends_with("=9347"));
    }

    #[test]
    fn without_any_family_nothing_runs() {
        let no = || Fact::unreadable("open", "refused");
        let neither = Facts { ipv4: no(), ipv6: no(), ..Facts::default() };
        assert_eq!(one(&neither, "ipv4").severity, Severity::Error);
        let six = Facts { ipv4: no(), ipv6: Fact::read("open", ()), ..Facts::default() };
        assert_eq!(one(&six, "ipv4").severity, Severity::Warning);
        let four = Facts { ipv4: Fact::read("open", ()), ipv6: no(), ..Facts::default() };
        assert_eq!(
            (one(&four, "ipv4").severity, one(&four, "ipv6").severity),
            (Severity::Ok, Severity::Info)
        );
    }
}
