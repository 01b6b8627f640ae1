//! Fills a store with small runs and prints how long lists and searches take:
//! `cargo run --release -p weir-runs --example many_runs -- DIRECTORY [RUNS]`.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use weir_model::plan::{Connection, Plan, Transport};
use weir_model::record::{DirectionTotal, Flow, RUN_SCHEMA, Receiver, Record, Sums, Totals};
use weir_model::units::ByteSize;
use weir_runs::{Filter, Store, new_run_id};
use weir_stats::compare::SplitMix64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("which directory?")?;
    let wanted: u64 = arguments.next().map_or(Ok(100_000), |n| n.parse())?;
    let path = Path::new(&directory).join("runs.db");
    let mut store = Store::open(&path)?;
    let present = store.count(&Filter::default())?;
    let began = Instant::now();
    let mut lines = Vec::new();
    for number in present..wanted {
        serde_json::to_writer(&mut lines, &run(number))?;
        lines.push(b'\n');
        if lines.len() > 8 << 20 || number + 1 == wanted {
            store.import(&mut lines.as_slice())?;
            lines.clear();
        }
    }
    println!(
        "{} runs put in: {:.1} s",
        wanted.saturating_sub(present),
        began.elapsed().as_secs_f64()
    );
    drop(store);

    let filter = |words: &[&str]| -> Result<Filter, Box<dyn Error>> {
        let conditions = words.iter().map(|w| w.parse()).collect::<Result<_, _>>()?;
        Ok(Filter { limit: Some(20), conditions, ..Default::default() })
    };
    let label = |value: &str| Filter {
        limit: Some(20),
        labels: vec![("batch".into(), Some(value.into()))],
        ..Default::default()
    };
    let host = Filter { limit: Some(20), host: Some("host-7".into()), ..Default::default() };
    let title = Filter { limit: Some(20), title: Some("no such".into()), ..Default::default() };
    for (name, filter) in [
        ("the last 20", filter(&[])?),
        ("all", Filter::default()),
        ("transport=udp (half)", filter(&["transport=udp"])?),
        ("rate>=990M, udp (rare)", filter(&["transport=udp", "rate>=990M"])?),
        ("payload=1 (none)", filter(&["payload=1"])?),
        ("loss>50% (none)", filter(&["loss>50%"])?),
        ("throughput>990M", filter(&["throughput>990M"])?),
        ("label of 100", label("7")),
        ("label of most", label("all")),
        ("host", host),
        ("title (none)", title),
    ] {
        // Opened each time, as a command does.
        let began = Instant::now();
        let store = Store::open(&path)?;
        let rows = store.list(&filter)?;
        let listed = began.elapsed();
        let all = store.count(&filter)?;
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        println!(
            "{name:28} {:6} of {all:6} runs: {:6.1} ms, and counted {:6.1} ms",
            rows.len(),
            ms(listed),
            ms(began.elapsed() - listed)
        );
    }
    Ok(())
}

/// A small run, the same for the same number.
fn run(number: u64) -> Record {
    let mut random = SplitMix64::new(number);
    let rate = random.below(1000) * 1_000_000;
    let transport = if random.below(2) == 0 { Transport::tcp() } else { Transport::udp() };
    let limit = format!("{rate}").parse().ok();
    let connection = Connection {
        transport: transport.clone(),
        rate: limit,
        payload: Some(ByteSize(64 + random.below(1400)).into()),
        ..Default::default()
    };
    let plan = Plan {
        title: Some(format!("point {} of the campaign", random.below(500))),
        host: Some(format!("host-{}", random.below(50))),
        connections: vec![connection],
        ..Default::default()
    };
    let sums = Sums { bits_per_second: Some(rate as f64 * random.unit()), ..Default::default() };
    let received = Receiver {
        packets: 1_000_000,
        lost_packets: Some(random.below(1000)),
        ..Default::default()
    };
    let flow =
        Flow { id: 1, transport: transport.name(), receiver: Some(received), ..Default::default() };
    let seconds = number * 60;
    let at = 1_700_000_000_000 + seconds * 1000;
    let id = new_run_id(std::time::Duration::from_millis(at), random.draw());
    let started_at = format!(
        "{}-{}-{}T{}:{}:{}Z",
        &id[..4],
        &id[4..6],
        &id[6..8],
        &id[9..11],
        &id[11..13],
        &id[13..15]
    );
    let batch = if number % 1000 == 7 { "7" } else { "all" };
    Record {
        schema: RUN_SCHEMA.into(),
        id,
        started_at,
        plan,
        labels: [("batch".to_string(), batch.to_string())].into(),
        flows: vec![flow],
        total: Totals {
            forward: Some(DirectionTotal { sender: None, receiver: Some(sums) }),
            reverse: None,
        },
        ..Default::default()
    }
}
