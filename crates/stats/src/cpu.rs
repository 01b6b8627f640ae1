//! CPU time as shares of the time that passed.

/// Accumulated CPU times, all in one unit (clock ticks, ns), of a machine, one CPU or a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In programs, niced ones included; for a machine guest time is part of it.
    pub user: u64,
    /// In the kernel, interrupts left out.
    pub system: u64,
    /// In hard and soft interrupts.
    pub irq: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
    /// Idle, waiting for input or output included.
    pub idle: u64,
}

/// Shares of time, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuRatios {
    /// In programs.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// In interrupts.
    pub irq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
}

impl CpuTimes {
    fn since(&self, before: &Self) -> Self {
        // The kernel's idle and steal counters have been seen to run back a little.
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            irq: self.irq.saturating_sub(before.irq),
            steal: self.steal.saturating_sub(before.steal),
            idle: self.idle.saturating_sub(before.idle),
        }
    }

    fn sum(&self) -> u64 {
        [self.user, self.system, self.irq, self.steal, self.idle]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl CpuRatios {
    /// Shares of all time between two readings of a machine or CPU; absent when no time passed.
    pub fn between(before: &CpuTimes, after: &CpuTimes) -> Option<Self> {
        let spent = after.since(before);
        Self::of(spent, spent.sum())
    }

    /// Shares of `elapsed` between two readings of a process, in the unit of its times: above 1 with several threads.
    pub fn of_process(before: &CpuTimes, after: &CpuTimes, elapsed: u64) -> Option<Self> {
        Self::of(after.since(before), elapsed)
    }

    fn of(spent: CpuTimes, total: u64) -> Option<Self> {
        let share = |time: u64| time as f64 / total as f64;
        (total > 0).then(|| Self {
            user: share(spent.user),
            system: share(spent.system),
            irq: share(spent.irq),
            steal: share(spent.steal),
        })
    }

    /// All but idle.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.steal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_machine_and_of_a_process() {
        let before = CpuTimes { user: 100, system: 50, irq: 10, steal: 5, idle: 1000 };
        let after = CpuTimes { user: 140, system: 70, irq: 20, steal: 4, idle: 1030 };
        let ratios = CpuRatios::between(&before, &after).unwrap();
        assert_eq!(ratios, CpuRatios { user: 0.4, system: 0.2, irq: 0.1, steal: 0.0 });
        assert!((ratios.busy() - 0.7).abs() < 1e-12);
        assert_eq!(CpuRatios::between(&before, &before), None);
        assert_eq!(CpuRatios::of_process(&before, &after, 20).unwrap().user, 2.0);
    }
}
