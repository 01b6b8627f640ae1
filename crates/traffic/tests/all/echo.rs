//! A server that sends back what it receives, over each transport, and over a path that loses, copies and reorders.

use weir_model::plan::{Connection, Echo, Transport, TransportName};
use weir_model::record::{Flow, Record, Status};
use weir_model::units::{ByteSize, Span};
use weir_model::warning::Severity;
use weir_traffic::{Event, ServerConfig, Stop, run};

use crate::faults::Proxy;
use crate::faults_common::*;
use crate::header::Path;

fn echoed(transport: TransportName, echo: Echo) -> Connection {
    Connection { transport: transport.into(), echo: Some(echo), ..Connection::default() }
}

fn measured(server: &Server, connection: Connection) -> Record {
    let plan = plan(vec![connection]);
    plan.check().unwrap();
    let record = server.test(plan).map_err(|f| f.to_string()).unwrap();
    assert_eq!(record.status, Status::Complete);
    assert!(record.warnings.iter().all(|w| w.severity != Severity::Error), "{:?}", record.warnings);
    record
}

fn of(flow: &Flow) -> &weir_model::record::Echo {
    flow.echo.as_ref().unwrap()
}

#[test]
fn datagrams_come_back_whole_or_cut() {
    let server = Server::start(ServerConfig::default());
    for (echo, most) in [(Echo::Whole, 200), (Echo::First(64), 64), (Echo::First(1000), 200)] {
        let connection = Connection {
            payload: Some(ByteSize(200).into()),
            rate: Some("2000pps".parse().unwrap()),
            packets: Some(300),
            verify: true,
            ..echoed(TransportName::Udp, echo)
        };
        let record = measured(&server, connection);
        let flow = &record.flows[0];
        let received = flow.receiver.as_ref().unwrap();
        assert_eq!((received.packets, received.bytes), (300, 300 * 200));
        let back = of(flow);
        assert_eq!((back.packets, back.bytes), (300, 300 * most), "{echo}");
        assert_eq!((back.lost_packets, back.lost_forward_packets), (Some(0), Some(0)));
        assert_eq!((back.lost_back_packets, back.unsent_packets), (Some(0), Some(0)));
        assert_eq!((back.corrupted_packets, back.bit_errors), (Some(0), Some(0)));
        assert_eq!(back.most_bytes, echo.most_bytes().map(|bytes| bytes as u64));
        // A round trip takes longer than the way there, by one clock.
        let trip = flow.round_trip.as_ref().unwrap();
        assert_eq!((trip.count, trip.error_seconds), (300, None));
        assert!(trip.min_seconds > 0.0 && trip.max_seconds >= trip.mean_seconds);
        let metrics: Vec<&str> = record.histograms.iter().map(|h| h.metric.as_str()).collect();
        assert!(metrics.contains(&"round_trip"), "{metrics:?}");
    }
}

/// Coalesced messages are cut into their datagrams, sizes by a law come back as they were.
#[test]
fn echoes_of_unpaced_and_of_differing_datagrams_have_their_sizes() {
    let server = Server::start(ServerConfig::default());
    let unpaced = Connection {
        payload: Some(ByteSize(1000).into()),
        rate: Some("0".parse().unwrap()),
        packets: Some(500),
        ..echoed(TransportName::Udp, Echo::First(100))
    };
    let record = measured(&server, unpaced);
    let back = of(&record.flows[0]);
    assert!(back.packets > 0 && back.bytes == 100 * back.packets, "{back:?}");
    assert_eq!(back.corrupted_packets, Some(0));
    let missing = back.lost_packets.unwrap();
    assert_eq!(back.packets + missing, 500);
    let parts = [back.lost_forward_packets, back.unsent_packets, back.lost_back_packets];
    assert_eq!(parts.into_iter().flatten().sum::<u64>(), missing);
    let differing = Connection {
        payload: Some("40..1400".parse().unwrap()),
        rate: Some("2000pps".parse().unwrap()),
        packets: Some(200),
        verify: true,
        ..echoed(TransportName::Udp, Echo::Whole)
    };
    let record = measured(&server, differing);
    let (sent, back) = (record.flows[0].sender.as_ref().unwrap(), of(&record.flows[0]));
    assert_eq!((back.packets, back.bytes), (200, sent.bytes));
    assert_eq!((back.bit_errors, back.corrupted_packets), (Some(0), Some(0)));
}

#[test]
fn losses_are_those_of_each_direction() {
    let server = Server::start(ServerConfig::default());
    let proxy = Proxy::before(server.address);
    // Of each 20 datagrams there one is dropped, one overtaken, one copied; of each 20 that come back one is dropped.
    let _path = Path::lossy_back(proxy.address, server.address);
    let mut config = proxy.client(vec![Connection {
        payload: Some(ByteSize(100).into()),
        rate: Some("500pps".parse().unwrap()),
        packets: Some(200),
        ..echoed(TransportName::Udp, Echo::Whole)
    }]);
    config.plan.loss_threshold = Some(Span(500_000_000));
    let record = run(config, Stop::new(), &mut |_| {}).map_err(|f| f.to_string()).unwrap();
    let flow = &record.flows[0];
    let received = flow.receiver.as_ref().unwrap();
    assert_eq!((received.packets, received.lost_packets), (190, Some(10)));
    let back = of(flow);
    assert_eq!((back.lost_forward_packets, back.unsent_packets), (Some(10), Some(0)));
    // Copies come back too: 200 echoes, of which the path drops the fourth of each 20.
    assert_eq!((back.lost_packets, back.lost_back_packets), (Some(20), Some(10)));
    assert_eq!((back.packets, back.duplicate_packets), (180, Some(10)));
    assert_eq!(back.reordered_packets, Some(10));
    assert!(back.loss_ratio.is_some_and(|ratio| (ratio - 0.1).abs() < 1e-9));
}

#[test]
fn a_stream_comes_back_whole() {
    let server = Server::start(ServerConfig::default());
    for (payload, rate, bytes) in [
        // More than all buffers of both ends hold.
        (512 << 10, None, 60_000_000),
        (1000, None, 1_000_000),
        (100, Some("200pps".parse().unwrap()), 5_000),
    ] {
        let connection = Connection {
            payload: Some(ByteSize(payload).into()),
            rate,
            bytes: Some(ByteSize(bytes)),
            verify: true,
            ..echoed(TransportName::Tcp, Echo::Whole)
        };
        let record = measured(&server, connection);
        let flow = &record.flows[0];
        let received = flow.receiver.as_ref().unwrap();
        assert_eq!((received.bytes, received.bit_errors), (bytes, Some(0)));
        let back = of(flow);
        assert_eq!((back.bytes, back.undelivered_bytes), (bytes, Some(0)), "{payload}");
        assert_eq!((back.bit_errors, back.lost_packets), (Some(0), None));
        assert!(back.bits_per_second.is_some_and(|rate| rate > 0.0));
    }
}

/// A stop ends the sender; what is on its way still comes back.
#[test]
fn a_stopped_stream_comes_back_as_far_as_it_was_sent() {
    let server = Server::start(ServerConfig::default());
    let connection =
        Connection { duration: Some(Span(0)), ..echoed(TransportName::Tcp, Echo::Whole) };
    let stop = Stop::new();
    let config = server.client(plan(vec![connection]));
    let inner = stop.clone();
    let failure = run(config, stop, &mut |event| {
        if let Event::Interval(_) = event {
            inner.request(weir_traffic::StopReason::Interrupted);
        }
    })
    .unwrap_err();
    let record = failure.partial.unwrap();
    assert_eq!(record.status, Status::Interrupted);
    let flow = &record.flows[0];
    let sent = flow.sender.as_ref().unwrap().bytes;
    let back = of(flow);
    assert_eq!((back.bytes, back.undelivered_bytes), (sent, Some(0)));
}

#[test]
fn several_flows_of_an_echo_do_not_mix() {
    let server = Server::start(ServerConfig::default());
    let udp = Connection {
        count: 5,
        payload: Some(ByteSize(100).into()),
        rate: Some("500pps".parse().unwrap()),
        packets: Some(100),
        verify: true,
        ..echoed(TransportName::Udp, Echo::Whole)
    };
    let tcp = Connection {
        count: 5,
        bytes: Some(ByteSize(1_000_000)),
        verify: true,
        ..echoed(TransportName::Tcp, Echo::Whole)
    };
    let plain = Connection {
        transport: Transport::udp(),
        packets: Some(50),
        rate: Some("500pps".parse().unwrap()),
        ..Connection::default()
    };
    let record = server.test(plan(vec![udp, tcp, plain])).map_err(|f| f.to_string()).unwrap();
    for flow in &record.flows[..5] {
        assert_eq!((of(flow).packets, of(flow).bit_errors), (100, Some(0)));
    }
    for flow in &record.flows[5..10] {
        assert_eq!((of(flow).bytes, of(flow).bit_errors), (1_000_000, Some(0)));
    }
    assert_eq!(record.flows[10].echo, None);
}
