//! What a reflector answers: the reply to a test packet, and its number.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_wire::header::stamp::{
    BASE_BYTES, ERROR_ESTIMATE, EXTRA_PADDING, Reply, TLV_BYTES, UNRECOGNIZED, ntp,
};

/// Seconds from the epoch of NTP, 1900, to that of Unix (RFC 5905, figure 4).
const NTP_TO_UNIX_SECONDS: u64 = 2_208_988_800;
/// TLV flag of a length that is invalid.
const MALFORMED: u8 = 0x40;

/// Facts of a test packet that its reply states.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    /// When it arrived, by the realtime clock, ns.
    pub(super) at_ns: u64,
    /// Its TTL or hop limit; 0: unknown.
    pub(super) ttl: u8,
}

/// The session sender identifier of a test packet (RFC 8972, section 3); `None`: it is too short for a test packet.
pub(super) fn sender_id(packet: &[u8]) -> Option<u16> {
    let head = packet.first_chunk::<BASE_BYTES>()?;
    Some(u16::from_be_bytes([head[14], head[15]]))
}

/// Writes the reply to a test packet, as long as that, into `reply`, which is empty; returns whether there is one. `number`: the
/// reflector's; `None`: it has the number of the packet, as of a reflector without sessions. `now_ns`: when the reply leaves, by
/// the realtime clock. `has_tlvs`: what follows the packet are TLVs, not padding.
pub(super) fn reflect(
    packet: &[u8],
    number: Option<u32>,
    arrived: Arrived,
    now_ns: u64,
    has_tlvs: bool,
    reply: &mut Vec<u8>,
) -> bool {
    let Some((head, rest)) = packet.split_first_chunk::<BASE_BYTES>() else { return false };
    let realtime = |ns: u64| ntp(ns).wrapping_add(NTP_TO_UNIX_SECONDS << 32).to_be_bytes();
    match number {
        Some(number) => reply.extend_from_slice(&number.to_be_bytes()),
        None => reply.extend_from_slice(&head[..4]),
    }
    reply.extend_from_slice(&realtime(now_ns));
    reply.extend_from_slice(&ERROR_ESTIMATE);
    reply.extend_from_slice(&head[14..16]);
    reply.extend_from_slice(&realtime(arrived.at_ns));
    // The packet's number, time and error estimate.
    reply.extend_from_slice(&head[..14]);
    reply.extend_from_slice(&[0, 0, arrived.ttl, 0, 0, 0]);
    reply.extend_from_slice(rest);
    if has_tlvs {
        mark(&mut reply[BASE_BYTES..]);
    }
    true
}

/// Sets the flags of TLVs (RFC 8972, section 4): of types other than padding, and of one that is longer than the packet.
fn mark(mut tlvs: &mut [u8]) {
    while let Some((header, rest)) = tlvs.split_first_chunk_mut::<TLV_BYTES>() {
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let unknown = if header[1] == EXTRA_PADDING { 0 } else { UNRECOGNIZED };
        if length > rest.len() {
            header[0] = unknown | MALFORMED;
            return;
        }
        header[0] = unknown;
        tlvs = &mut rest[length..];
    }
}

/// Sessions with a number of their own: beyond them, replies have the numbers of their packets.
const MAX_SESSIONS: usize = 10_000;
/// A session is over when nothing has arrived for this long, ns.
const SESSION_NS: u64 = 60_000_000_000;
/// How often sessions that are over are looked for while there is no room, ns.
const LOOK_NS: u64 = 1_000_000_000;

/// The numbers of replies in the sessions of a stateful reflector (RFC 8762, section 4).
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// By source and sender identifier: the number of the next reply, and when the last packet arrived, ns.
    numbers: HashMap<(SocketAddr, u16), (u32, u64)>,
    looked_ns: Option<u64>,
}

impl Sessions {
    /// The number of the reply to a packet that arrived at `now_ns`; `None`: there is no room for its session.
    pub(super) fn number(&mut self, from: SocketAddr, id: u16, now_ns: u64) -> Option<u32> {
        let is_over = |last_ns: u64| now_ns.saturating_sub(last_ns) > SESSION_NS;
        let known = self.numbers.contains_key(&(from, id));
        if !known && self.numbers.len() >= MAX_SESSIONS {
            if self.looked_ns.is_some_and(|at| now_ns.saturating_sub(at) < LOOK_NS) {
                return None;
            }
            self.looked_ns = Some(now_ns);
            self.numbers.retain(|_, (_, last_ns)| !is_over(*last_ns));
            if self.numbers.len() >= MAX_SESSIONS {
                return None;
            }
        }
        let (next, last_ns) = self.numbers.entry((from, id)).or_insert((0, now_ns));
        if is_over(*last_ns) {
            *next = 0;
        }
        *last_ns = now_ns;
        let number = *next;
        *next = next.wrapping_add(1);
        Some(number)
    }
}

/// Fuzz body: any packet has a reply of its length, or none, and the reply answers that packet.
pub fn fuzz_stamp(data: &[u8]) {
    let Some((&selector, packet)) = data.split_first() else { return };
    let number = (selector & 1 != 0).then_some(u32::from(selector));
    let arrived = Arrived { at_ns: 1_700_000_000_000_000_000, ttl: selector };
    let mut reply = vec![];
    let now_ns = arrived.at_ns + u64::from(selector);
    let is_answered = reflect(packet, number, arrived, now_ns, selector & 2 != 0, &mut reply);
    assert_eq!(is_answered, sender_id(packet).is_some());
    let _ = Reply::decode(packet);
    if !is_answered {
        assert!(reply.is_empty());
        return;
    }
    assert_eq!(reply.len(), packet.len());
    let read = Reply::decode(&reply);
    assert!(read.is_some_and(|read| read.sequence.to_be_bytes() == packet[..4]));
    assert!(read.is_some_and(|read| read.dwell_ns == u64::from(selector)));
    // Only the flags of TLVs change behind the base packet.
    let changed = reply[BASE_BYTES..].iter().zip(&packet[BASE_BYTES..]).filter(|(a, b)| a != b);
    assert!(changed.count() <= (packet.len() - BASE_BYTES) / TLV_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replied(packet: &[u8], number: Option<u32>, has_tlvs: bool) -> Vec<u8> {
        let arrived = Arrived { at_ns: 1_000_000_000, ttl: 63 };
        let mut reply = vec![];
        assert!(reflect(packet, number, arrived, 1_500_000_000, has_tlvs, &mut reply));
        reply
    }

    #[test]
    fn a_reply_is_that_of_rfc_8762() {
        let mut packet = [0; 44];
        for (i, byte) in packet[..16].iter_mut().enumerate() {
            *byte = i as u8 + 1;
        }
        let reply = replied(&packet, Some(7), true);
        let mut expected = vec![0, 0, 0, 7];
        // 1970-01-01 00:00:01.5.
        expected.extend([0x83, 0xaa, 0x7e, 0x81, 0x80, 0, 0, 0, 12, 1, 15, 16]);
        expected.extend([0x83, 0xaa, 0x7e, 0x81, 0, 0, 0, 0]);
        expected.extend(1..=14);
        expected.extend([0, 0, 63, 0, 0, 0]);
        assert_eq!(reply, expected);
        // Without a session the number is that of the packet.
        assert_eq!(replied(&packet, None, true)[..4], [1, 2, 3, 4]);
    }

    #[test]
    fn tlvs_come_back_with_their_flags() {
        let mut packet = vec![0; 44];
        // Extra padding; location, which is not known; one that is longer than the packet.
        packet.extend([0xff, 1, 0, 2, 8, 9, 0x80, 2, 0, 1, 5, 0x80, 1, 0, 9, 1]);
        let reply = replied(&packet, None, true);
        assert_eq!(reply[44..], [0, 1, 0, 2, 8, 9, 0x80, 2, 0, 1, 5, 0x40, 1, 0, 9, 1]);
        // TWAMP's padding is not changed.
        assert_eq!(replied(&packet, None, false)[44..], packet[44..]);
    }

    #[test]
    fn short_packets_have_no_reply() {
        for length in 0..44 {
            let mut reply = vec![];
            let arrived = Arrived { at_ns: 1, ttl: 1 };
            assert!(!reflect(&vec![0; length], None, arrived, 1, true, &mut reply));
            assert!(reply.is_empty());
        }
    }

    #[test]
    fn sessions_count_their_replies_within_bounds() {
        let mut sessions = Sessions::default();
        let from = |port| SocketAddr::from(([192, 0, 2, 1], port));
        for number in 0..3 {
            assert_eq!(sessions.number(from(1), 0, 5), Some(number));
            assert_eq!(sessions.number(from(1), 9, 5), Some(number));
        }
        let start = 1_000_000_000;
        for port in 0..MAX_SESSIONS as u16 - 2 {
            assert_eq!(sessions.number(from(port + 2), 0, start), Some(0));
        }
        assert_eq!(sessions.number(from(60_000), 0, start), None);
        assert_eq!(sessions.number(from(1), 0, start), Some(3));
        // Two sessions have ended: one had no packet since, and the others had some.
        let later = start + SESSION_NS;
        assert_eq!(sessions.number(from(60_000), 0, later), Some(0));
        assert_eq!(sessions.number(from(60_001), 0, later + 1), None);
        // A session that was silent begins again.
        assert_eq!(sessions.number(from(1), 0, later + 1), Some(0));
    }

    #[test]
    fn mutated_packets_are_answered_or_ignored() {
        let mut packet = vec![3; 45];
        packet.extend([0x80, 1, 0, 2, 8, 9, 0x80, 2, 0, 1, 5]);
        weir_laws::mutation::replay(&[&packet[..], &[2; 45]], 20_000, fuzz_stamp);
    }
}
