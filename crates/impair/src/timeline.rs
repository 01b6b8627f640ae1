//! The position in a timeline: which changes have been made, and when the next one is due.

use std::sync::Arc;

use weir_model::impairment::Impairment;

/// Where a timeline is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimelineStatus {
    /// Number of loops that have started, the current one included.
    pub loops: u64,
    /// Number of changes made in this loop.
    pub changes: usize,
    /// Time since the start of this loop in the times of the configuration, that is multiplied by the speed, ns.
    pub position_ns: f64,
}

/// A running timeline of a configuration.
#[derive(Debug)]
pub(crate) struct RunningTimeline {
    /// The configuration at the start of a loop.
    base: Arc<Impairment>,
    /// The configuration with the changes made so far.
    current: Arc<Impairment>,
    /// Times of the changes since the start of the loop.
    times_ns: Vec<u64>,
    period_ns: Option<u64>,
    /// Number of changes made in this loop.
    made: usize,
    /// Start of this loop; `None` until the engine has a time.
    start_ns: Option<u64>,
    /// Number of loops that have ended.
    ended: u64,
}

impl RunningTimeline {
    /// The timeline of a configuration; `None` if it has none.
    pub(crate) fn new(base: &Arc<Impairment>) -> Option<Self> {
        let timeline = base.timeline.as_ref()?;
        Some(Self {
            base: base.clone(),
            current: base.clone(),
            times_ns: timeline.times_ns(),
            period_ns: timeline.period_ns(),
            made: 0,
            start_ns: None,
            ended: 0,
        })
    }

    /// The configuration with the changes made so far.
    pub(crate) fn current(&self) -> &Arc<Impairment> {
        &self.current
    }

    /// Continues a timeline with the same times: the changes that it has made are made here too.
    pub(crate) fn resume(&mut self, before: &RunningTimeline) {
        let is_same = self.times_ns == before.times_ns && self.period_ns == before.period_ns;
        if is_same {
            (self.start_ns, self.ended) = (before.start_ns, before.ended);
            for _ in 0..before.made {
                self.change();
            }
        }
    }

    /// Starts it, unless it has started.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.start_ns.get_or_insert(now_ns);
    }

    /// Where it is at a time.
    pub(crate) fn status(&self, now_ns: u64) -> TimelineStatus {
        let speed = self.base.timeline.as_ref().and_then(|timeline| timeline.speed).unwrap_or(1.0);
        let since_ns = self.start_ns.map_or(0, |start| now_ns.saturating_sub(start));
        TimelineStatus {
            loops: self.ended + u64::from(self.start_ns.is_some()),
            changes: self.made,
            position_ns: since_ns as f64 * speed,
        }
    }

    /// Time of the next change; `u64::MAX` if there is none.
    pub(crate) fn next_ns(&self) -> u64 {
        let Some(start) = self.start_ns else { return u64::MAX };
        let after = self.times_ns.get(self.made).copied().or(self.period_ns);
        after.map_or(u64::MAX, |after| start.saturating_add(after))
    }

    /// Makes the changes that are due at the time of the next one.
    pub(crate) fn turn(&mut self) {
        let at_ns = self.next_ns();
        while self.next_ns() == at_ns && at_ns != u64::MAX {
            if self.made < self.times_ns.len() {
                self.change();
            } else {
                // The next loop: `next_ns` is its start.
                self.start_ns = Some(at_ns);
                self.made = 0;
                self.ended += 1;
                self.current = self.base.clone();
            }
        }
    }

    fn change(&mut self) {
        let changes = self.base.timeline.iter().flat_map(|timeline| &timeline.changes);
        if let Some(change) = changes.into_iter().nth(self.made) {
            // A checked configuration has the flows of its changes.
            change.make(Arc::make_mut(&mut self.current));
        }
        self.made += 1;
    }

    /// Passes whole loops up to a time, while nothing is queued; the last one is left.
    pub(crate) fn skip_loops(&mut self, now_ns: u64) {
        if let (Some(start), Some(period)) = (self.start_ns, self.period_ns) {
            let loops = now_ns.saturating_sub(start) / period.max(1);
            if loops > 1 {
                self.start_ns = Some(start + (loops - 1) * period);
                self.ended += loops - 1;
            }
        }
    }
}
