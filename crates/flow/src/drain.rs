//! How long a receiver waits for remaining data once its sender has finished.

/// Minimum silence after which a stream is given up, ns. TCP may retransmit a segment several times in between.
const STREAM_QUIET_NS: u64 = 10_000_000_000;
/// Maximum wait after the end of sending, however slowly data still arrives, ns.
pub const MAX_DRAIN_NS: u64 = 120_000_000_000;

/// A receiver's wait for data that its sender had sent before it finished.
///
/// Each arrival restarts the wait: send buffers and queues of a slow path may take longer to empty than any fixed time.
/// A path that never falls silent is bounded by [`MAX_DRAIN_NS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    from_ns: u64,
    quiet_ns: u64,
}

impl Drain {
    /// For datagrams, from `from_ns` on: until nothing has arrived for the loss threshold (RFC 7680).
    pub fn datagrams(from_ns: u64, loss_threshold_ns: u64) -> Self {
        Drain { from_ns, quiet_ns: loss_threshold_ns }
    }

    /// For a stream, from `from_ns` on: until nothing has arrived for 10 s, or the loss threshold if that is longer.
    pub fn stream(from_ns: u64, loss_threshold_ns: u64) -> Self {
        Drain { from_ns, quiet_ns: loss_threshold_ns.max(STREAM_QUIET_NS) }
    }

    /// Whether waiting ends at `now_ns`. `last_ns`: the last arrival, 0 without one.
    pub(crate) fn is_over(&self, now_ns: u64, last_ns: u64) -> bool {
        let waited = |since: u64, ns: u64| now_ns.saturating_sub(since) >= ns;
        waited(self.from_ns.max(last_ns), self.quiet_ns)
            || waited(self.from_ns, self.quiet_ns.max(MAX_DRAIN_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn an_arrival_restarts_the_wait() {
        let drain = Drain::stream(100 * SECOND, 2 * SECOND);
        assert!(!drain.is_over(110 * SECOND - 1, 0));
        assert!(drain.is_over(110 * SECOND, 0));
        assert!(
            drain.is_over(110 * SECOND, 99 * SECOND),
            "from the end of sending at the earliest"
        );
        assert!(!drain.is_over(119 * SECOND, 109 * SECOND + 1));
        assert!(drain.is_over(120 * SECOND, 110 * SECOND));
        let datagrams = Drain::datagrams(0, 2 * SECOND);
        assert!(
            datagrams.is_over(3 * SECOND, SECOND) && !datagrams.is_over(3 * SECOND, SECOND + 1)
        );
    }

    #[test]
    fn endless_arrivals_do_not_extend_the_wait_forever() {
        let drain = Drain::datagrams(0, 2 * SECOND);
        assert!(!drain.is_over(MAX_DRAIN_NS - 1, MAX_DRAIN_NS - 1));
        assert!(drain.is_over(MAX_DRAIN_NS, MAX_DRAIN_NS));
        // A longer loss threshold applies nevertheless.
        let long = Drain::datagrams(0, 600 * SECOND);
        assert!(!long.is_over(600 * SECOND - 1, 0) && long.is_over(600 * SECOND, 0));
    }
}
