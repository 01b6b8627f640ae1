//! The echo protocol over loopback: against a server written with the standard library alone, and against Weir's own.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use weir_model::plan::{ConnectionFields, PeerName, TransportName};
use weir_model::record::{Record, Status};
use weir_model::units::ByteSize;
use weir_peers::Protocol;
use weir_traffic::{ClientConfig, ServerEvent, TrafficError};

use crate::common::LIMIT;
use crate::reflected::{end, loopback, plan, run, serving, totals};

const PACKETS: u64 = 300;
const BYTES: u64 = 100;

fn protocol() -> &'static Protocol {
    Protocol::find("echo").unwrap()
}

/// A flow of `PACKETS` packets of `BYTES` bytes.
fn fields(transport: TransportName) -> ConnectionFields {
    ConnectionFields {
        transport,
        packets: Some(PACKETS),
        payload: Some(ByteSize(BYTES).into()),
        rate: Some("3000pps".parse().unwrap()),
        ..ConnectionFields::default()
    }
}

fn test(to: SocketAddr, transport: TransportName) -> Record {
    run(plan(PeerName::Echo, to, vec![fields(transport).into()]), to).unwrap()
}

/// A server of datagrams as RFC 862 describes it, which answers `answers` requests, `twice` says which of them twice, and
/// ignores others.
fn reference(mut answer: impl FnMut(u64) -> usize + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind((loopback(false), 0)).unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        for number in 0.. {
            let Ok((n, from)) = socket.recv_from(&mut bytes) else { return };
            for _ in 0..answer(number) {
                let _ = socket.send_to(&bytes[..n], from);
            }
        }
    });
    address
}

#[test]
fn datagrams_come_back_from_any_server() {
    let record = test(reference(|_| 1), TransportName::Udp);
    assert_eq!((record.status, &*record.peer), (Status::Complete, "echo"));
    assert!(record.warnings.iter().any(|warning| warning.code == "one-sided"));
    let flow = &record.flows[0];
    let echo = flow.echo.as_ref().unwrap();
    assert_eq!(flow.sender.as_ref().unwrap().packets, PACKETS);
    assert_eq!((echo.packets, echo.bytes, echo.lost_packets), (PACKETS, PACKETS * BYTES, Some(0)));
    // One end alone can't say in which direction a datagram was lost.
    assert_eq!((echo.lost_forward_packets, echo.lost_back_packets), (None, None));
    assert!(flow.receiver.is_none());
    let round_trip = flow.round_trip.as_ref().unwrap();
    assert!(round_trip.mean_seconds > 0.0 && round_trip.mean_seconds < 1.0);
}

#[test]
fn missing_and_repeated_echoes_are_counted() {
    // The 10th of each 50 is ignored, the 20th is answered twice.
    let to = reference(|number| match number % 50 {
        10 => 0,
        20 => 2,
        _ => 1,
    });
    let record = test(to, TransportName::Udp);
    let echo = record.flows[0].echo.as_ref().unwrap();
    assert_eq!((echo.lost_packets, echo.duplicate_packets), (Some(6), Some(6)));
}

#[test]
fn a_server_that_never_answers_is_an_error_with_a_record() {
    let to = reference(|_| 0);
    let failure =
        run(plan(PeerName::Echo, to, vec![fields(TransportName::Udp).into()]), to).unwrap_err();
    assert!(matches!(failure.error, TrafficError::Lost { .. }), "{failure:?}");
    let record = failure.partial.unwrap();
    assert_eq!(record.status, Status::Partial);
    assert_eq!(record.flows[0].echo.as_ref().unwrap().loss_ratio, Some(1.0));
}

#[test]
fn weir_answers_itself_over_both_transports_and_ip_versions() {
    for is_v6 in [false, true] {
        let server = serving(PeerName::Echo, loopback(is_v6));
        let to = server.address;
        let datagrams = test(to, TransportName::Udp);
        let echo = datagrams.flows[0].echo.as_ref().unwrap();
        assert_eq!((echo.packets, echo.lost_packets), (PACKETS, Some(0)));
        let stream = test(to, TransportName::Tcp);
        let echo = stream.flows[0].echo.as_ref().unwrap();
        assert_eq!((stream.status, echo.bytes), (Status::Complete, PACKETS * BYTES));
        // Both at the same time.
        let both = vec![
            ConnectionFields { name: "a".into(), ..fields(TransportName::Tcp) }.into(),
            ConnectionFields { name: "b".into(), count: 3, ..fields(TransportName::Udp) }.into(),
        ];
        let record = run(plan(PeerName::Echo, to, both), to).unwrap();
        assert_eq!(record.flows.len(), 4);
        for flow in &record.flows {
            assert_eq!(flow.echo.as_ref().unwrap().bytes, PACKETS * BYTES);
        }
        let events = end(server);
        // Only streams are sessions, each with a record of what arrived.
        let records: Vec<&Record> = events
            .iter()
            .filter_map(|event| match event {
                ServerEvent::SessionClosed { record, .. } => record.as_deref(),
                _ => None,
            })
            .collect();
        assert_eq!(records.len(), 2);
        for record in records {
            assert_eq!((record.status, &*record.peer), (Status::Complete, "echo"));
            assert_eq!(record.flows[0].receiver.as_ref().unwrap().bytes, PACKETS * BYTES);
        }
        assert_eq!(totals(&events), (4 * PACKETS, 4 * PACKETS, 0));
    }
}

#[test]
fn a_stream_comes_back_from_any_server() {
    let listener = TcpListener::bind((loopback(false), 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 4096];
        loop {
            match stream.read(&mut bytes).unwrap() {
                0 => return,
                n => stream.write_all(&bytes[..n]).unwrap(),
            }
        }
    });
    let record = test(to, TransportName::Tcp);
    thread.join().unwrap();
    let echo = record.flows[0].echo.as_ref().unwrap();
    assert_eq!((echo.bytes, echo.undelivered_bytes), (PACKETS * BYTES, Some(0)));
}

#[test]
fn the_server_sends_back_what_it_received_and_no_more() {
    let server = serving(PeerName::Echo, loopback(false));
    let socket = UdpSocket::bind((loopback(false), 0)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    for bytes in [&[][..], b"x", &[0x57; 1000], &[0; 65_507]] {
        socket.send_to(bytes, server.address).unwrap();
        let mut back = vec![0; 1 << 16];
        let (n, from) = socket.recv_from(&mut back).unwrap();
        assert_eq!((from, &back[..n]), (server.address, bytes));
    }
    assert_eq!(totals(&end(server)), (4, 4, 0));
}

#[test]
fn ports_of_services_get_no_answer() {
    // Root alone may bind them.
    let bound = (900..1024).rev().find_map(|port| UdpSocket::bind((loopback(false), port)).ok());
    let Some(service) = bound else {
        println!(
            "SKIPPED ports_of_services_get_no_answer: no permission to bind a port below 1024"
        );
        return;
    };
    let server = serving(PeerName::Echo, loopback(false));
    // So would another server on the same port answer without end.
    let twin = UdpSocket::bind((IpAddr::from([127, 0, 0, 2]), server.address.port())).unwrap();
    let client = UdpSocket::bind((loopback(false), 0)).unwrap();
    for socket in [&service, &twin, &client] {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.send_to(b"loop", server.address).unwrap();
    }
    client.recv_from(&mut [0; 8]).unwrap();
    for ignored in [&service, &twin] {
        ignored.set_nonblocking(true).unwrap();
        assert!(ignored.recv_from(&mut [0; 8]).is_err());
    }
    assert_eq!(totals(&end(server)), (3, 1, 0));
}

#[test]
fn what_an_echo_server_lacks_is_refused_by_its_field() {
    let to = SocketAddr::new(loopback(false), 9);
    let udp = || fields(TransportName::Udp);
    let refused = [
        ("echo", ConnectionFields { echo: Some("64".parse().unwrap()), ..udp() }),
        ("header", ConnectionFields { header: weir_model::plan::HeaderFormat::None, ..udp() }),
        ("payload", ConnectionFields { payload: Some(ByteSize(31).into()), ..udp() }),
        (
            "direction",
            ConnectionFields { direction: weir_model::plan::Direction::Reverse, ..udp() },
        ),
        ("shape", ConnectionFields { shape: weir_model::plan::Shape::Rr, ..udp() }),
        ("transport", fields(TransportName::Mptcp)),
        ("autostart", ConnectionFields { autostart: false, ..udp() }),
    ];
    for (field, connection) in refused {
        let plan = plan(PeerName::Echo, to, vec![connection.into()]);
        let checked = weir_peers::check(&ClientConfig::new(plan.clone(), "127.0.0.1"));
        let checked = checked.and_then(|()| plan.check().map_err(TrafficError::from));
        match checked {
            Err(TrafficError::Plan(weir_model::ModelError::Field { field: named, .. })) => {
                assert_eq!(named, format!("connection[0].{field}"));
            }
            other => panic!("{field}: {other:?}"),
        }
    }
}

#[test]
fn an_echo_server_is_served_only_by_name() {
    assert!(protocol().is_served_by_name_only);
    assert!(!Protocol::find("ttcp").unwrap().is_served_by_name_only);
}
