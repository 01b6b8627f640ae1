//! CRC-32 of IEEE 802.3 (polynomial 0x04C11DB7, bits reflected, all ones before and after).
//!
//! It detects every burst of up to 32 changed bits and, at the lengths of control messages, every change of
//! up to 3 bits: errors that an Internet checksum may not detect, or that the path hides by repairing that
//! checksum.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < table.len() {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 0 { value >> 1 } else { value >> 1 ^ 0xedb8_8320 };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
}

/// The CRC-32 of some bytes.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| crc >> 8 ^ TABLE[(crc as u8 ^ byte) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_check_value() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
