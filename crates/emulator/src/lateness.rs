//! What was realised in time: how late packets left, and how long they stayed.

use weir_stats::Histogram;

use crate::report::{LatenessReport, Realised};

/// A packet that leaves later than this after its time was late: an alarm.
pub(crate) const LATE_NS: u64 = 1_000_000;

/// Lateness up to this is counted without an allocation after a flow's first packet: 64 KiB, touched as it is used.
const RESERVED_NS: u64 = 1 << 25;

/// Of one flow and direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timing {
    /// Departure minus deadline, ns.
    lateness: Histogram,
    delay_sum_ns: u128,
    delay_min_ns: u64,
    delay_max_ns: u64,
}

impl Timing {
    /// A packet came at `arrived_ns`, was to leave at `asked_ns`, and left at `departed_ns`.
    #[inline]
    pub(crate) fn record(&mut self, arrived_ns: u64, asked_ns: u64, departed_ns: u64) {
        let delay = departed_ns.saturating_sub(arrived_ns);
        if self.lateness.count() == 0 {
            self.delay_min_ns = delay;
            self.lateness.reserve(RESERVED_NS);
        }
        self.delay_min_ns = self.delay_min_ns.min(delay);
        self.delay_max_ns = self.delay_max_ns.max(delay);
        self.delay_sum_ns += u128::from(delay);
        self.lateness.record(departed_ns.saturating_sub(asked_ns));
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

    /// Fills in what was realised of delay.
    pub(crate) fn realised(&self, into: &mut Realised) {
        let count = self.lateness.count();
        if count > 0 {
            into.delay_min_seconds = Some(seconds(self.delay_min_ns));
            into.delay_max_seconds = Some(seconds(self.delay_max_ns));
            into.delay_mean_seconds = Some(self.delay_sum_ns as f64 / count as f64 / 1e9);
        }
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
