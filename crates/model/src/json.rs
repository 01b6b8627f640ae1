//! JSON of the shared nouns, in the one way that reads back.
//!
//! JSON has no infinity and no NaN: serde_json writes `null` for them, which no number field reads. A figure
//! that is not a number was not measured, and what was not measured is absent.

use serde::Serialize;
use serde_json::Value;

/// One line of JSON without `null` members.
///
/// # Errors
/// Those of serde_json: a map whose keys are not strings. No type of this crate has one.
pub fn to_line<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(value)?;
    // A `null` inside a string only costs the walk.
    if text.contains("null") { serde_json::to_string(&pruned(value)?) } else { Ok(text) }
}

/// Indented JSON without `null` members; no newline at the end.
///
/// # Errors
/// As [`to_line`].
pub fn to_pretty<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string_pretty(value)?;
    if text.contains("null") { serde_json::to_string_pretty(&pruned(value)?) } else { Ok(text) }
}

fn pruned<T: Serialize>(value: &T) -> Result<Value, serde_json::Error> {
    let mut tree = serde_json::to_value(value)?;
    prune(&mut tree);
    Ok(tree)
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(prune);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, Status};

    #[test]
    fn a_figure_that_is_no_number_is_absent_and_the_record_reads_back() {
        let record = Record {
            seconds: f64::NAN,
            end_reason: "null".into(),
            status: Status::Partial,
            ..Default::default()
        };
        for text in [to_line(&record).unwrap(), to_pretty(&record).unwrap()] {
            let back: Record = serde_json::from_str(&text).unwrap();
            assert_eq!((back.seconds, back.end_reason.as_str()), (0.0, "null"));
            assert_eq!(back.status, Status::Partial);
            assert!(!text.contains("\"seconds\""), "{text}");
        }
    }
}
