//! A record as a data file of flent, under the name of the test of flent whose series it has, so that its plots apply.
//!
//! Streams from the client are `tcp_nup`, streams from the server `tcp_ndown`, both `tcp_bidirectional`, datagrams from the
//! client `udp_flood`. Rates are the receiver's where it reported, else the sender's.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::{Compression, GzBuilder};
use serde_json::{Map, Value, json};
use weir_model::plan::{Direction, Family};
use weir_model::record::{Flow, Interval, IntervalCount, IntervalFlow, Record};

use super::{RATE_UNIT, TIME_UNIT, VERSION};
use crate::NoForm;

/// flent's name of round trips that ping measured.
const PING: &str = "Ping (ms) ICMP";

/// The compressed file of a record.
pub(crate) fn write(record: &Record) -> Result<Vec<u8>, NoForm> {
    let rows: Vec<&Interval> = record.intervals.iter().filter(|row| !row.omitted).collect();
    if rows.is_empty() {
        return Err(NoForm::NoIntervals);
    }
    let test = Test::of(record)?;
    let mut series: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    let mut raw: Map<String, Value> = Map::new();
    let started = record.started_at.parse::<jiff::Timestamp>().ok();
    let at = |row: &Interval| {
        let start = started.map_or(0.0, |time| time.as_millisecond() as f64 / 1000.0);
        start + row.end_seconds
    };
    for (name, flow) in &test.flows {
        let counts = rows.iter().map(|row| row.flows.iter().find(|count| count.id == flow.id));
        let values = counts.clone().map(|count| value(flow, count?));
        series.insert(name.clone(), values.collect());
        let items = rows.iter().zip(counts).filter_map(|(row, count)| {
            let count = count?;
            let mut item = json!({
                "t": at(row),
                "dur": row.end_seconds - row.start_seconds,
                "val": value(flow, count)?,
            });
            let rtt = count.sender.as_ref().and_then(|sender| sender.rtt_seconds);
            if let Some(rtt) = rtt.filter(|_| !is_ping(flow)) {
                item["tcp_rtt"] = (1000.0 * rtt).into();
            }
            Some(item)
        });
        raw.insert(name.clone(), items.collect());
    }
    for Sum { name, direction, role } in &test.sums {
        let flows = record.flows.iter().filter(|f| f.direction == *direction && !is_ping(f));
        let divisor = if *role == Role::Mean { flows.count() as f64 } else { 1.0 };
        let sum = |row: &&Interval| {
            let total = match direction {
                Direction::Forward => row.total.forward.as_ref(),
                Direction::Reverse => row.total.reverse.as_ref(),
            }?;
            let bits = total.receiver.as_ref().or(total.sender.as_ref())?.bits_per_second?;
            Some(bits / 1e6 / divisor)
        };
        let values: Vec<Option<f64>> = rows.iter().map(sum).collect();
        let item = |(row, value): (&&Interval, &Option<f64>)| {
            let dur = row.end_seconds - row.start_seconds;
            Some(json!({ "t": at(row), "dur": dur, "val": (*value)? }))
        };
        let is_measured = *role == Role::Flows;
        let items: Vec<Value> =
            rows.iter().zip(&values).filter(|_| is_measured).filter_map(item).collect();
        raw.insert((*name).into(), items.into());
        series.insert((*name).into(), values);
    }
    // flent's plots need it; without values it is not drawn.
    series.entry(PING.into()).or_insert_with(|| vec![None; rows.len()]);
    raw.entry(PING).or_insert_with(|| json!([]));
    let document = json!({
        "version": VERSION,
        "metadata": metadata(record, &test, &rows, &series),
        "x_values": rows.iter().map(|row| row.start_seconds).collect::<Vec<_>>(),
        "results": series,
        "raw_values": raw,
    });
    let text = document.to_string();
    // No time in the header: the same record gives the same file.
    let mut gzip = GzBuilder::new().mtime(0).write(vec![], Compression::default());
    // Writing to memory does not fail.
    let written = gzip.write_all(text.as_bytes()).and_then(|()| gzip.finish());
    written.map_err(|_| NoForm::NoIntervals)
}

/// Whether a flow is round trips of single packets.
fn is_ping(flow: &Flow) -> bool {
    flow.transport.echoes() && flow.round_trip.is_some()
}

/// The value of a flow in a row: its rate in 10^6 bit/s, or its round trip in ms.
fn value(flow: &Flow, count: &IntervalFlow) -> Option<f64> {
    if is_ping(flow) {
        return count.sender.as_ref()?.rtt_seconds.map(|s| 1000.0 * s);
    }
    let rate = |count: &Option<IntervalCount>| count.as_ref()?.bits_per_second;
    rate(&count.receiver).or(rate(&count.sender)).map(|bits| bits / 1e6)
}

/// The test of flent that a record is written as.
struct Test<'a> {
    name: &'static str,
    parameters: Value,
    /// Series of flows.
    flows: Vec<(String, &'a Flow)>,
    /// Series of a direction.
    sums: Vec<Sum>,
}

/// A series of a direction.
struct Sum {
    name: &'static str,
    direction: Direction,
    role: Role,
}

/// What a series of a direction is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The flows of the direction, which have no series of their own.
    Flows,
    /// The sum of the flows' series.
    Sum,
    /// Their mean.
    Mean,
}

impl<'a> Test<'a> {
    fn of(record: &'a Record) -> Result<Test<'a>, NoForm> {
        let (pings, data): (Vec<&Flow>, Vec<&Flow>) = record.flows.iter().partition(|f| is_ping(f));
        let is_plain = |flow: &&Flow| flow.transactions.is_none() && flow.round_trip.is_none();
        let data: Vec<&Flow> = data.into_iter().filter(is_plain).collect();
        let directed = |direction| data.iter().filter(|f| f.direction == direction).count();
        let (up, down) = (directed(Direction::Forward), directed(Direction::Reverse));
        let datagrams = data.iter().filter(|flow| flow.transport.datagrams()).count();
        let named = |base: &str| {
            let name = |(n, flow): (usize, &&'a Flow)| (format!("{base}::{}", n + 1), *flow);
            data.iter().enumerate().map(name).collect::<Vec<_>>()
        };
        let sum = |name, direction, role| Sum { name, direction, role };
        let (forward, reverse) = (Direction::Forward, Direction::Reverse);
        let mut test = match (up, down, datagrams) {
            (0, 0, _) => return Err(NoForm::NoSeries),
            (_, 0, 0) => Test {
                name: "tcp_nup",
                parameters: json!({ "upload_streams": up }),
                flows: named("TCP upload"),
                sums: vec![
                    sum("TCP upload sum", forward, Role::Sum),
                    sum("TCP upload avg", forward, Role::Mean),
                ],
            },
            (0, _, 0) => Test {
                name: "tcp_ndown",
                parameters: json!({ "download_streams": down }),
                flows: named("TCP download"),
                sums: vec![
                    sum("TCP download sum", reverse, Role::Sum),
                    sum("TCP download avg", reverse, Role::Mean),
                ],
            },
            (_, _, 0) => Test {
                name: "tcp_bidirectional",
                parameters: json!({}),
                flows: vec![],
                sums: vec![
                    sum("TCP upload", forward, Role::Flows),
                    sum("TCP download", reverse, Role::Flows),
                ],
            },
            (_, 0, n) if n == up => Test {
                name: "udp_flood",
                parameters: json!({}),
                flows: vec![],
                sums: vec![sum("UDP upload", forward, Role::Flows)],
            },
            _ => return Err(NoForm::NoSeries),
        };
        if let Some(ping) = pings.first() {
            test.flows.push((PING.into(), ping));
        }
        Ok(test)
    }
}

fn metadata(
    record: &Record,
    test: &Test<'_>,
    rows: &[&Interval],
    series: &BTreeMap<String, Vec<Option<f64>>>,
) -> Value {
    let host = record.plan.host.clone().unwrap_or_default();
    let length = rows.last().map_or(0.0, |row| row.end_seconds);
    let step = rows.first().map_or(1.0, |row| row.end_seconds - row.start_seconds);
    let of_series = |(name, values): (&String, &Vec<Option<f64>>)| {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
        let units = if name == PING { TIME_UNIT } else { RATE_UNIT };
        let mut meta = json!({ "UNITS": units, "RUNNER": "weir", "MEAN_VALUE": mean });
        let flow = test.flows.iter().find(|(known, _)| known == name).map(|(_, flow)| *flow);
        if let Some(flow) = flow {
            if is_ping(flow) {
                meta["RUNNER"] = "PingRunner".into();
            }
            meta["BYTES_SENT"] = flow.sender.as_ref().map(|s| s.bytes).into();
            meta["BYTES_RECVD"] = flow.receiver.as_ref().map(|r| r.bytes).into();
            meta["ELAPSED_TIME"] = flow.sender.as_ref().map(|s| s.seconds).into();
            meta["TCP_RETRANSMIT"] = flow.tcp.as_ref().map(|tcp| tcp.retransmits).into();
        }
        let of_direction = test.sums.iter().find(|sum| sum.name == name && sum.role == Role::Flows);
        if let Some(total) = of_direction.and_then(|sum| record.direction(sum.direction)) {
            meta["BYTES_SENT"] = total.sender.as_ref().map(|sums| sums.bytes).into();
            meta["BYTES_RECVD"] = total.receiver.as_ref().map(|sums| sums.bytes).into();
            let longest = total.sender.as_ref().or(total.receiver.as_ref());
            meta["ELAPSED_TIME"] = longest.map(|sums| sums.seconds).into();
        }
        let present = meta.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let present: Map<String, Value> = present.map(|(k, v)| (k.clone(), v.clone())).collect();
        (name.clone(), Value::Object(present))
    };
    let of_series: Map<String, Value> = series.iter().map(of_series).collect();
    let family = record.flows.iter().find_map(|flow| flow.family);
    json!({
        "NAME": test.name,
        "TITLE": record.plan.title.clone().unwrap_or_default(),
        "NOTE": format!("weir run {}", record.id),
        "HOST": host,
        "HOSTS": [host],
        "LOCAL_HOST": record.local.as_ref().map_or("", |local| local.host.as_str()),
        "TIME": record.started_at,
        "T0": record.started_at,
        "LENGTH": length.ceil() as u64,
        "TOTAL_LENGTH": length.ceil() as u64,
        "STEP_SIZE": step,
        "IP_VERSION": family.map(|family| match family { Family::Ipv4 => 4, Family::Ipv6 => 6 }),
        "TEST_PARAMETERS": test.parameters,
        "DATA_FILENAME": format!("{}-{}.flent.gz", test.name, record.id),
        "SERIES_META": of_series,
    })
}
