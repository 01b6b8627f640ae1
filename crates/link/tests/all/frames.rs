//! One suite of frames over every link: each frame arrives at the other side byte for byte.
#![cfg(target_os = "linux")]

use crate::path;
use path::{Forwarder, Path, RawSocket, path, path_with_queues};
use weir_link::{LinkOptions, Mode, Slabs, memory};
use weir_net::clock::Clock;
use weir_net::counters::protocol_counters;
use weir_net::interface::set_offload;
use weir_net::namespace::NetNamespace;
use weir_wire::checksum::Sum;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const MODES: [Mode; 3] = [Mode::Packet, Mode::XdpNative, Mode::XdpGeneric];
/// Source address of this test's frames.
const SOURCE: [u8; 6] = [2, b'W', b'e', b'i', b'r', 1];
const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];

/// Waits for a condition; the time limit only ends a broken run.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// An Ethernet frame with tags, EtherType and payload, to a station that does not exist here.
fn ethernet(tags: &[&[u8]], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 9], &SOURCE[..], &tags.concat(), &kind.to_be_bytes(), payload].concat()
}

fn ipv4(options: &[u8], fragment: u16, number: u8, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut ip = vec![0x40 | (header / 4) as u8, 0xb8];
    ip.extend((header as u16 + payload.len() as u16).to_be_bytes());
    ip.extend([0x12, 0x34]);
    ip.extend(fragment.to_be_bytes());
    ip.extend([64, number, 0, 0]);
    ip.extend([V4[0].octets(), V4[1].octets()].concat());
    ip.extend(options);
    let sum = Sum::new().add_bytes(&ip).checksum().to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    ip.extend(payload);
    ip
}

fn ipv6(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x6b, 0x81, 0x23, 0x45];
    ip.extend((payload.len() as u16).to_be_bytes());
    ip.extend([first, 255]);
    ip.extend([v6(1).octets(), v6(2).octets()].concat());
    ip.extend(payload);
    ip
}

fn v6(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, host)
}

fn udp(payload: &[u8], pseudo: Sum) -> Vec<u8> {
    let mut udp = vec![0x24, 0x83, 0x13, 0x88];
    udp.extend((8 + payload.len() as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    let sum = pseudo.add_bytes(&udp).udp_checksum().to_be_bytes();
    udp[6..8].copy_from_slice(&sum);
    udp
}

fn udp4(payload: &[u8]) -> Vec<u8> {
    udp(payload, Sum::new().add_pseudo_v4(V4[0], V4[1], 17, 8 + payload.len() as u16))
}

fn udp6(payload: &[u8]) -> Vec<u8> {
    udp(payload, Sum::new().add_pseudo_v6(v6(1), v6(2), 17, 8 + payload.len() as u32))
}

/// The suite: name and frame. `mtu` is the longest payload.
fn suite(mtu: usize) -> Vec<(&'static str, Vec<u8>)> {
    let vlan: &[u8] = &[0x81, 0x00, 0xb0, 0x07];
    let service: &[u8] = &[0x88, 0xa8, 0x20, 0x64];
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &SOURCE, &[198, 18, 0, 7], &[0; 6], &[198, 18, 0, 8]]
        .concat();
    let tcp = |flags: u8, data: &[u8]| {
        let mut tcp = vec![
            0x24, 0x83, 0x00, 0x50, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0,
        ];
        tcp.extend(data);
        let sum =
            Sum::new().add_pseudo_v4(V4[0], V4[1], 6, tcp.len() as u16).add_bytes(&tcp).checksum();
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        tcp
    };
    // Hop-by-hop, routing (type 4, no segments left), destination options, then UDP.
    let extensions = [
        &[43, 0, 5, 2, 0, 0, 1, 0][..],
        &[60, 2, 4, 0, 0, 0, 0, 0],
        &v6(2).octets(),
        &[17, 0, 1, 4, 0, 0, 0, 0],
        &udp6(b"behind extension headers"),
    ]
    .concat();
    let mut solicitation = vec![135, 0, 0, 0, 0, 0, 0, 0];
    solicitation.extend(v6(2).octets());
    solicitation.extend([&[1, 1], &SOURCE[..]].concat());
    let sum = Sum::new().add_pseudo_v6(v6(1), v6(2), 58, solicitation.len() as u32);
    let sum = sum.add_bytes(&solicitation).checksum().to_be_bytes();
    solicitation[2..4].copy_from_slice(&sum);
    let broadcast = |mut frame: Vec<u8>| {
        frame[..6].fill(0xff);
        frame
    };
    let group = |last: u8, mut frame: Vec<u8>| {
        frame[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, last]);
        frame
    };
    let mut wrong_udp = ipv4(&[], 0, 17, &udp4(b"wrong checksum"));
    *wrong_udp.last_mut().expect("byte") ^= 0x55;
    let mut unsummed = udp4(b"sent without");
    unsummed[6..8].fill(0);
    let mut bad_header = ipv4(&[], 0, 17, &udp4(b"x"));
    bad_header[0] = 0x43;
    let mut too_long = ipv4(&[], 0, 6, &tcp(0x18, b"abc"));
    too_long[2..4].copy_from_slice(&2000_u16.to_be_bytes());
    let mut bad_offset = ipv4(&[], 0, 6, &tcp(0x18, b"abc"));
    bad_offset[32] = 0xf0;
    let big = vec![0xa5; mtu - 28];
    let frame = ethernet;
    vec![
        ("ARP", broadcast(frame(&[], 0x0806, &arp))),
        ("gratuitous ARP, padded", broadcast(frame(&[], 0x0806, &[&arp[..], &[0; 18]].concat()))),
        ("IPv4 UDP", frame(&[], 0x0800, &ipv4(&[], 0, 17, &udp4(b"hello")))),
        ("IPv4 UDP, checksum wrong", frame(&[], 0x0800, &wrong_udp)),
        ("IPv4 UDP without checksum", frame(&[], 0x0800, &ipv4(&[], 0, 17, &unsummed))),
        ("IPv4 with options", frame(&[], 0x0800, &ipv4(&[0x94, 4, 0, 0], 0, 17, &udp4(b"alert")))),
        ("TCP SYN", frame(&[], 0x0800, &ipv4(&[], 0x4000, 6, &tcp(2, b"")))),
        (
            "TCP data, padded",
            frame(&[], 0x0800, &[ipv4(&[], 0x4000, 6, &tcp(0x18, b"x")), vec![0; 5]].concat()),
        ),
        ("IPv4 first fragment", frame(&[], 0x0800, &ipv4(&[], 0x2000, 17, &udp4(&[7; 32])))),
        ("IPv4 later fragment", frame(&[], 0x0800, &ipv4(&[], 0x0005, 17, &[9; 40]))),
        ("IPv6 UDP", frame(&[], 0x86dd, &ipv6(17, &udp6(b"hello")))),
        ("IPv6 extension headers", frame(&[], 0x86dd, &ipv6(0, &extensions))),
        (
            "IPv6 fragment",
            frame(
                &[],
                0x86dd,
                &ipv6(44, &[&[17, 0, 0, 1, 0, 0, 0, 9], &udp6(&[3; 24])[..]].concat()),
            ),
        ),
        ("ICMPv6 neighbour solicitation", frame(&[], 0x86dd, &ipv6(58, &solicitation))),
        ("VLAN", frame(&[vlan], 0x0800, &ipv4(&[], 0, 17, &udp4(b"tagged")))),
        ("VLAN priority only", frame(&[&[0x81, 0, 0xe0, 0]], 0x0806, &arp)),
        ("QinQ", frame(&[service, vlan], 0x0800, &ipv4(&[], 0, 17, &udp4(b"twice")))),
        ("two customer tags", frame(&[vlan, vlan], 0x86dd, &ipv6(17, &udp6(b"twice")))),
        (
            "MPLS",
            frame(
                &[],
                0x8847,
                &[&[0, 1, 0x01, 64][..], &ipv4(&[], 0, 17, &udp4(b"label"))].concat(),
            ),
        ),
        (
            "LLDP",
            group(
                0x0e,
                frame(&[], 0x88cc, &[2, 7, 4, 2, 0, 0, 0, 0, 1, 4, 2, 7, b'x', 6, 2, 0, 120, 0, 0]),
            ),
        ),
        ("pause", group(1, frame(&[], 0x8808, &[&[0, 1, 0xff, 0xff][..], &[0; 42]].concat()))),
        ("STP over LLC", group(0, frame(&[], 38, &[&[0x42, 0x42, 3][..], &[0; 43]].concat()))),
        ("unknown EtherType", frame(&[], 0x88b5, &[0xff; 46])),
        ("runt: one byte", frame(&[], 0x88b5, &[1])),
        ("runt: IPv4 cut", frame(&[], 0x0800, &ipv4(&[], 0, 17, &udp4(b"cut"))[..12])),
        ("runt: IPv6 cut", frame(&[], 0x86dd, &ipv6(17, &udp6(b"cut"))[..30])),
        ("malformed: header length", frame(&[], 0x0800, &bad_header)),
        ("malformed: total length", frame(&[], 0x0800, &too_long)),
        ("malformed: TCP offset", frame(&[], 0x0800, &bad_offset)),
        ("malformed: version", frame(&[], 0x0800, &[0xf5; 60])),
        ("full size", frame(&[], 0x0800, &ipv4(&[], 0, 17, &udp4(&big)))),
        ("full size, tagged", frame(&[vlan], 0x0800, &ipv4(&[], 0, 17, &udp4(&big)))),
    ]
}

/// Sends the suite from one end and expects it, in order, at the other.
fn passes(from: &RawSocket, to: &RawSocket, mtu: usize, what: &str) -> u64 {
    let frames = suite(mtu);
    for (name, frame) in &frames {
        from.send(frame).unwrap_or_else(|e| panic!("{what}, {name}: {e}"));
        let got = loop {
            let got = to.recv().unwrap_or_else(|| panic!("{what}, {name}: never arrived"));
            if got[6..12] == SOURCE {
                break got;
            }
        };
        assert_eq!(&got, frame, "{what}, {name}");
    }
    frames.len() as u64
}

fn frames_pass(test: &str, mtu: u32, modes: &[Mode]) {
    for &mode in modes {
        let Some(path) = path(test, mtu) else { return };
        let forwarder = Forwarder::start(&path, mode);
        let (a, b) = (RawSocket::open(&path.a, "ea"), RawSocket::open(&path.b, "eb"));
        let forward = passes(&a, &b, mtu as usize, &format!("{mode} forward"));
        let reverse = passes(&b, &a, mtu as usize, &format!("{mode} reverse"));
        // Echoes of own frames would be received on the other side, sent back and counted.
        for ((received, sent), expected) in forwarder.stop().into_iter().zip([forward, reverse]) {
            assert_eq!(
                (received.frames, sent.frames),
                (expected, expected),
                "{mode}: {received:?}"
            );
            assert_eq!(received.unplanned_drops() + sent.unplanned_drops(), 0, "{mode}");
        }
    }
}

#[test]
fn every_frame_passes_unchanged() {
    frames_pass("every_frame_passes_unchanged", 1500, &MODES);
}

#[test]
fn jumbo_frames_pass_up_to_the_links_limit() {
    frames_pass("jumbo_frames_pass_up_to_the_links_limit", 9000, &[Mode::Packet]);
    frames_pass("jumbo_frames_pass_up_to_the_links_limit", 3498, &MODES);
    let Some(path) = path("jumbo_frames_pass_up_to_the_links_limit", 9000) else { return };
    for mode in [Mode::XdpNative, Mode::XdpGeneric] {
        let error = path.link("A", mode, &LinkOptions::default()).expect_err("too large an MTU");
        assert!(error.to_string().contains("MTU is 9000"), "{error}");
    }
}

#[test]
fn every_frame_passes_memory_unchanged() {
    let mut slabs = Slabs::new(8 << 20);
    let (mut a, cable_a) = memory::link("A", 1000).expect("link");
    let (mut b, cable_b) = memory::link("B", 1000).expect("link");
    for (i, (name, frame)) in suite(9000).into_iter().enumerate() {
        cable_a.put(i as u64, &frame);
        let mut received = Vec::new();
        assert_eq!(a.receiver.recv(&mut slabs, 8, &mut received).expect("recv"), 1);
        assert_eq!((received[0].ingress_ns, received[0].len as usize), (i as u64, frame.len()));
        assert_eq!(b.transmitter.send(&slabs, &[received[0].handle]).expect("send"), 1);
        slabs.release(received[0].handle);
        assert_eq!(cable_b.take(), Some(frame), "{name}");
    }
    cable_b.set_room(1);
    let frames = [slabs.insert(&[1; 60]).expect("room"), slabs.insert(&[2; 60]).expect("room")];
    assert_eq!(b.transmitter.send(&slabs, &frames).expect("send"), 1, "no room for the second");
    assert_eq!(b.transmitter.statistics().times_full, 1);
}

/// A VLAN interface leaves its tag in metadata, for the card to insert. A packet socket reports the tag.
/// AF_XDP loses it on a veth, so it is not chosen there and has a note; the tag passes if the sender
/// inserts it itself.
#[test]
fn a_tag_in_metadata_is_kept_by_every_chosen_link() {
    let name = "a_tag_in_metadata_is_kept_by_every_chosen_link";
    let plain = suite(1500)[2].1.clone();
    let tagged = [&plain[..12], &[0x81, 0, 0, 7], &plain[12..]].concat();
    for mode in MODES {
        for inserted_by_sender in [false, true] {
            let Some(path) = path(name, 1500) else { return };
            if inserted_by_sender {
                let off = || weir_net::interface::set_offload("ea", "tx-vlan-hw-insert", false);
                path.a.run_in(off).expect("enter").expect("offload");
            }
            let Some(_tagging) = path.tag_at_a() else {
                eprintln!("SKIPPED {name}: no program can be put on an interface's egress");
                return;
            };
            let forwarder = Forwarder::start(&path, mode);
            let (a, b) = (RawSocket::open(&path.a, "ea"), RawSocket::open(&path.b, "eb"));
            a.send(&plain).expect("send");
            let got = loop {
                let got = b.recv().unwrap_or_else(|| panic!("{mode}: never arrived"));
                if got[6..12] == SOURCE {
                    break got;
                }
            };
            let kept = mode == Mode::Packet || inserted_by_sender;
            assert_eq!(got, if kept { &tagged[..] } else { &plain[..] }, "{mode}");
            forwarder.stop();
        }
        let Some(path) = path(name, 1500) else { return };
        let notes = path.link("A", mode, &LinkOptions::default()).expect("link").description.notes;
        let has_note = notes.iter().any(|note| note.contains("VLAN"));
        assert_eq!(has_note, mode != Mode::Packet, "{mode}: {notes:?}");
    }
    let Some(path) = path(name, 1500) else { return };
    let chosen = path.best_link("A").expect("link").description;
    assert_eq!(chosen.mode, Mode::Packet, "{chosen}");
    assert!(chosen.reason.is_some_and(|reason| reason.contains("VLAN")));
}

/// Sockets of this host leave checksums to hardware and send super-packets; arriving frames must be
/// complete.
#[test]
fn frames_of_sockets_arrive_with_correct_checksums() {
    for mode in MODES {
        let Some(path) = path("frames_of_sockets_arrive_with_correct_checksums", 1500) else {
            return;
        };
        if mode == Mode::XdpGeneric {
            path.disable_segmentation_at_the_ends();
        }
        let forwarder = Forwarder::start(&path, mode);
        let bulk = bulk();
        assert!(streamed(&path, &bulk, || ()) == bulk, "{mode}: other bytes than were sent");
        let (sender, receiver) = datagram_sockets(&path);
        for len in [0, 1, 2, 3, 17, 18, 100, 1471, 1472, 4000] {
            sender.send_to(&bulk[..len], "198.18.0.2:5000").expect("send");
            let mut got = [0; 5000];
            let n = receiver.recv(&mut got).unwrap_or_else(|e| panic!("{mode}: {len} bytes: {e}"));
            assert_eq!(got[..n], bulk[..len], "{mode}");
        }
        no_wrong_checksum(&path);
        let [(received, _), _] = forwarder.stop();
        assert!(received.checksums_completed > 0 && received.unusable == 0, "{mode}: {received:?}");
        if mode == Mode::Packet {
            assert!(
                received.super_packets > 0 && received.segments > received.super_packets,
                "{received:?}"
            );
        }
    }
}

/// The ends that are TAP devices in tests of these: the link to the other end is a packet socket.
const TAP_ENDS: [[bool; 2]; 3] = [[true, false], [false, true], [true, true]];

/// A forwarder between TAP devices at these ends.
fn forwarder_with_taps(path: &Path, mtu: u32, ends: [bool; 2], keeps_trains: bool) -> Forwarder {
    let links = [ends[0].then(|| path.tap("ea", mtu)), ends[1].then(|| path.tap("eb", mtu))];
    Forwarder::start_between(path, links, Mode::Packet, keeps_trains)
}

#[test]
fn every_frame_passes_tap_devices_unchanged() {
    for mtu in [1500, 9000] {
        for ends in TAP_ENDS {
            let Some(path) = path("every_frame_passes_tap_devices_unchanged", mtu) else { return };
            let forwarder = forwarder_with_taps(&path, mtu, ends, true);
            let (a, b) = (RawSocket::open(&path.a, "ea"), RawSocket::open(&path.b, "eb"));
            let forward = passes(&a, &b, mtu as usize, &format!("{ends:?} forward"));
            let reverse = passes(&b, &a, mtu as usize, &format!("{ends:?} reverse"));
            for ((received, sent), expected) in forwarder.stop().into_iter().zip([forward, reverse])
            {
                assert_eq!((received.frames, sent.frames), (expected, expected), "{received:?}");
                assert_eq!(received.unplanned_drops() + sent.unplanned_drops(), 0, "{ends:?}");
            }
        }
    }
}

/// Sockets behind TAP devices send super-packets and partial checksums, and receive super-packets; with a packet socket, this is
/// also so at the other end.
#[test]
fn frames_of_sockets_pass_tap_devices_with_offloads() {
    let name = "frames_of_sockets_pass_tap_devices_with_offloads";
    for ends in TAP_ENDS {
        for keeps_trains in [true, false] {
            let Some(path) = path(name, 1500) else { return };
            let forwarder = forwarder_with_taps(&path, 1500, ends, keeps_trains);
            let bulk = bulk();
            assert!(streamed(&path, &bulk, || ()) == bulk, "{ends:?}: other bytes than were sent");
            let (sender, receiver) = datagram_sockets(&path);
            segment_datagrams(&sender, 1000);
            sender.send_to(&bulk[..20_500], "198.18.0.2:5000").expect("send");
            for chunk in bulk[..20_500].chunks(1000) {
                let mut got = [0; 5000];
                let n = receiver.recv(&mut got).unwrap_or_else(|e| panic!("{ends:?}: {e}"));
                assert_eq!(got[..n], *chunk, "{ends:?}");
            }
            no_wrong_checksum(&path);
            let [(received, sent), (back, _)] = forwarder.stop();
            assert!(received.super_packets > 0 && back.frames > 0, "{ends:?}: {received:?}");
            assert!(received.segments > received.super_packets, "{ends:?}: {received:?}");
            assert_eq!(received.trains > 0, keeps_trains, "{ends:?}: {received:?}");
            assert_eq!(sent.super_packets > 0, keeps_trains, "{ends:?}: {sent:?}");
            assert_eq!((received.unplanned_drops(), sent.refused), (0, 0), "{ends:?}");
            assert_eq!(received.frames, sent.frames, "{ends:?}");
        }
    }
}

/// The kernel puts a tag that a VLAN interface leaves in metadata into the frame that is read.
#[test]
fn a_tag_in_metadata_is_in_the_frame_of_a_tap_device() {
    let name = "a_tag_in_metadata_is_in_the_frame_of_a_tap_device";
    let plain = suite(1500)[2].1.clone();
    let tagged = [&plain[..12], &[0x81, 0, 0, 7], &plain[12..]].concat();
    let Some(path) = path(name, 1500) else { return };
    let tap = path.tap("ea", 1500);
    let Some(_tagging) = path.tag_at_a() else {
        eprintln!("SKIPPED {name}: no program can be put on an interface's egress");
        return;
    };
    let forwarder = Forwarder::start_between(&path, [Some(tap), None], Mode::Packet, true);
    let (a, b) = (RawSocket::open(&path.a, "ea"), RawSocket::open(&path.b, "eb"));
    a.send(&plain).expect("send");
    let got = loop {
        let got = b.recv().expect("it arrives");
        if got[6..12] == SOURCE {
            break got;
        }
    };
    assert_eq!(got, tagged);
    // A stream of super-packets has the tag in each segment, and correct checksums behind it.
    let seen = RawSocket::open(&path.b, "eb");
    let _ = path.a.run_in(|| {
        let socket = UdpSocket::bind("198.18.0.1:0").expect("bind");
        segment_datagrams(&socket, 1000);
        let neighbour = "neigh replace 198.18.0.2 lladdr 02:00:00:00:00:09 dev ea nud permanent";
        path::ip(neighbour);
        socket.send_to(&[7; 2500], "198.18.0.2:5000").expect("send");
    });
    let mut lengths = Vec::new();
    while lengths.len() < 3 {
        let frame = seen.recv().expect("it arrives");
        let packet = weir_wire::packet::Packet::from_ethernet(&frame).expect("a frame");
        if let weir_wire::packet::Transport::Udp(udp) = packet.transport {
            assert_eq!(frame[12..16], tagged[12..16]);
            assert_eq!(packet.transport_checksum_ok(), Some(true));
            lengths.push(udp.payload().len());
        }
    }
    assert_eq!(lengths, [1000, 1000, 500]);
    forwarder.stop();
}

#[test]
fn drops_of_a_tap_device_are_counted() {
    let Some(path) = path("drops_of_a_tap_device_are_counted", 1500) else { return };
    let frame = suite(1500)[2].1.clone();
    let options = LinkOptions { ring_frames: Some(64), ..LinkOptions::default() };
    let open = || weir_link::open_tap("t0", "t0", &options).expect("TAP device");
    let mut link = path.m.run_in(open).expect("enter");
    assert_eq!(link.description.ring_frames, 64);
    let host = RawSocket::open(&path.m, "t0");
    // A newer kernel stops the queue instead of dropping: then frames wait at the host, and the first ones are read.
    let sends = (0..200).filter(|_| host.send(&frame).is_ok()).count() as u64;
    let mut slabs = Slabs::new(8 << 20);
    let mut received = Vec::new();
    let kernel_drops = link.receiver.statistics().expect("statistics").kernel_drops;
    until("all that were not dropped", || {
        link.receiver.recv(&mut slabs, usize::MAX, &mut received).expect("recv");
        received.len() as u64 + kernel_drops >= sends
    });
    assert_eq!(received.len() as u64 + kernel_drops, sends);
    host.send(&frame).expect("send");
    let mut none = Slabs::new(0);
    until("a frame without a slot", || {
        link.receiver.recv(&mut none, 64, &mut received).expect("recv") > 0
    });
    assert_eq!(link.receiver.statistics().expect("statistics").slab_drops, 1);
}

#[test]
fn a_tap_device_that_is_down_refuses_and_one_that_is_removed_is_gone() {
    let Some(path) = path("a_tap_device_that_is_down", 1500) else { return };
    let frame = suite(1500)[2].1.clone();
    let open = || weir_link::open_tap("t0", "tap:t0", &LinkOptions::default());
    let mut link = path.m.run_in(open).expect("enter").expect("TAP device");
    let (mut slabs, mut received) = (Slabs::new(8 << 20), Vec::new());
    let handle = slabs.insert(&frame).expect("room");
    path.ip_in_middle("link set dev t0 down");
    // A frame, and a super-packet of four segments, each of which is refused.
    let (mut memory, cable) = memory::link("memory", 1).expect("link");
    memory.receiver.keep_trains();
    slabs.keep_trains(1 << 20);
    cable.put_super_packet(0, &ethernet(&[], 0x0800, &ipv4(&[], 0, 17, &udp4(&[7; 4000]))), 1000);
    memory.receiver.recv(&mut slabs, 1, &mut received).expect("recv");
    let segments = received.drain(..).map(|segment| segment.handle);
    let frames: Vec<_> = [handle].into_iter().chain(segments).collect();
    let taken = link.transmitter.send(&slabs, &frames).expect("down is no error");
    assert_eq!((taken, link.transmitter.refused()), (5, &[0, 1, 2, 3, 4][..]));
    assert_eq!(link.transmitter.statistics().refused, 5);
    assert_eq!(link.receiver.recv(&mut slabs, 64, &mut received).expect("down is no error"), 0);
    path.ip_in_middle("link set dev t0 up");
    let host = RawSocket::open(&path.m, "t0");
    assert_eq!(link.transmitter.send(&slabs, &frames).expect("send"), 5);
    assert_eq!(link.transmitter.statistics().super_packets, 1);
    assert_eq!(host.recv(), Some(frame));
    // What the kernel does not take as a frame.
    let runt = slabs.insert(&[0xff; 13]).expect("room");
    assert_eq!(link.transmitter.send(&slabs, &[handle, runt, handle]).expect("send"), 3);
    assert_eq!(link.transmitter.refused(), [1]);
    path.ip_in_middle("link delete dev t0");
    let gone = |error| matches!(error, weir_link::Error::Gone(name) if name == "tap:t0");
    assert!(link.receiver.recv(&mut slabs, 64, &mut received).is_err_and(gone));
    assert!(link.transmitter.send(&slabs, &[handle]).is_err_and(gone));
}

#[test]
fn a_tap_device_is_created_or_an_existing_free_one_is_used() {
    let Some(path) = path("a_tap_device_is_created_or_an_existing_free_one_is_used", 1500) else {
        return;
    };
    let open = |name: &str| {
        let options = LinkOptions { ring_frames: Some(100), ..LinkOptions::default() };
        path.m.run_in(|| weir_link::open_tap(name, "tap:x", &options)).expect("enter")
    };
    let found = |name: &str| path.m.run_in(|| weir_net::interface::interface(name)).expect("enter");
    let created = open("t0").expect("a new one");
    assert_eq!((created.description.mode, created.description.ring_frames), (Mode::Tap, 100));
    assert!(found("t0").expect("t0").up);
    let refused = |name: &str, word: &str| {
        let error = open(name).expect_err(name);
        let weir_link::Error::Refused { object, reason, .. } = &error else { panic!("{error:?}") };
        assert!(object == "tap:x" && reason.contains(word), "{error}");
    };
    refused("t0", "open");
    drop(created);
    // A child that another test starts has every descriptor for a moment.
    until("it is removed with its link", || found("t0").is_err());
    path.ip_in_middle("tuntap add dev t1 mode tap");
    path.ip_in_middle("link set dev t1 up");
    for _ in 0..2 {
        // Free again some time after its descriptor was closed, as above.
        let mut existing = None;
        until("it is free", || {
            existing = open("t1").ok();
            existing.is_some()
        });
        assert_eq!(existing.expect("open").description.ring_frames, 1000, "its own length");
    }
    assert!(found("t1").expect("it stays").up);
    path.ip_in_middle("tuntap add dev t2 mode tap multi_queue");
    path.ip_in_middle("tuntap add dev t3 mode tun");
    refused("t2", "queues");
    refused("t3", "TUN");
    refused("A", "TAP");
    for name in ["", "tap%d", "a name of 16 bytes"] {
        refused(name, "accepted");
    }
    refused("a/b", "name");
}

/// Super-packets that are kept whole arrive complete, whether the outgoing interface segments or not, and also if that changes.
#[test]
fn trains_arrive_complete_by_any_interface() {
    let name = "trains_arrive_complete_by_any_interface";
    let segment = |path: &Path, on| {
        let set = || {
            for feature in ["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation"] {
                set_offload("B", feature, on).expect("offload");
            }
        };
        path.m.run_in(set).expect("enter");
    };
    for (on_before, on_then) in [(true, true), (false, false), (true, false)] {
        let Some(path) = path(name, 1500) else { return };
        segment(&path, on_before);
        let forwarder = Forwarder::start_with(&path, Mode::Packet, true);
        let bulk = bulk();
        let got = streamed(&path, &bulk, || segment(&path, on_then));
        assert!(got == bulk, "{on_before} {on_then}: other bytes than were sent");
        let (sender, receiver) = datagram_sockets(&path);
        segment_datagrams(&sender, 1000);
        sender.send_to(&bulk[..20_500], "198.18.0.2:5000").expect("send");
        for chunk in bulk[..20_500].chunks(1000) {
            let mut got = [0; 5000];
            // A signal ends a receive that has a time limit.
            let n = loop {
                match receiver.recv(&mut got) {
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    other => break other.unwrap_or_else(|e| panic!("{on_before} {on_then}: {e}")),
                }
            };
            assert_eq!(got[..n], *chunk);
        }
        no_wrong_checksum(&path);
        let [(received, sent), _] = forwarder.stop();
        assert!(received.trains > 0 && received.segments > received.trains, "{received:?}");
        assert_eq!(sent.super_packets > 0, on_before, "{on_before} {on_then}: {sent:?}");
        assert_eq!((received.unplanned_drops(), sent.refused), (0, 0), "{on_before} {on_then}");
        assert_eq!(received.frames, sent.frames);
    }
}

fn bulk() -> Vec<u8> {
    (0..3_000_000_u32).map(|i| (i ^ i >> 8) as u8).collect()
}

/// What b receives of a stream with these bytes from a; `half_way` is called in between.
fn streamed(path: &Path, bulk: &[u8], half_way: impl Fn()) -> Vec<u8> {
    const LIMIT: Option<Duration> = Some(Duration::from_secs(60));
    let listener = path.b.run_in(|| TcpListener::bind("198.18.0.2:5001").expect("bind"));
    let listener = listener.expect("enter");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let (mut stream, _) = listener.accept().expect("accept");
        stream.set_read_timeout(LIMIT).expect("timeout");
        stream.read_to_end(&mut bytes).expect("read");
        bytes
    });
    let stream = path.a.run_in(|| {
        let address = "198.18.0.2:5001".parse().expect("address");
        TcpStream::connect_timeout(&address, Duration::from_secs(60)).expect("connect")
    });
    let mut stream = stream.expect("enter");
    stream.set_write_timeout(LIMIT).expect("timeout");
    let (first, second) = bulk.split_at(bulk.len() / 2);
    stream.write_all(first).expect("write");
    half_way();
    stream.write_all(second).expect("write");
    drop(stream);
    reader.join().expect("reader")
}

/// Sockets of a and of port 5000 of b.
fn datagram_sockets(path: &Path) -> (UdpSocket, UdpSocket) {
    let socket = |host: &NetNamespace, address: &str| {
        host.run_in(|| UdpSocket::bind(address).expect("bind")).expect("enter")
    };
    let receiver = socket(&path.b, "198.18.0.2:5000");
    receiver.set_read_timeout(Some(Duration::from_secs(60))).expect("timeout");
    (socket(&path.a, "198.18.0.1:0"), receiver)
}

/// Lets the kernel cut what is sent into datagrams of this size.
fn segment_datagrams(sender: &UdpSocket, size: i32) {
    // SAFETY: UDP_SEGMENT has an int, which lives through the call.
    let rc = unsafe {
        let size = (&raw const size).cast();
        libc::setsockopt(sender.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, size, 4)
    };
    assert_eq!(rc, 0);
}

fn no_wrong_checksum(path: &Path) {
    let counters = path.b.run_in(protocol_counters).expect("enter").expect("counters");
    assert!(counters.get("Udp", "InCsumErrors").is_some());
    let wrong: Vec<_> =
        counters.iter().filter(|(k, v)| k.contains("InCsumErrors") && *v > 0).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn links_are_promiscuous_while_they_are_open() {
    let Some(path) = path("links_are_promiscuous_while_they_are_open", 1500) else { return };
    let shown = || {
        let output = path.m.run_in(|| {
            std::process::Command::new("ip")
                .args(["-d", "link", "show", "dev", "A"])
                .output()
                .expect("ip")
        });
        String::from_utf8(output.expect("enter").stdout).expect("text")
    };
    for mode in MODES {
        let link = path.link("A", mode, &LinkOptions::default()).expect("link");
        assert!(shown().contains("promiscuity 1"), "{mode}: {}", shown());
        assert_eq!(shown().contains("xdp"), mode != Mode::Packet, "{mode}: {}", shown());
        drop(link);
        // The kernel detaches a program some time after its descriptor was closed, and a child that another
        // test starts has every descriptor for a moment.
        until(&format!("{mode} is off"), || {
            let after = shown();
            after.contains("promiscuity 0") && !after.contains("xdp")
        });
    }
}

/// Frames that this host itself sends by the interface are not received.
#[test]
fn frames_sent_by_this_host_are_not_received() {
    for mode in MODES {
        let Some(path) = path("frames_sent_by_this_host_are_not_received", 1500) else { return };
        let mut link = path.link("A", mode, &LinkOptions::default()).expect("link");
        let frames = suite(1500);
        RawSocket::open(&path.m, "A").send(&frames[0].1).expect("send");
        RawSocket::open(&path.a, "ea").send(&frames[2].1).expect("send");
        let mut slabs = Slabs::new(8 << 20);
        let mut received = Vec::new();
        until(&format!("{mode}: a frame"), || {
            link.receiver.recv(&mut slabs, 64, &mut received).expect("recv") > 0
        });
        assert_eq!(received.len(), 1, "{mode}");
        assert_eq!(slabs.bytes(received[0].handle), frames[2].1, "{mode}");
    }
}

/// An interface that is up, and whose other end is down, has no carrier. Frames sent by it are lost and
/// counted; no old frame is sent when the carrier is back.
#[test]
fn frames_sent_without_a_carrier_are_lost_immediately() {
    for mode in MODES {
        let Some(path) = path("frames_sent_without_a_carrier_are_lost_immediately", 1500) else {
            return;
        };
        let mut link = path.link("A", mode, &LinkOptions::default()).expect("link");
        let frames = suite(1500);
        let mut slabs = Slabs::new(8 << 20);
        let old = slabs.insert(&frames[2].1).expect("room");
        let new = slabs.insert(&frames[3].1).expect("room");
        let set = |state: &str| {
            let state = state.to_owned();
            let run = move || {
                let arguments = ["link", "set", "dev", "ea", &state];
                std::process::Command::new("ip").args(arguments).status().expect("ip")
            };
            assert!(path.a.run_in(run).expect("enter").success());
        };
        set("down");
        let mut processed = 0;
        let mut lost = || {
            let handles = vec![old; 100 - processed];
            processed += link.transmitter.send(&slabs, &handles).expect("no carrier is no error");
            processed
        };
        until(&format!("{mode}: frames are given up"), || lost() >= 100);
        let statistics = link.transmitter.statistics();
        assert_eq!((statistics.frames, statistics.unplanned_drops()), (0, 100), "{mode}");
        set("up");
        let a = RawSocket::open(&path.a, "ea");
        until(&format!("{mode}: the carrier is back"), || {
            link.transmitter.send(&slabs, &[new]).expect("send") > 0
                && link.transmitter.statistics().frames > 0
        });
        let got = loop {
            let got = a.recv().unwrap_or_else(|| panic!("{mode}: never arrived"));
            if got[6..12] == SOURCE {
                break got;
            }
        };
        assert_eq!(got, frames[3].1, "{mode}: a frame from before the carrier came back");
    }
}

/// AF_XDP refuses an interface with more queues than it can read.
#[test]
fn too_many_queues_are_refused() {
    let Some(path) = path("too_many_queues_are_refused", 1500) else { return };
    let options = LinkOptions { ring_frames: Some(64), ..LinkOptions::default() };
    for (name, queues) in [("q64", 64_u32), ("q65", 65)] {
        let both = format!("numtxqueues {queues} numrxqueues {queues}");
        path.ip_in_middle(&format!("link add {name} {both} type veth peer name {name}p {both}"));
        path.ip_in_middle(&format!("link set dev {name}p up"));
        path.ip_in_middle(&format!("link set dev {name} up"));
        let mode = Mode::XdpGeneric;
        match (queues, path.link(name, mode, &options)) {
            (64, Ok(link)) => assert_eq!(link.description.queues, 64),
            (65, Err(error)) => {
                assert!(matches!(error, weir_link::Error::Refused { .. }), "{error:?}");
                assert!(error.to_string().contains("64"), "{error}");
            }
            (_, Ok(link)) => panic!("{queues} queues: {}", link.description),
            (_, Err(error)) => panic!("{queues} queues: {error}"),
        }
    }
}

/// Drops of a full ring and of the memory cap are counted.
#[test]
fn unplanned_drops_are_counted() {
    for mode in MODES {
        let Some(path) = path("unplanned_drops_are_counted", 1500) else { return };
        let options = LinkOptions { ring_frames: Some(64), ..LinkOptions::default() };
        let mut link = path.link("A", mode, &options).expect("link");
        let a = RawSocket::open(&path.a, "ea");
        let room = u64::from(link.description.ring_frames);
        let sent = room + 100;
        for _ in 0..sent {
            a.send(&suite(1500)[2].1).expect("send");
        }
        let mut slabs = Slabs::new(8 << 20);
        let mut received = Vec::new();
        // Frames are delivered some time after the last send returns.
        let mut drops = || link.receiver.statistics().expect("statistics").kernel_drops;
        until(&format!("{mode}: {} drops", sent - room), || drops() >= sent - room);
        assert_eq!(drops(), sent - room, "{mode}");
        link.receiver.recv(&mut slabs, usize::MAX, &mut received).expect("recv");
        assert_eq!(received.len() as u64, room, "{mode}");
        let mut none = Slabs::new(0);
        let mut entries = 0;
        for expected in 1..=300_u64 {
            a.send(&suite(1500)[2].1).expect("send");
            while link.receiver.statistics().expect("statistics").slab_drops < expected {
                entries += link.receiver.recv(&mut none, 64, &mut received).expect("recv");
            }
        }
        assert_eq!(entries, 300, "{mode}: an entry whose frame is dropped is counted too");
        assert_eq!(
            received.len() as u64,
            room,
            "{mode}: the ring wrapped, and all frames were dropped"
        );
    }
}

#[test]
fn the_kernels_stamp_lies_between_sending_and_reading() {
    let Some(path) = path("the_kernels_stamp_lies_between_sending_and_reading", 1500) else {
        return;
    };
    let mut link = path.link("A", Mode::Packet, &LinkOptions::default()).expect("link");
    let a = RawSocket::open(&path.a, "ea");
    let mut slabs = Slabs::new(8 << 20);
    for _ in 0..50 {
        let mut received = Vec::new();
        let before = Clock::System.monotonic_ns();
        a.send(&suite(1500)[2].1).expect("send");
        let sent = Clock::System.monotonic_ns();
        // Long enough to distinguish a stamp taken on reading from the kernel's.
        Clock::System.sleep_until(sent + 3_000_000);
        while received.is_empty() {
            link.receiver.recv(&mut slabs, 64, &mut received).expect("recv");
        }
        let after = Clock::System.monotonic_ns();
        let stamp = received[0].ingress_ns;
        assert!(stamp + 50_000 >= before && stamp <= after, "{before} {stamp} {after}");
        // The first may have been delivered late by a busy machine; all of them cannot.
        if stamp < sent + 1_000_000 {
            return;
        }
    }
    panic!("fifty stamps, all later than 1 ms after sending");
}

#[test]
fn an_interface_that_goes_down_comes_back_and_one_that_is_removed_is_gone() {
    for mode in MODES {
        let Some(path) = path("an_interface_that_goes_down", 1500) else { return };
        let mut link = path.link("A", mode, &LinkOptions::default()).expect("link");
        let a = RawSocket::open(&path.a, "ea");
        let frame = &suite(1500)[2].1;
        let mut slabs = Slabs::new(8 << 20);
        let mut received = Vec::new();
        path.ip_in_middle("link set dev A down");
        for _ in 0..3 {
            assert_eq!(
                link.receiver.recv(&mut slabs, 64, &mut received).expect("down is no error"),
                0
            );
        }
        let handle = slabs.insert(frame).expect("room");
        // AF_XDP accepts one batch before it detects that the interface is down.
        link.transmitter.send(&slabs, &[handle]).expect("down is no error");
        let taken = link.transmitter.send(&slabs, &[handle, handle]).expect("down is no error");
        assert_eq!((taken, link.transmitter.refused()), (2, &[0, 1][..]), "{mode}");
        assert!(link.transmitter.statistics().refused >= 2);
        // That batch is in AF_XDP's ring; after an end here it would not be sent.
        let before = link.transmitter.statistics();
        link.transmitter.finish();
        let after = link.transmitter.statistics();
        let left_in_ring = u64::from(mode != Mode::Packet);
        assert_eq!((before.frames, after.frames), (left_in_ring, 0), "{mode}");
        assert_eq!(after.dropped - before.dropped, left_in_ring, "{mode}");
        path.ip_in_middle("link set dev A up");
        until(&format!("{mode}: a frame after the interface came up again"), || {
            // A send may meet the far end before it has its carrier back.
            let _ = a.send(frame);
            link.receiver.recv(&mut slabs, 64, &mut received).expect("recv") > 0
        });
        path.ip_in_middle("link delete dev A");
        let mut outcome = Ok(0);
        until(&format!("{mode}: it is gone"), || {
            outcome = link.receiver.recv(&mut slabs, 64, &mut received);
            outcome.is_err()
        });
        let error = outcome.expect_err("gone");
        assert!(matches!(error, weir_link::Error::Gone(_)), "{mode}: {error}");
    }
}

/// A datagram to this port.
fn datagram(port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 46, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}

/// Links of one interface divide what arrives: each frame arrives once, those of a connection at one link.
#[test]
fn several_links_divide_what_arrives() {
    const PORTS: u16 = 64;
    let test = "several_links_divide_what_arrives";
    let Some(single) = path(test, 1500) else { return };
    let error = single.several_links("A", Mode::XdpNative, 2).expect_err("it has one queue");
    assert!(error.to_string().contains("1 queue,"), "{error}");
    for mode in [Mode::Packet, Mode::XdpNative] {
        let Some(path) = path_with_queues(test, 1500, 2) else { return };
        let mut links = path.several_links("A", mode, 2).expect("links");
        RawSocket::open(&path.m, "A").send(&datagram(9)).expect("send");
        let sender = RawSocket::open(&path.a, "ea");
        for _ in 0..3 {
            (0..PORTS).for_each(|port| sender.send(&datagram(port)).expect("send"));
        }
        let mut slabs = Slabs::new(8 << 20);
        let mut seen = [(); 2].map(|()| vec![0; usize::from(PORTS)]);
        let mut received = Vec::new();
        until(&format!("{mode}: all frames"), || {
            for (link, seen) in links.iter_mut().zip(&mut seen) {
                received.clear();
                link.receiver.recv(&mut slabs, 64, &mut received).expect("recv");
                for frame in &received {
                    let bytes = slabs.bytes(frame.handle);
                    assert_eq!(bytes.len(), 60);
                    seen[usize::from(u16::from_be_bytes([bytes[36], bytes[37]]))] += 1;
                    slabs.release(frame.handle);
                }
            }
            seen.iter().flatten().sum::<u32>() >= u32::from(PORTS) * 3
        });
        for port in 0..usize::from(PORTS) {
            // A sender that is moved to another processor may use another queue of a veth.
            let is_whole = matches!([seen[0][port], seen[1][port]], [3, 0] | [0, 3]);
            assert!(is_whole || mode != Mode::Packet, "{mode}: {seen:?}");
            assert_eq!(seen[0][port] + seen[1][port], 3, "{mode}: {seen:?}");
        }
        if mode == Mode::Packet {
            // All of 64 at one of two by chance: 10^-19.
            assert!(seen.iter().all(|seen| seen.iter().any(|count| *count > 0)), "{seen:?}");
        }
        // Each sends by a socket of its own.
        let frame = slabs.insert(&datagram(7)).expect("room");
        let at_a = RawSocket::open(&path.a, "ea");
        for link in &mut links {
            assert_eq!(link.transmitter.send(&slabs, &[frame]).expect("send"), 1, "{mode}");
            assert_eq!(at_a.recv().expect("a frame"), datagram(7), "{mode}");
        }
    }
}
