//! Links with delivery opportunities, compared with times computed by hand and with a model that visits each opportunity.

use std::collections::VecDeque;

use super::tests::{engine, feed};
use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
/// A frame with an Ethernet header that fills an opportunity: 1500 bytes of IP, and the 4 that mahimahi adds.
const FULL: u32 = 1514;

/// An engine whose trace starts at 0.
fn started(laws: &str) -> Engine {
    let mut engine = engine(laws);
    engine.arm(0);
    engine
}

fn packets(times_ms: &[f64], length: u32) -> Vec<Meta> {
    let at = |ms: &f64| (ms * MS as f64) as u64;
    times_ms.iter().map(|ms| Meta::opaque(0, at(ms), length)).collect()
}

/// Index and departure in ms of each packet that leaves, and the indices of those that the queue drops.
fn outcome(dispositions: &[Disposition]) -> (Vec<(u64, f64)>, Vec<u64>) {
    let of = |verdict| dispositions.iter().filter(move |one| one.verdict == verdict);
    let sent = of(Verdict::Forwarded).map(|one| (one.index, one.at_ns as f64 / MS as f64));
    (sent.collect(), of(Verdict::QueueDropped).map(|one| one.index).collect())
}

fn departures(laws: &str, metas: &[Meta]) -> Vec<f64> {
    outcome(&feed(&mut started(laws), metas)).0.into_iter().map(|(_, at)| at).collect()
}

/// The same link, with tail drop and with each AQM that drops nothing here.
fn without_drops(trace: &str) -> Vec<String> {
    let aqms = [
        "",
        "head_drop",
        "codel target 1m interval 1h",
        "fq_codel flows 1 target 1m interval 1h",
        "pie target 1h",
        "red min 1M max 2M",
    ];
    aqms.map(|aqm| format!("rate {trace} queue 1G {aqm}")).into()
}

#[test]
fn packets_leave_at_opportunities_after_their_arrival() {
    for laws in without_drops("trace(0 1 3x3 7)") {
        // An opportunity at the time of arrival is not for the packet, unused ones are lost, and the trace starts again at 7 ms with
        // the opportunity of 0 ms.
        let times = [0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        let expected = [1.0, 3.0, 3.0, 3.0, 7.0, 7.0, 8.0, 10.0, 10.0];
        assert_eq!(departures(&laws, &packets(&times, FULL)), expected, "{laws}");
        // The third of 10 ms was not used, nor is that of 14 ms by a packet that arrives then.
        assert_eq!(
            departures(&laws, &packets(&[9.9, 12.0, 14.0, 700_000.0], FULL)),
            [10.0, 14.0, 15.0, 700_001.0]
        );
    }
}

#[test]
fn a_packet_may_use_several_opportunities_and_several_packets_one() {
    for laws in without_drops("trace(1 2 5x2 6)") {
        // 736 bytes on the link each: two fill an opportunity but for 32 bytes, in which the third starts.
        assert_eq!(
            departures(&laws, &packets(&[0.0; 7], 746)),
            [1.0, 1.0, 2.0, 2.0, 5.0, 5.0, 5.0],
            "{laws}"
        );
        // 3000 bytes use two opportunities but for 8 bytes, which are lost if no packet waits.
        assert_eq!(departures(&laws, &packets(&[0.0, 0.0, 6.5], 3010)), [2.0, 5.0, 8.0], "{laws}");
        // The rest of the opportunity of 2 ms is not for a packet that arrives then.
        assert_eq!(departures(&laws, &packets(&[1.5, 2.0], 24)), [2.0, 5.0], "{laws}");
    }
    // Bytes that are counted can be stated.
    assert_eq!(departures("rate trace(1) overhead 4", &packets(&[0.0; 2], 1514)), [1.0, 2.0]);
    assert_eq!(departures("rate trace(1) overhead 5", &packets(&[0.0; 2], 1514)), [2.0, 3.0]);
}

#[test]
fn the_queue_of_a_trace_has_its_limit() {
    let of = |laws: &str, times: &[f64]| outcome(&feed(&mut started(laws), &packets(times, FULL)));
    // Nothing leaves before 10 ms: unlike on a link with a rate, no packet is in transmission.
    let seven = [0.0; 7];
    assert_eq!(of("rate trace(10x9) queue 3packets", &seven).1, [3, 4, 5, 6]);
    assert_eq!(of("rate trace(10x9) queue 4512", &seven).1, [3, 4, 5, 6]);
    assert_eq!(of("rate trace(10x9) queue 3packets head_drop", &seven).1, [0, 1, 2, 3]);
    // The fourth would wait for 4 ms.
    assert_eq!(of("rate trace(1) queue 3ms", &seven).1, [3, 4, 5, 6]);
    assert_eq!(of("rate trace(1) queue 3ms head_drop", &seven).1.len(), 4 - 1);
    // After an outage a packet may wait longer than the limit, if no other does.
    assert_eq!(
        of("rate trace(1 2 90) queue 3ms", &[3.0, 4.0, 100.0]),
        (vec![(0, 90.0), (2, 180.0)], vec![1])
    );
}

#[test]
fn a_trace_that_is_played_once_drops_what_it_cannot_carry() {
    for aqm in ["", "head_drop", "codel target 1m interval 1h"] {
        let mut engine = started(&format!("rate trace(1 2x2) once queue 1G {aqm}"));
        let (sent, dropped) =
            outcome(&feed(&mut engine, &packets(&[0.0, 0.0, 0.0, 0.0, 3.0], FULL)));
        assert_eq!((sent, dropped), (vec![(0, 1.0), (1, 2.0), (2, 2.0)], vec![3, 4]), "{aqm}");
        assert_eq!(engine.held_packets(), 0);
        // The third is too long for what is left. The fourth, which is not, stays behind it.
        let mut engine = started(&format!("rate trace(1 2) once queue 1G {aqm}"));
        let mut metas = packets(&[0.0; 4], 1014);
        metas[3].length = 64;
        let (sent, dropped) = outcome(&feed(&mut engine, &metas));
        assert_eq!((sent, dropped), (vec![(0, 1.0), (1, 2.0)], vec![2, 3]), "{aqm}");
    }
}

#[test]
fn codel_measures_the_time_before_an_opportunity() {
    // One opportunity in 10 ms, and a packet every 5 ms: twice what the trace carries.
    let metas: Vec<Meta> = (0..200).map(|i| Meta::opaque(0, i * 5 * MS, FULL)).collect();
    let mut engine = started("rate trace(10) queue 1G codel");
    let (sent, dropped) = outcome(&feed(&mut engine, &metas));
    // All leave at opportunities, no two at the same one.
    assert!(sent.iter().all(|(_, at)| at % 10.0 == 0.0));
    assert!(sent.is_sorted_by(|a, b| a.1 < b.1));
    assert!(!dropped.is_empty() && sent.len() + dropped.len() == 200);
}

#[test]
fn a_change_of_the_queue_continues_the_trace() {
    let config = |laws: &str| Impairment::of_both(laws.parse().unwrap());
    for aqm in ["", " head_drop"] {
        let mut engine = started("rate trace(1 2 10) queue 1G");
        let mut out = vec![];
        engine.step(5 * MS, &packets(&[0.0], FULL), &mut out);
        engine.configure(&config(&format!("rate trace(1 2 10) queue 9packets{aqm}"))).unwrap();
        engine.arm(5 * MS);
        engine.step(20 * MS, &packets(&[5.0], FULL), &mut out);
        // Another trace starts when it is applied.
        engine.configure(&config(&format!("rate trace(3 9) queue 9packets{aqm}"))).unwrap();
        engine.arm(20 * MS);
        engine.step(40 * MS, &packets(&[20.0, 24.0], FULL), &mut out);
        assert_eq!(
            outcome(&out).0.iter().map(|one| one.1).collect::<Vec<_>>(),
            [1.0, 10.0, 23.0, 29.0]
        );
    }
}

#[test]
fn a_new_trace_waits_for_the_old_queue() {
    let mut engine = started("rate 1504 overhead 4");
    let mut out = vec![];
    // 8 s of transmission.
    engine.step(0, &packets(&[0.0], FULL), &mut out);
    engine.configure(&Impairment::of_both("rate trace(1)".parse().unwrap())).unwrap();
    engine.arm(MS);
    engine.step(9000 * MS, &packets(&[2.0], FULL), &mut out);
    assert_eq!(outcome(&out).0, [(0, 8000.0), (1, 8001.0)]);
}

/// When each packet leaves, by a visit to each opportunity in turn; `None` if the queue drops it. `most`: packets that may wait.
fn visited(trace: &[u64], metas: &[(u64, u32)], most: usize) -> Vec<Option<u64>> {
    let mut left = vec![None; metas.len()];
    // Waiting packets with their bytes; the first may have been sent in part.
    let mut waiting: VecDeque<(usize, u32)> = VecDeque::new();
    let (mut is_in_part, mut next) = (false, 0);
    let (mut base, mut place) = (0, 0);
    while next < metas.len() || !waiting.is_empty() {
        let at = base + trace[place] * MS;
        while next < metas.len() && metas[next].0 < at {
            if waiting.len() - usize::from(is_in_part) < most || waiting.is_empty() {
                waiting.push_back((next, metas[next].1 - 14 + 4));
            }
            next += 1;
        }
        let mut room = 1504;
        while let Some((packet, bytes)) = waiting.front_mut().filter(|_| room > 0) {
            let sent = room.min(*bytes);
            room -= sent;
            *bytes -= sent;
            is_in_part = *bytes > 0;
            if !is_in_part {
                left[*packet] = Some(at);
                waiting.pop_front();
            }
        }
        place += 1;
        if place == trace.len() {
            (base, place) = (at, 0);
        }
    }
    left
}

proptest! {
    #[test]
    fn a_link_with_a_trace_visits_each_opportunity(
        gaps_ms in prop::collection::vec(0u64..4, 1..12),
        frames in prop::collection::vec((0u64..2_500_000, 30u32..4000), 1..80),
        most in 1usize..8,
    ) {
        let mut ms = 0;
        let mut trace: Vec<u64> = gaps_ms.iter().map(|gap| { ms += gap; ms }).collect();
        trace.push(ms + 1);
        let mut t = 0;
        let frames: Vec<(u64, u32)> = frames.iter().map(|(gap, length)| { t += gap; (t, *length) }).collect();
        let metas: Vec<Meta> = frames.iter().map(|(t, length)| Meta::opaque(0, *t, *length)).collect();
        let words: Vec<String> = trace.iter().map(u64::to_string).collect();
        let rate = format!("rate trace({})", words.join(" "));
        let times = |laws: &str| {
            let mut left = vec![None; metas.len()];
            for one in feed(&mut started(laws), &metas) {
                left[one.index as usize] = (one.verdict == Verdict::Forwarded).then_some(one.at_ns);
            }
            left
        };
        prop_assert_eq!(times(&format!("{rate} queue {most}packets")), visited(&trace, &frames, most));
        let all = visited(&trace, &frames, usize::MAX);
        for aqm in ["", " head_drop", " pie target 1h"] {
            prop_assert_eq!(&times(&format!("{rate} queue 1G{aqm}")), &all, "{}", aqm);
        }
    }
}
