//! The reporting intervals of a test, the same at both ends: boundaries as a function of the start.
//!
//! Omitted time at the start has intervals of its own, the last one cut at its end, so that totals without it are
//! sums of whole intervals.

/// Maximum number of stored intervals; a longer test continues in the last one.
pub const MAX_INTERVALS: usize = 1_000_000;

/// How long what belongs to an interval may be read after its end, besides the remainder of a test, ns.
const SHOWN_AFTER_NS: u64 = 30_000_000;

/// Boundaries of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalClock {
    /// Time zero of the test on the local clock.
    pub start_ns: u64,
    /// Length; 0: one interval without end.
    pub interval_ns: u64,
    /// Omitted at the start.
    pub omit_ns: u64,
}

impl IntervalClock {
    /// Number of intervals in the omitted time.
    pub fn omitted(&self) -> usize {
        match (self.omit_ns, self.interval_ns) {
            (0, _) => 0,
            (_, 0) => 1,
            (omit, interval) => omit.div_ceil(interval) as usize,
        }
    }

    /// End of interval `index` relative to the start; `None` for the one without end.
    pub(crate) fn end_offset_ns(&self, index: usize) -> Option<u64> {
        let omitted = self.omitted();
        if index < omitted {
            let end = (index as u64 + 1).saturating_mul(self.interval_ns);
            return Some(if self.interval_ns == 0 { self.omit_ns } else { end.min(self.omit_ns) });
        }
        if self.interval_ns == 0 {
            return None;
        }
        // The index may come from a peer.
        let length = ((index - omitted) as u64).saturating_add(1).saturating_mul(self.interval_ns);
        Some(self.omit_ns.saturating_add(length))
    }

    /// Start of interval `index` relative to the start of the test.
    pub fn start_offset_ns(&self, index: usize) -> u64 {
        if index == 0 { 0 } else { self.end_offset_ns(index - 1).unwrap_or(self.omit_ns) }
    }

    /// Length of interval `index` in seconds; `None` for the one without end.
    pub fn seconds(&self, index: usize) -> Option<f64> {
        Some((self.end_offset_ns(index)? - self.start_offset_ns(index)) as f64 / 1e9)
    }

    /// The interval that contains a time on the local clock.
    pub(crate) fn index_at(&self, at_ns: u64) -> usize {
        let offset_ns = at_ns.saturating_sub(self.start_ns);
        let count = |ns: u64| ns.checked_div(self.interval_ns).unwrap_or(0) as usize;
        match offset_ns.checked_sub(self.omit_ns) {
            Some(after_ns) => self.omitted().saturating_add(count(after_ns)),
            None => count(offset_ns),
        }
    }

    /// When interval `index` can be shown, on the local clock: what is read just after its end belongs to it. `None`: it has no end.
    pub fn shown_ns(&self, index: usize) -> Option<u64> {
        let end = self.end_ns(index)?;
        Some(end.saturating_add(self.tail_ns()).saturating_add(SHOWN_AFTER_NS))
    }

    /// A remainder after a boundary that is shorter than this is added to the interval before: a tenth of an
    /// interval, 100 ms at most.
    pub fn tail_ns(&self) -> u64 {
        (self.interval_ns / 10).min(100_000_000)
    }

    /// End of interval `index` on the local clock.
    pub fn end_ns(&self, index: usize) -> Option<u64> {
        self.end_offset_ns(index).map(|o| self.start_ns.saturating_add(o))
    }
}

/// Counts that are closed at each boundary. `C` holds the counts of one interval.
#[derive(Debug, Clone)]
pub struct IntervalLog<C> {
    clock: Option<IntervalClock>,
    next_end_ns: u64,
    closed: Vec<C>,
    /// The counts of the current interval.
    pub current: C,
}

impl<C: Default + Clone> Default for IntervalLog<C> {
    fn default() -> Self {
        IntervalLog { clock: None, next_end_ns: u64::MAX, closed: vec![], current: C::default() }
    }
}

impl<C: Default + Clone> IntervalLog<C> {
    /// Sets the boundaries, at the start of the test.
    pub fn start(&mut self, clock: IntervalClock) {
        self.clock = Some(clock);
        self.next_end_ns = clock.end_ns(self.closed.len()).unwrap_or(u64::MAX);
    }

    /// Whether a boundary has passed at `now_ns`: then call [`IntervalLog::close`] until none has.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_end_ns
    }

    /// Closes the current interval; `finish` may complete its figures. Returns its index.
    pub fn close(&mut self, finish: impl FnOnce(&mut C)) -> usize {
        finish(&mut self.current);
        self.closed.push(std::mem::take(&mut self.current));
        self.next_end_ns = match self.clock {
            Some(clock) if self.closed.len() < MAX_INTERVALS => {
                clock.end_ns(self.closed.len()).unwrap_or(u64::MAX)
            }
            _ => u64::MAX,
        };
        self.closed.len() - 1
    }

    /// The last closed interval; before any was closed, the current one.
    pub(crate) fn last_mut(&mut self) -> &mut C {
        self.closed.last_mut().unwrap_or(&mut self.current)
    }

    /// The interval that contains a time: a closed one, or the current one.
    pub(crate) fn containing_mut(&mut self, at_ns: u64) -> &mut C {
        let ends_later =
            |i: usize| self.clock.and_then(|c| c.end_ns(i)).is_some_and(|end_ns| at_ns < end_ns);
        let (mut index, mut end) = (0, self.closed.len());
        while index < end {
            let middle = index.midpoint(end);
            (index, end) = if ends_later(middle) { (index, middle) } else { (middle + 1, end) };
        }
        self.closed.get_mut(index).unwrap_or(&mut self.current)
    }

    /// The closed intervals.
    pub fn closed(&self) -> &[C] {
        &self.closed
    }

    /// Intervals in the omitted time.
    pub(crate) fn omitted(&self) -> usize {
        self.clock.map_or(0, |c| c.omitted())
    }

    /// Time zero, once started.
    pub fn start_ns(&self) -> Option<u64> {
        self.clock.map(|c| c.start_ns)
    }

    /// Boundaries, once started.
    pub fn clock(&self) -> Option<IntervalClock> {
        self.clock
    }

    /// When the current interval ends.
    pub(crate) fn next_end_ns(&self) -> u64 {
        self.next_end_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_time_has_intervals_of_its_own() {
        let c = IntervalClock { start_ns: 100, interval_ns: 1000, omit_ns: 2500 };
        assert_eq!(c.omitted(), 3);
        let ends: Vec<_> = (0..5).map(|i| c.end_offset_ns(i).unwrap()).collect();
        assert_eq!(ends, [1000, 2000, 2500, 3500, 4500]);
        assert_eq!(c.start_offset_ns(3), 2500);
        assert_eq!(c.end_ns(0), Some(1100));
        let at = [0, 100, 1099, 1100, 2599, 2600, 3599, 3600].map(|at_ns| c.index_at(at_ns));
        assert_eq!(at, [0, 0, 0, 1, 2, 3, 3, 4]);
    }

    #[test]
    fn without_intervals_only_the_omission_cuts() {
        let c = IntervalClock { start_ns: 0, interval_ns: 0, omit_ns: 5 };
        assert_eq!((c.end_offset_ns(0), c.end_offset_ns(1)), (Some(5), None));
        let none = IntervalClock { start_ns: 0, interval_ns: 0, omit_ns: 0 };
        assert_eq!((none.omitted(), none.end_offset_ns(0)), (0, None));
    }

    #[test]
    fn lengths_and_the_shortest_remainder() {
        let c = IntervalClock { start_ns: 500, interval_ns: 1000, omit_ns: 2500 };
        assert_eq!([1, 2, 3].map(|i| c.seconds(i)), [Some(1e-6), Some(5e-7), Some(1e-6)]);
        assert_eq!(c.tail_ns(), 100);
        let endless = IntervalClock { interval_ns: 0, omit_ns: 0, ..c };
        assert_eq!((endless.seconds(0), endless.tail_ns()), (None, 0));
        let long = IntervalClock { interval_ns: 60_000_000_000, ..c };
        assert_eq!(long.tail_ns(), 100_000_000);
    }

    #[test]
    fn log_closes_at_boundaries() {
        let mut log = IntervalLog::<u64>::default();
        assert!(!log.is_due(u64::MAX - 1));
        log.start(IntervalClock { start_ns: 10, interval_ns: 10, omit_ns: 0 });
        log.current += 1;
        assert!(!log.is_due(19));
        assert!(log.is_due(40));
        while log.is_due(40) {
            log.close(|_| {});
        }
        assert_eq!(log.closed(), [1, 0, 0]);
    }
}
