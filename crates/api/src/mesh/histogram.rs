//! Native histograms of Prometheus: exponential buckets.

use std::collections::BTreeMap;

/// Buckets per power of two: 2 to the power of this. A bucket is 9 % wide.
pub(crate) const SCHEMA: i32 = 3;
const PER_OCTAVE: f64 = (1 << SCHEMA) as f64;
/// Smallest and largest bucket: values beyond are counted there. They span 1 ps to 10 days.
const MIN_INDEX: i32 = -40 << SCHEMA;
const MAX_INDEX: i32 = 20 << SCHEMA;

/// Counts of positive values in buckets of which each ends at 2^(index / 8).
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct NativeHistogram {
    buckets: BTreeMap<i32, u64>,
    pub(crate) count: u64,
    pub(crate) sum: f64,
}

/// A run of adjacent buckets: the first one's distance from the end of the run before, from 0 for the first run, and their counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) offset: i32,
    pub(crate) counts: Vec<u64>,
}

impl NativeHistogram {
    /// Counts a value `times` times; the caller adds to the sum.
    pub(super) fn record(&mut self, value: f64, times: u64) {
        // The bucket of index i contains values above 2^((i - 1) / 8) up to 2^(i / 8).
        let index = (value.log2() * PER_OCTAVE).ceil();
        let index = (index as i32).clamp(MIN_INDEX, MAX_INDEX);
        *self.buckets.entry(index).or_default() += times;
        self.count += times;
    }

    /// The index of the first bucket, and the counts from there to the last one; index 0 without any.
    pub(crate) fn dense(&self) -> (i32, Vec<u64>) {
        let first = self.buckets.keys().next().copied().unwrap_or(0);
        let end = self.buckets.keys().last().map_or(first, |last| last + 1);
        let counts = (first..end).map(|index| self.buckets.get(&index).copied().unwrap_or(0));
        (first, counts.collect())
    }

    /// The buckets as runs.
    pub(super) fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = vec![];
        let mut end = 0;
        for (index, count) in &self.buckets {
            match spans.last_mut() {
                Some(span) if *index == end => span.counts.push(*count),
                _ => spans.push(Span { offset: index - end, counts: vec![*count] }),
            }
            end = index + 1;
        }
        spans
    }

    /// Upper bounds and cumulative counts of classic buckets: one for each power of two from the smallest to the largest value.
    pub(super) fn classic(&self) -> Vec<(f64, u64)> {
        let per_octave = 1 << SCHEMA;
        let octave = |index: &i32| (index + per_octave - 1).div_euclid(per_octave);
        let (Some(first), Some(last)) = (self.buckets.keys().next(), self.buckets.keys().last())
        else {
            return vec![];
        };
        (octave(first)..=octave(last))
            .map(|power| {
                let below: u64 =
                    self.buckets.range(..=power * per_octave).map(|(_, count)| count).sum();
                (f64::from(power).exp2(), below)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_bucket_that_contains_them() {
        for value in [1e-6, 0.000_5, 0.0123, 0.5, 1.0, 1.01, 3.7, 1000.0] {
            let mut histogram = NativeHistogram::default();
            histogram.record(value, 2);
            let [span] = &histogram.spans()[..] else { panic!("{histogram:?}") };
            let bound = |index: i32| (f64::from(index) / PER_OCTAVE).exp2();
            assert!(value <= bound(span.offset) && value > bound(span.offset - 1), "{value}");
            assert_eq!((span.counts.as_slice(), histogram.count), (&[2][..], 2));
            let classic = histogram.classic();
            assert_eq!(classic.len(), 1);
            assert!(value <= classic[0].0 && value > classic[0].0 / 2.0, "{value}");
        }
    }

    #[test]
    fn runs_have_distances() {
        let mut histogram = NativeHistogram::default();
        for (value, times) in [(1.0, 1), (1.09, 2), (2.0, 3), (0.0, 4), (f64::MAX, 5)] {
            histogram.record(value, times);
        }
        let span = |offset, counts: &[u64]| Span { offset, counts: counts.into() };
        let expected = [
            span(MIN_INDEX, &[4]),
            span(-MIN_INDEX - 1, &[1, 2]),
            span(6, &[3]),
            span(MAX_INDEX - 9, &[5]),
        ];
        assert_eq!(histogram.spans(), expected);
        let (first, counts) = histogram.dense();
        assert_eq!((first, counts.len() as i32), (MIN_INDEX, MAX_INDEX - MIN_INDEX + 1));
        assert_eq!(counts.iter().sum::<u64>(), histogram.count);
        assert_eq!(NativeHistogram::default().dense(), (0, vec![]));
        let classic = histogram.classic();
        assert_eq!(classic.last().map(|bucket| bucket.1), Some(15));
        assert!(classic.contains(&(1.0, 5)) && classic.contains(&(2.0, 10)));
    }
}
