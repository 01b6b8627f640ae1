//! A hierarchical timing wheel (Varghese and Lauck, 1987) with nanosecond resolution. The entries of the
//! current slot are sorted, so that none is early and the order is by time, then by number.
//!
//! A level has 256 slots, those of the lowest level 4096 ns long; seven levels cover all 64 bits. An entry
//! is on the highest level at which its slot number differs from the current one (as with the timers of
//! Linux and tokio), so that all entries of a level precede those of the next. Each slot stores its
//! earliest time.

use crate::pool::{List, Pool};

const SLOT_BITS: u32 = 12;
const LEVEL_BITS: u32 = 8;
const SLOTS: usize = 1 << LEVEL_BITS;
const LEVELS: usize = 7;

/// A timed entry. Entries of equal times are ordered by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    pub(crate) time: u64,
    pub(crate) number: u64,
    pub(crate) item: u32,
}

#[derive(Debug)]
struct Level {
    /// One bit for each occupied slot.
    used: [u64; SLOTS / 64],
    lists: [List; SLOTS],
    earliest: [u64; SLOTS],
}

impl Level {
    fn new() -> Self {
        Self { used: [0; 4], lists: [List::EMPTY; SLOTS], earliest: [u64::MAX; SLOTS] }
    }

    /// The first occupied slot.
    #[inline]
    fn first(&self) -> Option<usize> {
        let word = self.used.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.used[word].trailing_zeros() as usize)
    }
}

/// The wheel.
#[derive(Debug)]
pub(crate) struct Wheel {
    levels: Box<[Level; LEVELS]>,
    pool: Pool<Timer>,
    /// Entries of the current slot or earlier, latest first.
    ready: Vec<Timer>,
    /// Number of the current slot, time ≫ 12. All entries on the levels are in later slots.
    present: u64,
    len: usize,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self {
            levels: Box::new(std::array::from_fn(|_| Level::new())),
            pool: Pool::new(),
            ready: Vec::with_capacity(1024),
            present: 0,
            len: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a timer.
    #[inline]
    pub(crate) fn insert(&mut self, timer: Timer) {
        self.len += 1;
        if timer.time >> SLOT_BITS <= self.present {
            let at = self.ready.partition_point(|other| *other > timer);
            self.ready.insert(at, timer);
            return;
        }
        let node = self.pool.insert(timer);
        self.place(node, timer.time);
    }

    /// Adds a node in a later slot to its level.
    #[inline]
    fn place(&mut self, node: u32, time: u64) {
        let slot = time >> SLOT_BITS;
        let level = (63 - (slot ^ self.present).leading_zeros()) / LEVEL_BITS;
        let index = (slot >> (level * LEVEL_BITS)) as usize & (SLOTS - 1);
        let level = &mut self.levels[level as usize];
        level.used[index / 64] |= 1 << (index % 64);
        level.earliest[index] = level.earliest[index].min(time);
        self.pool.push_back(&mut level.lists[index], node);
    }

    /// The time of the earliest timer; `u64::MAX` when there is none.
    #[inline]
    pub(crate) fn next_time(&self) -> u64 {
        if let Some(timer) = self.ready.last() {
            return timer.time;
        }
        if self.len == 0 {
            return u64::MAX;
        }
        let level = self.levels.iter().find_map(|level| Some(level.earliest[level.first()?]));
        level.unwrap_or(u64::MAX)
    }

    /// Advances the current slot towards that of `now`, at most to the first slot with a ready entry.
    fn advance(&mut self, now: u64) {
        let target = now >> SLOT_BITS;
        while self.present < target && self.ready.is_empty() {
            let next =
                self.levels.iter().enumerate().find_map(|(n, level)| Some((n, level.first()?)));
            let Some((n, index)) = next else { break };
            let shift = n as u32 * LEVEL_BITS;
            let above = self.present >> (shift + LEVEL_BITS);
            let slot = (above << LEVEL_BITS | index as u64) << shift;
            if slot > target {
                break;
            }
            // There are no entries between the old current slot and this one.
            self.present = slot;
            let level = &mut self.levels[n];
            let mut list = std::mem::replace(&mut level.lists[index], List::EMPTY);
            level.used[index / 64] &= !(1 << (index % 64));
            level.earliest[index] = u64::MAX;
            while let Some(node) = self.pool.pop_front(&mut list) {
                let time = self.pool.get(node).time;
                if time >> SLOT_BITS == slot {
                    let timer = self.pool.remove(node);
                    self.ready.push(timer);
                } else {
                    self.place(node, time);
                }
            }
            self.ready.sort_unstable_by(|a, b| b.cmp(a));
        }
        if self.ready.is_empty() {
            self.present = self.present.max(target);
        }
    }

    /// The earliest timer, if it is due at `now`.
    #[inline]
    pub(crate) fn peek(&mut self, now: u64) -> Option<Timer> {
        if self.len == 0 {
            return None;
        }
        // Entries on the levels are later than all ready ones.
        if self.ready.is_empty() {
            self.advance(now);
        }
        self.ready.last().copied().filter(|timer| timer.time <= now)
    }

    /// Removes and returns the earliest timer, if it is due at `now`.
    #[inline]
    pub(crate) fn pop(&mut self, now: u64) -> Option<Timer> {
        let timer = self.peek(now)?;
        self.ready.pop();
        self.len -= 1;
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BinaryHeap;

    #[test]
    fn far_and_near() {
        let mut wheel = Wheel::new();
        for (number, time) in
            [u64::MAX - 1, 0, 5, 1 << 40, 4096, 4095, 1 << 20].into_iter().enumerate()
        {
            wheel.insert(Timer { time, number: number as u64, item: 0 });
        }
        let mut out = vec![];
        while wheel.len() > 0 {
            let next = wheel.next_time();
            assert!(next == 0 || wheel.pop(next - 1).is_none());
            out.push(wheel.pop(next).unwrap().time);
        }
        assert_eq!(out, [0, 5, 4095, 4096, 1 << 20, 1 << 40, u64::MAX - 1]);
        assert_eq!(wheel.next_time(), u64::MAX);
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_a_heap(steps in prop::collection::vec((0u64..40, 0u32..34, any::<u64>()), 1..400)) {
            let mut wheel = Wheel::new();
            let mut heap = BinaryHeap::new();
            let mut now = 1_000_000u64;
            for (number, (forward, bits, random)) in steps.into_iter().enumerate() {
                now += (random >> 20) & ((1 << forward) - 1);
                let time = now + (random & ((1 << bits) - 1));
                let timer = Timer { time, number: number as u64, item: number as u32 };
                wheel.insert(timer);
                heap.push(std::cmp::Reverse(timer));
                prop_assert_eq!(wheel.next_time(), heap.peek().unwrap().0.time);
                // Sometimes skip the expired timers, to be late with them.
                if random % 3 == 0 {
                    continue;
                }
                while heap.peek().is_some_and(|t| t.0.time <= now) {
                    prop_assert_eq!(wheel.pop(now), heap.pop().map(|t| t.0));
                }
                prop_assert_eq!(wheel.pop(now), None);
                prop_assert_eq!(wheel.len(), heap.len());
            }
            while let Some(timer) = heap.pop() {
                prop_assert_eq!(wheel.pop(timer.0.time), Some(timer.0));
            }
        }
    }
}
