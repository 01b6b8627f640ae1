//! A histogram of signed values, as distances from an origin.

use crate::histogram::Histogram;

/// Values by their distance above or below the origin: the resolution is finest near the origin.
#[derive(Debug, Clone, Default)]
pub(crate) struct SignedHistogram {
    origin: i64,
    above: Histogram,
    below: Histogram,
}

impl SignedHistogram {
    /// Sets the origin; the histogram must be empty.
    pub(crate) fn set_origin(&mut self, origin: i64) {
        self.origin = origin;
    }

    #[inline]
    pub(crate) fn record(&mut self, value: i64) {
        let distance = value.abs_diff(self.origin);
        if value >= self.origin {
            self.above.record(distance);
        } else {
            self.below.record(distance);
        }
    }

    pub(crate) fn record_n(&mut self, value: i64, times: u64) {
        let distance = value.abs_diff(self.origin);
        if value >= self.origin {
            self.above.record_n(distance, times);
        } else {
            self.below.record_n(distance, times);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.above.count() + self.below.count()
    }

    /// The value at rank `rank` (1 is the smallest): the end of its cell away from the origin.
    pub(crate) fn value_at_rank(&self, rank: u64) -> Option<i64> {
        let below = self.below.count();
        Some(if rank > below {
            self.origin.saturating_add_unsigned(self.above.value_at_rank(rank - below)?)
        } else {
            self.origin.saturating_sub_unsigned(self.below.value_at_rank(below - rank + 1)?)
        })
    }

    /// Values with their counts, from low to high.
    pub(crate) fn values(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let value = |distance: u64, max: Option<u64>| distance.min(max.unwrap_or(distance));
        let below = self.below.cells().rev().map(move |(_, high, count)| {
            (self.origin.saturating_sub_unsigned(value(high, self.below.max())), count)
        });
        let above = self.above.cells().map(move |(_, high, count)| {
            (self.origin.saturating_add_unsigned(value(high, self.above.max())), count)
        });
        below.chain(above)
    }

    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.above.heap_bytes() + self.below.heap_bytes()
    }
}
