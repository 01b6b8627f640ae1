//! Loss by interval: a missing packet belongs to the interval in which it would have come. What is known of that is when
//! its neighbours came: numbers missing between two arrivals are taken as spread evenly over the time between these.

/// 24 bytes an interval, plus the open one.
#[derive(Debug, Clone)]
struct Interval {
    /// First sequence number that could be missing in this interval.
    first: u64,
    lost: u64,
    /// When it ended.
    end_ns: u64,
}

/// Missing packets of each interval, given back when they still come.
#[derive(Debug, Clone)]
pub(super) struct IntervalLosses {
    closed: Vec<Interval>,
    open: Interval,
    /// Of all intervals.
    lost: u64,
}

impl IntervalLosses {
    pub(super) fn new() -> Self {
        Self { closed: Vec::new(), open: Interval { first: 0, lost: 0, end_ns: 0 }, lost: 0 }
    }

    /// Closes the open interval at `at_ns`; numbers from `next` on belong to the following one.
    pub(super) fn mark(&mut self, next: u64, at_ns: u64) {
        let open = Interval { first: next, lost: 0, end_ns: 0 };
        let closed = Interval { end_ns: at_ns, ..std::mem::replace(&mut self.open, open) };
        self.closed.push(closed);
    }

    /// `count` numbers from `first` on, the lowest that had not been passed, are missing between `from_ns`, the arrival
    /// before, and `to_ns`, the arrival after or the end of sending.
    pub(super) fn missing(&mut self, first: u64, count: u64, from_ns: u64, to_ns: u64) {
        // Intervals that ended after the arrival before: the one behind each begins with the number that is missing.
        let mut silent = self.closed.len();
        let mut behind = self.open.first;
        while silent > 0 && behind == first && self.closed[silent - 1].end_ns > from_ns {
            silent -= 1;
            behind = self.closed[silent].first;
        }
        let mut placed = 0;
        for i in silent..self.closed.len() {
            let until = before(self.closed[i].end_ns, count, from_ns, to_ns).max(placed);
            self.closed[i].lost += until - placed;
            placed = until;
            let behind = self.closed.get_mut(i + 1).unwrap_or(&mut self.open);
            behind.first = first + placed;
        }
        self.open.lost += count - placed;
        self.lost += count;
    }

    /// The missing number `seq` has come after all.
    pub(super) fn give_back(&mut self, seq: u64) {
        let interval = if seq >= self.open.first {
            &mut self.open
        } else {
            let after = self.closed.partition_point(|interval| interval.first <= seq);
            match self.closed.get_mut(after.saturating_sub(1)) {
                Some(interval) => interval,
                None => return,
            }
        };
        if interval.lost > 0 {
            interval.lost -= 1;
            self.lost -= 1;
        }
    }

    /// Adds what came after the last mark to the last closed interval; without one, makes one.
    pub(super) fn finish(&mut self) {
        match self.closed.last_mut() {
            Some(last) => last.lost += std::mem::take(&mut self.open.lost),
            None => self.mark(self.open.first, 0),
        }
    }

    pub(super) fn open_lost(&self) -> u64 {
        self.open.lost
    }

    pub(super) fn lost(&self) -> Vec<u64> {
        self.closed.iter().map(|interval| interval.lost).collect()
    }

    /// Missing packets of the closed intervals `from` to `to`, without `to`. Takes as long as there are intervals outside
    /// of that range.
    pub(super) fn lost_between(&self, from: usize, to: usize) -> u64 {
        let (from, to) = (from.min(self.closed.len()), to.min(self.closed.len()));
        let sum = |intervals: &[Interval]| intervals.iter().map(|i| i.lost).sum::<u64>();
        if from >= to {
            return 0;
        }
        self.lost - self.open.lost - sum(&self.closed[..from]) - sum(&self.closed[to..])
    }

    /// Missing packets of one closed interval.
    pub(super) fn lost_in(&self, index: usize) -> Option<u64> {
        self.closed.get(index).map(|interval| interval.lost)
    }
}

/// How many of `count` numbers, evenly spread between two others at `from_ns` and `to_ns`, lie before `at_ns`.
fn before(at_ns: u64, count: u64, from_ns: u64, to_ns: u64) -> u64 {
    if at_ns >= to_ns {
        return count;
    }
    // `from_ns` < `at_ns` < `to_ns`, or there is nothing before.
    let passed = u128::from(at_ns.saturating_sub(from_ns));
    let gaps = u128::from(count) + 1;
    let through = (gaps * passed).div_ceil(u128::from(to_ns - from_ns.min(at_ns)));
    u64::try_from(through.saturating_sub(1)).unwrap_or(u64::MAX).min(count)
}
