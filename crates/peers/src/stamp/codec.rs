//! What a reflector answers: the reply to a test packet, and its number.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_wire::header::stamp::{
    AUTHENTICATED, ERROR_ESTIMATE, EXTRA_PADDING, Layout, OPEN, Reply, TLV_BYTES, UNRECOGNIZED, ntp,
};
use weir_wire::hmac::{HMAC_BYTES, HmacKey};

/// Seconds from the epoch of NTP, 1900, to that of Unix (RFC 5905, figure 4).
const NTP_TO_UNIX_SECONDS: u64 = 2_208_988_800;
/// TLV flag of a length that is invalid.
const MALFORMED: u8 = 0x40;
/// TLV flag of TLVs whose HMAC does not match.
const NOT_INTACT: u8 = 0x20;
/// Type of the TLV with an HMAC over the TLVs before it.
const HMAC: u8 = 8;

/// Facts of a test packet that its reply states.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    /// When it arrived, by the realtime clock, ns.
    pub(super) at_ns: u64,
    /// Its TTL or hop limit; 0: unknown.
    pub(super) ttl: u8,
}

/// How a reflector reads test packets.
#[derive(Debug, Clone)]
pub(super) struct Mode {
    layout: Layout,
    /// The key of authenticated mode.
    key: Option<HmacKey>,
    /// What follows a packet are TLVs, not padding.
    has_tlvs: bool,
}

impl Mode {
    /// With a key: authenticated mode. `has_tlvs`: what follows a packet are TLVs, not padding.
    pub(super) fn new(key: Option<HmacKey>, has_tlvs: bool) -> Mode {
        let layout = if key.is_some() { AUTHENTICATED } else { OPEN };
        Mode { layout, key, has_tlvs }
    }

    /// The session sender identifier of a test packet (RFC 8972, section 3); `None`: it is too short for a test packet, or its HMAC
    /// does not match.
    pub(super) fn sender_id(&self, packet: &[u8]) -> Option<u16> {
        let head = packet.get(..self.layout.bytes)?;
        if let Some((key, at)) = self.key.as_ref().zip(self.layout.hmac) {
            let hmac = head[at..].first_chunk()?;
            if !key.verifies(&[&head[..at]], hmac) {
                return None;
            }
        }
        let at = self.layout.time + 10;
        Some(u16::from_be_bytes([head[at], head[at + 1]]))
    }

    /// Writes the reply to a test packet with a [`sender_id`](Self::sender_id), as long as that, into `reply`, which is empty. `number`:
    /// the reflector's; `None`: it has the number of the packet, as of a reflector without sessions. `now_ns`: when the reply
    /// leaves, by the realtime clock.
    pub(super) fn reflect(
        &self,
        packet: &[u8],
        number: Option<u32>,
        arrived: Arrived,
        now_ns: u64,
        reply: &mut Vec<u8>,
    ) {
        let realtime = |ns: u64| ntp(ns).wrapping_add(NTP_TO_UNIX_SECONDS << 32).to_be_bytes();
        let Layout { bytes, time, received, sequence, sent, ttl, hmac } = self.layout;
        reply.extend_from_slice(packet);
        let mut put = |at: usize, field: &[u8]| reply[at..at + field.len()].copy_from_slice(field);
        put(4, &[0; AUTHENTICATED.bytes][..bytes - 4]);
        if let Some(number) = number {
            put(0, &number.to_be_bytes());
        }
        put(time, &realtime(now_ns));
        put(time + 8, &ERROR_ESTIMATE);
        put(time + 10, &packet[time + 10..time + 12]);
        put(received, &realtime(arrived.at_ns));
        put(sequence, &packet[..4]);
        // The packet's time and error estimate.
        put(sent, &packet[time..time + 10]);
        put(ttl, &[arrived.ttl]);
        if let Some((key, at)) = self.key.as_ref().zip(hmac) {
            let hmac = key.of(&[&reply[..at]]);
            reply[at..bytes].copy_from_slice(&hmac);
        }
        if self.has_tlvs {
            let (head, tlvs) = reply.split_at_mut(bytes);
            match &self.key {
                Some(key) => seal(key, [packet, head].map(|base| &base[..4]), tlvs),
                None => {
                    mark(tlvs, false);
                }
            }
        }
    }
}

/// What an HMAC says about the TLVs of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seal {
    /// There are none but padding, which needs no HMAC.
    Needless,
    /// It begins here, behind all others but padding.
    At(usize),
    /// It is missing, or not behind the others.
    Missing,
}

/// Sets the flags of TLVs (RFC 8972, section 4): of unknown types, and of one that is longer than the packet or than its type. An
/// HMAC is known if `has_key`.
fn mark(tlvs: &mut [u8], has_key: bool) -> Seal {
    let (mut at, mut seal) = (0, Seal::Needless);
    while let Some((header, rest)) =
        tlvs.get_mut(at..).and_then(|rest| rest.split_first_chunk_mut::<TLV_BYTES>())
    {
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let (is_padding, is_hmac) = (header[1] == EXTRA_PADDING, has_key && header[1] == HMAC);
        header[0] = if is_padding || is_hmac { 0 } else { UNRECOGNIZED };
        if length > rest.len() || (is_hmac && length != HMAC_BYTES) {
            header[0] |= MALFORMED;
        }
        if !is_padding {
            let is_seal = is_hmac && header[0] == 0 && !matches!(seal, Seal::At(_));
            seal = if is_seal { Seal::At(at) } else { Seal::Missing };
        }
        at += TLV_BYTES + length;
    }
    seal
}

/// Checks the HMAC of TLVs and writes that of the reply (RFC 8972, section 4.8). It covers the number of its packet and the TLVs
/// before it. `asked` and `replied` are those numbers.
fn seal(key: &HmacKey, [asked, replied]: [&[u8]; 2], tlvs: &mut [u8]) {
    let before = tlvs.to_vec();
    let at = match mark(tlvs, true) {
        Seal::Needless => return,
        Seal::At(at) => Some(at),
        Seal::Missing => None,
    };
    if let Some(at) = at
        && let value = at + TLV_BYTES
        && let Some(hmac) = before[value..].first_chunk()
        && key.verifies(&[asked, &before[..at]], hmac)
    {
        let hmac = key.of(&[replied, &tlvs[..at]]);
        tlvs[value..value + HMAC_BYTES].copy_from_slice(&hmac);
        return;
    }
    let mut at = 0;
    while let Some(header) = tlvs.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<TLV_BYTES>())
    {
        header[0] |= NOT_INTACT;
        at += TLV_BYTES + usize::from(u16::from_be_bytes([header[2], header[3]]));
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
    let key = (selector & 4 != 0).then(|| HmacKey::new(b"key"));
    let mut packet = packet.to_vec();
    if let (Some(key), true, Some(at)) = (&key, selector & 8 != 0, AUTHENTICATED.hmac)
        && packet.len() >= AUTHENTICATED.bytes
    {
        let hmac = key.of(&[&packet[..at]]);
        packet[at..at + HMAC_BYTES].copy_from_slice(&hmac);
    }
    let packet = &packet[..];
    let mode = Mode::new(key, selector & 2 != 0);
    let bytes = mode.layout.bytes;
    let number = (selector & 1 != 0).then_some(u32::from(selector));
    let arrived = Arrived { at_ns: 1_700_000_000_000_000_000, ttl: selector };
    let mut reply = vec![];
    let now_ns = arrived.at_ns + u64::from(selector);
    let _ = Reply::decode(mode.layout, packet);
    if mode.sender_id(packet).is_none() {
        return;
    }
    mode.reflect(packet, number, arrived, now_ns, &mut reply);
    assert_eq!(reply.len(), packet.len());
    assert!(mode.sender_id(&reply).is_some());
    let read = Reply::decode(mode.layout, &reply);
    assert!(read.is_some_and(|read| read.sequence.to_be_bytes() == packet[..4]));
    assert!(read.is_some_and(|read| read.dwell_ns == u64::from(selector)));
    // Only the flags of TLVs, and the HMAC of one, change behind the base packet.
    let changed = reply[bytes..].iter().zip(&packet[bytes..]).filter(|(a, b)| a != b);
    assert!(changed.count() <= (packet.len() - bytes) / TLV_BYTES + HMAC_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replied(packet: &[u8], number: Option<u32>, has_tlvs: bool) -> Vec<u8> {
        let arrived = Arrived { at_ns: 1_000_000_000, ttl: 63 };
        reply_of(&Mode::new(None, has_tlvs), packet, number, arrived)
    }

    fn reply_of(mode: &Mode, packet: &[u8], number: Option<u32>, arrived: Arrived) -> Vec<u8> {
        let mut reply = vec![];
        assert!(mode.sender_id(packet).is_some());
        mode.reflect(packet, number, arrived, 1_500_000_000, &mut reply);
        reply
    }

    #[test]
    fn an_authenticated_reply_is_that_of_rfc_8762() {
        let key = HmacKey::new(b"both ends know it");
        let mode = Mode::new(Some(key.clone()), true);
        let mut packet = vec![0; 112];
        packet[..4].copy_from_slice(&[1, 2, 3, 4]);
        packet[16..28].copy_from_slice(&[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        // Without its HMAC, or with that of another key, it is no test packet.
        assert_eq!(mode.sender_id(&packet), None);
        let other = HmacKey::new(b"another").of(&[&packet[..96]]);
        packet[96..].copy_from_slice(&other);
        assert_eq!(mode.sender_id(&packet), None);
        let hmac = key.of(&[&packet[..96]]);
        packet[96..].copy_from_slice(&hmac);
        assert_eq!(mode.sender_id(&packet), Some(0x0f10));
        assert_eq!(mode.sender_id(&packet[..111]), None);

        // A location, which is not known, and an HMAC over it.
        packet.extend([0x80, 2, 0, 1, 5, 0x80, 8, 0, 16]);
        let hmac = key.of(&[&[1, 2, 3, 4], &packet[112..117]]);
        packet.extend(hmac);
        let arrived = Arrived { at_ns: 1_000_000_000, ttl: 63 };
        let reply = reply_of(&mode, &packet, Some(7), arrived);
        let mut expected = vec![0; 96];
        expected[3] = 7;
        expected[16..28].copy_from_slice(&[0x83, 0xaa, 0x7e, 0x81, 0x80, 0, 0, 0, 12, 1, 15, 16]);
        expected[32..40].copy_from_slice(&[0x83, 0xaa, 0x7e, 0x81, 0, 0, 0, 0]);
        expected[48..52].copy_from_slice(&[1, 2, 3, 4]);
        expected[64..74].copy_from_slice(&[5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
        expected[80] = 63;
        expected.extend(key.of(&[&expected]));
        expected.extend([0x80, 2, 0, 1, 5]);
        let hmac = key.of(&[&[0, 0, 0, 7], &expected[112..]]);
        expected.extend([0, 8, 0, 16]);
        expected.extend(hmac);
        assert_eq!(reply, expected);

        // A TLV behind the HMAC, and no HMAC at all: neither is covered.
        let mut behind = packet.clone();
        behind.extend([0x80, 2, 0, 0]);
        let reply = reply_of(&mode, &behind, None, arrived);
        assert_eq!([reply[112], reply[117], reply[137]], [0xa0, 0x20, 0xa0]);
        let reply = reply_of(&mode, &packet[..117], None, arrived);
        assert_eq!(reply[112], 0xa0);
        // Padding needs none, and may follow it.
        let mut padded = packet.clone();
        padded.extend([0x80, 1, 0, 0]);
        let reply = reply_of(&mode, &padded, None, arrived);
        assert_eq!([reply[112], reply[117], reply[137]], [0x80, 0, 0]);
        let only = [&packet[..112], &[0x80, 1, 0, 1, 9]].concat();
        assert_eq!(reply_of(&mode, &only, None, arrived)[112..], [0, 1, 0, 1, 9]);

        // A TLV that was changed on its way.
        packet[116] = 6;
        let reply = reply_of(&mode, &packet, Some(7), arrived);
        assert_eq!(reply[112..121], [0xa0, 2, 0, 1, 6, 0x20, 8, 0, 16]);
        assert_eq!(reply[121..], packet[121..]);
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
            assert_eq!(Mode::new(None, true).sender_id(&vec![0; length]), None);
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
        let mut authenticated = vec![15; 113];
        authenticated.extend([0x80, 2, 0, 1, 5, 0x80, 8, 0, 16]);
        authenticated.extend([0; 16]);
        let seeds = [&packet[..], &[2; 45], &authenticated];
        weir_laws::mutation::replay(&seeds, 20_000, fuzz_stamp);
    }
}
