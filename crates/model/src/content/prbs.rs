//! Pseudo-random binary sequences of bit error testers: ITU-T O.150 (05/96), clauses 5.1 to 5.8.

/// A maximum-length sequence of 2^n − 1 bits. It begins with n ones at byte 0, first bit first (most significant).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prbs(&'static Generator);

/// A shift register whose last stage and `tap` are added modulo 2.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Generator {
    order: u8,
    tap: u8,
    inverted: bool,
}

static GENERATORS: [Generator; 7] = [
    Generator { order: 9, tap: 5, inverted: false },
    Generator { order: 11, tap: 9, inverted: false },
    Generator { order: 15, tap: 14, inverted: true },
    Generator { order: 20, tap: 3, inverted: false },
    Generator { order: 23, tap: 18, inverted: true },
    Generator { order: 29, tap: 27, inverted: true },
    Generator { order: 31, tap: 28, inverted: true },
];

impl Prbs {
    /// Orders n of the sequences.
    pub const ORDERS: &'static [u8] = &[9, 11, 15, 20, 23, 29, 31];

    /// The sequence of 2^`order` − 1 bits; `None` unless O.150 has it.
    #[must_use]
    pub fn of_order(order: u8) -> Option<Prbs> {
        GENERATORS.iter().find(|generator| generator.order == order).map(Prbs)
    }

    /// Its order n.
    #[must_use]
    pub fn order(self) -> u8 {
        self.0.order
    }

    /// Fills `out` with the bytes from `offset` on; offsets wrap at 2⁶⁴.
    pub(super) fn fill(self, offset: u64, out: &mut [u8]) {
        let until_wrap =
            usize::try_from(u64::MAX - offset).map_or(out.len(), |n| n.saturating_add(1));
        let (before, after) = out.split_at_mut(out.len().min(until_wrap));
        self.fill_from(offset, before);
        if !after.is_empty() {
            self.fill_from(0, after);
        }
    }

    fn fill_from(self, offset: u64, out: &mut [u8]) {
        let Generator { order, tap, inverted } = *self.0;
        let period = (1 << order) - 1;
        let mut next = self.bits_at(offset % period * 8 % period);
        for byte in out {
            let mut value = 0;
            for _ in 0..8 {
                value = value << 1 | (next & 1) as u8;
                // Bit k + n is the sum of bits k + n − tap and k.
                let new = (next >> (order - tap) ^ next) & 1;
                next = next >> 1 | new << (order - 1);
            }
            *byte = if inverted { !value } else { value };
        }
    }

    /// The n bits from `position` on, the first one lowest. They are those sums of the first bits that
    /// x^position modulo the characteristic polynomial x^n + x^(n − tap) + 1 names.
    fn bits_at(self, position: u64) -> u64 {
        let Generator { order, tap, .. } = *self.0;
        let reduced = |mut product: u64| {
            for degree in (order..2 * order).rev() {
                if product >> degree & 1 == 1 {
                    product ^= 1 << degree | 1 << (degree - tap) | 1 << (degree - order);
                }
            }
            product
        };
        let mut power = 1u64;
        for bit in (0..order).rev() {
            let square = (0..order).filter(|&i| power >> i & 1 == 1).map(|i| power << i);
            power = reduced(square.fold(0, |sum, term| sum ^ term));
            if position >> bit & 1 == 1 {
                power = reduced(power << 1);
            }
        }
        let mut first = (1u64 << order) - 1;
        for i in order..2 * order - 1 {
            first |= (first >> (i - tap) ^ first >> (i - order)) << i & 1 << i;
        }
        (0..order).map(|i| u64::from((first >> i & power).count_ones() & 1) << i).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes() {
        let mut bytes = [0; 4];
        Prbs::of_order(9).unwrap().fill(0, &mut bytes);
        assert_eq!(bytes, [0xff, 0x83, 0xdf, 0x17]);
        Prbs::of_order(15).unwrap().fill(0, &mut bytes);
        // Fifteen ones, then the zeros of 1 ⊕ 1, inverted.
        assert_eq!(bytes[..3], [0x00, 0x01, 0xff]);
    }

    /// The property that defines a maximum-length sequence: all windows of n bits but the zeros, each once.
    #[test]
    fn every_window_occurs_once() {
        for order in [9, 11, 15] {
            let prbs = Prbs::of_order(order).unwrap();
            let period = (1u64 << order) - 1;
            let mut seen = vec![false; 1 << order];
            for position in 0..period {
                let window = prbs.bits_at(position) as usize;
                assert!(window != 0 && !std::mem::replace(&mut seen[window], true), "{order}");
            }
        }
    }

    /// Far positions agree with the recurrence, which the registers of a tester compute.
    #[test]
    fn far_bits_follow_the_recurrence() {
        for generator in &GENERATORS {
            let Generator { order, tap, .. } = *generator;
            let prbs = Prbs(generator);
            for position in [1u64 << 8, (1 << order) - 5, 123_456_789 % ((1 << order) - 1)] {
                let (now, then) = (prbs.bits_at(position), prbs.bits_at(position + 1));
                assert_eq!(then & !(1 << (order - 1)), now >> 1, "{order}");
                assert_eq!(then >> (order - 1), (now >> (order - tap) ^ now) & 1, "{order}");
            }
        }
    }
}
