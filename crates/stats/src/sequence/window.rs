//! The bitmap of recently arrived sequence numbers. It starts small and doubles on demand.

/// Bits of one word.
const WORD: u64 = 64;

/// Ring of bits for the sequence numbers `base .. base + capacity`; `base` is a multiple of 64.
/// Bits of numbers never seen are zero.
#[derive(Debug, Clone)]
pub(super) struct Window {
    words: Vec<u64>,
    /// Number of words minus one; the number of words is a power of two.
    mask: u64,
    base: u64,
}

impl Window {
    pub(super) fn new(bytes: usize) -> Self {
        let words = (bytes / 8).max(1).next_power_of_two();
        Self { words: vec![0; words], mask: words as u64 - 1, base: 0 }
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Numbers covered.
    pub(super) fn capacity(&self) -> u64 {
        self.words.len() as u64 * WORD
    }

    /// First number above the window.
    pub(super) fn end(&self) -> u64 {
        self.base.saturating_add(self.capacity())
    }

    pub(super) fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    #[inline]
    fn index(&self, seq: u64) -> usize {
        ((seq / WORD) & self.mask) as usize
    }

    /// Marks `seq`, which must lie in the window.
    #[inline]
    pub(super) fn set(&mut self, seq: u64) {
        let index = self.index(seq);
        self.words[index] |= 1 << (seq % WORD);
    }

    /// Marks `from .. to`, which must lie in the window.
    pub(super) fn set_range(&mut self, from: u64, to: u64) {
        let mut seq = from;
        while seq < to {
            let bits = (WORD - seq % WORD).min(to - seq);
            let ones = if bits == WORD { u64::MAX } else { (1 << bits) - 1 };
            let index = self.index(seq);
            self.words[index] |= ones << (seq % WORD);
            seq += bits;
        }
    }

    /// Whether `seq`, which must lie in the window, is marked.
    #[inline]
    pub(super) fn contains(&self, seq: u64) -> bool {
        self.words[self.index(seq)] >> (seq % WORD) & 1 == 1
    }

    /// First number in `from .. to` whose mark equals `marked`, else `to`. The range must lie in the window.
    pub(super) fn find(&self, from: u64, to: u64, marked: bool) -> u64 {
        let mut seq = from;
        while seq < to {
            let word = self.words[self.index(seq)];
            let word = if marked { word } else { !word };
            let rest = word >> (seq % WORD);
            if rest != 0 {
                return (seq + u64::from(rest.trailing_zeros())).min(to);
            }
            seq += WORD - seq % WORD;
        }
        to
    }

    /// Moves the lower edge up to `base` (a multiple of 64) and returns how many of the numbers below it
    /// were not marked. Takes at most one pass over the window, at any distance.
    pub(super) fn slide(&mut self, base: u64) -> u64 {
        let distance = base.saturating_sub(self.base);
        let words = (distance / WORD).min(self.words.len() as u64);
        let mut marked = 0;
        for offset in 0..words {
            let index = self.index(self.base + offset * WORD);
            marked += u64::from(self.words[index].count_ones());
            self.words[index] = 0;
        }
        self.base += distance;
        distance - marked
    }

    /// Grows to `bytes` (rounded up to a power of two) and keeps every mark.
    pub(super) fn grow(&mut self, bytes: usize) {
        let mut larger = Self::new(bytes);
        larger.base = self.base;
        for offset in 0..self.words.len() as u64 {
            let seq = self.base + offset * WORD;
            let index = larger.index(seq);
            larger.words[index] = self.words[self.index(seq)];
        }
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_survive_growth_and_sliding() {
        let mut window = Window::new(16);
        window.set_range(3, 100);
        window.set(127);
        assert_eq!(window.slide(64), 3);
        window.set_range(128, 140);
        window.grow(64);
        assert_eq!(window.find(64, 200, false), 100);
        assert_eq!(window.find(100, 200, true), 127);
        assert_eq!(window.find(128, 200, false), 140);
        assert_eq!(window.end(), 64 + 512);
        // A move far beyond the window counts everything never marked.
        assert_eq!(window.slide(64 + 64 * 1000), 64_000 - 36 - 1 - 12);
        assert_eq!(window.find(window.base(), window.end(), true), window.end());
    }
}
