//! Reduces the points of a line without changing the picture: only the lowest and the highest in each pixel column remain.

/// A position in a drawing.
pub(super) type Spot = (f64, f64);

/// The lowest and the highest spot of each column of `width`, in their order, and the first and last of all. `spots` ascend in
/// x.
pub(super) fn by_column(spots: &[Spot], width: f64) -> Vec<Spot> {
    // Too short to reduce.
    if spots.len() < 3 {
        return spots.to_vec();
    }
    let column = |spot: &Spot| (spot.0 / width).floor();
    let mut out = Vec::with_capacity(spots.len().min(2048));
    let mut start = 0;
    while start < spots.len() {
        let here = column(&spots[start]);
        let mut end = start + 1;
        let (mut low, mut high) = (start, start);
        while end < spots.len() && column(&spots[end]) == here {
            if spots[end].1 < spots[low].1 {
                low = end;
            }
            if spots[end].1 > spots[high].1 {
                high = end;
            }
            end += 1;
        }
        if end - start <= 2 {
            out.extend_from_slice(&spots[start..end]);
        } else {
            let mut kept = [Some(low.min(high)), (low != high).then_some(low.max(high))];
            if start == 0 && kept[0] != Some(0) {
                out.push(spots[0]);
            }
            if end == spots.len() && kept[1] == Some(end - 1) {
                kept[1] = None;
            }
            out.extend(kept.into_iter().flatten().map(|i| spots[i]));
            if end == spots.len() && out.last() != spots.last() {
                out.push(spots[end - 1]);
            }
        }
        start = end;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_picture_is_unchanged(ys in prop::collection::vec(-100.0f64..100.0, 0..400), dense in 0.01f64..3.0) {
            let spots: Vec<Spot> = ys.iter().enumerate().map(|(i, y)| (i as f64 * dense, *y)).collect();
            let fewer = by_column(&spots, 1.0);
            prop_assert_eq!(fewer.first(), spots.first());
            prop_assert_eq!(fewer.last(), spots.last());
            prop_assert!(fewer.windows(2).all(|w| w[0].0 <= w[1].0));
            let columns = (ys.len() as f64 * dense).floor() + 1.0;
            prop_assert!(fewer.len() as f64 <= 2.0 * columns + 2.0);
            for column in 0..columns as i64 {
                let inside = |all: &[Spot]| -> Vec<f64> {
                    all.iter().filter(|s| s.0.floor() as i64 == column).map(|s| s.1).collect()
                };
                let ends = |v: Vec<f64>| (v.iter().copied().fold(f64::MAX, f64::min), v.iter().copied().fold(f64::MIN, f64::max));
                prop_assert_eq!(ends(inside(&fewer)), ends(inside(&spots)));
            }
        }
    }
}
