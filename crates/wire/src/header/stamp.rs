//! Test packets of STAMP (RFC 8762, sections 4.2 and 4.3; RFC 8972) and TWAMP (RFC 5357, section 4.1.2): number from 0, send
//! time, error estimate, and in authenticated mode an HMAC. A payload with room for it continues with an Extra Padding TLV.
//!
//! A reflector's reply is read as the packet that it answers, sent later by the time that the packet was at the reflector: what
//! is measured from it is the round trip without that time.

use super::{Carries, Codec, DecodeError, Decoded, Epoch, HeaderFields, SendTime, Tags, TimeField};
use crate::hmac::HMAC_BYTES;

/// Where packets of a mode have their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a packet without TLVs.
    pub bytes: usize,
    /// The send time, 8 bytes, the error estimate and the sender's identifier, 2 bytes each.
    pub time: usize,
    /// In a reply: when the packet arrived, 8 bytes.
    pub received: usize,
    /// In a reply: the packet's number, 4 bytes.
    pub sequence: usize,
    /// In a reply: the packet's send time and error estimate.
    pub sent: usize,
    /// In a reply: the TTL with which the packet arrived.
    pub ttl: usize,
    /// The HMAC, which is at the end.
    pub hmac: Option<usize>,
}

/// Without authentication (RFC 8762, sections 4.2.1 and 4.3.1).
pub const OPEN: Layout =
    Layout { bytes: 44, time: 4, received: 16, sequence: 24, sent: 28, ttl: 40, hmac: None };
/// In authenticated mode (RFC 8762, sections 4.2.2 and 4.3.2).
pub const AUTHENTICATED: Layout =
    Layout { bytes: 112, time: 16, received: 32, sequence: 48, sent: 64, ttl: 80, hmac: Some(96) };

/// Flags, type and length of a TLV.
pub const TLV_BYTES: usize = 4;
/// Type of the Extra Padding TLV.
pub const EXTRA_PADDING: u8 = 1;
/// TLV flag of a type that the reflector does not know; a sender sets it.
pub const UNRECOGNIZED: u8 = 0x80;
/// Bit of the error estimate: times are in the truncated PTP format, not in that of NTP (RFC 8186, section 2.3).
const PTP: u8 = 0x40;
/// An error estimate (RFC 4656, section 4.1.2) of a clock that is not synchronised, with an error of 2⁻²⁰ s: only its
/// differences have a meaning.
pub const ERROR_ESTIMATE: [u8; 2] = [12, 1];
const SECOND_NS: u64 = 1_000_000_000;
/// Times have seconds of 32 bits.
const SPAN_NS: u64 = SECOND_NS << 32;

/// A time in NTP's format: seconds mod 2³² and their fraction of 32 bits. [`from_ntp`] returns the same ns.
#[must_use]
pub fn ntp(ns: u64) -> u64 {
    let (seconds, rest) = (ns / SECOND_NS, ns % SECOND_NS);
    (seconds << 32) + ((rest << 32) + SECOND_NS / 2) / SECOND_NS
}

/// The ns of a time in NTP's format, rounded.
#[must_use]
pub fn from_ntp(time: u64) -> u64 {
    let (seconds, fraction) = (time >> 32, time & 0xffff_ffff);
    (seconds * SECOND_NS + ((fraction * SECOND_NS + (1 << 31)) >> 32)) % SPAN_NS
}

/// The ns of a time in the truncated PTP format: seconds and ns.
fn from_ptp(time: u64) -> u64 {
    ((time >> 32) * SECOND_NS + (time & 0xffff_ffff)) % SPAN_NS
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The reflector's number; of one that counts each session's replies, from 0.
    pub number: u32,
    /// Number of the packet that it answers.
    pub sequence: u32,
    /// When that packet was sent, by the sender's clock, ns.
    pub sent_ns: u64,
    /// How long it was at the reflector, by the reflector's clock, ns; 0 if that clock was set back.
    pub dwell_ns: u64,
}

impl Reply {
    /// Reads a reply of this layout, without a look at its HMAC; `None`: it is too short, or has no receive time, such as a packet
    /// that no reflector has answered.
    #[must_use]
    pub fn decode(layout: Layout, bytes: &[u8]) -> Option<Reply> {
        let head = bytes.get(..layout.bytes)?;
        let received = word(head, layout.received);
        if received == 0 {
            return None;
        }
        let read = if head[layout.time + 8] & PTP == 0 { from_ntp } else { from_ptp };
        let dwell = read(word(head, layout.time)).wrapping_sub(read(received)) as i64;
        Some(Reply {
            number: (word(head, 0) >> 32) as u32,
            sequence: (word(head, layout.sequence) >> 32) as u32,
            sent_ns: from_ntp(word(head, layout.sent)),
            dwell_ns: dwell.max(0) as u64,
        })
    }
}

/// The 8 bytes at `at`, behind which there is another one.
fn word(head: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    u64::from_be_bytes(bytes)
}

/// The packet of a mode, with the length of an Extra Padding TLV if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp<const AUTHENTICATED: bool> {
    padding: Option<u16>,
}

impl<const HAS_HMAC: bool> Stamp<HAS_HMAC> {
    const LAYOUT: Layout = if HAS_HMAC { AUTHENTICATED } else { OPEN };
}

impl<const HAS_HMAC: bool> Codec for Stamp<HAS_HMAC> {
    fn for_payload(payload: usize) -> Self {
        let padding = payload.checked_sub(Self::LAYOUT.bytes + TLV_BYTES);
        Stamp { padding: padding.map(|bytes| u16::try_from(bytes).unwrap_or(u16::MAX)) }
    }

    fn carries(self) -> Carries {
        Carries {
            bytes: Self::LAYOUT.bytes + self.padding.map_or(0, |_| TLV_BYTES),
            sequence_bits: 32,
            first_sequence: 0,
            time: Some(TimeField { bits: 64, resolution_ns: 1, epoch: Epoch::Monotonic }),
            tag: HAS_HMAC,
            untagged_bytes: 0,
        }
    }

    #[inline(always)]
    fn encode(self, tags: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        let Layout { bytes, time, hmac, .. } = Self::LAYOUT;
        out[..bytes].fill(0);
        out[..4].copy_from_slice(&(fields.sequence as u32).to_be_bytes());
        out[time..time + 8].copy_from_slice(&ntp(fields.send_time_ns).to_be_bytes());
        out[time + 8..time + 10].copy_from_slice(&ERROR_ESTIMATE);
        if let Some(at) = hmac {
            let (head, rest) = out.split_at_mut(at);
            rest[..HMAC_BYTES].copy_from_slice(&tags.hmac().of(&[head]));
        }
        if let Some(padding) = self.padding {
            out[bytes] = UNRECOGNIZED;
            out[bytes + 1] = EXTRA_PADDING;
            out[bytes + 2..bytes + TLV_BYTES].copy_from_slice(&padding.to_be_bytes());
        }
    }

    #[inline(always)]
    fn decode(self, tags: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        let need = self.carries().bytes;
        let truncated = DecodeError::Truncated { have: payload.len(), need };
        let head = payload.get(..need).ok_or(truncated)?;
        let layout = Self::LAYOUT;
        if let Some(at) = layout.hmac {
            let hmac = head[at..].first_chunk().ok_or(truncated)?;
            if !tags.hmac().verifies(&[&head[..at]], hmac) {
                return Err(DecodeError::BadTag);
            }
        }
        let (sequence, sent_ns) = match Reply::decode(layout, head) {
            Some(reply) => (reply.sequence, (reply.sent_ns + reply.dwell_ns) % SPAN_NS),
            None => ((word(head, 0) >> 32) as u32, from_ntp(word(head, layout.time))),
        };
        let send_time = Some(SendTime::Full(sent_ns));
        Ok(Decoded { sequence: sequence.into(), send_time, ..Decoded::EMPTY })
    }
}

#[cfg(test)]
mod tests {
    use super::super::TagKey;
    use super::*;
    use crate::hmac::HmacKey;
    use proptest::prelude::*;

    fn key() -> TagKey {
        TagKey::from_bytes(&[1; 16])
    }

    #[test]
    fn the_packet_is_that_of_rfc_8762() {
        let mut out = [0xaa; 60];
        let fields = HeaderFields {
            sequence: 0x1_0000_0007,
            send_time_ns: 5_500_000_000,
            ..HeaderFields::default()
        };
        Stamp::<false>::for_payload(60).encode(&mut Tags::new(&key()), &fields, &mut out);
        assert_eq!(out[..14], [0, 0, 0, 7, 0, 0, 0, 5, 0x80, 0, 0, 0, 12, 1]);
        assert_eq!(out[14..44], [0; 30]);
        // Extra Padding of 12 bytes.
        assert_eq!(out[44..48], [0x80, 1, 0, 12]);
        assert_eq!(out[48..], [0xaa; 12]);
    }

    #[test]
    fn a_reply_is_the_packet_without_the_time_at_the_reflector() {
        let mut reply = [0; 44];
        reply[..4].copy_from_slice(&3u32.to_be_bytes());
        reply[4..12].copy_from_slice(&ntp(90_000_250_000).to_be_bytes());
        reply[16..24].copy_from_slice(&ntp(90_000_000_000).to_be_bytes());
        reply[24..28].copy_from_slice(&9u32.to_be_bytes());
        reply[28..36].copy_from_slice(&ntp(7_000_000_001).to_be_bytes());
        let read = Reply::decode(OPEN, &reply).unwrap();
        let sent_ns = 7_000_000_001;
        assert_eq!(read, Reply { number: 3, sequence: 9, sent_ns, dwell_ns: 250_000 });
        let codec = Stamp::<false>::for_payload(44);
        let got = codec.decode(&mut Tags::new(&key()), &reply).unwrap();
        assert_eq!((got.sequence, got.send_time), (9, Some(SendTime::Full(sent_ns + 250_000))));
        // The reflector's times in PTP's format.
        reply[12] = 0x40;
        reply[4..12].copy_from_slice(&((90 << 32) + 250_000_u64).to_be_bytes());
        reply[16..24].copy_from_slice(&(90_u64 << 32).to_be_bytes());
        assert_eq!(Reply::decode(OPEN, &reply), Some(read));
        // Its clock was set back in between.
        reply[16..24].copy_from_slice(&(91_u64 << 32).to_be_bytes());
        assert_eq!(Reply::decode(OPEN, &reply).unwrap().dwell_ns, 0);
        for have in 0..44 {
            assert_eq!(Reply::decode(OPEN, &reply[..have]), None);
        }
    }

    #[test]
    fn the_authenticated_packet_is_that_of_rfc_8762() {
        let mut out = [0xaa; 120];
        let fields =
            HeaderFields { sequence: 7, send_time_ns: 5_500_000_000, ..HeaderFields::default() };
        let hmac = HmacKey::new(b"a secret of both ends");
        let key = key().with_hmac(hmac.clone());
        let codec = Stamp::<true>::for_payload(120);
        codec.encode(&mut Tags::new(&key), &fields, &mut out);
        let mut expected = [0; 96];
        expected[3] = 7;
        expected[16..26].copy_from_slice(&[0, 0, 0, 5, 0x80, 0, 0, 0, 12, 1]);
        assert_eq!(out[..96], expected);
        assert_eq!(out[96..112], hmac.of(&[&expected]));
        assert_eq!(out[112..], [0x80, 1, 0, 4, 0xaa, 0xaa, 0xaa, 0xaa]);
        // Another key.
        let other = key.clone().with_hmac(HmacKey::new(b"another"));
        assert_eq!(codec.decode(&mut Tags::new(&other), &out), Err(DecodeError::BadTag));

        // A reply: its own number and times, those of the packet, and an HMAC over them.
        let mut reply = [0; 120];
        reply[3] = 3;
        reply[16..24].copy_from_slice(&ntp(90_000_250_000).to_be_bytes());
        reply[32..40].copy_from_slice(&ntp(90_000_000_000).to_be_bytes());
        reply[51] = 7;
        reply[64..72].copy_from_slice(&ntp(5_500_000_000).to_be_bytes());
        assert_eq!(codec.decode(&mut Tags::new(&key), &reply), Err(DecodeError::BadTag));
        let tag = hmac.of(&[&reply[..96]]);
        reply[96..112].copy_from_slice(&tag);
        let got = codec.decode(&mut Tags::new(&key), &reply).unwrap();
        assert_eq!((got.sequence, got.send_time), (7, Some(SendTime::Full(5_500_250_000))));
    }

    proptest! {
        #[test]
        fn times_are_exact(ns in 0..SPAN_NS) {
            prop_assert_eq!(from_ntp(ntp(ns)), ns);
        }
    }
}
