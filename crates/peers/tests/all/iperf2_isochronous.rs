//! iperf2's isochronous frames: Weir with Weir, and Weir with Debian's server.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use weir_model::plan::Plan;
use weir_model::record::{Record, Status};
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
