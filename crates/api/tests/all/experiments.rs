//! Reports of several stored experiments.

use serde_json::json;

use crate::http::{ask, get};
use crate::served::{self, serve};

#[test]
fn experiments_are_reported_side_by_side_in_the_order_of_their_ids() {
    let s = serve(|_| {});
    let stored = weir_runs::Experiments::prepare(&served::data(s.directory.path())).unwrap();
    for (id, rate) in [("exp-a", "94.9"), ("exp-b", "93.1")] {
        let column = |group: &str, published: bool| json!({ "group": group, "head": "", "format": "Mb/s", "units": ["Mb/s"], "metrics": ["throughput"], "published": published });
        let cell = |text: &str| json!({ "text": text, "texts": [text], "figures": [1e6] });
        let result = json!({
            "schema": "weir.experiment/1", "id": id, "version": "0", "name": "of", "started_at": "2026-11-22T10:00:00Z",
            "seconds": 1.0, "status": "complete", "command": [], "seed": "0x7", "outcome": "done", "steps": [],
            "tables": [{
                "name": "t", "title": "A table", "row_heads": ["size"],
                "columns": [column("a study", true), column("measured", false)],
                "rows": [{ "labels": ["1"], "cells": [cell("61.0"), cell(rate)] }],
            }],
        });
        stored.keep(id, &format!("{result}\n")).unwrap();
    }
    let md = get(s.address, "/report?experiment=exp-b&experiment=exp-a&format=md").text();
    // One published column; the measured ones in the order of the query, and their difference.
    let cells = |md: &str, start: &str| -> Vec<String> {
        let row = md.lines().find(|line| line.starts_with(start)).unwrap_or_default();
        row.split('|').map(str::trim).filter(|c| !c.is_empty()).map(ToOwned::to_owned).collect()
    };
    assert_eq!(cells(&md, "| 1 |"), ["1", "61.0", "93.1", "94.9", "0 %"], "{md}");
    // Headings: labels, or by default names, never ids.
    let path = "/report?experiment=exp-b&experiment=exp-a&format=md";
    let labelled = get(s.address, &format!("{path}&label=left%20side&label=")).text();
    let heads = cells(&labelled, "| size |");
    assert_eq!(heads[2], "left side", "{heads:?}");
    assert!(heads[3].starts_with("of, 2026-11-22 10:00"), "{heads:?}");
    assert_eq!(heads.len(), 5);
    for (query, field, given) in [
        ("experiment=exp-a&experiment=exp-a", "?experiment", "exp-a"),
        ("experiment=exp-a&run=r", "?experiment", ""),
        ("experiment=exp-a&format=json", "?format", "json"),
        ("experiment=exp-a&experiment=exp-b&label=x", "?label", "1 label"),
        ("experiment=exp-a&experiment=exp-b&label=x&label=x", "?label", "x twice"),
        ("run=r&label=x", "?label", ""),
        ("", "?run", ""),
    ] {
        let refused = get(s.address, &format!("/report?{query}")).expect(422);
        let error = &refused["errors"][0];
        assert_eq!(error["field"], field, "{query}: {refused}");
        assert!(error["given"].as_str().unwrap_or_default().contains(given), "{query}: {refused}");
    }
    get(s.address, "/report?experiment=exp-a&experiment=nothing").expect(404);
}

/// A stored result, as the command line writes it.
fn result(id: &str) -> String {
    let result = json!({
        "schema": "weir.experiment/1", "id": id, "version": "0", "name": "sweep", "started_at": "2026-11-22T10:00:00Z",
        "seconds": 1.0, "status": "complete", "command": [], "seed": "0x7", "outcome": "passed", "steps": [],
    });
    format!("{result}\n")
}

#[test]
fn experiments_of_the_command_line_appear_in_the_list_of_a_running_server() {
    let s = serve(|_| {});
    let listed = || -> Vec<String> {
        let list = get(s.address, "/experiments").expect(200);
        let ids = list["experiments"].as_array().unwrap().iter();
        ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let stored = weir_runs::Experiments::prepare(&served::data(s.directory.path())).unwrap();
    assert!(listed().is_empty());
    for id in ["20261122-a", "20261122-b"] {
        stored.keep(id, &result(id)).unwrap();
    }
    assert_eq!(listed(), ["20261122-b", "20261122-a"]);
    // One that was removed from the list stays away, even if its files change.
    ask(s.address, "DELETE", "/experiments/20261122-a", &[], None).expect(204);
    stored.keep("20261122-a", &(result("20261122-a") + "\n")).unwrap();
    stored.keep("20261122-c", &result("20261122-c")).unwrap();
    assert_eq!(listed(), ["20261122-c", "20261122-b"]);
}
