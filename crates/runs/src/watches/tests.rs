use super::write::KEPT_SECONDS;
use super::*;
use weir_model::watch::{
    AgentLine, AgentState, BurstLine, ChangeLine, ChangedFigure, Line, Minute, PairFigures,
    SecondLine, WindowFigures,
};

fn minute(from: &str, to: &str, at: u64) -> Minute {
    let figures = PairFigures { sent_packets: at, ..PairFigures::default() };
    Minute { at_unix_seconds: at, from: from.into(), to: to.into(), figures }
}

fn burst_line(at: u64, rate: Option<f64>) -> BurstLine {
    BurstLine {
        at_unix_seconds: at as f64,
        from: "a".into(),
        to: "b".into(),
        bits_per_second: rate,
        ..BurstLine::default()
    }
}

fn burst(at: u64) -> Line {
    Line::Burst(burst_line(at, Some(1e6)))
}

fn change(at: u64) -> ChangeLine {
    ChangeLine {
        at_unix_seconds: at as f64,
        from: "a".into(),
        to: "b".into(),
        figure: ChangedFigure::Loss,
        before: 0.0,
        after: 0.5,
        threshold: 0.1,
    }
}

fn agent(name: &str, state: AgentState, at: u64) -> AgentLine {
    AgentLine { at_unix_seconds: at as f64, agent: name.into(), state, address: None, reason: None }
}

fn latest(from: &str, to: &str, at: u64) -> LatestPair {
    LatestPair {
        from: from.into(),
        to: to.into(),
        at_unix_seconds: at as f64,
        window_seconds: 60.0,
        sent_packets: 600,
        loss_ratio: Some(0.25),
        ..LatestPair::default()
    }
}

fn opened(directory: &tempfile::TempDir) -> Watches {
    Watches::open(&directory.path().join("watches.db")).unwrap()
}

fn minutes(watches: &Watches, pair: (&str, &str), during: std::ops::Range<i64>) -> Vec<Minute> {
    let mut found = vec![];
    watches.each_minute("m", pair, during, |minute| found.push(minute)).unwrap();
    found
}

const EVER: std::ops::Range<i64> = 0..i64::MAX;

#[test]
fn minutes_and_events_are_stored_by_their_mesh() {
    let directory = tempfile::tempdir().unwrap();
    let data = DataDirectory::in_directory(directory.path().join("weir"));
    assert!(Watches::open_existing(&data).unwrap().is_none());
    let mut watches = Watches::open_at(&data).unwrap();
    let rows = [minute("a", "b", 60), minute("a", "b", 120), minute("a", "c", 60)];
    let events = [burst(5), burst(7), Line::Change(change(6))];
    watches.add("m", &rows, &events, [], 200).unwrap();
    watches.add("other", &[minute("a", "b", 600)], &[burst(6)], [], 200).unwrap();
    drop(watches);
    let mut watches = Watches::open_existing(&data).unwrap().unwrap();
    assert_eq!(minutes(&watches, ("a", "b"), EVER), rows[..2]);
    assert_eq!(minutes(&watches, ("a", "b"), 61..121), rows[1..2]);
    assert_eq!(minutes(&watches, ("a", "b"), 60..120), rows[..1]);
    let bursts = |during, most| watches.bursts("m", ("a", "b"), during, most).unwrap();
    let [first, second] = [5, 7].map(|at| burst_line(at, Some(1e6)));
    assert_eq!(bursts(EVER, 10), [first, second.clone()]);
    assert_eq!(bursts(EVER, 1), std::slice::from_ref(&second));
    assert_eq!(bursts(6..8, 10), [second]);
    assert!(watches.bursts("m", ("b", "a"), EVER, 10).unwrap().is_empty());
    assert_eq!(watches.changes("m", ("a", "b"), EVER, 10).unwrap(), [change(6)]);
    // A minute is stored once, and old rows are removed.
    let again = Minute { figures: PairFigures::default(), ..minute("a", "c", 60) };
    watches.add("m", std::slice::from_ref(&again), &[], [], KEPT_SECONDS + 60).unwrap();
    assert_eq!(minutes(&watches, ("a", "c"), EVER), [again]);
    assert!(watches.bursts("m", ("a", "b"), EVER, 10).unwrap().is_empty());
    assert!(watches.changes("m", ("a", "b"), EVER, 10).unwrap().is_empty());
}

#[test]
fn the_latest_figures_of_a_pair_are_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let mut watches = opened(&directory);
    let first = [latest("a", "b", 10), latest("a", "c", 10)];
    let failed = Line::Burst(burst_line(9, None));
    watches.add("m", &[], &[burst(5), failed], &first, 100).unwrap();
    watches.add("other", &[], &[], &first[..1], 100).unwrap();
    let second = latest("a", "b", 11);
    watches.add("m", &[], &[], [&second], 100).unwrap();
    assert_eq!(watches.latest("m").unwrap(), [second, first[1].clone()]);
    let [burst] = watches.latest_bursts("m").unwrap().try_into().unwrap();
    assert_eq!((burst.at_unix_seconds, burst.bits_per_second), (9.0, None));
    let probing = |pair| watches.probing("m", pair).unwrap();
    assert_eq!(probing(("a", "b")), Some("a"));
    assert_eq!(probing(("b", "a")), Some("a"));
    assert_eq!(probing(("b", "c")), None);
    assert_eq!(watches.probing("x", ("a", "b")).unwrap(), None);
}

#[test]
fn meshes_are_listed_with_their_agents() {
    let directory = tempfile::tempdir().unwrap();
    let mut watches = opened(&directory);
    assert!(watches.meshes().unwrap().is_empty());
    let state = |name, state, at| Line::Agent(agent(name, state, at));
    let events = [
        state("a", AgentState::Connected, 1),
        state("b", AgentState::Connected, 1),
        state("b", AgentState::Gone, 2),
    ];
    watches.add("m", &[], &events, &[latest("a", "b", 10)], 100).unwrap();
    watches.add("n", &[], &events[..1], [], 100).unwrap();
    let agents = [agent("a", AgentState::Connected, 1), agent("b", AgentState::Gone, 2)];
    assert_eq!(watches.agents("m").unwrap(), agents);
    let summary = |name: &str, at_unix_seconds, agents, pairs| MeshSummary {
        name: name.into(),
        at_unix_seconds,
        agents,
        connected_agents: 1,
        pairs,
    };
    assert_eq!(
        watches.meshes().unwrap(),
        [summary("m", Some(10.0), 2, 1), summary("n", None, 1, 0)]
    );
    // An agent that stays connected stays listed while its mesh is measured.
    let later = KEPT_SECONDS + 50;
    watches.add("m", &[], &[], &[latest("a", "b", later)], later).unwrap();
    assert_eq!(watches.agents("m").unwrap(), agents[..1]);
    let [mesh] = watches.meshes().unwrap().try_into().unwrap();
    assert_eq!(mesh.name, "m");
    watches.add("n", &[], &[], [], later + KEPT_SECONDS + 60).unwrap();
    assert!(watches.meshes().unwrap().is_empty());
}

#[test]
fn the_figures_are_those_of_the_shortest_window() {
    let figures = |sent_packets| PairFigures { sent_packets, ..PairFigures::default() };
    let window = |window_seconds, sent| WindowFigures { window_seconds, figures: figures(sent) };
    let mut second = SecondLine {
        figures: PairFigures { lost_packets: 2, ..figures(10) },
        windows: vec![window(60.0, 600), window(600.0, 6000)],
        ..SecondLine::default()
    };
    let latest = LatestPair::of(&second);
    assert_eq!((latest.window_seconds, latest.sent_packets), (60.0, 600));
    assert_eq!((latest.last_sent_packets, latest.last_lost_packets), (10, 2));
    second.windows.clear();
    let latest = LatestPair::of(&second);
    assert_eq!((latest.window_seconds, latest.sent_packets), (1.0, 10));
}

#[test]
fn another_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    drop(crate::Store::open(&path).unwrap());
    assert!(matches!(Watches::open(&path), Err(StoreError::Foreign { .. })));
    let path = directory.path().join("y.db");
    std::fs::write(&path, "no database, and longer than its head of a hundred bytes: ".repeat(9))
        .unwrap();
    assert!(matches!(Watches::open(&path), Err(StoreError::Database { .. })));
}
