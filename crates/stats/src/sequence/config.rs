//! What a sequence tracker must know before the first packet.

/// Limits of a [`SequenceTracker`](super::SequenceTracker). Values out of range are pulled to the nearest useful one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceConfig {
    /// Time after which a missing packet is lost for good (RFC 7680 section 2.5's waiting time), ns. It counts from
    /// the moment a higher number arrived. Its resolution is 1/64 of itself. Default 2 s.
    pub loss_threshold_ns: u64,
    /// Bitmap at the start, bytes. Default 1 KiB, that is 8192 packets.
    pub initial_window_bytes: usize,
    /// Bitmap at most, bytes. Default 8 MiB, that is 67 million packets. It grows only when a packet that is still
    /// awaited would otherwise leave the window.
    pub max_window_bytes: usize,
    /// Largest plausible step above the highest number seen. A larger one is refused as implausible. Default 2^32.
    pub max_jump: u64,
    /// Number of distinct loss-run lengths kept. Default 256.
    pub max_run_lengths: usize,
    /// Number of open gaps kept, for the extent of reordering. Default 1024 (24 KiB, taken only when needed).
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
