//! Fuzz bodies: functions that take hostile bytes and check invariants.

use std::sync::LazyLock;

use crate::classify::{RareFilters, RareMatch};
use crate::edit::EcnChange;
use crate::key::Key;
use crate::{Disposition, Edit, Engine, Meta, Verdict};
use weir_laws::{Direction, DrawPosition, Philox};
use weir_model::impairment::{Change, Checksum, Filter, Impairment};

/// Checks that the layers of any frame are in order and inside it, that either a condition or its negation matches, and that any
/// edit keeps its length.
pub fn fuzz_frame(data: &[u8]) {
    let (choice, frame) = data.split_first().unwrap_or((&0, &[]));
    let (_, layers) = Key::of_frame(frame);
    assert!(layers.l3 <= layers.l4 && layers.l4 <= layers.payload && layers.payload <= layers.end);
    assert!(layers.end as usize <= frame.len());
    check_filters(frame);
    let mut meta = Meta::of_frame(0, 0, frame, 9347);
    meta.limited_to(0, frame);
    if let Some((link, header)) = meta.too_long.headers() {
        assert_eq!((link, link + header), (layers.l3, layers.l4));
    }
    let checksums = [Checksum::Repair, Checksum::Leave, Checksum::Checksum];
    let mut edited = frame.to_vec();
    let few = u32::from(choice >> 2);
    let change = match choice % 7 {
        0 => None,
        1 => Some(Change::Random(few)),
        3 => Some(Change::Swap(few)),
        4 => "00ff/f00f".parse().ok().map(Change::Set),
        6 => Some(Change::BitErrors(0.1)),
        _ => Some(Change::Flip(few)),
    };
    let ecn = [None, Some(EcnChange::Mark), Some(EcnChange::Bleach)][usize::from(choice % 3)];
    let dscp = [None, Some(choice >> 2)][usize::from(choice & 1)];
    let reported = Edit {
        ecn,
        dscp,
        philox: Philox::new((*choice).into()),
        position: DrawPosition { flow: 1, direction: Direction::Forward, slot: 4, packet: 2 },
        copy: 0,
        change: change.clone(),
        checksum: checksums[usize::from(choice & 3).min(2)],
        from: [0, layers.l3, layers.l4, layers.payload][usize::from(choice >> 6)],
        to: layers.end,
    }
    .apply(&mut edited);
    assert_eq!(edited.len(), frame.len());
    // A mark or a DSCP is no change of content.
    let is_marked = ecn == Some(EcnChange::Mark) || dscp.is_some();
    if !is_marked {
        assert!(reported || edited == frame);
    }
    if matches!(change, Some(Change::Flip(_))) {
        assert!(is_marked || reported == (edited != frame));
        let changed: u32 = edited.iter().zip(frame).map(|(a, b)| (a ^ b).count_ones()).sum();
        // With repair, each flip may also change two checksums; the traffic class has 8 bits and the checksum of its header.
        assert!(changed <= few + 48 + 16 + 24);
    }
}

/// Checks that each condition on a rare field matches a frame, or else its negation does.
fn check_filters(frame: &[u8]) {
    type Make = fn(&str) -> Filter;
    static PAIRS: LazyLock<Vec<[RareFilters; 2]>> = LazyLock::new(|| {
        let conditions: [(Make, &str); 8] = [
            (|c| Filter { tcp_flags: c.parse().ok(), ..Filter::default() }, "syn/syn,ack"),
            (|c| Filter { icmp: c.parse().ok(), ..Filter::default() }, "3/4,8-11"),
            (|c| Filter { icmpv6: c.parse().ok(), ..Filter::default() }, "1-128"),
            (|c| Filter { fragment: c.parse().ok(), ..Filter::default() }, "first"),
            (|c| Filter { inner_vlan: c.parse().ok(), ..Filter::default() }, "0-9"),
            (|c| Filter { mpls_label: c.parse().ok(), ..Filter::default() }, "0-99999"),
            (|c| Filter { bytes: c.parse().ok(), ..Filter::default() }, "00/01 at l4+13"),
            (|c| Filter { bytes: c.parse().ok(), ..Filter::default() }, "00/01 at payload+3"),
        ];
        let filters = |filter: Filter| RareFilters::of(&[filter]);
        let pair = |(filter, text): (Make, &str)| {
            Some([filters(filter(text))?, filters(filter(&format!("not {text}")))?])
        };
        conditions.into_iter().map(|one| pair(one).expect("a rare field")).collect()
    });
    let (key, layers) = Key::of_frame(frame);
    for pair in PAIRS.iter() {
        let [is, is_not] = pair
            .each_ref()
            .map(|filters| filters.matching(None, frame, &key, &layers) != RareMatch::NONE);
        assert!(is != is_not);
    }
}

/// Laws in one line, a zero byte, then packets: checks that packets are conserved and none is early.
pub fn fuzz_engine(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let text = parts.next().and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("");
    let Ok(laws) = text.parse() else { return };
    let config = Impairment { memory: "64K".parse().ok(), ..Impairment::of_both(laws) };
    let Ok(mut engine) = Engine::new(&config, Direction::Reverse) else { return };
    let (mut now, mut arrived, mut dispositions) = (0u64, 0u64, Vec::<Disposition>::new());
    for chunk in parts.next().unwrap_or(&[]).chunks(3).take(5000) {
        now += u64::from(chunk[0]) << (chunk[0] & 15);
        let length = u32::from(*chunk.get(1).unwrap_or(&0)) * 37;
        let stamp = now.saturating_sub(u64::from(*chunk.get(2).unwrap_or(&0)));
        engine.step(now, &[Meta::opaque(arrived as u32, stamp, length)], &mut dispositions);
        arrived += 1;
        assert!(engine.next_deadline_ns().is_none_or(|next| next > now));
    }
    let leaves = |dispositions: &[Disposition]| {
        dispositions.iter().filter(|f| f.verdict != Verdict::Copied).count()
    };
    let copies = dispositions.iter().filter(|f| f.verdict == Verdict::Copied).count();
    assert_eq!(arrived as usize + copies, leaves(&dispositions) + engine.held_packets() as usize);
    for _ in 0..64 {
        let Some(next) = engine.next_deadline_ns() else { break };
        engine.step(next, &[], &mut dispositions);
    }
    engine.abandon(&mut dispositions);
    assert_eq!((engine.held_packets(), engine.held_bytes()), (0, 0));
    let copies = dispositions.iter().filter(|f| f.verdict == Verdict::Copied).count();
    assert_eq!(arrived as usize + copies, leaves(&dispositions));
    assert!(
        dispositions.iter().all(|f| f.verdict != Verdict::Forwarded || f.at_ns >= f.arrived_ns)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::udp_frame;
    use weir_laws::mutation::replay;

    /// Regressions found by fuzzing: an edit of no bits changed a UDP frame without a checksum; a packet
    /// left before its arrival, because another packet's stamp had gone back.
    #[test]
    fn found() {
        let mut frame = udp_frame((1000, 2000), b"some payload");
        let at = frame.len() - b"some payload".len() - 2;
        frame[at..at + 2].fill(0);
        frame.insert(0, 2);
        fuzz_frame(&frame);
        let mut packets = "delay 0 ± 1m\0".as_bytes().to_vec();
        packets.extend(b"1!111");
        packets.extend([0; 72]);
        packets.extend(b", 00,\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7fder'\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff09");
        fuzz_engine(&packets);
    }

    #[test]
    fn frames() {
        for choice in [0x11, 0x46, 0x9d, 0xd4, 0xff] {
            let mut data = vec![choice];
            data.extend(udp_frame((1000, 2000), b"some payload"));
            replay(&[&data], 3000, fuzz_frame);
            let mut tagged = data.clone();
            tagged.splice(13..13, [0x81, 0x00, 0x00, 0x09]);
            replay(&[&tagged], 1000, fuzz_frame);
            let mut stacked = data.clone();
            stacked[24] = 6;
            stacked.splice(13..13, [0x88, 0xa8, 0x60, 0x07, 0x81, 0x00, 0x00, 0x09]);
            replay(&[&stacked], 1000, fuzz_frame);
            let mut mpls = data.clone();
            mpls.splice(13..15, [0x88, 0x47, 0x12, 0x34, 0x51, 0x40]);
            replay(&[&mpls], 1000, fuzz_frame);
            let mut v6 = data[..13].to_vec();
            v6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 44, 64]);
            v6.extend([0xfe; 32]);
            v6.extend([58, 0, 0, 1, 0, 0, 0, 9, 128, 0, 1, 2, 3, 4, 5, 6]);
            replay(&[&v6], 3000, fuzz_frame);
        }
    }

    #[test]
    fn engines() {
        for laws in [
            "loss 9%, duplicate 20%, delay 1ms +-1ms allow",
            "loss 9% run 3, duplicate 20%, rate 9M queue 9packets, delay 1ms +-1ms exponential",
            "duplicate 50%, delay 1us..99us max, rate 1G, order delay rate",
            "delay 9us +-9us, rate 100M queue 1ms, corrupt 9%, order delay loss rate",
            "duplicate 20% 50% copies 3 after 50us, rate 9M queue 9packets, reorder 20% by 3packets within 1ms, batch 4 within 9us",
            "delay 9us, reorder every 3 by 20us ahead, batch every 100us packets 2, order delay batch reorder rate",
            "rate 9M queue 9packets head_drop, duplicate 50%",
            "delay 9us +-9us, rate 9M queue 1ms codel target 1us interval 99us ecn, order delay rate",
            "rate 9M queue 999K red min 1K max 9K weight 0.5 gentle, delay 9us +-9us allow",
            "rate 9M queue 9packets fq_codel flows 3 quantum 256 target 1us interval 99us, reorder 20%",
            "duplicate 50%, rate 9M pie target 9us update 1ms, batch 4 within 9us",
            "rate 9M queue 20packets dualpi2 target 9us update 1ms step 1us",
            "loss 9%, delay 9us +-9us, reorder 20%, trigger after 9packets stop after 50us rearm",
            "rate 9M queue 9packets, batch 4 within 9us, trigger after 9us stop after 1K rearm repeat 3",
            "police 9M burst 3K, rate 9M burst 4K peak 20M queue 9packets background 50% run 3, duplicate 20%",
            "delay 9us +-9us allow, mtu 900 icmp, rate 9M burst 1K codel, order delay mtu",
            "duplicate every 2 after exponential(mean=9us), reorder 50% by 2packets ahead within 5us, delay 1us..9us allow",
        ] {
            let mut data = laws.as_bytes().to_vec();
            data.push(0);
            data.extend((0..2000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8));
            replay(&[&data], 200, fuzz_engine);
        }
    }
}
