//! Restores full send times from 32 bits (payloads of 8 to 15 bytes).

/// Restores a send time that crossed the wire as nanoseconds modulo 2^32.
///
/// The receive time, converted to the sender's clock, is the estimate; the result is the nearest time with
/// the same low bits. It is correct as long as the delay plus the error of the offset is below 2^31 ns
/// (2.147 s).
#[derive(Debug, Clone, Copy, Default)]
pub struct Time32Unwrapper {
    offset_ns: i64,
}

impl Time32Unwrapper {
    /// `offset_ns` is the sender's clock minus the receiver's, as in the clock fit for a remote sender.
    pub fn new(offset_ns: i64) -> Self {
        Self { offset_ns }
    }

    /// Replaces the offset.
    pub fn set_offset(&mut self, offset_ns: i64) {
        self.offset_ns = offset_ns;
    }

    /// The full send time on the sender's clock, of a packet received at `received_ns` on the receiver's. Wraps
    /// below zero (clocks that have just started) as two's complement: differences stay right.
    #[inline]
    pub fn unwrap(&self, sent_ns: u32, received_ns: u64) -> u64 {
        let estimate = received_ns.wrapping_add_signed(self.offset_ns);
        let difference = sent_ns.wrapping_sub(estimate as u32) as i32;
        estimate.wrapping_add_signed(i64::from(difference))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn correct_within_half_the_range(sent in 1u64 << 33..1 << 62, offset in -1_000_000_000_000i64..1_000_000_000_000, delay in -2_147_483_647i64..2_147_483_647) {
            let received = sent.wrapping_add_signed(delay).wrapping_add_signed(-offset);
            prop_assert_eq!(Time32Unwrapper::new(offset).unwrap(sent as u32, received), sent);
        }
    }

    #[test]
    fn beyond_half_the_range_the_error_is_the_whole_range() {
        let unwrapper = Time32Unwrapper::new(0);
        let sent = 10_000_000_000u64;
        assert_eq!(unwrapper.unwrap(sent as u32, sent + (1 << 31) + 1), sent + (1 << 32));
    }
}
