//! iperf2: Weir with Weir, with Debian's iperf in both roles, and with peers that misbehave or vanish.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use weir_model::plan::Direction;
use weir_model::record::{Flow, Record, Status};
use weir_traffic::{Event, Failure, Limits, ServerEvent, Stop, StopReason};

use crate::common::{LIMIT, Program, Serving, received, run, sent, served};

fn serve(limits: Limits) -> Serving {
    Serving::start("iperf2", "127.0.0.1", limits)
}

/// Runs a plan of these connections.
fn test(to: SocketAddr, connections: &str) -> Result<Record, Failure> {
    observed(to, connections, Stop::new(), &mut |_| {})
}

/// The same with intervals of 50 ms, and what is done on each event.
fn observed(
    to: SocketAddr,
    connections: &str,
    stop: Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    run("iperf2", to, connections, stop, observe)
}

/// The reason of the next refusal.
fn refused(server: &Serving) -> String {
    loop {
        if let ServerEvent::Refused { reason, .. } = server.events.recv_timeout(LIMIT).unwrap() {
            return reason;
        }
    }
}

/// The flow of a record in a direction.
fn of(record: &Record, direction: Direction) -> &Flow {
    record.flows.iter().find(|flow| flow.direction == direction).unwrap()
}

#[test]
fn two_weirs_agree_in_each_mode() {
    for bind in ["127.0.0.1", "::1"] {
        let server = Serving::start("iperf2", bind, Limits::default());
        for connections in [
            "[[connection]]\nbytes = \"3M\"",
            "[[connection]]\ncount = 3\nbytes = \"3M\"",
            "[[connection]]\nduration = \"200ms\"\nrate = \"50M\"",
            "[[connection]]\nbytes = \"20\"",
        ] {
            let record = test(server.address, connections).unwrap();
            assert_eq!((record.status, record.peer.as_str()), (Status::Complete, "iperf2"));
            let mut near: Vec<u64> = record.flows.iter().map(|flow| sent(flow).0).collect();
            // Each stream is a session of the server.
            let far = record.flows.iter().map(|_| served(&server));
            let mut far: Vec<u64> = far
                .map(|far| {
                    assert_eq!((far.status, far.peer.as_str()), (Status::Complete, "iperf2"));
                    received(of(&far, Direction::Reverse)).0
                })
                .collect();
            near.sort_unstable();
            far.sort_unstable();
            assert_eq!(near, far, "{connections}");
            if connections.contains("3M") {
                assert_eq!(near[0], 3 << 20);
            }
        }
        for connections in [
            "[[connection]]\ndirection = \"reverse\"\nbytes = \"3M\"",
            "[[connection]]\ndirection = \"reverse\"\nduration = \"200ms\"\nrate = \"50M\"",
            "[[connection]]\nbytes = \"2M\"\n[[connection]]\nbytes = \"2M\"\ndirection = \"reverse\"",
            "[[connection]]\nduration = \"200ms\"\n[[connection]]\nduration = \"200ms\"\ndirection = \"reverse\"",
        ] {
            let record = test(server.address, connections).unwrap();
            let far = served(&server);
            assert_eq!((record.status, far.status), (Status::Complete, Status::Complete));
            assert_eq!(record.flows.len(), far.flows.len());
            let back = received(of(&record, Direction::Reverse)).0;
            assert_eq!(back, sent(of(&far, Direction::Forward)).0, "{connections}");
            assert!(back > 0);
            if record.flows.len() > 1 {
                let there = sent(of(&record, Direction::Forward)).0;
                assert_eq!(there, received(of(&far, Direction::Reverse)).0, "{connections}");
            }
        }
        for (connections, packets) in [
            ("packets = 200\nrate = \"2000pps\"", Some(200)),
            ("packets = 200\nrate = \"2000pps\"\nheader = \"iperf2-32bit\"", Some(200)),
            ("bytes = \"100K\"\npayload = 1000\nrate = \"2000pps\"", Some(103)),
            ("duration = \"200ms\"\nrate = \"1000pps\"\npayload = 76", None),
            ("packets = 2", Some(2)),
        ] {
            let text = format!("[[connection]]\ntransport = \"udp\"\n{connections}");
            let record = test(server.address, &text).unwrap();
            let far = served(&server);
            assert_eq!((record.status, far.status), (Status::Complete, Status::Complete));
            let (near, far) = (&record.flows[0], &far.flows[0]);
            assert_eq!(sent(near), received(far), "{connections}");
            // The report that the client got is the server's.
            assert_eq!(received(near), received(far), "{connections}");
            let lost = |flow: &Flow| flow.receiver.as_ref().unwrap().lost_packets;
            assert_eq!((lost(near), lost(far)), (Some(0), Some(0)));
            assert!(far.receiver.as_ref().unwrap().jitter_seconds.is_some());
            if let Some(packets) = packets {
                assert_eq!(sent(near).1, packets, "{connections}");
            }
            let counted: u64 = record
                .intervals
                .iter()
                .flat_map(|interval| &interval.flows)
                .filter_map(|flow| flow.sender.as_ref())
                .map(|sender| sender.packets)
                .sum();
            assert_eq!(counted, sent(near).1, "intervals add up");
        }
    }
}

pub(crate) fn has_iperf(name: &str) -> bool {
    let found = Command::new("iperf").arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var_os("CI").is_none());
        println!("SKIPPED {name}: no iperf");
    }
    found
}

/// Runs Debian's client.
fn iperf(server: &Serving, flags: &str) -> Output {
    let host = server.address.ip().to_string();
    let mut command = Command::new("iperf");
    command.args(["-c", &host, "-p", &server.port()]);
    if server.address.is_ipv6() {
        command.arg("-V");
    }
    command.args(flags.split_whitespace()).output().unwrap()
}

/// The rows of `-y C`, without sums: bytes by source port.
fn rows(text: &str) -> Vec<Vec<String>> {
    let row = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let rows = text.lines().map(row).filter(|row| row.len() >= 9);
    rows.filter(|row| row[2] != "0" && row[4] != "0").collect()
}

/// Bytes of the rows, sorted.
fn bytes(output: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(output).into_owned();
    let mut bytes: Vec<u64> = rows(&text).iter().map(|row| row[7].parse().unwrap()).collect();
    bytes.sort_unstable();
    bytes
}

#[test]
fn streams_of_iperf_are_served() {
    if !has_iperf("streams_of_iperf_are_served") {
        return;
    }
    for bind in ["127.0.0.1", "::1"] {
        let server = Serving::start("iperf2", bind, Limits::default());
        for flags in [
            "-n 5M",
            "-t 1",
            "-n 3M -l 8K -w 256K -M 1400 -N",
            "-n 2M -X",
            "-n 2M --trip-times",
            "-n 2M -C",
            "-t 1 -b 20M -l 10K",
            "-t 1 --isochronous=10:1m,100k",
        ] {
            let theirs = bytes(&iperf(&server, &format!("{flags} -y C")).stdout);
            let far = served(&server);
            assert_eq!((theirs.len(), far.status), (1, Status::Complete), "{flags}");
            let (arrived, _) = received(&far.flows[0]);
            // With --trip-times iperf does not count the header.
            let header = if flags.contains("trip") { arrived - theirs[0] } else { 0 };
            assert!(header <= 92, "{flags}: {arrived} and {theirs:?}");
            assert_eq!(theirs[0] + header, arrived, "{flags}");
        }
        let theirs = bytes(&iperf(&server, "-n 2M -P 4 -y C").stdout);
        let mut ours: Vec<u64> = (0..4).map(|_| received(&served(&server).flows[0]).0).collect();
        ours.sort_unstable();
        assert_eq!(theirs, ours);
        let back =
            ["-n 5M -R", "-t 1 -R", "-n 1M -R -l 16K -b 20M", "-t 1 -R --isochronous=10:4m,400k"];
        for flags in back {
            let theirs = bytes(&iperf(&server, &format!("{flags} -y C")).stdout);
            let far = served(&server);
            assert_eq!(far.status, Status::Complete, "{flags}");
            // What iperf's client counts of frames, also of its own server, is 4 bytes less.
            let less = if flags.contains("isochronous") { 4 } else { 0 };
            assert_eq!(theirs, [sent(&far.flows[0]).0 - less], "{flags}");
        }
        let both = ["-n 3M --full-duplex", "-t 1 --full-duplex"];
        for flags in both.into_iter().chain(["-t 1 --full-duplex --isochronous=10:4m,400k"]) {
            iperf(&server, &format!("{flags} -y C"));
            let far = served(&server);
            assert_eq!((far.status, far.flows.len()), (Status::Complete, 2), "{flags}");
            for flow in &far.flows {
                let moved = match flow.direction {
                    Direction::Forward => sent(flow).0,
                    Direction::Reverse => received(flow).0,
                };
                if flags.contains("-n") {
                    assert_eq!(moved, 3 << 20, "{flags}");
                }
                assert!(moved > 0);
            }
        }
    }
}

/// Lost and sent datagrams of the server's report in iperf's text.
fn report(output: &Output) -> (u64, u64) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = text.split("Server Report:").nth(1).unwrap();
    let ratio = report
        .split_whitespace()
        .find(|word| word.contains('/') && word.split('/').all(|part| part.parse::<u64>().is_ok()));
    let (lost, all) = ratio.unwrap().split_once('/').unwrap();
    (lost.parse().unwrap(), all.parse().unwrap())
}

#[test]
fn datagrams_of_iperf_are_served() {
    if !has_iperf("datagrams_of_iperf_are_served") {
        return;
    }
    for bind in ["127.0.0.1", "::1"] {
        let server = Serving::start("iperf2", bind, Limits::default());
        for flags in [
            "-u -t 1 -b 10M",
            "-u -n 100K -b 5M -l 1000",
            "-u -t 1 -b 500pps -l 200",
            "-u -t 1 -b 1M --trip-times",
            "-u -t 1 --isochronous=10:1m,100k",
            "-u -t 1 --isochronous=10:25p",
        ] {
            let output = iperf(&server, flags);
            let far = served(&server);
            let receiver = far.flows[0].receiver.as_ref().unwrap();
            assert_eq!(far.status, Status::Complete, "{flags}");
            assert_eq!(report(&output), (0, receiver.packets), "{flags}");
            assert_eq!(receiver.lost_packets, Some(0), "{flags}");
            let csv = bytes(&iperf(&server, &format!("{flags} -y C")).stdout);
            assert_eq!(csv, [received(&served(&server).flows[0]).0], "{flags}");
        }
        // Sources of one test are sessions of their own.
        iperf(&server, "-u -t 1 -b 2M -P 4");
        for _ in 0..4 {
            let far = served(&server);
            assert_eq!(far.status, Status::Complete);
            assert_eq!(far.flows[0].receiver.as_ref().unwrap().lost_packets, Some(0));
        }
    }
}

/// Whether a server has bound a port: a datagram that finds none is lost.
fn is_bound(port: u16, is_udp: bool) -> bool {
    let tables = if is_udp { ["udp", "udp6"] } else { ["tcp", "tcp6"] };
    tables.iter().any(|table| {
        let table = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        let local = format!(":{port:04X}");
        // A listening TCP socket has state 0A, a bound UDP one 07.
        let state = if is_udp { "07" } else { "0A" };
        table.lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.len() > 3 && fields[1].ends_with(&local) && fields[3] == state
        })
    })
}

/// Debian's server on a port of its own, which prints `-y C`.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _program: Program,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Server {
    pub(crate) fn start(host: &str, is_udp: bool) -> Server {
        Server::with_flags(host, is_udp, &[])
    }

    fn with_flags(host: &str, is_udp: bool, flags: &[&str]) -> Server {
        Server::bound(host, host, is_udp, flags)
    }

    /// One that is bound to another address than its host's, such as a group.
    fn bound(bind: &str, host: &str, is_udp: bool, flags: &[&str]) -> Server {
        let free = format!("{}:0", if host == "::1" { "[::1]" } else { host });
        let address = match is_udp {
            true => UdpSocket::bind(&free).unwrap().local_addr().unwrap(),
            false => TcpListener::bind(&free).unwrap().local_addr().unwrap(),
        };
        let port = address.port();
        let mut command = Command::new("iperf");
        command.args(["-s", "-y", "C", "-p", &port.to_string(), "-B", bind]).args(flags);
        if is_udp {
            command.arg("-u");
        }
        if host == "::1" {
            command.arg("-V");
        }
        let mut program = Program(command.stdout(Stdio::piped()).spawn().unwrap());
        let begun = Instant::now();
        while !is_bound(port, is_udp) {
            assert!(begun.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut stdout = program.0.stdout.take().unwrap();
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut text = vec![];
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut chunk) {
                text.extend_from_slice(&chunk[..length]);
                let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
            }
        });
        Server { address, _program: program, lines }
    }

    /// Its rows, when there are this many: it writes one when a session has ended.
    pub(crate) fn rows(&self, sessions: usize) -> Vec<Vec<String>> {
        let mut found = vec![];
        while found.len() < sessions {
            found = rows(&self.lines.recv_timeout(LIMIT).unwrap());
        }
        found
    }
}

/// Runs a test against Debian's server; returns the record and the server's rows.
fn against_iperf(
    connections: &str,
    flags: &[&str],
    host: &str,
    sessions: usize,
) -> (Record, Vec<Vec<String>>) {
    let server = Server::with_flags(host, connections.contains("udp"), flags);
    let record = test(server.address, connections).unwrap();
    (record, server.rows(sessions))
}

#[test]
fn a_server_of_iperf_receives_streams() {
    if !has_iperf("a_server_of_iperf_receives_streams") {
        return;
    }
    for host in ["127.0.0.1", "::1"] {
        for (connections, sessions) in [
            ("[[connection]]\nbytes = \"5M\"", 1),
            ("[[connection]]\nbytes = \"1M\"\ncount = 4", 4),
            ("[[connection]]\nduration = \"500ms\"\npayload = \"16K\"\nmss = 1400", 1),
        ] {
            let (record, rows) = against_iperf(connections, &[], host, sessions);
            assert_eq!(record.status, Status::Complete);
            let mut ours: Vec<u64> = record.flows.iter().map(|flow| sent(flow).0).collect();
            let mut theirs: Vec<u64> = rows.iter().map(|row| row[7].parse().unwrap()).collect();
            ours.sort_unstable();
            theirs.sort_unstable();
            assert_eq!(ours, theirs, "{connections}");
        }
    }
}

#[test]
fn a_server_of_iperf_sends_streams() {
    if !has_iperf("a_server_of_iperf_sends_streams") {
        return;
    }
    for connections in [
        "[[connection]]\ndirection = \"reverse\"\nbytes = \"5M\"",
        "[[connection]]\ndirection = \"reverse\"\nduration = \"1s\"",
    ] {
        let (record, rows) = against_iperf(connections, &[], "127.0.0.1", 1);
        assert_eq!(record.status, Status::Complete);
        assert_eq!(received(&record.flows[0]).0.to_string(), rows[0][7], "{connections}");
    }
    let both =
        "[[connection]]\nbytes = \"2M\"\n[[connection]]\nbytes = \"2M\"\ndirection = \"reverse\"";
    let (record, rows) = against_iperf(both, &[], "127.0.0.1", 2);
    assert_eq!(record.status, Status::Complete);
    assert_eq!(received(of(&record, Direction::Reverse)).0, 2 << 20);
    assert_eq!(sent(of(&record, Direction::Forward)).0, 2 << 20);
    assert!(rows.iter().all(|row| row[7] == (2 << 20).to_string()), "{rows:?}");
}

#[test]
fn a_server_of_iperf_counts_datagrams() {
    if !has_iperf("a_server_of_iperf_counts_datagrams") {
        return;
    }
    for host in ["127.0.0.1", "::1"] {
        for (connections, sessions) in [
            ("packets = 500\nrate = \"1000pps\"\npayload = 1000", 1),
            ("duration = \"500ms\"\nrate = \"5M\"\nspacing = \"exponential\"\npayload = 500", 1),
            ("packets = 100\nrate = \"500pps\"\ncount = 3\npayload = 200", 3),
        ] {
            let text = format!("[[connection]]\ntransport = \"udp\"\n{connections}");
            let (record, rows) = against_iperf(&text, &[], host, sessions);
            assert_eq!(record.status, Status::Complete);
            for flow in &record.flows {
                let receiver = flow.receiver.as_ref().unwrap();
                assert_eq!((received(flow), receiver.lost_packets), (sent(flow), Some(0)));
            }
            let mut ours: Vec<(u64, u64)> = record.flows.iter().map(sent).collect();
            // Bytes, and after jitter and losses the datagrams.
            let of = |row: &Vec<String>| (row[7].parse().unwrap(), row[11].parse().unwrap());
            let mut theirs: Vec<(u64, u64)> = rows.iter().map(of).collect();
            ours.sort_unstable();
            theirs.sort_unstable();
            assert_eq!(ours, theirs, "{connections}");
        }
    }
}

#[test]
fn servers_of_iperf_receive_what_is_sent_to_their_group() {
    if !has_iperf("servers_of_iperf_receive_what_is_sent_to_their_group") {
        return;
    }
    let server = Server::bound("239.1.2.3%lo", "127.0.0.1", true, &[]);
    let group = SocketAddr::new("239.1.2.3".parse().unwrap(), server.address.port());
    // The loopback interface is that of the address to send from.
    let datagrams =
        |more: &str| format!("bind = \"127.0.0.1\"\n[[connection]]\ntransport = \"udp\"\n{more}");
    let text = datagrams("ttl = 1\npackets = 100\nrate = \"500pps\"\npayload = 1000");
    let record = test(group, &text).unwrap();
    // No report is expected.
    assert_eq!((record.status, sent(&record.flows[0])), (Status::Complete, (100_000, 100)));
    assert!(record.flows[0].receiver.is_none());
    let rows = server.rows(1);
    assert_eq!((rows[0][7].as_str(), rows[0][10].as_str()), ("100000", "0"));
    let failure =
        test(group, &datagrams("direction = \"reverse\"\nduration = \"1s\"")).unwrap_err();
    assert_eq!(failure.error.exit_code(), 2);
}

#[test]
fn a_server_of_iperf_sends_datagrams() {
    if !has_iperf("a_server_of_iperf_sends_datagrams") {
        return;
    }
    let reverse = "[[connection]]\ntransport = \"udp\"\ndirection = \"reverse\"\nduration = \"1s\"\nrate = \"2M\"\npayload = 500";
    let (record, _) = against_iperf(reverse, &[], "127.0.0.1", 1);
    assert_eq!(record.status, Status::Complete);
    let receiver = record.flows[0].receiver.as_ref().unwrap();
    // Its row counts neither the first nor the last.
    assert!((480..=520).contains(&receiver.packets), "{}", receiver.packets);
    assert_eq!((receiver.lost_packets, receiver.bytes), (Some(0), 500 * receiver.packets));
    // The last datagram's number says how many were sent.
    assert_eq!(receiver.loss_ratio, Some(0.0));
    assert!(receiver.jitter_seconds.is_some());
    let both = "[[connection]]\ntransport = \"udp\"\nduration = \"1s\"\nrate = \"1M\"\npayload = 500\n[[connection]]\ntransport = \"udp\"\nduration = \"1s\"\nrate = \"1M\"\ndirection = \"reverse\"\npayload = 500";
    let (record, rows) = against_iperf(both, &[], "127.0.0.1", 2);
    assert_eq!(record.status, Status::Complete);
    let (there, back) = (of(&record, Direction::Forward), of(&record, Direction::Reverse));
    assert!(rows.iter().any(|row| row[7] == sent(there).0.to_string()), "{rows:?}");
    assert!((230..=270).contains(&received(back).1), "{}", received(back).1);
    assert_eq!(back.receiver.as_ref().unwrap().lost_packets, Some(0));
}

#[test]
fn twenty_clients_are_served_at_once() {
    if !has_iperf("twenty_clients_are_served_at_once") {
        return;
    }
    let server = serve(Limits::default());
    // Streams that say nothing occupy no other client.
    let silent: Vec<TcpStream> =
        (0..5).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let client = |index: usize| {
        let flags: &[&str] = match index % 4 {
            0 => &["-u", "-b", "500K"],
            1 => &["-b", "500K", "-l", "4K"],
            2 => &["-R", "-b", "500K", "-l", "4K"],
            _ => &["-C", "-b", "500K", "-l", "4K"],
        };
        let mut command = Command::new("iperf");
        command.args(["-c", "127.0.0.1", "-p", &server.port(), "-t", "1"]);
        command.args(flags).stdout(Stdio::piped()).spawn().unwrap()
    };
    let clients: Vec<_> = (0..20).map(client).collect();
    for client in clients {
        assert!(client.wait_with_output().unwrap().status.success());
    }
    for _ in 0..20 {
        assert_eq!(served(&server).status, Status::Complete);
    }
    drop(silent);
}

/// The server still serves.
fn assert_serves(server: &Serving) {
    let record = test(server.address, "[[connection]]\nbytes = \"100K\"").unwrap();
    assert_eq!((record.status, sent(&record.flows[0]).0), (Status::Complete, 100 << 10));
    loop {
        let far = served(server);
        if received(&far.flows[0]).0 == 100 << 10 {
            return assert_eq!(far.status, Status::Complete);
        }
    }
}

#[test]
fn a_client_that_is_killed_ends_its_session() {
    if !has_iperf("a_client_that_is_killed_ends_its_session") {
        return;
    }
    let server = serve(Limits::default());
    for flags in [&["-t", "30"][..], &["-t", "30", "-R"], &["-t", "30", "-u", "-b", "1M"]] {
        let mut command = Command::new("iperf");
        command.args(["-c", "127.0.0.1", "-p", &server.port()]).args(flags);
        let client = Program(command.stdout(Stdio::null()).spawn().unwrap());
        loop {
            if let ServerEvent::SessionOpened { .. } = server.events.recv_timeout(LIMIT).unwrap() {
                break;
            }
        }
        drop(client);
        // It had not read the acknowledgement, so that its system resets the connection.
        let far = served(&server);
        assert_eq!(far.status, Status::Partial, "{flags:?}: {}", far.end_reason);
    }
    assert_serves(&server);
}

#[test]
fn tests_that_connect_back_are_refused() {
    let server = serve(Limits::default());
    for (flags, reason) in [
        (0x8000_0001u32, "-d"),
        (0x8000_0000, "-r"),
        (0xc001_0078, "-r"),
        (0x5001_0078, "permit key"),
        (0x0080_0000, "bounceback"),
    ] {
        let mut client = TcpStream::connect(server.address).unwrap();
        client.write_all(&flags.to_be_bytes()).unwrap();
        client.write_all(&[0; 251]).unwrap();
        let told = refused(&server);
        assert!(told.contains(reason), "{flags:x}: {told}");
        // Nothing but the end.
        assert!(matches!(client.read(&mut [0; 8]), Ok(0) | Err(_)));
    }
    assert_serves(&server);
}

#[test]
fn hostile_streams_are_ended_and_others_served() {
    let server = serve(Limits { hello_seconds: 1, ..Limits::default() });
    for begun in
        [&b""[..], b"\x40", b"\x40\x01\x00", b"\x40\x01\x00\x78", b"\x40\x01\x01\xfe only a part"]
    {
        let mut client = TcpStream::connect(server.address).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.write_all(begun).unwrap();
        // The server gives up.
        assert!(matches!(client.read(&mut [0; 8]), Ok(0) | Err(_)), "{begun:?}");
    }
    // Any header makes a session or none; the server survives all.
    let mut state = 7u32;
    for _ in 0..200 {
        let mut bytes = vec![];
        for _ in 0..64 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes.extend_from_slice(&state.to_be_bytes());
        }
        let mut client = TcpStream::connect(server.address).unwrap();
        let _ = client.write_all(&bytes);
    }
    assert_serves(&server);
}

#[test]
fn a_source_of_datagrams_gets_no_more_than_it_has_sent() {
    let server = serve(Limits::default());
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(server.address).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    // Requests to send, by reverse and full duplex, and a test that connects back.
    for (flags, upper) in
        [(0x6c01_0098_u32, 0x0400_0000_u32), (0x6c01_0098, 0x0800_0000), (0x8801_0030, 0)]
    {
        let words =
            [1, 0, 0, 0, flags, 1, 5001, 0, 0, 1_000_000, 0, 0, upper, 0, 0, 0, 1 << 30, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        client.send(&bytes).unwrap();
        assert!(client.recv(&mut [0; 2048]).is_err(), "{flags:x} {upper:x}");
    }
    // An end without a beginning, one that is too short, and zeros.
    for datagram in [&[0xff; 64][..], &[1; 11], &[], b"GET / HTTP/1.0\r\n"] {
        client.send(datagram).unwrap();
    }
    assert!(client.recv(&mut [0; 2048]).is_err());
    // A test of two datagrams of 20 bytes: the report of 128 bytes does not fit.
    let short = UdpSocket::bind("127.0.0.1:0").unwrap();
    short.connect(server.address).unwrap();
    short.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut datagram = [0; 20];
    datagram[..4].copy_from_slice(&1u32.to_be_bytes());
    datagram[16..].copy_from_slice(&0x4800_0000u32.to_be_bytes());
    short.send(&datagram).unwrap();
    datagram[..4].copy_from_slice(&(-2i32).to_be_bytes());
    short.send(&datagram).unwrap();
    assert!(short.recv(&mut [0; 2048]).is_err());
    // When it has sent more, one report comes.
    for _ in 0..6 {
        short.send(&datagram).unwrap();
    }
    let far = served(&server);
    assert_eq!(far.flows[0].receiver.as_ref().unwrap().packets, 2);
    assert_serves(&server);
}

#[test]
fn limits_of_sessions_hold_for_streams_and_datagrams() {
    let server = serve(Limits { sessions: 1, ..Limits::default() });
    let mut first = TcpStream::connect(server.address).unwrap();
    first.write_all(b"0123456789").unwrap();
    loop {
        if let ServerEvent::SessionOpened { .. } = server.events.recv_timeout(LIMIT).unwrap() {
            break;
        }
    }
    let mut second = TcpStream::connect(server.address).unwrap();
    second.write_all(b"0123456789").unwrap();
    assert!(refused(&server).contains("1 sessions"));
    drop(first);
    let far = served(&server);
    // A stream without a header is data from its first byte.
    assert_eq!((far.status, received(&far.flows[0]).0), (Status::Complete, 10));
    assert_serves(&server);
}

#[test]
fn a_server_that_is_not_there_is_reported() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    // No program answers datagrams.
    let connection = |direction: &str| {
        format!(
            "[[connection]]\ntransport = \"udp\"\ndirection = \"{direction}\"\npackets = 10\nrate = \"1000pps\"\n"
        )
    };
    let (forward, reverse) = (connection("forward"), connection("reverse"));
    for (direction, text) in
        [("forward", &forward), ("reverse", &reverse), ("both", &format!("{forward}{reverse}"))]
    {
        let failure = test(address, text).unwrap_err();
        assert_eq!(
            (failure.error.exit_code(), failure.partial.is_some()),
            (3, true),
            "{direction}"
        );
    }
    // A listener that answers something else.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP ready at last\r\n").unwrap();
        let _ = stream.read_to_end(&mut vec![]);
    });
    let failure = test(address, "[[connection]]").unwrap_err();
    assert_eq!(failure.error.code(), "protocol");
    server.join().unwrap();
}

#[test]
fn an_interrupted_test_is_partial_and_ends_at_the_server() {
    let server = serve(Limits::default());
    for connections in [
        "[[connection]]\nrate = \"10M\"",
        "[[connection]]\nrate = \"10M\"\ntransport = \"udp\"",
        "[[connection]]\nrate = \"10M\"\ndirection = \"reverse\"",
    ] {
        let own = Stop::new();
        let request = own.clone();
        let mut observe = |event| {
            if matches!(event, Event::Interval(_)) {
                request.request(StopReason::Interrupted);
            }
        };
        let failure = observed(server.address, connections, own, &mut observe).unwrap_err();
        assert_eq!(failure.error.exit_code(), 130);
        assert_eq!(failure.partial.unwrap().status, Status::Interrupted);
        served(&server);
    }
}
