//! Facts of this host, printed beside each result.

#[cfg(target_os = "linux")]
pub(crate) use crate::sys::host::sysctl_path;
pub use crate::sys::host::{host, sysctl};

/// Facts of the host. Unavailable ones are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Name.
    pub hostname: String,
    /// Operating system, as in its release file: `Debian GNU/Linux 12 (bookworm)`.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine architecture: `x86_64`.
    pub architecture: String,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// CPUs online.
    pub cpu_cores: u32,
    /// Frequency governor, when all CPUs have one and the same.
    pub governor: Option<String>,
    /// Size of each cache that the first CPU uses, bytes, by its name: `L1d`, `L1i`, `L2`, `L3`.
    pub cache_bytes: Vec<(String, u64)>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Platform of a virtual machine: the firmware's vendor and product, or `hypervisor`, or `container`.
    pub virtualisation: Option<String>,
    /// The kernel's clocksource.
    pub clocksource: Option<String>,
    /// Settings that affect measurements: dotted names and values.
    pub sysctls: Vec<(String, String)>,
}
