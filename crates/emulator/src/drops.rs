//! Which UDP datagrams a direction drops while a client watches: counts by flow and by pair of addresses.
//!
//! The counters of a flow include every packet that its filter matches. A client that knows the addresses of its own
//! datagrams reads here how many of them were dropped, and by what. Only dropped frames are looked into.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_impair::Verdict;
use weir_model::plan::Direction;
use weir_wire::datagram::looks_like_control;
use weir_wire::packet::{Packet, Transport, protocol};

use crate::report::{DropCounts, DropsReport, DropsRow};

/// Maximum number of address pairs of one watch and direction; later pairs are counted together.
const MAX_PAIRS: usize = 1 << 14;

fn count(counts: &mut DropCounts, verdict: Verdict) {
    match verdict {
        Verdict::Lost => counts.lost_packets += 1,
        Verdict::QueueDropped => counts.queue_dropped_packets += 1,
        _ => counts.unplanned_dropped_packets += 1,
    }
}

/// What a dropped frame was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// A UDP datagram, or the first fragment of one.
    Datagram(SocketAddr, SocketAddr),
    /// A later fragment of a UDP datagram, which names no ports.
    LaterFragment,
    /// Anything else, control datagrams of this protocol included.
    Other,
}

impl Content {
    fn of(frame: &[u8]) -> Content {
        let Ok(packet) = Packet::from_ethernet(frame) else { return Content::Other };
        match (packet.transport, packet.addresses()) {
            (Transport::Udp(udp), Some((source, destination)))
                if !looks_like_control(udp.payload()) =>
            {
                Content::Datagram(
                    SocketAddr::new(source, udp.source_port()),
                    SocketAddr::new(destination, udp.destination_port()),
                )
            }
            (Transport::LaterFragment(protocol::UDP, _), _) => Content::LaterFragment,
            _ => Content::Other,
        }
    }
}

/// Dropped datagrams of one direction since a watch started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drops {
    /// By flow number, source and destination.
    pairs: HashMap<(u32, SocketAddr, SocketAddr), DropCounts>,
    later_fragments: DropCounts,
    /// Datagrams of pairs beyond [`MAX_PAIRS`].
    uncounted: u64,
}

impl Drops {
    fn add(&mut self, flow: u32, verdict: Verdict, content: Content) {
        match content {
            Content::Datagram(source, destination) => {
                let is_full = self.pairs.len() >= MAX_PAIRS;
                let key = (flow, source, destination);
                match self.pairs.get_mut(&key) {
                    Some(counts) => count(counts, verdict),
                    None if is_full => self.uncounted += 1,
                    None => count(self.pairs.entry(key).or_default(), verdict),
                }
            }
            Content::LaterFragment => count(&mut self.later_fragments, verdict),
            Content::Other => {}
        }
    }

    /// Adds the counts of a direction to the answer; `names` are those of the flows by number.
    pub(crate) fn report(&self, direction: Direction, names: &[String], out: &mut DropsReport) {
        let (sum, own) = (&mut out.later_fragments, &self.later_fragments);
        sum.lost_packets += own.lost_packets;
        sum.queue_dropped_packets += own.queue_dropped_packets;
        sum.unplanned_dropped_packets += own.unplanned_dropped_packets;
        out.uncounted_packets += self.uncounted;
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_unstable_by_key(|(key, _)| **key);
        let rows = pairs.into_iter().map(|((flow, source, destination), counts)| DropsRow {
            direction,
            flow: names.get(*flow as usize).cloned().unwrap_or_default(),
            source: source.to_string(),
            destination: destination.to_string(),
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

    /// Whether any client watches: only then is a dropped frame looked into.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.0.is_empty()
    }

    #[cold]
    pub(crate) fn dropped(&mut self, flow: u32, verdict: Verdict, frame: &[u8]) {
        let content = Content::of(frame);
        for (_, drops) in &mut self.0 {
            drops.add(flow, verdict, content);
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
            (row.flow.clone(), row.source.clone(), row.destination.clone(), counts)
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
            drops.add(0, Verdict::Lost, Content::Datagram(from, to));
        }
        assert_eq!((drops.pairs.len(), drops.uncounted), (MAX_PAIRS, 1));
    }
}
