//! The known name that a misspelt one probably means.

/// The candidate that is closest to `given`, if it is close enough to be what was meant: at most a third of its letters
/// differ (Damerau–Levenshtein), and at least one edit is allowed.
///
/// ```
/// assert_eq!(weir_model::nearest("durration", ["duration", "direction"]), Some("duration"));
/// assert_eq!(weir_model::nearest("x", ["duration"]), None);
/// ```
#[must_use]
pub fn nearest<'c>(given: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Names are short; a long text is no misspelt name, and comparing it costs time that grows with its square.
    if given.len() > 64 {
        return None;
    }
    let edits = |candidate: &str| strsim::osa_distance(given, candidate);
    candidates
        .into_iter()
        .map(|candidate| (edits(candidate), candidate))
        .filter(|(edits, candidate)| *edits <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}
