//! What DuckDB reads equals the cells of the CSV tables.

use std::collections::BTreeMap;

use serde_json::Value;
use weir_model::csv::names_of;
use weir_model::record::{Histogram, Record};
use weir_runs::{ParquetExport, TABLE_FILES, Tables, group_columns, groups};

use super::duckdb;

const UDP: &str = include_str!("../../../../report/tests/golden/udp_loss.json");
const TCP: &str = include_str!("../../../../report/tests/golden/tcp_bidir.json");

/// The rows of a table without quoted cells, by column.
fn rows(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<BTreeMap<&str, &str>> =
        lines.map(|line| header.iter().copied().zip(line.split(',')).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == header.len()));
    rows
}

fn records() -> [Record; 2] {
    let mut udp: Record = serde_json::from_str(UDP).unwrap();
    let tcp: Record = serde_json::from_str(TCP).unwrap();
    // This test splits rows at commas.
    udp.plan.title = Some("Ünïcode 試験".into());
    let mut histogram = weir_stats::Histogram::new();
    [1_000u64, 1_000, 50_000_000].into_iter().for_each(|ns| histogram.record(ns));
    udp.histograms = vec![Histogram {
        flow: Some(1),
        metric: "one_way_delay".into(),
        encoding: "hdr-v2".into(),
        data: histogram.to_hdr_v2().unwrap(),
    }];
    udp.labels = [("site".to_string(), "an,nex".to_string())].into();
    [udp, tcp]
}

/// Whether a value of DuckDB is that of a cell.
fn is_same(value: &Value, cell: &str) -> bool {
    match value {
        Value::Null => cell.is_empty(),
        Value::Bool(value) => cell == value.to_string(),
        Value::Number(number) => {
            cell.parse::<f64>().is_ok_and(|cell| Some(cell) == number.as_f64())
        }
        // DuckDB writes times without `T`, Python without a fraction of zeros.
        Value::String(text) => {
            let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
            cell == text || (time(text).is_some() && time(text) == time(cell))
        }
        _ => false,
    }
}

#[test]
fn cells_are_those_of_the_csv_tables() {
    let Some(python) = duckdb::python("cells_are_those_of_the_csv_tables") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut records = records();
    records.sort_by(|a, b| a.started_at.cmp(&b.started_at));
    let mut export = ParquetExport::new(&dir.path().join("results")).unwrap();
    let no_labels: [&str; 0] = [];
    let mut csv = Tables::new([vec![], vec![], vec![], vec![]], &no_labels).unwrap();
    for record in &records {
        export.record(record).unwrap();
        csv.record(record).unwrap();
    }
    assert_eq!(export.finish().unwrap().omitted_values, 0);
    let csv = csv.into_inner().unwrap().map(|bytes| String::from_utf8(bytes).unwrap());
    let starts: BTreeMap<&str, &str> =
        records.iter().map(|record| (record.id.as_str(), record.started_at.as_str())).collect();

    let from = |group: &str| {
        format!("FROM read_parquet('results/group={group}/*/*.parquet', hive_partitioning = false)")
    };
    let queries: Vec<String> = groups()
        // The order within a file is that of the CSV table.
        .map(|group| format!("SELECT * {} ORDER BY filename, file_row_number", from(group)))
        .map(|query| query.replace("= false", "= false, filename = true, file_row_number = true"))
        .collect();
    let answers = duckdb::answers(&python, dir.path(), &queries);
    for (group, answer) in groups().zip(answers) {
        let columns = names_of(&group_columns(group));
        let file = TABLE_FILES.iter().position(|file| *file == format!("{group}.csv")).unwrap_or(2);
        let cells = rows(&csv[file]);
        // A row of intervals is in the groups of which it has figures.
        let figures: Vec<&String> = columns.iter().skip(if file == 2 { 9 } else { 0 }).collect();
        let has_some = |row: &&BTreeMap<&str, &str>| {
            figures.iter().any(|name| row.get(name.as_str()).is_some_and(|cell| !cell.is_empty()))
        };
        let cells: Vec<_> = cells.iter().filter(has_some).collect();
        assert_eq!(answer.len(), cells.len(), "{group}");
        if !["delay", "transactions"].contains(&group) {
            assert!(!answer.is_empty(), "{group}");
        }
        for (values, cells) in answer.iter().zip(cells) {
            for column in &columns {
                let value = &values[column];
                let cell = match column.as_str() {
                    "labels" => {
                        let record = records.iter().find(|r| values["run_id"] == r.id.as_str());
                        let labels = &record.unwrap().labels;
                        let text = value.as_str().map_or(Ok(Value::Null), serde_json::from_str);
                        let expected = serde_json::json!(labels);
                        let expected = if labels.is_empty() { Value::Null } else { expected };
                        assert_eq!(text.unwrap(), expected);
                        continue;
                    }
                    "started_at" => starts[values["run_id"].as_str().unwrap()],
                    name => cells[name],
                };
                assert!(is_same(value, cell), "{group} {column}: {value} {cell}");
            }
        }
    }
}
