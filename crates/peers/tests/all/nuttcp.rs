//! nuttcp: Weir with Weir, with Debian's nuttcp in both roles, and with peers that misbehave or vanish.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use weir_model::record::{Record, Status};
use weir_traffic::{Failure, Limits, ServerEvent, Stop, StopReason};

use crate::common::{LIMIT, Program, Serving, received, run, sent, served};

/// Runs a plan of one connection.
fn test(to: SocketAddr, connection: &str) -> Result<Record, Failure> {
    run("nuttcp", to, &format!("[[connection]]\n{connection}"), Stop::new(), &mut |_| {})
}

pub(crate) fn has_nuttcp(name: &str) -> bool {
    let found = Command::new("nuttcp").arg("-V").output().is_ok();
    if !found {
        assert!(std::env::var_os("CI").is_none(), "CI has nuttcp");
        println!("SKIPPED {name}: nuttcp is not installed");
    }
    found
}

/// Whether a program listens on a TCP port of this host.
fn listens(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let port = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        std::fs::read_to_string(table).unwrap().lines().any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let is_port = fields.next().is_some_and(|local| local.ends_with(&port));
            is_port && fields.nth(1) == Some(LISTEN)
        })
    })
}

/// Debian's server, on a control port of its own.
fn real_server(port: u16, is_v6: bool) -> (SocketAddr, Program) {
    let family = if is_v6 { "-6" } else { "-4" };
    let port_option = format!("-P{port}");
    let arguments = ["-S", "--nofork", family, &port_option];
    let mut command = Command::new("nuttcp");
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Program(command.spawn().unwrap());
    let address: SocketAddr = (if is_v6 { "[::1]:0" } else { "127.0.0.1:0" }).parse().unwrap();
    let address = SocketAddr::new(address.ip(), port);
    let until = Instant::now() + LIMIT;
    // A connection without a greeting would be its only client's for a while.
    while !listens(port) {
        assert!(Instant::now() < until, "nuttcp does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    (address, server)
}

#[test]
fn our_client_and_the_real_server_agree_over_tcp() {
    if !has_nuttcp("our_client_and_the_real_server_agree_over_tcp") {
        return;
    }
    for (is_v6, port, data) in [(false, 15_000, 15_010), (true, 15_001, 15_030)] {
        for connection in [
            "bytes = \"3M\"\npayload = 1000",
            "bytes = \"1000001\"\npayload = 1000",
            "duration = \"300ms\"\nrate = \"80M\"",
            "duration = \"300ms\"\nrate = \"20M\"\ncount = 4\npayload = 1000",
            "duration = \"300ms\"\ncount = 3\npayload = 65536",
            "bytes = \"1M\"\ncount = 2\ntos = 104\nwindow = \"128K\"\nno_delay = true",
            "bytes = \"3M\"\npayload = 1000\ndirection = \"reverse\"",
            "duration = \"300ms\"\ndirection = \"reverse\"\nrate = \"80M\"",
            "duration = \"300ms\"\ndirection = \"reverse\"\ncount = 3",
            "packets = 100\ndirection = \"reverse\"\ncount = 3\npayload = 1000",
        ] {
            // It does not always live on after a test on a busy host.
            let (address, _server) = real_server(port, is_v6);
            let record = test(address, &format!("port = {data}\n{connection}")).unwrap();
            assert_eq!((record.status, record.peer.as_str()), (Status::Complete, "nuttcp"));
            let total = record.total.forward.as_ref().or(record.total.reverse.as_ref()).unwrap();
            let (sender, receiver) = (total.sender.as_ref(), total.receiver.as_ref());
            let (sent, received) = (sender.unwrap().bytes, receiver.unwrap().bytes);
            assert!(sent > 0);
            assert_eq!(sent, received, "{connection}");
            let codes: Vec<_> = record.warnings.iter().map(|w| w.code.as_str()).collect();
            assert!(!codes.contains(&"one-sided") && !codes.contains(&"end-lost"), "{codes:?}");
            if connection.contains("3M") {
                // A server sends whole buffers.
                let whole = u64::div_ceil(3 << 20, 1000) * 1000;
                let expected = if connection.contains("reverse") { whole } else { 3 << 20 };
                assert_eq!(sent, expected, "{connection}");
            }
            if connection.contains("packets") {
                assert_eq!(sent, 300_000);
            }
        }
    }
}

#[test]
fn our_client_and_the_real_server_agree_over_udp() {
    if !has_nuttcp("our_client_and_the_real_server_agree_over_udp") {
        return;
    }
    for (is_v6, port, data) in [(false, 15_002, 15_050), (true, 15_003, 15_070)] {
        for (connection, packets) in [
            ("packets = 200\nrate = \"2000pps\"\npayload = 500", Some(200)),
            ("packets = 100\nrate = \"1000pps\"\npayload = 500\ncount = 3", Some(300)),
            ("duration = \"500ms\"\nrate = \"500pps\"\npayload = 500\ncount = 3", None),
            ("duration = \"500ms\"\nrate = \"500pps\"\npayload = 1000", None),
            (
                "packets = 200\nrate = \"2000pps\"\npayload = 500\ndirection = \"reverse\"",
                Some(200),
            ),
            ("duration = \"1s\"\nrate = \"4M\"\npayload = 1000\ndirection = \"reverse\"", None),
        ] {
            let (address, _server) = real_server(port, is_v6);
            let text = format!("transport = \"udp\"\nport = {data}\n{connection}");
            let record = test(address, &text).unwrap();
            assert_eq!(record.status, Status::Complete, "{connection}");
            let total = record.total.forward.as_ref().or(record.total.reverse.as_ref()).unwrap();
            let sender = total.sender.as_ref().unwrap();
            let receiver = total.receiver.as_ref().unwrap();
            assert_eq!(
                (sender.packets, sender.bytes),
                (receiver.packets, receiver.bytes),
                "{connection}"
            );
            assert_eq!(receiver.lost_packets, Some(0), "{connection}");
            if let Some(packets) = packets {
                assert_eq!(sender.packets, packets, "{connection}");
            }
            assert!(sender.packets > 50);
        }
    }
}

/// What Debian's client prints of a test with the server at `to`.
fn real_client(to: SocketAddr, data: u16, arguments: &[&str]) -> Output {
    let (port, data) = (format!("-P{}", to.port()), format!("-p{data}"));
    let host = to.ip().to_string();
    let mut command = Command::new("timeout");
    command.args(["20", "nuttcp", &port, &data, "-fparse"]).args(arguments).arg(host);
    command.output().unwrap()
}

/// The value of a key in the last line with it.
fn value(output: &Output, key: &str) -> f64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let key = format!("{key}=");
    let mut values = text.split_whitespace().filter_map(|word| word.strip_prefix(&key));
    values.next_back().unwrap_or_else(|| panic!("{key} in {output:?}")).parse().unwrap()
}

#[test]
fn the_real_client_and_our_server_agree() {
    if !has_nuttcp("the_real_client_and_our_server_agree") {
        return;
    }
    for (bind, data) in [("127.0.0.1", "16010"), ("::1", "16050")] {
        let server = Serving::start("nuttcp", bind, Limits::default());
        let data: u16 = data.parse().unwrap();
        for arguments in [
            &["-n100", "-l1000"][..],
            &["-T1", "-R80m"],
            &["-T1", "-N3"],
            &["-n50", "-l1000", "-N4", "-w64"],
            &["-r", "-n100", "-l1000"],
            &["-r", "-T1", "-R80m"],
            &["-r", "-n50", "-l1000", "-N4"],
            &["-r", "-T1", "-N3"],
            &["-r", "-T1", "-N3", "-R200m"],
            &["-F", "-n100", "-l1000"],
            &["-F", "-r", "-n100", "-l1000"],
            &["-T2", "-i1", "-R80m", "-c26"],
            &["-r", "-T2", "-i1", "-R80m"],
        ] {
            let output = real_client(server.address, data, arguments);
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            let record = served(&server);
            assert_eq!(record.status, Status::Complete, "{arguments:?} {}", record.end_reason);
            let is_reverse = arguments.contains(&"-r");
            let total = match is_reverse {
                true => record.total.forward.unwrap().sender.unwrap(),
                false => record.total.reverse.unwrap().receiver.unwrap(),
            };
            let stated = value(&output, "megabytes") * 1_048_576.0;
            assert!(
                (stated - total.bytes as f64).abs() < 60.0,
                "{arguments:?} {stated} {}",
                total.bytes
            );
            if arguments.contains(&"-i1") && !is_reverse {
                assert!(
                    String::from_utf8_lossy(&output.stdout).contains("real_sec=1.00"),
                    "{output:?}"
                );
            }
        }
        for arguments in [
            &["-u", "-n200", "-l500", "-R4m"][..],
            &["-u", "-T1", "-R4m", "-l1000"],
            &["-u", "-n99", "-l500", "-R4m", "-N3"],
            &["-u", "-n100", "-l500", "-R4m", "-N3"],
            &["-u", "-T2", "-R2m", "-l1000", "-i1"],
            &["-u", "-r", "-n200", "-l500", "-R4m"],
            &["-u", "-r", "-T1", "-R1000p", "-l500"],
            &["-u", "-r", "-n100", "-l500", "-R4m", "-N3"],
            &["-u", "-r", "-T1", "-l500", "-R4m", "-N3"],
            &["-u", "-r", "-T2", "-R2m", "-l1000", "-i1"],
        ] {
            let output = real_client(server.address, data, arguments);
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            let record = served(&server);
            assert_eq!(record.status, Status::Complete, "{arguments:?} {}", record.end_reason);
            let total = match arguments.contains(&"-r") {
                true => record.total.forward.unwrap().sender.unwrap(),
                false => record.total.reverse.unwrap().receiver.unwrap(),
            };
            assert_eq!(value(&output, "drop"), 0.0, "{arguments:?} {output:?}");
            assert_eq!(value(&output, "pkt"), total.packets as f64, "{arguments:?} {output:?}");
            if arguments.contains(&"-i1") && !arguments.contains(&"-r") {
                assert_eq!(total.lost_packets, Some(0), "{arguments:?}");
            }
        }
    }
}

#[test]
fn two_weirs_agree_in_each_mode() {
    for (bind, data) in [("127.0.0.1", 16_110), ("::1", 16_150)] {
        let server = Serving::start("nuttcp", bind, Limits::default());
        for connection in [
            "bytes = \"3M\"\npayload = 1000",
            "duration = \"300ms\"\nrate = \"20M\"\ncount = 4\npayload = 1000",
            "bytes = \"3M\"\ndirection = \"reverse\"",
            "duration = \"300ms\"\ndirection = \"reverse\"\ncount = 3\nrate = \"10M\"",
            "transport = \"udp\"\npackets = 200\nrate = \"2000pps\"\npayload = 500",
            "transport = \"udp\"\npackets = 100\nrate = \"1000pps\"\npayload = 500\ncount = 3",
            "transport = \"udp\"\npackets = 200\nrate = \"2000pps\"\npayload = 500\ndirection = \"reverse\"",
        ] {
            let record = test(server.address, &format!("port = {data}\n{connection}")).unwrap();
            let far = served(&server);
            assert_eq!((record.status, record.peer.as_str()), (Status::Complete, "nuttcp"));
            assert_eq!((far.status, far.peer.as_str()), (Status::Complete, "nuttcp"));
            assert_eq!(record.flows.len(), far.flows.len());
            for (near, far) in record.flows.iter().zip(&far.flows) {
                match connection.contains("reverse") {
                    true => assert_eq!(received(near), (sent(far).0, received(near).1)),
                    false => assert_eq!(sent(near).0, received(far).0, "{connection}"),
                }
                if connection.contains("udp") {
                    let (a, b) = match connection.contains("reverse") {
                        true => (sent(far), received(near)),
                        false => (sent(near), received(far)),
                    };
                    assert_eq!(a, b, "{connection}");
                }
            }
        }
    }
}

/// Sends these lines to a server; returns what it answers until it closes.
fn talk(to: SocketAddr, lines: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    for line in lines {
        // The server may have closed.
        let _ = stream.write_all(line);
    }
    let mut text = vec![];
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Parameters of a test with 100 buffers to a data port, with one of them changed.
pub(crate) fn parameters(data: u16, name: &str, value: &str) -> String {
    let line = format!(
        "buflen = 1000, nbuf = 100, win = 0, nstream = 1, rate = 4294967295, port = {data}, trans = 1, braindead = 0, \
         timeout = 0.000000, udp = 0, vers = 6.1.2, interval = 0.000000, reverse = 0, format = 2048, traceroute = 0, irate = 0, \
         thirdparty = _NULL_ , multicast = 0 , datamss = 0 , tos = 0 , nbuf_bytes = 0 , rate_pps = 0 , nodelay = 0"
    );
    let part = |part: &str| match part.split_once('=') {
        Some((own, _)) if own.trim() == name => format!("{name} = {value}"),
        _ => part.to_owned(),
    };
    line.split(',').map(part).collect::<Vec<_>>().join(", ") + "\n"
}

pub(crate) const HELLO: &[u8] = b"HELO nuttcp v6.1.2\n";

#[test]
fn hostile_lines_are_refused_and_the_next_client_is_served() {
    let server = Serving::start("nuttcp", "127.0.0.1", Limits::default());
    let to = server.address;
    let refused = |lines: &[&[u8]]| {
        let answer = talk(to, lines);
        assert!(answer.contains("KO\n"), "{answer}");
        loop {
            let event = server.events.recv_timeout(LIMIT).unwrap();
            if let ServerEvent::Refused { reason, .. } = event {
                break reason;
            }
        }
    };
    for lines in [
        &[&b"GET / HTTP/1.0\r\n"[..]][..],
        &[&[0xff; 10_000][..]],
        &[HELLO, &[b'a'; 10_000]],
        &[HELLO, b"\xff\xfe\n"],
        &[HELLO, b"x = 1\n"],
    ] {
        refused(lines);
    }
    for (name, value) in [
        ("nstream", "1000000000"),
        ("buflen", "99999999999999999999"),
        ("port", "80"),
        ("thirdparty", "192.0.2.1"),
        ("traceroute", "1"),
        ("multicast", "5"),
        ("timeout", "1e8"),
    ] {
        refused(&[HELLO, parameters(16_200, name, value).as_bytes()]);
    }
    // A port that is in use.
    let taken = TcpListener::bind("127.0.0.1:16202").unwrap();
    assert!(refused(&[HELLO, parameters(16_202, "", "").as_bytes()]).contains("bind"));
    drop(taken);
    let record = test(to, "port = 16204\nbytes = \"100K\"").unwrap();
    assert_eq!(record.total.forward.unwrap().receiver.unwrap().bytes, 100 << 10);
    assert_eq!(served(&server).status, Status::Complete);
}

#[test]
fn a_client_that_vanishes_frees_everything() {
    let server = Serving::start("nuttcp", "127.0.0.1", Limits::default());
    let line = parameters(16_220, "", "");
    let open = |line: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(&[HELLO, line.as_bytes()].concat()).unwrap();
        let mut answer = [0; 29];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.ends_with(b"OK v6.1.2\n"), "{answer:?}");
        stream
    };
    // Before its data, and in the middle of it.
    drop(open(&line));
    assert_eq!(served(&server).status, Status::Partial);
    let control = open(&line);
    let mut data = TcpStream::connect("127.0.0.1:16220").unwrap();
    data.write_all(&[0; 5000]).unwrap();
    drop(control);
    assert_eq!(served(&server).status, Status::Partial);
    drop(data);
    let control = open(&parameters(16_220, "udp", "1"));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect("127.0.0.1:16220").unwrap();
    socket.send(b"BOD0").unwrap();
    socket.send(&[0; 1000]).unwrap();
    // With unread text the connection is reset: its mere end is that of the data.
    control.peek(&mut [0]).unwrap();
    drop(control);
    assert_eq!(served(&server).status, Status::Partial);
    let record = test(server.address, "port = 16220\nbytes = \"100K\"").unwrap();
    assert_eq!(record.total.forward.unwrap().receiver.unwrap().bytes, 100 << 10);
}

#[test]
fn datagrams_end_with_the_control_connection_where_all_markers_are_lost() {
    let server = Serving::start("nuttcp", "127.0.0.1", Limits::default());
    let mut control = TcpStream::connect(server.address).unwrap();
    control.set_read_timeout(Some(LIMIT)).unwrap();
    let line = parameters(16_300, "udp", "1");
    let line = line.replace("interval = 0.000000", "interval = 0.100000");
    control.write_all(&[HELLO, line.as_bytes()].concat()).unwrap();
    let mut answer = [0; 29];
    control.read_exact(&mut answer).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect("127.0.0.1:16300").unwrap();
    for number in 1..=3_u64 {
        let mut datagram = [0; 1000];
        datagram[24..32].copy_from_slice(&(1000 * number).to_ne_bytes());
        socket.send(&datagram).unwrap();
    }
    // The first interval is stated once data has arrived.
    let mut text = vec![];
    while !String::from_utf8_lossy(&text).contains("Mbps") {
        let mut byte = [0];
        control.read_exact(&mut byte).unwrap();
        text.extend(byte);
    }
    control.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = String::new();
    control.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("DONE\n"), "{rest}");
    let record = served(&server);
    assert_eq!((record.status, received(&record.flows[0]).0), (Status::Complete, 3000));
}

#[test]
fn many_clients_of_one_host_share_a_data_port() {
    let server = Serving::start("nuttcp", "127.0.0.1", Limits::default());
    let to = server.address;
    let clients: Vec<_> = (1..=6)
        .map(|number| {
            std::thread::spawn(move || {
                let kind = ["", "transport = \"udp\"\nrate = \"2000pps\"\n"][number % 2];
                let text =
                    format!("port = 16240\npayload = 500\npackets = {}\n{kind}", 100 * number);
                test(to, &text).unwrap()
            })
        })
        .collect();
    let mut near: Vec<u64> = vec![];
    for client in clients {
        let record = client.join().unwrap();
        assert_eq!(sent(&record.flows[0]).0, received(&record.flows[0]).0);
        near.push(sent(&record.flows[0]).0);
    }
    let mut far: Vec<u64> = (0..6).map(|_| received(&served(&server).flows[0]).0).collect();
    near.sort_unstable();
    far.sort_unstable();
    assert_eq!(near, far);
    assert_eq!(near, [50_000, 100_000, 150_000, 200_000, 250_000, 300_000]);
}

/// A server that says these lines and then closes, or waits.
fn fake_server(lines: &[&'static str], waits: bool) -> SocketAddr {
    let lines = lines.to_vec();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        for line in lines {
            let mut byte = [0];
            while stream.read(&mut byte).is_ok_and(|read| read > 0) && byte != *b"\n" {}
            let _ = stream.write_all(line.as_bytes());
        }
        if waits {
            let mut rest = vec![];
            let _ = stream.read_to_end(&mut rest);
        }
    });
    address
}

#[test]
fn a_server_that_misbehaves_is_reported() {
    let code = |failure: Failure| failure.error.code().to_owned();
    let tested = |lines: &[&'static str], waits| {
        code(test(fake_server(lines, waits), "port = 16260").unwrap_err())
    };
    assert_eq!(tested(&[], false), "peer-lost");
    assert_eq!(tested(&["HTTP/1.0 400\r\n"], false), "protocol");
    assert_eq!(tested(&["HELO nuttcp v3.1.0\n"], true), "peer-version");
    let refusal = "KO\nnuttcp-r: v6.1.2: invalid buflen\nbuflen = 0\nKO\n";
    assert_eq!(tested(&["HELO nuttcp v6.1.2\n", refusal], true), "peer-server-error");
    assert_eq!(tested(&["HELO nuttcp v6.1.2\n", "OK v6.1.2\n"], false), "peer-lost");
    let error = "OK v6.1.2\nnuttcp-r: v6.1.2: Error: bind: Address already in use\nerrno=98\n";
    assert_eq!(tested(&["HELO nuttcp v6.1.2\n", error], true), "peer-closed");
}

#[test]
fn a_test_that_is_stopped_leaves_the_server_free() {
    let server = Serving::start("nuttcp", "127.0.0.1", Limits::default());
    for kind in ["", "transport = \"udp\"", "direction = \"reverse\""] {
        let stop = Stop::new();
        let own = stop.clone();
        let text = format!(
            "[[connection]]\nport = 16280\nduration = \"20s\"\nrate = \"1M\"\npayload = 1000\n{kind}"
        );
        let mut seen = 0;
        let failure = run("nuttcp", server.address, &text, stop, &mut |event| {
            if matches!(event, weir_traffic::Event::Interval(_)) {
                seen += 1;
                if seen == 4 {
                    own.request(StopReason::Interrupted);
                }
            }
        });
        assert_eq!(failure.unwrap_err().partial.unwrap().status, Status::Interrupted);
        served(&server);
    }
    test(server.address, "port = 16280\nbytes = \"100K\"").unwrap();
}
