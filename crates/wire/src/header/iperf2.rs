//! iperf2's UDP header: number from 1, then seconds and microseconds of the send time by the sender's realtime clock, all
//! big-endian. Since 2.0.10 a fourth word has the upper half of the number, which then has 64 bits.
//!
//! The number is signed. The last datagram of a flow has its number negated; it is read as the number itself.

use super::microseconds::{self, FIRST, truncated};
use super::{Carries, Codec, DecodeError, Decoded, Epoch, HeaderFields, Tags, TimeField};

/// Bits of a number of 32 bits without its sign.
const NARROW: u32 = i32::MAX as u32;

/// The header with a 64-bit number: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Iperf2;

/// The header with a 32-bit number: 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Iperf2Narrow;

impl Codec for Iperf2 {
    fn for_payload(_: usize) -> Self {
        Iperf2
    }

    fn carries(self) -> Carries {
        carries(16, 64)
    }

    fn encode(self, _: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        let number = fields.sequence.wrapping_add(FIRST);
        out[..4].copy_from_slice(&(number as u32).to_be_bytes());
        microseconds::write(fields.send_time_ns, &mut out[4..12]);
        out[12..16].copy_from_slice(&((number >> 32) as u32).to_be_bytes());
    }

    fn decode(self, _: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        let head = payload.first_chunk::<16>().ok_or_else(|| truncated(payload, 16))?;
        let [a, b, c, d, time @ .., e, f, g, h] = *head;
        let number = i64::from_be_bytes([e, f, g, h, a, b, c, d]);
        microseconds::read(time, number.unsigned_abs().wrapping_sub(FIRST))
    }
}

impl Codec for Iperf2Narrow {
    fn for_payload(_: usize) -> Self {
        Iperf2Narrow
    }

    fn carries(self) -> Carries {
        carries(12, 31)
    }

    fn encode(self, _: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        let number = fields.sequence.wrapping_add(FIRST) as u32 & NARROW;
        out[..4].copy_from_slice(&number.to_be_bytes());
        microseconds::write(fields.send_time_ns, &mut out[4..12]);
    }

    fn decode(self, _: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        let head = payload.first_chunk::<12>().ok_or_else(|| truncated(payload, 12))?;
        let [a, b, c, d, time @ ..] = *head;
        let number = i32::from_be_bytes([a, b, c, d]);
        let sequence = number.unsigned_abs().wrapping_sub(FIRST as u32) & NARROW;
        microseconds::read(time, sequence.into())
    }
}

/// The number of a datagram with a 64-bit number; negative: it is the last one. `None`: it is too short.
#[must_use]
pub fn wide_number(payload: &[u8]) -> Option<i64> {
    let [a, b, c, d, .., e, f, g, h] = payload.first_chunk::<16>()?;
    Some(i64::from_be_bytes([*e, *f, *g, *h, *a, *b, *c, *d]))
}

/// The same of a 32-bit number.
#[must_use]
pub fn narrow_number(payload: &[u8]) -> Option<i32> {
    payload.first_chunk::<4>().map(|number| i32::from_be_bytes(*number))
}

fn carries(bytes: usize, sequence_bits: u32) -> Carries {
    Carries {
        bytes,
        sequence_bits,
        first_sequence: FIRST,
        time: Some(TimeField { bits: 64, resolution_ns: 1000, epoch: Epoch::Realtime }),
        tag: false,
        untagged_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SendTime, tags};
    use super::*;

    /// First bytes of the first and of the last datagram of `iperf -c 127.0.0.1 -u -b 200k -t 1` (2.1.8), which has 21.
    const CAPTURED: [&[u8]; 2] = [
        b"\x00\x00\x00\x01\x6b\x0c\x1d\x33\x00\x09\xd4\xa5\x00\x00\x00\x00",
        b"\xff\xff\xff\xeb\x6b\x0c\x1d\x34\x00\x0b\x9f\x36\xff\xff\xff\xff",
    ];
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn captured_headers_are_read_and_written() {
        let [first, last] = CAPTURED;
        let got = Iperf2.decode(&mut tags(), first).unwrap();
        let ns = 1_795_956_019 * SECOND + 644_261_000;
        let want = Decoded { sequence: 0, send_time: Some(SendTime::Full(ns)), ..Decoded::EMPTY };
        assert_eq!((got, wide_number(first)), (want, Some(1)));
        let fields = HeaderFields { sequence: 0, send_time_ns: ns, ..HeaderFields::default() };
        let mut out = [0xee; 16];
        Iperf2.encode(&mut tags(), &fields, &mut out);
        assert_eq!(out, first);
        let got = Iperf2.decode(&mut tags(), last).unwrap();
        let ns = 1_795_956_020 * SECOND + 761_654_000;
        assert_eq!((got.sequence, got.send_time), (20, Some(SendTime::Full(ns))));
        assert_eq!(wide_number(last), Some(-21));
    }

    #[test]
    fn narrow_numbers_have_12_bytes_and_their_own_end() {
        let mut out = [0; 12];
        let fields = HeaderFields { sequence: 41, ..HeaderFields::default() };
        Iperf2Narrow.encode(&mut tags(), &fields, &mut out);
        assert_eq!(narrow_number(&out), Some(42));
        out[..4].copy_from_slice(&(-42_i32).to_be_bytes());
        assert_eq!(Iperf2Narrow.decode(&mut tags(), &out).unwrap().sequence, 41);
        let short = Iperf2Narrow.decode(&mut tags(), &out[..11]);
        assert_eq!(short, Err(DecodeError::Truncated { have: 11, need: 12 }));
    }

    #[test]
    fn an_invalid_time_is_malformed_and_the_lowest_number_is_read() {
        let mut bytes = CAPTURED[0].to_vec();
        bytes[8..12].copy_from_slice(&microseconds::SECOND.to_be_bytes());
        assert_eq!(Iperf2.decode(&mut tags(), &bytes), Err(DecodeError::Malformed));
        assert_eq!(Iperf2Narrow.decode(&mut tags(), &bytes), Err(DecodeError::Malformed));
        bytes[..4].copy_from_slice(&[0; 4]);
        bytes[8..16].copy_from_slice(b"\0\0\0\0\x80\0\0\0");
        assert_eq!(Iperf2.decode(&mut tags(), &bytes).unwrap().sequence, (1 << 63) - 1);
    }
}
