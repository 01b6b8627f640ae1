//! Waiting for a time as a paced sender does: sleep until shortly before it, then spin. In one place, so that the
//! calibration of a host waits as its tests do.

use crate::clock::Clock;
use crate::poll::{Events, Poller};

/// How long before its time a thread of normal scheduling wakes, to spin the rest: longer than all but the rarest
/// lateness of a sleep where timers are exact.
pub const SPIN_NS: u64 = 60_000;

/// The priority of a sending thread under SCHED_FIFO: above every normal thread, and low among those in real time, so
/// that the kernel's own threads there keep their precedence.
pub const FIFO_PRIORITY: u8 = 10;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The time has come.
    Due {
        /// Monotonic time now, ns.
        now_ns: u64,
        /// How long after its end the last sleep returned, ns; absent when there was none.
        late_ns: Option<u64>,
    },
    /// Before the time, by an event of the poller.
    Event,
}

/// How long to sleep at `now_ns` to be awake at `due_ns`, ns; `None`: spin the rest.
fn sleep_ns(now_ns: u64, due_ns: u64, spin_ns: u64) -> Option<u64> {
    due_ns.saturating_sub(now_ns).checked_sub(spin_ns).filter(|ns| *ns > 0)
}

/// Sleeps on `poller` until `spin_ns` before `due_ns` (monotonic, ns), then spins. Returns immediately if that is
/// past; earlier if the poller has an event. Never sleeps if less than `spin_ns` is left: then events wait.
pub fn wait_until(
    clock: &Clock,
    poller: &Poller,
    events: &mut Events,
    due_ns: u64,
    spin_ns: u64,
) -> Woken {
    let mut now = clock.monotonic_ns();
    let mut late_ns = None;
    while let Some(ns) = sleep_ns(now, due_ns, spin_ns) {
        match poller.wait(events, Some(ns)) {
            Ok(0) => {}
            Ok(_) => return Woken::Event,
            // A poller that can't wait must not become a spin without end.
            Err(_) => clock.sleep_until(due_ns - spin_ns),
        }
        now = clock.monotonic_ns();
        late_ns = Some(now.saturating_sub(due_ns - spin_ns));
    }
    let now_ns = if now < due_ns { spin_until(clock, due_ns) } else { now };
    Woken::Due { now_ns, late_ns }
}

/// Spins until `due_ns`; returns the time then. Only for the rest after a sleep.
pub fn spin_until(clock: &Clock, due_ns: u64) -> u64 {
    loop {
        let now = clock.monotonic_ns();
        if now >= due_ns {
            return now;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Waker;

    #[test]
    fn sleeps_to_shortly_before_and_spins_no_longer() {
        assert_eq!(sleep_ns(0, 1_000_000, SPIN_NS), Some(940_000));
        assert_eq!(sleep_ns(940_000, 1_000_000, SPIN_NS), None);
        assert_eq!(sleep_ns(999_999, 1_000_000, SPIN_NS), None);
        assert_eq!(sleep_ns(2_000_000, 1_000_000, SPIN_NS), None);
        assert_eq!(sleep_ns(999_999, 1_000_000, 0), Some(1));
        assert_eq!(sleep_ns(1_000_000, 1_000_000, 0), None);
    }

    #[test]
    fn never_returns_early_and_an_event_ends_it() {
        let clock = Clock::System;
        let poller = Poller::new().unwrap();
        let mut events = Events::new(1);
        for spin_ns in [0, SPIN_NS] {
            let due = clock.monotonic_ns() + 100_000_000;
            match wait_until(&clock, &poller, &mut events, due, spin_ns) {
                Woken::Due { now_ns, late_ns } => {
                    assert!(now_ns >= due);
                    // It slept, and no longer than until now.
                    let late_ns = late_ns.unwrap();
                    assert!(due - spin_ns + late_ns <= now_ns);
                }
                Woken::Event => panic!("there is no event"),
            }
        }
        let waker = Waker::new(&poller, 1).unwrap();
        waker.wake();
        let far = clock.monotonic_ns() + 3_600_000_000_000;
        assert_eq!(wait_until(&clock, &poller, &mut events, far, SPIN_NS), Woken::Event);
        // Past: immediately, without checking the poller.
        assert!(matches!(
            wait_until(&clock, &poller, &mut events, 1, SPIN_NS),
            Woken::Due { late_ns: None, .. }
        ));
    }
}
