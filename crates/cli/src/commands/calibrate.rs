//! `weir calibrate`: this host's noise floor, stored and printed with results.

use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, IsTerminal};
use std::time::SystemTime;

use clap::Args;
use weir_experiment::calibrate::{Calibration, Options, calibrate};
use weir_jobs::{CalibrateJob, Notice};
use weir_model::record::CalibrationRef;
use weir_net::namespace::{effective_user_id, enter_user_namespace};
use weir_report::{Align, Style, Table, TextOptions, Units, clean, significant};
use weir_runs::{DataDirectory, Store, StoredCalibration, new_run_id, rfc3339};

use crate::app::note;
use crate::error::CliError;
use crate::job::{is_job, warn};
use crate::output::{print, print_object};
use crate::terminal::{style, text_options};
use crate::time::since_epoch;

/// Flags of `weir calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Print the last stored calibration instead of measuring
    #[arg(long)]
    show: bool,
    /// Print JSON
    #[arg(long, short = 'J')]
    json: bool,
    /// Measure over loopback only, without the two hosts of a lab
    #[arg(long)]
    no_lab: bool,
    /// Do not store the result
    #[arg(long, conflicts_with = "show")]
    no_store: bool,
}

/// Runs the command; returns its exit code.
///
/// # Errors
/// Nothing is stored for `--show`, or nothing can be measured on this host.
pub(crate) fn run(args: CalibrateArgs) -> Result<i32, CliError> {
    let unavailable = |e: Box<dyn Error>| CliError::Unavailable(e.to_string());
    let found = if args.show {
        latest().map_err(unavailable)?.ok_or_else(|| {
            CliError::Unavailable("nothing stored for this host yet; run 'weir calibrate'".into())
        })?
    } else {
        measure(&args).map_err(unavailable)?
    };
    if args.json { print_object(&found) } else { print(&text(&found, &style())) }
}

/// The reference to a stored calibration that a result carries; `None` for one of another version.
pub(crate) fn reference(stored: &serde_json::Value) -> Option<CalibrationRef> {
    weir_model::document::read::<Calibration>(stored).ok().map(|found| found.to_reference())
}

/// Runs a job of `weir job`.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_job(job: &CalibrateJob) -> Result<i32, CliError> {
    run(CalibrateArgs { show: false, json: true, no_lab: job.no_lab, no_store: false })
}

fn measure(args: &CalibrateArgs) -> Result<Calibration, Box<dyn Error>> {
    let now = since_epoch(SystemTime::now());
    // Seeded by the system: two calibrations of one second get different ids.
    let random = std::hash::RandomState::new().build_hasher().finish();
    let id = new_run_id(now, random);
    // Determine the owner of the results before this user becomes root of a user namespace.
    let data = DataDirectory::of_this_user();
    if !args.no_lab && effective_user_id() != 0 {
        // This lets our threads enter the lab's hosts. If it is refused, the result says what is missing.
        let _ = enter_user_namespace();
    }
    // The lab's hosts end with this process.
    crate::job::listen(|reason| std::process::exit(reason.exit_code()))?;
    let options = Options { lab: !args.no_lab, ..Options::default() };
    let talk = is_job() || io::stderr().is_terminal();
    let found = calibrate(&id, &rfc3339(now.as_millis() as u64), &options, &mut |step| {
        if talk {
            note(&format!("{step} …"));
        }
    })?;
    if !args.no_store {
        let calibration = StoredCalibration {
            id: found.id.clone(),
            host: found.host.hostname.clone(),
            at: found.at.clone(),
            calibration: serde_json::to_value(&found)?,
        };
        // The result is shown even if it can't be stored.
        if let Err(error) = data.map_err(Into::into).and_then(|data| store(&data, &calibration)) {
            warn(Notice::NOT_STORED, &format!("the calibration was not stored: {error}"));
        }
    }
    Ok(found)
}

fn store(data: &DataDirectory, calibration: &StoredCalibration) -> Result<(), Box<dyn Error>> {
    Store::open_at(data)?.put_calibration(calibration)?;
    Ok(())
}

fn latest() -> Result<Option<Calibration>, Box<dyn Error>> {
    let file = DataDirectory::of_this_user()?.file();
    if !file.exists() {
        return Ok(None);
    }
    let host = weir_net::host::host()?.hostname;
    let Some(stored) = Store::open_read_only(&file)?.latest_calibration(&host)? else {
        return Ok(None);
    };
    Ok(Some(weir_model::document::read(&stored.calibration)?))
}

fn text(found: &Calibration, style: &Style) -> String {
    let host = &found.host;
    let mut facts = vec![format!("Linux {}", host.kernel), format!("{} cores", host.cpu_cores)];
    facts.extend(host.cpu_model.clone());
    facts.extend(host.clocksource.as_ref().map(|c| format!("clocksource {c}")));
    facts.extend(host.virtualisation.as_ref().map(|v| format!("virtual: {v}")));
    let mut out = format!(
        "{}\n{}\n\n",
        style.bold(&clean(&format!(
            "Noise floor of {}, {} ({})",
            host.hostname, found.at, found.id
        ))),
        clean(&facts.join(", "))
    );
    let mut table = Table::new([("figure", Align::Left), ("value", Align::Right)]);
    for (name, value) in &found.figures {
        let (name, value) = shown(name, *value);
        table.row([name, value]);
    }
    out.push_str(&table.render(style));
    if !found.warnings.is_empty() {
        out.push('\n');
    }
    let options = TextOptions { style: *style, ..text_options() };
    for warning in &found.warnings {
        out.push_str(&weir_report::warning(warning, &options));
        out.push('\n');
    }
    out
}

/// A figure as text: its name without the unit, and its value with a unit chosen by size.
fn shown(name: &str, value: f64) -> (String, String) {
    let words = |name: &str| name.replace('_', " ");
    if let Some(name) = name.strip_suffix("_packets_per_second") {
        return (words(name), format!("{} packets/s", significant(value)));
    }
    if let Some(name) = name.strip_suffix("_bits_per_second") {
        return (words(name), Units::ADAPTIVE.rate(value));
    }
    if let Some(name) = name.strip_suffix("_seconds") {
        let (scaled, unit) = match value.abs() {
            v if v < 1e-6 => (value * 1e9, "ns"),
            v if v < 1e-3 => (value * 1e6, "µs"),
            v if v < 1.0 => (value * 1e3, "ms"),
            _ => (value, "s"),
        };
        return (words(name), format!("{} {unit}", significant(scaled)));
    }
    match name.strip_suffix("_ratio") {
        Some(name) => (words(name), format!("{} %", significant(value * 100.0))),
        None => (words(name), significant(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_unit_of_their_name() {
        let both = |name, value| {
            let (n, v) = shown(name, value);
            format!("{n}: {v}")
        };
        assert_eq!(both("clock_read_seconds", 64e-9), "clock read: 64.0 ns");
        assert_eq!(
            both("lab_one_way_delay_p99_seconds", 12.34e-6),
            "lab one way delay p99: 12.3 µs"
        );
        assert_eq!(both("wakeup_late_max_seconds", 2.5e-3), "wakeup late max: 2.50 ms");
        assert_eq!(both("lab_tcp_bits_per_second", 9.41e9), "lab tcp: 9.41 Gbit/s");
        assert_eq!(
            both("lab_udp_per_packet_packets_per_second", 450_000.0),
            "lab udp per packet: 450000 packets/s"
        );
        assert_eq!(both("missed_slots_50000pps_ratio", 0.0), "missed slots 50000pps: 0.00 %");
    }
}
