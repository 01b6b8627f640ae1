//! Intervals while a test runs: each is shown on time with what both ends have reported. Incomplete ones are
//! repeated when the rest has arrived.

use std::collections::BTreeSet;

use weir_flow::assemble::{interval, mark_missing, set_received_sum};
use weir_flow::{LossLines, without_reported};
use weir_model::progress::EchoInterval;
use weir_model::record::{Interval, IntervalCount};

use super::*;

/// An interval that lacks figures is shown this long after its end.
const WAIT_NS: u64 = 500_000_000;
/// The same while no figures of the other end arrive at all: it may send none, or the path may be cut.
const SILENT_NS: u64 = 150_000_000;
/// How often this end checks for figures that an interval still lacks.
const LOOK_NS: u64 = 30_000_000;
/// Maximum number of shown intervals that wait for late figures.
const MAX_LATE: usize = 1024;
/// A report of an interval further ahead than this is bogus and ignored.
const AHEAD_NS: u64 = 60_000_000_000;

/// The other end's reports so far, and what has been shown.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) peer_reports: PeerReports,
    /// Intervals shown.
    pub(super) shown: usize,
    /// Shown intervals that lacked figures.
    late: BTreeSet<usize>,
    /// No report had arrived for the last shown interval.
    silent: bool,
    /// Shown intervals for which a report has just arrived.
    more: BTreeSet<usize>,
    /// Losses as shown so far.
    pub(super) lines: LossLines,
}

impl Live {
    /// Stores a report of the other end.
    pub(super) fn take(
        &mut self,
        intervals: &IntervalClock,
        index: usize,
        flows: impl Iterator<Item = (u32, IntervalCount)>,
        of: u32,
        now_ns: u64,
    ) {
        if intervals.end_ns(index).is_none_or(|end| end > now_ns.saturating_add(AHEAD_NS)) {
            return;
        }
        self.peer_reports.take(intervals, index, flows, of);
        if self.late.contains(&index) {
            self.more.insert(index);
        }
    }

    /// When to check the next interval: after its tail, then again while figures are missing.
    pub(super) fn look_again(&self, intervals: &IntervalClock, now_ns: u64) -> Option<Duration> {
        let end = intervals.end_ns(self.shown)?;
        let tail = end + intervals.tail_ns();
        let at = if now_ns < tail {
            tail
        } else {
            (now_ns + LOOK_NS).min(self.patience_ns(end)).max(now_ns)
        };
        Some(Duration::from_nanos(at - now_ns))
    }

    fn patience_ns(&self, end_ns: u64) -> u64 {
        end_ns + if self.silent { SILENT_NS } else { WAIT_NS }
    }
}

impl Test<'_> {
    /// Shows the intervals that have ended, each when all its figures have arrived or its waiting time is over, and what came
    /// back of echoes in shown intervals.
    pub(super) fn show(
        &mut self,
        intervals: &IntervalClock,
        now: u64,
        observe: &mut dyn FnMut(Event),
    ) {
        self.show_intervals(intervals, now, observe);
        self.show_echoes(now, observe);
    }

    fn show_echoes(&self, now: u64, observe: &mut dyn FnMut(Event)) {
        let (shown, threshold_ns) = (self.live.shown, self.facts.loss_threshold_ns);
        let flows = self.flows.iter();
        let mut all: Vec<EchoInterval> =
            flows.flat_map(|flow| flow.echoes(shown, threshold_ns, now)).collect();
        if all.is_empty() {
            return;
        }
        let error_ns = self.clock_state().map(|state| state.error_ns);
        for interval in &mut all {
            interval.clock_error_seconds = error_ns.map(|ns| ns as f64 / 1e9);
        }
        observe(Event::Echoes(all));
    }

    fn show_intervals(
        &mut self,
        intervals: &IntervalClock,
        now: u64,
        observe: &mut dyn FnMut(Event),
    ) {
        for index in std::mem::take(&mut self.live.more) {
            let (mut whole, is_whole) = self.interval(intervals, index, now);
            if is_whole {
                self.live.late.remove(&index);
                without_reported(&mut whole);
                observe(Event::Late(Box::new(whole)));
            }
        }
        while let Some(end) = intervals.end_ns(self.live.shown) {
            // What ends shortly after a boundary belongs to the interval before it: it may not be over yet. Once the
            // senders have ended, the rest is shown from the reports, with both ends' figures.
            if now < end + intervals.tail_ns() || self.senders_over() {
                return;
            }
            let index = self.live.shown;
            let (mut shown, is_whole) = self.interval(intervals, index, now);
            if !is_whole {
                if now < self.live.patience_ns(end) {
                    return;
                }
                self.live.late.insert(index);
                if self.live.late.len() > MAX_LATE {
                    self.live.late.pop_first();
                }
            }
            self.live.silent = !is_whole && self.live.peer_reports.interval(index).is_none();
            self.live.shown += 1;
            let reported = self.live.peer_reports.interval(index);
            let summed = reported.and_then(|t| t.sum.as_ref()).map(|(_, of)| *of);
            let mut lines = std::mem::take(&mut self.live.lines);
            let direction =
                |id| self.flow(id).map(|f| f.spec.connection.direction).unwrap_or_default();
            lines.correct(&mut shown, direction, summed);
            self.live.lines = lines;
            observe(Event::Interval(Box::new(shown)));
        }
    }

    /// An interval as known now, and whether it has the figures of all flows that ran in it.
    fn interval(&self, intervals: &IntervalClock, index: usize, now: u64) -> (Interval, bool) {
        let reported = self.live.peer_reports.interval(index);
        let begin_ns = intervals.start_offset_ns(index);
        let sum = reported.and_then(|t| t.sum.clone());
        let mut summed = sum.as_ref().map_or(0, |(_, of)| *of);
        let (mut counts, mut due) = (vec![], vec![]);
        for (spec, flow) in self.specs.iter().zip(&self.flows) {
            let direction = spec.connection.direction;
            let here = flow.interval(index, now);
            let there = reported.and_then(|t| t.flows.get(&spec.id).cloned());
            let ran = self.started.contains(&spec.id) && !self.failed.contains_key(&spec.id);
            let ended = self.sender_done.get(&spec.id);
            let over = ended.is_some_and(|total| total.end_ns.is_none_or(|end| end <= begin_ns));
            if ran && !over {
                due.push(match direction {
                    Direction::Forward => {
                        let in_sum = there.is_none() && summed > 0;
                        summed -= u32::from(in_sum);
                        (direction, here.is_some(), there.is_some() || in_sum)
                    }
                    Direction::Reverse => (direction, there.is_some(), here.is_some()),
                });
            }
            counts.push(match direction {
                Direction::Forward => {
                    (spec.id, direction, spec.connection.transport.name(), here, there)
                }
                Direction::Reverse => {
                    (spec.id, direction, spec.connection.transport.name(), there, here)
                }
            });
        }
        let is_whole = due.iter().all(|(_, sender, receiver)| *sender && *receiver);
        let mut out = interval(intervals, index, None, counts.into_iter());
        if let Some((sum, _)) = sum {
            set_received_sum(&mut out, sum);
        }
        mark_missing(&mut out, due);
        (out, is_whole)
    }
}
