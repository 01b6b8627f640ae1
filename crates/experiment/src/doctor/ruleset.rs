//! Reading `nft -a list ruleset`: does any of it stand before one port?
//!
//! A reading, not an evaluation: chains at the hooks are walked in order, rules are understood when they match the
//! port, the protocol or nothing at all. What hangs on more (an address, an interface, a set, another chain) makes the
//! answer "may".

/// Longest list of blocks kept.
const MAX_BLOCKS: usize = 64;

/// What a set of rules does to one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// Rules in all chains.
    pub rules: usize,
    /// Where packets to the port end.
    pub blocked: Vec<Blocked>,
}

/// A place where packets to the port end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// `udp` or `tcp`.
    pub protocol: &'static str,
    /// `input`, `output`, `prerouting`.
    pub hook: String,
    /// Family, table and chain, as nft takes them.
    pub chain: String,
    /// The rule, or the policy, as nft prints it.
    pub rule: String,
    /// The rule's handle, when it is one that names the port; else an accepting rule has to come before it.
    pub handle: Option<u64>,
    /// Whether it holds only for some packets, or a rule that was not followed may accept before.
    pub conditional: bool,
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
    /// It names ports without this one: it says nothing about us.
    other_port: bool,
    conditional: bool,
    verdict: Option<Verdict>,
}

#[derive(Default)]
struct Chain {
    path: String,
    /// Hook and whether the policy drops; absent for chains only jumped to.
    hook: Option<(String, bool)>,
    rules: Vec<(String, Option<u64>)>,
}

impl Ruleset {
    /// Reads the text; `port` is the one asked about.
    pub fn parse(text: &str, port: u16) -> Ruleset {
        let chains = chains(text);
        let mut found =
            Ruleset { rules: chains.iter().map(|c| c.rules.len()).sum(), blocked: Vec::new() };
        for chain in &chains {
            for protocol in ["udp", "tcp"] {
                if found.blocked.len() < MAX_BLOCKS {
                    found.blocked.extend(walk(chain, protocol, port));
                }
            }
        }
        found
    }
}

/// The first place in a chain at a hook where packets of this protocol to the port end.
fn walk(chain: &Chain, protocol: &'static str, port: u16) -> Option<Blocked> {
    let (hook, policy_drops) = chain.hook.as_ref()?;
    let blocked = |rule: &str, handle, conditional| {
        let (hook, chain, rule) = (hook.clone(), chain.path.clone(), rule.to_owned());
        Some(Blocked { protocol, hook, chain, rule, handle, conditional })
    };
    let mut left = false;
    for (text, handle) in &chain.rules {
        let rule = meaning(text, port);
        if rule.other_port || !(if protocol == "udp" { rule.udp } else { rule.tcp }) {
            continue;
        }
        match rule.verdict {
            Some(Verdict::Accept) if !rule.conditional => return None,
            Some(Verdict::Drop) if rule.names_port => {
                return blocked(text, *handle, rule.conditional || left);
            }
            Some(Verdict::Drop) if !rule.conditional => return blocked(text, None, left),
            Some(Verdict::Accept) if rule.names_port => left = true,
            Some(Verdict::Elsewhere) => left = true,
            _ => {}
        }
    }
    if *policy_drops { blocked("policy drop", None, left) } else { None }
}

/// The chains of the internet families, each with its rules as printed.
fn chains(text: &str) -> Vec<Chain> {
    let mut found: Vec<Chain> = Vec::new();
    let mut table: Option<String> = None;
    // Depth of braces inside the table, and whether the block at depth 1 is a chain.
    let (mut depth, mut in_chain) = (0_usize, false);
    let mut pending = String::new();
    for line in text.lines() {
        let line = line.trim();
        let bare = without_quotes(line);
        let code = bare.split('#').next().unwrap_or("");
        let opens = code.matches('{').count();
        let closes = code.matches('}').count();
        if table.is_none() {
            if let Some(rest) = code.strip_prefix("table ") {
                let path: Vec<_> = rest.split_ascii_whitespace().take(2).collect();
                table = Some(path.join(" "));
                (depth, in_chain) = (0, false);
            }
            continue;
        }
        if depth == 0 {
            if closes > opens {
                table = None;
            } else if opens > closes {
                let name = code
                    .strip_prefix("chain ")
                    .and_then(|rest| rest.split_ascii_whitespace().next());
                let path = table.as_deref().unwrap_or("");
                let family = path.split(' ').next().unwrap_or("");
                in_chain = name.is_some() && matches!(family, "ip" | "ip6" | "inet");
                if let (true, Some(name)) = (in_chain, name) {
                    found.push(Chain { path: format!("{path} {name}"), ..Chain::default() });
                }
                depth = opens - closes;
            }
            continue;
        }
        // A closing brace alone ends the chain; others belong to sets inside a rule, which may span lines.
        depth = (depth + opens).saturating_sub(closes);
        if depth == 0 || !in_chain {
            pending.clear();
            continue;
        }
        if !pending.is_empty() {
            pending.push(' ');
        }
        pending.push_str(line);
        if depth > 1 {
            continue;
        }
        let rule = std::mem::take(&mut pending);
        if let Some(chain) = found.last_mut() {
            take_line(chain, &rule);
        }
    }
    found
}

/// A line inside a chain: its hook, or a rule.
fn take_line(chain: &mut Chain, line: &str) {
    if line.is_empty() || line.starts_with("comment ") || line.starts_with('#') {
        return;
    }
    if let Some(rest) = line.strip_prefix("type ") {
        let words: Vec<_> = rest.split([' ', ';']).filter(|w| !w.is_empty()).collect();
        let after = |key| words.iter().position(|w| *w == key).and_then(|i| words.get(i + 1));
        if let Some(hook @ ("input" | "output" | "prerouting")) = after("hook").copied()
            && words.first() == Some(&"filter")
        {
            chain.hook = Some((hook.to_owned(), after("policy") == Some(&"drop")));
        }
        return;
    }
    let (rule, handle) = match line.rsplit_once(" # handle ") {
        Some((rule, handle)) => (rule, handle.trim().parse().ok()),
        None => (line, None),
    };
    chain.rules.push((rule.to_owned(), handle));
}

/// The line with quoted strings emptied: they may hold any word or brace.
fn without_quotes(line: &str) -> String {
    let parts = line.split('"').enumerate().map(|(i, part)| if i % 2 == 0 { part } else { "" });
    parts.collect::<Vec<_>>().join("\"")
}

fn meaning(rule: &str, port: u16) -> Meaning {
    let text = without_quotes(rule).replace('{', " { ").replace('}', " } ").replace(',', " ");
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let mut found = Meaning {
        udp: true,
        tcp: true,
        names_port: false,
        other_port: false,
        conditional: false,
        verdict: None,
    };
    let mut i = 0;
    while let Some(&word) = words.get(i) {
        i += 1;
        match (word, words.get(i).copied()) {
            ("counter", Some("packets")) => i += 4,
            ("counter", _) => {}
            ("comment", _) => i += 1,
            ("log", _) => {
                while matches!(
                    words.get(i),
                    Some(&("prefix" | "level" | "group" | "snaplen" | "flags"))
                ) {
                    i += 2;
                }
            }
            ("udp" | "tcp" | "th", Some("dport")) => {
                found.udp &= word != "tcp";
                found.tcp &= word != "udp";
                i += 1;
                let negated = words.get(i) == Some(&"!=");
                i += usize::from(negated);
                let (values, used) = values(&words[i.min(words.len())..]);
                i += used;
                if values.iter().any(|v| v.starts_with('@')) {
                    found.conditional = true;
                } else if values.iter().any(|v| holds(v, port)) != negated {
                    found.names_port = true;
                } else {
                    found.other_port = true;
                }
            }
            ("meta", Some("l4proto")) | ("ip", Some("protocol")) | ("ip6", Some("nexthdr")) => {
                let (values, used) = values(&words[(i + 1).min(words.len())..]);
                i += 1 + used;
                found.udp &= values.iter().any(|v| matches!(*v, "udp" | "17"));
                found.tcp &= values.iter().any(|v| matches!(*v, "tcp" | "6"));
            }
            ("accept", _) => found.verdict = Some(Verdict::Accept),
            ("drop", _) => found.verdict = Some(Verdict::Drop),
            ("reject", _) => {
                found.verdict = Some(Verdict::Drop);
                break;
            }
            ("jump" | "goto" | "queue" | "vmap" | "return", _) => {
                found.verdict = Some(Verdict::Elsewhere);
                break;
            }
            _ => found.conditional = true,
        }
    }
    found
}

/// The values at the front: one, or those in braces; and how many words they took.
fn values<'a>(words: &[&'a str]) -> (Vec<&'a str>, usize) {
    match words.first() {
        Some(&"{") => {
            let end = words.iter().position(|w| *w == "}").unwrap_or(words.len());
            (words[1..end].to_vec(), (end + 1).min(words.len()))
        }
        Some(one) => (vec![one], 1),
        None => (Vec::new(), 0),
    }
}

/// Whether `9347` or `9000-9999` holds the port.
fn holds(value: &str, port: u16) -> bool {
    let (low, high) = value.split_once('-').unwrap_or((value, value));
    matches!((low.parse::<u16>(), high.parse::<u16>()), (Ok(low), Ok(high)) if low <= port && port <= high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(policy: &str, rules: &str) -> Ruleset {
        let text = format!(
            "table inet filter {{ # handle 1\n\tset bad {{\n\t\ttype ipv4_addr\n\t\telements = {{ 1.2.3.4,\n\t\t\t5.6.7.8 }}\n\t}}\n\
             \tchain input {{ # handle 1\n\t\ttype filter hook input priority filter; policy {policy};\n{rules}\n\t}}\n}}\n"
        );
        Ruleset::parse(&text, 9347)
    }

    /// Protocol, handle, conditional of each block.
    fn blocks(policy: &str, rules: &str) -> Vec<(&'static str, Option<u64>, bool)> {
        chain(policy, rules).blocked.iter().map(|b| (b.protocol, b.handle, b.conditional)).collect()
    }

    #[test]
    fn rules_that_name_the_port() {
        assert_eq!(blocks("accept", "udp dport 9347 drop # handle 4"), [("udp", Some(4), false)]);
        let range = "tcp dport { 22, 9000-9400 } counter packets 0 bytes 0 log prefix \"drop { it\" reject with icmp type port-unreachable # handle 5";
        assert_eq!(blocks("accept", range), [("tcp", Some(5), false)]);
        assert_eq!(blocks("accept", "th dport { 1-3,\n 9347 } drop # handle 6").len(), 2);
        assert_eq!(blocks("accept", "udp dport 9346 drop # handle 4"), []);
        assert_eq!(blocks("accept", "udp dport != 22 drop # handle 4"), [("udp", Some(4), false)]);
        let conditional = "ip saddr 10.0.0.0/8 udp dport 9347 drop # handle 4";
        assert_eq!(blocks("accept", conditional), [("udp", Some(4), true)]);
    }

    #[test]
    fn the_first_word_counts() {
        assert_eq!(blocks("drop", ""), [("udp", None, false), ("tcp", None, false)]);
        assert_eq!(blocks("drop", "udp dport 9347 accept"), [("tcp", None, false)]);
        assert_eq!(blocks("drop", "ct state established accept\ntcp dport 22 accept").len(), 2);
        assert_eq!(blocks("drop", "accept\nudp dport 9347 drop"), []);
        assert_eq!(blocks("accept", "meta l4proto udp drop"), [("udp", None, false)]);
        assert_eq!(blocks("accept", "ct state invalid drop"), []);
        // What another chain does is not followed.
        assert_eq!(blocks("drop", "jump zones"), [("udp", None, true), ("tcp", None, true)]);
        let one = &chain("drop", "").blocked[0];
        assert_eq!((one.chain.as_str(), one.hook.as_str()), ("inet filter input", "input"));
    }

    #[test]
    fn counts_rules_and_passes_over_what_is_not_ours() {
        assert_eq!(chain("accept", "accept\ncomment \"x\"\ndrop").rules, 2);
        let bridge = "table bridge f {\n chain input {\n type filter hook input priority 0; policy drop;\n }\n}\n";
        assert_eq!(Ruleset::parse(bridge, 9347), Ruleset::default());
        let nat = "table ip n {\n chain prerouting {\n type nat hook prerouting priority 0; policy drop;\n }\n}\n";
        assert_eq!(Ruleset::parse(nat, 9347).blocked, []);
        assert_eq!(Ruleset::parse("", 1), Ruleset::default());
    }
}
