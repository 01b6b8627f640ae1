//! The datagram of nuttcp with intervals (`nuttcp -u -i`): at 24, the bytes sent so far including this datagram, in the order
//! of the sender's processor, which is little-endian here. All datagrams of a flow have one size, so that the number follows
//! from the bytes.

use super::microseconds::truncated;
use super::{Carries, Codec, DecodeError, Decoded, HeaderFields, Tags};

/// Where the count begins.
const AT: usize = 24;
/// Bytes of the header.
const BYTES: usize = 32;

/// Bits of a number: with the size of a datagram, its count has no more than 64.
const BITS: u32 = 48;

/// The datagram with a count of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nuttcp;

impl Codec for Nuttcp {
    fn for_payload(_: usize) -> Self {
        Nuttcp
    }

    fn carries(self) -> Carries {
        Carries {
            bytes: BYTES,
            sequence_bits: BITS,
            first_sequence: 0,
            time: None,
            tag: false,
            untagged_bytes: 0,
        }
    }

    fn encode(self, _: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        let number = fields.sequence & (u64::MAX >> (u64::BITS - BITS));
        let bytes = (number + 1).wrapping_mul(out.len() as u64);
        // Not the beginning of a marker.
        out[..4].fill(0);
        out[AT..BYTES].copy_from_slice(&bytes.to_le_bytes());
    }

    fn decode(self, _: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        let head = payload.first_chunk::<BYTES>().ok_or_else(|| truncated(payload, BYTES))?;
        let [.., a, b, c, d, e, f, g, h] = *head;
        let bytes = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let size = payload.len() as u64;
        match bytes.checked_sub(size) {
            Some(before) if before.is_multiple_of(size) && before / size < 1 << BITS => {
                Ok(Decoded { sequence: before / size, ..Decoded::EMPTY })
            }
            _ => Err(DecodeError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tags;
    use super::*;

    #[test]
    fn captured_datagrams_are_read() {
        // The first and the 28th datagram of `nuttcp -u -l1000 -i0.1` (6.1.2).
        for (hex, number) in [(0x3e8_u64, 0), (0x6d60, 27)] {
            let mut bytes = [0x20; 1000];
            bytes[..5].copy_from_slice(b"BOD1\0");
            bytes[24..32].copy_from_slice(&hex.to_le_bytes());
            assert_eq!(Nuttcp.decode(&mut tags(), &bytes).unwrap().sequence, number);
        }
    }

    #[test]
    fn a_number_survives_and_other_counts_are_refused() {
        let mut bytes = [0xff; 64];
        let fields = HeaderFields { sequence: 1 << 40, ..HeaderFields::default() };
        Nuttcp.encode(&mut tags(), &fields, &mut bytes);
        assert_eq!(bytes[..4], [0; 4]);
        assert_eq!(Nuttcp.decode(&mut tags(), &bytes).unwrap().sequence, 1 << 40);
        for count in [0, 63, 65, u64::MAX] {
            bytes[24..32].copy_from_slice(&count.to_le_bytes());
            assert_eq!(Nuttcp.decode(&mut tags(), &bytes), Err(DecodeError::Malformed), "{count}");
        }
        assert!(matches!(
            Nuttcp.decode(&mut tags(), &bytes[..31]),
            Err(DecodeError::Truncated { .. })
        ));
    }
}
