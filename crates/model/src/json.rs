//! Writes the shared types as JSON that can be read back.
//!
//! JSON has no infinity and no NaN: serde_json writes `null` for them, which number fields do not accept. A
//! figure that is not a number was not measured, and figures that were not measured are absent.

use serde::Serialize;
use serde_json::Value;

/// One line of JSON without `null` members.
///
/// # Errors
/// Those of serde_json: a map whose keys are not strings. No type of this crate has one.
pub fn to_line<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(value)?;
    // A `null` inside a string only costs the parse.
    if !text.contains("null") {
        return Ok(text);
    }
    let mut tree = serde_json::from_str(&text)?;
    prune(&mut tree);
    Ok(tree.to_string())
}

/// Indented JSON without `null` members; no newline at the end.
///
/// # Errors
/// As [`to_line`].
pub fn to_pretty<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    to_line(value).map(|line| indented(&line))
}

/// JSON on one line, as serde_json writes it, with two spaces for each level.
fn indented(line: &str) -> String {
    let mut out = String::with_capacity(line.len() * 2);
    let (mut level, mut in_string, mut is_escaped) = (0, false, false);
    let mut before = ' ';
    for c in line.chars() {
        if in_string {
            in_string = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            out.push(c);
            before = c;
            continue;
        }
        let is_end = matches!(c, '}' | ']');
        if is_end {
            level -= 1;
        }
        // Empty objects and lists stay on one line.
        if (matches!(before, '{' | '[') && !is_end)
            || (is_end && !matches!(before, '{' | '['))
            || before == ','
        {
            out.push('\n');
            (0..level).for_each(|_| out.push_str("  "));
        }
        out.push(c);
        match c {
            '{' | '[' => level += 1,
            ':' => out.push(' '),
            '"' => in_string = true,
            _ => {}
        }
        before = c;
    }
    out
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
    fn indented_json_is_that_of_serde_json() {
        let tree = serde_json::json!({
            "a": [], "b": {}, "c": [[], {"d": "x,{}[]:\"\\"}], "e": -1.5e-7, "\\": "\"", "": [1, true, [2]],
        });
        for tree in [&tree, &tree["c"], &tree["e"], &tree["a"], &tree["\\"]] {
            assert_eq!(indented(&tree.to_string()), serde_json::to_string_pretty(tree).unwrap());
        }
    }

    #[test]
    fn a_figure_that_is_not_a_number_is_absent() {
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
