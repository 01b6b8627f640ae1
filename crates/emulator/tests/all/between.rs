//! The emulator between links in memory: what goes in comes out as the laws say, and everything is accounted for.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use weir_emulator::control::{Connection, ControlSocket, ask};
use weir_emulator::{
    AlarmKind, DropCounts, DropsReport, Emulator, EmulatorConfig, FidelityVerdict, Report,
};
use weir_link::memory::{self, Outside};
use weir_model::impairment::Impairment;
use weir_net::clock::Clock;
use weir_wire::checksum::Sum;
use weir_wire::packets::{Judged, PacketLogReader, Record, RecordKind};

use crate::until;

fn config(text: &str) -> EmulatorConfig {
    let impairment =
        Impairment { seed: "0x7".parse().unwrap(), ..Impairment::of_both(text.parse().unwrap()) };
    EmulatorConfig::new("A", "B", impairment)
}

fn start(config: EmulatorConfig, room: usize) -> (Emulator, Outside, Outside) {
    let (a, cable_a) = memory::link("A", room).unwrap();
    let (b, cable_b) = memory::link("B", room).unwrap();
    (Emulator::between([a, b], config).unwrap(), cable_a, cable_b)
}

/// A UDP datagram to the native port, with a native header.
fn native(sequence: u64) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 68, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x30, 0x39, 0x24, 0x83, 0, 48, 0, 0]);
    frame.extend(sequence.to_be_bytes());
    frame.extend([0; 12]);
    frame.extend(5_u32.to_be_bytes());
    frame.extend([0; 16]);
    frame
}

fn received(report: &Report) -> u64 {
    report.directions[0].received_packets
}

fn taken(cable: &Outside) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| cable.take()).collect()
}

fn packet_trace(path: &std::path::Path) -> Vec<(Record, Judged)> {
    let mut reader = PacketLogReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let read = || reader.read_judged().unwrap().map(|(record, judged)| (record, judged.unwrap()));
    std::iter::from_fn(read).collect()
}

/// A super-packet of TCP over IPv4 with seven segments of 500 bytes and one of 300, of one of two connections.
fn super_packet(number: u32) -> Vec<u8> {
    let payload: Vec<u8> = (0..3800_u32).map(|i| (i + number) as u8).collect();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    let bytes = (40 + payload.len() as u16).to_be_bytes();
    frame.extend([0x45, 0, bytes[0], bytes[1], 0, 7, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x30, 0x39 + (number % 2) as u8, 0, 80]);
    frame.extend((number * 3800).to_be_bytes());
    // Acknowledgement; data offset 5, PSH and ACK; window, checksum, urgent pointer.
    frame.extend([0, 0, 0, 1, 0x50, 0x18, 16, 0, 0, 0, 0, 0]);
    frame.extend(payload);
    frame
}

#[test]
fn laws_decide_on_each_segment_of_a_super_packet_as_on_a_frame() {
    const SEGMENT: u16 = 500;
    const TRAINS: u32 = 200;
    let start_ns = Clock::System.monotonic_ns();
    let at = |number: u32| start_ns + u64::from(number) * 10_000;
    // What comes out of an emulator, given super-packets or their segments, and the counters of its flows.
    let run = |text: &str, segments: Option<&[Vec<u8>]>| {
        let impairment = Impairment::parse(text).unwrap();
        let (emulator, a, b) = start(EmulatorConfig::new("A", "B", impairment), 100_000);
        match segments {
            None => {
                for number in 0..TRAINS {
                    a.put_super_packet(at(number), &super_packet(number), SEGMENT);
                }
            }
            Some(segments) => {
                for (number, of_one) in (0..).zip(segments.chunks(8)) {
                    of_one.iter().for_each(|segment| a.put(at(number), segment));
                }
            }
        }
        until("all are in", || {
            let report = emulator.report().unwrap();
            report.directions[0].received_packets == u64::from(TRAINS) * 8
                && report.directions[0].held_packets == 0
        });
        let ending = emulator.finish("test");
        assert!(ending.error.is_none());
        let flows = ending.report.impairment.flows;
        let counters: Vec<_> =
            flows.iter().map(|flow| (flow.name.clone(), flow.counters)).collect();
        (taken(&b), counters, ending.report.directions[0].link.super_packets)
    };
    let document = |flows: &str| format!("schema = 'weir.impair/1'\nseed = '0x7'\n{flows}");
    let (segments, _, kept) = run(&document(""), None);
    assert_eq!((segments.len() as u32, kept), (TRAINS * 8, u64::from(TRAINS)));
    let tcp = |segment: &Vec<u8>| (segment.len(), segment[47]);
    assert_eq!(
        segments[..8].iter().map(tcp).collect::<Vec<_>>(),
        [[(554, 0x10); 7].as_slice(), &[(354, 0x18)]].concat()
    );
    for flows in [
        "[other]\na_to_b = 'loss 10%'",
        "[other]\na_to_b = 'duplicate 10%'",
        "[other]\na_to_b = 'corrupt 20% repair'",
        "[other]\na_to_b = 'corrupt 100% repair ber 0.0001'",
        "[other]\na_to_b = 'delay 1ms..3ms'",
        "[other]\na_to_b = 'rate 2G queue 100packets'",
        "[other]\na_to_b = 'mtu 400 fragment'",
        "[other]\na_to_b = 'mtu 400'",
        // Of each super-packet, the last segment has PSH, and another length.
        "[[flow]]\nname = 'push'\nfilter = { tcp_flags = 'psh' }\na_to_b = 'loss 50%'",
        "[[flow]]\nname = 'short'\nfilter = { length = '0-400' }\na_to_b = 'loss 50%'",
        "[[flow]]\nname = 'first'\nfilter = { source_port = 12345 }\na_to_b = 'loss 50%'",
        "[[flow]]\nname = 'far'\nfilter = { protocol = 'tcp' }\nhop = 2\na_to_b = 'loss 20%, delay 1ms'\n\
         [other]\na_to_b = 'loss 5%, duplicate 20%'",
    ] {
        let text = document(flows);
        let (of_trains, train_counters, kept) = run(&text, None);
        let (of_frames, frame_counters, none) = run(&text, Some(&segments));
        assert_eq!((kept, none), (u64::from(TRAINS), 0), "{flows}");
        assert_eq!(train_counters, frame_counters, "{flows}");
        assert!(of_trains == of_frames, "{flows}: other frames, or in another order");
    }
}

#[test]
fn packets_are_late_by_the_limit_of_the_configuration() {
    for (late_limit_ns, verdict) in
        [(1, FidelityVerdict::HostLimited), (u64::MAX, FidelityVerdict::AsAsked)]
    {
        let config = EmulatorConfig { late_limit_ns, ..config("delay 2ms") };
        let (emulator, a, _b) = start(config, 1000);
        let now = Clock::System.monotonic_ns();
        (0..200).for_each(|sequence| a.put(now, &native(sequence)));
        until("all are in", || received(&emulator.report().unwrap()) == 200);
        let report = emulator.finish("test").report;
        let fidelity = report.impairment.flows[0].current.fidelity.clone().unwrap();
        assert_eq!(fidelity.verdict, verdict, "{fidelity:?}");
        assert_eq!(fidelity.late_limit_seconds, late_limit_ns as f64 / 1e9);
    }
}

#[test]
fn everything_that_came_in_is_accounted_for_and_the_packet_trace_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packet_trace");
    let laws = "loss 10%, duplicate 5%, delay 2ms, corrupt 5% repair";
    let config = EmulatorConfig { packet_trace: Some(path.clone()), ..config(laws) };
    let (emulator, a, b) = start(config, 100_000);
    let now = Clock::System.monotonic_ns();
    for sequence in 0..5000 {
        a.put(now, &native(sequence));
    }
    until("all are in", || received(&emulator.report().unwrap()) == 5000);
    let ending = emulator.finish("test");
    assert!(ending.error.is_none());
    let flow = &ending.report.impairment.flows[0];
    let c = flow.counters;
    assert_eq!(c.received_packets + c.duplicated_packets, c.sent_packets + c.lost_packets);
    let out = taken(&b);
    assert_eq!(out.len() as u64, c.sent_packets);
    assert!(taken(&a).is_empty());
    // Within five standard deviations of what was asked.
    for (count, of, ratio) in [
        (c.lost_packets, 5000.0, 0.1),
        (c.duplicated_packets, 5000.0 - c.lost_packets as f64, 0.05),
        (c.modified_packets, c.sent_packets as f64, 0.05),
    ] {
        let deviation: f64 = f64::sqrt(of * ratio * (1.0 - ratio));
        assert!((count as f64 - of * ratio).abs() < 5.0 * deviation, "{count} of {of}");
    }
    assert_eq!(c.delayed_packets, c.sent_packets);
    let records = packet_trace(&path);
    let of = |kind| records.iter().filter(move |(r, _)| r.kind == kind);
    assert_eq!(of(RecordKind::FORWARDED).count() as u64, c.sent_packets);
    assert_eq!(of(RecordKind::LOST).count() as u64, c.lost_packets);
    assert_eq!(
        of(RecordKind::FORWARDED).filter(|(r, _)| r.copy == 1).count() as u64,
        c.duplicated_packets
    );
    // What the packet trace says was sent is what came out, in that order; damage is not in the sequence written down.
    let sent: Vec<_> = of(RecordKind::FORWARDED).collect();
    let mut damaged = 0;
    for ((record, judged), frame) in sent.iter().zip(&out) {
        let original = native(judged.native_sequence.unwrap());
        assert_eq!(judged.native_flow, 5);
        assert_eq!(record.flags & 1 != 0, *frame != original);
        damaged += u64::from(*frame != original);
        // Never early; departures are those of the clock that stamped the arrivals.
        assert!(record.time2_ns.unwrap() >= judged.asked_ns.unwrap());
        assert_eq!(judged.asked_ns.unwrap(), record.time1_ns.unwrap() + 2_000_000);
    }
    assert_eq!(damaged, c.modified_packets);
    assert_eq!(ending.report.packet_trace.unwrap().dropped_records, 0);
    assert_eq!(flow.lateness.as_ref().unwrap().count, c.sent_packets);
}

#[test]
fn what_has_nothing_to_change_is_not_reported_as_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packet_trace");
    let config =
        EmulatorConfig { packet_trace: Some(path.clone()), ..config("corrupt 100% checksum") };
    let (emulator, a, b) = start(config, 1000);
    // An EtherType for local experiments: nothing is known of what follows.
    let other = [&[2; 12][..], &[0x88, 0xb5], &[1; 46]].concat();
    for sequence in 0..10 {
        a.put(1, &other);
        a.put(1, &native(sequence));
    }
    until("all are in", || received(&emulator.report().unwrap()) == 20);
    let report = emulator.finish("test").report;
    let out = taken(&b);
    assert_eq!(out.iter().filter(|frame| **frame == other).count(), 10);
    assert_eq!(report.impairment.flows[0].counters.modified_packets, 10);
    assert_eq!(report.impairment.flows[0].realised.modified_ratio, Some(0.5));
    let flagged: Vec<bool> = packet_trace(&path).iter().map(|(r, _)| r.flags & 1 != 0).collect();
    assert_eq!(flagged, [false, true].repeat(10));
}

#[test]
fn what_a_link_needs_is_counted_apart_and_not_in_the_packet_trace() {
    let arp = [&[2; 12][..], &[0x08, 0x06], &[1; 46]].concat();
    let bridge = [&[1, 0x80, 0xc2, 0, 0, 0x0e][..], &[2; 6], &[0x88, 0xcc], &[1; 46]].concat();
    for impair_arp in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("packet_trace");
        let mut config =
            EmulatorConfig { packet_trace: Some(path.clone()), ..config("loss 100%, delay 1h") };
        config.impairment.impair_arp = impair_arp;
        // The link takes one frame only.
        let (emulator, a, b) = start(config, 1);
        for frame in [&arp, &native(0), &bridge] {
            a.put(1, frame);
        }
        let exempt = if impair_arp { 0 } else { 2 };
        let judged = 3 - exempt;
        until("all are in", || received(&emulator.report().unwrap()) == judged);
        let mut out = Vec::new();
        until("they came through", || {
            let forward = &emulator.report().unwrap().directions[0];
            assert!(forward.exempt_packets <= out.len() as u64 + 1, "what waits was not sent");
            out.extend(taken(&b));
            out.len() as u64 == exempt
        });
        let report = emulator.finish("test").report;
        let forward = &report.directions[0];
        assert_eq!((forward.exempt_packets, forward.exempt_bytes), (exempt, 60 * exempt));
        assert_eq!((forward.received_packets, forward.sent_packets), (judged, 0));
        assert_eq!(report.impairment.flows[0].counters.lost_packets, judged);
        assert!(report.impairment.flows[0].realised.delay_max_seconds.is_none());
        assert!(impair_arp || out == [arp.clone(), bridge.clone()], "untouched, in order");
        assert_eq!(packet_trace(&path).len() as u64, judged);
    }
}

#[test]
fn the_same_seed_gives_the_same_dispositions_in_memory_as_on_the_virtual_clock() {
    let dispositions = || {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("packet_trace");
        let config = EmulatorConfig { packet_trace: Some(path.clone()), ..config("loss 3% run 4") };
        let (emulator, a, _b) = start(config, 100_000);
        for sequence in 0..2000 {
            a.put(1, &native(sequence));
        }
        until("all are in", || received(&emulator.report().unwrap()) == 2000);
        drop(emulator.finish("test"));
        let lost = packet_trace(&path).into_iter().filter(|(r, _)| r.kind == RecordKind::LOST);
        lost.map(|(r, _)| r.sequence).collect::<Vec<_>>()
    };
    let first = dispositions();
    assert!(!first.is_empty());
    assert_eq!(first, dispositions());
}

#[test]
fn a_full_link_is_retried_without_input_and_nothing_is_lost() {
    let (emulator, a, b) = start(config("none"), 10);
    for sequence in 0..500 {
        a.put(1, &native(sequence));
    }
    let mut out = Vec::new();
    until("all came through", || {
        out.extend(taken(&b));
        out.len() == 500
    });
    assert!(out.iter().zip(0..).all(|(frame, sequence)| *frame == native(sequence)));
    let report = emulator.finish("test").report;
    assert!(report.directions[0].link.times_full > 0);
    assert_eq!(report.directions[0].unplanned_dropped_packets, 0);
}

#[test]
fn what_waits_for_the_link_is_held_and_not_yet_sent() {
    let (emulator, a, b) = start(config("duplicate 50%, loss 10%, delay 1ms"), 10);
    for sequence in 0..500 {
        a.put(1, &native(sequence));
    }
    // The cable takes ten; the rest waits until they are read.
    let sums = |report: &Report| {
        let c = report.impairment.flows[0].counters;
        let gone = c.sent_packets + c.lost_packets + c.unplanned_dropped_packets;
        (c.received_packets + c.duplicated_packets, gone + report.directions[0].held_packets)
    };
    let mut report = emulator.report().unwrap();
    until("all wait", || {
        report = emulator.report().unwrap();
        let (came, known) = sums(&report);
        assert_eq!(came, known);
        received(&report) == 500 && report.impairment.flows[0].counters.sent_packets == 10
    });
    let counters = report.impairment.flows[0].counters;
    assert_eq!(report.directions[0].sent_packets, 10);
    assert_eq!(counters.sent_bytes, 10 * native(0).len() as u64);
    assert!(report.directions[0].held_packets > 400);
    let mut out = 0;
    until("all came through", || {
        out += taken(&b).len() as u64;
        let report = emulator.report().unwrap();
        assert_eq!(sums(&report).0, sums(&report).1);
        report.directions[0].held_packets == 0
    });
    out += taken(&b).len() as u64;
    assert_eq!(
        out,
        counters.received_packets + counters.duplicated_packets - counters.lost_packets
    );
    drop(emulator);
}

#[test]
fn a_new_configuration_loses_nothing_in_flight_and_is_in_the_packet_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packet_trace");
    let config = EmulatorConfig { packet_trace: Some(path.clone()), ..config("delay 300ms") };
    let (emulator, a, b) = start(config, 1000);
    let now = Clock::System.monotonic_ns();
    for sequence in 0..100 {
        a.put(now, &native(sequence));
    }
    until("all are held", || {
        let report = emulator.report().unwrap();
        report.directions[0].held_packets == 100
    });
    assert_eq!(
        emulator.remote().set_laws(None, Some("loss 100%".parse().unwrap()), None).unwrap(),
        1
    );
    a.put(Clock::System.monotonic_ns(), &native(100));
    let mut out = Vec::new();
    until("those in flight come out", || {
        out.extend(taken(&b));
        out.len() == 100
    });
    // A flow that is not there is refused, and nothing changes.
    assert!(emulator.remote().run(Some("missing"), false).is_err());
    // Laws are stopped and started by command.
    assert_eq!(emulator.remote().run(None, false).unwrap(), 2);
    a.put(Clock::System.monotonic_ns(), &native(101));
    until("untouched", || b.take().is_some_and(|frame| frame == native(101)));
    assert_eq!(emulator.remote().run(Some("other"), true).unwrap(), 3);
    let report = emulator.finish("test").report;
    assert_eq!(report.impairment.flows[0].counters.lost_packets, 1);
    assert_eq!(report.configurations.len(), 4);
    assert_eq!(report.directions[0].unplanned_dropped_packets, 0);
    let records = packet_trace(&path);
    let changes: Vec<_> =
        records.iter().filter(|(r, _)| r.kind == RecordKind::CONFIGURED).collect();
    assert_eq!(changes.len(), 6, "three changes, in each direction");
    assert!(changes[0].0.time1_ns.unwrap() >= now);
    // What the numbers stand for is beside the packet trace.
    let lines = std::fs::read_to_string(path.with_added_extension("configurations")).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<_> = lines.iter().map(|line| line["configuration"].as_u64()).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
    let loss = |line: &serde_json::Value| line["impairment"]["other"]["a_to_b"]["loss"].clone();
    assert_eq!(loss(&lines[0]), loss(&lines[2]));
    assert_ne!(loss(&lines[0]), loss(&lines[1]), "{}", lines[1]);
}

#[test]
fn a_packet_trace_ends_at_its_limit_and_counts_what_is_beyond() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let limit = 4096;
    let config = EmulatorConfig {
        packet_trace: Some(path.clone()),
        packet_trace_max_bytes: Some(limit),
        ..config("none")
    };
    let (emulator, a, _b) = start(config, 100_000);
    let now = Clock::System.monotonic_ns();
    for sequence in 0..1000 {
        a.put(now, &native(sequence));
    }
    until("all are in", || received(&emulator.report().unwrap()) == 1000);
    let ending = emulator.finish("test");
    assert!(ending.error.is_none());
    let told = ending.report.packet_trace.unwrap();
    let length = path.metadata().unwrap().len();
    // Another record would not have fitted.
    assert!(length <= limit && length + 64 > limit, "{length}");
    assert_eq!((told.bytes, told.limit_bytes, told.failed), (length, Some(limit), false));
    assert_eq!(packet_trace(&path).len() as u64, told.records);
    assert_eq!(told.records + told.dropped_records, 1000);
}

#[test]
fn configurations_beside_a_packet_trace_are_within_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let config = EmulatorConfig {
        packet_trace: Some(path.clone()),
        packet_trace_max_bytes: Some(4096),
        ..config("none")
    };
    let (emulator, _a, _b) = start(config, 10);
    for number in 0..40 {
        let laws = if number % 2 == 0 { "loss 1%" } else { "none" };
        emulator.remote().set_laws(None, Some(laws.parse().unwrap()), None).unwrap();
    }
    let told = emulator.finish("test").report.packet_trace.unwrap();
    let lines = std::fs::read_to_string(dir.path().join("j.configurations")).unwrap();
    let length = path.metadata().unwrap().len() + lines.len() as u64;
    assert!(length <= 4096, "{length}");
    // A line that does not fit is left out whole.
    assert!(lines.lines().all(|line| line.ends_with('}')), "{lines}");
    assert!(told.dropped_records > 0 && !told.failed, "{told:?}");
}

#[test]
fn which_flows_are_traced_is_reported_where_there_is_a_packet_trace() {
    let dir = tempfile::tempdir().unwrap();
    let with = EmulatorConfig { packet_trace: Some(dir.path().join("j")), ..config("none") };
    for (config, wanted) in [(with, Some(true)), (config("none"), None)] {
        let (emulator, ..) = start(config, 10);
        let traced = || {
            let report = emulator.report().unwrap();
            report.impairment.flows.iter().map(|f| f.traced).collect::<Vec<_>>()
        };
        assert_eq!(traced(), [wanted; 2]);
        assert_eq!(emulator.remote().trace(Some("other"), false).is_ok(), wanted.is_some());
        assert_eq!(traced(), [wanted.map(|_| false); 2]);
    }
}

#[test]
fn a_flow_that_comes_later_has_its_name_beside_the_packet_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let beside = dir.path().join("j.configurations");
    std::fs::write(&beside, "of an earlier packet trace").unwrap();
    let mut first = config("none");
    first.packet_trace = Some(path);
    first.impairment.flows = vec![weir_model::impairment::ImpairFlow {
        name: "x".into(),
        filter: Some(weir_model::impairment::Filter::default()),
        ..Default::default()
    }];
    let mut second = first.impairment.clone();
    second.flows[0].name = "y".into();
    let (emulator, _a, _b) = start(first, 10);
    assert!(!beside.exists());
    assert_eq!(emulator.remote().set(second).unwrap(), 1);
    let line = std::fs::read_to_string(&beside).unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    // The number of a flow that is gone is not given again.
    let flows = serde_json::json!([
        { "number": 0, "name": "other" }, { "number": 1, "name": "x" }, { "number": 2, "name": "y" }
    ]);
    assert_eq!(line["flows"], flows);
    assert!(!emulator.report().unwrap().packet_trace.unwrap().failed);
    drop(beside.parent().map(std::fs::remove_dir_all));
    assert_eq!(emulator.remote().run(None, false).unwrap(), 2, "packets matter more than words");
    assert!(emulator.report().unwrap().packet_trace.unwrap().failed);
}

#[test]
fn a_change_is_made_whole_or_not_at_all() {
    let mut config = config("delay 1ms");
    config.impairment.flows = ["x", "y"]
        .map(|name| weir_model::impairment::ImpairFlow {
            name: name.into(),
            filter: Some(weir_model::impairment::Filter::default()),
            ..Default::default()
        })
        .to_vec();
    let (emulator, a, _b) = start(config, 10);
    let remote = emulator.remote();
    // A preset for a flow is that flow's, and laws are laid over it.
    let change = weir_emulator::Change {
        flow: Some("x".into()),
        profile: Some("3g-good".into()),
        a_to_b: Some("loss 100%".parse().unwrap()),
        seed: Some("0x55".parse().unwrap()),
        ..Default::default()
    };
    assert_eq!(remote.change(change).unwrap(), 1);
    let wanted = remote.wanted().0;
    assert_eq!(wanted.flows[0].profile.as_deref(), Some("3g-good"));
    assert_eq!(wanted.flows[0].a_to_b, "loss 100%".parse().unwrap());
    assert_eq!((wanted.seed.0, &wanted.other.profile), (0x55, &None));
    // Both laws of it by name: no preset is left to fill what they leave out.
    let none = || Some("none".parse().unwrap());
    assert_eq!(remote.set_laws(Some("x"), none(), none()).unwrap(), 2);
    assert_eq!(remote.wanted().0.flows[0], wanted.flows[1].clone_named("x"));
    // What one direction could not take is given to neither: tables that only the way back would need.
    let mut large = remote.wanted().0;
    let before = large.clone();
    large.flows = (0..40_000)
        .map(|i| weir_model::impairment::ImpairFlow {
            name: format!("f{i}"),
            direction: weir_model::impairment::FlowDirection::BToA,
            filter: Impairment::parse(&format!(
                "schema = \"weir.impair/1\"\n[[flow]]\nname = \"f\"\nfilter = {{ source = \"10.{}.{}.0/25\" }}",
                i >> 8,
                i & 0xff
            ))
            .unwrap()
            .flows[0]
                .filter
                .clone(),
            ..Default::default()
        })
        .collect();
    let error = remote.set(large).unwrap_err().to_string();
    assert!(error.contains("40000 flows") && error.contains("268435456"), "{error}");
    assert_eq!(remote.wanted().0, before);
    a.put(1, &native(0));
    until("it is judged as before", || {
        let report = emulator.report().unwrap();
        let x = report.impairment.flows.iter().find(|f| f.name == "x").unwrap();
        x.counters.sent_packets == 1 && report.configurations.len() == 3
    });
    assert_eq!(remote.set(before).unwrap(), 3);
}

trait Named {
    fn clone_named(&self, name: &str) -> Self;
}

impl Named for weir_model::impairment::ImpairFlow {
    fn clone_named(&self, name: &str) -> Self {
        Self { name: name.into(), ..self.clone() }
    }
}

/// A link whose receiving side stands still while its gate is held, and says so.
struct Gated(Box<dyn weir_link::Receive>, std::sync::Arc<Gate>);

#[derive(Default)]
struct Gate {
    held: std::sync::Mutex<()>,
    stands: std::sync::atomic::AtomicBool,
}

impl weir_link::Receive for Gated {
    fn recv(
        &mut self,
        slabs: &mut weir_link::Slabs,
        most: usize,
        out: &mut Vec<weir_link::Received>,
    ) -> weir_link::Result<usize> {
        let stands = self.1.held.try_lock().is_err();
        self.1.stands.store(stands, std::sync::atomic::Ordering::Relaxed);
        drop(self.1.held.lock().unwrap());
        self.0.recv(slabs, most, out)
    }

    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.fd()
    }

    fn statistics(&mut self) -> weir_link::Result<weir_link::ReceiveStatistics> {
        self.0.statistics()
    }
}

#[test]
fn a_change_that_is_not_confirmed_is_pending_and_comes_into_force() {
    let (mut a, cable_a) = memory::link("A", 10).unwrap();
    let (b, _cable_b) = memory::link("B", 10).unwrap();
    let gate = std::sync::Arc::new(Gate::default());
    a.receiver = Box::new(Gated(a.receiver, gate.clone()));
    let emulator = Emulator::between([a, b], config("none")).unwrap();
    let closed = gate.held.lock().unwrap();
    cable_a.put(1, &native(0));
    until("it stands still", || gate.stands.load(std::sync::atomic::Ordering::Relaxed));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let socket = ControlSocket::listen(&path, emulator.remote().clone()).unwrap();
    let set = serde_json::json!({ "verb": "set", "both": "loss 100%" });
    let answer = ask(&path, &set).unwrap();
    assert_eq!((&answer["ok"], &answer["pending"]), (&false.into(), &1.into()), "{answer}");
    // Not rolled back: one direction runs it already, the other will.
    assert_eq!(emulator.remote().wanted().0.other.a_to_b, "loss 100%".parse().unwrap());
    drop(closed);
    until("both run it", || emulator.report().unwrap().configurations.len() == 2);
    assert_eq!(emulator.remote().run(None, false).unwrap(), 2, "a number is given once");
    let numbers = |r: &Report| r.configurations.iter().map(|c| c.number).collect::<Vec<_>>();
    assert_eq!(numbers(&emulator.report().unwrap()), [0, 1, 2]);
    drop(socket);
}

#[test]
fn draining_lets_what_is_held_leave_and_aborting_counts_it() {
    let (emulator, a, b) = start(config("delay 100ms"), 1000);
    let put = |a: &Outside| {
        for sequence in 0..10 {
            a.put(Clock::System.monotonic_ns(), &native(sequence));
        }
    };
    put(&a);
    until("held", || received(&emulator.report().unwrap()) == 10);
    let report = emulator.finish("test").report;
    assert_eq!((taken(&b).len(), report.directions[0].sent_packets), (10, 10));
    let (emulator, a, b) = start(config("delay 1h"), 1000);
    put(&a);
    until("held", || received(&emulator.report().unwrap()) == 10);
    emulator.remote().abort();
    let report = emulator.finish("test").report;
    assert!(taken(&b).is_empty());
    assert_eq!(report.directions[0].unplanned_dropped_packets, 10);
}

#[test]
fn what_has_come_by_the_end_is_taken_in_and_what_has_not_is_counted() {
    // Far more than one look takes in, and put there faster than that: most of it is in the ring at the end.
    let (emulator, a, b) = start(config("none"), 100_000);
    for sequence in 0..20_000 {
        a.put(1, &native(sequence));
    }
    let report = emulator.finish("test").report;
    assert_eq!((taken(&b).len(), report.directions[0].sent_packets), (20_000, 20_000));
    assert_eq!(report.directions[0].link.left_behind_packets, 0);
    // Ended at once, while the link takes nothing: some was taken in, and is lost; the rest never was.
    let (emulator, a, _b) = start(config("none"), 0);
    for sequence in 0..20_000 {
        a.put(1, &native(sequence));
    }
    emulator.remote().abort();
    let report = emulator.finish("test").report;
    let forward = &report.directions[0];
    assert_eq!(forward.unplanned_dropped_packets, 20_000);
    assert_eq!(forward.received_packets + forward.link.left_behind_packets, 20_000);
    assert!(forward.link.left_behind_packets > 10_000, "no more is taken in when 4096 wait");
}

#[test]
fn frames_that_cannot_be_taken_do_not_hide_what_is_behind_them_in_the_ring() {
    // Longer than any slot: an entry of the ring that yields no frame.
    let unusable = vec![0; weir_link::Slabs::MAX_FRAME_BYTES + 1];
    let put = |a: &Outside| {
        for sequence in 0..1000 {
            // Whole batches of them, and single ones.
            let count = if sequence % 100 == 50 { 130 } else { u64::from(sequence % 10 == 0) };
            (0..count).for_each(|_| a.put(1, &unusable));
            a.put(1, &native(sequence));
        }
    };
    let unusable = 90 + 10 * 130;
    // All that has come by the end is taken in, the thread standing still until then.
    let (mut a, cable_a) = memory::link("A", 100_000).unwrap();
    let (b, cable_b) = memory::link("B", 100_000).unwrap();
    let gate = std::sync::Arc::new(Gate::default());
    a.receiver = Box::new(Gated(a.receiver, gate.clone()));
    let emulator = Emulator::between([a, b], config("none")).unwrap();
    let closed = gate.held.lock().unwrap();
    put(&cable_a);
    until("it stands still", || gate.stands.load(std::sync::atomic::Ordering::Relaxed));
    let ending = std::thread::scope(|scope| {
        let ending = scope.spawn(|| emulator.finish("test"));
        // The end is to be asked for before the gate opens. Where it is not, this test holds for nothing, and holds.
        std::thread::sleep(Duration::from_millis(200));
        drop(closed);
        ending.join().unwrap()
    });
    let forward = &ending.report.directions[0];
    assert_eq!(forward.link.left_behind_packets, 0);
    assert_eq!((taken(&cable_b).len(), forward.sent_packets), (1000, 1000));
    assert_eq!(forward.link.memory_dropped_packets, unusable);
    // Ended at once: what is in the ring is counted to its end.
    let (emulator, a, _b) = start(config("none"), 0);
    for sequence in 0..5000 {
        a.put(1, &native(sequence));
    }
    until("it is full", || emulator.report().unwrap().directions[0].held_packets >= 4096);
    put(&a);
    emulator.remote().abort();
    let report = emulator.finish("test").report;
    let forward = &report.directions[0];
    assert_eq!(forward.received_packets + forward.link.left_behind_packets, 6000);
}

#[test]
fn long_frames_that_wait_for_a_full_link_leave_room_for_those_behind_them() {
    let mut small = config("none");
    small.impairment.memory = Some("64K".parse().unwrap());
    let (emulator, a, b) = start(small, 0);
    for _ in 0..5000 {
        a.put(1, &[0; 9200]);
    }
    until("it is full", || received(&emulator.report().unwrap()) > 800);
    // Nothing is to be seen of what does not happen; a while in which it would.
    std::thread::sleep(Duration::from_millis(300));
    b.set_room(10_000);
    until("all have left", || emulator.report().unwrap().directions[0].sent_packets == 5000);
    let forward = &emulator.finish("test").report.directions[0];
    assert_eq!((forward.unplanned_dropped_packets, forward.link.memory_dropped_packets), (0, 0));
}

#[test]
fn frames_that_find_no_slot_raise_the_alarm_of_the_cap() {
    let (emulator, a, _b) = start(config("none"), 1000);
    a.put(1, &vec![0; weir_link::Slabs::MAX_FRAME_BYTES + 1]);
    until("the alarm", || {
        let (alarms, _) = emulator.remote().alarms_after(0);
        alarms
            .iter()
            .any(|alarm| alarm.kind == AlarmKind::MemoryCapNear && alarm.text.contains("1 "))
    });
    until("it has passed", || {
        let (alarms, _) = emulator.remote().alarms_after(0);
        !alarms.iter().any(|a| a.active && a.kind == AlarmKind::MemoryCapNear)
    });
    emulator.remote().abort();
}

#[test]
fn alarms_are_acknowledged_cleared_and_raised_above_thresholds() {
    use serde_json::json;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let (emulator, a, _b) = start(config("none"), 1000);
    let _socket = ControlSocket::listen(&path, emulator.remote().clone()).unwrap();
    let verb = |request| {
        let answer = ask(&path, &request).unwrap();
        assert_eq!(answer["ok"], true, "{request}: {answer}");
        answer
    };
    let kinds = |active: Option<bool>| -> Vec<AlarmKind> {
        let alarms = emulator.report().unwrap().alarms;
        alarms.iter().filter(|a| active.is_none_or(|is| is == a.active)).map(|a| a.kind).collect()
    };
    let thresholds =
        verb(json!({ "verb": "thresholds", "unplanned_packets": 10, "cpu_percentage": 100 }));
    assert_eq!(
        thresholds["thresholds"],
        json!({ "cpu_percentage": 100, "memory_percentage": 90, "unplanned_packets": 10, "late_packets": 0 })
    );
    for (change, field) in [
        (
            json!({ "verb": "thresholds", "late_packets": 5, "cpu_percentage": 101 }),
            "cpu_percentage",
        ),
        (json!({ "verb": "thresholds", "late_packets": 5, "memory": 1 }), "memory"),
        (json!({ "verb": "acknowledge", "kind": "link-up" }), "request"),
    ] {
        let answer = ask(&path, &change).unwrap();
        assert_eq!(
            (&answer["kind"], &answer["field"]),
            (&json!("refused"), &json!(field)),
            "{change}"
        );
    }
    assert_eq!(verb(json!({ "verb": "thresholds" })), thresholds, "refusals change nothing");
    assert_eq!(json!(emulator.report().unwrap().alarm_thresholds), thresholds["thresholds"]);
    // One frame without a slot: an alarm of memory, and one lost packet.
    let long = vec![0; weir_link::Slabs::MAX_FRAME_BYTES + 1];
    a.put(1, &long);
    until("the alarm", || kinds(None).contains(&AlarmKind::MemoryCapNear));
    until("it has passed", || !kinds(Some(true)).contains(&AlarmKind::MemoryCapNear));
    assert!(!kinds(None).contains(&AlarmKind::UnplannedDrop), "below its threshold");
    verb(json!({ "verb": "thresholds", "unplanned_packets": 0 }));
    a.put(1, &long);
    until("the other alarm", || kinds(None).contains(&AlarmKind::UnplannedDrop));
    until("all have passed", || kinds(Some(true)).is_empty());
    let unplanned = json!({ "verb": "acknowledge", "kind": "unplanned-drop" });
    assert_eq!(verb(unplanned.clone())["alarms"], 1);
    assert_eq!(verb(unplanned)["alarms"], 0);
    for alarm in emulator.report().unwrap().alarms {
        let is_acknowledged =
            alarm.acknowledged_at_seconds.is_some_and(|at| at >= alarm.at_seconds);
        assert_eq!(is_acknowledged, alarm.kind == AlarmKind::UnplannedDrop, "{alarm:?}");
    }
    let object = json!({ "verb": "clear", "kind": "memory-cap-near", "object": "a-to-b" });
    assert!(verb(object)["alarms"].as_u64() > Some(0));
    assert_eq!(kinds(None), [AlarmKind::UnplannedDrop]);
    assert_eq!(verb(json!({ "verb": "clear" }))["alarms"], 1);
    assert!(kinds(None).is_empty());
    emulator.remote().abort();
}

#[test]
fn what_the_kernel_dropped_and_the_cap_refused_is_unplanned() {
    let mut small = config("delay 1h");
    small.impairment.memory = Some("64K".parse().unwrap());
    let (emulator, a, _b) = start(small, 1000);
    a.drop_in_kernel(7);
    for sequence in 0..1000 {
        a.put(Clock::System.monotonic_ns(), &native(sequence));
    }
    until("all are in", || received(&emulator.report().unwrap()) == 1000);
    let report = emulator.report().unwrap();
    let held = report.directions[0].held_packets;
    assert!(held > 100 && held < 1000, "{held}");
    assert_eq!(report.directions[0].unplanned_dropped_packets, 7 + 1000 - held);
    assert_eq!(report.impairment.flows[0].counters.unplanned_dropped_packets, 1000 - held);
    until("the alarm", || {
        let (alarms, _) = emulator.remote().alarms_after(0);
        let kinds: Vec<_> = alarms.iter().map(|alarm| alarm.kind).collect();
        kinds.contains(&AlarmKind::UnplannedDrop) && kinds.contains(&AlarmKind::MemoryCapNear)
    });
    emulator.remote().abort();
}

/// A link whose receiving side panics when a frame comes in.
struct Panicking(Box<dyn weir_link::Receive>);

impl weir_link::Receive for Panicking {
    fn recv(
        &mut self,
        slabs: &mut weir_link::Slabs,
        most: usize,
        out: &mut Vec<weir_link::Received>,
    ) -> weir_link::Result<usize> {
        let taken = self.0.recv(slabs, most, out)?;
        assert_eq!(taken, 0, "as this test wants it");
        Ok(taken)
    }

    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.fd()
    }

    fn statistics(&mut self) -> weir_link::Result<weir_link::ReceiveStatistics> {
        self.0.statistics()
    }
}

#[test]
fn a_direction_that_panics_ends_the_emulator() {
    let (mut a, cable_a) = memory::link("A", 10).unwrap();
    let (b, cable_b) = memory::link("B", 10).unwrap();
    a.receiver = Box::new(Panicking(a.receiver));
    let emulator = Emulator::between([a, b], config("none")).unwrap();
    cable_b.put(1, &native(0));
    until("the other direction works", || cable_a.take().is_some());
    assert!(!emulator.remote().has_ended());
    cable_a.put(1, &native(0));
    until("the end is seen", || emulator.remote().has_ended());
    // Had it waited for an answer that never comes, this would be a timeout.
    assert!(matches!(emulator.report(), Err(weir_emulator::EmulatorError::Ended)));
    let ending = emulator.finish("test");
    let error = ending.error.unwrap();
    assert!(matches!(error, weir_emulator::EmulatorError::Panicked("a-to-b")), "{error}");
    assert!(ending.report.end_reason.unwrap().contains("a-to-b"));
    assert_eq!(ending.report.directions.len(), 1);
}

/// What a test asks around its run: datagrams dropped since, by address, and counters as differences.
#[test]
fn a_watch_counts_dropped_datagrams_by_address_until_its_connection_closes() {
    use serde_json::json;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let (emulator, a, _b) = start(config("loss every 2"), 1000);
    let _socket = ControlSocket::listen(&path, emulator.remote().clone()).unwrap();
    let put = |from, to| {
        (from..to).for_each(|sequence| a.put(1_000 + sequence, &native(sequence)));
        until("taken in", || received(&emulator.report().unwrap()) == to);
    };
    put(0, 10);
    let mut connection = Connection::open(&path).unwrap();
    let mut ask = |verb: &str| connection.ask(&json!({ "verb": verb })).unwrap();
    assert_eq!(ask("drops")["kind"], "refused", "nothing is watched yet");
    assert_eq!(ask("watch")["ok"], true);
    let before: Report = serde_json::from_value(ask("stats")["report"].take()).unwrap();
    // The laws that are in force already are no change.
    emulator.remote().set_laws(None, Some("loss every 2".parse().unwrap()), None).unwrap();
    put(10, 16);
    let same: Report = serde_json::from_value(ask("stats")["report"].take()).unwrap();
    assert_eq!(same.used_since(Some(&before)).changes, None);
    emulator.remote().set_laws(None, Some("loss 100%".parse().unwrap()), None).unwrap();
    put(16, 20);
    let drops: DropsReport = serde_json::from_value(ask("drops")["drops"].take()).unwrap();
    let [row] = &drops.rows[..] else { panic!("{drops:?}") };
    assert_eq!((row.flow.as_str(), row.source.to_string()), ("other", "10.0.0.1:12345".into()));
    let packets = DropCounts { lost_packets: 3 + 4, ..DropCounts::default() };
    assert_eq!((row.destination.to_string(), row.packets), ("10.0.0.2:9347".into(), packets));
    let after: Report = serde_json::from_value(ask("stats")["report"].take()).unwrap();
    let used = after.used_since(Some(&before));
    let there = &used.flows[0];
    assert_eq!((there.counters["received_packets"], there.counters["lost_packets"]), (10, 7));
    assert_eq!(there.realised["loss_ratio"], 0.7);
    assert!(!there.realised.contains_key("delay_max_seconds") && there.lateness.is_none());
    assert_eq!((used.changes, used.config.seed.0), (Some(1), 7));
    let (cpu, of_all) = (used.cpu_seconds.unwrap(), after.used_since(None).cpu_seconds.unwrap());
    assert!(0.0 < cpu && cpu < of_all, "{cpu} of {of_all}");
    // Of all since the start nothing is left out.
    let whole = after.used_since(None);
    assert_eq!((whole.flows[0].counters["lost_packets"], whole.changes), (12, None));
    assert!(whole.flows[0].realised.contains_key("delay_max_seconds"));
    // A new watch starts from nothing.
    assert_eq!(ask("watch")["ok"], true);
    assert_eq!(ask("drops")["drops"]["rows"], json!([]));
}

/// A datagram with this payload and right checksums, or a later fragment at this offset.
fn summed(payload: &[u8], offset: u16) -> Vec<u8> {
    let length = 8 + payload.len() as u16;
    let mut frame = native(0);
    frame.truncate(42);
    frame.extend(payload);
    frame[16..18].copy_from_slice(&(20 + length).to_be_bytes());
    frame[20..22].copy_from_slice(&(offset / 8).to_be_bytes());
    let header = Sum::new().add_bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    frame[38..40].copy_from_slice(&length.to_be_bytes());
    let pseudo = Sum::new().add_pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, length);
    let datagram = pseudo.add_bytes(&frame[34..]).udp_checksum();
    frame[40..42].copy_from_slice(&datagram.to_be_bytes());
    frame
}

/// Damage that the receiver's kernel drops is counted by the addresses that the datagram had.
#[test]
fn a_watch_counts_datagrams_whose_checksum_is_left_wrong() {
    let counted = |laws: &str, frame: &[u8]| {
        let (emulator, a, b) = start(config(laws), 1000);
        let watch = emulator.remote().watch_drops().unwrap();
        (0..10).for_each(|_| a.put(1, frame));
        let mut left = 0;
        until("all are out", || {
            left += taken(&b).len();
            left == 10
        });
        watch.drops().unwrap()
    };
    let rows = |drops: &DropsReport| -> Vec<(String, String, DropCounts)> {
        let rows = drops.rows.iter();
        rows.map(|r| (r.source.to_string(), r.destination.to_string(), r.packets)).collect()
    };
    let all = DropCounts { damaged_packets: 10, ..DropCounts::default() };
    let ours = [("10.0.0.1:12345".to_owned(), "10.0.0.2:9347".to_owned(), all)];
    let data = summed(&[7; 60], 0);
    // In ports and addresses too: the datagram is still the one that was sent.
    for laws in ["corrupt 100% leave", "corrupt 100% leave at l4", "corrupt 100% leave at l3"] {
        assert_eq!(rows(&counted(laws, &data)), ours, "{laws}");
    }
    // Damage that arrives, and a datagram without a checksum.
    assert_eq!(counted("corrupt 100% repair", &data), DropsReport::default());
    let mut without = data.clone();
    without[40..42].fill(0);
    assert_eq!(counted("corrupt 100% leave", &without), DropsReport::default());
    let fragments = counted("corrupt 100% leave", &summed(&[7; 60], 1480));
    assert_eq!((rows(&fragments), fragments.later_fragments), (vec![], all));
    let mut hello = [0; weir_wire::datagram::LEN];
    hello[..8].copy_from_slice(&weir_wire::datagram::MAGIC.to_be_bytes());
    let control = counted("corrupt 100% checksum", &summed(&hello, 0));
    assert_eq!((rows(&control), control.damaged_control_packets), (vec![], [10, 0]));
}

#[test]
fn watchers_leave_room_for_other_clients_and_reading_is_no_sign_of_life() {
    use serde_json::json;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let (emulator, _a, _b) = start(config("none"), 1000);
    let socket = ControlSocket::listen(&path, emulator.remote().clone()).unwrap();
    let listening = Instant::now();
    let watchers: Vec<Connection> = (0..100)
        .map(|_| {
            let mut connection = Connection::open(&path).unwrap();
            assert_eq!(connection.ask(&json!({ "verb": "watch" })).unwrap()["ok"], true);
            connection
        })
        .collect();
    for verb in ["show", "stats", "save", "nonsense"] {
        assert!(ask(&path, &json!({ "verb": verb })).unwrap()["ok"].is_boolean());
    }
    let listened = listening.elapsed();
    assert!(socket.contact().elapsed() >= listened, "reading restarted the timer");
    for verb in ["keepalive", "reset"] {
        let asked = Instant::now();
        assert_eq!(ask(&path, &json!({ "verb": verb })).unwrap()["ok"], true);
        assert!(socket.contact().elapsed() <= asked.elapsed(), "{verb}");
    }
    drop(watchers);
}

#[test]
fn a_period_starts_with_other_laws_of_the_flow_and_at_a_reset() {
    use serde_json::json;
    use weir_emulator::{CurrentReport, PeriodReason};
    let text = r#"
        schema = "weir.impair/1"
        [[flow]]
        name = "x"
        filter = { protocol = "udp" }
        a_to_b = { loss = { percentage = 100 } }
    "#;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let config = EmulatorConfig::new("A", "B", Impairment::parse(text).unwrap());
    let (emulator, a, b) = start(config, 1000);
    let socket = ControlSocket::listen(&path, emulator.remote().clone()).unwrap();
    let mut count = 0;
    let mut put = |packets: u64| {
        count += packets;
        for sequence in 0..packets {
            a.put(Clock::System.monotonic_ns(), &native(sequence));
        }
        until("all are in", || received(&emulator.report().unwrap()) == count);
    };
    // Other, A to B and B to A, then the flow's.
    let current = |place: usize| -> CurrentReport {
        let flows = emulator.report().unwrap().impairment.flows;
        assert_eq!(flows.len(), 4);
        flows[place].current.clone()
    };
    put(10);
    let first = current(2);
    assert_eq!((first.reason, first.start_seconds), (PeriodReason::Start, 0.0));
    assert_eq!(first.realised.loss_ratio, Some(1.0));
    // Other laws of another flow, and of the other direction, are not this one's.
    let set = |request| assert_eq!(ask(&path, &request).unwrap()["ok"], true);
    set(json!({ "verb": "set", "both": "loss 1%" }));
    set(json!({ "verb": "set", "flow": "x", "b_to_a": "delay 1ms" }));
    assert_eq!([0, 1, 2, 3].map(|n| current(n).reason), {
        use PeriodReason::{Laws, Start};
        [Laws, Laws, Start, Laws]
    });
    set(json!({ "verb": "set", "flow": "x", "a_to_b": "delay 1ms" }));
    put(5);
    until("all have left", || taken(&b).len() + current(2).counters.sent_packets as usize >= 5);
    let second = current(2);
    assert_eq!(second.reason, PeriodReason::Laws);
    assert!(second.start_seconds > 0.0 && second.seconds > 0.0, "{second:?}");
    assert_eq!((second.counters.received_packets, second.counters.lost_packets), (5, 0));
    assert_eq!(second.realised.loss_ratio, Some(0.0));
    assert!(second.realised.delay_min_seconds.is_some_and(|d| d >= 0.001), "{second:?}");
    let all = emulator.report().unwrap().impairment.flows[2].counters;
    assert_eq!((all.received_packets, all.lost_packets), (15, 10), "those go on");
    // A reset of the one, then of all.
    assert_eq!(ask(&path, &json!({ "verb": "reset", "flow": "y" })).unwrap()["kind"], "refused");
    set(json!({ "verb": "reset", "flow": "x" }));
    let third = current(2);
    assert_eq!((third.reason, third.counters), (PeriodReason::Reset, Default::default()));
    assert!(third.start_seconds > second.start_seconds && third.realised.loss_ratio.is_none());
    assert_eq!(current(0).reason, PeriodReason::Laws);
    set(json!({ "verb": "reset" }));
    assert_eq!(current(0).reason, PeriodReason::Reset);
    // A stop is a change of laws; one that changes nothing is none.
    set(json!({ "verb": "stop", "flow": "x" }));
    assert_eq!(current(2).reason, PeriodReason::Laws);
    set(json!({ "verb": "reset" }));
    set(json!({ "verb": "stop", "flow": "x" }));
    assert_eq!(current(2).reason, PeriodReason::Reset);
    drop(socket);
}

#[test]
fn the_control_socket_answers_everything_put_to_it() {
    use serde_json::json;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let (emulator, ..) = start(config("delay 1ms"), 10);
    let socket = ControlSocket::listen(&path, emulator.remote().clone()).unwrap();
    // One that is in use is left alone.
    assert!(ControlSocket::listen(&path, emulator.remote().clone()).is_err());
    let shown = ask(&path, &json!({ "verb": "show" })).unwrap();
    assert_eq!(shown["interfaces"], json!(["A", "B"]));
    let set = ask(&path, &json!({ "verb": "set", "a_to_b": "loss 2%", "seed": "0x9" })).unwrap();
    assert_eq!((&set["ok"], &set["configuration"]), (&json!(true), &json!(1)), "one change");
    let saved = ask(&path, &json!({ "verb": "save" })).unwrap();
    let saved = Impairment::parse(saved["toml"].as_str().unwrap()).unwrap();
    assert_eq!(saved.seed.0, 9);
    assert_eq!(saved.other.a_to_b, "loss 2%".parse().unwrap());
    assert_eq!(saved.other.b_to_a, "delay 1ms".parse().unwrap());
    let whole = json!({ "verb": "set", "impairment": saved });
    assert_eq!(ask(&path, &whole).unwrap()["ok"], true);
    let stats = ask(&path, &json!({ "verb": "stats" })).unwrap();
    let report: Report = serde_json::from_value(stats["report"].clone()).unwrap();
    assert_eq!(report.configurations.len(), 3);
    for bad in [
        json!({ "verb": "set" }),
        json!({ "verb": "set", "both": "loss 200%" }),
        json!({ "verb": "set", "both": "loss 1%", "flow": "missing" }),
        json!({ "verb": "set", "both": "loss 1%", "flow": "missing", "seed": "0x99" }),
        json!({ "verb": "set", "profile": "3g-good", "flow": "missing" }),
        json!({ "verb": "set", "flow": "other" }),
        json!({ "verb": "set", "profile": "9g" }),
        json!({ "verb": "stop", "flow": "missing" }),
        json!({ "verb": "log", "on": true }),
        json!({ "verb": "explode" }),
        json!({ "verb": "show", "x": 1 }),
        json!(7),
    ] {
        let answer = ask(&path, &bad).unwrap();
        assert_eq!(answer["ok"], false, "{bad}");
        assert!(answer["error"].is_string() && answer["kind"] == "refused", "{bad}: {answer}");
    }
    let report = emulator.report().unwrap();
    assert_eq!(report.configurations.len(), 3, "refusals change nothing");
    assert_eq!(report.impairment.config, saved, "refusals change nothing");
    // Numbers go on, whatever was refused between.
    let numbers: Vec<u64> = report.configurations.iter().map(|c| c.number).collect();
    assert_eq!(numbers, [0, 1, 2]);
    drop(socket);
    assert!(!path.exists());
}

#[test]
fn a_flow_that_is_not_to_run_is_reported_and_is_started_by_its_name() {
    let text = r#"
        schema = "weir.impair/1"
        [[flow]]
        name = "x"
        run = false
        a_to_b = { loss = { percentage = 100 } }
    "#;
    let (emulator, a, b) =
        start(EmulatorConfig::new("A", "B", Impairment::parse(text).unwrap()), 100);
    let remote = emulator.remote();
    let put = |sequence, all| {
        a.put(1, &native(sequence));
        until("it is in", || received(&emulator.report().unwrap()) == all);
        taken(&b).len()
    };
    assert_eq!(remote.wanted().1, ["x"]);
    assert_eq!(put(0, 1), 1);
    // All that was stopped is not what never ran.
    remote.run(None, true).unwrap();
    assert_eq!(put(1, 2), 1);
    remote.run(Some("x"), true).unwrap();
    assert!(remote.wanted().1.is_empty() && remote.wanted().0.flows[0].run.0);
    assert_eq!(put(2, 3), 0);
    remote.run(Some("x"), false).unwrap();
    assert_eq!(remote.wanted().1, ["x"]);
    assert_eq!(put(3, 4), 1);
}

#[test]
fn laws_set_where_laws_are_stopped_are_reported_to_be_of_no_effect() {
    use serde_json::json;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let (emulator, _a, _b) = start(config("none"), 100);
    let _socket = ControlSocket::listen(&path, emulator.remote().clone()).unwrap();
    let set = json!({ "verb": "set", "both": "loss 100%" });
    assert!(ask(&path, &set).unwrap().get("note").is_none());
    ask(&path, &json!({ "verb": "stop" })).unwrap();
    let note = ask(&path, &set).unwrap()["note"].to_string();
    assert!(note.contains("stopped") && note.contains("other"), "{note}");
    // Of the seed there is nothing to say.
    let seed = json!({ "verb": "set", "seed": "0x9" });
    assert!(ask(&path, &seed).unwrap().get("note").is_none());
    ask(&path, &json!({ "verb": "start" })).unwrap();
    assert!(ask(&path, &set).unwrap().get("note").is_none());
}

#[test]
fn only_laws_that_were_set_and_rest_are_reported_to_be_of_no_effect() {
    use serde_json::json;
    let text =
        "schema = 'weir.impair/1'\n[[flow]]\nname = 'x'\n[[flow]]\nname = 'y'\nrun = false\n";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let config = Impairment::parse(text).unwrap();
    let (emulator, _a, _b) = start(EmulatorConfig::new("A", "B", config.clone()), 100);
    let _socket = ControlSocket::listen(&path, emulator.remote().clone()).unwrap();
    let note = |asked| ask(&path, &asked).unwrap()["note"].as_str().map(ToOwned::to_owned);
    let set = |flow: &str| json!({ "verb": "set", "flow": flow, "both": "loss 100%" });
    // Another rests: that is not what was set.
    assert_eq!((note(set("x")), note(set("other"))), (None, None));
    assert!(note(set("y")).unwrap().ends_with(": y"));
    ask(&path, &json!({ "verb": "stop", "flow": "x" })).unwrap();
    assert!(note(set("x")).unwrap().ends_with(": x"));
    // Of a whole configuration all that rest are.
    let whole = json!({ "verb": "set", "impairment": config });
    assert!(note(whole).unwrap().ends_with(": x, y"));
}

#[test]
fn whether_a_control_socket_can_be_had_is_found_out_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    ControlSocket::check(&path).unwrap();
    assert!(!path.exists());
    std::fs::write(&path, "mine").unwrap();
    assert!(ControlSocket::check(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn configurations_that_are_reported_are_bounded() {
    let (emulator, _a, _b) = start(config("none"), 100);
    for seed in 0..1100 {
        let laws = if seed % 2 == 0 { "loss 1%" } else { "none" };
        emulator.remote().set_laws(None, Some(laws.parse().unwrap()), None).unwrap();
    }
    let told = emulator.report().unwrap().configurations;
    assert_eq!((told.len(), told[0].number, told[1023].number), (1024, 0, 1100));
}

/// What was lost before a run is in none of its ratios, also where nothing had left the emulator yet.
#[test]
fn what_was_lost_before_a_run_is_not_in_its_ratios() {
    let (emulator, a, _b) = start(config("loss 100%"), 1000);
    let put = |from: u64, to: u64| {
        (from..to).for_each(|sequence| a.put(1_000 + sequence, &native(sequence)));
        until("taken in", || received(&emulator.report().unwrap()) == to);
    };
    put(0, 10);
    let before = emulator.report().unwrap();
    emulator.remote().set_laws(None, Some("loss every 2".parse().unwrap()), None).unwrap();
    put(10, 20);
    let used = emulator.report().unwrap().used_since(Some(&before));
    assert_eq!(used.flows[0].counters["lost_packets"], 5);
    assert_eq!(used.flows[0].realised["loss_ratio"], 0.5);
}

#[test]
fn a_command_triggers_what_waits_for_it() {
    let (emulator, a, b) = start(config("loss 100%, trigger command stop command rearm"), 1000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let _socket = ControlSocket::listen(&path, emulator.remote().clone()).unwrap();
    let request = |verb: &str, flow: &str| {
        ask(&path, &serde_json::json!({ "verb": verb, "flow": flow })).unwrap()
    };
    let mut sequence = 0;
    let mut pass = |expected: usize| {
        let before = received(&emulator.report().unwrap());
        for _ in 0..10 {
            a.put(Clock::System.monotonic_ns(), &native(sequence));
            sequence += 1;
        }
        until("all are in", || received(&emulator.report().unwrap()) == before + 10);
        until("all have left", || {
            emulator.report().unwrap().directions.iter().all(|one| one.held_packets == 0)
        });
        assert_eq!(taken(&b).len(), expected);
    };
    let states = || {
        let shown = ask(&path, &serde_json::json!({ "verb": "show" })).unwrap();
        let of = |i: usize| {
            let trigger = &shown["triggers"][i];
            (trigger["state"].as_str().unwrap().to_owned(), trigger["applications"].as_u64())
        };
        [of(0), of(1)]
    };
    pass(10);
    assert_eq!(states(), [0, 1].map(|_| ("waiting".to_owned(), Some(0))));
    assert_eq!(request("trigger", "other")["triggered"], 2);
    pass(0);
    assert_eq!(states(), [0, 1].map(|_| ("applying".to_owned(), Some(1))));
    request("trigger", "other");
    pass(10);
    let unknown = request("trigger", "x");
    assert_eq!((&unknown["ok"], &unknown["kind"]), (&false.into(), &"refused".into()));
    // A stopped flow has no trigger, and one that is started is armed again.
    request("trigger", "other");
    request("stop", "other");
    assert_eq!(request("trigger", "other")["kind"], "refused");
    pass(10);
    request("start", "other");
    pass(10);
    assert_eq!(states(), [0, 1].map(|_| ("waiting".to_owned(), Some(0))));
}

#[test]
fn the_sender_of_a_packet_that_is_too_long_is_answered_at_its_own_side() {
    let (emulator, a, b) = start(config("mtu 68 icmp"), 64);
    let mut long = native(0);
    // 72 bytes of IP, with a datagram of 52.
    (long[17], long[39]) = (72, 52);
    long.extend([0; 4]);
    a.put(1, &long);
    a.put(2, &native(1));
    b.put(3, &long);
    let (mut to_a, mut to_b) = (Vec::new(), Vec::new());
    until("both messages and the short packet", || {
        to_a.extend(taken(&a));
        to_b.extend(taken(&b));
        to_a.len() == 1 && to_b.len() == 2
    });
    assert_eq!(to_b.iter().filter(|frame| **frame == native(1)).count(), 1);
    for message in to_a.iter().chain(&to_b).filter(|frame| frame[23] == 1) {
        // Fragmentation needed, with the MTU and the packet.
        assert_eq!(
            (message[34], message[35], message[41], &message[42..]),
            (3, 4, 68, &long[14..])
        );
    }
    let report = emulator.finish("test").report;
    let flow = &report.impairment.flows[0];
    assert_eq!((flow.counters.too_long_packets, flow.counters.too_big_messages), (1, 1));
    // Messages belong to no flow.
    for (direction, sent) in report.directions.iter().zip([1, 0]) {
        assert_eq!((direction.sent_packets, direction.exempt_packets), (sent, 0));
        assert_eq!(direction.unplanned_dropped_packets, 0);
    }
}
