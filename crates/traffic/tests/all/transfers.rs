//! Transfers between a client and a server over loopback, and clients that state other requests than their plan's.

use std::io::{Read, Write};
use std::net::TcpStream;

use weir_model::plan::{Connection, Direction, Shape, Transport};
use weir_model::record::{Flow, Record, Status};
use weir_model::units::Span;
use weir_model::warning::Severity;
use weir_traffic::{Event, Limits, ServerConfig, Stop, StopReason, run};
use weir_wire::control::{ClientMessage, ServerMessage};
use weir_wire::transfer::TransferRequest;

use crate::faults_common::*;

const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Reverse];

fn transfers(volume: &str, count: u64, direction: Direction) -> Connection {
    Connection {
        shape: Shape::Transfers,
        volume: Some(volume.parse().unwrap()),
        packets: Some(count),
        direction,
        ..Connection::default()
    }
}

fn measured(server: &Server, connections: Vec<Connection>) -> Record {
    let plan = plan(connections);
    plan.check().unwrap();
    let record = server.test(plan).map_err(|f| f.to_string()).unwrap();
    assert_eq!(record.status, Status::Complete);
    assert!(record.warnings.iter().all(|w| w.severity != Severity::Error), "{:?}", record.warnings);
    record
}

fn bytes(flow: &Flow) -> [u64; 2] {
    [flow.sender.as_ref().unwrap().bytes, flow.receiver.as_ref().unwrap().bytes]
}

#[test]
fn each_direction_transfers_whole_volumes_of_any_size() {
    let server = Server::start(ServerConfig::default());
    for direction in DIRECTIONS {
        for volume in ["1", "65536", "3M", "1..300000"] {
            let connection =
                Connection { outstanding: Some(4), ..transfers(volume, 20, direction) };
            let record = measured(&server, vec![connection]);
            let flow = &record.flows[0];
            let t = flow.transactions.as_ref().unwrap();
            let transfers = t.transfers.as_ref().unwrap();
            assert_eq!((t.completed, t.failed), (20, 0), "{direction} {volume} {:?}", t.failures);
            assert_eq!(bytes(flow), [transfers.completed_bytes; 2], "{direction} {volume}");
            // Both ends count transfers.
            let ends = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
            assert_eq!((ends.0.packets, ends.1.packets), (20, 20), "{direction} {volume}");
            assert_eq!((ends.0.io_calls, ends.1.io_calls), (None, None));
            assert_eq!(transfers.classes.iter().map(|c| c.completed).sum::<u64>(), 20);
            assert_eq!(t.setup_time.as_ref().unwrap().count, 20);
            assert_eq!(flow.direction, direction);
            let total = record.direction(direction).unwrap().receiver.as_ref().unwrap();
            assert_eq!(total.bytes, transfers.completed_bytes);
            // The data's intervals are the direction's, and the client counts the ends.
            let ends = record.intervals.iter().flat_map(|i| &i.flows);
            let ended = ends.filter_map(|f| match direction {
                Direction::Forward => f.sender.as_ref()?.transactions,
                Direction::Reverse => f.receiver.as_ref()?.transactions,
            });
            assert_eq!(ended.sum::<u64>(), 20, "{direction} {volume}");
        }
    }
}

/// Transfers over UDP of `volume` in datagrams of 1000 bytes, at 100 Mbit/s each.
fn datagrams(volume: &str, count: u64) -> Connection {
    Connection {
        transport: Transport::udp(),
        payload: Some("1000".parse().unwrap()),
        transfer_rate: Some("100M".parse().unwrap()),
        ..transfers(volume, count, Direction::Forward)
    }
}

#[test]
fn datagrams_of_transfers_are_counted_at_both_ends() {
    let server = Server::start(ServerConfig::default());
    // Volume, datagrams of a transfer, and bytes of its last one.
    for (volume, each, last) in
        [("1", 1, 32), ("1000", 1, 1000), ("2001", 3, 32), ("9500", 10, 500)]
    {
        let connection = Connection { outstanding: Some(4), ..datagrams(volume, 20) };
        let record = measured(&server, vec![connection]);
        let flow = &record.flows[0];
        let t = flow.transactions.as_ref().unwrap();
        let transfers = t.transfers.as_ref().unwrap();
        assert_eq!((t.completed, t.failed), (20, 0), "{volume} {:?}", t.failures);
        assert_eq!((transfers.with_loss, transfers.started), (Some(0), 20));
        assert_eq!(bytes(flow), [20 * (1000 * (each - 1) + last); 2], "{volume}");
        assert_eq!(transfers.completed_bytes, bytes(flow)[1], "{volume}");
        let (sender, receiver) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert_eq!((sender.packets, receiver.packets), (20 * each, 20 * each), "{volume}");
        assert_eq!((receiver.lost_packets, receiver.truncated_packets), (Some(0), Some(0)));
        assert_eq!(receiver.one_way_delay.as_ref().unwrap().count, 20 * each, "{volume}");
        assert_eq!(t.setup_time.as_ref().unwrap().count, 20);
        let rows = record.intervals.iter().flat_map(|i| &i.flows);
        let rows = rows.filter_map(|f| f.sender.as_ref());
        let sum =
            rows.fold((0, 0), |sum, row| (sum.0 + row.packets, sum.1 + row.transactions.unwrap()));
        assert_eq!(sum, (20 * each, 20), "{volume}");
    }
}

#[test]
fn transfers_of_datagrams_keep_their_rate_and_limits() {
    let server = Server::start(ServerConfig::default());
    let steady = Connection {
        transfer_rate: Some("800k".parse().unwrap()),
        rate: Some("50pps".parse().unwrap()),
        ..datagrams("20K", 10)
    };
    let limited = Connection { max_concurrent: Some(2), packets: None, ..steady.clone() };
    let limited = Connection { duration: Some(Span(500_000_000)), ..limited };
    let record = measured(&server, vec![steady, limited]);
    let [steady, limited] = [0, 1].map(|i| record.flows[i].transactions.clone().unwrap());
    assert_eq!((steady.completed, steady.outstanding), (10, None), "{:?}", steady.failures);
    // The last of 21 datagrams is due 20 × 10 ms after the first.
    let shortest = steady.response_time.as_ref().unwrap().min_seconds;
    assert!(shortest >= 0.2, "{shortest}");
    let limited = limited.transfers.unwrap();
    assert_eq!(limited.max_concurrent, 2);
    assert!(limited.not_started > 0 && limited.started > 0, "{limited:?}");
}

#[test]
fn users_load_pages_over_udp_too() {
    let server = Server::start(ServerConfig::default());
    let users = Connection {
        objects: Some("3".parse().unwrap()),
        packets: None,
        duration: Some(Span(300_000_000)),
        ..datagrams("1..5000", 1)
    };
    let record = measured(&server, vec![users]);
    let t = record.flows[0].transactions.as_ref().unwrap();
    let pages = t.transfers.as_ref().unwrap().pages.as_ref().unwrap();
    assert!(pages.loaded > 0 && (t.failed, pages.failed) == (0, 0), "{:?}", t.failures);
}

#[test]
fn starts_by_a_law_have_scheduled_times_and_a_limit() {
    let server = Server::start(ServerConfig::default());
    for direction in DIRECTIONS {
        let open = Connection {
            rate: Some("200pps".parse().unwrap()),
            ..transfers("exponential(mean=20K, max=1M)", 50, direction)
        };
        let limited = Connection {
            max_concurrent: Some(1),
            starts: Some("1ms".parse().unwrap()),
            rate: None,
            packets: None,
            duration: Some(Span(200_000_000)),
            volume: Some("1M".parse().unwrap()),
            ..open.clone()
        };
        let record = measured(&server, vec![open, limited]);
        let [open, limited] = &record.flows[..] else { panic!("two flows") };
        let t = open.transactions.as_ref().unwrap();
        assert_eq!((t.completed, t.outstanding), (50, None), "{:?}", t.failures);
        assert_eq!(t.response_time_from_scheduled.as_ref().unwrap().count, 50);
        let limited = limited.transactions.as_ref().unwrap().transfers.as_ref().unwrap();
        assert_eq!(limited.max_concurrent, 1);
        assert!(limited.started > 0);
    }
}

#[test]
fn users_load_pages_of_several_objects() {
    let server = Server::start(ServerConfig::default());
    for direction in DIRECTIONS {
        let users = Connection {
            objects: Some("1..12".parse().unwrap()),
            main_volume: Some("3M".parse().unwrap()),
            page_connections: Some(3),
            outstanding: Some(2),
            pause: Some("10ms".parse().unwrap()),
            packets: None,
            duration: Some(Span(500_000_000)),
            ..transfers("1..200000", 1, direction)
        };
        let record = measured(&server, vec![users]);
        let t = record.flows[0].transactions.as_ref().unwrap();
        let transfers = t.transfers.as_ref().unwrap();
        let pages = transfers.pages.as_ref().unwrap();
        assert_eq!((t.failed, pages.failed), (0, 0), "{direction} {:?}", t.failures);
        assert!(pages.loaded > 0, "{direction} {pages:?}");
        assert_eq!(pages.load_time.as_ref().unwrap().count, pages.loaded);
        assert!(transfers.max_concurrent <= 6, "{direction} {transfers:?}");
        let histogram = record.histograms.iter().filter(|h| h.metric == "page_load_time");
        assert_eq!(histogram.count(), 1);
    }
}

#[test]
fn both_directions_and_other_shapes_run_together() {
    let server = Server::start(ServerConfig::default());
    let other = Connection { shape: Shape::Crr, packets: Some(20), ..Connection::default() };
    let connections = vec![
        transfers("10K", 20, Direction::Forward),
        transfers("10K", 20, Direction::Reverse),
        other,
    ];
    let record = measured(&server, connections);
    let completed = record.flows.iter().map(|f| f.transactions.as_ref().unwrap().completed);
    assert_eq!(completed.collect::<Vec<_>>(), [20, 20, 20]);
}

#[test]
fn requests_that_are_none_of_the_plan_are_closed_without_data() {
    for direction in DIRECTIONS {
        let limits = Limits { hello_seconds: 1, ..Limits::default() };
        let server = Server::start(ServerConfig { limits, ..ServerConfig::default() });
        let connection = Connection {
            packets: None,
            duration: Some(Span(0)),
            ..transfers("1..1000", 1, direction)
        };
        let (mut raw, opened) = Raw::session(server.address, plan(vec![connection]));
        let preface = data_preface(&opened, 1).encode();
        let show = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            stream.write_all(&preface).unwrap();
            let _ = stream.write_all(bytes);
            stream
        };
        let _flow = show(b"");
        assert_eq!(raw.read(), Some(ServerMessage::FlowReady { flow: 1 }));
        let is_reverse = direction == Direction::Reverse;
        let request = |is_reverse, volume| TransferRequest { is_reverse, volume }.encode();
        for bad in [
            request(is_reverse, 1 << 60),
            request(is_reverse, 1001),
            request(is_reverse, 0),
            request(!is_reverse, 100),
            *b"GET / HTTP/1.",
        ] {
            assert_eq!(rest(&mut show(&bad)), b"", "{bad:?}");
        }
        // One that never sends its request ends as well.
        assert_eq!(rest(&mut show(&[])), b"");
        assert_eq!(rest(&mut show(&request(is_reverse, 100)[..7])), b"");
        // A valid one is served.
        let mut good = show(&request(is_reverse, 100));
        if !is_reverse {
            good.write_all(&[0; 100]).unwrap();
        }
        let mut answer = vec![];
        good.read_to_end(&mut answer).unwrap();
        match is_reverse {
            true => assert_eq!(answer.len(), 100),
            false => assert_eq!(answer, 100u64.to_be_bytes()),
        }
        raw.send(&ClientMessage::Probe { t1_ns: 1, reference: false });
        assert!(matches!(raw.read(), Some(ServerMessage::ProbeReply { .. })));
    }
}

#[test]
fn a_stopped_test_keeps_what_was_transferred() {
    let server = Server::start(ServerConfig::default());
    for direction in DIRECTIONS {
        let quick =
            Connection { packets: None, duration: Some(Span(0)), ..transfers("10K", 1, direction) };
        // Slower than the wait for the end: it stays unfinished.
        let slow = Connection { volume: Some("1T".parse().unwrap()), ..quick.clone() };
        let mut plan = plan(vec![quick, slow]);
        plan.loss_threshold = Some(Span(200_000_000));
        let stop = Stop::new();
        let asked = stop.clone();
        let failure = run(server.client(plan), stop, &mut |event| {
            // A second request would give up the exchange of results.
            if matches!(event, Event::Interval(_)) && asked.reason().is_none() {
                asked.request(StopReason::Interrupted);
            }
        });
        let record = failure.unwrap_err().partial.unwrap();
        assert_eq!(record.status, Status::Interrupted);
        let [quick, slow] = [0, 1].map(|i| record.flows[i].transactions.clone().unwrap());
        assert!(quick.completed > 0, "{direction}");
        let slow = slow.transfers.unwrap();
        assert_eq!((slow.unfinished, slow.completed_bytes), (1, 0), "{direction}");
        assert!(slow.unfinished_bytes > 0, "{direction}");
    }
}
