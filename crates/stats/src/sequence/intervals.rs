//! Loss by interval. A missing packet belongs to the interval in which it would have arrived: numbers
//! missing between two arrivals are assumed to be evenly spaced in the time between them.

/// Losses of one interval; 24 bytes.
#[derive(Debug, Clone)]
struct Interval {
    /// First sequence number that could be missing in this interval.
    first: u64,
    lost: u64,
    /// Time at which it ended; 0 while it is open.
    end_ns: u64,
}

/// Missing packets of each interval; one that still arrives is subtracted again.
#[derive(Debug, Clone)]
pub(super) struct IntervalLosses {
    closed: Vec<Interval>,
    open: Interval,
    /// Missing packets of all intervals.
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

    /// Adds `count` missing numbers from `first` on, which is the lowest number not passed before.
    /// `from_ns` is the previous arrival, `to_ns` the next arrival or the end of sending.
    pub(super) fn missing(&mut self, first: u64, count: u64, from_ns: u64, to_ns: u64) {
        // Find the first interval that ended after the previous arrival: the one after it starts with the
        // missing number.
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

    /// Subtracts the missing number `seq`, which has arrived after all.
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

    /// Adds the losses after the last mark to the last closed interval, which is created if there is none.
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

    /// Missing packets of the closed intervals `from` to `to`, exclusive. The cost grows with the intervals
    /// outside of that range.
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

/// How many of `count` numbers, evenly spaced between arrivals at `from_ns` and `to_ns`, lie before
/// `at_ns`.
fn before(at_ns: u64, count: u64, from_ns: u64, to_ns: u64) -> u64 {
    if at_ns >= to_ns {
        return count;
    }
    // Either `from_ns` < `at_ns` < `to_ns`, or the result is 0.
    let passed = u128::from(at_ns.saturating_sub(from_ns));
    let gaps = u128::from(count) + 1;
    let through = (gaps * passed).div_ceil(u128::from(to_ns - from_ns.min(at_ns)));
    u64::try_from(through.saturating_sub(1)).unwrap_or(u64::MAX).min(count)
}
