//! D-ITG's header of datagrams: flow, number from 1, then second of the UTC day and microseconds of the send time, all
//! big-endian. Its short form has flow and number only.
//!
//! The time starts again at midnight.

use super::microseconds::{self, FIRST, truncated};
use super::{Carries, Codec, DecodeError, Decoded, Epoch, HeaderFields, SendTime, Tags, TimeField};

/// Length of a day, ns.
pub const DAY_NS: u64 = 86_400 * 1_000_000_000;
/// Bytes of the header.
pub const BYTES: usize = 16;
/// Bytes of its short form.
pub const SHORT_BYTES: usize = 8;

/// The header with a send time: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ditg;

/// The header without one: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DitgShort;

impl Codec for Ditg {
    fn for_payload(_: usize) -> Self {
        Ditg
    }

    fn carries(self) -> Carries {
        let time = TimeField { bits: 64, resolution_ns: 1000, epoch: Epoch::Midnight };
        carries(BYTES, Some(time))
    }

    fn encode(self, _: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        number(fields, out);
        microseconds::write(fields.send_time_ns % DAY_NS, &mut out[SHORT_BYTES..BYTES]);
    }

    fn decode(self, _: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        let head = payload.first_chunk::<BYTES>().ok_or_else(|| truncated(payload, BYTES))?;
        let [flow @ .., a, b, c, d, e, f, g, h] = *head;
        let decoded = microseconds::read([a, b, c, d, e, f, g, h], 0)?;
        let send_time = decoded.send_time.map(|time| match time {
            SendTime::Full(ns) => SendTime::OfDay(ns % DAY_NS),
            other => other,
        });
        Ok(Decoded { send_time, ..numbered(flow) })
    }
}

impl Codec for DitgShort {
    fn for_payload(_: usize) -> Self {
        DitgShort
    }

    fn carries(self) -> Carries {
        carries(SHORT_BYTES, None)
    }

    fn encode(self, _: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        number(fields, out);
    }

    fn decode(self, _: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        let head = payload.first_chunk().ok_or_else(|| truncated(payload, SHORT_BYTES))?;
        Ok(numbered(*head))
    }
}

/// The number of the flow of a datagram; `None`: it is too short.
#[must_use]
pub fn flow(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|flow| u32::from_be_bytes(*flow))
}

fn carries(bytes: usize, time: Option<TimeField>) -> Carries {
    Carries { bytes, sequence_bits: 32, first_sequence: FIRST, time, tag: false, untagged_bytes: 0 }
}

fn number(fields: &HeaderFields, out: &mut [u8]) {
    out[..4].copy_from_slice(&fields.flow.to_be_bytes());
    let number = fields.sequence.wrapping_add(FIRST) as u32;
    out[4..8].copy_from_slice(&number.to_be_bytes());
}

fn numbered(head: [u8; SHORT_BYTES]) -> Decoded {
    let [a, b, c, d, e, f, g, h] = head;
    let sequence = u32::from_be_bytes([e, f, g, h]).wrapping_sub(FIRST as u32);
    let flow = Some(u32::from_be_bytes([a, b, c, d]));
    Decoded { sequence: sequence.into(), flow, ..Decoded::EMPTY }
}

#[cfg(test)]
mod tests {
    use super::super::tags;
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    /// First bytes of datagram 2 of flow 1 of `ITGSend -a 127.0.0.1 -C 10 -c 100 -t 500` (2.8.1), sent at 16:19:14 UTC, and of
    /// the same with `-p 1`.
    const CAPTURED: [&[u8]; 2] = [
        b"\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\xe5\x82\x00\x05\xfa\xd5",
        b"\x00\x00\x00\x01\x00\x00\x00\x02",
    ];

    #[test]
    fn captured_headers_are_read_and_written() {
        let [long, short] = CAPTURED;
        let of_day = (16 * 3600 + 19 * 60 + 14) * SECOND + 391_893_000;
        let want = Decoded { sequence: 1, flow: Some(1), ..Decoded::EMPTY };
        let timed = Decoded { send_time: Some(SendTime::OfDay(of_day)), ..want };
        assert_eq!(Ditg.decode(&mut tags(), long), Ok(timed));
        assert_eq!(DitgShort.decode(&mut tags(), short), Ok(want));
        assert_eq!((flow(long), flow(&short[..3])), (Some(1), None));
        let send_time_ns = 20_000 * DAY_NS + of_day;
        let fields = HeaderFields { sequence: 1, send_time_ns, flow: 1, ..HeaderFields::default() };
        let mut out = [0xee; BYTES];
        Ditg.encode(&mut tags(), &fields, &mut out);
        assert_eq!(out, long);
        let mut out = [0xee; SHORT_BYTES];
        DitgShort.encode(&mut tags(), &fields, &mut out);
        assert_eq!(out, short);
    }

    #[test]
    fn an_invalid_time_is_malformed_and_that_of_another_day_is_of_this_one() {
        let mut bytes = CAPTURED[0].to_vec();
        bytes[8..12].copy_from_slice(&86_401_u32.to_be_bytes());
        bytes[12..16].copy_from_slice(&[0; 4]);
        let read = Ditg.decode(&mut tags(), &bytes).unwrap();
        assert_eq!(read.send_time, Some(SendTime::OfDay(SECOND)));
        bytes[12..16].copy_from_slice(&microseconds::SECOND.to_be_bytes());
        assert_eq!(Ditg.decode(&mut tags(), &bytes), Err(DecodeError::Malformed));
    }
}
