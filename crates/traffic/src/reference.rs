//! Two ways to relate the hosts' clocks: probes across the path, and the bounds of each end's own time service. The
//! tighter one is used, unless the two contradict each other.

use weir_net::reference::ReferenceReader;
use weir_wire::control::{ClockReference, ClockState};

/// This host's reference in the form sent to the peer.
pub(crate) fn read(reader: &ReferenceReader) -> Option<ClockReference> {
    reader.read().map(|r| ClockReference {
        source: r.bound.service.name().into(),
        realtime_minus_monotonic_ns: r.realtime_minus_monotonic_ns,
        at_ns: r.at_ns,
        error_ns: r.bound.error_ns,
        growth_ppb: r.bound.growth_ppb,
    })
}

/// The relation given by both ends' references, with a bound that holds from `now_ns` to `until_ns` of the client's
/// clock. `None` if the peer's values are out of range.
pub(crate) fn relation(
    client: &ClockReference,
    server: &ClockReference,
    now_ns: u64,
    until_ns: u64,
) -> Option<ClockState> {
    // At one true time: server − client = (true − server's difference) − (true − client's difference).
    let offset_ns =
        client.realtime_minus_monotonic_ns.checked_sub(server.realtime_minus_monotonic_ns)?;
    let error_at = |client_ns: u64| {
        let server_ns = client_ns.wrapping_add_signed(offset_ns);
        client.error_at(client_ns).saturating_add(server.error_at(server_ns))
    };
    Some(ClockState {
        offset_ns,
        // Both clocks follow true time; the bound includes how far they drift meanwhile.
        skew_ppb: 0,
        reference_ns: now_ns,
        error_ns: error_at(now_ns).max(error_at(until_ns)),
    })
}

/// Which of two relations is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The probes' relation: there is no other, or none tighter.
    Probes,
    /// The references' relation: its bound is smaller.
    References,
    /// The two differ by more than both bounds allow. No packet travels backwards in time, so the probes are right
    /// and a time service is wrong.
    Contradiction,
}

/// Chooses between two relations that hold at the same time of the client's clock.
pub(crate) fn choose(probes: &ClockState, references: Option<&ClockState>) -> Choice {
    let Some(references) = references else { return Choice::Probes };
    let apart = (i128::from(probes.offset_ns) - i128::from(references.offset_ns)).unsigned_abs();
    if apart > u128::from(probes.error_ns) + u128::from(references.error_ns) {
        Choice::Contradiction
    } else if references.error_ns < probes.error_ns {
        Choice::References
    } else {
        Choice::Probes
    }
}

/// The name of the services of both ends, the client's first.
pub(crate) fn names(client: &ClockReference, server: &ClockReference) -> String {
    let server = crate::channel::clean(&server.source);
    if server == client.source { server } else { format!("{} and {server}", client.source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(difference_ns: i64, at_ns: u64, error_ns: u64) -> ClockReference {
        ClockReference {
            source: "chrony".into(),
            realtime_minus_monotonic_ns: difference_ns,
            at_ns,
            error_ns,
            growth_ppb: 2000,
        }
    }

    fn state(offset_ns: i64, error_ns: u64) -> ClockState {
        ClockState { offset_ns, error_ns, ..ClockState::default() }
    }

    #[test]
    fn two_references_relate_two_clocks() {
        // True time 10_000 s: the client's monotonic clock shows 400 s, the server's 1400 s.
        let second = 1_000_000_000;
        let client = reference(9_600 * second, 400 * second as u64, 3000);
        let server = reference(8_600 * second, 1_400 * second as u64, 4000);
        let now = 400 * second as u64;
        let r = relation(&client, &server, now, now + second as u64).unwrap();
        assert_eq!(r.offset_ns, 1000 * second);
        assert_eq!((r.reference_ns, r.skew_ppb), (now, 0));
        // Both bounds, each grown by 2 ppm of the second that it is to serve.
        assert_eq!(r.error_ns, 3000 + 4000 + 2 * 2000);
        assert_eq!(r.offset_at_client(now + second as u64), 1000 * second);
    }

    #[test]
    fn hostile_values_give_no_relation_or_a_useless_bound() {
        let here = reference(i64::MAX, 0, 1);
        assert_eq!(relation(&here, &reference(-1, 0, 1), 0, 0), None);
        let there = ClockReference { growth_ppb: u64::MAX, ..reference(0, u64::MAX, u64::MAX) };
        assert_eq!(relation(&here, &there, 5, 9).unwrap().error_ns, u64::MAX);
    }

    #[test]
    fn the_tighter_relation_is_used_unless_they_contradict() {
        assert_eq!(choose(&state(100, 50), None), Choice::Probes);
        assert_eq!(choose(&state(100, 50), Some(&state(130, 10))), Choice::References);
        assert_eq!(choose(&state(100, 50), Some(&state(100, 50))), Choice::Probes);
        assert_eq!(choose(&state(100, 50), Some(&state(100, 51))), Choice::Probes);
        assert_eq!(choose(&state(100, 50), Some(&state(160, 10))), Choice::References);
        assert_eq!(choose(&state(100, 50), Some(&state(161, 10))), Choice::Contradiction);
        assert_eq!(choose(&state(100, 50), Some(&state(39, 10))), Choice::Contradiction);
        assert_eq!(
            choose(&state(i64::MIN, u64::MAX), Some(&state(i64::MAX, u64::MAX))),
            Choice::Probes
        );
    }

    #[test]
    fn sources_are_named_once_when_alike() {
        let (chrony, kernel) = (
            reference(0, 0, 0),
            ClockReference { source: "ntp-kernel".into(), ..reference(0, 0, 0) },
        );
        assert_eq!(names(&chrony, &chrony), "chrony");
        assert_eq!(names(&chrony, &kernel), "chrony and ntp-kernel");
    }
}
