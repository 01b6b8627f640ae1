//! A straight line through the best probes, with a bound that holds whatever the asymmetry of the path.

use super::probe::{MAX_SKEW, Sample};

/// Parts into which the time span is divided; the probe with the shortest round trip of each is used.
const PARTS: u64 = 16;

/// Bound at a probe: the true offset differs from the line by at most `bound_ns` at `at_ns`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Anchor {
    at_ns: u64,
    bound_ns: f64,
}

/// Offset and skew of the remote clock against the local one.
///
/// Offset is remote − local. Each probe bounds the offset within half its round trip, as no packet arrives
/// before it was sent. Asymmetry is neither estimated nor subtracted. Between and beyond the probes the
/// bound assumes that the difference in rate is constant and at most 500 ppm. It is never below half the
/// shortest round trip.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockFit {
    /// Local time of the last probe, ns: where `offset_ns` and `error_ns` hold.
    pub reference_ns: u64,
    /// Remote clock − local clock at `reference_ns`, ns.
    pub offset_ns: i64,
    /// Rate of the remote clock against the local one, parts per million; 0 when the probes don't show one.
    pub skew_ppm: f64,
    /// |true − estimated offset| is at most this at `reference_ns`, ns.
    pub error_ns: u64,
    /// Probes since the last step.
    pub samples: usize,
    /// Shortest round trip, ns.
    pub min_rtt_ns: u64,
    anchors: Vec<Anchor>,
    /// The line's slope differs from the true one by at most this (ratio).
    slope_error: f64,
}

impl ClockFit {
    /// The fit over `samples`, which are in order of time; absent without any.
    pub(super) fn over(samples: &[Sample]) -> Option<Self> {
        let (first, last) = (samples.first()?, samples.last()?);
        let min_rtt_ns = samples.iter().map(|sample| sample.rtt_ns).min()?;
        let best = best_of_parts(samples, last.at_ns - first.at_ns);
        let reference_ns = last.at_ns;
        let line = least_squares(&best, reference_ns);
        let mut fit = Self {
            reference_ns,
            offset_ns: line.offset_ns,
            skew_ppm: line.slope * 1e6,
            error_ns: 0,
            samples: samples.len(),
            min_rtt_ns,
            anchors: Vec::new(),
            slope_error: 0.0,
        };
        fit.anchor(&best);
        let known = fit.slope_error <= MAX_SKEW || 3.0 * line.slope_deviation < line.slope.abs();
        if !known || line.slope.abs() > MAX_SKEW {
            // The probes are too few or too close in time: a slope from their noise would be worse than none.
            let shortest = best.iter().min_by_key(|sample| sample.rtt_ns)?;
            fit.offset_ns = shortest.offset_ns;
            fit.skew_ppm = 0.0;
            fit.anchor(&best);
        }
        fit.slope_error = fit.slope_error.min(MAX_SKEW + fit.skew_ppm.abs() / 1e6);
        fit.error_ns = fit.error_at(reference_ns);
        Some(fit)
    }

    /// Bounds the line at each probe, and so its slope.
    fn anchor(&mut self, best: &[Sample]) {
        let residual = |sample: &Sample| {
            sample.offset_ns.saturating_sub(self.offset_at(sample.at_ns)).unsigned_abs() as f64
        };
        // A residual above half the round trip proves that the clocks do not differ by a straight line.
        let bend = best.iter().map(|sample| residual(sample) - sample.half_ns).fold(0.0, f64::max);
        let anchors: Vec<Anchor> = best
            .iter()
            .map(|sample| Anchor {
                at_ns: sample.at_ns,
                bound_ns: residual(sample) + sample.half_ns + bend,
            })
            .collect();
        let mut slope_error = f64::INFINITY;
        for (index, left) in anchors.iter().enumerate() {
            for right in &anchors[index + 1..] {
                let span = right.at_ns.abs_diff(left.at_ns).max(1) as f64;
                slope_error = slope_error.min((left.bound_ns + right.bound_ns) / span);
            }
        }
        self.anchors = anchors;
        self.slope_error = slope_error;
    }

    /// Remote − local at the local time `local_ns`, ns.
    pub fn offset_at(&self, local_ns: u64) -> i64 {
        let since = signed_difference(local_ns, self.reference_ns);
        self.offset_ns.saturating_add((since as f64 * self.skew_ppm / 1e6).round() as i64)
    }

    /// |true − estimated offset| at the local time `local_ns` is at most this, ns.
    pub fn error_at(&self, local_ns: u64) -> u64 {
        let drifted = |anchor: &Anchor| {
            anchor.bound_ns + self.slope_error * anchor.at_ns.abs_diff(local_ns) as f64
        };
        let mut bound = self.anchors.iter().map(drifted).fold(f64::INFINITY, f64::min);
        // The difference of two lines is greatest at an end: between two probes it is within the larger bound.
        let least = |left: bool| {
            self.anchors
                .iter()
                .filter(|anchor| (anchor.at_ns <= local_ns) == left || anchor.at_ns == local_ns)
                .map(|anchor| anchor.bound_ns)
                .fold(f64::INFINITY, f64::min)
        };
        bound = bound.min(least(true).max(least(false)));
        bound.max(self.min_rtt_ns as f64 / 2.0).ceil() as u64
    }

    /// The local time at which the remote clock shows `remote_ns`. Wraps below zero (a local clock younger than the
    /// remote time) as two's complement.
    pub fn map_remote_to_local(&self, remote_ns: u64) -> u64 {
        let remote_reference = self.reference_ns.wrapping_add_signed(self.offset_ns);
        let since = signed_difference(remote_ns, remote_reference);
        let skew = self.skew_ppm / 1e6;
        // Only the correction is computed in floating point: a double does not hold a long time to the
        // nanosecond.
        let correction = since as f64 * (skew / (1.0 + skew));
        self.reference_ns.wrapping_add_signed(since.wrapping_sub(correction.round() as i64))
    }
}

fn signed_difference(left: u64, right: u64) -> i64 {
    left.wrapping_sub(right) as i64
}

fn best_of_parts(samples: &[Sample], span_ns: u64) -> Vec<Sample> {
    let start = samples.first().map_or(0, |sample| sample.at_ns);
    let length = (span_ns / PARTS).max(1);
    samples
        .chunk_by(|left, right| (left.at_ns - start) / length == (right.at_ns - start) / length)
        .filter_map(|part| part.iter().copied().min_by_key(|sample| sample.rtt_ns))
        .collect()
}

struct Line {
    /// At the reference time.
    offset_ns: i64,
    slope: f64,
    /// Standard deviation of the slope, from the residuals; infinite below three points.
    slope_deviation: f64,
}

/// The weighted least-squares line. Weights are the inverse square of half the round trip's excess over the
/// shortest: a constant asymmetry shifts all samples equally and does not change the slope, queueing delay
/// does.
fn least_squares(samples: &[Sample], reference_ns: u64) -> Line {
    // Offsets are relative to the first: a double can't hold sums of offsets of 1000 s to the nanosecond.
    let base_ns = samples.first().map_or(0, |sample| sample.offset_ns);
    let min_rtt_ns = samples.iter().map(|sample| sample.rtt_ns).min().unwrap_or(0);
    let points: Vec<(f64, f64, f64)> = samples
        .iter()
        .map(|sample| {
            let x = signed_difference(sample.at_ns, reference_ns) as f64;
            let y = sample.offset_ns.saturating_sub(base_ns) as f64;
            let noise =
                (sample.rtt_ns - min_rtt_ns) as f64 / 2.0 + min_rtt_ns as f64 * 0.003 + 100.0;
            (x, y, 1.0 / (noise * noise))
        })
        .collect();
    let sum = |term: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(term).sum::<f64>();
    let weights = sum(&|point| point.2).max(f64::MIN_POSITIVE);
    let x_mean = sum(&|&(x, _, weight)| weight * x) / weights;
    let y_mean = sum(&|&(_, y, weight)| weight * y) / weights;
    let covariance = sum(&|&(x, y, weight)| weight * (x - x_mean) * (y - y_mean));
    let variance = sum(&|&(x, _, weight)| weight * (x - x_mean) * (x - x_mean));
    let slope = if variance > 0.0 { covariance / variance } else { 0.0 };
    let residuals = sum(&|&(x, y, weight)| {
        let residual = y - y_mean - slope * (x - x_mean);
        weight * residual * residual
    });
    let slope_deviation = if points.len() > 2 && variance > 0.0 {
        (residuals / (points.len() - 2) as f64 / variance).sqrt()
    } else {
        f64::INFINITY
    };
    let offset = y_mean - slope * x_mean;
    Line { offset_ns: base_ns.saturating_add(offset.round() as i64), slope, slope_deviation }
}
