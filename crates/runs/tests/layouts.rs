//! Files of earlier layouts: brought to the present one whole, or left as they were.
// Clippy knows test functions, not their helpers.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};

use weir_runs::{Filter, Store, StoreError};

/// Made by Weir when layout 1 was the newest: three runs, one of them labelled, and then, by hand, a calibration and a
/// run whose record does not read.
const LAYOUT_1: &[u8] = include_bytes!("golden/layout-1.db");

/// Made by Weir when layout 2 was the newest: a whole run, one that was cut short though both ends reported, one whose
/// sender told nothing and one whose receiver had told of three seconds; then, by hand, the loss by which the latter was
/// listed in the first versions of that layout, and a run whose record does not read.
const LAYOUT_2: &[u8] = include_bytes!("golden/layout-2.db");

fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.db");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn old() -> (tempfile::TempDir, PathBuf) {
    file(LAYOUT_1)
}

/// The records of a file of layout 1.
fn records_of_layout_1(path: &Path) -> BTreeMap<String, String> {
    let raw = rusqlite::Connection::open(path).unwrap();
    let mut statement = raw.prepare("SELECT id, record FROM runs").unwrap();
    let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn whole(store: &Store, before: &BTreeMap<String, String>) {
    let rows = store.list(&Filter::default()).unwrap();
    assert_eq!((rows.len(), before.len()), (4, 4));
    for (id, record) in before {
        let mut text = vec![];
        store.export(&[id], &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap().trim_end(), record, "byte for byte");
    }
    assert!(rows[1].status == "partial" && rows[3].loss_ratio == Some(0.0012), "{rows:?}");
    let site = Filter { labels: vec![("site".into(), Some("annex".into()))], ..Default::default() };
    assert_eq!(store.list(&site).unwrap()[0].id, "20261121-203009-ab12cd");
    let calibration = store.latest_calibration("alpha").unwrap().unwrap();
    assert_eq!(calibration.calibration["noise_floor"]["delay_p50_seconds"], 1.5e-6);
}

#[test]
fn a_file_of_layout_1_keeps_everything_and_can_be_searched() {
    let (_dir, path) = old();
    let before = records_of_layout_1(&path);
    let store = Store::open(&path).unwrap();
    whole(&store, &before);
    let of = |word: &str| {
        let filter = Filter { conditions: vec![word.parse().unwrap()], ..Default::default() };
        store.list(&filter).unwrap().into_iter().map(|r| r.id).collect::<Vec<_>>()
    };
    assert_eq!(of("rate>=1000pps"), ["20261121-203009-ab12cd"]);
    assert_eq!(of("direction=reverse"), ["20261121-203112-00beef"]);
    assert_eq!(of("connections=8"), ["20261121-203112-00beef"]);
    // What does not read is still there, and still says so.
    let error = store.get("20261121-203300-bad000").unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
    drop(store);
    let mut store = Store::open(&path).unwrap();
    whole(&store, &before);
    store.remove(&["20261121-203009"]).unwrap();
    let raw = rusqlite::Connection::open(&path).unwrap();
    let count = |sql: &str| raw.query_row(sql, [], |r| r.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM records"), 3);
    assert_eq!(count("SELECT count(*) FROM labels"), 0);
    assert_eq!(count("SELECT count(*) FROM connections WHERE run LIKE '%ab12cd'"), 0);
    assert_eq!(count("PRAGMA user_version"), 3);
}

#[test]
fn a_disk_that_is_full_meanwhile_leaves_the_file_as_it_was() {
    let (_dir, path) = old();
    let before = records_of_layout_1(&path);
    let pages = u32::try_from(LAYOUT_1.len() / 4096).unwrap();
    let error = Store::open_limited_for_test(&path, pages).unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(records_of_layout_1(&path), before);
    whole(&Store::open(&path).unwrap(), &before);
}

#[test]
fn several_programs_may_bring_a_file_up_to_date_at_once() {
    let (_dir, path) = old();
    let before = records_of_layout_1(&path);
    let barrier = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (path, barrier) = (path.clone(), barrier.clone());
            std::thread::spawn(move || {
                barrier.wait();
                Store::open(&path).unwrap().list(&Filter::default()).unwrap().len()
            })
        })
        .collect();
    assert!(threads.into_iter().all(|t| t.join().unwrap() == 4));
    whole(&Store::open(&path).unwrap(), &before);
}

#[test]
fn an_old_file_that_cant_be_written_says_what_to_do() {
    let (_dir, path) = old();
    let error = Store::open_read_only(&path).unwrap_err();
    assert!(matches!(error, StoreError::Older { .. }), "{error}");
    assert!(error.to_string().contains("WEIR_DATA_DIR"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), LAYOUT_1, "untouched");
}

/// Layout 2 listed what a lost end had told of as the loss of the run.
#[test]
fn the_loss_of_a_kept_run_that_lost_an_end_is_taken_back() {
    let (_dir, path) = file(LAYOUT_2);
    let listed = |path: &Path| -> BTreeMap<String, Option<f64>> {
        let raw = rusqlite::Connection::open(path).unwrap();
        let mut statement = raw.prepare("SELECT title, loss_ratio FROM runs").unwrap();
        let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let records = |path: &Path| -> BTreeMap<String, String> {
        let raw = rusqlite::Connection::open(path).unwrap();
        let mut statement = raw.prepare("SELECT run, record FROM records").unwrap();
        let rows = statement.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let (before, kept) = (listed(&path), records(&path));
    assert_eq!((before["silent sender"], before["lost receiver"]), (Some(0.0), Some(0.0)));
    drop(Store::open(&path).unwrap());
    let mut expected = before.clone();
    expected.insert("silent sender".into(), None);
    expected.insert("lost receiver".into(), None);
    assert!(before["cut short"].is_some() && before["unreadable"].is_some() && before.len() == 5);
    assert_eq!(listed(&path), expected, "the loss of the others is as it was");
    assert_eq!(records(&path), kept, "records are not touched");
}
