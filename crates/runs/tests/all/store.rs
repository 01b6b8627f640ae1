//! The store from outside: stored records are read back unchanged, and every failure names its file.
// Clippy exempts test functions, but not their helpers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use rusqlite::ErrorCode;
use weir_model::plan::TransportName;
use weir_model::record::{Flow, RUN_SCHEMA, Record, Sender, Transactions};
use weir_runs::{DataDirectory, Filter, Store, StoreError, StoredCalibration, new_run_id};

const UDP: &str = include_str!("../../../report/tests/golden/udp_loss.json");
const TCP: &str = include_str!("../../../report/tests/golden/tcp_bidir.json");
const PARTIAL: &str = include_str!("../../../report/tests/golden/partial.json");

fn read(json: &str) -> Record {
    serde_json::from_str(json).unwrap()
}

fn small(id: &str) -> Record {
    Record { schema: RUN_SCHEMA.into(), id: id.into(), ..Default::default() }
}

fn dated(unix_ms: u64) -> Record {
    let id = new_run_id(Duration::from_millis(unix_ms), unix_ms / 1000);
    let d = &id;
    let started_at = format!(
        "{}-{}-{}T{}:{}:{}Z",
        &d[..4],
        &d[4..6],
        &d[6..8],
        &d[9..11],
        &d[11..13],
        &d[13..15]
    );
    Record { started_at, ..small(&id) }
}

fn fresh() -> (tempfile::TempDir, PathBuf, Store) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.db");
    let store = Store::open(&path).unwrap();
    (dir, path, store)
}

/// Why SQLite refused the file at `path`.
fn refused(error: &StoreError, path: &Path) -> ErrorCode {
    let StoreError::Database { path: at, source, .. } = error else { panic!("{error}") };
    assert_eq!(at, path);
    source.sqlite_error_code().unwrap_or_else(|| panic!("{error}"))
}

#[test]
fn stored_records_are_read_back() {
    let (_dir, path, mut store) = fresh();
    let records = [read(UDP), read(TCP), read(PARTIAL)];
    for record in &records {
        store.insert(record).unwrap();
    }
    drop(store);
    let store = Store::open_read_only(&path).unwrap();
    for record in &records {
        assert_eq!(&store.get(&record.id).unwrap(), record);
    }
}

#[test]
fn a_list_reports_the_main_figures_newest_first() {
    let (_dir, _, mut store) = fresh();
    for json in [UDP, TCP, PARTIAL] {
        store.insert(&read(json)).unwrap();
    }
    let rows = store.list(&Filter::default()).unwrap();
    // All three started at the same time; the id decides the order.
    let ids: Vec<_> = rows.iter().map(|r| r.id.as_str()).collect();
    assert_eq!(ids, ["20261121-203240-000001", "20261121-203112-00beef", "20261121-203009-ab12cd"]);
    let (partial, tcp, udp) = (&rows[0], &rows[1], &rows[2]);
    assert_eq!((partial.status.as_str(), partial.transport.as_str()), ("partial", "1 tcp, 1 udp"));
    assert_eq!((partial.forward_bits_per_second, partial.loss_ratio), (None, None));
    assert_eq!(tcp.transport, "8 tcp");
    assert!(tcp.reverse_bits_per_second.unwrap() > 3e9 && tcp.loss_ratio.is_none());
    assert_eq!(udp.loss_ratio, Some(12.0 / 10_000.0));
    assert_eq!((udp.warnings, udp.host.as_deref()), (2, Some("198.18.0.2")));
    assert_eq!(udp.title.as_deref(), Some("Line to the annex, \"east\""));
    let json = serde_json::to_value(partial).unwrap();
    assert!(json.get("loss_ratio").is_none(), "not measured: absent");
}

#[test]
fn lists_are_filtered() {
    let (_dir, _, mut store) = fresh();
    store.insert(&read(UDP)).unwrap();
    for n in 0..5 {
        store.insert(&dated(1_000_000_000_000 + n * 1000)).unwrap();
    }
    let ids = |f: Filter| store.list(&f).unwrap().len();
    assert_eq!(ids(Filter::default()), 6);
    assert_eq!(ids(Filter { limit: Some(2), ..Default::default() }), 2);
    assert_eq!(ids(Filter { since_unix_ms: Some(1_000_000_003_000), ..Default::default() }), 3);
    assert_eq!(ids(Filter { host: Some("198.18.0.2".into()), ..Default::default() }), 1);
    let label = |key: &str, value: Option<&str>| Filter {
        labels: vec![(key.into(), value.map(Into::into))],
        ..Default::default()
    };
    assert_eq!(ids(label("site", None)), 1);
    assert_eq!(ids(label("site", Some("annex"))), 1);
    assert_eq!(ids(label("site", Some("other"))), 0);
    assert_eq!(ids(label("' OR 1 --", None)), 0);
}

#[test]
fn a_run_is_selected_by_last_id_or_prefix() {
    let (_dir, path, mut store) = fresh();
    let error = store.get("last").unwrap_err();
    assert!(
        matches!(error, StoreError::NotFound { selector, path: at } if selector == "last" && at == path)
    );
    for id in [
        "20260101-000000-aaaaaa",
        "20260101-000000-ab0000",
        "20260102-000000-ffffff",
        "20260102-000000-ffffff2",
    ] {
        store.insert(&small(id)).unwrap();
    }
    store.insert(&dated(1_700_000_000_000)).unwrap();
    assert_eq!(store.get("20260101-000000-aa").unwrap().id, "20260101-000000-aaaaaa");
    assert_eq!(store.get("20260102-000000-ffffff").unwrap().id, "20260102-000000-ffffff");
    let error = store.get("20260101").unwrap_err();
    assert!(
        matches!(&error, StoreError::Ambiguous { matches, .. } if matches.len() == 2),
        "{error}"
    );
    // The only run with a known start is the newest.
    assert_eq!(store.get("last").unwrap().started_at, "2023-11-14T22:13:20Z");
    for selector in
        ["last~9", "last~", "last~x", "last~-1", "", "2027", "%", "_", "20260101-000000-aaaaaa "]
    {
        assert!(matches!(store.get(selector), Err(StoreError::NotFound { .. })), "{selector:?}");
    }
}

#[test]
fn removal_is_all_or_none_and_includes_labels() {
    let (_dir, path, mut store) = fresh();
    store.insert(&read(UDP)).unwrap();
    store.insert(&read(TCP)).unwrap();
    assert!(store.remove(&["20261121-203009", "nothing"]).is_err());
    assert_eq!(store.list(&Filter::default()).unwrap().len(), 2);
    assert_eq!(store.remove(&["20261121-203009", "20261121-203009-ab12cd"]).unwrap().len(), 1);
    let label = Filter { labels: vec![("site".into(), None)], ..Default::default() };
    assert!(store.list(&label).unwrap().is_empty());
    let raw = rusqlite::Connection::open(path).unwrap();
    let left: i64 = raw.query_row("SELECT count(*) FROM labels", [], |r| r.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn ids_that_cant_be_selected_are_refused() {
    let (_dir, path, mut store) = fresh();
    for id in ["", "last", "a b", "a\u{1b}[2J", "ü", "-n", &"x".repeat(65)] {
        assert!(matches!(store.insert(&small(id)), Err(StoreError::Refused { .. })), "{id:?}");
    }
    let other = Record { schema: "weir.run/2".into(), ..small("x") };
    assert!(matches!(store.insert(&other), Err(StoreError::Refused { .. })));
    store.insert(&small("x")).unwrap();
    let error = store.insert(&small("x")).unwrap_err();
    assert!(matches!(error, StoreError::Exists { id, path: at } if id == "x" && at == path));
}

#[test]
fn export_and_import_go_round_and_are_idempotent() {
    let (_dir, _, mut store) = fresh();
    for json in [UDP, TCP, PARTIAL] {
        store.insert(&read(json)).unwrap();
    }
    let mut lines = vec![];
    store.export(&["20261121-203009", "20261121-203112", "last"], &mut lines).unwrap();
    assert_eq!(lines.iter().filter(|b| **b == b'\n').count(), 3);
    let array = format!(" [{UDP},\n{TCP}, {PARTIAL}]\n");
    let both = [lines.as_slice(), array.as_bytes(), UDP.as_bytes()];
    for (input, count) in both.into_iter().zip([3, 3, 1]) {
        let (_dir, _, mut other) = fresh();
        let first = other.import(&mut &*input).unwrap();
        assert_eq!((first.added, first.already_there), (count, 0));
        assert_eq!(first.ids.len() as u64, count);
        assert!(first.ids.iter().all(|id| other.get(id).is_ok()));
        let second = other.import(&mut &*input).unwrap();
        assert_eq!((second.added, second.already_there), (0, count));
        assert_eq!(second.ids, first.ids);
        assert_eq!(other.get("20261121-203009").unwrap(), read(UDP));
    }
    assert_eq!(store.import(&mut &b" \n"[..]).unwrap().added, 0);
    assert_eq!(store.import(&mut &b"[]"[..]).unwrap().added, 0);
}

#[test]
fn an_import_stops_at_the_invalid_record_and_reports_its_number() {
    let good = |n: u32| serde_json::to_string(&small(&format!("r{n}"))).unwrap();
    let bad_schema = r#"{"schema":"other/1","id":"x"}"#;
    let many: Vec<String> = (0..120).map(good).collect();
    let labelled = |key: &str, value: &str| {
        let labels = [(key.to_owned(), value.to_owned())].into();
        serde_json::to_string(&Record { labels, ..small("labelled") }).unwrap()
    };
    for (input, number, kept) in [
        (format!("{}\n{}\nnot json\n", good(1), good(2)), 3, 2),
        (format!("{}\n{bad_schema}\n{}\n", good(1), good(2)), 2, 1),
        (format!("[{},{bad_schema}]", good(1)), 2, 1),
        (format!("[{},{}", good(1), good(2)), 3, 2),
        (format!("[{}] trailing", good(1)), 2, 1),
        (format!("{}\n{bad_schema}", many.join("\n")), 121, 120),
        (format!("{}\n{}", good(1), labelled("a=b", "c")), 2, 1),
        (labelled("site", "\u{1b}[2J"), 1, 0),
        ("7".into(), 1, 0),
        (format!("{}1", "{\"flows\":[".repeat(200)), 1, 0),
    ] {
        let (_dir, _, mut store) = fresh();
        match store.import(&mut input.as_bytes()) {
            Err(StoreError::Import { number: n, kept: k, reason }) => {
                assert_eq!((n, k), (number, kept), "{reason}");
                assert!(!reason.is_empty());
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(store.list(&Filter::default()).unwrap().len() as u64, kept);
    }
}

/// An exported CSV file can't be imported.
#[test]
fn an_import_of_something_else_is_refused() {
    let (_dir, _, mut store) = fresh();
    for other in ["run_id,flow_id\n1,2\n", "[1]"] {
        let error = store.import(&mut other.as_bytes()).unwrap_err();
        assert!(matches!(error, StoreError::Import { number: 1, kept: 0, .. }), "{error}");
    }
}

#[test]
fn an_import_is_bounded() {
    // An endless record of minimal values is refused by its count, long before memory runs short.
    struct Endless(bool);
    impl std::io::Read for Endless {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let from: &[u8] =
                if self.0 { b"{},{},{},{},{},{},{},{}," } else { b"{\"intervals\":[" };
            self.0 = true;
            let n = from.len().min(out.len());
            out[..n].copy_from_slice(&from[..n]);
            Ok(n)
        }
    }
    let (_dir, _, mut store) = fresh();
    let mut input = std::io::BufReader::with_capacity(24, Endless(false));
    let error = store.import(&mut input).unwrap_err();
    assert!(matches!(error, StoreError::Import { number: 1, kept: 0, .. }), "{error}");
}

#[test]
fn two_writers_take_turns() {
    let (_dir, path, store) = fresh();
    drop(store);
    let barrier = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let (path, barrier) = (path.clone(), barrier.clone());
            std::thread::spawn(move || {
                let mut store = Store::open(&path).unwrap();
                barrier.wait();
                for n in 0..10 {
                    store.insert(&small(&format!("w{t}-{n}"))).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(Store::open(&path).unwrap().list(&Filter::default()).unwrap().len(), 40);
}

#[test]
fn many_threads_may_create_the_file_concurrently() {
    let dir = tempfile::tempdir().unwrap();
    let data = DataDirectory::in_directory(dir.path().join("weir"));
    assert!(Store::open_existing(&data).unwrap().is_none());
    assert!(!data.directory().exists(), "reading creates no files");
    let barrier = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8)
        .map(|t| {
            let (data, barrier) = (data.clone(), barrier.clone());
            std::thread::spawn(move || {
                barrier.wait();
                Store::open_at(&data).unwrap().insert(&small(&format!("t{t}"))).unwrap();
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let store = Store::open_existing(&data).unwrap().unwrap();
    assert_eq!(store.list(&Filter::default()).unwrap().len(), 8);
}

#[test]
fn a_full_disk_is_reported_and_the_store_stays_intact() {
    let (_dir, path, mut store) = fresh();
    store.insert(&small("before")).unwrap();
    drop(store);
    // SQLite's page limit stands for a full disk: it returns the same code.
    let mut store = Store::open(&path).unwrap();
    store.set_page_limit_for_test(20).unwrap();
    let record = read(UDP);
    let many = Record { command: vec!["x".repeat(1 << 20)], ..record };
    assert_eq!(refused(&store.insert(&many).unwrap_err(), &path), ErrorCode::DiskFull);
    drop(store);
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.get("last").unwrap().id, "before");
    store.insert(&many).unwrap();
}

#[test]
fn a_read_only_store_refuses_writes() {
    let (_dir, path, mut store) = fresh();
    store.insert(&small("x")).unwrap();
    drop(store);
    let mut store = Store::open_read_only(&path).unwrap();
    assert_eq!(store.get("last").unwrap().id, "x");
    assert_eq!(refused(&store.insert(&small("y")).unwrap_err(), &path), ErrorCode::ReadOnly);
    assert_eq!(refused(&store.remove(&["x"]).unwrap_err(), &path), ErrorCode::ReadOnly);
    let missing = path.with_file_name("none.db");
    assert_eq!(
        refused(&Store::open_read_only(&missing).unwrap_err(), &missing),
        ErrorCode::CannotOpen
    );
}

#[test]
fn other_programs_files_are_left_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.db");
    let text = "these are my notes, not a database. ".repeat(100);
    std::fs::write(&path, &text).unwrap();
    assert_eq!(refused(&Store::open(&path).unwrap_err(), &path), ErrorCode::NotADatabase);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);

    let other = dir.path().join("other.db");
    let raw = rusqlite::Connection::open(&other).unwrap();
    raw.execute_batch("CREATE TABLE runs (mine)").unwrap();
    let error = Store::open(&other).unwrap_err();
    assert!(matches!(error, StoreError::Foreign { path, .. } if path == other));
    assert_eq!(refused(&Store::open(dir.path()).unwrap_err(), dir.path()), ErrorCode::CannotOpen);
}

#[test]
fn another_layout_is_refused_and_untouched() {
    let (_dir, path, store) = fresh();
    drop(store);
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    let before = std::fs::read(&path).unwrap();
    for error in [Store::open(&path).unwrap_err(), Store::open_read_only(&path).unwrap_err()] {
        assert!(matches!(error, StoreError::Layout { path: at, found: 99, .. } if at == path));
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn several_programs_can_create_a_file_concurrently() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.db");
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        let open = || {
            barrier.wait();
            Store::open(&path).unwrap().list(&Filter::default()).unwrap().len()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 0));
    });
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let (_dir, path, mut store) = fresh();
    for json in [UDP, TCP, PARTIAL] {
        store.insert(&read(json)).unwrap();
    }
    drop(store);
    let good = std::fs::read(&path).unwrap();
    let mut failed = 0;
    for page in 0..good.len() / 4096 {
        let mut bytes = good.clone();
        bytes[page * 4096..page * 4096 + 64].fill(0xa5);
        std::fs::write(&path, &bytes).unwrap();
        let outcome = Store::open(&path).and_then(|mut s| {
            s.list(&Filter::default())?;
            s.get("20261121-203009")?;
            s.get("20261121-203112")?;
            s.get("last")?;
            s.insert(&small("new"))
        });
        if let Err(error) = outcome {
            failed += 1;
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }
    assert!(failed > 5, "{failed} damaged pages were noticed");
}

#[test]
fn a_record_that_does_not_read_is_named() {
    let (_dir, path, mut store) = fresh();
    store.insert(&small("x")).unwrap();
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("UPDATE records SET record = '{\"seconds\":\"many\"}'", []).unwrap();
    let error = store.get("x").unwrap_err();
    let StoreError::Unreadable { what, path: at, .. } = error else { panic!("{error}") };
    assert_eq!((what.as_str(), at), ("run x", path));
}

#[test]
fn a_figure_that_is_not_finite_is_stored_as_absent() {
    let (_dir, _, mut store) = fresh();
    let mut record = read(UDP);
    record.flows[0].receiver.as_mut().unwrap().jitter_seconds = Some(f64::NAN);
    store.insert(&record).unwrap();
    let back = store.get("last").unwrap();
    assert_eq!(back.flows[0].receiver.as_ref().unwrap().jitter_seconds, None);
}

#[test]
fn calibrations_belong_to_a_host() {
    let (_dir, _, mut store) = fresh();
    let kept = |id: &str, host: &str, n: f64| StoredCalibration {
        id: id.into(),
        host: host.into(),
        at: "2026-11-21T20:30:09Z".into(),
        calibration: serde_json::json!({ "noise_floor": { "delay_p50_seconds": n } }),
    };
    assert_eq!(store.latest_calibration("a").unwrap(), None);
    for (id, host, n) in [("c1", "a", 1.0), ("c2", "a", 2.0), ("c3", "b", 3.0)] {
        store.put_calibration(&kept(id, host, n)).unwrap();
    }
    assert_eq!(store.latest_calibration("a").unwrap(), Some(kept("c2", "a", 2.0)));
    store.put_calibration(&kept("c1", "a", 4.0)).unwrap();
    assert_eq!(store.latest_calibration("a").unwrap(), Some(kept("c1", "a", 4.0)));
}

#[test]
fn hostile_imports() {
    let array = format!("[{PARTIAL},{PARTIAL}]");
    let samples = [PARTIAL, &array, "2026-11-21T20:30:09.125+02:00"];
    weir_laws::mutation::replay(&samples, 1000, weir_runs::fuzz::fuzz_import);
}

/// The peer became unreachable: its last reported loss of 0 is not the loss of the run, in a list, a search or a comparison.
#[test]
fn the_loss_of_a_run_without_the_peers_report_is_absent() {
    let (_dir, _, mut store) = fresh();
    let mut cut = read(UDP);
    cut.status = weir_model::record::Status::Partial;
    let receiver = cut.flows[0].receiver.as_mut().unwrap();
    (receiver.lost_packets, receiver.loss_ratio) = (Some(0), Some(0.0));
    cut.total.forward.as_mut().unwrap().receiver.as_mut().unwrap().loss_ratio = Some(0.0);
    store.insert(&cut).unwrap();
    assert_eq!(store.list(&Filter::default()).unwrap()[0].loss_ratio, Some(0.0), "it was measured");
    let [mut no_receiver, mut no_sender, mut silent] = [cut.clone(), cut.clone(), cut];
    no_receiver.flows[0].receiver.as_mut().unwrap().reported_until_seconds = Some(3.0);
    no_sender.flows[0].sender.as_mut().unwrap().reported_until_seconds = Some(3.0);
    silent.flows[0].sender = None;
    for lost in [no_receiver, no_sender, silent] {
        let (_dir, _, mut store) = fresh();
        store.insert(&lost).unwrap();
        let row = store.list(&Filter::default()).unwrap().remove(0);
        assert_eq!((row.status.as_str(), row.loss_ratio), ("partial", None));
        let conditions = vec!["loss<1%".parse().unwrap()];
        let none = store.list(&Filter { conditions, ..Filter::default() }).unwrap();
        assert!(none.is_empty(), "{none:?}");
        let whole = read(UDP);
        let [mut a, mut b] = [weir_runs::Side::new(), weir_runs::Side::new()];
        a.add(&whole);
        b.add(&lost);
        let compared = weir_runs::diff(&a, &b, 0.95);
        let names: Vec<&str> = compared.figures.iter().map(|f| f.name.as_str()).collect();
        assert!(!names.contains(&"forward_loss_ratio"), "{names:?}");
    }
}

/// There is no receiver's report to wait for: what was not answered is the loss.
#[test]
fn the_loss_of_echo_requests_is_that_of_their_replies() {
    let (_dir, _, mut store) = fresh();
    let mut echo = small("20261121-203009-ec0000");
    let flow = |completed, failed| Flow {
        transport: TransportName::Icmp,
        sender: Some(Sender { packets: completed + failed, ..Sender::default() }),
        transactions: Some(Transactions { completed, failed, ..Transactions::default() }),
        ..Flow::default()
    };
    echo.flows = vec![flow(30, 10), flow(40, 0)];
    store.insert(&echo).unwrap();
    assert_eq!(store.list(&Filter::default()).unwrap()[0].loss_ratio, Some(0.125));
    let conditions = vec!["loss>12%".parse().unwrap()];
    assert_eq!(store.list(&Filter { conditions, ..Filter::default() }).unwrap().len(), 1);
}
