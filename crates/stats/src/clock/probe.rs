//! NTP-style probes, and the samples stored of them.

use super::fit::ClockFit;
use crate::error::StatsError;

/// Maximum number of samples. Above it, the one with the longer round trip of each two neighbours is
/// dropped.
const KEPT: usize = 512;

/// Maximum rate difference of two working clocks, as a ratio: the kernel's limit for slewing.
pub(super) const MAX_SKEW: f64 = 500e-6;

/// One probe and its answer (RFC 5905 section 8): t1 and t4 on the local clock, t2 and t3 on the remote one, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Sent by the local host.
    pub t1_ns: u64,
    /// Received by the remote host.
    pub t2_ns: u64,
    /// Answered by the remote host.
    pub t3_ns: u64,
    /// Answer received by the local host.
    pub t4_ns: u64,
}

/// The remote clock jumped, or changed its rate, against the local one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// Local time at which it was noticed, ns.
    pub at_ns: u64,
    /// New offset − expected offset, ns.
    pub by_ns: i64,
}

/// Result of one probe: at local time `at_ns` the offset was `offset_ns` ± `half_ns`, whatever the
/// asymmetry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) at_ns: u64,
    pub(super) offset_ns: i64,
    pub(super) half_ns: f64,
    pub(super) rtt_ns: u64,
}

impl Sample {
    fn new(probe: Probe) -> Result<Self, StatsError> {
        let Probe { t1_ns, t2_ns, t3_ns, t4_ns } = probe;
        let refused = StatsError::ProbeOrder { t1_ns, t2_ns, t3_ns, t4_ns };
        let total = t4_ns.checked_sub(t1_ns).ok_or(refused)?;
        let turnaround = t3_ns.checked_sub(t2_ns).ok_or(refused)?;
        // The clocks run at slightly different rates: the turnaround may seem longer than the whole round
        // trip.
        let rtt_ns = total.saturating_sub(turnaround);
        if turnaround as f64 > total as f64 * (1.0 + 2.0 * MAX_SKEW) + 1000.0 {
            return Err(refused);
        }
        let forth = i128::from(t2_ns) - i128::from(t1_ns);
        let back = i128::from(t3_ns) - i128::from(t4_ns);
        let offset_ns = i64::try_from((forth + back) / 2).map_err(|_| refused)?;
        // Half the round trip, what the clocks may drift during it, and rounding.
        let half_ns = rtt_ns as f64 / 2.0 + total as f64 * MAX_SKEW + 1.0;
        Ok(Self { at_ns: t1_ns + total / 2, offset_ns, half_ns, rtt_ns })
    }
}

/// Collects probes and fits offset and skew of the remote clock.
#[derive(Debug, Clone, Default)]
pub struct ClockEstimator {
    samples: Vec<Sample>,
    steps: Vec<ClockStep>,
}

impl ClockEstimator {
    /// An estimator without probes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a probe. Returns a step when it contradicts the earlier probes, which are then discarded.
    ///
    /// # Errors
    /// [`StatsError::ProbeOrder`] when the four times contradict each other; the probe is not used.
    pub fn on_probe(&mut self, probe: Probe) -> Result<Option<ClockStep>, StatsError> {
        let sample = Sample::new(probe)?;
        let step = self.fit().and_then(|fit| {
            let by_ns = sample.offset_ns.saturating_sub(fit.offset_at(sample.at_ns));
            // A clock's rate wanders with temperature: 1 ppm over the time since the fit is no step.
            let since = sample.at_ns.abs_diff(fit.reference_ns) as f64;
            let room = fit.error_at(sample.at_ns) as f64 + sample.half_ns + since * 1e-6 + 1000.0;
            (by_ns.unsigned_abs() as f64 > room).then_some(ClockStep { at_ns: sample.at_ns, by_ns })
        });
        if let Some(step) = step {
            self.samples.clear();
            if self.steps.len() < KEPT {
                self.steps.push(step);
            }
        }
        if self.samples.len() >= KEPT {
            self.thin();
        }
        let place = self.samples.partition_point(|other| other.at_ns <= sample.at_ns);
        self.samples.insert(place, sample);
        Ok(step)
    }

    /// Detected steps; at most 512 are stored.
    pub fn steps(&self) -> &[ClockStep] {
        &self.steps
    }

    /// The fit over the probes since the last step; absent without a probe.
    pub fn fit(&self) -> Option<ClockFit> {
        ClockFit::over(&self.samples)
    }

    fn thin(&mut self) {
        let better = |pair: &[Sample]| pair.iter().copied().min_by_key(|sample| sample.rtt_ns);
        self.samples = self.samples.chunks(2).filter_map(better).collect();
    }
}
