use super::*;
use crate::demo::path::{Floor, cases, simulate};

fn is_failed(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Failed(_))
}

#[test]
fn a_count_holds_up_to_its_bounds_and_no_further() {
    let law = CountInterval { mean: 100.0, low: 49, high: 165 };
    for (realised, measured, passes) in [
        (49, Some(49), true),
        (48, Some(48), false),
        (165, Some(165), true),
        (166, Some(166), false),
        (100, Some(101), false),
        (100, Some(99), false),
        (100, None, false),
    ] {
        let line = count_line(1, "lost", &law, realised, measured, 0);
        assert_eq!(line.verdict == Verdict::Passed, passes, "{realised} {measured:?}");
        assert_eq!(is_failed(&line.verdict), !passes);
        assert_eq!(line.tolerance, Tolerance::Between(49, 165));
    }
    let exact = CountInterval::exact(7);
    assert_eq!(count_line(1, "queue drops", &exact, 7, Some(7), 0).verdict, Verdict::Passed);
    assert!(is_failed(&count_line(1, "queue drops", &exact, 8, Some(8), 0).verdict));
}

#[test]
fn a_time_holds_within_its_tolerance_and_is_undecided_only_when_host_limited() {
    let line = |realised: f64, measured: f64, host_limited| {
        let values = [Some(20.0), Some(realised), Some(measured)];
        time_line(1, "delay", Value::Seconds, values, 0.5, host_limited).verdict
    };
    assert_eq!(line(20.5, 19.5, None), Verdict::Passed);
    assert!(is_failed(&line(20.6, 20.0, None)));
    assert!(is_failed(&line(20.0, 19.4, None)));
    assert_eq!(line(20.0, 20.0, Some("3 % steal")), Verdict::Passed);
    let undecided = line(20.0, 21.0, Some("3 % steal"));
    assert_eq!(undecided, Verdict::Undecided("delay is wrong, and 3 % steal".into()));
    // A value that was not measured, or NaN, is within no tolerance.
    let none = time_line(1, "delay", Value::Seconds, [Some(1.0), Some(1.0), None], 9.0, None);
    assert!(is_failed(&none.verdict));
    assert!(is_failed(&line(f64::NAN, 20.0, None)));
}

#[test]
fn the_worst_verdict_is_the_rows() {
    let failed = || Verdict::Failed("a".into());
    let undecided = || Verdict::Undecided("b".into());
    assert_eq!(worst(vec![Verdict::Passed, undecided(), failed()]), failed());
    assert_eq!(worst(vec![undecided(), Verdict::Passed]), undecided());
    assert_eq!(worst(vec![]), Verdict::Passed);
}

fn row(name: &str) -> (PathCase, Evidence) {
    let case = cases(1).unwrap().into_iter().find(|c| c.name == name).unwrap();
    let evidence = simulate(&case).unwrap();
    (case, evidence)
}

#[test]
fn every_simulated_row_holds() {
    for case in cases(1).unwrap().iter().filter(|c| c.is_simulated()) {
        let judged = judge(case, &simulate(case).unwrap(), &Conditions::simulated());
        assert_eq!(judged.verdict, Verdict::Passed, "{}: {:#?}", case.name, judged.lines);
        let a = judged.agreement;
        assert!(a.sent >= 1000 && a.matched == a.sent, "{}: {a:?}", case.name);
        assert_eq!((a.remainder, a.unpredicted, a.unplanned), (0, 0, 0), "{}", case.name);
        assert!(a.predicted >= a.sent);
        // A virtual path and virtual hosts have no error.
        assert!(judged.residual_ns.iter().all(|r| *r == 0), "{}", case.name);
    }
}

#[test]
fn a_path_that_is_slower_than_said_is_found() {
    let (case, evidence) = row("constant delay in each direction");
    let off = Conditions { path_delay_ns: 30_000.0, ..Conditions::simulated() };
    assert!(is_failed(&judge(&case, &evidence, &off).verdict));
    let floor = Conditions { floor: Floor { median_ns: 30_000.0, single_ns: 0.0 }, ..off.clone() };
    assert_eq!(judge(&case, &evidence, &floor).verdict, Verdict::Passed);
    let host_limited = Conditions { host_limited: Some("a stall of 9 ms".into()), ..off };
    assert!(matches!(judge(&case, &evidence, &host_limited).verdict, Verdict::Undecided(_)));
}

#[test]
fn an_emulator_that_is_late_by_itself_fails() {
    use crate::demo::path::conditions::host_limit;
    let (case, mut evidence) = row("constant delay in each direction");
    let simulated = Conditions::simulated();
    // Each packet 3 ms after its deadline, as packet trace and receiver both see.
    for (record, _) in &mut evidence.packet_trace {
        record.time2_ns = record.time2_ns.map(|ns| ns + 3_000_000);
    }
    for record in &mut evidence.received {
        record.time2_ns = record.time2_ns.map(|ns| ns + 3_000_000);
    }
    let count = evidence.packet_trace.len() as u64;
    let report = |late_packets: u64| -> weir_emulator::Report {
        let direction = serde_json::json!({
            "direction": "forward", "received_packets": count, "received_bytes": 0,
            "sent_packets": count, "sent_bytes": 0, "unplanned_dropped_packets": 0,
            "exempt_packets": 0, "exempt_bytes": 0, "held_packets": 0, "late_packets": late_packets,
            "link": weir_emulator::LinkReport::default(),
        });
        serde_json::from_value(serde_json::json!({
            "schema": "weir.impair-report/1", "interfaces": ["a", "b"], "links": [],
            "seconds": 1.0, "impairment": { "config": case.impairment, "flows": [] },
            "directions": [direction], "configurations": [], "alarms": [], "notes": [],
        }))
        .unwrap()
    };
    let verdict = |late: u64| {
        let host_limited = host_limit(&evidence.record, &report(late), None);
        judge(&case, &evidence, &Conditions { host_limited, ..simulated.clone() }).verdict
    };
    assert!(is_failed(&verdict(count)), "{:?}", verdict(count));
    assert!(is_failed(&verdict(count / 2)));
    assert!(matches!(verdict(count / 100), Verdict::Undecided(_)));
}

#[test]
fn a_receiver_that_misses_a_packet_is_found_even_when_host_limited() {
    let (case, mut evidence) = row("loss");
    let at = evidence.received.len() / 2;
    evidence.received.remove(at);
    let receiver = evidence.record.flows[0].receiver.as_mut().unwrap();
    receiver.packets -= 1;
    receiver.lost_packets = receiver.lost_packets.map(|n| n + 1);
    let busy = Conditions { host_limited: Some("steal".into()), ..Conditions::simulated() };
    let judged = judge(&case, &evidence, &busy);
    assert!(is_failed(&judged.verdict));
    assert_eq!((judged.agreement.matched, judged.agreement.remainder), (9999, 1));
}

#[test]
fn an_emulator_that_draws_other_numbers_is_found() {
    // The same number of losses, all counted, but other packets than the seed's.
    let (mut case, evidence) = row("loss");
    case.impairment.seed = weir_model::units::Seed(1);
    let judged = judge(&case, &evidence, &Conditions::simulated());
    assert!(is_failed(&judged.verdict));
    assert!(judged.agreement.unpredicted > 0);
    assert_eq!(judged.agreement.matched, 10_000);
}

#[test]
fn a_departure_a_nanosecond_off_is_not_as_predicted() {
    let (case, mut evidence) = row("normal delay, in order");
    let judged = evidence.packet_trace[500].1.asked_ns.as_mut().unwrap();
    *judged += 1;
    let judged = judge(&case, &evidence, &Conditions::simulated());
    assert_eq!(judged.agreement.unpredicted, 1);
    assert!(is_failed(&judged.verdict));
}

#[test]
fn a_packet_that_the_emulator_sent_on_behind_a_later_one_is_counted() {
    let (case, mut evidence) = row("normal delay, in order");
    let at =
        evidence.packet_trace.iter().rposition(|(r, _)| r.kind == RecordKind::FORWARDED).unwrap();
    evidence.packet_trace[at].0.flags |= FLAG_REORDERED;
    let judged = judge(&case, &evidence, &Conditions::simulated());
    let line = judged.lines.iter().find(|line| line.figure == "reordered").unwrap();
    assert_eq!((line.asked, line.realised), (Value::Packets(0.0), Some(Value::Packets(1.0))));
    assert!(is_failed(&line.verdict) && is_failed(&judged.verdict));
}

#[test]
fn an_incomplete_packet_trace_gives_no_prediction() {
    let (case, mut evidence) = row("loss");
    evidence.packet_trace.remove(10);
    let judged = judge(&case, &evidence, &Conditions::simulated());
    assert!(is_failed(&judged.verdict));
    let missing = evidence.prediction(&case.impairment, "test", 1, Direction::Forward);
    assert_eq!(missing, Err("the packet trace is incomplete".into()));
}

#[test]
fn a_stream_is_judged_by_its_bytes() {
    let all = cases(1).unwrap();
    let mut case = all.into_iter().find(|c| !c.is_simulated()).unwrap();
    let (clean, mut evidence) = row("clean baseline");
    case.impairment = clean.impairment;
    let bytes = case.plan.connections[0].bytes.unwrap().0;
    let mut judged = |sent, received| {
        let flow = &mut evidence.record.flows[0];
        flow.sender.as_mut().unwrap().bytes = sent;
        flow.receiver.as_mut().unwrap().bytes = received;
        judge(&case, &evidence, &Conditions::simulated()).verdict
    };
    assert_eq!(judged(bytes, bytes), Verdict::Passed);
    assert!(is_failed(&judged(bytes, bytes - 1)));
    assert!(is_failed(&judged(bytes - 1, bytes - 1)));
    // All bytes arrive, but the dispositions of the frames are not those of the laws.
    case.impairment = all_lost();
    let flow = &mut evidence.record.flows[0];
    flow.sender.as_mut().unwrap().bytes = bytes;
    flow.receiver.as_mut().unwrap().bytes = bytes;
    assert!(is_failed(&judge(&case, &evidence, &Conditions::simulated()).verdict));
}

fn all_lost() -> Impairment {
    Impairment::of_both("loss 100%".parse().unwrap())
}

#[test]
fn what_the_hosts_lost_by_their_own_counters_is_undecided_and_no_more() {
    let (case, mut evidence) = row("loss");
    let at = evidence.received.len() / 2;
    evidence.received.remove(at);
    let receiver = evidence.record.flows[0].receiver.as_mut().unwrap();
    receiver.packets -= 1;
    receiver.lost_packets = receiver.lost_packets.map(|n| n + 1);
    let ledger = evidence.record.loss_ledger.as_mut().unwrap();
    ledger.missing_packets += 1;
    ledger.rows.push(weir_model::record::LedgerRow {
        stage: "socket overflow".into(),
        packets: 1,
        source: "SK_MEMINFO drops (flow 1)".into(),
        kind: "exact".into(),
        side: None,
    });
    ledger.settle();
    let dispositions = |evidence: &Evidence| {
        let claim = &case.claims[0];
        let found = FlowEvidence::of(claim, &case, evidence).unwrap();
        found.agree(&Conditions::simulated(), &mut Agreement::default())
    };
    assert!(matches!(dispositions(&evidence), Verdict::Undecided(_)));
    evidence.received.remove(at);
    assert!(is_failed(&dispositions(&evidence)));
}

#[test]
fn drops_of_a_queue_are_those_of_the_flow_itself() {
    let (case, mut evidence) = row("rate");
    // Of another sender in the same flow of the emulator: dropped as predicted, and not the test's.
    let at = evidence
        .packet_trace
        .iter()
        .position(|(r, _)| r.kind == RecordKind::QUEUE_DROPPED)
        .unwrap();
    evidence.packet_trace[at].1.native_sequence = None;
    let all =
        evidence.packet_trace.iter().filter(|(r, _)| r.kind == RecordKind::QUEUE_DROPPED).count();
    let found = evidence.prediction(&case.impairment, "test", 1, Direction::Forward).unwrap();
    assert_eq!((found.queue_dropped, found.differing), (all as u64 - 1, 0));
}

#[test]
fn a_remainder_of_the_records_ledger_fails_the_row() {
    let (case, mut evidence) = row("loss");
    evidence.record.loss_ledger.as_mut().unwrap().remainder_packets = 1;
    let judged = judge(&case, &evidence, &Conditions::simulated());
    assert!(is_failed(&judged.verdict), "{:?}", judged.verdict);
}

/// One packet less at the receiver, whose socket overflowed once.
fn overflowed(name: &str) -> (PathCase, Evidence) {
    let (case, mut evidence) = row(name);
    let at = evidence.received.len() / 2;
    evidence.received.remove(at);
    let receiver = evidence.record.flows[0].receiver.as_mut().unwrap();
    receiver.packets -= 1;
    receiver.lost_packets = receiver.lost_packets.map(|n| n + 1);
    let ledger = evidence.record.loss_ledger.as_mut().unwrap();
    ledger.missing_packets += 1;
    ledger.rows.push(record::LedgerRow {
        stage: "socket overflow".into(),
        packets: 1,
        source: "SK_MEMINFO drops (flow 1)".into(),
        kind: "exact".into(),
        side: Some("remote".into()),
    });
    (case, evidence)
}

#[test]
fn what_the_host_lost_by_its_own_counters_is_undecided() {
    for name in ["clean baseline", "loss", "rate"] {
        let (case, mut evidence) = overflowed(name);
        let calm = Conditions::simulated();
        let judged = judge(&case, &evidence, &calm);
        assert!(matches!(judged.verdict, Verdict::Undecided(_)), "{name}: {:?}", judged.verdict);
        assert!(judged.is_open() && !judged.is_fault);
        // A counter of the whole host suffices.
        let rows = &mut evidence.record.loss_ledger.as_mut().unwrap().rows;
        let row = rows.last_mut().unwrap();
        (row.stage, row.source) = ("softnet".into(), "/proc/net/softnet_stat dropped".into());
        row.packets = 7;
        let judged = judge(&case, &evidence, &calm);
        assert!(matches!(judged.verdict, Verdict::Undecided(_)), "{name}: {:?}", judged.verdict);
        // Without a counter it is a fault, under any load.
        evidence.record.loss_ledger.as_mut().unwrap().rows.pop();
        let busy = Conditions { host_limited: Some("load".into()), ..calm };
        let judged = judge(&case, &evidence, &busy);
        assert!(is_failed(&judged.verdict) && judged.is_fault && !judged.is_open(), "{name}");
    }
}

#[test]
fn only_times_that_failed_may_come_out_otherwise() {
    let (case, evidence) = row("constant delay in each direction");
    let off = Conditions { path_delay_ns: 30_000.0, ..Conditions::simulated() };
    let judged = judge(&case, &evidence, &off);
    assert!(is_failed(&judged.verdict) && judged.is_open() && !judged.is_fault);
    let (mut case, evidence) = row("loss");
    case.impairment.seed = weir_model::units::Seed(1);
    let judged = judge(&case, &evidence, &Conditions::simulated());
    assert!(is_failed(&judged.verdict) && judged.is_fault && !judged.is_open());
    let (case, evidence) = row("loss");
    assert!(!judge(&case, &evidence, &Conditions::simulated()).is_open());
}

#[test]
fn a_few_packets_that_were_held_up_behind_the_emulator_show_a_stall() {
    let (case, evidence) = row("normal delay, in order");
    // Every n-th arrival is 20 ms late, which shifts mean and standard deviation.
    let verdict = |every: usize| {
        let mut evidence = evidence.clone();
        for record in evidence.received.iter_mut().step_by(every) {
            record.time2_ns = record.time2_ns.map(|ns| ns + 20_000_000);
        }
        judge(&case, &evidence, &Conditions::simulated()).verdict
    };
    assert!(matches!(verdict(50), Verdict::Undecided(_)), "{:?}", verdict(50));
    assert!(is_failed(&verdict(2)), "{:?}", verdict(2));
}

#[test]
fn other_departures_under_load_are_undecided_and_other_dispositions_a_fault() {
    let (case, evidence) = row("normal delay, in order");
    let calm = Conditions::simulated();
    let busy = Conditions { host_limited: Some("load".into()), ..calm.clone() };
    let forwarded = |(record, _): &(packets::Record, Judged)| record.kind == RecordKind::FORWARDED;
    let at = evidence.packet_trace.iter().position(forwarded).unwrap();
    let mut moved = evidence.clone();
    moved.packet_trace[at].1.asked_ns = moved.packet_trace[at].1.asked_ns.map(|ns| ns + 1_000_000);
    assert!(is_failed(&judge(&case, &moved, &calm).verdict));
    let judged = judge(&case, &moved, &busy);
    assert!(matches!(judged.verdict, Verdict::Undecided(_)), "{:?}", judged.verdict);
    assert_eq!(judged.agreement.unpredicted, 1);
    // Lost where the laws drop nothing.
    let mut lost = evidence;
    lost.packet_trace[at].0.kind = RecordKind::LOST;
    assert!(is_failed(&judge(&case, &lost, &busy).verdict));
}
