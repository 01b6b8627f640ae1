//! Reading the counter files of this thread's network namespace (never another thread's: `/proc/net` follows the main
//! thread).

use std::fs;

use super::proc_text;
use crate::counters::{CpuUsage, ProtocolCounters, Softnet};
use crate::error::{Context, Error, Result};

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).context("read", path)
}

/// Counters of each CPU's receive processing.
pub fn softnet() -> Result<Vec<Softnet>> {
    Ok(proc_text::parse_softnet(&read("/proc/thread-self/net/softnet_stat")?))
}

/// Counters of IP, ICMP, TCP and UDP, for both families, in this thread's network namespace.
pub fn protocol_counters() -> Result<ProtocolCounters> {
    let mut values = proc_text::parse_snmp(&read("/proc/thread-self/net/snmp")?);
    values.append(&mut proc_text::parse_snmp(&read("/proc/thread-self/net/netstat")?));
    // Missing where IPv6 is not built or is disabled.
    if let Ok(text) = fs::read_to_string("/proc/thread-self/net/snmp6") {
        values.append(&mut proc_text::parse_snmp6(&text));
    }
    Ok(ProtocolCounters { values })
}

/// CPU times of the machine.
pub fn cpu_times() -> Result<CpuUsage> {
    // SAFETY: takes an integer only.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let tick_ns =
        u64::try_from(ticks).ok().filter(|&t| t > 0).map_or(10_000_000, |t| 1_000_000_000 / t);
    let path = "/proc/stat";
    proc_text::parse_stat(&read(path)?, tick_ns).ok_or_else(|| Error::Malformed {
        operation: "read",
        object: path.to_owned(),
        reason: "no line of the whole machine's CPU times",
    })
}
