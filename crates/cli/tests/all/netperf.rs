//! `weir netperf` and `weir netserver` from outside, as flent and scripts call them.

use std::collections::BTreeMap;
use std::process::{Child, Command};

use crate::common::has_unpackaged;
use crate::iperf::{is_listening, until_listening};
use crate::ttcp::{free_port, weir};

/// A program that is killed when the test ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn netserver(directory: &std::path::Path, port: &str, more: &[&str]) -> Program {
    let words = [&["netserver", "-D", "-4", "-p", port], more].concat();
    let mut command = weir(directory, &words);
    command.stdout(std::process::Stdio::null());
    let program = Program(command.spawn().unwrap());
    until_listening(port);
    program
}

/// Exit code and standard output.
fn output(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// The lines NAME=VALUE.
fn values(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once('=')).collect()
}

#[test]
fn names_and_interim_results_are_printed_as_flent_reads_them() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let _server = netserver(directory.path(), &port, &[]);
    // The names that flent asks for.
    let names = "THROUGHPUT,LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL,TRANSPORT_MSS,LOCAL_TRANSPORT_RETRANS,\
                 REMOTE_TRANSPORT_RETRANS,LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS,DIRECTION,ELAPSED_TIME,PROTOCOL,\
                 LOCAL_SEND_SIZE,LOCAL_RECV_SIZE,REMOTE_SEND_SIZE,REMOTE_RECV_SIZE,LOCAL_BYTES_SENT,\
                 LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD";
    for (test, direction, protocol) in [
        ("TCP_STREAM", "Send", "TCP"),
        ("TCP_MAERTS", "Receive", "TCP"),
        ("UDP_RR", "Send|Recv", "UDP"),
    ] {
        let global = ["netperf", "-P", "0", "-v", "0", "-D", "-0.20", "-4", "-Y", "CS1,CS1"];
        let global =
            [&global[..], &["-H", "127.0.0.1", "-p", &port, "-t", test, "-l", "1"]].concat();
        let own = ["-F", "/dev/urandom", "--", "-H", "127.0.0.1", "-k", names];
        let (code, text) = output(weir(directory.path(), &[&global[..], &own].concat()));
        assert_eq!(code, Some(0), "{text}");
        let values = values(&text);
        assert_eq!((values["DIRECTION"], values["PROTOCOL"]), (direction, protocol));
        assert_eq!((values["LOCAL_SOCKET_TOS"], values["REMOTE_SOCKET_TOS"]), ("0x20", "0x20"));
        let number = |name: &str| values[name].parse::<f64>().unwrap();
        assert!(number("THROUGHPUT") > 0.0 && number("ELAPSED_TIME") >= 0.9, "{text}");
        for name in ["NETPERF_INTERIM_RESULT[0]", "NETPERF_INTERVAL[0]", "NETPERF_ENDING[0]"] {
            assert!(number(name) > 0.0, "{text}");
        }
        if test == "TCP_STREAM" {
            assert!(number("REMOTE_BYTES_RECVD") > 0.0);
            assert_eq!(number("REMOTE_BYTES_RECVD"), number("LOCAL_BYTES_SENT"));
            assert!(number("TRANSPORT_MSS") > 0.0);
        }
    }
    let list = weir(directory.path(), &["runs", "list", "--json"]).output().unwrap();
    let runs = crate::ttcp::json_of(&list)["runs"].as_array().map(Vec::len);
    assert_eq!(runs, Some(6), "both ends store their results");
}

#[test]
fn tables_amounts_and_repetitions() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let _server = netserver(directory.path(), &port, &[]);
    let run = |words: &[&str]| {
        let all = [&["netperf", "-H", "127.0.0.1", "-p", &port], words].concat();
        output(weir(directory.path(), &all))
    };
    let (code, text) = run(&["-t", "TCP_RR", "-l", "-100", "--", "-r", "10,20"]);
    let last: Vec<&str> = text.lines().rev().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((code, &last[2..4]), (Some(0), &["10", "20"][..]), "{text}");
    assert!(text.starts_with("MIGRATED TCP REQUEST/RESPONSE TEST from "), "{text}");
    let words = ["-P", "0", "-l", "-1000000", "-c", "-C", "-B", "tag"];
    let (code, text) = run(&words);
    let cells: Vec<&str> = text.split_whitespace().collect();
    assert_eq!((code, cells.len(), cells.last()), (Some(0), 10, Some(&"tag")), "{text}");
    let words = ["-P", "0", "-l", "-50", "-t", "TCP_CRR", "-i", "3,3", "-I", "95,0.001"];
    let names = ["--", "-o", "CONFIDENCE_ITERATION,REMOTE_RECV_CALLS,NO_SUCH_NAME"];
    let (code, text) = run(&[&words[..], &names].concat());
    assert_eq!((code, text.as_str()), (Some(0), "3,50,\n"));
    let (code, text) =
        run(&["-t", "OMNI", "-l", "-5", "--", "-d", "rr", "-T", "udp", "-k", "PROTOCOL"]);
    assert_eq!((code, values(&text)["PROTOCOL"]), (Some(0), "UDP"));
}

#[test]
fn a_passphrase_opens_a_netserver() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let _server = netserver(directory.path(), &port, &["-Z", "open sesame"]);
    let run = |more: &[&str]| {
        let words =
            ["netperf", "-H", "127.0.0.1", "-p", &port, "-P", "0", "-v", "0", "-l", "-1000"];
        output(weir(directory.path(), &[&words[..], more].concat())).0
    };
    assert_eq!(run(&["-Z", "open sesame"]), Some(0));
    assert_eq!(run(&["-Z", "open"]), Some(1));
    assert_eq!(run(&[]), Some(1));
}

#[test]
fn errors_have_netperfs_code_and_wrong_flags_2() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    assert!(!is_listening(&port));
    let code = |words: &[&str]| output(weir(directory.path(), words)).0;
    assert_eq!(code(&["netperf", "-H", "127.0.0.1", "-p", &port, "-l", "1"]), Some(1));
    for wrong in [
        &["netperf", "-t", "FOO"][..],
        &["netperf", "-N"],
        &["netperf", "--", "-m", "x"],
        &["netperf", "--", "-Q"],
        &["netserver", "-L", "no-address"],
    ] {
        assert_eq!(code(wrong), Some(2), "{wrong:?}");
    }
    let (code, text) = output(weir(directory.path(), &["netperf", "--", "-O", "?"]));
    assert_eq!((code, text.lines().count()), (Some(1), 174));
    let link = directory.path().join("netperf");
    let command = weir(directory.path(), &[]);
    std::os::unix::fs::symlink(command.get_program(), &link).unwrap();
    let version = Command::new(&link).arg("-V").output().unwrap();
    assert!(version.stdout.starts_with(b"Netperf version 2.") && version.status.success());
}

#[test]
fn the_real_netperf_and_the_commands_understand_each_other() {
    let name = "the_real_netperf_and_the_commands_understand_each_other";
    if !has_unpackaged(name, &["netperf", "netserver"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (free_port(), free_port());
    let _ours = netserver(directory.path(), &ours, &["-Z", "x"]);
    let mut server = Command::new("netserver");
    server.args(["-D", "-4", "-Z", "x", "-p", &theirs]);
    let _theirs = Program(server.stdout(std::process::Stdio::null()).spawn().unwrap());
    until_listening(&theirs);
    let arguments = |port| {
        let words =
            ["-H", "127.0.0.1", "-p", port, "-Z", "x", "-P", "0", "-t", "TCP_RR", "-l", "1"];
        [&words[..], &["--", "-k", "REQUEST_SIZE,DIRECTION,REMOTE_RECV_CALLS"]].concat()
    };
    let mut command = Command::new("netperf");
    command.args(arguments(&ours));
    let their_text = output(command).1;
    let words = [&["netperf"], &arguments(&theirs)[..]].concat();
    let our_text = output(weir(directory.path(), &words)).1;
    for name in ["REQUEST_SIZE", "DIRECTION"] {
        assert_eq!(values(&our_text)[name], values(&their_text)[name]);
    }
    assert!(values(&our_text)["REMOTE_RECV_CALLS"].parse::<u64>().unwrap() > 0);
}
