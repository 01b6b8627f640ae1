//! What laws need of the engine: the time since the first packet, the length, the ECN field, and states of their own.

use super::tests::{both, control, count, engine, even, feed};
use super::*;
use crate::key::tests::udp_frame;
use weir_wire::checksum::Sum;

const MS: u64 = 1_000_000;

/// Numbers of the lost packets, from 1.
fn lost(dispositions: &[Disposition]) -> Vec<u64> {
    let lost = dispositions.iter().filter(|one| one.verdict == Verdict::Lost);
    lost.map(|one| one.index + 1).collect()
}

/// Packets every 10 ms, the first at `start`.
fn later(start: u64, count: u64) -> Vec<Meta> {
    (0..count).map(|i| Meta::opaque(i as u32, start + i * 10 * MS, 100)).collect()
}

#[test]
fn times_count_from_the_first_packet() {
    let text = "loss schedule(down=20ms..40ms), delay step(from=0s, to=5ms, at=50ms)";
    for start in [0, 7_777 * MS] {
        let dispositions = feed(&mut engine(text), &later(start, 8));
        assert_eq!(lost(&dispositions), [3, 4]);
        let sent = dispositions.iter().filter(|one| one.verdict == Verdict::Forwarded);
        let delays: Vec<u64> = sent.map(|one| (one.at_ns - one.arrived_ns) / MS).collect();
        assert_eq!(delays, [0, 0, 0, 5, 5, 5]);
    }
}

#[test]
fn other_laws_start_again_and_unchanged_ones_do_not() {
    let text = "loss schedule(down=20ms..40ms, every=1h)";
    let mut engine = engine(text);
    assert_eq!(lost(&feed(&mut engine, &later(0, 3))), [3]);
    engine.configure(&both(&format!("{text}, duplicate 0%"))).unwrap();
    assert_eq!(lost(&feed(&mut engine, &later(30 * MS, 3))), [4]);
    engine.configure(&both("loss schedule(down=20ms..40ms, every=2h)")).unwrap();
    assert_eq!(lost(&feed(&mut engine, &later(60 * MS, 4))), [9, 10]);
}

#[test]
fn bit_errors_depend_on_the_length() {
    let of = |bytes| {
        let metas = (0..20_000).map(|i| Meta::opaque(i, u64::from(i), bytes));
        count(&feed(&mut engine("loss ber 1e-5"), &metas.collect::<Vec<_>>()), Verdict::Lost)
    };
    // 2265 and 96 of 20 000, ± 6.2 standard deviations.
    let (long, short) = (of(1500), of(60));
    assert!((1987..2543).contains(&long) && (36..157).contains(&short), "{long} {short}");
}

#[test]
fn an_outage_is_the_same_for_control_traffic() {
    let text = "loss outage(interval=exponential(mean=30ms), duration=exponential(mean=30ms))";
    // A packet of each kind at each time.
    let metas: Vec<Meta> =
        (0..2000).flat_map(|i| [Meta::opaque(0, i * MS, 100), control(0, i * MS)]).collect();
    let dispositions = feed(&mut engine(text), &metas);
    assert!(count(&dispositions, Verdict::Lost) > 100);
    for pair in dispositions.chunks(2) {
        assert_eq!(pair[0].verdict, pair[1].verdict);
    }
}

#[test]
fn a_delay_state_of_control_traffic_is_its_own() {
    for text in [
        "delay 40ms ±5ms correlation 90% allow",
        "delay values(1ms, 2ms, 3ms) allow",
        "delay 40ms ±5ms half-life 1s allow",
    ] {
        let delays = |dispositions: Vec<Disposition>| {
            let mut own: Vec<(u64, u64)> = dispositions
                .iter()
                .filter(|one| one.flags & FLAG_CONTROL == 0)
                .map(|one| (one.arrived_ns, one.at_ns))
                .collect();
            own.sort_unstable();
            own
        };
        let alone = delays(feed(&mut engine(text), &even(300, MS)));
        let mixed = even(300, MS).into_iter().flat_map(|meta| {
            let is_shown = meta.arrived_ns % (3 * MS) == 0 && meta.arrived_ns > 0;
            std::iter::once(meta).chain(is_shown.then(|| control(0, meta.arrived_ns)))
        });
        assert_eq!(delays(feed(&mut engine(text), &mixed.collect::<Vec<_>>())), alone, "{text}");
    }
}

#[test]
fn smooth_keeps_order_mean_and_deviation() {
    let n = 200_000;
    // 0.1 ms apart, where fifo-release leaves 1 ms of the 5 ms.
    let text = "delay 40ms ±5ms normal smooth half-life 500ms";
    let dispositions = feed(&mut engine(text), &even(n, MS / 10));
    assert!(dispositions.iter().zip(0..).all(|(one, index)| one.index == index));
    let delays: Vec<f64> =
        dispositions.iter().map(|one| (one.at_ns - one.arrived_ns) as f64 / 1e6).collect();
    let mean = delays.iter().sum::<f64>() / n as f64;
    let square = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / n as f64;
    // 20 s are about 14 independent delays (2·τ/ln 2 each): mean ± 5/√14 ms, 3 standard deviations; the seed is fixed.
    assert!((mean - 40.0).abs() < 4.0, "{mean}");
    assert!((2.5..7.5).contains(&square.sqrt()), "{square}");
    // 1 s apart, two half-lives, the delays are nearly independent.
    let far = feed(&mut engine(text), &even(20_000, 1000 * MS));
    let delays: Vec<f64> =
        far.iter().map(|one| (one.at_ns - one.arrived_ns) as f64 / 1e6).collect();
    let mean = delays.iter().sum::<f64>() / 20_000.0;
    let square = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / 20_000.0;
    // ρ = ¼: the variance of the mean is that of independent delays times 5/3; 6.2 standard deviations.
    assert!((mean - 40.0).abs() < 6.2 * 5.0 * (5.0 / 3.0 / 20_000f64).sqrt(), "{mean}");
    assert!((square.sqrt() - 5.0).abs() < 0.18, "{square}");
}

#[test]
fn bit_errors_change_longer_packets_more_often() {
    for bytes in [20, 200] {
        let mut engine = engine("corrupt 100% ber 1e-3");
        let frame = udp_frame((9, 2), &vec![7; bytes]);
        let is_changed = |_| pass(&mut engine, &frame).1 != frame;
        let changed = (0..20_000).map(is_changed).filter(|changed| *changed).count() as f64;
        assert_eq!(changed, engine.flows[0].counters.modified_packets as f64);
        // Of 20 000, ± 6.2 standard deviations.
        let share = 1.0 - 0.999f64.powi(8 * bytes as i32);
        let bound = 6.2 * (20_000.0 * share * (1.0 - share)).sqrt();
        assert!((changed - 20_000.0 * share).abs() < bound, "{bytes}: {changed}");
    }
}

/// A frame with an ECN field.
fn with_ecn(ecn: u8) -> Vec<u8> {
    let mut frame = udp_frame((9, 2), b"payload");
    frame[15] = frame[15] & !3 | ecn;
    let sum = Sum::new().add_bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Passes a frame, and returns its disposition with the bytes that leave.
fn pass(engine: &mut Engine, frame: &[u8]) -> (Disposition, Vec<u8>) {
    let mut dispositions = vec![];
    let meta = engine.meta(1, engine.clock_ns + 1, frame);
    engine.step(meta.arrived_ns, &[meta], &mut dispositions);
    let mut disposition = dispositions[0];
    let mut bytes = frame.to_vec();
    let is_unchanged =
        engine.edit(&disposition).cloned().is_some_and(|edit| !edit.apply(&mut bytes));
    if is_unchanged {
        engine.unmodified(&mut disposition);
    }
    (disposition, bytes)
}

#[test]
fn ecn_capable_packets_are_marked_instead_of_dropped() {
    let mut engine = engine("loss 100% ecn");
    for (ecn, verdict) in [
        (0, Verdict::Lost),
        (1, Verdict::Forwarded),
        (2, Verdict::Forwarded),
        (3, Verdict::Forwarded),
    ] {
        let (disposition, bytes) = pass(&mut engine, &with_ecn(ecn));
        assert_eq!(disposition.verdict, verdict, "{ecn}");
        if verdict == Verdict::Forwarded {
            assert_eq!(disposition.flags, FLAG_MARKED, "{ecn}");
            assert_eq!(bytes, with_ecn(3), "{ecn}");
        }
    }
    let counters = engine.flows[0].counters;
    assert_eq!((counters.marked_packets, counters.lost_packets), (3, 1));
    assert_eq!(counters.modified_packets, 0);
    // Without `ecn` all are lost; frames that are no IP packets cannot be marked.
    assert_eq!(pass(&mut super::tests::engine("loss 100%"), &with_ecn(2)).0.verdict, Verdict::Lost);
    assert_eq!(pass(&mut engine, &[0xff; 60]).0.verdict, Verdict::Lost);
}

#[test]
fn a_mark_and_flipped_bits_are_applied_together() {
    let mut engine = engine("loss 100% ecn, corrupt 100% repair flip 3");
    let (disposition, bytes) = pass(&mut engine, &with_ecn(2));
    assert_eq!(disposition.flags, FLAG_MARKED | FLAG_MODIFIED);
    let marked = with_ecn(3);
    assert_eq!(bytes[..34], marked[..34]);
    assert!(bytes[42..] != marked[42..]);
    assert_eq!(engine.flows[0].counters.modified_packets, 1);
}

#[test]
fn bleaching_clears_the_field_and_marks() {
    for text in ["corrupt bleach-ecn 100%", "loss 100% ecn, corrupt bleach-ecn 100%"] {
        for ecn in 1..4 {
            let (disposition, bytes) = pass(&mut engine(text), &with_ecn(ecn));
            assert_eq!(disposition.flags & FLAG_MODIFIED, FLAG_MODIFIED, "{text}: {ecn}");
            assert_eq!(bytes, with_ecn(0), "{text}: {ecn}");
        }
    }
    let mut engine = engine("corrupt bleach-ecn 100%");
    let (disposition, bytes) = pass(&mut engine, &with_ecn(0));
    assert_eq!((disposition.flags, bytes), (0, with_ecn(0)));
    assert_eq!(engine.flows[0].counters.modified_packets, 0);
    // About half of them, with draws of their own.
    let mut engine = super::tests::engine("corrupt 50% bleach-ecn 50%");
    let (mut flipped, mut bleached, mut both) = (0, 0, 0);
    for _ in 0..2000 {
        let (_, bytes) = pass(&mut engine, &with_ecn(2));
        let (is_flipped, is_bleached) = (bytes[42..] != with_ecn(2)[42..], bytes[15] & 3 == 0);
        flipped += u32::from(is_flipped);
        bleached += u32::from(is_bleached);
        both += u32::from(is_flipped && is_bleached);
    }
    // ± 6.2 standard deviations.
    assert!(
        (862..1138).contains(&flipped) && (862..1138).contains(&bleached),
        "{flipped} {bleached}"
    );
    assert!((380..620).contains(&both), "{both}");
}

#[test]
fn ipv6_packets_are_marked_and_bleached() {
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xdd, 0x6b, 0xa0, 0, 0, 0, 8, 17, 64]);
    frame.extend([1; 32]);
    frame.extend([0, 9, 0, 7, 0, 8, 1, 2]);
    let (disposition, bytes) = pass(&mut engine("loss 100% ecn"), &frame);
    assert_eq!((disposition.flags, bytes[14], bytes[15]), (FLAG_MARKED, 0x6b, 0xb0));
    let (_, bytes) = pass(&mut engine("corrupt bleach-ecn 100%"), &frame);
    assert_eq!((bytes[14], bytes[15]), (0x6b, 0x80));
    assert_eq!(bytes[16..], frame[16..]);
}

#[test]
fn a_policer_drops_poisson_arrivals_as_theory_says() {
    // Frames of 1000 bytes with 4 of framing less the header's 14: 8 ms of tokens at 1.004 Mbit/s, which is the bucket. One that
    // conforms blocks those of the next 8 ms, so that of arrivals at a rate of λ the fraction ρ/(1 + ρ) is dropped, ρ = λ · 8 ms
    // (Erlang's B formula for one server).
    let (philox, packets) = (Philox::new(3), 200_000_u64);
    for (load, mean_gap_ns) in [(1.0, 8e6), (0.25, 32e6)] {
        let mut t = MS as f64;
        let metas = (0..packets).map(|packet| {
            let position = DrawPosition {
                flow: 1,
                direction: Direction::Forward,
                slot: slot::SPACING,
                packet,
            };
            let unit = (position.draws(&philox).bits() >> 11) as f64 / (1_u64 << 53) as f64;
            t -= mean_gap_ns * (1.0 - unit).ln();
            Meta::opaque(packet as u32, t as u64, 1000)
        });
        let mut engine = engine("police 1004k burst 1004");
        let dispositions = feed(&mut engine, &metas.collect::<Vec<_>>());
        let dropped = count(&dispositions, Verdict::Lost);
        let counters = engine.flows[0].counters;
        assert_eq!((counters.lost_packets, counters.policed_packets), (dropped, dropped));
        let fraction = dropped as f64 / packets as f64;
        // The drops of each busy period are Poisson with mean ρ; 6.2 standard deviations of their ratio to all packets.
        let periods = packets as f64 / (1.0 + load);
        let deviation = (load / periods).sqrt() / (1.0 + load) / (1.0 + load);
        let theory = load / (1.0 + load);
        assert!((fraction - theory).abs() < 6.2 * deviation, "{fraction} {theory} ± {deviation}");
    }
}

#[test]
fn a_policer_marks_capable_packets_instead() {
    let mut frame = udp_frame((1, 2), &[0; 958]);
    let mut engine = engine("police 1004k burst 1004 ecn");
    let mut marked = |ecn: u8| {
        frame[15] = ecn;
        let metas: Vec<Meta> = (0..2).map(|i| engine.meta(i, MS, &frame)).collect();
        let of = feed(&mut engine, &metas);
        of.iter().map(|one| (one.verdict, one.flags & FLAG_MARKED != 0)).collect::<Vec<_>>()
    };
    // 1000 bytes: the first has the bucket, all others are in excess of it.
    assert_eq!(marked(2), [(Verdict::Forwarded, false), (Verdict::Forwarded, true)]);
    assert_eq!(marked(0), [(Verdict::Lost, false), (Verdict::Lost, false)]);
    let counters = engine.flows[0].counters;
    assert_eq!((counters.marked_packets, counters.policed_packets), (1, 2));
}

#[test]
fn a_policer_sets_the_dscp_of_each_colour() {
    let header_sum = |frame: &[u8]| {
        let words =
            frame[14..34].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
        let sum: u32 = words.sum();
        (sum & 0xffff) + (sum >> 16)
    };
    let mut frame = udp_frame((1, 2), &[0; 958]);
    // EF, ECN-capable, with the checksum of its header.
    frame[15] = 46 << 2 | 2;
    frame[24..26].fill(0);
    let sum = !(header_sum(&frame) as u16);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let laws = "police 1004k burst 1004 excess 1004 green dscp af11 yellow dscp af12 red dscp af13, rate 10M";
    let mut engine = engine(&format!("{laws} codel"));
    let metas: Vec<Meta> = (0..3).map(|i| engine.meta(i, MS, &frame)).collect();
    let (mut now, mut seen) = (MS, vec![]);
    engine.step(now, &metas, &mut vec![]);
    while let Some(next) = engine.next_deadline_ns() {
        now = next;
        let mut out = vec![];
        engine.step(now, &[], &mut out);
        for one in out {
            let mut changed = frame.clone();
            let edit = engine.edit(&one).unwrap();
            assert!(edit.apply(&mut changed) && edit.repairs_checksums());
            // Not a change of content; the ECN field stays, and the header has a valid checksum.
            assert_eq!(one.flags & (FLAG_MODIFIED | FLAG_MARKED), 0);
            assert_eq!((changed[15] & 3, header_sum(&changed)), (2, 0xffff));
            assert_eq!(frame[26..], changed[26..]);
            seen.push(changed[15] >> 2);
        }
    }
    assert_eq!(seen, [10, 12, 14]);
    let Counters { yellow_packets, red_packets, remarked_packets, lost_packets, .. } =
        engine.flows[0].counters;
    assert_eq!((yellow_packets, red_packets, remarked_packets, lost_packets), (1, 1, 3, 0));
}

#[test]
fn a_colour_aware_policer_reads_the_dscp() {
    let mut engine =
        engine("police 1004k burst 4K excess 4K yellow dscp af12 red drop colour-aware");
    let mut frame = udp_frame((1, 2), &[0; 958]);
    for (dscp, yellow) in [(46, 0), (12, 1), (14, 1)] {
        frame[15] = dscp << 2;
        let meta = engine.meta(0, MS, &frame);
        let out = feed(&mut engine, &[meta]);
        assert_eq!(engine.flows[0].counters.yellow_packets, yellow, "{dscp}");
        assert_eq!(count(&out, Verdict::Forwarded), 1);
    }
    // A frame without a DSCP arrives green and is not marked.
    let mut arp = vec![0; 1000];
    arp[12..14].copy_from_slice(&[0x88, 0xb5]);
    let meta = engine.meta(0, MS, &arp);
    let out = feed(&mut engine, &[meta]);
    assert!(out.iter().all(|one| engine.edit(one).is_none()));
    assert_eq!(engine.flows[0].counters.remarked_packets, 1);
}

#[test]
fn a_policer_keeps_its_tokens_when_other_laws_change() {
    let mut engine = engine("police 1M burst 1004");
    let sent = |of: Vec<Disposition>| count(&of, Verdict::Forwarded);
    assert_eq!(sent(feed(&mut engine, &even(2, 0))), 1);
    for (laws, passes) in [
        ("police 1M burst 1004, delay 1ms", 0),
        ("police 1M burst 1004, loss 0%", 0),
        ("police 2M burst 1004", 1),
    ] {
        engine.configure(&both(laws)).unwrap();
        assert_eq!(sent(feed(&mut engine, &even(2, 0))), passes, "{laws}");
    }
}

#[test]
fn flows_of_an_aggregate_share_a_policer() {
    let config = Impairment::parse(
        "schema = \"weir.impair/1\"\n[[flow]]\nname = \"a\"\nfilter = { length = \"1000\" }\n[[flow]]\nname = \"b\"\n\
         [[aggregate]]\nflows = [\"a\", \"b\"]\na_to_b = { police = { bits = \"1M\", burst = 1600 } }",
    );
    let mut engine = Engine::new(&config.unwrap(), Direction::Forward).unwrap();
    let metas = [1000, 600, 500].map(|bytes| Meta::opaque(0, MS, bytes));
    let verdicts: Vec<Verdict> = feed(&mut engine, &metas).iter().map(|one| one.verdict).collect();
    assert_eq!(verdicts, [Verdict::Forwarded, Verdict::Lost, Verdict::Forwarded]);
}

#[test]
fn packets_wait_for_background_load_as_theory_says() {
    // Packets of other traffic take S = 1.012 ms each. The mean of the work that small packets find is that of a queue with Poisson
    // arrivals of bursts (Pollaczek and Khinchine), ρ·S·E[N²]/E[N]/(2·(1 − ρ)), with 2·run − 1 for a geometric number N; and they find
    // none with probability 1 − ρ. Bounds: 6.2 standard deviations, with the relaxation time of the queue for the second law.
    for (text, load, run, bound_ms) in [
        ("rate 12M queue 10s background 30%", 0.3, 1.0, 0.012),
        ("rate 12M queue 10s background 60% run 8", 0.6, 8.0, 1.5),
    ] {
        let probes = 100_000;
        let metas: Vec<Meta> =
            (0..probes).map(|i| Meta::opaque(i as u32, MS + i * 10 * MS, 14)).collect();
        let dispositions = feed(&mut engine(text), &metas);
        // Their own 18 bytes take 12 µs.
        let waits: Vec<f64> = dispositions
            .iter()
            .map(|one| (one.at_ns - one.arrived_ns) as f64 / 1e6 - 0.012)
            .collect();
        let mean = waits.iter().sum::<f64>() / probes as f64;
        let theory = load * 1.012 * (2.0 * run - 1.0) / (2.0 * (1.0 - load));
        assert!((mean - theory).abs() < bound_ms, "{text}: {mean} ms, {theory} ms");
        let idle = waits.iter().filter(|wait| **wait < 1e-6).count() as f64 / probes as f64;
        let correlation = 2.0 * run - 1.0;
        let bound = 6.2 * (load * (1.0 - load) * correlation / probes as f64).sqrt();
        assert!((idle - (1.0 - load)).abs() < bound + 0.003, "{text}: {idle} ± {bound}");
    }
}

#[test]
fn background_load_takes_room_in_the_queue() {
    // At 99 % of the rate in bursts of 50 packets, a queue of two is mostly full.
    let text = "rate 12M queue 2packets background 99% run 50";
    let dispositions = feed(&mut engine(text), &even(20_000, 10 * MS));
    let dropped = count(&dispositions, Verdict::QueueDropped);
    assert!(dropped > 0 && dropped < 20_000, "{dropped}");
    assert_eq!(
        count(
            &feed(&mut engine("rate 12M queue 2packets"), &even(20_000, 10 * MS)),
            Verdict::QueueDropped
        ),
        0
    );
}

#[test]
fn background_load_goes_on_when_other_laws_change() {
    // All transmissions take whole nanoseconds, so that a new link starts exactly where the old one ends.
    let text = "rate 8M queue 10s background 60% run 8";
    let departures = |changes: bool| {
        let mut engine = engine(text);
        let mut out = vec![];
        for (number, part) in even(2000, MS).chunks(100).enumerate() {
            if changes {
                engine.configure(&both(&format!("{text}, delay {number}ns"))).unwrap();
            }
            for meta in part {
                engine.step(meta.arrived_ns, std::slice::from_ref(meta), &mut out);
            }
        }
        engine.step(u64::MAX >> 1, &[], &mut out);
        let delay = |one: &Disposition| one.at_ns - if changes { one.index / 100 } else { 0 };
        out.iter().map(delay).collect::<Vec<_>>()
    };
    assert_eq!(departures(true), departures(false));
}

#[test]
fn loss_bursts_are_counted_until_they_are_forgotten() {
    let mut engine = engine("loss pattern(lost=0011100010)");
    feed(&mut engine, &later(MS, 40));
    let of = |engine: &Engine| {
        let flow = engine.flow(0).unwrap();
        (flow.counters.lost_packets, flow.counters.loss_bursts, flow.peaks.loss_burst_packets)
    };
    assert_eq!(of(&engine), (16, 8, 3));
    engine.restart_peaks(0);
    assert_eq!(of(&engine), (16, 8, 0));
    // The fourth packet is in the middle of a burst.
    feed(&mut engine, &later(1000 * MS, 4));
    engine.restart_peaks(0);
    feed(&mut engine, &later(2000 * MS, 1));
    assert_eq!(of(&engine), (19, 10, 1));
}

#[test]
fn delays_are_clamped_where_the_law_clamps_them() {
    let clamped = |text: &str| {
        let mut engine = engine(text);
        let dispositions = feed(&mut engine, &even(2000, 100 * MS));
        let at = |ns| dispositions.iter().filter(|one| one.at_ns - one.arrived_ns == ns).count();
        (engine.flow(0).unwrap().counters.clamped_packets, at(0) as u64, at(30 * MS) as u64)
    };
    // Half of a normal law of mean 0 is below 0.
    let (count, zero, _) = clamped("delay 0ms ±5ms normal allow");
    assert!(count == zero && (900..1100).contains(&count), "{count} {zero}");
    let (count, _, most) = clamped("delay 20ms ±20ms exponential most 30ms allow");
    assert!(count == most && (350..550).contains(&count), "{count} {most}");
    let mixed = "delay mixture(normal(mean=20ms, deviation=5ms, max=30ms):1, 10ms:1) allow";
    let (count, zero, most) = clamped(mixed);
    assert!(count == zero + most && most > 0, "{count} {zero} {most}");
    for text in ["delay 0ms", "delay 30ms", "delay 20ms ±1ms normal allow", "delay 0ms..30ms allow"]
    {
        assert_eq!(clamped(text).0, 0, "{text}");
    }
}

#[test]
fn the_longest_queue_is_noted() {
    let of = |text: &str| {
        let mut engine = engine(text);
        feed(&mut engine, &even(100, 1));
        engine.flow(0).unwrap().peaks
    };
    let peaks = of("rate 8M queue 9packets");
    // 1004 bytes on the link, 1004 us each; the frame in transmission does not wait.
    assert_eq!((peaks.queue_packets, peaks.queue_bytes), (9, 9 * 1004));
    assert!((9 * 1_004_000 - 100..=9 * 1_004_000).contains(&peaks.queue_wait_ns), "{peaks:?}");
    let managed = of("rate 8M queue 9packets head_drop");
    assert_eq!((managed.queue_packets, managed.queue_bytes), (9, 9 * 1004));
    let by_time = of("rate 8M queue 9ms");
    assert_eq!((by_time.queue_packets, by_time.queue_bytes), (0, 0));
    assert!((8_000_000..=9_000_000).contains(&by_time.queue_wait_ns), "{by_time:?}");
    assert_eq!(of("delay 5ms, loss 10%").queue_wait_ns, 0);
}
