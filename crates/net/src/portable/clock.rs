//! Clocks of the standard library.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use super::{native, unsupported};
use crate::clock::ProcessCpu;
use crate::error::Result;
use crate::reference::TimeBound;

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

pub(crate) fn monotonic_ns() -> u64 {
    // From 1 on, so that a reading is never mistaken for "none".
    u64::try_from(origin().elapsed().as_nanos()).unwrap_or(u64::MAX - 1) + 1
}

pub(crate) fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn sleep_until(until_ns: u64) {
    loop {
        let left = until_ns.saturating_sub(monotonic_ns());
        if left == 0 {
            return;
        }
        std::thread::sleep(Duration::from_nanos(left));
    }
}

/// Resolution of the monotonic clock, ns, as far as the standard library determines it.
pub fn monotonic_resolution_ns() -> u64 {
    100
}

/// Not available.
pub fn set_timer_slack(_slack_ns: u64) -> Result<()> {
    unsupported("set timer slack of", "this thread")
}

/// CPU time used by the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    let cpu = native::thread_cpu();
    cpu.user_ns + cpu.system_ns
}

/// CPU time used by this process.
pub fn process_cpu() -> ProcessCpu {
    native::process_cpu()
}

/// Not available.
pub fn children_cpu() -> ProcessCpu {
    ProcessCpu::default()
}

/// Not available.
pub(crate) fn kernel_frequency_ppm() -> Option<f64> {
    None
}

/// Not available.
pub(crate) fn kernel_time_bound() -> Option<TimeBound> {
    None
}

/// Not available.
pub fn boot_id() -> Result<String> {
    unsupported("read", "the boot id")
}

/// Not available.
pub fn time_namespace() -> Result<String> {
    unsupported("read", "the time namespace")
}
