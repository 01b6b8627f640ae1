//! Transactions between a client and a server over loopback, over a path that loses datagrams, and with hostile clients.

use std::io::{Read, Write};
use std::net::TcpStream;

use weir_model::plan::{Connection, Plan, Shape, Transport, TransportName};
use weir_model::record::{Flow, Record, Status};
use weir_model::units::{ByteSize, Span};
use weir_model::warning::Severity;
use weir_traffic::{Event, Limits, ServerConfig, Stop, TrafficError, run};
use weir_wire::control::{ClientMessage, ServerMessage};

use crate::faults::Proxy;
use crate::faults_common::*;
use crate::header::Path;

/// `count` transactions of a shape.
fn transactions(shape: Shape, transport: TransportName, count: u64) -> Connection {
    Connection { shape, transport: transport.into(), packets: Some(count), ..Connection::default() }
}

fn measured(server: &Server, connection: Connection) -> Record {
    let plan = plan(vec![connection]);
    plan.check().unwrap();
    server.test(plan).map_err(|f| f.to_string()).unwrap()
}

fn received(flow: &Flow) -> (u64, u64) {
    let receiver = flow.receiver.as_ref().unwrap();
    (receiver.packets, receiver.bytes)
}

#[test]
fn each_shape_of_each_transport_counts_every_transaction() {
    let server = Server::start(ServerConfig::default());
    for (shape, transport, request) in [
        (Shape::Rr, TransportName::Tcp, 1),
        (Shape::Rr, TransportName::Udp, 8),
        (Shape::Crr, TransportName::Tcp, 1),
        (Shape::Cc, TransportName::Tcp, 0),
    ] {
        let record = measured(&server, transactions(shape, transport, 200));
        assert_eq!(record.status, Status::Complete, "{shape} {transport}");
        assert!(record.warnings.iter().all(|w| w.severity != Severity::Error), "{shape}");
        let flow = &record.flows[0];
        let t = flow.transactions.as_ref().unwrap();
        assert_eq!((t.shape, t.completed, t.failed), (shape, 200, 0), "{:?}", t.failures);
        assert_eq!(flow.sender.as_ref().unwrap().packets, 200);
        assert_eq!(received(flow), (200, 200 * request), "{shape} {transport}");
        let is_udp = transport == TransportName::Udp;
        assert_eq!(flow.receiver.as_ref().unwrap().lost_packets, is_udp.then_some(0));
        let times = t.response_time.as_ref().unwrap();
        assert!(times.count == 200 && times.min_seconds > 0.0);
        assert!(times.max_seconds >= times.mean_seconds && times.mean_seconds > times.min_seconds);
        assert_eq!(t.setup_time.as_ref().map(|d| d.count), shape.connects().then_some(200));
        assert_eq!(t.failed_connections, shape.connects().then_some(0));
        assert_eq!(t.request_bytes, (request > 0).then_some(request));
        let of_interval = |i: &weir_model::record::Interval| {
            i.flows.iter().filter_map(|f| f.sender.as_ref()?.transactions).sum::<u64>()
        };
        assert_eq!(record.intervals.iter().map(of_interval).sum::<u64>(), 200);
        let metrics: Vec<&str> = record.histograms.iter().map(|h| h.metric.as_str()).collect();
        assert!(metrics.contains(&"response_time"), "{metrics:?}");
        assert_eq!(metrics.contains(&"setup_time"), shape.connects());
    }
}

#[test]
fn requests_and_responses_of_any_size_arrive_whole() {
    let server = Server::start(ServerConfig::default());
    let sized = |shape, transport, request, response, outstanding| Connection {
        request: Some(ByteSize(request)),
        response: Some(ByteSize(response)),
        outstanding: Some(outstanding),
        ..transactions(shape, transport, 100)
    };
    for connection in [
        // Beyond what the sockets' buffers hold.
        sized(Shape::Rr, TransportName::Tcp, 3000, 300_000, 8),
        sized(Shape::Rr, TransportName::Tcp, 300_000, 3000, 8),
        sized(Shape::Crr, TransportName::Tcp, 200_000, 200_000, 4),
        // The size of control datagrams, and a response that is longer than its request.
        sized(Shape::Rr, TransportName::Udp, 64, 64, 4),
        sized(Shape::Rr, TransportName::Udp, 4, 1400, 4),
        sized(Shape::Rr, TransportName::Udp, 60_000, 60_000, 2),
        sized(Shape::Rr, TransportName::Udp, 1, 1, 1),
    ] {
        let request = connection.request_bytes();
        let record = measured(&server, connection.clone());
        let t = record.flows[0].transactions.as_ref().unwrap();
        assert_eq!((t.completed, t.failed), (100, 0), "{connection:?}");
        assert_eq!(t.invalid_responses.unwrap_or(0) + t.duplicate_responses.unwrap_or(0), 0);
        assert_eq!(received(&record.flows[0]), (100, 100 * request), "{connection:?}");
    }
}

#[test]
fn an_open_loop_has_scheduled_times() {
    let server = Server::start(ServerConfig::default());
    for (shape, transport) in [
        (Shape::Rr, TransportName::Udp),
        (Shape::Rr, TransportName::Tcp),
        (Shape::Crr, TransportName::Tcp),
    ] {
        let rate = Some("500pps".parse().unwrap());
        let record = measured(&server, Connection { rate, ..transactions(shape, transport, 100) });
        let t = record.flows[0].transactions.as_ref().unwrap();
        assert_eq!((t.completed, t.outstanding), (100, None));
        let (sent, scheduled) =
            (t.response_time.as_ref().unwrap(), t.response_time_from_scheduled.as_ref().unwrap());
        assert_eq!((sent.count, scheduled.count), (100, 100));
        assert!(scheduled.mean_seconds >= sent.mean_seconds);
    }
}

#[test]
fn several_flows_and_shapes_run_together() {
    let server = Server::start(ServerConfig::default());
    let flows = |shape, transport| Connection { count: 5, ..transactions(shape, transport, 50) };
    let stream = Connection { bytes: Some(ByteSize(1_000_000)), ..Connection::default() };
    let connections = vec![
        flows(Shape::Rr, TransportName::Udp),
        flows(Shape::Rr, TransportName::Tcp),
        flows(Shape::Crr, TransportName::Tcp),
        stream,
    ];
    let record = server.test(plan(connections)).map_err(|f| f.to_string()).unwrap();
    assert_eq!(record.status, Status::Complete);
    for flow in &record.flows[..15] {
        assert_eq!(flow.transactions.as_ref().unwrap().completed, 50, "{}", flow.name);
    }
    assert_eq!(record.flows[15].receiver.as_ref().unwrap().bytes, 1_000_000);
    assert!(record.flows[15].transactions.is_none());
}

/// Of each 20 requests the path drops one, holds one back until the next, and copies one.
#[test]
fn losses_copies_and_late_responses_of_a_path_are_counted_apart() {
    let server = Server::start(ServerConfig::default());
    let proxy = Proxy::before(server.address);
    let _path = Path::open(proxy.address, server.address);
    let mut config = proxy.client(vec![transactions(Shape::Rr, TransportName::Udp, 20)]);
    config.plan.loss_threshold = Some(Span(700_000_000));
    let record = run(config, Stop::new(), &mut |_| {}).map_err(|f| f.to_string()).unwrap();
    let flow = &record.flows[0];
    let t = flow.transactions.as_ref().unwrap();
    assert_eq!((t.completed, t.failed), (18, 2));
    assert_eq!(t.failures.get("timeout"), Some(&2));
    assert_eq!((t.late_responses, t.duplicate_responses), (Some(1), Some(1)));
    assert_eq!(t.timeout_seconds, Some(0.7));
    // The copy does not hide the lost request.
    let receiver = flow.receiver.as_ref().unwrap();
    assert_eq!((received(flow).0, receiver.lost_packets), (19, Some(1)));
    assert_eq!(receiver.duplicate_packets, Some(1));
}

#[test]
fn a_server_that_is_gone_ends_the_flow_with_what_was_measured() {
    let server = Server::start(ServerConfig::default());
    let connection = Connection {
        duration: Some(Span(0)),
        packets: None,
        ..transactions(Shape::Rr, TransportName::Tcp, 1)
    };
    let (stop, config) = (Stop::new(), server.client(plan(vec![connection])));
    let (sender, intervals) = std::sync::mpsc::channel();
    let client = std::thread::spawn(move || {
        run(config, stop, &mut |event| {
            if matches!(event, Event::Interval(_)) {
                let _ = sender.send(());
            }
        })
    });
    intervals.recv_timeout(TIMEOUT).unwrap();
    server.end().unwrap();
    let record = client.join().unwrap().unwrap_err().partial.unwrap();
    assert_eq!(record.status, Status::Partial);
    assert!(record.flows[0].transactions.as_ref().unwrap().completed > 0);
}

#[test]
fn connections_of_transactions_need_the_token_and_count_as_flows() {
    let limits = Limits { flows: 3, ..Limits::default() };
    let server = Server::start(ServerConfig { limits, ..ServerConfig::default() });
    let connection = Connection {
        request: Some(ByteSize(4)),
        response: Some(ByteSize(6)),
        duration: Some(Span(0)),
        packets: None,
        ..transactions(Shape::Crr, TransportName::Tcp, 1)
    };
    let (mut raw, opened) = Raw::session(server.address, plan(vec![connection]));
    let show = |preface: [u8; 36]| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(&preface).unwrap();
        stream
    };
    let right = data_preface(&opened, 1);
    let mut wrong = right;
    wrong.token[15] ^= 1;
    let _flow = show(right.encode());
    assert_eq!(raw.read(), Some(ServerMessage::FlowReady { flow: 1 }));
    assert_eq!(rest(&mut show(wrong.encode())), b"");
    // Two more are within the limit: they are served, however slowly the request comes.
    let mut slow = [show(right.encode()), show(right.encode())];
    slow[0].write_all(b"re").unwrap();
    raw.send(&ClientMessage::Probe { t1_ns: 1, reference: false });
    assert!(matches!(raw.read(), Some(ServerMessage::ProbeReply { .. })));
    // The next is closed without an answer.
    let mut more = show(right.encode());
    let _ = more.write_all(b"requ");
    assert_eq!(rest(&mut more), b"");
    slow[0].write_all(b"qu").unwrap();
    let mut response = vec![];
    slow[0].read_to_end(&mut response).unwrap();
    assert_eq!(response.len(), 6, "and the server closes");
    // Its place is free again.
    let mut next = show(right.encode());
    next.write_all(b"requ").unwrap();
    response.clear();
    next.read_to_end(&mut response).unwrap();
    assert_eq!(response.len(), 6);
    drop(raw);
    server.idle();
    // The connections end with their session.
    assert_eq!(rest(&mut slow[1]), b"");
}

#[test]
fn connections_of_transactions_are_the_clients_own_and_bring_a_request() {
    let limits = Limits { hello_seconds: 1, ..Limits::default() };
    let server = Server::start(ServerConfig { limits, ..ServerConfig::default() });
    let connection = Connection {
        request: Some(ByteSize(4)),
        response: Some(ByteSize(6)),
        duration: Some(Span(0)),
        packets: None,
        ..transactions(Shape::Crr, TransportName::Tcp, 1)
    };
    let (mut raw, opened) = Raw::session(server.address, plan(vec![connection]));
    let right = data_preface(&opened, 1).encode();
    let show = |from: [u8; 4]| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.bind(&std::net::SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&server.address.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(&right).unwrap();
        stream
    };
    let (client, another) = ([127, 0, 0, 1], [127, 0, 0, 2]);
    let _flow = show(client);
    assert_eq!(raw.read(), Some(ServerMessage::FlowReady { flow: 1 }));
    let mut replayed = show(another);
    let _ = replayed.write_all(b"requ");
    assert_eq!(rest(&mut replayed), b"");
    let mut own = show(client);
    own.write_all(b"requ").unwrap();
    assert_eq!(rest(&mut own).len(), 6);
    // Without a whole request they end before their session.
    let mut silent = [show(client), show(client)];
    silent[1].write_all(b"re").unwrap();
    for stream in &mut silent {
        assert_eq!(rest(stream), b"");
    }
    raw.send(&ClientMessage::Probe { t1_ns: 1, reference: false });
    assert!(matches!(raw.read(), Some(ServerMessage::ProbeReply { .. })));
}

#[test]
fn a_connection_whose_response_is_not_read_ends_before_its_session() {
    let limits = Limits { hello_seconds: 1, ..Limits::default() };
    let server = Server::start(ServerConfig { limits, ..ServerConfig::default() });
    let connection = Connection {
        request: Some(ByteSize(4)),
        // More than the buffers of both sockets hold.
        response: Some(ByteSize(16 << 20)),
        duration: Some(Span(0)),
        packets: None,
        ..transactions(Shape::Crr, TransportName::Tcp, 1)
    };
    let (mut raw, opened) = Raw::session(server.address, plan(vec![connection]));
    let show = || {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(&data_preface(&opened, 1).encode()).unwrap();
        stream
    };
    let _flow = show();
    assert_eq!(raw.read(), Some(ServerMessage::FlowReady { flow: 1 }));
    let mut unread = show();
    unread.write_all(b"requ").unwrap();
    until("the connection is closed", || unread.write_all(b"x").is_err());
    raw.send(&ClientMessage::Probe { t1_ns: 1, reference: false });
    assert!(matches!(raw.read(), Some(ServerMessage::ProbeReply { .. })));
}

#[test]
fn more_connections_than_ports_are_refused_before_the_start() {
    let server = Server::start(ServerConfig::default());
    let connection = Connection {
        count: 1000,
        outstanding: Some(1000),
        ..transactions(Shape::Crr, TransportName::Tcp, 1)
    };
    let failure = server.test(plan(vec![connection])).unwrap_err();
    assert!(matches!(failure.error, TrafficError::AddressSpace { field: "outstanding", .. }));
    assert_eq!(
        (failure.error.code().as_str(), failure.error.exit_code()),
        ("address-space-exhausted", 4)
    );
    assert_eq!(server.opened(), 0);
}

/// Remote addresses and ports of the connections to a local port that are in TIME_WAIT: those that the server closed first.
#[cfg(target_os = "linux")]
fn closed_by_server(port: u16) -> Vec<(std::net::Ipv4Addr, u16)> {
    let text = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let address = |field: &str| {
        let (ip, port) = field.split_once(':')?;
        let ip = u32::from_str_radix(ip, 16).ok()?;
        Some((std::net::Ipv4Addr::from(ip.to_ne_bytes()), u16::from_str_radix(port, 16).ok()?))
    };
    let rows = text.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_closed = address(fields[1])?.1 == port && fields[3] == "06";
        address(fields[2]).filter(|_| is_closed)
    });
    rows.collect()
}

#[cfg(target_os = "linux")]
#[test]
fn connections_use_addresses_and_ports_in_turn() {
    let server = Server::start(ServerConfig::default());
    let bind = "127.0.0.11-127.0.0.14".parse().unwrap();
    // Each address has 10 ports for 8 connections, and one for the flow's own connection.
    let connection = transactions(Shape::Crr, TransportName::Tcp, 32)
        .with_ip(|ip| (ip.client_port, ip.client_port_last) = (Some(21_000), Some(21_009)));
    let crr = Plan { bind: Some(bind), ..plan(vec![connection]) };
    crr.check().unwrap();
    let record = server.test(crr).map_err(|f| f.to_string()).unwrap();
    let t = record.flows[0].transactions.as_ref().unwrap();
    assert_eq!((t.completed, t.failed), (32, 0), "{:?}", t.failures);
    let closed = closed_by_server(server.address.port());
    let distinct: std::collections::HashSet<_> = closed.iter().collect();
    assert!(distinct.len() >= 32, "{closed:?}");
    for n in 11..=14 {
        let of = |(ip, port): &&(std::net::Ipv4Addr, u16)| {
            *ip == std::net::Ipv4Addr::new(127, 0, 0, n) && (21_000..=21_009).contains(port)
        };
        assert!(closed.iter().filter(of).count() >= 8, "{n}: {closed:?}");
    }

    // Streams: one from each address, then the first one again.
    let stream = Connection { count: 5, bytes: Some(ByteSize(1000)), ..Connection::default() }
        .with_ip(|ip| ip.client_port = Some(22_000));
    let streams = Plan { bind: Some(bind), ..plan(vec![stream]) };
    let record = server.test(streams).map_err(|f| f.to_string()).unwrap();
    let sources: Vec<&str> = record.flows.iter().map(|f| f.source.as_str()).collect();
    let expected = ["127.0.0.11:22000", "127.0.0.12:22000", "127.0.0.13:22000", "127.0.0.14:22000"];
    assert_eq!((&sources[..4], sources[4]), (&expected[..], "127.0.0.11:22001"));
}

#[test]
fn several_addresses_have_more_ports_for_connections() {
    let server = Server::start(ServerConfig::default());
    let connection = |first, last| {
        Connection { outstanding: Some(1000), ..transactions(Shape::Crr, TransportName::Tcp, 1) }
            .with_ip(|ip| (ip.client_port, ip.client_port_last) = (Some(first), Some(last)))
    };
    let of = |bind: &str, connection| Plan {
        bind: Some(bind.parse().unwrap()),
        ..plan(vec![connection])
    };
    // 1001 connections at the same time.
    let failure = server.test(of("127.0.0.1", connection(20_000, 20_999))).unwrap_err();
    assert!(matches!(failure.error, TrafficError::AddressSpace { field: "client_port", .. }));
    // Addresses that no host has (RFC 5737).
    let failure = server.test(of("192.0.2.1-192.0.2.2", connection(20_000, 29_999))).unwrap_err();
    assert!(matches!(failure.error, TrafficError::Input { field: "bind", .. }), "{failure}");
    assert_eq!(server.opened(), 0);
    assert!(server.test(of("127.0.0.1-127.0.0.2", connection(20_000, 20_999))).is_ok());
}

#[test]
fn transactions_over_multipath_tcp_are_those_of_tcp() {
    let server = Server::start(ServerConfig::default());
    let connection = Connection {
        transport: Transport::mptcp(),
        ..transactions(Shape::Rr, TransportName::Tcp, 100)
    };
    match server.test(plan(vec![connection])) {
        Ok(record) => assert_eq!(record.flows[0].transactions.as_ref().unwrap().completed, 100),
        Err(failure) => assert_eq!(failure.error.code(), "not-available", "{failure}"),
    }
}
