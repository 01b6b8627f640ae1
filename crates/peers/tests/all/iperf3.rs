//! iperf3: Weir with Weir, with Debian's iperf3 in both roles, and with peers that misbehave or vanish.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use weir_model::plan::{Direction, PeerName, Plan};
use weir_model::record::{Record, Status};
use weir_traffic::{ClientConfig, Event, Failure, Limits, Stop, StopReason};

use crate::common::{LIMIT, Program, Serving, received, run, sent, served};

fn serve(limits: Limits) -> Serving {
    Serving::start("iperf3", "127.0.0.1", limits)
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
    run("iperf3", to, connections, stop, observe)
}

fn assert_close(a: u64, b: u64) {
    assert!(a > 0 && a.abs_diff(b) as f64 <= 0.01 * a as f64, "{a} and {b} bytes");
}

/// Both ends agree: exactly on datagrams and on bytes that an amount ends, within 1 % where the time does.
fn assert_agreed(record: &Record, far: &Record, is_amount: bool) {
    assert_eq!((record.status, far.status), (Status::Complete, Status::Complete));
    assert_eq!((record.peer.as_str(), far.peer.as_str()), ("iperf3", "iperf3"));
    assert_eq!(record.flows.len(), far.flows.len());
    for (near, far) in record.flows.iter().zip(&far.flows) {
        assert_ne!(near.direction, far.direction);
        if near.transport.datagrams() {
            if record.omitted_seconds.is_some() {
                // Each end omits by its own clock.
                assert_close(sent(near).1, received(near).1);
                continue;
            }
            assert_eq!(sent(near), sent(far));
            assert_eq!(received(near), received(far));
            let lost = near.receiver.as_ref().unwrap().lost_packets.unwrap();
            assert_eq!(received(near).1 + lost, sent(near).1);
        } else if is_amount && near.direction == Direction::Forward {
            assert_eq!((sent(near).0, received(near).0), (received(far).0, sent(far).0));
        } else {
            assert_close(sent(near).0, received(far).0);
            assert_close(sent(far).0, received(near).0);
        }
    }
}

#[test]
fn two_weirs_agree_in_each_mode() {
    for bind in ["127.0.0.1", "::1"] {
        let server = Serving::start("iperf3", bind, Limits::default());
        for (connections, is_amount) in [
            ("[[connection]]\nbytes = \"3M\"", true),
            ("[[connection]]\ncount = 3\nbytes = \"3M\"", true),
            ("[[connection]]\ndirection = \"reverse\"\nbytes = \"3M\"", true),
            (
                "[[connection]]\nduration = \"300ms\"\n[[connection]]\nduration = \"300ms\"\ndirection = \"reverse\"",
                false,
            ),
            (
                "[[connection]]\ntransport = \"udp\"\npackets = 200\nrate = \"2000pps\"\ncount = 2",
                true,
            ),
            (
                "[[connection]]\ntransport = \"udp\"\nheader = \"iperf3-64bit\"\nduration = \"300ms\"\nrate = \"500pps\"\ndirection = \"reverse\"",
                false,
            ),
            (
                "omit = \"1s\"\n[[connection]]\ntransport = \"udp\"\npackets = 2000\nrate = \"1000pps\"",
                true,
            ),
        ] {
            // The order of a bidirectional test's flows differs between the ends.
            let record = test(server.address, connections).unwrap();
            assert_agreed(&record, &served(&server), is_amount);
            let flow = &record.flows[0];
            if flow.transport.datagrams() {
                assert!(received(flow).1 > 0);
            } else if is_amount {
                assert_eq!(received(flow).0, 3 << 20, "{connections}");
            }
        }
    }
}

fn has_iperf3(name: &str) -> bool {
    let found = Command::new("iperf3").arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var_os("CI").is_none());
        println!("SKIPPED {name}: no iperf3");
    }
    found
}

fn iperf3(server: &Serving, flags: &str) -> Output {
    let mut command = Command::new("iperf3");
    command.args(["-c", "127.0.0.1", "-J", "-p", &server.port()]);
    command.args(flags.split_whitespace()).output().unwrap()
}

fn json(output: &Output) -> Value {
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(value.get("error").is_none() && output.status.success(), "{}", value["error"]);
    value
}

#[test]
fn iperf3_is_served() {
    if !has_iperf3("iperf3_is_served") {
        return;
    }
    let server = serve(Limits::default());
    for flags in [
        "-n 5M",
        "-t 1 -P 3 -l 64K -M 1400 -w 256K -N -C reno --title some",
        "-n 5M -R",
        "-t 1 --bidir -b 50M",
        "-k 20 -O 1",
        "-t 1 -R -O 1 -Z -b 50M",
        "-t 1 --get-server-output --repeating-payload --dont-fragment",
    ] {
        let theirs = json(&iperf3(&server, flags));
        let record = served(&server);
        let streams = theirs["end"]["streams"].as_array().unwrap();
        assert_eq!((streams.len(), record.status), (record.flows.len(), Status::Complete));
        for (stream, flow) in streams.iter().zip(&record.flows) {
            let bytes = |end: &str| stream[end]["bytes"].as_f64().unwrap() as u64;
            // Sums over an omitted start differ by what is under way at its end.
            if !flags.contains("-O") {
                assert_close(bytes("sender"), bytes("receiver"));
            }
            assert_close(bytes("sender"), sent(flow).0);
            assert_close(bytes("receiver"), received(flow).0);
        }
    }
    for flags in [
        "-u -b 20M -t 1",
        "-u -b 20M -t 1 -R -l 1000",
        "-u -b 5M -t 1 --bidir -P 2 --udp-counters-64bit",
        "-u -b 8M -t 1 -O 1 -l 500",
    ] {
        let theirs = json(&iperf3(&server, flags));
        let record = served(&server);
        let streams = theirs["end"]["streams"].as_array().unwrap();
        for (stream, flow) in streams.iter().zip(&record.flows) {
            let count = |what: &str| stream["udp"][what].as_u64().unwrap();
            let receiver = flow.receiver.as_ref().unwrap();
            assert_eq!(count("lost_packets"), receiver.lost_packets.unwrap(), "{flags}");
            assert_eq!(count("packets"), sent(flow).1, "{flags}");
            assert!(receiver.packets > 0);
        }
    }
}

#[test]
fn a_server_of_iperf3_is_tested() {
    if !has_iperf3("a_server_of_iperf3_is_tested") {
        return;
    }
    for (connections, is_udp) in [
        ("[[connection]]\nbytes = \"5M\"\ncount = 2\nrate = \"100M\"", false),
        ("[[connection]]\nduration = \"1s\"\ndirection = \"reverse\"", false),
        ("[[connection]]\nbytes = \"5M\"\ndirection = \"reverse\"", false),
        (
            "omit = \"1s\"\n[[connection]]\nrate = \"50M\"\nduration = \"1s\"\n[[connection]]\nrate = \"50M\"\nduration = \"1s\"\ndirection = \"reverse\"",
            false,
        ),
        ("[[connection]]\ntransport = \"udp\"\npackets = 500\nrate = \"1000pps\"", true),
        (
            "[[connection]]\ntransport = \"udp\"\nduration = \"1s\"\nrate = \"10M\"\ndirection = \"reverse\"\nheader = \"iperf3-64bit\"",
            true,
        ),
        (
            "[[connection]]\ntransport = \"udp\"\nduration = \"1s\"\nrate = \"5M\"\ncount = 2\nspacing = \"exponential\"",
            true,
        ),
    ] {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new("iperf3");
        command.args(["-s", "-1", "-J", "-B", "127.0.0.1", "-p", &port.port().to_string()]);
        let mut server = Program(command.stdout(Stdio::piped()).spawn().unwrap());
        let begun = std::time::Instant::now();
        let record = loop {
            match test(port, connections) {
                Err(error) if error.partial.is_none() && begun.elapsed() < LIMIT => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                ended => break ended.unwrap(),
            }
        };
        let mut text = String::new();
        server.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let theirs: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record.status, Status::Complete);
        let streams = theirs["end"]["streams"].as_array().unwrap();
        assert_eq!(streams.len(), record.flows.len());
        for (stream, flow) in streams.iter().zip(&record.flows) {
            let is_forward = flow.direction == Direction::Forward;
            if is_udp {
                let (packets, lost) = (&stream["udp"]["packets"], &stream["udp"]["lost_packets"]);
                assert_eq!(packets.as_u64().unwrap(), sent(flow).1, "{connections}");
                let receiver = flow.receiver.as_ref().unwrap();
                if is_forward {
                    assert_eq!(lost.as_u64(), receiver.lost_packets);
                }
                assert_eq!(received(flow).1 + receiver.lost_packets.unwrap(), sent(flow).1);
            } else {
                let end = if is_forward { "receiver" } else { "sender" };
                let bytes = stream[end]["bytes"].as_u64().unwrap();
                let far = if is_forward { received(flow).0 } else { sent(flow).0 };
                assert_eq!(bytes, far, "{connections}");
                assert_close(sent(flow).0, received(flow).0);
            }
        }
    }
}

#[test]
fn fifty_clients_are_served_at_once() {
    if !has_iperf3("fifty_clients_are_served_at_once") {
        return;
    }
    let server = serve(Limits::default());
    let port = server.port();
    let client = |index: usize| {
        let transport: &[&str] = if index.is_multiple_of(2) { &["-u"] } else { &[] };
        let mut command = Command::new("iperf3");
        command.args(["-c", "127.0.0.1", "-p", &port, "-J", "-t", "1", "-b", "500K"]);
        command.args(transport).stdout(Stdio::piped()).spawn().unwrap()
    };
    let clients: Vec<_> = (0..50).map(client).collect();
    for client in clients {
        json(&client.wait_with_output().unwrap());
    }
    for _ in 0..50 {
        assert_eq!(served(&server).status, Status::Complete);
    }
}

/// A client by hand: what it has sent so far, and its connection.
struct ByHand(TcpStream);

impl ByHand {
    fn connect(server: &Serving) -> Self {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        ByHand(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        // The server may have closed it.
        let _ = self.0.write_all(bytes);
    }

    /// The next byte, or `None` at the end.
    fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        self.0.read_exact(&mut byte).ok().map(|()| byte[0])
    }

    fn json(&mut self, text: &str) {
        self.send(&(text.len() as u32).to_be_bytes());
        self.send(text.as_bytes());
    }
}

const COOKIE: &[u8; 37] = b"abcdefghijklmnopqrstuvwxyz234567abcd\0";
const PARAMETERS: &str =
    r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":1000}"#;
const UDP: &str =
    r#"{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":1000}"#;

/// The server still serves.
fn assert_serves(server: &Serving) {
    let record = test(server.address, "[[connection]]\nbytes = \"100K\"").unwrap();
    assert_eq!(record.status, Status::Complete);
    assert_eq!(received(&record.flows[0]).0, 100 << 10);
}

#[test]
fn hostile_clients_are_refused_and_others_served() {
    let server = serve(Limits { hello_seconds: 1, ..Limits::default() });
    for parameters in [
        r#"{"udp":true,"len":70000}"#,
        r#"{"tcp":true,"parallel":4294967296}"#,
        r#"{"tcp":true,"time":1e300}"#,
        r#"{"tcp":true,"congestion":"no such; thing"}"#,
        r#"{"sctp":true}"#,
        r#"{"tcp":[[[[[[[[[[]]]]]]]]]]}"#,
        "[1]",
        "null",
        "\u{0}",
    ] {
        let mut client = ByHand::connect(&server);
        client.send(COOKIE);
        assert_eq!(client.byte(), Some(9));
        client.json(parameters);
        // SERVER_ERROR, then the end.
        assert_eq!(client.byte(), Some(0xfe), "{parameters}");
        let mut rest = vec![];
        client.0.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), 8);
    }
    for length in [0_u32, 8193, u32::MAX] {
        let mut client = ByHand::connect(&server);
        client.send(COOKIE);
        assert_eq!(client.byte(), Some(9));
        client.send(&length.to_be_bytes());
        assert_eq!(client.byte(), None);
    }
    // Other cookies: a scan, another protocol, silence.
    for greeting in [&b"GET / HTTP/1.0\r\n\r\n                        "[..], &[0; 37], b"WEIR", b""]
    {
        let mut client = ByHand::connect(&server);
        client.send(greeting);
        assert_eq!(client.byte(), None);
    }
    // A hello that no session awaits is not answered.
    let stray = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    stray.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stray.send_to(b"9876", server.address).unwrap();
    assert!(stray.recv(&mut [0; 8]).is_err());
    assert_serves(&server);
}

#[test]
fn results_that_are_too_long_or_not_results_end_their_session() {
    let server = serve(Limits::default());
    for results in [&b"\xff\xff\xff\xff"[..], b"\0\0\0\x02[]", b"\0\0\0\x02{}"] {
        let mut client = ByHand::connect(&server);
        client.send(COOKIE);
        assert_eq!(client.byte(), Some(9));
        client.json(PARAMETERS);
        assert_eq!(client.byte(), Some(10));
        let mut data = ByHand::connect(&server);
        data.send(COOKIE);
        assert_eq!((client.byte(), client.byte()), (Some(1), Some(2)));
        data.send(&[7; 1000]);
        client.send(&[4]);
        assert_eq!(client.byte(), Some(13));
        client.send(results);
        assert_eq!(client.byte(), None);
        let record = served(&server);
        assert_eq!(record.status, Status::Partial);
    }
    assert_serves(&server);
}

#[test]
fn streams_that_the_server_sends_end_before_the_results() {
    let server = serve(Limits::default());
    let mut client = ByHand::connect(&server);
    client.send(COOKIE);
    assert_eq!(client.byte(), Some(9));
    client.json(&PARAMETERS.replace("\"tcp\"", "\"reverse\":true,\"tcp\""));
    assert_eq!(client.byte(), Some(10));
    let mut data = ByHand::connect(&server);
    data.send(COOKIE);
    assert_eq!((client.byte(), client.byte()), (Some(1), Some(2)));
    data.0.read_exact(&mut [0; 1500]).unwrap();
    client.send(&[4]);
    // As iperf3's client, which blocks in the middle of a block until the stream ends.
    let mut bytes = 1500;
    loop {
        match data.0.read(&mut [0; 65_536]).unwrap() {
            0 => break,
            read => bytes += read,
        }
    }
    assert_eq!(client.byte(), Some(13));
    client.json(
        r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":-1,"streams":[{"id":1,"bytes":1500,"retransmits":-1,"jitter":0,"errors":0,"packets":0}]}"#,
    );
    let length = u32::from_be_bytes([(); 4].map(|()| client.byte().unwrap()));
    let mut results = vec![0; length as usize];
    client.0.read_exact(&mut results).unwrap();
    let results: Value = serde_json::from_slice(&results).unwrap();
    assert_eq!(results["streams"][0]["bytes"], bytes);
    assert_eq!(client.byte(), Some(14));
}

#[test]
fn a_reordered_datagram_is_not_lost() {
    let server = serve(Limits::default());
    let mut client = ByHand::connect(&server);
    client.send(COOKIE);
    assert_eq!(client.byte(), Some(9));
    client.json(UDP);
    assert_eq!(client.byte(), Some(10));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.send(b"9876").unwrap();
    assert_eq!((client.byte(), client.byte()), (Some(1), Some(2)));
    assert_eq!(socket.recv(&mut [0; 16]).unwrap(), 4);
    // The second one comes after the third, the fifth never.
    for number in [1_u32, 3, 2, 4, 6] {
        let mut datagram = [0; 1000];
        datagram[8..12].copy_from_slice(&number.to_be_bytes());
        socket.send(&datagram).unwrap();
    }
    client.send(&[4]);
    assert_eq!(client.byte(), Some(13));
    client.json(
        r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":-1,"streams":[{"id":1,"bytes":6000,"retransmits":-1,"jitter":0,"errors":0,"packets":6}]}"#,
    );
    let length = u32::from_be_bytes([(); 4].map(|()| client.byte().unwrap()));
    let mut results = vec![0; length as usize];
    client.0.read_exact(&mut results).unwrap();
    let results: Value = serde_json::from_slice(&results).unwrap();
    assert_eq!(
        (&results["streams"][0]["errors"], &results["streams"][0]["packets"]),
        (&1.into(), &6.into())
    );
    client.send(&[16]);
    let record = served(&server);
    let receiver = record.flows[0].receiver.as_ref().unwrap();
    assert_eq!((receiver.lost_packets, receiver.reordered_packets), (Some(1), Some(1)));
}

#[test]
fn a_client_that_vanishes_at_any_step_leaves_nothing() {
    // One session and two flows at most: what is left behind would refuse the next.
    let server = serve(Limits { sessions: 1, flows: 2, ..Limits::default() });
    let serves = || {
        let begun = std::time::Instant::now();
        // The end of a connection is noticed a little later.
        while let Err(error) = test(server.address, "[[connection]]\nbytes = \"10K\"") {
            assert!(begun.elapsed() < LIMIT, "{error}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    for parameters in [PARAMETERS, UDP] {
        for steps in 0..6 {
            let mut client = ByHand::connect(&server);
            let mut streams = vec![];
            for step in 0..steps {
                match step {
                    0 => client.send(COOKIE),
                    1 => assert_eq!(client.byte(), Some(9)),
                    2 => client.json(parameters),
                    3 => assert_eq!(client.byte(), Some(10)),
                    _ if parameters == UDP => {
                        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                        socket.send_to(b"9876", server.address).unwrap();
                        assert_eq!(client.byte(), Some(1));
                        assert_eq!(client.byte(), Some(2));
                        drop(socket);
                    }
                    _ => {
                        let mut stream = ByHand::connect(&server);
                        stream.send(COOKIE);
                        streams.push(stream);
                        assert_eq!(client.byte(), Some(1));
                    }
                }
            }
            drop((client, streams));
            serves();
        }
    }
}

#[test]
fn a_server_that_vanishes_at_any_step_is_reported() {
    for steps in 0..=6 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn({
            move || {
                let (mut control, _) = listener.accept().unwrap();
                let mut streams = vec![];
                for step in 0..steps {
                    let mut bytes = [0; 4096];
                    match step {
                        0 => control.read_exact(&mut bytes[..37]).unwrap(),
                        1 => control.write_all(&[9]).unwrap(),
                        2 => drop(control.read(&mut bytes).unwrap()),
                        3 => control.write_all(&[10]).unwrap(),
                        4 => streams.push(listener.accept().unwrap()),
                        _ => control.write_all(&[1, 2]).unwrap(),
                    }
                }
            }
        });
        let failure =
            test(address, "[[connection]]\nrate = \"1M\"\nduration = \"5s\"").unwrap_err();
        server.join().unwrap();
        assert_eq!(failure.error.exit_code(), 3, "{steps}: {failure}");
        assert_eq!(failure.partial.is_some(), steps >= 6, "{steps}: {failure}");
    }
}

#[test]
fn what_a_server_says_instead_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for (answer, code) in [
        (&[0xff][..], "peer-busy"),
        (&[11], "peer-closed"),
        (&[0xfe, 0, 0, 0, 142, 0, 0, 0, 0], "peer-server-error"),
        (&[99], "protocol"),
        (&[16], "protocol"),
        (b"220 mail.example ESMTP\r\n", "protocol"),
    ] {
        let server = std::thread::spawn({
            let listener = listener.try_clone().unwrap();
            move || {
                let (mut control, _) = listener.accept().unwrap();
                control.write_all(answer).unwrap();
                // Until the client closes it.
                let _ = control.read_to_end(&mut vec![]);
            }
        });
        let failure = test(address, "[[connection]]").unwrap_err();
        assert_eq!(failure.error.code(), code);
        server.join().unwrap();
    }
}

#[test]
fn a_test_without_the_tools_name_recognises_its_server() {
    let server = serve(Limits::default());
    let plan = |peer| Plan {
        peer,
        port: Some(server.address.port()),
        connections: vec![weir_model::plan::Connection {
            bytes: Some(weir_model::units::ByteSize(10_000)),
            ..Default::default()
        }],
        ..Plan::default()
    };
    let run = |peer| {
        let config = ClientConfig::new(plan(peer), "127.0.0.1");
        weir_peers::run(config, Stop::new(), &mut |_| {})
    };
    let failure = run(PeerName::Weir).unwrap_err();
    assert_eq!(failure.error.code(), "other-tool");
    let record = run(PeerName::Auto).unwrap();
    assert_eq!((record.peer.as_str(), record.plan.peer), ("iperf3", PeerName::Iperf3));
}

/// Runs a test, and requests a stop once data has flowed for an interval.
fn stopped_meanwhile(to: SocketAddr, own: Stop, stop: &Stop, reason: StopReason) -> Failure {
    let mut observe = |event| {
        if matches!(event, Event::Interval(_)) {
            stop.request(reason);
        }
    };
    observed(to, "[[connection]]\nrate = \"10M\"", own, &mut observe).unwrap_err()
}

#[test]
fn an_interrupted_test_is_partial_at_both_ends() {
    let server = serve(Limits::default());
    let stop = Stop::new();
    let failure = stopped_meanwhile(server.address, stop.clone(), &stop, StopReason::Interrupted);
    assert_eq!(failure.error.exit_code(), 130);
    assert_eq!(failure.partial.unwrap().status, Status::Interrupted);
    let record = served(&server);
    assert_eq!(record.status, Status::Interrupted);
    assert!(received(&record.flows[0]).0 > 0);
}

#[test]
fn an_interrupt_while_results_are_awaited_ends_the_test() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Stop::new();
    let own = stop.clone();
    let server = std::thread::spawn(move || {
        let (mut control, _) = listener.accept().unwrap();
        let mut bytes = [0; 4096];
        control.read_exact(&mut bytes[..37]).unwrap();
        control.write_all(&[9]).unwrap();
        assert!(control.read(&mut bytes).unwrap() > 0);
        control.write_all(&[10]).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        control.write_all(&[1, 2]).unwrap();
        let reading = std::thread::spawn(move || stream.read_to_end(&mut vec![]));
        // TEST_END, which is not answered.
        while control.read(&mut bytes[..1]).unwrap() == 1 && bytes[0] != 4 {}
        own.request(StopReason::Interrupted);
        let _ = control.read_to_end(&mut vec![]);
        let _ = reading.join();
    });
    let connection = "[[connection]]\nbytes = \"10K\"";
    let failure = observed(address, connection, stop, &mut |_| {}).unwrap_err();
    assert_eq!((failure.error.exit_code(), failure.partial.is_some()), (130, true));
    server.join().unwrap();
}

#[test]
fn a_server_that_stops_tells_its_clients() {
    let server = serve(Limits::default());
    let failure =
        stopped_meanwhile(server.address, Stop::new(), &server.stop, StopReason::Terminated);
    assert_eq!(failure.error.code(), "peer-closed");
    assert_eq!(served(&server).status, Status::Interrupted);
}

#[test]
fn a_busy_server_refuses_and_says_so() {
    let server = serve(Limits { sessions: 1, ..Limits::default() });
    let mut first = ByHand::connect(&server);
    first.send(COOKIE);
    assert_eq!(first.byte(), Some(9));
    let failure = test(server.address, "[[connection]]").unwrap_err();
    assert_eq!(failure.error.code(), "peer-busy");
}
