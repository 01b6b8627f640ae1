//! Fuzz bodies: no input panics, and accepted input is consistent.

use crate::Histogram;

/// Reads a distribution from hostile text and from valid base 64. An accepted one is written and read
/// again.
pub fn fuzz_histogram(data: &[u8]) {
    let encoded = crate::histogram::base64(data);
    let texts = [std::str::from_utf8(data).ok(), Some(encoded.as_str())];
    for text in texts.into_iter().flatten() {
        let Ok(read) = Histogram::from_hdr_v2(text) else { continue };
        assert_eq!(read.cells().map(|(_, _, count)| count).sum::<u64>(), read.count());
        if let Some(text) = read.to_hdr_v2() {
            let again = Histogram::from_hdr_v2(&text);
            assert!(again.is_ok_and(|again| again.cells().eq(read.cells())), "{text}");
        }
    }
}
