//! The documented queries, asked of ten million intervals.

use serde_json::{Value, json};
use weir_model::record::{Flow, Interval, IntervalCount, IntervalFlow, Record};
use weir_runs::ParquetExport;

use super::{documented, duckdb};

const DAYS: u64 = 10;
/// Runs of a day, one an hour.
const RUNS: u64 = 20;
const FLOWS: u64 = 50;
/// Intervals of 1 s, of which the first one is omitted.
const INTERVALS: u64 = 1000;
/// Losses are in the intervals whose number is a multiple of this.
const LOSSY: u64 = 100;
const PACKETS: u64 = 1000;
const PAYLOAD: u64 = 1200;

/// The first run: its id, start and labels are changed for the others.
fn record() -> Record {
    let flow = |id: u64| Flow { id: id as u32, name: format!("flow-{id:02}"), ..Flow::default() };
    let part = |id: u64, number: u64| IntervalFlow {
        id: id as u32,
        sender: None,
        receiver: Some(IntervalCount {
            bytes: PACKETS * PAYLOAD,
            packets: PACKETS,
            bits_per_second: Some((1_000_000 * id + number) as f64),
            lost_packets: Some(u64::from(number.is_multiple_of(LOSSY))),
            // Of the first flow only: the rows of others have no jitter.
            jitter_seconds: (id == 1).then_some(number as f64 / 1e6),
            ..IntervalCount::default()
        }),
    };
    let interval = |number: u64| Interval {
        start_seconds: number as f64,
        end_seconds: (number + 1) as f64,
        omitted: number == 0,
        flows: (1..=FLOWS).map(|id| part(id, number)).collect(),
        ..Interval::default()
    };
    Record {
        flows: (1..=FLOWS).map(flow).collect(),
        intervals: (0..INTERVALS).map(interval).collect(),
        ..Record::default()
    }
}

/// What a documented query answers. The second day has twice the losses of an interval that the first has, and so on.
fn expected(title: &str) -> Vec<Value> {
    // Without the omitted interval.
    let (counted, lossy) = (INTERVALS - 1, INTERVALS / LOSSY - 1);
    let ratio = |lost: u64, received: u64| lost as f64 / (lost + received) as f64;
    let name = |id: u64| format!("flow-{id:02}");
    let date = |day: u64| format!("2026-11-{:02}", 21 + day);
    match title {
        "Loss by day" => {
            let of_day = |day| {
                let lost = RUNS * FLOWS * lossy * (day + 1);
                let loss_ratio = ratio(lost, RUNS * FLOWS * counted * PACKETS);
                json!({ "day": date(day), "lost_packets": lost, "loss_ratio": loss_ratio })
            };
            (0..DAYS).map(of_day).collect()
        }
        "Rates of the flows on one day" => {
            // The values 1 to 999, each once a run.
            let of_flow = |id| {
                json!({ "flow_name": name(id), "p5": (1_000_000 * id + 50) as f64,
                    "median": (1_000_000 * id + 500) as f64 })
            };
            (1..=FLOWS).map(of_flow).collect()
        }
        "Loss by site, a label of the runs" => {
            let lost = RUNS / 2 * FLOWS * lossy * (DAYS * (DAYS + 1) / 2);
            let received = DAYS * RUNS / 2 * FLOWS * counted * PACKETS;
            let of_site = |site| json!({ "site": site, "loss_ratio": ratio(lost, received) });
            ["annex", "main"].map(of_site).into()
        }
        "Received bytes by hour of one day" => {
            let of_hour = |hour| {
                json!({ "hour": format!("2026-11-22 {hour:02}:00:00+00:00"),
                    "bytes": FLOWS * INTERVALS * PACKETS * PAYLOAD })
            };
            (0..RUNS).map(of_hour).collect()
        }
        "Rates in the intervals with losses, against all" => {
            let all = |id| 1_000_000.0 * id as f64 + INTERVALS as f64 / 2.0;
            let with_losses = |id| 1_000_000.0 * id as f64 + (LOSSY * (lossy + 1)) as f64 / 2.0;
            let of_flow = |id| json!({ "flow_name": name(id), "with_losses": with_losses(id), "all_intervals": all(id) });
            (1..=FLOWS).map(of_flow).collect()
        }
        other => panic!("docs/formats.md has a query whose answer is unknown here: {other}"),
    }
}

fn is_close(value: &Value, expected: &Value) -> bool {
    match (value, expected) {
        (Value::Object(value), Value::Object(expected)) => {
            value.len() == expected.len()
                && expected.iter().all(|(key, e)| value.get(key).is_some_and(|v| is_close(v, e)))
        }
        (Value::Number(value), Value::Number(expected)) => {
            let (value, expected) = (value.as_f64().unwrap(), expected.as_f64().unwrap());
            (value - expected).abs() <= 1e-9 * expected.abs()
        }
        _ => value == expected,
    }
}

#[test]
fn documented_queries_of_ten_million_intervals_are_right() {
    let test = "documented_queries_of_ten_million_intervals_are_right";
    let Some(python) = duckdb::python(test) else { return };
    assert_eq!(DAYS * RUNS * FLOWS * INTERVALS, 10_000_000);
    let dir = tempfile::tempdir().unwrap();
    let mut export = ParquetExport::new(&dir.path().join("results")).unwrap();
    let mut record = record();
    for day in 0..DAYS {
        for part in record.intervals.iter_mut().flat_map(|interval| &mut interval.flows) {
            let receiver = part.receiver.as_mut().unwrap();
            receiver.lost_packets = receiver.lost_packets.map(|n| if n > 0 { day + 1 } else { 0 });
        }
        for run in 0..RUNS {
            record.id = format!("202611{}-{run:02}0000-00000000", 21 + day);
            record.started_at = format!("2026-11-{}T{run:02}:00:00.000Z", 21 + day);
            let site = if run % 2 == 0 { "annex" } else { "main" };
            record.labels = [("site".to_string(), site.to_string())].into();
            export.record(&record).unwrap();
        }
    }
    let summary = export.finish().unwrap();
    assert_eq!((summary.runs, summary.days, summary.omitted_values), (DAYS * RUNS, DAYS, 0));

    let documented = documented::queries();
    assert!(documented.len() >= 5, "{documented:?}");
    let count = |group: &str| {
        format!("SELECT count(*) AS n FROM read_parquet('results/group={group}/*/*.parquet')")
    };
    let mut queries = ["volume", "packets", "variation", "delay"].map(count).to_vec();
    queries.extend(documented.iter().map(|(_, query)| query.clone()));
    let answers = duckdb::answers(&python, dir.path(), &queries);
    let (counts, answers) = answers.split_at(4);
    let counts: Vec<u64> = counts.iter().map(|rows| rows[0]["n"].as_u64().unwrap()).collect();
    assert_eq!(counts, [10_000_000, 10_000_000, DAYS * RUNS * INTERVALS, 0]);
    for ((title, _), answer) in documented.iter().zip(answers) {
        let expected = expected(title);
        assert_eq!(answer.len(), expected.len(), "{title}");
        for (value, expected) in answer.iter().zip(&expected) {
            assert!(is_close(value, expected), "{title}: {value} {expected}");
        }
    }
}
