//! One-way delay of a flow (RFC 7679) and its variation against the minimum (PDV, RFC 5481 section 4.2).

use crate::histogram::{CELLS, Histogram, bounds, encode_hdr_v2, rank_of};
use crate::signed::SignedHistogram;

/// Number of delays stored exactly, before the smallest of them becomes the histogram's origin.
const EXACT: usize = 256;

/// Distribution of one flow's delays, signed nanoseconds.
///
/// Delays are negative when the clocks disagree by more than the delay; such values are counted as they
/// are, never clipped. Minimum, mean and maximum are exact. Up to 256 delays the percentiles are exact too;
/// then delays are counted by their distance from the smallest of the first 256, in cells of at most 1/1024
/// of that distance (1 ns below 2 µs): a steady 50 ms path still shows a variation of microseconds.
#[derive(Debug, Clone, Default)]
pub struct DelaySummary {
    first: Vec<i64>,
    rest: SignedHistogram,
    min: i64,
    max: i64,
    sum: i128,
    count: u64,
    negative: u64,
}

impl DelaySummary {
    /// An empty summary; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one delay: received − sent, on one clock, ns.
    #[inline]
    pub fn record(&mut self, delay_ns: i64) {
        if self.first.len() < EXACT {
            self.record_first(delay_ns);
            return;
        }
        self.note(delay_ns);
        self.rest.record(delay_ns);
    }

    #[inline]
    fn note(&mut self, delay_ns: i64) {
        self.count += 1;
        self.sum += i128::from(delay_ns);
        if delay_ns < self.min {
            self.min = delay_ns;
        }
        if delay_ns > self.max {
            self.max = delay_ns;
        }
        self.negative += u64::from(delay_ns < 0);
    }

    #[cold]
    fn record_first(&mut self, delay_ns: i64) {
        if self.count == 0 {
            self.min = delay_ns;
            self.max = delay_ns;
        }
        self.note(delay_ns);
        self.first.push(delay_ns);
        if self.first.len() == EXACT {
            self.rest.set_origin(self.min);
            // The list stays full, which marks the histogram as in use.
            for index in 0..EXACT {
                self.rest.record(self.first[index]);
            }
        }
    }

    /// Delays that were counted elsewhere, in the cells of [`crate::Histogram`]: `above` those of delays from 0 up,
    /// `below` those of the distances of negative ones from 0. Each cell is a number and how many delays it has. `None`:
    /// there are none, or a cell does not exist.
    pub fn from_cells(
        [min_ns, max_ns]: [i64; 2],
        sum_ns: i128,
        above: &[(usize, u64)],
        below: &[(usize, u64)],
    ) -> Option<Self> {
        // The list is full, which marks the histogram as in use.
        let mut summary = DelaySummary { first: vec![0; EXACT], ..DelaySummary::default() };
        for (cells, is_negative) in [(above, false), (below, true)] {
            for &(cell, count) in cells {
                let distance = i64::try_from(bounds(Some(cell).filter(|c| *c < CELLS)?).1).ok()?;
                summary.rest.record_n(if is_negative { -distance } else { distance }, count);
                summary.count = summary.count.checked_add(count)?;
                summary.negative += if is_negative { count } else { 0 };
            }
        }
        (summary.min, summary.max, summary.sum) = (min_ns, max_ns, sum_ns);
        (summary.count > 0 && min_ns <= max_ns).then_some(summary)
    }

    /// Delays recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Delays below zero.
    pub fn negative(&self) -> u64 {
        self.negative
    }

    /// Smallest delay, ns, exact.
    pub fn min_ns(&self) -> Option<i64> {
        (self.count > 0).then_some(self.min)
    }

    /// Largest delay, ns, exact.
    pub fn max_ns(&self) -> Option<i64> {
        (self.count > 0).then_some(self.max)
    }

    /// Mean delay, ns: the exact sum divided once.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The quantile (0 to 1) of the delay by nearest rank, ns, when at least 10 / (1 − q) delays were recorded.
    pub fn quantile_ns(&self, quantile: f64) -> Option<i64> {
        let rank = rank_of(quantile, self.count)?;
        if self.first.len() < EXACT {
            let mut sorted = self.first.clone();
            sorted.sort_unstable();
            return sorted.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied();
        }
        let value = self.rest.value_at_rank(rank)?;
        Some(value.clamp(self.min, self.max))
    }

    /// The quantile of PDV (RFC 5481 section 4.2): delay − minimum delay, ns. Independent of the clocks' offset.
    pub fn pdv_quantile_ns(&self, quantile: f64) -> Option<u64> {
        Some(self.quantile_ns(quantile)?.abs_diff(self.min))
    }

    /// Mean PDV: mean − minimum delay, ns.
    pub fn pdv_mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| {
            (self.sum - i128::from(self.min) * i128::from(self.count)) as f64 / self.count as f64
        })
    }

    /// Delays that exceed the minimum by more than `depth_ns`: packets that a jitter buffer of this depth discards. Exact up to
    /// 256 delays; then by the cells of the histogram.
    pub fn later_than(&self, depth_ns: u64) -> u64 {
        let is_late = |delay_ns: i64| delay_ns.abs_diff(self.min) > depth_ns;
        self.values().filter(|(delay_ns, _)| is_late(*delay_ns)).map(|(_, count)| count).sum()
    }

    /// Adds the delays of `other`; exact figures stay exact.
    pub fn merge(&mut self, other: &Self) {
        if other.first.len() < EXACT {
            other.first.iter().for_each(|&delay_ns| self.record(delay_ns));
            return;
        }
        if self.first.len() < EXACT {
            let mine = std::mem::replace(self, other.clone());
            mine.first.iter().for_each(|&delay_ns| self.record(delay_ns));
            return;
        }
        for (delay_ns, count) in other.values() {
            self.rest.record_n(delay_ns, count);
        }
        self.count += other.count;
        self.sum += other.sum;
        self.negative += other.negative;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Delays with their counts, from low to high.
    fn values(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let exact = if self.first.len() < EXACT { &self.first[..] } else { &[] };
        let rest =
            self.rest.values().map(|(value, count)| (value.clamp(self.min, self.max), count));
        exact.iter().map(|&delay_ns| (delay_ns, 1)).chain(rest)
    }

    /// The distribution as a histogram of values from 0; delays below it are counted as 0. Within 1/512 of the delays.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::new();
        for (delay_ns, count) in self.values() {
            histogram.record_n(u64::try_from(delay_ns).unwrap_or(0), count);
        }
        histogram
    }

    /// The distribution in HdrHistogram's V2 encoding, base 64 (`hdr-v2` in a run record). That format has
    /// no negative values: they are counted as 0; [`negative`](Self::negative) returns their number.
    pub fn to_hdr_v2(&self) -> Option<String> {
        encode_hdr_v2(
            self.values().map(|(delay_ns, count)| (u64::try_from(delay_ns).unwrap_or(0), count)),
        )
    }

    /// Bytes allocated on the heap.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.first.capacity() * 8 + self.rest.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn close_to_the_sorted_list(offset in -1_000_000_000_000i64..1_000_000_000_000, delays in prop::collection::vec((0i64..1 << 40, 0u32..40), 20..1500), split in 0usize..1500) {
            let mut all: Vec<i64> = delays.iter().map(|&(delay, shift)| offset + (delay >> shift)).collect();
            let (left, right) = all.split_at(split.min(all.len()));
            let mut summary = DelaySummary::new();
            let mut other = DelaySummary::new();
            left.iter().for_each(|&delay| summary.record(delay));
            right.iter().for_each(|&delay| other.record(delay));
            summary.merge(&other);
            all.sort_unstable();
            prop_assert_eq!(summary.count(), all.len() as u64);
            prop_assert_eq!(summary.min_ns(), all.first().copied());
            prop_assert_eq!(summary.max_ns(), all.last().copied());
            prop_assert_eq!(summary.negative(), all.iter().filter(|&&delay| delay < 0).count() as u64);
            let sum: i128 = all.iter().map(|&delay| i128::from(delay)).sum();
            prop_assert_eq!(summary.mean_ns(), Some(sum as f64 / all.len() as f64));
            for quantile in [0.1, 0.5, 0.9, 0.99] {
                let Some(got) = summary.quantile_ns(quantile) else {
                    prop_assert!((all.len() as f64) < 10.0 / (1.0 - quantile) + 1.0);
                    continue;
                };
                let expected = all[(quantile * all.len() as f64 - 1e-9).ceil() as usize - 1];
                // Merging converts distances from one origin to another: two roundings.
                let room = all[0].abs_diff(all[all.len() - 1]) / 512 + 2;
                prop_assert!(got.abs_diff(expected) <= room, "{quantile}: {got} for {expected}, room {room}");
            }
        }
    }

    #[test]
    fn cells_of_another_counter_are_those_of_a_histogram() {
        let delays = [-300i64, -2, 0, 7, 2047, 2048, 5_000, 5_000, 1 << 30];
        let mut whole = DelaySummary::new();
        let mut histograms = [crate::Histogram::new(), crate::Histogram::new()];
        for delay in delays.iter().cycle().take(40 * delays.len()).copied() {
            whole.record(delay);
            histograms[usize::from(delay < 0)].record(delay.unsigned_abs());
        }
        let cells = histograms.map(|histogram| {
            histogram
                .cells()
                .map(|(low, _, n)| (crate::histogram::cell_of(low), n))
                .collect::<Vec<_>>()
        });
        let sum = delays.iter().map(|d| i128::from(*d)).sum::<i128>() * 40;
        let read = DelaySummary::from_cells([-300, 1 << 30], sum, &cells[0], &cells[1]).unwrap();
        assert_eq!((read.count(), read.negative()), (whole.count(), whole.negative()));
        assert_eq!((read.min_ns(), read.max_ns()), (whole.min_ns(), whole.max_ns()));
        assert_eq!(read.mean_ns(), whole.mean_ns());
        for quantile in [0.1, 0.3, 0.5, 0.7, 0.9] {
            let (read, whole) = (read.quantile_ns(quantile), whole.quantile_ns(quantile));
            let (read, whole) = (read.unwrap(), whole.unwrap());
            assert!(
                read.abs_diff(whole) <= whole.unsigned_abs() / 512 + 1,
                "{quantile}: {read} {whole}"
            );
        }
        assert!(DelaySummary::from_cells([0, 0], 0, &[], &[]).is_none());
        assert!(DelaySummary::from_cells([0, 0], 0, &[(CELLS, 1)], &[]).is_none());
    }

    #[test]
    fn variation_survives_a_clock_offset() {
        let mut summary = DelaySummary::new();
        for packet in 0..2000i64 {
            summary.record(-1_000_000_000_000 + packet % 100);
        }
        assert_eq!(summary.min_ns(), Some(-1_000_000_000_000));
        assert_eq!(summary.negative(), 2000);
        assert_eq!(summary.pdv_quantile_ns(0.99), Some(98));
        assert_eq!(summary.pdv_mean_ns(), Some(49.5));
        assert_eq!(summary.quantile_ns(0.999), None);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut summary = DelaySummary::new();
        for _ in 0..300 {
            summary.record(i64::MIN);
            summary.record(i64::MAX);
            summary.record(0);
        }
        assert_eq!((summary.min_ns(), summary.max_ns()), (Some(i64::MIN), Some(i64::MAX)));
        assert_eq!(summary.pdv_mean_ns(), Some(2f64.powi(63)));
        assert!(summary.to_hdr_v2().is_some());
        assert!(summary.quantile_ns(0.5).is_some());
    }

    #[test]
    fn an_empty_summary_has_no_figures_and_no_heap() {
        let summary = DelaySummary::new();
        assert_eq!(summary.heap_bytes(), 0);
        assert_eq!(
            (summary.min_ns(), summary.mean_ns(), summary.quantile_ns(0.0)),
            (None, None, None)
        );
        assert_eq!(summary.to_hdr_v2(), None);
    }
}
