//! iperf2's tests of round trips (`--bounceback`): Weir with Weir, with Debian's iperf in both roles, and with peers that misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use weir_model::plan::{Direction, Plan, Shape};
use weir_model::record::{Record, Status, Transactions};
use weir_model::units::Span;
use weir_peers::{Iperf2Extras, Iperf2WorkingLoad};
use weir_traffic::{ClientConfig, Failure, Limits, ServerEvent, Stop};

use crate::common::{LIMIT, Serving, received, sent, served};
use crate::iperf2::{Server, has_iperf};

fn test(to: SocketAddr, options: &str, hold_us: u32) -> Result<Record, Failure> {
    let text = format!(
        "schema = \"weir.plan/1\"\npeer = \"iperf2\"\n[[connection]]\nshape = \"rr\"\n{options}"
    );
    let plan = Plan::parse(&text).unwrap();
    let plan = Plan { port: Some(to.port()), interval: Span(50_000_000), ..plan };
    let config = ClientConfig::new(plan, to.ip().to_string());
    weir_peers::check(&config).unwrap();
    let extras = Iperf2Extras { hold_us, ..Iperf2Extras::default() };
    weir_peers::run_iperf2(&config, &extras, &Stop::new(), &mut |_| {})
}

fn transactions(record: &Record) -> &Transactions {
    record.flows[0].transactions.as_ref().unwrap()
}

/// Mean round trip, s.
fn mean(record: &Record) -> f64 {
    transactions(record).response_time.as_ref().unwrap().mean_seconds
}

#[test]
fn two_weirs_agree_on_round_trips() {
    for bind in ["127.0.0.1", "::1"] {
        let server = Serving::start("iperf2", bind, Limits::default());
        for (options, size, count) in [
            ("request = 100\nresponse = 100\npackets = 50", 100, Some(50)),
            ("request = 60\nresponse = 60\npackets = 20", 60, Some(20)),
            ("request = 65536\nresponse = 65536\npackets = 20", 65_536, Some(20)),
            ("request = 200\nresponse = 200\nduration = \"300ms\"", 200, None),
            (
                "request = 100\nresponse = 100\nduration = \"500ms\"\nrate = \"100pps/10\"",
                100,
                None,
            ),
            ("request = 100\nresponse = 100\npackets = 40\ncount = 3", 100, Some(40)),
        ] {
            let near = test(server.address, options, 0).unwrap();
            assert_eq!(near.status, Status::Complete, "{options}");
            for flow in &near.flows {
                let done = flow.transactions.as_ref().unwrap();
                assert_eq!(done.failed, 0, "{options}: {done:?}");
                assert!(done.response_time.is_some(), "{options}");
                let far = served(&server);
                assert_eq!(far.status, Status::Complete, "{options}: {}", far.end_reason);
                let (bytes, packets) = received(&far.flows[0]);
                assert_eq!(bytes, packets * size, "{options}");
                match count {
                    Some(count) => assert_eq!((done.completed, packets), (count, count)),
                    None => assert_eq!(done.completed, packets, "{options}"),
                }
            }
            if options.contains("pps") {
                // A burst of 10 each 100 ms.
                let done = transactions(&near).completed;
                assert!(done.is_multiple_of(10) && (40..=60).contains(&done), "{done}");
            }
        }
    }
}

#[test]
fn the_server_waits_as_long_as_it_is_asked_to() {
    let server = Serving::start("iperf2", "127.0.0.1", Limits::default());
    let near = test(server.address, "request = 100\nresponse = 100\npackets = 5", 20_000).unwrap();
    served(&server);
    let times = transactions(&near).response_time.as_ref().unwrap();
    assert!(times.min_seconds >= 0.02, "{times:?}");
}

/// The numbers of the last row of iperf's text: round trips, and their mean in ms.
fn counted(text: &str) -> (u64, f64) {
    let row = text.lines().rev().find(|line| line.contains(" rps")).unwrap();
    let word = row.split_whitespace().find(|word| word.contains('=')).unwrap();
    let (count, times) = word.split_once('=').unwrap();
    (count.parse().unwrap(), times.split('/').next().unwrap().parse().unwrap())
}

#[test]
fn round_trips_of_iperf_are_served() {
    if !has_iperf("round_trips_of_iperf_are_served") {
        return;
    }
    for bind in ["127.0.0.1", "::1"] {
        let server = Serving::start("iperf2", bind, Limits::default());
        for (flags, size, hold_ms) in [
            ("--bounceback -t 1", 100, 0.0),
            ("--bounceback=3 --bounceback-period=0.2 --bounceback-hold=5 -t 1", 100, 5.0),
            ("--bounceback --bounceback-period=0 --bounceback-no-quickack -l 200 -t 1", 200, 0.0),
        ] {
            let mut command = Command::new("iperf");
            command.args(["-c", bind, "-p", &server.port()]).args(flags.split_whitespace());
            if bind == "::1" {
                command.arg("-V");
            }
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let far = served(&server);
            assert_eq!(far.status, Status::Complete, "{flags}: {}", far.end_reason);
            let (count, mean_ms) = counted(&text);
            // Its last request may be due when its time is over: it does not count that.
            let (bytes, packets) = received(&far.flows[0]);
            assert!((count..=count + 1).contains(&packets), "{flags}: {packets} and {text}");
            assert_eq!(bytes, packets * size, "{flags}");
            assert!(mean_ms >= hold_ms && count > 0, "{flags}: {text}");
        }
    }
}

#[test]
fn servers_of_iperf_send_requests_back() {
    if !has_iperf("servers_of_iperf_send_requests_back") {
        return;
    }
    for host in ["127.0.0.1", "::1"] {
        for (options, hold_us, size) in [
            ("request = 100\nresponse = 100\npackets = 100", 0, 100),
            ("request = 1000\nresponse = 1000\nduration = \"500ms\"", 0, 1000),
            ("request = 100\nresponse = 100\nduration = \"1s\"\nrate = \"50pps/10\"", 0, 100),
            ("request = 100\nresponse = 100\npackets = 10", 3000, 100),
        ] {
            let server = Server::start(host, false);
            let near = test(server.address, options, hold_us).unwrap();
            assert_eq!(near.status, Status::Complete, "{options}");
            let done = transactions(&near);
            assert_eq!(done.failed, 0, "{options}");
            assert!(mean(&near) >= f64::from(hold_us) / 1e6, "{options}");
            let rows = server.rows(1);
            // It counts what it receives and what it sends.
            let theirs: u64 = rows[0][7].parse().unwrap();
            assert_eq!(theirs, 2 * size * done.completed, "{options}: {rows:?}");
        }
    }
}

/// The header of a request.
fn header(size: u32, hold_us: u32) -> Vec<u8> {
    let mut words = [0_u32; 15];
    (words[0], words[1], words[2], words[11]) = (0x0080_0000, size, 1, hold_us);
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// An acknowledgement of a stream's header.
fn ack() -> Vec<u8> {
    [2_u32, 28, 0, 0, 0, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn hostile_requests_are_refused_and_others_served() {
    let server = Serving::start("iperf2", "127.0.0.1", Limits::default());
    for (size, hold_us) in
        [(0, 0), (59, 0), (65_537, 0), (u32::MAX, 0), (100, 10_000_001), (100, u32::MAX)]
    {
        let mut client = TcpStream::connect(server.address).unwrap();
        client.write_all(&header(size, hold_us)).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        assert!(matches!(client.read(&mut [0; 8]), Ok(0) | Err(_)), "{size} {hold_us}");
        loop {
            let event = server.events.recv_timeout(LIMIT).unwrap();
            if let ServerEvent::Refused { reason, .. } = event {
                assert!(reason.contains("bounceback"));
                break;
            }
        }
    }
    // Requests that do not wait for their responses are answered one after the other.
    let mut client = TcpStream::connect(server.address).unwrap();
    let request = [header(100, 1000), vec![7; 40]].concat();
    client.write_all(&request.repeat(20)).unwrap();
    let mut responses = vec![0; 2000];
    client.read_exact(&mut responses).unwrap();
    for response in responses.chunks(100) {
        assert_eq!((&response[..28], &response[60..]), (&request[..28], &request[60..]));
    }
    drop(client);
    let far = served(&server);
    assert_eq!(received(&far.flows[0]), (2000, 20));
    // A client that is gone while its response is held frees its session when that is due.
    let mut client = TcpStream::connect(server.address).unwrap();
    client.write_all(&[header(100, 1_000_000), vec![7; 40]].concat()).unwrap();
    loop {
        if let ServerEvent::SessionOpened { .. } = server.events.recv_timeout(LIMIT).unwrap() {
            break;
        }
    }
    drop(client);
    served(&server);
    // One that resets the connection meanwhile, as with a response that it has not read, has not finished.
    let mut client = TcpStream::connect(server.address).unwrap();
    let request = [header(100, 300_000), vec![7; 40]].concat();
    client.write_all(&request.repeat(2)).unwrap();
    client.peek(&mut [0; 1]).unwrap();
    drop(client);
    assert_eq!(served(&server).status, Status::Partial);
    let near = test(server.address, "request = 100\nresponse = 100\npackets = 5", 0).unwrap();
    assert_eq!(transactions(&near).completed, 5);
}

#[test]
fn silence_between_two_bursts_ends_no_session() {
    let limits = Limits { silence_seconds: 0, ..Limits::default() };
    let server = Serving::start("iperf2", "127.0.0.1", limits);
    let mut client = TcpStream::connect(server.address).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    for _ in 0..2 {
        client.write_all(&[header(100, 0), vec![7; 40]].concat()).unwrap();
        client.read_exact(&mut [0; 100]).unwrap();
        std::thread::sleep(Duration::from_millis(1500));
    }
    drop(client);
    let far = served(&server);
    assert_eq!((far.status, received(&far.flows[0])), (Status::Complete, (200, 2)));
}

const LOADS: [Iperf2WorkingLoad; 3] = [
    Iperf2WorkingLoad { up: true, down: false, streams: 2 },
    Iperf2WorkingLoad { up: false, down: true, streams: 1 },
    Iperf2WorkingLoad { up: true, down: true, streams: 2 },
];

/// A test of round trips for 500 ms with a load.
fn with_load(to: SocketAddr, load: Iperf2WorkingLoad) -> Result<Record, Failure> {
    let text = "schema = \"weir.plan/1\"\npeer = \"iperf2\"\n[[connection]]\nshape = \"rr\"\n\
                request = 100\nresponse = 100\nduration = \"500ms\"\nrate = \"20pps/2\"";
    let plan = Plan { port: Some(to.port()), ..Plan::parse(text).unwrap() };
    let config = ClientConfig::new(plan, to.ip().to_string());
    let extras = Iperf2Extras { load: Some(load), ..Iperf2Extras::default() };
    weir_peers::run_iperf2(&config, &extras, &Stop::new(), &mut |_| {})
}

/// The same, complete.
fn loaded(to: SocketAddr, load: Iperf2WorkingLoad) -> Record {
    let record = with_load(to, load).unwrap();
    assert_eq!(record.status, Status::Complete, "{load:?}");
    let done = transactions(&record);
    assert!(done.failed == 0 && done.completed >= 2, "{load:?}: {done:?}");
    let ways = usize::from(load.up) + usize::from(load.down);
    assert_eq!(record.flows.len(), 1 + ways * load.streams as usize, "{load:?}");
    record
}

#[test]
fn a_server_that_reads_one_header_at_a_time_acknowledges_the_load() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || with_load(to, LOADS[0]));
    let mut streams = vec![];
    for is_bounce in [false, false, true] {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut flags = [0; 4];
        stream.read_exact(&mut flags).unwrap();
        assert_eq!(flags == header(0, 0)[..4], is_bounce, "{flags:x?}");
        if !is_bounce {
            stream.write_all(&ack()).unwrap();
        }
        streams.push(stream);
    }
    drop(streams);
    client.join().unwrap().unwrap_err();
}

#[test]
fn round_trips_have_a_load_alongside() {
    let server = Serving::start("iperf2", "127.0.0.1", Limits::default());
    for load in LOADS {
        let near = loaded(server.address, load);
        let far: Vec<Record> = (0..=load.streams).map(|_| served(&server)).collect();
        let is_bounce = |record: &&Record| record.plan.connections[0].shape == Shape::Rr;
        let bounces = far.iter().find(is_bounce).unwrap();
        assert_eq!(received(&bounces.flows[0]).1, transactions(&near).completed, "{load:?}");
        let streams: Vec<&Record> = far.iter().filter(|record| !is_bounce(record)).collect();
        let total = |records: &[&Record], forward: bool| -> u64 {
            let flows = records.iter().flat_map(|record| &record.flows);
            let flows = flows.filter(|flow| flow.transactions.is_none());
            let flows = flows.filter(|flow| (flow.direction == Direction::Forward) == forward);
            flows.map(|flow| if forward { sent(flow).0 } else { received(flow).0 }).sum()
        };
        assert_eq!(total(&[&near], true), total(&streams, false), "{load:?}");
        assert_eq!(total(&[&near], false), total(&streams, true), "{load:?}");
        assert_eq!((total(&[&near], true) > 0, total(&[&near], false) > 0), (load.up, load.down));
    }
}

#[test]
fn servers_of_iperf_serve_round_trips_with_a_load() {
    if !has_iperf("servers_of_iperf_serve_round_trips_with_a_load") {
        return;
    }
    for load in LOADS {
        let server = Server::start("127.0.0.1", false);
        let near = loaded(server.address, load);
        let both = usize::from(load.up) + usize::from(load.down);
        let rows = server.rows(1 + both * load.streams as usize);
        for flow in near.flows.iter().filter(|flow| flow.transactions.is_none()) {
            let bytes = match flow.direction {
                Direction::Forward => sent(flow).0,
                Direction::Reverse => received(flow).0,
            };
            assert!(rows.iter().any(|row| row[7] == bytes.to_string()), "{bytes}: {rows:?}");
        }
    }
}

#[test]
fn clients_of_iperf_have_their_load() {
    if !has_iperf("clients_of_iperf_have_their_load") {
        return;
    }
    let server = Serving::start("iperf2", "127.0.0.1", Limits::default());
    let port = server.port();
    for (load, streams, directions) in [("up,2", 2, 1), ("down", 1, 1), ("bidir", 1, 2)] {
        let mut command = Command::new("iperf");
        command.args(["-c", "127.0.0.1", "-p", &port, "--bounceback=2", "-t", "1"]);
        command.arg(format!("--bounceback-congest={load}")).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
        let all: Vec<Record> = (0..=streams).map(|_| served(&server)).collect();
        assert!(all.iter().all(|record| record.status == Status::Complete), "{load}");
        let is_bounce = |record: &&Record| record.plan.connections[0].shape == Shape::Rr;
        assert_eq!(all.iter().filter(is_bounce).count(), 1, "{load}");
        for record in all.iter().filter(|record| !is_bounce(record)) {
            assert_eq!(record.flows.len(), directions, "{load}");
        }
    }
}
