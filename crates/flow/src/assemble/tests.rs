use weir_model::plan::TransportName;
use weir_model::record::{DirectionTotal, Interval, IntervalCount, Sums};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn received(bytes: u64, start: Option<f64>, seconds: f64) -> Flow {
    let per_second = |n: f64| (seconds > 0.0).then(|| n / seconds);
    Flow {
        receiver: Some(Receiver {
            bytes,
            packets: bytes / 1000,
            seconds,
            start_seconds: start,
            end_seconds: start.map(|s| s + seconds),
            bits_per_second: per_second(8.0 * bytes as f64),
            packets_per_second: per_second(bytes as f64 / 1000.0),
            ..Receiver::default()
        }),
        payload_bytes: 1000,
        transport: TransportName::Udp,
        ..Flow::default()
    }
}

fn sums(flows: &[Flow]) -> Sums {
    total(flows, flows[0].direction, &[], None).unwrap().receiver.unwrap()
}

#[test]
fn a_total_rate_is_what_was_carried_over_the_time_shown() {
    for start in [None, Some(0.0)] {
        let s = sums(&[received(1_000_000, start, 2.0), received(1_000_000, start, 1.0)]);
        assert!((s.bits_per_second.unwrap() - 8e6).abs() < 1.0, "{s:?}");
        assert!((s.packets_per_second.unwrap() - 1000.0).abs() < 1e-6, "{s:?}");
    }
}

#[test]
fn flows_one_after_another_are_summed_over_the_whole_time() {
    let flows = [received(1_000_000, Some(0.0), 1.0), received(1_000_000, Some(1.0), 1.0)];
    let s = sums(&flows);
    assert_eq!((s.start_seconds, s.end_seconds, s.seconds), (Some(0.0), Some(2.0), 2.0));
    assert!((s.bits_per_second.unwrap() - 8e6).abs() < 1.0, "{s:?}");
    let mut record = Record { flows: flows.to_vec(), ..Record::default() };
    let usage = link_usage(&record, 8_000_000, "stated".into()).unwrap();
    assert!((usage.payload_ratio - 1.0).abs() < 1e-9, "{usage:?}");
    for f in &mut record.flows {
        let r = f.receiver.as_ref().unwrap();
        f.sender = Some(Sender {
            seconds: r.seconds,
            start_seconds: r.start_seconds,
            ..Sender::default()
        });
    }
    assert_eq!(run_seconds(&record.flows), 2.0);
}

#[test]
fn one_packet_has_no_rate() {
    let s = sums(&[received(1000, Some(0.5), 0.0)]);
    assert_eq!((s.bits_per_second, s.packets_per_second, s.seconds), (None, None, 0.0));
}

fn count(packets: u64) -> IntervalCount {
    IntervalCount {
        bytes: packets * 1000,
        packets,
        lost_packets: Some(1),
        jitter_seconds: Some(packets as f64),
        mean_delay_seconds: Some(packets as f64),
        ..IntervalCount::default()
    }
}

/// Two reports of one flow that ended `end_ns` after the start, with these packets in each interval.
fn pair(sent: &[u64], got: &[u64], sent_until: u64, got_until: u64) -> [FlowReport; 2] {
    let seconds = |ns: u64| Some(ns as f64 / 1e9);
    let report = |packets: &[u64]| FlowReport {
        intervals: packets.iter().map(|n| count(*n)).collect(),
        ..FlowReport::default()
    };
    let sender = Sender { end_seconds: seconds(sent_until), ..Sender::default() };
    let receiver = Receiver { end_seconds: seconds(got_until), ..Receiver::default() };
    [
        FlowReport { sender: Some(sender), ..report(sent) },
        FlowReport { receiver: Some(receiver), ..report(got) },
    ]
}

fn rows([s, r]: &[FlowReport; 2], omit_ns: u64, shown: usize) -> Vec<Interval> {
    let plan = Plan { connections: vec![Default::default()], ..Plan::default() };
    let spec = plan.flows(Family::Ipv4, 1500).remove(0);
    let clock = IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns };
    intervals(&[(&spec, Some(s), Some(r))], clock, shown, None)
}

#[test]
fn a_short_remainder_extends_the_interval_before_at_both_ends() {
    // The sender closed empty intervals while it waited; only the receiver got data after the boundary.
    let reports = pair(&[10, 10, 0, 0], &[10, 8, 2], 2 * SECOND, 2 * SECOND + 30_000);
    let rows = rows(&reports, 0, 0);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].end_seconds, 2.00003);
    let flow = &rows[1].flows[0];
    let (s, r) = (flow.sender.as_ref().unwrap(), flow.receiver.as_ref().unwrap());
    assert_eq!((s.packets, r.packets, r.lost_packets), (10, 10, Some(2)));
    assert_eq!((r.jitter_seconds, r.mean_delay_seconds), (Some(2.0), Some(6.8)));
    let rate = 10.0 / 1.00003;
    assert!((r.packets_per_second.unwrap() - rate).abs() < 1e-9, "{r:?}");
    // The sender had a second to send in, whenever the last packet arrived.
    assert_eq!(s.packets_per_second, Some(10.0));
    let sum = rows[1].total.forward.as_ref().unwrap().receiver.as_ref().unwrap();
    assert!((sum.packets_per_second.unwrap() - rate).abs() < 1e-9, "{sum:?}");
}

#[test]
fn a_longer_remainder_has_its_own_row_and_so_has_one_after_a_shown_row() {
    let reports = pair(&[10, 2], &[10, 2], SECOND + 200_000_000, SECOND + 100_000_000);
    let two = rows(&reports, 0, 0);
    assert_eq!((two.len(), two[1].end_seconds), (2, 1.2));
    let rate = two[1].flows[0].receiver.as_ref().unwrap().packets_per_second.unwrap();
    assert!((rate - 10.0).abs() < 1e-9, "over the row's time, not to the last packet: {rate}");
    let short = pair(&[10, 2], &[10, 2], SECOND + 50_000_000, SECOND + 50_000_000);
    assert_eq!(rows(&short, 0, 0).len(), 1);
    assert_eq!(rows(&short, 0, 1).len(), 2, "a row that was shown stays as it was");
    assert_eq!(
        rows(&short, SECOND, 0).len(),
        2,
        "a counted interval is never added to an omitted one"
    );
    let idle = rows(&short, 0, 4);
    assert_eq!((idle.len(), idle[3].end_seconds), (4, 4.0), "shown while nothing ran");
}

#[test]
fn a_slow_flow_s_last_interval_lasts_until_the_end_of_sending() {
    let reports = pair(&[1, 1, 1], &[1, 1], 2 * SECOND + 500_000_000, SECOND + 1000);
    let rows = rows(&reports, 0, 0);
    assert_eq!((rows.len(), rows[2].end_seconds), (3, 2.5));
    let flow = &rows[2].flows[0];
    assert_eq!(flow.sender.as_ref().unwrap().packets_per_second, Some(2.0));
    let r = flow.receiver.as_ref().unwrap();
    assert_eq!((r.packets, r.packets_per_second), (0, Some(0.0)));
}

/// A queue of half a second delays arrivals beyond the end of sending.
#[test]
fn a_sender_s_rate_is_over_its_own_time_of_sending() {
    let last = |sent_until: u64| {
        let reports = pair(&[10, 2], &[8, 4], sent_until, SECOND + 700_000_000);
        let rows = rows(&reports, 0, 0);
        assert_eq!((rows.len(), rows[1].end_seconds), (2, 1.7));
        let flow = &rows[1].flows[0];
        let total = rows[1].total.forward.as_ref().unwrap();
        let rate = |c: &IntervalCount| c.packets_per_second.unwrap();
        assert_eq!(rate(total.sender.as_ref().unwrap()), rate(flow.sender.as_ref().unwrap()));
        [rate(flow.sender.as_ref().unwrap()), rate(flow.receiver.as_ref().unwrap())]
    };
    let [sent, received] = last(SECOND + 200_000_000);
    assert!((sent - 10.0).abs() < 1e-9 && (received - 4.0 / 0.7).abs() < 1e-9, "{sent} {received}");
    // One packet at the boundary: a rate over a microsecond would say nothing.
    let [sent, _] = last(SECOND + 1000);
    assert!((sent - 2.0 / 0.7).abs() < 1e-9, "{sent}");
}

#[test]
fn an_interval_without_length_has_no_rate() {
    let clock = IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns: 0 };
    let flows = [(1, Direction::Forward, TransportName::Udp, Some(count(1)), None)];
    let i = interval(&clock, 1, Some(SECOND), flows.into_iter());
    assert_eq!(i.flows[0].sender.as_ref().unwrap().bits_per_second, None);
    assert_eq!(i.total.forward.unwrap().sender.unwrap().packets_per_second, None);
}

#[test]
fn an_interval_total_lacks_what_one_datagram_flow_lacks() {
    let clock = IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns: 0 };
    let by_count = IntervalCount { lost_packets: None, ..count(2) };
    let total = |transport| {
        let flows = [(1, TransportName::Udp, count(1)), (2, transport, by_count.clone())];
        let flows = flows.map(|(id, t, c)| (id, Direction::Forward, t, None, Some(c)));
        interval(&clock, 0, None, flows.into_iter()).total.forward.unwrap().receiver.unwrap()
    };
    let datagrams = total(TransportName::Udp);
    assert_eq!((datagrams.packets, datagrams.lost_packets), (3, None));
    assert_eq!(total(TransportName::Tcp).lost_packets, Some(1), "a stream has no such figure");
}

#[test]
fn the_time_sources_of_all_receivers_are_named() {
    let plan = Plan { connections: vec![Default::default()], ..Plan::default() };
    let spec = plan.flows(Family::Ipv4, 1500).remove(0);
    let report = |source: Option<&str>| FlowReport {
        time_source: source.map(Into::into),
        ..FlowReport::default()
    };
    let named = |a, b| {
        let (a, b) = (report(a), report(b));
        time_source(&[(&spec, None, Some(&a)), (&spec, None, Some(&b))]).map(|t| t.receive)
    };
    assert_eq!(named(Some("kernel"), None).as_deref(), Some("kernel"));
    assert_eq!(named(Some("kernel"), Some("user")).as_deref(), Some("kernel+user"));
    assert_eq!(named(Some("kernel+user"), Some("kernel")).as_deref(), Some("kernel+user"));
    assert_eq!(named(None, None), None);
}

#[test]
fn totals_are_of_the_directions_that_ran() {
    let reverse = Flow { direction: Direction::Reverse, ..received(500_000, Some(0.0), 1.0) };
    let both = totals(&[received(1_000_000, Some(0.0), 1.0), reverse]);
    let bytes = |total: Option<DirectionTotal>| total.and_then(|t| t.receiver).map(|r| r.bytes);
    assert_eq!((bytes(both.forward), bytes(both.reverse)), (Some(1_000_000), Some(500_000)));
    assert!(totals(&[received(1, None, 1.0)]).reverse.is_none());
}
