//! Ancillary data of received messages, read without trusting its lengths.

use std::mem::offset_of;

const HEADER: usize = size_of::<libc::cmsghdr>();
const ALIGN: usize = size_of::<usize>();

/// One control message: level, type and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlMessage<'a> {
    pub(crate) level: i32,
    pub(crate) kind: i32,
    pub(crate) data: &'a [u8],
}

/// Walks the control messages in `buffer` (`cmsg(3)`); ends at the first that does not fit.
pub(crate) struct ControlMessages<'a> {
    rest: &'a [u8],
}

impl<'a> ControlMessages<'a> {
    pub(crate) fn new(buffer: &'a [u8]) -> Self {
        ControlMessages { rest: buffer }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    array(bytes, at).map(i32::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

impl<'a> Iterator for ControlMessages<'a> {
    type Item = ControlMessage<'a>;

    #[inline]
    fn next(&mut self) -> Option<ControlMessage<'a>> {
        let rest = self.rest;
        // The length is a size_t for the kernel, whatever the C library calls it.
        let len = usize::from_ne_bytes(array(rest, 0)?);
        let level = i32_at(rest, offset_of!(libc::cmsghdr, cmsg_level))?;
        let kind = i32_at(rest, offset_of!(libc::cmsghdr, cmsg_type))?;
        let data = rest.get(HEADER..len)?;
        // A message is at least a header long (checked by the slice), so each round takes something away.
        let next = len.checked_next_multiple_of(ALIGN)?.min(rest.len());
        self.rest = &rest[next..];
        Some(ControlMessage { level, kind, data })
    }
}

/// What Weir has the kernel report with each datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ancillary {
    pub(crate) segment_size: Option<u16>,
    pub(crate) kernel_realtime_ns: Option<u64>,
    pub(crate) hardware_ns: Option<u64>,
    pub(crate) overflow_total: Option<u32>,
    pub(crate) tos: Option<u8>,
    pub(crate) ttl: Option<u8>,
}

/// A `struct timespec` of the kernel (two 64-bit words) as ns; zero means "none".
fn timespec(bytes: &[u8], at: usize) -> Option<u64> {
    let seconds = i64::from_ne_bytes(array(bytes, at)?);
    let nanos = i64::from_ne_bytes(array(bytes, at.checked_add(8)?)?);
    let total = u64::try_from(seconds)
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(u64::try_from(nanos).ok()?)?;
    (total != 0).then_some(total)
}

#[inline]
pub(crate) fn parse_ancillary(buffer: &[u8]) -> Ancillary {
    let mut found = Ancillary::default();
    for message in ControlMessages::new(buffer) {
        let data = message.data;
        match (message.level, message.kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                found.segment_size =
                    i32_at(data, 0).and_then(|v| u16::try_from(v).ok()).filter(|&v| v > 0);
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                // Three stamps: software, (retired), raw hardware.
                found.kernel_realtime_ns = timespec(data, 0);
                found.hardware_ns = timespec(data, 32);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => found.overflow_total = u32_at(data, 0),
            (libc::SOL_IP, libc::IP_TOS) => found.tos = data.first().copied(),
            (libc::SOL_IP, libc::IP_TTL) | (libc::SOL_IPV6, libc::IPV6_HOPLIMIT) => {
                found.ttl = i32_at(data, 0).and_then(|v| u8::try_from(v).ok());
            }
            (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                found.tos = i32_at(data, 0).and_then(|v| u8::try_from(v).ok());
            }
            _ => {}
        }
    }
    found
}

/// Fuzz body: the walk ends, stays inside the buffer, and never yields more messages than headers fit.
pub fn fuzz_control_messages(data: &[u8]) {
    let mut total = 0;
    let mut count = 0;
    for message in ControlMessages::new(data) {
        total += HEADER + message.data.len();
        count += 1;
    }
    assert!(total <= data.len());
    assert!(count <= data.len() / HEADER);
    let found = parse_ancillary(data);
    assert_ne!(found.segment_size, Some(0));
    assert_ne!(found.kernel_realtime_ns, Some(0));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn encode(messages: &[(i32, i32, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (level, kind, data) in messages {
            let mut header = [0_u8; HEADER];
            header[..ALIGN].copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
            let at = offset_of!(libc::cmsghdr, cmsg_level);
            header[at..at + 4].copy_from_slice(&level.to_ne_bytes());
            let at = offset_of!(libc::cmsghdr, cmsg_type);
            header[at..at + 4].copy_from_slice(&kind.to_ne_bytes());
            out.extend(header);
            out.extend(data);
            out.resize(out.len().next_multiple_of(ALIGN), 0);
        }
        out
    }

    #[test]
    fn all_kinds_are_read() {
        let mut stamps = vec![0; 48];
        stamps[0..8].copy_from_slice(&3_i64.to_ne_bytes());
        stamps[8..16].copy_from_slice(&5_i64.to_ne_bytes());
        let bytes = encode(&[
            (libc::SOL_UDP, libc::UDP_GRO, 1472_i32.to_ne_bytes().to_vec()),
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, stamps),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 9_u32.to_ne_bytes().to_vec()),
            (libc::SOL_IP, libc::IP_TOS, vec![0xb8]),
            (libc::SOL_IP, libc::IP_TTL, 64_i32.to_ne_bytes().to_vec()),
        ]);
        let expected = Ancillary {
            segment_size: Some(1472),
            kernel_realtime_ns: Some(3_000_000_005),
            hardware_ns: None,
            overflow_total: Some(9),
            tos: Some(0xb8),
            ttl: Some(64),
        };
        assert_eq!(parse_ancillary(&bytes), expected);
        // Cut inside the last message: the ones before it are still read.
        assert_eq!(parse_ancillary(&bytes[..bytes.len() - 8]), Ancillary { ttl: None, ..expected });
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            messages in prop::collection::vec((any::<i32>(), any::<i32>(), prop::collection::vec(any::<u8>(), 0..40)), 0..6)
        ) {
            let bytes = encode(&messages);
            let back: Vec<_> =
                ControlMessages::new(&bytes).map(|m| (m.level, m.kind, m.data.to_vec())).collect();
            prop_assert_eq!(back, messages);
        }
    }
}
