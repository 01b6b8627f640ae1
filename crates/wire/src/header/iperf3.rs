//! iperf3's UDP header: seconds and microseconds of the send time, then the datagram's number from 1, all
//! big-endian. The number has 32 bits, or 64 with `--udp-counters-64bit`.
//!
//! Which clock iperf3 reads depends on its build, so that only differences of times have a meaning.

use super::microseconds::{self, FIRST, truncated};
use super::{Carries, Codec, DecodeError, Decoded, Epoch, HeaderFields, Tags, TimeField};

/// The header with a 32-bit number: 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Iperf3;

/// The header with a 64-bit number: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Iperf3Wide;

impl Codec for Iperf3 {
    fn for_payload(_: usize) -> Self {
        Iperf3
    }

    fn carries(self) -> Carries {
        carries(12, 32)
    }

    fn encode(self, _: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        microseconds::write(fields.send_time_ns, out);
        out[8..12].copy_from_slice(&(number(fields) as u32).to_be_bytes());
    }

    fn decode(self, _: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        let head = payload.first_chunk::<12>().ok_or_else(|| truncated(payload, 12))?;
        let [time @ .., a, b, c, d] = *head;
        let sequence = u32::from_be_bytes([a, b, c, d]).wrapping_sub(FIRST as u32);
        microseconds::read(time, sequence.into())
    }
}

impl Codec for Iperf3Wide {
    fn for_payload(_: usize) -> Self {
        Iperf3Wide
    }

    fn carries(self) -> Carries {
        carries(16, 64)
    }

    fn encode(self, _: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        microseconds::write(fields.send_time_ns, out);
        out[8..16].copy_from_slice(&number(fields).to_be_bytes());
    }

    fn decode(self, _: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        let head = payload.first_chunk::<16>().ok_or_else(|| truncated(payload, 16))?;
        let [a, b, c, d, e, f, g, h, number @ ..] = *head;
        let sequence = u64::from_be_bytes(number).wrapping_sub(FIRST);
        microseconds::read([a, b, c, d, e, f, g, h], sequence)
    }
}

fn carries(bytes: usize, sequence_bits: u32) -> Carries {
    Carries {
        bytes,
        sequence_bits,
        first_sequence: FIRST,
        time: Some(TimeField { bits: 64, resolution_ns: 1000, epoch: Epoch::Undefined }),
        tag: false,
        untagged_bytes: 0,
    }
}

fn number(fields: &HeaderFields) -> u64 {
    fields.sequence.wrapping_add(FIRST)
}

#[cfg(test)]
mod tests {
    use super::super::{SendTime, tags};
    use super::*;

    /// First bytes of the payloads of datagrams 1 and 3 of `iperf3 -c 127.0.0.1 -u -b 80k -l 40 -t 1` (3.12), and of the
    /// same with `--udp-counters-64bit`.
    const CAPTURED: [&[u8]; 4] = [
        b"\x00\x00\x02\x87\x00\x02\xb2\xab\x00\x00\x00\x01\x0f\x9a\x14\x4d",
        b"\x00\x00\x02\x87\x00\x02\xda\xb0\x00\x00\x00\x03\x0f\x9a\x14\x4d",
        b"\x00\x00\x02\x8f\x00\x06\xe9\xf8\x00\x00\x00\x00\x00\x00\x00\x01",
        b"\x00\x00\x02\x8f\x00\x07\x09\x8a\x00\x00\x00\x00\x00\x00\x00\x03",
    ];

    #[test]
    fn captured_headers_are_read_and_written() {
        let mut tags = tags();
        let second = 1_000_000_000;
        let sent = [
            (0, 647 * second + 176_811_000),
            (2, 647 * second + 187_056_000),
            (0, 655 * second + 453_112_000),
            (2, 655 * second + 461_194_000),
        ];
        for (i, (bytes, (sequence, ns))) in CAPTURED.into_iter().zip(sent).enumerate() {
            let got = if i < 2 {
                Iperf3.decode(&mut tags, bytes)
            } else {
                Iperf3Wide.decode(&mut tags, bytes)
            };
            let want = Decoded { sequence, send_time: Some(SendTime::Full(ns)), ..Decoded::EMPTY };
            assert_eq!(got, Ok(want), "{i}");
            let fields = HeaderFields { sequence, send_time_ns: ns, ..HeaderFields::default() };
            let mut out = bytes.to_vec();
            out[..12].fill(0xee);
            match i {
                0..2 => Iperf3.encode(&mut tags, &fields, &mut out),
                _ => Iperf3Wide.encode(&mut tags, &fields, &mut out),
            }
            assert_eq!(out, bytes, "{i}");
        }
    }

    #[test]
    fn an_invalid_time_is_malformed() {
        let mut tags = tags();
        let mut bytes = CAPTURED[2].to_vec();
        bytes[4..8].copy_from_slice(&999_999u32.to_be_bytes());
        assert!(Iperf3Wide.decode(&mut tags, &bytes).is_ok());
        bytes[4..8].copy_from_slice(&microseconds::SECOND.to_be_bytes());
        assert_eq!(Iperf3Wide.decode(&mut tags, &bytes), Err(DecodeError::Malformed));
        assert_eq!(Iperf3.decode(&mut tags, &bytes), Err(DecodeError::Malformed));
    }
}
