//! The order of bursts: a round-robin tournament.

use std::collections::{BTreeMap, BTreeSet};

/// Pairs in rounds: no two pairs of a round have an agent in common.
///
/// All pairs of n agents take n - 1 rounds, or n if n is odd (circle method). Of fewer pairs, empty rounds are omitted.
#[must_use]
pub fn rounds<T: Ord + Clone>(pairs: &[(T, T)]) -> Vec<Vec<(T, T)>> {
    let agents: BTreeSet<&T> = pairs.iter().flat_map(|(from, to)| [from, to]).collect();
    let places: BTreeMap<&T, usize> =
        agents.iter().enumerate().map(|(place, agent)| (*agent, place)).collect();
    // With an odd number of agents, one without a place pauses in each round.
    let last = (agents.len() + agents.len() % 2).saturating_sub(1);
    let mut rounds: BTreeMap<usize, Vec<(T, T)>> = BTreeMap::new();
    for pair in pairs {
        let (a, b) = (places[&pair.0], places[&pair.1]);
        let (a, b) = (a.min(b), a.max(b));
        let round = match b == last {
            true => 2 * a,
            false => a + b,
        };
        rounds.entry(round % last.max(1)).or_default().push(pair.clone());
    }
    rounds.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(agents: usize) -> Vec<(usize, usize)> {
        (0..agents).flat_map(|a| (a + 1..agents).map(move |b| (a, b))).collect()
    }

    fn are_disjoint(round: &[(usize, usize)]) -> bool {
        let agents: BTreeSet<usize> = round.iter().flat_map(|(a, b)| [*a, *b]).collect();
        agents.len() == 2 * round.len()
    }

    #[test]
    fn all_pairs_take_the_fewest_rounds() {
        for agents in 2..20 {
            let rounds = rounds(&all(agents));
            assert_eq!(rounds.len(), agents - 1 + agents % 2, "{agents}");
            assert!(rounds.iter().all(|round| are_disjoint(round)), "{rounds:?}");
        }
        assert!(rounds::<u8>(&[]).is_empty());
        let star = [(0, 1), (0, 2), (0, 3)];
        assert_eq!(rounds(&star).len(), 3);
    }

    proptest! {
        #[test]
        fn each_pair_has_one_round(agents in 2usize..30, chosen in any::<u64>()) {
            let pairs: Vec<_> = all(agents).into_iter().filter(|(a, b)| chosen >> ((a * 7 + b) % 64) & 1 == 1).collect();
            let rounds = rounds(&pairs);
            prop_assert!(rounds.iter().all(|round| are_disjoint(round)));
            let mut flat = rounds.concat();
            flat.sort_unstable();
            prop_assert_eq!(flat, pairs);
        }
    }
}
