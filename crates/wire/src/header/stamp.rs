//! Test packets of STAMP (RFC 8762, section 4.2.1; RFC 8972) and TWAMP (RFC 5357, section 4.1.2), without authentication: number
//! from 0, send time, error estimate. A payload with room for it continues with an Extra Padding TLV.
//!
//! A reflector's reply (RFC 8762, section 4.3.1) is read as the packet that it answers, sent later by the time that the
//! packet was at the reflector: what is measured from it is the round trip without that time.

use super::{Carries, Codec, DecodeError, Decoded, Epoch, HeaderFields, SendTime, Tags, TimeField};

/// Bytes of a packet without TLVs.
pub const BASE_BYTES: usize = 44;
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
    /// Reads a reply; `None`: it is too short, or has no receive time, such as a packet that no reflector has answered.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        let head = bytes.first_chunk::<BASE_BYTES>()?;
        let received = word(head, 16);
        if received == 0 {
            return None;
        }
        let read = if head[12] & PTP == 0 { from_ntp } else { from_ptp };
        let dwell = read(word(head, 4)).wrapping_sub(read(received)) as i64;
        Some(Reply {
            number: (word(head, 0) >> 32) as u32,
            sequence: (word(head, 24) >> 32) as u32,
            sent_ns: from_ntp(word(head, 28)),
            dwell_ns: dwell.max(0) as u64,
        })
    }
}

/// The 8 bytes at `at`, which is 36 at most.
fn word(head: &[u8; BASE_BYTES], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    u64::from_be_bytes(bytes)
}

/// The packet, with the length of an Extra Padding TLV if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    padding: Option<u16>,
}

impl Codec for Stamp {
    fn for_payload(payload: usize) -> Self {
        let padding = payload.checked_sub(BASE_BYTES + TLV_BYTES);
        Stamp { padding: padding.map(|bytes| u16::try_from(bytes).unwrap_or(u16::MAX)) }
    }

    fn carries(self) -> Carries {
        Carries {
            bytes: BASE_BYTES + self.padding.map_or(0, |_| TLV_BYTES),
            sequence_bits: 32,
            first_sequence: 0,
            time: Some(TimeField { bits: 64, resolution_ns: 1, epoch: Epoch::Monotonic }),
            tag: false,
            untagged_bytes: 0,
        }
    }

    #[inline(always)]
    fn encode(self, _: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        out[..4].copy_from_slice(&(fields.sequence as u32).to_be_bytes());
        out[4..12].copy_from_slice(&ntp(fields.send_time_ns).to_be_bytes());
        out[12..14].copy_from_slice(&ERROR_ESTIMATE);
        out[14..BASE_BYTES].fill(0);
        if let Some(bytes) = self.padding {
            out[BASE_BYTES] = UNRECOGNIZED;
            out[BASE_BYTES + 1] = EXTRA_PADDING;
            out[BASE_BYTES + 2..BASE_BYTES + TLV_BYTES].copy_from_slice(&bytes.to_be_bytes());
        }
    }

    #[inline(always)]
    fn decode(self, _: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        let need = self.carries().bytes;
        let truncated = DecodeError::Truncated { have: payload.len(), need };
        let head = payload.first_chunk::<BASE_BYTES>().filter(|_| payload.len() >= need);
        let head = head.ok_or(truncated)?;
        let (sequence, sent_ns) = match Reply::decode(head) {
            Some(reply) => (reply.sequence, (reply.sent_ns + reply.dwell_ns) % SPAN_NS),
            None => ((word(head, 0) >> 32) as u32, from_ntp(word(head, 4))),
        };
        let send_time = Some(SendTime::Full(sent_ns));
        Ok(Decoded { sequence: sequence.into(), send_time, ..Decoded::EMPTY })
    }
}

#[cfg(test)]
mod tests {
    use super::super::TagKey;
    use super::*;
    use proptest::prelude::*;

    fn tags() -> Tags {
        Tags::new(&TagKey::from_bytes(&[1; 16]))
    }

    #[test]
    fn the_packet_is_that_of_rfc_8762() {
        let mut out = [0xaa; 60];
        let fields = HeaderFields {
            sequence: 0x1_0000_0007,
            send_time_ns: 5_500_000_000,
            ..HeaderFields::default()
        };
        Stamp::for_payload(60).encode(&mut tags(), &fields, &mut out);
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
        let read = Reply::decode(&reply).unwrap();
        let sent_ns = 7_000_000_001;
        assert_eq!(read, Reply { number: 3, sequence: 9, sent_ns, dwell_ns: 250_000 });
        let codec = Stamp::for_payload(44);
        let got = codec.decode(&mut tags(), &reply).unwrap();
        assert_eq!((got.sequence, got.send_time), (9, Some(SendTime::Full(sent_ns + 250_000))));
        // The reflector's times in PTP's format.
        reply[12] = 0x40;
        reply[4..12].copy_from_slice(&((90 << 32) + 250_000_u64).to_be_bytes());
        reply[16..24].copy_from_slice(&(90_u64 << 32).to_be_bytes());
        assert_eq!(Reply::decode(&reply), Some(read));
        // Its clock was set back in between.
        reply[16..24].copy_from_slice(&(91_u64 << 32).to_be_bytes());
        assert_eq!(Reply::decode(&reply).unwrap().dwell_ns, 0);
        for have in 0..44 {
            assert_eq!(Reply::decode(&reply[..have]), None);
        }
    }

    proptest! {
        #[test]
        fn times_are_exact(ns in 0..SPAN_NS) {
            prop_assert_eq!(from_ntp(ntp(ns)), ns);
        }
    }
}
