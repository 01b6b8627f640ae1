//! Loss periods (RFC 3357): how many consecutive packets were lost at a time.

use std::collections::BTreeMap;

/// Number of loss periods by their length, in a bounded number of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LossPeriods {
    /// Length in packets → number of loss periods of that length.
    pub lengths: BTreeMap<u64, u64>,
    /// Loss periods whose length found no free key in `lengths`.
    pub overflow_periods: u64,
    /// Packets lost in those loss periods.
    pub overflow_packets: u64,
    /// One above the last number of the latest loss period.
    end: u64,
}

impl LossPeriods {
    /// Packets lost in all loss periods together.
    pub fn packets(&self) -> u64 {
        self.lengths.iter().map(|(length, periods)| length * periods).sum::<u64>()
            + self.overflow_packets
    }

    /// Number of loss periods.
    pub fn periods(&self) -> u64 {
        self.lengths.values().sum::<u64>() + self.overflow_periods
    }

    /// Records the loss period of `length` packets from number `first` on. Periods come in order, with packets that
    /// arrived between them.
    pub(super) fn record(&mut self, first: u64, length: u64, max_keys: usize) {
        debug_assert!(first > self.end || self.periods() == 0, "{first} after {}", self.end);
        self.end = first + length;
        if self.lengths.len() < max_keys || self.lengths.contains_key(&length) {
            *self.lengths.entry(length).or_default() += 1;
        } else {
            self.overflow_periods += 1;
            self.overflow_packets += length;
        }
    }

    /// Ends the flow, of which `sent` packets were sent.
    pub(super) fn finish(&mut self, sent: u64) {
        debug_assert!(self.end <= sent, "{} of {sent}", self.end);
    }
}
