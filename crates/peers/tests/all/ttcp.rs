//! Classic ttcp over loopback: against itself, against a program that was written from ttcp's description, and against
//! nuttcp, whose classic mode transmits streams as ttcp does.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_model::record::{Record, Status};
use weir_model::report::EndReport;
use weir_peers::{Event, Given, Protocol};
use weir_traffic::session::WorkerConfig;
use weir_traffic::{Failure, Limits, ServerEvent, Stop, StopReason, TrafficError};

use crate::common::{LIMIT, Program, Serving};

fn protocol() -> &'static Protocol {
    Protocol::find("ttcp").unwrap()
}

/// Runs the command with these options; its lines and its result.
pub(crate) fn run(options: &[(&str, &str)], stop: &Stop) -> (Vec<String>, Result<Record, Failure>) {
    let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let given = Given::new(options, protocol().command.unwrap().options).unwrap();
    let test = (protocol().command.unwrap().make)(&given).unwrap();
    let mut lines = vec![];
    let result =
        test.run(&WorkerConfig::default(), stop, &mut |Event::Line(line)| lines.push(line));
    (lines, result)
}

/// The options of a transmitter.
fn transmit<'a>(
    transport: &'a str,
    port: &'a str,
    more: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let mut options =
        vec![("transmit", ""), ("pattern", ""), ("host", "127.0.0.1"), ("port", port)];
    options.extend((transport == "udp").then_some(("udp", "")));
    options.extend(more);
    options
}

/// A receiver of one test on a port that was free.
struct Once {
    port: u16,
    stop: Stop,
    thread: JoinHandle<(Vec<String>, Result<Record, Failure>)>,
}

impl Once {
    fn start(transport: &str) -> Once {
        Once::with(transport, &[])
    }

    /// The same with more options.
    fn with(transport: &str, more: &[(&'static str, &'static str)]) -> Once {
        let is_udp = transport == "udp";
        let mut options = vec![("receive", ""), ("pattern", ""), ("port", "")];
        options.extend(is_udp.then_some(("udp", "")));
        options.extend(more);
        // Another test may take the port first.
        for _ in 0..20 {
            let port = if is_udp {
                UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
            } else {
                TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
            };
            let (stop, text) = (Stop::new(), port.to_string());
            let (own, options) = (stop.clone(), options.clone());
            let thread = std::thread::spawn(move || {
                let options: Vec<_> = options
                    .iter()
                    .map(|(k, v)| (*k, if *k == "port" { &*text } else { *v }))
                    .collect();
                run(&options, &own)
            });
            wait_until(|| thread.is_finished() || is_bound(transport, port));
            if !thread.is_finished() {
                return Once { port, stop, thread };
            }
            let ended = thread.join().unwrap().1;
            assert!(
                matches!(&ended, Err(f) if matches!(f.error, TrafficError::Listen { .. })),
                "{ended:?}"
            );
        }
        panic!("no port in 20 attempts");
    }

    fn end(self) -> (Vec<String>, Result<Record, Failure>) {
        self.thread.join().unwrap()
    }
}

/// Whether a socket of this process's network namespace has the port. An attempt to bind it would be in the receiver's way.
fn is_bound(transport: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    [transport.to_string(), format!("{transport}6")].iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        let mut sockets = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
        sockets.any(|local| local.ends_with(&port))
    })
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn serve(limits: Limits) -> Serving {
    Serving::start("ttcp", "127.0.0.1", limits)
}

/// The next session that ends: its peer, the reason and its report.
fn closed(server: &Serving) -> (SocketAddr, String, EndReport) {
    loop {
        if let ServerEvent::SessionClosed { peer, reason, report, .. } =
            server.events.recv_timeout(LIMIT).unwrap()
        {
            return (peer.ip().unwrap(), reason, *report.unwrap());
        }
    }
}

pub(crate) fn reference(arguments: &[&str]) -> (Program, BufReader<ChildStdout>) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/reference/ttcp.py");
    let mut command = Command::new("python3");
    let mut child = command.arg(script).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (Program(child), output)
}

fn line(output: &mut impl BufRead) -> String {
    let mut text = String::new();
    output.read_line(&mut text).unwrap();
    text.trim().into()
}

fn received(report: &EndReport) -> (u64, u64) {
    let receiver = report.flows[0].receiver.as_ref().unwrap();
    (receiver.bytes, receiver.packets)
}

#[test]
fn a_server_that_stops_opens_no_session_for_senders_that_go_on() {
    let server = serve(Limits::default());
    let (address, is_over) = (server.address, Arc::new(AtomicBool::new(false)));
    let senders: Vec<JoinHandle<()>> = (0..6)
        .map(|_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.connect(address).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    // Refused once the server is gone.
                    let _ = socket.send(&[7; 100]);
                    std::thread::sleep(Duration::from_micros(100));
                }
            })
        })
        .collect();
    let is_opening = |event: &ServerEvent| matches!(event, ServerEvent::SessionOpened { .. });
    let mut opened = 0;
    while opened < senders.len() {
        opened += usize::from(is_opening(&server.events.recv_timeout(LIMIT).unwrap()));
    }
    server.stop.request(StopReason::Terminated);
    let events: Vec<ServerEvent> = server.events.iter().collect();
    is_over.store(true, Ordering::Relaxed);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert_eq!(events.iter().filter(|event| is_opening(event)).count(), 0);
    assert_eq!(events.len(), opened, "each session has its end");
}

#[test]
fn a_stream_and_datagrams_between_both_ends() {
    let server = serve(Limits::default());
    for (transport, buffers, length) in [("tcp", 400, 8192), ("udp", 50, 1000)] {
        let (port, size, count) = (server.port(), length.to_string(), buffers.to_string());
        let options = transmit(transport, &port, &[("buffers", &count), ("length", &size)]);
        let (lines, record) = run(&options, &Stop::new());
        let record = record.unwrap();
        let sender = record.flows[0].sender.as_ref().unwrap();
        assert_eq!((sender.bytes, sender.packets), (buffers * length, buffers), "{transport}");
        assert_eq!((record.peer.as_str(), record.status), ("ttcp", Status::Complete));
        // What the far end counted is unknown, and there was no control connection.
        assert!(record.flows[0].receiver.is_none() && record.remote.is_none());
        assert_eq!((record.control_bytes, record.loss_threshold_seconds), (None, None));
        let codes: Vec<&str> = record.warnings.iter().map(|w| w.code.as_str()).collect();
        assert!(codes.contains(&"one-sided") && !codes.contains(&"end-lost"), "{codes:?}");
        let bytes = format!("{} bytes", buffers * length);
        assert!(lines.iter().any(|l| l.contains(&bytes)), "{lines:?}");
        let (_, reason, report) = closed(&server);
        assert_eq!(received(&report).0, buffers * length, "{transport}: {reason}");
        let receiver = report.flows[0].receiver.as_ref().unwrap();
        if transport == "tcp" {
            // Each call reads one buffer at most; one for datagrams takes several.
            assert!(receiver.io_calls.unwrap() >= buffers, "{receiver:?}");
        }
        if transport == "udp" {
            assert_eq!(receiver.packets, 50);
            // The first comes before the session has a socket, and has the kernel's stamp all the same.
            assert_eq!(receiver.user_timed_messages, Some(0));
            // Without numbers none of these can be known.
            assert_eq!((receiver.lost_packets, receiver.duplicate_packets), (None, None));
            assert_eq!((receiver.reordered_packets, receiver.truncated_packets), (None, None));
        }
        assert!(report.flows[0].error.is_none());
    }
}

#[test]
fn clients_at_the_same_time_are_sessions_of_their_own() {
    let server = serve(Limits::default());
    let port = server.port();
    std::thread::scope(|scope| {
        for (i, transport) in ["udp", "tcp", "udp", "udp", "tcp"].into_iter().enumerate() {
            let (port, buffers) = (port.clone(), (10 * (i + 1)).to_string());
            scope.spawn(move || {
                let more = [("buffers", &*buffers), ("length", "500")];
                run(&transmit(transport, &port, &more), &Stop::new()).1.unwrap();
            });
        }
    });
    let mut bytes: Vec<u64> = (0..5).map(|_| received(&closed(&server).2).0).collect();
    bytes.sort_unstable();
    assert_eq!(bytes, [5000, 10_000, 15_000, 20_000, 25_000]);
}

#[test]
fn our_transmitter_against_the_reference_receiver() {
    for transport in ["tcp", "udp"] {
        let (_program, mut output) = reference(&["receive", transport]);
        let port = line(&mut output);
        let options = transmit(transport, &port, &[("buffers", "40"), ("length", "1400")]);
        let record = run(&options, &Stop::new()).1.unwrap();
        assert_eq!(record.flows[0].sender.as_ref().unwrap().bytes, 56_000);
        assert_eq!(line(&mut output), "56000 pattern", "{transport}");
    }
}

#[test]
fn the_reference_transmitter_against_our_receiver() {
    for transport in ["tcp", "udp"] {
        let receiver = Once::start(transport);
        let _sender = reference(&["send", transport, &receiver.port.to_string(), "40", "1400"]);
        let (lines, record) = receiver.end();
        let record = record.unwrap();
        let counted = record.flows[0].receiver.as_ref().unwrap();
        assert_eq!(counted.bytes, 56_000, "{transport}");
        assert!(record.flows[0].sender.is_none(), "{transport}");
        assert_eq!(record.flows[0].payload_bytes, if transport == "udp" { 1400 } else { 8192 });
        assert_eq!(record.plan.host.as_deref(), Some("127.0.0.1"));
        assert!(lines.iter().any(|line| line.contains("56000 bytes")), "{lines:?}");
    }
}

/// nuttcp falls back to classic ttcp where no nuttcp server answers on its control port, but only for streams that it
/// transmits.
#[test]
fn nuttcp_transmits_to_our_receiver() {
    if Command::new("nuttcp").arg("-V").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI has nuttcp");
        eprintln!("SKIPPED nuttcp_transmits_to_our_receiver: nuttcp is not installed");
        return;
    }
    let receiver = Once::start("tcp");
    // A port on which nothing listens.
    let control = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let arguments = [
        "-t",
        "-n64",
        "-l8192",
        &format!("-P{control}"),
        &format!("-p{}", receiver.port),
        "127.0.0.1",
    ];
    let output = Command::new("nuttcp").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record = receiver.end().1.unwrap();
    assert_eq!(record.flows[0].receiver.as_ref().unwrap().bytes, 64 * 8192);
}

#[test]
fn markers_open_no_session_and_nothing_is_answered() {
    let server = serve(Limits { sessions: 2, ..Limits::default() });
    let sockets: Vec<UdpSocket> = (0..20)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(server.address).unwrap();
            for size in 0..5 {
                assert_eq!(socket.send(&[0; 4][..size]).unwrap(), size);
            }
            socket
        })
        .collect();
    // More sources than the session limit. The sessions are still open when the next source sends.
    for socket in &sockets[..4] {
        socket.send(&[7; 100]).unwrap();
    }
    for socket in &sockets[..4] {
        socket.send(&[0; 4]).unwrap();
    }
    let peers: Vec<SocketAddr> = (0..2).map(|_| closed(&server).0).collect();
    let own = |i: usize| sockets[i].local_addr().unwrap();
    assert!(peers.contains(&own(0)) && peers.contains(&own(1)), "{peers:?}");
    for socket in &sockets {
        socket.set_nonblocking(true).unwrap();
        let answer = socket.recv(&mut [0; 64]);
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    // Both session slots are free again.
    sockets[5].send(&[7; 100]).unwrap();
    sockets[5].send(&[0; 4]).unwrap();
    let (peer, _, report) = closed(&server);
    assert_eq!((peer, received(&report)), (own(5), (100, 1)));
}

#[test]
fn a_silent_session_ends_with_what_it_counted() {
    let server = serve(Limits { silence_seconds: 1, ..Limits::default() });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    socket.send(&[7; 100]).unwrap();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(&[7; 1000]).unwrap();
    let mut bytes = [received(&closed(&server).2).0, received(&closed(&server).2).0];
    bytes.sort_unstable();
    assert_eq!(bytes, [100, 1000]);
}

/// A datagram sender gets no answer, so that it may go on after the end of its session.
#[test]
fn a_source_that_sends_on_after_the_time_limit_gets_no_other_session() {
    let server = serve(Limits { session_seconds: 1, ..Limits::default() });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    let pace = Duration::from_millis(10);
    let begun = std::time::Instant::now();
    loop {
        // Refused while the session's socket closes.
        let _ = socket.send(&[7; 100]);
        match server.events.recv_timeout(pace) {
            Ok(ServerEvent::SessionClosed { .. }) => break,
            _ => assert!(begun.elapsed() < LIMIT),
        }
    }
    // The server reads in order: when another source's session opens, it has read what was sent before.
    for _ in 0..20 {
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        for sender in [&socket, &other] {
            let _ = sender.send_to(&[7; 100], server.address);
        }
        let opened = std::iter::repeat_with(|| server.events.recv_timeout(LIMIT).unwrap())
            .find_map(|event| match event {
                ServerEvent::SessionOpened { peer, .. } => peer.ip(),
                _ => None,
            });
        assert_eq!(opened, Some(other.local_addr().unwrap()));
    }
}

/// A socket for which the kernel stamps datagrams. It does so some time after the first request for stamps, and as long as any
/// socket requests them.
fn stamping() -> weir_net::udp::UdpSocket {
    use weir_net::udp::{RecvBatch, RecvMode, UdpOptions, UdpSocket};
    let options =
        UdpOptions { timestamps: true, ..UdpOptions::bind("127.0.0.1:0".parse().unwrap()) };
    let socket = UdpSocket::open(&options).unwrap();
    let to = socket.local_addr().unwrap();
    let mut batch = RecvBatch::new(1, 100);
    wait_until(|| {
        socket.send_to(&[7], to).unwrap();
        batch.recv(&socket, RecvMode::WaitForOne).unwrap();
        batch.messages().any(|message| message.kernel_realtime_ns.is_some())
    });
    socket
}

/// Datagrams that arrive before the session has a socket of its own are timed by the kernel and counted by calls.
#[test]
fn a_burst_read_before_its_session_opens_has_its_own_times() {
    let _stamping = stamping();
    let server = serve(Limits::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    for _ in 0..3 {
        socket.send(&[7; 100]).unwrap();
    }
    socket.send(&[0; 4]).unwrap();
    let (_, _, report) = closed(&server);
    let receiver = report.flows[0].receiver.as_ref().unwrap();
    assert_eq!((receiver.packets, receiver.user_timed_messages), (3, Some(0)));
    assert!(receiver.io_calls.unwrap() > 0, "{receiver:?}");
}

/// The source of a datagram may be forged.
#[test]
fn datagrams_keep_no_connection_out() {
    let server = serve(Limits { sessions: 1, ..Limits::default() });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&[7; 100], server.address).unwrap();
    assert!(matches!(server.events.recv_timeout(LIMIT), Ok(ServerEvent::SessionOpened { .. })));
    let stream = TcpStream::connect(server.address).unwrap();
    assert!(matches!(server.events.recv_timeout(LIMIT), Ok(ServerEvent::SessionOpened { .. })));
    drop(stream);
    // The session of datagrams ends by its own silence, far below the limit for a stream.
    let peers = [closed(&server).0, closed(&server).0];
    assert!(peers.contains(&socket.local_addr().unwrap()), "{peers:?}");
}

#[test]
fn a_connection_over_the_limit_is_refused() {
    let server = serve(Limits { sessions: 1, ..Limits::default() });
    let first = TcpStream::connect(server.address).unwrap();
    assert!(matches!(server.events.recv_timeout(LIMIT), Ok(ServerEvent::SessionOpened { .. })));
    let _second = TcpStream::connect(server.address).unwrap();
    assert!(matches!(server.events.recv_timeout(LIMIT), Ok(ServerEvent::Refused { .. })));
    drop(first);
    assert_eq!(received(&closed(&server).2), (0, 0));
}

#[test]
fn a_stopped_receiver_reports_the_stop_and_its_counts() {
    let receiver = Once::start("tcp");
    receiver.stop.request(StopReason::Interrupted);
    let failure = receiver.end().1.unwrap_err();
    assert!(matches!(failure.error, TrafficError::Stopped(_, 130)) && failure.partial.is_none());

    let server = serve(Limits::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&[7; 100], server.address).unwrap();
    assert!(matches!(server.events.recv_timeout(LIMIT), Ok(ServerEvent::SessionOpened { .. })));
    server.stop.request(StopReason::Interrupted);
    assert_eq!(received(&closed(&server).2), (100, 1));
}

#[test]
fn a_transmitter_without_a_receiver_fails() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let failure = run(&transmit("tcp", &port, &[]), &Stop::new()).1.unwrap_err();
    assert!(matches!(failure.error, TrafficError::Connect { .. }));
    assert_eq!(failure.error.exit_code(), 3);
}

/// Both receivers: that of the workers, and that which reads each byte.
const RECEIVERS: [&[(&str, &str)]; 2] = [&[], &[("touch", "")]];

#[test]
fn a_stray_datagram_does_not_take_the_place_of_the_sender() {
    for more in RECEIVERS {
        let receiver = Once::with("udp", more);
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.send_to(&[7; 100], ("127.0.0.1", receiver.port)).unwrap();
        // End markers of another test.
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..5 {
            other.send_to(&[0; 4], ("127.0.0.1", receiver.port)).unwrap();
        }
        let port = receiver.port.to_string();
        let options = transmit("udp", &port, &[("buffers", "20"), ("length", "1000")]);
        run(&options, &Stop::new()).1.unwrap();
        let record = receiver.end().1.unwrap();
        assert_eq!(record.flows[0].receiver.as_ref().unwrap().bytes, 20_000, "{more:?}");
    }
}

#[test]
fn a_sender_whose_start_marker_was_lost_is_received_whole() {
    for more in RECEIVERS {
        for count in [1, 3] {
            let receiver = Once::with("udp", more);
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            sender.connect(("127.0.0.1", receiver.port)).unwrap();
            for _ in 0..count {
                sender.send(&[7; 100]).unwrap();
            }
            sender.send(&[0; 4]).unwrap();
            let record = receiver.end().1.unwrap();
            let receiver = record.flows[0].receiver.as_ref().unwrap();
            assert_eq!((receiver.packets, receiver.bytes), (count, 100 * count), "{more:?}");
        }
    }
}

#[test]
fn a_udp_transmitter_continues_where_nothing_listens() {
    // A socket that is closed: its port was free a moment ago.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let options = transmit("udp", &port, &[("buffers", "20"), ("length", "1000")]);
    let (lines, record) = run(&options, &Stop::new());
    let record = record.unwrap();
    let sender = record.flows[0].sender.as_ref().unwrap();
    assert_eq!((sender.bytes, sender.packets, record.status), (20_000, 20, Status::Complete));
    let refused = sender.refused_sends.unwrap();
    assert!(refused > 0, "{sender:?}");
    let said = |line: &String| line.starts_with(&format!("ttcp-t: {refused} "));
    assert!(lines.iter().any(said), "{lines:?}");
    assert!(record.warnings.iter().any(|w| w.code == "port-unreachable"));
}

#[test]
fn a_half_close_waits_until_the_receiver_has_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let pause = Duration::from_millis(200);
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut data = vec![];
        std::io::Read::read_to_end(&mut stream, &mut data).unwrap();
        std::thread::sleep(pause);
        data.len()
    });
    let options = transmit(
        "tcp",
        &port,
        &[("buffers", "3"), ("half-close", ""), ("tcp-info", ""), ("cisco", "")],
    );
    let (lines, record) = run(&options, &Stop::new());
    let record = record.unwrap();
    let sender = record.flows[0].sender.as_ref().unwrap();
    assert_eq!((sender.bytes, receiver.join().unwrap()), (3 * 8192, 3 * 8192));
    assert!(sender.seconds >= pause.as_secs_f64(), "{sender:?}");
    assert!(record.flows[0].tcp.as_ref().is_some_and(|tcp| tcp.mss_bytes > 0));
    assert!(sender.sleeps.is_some() && lines.iter().any(|l| l.contains(" sleeps (")), "{lines:?}");
}
