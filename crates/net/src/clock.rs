//! Reading time. All code reads time from a [`Clock`], so that a test can inject one that is offset, drifts or is
//! stepped, without changing the machine's.
//!
//! Times are unsigned nanoseconds: monotonic since the platform's arbitrary origin (`CLOCK_MONOTONIC`), realtime since
//! 1970-01-01 UTC (`CLOCK_REALTIME`, which is what kernel packet stamps carry).

use std::sync::{Arc, Mutex};

use crate::reference::TimeBound;
use crate::sys;

pub use crate::sys::clock::{
    boot_id, children_cpu, monotonic_resolution_ns, process_cpu, set_timer_slack, thread_cpu_ns,
    time_namespace,
};

/// CPU time used by this process so far, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCpu {
    /// Time in user mode, ns.
    pub user_ns: u64,
    /// Time in the kernel on behalf of this process, ns.
    pub system_ns: u64,
}

/// A realtime reading between two monotonic ones: the realtime clock read `realtime_ns` at some moment of
/// `before_ns..=after_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// Monotonic time before the realtime clock was read, ns.
    pub before_ns: u64,
    /// Realtime, ns since 1970-01-01 UTC.
    pub realtime_ns: u64,
    /// Monotonic time after it was read, ns.
    pub after_ns: u64,
}

impl Bracket {
    /// Width of the bracket, ns: twice the bound on the error of [`Bracket::realtime_minus_monotonic`].
    pub fn width_ns(&self) -> u64 {
        self.after_ns.saturating_sub(self.before_ns)
    }

    /// Realtime minus monotonic, ns, taken at the middle of the bracket.
    pub fn realtime_minus_monotonic(&self) -> i64 {
        let middle = self.before_ns + self.width_ns() / 2;
        self.realtime_ns.wrapping_sub(middle) as i64
    }
}

/// A source of time. Cheap to clone; clones of an injected clock share its settings.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clocks.
    #[default]
    System,
    /// The machine's clocks, with the changes that a test sets.
    Injected(InjectedClock),
}

impl Clock {
    /// Monotonic time, ns. Costs one read of the machine's clock (tens of ns): read it once per batch.
    #[inline]
    pub fn monotonic_ns(&self) -> u64 {
        let now = sys::clock::monotonic_ns();
        match self {
            Clock::System => now,
            Clock::Injected(injected) => injected.lock().monotonic(now),
        }
    }

    /// Realtime, ns since 1970-01-01 UTC.
    #[inline]
    pub fn realtime_ns(&self) -> u64 {
        match self {
            Clock::System => sys::clock::realtime_ns(),
            Clock::Injected(injected) => {
                let now = sys::clock::monotonic_ns();
                injected.lock().realtime(now, sys::clock::realtime_ns())
            }
        }
    }

    /// Realtime read between two monotonic readings; the narrowest of several attempts, so that one preemption does not
    /// widen it.
    pub fn bracket(&self) -> Bracket {
        self.bracket_within(0)
    }

    /// The same, without further attempts after one of this width, ns.
    pub fn bracket_within(&self, width_ns: u64) -> Bracket {
        let mut best = self.one_bracket();
        for _ in 1..5 {
            if best.width_ns() <= width_ns {
                break;
            }
            let this = self.one_bracket();
            if this.width_ns() < best.width_ns() {
                best = this;
            }
        }
        best
    }

    fn one_bracket(&self) -> Bracket {
        let before_ns = self.monotonic_ns();
        let realtime_ns = self.realtime_ns();
        Bracket { before_ns, realtime_ns, after_ns: self.monotonic_ns() }
    }

    /// Translates a kernel stamp (always the machine's `CLOCK_REALTIME`) to this clock's realtime at that moment. The
    /// identity for [`Clock::System`]; with an injected clock, packet stamps follow the injected offset, skew and
    /// step, as on a machine with such a clock.
    #[inline]
    pub fn kernel_stamp_ns(&self, stamp_realtime_ns: u64) -> u64 {
        match self {
            Clock::System => stamp_realtime_ns,
            Clock::Injected(injected) => {
                let (now, real) = (sys::clock::monotonic_ns(), sys::clock::realtime_ns());
                let at = now.wrapping_sub(real).wrapping_add(stamp_realtime_ns);
                injected.lock().realtime(at, stamp_realtime_ns)
            }
        }
    }

    /// Sleeps until the monotonic clock shows `monotonic_ns` or later; returns immediately if that is past. Signals
    /// do not shorten the sleep. The delay of the wake-up is up to the system: see [`set_timer_slack`].
    pub fn sleep_until(&self, monotonic_ns: u64) {
        match self {
            Clock::System => sys::clock::sleep_until(monotonic_ns),
            Clock::Injected(injected) => {
                let system = injected.lock().system_from_monotonic(monotonic_ns);
                sys::clock::sleep_until(system);
            }
        }
    }
}

/// A clock for tests: the machine's clock plus an offset, a skew and realtime steps, each of which may be set at any
/// time from any thread.
#[derive(Clone, Debug)]
pub struct InjectedClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Added to the monotonic clock only, as a time namespace does.
    monotonic_offset_ns: i64,
    /// Added to the realtime clock only: the sum of all steps.
    realtime_offset_ns: i64,
    /// Rate error in parts per 10^9; moves both clocks.
    skew_ppb: i64,
    /// System monotonic time at which the skew was last set, and the drift gathered until then.
    anchor_ns: u64,
    drift_at_anchor_ns: i64,
    /// The bound that a time service of this clock would report.
    time_bound: Option<TimeBound>,
}

impl State {
    fn drift(&self, system_ns: u64) -> i64 {
        let elapsed = i128::from(system_ns) - i128::from(self.anchor_ns);
        // Fits: |elapsed| < 2^64 and |skew| <= 10^9 give at most 2^64 ns, clamped below.
        let drift = i128::from(self.drift_at_anchor_ns)
            + elapsed * i128::from(self.skew_ppb) / 1_000_000_000;
        drift.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    fn monotonic(&self, system_ns: u64) -> u64 {
        add(system_ns, [self.monotonic_offset_ns, self.drift(system_ns)])
    }

    fn realtime(&self, system_ns: u64, system_realtime_ns: u64) -> u64 {
        add(system_realtime_ns, [self.realtime_offset_ns, self.drift(system_ns)])
    }

    /// The system's monotonic time at which this clock shows `target_ns`: the inverse of [`State::monotonic`].
    fn system_from_monotonic(&self, target_ns: u64) -> u64 {
        let at_anchor = i128::from(self.anchor_ns)
            + i128::from(self.monotonic_offset_ns)
            + i128::from(self.drift_at_anchor_ns);
        let elapsed = (i128::from(target_ns) - at_anchor) * 1_000_000_000
            / i128::from(1_000_000_000 + self.skew_ppb);
        (i128::from(self.anchor_ns) + elapsed).clamp(0, i128::from(u64::MAX)) as u64
    }
}

fn add(base: u64, parts: [i64; 2]) -> u64 {
    let sum = i128::from(base) + i128::from(parts[0]) + i128::from(parts[1]);
    sum.clamp(0, i128::from(u64::MAX)) as u64
}

impl Default for InjectedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl InjectedClock {
    /// Largest skew that can be set, in parts per 10^9: 50 %.
    const MAX_SKEW_PPB: i64 = 500_000_000;

    /// A clock that shows the machine's time until it is changed.
    pub fn new() -> Self {
        let state = State {
            monotonic_offset_ns: 0,
            realtime_offset_ns: 0,
            skew_ppb: 0,
            anchor_ns: sys::clock::monotonic_ns(),
            drift_at_anchor_ns: 0,
            time_bound: None,
        };
        InjectedClock(Arc::new(Mutex::new(state)))
    }

    /// The [`Clock`] to hand to readers.
    pub fn clock(&self) -> Clock {
        Clock::Injected(self.clone())
    }

    /// Sets what is added to the monotonic clock, ns; realtime is left as it is, as in a time namespace.
    pub fn set_monotonic_offset_ns(&self, offset_ns: i64) {
        self.lock().monotonic_offset_ns = offset_ns;
    }

    /// Steps the realtime clock by `step_ns`, on top of earlier steps; the monotonic clock is unaffected.
    pub fn step_realtime_ns(&self, step_ns: i64) {
        let mut state = self.lock();
        state.realtime_offset_ns = state.realtime_offset_ns.saturating_add(step_ns);
    }

    /// From now on both clocks run fast by `skew_ppb` parts per 10^9 (slow when negative), without a step. Clamped to
    /// ±50 %.
    pub fn set_skew_ppb(&self, skew_ppb: i64) {
        let now = sys::clock::monotonic_ns();
        let mut state = self.lock();
        state.drift_at_anchor_ns = state.drift(now);
        state.anchor_ns = now;
        state.skew_ppb = skew_ppb.clamp(-Self::MAX_SKEW_PPB, Self::MAX_SKEW_PPB);
    }

    /// Sets the bound that a time service reports for the realtime clock, true or not; `None`: no service.
    pub fn set_time_bound(&self, bound: Option<TimeBound>) {
        self.lock().time_bound = bound;
    }

    /// The bound set by [`InjectedClock::set_time_bound`].
    pub(crate) fn time_bound(&self) -> Option<TimeBound> {
        self.lock().time_bound
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        crate::thread::lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn system_clock_goes_forward_and_brackets() {
        let clock = Clock::System;
        let a = clock.monotonic_ns();
        let b = clock.bracket();
        let c = clock.monotonic_ns();
        assert!(a <= b.before_ns && b.before_ns <= b.after_ns && b.after_ns <= c);
        // Later than 2020: a realtime clock, not an uptime.
        assert!(b.realtime_ns > 1_577_836_800_000_000_000);
    }

    #[test]
    fn sleep_until_never_returns_early() {
        let injected = InjectedClock::new();
        injected.set_monotonic_offset_ns(1_000_000_000_000);
        injected.set_skew_ppb(-300_000_000);
        for clock in [Clock::System, injected.clock()] {
            let target = clock.monotonic_ns() + 2_000_000;
            clock.sleep_until(target);
            // One ns of rounding in the inverse of the skew.
            assert!(clock.monotonic_ns() + 1 >= target);
            clock.sleep_until(0);
        }
    }

    #[test]
    fn offset_moves_monotonic_only_and_step_realtime_only() {
        let injected = InjectedClock::new();
        let clock = injected.clock();
        injected.set_monotonic_offset_ns(5_000_000_000_000);
        let system = Clock::System.bracket();
        let shifted = clock.bracket();
        let moved = system.realtime_minus_monotonic() - shifted.realtime_minus_monotonic();
        assert!((moved - 5_000_000_000_000).abs() < 100_000_000, "{moved}");
        injected.step_realtime_ns(-2_000_000_000);
        injected.step_realtime_ns(1_000_000_000);
        let stepped = clock.bracket();
        let step = stepped.realtime_minus_monotonic() - shifted.realtime_minus_monotonic();
        assert!((step + 1_000_000_000).abs() < 100_000_000, "{step}");
        assert_eq!(Clock::System.kernel_stamp_ns(77), 77);
        let stamp = sys::clock::realtime_ns();
        assert_eq!(clock.kernel_stamp_ns(stamp), stamp - 1_000_000_000);
    }

    #[test]
    fn clones_share_settings() {
        let injected = InjectedClock::new();
        let clock = injected.clock();
        let copy = clock.clone();
        injected.set_monotonic_offset_ns(1 << 50);
        assert!(copy.monotonic_ns() > 1 << 50);
        assert!(clock.monotonic_ns() > 1 << 50);
    }

    proptest! {
        #[test]
        fn skewed_clock_inverts(
            skew in -InjectedClock::MAX_SKEW_PPB..=InjectedClock::MAX_SKEW_PPB,
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
            drift in -1_000_000_000_i64..1_000_000_000,
            elapsed in 0_u64..10_000_000_000_000,
        ) {
            let anchor = 10_000_000_000_000;
            let state = State {
                monotonic_offset_ns: offset, realtime_offset_ns: 0, skew_ppb: skew, anchor_ns: anchor,
                drift_at_anchor_ns: drift, time_bound: None,
            };
            let system = anchor + elapsed;
            let back = state.system_from_monotonic(state.monotonic(system));
            prop_assert!(back.abs_diff(system) <= 2, "{back} {system}");
        }

        #[test]
        fn skew_is_the_rate(skew in -InjectedClock::MAX_SKEW_PPB..=InjectedClock::MAX_SKEW_PPB) {
            let state = State {
                monotonic_offset_ns: 0, realtime_offset_ns: 0, skew_ppb: skew, anchor_ns: 0, drift_at_anchor_ns: 0,
                time_bound: None,
            };
            prop_assert_eq!(state.monotonic(1_000_000_000) as i64, 1_000_000_000 + skew);
            prop_assert_eq!(state.realtime(1_000_000_000, 2_000_000_000) as i64, 2_000_000_000 + skew);
        }
    }
}
