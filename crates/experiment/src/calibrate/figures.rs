//! The arithmetic of a calibration: arrivals and durations in, figures out. No clock, no socket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_model::record::CalibrationRef;
use weir_model::warning::{Severity, Warning};
use weir_stats::{DelaySummary, Spacing};

/// A paced packet that arrived; all times are on the monotonic clock, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Its number, from 0.
    pub sequence: u64,
    /// Its planned send time.
    pub intended_ns: u64,
    /// The sender's clock reading just before the send.
    pub sent_ns: u64,
    /// The kernel's receive stamp; absent until the kernel stamps packets.
    pub stamped_ns: Option<u64>,
    /// The receiver's clock reading.
    pub read_ns: u64,
}

/// Figures of a paced stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paced {
    /// Gaps between kernel stamps against intended gaps, between packets with consecutive numbers.
    pub spacing: Spacing,
    /// From the sender's clock reading to the kernel's stamp.
    pub delay: DelaySummary,
    /// From the kernel's stamp to the receiver's clock reading: the error of a time read by a program.
    pub stamp_to_read: DelaySummary,
    /// From the planned send time to the sender's clock reading.
    pub sender_late: DelaySummary,
}

impl Paced {
    /// Figures of the arrivals, in any order.
    pub(crate) fn of(arrivals: &[Arrival]) -> Paced {
        let mut sorted = arrivals.to_vec();
        sorted.sort_by_key(|a| a.sequence);
        let mut paced = Paced::default();
        for a in &sorted {
            paced.sender_late.record(a.sent_ns.wrapping_sub(a.intended_ns) as i64);
            let Some(stamped_ns) = a.stamped_ns else { continue };
            paced.delay.record(stamped_ns.wrapping_sub(a.sent_ns) as i64);
            paced.stamp_to_read.record(a.read_ns.wrapping_sub(stamped_ns) as i64);
            // A lost packet widens both gaps: their difference stays the error.
            paced.spacing.on_sent(a.intended_ns, stamped_ns);
        }
        paced
    }
}

/// Figures by name; each name ends in its unit.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Adds a figure; an absent or invalid value is skipped.
pub(crate) fn put(figures: &mut Figures, name: impl Into<String>, value: Option<f64>) {
    if let Some(value) = value.filter(|v| v.is_finite()) {
        figures.insert(name.into(), value);
    }
}

/// Adds median and 99th percentile of a distribution, s; skipped with too few samples.
pub(crate) fn put_quantiles(figures: &mut Figures, name: &str, summary: &DelaySummary) {
    for (word, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let value = summary.quantile_ns(quantile).map(|ns| ns as f64 / 1e9);
        put(figures, format!("{name}_{word}_seconds"), value);
    }
}

/// Rate of `count` events between the first and the last: `count − 1` gaps.
pub(crate) fn rate(count: u64, first_ns: u64, last_ns: u64) -> Option<f64> {
    let elapsed = last_ns.checked_sub(first_ns).filter(|e| *e > 0)?;
    let gaps = count.checked_sub(1).filter(|g| *g > 0)?;
    Some(gaps as f64 * 1e9 / elapsed as f64)
}

/// The median; the lower middle of an even number of values.
pub(crate) fn median(values: &mut [u64]) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// The calibrated host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CalibratedHost {
    /// Name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// CPUs online.
    pub cpu_cores: u32,
    /// Frequency governor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Clocksource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocksource: Option<String>,
    /// The hypervisor or container, if virtual.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "virtual")]
    pub virtualisation: Option<String>,
}

/// This host's noise floor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Calibration {
    /// `weir.calibration/1`.
    pub schema: String,
    /// Unique, sortable by time.
    pub id: String,
    /// When, RFC 3339, UTC.
    pub at: String,
    /// Version of Weir.
    pub version: String,
    /// The host.
    pub host: CalibratedHost,
    /// Figures by name; names end in their unit. What could not be measured is absent.
    pub figures: Figures,
    /// Warnings about the figures.
    pub warnings: Vec<Warning>,
}

impl Calibration {
    /// The schema's name.
    pub(crate) const SCHEMA: &str = "weir.calibration/1";

    /// The part that is printed with a result: delay, spacing, stamps and rates.
    pub fn to_reference(&self) -> CalibrationRef {
        CalibrationRef {
            id: self.id.clone(),
            at: self.at.clone(),
            noise_floor: self.figures.clone(),
        }
    }
}

/// Warnings that follow from the figures.
pub(crate) fn warnings(
    figures: &Figures,
    busiest_core_ratio: Option<f64>,
    steal_ratio: Option<f64>,
) -> Vec<Warning> {
    let mut found = Vec::new();
    let mut above = |code: &str, value: Option<f64>, bound: f64, text: &str| {
        if let Some(value) = value.filter(|v| *v > bound) {
            found.push(Warning::new(code, Severity::Warning, text).with_value(value, bound));
        }
    };
    let figure = |name: &str| figures.get(name).copied();
    above(
        "busy-host",
        busiest_core_ratio,
        0.5,
        "another program kept a core busy: this is the noise floor of a busy host; calibrate again when it is idle, unless tests will run under the same load",
    );
    above(
        "stolen-time",
        steal_ratio,
        0.01,
        "the hypervisor took CPU time: the figures include its pauses and will vary between calibrations",
    );
    above(
        "late-wake-up",
        figure("wakeup_late_p99_seconds"),
        1e-3,
        "one wake-up in a hundred was more than 1 ms late: paced senders miss slots at high packet rates",
    );
    above(
        "slow-clock",
        figure("clock_read_seconds"),
        300e-9,
        "reading the clock is slow: a time stamp for each packet lowers the rate",
    );
    above(
        "missed-slots",
        figure("missed_slots_50000pps_ratio"),
        1e-3,
        "at 50 000 packets/s more than one slot in a thousand was missed",
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrival(sequence: u64, late: u64, way: u64, read: u64) -> Arrival {
        let intended_ns = 1_000_000 + sequence * 1000;
        let sent_ns = intended_ns + late;
        Arrival {
            sequence,
            intended_ns,
            sent_ns,
            stamped_ns: Some(sent_ns + way),
            read_ns: sent_ns + way + read,
        }
    }

    #[test]
    fn a_stream_is_taken_apart() {
        // Every second packet leaves 40 ns late; the path takes 300 ns, the reading 900 ns.
        let all: Vec<_> = (0..2000).map(|n| arrival(n, n % 2 * 40, 300, 900)).collect();
        let paced = Paced::of(&all);
        assert_eq!(paced.spacing.half_range_ns(), Some(40.0));
        assert_eq!(
            (paced.delay.quantile_ns(0.5), paced.delay.quantile_ns(0.99)),
            (Some(300), Some(300))
        );
        assert_eq!(paced.stamp_to_read.quantile_ns(0.99), Some(900));
        assert_eq!(paced.sender_late.max_ns(), Some(40));
    }

    #[test]
    fn order_loss_and_missing_stamps_do_no_harm() {
        let mut all: Vec<_> = (0..400).map(|n| arrival(n, 0, 300, 900)).collect();
        all.swap(10, 300);
        all.remove(200);
        all[20].stamped_ns = None;
        let paced = Paced::of(&all);
        assert_eq!(paced.spacing.half_range_ns(), Some(0.0));
        assert_eq!((paced.delay.count(), paced.sender_late.count()), (398, 399));
        assert_eq!(Paced::of(&[]).spacing.half_range_ns(), None);
    }

    #[test]
    fn few_samples_leave_no_entry() {
        let (mut figures, mut summary) = (Figures::new(), DelaySummary::new());
        (0..999).for_each(|n| summary.record(n));
        put_quantiles(&mut figures, "x", &summary);
        assert_eq!(figures.keys().collect::<Vec<_>>(), ["x_p50_seconds"]);
        summary.record(5);
        put_quantiles(&mut figures, "x", &summary);
        assert_eq!(figures.len(), 2);
        put(&mut figures, "bad_ratio", Some(f64::NAN));
        put(&mut figures, "none_ratio", None);
        assert_eq!(figures.len(), 2);
    }

    #[test]
    fn rates_and_medians() {
        assert_eq!(rate(1001, 5, 1_000_000_005), Some(1000.0));
        assert_eq!(
            (rate(1, 0, 10), rate(0, 0, 10), rate(5, 10, 10), rate(5, 10, 9)),
            (None, None, None, None)
        );
        assert_eq!(
            (median(&mut [3, 1, 2]), median(&mut [4, 1, 3, 2]), median(&mut [])),
            (Some(2), Some(2), None)
        );
    }

    #[test]
    fn warnings_pass_their_bounds() {
        let figures: Figures = [("wakeup_late_p99_seconds".to_owned(), 2e-3)].into();
        let codes = |f: &Figures, busy, steal| {
            warnings(f, busy, steal).into_iter().map(|w| w.code).collect::<Vec<_>>()
        };
        assert_eq!(codes(&figures, Some(0.2), Some(0.0)), ["late-wake-up"]);
        assert_eq!(codes(&Figures::new(), Some(0.6), Some(0.02)), ["busy-host", "stolen-time"]);
        assert_eq!(codes(&Figures::new(), None, None), [""; 0]);
    }

    #[test]
    fn a_calibration_survives_json_and_becomes_a_reference() {
        let calibration = Calibration {
            schema: Calibration::SCHEMA.into(),
            id: "20261121-203009-ab12cd".into(),
            at: "2026-11-21T20:30:09.125Z".into(),
            version: "0".into(),
            host: CalibratedHost {
                hostname: "h".into(),
                cpu_cores: 2,
                ..CalibratedHost::default()
            },
            figures: [("clock_read_seconds".to_owned(), 64e-9)].into(),
            warnings: warnings(&Figures::new(), Some(0.9), None),
        };
        let json = serde_json::to_value(&calibration).unwrap();
        assert!(json["host"].get("governor").is_none());
        assert_eq!(serde_json::from_value::<Calibration>(json).unwrap(), calibration);
        let reference = calibration.to_reference();
        assert_eq!(
            (reference.id.as_str(), reference.noise_floor["clock_read_seconds"]),
            ("20261121-203009-ab12cd", 64e-9)
        );
    }

    proptest! {
        #[test]
        fn delay_does_not_depend_on_the_origin(origin in 0u64..u64::MAX / 2, ways in prop::collection::vec(0u64..1 << 40, 20..200)) {
            let arrivals: Vec<_> = ways.iter().enumerate().map(|(n, way)| {
                let sent_ns = origin + n as u64 * 1000;
                Arrival { sequence: n as u64, intended_ns: sent_ns, sent_ns, stamped_ns: Some(sent_ns + way), read_ns: sent_ns + way }
            }).collect();
            let paced = Paced::of(&arrivals);
            prop_assert_eq!(paced.delay.min_ns(), ways.iter().min().map(|w| *w as i64));
            prop_assert_eq!(paced.delay.max_ns(), ways.iter().max().map(|w| *w as i64));
            prop_assert_eq!(paced.sender_late.max_ns(), Some(0));
        }
    }
}
