//! `weir ttcp` and `weir serve --ttcp` from outside, as commands and as jobs.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::common::WEIR;

/// A port that is probably free.
fn free_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn weir(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.args(words).env("XDG_DATA_HOME", directory).env_remove("WEIR_KEY");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A program, killed at the end of the test.
struct Running(Child, BufReader<ChildStdout>);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Running(child, output)
    }

    /// The next event of this name.
    fn event(&mut self, name: &str) -> Value {
        for line in self.1.by_ref().lines() {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            assert_ne!(event["event"], "error", "{event}");
            if event["event"] == name {
                return event["data"].clone();
            }
        }
        panic!("no event {name}");
    }
}

fn server(directory: &Path) -> (Running, String) {
    let (own, port) = (free_port(), free_port());
    let ttcp = format!("--ttcp={port}");
    let words = ["serve", "-B", "127.0.0.1", "-p", &own, &ttcp, "--json-stream"];
    let mut server = Running::start(weir(directory, &words));
    let listening = server.event("peer_listening");
    assert_eq!(listening["protocol"], "ttcp");
    assert_eq!(listening["transports"], json!(["tcp", "udp"]));
    assert_eq!(listening["addresses"], json!([format!("127.0.0.1:{port}")]));
    (server, port)
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_test_is_served_reported_and_stored() {
    let directory = tempfile::tempdir().unwrap();
    let (mut server, port) = server(directory.path());
    for transport in [None, Some("-u")] {
        let mut words = vec!["ttcp", "-t", "-s", "-n", "20", "-l", "1000", "-p", &port];
        words.extend(transport);
        words.extend(["--json", "--label", "site=here", "127.0.0.1"]);
        let output = weir(directory.path(), &words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let record = json_of(&output);
        assert_eq!((&record["peer"], &record["labels"]["site"]), (&json!("ttcp"), &json!("here")));
        assert_eq!(record["flows"][0]["sender"]["bytes"], 20_000);
        // The lines of ttcp are printed on the same stream as by ttcp itself.
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("ttcp-t: buflen=1000, nbuf=20, "), "{said}");
        assert!(said.contains("ttcp-t: 20000 bytes in "), "{said}");
        let closed = server.event("session_closed");
        assert_eq!(closed["protocol"], "ttcp");
        assert_eq!(closed["report"]["flows"][0]["receiver"]["bytes"], 20_000);
        let stored = weir(directory.path(), &["runs", "show", "last", "--json"]).output().unwrap();
        assert_eq!(json_of(&stored)["id"], record["id"]);
    }
}

#[test]
fn a_job_runs_ttcp_as_the_command_does() {
    let directory = tempfile::tempdir().unwrap();
    let (mut server, port) = server(directory.path());
    let mut command = weir(directory.path(), &["job"]);
    let mut job = Running::start({
        command.stdin(Stdio::piped());
        command
    });
    let options = json!({ "transmit": "", "pattern": "", "host": "127.0.0.1", "port": port,
        "buffers": "5", "length": "100" });
    let line = json!({ "job": "peer", "protocol": "ttcp", "options": options, "store": false });
    writeln!(job.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    assert_eq!(job.event("end")["flows"][0]["sender"]["bytes"], 500);
    assert_eq!(job.0.wait().unwrap().code(), Some(0));
    assert_eq!(server.event("session_closed")["report"]["flows"][0]["receiver"]["bytes"], 500);
}

#[test]
fn refusals_name_the_flag_or_the_option() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |words: &[&str]| {
        let output = weir(directory.path(), words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        json_of(&output)["error"].clone()
    };
    let error = refused(&["ttcp", "-t", "-s", "-u", "-l", "4", "h", "--json"]);
    assert_eq!((&error["field"], &error["given"]), (&json!("-l"), &json!("4")));
    assert_eq!(error["accepted"], "5 to 65507");
    let error = refused(&["ttcp", "-t", "h", "--json"]);
    assert_eq!((&error["field"], &error["given"]), (&json!("-s"), &json!("missing")));
    // Refused, since a one-off server would end after the first client of either protocol.
    let output = weir(directory.path(), &["serve", "-1", "--ttcp"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
