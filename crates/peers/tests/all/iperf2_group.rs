//! iperf2's server that joins a multicast group, on the loopback interface: Weir's client, Debian's, and one that asks for an answer.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use weir_model::record::{Record, Status};
use weir_peers::{CallBacks, Iperf2Group, Iperf2ServeOptions, ServeConfig};
use weir_traffic::{Limits, ServerEvent, Stop};

use crate::common::{Serving, config, received, run, sent, served};
use crate::iperf2::has_iperf;

/// A server that joins a group; port 0: one that the system chooses.
fn joined(group: &str, source: Option<&str>, port: u16) -> Serving {
    let group = Iperf2Group {
        address: group.parse().unwrap(),
        source: source.map(|source| source.parse().unwrap()),
        interface: Some("lo".into()),
    };
    let iperf2 = Iperf2ServeOptions { group: Some(group) };
    let call_backs = CallBacks::Listed("127.0.0.0/8".parse().unwrap());
    let config = config("127.0.0.1", port, Limits::default());
    Serving::of("iperf2", ServeConfig { iperf2, call_backs, ..config })
}

fn test(to: SocketAddr, options: &str) -> Record {
    let text = format!("bind = \"127.0.0.1\"\n[[connection]]\ntransport = \"udp\"\n{options}");
    run("iperf2", to, &text, Stop::new(), &mut |_| {}).unwrap()
}

#[test]
fn each_member_receives_all_of_each_sender() {
    let first = joined("239.77.1.1", None, 0);
    let to = first.address;
    let second = joined("239.77.1.1", None, to.port());
    let options = [
        "bytes = \"3M\"\nrate = \"200M\"",
        "packets = 300\nrate = \"2000pps\"\nheader = \"iperf2-32bit\"",
        "count = 2\npackets = 200\nrate = \"2000pps\"",
    ];
    for options in options {
        let near = test(to, options);
        assert_eq!(near.status, Status::Complete, "{options}");
        let mut here: Vec<_> = near.flows.iter().map(sent).collect();
        here.sort_unstable();
        for server in [&first, &second] {
            let records: Vec<Record> = near.flows.iter().map(|_| served(server)).collect();
            for record in &records {
                assert_eq!(record.status, Status::Complete, "{options}");
                let receiver = record.flows[0].receiver.as_ref().unwrap();
                let bad = [receiver.lost_packets, receiver.duplicate_packets];
                assert_eq!(bad, [Some(0); 2], "{options}");
            }
            let mut there: Vec<_> = records.iter().map(|r| received(&r.flows[0])).collect();
            there.sort_unstable();
            assert_eq!(there, here, "{options}");
        }
    }
}

#[test]
fn another_sender_does_not_reach_a_source_specific_member() {
    let server = joined("232.77.1.1", Some("127.0.0.2"), 0);
    test(server.address, "packets = 20\nrate = \"1000pps\"");
    let wanted = run(
        "iperf2",
        server.address,
        "bind = \"127.0.0.2\"\n[[connection]]\ntransport = \"udp\"\npackets = 30\nrate = \"1000pps\"",
        Stop::new(),
        &mut |_| {},
    );
    assert_eq!(received(&served(&server).flows[0]), sent(&wanted.unwrap().flows[0]));
}

/// A datagram of iperf 2.1.8 with a number, and the flags and upper flags of its header.
fn datagram(number: i32, flags: u32, upper: u16) -> Vec<u8> {
    let high = if number < 0 { -1 } else { 0 };
    let mut bytes = vec![0; 100];
    let words = [
        (0, number as u32),
        (12, high as u32),
        (16, flags),
        (20, 1),
        (24, 5001),
        (36, (-100_i32) as u32),
        (48, u32::from(upper) << 16),
    ];
    for (at, word) in words {
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

#[test]
fn no_sender_gets_an_answer() {
    const FLAGS: u32 = 0x4801_0098;
    // Data that awaits a report; -d and -r; -R and --full-duplex.
    let asking = [
        (FLAGS, 0, true),
        (FLAGS | 0x8000_0001, 0, false),
        (FLAGS | 0x8000_0000, 0, false),
        (FLAGS | 0x2400_0000, 0x0400, false),
        (FLAGS | 0x2400_0000, 0x0800, false),
    ];
    let server = joined("239.77.1.2", None, 0);
    for (flags, upper, is_served) in asking {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for number in [1, 2, 3, -4, -4, -4] {
            sender.send_to(&datagram(number, flags, upper), server.address).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        if is_served {
            assert_eq!(received(&served(&server).flows[0]), (400, 4), "{flags:x}");
            sender.send_to(&datagram(-4, flags, upper), server.address).unwrap();
        }
        sender.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let answer = sender.recv_from(&mut [0; 2000]);
        assert!(answer.is_err(), "{flags:x} {answer:?}");
    }
    // What is not served is dropped without an event.
    let left: Vec<ServerEvent> = server.events.try_iter().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn debians_client_reaches_a_member() {
    if !has_iperf("debians_client_reaches_a_member") {
        return;
    }
    let server = joined("239.77.1.3", None, 0);
    let port = server.port();
    let words =
        ["-c", "239.77.1.3", "-u", "-B", "127.0.0.1", "-p", &port, "-n", "100K", "-b", "20m"];
    let mut client = Command::new("iperf").args(words).stdout(Stdio::null()).spawn().unwrap();
    let record = served(&server);
    assert!(client.wait().unwrap().success());
    let receiver = record.flows[0].receiver.as_ref().unwrap();
    assert_eq!((record.status, receiver.lost_packets), (Status::Complete, Some(0)));
    // 100 KiB, and the datagram that announces the end.
    assert_eq!((receiver.packets, receiver.bytes), (71, (100 << 10) + 1470));
}
