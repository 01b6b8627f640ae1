//! The kernel's own counters: of interfaces (see [`crate::interface`]), protocols, receive processing and CPUs.
//! All count from boot or from the creation of the namespace: take the difference of two readings.

pub use crate::sys::counters::{cpu_times, protocol_counters, softnet};

/// Counters of one CPU's network receive processing (`/proc/net/softnet_stat`). They are the machine's, not the
/// namespace's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// The CPU, when the kernel reports it (Linux 5.10); else the number of the line.
    pub cpu: u32,
    /// Packets processed.
    pub processed: u32,
    /// Packets dropped because the backlog queue was full (`netdev_max_backlog`).
    pub dropped: u32,
    /// Times processing stopped with work left, its budget or time used up.
    pub time_squeeze: u32,
    /// Times another CPU asked this one to process packets (RPS).
    pub received_rps: u32,
    /// Packets dropped by the flow limit.
    pub flow_limit: u32,
}

/// CPU time since boot, ns, from clock ticks (usually 10 ms).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Normal processes in user mode, guests included.
    pub user_ns: u64,
    /// Niced processes in user mode.
    pub nice_ns: u64,
    /// Kernel mode.
    pub system_ns: u64,
    /// Idle.
    pub idle_ns: u64,
    /// Idle while waiting for a disk.
    pub iowait_ns: u64,
    /// Hardware interrupts.
    pub irq_ns: u64,
    /// Software interrupts, where most network processing falls.
    pub softirq_ns: u64,
    /// Used by the hypervisor for other guests.
    pub steal_ns: u64,
}

impl CpuTimes {
    /// The sum of all.
    pub fn total_ns(&self) -> u64 {
        self.busy_ns().saturating_add(self.idle_ns).saturating_add(self.iowait_ns)
    }

    /// All but idle and waiting for a disk; stolen time counts as busy.
    pub fn busy_ns(&self) -> u64 {
        [self.user_ns, self.nice_ns, self.system_ns, self.irq_ns, self.softirq_ns, self.steal_ns]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// CPU times of the machine and of each core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuUsage {
    /// All cores together.
    pub total: CpuTimes,
    /// Number and times of each core that is online.
    pub cores: Vec<(u32, CpuTimes)>,
}

/// Protocol counters of this thread's network namespace, by group and name as the kernel gives them:
/// `get("Udp", "RcvbufErrors")`, `get("Tcp", "RetransSegs")`, `get("TcpExt", "TCPLostRetransmit")`,
/// `get("Udp6", "InErrors")`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtocolCounters {
    pub(crate) values: std::collections::BTreeMap<String, i64>,
}

impl ProtocolCounters {
    /// One counter; `None` when this kernel has none of that name.
    pub fn get(&self, group: &str, name: &str) -> Option<i64> {
        self.values.get(&format!("{group}.{name}")).copied()
    }

    /// All counters, as `Group.Name` and value, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.values.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The counters that changed since `earlier`, and by how much.
    pub fn since(&self, earlier: &ProtocolCounters) -> ProtocolCounters {
        let values = self.values.iter().filter_map(|(name, value)| {
            let change = value.wrapping_sub(earlier.values.get(name).copied().unwrap_or(0));
            (change != 0).then(|| (name.clone(), change))
        });
        ProtocolCounters { values: values.collect() }
    }
}
