//! Maps the kernel's stamps (`CLOCK_REALTIME`) to the monotonic clock, across steps of the realtime clock.

use weir_net::clock::{Bracket, Clock};
use weir_stats::{ClockReading, RealtimeMap, StatsError};

/// Interval at which the clocks are related again, ns. REALTIME is slewed by at most 500 ppm: 50 µs in this
/// interval before the slope is known, a negligible error afterwards.
const REFIT_NS: u64 = 100_000_000;
/// Maximum time between a packet's stamp and its entry into the ring, ns: the latency of softirqs on a
/// usable machine.
const SLACK_NS: u64 = 10_000_000;

/// Maps stamps, and detects implausible ones.
#[derive(Debug)]
pub(crate) struct StampMap {
    clock: Clock,
    map: RealtimeMap,
    now_ns: u64,
    refitted_ns: u64,
    /// Frames read now arrived after this time.
    not_before_ns: u64,
    steps: u64,
}

fn reading(bracket: Bracket) -> ClockReading {
    ClockReading {
        monotonic_before_ns: bracket.before_ns,
        realtime_ns: bracket.realtime_ns,
        monotonic_after_ns: bracket.after_ns,
    }
}

impl StampMap {
    pub(crate) fn new(clock: Clock) -> Result<Self, StatsError> {
        let bracket = clock.bracket();
        Ok(StampMap {
            map: RealtimeMap::new(reading(bracket))?,
            now_ns: bracket.after_ns,
            refitted_ns: bracket.after_ns,
            not_before_ns: bracket.before_ns.saturating_sub(SLACK_NS),
            steps: 0,
            clock,
        })
    }

    /// Starts a batch: reads the clock, once.
    pub(crate) fn begin(&mut self) {
        self.now_ns = self.clock.monotonic_ns();
        if self.now_ns.saturating_sub(self.refitted_ns) > REFIT_NS {
            self.refit();
        }
    }

    /// Ends a batch that emptied the ring: frames of the next batch are newer than this one's start.
    pub(crate) fn drained(&mut self) {
        self.not_before_ns = self.now_ns.saturating_sub(SLACK_NS);
    }

    fn refit(&mut self) {
        let bracket = self.clock.bracket();
        self.refitted_ns = bracket.after_ns;
        // Brackets of a monotonic clock do not run backwards. If one did, the old mapping would be better.
        if let Ok(Some(_)) = self.map.refit(reading(bracket)) {
            self.steps += 1;
        }
    }

    /// The monotonic time of a stamp; never later than this batch's reading of the clock.
    #[inline]
    pub(crate) fn monotonic_of(&mut self, realtime_ns: u64) -> u64 {
        let ns = self.map.to_monotonic(self.clock.kernel_stamp_ns(realtime_ns));
        // A packet may arrive while the batch is read, so that its stamp may be a little later than `now`.
        if ns.wrapping_sub(self.not_before_ns) > self.now_ns + SLACK_NS - self.not_before_ns {
            return self.doubtful(realtime_ns);
        }
        ns.min(self.now_ns)
    }

    /// Maps a stamp before or after the possible time of arrival: the realtime clock was stepped, or the
    /// machine was stalled.
    #[cold]
    fn doubtful(&mut self, realtime_ns: u64) -> u64 {
        let now_ns = self.clock.monotonic_ns();
        // Not again for every packet of a batch.
        if now_ns.saturating_sub(self.refitted_ns) > 1_000_000 {
            self.refit();
        }
        let ns = self.map.to_monotonic(self.clock.kernel_stamp_ns(realtime_ns));
        // A signed difference, as a mapping may wrap below zero.
        if (ns.wrapping_sub(self.not_before_ns) as i64) < 0 {
            self.not_before_ns
        } else {
            ns.min(self.now_ns)
        }
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// This batch's reading of the monotonic clock, ns.
    #[cfg(test)]
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_net::clock::InjectedClock;

    /// A stamp as from the kernel.
    fn stamp() -> u64 {
        Clock::System.realtime_ns()
    }

    #[test]
    fn a_stamp_is_mapped_between_the_readings_around_it() {
        let mut map = StampMap::new(Clock::System).expect("map");
        let before = Clock::System.monotonic_ns();
        let stamp = stamp();
        map.begin();
        let got = map.monotonic_of(stamp);
        // The tolerance is the error of the brackets.
        assert!(got + 100_000 >= before && got <= map.now_ns(), "{before} {got} {}", map.now_ns());
    }

    #[test]
    fn never_later_than_the_reading() {
        let mut map = StampMap::new(Clock::System).expect("map");
        map.begin();
        let later = stamp() + 5_000_000;
        assert_eq!(map.monotonic_of(later), map.now_ns());
    }

    #[test]
    fn a_step_is_detected_by_the_first_stamp_after_it() {
        for step in [-3_600_000_000_000_i64, 7_200_000_000_000] {
            let injected = InjectedClock::new();
            let mut map = StampMap::new(injected.clock()).expect("map");
            map.begin();
            map.drained();
            injected.step_realtime_ns(step);
            // Wait until a second fit is allowed.
            Clock::System.sleep_until(Clock::System.monotonic_ns() + 2_000_000);
            let before = Clock::System.monotonic_ns();
            let stamp = stamp();
            map.begin();
            let got = map.monotonic_of(stamp);
            assert!(got + 200_000 >= before && got <= map.now_ns(), "{step}: {before} {got}");
            assert_eq!(map.steps(), 1);
        }
    }

    #[test]
    fn a_stamp_from_before_a_step_is_clamped() {
        let injected = InjectedClock::new();
        let mut map = StampMap::new(injected.clock()).expect("map");
        map.begin();
        map.drained();
        let bound = map.now_ns() - SLACK_NS;
        let old = stamp();
        // The stamp may be an hour ahead of the clock or behind it.
        map.begin();
        for stamp in [old + 3_600_000_000_000, old - 3_600_000_000_000, 0, u64::MAX] {
            let got = map.monotonic_of(stamp);
            assert!(got >= bound && got <= map.now_ns(), "{got}");
        }
    }
}
