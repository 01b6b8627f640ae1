//! The scheduling class of a sending thread, adjusted as flows are added and removed.

use std::time::Duration;

use weir_flow::{Asked, Class, Demand, Scheduling, WakeupLatency, Waking, waking};
use weir_net::clock::thread_cpu_ns;
use weir_net::thread::{allowed_cpus, set_normal, try_fifo};
use weir_net::waiting::{FIFO_PRIORITY, SPIN_NS};

use crate::TrafficError;

/// How often the thread's use of its processor is checked.
const WATCH_NS: u64 = 100_000_000;
/// Maximum fraction of its processor for a thread under SCHED_FIFO. Above it, its flows cost more than estimated.
const MAX_USED: f64 = 0.8;

/// Maximum spin time that may be requested.
const MAX_SPIN: Duration = Duration::from_millis(10);

/// The scheduling requested for sending threads.
pub(crate) fn asked(scheduling: Scheduling, spin: Option<Duration>) -> Asked {
    Asked { scheduling, spin_ns: spin.map(|spin| spin.min(MAX_SPIN).as_nanos() as u64) }
}

/// Refuses a request for SCHED_FIFO that the system will not grant, before anything starts.
pub(crate) fn check(asked: Scheduling) -> Result<(), TrafficError> {
    if asked != Scheduling::Fifo {
        return Ok(());
    }
    // On another thread, so that this one keeps its class.
    let tried = std::thread::scope(|scope| scope.spawn(|| try_fifo(FIFO_PRIORITY)).join());
    match tried {
        Ok(tried) => tried.map_err(TrafficError::from),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The class of the calling thread, and what it may do before a deadline.
pub(super) struct Priority {
    asked: Asked,
    cpus: usize,
    latency: WakeupLatency,
    /// The system has refused SCHED_FIFO: it is not requested again.
    refused: bool,
    watch: Watch,
}

impl Priority {
    /// For a thread that is scheduled normally so far.
    pub(super) fn new(asked: impl Into<Asked>) -> Self {
        let asked = asked.into();
        Priority {
            asked,
            cpus: allowed_cpus().map_or(1, |c| c.len()),
            latency: WakeupLatency::new(normal(asked)),
            refused: false,
            watch: Watch::default(),
        }
    }

    pub(super) fn class(&self) -> Class {
        self.latency.waking().class
    }

    /// How long before a deadline the thread wakes, to spin.
    pub(super) fn spin_ns(&self) -> u64 {
        self.latency.spin_ns()
    }

    /// Records that the thread woke `late_ns` after the planned end of its sleep.
    pub(super) fn woke(&mut self, late_ns: u64) {
        self.latency.woke(late_ns);
    }

    /// The thread's flows have changed.
    pub(super) fn set(&mut self, demand: Demand, now: u64) {
        let mut wanted = waking(self.asked, demand, self.cpus, SPIN_NS);
        if wanted.class == Class::Fifo && self.class() == Class::Normal {
            if self.refused || try_fifo(FIFO_PRIORITY).is_err() {
                self.refused = true;
                wanted = normal(self.asked);
            } else {
                self.watch = Watch { at: now, cpu: thread_cpu_ns() };
            }
        }
        self.change(wanted);
    }

    /// Leaves SCHED_FIFO if the thread uses more of its processor than `MAX_USED`, until its flows change. To be
    /// called regularly.
    pub(super) fn watch(&mut self, now: u64) {
        if self.class() == Class::Fifo && now >= self.watch.at + WATCH_NS {
            self.judge(now, thread_cpu_ns());
        }
    }

    fn judge(&mut self, now: u64, cpu: u64) {
        if self.watch.used(now, cpu) > MAX_USED {
            self.change(normal(self.asked));
        }
    }

    fn change(&mut self, wanted: Waking) {
        if self.class() == Class::Fifo && wanted.class == Class::Normal {
            // Never refused: it gives up a privilege.
            let _ = set_normal();
        }
        // Learned latencies stay valid while nothing changes.
        if self.latency.waking() != wanted {
            self.latency = WakeupLatency::new(wanted);
        }
    }
}

/// How a normally scheduled thread waits.
fn normal(asked: Asked) -> Waking {
    Waking::normal(asked.spin_ns.unwrap_or(SPIN_NS))
}

/// Processor time of a thread since the last check.
#[derive(Default)]
struct Watch {
    at: u64,
    cpu: u64,
}

impl Watch {
    /// The fraction of its processor that the thread used since the last check; the next one counts from now.
    fn used(&mut self, now: u64, cpu: u64) -> f64 {
        let fraction =
            cpu.saturating_sub(self.cpu) as f64 / now.saturating_sub(self.at).max(1) as f64;
        *self = Watch { at: now, cpu };
        fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_net::clock::Clock;

    #[test]
    fn usage_is_counted_from_check_to_check() {
        let mut watch = Watch { at: 1000, cpu: 500 };
        assert_eq!(watch.used(2000, 1000), 0.5);
        assert_eq!(watch.used(3000, 2000), 1.0);
        assert_eq!(watch.used(3000, 2000), 0.0);
    }

    /// On a separate thread, whether or not the system grants SCHED_FIFO.
    #[test]
    fn the_class_follows_the_flows() {
        std::thread::spawn(|| {
            let clock = Clock::System;
            let granted = check(Scheduling::Fifo).is_ok();
            let slow = Demand::paced(1000.0, 1, 160, 1);
            let mut priority = Priority::new(Scheduling::Auto);
            priority.set(slow, clock.monotonic_ns());
            assert_eq!(priority.class() == Class::Fifo, granted);
            priority.watch(clock.monotonic_ns());
            assert_eq!(priority.class() == Class::Fifo, granted);
            priority.set(Demand::UNLIMITED, clock.monotonic_ns());
            assert_eq!((priority.class(), priority.spin_ns()), (Class::Normal, SPIN_NS));
            priority.set(slow, clock.monotonic_ns());
            assert_eq!(priority.class() == Class::Fifo, granted);
            priority.set(Demand::default(), clock.monotonic_ns());
            assert_eq!(priority.class(), Class::Normal);
            let mut never = Priority::new(Scheduling::Normal);
            never.set(slow, clock.monotonic_ns());
            assert_eq!(never.class(), Class::Normal);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_costs_more_than_estimated_leaves_fifo() {
        std::thread::spawn(|| {
            let mut priority = Priority::new(Scheduling::Auto);
            priority.set(Demand::paced(1000.0, 1, 160, 1), 0);
            let (granted, cpu) = (priority.class(), priority.watch.cpu);
            priority.judge(WATCH_NS, cpu + WATCH_NS / 2);
            assert_eq!(priority.class(), granted, "half a processor is allowed");
            priority.judge(2 * WATCH_NS, cpu + WATCH_NS / 2 + WATCH_NS);
            assert_eq!((priority.class(), priority.spin_ns()), (Class::Normal, SPIN_NS));
        })
        .join()
        .unwrap();
    }
}
