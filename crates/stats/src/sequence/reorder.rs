//! Reordering extent (RFC 4737 section 4.2): the number of packets that overtook a packet.

use std::collections::VecDeque;

/// Distribution of the reordering extent.
///
/// RFC 4737 section 4.2.2: the extent of a reordered packet is the number of arrivals from the earliest packet with
/// a higher number up to it. Copies do not count as arrivals here (RFC 5560 defines them separately).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReorderExtent {
    /// Largest extent, packets; 0 when nothing was reordered.
    pub max: u64,
    /// Sum of all extents, packets.
    pub sum: u64,
    /// `buckets[k]` counts the extents from 2^k to 2^(k+1) − 1.
    pub buckets: Vec<u64>,
    /// Number of extents that are only lower bounds, because more gaps were open than can be stored.
    pub bounds: u64,
}

impl ReorderExtent {
    /// Mean extent in packets, when anything was reordered.
    pub fn mean(&self) -> Option<f64> {
        let count: u64 = self.buckets.iter().sum();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    fn record(&mut self, extent: u64) {
        let bucket = extent.max(1).ilog2() as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.max = self.max.max(extent);
        self.sum = self.sum.saturating_add(extent);
    }
}

/// A gap in the numbers: `end` is the number of the packet after it, `arrival` that packet's position among
/// the arrivals.
#[derive(Debug, Clone)]
struct Gap {
    end: u64,
    arrival: u64,
}

/// The open gaps, oldest first, by which the extent of a late packet is exact.
#[derive(Debug, Clone, Default)]
pub(super) struct Gaps {
    open: VecDeque<Gap>,
    /// Every gap that ends at or below this number was dropped for lack of room.
    dropped_to: u64,
    extent: ReorderExtent,
}

impl Gaps {
    pub(super) fn open(&mut self, end: u64, arrival: u64, max_gaps: usize) {
        if self.open.len() >= max_gaps.max(1)
            && let Some(oldest) = self.open.pop_front()
        {
            self.dropped_to = oldest.end;
        }
        self.open.push_back(Gap { end, arrival });
    }

    /// Removes the gaps without awaited numbers: those that end at or below `low`.
    pub(super) fn prune(&mut self, low: u64) {
        while self.open.front().is_some_and(|gap| gap.end <= low) {
            self.open.pop_front();
        }
    }

    /// Records the missing number `seq`, which came as arrival number `arrival`; returns its extent.
    pub(super) fn fill(&mut self, seq: u64, arrival: u64) -> u64 {
        let after = self.open.partition_point(|gap| gap.end <= seq);
        let first_higher = self.open.get(after).map_or(arrival, |gap| gap.arrival);
        let extent = arrival.saturating_sub(first_higher).max(1);
        if seq < self.dropped_to {
            self.extent.bounds += 1;
        }
        self.extent.record(extent);
        extent
    }

    pub(super) fn extent(&self) -> &ReorderExtent {
        &self.extent
    }
}
