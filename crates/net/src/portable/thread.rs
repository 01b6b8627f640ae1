//! Threads by the standard library.

use super::unsupported;
use crate::error::{Error, Result};

/// As many CPUs as may run in parallel, numbered from 0.
pub fn allowed_cpus() -> Result<Vec<usize>> {
    let n = std::thread::available_parallelism();
    n.map(|n| (0..n.get()).collect()).map_err(|e| Error::system("count", "CPUs", e))
}

/// Not available.
pub fn node_cpus(node: u32) -> Result<String> {
    super::unsupported("read the CPUs of", &format!("NUMA node {node}"))
}

/// Not available.
pub fn pin_to_cpu(_cpu: usize) -> Result<()> {
    unsupported("pin to a CPU", "this thread")
}

/// Not available.
pub fn try_fifo(_priority: u8) -> Result<()> {
    unsupported("schedule in real time", "this thread")
}

/// Nothing to do: scheduling is always normal.
pub fn set_normal() -> Result<()> {
    Ok(())
}

/// Not available.
pub fn raise_real_time_limit(_priority: u8) -> Result<bool> {
    unsupported("raise", "the limit of real-time priorities")
}

/// Not available: does nothing.
pub fn set_name(_name: &str) {}

/// Not available.
pub fn raise_descriptor_limit(_wanted: u64) -> Result<u64> {
    unsupported("raise", "the limit of open files")
}
