//! The intervals of a running session, as they are shown.

use std::time::Duration;

use weir_flow::IntervalClock;
use weir_model::record::Interval;
use weir_traffic::session::{End, Workers};

/// The intervals of one end that have been shown.
pub(crate) struct Shown {
    pub(crate) intervals: IntervalClock,
    pub(crate) count: usize,
}

impl Shown {
    pub(crate) fn new(intervals: IntervalClock) -> Self {
        Shown { intervals, count: 0 }
    }

    /// The next interval, when it can be shown. Never, if there are none.
    pub(crate) async fn next(&mut self, workers: &Workers, end: &End) -> Interval {
        let Some(at_ns) = self.intervals.shown_ns(self.count) else {
            return std::future::pending().await;
        };
        let wait = Duration::from_nanos(at_ns.saturating_sub(workers.now_ns()));
        tokio::time::sleep(wait).await;
        let interval = end.interval(&self.intervals, self.count);
        self.count += 1;
        interval
    }
}
