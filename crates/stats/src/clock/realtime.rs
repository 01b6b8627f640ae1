//! Converts the kernel's CLOCK_REALTIME stamps to CLOCK_MONOTONIC.

use super::probe::{ClockStep, MAX_SKEW};
use crate::error::StatsError;

/// CLOCK_REALTIME read between two readings of CLOCK_MONOTONIC, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// CLOCK_MONOTONIC before.
    pub monotonic_before_ns: u64,
    /// CLOCK_REALTIME.
    pub realtime_ns: u64,
    /// CLOCK_MONOTONIC after.
    pub monotonic_after_ns: u64,
}

impl ClockReading {
    fn bracket_ns(&self) -> Option<u64> {
        self.monotonic_after_ns.checked_sub(self.monotonic_before_ns)
    }

    /// The reading with the narrowest bracket, the best of several.
    pub fn narrowest(readings: &[Self]) -> Option<Self> {
        readings
            .iter()
            .filter(|reading| reading.bracket_ns().is_some())
            .min_by_key(|reading| reading.bracket_ns())
            .copied()
    }

    fn middle_ns(&self) -> Result<(u64, u64), StatsError> {
        let bracket = self.bracket_ns().ok_or(StatsError::BracketOrder {
            before_ns: self.monotonic_before_ns,
            after_ns: self.monotonic_after_ns,
        })?;
        Ok((self.monotonic_before_ns + bracket / 2, bracket.div_ceil(2)))
    }
}

/// Mapping from CLOCK_REALTIME to CLOCK_MONOTONIC, refitted with a new reading each second.
///
/// REALTIME is assumed to keep the rate that it had between the last two readings (NTP slews it). A
/// deviation that slewing can't explain (500 ppm of the elapsed time) is a step.
#[derive(Debug, Clone)]
pub struct RealtimeMap {
    monotonic_ns: u64,
    realtime_ns: u64,
    half_ns: u64,
    residual_ns: u64,
    slope: f64,
}

impl RealtimeMap {
    /// A mapping from one reading.
    ///
    /// # Errors
    /// [`StatsError::BracketOrder`] when the bracket runs backwards.
    pub fn new(reading: ClockReading) -> Result<Self, StatsError> {
        let (monotonic_ns, half_ns) = reading.middle_ns()?;
        let realtime_ns = reading.realtime_ns;
        Ok(Self { monotonic_ns, realtime_ns, half_ns, residual_ns: 0, slope: 0.0 })
    }

    /// Adds a newer reading; returns a step of REALTIME since the last one. Stamps taken between the step
    /// and this call are wrong by up to the size of the step, so such a run carries a warning.
    ///
    /// # Errors
    /// [`StatsError::BracketOrder`] when the bracket runs backwards, or begins before the last reading.
    pub fn refit(&mut self, reading: ClockReading) -> Result<Option<ClockStep>, StatsError> {
        let (monotonic_ns, half_ns) = reading.middle_ns()?;
        let elapsed =
            monotonic_ns.checked_sub(self.monotonic_ns).ok_or(StatsError::BracketOrder {
                before_ns: self.monotonic_ns,
                after_ns: monotonic_ns,
            })?;
        let advanced = reading.realtime_ns.wrapping_sub(self.realtime_ns) as i64;
        // How much further REALTIME went than MONOTONIC, and than expected.
        let gained = advanced.wrapping_sub_unsigned(elapsed);
        let expected = (elapsed as f64 * self.slope).round() as i64;
        let by_ns = gained.saturating_sub(expected);
        let reading_error = self.half_ns + half_ns;
        let slewed = elapsed as f64 * 2.0 * MAX_SKEW;
        let is_step = by_ns.unsigned_abs() as f64 > reading_error as f64 + slewed + 1.0;
        // Over a short time the error of the readings exceeds the drift, so the slope stays.
        if is_step {
            self.slope = 0.0;
            self.residual_ns = 0;
        } else {
            self.residual_ns = by_ns.unsigned_abs();
            if elapsed as f64 * 1e-6 > reading_error as f64 {
                self.slope = (gained as f64 / elapsed as f64).clamp(-MAX_SKEW, MAX_SKEW);
            }
        }
        self.monotonic_ns = monotonic_ns;
        self.realtime_ns = reading.realtime_ns;
        self.half_ns = half_ns;
        Ok(is_step.then_some(ClockStep { at_ns: monotonic_ns, by_ns }))
    }

    /// The CLOCK_MONOTONIC time of the REALTIME stamp `realtime_ns`. Wraps below zero as two's complement.
    #[inline]
    pub fn to_monotonic(&self, realtime_ns: u64) -> u64 {
        let since = realtime_ns.wrapping_sub(self.realtime_ns) as i64;
        let correction = since as f64 * (self.slope / (1.0 + self.slope));
        self.monotonic_ns.wrapping_add_signed(since.wrapping_sub(correction as i64))
    }

    /// Error of the mapping near the last reading, ns: half its bracket plus its distance from the expected
    /// time.
    pub fn error_ns(&self) -> u64 {
        self.half_ns + self.residual_ns
    }
}
