//! Fragments of an IPv4 packet, as a router makes them (RFC 791, section 3.2).

use crate::checksum::Sum;
use crate::packet::{Ethernet, Ipv4, ethertype};

const MORE_FRAGMENTS: u16 = 0x2000;
/// The option that fills in for others.
const NO_OPERATION: u8 = 1;
/// Bit of an option's type: it is in each fragment.
const COPIED: u8 = 0x80;

/// Which part of a packet's data a fragment has. All but the last one of a packet have the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the fragment, from 0.
    pub number: u32,
    /// Bytes of its frame, without check sequence.
    pub frame_bytes: u32,
    /// Whether it is the last one.
    pub is_last: bool,
}

impl Part {
    /// This fragment of the packet in `frame`, as an Ethernet frame without check sequence. A packet that is a fragment itself is cut
    /// into fragments of its datagram. `None` if the frame has no such part or is not IPv4.
    #[must_use]
    pub fn of(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let ethernet = Ethernet::new(frame).ok()?;
        let ip = Ipv4::new(ethernet.payload())
            .ok()
            .filter(|_| ethernet.ethertype() == ethertype::IPV4)?;
        let data = ip.payload();
        let (start, end) = (ethernet.header_len(), ethernet.header_len() + ip.header_len());
        let bytes = (self.frame_bytes as usize).checked_sub(end)?;
        let at = match self.is_last {
            true => data.len().checked_sub(bytes)?,
            false => bytes.checked_mul(self.number as usize)?,
        };
        let part = data.get(at..at.checked_add(bytes)?)?;
        let total = u16::try_from(ip.header_len() + bytes).ok()?;
        let (before, more) = ip.fragment().map_or((0, false), |one| (one.offset, one.more));
        let more = if more || !self.is_last { MORE_FRAGMENTS } else { 0 };
        let place = u16::try_from((before as usize + at) / 8).ok()?;
        let mut out = Vec::with_capacity(end + bytes);
        out.extend(&frame[..end]);
        let header = &mut out[start..];
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[6..8].copy_from_slice(&(place | more).to_be_bytes());
        if self.number > 0 {
            drop_options(&mut header[20..]);
        }
        header[10..12].fill(0);
        let checksum = Sum::new().add_bytes(header).checksum();
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        out.extend(part);
        Some(out)
    }
}

/// Replaces the options that only the first fragment has (RFC 791, section 3.1).
fn drop_options(options: &mut [u8]) {
    let mut at = 0;
    while let Some(kind) = options.get(at).copied().filter(|kind| *kind != 0) {
        let length = if kind == NO_OPERATION {
            1
        } else {
            options.get(at + 1).map_or(0, |length| (*length).into())
        };
        let end = at + length;
        if length == 0 || end > options.len() {
            // Malformed: what follows is unknown.
            return;
        }
        if kind & COPIED == 0 {
            options[at..end].fill(NO_OPERATION);
        }
        at = end;
    }
}

/// The fragments of any frame are valid and have all of its data.
pub(crate) fn fuzz(data: &[u8]) {
    let Some((unit, frame)) = data.split_first() else { return };
    let Some(ip) = Ethernet::new(frame).ok().and_then(|view| Ipv4::new(view.payload()).ok()) else {
        return;
    };
    let (unit, whole) = (8 * usize::from(unit % 16).max(1), ip.payload());
    let end =
        frame.len() - Ethernet::new(frame).map_or(0, |view| view.payload().len()) + ip.header_len();
    let count = whole.len().div_ceil(unit);
    let mut joined = Vec::<u8>::new();
    for number in 0..count {
        let bytes = unit.min(whole.len() - number * unit);
        let part = Part {
            number: number as u32,
            frame_bytes: (end + bytes) as u32,
            is_last: number + 1 == count,
        };
        let Some(fragment) = part.of(frame) else { return };
        assert_eq!(fragment.len(), end + bytes);
        let view = Ethernet::new(&fragment).and_then(|view| Ipv4::new(view.payload()));
        let view = view.unwrap_or_else(|error| panic!("{error}"));
        assert!(view.header_checksum_ok());
        joined.extend(view.payload());
    }
    assert_eq!(joined, whole);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of `header` bytes of IPv4 header, with options, and these data.
    fn frame(options: &[u8], data: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
        let header = 20 + options.len();
        frame.extend([0x40 | (header / 4) as u8, 0]);
        frame.extend(((header + data.len()) as u16).to_be_bytes());
        frame.extend([0, 7, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend(options);
        frame.extend(data);
        frame
    }

    #[test]
    fn parts_have_their_offsets() {
        let data: Vec<u8> = (0..100).collect();
        let mut frame = frame(&[], &data);
        let parts = |frame: &[u8]| -> Vec<(u32, bool, Vec<u8>)> {
            let one = |(number, bytes)| {
                let part = Part { number, frame_bytes: 34 + bytes, is_last: number == 2 }
                    .of(frame)
                    .unwrap();
                let ip = Ipv4::new(&part[14..]).unwrap();
                assert!(ip.header_checksum_ok() && ip.id() == 7 && part[..14] == frame[..14]);
                let place = ip.fragment().unwrap();
                (place.offset, place.more, ip.payload().to_vec())
            };
            [(0_u32, 48_u32), (1, 48), (2, 4)].into_iter().map(one).collect()
        };
        assert_eq!(
            parts(&frame),
            [
                (0, true, data[..48].to_vec()),
                (48, true, data[48..96].to_vec()),
                (96, false, data[96..].to_vec())
            ]
        );
        // A fragment at 800 bytes, with more behind it.
        frame[20..22].copy_from_slice(&0x2064_u16.to_be_bytes());
        let places: Vec<_> = parts(&frame).into_iter().map(|(at, more, _)| (at, more)).collect();
        assert_eq!(places, [(800, true), (848, true), (896, true)]);
        // There is no such part.
        assert_eq!(Part { number: 3, frame_bytes: 82, is_last: false }.of(&frame), None);
        assert_eq!(Part { number: 0, frame_bytes: 33, is_last: true }.of(&frame), None);
    }

    #[test]
    fn only_copied_options_are_in_later_fragments() {
        // Record route, loose source route (copied), end.
        let options = [7, 3, 4, 131, 3, 4, 1, 0];
        let frame = frame(&options, &[0; 24]);
        let part =
            |number| Part { number, frame_bytes: 42 + 8, is_last: number == 2 }.of(&frame).unwrap();
        assert_eq!(part(0)[34..42], options);
        assert_eq!(part(1)[34..42], [1, 1, 1, 131, 3, 4, 1, 0]);
    }
}
