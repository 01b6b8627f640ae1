//! D-ITG: Weir with Weir, with Debian's ITGSend and ITGRecv, and with peers that misbehave or vanish.
//!
//! Data has one port, so that the receivers of these tests have addresses of their own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_model::record::{Flow, Record, Status};
use weir_traffic::{Event, Failure, Limits, ServerEvent, Stop, StopReason};

use crate::common::{LIMIT, Program, Serving, received, run, sent, served};

/// The port of data at ::1, which has no other address for another test.
static PORT_AT_V6: Mutex<()> = Mutex::new(());

/// The port of data at an address.
pub(crate) fn alone(bind: &str) -> Option<MutexGuard<'static, ()>> {
    bind.contains(':').then(|| PORT_AT_V6.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs a plan of these connections.
pub(crate) fn test(to: SocketAddr, connections: &str) -> Result<Record, Failure> {
    run("ditg", to, connections, Stop::new(), &mut |_| {})
}

/// The reason of the next refusal.
fn refused(server: &Serving) -> String {
    loop {
        if let ServerEvent::Refused { reason, .. } = server.events.recv_timeout(LIMIT).unwrap() {
            return reason;
        }
    }
}

/// Bytes and packets of the echo of a flow.
fn back(flow: &Flow) -> (u64, u64) {
    let echo = flow.echo.as_ref().unwrap();
    (echo.bytes, echo.packets)
}

/// Flows of datagrams with `packets` each, of which both ends have the same figures, without loss; as both ends have them.
pub(crate) fn agreed(
    server: &Serving,
    transport: &str,
    connections: &str,
    packets: u64,
) -> Vec<(Flow, Flow)> {
    let text = format!("[[connection]]\ntransport = \"{transport}\"\n{connections}");
    let record = test(server.address, &text).unwrap();
    let far = served(server);
    assert_eq!((record.status, far.status), (Status::Complete, Status::Complete));
    assert_eq!(record.flows.len(), far.flows.len(), "{connections}");
    let flows: Vec<(Flow, Flow)> = record.flows.into_iter().zip(far.flows).collect();
    for (near, far) in &flows {
        assert_eq!(sent(near), received(far), "{connections}");
        assert_eq!(sent(near).1, packets);
        let received = far.receiver.as_ref().unwrap();
        let has_numbers = !connections.contains("none");
        assert_eq!(received.lost_packets, has_numbers.then_some(0), "{connections}");
        assert_eq!(received.unreadable_packets.unwrap_or(0), 0);
        let has_times = has_numbers && !connections.contains("short");
        assert_eq!(received.jitter_seconds.is_some(), has_times, "{connections}");
        assert!(received.one_way_delay.is_none() && received.corrupted_packets.is_none());
    }
    flows
}

#[test]
fn two_weirs_agree_in_each_mode() {
    for bind in ["127.0.0.11", "::1"] {
        let _alone = alone(bind);
        let server = Serving::start("ditg", bind, Limits::default());
        for connections in [
            "[[connection]]\nbytes = \"3M\"\npayload = 1000",
            "[[connection]]\ncount = 3\nbytes = \"300K\"",
            "[[connection]]\nduration = \"200ms\"\nrate = \"50M\"\npayload = \"16K\"",
            "[[connection]]\npackets = 100\npayload = \"24..3000\"",
            "[[connection]]\npackets = 100\necho = \"whole\"",
        ] {
            let record = test(server.address, connections).unwrap();
            let far = served(&server);
            assert_eq!((record.status, record.peer.as_str()), (Status::Complete, "ditg"));
            assert_eq!((far.status, far.peer.as_str()), (Status::Complete, "ditg"));
            assert_eq!(record.flows.len(), far.flows.len(), "{connections}");
            for (near, far) in record.flows.iter().zip(&far.flows) {
                assert_eq!(sent(near).0, received(far).0, "{connections}");
                assert!(sent(near).0 > 0);
                if near.payload_law.is_none() {
                    assert_eq!(far.payload_bytes, near.payload_bytes, "{connections}");
                }
                if connections.contains("echo") {
                    assert_eq!(back(near).0, sent(near).0);
                }
            }
        }
        for (connections, packets) in [
            ("packets = 200\nrate = \"2000pps\"", 200),
            ("packets = 200\nrate = \"2000pps\"\nheader = \"ditg-short\"", 200),
            ("packets = 200\nrate = \"2000pps\"\nheader = \"none\"", 200),
            ("packets = 200\nrate = \"2000pps\"\npayload = \"20..1400\"", 200),
            ("packets = 100\nrate = \"1000pps\"\ncount = 4", 100),
            ("packets = 200\nrate = \"2000pps\"\necho = \"whole\"", 200),
        ] {
            for (near, _) in agreed(&server, "udp", connections, packets) {
                if connections.contains("echo") {
                    assert_eq!(back(&near), sent(&near));
                    let trip = near.round_trip.as_ref().unwrap();
                    assert!(trip.min_seconds > 0.0 && trip.max_seconds < 5.0, "{trip:?}");
                }
            }
        }
    }
}

#[test]
fn flows_of_one_session_start_at_their_times_and_may_differ() {
    let server = Serving::start("ditg", "127.0.0.12", Limits::default());
    let connections = "[[connection]]\ntransport = \"udp\"\npackets = 50\nrate = \"1000pps\"\n\
                       [[connection]]\npackets = 30\npayload = 700\nstart_after = \"300ms\"\n\
                       [[connection]]\ntransport = \"udp\"\npackets = 20\nrate = \"1000pps\"\necho = \"whole\"";
    let record = test(server.address, connections).unwrap();
    let far = served(&server);
    let bytes = |flow: &Flow| received(flow).0;
    let all: Vec<u64> = far.flows.iter().map(bytes).collect();
    assert_eq!(all, [50 * 512, 30 * 700, 20 * 512]);
    let start = |flow: &Flow| flow.sender.as_ref().unwrap().start_seconds.unwrap();
    assert!(start(&record.flows[1]) >= 0.3 && start(&record.flows[0]) < 0.3);
    let there = far.flows[1].receiver.as_ref().unwrap().start_seconds.unwrap();
    assert!(there >= 0.25, "{there}");
}

pub(crate) fn has_ditg(name: &str) -> bool {
    let mut command = Command::new("ITGDec");
    let found = command.arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        assert!(std::env::var_os("CI").is_none());
        println!("SKIPPED {name}: no ITGDec");
    }
    found
}

/// A file of this test process.
fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("weir-ditg-{}-{name}", std::process::id()))
}

/// Packets and bytes of each flow of a log, by its number, as ITGDec counts them.
fn decoded(log: &Path) -> Vec<(u32, u64, u64)> {
    let output = Command::new("ITGDec").arg(log).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut flows = vec![];
    for line in text.lines() {
        if line.contains("TOTAL RESULTS") {
            break;
        }
        let value = || line.rsplit(['=', ':']).next().unwrap().trim().parse::<u64>().unwrap();
        if line.starts_with("Flow number") {
            flows.push((value() as u32, 0, 0));
        } else if line.starts_with("Total packets") {
            flows.last_mut().unwrap().1 = value();
        } else if line.starts_with("Bytes received") {
            flows.last_mut().unwrap().2 = value();
        }
    }
    flows.sort_unstable();
    flows
}

/// Runs ITGSend; returns what its own log says. It prints without end where its output is a pipe.
pub(crate) fn itgsend(server: &Serving, name: &str, flags: &str) -> Vec<(u32, u64, u64)> {
    let log = scratch(&format!("{name}.log"));
    let host = server.address.ip().to_string();
    let own = format!("-a {host} -Sdp {}", server.port());
    let mut command = Command::new("ITGSend");
    let script = scratch(&format!("{name}.script"));
    if flags.contains('\n') {
        let lines = flags.lines().map(|line| format!("{own} {line}\n"));
        std::fs::write(&script, lines.collect::<String>()).unwrap();
        command.arg(&script);
    } else {
        command.args(own.split(' ')).args(flags.split_whitespace());
    }
    command.arg("-l").arg(&log).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Program(command.spawn().unwrap());
    let until = Instant::now() + LIMIT;
    while child.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "ITGSend {flags} does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let flows = decoded(&log);
    let _ = (std::fs::remove_file(&log), std::fs::remove_file(&script));
    flows
}

#[test]
fn itgsend_is_served() {
    if !has_ditg("itgsend_is_served") {
        return;
    }
    for bind in ["127.0.0.13", "::1"] {
        let _alone = alone(bind);
        let server = Serving::start("ditg", bind, Limits::default());
        for flags in [
            "-T UDP -C 500 -c 200 -z 300",
            "-T UDP -C 500 -u 100 900 -z 300",
            "-T UDP -C 500 -c 64 -z 300 -p 1",
            "-T UDP -m rttm -C 500 -c 100 -z 300",
            "-T TCP -C 500 -c 1000 -z 300",
            "-T TCP -m rttm -C 500 -c 300 -z 300",
            "-T TCP -C 500 -c 1000 -t 400 -x log",
            "-T UDP -E 300 -e 200 -t 500 -b 16",
        ] {
            let theirs = itgsend(&server, "served", flags);
            let far = served(&server);
            assert_eq!((far.status, far.flows.len()), (Status::Complete, 1), "{flags}");
            let (bytes, packets) = received(&far.flows[0]);
            let (_, sent, sent_bytes) = theirs[0];
            assert_eq!(bytes, sent_bytes, "{flags}");
            if flags.contains("UDP") {
                assert_eq!(packets, sent, "{flags}");
                let lost = far.flows[0].receiver.as_ref().unwrap().lost_packets;
                assert_eq!(lost, Some(0), "{flags}");
            }
        }
    }
}

#[test]
fn several_flows_of_itgsend_are_one_session() {
    if !has_ditg("several_flows_of_itgsend_are_one_session") {
        return;
    }
    let server = Serving::start("ditg", "127.0.0.14", Limits::default());
    let script = "-T UDP -C 300 -c 100 -z 200\n-T TCP -C 300 -c 500 -z 150\n-T UDP -C 300 -c 80 -z 250 -m rttm\n\
                  -T TCP -C 300 -c 60 -z 50 -d 200\n-T UDP -C 200 -c 90 -z 100 -rp 9010 -p 1";
    let theirs = itgsend(&server, "several", script);
    let far = served(&server);
    assert_eq!((far.status, far.flows.len(), theirs.len()), (Status::Complete, 5, 5));
    for flow in &far.flows {
        let number: u32 = flow.name.strip_prefix("flow-").unwrap().parse().unwrap();
        let (_, packets, bytes) = theirs.iter().find(|flow| flow.0 == number).unwrap();
        assert_eq!(received(flow).0, *bytes, "{number}");
        if flow.transport.datagrams() {
            assert_eq!(received(flow).1, *packets, "{number}");
        }
    }
}

/// A running ITGRecv with a log.
pub(crate) struct ItgRecv {
    program: Program,
    pub(crate) address: SocketAddr,
    log: PathBuf,
}

impl ItgRecv {
    pub(crate) fn start(host: &str, port: u16) -> ItgRecv {
        let log = scratch(&format!("recv-{port}.log"));
        let _ = std::fs::remove_file(&log);
        let mut command = Command::new("ITGRecv");
        command.args(["-Sp", &port.to_string(), "-l"]).arg(&log);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = Program(command.spawn().unwrap());
        let address = SocketAddr::new(host.parse().unwrap(), port);
        let until = Instant::now() + LIMIT;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < until, "ITGRecv does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        ItgRecv { program, address, log }
    }

    /// Ends it; returns what its log says.
    pub(crate) fn end(mut self) -> Vec<(u32, u64, u64)> {
        let pid = self.program.0.id().to_string();
        // It writes the rest of its log when it is interrupted.
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let until = Instant::now() + LIMIT;
        while self.program.0.try_wait().unwrap().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let flows = decoded(&self.log);
        let _ = std::fs::remove_file(&self.log);
        flows
    }
}

#[test]
fn itgrecv_receives_what_is_sent() {
    if !has_ditg("itgrecv_receives_what_is_sent") {
        return;
    }
    for (host, port) in [("127.0.0.15", 19_015), ("::1", 19_016)] {
        let _alone = alone(host);
        for connections in [
            "[[connection]]\ntransport = \"udp\"\npackets = 300\nrate = \"2000pps\"",
            "[[connection]]\ntransport = \"udp\"\npackets = 300\nrate = \"2000pps\"\npayload = \"20..1400\"\nspacing = \"exponential\"",
            "[[connection]]\ntransport = \"udp\"\npackets = 300\nrate = \"2000pps\"\necho = \"whole\"",
            "[[connection]]\npackets = 300\nrate = \"2000pps\"\npayload = 1000",
            // ITGRecv may stop before it has read what a faster stream left in its buffer.
            "[[connection]]\nbytes = \"2M\"\nrate = \"100M\"\npayload = \"8K\"",
            "[[connection]]\nduration = \"200ms\"\nrate = \"100M\"\npayload = \"8K\"",
            "[[connection]]\npackets = 200\nrate = \"2000pps\"\npayload = 300\necho = \"whole\"",
            "[[connection]]\npackets = 20\ncount = 2\n[[connection]]\ntransport = \"udp\"\npackets = 40\nrate = \"1000pps\"\ncount = 2",
        ] {
            let attempt = || {
                let receiver = ItgRecv::start(host, port);
                let record = test(receiver.address, connections).unwrap();
                assert_eq!(record.status, Status::Complete, "{connections}");
                let theirs = receiver.end();
                assert_eq!(theirs.len(), record.flows.len(), "{connections}");
                let log = record.flows.iter().zip(theirs);
                let ends: Vec<_> = log
                    .map(|(flow, (number, packets, bytes))| {
                        ((flow.id, sent(flow)), (number, (bytes, packets)))
                    })
                    .collect();
                (record, ends)
            };
            // On a busy host ITGRecv ends before it has read all that had arrived.
            let (record, ends) = (0..5)
                .map(|_| attempt())
                .find(|(_, ends)| ends.iter().all(|(ours, theirs)| ours == theirs))
                .unwrap_or_else(|| panic!("{connections}: the ends differ in each of 5 tests"));
            for (flow, (_, (_, (bytes, packets)))) in record.flows.iter().zip(ends) {
                if flow.echo.is_some() {
                    assert_eq!(back(flow).0, bytes, "{connections}");
                }
                if flow.transport.datagrams() && flow.echo.is_some() {
                    assert_eq!(back(flow).1, packets);
                    assert!(flow.round_trip.as_ref().unwrap().min_seconds > 0.0);
                }
            }
            let one_sided = |w: &weir_model::warning::Warning| w.code == "one-sided";
            assert!(record.warnings.iter().any(one_sided));
        }
    }
}

/// Opens a session by hand.
pub(crate) fn signalling(server: &Serving) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(&[1]).unwrap();
    assert_eq!(answer::<1>(&mut stream), [2]);
    stream
}

/// The next bytes that a server sends.
pub(crate) fn answer<const N: usize>(stream: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// The announcement of a flow to 127.0.0.x.
pub(crate) fn announcement(layer4: u8, meter: u8, flow: u32, port: u16) -> Vec<u8> {
    let mut bytes = vec![3, layer4, 0, meter, 0, 4];
    bytes.extend(flow.to_be_bytes());
    bytes.push(0);
    bytes.extend(b"noSerial\0\0");
    bytes.extend(port.to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// The port of an accepted flow.
pub(crate) fn accepted(stream: &mut TcpStream, flow: u32) -> u16 {
    let [kind, f1, f2, f3, f4, p1, p2] = answer(stream);
    assert_eq!((kind, u32::from_be_bytes([f1, f2, f3, f4])), (5, flow));
    u16::from_be_bytes([p1, p2])
}

/// Datagram `number` of a flow.
fn datagram(flow: u32, number: u32) -> Vec<u8> {
    let words = [flow, number, 1000, 5, 0];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn what_a_receiver_does_not_have_is_refused_by_the_protocols_errors() {
    let server = Serving::start("ditg", "127.0.0.16", Limits::default());
    let taken = UdpSocket::bind("127.0.0.16:0").unwrap();
    let taken = taken.local_addr().unwrap().port();
    let mut stream = signalling(&server);
    for (layer4, port, error) in [(4, 8999, 15), (5, 8999, 15), (2, 80, 15), (2, taken, 15)] {
        stream.write_all(&announcement(layer4, 1, 7, port)).unwrap();
        assert_eq!(answer::<5>(&mut stream), [error, 0, 0, 0, 7], "{layer4} {port}");
        refused(&server);
    }
    // The session is as it was.
    stream.write_all(&announcement(2, 1, 7, 0)).unwrap();
    assert!(accepted(&mut stream, 7) >= 1024);
    // A log at another host is not written, and ends the session.
    stream.write_all(&[12, 0, 0]).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    refused(&server);
    assert_eq!(served(&server).status, Status::Partial);
}

#[test]
fn echoes_go_to_the_host_that_announced_the_flow_alone() {
    let server = Serving::start("ditg", "127.0.0.17", Limits::default());
    let mut stream = signalling(&server);
    stream.write_all(&announcement(2, 2, 1, 0)).unwrap();
    let to = SocketAddr::new(server.address.ip(), accepted(&mut stream, 1));
    let client = UdpSocket::bind(SocketAddr::new(stream.local_addr().unwrap().ip(), 0)).unwrap();
    let forger = UdpSocket::bind("127.0.0.99:0").unwrap();
    for socket in [&client, &forger] {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.connect(to).unwrap();
    }
    // The server reads them in this order: what it does not send to the forger was not sent when the client has its own.
    for number in 1..=20 {
        forger.send(&datagram(1, number)).unwrap();
    }
    let mut bytes = [0; 64];
    for number in 1..=5 {
        client.send(&datagram(1, number)).unwrap();
        let length = client.recv(&mut bytes).unwrap();
        assert_eq!(bytes[..length], datagram(1, number));
    }
    forger.set_nonblocking(true).unwrap();
    assert!(forger.recv(&mut bytes).is_err());
    stream.write_all(&[4, 0, 0, 0, 1, 11]).unwrap();
    assert_eq!(answer::<6>(&mut stream), [6, 0, 0, 0, 1, 7]);
    let far = served(&server);
    assert_eq!((far.status, received(&far.flows[0])), (Status::Complete, (100, 5)));
}

#[test]
fn a_flow_without_data_is_closed_and_counted_as_nothing() {
    let server = Serving::start("ditg", "127.0.0.18", Limits::default());
    for layer4 in [1, 2] {
        let mut stream = signalling(&server);
        stream.write_all(&announcement(layer4, 1, 9, 0)).unwrap();
        accepted(&mut stream, 9);
        stream.write_all(&[4, 0, 0, 0, 9, 11]).unwrap();
        assert_eq!(answer::<6>(&mut stream), [6, 0, 0, 0, 9, 7]);
        let far = served(&server);
        assert_eq!((far.flows.len(), received(&far.flows[0])), (1, (0, 0)));
    }
}

#[test]
fn a_client_that_vanishes_leaves_no_session_and_no_port() {
    let server = Serving::start("ditg", "127.0.0.19", Limits { sessions: 1, ..Limits::default() });
    let mut stream = signalling(&server);
    stream.write_all(&announcement(2, 1, 1, 0)).unwrap();
    let port = accepted(&mut stream, 1);
    // Another client finds no place.
    let mut second = TcpStream::connect(server.address).unwrap();
    second.write_all(&[1]).unwrap();
    assert_eq!(second.read(&mut [0]).unwrap(), 0);
    assert!(refused(&server).contains("1 sessions"));
    drop(stream);
    assert_eq!(served(&server).status, Status::Partial);
    UdpSocket::bind(("127.0.0.19", port)).unwrap();
    let record = test(server.address, "[[connection]]\npackets = 3").unwrap();
    assert_eq!(record.status, Status::Complete);
}

#[test]
fn an_interrupted_test_is_partial_and_closes_its_flows() {
    let server = Serving::start("ditg", "127.0.0.20", Limits::default());
    for transport in ["tcp", "udp"] {
        let own = Stop::new();
        let request = own.clone();
        let mut observe = |event| {
            if matches!(event, Event::Interval(_)) {
                request.request(StopReason::Interrupted);
            }
        };
        let text = format!("[[connection]]\ntransport = \"{transport}\"\nrate = \"1000pps\"");
        let failure = run("ditg", server.address, &text, own, &mut observe).unwrap_err();
        assert_eq!(failure.error.exit_code(), 130);
        let near = failure.partial.unwrap();
        assert_eq!(near.status, Status::Interrupted);
        let far = served(&server);
        assert_eq!(far.status, Status::Complete);
        assert_eq!(sent(&near.flows[0]).0, received(&far.flows[0]).0);
    }
}

#[test]
fn a_receiver_that_is_not_there_is_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.21:0").unwrap();
    let address = listener.local_addr().unwrap();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP ready at last\r\n").unwrap();
        let _ = stream.read_to_end(&mut vec![]);
    });
    let failure = test(address, "[[connection]]").unwrap_err();
    assert_eq!(failure.error.code(), "protocol");
    other.join().unwrap();
    let failure = test(address, "[[connection]]").unwrap_err();
    assert_eq!((failure.error.exit_code(), failure.partial.is_some()), (3, false));
}
