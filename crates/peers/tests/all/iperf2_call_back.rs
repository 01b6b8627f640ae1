//! iperf2's tests in which the server connects back (`-d`, `-r`): Weir with Weir, with Debian's iperf in both roles, and with peers
//! that are gone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use weir_model::plan::{Direction, Plan};
use weir_model::record::{Flow, Record, Status};
use weir_model::units::Span;
use weir_peers::{CallBacks, Iperf2CallBack, Iperf2Extras};
use weir_traffic::{ClientConfig, Failure, Limits, ServerEvent, Stop};

use crate::common::{LIMIT, Serving, received, sent, served};
use crate::iperf2::{Server, has_iperf};

const BOTH: [bool; 2] = [false, true];

fn serve(bind: &str, call_backs: CallBacks) -> Serving {
    Serving::calling_back("iperf2", bind, Limits::default(), call_backs)
}

/// Also over UDP, to this host.
fn listed() -> CallBacks {
    CallBacks::Listed("127.0.0.0/8,::1".parse().unwrap())
}

/// A connection of these options in each direction.
fn both(options: &str) -> String {
    format!("[[connection]]\n{options}\n[[connection]]\n{options}\ndirection = \"reverse\"\n")
}

fn test(to: SocketAddr, connections: &str, is_after: bool) -> Result<Record, Failure> {
    let text = format!("schema = \"weir.plan/1\"\npeer = \"iperf2\"\n{connections}");
    let plan = Plan::parse(&text).unwrap();
    let plan = Plan { port: Some(to.port()), interval: Span(50_000_000), ..plan };
    let config = ClientConfig::new(plan, to.ip().to_string());
    let call_back = Some(Iperf2CallBack { is_after, port: None });
    let extras = Iperf2Extras { call_back, ..Iperf2Extras::default() };
    weir_peers::run_iperf2(&config, &extras, &Stop::new(), &mut |_| {})
}

/// What flows of a direction have sent, or what arrived of them, sorted.
fn moved(records: &[Record], direction: Direction) -> Vec<(u64, u64)> {
    let flows = records.iter().flat_map(|record| &record.flows);
    let flows = flows.filter(|flow| flow.direction == direction);
    let is_stream = |flow: &Flow| !flow.transport.datagrams();
    // Reads and writes of a stream differ.
    let moved = flows.map(|flow| {
        let (bytes, packets) = match direction {
            Direction::Forward => sent(flow),
            Direction::Reverse => received(flow),
        };
        (bytes, if is_stream(flow) { 0 } else { packets })
    });
    let mut moved: Vec<(u64, u64)> = moved.collect();
    moved.sort_unstable();
    moved
}

#[test]
fn two_weirs_agree_where_the_server_connects_back() {
    for bind in ["127.0.0.1", "::1"] {
        let server = serve(bind, listed());
        for (options, flows) in [
            ("bytes = \"2M\"", 1),
            ("bytes = \"1M\"\ncount = 3", 3),
            ("duration = \"300ms\"\nrate = \"20M\"\npayload = \"10K\"", 1),
            ("transport = \"udp\"\npackets = 100\nrate = \"1000pps\"", 1),
            ("transport = \"udp\"\nduration = \"300ms\"\nrate = \"2M\"\npayload = 500", 1),
        ] {
            for is_after in BOTH {
                let near = test(server.address, &both(options), is_after).unwrap();
                assert_eq!((near.status, near.flows.len()), (Status::Complete, 2 * flows));
                // Each direction of each stream is a session.
                let far: Vec<Record> = (0..2 * flows).map(|_| served(&server)).collect();
                assert!(far.iter().all(|far| far.status == Status::Complete), "{options}");
                let near = [near];
                for direction in [Direction::Forward, Direction::Reverse] {
                    let other = match direction {
                        Direction::Forward => Direction::Reverse,
                        Direction::Reverse => Direction::Forward,
                    };
                    let moved_near = moved(&near, direction);
                    assert_eq!(moved_near, moved(&far, other), "{options} {is_after}");
                    assert!(moved_near.iter().all(|(bytes, _)| *bytes > 0));
                }
                // What is sent back starts with the test, or after it.
                let [forward, back] = [Direction::Forward, Direction::Reverse].map(|direction| {
                    near[0].flows.iter().find(|flow| flow.direction == direction).unwrap()
                });
                let ended = forward.sender.as_ref().unwrap().end_seconds.unwrap();
                let started = back.receiver.as_ref().unwrap().start_seconds.unwrap();
                if options.contains("300ms") {
                    assert_eq!(started >= ended, is_after, "{options}: {started} and {ended}");
                }
            }
        }
    }
}

/// A port of its own for each test: below those that the system chooses, which are often in use for one of the transports.
fn unused() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(17_000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Bytes of the rows of `-y C` that are of this port.
fn bytes_at(text: &str, port: &str) -> Vec<u64> {
    let rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let rows = rows.filter(|row| row.len() >= 9 && (row[2] == port || row[4] == port));
    let mut bytes: Vec<u64> = rows.map(|row| row[7].parse().unwrap()).collect();
    bytes.sort_unstable();
    bytes
}

/// Runs a client of iperf with a server of ours. Returns the server, the port at which the client listens, and what it printed.
fn called_back(bind: &str, flags: &str, mode: &str) -> (Serving, String, Output) {
    let (server, listen) = (serve(bind, listed()), unused().to_string());
    let mut command = Command::new("timeout");
    command.args([
        "-sKILL",
        "15",
        "iperf",
        "-c",
        bind,
        "-p",
        &server.port(),
        "-y",
        "C",
        "-L",
        &listen,
        mode,
    ]);
    if bind == "::1" {
        command.arg("-V");
    }
    let output = command.args(flags.split_whitespace()).output().unwrap();
    (server, listen, output)
}

#[test]
fn clients_of_iperf_are_called_back() {
    if !has_iperf("clients_of_iperf_are_called_back") {
        return;
    }
    for bind in ["127.0.0.1", "::1"] {
        for (flags, streams) in [
            ("-n 2M", 1),
            ("-n 1M -P 3", 3),
            ("-t 1 -b 20M -l 10K", 1),
            ("-u -t 1 -b 1M", 1),
            ("-u -n 100K -b 2M -l 1000", 1),
        ] {
            for mode in ["-d", "-r"] {
                // iperf 2.1.8 does not always end: its threads wait for each other.
                let (server, listen, output) = (0..5)
                    .map(|_| called_back(bind, flags, mode))
                    .find(|(_, _, output)| output.status.success())
                    .unwrap();
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let far: Vec<Record> = (0..2 * streams).map(|_| served(&server)).collect();
                for far in &far {
                    assert_eq!(far.status, Status::Complete, "{mode} {flags}: {}", far.end_reason);
                }
                let back = bytes_at(&text, &listen);
                let ours = moved(&far, Direction::Forward);
                assert_eq!(back.len(), streams, "{mode} {flags}: {text}");
                for (theirs, (ours, _)) in back.iter().zip(&ours) {
                    // It does not count the datagram with which it accepts a source, and misses more on a busy host.
                    let least = if flags.contains("-u") { ours / 2 } else { *ours };
                    assert!((least..=*ours).contains(theirs), "{mode} {flags}: {text}");
                }
                for (arrived, _) in moved(&far, Direction::Reverse) {
                    let is_theirs = text.split(',').any(|field| field == arrived.to_string());
                    assert!(is_theirs, "{mode} {flags}: {arrived} in {text}");
                }
            }
        }
    }
}

#[test]
fn servers_of_iperf_connect_back() {
    if !has_iperf("servers_of_iperf_connect_back") {
        return;
    }
    for host in ["127.0.0.1", "::1"] {
        for (options, streams) in [
            // iperf 2.1.8 does not always send on several streams: its threads wait for each other.
            ("bytes = \"2M\"", 1),
            ("duration = \"1s\"\nrate = \"20M\"\npayload = \"10K\"", 1),
            ("transport = \"udp\"\nduration = \"1s\"\nrate = \"1M\"\npayload = 1000", 1),
            ("transport = \"udp\"\npackets = 200\nrate = \"500pps\"\npayload = 1000", 1),
        ] {
            for is_after in BOTH {
                let server = Server::start(host, options.contains("udp"));
                let near = test(server.address, &both(options), is_after).unwrap();
                assert_eq!(near.status, Status::Complete, "{options} {is_after}");
                let near = [near];
                let ours: Vec<u64> = [Direction::Forward, Direction::Reverse]
                    .iter()
                    .flat_map(|direction| moved(&near, *direction))
                    .map(|(bytes, _)| bytes)
                    .collect();
                assert_eq!(ours.len(), 2 * streams);
                let rows = server.rows(2 * streams);
                for bytes in &ours {
                    let is_theirs = rows.iter().any(|row| row[7] == bytes.to_string());
                    assert!(is_theirs, "{options} {is_after}: {bytes} in {rows:?}");
                }
                if options.contains("udp") {
                    for flow in &near[0].flows {
                        let receiver = flow.receiver.as_ref().unwrap();
                        assert_eq!(receiver.lost_packets, Some(0), "{options} {is_after}");
                    }
                }
            }
        }
    }
}

/// The reason of the next refusal.
fn refused(server: &Serving) -> String {
    loop {
        if let ServerEvent::Refused { reason, .. } = server.events.recv_timeout(LIMIT).unwrap() {
            return reason;
        }
    }
}

/// The header of a stream that asks to be called back.
fn header(port: u32, is_after: bool) -> Vec<u8> {
    let first = if is_after { 0xc001_0078_u32 } else { 0xc001_0079 };
    let words = [first, 1, port, 0, 0, 100_000, 0, 0, 0, 0x0002_0001, 0x0008_0003, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn a_client_is_called_back_only_where_it_may_be() {
    let request = |server: &Serving, port: u32| {
        let mut client = TcpStream::connect(server.address).unwrap();
        client.write_all(&header(port, false)).unwrap();
        client
    };
    let server = serve("127.0.0.1", CallBacks::Streams);
    // Ports of services, and numbers that are none.
    for port in [0, 22, 1023, 65_536, u32::MAX] {
        let _client = request(&server, port);
        assert!(refused(&server).contains("1023"), "{port}");
    }
    // Nothing listens at the client: the session of what it sends goes on.
    let mut client = request(&server, unused().into());
    assert!(refused(&server).contains("connecting back"));
    client.write_all(&[0; 1000]).unwrap();
    drop(client);
    assert_eq!(received(&served(&server).flows[0]).0, 1060);
    // A datagram, whose source may be forged.
    let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
    listener.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut datagram = vec![0; 16];
    datagram[3] = 1;
    datagram.extend(header(listener.local_addr().unwrap().port().into(), false));
    datagram[16..20].copy_from_slice(&0xc801_0099_u32.to_be_bytes());
    datagram.resize(1000, 0);
    client.send_to(&datagram, server.address).unwrap();
    assert!(listener.recv(&mut [0; 2000]).is_err());
    let others = CallBacks::Listed("192.0.2.0/24".parse().unwrap());
    let server = serve("127.0.0.1", others);
    client.send_to(&datagram, server.address).unwrap();
    assert!(listener.recv(&mut [0; 2000]).is_err());
    let server = serve("127.0.0.1", listed());
    // For longer than an hour: no session begins.
    let mut long = datagram.clone();
    long[36..40].copy_from_slice(&(-360_100_i32).to_be_bytes());
    client.send_to(&long, server.address).unwrap();
    assert!(listener.recv(&mut [0; 2000]).is_err());
    assert!(server.events.try_iter().all(|event| matches!(event, ServerEvent::Listening { .. })));
    client.send_to(&datagram, server.address).unwrap();
    assert!(listener.recv(&mut [0; 2000]).is_ok());
}

#[test]
fn a_client_may_listen_after_it_has_asked() {
    let server = serve("127.0.0.1", CallBacks::Streams);
    let port = unused();
    let mut client = TcpStream::connect(server.address).unwrap();
    client.write_all(&header(port.into(), false)).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!server.events.try_iter().any(|event| matches!(event, ServerEvent::Refused { .. })));
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (mut back, _) = listener.accept().unwrap();
    let mut sent = vec![];
    back.read_to_end(&mut sent).unwrap();
    assert_eq!(sent.len(), 100_000);
}

#[test]
fn a_client_that_is_gone_is_called_back_no_more() {
    let server = serve("127.0.0.1", CallBacks::Streams);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut client = TcpStream::connect(server.address).unwrap();
    let mut request = header(port.into(), false);
    // For 100 s.
    request[20..24].copy_from_slice(&(-10_000_i32).to_be_bytes());
    client.write_all(&request).unwrap();
    let (mut back, _) = listener.accept().unwrap();
    assert!(back.read(&mut [0; 1000]).unwrap() > 0);
    drop((back, client));
    for _ in 0..2 {
        let far = served(&server);
        let is_back = far.flows[0].direction == Direction::Forward;
        if is_back {
            assert_eq!(far.status, Status::Partial);
        }
    }
    let record = test(server.address, &both("bytes = \"100K\""), true).unwrap();
    assert_eq!(record.status, Status::Complete);
}

#[test]
fn a_server_that_does_not_connect_back_is_reported() {
    // It refuses.
    let server = serve("127.0.0.1", CallBacks::Never);
    let failure = test(server.address, &both("bytes = \"100K\""), false).unwrap_err();
    assert_eq!(failure.error.exit_code(), 3);
    // It reads what it is sent, and does no more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let reading = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
    });
    let begun = Instant::now();
    let failure = test(address, &both("bytes = \"100K\""), true).unwrap_err();
    assert_eq!(failure.error.exit_code(), 3, "{}", failure.error);
    assert!(begun.elapsed() < LIMIT);
    let partial = failure.partial.unwrap();
    assert_eq!(reading.join().unwrap(), sent(&partial.flows[0]).0);
}
