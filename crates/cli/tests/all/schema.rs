//! The program's actual output, checked by the published schemas and read by other programs' parsers.

use crate::common;
use std::path::Path;
use std::process::Command;

use common::{Bench, Running, run, signal, until};
use serde_json::Value;
use weir_model::record::{Record, Status};

/// Validates with Python's `jsonschema`, an independent implementation. Also checks that every number is finite and that no
/// value is null: values that were not measured are absent.
const VALIDATE: &str = r#"
import json, math, sys
import jsonschema
schema = json.load(open(sys.argv[1]))
def no(name):
    raise ValueError(name + " is no JSON")
record = json.load(open(sys.argv[2]), parse_constant=no)
kind = jsonschema.validators.validator_for(schema)
kind.check_schema(schema)
errors = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in kind(schema).iter_errors(record)]
def walk(value, path):
    if isinstance(value, dict):
        for key, inner in value.items():
            walk(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            walk(inner, f"{path}/{index}")
    elif value is None and not path.startswith("/plan"):
        errors.append(f"{path}: null")
    elif isinstance(value, float) and not math.isfinite(value):
        errors.append(f"{path}: {value}")
walk(record, "")
print("\n".join(errors))
"#;

/// Reads a table with Python's csv module and prints it as JSON: a list of rows by column.
const READ_CSV: &str = r#"
import csv, json, sys
with open(sys.argv[1], newline="") as table:
    rows = list(csv.reader(table, strict=True))
assert all(len(row) == len(rows[0]) for row in rows), "ragged"
assert len(set(rows[0])) == len(rows[0]), "two columns of one name"
print(json.dumps([dict(zip(rows[0], row)) for row in rows[1:]]))
"#;

fn python(program: &str, script: &str, words: &[&Path]) -> String {
    let mut command = Command::new(program);
    command.args(["-c", script]).args(words);
    run(command).good()
}

/// A Python with `jsonschema`: the first in PATH, or Debian's, which has it as a package.
fn jsonschema(test: &str) -> Option<&'static str> {
    let has = |python: &&str| {
        let output = Command::new(python).args(["-c", "import jsonschema"]).output();
        output.is_ok_and(|o| o.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has);
    if found.is_none() {
        common::skip(test, "Python's jsonschema missing (scripts/ensure.sh test)");
    }
    found
}

/// Validates a printed record by its schema.
#[track_caller]
fn validate(bench: &Bench, python3: &str, text: &str) -> Record {
    validate_as("weir.run-1", &bench.file("record.json"), python3, text);
    serde_json::from_str(text).unwrap()
}

/// Validates a text by a published schema; `file` is the path to which the text is written.
#[track_caller]
fn validate_as(schema: &str, file: &Path, python3: &str, text: &str) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../docs/schemas/{schema}.schema.json"));
    std::fs::write(file, text).unwrap();
    let errors = python(python3, VALIDATE, &[&schema, file]);
    assert_eq!(errors.trim(), "");
}

#[test]
fn printed_experiments_and_comparisons_match_their_schemas() {
    let Some(python3) = jsonschema("printed_experiments_and_comparisons_match_their_schemas")
    else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let weir = |words: &[&str]| {
        let mut command = Command::new(common::WEIR);
        command.args(words).env("WEIR_DATA_DIR", dir.path().join("data"));
        run(command).good()
    };
    let file = dir.path().join("text.json");
    let scenario = root.join("../../scenarios/voice-over-bad-path.toml");
    // The expectations of its TCP flow are not judged: the exit code is not 0, but the result is valid.
    let mut command = Command::new(common::WEIR);
    command.args(["run", "--simulate", "--json", scenario.to_str().unwrap()]);
    let text = run(command).stdout;
    validate_as("weir.experiment-1", &file, python3, &text);
    let golden = root.join("../report/tests/golden");
    let text = std::fs::read_to_string(golden.join("experiment.json")).unwrap();
    validate_as("weir.experiment-1", &file, python3, &text);
    for name in ["everything.json", "udp_loss.json", "partial.json", "tcp_bidir.json"] {
        weir(&["runs", "import", golden.join(name).to_str().unwrap()]);
    }
    // Two runs by their intervals, one of them incomplete, and sets of runs.
    let ids = ["20261122-081500-e0e0e0", "20261121-203009-ab12cd"];
    for words in [
        &["runs", "diff", "--json", ids[0], ids[1]][..],
        &["runs", "diff", "--json", "last~3", "last~2"],
        &[
            "runs", "diff", "--json", "--a", "last", "--a", "last~1", "--b", "last~2", "--b",
            "last~3",
        ],
    ] {
        validate_as("weir.runs-diff-1", &file, python3, &weir(words));
    }
    let printed: Value = serde_json::from_str(&weir(&["schema", "runs-diff"])).unwrap();
    let path = root.join("../../docs/schemas/weir.runs-diff-1.schema.json");
    assert_eq!(
        printed,
        serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap()
    );
}

#[test]
fn printed_records_match_the_schema() {
    let test = "printed_records_match_the_schema";
    let Some(mut bench) = Bench::up(test, &["python3"]) else { return };
    let Some(python3) = jsonschema(test) else { return };
    bench.serve(&[]);
    let short = ["--json", "-t", "500ms", "-i", "100ms"];
    for words in [
        &["-u", "-b", "1000pps", "-P", "2", "--nominal", "1G", "--label", "a=b"][..],
        &["-b", "100M"],
        &["--bidir", "-b", "100M", "-O", "100ms"],
        &["--bidir", "-u", "-b", "0", "-l", "100", "--loss-threshold", "100ms"],
        &["-u", "-l", "0", "-R", "-6"],
        &["-k", "1"],
    ] {
        let words = [&short[..], words].concat();
        // A length has several alternative forms.
        let words: Vec<&str> =
            if words.contains(&"-k") { vec!["--json", "-k", "1"] } else { words };
        let mut command = bench.test_command(&words);
        if words.contains(&"-6") {
            command = bench.lab.command("a", common::WEIR).unwrap();
            let b = bench.lab.host("b").unwrap().ipv6.to_string();
            command.args(["test", &b, "--no-store"]).args(&words);
        }
        let record = validate(&bench, python3, &run(command).good());
        assert_eq!(record.status, Status::Complete, "{words:?}");
    }
}

#[test]
fn an_interrupted_run_prints_a_valid_record() {
    let test = "an_interrupted_run_prints_a_valid_record";
    let Some(mut bench) = Bench::up(test, &["python3"]) else { return };
    let Some(python3) = jsonschema(test) else { return };
    bench.serve(&[]);
    let running = Running::start(bench.test_command(&["--json", "-t", "50", "-b", "100M"]));
    until("traffic flows", || {
        let bytes = bench.tool("b", "cat", &["/sys/class/net/eth0/statistics/rx_bytes"]);
        bytes.trim().parse::<u64>().unwrap() > 5_000_000
    });
    signal("INT", running.child());
    let ended = running.finish();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    let record = validate(&bench, python3, &ended.stdout);
    assert_eq!(record.status, Status::Interrupted);
    assert!(record.seconds < 40.0);
    let (sender, receiver) =
        (record.flows[0].sender.as_ref().unwrap(), record.flows[0].receiver.as_ref().unwrap());
    assert!(receiver.bytes > 4_000_000 && sender.bytes == receiver.bytes, "{sender:?}");
}

#[test]
fn stream_and_table_have_the_records_figures() {
    let test = "stream_and_table_have_the_records_figures";
    let Some(mut bench) = Bench::up(test, &["python3"]) else { return };
    bench.serve(&[]);
    let table = bench.file("table.csv");
    let words = ["--json-stream", "-u", "-b", "500pps", "-l", "200", "-t", "1", "-i", "200ms"];
    let csv = ["--bidir", "-T", "=title, with \"quotes\"", "--csv", table.to_str().unwrap()];
    let text = run(bench.test_command(&[&words[..], &csv[..]].concat())).good();
    let events: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|e| e["event"].as_str().unwrap()).collect();
    let count = |kind| kinds.iter().filter(|k| **k == kind).count();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("start", "end"), "{kinds:?}");
    assert_eq!((count("start"), count("end"), count("error")), (1, 1, 0), "{kinds:?}");
    assert_eq!(count("interval") + count("flows"), kinds.len() - 2, "{kinds:?}");
    let states = |flow: u32| {
        let told = events.iter().filter(|e| e["event"] == "flows");
        let changes = told.flat_map(|e| e["data"].as_array().unwrap().clone());
        let mine = changes.filter(|c| c["id"] == flow).map(|c| c["state"].clone());
        mine.collect::<Vec<_>>()
    };
    for flow in [1, 2] {
        assert_eq!(states(flow), ["started", "finished"], "flow {flow}");
    }
    assert!(count("interval") >= 5, "{kinds:?}");
    let record: Record = serde_json::from_value(events.last().unwrap()["data"].clone()).unwrap();

    let rows: Vec<Value> = serde_json::from_str(&python("python3", READ_CSV, &[&table])).unwrap();
    let of = |kind: &str| rows.iter().filter(|r| r["kind"] == kind).collect::<Vec<_>>();
    assert_eq!((of("summary").len(), of("total").len()), (2, 2));
    // One row for each flow of each interval; the last interval may have only one flow.
    let flows_of = |e: &Value| e["data"]["flows"].as_array().unwrap().len();
    let expected: usize = events.iter().filter(|e| e["event"] == "interval").map(flows_of).sum();
    assert!(expected >= 10, "{expected}");
    assert_eq!(of("interval").len(), expected);
    let number = |row: &Value, column: &str| {
        row[column].as_str().unwrap().parse::<f64>().unwrap_or_else(|_| panic!("{column}: {row}"))
    };
    for (row, flow) in of("summary").into_iter().zip(&record.flows) {
        let (sender, receiver) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert_eq!(number(row, "flow_id"), f64::from(flow.id));
        assert_eq!(number(row, "sender_packets"), sender.packets as f64);
        assert_eq!(number(row, "receiver_packets"), receiver.packets as f64);
        assert_eq!(number(row, "receiver_lost_packets"), 0.0);
        // Full precision: the same double-precision value.
        let jitter = number(row, "receiver_jitter_seconds");
        assert_eq!(jitter.to_bits(), receiver.jitter_seconds.unwrap().to_bits());
        let rate = number(row, "receiver_bits_per_second");
        assert_eq!(rate.to_bits(), receiver.bits_per_second.unwrap().to_bits());
    }
    for direction in ["forward", "reverse"] {
        let total =
            if direction == "forward" { &record.total.forward } else { &record.total.reverse };
        let total = total.as_ref().unwrap().receiver.as_ref().unwrap();
        let row = of("total").into_iter().find(|r| r["flow_direction"] == direction).unwrap();
        assert_eq!(number(row, "receiver_packets"), total.packets as f64);
    }
}
