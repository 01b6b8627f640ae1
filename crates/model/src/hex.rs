//! Bytes as lower-case hexadecimal digits.

use std::fmt::Write;

/// Two digits per byte.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of digits in either case; `None` for other characters and for an odd number of digits.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = |pair: &[u8]| -> Option<u8> {
        let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
        u8::try_from(digit(0)? << 4 | digit(1)?).ok()
    };
    text.as_bytes().chunks(2).map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_reverses_encoding() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        assert_eq!(encode(&[0, 0x0f, 0xa0]), "000fa0");
        assert_eq!(decode("FfA0"), Some(vec![0xff, 0xa0]));
        for wrong in ["f", "0g", "+1", "ä0", "00 "] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
