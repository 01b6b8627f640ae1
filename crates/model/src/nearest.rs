//! Suggestions for unknown names.

/// Maximum length of an unknown name that is compared, since documents may contain very long ones.
const MAX_LETTERS: usize = 64;

/// The known name nearest to a given one, if it is near enough to be the intended one.
#[must_use]
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // All names of one letter are within distance one of each other.
    let given: String = given.chars().take(MAX_LETTERS).collect();
    let letters = given.chars().count();
    let most = if letters < 3 { 0 } else { letters.div_ceil(3) };
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(&given, name), name))
        .filter(|(d, name)| *d <= most || (given.len() >= 3 && name.contains(&given)))
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_names_are_suggested() {
        for (given, near) in [
            ("tpc", Some("tcp")),
            ("dealy", Some("delay")),
            ("lay", Some("delay")),
            ("c", None),
            ("ab", None),
            ("", None),
            ("impair", None),
        ] {
            assert_eq!(nearest(given, ["a", "b", "tcp", "delay"]), near, "{given}");
        }
    }
}
