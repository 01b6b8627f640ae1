use super::*;
use std::collections::BTreeMap;
use weir_model::plan::{Connection, Transport};
use weir_model::record::Receiver;
use weir_model::units::{ByteSize, Seed};
use weir_wire::packets::RecordKind;

const MS: u64 = 1_000_000;

fn udp(packets: u64) -> Connection {
    Connection {
        transport: Transport::udp(),
        rate: Some("1000pps".parse().unwrap()),
        payload: Some(ByteSize(160).into()),
        packets: Some(packets),
        ..Connection::default()
    }
}

fn simulation(connections: Vec<Connection>, laws: &str) -> Simulation {
    let impairment = Impairment { seed: Seed(7), ..Impairment::of_both(laws.parse().unwrap()) };
    let plan = Plan { connections, ..Plan::default() };
    Simulation { plan, impairment, before_ns: 0, after_ns: 0 }
}

fn run(connections: Vec<Connection>, laws: &str) -> Outcome {
    simulation(connections, laws).run().unwrap()
}

fn receiver(outcome: &Outcome) -> &Receiver {
    outcome.record.flows[0].receiver.as_ref().unwrap()
}

#[test]
fn a_clean_path_adds_its_delay_and_nothing_else() {
    let mut s = simulation(vec![udp(2000)], "none");
    (s.before_ns, s.after_ns) = (3 * MS, 4 * MS);
    let outcome = s.run().unwrap();
    let rx = receiver(&outcome);
    assert_eq!((rx.packets, rx.lost_packets, rx.duplicate_packets), (2000, Some(0), Some(0)));
    let delay = rx.one_way_delay.as_ref().unwrap();
    assert_eq!((delay.min_seconds, delay.max_seconds), (0.007, 0.007));
    assert_eq!(rx.jitter_seconds, Some(0.0));
    let (first, judged) = outcome.packet_trace[0];
    assert_eq!(
        (first.time1_ns, first.time2_ns),
        (Some(START_NS + 3 * MS), Some(START_NS + 3 * MS))
    );
    assert_eq!((judged.native_sequence, judged.native_flow), (Some(0), 1));
    assert_eq!(outcome.record.loss_ledger.as_ref().unwrap().remainder_packets, 0);
    assert_eq!(
        outcome.record.total.forward.as_ref().unwrap().receiver.as_ref().unwrap().packets,
        2000
    );
}

#[test]
fn the_receiver_measures_what_the_emulator_did() {
    let outcome = run(vec![udp(5000)], "loss 5% run 4, duplicate 2%, delay 9ms ±2ms normal allow");
    let counters = outcome.counters[0].counters;
    let rx = receiver(&outcome);
    assert!(counters.lost_packets > 0 && counters.duplicated_packets > 0);
    assert_eq!(rx.lost_packets, Some(counters.lost_packets));
    assert_eq!(rx.duplicate_packets, Some(counters.duplicated_packets));
    assert_eq!(outcome.packet_trace.len() as u64, 5000 + counters.duplicated_packets);
    assert_eq!(outcome.received.len() as u64, counters.sent_packets);
    // Each arrival's delay is that of a departure of its packet.
    for arrival in &outcome.received {
        let left = outcome.packet_trace.iter().filter(|(record, judged)| {
            record.kind == RecordKind::FORWARDED && judged.native_sequence == Some(arrival.sequence)
        });
        assert!(left.map(|(record, _)| record.time2_ns).any(|at| at == arrival.time2_ns));
    }
    assert!(outcome.received.is_sorted_by_key(|r| r.time2_ns));
}

#[test]
fn damage_is_dropped_by_the_stack_or_found_by_the_receiver() {
    let verified = || Connection { verify: true, ..udp(4000) };
    let left = run(vec![verified()], "corrupt 5% leave");
    let modified = left.counters[0].counters.modified_packets;
    assert!((100..320).contains(&modified), "{modified}");
    assert_eq!(left.stack_dropped_packets, modified);
    let rx = receiver(&left);
    assert_eq!((rx.lost_packets, rx.corrupted_packets), (Some(modified), Some(0)));
    let repaired = run(vec![verified()], "corrupt 5% repair");
    let rx = receiver(&repaired);
    assert_eq!((repaired.stack_dropped_packets, rx.corrupted_packets), (0, Some(modified)));
    // A flipped bit in the header loses the sequence number; elsewhere it is one bit error.
    assert_eq!(rx.lost_packets.unwrap() + rx.bit_errors.unwrap(), modified);
    let wrong_sum = run(vec![verified()], "corrupt 5% checksum");
    assert_eq!(receiver(&wrong_sum).lost_packets, Some(modified));
}

#[test]
fn each_direction_and_filter_has_its_own_laws() {
    let flow = |direction, port| {
        Connection { direction, ..udp(1000) }.with_ip(|ip| ip.client_port = Some(port))
    };
    let mut s = simulation(
        vec![
            flow(Direction::Forward, 5001),
            flow(Direction::Forward, 5002),
            flow(Direction::Reverse, 5001),
        ],
        "none",
    );
    s.impairment = Impairment::parse(
        r#"
        schema = "weir.impair/1"
        [[flow]]
        name = "one"
        filter = { source_port = "5001" }
        a_to_b = { loss = { every_nth = 10 } }
        b_to_a = { delay = { constant = "5ms" } }
        "#,
    )
    .unwrap();
    let outcome = s.run().unwrap();
    let of = |i: usize| {
        let r = outcome.record.flows[i].receiver.as_ref().unwrap();
        (r.lost_packets.unwrap(), r.one_way_delay.as_ref().unwrap().max_seconds)
    };
    assert_eq!([of(0), of(1), of(2)], [(100, 0.0), (0, 0.0), (0, 0.005)]);
    let one = outcome.counters.iter().filter(|c| c.name == "one");
    let received: Vec<_> = one.map(|c| (c.direction, c.counters.received_packets)).collect();
    assert_eq!(received, [(Direction::Forward, 1000), (Direction::Reverse, 1000)]);
}

#[test]
fn a_link_limits_the_rate_and_its_queue_the_delay() {
    let fast = Connection {
        rate: Some("150M".parse().unwrap()),
        payload: Some(ByteSize(1472).into()),
        packets: Some(10_000),
        ..udp(0)
    };
    let outcome = run(vec![fast], "rate 100M queue 50ms");
    let rx = receiver(&outcome);
    assert_eq!(rx.lost_packets, Some(outcome.counters[0].counters.queue_dropped_packets));
    // 1500 bytes and 18 of Ethernet for each 1472 of payload.
    let rate = rx.bits_per_second.unwrap();
    assert!((rate / (100e6 * 1472.0 / 1518.0) - 1.0).abs() < 1e-6, "{rate}");
    let longest = rx.one_way_delay.as_ref().unwrap().max_seconds;
    assert!((0.0499..0.0502).contains(&longest), "{longest}");
}

#[test]
fn the_same_simulation_has_the_same_outcome() {
    let s = simulation(vec![udp(2000)], "loss 2%, delay 9ms ±2ms, rate 1M");
    let (first, second) = (s.run().unwrap(), s.run().unwrap());
    assert_eq!((first.record, first.packet_trace), (second.record, second.packet_trace));
    let mut other = s.clone();
    other.impairment.seed = Seed(8);
    assert_ne!(first.received, other.run().unwrap().received);
}

#[test]
fn every_disposition_is_as_predicted() {
    for laws in [
        "delay 40ms ±5ms normal fifo-release",
        "loss 5% run 4, duplicate 3%, rate 1M queue 20ms, delay 4ms ±3ms exponential allow",
    ] {
        let mut s = simulation(vec![udp(3000)], laws);
        s.before_ns = 77;
        let outcome = s.run().unwrap();
        let mut ingress = BTreeMap::new();
        for (record, _) in &outcome.packet_trace {
            let (at_ns, length_bytes) = (record.time1_ns.unwrap(), record.size_bytes);
            ingress
                .insert(record.sequence, crate::Ingress { at_ns, length_bytes, is_control: false });
        }
        let dispositions =
            crate::predict(&s.impairment, "other", Way::Forward, ingress.into_values());
        let predicted: Vec<_> = dispositions
            .unwrap()
            .iter()
            .filter_map(|f| f.record(Way::Forward, Some(f.at_ns)))
            .collect();
        let happened: Vec<_> = outcome.packet_trace.iter().map(|(record, _)| *record).collect();
        assert_eq!(predicted, happened, "{laws}");
    }
}

#[test]
fn unsupported_flows_are_refused_by_name() {
    let refused = |connection: Connection| {
        let error = simulation(vec![Connection { name: "x".into(), ..connection }], "none").run();
        let error = error.unwrap_err();
        let SimError::Flow { flow, given, .. } = error else { panic!("{error:?}") };
        assert_eq!(flow, "x");
        given
    };
    let tcp = Connection { packets: Some(5), ..Connection::default() };
    assert!(refused(tcp).contains("TCP"));
    let free = Connection { rate: Some("0".parse().unwrap()), ..udp(5) };
    assert!(refused(free).contains("rate"));
    let endless =
        Connection { packets: None, duration: Some(weir_model::units::Span(0)), ..udp(5) };
    assert!(refused(endless).contains("end"));
    assert!(refused(Connection { autostart: false, ..udp(5) }).contains("command"));
}
