//! The message of MGEN 5 (version 2): length, flow, number from 0, send time by the sender's realtime clock, all big-endian. The
//! destination follows, which is the same in each message of a flow and no part of this header. With a checksum, the last 4
//! bytes of the message are the CRC-32 of those before them.

use crate::crc32::crc32;

use super::microseconds::{self, truncated};
use super::{Carries, Codec, DecodeError, Decoded, Epoch, HeaderFields, Tags, TimeField};

/// Bytes of the header.
const BYTES: usize = 20;
/// Bytes of the checksum.
pub const CHECKSUM_BYTES: usize = 4;
const VERSION: u8 = 2;
/// Flag: the message ends with a checksum.
const HAS_CHECKSUM: u8 = 0x04;
/// Flag of a message that is not divided: its only part is the last one.
const LAST_PART: u8 = 0x08;

/// A message without a checksum, as MGEN sends by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mgen;

/// A message with a checksum (`mgen txchecksum`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MgenChecked;

impl Codec for Mgen {
    fn for_payload(_: usize) -> Self {
        Mgen
    }

    fn carries(self) -> Carries {
        CARRIES
    }

    fn encode(self, _: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        write(LAST_PART, fields, out);
    }

    fn decode(self, _: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        read(payload)
    }
}

impl Codec for MgenChecked {
    fn for_payload(_: usize) -> Self {
        MgenChecked
    }

    fn carries(self) -> Carries {
        CARRIES
    }

    fn trailer_bytes(self) -> usize {
        CHECKSUM_BYTES
    }

    fn encode(self, _: &mut Tags, fields: &HeaderFields, out: &mut [u8]) {
        write(LAST_PART | HAS_CHECKSUM, fields, out);
        if let Some((message, checksum)) = out.split_last_chunk_mut::<CHECKSUM_BYTES>() {
            *checksum = crc32(message).to_be_bytes();
        }
    }

    fn decode(self, _: &mut Tags, payload: &[u8]) -> Result<Decoded, DecodeError> {
        read(payload)
    }
}

const CARRIES: Carries = Carries {
    bytes: BYTES,
    sequence_bits: 32,
    first_sequence: 0,
    time: Some(TimeField { bits: 64, resolution_ns: 1000, epoch: Epoch::Realtime }),
    tag: false,
    untagged_bytes: 0,
};

fn write(flags: u8, fields: &HeaderFields, out: &mut [u8]) {
    let (length, number) = (out.len(), fields.sequence as u32);
    if let Some(head) = out.first_chunk_mut() {
        head_of((length, flags), fields.flow, number, fields.send_time_ns, head);
    }
}

fn head_of(
    (length, flags): (usize, u8),
    flow: u32,
    number: u32,
    send_time_ns: u64,
    out: &mut [u8; BYTES],
) {
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    out[..2].copy_from_slice(&length.to_be_bytes());
    out[2..4].copy_from_slice(&[VERSION, flags]);
    out[4..8].copy_from_slice(&flow.to_be_bytes());
    out[8..12].copy_from_slice(&number.to_be_bytes());
    microseconds::write(send_time_ns, &mut out[12..]);
}

/// Writes the header of a message without a checksum, of `length` bytes, up to 65535, with the header.
pub fn write_head(out: &mut [u8; BYTES], length: usize, flow: u32, number: u32, send_time_ns: u64) {
    head_of((length, LAST_PART), flow, number, send_time_ns, out);
}

fn read(payload: &[u8]) -> Result<Decoded, DecodeError> {
    let head = payload.first_chunk::<BYTES>().ok_or_else(|| truncated(payload, BYTES))?;
    let [l0, l1, version, flags, f0, f1, f2, f3, s0, s1, s2, s3, time @ ..] = *head;
    let length = u16::from_be_bytes([l0, l1]);
    if version != VERSION || usize::from(length) != payload.len() {
        return Err(DecodeError::Malformed);
    }
    if flags & HAS_CHECKSUM != 0 {
        let (message, checksum) = payload.split_last_chunk().ok_or(DecodeError::Malformed)?;
        if crc32(message).to_be_bytes() != *checksum {
            return Err(DecodeError::BadTag);
        }
    }
    let decoded = microseconds::read(time, u32::from_be_bytes([s0, s1, s2, s3]).into())?;
    Ok(Decoded { flow: Some(u32::from_be_bytes([f0, f1, f2, f3])), ..decoded })
}

/// The flow and the number of a message, whose length and checksum are not checked; `None`: it is no message of this version.
#[must_use]
pub fn flow_and_number(payload: &[u8]) -> Option<(u32, u32)> {
    let [_, _, version, _, f0, f1, f2, f3, s0, s1, s2, s3, ..] = payload.first_chunk::<BYTES>()?;
    let word = |a: &u8, b: &u8, c: &u8, d: &u8| u32::from_be_bytes([*a, *b, *c, *d]);
    (*version == VERSION).then(|| (word(f0, f1, f2, f3), word(s0, s1, s2, s3)))
}

#[cfg(test)]
mod tests {
    use super::super::{SendTime, tags};
    use super::*;

    /// The second message of `mgen event "ON 7 UDP DST 127.0.0.1/5000 PERIODIC [2 64] COUNT 3" txchecksum` (5.02b).
    const CAPTURED: [u8; 64] = [
        0x00, 0x40, 0x02, 0x0c, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x01, 0x6b, 0x0c, 0x52,
        0x62, 0x00, 0x05, 0x4e, 0xa9, 0x13, 0x88, 0x01, 0x04, 0x7f, 0x00, 0x00, 0x01, 0x00, 0x00,
        0x00, 0x00, 0x04, 0x37, 0x68, 0x20, 0x04, 0x37, 0x68, 0x20, 0xff, 0xff, 0xfc, 0x19, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0xc9, 0x10, 0x06, 0x3f,
    ];
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_captured_message_is_read_and_written() {
        let got = MgenChecked.decode(&mut tags(), &CAPTURED).unwrap();
        let ns = 1_795_969_634 * SECOND + 347_817_000;
        let send_time = Some(SendTime::Full(ns));
        assert_eq!(got, Decoded { sequence: 1, flow: Some(7), send_time, ..Decoded::EMPTY });
        assert_eq!(flow_and_number(&CAPTURED), Some((7, 1)));
        let mut out = CAPTURED;
        out[..BYTES].fill(0xee);
        out[60..].fill(0xee);
        let fields =
            HeaderFields { sequence: 1, send_time_ns: ns, flow: 7, ..HeaderFields::default() };
        MgenChecked.encode(&mut tags(), &fields, &mut out);
        assert_eq!(out, CAPTURED);
        // Without a checksum only the flag differs, and the last bytes are content.
        Mgen.encode(&mut tags(), &fields, &mut out);
        assert_eq!((out[3], &out[60..]), (LAST_PART, &CAPTURED[60..]));
        assert_eq!(Mgen.decode(&mut tags(), &out), Ok(got));
        assert!(ns > 1_700_000_000 * SECOND);
    }

    #[test]
    fn a_changed_message_is_rejected() {
        let changed = |at: usize, bit: u8| {
            let mut bytes = CAPTURED;
            bytes[at] ^= bit;
            MgenChecked.decode(&mut tags(), &bytes)
        };
        // Length and version, then what the checksum covers, and the checksum itself.
        assert_eq!(changed(1, 1), Err(DecodeError::Malformed));
        assert_eq!(changed(2, 1), Err(DecodeError::Malformed));
        for at in [5, 11, 30, 59, 63] {
            assert_eq!(changed(at, 1), Err(DecodeError::BadTag), "{at}");
        }
        assert_eq!(MgenChecked.decode(&mut tags(), &CAPTURED[..63]), Err(DecodeError::Malformed));
        // Without its flag there is no checksum.
        assert!(changed(3, HAS_CHECKSUM).is_ok());
        assert_eq!(flow_and_number(&CAPTURED[..19]), None);
    }
}
