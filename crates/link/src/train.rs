//! Trains: super-packets that are kept whole between receiving and sending.
//!
//! Each segment has a handle of its own, so that it can be delayed, dropped, copied and changed as any frame; its bytes are made
//! only where they are needed. Segments that leave in a row become one super-packet again ([`Run`]), whose checksums and
//! segmentation the sending interface does. The slot of a train is used until its last segment has been released.

use crate::segment::{Segmentation, VnetHeader};
use crate::slabs::{Handle, Slabs};

/// Bits of a handle's index for the number of the segment; the others are that of the train.
const SEGMENT_BITS: u32 = 10;
const MAX_SEGMENTS: usize = 1 << SEGMENT_BITS;
const MAX_TRAINS: usize = 1 << (Handle::INDEX_BITS - SEGMENT_BITS);
/// Maximum size of the headers of a train: Ethernet, IPv4 and TCP with options.
pub(crate) const MAX_HEADER_BYTES: usize = 14 + 60 + 60;

/// The train of a segment, and its number there.
#[inline]
fn place(segment: Handle) -> (usize, usize) {
    let index = segment.index() as usize;
    (index >> SEGMENT_BITS, index & (MAX_SEGMENTS - 1))
}

/// A super-packet in a slot.
#[derive(Clone, Copy)]
struct Train {
    slot: Handle,
    segmentation: Segmentation,
    /// Memory of the slot, bytes.
    memory_bytes: u64,
    /// Segments that have not been released; 0: the entry is free.
    live: u32,
}

/// What the release of a segment leaves.
pub(crate) enum Released {
    /// The train has others.
    Segment,
    /// It was the last one: the slot of its train is to be released.
    Slot(Handle),
    /// It was released before.
    Nothing,
}

/// The trains of one direction.
#[derive(Default)]
pub(crate) struct Trains {
    all: Vec<Train>,
    free: Vec<u32>,
    /// Memory of their slots, and how much may be used, bytes.
    memory_bytes: u64,
    pub(crate) limit_bytes: u64,
}

impl Trains {
    /// Whether there is memory for one more.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        let taken = Slabs::taken_bytes(len).unwrap_or(u64::MAX);
        self.memory_bytes.saturating_add(taken) <= self.limit_bytes
            && (self.all.len() < MAX_TRAINS || !self.free.is_empty())
    }

    fn of(&self, segment: Handle) -> Option<(&Train, usize)> {
        let (train, number) = place(segment);
        let train = self.all.get(train)?;
        (number < train.segmentation.segments() && train.live > 0).then_some((train, number))
    }

    /// Adds the super-packet in `slot`, which is `len` bytes long; returns the handle of its first segment. Those of the others
    /// follow.
    pub(crate) fn add(&mut self, slot: Handle, len: usize, segmentation: Segmentation) -> Handle {
        let live = segmentation.segments() as u32;
        let memory_bytes = Slabs::taken_bytes(len).unwrap_or(0);
        let train = Train { slot, segmentation, memory_bytes, live };
        self.memory_bytes += memory_bytes;
        let place = match self.free.pop() {
            Some(place) => {
                self.all[place as usize] = train;
                place
            }
            None => {
                self.all.push(train);
                // Releasing a train never allocates.
                self.free.reserve(self.all.len());
                self.all.len() as u32 - 1
            }
        };
        Handle::of_segment(place << SEGMENT_BITS)
    }

    /// Releases a segment.
    pub(crate) fn release(&mut self, segment: Handle) -> Released {
        let (place, _) = place(segment);
        let Some(train) = self.all.get_mut(place).filter(|train| train.live > 0) else {
            return Released::Nothing;
        };
        train.live -= 1;
        if train.live > 0 {
            return Released::Segment;
        }
        self.memory_bytes -= train.memory_bytes;
        self.free.push(place as u32);
        Released::Slot(train.slot)
    }

    /// Length of a segment's frame; 0 if it was released.
    pub(crate) fn len_of(&self, segment: Handle) -> usize {
        self.of(segment).map_or(0, |(train, number)| train.segmentation.len(number))
    }
}

impl Segmentation {
    /// Whether a super-packet can be kept as a train.
    pub(crate) fn is_train(&self, frame: &[u8]) -> bool {
        (2..=MAX_SEGMENTS).contains(&self.segments())
            && self.is_plain()
            && !self.has_flag_of_first(frame)
    }
}

/// Consecutive segments of a train.
pub(crate) struct Run<'a> {
    frame: &'a [u8],
    segmentation: &'a Segmentation,
    first: usize,
    /// How many.
    pub(crate) count: usize,
}

impl<'a> Run<'a> {
    /// The longest run at the start of `frames`, of at most `most` segments; `None` if the first is no segment.
    pub(crate) fn at_start(slabs: &'a Slabs, frames: &[Handle], most: usize) -> Option<Run<'a>> {
        let &segment = frames.first().filter(|frame| frame.is_segment())?;
        let (train, first) = slabs.trains().of(segment)?;
        let follow = frames.windows(2).take_while(|pair| pair[1].follows(pair[0])).count();
        Some(Run {
            frame: slabs.bytes(train.slot),
            segmentation: &train.segmentation,
            first,
            count: most.clamp(1, 1 + follow),
        })
    }

    /// Length of the longest segment's frame, bytes.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.segmentation.len(self.first)
    }

    /// Writes the kernel's description of the packet and its headers; returns how many bytes.
    pub(crate) fn write_head(&self, to: &mut [u8; VnetHeader::LEN + MAX_HEADER_BYTES]) -> usize {
        let (vnet, headers) = to.split_at_mut(VnetHeader::LEN);
        let headers = &mut headers[..self.segmentation.header_bytes()];
        vnet.copy_from_slice(&self.segmentation.vnet(self.count));
        self.segmentation.write_headers(self.frame, self.first, self.count, headers);
        VnetHeader::LEN + headers.len()
    }

    pub(crate) fn payload(&self) -> &'a [u8] {
        self.segmentation.payload(self.frame, self.first, self.count)
    }
}

impl Handle {
    /// Whether this is the segment after another one of its train.
    #[inline]
    #[must_use]
    pub fn follows(self, before: Handle) -> bool {
        self.is_segment()
            && before.is_segment()
            && self.index() == before.index() + 1
            && place(self).1 != 0
    }

    /// The segment of the same train `count` after this one.
    #[inline]
    pub(crate) fn plus(self, count: usize) -> Handle {
        Handle::of_segment(self.index() + count as u32)
    }
}

impl Slabs {
    /// Keeps super-packets whole as long as their slots take at most `limit_bytes`, for links that can send them.
    pub fn keep_trains(&mut self, limit_bytes: u64) {
        self.trains_mut().limit_bytes = limit_bytes;
    }

    /// The bytes of a frame, which are made in `scratch` if it is a segment of a train; empty for a handle that was released.
    #[inline]
    #[must_use]
    pub fn frame<'a>(&'a self, handle: Handle, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        if handle.is_segment() { self.segment(handle, scratch) } else { self.bytes(handle) }
    }

    fn segment<'a>(&'a self, handle: Handle, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let Some((train, number)) = self.trains().of(handle) else { return &[] };
        scratch.resize(train.segmentation.len(number), 0);
        train.segmentation.write(self.bytes(train.slot), number, scratch);
        scratch
    }

    /// The payload of a segment that is a UDP datagram; `None` for any other frame.
    #[must_use]
    pub fn datagram(&self, segment: Handle) -> Option<&[u8]> {
        let (train, number) = segment.is_segment().then(|| self.trains().of(segment))??;
        let frame = self.bytes(train.slot);
        train.segmentation.is_udp().then(|| train.segmentation.payload(frame, number, 1))
    }

    /// A frame with these bytes and a slot of its own: this frame unless it is a segment of a train. `None` if there is no memory,
    /// counted as refused. The segment is released in either case.
    pub fn own(&mut self, handle: Handle) -> Option<Handle> {
        if !handle.is_segment() {
            return Some(handle);
        }
        let own = self.duplicate(handle);
        self.release(handle);
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::complete_at;
    use crate::checksum::tests::partial_frame;
    use weir_wire::packet::protocol;

    const TCP_FLAGS: usize = 13;

    /// Super-packets of each kind, with the payload of their segments.
    fn super_packets() -> Vec<(Vec<u8>, u16)> {
        let payload: Vec<u8> = (0..5000_u32).map(|i| (i * 7) as u8).collect();
        let mut all = Vec::new();
        for (v6, network) in [(false, 20), (true, 40)] {
            let mut tcp = partial_frame(v6, protocol::TCP, &[], &payload);
            // Without CWR.
            tcp[14 + network + TCP_FLAGS] &= 0x7f;
            all.push((tcp, 1448));
            all.push((partial_frame(v6, protocol::UDP, &[], &payload), 1000));
        }
        all
    }

    fn segmentation(frame: &[u8], size: u16) -> Segmentation {
        Segmentation::plan(frame, &VnetHeader::of_super_packet(frame, size)).expect("it is sound")
    }

    fn segments(frame: &[u8], plan: &Segmentation) -> Vec<Vec<u8>> {
        let write = |number| {
            let mut bytes = vec![0; plan.len(number)];
            plan.write(frame, number, &mut bytes);
            bytes
        };
        (0..plan.segments()).map(write).collect()
    }

    /// Slabs with one train, and its segments.
    fn kept(frame: &[u8], plan: Segmentation) -> (Slabs, Vec<Handle>) {
        let mut slabs = Slabs::new(1 << 20);
        slabs.keep_trains(1 << 16);
        assert!(slabs.trains().has_room(frame.len()) && plan.is_train(frame));
        let slot = slabs.insert(frame).expect("there is room");
        let handles = slabs.split(slot, plan, 5).map(|received| received.handle).collect();
        (slabs, handles)
    }

    #[test]
    fn segments_have_the_bytes_of_frames() {
        for (frame, size) in super_packets() {
            let plan = segmentation(&frame, size);
            let (mut slabs, handles) = kept(&frame, plan);
            let expected = segments(&frame, &plan);
            for (handle, expected) in handles.iter().zip(&expected) {
                assert!(slabs.bytes(*handle).is_empty());
                assert_eq!(slabs.frame(*handle, &mut vec![9; 3]), expected);
                assert_eq!(slabs.len_of(*handle), expected.len());
                let copy = slabs.duplicate(*handle).expect("there is room");
                assert_eq!(slabs.bytes(copy), expected);
                let own = slabs.own(*handle).expect("there is room");
                assert_eq!(slabs.bytes(own), expected);
                assert_eq!(slabs.own(own), Some(own));
            }
            assert_eq!(slabs.usage().packets, 2 * expected.len() as u64);
            // The train is gone with its last segment.
            assert_eq!(slabs.trains().memory_bytes, 0);
            assert!(slabs.frame(handles[0], &mut vec![9; 3]).is_empty());
        }
    }

    #[test]
    fn a_run_is_a_super_packet_of_its_segments() {
        for (frame, size) in super_packets() {
            let plan = segmentation(&frame, size);
            let (slabs, handles) = kept(&frame, plan);
            let expected = segments(&frame, &plan);
            for first in 0..handles.len() {
                for count in 1..=handles.len() - first {
                    let run = Run::at_start(&slabs, &handles[first..], count).expect("a run");
                    assert_eq!(run.count, count);
                    let mut head = [0; VnetHeader::LEN + MAX_HEADER_BYTES];
                    let len = run.write_head(&mut head);
                    let vnet = VnetHeader::read(head.first_chunk().expect("it is longer"));
                    let mut packet = [&head[VnetHeader::LEN..len], run.payload()].concat();
                    let of_run = if count == 1 {
                        assert!(!vnet.is_super_packet());
                        assert!(complete_at(
                            &mut packet,
                            vnet.csum_start.into(),
                            vnet.csum_offset.into()
                        ));
                        vec![packet]
                    } else {
                        let plan = Segmentation::plan(&packet, &vnet).expect("it is sound");
                        segments(&packet, &plan)
                    };
                    assert_eq!(of_run, expected[first..first + count], "{first} {count}");
                }
            }
        }
    }

    #[test]
    fn a_run_ends_where_segments_are_missing_or_of_another_train() {
        let (frame, size) = super_packets().swap_remove(1);
        let plan = segmentation(&frame, size);
        let (mut slabs, one) = kept(&frame, plan);
        let slot = slabs.insert(&frame).expect("there is room");
        let other: Vec<_> = slabs.split(slot, plan, 5).map(|received| received.handle).collect();
        let plain = slabs.insert(&frame).expect("there is room");
        let count = |slabs: &Slabs, handles: &[Handle]| {
            Run::at_start(slabs, handles, 100).map(|run| run.count)
        };
        assert_eq!(count(&slabs, &[one[0], one[1], one[3]]), Some(2));
        assert_eq!(count(&slabs, &[one[1], one[0]]), Some(1));
        assert_eq!(count(&slabs, &[one[4], other[0], other[1]]), Some(1));
        assert_eq!(count(&slabs, &[one[3], one[4], plain]), Some(2));
        assert_eq!(count(&slabs, &[plain, one[0]]), None);
        assert_eq!(count(&slabs, &[]), None);
        for handle in one {
            slabs.release(handle);
        }
        assert_eq!(count(&slabs, &other), Some(5));
    }

    #[test]
    fn trains_use_no_more_than_their_memory() {
        let (frame, size) = super_packets().swap_remove(0);
        let plan = segmentation(&frame, size);
        let (mut slabs, handles) = kept(&frame, plan);
        let mut further = vec![];
        while slabs.trains().has_room(frame.len()) {
            let slot = slabs.insert(&frame).expect("there is room");
            further.extend(slabs.split(slot, plan, 5).map(|received| received.handle));
        }
        assert!(slabs.trains().memory_bytes <= 1 << 16);
        let (last, others) = handles.split_last().expect("there are four");
        others.iter().for_each(|handle| slabs.release(*handle));
        assert!(!slabs.trains().has_room(frame.len()), "one segment keeps the slot");
        slabs.release(*last);
        assert!(slabs.trains().has_room(frame.len()));
        further.into_iter().for_each(|handle| slabs.release(handle));
        assert_eq!((slabs.usage().packets, slabs.trains().memory_bytes), (0, 0));
        assert!(!Slabs::new(1 << 20).trains().has_room(100), "unless they are wanted");
    }

    #[test]
    fn what_a_card_might_segment_differently_is_no_train() {
        let (mut frame, size) = super_packets().swap_remove(0);
        assert!(segmentation(&frame, size).is_train(&frame));
        assert!(!segmentation(&frame, 5000).is_train(&frame), "a single segment");
        assert!(!segmentation(&frame, 4).is_train(&frame), "more segments than a handle counts");
        frame[14 + 20 + TCP_FLAGS] |= 0x80;
        assert!(!segmentation(&frame, size).is_train(&frame), "CWR");
        let tagged = partial_frame(true, protocol::UDP, &[[0x81, 0, 0, 5]], &[0; 5000]);
        assert!(!segmentation(&tagged, 1000).is_train(&tagged), "a VLAN tag");
        let mut extended = partial_frame(true, protocol::UDP, &[], &[0; 5000]);
        // Destination options of eight bytes.
        extended.splice(54..54, [protocol::UDP, 0, 1, 4, 0, 0, 0, 0]);
        extended[20] = 60;
        let bytes = u16::from_be_bytes([extended[18], extended[19]]) + 8;
        extended[18..20].copy_from_slice(&bytes.to_be_bytes());
        assert!(!segmentation(&extended, 1000).is_train(&extended), "an extension header");
    }
}
