//! CPU time that other programs used while a row was measured, from the kernel's counters. Also covers rows without a
//! record.

use std::time::Instant;

use weir_net::clock::{children_cpu, process_cpu};
use weir_net::counters::cpu_times;

/// Fraction of CPU time stolen by the hypervisor from which a row counts as host-limited.
pub(super) const STEAL_RATIO: f64 = 0.01;
/// CPU time of other programs, in processors, from which a row counts as host-limited.
pub(super) const FOREIGN_PROCESSORS: f64 = 0.2;

/// CPU time counters, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Accounts {
    /// All processes, user and system.
    all_ns: u64,
    /// This program and its waited-for children.
    own_ns: u64,
    steal_ns: u64,
    /// All processors, idle time included.
    total_ns: u64,
}

impl Accounts {
    fn now() -> Option<Accounts> {
        let total = cpu_times().ok()?.total;
        let own = [process_cpu(), children_cpu()];
        Some(Accounts {
            all_ns: total.user_ns + total.nice_ns + total.system_ns,
            own_ns: own.iter().map(|cpu| cpu.user_ns + cpu.system_ns).sum(),
            steal_ns: total.steal_ns,
            total_ns: total.total_ns(),
        })
    }
}

/// Watches the processors from the start of a row until its programs have ended.
#[derive(Debug)]
pub(super) struct Watch {
    begun: Instant,
    accounts: Option<Accounts>,
}

impl Watch {
    pub(super) fn start() -> Watch {
        Watch { begun: Instant::now(), accounts: Accounts::now() }
    }

    /// Why the host was the limit since the start, if it was.
    pub(super) fn host_limit(&self) -> Option<String> {
        let wall_ns = self.begun.elapsed().as_nanos() as f64;
        host_limit(self.accounts?, Accounts::now()?, wall_ns)
    }
}

fn host_limit(before: Accounts, after: Accounts, wall_ns: f64) -> Option<String> {
    let since = |of: fn(&Accounts) -> u64| of(&after).saturating_sub(of(&before)) as f64;
    let foreign = (since(|a| a.all_ns) - since(|a| a.own_ns)) / wall_ns.max(1.0);
    let stolen = since(|a| a.steal_ns) / since(|a| a.total_ns).max(1.0);
    let mut found = vec![];
    if stolen > STEAL_RATIO {
        found.push(format!("the hypervisor took {:.1} % of the CPU time", stolen * 100.0));
    }
    if foreign > FOREIGN_PROCESSORS {
        found.push(format!("other programs kept {foreign:.1} processors busy"));
    }
    (!found.is_empty()).then(|| found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_of_others_disturbs() {
        const SECOND: u64 = 1_000_000_000;
        let after = |all_ns, own_ns, steal_ns| {
            let after = Accounts { all_ns, own_ns, steal_ns, total_ns: 2 * SECOND };
            host_limit(Accounts::default(), after, SECOND as f64)
        };
        assert_eq!(after(2 * SECOND, 2 * SECOND, 0), None, "both processors, all of it ours");
        assert_eq!(after(SECOND, SECOND * 9 / 10, 0), None);
        assert!(after(SECOND, SECOND / 2, 0).is_some());
        assert_eq!(after(0, 0, SECOND / 100), None);
        assert!(after(0, 0, SECOND / 10).is_some());
        // Ticks and exact times are read one after the other.
        assert_eq!(after(0, SECOND / 100, 0), None);
    }

    #[test]
    fn a_child_that_was_waited_for_is_ours() {
        let before = Accounts::now().unwrap();
        let mut spinner = std::process::Command::new("timeout");
        let _ = spinner.args(["0.3", "sh", "-c", "while :; do :; done"]).status().unwrap();
        let own_ns = Accounts::now().unwrap().own_ns - before.own_ns;
        assert!(own_ns > 0);
    }
}
