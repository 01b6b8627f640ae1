use super::*;
use crate::key::tests::udp_frame;
use weir_laws::Direction;
use weir_model::impairment::{Laws, Region};
use weir_wire::checksum::Sum;
use weir_wire::packet::{Network, Packet};

fn edit(packet: u64, flip_bits: u32, checksum: Checksum, region: Region, frame: &[u8]) -> Edit {
    let layers = Key::of_frame(frame).1;
    let from = match region {
        Region::L2 => 0,
        Region::L3 => layers.l3,
        Region::L4 => layers.l4,
        Region::Payload => layers.payload,
    };
    let position = DrawPosition { flow: 1, direction: Direction::Forward, slot: 4, packet };
    let philox = Philox::new(1);
    let change = Some(Change::Flip(flip_bits));
    Edit {
        ecn: None,
        dscp: None,
        philox,
        position,
        copy: 0,
        change,
        checksum,
        from,
        to: layers.end,
    }
}

/// A frame of each protocol with correct checksums.
fn frames() -> Vec<Vec<u8>> {
    let mut out = vec![];
    for number in [protocol::UDP, protocol::TCP, protocol::ICMP, protocol::ICMPV6] {
        for payload in [&b"odd"[..], b"even"] {
            let mut l4 = match number {
                protocol::UDP => vec![0, 9, 0, 7, 0, 8 + payload.len() as u8, 0, 0],
                protocol::TCP => {
                    vec![0, 9, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 9, 9, 0, 0, 0, 0]
                }
                _ => vec![8, 0, 0, 0, 1, 2, 3, 4],
            };
            l4.extend(payload);
            let at = match number {
                protocol::UDP => 6,
                protocol::TCP => 16,
                _ => 2,
            };
            for v6 in [false, true] {
                if number == if v6 { protocol::ICMP } else { protocol::ICMPV6 } {
                    continue;
                }
                let mut frame = vec![2; 12];
                let mut l4 = l4.clone();
                if v6 {
                    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, l4.len() as u8, number, 9]);
                    frame.extend([0xfd; 16]);
                    frame.extend([0x1c; 16]);
                    let (a, b) = ([0xfd; 16].into(), [0x1c; 16].into());
                    let sum =
                        Sum::new().add_pseudo_v6(a, b, number, l4.len() as u32).add_bytes(&l4);
                    l4[at..at + 2].copy_from_slice(&sum.udp_checksum().to_be_bytes());
                } else {
                    let mut ip = vec![0x45, 0, 0, 20 + l4.len() as u8, 0, 1, 0, 0, 9, number, 0, 0];
                    ip.extend([10, 0, 0, 1, 10, 0, 0, 2]);
                    let sum = Sum::new().add_bytes(&ip).checksum();
                    ip[10..12].copy_from_slice(&sum.to_be_bytes());
                    frame.extend([0x08, 0x00]);
                    frame.extend(ip);
                    let mut sum = Sum::new().add_bytes(&l4);
                    if number != protocol::ICMP {
                        let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
                        sum = sum.add_pseudo_v4(a, b, number, l4.len() as u16);
                    }
                    l4[at..at + 2].copy_from_slice(&sum.udp_checksum().to_be_bytes());
                }
                frame.extend(l4);
                frame.extend([0; 3]); // padding
                assert!(sound(&frame));
                out.push(frame);
            }
        }
    }
    assert!(out.len() >= 10);
    out
}

/// Whether every checksum is correct.
fn sound(frame: &[u8]) -> bool {
    let Ok(packet) = Packet::from_ethernet(frame) else { return false };
    let header = match packet.network {
        Network::Ipv4(ip) => ip.header_checksum_ok(),
        _ => true,
    };
    header && packet.transport_checksum_ok() == Some(true)
}

fn flipped(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

#[test]
fn repaired_damage_passes_the_checksums() {
    for frame in frames() {
        let payload = Key::of_frame(&frame).1.payload as usize;
        for packet in 0..200 {
            for bits in [1, 2, 3] {
                let mut got = frame.clone();
                assert!(
                    edit(packet, bits, Checksum::Repair, Region::Payload, &frame).apply(&mut got)
                );
                assert!(sound(&got), "{packet} {bits} {frame:x?} {got:x?}");
                assert_eq!(flipped(&frame[payload..], &got[payload..]), bits);
                let mut again = frame.clone();
                assert!(
                    edit(packet, bits, Checksum::Repair, Region::Payload, &frame).apply(&mut again)
                );
                assert_eq!(again, got);
            }
        }
    }
}

#[test]
fn repair_follows_the_final_destination_of_a_routing_header() {
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 40 + 12, 43, 9]);
    frame.extend([[0xfd; 16], [0x1c; 16]].concat());
    frame.extend([protocol::UDP, 4, 4, 1, 1, 0, 0, 0]);
    frame.extend([[0x77; 16], [0x1c; 16]].concat());
    let mut udp = vec![0, 9, 0, 7, 0, 12, 0, 0, b'e', b'v', b'e', b'n'];
    let pseudo = Sum::new().add_pseudo_v6([0xfd; 16].into(), [0x77; 16].into(), 17, 12);
    let sum = pseudo.add_bytes(&udp).udp_checksum();
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    frame.extend(udp);
    assert!(sound(&frame));
    let edit = edit(0, 1, Checksum::Repair, Region::L3, &frame);
    // The addresses, and the list of segments.
    for at in (14 + 8..14 + 40).chain(14 + 48..14 + 80) {
        let mut got = frame.clone();
        assert!(edit.flip(&mut got, at, 4, &Sums::of(&frame)));
        assert!(sound(&got), "byte {at}");
    }
}

#[test]
fn unrepaired_damage_fails_a_checksum() {
    for frame in frames() {
        for packet in 0..200 {
            let mut got = frame.clone();
            assert!(edit(packet, 1, Checksum::Leave, Region::Payload, &frame).apply(&mut got));
            assert_eq!(flipped(&frame, &got), 1);
            assert!(!sound(&got));
        }
    }
}

#[test]
fn only_the_checksum_is_damaged() {
    for frame in frames() {
        for packet in 0..200 {
            let mut got = frame.clone();
            let bits = 1 + packet as u32 % 16;
            assert!(
                edit(packet, bits, Checksum::Checksum, Region::Payload, &frame).apply(&mut got)
            );
            assert!(!sound(&got), "{packet}");
            let payload = Key::of_frame(&frame).1.payload as usize;
            assert_eq!(got[payload..], frame[payload..]);
        }
    }
    // With an unknown transport the IPv4 header checksum is damaged; without IPv4, none.
    let mut strange = frames()[0].clone();
    strange[23] = 99;
    let mut got = strange.clone();
    assert!(edit(1, 3, Checksum::Checksum, Region::Payload, &strange).apply(&mut got));
    assert_eq!((flipped(&strange, &got), flipped(&strange[24..26], &got[24..26])), (3, 3));
    let arp = [&[2; 12][..], &[0x08, 0x06], &[1; 28]].concat();
    let mut got = arp.clone();
    assert!(!edit(1, 3, Checksum::Checksum, Region::Payload, &arp).apply(&mut got));
    assert_eq!(got, arp);
}

#[test]
fn headers_are_repaired_too() {
    let (mut checked, mut unchanged) = (0, 0);
    for frame in frames() {
        for packet in 0..2000 {
            let mut got = frame.clone();
            let changed = edit(packet, 1, Checksum::Repair, Region::L3, &frame).apply(&mut got);
            assert_eq!(changed, got != frame);
            unchanged += u32::from(!changed);
            // If the frame's lengths and protocol are unchanged, its checksums are correct.
            let shape = |frame: &[u8]| {
                let (key, layers) = Key::of_frame(frame);
                (layers, key.protocol, key.fragment, lengths(frame))
            };
            let same = |at: usize| got[at] == frame[at];
            if shape(&got) == shape(&frame)
                && same(12)
                && same(13)
                && got[14] >> 4 == frame[14] >> 4
            {
                assert!(sound(&got), "{packet} {frame:x?} {got:x?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 10_000, "{checked}");
    // A checksum's own bits: two or four bytes of some 25 to 65.
    assert!(unchanged > 500, "{unchanged}");
}

/// The UDP length, which is in the pseudo header as well.
fn lengths(frame: &[u8]) -> Option<[u8; 2]> {
    let l4 = Key::of_frame(frame).1.l4 as usize;
    frame.get(l4 + 4..l4 + 6).map(|bytes| [bytes[0], bytes[1]])
}

#[test]
fn a_datagram_without_checksum_stays_without() {
    let frame = udp_frame((1, 2), b"payload");
    let mut got = frame.clone();
    assert!(edit(3, 2, Checksum::Repair, Region::Payload, &frame).apply(&mut got));
    assert_eq!(got[40..42], [0, 0]);
    assert_eq!(flipped(&frame, &got), 2);
    // A damaged checksum is wrong, never 0 or 0xffff.
    for packet in 0..500 {
        let mut got = frame.clone();
        assert!(edit(packet, 16, Checksum::Checksum, Region::Payload, &frame).apply(&mut got));
        assert!(got[40..42] != [0, 0] && got[40..42] != [0xff, 0xff]);
    }
}

/// The edit of a change in one line, such as `repair swap 2 at l3`.
fn changing(text: &str, packet: u64, frame: &[u8]) -> Edit {
    let laws: Laws = format!("corrupt 100% {text}").parse().unwrap();
    let content = laws.content.unwrap();
    let plain = edit(packet, 1, content.checksum, content.region, frame);
    let from = plain.from + content.offset;
    let to = content.length.map_or(plain.to, |length| plain.to.min(from + length));
    Edit { change: Some(content.change()), from, to, ..plain }
}

#[test]
fn bytes_are_changed_in_their_place() {
    for frame in frames() {
        let layers = Key::of_frame(&frame).1;
        let payload = layers.payload as usize;
        for packet in 0..200 {
            for (text, bytes) in [("repair random 2", 2), ("repair random 1 at l4:2", 1)] {
                let mut got = frame.clone();
                assert!(changing(text, packet, &frame).apply(&mut got));
                assert!(sound(&got), "{text} {packet} {frame:x?} {got:x?}");
                let from = if text.contains("l4") { layers.l4 as usize } else { payload };
                let region = from..layers.end as usize;
                let is_sum = |at: &usize| {
                    let sums = Sums::of(&frame);
                    sums.transport.is_some_and(|(_, _, sum)| (sum..sum + 2).contains(at))
                };
                let changed = region.filter(|at| !is_sum(at) && frame[*at] != got[*at]).count();
                assert_eq!(changed, bytes, "{text}");
            }
            let mut got = frame.clone();
            let changed = changing("repair swap 1", packet, &frame).apply(&mut got);
            // The last two bytes of "odd" are the same.
            assert_eq!(changed, got != frame);
            assert!(sound(&got));
            let sorted = |bytes: &[u8]| {
                let mut bytes = bytes[payload..].to_vec();
                bytes.sort_unstable();
                bytes
            };
            assert_eq!(sorted(&got), sorted(&frame));
        }
        let mut got = frame.clone();
        assert!(changing("repair set ff/0f at payload+1", 0, &frame).apply(&mut got));
        assert!(sound(&got));
        assert_eq!(got[payload + 1], frame[payload + 1] | 0x0f);
        assert!(!changing("repair set ff/0f at payload+1", 0, &frame).apply(&mut got));
        // The bytes end with the range.
        let mut got = frame.clone();
        assert!(changing("leave set ffff at payload:1", 0, &frame).apply(&mut got));
        assert_eq!((got[payload], got[payload + 1]), (0xff, frame[payload + 1]));
    }
}

#[test]
fn a_field_is_set_by_its_mask() {
    let frame = frames().into_iter().find(|frame| frame[12..14] == [8, 0]).unwrap();
    let mut got = frame.clone();
    // The code point EF, and a hop limit of 1.
    assert!(changing("repair set b8/fc at l3+1", 0, &frame).apply(&mut got));
    assert!(changing("repair set 01 at l3+8", 0, &frame).apply(&mut got));
    assert!(sound(&got));
    assert_eq!((Key::of_frame(&got).0.dscp, got[22]), (46, 1));
}

#[test]
fn bit_errors_have_their_ratio() {
    let frame = udp_frame((1, 2), &[0; 1000]);
    for (text, ratio, packets) in [("leave ber 1e-3", 1e-3, 2000u32), ("leave ber 0.1", 0.1, 100)] {
        let mut errors = 0;
        for packet in 0..packets {
            let mut got = frame.clone();
            let changed = changing(text, packet.into(), &frame).apply(&mut got);
            assert_eq!(changed, got != frame);
            assert_eq!(got[..42], frame[..42]);
            errors += flipped(&frame, &got);
        }
        // 6.2 standard deviations.
        let bits = 8000.0 * f64::from(packets);
        let bound = 6.2 * (bits * ratio * (1.0 - ratio)).sqrt();
        assert!((f64::from(errors) - bits * ratio).abs() < bound, "{text}: {errors}");
    }
}
