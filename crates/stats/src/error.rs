//! What can be refused.

/// Input that contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatsError {
    /// A clock probe whose times run backwards, or that took longer at the far end than in all.
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
    /// A bracketed clock reading whose bracket runs backwards.
    #[error("clock reading: bracket out of order (before {before_ns}, after {after_ns} ns)")]
    BracketOrder {
        /// Monotonic time before.
        before_ns: u64,
        /// Monotonic time after.
        after_ns: u64,
    },
    /// A distribution of a record that does not read.
    #[error("encoded histogram: {reason}")]
    Encoded {
        /// Why.
        reason: &'static str,
    },
}
