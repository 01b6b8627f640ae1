//! What an emulator may do: five capabilities while it sets up, two while it runs.

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

/// In addition, where they are granted: BPF programs, which the links attach; the memory of AF_XDP's frames, which is locked;
/// real-time scheduling.
const SETTING_UP: Capabilities =
    Capabilities { bpf: true, ipc_lock: true, sys_nice: true, ..RUNNING };

/// All that the watchdog has to do is to set interfaces.
const WATCHING: Capabilities = Capabilities { net_raw: false, ..RUNNING };

/// Gives up what no emulator has use for, for the calling thread and what it starts. To be called before there are other
/// threads: each has capabilities of its own.
///
/// # Errors
/// The kernel refused.
pub fn keep_for_setting_up(scheduling: Scheduling) -> Result<(), EmulatorError> {
    if scheduling == Scheduling::Auto {
        // With the limit, real time needs no capability; raising it needs one that goes here.
        raise_real_time_limit(FIFO_PRIORITY)?;
    }
    Ok(keep(&SETTING_UP)?)
}

/// Gives up what only setting up needs. Real-time scheduling is taken and left again while it runs: where the limit of
/// priorities could not be raised, its capability stays.
pub(crate) fn keep_for_running(scheduling: Scheduling) -> Result<(), EmulatorError> {
    let sys_nice = scheduling == Scheduling::Auto && !raise_real_time_limit(FIFO_PRIORITY)?;
    Ok(keep(&Capabilities { sys_nice, ..RUNNING })?)
}

/// A watchdog with no more than it needs: it has the capabilities of the thread that forks it, which gives up the others.
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
