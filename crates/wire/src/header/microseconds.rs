//! What the headers of iperf2, iperf3 and D-ITG share: seconds and microseconds of the send time, both big-endian, and numbers from 1.

use super::{DecodeError, Decoded, SendTime};

/// The number of the first datagram.
pub(super) const FIRST: u64 = 1;
/// Microseconds in a second; a valid time has fewer.
pub(super) const SECOND: u32 = 1_000_000;

/// Writes a send time into the first 8 bytes.
pub(super) fn write(send_time_ns: u64, out: &mut [u8]) {
    let microseconds = send_time_ns / 1000;
    let seconds = (microseconds / u64::from(SECOND)) as u32;
    let rest = (microseconds % u64::from(SECOND)) as u32;
    out[..4].copy_from_slice(&seconds.to_be_bytes());
    out[4..8].copy_from_slice(&rest.to_be_bytes());
}

/// A header with this number, and the send time in these bytes.
pub(super) fn read(time: [u8; 8], sequence: u64) -> Result<Decoded, DecodeError> {
    let word = u64::from_be_bytes(time);
    let (seconds, rest) = (word >> 32, word as u32);
    if rest >= SECOND {
        return Err(DecodeError::Malformed);
    }
    let ns = seconds * 1_000_000_000 + u64::from(rest) * 1000;
    Ok(Decoded { sequence, send_time: Some(SendTime::Full(ns)), ..Decoded::EMPTY })
}

/// The error of a payload that is too short.
pub(super) fn truncated(payload: &[u8], need: usize) -> DecodeError {
    DecodeError::Truncated { have: payload.len(), need }
}
