//! Runs found by label, time, title, parameter and result, through indexes.
// Clippy exempts test functions, but not their helpers.

use weir_model::plan::Plan;
use weir_model::record::{DirectionTotal, RUN_SCHEMA, Record, Status, Sums, Totals};
use weir_model::warning::{Severity, Warning};
use weir_runs::{Condition, Filter, RunKind, Store, StoreError};

/// A run of this plan (a `weir.plan/1` without its schema line), started `minutes` after noon.
fn run(id: &str, minutes: u32, plan: &str) -> Record {
    Record {
        schema: RUN_SCHEMA.into(),
        id: id.into(),
        started_at: format!("2026-11-21T12:{minutes:02}:00Z"),
        plan: Plan::parse(&format!("schema = \"weir.plan/1\"\n{plan}")).unwrap(),
        ..Default::default()
    }
}

fn received(bits_per_second: f64) -> Option<DirectionTotal> {
    let receiver = Sums { bits_per_second: Some(bits_per_second), ..Default::default() };
    Some(DirectionTotal { sender: None, receiver: Some(receiver) })
}

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("runs.db")).unwrap();
    let udp = "title = 'Line to the Annex'\nfamily = 'ipv6'\n[[connection]]\ntransport = 'udp'\nrate = '10M'\n\
               payload = 1000\nduration = 30";
    let mut fast = run("fast", 1, udp);
    fast.total = Totals { forward: received(9.9e6), reverse: None };
    let tcp = "[[connection]]\ncount = 4\n[[connection]]\ndirection = 'reverse'\nrate = '2M'";
    let mut both = run("both", 2, tcp);
    both.total = Totals { forward: received(1e9), reverse: received(2e6) };
    both.warnings.push(Warning::new("sender-cpu-bound", Severity::Warning, "slow"));
    let mixed = "[[connection]]\ntransport = 'udp'\nrate = '500pps'\npayload = 160\n[[connection]]\nrate = '80M'";
    let mut cut = run("cut", 3, mixed);
    cut.status = Status::Partial;
    for record in [fast, both, cut] {
        store.insert(&record).unwrap();
    }
    (dir, store)
}

fn found(store: &Store, filter: &Filter) -> Vec<String> {
    let rows = store.list(filter).unwrap();
    assert_eq!(store.count(filter).unwrap(), rows.len() as u64);
    rows.into_iter().map(|r| r.id).collect()
}

fn conditions(words: &[&str]) -> Filter {
    let conditions = words.iter().map(|w| w.parse::<Condition>().unwrap()).collect();
    Filter { conditions, ..Default::default() }
}

#[test]
fn parameters_and_results_are_found() {
    let (_dir, store) = store();
    for (words, ids) in [
        (&["transport=udp"][..], &["cut", "fast"][..]),
        (&["transport!=udp"], &["cut", "both"]),
        (&["direction=reverse"], &["both"]),
        (&["family=ipv6"], &["fast"]),
        (&["family!=ipv6"], &[]),
        (&["payload=160"], &["cut"]),
        (&["payload>160"], &["fast"]),
        (&["rate>=10M"], &["cut", "fast"]),
        (&["rate=10M"], &["fast"]),
        // 10M of 1000-byte datagrams are 1250 packets/s.
        (&["rate>=500pps"], &["cut", "fast"]),
        (&["rate>500pps"], &["fast"]),
        (&["rate<1M"], &["cut"]),
        (&["rate=0"], &["both"]),
        (&["rate!=0"], &["cut", "both", "fast"]),
        (&["duration=30s"], &["fast"]),
        (&["duration<=10"], &["cut", "both"]),
        (&["connections>=5"], &["both"]),
        (&["throughput>500M"], &["both"]),
        (&["throughput<5M"], &["both"]),
        (&["forward_throughput<500M"], &["fast"]),
        (&["reverse_throughput=2M"], &["both"]),
        (&["warnings>0"], &["both"]),
        (&["status=partial"], &["cut"]),
        (&["status!=partial", "warnings=0"], &["fast"]),
        (&["loss>=0%"], &[]),
        // One connection must meet all conditions; in the mixed plan, the fast connection is not UDP.
        (&["transport=udp", "rate>=10M"], &["fast"]),
        (&["transport=udp", "rate<10M", "status=partial"], &["cut"]),
    ] {
        assert_eq!(found(&store, &conditions(words)), ids, "{words:?}");
    }
}

#[test]
fn time_title_and_labels_are_found_together() {
    let (_dir, mut store) = store();
    let at = |text| weir_runs::unix_ms_of(text);
    let since = Filter { since_unix_ms: at("2026-11-21T12:02:00Z"), ..Default::default() };
    assert_eq!(found(&store, &since), ["cut", "both"]);
    let until = Filter { until_unix_ms: at("2026-11-21T12:02:00Z"), ..Default::default() };
    assert_eq!(found(&store, &until), ["fast"]);
    for (words, count) in [("annex", 1), ("THE ANNEX", 1), ("%", 0), ("", 1)] {
        let title = Filter { title: Some(words.into()), ..Default::default() };
        assert_eq!(found(&store, &title).len(), count, "{words}");
    }
    store.tag("fast", &[("site", "annex"), ("batch", "7")]).unwrap();
    store.tag("cut", &[("site", "annex")]).unwrap();
    let labels = |words: &[(&str, Option<&str>)]| Filter {
        labels: words.iter().map(|(k, v)| ((*k).into(), v.map(Into::into))).collect(),
        ..Default::default()
    };
    assert_eq!(found(&store, &labels(&[("site", Some("annex"))])), ["cut", "fast"]);
    assert_eq!(found(&store, &labels(&[("site", Some("annex")), ("batch", None)])), ["fast"]);
    let all = Filter { limit: Some(1), ..labels(&[("site", None)]) };
    assert_eq!((store.list(&all).unwrap().len(), store.count(&all).unwrap()), (1, 2));
}

#[test]
fn runs_of_experiments_are_distinguished_from_other_tests() {
    let (_dir, mut store) = store();
    store.tag("fast", &[("experiment", "20261122-a")]).unwrap();
    store.tag("cut", &[("site", "experiment")]).unwrap();
    let of = |kind| found(&store, &Filter { kind, ..Default::default() });
    assert_eq!(of(RunKind::Tests), ["cut", "both"]);
    assert_eq!(of(RunKind::Experiments), ["fast"]);
    assert_eq!(of(RunKind::All).len(), 3);
}

#[test]
fn labels_change_in_the_record_and_nothing_else_changes() {
    let (_dir, mut store) = store();
    let before = store.get("fast").unwrap();
    assert_eq!(store.tag("fast", &[("b", "2"), ("a.\"x", "say \"1\"")]).unwrap(), "fast");
    store.tag("fast", &[("b", "3")]).unwrap();
    let labels = store.get("fast").unwrap().labels;
    assert_eq!(labels, store.labels("fast").unwrap());
    assert_eq!((labels["b"].as_str(), labels["a.\"x"].as_str()), ("3", "say \"1\""));
    assert_eq!(store.label_keys(&["fast", "cut"]).unwrap(), ["a.\"x", "b"]);

    let error = store.untag("fast", &["b", "c"]).unwrap_err();
    let StoreError::NoLabel { id, key, present } = error else { panic!("{error}") };
    assert_eq!((id.as_str(), key.as_str()), ("fast", "c"));
    assert_eq!(present, ["a.\"x", "b"]);
    assert_eq!(store.labels("fast").unwrap().len(), 2, "all or none");
    store.untag("fast", &["b", "a.\"x"]).unwrap();
    assert_eq!(store.get("fast").unwrap(), before);
    let mut text = vec![];
    store.export(&["fast"], &mut text).unwrap();
    assert!(!String::from_utf8(text).unwrap().contains("labels"), "absent, not empty");

    for (key, value) in
        [("", "x"), ("a=b", "x"), ("a\n", "x"), ("a", "\u{1b}[2J"), ("a", &"x".repeat(5000))]
    {
        assert!(matches!(store.tag("fast", &[(key, value)]), Err(StoreError::Label { .. })));
    }
    assert!(matches!(store.tag("none", &[("a", "b")]), Err(StoreError::NotFound { .. })));
}

#[test]
fn runs_before_the_last_are_named() {
    let (_dir, store) = store();
    let ids = ["last", "last~0", "last~1", "last~2"].map(|s| store.resolve(s).unwrap());
    assert_eq!(ids, ["cut", "cut", "both", "fast"]);
}

/// Unknown members of a record, written by a later version, are preserved when its labels change.
#[test]
fn unknown_members_survive_a_change_of_labels() {
    let (dir, mut store) = store();
    let raw = rusqlite::Connection::open(dir.path().join("runs.db")).unwrap();
    let sql = "UPDATE records SET record = json_set(record, '$.later', json('{\"x\":[1.50,1e-9]}')) WHERE run = 'fast'";
    raw.execute(sql, []).unwrap();
    store.tag("fast", &[("a", "b")]).unwrap();
    let mut text = vec![];
    store.export(&["fast"], &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\"later\":{\"x\":[1.50,1e-9]}"), "{text}");
    assert_eq!(store.get("fast").unwrap().labels["a"], "b");
}

/// A list reads an index and few rows, whatever the number of runs, and never sorts.
#[test]
fn lists_use_their_indexes() {
    let (_dir, store) = store();
    let page = |filter: Filter| Filter { limit: Some(20), ..filter };
    let host = Filter { host: Some("x".into()), ..Default::default() };
    let since = Filter { since_unix_ms: Some(1), ..Default::default() };
    for (filter, index) in [
        (Filter::default(), "runs_by_start"),
        (host, "runs_by_host"),
        (since, "runs_by_start"),
        (
            conditions(&["transport=udp", "rate>=10M"]),
            "SEARCH connections EXISTS USING PRIMARY KEY (run=?)",
        ),
        (conditions(&["loss>1%", "status=complete"]), "runs_by_start"),
    ] {
        let plan = store.plan_of_list_for_test(&page(filter)).unwrap();
        assert!(plan.iter().any(|p| p.contains(index)), "{index}: {plan:?}");
        assert!(!plan.iter().any(|p| p.contains("TEMP B-TREE")), "{plan:?}");
        assert!(!plan.iter().any(|p| p == "SCAN runs"), "{plan:?}");
    }
    let label = page(Filter { labels: vec![("a".into(), Some("b".into()))], ..Default::default() });
    let plan = store.plan_of_list_for_test(&label).unwrap();
    assert!(plan.iter().any(|p| p.contains("SEARCH labels EXISTS USING")), "{plan:?}");
    assert!(!plan.iter().any(|p| p.contains("TEMP B-TREE")), "{plan:?}");
}
