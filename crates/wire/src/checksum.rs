//! Internet checksums: RFC 1071 sums, the pseudo headers of IPv4 (RFC 768, 9293) and IPv6 (RFC 8200 §8.1),
//! and incremental update (RFC 1624).
//!
//! ```
//! use weir_wire::checksum::{Sum, update16};
//! let mut bytes = [0x45, 0, 0, 20, 1, 2, 3, 4];
//! let before = Sum::new().add_bytes(&bytes).checksum();
//! bytes[2..4].copy_from_slice(&[0, 60]);
//! assert_eq!(update16(before, 20, 60), Sum::new().add_bytes(&bytes).checksum());
//! ```

use core::net::{Ipv4Addr, Ipv6Addr};

/// A running ones' complement sum of 16-bit big-endian words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Sum(u64);

/// Adds with end-around carry: 2⁶⁴ ≡ 1 mod 2¹⁶ − 1.
#[inline(always)]
fn add_around(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

impl Sum {
    /// The empty sum.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds `bytes`, an odd last byte padded with zero. Only the last part of a message may have an odd
    /// length.
    #[inline]
    pub fn add_bytes(self, bytes: &[u8]) -> Self {
        // A sum of 64-bit words folds to the same value, since 2¹⁶ ≡ 1.
        let (words, rest) = bytes.as_chunks::<8>();
        let mut sum = self.0;
        for word in words {
            sum = add_around(sum, u64::from_be_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        Self(add_around(sum, u64::from_be_bytes(last)))
    }

    /// Adds one 16-bit word.
    #[inline]
    pub fn add_u16(self, word: u16) -> Self {
        Self(add_around(self.0, word.into()))
    }

    /// Adds the pseudo header of a transport packet over IPv4. `length` is the length of the transport
    /// packet in bytes, also for UDP-Lite (RFC 3828 §3.2).
    #[inline]
    pub fn add_pseudo_v4(self, from: Ipv4Addr, to: Ipv4Addr, protocol: u8, length: u16) -> Self {
        self.add_bytes(&from.octets())
            .add_bytes(&to.octets())
            .add_u16(protocol.into())
            .add_u16(length)
    }

    /// Adds the pseudo header of a transport packet over IPv6. `protocol` is the upper-layer protocol after
    /// extension headers, `length` the length of the transport packet in bytes.
    #[inline]
    pub fn add_pseudo_v6(self, from: Ipv6Addr, to: Ipv6Addr, protocol: u8, length: u32) -> Self {
        self.add_bytes(&from.octets())
            .add_bytes(&to.octets())
            .add_bytes(&length.to_be_bytes())
            .add_u16(protocol.into())
    }

    /// The folded sum. Over a message including a correct checksum it is 0xFFFF.
    #[inline]
    #[must_use]
    pub const fn folded(self) -> u16 {
        let mut sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        ((sum >> 16) + (sum & 0xffff)) as u16
    }

    /// The checksum: the complement of the folded sum.
    #[inline]
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// The checksum for UDP and UDP-Lite: 0xFFFF instead of 0, which means "none" there (RFC 768).
    #[inline]
    #[must_use]
    pub const fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            sum => sum,
        }
    }
}

/// The checksum after a 16-bit word at an even offset changed from `old` to `new`: RFC 1624, equation 3.
///
/// The result equals a new computation, except that all-zero data may result in either of the two zeros.
/// For UDP a result of 0 has to be sent as 0xFFFF, and a checksum of 0 ("none") must not be updated.
#[inline]
#[must_use]
pub const fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    let mut sum = !checksum as u32 + !old as u32 + new as u32;
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 as written: one word at a time.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u32::from(b));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn published_examples() {
        // RFC 1071 §3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().add_bytes(&bytes).folded(), 0xddf2);
        // RFC 1624 §4: the case that equation 2 gets wrong.
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn udp_never_sends_zero() {
        let sum = Sum::new().add_bytes(&[0xff, 0xff]);
        assert_eq!((sum.checksum(), sum.udp_checksum()), (0, 0xffff));
        assert_eq!(Sum::new().add_bytes(&[0xff, 0xfe]).udp_checksum(), 1);
    }

    #[test]
    fn pseudo_headers_have_the_specified_layout() {
        let (a, b) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 19, 0, 2));
        let laid = [198, 18, 0, 1, 198, 19, 0, 2, 0, 17, 0x12, 0x34];
        assert_eq!(Sum::new().add_pseudo_v4(a, b, 17, 0x1234).folded(), plain(&laid));
        let (a, b) = (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1), Ipv6Addr::LOCALHOST);
        let mut laid = a.octets().to_vec();
        laid.extend(b.octets());
        laid.extend([0, 1, 0x12, 0x34, 0, 0, 0, 58]);
        assert_eq!(Sum::new().add_pseudo_v6(a, b, 58, 0x0001_1234).folded(), plain(&laid));
    }

    proptest! {
        #[test]
        fn fast_and_plain_agree(bytes: Vec<u8>, big in 0usize..9000, fill: u8, cut: prop::sample::Index) {
            prop_assert_eq!(Sum::new().add_bytes(&bytes).folded(), plain(&bytes));
            let bytes = vec![fill; big];
            prop_assert_eq!(Sum::new().add_bytes(&bytes).folded(), plain(&bytes));
            let cut = cut.index(big + 1) & !1;
            prop_assert_eq!(Sum::new().add_bytes(&bytes[..cut]).add_bytes(&bytes[cut..]).folded(), plain(&bytes));
        }

        #[test]
        fn a_message_with_its_checksum_sums_to_all_ones(mut bytes in prop::collection::vec(any::<u8>(), 2..200)) {
            bytes[..2].fill(0);
            let sum = Sum::new().add_bytes(&bytes).checksum();
            bytes[..2].copy_from_slice(&sum.to_be_bytes());
            prop_assert_eq!(Sum::new().add_bytes(&bytes).folded(), 0xffff);
        }

        #[test]
        fn an_update_is_a_new_computation(words in prop::collection::vec(any::<u16>(), 2..40), at: prop::sample::Index, new: u16) {
            let at = at.index(words.len());
            let sum = |words: &[u16]| words.iter().fold(Sum::new(), |s, &w| s.add_u16(w)).checksum();
            let before = sum(&words);
            let mut one = words.clone();
            one[at] = new;
            // The two zeros are the same number; both can only result from all-zero data.
            prop_assume!(one.iter().any(|&w| w != 0));
            prop_assert_eq!(update16(before, words[at], new), sum(&one));
        }
    }
}
