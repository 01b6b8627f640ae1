//! The tracker. Numbers below `low` are settled (arrived or given up); those from `low` to `next` have
//! arrived or are still awaited; `next` is one above the highest number seen.

use std::collections::VecDeque;

use super::config::SequenceConfig;
use super::intervals::IntervalLosses;
use super::loss_periods::LossPeriods;
use super::reorder::{Gaps, ReorderExtent};
use super::window::Window;

/// Numbers from here on are never plausible, so that no sum can overflow.
const SEQUENCE_LIMIT: u64 = 1 << 62;
/// Checkpoints per loss threshold.
const CHECKPOINTS: u64 = 64;

/// Classification of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The next number expected.
    InOrder,
    /// A higher number than expected: `missing` numbers were passed over.
    Gap {
        /// Numbers passed over, now awaited.
        missing: u64,
    },
    /// An awaited number below the highest seen (RFC 4737 Type-P-Reordered).
    Reordered {
        /// Packets that overtook it (RFC 4737 section 4.2.2).
        extent: u64,
    },
    /// A number that had arrived before (RFC 5560).
    Duplicate,
    /// A number that had been given up: it stays lost.
    Late,
    /// A number that the sender can't have reached: not counted as received.
    Implausible,
}

/// Classification of a batch's arrivals, packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// In order, the packets after a gap included.
    pub in_order: u64,
    /// Numbers passed over.
    pub missing: u64,
    /// Reordered.
    pub reordered: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Late.
    pub late: u64,
    /// Implausible.
    pub implausible: u64,
}

impl Arrivals {
    fn add(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::InOrder => self.in_order += 1,
            Arrival::Gap { missing } => {
                self.in_order += 1;
                self.missing += missing;
            }
            Arrival::Reordered { .. } => self.reordered += 1,
            Arrival::Duplicate => self.duplicates += 1,
            Arrival::Late => self.late += 1,
            Arrival::Implausible => self.implausible += 1,
        }
    }
}

/// Figures so far, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SequenceCounts {
    /// Different numbers received in time.
    pub received: u64,
    /// Lost so far: passed over and not arrived. Provisional: includes `awaited`.
    pub lost: u64,
    /// Of `lost`, those that may still come within the loss threshold.
    pub awaited: u64,
    /// Copies (RFC 5560).
    pub duplicates: u64,
    /// Reordered (RFC 4737).
    pub reordered: u64,
    /// Arrived after the loss threshold: counted in `lost`, not in `received`.
    pub late: u64,
    /// Refused numbers.
    pub implausible: u64,
    /// Given up before the loss threshold, because the window was at its cap.
    pub forced: u64,
    /// One above the highest number seen.
    pub next: u64,
    /// Loss periods, duplicates, late or reordered packets may be wrong (the sums are not): the window's
    /// cap was reached, a packet may be a copy or late, or the sender's count contradicts the numbers.
    pub ambiguous: bool,
}

/// Final figures of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceSummary {
    /// All counts; `awaited` is 0.
    pub counts: SequenceCounts,
    /// Packets sent: the sender's count, or without it one above the highest number seen. `counts.lost` is
    /// this minus `counts.received`.
    pub sent: u64,
    /// Loss periods (RFC 3357).
    pub loss_periods: LossPeriods,
    /// Extent of reordering (RFC 4737).
    pub reorder_extent: ReorderExtent,
    /// Lost packets of each marked interval; they add up to `counts.lost`.
    pub interval_lost: Vec<u64>,
}

/// Every number below `next` had been passed at `time_ns`.
#[derive(Debug, Clone)]
struct Checkpoint {
    time_ns: u64,
    next: u64,
}

/// Exact accounting of one flow's sequence numbers, which start at 0.
///
/// Record every arrival ([`on_packet`](Self::on_packet), [`on_consecutive`](Self::on_consecutive)) with a
/// clock that does not run backwards, call [`advance`](Self::advance) while nothing arrives, read
/// [`counts`](Self::counts) at any time, and end with [`finish`](Self::finish).
///
/// Without loss it takes a few nanoseconds per packet and 1 KiB: the bitmap grows only when an awaited
/// packet would leave it.
#[derive(Debug, Clone)]
pub struct SequenceTracker {
    next: u64,
    /// Limit of `next` for the fast path: the window's end or the announced total.
    fast_end: u64,
    next_tick_ns: u64,
    last_ns: u64,
    begun_ns: u64,
    ended_ns: Option<u64>,
    low: u64,
    received: u64,
    window: Window,
    limit: u64,
    awaited: u64,
    lost: u64,
    /// Lost numbers that left the window: a later arrival of one can't be distinguished from a copy.
    lost_below_window: u64,
    duplicates: u64,
    reordered: u64,
    late: u64,
    implausible: u64,
    forced: u64,
    ambiguous: bool,
    /// The last run of losses, which the next one extends if it starts at `run_end`.
    run_end: u64,
    run_length: u64,
    runs: LossPeriods,
    gaps: Gaps,
    checkpoints: VecDeque<Checkpoint>,
    intervals: IntervalLosses,
    config: SequenceConfig,
}

impl SequenceTracker {
    /// A tracker without arrivals.
    pub fn new(config: SequenceConfig) -> Self {
        let window = Window::new(config.initial_window_bytes.clamp(16, 1 << 30));
        let mut config = config;
        config.max_window_bytes =
            config.max_window_bytes.clamp(window.bytes(), 1 << 32).next_power_of_two();
        Self {
            next: 0,
            fast_end: window.end(),
            next_tick_ns: 0,
            last_ns: 0,
            begun_ns: 0,
            ended_ns: None,
            low: 0,
            received: 0,
            window,
            limit: SEQUENCE_LIMIT,
            awaited: 0,
            lost: 0,
            lost_below_window: 0,
            duplicates: 0,
            reordered: 0,
            late: 0,
            implausible: 0,
            forced: 0,
            ambiguous: false,
            run_end: 0,
            run_length: 0,
            runs: LossPeriods::default(),
            gaps: Gaps::default(),
            checkpoints: VecDeque::new(),
            intervals: IntervalLosses::new(),
            config,
        }
    }

    /// Limits the bitmap to `bytes`, at least its initial size.
    pub fn limit_window(&mut self, bytes: usize) {
        let bytes = bytes.clamp(self.window.bytes(), 1 << 32);
        self.config.max_window_bytes = bytes.next_power_of_two();
    }

    /// Sets the maximum number of packets, announced by the sender: numbers from `total` on are now
    /// implausible.
    pub fn announce_total(&mut self, total: u64) {
        self.limit = total.min(SEQUENCE_LIMIT);
        self.fast_end = self.window.end().min(self.limit);
    }

    /// Records the arrival of packet number `seq` at `now_ns`.
    #[inline]
    pub fn on_packet(&mut self, seq: u64, now_ns: u64) -> Arrival {
        if now_ns >= self.next_tick_ns {
            self.tick(now_ns);
        }
        if seq == self.next && seq < self.fast_end {
            self.accept_next(seq, now_ns);
            return Arrival::InOrder;
        }
        self.on_other(seq, now_ns)
    }

    /// Records `count` packets numbered `first_seq`, `first_seq` + 1, … that arrived together at `now_ns`.
    /// Equivalent to `count` calls of [`on_packet`](Self::on_packet), but much cheaper.
    pub fn on_consecutive(&mut self, first_seq: u64, count: u32, now_ns: u64) -> Arrivals {
        let mut arrivals = Arrivals::default();
        let end = first_seq.saturating_add(u64::from(count));
        let mut seq = first_seq;
        while seq < end {
            if seq == self.next && seq < self.fast_end && now_ns < self.next_tick_ns {
                let to = end.min(self.fast_end);
                self.window.set_range(seq, to);
                if self.low == seq {
                    self.low = to;
                }
                self.next = to;
                self.received += to - seq;
                self.last_ns = self.last_ns.max(now_ns);
                arrivals.in_order += to - seq;
                seq = to;
                continue;
            }
            match self.on_packet(seq, now_ns) {
                // Neither the limits nor `next` change, so all further numbers are implausible too.
                Arrival::Implausible if seq >= self.next => {
                    self.implausible += end - seq - 1;
                    arrivals.implausible += end - seq;
                    return arrivals;
                }
                arrival => arrivals.add(arrival),
            }
            seq += 1;
        }
        arrivals
    }

    /// Advances the time without an arrival: gives up numbers awaited for the loss threshold.
    pub fn advance(&mut self, now_ns: u64) {
        self.tick(now_ns);
    }

    /// The current figures, at a small constant cost.
    pub fn counts(&self) -> SequenceCounts {
        SequenceCounts {
            received: self.received,
            lost: self.lost + self.awaited,
            awaited: self.awaited,
            duplicates: self.duplicates,
            reordered: self.reordered,
            late: self.late,
            implausible: self.implausible,
            forced: self.forced,
            next: self.next,
            ambiguous: self.ambiguous,
        }
    }

    /// Whether number `seq` may still arrive in time: it has not arrived and was not given up.
    #[inline]
    pub(crate) fn is_awaited(&self, seq: u64) -> bool {
        seq >= self.low && !self.has_arrived(seq)
    }

    /// Whether number `seq` has arrived. Numbers below the bitmap are assumed to have.
    pub(crate) fn has_arrived(&self, seq: u64) -> bool {
        seq < self.next && (seq < self.window.base() || self.window.contains(seq))
    }

    /// Whether each of the `sent_total` packets has arrived or been given up, so that waiting longer
    /// changes nothing.
    pub fn is_complete(&self, sent_total: u64) -> bool {
        self.awaited == 0 && self.next >= sent_total
    }

    /// Sets the start of sending on the receiver's clock: losses before the first arrival are placed from
    /// then on.
    pub fn begins_at(&mut self, at_ns: u64) {
        self.begun_ns = at_ns;
    }

    /// Sets the end of sending on the receiver's clock: losses at the tail are placed up to then.
    pub fn ended_at(&mut self, at_ns: u64) {
        self.ended_ns = Some(at_ns);
    }

    /// Closes the interval, which ended at `at_ns`. Call it at the end of every interval, a last partial one included.
    ///
    /// A missing number belongs to the interval in which it would have arrived: numbers missing between two
    /// arrivals are assumed to be evenly spaced in the time between them.
    pub fn mark_interval(&mut self, at_ns: u64) {
        self.intervals.mark(self.next, at_ns);
    }

    /// Packets missing from each closed interval. Provisional: a number is missing once a higher one
    /// arrives, and is subtracted if it still arrives. If nothing arrives for several intervals, their
    /// losses are placed at the next arrival. Final once the loss threshold has passed after an arrival
    /// behind the interval's end.
    pub fn interval_lost(&self) -> Vec<u64> {
        self.intervals.lost()
    }

    /// Packets missing from one closed interval; see [`interval_lost`](Self::interval_lost).
    pub fn interval_lost_in(&self, index: usize) -> Option<u64> {
        self.intervals.lost_in(index)
    }

    /// Time of the last arrival, or the start of sending if that is later.
    fn quiet_since_ns(&self) -> u64 {
        self.last_ns.max(self.begun_ns)
    }

    /// Packets missing from the closed intervals `from` to `to`, exclusive.
    pub fn lost_between(&self, from: usize, to: usize) -> u64 {
        self.intervals.lost_between(from, to)
    }

    /// Packets missing from the open interval.
    pub fn open_interval_lost(&self) -> u64 {
        self.intervals.open_lost()
    }

    /// Current size of the bitmap, bytes.
    #[cfg(test)]
    pub(crate) fn window_bytes(&self) -> usize {
        self.window.bytes()
    }

    /// Ends the flow: awaited packets are lost, and so are packets sent above the highest number seen.
    ///
    /// `sent_total` is the sender's final count; without it a loss at the tail can't be seen. A count below
    /// the arrived numbers contradicts them: the numbers take precedence and the result is ambiguous.
    /// Losses after the last mark go to the last marked interval, and so does the tail if the end of
    /// sending ([`ended_at`](Self::ended_at)) is unknown.
    pub fn finish(mut self, sent_total: Option<u64>, now_ns: u64) -> SequenceSummary {
        self.tick(now_ns);
        self.settle(self.next);
        let sent = sent_total.unwrap_or(self.next).max(self.next);
        if sent_total.is_some_and(|total| total < self.next) {
            self.ambiguous = true;
        }
        let tail = sent - self.next;
        if tail > 0 {
            self.lost += tail;
            self.add_run(self.next, tail);
            // Without an end of sending, all are placed after the last mark.
            let from_ns = if self.ended_ns.is_some() { self.quiet_since_ns() } else { u64::MAX };
            let to_ns = self.ended_ns.unwrap_or(u64::MAX).max(from_ns);
            self.intervals.missing(self.next, tail, from_ns, to_ns);
        }
        self.flush_run();
        self.runs.finish(sent);
        self.intervals.finish();
        SequenceSummary {
            counts: self.counts(),
            sent,
            loss_periods: self.runs,
            reorder_extent: self.gaps.extent().clone(),
            interval_lost: self.intervals.lost(),
        }
    }

    #[inline]
    fn accept_next(&mut self, seq: u64, now_ns: u64) {
        self.window.set(seq);
        self.next = seq + 1;
        if self.low == seq {
            self.low = seq + 1;
        }
        self.received += 1;
        if now_ns > self.last_ns {
            self.last_ns = now_ns;
        }
    }

    #[cold]
    fn on_other(&mut self, seq: u64, now_ns: u64) -> Arrival {
        if seq >= self.limit || seq.saturating_sub(self.next) > self.config.max_jump {
            self.implausible += 1;
            return Arrival::Implausible;
        }
        if seq >= self.next {
            return self.on_higher(seq, now_ns);
        }
        self.last_ns = self.last_ns.max(now_ns);
        if seq < self.window.base() {
            if self.lost_below_window == 0 {
                self.duplicates += 1;
                return Arrival::Duplicate;
            }
            self.lost_below_window -= 1;
            self.late += 1;
            self.ambiguous = true;
            return Arrival::Late;
        }
        if self.window.contains(seq) {
            self.duplicates += 1;
            return Arrival::Duplicate;
        }
        self.window.set(seq);
        if seq < self.low {
            self.late += 1;
            return Arrival::Late;
        }
        self.received += 1;
        self.reordered += 1;
        self.awaited -= 1;
        self.intervals.give_back(seq);
        let extent = self.gaps.fill(seq, self.received);
        if seq == self.low {
            self.low = self.window.find(seq, self.next, false);
            self.gaps.prune(self.low);
        }
        Arrival::Reordered { extent }
    }

    /// Handles the next number at the window's end, or a number after a gap.
    fn on_higher(&mut self, seq: u64, now_ns: u64) -> Arrival {
        let missing = seq - self.next;
        if missing > 0 {
            self.awaited += missing;
            self.intervals.missing(self.next, missing, self.quiet_since_ns(), now_ns);
            self.gaps.open(seq, self.received + 1, self.config.max_gaps);
        }
        if seq >= self.window.end() {
            self.make_room(seq, now_ns);
        }
        self.accept_next(seq, now_ns);
        if missing == 0 { Arrival::InOrder } else { Arrival::Gap { missing } }
    }

    /// Moves or grows the window until it holds `seq`, giving up awaited numbers early only at the cap.
    fn make_room(&mut self, seq: u64, now_ns: u64) {
        let mut base = self.base_for(seq, self.window.capacity());
        if base > self.low {
            self.tick(now_ns);
        }
        if base > self.low && self.window.bytes() < self.config.max_window_bytes {
            let mut bytes = self.window.bytes();
            while bytes < self.config.max_window_bytes
                && self.base_for(seq, bytes as u64 * 8) > self.low
            {
                bytes *= 2;
            }
            self.window.grow(bytes);
            base = self.base_for(seq, self.window.capacity());
        }
        if base > self.low {
            let before = self.lost;
            self.settle(base);
            let forced = self.lost - before;
            self.forced += forced;
            self.ambiguous |= forced > 0;
        }
        if base > self.window.base() {
            self.lost_below_window += self.window.slide(base);
        }
        self.fast_end = self.window.end().min(self.limit);
    }

    /// Lower edge of a window of `capacity` that contains `seq`. It moves by an eighth of the capacity, so
    /// that moves are rare and short.
    fn base_for(&self, seq: u64, capacity: u64) -> u64 {
        let step = (capacity / 8).max(64);
        (seq + 1).saturating_sub(capacity).div_ceil(step) * step
    }

    /// Adds a checkpoint, and gives up the numbers below checkpoints older than the loss threshold.
    #[cold]
    fn tick(&mut self, now_ns: u64) {
        let step = (self.config.loss_threshold_ns / CHECKPOINTS).max(1);
        self.next_tick_ns = now_ns.saturating_add(step).max(self.next_tick_ns);
        if self.awaited == 0 {
            self.checkpoints.clear();
            return;
        }
        // Every awaited number had been passed when the last packet arrived.
        match self.checkpoints.back_mut() {
            Some(last) if last.time_ns >= self.last_ns => last.next = self.next,
            _ => self.checkpoints.push_back(Checkpoint { time_ns: self.last_ns, next: self.next }),
        }
        let mut settled = 0;
        while let Some(first) = self.checkpoints.front()
            && now_ns.saturating_sub(first.time_ns) >= self.config.loss_threshold_ns
        {
            settled = first.next;
            self.checkpoints.pop_front();
        }
        if settled > self.low {
            self.settle(settled);
        }
    }

    /// Gives up every number below `to` that has not arrived.
    fn settle(&mut self, to: u64) {
        let seen = to.min(self.next);
        while self.low < seen {
            let start = self.window.find(self.low, seen, false);
            let end = self.window.find(start, seen, true);
            if end > start {
                self.give_up(start, end - start);
            }
            self.low = end;
        }
        // Beyond `next` a gap is being opened: all of its numbers are missing.
        if to > self.low && to > self.next {
            self.give_up(self.low, to - self.low);
            self.low = to;
        }
        self.low = self
            .window
            .find(self.low.min(self.window.end()), self.next.min(self.window.end()), false)
            .max(self.low);
        self.gaps.prune(self.low);
    }

    fn give_up(&mut self, start: u64, packets: u64) {
        self.awaited -= packets;
        self.lost += packets;
        self.add_run(start, packets);
    }

    fn add_run(&mut self, start: u64, packets: u64) {
        if start != self.run_end {
            self.flush_run();
        }
        self.run_length += packets;
        self.run_end = start + packets;
    }

    fn flush_run(&mut self) {
        if self.run_length > 0 {
            let first = self.run_end - self.run_length;
            self.runs.record(first, self.run_length, self.config.max_run_lengths);
            self.run_length = 0;
        }
    }
}
