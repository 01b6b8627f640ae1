//! Decodes the distributions of a record: HdrHistogram V2 in base 64, as `stats` writes it. The input is untrusted.
//!
//! The library's decoder allocates all cells that a header requests, which may be 100 MB. This one creates only cells in use.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_model::record::Histogram;

/// Maximum length of the base 64 text, bytes: a full histogram of three digits up to three days has less than 512 KiB.
const MAX_TEXT: usize = 4 << 20;
/// Maximum number of cells in use.
const MAX_CELLS: usize = 1 << 18;
/// Bytes before the counts.
const HEADER: usize = 40;
const COOKIE: u32 = 0x1c84_9313;

/// One cell in use: its lowest and highest value in ns, and the number of values in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) count: u64,
}

/// The cells in use, ascending. `None` if the data is not such a histogram.
pub(crate) fn cells(histogram: &Histogram) -> Option<Vec<Cell>> {
    if histogram.encoding != "hdr-v2" || histogram.data.len() > MAX_TEXT {
        return None;
    }
    decode(&STANDARD.decode(&histogram.data).ok()?)
}

fn decode(bytes: &[u8]) -> Option<Vec<Cell>> {
    let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    if word(0)? != COOKIE || word(8)? != 0 {
        return None;
    }
    let length = usize::try_from(word(4)?).ok()?;
    let digits = word(12)?;
    let lowest = long(16)?;
    if digits > 5 || lowest == 0 {
        return None;
    }
    let unit = lowest.ilog2();
    // The number of cells of one unit that resolves `digits` decimal digits, rounded up to a power of two.
    let half_bits = (2 * 10u64.pow(digits) - 1).ilog2();
    let half = 1u64 << half_bits;
    let range = |index: u64| {
        let octave = (index >> half_bits).saturating_sub(1);
        let within = index - octave * half;
        // A cell beyond 64 bits is invalid.
        let shift = octave.checked_add(u64::from(unit))?;
        let shift = u32::try_from(shift).ok().filter(|s| *s < 64)?;
        let low = within.checked_mul(1 << shift)?;
        Some((low, low.checked_add((1u64 << shift) - 1)?))
    };
    let mut counts = Counts { rest: bytes.get(HEADER..HEADER.checked_add(length)?)? };
    let (mut index, mut out) = (0u64, vec![]);
    while !counts.rest.is_empty() {
        let value = counts.next()?;
        if value < 0 {
            // A negative number is a count of empty cells.
            index = index.checked_add(value.unsigned_abs())?;
        } else {
            if value > 0 {
                let (low, high) = range(index)?;
                if out.len() == MAX_CELLS {
                    return None;
                }
                out.push(Cell { low, high, count: value.unsigned_abs() });
            }
            index = index.checked_add(1)?;
        }
    }
    Some(out)
}

/// Zig-zag numbers of 7 bits a byte; a ninth byte has 8.
struct Counts<'a> {
    rest: &'a [u8],
}

impl Counts<'_> {
    fn next(&mut self) -> Option<i64> {
        let mut raw = 0u64;
        for i in 0..9 {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            if i == 8 {
                raw |= u64::from(*byte) << 56;
                break;
            }
            raw |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                break;
            }
        }
        Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }
}

/// Sums of several histograms' cells, ascending.
pub(crate) fn merge(all: &[Vec<Cell>]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = all.iter().flatten().copied().collect();
    cells.sort_by_key(|c| (c.low, c.high));
    let mut out: Vec<Cell> = vec![];
    for cell in cells {
        match out.last_mut().filter(|last| last.low == cell.low) {
            Some(last) => last.count = last.count.saturating_add(cell.count),
            None => out.push(cell),
        }
    }
    out
}

/// Checks that the cells decoded from any bytes ascend and are not empty.
pub(crate) fn fuzz(data: &[u8]) {
    let read = decode(data);
    for cells in read.iter() {
        assert!(cells.windows(2).all(|w| w[0].high < w[1].low), "{cells:?}");
        assert!(cells.iter().all(|c| c.count > 0 && c.low <= c.high));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

    fn encoded(values: &[(u64, u64)], digits: u8) -> (hdrhistogram::Histogram<u64>, Vec<u8>) {
        let mut histogram =
            hdrhistogram::Histogram::<u64>::new_with_bounds(1, (1 << 48) - 1, digits).unwrap();
        for (value, count) in values {
            histogram.record_n(*value, *count).unwrap();
        }
        let mut bytes = vec![];
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        (histogram, bytes)
    }

    /// Found by fuzzing: the maximum number of empty cells, then a count.
    #[test]
    fn a_cell_beyond_64_bits_is_invalid() {
        let bytes =
            b"\x1c\x84\x93\x13\x00\x00\x00\x24\x00\x00\x00\x00\x00\x00\x00\x00\x15\x01\x00\x00\
              \x99\x03\x03\x03\x4d\x4d\x4d\x4d\xb2\xb2\xb2\x1c\x84\x93\x13\x00\x00\x00\x12\x00\
              \xfb\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x30\xff\
              \xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\xfb\xdb\x67\xfb\xfb\x52\xff\xff";
        fuzz(bytes);
        assert_eq!(decode(bytes), None);
    }

    proptest! {
        #[test]
        fn decoded_cells_equal_the_written_ones(
            values in prop::collection::vec((0u64..1 << 48, 1u64..1 << 40), 1..60),
            digits in 1u8..=4,
        ) {
            let (histogram, bytes) = encoded(&values, digits);
            let cells = decode(&bytes).unwrap();
            let theirs: Vec<Cell> = histogram
                .iter_recorded()
                .map(|v| Cell {
                    low: histogram.lowest_equivalent(v.value_iterated_to()),
                    high: histogram.highest_equivalent(v.value_iterated_to()),
                    count: v.count_at_value(),
                })
                .collect();
            prop_assert_eq!(cells, theirs);
        }

        #[test]
        fn damaged_data_does_not_panic(at in 0usize..200, byte in any::<u8>(), cut in 0usize..200) {
            let (_, mut bytes) = encoded(&[(5, 2), (70_000, 3), (1 << 40, u64::MAX >> 20)], 3);
            let at = at % bytes.len();
            bytes[at] = byte;
            fuzz(&bytes);
            bytes.truncate(cut);
            fuzz(&bytes);
        }
    }

    #[test]
    fn invalid_histograms_are_absent() {
        let bad = |encoding: &str, data: &str| {
            cells(&Histogram { encoding: encoding.into(), data: data.into(), ..Default::default() })
        };
        assert_eq!(bad("hdr-v3", "AAAA"), None);
        assert_eq!(bad("hdr-v2", "not base 64!"), None);
        assert_eq!(bad("hdr-v2", "AAAA"), None);
    }

    #[test]
    fn several_histograms_are_merged() {
        let cell = |low, count| Cell { low, high: low, count };
        let merged = merge(&[vec![cell(1, 2), cell(5, 1)], vec![cell(1, u64::MAX), cell(3, 4)]]);
        assert_eq!(merged, [cell(1, u64::MAX), cell(3, 4), cell(5, 1)]);
    }
}
