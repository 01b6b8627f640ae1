//! The noise floor of this host: what a perfect path would show here.
//!
//! [`calibrate`] measures, in less than 10 s, over loopback and where possible between two hosts of a lab: the clock,
//! waking on time, the spacing of paced packets, one-way delay, the error of times read by the program, cost and
//! highest rate of sending. The arithmetic is in `figures`, apart from the measuring.
//!
//! Figures, each absent when it could not be measured (`PATH` is `loopback` or `lab`):
//!
//! | name | meaning |
//! | --- | --- |
//! | `clock_read_seconds` | cost of one reading of the monotonic clock, median |
//! | `clock_resolution_seconds`, `clock_step_seconds` | what the system says, and the least step seen |
//! | `stamp_mapping_error_seconds` | bound of taking kernel stamps (realtime) to the monotonic clock |
//! | `wakeup_late_p50_seconds`, `_p99_`, `wakeup_late_max_seconds` | sleep to 60 µs before the time, then spin |
//! | `emulator_wakeup_late_p50_seconds`, `_p99_` | the same as the emulator wakes while it delays packets: under SCHED_FIFO asleep to the time, unless there are three processors |
//! | `PATH_one_way_delay_p50_seconds`, `_p99_` | from the sender's clock reading to the kernel's receive stamp, 1000 packets/s |
//! | `PATH_stamp_to_read_p50_seconds`, `_p99_` | from that stamp to the receiver's clock reading: error of a user-space time |
//! | `PATH_spacing_1000pps_seconds`, `loopback_spacing_50000pps_seconds` | half the 16–84 % range of gap errors, by kernel stamps |
//! | `missed_slots_50000pps_ratio` | slots skipped by the paced sender at 50 000 packets/s |
//! | `PATH_udp_send_cost_seconds` | CPU time of the sending thread per datagram of 1472 bytes; holds the delivery, which the kernel does in the sender's time |
//! | `PATH_udp_per_packet_packets_per_second`, `PATH_udp_coalesced_packets_per_second` | delivered, one flow, 1472 bytes |
//! | `PATH_tcp_bits_per_second` | delivered payload, one connection, copied on receive |

mod clocks;
mod figures;
mod paced;
mod path;
mod rates;

pub(crate) use figures::Figures;
pub use figures::{CalibratedHost, Calibration};

use weir_lab::{Lab, LabSpec};
use weir_model::warning::{Severity, Warning};
use weir_net::host::host;

use self::path::Path;
use crate::Error;
use crate::doctor::cpu_sample;

/// What to measure, and for how long. [`Options::default`] takes about 8 s.
#[derive(Debug, Clone)]
pub struct Options {
    /// Also between two hosts of a lab; skipped with a warning without the permission.
    pub lab: bool,
    /// Wake-ups, 1 ms apart; 1000 are needed for the 99th percentile.
    pub wakeups: u32,
    /// Packets at 1000 packets/s; 1000 are needed for the 99th percentile.
    pub slow_packets: u64,
    /// Packets at 50 000 packets/s.
    pub fast_packets: u64,
    /// Duration of each of the three rates, ns.
    pub rate_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            lab: true,
            wakeups: 1000,
            slow_packets: 1200,
            fast_packets: 25_000,
            rate_ns: 1_000_000_000,
        }
    }
}

/// Measures this host. `id` and `at` (RFC 3339) identify the calibration; `progress` receives the name of each step.
///
/// # Errors
/// When loopback itself can't be measured. Other failures are warnings in the result.
pub fn calibrate(
    id: &str,
    at: &str,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Calibration, Error> {
    let mut found = Figures::new();
    let mut extra = Vec::new();
    progress("CPU load");
    let load = cpu_sample(300);
    let busiest =
        load.value().and_then(|s| s.busy_ratio.iter().map(|c| c.1).max_by(f64::total_cmp));
    let stolen = load.value().map(|s| s.steal_ratio);

    progress("clock");
    clocks::measure(&mut found);
    progress("waking on time");
    clocks::wake_ups(options.wakeups, &mut found)?;
    clocks::emulator_wake_ups(options.wakeups, &mut found)?;
    progress("paced packets over loopback");
    let loopback = Path::loopback();
    paced::measure(&loopback, options, &mut found, &mut extra)?;

    let lab = if options.lab { lab(progress, &mut extra) } else { None };
    let path = match &lab {
        Some(lab) => {
            progress("paced packets between two hosts");
            match Path::lab(lab).and_then(|path| {
                paced::measure(&path, options, &mut found, &mut extra)?;
                Ok(path)
            }) {
                Ok(path) => path,
                Err(error) => {
                    extra.push(no_lab(&error));
                    Path::loopback()
                }
            }
        }
        None => loopback,
    };
    progress("highest rates");
    rates::measure(&path, options.rate_ns, &mut found)?;

    let host = host()?;
    let mut warnings = figures::warnings(&found, busiest, stolen);
    warnings.extend(extra);
    Ok(Calibration {
        schema: Calibration::SCHEMA.into(),
        id: id.into(),
        at: at.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        host: CalibratedHost {
            hostname: host.hostname,
            kernel: host.kernel,
            cpu_model: host.cpu_model,
            cpu_cores: host.cpu_cores,
            governor: host.governor,
            clocksource: host.clocksource,
            virtualisation: host.virtualisation,
        },
        figures: found,
        warnings,
    })
}

/// Two hosts joined by a virtual cable, if available.
fn lab(progress: &mut dyn FnMut(&str), warnings: &mut Vec<Warning>) -> Option<Lab> {
    progress("making two hosts");
    match Lab::up(&LabSpec::default()) {
        // A process with threads can't enter a namespace of another user namespace.
        Ok(lab) if lab.is_in_user_namespace() => {
            warnings.push(no_lab(&"without root, this program can't enter the two hosts"));
            None
        }
        Ok(lab) => Some(lab),
        Err(error) => {
            warnings.push(no_lab(&error));
            None
        }
    }
}

fn no_lab(why: &dyn std::fmt::Display) -> Warning {
    let text =
        format!("measured over loopback only: {why}; run as root to measure between two hosts too");
    Warning::new("loopback-only", Severity::Info, text)
}
