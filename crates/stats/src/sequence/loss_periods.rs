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

    pub(super) fn record(&mut self, length: u64, max_keys: usize) {
        if self.lengths.len() < max_keys || self.lengths.contains_key(&length) {
            *self.lengths.entry(length).or_default() += 1;
        } else {
            self.overflow_periods += 1;
            self.overflow_packets += length;
        }
    }
}
