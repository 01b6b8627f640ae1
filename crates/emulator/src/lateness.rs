//! Lateness and delay of packets as realised.

use weir_stats::Histogram;

use crate::report::{LatenessReport, Realised};

/// Lateness from which a packet raises an alarm, and the longest from which it counts as late in a verdict.
pub(crate) const LATE_NS: u64 = 1_000_000;

/// The shortest lateness from which a packet counts as late in a verdict: sending a batch of packets takes tens of µs, which no
/// wake-up accounts for.
const MIN_LATE_NS: u64 = 100_000;

/// The lateness in ns from which a packet counts as late in a verdict, on a host that wakes a thread of an emulator this late or
/// less in 99 % of cases (`emulator_wakeup_late_p99_seconds` of its calibration): three times that, 100 µs at least and 1 ms at
/// most. A verdict allows 1 % of packets to be late, as many as wake-ups that exceed the percentile; the factor is for the load
/// of the packets themselves, since calibration measures an idle host. 1 ms without a calibration.
#[must_use]
pub fn late_limit_ns(wakeup_p99_seconds: Option<f64>) -> u64 {
    let of_host = |seconds: f64| (3e9 * seconds) as u64;
    wakeup_p99_seconds.map_or(LATE_NS, |p99| of_host(p99).clamp(MIN_LATE_NS, LATE_NS))
}

/// Lateness up to this is counted without an allocation after a flow's first packet: 64 KiB, touched as used.
const RESERVED_NS: u64 = 1 << 25;

/// Statistics of one flow and direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timing {
    /// Departure minus deadline, ns.
    lateness: Histogram,
    /// Of packets that the current period leaves out.
    pub(crate) earlier: Delays,
}

/// Number, sum and sum of squares of times in ns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    sum_ns: u128,
    squares: u128,
}

impl Sums {
    #[inline]
    fn record(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns += u128::from(ns);
        // Of an hour 10²⁵, so that there is room for 10¹³ packets.
        self.squares += u128::from(ns) * u128::from(ns);
    }

    fn merge(&mut self, other: &Sums) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.squares += other.squares;
    }

    /// Mean and standard deviation, ns; `None` without packets.
    pub(crate) fn moments(&self) -> Option<(f64, f64)> {
        let count = u128::from(self.count);
        // Squares about the whole part of the mean, so that a small deviation keeps its digits.
        let whole = self.sum_ns.checked_div(count)?;
        let part = (self.sum_ns % count) as f64 / count as f64;
        let about = self.squares.saturating_sub(whole * (2 * self.sum_ns - whole * count));
        let variance = about as f64 / count as f64 - part * part;
        Some((whole as f64 + part, variance.max(0.0).sqrt()))
    }
}

/// Times between arrival and departure.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Delays {
    /// As realised.
    realised: Sums,
    min_ns: u64,
    pub(crate) max_ns: u64,
    /// As planned: the deadlines.
    pub(crate) planned: Sums,
    /// Packets that left later than their deadline by more than the emulator's limit.
    pub(crate) late_packets: u64,
}

impl Delays {
    /// Adds a packet that arrived at `arrived_ns`, was planned for `asked_ns`, and left at `departed_ns`; it is late if that is more
    /// than `late_ns` later.
    #[inline]
    pub(crate) fn record(&mut self, [arrived_ns, asked_ns, departed_ns]: [u64; 3], late_ns: u64) {
        let delay_ns = departed_ns.saturating_sub(arrived_ns);
        self.min_ns = if self.realised.count == 0 { delay_ns } else { self.min_ns.min(delay_ns) };
        self.max_ns = self.max_ns.max(delay_ns);
        self.realised.record(delay_ns);
        self.planned.record(asked_ns.saturating_sub(arrived_ns));
        self.late_packets += u64::from(departed_ns.saturating_sub(asked_ns) > late_ns);
    }

    /// Adds other packets.
    pub(crate) fn merge(&mut self, other: &Delays) {
        if other.realised.count == 0 {
            return;
        }
        let is_first = self.realised.count == 0;
        self.min_ns = if is_first { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.realised.merge(&other.realised);
        self.planned.merge(&other.planned);
        self.late_packets += other.late_packets;
    }

    /// Fills in the realised delays.
    pub(crate) fn realised(&self, into: &mut Realised) {
        if let Some((mean_ns, deviation_ns)) = self.realised.moments() {
            into.delay_min_seconds = Some(seconds(self.min_ns));
            into.delay_max_seconds = Some(seconds(self.max_ns));
            into.delay_mean_seconds = Some(mean_ns / 1e9);
            into.delay_deviation_seconds = Some(deviation_ns / 1e9);
        }
    }
}

impl Timing {
    /// Adds the lateness of a packet that was planned for `asked_ns` and left at `departed_ns`.
    #[inline]
    pub(crate) fn record(&mut self, asked_ns: u64, departed_ns: u64) {
        if self.lateness.count() == 0 {
            self.lateness.reserve(RESERVED_NS);
        }
        self.lateness.record(departed_ns.saturating_sub(asked_ns));
    }

    #[cfg(target_os = "linux")]
    /// Adds the packets of another worker.
    pub(crate) fn merge(&mut self, other: &Timing) {
        self.lateness.merge(&other.lateness);
        self.earlier.merge(&other.earlier);
    }

    pub(crate) fn lateness(&self) -> Option<LatenessReport> {
        let quantile = |q| self.lateness.quantile(q).map(seconds);
        Some(LatenessReport {
            count: self.lateness.count(),
            p50_seconds: quantile(0.5),
            p99_seconds: quantile(0.99),
            max_seconds: seconds(self.lateness.max()?),
            encoding: "hdr-v2".into(),
            data: self.lateness.to_hdr_v2()?,
        })
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibration_makes_the_limit_of_lateness_stricter() {
        assert_eq!(late_limit_ns(None), 1_000_000);
        assert_eq!(late_limit_ns(Some(100e-6)), 300_000);
        assert_eq!(late_limit_ns(Some(5e-6)), 100_000);
        assert_eq!(late_limit_ns(Some(5e-3)), 1_000_000);
        let mut delays = Delays::default();
        delays.record([0, 10_000, 310_000], 300_000);
        delays.record([0, 10_000, 310_001], 300_000);
        assert_eq!(delays.late_packets, 1);
    }

    #[test]
    fn moments_keep_their_digits() {
        assert_eq!(Sums::default().moments(), None);
        let mut sums = Sums::default();
        let hour = 3_600_000_000_000;
        (0..1000).for_each(|n| sums.record(hour + n % 2));
        let (mean, deviation) = sums.moments().unwrap();
        assert!((mean - hour as f64 - 0.5).abs() < 1e-3 && (deviation - 0.5).abs() < 1e-9);
        let mut one = Sums::default();
        one.record(7);
        assert_eq!(one.moments(), Some((7.0, 0.0)));
    }
}
