use std::ffi::{c_int, c_void};

use weir_wire::bpf::{Instruction, Program, ProgramError};

use super::loaded::{Libpcap, NAMES, RawInstruction, RawProgram, compile, load, symbol};
use super::*;

#[test]
fn a_missing_library_is_named() {
    let Err(CompileError::NoLibrary(reason)) = Libpcap::load(&[c"libweir-none.so.1"]) else {
        panic!()
    };
    assert!(reason.contains("libweir-none.so.1"), "{reason}");
    // A library without these functions.
    let Err(CompileError::NoLibrary(reason)) = Libpcap::load(&[c"libc.so.6"]) else { panic!() };
    assert!(reason.contains("pcap_open_dead"), "{reason}");
}

/// `struct pcap_pkthdr`.
#[repr(C)]
struct PacketHeader {
    time: libc::timeval,
    captured: u32,
    length: u32,
}

type OfflineFilter =
    unsafe extern "C" fn(*const RawProgram, *const PacketHeader, *const u8) -> c_int;

/// libpcap's own interpreter.
struct Reference(OfflineFilter);

impl Reference {
    /// `None` without the library.
    fn load(test: &str) -> Option<Self> {
        match load(&NAMES).and_then(|library| symbol(library, c"pcap_offline_filter")) {
            Ok(function) => {
                // SAFETY: this is the type of the function in pcap.h.
                let filter = unsafe { std::mem::transmute::<*mut c_void, OfflineFilter>(function) };
                Some(Self(filter))
            }
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "{error}");
                eprintln!("SKIPPED {test}: {error}");
                None
            }
        }
    }

    fn run(&self, instructions: &[Instruction], frame: &[u8]) -> u32 {
        let raw = |i: &Instruction| RawInstruction { code: i.code, jt: i.jt, jf: i.jf, k: i.k };
        let mut instructions: Vec<_> = instructions.iter().map(raw).collect();
        let program = RawProgram {
            length: instructions.len() as u32,
            instructions: instructions.as_mut_ptr(),
        };
        let length = frame.len() as u32;
        let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let header = PacketHeader { time, captured: length, length };
        // SAFETY: the program was checked by `Program::new` and lives as long as the call; the header states the frame's length.
        unsafe { (self.0)(&program, &header, frame.as_ptr()) as u32 }
    }
}

fn be16(value: u16) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn ipv4(protocol: u8, options: usize, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options;
    let mut packet = vec![0x40 | (header / 4) as u8, 0xb8];
    packet.extend(be16((header + payload.len()) as u16));
    packet.extend([0, 7]);
    packet.extend(be16(fragment));
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9]);
    packet.extend(vec![1; options]);
    packet.extend(payload);
    packet
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(be16(payload.len() as u16));
    packet.extend([next, 255, 0x20, 1, 0x0d, 0xb8]);
    packet.extend([0; 11]);
    packet.extend([1, 0xff, 2]);
    packet.extend([0; 13]);
    packet.push(1);
    packet.extend(payload);
    packet
}

/// Network packets with their EtherTypes.
fn packets() -> Vec<(u16, Vec<u8>)> {
    let udp = |from, to| [be16(from), be16(to), be16(16), be16(0), b"payload!".to_vec()].concat();
    let tcp = |to: u16, flags: u8| {
        let mut header = [be16(50_000), be16(to)].concat();
        header.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        header.extend(b"GET /");
        header
    };
    let icmp = |kind: u8| vec![kind, 0, 0, 0, 0, 1, 0, 2, 1, 2, 3, 4];
    let mut all = vec![];
    for (protocol, payload) in [
        (17, udp(5000, 53)),
        (17, udp(53, 40_000)),
        (17, udp(4789, 4789)),
        (6, tcp(80, 2)),
        (6, tcp(443, 0x12)),
        (6, tcp(22, 0x18)),
        (1, icmp(8)),
        (1, icmp(3)),
        (58, icmp(128)),
        (58, icmp(135)),
        (132, udp(9, 80)),
        (2, icmp(0x16)),
        (47, vec![0, 0, 8, 0, 0x45, 0, 0, 20]),
        (89, vec![2, 1, 0, 44]),
        (112, vec![0x31, 1, 100, 1]),
    ] {
        for (options, fragment) in
            [(0, 0), (0, 0x4000), (8, 0), (0, 0x2000), (0, 0x00b9), (40, 0x2010)]
        {
            all.push((0x0800, ipv4(protocol, options, fragment, &payload)));
        }
        all.push((0x86dd, ipv6(protocol, &payload)));
        all.push((0x86dd, ipv6(0, &[&[protocol, 0, 5, 2, 0, 0, 1, 0][..], &payload].concat())));
        all.push((0x86dd, ipv6(44, &[&[protocol, 0, 0, 0, 0, 0, 0, 1][..], &payload].concat())));
        all.push((0x86dd, ipv6(44, &[&[protocol, 0, 5, 0xa8, 0, 0, 0, 1][..], &payload].concat())));
    }
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1];
    arp.extend([0, 0, 0, 0, 0, 0, 192, 0, 2, 9]);
    all.push((0x0806, arp));
    all.push((0x8035, vec![0; 28]));
    // 802.3 with LLC: spanning tree, SNAP, NetBEUI.
    all.push((38, vec![0x42, 0x42, 3, 0, 0, 0, 0, 0]));
    all.push((50, [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &ipv4(17, 0, 0, &udp(7, 7))].concat()));
    all.push((20, vec![0xf0, 0xf0, 3, 0, 0, 0, 0, 0]));
    all.push((0x88cc, vec![2, 7, 4, 1, 2, 3, 4, 5, 6]));
    all.push((0x8863, vec![0x11, 9, 0, 0, 0, 4, 1, 1, 0, 0]));
    all.push((0x809b, vec![0; 40]));
    all.push((0x88b5, vec![0x57; 40]));
    all
}

/// Frames of many kinds, whole and truncated.
fn frames() -> Vec<Vec<u8>> {
    let macs = |to: u8| vec![to, 0, 0x5e, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let mut all = vec![
        vec![],
        vec![0xff; 5],
        vec![0; 14],
        [[0xff; 6], [2; 6], [8, 0, 0x45, 0, 0, 20]].concat(),
    ];
    for (i, (ethertype, packet)) in packets().into_iter().enumerate() {
        let to = [2, 1, 0xff][i % 3];
        let to =
            if to == 0xff { [vec![0xff; 6], macs(0)[6..].to_vec()].concat() } else { macs(to) };
        let plain = [&to[..], &ethertype.to_be_bytes(), &packet].concat();
        let tags: [&[u8]; 5] = [
            &[],
            &[0x81, 0, 0x60, 5],
            &[0x88, 0xa8, 0, 7, 0x81, 0, 0x20, 5],
            &[0x81, 0, 0, 5, 0x81, 0, 0, 7],
            &[0x91, 0, 0, 9],
        ];
        for tag in tags {
            all.push([&plain[..12], tag, &plain[12..]].concat());
        }
        let mpls: [&[u8]; 2] = [&[0, 6, 0x41, 64], &[0, 6, 0x40, 64, 0, 0, 0x71, 64]];
        for labels in mpls {
            all.push([&to[..], &[0x88, 0x47], labels, &packet].concat());
        }
        let ppp = if ethertype == 0x86dd { 0x57 } else { 0x21 };
        all.push([&to[..], &[0x88, 0x64, 0x11, 0, 0, 3, 0, 40, 0, ppp], &packet].concat());
        // Truncated somewhere, and padded.
        all.push(plain[..14 + (i * 7) % packet.len()].to_vec());
        all.push([plain, vec![0; 30]].concat());
    }
    all
}

const EXPRESSIONS: &[&str] = &[
    "ip",
    "ip6",
    "arp",
    "rarp",
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "icmp6",
    "igmp",
    "vrrp",
    "llc",
    "stp",
    "atalk",
    "host 10.0.0.1",
    "src host 10.0.0.1",
    "dst host 192.0.2.9",
    "not host 10.0.0.1",
    "host 2001:db8::1",
    "net 10.0.0.0/8",
    "dst net 192.0.2.0 mask 255.255.255.0",
    "src net 2001:db8::/32",
    "net ff02::/16",
    "port 53",
    "src port 53",
    "dst port 53",
    "portrange 50-100",
    "tcp port 80",
    "udp dst portrange 50-60",
    "not port 80",
    "tcp port 80 and not host 10.0.0.1",
    "tcp port 80 or udp port 53",
    "(tcp or udp) and not (port 22 or port 443)",
    "ether host 02:00:00:00:00:01",
    "ether dst ff:ff:ff:ff:ff:ff",
    "ether broadcast",
    "ether multicast",
    "ip multicast",
    "ip6 multicast",
    "ether proto 0x88cc",
    "ip proto 47",
    "ip6 proto 58",
    "proto 89",
    "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn",
    "tcp[tcpflags] & tcp-push != 0",
    "icmp[icmptype] == icmp-echo",
    "icmp6[icmp6type] == icmp6-echo",
    "ip[0] & 0xf != 5",
    "ip[6:2] & 0x1fff != 0",
    "ip[6] & 0x20 != 0",
    "ip[1] >> 2 == 46",
    "ip[2:2] - ((ip[0] & 0xf) << 2) > 16",
    "udp[8:4] = 0x7061796c",
    "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420",
    "ether[0] & 1 = 1",
    "ether[20:4] > 0x01020304",
    "len > 60",
    "less 60",
    "greater 80",
    "len % 7 = 3",
    "len / 5 * 5 != len",
    "ip[8] ^ 0x40 = 0",
    "-ip[9] + 17 = 0",
    "ip[ip[9]] = 0",
    "ether[len - 1] = 0",
    "ip[8:4] | 1 = 0x40110001",
    "vlan",
    "vlan 5",
    "vlan 7 and vlan 5",
    "vlan and ip",
    "vlan 5 and tcp port 80",
    "not vlan",
    "vlan and vlan and udp",
    "mpls",
    "mpls 100",
    "mpls 100 and mpls 7",
    "mpls and ip",
    "mpls and host 10.0.0.1",
    "pppoed",
    "pppoes",
    "pppoes 3 and ip",
    "pppoes and tcp port 80",
    "geneve",
    "port 80 or not ip or ip6 host ff02::1 and icmp6",
    "tcp and (port 80 or port 443 or port 22) and (host 10.0.0.1 or host 10.0.0.2) and greater 40 and not vlan",
];

#[test]
fn programs_decide_as_libpcap_does() {
    let Some(reference) = Reference::load("programs_decide_as_libpcap_does") else { return };
    let frames = frames();
    assert!(frames.len() > 300, "{}", frames.len());
    let (mut compiled, mut deciding) = (0, 0);
    for expression in EXPRESSIONS {
        let instructions = match compile(expression) {
            Ok(instructions) => instructions,
            // Words that came with a later version.
            Err(error) => {
                eprintln!("{expression}: {error}");
                continue;
            }
        };
        let program = Program::new(&instructions).unwrap_or_else(|e| panic!("{expression}: {e}"));
        let mut matches = 0;
        for frame in &frames {
            let expected = reference.run(&instructions, frame);
            assert_eq!(program.run(frame), expected, "{expression}: {frame:02x?}");
            matches += usize::from(expected != 0);
        }
        compiled += 1;
        deciding += usize::from(matches > 0 && matches < frames.len());
    }
    assert!(compiled > EXPRESSIONS.len() - 5, "{compiled}");
    // `geneve` matches none of these frames.
    assert!(deciding > compiled - 5, "{deciding} of {compiled}");
}

#[test]
fn expressions_are_refused_with_libpcaps_message() {
    if Reference::load("expressions_are_refused_with_libpcaps_message").is_none() {
        return;
    }
    for expression in ["tcp prot 80", "port", "host 10.0.0.300", "ip[", "1 +", "wlan", "\0"] {
        let Err(CompileError::Expression(message)) = compile(expression) else {
            panic!("{expression}")
        };
        assert!(!message.is_empty(), "{expression}");
    }
    let looping = Program::new(&compile("ip protochain 6").unwrap());
    assert!(matches!(looping, Err(ProgramError::Loop { .. })), "{looping:?}");
    // A live capture alone knows the direction of a packet.
    if let Ok(instructions) = compile("inbound") {
        let error = Program::new(&instructions).unwrap_err();
        assert!(matches!(error, ProgramError::Metadata { .. }), "{error}");
    }
}

/// Instructions without effects that differ between interpreters: constant shifts of 32 bits and more.
fn arbitrary_instruction(random: &mut impl FnMut(u32) -> u32, left: usize) -> Instruction {
    let codes = [
        0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x80, 0x00, 0x60, 0x01, 0x61, 0x81, 0xb1, 0x02, 0x03,
        0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74,
        0x7c, 0x84, 0x94, 0x9c, 0xa4, 0xac, 0x05, 0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d,
        0x07, 0x87,
    ];
    let code = codes[random(codes.len() as u32) as usize];
    let mut skip = || random(left.min(6) as u32) as u8;
    let (jt, jf) = (skip(), skip());
    let k = match code {
        0x60 | 0x61 | 0x02 | 0x03 => random(16),
        0x05 => random(left.min(6) as u32),
        0x64 | 0x74 => random(32),
        0x34 | 0x94 => 1 + random(9),
        0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0xb1 => random(48),
        _ if random(4) == 0 => u32::MAX - random(3),
        _ => random(300),
    };
    Instruction { code, jt, jf, k }
}

#[test]
fn any_program_runs_as_in_libpcap() {
    let Some(reference) = Reference::load("any_program_runs_as_in_libpcap") else { return };
    let mut state = 9347u64;
    let mut random = |below: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(below.max(1))) as u32
    };
    let frames = frames();
    let mut nonzero = 0;
    for _ in 0..20_000 {
        // libpcap does not clear its scratch words.
        let store = |k| Instruction { code: 0x02, jt: 0, jf: 0, k };
        let mut instructions: Vec<_> = (0..16).map(store).collect();
        let count = 2 + random(24) as usize;
        for n in 0..count {
            instructions.push(arbitrary_instruction(&mut random, count - n));
        }
        instructions.push(Instruction { code: 0x16, jt: 0, jf: 0, k: 0 });
        let program = Program::new(&instructions).unwrap();
        let frame = &frames[random(frames.len() as u32) as usize];
        let expected = reference.run(&instructions, frame);
        assert_eq!(program.run(frame), expected, "{instructions:x?} {frame:02x?}");
        nonzero += usize::from(expected != 0);
    }
    assert!(nonzero > 2000, "{nonzero}");
}
