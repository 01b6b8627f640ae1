//! The conditions of a row: the calibrated noise floor of this host, and its load.

use weir_emulator::{DirectionReport, Report};
use weir_model::plan::Direction;
use weir_model::record::stage;
use weir_model::record::{LedgerRow, Record};

use super::evidence::Evidence;
use crate::calibrate::Figures;
use crate::demo::load::{FOREIGN_PROCESSORS, STEAL_RATIO};

/// Fraction of late packets up to which lateness counts as a stall of the host. An emulator that is late more often
/// is itself at fault, unless load explains it.
pub(super) const LATE_RATIO: f64 = 0.1;
/// Later than that is late, as the emulator counts it.
pub(super) const LATE_NS: f64 = 1e6;

/// Errors of times on this host, from its calibration.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Floor {
    /// Of a median delay, ns: twice the path between two hosts, once the path from kernel stamp to program, and the
    /// wake-up lateness of an emulator's thread; medians.
    pub median_ns: f64,
    /// Of a single packet's time, ns: the same sum of 99th percentiles.
    pub single_ns: f64,
}

impl Floor {
    /// Figures of [`Floor::of`] that a calibration lacks over loopback, by name.
    #[must_use]
    pub fn missing(figures: &Figures) -> Vec<String> {
        let names = ["loopback_stamp_to_read", "loopback_one_way_delay", "emulator_wakeup_late"];
        let all = ["p50", "p99"].into_iter().flat_map(|quantile| {
            names.into_iter().map(move |name| format!("{name}_{quantile}_seconds"))
        });
        all.filter(|name| !figures.contains_key(name)).collect()
    }

    /// The noise floor, from figures of a calibration: between two hosts of a lab, else over loopback. `None` if one
    /// of them is absent.
    #[must_use]
    pub fn of(figures: &Figures) -> Option<Self> {
        let on = |path: &str, quantile: &str| {
            let figure = |name: String| figures.get(&name).copied();
            let read = figure(format!("{path}_stamp_to_read_{quantile}_seconds"))?;
            let sent = figure(format!("{path}_one_way_delay_{quantile}_seconds"))?;
            let late = figure(format!("emulator_wakeup_late_{quantile}_seconds"))?;
            Some((read + 2.0 * sent + late) * 1e9)
        };
        ["lab", "loopback"].into_iter().find_map(|path| {
            Some(Self { median_ns: on(path, "p50")?, single_ns: on(path, "p99")? })
        })
    }
}

/// The conditions of a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conditions {
    /// Delay of the path through an emulator without laws, ns: the median of the clean baseline. Subtracted from
    /// measured delays.
    pub path_delay_ns: f64,
    /// The host's own errors.
    pub floor: Floor,
    /// Relative error of a rate from rounding.
    pub floor_ratio: f64,
    /// Why the host was the limit (steal, lateness, a stall). Then a wrong time is undecided.
    pub host_limited: Option<String>,
}

impl Conditions {
    /// The virtual clock: no path delay, and no error except rounding.
    #[must_use]
    pub fn simulated() -> Self {
        Self { floor_ratio: 1e-6, ..Self::default() }
    }
}

/// Why the host was the limit during a row, as text. `load` is what the CPU counters show over the whole row.
#[must_use]
pub(crate) fn host_limit(
    record: &Record,
    emulator: &Report,
    load: Option<String>,
) -> Option<String> {
    let sum = |of: fn(&DirectionReport) -> u64| emulator.directions.iter().map(of).sum();
    host_limited(record, load, sum(|d| d.late_packets), sum(|d| d.sent_packets))
}

/// A baseline beyond this multiple of the floor, plus the slack, measured the host and not the path.
const BASELINE_RATIO: f64 = 4.0;
const BASELINE_SLACK_NS: f64 = 100_000.0;

/// Why the clean baseline, with this median delay, is unusable for the other rows; `None` if it is usable.
pub(super) fn baseline_host_limit(
    median_ns: f64,
    floor: Floor,
    host_limited: Option<&str>,
) -> Option<String> {
    if median_ns > floor.median_ns * BASELINE_RATIO + BASELINE_SLACK_NS {
        return Some(format!(
            "the path without laws took {:.0} µs where this host's noise floor is {:.0} µs",
            median_ns / 1e3,
            floor.median_ns / 1e3
        ));
    }
    host_limited.map(str::to_owned)
}

/// As [`host_limit`]; `late` of the packets that the emulator `sent` left more than 1 ms after their deadline.
fn host_limited(record: &Record, load: Option<String>, late: u64, sent: u64) -> Option<String> {
    let mut found = vec![];
    let ends = record.cpu.iter().flat_map(|cpu| [&cpu.local, &cpu.remote]).flatten();
    let stolen = ends.map(|end| end.steal_ratio).fold(0.0, f64::max);
    if stolen > STEAL_RATIO {
        found.push(format!("the hypervisor took {:.1} % of the CPU time", stolen * 100.0));
    }
    let foreign = foreign_processors(record);
    if foreign > FOREIGN_PROCESSORS {
        found.push(format!("other programs kept {foreign:.1} processors busy"));
    }
    // The same over less than the row, or with less of the CPU time.
    if found.is_empty() {
        found.extend(load);
    }
    let missed: u64 = record.flows.iter().filter_map(|f| f.sender.as_ref()?.missed_slots).sum();
    if missed > 0 {
        found.push(format!("the sender stalled and missed {missed} slots"));
    }
    // Not sufficient alone: it would excuse every error of the emulator that shows as lateness.
    let is_rare = late as f64 <= LATE_RATIO * sent as f64;
    if late > 0 && (is_rare || !found.is_empty()) {
        found.push(format!("{late} of {sent} packets left the emulator more than 1 ms late"));
    }
    (!found.is_empty()).then(|| found.join(", "))
}

/// User-mode CPU time of neither end, in processors. It includes the emulator's, which is small, since it sleeps.
fn foreign_processors(record: &Record) -> f64 {
    let Some(cpu) = &record.cpu else { return 0.0 };
    let ends = || [&cpu.local, &cpu.remote].into_iter().flatten();
    let all = ends().map(|end| end.user_ratio).fold(0.0, f64::max);
    let cores = record.local.as_ref().map_or(1, |host| host.cpu.cores);
    all * f64::from(cores) - ends().map(|end| end.process_user_ratio).sum::<f64>()
}

/// Packets that the emulator's links lost before any law applied, forward and reverse.
pub(super) fn link_dropped(report: &Report) -> [u64; 2] {
    let of = |i: usize| {
        report.directions.get(i).map_or(0, |d| {
            let link = &d.link;
            link.kernel_dropped_packets
                + link.oversized_packets
                + link.memory_dropped_packets
                + link.unusable_packets
        })
    };
    [of(0), of(1)]
}

impl Evidence {
    /// Packets of a flow that the hosts and the emulator's links lost, by their own counters: neither the path nor
    /// the laws lost them.
    pub(super) fn host_dropped(&self, flow: u32, direction: Direction) -> u64 {
        let own = format!("(flow {flow})");
        let (sender, receiver) = match direction {
            Direction::Forward => ("local", "remote"),
            Direction::Reverse => ("remote", "local"),
        };
        let is_ours = |row: &&LedgerRow| {
            let side = row.side.as_deref();
            match row.stage.as_str() {
                stage::QDISC | stage::CARD_TX => side == Some(sender),
                stage::CARD_RX => side == Some(receiver),
                // The lab's hosts share one kernel.
                stage::SOFTNET => true,
                stage::SOCKET_OVERFLOW => row.source.ends_with(&own),
                _ => false,
            }
        };
        let rows = self.record.loss_ledger.iter().flat_map(|ledger| &ledger.rows);
        let by_hosts: u64 = rows.filter(is_ours).map(|row| row.packets).sum();
        by_hosts + self.link_dropped[usize::from(direction == Direction::Reverse)]
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
            ("emulator_wakeup_late_p50_seconds", 1e-6),
            ("lab_stamp_to_read_p99_seconds", 90e-6),
            ("lab_one_way_delay_p99_seconds", 20e-6),
            ("emulator_wakeup_late_p99_seconds", 400e-6),
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
        assert!(near(Floor::of(&figures), 51_000.0, 530_000.0));
        figures.remove("lab_one_way_delay_p99_seconds");
        assert!(near(Floor::of(&figures), 37_000.0, 498_000.0));
        assert!(Floor::missing(&figures).is_empty());
        figures.remove("emulator_wakeup_late_p50_seconds");
        assert_eq!(Floor::of(&figures), None);
        assert_eq!(Floor::missing(&figures), ["emulator_wakeup_late_p50_seconds"]);
    }

    #[test]
    fn a_baseline_is_host_limited_by_what_was_found_or_by_its_own_length() {
        let floor = Floor { median_ns: 60_000.0, single_ns: 500_000.0 };
        assert_eq!(baseline_host_limit(110_000.0, floor, None), None);
        let said = baseline_host_limit(729_000.0, floor, None).unwrap();
        assert!(said.contains("729 µs") && said.contains("60 µs"), "{said}");
        let said = baseline_host_limit(110_000.0, floor, Some("steal")).unwrap();
        assert_eq!(said, "steal");
    }

    #[test]
    fn steal_and_other_programs_disturb() {
        use weir_model::record::{CpuEnd, CpuFacts, CpuUse, Host};
        let record = |user: f64, own: f64, steal: f64| {
            let end = CpuEnd {
                user_ratio: user,
                process_user_ratio: own,
                steal_ratio: steal,
                ..CpuEnd::default()
            };
            let host =
                Host { cpu: CpuFacts { cores: 2, ..CpuFacts::default() }, ..Host::default() };
            let cpu = CpuUse { local: Some(end.clone()), remote: Some(end) };
            Record { local: Some(host), cpu: Some(cpu), ..Record::default() }
        };
        // Two ends with 0.1 processors each, on two processors that were busy for a fifth.
        assert_eq!(host_limited(&record(0.2, 0.1, 0.0), None, 0, 100), None);
        let said = host_limited(&record(0.5, 0.1, 0.0), None, 0, 100).unwrap();
        assert_eq!(said, "other programs kept 0.8 processors busy");
        assert!(
            host_limited(&record(0.1, 0.1, 0.02), None, 0, 100)
                .unwrap()
                .contains("hypervisor took 2.0 %")
        );
        assert_eq!(host_limited(&Record::default(), None, 0, 100), None);
        // Load that no record shows, such as the kernel's; reported once if a record shows it.
        let load = || Some("load".to_owned());
        assert_eq!(host_limited(&Record::default(), load(), 0, 100).as_deref(), Some("load"));
        assert!(!host_limited(&record(0.5, 0.1, 0.0), load(), 0, 100).unwrap().contains("load"));
        // A few late packets may be the host's; many are the emulator's, unless load explains them.
        let said = host_limited(&Record::default(), None, 10, 100).unwrap();
        assert_eq!(said, "10 of 100 packets left the emulator more than 1 ms late");
        assert_eq!(host_limited(&Record::default(), None, 11, 100), None);
        assert_eq!(host_limited(&Record::default(), None, 1, 0), None);
        let said = host_limited(&record(0.1, 0.1, 0.02), None, 60, 100).unwrap();
        assert!(said.contains("hypervisor") && said.ends_with("more than 1 ms late"), "{said}");
    }

    #[test]
    fn each_end_excuses_only_its_own_part_of_a_flow() {
        let case = crate::demo::path::cases(1).unwrap().remove(0);
        let mut evidence = crate::demo::path::simulate(&case).unwrap();
        let row = |stage: &str, packets, source: &str, side: Option<&str>| LedgerRow {
            stage: stage.into(),
            packets,
            source: source.into(),
            kind: "bound".into(),
            side: side.map(Into::into),
        };
        let (local, remote) = (Some("local"), Some("remote"));
        evidence.record.loss_ledger.as_mut().unwrap().rows = vec![
            row(stage::QDISC, 1, "q", local),
            row(stage::QDISC, 2, "q", remote),
            row(stage::CARD_TX, 4, "c", local),
            row(stage::CARD_RX, 8, "c", local),
            row(stage::CARD_RX, 16, "c", remote),
            row(stage::SOCKET_OVERFLOW, 32, "s (flow 1)", remote),
            row(stage::SOCKET_OVERFLOW, 64, "s (flow 2)", remote),
            row(stage::SOFTNET, 128, "s", None),
            row(stage::DAMAGED, 256, "d", remote),
        ];
        evidence.link_dropped = [512, 1024];
        assert_eq!(evidence.host_dropped(1, Direction::Forward), 1 + 4 + 16 + 32 + 128 + 512);
        assert_eq!(evidence.host_dropped(2, Direction::Reverse), 2 + 8 + 64 + 128 + 1024);
    }
}
