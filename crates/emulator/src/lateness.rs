//! Lateness and delay of packets as realised.

use weir_stats::Histogram;

use crate::report::{LatenessReport, Realised};

/// Lateness from which a packet counts as late, and raises an alarm.
pub(crate) const LATE_NS: u64 = 1_000_000;

/// Lateness up to this is counted without an allocation after a flow's first packet: 64 KiB, touched as used.
const RESERVED_NS: u64 = 1 << 25;

/// Statistics of one flow and direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timing {
    /// Departure minus deadline, ns.
    lateness: Histogram,
    delays: Delays,
}

/// Time between arrival and departure.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Delays {
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Delays {
    #[inline]
    pub(crate) fn record(&mut self, delay_ns: u64) {
        self.min_ns = if self.count == 0 { delay_ns } else { self.min_ns.min(delay_ns) };
        self.max_ns = self.max_ns.max(delay_ns);
        self.sum_ns += u128::from(delay_ns);
        self.count += 1;
    }

    #[cfg(target_os = "linux")]
    /// Adds the packets of another worker.
    pub(crate) fn merge(&mut self, other: &Delays) {
        if other.count == 0 {
            return;
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
        self.count += other.count;
    }

    /// Fills in the realised delays.
    pub(crate) fn realised(&self, into: &mut Realised) {
        if self.count > 0 {
            into.delay_min_seconds = Some(seconds(self.min_ns));
            into.delay_max_seconds = Some(seconds(self.max_ns));
            into.delay_mean_seconds = Some(self.sum_ns as f64 / self.count as f64 / 1e9);
        }
    }
}

impl Timing {
    /// Adds a packet that arrived at `arrived_ns`, was planned for `asked_ns`, and left at `departed_ns`.
    #[inline]
    pub(crate) fn record(&mut self, arrived_ns: u64, asked_ns: u64, departed_ns: u64) {
        if self.lateness.count() == 0 {
            self.lateness.reserve(RESERVED_NS);
        }
        self.delays.record(departed_ns.saturating_sub(arrived_ns));
        self.lateness.record(departed_ns.saturating_sub(asked_ns));
    }

    #[cfg(target_os = "linux")]
    /// Adds the packets of another worker.
    pub(crate) fn merge(&mut self, other: &Timing) {
        self.lateness.merge(&other.lateness);
        self.delays.merge(&other.delays);
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

    /// Fills in the realised delays.
    pub(crate) fn realised(&self, into: &mut Realised) {
        self.delays.realised(into);
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
