//! Lines about the interfaces of both ends: speed, MTU, and what their counters counted during the test; only in verbose output.

use weir_model::counted;
use weir_model::record::{Host, Interface, Record};
use weir_model::units::BitRate;

use super::Items;
use crate::style::clean;
use crate::text::bits_in_words;

/// Counters of packets, which each line has.
const PACKETS: [(&str, &str); 2] = [("rx_packets", "received"), ("tx_packets", "sent")];
/// Parts of the names of counters that count faults.
const FAULTS: [&str; 7] = ["error", "drop", "miss", "crc", "fifo", "collision", "nohandler"];

pub(super) fn interfaces(items: &mut Items, record: &Record) {
    if !items.options.verbose {
        return;
    }
    let mut label = "Interfaces";
    let servers = record.servers.iter().map(|server| (clean(&server.name), server.host.as_ref()));
    let ends = [("local", &record.local), ("remote", &record.remote)];
    let ends = ends.map(|(name, host)| (name.into(), host.as_ref()));
    for (name, host) in ends.into_iter().chain(servers) {
        for interface in host.iter().flat_map(|host: &&Host| &host.interfaces) {
            items.item(label, &format!("{name} {}", text(interface)));
            label = "";
        }
    }
}

/// `eth0: 1 Gbit/s, MTU 1500, 12000 packets received, 800 packets sent; rx_dropped 3`.
fn text(interface: &Interface) -> String {
    let grown = |key: &str| {
        let (before, after) =
            (interface.counters_before.get(key)?, interface.counters_after.get(key)?);
        Some(after.saturating_sub(*before))
    };
    let mut parts = vec![];
    if let Some(speed) = interface.speed_bits_per_second {
        parts.push(bits_in_words(BitRate(speed)));
    }
    parts.extend(interface.mtu_bytes.map(|mtu| format!("MTU {mtu}")));
    let packets = PACKETS.iter().filter_map(|(key, what)| Some((grown(key)?, what)));
    parts.extend(packets.map(|(n, what)| format!("{} {what}", counted(n, "packet"))));
    let faults = interface.counters_after.keys().filter_map(|key| {
        let count =
            grown(key).filter(|n| *n > 0 && FAULTS.iter().any(|part| key.contains(part)))?;
        Some(format!("{} {count}", clean(key)))
    });
    let faults: Vec<String> = faults.collect();
    let mut text = clean(&interface.name).into_owned();
    if !parts.is_empty() {
        text += &format!(": {}", parts.join(", "));
    }
    if !faults.is_empty() {
        text += &format!("; {}", faults.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_those_of_the_test() {
        let counters = |rx: u64, dropped: u64| {
            let all =
                [("rx_packets", rx), ("rx_dropped", dropped), ("tx_errors", 4), ("rx_bytes", rx)];
            all.map(|(name, n)| (name.to_owned(), n)).into()
        };
        let interface = Interface {
            name: "eth0".into(),
            counters_before: counters(100, 5),
            counters_after: counters(350, 8),
            ..Interface::default()
        };
        let text = text(&interface);
        assert!(text.contains("250 packets"), "{text}");
        assert!(text.contains("rx_dropped 3"), "{text}");
        assert!(!text.contains("tx_errors") && !text.contains("rx_bytes"), "{text}");
    }
}
