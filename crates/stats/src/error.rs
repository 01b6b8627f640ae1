//! Errors of invalid input.

/// Input that contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatsError {
    /// The times of a clock probe run backwards, or its turnaround is longer than its round trip.
    #[error("clock probe: times out of order (t1 {t1_ns}, t2 {t2_ns}, t3 {t3_ns}, t4 {t4_ns} ns)")]
    ProbeOrder {
        /// Local send time.
        t1_ns: u64,
        /// Remote receive time.
        t2_ns: u64,
        /// Remote send time.
        t3_ns: u64,
        /// Local receive time.
        t4_ns: u64,
    },
    /// The bracket of a clock reading runs backwards.
    #[error("clock reading: bracket out of order (before {before_ns}, after {after_ns} ns)")]
    BracketOrder {
        /// Monotonic time before.
        before_ns: u64,
        /// Monotonic time after.
        after_ns: u64,
    },
    /// An encoded distribution of a record is invalid.
    #[error("encoded histogram: {reason}")]
    Encoded {
        /// Why.
        reason: &'static str,
    },
}
