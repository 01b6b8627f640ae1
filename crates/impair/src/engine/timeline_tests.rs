//! Timelines: laws change at their times, in the order of events.

use super::tests::{engine, feed};
use super::*;

const MS: u64 = 1_000_000;

fn config(timeline: &str) -> Impairment {
    let text = format!(
        "schema = \"weir.impair/1\"\nseed = \"0x7\"\n[[flow]]\nname = \"x\"\nfilter = {{ length = \"0-200\" }}\nboth = \"none\"\n\
         [timeline]\n{timeline}"
    );
    Impairment::parse(&text).unwrap_or_else(|e| panic!("{timeline}: {e}"))
}

fn with(timeline: &str) -> Engine {
    let mut engine = Engine::new(&config(timeline), Direction::Forward).unwrap();
    engine.arm(5 * MS);
    engine
}

/// Packets of 100 bytes every 10 ms from 5 ms on.
fn packets(numbers: std::ops::Range<u64>) -> Vec<Meta> {
    numbers.map(|i| Meta::opaque(i as u32, (5 + 10 * i) * MS, 100)).collect()
}

fn lost(dispositions: &[Disposition]) -> Vec<u64> {
    let lost = dispositions.iter().filter(|one| one.verdict == Verdict::Lost);
    lost.map(|one| one.index).collect()
}

const OUTAGE: &str = "change = [{ at = \"20ms\", flow = \"x\", both = \"loss 100%\" }, { at = \"40ms\", flow = \"x\", both = \"none\" }]";

#[test]
fn a_packet_at_the_time_of_a_change_has_the_new_laws() {
    let mut engine = with(OUTAGE);
    assert_eq!(lost(&feed(&mut engine, &packets(0..10))), [2, 3]);
    assert_eq!(engine.next_change_ns(), None);
    // The times of a loop and the speed.
    let mut engine = with(&format!("loop = \"50ms\"\n{OUTAGE}"));
    assert_eq!(lost(&feed(&mut engine, &packets(0..15))), [2, 3, 7, 8, 12, 13]);
    let mut engine = with(&format!("loop = \"50ms\"\nspeed = 0.5\n{OUTAGE}"));
    assert_eq!(lost(&feed(&mut engine, &packets(0..20))), [4, 5, 6, 7, 14, 15, 16, 17]);
}

#[test]
fn batches_do_not_matter() {
    // Packets meet the loss law after their delay, before or after the change.
    let laws = |loss| format!("delay 1ms..19ms allow, loss {loss}, order delay loss");
    let text = format!(
        "loop = \"50ms\"\nchange = [{{ at = \"17ms\", flow = \"x\", both = \"{}\" }}, {{ at = \"34ms\", flow = \"x\", both = \"{}\" }}]",
        laws("100%"),
        laws("0%")
    );
    let mut together = vec![];
    with(&text).step(600 * MS, &packets(0..50), &mut together);
    let (mut engine, mut fine) = (with(&text), vec![]);
    let all = packets(0..50);
    for ms in 0..600 {
        let now: Vec<Meta> =
            all.iter().filter(|meta| meta.arrived_ns == ms * MS).copied().collect();
        engine.step(ms * MS, &now, &mut fine);
    }
    assert_eq!(fine, together);
    let count = lost(&fine).len();
    assert!((5..45).contains(&count), "{count}");
}

#[test]
fn a_loop_starts_with_the_laws_of_the_file() {
    let text = "loop = \"30ms\"\nchange = [{ at = \"20ms\", flow = \"x\", both = \"loss 100%\" }]";
    assert_eq!(lost(&feed(&mut with(text), &packets(0..9))), [2, 5, 8]);
    let text = "loop = \"30ms\"\nchange = [{ at = \"0s\", flow = \"x\", both = \"loss 100%\" }, { at = \"10ms\", flow = \"x\", both = \"none\" }]";
    assert_eq!(lost(&feed(&mut with(text), &packets(0..9))), [0, 3, 6]);
}

#[test]
fn queued_packets_keep_their_departure_and_need_no_packet_to_leave() {
    let text = "change = [{ at = \"0s\", flow = \"x\", both = \"delay 25ms\" }, { at = \"20ms\", flow = \"x\", both = \"delay 1ms\" }]";
    let dispositions = feed(&mut with(text), &packets(0..3));
    let order: Vec<(u64, u64)> =
        dispositions.iter().map(|one| (one.index, one.at_ns / MS)).collect();
    assert_eq!(order, [(2, 26), (0, 30), (1, 40)]);
}

#[test]
fn idle_loops_are_skipped() {
    let mut engine = with(&format!("loop = \"50ms\"\n{OUTAGE}"));
    assert_eq!(engine.next_deadline_ns(), None, "a change alone needs no step");
    // A century later, in the same phase.
    let late = 100 * 365 * 86_400 * 1_000_000_000 / (50 * MS) * 50 * MS;
    let metas: Vec<Meta> = packets(0..5)
        .into_iter()
        .map(|meta| Meta { arrived_ns: meta.arrived_ns + late, ..meta })
        .collect();
    assert_eq!(lost(&feed(&mut engine, &metas)), [2, 3]);
}

#[test]
fn an_edit_leaves_the_timeline_where_it_is() {
    let mut engine = with(OUTAGE);
    assert_eq!(lost(&feed(&mut engine, &packets(0..3))), [2]);
    // The change at 20 ms has precedence over new laws of the file.
    let mut edited = config(OUTAGE);
    edited.flows[0].a_to_b = "duplicate 100%".parse().unwrap();
    engine.configure(&edited).unwrap();
    engine.arm(30 * MS);
    assert_eq!(lost(&feed(&mut engine, &packets(3..6))), [3]);
    // Other times start again.
    engine.configure(&config(&OUTAGE.replace("20ms", "10ms"))).unwrap();
    engine.arm(65 * MS);
    assert_eq!(lost(&feed(&mut engine, &packets(6..12))), [7, 8, 9]);
    // And without a timeline the laws of the file apply.
    engine.configure(&Impairment { timeline: None, ..config(OUTAGE) }).unwrap();
    assert_eq!(lost(&feed(&mut engine, &packets(12..20))), [0; 0]);
}

#[test]
fn a_stopped_flow_stays_stopped() {
    let mut stopped = config(OUTAGE);
    stopped.flows[0].run.0 = false;
    let mut engine = Engine::new(&stopped, Direction::Forward).unwrap();
    engine.arm(5 * MS);
    assert_eq!(lost(&feed(&mut engine, &packets(0..10))), [0; 0]);
}

#[test]
fn a_change_arms_a_trigger() {
    // Armed at 23 ms, although the next packet arrives at 25 ms, and met at 35 ms.
    let change = |at, after| {
        format!(
            "{{ at = \"{at}\", flow = \"x\", both = \"loss 100%, trigger after {after} stop after 1packet\" }}"
        )
    };
    let text = format!("change = [{}, {}]", change("18ms", "12ms"), change("60ms", "12ms"));
    assert_eq!(lost(&feed(&mut with(&text), &packets(0..10))), [3], "an unchanged one is done");
    let text = format!("change = [{}, {}]", change("18ms", "12ms"), change("58ms", "11ms"));
    assert_eq!(lost(&feed(&mut with(&text), &packets(0..10))), [3, 7]);
}

#[test]
fn the_position_is_in_the_times_of_the_file() {
    let at = |engine: &Engine, ms: u64| {
        let status = engine.timeline_status(ms * MS).unwrap();
        (status.loops, status.changes, status.position_ns)
    };
    let mut engine = with(&format!("loop = \"50ms\"\nspeed = 0.5\n{OUTAGE}"));
    assert_eq!(at(&engine, 5), (1, 0, 0.0));
    assert_eq!(at(&engine, 45), (1, 0, 20e6), "no packet has made the change");
    feed(&mut engine, &packets(0..5));
    assert_eq!(at(&engine, 49), (1, 1, 22e6));
    feed(&mut engine, &packets(5..12));
    assert_eq!(at(&engine, 115), (2, 0, 5e6));
    // Loops are counted that pass without a packet, and by a configuration with the same times.
    engine.skip_idle_loops(1015 * MS);
    feed(&mut engine, &packets(101..102));
    assert_eq!(at(&engine, 1015), (11, 0, 5e6));
    engine.configure(&config(&format!("loop = \"50ms\"\nspeed = 0.5\n{OUTAGE}"))).unwrap();
    assert_eq!(at(&engine, 1015), (11, 0, 5e6));
    // Without a loop the position goes on after the last change.
    let mut once = with(OUTAGE);
    feed(&mut once, &packets(0..20));
    assert_eq!(at(&once, 205), (1, 2, 200e6));
    assert_eq!(super::tests::engine("none").timeline_status(0), None);
}

#[test]
fn without_a_timeline_nothing_changes() {
    let mut engine = engine("loss 100%");
    engine.arm(0);
    assert_eq!((engine.next_change_ns(), engine.timeline_config()), (None, None));
    assert_eq!(engine.next_deadline_ns(), None);
}
