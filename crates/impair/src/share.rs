//! The part of a direction's packets that one of several workers has.

/// The part of a worker: each has engines of its own for the packets that it judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Number of the worker, from 0.
    pub worker: u8,
    /// How many there are, 1 or more.
    pub workers: u8,
}

impl Share {
    /// All packets: there is one worker.
    pub const WHOLE: Share = Share { worker: 0, workers: 1 };
    /// Packets of a flow that a worker can number before another one's numbers begin, as a power of two.
    const INDEX_BITS: u32 = 48;

    /// Index of the worker's first packet of each flow, so that no two workers use the same draws.
    pub(crate) fn first_index(self) -> u64 {
        u64::from(self.worker) << Self::INDEX_BITS
    }

    /// Its part of the memory for queued packets.
    #[must_use]
    pub fn of_bytes(self, bytes: u64) -> u64 {
        bytes / u64::from(self.workers.max(1))
    }
}
