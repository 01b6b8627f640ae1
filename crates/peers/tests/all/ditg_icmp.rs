//! D-ITG's flows of ICMP: Weir with Weir, with Debian's ITGSend and ITGRecv, and with messages that no client announced.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_model::record::Status;
use weir_net::udp::{IcmpSocket, UdpOptions, UdpSocket};
use weir_traffic::Limits;

use crate::common::{Serving, received, sent, served};
use crate::ditg::{
    ItgRecv, accepted, agreed, alone, announcement, answer, has_ditg, itgsend, signalling, test,
};

/// A raw socket that sends from one address to another; `None` without the permission.
fn raw(from: &str, to: &str) -> Option<UdpSocket> {
    let to: SocketAddr = SocketAddr::new(to.parse().unwrap(), 0);
    let bind = SocketAddr::new(from.parse().unwrap(), 0);
    let options = UdpOptions { bind, icmp: Some(IcmpSocket::Sender), ..UdpOptions::connect(to) };
    UdpSocket::open(&options).ok()
}

/// ITGRecv counts the messages to all addresses of this host, so that these tests run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// The turn of a test; `None` without the permission.
fn turn(name: &str) -> Option<MutexGuard<'static, ()>> {
    if raw("127.0.0.1", "127.0.0.1").is_none() {
        println!("SKIPPED {name}: no permission for raw ICMP sockets");
        return None;
    }
    Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn two_weirs_agree_on_messages_of_icmp() {
    let Some(_turn) = turn("two_weirs_agree_on_messages_of_icmp") else { return };
    for bind in ["127.0.0.31", "::1"] {
        let _alone = alone(bind);
        let server = Serving::start("ditg", bind, Limits::default());
        for (connections, packets) in [
            ("packets = 200\nrate = \"2000pps\"", 200),
            ("packets = 200\nrate = \"2000pps\"\nheader = \"ditg-short\"", 200),
            ("packets = 200\nrate = \"2000pps\"\nheader = \"none\"", 200),
            ("packets = 200\nrate = \"2000pps\"\npayload = \"20..1400\"", 200),
            ("packets = 50\nrate = \"1000pps\"\npayload = 9001", 50),
            ("packets = 100\nrate = \"1000pps\"\ncount = 3", 100),
        ] {
            for (near, far) in agreed(&server, "icmp", connections, packets) {
                assert!(near.transactions.is_none() && far.transactions.is_none());
            }
        }
    }
}

#[test]
fn itgsend_is_served_over_icmp() {
    let name = "itgsend_is_served_over_icmp";
    let Some(_turn) = turn(name).filter(|_| has_ditg(name)) else { return };
    for bind in ["127.0.0.32", "::1"] {
        let _alone = alone(bind);
        let server = Serving::start("ditg", bind, Limits::default());
        for flags in [
            "-T ICMP -C 500 -c 200 -z 300",
            "-T ICMP -C 500 -u 100 900 -z 300",
            "-T ICMP -C 500 -c 64 -z 300 -p 1",
            "-T ICMP -C 500 -c 64 -z 300 -p 2",
            "-T ICMP -C 500 -c 64 -z 300 -rp 9100 -b 16",
            "-T ICMP -C 500 -c 64 -z 100\n-T ICMP -C 400 -c 90 -z 80\n-T UDP -C 300 -c 70 -z 60",
        ] {
            let theirs = itgsend(&server, "icmp", flags);
            let far = served(&server);
            assert_eq!(far.status, Status::Complete, "{flags}");
            assert_eq!(far.flows.len(), theirs.len(), "{flags}");
            for flow in &far.flows {
                let number: u32 = flow.name.strip_prefix("flow-").unwrap().parse().unwrap();
                let (_, packets, bytes) = theirs.iter().find(|flow| flow.0 == number).unwrap();
                assert_eq!(received(flow), (*bytes, *packets), "{bind} {flags} {number}");
            }
        }
    }
}

#[test]
fn itgrecv_receives_messages_of_icmp() {
    let name = "itgrecv_receives_messages_of_icmp";
    let Some(_turn) = turn(name).filter(|_| has_ditg(name)) else { return };
    // On the host itself, ITGRecv counts the system's replies to what arrives over IPv4 as well.
    for (host, port, times) in [("127.0.0.33", 19_033, 2), ("::1", 19_034, 1)] {
        let _alone = alone(host);
        for connections in [
            "packets = 200\nrate = \"1000pps\"",
            "packets = 200\nrate = \"1000pps\"\npayload = \"20..1400\"\nspacing = \"exponential\"",
        ] {
            let text = format!("[[connection]]\ntransport = \"icmp\"\n{connections}");
            let attempt = || {
                let receiver = ItgRecv::start(host, port);
                let record = test(receiver.address, &text).unwrap();
                assert_eq!(record.status, Status::Complete, "{connections}");
                let (bytes, packets) = sent(&record.flows[0]);
                let theirs = receiver.end();
                (theirs, (record.flows[0].id, packets * times, bytes * times))
            };
            // On a busy host ITGRecv ends before it has read all that had arrived. Errors of other tests are flows of its log, too.
            let agreed = (0..5).map(|_| attempt()).find(|(theirs, ours)| theirs.contains(ours));
            assert!(agreed.is_some(), "{host} {connections}: the ends differ in each of 5 tests");
        }
    }
}

/// Message `number` of a flow, with these bytes in its ICMP header.
fn message(kind: u8, code: u8, identity: [u8; 4], flow: u32, number: u32) -> Vec<u8> {
    let words = [flow, number, 1000, 5];
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(identity);
    bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    let sum: u32 =
        bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum >> 16) + (sum & 0xffff);
    let checksum = !((sum >> 16) as u16).wrapping_add(sum as u16);
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

#[test]
fn only_the_messages_of_an_announced_flow_count() {
    let Some(_turn) = turn("only_the_messages_of_an_announced_flow_count") else { return };
    let server = Serving::start("ditg", "127.0.0.34", Limits::default());
    let mut stream = signalling(&server);
    stream.write_all(&announcement(3, 1, 7, 0)).unwrap();
    assert_eq!(accepted(&mut stream, 7), 8999);
    let from = stream.local_addr().unwrap().ip().to_string();
    let client = raw(&from, "127.0.0.34").unwrap();
    let forger = raw("127.0.0.99", "127.0.0.34").unwrap();
    let elsewhere = raw(&from, "127.0.0.35").unwrap();
    const NONE: [u8; 4] = [0; 4];
    for number in 1..=5 {
        for other in [
            // Replies, errors, another code, the identifier of ping, another flow.
            message(0, 0, NONE, 7, number),
            message(3, 0, NONE, 7, number),
            message(8, 1, NONE, 7, number),
            message(8, 0, [0, 1, 0, 0], 7, number),
            message(8, 0, NONE, 8, number),
            message(8, 0, NONE, 7, number)[..10].to_vec(),
        ] {
            client.send(&other).unwrap();
        }
        let own = message(8, 0, NONE, 7, number);
        for socket in [&client, &forger, &elsewhere] {
            socket.send(&own).unwrap();
        }
    }
    stream.write_all(&[4, 0, 0, 0, 7, 11]).unwrap();
    assert_eq!(answer::<6>(&mut stream), [6, 0, 0, 0, 7, 7]);
    let far = served(&server);
    assert_eq!((far.status, received(&far.flows[0])), (Status::Complete, (80, 5)));
}

#[test]
fn flows_whose_messages_are_alike_are_refused() {
    let Some(_turn) = turn("flows_whose_messages_are_alike_are_refused") else { return };
    let server = Serving::start("ditg", "127.0.0.36", Limits::default());
    let without_number = |flow| {
        let mut bytes = announcement(3, 1, flow, 0);
        bytes[10] = 2;
        bytes
    };
    let mut first = signalling(&server);
    first.write_all(&announcement(3, 1, 7, 0)).unwrap();
    accepted(&mut first, 7);
    let mut second = signalling(&server);
    for (request, flow) in [(announcement(3, 1, 7, 0), 7), (without_number(9), 9)] {
        second.write_all(&request).unwrap();
        assert_eq!(answer::<5>(&mut second), [15, 0, 0, 0, flow]);
    }
    second.write_all(&announcement(3, 1, 8, 0)).unwrap();
    accepted(&mut second, 8);
    drop((first, second));
    for _ in 0..2 {
        served(&server);
    }
    let mut third = signalling(&server);
    third.write_all(&without_number(7)).unwrap();
    accepted(&mut third, 7);
}
