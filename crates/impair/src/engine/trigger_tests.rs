//! Triggers: which packets their laws are applied to. A packet that meets a condition is the first in the new state.

use super::tests::{both, engine, feed};
use super::*;
use crate::key::tests::udp_frame;
use weir_model::impairment::TriggerState::{Applying, Done, Waiting};
use weir_model::impairment::{Timeline, TimelineChange};
use weir_model::units::Span;
use weir_wire::bpf::Instruction;

const MS: u64 = 1_000_000;

/// Packets of 100 bytes every 10 ms; the first arrives at `start`.
fn later(start: u64, count: u64) -> Vec<Meta> {
    (0..count).map(|i| Meta::opaque(i as u32, start + i * 10 * MS, 100)).collect()
}

/// Indices of the lost packets.
fn lost(dispositions: &[Disposition]) -> Vec<u64> {
    let lost = dispositions.iter().filter(|one| one.verdict == Verdict::Lost);
    lost.map(|one| one.index).collect()
}

/// The indices that an armed engine drops of 12 packets, with the state and the number of applications at the end.
fn dropped(trigger: &str) -> (Vec<u64>, TriggerStatus) {
    let mut engine = engine(&format!("loss 100%, {trigger}"));
    engine.arm(0);
    let lost = lost(&feed(&mut engine, &later(0, 12)));
    let counters = engine.flows().next().unwrap().counters;
    assert_eq!((counters.received_packets, counters.lost_packets), (12, lost.len() as u64));
    assert_eq!(counters.sent_packets, 12 - lost.len() as u64);
    (lost, engine.trigger_status(0, 110 * MS).unwrap())
}

fn status(state: weir_model::impairment::TriggerState, applications: u64) -> TriggerStatus {
    TriggerStatus { state, applications }
}

#[test]
fn each_condition_has_its_first_packet() {
    for (trigger, expected, state) in [
        // Three packets pass; three are dropped.
        ("trigger after 3packets stop after 3packets", vec![3, 4, 5], status(Done, 1)),
        // 300 bytes are reached with the third packet, 250 too.
        ("trigger after 300B stop after 250B", vec![3, 4, 5], status(Done, 1)),
        // The packet at 30 ms is in, that at 60 ms is out.
        ("trigger after 30ms stop after 30ms", vec![3, 4, 5], status(Done, 1)),
        ("trigger after 25ms stop after 30ms", vec![3, 4, 5], status(Done, 1)),
        ("trigger stop after 2packets", vec![0, 1], status(Done, 1)),
        ("trigger after 10packets", vec![10, 11], status(Applying, 1)),
        ("trigger after 12packets", vec![], status(Waiting, 0)),
        ("trigger command", vec![], status(Waiting, 0)),
    ] {
        assert_eq!(dropped(trigger), (expected, state), "{trigger}");
    }
}

#[test]
fn a_trigger_is_armed_again() {
    for (trigger, expected, state) in [
        ("trigger after 2packets stop after 1packet rearm", vec![2, 5, 8, 11], status(Applying, 4)),
        ("trigger after 2packets stop after 1packet rearm repeat 2", vec![2, 5], status(Done, 2)),
        // 20 to 30 ms, 50 to 60 ms, …; the last one ends at 120 ms.
        ("trigger after 20ms stop after 10ms rearm", vec![2, 5, 8, 11], status(Applying, 4)),
        // The time runs on between packets: from 20 ms, for one packet, then from 30 + 20 ms.
        ("trigger after 20ms stop after 1packet rearm", vec![2, 5, 8, 11], status(Applying, 4)),
    ] {
        assert_eq!(dropped(trigger), (expected, state), "{trigger}");
    }
}

#[test]
fn idle_cycles_are_counted_at_their_times() {
    let mut engine = engine("loss 100%, trigger after 1us stop after 2us rearm repeat 4000000000");
    engine.arm(5);
    let day = 86_400_000_000_000;
    // 28.8 billion cycles of 3 µs, of which the first four billion are used.
    assert_eq!(engine.trigger_status(0, 5 + day).unwrap(), status(Done, 4_000_000_000));
    let at = |ns: u64| engine.trigger_status(0, 5 + ns).unwrap();
    assert_eq!(
        (at(999), at(1000), at(2999)),
        (status(Waiting, 0), status(Applying, 1), status(Applying, 1))
    );
    assert_eq!((at(3000), at(3999)), (status(Waiting, 1), status(Waiting, 1)));
    assert_eq!((at(30_999), at(31_000)), (status(Waiting, 10), status(Applying, 11)));
    let frames = [30_999, 31_000, 32_999, 33_000].map(|ns| Meta::opaque(0, 5 + ns, 100));
    assert_eq!(lost(&feed(&mut engine, &frames)), [1, 2]);
}

#[test]
fn a_matching_packet_is_the_first() {
    let config =
        both("loss 100%, trigger match(destination_port=7) stop match(destination_port=9) rearm");
    let mut engine = Engine::new(&config, Direction::Forward).unwrap();
    assert!(engine.needs_keys());
    let ports = [1, 9, 7, 7, 1, 9, 1, 7];
    let metas: Vec<Meta> = (0..8)
        .map(|i| engine.meta(i as u32, i * MS, &udp_frame((5, ports[i as usize]), b"some")))
        .collect();
    assert_eq!(lost(&feed(&mut engine, &metas)), [2, 3, 4, 7]);
    assert_eq!(engine.trigger_status(0, 8 * MS), Some(status(Applying, 2)));
}

#[test]
fn a_trigger_has_the_condition_that_it_waits_for() {
    let next = |engine: &Engine, ms: u64| {
        engine.trigger_condition(0, ms * MS).map(ToString::to_string).unwrap_or_default()
    };
    let mut engine = engine("loss 100%, trigger after 10ms stop command rearm repeat 2");
    assert_eq!(next(&engine, 0), "after 10ms");
    engine.arm(0);
    assert_eq!(
        [0, 9, 10, 99].map(|ms| next(&engine, ms)),
        ["after 10ms", "after 10ms", "command", "command"]
    );
    engine.trigger(None, 20 * MS);
    assert_eq!(next(&engine, 20), "after 10ms");
    engine.trigger(None, 40 * MS);
    assert_eq!(next(&engine, 40), "", "it has been applied twice");
    assert_eq!(next(&super::tests::engine("loss 100%"), 0), "");
}

#[test]
fn commands_meet_only_the_condition_command() {
    let mut engine = engine("loss 100%, trigger command stop command rearm");
    engine.arm(0);
    let mut lost_after = |command: bool, from: u64| {
        if command {
            assert_eq!(engine.trigger(Some("other"), from), 1);
        }
        lost(&feed(&mut engine, &later(from, 2))).len()
    };
    assert_eq!((lost_after(false, 0), lost_after(true, 20 * MS)), (0, 2));
    assert_eq!((lost_after(true, 40 * MS), lost_after(true, 60 * MS)), (0, 2));
    assert_eq!(engine.trigger(Some("nothing"), 80 * MS), 0);
    let mut timed = super::tests::engine("loss 100%, trigger after 1s");
    assert_eq!(timed.trigger(None, MS), 0);
    assert_eq!(timed.trigger_status(0, MS), Some(status(Waiting, 0)));
}

#[test]
fn laws_start_from_the_beginning_each_time() {
    // Of each application, the second packet is lost.
    let text = "loss burst 1 after 1, trigger after 2packets stop after 4packets rearm";
    assert_eq!(lost(&feed(&mut engine(text), &later(0, 14))), [3, 9]);
    let text =
        "delay step(from=0s, to=5ms, at=15ms), trigger after 1packet stop after 3packets rearm";
    let dispositions = feed(&mut engine(text), &later(0, 8));
    let delays: Vec<u64> =
        dispositions.iter().map(|one| (one.at_ns - one.arrived_ns) / MS).collect();
    assert_eq!(delays, [0, 0, 0, 5, 0, 0, 0, 5]);
}

#[test]
fn draws_depend_on_the_position_and_not_on_the_trigger() {
    let always = lost(&feed(&mut engine("loss 30%"), &later(0, 400)));
    let text = "loss 30%, trigger after 100packets stop after 200packets";
    let triggered = lost(&feed(&mut engine(text), &later(0, 400)));
    let expected: Vec<u64> = always.into_iter().filter(|i| (100..300).contains(i)).collect();
    assert_eq!(triggered, expected);
}

#[test]
fn packets_queued_at_a_stop_keep_their_delay() {
    let mut engine = engine("delay 25ms, trigger stop after 2packets");
    let dispositions = feed(&mut engine, &later(0, 4));
    let order: Vec<(u64, u64)> =
        dispositions.iter().map(|one| (one.index, one.at_ns / MS)).collect();
    assert_eq!(order, [(2, 20), (0, 25), (3, 30), (1, 35)]);
}

#[test]
fn an_unchanged_trigger_keeps_its_state() {
    let mut engine = engine("loss 100%, trigger after 3packets");
    assert_eq!(lost(&feed(&mut engine, &later(0, 2))), [0; 0]);
    engine.configure(&both("loss 100%, duplicate 0%, trigger after 3packets")).unwrap();
    assert_eq!(lost(&feed(&mut engine, &later(20 * MS, 3))), [3, 4]);
    engine.configure(&both("loss 100%, trigger after 2packets")).unwrap();
    assert_eq!(lost(&feed(&mut engine, &later(50 * MS, 3))), [7]);
    engine.configure(&both("loss 100%")).unwrap();
    assert_eq!(engine.trigger_status(0, 80 * MS), None);
    assert_eq!(lost(&feed(&mut engine, &later(80 * MS, 1))), [8]);
}

#[test]
fn a_flow_that_was_stopped_is_armed_again() {
    let config = |run: bool| {
        let text = format!(
            "schema = \"weir.impair/1\"\n[[flow]]\nname = \"x\"\nrun = {run}\nboth = \"loss 100%, trigger after 1packet\"\n"
        );
        Impairment::parse(&text).unwrap()
    };
    let mut engine = Engine::new(&config(true), Direction::Forward).unwrap();
    assert_eq!(lost(&feed(&mut engine, &later(0, 3))), [1, 2]);
    engine.configure(&config(false)).unwrap();
    assert_eq!((engine.trigger(None, 0), engine.trigger_status(1, 0)), (0, None));
    assert_eq!(lost(&feed(&mut engine, &later(30 * MS, 3))), [0; 0]);
    engine.configure(&config(true)).unwrap();
    assert_eq!(lost(&feed(&mut engine, &later(60 * MS, 3))), [7, 8]);
}

#[test]
fn a_condition_may_be_an_expression() {
    let config =
        both("loss 100%, trigger match(pcap=ether[42] = 7) stop match(pcap=ether[42] = 9)");
    let instruction = |code, jt, jf, k| Instruction { code, jt, jf, k };
    for (field, expression) in config.pcap_expressions() {
        let byte = if field.ends_with("start.pcap") { 7 } else { 9 };
        expression.set_program(vec![
            instruction(0x30, 0, 0, 42),
            instruction(0x15, 0, 1, byte),
            instruction(0x06, 0, 0, 1),
            instruction(0x06, 0, 0, 0),
        ]);
    }
    let mut engine = Engine::new(&config, Direction::Forward).unwrap();
    engine.arm(0);
    let packets: Vec<Meta> = [1, 7, 1, 9, 7]
        .iter()
        .zip(0u32..)
        .map(|(byte, i)| engine.meta(i, u64::from(i) * MS, &udp_frame((1, 2), &[*byte])))
        .collect();
    assert_eq!(lost(&feed(&mut engine, &packets)), [1, 2]);
}

/// Conditions on bytes are evaluated where a packet is parsed, also those of a flow that a timeline gives a trigger.
#[test]
fn a_condition_may_be_on_any_field() {
    let with_byte = |byte: u8| udp_frame((1, 2), &[byte; 20]);
    let run = |config: &Impairment| {
        let mut engine = Engine::new(config, Direction::Forward).unwrap();
        engine.arm(0);
        let mut out = vec![];
        for (i, byte) in [1, 2, 7, 3, 9, 4, 7, 5].into_iter().enumerate() {
            let meta = engine.meta(i as u32, i as u64 * 10 * MS, &with_byte(byte));
            engine.step(meta.arrived_ns, &[meta], &mut out);
        }
        lost(&out)
    };
    let mut config =
        both("loss 100%, trigger match(bytes=07 at payload) stop match(bytes=09 at payload) rearm");
    assert_eq!(run(&config), [2, 3, 6, 7]);
    // A second condition, and a change at the time of the third packet.
    let named = super::tests::named("named", 2, "none");
    config.flows.push(named);
    config.timeline = Some(Timeline {
        changes: vec![TimelineChange {
            at: Span(20 * MS),
            flow: Some("named".into()),
            a_to_b: Some("loss 100%, trigger match(bytes=03 at payload)".parse().unwrap()),
            ..TimelineChange::default()
        }],
        ..Timeline::default()
    });
    config.check().unwrap();
    assert_eq!(run(&config), [3, 4, 5, 6, 7]);
}
