//! Ethernet frames over the loopback interface. `cli` tests them between two hosts.

use crate::faults_common::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_model::plan::Plan;
use weir_model::record::Record;
use weir_model::units::Span;
use weir_net::ethernet::{
    EthernetOptions, EthernetSocket, FLOW_BYTES, FrameMatch, HEADER_BYTES, try_ethernet,
};
use weir_net::interface::interface;
use weir_traffic::{Failure, Limits, ServerConfig};
use weir_wire::ethernet::{ETHERTYPE, Endpoint, EthernetFrame, flow_bytes};

/// Runs connections of frames against a server.
fn test(server: &Server, connections: &[&str]) -> Result<Record, Failure> {
    let tables = connections
        .iter()
        .map(|fields| format!("[[connection]]\ntransport = \"ethernet\"\n{fields}\n"));
    let text = format!("schema = \"weir.plan/1\"\n{}", tables.collect::<String>());
    let plan = Plan { interval: Span(100_000_000), ..Plan::parse(&text).unwrap() };
    plan.check().unwrap();
    server.test(plan)
}

fn is_skipped(test: &str) -> bool {
    let Err(error) = try_ethernet() else { return false };
    println!("SKIPPED {test}: no packet sockets ({error})");
    true
}

#[test]
fn frames_of_all_sizes_and_directions_arrive_whole() {
    if is_skipped("frames_of_all_sizes_and_directions_arrive_whole") {
        return;
    }
    let server = Server::start(ServerConfig::default());
    let flows = [
        "packets = 250\nrate = \"500pps\"\nverify = true",
        "packets = 250\nrate = \"500pps\"\nverify = true\ndirection = \"reverse\"",
        "packets = 250\nrate = \"500pps\"\npayload = \"0\"",
        "packets = 250\nrate = \"500pps\"\npayload = \"1\"\ndirection = \"reverse\"",
        "packets = 250\nrate = \"500pps\"\npayload = \"uniform(min=20, max=9000)\"",
        "packets = 250\nrate = \"500pps\"\nheader = \"none\"\npayload = \"8972\"",
    ];
    let record = test(&server, &flows).unwrap();
    for flow in &record.flows {
        let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
        assert_eq!((s.packets, r.packets), (250, 250), "{}", flow.id);
        assert_eq!(s.bytes, r.bytes, "{}", flow.id);
        assert_eq!(r.corrupted_packets.unwrap_or(0), 0, "{}", flow.id);
        assert_eq!((flow.family, flow.source.as_str()), (None, "00:00:00:00:00:00"));
    }
    // Loopback carries 65 536 bytes, which no other link does.
    assert_eq!(record.flows[0].payload_bytes, 8992);
}

#[test]
fn requests_are_answered_in_frames() {
    if is_skipped("requests_are_answered_in_frames") {
        return;
    }
    let server = Server::start(ServerConfig::default());
    let shape = "duration = \"500ms\"\nshape = \"rr\"\nrequest = \"64\"\nresponse = \"1400\"\nrate = \"200pps\"";
    let record = test(&server, &[shape]).unwrap();
    let transactions = record.flows[0].transactions.as_ref().unwrap();
    assert_eq!((transactions.completed, transactions.failed), (100, 0), "{transactions:?}");
}

#[test]
fn an_unlimited_rate_loses_nothing_unaccounted() {
    if is_skipped("an_unlimited_rate_loses_nothing_unaccounted") {
        return;
    }
    let server = Server::start(ServerConfig::default());
    let record = test(&server, &["rate = \"0\"\npackets = 20000\npayload = \"100\""]).unwrap();
    let (s, r) = (record.flows[0].sender.as_ref(), record.flows[0].receiver.as_ref());
    let (s, r) = (s.unwrap(), r.unwrap());
    assert_eq!(s.packets, 20_000);
    assert_eq!(r.packets + r.lost_packets.unwrap(), 20_000);
    assert_eq!(r.socket_dropped_packets, r.lost_packets, "loopback loses at the socket alone");
}

#[test]
fn limits_and_sizes_are_refused_before_anything_starts() {
    if is_skipped("limits_and_sizes_are_refused_before_anything_starts") {
        return;
    }
    let server = {
        let limits = Limits { frame_flows: 2, ..Limits::default() };
        Server::start(ServerConfig { limits, ..ServerConfig::default() })
    };
    let refused = test(&server, &["packets = 9\ncount = 3"]).unwrap_err();
    assert_eq!(refused.error.code(), "peer-limit");
    assert!(test(&server, &["packets = 9\ncount = 2"]).is_ok());
    assert!(
        test(&server, &["packets = 9\ncount = 2"]).is_ok(),
        "ended sessions release their flows"
    );
}

/// Frames of a flow from its sender's address that the sender did not send.
#[test]
fn forged_frames_are_corrupted_and_those_of_other_flows_are_not_seen() {
    if is_skipped("forged_frames_are_corrupted_and_those_of_other_flows_are_not_seen") {
        return;
    }
    let loopback = interface("lo").unwrap();
    let options = EthernetOptions {
        interface: loopback.index,
        name: loopback.name,
        ethertype: ETHERTYPE,
        // All frames of Weir.
        receive: FrameMatch { bytes: [0; FLOW_BYTES], mask: [0; FLOW_BYTES] },
        send: None,
        send_buffer: None,
        receive_buffer: Some(1 << 20),
        priority: None,
        timestamps: false,
    };
    // A payload that no other test of this program has identifies the flow.
    const PAYLOAD: usize = 777;
    let ended = Arc::new(AtomicBool::new(false));
    let attacker = {
        let ended = ended.clone();
        std::thread::spawn(move || {
            let mut spy = EthernetSocket::open(&options).unwrap();
            let mut buffer = [0; HEADER_BYTES + PAYLOAD];
            let (source, destination) = loop {
                assert!(!ended.load(Ordering::Relaxed), "no frame was seen");
                match spy.recv_frame(&mut buffer).ok().map(|n| EthernetFrame::decode(&buffer[..n]))
                {
                    Some(Ok(frame)) if frame.payload.len() == PAYLOAD => {
                        break (frame.source, frame.destination);
                    }
                    Some(_) => {}
                    None => std::thread::yield_now(),
                }
            };
            let none = [0xff; FLOW_BYTES];
            for _ in 0..20 {
                spy.set_peer(none, flow_bytes(source, destination)).unwrap();
                spy.send(&[0; PAYLOAD]).unwrap();
                let other = |end: Endpoint| Endpoint { port: end.port.wrapping_add(1), ..end };
                for (from, to) in [
                    (other(source), destination),
                    (source, other(destination)),
                    (Endpoint { mac: [2; 6], ..source }, destination),
                    (source, Endpoint { mac: [0xff; 6], ..destination }),
                ] {
                    spy.set_peer(none, flow_bytes(from, to)).unwrap();
                    spy.send(&[0; PAYLOAD]).unwrap();
                }
            }
        })
    };
    let server = Server::start(ServerConfig::default());
    let record =
        test(&server, &[&format!("packets = 250\nrate = \"500pps\"\npayload = \"{PAYLOAD}\"")])
            .unwrap();
    ended.store(true, Ordering::Relaxed);
    attacker.join().unwrap();
    let r = record.flows[0].receiver.as_ref().unwrap();
    assert_eq!((r.packets, r.lost_packets), (250, Some(0)));
    assert_eq!(r.corrupted_packets, Some(20));
}
