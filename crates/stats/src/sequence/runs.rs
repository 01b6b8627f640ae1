//! Loss periods (RFC 3357): how many consecutive packets were lost at a time.

use std::collections::BTreeMap;

/// Number of loss periods by their length, in a bounded number of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LossRuns {
    /// Run length in packets → number of runs of that length.
    pub lengths: BTreeMap<u64, u64>,
    /// Runs whose length found no free key in `lengths`.
    pub overflow_runs: u64,
    /// Packets lost in those runs.
    pub overflow_packets: u64,
}

impl LossRuns {
    /// Packets lost in all runs together.
    pub fn packets(&self) -> u64 {
        self.lengths.iter().map(|(length, runs)| length * runs).sum::<u64>() + self.overflow_packets
    }

    /// Number of runs.
    pub fn runs(&self) -> u64 {
        self.lengths.values().sum::<u64>() + self.overflow_runs
    }

    pub(super) fn record(&mut self, length: u64, max_keys: usize) {
        if self.lengths.len() < max_keys || self.lengths.contains_key(&length) {
            *self.lengths.entry(length).or_default() += 1;
        } else {
            self.overflow_runs += 1;
            self.overflow_packets += length;
        }
    }
}
