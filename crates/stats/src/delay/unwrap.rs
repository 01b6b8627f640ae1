//! Send times of 32 bits (payloads of 8 to 15 bytes) made whole again.

/// Restores a send time that crossed the wire as nanoseconds modulo 2^32.
///
/// The receive time, taken to the sender's clock, gives an estimate; the nearest time with the right low bits is
/// the answer. It is right as long as the delay, plus the error of the offset, stays below 2^31 ns (2.147 s).
#[derive(Debug, Clone, Copy, Default)]
pub struct Time32Unwrapper {
    offset_ns: i64,
}

impl Time32Unwrapper {
    /// `offset_ns` is the sender's clock minus the receiver's, as the clock fit gives it for a sender that is remote.
    pub fn new(offset_ns: i64) -> Self {
        Self { offset_ns }
    }

    /// Takes a newer offset.
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
        fn right_within_half_the_range(sent in 1u64 << 33..1 << 62, offset in -1_000_000_000_000i64..1_000_000_000_000, delay in -2_147_483_647i64..2_147_483_647) {
            let received = sent.wrapping_add_signed(delay).wrapping_add_signed(-offset);
            prop_assert_eq!(Time32Unwrapper::new(offset).unwrap(sent as u32, received), sent);
        }
    }

    #[test]
    fn beyond_half_the_range_it_is_off_by_the_whole() {
        let unwrapper = Time32Unwrapper::new(0);
        let sent = 10_000_000_000u64;
        assert_eq!(unwrapper.unwrap(sent as u32, sent + (1 << 31) + 1), sent + (1 << 32));
    }
}
