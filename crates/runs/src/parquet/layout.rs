//! The groups of an export and their columns: those of the tidy tables, the intervals' by metric group.

use weir_model::csv::{Column, ColumnType, interval_columns, interval_field};
use weir_model::metric::{Group, metric_of_interval_field};

use crate::{TABLE_FILES, table_columns};

/// The groups with one row for each run, flow, and bin of a histogram.
pub(crate) const TABLES: [&str; 3] = ["runs", "flows", "histograms"];
/// The groups of intervals, by the groups of their metrics.
pub(crate) const INTERVAL_GROUPS: [Group; 6] = [
    Group::Volume,
    Group::Packets,
    Group::Delay,
    Group::Variation,
    Group::Tcp,
    Group::Transactions,
];

/// The groups of an export, `group=NAME`, in the order of the documentation.
pub fn groups() -> impl Iterator<Item = &'static str> {
    TABLES.into_iter().chain(INTERVAL_GROUPS.map(Group::name))
}

/// The columns of a group, in order; empty for another name.
pub fn group_columns(group: &str) -> Vec<Column> {
    if let Some(of_intervals) = INTERVAL_GROUPS.iter().find(|known| known.name() == group) {
        let columns = interval_columns().into_iter();
        let own = columns.filter(|column| group_of(&column.name) == Some(*of_intervals));
        return key_columns().into_iter().chain(own).collect();
    }
    let file = |table: &str| format!("{table}.csv");
    match TABLES.iter().find(|table| **table == group) {
        Some(table) if file(table) == TABLE_FILES[0] => {
            let labels = Column::new("labels", ColumnType::Text);
            table_columns(&file(table)).into_iter().chain([labels]).collect()
        }
        Some(table) => with_start(table_columns(&file(table))),
        None => vec![],
    }
}

/// The columns that all groups of intervals have: which interval of which flow it is.
pub(crate) fn key_columns() -> Vec<Column> {
    let figures = interval_columns();
    let columns = table_columns(TABLE_FILES[2]).into_iter();
    with_start(columns.filter(|column| !figures.contains(column)).collect())
}

/// The group that a column of intervals belongs to.
fn group_of(column: &str) -> Option<Group> {
    let (end, field) = interval_field(column)?;
    // `limited_by` is no metric: it is read from TCP's information.
    Some(metric_of_interval_field(field, end).map_or(Group::Tcp, |metric| metric.group))
}

/// Columns with the start of the run after its id.
fn with_start(mut columns: Vec<Column>) -> Vec<Column> {
    columns.insert(1, Column::new("started_at", ColumnType::Time));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each figure of an interval is in one group: a metric of another group needs an entry in `INTERVAL_GROUPS`.
    #[test]
    fn every_column_of_intervals_is_in_one_group() {
        let keys = key_columns();
        assert_eq!(keys.len(), 9);
        let mut found: Vec<String> = vec![];
        for group in INTERVAL_GROUPS {
            let columns = group_columns(group.name());
            assert_eq!(columns[..keys.len()], keys[..], "{group:?}");
            assert!(columns.len() > keys.len(), "{group:?} has no figure");
            found.extend(columns[keys.len()..].iter().map(|column| column.name.clone()));
        }
        let mut all: Vec<String> = interval_columns().into_iter().map(|c| c.name).collect();
        found.sort();
        all.sort();
        assert_eq!(found, all);
    }

    #[test]
    fn every_group_starts_with_the_run() {
        for group in groups() {
            let columns = group_columns(group);
            assert_eq!(columns[0].name, "run_id", "{group}");
            let starts = columns.iter().filter(|column| column.name == "started_at");
            assert_eq!(starts.map(|c| c.kind).collect::<Vec<_>>(), [ColumnType::Time], "{group}");
        }
        assert!(group_columns("other").is_empty());
    }
}
