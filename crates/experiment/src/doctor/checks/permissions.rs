//! Permissions of this process.

use weir_net::capability::UserNamespaces;

use super::{Fact, Facts, Finding, Group, Severity, judge};

const GROUP: Group = Group::Permissions;

/// The capabilities that let Weir run without root.
const SETCAP: &str =
    "sudo setcap cap_net_admin,cap_net_raw,cap_bpf,cap_sys_nice+ep \"$(command -v weir)\"";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = capabilities(facts);
    found.extend(fifo(facts));
    found.extend(namespaces(facts));
    found
}

fn capabilities(facts: &Facts) -> Vec<Finding> {
    judge(&facts.capabilities, GROUP, "capabilities", "capabilities", |have, from| {
        let list = [
            (
                "CAP_NET_ADMIN",
                have.net_admin,
                "socket buffers beyond the limits, interface settings, the emulator's interfaces",
            ),
            ("CAP_NET_RAW", have.net_raw, "packet sockets: the emulator's links, captures"),
            ("CAP_BPF", have.bpf, "AF_XDP and XDP programs"),
            ("CAP_SYS_NICE", have.sys_nice, "real-time scheduling of paced senders"),
            ("CAP_SYS_ADMIN", have.sys_admin, "labs without a user namespace"),
        ];
        let names = |want: bool| {
            let names: Vec<_> = list.iter().filter(|c| c.1 == want).map(|c| c.0).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let evidence =
            format!("{from}: root {}, has {}", if have.root { "yes" } else { "no" }, names(true));
        if list.iter().all(|c| c.1) {
            let effect = "nothing is refused for a missing capability";
            return vec![Finding::new(
                GROUP,
                Severity::Ok,
                "capabilities",
                "all capabilities that Weir uses",
                evidence,
                effect,
            )];
        }
        let lost: Vec<_> =
            list.iter().filter(|c| !c.1).map(|c| format!("{} ({})", c.2, c.0)).collect();
        let title = format!("without {}", names(false));
        let effect = format!("tests run; not available: {}", lost.join("; "));
        // User namespaces grant what sys_admin alone would.
        vec![
            Finding::new(GROUP, Severity::Info, "capabilities", title, evidence, effect)
                .change(SETCAP),
        ]
    })
}

fn fifo(facts: &Facts) -> Vec<Finding> {
    let finding = |severity, title: &str, evidence: String, effect: &str| {
        Finding::new(GROUP, severity, "real-time-scheduling", title, evidence, effect)
    };
    match &facts.fifo {
        Fact::NotAsked => Vec::new(),
        Fact::Read { from, .. } => vec![finding(
            Severity::Ok,
            "real-time scheduling is granted",
            format!("{from}: granted"),
            "paced senders need not wait for other processes",
        )],
        Fact::Unreadable { from, why } => {
            let may = facts.capabilities.value().is_some_and(|c| c.sys_nice);
            let refused = finding(
                Severity::Info,
                "real-time scheduling is refused",
                format!("{from}: {why}"),
                "paced senders run at normal priority: on a busy machine single packets leave milliseconds late (counted as late or missed slots)",
            );
            // With the capability, the control group has no real-time budget.
            vec![if may {
                refused.change("sysctl -w kernel.sched_rt_runtime_us=-1")
            } else {
                refused.change(SETCAP)
            }]
        }
    }
}

fn namespaces(facts: &Facts) -> Vec<Finding> {
    let id = "namespaces";
    match &facts.namespaces {
        Fact::NotAsked => Vec::new(),
        Fact::Read { from, value: by_user } => {
            let (title, effect) = if *by_user {
                (
                    "labs can be made, in a user namespace",
                    "weir lab and weir demo work; BPF, AF_XDP and real-time scheduling are not permitted inside",
                )
            } else {
                ("labs can be made", "weir lab and weir demo work")
            };
            vec![Finding::new(GROUP, Severity::Ok, id, title, format!("{from}: worked"), effect)]
        }
        Fact::Unreadable { from, why } => {
            let effect = "weir lab, weir demo and the two-host part of weir calibrate are not available; tests between real hosts are";
            let mut evidence = format!("{from}: {why}");
            let mut change = None;
            if let Some(UserNamespaces::Forbidden(setting)) = facts.user_namespaces.value() {
                evidence = format!("{evidence}; {setting}");
                change = match setting.split_once(" = ") {
                    Some(("user.max_user_namespaces", _)) => {
                        Some("sysctl -w user.max_user_namespaces=10000".to_owned())
                    }
                    Some((name, "0")) => Some(format!("sysctl -w {name}=1")),
                    Some((name, _)) => Some(format!("sysctl -w {name}=0")),
                    None => None,
                };
            }
            let finding =
                Finding::new(GROUP, Severity::Warning, id, "labs can't be made", evidence, effect);
            vec![Finding { change, ..finding }]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_net::capability::Capabilities;

    #[test]
    fn missing_capabilities_are_named_with_what_they_cost() {
        let have = Capabilities { net_raw: true, ..Capabilities::default() };
        let some = check(&Facts { capabilities: Fact::read("status", have), ..Facts::default() });
        assert_eq!(some[0].severity, Severity::Info);
        assert!(some[0].title.contains("CAP_NET_ADMIN") && !some[0].title.contains("CAP_NET_RAW"));
        assert!(some[0].effect.contains("AF_XDP") && some[0].change.is_some());
        let all = Capabilities {
            root: true,
            net_admin: true,
            net_raw: true,
            bpf: true,
            sys_nice: true,
            sys_admin: true,
            ..Capabilities::default()
        };
        let all = check(&Facts { capabilities: Fact::read("status", all), ..Facts::default() });
        assert_eq!((all[0].severity, &all[0].change), (Severity::Ok, &None));
    }

    #[test]
    fn refused_scheduling_is_changed_where_it_is_refused() {
        let with = |sys_nice| {
            let capabilities =
                Fact::read("status", Capabilities { sys_nice, ..Capabilities::default() });
            let facts = Facts {
                capabilities,
                fifo: Fact::unreadable("sched", "denied"),
                ..Facts::default()
            };
            check(&facts)
                .into_iter()
                .find(|f| f.id == "real-time-scheduling")
                .unwrap()
                .change
                .unwrap()
        };
        assert!(with(true).contains("sched_rt_runtime_us") && with(false).contains("setcap"));
    }

    #[test]
    fn a_forbidding_setting_is_turned() {
        let change = |setting: &str| {
            let facts = Facts {
                namespaces: Fact::unreadable("made", "Operation not permitted"),
                user_namespaces: Fact::read("sys", UserNamespaces::Forbidden(setting.into())),
                ..Facts::default()
            };
            let found = check(&facts).remove(0);
            assert_eq!(found.severity, Severity::Warning);
            assert!(found.evidence.contains(setting));
            found.change.unwrap()
        };
        assert_eq!(
            change("kernel.unprivileged_userns_clone = 0"),
            "sysctl -w kernel.unprivileged_userns_clone=1"
        );
        let restricted = "kernel.apparmor_restrict_unprivileged_userns = 1";
        assert_eq!(change(restricted), "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
        assert!(change("user.max_user_namespaces = 0").ends_with("=10000"));
        let by_user = check(&Facts { namespaces: Fact::read("made", true), ..Facts::default() });
        assert!(by_user[0].title.contains("user namespace"));
    }
}
