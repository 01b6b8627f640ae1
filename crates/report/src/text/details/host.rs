//! Lines about the hosts and the link: processors, link usage, clocks, noise floor.

use weir_model::counted;
use weir_model::metric::are_echo;
use weir_model::record::{ClockRelation, CoreUse, CpuEnd, Record, ServiceDemand, Side};
use weir_model::units::BitRate;

use super::{Items, pps};
use crate::number::{duration, percent, significant};
use crate::style::clean;
use crate::text::bits_in_words;

pub(super) fn cpu(items: &mut Items, record: &Record) {
    let Some(cpu) = &record.cpu else { return };
    let verbose = items.options.verbose;
    let end = |name: &str, end: &CpuEnd| {
        let busy = end.user_ratio + end.system_ratio + end.irq_ratio;
        let mut text = format!(
            "{name} {} (user {}, system {}, irq {}",
            percent(busy),
            percent(end.user_ratio),
            percent(end.system_ratio),
            percent(end.irq_ratio)
        );
        if end.steal_ratio > 0.0 {
            text += &format!(", stolen {}", percent(end.steal_ratio));
        }
        text += ")";
        if let Some(core) = end.busiest_core_ratio {
            text += &format!(", busiest core {}", percent(core));
        }
        text += &format!(
            ", weir {} cores",
            significant(end.process_user_ratio + end.process_system_ratio)
        );
        if let (Some(seconds), Some(cores)) = (end.waiting_seconds, end.waiting_process_ratio) {
            let cores = significant(cores);
            text += &format!("; waiting for stragglers {}: weir {cores} cores", duration(seconds));
        }
        text
    };
    let sides =
        [("CPU", "local", &cpu.local, Side::Local), ("", "remote", &cpu.remote, Side::Remote)];
    for (label, name, use_of_end, side) in sides {
        if let Some(use_of_end) = use_of_end {
            let label = if cpu.local.is_none() { "CPU" } else { label };
            // Of a test at a low rate it is mostly the work of other programs.
            let demand = record.service_demand(side).filter(|_| verbose);
            let demand = match demand {
                Some(ServiceDemand::Kib(seconds)) => format!("; {} per KiB", duration(seconds)),
                Some(ServiceDemand::Transaction(seconds)) => {
                    format!("; {} per transaction", duration(seconds))
                }
                None => String::new(),
            };
            items.item(label, &(end(name, use_of_end) + &demand));
            if let Some(text) = cores(use_of_end).filter(|_| verbose) {
                items.item("", &format!("{name} {text}"));
            }
        }
    }
    for server in &record.servers {
        if let Some(side) = &server.cpu {
            items.item("", &end(&clean(&server.name), side));
        }
    }
}

/// Processors that are printed at most: the busiest ones.
const CORES_SHOWN: usize = 8;

/// `cores: 1 94% (user 12%, system 60%, irq 22%), 0 3.1% (…), 6 others below 1%`, from the busiest one.
fn cores(end: &CpuEnd) -> Option<String> {
    let busy = |core: &CoreUse| core.user_ratio + core.system_ratio + core.irq_ratio;
    let mut all: Vec<&CoreUse> = end.cores.iter().collect();
    all.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
    let text = |core: &&CoreUse| {
        format!(
            "{} {} (user {}, system {}, irq {})",
            core.core,
            percent(busy(core)),
            percent(core.user_ratio),
            percent(core.system_ratio),
            percent(core.irq_ratio)
        )
    };
    let mut parts: Vec<String> = all.iter().take(CORES_SHOWN).map(text).collect();
    let others = all.get(CORES_SHOWN..).filter(|others| !others.is_empty());
    parts.extend(others.map(|others| {
        format!("{} at up to {}", counted(others.len() as u64, "other"), percent(busy(others[0])))
    }));
    (!parts.is_empty()).then(|| format!("cores: {}", parts.join(", ")))
}

pub(super) fn link(items: &mut Items, record: &Record) {
    let Some(usage) = &record.link_usage else { return };
    items.item(
        "Link usage",
        &format!(
            "{}: payload {}, IP {}, Ethernet {}, wire {} of {} ({})",
            usage.direction,
            percent(usage.payload_ratio),
            percent(usage.ip_ratio),
            percent(usage.ethernet_ratio),
            percent(usage.wire_ratio),
            bits_in_words(BitRate(usage.nominal_bits_per_second)),
            clean(&usage.source)
        ),
    );
}

pub(super) fn clocks(items: &mut Items, record: &Record) {
    if let Some(source) = &record.time_source {
        items.item(
            "Time source",
            &format!(
                "send {}, receive {}, resolution {}",
                clean(&source.send),
                clean(&source.receive),
                duration(source.resolution_seconds)
            ),
        );
    }
    let mut label = "Clocks";
    // One clock measures the round trips of echo.
    let has_clocks = !are_echo(&record.flows);
    for server in record.servers.iter().filter(|_| has_clocks) {
        let text = match &server.clock {
            Some(clock) => relation(clock),
            None => "not related".into(),
        };
        items.item(label, &format!("{}: {text}", clean(&server.name)));
        label = "";
    }
    if let Some(clock) = record.clock.as_ref().filter(|_| record.servers.is_empty()) {
        items.item("Clocks", &relation(clock));
    }
    if let Some(calibration) = &record.calibration {
        let figures = &calibration.noise_floor;
        let at = clean(&calibration.at);
        let text = if items.options.verbose {
            let parts: Vec<String> = figures.iter().map(|(n, value)| noise(n, *value)).collect();
            format!("{} (calibrated {at})", parts.join(", "))
        } else {
            // In one line: what matters for delays, and the date.
            let known = KEY_FIGURES.iter().filter_map(|(label, names)| {
                let value = names.iter().find_map(|name| figures.get(*name))?;
                Some(format!("{label} {}", duration(*value)))
            });
            let mut parts: Vec<String> = known.collect();
            if parts.is_empty() {
                parts.push("calibrated".into());
            }
            format!("{} ({}; all with -V)", parts.join(", "), at.get(..10).unwrap_or(&at))
        };
        items.item("Noise floor", &text);
    }
}

/// The figures of the noise floor that are shown without `-V`: label, and names of which the first that was measured counts.
const KEY_FIGURES: [(&str, &[&str]); 2] = [
    ("delay", &["lab_one_way_delay_p50_seconds", "loopback_one_way_delay_p50_seconds"]),
    ("wake-up p99", &["wakeup_late_p99_seconds"]),
];

/// The relation of a clock to this host's, as text.
fn relation(clock: &ClockRelation) -> String {
    if clock.method == "shared" {
        format!("one clock shared by both ends, ± {}", duration(clock.error_seconds))
    } else {
        let (method, offset, error) =
            (clean(&clock.method), duration(clock.offset_seconds), duration(clock.error_seconds));
        let mut text = match clock.source.as_deref() {
            None | Some("probes") => format!(
                "{method}: offset {offset}, skew {} ppm, ± {error} from {}",
                significant(clock.skew_ratio * 1e6),
                counted(clock.samples, "probe")
            ),
            Some(service) => format!(
                "{method}: offset {offset}, ± {error} by {} at both ends, tighter than {} and not against them",
                clean(service),
                counted(clock.samples, "probe")
            ),
        };
        if let Some(min) = clock.min_round_trip_seconds {
            text += &format!(" (smallest round trip {})", duration(min));
        }
        text
    }
}

/// A figure of the noise floor as text: its name ends in its unit.
fn noise(name: &str, value: f64) -> String {
    type Show = fn(f64) -> String;
    let units: [(&str, Show); 4] = [
        ("_packets_per_second", |v| format!("{}/s", pps(v))),
        ("_bits_per_second", |v| crate::number::Units::ADAPTIVE.rate(v)),
        ("_seconds", duration),
        ("_ratio", percent),
    ];
    for (end, show) in units {
        if let Some(stem) = name.strip_suffix(end) {
            return format!("{} {}", clean(&stem.replace('_', " ")), show(value));
        }
    }
    format!("{} {}", clean(&name.replace('_', " ")), significant(value))
}
