//! The known name that an unknown one was meant to be.

/// Characters of an unknown name that are compared: a document may hold a very long one.
const MAX_LETTERS: usize = 64;

/// The known name that is nearest to a given one, when it is near enough to be what was meant.
#[must_use]
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Every name of one letter is one letter from any other.
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
            assert_eq!(nearest(given, ["a", "b", "tcp", "delay"]), near, "{given}");
        }
    }
}
