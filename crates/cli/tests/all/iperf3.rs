//! iperf3's protocol from outside: `weir test --peer iperf3`, `weir serve --peer iperf3`, and results in its form.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::has_tools;
use crate::ttcp::{Running, free_port, json_of, weir};

#[test]
fn a_test_is_served_stored_and_exported() {
    let directory = tempfile::tempdir().unwrap();
    let (own, port) = (free_port(), free_port());
    let peer = format!("--peer=iperf3={port}");
    let words = ["serve", "-B", "127.0.0.1", "-p", &own, &peer, "--json-stream"];
    let mut server = Running::start(weir(directory.path(), &words));
    let listening = server.event("peer_listening");
    assert_eq!(listening["transports"], json!(["tcp", "udp", "mptcp"]));
    let run = |words: &[&str]| {
        let all = [&["test", "127.0.0.1", "-p", &port, "--json"], words].concat();
        let output = weir(directory.path(), &all).output().unwrap();
        (output.status.code().unwrap(), json_of(&output))
    };
    let export = |id: &Value, format: &str| {
        let words = ["runs", "export", id.as_str().unwrap(), "--format", format];
        weir(directory.path(), &words).output().unwrap()
    };
    let of_udp = ["--peer", "iperf3", "-u", "-b", "1000pps", "-k", "100", "-P", "2", "-l", "500"];
    let (code, record) = run(&of_udp);
    assert_eq!((code, &record["peer"]), (0, &json!("iperf3")));
    let closed = server.event("session_closed");
    for flow in 0..2 {
        assert_eq!(record["flows"][flow]["receiver"]["packets"], 100);
        assert_eq!(closed["report"]["flows"][flow]["receiver"]["packets"], 100);
    }
    for id in [&record["id"], &closed["run"]] {
        let theirs = json_of(&export(id, "iperf3"));
        assert_eq!(theirs["end"]["sum"]["packets"], 200);
        assert_eq!(theirs["end"]["sum_received"]["bytes"], 100_000);
        assert_eq!(theirs["end"]["streams"][1]["udp"]["packets"], 100);
    }
    let lines = export(&record["id"], "iperf3-stream").stdout;
    let first: Value =
        serde_json::from_slice(lines.split(|b| *b == b'\n').next().unwrap()).unwrap();
    assert_eq!(
        (&first["event"], &first["data"]["test_start"]["protocol"]),
        (&json!("start"), &json!("UDP"))
    );

    // Weir's own port answers too.
    let words =
        ["test", "127.0.0.1", "-p", &own, "--json", "--peer", "iperf3", "-n", "10K", "-l", "1K"];
    for transport in [None, Some("-u")] {
        let words = [&words[..], transport.as_slice()].concat();
        let record = json_of(&weir(directory.path(), &words).output().unwrap());
        assert_eq!(record["total"]["forward"]["receiver"]["bytes"].as_u64().unwrap() / 1024, 10);
        assert_eq!(server.event("session_closed")["protocol"], "iperf3");
    }

    // Without the name of the tool: refused with it, or recognised.
    let (code, refused) = run(&["-n", "10K"]);
    assert_eq!((code, &refused["error"]["code"]), (3, &json!("other-tool")));
    let (code, record) = run(&["-n", "10K", "--peer", "auto"]);
    assert_eq!((code, &record["plan"]["peer"]), (0, &json!("iperf3")));
    assert_eq!(record["total"]["forward"]["receiver"]["bytes"], 10_240);
}

#[test]
fn what_iperf3_does_not_carry_is_refused_by_its_flag() {
    let directory = tempfile::tempdir().unwrap();
    for (words, flag) in [
        (&["-u", "--verify"][..], "--verify"),
        (&["--rr"], "--shape"),
        (&["-u", "-R", "--spacing", "exponential"], "--spacing"),
        (&["-O", "0.5"], "--omit"),
        (&["-P", "129"], "--parallel"),
        (&["--udp-lite"], "--udp-lite"),
        (&["--start-at", "+5s"], "--start-at"),
        (&["-u", "--header", "none"], "--header"),
    ] {
        let words = [&["test", "192.0.2.1", "--peer", "iperf3", "--json"], words].concat();
        let output = weir(directory.path(), &words).output().unwrap();
        let error = json_of(&output)["error"].clone();
        assert_eq!((output.status.code(), &error["field"]), (Some(2), &json!(flag)), "{error}");
    }
    // No format of another tool for what it can't say.
    let output = weir(directory.path(), &["test", "192.0.2.1", "--peer", "iperf", "--json"]);
    let output = { output }.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Waits until a server listens on a port of this host.
fn listens(port: &str) -> std::net::TcpStream {
    let start = std::time::Instant::now();
    loop {
        match std::net::TcpStream::connect(format!("127.0.0.1:{port}")) {
            Ok(stream) => return stream,
            Err(error) => assert!(start.elapsed().as_secs() < 30, "{error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn the_command_of_iperf3_serves_and_tests_as_iperf3_does() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let server = ["iperf3", "-s", "-1", "-J", "-p", &port];
    let server = weir(directory.path(), &server).stdout(Stdio::piped()).spawn().unwrap();
    // A connection without a cookie is no client, so the server still serves one.
    drop(listens(&port));
    let client = ["iperf3", "-c", "127.0.0.1", "-p", &port, "-u", "-b", "0", "-k", "50", "-P", "2"];
    let client = [&client[..], &["-l", "100", "-T", "t"]].concat();
    let output = weir(directory.path(), &client).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with(&format!("127.0.0.1, port {port}")), "{text}");
    assert!(lines[1].starts_with("t:  [  5] local 127.0.0.1 port "), "{text}");
    assert!(lines[2].starts_with("t:  [  7] local 127.0.0.1 port "), "{text}");
    let counts: Vec<&str> =
        lines.iter().filter(|line| line.ends_with("receiver")).copied().collect();
    assert!(counts.len() == 3 && counts[0].contains(" 0/25 (0%)"), "{text}");
    assert!(counts[2].contains("[SUM]") && counts[2].contains(" 0/50 (0%)"), "{text}");
    assert_eq!(lines.last(), Some(&"iperf Done."));
    let output = server.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let served = json_of(&output);
    assert_eq!(served["end"]["sum"]["packets"], 50);
    assert_eq!(served["start"]["test_start"]["reverse"], 0);
    assert_eq!(served["start"]["accepted_connection"]["host"], "127.0.0.1");
    // Both results are stored.
    let list = weir(directory.path(), &["runs", "list", "--json"]).output().unwrap();
    assert_eq!(json_of(&list)["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_link_of_the_name_iperf3_is_that_command() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("iperf3");
    let command = weir(directory.path(), &["-c", "127.0.0.1", "-p", &free_port(), "-J"]);
    std::os::unix::fs::symlink(command.get_program(), &link).unwrap();
    let mut linked = Command::new(&link);
    linked.args(command.get_args());
    linked.env("XDG_DATA_HOME", directory.path());
    let version = Command::new(&link).arg("-v").output().unwrap();
    assert!(version.stdout.starts_with(b"iperf 3.") && version.status.success());
    let output = linked.output().unwrap();
    // Nothing listens: iperf3's exit code, and its place of the error.
    assert_eq!(output.status.code(), Some(1));
    assert!(json_of(&output)["error"].is_string());
}

#[test]
fn the_real_iperf3_and_the_command_understand_each_other() {
    if !has_tools("the_real_iperf3_and_the_command_understand_each_other", &["iperf3"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let udp = ["-n", "1M", "-u", "-b", "50M"];
    let amounts: [&[&str]; 3] = [&["-n", "1M"], &["-n", "1M", "-R"], &udp];
    for more in amounts {
        // The command as the server.
        let port = free_port();
        let words = ["iperf3", "-s", "-1", "-p", &port];
        let server = weir(directory.path(), &words).stdout(Stdio::piped()).spawn().unwrap();
        drop(listens(&port));
        let mut client = Command::new("iperf3");
        client.args(["-c", "127.0.0.1", "-J", "-p", &port]).args(more);
        let theirs = json_of(&client.output().unwrap());
        let text = String::from_utf8(server.wait_with_output().unwrap().stdout).unwrap();
        assert!(theirs["end"]["sum_received"]["bytes"].as_u64() >= Some(1 << 20), "{theirs}");
        let own = if more.contains(&"-R") { "sender" } else { "receiver" };
        assert!(
            text.lines().any(|line| line.starts_with("[  5]") && line.ends_with(own)),
            "{text}"
        );
        // The command as the client.
        let port = free_port();
        let mut server = Command::new("iperf3");
        server.args(["-s", "-1", "-J", "-p", &port]).stdout(Stdio::piped());
        let server = server.spawn().unwrap();
        let words = [&["iperf3", "-c", "127.0.0.1", "-J", "-p", &port], more].concat();
        // iperf3 serves one client alone, so the test itself finds out whether it listens.
        let mut tries = 0;
        let ours = loop {
            let ours = json_of(&weir(directory.path(), &words).output().unwrap());
            tries += 1;
            if ours["error"].is_null() || tries > 100 {
                break ours;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        let theirs = json_of(&server.wait_with_output().unwrap());
        assert_eq!(ours["error"], Value::Null);
        let received = |end: &Value| end["end"]["sum_received"]["bytes"].as_u64();
        let bytes = (received(&ours), received(&theirs));
        match more.contains(&"-R") {
            // iperf3's server does not know what arrived.
            true => assert!(bytes.0 >= Some(1 << 20)),
            false => assert_eq!(bytes.0, bytes.1),
        }
    }
}

/// Runs a server and a client once; returns the client's exit code and the JSON of its output.
fn once(mut server: Command, mut client: Command) -> (Option<i32>, Value) {
    let mut server = server.stdout(Stdio::null()).spawn().unwrap();
    let mut tries = 0;
    let (code, output) = loop {
        let output = client.output().unwrap();
        let json = json_of(&output);
        tries += 1;
        // Until it listens.
        let refused = |text: &str| text.contains("refused") && !text.contains("server-error");
        let is_refused = json["error"].as_str().is_some_and(refused);
        if !is_refused || tries > 200 {
            break (output.status.code(), json);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    // A server whose client it refused waits for the next one.
    let _ = server.kill();
    let _ = server.wait();
    (code, output)
}

#[test]
fn users_log_in_at_either_end() {
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users");
    // The SHA-256 of "{ada}secret".
    let hash = "649724750d24496f99e258b0020be5c96fd77bdd660faf0e7b4e0e155af4c831";
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../peers/tests/data");
    let (private, public) =
        (format!("{data}/iperf3-private.pem"), format!("{data}/iperf3-public.pem"));
    std::fs::write(&users, format!("ada,{hash}\n")).unwrap();
    let port = free_port();
    let users = users.to_str().unwrap();
    let at_server = ["-s", "-1", "-p", &port, "--rsa-private-key-path", &private];
    let at_server = [&at_server[..], &["--authorized-users-path", users]].concat();
    let at_client = ["-c", "127.0.0.1", "-p", &port, "-n", "10K", "-J", "--username", "ada"];
    let at_client =
        [&at_client[..], &["--rsa-public-key-path", &public, "--get-server-output"]].concat();
    let ours = |words: &[&str]| weir(directory.path(), &[&["iperf3"], words].concat());
    let theirs = |words: &[&str]| {
        let mut command = Command::new("iperf3");
        command.args(words);
        command
    };
    let with = |mut command: Command, password: &str| {
        command.env("IPERF3_PASSWORD", password);
        command
    };
    let (code, json) = once(ours(&at_server), with(ours(&at_client), "secret"));
    assert_eq!((code, &json["end"]["sum_received"]["bytes"]), (Some(0), &json!(10_240)), "{json}");
    assert!(json["server_output_text"].as_str().unwrap().contains("receiver"));
    let (code, json) = once(ours(&at_server), with(ours(&at_client), "Secret"));
    assert_eq!((code, json["error"].is_string()), (Some(1), true));
    if !has_tools("users_log_in_at_either_end", &["iperf3"]) {
        return;
    }
    // Debian's version pads by PKCS#1.
    let padding = ["--use-pkcs1-padding"];
    let (server, client) =
        ([&at_server[..], &padding].concat(), [&at_client[..], &padding].concat());
    let (code, json) = once(ours(&server), with(theirs(&at_client), "secret"));
    assert_eq!((code, &json["end"]["sum_received"]["bytes"]), (Some(0), &json!(131_072)), "{json}");
    // Its exit code is 0 with -J.
    let (_, json) = once(ours(&server), with(theirs(&at_client), "Secret"));
    assert!(json["error"].is_string());
    let (code, json) = once(theirs(&at_server), with(ours(&client), "secret"));
    assert_eq!((code, &json["end"]["sum_received"]["bytes"]), (Some(0), &json!(10_240)), "{json}");
}

#[test]
fn a_refused_value_is_a_wrong_flag_and_any_other_error_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let code = |words: &[&str]| {
        let port = free_port();
        let words = [&["iperf3", "-p", &port], words].concat();
        weir(directory.path(), &words).output().unwrap().status.code()
    };
    let client = ["-c", "127.0.0.1"];
    for words in [
        // Refused by the parser, by the flags of a test, and by the protocol.
        &["-t", "x"][..],
        &["--dscp", "none"],
        &["-A", "x"],
        &["-w", "x"],
        &["-O", "0.5"],
        &["-F", "file", "-R"],
    ] {
        assert_eq!(code(&[&client, words].concat()), Some(2), "{words:?}");
        let json = [&client, words, &["-J"]].concat();
        assert_eq!(code(&json), Some(2), "{words:?}");
    }
    for words in [&["-B", "far.example"][..], &["--server-bitrate-limit", "fast"], &["-A", "0,1"]] {
        assert_eq!(code(&[&["-s"], words].concat()), Some(2), "{words:?}");
    }
    // Nothing listens.
    assert_eq!(code(&client), Some(1));
}

#[test]
fn a_server_ends_tests_above_its_limit() {
    let directory = tempfile::tempdir().unwrap();
    let run = |program: &str, limit: &str, more: &[&str]| {
        let port = free_port();
        let words = ["iperf3", "-s", "-p", &port, "--server-bitrate-limit", limit];
        let server = weir(directory.path(), &words);
        let words = [&["-c", "127.0.0.1", "-J", "-p", &port], more].concat();
        let client = match program {
            "weir" => weir(directory.path(), &[&["iperf3"], &words[..]].concat()),
            other => {
                let mut client = Command::new(other);
                client.args(&words);
                client
            }
        };
        once(server, client).1
    };
    for program in ["weir", "iperf3"] {
        if program == "iperf3" && !has_tools("a_server_ends_tests_above_its_limit", &["iperf3"]) {
            continue;
        }
        let refused = |limit: &str, more: &[&str]| {
            let json = run(program, limit, more);
            let text = json["error"].as_str().unwrap_or_default().to_owned();
            let theirs = "total required bandwidth is larger than server limit";
            let ours = "the total rate is above the server's limit";
            assert!(text.contains(if program == "weir" { ours } else { theirs }), "{json}");
        };
        // Stated by the client, in both directions together.
        refused("1M", &["-u", "-b", "1100k", "-t", "1"]);
        refused("1M", &["-u", "-b", "600k", "-t", "1", "--bidir"]);
        refused("1M", &["-b", "600k", "-t", "1", "-P", "2"]);
        // Measured.
        refused("1M/1", &["-t", "20"]);
        refused("1M/1", &["-t", "20", "-R"]);
        let json = run(program, "1M/1", &["-u", "-b", "500k", "-t", "2", "-l", "500"]);
        assert_eq!(json["error"], Value::Null, "{json}");
        let json = run(program, "0", &["-n", "1M"]);
        assert_eq!(json["error"], Value::Null, "{json}");
    }
}

#[test]
fn a_file_arrives_as_it_is() {
    if !has_tools("a_file_arrives_as_it_is", &["iperf3"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (sent, received) = (directory.path().join("sent"), directory.path().join("received"));
    let content: Vec<u8> = (0..300_001_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&sent, &content).unwrap();
    let port = free_port();
    let mut server = Command::new("iperf3");
    server.args(["-s", "-1", "-p", &port, "-F"]).arg(&received);
    let words = ["iperf3", "-c", "127.0.0.1", "-J", "-p", &port, "-F", sent.to_str().unwrap()];
    let (code, json) = once(server, weir(directory.path(), &words));
    assert_eq!((code, &json["end"]["sum_received"]["bytes"]), (Some(0), &json!(300_001)), "{json}");
    assert!(std::fs::read(&received).unwrap() == content);
    // Weir's server counts it; each stream sends the whole file.
    let port = free_port();
    let words = ["iperf3", "-s", "-1", "-p", &port];
    let server = weir(directory.path(), &words);
    let words = ["iperf3", "-c", "127.0.0.1", "-J", "-P", "2", "-p", &port, "-F"];
    let (code, json) =
        once(server, weir(directory.path(), &[&words[..], &[sent.to_str().unwrap()]].concat()));
    assert_eq!((code, &json["end"]["sum_received"]["bytes"]), (Some(0), &json!(600_002)), "{json}");
    let udp = [&words[..], &[sent.to_str().unwrap(), "-u", "-b", "20M"]].concat();
    let (code, json) = once(
        weir(directory.path(), &["iperf3", "-s", "-1", "-p", &port]),
        weir(directory.path(), &udp),
    );
    assert_eq!((code, &json["end"]["sum"]["lost_packets"]), (Some(0), &json!(0)), "{json}");
    assert!(json["end"]["sum"]["bytes"].as_u64() > Some(600_002), "{json}");
}
