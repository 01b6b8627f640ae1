//! Memory for frames between receiving and sending: size classes of fixed slots, identified by a 32-bit
//! handle.
//!
//! A frame is copied once, into the smallest slot that fits. Slots are in chunks of about 256 KiB. A chunk
//! is allocated when its class has no free slot. An empty one is freed when another class needs memory, so
//! that a burst of small packets does not keep the memory forever. Otherwise nothing is allocated.

use std::fmt;

use crate::link::Received;
use crate::segment::Segmentation;
use crate::train::{Released, Trains};

/// Size of each class's slots, bytes: 1536 for a full Ethernet frame with two tags, 9216 for a jumbo frame,
/// the last for the largest frame of segmentation offload (64 KiB and its headers). With the sizes between,
/// a slot and its bookkeeping stay within twice what its frame counts towards the memory limit
/// ([`Slabs::taken_bytes`]).
const SLOT_BYTES: [u32; 13] =
    [128, 256, 512, 1024, 1536, 2048, 4096, 6144, 9216, 16_384, 32_768, 49_152, 66_560];
/// Slots per chunk, as a power of two: chunks of 192 to 288 KiB.
const SLOTS_LOG2: [u32; 13] = [11, 10, 9, 8, 7, 7, 6, 5, 5, 4, 3, 2, 2];
const CLASSES: usize = SLOT_BYTES.len();
const CLASS_BITS: u32 = 4;
/// In place of a class: a segment of a train.
const SEGMENT: usize = CLASSES;
/// No slot: the end of a free list.
const NONE: u32 = u32::MAX;
/// Value in place of a length that marks a free slot.
const FREE: u32 = u32::MAX;

/// Identifies a frame in its [`Slabs`]. Valid until released; then another frame may have the same value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(u32);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SLOT_BYTES.get(self.class()) {
            Some(bytes) => write!(f, "Handle({bytes}:{})", self.index()),
            None => write!(f, "Handle(segment:{})", self.index()),
        }
    }
}

impl Handle {
    pub(crate) const INDEX_BITS: u32 = 32 - CLASS_BITS;

    fn new(class: usize, index: u32) -> Self {
        Handle(index << CLASS_BITS | class as u32)
    }

    /// The handle of a train's segment.
    #[inline]
    pub(crate) fn of_segment(index: u32) -> Self {
        Handle::new(SEGMENT, index)
    }

    /// Whether it is a segment of a super-packet that is kept whole, whose bytes only [`Slabs::frame`] has.
    #[inline]
    #[must_use]
    pub fn is_segment(self) -> bool {
        self.class() == SEGMENT
    }

    #[inline]
    fn class(self) -> usize {
        (self.0 & ((1 << CLASS_BITS) - 1)) as usize
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.0 >> CLASS_BITS
    }

    /// The number itself, for structures that store plain integers.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// A handle from the number that [`Handle::to_bits`] returned.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        // An invalid class is read as the first, so that no number leads out of bounds.
        if (bits & ((1 << CLASS_BITS) - 1)) as usize > SEGMENT { Handle(0) } else { Handle(bits) }
    }
}

#[derive(Clone, Copy)]
struct Slot {
    /// Length of the frame, or [`FREE`].
    len: u32,
    /// Next free slot of the chunk.
    next: u32,
}

struct Chunk {
    bytes: Box<[u8]>,
    slots: Box<[Slot]>,
    free: u32,
    /// Slots from here on were never used, and their memory never accessed.
    fresh: u32,
    used: u32,
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.used as usize == self.slots.len()
    }
}

#[derive(Default)]
struct Class {
    chunks: Vec<Option<Chunk>>,
    /// Chunks with a free slot; the last is used first.
    partial: Vec<u32>,
    /// Indices in `chunks` of freed chunks.
    vacant: Vec<u32>,
    /// Number of chunks without a used slot.
    empty: u32,
}

/// Memory for the frames of one direction.
pub struct Slabs {
    classes: [Class; CLASSES],
    limit_bytes: u64,
    memory_bytes: u64,
    packets: u64,
    max_packets: u64,
    refused: u64,
    trains: Trains,
    /// Room for the bytes of a segment.
    scratch: Vec<u8>,
}

impl fmt::Debug for Slabs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slabs").field("usage", &self.usage()).finish()
    }
}

/// Memory usage of slabs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlabUsage {
    /// Current number of frames.
    pub packets: u64,
    /// Maximum number of frames at one time.
    pub max_packets: u64,
    /// Memory of slots and their bookkeeping, bytes.
    pub memory_bytes: u64,
    /// Maximum memory, bytes.
    pub limit_bytes: u64,
    /// Frames refused for lack of memory: unplanned loss.
    pub refused: u64,
}

impl Slabs {
    /// Maximum length of a frame, bytes.
    pub const MAX_FRAME_BYTES: usize = SLOT_BYTES[CLASSES - 1] as usize;

    /// Memory for a frame of `len` bytes including its slot's bookkeeping; `None` if it is longer than
    /// [`Slabs::MAX_FRAME_BYTES`]. In addition, each class has up to a chunk of unused slots, and the free
    /// slots of chunks that are partly in use.
    #[must_use]
    pub fn taken_bytes(len: usize) -> Option<u64> {
        class_for(len).map(|class| chunk_bytes(class) >> SLOTS_LOG2[class])
    }

    /// Slabs that use at most `limit_bytes` of memory. Nothing is allocated yet.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Slabs {
            classes: std::array::from_fn(|_| Class::default()),
            limit_bytes,
            memory_bytes: 0,
            packets: 0,
            max_packets: 0,
            refused: 0,
            trains: Trains::default(),
            scratch: Vec::new(),
        }
    }

    /// The memory usage.
    #[must_use]
    pub fn usage(&self) -> SlabUsage {
        SlabUsage {
            packets: self.packets,
            max_packets: self.max_packets,
            memory_bytes: self.memory_bytes,
            limit_bytes: self.limit_bytes,
            refused: self.refused,
        }
    }

    /// Allocates memory for `packets` frames of `len` bytes in advance, as far as the cap allows.
    pub fn reserve(&mut self, len: usize, packets: usize) {
        let Some(class) = class_for(len) else { return };
        let chunks = packets.div_ceil(1 << SLOTS_LOG2[class]);
        while self.classes[class].chunks.len() - self.classes[class].vacant.len() < chunks
            && self.grow(class).is_some()
        {}
    }

    /// Stores a copy of a frame. `None` if it is longer than [`Slabs::MAX_FRAME_BYTES`] or the cap is
    /// reached; counted as [`SlabUsage::refused`].
    #[inline]
    pub fn insert(&mut self, frame: &[u8]) -> Option<Handle> {
        let (handle, slot) = self.allocate(frame.len())?;
        slot.copy_from_slice(frame);
        Some(handle)
    }

    pub(crate) fn trains(&self) -> &Trains {
        &self.trains
    }

    pub(crate) fn trains_mut(&mut self) -> &mut Trains {
        &mut self.trains
    }

    /// Makes a train of the super-packet in `slot`, which arrived at `ingress_ns`; returns its segments.
    pub(crate) fn split(
        &mut self,
        slot: Handle,
        segmentation: Segmentation,
        ingress_ns: u64,
    ) -> impl Iterator<Item = Received> + use<> {
        let len = self.bytes(slot).len();
        // The slot itself was counted when it was allocated.
        self.packets += segmentation.segments() as u64 - 1;
        self.max_packets = self.max_packets.max(self.packets);
        let first = self.trains.add(slot, len, segmentation);
        (0..segmentation.segments()).map(move |number| {
            let len = segmentation.len(number) as u32;
            Received { handle: first.plus(number), len, ingress_ns }
        })
    }

    /// Allocates a frame of `len` bytes, which the caller must write: the slot contains bytes of earlier
    /// frames. `None` as for [`Slabs::insert`].
    #[inline]
    pub(crate) fn allocate(&mut self, len: usize) -> Option<(Handle, &mut [u8])> {
        let Some(class) = class_for(len) else {
            self.refused += 1;
            return None;
        };
        let class = if self.classes[class].partial.is_empty() {
            match self.find_class(class) {
                Some(class) => class,
                None => {
                    self.refused += 1;
                    return None;
                }
            }
        } else {
            class
        };
        self.packets += 1;
        self.max_packets = self.max_packets.max(self.packets);
        let (index, bytes) = self.classes[class].take(class, len as u32)?;
        Some((Handle::new(class, index), bytes))
    }

    /// A class with a free slot: this one after growing or after freeing an empty chunk of another class,
    /// else a larger class.
    #[cold]
    fn find_class(&mut self, class: usize) -> Option<usize> {
        if self.grow(class).is_some() {
            return Some(class);
        }
        while self.free_an_empty_chunk() {
            if self.grow(class).is_some() {
                return Some(class);
            }
        }
        (class + 1..CLASSES).find(|&larger| !self.classes[larger].partial.is_empty())
    }

    fn grow(&mut self, class: usize) -> Option<()> {
        let slots = 1_usize << SLOTS_LOG2[class];
        let memory_bytes = self.memory_bytes.checked_add(chunk_bytes(class))?;
        if memory_bytes > self.limit_bytes {
            return None;
        }
        let own = &mut self.classes[class];
        let index = match own.vacant.pop() {
            Some(index) => index,
            // Handles have 28 bits for the slot.
            None if own.chunks.len() << SLOTS_LOG2[class] >= 1 << (32 - CLASS_BITS) => return None,
            None => {
                own.chunks.push(None);
                own.partial.reserve(own.chunks.len() - own.partial.len());
                own.vacant.reserve(own.chunks.len());
                (own.chunks.len() - 1) as u32
            }
        };
        own.chunks[index as usize] = Some(Chunk {
            bytes: vec![0; slots * SLOT_BYTES[class] as usize].into_boxed_slice(),
            slots: vec![Slot { len: FREE, next: NONE }; slots].into_boxed_slice(),
            free: NONE,
            fresh: 0,
            used: 0,
        });
        own.partial.push(index);
        own.empty += 1;
        self.memory_bytes = memory_bytes;
        Some(())
    }

    fn free_an_empty_chunk(&mut self) -> bool {
        let Some(class) = self.classes.iter().position(|class| class.empty > 0) else {
            return false;
        };
        let own = &mut self.classes[class];
        let is_empty = |chunk: &Option<Chunk>| chunk.as_ref().is_some_and(|c| c.used == 0);
        let Some(index) = own.chunks.iter().position(is_empty) else { return false };
        own.chunks[index] = None;
        own.partial.retain(|&other| other as usize != index);
        own.vacant.push(index as u32);
        own.empty -= 1;
        self.memory_bytes -= chunk_bytes(class);
        true
    }

    /// The frame's bytes; empty for a handle that was released and for a segment of a train, which [`Slabs::frame`] has.
    #[inline]
    #[must_use]
    pub fn bytes(&self, handle: Handle) -> &[u8] {
        let class = handle.class();
        if class == SEGMENT {
            return &[];
        }
        let (at, slot) = place(class, handle.index());
        let Some(Some(chunk)) = self.classes[class].chunks.get(at) else { return &[] };
        match chunk.slots[slot].len {
            FREE => &[],
            len => &chunk.bytes[slot * SLOT_BYTES[class] as usize..][..len as usize],
        }
    }

    /// The frame's bytes, mutable; empty for a handle that was released and for a segment of a train, which [`Slabs::own`] copies.
    #[inline]
    pub fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        let class = handle.class();
        if class == SEGMENT {
            return &mut [];
        }
        let (at, slot) = place(class, handle.index());
        let Some(Some(chunk)) = self.classes[class].chunks.get_mut(at) else { return &mut [] };
        match chunk.slots[slot].len {
            FREE => &mut [],
            len => &mut chunk.bytes[slot * SLOT_BYTES[class] as usize..][..len as usize],
        }
    }

    /// The frame's length, bytes; 0 for a handle that was released.
    #[inline]
    #[must_use]
    pub fn len_of(&self, handle: Handle) -> usize {
        if handle.is_segment() { self.trains.len_of(handle) } else { self.bytes(handle).len() }
    }

    /// Stores a second frame with the same bytes. `None` if there is no memory, counted as refused.
    pub fn duplicate(&mut self, handle: Handle) -> Option<Handle> {
        if handle.is_segment() {
            let mut scratch = std::mem::take(&mut self.scratch);
            let is_live = !self.frame(handle, &mut scratch).is_empty();
            let copy = if is_live { self.insert(&scratch) } else { None };
            self.scratch = scratch;
            return copy;
        }
        // If both slots are in one chunk, the bytes are copied within it; else the target chunk is taken
        // out for the time of the copy.
        let len = self.len_of(handle);
        let (copy, _) = self.allocate(len)?;
        let (from, to) = (self.location(handle)?, self.location(copy)?);
        if (from.0, from.1) == (to.0, to.1) {
            let chunk = self.classes[from.0].chunks[from.1].as_mut()?;
            chunk.bytes.copy_within(from.2..from.2 + len, to.2);
        } else {
            let chunk = self.classes[to.0].chunks[to.1].take();
            let mut target = chunk?;
            if let Some(source) = self.classes[from.0].chunks[from.1].as_ref() {
                target.bytes[to.2..to.2 + len].copy_from_slice(&source.bytes[from.2..from.2 + len]);
            }
            self.classes[to.0].chunks[to.1] = Some(target);
        }
        Some(copy)
    }

    /// Class, chunk and offset of a frame's bytes.
    fn location(&self, handle: Handle) -> Option<(usize, usize, usize)> {
        let class = handle.class();
        let (at, slot) = place(class, handle.index());
        self.classes[class].chunks.get(at)?.as_ref()?;
        Some((class, at, slot * SLOT_BYTES[class] as usize))
    }

    /// Releases the frame's slot. A handle that was already released is ignored.
    #[inline]
    pub fn release(&mut self, handle: Handle) {
        if handle.is_segment() {
            return self.release_segment(handle);
        }
        if self.classes[handle.class()].put(handle.class(), handle.index()) {
            self.packets -= 1;
        } else {
            debug_assert!(false, "{handle:?} was released twice");
        }
    }

    fn release_segment(&mut self, segment: Handle) {
        match self.trains.release(segment) {
            Released::Slot(slot) => self.release(slot),
            Released::Segment => self.packets -= 1,
            Released::Nothing => debug_assert!(false, "{segment:?} was released twice"),
        }
    }
}

impl Class {
    #[inline]
    fn take(&mut self, class: usize, len: u32) -> Option<(u32, &mut [u8])> {
        let at = *self.partial.last()?;
        let chunk = self.chunks[at as usize].as_mut()?;
        let slot = if chunk.free == NONE {
            chunk.fresh += 1;
            chunk.fresh - 1
        } else {
            let slot = chunk.free;
            chunk.free = chunk.slots[slot as usize].next;
            slot
        };
        if chunk.used == 0 {
            self.empty -= 1;
        }
        chunk.used += 1;
        if chunk.is_full() {
            self.partial.pop();
        }
        chunk.slots[slot as usize] = Slot { len, next: NONE };
        let start = slot as usize * SLOT_BYTES[class] as usize;
        Some((at << SLOTS_LOG2[class] | slot, &mut chunk.bytes[start..][..len as usize]))
    }

    #[inline]
    fn put(&mut self, class: usize, index: u32) -> bool {
        let (at, slot) = place(class, index);
        let Some(Some(chunk)) = self.chunks.get_mut(at) else { return false };
        if chunk.slots[slot].len == FREE {
            return false;
        }
        if chunk.is_full() {
            self.partial.push(at as u32);
        }
        chunk.slots[slot] = Slot { len: FREE, next: chunk.free };
        chunk.free = slot as u32;
        chunk.used -= 1;
        if chunk.used == 0 {
            self.empty += 1;
        }
        true
    }
}

/// Chunk and slot of an index.
#[inline]
fn place(class: usize, index: u32) -> (usize, usize) {
    let log2 = SLOTS_LOG2[class];
    ((index >> log2) as usize, (index & ((1 << log2) - 1)) as usize)
}

fn chunk_bytes(class: usize) -> u64 {
    u64::from(SLOT_BYTES[class] + size_of::<Slot>() as u32) << SLOTS_LOG2[class]
}

#[inline]
fn class_for(len: usize) -> Option<usize> {
    SLOT_BYTES.iter().position(|&size| len <= size as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_that_fill_a_chunk_have_their_reported_lengths() {
        for (size, slots) in SLOT_BYTES.into_iter().zip(SLOTS_LOG2) {
            let (len, count) = (size as usize, 1_u64 << slots);
            let mut slabs = Slabs::new(1 << 20);
            for _ in 0..count {
                assert!(slabs.insert(&vec![0; len]).is_some(), "{len}");
            }
            let reported = Slabs::taken_bytes(len).unwrap();
            assert_eq!(slabs.usage().memory_bytes, count * reported, "{len}");
        }
        assert_eq!(Slabs::taken_bytes(Slabs::MAX_FRAME_BYTES + 1), None);
    }

    #[test]
    fn a_million_small_packets_stay_below_300_mib() {
        let mut slabs = Slabs::new(300 << 20);
        for i in 0..1_000_000_u32 {
            let mut frame = [0; 64];
            frame[..4].copy_from_slice(&i.to_ne_bytes());
            assert!(slabs.insert(&frame).is_some(), "{i}");
        }
        assert_eq!(slabs.usage().packets, 1_000_000);
        assert!(slabs.usage().memory_bytes < 160 << 20, "{:?}", slabs.usage());
    }

    #[test]
    fn frames_beyond_the_cap_are_refused_and_counted() {
        let mut slabs = Slabs::new(1 << 20);
        let handles: Vec<_> = std::iter::from_fn(|| slabs.insert(&[7; 100])).collect();
        let usage = slabs.usage();
        assert!(usage.memory_bytes <= 1 << 20 && usage.refused == 1, "{usage:?}");
        assert_eq!(usage.packets, handles.len() as u64);
        slabs.release(handles[5]);
        assert!(slabs.insert(&[7; 100]).is_some());
        assert!(slabs.insert(&[0; Slabs::MAX_FRAME_BYTES + 1]).is_none());
        assert_eq!(slabs.usage().refused, 2);
    }

    #[test]
    fn empty_chunks_of_one_class_are_freed_for_another() {
        let mut slabs = Slabs::new(1 << 20);
        let handles: Vec<_> = std::iter::from_fn(|| slabs.insert(&[7; 100])).collect();
        assert!(slabs.insert(&[1; 9000]).is_none());
        for handle in handles {
            slabs.release(handle);
        }
        let large = slabs.insert(&[1; 9000]).expect("the small ones' chunks are empty");
        assert_eq!(slabs.bytes(large), [1; 9000]);
        assert!(slabs.usage().memory_bytes <= 1 << 20);
    }

    #[test]
    fn a_larger_slot_is_used_before_a_frame_is_refused() {
        let mut slabs = Slabs::new(chunk_bytes(5));
        assert!(slabs.insert(&[1; 2000]).is_some());
        let small = slabs.insert(&[2; 60]).expect("there is room in larger slots");
        assert_eq!(slabs.bytes(small), [2; 60]);
        slabs.release(small);
        assert!(slabs.bytes(small).is_empty());
    }

    #[test]
    fn reserved_frames_allocate_nothing() {
        let mut slabs = Slabs::new(8 << 20);
        slabs.reserve(60, 4096);
        let before = slabs.usage().memory_bytes;
        for _ in 0..4096 {
            slabs.insert(&[0; 60]);
        }
        assert_eq!(slabs.usage().memory_bytes, before);
    }

    proptest! {
        #[test]
        fn frames_keep_their_bytes(
            steps in prop::collection::vec((0_usize..4, 0_usize..20_000, any::<u8>(), any::<prop::sample::Index>()), 1..300),
        ) {
            let mut slabs = Slabs::new(6 << 20);
            let mut handles: Vec<(Handle, usize, u8)> = Vec::new();
            for (what, len, fill, which) in steps {
                match what {
                    0 if !handles.is_empty() => {
                        let (handle, ..) = handles.swap_remove(which.index(handles.len()));
                        slabs.release(handle);
                    }
                    1 if !handles.is_empty() => {
                        let (handle, len, fill) = handles[which.index(handles.len())];
                        if let Some(copy) = slabs.duplicate(handle) {
                            handles.push((copy, len, fill));
                        }
                    }
                    _ => {
                        // Mostly short frames, as on real networks.
                        let len = if what == 2 { len % 200 } else { len };
                        if let Some(handle) = slabs.insert(&vec![fill; len]) {
                            handles.push((Handle::from_bits(handle.to_bits()), len, fill));
                        }
                    }
                }
                prop_assert!(slabs.usage().memory_bytes <= 6 << 20);
                prop_assert_eq!(slabs.usage().packets, handles.len() as u64);
            }
            for &(handle, len, fill) in &handles {
                prop_assert_eq!(slabs.len_of(handle), len);
                prop_assert!(slabs.bytes(handle).iter().all(|&b| b == fill));
            }
            for (handle, ..) in handles {
                slabs.release(handle);
            }
            let empty: u32 = slabs.classes.iter().map(|c| c.empty).sum();
            let chunks: usize = slabs.classes.iter().map(|c| c.chunks.iter().flatten().count()).sum();
            prop_assert_eq!(empty as usize, chunks);
        }
    }
}
