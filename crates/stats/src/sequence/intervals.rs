//! Loss by interval: a missing packet belongs to the interval in which it was passed by a higher number.

/// 16 bytes an interval, plus the open one.
#[derive(Debug, Clone)]
struct Interval {
    /// First sequence number that could be passed in this interval.
    first: u64,
    lost: u64,
}

/// Missing packets of each interval, given back when they still come.
#[derive(Debug, Clone)]
pub(super) struct IntervalLosses {
    closed: Vec<Interval>,
    open: Interval,
}

impl IntervalLosses {
    pub(super) fn new() -> Self {
        Self { closed: Vec::new(), open: Interval { first: 0, lost: 0 } }
    }

    /// Closes the open interval; numbers from `next` on belong to the following one.
    pub(super) fn mark(&mut self, next: u64) {
        let closed = std::mem::replace(&mut self.open, Interval { first: next, lost: 0 });
        self.closed.push(closed);
    }

    pub(super) fn missing(&mut self, packets: u64) {
        self.open.lost += packets;
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
        interval.lost = interval.lost.saturating_sub(1);
    }

    /// Adds the tail, and what came after the last mark, to the last closed interval; without one, makes one.
    pub(super) fn finish(&mut self, tail: u64) {
        self.open.lost += tail;
        match self.closed.last_mut() {
            Some(last) => last.lost += std::mem::take(&mut self.open.lost),
            None => self.mark(self.open.first),
        }
    }

    pub(super) fn open_lost(&self) -> u64 {
        self.open.lost
    }

    pub(super) fn lost(&self) -> Vec<u64> {
        self.closed.iter().map(|interval| interval.lost).collect()
    }
}
