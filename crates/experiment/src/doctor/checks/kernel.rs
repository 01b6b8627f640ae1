//! Build options of the kernel.

use super::{Fact, Facts, Finding, Group, Severity, judge};

const GROUP: Group = Group::Kernel;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = segmentation(facts);
    found.extend(gro(facts));
    found.extend(protocols(facts));
    found
}

fn segmentation(facts: &Facts) -> Vec<Finding> {
    judge(&facts.gso_segments, GROUP, "udp-gso", "UDP segmentation", |&segments, from| {
        let evidence = format!("{from}: {segments} segments in one send");
        vec![if segments > 1 {
            let effect = "coalesced sending works: ten times the packets per second or more on a virtual link";
            Finding::new(GROUP, Severity::Ok, "udp-gso", "UDP_SEGMENT works", evidence, effect)
        } else {
            let effect = "each datagram needs a system call: rates are per-packet (UDP_SEGMENT needs Linux 4.18)";
            Finding::new(GROUP, Severity::Warning, "udp-gso", "no UDP_SEGMENT", evidence, effect)
        }]
    })
}

fn gro(facts: &Facts) -> Vec<Finding> {
    match &facts.udp_gro {
        Fact::NotAsked => Vec::new(),
        Fact::Read { from, .. } => vec![Finding::new(
            GROUP,
            Severity::Ok,
            "udp-gro",
            "UDP_GRO works",
            format!("{from}: accepted"),
            "coalesced receiving works",
        )],
        Fact::Unreadable { from, why } => vec![Finding::new(
            GROUP,
            Severity::Warning,
            "udp-gro",
            "no UDP_GRO",
            format!("{from}: {why}"),
            "each datagram is received separately: the receiver limits coalesced rates (UDP_GRO needs Linux 5.0)",
        )],
    }
}

fn protocols(facts: &Facts) -> Vec<Finding> {
    judge(&facts.protocols, GROUP, "protocols", "protocols of this kernel", |names, from| {
        let has = |name: &str| names.iter().any(|n| n == name);
        let bpf = facts.capabilities.value().is_none_or(|c| c.bpf);
        let mut found = Vec::new();
        let xdp = format!("{from}: XDP {}", if has("XDP") { "present" } else { "absent" });
        found.push(match (has("XDP"), bpf) {
            (true, true) => Finding::new(
                GROUP,
                Severity::Ok,
                "af-xdp",
                "AF_XDP is available",
                xdp,
                "the emulator can use its fastest link, if the driver supports it",
            ),
            (true, false) => Finding::new(
                GROUP,
                Severity::Info,
                "af-xdp",
                "AF_XDP is available, but BPF is not permitted",
                xdp,
                "the emulator's links fall back to AF_PACKET",
            ),
            (false, _) => Finding::new(
                GROUP,
                Severity::Info,
                "af-xdp",
                "no AF_XDP",
                xdp,
                "the emulator's links fall back to AF_PACKET",
            ),
        });
        let packet = has("PACKET");
        let evidence = format!("{from}: PACKET {}", if packet { "present" } else { "absent" });
        let effect = if packet {
            "captures and the emulator's links work"
        } else {
            "no captures, no emulator; tests run"
        };
        let severity = if packet { Severity::Ok } else { Severity::Warning };
        let title = if packet { "packet sockets are available" } else { "no packet sockets" };
        found.push(Finding::new(GROUP, severity, "af-packet", title, evidence, effect));
        let on = facts.mptcp.value().copied().unwrap_or(has("MPTCP"));
        let evidence = format!(
            "{from}: MPTCP {}; net.mptcp.enabled: {on}",
            if has("MPTCP") { "present" } else { "absent" }
        );
        found.push(match (has("MPTCP"), on) {
            (true, true) => Finding::new(
                GROUP,
                Severity::Ok,
                "mptcp",
                "MPTCP is on",
                evidence,
                "tests over MPTCP work",
            ),
            (true, false) => Finding::new(
                GROUP,
                Severity::Info,
                "mptcp",
                "MPTCP is off",
                evidence,
                "no tests over MPTCP; nothing else is affected",
            )
            .change("sysctl -w net.mptcp.enabled=1"),
            (false, _) => Finding::new(
                GROUP,
                Severity::Info,
                "mptcp",
                "no MPTCP",
                evidence,
                "no tests over MPTCP; nothing else is affected",
            ),
        });
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_net::capability::Capabilities;

    fn one(facts: &Facts, id: &str) -> Finding {
        check(facts).into_iter().find(|f| f.id == id).unwrap()
    }

    #[test]
    fn offloads_of_the_socket_layer() {
        let gso = |n| {
            one(&Facts { gso_segments: Fact::read("u", n), ..Facts::default() }, "udp-gso").severity
        };
        assert_eq!((gso(128), gso(1)), (Severity::Ok, Severity::Warning));
        let without = Facts {
            udp_gro: Fact::unreadable("set", "Protocol not available"),
            ..Facts::default()
        };
        assert_eq!(one(&without, "udp-gro").severity, Severity::Warning);
    }

    #[test]
    fn protocols_present_absent_and_switched_off() {
        let with = |names: &[&str], bpf, mptcp| Facts {
            protocols: Fact::read("p", names.iter().map(|n| (*n).to_owned()).collect()),
            capabilities: Fact::read("c", Capabilities { bpf, ..Capabilities::default() }),
            mptcp: Fact::read("m", mptcp),
            ..Facts::default()
        };
        let full = with(&["XDP", "PACKET", "MPTCP"], true, true);
        assert!(check(&full).iter().all(|f| f.severity == Severity::Ok));
        assert_eq!(one(&with(&["XDP"], false, true), "af-xdp").severity, Severity::Info);
        assert_eq!(one(&with(&["XDP"], true, true), "af-packet").severity, Severity::Warning);
        let off = one(&with(&["MPTCP"], true, false), "mptcp");
        assert_eq!(off.change.as_deref(), Some("sysctl -w net.mptcp.enabled=1"));
        assert_eq!(one(&with(&[], true, false), "mptcp").change, None);
    }
}
