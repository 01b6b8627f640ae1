//! Unknown names, and the known ones that were meant.

use serde_json::Value;

use super::SCENARIO_SCHEMA;
use crate::ModelError;

/// Reads a value as a type; an unknown key is told with its path and the nearest known one.
pub(super) fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, ModelError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let at = error.path().to_string();
        let reason = error.inner().to_string();
        let hint = unknown_key(&reason)
            .and_then(|(given, mut known)| {
                // Where two tables are read as one, the reader does not tell what it knows.
                if known.is_empty() {
                    known.extend(OF_EMULATORS);
                }
                let n = nearest(given, known.iter().copied())?;
                Some(format!(" (did you mean {n}?)"))
            })
            .unwrap_or_default();
        let field = if at == "." { String::new() } else { at };
        let at = if field.is_empty() { String::new() } else { format!("{field}: ") };
        let reason = format!("{at}{reason}{hint}");
        ModelError::Document { document: SCENARIO_SCHEMA, field, reason }
    })
}

/// Keys of `[emulator.NAME]` and of `impair`.
const OF_EMULATORS: [&str; 11] = [
    "both",
    "a_to_b",
    "b_to_a",
    "profile",
    "config",
    "config_file",
    "seed",
    "emulator",
    "clear",
    "interfaces",
    "control_socket",
];

/// The key and the known ones in serde's words "unknown field `x`, expected one of `a`, `b`".
fn unknown_key(reason: &str) -> Option<(&str, Vec<&str>)> {
    let rest = reason
        .strip_prefix("unknown field `")
        .or_else(|| reason.strip_prefix("unknown variant `"))?;
    let (given, rest) = rest.split_once('`')?;
    Some((given, rest.split('`').skip(1).step_by(2).collect()))
}

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
