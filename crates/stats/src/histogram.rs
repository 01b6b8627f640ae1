//! A log-linear histogram that allocates memory only for the ranges in use.
//!
//! The cells are those of HdrHistogram with three significant digits and a lowest value of 1, so that an
//! export loses nothing. An HdrHistogram up to one hour takes 270 KiB per flow from the start; this one
//! takes 128 bytes for each 32 neighbouring cells in use.

use hdrhistogram::serialization::{Serializer, V2Serializer};

/// Values below this have a cell each; above, every octave has half as many cells.
const LINEAR: u64 = 2048;
const LINEAR_BITS: u32 = 11;
const HALF: u64 = LINEAR / 2;
const PAGE: usize = 32;
const PAGE_BITS: u32 = 5;
/// Larger values are counted in the cell of this value (2^48 ns are three days), which bounds the page
/// table.
const MAX_VALUE: u64 = (1 << 48) - 1;
/// Cells up to that of the largest value.
pub(crate) const CELLS: usize = ((48 - LINEAR_BITS as usize) + 2) * HALF as usize;

/// Counts of non-negative integers with three significant digits: a cell spans at most 1/1024 of its value.
/// Values above 2^48 − 1 are counted in its cell; the maximum is exact.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Page number plus one, of each group of cells; 0 for a group never used.
    table: Vec<u16>,
    cells: Vec<[u32; PAGE]>,
    /// Cells that passed 2^32: cell and number of wraps.
    wraps: Vec<(usize, u64)>,
    count: u64,
    max: u64,
}

/// Minimum number of samples for a meaningful percentile: 10 beyond it, so 10 / (1 − q).
pub(crate) fn samples_needed(quantile: f64) -> f64 {
    // 10 / (1 − 0.99) is a little more than 1000 in binary.
    (10.0 / (1.0 - quantile) * (1.0 - 1e-9)).ceil()
}

#[inline]
pub(crate) fn cell_of(value: u64) -> usize {
    let value = value.min(MAX_VALUE);
    let octave = (value | (LINEAR - 1)).ilog2() + 1 - LINEAR_BITS;
    (u64::from(octave) * HALF + (value >> octave)) as usize
}

/// Lowest and highest value of a cell.
pub(crate) fn bounds(cell: usize) -> (u64, u64) {
    let cell = cell as u64;
    if cell < LINEAR {
        return (cell, cell);
    }
    let octave = cell / HALF - 1;
    let low = (cell - octave * HALF) << octave;
    (low, low + (1 << octave) - 1)
}

impl Histogram {
    /// An empty histogram; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates memory for all values up to `value` (128 bytes for each 32 cells) and the whole page
    /// table, so that counting these values allocates nothing.
    pub fn reserve(&mut self, value: u64) {
        let groups = (cell_of(MAX_VALUE) >> PAGE_BITS) + 1;
        self.table.resize(groups.max(self.table.len()), 0);
        let pages = (cell_of(value) >> PAGE_BITS) + 1;
        self.cells.reserve(pages.saturating_sub(self.cells.len()));
    }

    /// Counts `value`.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let cell = cell_of(value);
        self.count += 1;
        if value > self.max {
            self.max = value;
        }
        let page = match self.table.get(cell >> PAGE_BITS) {
            Some(&page) if page != 0 => usize::from(page) - 1,
            _ => self.page(cell),
        };
        let slot = &mut self.cells[page][cell & (PAGE - 1)];
        *slot = slot.wrapping_add(1);
        if *slot == 0 {
            self.wrap(cell, 1);
        }
    }

    /// Counts `value` as `times` values.
    pub fn record_n(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let cell = cell_of(value);
        self.count += times;
        self.max = self.max.max(value);
        let page = self.page(cell);
        let slot = &mut self.cells[page][cell & (PAGE - 1)];
        let sum = u64::from(*slot) + times;
        *slot = sum as u32;
        if sum >> 32 > 0 {
            self.wrap(cell, sum >> 32);
        }
    }

    #[cold]
    fn page(&mut self, cell: usize) -> usize {
        let group = cell >> PAGE_BITS;
        if self.table.len() <= group {
            self.table.resize(group + 1, 0);
        }
        if self.table[group] == 0 {
            self.cells.push([0; PAGE]);
            // At most 40 octaves of 32 pages: it fits.
            self.table[group] = self.cells.len() as u16;
        }
        usize::from(self.table[group]) - 1
    }

    #[cold]
    fn wrap(&mut self, cell: usize, times: u64) {
        match self.wraps.iter_mut().find(|(other, _)| *other == cell) {
            Some((_, wraps)) => *wraps += times,
            None => self.wraps.push((cell, times)),
        }
    }

    /// Number of values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value, exactly.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Cells in use from low to high: lowest value, highest value, count.
    pub fn cells(&self) -> impl DoubleEndedIterator<Item = (u64, u64, u64)> + '_ {
        self.table.iter().enumerate().filter(|&(_, &page)| page != 0).flat_map(
            move |(group, &page)| {
                let counts = &self.cells[usize::from(page) - 1];
                (0..PAGE).filter_map(move |offset| {
                    let cell = group * PAGE + offset;
                    let wraps =
                        self.wraps.iter().find(|(other, _)| *other == cell).map_or(0, |w| w.1);
                    let count = u64::from(counts[offset]) + (wraps << 32);
                    let (low, high) = bounds(cell);
                    (count > 0).then_some((low, high, count))
                })
            },
        )
    }

    /// The value at rank `rank` (1 is the smallest): the top of its cell, but never above the exact maximum.
    pub(crate) fn value_at_rank(&self, rank: u64) -> Option<u64> {
        let mut below = 0;
        for (_, high, count) in self.cells() {
            below += count;
            if below >= rank {
                return Some(high.min(self.max));
            }
        }
        None
    }

    /// The quantile `quantile` (0 to 1) by nearest rank, when at least 10 / (1 − q) values were counted.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let rank = rank_of(quantile, self.count)?;
        self.value_at_rank(rank)
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (_, high, count) in other.cells() {
            self.record_n(high.min(other.max), count);
        }
    }

    /// Bytes allocated on the heap.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.table.capacity() * 2 + self.cells.capacity() * PAGE * 4 + self.wraps.capacity() * 16
    }

    /// HdrHistogram's V2 encoding (uncompressed, three significant digits, lowest value 1) in base 64: the form
    /// named `hdr-v2` in a run record. Absent when nothing was counted.
    pub fn to_hdr_v2(&self) -> Option<String> {
        encode_hdr_v2(self.cells().map(|(_, high, count)| (high.min(self.max), count)))
    }
}

/// Rank (from 1) of a quantile among `count` values by the nearest-rank rule, when there are enough of them.
pub(crate) fn rank_of(quantile: f64, count: u64) -> Option<u64> {
    if !(0.0..1.0).contains(&quantile) || (count as f64) < samples_needed(quantile) {
        return None;
    }
    // A product like 0.99 × 1000 must not be rounded up to the next rank by its last bit.
    let rank = (quantile * count as f64 * (1.0 - 1e-12)).ceil() as u64;
    Some(rank.clamp(1, count))
}

/// HdrHistogram V2 in base 64 of values with their counts.
pub(crate) fn encode_hdr_v2(values: impl Iterator<Item = (u64, u64)>) -> Option<String> {
    let mut histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, MAX_VALUE, 3).ok()?;
    for (value, count) in values {
        histogram.saturating_record_n(value.min(MAX_VALUE), count);
    }
    if histogram.is_empty() {
        return None;
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes).ok()?;
    Some(base64(&bytes))
}

/// RFC 4648 section 4, with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let group = u32::from_be_bytes(group);
        for place in 0..4 {
            if place <= chunk.len() {
                let index = (group >> (18 - 6 * place)) & 63;
                text.push(char::from(ALPHABET[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference() -> hdrhistogram::Histogram<u64> {
        hdrhistogram::Histogram::new_with_bounds(1, MAX_VALUE, 3).unwrap()
    }

    proptest! {
        #[test]
        fn cells_are_those_of_hdrhistogram(values in prop::collection::vec((any::<u64>(), 16u32..64), 1..200)) {
            let mut ours = Histogram::new();
            let mut theirs = reference();
            for (value, shift) in values {
                ours.record(value >> shift);
                theirs.record(value >> shift).unwrap();
            }
            for (low, high, count) in ours.cells() {
                prop_assert_eq!(theirs.count_at(low), count);
                prop_assert_eq!(theirs.highest_equivalent(low), high);
                prop_assert_eq!(theirs.lowest_equivalent(high), low);
            }
            prop_assert_eq!(ours.cells().map(|cell| cell.2).sum::<u64>(), theirs.len());
            for rank in [1, theirs.len() / 2 + 1, theirs.len()] {
                let value = ours.value_at_rank(rank).unwrap();
                let expected = theirs.value_at_quantile((rank as f64 - 0.5) / theirs.len() as f64);
                prop_assert_eq!(value, expected.min(ours.max));
            }
        }

        #[test]
        fn an_export_reads_back_the_same(values in prop::collection::vec((0u64..1 << 48, 1u64..1 << 40), 1..50)) {
            let mut ours = Histogram::new();
            let mut theirs = reference();
            for &(value, times) in &values {
                ours.record_n(value, times);
                theirs.record_n(value, times).unwrap();
            }
            let bytes = unbase64(&ours.to_hdr_v2().unwrap());
            let read: hdrhistogram::Histogram<u64> =
                hdrhistogram::serialization::Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
            prop_assert_eq!(read, theirs);
        }
    }

    fn unbase64(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut bits = 0u32;
        let mut pending = 0;
        for character in text.trim_end_matches('=').bytes() {
            let value = match character {
                b'A'..=b'Z' => character - b'A',
                b'a'..=b'z' => character - b'a' + 26,
                b'0'..=b'9' => character - b'0' + 52,
                b'+' => 62,
                _ => 63,
            };
            bits = bits << 6 | u32::from(value);
            pending += 6;
            if pending >= 8 {
                pending -= 8;
                bytes.push((bits >> pending) as u8);
            }
        }
        bytes
    }

    #[test]
    fn base64_of_rfc_4648() {
        for (plain, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn percentiles_need_ten_samples_beyond() {
        for (quantile, needed) in
            [(0.5, 20), (0.9, 100), (0.99, 1000), (0.999, 10_000), (0.99999, 1_000_000)]
        {
            let mut histogram = Histogram::new();
            histogram.record_n(7, needed - 1);
            assert_eq!(histogram.quantile(quantile), None, "{quantile}");
            histogram.record(7);
            assert_eq!(histogram.quantile(quantile), Some(7), "{quantile}");
        }
        assert_eq!(Histogram::new().quantile(0.0), None);
        assert_eq!(Histogram::new().max(), None);
    }

    #[test]
    fn nearest_rank() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|value| histogram.record(value));
        assert_eq!(histogram.quantile(0.5), Some(500));
        assert_eq!(histogram.quantile(0.99), Some(990));
    }

    #[test]
    fn a_cell_counts_past_32_bits() {
        let mut histogram = Histogram::new();
        histogram.record_n(5, u64::from(u32::MAX));
        histogram.record(5);
        histogram.record(5);
        assert_eq!(histogram.cells().next(), Some((5, 5, (1 << 32) + 1)));
    }

    #[test]
    fn memory_follows_use() {
        assert_eq!(Histogram::new().heap_bytes(), 0);
        let mut histogram = Histogram::new();
        (20_000..40_000).for_each(|value| histogram.record(value));
        assert!(histogram.heap_bytes() < 10_000, "{}", histogram.heap_bytes());
        for bit in 0..64 {
            histogram.record(u64::MAX >> bit);
        }
        assert_eq!(histogram.max(), Some(u64::MAX));
        assert!(histogram.heap_bytes() < 24_000, "{}", histogram.heap_bytes());
    }
}
