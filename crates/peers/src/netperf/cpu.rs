//! Processor time of this host, in netperf's terms.

use weir_net::counters::{CpuTimes, CpuUsage, cpu_times};

use super::codec::Cpu;

/// Rate of the idle counter of a processor, 1/s: `/proc/stat` counts hundredths of a second.
pub(super) const IDLE_RATE: f32 = 100.0;

/// Number of processors whose time can be measured; `None` if it can't.
pub(super) fn processors() -> Option<u32> {
    cpu_times().ok().map(|usage| usage.cores.len() as u32)
}

/// A measurement that has begun.
pub(super) struct Meter(Option<CpuUsage>);

impl Meter {
    /// Begins a measurement, if it is `wanted`.
    pub(super) fn start(wanted: bool) -> Self {
        Meter(wanted.then(cpu_times).and_then(Result::ok))
    }

    /// Processor time since the start; `None` without a measurement.
    pub(super) fn report(&self) -> Option<Cpu> {
        of_host(self.0.as_ref()?, &cpu_times().ok()?)
    }
}

/// Percent of `part` in the time between two readings.
fn percent(then: &CpuTimes, now: &CpuTimes, part: fn(&CpuTimes) -> u64) -> Option<f32> {
    let total = now.total_ns().checked_sub(then.total_ns()).filter(|total| *total > 0)?;
    Some((100.0 * part(now).saturating_sub(part(then)) as f64 / total as f64) as f32)
}

/// Time that is not idle. netperf counts the wait for devices as busy.
fn busy_ns(times: &CpuTimes) -> u64 {
    times.total_ns().saturating_sub(times.idle_ns)
}

fn of_host(then: &CpuUsage, now: &CpuUsage) -> Option<Cpu> {
    let total = |part| percent(&then.total, &now.total, part);
    let peak = now.cores.iter().filter_map(|(id, core)| {
        let (_, before) = then.cores.iter().find(|(other, _)| other == id)?;
        Some((*id, percent(before, core, busy_ns)?))
    });
    let (peak_id, peak) = peak.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Cpu {
        busy: total(busy_ns)?,
        user: total(|times| times.user_ns)?,
        system: total(|times| times.system_ns)?,
        iowait: total(|times| times.iowait_ns)?,
        irq: total(|times| times.irq_ns)?,
        softirq: total(|times| times.softirq_ns)?,
        processors: now.cores.len() as u32,
        peak_id,
        peak,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_not_idle_and_the_busiest_processor_is_named() {
        let times = |user_ns, softirq_ns, idle_ns, iowait_ns| CpuTimes {
            user_ns,
            softirq_ns,
            idle_ns,
            iowait_ns,
            ..CpuTimes::default()
        };
        let usage = |total, first, second| CpuUsage { total, cores: vec![(0, first), (5, second)] };
        let then = usage(times(10, 0, 10, 0), times(5, 0, 5, 0), times(5, 0, 5, 0));
        let now = usage(times(50, 20, 110, 20), times(5, 0, 85, 0), times(45, 20, 25, 20));
        let cpu = of_host(&then, &now).unwrap();
        assert_eq!(
            (cpu.busy, cpu.user, cpu.softirq, cpu.iowait),
            (44.444_443, 22.222_221, 11.111_111, 11.111_111)
        );
        assert_eq!((cpu.processors, cpu.peak_id, cpu.peak), (2, 5, 80.0));
        assert_eq!(of_host(&now, &now), None, "no time has passed");
    }
}
