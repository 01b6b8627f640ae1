//! How long one end waits for the other's report.
//!
//! On a slow link a report takes minutes: each byte restarts the idle timeout, and the total timeout bounds a peer that
//! sends a byte now and then. No clock is read here.

use std::time::Duration;

use tokio::time::Instant;

/// A peer that sends nothing for this long is unreachable: a path or an interface can fail without an error.
pub(crate) const SILENCE: Duration = Duration::from_secs(12);

/// Timeouts for the exchange of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportTimeout {
    /// Maximum time without a byte of the report.
    pub idle: Duration,
    /// Maximum time for the whole report.
    pub total: Duration,
}

impl Default for ReportTimeout {
    /// 12 s idle, 120 s in total.
    fn default() -> Self {
        ReportTimeout { idle: SILENCE, total: Duration::from_secs(120) }
    }
}

/// The timeout that expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimedOut {
    /// [`ReportTimeout::idle`]: no byte moved.
    Idle(Duration),
    /// [`ReportTimeout::total`]: the report was not complete.
    Incomplete(Duration),
}

/// A wait for a report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    timeout: ReportTimeout,
    started: Instant,
    moved: Instant,
}

impl Waiting {
    pub(crate) fn begin(timeout: ReportTimeout, now: Instant) -> Waiting {
        Waiting { timeout, started: now, moved: now }
    }

    /// A byte moved at `at`; earlier than the start does not count.
    pub(crate) fn moved(&mut self, at: Instant) {
        self.moved = self.moved.max(at);
    }

    fn deadline(&self) -> Instant {
        self.started + self.timeout.total
    }

    /// When the wait ends if nothing moves.
    pub(crate) fn until(&self) -> Instant {
        self.deadline().min(self.moved + self.timeout.idle)
    }

    /// When to poll next: often enough to see progress well within the idle timeout.
    pub(crate) fn look(&self, now: Instant) -> Instant {
        self.until().min(now + self.timeout.idle / 8)
    }

    /// The timeout that has expired at `now`, if any.
    pub(crate) fn over(&self, now: Instant) -> Option<TimedOut> {
        let ReportTimeout { idle, total } = self.timeout;
        if now >= self.deadline() {
            Some(TimedOut::Incomplete(total))
        } else if now >= self.moved + idle {
            Some(TimedOut::Idle(idle))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_counts_from_the_last_movement_and_the_total_is_fixed() {
        let started = Instant::now();
        let at = |seconds: f64| started + Duration::from_secs_f64(seconds);
        let timeout = ReportTimeout::default();
        let mut waiting = Waiting::begin(timeout, started);
        waiting.moved(started - Duration::from_secs(1));
        assert_eq!(waiting.until(), at(12.0));
        assert_eq!(waiting.over(at(11.9)), None);
        assert_eq!(waiting.over(at(12.0)), Some(TimedOut::Idle(timeout.idle)));
        // The idle timeout restarts at each movement, not only when it is about to expire.
        waiting.moved(at(0.5));
        assert_eq!(waiting.until(), at(12.5));
        assert_eq!(waiting.over(at(12.4)), None);
        assert_eq!(waiting.over(at(12.5)), Some(TimedOut::Idle(timeout.idle)));
        for second in 1..200 {
            waiting.moved(at(f64::from(second)));
        }
        assert_eq!(waiting.until(), at(120.0));
        assert_eq!(waiting.over(at(119.9)), None);
        assert_eq!(waiting.over(at(120.0)), Some(TimedOut::Incomplete(timeout.total)));
        assert_eq!(waiting.look(at(0.0)), at(1.5));
        assert_eq!(waiting.look(at(119.5)), at(120.0));
    }
}
