//! What follows the header of a message: its destination, and that the sender's host and position are unknown.

use std::net::{IpAddr, SocketAddr};

use weir_traffic::session::Framing;
use weir_wire::header::mgen::{flow_and_number, write_head};

/// Maximum length of a message in a datagram, bytes.
pub(super) const MAX_BYTES: u64 = 8192;
/// Minimum and maximum length of a message in a stream, bytes. MGEN divides longer ones.
pub(super) const STREAM_BYTES: (u64, u64) = (76, u16::MAX as u64);
/// Bytes before the destination: those of the header of the data.
const HEADER_BYTES: usize = 20;
/// A latitude or longitude that is unknown: 999 degrees, in units of 1/60000 degree from −180.
const UNKNOWN_DEGREES: u32 = (999 + 180) * 60_000;
/// The unknown altitude.
const UNKNOWN_ALTITUDE: i32 = -999;
/// Port, type and length of an address.
const ADDRESS_HEAD_BYTES: usize = 4;

/// What the payload of each message to `to` begins with after its header; `data`: of the user, up to 16 bytes. A shorter message
/// has as many of these bytes as fit.
pub(super) fn prefix(to: SocketAddr, data: &[u8]) -> Vec<u8> {
    let mut bytes = to.port().to_be_bytes().to_vec();
    match to.ip().to_canonical() {
        IpAddr::V4(ip) => {
            bytes.extend([1, 4]);
            bytes.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.extend([2, 16]);
            bytes.extend(ip.octets());
        }
    }
    // No address of the sending host.
    bytes.extend([0; ADDRESS_HEAD_BYTES]);
    bytes.extend([UNKNOWN_DEGREES.to_be_bytes(); 2].concat());
    bytes.extend(UNKNOWN_ALTITUDE.to_be_bytes());
    // An invalid position, and data of the user.
    bytes.extend([0, 0]);
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Minimum length of a message to `to`, bytes: without a checksum the header and the destination.
pub(super) fn min_bytes(to: SocketAddr, checksum_bytes: usize) -> u64 {
    let address = if to.ip().to_canonical().is_ipv4() { 4 } else { 16 };
    let least = match checksum_bytes {
        0 => HEADER_BYTES + ADDRESS_HEAD_BYTES + address,
        bytes => HEADER_BYTES + prefix(to, &[]).len() + bytes,
    };
    least as u64
}

/// The headers of the messages of a stream: that of datagrams, and the destination. They have no checksum.
#[derive(Debug)]
pub(super) struct Frames {
    flow: u32,
    prefix: Vec<u8>,
}

impl Frames {
    /// `data`: of the user, up to 16 bytes.
    pub(super) fn new(flow: u32, to: SocketAddr, data: &[u8]) -> Frames {
        Frames { flow, prefix: prefix(to, data) }
    }
}

impl Framing for Frames {
    fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.prefix.len()
    }

    fn write(&mut self, number: u64, length: usize, realtime_ns: u64, header: &mut [u8]) {
        let Some((head, rest)) = header.split_first_chunk_mut() else { return };
        write_head(head, length, self.flow, number as u32, realtime_ns);
        for (byte, prefix) in rest.iter_mut().zip(&self.prefix) {
            *byte = *prefix;
        }
    }
}

/// The messages of one flow of a source, from the first one that its session has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Series {
    /// Its flow.
    pub(super) flow: u32,
    /// The first number that is expected.
    pub(super) first: u32,
    /// Numbers have been seen that are so far behind the first that one before it can't be distinguished from a later one.
    is_far: bool,
}

/// A sender whose first message has at most this number has just started: what is missing before it was lost.
const STARTING: u32 = 100;

/// Half of the numbers.
const HALF: u32 = u32::MAX / 2;

/// What a datagram is to a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Belongs {
    /// A message of it.
    Yes,
    /// A message from before its first.
    Before,
    /// A message of another flow.
    Other,
    /// No message.
    No,
}

impl Series {
    /// The series that a message begins; `None`: it is no message.
    pub(super) fn begun_by(datagram: &[u8]) -> Option<Series> {
        let (flow, number) = flow_and_number(datagram)?;
        Some(Series { flow, first: if number <= STARTING { 0 } else { number }, is_far: false })
    }

    /// Whether a datagram of its source belongs to it. Numbers wrap.
    pub(super) fn belongs(&mut self, datagram: &[u8]) -> Belongs {
        match flow_and_number(datagram) {
            None => Belongs::No,
            Some((flow, _)) if flow != self.flow => Belongs::Other,
            Some((_, number)) => {
                let ahead = number.wrapping_sub(self.first);
                if self.first > 0 && !self.is_far && ahead > HALF {
                    return Belongs::Before;
                }
                self.is_far |= (HALF / 2..=HALF).contains(&ahead);
                Belongs::Yes
            }
        }
    }
}

/// Fuzz body: each datagram begins a series that it belongs to, or is no message.
pub fn fuzz_mgen(data: &[u8]) {
    use weir_model::plan::HeaderFormat;
    use weir_wire::header::{Header, TagKey};
    let key = TagKey::for_flow(&[0; 16], 1);
    let decoded = Header::new(HeaderFormat::Mgen, data.len()).decode(&key, data);
    match Series::begun_by(data) {
        None => assert!(decoded.is_err()),
        Some(mut series) => {
            assert_eq!(series.belongs(data), Belongs::Yes);
            if let Ok(decoded) = decoded {
                assert_eq!(decoded.flow, Some(series.flow));
                assert!(decoded.sequence >= u64::from(series.first));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first message of `mgen event "ON 7 UDP DST 127.0.0.1/5000 PERIODIC [2 64] COUNT 3" txchecksum` (5.02b), without the
    /// zeros and the checksum at its end.
    const CAPTURED: &[u8; 48] = b"\x00\x40\x02\x0c\x00\x00\x00\x07\x00\x00\x00\x00\x6b\x0c\x52\x61\x00\x0c\xef\x8b\x13\x88\x01\x04\x7f\x00\x00\x01\x00\x00\x00\x00\x04\x37\x68\x20\x04\x37\x68\x20\xff\xff\xfc\x19\x00\x00\x00\x00";

    #[test]
    fn a_message_states_its_destination_as_mgen_does() {
        let to = "127.0.0.1:5000".parse().unwrap();
        assert_eq!(prefix(to, &[]), CAPTURED[20..]);
        assert_eq!(prefix(to, &[0xca, 0xfe])[26..], [0, 2, 0xca, 0xfe]);
        assert_eq!((min_bytes(to, 0), min_bytes(to, 4)), (28, 52));
        let to: SocketAddr = "[2001:db8::1]:6000".parse().unwrap();
        let six = prefix(to, &[]);
        assert_eq!(six[..8], [0x17, 0x70, 2, 16, 0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!((six.len(), min_bytes(to, 0), min_bytes(to, 4)), (40, 40, 64));
    }

    #[test]
    fn a_message_of_a_stream_is_as_mgen_sends_it() {
        // The second message of `mgen event "ON 7 TCP DST 127.0.0.1/5000 PERIODIC [10 1024] COUNT 3"` (5.02b).
        let captured = b"\x04\x00\x02\x08\x00\x00\x00\x07\x00\x00\x00\x01\x6b\x0c\x89\xc8\x00\x0a\x49\x1e\x13\x88\x01\x04\x7f\x00\x00\x01\x00\x00\x00\x00\x04\x37\x68\x20\x04\x37\x68\x20\xff\xff\xfc\x19\x00\x00\x00\x00";
        let mut frames = Frames::new(7, "127.0.0.1:5000".parse().unwrap(), &[]);
        assert_eq!(frames.header_bytes(), captured.len());
        let mut header = [0xff; 48];
        let ns = 0x6b0c_89c8 * 1_000_000_000 + 0x000a_491e * 1000 + 999;
        frames.write(1, 1024, ns, &mut header);
        assert_eq!(&header, captured);
    }

    fn message(flow: u32, number: u32) -> Vec<u8> {
        let mut bytes = CAPTURED.to_vec();
        bytes[4..8].copy_from_slice(&flow.to_be_bytes());
        bytes[8..12].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    #[test]
    fn a_series_has_one_flow_and_begins_where_it_was_joined() {
        let mut new = Series::begun_by(&message(7, 3)).unwrap();
        assert_eq!((new.flow, new.first), (7, 0));
        assert_eq!(new.belongs(&message(7, 0)), Belongs::Yes);
        assert_eq!(new.belongs(&message(8, 4)), Belongs::Other);
        let mut other = message(7, 1);
        other[2] = 3;
        assert_eq!(new.belongs(&other), Belongs::No);
        let mut joined = Series::begun_by(&message(7, 5000)).unwrap();
        assert_eq!(joined.first, 5000);
        assert_eq!(joined.belongs(&message(7, 4999)), Belongs::Before);
        // In a long series the numbers come around again.
        for number in [1 << 30, 5000 + (1 << 31) - 1, u32::MAX, 4999] {
            assert_eq!(joined.belongs(&message(7, number)), Belongs::Yes, "{number}");
        }
        // Numbers wrap.
        let mut late = Series::begun_by(&message(7, u32::MAX)).unwrap();
        assert_eq!(late.belongs(&message(7, 0)), Belongs::Yes);
        assert_eq!(late.belongs(&message(7, u32::MAX - 1)), Belongs::Before);
    }

    #[test]
    fn mutated_messages_are_read_or_rejected() {
        weir_laws::mutation::replay(&[&CAPTURED[..], &message(7, 5000)], 20_000, fuzz_mgen);
    }
}
