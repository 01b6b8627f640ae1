//! A probability as an integer threshold, and a choice of positions: decisions without rounding.

use crate::Draws;

/// A probability, stored as a threshold for the upper 53 bits of a draw: *u* < *p* exactly, with *u* those bits over 2⁵³.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// The chance of a probability; below 0 is never, above 1 (or not a number) always.
    #[must_use]
    pub fn new(probability: f64) -> Self {
        // n/2⁵³ < p exactly when n < ⌈p·2⁵³⌉; the product is exact, the cast saturates.
        let threshold = (probability.min(1.0) * (1u64 << 53) as f64).ceil();
        Self(threshold as u64)
    }

    /// The chance of a probability in percent.
    #[must_use]
    pub fn percent(percentage: f64) -> Self {
        Self::new(percentage / 100.0)
    }

    /// Whether the event happens, given 64 random bits.
    #[inline]
    #[must_use]
    pub const fn happens(self, bits: u64) -> bool {
        bits >> 11 < self.0
    }

    /// Whether the probability is 0.
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.0 == 0
    }

    /// The probability in effect: the given one, rounded up to a multiple of 2⁻⁵³.
    #[must_use]
    pub fn probability(self) -> f64 {
        self.0 as f64 / (1u64 << 53) as f64
    }
}

/// Fills `out` with distinct numbers below `range`, each set equally likely. Returns the filled part: `out.len()` or
/// `range` numbers, whichever is less. Uses one draw per number (Floyd's algorithm; Bentley, "A sample of
/// brilliance", CACM 1987).
pub fn choose<'o>(draws: &mut Draws, range: u32, out: &'o mut [u32]) -> &'o [u32] {
    let count = out.len().min(range as usize);
    for i in 0..count {
        // Not negative, since i < count ≤ range.
        let last = range - (count - i) as u32;
        // A multiple of 2⁻⁶⁴ off uniform, at most.
        let drawn = ((u128::from(draws.bits()) * (u128::from(last) + 1)) >> 64) as u32;
        out[i] = if out[..i].contains(&drawn) { last } else { drawn };
    }
    &out[..count]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::unit_interval;
    use crate::{Direction, DrawPosition, Philox};
    use proptest::prelude::*;

    fn position(packet: u64) -> DrawPosition {
        DrawPosition { flow: 9, direction: Direction::Forward, slot: 4, packet }
    }

    #[test]
    fn probabilities_0_and_1() {
        assert!(Chance::new(0.0).is_never() && Chance::new(-1.0).is_never());
        assert!(Chance::new(f64::NAN).happens(u64::MAX) == Chance::new(1.0).happens(u64::MAX));
        assert!(Chance::percent(100.0).happens(u64::MAX));
        assert!(!Chance::new(0.0).happens(0));
        assert!(Chance::new(1e-300).happens(0));
    }

    #[test]
    fn choices_are_uniform() {
        // 3 of 10, 20 000 times: each number 6000 ± 4.9 deviations of 65.
        let philox = Philox::new(3);
        let mut counts = [0u32; 10];
        for packet in 0..20_000 {
            let mut out = [0; 3];
            for &n in choose(&mut position(packet).draws(&philox), 10, &mut out) {
                counts[n as usize] += 1;
            }
        }
        assert_eq!(counts.iter().sum::<u32>(), 60_000);
        assert!(counts.iter().all(|c| (5680..6320).contains(c)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn a_threshold_is_a_comparison(p in 0.0f64..=1.0, bits: u64) {
            prop_assert_eq!(Chance::new(p).happens(bits), unit_interval(bits) < p);
        }

        #[test]
        fn chosen_numbers_differ_and_are_in_range(range in 0u32..200, count in 0usize..64, packet: u64) {
            let mut out = vec![0; count];
            let philox = Philox::new(1);
            let mut got = choose(&mut position(packet).draws(&philox), range, &mut out).to_vec();
            prop_assert_eq!(got.len(), count.min(range as usize));
            prop_assert!(got.iter().all(|n| *n < range));
            got.sort_unstable();
            got.dedup();
            prop_assert_eq!(got.len(), count.min(range as usize));
        }
    }
}
