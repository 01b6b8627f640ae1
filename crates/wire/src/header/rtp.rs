//! An RTP header (RFC 3550, section 5.1), followed by the native header in the rest of the payload.
//!
//! Middleboxes and analysers see RTP: version 2, a dynamic payload type (RFC 3551, section 6), the low 16 bits of the
//! sequence number, a timestamp of 8 kHz that counts from the scheduled send time, and the flow's number as
//! synchronisation source. What is measured comes from the native header, which has more bits and a tag.

use super::native::HeaderLayout;
use super::{Carries, Codec, DecodeError, Decoded, HeaderFields, Tags};

/// Size of the RTP header without contributing sources, bytes.
const RTP_BYTES: usize = 12;
/// Version 2, no padding, no extension, no contributing sources.
const FIRST_BYTE: u8 = 2 << 6;
/// The first dynamic payload type; the marker bit is 0.
const PAYLOAD_TYPE: u8 = 96;
/// Duration of a sample at 8 kHz, ns.
const SAMPLE_NS: u64 = 125_000;

/// The RTP header and the native header after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rtp(HeaderLayout);

impl Codec for Rtp {
    fn for_payload(payload: usize) -> Self {
        Rtp(HeaderLayout::for_payload(payload.saturating_sub(RTP_BYTES)))
    }

    fn carries(self) -> Carries {
        let native = self.0.carries();
        Carries { bytes: RTP_BYTES + native.bytes, untagged_bytes: RTP_BYTES, ..native }
    }

    #[inline(always)]
    fn encode(self, tags: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        let (rtp, rest) = out.split_at_mut(RTP_BYTES);
        let scheduled_ns =
            fields.send_time_ns.saturating_add_signed(-i64::from(fields.lateness_ns));
        let timestamp = (scheduled_ns / SAMPLE_NS) as u32;
        rtp[0] = FIRST_BYTE;
        rtp[1] = PAYLOAD_TYPE;
        rtp[2..4].copy_from_slice(&(fields.sequence as u16).to_be_bytes());
        rtp[4..8].copy_from_slice(&timestamp.to_be_bytes());
        rtp[8..].copy_from_slice(&fields.flow.to_be_bytes());
        self.0.encode(tags, fields, rest);
    }

    #[inline(always)]
    fn decode(self, tags: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        let need = self.carries().bytes;
        if payload.len() < need {
            return Err(DecodeError::Truncated { have: payload.len(), need });
        }
        let (rtp, rest) = payload.split_at(RTP_BYTES);
        if rtp[0] != FIRST_BYTE || rtp[1] & 0x7f != PAYLOAD_TYPE {
            return Err(DecodeError::Malformed);
        }
        self.0.decode(tags, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tags;
    use super::*;

    const MS: u64 = 1_000_000;

    fn sent(sequence: u64, send_time_ns: u64, lateness_ns: i32) -> [u8; 172] {
        let mut out = [0xaa; 172];
        let fields = HeaderFields { sequence, send_time_ns, lateness_ns, flow: 7, flags: 0 };
        Rtp::for_payload(172).encode(&mut tags(), &fields, &mut out);
        out
    }

    #[test]
    fn the_header_is_rtp() {
        let out = sent(0x1_0005, 20 * MS, 0);
        // Version 2; type 96; sequence 5; 160 samples; source 7.
        assert_eq!(out[..12], [0x80, 96, 0, 5, 0, 0, 0, 160, 0, 0, 0, 7]);
    }

    #[test]
    fn the_timestamp_counts_scheduled_samples() {
        let of = |out: [u8; 172]| u32::from_be_bytes([out[4], out[5], out[6], out[7]]);
        let start = 3_000_017;
        let first = of(sent(0, start, 0));
        for k in 1..100u32 {
            let late = 3 * MS as i32;
            let at = start + u64::from(k) * 20 * MS + late as u64;
            assert_eq!(of(sent(k.into(), at, late)).wrapping_sub(first), 160 * k);
        }
    }

    #[test]
    fn other_versions_and_payload_types_are_malformed() {
        let mut tags = tags();
        let codec = Rtp::for_payload(172);
        let good = sent(9, 5 * MS, 0);
        assert_eq!(codec.decode(&mut tags, &good).map(|d| d.sequence), Ok(9));
        for (index, value) in [(0, 0x40), (0, 0x81), (1, 0)] {
            let mut bad = good;
            bad[index] = value;
            assert_eq!(codec.decode(&mut tags, &bad), Err(DecodeError::Malformed));
        }
        // The marker bit may be set on the way.
        let mut marked = good;
        marked[1] |= 0x80;
        assert!(codec.decode(&mut tags, &marked).is_ok());
    }
}
