//! Where files are, and what an export replaces.

use std::collections::BTreeSet;
use std::path::Path;

use weir_model::record::Record;
use weir_runs::{ParquetExport, ParquetSummary, StoreError, groups};

const UDP: &str = include_str!("../../../../report/tests/golden/udp_loss.json");

pub(crate) fn started(id: &str, at: &str) -> Record {
    let mut record: Record = serde_json::from_str(UDP).unwrap();
    (record.id, record.started_at) = (id.into(), at.into());
    record
}

fn export(directory: &Path, records: &[Record]) -> ParquetSummary {
    let mut export = ParquetExport::new(directory).unwrap();
    records.iter().for_each(|record| export.record(record).unwrap());
    export.finish().unwrap()
}

/// All files below a directory, by their paths within it.
fn files(directory: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let path = path.strip_prefix(directory).unwrap();
                    found.insert(path.to_str().unwrap().to_owned());
                }
            }
        }
    }
    found
}

/// The files of some days.
fn expected(days: &[&str]) -> BTreeSet<String> {
    let of_day = |day: &&str| {
        groups().map(|g| format!("group={g}/day={day}/weir.parquet")).collect::<Vec<_>>()
    };
    days.iter().flat_map(of_day).collect()
}

#[test]
fn each_day_has_a_file_in_each_group() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("new/results");
    let records = [
        started("a", "not a time"),
        started("b", "2026-11-21T00:00:00Z"),
        // The same UTC day.
        started("c", "2026-11-22T00:30:00+01:00"),
        started("d", "2026-11-22T00:00:00.000Z"),
        // Beyond the times that a column can have.
        started("e", "2300-01-01T00:00:00Z"),
    ];
    let summary = export(&results, &records);
    assert_eq!((summary.runs, summary.days, summary.unreadable_histograms), (5, 4, 0));
    // The starts of two runs, in the tables of runs and flows.
    assert_eq!(summary.omitted_values, 4);
    let days = ["__HIVE_DEFAULT_PARTITION__", "2026-11-21", "2026-11-22", "2300-01-01"];
    assert_eq!(files(&results), expected(&days));
    for file in files(&results) {
        let bytes = std::fs::read(results.join(&file)).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{file}");
    }
}

#[test]
fn an_export_replaces_the_days_that_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let read = |day: &str| {
        std::fs::read(dir.path().join(format!("group=runs/day={day}/weir.parquet"))).unwrap()
    };
    let (first, second) =
        (started("a", "2026-11-21T10:00:00Z"), started("b", "2026-11-22T10:00:00Z"));
    export(dir.path(), &[first.clone(), second]);
    let before = (read("2026-11-21"), read("2026-11-22"));
    export(dir.path(), &[started("c", "2026-11-22T10:00:00Z")]);
    assert_eq!(read("2026-11-21"), before.0);
    assert_ne!(read("2026-11-22"), before.1);
    assert_eq!(files(dir.path()), expected(&["2026-11-21", "2026-11-22"]));

    // Without an end, nothing changes, and nothing is left.
    let mut dropped = ParquetExport::new(dir.path()).unwrap();
    dropped.record(&started("d", "2026-11-21T11:00:00Z")).unwrap();
    dropped.record(&started("e", "2026-11-23T11:00:00Z")).unwrap();
    let error = dropped.record(&first).unwrap_err();
    assert!(matches!(error, StoreError::Refused { id, .. } if id == "a"));
    drop(dropped);
    assert_eq!(read("2026-11-21"), before.0);
    assert_eq!(files(dir.path()), expected(&["2026-11-21", "2026-11-22"]));
}

#[test]
fn the_same_runs_give_the_same_bytes() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for dir in &dirs {
        export(dir.path(), &[started("a", "2026-11-21T10:00:00Z")]);
    }
    for file in expected(&["2026-11-21"]) {
        let [one, two] = dirs.each_ref().map(|dir| std::fs::read(dir.path().join(&file)).unwrap());
        assert_eq!(one, two, "{file}");
    }
}

#[test]
fn a_directory_that_is_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "old").unwrap();
    for given in [path.clone(), path.join("below")] {
        let error = ParquetExport::new(&given).unwrap_err();
        assert!(matches!(error, StoreError::Io { path, .. } if path == given));
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
}
