//! Which UDP datagrams a direction drops or damages while a client watches: counts by flow and by pair of addresses.
//!
//! The counters of a flow include every packet that its filter matches. A client that knows the addresses of its own
//! datagrams reads here how many of them were lost, and by what. Only dropped and changed frames are looked into.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_impair::{Edit, Verdict};
use weir_model::plan::Direction;
use weir_wire::datagram::looks_like_control;
use weir_wire::packet::{Network, Packet, Transport, protocol};

use crate::report::{DropCounts, DropsReport, DropsRow};

/// Maximum number of address pairs of one watch and direction; later pairs are counted together.
const MAX_PAIRS: usize = 1 << 14;

/// Why a datagram is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Dropped(Verdict),
    Damaged,
}

fn count(counts: &mut DropCounts, cause: Cause) {
    match cause {
        Cause::Dropped(Verdict::Lost) => counts.lost_packets += 1,
        Cause::Dropped(Verdict::QueueDropped) => counts.queue_dropped_packets += 1,
        Cause::Dropped(_) => counts.unplanned_dropped_packets += 1,
        Cause::Damaged => counts.damaged_packets += 1,
    }
}

/// The type of a dropped or changed frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A UDP datagram, or the first fragment of one.
    Datagram(SocketAddr, SocketAddr),
    /// A later fragment of a UDP datagram, which names no ports.
    LaterFragment,
    /// A control datagram of the native protocol.
    Control,
    /// Anything else.
    Other,
}

impl Content {
    fn of(frame: &[u8]) -> Content {
        let Ok(packet) = Packet::from_ethernet(frame) else { return Content::Other };
        match (packet.transport, packet.addresses()) {
            (Transport::Udp(udp), _) if looks_like_control(udp.payload()) => Content::Control,
            (Transport::Udp(udp), Some((source, destination))) => Content::Datagram(
                SocketAddr::new(source, udp.source_port()),
                SocketAddr::new(destination, udp.destination_port()),
            ),
            (Transport::LaterFragment(protocol::UDP, _), _) => Content::LaterFragment,
            _ => Content::Other,
        }
    }
}

/// Whether a receiver drops a frame for its checksums. `None` for a fragment of UDP, which can't be checked alone.
fn is_refused(frame: &[u8]) -> Option<bool> {
    let Ok(packet) = Packet::from_ethernet(frame) else { return Some(true) };
    let is_header_right = match &packet.network {
        Network::Ipv4(ip) => ip.header_checksum_ok(),
        Network::Ipv6(_) => true,
        Network::Arp(_) | Network::Other(..) => false,
    };
    let is_open = match &packet.transport {
        Transport::Udp(udp) => packet.fragment().is_some() && udp.checksum() != 0,
        Transport::LaterFragment(..) => true,
        _ => false,
    };
    match is_header_right {
        false => Some(true),
        true if is_open => None,
        true => Some(packet.transport_checksum_ok() == Some(false)),
    }
}

/// Dropped and damaged datagrams of one direction since a watch started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drops {
    /// By flow number, source and destination.
    pairs: HashMap<(u32, SocketAddr, SocketAddr), DropCounts>,
    later_fragments: DropCounts,
    /// Dropped datagrams of pairs beyond [`MAX_PAIRS`]; damaged ones are not counted there.
    uncounted: u64,
    damaged_control: u64,
}

impl Drops {
    fn add(&mut self, flow: u32, cause: Cause, content: Content) {
        match content {
            Content::Datagram(source, destination) => {
                let is_full = self.pairs.len() >= MAX_PAIRS;
                let key = (flow, source, destination);
                match self.pairs.get_mut(&key) {
                    Some(counts) => count(counts, cause),
                    None if is_full => self.uncounted += u64::from(cause != Cause::Damaged),
                    None => count(self.pairs.entry(key).or_default(), cause),
                }
            }
            Content::LaterFragment => count(&mut self.later_fragments, cause),
            Content::Control => self.damaged_control += u64::from(cause == Cause::Damaged),
            Content::Other => {}
        }
    }

    /// Adds the counts of a direction to the answer; `names` are those of the flows by number.
    pub(crate) fn report(&self, direction: Direction, names: &[String], out: &mut DropsReport) {
        let (sum, own) = (&mut out.later_fragments, &self.later_fragments);
        sum.lost_packets += own.lost_packets;
        sum.queue_dropped_packets += own.queue_dropped_packets;
        sum.unplanned_dropped_packets += own.unplanned_dropped_packets;
        sum.damaged_packets += own.damaged_packets;
        out.damaged_control_packets[usize::from(direction == Direction::Reverse)] +=
            self.damaged_control;
        out.uncounted_packets += self.uncounted;
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_unstable_by_key(|(key, _)| **key);
        let rows = pairs.into_iter().map(|((flow, source, destination), counts)| DropsRow {
            direction,
            flow: names.get(*flow as usize).cloned().unwrap_or_default(),
            source: *source,
            destination: *destination,
            packets: *counts,
        });
        out.rows.extend(rows);
    }
}

/// The watches of one direction.
#[derive(Debug, Default)]
pub(crate) struct Watches(Vec<(u64, Drops)>);

impl Watches {
    pub(crate) fn start(&mut self, id: u64) {
        self.0.push((id, Drops::default()));
    }

    pub(crate) fn stop(&mut self, id: u64) {
        self.0.retain(|(own, _)| *own != id);
    }

    pub(crate) fn drops(&self, id: u64) -> Option<Drops> {
        self.0.iter().find(|(own, _)| *own == id).map(|(_, drops)| drops.clone())
    }

    /// Whether any client watches: only then are dropped and changed frames looked into.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.0.is_empty()
    }

    #[cold]
    pub(crate) fn dropped(&mut self, flow: u32, verdict: Verdict, frame: &[u8]) {
        self.add(flow, Cause::Dropped(verdict), Content::of(frame));
    }

    /// What a frame that a content law is about to change counts as: `None` if receivers still accept it, or did not
    /// before.
    #[cold]
    pub(crate) fn before(edit: &Edit, frame: &[u8]) -> Option<Content> {
        let may_count = !edit.repairs_checksums() && is_refused(frame) != Some(true);
        may_count.then(|| Content::of(frame))
    }

    /// Counts a changed frame that no receiver accepts; `before` is its type before.
    #[cold]
    pub(crate) fn changed(&mut self, flow: u32, before: Content, frame: &[u8]) {
        if is_refused(frame) != Some(false) {
            self.add(flow, Cause::Damaged, before);
        }
    }

    fn add(&mut self, flow: u32, cause: Cause, content: Content) {
        for (_, drops) in &mut self.0 {
            drops.add(flow, cause, content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::datagram::{LEN, MAGIC};

    /// A UDP datagram over IPv4 between 198.18.0.1 and .2, with these ports and this payload.
    fn frame(source: u16, payload: &[u8], offset: u16) -> Vec<u8> {
        let mut out = vec![0u8; 12];
        out.extend([0x08, 0x00, 0x45, 0]);
        out.extend((28 + payload.len() as u16).to_be_bytes());
        out.extend([0, 1]);
        out.extend((offset / 8).to_be_bytes());
        out.extend([64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        out.extend(source.to_be_bytes());
        out.extend(9347u16.to_be_bytes());
        out.extend((8 + payload.len() as u16).to_be_bytes());
        out.extend([0, 0]);
        out.extend(payload);
        out
    }

    fn report(watches: &Watches, id: u64) -> DropsReport {
        let mut out = DropsReport::default();
        let names = ["other".to_owned(), "voice".to_owned()];
        watches.drops(id).unwrap().report(Direction::Forward, &names, &mut out);
        out
    }

    #[test]
    fn datagrams_are_counted_by_flow_and_addresses_since_the_watch_started() {
        let mut watches = Watches::default();
        assert!(!watches.is_active());
        watches.start(1);
        watches.dropped(0, Verdict::Lost, &frame(7, &[0; 40], 0));
        watches.start(2);
        watches.dropped(0, Verdict::Lost, &frame(7, &[0; 40], 0));
        watches.dropped(1, Verdict::QueueDropped, &frame(8, &[1], 0));
        watches.dropped(1, Verdict::Unplanned, &frame(8, &[], 0));
        let first = report(&watches, 1);
        let row = |report: &DropsReport, i: usize| {
            let row = &report.rows[i];
            let of = row.packets;
            let counts = [of.lost_packets, of.queue_dropped_packets, of.unplanned_dropped_packets];
            (row.flow.clone(), row.source.to_string(), row.destination.to_string(), counts)
        };
        let to = "198.18.0.2:9347".to_owned();
        assert_eq!(row(&first, 0), ("other".into(), "198.18.0.1:7".into(), to.clone(), [2, 0, 0]));
        assert_eq!(row(&first, 1), ("voice".into(), "198.18.0.1:8".into(), to, [0, 1, 1]));
        assert_eq!(row(&report(&watches, 2), 0).3, [1, 0, 0]);
        watches.stop(1);
        assert!(watches.drops(1).is_none() && watches.is_active());
    }

    #[test]
    fn control_datagrams_and_other_protocols_are_no_datagrams_of_a_flow() {
        let mut watches = Watches::default();
        watches.start(1);
        let mut control = [0u8; LEN];
        control[..8].copy_from_slice(&MAGIC.to_be_bytes());
        watches.dropped(0, Verdict::Lost, &frame(7, &control, 0));
        watches.dropped(0, Verdict::Lost, &[0xff; 60]);
        let mut tcp = frame(7, &[0; 40], 0);
        tcp[23] = 6;
        watches.dropped(0, Verdict::Lost, &tcp);
        assert_eq!(report(&watches, 1), DropsReport::default());
        watches.dropped(0, Verdict::Lost, &frame(7, &[0; 40], 1480));
        let later_fragments = DropCounts { lost_packets: 1, ..DropCounts::default() };
        assert_eq!(report(&watches, 1), DropsReport { later_fragments, ..Default::default() });
    }

    #[test]
    fn pairs_beyond_the_bound_are_counted_together() {
        let mut drops = Drops::default();
        let to: SocketAddr = "198.18.0.2:9347".parse().unwrap();
        for n in 0..=MAX_PAIRS as u32 {
            let from = SocketAddr::new(std::net::Ipv4Addr::from(n).into(), 7);
            drops.add(0, Cause::Dropped(Verdict::Lost), Content::Datagram(from, to));
        }
        assert_eq!((drops.pairs.len(), drops.uncounted), (MAX_PAIRS, 1));
    }
}
