//! The Mann–Whitney U test: whether the values of one sample tend to be larger, for any distribution.

use super::{all_finite, normal_upper_tail};

/// Maximum product of the sizes for an exact p, with or without ties.
const EXACT_PRODUCT: usize = 1000;

/// Result of a Mann–Whitney U test of two samples of independent values (H. B. Mann and D. R. Whitney,
/// 1947).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// U of the first sample: pairs in which its value is the larger one, ties as half.
    pub u: f64,
    /// All pairs: the product of the sizes.
    pub pairs: f64,
    /// Two-sided p: twice the smaller tail. An exact p is never below [`MannWhitney::min_p`].
    pub p: f64,
    /// Whether p is exact: counted over all ways to divide these values, ties included, between the two
    /// samples. Else it is the normal approximation with correction for ties and continuity.
    pub exact: bool,
}

impl MannWhitney {
    /// Compares two samples; absent when one is empty or a value is not finite.
    pub fn of(first: &[f64], second: &[f64]) -> Option<Self> {
        let (n, m) = (first.len(), second.len());
        if n == 0 || m == 0 || !all_finite(first) || !all_finite(second) {
            return None;
        }
        let (rank_sum, ties) = ranks(first, second);
        let (size, other) = (n as f64, m as f64);
        let pairs = size * other;
        let u = rank_sum - size * (size + 1.0) / 2.0;
        let larger = u.max(pairs - u);
        let exact = n.saturating_mul(m) <= EXACT_PRODUCT;
        let tail = if exact && ties == 0.0 {
            counted_tail(n, m, larger as usize)
        } else if exact {
            tied_tail(first, second)
        } else {
            let all = size + other;
            let variance = pairs / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
            // All values equal: nothing speaks for a difference.
            if variance > 0.0 {
                normal_upper_tail((larger - pairs / 2.0 - 0.5) / variance.sqrt())
            } else {
                1.0
            }
        };
        Some(MannWhitney { u, pairs, p: (2.0 * tail).min(1.0), exact })
    }

    /// Common-language effect size (McGraw and Wong 1992; Vargha and Delaney's A): the probability that a
    /// value of the first sample is larger than one of the second, ties as half. 0 to 1; 0.5 is no
    /// difference.
    pub(crate) fn common_language(&self) -> f64 {
        self.u / self.pairs
    }

    /// Cliff's delta (N. Cliff, Psychological Bulletin 114, 1993): fraction of pairs in which the first is
    /// larger minus the fraction in which it is smaller, −1 to 1.
    pub fn cliffs_delta(&self) -> f64 {
        2.0 * self.common_language() - 1.0
    }

    /// Smallest possible two-sided p for these sample sizes, with or without ties. If it is above the
    /// significance level, no difference can be shown, however large.
    pub fn min_p(first: usize, second: usize) -> f64 {
        // 2 ÷ the number of ways to choose the ranks of the first sample.
        let ways = (1..=first.min(second))
            .fold(1.0, |ways, k| ways * (first.max(second) as f64 + k as f64) / k as f64);
        (2.0 / ways).min(1.0)
    }
}

/// The values of both samples in order, and whether each is of the first.
fn ordered(first: &[f64], second: &[f64]) -> Vec<(f64, bool)> {
    let mut all: Vec<(f64, bool)> =
        first.iter().map(|v| (*v, true)).chain(second.iter().map(|v| (*v, false))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Sum of the first sample's ranks in both together, ties sharing their mean; and the sum of t³ − t over ties of t.
fn ranks(first: &[f64], second: &[f64]) -> (f64, f64) {
    let all = ordered(first, second);
    let (mut sum, mut ties, mut below) = (0.0, 0.0, 0.0);
    // −0 and 0 are equal, and neighbours in this order.
    for group in all.chunk_by(|a, b| a.0 == b.0) {
        let size = group.len() as f64;
        let ours = group.iter().filter(|(_, of_first)| *of_first).count() as f64;
        sum += ours * (below + (size + 1.0) / 2.0);
        ties += size * (size * size - 1.0);
        below += size;
    }
    (sum, ties)
}

/// P(U ≥ u) when all orders are equally likely. The largest of i + j values is one of the i with
/// probability i / (i + j), and then adds j pairs. All terms are positive, so that small tails are as
/// precise as large ones.
fn counted_tail(n: usize, m: usize, u: usize) -> f64 {
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for i in 1..=n {
        let mut next: Vec<Vec<f64>> = Vec::with_capacity(m + 1);
        next.push(vec![1.0]);
        for j in 1..=m {
            let share = i as f64 / (i + j) as f64;
            let distribution = (0..=i * j)
                .map(|u| {
                    let ours = u.checked_sub(j).and_then(|u| row[j].get(u)).unwrap_or(&0.0);
                    let theirs = next[j - 1].get(u).unwrap_or(&0.0);
                    share * ours + (1.0 - share) * theirs
                })
                .collect();
            next.push(distribution);
        }
        row = next;
    }
    row[m].iter().skip(u).sum()
}

/// The smaller of P(U ≤ u) and P(U ≥ u) with ties, when all divisions of these values are equally likely:
/// the permutation distribution of the sum of mid-ranks (E. L. Lehmann, Nonparametrics, 1975).
fn tied_tail(first: &[f64], second: &[f64]) -> f64 {
    // Ranks of the smaller sample, since the other's sum follows from them; doubled, so that mid-ranks are
    // integers.
    let chosen = first.len().min(second.len());
    let is_first = chosen == first.len();
    let (mut ranks, mut own, mut below) = (vec![], 0, 0);
    for group in ordered(first, second).chunk_by(|a, b| a.0 == b.0) {
        let rank = 2 * below + group.len() + 1;
        own += rank * group.iter().filter(|(_, of_first)| *of_first == is_first).count();
        ranks.extend(std::iter::repeat_n(rank, group.len()));
        below += group.len();
    }
    // ways[k][s]: how many choices of k of the values so far have the sum s.
    let most: usize = ranks.iter().rev().take(chosen).sum();
    let mut ways = vec![vec![0.0f64; most + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for k in (1..=chosen).rev() {
            let (fewer, more) = ways.split_at_mut(k);
            for (sum, count) in more[0].iter_mut().enumerate().skip(rank) {
                *count += fewer[k - 1][sum - rank];
            }
        }
    }
    let ways = &ways[chosen];
    let [all, low, high] =
        [&ways[..], &ways[..=own], &ways[own..]].map(|part| part.iter().sum::<f64>());
    low.min(high) / all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_samples_by_hand() {
        // Of the 20 orders of 3 and 3, one has all of the first above: p = 2/20.
        let test = MannWhitney::of(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((test.u, test.pairs, test.exact), (9.0, 9.0, true));
        assert!((test.p - 0.1).abs() < 1e-15);
        assert_eq!((test.common_language(), test.cliffs_delta()), (1.0, 1.0));
        assert!((MannWhitney::min_p(3, 3) - 0.1).abs() < 1e-15);
        assert!((MannWhitney::min_p(2, 4) - 2.0 / 15.0).abs() < 1e-15);
        assert_eq!(MannWhitney::min_p(1, 1), 1.0);
    }

    #[test]
    fn equal_values_show_no_difference() {
        let test = MannWhitney::of(&[2.0; 5], &[2.0; 7]).unwrap();
        assert_eq!((test.p, test.cliffs_delta(), test.exact), (1.0, 0.0, true));
        assert_eq!(MannWhitney::of(&[], &[1.0]), None);
        assert_eq!(MannWhitney::of(&[f64::NAN], &[1.0]), None);
        assert_eq!(MannWhitney::of(&[0.0], &[-0.0]).unwrap().p, 1.0);
        let many = MannWhitney::of(&[2.0; 40], &[2.0; 40]).unwrap();
        assert_eq!((many.p, many.exact), (1.0, false));
    }

    #[test]
    fn p_is_exact_with_ties() {
        // One of 20 choices has three ones below three twos: the normal approximation would say 0.047.
        let test = MannWhitney::of(&[2.0; 3], &[1.0; 3]).unwrap();
        assert!(test.exact && (test.p - 0.1).abs() < 1e-15, "{test:?}");
        // The mid-ranks are 2 2 2 4½ 4½ 6: of the 20 choices of three, 7 have a sum of 12½ or more, as 1, 2 and 3 have.
        let test = MannWhitney::of(&[1.0, 2.0, 3.0], &[1.0, 1.0, 2.0]).unwrap();
        assert!((test.p - 0.7).abs() < 1e-15, "{test:?}");
        assert!(MannWhitney::of(&[5.0], &[1.0; 3]).unwrap().p >= MannWhitney::min_p(1, 3));
    }

    proptest! {
        #[test]
        fn the_counted_distribution_is_one_and_symmetric(n in 1usize..9, m in 1usize..9) {
            prop_assert!((counted_tail(n, m, 0) - 1.0).abs() < 1e-12);
            for u in 0..=n * m {
                let below = 1.0 - counted_tail(n, m, n * m - u + 1);
                prop_assert!((counted_tail(n, m, u) - below).abs() < 1e-12);
            }
        }

        #[test]
        fn u_counts_pairs(
            a in prop::collection::vec(-5i8..5, 1..12),
            b in prop::collection::vec(-5i8..5, 1..12),
        ) {
            let [a, b] = [a, b].map(|v| v.into_iter().map(f64::from).collect::<Vec<_>>());
            let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
            let counted: f64 = pairs.map(|(x, y)| f64::from(x > y) + 0.5 * f64::from(x == y)).sum();
            let (there, back) = (MannWhitney::of(&a, &b).unwrap(), MannWhitney::of(&b, &a).unwrap());
            prop_assert_eq!(there.u, counted);
            prop_assert!((there.p - back.p).abs() < 1e-12 && (0.0..=1.0).contains(&there.p));
            prop_assert!((there.cliffs_delta() + back.cliffs_delta()).abs() < 1e-12);
        }

        #[test]
        fn p_agrees_with_all_permutations(
            a in prop::collection::vec(0u8..4, 1..6),
            b in prop::collection::vec(0u8..4, 1..6),
        ) {
            let [a, b] = [a, b].map(|v| v.into_iter().map(f64::from).collect::<Vec<_>>());
            let all = [a.clone(), b.clone()].concat();
            let u = |x: &[f64], y: &[f64]| ranks(x, y).0;
            let own = u(&a, &b);
            let (mut count, mut low, mut high) = (0.0, 0.0, 0.0);
            for set in 0u32..1 << all.len() {
                if set.count_ones() as usize != a.len() {
                    continue;
                }
                let side = |wanted| {
                    let of = |(i, v): (usize, &f64)| ((set >> i & 1 == 1) == wanted).then_some(*v);
                    all.iter().enumerate().filter_map(of).collect::<Vec<_>>()
                };
                let sum = u(&side(true), &side(false));
                count += 1.0;
                low += f64::from(sum <= own);
                high += f64::from(sum >= own);
            }
            let p: f64 = (2.0 * f64::min(low, high) / count).min(1.0);
            let test = MannWhitney::of(&a, &b).unwrap();
            prop_assert!(test.exact && (test.p - p).abs() < 1e-12, "{} not {p}", test.p);
            prop_assert!(test.p >= MannWhitney::min_p(a.len(), b.len()) - 1e-12);
        }
    }
}
