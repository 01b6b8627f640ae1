//! When a paced sender may send: slots at exact multiples of the period, and what to do when it falls behind.
//!
//! Slot k is due at `start + k × period`. The period is kept as a 64.64 fixed-point number of nanoseconds, so that
//! after 10^12 slots the schedule is still right to the nanosecond: the achieved rate has no rounding error of ours.
//! Where intervals differ ([`Gaps`]), each slot is due an interval after the one before; slots that are skipped take the
//! mean interval and draw none.

use std::collections::VecDeque;

use weir_model::plan::CatchUp;

use crate::gaps::{Gaps, fixed};

/// A backlog beyond this is not made up: its slots are skipped and counted as missed.
pub const MAX_BACKLOG_NS: u64 = 100_000_000;
/// Maximum number of slots of differing intervals that are due together.
const MAX_AHEAD: u32 = 1024;
/// Under `spread`, sends at differing intervals may trail their spread schedule by up to this many mean intervals and
/// [`TRAIL_NS`]: short intervals follow each other faster than sends at high rates, which long ones make up.
const TRAIL_SLOTS: u64 = 32;
const TRAIL_NS: u64 = 1_000_000;
/// Slots that are then served together.
const MAX_TOGETHER: u32 = 8;

/// The schedule of one paced flow.
#[derive(Debug, Clone)]
pub struct Pacer {
    /// The mean interval, ns × 2^64.
    period: u128,
    start_ns: u64,
    /// Next slot to serve.
    slot: u64,
    burst: u32,
    catch_up: CatchUp,
    /// A backlog beyond this is missed.
    max_backlog_ns: u64,
    /// Under `spread`: no send before this.
    not_before_ns: u64,
    /// Slots that have been due for less than this are served together, and are not late.
    together_ns: u64,
    late: u64,
    missed: u64,
    drawn: Option<Box<Drawn>>,
}

/// A schedule of differing intervals.
#[derive(Debug, Clone)]
struct Drawn {
    gaps: Gaps,
    /// When the burst of the next slot is due, ns × 2^64 since the start.
    due: u128,
    /// Sum of the intervals of its slots that were served.
    within: u128,
    /// Intervals of the next slots.
    ahead: VecDeque<u128>,
    /// The packet whose interval is drawn next.
    packet: u64,
}

impl Drawn {
    /// Draws the intervals of the next `count` slots.
    fn look_ahead(&mut self, count: usize) {
        while self.ahead.len() < count {
            self.ahead.push_back(self.gaps.after(self.packet));
            self.packet += 1;
        }
    }

    /// When each slot of the look-ahead is due, starting with `slot`, the next one.
    fn deadlines(&self, slot: u64, burst: u64) -> impl Iterator<Item = u128> {
        let (mut due, mut end) = (self.due, self.due.saturating_add(self.within));
        let gaps = self.ahead.iter();
        std::iter::once(due).chain(gaps.zip(slot + 1..).map(move |(gap, slot)| {
            end = end.saturating_add(*gap);
            if slot.is_multiple_of(burst) {
                due = end;
            }
            due
        }))
    }

    /// The next slot, `slot`, was served.
    fn serve(&mut self, slot: u64, burst: u64) {
        self.look_ahead(1);
        self.within = self.within.saturating_add(self.ahead.pop_front().unwrap_or(0));
        if (slot + 1).is_multiple_of(burst) {
            self.due = self.due.saturating_add(std::mem::take(&mut self.within));
        }
    }
}

/// A pacer's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing is due before this time.
    At(u64),
    /// This many slots may be served now.
    Now(u32),
}

impl Pacer {
    /// A schedule of `packets_per_second` (above 0, at most 10^9) in groups of `burst`, beginning at `start_ns`.
    pub fn new(packets_per_second: f64, burst: u32, catch_up: CatchUp, start_ns: u64) -> Self {
        let rate =
            if packets_per_second.is_finite() { packets_per_second.clamp(1e-6, 1e9) } else { 1e9 };
        Pacer {
            period: fixed(1e9 / rate),
            start_ns,
            slot: 0,
            burst: burst.max(1),
            catch_up,
            max_backlog_ns: MAX_BACKLOG_NS,
            not_before_ns: start_ns,
            together_ns: 0,
            late: 0,
            missed: 0,
            drawn: None,
        }
    }

    /// The same without the limit of the backlog: a slot is skipped only by the policy, or at the end.
    #[must_use]
    pub(crate) fn with_unlimited_backlog(mut self) -> Self {
        self.max_backlog_ns = u64::MAX;
        self
    }

    /// The same for a sender whose calls take longer than a period: each serves all slots that are due, as far as the policy
    /// makes them up, those of `together_ns` at most.
    #[must_use]
    pub(crate) fn with_calls(mut self, together_ns: u64) -> Self {
        self.together_ns = together_ns;
        self
    }

    /// The same with differing intervals, if any; `packet` is the first.
    #[must_use]
    pub(crate) fn with_gaps(mut self, gaps: Option<Gaps>, packet: u64) -> Self {
        self.drawn = gaps.map(|gaps| {
            Box::new(Drawn { gaps, due: 0, within: 0, ahead: VecDeque::new(), packet })
        });
        self
    }

    /// The time at which a slot is meant to be sent; slots of one burst share that of their first. Where intervals
    /// differ, it is known for the next slot and the later ones that [`Pacer::due`] has returned.
    #[inline]
    pub fn intended_ns(&self, slot: u64) -> u64 {
        if let Some(drawn) = &self.drawn {
            return self.drawn_ns(drawn, slot);
        }
        let first = slot - slot % u64::from(self.burst);
        // slot × period needs up to 64 + 104 bits: split so that no step overflows.
        let whole = (self.period >> 64) as u64;
        let fraction = self.period as u64;
        let rounded = (u128::from(first) * u128::from(fraction) + (1 << 63)) >> 64;
        let ns = u128::from(first) * u128::from(whole) + rounded;
        self.start_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    fn drawn_ns(&self, drawn: &Drawn, slot: u64) -> u64 {
        let ahead = slot.saturating_sub(self.slot);
        let left = u64::from(self.burst) - self.slot % u64::from(self.burst);
        let due = if ahead < left {
            drawn.due
        } else {
            let known = ahead.min(drawn.ahead.len() as u64) as usize;
            drawn.deadlines(self.slot, self.burst.into()).nth(known).unwrap_or(drawn.due)
        };
        self.start_ns.saturating_add((due.saturating_add(1 << 63) >> 64) as u64)
    }

    /// The mean period, rounded to nanoseconds.
    pub fn period_ns(&self) -> u64 {
        ((self.period + (1 << 63)) >> 64) as u64
    }

    /// The slot to be served next.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Slots served more than one period after their time, or than the time whose slots are served together.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Slots skipped.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// What may be sent at `now_ns`. Skips slots that can't be made up.
    pub fn due(&mut self, now_ns: u64) -> Due {
        let mut intended = self.intended_ns(self.slot);
        if now_ns > intended.saturating_add(self.max_backlog_ns) {
            self.skip_to(now_ns - self.max_backlog_ns);
            intended = self.intended_ns(self.slot);
        }
        let period = self.period_ns();
        let behind = now_ns.saturating_sub(intended);
        match self.catch_up {
            CatchUp::None if behind > self.together_ns.max(self.burst_ns()) => {
                self.skip_to(now_ns - period);
                intended = self.intended_ns(self.slot);
            }
            CatchUp::Burst(most)
                if behind > self.together_ns.max(period.saturating_mul(u64::from(most))) =>
            {
                self.skip_to(now_ns - period.saturating_mul(u64::from(most)));
                intended = self.intended_ns(self.slot);
            }
            _ => {}
        }
        let at = match self.catch_up {
            // The rest of a started burst is not backlog, however many turns the sender needs for it.
            CatchUp::Spread(_) if self.slot.is_multiple_of(u64::from(self.burst)) => {
                intended.max(self.not_before_ns)
            }
            _ => intended,
        };
        if at > now_ns {
            return Due::At(at);
        }
        let left_in_burst = self.burst - (self.slot % u64::from(self.burst)) as u32;
        if self.together_ns > 0 {
            return Due::Now(self.due_together(now_ns, left_in_burst));
        }
        Due::Now(match self.catch_up {
            CatchUp::Burst(most) if self.drawn.is_some() => self.drawn_due(now_ns, most),
            CatchUp::Spread(_) if self.drawn.is_some() => {
                let trail = now_ns.saturating_sub(self.not_before_ns) / period.max(1);
                self.drawn_due(now_ns, 1 + trail.min(u64::from(MAX_TOGETHER - 1)) as u32)
            }
            CatchUp::Burst(most) => {
                let due = self.first_from(now_ns.saturating_add(1)).saturating_sub(self.slot);
                u32::try_from(due.min(u64::from(most))).unwrap_or(most).max(left_in_burst)
            }
            _ => left_in_burst,
        })
    }

    fn burst_ns(&self) -> u64 {
        self.period_ns().saturating_mul(u64::from(self.burst))
    }

    /// Slots that one call serves at `now_ns`, at least `left_in_burst`.
    fn due_together(&mut self, now_ns: u64, left_in_burst: u32) -> u32 {
        let slots = |ns: u64| ns / self.period_ns().max(1);
        let most = match self.catch_up {
            // No faster than the policy makes them up.
            CatchUp::Spread(percent) => {
                let since = now_ns.saturating_sub(self.not_before_ns).min(self.together_ns) as f64;
                1 + slots((since * (1.0 + percent / 100.0)) as u64)
            }
            CatchUp::Burst(most) => slots(self.together_ns).max(most.into()),
            CatchUp::None => slots(self.together_ns),
        };
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        if self.drawn.is_some() {
            return self.drawn_due(now_ns, most.max(left_in_burst));
        }
        let due = self.first_from(now_ns.saturating_add(1)).saturating_sub(self.slot);
        u32::try_from(due).unwrap_or(u32::MAX).min(most).max(left_in_burst)
    }

    /// Slots of differing intervals that are due at `now_ns`: those left of the burst, or up to `most`.
    fn drawn_due(&mut self, now_ns: u64, most: u32) -> u32 {
        let burst = u64::from(self.burst);
        let left = self.burst - (self.slot % burst) as u32;
        let most = most.min(MAX_AHEAD);
        // A burst may be longer than the look-ahead.
        if most <= left {
            return left;
        }
        let now = u128::from(now_ns.saturating_sub(self.start_ns)) << 64;
        let Some(drawn) = &mut self.drawn else { return left };
        drawn.look_ahead(most as usize);
        let due = drawn.deadlines(self.slot, burst).take(most as usize);
        (due.take_while(|due| *due <= now).count() as u32).max(left)
    }

    /// `count` slots were served at `now_ns`.
    pub fn served(&mut self, count: u32, now_ns: u64) {
        let punctual = self.period_ns().max(self.together_ns);
        let due_before = self.drawn.as_ref().map(|drawn| drawn.due);
        let bursts_before = self.slot / u64::from(self.burst);
        for _ in 0..count {
            if now_ns > self.intended_ns(self.slot).saturating_add(punctual) {
                self.late += 1;
            }
            if let Some(drawn) = &mut self.drawn {
                drawn.serve(self.slot, self.burst.into());
            }
            self.slot += 1;
        }
        let ended = self.slot / u64::from(self.burst) - bursts_before;
        if let CatchUp::Spread(percent) = self.catch_up
            && ended > 0
        {
            let slots = ended as f64 * f64::from(self.burst);
            let planned = match (&self.drawn, due_before) {
                (Some(drawn), Some(before)) => (drawn.due.saturating_sub(before) >> 64) as f64,
                _ => self.period_ns() as f64 * slots,
            };
            let gap = planned / (1.0 + percent / 100.0);
            // Counted from the time when it was due, not from now, so that a late wake-up does not delay twice; but
            // at most half a gap back, so that a stall does not end in two packets at once.
            let back = match self.drawn {
                _ if self.together_ns > 0 => self.together_ns,
                Some(_) => self.period_ns().saturating_mul(TRAIL_SLOTS).min(TRAIL_NS),
                None => gap as u64 / 2,
            };
            let from = self.not_before_ns.max(now_ns.saturating_sub(back));
            self.not_before_ns = from.saturating_add(gap as u64);
        }
    }

    /// Sending has ended at `end_ns`: slots that were due before it and not served are missed.
    pub fn end(&mut self, end_ns: u64) {
        self.skip_to(end_ns);
    }

    /// Ends this schedule at `at_ns` in favour of one with packets every `period_ns`; returns its start. Slots that were due
    /// before `at_ns` and wait to be served are slots of the new schedule, so that their number stays right; those
    /// beyond the backlog limit, at either rate, are missed here.
    pub(crate) fn succeed(&mut self, at_ns: u64, period_ns: f64) -> u64 {
        if at_ns > self.intended_ns(self.slot).saturating_add(MAX_BACKLOG_NS) {
            self.skip_to(at_ns - MAX_BACKLOG_NS);
        }
        let mut rest = self.clone();
        rest.skip_to(at_ns);
        let owed = rest.missed - self.missed;
        let carried = owed.min((MAX_BACKLOG_NS as f64 / period_ns) as u64);
        self.missed += owed - carried;
        let next = rest.intended_ns(rest.slot);
        let first = match &self.drawn {
            // A drawn interval keeps the fraction of it that is left.
            Some(_) => {
                let left = next.saturating_sub(at_ns) as f64;
                at_ns.saturating_add((left * period_ns / self.period_ns().max(1) as f64) as u64)
            }
            None => next.min(at_ns.saturating_add(period_ns as u64)),
        };
        first.saturating_sub((carried as f64 * period_ns) as u64)
    }

    /// The first slot that is due at `then_ns` or later: always that of a whole burst.
    fn first_from(&self, then_ns: u64) -> u64 {
        let elapsed = u128::from(then_ns.saturating_sub(self.start_ns));
        // Slots up to and including one at `then`; elapsed is below 2^64, so the shift stays within 128 bits.
        let mut first = u64::try_from((elapsed << 64) / self.period.max(1))
            .unwrap_or(u64::MAX - u64::from(self.burst));
        first -= first % u64::from(self.burst);
        if self.intended_ns(first) < then_ns {
            first += u64::from(self.burst);
        }
        first
    }

    /// Skips, as missed, the slots that were due before `then_ns`, in whole bursts.
    fn skip_to(&mut self, then_ns: u64) {
        if let Some(drawn) = &mut self.drawn {
            let then = u128::from(then_ns.saturating_sub(self.start_ns)) << 64;
            if then <= drawn.due {
                return;
            }
            let burst = u64::from(self.burst);
            let mean = self.period.saturating_mul(u128::from(burst)).max(1);
            let bursts = (then - drawn.due).div_ceil(mean);
            drawn.due = drawn.due.saturating_add(mean.saturating_mul(bursts));
            drawn.within = 0;
            let slots = u64::try_from(bursts).unwrap_or(u64::MAX).saturating_mul(burst);
            let skipped = slots.saturating_sub(self.slot % burst);
            self.missed = self.missed.saturating_add(skipped);
            self.slot = self.slot.saturating_add(skipped);
            return;
        }
        let target = self.first_from(then_ns);
        if target > self.slot {
            self.missed += target - self.slot;
            self.slot = target;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_model::plan::FlowSpec;

    /// Runs a sender on the virtual clock that is asleep during `stalls`, and returns the send times.
    fn run(mut p: Pacer, until: u64, stalls: &[(u64, u64)]) -> (Vec<u64>, Pacer) {
        let (mut now, mut sent) = (0u64, vec![]);
        while now < until {
            match p.due(now) {
                Due::Now(n) => {
                    for _ in 0..n {
                        sent.push(now);
                    }
                    p.served(n, now);
                }
                Due::At(t) => {
                    now = t;
                    for (from, to) in stalls {
                        if now >= *from && now < *to {
                            now = *to;
                        }
                    }
                }
            }
        }
        (sent, p)
    }

    #[test]
    fn on_time_it_serves_every_slot_exactly() {
        let (sent, p) = run(Pacer::new(997.0, 1, CatchUp::default(), 0), 10_000_000_000, &[]);
        assert_eq!(sent.len(), 9970);
        assert_eq!((p.late(), p.missed()), (0, 0));
        for (k, t) in sent.iter().enumerate() {
            assert!((*t as f64 - k as f64 * 1e9 / 997.0).abs() <= 1.0);
        }
    }

    #[test]
    fn no_rounding_error_of_the_rate_after_a_long_time() {
        let p = Pacer::new(3.0e6, 1, CatchUp::None, 0);
        let slot = 3_000_000u64 * 86_400;
        assert!((p.intended_ns(slot) as i64 - 86_400_000_000_000).abs() <= 2);
    }

    #[test]
    fn spread_makes_up_a_stall_without_a_burst() {
        let (sent, p) = run(
            Pacer::new(1000.0, 1, CatchUp::Spread(5.0), 0),
            3_000_000_000,
            &[(500_000_000, 550_000_000)],
        );
        assert_eq!(p.missed(), 0);
        assert!(p.late() > 0);
        assert_eq!(sent.len(), 3000);
        let least = sent.windows(2).map(|w| w[1] - w[0]).min().unwrap();
        assert!(least >= 450_000, "gap of {least} ns");
    }

    #[test]
    fn none_skips_and_counts() {
        let (sent, p) = run(
            Pacer::new(1000.0, 1, CatchUp::None, 0),
            1_000_000_000,
            &[(500_000_000, 550_000_000)],
        );
        assert!((48..=50).contains(&p.missed()), "{}", p.missed());
        assert_eq!(sent.len() as u64 + p.missed(), 1000);
    }

    #[test]
    fn a_long_stall_is_missed_beyond_100_ms() {
        let (sent, p) = run(
            Pacer::new(1000.0, 1, CatchUp::Spread(5.0), 0),
            2_000_000_000,
            &[(500_000_000, 900_000_000)],
        );
        assert!((299..=301).contains(&p.missed()), "{}", p.missed());
        assert!(sent.len() as u64 + p.missed() <= 2000);
    }

    #[test]
    fn burst_sends_at_most_n_at_once() {
        let (sent, p) = run(
            Pacer::new(1000.0, 1, CatchUp::Burst(8), 0),
            1_000_000_000,
            &[(500_000_000, 550_000_000)],
        );
        let at_once = sent.iter().filter(|t| **t == 550_000_000).count();
        assert!((8..=9).contains(&at_once), "{at_once}");
        assert!((40..=43).contains(&p.missed()));
    }

    /// Runs a sender whose calls take 20 µs and 300 ns for each packet; returns the number of packets of each call.
    fn run_calls(mut p: Pacer, until: u64, stall: (u64, u64)) -> (Vec<u32>, Pacer) {
        let (mut now, mut calls) = (0u64, vec![]);
        while now < until {
            match p.due(now) {
                Due::Now(n) => {
                    p.served(n, now);
                    calls.push(n);
                    now += 20_000 + 300 * u64::from(n);
                }
                Due::At(at) => now = at,
            }
            if (stall.0..stall.1).contains(&now) {
                now = stall.1;
            }
        }
        p.end(until);
        (calls, p)
    }

    #[test]
    fn slow_calls_serve_what_is_due_and_keep_the_rate() {
        const TOGETHER: u64 = 1_000_000;
        for policy in [CatchUp::default(), CatchUp::None, CatchUp::Burst(4)] {
            for (rate, most) in [(1000.0, 1), (40_000.0, 1), (100_000.0, 3), (1e6, 32), (2e6, 120)]
            {
                let p = Pacer::new(rate, 1, policy, 0).with_calls(TOGETHER);
                let (calls, p) = run_calls(p, 1_000_000_000, (0, 0));
                let sent: u64 = calls.iter().map(|n| u64::from(*n)).sum();
                assert_eq!((sent + p.missed(), p.late()), (rate as u64, 0), "{policy:?} {rate}");
                // Those that were due during the last call.
                assert!(p.missed() <= u64::from(most), "{policy:?} {rate}: {}", p.missed());
                let longest = calls.iter().max().unwrap();
                assert!(*longest <= most, "{policy:?} {rate}: {longest}");
            }
        }
    }

    #[test]
    fn slow_calls_make_up_a_stall_without_a_burst() {
        let p = Pacer::new(100_000.0, 1, CatchUp::Spread(5.0), 0).with_calls(1_000_000);
        let (calls, p) = run_calls(p, 1_000_000_000, (100_000_000, 110_000_000));
        let sent: u64 = calls.iter().map(|n| u64::from(*n)).sum();
        assert_eq!(p.missed() + sent, 100_000);
        assert!(p.missed() <= 3, "{}", p.missed());
        // Of 1000 that were due, those of a millisecond.
        assert!(*calls.iter().max().unwrap() <= 110, "{:?}", calls.iter().max());
    }

    #[test]
    fn slow_calls_keep_the_rate_of_random_intervals() {
        let (p, _) = exponential(100_000);
        let (calls, p) = run_calls(p.with_calls(1_000_000), 1_000_000_000, (0, 0));
        let sent: u32 = calls.iter().sum();
        assert!(p.missed() <= 20, "{}", p.missed());
        // Poisson's standard deviation is 316.
        assert!(sent.abs_diff(100_000) < 5 * 316, "{sent}");
    }

    #[test]
    fn a_stall_at_the_end_is_missed_too() {
        let mut p = Pacer::new(100.0, 1, CatchUp::default(), 0);
        for k in 0..60 {
            p.served(1, k * 10_000_000);
        }
        p.end(1_000_000_000);
        assert_eq!((p.missed(), p.slot()), (40, 100));
    }

    #[test]
    fn groups_share_a_deadline() {
        let (sent, _) = run(Pacer::new(1000.0, 10, CatchUp::default(), 0), 1_000_000_000, &[]);
        assert_eq!(sent.len(), 1000);
        assert_eq!(sent.iter().collect::<std::collections::BTreeSet<_>>().len(), 100);
    }

    /// A flow of exponential intervals at `rate` per second.
    fn exponential(rate: u32) -> (Pacer, FlowSpec) {
        let text = format!(
            "schema = 'weir.plan/1'\nseed = 7\n[[connection]]\ntransport = 'udp'\nspacing = 'exponential'\nrate = '{rate}pps'"
        );
        let plan = weir_model::plan::Plan::parse(&text).unwrap();
        let spec = plan.flows(weir_model::plan::Family::Ipv4, 1500).remove(0);
        let pacer = Pacer::new(f64::from(rate), 1, CatchUp::default(), 0);
        (pacer.with_gaps(Gaps::of(&spec, 1), 0), spec)
    }

    #[test]
    fn random_intervals_at_high_load_keep_the_rate() {
        // A datagram takes 0.8 of a mean interval to send.
        let (mut p, _) = exponential(100_000);
        let (mut now, mut sent) = (0u64, 0u64);
        while now < 1_000_000_000 {
            match p.due(now) {
                Due::Now(n) => {
                    p.served(n, now);
                    sent += u64::from(n);
                    now += 8000 * u64::from(n);
                }
                Due::At(at) => now = at,
            }
        }
        p.end(1_000_000_000);
        assert_eq!(p.missed(), 0);
        // Poisson's standard deviation is 316.
        assert!(sent.abs_diff(100_000) < 5 * 316, "{sent}");
    }

    #[test]
    fn a_stall_of_random_intervals_is_made_up_without_a_burst() {
        let (p, spec) = exponential(1000);
        let (sent, p) = run(p, 3_000_000_000, &[(500_000_000, 550_000_000)]);
        assert_eq!(p.missed(), 0);
        assert!((sent.len() as f64 - 3000.0).abs() < 5.0 * 3000f64.sqrt(), "{}", sent.len());
        // At 5 % above the rate, and not together.
        let soon = sent.iter().filter(|t| (550_000_000..560_000_000).contains(*t)).count();
        assert!((1..=25).contains(&soon), "{soon}");
        // The same schedule as without a stall.
        let (all, _) = run(exponential(1000).0, 3_000_000_000, &[]);
        assert_eq!(all.len(), sent.len(), "{spec:?}");
    }

    #[test]
    fn a_burst_of_several_turns_is_sent_without_delay() {
        for catch_up in [CatchUp::default(), CatchUp::None, CatchUp::Burst(64)] {
            let mut p = Pacer::new(1000.0, 32, catch_up, 0);
            let (mut now, mut sent) = (0, vec![]);
            while now < 1_000_000_000 {
                match p.due(now) {
                    Due::Now(n) => {
                        let turn = n.min(8);
                        sent.extend(std::iter::repeat_n(now, turn as usize));
                        p.served(turn, now);
                    }
                    Due::At(t) => now = t,
                }
            }
            let wanted: Vec<u64> = (0..1000).map(|k| k / 32 * 32_000_000).collect();
            assert_eq!(sent[..1000], wanted, "{catch_up:?}");
            assert_eq!((p.late(), p.missed()), (0, 0));
        }
    }

    proptest! {
        #[test]
        fn never_more_than_the_schedule(rate in 1.0f64..2e6, burst in 1u32..40, stall in 0u64..300_000_000,
            policy in prop_oneof![Just(CatchUp::None), Just(CatchUp::Spread(5.0)), Just(CatchUp::Burst(4))]) {
            let (sent, p) = run(Pacer::new(rate, burst, policy, 0), 100_000_000, &[(20_000_000, 20_000_000 + stall)]);
            let slots = (0.1 * rate).ceil() as u64 + 2 * u64::from(burst) + (stall as f64 * rate / 1e9) as u64;
            prop_assert!(sent.len() as u64 + p.missed() <= slots + 1);
            prop_assert_eq!(p.slot(), sent.len() as u64 + p.missed());
            for (k, t) in sent.iter().enumerate() {
                prop_assert!(*t >= p.intended_ns(k as u64), "packet {} before its slot", k);
            }
        }
    }
}
