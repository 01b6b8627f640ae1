//! The known name that an unknown one was meant to be.

/// The known name that is nearest to a given one, when it is near enough to be what was meant.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Every name of one letter is one letter from any other.
    let letters = given.chars().count();
    let most = if letters < 3 { 0 } else { letters.div_ceil(3) };
    known
        .map(|name| (distance(given, name), name))
        .filter(|(d, name)| *d <= most || (given.len() >= 3 && name.contains(given)))
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn what_is_near_is_meant_and_what_is_too_short_is_not() {
        for (given, near) in [
            ("tpc", Some("tcp")),
            ("dealy", Some("delay")),
            ("lay", Some("delay")),
            ("c", None),
            ("ab", None),
            ("", None),
            ("impair", None),
        ] {
            assert_eq!(nearest(given, ["a", "b", "tcp", "delay"].into_iter()), near, "{given}");
        }
    }
}
