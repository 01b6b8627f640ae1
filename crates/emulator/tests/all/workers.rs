//! Several threads for each direction: flows whose laws have a state are judged by one of them, others where packets arrive.
#![cfg(target_os = "linux")]

use weir_emulator::{Emulator, EmulatorConfig, EmulatorError, Report};
use weir_link::memory::{self, Outside};
use weir_model::impairment::{Counters, Impairment};
use weir_net::clock::Clock;

use crate::until;

const WORKERS: usize = 2;

/// A frame of IPv4 and UDP to this port, with a number.
fn frame(port: u16, number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 46, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x30, 0x39]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[42..46].try_into().unwrap())
}

fn start(document: &str) -> (Emulator, Vec<[Outside; 2]>) {
    let text = format!("schema = 'weir.impair/1'\nseed = '0x7'\n{document}");
    let config = EmulatorConfig::new("A", "B", Impairment::parse(&text).unwrap());
    let link = |name| memory::link(name, 1 << 20).unwrap();
    let ends: Vec<_> = (0..WORKERS).map(|_| (link("A"), link("B"))).collect();
    let (links, cables) =
        ends.into_iter().map(|((a, at_a), (b, at_b))| ([a, b], [at_a, at_b])).unzip();
    (Emulator::between_several(links, config).unwrap(), cables)
}

/// Waits until a flow has this many packets that were sent or lost; returns the report.
fn judged(emulator: &Emulator, name: &str, count: u64) -> Report {
    let report = || emulator.report().unwrap();
    until(&format!("{name}: {count} are judged"), || {
        let flow = counters(&report(), name);
        flow.sent_packets + flow.lost_packets >= count
    });
    report()
}

fn counters(report: &Report, name: &str) -> Counters {
    report.impairment.flows.iter().find(|flow| flow.name == name).unwrap().counters
}

/// The numbers of the frames that left by the link of each worker.
fn left(cables: &[[Outside; 2]]) -> Vec<Vec<u32>> {
    let of =
        |cable: &Outside| std::iter::from_fn(|| cable.take()).map(|frame| number(&frame)).collect();
    cables.iter().map(|[_, b]| of(b)).collect()
}

#[test]
fn a_law_with_a_state_counts_the_packets_of_all_threads() {
    const COUNT: u32 = 3000;
    let (emulator, cables) = start("[other]\na_to_b = 'loss every 3'");
    let now = Clock::System.monotonic_ns();
    for number in 0..COUNT {
        cables[number as usize % WORKERS][0].put(now + u64::from(number), &frame(5000, number));
    }
    judged(&emulator, "other", COUNT.into());
    let report = emulator.finish("test").report;
    let other = counters(&report, "other");
    assert_eq!((other.received_packets, other.lost_packets), (COUNT.into(), (COUNT / 3).into()));
    assert_eq!(report.directions[0].received_packets, u64::from(COUNT));
    assert_eq!(report.directions[0].unplanned_dropped_packets, 0);
    // One thread has judged all, and those of a connection are in order.
    let [first, second] = &left(&cables)[..] else { panic!("two workers") };
    assert_eq!((first.len() as u32, second.len()), (COUNT - COUNT / 3, 0));
    for parity in 0..2 {
        let of_one: Vec<_> = first.iter().filter(|number| *number % 2 == parity).collect();
        assert!(of_one.is_sorted());
    }
}

#[test]
fn packets_wait_for_a_thread_that_has_no_room() {
    // More than may wait between two threads.
    const COUNT: u32 = 100_000;
    let (emulator, cables) = start("[other]\na_to_b = 'loss every 1000000'");
    cables[0][1].set_room(100);
    let now = Clock::System.monotonic_ns();
    for number in 0..COUNT {
        cables[1][0].put(now, &frame(5000, number));
    }
    let held = || emulator.report().unwrap().directions[0].held_packets;
    until("the owner is full", || held() >= 4096);
    cables[0][1].set_room(1 << 20);
    judged(&emulator, "other", COUNT.into());
    let report = emulator.finish("test").report;
    assert_eq!(report.directions[0].unplanned_dropped_packets, 0);
    assert_eq!(counters(&report, "other").sent_packets, u64::from(COUNT));
    assert!(left(&cables)[0].is_sorted());
}

#[test]
fn a_law_without_a_state_is_applied_where_packets_arrive() {
    const COUNT: u32 = 20_000;
    let (emulator, cables) = start("[other]\na_to_b = 'loss 10%, delay 1ms'");
    let now = Clock::System.monotonic_ns();
    // The same packets, in the same order, at both.
    for number in 0..COUNT {
        for cable in &cables {
            cable[0].put(now + u64::from(number), &frame(5000, number));
        }
    }
    let all = u64::from(COUNT) * 2;
    judged(&emulator, "other", all);
    let report = emulator.finish("test").report;
    let other = counters(&report, "other");
    // Binomial: mean 4000, deviation 60; the bound is that of 10^-9.
    assert!(other.lost_packets.abs_diff(all / 10) < 370, "{}", other.lost_packets);
    let flow = report.impairment.flows.iter().find(|flow| flow.name == "other").unwrap();
    assert_eq!(flow.lateness.as_ref().unwrap().count, other.sent_packets);
    assert!(flow.realised.delay_min_seconds.unwrap() >= 0.001);
    let left = left(&cables);
    assert_eq!((left[0].len() + left[1].len()) as u64, other.sent_packets);
    assert!(left.iter().all(|of_one| of_one.is_sorted() && of_one.len() > 17_000));
    // No two threads draw the same.
    assert_ne!(left[0], left[1]);
}

#[test]
fn flows_are_divided_among_threads_and_follow_a_new_configuration() {
    let document = "[[flow]]\nname = 'x'\nfilter = { destination_port = '5001' }\na_to_b = 'loss every 2'\n\
        [[flow]]\nname = 'y'\nfilter = { destination_port = '5002' }\na_to_b = 'loss every 3'\n";
    let (emulator, cables) = start(document);
    let put = |from: u32| {
        let now = Clock::System.monotonic_ns();
        for number in from..from + 600 {
            let port = if number % 4 < 2 { 5001 } else { 5002 };
            cables[number as usize % WORKERS][0].put(now, &frame(port, number));
        }
    };
    put(0);
    judged(&emulator, "x", 300);
    let report = judged(&emulator, "y", 300);
    assert_eq!(["x", "y"].map(|name| counters(&report, name).lost_packets), [150, 100]);
    let left_by = left(&cables);
    let port = |numbers: &[u32]| numbers.iter().all(|number| number % 4 < 2);
    // Flow 1 belongs to the second thread, flow 2 to the first.
    assert!(port(&left_by[1]) && !left_by[0].iter().any(|number| number % 4 < 2));
    assert_eq!((left_by[1].len(), left_by[0].len()), (150, 200));
    emulator.remote().set_laws(Some("x"), Some("loss 100%".parse().unwrap()), None).unwrap();
    put(1000);
    judged(&emulator, "x", 600);
    judged(&emulator, "y", 600);
    let report = emulator.finish("test").report;
    assert_eq!(["x", "y"].map(|name| counters(&report, name).lost_packets), [450, 200]);
    assert!(left(&cables)[1].is_empty());
}

#[test]
fn a_trigger_counts_once_whatever_the_number_of_threads() {
    let document =
        "[other]\na_to_b = 'loss 100%, trigger command'\nb_to_a = 'loss 100%, trigger command'";
    let (emulator, cables) = start(document);
    assert_eq!(emulator.remote().trigger(None).unwrap(), 2);
    let now = Clock::System.monotonic_ns();
    for number in 0..200 {
        cables[number as usize % WORKERS][0].put(now, &frame(5000, number));
    }
    let report = judged(&emulator, "other", 200);
    assert_eq!(counters(&report, "other").lost_packets, 200);
    assert_eq!(report.impairment.flows[0].trigger.as_ref().unwrap().applications, 1);
    assert!(left(&cables).iter().all(Vec::is_empty));
}

#[test]
fn packets_that_pass_between_threads_at_the_end_are_accounted_for() {
    const COUNT: u32 = 20_000;
    for _ in 0..10 {
        let (emulator, cables) = start("[other]\na_to_b = 'loss every 1000000'");
        let now = Clock::System.monotonic_ns();
        for number in 0..COUNT {
            cables[1][0].put(now, &frame(5000, number));
        }
        let report = emulator.finish("test").report;
        let direction = &report.directions[0];
        assert_eq!((direction.held_packets, direction.unplanned_dropped_packets), (0, 0));
        assert_eq!(direction.received_packets, u64::from(COUNT));
        assert_eq!(counters(&report, "other").sent_packets, u64::from(COUNT));
        assert_eq!(left(&cables)[0].len(), COUNT as usize);
    }
}

#[test]
fn what_several_threads_cannot_do_is_refused() {
    let links = |count: usize| -> Vec<_> {
        let link = |name| memory::link(name, 16).unwrap().0;
        (0..count).map(|_| [link("A"), link("B")]).collect()
    };
    let refused = |count, config| match Emulator::between_several(links(count), config) {
        Err(EmulatorError::Refusal { what, given, .. }) => (what, given),
        other => panic!("{other:?}"),
    };
    let of = |text: &str| EmulatorConfig::new("A", "B", Impairment::parse(text).unwrap());
    let chain = "schema = 'weir.impair/1'\n[[flow]]\nname = 'x'\nhop = 2\na_to_b = 'loss 1%'\n";
    assert_eq!(refused(2, of(chain)), ("hops".into(), "2".into()));
    let mut traced = of("schema = 'weir.impair/1'");
    traced.packet_trace = Some("unused".into());
    assert_eq!(refused(2, traced), ("threads".into(), "2".into()));
    assert_eq!(refused(17, of("schema = 'weir.impair/1'")), ("threads".into(), "17".into()));
    // A chain that is asked for later.
    let (emulator, _cables) = start("");
    let error = emulator.remote().set(Impairment::parse(chain).unwrap()).unwrap_err();
    assert!(matches!(error, EmulatorError::Refusal { what, .. } if what == "hops"));
}
