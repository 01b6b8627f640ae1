//! A test as a run (`weir.run/1`), and a run as the result page of a link. Pure.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use weir_model::plan::{Connection, Direction, Family, Plan, Transport};
use weir_model::record::{
    Build, Delay, DirectionTotal, Flow, Host, Interval, IntervalCount, IntervalEnds, IntervalFlow,
    IntervalTotals, Latency, RUN_SCHEMA, Receiver, Record, RoundTripSeries, Sender, Status, Sums,
    Totals,
};
use weir_model::units::{Seed, Span};
use weir_model::warning::{Severity, Warning};

use super::content::MIN_FRAME;
use super::figures::{Mark, RAMP_SECONDS, Summaries, Throughput, grade, uses, verdict};
use super::message::RoundTrips;
use super::session::Outcome;

/// The kind of peer.
const PEER: &str = "browser";
/// The label whose value is the secret of a result's link.
pub(super) const LABEL: &str = "speed_test";
/// The label with the number of connections.
pub(super) const STREAMS: &str = "streams";
/// Payload of the page's frames, bytes.
const PAGE_FRAME: u64 = 64 << 10;
/// Minimum length of an interval, s.
const MIN_INTERVAL_SECONDS: f64 = 0.1;
/// Fraction of CPU time, or of the time, from which something counts as the bottleneck.
const BOUND_RATIO: f64 = 0.9;

/// The server's and the connections' figures of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Load {
    /// CPU fraction of the thread that serves all tests.
    pub(super) thread_ratio: f64,
    /// The busiest processor.
    pub(super) busiest_core_ratio: Option<f64>,
}

/// The kernel's figures of the download connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tcp {
    /// Time with data in flight, of all connections, µs.
    pub(super) busy_us: u64,
    /// Part of it in which the browser's window was full, µs.
    pub(super) window_limited_us: u64,
    /// Segments retransmitted.
    pub(super) retransmits: u64,
}

/// The input of a record.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) run_id: String,
    pub(super) link_id: String,
    pub(super) started_at: String,
    pub(super) version: String,
    /// Duration of the session, s.
    pub(super) seconds: f64,
    pub(super) server: SocketAddr,
    /// Absent if addresses are not stored.
    pub(super) browser: Option<SocketAddr>,
    pub(super) is_ipv6: bool,
    pub(super) seed: u64,
    pub(super) streams: usize,
    pub(super) phase_seconds: u64,
    pub(super) host: Option<Host>,
    pub(super) download: Option<Load>,
    pub(super) upload: Option<Load>,
    pub(super) tcp: Tcp,
    /// Segments that the server retransmitted on the connection of the round trips.
    pub(super) control_retransmits: u64,
}

/// The record of a test. The server is the side that ran the command: forward is to the browser.
pub(super) fn record(outcome: &Outcome, facts: &Facts) -> Record {
    let browser = facts.browser.map_or_else(|| PEER.to_owned(), |address| address.to_string());
    let server = facts.server.to_string();
    let family = if facts.is_ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    let flow = |id, direction, name: &str| Flow {
        id,
        name: name.into(),
        transport: Transport::tcp().name(),
        family: Some(family),
        direction,
        source: if direction == Direction::Forward { server.clone() } else { browser.clone() },
        destination: if direction == Direction::Forward { browser.clone() } else { server.clone() },
        ..Flow::default()
    };
    let mut flows = vec![];
    let mut total = Totals::default();
    if let Some(download) = &outcome.download {
        flows.push(Flow {
            sender: outcome.sent.map(sender),
            payload_bytes: MIN_FRAME as u64,
            receiver: Some(receiver(download, PEER)),
            round_trip: delay(&outcome.round_trips.download),
            ..flow(1, Direction::Forward, "download")
        });
        total.forward = Some(sums(download, outcome.sent, facts.tcp.retransmits));
    }
    if let Some(upload) = &outcome.upload {
        flows.push(Flow {
            payload_bytes: PAGE_FRAME,
            receiver: Some(receiver(upload, "copy")),
            round_trip: delay(&outcome.round_trips.upload),
            ..flow(2, Direction::Reverse, "upload")
        });
        total.reverse = Some(DirectionTotal { sender: None, receiver: Some(sum(upload)) });
    }
    let connection = |flow: &Flow| Connection {
        name: flow.name.clone(),
        direction: flow.direction,
        duration: Some(Span::from_seconds(facts.phase_seconds)),
        ..Connection::default()
    };
    let plan = Plan {
        title: Some("speed test in a browser".into()),
        host: facts.browser.map(|address| address.ip().to_string()),
        port: Some(facts.server.port()),
        seed: Seed(facts.seed),
        omit: Span::from_seconds(RAMP_SECONDS as u64),
        connections: flows.iter().map(connection).collect(),
        ..Plan::default()
    };
    let labels = [(LABEL, facts.link_id.clone()), (STREAMS, facts.streams.to_string())];
    Record {
        schema: RUN_SCHEMA.into(),
        id: facts.run_id.clone(),
        version: facts.version.clone(),
        build: Build {
            commit: None,
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        },
        started_at: facts.started_at.clone(),
        seconds: facts.seconds,
        status: Status::Complete,
        end_reason: "the page reported its result".into(),
        plan_sha256: weir_runs::plan_sha256(&plan),
        seed: plan.seed,
        plan,
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        peer: PEER.into(),
        local: facts.host.clone(),
        flows,
        total,
        latency: latency(&outcome.round_trips),
        round_trips: series(&outcome.round_trips),
        omitted_seconds: Some(RAMP_SECONDS),
        intervals: intervals(outcome),
        warnings: warnings(outcome, facts),
        ..Record::default()
    }
}

/// Both directions over time, one after the other.
fn intervals(outcome: &Outcome) -> Vec<Interval> {
    let mut out = vec![];
    let courses = [
        (1, &outcome.download_course, outcome.download.is_some()),
        (2, &outcome.upload_course, outcome.upload.is_some()),
    ];
    for (id, course, _) in courses.into_iter().filter(|(.., is_measured)| *is_measured) {
        let mut before = Mark { bytes: 0, seconds: 0.0 };
        for mark in &course.marks {
            let seconds = mark.seconds - before.seconds;
            if seconds < MIN_INTERVAL_SECONDS {
                continue;
            }
            let bytes = mark.bytes.saturating_sub(before.bytes);
            let count = IntervalCount {
                bytes,
                bits_per_second: Some(bytes as f64 * 8.0 / seconds),
                ..IntervalCount::default()
            };
            let ends =
                Some(IntervalEnds { receiver: Some(count.clone()), ..IntervalEnds::default() });
            let total = match id {
                1 => IntervalTotals { forward: ends, reverse: None },
                _ => IntervalTotals { forward: None, reverse: ends },
            };
            out.push(Interval {
                start_seconds: course.start_seconds + before.seconds,
                end_seconds: course.start_seconds + mark.seconds,
                omitted: mark.seconds <= RAMP_SECONDS,
                flows: vec![IntervalFlow { id, sender: None, receiver: Some(count) }],
                total,
            });
            before = *mark;
        }
    }
    out
}

/// The rates of a flow over time, from the start of its phase, as the page draws them.
fn curve(record: &Record, id: u32) -> Vec<Value> {
    let own = |i: &Interval| {
        let count = i.flows.iter().find(|flow| flow.id == id)?.receiver.as_ref()?;
        Some((i.start_seconds, i.end_seconds, count.bits_per_second?))
    };
    let all: Vec<_> = record.intervals.iter().filter_map(own).collect();
    let start = all.first().map_or(0.0, |(start, ..)| *start);
    let point = |(from, to, rate)| json!({ "from": from - start, "to": to - start, "rate": rate });
    all.into_iter().map(point).collect()
}

fn sender(sent: Mark) -> Sender {
    Sender {
        bytes: sent.bytes,
        seconds: sent.seconds,
        bits_per_second: Throughput::new(sent.bytes, sent.seconds).map(|t| t.bits_per_second),
        method: "write".into(),
        ..Sender::default()
    }
}

fn receiver(of: &Throughput, method: &str) -> Receiver {
    Receiver {
        bytes: of.bytes,
        seconds: of.seconds,
        bits_per_second: Some(of.bits_per_second),
        method: method.into(),
        ..Receiver::default()
    }
}

fn sum(of: &Throughput) -> Sums {
    Sums {
        bytes: of.bytes,
        seconds: of.seconds,
        bits_per_second: Some(of.bits_per_second),
        ..Sums::default()
    }
}

fn sums(received: &Throughput, sent: Option<Mark>, retransmits: u64) -> DirectionTotal {
    let sent = sent.and_then(|mark| Throughput::new(mark.bytes, mark.seconds));
    let sender = sent.map(|sent| Sums { retransmits: Some(retransmits), ..sum(&sent) });
    DirectionTotal { sender, receiver: Some(sum(received)) }
}

/// A distribution by the record's rule: a percentile q is absent below 10/(1−q) samples.
fn delay(seconds: &[f64]) -> Option<Delay> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last, count) = (*sorted.first()?, *sorted.last()?, sorted.len());
    let at = |q: f64, least: usize| {
        let rank = (q * count as f64).ceil() as usize;
        (count >= least).then(|| sorted[rank.clamp(1, count) - 1])
    };
    Some(Delay {
        count: count as u64,
        min_seconds: first,
        mean_seconds: sorted.iter().sum::<f64>() / count as f64,
        p50_seconds: at(0.5, 20),
        p90_seconds: at(0.9, 100),
        max_seconds: last,
        ..Delay::default()
    })
}

fn latency(round_trips: &RoundTrips) -> Option<Latency> {
    let loaded = [round_trips.download.as_slice(), &round_trips.upload].concat();
    let (idle, loaded) = (delay(&round_trips.idle), delay(&loaded));
    if idle.is_none() && loaded.is_none() {
        return None;
    }
    Some(Latency {
        method: "tcp".into(),
        sent: [&idle, &loaded].into_iter().flatten().map(|d| d.count).sum(),
        lost: 0,
        responsiveness_per_minute: loaded
            .as_ref()
            .map(|d| d.mean_seconds)
            .filter(|s| *s > 0.0)
            .map(|s| 60.0 / s),
        idle,
        loaded,
    })
}

const PHASES: [&str; 3] = ["idle", "download", "upload"];

fn series(round_trips: &RoundTrips) -> Vec<RoundTripSeries> {
    let named = PHASES.into_iter().zip(round_trips.all());
    named
        .filter(|(_, list)| !list.is_empty())
        .map(|(phase, list)| RoundTripSeries { phase: phase.into(), seconds: list.clone() })
        .collect()
}

fn warnings(outcome: &Outcome, facts: &Facts) -> Vec<Warning> {
    let mut out = vec![Warning::new(
        "browser-claims",
        Severity::Info,
        "the browser measured the download and the round trips; the server measured the upload",
    )];
    let bound = |flow: u32, code: &str, who: &str, load: Option<Load>| {
        let load = load?;
        let busiest = load.busiest_core_ratio.unwrap_or(0.0).max(load.thread_ratio);
        let text = format!(
            "a processor of this server was {:.0} % busy while it {who}: the figure may be the server's, not the path's",
            busiest * 100.0
        );
        (busiest >= BOUND_RATIO).then(|| {
            Warning::new(code, Severity::Warning, text)
                .with_value(busiest, BOUND_RATIO)
                .for_flow(flow)
        })
    };
    out.extend(bound(1, "sender-cpu-bound", "sent", facts.download));
    out.extend(bound(2, "receiver-cpu-bound", "received", facts.upload));
    let limited = facts.tcp.window_limited_us as f64 / facts.tcp.busy_us.max(1) as f64;
    if outcome.download.is_some() && limited >= 0.5 {
        let text = format!(
            "for {:.0} % of the download the browser's receive window was full: the browser or its device was slower than the path",
            limited * 100.0
        );
        let warning = Warning::new("receive-window-limited", Severity::Warning, text);
        out.push(warning.with_value(limited, 0.5).for_flow(1));
    }
    if facts.control_retransmits > 0 {
        let segments = match facts.control_retransmits {
            1 => "1 segment of the connection of the round trips was".to_owned(),
            n => format!("{n} segments of the connection of the round trips were"),
        };
        let text = format!(
            "{segments} retransmitted: the longest round trips include TCP's wait for that, which is no queueing"
        );
        let warning = Warning::new("round-trips-retransmitted", Severity::Warning, text);
        out.push(warning.with_value(facts.control_retransmits as f64, 0.0));
    }
    if outcome.bytes_used_up {
        let text = "the byte limit of the test was reached early: on such a fast path the figure covers a short time";
        out.push(Warning::new("bytes-used-up", Severity::Info, text));
    }
    out
}

/// The result that a link shows, without who made it. Absent if the record is no speed test.
pub(super) fn result(record: &Record) -> Option<Value> {
    let id = record.labels.get(LABEL).filter(|_| record.peer == PEER)?;
    let rate = |name: &str| {
        let flow = record.flows.iter().find(|flow| flow.name == name)?;
        let r = flow.receiver.as_ref()?;
        Throughput::new(r.bytes, r.seconds)
    };
    let list = |phase: &str| {
        let series = record.round_trips.iter().find(|series| series.phase == phase);
        series.map(|series| series.seconds.clone()).unwrap_or_default()
    };
    let [idle, download, upload] = PHASES.map(list);
    let round_trips = RoundTrips { idle, download, upload };
    let sums = Summaries::of(&round_trips);
    let (download, upload) = (rate("download"), rate("upload"));
    let warnings: Vec<&Warning> = record.warnings.iter().collect();
    let mut result = Map::from_iter([
        ("id".into(), json!(id)),
        ("at".into(), json!(record.started_at)),
        ("version".into(), json!(record.version)),
        ("latency".into(), json!(round_trips)),
        ("round_trips".into(), json!(sums)),
        ("uses".into(), json!(uses(download.as_ref(), upload.as_ref(), &sums))),
        ("curves".into(), json!({ "download": curve(record, 1), "upload": curve(record, 2) })),
        ("warnings".into(), json!(warnings)),
    ]);
    if let Some(verdict) = verdict(download.as_ref(), upload.as_ref(), &sums) {
        result.insert("verdict".into(), json!(verdict));
    }
    if let Some(grade) = grade(download.as_ref(), upload.as_ref(), &sums) {
        result.insert("grade".into(), json!(grade));
    }
    let rates = BTreeMap::from([("download", download), ("upload", upload)]);
    for (name, rate) in rates {
        if let Some(rate) = rate {
            result.insert(name.into(), json!(rate));
        }
    }
    Some(result.into())
}

#[cfg(test)]
mod tests {
    use super::super::session::Course;
    use super::*;

    pub(super) fn facts() -> Facts {
        Facts {
            run_id: "20261121-203009-ab12cd".into(),
            link_id: "abcdefghijklmnopqrstuv".into(),
            started_at: "2026-11-21T20:30:09.125Z".into(),
            version: "0.1.0".into(),
            seconds: 19.5,
            server: "192.0.2.1:9350".parse().unwrap(),
            browser: Some("198.51.100.7:40000".parse().unwrap()),
            is_ipv6: false,
            seed: 7,
            streams: 4,
            phase_seconds: 8,
            host: None,
            download: Some(Load::default()),
            upload: Some(Load::default()),
            tcp: Tcp { busy_us: 1000, window_limited_us: 0, retransmits: 3 },
            control_retransmits: 0,
        }
    }

    fn outcome() -> Outcome {
        Outcome {
            download: Throughput::new(7_000_000, 7.0),
            upload: Throughput::new(700_000, 7.0),
            round_trips: RoundTrips {
                idle: vec![0.01, 0.02],
                download: vec![0.08; 20],
                upload: vec![],
            },
            download_course: Course {
                start_seconds: 2.0,
                marks: vec![
                    Mark { bytes: 0, seconds: 0.01 },
                    Mark { bytes: 1_000_000, seconds: 1.0 },
                    Mark { bytes: 8_000_000, seconds: 8.0 },
                ],
            },
            upload_course: Course {
                start_seconds: 11.0,
                marks: vec![Mark { bytes: 800_000, seconds: 8.0 }],
            },
            sent: Some(Mark { bytes: 8_000_000, seconds: 8.0 }),
            received: Some(Mark { bytes: 800_000, seconds: 8.0 }),
            bytes_used_up: false,
        }
    }

    #[test]
    fn a_test_is_a_run_that_says_whose_figures_they_are() {
        let record = record(&outcome(), &facts());
        assert_eq!((record.schema.as_str(), record.peer.as_str()), (RUN_SCHEMA, "browser"));
        assert_eq!(record.plan.check(), Ok(()));
        let [down, up] = record.flows.as_slice() else { panic!("{:?}", record.flows) };
        assert_eq!(down.receiver.as_ref().unwrap().method, "browser");
        assert_eq!(up.receiver.as_ref().unwrap().method, "copy");
        assert_eq!(down.destination, "198.51.100.7:40000");
        assert_eq!(down.sender.as_ref().unwrap().bytes, 8_000_000);
        assert!(up.sender.is_none(), "what the browser sent was not measured");
        assert_eq!(record.total.forward.unwrap().sender.unwrap().retransmits, Some(3));
        let latency = record.latency.unwrap();
        assert_eq!(
            (latency.idle.unwrap().count, latency.loaded.unwrap().p50_seconds),
            (2, Some(0.08))
        );
        assert_eq!(record.warnings[0].code, "browser-claims");
        assert_eq!(record.warnings.len(), 1);
        assert_eq!(record.flows[0].receiver.as_ref().unwrap().lost_packets, None);
    }

    #[test]
    fn the_link_shows_the_run_without_who_made_it() {
        let record = record(&outcome(), &facts());
        let result = result(&record).unwrap();
        assert_eq!(result["id"], "abcdefghijklmnopqrstuv");
        assert_eq!(result["download"]["bits_per_second"], 8e6);
        assert_eq!(result["upload"]["bytes"], 700_000);
        assert_eq!(result["latency"]["idle"], json!([0.01, 0.02]));
        assert_eq!(result["latency"]["upload"], json!([]));
        assert_eq!(result["round_trips"]["download"]["p95_seconds"], 0.08);
        assert!(result["round_trips"].get("upload").is_none());
        assert!(
            result["verdict"]
                .as_str()
                .unwrap()
                .starts_with("download 8.00 Mbit/s; upload 0.80 Mbit/s")
        );
        assert!(!result.to_string().contains("198.51.100"));
        assert!(super::result(&Record { peer: "weir".into(), ..record }).is_none());
    }

    #[test]
    fn the_link_shows_the_curves_that_the_record_has() {
        let record = record(&outcome(), &facts());
        let spans: Vec<_> =
            record.intervals.iter().map(|i| (i.start_seconds, i.end_seconds, i.omitted)).collect();
        assert_eq!(spans, [(2.0, 3.0, true), (3.0, 10.0, false), (11.0, 19.0, false)]);
        let curves = &result(&record).unwrap()["curves"];
        let first = json!({ "from": 0.0, "to": 1.0, "rate": 8e6 });
        assert_eq!(
            (curves["download"].as_array().unwrap().len(), &curves["download"][0]),
            (2, &first)
        );
        assert_eq!(curves["upload"][0], json!({ "from": 0.0, "to": 8.0, "rate": 8e5 }));
        let without = super::record(&Outcome { upload: None, ..outcome() }, &facts());
        assert_eq!(result(&without).unwrap()["curves"]["upload"], json!([]));
    }

    #[test]
    fn uses_are_part_of_the_result() {
        let result = result(&record(&outcome(), &facts())).unwrap();
        let names: Vec<_> = result["uses"].as_array().unwrap().iter().map(|u| &u["name"]).collect();
        assert!(names.contains(&&json!("HD video")), "{names:?}");
    }

    #[test]
    fn addresses_are_left_out_when_asked() {
        let record = record(&outcome(), &Facts { browser: None, ..facts() });
        assert!(!serde_json::to_string(&record).unwrap().contains("198.51.100"));
        assert_eq!(record.flows[0].destination, "browser");
    }

    #[test]
    fn what_was_not_measured_is_absent() {
        let record = record(&Outcome { upload: None, ..outcome() }, &facts());
        assert_eq!((record.flows.len(), record.total.reverse.is_none()), (1, true));
        assert!(result(&record).unwrap().get("upload").is_none());
    }

    #[test]
    fn a_bottleneck_at_an_end_is_reported() {
        let busy = Load { thread_ratio: 0.95, busiest_core_ratio: Some(0.5) };
        let tcp = Tcp { busy_us: 1000, window_limited_us: 600, retransmits: 0 };
        let outcome = Outcome { bytes_used_up: true, ..outcome() };
        let facts_of = Facts { download: Some(busy), tcp, control_retransmits: 2, ..facts() };
        let record = record(&outcome, &facts_of);
        let codes: Vec<&str> = record.warnings.iter().map(|w| w.code.as_str()).collect();
        assert_eq!(
            codes,
            [
                "browser-claims",
                "sender-cpu-bound",
                "receive-window-limited",
                "round-trips-retransmitted",
                "bytes-used-up"
            ]
        );
        let busy = Load { thread_ratio: 0.1, busiest_core_ratio: Some(0.95) };
        let record = super::record(&outcome, &Facts { upload: Some(busy), ..facts() });
        assert!(
            record.warnings.iter().any(|w| w.code == "receiver-cpu-bound" && w.flow == Some(2))
        );
    }
}
