//! The clock itself, and waking at a time.

use weir_net::clock::{Clock, monotonic_resolution_ns, set_timer_slack};
use weir_stats::DelaySummary;

use super::figures::{Figures, median, put, put_quantiles};
use crate::Error;

/// Sleeping ends so long before the time; the rest is spun (design rule of pacing).
const SPIN_NS: u64 = 60_000;

/// Cost, resolution and least step of the monotonic clock.
pub(crate) fn measure(figures: &mut Figures) {
    let clock = Clock::System;
    let mut costs = Vec::with_capacity(101);
    let mut least_step = u64::MAX;
    for _ in 0..101 {
        let start = clock.monotonic_ns();
        let mut last = start;
        for _ in 0..64 {
            let now = clock.monotonic_ns();
            if now > last {
                least_step = least_step.min(now - last);
            }
            last = now;
        }
        costs.push(last - start);
    }
    let seconds = |ns: u64| ns as f64 / 1e9;
    put(figures, "clock_read_seconds", median(&mut costs).map(|ns| seconds(ns) / 64.0));
    put(figures, "clock_resolution_seconds", Some(seconds(monotonic_resolution_ns())));
    put(figures, "clock_step_seconds", (least_step < u64::MAX).then(|| seconds(least_step)));
    let bracket = clock.bracket();
    put(figures, "stamp_mapping_error_seconds", Some(seconds(bracket.width_ns().div_ceil(2))));
}

/// Sleeps to shortly before `due_ns`, then spins. Returns at once when that is past.
pub(crate) fn wait_until(clock: &Clock, due_ns: u64) -> u64 {
    let mut now = clock.monotonic_ns();
    if now + SPIN_NS < due_ns {
        clock.sleep_until(due_ns - SPIN_NS);
        now = clock.monotonic_ns();
    }
    while now < due_ns {
        std::hint::spin_loop();
        now = clock.monotonic_ns();
    }
    now
}

/// Runs `work` on a thread that wakes without slack.
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

/// How late a thread is that wakes as a paced sender does, every millisecond.
pub(crate) fn wake_ups(count: u32, figures: &mut Figures) -> Result<(), Error> {
    let late = without_slack(|| {
        let clock = Clock::System;
        let start = clock.monotonic_ns();
        let mut late = DelaySummary::new();
        for n in 1..=u64::from(count) {
            let due = start + n * 1_000_000;
            // A time that passed while this thread was kept away is no wake-up, but it is late all the same.
            late.record(wait_until(&clock, due).wrapping_sub(due) as i64);
        }
        Ok(late)
    })?;
    put_quantiles(figures, "wakeup_late", &late);
    put(figures, "wakeup_late_max_seconds", late.max_ns().map(|ns| ns as f64 / 1e9));
    Ok(())
}
