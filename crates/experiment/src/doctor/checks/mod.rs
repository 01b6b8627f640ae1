//! The checks: each takes the facts and returns findings. Pure.

mod cpu;
mod firewall;
mod interfaces;
mod kernel;
mod permissions;
mod sockets;
mod time;

use super::facts::{Fact, Facts};
use super::finding::{Finding, Group, Severity};

/// The port of Weir, TCP and UDP.
pub(crate) const PORT: u16 = 9347;

/// Runs all checks on these facts. Facts that were not gathered yield no finding.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let rooms = [
        permissions::check,
        cpu::check,
        time::check,
        sockets::check,
        interfaces::check,
        firewall::check,
        kernel::check,
    ];
    rooms.iter().flat_map(|check| check(facts)).collect()
}

/// Checks a fact if it was read; reports it as unreadable if reading failed.
fn judge<T>(
    fact: &Fact<T>,
    group: Group,
    id: &str,
    what: &str,
    judgement: impl FnOnce(&T, &str) -> Vec<Finding>,
) -> Vec<Finding> {
    match fact {
        Fact::NotAsked => Vec::new(),
        Fact::Read { from, value } => judgement(value, from),
        Fact::Unreadable { from, why } => vec![Finding::new(
            group,
            Severity::Info,
            id,
            format!("{what}: not readable"),
            format!("{from}: {why}"),
            "unknown; measurements still run",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_asked_nothing_said() {
        assert_eq!(check(&Facts::default()), []);
    }

    #[test]
    fn a_fact_that_cannot_be_read_is_a_finding() {
        let facts = Facts { softnet: Fact::unreadable("/proc/x", "denied"), ..Facts::default() };
        let found = check(&facts);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        assert!(found[0].title.ends_with("not readable") && found[0].evidence == "/proc/x: denied");
    }
}
