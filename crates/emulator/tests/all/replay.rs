//! From capture to capture: the same bytes and seed give the same bytes, on any machine.

use sha2::{Digest, Sha256};
use weir_emulator::replay::Replay;
use weir_emulator::{EmulatorError, EmulatorResult};
use weir_link::capture::{CaptureFormat, CaptureReader, CaptureWriter};
use weir_model::impairment::{Impairment, TriggerState};
use weir_wire::packets::PacketLogReader;

const START_NS: u64 = 1_700_000_000_000_000_000;

/// Datagrams of several sizes, 100 µs apart, every other one from B.
fn capture(format: CaptureFormat, frames: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let sides: &[&str] = if format == CaptureFormat::Pcap { &["x"] } else { &["x", "y"] };
    let mut writer = CaptureWriter::new(&mut out, "test", format, sides).unwrap();
    for i in 0..frames {
        let from_b = i % 2 == 1;
        let side = u8::from(from_b);
        let len = 60 + (i * 37 % 1400) as usize;
        let mut frame = vec![2, 0, 0, 0, 0, 1 - side, 2, 0, 0, 0, 0, side, 0x08, 0x00, 0x45, 0];
        frame.extend((len as u16 - 14).to_be_bytes());
        frame.extend([0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0x13, 0xc4]);
        frame.extend((len as u16 - 34).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(i.to_be_bytes());
        frame.resize(len, i as u8);
        let interface = if format == CaptureFormat::Pcap { 0 } else { side.into() };
        writer.write(interface, START_NS + i * 100_000, len as u32, &frame).unwrap();
    }
    out
}

fn replay(laws: &str) -> Replay {
    let impairment =
        Impairment { seed: "0x7".parse().unwrap(), ..Impairment::of_both(laws.parse().unwrap()) };
    Replay { impairment, a_mac: None, packet_trace: None }
}

fn run(replay: &Replay, input: &[u8]) -> (Vec<u8>, weir_emulator::Report) {
    let mut out = Vec::new();
    let EmulatorResult { report, error } = replay.run((input, "in"), (&mut out, "out")).unwrap();
    assert!(error.is_none(), "{error:?}");
    (out, report)
}

/// Times and frames of a capture.
fn frames(bytes: &[u8]) -> Vec<(u64, u32, Vec<u8>)> {
    let mut reader = CaptureReader::new(bytes, "out").unwrap();
    let mut all = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        all.push((frame.time_ns, frame.interface, frame.data.to_vec()));
    }
    all
}

#[test]
fn a_delay_moves_every_frame_by_as_much_and_changes_nothing_else() {
    for format in [CaptureFormat::Pcap, CaptureFormat::PcapNg] {
        let input = capture(format, 200);
        let (out, report) = run(&replay("delay 40ms"), &input);
        let moved: Vec<_> =
            frames(&input).into_iter().map(|(t, i, f)| (t + 40_000_000, i, f)).collect();
        assert_eq!(frames(&out), moved);
        let both = if format == CaptureFormat::Pcap { [200, 0] } else { [100, 100] };
        assert_eq!([0, 1].map(|i| report.directions[i].sent_packets), both);
        assert_eq!(report.impairment.flows[0].realised.delay_mean_seconds, Some(0.04));
    }
}

#[test]
fn the_side_is_reported_by_the_address_when_one_is_given() {
    let input = capture(CaptureFormat::Pcap, 100);
    let a_mac = Some([2, 0, 0, 0, 0, 0]);
    let (out, report) = run(&Replay { a_mac, ..replay("loss every 2") }, &input);
    assert_eq!([0, 1].map(|i| report.directions[i].received_packets), [50, 50]);
    assert_eq!(frames(&out).len(), 50);
}

#[test]
fn departures_are_in_order_across_both_directions() {
    let input = capture(CaptureFormat::PcapNg, 2000);
    let (out, report) = run(&replay("delay 5ms ±4ms uniform allow, duplicate 10%"), &input);
    let out = frames(&out);
    assert!(out.is_sorted_by_key(|frame| frame.0));
    let sent: u64 = report.directions.iter().map(|d| d.sent_packets).sum();
    assert_eq!(out.len() as u64, sent);
    assert!(report.impairment.flows[0].counters.reordered_packets > 0);
}

#[test]
fn the_same_capture_and_seed_give_the_committed_bytes() {
    let input = capture(CaptureFormat::PcapNg, 5000);
    let laws = "loss 2% run 3, duplicate 1%, rate 20M queue 50ms, delay 20ms ±5ms normal fifo-release, corrupt 3% repair";
    let (out, report) = run(&replay(laws), &input);
    let hex: String = Sha256::digest(&out).iter().map(|byte| format!("{byte:02x}")).collect();
    let counters = report.impairment.flows[0].counters;
    assert!(counters.lost_packets > 0 && counters.modified_packets > 0, "{counters:?}");
    assert!(counters.queue_dropped_packets > 0, "{counters:?}");
    assert_eq!(hex, include_str!("../golden/replay.sha256").trim());
    let other = Replay {
        impairment: Impairment { seed: "0x8".parse().unwrap(), ..replay(laws).impairment },
        ..replay(laws)
    };
    assert_ne!(run(&other, &input).0, out);
}

/// A replay with a flow that loses what its filter matches.
fn losing(filter: &str) -> Replay {
    let text = format!(
        "schema = \"weir.impair/1\"\n[[flow]]\nname = \"f\"\nfilter = {{ pcap = \"{filter}\" }}\nboth = \"loss 100%\""
    );
    Replay { impairment: Impairment::parse(&text).unwrap(), ..replay("none") }
}

fn has_libpcap(test: &str) -> bool {
    let missing = weir_link::pcap::compile("ip").err();
    if let Some(error) = &missing {
        assert!(std::env::var_os("CI").is_none(), "{error}");
        eprintln!("SKIPPED {test}: {error} (scripts/ensure.sh test)");
    }
    missing.is_none()
}

#[test]
fn an_expression_chooses_frames_in_both_directions_as_it_is() {
    if !has_libpcap("an_expression_chooses_frames_in_both_directions_as_it_is") {
        return;
    }
    let input = capture(CaptureFormat::PcapNg, 200);
    let long = |frame: &[u8]| frame.len() > 800;
    let (out, _) = run(&losing("udp dst port 5060 and src host 10.0.0.1 and len > 800"), &input);
    let expected: Vec<_> = frames(&input).into_iter().filter(|(.., frame)| !long(frame)).collect();
    assert!((50..150).contains(&expected.len()));
    assert_eq!(frames(&out), expected);
    let (out, _) = run(&losing("not dst port 12345"), &input);
    assert_eq!(frames(&out), []);
}

#[test]
fn a_bad_expression_is_refused_with_its_field() {
    if !has_libpcap("a_bad_expression_is_refused_with_its_field") {
        return;
    }
    for expression in ["tcp prot 80", "ip protochain 6"] {
        let refused = weir_emulator::compile_filters(&losing(expression).impairment).unwrap_err();
        let weir_model::ModelError::Field { field, given, .. } = refused.clone() else { panic!() };
        assert_eq!((field.as_str(), given.as_str()), ("flow[0].filter.pcap", expression));
        let mut out = Vec::new();
        let input = capture(CaptureFormat::Pcap, 1);
        let error = losing(expression).run((&input[..], "in"), (&mut out, "out")).unwrap_err();
        let EmulatorError::Impair(weir_impair::ImpairError::Config(error)) = error else {
            panic!("{error}")
        };
        assert_eq!(error, refused);
        assert!(out.is_empty());
    }
}

#[test]
fn what_is_no_ethernet_capture_is_refused_by_name() {
    let mut out = Vec::new();
    let error = replay("none").run((&b"nonsense"[..], "in"), (&mut out, "out")).unwrap_err();
    assert!(error.to_string().starts_with("in,"), "{error}");
    let mut raw_ip = capture(CaptureFormat::Pcap, 1);
    raw_ip[20] = 101;
    let error = replay("none").run((&raw_ip[..], "in"), (&mut out, "out")).unwrap_err();
    assert!(error.to_string().contains(" 101"), "the type of the link: {error}");
}

#[test]
fn a_capture_that_is_cut_is_reported_and_what_came_before_goes_out_whole() {
    let input = capture(CaptureFormat::Pcap, 200);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packet_trace");
    let replay = Replay { packet_trace: Some(path.clone()), ..replay("delay 40ms") };
    let mut out = Vec::new();
    // Held at the cut: all of them, since they came within 20 ms.
    let ending = replay.run((&input[..input.len() - 1], "in"), (&mut out, "out")).unwrap();
    let reason = ending.error.unwrap().to_string();
    assert!(reason.starts_with("in, byte "), "{reason}");
    assert!(ending.report.end_reason.unwrap().starts_with(&reason));
    assert_eq!(ending.report.impairment.flows[0].counters.sent_packets, 199);
    let whole = frames(&input);
    let moved: Vec<_> =
        whole[..199].iter().map(|(t, i, f)| (t + 40_000_000, *i, f.clone())).collect();
    assert_eq!(frames(&out), moved);
    let mut reader = PacketLogReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(std::iter::from_fn(|| reader.read_judged().unwrap()).count(), 199);
}

/// A file that takes nothing for a while, and then slowly.
#[cfg(unix)]
#[test]
fn a_slow_packet_trace_is_waited_for_since_a_capture_has_time() {
    const FRAMES: u64 = 100_000;
    let mut input = Vec::new();
    let mut writer = CaptureWriter::new(&mut input, "test", CaptureFormat::Pcap, &["x"]).unwrap();
    for i in 0..FRAMES {
        writer.write(0, START_NS + i * 1000, 60, &[0; 60]).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packet_trace");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let from = path.clone();
    let reader = std::thread::spawn(move || {
        let file = std::fs::File::open(from).unwrap();
        // However long this is, nothing may be missing; so long that the queue is full meanwhile.
        std::thread::sleep(std::time::Duration::from_secs(3));
        let mut reader = PacketLogReader::new(std::io::BufReader::new(file)).unwrap();
        std::iter::from_fn(|| reader.read_judged().unwrap()).count() as u64
    });
    let replay = Replay { packet_trace: Some(path), ..replay("none") };
    let ending = replay.run((&input[..], "in"), (std::io::sink(), "out")).unwrap();
    let packet_trace = ending.report.packet_trace.unwrap();
    assert_eq!((packet_trace.records, packet_trace.dropped_records), (FRAMES, 0));
    assert_eq!(reader.join().unwrap(), FRAMES);
}

#[test]
fn a_packet_trace_that_cannot_be_written_is_reported_and_the_capture_and_its_counts_are_whole() {
    let full = std::path::PathBuf::from("/dev/full");
    if !full.exists() {
        eprintln!("SKIPPED a_packet_trace_that_cannot_be_written: no /dev/full");
        return;
    }
    let input = capture(CaptureFormat::Pcap, 200);
    let (out, report) = run(&replay("delay 40ms"), &input);
    let replay = Replay { packet_trace: Some(full), ..replay("delay 40ms") };
    let mut same = Vec::new();
    let ending = replay.run((&input[..], "in"), (&mut same, "out")).unwrap();
    assert!(ending.error.is_some());
    let reason = ending.report.end_reason.clone().unwrap();
    assert!(reason.contains("/dev/full") && reason.contains("No space left"), "{reason}");
    let counters = |report: &weir_emulator::Report| -> Vec<_> {
        report.impairment.flows.iter().map(|flow| flow.counters).collect()
    };
    assert_eq!(counters(&ending.report), counters(&report));
    assert!(
        ending.report.packet_trace.is_some_and(|packet_trace| packet_trace.failed) && same == out
    );
}

/// Frames of the capture that left, by their number; those from A have even numbers.
fn left(laws: &str) -> (Vec<u64>, weir_emulator::Report) {
    let (out, report) = run(&replay(laws), &capture(CaptureFormat::PcapNg, 24));
    let number = |frame: &[u8]| u64::from_be_bytes(frame[42..50].try_into().unwrap());
    (frames(&out).iter().map(|(_, _, frame)| number(frame)).collect(), report)
}

#[test]
fn triggers_count_in_each_direction_and_from_the_first_frame() {
    // Frames are 100 µs apart: frame 10 leaves A, and 11 leaves B, with 5 before it in its direction.
    let (numbers, report) = left("loss 100%, trigger after 5packets stop after 2packets");
    assert_eq!(numbers, (0..24).filter(|n| !(10..14).contains(n)).collect::<Vec<_>>());
    let trigger = report.impairment.flows[1].trigger.clone().unwrap();
    assert_eq!((trigger.state, trigger.applications), (TriggerState::Done, 1));
    assert_eq!(report.impairment.flows[0].asked_figures, Default::default());
    // Times count from the first frame in both directions: frame 5 arrives at 500 µs.
    let (numbers, report) = left("loss 100%, trigger after 500us stop after 300us rearm");
    let is_out = |n: &u64| (5..8).contains(n) || (13..16).contains(n) || (21..24).contains(n);
    assert_eq!(numbers, (0..24).filter(|n| !is_out(n)).collect::<Vec<_>>());
    let trigger = report.impairment.flows[0].trigger.clone().unwrap();
    assert_eq!((trigger.state, trigger.applications), (TriggerState::Applying, 3));
    // In each direction the first frame matches.
    let (numbers, _) = left("loss 100%, trigger match(source=10.0.0.1) stop after 1packet");
    assert_eq!(numbers.len(), 22);
    let (numbers, _) = left("loss 100%, trigger match(length=60-100)");
    assert!(numbers.len() < 24 && !numbers.contains(&0));
}

#[test]
fn a_timeline_counts_from_the_first_frame() {
    // Frames are 100 µs apart: 6 to 8 and, in the second loop, 16 to 18 are lost.
    let timeline = "loop = \"2ms\"\nspeed = 2\nchange = [{ at = \"1200us\", both = \"loss 100%\" }, { at = \"1800us\", both = \"none\" }]";
    let text = format!("schema = \"weir.impair/1\"\nseed = \"0x7\"\n[timeline]\n{timeline}\n");
    assert!(Impairment::parse(&text).is_err(), "a loop of 1 ms");
    let text = text.replace("us", "0us").replace("2ms", "20ms");
    let replay = Replay { impairment: Impairment::parse(&text).unwrap(), ..replay("none") };
    // Every 1 ms instead.
    let mut input = Vec::new();
    let mut writer =
        CaptureWriter::new(&mut input, "test", CaptureFormat::PcapNg, &["x", "y"]).unwrap();
    for (time_ns, interface, frame) in frames(&capture(CaptureFormat::PcapNg, 24)) {
        let time_ns = START_NS + (time_ns - START_NS) * 10;
        writer.write(interface, time_ns, frame.len() as u32, &frame).unwrap();
    }
    drop(writer);
    let (out, report) = run(&replay, &input);
    let number = |frame: &[u8]| u64::from_be_bytes(frame[42..50].try_into().unwrap());
    let numbers: Vec<u64> = frames(&out).iter().map(|(_, _, frame)| number(frame)).collect();
    let is_lost = |n: &u64| (6..9).contains(n) || (16..19).contains(n);
    assert_eq!(numbers, (0..24).filter(|n| !is_lost(n)).collect::<Vec<_>>());
    // The last period started with the laws of the second loop, at 19 ms; frames 20 and 22 from A are in it.
    let flow = &report.impairment.flows[0];
    assert_eq!((flow.asked.as_str(), flow.current.counters.received_packets), ("none", 2));
    assert!((flow.current.start_seconds - 0.019).abs() < 1e-9, "{}", flow.current.start_seconds);
    // Frame 23 is from B, and each direction has its own clock: that of its last frame.
    let position = report.directions[1].timeline.unwrap();
    assert_eq!((position.loops, position.changes), (3, 0));
    assert!((position.position_seconds - 0.006).abs() < 1e-9, "{position:?}");
    assert_eq!(run(&replay, &input).0, out);
}

#[test]
fn packets_too_long_are_reported_to_their_side_or_fragmented() {
    let input = capture(CaptureFormat::PcapNg, 400);
    let originals = frames(&input);
    // The frames have no don't-fragment bit.
    let (out, report) = run(&replay("mtu 800 icmp"), &input);
    let out = frames(&out);
    let is_long = |frame: &[u8]| frame.len() > 814;
    let (messages, sent): (Vec<_>, Vec<_>) =
        out.into_iter().partition(|(_, _, frame)| frame[23] == 1);
    assert!(sent.iter().all(|(_, _, frame)| !is_long(frame)));
    let flows = &report.impairment.flows;
    let counted = [0, 1].map(|i| flows[i].counters.too_big_messages);
    for (side, counted) in (0..).zip(counted) {
        let back: Vec<_> =
            messages.iter().filter(|(_, interface, _)| *interface == 1 - side).collect();
        assert_eq!((back.len() as u64, counted > 20), (counted, true));
        for (time, _, frame) in back {
            let original = originals.iter().find(|one| one.0 == *time).unwrap();
            assert!(original.1 == side && is_long(&original.2));
            assert_eq!(frame[42..62], original.2[14..34]);
        }
        assert_eq!(flows[side as usize].realised.loss_ratio, Some(0.0));
    }
    let (out, report) = run(&replay("mtu 800 fragment"), &input);
    let out = frames(&out);
    assert!(out.iter().all(|(_, _, frame)| !is_long(frame)));
    let added: u64 = report.impairment.flows.iter().map(|flow| flow.counters.added_fragments).sum();
    assert_eq!(out.len() as u64, 400 + added);
    let data = |frames: &[(u64, u32, Vec<u8>)]| {
        frames.iter().flat_map(|f| f.2[34..].to_vec()).collect::<Vec<u8>>()
    };
    assert!(added > 100 && data(&out) == data(&originals));
}

/// A configuration of flows with laws, each in a hop. Flow "small" has frames below 400 bytes.
fn hops(flows: &[(&str, u8, &str)], other: &str) -> Replay {
    let mut text = format!("schema = 'weir.impair/1'\nseed = 7\nother = {{ both = '{other}' }}\n");
    for (name, hop, laws) in flows {
        let filter = if *name == "small" { "filter = { length = '0-399' }\n" } else { "" };
        text += &format!("[[flow]]\nname = '{name}'\nhop = {hop}\nboth = '{laws}'\n{filter}");
    }
    Replay { impairment: Impairment::parse(&text).unwrap(), ..replay("none") }
}

fn of_side(frames: &[(u64, u32, Vec<u8>)], side: u32) -> Vec<(u64, u32, Vec<u8>)> {
    frames.iter().filter(|frame| frame.1 == side).cloned().collect()
}

#[test]
fn hops_are_passed_one_after_the_other_as_separate_emulators_would() {
    let input = capture(CaptureFormat::PcapNg, 600);
    for (first, second) in [
        ("delay 40ms", "rate 8M queue 20packets"),
        ("loss 10%, duplicate 5%", "delay 10ms ±3ms normal allow, duplicate 10%"),
        (
            "corrupt 20% flip 3, delay 1ms ±1ms uniform",
            "rate 5M, delay 2ms, corrupt 30% leave flip 1",
        ),
        ("mtu 600 fragment, delay 1ms", "loss 10%, mtu 300 fragment"),
        ("reorder 10% by 3packets, rate 20M", "batch every 3ms, delay 1ms"),
        ("loss 5%, delay 1ms ±1ms normal", "none"),
        // Many packets at the same time, of which only some are taken.
        ("batch every 3ms", "loss 5%"),
    ] {
        for name in ["all", "small"] {
            let (out, report) = run(&hops(&[(name, 2, second)], first), &input);
            let near = hops(&[], first);
            let far = hops(&[(name, 1, second)], "none");
            let there = run(&far, &run(&near, &input).0).0;
            let back = run(&near, &run(&far, &input).0).0;
            let out = frames(&out);
            assert_eq!(of_side(&out, 0), of_side(&frames(&there), 0), "{first} | {second}, {name}");
            assert_eq!(of_side(&out, 1), of_side(&frames(&back), 1), "{first} | {second}, {name}");
            assert_eq!(report.directions.iter().map(|d| d.received_packets).sum::<u64>(), 600);
            let sent: u64 = report.directions.iter().map(|d| d.sent_packets).sum();
            assert_eq!(sent, out.len() as u64);
            let flow = |name: &str, side: usize| {
                let mut of = report.impairment.flows.iter().filter(|flow| flow.name == name);
                of.nth(side).map(|flow| (flow.hop, flow.counters)).unwrap()
            };
            let ((one, other), (two, last)) = (flow("other", 0), flow(name, 0));
            assert_eq!((one, two), (1, 2));
            if name == "all" {
                assert_eq!(other.sent_packets, last.received_packets);
            }
        }
    }
}

#[test]
fn a_timeline_changes_laws_of_any_hop_and_the_memory_is_shared() {
    let input = capture(CaptureFormat::PcapNg, 400);
    let replay = |second: &str, change: &str| {
        let mut replay = hops(&[("far", 2, second)], "delay 1ms");
        let text = replay.impairment.to_toml().unwrap() + change;
        replay.impairment = Impairment::parse(&text).unwrap();
        replay
    };
    let change = "\n[timeline]\nchange = [{ at = '20ms', flow = 'far', both = 'loss 100%' }]\n";
    let (out, _) = run(&replay("none", change), &input);
    // From A, the last to pass arrives before 20 ms and 1 ms at hop 2; from B, before 20 ms.
    assert_eq!((of_side(&frames(&out), 0).len(), of_side(&frames(&out), 1).len()), (95, 100));
    let mut held = hops(&[("far", 2, "delay 1s")], "delay 1s");
    held.impairment.memory = Some(weir_model::units::ByteSize(64 << 10));
    let (_, report) = run(&held, &input);
    let dropped = report.directions[0].unplanned_dropped_packets;
    let alone = Replay {
        impairment: Impairment {
            memory: held.impairment.memory,
            ..hops(&[], "delay 1s").impairment
        },
        ..held.clone()
    };
    assert_eq!(dropped, run(&alone, &input).1.directions[0].unplanned_dropped_packets);
    assert!(dropped > 50, "{dropped}");
}

#[test]
fn each_flow_has_a_verdict_by_its_laws() {
    use weir_emulator::{FidelityFigure, FidelityVerdict};
    let input = capture(CaptureFormat::PcapNg, 6000);
    let of = |laws: &str| {
        let (_, report) = run(&replay(laws), &input);
        report.impairment.flows[0].clone()
    };
    let flow = of("loss 10% run 4, duplicate 5%, delay 40ms ±5ms normal allow");
    let fidelity = flow.current.fidelity.clone().unwrap();
    assert_eq!(fidelity.verdict, FidelityVerdict::AsAsked, "{fidelity:?}");
    let judged: Vec<FidelityFigure> = fidelity.figures.iter().map(|one| one.figure).collect();
    assert_eq!(judged.len(), 5, "{judged:?}");
    // Both count since the start.
    for realised in [flow.realised, flow.current.realised] {
        let mean = realised.loss_burst_mean_packets.unwrap();
        assert!((3.0..5.0).contains(&mean), "{mean}");
        assert!(realised.loss_burst_max_packets.unwrap() as f64 > mean);
        let deviation = realised.delay_deviation_seconds.unwrap();
        assert!((deviation - 0.005).abs() < 0.0004, "{deviation}");
    }
    let asked = flow.asked_figures.loss_burst_mean_packets.unwrap();
    assert!((asked - 4.0).abs() < 1e-9, "{asked}");
    // Packets 200 µs apart wait for each other, so that the mean is larger.
    let waits = of("delay 40ms ±5ms normal max");
    let fidelity = waits.current.fidelity.unwrap();
    assert_eq!(fidelity.verdict, FidelityVerdict::Differs);
    let mean = fidelity.figures.iter().find(|it| it.figure == FidelityFigure::DelayMeanSeconds);
    assert!(mean.is_some_and(|mean| !mean.is_within && mean.value > mean.max), "{mean:?}");
    let queue = of("rate 20M queue 30packets");
    assert_eq!(queue.current.realised.queue_max_packets, Some(30));
    let full = queue.current.fidelity.unwrap();
    let rate = full.figures[0];
    assert_eq!(full.verdict, FidelityVerdict::AsAsked);
    assert_eq!((rate.figure, full.figures.len()), (FidelityFigure::MaxBitsPerSecond, 1));
    // The link was always busy, and its queue left after the last arrival.
    assert!(rate.value > 20e6 && rate.value < rate.max, "{rate:?}");
    let link = of("loss 1%, rate 20M burst 20K queue 30packets overhead 24 cells 48+5");
    let fidelity = link.current.fidelity.unwrap();
    assert_eq!(fidelity.verdict, FidelityVerdict::AsAsked, "{fidelity:?}");
    assert!(fidelity.figures.last().unwrap().value > 19.5e6, "{fidelity:?}");
    for laws in [
        "reorder 5%",
        "loss 10%, delay 20ms, reorder 30% by 3packets",
        "rate 100M, reorder 50% by 20packets",
    ] {
        let fidelity = of(laws).current.fidelity.unwrap();
        assert_eq!(fidelity.verdict, FidelityVerdict::AsAsked, "{laws}: {fidelity:?}");
        let last = fidelity.figures.last().unwrap();
        assert_eq!(last.figure, FidelityFigure::ReorderedPackets, "{laws}");
        assert!(last.min > 0.0 && last.value > last.min, "{laws}: {last:?}");
    }
    assert_eq!(of("none").current.fidelity, None);
}
