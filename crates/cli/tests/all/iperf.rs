//! `weir iperf` from outside.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::cast::is_member;
use crate::common::{Bench, WEIR, has_tools, run, until};
use crate::ttcp::{free_port, weir};

/// Whether a server listens on a port of this host.
pub(crate) fn is_listening(port: &str) -> bool {
    TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()
}

/// Waits until a server listens on a port of this host.
pub(crate) fn until_listening(port: &str) {
    let start = std::time::Instant::now();
    while !is_listening(port) {
        assert!(start.elapsed().as_secs() < 30, "nothing listens on port {port}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A server whose lines are read as they come.
struct Lines(Child, BufReader<std::process::ChildStdout>);

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Lines {
    fn start(mut command: Command) -> Lines {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Lines(child, output)
    }

    /// Lines up to the first one that contains a text.
    fn until(&mut self, text: &str) -> Vec<String> {
        let mut lines = vec![];
        for line in self.1.by_ref().lines() {
            lines.push(line.unwrap());
            if lines.last().unwrap().contains(text) {
                return lines;
            }
        }
        panic!("no {text}: {lines:?}");
    }
}

fn text(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_server_and_a_client_print_what_iperf_prints() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut server = Lines::start(weir(directory.path(), &["iperf", "-s", "-p", &port]));
    let first = server.until("window size");
    assert!(first[1].ends_with(&format!("TCP port {port}")), "{first:?}");
    let run = |words: &[&str]| {
        let all = [&["iperf", "-c", "127.0.0.1", "-p", &port], words].concat();
        text(weir(directory.path(), &all))
    };
    let (code, out) = run(&["-n", "1M", "-P", "2"]);
    assert_eq!(code, Some(0), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[1].ends_with(&format!("127.0.0.1, TCP port {port}")), "{out}");
    assert!(lines[4].starts_with("[  1] local 127.0.0.1 port "), "{out}");
    assert!(lines.last().unwrap().starts_with("[SUM] 0.0000-"), "{out}");
    assert!(lines.last().unwrap().contains("  2.00 MBytes  "), "{out}");
    for stream in ["[  1] 0.0000-", "[  2] 0.0000-"] {
        let lines = server.until(stream);
        assert!(lines.last().unwrap().contains("  1.00 MBytes  "), "{lines:?}");
    }
    let (code, out) = run(&["-u", "-b", "500pps", "-n", "50k", "-l", "1000"]);
    assert_eq!(code, Some(0), "{out}");
    let report = out.lines().last().unwrap();
    assert!(report.starts_with("[  1] 0.0000-") && report.contains(" ms 0/50 (0%)"), "{out}");
    assert!(out.contains("[  1] Sent 50 datagrams\n[  1] Server Report:\n"), "{out}");
    let lines = server.until(" ms 0/50 (0%)");
    assert!(lines.last().unwrap().starts_with("[  3] 0.0000-"), "{lines:?}");
    let (code, out) = run(&["-y", "C", "-n", "1M"]);
    let cells: Vec<&str> = out.trim().split(',').collect();
    assert_eq!(
        (code, cells.len(), cells[3], cells[7]),
        (Some(0), 9, "127.0.0.1", "1048576"),
        "{out}"
    );
}

#[test]
fn errors_have_code_1_and_wrong_flags_2() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let code = |words: &[&str]| text(weir(directory.path(), words)).0;
    assert_eq!(code(&["iperf", "-c", "127.0.0.1", "-p", &port, "-t", "1"]), Some(1));
    for wrong in [&["iperf", "-c", "h", "-U"][..], &["iperf", "-c", "h", "-n", "5X"], &["iperf"]] {
        assert_eq!(code(wrong), Some(2), "{wrong:?}");
    }
    let (code, version) = text(weir(directory.path(), &["iperf", "-v"]));
    assert!(code == Some(0) && version.starts_with("iperf version 2."), "{version}");
}

#[test]
fn the_real_iperf_and_the_command_understand_each_other() {
    if !has_tools("the_real_iperf_and_the_command_understand_each_other", &["iperf"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (free_port(), free_port());
    let mut server = Lines::start(weir(directory.path(), &["iperf", "-s", "-p", &ours]));
    server.until("window size");
    let mut real = Command::new("iperf");
    real.args(["-s", "-p", &theirs]).stderr(Stdio::null());
    let mut real = Lines::start(real);
    real.until("window size");
    let mut client = Command::new("iperf");
    client.args(["-c", "127.0.0.1", "-p", &ours, "-n", "1M"]);
    let their_text = text(client).1;
    let client = weir(directory.path(), &["iperf", "-c", "127.0.0.1", "-p", &theirs, "-n", "1M"]);
    let our_text = text(client).1;
    let total = |text: &str| {
        let line = text.lines().rfind(|line| line.contains(" sec ")).map(String::from);
        line.unwrap_or_else(|| panic!("{text}")).split_whitespace().nth(4).map(String::from)
    };
    // The header is a part of our bytes, and iperf's own write is whole.
    assert_eq!((total(&our_text), total(&their_text)), (Some("1.00".into()), Some("1.00".into())));
    assert!(server.until("0.0000-").last().unwrap().contains("1.00 MBytes"));
    assert!(real.until("0.0000-").last().unwrap().contains("1.00 MBytes"));
    let reverse = ["iperf", "-c", "127.0.0.1", "-p", &theirs, "-t", "1", "-R"];
    let (code, text) = text(weir(directory.path(), &reverse));
    assert_eq!(code, Some(0));
    assert!(text.lines().last().unwrap().starts_with("[ *1] 0.0000-"), "{text}");
}

/// How a client names a group; of IPv4 without its interface, which Debian's client does not accept.
fn to(group: &str) -> &str {
    if group.contains(':') { group } else { group.trim_end_matches("%eth0") }
}

/// Waits until host b's interface is a member of a group.
fn until_member(bench: &Bench, group: &str) {
    until("the server has joined", || is_member(bench, group));
}

#[test]
fn a_server_joins_a_group_of_either_ip_version() {
    let test = "a_server_joins_a_group_of_either_ip_version";
    let Some(bench) = Bench::up(test, &["iperf"]) else { return };
    // The host has no route to groups of IPv4, so that its address names the interface.
    let own = bench.lab.host("a").unwrap().ipv4.to_string();
    for (group, flags) in [
        ("239.77.2.1%eth0", &["-T", "3", "-B", &own][..]),
        ("ff15::77:1%eth0", &["-T", "3", "-V"]),
        // A group of the link, to which Debian's client does not send.
        ("ff02::77:1%eth0", &["-V"]),
    ] {
        let mut command = bench.lab.command("b", WEIR).unwrap();
        command.env("XDG_DATA_HOME", bench.file("server"));
        command.args(["iperf", "-s", "-u", "-y", "C", "-B", group]);
        let mut server = Lines::start(command);
        until_member(&bench, group.trim_end_matches("%eth0"));
        let programs = if group.starts_with("ff02") { &[WEIR][..] } else { &[WEIR, "iperf"] };
        for program in programs {
            let mut client = bench.lab.command("a", program).unwrap();
            client.env("XDG_DATA_HOME", bench.file("client"));
            client.args((*program == WEIR).then_some("iperf"));
            client
                .args(["-c", to(group), "-u", "-n", "100K", "-b", "8m", "-l", "1000"])
                .args(flags);
            run(client).good();
            let row = server.until(",").pop().unwrap();
            let row: Vec<&str> = row.split(',').collect();
            // Bytes, then datagrams lost and in all. Debian's client announces the end by one more.
            let all =
                if *program == WEIR { ("103000", "0", "103") } else { ("103400", "0", "104") };
            assert_eq!((row[7], row[10], row[11]), all, "{row:?}");
        }
    }
}
