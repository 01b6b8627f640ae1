//! How closely tests of several agents started.

use serde::Serialize;

/// When a test of an agent sent its first data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartInstant {
    /// By the agent's clock, ns since 1970.
    pub unix_ns: u64,
    /// Largest error of this clock, ns; absent: unknown.
    pub bound_ns: Option<u64>,
    /// The clock, where it is known: tests with the same one have no error between them.
    pub clock_id: Option<String>,
}

/// The time between the first and the last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StartSpread {
    /// Number of tests.
    pub tests: usize,
    /// From the first start to the last, ns, by the agents' clocks.
    pub spread_ns: u64,
    /// Largest error of `spread_ns`, ns: the sum of the two largest of their clocks. Absent: a clock's bound is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
}

impl StartSpread {
    /// The spread of these starts; `None` for fewer than two.
    #[must_use]
    pub fn of(starts: &[StartInstant]) -> Option<StartSpread> {
        let first = starts.iter().map(|start| start.unix_ns).min()?;
        let last = starts.iter().map(|start| start.unix_ns).max()?;
        if starts.len() < 2 {
            return None;
        }
        // One entry for each clock.
        let mut clocks: Vec<&StartInstant> = vec![];
        for start in starts {
            let is_known = |known: &&StartInstant| {
                start.clock_id.is_some() && known.clock_id == start.clock_id
            };
            if !clocks.iter().any(is_known) {
                clocks.push(start);
            }
        }
        let mut bounds: Vec<Option<u64>> = clocks.iter().map(|clock| clock.bound_ns).collect();
        let bound_ns = if clocks.len() == 1 {
            Some(0)
        } else if bounds.iter().any(Option::is_none) {
            None
        } else {
            bounds.sort_unstable_by(|a, b| b.cmp(a));
            Some(bounds.iter().take(2).flatten().fold(0, |sum: u64, ns| sum.saturating_add(*ns)))
        };
        Some(StartSpread { tests: starts.len(), spread_ns: last - first, bound_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(unix_ns: u64, bound_ns: Option<u64>, clock: Option<&str>) -> StartInstant {
        StartInstant { unix_ns, bound_ns, clock_id: clock.map(Into::into) }
    }

    #[test]
    fn the_spread_has_the_error_of_the_two_worst_clocks() {
        let of = |starts: &[StartInstant]| {
            StartSpread::of(starts).map(|spread| (spread.spread_ns, spread.bound_ns))
        };
        assert_eq!(of(&[start(5, Some(1), None)]), None);
        let (a, b, c) = (
            start(100, Some(7), Some("a")),
            start(130, Some(20), Some("b")),
            start(90, Some(9), None),
        );
        assert_eq!(of(&[a.clone(), b.clone(), c]), Some((40, Some(29))));
        // One clock has no error against itself, whatever its bound.
        assert_eq!(of(&[a.clone(), start(102, None, Some("a"))]), Some((2, Some(0))));
        assert_eq!(of(&[a.clone(), start(102, None, Some("a")), b]), Some((30, Some(27))));
        // Without a name two clocks may differ.
        assert_eq!(of(&[start(1, Some(2), None), start(4, Some(3), None)]), Some((3, Some(5))));
        assert_eq!(of(&[a, start(101, None, None)]), Some((1, None)));
    }
}
