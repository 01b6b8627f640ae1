//! Under what conditions a row was measured: the floor that this host is calibrated to, and what disturbed it.

use weir_emulator::Report;
use weir_model::record::Record;

use super::evidence::Evidence;
use crate::calibrate::Figures;
use crate::triangulation::quantile;

/// Share of the processors that the hypervisor may take before a row counts as disturbed.
const STEAL_RATIO: f64 = 0.01;

/// Errors of times that this host is known to make, from its calibration.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Floor {
    /// Of a median of delays, ns: what it costs to take a packet and to hand it on once more, with the lateness of a
    /// wake-up; medians all. It is what an emulator without laws adds to a path.
    pub median_ns: f64,
    /// Of a single packet's time, ns: the same sum of 99th percentiles.
    pub single_ns: f64,
}

impl Floor {
    /// The floor, from figures of a calibration: between two hosts of a lab, else over loopback. `None` when one of them
    /// could not be measured.
    #[must_use]
    pub fn of(figures: &Figures) -> Option<Self> {
        let on = |path: &str, quantile: &str| {
            let figure = |name: String| figures.get(&name).copied();
            let read = figure(format!("{path}_stamp_to_read_{quantile}_seconds"))?;
            let sent = figure(format!("{path}_one_way_delay_{quantile}_seconds"))?;
            let late = figure(format!("wakeup_late_{quantile}_seconds"))?;
            Some((read + sent + late) * 1e9)
        };
        ["lab", "loopback"].into_iter().find_map(|path| {
            Some(Self { median_ns: on(path, "p50")?, single_ns: on(path, "p99")? })
        })
    }
}

/// Under what conditions a row was measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conditions {
    /// Delay of the path around the emulator, ns: the median of the clean baseline's residual. Taken off what is
    /// measured.
    pub path_delay_ns: f64,
    /// The host's own errors.
    pub floor: Floor,
    /// Relative error of a rate that comes from rounding.
    pub floor_ratio: f64,
    /// What disturbed the host meanwhile (steal, lateness, a stall). Then a time that is off is undecided.
    pub disturbed: Option<String>,
}

impl Conditions {
    /// The virtual clock: no path, no error but that of rounding.
    #[must_use]
    pub fn simulated() -> Self {
        Self { floor_ratio: 1e-6, ..Self::default() }
    }
}

/// Median delay of the path around the emulator, ns.
#[must_use]
pub fn path_delay_ns(residual_ns: &[i64]) -> Option<f64> {
    quantile(residual_ns, 0.5).map(|ns| ns as f64)
}

/// What disturbed the host while a row was measured, in words.
#[must_use]
pub fn disturbance(record: &Record, emulator: &Report) -> Option<String> {
    let mut found = vec![];
    let ends = record.cpu.iter().flat_map(|cpu| [&cpu.local, &cpu.remote]).flatten();
    let stolen = ends.map(|end| end.steal_ratio).fold(0.0, f64::max);
    if stolen > STEAL_RATIO {
        found.push(format!("the hypervisor took {:.1} % of the processors", stolen * 100.0));
    }
    let late: u64 = emulator.directions.iter().map(|d| d.late_packets).sum();
    if late > 0 {
        found.push(format!("{late} packets left the emulator more than 1 ms late"));
    }
    let missed: u64 = record.flows.iter().filter_map(|f| f.sender.as_ref()?.missed_slots).sum();
    if missed > 0 {
        found.push(format!("the sender stood still and missed {missed} slots"));
    }
    (!found.is_empty()).then(|| found.join(", "))
}

/// Packets that the emulator's links lost before anything was decided about them, forward and reverse.
pub(super) fn link_dropped(report: &Report) -> [u64; 2] {
    let of = |i: usize| {
        report.directions.get(i).map_or(0, |d| {
            d.link.kernel_dropped_packets + d.link.memory_dropped_packets + d.link.unusable_packets
        })
    };
    [of(0), of(1)]
}

impl Evidence {
    /// Packets of a flow that the hosts lost, by their own counters: not the path's doing, nor the emulator's laws'.
    pub(super) fn host_dropped(&self, flow: u32, direction: usize) -> u64 {
        let own = format!("(flow {flow})");
        let ledger = self.record.loss_ledger.iter().flat_map(|l| &l.rows);
        let overflowed: u64 = ledger
            .filter(|r| r.stage == "socket overflow" && r.source.ends_with(&own))
            .map(|r| r.packets)
            .sum();
        overflowed + self.link_dropped[direction]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_sum_of_what_was_calibrated() {
        let mut figures: Figures = [
            ("lab_stamp_to_read_p50_seconds", 30e-6),
            ("lab_one_way_delay_p50_seconds", 10e-6),
            ("wakeup_late_p50_seconds", 1e-6),
            ("lab_stamp_to_read_p99_seconds", 90e-6),
            ("lab_one_way_delay_p99_seconds", 20e-6),
            ("wakeup_late_p99_seconds", 400e-6),
            ("loopback_stamp_to_read_p50_seconds", 20e-6),
            ("loopback_one_way_delay_p50_seconds", 8e-6),
            ("loopback_stamp_to_read_p99_seconds", 80e-6),
            ("loopback_one_way_delay_p99_seconds", 9e-6),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let near = |floor: Option<Floor>, median: f64, single: f64| {
            let floor = floor.unwrap();
            (floor.median_ns - median).abs() < 1e-6 && (floor.single_ns - single).abs() < 1e-6
        };
        assert!(near(Floor::of(&figures), 41_000.0, 510_000.0));
        figures.remove("lab_one_way_delay_p99_seconds");
        assert!(near(Floor::of(&figures), 29_000.0, 489_000.0));
        figures.remove("wakeup_late_p50_seconds");
        assert_eq!(Floor::of(&figures), None);
    }
}
