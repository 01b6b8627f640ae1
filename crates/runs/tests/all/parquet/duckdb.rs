//! DuckDB as the reader of the files, in a program of Python.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs the queries of a JSON list and prints the rows of each as a JSON list of objects.
const PROGRAM: &str = "
import json, sys, duckdb
connection = duckdb.connect()
connection.execute(\"SET TimeZone = 'UTC'\")
# A slow query would print its progress among the answers.
connection.execute(\"SET enable_progress_bar = false\")
for query in json.load(sys.stdin):
    answer = connection.execute(query)
    names = [column[0] for column in answer.description]
    print(json.dumps([dict(zip(names, row)) for row in answer.fetchall()], default=str))
";

/// A Python that has DuckDB; `None` after printing that the test is skipped.
pub(crate) fn python(test: &str) -> Option<PathBuf> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let python = target.parent().unwrap().join("tools/duckdb/bin/python");
    if !python.exists() {
        eprintln!("SKIPPED {test}: DuckDB missing (scripts/ensure.sh parquet)");
        return None;
    }
    Some(python)
}

/// The answers to queries that are run in `directory`.
pub(crate) fn answers(python: &Path, directory: &Path, queries: &[String]) -> Vec<Vec<Value>> {
    let mut child = Command::new(python)
        .args(["-c", PROGRAM])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let list = serde_json::to_string(queries).unwrap();
    child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{queries:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<_> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), queries.len());
    answers
}
