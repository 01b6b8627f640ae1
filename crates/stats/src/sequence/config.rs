//! Configuration of a sequence tracker.

/// Limits of a [`SequenceTracker`](super::SequenceTracker). Values out of range are clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceConfig {
    /// Time after which a missing packet is lost for good (RFC 7680 section 2.5's waiting time), ns. It counts from
    /// the moment a higher number arrived. Its resolution is 1/64 of its value. Default 2 s.
    pub loss_threshold_ns: u64,
    /// Initial size of the bitmap, bytes. Default 1 KiB, that is 8192 packets.
    pub initial_window_bytes: usize,
    /// Maximum size of the bitmap, bytes. Default 8 MiB, that is 67 million packets. It grows only when a
    /// packet that is still awaited would otherwise leave the window.
    pub max_window_bytes: usize,
    /// Maximum step above the highest number seen. A packet with a larger step is refused as implausible.
    /// Default 2^32.
    pub max_jump: u64,
    /// Maximum number of distinct burst lengths counted. Default 256.
    pub max_run_lengths: usize,
    /// Maximum number of open gaps stored, for the extent of reordering. Default 1024 (24 KiB, allocated
    /// only when needed).
    pub max_gaps: usize,
}

impl Default for SequenceConfig {
    fn default() -> Self {
        Self {
            loss_threshold_ns: 2_000_000_000,
            initial_window_bytes: 1024,
            max_window_bytes: 8 << 20,
            max_jump: 1 << 32,
            max_run_lengths: 256,
            max_gaps: 1024,
        }
    }
}
