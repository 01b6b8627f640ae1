//! Recognition of iperf2's clients at a port of several protocols.

use super::codec::{BASE_BYTES, Beginning, NUMBER_BYTES, flag, word};

/// The send time of a datagram without a header is after this, in seconds since 1970: in 2001.
const FIRST_SECOND: u32 = 1_000_000_000;
/// Its number is below this.
const MAX_NARROW: u32 = 1 << 28;

/// Whether a stream that begins with these bytes has a header; `None`: more bytes are needed. Text and zeros are no header: between its flags there are two zero bytes before a number.
pub(super) fn begins_stream(bytes: &[u8]) -> Option<bool> {
    match Beginning::of(*bytes.first_chunk()?) {
        Beginning::Raw => Some(false),
        Beginning::Bounce => Some(true),
        Beginning::Header(_) => is_plausible(bytes),
    }
}

/// Whether a datagram is one of iperf2: by its header, or where it has none, by its number and time. Never `None`.
pub(super) fn is_datagram(bytes: &[u8]) -> Option<bool> {
    let field = |at: usize| word(bytes, at).unwrap_or(u32::MAX);
    let is_time = field(8) < 1_000_000;
    let is_headed = bytes.get(NUMBER_BYTES..).and_then(is_plausible) == Some(true);
    let number = i32::from_ne_bytes(field(0).to_ne_bytes()).unsigned_abs();
    let is_numbered = number < MAX_NARROW && field(4) >= FIRST_SECOND;
    Some(is_time && (is_headed || is_numbered))
}

/// Whether the fields behind the flags are those of a header; `None`: more bytes are needed.
fn is_plausible(bytes: &[u8]) -> Option<bool> {
    let flags = word(bytes, 0)?;
    let is_length = flags & flag::LENGTH == 0 || (flags >> 1 & 0xff) as usize >= BASE_BYTES;
    let is_header = matches!(Beginning::of(flags.to_be_bytes()), Beginning::Header(_));
    if !is_header || !is_length {
        return Some(false);
    }
    let is_number = |word: u32| (1..=u32::from(u16::MAX)).contains(&word);
    Some(is_number(word(bytes, 4)?) && is_number(word(bytes, 8)?))
}

#[cfg(test)]
mod tests {
    use super::super::codec::tests::{STREAMS, bytes};
    use super::*;

    #[test]
    fn headers_are_distinguished_from_data_without_one() {
        let pattern: Vec<u8> = (0..200).map(|i| b' ' + i % 95).collect();
        for text in STREAMS {
            let header = bytes(text);
            assert_eq!(begins_stream(&header), Some(true));
            // Twelve bytes decide.
            assert_eq!(begins_stream(&header[..12]), Some(true));
            assert_eq!([0, 3, 4, 11].map(|n| begins_stream(&header[..n])), [None; 4]);
            let datagram = [&[0; NUMBER_BYTES][..], &header].concat();
            assert_eq!(is_datagram(&datagram), Some(true));
        }
        assert_eq!(begins_stream(&[0, 0x80, 0, 0]), Some(true));
        // ttcp's pattern, text whose first letter has the bit of a header, zeros, and a stated length of 2.
        for data in [&pattern[..], b"Hello, world", &[0; 100], b"HTTP"] {
            let decided = if data.len() < 12 { None } else { Some(false) };
            assert_eq!(begins_stream(data), decided, "{data:?}");
            assert_eq!(is_datagram(data), Some(false), "{data:?}");
        }
        let short = [0x40, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0x13, 0x89];
        assert_eq!(begins_stream(&short), Some(false));
        // Without a header: the number, the second and the microsecond, also of the last one.
        let narrow = |number: i32, second: u32, us: u32| {
            let words = [number.cast_unsigned(), second, us];
            is_datagram(&[words.map(u32::to_be_bytes).concat(), vec![0; 40]].concat())
        };
        assert_eq!(narrow(0, 1_700_000_000, 999_999), Some(true));
        assert_eq!(narrow(-70_000, 1_700_000_000, 0), Some(true));
        assert_eq!(narrow(1, 1_700_000_000, 1_000_000), Some(false));
        assert_eq!(narrow(1, 999_999_999, 0), Some(false));
        assert_eq!(narrow(1 << 28, 1_700_000_000, 0), Some(false));
        assert_eq!(is_datagram(&[]), Some(false));
    }
}
