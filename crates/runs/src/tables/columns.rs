//! The columns of the tables: the scalars of the record's schema, named by their paths, and those that a table adds.

use weir_model::csv::{columns_of, flow_columns, interval_columns};

use super::TABLE_FILES;

/// Columns of `runs.csv` that are no scalars of the record.
const COUNTED: [&str; 5] = ["run_id", "command", "flows", "warnings", "warning_codes"];
/// Parts of the record without columns: the id, which is `run_id`, and an emulator's configuration.
const LEFT_OUT: [&str; 2] = ["id", "impairment"];
const INTERVAL: [&str; 8] = [
    "run_id",
    "start_seconds",
    "end_seconds",
    "omitted",
    "flow_id",
    "flow_name",
    "flow_transport",
    "flow_direction",
];
const HISTOGRAM: [&str; 6] =
    ["run_id", "flow_id", "metric", "low_seconds", "high_seconds", "count"];

/// The columns of one of [`TABLE_FILES`], in order; in `runs.csv` those of labels follow, `labels_KEY`. Empty for
/// another name.
pub fn table_columns(file: &str) -> Vec<String> {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    match TABLE_FILES.iter().position(|name| *name == file) {
        Some(0) => {
            let is_left_out = |path: &String| {
                LEFT_OUT.iter().any(|out| path == out || path.starts_with(&format!("{out}_")))
            };
            let record = columns_of("", "").into_iter().filter(|path| !is_left_out(path));
            names(&COUNTED).into_iter().chain(record).collect()
        }
        Some(1) => {
            let connection = columns_of("Connection", "plan_connection");
            names(&["run_id"]).into_iter().chain(flow_columns()).chain(connection).collect()
        }
        Some(2) => names(&INTERVAL).into_iter().chain(interval_columns()).collect(),
        Some(_) => names(&HISTOGRAM),
        None => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_column_occurs_twice() {
        for file in TABLE_FILES {
            let columns = table_columns(file);
            let set: BTreeSet<&String> = columns.iter().collect();
            assert!(set.len() == columns.len() && set.len() > 5, "{file}: {columns:?}");
        }
        assert!(table_columns("other.csv").is_empty());
        assert!(!table_columns("runs.csv").iter().any(|c| c.starts_with("impairment_")));
    }
}
