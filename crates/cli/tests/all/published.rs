//! Three campaigns run for real, few and short runs of each: the generator, the emulator and other tools end in a table of the
//! study in which no row, column or cell is missing. The others take longer; their tables are tested without traffic.

use crate::common;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A campaign, and the table to expect of it.
struct Campaign {
    scenario: &'static str,
    set: &'static [&'static str],
    table: &'static str,
    /// Number of rows and of columns that are measured.
    measured: (usize, usize),
    /// The file of the published figures, which of its rows, and their columns.
    published: &'static str,
    only: Option<(&'static str, &'static str)>,
    columns: &'static [&'static str],
    /// Values in the first label of the rows that were measured; all if empty.
    rows: &'static [&'static str],
}

const CAMPAIGNS: [Campaign; 3] = [
    Campaign {
        scenario: "packet-rate",
        set: &["runs=1"],
        table: "packet-rate",
        measured: (6, 1),
        published: "ip-traffic-packets.csv",
        only: None,
        columns: &["packets_per_second"],
        rows: &[],
    },
    Campaign {
        scenario: "ttcp-link",
        // The link of the study, ten times as fast.
        set: &["down=453330", "up=240000"],
        table: "receiver",
        measured: (4, 7),
        published: "ttcp-note.csv",
        only: Some(("side", "receiver")),
        columns: &[
            "bytes",
            "seconds",
            "printed_rate",
            "io_calls",
            "printed_ms_per_call",
            "printed_calls_per_second",
        ],
        rows: &[],
    },
    Campaign {
        scenario: "tools",
        set: &["runs=2", "sizes=128,1408"],
        table: "tools",
        measured: (11, 12),
        published: "tools-2011.csv",
        only: None,
        columns: &["tcp_megabits_per_second", "variance"],
        rows: &["128", "1408"],
    },
];

/// The published figures as the file has them, line by line.
fn published(campaign: &Campaign, scenarios: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(scenarios.join("published").join(campaign.published));
    let text = text.unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| lines[0].iter().position(|head| *head == name).unwrap();
    let is_wanted =
        |line: &[&str]| campaign.only.is_none_or(|(name, value)| line[column(name)] == value);
    let figures = |line: &Vec<&str>| -> Vec<String> {
        campaign.columns.iter().map(|name| line[column(name)].to_owned()).collect()
    };
    let lines = lines[1..].iter().filter(|line| is_wanted(line));
    lines.flat_map(figures).filter(|text| !text.is_empty()).collect()
}

fn list<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    of[name].as_array().unwrap_or_else(|| panic!("{name}: {of}"))
}

#[test]
fn three_campaigns_fill_the_tables_of_their_studies() {
    let test = "three_campaigns_fill_the_tables_of_their_studies";
    if weir_net::namespace::effective_user_id() != 0 {
        return common::skip(test, "needs root");
    }
    let _turn = common::turn();
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for campaign in &CAMPAIGNS {
        let home = tempfile::tempdir().unwrap();
        let file = scenarios.join(format!("{}.toml", campaign.scenario));
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["run", "--quick", "--json"]).arg(&file).stdin(Stdio::null());
        command.args(campaign.set.iter().flat_map(|set| ["--set", set]));
        let output =
            command.env("XDG_DATA_HOME", home.path()).env("HOME", home.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let result: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{}: {e}: {said}", campaign.scenario));
        assert_eq!(result["status"], "complete", "{said}");
        for step in list(&result, "steps") {
            assert_ne!(step["outcome"], "error", "{}: {step}", campaign.scenario);
        }
        check(campaign, &result, &published(campaign, &scenarios));
    }
}

fn check(campaign: &Campaign, result: &Value, published: &[String]) {
    let named = |table: &&Value| table["name"] == campaign.table;
    let table = list(result, "tables").iter().find(named).unwrap();
    let (rows, columns) = (list(table, "rows"), list(table, "columns"));
    let measured = columns.iter().filter(|column| column["published"] == false);
    assert_eq!((rows.len(), measured.count()), campaign.measured, "{table}");
    let mut figures = vec![];
    for row in rows {
        let cells = list(row, "cells");
        assert_eq!(cells.len(), columns.len(), "{row}");
        let label = row["labels"][0].as_str().unwrap();
        let is_run = campaign.rows.is_empty() || campaign.rows.contains(&label);
        for (cell, column) in cells.iter().zip(columns) {
            if column["published"] == true {
                // The ratio of a rate to the nominal one is no figure of the note's own.
                if column["metrics"][0] != "payload_usage" {
                    let texts = cell["texts"].as_array().into_iter().flatten();
                    figures.extend(texts.map(|text| text.as_str().unwrap().to_owned()));
                }
                continue;
            }
            match cell["absent"].as_str() {
                None => {
                    let values = list(cell, "figures").iter();
                    assert!(values.clone().all(Value::is_number), "{column}: {cell}");
                    assert_eq!(values.count(), list(column, "units").len(), "{column}: {cell}");
                }
                Some("not run") => assert!(!is_run, "{column} at {label}"),
                Some("not installed") => assert!(lacks_a_tool(result, column), "{column}"),
                Some(other) => panic!("{column} at {label}: {other}"),
            }
        }
    }
    figures.retain(|text| !text.is_empty());
    assert_eq!(figures, published, "{}", campaign.scenario);
}

/// Whether the tool of a measured column is one that this host lacks.
fn lacks_a_tool(result: &Value, column: &Value) -> bool {
    let head = column["head"].as_str().unwrap();
    let tool = head.split(',').next().unwrap();
    let ran = list(result, "steps").iter().flat_map(|step| step["tools"].as_array());
    tool != "weir" && !ran.flatten().any(|ran| ran["name"] == tool)
}
