//! iperf2's isochronous frames: Weir with Weir, and Weir with Debian's server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use weir_model::plan::{Direction, Plan};
use weir_model::record::{Flow, Record, Status};
use weir_model::units::Span;
use weir_peers::{Iperf2Extras, Iperf2Isochronous};
use weir_traffic::{ClientConfig, Failure, Limits, Stop};

use crate::common::{Serving, received, sent, served};
use crate::iperf2::{Server, has_iperf};

/// Ten frames a second, of 5000 bytes in the mean.
const FRAMES: Iperf2Isochronous =
    Iperf2Isochronous { frames_per_second: 10.0, mean: 400e3, deviation: 80e3 };

fn test(to: SocketAddr, options: &str) -> Result<Record, Failure> {
    let text = format!("schema = \"weir.plan/1\"\npeer = \"iperf2\"\n[[connection]]\n{options}");
    let plan = Plan::parse(&text).unwrap();
    let plan = Plan { port: Some(to.port()), interval: Span(100_000_000), ..plan };
    let config = ClientConfig::new(plan, to.ip().to_string());
    let extras = Iperf2Extras { isochronous: Some(FRAMES), ..Iperf2Extras::default() };
    weir_peers::run_iperf2(&config, &extras, &Stop::new(), &mut |_| {})
}

/// What a test of one second may have: 10 or 11 frames.
fn check(record: &Record, options: &str) {
    assert_eq!(record.status, Status::Complete, "{options}");
    let (bytes, packets) = sent(&record.flows[0]);
    assert!((35_000..=75_000).contains(&bytes), "{options}: {bytes}");
    let most = if options.contains("udp") { 10..=70 } else { 10..=12 };
    assert!(most.contains(&packets), "{options}: {packets}");
}

const OPTIONS: [&str; 2] =
    ["duration = \"1s\"", "transport = \"udp\"\nduration = \"1s\"\npayload = 1450"];

#[test]
fn frames_reach_weirs_server() {
    for bind in ["127.0.0.1", "::1"] {
        let server = Serving::start("iperf2", bind, Limits::default());
        for options in OPTIONS {
            let near = test(server.address, options).unwrap();
            check(&near, options);
            let far = served(&server);
            assert_eq!(far.status, Status::Complete);
            assert_eq!(received(&far.flows[0]).0, sent(&near.flows[0]).0, "{options}");
            if options.contains("udp") {
                assert_eq!(received(&far.flows[0]), sent(&near.flows[0]));
            }
        }
    }
}

#[test]
fn frames_reach_iperfs_server() {
    if !has_iperf("frames_reach_iperfs_server") {
        return;
    }
    for host in ["127.0.0.1", "::1"] {
        for options in OPTIONS {
            let server = Server::start(host, options.contains("udp"));
            let near = test(server.address, options).unwrap();
            check(&near, options);
            let rows = server.rows(1);
            let theirs: u64 = rows[0][7].parse().unwrap();
            assert_eq!(theirs, sent(&near.flows[0]).0, "{options}: {rows:?}");
        }
    }
}

/// The flow of a record in a direction.
fn of(record: &Record, direction: Direction) -> Option<&Flow> {
    record.flows.iter().find(|flow| flow.direction == direction)
}

/// Options of a test in which the server sends frames as well, or alone.
fn back(options: &str, both: bool) -> String {
    let reverse = format!("{options}\ndirection = \"reverse\"");
    if both { format!("{options}\n[[connection]]\n{reverse}") } else { reverse }
}

#[test]
fn frames_come_from_weirs_server() {
    for bind in ["127.0.0.1", "::1"] {
        let server = Serving::start("iperf2", bind, Limits::default());
        for both in [false, true] {
            let near = test(server.address, &back(OPTIONS[0], both)).unwrap();
            let far = served(&server);
            assert_eq!((near.status, far.status), (Status::Complete, Status::Complete));
            let sender = of(&far, Direction::Forward).unwrap();
            let (bytes, frames) = sent(sender);
            assert!((10..=12).contains(&frames) && (35_000..75_000).contains(&bytes), "{bytes}");
            assert_eq!(received(of(&near, Direction::Reverse).unwrap()).0, bytes);
            assert_eq!(near.flows.len(), if both { 2 } else { 1 });
            if both {
                let here = sent(of(&near, Direction::Forward).unwrap()).0;
                assert_eq!(received(of(&far, Direction::Reverse).unwrap()).0, here);
            }
        }
    }
}

#[test]
fn frames_come_from_iperfs_server() {
    if !has_iperf("frames_come_from_iperfs_server") {
        return;
    }
    for host in ["127.0.0.1", "::1"] {
        for options in OPTIONS {
            for both in [false, true] {
                let is_udp = options.contains("udp");
                let server = Server::start(host, is_udp);
                let near = test(server.address, &back(options, both)).unwrap();
                assert_eq!(near.status, Status::Complete, "{options} {both}");
                let (bytes, _) = received(of(&near, Direction::Reverse).unwrap());
                assert!((35_000..80_000).contains(&bytes), "{options} {both}: {bytes}");
                let forward = of(&near, Direction::Forward).map(|flow| sent(flow).0);
                let rows = server.rows(if both { 2 } else { 1 });
                let theirs: Vec<u64> = rows.iter().map(|row| row[7].parse().unwrap()).collect();
                if !is_udp {
                    assert!(theirs.contains(&bytes), "{theirs:?} {bytes}");
                }
                if let Some(forward) = forward {
                    assert!(theirs.contains(&forward), "{theirs:?} {forward}");
                }
            }
        }
    }
}

#[test]
fn a_server_sends_the_frames_that_a_header_asks_for() {
    // `iperf -c HOST --isochronous=10:400k,80k -R -t 1` (2.1.8).
    let mut header = [0; 112];
    let words = [
        (0, 0x4401_00e0),
        (4, 1),
        (8, 5001),
        (20, (-100_i32) as u32),
        (32, 0x0401_0000),
        (80, 10),
        (88, 400_000),
        (96, 80_000),
    ];
    for (at, word) in words {
        header[at..at + 4].copy_from_slice(&u32::to_be_bytes(word));
    }
    let server = Serving::start("iperf2", "127.0.0.1", Limits::default());
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(&header).unwrap();
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).unwrap();
    let (mut rest, mut frames, mut lengths) = (&bytes[..], 0, vec![]);
    while !rest.is_empty() {
        let word = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
        frames += 1;
        assert_eq!((word(40), word(44)), (100_000, frames));
        assert!(word(12) > 1_600_000_000 && (word(20), word(24)) >= (word(12), word(16)));
        lengths.push(word(48));
        rest = &rest[word(48) as usize..];
    }
    assert!((10..=11).contains(&frames), "{frames}");
    lengths.dedup();
    assert!(lengths.len() > 3, "the sizes vary: {lengths:?}");
    assert_eq!(sent(&served(&server).flows[0]), (bytes.len() as u64, frames.into()));
}

#[test]
fn every_datagram_states_its_frame() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let to = socket.local_addr().unwrap();
    // Nothing reports what arrived, so that the test fails at its end.
    let client = std::thread::spawn(move || test(to, OPTIONS[1]).is_err());
    let mut datagram = [0; 2000];
    let mut frames = vec![];
    loop {
        let length = socket.recv(&mut datagram).unwrap();
        let word = |at: usize| i32::from_be_bytes(datagram[at..at + 4].try_into().unwrap());
        assert_eq!((word(76), word(92)), (100_000, word(88) + 1), "{}", word(0));
        assert!(word(80) > 1_600_000_000);
        let left = usize::try_from(word(100)).unwrap();
        assert!(length == 1450 || length == left, "{length} of {left}");
        frames.push(word(92));
        if word(0) < 0 {
            break;
        }
    }
    assert!(frames.is_sorted() && frames[0] == 1 && frames.contains(&10), "{frames:?}");
    assert!(client.join().unwrap());
}
