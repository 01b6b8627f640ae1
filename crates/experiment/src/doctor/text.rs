//! Parsers of small kernel texts. Malformed parts are skipped.

use super::ruleset::Ruleset;

/// Name and CPU time (clock ticks, user and kernel) of `/proc/<pid>/stat` (`proc_pid_stat(5)`).
pub(crate) fn process_times(stat: &str) -> Option<(String, u64)> {
    // The name may contain spaces and parentheses: it ends at the last one.
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1;
    // The state is field 3; utime and stime are 14 and 15.
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((name.to_owned(), user.checked_add(system)?))
}

/// Soft and hard limit of open descriptors in `/proc/<pid>/limits`; "unlimited" is the largest number.
pub(crate) fn descriptor_limits(limits: &str) -> Option<(u64, u64)> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut values = line.split_ascii_whitespace().map(|word| match word {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    });
    Some((values.next()??, values.next()??))
}

/// Names in the first column of `/proc/net/protocols`.
pub(crate) fn protocols(text: &str) -> Vec<String> {
    let rows = text.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next());
    rows.map(str::to_owned).collect()
}

/// Cores allowed by `cpu.max` of a control group (version 2): `max 100000` or `50000 100000`.
pub(crate) fn cpu_quota(cpu_max: &str) -> Option<f64> {
    let mut words = cpu_max.split_ascii_whitespace();
    let quota = words.next()?;
    let period: f64 = words.next()?.parse().ok()?;
    if quota == "max" {
        return Some(f64::INFINITY);
    }
    let quota: f64 = quota.parse().ok()?;
    (quota > 0.0 && period > 0.0).then_some(quota / period).filter(|cores| cores.is_finite())
}

/// Two numbers on a line: a range of ports.
pub(crate) fn port_range(text: &str) -> Option<(u16, u16)> {
    let mut words = text.split_ascii_whitespace();
    let range = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (range.0 <= range.1).then_some(range)
}

/// Fuzz body: no text makes the parsers panic or return more than it holds.
pub fn fuzz_doctor_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let words = text.split_ascii_whitespace().count();
    if let Some((name, _)) = process_times(&text) {
        assert!(name.len() < text.len());
    }
    let _ = descriptor_limits(&text);
    assert!(protocols(&text).len() <= words);
    assert!(cpu_quota(&text).is_none_or(|cores| cores > 0.0));
    assert!(port_range(&text).is_none_or(|(first, last)| first <= last));
    if let Ok(rules) = Ruleset::parse(data, 9347) {
        assert!(rules.rules <= data.len());
        assert!(rules.blocked.iter().all(|b| b.chain.len() <= data.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "42 (a) b (c) R 1 42 42 0 -1 4194560 1 2 3 4 70 30 5 6 20 0 1 0 100 1000 10";
    const RULES: &str = r#"{"nftables": [{"chain": {"family": "inet", "table": "f", "name": "in", "type": "filter", "hook": "input", "policy": "drop"}}, {"rule": {"family": "inet", "table": "f", "chain": "in", "handle": 4, "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": {"set": [22, {"range": [9000, 9400]}]}}}, {"drop": null}]}}]}"#;

    #[test]
    fn texts_of_the_kernel() {
        assert_eq!(process_times(STAT), Some(("a) b (c".into(), 100)));
        assert_eq!(process_times("42 (a"), None);
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 unlimited            files\n";
        assert_eq!(descriptor_limits(limits), Some((1024, u64::MAX)));
        assert_eq!(protocols("protocol size\nXDP 1 2\nUDP 3\n"), ["XDP", "UDP"]);
        assert_eq!(cpu_quota("50000 100000\n"), Some(0.5));
        assert_eq!(cpu_quota("max 100000\n"), Some(f64::INFINITY));
        assert_eq!(cpu_quota("0 0"), None);
        assert_eq!(port_range("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(port_range("5 1"), None);
    }

    proptest! {
        #[test]
        fn mutated_texts_do_no_harm(
            edits in prop::collection::vec((0usize..400, any::<u8>()), 0..12),
            cut in 0usize..400,
            which in 0usize..3,
        ) {
            let mut bytes = [STAT, RULES, "max 100000"][which].as_bytes().to_vec();
            for (at, byte) in edits {
                let n = bytes.len();
                bytes[at % n] = byte;
            }
            let n = bytes.len();
            fuzz_doctor_text(&bytes[cut % n..]);
            fuzz_doctor_text(&bytes);
        }
    }
}
