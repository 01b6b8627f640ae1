//! Columns and cells of CSV, for all tables of this program.
//!
//! A column is a scalar of the record, named by its path of JSON keys joined by `_`. The columns are read from
//! the published schema, so that every field of the record has one.

use serde::Serialize;
use serde_json::{Number, Value};

use crate::metric::{End, is_interval_field_of};

/// Fields of an interval that only live lines have, never a record.
const LIVE_ONLY: [&str; 1] = ["earlier_lost_packets"];
/// Fields of an interval that are no metric, and that only the sender has.
const SENDER_ONLY: [&str; 1] = ["limited_by"];

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// `true` or `false`.
    Boolean,
    /// An integer.
    Integer,
    /// A floating-point number.
    Number,
    /// Text; also values that are text in some records and numbers in others.
    Text,
    /// A time, RFC 3339 in UTC: text whose name ends in `_at`.
    Time,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub kind: ColumnType,
}

impl Column {
    /// A column with this name and type.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Column {
        Column { name: name.into(), kind }
    }
}

/// The names of columns.
#[must_use]
pub fn names_of(columns: &[Column]) -> Vec<String> {
    columns.iter().map(|column| column.name.clone()).collect()
}

/// The type of a scalar of the schema; absent for other nodes.
fn type_of(node: &Value, name: &str) -> Option<ColumnType> {
    let has = |wanted: &str| {
        let types = node["type"].as_array();
        node["type"] == wanted || types.is_some_and(|types| types.iter().any(|t| t == wanted))
    };
    let is_text = has("string") || node.get("oneOf").is_some() || node.get("enum").is_some();
    match is_text {
        true if name.ends_with("_at") => Some(ColumnType::Time),
        true => Some(ColumnType::Text),
        false if has("number") => Some(ColumnType::Number),
        false if has("integer") => Some(ColumnType::Integer),
        false if has("boolean") => Some(ColumnType::Boolean),
        false => None,
    }
}

/// The columns of a type in the schema of `weir.run/1`, in alphabetical order, each after `prefix`. Lists and maps have none.
fn scalar_paths(root: &Value, node: &Value, prefix: &str, out: &mut Vec<Column>) {
    let node = match node["$ref"].as_str() {
        Some(r) => &root["$defs"][r.trim_start_matches("#/$defs/")],
        None => node,
    };
    for (key, value) in node["properties"].as_object().into_iter().flatten() {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}_{key}") };
        scalar_paths(root, value, &path, out);
    }
    for inner in node["anyOf"].as_array().into_iter().flatten() {
        scalar_paths(root, inner, prefix, out);
    }
    let Some(kind) = type_of(node, prefix) else { return };
    match out.iter_mut().find(|column| column.name == prefix) {
        Some(column) if column.kind != kind => column.kind = ColumnType::Text,
        Some(_) => {}
        None => out.push(Column::new(prefix, kind)),
    }
}

/// The columns of a type of the record's schema; an empty name is the record itself.
#[must_use]
pub fn columns_of(type_name: &str, prefix: &str) -> Vec<Column> {
    let schema = crate::schema::run_schema();
    let node = if type_name.is_empty() { &schema } else { &schema["$defs"][type_name] };
    let mut out = vec![];
    scalar_paths(&schema, node, prefix, &mut out);
    out
}

/// The columns of a flow: its own scalars after `flow_`, then those of its parts.
#[must_use]
pub fn flow_columns() -> Vec<Column> {
    let schema = crate::schema::run_schema();
    let flow = &schema["$defs"]["Flow"]["properties"];
    let (mut own, mut parts) = (vec![], vec![]);
    for (key, value) in flow.as_object().into_iter().flatten() {
        let mut found = vec![];
        scalar_paths(&schema, value, key, &mut found);
        match found.as_slice() {
            [one] if one.name == *key => own.push(Column::new(format!("flow_{key}"), one.kind)),
            _ => parts.append(&mut found),
        }
    }
    [own, parts].concat()
}

/// The end and the field of a column of [`interval_columns`]: `receiver_lost_packets` is the receiver's `lost_packets`.
#[must_use]
pub fn interval_field(column: &str) -> Option<(End, &str)> {
    match column.split_once('_')? {
        ("sender", field) => Some((End::Sender, field)),
        ("receiver", field) => Some((End::Receiver, field)),
        _ => None,
    }
}

/// The columns of an interval of a flow. A field that only one end fills has no column for the other.
#[must_use]
pub fn interval_columns() -> Vec<Column> {
    let is_of = |column: &Column| {
        let Some((end, field)) = interval_field(&column.name) else { return false };
        let is_senders = end == End::Sender || !SENDER_ONLY.contains(&field);
        is_senders && !LIVE_ONLY.contains(&field) && is_interval_field_of(field, end)
    };
    columns_of("IntervalFlow", "").into_iter().filter(is_of).collect()
}

/// A scalar of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar<'a> {
    /// `true` or `false`.
    Boolean(bool),
    /// A number.
    Number(&'a Number),
    /// Text.
    Text(&'a str),
}

/// Calls `put` with the path and the value of each scalar of `value`. Absent values and those that JSON can't
/// express are omitted.
pub fn each_scalar<T: Serialize + ?Sized>(
    path: &str,
    value: &T,
    mut put: impl FnMut(&str, Scalar<'_>),
) {
    fn walk(path: &mut String, value: &Value, put: &mut dyn FnMut(&str, Scalar<'_>)) {
        match value {
            Value::Object(map) => {
                let length = path.len();
                for (key, value) in map {
                    path.push('_');
                    path.push_str(key);
                    walk(path, value, put);
                    path.truncate(length);
                }
            }
            Value::Null | Value::Array(_) => {}
            Value::String(text) => put(path, Scalar::Text(text)),
            Value::Bool(value) => put(path, Scalar::Boolean(*value)),
            Value::Number(number) => put(path, Scalar::Number(number)),
        }
    }
    let value = serde_json::to_value(value).unwrap_or_default();
    walk(&mut path.to_string(), &value, &mut put);
}

/// Calls `put` with the path and the cell of each scalar of `value`, as [`each_scalar`].
pub fn each_cell<T: Serialize + ?Sized>(path: &str, value: &T, mut put: impl FnMut(&str, String)) {
    each_scalar(path, value, |path, scalar| {
        let cell = match scalar {
            Scalar::Boolean(value) => value.to_string(),
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text_cell(text),
        };
        put(path, cell);
    });
}

/// A text as a cell, quoted where RFC 4180 requires it. An apostrophe precedes text that a spreadsheet would
/// run as a formula.
#[must_use]
pub fn text_cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let text = if formula { format!("'{text}") } else { text.to_string() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_scalar_has_one_column() {
        for columns in [columns_of("", ""), flow_columns(), interval_columns()] {
            let set: BTreeSet<String> = names_of(&columns).into_iter().collect();
            assert_eq!(set.len(), columns.len());
            assert!(columns.len() > 10);
        }
        let flow = names_of(&flow_columns());
        for name in ["flow_id", "flow_connect_seconds", "receiver_one_way_delay_p99_9_seconds"] {
            assert!(flow.iter().any(|c| c == name), "{name}");
        }
        assert!(!flow.iter().any(|c| c.contains("loss_periods")), "a map has no column");
        let interval = names_of(&interval_columns());
        assert!(interval.iter().any(|c| c == "receiver_jitter_seconds"));
        for name in
            ["sender_jitter_seconds", "receiver_rtt_seconds", "receiver_earlier_lost_packets"]
        {
            assert!(!interval.iter().any(|c| c == name), "{name}");
        }
    }

    #[test]
    fn columns_have_the_types_of_the_schema() {
        let record = columns_of("", "");
        for (name, kind) in [
            ("started_at", ColumnType::Time),
            ("seed", ColumnType::Text),
            ("status", ColumnType::Text),
            ("seconds", ColumnType::Number),
            ("control_bytes", ColumnType::Integer),
            ("plan_title", ColumnType::Text),
        ] {
            let found = record.iter().find(|column| column.name == name);
            assert_eq!(found.map(|column| column.kind), Some(kind), "{name}");
        }
        let interval = interval_columns();
        let of = |name: &str| interval.iter().find(|c| c.name == name).map(|c| c.kind);
        assert_eq!(of("receiver_lost_packets"), Some(ColumnType::Integer));
        assert_eq!(of("receiver_jitter_seconds"), Some(ColumnType::Number));
        assert_eq!(of("sender_limited_by"), Some(ColumnType::Text));
    }

    /// Every cell of a value has a column of its type.
    #[test]
    fn cells_have_the_names_of_columns() {
        let flow: crate::record::Flow = serde_json::from_value(serde_json::json!({
            "receiver": { "packets": 7, "one_way_delay": { "count": 3 }, "loss_periods": { "1": 2 } },
        }))
        .unwrap();
        let columns = names_of(&flow_columns());
        let mut cells = 0;
        each_cell("receiver", &flow.receiver, |path, _| {
            cells += 1;
            let is_of_a_map = path.starts_with("receiver_loss_periods");
            assert!(is_of_a_map || columns.iter().any(|c| c == path), "{path}");
        });
        assert!(cells > 5);
    }

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        assert_eq!(text_cell("plain"), "plain");
        assert_eq!(text_cell("a,b"), "\"a,b\"");
        assert_eq!(text_cell("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(text_cell("=1+1"), "'=1+1");
        assert_eq!(text_cell("@SUM(A1,B1)"), "\"'@SUM(A1,B1)\"");
        assert_eq!(text_cell("\r\n=1"), "\"'\r\n=1\"");
    }
}
