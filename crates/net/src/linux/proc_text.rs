//! Parsers of the text files under `/proc`. Malformed lines are skipped.

use std::collections::BTreeMap;

use crate::counters::{CpuTimes, CpuUsage, Softnet};

/// `softnet_stat`: a line per CPU, hexadecimal columns whose number grew over time.
pub(crate) fn parse_softnet(text: &str) -> Vec<Softnet> {
    let rows =
        text.lines().filter(|line| !line.trim().is_empty()).enumerate().map(|(row, line)| {
            let columns: Vec<u32> = line
                .split_ascii_whitespace()
                .take(32)
                .map_while(|word| u32::from_str_radix(word, 16).ok())
                .collect();
            let at = |i: usize| columns.get(i).copied().unwrap_or(0);
            Softnet {
                cpu: columns.get(12).copied().unwrap_or(u32::try_from(row).unwrap_or(u32::MAX)),
                processed: at(0),
                dropped: at(1),
                time_squeeze: at(2),
                received_rps: at(9),
                flow_limit: at(10),
            }
        });
    rows.collect()
}

/// `snmp` and `netstat`: pairs of lines `Group: names…` and `Group: values…`.
pub(crate) fn parse_snmp(text: &str) -> BTreeMap<String, i64> {
    let mut values = BTreeMap::new();
    let mut lines = text.lines();
    while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
        let (Some((group, names)), Some((same, numbers))) =
            (names.split_once(':'), numbers.split_once(':'))
        else {
            continue;
        };
        if group != same {
            continue;
        }
        for (name, number) in names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace()) {
            // Unsigned 64-bit counters are wrapped into i64; differences come out right.
            let number = number.parse::<i64>().or_else(|_| number.parse::<u64>().map(|n| n as i64));
            if let Ok(number) = number {
                values.insert(format!("{group}.{name}"), number);
            }
        }
    }
    values
}

/// `snmp6`: a line per counter, `Udp6InErrors 0`.
pub(crate) fn parse_snmp6(text: &str) -> BTreeMap<String, i64> {
    let mut values = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if let (Some(name), Some(number)) = (words.next(), words.next())
            && let Ok(number) = number.parse::<u64>()
            && let Some(group) =
                ["Ip6", "Icmp6", "Udp6", "UdpLite6"].into_iter().find(|g| name.starts_with(g))
        {
            values.insert(format!("{group}.{}", &name[group.len()..]), number as i64);
        }
    }
    values
}

/// `stat`: CPU lines, in clock ticks.
pub(crate) fn parse_stat(text: &str, tick_ns: u64) -> Option<CpuUsage> {
    let mut total = None;
    let mut cores = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("cpu") else { continue };
        let mut words = rest.split(' ');
        let which = words.next().unwrap_or("");
        let mut columns = words.filter(|w| !w.is_empty()).map(|w| w.parse::<u64>().unwrap_or(0));
        let mut next = || columns.next().unwrap_or(0).saturating_mul(tick_ns);
        let times = CpuTimes {
            user_ns: next(),
            nice_ns: next(),
            system_ns: next(),
            idle_ns: next(),
            iowait_ns: next(),
            irq_ns: next(),
            softirq_ns: next(),
            steal_ns: next(),
        };
        if which.is_empty() {
            total = Some(times);
        } else if let Ok(core) = which.parse() {
            cores.push((core, times));
        }
    }
    Some(CpuUsage { total: total?, cores })
}

/// Fuzz body: no text makes the parsers panic, and none yields more than it has lines or words.
pub fn fuzz_proc_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = text.lines().count();
    let words = text.split_ascii_whitespace().count();
    assert!(parse_softnet(&text).len() <= lines);
    assert!(parse_snmp(&text).len() <= words);
    assert!(parse_snmp6(&text).len() <= lines);
    if let Some(usage) = parse_stat(&text, 10_000_000) {
        assert!(usage.cores.len() < lines);
        assert!(usage.total.busy_ns() <= usage.total.total_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softnet_of_old_and_new_kernels() {
        let new = "0000000a 00000001 00000002 0 0 0 0 0 0 00000003 00000004 0 00000007 0 0\n";
        let expected = Softnet {
            cpu: 7,
            processed: 10,
            dropped: 1,
            time_squeeze: 2,
            received_rps: 3,
            flow_limit: 4,
        };
        assert_eq!(parse_softnet(new), [expected]);
        let old = "0000000a 00000001 00000002 0 0 0 0 0 0\n0000000b 0 0\n";
        assert_eq!(parse_softnet(old)[1], Softnet { cpu: 1, processed: 11, ..Softnet::default() });
    }

    #[test]
    fn snmp_pairs_names_with_values() {
        let text = "Tcp: RtoAlgorithm MaxConn RetransSegs\nTcp: 1 -1 55\nUdp: InErrors RcvbufErrors\nUdp: 3 4\n";
        let values = parse_snmp(text);
        assert_eq!(values["Tcp.MaxConn"], -1);
        assert_eq!(values["Tcp.RetransSegs"], 55);
        assert_eq!(values["Udp.RcvbufErrors"], 4);
        assert_eq!(values.len(), 5);
        assert!(parse_snmp("Tcp: A\nUdp: 1\n").is_empty());
        assert_eq!(
            parse_snmp6("Udp6RcvbufErrors   \t9\nUdpLite6InErrors 2\n")["Udp6.RcvbufErrors"],
            9
        );
    }

    #[test]
    fn stat_columns_become_ns() {
        let text = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 0 0 4\ncpu11 1 1\nintr 5\n";
        let usage = parse_stat(text, 10_000_000).unwrap();
        assert_eq!(usage.total.steal_ns, 80_000_000);
        assert_eq!(usage.total.busy_ns(), 270_000_000);
        assert_eq!(usage.total.total_ns(), 360_000_000);
        assert_eq!(usage.cores.iter().map(|c| c.0).collect::<Vec<_>>(), [0, 11]);
        assert_eq!(parse_stat("intr 1\n", 1), None);
    }
}
