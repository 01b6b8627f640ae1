//! docs/formats.md: the columns of the groups, and the queries.

use std::path::PathBuf;
use std::sync::PoisonError;

use weir_model::csv::ColumnType;
use weir_runs::{group_columns, groups};

use crate::tables::PAGE;

/// The documentation's page of formats.
pub(crate) fn page() -> (PathBuf, String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// The documented queries, with the titles in their first lines.
pub(crate) fn queries() -> Vec<(String, String)> {
    let (_, page) = page();
    let blocks = page.split("```sql\n").skip(1);
    let queries = blocks.flat_map(|block| block.split_once("```").unwrap().0.split_inclusive(';'));
    let queries = queries.map(str::trim).filter(|query| !query.is_empty()).map(|query| {
        let (title, _) = query.split_once('\n').unwrap();
        (title.strip_prefix("-- ").unwrap().to_owned(), query.to_owned())
    });
    queries.collect()
}

/// The name of a type in Parquet's documents.
fn type_name(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Boolean => "BOOLEAN",
        ColumnType::Integer => "INT64",
        ColumnType::Number => "DOUBLE",
        ColumnType::Text => "STRING",
        ColumnType::Time => "TIMESTAMP",
    }
}

/// The page lists the actual columns. `WEIR_BLESS=1` rewrites the lists.
#[test]
fn documented_columns_are_current() {
    let _page = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let (path, page) = page();
    let mut now = page.clone();
    for group in groups() {
        let mark = format!("<!-- columns of group={group} -->\n");
        // Those of `runs` and `flows` are described by those of the CSV files.
        let Some((before, rest)) = now.split_once(&mark) else {
            assert!(["runs", "flows"].contains(&group), "{group} is not documented");
            continue;
        };
        // The list ends with the first empty line.
        let after = &rest[rest.find("\n\n").unwrap()..];
        let columns = group_columns(group).into_iter();
        let columns: Vec<String> =
            columns.map(|column| format!("`{}` {}", column.name, type_name(column.kind))).collect();
        now = format!("{before}{mark}{}{after}", columns.join(",\n"));
    }
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert!(
            page == now,
            "docs/formats.md: the lists of columns differ; run with WEIR_BLESS=1 and commit"
        );
    }
}
