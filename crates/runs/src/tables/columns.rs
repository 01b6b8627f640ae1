//! The columns of the tables: the scalars of the record's schema, named by their paths, and those that a table adds.

use weir_model::csv::{Column, ColumnType, columns_of, flow_columns, interval_columns};

use ColumnType::{Boolean, Integer, Number, Text};

use super::TABLE_FILES;

/// Columns of `runs.csv` that are no scalars of the record.
const COUNTED: [(&str, ColumnType); 5] = [
    ("run_id", Text),
    ("command", Text),
    ("flows", Integer),
    ("warnings", Integer),
    ("warning_codes", Text),
];
/// Parts of the record without columns: the id, which is `run_id`, and an emulator's configuration.
const LEFT_OUT: [&str; 2] = ["id", "impairment"];
const INTERVAL: [(&str, ColumnType); 8] = [
    ("run_id", Text),
    ("start_seconds", Number),
    ("end_seconds", Number),
    ("omitted", Boolean),
    ("flow_id", Integer),
    ("flow_name", Text),
    ("flow_transport", Text),
    ("flow_direction", Text),
];
const HISTOGRAM: [(&str, ColumnType); 6] = [
    ("run_id", Text),
    ("flow_id", Integer),
    ("metric", Text),
    ("low_seconds", Number),
    ("high_seconds", Number),
    ("count", Integer),
];

/// The columns of one of [`TABLE_FILES`], in order; in `runs.csv` those of labels follow, `labels_KEY`. Empty for
/// another name.
pub fn table_columns(file: &str) -> Vec<Column> {
    let own = |columns: &[(&str, ColumnType)]| {
        columns.iter().map(|(name, kind)| Column::new(*name, *kind)).collect::<Vec<_>>()
    };
    match TABLE_FILES.iter().position(|name| *name == file) {
        Some(0) => {
            let is_left_out = |column: &Column| {
                let path = &column.name;
                LEFT_OUT.iter().any(|out| path == out || path.starts_with(&format!("{out}_")))
            };
            let record = columns_of("", "").into_iter().filter(|column| !is_left_out(column));
            own(&COUNTED).into_iter().chain(record).collect()
        }
        Some(1) => {
            let connection = columns_of("Connection", "plan_connection");
            own(&[("run_id", Text)]).into_iter().chain(flow_columns()).chain(connection).collect()
        }
        Some(2) => own(&INTERVAL).into_iter().chain(interval_columns()).collect(),
        Some(_) => own(&HISTOGRAM),
        None => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weir_model::csv::names_of;

    #[test]
    fn no_column_occurs_twice() {
        for file in TABLE_FILES {
            let columns = names_of(&table_columns(file));
            let set: BTreeSet<&String> = columns.iter().collect();
            assert!(set.len() == columns.len() && set.len() > 5, "{file}: {columns:?}");
        }
        assert!(table_columns("other.csv").is_empty());
        assert!(!table_columns("runs.csv").iter().any(|c| c.name.starts_with("impairment_")));
    }
}
