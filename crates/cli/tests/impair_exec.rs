//! `weir impair exec`: a command behind the emulator reaches this host's services and what is beyond, by TCP and UDP,
//! and names are answered.
#![allow(clippy::unwrap_used)] // a helper outside #[test] that can't go on is a failed test

mod common;

use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use common::{WEIR, has_tools, run, skip};
use weir_lab::{Lab, LabSpec};
use weir_net::namespace::effective_user_id;

/// Two hosts that play the machine on which the command is run, and another beyond it.
fn world(test: &str) -> Option<Lab> {
    if effective_user_id() != 0 {
        skip(test, "needs root");
        return None;
    }
    if !has_tools(test, &["ip", "nft", "bash", "getent", "unshare", "ping"]) {
        return None;
    }
    let lab = Lab::up(&LabSpec::default()).unwrap();
    for (host, address) in [("a", "192.0.2.1/24"), ("b", "192.0.2.7/24")] {
        let mut command = lab.command(host, "ip").unwrap();
        command.args(["addr", "add", address, "dev", "eth0"]);
        run(command).good();
    }
    Some(lab)
}

/// Says `word` to whoever connects.
fn greets(lab: &Lab, host: &str, address: &str, word: &'static str) -> u16 {
    let listener = lab.run_in(host, || TcpListener::bind(address).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(format!("{word}\n").as_bytes());
        }
    });
    port
}

/// Answers each datagram by what `answer` makes of it.
fn answers(
    lab: &Lab,
    host: &str,
    address: &str,
    answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
) -> u16 {
    let socket = lab.run_in(host, || UdpSocket::bind(address).unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        while let Ok((n, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&answer(&bytes[..n]), from);
        }
    });
    port
}

/// The answer to a DNS query: 192.0.2.99 for an address of IPv4, nothing for other kinds.
fn name(query: &[u8]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|&b| b == 0).unwrap() + 5;
    let is_a = query[end - 4..end - 2] == [0, 1];
    let mut out = [&query[..2], &[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]].concat();
    out.extend(&query[12..end]);
    if is_a {
        out.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 99]);
    }
    out
}

#[test]
fn services_here_and_beyond_are_reached_and_names_answered() {
    let test = "services_here_and_beyond_are_reached_and_names_answered";
    let Some(lab) = world(test) else { return };
    let here = greets(&lab, "a", "127.0.0.1:0", "here");
    let beyond = greets(&lab, "b", "192.0.2.7:0", "beyond");
    let echo = |bytes: &[u8]| [b"echo ", bytes].concat();
    let udp_here = answers(&lab, "a", "127.0.0.1:0", echo);
    let udp_beyond = answers(&lab, "b", "192.0.2.7:0", echo);
    answers(&lab, "a", "127.0.0.53:53", name);
    let directory = tempfile::tempdir().unwrap();
    let resolver = directory.path().join("resolv.conf");
    std::fs::write(&resolver, "search invalid\nnameserver 127.0.0.53\noptions timeout:2\n")
        .unwrap();
    let script = format!(
        "tcp() {{ exec 3<>/dev/tcp/$1/$2; cat <&3; }}
         udp() {{ exec 4<>/dev/udp/$1/$2; echo $3 >&4; timeout 5 dd bs=100 count=1 status=none <&4; }}
         tcp $WEIR_HOST {here}; tcp 192.0.2.7 {beyond}
         udp $WEIR_HOST {udp_here} one; udp 192.0.2.7 {udp_beyond} two; udp 192.0.2.7 {udp_beyond} three
         getent ahostsv4 www.example.org | head -1 | cut -d' ' -f1
         ping -c 1 -W 1 192.0.2.7 >/dev/null; echo ping $?
         (tcp 192.0.2.7 1) 2>/dev/null; echo closed"
    );
    // This host's own resolv.conf, for the time of the test, in a mount namespace.
    let mut command = lab.command("a", "unshare").unwrap();
    let with = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    command.args(["--mount", "sh", "-c", with]).arg(&resolver).args([WEIR, "impair", "exec"]);
    command.args(["--both", "delay 25ms", "--", "bash", "-c", &script]);
    command.env("WEIR_RUNTIME_DIR", directory.path().join("runtime")).env("NO_COLOR", "1");
    let started = std::time::Instant::now();
    let ended = run(command);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(
        lines,
        ["here", "beyond", "echo one", "echo two", "echo three", "192.0.2.99", "ping 1", "closed"],
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("TCP and UDP over IPv4 go out too"), "{}", ended.stderr);
    // Six exchanges, each behind the delay.
    assert!(started.elapsed() > Duration::from_millis(6 * 50));
    assert!(std::fs::read_dir(directory.path().join("runtime")).unwrap().next().is_none());
}

#[test]
fn without_the_tools_only_services_here_are_reached_and_that_is_said() {
    let test = "without_the_tools_only_services_here_are_reached_and_that_is_said";
    let Some(lab) = world(test) else { return };
    let here = greets(&lab, "a", "127.0.0.1:0", "here");
    let directory = tempfile::tempdir().unwrap();
    // A kernel or machine without nft: nothing of that name is found.
    let mut command = lab.command("a", "unshare").unwrap();
    let hide = "mount -t tmpfs none /usr/sbin && mount -t tmpfs none /sbin; exec \"$@\"";
    let script = format!("exec 3<>/dev/tcp/$WEIR_HOST/{here}; cat <&3");
    command.args(["--mount", "sh", "-c", hide, "sh", WEIR, "impair", "exec", "--"]);
    command.args(["bash", "-c", &script]);
    command.env("WEIR_RUNTIME_DIR", directory.path().join("runtime"));
    let ended = run(command);
    assert_eq!(ended.stdout, "here\n", "{}", ended.stderr);
    assert!(ended.stderr.contains("there is no way out (nft"), "{}", ended.stderr);
}
