//! Packet filters and connection tracking.

use super::{Facts, Finding, Group, PORT, Severity, judge};

const GROUP: Group = Group::Firewall;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = rules(facts);
    found.extend(older_tables(facts));
    found.extend(conntrack(facts));
    found
}

fn rules(facts: &Facts) -> Vec<Finding> {
    judge(&facts.ruleset, GROUP, "firewall", "firewall rules", |rules, from| {
        let mut found: Vec<Finding> = rules
            .blocked
            .iter()
            .map(|block| {
                let name = block.protocol.to_uppercase();
                let may = if block.conditional { "may be" } else { "is" };
                let side = if block.hook == "output" {
                    "to other hosts' servers"
                } else {
                    "to a server here"
                };
                let effect = match block.protocol {
                    "udp" => format!("UDP tests {side} fail with \"UDP {PORT} is blocked\""),
                    _ => format!(
                        "no test {side} can start: its control connection is refused or times out"
                    ),
                };
                let rule = match block.handle {
                    Some(handle) => format!("rule with handle {handle}"),
                    None => "policy drop".to_owned(),
                };
                let change = match block.handle.filter(|_| block.names_port) {
                    Some(handle) => format!("nft delete rule {} handle {handle}", block.chain),
                    None => format!(
                        "nft insert rule {} {} dport {PORT} accept",
                        block.chain, block.protocol
                    ),
                };
                Finding::new(
                    GROUP,
                    Severity::Warning,
                    format!("firewall-{}-{}", block.protocol, block.hook),
                    format!("{name} {PORT} {may} blocked at {}", block.hook),
                    format!("{from}: chain {}: {rule}", block.chain),
                    effect,
                )
                .change(change)
            })
            .collect();
        if found.is_empty() {
            let (severity, title, effect) = if rules.rules == 0 {
                (
                    Severity::Ok,
                    "no firewall rules".to_owned(),
                    "packets are not filtered on this host",
                )
            } else {
                (
                    Severity::Info,
                    format!("{} firewall rules, none seen to block port {PORT}", rules.rules),
                    "each packet is checked against them: a little CPU per packet; rules on addresses and interfaces were not evaluated",
                )
            };
            found.push(Finding::new(
                GROUP,
                severity,
                "firewall",
                title,
                format!("{from}: {} rules", rules.rules),
                effect,
            ));
        }
        found
    })
}

fn older_tables(facts: &Facts) -> Vec<Finding> {
    // The file is absent if the older iptables was never loaded.
    let Some(tables) = facts.iptables.value().filter(|t| !t.is_empty()) else { return Vec::new() };
    vec![Finding::new(
        GROUP,
        Severity::Info,
        "iptables",
        "older iptables tables are loaded",
        format!("/proc/net/ip_tables_names: {}", tables.join(", ")),
        format!(
            "their rules were not read: iptables-legacy-save shows whether one blocks port {PORT}"
        ),
    )]
}

fn conntrack(facts: &Facts) -> Vec<Finding> {
    judge(&facts.conntrack, GROUP, "conntrack", "connection tracking", |&(count, most), from| {
        let evidence = format!("{from}: {count} of {most}");
        // In integers, so that four fifths are exact.
        if most > 0 && u128::from(count) * 5 >= u128::from(most) * 4 {
            let effect = "when the table is full, this host drops packets of new connections";
            let finding = Finding::new(
                GROUP,
                Severity::Warning,
                "conntrack",
                "connection tracking is nearly full",
                evidence,
                effect,
            );
            return vec![finding.change(format!(
                "sysctl -w net.netfilter.nf_conntrack_max={}",
                most.saturating_mul(4)
            ))];
        }
        if count == 0 {
            return Vec::new();
        }
        let effect = "each packet is looked up in the table, and each new flow needs an entry: a little CPU per packet, fewer connections per second";
        vec![
            Finding::new(GROUP, Severity::Info, "conntrack", "connections are tracked", evidence, effect).change(format!(
                "nft 'add table inet weir; add chain inet weir raw {{ type filter hook prerouting priority raw; }}; add rule inet weir raw udp dport {PORT} notrack'"
            )),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::Fact;
    use super::super::super::ruleset::Ruleset;
    use super::super::super::ruleset::tests::{accept, drop, listing, to_port};
    use super::*;
    use serde_json::{Value, json};

    fn with(rules: &[Value], policy: &str) -> Vec<Finding> {
        let ruleset = Ruleset::parse(&listing(policy, rules), PORT).unwrap();
        check(&Facts { ruleset: Fact::read("nft", ruleset), ..Facts::default() })
    }

    #[test]
    fn a_block_has_the_command_that_lifts_it() {
        let found = with(&[json!([to_port("udp", json!(9347)), drop()])], "accept");
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].severity, found[0].id.as_str()),
            (Severity::Warning, "firewall-udp-input")
        );
        assert_eq!(found[0].change.as_deref(), Some("nft delete rule inet f in handle 4"));
        assert!(found[0].evidence.ends_with("handle 4"));
        let insert = Some("nft insert rule inet f in udp dport 9347 accept");
        let policy = with(&[json!([to_port("tcp", json!(9347)), accept()])], "drop");
        assert_eq!(policy[0].change.as_deref(), insert);
        // A rule that drops more than this port stays.
        let all = with(&[json!([drop()])], "accept");
        assert_eq!(all[0].change.as_deref(), insert);
        assert!(all[0].evidence.ends_with("handle 4"));
        let jump = json!([{ "jump": { "target": "x" } }]);
        assert!(with(&[jump], "drop")[0].title.contains("may be"));
    }

    #[test]
    fn rules_that_do_not_block() {
        assert_eq!(with(&[], "accept")[0].severity, Severity::Ok);
        let other = with(&[json!([to_port("tcp", json!(22)), drop()])], "accept");
        assert_eq!(
            (other[0].severity, other[0].evidence.as_str()),
            (Severity::Info, "nft: 1 rules")
        );
    }

    #[test]
    fn conntrack_from_empty_to_full() {
        let of =
            |count| check(&Facts { conntrack: Fact::read("c", (count, 1000)), ..Facts::default() });
        assert_eq!(of(0), []);
        assert_eq!(of(799)[0].severity, Severity::Info);
        assert_eq!(of(800)[0].severity, Severity::Warning);
        assert_eq!(
            of(800)[0].change.as_deref(),
            Some("sysctl -w net.netfilter.nf_conntrack_max=4000")
        );
        let old =
            check(&Facts { iptables: Fact::read("i", vec!["filter".into()]), ..Facts::default() });
        assert!(old[0].evidence.ends_with("filter"));
    }
}
