//! Why the sockets of a receiving host dropped datagrams.
//!
//! A socket's own drop count (SK_MEMINFO) includes both datagrams that its full buffer refused and datagrams with a
//! wrong checksum. The counters of the network namespace (`/proc/net/snmp`, `snmp6`) distinguish the two, but count
//! every program's traffic.

use weir_model::plan::{Direction, Family};
use weir_model::record::{Flow, Host, Record};

/// Datagrams that the UDP of one host dropped during a run, for one direction of the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SocketDrops {
    /// Drops of the sockets of the direction's flows (of all that the namespace received), for any reason.
    dropped: u64,
    /// RcvbufErrors + MemErrors of the namespace: no room in a buffer.
    no_room: u64,
    /// InCsumErrors of the namespace.
    checksum: u64,
    /// How many of these flows had drops.
    flows: usize,
    /// The test omitted its start, whose drops can't be subtracted.
    is_cut: bool,
}

/// A part of the drops, with whether it is a count of the flow's own or an upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) packets: u64,
    pub(crate) exact: bool,
}

/// The drops at both receiving ends, by direction.
pub(crate) fn socket_drops(record: &Record) -> impl Fn(Direction) -> SocketDrops + use<> {
    let [forward, reverse] =
        [Direction::Forward, Direction::Reverse].map(|d| SocketDrops::of(record, d));
    move |direction| if direction == Direction::Reverse { reverse } else { forward }
}

impl SocketDrops {
    fn of(record: &Record, direction: Direction) -> SocketDrops {
        let is_shared = record.is_one_namespace();
        let receives =
            |f: &&Flow| f.transport.datagrams() && (is_shared || f.direction == direction);
        let flows = || record.flows.iter().filter(receives);
        let dropped = || {
            flows().filter_map(|f| f.receiver.as_ref()?.socket_dropped_packets).filter(|d| *d > 0)
        };
        let host = match direction {
            Direction::Forward => &record.remote,
            Direction::Reverse => &record.local,
        };
        let family = flows().next().and_then(|f| f.family);
        let counter = |name: &str| count(host.as_ref(), family, name);
        SocketDrops {
            dropped: dropped().fold(0, u64::saturating_add),
            no_room: counter("receive_buffer_errors").saturating_add(counter("memory_errors")),
            checksum: counter("checksum_errors"),
            flows: dropped().count(),
            is_cut: record.omitted_seconds.is_some(),
        }
    }

    /// Whether the namespace's counters count only these sockets' drops.
    fn is_own(&self) -> bool {
        !self.is_cut && Some(self.dropped) == self.no_room.checked_add(self.checksum)
    }

    /// Of `dropped` datagrams of one flow's socket, those refused by its full buffer.
    pub(crate) fn overflow(&self, dropped: u64) -> Part {
        if self.dropped > self.no_room.saturating_add(self.checksum) {
            // The namespace's counters are unavailable: they explain less than the socket itself counted.
            return Part { packets: dropped, exact: false };
        }
        // With drops of several flows it is unknown which had the damaged datagrams.
        let is_known = self.checksum == 0 || self.no_room == 0 || self.flows == 1;
        Part { packets: dropped.min(self.no_room), exact: self.is_own() && is_known }
    }

    /// Datagrams with a wrong checksum, of all flows together.
    pub(crate) fn damaged(&self) -> Part {
        Part { packets: self.checksum, exact: self.is_own() }
    }
}

fn count(host: Option<&Host>, family: Option<Family>, name: &str) -> u64 {
    let udp = if family == Some(Family::Ipv6) { "udp6" } else { "udp" };
    host.and_then(|h| h.counters.get(&format!("{udp}_{name}"))).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use weir_model::plan::TransportName;
    use weir_model::record::Receiver;

    use super::*;

    /// One received flow for each of `dropped`, and the changes of the receiving namespace's counters.
    fn drops(family: Family, dropped: &[u64], counters: &[(&str, u64)]) -> SocketDrops {
        let flow = |dropped: &u64| Flow {
            transport: TransportName::Udp,
            family: Some(family),
            receiver: Some(Receiver {
                socket_dropped_packets: Some(*dropped),
                ..Receiver::default()
            }),
            ..Flow::default()
        };
        let counters = counters.iter().map(|(name, n)| ((*name).to_string(), *n)).collect();
        let record = Record {
            flows: dropped.iter().map(flow).collect(),
            remote: Some(Host { counters, ..Host::default() }),
            ..Record::default()
        };
        SocketDrops::of(&record, Direction::Forward)
    }

    fn parts(d: &SocketDrops, dropped: u64) -> [(u64, bool); 2] {
        [d.overflow(dropped), d.damaged()].map(|part| (part.packets, part.exact))
    }

    #[test]
    fn a_full_buffer_and_a_wrong_checksum_are_distinguished() {
        use Family::{Ipv4, Ipv6};
        let (full, no_memory) = (("udp_receive_buffer_errors", 7), ("udp_memory_errors", 2));
        let wrong = ("udp_checksum_errors", 5);
        assert_eq!(parts(&drops(Ipv4, &[9], &[full, no_memory]), 9), [(9, true), (0, true)]);
        assert_eq!(parts(&drops(Ipv4, &[5], &[wrong]), 5), [(0, true), (5, true)]);
        assert_eq!(parts(&drops(Ipv4, &[12], &[full, wrong]), 12), [(7, true), (5, true)]);
        let (full6, wrong6) = (("udp6_receive_buffer_errors", 7), ("udp6_checksum_errors", 5));
        assert_eq!(parts(&drops(Ipv6, &[12], &[full6, wrong6]), 12), [(7, true), (5, true)]);
        // The other family's counters are other programs' traffic.
        assert_eq!(parts(&drops(Ipv6, &[7], &[full6, wrong]), 7), [(7, true), (0, true)]);
    }

    #[test]
    fn traffic_of_other_programs_leaves_bounds() {
        let (full, wrong) = (("udp_receive_buffer_errors", 50), ("udp_checksum_errors", 5));
        let one =
            |dropped, counters: &[_]| parts(&drops(Family::Ipv4, &[dropped], counters), dropped);
        assert_eq!(one(12, &[full, wrong]), [(12, false), (5, false)]);
        assert_eq!(one(12, &[full]), [(12, false), (0, false)]);
        // No buffer was full: the drops are damage, and so are datagrams that reached no socket.
        assert_eq!(one(3, &[wrong]), [(0, false), (5, false)]);
        // Counters that explain less than the socket's own are unavailable.
        assert_eq!(one(12, &[]), [(12, false), (0, false)]);
    }

    #[test]
    fn of_several_flows_the_sum_is_exact_and_each_flow_if_the_cause_is_one() {
        let (full, wrong) = (("udp_receive_buffer_errors", 7), ("udp_checksum_errors", 5));
        let both = drops(Family::Ipv4, &[9, 3, 0], &[full, wrong]);
        assert_eq!(
            [parts(&both, 9), parts(&both, 3)],
            [[(7, false), (5, true)], [(3, false), (5, true)]]
        );
        let one = drops(Family::Ipv4, &[4, 3], &[full]);
        assert_eq!(
            [one.overflow(4), one.overflow(3)].map(|p| (p.packets, p.exact)),
            [(4, true), (3, true)]
        );
    }
}
