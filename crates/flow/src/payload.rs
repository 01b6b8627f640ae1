//! The bytes after the headers: a ring of payload slots, shared by the flows of a worker with equal parameters.
//!
//! Datagram s carries the content of slot s mod `slots`, so both ends know it without sending it: the receiver can
//! verify each byte. Consecutive datagrams differ, and the ring is larger than the window of the compressors found
//! on links, so `random` stays incompressible on the path.

use weir_model::content::{self, Content};
use weir_model::plan::Alignment;

/// Target size of a ring: beyond the window of link compressors (64 KiB at most), several of the longest messages, so
/// that one call sends many, and within a processor's second-level cache.
const RING_BYTES: usize = 384 << 10;
/// Maximum number of datagrams that the kernel segments from one send (UDP_MAX_SEGMENTS since Linux 6.9).
pub const MAX_SEGMENTS: usize = 128;
/// The same in older kernels, and the number that a paced flow sends at once.
pub const FEW_SEGMENTS: usize = 64;
/// Maximum number of bytes of one send.
pub const MAX_MESSAGE: usize = 65_507;

/// Datagrams of `payload` bytes that fit one segmented send of at most `most` of them: at least 1.
pub fn segments_per_message(payload: usize, most: usize) -> usize {
    MAX_MESSAGE.checked_div(payload).map_or(1, |n| n.clamp(1, most.max(1)))
}

/// Slots of a ring for `payload` bytes: whole messages, so that a message never wraps. The same at both ends,
/// whatever their kernels support.
pub(crate) fn ring_slots(payload: usize) -> usize {
    let segments = segments_per_message(payload, MAX_SEGMENTS);
    (RING_BYTES / (payload.max(1) * segments)).clamp(1, 16) * segments
}

/// A ring of payloads.
#[derive(Debug, Clone)]
pub struct PayloadRing {
    bytes: Vec<u8>,
    payload: usize,
    slots: usize,
}

impl PayloadRing {
    /// The ring for datagrams of `payload` bytes.
    pub fn new(content: Content, seed: u64, payload: usize) -> Self {
        let slots = ring_slots(payload);
        let mut bytes = vec![0; payload * slots];
        content::fill(content, seed, 0, &mut bytes);
        PayloadRing { bytes, payload, slots }
    }

    /// The same with `prefix` from byte `at` of each payload on, as far as it fits.
    #[must_use]
    pub fn with_prefix(mut self, at: usize, prefix: &[u8]) -> Self {
        for slot in self.bytes.chunks_exact_mut(self.payload.max(1)) {
            slot.iter_mut().skip(at).zip(prefix).for_each(|(to, from)| *to = *from);
        }
        self
    }

    /// How many of `count` datagrams from `sequence` are contiguous in the ring.
    pub(crate) fn run(&self, sequence: u64, count: usize) -> usize {
        count.min(self.slots - (sequence % self.slots as u64) as usize)
    }

    /// The bytes of `count` datagrams from `sequence`; `count` as [`PayloadRing::run`] allows.
    pub(crate) fn slots_mut(&mut self, sequence: u64, count: usize) -> &mut [u8] {
        let from = (sequence % self.slots as u64) as usize * self.payload;
        &mut self.bytes[from..from + count * self.payload]
    }

    /// The content of datagram `sequence`; the header's place holds the content that the header overwrites.
    pub(crate) fn expected(&self, sequence: u64) -> &[u8] {
        let from = (sequence % self.slots as u64) as usize * self.payload;
        &self.bytes[from..from + self.payload]
    }
}

/// Content of a stream: position p holds byte p mod `period` of the pool.
#[derive(Debug)]
pub struct StreamPool {
    bytes: AlignedBytes,
    period: usize,
}

/// Memory whose address has an alignment.
#[derive(Debug)]
pub struct AlignedBytes {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBytes {
    /// `length` zeros at an address that `alignment` accepts; `None`: at any.
    #[must_use]
    pub fn new(length: usize, alignment: Option<Alignment>) -> Self {
        let memory = vec![0; length + alignment.map_or(0, |a| a.bytes() - 1)];
        let start = alignment.map_or(0, |a| a.padding(memory.as_ptr().addr()));
        let mut bytes = AlignedBytes { memory, start };
        // The memory does not move: its length stays.
        bytes.memory.truncate(start + length);
        bytes
    }
}

impl std::ops::Deref for AlignedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..]
    }
}

impl std::ops::DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}

/// Period of a stream's content: beyond the window of link compressors (64 KiB at most), within a processor's cache.
const STREAM_PERIOD: usize = 128 << 10;
/// Longest period of a content that is kept whole, so that the stream has no break.
const MAX_CONTENT_PERIOD: usize = 1 << 20;

/// Period of a stream: a multiple of the content's own, unless that is too long.
fn stream_period(content: Content) -> usize {
    let own = content.period_bytes().and_then(|period| usize::try_from(period).ok());
    match own.filter(|own| *own <= MAX_CONTENT_PERIOD) {
        Some(own) => (STREAM_PERIOD / own).max(1) * own,
        None => STREAM_PERIOD,
    }
}

impl StreamPool {
    /// A pool that provides up to `most` bytes from any position.
    pub fn new(content: Content, seed: u64, most: usize) -> Self {
        Self::aligned(content, seed, most, None)
    }

    /// A pool whose first byte is at an address that `alignment` accepts.
    #[must_use]
    pub fn aligned(content: Content, seed: u64, most: usize, alignment: Option<Alignment>) -> Self {
        let period = stream_period(content);
        let mut bytes = AlignedBytes::new(period + most, alignment);
        content::fill(content, seed, 0, &mut bytes[..period]);
        for i in period..bytes.len() {
            bytes[i] = bytes[i - period];
        }
        StreamPool { bytes, period }
    }

    /// A whole number of periods, at most `most` bytes.
    pub fn whole_periods(&self, most: usize) -> &[u8] {
        let most = most.min(self.bytes.len());
        &self.bytes[..most - most % self.period]
    }

    /// `length` bytes at `position`; `length` is at most the pool's `most`.
    pub fn at(&self, position: u64, length: usize) -> &[u8] {
        let from = (position % self.period as u64) as usize;
        &self.bytes[from..from + length]
    }

    /// Number of differing bits in `data`, received at `position`.
    pub(crate) fn bit_errors(&self, position: u64, data: &[u8]) -> u64 {
        let most = self.bytes.len() - self.period;
        let mut errors = 0;
        for (i, part) in data.chunks(most.max(1)).enumerate() {
            errors += bit_errors(self.at(position + (i * most.max(1)) as u64, part.len()), part);
        }
        errors
    }
}

/// Number of differing bits of two slices of equal length.
pub(crate) fn bit_errors(a: &[u8], b: &[u8]) -> u64 {
    if a == b {
        return 0;
    }
    a.iter().zip(b).map(|(x, y)| u64::from((x ^ y).count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_never_wrap() {
        for payload in [0, 1, 2, 64, 160, 1472, 9000, 65_507] {
            let slots = ring_slots(payload);
            assert!(payload * slots <= 2 * RING_BYTES, "{payload}");
            let segments = segments_per_message(payload, MAX_SEGMENTS);
            assert_eq!(slots % segments, 0, "{payload}");
            assert!(segments * payload <= MAX_MESSAGE);
            let few = segments_per_message(payload, FEW_SEGMENTS);
            assert!(few <= segments && few <= FEW_SEGMENTS, "{payload}");
        }
    }

    #[test]
    fn both_ends_make_the_same_ring() {
        let mut a = PayloadRing::new(Content::Random, 7, 160);
        let b = PayloadRing::new(Content::Random, 7, 160);
        assert_eq!(a.slots_mut(65, 1), b.expected(65));
        assert_ne!(b.expected(0), b.expected(1));
        let run = b.run(b.slots as u64 - 3, 64);
        assert_eq!(run, 3);
    }

    #[test]
    fn a_prefix_is_in_each_payload_as_far_as_it_fits() {
        let plain = PayloadRing::new(Content::Zeros, 1, 10);
        let ring = plain.clone().with_prefix(8, &[1, 2, 3]);
        for sequence in 0..ring.slots as u64 {
            assert_eq!(ring.expected(sequence), [0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        }
        assert_eq!(plain.clone().with_prefix(10, &[1]).bytes, plain.bytes);
        assert!(PayloadRing::new(Content::Zeros, 1, 0).with_prefix(0, &[1]).bytes.is_empty());
    }

    #[test]
    fn a_content_that_repeats_has_no_break_in_a_stream() {
        for text in ["pattern:010203", "prbs:9", "prbs:15", "prbs:20"] {
            let content: Content = text.parse().unwrap();
            let pool = StreamPool::new(content, 1, 4 << 20);
            let mut expected = vec![0; 3 << 20];
            content::fill(content, 1, 0, &mut expected);
            assert!(pool.at(0, expected.len()) == expected, "{text}");
            let whole = pool.whole_periods(4 << 20);
            assert_eq!(whole.len() as u64 % content.period_bytes().unwrap(), 0, "{text}");
            assert!(whole.len() >= 2 << 20, "{text}");
        }
    }

    #[test]
    fn stream_is_periodic_and_verifiable() {
        let pool = StreamPool::new(Content::Random, 7, 1000);
        let mut data = pool.at(STREAM_PERIOD as u64 - 10, 1000).to_vec();
        assert_eq!(pool.at(0, 5), &data[10..15]);
        assert_eq!(pool.bit_errors(STREAM_PERIOD as u64 - 10, &data), 0);
        data[500] ^= 0b101;
        assert_eq!(pool.bit_errors(STREAM_PERIOD as u64 - 10, &data), 2);
    }
}
