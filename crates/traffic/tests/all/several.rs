//! One test with two servers over loopback: one record, one start, one stop.

use crate::faults::Proxy;
use crate::faults_common::{Server, plan, until};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use weir_model::plan::{Connection, Direction, Family, Plan, Transport};
use weir_model::record::{IntervalFlow, Record, Status};
use weir_model::units::{Seed, Span};
use weir_traffic::{ClientConfig, Event, ServerConfig, Stop, StopReason, TrafficError, run};

fn udp(direction: Direction) -> Connection {
    Connection {
        transport: Transport::udp(),
        rate: Some("500pps".parse().unwrap()),
        payload: Some("uniform(min=100, max=500)".parse().unwrap()),
        packets: Some(200),
        direction,
        ..Connection::default()
    }
}

fn tcp() -> Connection {
    Connection {
        rate: Some("8M".parse().unwrap()),
        duration: Some(Span(500_000_000)),
        ..Connection::default()
    }
}

fn at(port: u16, connection: Connection) -> Connection {
    Connection { port: Some(port), ..connection }
}

/// A test of `plan` with the server at `127.0.0.1`, port `a`, unless a connection names another.
fn config(a: u16, connections: Vec<Connection>) -> ClientConfig {
    let seed = Seed(7);
    ClientConfig::new(Plan { port: Some(a), seed, ..plan(connections) }, "127.0.0.1")
}

fn label(server: &Server) -> String {
    format!("127.0.0.1:{}", server.address.port())
}

/// Two servers, with the port of the second.
fn two() -> (Server, Server, u16) {
    let [a, b] = [0; 2].map(|_| Server::start(ServerConfig::default()));
    let port = b.address.port();
    (a, b, port)
}

fn delivered(record: &Record, id: u32) -> bool {
    let flow = record.flows.iter().find(|f| f.id == id).unwrap();
    let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
    s.bytes > 0 && s.bytes == r.bytes
}

#[test]
fn a_plan_with_two_servers_runs_as_one_test() {
    let (a, b, port) = two();
    let connections = vec![
        Connection { count: 2, ..tcp() },
        at(port, udp(Direction::Forward)),
        udp(Direction::Reverse),
        at(port, Connection { direction: Direction::Reverse, ..tcp() }),
    ];
    let config = config(a.address.port(), connections);
    let whole = config.plan.flows(Family::Ipv4, 65_536);
    let mut events = vec![];
    let record = run(config, Stop::new(), &mut |event| events.push(event)).unwrap();
    assert_eq!(record.status, Status::Complete, "{:?}", record.warnings);
    let hosts = [label(&a), label(&a), label(&b), label(&a), label(&b)].map(Some);
    assert_eq!(record.flows.iter().map(|f| f.host.clone()).collect::<Vec<_>>(), hosts);
    for (flow, spec) in record.flows.iter().zip(&whole) {
        assert_eq!((flow.id, &flow.name), (spec.id, &spec.name));
        assert!(delivered(&record, flow.id), "{flow:?}");
    }
    // The laws draw as in a test with one server.
    let server = Server::start(ServerConfig::default());
    let alone = Plan {
        seed: Seed(7),
        ..plan(
            record
                .plan
                .connections
                .iter()
                .map(|c| Connection { port: None, ..c.clone() })
                .collect(),
        )
    };
    let alone = server.test(alone).unwrap();
    for id in [2, 3] {
        let bytes = |r: &Record| r.flows[id].sender.as_ref().unwrap().bytes;
        assert_eq!(bytes(&record), bytes(&alone));
    }
    let forward = record.total.forward.as_ref().unwrap();
    let sum = |ids: &[usize]| -> u64 {
        ids.iter().map(|id| record.flows[*id].receiver.as_ref().unwrap().bytes).sum()
    };
    assert_eq!(forward.receiver.as_ref().unwrap().bytes, sum(&[0, 1, 2]));
    let reverse = record.total.reverse.as_ref().unwrap();
    assert_eq!(reverse.receiver.as_ref().unwrap().bytes, sum(&[3, 4]));
    // What belongs to a server is stated for each.
    let names: Vec<&str> = record.servers.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, [label(&a), label(&b)]);
    for server in &record.servers {
        assert!(server.host.is_some() && server.cpu.is_some() && server.latency.is_some());
        assert_eq!(server.clock.as_ref().unwrap().method, "shared");
    }
    assert!(record.remote.is_none() && record.latency.is_none() && record.local.is_some());
    assert_eq!(record.clock.as_ref().unwrap().method, "shared");
    assert_eq!(record.loss_ledger.as_ref().unwrap().missing_packets, 0);

    // Every interval has the flows of both, live as in the record.
    let mut of_intervals = 0;
    let mut starts = vec![];
    for event in &events {
        match event {
            Event::Started { specs, .. } => starts.push(specs.clone()),
            Event::Interval(interval) => {
                assert!(interval.flows.iter().all(|f| (1..=5).contains(&f.id)));
                of_intervals += 1;
            }
            _ => {}
        }
    }
    assert_eq!(of_intervals, record.intervals.len());
    let first = record.intervals[0].flows.iter().map(|f| f.id).collect::<Vec<_>>();
    assert_eq!(first, [1, 2, 3, 4, 5]);
    let counted: u64 = record
        .intervals
        .iter()
        .filter_map(|i| i.total.forward.as_ref()?.receiver.as_ref())
        .map(|r| r.bytes)
        .sum();
    assert_eq!(counted, sum(&[0, 1, 2]));
    let [specs] = &starts[..] else { panic!("{} starts", starts.len()) };
    let started: Vec<_> = specs.iter().map(|s| (s.id, s.connection.host.clone())).collect();
    assert_eq!(started, (1..=5).zip(hosts).collect::<Vec<_>>());
    a.idle();
    b.idle();
}

#[test]
fn one_server_named_by_all_connections_is_an_ordinary_test() {
    let server = Server::start(ServerConfig::default());
    let host = Some(label(&server));
    let connection = Connection { host, ..udp(Direction::Forward) };
    let config = ClientConfig::new(plan(vec![connection.clone(), connection]), "");
    let record = run(config, Stop::new(), &mut |_| {}).unwrap();
    assert!(record.servers.is_empty() && record.flows.iter().all(|f| f.host.is_none()));
    assert_eq!(record.plan.host.as_deref(), Some("127.0.0.1"));
    assert!(record.remote.is_some());
}

#[test]
fn a_server_that_refuses_starts_no_test() {
    let (a, b, port) = two();
    b.end().unwrap();
    let connections = vec![udp(Direction::Forward), at(port, udp(Direction::Forward))];
    let mut started = 0;
    let failure = run(config(a.address.port(), connections), Stop::new(), &mut |event| {
        started += u32::from(matches!(event, Event::Started { .. } | Event::Interval(_)));
    })
    .unwrap_err();
    assert!(matches!(failure.error, TrafficError::Connect { .. }), "{failure}");
    assert!(failure.partial.is_none() && started == 0);
    a.idle();
}

#[test]
fn the_others_continue_when_a_server_vanishes() {
    let (a, b, _) = two();
    let proxy = Proxy::before(b.address);
    let lost = Connection {
        host: Some(proxy.address.to_string()),
        duration: Some(Span(0)),
        rate: Some("8M".parse().unwrap()),
        ..Connection::default()
    };
    let mut is_cut = false;
    let stop = Stop::new();
    let mut after = 0;
    let inner = stop.clone();
    let own = Connection { duration: Some(Span(0)), packets: None, ..udp(Direction::Forward) };
    let failure = run(config(a.address.port(), vec![lost, own]), stop, &mut |event| {
        let Event::Interval(interval) = event else { return };
        let received = |id| {
            let flow = interval.flows.iter().find(|f| f.id == id);
            flow.and_then(|f| f.receiver.as_ref()).is_some_and(|r| r.bytes > 0)
        };
        if !is_cut && received(1) {
            proxy.cut();
            is_cut = true;
        }
        // The other's flow alone.
        let is_alone = interval.flows.iter().all(|f| f.id == 2);
        after += u32::from(is_cut && is_alone && received(2));
        if after == 3 {
            inner.request(StopReason::Interrupted);
        }
    })
    .unwrap_err();
    let record = failure.partial.unwrap();
    assert_eq!(failure.error.exit_code(), 130);
    assert!(delivered(&record, 2));
    let first = &record.flows[0];
    assert!(first.sender.as_ref().unwrap().bytes > 0);
    assert!(record.warnings.iter().any(|w| w.code == "end-lost" && w.flow == Some(1)));
    let of_servers: Vec<Status> = record.servers.iter().map(|s| s.status).collect();
    assert_eq!(of_servers, [Status::Partial, Status::Interrupted]);
    assert_eq!(record.servers[0].name, proxy.address.to_string());
    assert!(record.servers[0].host.is_none() && record.servers[1].host.is_some());
    assert!(record.intervals.last().unwrap().flows.iter().all(|f| f.id == 2));
    a.idle();
}

#[test]
fn a_lost_server_alone_gives_its_exit_code() {
    let (a, b, _) = two();
    let proxy = Proxy::before(b.address);
    let host = Some(proxy.address.to_string());
    let lost = Connection { host, duration: Some(Span(0)), ..tcp() };
    let failure =
        run(config(a.address.port(), vec![udp(Direction::Forward), lost]), Stop::new(), &mut |e| {
            if matches!(e, Event::Interval(_)) {
                proxy.cut();
            }
        })
        .unwrap_err();
    assert_eq!(failure.error.exit_code(), 3, "{failure}");
    let record = failure.partial.unwrap();
    assert_eq!(record.status, Status::Partial);
    assert!(record.end_reason.contains(&proxy.address.to_string()), "{}", record.end_reason);
    assert!(delivered(&record, 1));
    assert_eq!(record.flows[0].sender.as_ref().unwrap().packets, 200);
}

#[test]
fn one_stop_ends_all_and_keeps_the_results() {
    let (a, b, port) = two();
    let endless = |c| Connection { duration: Some(Span(0)), packets: None, ..c };
    let connections =
        vec![endless(udp(Direction::Forward)), at(port, endless(udp(Direction::Reverse)))];
    let stop = Stop::new();
    let inner = stop.clone();
    let mut is_asked = false;
    let failure = run(config(a.address.port(), connections), stop, &mut |event| {
        if matches!(event, Event::Interval(_)) && !is_asked {
            is_asked = true;
            inner.request(StopReason::Interrupted);
        }
    })
    .unwrap_err();
    assert_eq!(failure.error.exit_code(), 130);
    let record = failure.partial.unwrap();
    assert_eq!(record.status, Status::Interrupted);
    assert!(delivered(&record, 1) && delivered(&record, 2));
    a.idle();
    b.idle();
}

/// The answer to a request on the control socket.
fn ask(socket: &Path, verb: &str, connection: Option<&str>) -> serde_json::Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    let request = serde_json::json!({ "verb": verb, "connection": connection });
    writeln!(stream, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

/// Ids and states in an answer.
fn states(answer: &serde_json::Value) -> Vec<(u64, String)> {
    assert_eq!(answer["ok"], true, "{answer}");
    let flows = answer["flows"].as_array().unwrap().iter();
    flows.map(|f| (f["id"].as_u64().unwrap(), f["state"].as_str().unwrap().into())).collect()
}

#[test]
fn connections_of_both_servers_are_started_and_stopped_by_name_and_number() {
    let (a, _b, port) = two();
    let waiting = |name: &str| Connection {
        name: name.into(),
        autostart: false,
        duration: Some(Span(0)),
        packets: None,
        ..udp(Direction::Forward)
    };
    let connections =
        vec![waiting("one"), at(port, waiting("two")), waiting("three"), at(port, waiting("four"))];
    let directory = std::env::temp_dir().join(format!("weir-several-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let socket = directory.join("socket");
    let mut config = ClientConfig {
        control_socket: Some(socket.clone()),
        ..config(a.address.port(), connections)
    };
    config.plan.interval = Span(50_000_000);
    let (is_started, last) = (Arc::new(Mutex::new(false)), Arc::new(Mutex::new(vec![])));
    let (started, seen) = (is_started.clone(), last.clone());
    let sent = Arc::new(Mutex::new(HashSet::new()));
    let have_sent = sent.clone();
    let test = std::thread::spawn(move || {
        run(config, Stop::new(), &mut |event| match event {
            Event::Started { .. } => *started.lock().unwrap() = true,
            Event::Flows(changed) => seen.lock().unwrap().extend(changed),
            Event::Interval(interval) => {
                let sends = |f: &&IntervalFlow| f.sender.as_ref().is_some_and(|s| s.bytes > 0);
                have_sent.lock().unwrap().extend(interval.flows.iter().filter(sends).map(|f| f.id));
            }
            _ => {}
        })
    });
    until("the test has started", || *is_started.lock().unwrap());
    let state = |id, state: &str| (id, state.to_owned());
    let all = states(&ask(&socket, "status", None));
    let expected = [1, 2, 3, 4].map(|id| state(id, "waiting"));
    assert_eq!(all, expected);
    assert_eq!(states(&ask(&socket, "start", Some("four"))), [state(4, "started")]);
    // By the numbers of the whole test.
    assert_eq!(states(&ask(&socket, "start", Some("3"))), [state(3, "started")]);
    let unknown = ask(&socket, "start", Some("five"));
    assert_eq!(unknown["ok"], false);
    for name in ["one", "two", "three", "four"] {
        assert!(unknown["error"].as_str().unwrap().contains(name), "{unknown}");
    }
    states(&ask(&socket, "start", None));
    until("all have sent", || sent.lock().unwrap().len() == 4);
    // Once a server's part is over, its connections still answer.
    for name in ["2", "four"] {
        states(&ask(&socket, "stop", Some(name)));
    }
    until("the second server's part is over", || {
        let seen = last.lock().unwrap();
        let over = |id| seen.iter().any(|f| f.id == id && f.state.is_over());
        over(2) && over(4)
    });
    until("its flows have finished", || {
        let found = states(&ask(&socket, "status", Some("two")));
        found == [state(2, "finished")]
    });
    until("it can't be started again", || ask(&socket, "start", Some("two"))["ok"] == false);
    for name in ["one", "three"] {
        states(&ask(&socket, "stop", Some(name)));
    }
    let record = test.join().unwrap().unwrap();
    assert_eq!(record.status, Status::Complete);
    assert!((1..=4).all(|id| delivered(&record, id)), "{:?}", record.flows);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_packet_log_needs_one_server() {
    let config = ClientConfig {
        packet_log: Some("/nonexistent/log".into()),
        ..config(1, vec![udp(Direction::Reverse), at(2, udp(Direction::Reverse))])
    };
    let failure = run(config, Stop::new(), &mut |_| {}).unwrap_err();
    let TrafficError::Input { field, .. } = failure.error else { panic!("{failure}") };
    assert_eq!(field, "packet_log");
}
