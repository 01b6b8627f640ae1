//! The points of a sweep, and the order in which they are visited.

use weir_model::experiment::Values;
use weir_stats::compare::SplitMix64;

/// The values of the axes at one point, in the order of the axes.
pub(crate) type AxisValues = Vec<(String, String)>;

/// All points, the last axis changing fastest.
#[must_use]
pub(crate) fn points(axes: &Values) -> Vec<AxisValues> {
    let mut out: Vec<AxisValues> = vec![vec![]];
    for (name, values) in axes {
        out = out
            .iter()
            .flat_map(|at| {
                values.iter().map(move |value| {
                    let mut at = at.clone();
                    at.push((name.clone(), value.clone()));
                    at
                })
            })
            .collect();
    }
    out
}

/// The order of a block of `count` points: each repetition visits every point once in a new random order, so that a
/// drift of the host affects all points alike (randomised complete blocks). The same seed gives the same order.
#[must_use]
pub(crate) fn block(count: usize, seed: u64, repetition: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mixed = seed ^ u64::from(repetition).wrapping_mul(0xd134_2543_de82_ef95);
    let mut random = SplitMix64::new(mixed);
    // Fisher and Yates.
    for i in (1..count).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

/// A point in one line: `size=128 transport=udp`.
#[must_use]
pub(crate) fn key(at: &[(String, String)]) -> String {
    at.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_a_point() {
        let axes = vec![
            ("size".to_owned(), vec!["1".to_owned(), "2".to_owned()]),
            ("transport".to_owned(), vec!["tcp".to_owned(), "udp".to_owned()]),
        ];
        let keys: Vec<String> = points(&axes).iter().map(|at| key(at)).collect();
        assert_eq!(
            keys,
            [
                "size=1 transport=tcp",
                "size=1 transport=udp",
                "size=2 transport=tcp",
                "size=2 transport=udp"
            ]
        );
    }

    #[test]
    fn a_block_holds_each_point_once_and_its_order_is_the_seeds() {
        for repetition in 0..20 {
            let mut order = block(11, 7, repetition);
            assert_eq!(order, block(11, 7, repetition));
            order.sort_unstable();
            assert_eq!(order, (0..11).collect::<Vec<_>>());
        }
        assert_ne!(block(11, 7, 0), block(11, 7, 1));
        assert_ne!(block(11, 7, 0), block(11, 8, 0));
    }

    #[test]
    fn every_order_is_as_likely() {
        // 6 orders of 3 points over 6000 blocks: each 1000 ± 6.5 standard deviations of 28.9.
        let mut counts = std::collections::BTreeMap::new();
        for repetition in 0..6000 {
            *counts.entry(block(3, 99, repetition)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|n| (812..=1188).contains(n)), "{counts:?}");
    }
}
