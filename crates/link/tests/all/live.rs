//! Flows without sockets, between two namespaces: frames as they are on the link, and exact counts of them.
#![cfg(target_os = "linux")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use weir_link::live::{
    Clock, Counts, FlowAddresses, FlowCounter, FrameSender, MAX_FLOWS, ReceiveProgram, SendProgram,
    Template,
};
use weir_net::interface::{interface, sends_xdp_frames};
use weir_net::namespace::NetNamespace;
use weir_wire::ethernet::{Endpoint, EthernetFrame, flow_bytes};
use weir_wire::header::native::{HeaderLayout, decode, encode};
use weir_wire::header::{Decoded, HeaderFields, SendTime, TagKey};
use weir_wire::packet::{Packet, Transport};
use weir_wire::udp_frame::UdpFrame;

use crate::path::{Path, RawSocket, path};

const V4: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), IpAddr::V4(Ipv4Addr::new(198, 18, 0, 9))];
const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9)),
];
const FLOW: u32 = 3;

fn key() -> TagKey {
    TagKey::for_flow(&[7; 16], FLOW)
}

fn ends([source, destination]: [IpAddr; 2]) -> (SocketAddr, SocketAddr) {
    (SocketAddr::new(source, 4000), SocketAddr::new(destination, 9348))
}

/// The program that sends from host a.
fn sending(path: &Path) -> Arc<SendProgram> {
    let attach = || SendProgram::attach(("ea", interface("ea").unwrap().index)).unwrap();
    Arc::new(path.a.run_in(attach).unwrap())
}

/// A sender of host a with datagrams of `payload` bytes.
fn sender(
    path: &Path,
    program: &Arc<SendProgram>,
    addresses: [IpAddr; 2],
    payload: usize,
) -> FrameSender {
    let (near, far) = (&path.a, &path.m);
    let far = far.run_in(|| interface("A")).unwrap().unwrap();
    near.run_in(|| {
        let near = interface("ea").unwrap();
        let (source, destination) = ends(addresses);
        let headers = UdpFrame {
            source_mac: near.mac.unwrap(),
            destination_mac: far.mac.unwrap(),
            source,
            destination,
            tos: 0,
            ttl: None,
            flow_label: 0,
        };
        let fields = HeaderFields { flow: FLOW, ..HeaderFields::default() };
        let mut content = payload_of(&fields, payload);
        content[28..32].fill(0);
        let (frame, sum) = headers.encode(&content).unwrap();
        let sum = u32::from(sum.folded().to_be());
        program.add(Template { frame, sum, key: key().words() }).unwrap()
    })
    .unwrap()
}

/// Sends `count` frames from host a.
fn send(path: &Path, sender: &FrameSender, count: u32) {
    path.a
        .run_in(|| {
            let mut left = count;
            while left > 0 {
                left -= sender.send(left).unwrap();
            }
        })
        .unwrap();
}

fn program(path: &Path) -> Arc<ReceiveProgram> {
    let attach = || ReceiveProgram::attach(("A", interface("A").unwrap().index)).unwrap();
    Arc::new(path.m.run_in(attach).unwrap())
}

fn counter(program: &Arc<ReceiveProgram>, addresses: [IpAddr; 2]) -> FlowCounter {
    let (source, destination) = ends(addresses);
    program.add(FlowAddresses::Udp { source, destination }, key().words()).unwrap()
}

/// Both ends of a flow of frames without IP from host a.
fn link_ends(path: &Path) -> (Endpoint, Endpoint) {
    let mac =
        |host: &NetNamespace, name| host.run_in(|| interface(name).unwrap().mac.unwrap()).unwrap();
    let near = Endpoint { mac: mac(&path.a, "ea"), port: 4000 };
    (near, Endpoint { mac: mac(&path.m, "A"), port: 9348 })
}

/// A payload that begins with a data header.
fn payload_of(fields: &HeaderFields, length: usize) -> Vec<u8> {
    let mut content: Vec<u8> = (0..length).map(|i| (i * 31 + 7) as u8).collect();
    encode(HeaderLayout::Full32, &key(), fields, &mut content);
    content
}

/// A frame from host a with the number `sequence`, as a sender of another implementation writes it.
fn frame(path: &Path, key: &TagKey, port: u16, sequence: u64) -> Vec<u8> {
    let (source, mut destination) = ends(V4);
    destination.set_port(port);
    let mac = |host: &NetNamespace, name: &str| {
        host.run_in(|| interface(name).unwrap().mac.unwrap()).unwrap()
    };
    let headers = UdpFrame {
        source_mac: mac(&path.a, "ea"),
        destination_mac: mac(&path.m, "A"),
        source,
        destination,
        tos: 0,
        ttl: None,
        flow_label: 0,
    };
    let send_time_ns = weir_net::clock::Clock::System.monotonic_ns();
    let fields = HeaderFields { sequence, send_time_ns, flow: FLOW, ..HeaderFields::default() };
    let mut payload = [7; 100];
    encode(HeaderLayout::Full32, key, &fields, &mut payload);
    headers.encode(&payload).unwrap().0
}

#[test]
fn frames_have_valid_headers_numbers_times_and_checksums() {
    let test = "frames_have_valid_headers_numbers_times_and_checksums";
    let Some(path) = path(test, 1500) else { return };
    // A veth accepts frames of XDP if its other end has a program.
    let _program = program(&path);
    let sending = sending(&path);
    let raw = RawSocket::open(&path.m, "A");
    let now = || weir_net::clock::Clock::System.monotonic_ns();
    let mut capture = pcap_header();
    for (addresses, payload) in [(V4, 32), (V4, 64), (V4, 1472), (V6, 33), (V6, 512), (V6, 1452)] {
        let sender = sender(&path, &sending, addresses, payload);
        let before = now();
        send(&path, &sender, 2);
        send(&path, &sender, 3);
        let after = now();
        let mut last = before;
        for number in 0..5 {
            let bytes = loop {
                let bytes = raw.recv().expect("a frame");
                if Packet::from_ethernet(&bytes).unwrap().ports() == Some((4000, 9348)) {
                    break bytes;
                }
            };
            let packet = Packet::from_ethernet(&bytes).unwrap();
            assert_eq!(packet.transport_checksum_ok(), Some(true), "{addresses:?} {payload}");
            assert_eq!(packet.addresses(), Some((addresses[0], addresses[1])));
            let Transport::Udp(udp) = packet.transport else { panic!("no UDP: {packet:?}") };
            assert_eq!(udp.payload().len(), payload);
            let header = decode(HeaderLayout::Full32, &key(), udp.payload()).unwrap();
            let Decoded { sequence, send_time: Some(SendTime::Full(sent)), .. } = header else {
                panic!("{header:?}");
            };
            assert_eq!((sequence, header.flow), (number, Some(FLOW)));
            assert!((last..=after).contains(&sent), "{last} {sent} {after}");
            last = sent;
            assert!(udp.payload()[32..].iter().zip(32..).all(|(b, i)| *b == (i * 31 + 7) as u8));
            capture.extend(pcap_record(&bytes));
        }
    }
    wireshark_finds_no_fault(test, &capture);
}

#[test]
fn frames_without_ip_are_sent_and_counted_by_their_flow() {
    let test = "frames_without_ip_are_sent_and_counted_by_their_flow";
    let Some(path) = path(test, 1500) else { return };
    let program = program(&path);
    let sending = sending(&path);
    let (near, far) = link_ends(&path);
    let add = |length| {
        let fields = HeaderFields { flow: FLOW, ..HeaderFields::default() };
        let mut payload = payload_of(&fields, length);
        payload[28..32].fill(0);
        let frame = EthernetFrame { source: near, destination: far, payload: &payload }.encode();
        sending.add(Template { frame, sum: 0, key: key().words() }).unwrap()
    };
    let raw = RawSocket::open(&path.m, "A");
    for length in [32, 64, 1492] {
        let sender = add(length);
        send(&path, &sender, 3);
        for number in 0..3 {
            let bytes = loop {
                let bytes = raw.recv().expect("a frame");
                if bytes[12..14] == [0x88, 0xb5] {
                    break bytes;
                }
            };
            let frame = EthernetFrame::decode(&bytes).unwrap();
            assert_eq!((frame.source, frame.destination), (near, far));
            assert_eq!((frame.payload.len(), bytes.len()), (length, 22 + length));
            let header = decode(HeaderLayout::Full32, &key(), frame.payload).unwrap();
            assert_eq!((header.sequence, header.flow), (number, Some(FLOW)));
            assert!(frame.payload[32..].iter().zip(32..).all(|(b, i)| *b == (i * 31 + 7) as u8));
        }
    }
    let flow = FlowAddresses::Ethernet(flow_bytes(near, far));
    let counter = program.add(flow, key().words()).unwrap();
    let sender = add(64);
    send(&path, &sender, 100);
    let counts = arrived(&counter, 100);
    assert_eq!((counts.packets, counts.bytes, counts.next), (100, 6400, 100));
    // Padding does not count; a length beyond the frame, another flow and another tag reach the stack.
    let from = RawSocket::open(&path.a, "ea");
    let fields = HeaderFields { sequence: 100, flow: FLOW, ..HeaderFields::default() };
    let payload = payload_of(&fields, 32);
    let good = EthernetFrame { source: near, destination: far, payload: &payload }.encode();
    from.send(&[&good[..], &[0; 6]].concat()).unwrap();
    assert_eq!(arrived(&counter, 101).bytes, 6432);
    for at in [19, 20, 21, 53] {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        from.send(&bad).unwrap();
        while raw.recv().expect("the frame") != bad {}
    }
    assert_eq!(counter.read().unwrap().now.packets, 101);
}

/// The header of a capture of Ethernet frames.
fn pcap_header() -> Vec<u8> {
    [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65_535, 1]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect()
}

fn pcap_record(frame: &[u8]) -> Vec<u8> {
    let length = frame.len() as u32;
    let mut record: Vec<u8> =
        [1, 0, length, length].iter().flat_map(|word| word.to_ne_bytes()).collect();
    record.extend(frame);
    record
}

/// Wireshark's own computation of the checksums of all 30 datagrams.
fn wireshark_finds_no_fault(test: &str, capture: &[u8]) {
    let file = tempfile();
    std::fs::write(&file, capture).unwrap();
    let checks = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"];
    let fields = ["-T", "fields", "-e", "udp.checksum.status", "-e", "ip.checksum.status"];
    let mut tshark = std::process::Command::new("tshark");
    tshark.arg("-r").arg(&file).args(checks).args(fields);
    let output = tshark.output();
    std::fs::remove_file(&file).unwrap();
    let Ok(output) = output else {
        assert!(std::env::var_os("CI").is_none(), "{test}: tshark is missing");
        return eprintln!("SKIPPED a part of {test}: tshark is missing");
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.split('\t').collect::<Vec<_>>()).collect();
    assert_eq!(lines.len(), 30, "{text}");
    // 1: good. There is no checksum in IPv6.
    assert!(lines.iter().all(|l| l[0] == "1" && (l[1] == "1" || l[1].is_empty())), "{text}");
}

fn tempfile() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("weir-live-{}.pcap", std::process::id()))
}

#[test]
fn every_datagram_is_counted_once() {
    let Some(path) = path("every_datagram_is_counted_once", 1500) else { return };
    let program = program(&path);
    let sending = sending(&path);
    for (addresses, payload) in [(V4, 64), (V6, 1000)] {
        let counter = counter(&program, addresses);
        counter.state(Clock { offset_ns: Some(0), boundary_ns: u64::MAX }).unwrap();
        let sender = sender(&path, &sending, addresses, payload);
        // Many times the entries of the veth's queue, which drops what it has no room for.
        for count in [1, 200, 30_000] {
            send(&path, &sender, count);
        }
        let counts = arrived(&counter, 30_201);
        let Counts { packets, bytes, duplicates, late, reordered, next, delays, .. } = counts;
        assert_eq!((packets, bytes, next), (30_201, 30_201 * payload as u64, 30_201));
        assert_eq!((duplicates, late, reordered, delays), (0, 0, 0, 30_201));
        assert!(counts.first_ns < counts.last_ns, "{counts:?}");
        let measured = counter.delays().unwrap().unwrap();
        let cells = measured.above.iter().chain(&measured.below).map(|(_, count)| count);
        assert_eq!(cells.sum::<u64>(), 30_201);
        assert!(0 < measured.min_ns && measured.min_ns <= measured.max_ns, "{measured:?}");
        let mean = counts.delay_sum_ns / 30_201;
        assert!((measured.min_ns..=measured.max_ns).contains(&mean), "{mean} {measured:?}");
    }
}

/// Waits until a flow has this many unique datagrams.
fn arrived(counter: &FlowCounter, packets: u64) -> Counts {
    let begun = std::time::Instant::now();
    loop {
        let counts = counter.read().unwrap().now;
        if counts.packets >= packets {
            return counts;
        }
        assert!(begun.elapsed().as_secs() < 60, "{packets}: {counts:?}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn order_copies_gaps_and_damage_are_counted_exactly() {
    let Some(path) = path("order_copies_gaps_and_damage_are_counted_exactly", 1500) else { return };
    let program = program(&path);
    let counter = counter(&program, V4);
    let (near, far) = (RawSocket::open(&path.a, "ea"), RawSocket::open(&path.m, "A"));
    let put = |number| near.send(&frame(&path, &key(), 9348, number)).unwrap();
    // 3 and 1 are late by order, 2 is a copy; 262 144 numbers later their word is in use again.
    for number in [0, 2, 4, 3, 1, 2, 262_145, 1, 262_147, 262_146] {
        put(number);
    }
    let counts = arrived(&counter, 8);
    let Counts { packets, duplicates, late, reordered, next, .. } = counts;
    assert_eq!((packets, duplicates, late, reordered, next), (8, 1, 1, 3, 262_148));
    assert_eq!((counts.bytes, counts.repeated_bytes), (800, 200));
    assert_eq!(counts.delays, 0, "the clocks are not related");
    // A forged tag and another port reach the stack, and change no count.
    let stranger = TagKey::for_flow(&[8; 16], FLOW);
    for (key, port) in [(&stranger, 9348), (&key(), 9349)] {
        let sent = frame(&path, key, port, 500_000);
        near.send(&sent).unwrap();
        while far.recv().expect("the frame") != sent {}
    }
    assert_eq!(counter.read().unwrap().now, counts);
    // After the flow is gone, so does its own data.
    drop(counter);
    let sent = frame(&path, &key(), 9348, 6);
    near.send(&sent).unwrap();
    while far.recv().expect("the frame") != sent {}
}

#[test]
fn counts_at_the_end_of_an_interval_are_kept() {
    let Some(path) = path("counts_at_the_end_of_an_interval_are_kept", 1500) else { return };
    let program = program(&path);
    let counter = counter(&program, V4);
    let sender = sender(&path, &sending(&path), V4, 64);
    send(&path, &sender, 10);
    let first = arrived(&counter, 10);
    assert_eq!(counter.read().unwrap().at_boundary, None);
    // The end is past: the next datagram is after it.
    let clock = Clock { offset_ns: None, boundary_ns: first.last_ns + 1 };
    counter.state(clock).unwrap();
    assert_eq!(counter.read().unwrap().at_boundary, None);
    send(&path, &sender, 5);
    arrived(&counter, 15);
    send(&path, &sender, 5);
    arrived(&counter, 20);
    assert_eq!(counter.read().unwrap().at_boundary, Some(first));
    counter.state(Clock { boundary_ns: u64::MAX, ..clock }).unwrap();
    assert_eq!(counter.read().unwrap().at_boundary, None);
}

#[test]
fn a_veth_sends_frames_of_xdp_once_its_other_end_has_a_program() {
    let test = "a_veth_sends_frames_of_xdp_once_its_other_end_has_a_program";
    let Some(path) = path(test, 1500) else { return };
    let sends = || {
        let read = || sends_xdp_frames(interface("ea").unwrap().index).unwrap();
        path.a.run_in(read).unwrap()
    };
    if sends().is_none() {
        return eprintln!("SKIPPED {test}: the kernel does not report features of XDP");
    }
    assert_eq!(sends(), Some(false));
    let _program = program(&path);
    assert_eq!(sends(), Some(true));
}

#[test]
fn an_interface_has_one_program_and_flows_have_a_limit() {
    let Some(path) = path("an_interface_has_one_program_and_flows_have_a_limit", 1500) else {
        return;
    };
    let program = program(&path);
    let again = || ReceiveProgram::attach(("A", interface("A").unwrap().index)).map(drop);
    let refused = path.m.run_in(again).unwrap().unwrap_err();
    assert!(matches!(refused, weir_link::Error::Refused { .. }), "{refused}");
    let (source, destination) = ends(V4);
    let add = |port| {
        let source = SocketAddr::new(source.ip(), port);
        program.add(FlowAddresses::Udp { source, destination }, key().words())
    };
    let mut flows: Vec<_> = (0..MAX_FLOWS as u16).map(|port| add(port).unwrap()).collect();
    assert!(matches!(add(1000), Err(weir_link::Error::Refused { .. })));
    flows.pop();
    assert!(add(1000).is_ok(), "the number of a flow that is gone is free");
    drop(flows);
    drop(program);
    // A process that another test starts may have a copy of the descriptor until it runs its program.
    let begun = std::time::Instant::now();
    while path.m.run_in(again).unwrap().is_err() {
        assert!(begun.elapsed().as_secs() < 60, "it goes away with its descriptor");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
