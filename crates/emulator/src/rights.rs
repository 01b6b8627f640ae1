//! Capabilities of an emulator: five during the setup, two while it runs.

use weir_net::capability::{Capabilities, keep};
use weir_net::thread::raise_real_time_limit;
use weir_net::watchdog::Watchdog;

use crate::config::Scheduling;
use crate::direction::FIFO_PRIORITY;
use crate::error::EmulatorError;

/// Interfaces and packet sockets.
const RUNNING: Capabilities = Capabilities {
    root: false,
    net_admin: true,
    net_raw: true,
    net_bind_service: false,
    bpf: false,
    sys_nice: false,
    sys_admin: false,
    sys_resource: false,
    ipc_lock: false,
};

/// In addition, if granted: BPF programs, which the links attach; locked memory for AF_XDP's frames; real-time
/// scheduling.
const SETTING_UP: Capabilities =
    Capabilities { bpf: true, ipc_lock: true, sys_nice: true, ..RUNNING };

/// The watchdog only configures interfaces.
const WATCHING: Capabilities = Capabilities { net_raw: false, ..RUNNING };

/// Drops capabilities that no emulator needs, for the calling thread and its children. Call it before other threads
/// exist: capabilities are per thread.
///
/// # Errors
/// The kernel refused.
pub fn keep_for_setting_up(scheduling: Scheduling) -> Result<(), EmulatorError> {
    if scheduling == Scheduling::Auto {
        // With the limit, real time needs no capability; raising it needs one that is dropped here.
        raise_real_time_limit(FIFO_PRIORITY)?;
    }
    Ok(keep(&SETTING_UP)?)
}

/// Drops the capabilities that only the setup needs. Real-time scheduling is entered and left while it runs: if the
/// limit of priorities could not be raised, its capability stays.
pub(crate) fn keep_for_running(scheduling: Scheduling) -> Result<(), EmulatorError> {
    let sys_nice = scheduling == Scheduling::Auto && !raise_real_time_limit(FIFO_PRIORITY)?;
    Ok(keep(&Capabilities { sys_nice, ..RUNNING })?)
}

/// A watchdog with minimal capabilities: it keeps those of the thread that forks it, less the rest.
pub(crate) fn watchdog() -> Result<Watchdog, EmulatorError> {
    let spawned = std::thread::scope(|scope| {
        let spawning = scope.spawn(|| {
            keep(&WATCHING)?;
            Watchdog::spawn().map_err(EmulatorError::from)
        });
        spawning.join()
    });
    spawned.unwrap_or(Err(EmulatorError::Panicked("watchdog")))
}
