//! A plan whose connections go to two servers, as one test of the command line.

use crate::faults_common;
use std::fs;

use faults_common::*;
use serde_json::Value;

fn plan(hosts: [&str; 2]) -> String {
    let connection = |name: &str, transport: &str, host: &str| {
        format!(
            "[[connection]]\nname = \"{name}\"\ntransport = \"{transport}\"\nhost = \"{host}\"\n\
             rate = \"4M\"\nduration = \"300ms\"\n"
        )
    };
    let [a, b] = hosts;
    let connections = connection("one", "udp", a) + &connection("two", "tcp", b);
    format!("schema = \"weir.plan/1\"\ninterval = \"100ms\"\n{connections}")
}

#[test]
fn every_output_names_the_server_of_each_flow() {
    let dir = tempfile::tempdir().unwrap();
    let (file, csv) = (dir.path().join("plan.toml"), dir.path().join("rows.csv"));
    let servers = [Serve::start(&[]), Serve::start(&[])];
    let hosts = servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port));
    fs::write(&file, plan(hosts.each_ref().map(String::as_str))).unwrap();
    let test = |words: &[&str]| {
        let mut command = weir();
        command.args(["test", "--no-store", "--plan"]).arg(&file).args(words);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        out(&output)
    };
    let record: Value =
        serde_json::from_str(&test(&["--json", "--csv", csv.to_str().unwrap()])).unwrap();
    let of = |list: &Value, field: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|v| v[field].as_str().unwrap().into()).collect()
    };
    assert_eq!(of(&record["flows"], "host"), hosts);
    assert_eq!(of(&record["servers"], "name"), hosts);
    assert_eq!(record["status"], "complete", "{record}");

    let rows = fs::read_to_string(&csv).unwrap();
    let mut lines = rows.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| columns.iter().position(|c| *c == name).unwrap();
    let (kind, id, host) = (column("kind"), column("flow_id"), column("flow_host"));
    let mut kinds = std::collections::BTreeSet::new();
    for cells in lines.map(|line| line.split(',').collect::<Vec<_>>()) {
        if let Ok(index) = cells[id].parse::<usize>() {
            assert_eq!(cells[host], hosts[index - 1], "{cells:?}");
            kinds.insert(cells[kind].to_owned());
        }
    }
    assert_eq!(Vec::from_iter(kinds), ["interval", "summary"]);

    // Of each flow: the line in the heading, the intervals, both ends in the summary.
    let text = test(&[]);
    for (flow, host) in ["[  1]", "[  2]"].into_iter().zip(&hosts) {
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(flow)).collect();
        assert!(lines.iter().filter(|line| line.contains(host)).count() >= 5, "{text}");
    }
}

#[test]
fn each_host_of_the_command_line_has_the_connections_of_the_flags() {
    let servers = [Serve::start(&[]), Serve::start(&[])];
    let hosts = servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port));
    let test = |words: &[&str]| {
        let mut command = weir();
        command.args(["test", "--no-store", "-u", "-b", "1M", "-t", "0.3", "-P", "2"]);
        let output = command.args(words).args(&hosts).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        out(&output)
    };
    let record: Value = serde_json::from_str(&test(&["--json"])).unwrap();
    let sent = |of: &Value| of["total"]["forward"]["sender"]["packets"].as_u64().unwrap();
    let per_server: Vec<u64> = record["servers"].as_array().unwrap().iter().map(sent).collect();
    assert_eq!((per_server.len(), per_server.iter().sum::<u64>()), (2, sent(&record)));
    assert!(per_server.iter().all(|packets| *packets > 0), "{per_server:?}");
    assert_eq!(record["flows"].as_array().unwrap().len(), 4);

    let text = test(&[]);
    for host in &hosts {
        let sums = text.lines().filter(|line| line.starts_with("[SUM]") && line.contains(host));
        assert_eq!(sums.count(), 2, "{text}");
    }

    let repeated: Value = serde_json::from_str(&test(&["--runs", "2", "--json"])).unwrap();
    let rate = &repeated["steps"][0]["points"][0]["metrics"]["throughput"];
    assert_eq!(rate["count"], 2, "{repeated}");
    assert!(rate["mean"].as_f64().unwrap() > 3e6, "of four connections: {rate}");
}

#[test]
fn a_connection_without_a_host_needs_that_of_the_test() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plan.toml");
    let text = plan(["192.0.2.1", "192.0.2.2"]).replacen("host = \"192.0.2.2\"\n", "", 1);
    fs::write(&file, text).unwrap();
    let output = weir().args(["test", "--plan"]).arg(&file).output().unwrap();
    let refused = refusal(&output);
    assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("HOST"), 2));
}
