//! Measures the clock and the lateness of wake-ups.

use weir_flow::{Class, Demand, Scheduling, WakeupLatency, Waking, waking};
use weir_net::clock::{Clock, monotonic_resolution_ns, set_timer_slack};
use weir_net::poll::{Events, Poller};
use weir_net::thread::{allowed_cpus, try_fifo};
use weir_net::waiting::{self, SPIN_NS, Woken};
use weir_stats::DelaySummary;

use super::figures::{Figures, median, put, put_quantiles};
use crate::Error;
use crate::error::Context;

/// Cost, resolution and smallest step of the monotonic clock.
pub(crate) fn measure(figures: &mut Figures) {
    let clock = Clock::System;
    let mut costs = Vec::with_capacity(101);
    let mut min_step = u64::MAX;
    for _ in 0..101 {
        let start = clock.monotonic_ns();
        let mut last = start;
        for _ in 0..64 {
            let now = clock.monotonic_ns();
            if now > last {
                min_step = min_step.min(now - last);
            }
            last = now;
        }
        costs.push(last - start);
    }
    let seconds = |ns: u64| ns as f64 / 1e9;
    put(figures, "clock_read_seconds", median(&mut costs).map(|ns| seconds(ns) / 64.0));
    put(figures, "clock_resolution_seconds", Some(seconds(monotonic_resolution_ns())));
    put(figures, "clock_step_seconds", (min_step < u64::MAX).then(|| seconds(min_step)));
    let bracket = clock.bracket();
    put(figures, "stamp_mapping_error_seconds", Some(seconds(bracket.width_ns().div_ceil(2))));
}

/// A thread that waits as a test's sender does at the same rate: scheduling class, spinning, sleeping.
pub(crate) struct Waiter {
    poller: Poller,
    events: Events,
    latency: WakeupLatency,
}

impl Waiter {
    /// Makes the calling thread wait as a sender of `packets_per_second` of `payload` bytes.
    fn new(packets_per_second: f64, payload: usize) -> Result<Self, Error> {
        let cpus = allowed_cpus().map_or(1, |c| c.len());
        let demand = Demand::paced(packets_per_second, 1, payload, 1);
        let mut wanted = waking(Scheduling::Auto, demand, cpus, SPIN_NS);
        if wanted.class == Class::Fifo && try_fifo(waiting::FIFO_PRIORITY).is_err() {
            wanted = Waking::normal(SPIN_NS);
        }
        let poller = Poller::new().context("wait with", "a poller")?;
        Ok(Waiter { poller, events: Events::new(1), latency: WakeupLatency::new(wanted) })
    }

    /// Makes the calling thread wait as an emulator's: under SCHED_FIFO, where permitted, it sleeps without spinning
    /// unless there are three processors.
    fn of_emulator() -> Result<Self, Error> {
        let cpus = allowed_cpus().map_or(1, |c| c.len());
        let is_fifo = try_fifo(waiting::FIFO_PRIORITY).is_ok();
        let spin_ns = if is_fifo && cpus < 3 { 0 } else { SPIN_NS };
        let class = if is_fifo { Class::Fifo } else { Class::Normal };
        let poller = Poller::new().context("wait with", "a poller")?;
        let waking = Waking { class, min_spin_ns: spin_ns, max_spin_ns: spin_ns };
        Ok(Waiter { poller, events: Events::new(1), latency: WakeupLatency::new(waking) })
    }

    /// Waits until `due_ns`; returns the time then. Returns immediately if that has passed.
    pub(crate) fn until(&mut self, clock: &Clock, due_ns: u64) -> u64 {
        let Waiter { poller, events, latency } = self;
        match waiting::wait_until(clock, poller, events, due_ns, latency.spin_ns()) {
            Woken::Due { now_ns, late_ns } => {
                late_ns.into_iter().for_each(|ns| latency.woke(ns));
                now_ns
            }
            // The poller has no other event source.
            Woken::Event => clock.monotonic_ns(),
        }
    }
}

/// Runs `work` on a thread without timer slack.
pub(crate) fn without_slack<T: Send>(
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let result = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            set_timer_slack(1)?;
            work()
        });
        thread.join()
    });
    match result {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Runs `work` on a thread that waits as a sender of `packets_per_second` of `payload` bytes.
pub(crate) fn as_sender<T: Send>(
    packets_per_second: f64,
    payload: usize,
    work: impl FnOnce(&mut Waiter) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    without_slack(|| work(&mut Waiter::new(packets_per_second, payload)?))
}

/// Lateness of a thread that wakes every millisecond as a paced sender does.
pub(crate) fn wake_ups(count: u32, figures: &mut Figures) -> Result<(), Error> {
    let late =
        as_sender(1000.0, super::paced::PAYLOAD, |waiter| Ok(every_millisecond(waiter, count)))?;
    put_quantiles(figures, "wakeup_late", &late);
    put(figures, "wakeup_late_max_seconds", late.max_ns().map(|ns| ns as f64 / 1e9));
    Ok(())
}

/// Lateness of a thread that wakes every millisecond as an emulator does while it delays packets.
pub(crate) fn emulator_wake_ups(count: u32, figures: &mut Figures) -> Result<(), Error> {
    let late = without_slack(|| Ok(every_millisecond(&mut Waiter::of_emulator()?, count)))?;
    put_quantiles(figures, "emulator_wakeup_late", &late);
    Ok(())
}

fn every_millisecond(waiter: &mut Waiter, count: u32) -> DelaySummary {
    let clock = Clock::System;
    let start = clock.monotonic_ns();
    let mut late = DelaySummary::new();
    for n in 1..=u64::from(count) {
        let due = start + n * 1_000_000;
        // A deadline that passed while this thread was not running counts as late too.
        late.record(waiter.until(&clock, due).wrapping_sub(due) as i64);
    }
    late
}
