//! Figures of continuous measurement.

use serde_json::{Value, json};
use weir_model::watch::{
    AgentLine, AgentState, BurstLine, ChangeLine, ChangedFigure, Line, Minute, PairFigures,
};
use weir_runs::{LatestPair, Watches};

use crate::http::get;
use crate::served::{Served, data, keep, serve};

/// A time of figures, s since 1970: a multiple of an hour.
const AT: u64 = 1_790_000_000 / 3600 * 3600;

fn figures(sent: u64, lost: u64) -> PairFigures {
    PairFigures {
        sent_packets: sent,
        lost_packets: lost,
        received_packets: sent - lost,
        loss_ratio: Some(lost as f64 / sent as f64),
        ..PairFigures::default()
    }
}

fn minute(at: u64, sent: u64, lost: u64) -> Minute {
    let (from, to) = ("a".into(), "b".into());
    Minute { at_unix_seconds: at, from, to, figures: figures(sent, lost) }
}

fn agent(name: &str, state: AgentState) -> Line {
    Line::Agent(AgentLine {
        at_unix_seconds: AT as f64,
        agent: name.into(),
        state,
        address: Some("192.0.2.7".into()),
        reason: (state == AgentState::Unusable).then(|| "version 0, not 1".into()),
    })
}

fn burst(from: &str, to: &str, rate: Option<f64>, run: &str) -> Line {
    Line::Burst(BurstLine {
        at_unix_seconds: AT as f64,
        from: from.into(),
        to: to.into(),
        transport: "tcp".into(),
        bits_per_second: rate,
        run: Some(run.into()),
        ..BurstLine::default()
    })
}

fn latest(from: &str, to: &str) -> LatestPair {
    LatestPair {
        from: from.into(),
        to: to.into(),
        at_unix_seconds: AT as f64 + 59.25,
        window_seconds: 60.0,
        sent_packets: 600,
        loss_ratio: Some(0.25),
        round_trip_p50_seconds: Some(0.012_345_678_9),
        last_sent_packets: 10,
        last_lost_packets: 10,
        ..LatestPair::default()
    }
}

fn add(served: &Served, minutes: &[Minute], events: &[Line], latest: &[LatestPair]) {
    let mut watches = Watches::open_at(&data(served.directory.path())).unwrap();
    watches.add("core", minutes, events, latest, AT).unwrap();
}

/// The time of a query.
fn time(seconds: u64) -> String {
    weir_runs::rfc3339(seconds * 1000)
}

#[test]
fn a_host_without_a_watch_has_no_meshes() {
    let s = serve(|_| {});
    assert_eq!(get(s.address, "/meshes").expect(200)["meshes"], json!([]));
    for path in ["/meshes/core", "/meshes/core/pairs/a/b"] {
        let problem = get(s.address, path).expect(404);
        assert!(problem["detail"].as_str().unwrap().contains("\"core\""), "{problem}");
    }
    // A question creates nothing.
    assert!(!data(s.directory.path()).directory().join("watches.db").exists());
}

#[test]
fn a_mesh_has_its_agents_and_the_figures_of_their_pairs() {
    let s = serve(|_| {});
    let states = [agent("a", AgentState::Connected), agent("b", AgentState::Unusable)];
    let bursts = [burst("b", "a", Some(1e9 + 0.25), "x"), burst("a", "b", None, "y")];
    add(&s, &[], &[&states[..], &bursts].concat(), &[latest("a", "b"), latest("a", "c")]);
    let list = get(s.address, "/meshes").expect(200);
    let listed = json!([{ "name": "core", "measured_at_unix_seconds": AT as f64 + 59.25, "agents": 2, "connected_agents": 1, "pairs": 2 }]);
    assert_eq!(list["meshes"], listed);
    let mesh = get(s.address, "/meshes/core").expect(200);
    assert_eq!(
        (&mesh["name"], &mesh["measured_at_unix_seconds"]),
        (&json!("core"), &json!(AT as f64 + 59.25))
    );
    let agents = mesh["agents"].as_array().unwrap();
    assert_eq!(
        agents.iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
    assert_eq!(agents[0]["state"], "connected");
    assert_eq!(
        (&agents[1]["state"], &agents[1]["reason"]),
        (&json!("unusable"), &json!("version 0, not 1"))
    );
    assert_eq!(agents[1]["since_unix_seconds"], json!(AT as f64));
    // It has figures and no state.
    assert_eq!(agents[2]["state"], Value::Null);
    let pairs = &mesh["pairs"];
    assert_eq!((&pairs["from"], &pairs["to"]), (&json!([0, 0]), &json!([1, 2])));
    assert_eq!(pairs["round_trip_p50_seconds"], json!([0.012_345_679, 0.012_345_679]));
    assert_eq!(pairs["forward_delay_seconds"], json!([null, null]));
    assert_eq!(pairs["last_lost_packets"], json!([10, 10]));
    let bursts = &mesh["bursts"];
    assert_eq!((&bursts["from"], &bursts["to"]), (&json!([0, 1]), &json!([1, 0])));
    assert_eq!(bursts["bits_per_second"], json!([null, 1e9]));
}

#[test]
fn a_pair_has_its_minutes_bursts_and_changes() {
    let s = serve(|_| {});
    keep(&s, "20261122-100000-00000001", "burst");
    let change = Line::Change(ChangeLine {
        at_unix_seconds: AT as f64,
        from: "a".into(),
        to: "b".into(),
        figure: ChangedFigure::Loss,
        before: 0.0,
        after: 0.5,
        threshold: 0.1,
    });
    let events = [
        burst("a", "b", Some(1e6), "20261122-100000-00000001"),
        // The beginning of an id is not that run.
        burst("b", "a", Some(1e6), "20261122"),
        change,
    ];
    add(&s, &[minute(AT, 600, 0), minute(AT + 60, 600, 300)], &events, &[latest("a", "b")]);
    let range = format!("since={}&until={}", time(AT - 3600), time(AT + 3600));
    for path in ["a/b", "b/a"] {
        let pair = get(s.address, &format!("/meshes/core/pairs/{path}?{range}")).expect(200);
        assert_eq!((&pair["from"], &pair["to"]), (&json!("a"), &json!("b")));
        assert_eq!(pair["point_seconds"], 60);
        let points = pair["points"].as_array().unwrap();
        assert_eq!(points.len(), 2, "{pair}");
        assert_eq!(points[1]["at_unix_seconds"], AT + 60);
        assert_eq!(
            (&points[1]["loss_ratio"], &points[1]["sent_packets"]),
            (&json!(0.5), &json!(600))
        );
        let bursts = pair["bursts"].as_array().unwrap();
        let stored: Vec<_> = bursts
            .iter()
            .map(|one| (one["from"].as_str().unwrap(), &one["is_stored_here"]))
            .collect();
        assert_eq!(stored, [("a", &json!(true)), ("b", &json!(false))]);
        assert_eq!(pair["changes"][0]["figure"], "loss");
    }
    // The end is not included.
    let range = format!("since={}&until={}", time(AT), time(AT + 60));
    let pair = get(s.address, &format!("/meshes/core/pairs/a/b?{range}")).expect(200);
    assert_eq!(pair["points"].as_array().unwrap().len(), 1);
}

#[test]
fn a_long_time_has_at_most_1500_points() {
    let s = serve(|_| {});
    let minutes: Vec<Minute> = (0..4000).map(|at| minute(AT + at * 60, 10, at % 2)).collect();
    add(&s, &minutes, &[], &[latest("a", "b")]);
    let range = format!("since={}&until={}", time(AT), time(AT + 4000 * 60));
    let pair = get(s.address, &format!("/meshes/core/pairs/a/b?{range}")).expect(200);
    assert_eq!(pair["point_seconds"], 180);
    let points = pair["points"].as_array().unwrap();
    assert!((1300..=1500).contains(&points.len()), "{}", points.len());
    let sum = |key: &str| points.iter().map(|one| one[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("sent_packets"), sum("lost_packets")), (40_000, 2000));
}

#[test]
fn a_mesh_or_pair_that_is_not_there_is_named() {
    let s = serve(|_| {});
    add(&s, &[], &[agent("a", AgentState::Connected)], &[latest("a", "b")]);
    for (path, named) in [
        ("/meshes/other", "other"),
        ("/meshes/other/pairs/a/b", "other"),
        ("/meshes/core/pairs/a/x", "a to x"),
        ("/meshes/core/pairs/a/a", "a to a"),
        ("/meshes/..%2Fcore", "../core"),
        ("/meshes/core%00", "core\\0"),
        ("/meshes/core/pairs/a'%20OR%20'1'='1/b", "a' OR '1'='1 to b"),
        ("/meshes/%25", "%"),
    ] {
        let reply = get(s.address, path);
        assert_eq!(reply.header("content-type"), "application/problem+json", "{path}");
        let problem = reply.expect(404);
        assert!(problem["detail"].as_str().unwrap().contains(named), "{path}: {problem}");
    }
    get(s.address, "/meshes/%ff").expect(400);
}

#[test]
fn a_wrong_time_is_refused() {
    let s = serve(|_| {});
    add(&s, &[], &[], &[latest("a", "b")]);
    for (query, field) in [
        ("since=soon", "?since"),
        ("until=x", "?until"),
        ("since=1h&until=2h", "?since"),
        ("since=2026-01-02T00:00&until=2026-01-02T00:00", "?since"),
        ("limit=3", "?limit"),
    ] {
        let problem = get(s.address, &format!("/meshes/core/pairs/a/b?{query}")).expect(422);
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    let pair = get(s.address, "/meshes/core/pairs/a/b?since=99999d").expect(200);
    assert!(pair["point_seconds"].as_u64() > Some(60), "{pair}");
}

#[test]
fn a_file_that_is_no_database_is_an_error() {
    let s = serve(|_| {});
    let data = data(s.directory.path());
    add(&s, &[], &[], &[latest("a", "b")]);
    let text = "no database, and longer than its head of a hundred bytes: ".repeat(9);
    std::fs::write(data.directory().join("watches.db"), text).unwrap();
    let problem = get(s.address, "/meshes").expect(500);
    assert!(!problem["detail"].as_str().unwrap().is_empty());
}
