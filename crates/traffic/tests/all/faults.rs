//! Faults on the path and at the ends: blocked datagrams, peers that freeze, full disks. Each is reported by name,
//! with its documented exit code, and the measurements until then are kept.

use crate::faults_common;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use faults_common::*;
use weir_model::plan::{Connection, Direction, Transport};
use weir_model::record::Status;
use weir_model::units::{ByteSize, Span};
use weir_traffic::{ClientConfig, Event, ServerConfig, Stop, StopReason, TrafficError, run};

/// A TCP proxy to a server at another address. It can be frozen: connections stay open, but no data passes.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    frozen: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

/// The byte of the first connection in which one bit is flipped: towards the server, counted from its first answer
/// on, or back.
#[derive(Clone, Copy)]
struct Damage {
    towards_server: bool,
    at: usize,
}

impl Proxy {
    /// At 127.0.0.2 with the server's port, where no UDP is answered.
    pub(crate) fn before(server: SocketAddr) -> Proxy {
        Proxy::damaging(server, None)
    }

    fn damaging(server: SocketAddr, mut damage: Option<Damage>) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.2", server.port())).unwrap();
        let address = listener.local_addr().unwrap();
        let frozen = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(Mutex::new(vec![]));
        let (stop, kept) = (frozen.clone(), connections.clone());
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(server).unwrap());
                kept.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                let damage = damage.take();
                let answered = Arc::new(AtomicBool::new(false));
                for (mut from, mut to, towards_server) in [
                    (near.try_clone().unwrap(), far.try_clone().unwrap(), true),
                    (far, near, false),
                ] {
                    let own = damage.filter(|d| d.towards_server == towards_server);
                    let mut left = own.map(|d| d.at);
                    let (stop, answered) = (stop.clone(), answered.clone());
                    std::thread::spawn(move || {
                        let mut buffer = [0; 65_536];
                        while let Ok(n) = from.read(&mut buffer) {
                            if stop.load(Ordering::Relaxed) {
                                return;
                            }
                            if !towards_server {
                                answered.store(true, Ordering::Release);
                            }
                            match left {
                                _ if !answered.load(Ordering::Acquire) => {}
                                Some(at) if at < n => {
                                    buffer[at] ^= 1;
                                    left = None;
                                }
                                _ => left = left.map(|at| at - n),
                            }
                            if n == 0 || to.write_all(&buffer[..n]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        Proxy { address, frozen, connections }
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        for stream in self.connections.lock().unwrap().iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn client(&self, connections: Vec<Connection>) -> ClientConfig {
        let plan = weir_model::plan::Plan { port: Some(self.address.port()), ..plan(connections) };
        ClientConfig::new(plan, "127.0.0.2")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
    }
}

#[test]
fn a_control_connection_that_is_damaged_on_the_path_is_reported_as_such() {
    // The request for a session, or the server's hello: in the length, its check, and the message.
    for towards_server in [true, false] {
        for at in [0, 2, 5, 8, 20] {
            let server = Server::start(ServerConfig::default());
            let proxy = Proxy::damaging(server.address, Some(Damage { towards_server, at }));
            let tcp = Connection { bytes: Some(ByteSize(1000)), ..Connection::default() };
            let failure = run(proxy.client(vec![tcp]), Stop::new(), &mut |_| {}).unwrap_err();
            let is_damage = matches!(failure.error, TrafficError::Damaged { .. });
            assert!(is_damage, "{towards_server} {at}: {failure}");
            assert_eq!(failure.error.exit_code(), 3);
            server.still_serves();
        }
    }
}

#[test]
fn blocked_udp_is_reported_as_such_and_never_as_loss() {
    let server = Server::start(ServerConfig::default());
    let proxy = Proxy::before(server.address);
    for swallowed in [false, true] {
        // Without a socket there the system answers with an ICMP error; with one, no answer arrives.
        let _hole = swallowed.then(|| std::net::UdpSocket::bind(proxy.address).unwrap());
        let begun = Instant::now();
        let udp = endless_udp(Direction::Forward);
        let failure = run(proxy.client(vec![udp]), Stop::new(), &mut |_| {}).unwrap_err();
        assert_eq!(failure.error.exit_code(), 3);
        assert!(failure.partial.is_none());
        assert_eq!(failure.error.code(), "udp-blocked");
        assert_eq!(failure.error.given(), Some(proxy.address.to_string()), "{failure}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
    // Streams pass, without the round trips that need datagrams.
    let tcp = Connection { bytes: Some(ByteSize(1 << 20)), ..Connection::default() };
    let record = run(proxy.client(vec![tcp]), Stop::new(), &mut |_| {}).unwrap();
    assert_eq!(record.status, Status::Complete);
    assert_eq!(record.flows[0].receiver.as_ref().unwrap().bytes, 1 << 20);
    assert_eq!(record.latency, None);
    assert!(record.warnings.iter().any(|w| w.code == "latency-missing"), "{:?}", record.warnings);
    server.idle();
}

#[test]
fn a_server_that_freezes_is_given_up_and_what_was_measured_is_kept() {
    let server = Server::start(ServerConfig::default());
    let proxy = Proxy::before(server.address);
    let tcp = Connection {
        duration: Some(Span(0)),
        rate: Some("8M".parse().unwrap()),
        ..Connection::default()
    };
    let frozen = proxy.frozen.clone();
    let mut intervals = vec![];
    let failure = run(proxy.client(vec![tcp]), Stop::new(), &mut |event| {
        let Event::Interval(interval) = event else { return };
        // Once its receiver has answered.
        if interval.flows.iter().any(|f| f.receiver.as_ref().is_some_and(|r| r.bytes > 0)) {
            frozen.store(true, Ordering::Relaxed);
        }
        intervals.push(interval);
    })
    .unwrap_err();
    assert_eq!(failure.error.exit_code(), 3);
    assert_eq!(failure.error.code(), "peer-lost", "{failure}");
    let record = failure.partial.unwrap();
    assert_eq!(record.status, Status::Partial);
    assert!(record.flows[0].sender.as_ref().unwrap().bytes > 0);
    // Its reports are in the record, with the time until which they hold.
    let receiver = record.flows[0].receiver.as_ref().unwrap();
    assert!(receiver.bytes > 0 && receiver.reported_until_seconds.is_some(), "{receiver:?}");
    assert!(record.warnings.iter().any(|w| w.code == "end-lost"), "{:?}", record.warnings);
    // Until then each interval was printed, without figures of the receiver.
    assert!(intervals.len() > 5, "{}", intervals.len());
    let last = intervals.last().unwrap().total.forward.as_ref().unwrap();
    assert!(last.sender.is_some() && last.receiver.is_none(), "{last:?}");
    assert_eq!((last.flows, last.receiver_flows), (Some(1), Some(0)));
}

#[test]
fn a_full_disk_is_reported_and_the_record_is_there() {
    if !std::path::Path::new("/dev/full").exists() {
        eprintln!("SKIPPED a_full_disk_is_reported_and_the_record_is_there: no /dev/full");
        return;
    }
    let short =
        |direction| Connection { duration: None, packets: Some(50), ..endless_udp(direction) };
    // The receiver's log, on either side.
    let server = Server::start(ServerConfig::default());
    let config = ClientConfig {
        packet_log: Some("/dev/full".into()),
        ..server.client(plan(vec![short(Direction::Reverse)]))
    };
    let failure = run(config, Stop::new(), &mut |_| {}).unwrap_err();
    assert_eq!(failure.error.exit_code(), 4);
    assert!(failure.to_string().contains("/dev/full"), "{failure}");
    assert_eq!(failure.partial.unwrap().flows[0].receiver.as_ref().unwrap().packets, 50);
    let config = ServerConfig { packet_log: Some("/dev/full".into()), ..ServerConfig::default() };
    let server = Server::start(config);
    let record = server.test(plan(vec![short(Direction::Forward)])).unwrap();
    assert_eq!(record.flows[0].receiver.as_ref().unwrap().packets, 50);
    let error = server.end().unwrap_err();
    assert!(error.exit_code() == 4 && error.to_string().contains("/dev/full"), "{error}");
}

#[test]
fn paths_that_cannot_be_used_are_refused_before_anything_is_sent() {
    // No server listens there: with a valid path, that would be the error.
    let config = |packet_log: Option<&str>, control_socket: Option<&str>| ClientConfig {
        packet_log: packet_log.map(Into::into),
        control_socket: control_socket.map(Into::into),
        ..ClientConfig::new(
            weir_model::plan::Plan { port: Some(1), ..plan(vec![Connection::default()]) },
            "127.0.0.1",
        )
    };
    for config in [config(Some("/no/such/log"), None), config(None, Some("/no/such/socket"))] {
        let failure = run(config, Stop::new(), &mut |_| {}).unwrap_err();
        assert!(failure.to_string().contains("/no/such/"), "{failure}");
    }
}

#[test]
fn a_stop_is_handled_at_every_step_before_the_first_packet() {
    // A server that accepts the connection and sends nothing, or only its hello.
    for greets in [false, true] {
        for (reason, code) in [(StopReason::Interrupted, 130), (StopReason::Terminated, 143)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let stop = Stop::new();
            let inner = stop.clone();
            let peer = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut preface = [0; 8];
                stream.read_exact(&mut preface).unwrap();
                if greets {
                    let hello = weir_wire::control::ServerMessage::Hello(own_hello());
                    let hello = weir_wire::control::encode(&hello);
                    stream.write_all(&weir_wire::frame::encode_frame(&hello).unwrap()).unwrap();
                    // More bytes than a hello: the request has arrived too.
                    let mut got = 0;
                    while got < 500 {
                        got += stream.read(&mut [0; 4096]).unwrap();
                    }
                }
                inner.request(reason);
                rest(&mut stream)
            });
            let mut plan = plan(vec![Connection::default()]);
            plan.port = Some(port);
            let failure = run(ClientConfig::new(plan, "127.0.0.1"), stop, &mut |_| {}).unwrap_err();
            assert_eq!(failure.error.exit_code(), code, "{failure}");
            assert!(failure.partial.is_none());
            peer.join().unwrap();
        }
    }
}

#[test]
fn a_second_stop_ends_immediately_with_its_own_code() {
    let server = Server::start(ServerConfig::default());
    let proxy = Proxy::before(server.address);
    let tcp = Connection {
        duration: Some(Span(0)),
        rate: Some("8M".parse().unwrap()),
        ..Connection::default()
    };
    for (reason, code) in [(StopReason::Interrupted, 130), (StopReason::Terminated, 143)] {
        proxy.frozen.store(false, Ordering::Relaxed);
        let stop = Stop::new();
        let (inner, frozen) = (stop.clone(), proxy.frozen.clone());
        let begun = Instant::now();
        let failure = run(proxy.client(vec![tcp.clone()]), stop, &mut |event| {
            // The other end no longer answers, so that the first request alone would wait for its results.
            if matches!(event, Event::Interval(_)) && !frozen.swap(true, Ordering::Relaxed) {
                inner.request(reason);
                inner.request(reason);
            }
        })
        .unwrap_err();
        assert_eq!(failure.error.exit_code(), code, "{failure}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        let record = failure.partial.unwrap();
        assert_eq!(record.status, Status::Interrupted);
        assert!(record.flows[0].sender.as_ref().unwrap().bytes > 0);
    }
}

#[test]
fn hostile_answers_of_a_server_are_rejected() {
    use weir_wire::control::{ClientMessage, Opened, ServerMessage, decode, encode};
    use weir_wire::frame::{FrameDecoder, encode_frame};
    let answers: [ServerMessage; 3] = [
        ServerMessage::Refused { code: "\u{1b}]0;x\u{7}".into(), text: "\u{1b}[2J".repeat(1000) },
        ServerMessage::Opened(Opened {
            session: 1,
            key: "zz".into(),
            token_secret: String::new(),
            tcp_port: 1,
            udp_port: 1,
            flow_ports: vec![],
            mac: None,
        }),
        ServerMessage::Started,
    ];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 8]).unwrap();
            let mut frames = FrameDecoder::new(1 << 20);
            let mut buffer = [0; 4096];
            loop {
                let n = stream.read(&mut buffer).unwrap_or(0);
                if n == 0 {
                    return;
                }
                frames.push(&buffer[..n]);
                while let Some(frame) = frames.next().unwrap() {
                    let reply = match decode::<ClientMessage>(&frame).unwrap() {
                        ClientMessage::Hello(_) => ServerMessage::Hello(own_hello()),
                        _ => answer.clone(),
                    };
                    let _ = stream.write_all(&encode_frame(&encode(&reply)).unwrap());
                }
            }
        });
        let mut plan =
            plan(vec![Connection { transport: Transport::udp(), ..Connection::default() }]);
        plan.port = Some(port);
        let failure =
            run(ClientConfig::new(plan, "127.0.0.1"), Stop::new(), &mut |_| {}).unwrap_err();
        assert_eq!(failure.error.exit_code(), 3, "{failure}");
        let text = failure.to_string();
        assert!(!text.contains(char::is_control) && text.len() < 2000, "{text:?}");
        peer.join().unwrap();
    }
}
