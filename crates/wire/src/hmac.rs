//! HMAC-SHA-256 truncated to 128 bits (RFC 2104, RFC 4868), as test packets of STAMP have it (RFC 8762, section 4.4).

use std::sync::Arc;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Bytes of a truncated HMAC.
pub const HMAC_BYTES: usize = 16;

/// A key shared by both ends. Its bytes are never printed by `Debug`.
#[derive(Clone)]
pub struct HmacKey(Arc<Hmac<Sha256>>);

impl core::fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HmacKey(..)")
    }
}

impl HmacKey {
    /// A key of any length.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        // A key longer than SHA-256's block is hashed first (RFC 2104, section 2): none is refused.
        Self(Arc::new(
            Mac::new_from_slice(secret).unwrap_or_else(|_| unreachable!("keys have any length")),
        ))
    }

    /// The HMAC of parts in a row.
    #[must_use]
    pub fn of(&self, parts: &[&[u8]]) -> [u8; HMAC_BYTES] {
        let whole = self.after(parts).finalize().into_bytes();
        let mut truncated = [0; HMAC_BYTES];
        truncated.copy_from_slice(&whole[..HMAC_BYTES]);
        truncated
    }

    /// Whether `hmac` is that of parts in a row; it takes as long wherever they differ.
    #[must_use]
    pub fn verifies(&self, parts: &[&[u8]], hmac: &[u8; HMAC_BYTES]) -> bool {
        self.after(parts).verify_truncated_left(hmac).is_ok()
    }

    fn after(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        parts.iter().fold(Hmac::clone(&self.0), |hmac, part| hmac.chain_update(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_rfc_4231_publishes() {
        // Test cases 2, and 6 with a key longer than a block; case 5 is the truncated one.
        let jefe = HmacKey::new(b"Jefe");
        let hex = |bytes: [u8; 16]| u128::from_be_bytes(bytes);
        let parts: [&[u8]; 2] = [b"what do ya want ", b"for nothing?"];
        assert_eq!(hex(jefe.of(&parts)), 0x5bdc_c146_bf60_754e_6a04_2426_0895_75c7);
        let truncated = HmacKey::new(&[0x0c; 20]);
        let wanted = 0xa3b6_1674_7310_0ee0_6e0c_796c_2955_552b;
        assert_eq!(hex(truncated.of(&[b"Test With Truncation"])), wanted);
        let long = HmacKey::new(&[0xaa; 131]);
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(long.of(&[text])), 0x60e4_3159_1ee0_b67f_0d8a_26aa_cbf5_b77f);
        let good = long.of(&[text]);
        assert!(long.verifies(&[text], &good) && !jefe.verifies(&[text], &good));
        for bit in 0..128 {
            let damaged = (u128::from_be_bytes(good) ^ (1 << bit)).to_be_bytes();
            assert!(!long.verifies(&[text], &damaged));
        }
    }
}
