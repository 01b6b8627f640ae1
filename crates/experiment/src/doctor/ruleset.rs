//! Reads `nft -j list ruleset` (libnftables-json(5)): does a rule block one port?
//!
//! Rules are read, not evaluated: those of each chain at a hook in order, as far as they match the port, the protocol
//! or nothing at all. Where an address, an interface, a set or another chain decides, the answer is "may".

use serde::Deserialize;
use serde_json::Value;

/// Longest list of blocks kept.
const MAX_BLOCKS: usize = 64;

/// What a set of rules does to one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// Rules in all chains of the internet families.
    pub rules: usize,
    /// Where packets to the port are dropped.
    pub blocked: Vec<Blocked>,
}

/// A place where packets to the port are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// `udp` or `tcp`.
    pub protocol: &'static str,
    /// `input`, `output`, `prerouting`.
    pub hook: String,
    /// Family, table and chain, as nft takes them.
    pub chain: String,
    /// The rule's handle; absent: the chain's policy.
    pub handle: Option<u64>,
    /// Whether the rule names the port. Otherwise, an accepting rule has to come before it.
    pub names_port: bool,
    /// Whether it holds only for some packets, or a rule that was not followed may accept them before.
    pub conditional: bool,
}

#[derive(Deserialize)]
struct Listing {
    nftables: Vec<Object>,
}

/// An object of the listing; other kinds have neither field.
#[derive(Deserialize)]
struct Object {
    chain: Option<Chain>,
    rule: Option<Rule>,
}

#[derive(Deserialize)]
struct Chain {
    family: String,
    table: String,
    name: String,
    #[serde(rename = "type")]
    chain_type: Option<String>,
    hook: Option<String>,
    policy: Option<String>,
}

#[derive(Deserialize)]
struct Rule {
    family: String,
    table: String,
    chain: String,
    handle: u64,
    #[serde(default)]
    expr: Vec<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Accept,
    Drop,
    Elsewhere,
}

/// A rule as far as it is understood.
struct Meaning {
    udp: bool,
    tcp: bool,
    /// It names ports, and this one is among them.
    names_port: bool,
    /// It names ports without this one.
    other_port: bool,
    conditional: bool,
    verdict: Option<Verdict>,
}

impl Ruleset {
    /// Reads the listing; `port` is the one asked about.
    ///
    /// # Errors
    /// It is no JSON, or not of this form.
    pub(crate) fn parse(listing: &[u8], port: u16) -> Result<Ruleset, serde_json::Error> {
        let listing: Listing = serde_json::from_slice(listing)?;
        let is_internet = |family: &str| matches!(family, "ip" | "ip6" | "inet");
        let (mut chains, mut rules) = (Vec::new(), Vec::new());
        for object in listing.nftables {
            chains.extend(object.chain.filter(|chain| is_internet(&chain.family)));
            rules.extend(object.rule.filter(|rule| is_internet(&rule.family)));
        }
        let mut found = Ruleset { rules: rules.len(), blocked: Vec::new() };
        for chain in &chains {
            for protocol in ["udp", "tcp"] {
                if found.blocked.len() < MAX_BLOCKS {
                    found.blocked.extend(walk(chain, &rules, protocol, port));
                }
            }
        }
        Ok(found)
    }
}

/// The first place in a chain at a hook where packets of this protocol to the port are dropped.
fn walk(chain: &Chain, rules: &[Rule], protocol: &'static str, port: u16) -> Option<Blocked> {
    let hook = chain.hook.clone().filter(|_| chain.chain_type.as_deref() == Some("filter"))?;
    if !matches!(hook.as_str(), "input" | "output" | "prerouting") {
        return None;
    }
    let path = format!("{} {} {}", chain.family, chain.table, chain.name);
    let blocked = |handle, names_port, conditional| {
        let (hook, chain) = (hook.clone(), path.clone());
        Some(Blocked { protocol, hook, chain, handle, names_port, conditional })
    };
    let of_chain = |rule: &&Rule| {
        (&rule.family, &rule.table, &rule.chain) == (&chain.family, &chain.table, &chain.name)
    };
    let mut left = false;
    for rule in rules.iter().filter(of_chain) {
        let handle = Some(rule.handle);
        let rule = meaning(rule, port);
        if rule.other_port || !(if protocol == "udp" { rule.udp } else { rule.tcp }) {
            continue;
        }
        match rule.verdict {
            Some(Verdict::Accept) if !rule.conditional => return None,
            Some(Verdict::Drop) if rule.names_port => {
                return blocked(handle, true, rule.conditional || left);
            }
            Some(Verdict::Drop) if !rule.conditional => return blocked(handle, false, left),
            Some(Verdict::Accept) if rule.names_port => left = true,
            Some(Verdict::Elsewhere) => left = true,
            _ => {}
        }
    }
    if chain.policy.as_deref() == Some("drop") { blocked(None, false, left) } else { None }
}

fn meaning(rule: &Rule, port: u16) -> Meaning {
    let mut found = Meaning {
        udp: true,
        tcp: true,
        names_port: false,
        other_port: false,
        conditional: false,
        verdict: None,
    };
    for expression in &rule.expr {
        let first = expression.as_object().and_then(|object| object.iter().next());
        match first.map(|(name, value)| (name.as_str(), value)) {
            Some(("counter" | "log", _)) => {}
            Some(("match", value)) => found.restrict(value, port),
            Some(("accept", _)) => found.verdict = Some(Verdict::Accept),
            Some(("drop" | "reject", _)) => found.verdict = Some(Verdict::Drop),
            Some(("jump" | "goto" | "queue" | "vmap" | "return", _)) => {
                found.verdict = Some(Verdict::Elsewhere);
            }
            _ => found.conditional = true,
        }
    }
    found
}

impl Meaning {
    /// Adds the condition of a `match` expression.
    fn restrict(&mut self, condition: &Value, port: u16) {
        let left = &condition["left"];
        let payload = &left["payload"];
        let field = match left["meta"]["key"].as_str() {
            Some(key) => ("meta", key),
            None => (
                payload["protocol"].as_str().unwrap_or_default(),
                payload["field"].as_str().unwrap_or_default(),
            ),
        };
        let is_negated = match condition["op"].as_str() {
            Some("==" | "in") => false,
            Some("!=") => true,
            _ => return self.conditional = true,
        };
        let right = &condition["right"];
        let values = right["set"].as_array().map_or(std::slice::from_ref(right), Vec::as_slice);
        let is_one_of = |name: &str, number: u64| {
            values.iter().any(|v| v.as_str() == Some(name) || v.as_u64() == Some(number))
        };
        match field {
            // A named set, whose elements were not read.
            _ if right.as_str().is_some_and(|name| name.starts_with('@')) => {
                self.conditional = true;
            }
            (protocol @ ("udp" | "tcp" | "th"), "dport") => {
                self.udp &= protocol != "tcp";
                self.tcp &= protocol != "udp";
                if values.iter().any(|value| holds(value, port)) == is_negated {
                    self.other_port = true;
                } else {
                    self.names_port = true;
                }
            }
            ("meta", "l4proto") | ("ip", "protocol") | ("ip6", "nexthdr") => {
                self.udp &= is_one_of("udp", 17) != is_negated;
                self.tcp &= is_one_of("tcp", 6) != is_negated;
            }
            _ => self.conditional = true,
        }
    }
}

/// Whether `9347`, or a range or an element of a set, holds the port.
fn holds(value: &Value, port: u16) -> bool {
    let value = value.pointer("/elem/val").unwrap_or(value);
    let (low, high) = match value["range"].as_array().map(Vec::as_slice) {
        Some([low, high]) => (low, high),
        _ => (value, value),
    };
    let port = u64::from(port);
    low.as_u64().is_some_and(|low| low <= port) && high.as_u64().is_some_and(|high| port <= high)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// A listing of one chain at `input`, its rules numbered from 4.
    pub(in super::super) fn listing(policy: &str, rules: &[Value]) -> Vec<u8> {
        let chain = json!({ "family": "inet", "table": "f", "name": "in", "handle": 2, "type": "filter",
            "hook": "input", "prio": 0, "policy": policy });
        let mut all = vec![
            json!({ "metainfo": { "version": "1.0.6", "json_schema_version": 1 } }),
            json!({ "table": { "family": "inet", "name": "f", "handle": 1 } }),
            json!({ "set": { "family": "inet", "name": "bad", "table": "f", "type": "ipv4_addr", "elem": ["1.2.3.4"] } }),
            json!({ "chain": chain }),
        ];
        all.extend((4..).zip(rules).map(|(handle, expr)| {
            json!({ "rule": { "family": "inet", "table": "f", "chain": "in", "handle": handle, "expr": expr } })
        }));
        json!({ "nftables": all }).to_string().into_bytes()
    }

    fn field(protocol: &str, field: &str, op: &str, right: Value) -> Value {
        json!({ "match": { "op": op, "left": { "payload": { "protocol": protocol, "field": field } }, "right": right } })
    }

    /// `PROTOCOL dport PORTS`.
    pub(in super::super) fn to_port(protocol: &str, ports: Value) -> Value {
        field(protocol, "dport", "==", ports)
    }

    fn of_key(object: &str, key: &str, right: Value) -> Value {
        json!({ "match": { "op": "==", "left": { object: { "key": key } }, "right": right } })
    }

    pub(in super::super) fn drop() -> Value {
        json!({ "drop": null })
    }

    pub(in super::super) fn accept() -> Value {
        json!({ "accept": null })
    }

    fn read(policy: &str, rules: &[Value]) -> Ruleset {
        Ruleset::parse(&listing(policy, rules), 9347).unwrap()
    }

    type Block = (&'static str, Option<u64>, bool, bool);

    /// Protocol, handle, whether it names the port, whether it is conditional, of each block.
    fn blocks(policy: &str, rules: &[Value]) -> Vec<Block> {
        let found = read(policy, rules).blocked.into_iter();
        found.map(|b| (b.protocol, b.handle, b.names_port, b.conditional)).collect()
    }

    #[test]
    fn rules_that_name_the_port() {
        let one = |rule| blocks("accept", &[rule]);
        assert_eq!(
            one(json!([to_port("udp", json!(9347)), drop()])),
            [("udp", Some(4), true, false)]
        );
        let range = json!([
            to_port("tcp", json!({ "set": [22, { "range": [9000, 9400] }] })),
            { "counter": { "packets": 0, "bytes": 0 } },
            { "log": { "prefix": "drop { it" } },
            { "reject": { "type": "icmp", "expr": "port-unreachable" } },
        ]);
        assert_eq!(one(range), [("tcp", Some(4), true, false)]);
        let either = json!({ "set": [{ "range": [1, 3] }, { "elem": { "val": 9347 } }] });
        assert_eq!(one(json!([to_port("th", either), drop()])).len(), 2);
        assert_eq!(one(json!([to_port("udp", json!(9346)), drop()])), []);
        assert_eq!(
            one(json!([field("udp", "dport", "!=", json!(22)), drop()])),
            [("udp", Some(4), true, false)]
        );
        let source =
            field("ip", "saddr", "==", json!({ "prefix": { "addr": "10.0.0.0", "len": 8 } }));
        assert_eq!(
            one(json!([source, to_port("udp", json!(9347)), drop()])),
            [("udp", Some(4), true, true)]
        );
        assert_eq!(one(json!([to_port("udp", json!("@ports")), drop()])), []);
    }

    #[test]
    fn the_first_verdict_counts() {
        let (drop, accept) = (drop(), accept());
        let policy = [("udp", None, false, false), ("tcp", None, false, false)];
        assert_eq!(blocks("drop", &[]), policy);
        let udp = json!([to_port("udp", json!(9347)), accept]);
        assert_eq!(blocks("drop", &[udp]), policy[1..]);
        let established = of_key("ct", "state", json!("established"));
        let ssh = json!([to_port("tcp", json!(22)), accept]);
        assert_eq!(blocks("drop", &[json!([established, accept]), ssh]), policy);
        let later = json!([to_port("udp", json!(9347)), drop]);
        assert_eq!(blocks("drop", &[json!([accept]), later]), []);
        let protocol = of_key("meta", "l4proto", json!({ "set": ["udp", "icmp"] }));
        assert_eq!(blocks("accept", &[json!([protocol, drop])]), [("udp", Some(4), false, false)]);
        let other = field("ip", "protocol", "!=", json!("udp"));
        assert_eq!(blocks("accept", &[json!([other, drop])]), [("tcp", Some(4), false, false)]);
        let invalid = of_key("ct", "state", json!("invalid"));
        assert_eq!(blocks("accept", &[json!([invalid, drop])]), []);
        // Another chain is not followed.
        let jump = json!([{ "jump": { "target": "zones" } }]);
        assert_eq!(blocks("drop", &[jump]), policy.map(|(p, h, n, _)| (p, h, n, true)));
        let one = &read("drop", &[]).blocked[0];
        assert_eq!((one.chain.as_str(), one.hook.as_str()), ("inet f in", "input"));
    }

    #[test]
    fn other_families_and_types_do_not_count() {
        assert_eq!(read("accept", &[json!([accept()]), json!([drop()])]).rules, 2);
        let text = String::from_utf8(listing("drop", &[json!([drop()])])).unwrap();
        let bridge = text.replace("inet", "bridge");
        assert_eq!(Ruleset::parse(bridge.as_bytes(), 9347).unwrap(), Ruleset::default());
        let nat = text.replace("filter", "nat");
        assert_eq!(Ruleset::parse(nat.as_bytes(), 9347).unwrap().blocked, []);
        assert!(Ruleset::parse(b"", 1).is_err());
    }
}
