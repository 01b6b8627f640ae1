//! Packets longer than an MTU limit: dropped, reported, or fragmented.

use super::tests::{count, engine, even, feed};
use super::*;
use crate::key::tests::udp_frame;

const MS: u64 = 1_000_000;

/// The packets of these frames, 10 ms apart.
fn metas(engine: &Engine, frames: &[Vec<u8>]) -> Vec<Meta> {
    let meta = |(i, frame): (u64, &Vec<u8>)| engine.meta(i as u32, MS + i * 10 * MS, frame);
    (0..).zip(frames).map(meta).collect()
}

/// A datagram of this many bytes of IP, without or with the don't-fragment bit.
fn frame(ip_bytes: usize, dont_fragment: bool) -> Vec<u8> {
    let mut frame = udp_frame((1, 2), &vec![7; ip_bytes - 28]);
    frame[20] = if dont_fragment { 0x40 } else { 0 };
    frame
}

fn verdicts(dispositions: &[Disposition]) -> Vec<(Verdict, Option<u32>)> {
    dispositions.iter().map(|one| (one.verdict, one.reported_mtu())).collect()
}

#[test]
fn only_ip_packets_above_the_limit_are_dropped() {
    let mut engine = engine("mtu 1000");
    let mut other = frame(1400, true);
    other[12] = 0x90;
    let mut tagged = frame(1000, true);
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    let frames = [frame(1000, true), frame(1001, true), frame(1400, false), other, tagged];
    let of = metas(&engine, &frames);
    let dispositions = feed(&mut engine, &of);
    let (sent, lost) = ((Verdict::Forwarded, None), (Verdict::Lost, None));
    assert_eq!(verdicts(&dispositions), [sent, lost, lost, sent, sent]);
    let counters = engine.flows[0].counters;
    assert_eq!(
        (counters.lost_packets, counters.too_long_packets, counters.too_big_messages),
        (2, 2, 0)
    );
}

#[test]
fn the_limit_is_reported_to_senders_that_may_be_answered() {
    let mut engine = engine("mtu 1000 icmp");
    let mut to_group = frame(1400, true);
    to_group[30] = 239;
    let frames = [frame(1400, true), frame(1400, false), to_group, frame(999, true)];
    let of = metas(&engine, &frames);
    let dispositions = feed(&mut engine, &of);
    assert_eq!(
        verdicts(&dispositions),
        [
            (Verdict::Lost, Some(1000)),
            (Verdict::Lost, Some(1000)),
            (Verdict::Lost, None),
            (Verdict::Forwarded, None)
        ]
    );
    let counters = engine.flows[0].counters;
    assert_eq!((counters.too_long_packets, counters.too_big_messages), (3, 2));
}

#[test]
fn messages_are_limited() {
    let mut engine = engine("mtu 1000 icmp");
    let frame = frame(1400, true);
    let mut reported = |t: u64, packets: u32| {
        let metas: Vec<Meta> = (0..packets).map(|i| engine.meta(i, t, &frame)).collect();
        feed(&mut engine, &metas).iter().filter(|one| one.reported_mtu().is_some()).count()
    };
    assert_eq!(reported(MS, 200), 50);
    assert_eq!(reported(2 * MS, 200), 1);
    assert_eq!(reported(12 * MS, 200), 10);
    assert_eq!(reported(1000 * MS, 200), 50);
}

#[test]
fn fragments_are_packets_of_their_own() {
    // 1380 bytes of data in fragments of 976, the multiple of 8 below 1000 − 20. With framing they are 1014 and 442 bytes at 1 Mbit/s.
    let mut engine = engine("mtu 1000 fragment, rate 1M");
    let frames = [frame(1400, false), frame(1400, true)];
    let of = metas(&engine, &frames);
    let dispositions = feed(&mut engine, &of);
    let sent: Vec<&Disposition> =
        dispositions.iter().filter(|one| one.verdict == Verdict::Forwarded).collect();
    let left: Vec<_> = sent.iter().map(|one| (one.index, one.length, one.at_ns - MS)).collect();
    assert_eq!(left, [(0, 34 + 976, 8_112_000), (0, 34 + 404, 8_112_000 + 3_536_000)]);
    let parts: Vec<Vec<u8>> =
        sent.iter().map(|one| one.part().unwrap().of(&frames[0]).unwrap()).collect();
    assert_eq!(parts.iter().map(|part| part.len() - 34).sum::<usize>(), 1380);
    assert_eq!([parts[0][20], parts[1][20]], [0x20, 0], "more fragments follow the first alone");
    assert_eq!(parts[1][21], 122, "976 bytes, in units of 8");
    // What may not be fragmented is reported.
    assert_eq!(count(&dispositions, Verdict::Copied), 1);
    assert_eq!(dispositions.iter().find_map(Disposition::reported_mtu), Some(1000));
    let c = engine.flows[0].counters;
    assert_eq!(
        (c.received_packets, c.added_fragments, c.sent_packets, c.lost_packets),
        (2, 1, 2, 1)
    );
    assert_eq!((c.reordered_packets, c.sent_bytes), (0, 1380 + 2 * 34));
}

#[test]
fn a_packet_of_too_many_fragments_is_dropped() {
    let mut engine = engine("mtu 68 fragment");
    // 48 bytes each.
    let frames = [frame(20 + 127 * 48, false), frame(20 + 127 * 48 + 1, false)];
    let of = metas(&engine, &frames);
    let dispositions = feed(&mut engine, &of);
    assert_eq!(count(&dispositions, Verdict::Forwarded), 127);
    assert_eq!(count(&dispositions, Verdict::Lost), 1);
}

#[test]
fn the_limit_acts_at_its_own_time() {
    let mut engine = engine("delay 30ms, mtu 1000 icmp, order delay mtu");
    let of = metas(&engine, &[frame(1400, true)]);
    let mut dispositions = vec![];
    engine.step(MS, &of, &mut dispositions);
    assert_eq!((dispositions.len(), engine.next_deadline_ns()), (0, Some(31 * MS)));
    engine.step(31 * MS, &[], &mut dispositions);
    assert_eq!(verdicts(&dispositions), [(Verdict::Lost, Some(1000))]);
    assert_eq!(dispositions[0].at_ns, 31 * MS);
}

#[test]
fn content_changes_in_fragments_stay_within_them() {
    let mut engine = engine("mtu 600 fragment, corrupt 100% random 64 at l4");
    let frames = [frame(1400, false)];
    let of = metas(&engine, &frames);
    let mut dispositions = vec![];
    engine.step(MS, &of, &mut dispositions);
    let sent: Vec<_> =
        dispositions.iter().filter(|one| one.verdict == Verdict::Forwarded).collect();
    assert_eq!(sent.len(), 3);
    for one in sent {
        let mut bytes = one.part().unwrap().of(&frames[0]).unwrap();
        assert_eq!(bytes.len(), one.length as usize);
        assert!(engine.edit(one).unwrap().apply(&mut bytes));
    }
}

#[test]
fn a_limit_of_the_timeline_is_known_before() {
    let config = Impairment::parse(
        "schema = \"weir.impair/1\"\n[timeline]\nchange = [{ at = \"15ms\", both = \"mtu 1000 icmp\" }]",
    );
    let mut engine = Engine::new(&config.unwrap(), Direction::Forward).unwrap();
    let of = metas(&engine, &vec![frame(1400, true); 4]);
    let mut dispositions = vec![];
    engine.step(40 * MS, &of, &mut dispositions);
    let reported: Vec<_> = dispositions.iter().map(Disposition::reported_mtu).collect();
    assert_eq!(reported, [None, None, Some(1000), Some(1000)]);
}

#[test]
fn packets_of_a_known_length_alone_are_limited_too() {
    let dispositions = feed(&mut engine("mtu 985 icmp"), &even(2, MS));
    assert_eq!(verdicts(&dispositions), [(Verdict::Lost, None); 2]);
    assert_eq!(count(&feed(&mut engine("mtu 986 icmp"), &even(2, MS)), Verdict::Forwarded), 2);
}
