//! Which random number belongs to which decision: the counter's layout, and draws from it.
//!
//! The layout is fixed (`docs/randomness.md`): a disposition depends only on the seed and the packet's position, not
//! on the number of other flows, laws or packets, nor on the order of the draws.

use crate::Philox;

/// FNV-1a, 32 bits, over the name's UTF-8 bytes: identifies a flow in the counter. A configuration
/// with two flows whose names have the same hash is refused.
#[must_use]
pub const fn flow_hash(name: &str) -> u32 {
    let bytes = name.as_bytes();
    let mut hash = 0x811c_9dc5u32;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    hash
}

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// A→B; from the client.
    Forward = 0,
    /// B→A.
    Reverse = 1,
}

/// The highest number of a law slot.
pub(crate) const MAX_SLOT: u8 = 127;

/// The position of a decision, which determines its draws together with the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DrawPosition {
    /// [`flow_hash`] of the flow's name.
    pub flow: u32,
    /// The packet's direction.
    pub direction: Direction,
    /// Number of the law slot, 0 to [`MAX_SLOT`]; the top bit is ignored.
    pub slot: u8,
    /// Index of the packet in its flow and direction, from 0.
    pub packet: u64,
}

impl DrawPosition {
    /// The counter of block number `block` of this position. From word 0, the least significant: packet index
    /// low, packet index high, flow hash, and direction (1 bit) ‖ slot (7) ‖ block (24, modulo 2²⁴).
    #[inline]
    #[must_use]
    pub(crate) const fn counter(&self, block: u32) -> [u32; 4] {
        let slot = (self.slot & MAX_SLOT) as u32;
        let last = (self.direction as u32) << 31 | slot << 24 | (block & 0x00ff_ffff);
        [self.packet as u32, (self.packet >> 32) as u32, self.flow, last]
    }

    /// The draws of this position, from the first.
    #[inline]
    #[must_use]
    pub const fn draws<'a>(&self, philox: &'a Philox) -> Draws<'a> {
        self.draws_of_copy(philox, 0)
    }

    /// The draws of copy number `copy` of the packet; 0 is the packet itself. Copy *c* begins at block
    /// *c*·2¹⁶, so that each has 2¹⁷ draws of its own.
    #[inline]
    #[must_use]
    pub const fn draws_of_copy<'a>(&self, philox: &'a Philox, copy: u8) -> Draws<'a> {
        Draws { philox, position: *self, next: (copy as u32) << 17, second: 0 }
    }
}

/// The sequence of draws at one [`DrawPosition`]: draw *n* is half *n* mod 2 of block ⌊*n*/2⌋. A position has 2²⁵ of
/// them before they repeat.
#[derive(Clone, Debug)]
pub struct Draws<'a> {
    philox: &'a Philox,
    position: DrawPosition,
    /// Index of the next draw.
    next: u32,
    /// The second half of the block last computed.
    second: u64,
}

impl Draws<'_> {
    /// Index of the packet that they belong to.
    #[inline]
    #[must_use]
    pub const fn packet(&self) -> u64 {
        self.position.packet
    }

    /// Makes `bits` the next draw, in place of draw 1. Only after draw 0 alone was taken.
    #[inline]
    pub const fn replace_next(&mut self, bits: u64) {
        self.second = bits;
    }

    /// The draws of number `number` in place of the packet, those of ordinary packets also for control traffic. For events
    /// that have numbers of their own, such as outages.
    #[inline]
    #[must_use]
    pub const fn of_event(&self, number: u64) -> Self {
        let slot = self.position.slot & !crate::slot::CONTROL;
        let position = DrawPosition { slot, packet: number, ..self.position };
        Draws { philox: self.philox, position, next: 0, second: 0 }
    }

    /// The next draw: 64 random bits. The first half of a block is its words 0 (low) and 1, the second its
    /// words 2 (low) and 3.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let index = self.next;
        self.next = index.wrapping_add(1);
        if index & 1 == 1 {
            return self.second;
        }
        let [a, b, c, d] = self.philox.block(self.position.counter(index >> 1));
        self.second = u64::from(c) | u64::from(d) << 32;
        u64::from(a) | u64::from(b) << 32
    }
}

/// 64 random bits as a number uniform in [0, 1): the upper 53 bits over 2⁵³, which is exact.
#[cfg(test)]
pub(crate) const fn unit_interval(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fnv_as_published() {
        for (name, hash) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(flow_hash(name), hash);
        }
        const _: () = assert!(flow_hash("a") == 0xe40c_292c);
    }

    #[test]
    fn the_layout_as_documented() {
        let position = DrawPosition {
            flow: 0x1122_3344,
            direction: Direction::Reverse,
            slot: 5,
            packet: 0xaabb_ccdd_0102_0304,
        };
        assert_eq!(
            position.counter(0x00ab_cdef),
            [0x0102_0304, 0xaabb_ccdd, 0x1122_3344, 0x85ab_cdef]
        );
    }

    #[test]
    fn draws_step_through_the_blocks() {
        let philox = Philox::new(9);
        let position = DrawPosition { flow: 1, direction: Direction::Forward, slot: 2, packet: 3 };
        let mut draws = position.draws(&philox);
        for block in 0..5 {
            let [a, b, c, d] = philox.block(position.counter(block)).map(u64::from);
            assert_eq!(draws.bits(), a | b << 32);
            assert_eq!(draws.bits(), c | d << 32);
        }
    }

    #[test]
    fn copies_have_blocks_of_their_own() {
        let philox = Philox::new(9);
        let position = DrawPosition { flow: 1, direction: Direction::Forward, slot: 2, packet: 3 };
        for copy in [0, 1, 255] {
            let [a, b, ..] = philox.block(position.counter(u32::from(copy) << 16)).map(u64::from);
            assert_eq!(position.draws_of_copy(&philox, copy).bits(), a | b << 32);
        }
    }

    #[test]
    fn vectors_of_the_documentation() {
        let text = include_str!("../../../docs/randomness.md");
        let mut seen = 0;
        for line in text.lines().filter(|line| line.starts_with("| `0x")) {
            let cells: Vec<_> = line.split('|').map(|c| c.trim().trim_matches('`')).collect();
            let [_, seed, name, direction, slot, packet, draw, bits, uniform, _] = cells[..] else {
                panic!("{line}")
            };
            let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
            let direction = match direction {
                "forward" => Direction::Forward,
                _ => Direction::Reverse,
            };
            let position = DrawPosition {
                flow: flow_hash(name),
                direction,
                slot: slot.parse().unwrap(),
                packet: packet.parse().unwrap(),
            };
            let philox = Philox::new(hex(seed));
            let mut draws = position.draws(&philox);
            for _ in 0..draw.parse().unwrap() {
                draws.bits();
            }
            let got = draws.bits();
            assert_eq!(got, hex(bits), "{line}");
            assert_eq!(unit_interval(got), uniform.parse::<f64>().unwrap(), "{line}");
            seen += 1;
        }
        assert_eq!(seen, 6);
    }

    #[test]
    fn uniform_draws_are_uniform() {
        // 100 000 draws of consecutive packets in 100 cells; the 0.1 % points of chi-square with 99 degrees
        // of freedom are 60 and 149.
        let philox = Philox::new(1);
        let mut cells = [0u32; 100];
        for packet in 0..100_000 {
            let position = DrawPosition { flow: 5, direction: Direction::Forward, slot: 0, packet };
            cells[(unit_interval(position.draws(&philox).bits()) * 100.0) as usize] += 1;
        }
        let chi: f64 = cells.iter().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
        assert!((60.0..149.0).contains(&chi), "{chi}");
        assert_eq!(unit_interval(u64::MAX), 1.0 - 1.0 / (1u64 << 53) as f64);
        assert_eq!(unit_interval(0), 0.0);
        assert_eq!(unit_interval((1 << 11) - 1), 0.0);
    }

    proptest! {
        #[test]
        fn different_positions_have_different_counters(
            a: (u32, bool, u8, u64, u32),
            b: (u32, bool, u8, u64, u32),
            changed in 0usize..6,
        ) {
            // One field changes, so that the test covers the bits of each field.
            let pick = |i: usize| changed == i;
            let mix = (
                if pick(0) { b.0 } else { a.0 },
                if pick(1) { b.1 } else { a.1 },
                if pick(2) { b.2 } else { a.2 } & MAX_SLOT,
                if pick(3) { b.3 } else { a.3 },
                if pick(4) { b.4 } else { a.4 } & 0xff_ffff,
            );
            let a = (a.0, a.1, a.2 & MAX_SLOT, a.3, a.4 & 0xff_ffff);
            let counter = |(flow, reverse, slot, packet, block): (u32, bool, u8, u64, u32)| {
                let direction = if reverse { Direction::Reverse } else { Direction::Forward };
                DrawPosition { flow, direction, slot, packet }.counter(block)
            };
            prop_assert_eq!(counter(a) == counter(mix), a == mix);
        }
    }
}
