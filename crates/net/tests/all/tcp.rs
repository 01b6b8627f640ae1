//! TCP over loopback.
#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::SocketAddr;

use weir_net::poll::{Events, Interest, Poller};
use weir_net::tcp::*;

const FAMILIES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn pair(family: &str, client: &TcpOptions, server: &TcpOptions) -> (TcpStream, TcpStream) {
    let listener = TcpListener::open(family.parse().unwrap(), server, 8).unwrap();
    let a =
        TcpStream::connect(listener.local_addr().unwrap(), client, Some(5_000_000_000)).unwrap();
    let (b, from) = listener.accept(server.nonblocking).unwrap();
    assert_eq!(from, a.local_addr().unwrap());
    assert_eq!(b.local_addr().unwrap(), a.peer_addr().unwrap());
    (a, b)
}

fn read_all(stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = vec![0; 65_536];
    loop {
        let n = stream.recv(&mut buffer).unwrap();
        if n == 0 {
            return all;
        }
        all.extend_from_slice(&buffer[..n]);
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn bytes_pass_and_half_close_ends_one_direction() {
    for family in FAMILIES {
        let (a, b) = pair(family, &TcpOptions::default(), &TcpOptions::default());
        a.send(b"ping").unwrap();
        let mut peeked = [0; 2];
        assert_eq!(b.peek(&mut peeked).unwrap(), 2);
        assert_eq!(&peeked, b"pi");
        a.half_close().unwrap();
        assert_eq!(read_all(&b), b"ping");
        b.send(b"still here").unwrap();
        b.shutdown().unwrap();
        assert_eq!(read_all(&a), b"still here");
    }
}

#[test]
fn sendfile_and_discard_move_every_byte() {
    let (a, b) = pair(FAMILIES[0], &TcpOptions::default(), &TcpOptions::default());
    let bytes = pattern(300_000);
    let file = MemFile::new(&bytes).unwrap();
    assert_eq!((file.len(), file.is_empty()), (300_000, false));
    let sender = std::thread::spawn(move || {
        let mut at = 1000;
        while at < file.len() {
            at += a.send_file(&file, at, 100_000).unwrap() as u64;
        }
        assert_eq!(a.send_file(&file, at, 1).unwrap(), 0);
        a
    });
    assert_eq!(b.recv_discard(500).unwrap(), 500);
    let mut after = [0; 100];
    let n = b.recv(&mut after).unwrap();
    assert_eq!(after[..n], bytes[1500..1500 + n]);
    let mut total = 500 + n;
    while total < 299_000 {
        total += b.recv_discard(1 << 20).unwrap();
    }
    assert_eq!(total, 299_000);
    drop(sender.join().unwrap());
    assert_eq!(b.recv_discard(1).unwrap(), 0);
}

#[test]
fn zerocopy_arrives_and_completes() {
    let (a, b) = pair(
        FAMILIES[1],
        &TcpOptions { zerocopy: true, ..TcpOptions::default() },
        &TcpOptions::default(),
    );
    let bytes = pattern(50_000);
    let mut sends = 0;
    let mut at = 0;
    while at < bytes.len() {
        at += a.send_zerocopy(&bytes[at..]).unwrap();
        sends += 1;
    }
    a.half_close().unwrap();
    assert_eq!(read_all(&b), bytes);
    let poller = Poller::new().unwrap();
    poller.add(&a, 0, Interest::default()).unwrap();
    let mut done = 0;
    while done < sends {
        match a.zerocopy_completion().unwrap() {
            Some(c) => {
                assert_eq!(c.first, done);
                done = c.last + 1;
            }
            None => {
                poller.wait(&mut Events::new(1), Some(5_000_000_000)).unwrap();
            }
        }
    }
    assert_eq!(done, sends);
}

#[test]
fn settings_hold_before_the_handshake() {
    let options = TcpOptions {
        mss: Some(1000),
        congestion_control: Some("reno".into()),
        nodelay: true,
        receive_buffer: Some(8192),
        pacing_bytes_per_second: Some(1_000_000_000),
        keepalive_seconds: Some(30),
        tos: Some(0x20),
        ttl: Some(33),
        ..TcpOptions::default()
    };
    for family in FAMILIES {
        let (a, b) = pair(family, &options, &TcpOptions::default());
        assert_eq!(a.congestion_control().unwrap(), "reno");
        assert_eq!(a.receive_buffer().unwrap(), 16_384);
        let info = a.info().unwrap();
        assert_eq!(info.state, 1);
        assert!(info.advertised_mss_bytes <= 1000 && a.mss().unwrap() <= 1000, "{info:?}");
        assert!(b.info().unwrap().send_mss_bytes <= 1000);
        // A window that small needs no scale, and the handshake said so.
        assert_eq!((info.receive_window_scale, b.info().unwrap().send_window_scale), (0, 0));
    }
}

#[test]
fn listener_settings_reach_its_connections() {
    let server = TcpOptions { receive_buffer: Some(8192), mss: Some(900), ..TcpOptions::default() };
    let (a, b) = pair(FAMILIES[0], &TcpOptions::default(), &server);
    assert_eq!(b.receive_buffer().unwrap(), 16_384);
    assert_eq!(a.info().unwrap().send_window_scale, 0);
    assert!(a.mss().unwrap() <= 900);
}

#[test]
fn info_counts_the_bytes() {
    let (a, b) = pair(FAMILIES[0], &TcpOptions::default(), &TcpOptions::default());
    let reader = std::thread::spawn(move || read_all(&b).len());
    let bytes = pattern(500_000);
    let mut at = 0;
    while at < bytes.len() {
        at += a.send(&bytes[at..]).unwrap();
    }
    a.half_close().unwrap();
    assert_eq!(reader.join().unwrap(), 500_000);
    // The peer's end of the stream acknowledges everything before it.
    assert_eq!(read_all(&a), []);
    let info = a.info().unwrap();
    let resent = info.bytes_retransmitted.unwrap_or(0);
    assert!(info.timestamps && info.sack && info.window_scaling, "{info:?}");
    // The end of the stream counts as a byte of the sequence space, in flight or acknowledged.
    if let (Some(acked), Some(sent)) = (info.bytes_acked, info.bytes_sent) {
        assert!((500_000..=500_002).contains(&acked), "{info:?}");
        assert!(sent - resent == 500_000, "{info:?}");
    }
    assert!(info.cwnd_segments > 0 && info.rtt_us > 0);
    assert_eq!(a.unacknowledged_bytes().unwrap(), 0);
}

#[test]
fn runtime_settings_are_accepted() {
    let (a, _b) = pair(FAMILIES[1], &TcpOptions::default(), &TcpOptions::default());
    a.set_nodelay(true).unwrap();
    a.set_quickack(true).unwrap();
    a.set_cork(true).unwrap();
    a.set_cork(false).unwrap();
    a.set_pacing_rate(u64::MAX).unwrap();
    a.set_not_sent_low_water(16_384).unwrap();
    assert!(a.socket_memory().unwrap().receive_buffer_bytes > 0);
}

#[test]
fn closed_port_is_refused_immediately_and_by_name() {
    for family in FAMILIES {
        let closed = TcpListener::open(family.parse().unwrap(), &TcpOptions::default(), 1)
            .unwrap()
            .local_addr()
            .unwrap();
        let error =
            TcpStream::connect(closed, &TcpOptions::default(), Some(5_000_000_000)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(111), "{error}");
        assert_eq!(error.object(), Some(closed.to_string().as_str()), "{error}");
        let started = TcpStream::start_connect(closed, &TcpOptions::default());
        if let Ok(stream) = started {
            let poller = Poller::new().unwrap();
            poller.add(&stream, 0, Interest::WRITE).unwrap();
            poller.wait(&mut Events::new(1), Some(5_000_000_000)).unwrap();
            assert_eq!(stream.take_error().unwrap().unwrap().kind(), ErrorKind::ConnectionRefused);
        }
    }
}

#[test]
fn full_backlog_times_out() {
    // No program accepts: once the queue is full, handshakes are not answered.
    let listener =
        TcpListener::open("127.0.0.1:0".parse().unwrap(), &TcpOptions::default(), 0).unwrap();
    let to = listener.local_addr().unwrap();
    let mut held = Vec::new();
    let error = loop {
        match TcpStream::connect(to, &TcpOptions::default(), Some(100_000_000)) {
            Ok(stream) => held.push(stream),
            Err(e) => break e,
        }
        assert!(held.len() < 10);
    };
    assert!(error.to_string().contains(&to.to_string()), "{error}");
    assert!(
        matches!(error, weir_net::Error::System { source, .. } if source.kind() == ErrorKind::TimedOut)
    );
}

#[test]
fn nonblocking_says_would_block() {
    let quiet = TcpOptions { nonblocking: true, ..TcpOptions::default() };
    let listener = TcpListener::open("[::1]:0".parse().unwrap(), &quiet, 4).unwrap();
    assert_eq!(listener.accept(true).unwrap_err().kind(), ErrorKind::WouldBlock);
    let (a, b) = pair(FAMILIES[0], &TcpOptions::default(), &TcpOptions::default());
    b.set_nonblocking(true).unwrap();
    assert_eq!(b.recv(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(b.recv_discard(4).unwrap_err().kind(), ErrorKind::WouldBlock);
    a.set_reset_on_close().unwrap();
    drop(a);
    let poller = Poller::new().unwrap();
    poller.add(&b, 5, Interest::READ).unwrap();
    let mut events = Events::new(1);
    assert_eq!(poller.wait(&mut events, Some(5_000_000_000)).unwrap(), 1);
    assert!(events.iter().next().unwrap().hang_up);
    assert_eq!(b.recv(&mut [0; 4]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn bad_settings_are_refused_by_name() {
    let to: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let refused =
        |options: TcpOptions| TcpStream::connect(to, &options, Some(1_000_000_000)).unwrap_err();
    let bad =
        refused(TcpOptions { congestion_control: Some("tahoe99".into()), ..TcpOptions::default() });
    assert_eq!(bad.object(), Some("tahoe99"), "{bad}");
    let bad =
        refused(TcpOptions { bind: Some("[::1]:0".parse().unwrap()), ..TcpOptions::default() });
    assert!(matches!(bad, weir_net::Error::Refused { .. }), "{bad:?}");
    let object = bad.object().unwrap();
    assert!(object.contains("127.0.0.1:9") && object.contains("[::1]:0"), "{object}");
    let bad = refused(TcpOptions { mss: Some(5), ..TcpOptions::default() });
    let weir_net::Error::System { operation, object, .. } = &bad else { panic!("{bad:?}") };
    assert!(operation.contains("TCP_MAXSEG") && object == "127.0.0.1:9", "{bad}");
}

#[test]
fn source_address_is_bound() {
    let listener =
        TcpListener::open("127.0.0.1:0".parse().unwrap(), &TcpOptions::default(), 4).unwrap();
    let options =
        TcpOptions { bind: Some("127.0.0.77:0".parse().unwrap()), ..TcpOptions::default() };
    let a = TcpStream::connect(listener.local_addr().unwrap(), &options, None).unwrap();
    assert_eq!(a.local_addr().unwrap().ip().to_string(), "127.0.0.77");
    let standard: std::net::TcpStream = a.into();
    assert_eq!(standard.peer_addr().unwrap(), listener.local_addr().unwrap());
}

#[test]
fn accepted_connections_send_with_their_listeners_flow_label() {
    let labelled = TcpOptions { flow_label: Some(74_565), ..TcpOptions::default() };
    let (a, b) = pair(FAMILIES[1], &TcpOptions::default(), &labelled);
    assert_eq!((a.flow_label().unwrap(), b.flow_label().unwrap()), (None, Some(74_565)));
    let (a, b) = pair(FAMILIES[1], &labelled, &TcpOptions::default());
    assert_eq!((a.flow_label().unwrap(), b.flow_label().unwrap()), (Some(74_565), None));
    // IPv4 has no label: it is no error.
    let (a, b) = pair(FAMILIES[0], &labelled, &labelled);
    assert_eq!((a.flow_label().unwrap(), b.flow_label().unwrap()), (None, None));
    // A listener for both families still takes IPv4.
    let listener = TcpListener::open("[::]:0".parse().unwrap(), &labelled, 8).unwrap();
    let v4 = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
    TcpStream::connect(v4, &TcpOptions::default(), Some(5_000_000_000)).unwrap();
}
