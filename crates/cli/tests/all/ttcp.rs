//! `weir ttcp` and `weir serve --peer ttcp` from outside, as commands and as jobs.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::common::WEIR;

/// A port that is probably free.
pub(crate) fn free_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

pub(crate) fn weir(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.args(words).env("XDG_DATA_HOME", directory).env_remove("WEIR_KEY");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A program, killed at the end of the test.
pub(crate) struct Running(Child, BufReader<ChildStdout>);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Running(child, output)
    }

    /// The next event of this name.
    pub(crate) fn event(&mut self, name: &str) -> Value {
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
    let ttcp = format!("--peer=ttcp={port}");
    let words = ["serve", "-B", "127.0.0.1", "-p", &own, &ttcp, "--json-stream"];
    let mut server = Running::start(weir(directory, &words));
    let listening = server.event("peer_listening");
    assert_eq!(listening["protocol"], "ttcp");
    assert_eq!(listening["transports"], json!(["tcp", "udp"]));
    assert_eq!(listening["addresses"], json!([format!("127.0.0.1:{port}")]));
    (server, port)
}

pub(crate) fn json_of(output: &Output) -> Value {
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
        let stored = |id: &Value| {
            let words = ["runs", "show", id.as_str().unwrap(), "--json"];
            json_of(&weir(directory.path(), &words).output().unwrap())
        };
        assert_eq!(stored(&record["id"]), record);
        // The server stores its result as well.
        let own = stored(&closed["run"]);
        assert_eq!((&own["peer"], &own["labels"]["served"]), (&json!("ttcp"), &json!("ttcp")));
        assert_eq!(own["flows"][0]["receiver"]["bytes"], 20_000);
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
    let error = refused(&["ttcp", "-t", "-s", "-A", "100", "h", "--json"]);
    assert_eq!((&error["field"], &error["given"]), (&json!("-A"), &json!("100")));
    // Refused, since a one-off server would end after the first client of either protocol.
    let output = weir(directory.path(), &["serve", "-1", "--peer", "ttcp"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Bytes that are not text, in several buffers with an incomplete one.
fn data() -> Vec<u8> {
    (0..100_003_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Runs a receiver with these flags, and a transmitter that sends `data`; the receiver's output and the transmitter's.
fn transferred(receive: &[&str], transmit: &[&str], data: &[u8]) -> (Output, Output) {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut receiving = vec!["ttcp", "-r", "-p", &port];
    receiving.extend(receive);
    let mut receiver = weir(directory.path(), &receiving).spawn().unwrap();
    let mut sending = vec!["ttcp", "-t", "-p", &port];
    sending.extend(transmit);
    sending.push("127.0.0.1");
    wait_until_bound(&port, transmit.contains(&"-u"));
    let mut sender = weir(directory.path(), &sending).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = sender.stdin.take().unwrap();
    let data = data.to_vec();
    let writer = std::thread::spawn(move || drop(input.write_all(&data)));
    let mut output = vec![];
    receiver.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    let received = Output { stdout: output, ..receiver.wait_with_output().unwrap() };
    let sent = sender.wait_with_output().unwrap();
    writer.join().unwrap();
    (received, sent)
}

fn wait_until_bound(port: &str, udp: bool) {
    let port: u16 = port.parse().unwrap();
    for _ in 0..2000 {
        let is_bound = match udp {
            true => std::net::UdpSocket::bind(("0.0.0.0", port)).is_err(),
            false => std::net::TcpListener::bind(("0.0.0.0", port)).is_err(),
        };
        if is_bound {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("port {port} is not bound");
}

#[test]
fn standard_input_arrives_on_standard_output() {
    for (receive, transmit) in [
        (&["-A", "64", "-O", "3"][..], &["-A", "4096", "-O", "1", "-l", "1000"][..]),
        (&["-B", "-l", "30000", "-T"], &[]),
    ] {
        let (received, sent) = transferred(receive, transmit, &data());
        assert_eq!(
            (received.status.code(), sent.status.code()),
            (Some(0), Some(0)),
            "{received:?}"
        );
        assert!(received.stdout == data(), "{} bytes", received.stdout.len());
        for (output, tag) in [(&received, "ttcp-r"), (&sent, "ttcp-t")] {
            let lines = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(lines.contains(&format!("{tag}: 100003 bytes in ")), "{lines}");
            assert!(lines.contains("I/O calls, msec/call = "), "{lines}");
            assert!(output.stdout.is_empty() || tag == "ttcp-r");
        }
        let lines = String::from_utf8_lossy(&sent.stderr).into_owned();
        let is_aligned = lines.contains("align=4096/1") || lines.contains("align=16384/0");
        assert!(is_aligned, "{lines}");
    }
}

#[test]
fn datagrams_carry_standard_input() {
    // Few enough for the socket's buffer.
    let few = &data()[..20_000];
    let (received, sent) = transferred(&["-u"], &["-u", "-l", "1000"], few);
    assert_eq!((received.status.code(), sent.status.code()), (Some(0), Some(0)), "{received:?}");
    assert!(received.stdout == few, "{} bytes", received.stdout.len());
}

#[test]
fn standard_input_is_sent_where_nothing_listens() {
    let directory = tempfile::tempdir().unwrap();
    let words = ["ttcp", "-t", "-u", "-l", "1000", "-p", &free_port(), "--json", "127.0.0.1"];
    let mut sender = weir(directory.path(), &words).stdin(Stdio::piped()).spawn().unwrap();
    sender.stdin.take().unwrap().write_all(&data()[..20_000]).unwrap();
    let sent = sender.wait_with_output().unwrap();
    assert_eq!(sent.status.code(), Some(0), "{sent:?}");
    let record = json_of(&sent);
    assert_eq!(record["flows"][0]["sender"]["bytes"], 20_000);
    assert!(record["flows"][0]["sender"]["refused_sends"].as_u64() > Some(0), "{record}");
}

#[test]
fn a_discarded_stream_is_read_byte_by_byte() {
    let (received, _) = transferred(&["-s", "-T"], &["-l", "500"], &data());
    assert_eq!((received.status.code(), received.stdout.len()), (Some(0), 0), "{received:?}");
    assert!(String::from_utf8_lossy(&received.stderr).contains("ttcp-r: 100003 bytes in "));
}

#[test]
fn a_closed_standard_output_ends_the_receiver() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut receiver = weir(directory.path(), &["ttcp", "-r", "-p", &port]).spawn().unwrap();
    drop(receiver.stdout.take());
    wait_until_bound(&port, false);
    // Another program's socket may have had the port's number a moment ago.
    let connect = || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).ok();
    let mut stream = std::iter::repeat_with(connect).flatten().next().unwrap();
    // Until the receiver closes the connection.
    while stream.write_all(&[7; 10_000]).is_ok() {}
    let output = receiver.wait_with_output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output"), "{output:?}");
}

#[test]
fn data_on_a_standard_stream_excludes_records_and_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let output = weir(directory.path(), &["ttcp", "-r", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let mut command = weir(directory.path(), &["job"]);
    let mut job = command.stdin(Stdio::piped()).spawn().unwrap();
    let options = json!({ "receive": "" });
    let line = json!({ "job": "peer", "protocol": "ttcp", "options": options, "store": false });
    writeln!(job.stdin.as_mut().unwrap(), "{line}").unwrap();
    let output = job.wait_with_output().unwrap();
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&error["event"], &error["data"]["field"]), (&json!("error"), &json!("pattern")));
}
