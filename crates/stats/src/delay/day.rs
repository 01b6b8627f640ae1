//! Makes times of day continuous.

/// Length of a day, ns.
const DAY_NS: i64 = 86_400 * 1_000_000_000;

/// Makes send times continuous that start again at each midnight (UTC).
///
/// The estimate is the receive time, at the distance of the first packet; the result is the nearest time with the same time
/// of day. It is correct as long as delays and the drift of the clocks differ by less than 12 h.
#[derive(Debug, Clone, Copy, Default)]
pub struct DayUnwrapper {
    /// The sender's clock minus the receiver's, at the first packet or as stated.
    offset_ns: Option<i64>,
}

impl DayUnwrapper {
    /// `offset_ns` is the sender's clock minus the receiver's. With an unknown one (`Default`) times are of an arbitrary day.
    #[must_use]
    pub fn new(offset_ns: i64) -> Self {
        Self { offset_ns: Some(offset_ns) }
    }

    /// The send time of a packet that was sent at `of_day_ns` and received at `received_ns` on the receiver's clock.
    #[inline]
    pub fn unwrap(&mut self, of_day_ns: u64, received_ns: u64) -> u64 {
        let of_day = of_day_ns as i64;
        // Not the first day, so that a packet from before midnight is not below zero.
        let first = || of_day.wrapping_add(DAY_NS).wrapping_sub(received_ns as i64);
        let offset = *self.offset_ns.get_or_insert_with(first);
        let estimate = received_ns.wrapping_add_signed(offset);
        let ahead = of_day.wrapping_sub(estimate as i64).rem_euclid(DAY_NS);
        let nearest = if ahead > DAY_NS / 2 { ahead - DAY_NS } else { ahead };
        estimate.wrapping_add_signed(nearest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: u64 = DAY_NS as u64;

    proptest! {
        #[test]
        fn a_known_offset_gives_the_time_itself(
            sent in DAY..1 << 62,
            offset in -1_000_000_000_000i64..1_000_000_000_000,
            delay in -DAY_NS / 2 + 1..DAY_NS / 2,
        ) {
            let received = sent.wrapping_add_signed(delay).wrapping_add_signed(-offset);
            prop_assert_eq!(DayUnwrapper::new(offset).unwrap(sent % DAY, received), sent);
        }

        #[test]
        fn differences_are_right_across_midnight(
            start in DAY..1000 * DAY,
            received in 1u64 << 45..1 << 50,
            gaps in proptest::collection::vec(-3_600_000_000_000i64..3_600_000_000_000, 1..40),
        ) {
            let mut unwrapper = DayUnwrapper::default();
            let first = unwrapper.unwrap(start % DAY, received);
            let (mut sent, mut at) = (start, received);
            for gap in gaps {
                sent = sent.wrapping_add_signed(gap);
                at += gap.unsigned_abs();
                // The clocks are allowed to run apart by the difference of a gap from its size.
                if sent.abs_diff(start).abs_diff(at - received) < DAY / 2 && sent >= start {
                    let got = unwrapper.unwrap(sent % DAY, at);
                    prop_assert_eq!(got.wrapping_sub(first) as i64, sent.wrapping_sub(start) as i64);
                }
            }
        }
    }
}
