//! The thread of a direction does not allocate once it is warm: a counting allocator says so.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a helper outside #[test] that can't go on is a failed test

mod counting;

use std::sync::atomic::Ordering::Relaxed;

use counting::{allocations, frame, link, until};
use weir_emulator::{Emulator, EmulatorConfig, Recording, RecordingKind};
use weir_model::impairment::Impairment;

/// Every kind of law, and so little memory that it is full all the time: the most that is ever held is held in the
/// warm-up too.
const LAWS: &str = r#"
    schema = "weir.impair/1"
    seed = "0x7"
    memory = "512K"
    [[flow]]
    name = "a"
    filter = { destination_port = 1 }
    a_to_b = { loss = { gilbert_elliott = { loss_percentage = 5, mean_run = 4 } }, rate = { bits = "1G" }, delay = { normal = { mean = "200ms", deviation = "20ms" }, order = "allow" } }
    [[flow]]
    name = "b"
    filter = { destination_port = 2 }
    a_to_b = { loss = { percentage = 1 }, duplicate = { percentage = 20 }, delay = { exponential = { mean = "100ms" } }, content = { percentage = 20, checksum = "repair" } }
    [[flow]]
    name = "c"
    filter = { destination_port = 3 }
    a_to_b = { rate = { bits = "50M", queue = "20packets" }, delay = { constant = "100ms" } }
    [other]
    a_to_b = { delay = { uniform = { min = "100ms", max = "200ms" }, order = "max" } }
"#;

/// A second hop, whose flow has some of the packets.
const FAR: &str = r#"
    [[flow]]
    name = "far"
    hop = 2
    filter = { destination_port = "2-3" }
    a_to_b = { loss = { percentage = 1 }, content = { percentage = 20, checksum = "repair" } }
"#;

#[test]
fn a_warm_direction_does_not_allocate() {
    for laws in [LAWS.to_owned(), LAWS.to_owned() + FAR] {
        warm_and_count(&laws);
    }
}

fn warm_and_count(laws: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (a, gives) = link("A", (0..5).map(frame).collect());
    let (b, takes) = link("B", vec![]);
    let impairment = Impairment::parse(laws).unwrap();
    let recording = |(kind, name)| {
        let path = dir.path().join(name);
        let file = std::fs::File::create(&path).unwrap();
        (Recording::new(kind, &path), file)
    };
    let recordings = [(RecordingKind::Capture, "capture"), (RecordingKind::Log, "log")];
    let config = EmulatorConfig {
        packet_trace: Some(dir.path().join("packet_trace")),
        recordings: recordings.map(recording).into(),
        ..EmulatorConfig::new("A", "B", impairment)
    };
    let emulator = Emulator::between([a, b], config).unwrap();
    gives.to_give.store(u64::MAX / 2, Relaxed);
    until("it is warm", || {
        gives.given.load(Relaxed) > 300_000 && takes.sent.load(Relaxed) > 20_000
    });
    let unplanned = |e: &Emulator| e.report().unwrap().directions[0].unplanned_dropped_packets;
    assert!(unplanned(&emulator) > 0, "the memory was never full");
    let measure = || {
        let (given, sent) = (gives.given.load(Relaxed), takes.sent.load(Relaxed));
        let before = allocations();
        gives.counting.store(1, Relaxed);
        until("it is measured", || {
            gives.given.load(Relaxed) > given + 300_000 && takes.sent.load(Relaxed) > sent + 20_000
        });
        gives.counting.store(0, Relaxed);
        allocations() - before
    };
    // On a busy machine a direction may have been stalled, and have more packets that are late than ever before.
    let counted = (0..5).map(|_| measure()).find(|counted| *counted == 0);
    let before = allocations();
    // The counter is not deaf: a report is made by the same thread, and allocates.
    gives.counting.store(1, Relaxed);
    until("the thread is counted", || gives.seen.load(Relaxed) == 1);
    emulator.report().unwrap();
    assert!(allocations() > before, "nothing is counted");
    gives.counting.store(0, Relaxed);
    let report = emulator.finish("test").report;
    let all = |name: &str| {
        let flow = report.impairment.flows.iter().find(|f| f.name == name).unwrap();
        flow.counters
    };
    assert!(all("a").lost_packets > 0 && all("b").duplicated_packets > 0);
    assert!(all("b").modified_packets > 0 && all("c").queue_dropped_packets > 0);
    if laws.contains("far") {
        assert!(all("far").lost_packets > 0 && all("far").modified_packets > 0);
    }
    assert_eq!(counted, Some(0), "allocations while 300 000 packets came and 20 000 left");
}
