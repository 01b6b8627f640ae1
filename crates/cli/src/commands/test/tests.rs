//! Tests of output and exit codes, with an engine that plays a script.

use std::cell::RefCell;

use clap::Parser;
use weir_model::plan::{Family, TransportName};
use weir_model::record::{Interval, IntervalCount, IntervalFlow, Record, Transactions, Verdict};

use super::*;
use crate::engine::TrafficError;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: TestArgs,
}

/// The results of one scripted test.
struct Seen {
    code: i32,
    output: String,
    kept: Option<Record>,
}

type Script = Box<dyn FnOnce(ClientConfig, Stop, &mut dyn FnMut(Event)) -> Result<Record, Failure>>;

fn prepared(args: &TestArgs, words: &[OsString]) -> Result<Prepared, CliError> {
    let (job, key, source) = job_of(args)?.unwrap();
    prepare(job, key, source, &args.output, words)
}

/// Runs a command line against a script, with its output in a logfile.
fn play(flags: &str, stop: &Stop, script: Script) -> Seen {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let line = format!("test h -u -t 1 --logfile {} {flags}", log.display());
    let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
    let args = Line::parse_from(&words).args;
    let job = prepared(&args, &words).unwrap();
    let kept = RefCell::new(None);
    let mut keep = |record: &Record| {
        *kept.borrow_mut() = Some(record.clone());
        Ok(())
    };
    let code = execute(job, stop, script, &mut keep);
    let output = std::fs::read_to_string(&log).unwrap();
    Seen { code, output, kept: kept.into_inner() }
}

fn interval(second: u32) -> Interval {
    let count = IntervalCount {
        bytes: 125_000,
        packets: 85,
        bits_per_second: Some(1e6),
        ..Default::default()
    };
    Interval {
        start_seconds: second.into(),
        end_seconds: f64::from(second) + 1.0,
        flows: vec![IntervalFlow { id: 1, sender: Some(count), receiver: None }],
        ..Default::default()
    }
}

/// A script that connects, starts, reports two intervals and ends with `end`.
fn two_intervals(end: impl FnOnce(Record) -> Result<Record, Failure> + 'static) -> Script {
    Box::new(move |config, _, observe| {
        let address = "127.0.0.1:9347".parse().unwrap();
        observe(Event::Connected { local: address, remote: address });
        observe(Event::Started {
            specs: config.plan.flows(Family::Ipv4, 1500),
            family: Family::Ipv4,
        });
        observe(Event::Interval(Box::new(interval(0))));
        observe(Event::Interval(Box::new(interval(1))));
        end(Record { plan: config.plan, ..Default::default() })
    })
}

fn lost(record: Option<Record>) -> Result<Record, Failure> {
    Err(Failure {
        error: TrafficError::Stopped("the peer is gone", 3),
        partial: record.map(Box::new),
    })
}

#[test]
fn a_complete_test_is_printed_and_stored() {
    let seen = play("--label site=lab", &Stop::new(), two_intervals(Ok));
    assert_eq!(seen.code, 0);
    assert!(seen.output.contains("test with h, port 9347"), "{}", seen.output);
    assert!(
        seen.output.contains("0.00-1.00") && seen.output.contains("1.00-2.00"),
        "{}",
        seen.output
    );
    let kept = seen.kept.unwrap();
    assert_eq!(kept.labels["site"], "lab");
    assert_eq!(kept.command[0], "test");
    assert!(seen.output.contains(&kept.id), "the summary says how to show the run again");
}

#[test]
fn no_store_is_respected() {
    let seen = play("--no-store", &Stop::new(), two_intervals(Ok));
    assert_eq!((seen.code, seen.kept.is_some()), (0, false));
}

#[test]
fn json_is_one_record() {
    let seen = play("--json", &Stop::new(), two_intervals(Ok));
    let record: Record = serde_json::from_str(&seen.output).unwrap();
    assert_eq!(record.schema, "weir.run/1");
    assert_eq!(record.plan_sha256.len(), 64);
    assert_eq!(Some(record.id), seen.kept.map(|k| k.id));
}

#[test]
fn the_stream_is_one_event_a_line() {
    let seen = play("--json-stream", &Stop::new(), two_intervals(|r| lost(Some(r))));
    let events: Vec<serde_json::Value> =
        seen.output.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|e| e["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["start", "interval", "interval", "error", "end"]);
    assert_eq!(events[3]["data"]["message"], "the peer is gone");
    assert_eq!(events[0]["data"]["id"], events[4]["data"]["id"]);
}

#[test]
fn results_before_a_failure_are_printed_and_stored() {
    let seen = play("", &Stop::new(), two_intervals(|r| lost(Some(r))));
    assert_eq!(seen.code, 3);
    assert!(seen.output.contains(&seen.kept.unwrap().id), "{}", seen.output);
    let seen = play("--json", &Stop::new(), two_intervals(|r| lost(Some(r))));
    assert!(serde_json::from_str::<Record>(&seen.output).is_ok(), "one object: {}", seen.output);
}

#[test]
fn a_failure_without_a_record_is_an_error_object() {
    let seen = play("--json", &Stop::new(), two_intervals(|_| lost(None)));
    let object: serde_json::Value = serde_json::from_str(&seen.output).unwrap();
    assert_eq!(object["error"]["message"], "the peer is gone");
    assert_eq!(object["error"]["exit_code"], seen.code);
    assert!(seen.kept.is_none());
}

#[test]
fn exit_codes_follow_the_record_and_the_signal() {
    let code = |status: Status, verdict: Option<bool>, signal: Option<StopReason>| {
        let stop = Stop::new();
        if let Some(reason) = signal {
            stop.request(reason);
        }
        let end = move |r: Record| {
            let verdict = verdict.map(|passed| Verdict { passed, expectations: vec![] });
            Ok(Record { status, verdict, ..r })
        };
        play("", &stop, two_intervals(end)).code
    };
    assert_eq!(code(Status::Complete, None, None), 0);
    assert_eq!(code(Status::Complete, Some(true), None), 0);
    assert_eq!(code(Status::Complete, Some(false), None), 1);
    assert_eq!(code(Status::Partial, None, None), 3);
    assert_eq!(code(Status::Interrupted, None, Some(StopReason::Interrupted)), 130);
    assert_eq!(code(Status::Interrupted, None, Some(StopReason::Terminated)), 143);
    assert_eq!(
        code(Status::Complete, None, Some(StopReason::Interrupted)),
        0,
        "it had ended already"
    );
}

#[test]
fn an_incomplete_file_and_a_silent_host_have_exit_codes() {
    let code = |flow: Flow| {
        let end = move |r: Record| Ok(Record { flows: vec![flow.clone()], ..r });
        play("", &Stop::new(), two_intervals(end)).code
    };
    for (is_whole, expected) in [(Some(true), 0), (None, 0), (Some(false), 1)] {
        let file = ReceivedFile { is_whole, ..ReceivedFile::default() };
        assert_eq!(code(Flow { received_file: Some(file), ..Flow::default() }), expected);
    }
    for (transport, completed, failed, expected) in [
        (TransportName::Icmp, 0, 3, 3),
        (TransportName::Icmp, 1, 2, 0),
        (TransportName::Icmp, 0, 0, 0),
        (TransportName::Udp, 0, 3, 0),
    ] {
        let transactions = Transactions { completed, failed, ..Transactions::default() };
        let transactions = Some(transactions);
        assert_eq!(code(Flow { transport, transactions, ..Flow::default() }), expected);
    }
}

/// A pipe whose reader has closed its end.
struct Gone;
impl std::io::Write for Gone {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn without_a_reader_the_test_is_stopped_once_and_stored() {
    let words: Vec<OsString> = ["test", "h", "-t", "0"].iter().map(Into::into).collect();
    let mut job = prepared(&Line::parse_from(&words).args, &words).unwrap();
    job.outputs = job.outputs.with_sink(crate::output::Sink::to(Box::new(Gone)));
    let mut kept = 0;
    let mut keep = |_: &Record| {
        kept += 1;
        Ok(())
    };
    let stop = Stop::new();
    let end = |r: Record| Ok(Record { status: Status::Interrupted, ..r });
    let code = execute(job, &stop, two_intervals(end), &mut keep);
    assert_eq!((code, stop.reason(), kept), (141, Some(StopReason::OutputClosed), 1));
}

#[test]
fn csv_has_intervals_and_summary() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.csv");
    play(&format!("--csv {}", path.display()), &Stop::new(), two_intervals(Ok));
    let csv = std::fs::read_to_string(&path).unwrap();
    assert_eq!(csv.lines().filter(|l| l.starts_with("interval,")).count(), 2, "{csv}");
    // The file also has the figures that became known after a row was written.
    let whole = |mut record: Record| {
        let receiver = IntervalCount { lost_packets: Some(7), ..IntervalCount::default() };
        let whole = |mut interval: Interval| {
            interval.flows[0].receiver = Some(receiver.clone());
            interval
        };
        record.intervals = [0, 1].map(|second| whole(interval(second))).into();
        Ok(record)
    };
    play(&format!("--csv {}", path.display()), &Stop::new(), two_intervals(whole));
    let csv = std::fs::read_to_string(&path).unwrap();
    let mut lines = csv.lines();
    let column = lines.next().unwrap().split(',').position(|c| c == "receiver_lost_packets");
    let rows = lines.filter(|l| l.starts_with("interval,"));
    let lost: Vec<_> = rows.map(|l| l.split(',').nth(column.unwrap()).unwrap()).collect();
    assert_eq!(lost, ["7", "7"], "{csv}");
}

#[test]
fn a_result_outlives_a_store_that_fails_and_a_csv_that_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let line = format!("test h --logfile {} --csv /dev/full", log.display());
    if !Path::new("/dev/full").exists() {
        return;
    }
    let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
    let job = prepared(&Line::parse_from(&words).args, &words).unwrap();
    let mut keep = |record: &Record| {
        Err(StoreError::Refused { id: record.id.clone(), reason: "a test".into() })
    };
    let code = execute(job, &Stop::new(), two_intervals(Ok), &mut keep);
    let output = std::fs::read_to_string(&log).unwrap();
    assert!(output.contains("1.00-2.00"), "{output}");
    assert_eq!(code, 4, "the CSV file could not be written");
}

#[test]
fn no_file_is_touched_by_a_refused_command() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("out.csv");
    std::fs::write(&csv, "old").unwrap();
    let line =
        format!("test h --csv {} --logfile {}/none/log", csv.display(), dir.path().display());
    let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
    assert_eq!(prepared(&Line::parse_from(&words).args, &words).err().unwrap().exit_code(), 2);
    assert_eq!(std::fs::read_to_string(&csv).unwrap(), "old");
}
