//! Lists of values with weights, `VALUE:WEIGHT, …`, as tables and mixtures have them.

use std::fmt;
use std::str::FromStr;

use crate::ModelError;
use crate::law::{refuse, split_list};

/// Maximum number of entries.
const MAX_ENTRIES: usize = 1000;

/// Reads `VALUE:WEIGHT, …`.
pub(super) fn read<T: FromStr<Err = ModelError>>(
    text: &str,
    accepted: &'static str,
) -> Result<Vec<(T, f64)>, ModelError> {
    let entry = |part: &str| {
        let bad = || ModelError::Value { what: "entry", given: part.into(), accepted };
        let (value, weight) = part.rsplit_once(':').ok_or_else(bad)?;
        let weight = weight.trim().trim_end_matches('%').parse().map_err(|_| bad())?;
        Ok((value.trim().parse()?, weight))
    };
    split_list(text).map(entry).collect()
}

/// Writes `VALUE:WEIGHT, …`.
pub(super) fn write<T: fmt::Display>(f: &mut fmt::Formatter, entries: &[(T, f64)]) -> fmt::Result {
    for (n, (value, weight)) in entries.iter().enumerate() {
        let separator = if n == 0 { "" } else { ", " };
        write!(f, "{separator}{value}:{weight}")?;
    }
    Ok(())
}

/// Checks the number of entries, and their weights.
pub(super) fn check<T: fmt::Display>(at: &str, entries: &[(T, f64)]) -> Result<(), ModelError> {
    if entries.is_empty() || entries.len() > MAX_ENTRIES {
        return refuse(at, "", format!("{} entries", entries.len()), "1 to 1000 entries");
    }
    // A NaN is in no range.
    if let Some((value, weight)) =
        entries.iter().find(|(_, weight)| !(1e-12..=1e12).contains(weight))
    {
        return refuse(at, "", format!("{value}:{weight}"), "weights above 0, up to 1e12");
    }
    Ok(())
}

/// The weights as probabilities.
pub(super) fn probabilities<T>(entries: &[(T, f64)]) -> Vec<f64> {
    let total: f64 = entries.iter().map(|(_, weight)| weight).sum();
    entries.iter().map(|(_, weight)| weight / total).collect()
}
