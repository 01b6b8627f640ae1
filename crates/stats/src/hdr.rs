//! Reads distributions of a record, in the form that [`Histogram::to_hdr_v2`] writes and in no other.

use crate::histogram::{CELLS, bounds};
use crate::{Histogram, StatsError};

/// The cookie of HdrHistogram's V2 encoding: its base, and words of one byte or more.
const COOKIE: u32 = 0x1c84_9303 | 0x10;
/// Weir's lowest value, highest value and significant digits.
const SHAPE: (u64, u64, u32) = (1, (1 << 48) - 1, 3);
/// Cookie, length of what follows, normalizing offset, digits, lowest, highest, conversion ratio.
const HEADER_BYTES: usize = 40;
/// Maximum number of values: more than a run can have, and small enough that no sum overflows.
const MAX_VALUES: u64 = 1 << 44;

impl Histogram {
    /// Reads a distribution that `to_hdr_v2` wrote. The largest value is known to within its cell only
    /// (1/1024 of it).
    ///
    /// # Errors
    /// [`StatsError::Encoded`] if the text is not base 64 or not HdrHistogram V2, has another resolution or
    /// range than Weir's, is truncated, or has more than 2^44 values.
    pub fn from_hdr_v2(text: &str) -> Result<Self, StatsError> {
        let refuse = |reason| StatsError::Encoded { reason };
        // The longest encoding has nine bytes for each cell.
        if text.len() / 4 * 3 > HEADER_BYTES + 9 * CELLS + 3 {
            return Err(refuse("too long"));
        }
        let bytes = unbase64(text).ok_or(refuse("not base 64"))?;
        let (header, body) =
            bytes.split_at_checked(HEADER_BYTES).ok_or(refuse("shorter than its header"))?;
        let word = |at: usize| {
            header[at..].iter().take(4).fold(0u32, |word, byte| word << 8 | u32::from(*byte))
        };
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        if word(0) != COOKIE {
            return Err(refuse("not HdrHistogram V2, uncompressed"));
        }
        if (long(16), long(24), word(12)) != SHAPE || word(8) != 0 {
            return Err(refuse("range or resolution is not Weir's"));
        }
        if usize::try_from(word(4)).ok() != Some(body.len()) {
            return Err(refuse("length differs from the header's"));
        }
        let mut histogram = Histogram::new();
        let (mut body, mut cell) = (body, 0usize);
        while !body.is_empty() {
            let (word, rest) = zigzag(body).ok_or(refuse("truncated"))?;
            body = rest;
            if word < 0 {
                // A negative number counts empty cells.
                let skipped = usize::try_from(word.unsigned_abs()).unwrap_or(usize::MAX);
                cell = cell.saturating_add(skipped);
            } else {
                let count = word.unsigned_abs();
                if cell >= CELLS {
                    return Err(refuse("more cells than its range has"));
                }
                if count > MAX_VALUES - histogram.count() {
                    return Err(refuse("more values than a run can have"));
                }
                histogram.record_n(bounds(cell).1, count);
                cell += 1;
            }
        }
        Ok(histogram)
    }
}

/// Decodes a ZigZag LEB128 number of at most nine bytes (eight bits in the ninth); returns it and the rest.
fn zigzag(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0u64;
    for (place, byte) in bytes.iter().take(9).enumerate() {
        let last = place == 8;
        let bits = if last { *byte } else { byte & 0x7f };
        value |= u64::from(bits) << (7 * place);
        if last || byte & 0x80 == 0 {
            let magnitude = (value >> 1) as i64;
            return Some((magnitude ^ -((value & 1) as i64), &bytes[place + 1..]));
        }
    }
    None
}

/// RFC 4648 section 4, padded.
fn unbase64(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut pending) = (0u32, 0);
    for character in digits.bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        pending += 6;
        if pending >= 8 {
            pending -= 8;
            bytes.push((bits >> pending) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_reads_back(values in prop::collection::vec((0u64..1 << 48, 1u64..1 << 38), 1..50)) {
            let mut histogram = Histogram::new();
            for (value, times) in values {
                histogram.record_n(value, times);
            }
            let read = Histogram::from_hdr_v2(&histogram.to_hdr_v2().unwrap()).unwrap();
            prop_assert!(read.cells().eq(histogram.cells()));
            prop_assert_eq!(read.count(), histogram.count());
        }

        #[test]
        fn anything_else_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            crate::fuzz::fuzz_histogram(&bytes);
        }
    }

    #[test]
    fn each_refusal_has_its_reason() {
        let mut histogram = Histogram::new();
        histogram.record_n(1_000_000, 70_000);
        let good = histogram.to_hdr_v2().unwrap();
        let says = |text: &str, reason: &str| {
            let error = Histogram::from_hdr_v2(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        };
        says("?", "base 64");
        says("AAAA", "header");
        says(&good.replacen('H', "I", 1), "HdrHistogram");
        says(&good[..good.len() - 4], "length");
        says(&"A".repeat(4_000_000), "too long");
        let bytes = unbase64(&good).unwrap();
        let mut wide = bytes.clone();
        wide[15] = 2;
        says(&encoded(&wide), "resolution");
        let mut endless = bytes.clone();
        let end = endless.len() - 1;
        endless[end] |= 0x80;
        says(&encoded(&endless), "truncated");
        // 39 936 empty cells, zigzag 79 871, and then one beyond the range.
        let mut beyond = bytes[..HEADER_BYTES].to_vec();
        beyond.extend([0xff, 0xef, 0x04, 0x02]);
        beyond[7] = 4;
        says(&encoded(&beyond), "more cells");
        let mut many = bytes;
        many.extend([0xfe; 9]);
        many[7] += 9;
        says(&encoded(&many), "more values");
    }

    fn encoded(bytes: &[u8]) -> String {
        crate::histogram::base64(bytes)
    }
}
