//! The two ends of a flow at their limits, and their reports.

use weir_flow::{
    BusyTimes, FEW_SEGMENTS, IntervalClock, IntervalLog, MAX_INTERVALS, NextSend, PayloadRing,
    Receiving, SenderClock, Sending, segments_per_message,
};
use weir_model::content::Content;
use weir_model::plan::{
    Connection, Family, FlowSpec, HeaderFormat, Plan, Transport, TransportName,
};
use weir_model::record::{Crossing, LimitedBy, Tcp};
use weir_model::units::{ByteSize, Span};
use weir_wire::header::native::{self, FLAG_VERIFY, HeaderLayout};
use weir_wire::header::{HeaderFields, SendTime, TagKey};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn spec(transport: TransportName, rate: &str, change: impl FnOnce(&mut Connection)) -> FlowSpec {
    let mut connection = Connection {
        transport: transport.into(),
        payload: Some(ByteSize(100).into()),
        rate: Some(rate.parse().unwrap()),
        ..Connection::default()
    };
    change(&mut connection);
    let plan = Plan { connections: vec![connection], ..Plan::default() };
    plan.check().unwrap();
    plan.flows(Family::Ipv4, 1500).remove(0)
}

fn key() -> TagKey {
    TagKey::for_flow(&[9; 16], 1)
}

fn clock(start_ns: u64) -> IntervalClock {
    IntervalClock { start_ns, interval_ns: SECOND, omit_ns: 0 }
}

/// A sender of `rate` that begins at 10 s.
fn sending(rate: &str, segmented: bool, change: impl FnOnce(&mut Connection)) -> Sending {
    let mut s = Sending::new(&spec(TransportName::Udp, rate, change), key(), 0, segmented);
    s.start(10 * SECOND, clock(10 * SECOND));
    s
}

fn receiving(rate: &str, change: impl FnOnce(&mut Connection)) -> Receiving {
    let mut r = Receiving::new(&spec(TransportName::Udp, rate, change), key(), 2 * SECOND, None);
    r.start(clock(0));
    r
}

fn datagram(payload: usize, sequence: u64, send_time_ns: u64, lateness_ns: i32) -> Vec<u8> {
    let mut bytes = vec![0; payload];
    let fields = HeaderFields { sequence, send_time_ns, lateness_ns, flow: 1, flags: 0 };
    native::encode(HeaderLayout::for_payload(payload), &key(), &fields, &mut bytes);
    bytes
}

#[test]
fn sending_starts_and_ends_by_its_times() {
    let mut s = Sending::new(&spec(TransportName::Udp, "1000pps", |_| {}), key(), 0, false);
    assert_eq!(s.next(5), NextSend::At(u64::MAX), "it has not been started");
    s.stop();
    assert_eq!(s.next(5), NextSend::Done, "stopped before its start");

    let half = |c: &mut Connection| c.duration = Some(Span(2500 * MS / 1000));
    let mut s = sending("1000pps", false, half);
    assert_eq!(s.next(9 * SECOND), NextSend::At(10 * SECOND));
    assert_eq!(s.next(10 * SECOND), NextSend::Now(1));
    s.sent(1, 1, 10 * SECOND);
    // 2.5 ms: the slots at 0, 1 and 2 ms; after those the end comes before the next slot.
    for slot in 1..3 {
        assert_eq!(s.next(10 * SECOND + slot * MS), NextSend::Now(1));
        s.sent(1, 1, 10 * SECOND + slot * MS);
    }
    assert_eq!(s.next(10 * SECOND + 2 * MS), NextSend::At(10 * SECOND + 2500 * MS / 1000));
    assert_eq!(s.next(10 * SECOND + 2500 * MS / 1000), NextSend::Done);
    assert_eq!(s.end_ns(), 10 * SECOND + 2500 * MS / 1000);

    // An unpaced one too, before and at its end; the omitted time is added to the duration.
    let mut s = Sending::new(&spec(TransportName::Udp, "0", half), key(), 5 * SECOND, false);
    s.start(10 * SECOND, clock(10 * SECOND));
    assert_eq!(s.next(9 * SECOND), NextSend::At(10 * SECOND));
    assert_eq!(s.end_ns(), 15 * SECOND + 2500 * MS / 1000);
}

#[test]
fn slots_due_before_the_end_are_missed_but_not_those_beyond_a_limit() {
    let mut s = sending("1000pps", false, |c| c.duration = Some(Span(100 * MS)));
    assert_eq!(s.next(10 * SECOND), NextSend::Now(1));
    s.sent(1, 1, 10 * SECOND);
    // Asked again long after the end: only what was due before it counts.
    assert_eq!(s.next(20 * SECOND), NextSend::Done);
    let r = s.report("send", None);
    assert_eq!((r.intended_slots, r.missed_slots, r.packets), (Some(100), Some(99), 1));
    assert_eq!(r.late_slots, Some(0));

    let mut s = sending("1000pps", false, |c| c.packets = Some(1));
    s.sent(1, 1, 10 * SECOND);
    assert_eq!(s.next(10 * SECOND), NextSend::Done);
    s.stop();
    assert_eq!(s.next(11 * SECOND), NextSend::Done);
    assert_eq!(s.report("send", None).missed_slots, Some(0), "it had sent all that was asked");
}

#[test]
fn limits_of_packets_and_of_bytes_bind() {
    for (packets, bytes, most) in [(Some(7), None, 7), (None, Some(650), 7), (None, Some(601), 7)] {
        let mut s = sending("0", false, |c| {
            c.packets = packets;
            c.bytes = bytes.map(ByteSize);
        });
        assert_eq!(s.next(10 * SECOND), NextSend::Now(most), "{packets:?} {bytes:?}");
        s.sent(most, most, 10 * SECOND);
        assert_eq!(s.next(10 * SECOND), NextSend::Done);
    }
    // A paced burst is cut at the limit.
    let mut s = sending("1000pps/10", false, |c| c.packets = Some(4));
    assert_eq!(s.next(10 * SECOND), NextSend::Now(4));
}

#[test]
fn the_last_write_of_a_stream_is_short() {
    let tcp = spec(TransportName::Tcp, "0", |c| c.bytes = Some(ByteSize(250)));
    let mut s = Sending::new(&tcp, key(), 0, false);
    s.start(0, clock(0));
    assert_eq!((s.write_length(), s.position()), (100, 0));
    s.wrote(100, true, 1);
    // A partial write: its packet counts once it is complete.
    s.wrote(40, false, 2);
    assert_eq!(s.total(), (1, 140));
    s.wrote(60, true, 3);
    assert_eq!((s.write_length(), s.total()), (50, (2, 200)));
    s.wrote(50, true, 4);
    assert_eq!((s.next(5), s.total()), (NextSend::Done, (3, 250)));
    assert_eq!(s.report("write", None).segments_per_message, None);
}

#[test]
fn headers_carry_number_time_lateness_and_flags() {
    let mut ring = PayloadRing::new(Content::Random, 1, 100);
    for verify in [false, true] {
        let mut s = sending("1000pps/3", false, |c| c.verify = verify);
        s.sent(3, 3, 10 * SECOND);
        // The burst of slots 3, 4, 5 is due 3 ms after the start; it is sent 2 ms late.
        let now = 10 * SECOND + 5 * MS;
        let (bytes, count) = s.fill(&mut ring, 4, now);
        assert_eq!(count, 4);
        let read: Vec<_> = bytes
            .chunks(100)
            .map(|b| native::decode(HeaderLayout::Full32, &key(), b).unwrap())
            .collect();
        assert_eq!(read.iter().map(|d| d.sequence).collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert!(read.iter().all(|d| d.send_time == Some(SendTime::Full(now))));
        assert!(read.iter().all(|d| d.flags == Some(if verify { FLAG_VERIFY } else { 0 })));
        let late: Vec<_> = read.iter().map(|d| d.lateness_ns.unwrap()).collect();
        assert_eq!(late, [2_000_000, 2_000_000, 2_000_000, -1_000_000], "each by its own slot");
    }
}

#[test]
fn a_sender_reports_what_the_network_accepted() {
    let mut s = sending("1000pps/8", true, |c| c.duration = Some(Span(SECOND)));
    let message = segments_per_message(100, FEW_SEGMENTS) as u32;
    assert_eq!(s.next(10 * SECOND), NextSend::Now(message), "whole messages when segmented");
    s.called(1);
    s.waits(10 * SECOND - 3 * MS);
    s.sent(0, 0, 10 * SECOND);
    assert_eq!(s.report("send", None).segments_per_message, None, "nothing was accepted");
    for n in 0..15u64 {
        let at = 10 * SECOND + n * u64::from(message) * MS;
        assert_eq!(s.next(at), NextSend::Now(message));
        s.called(1);
        s.sent(message, 1, at);
    }
    let r = s.report("gso", Some(4096));
    assert_eq!((r.packets, r.bytes), (15 * u64::from(message), 1500 * u64::from(message)));
    assert_eq!(r.segments_per_message, Some(f64::from(message)));
    assert_eq!((r.io_calls, r.sleeps, r.sleep_seconds), (Some(16), Some(1), Some(3e-3)));
    assert_eq!(r.refused_sends, None);
    assert_eq!((r.intended_slots, r.missed_slots), (Some(r.packets), Some(0)));
    assert_eq!(r.asked_packets_per_second, Some(1000.0));
    // It is incomplete: the time is the planned one.
    assert_eq!(r.seconds, 1.0);
    s.stop();
    assert_eq!(s.report("gso", None).seconds, 14.0 * f64::from(message) / 1e3);
    assert_eq!(sending("0", false, |_| {}).report("send", None).sleeps, Some(0));
    // A sender that reached its limit before its end took no longer than that.
    let mut s = sending("0", false, |c| c.packets = Some(2));
    s.sent(1, 1, 10 * SECOND);
    s.sent(1, 1, 10 * SECOND + 3 * MS);
    assert_eq!(s.report("send", None).seconds, 3e-3);
}

#[test]
fn what_a_protocol_sends_itself_is_counted_as_data() {
    let mut s = sending("1000pps", false, |c| c.packets = Some(3));
    s.sent_by_protocol(1, 100, 10 * SECOND);
    assert_eq!(s.next(10 * SECOND), NextSend::Now(1));
    s.sent(1, 1, 10 * SECOND);
    s.finish(10 * SECOND + 2 * MS);
    // The last one comes after the end of sending.
    s.sent_by_protocol(1, 100, 10 * SECOND + 3 * MS);
    let r = s.report("send", None);
    assert_eq!((r.packets, r.bytes, r.seconds), (3, 300, 3e-3));
    let counts = s.interval_counts();
    assert_eq!(counts.iter().map(|c| (c.packets, c.bytes)).collect::<Vec<_>>(), [(3, 300)]);
    // Bytes of a stream, before it starts.
    let spec = spec(TransportName::Tcp, "0", |c| c.bytes = Some(ByteSize(150)));
    let mut s = Sending::new(&spec, key(), 0, false);
    s.sent_by_protocol(0, 60, 10 * SECOND);
    s.start(10 * SECOND, clock(10 * SECOND));
    assert_eq!((s.position(), s.write_length()), (60, 90));
}

#[test]
fn send_times_have_the_epoch_of_a_realtime_clock() {
    let header = |c: &mut Connection| c.header = HeaderFormat::Iperf2;
    let spec = spec(TransportName::Udp, "1000pps", header);
    let mut s = Sending::new(&spec, key(), 0, false).with_epoch(5 * SECOND);
    s.start(10 * SECOND, clock(10 * SECOND));
    let mut ring = PayloadRing::new(Content::Random, 1, 100).with_prefix(16, &[7; 4]);
    let (bytes, _) = s.fill(&mut ring, 1, 10 * SECOND + 3000);
    // Number, seconds and microseconds.
    assert_eq!(bytes[..12], [0, 0, 0, 1, 0, 0, 0, 15, 0, 0, 0, 3]);
    assert_eq!(bytes[16..20], [7; 4]);
}

#[test]
fn empty_datagrams_close_an_interval_too() {
    let mut s = sending("0", false, |c| c.payload = Some(ByteSize(0).into()));
    s.sent(3, 3, 10 * SECOND + 1);
    s.finish(10 * SECOND + 2);
    let counts = s.interval_counts();
    assert_eq!(counts.iter().map(|c| (c.packets, c.bytes)).collect::<Vec<_>>(), [(3, 0)]);
}

#[test]
fn fifo_is_reported_only_of_a_flow_that_was_always_sent_under_it() {
    use weir_flow::Class::{Fifo, Normal};
    let reported = |classes: &[weir_flow::Class]| {
        let mut s = sending("0", false, |_| {});
        classes.iter().for_each(|class| s.scheduled(*class));
        s.report("send", None).scheduling
    };
    assert_eq!(reported(&[]), None);
    assert_eq!(reported(&[Fifo, Fifo]).as_deref(), Some("fifo"));
    assert_eq!(reported(&[Fifo, Normal, Fifo]).as_deref(), Some("normal"));
    assert_eq!(reported(&[Normal, Fifo]).as_deref(), Some("normal"));
}

#[test]
fn a_senders_time_leaves_the_omitted_part_out() {
    let s = spec(TransportName::Udp, "0", |c| c.duration = Some(Span(SECOND)));
    let mut s = Sending::new(&s, key(), SECOND, false);
    s.start(0, IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns: SECOND });
    for ms in 0..1500 {
        let _ = s.next(ms * MS);
        s.sent(1, 1, ms * MS);
    }
    let r = s.report("send", None);
    assert_eq!((r.packets, r.bytes, r.seconds), (500, 50_000, 1.0));
    assert_eq!((r.packets_per_second, r.bits_per_second), (Some(500.0), Some(400_000.0)));
    s.stop();
    assert_eq!(s.report("send", None).seconds, 0.499);
}

#[test]
fn a_sender_that_is_not_served_has_its_intervals_until_its_end() {
    let mut s = sending("0", false, |c| c.transport = Transport::tcp());
    s.wrote(500, false, 10 * SECOND);
    s.advance(13 * SECOND);
    assert_eq!(s.interval_counts().iter().map(|c| c.bytes).collect::<Vec<_>>(), [500, 0, 0]);
    s.wrote(700, true, 13_100 * MS);
    s.stop();
    s.finish(13_200 * MS);
    s.advance(20 * SECOND);
    assert_eq!(s.interval_counts().len(), 4, "after its end it has none");
    assert_eq!(s.end_offset_ns(), Some(3_100 * MS));
}

#[test]
fn a_sender_that_is_stopped_early_ended_with_its_last_send() {
    let mut s = sending("10pps", false, |c| c.duration = Some(Span::from_seconds(10)));
    for n in 0..15 {
        let now = 10 * SECOND + n * 100 * MS;
        s.next(now);
        s.sent(1, 1, now);
    }
    // The other end ended the test after 1.6 of its 10 s.
    s.finish(11_600 * MS);
    let report = s.report("send", None);
    assert_eq!((report.seconds, report.end_seconds), (1.4, Some(1.4)));
    assert_eq!(s.end_offset_ns(), Some(1400 * MS));
    // Finishing it again, as the last report does, does not make it longer.
    s.finish(25 * SECOND);
    assert_eq!(s.end_offset_ns(), Some(1400 * MS));
}

#[test]
fn a_lost_tail_has_its_intervals_until_the_sender_s_end() {
    let mut r = receiving("10pps", |_| {});
    for n in 0..15 {
        r.on_message(&datagram(100, n, n * 100 * MS, 0), None, n * 100 * MS, |_| {});
    }
    r.set_sent_total(40);
    r.set_sender_end(4 * SECOND);
    r.finish(6 * SECOND);
    let rows: Vec<_> =
        r.interval_counts().iter().map(|c| (c.packets, c.lost_packets.unwrap())).collect();
    assert_eq!(rows, [(10, 0), (5, 5), (0, 10), (0, 10)]);
}

#[test]
fn spacing_is_reported_by_bursts() {
    let mut s = sending("1000pps/2", false, |_| {});
    for n in 0..2000u64 {
        // One burst of fifty is sent 300 us late: the gap before it is longer, the gap after it shorter.
        let at = 10 * SECOND + n * 2 * MS + if n % 50 == 25 { 300_000 } else { 0 };
        s.sent(2, 2, at);
    }
    let spacing = s.report("send", None).spacing.unwrap();
    assert_eq!(spacing.intended_seconds, 0.002);
    assert_eq!((spacing.p50_seconds, spacing.deviation_seconds), (0.0, 0.0));
    assert_eq!(spacing.max_seconds, 0.0003);
    assert_eq!((spacing.p01_seconds, spacing.p99_seconds), (Some(-0.0003), Some(0.0003)));
}

#[test]
fn the_limit_of_a_stream_is_that_of_its_interval() {
    let times = |ms: u64, window_ms: u64| BusyTimes {
        busy_us: 1000 * ms,
        receive_window_us: 1000 * window_ms,
        ..BusyTimes::default()
    };
    let mut s = Sending::new(&spec(TransportName::Tcp, "0", |_| {}), key(), 0, false);
    s.start(0, clock(0));
    s.wrote(1000, true, 1);
    // What passed before the first call is unknown.
    s.note_busy(times(500, 0));
    s.note_busy(times(600, 90));
    let _ = s.next(SECOND);
    s.wrote(500, true, SECOND + 500 * MS);
    s.note_busy(times(700, 100));
    let _ = s.next(2 * SECOND);
    let _ = s.next(3 * SECOND);
    let limits: Vec<_> = s.interval_counts().iter().map(|c| c.limited_by).collect();
    assert_eq!(limits, [Some(LimitedBy::ReceiveWindow), Some(LimitedBy::Congestion), None]);
}

#[test]
fn tcp_figures_are_of_their_interval() {
    let mut s = Sending::new(&spec(TransportName::Tcp, "0", |_| {}), key(), 0, false);
    s.start(0, clock(0));
    s.wrote(1000, true, 1);
    s.note_tcp(3, 5000, 20 * MS);
    s.note_tcp(4, 6000, 30 * MS);
    let _ = s.next(SECOND);
    s.wrote(500, true, SECOND + 500 * MS);
    s.note_tcp(9, 7000, 40 * MS);
    s.finish(SECOND + 500 * MS);
    let counts = s.interval_counts();
    let got: Vec<_> = counts
        .iter()
        .map(|c| (c.bytes, c.retransmits.unwrap(), c.cwnd_bytes.unwrap(), c.rtt_seconds.unwrap()))
        .collect();
    assert_eq!(got, [(1000, 4, 6000, 0.03), (500, 5, 7000, 0.04)]);
    // The record, which knows both ends, states where the last one was cut.
    let rates = (counts[0].bits_per_second, counts[1].bits_per_second);
    assert_eq!(rates, (Some(8000.0), Some(4000.0)));
}

#[test]
fn round_trip_and_window_of_a_whole_stream_are_means_over_its_sending() {
    let clock = IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns: SECOND };
    let mut s = Sending::new(&spec(TransportName::Tcp, "0", |_| {}), key(), SECOND, false);
    s.start(0, clock);
    let of = |s: &Sending| {
        let mut tcp = Tcp::default();
        s.report_tcp(&mut tcp);
        (tcp.rtt_seconds, tcp.max_rtt_seconds, tcp.cwnd_bytes, tcp.max_cwnd_bytes)
    };
    // Nothing was sent; then it was, in the omitted start.
    s.note_tcp(0, 1000, 500 * MS);
    s.wrote(1000, true, 1);
    s.note_tcp(0, 1000, 500 * MS);
    assert_eq!(of(&s), (None, None, None, None));
    let _ = s.next(SECOND);
    s.note_tcp(0, 5000, 20 * MS);
    s.note_tcp(0, 8000, 30 * MS);
    s.note_tcp(0, 5000, 40 * MS);
    s.finish(SECOND + 500 * MS);
    // What follows the end of sending is not counted.
    s.note_tcp(0, 9000, 900 * MS);
    assert_eq!(of(&s), (Some(0.03), Some(0.04), Some(6000), Some(8000)));
}

#[test]
fn a_log_of_very_many_intervals_stays_bounded() {
    let mut log = IntervalLog::<u64>::default();
    log.start(IntervalClock { start_ns: 0, interval_ns: 1, omit_ns: 0 });
    while log.is_due(2 * MAX_INTERVALS as u64) {
        log.close(|_| {});
    }
    assert_eq!(log.closed().len(), MAX_INTERVALS);
}

#[test]
fn numbers_beyond_the_announced_total_are_rejected() {
    for limit in [(|c: &mut Connection| c.packets = Some(4)) as fn(&mut Connection), |c| {
        c.bytes = Some(ByteSize(301))
    }] {
        let mut r = receiving("0", limit);
        for n in [0, 1, 2, 3, 4] {
            r.on_message(&datagram(100, n, 0, 0), None, n, |_| {});
        }
        r.set_sent_total(4);
        r.finish(10 * SECOND);
        let report = r.report("recvmmsg", None, None);
        assert_eq!((report.packets, report.implausible_packets), (4, Some(1)));
        assert_eq!((report.corrupted_packets, report.unreadable_packets), (Some(0), Some(0)));
    }
}

#[test]
fn delays_need_related_clocks_and_keep_the_worst_bound() {
    let mut r = receiving("1000pps", |_| {});
    r.on_message(&datagram(100, 0, 0, 0), None, 5, |_| {});
    r.on_message(&datagram(100, 1, MS, 0), None, MS + 5, |_| {});
    assert_eq!(r.report("", None, None).one_way_delay, None);
    assert_eq!(r.report("", None, None).jitter_seconds, Some(0.0));
    r.set_clock(SenderClock { error_ns: 700, ..SenderClock::default() });
    r.set_clock(SenderClock { error_ns: 300, ..SenderClock::default() });
    // Sent 4 us after its slot, 10 us under way.
    r.on_message(&datagram(100, 2, 2 * MS, 4000), None, 2 * MS + 10_000, |_| {});
    let report = r.report("", None, None);
    let delay = report.one_way_delay.unwrap();
    assert_eq!((delay.count, delay.error_seconds), (3, Some(7e-7)));
    assert_eq!((delay.min_seconds, delay.max_seconds, delay.negative_samples), (5e-9, 1e-5, None));
    assert_eq!(report.one_way_delay_from_intended.unwrap().max_seconds, 1.4e-5);
    // Without a pace there is no intended time.
    let mut r = receiving("0", |_| {});
    r.set_clock(SenderClock::default());
    r.on_message(&datagram(100, 0, 0, 4000), None, 10_000, |_| {});
    assert_eq!(r.report("", None, None).one_way_delay_from_intended, None);
}

#[test]
fn quantiles_of_delay_and_variation_are_those_named() {
    let mut r = receiving("1000pps", |_| {});
    r.set_clock(SenderClock::default());
    // Delays of 1 to 1000 us, in order: neighbours differ by 1 us.
    for n in 0..1000u64 {
        r.on_message(&datagram(100, n, n * MS, 0), None, n * MS + (n + 1) * 1000, |_| {});
    }
    let report = r.report("", None, None);
    let d = report.one_way_delay.unwrap();
    let near = |got: Option<f64>, us: f64| {
        assert!((got.unwrap() * 1e6 / us - 1.0).abs() < 0.002, "{got:?} {us}")
    };
    near(d.p50_seconds, 500.0);
    near(d.p90_seconds, 900.0);
    near(d.p99_seconds, 990.0);
    near(Some(d.max_seconds), 1000.0);
    assert_eq!(d.p99_9_seconds, None, "too few for it");
    let variation = report.delay_variation.unwrap();
    near(variation.pdv_p99_seconds, 989.0);
    assert_eq!(variation.ipdv_p99_seconds, None, "999 pairs");
    r.on_message(&datagram(100, 1000, 1000 * MS, 0), None, 1000 * MS + 1_001_000, |_| {});
    near(r.report("", None, None).delay_variation.unwrap().ipdv_p99_seconds, 1.0);
    // Each interval has its own mean.
    r.finish(10 * SECOND);
    near(r.interval_counts()[0].mean_delay_seconds, 500.5);
}

#[test]
fn a_short_send_time_is_made_whole_by_the_clocks_relation() {
    // A payload of 8 bytes carries 32 bits of a time on a clock 1000 s ahead.
    let mut r = receiving("1000pps", |c| c.payload = Some(ByteSize(8).into()));
    let ahead = 1000 * SECOND;
    r.set_clock(SenderClock { offset_ns: ahead as i64, ..SenderClock::default() });
    let mut send_ns = None;
    r.on_message(&datagram(8, 0, ahead + 7 * SECOND, 0), None, 7 * SECOND + 100, |l| {
        send_ns = l.send_ns
    });
    assert_eq!(send_ns, Some(ahead + 7 * SECOND));
    assert_eq!(r.report("", None, None).one_way_delay.unwrap().min_seconds, 1e-7);
}

#[test]
fn late_and_long_datagrams_are_distinguished_from_good_ones() {
    let mut r = receiving("1000pps", |_| {});
    r.on_message(&datagram(100, 0, 0, 0), None, 0, |_| {});
    r.on_message(&datagram(100, 2, 0, 0), None, MS, |_| {});
    r.advance(3 * SECOND);
    assert_eq!(r.report("", None, None).packets, 2);
    r.on_message(&datagram(100, 1, 0, 0), None, 3 * SECOND, |_| {});
    r.set_sent_total(4);
    assert!(!r.is_complete(), "the last one has not arrived");
    r.on_message(&datagram(100, 3, 0, 0), None, 3 * SECOND, |_| {});
    assert!(r.is_complete());
    r.finish(6 * SECOND);
    let report = r.report("", None, None);
    assert_eq!((report.packets, report.lost_packets, report.late_packets), (3, Some(1), Some(1)));
    assert_eq!(report.bytes, 300);
    assert_eq!(report.loss_ratio, Some(0.25));
    // A message of one datagram that claims a segment of its own size, or more, crossed individually.
    assert_eq!(report.crossing, Some(Crossing::PerPacket));
    let mut r = receiving("0", |_| {});
    r.on_message(&datagram(100, 0, 0, 0), Some(100), 1, |_| {});
    r.on_message(&datagram(100, 1, 0, 0), Some(500), 2, |_| {});
    assert_eq!(r.report("", None, None).crossing, Some(Crossing::PerPacket));
}

#[test]
fn verification_reads_every_byte_behind_the_header() {
    let s = spec(TransportName::Udp, "1000pps", |c| c.verify = true);
    let mut ring = PayloadRing::new(Content::Random, 1, 100);
    let mut r = Receiving::new(&s, key(), 2 * SECOND, Some(std::sync::Arc::new(ring.clone())));
    r.start(clock(0));
    let mut tx = Sending::new(&s, key(), 0, false);
    tx.start(0, clock(0));
    for n in 0..4 {
        let (bytes, _) = tx.fill(&mut ring, 1, n);
        let mut bytes = bytes.to_vec();
        tx.sent(1, 1, n);
        match n {
            1 => bytes[99] ^= 1,
            2 => bytes.push(0),
            _ => {}
        }
        r.on_message(&bytes, None, n, |_| {});
    }
    let report = r.report("", None, None);
    assert_eq!((report.bit_errors, report.corrupted_packets), (Some(1), Some(2)));
    // 100 bytes each without their headers of 32.
    assert_eq!(report.verified_bytes, Some(4 * 68));
    // The two with damaged content are among the four.
    assert_eq!(report.segments_per_message, Some(1.0));
    // Narrow headers have no tag; damage is known only by verification.
    let s = spec(TransportName::Udp, "1000pps", |c| {
        c.verify = true;
        c.payload = Some(ByteSize(10).into());
    });
    let ring = PayloadRing::new(Content::Random, 1, 10);
    let r = Receiving::new(&s, key(), 2 * SECOND, Some(std::sync::Arc::new(ring)));
    assert_eq!(r.report("", None, None).corrupted_packets, Some(0));
    let r = receiving("1000pps", |c| c.payload = Some(ByteSize(10).into()));
    assert_eq!(r.report("", None, None).corrupted_packets, None);
}

/// The relation of the clocks arrives over the path and can be later than the first datagrams: they have a delay
/// nevertheless.
#[test]
fn datagrams_before_the_clocks_relation_have_a_delay() {
    for payload in [10, 100] {
        let mut r = receiving("1000pps", |c| c.payload = Some(ByteSize(payload).into()));
        r.start(IntervalClock { start_ns: 10 * SECOND, interval_ns: SECOND, omit_ns: 0 });
        // Ahead by more than the header's 32 bits of time can hold.
        let ahead = 1000 * SECOND;
        let arrive = |r: &mut Receiving, n: u64, delay_ns: u64| {
            let sent = 10 * SECOND + n * 100 * MS;
            let bytes = datagram(payload as usize, n, sent + ahead, 0);
            r.advance(sent + delay_ns);
            r.on_message(&bytes, None, sent + delay_ns, |_| {});
        };
        for n in 0..12 {
            arrive(&mut r, n, 20 * MS);
        }
        assert!(r.report("", None, None).one_way_delay.is_none(), "nothing is known yet");
        r.set_clock(SenderClock { offset_ns: ahead as i64, ..SenderClock::default() });
        arrive(&mut r, 12, 40 * MS);
        let delay = r.report("", None, None).one_way_delay.unwrap();
        assert_eq!((delay.count, delay.min_seconds, delay.max_seconds), (13, 0.02, 0.04));
        r.advance(12 * SECOND);
        let means = r.interval_counts().into_iter().map(|i| i.mean_delay_seconds.unwrap());
        let means: Vec<f64> = means.collect();
        assert_eq!(means[0], 0.02);
        assert!((means[1] - 0.08 / 3.0).abs() < 1e-12, "{means:?}");
    }
}

/// A member of a group for a part of a flow accounts for that part: from the first packet after joining to the highest
/// before leaving.
#[test]
fn a_member_accounts_for_what_was_sent_while_it_was_one() {
    let new = |from_start: bool| {
        let mut r = receiving("1000pps", |c| c.payload = Some(ByteSize(100).into()));
        r.expect_membership(from_start);
        r.start(IntervalClock { start_ns: 10 * SECOND, interval_ns: SECOND, omit_ns: 0 });
        r
    };
    let arrive = |r: &mut Receiving, n: u64| {
        r.on_message(&datagram(100, n, 0, 0), None, 10 * SECOND + n * MS, |_| {});
    };
    let mut r = new(false);
    r.joined(10 * SECOND + 498 * MS);
    // 503 is lost, and 499 was overtaken before the first arrival: it may have been sent before the report arrived.
    [500, 499, 501, 502, 504, 505].into_iter().for_each(|n| arrive(&mut r, n));
    r.left(10 * SECOND + 506 * MS);
    arrive(&mut r, 506);
    r.watched();
    let after = |n: u64| (datagram(100, n, 0, 0), 10 * SECOND + n * MS);
    [506, 516, 515].map(after).iter().for_each(|(bytes, at)| r.arrived_after_leaving(bytes, *at));
    r.arrived_after_leaving(&[0; 100], 11 * SECOND);
    r.set_sent_total(1000);
    assert!(!r.is_complete(), "one is awaited");
    r.finish(20 * SECOND);
    let report = r.report("", None, None);
    assert_eq!((report.packets, report.lost_packets), (5, Some(1)));
    assert_eq!((report.loss_ratio, report.reordered_packets), (Some(1.0 / 6.0), Some(0)));
    assert_eq!(r.interval_counts().iter().filter_map(|i| i.lost_packets).sum::<u64>(), 1);
    let member = r.membership().unwrap();
    assert_eq!((member.joined_seconds, member.left_seconds), (Some(0.498), Some(0.506)));
    assert_eq!((member.join_latency_seconds, member.unjoined_packets), (Some(0.002), Some(994)));
    let leave = (member.leave_latency_seconds, member.leave_latency_is_bound);
    assert_eq!(leave, (Some(0.01), Some(false)));
    let (bytes, at) = after(999);
    r.arrived_after_leaving(&bytes, at);
    assert_eq!(r.membership().unwrap().leave_latency_is_bound, Some(true), "the last one sent");

    // A member before the start that leaves: what it missed at the start is lost.
    let mut r = new(true);
    [2, 3].into_iter().for_each(|n| arrive(&mut r, n));
    r.left(10 * SECOND + 4 * MS);
    r.set_sent_total(1000);
    r.finish(20 * SECOND);
    assert_eq!(r.report("", None, None).lost_packets, Some(2));
    let member = r.membership().unwrap();
    assert_eq!((member.joined_seconds, member.join_latency_seconds), (None, None));
    assert_eq!(member.unjoined_packets, Some(996));

    // Nothing arrived after joining: it is unknown which packets could have.
    let mut r = new(false);
    r.joined(11 * SECOND);
    r.set_sent_total(1000);
    assert!(r.is_complete());
    r.finish(20 * SECOND);
    let report = r.report("", None, None);
    assert_eq!((report.packets, report.lost_packets, report.loss_ratio), (0, None, None));
    assert_eq!(r.membership().unwrap().unjoined_packets, None);

    // It never joined: none was asked of it.
    let mut r = new(false);
    r.set_sent_total(1000);
    assert!(r.is_complete());
    r.finish(20 * SECOND);
    let report = r.report("", None, None);
    assert_eq!((report.packets, report.lost_packets), (0, Some(0)));
    let member = r.membership().unwrap();
    assert_eq!((member.joined_seconds, member.unjoined_packets), (None, Some(1000)));
}

/// Losses until the receiver leaves are losses: the end of the membership is not the last arrival.
#[test]
fn an_outage_until_leaving_is_loss() {
    let ended = |rate: &str, arrivals: &[u64], left: u64, seen: &[u64]| {
        let mut r = receiving(rate, |c| c.payload = Some(ByteSize(100).into()));
        r.expect_membership(true);
        r.start(IntervalClock { start_ns: 10 * SECOND, interval_ns: SECOND, omit_ns: 0 });
        for n in arrivals {
            r.on_message(&datagram(100, *n, 0, 0), None, 10 * SECOND + n * MS, |_| {});
        }
        r.left(10 * SECOND + left * MS);
        r.watched();
        for n in seen {
            r.arrived_after_leaving(&datagram(100, *n, 0, 0), 10 * SECOND + n % 100_000 * MS);
        }
        r.set_sent_total(1000);
        r.set_sender_end(SECOND);
        r.finish(20 * SECOND);
        let (report, member) = (r.report("", None, None), r.membership().unwrap());
        (report.lost_packets, member.unjoined_packets, member.leave_latency_seconds)
    };
    let some: Vec<u64> = (0..100).collect();
    // The first packet seen after leaving ends the membership; numbers that were never sent do not count.
    assert_eq!(ended("1000pps", &some, 400, &[400, 401]), (Some(300), Some(600), Some(0.001)));
    let seen = [400, 401, 100_000 + 402, u64::MAX];
    assert_eq!(ended("1000pps", &some, 400, &seen), (Some(300), Some(600), None));
    // An outage that goes on after leaving, by the schedule, whether a packet is seen after it or not.
    assert_eq!(ended("1000pps", &some, 400, &[700]), (Some(301), Some(599), Some(0.3)));
    assert_eq!(ended("1000pps", &some, 400, &[]), (Some(301), Some(599), Some(0.0)));
    assert_eq!(ended("1000pps", &[], 400, &[]), (Some(401), Some(599), Some(0.0)));
    // A sender that did not keep to its schedule, and one without any: unknown.
    for rate in ["2000pps", "0"] {
        assert_eq!(ended(rate, &some, 400, &[]), (None, None, None), "{rate}");
        assert_eq!(ended(rate, &some, 400, &[700]), (None, None, Some(0.3)), "{rate}");
        assert_eq!(ended(rate, &some, 100, &[]), (Some(0), Some(900), Some(0.0)), "{rate}");
    }
    // The sender had ended before: all that it sent was for this member.
    assert_eq!(ended("1000pps", &some, 1001, &[]), (Some(900), Some(0), None));
}

/// A sender that learns of the start late has a shorter time of sending, and no lower rate.
#[test]
fn the_time_of_sending_begins_with_the_first_datagram() {
    let second = |c: &mut Connection| c.duration = Some(Span(SECOND));
    let mut s = sending("100pps", false, second);
    for slot in 2..100 {
        s.sent(1, 1, 10 * SECOND + slot * 10 * MS);
    }
    let report = s.report("send", None);
    assert_eq!((report.start_seconds, report.seconds), (Some(0.02), 0.98));
    assert_eq!(report.packets_per_second, Some(100.0));
}

#[test]
fn coalesced_copies_and_foreign_datagrams_count_once() {
    let mut r = receiving("0", |_| {});
    r.set_clock(SenderClock::default());
    let message = |numbers: &[u64]| -> Vec<u8> {
        numbers.iter().flat_map(|n| datagram(100, *n, 0, 0)).collect()
    };
    let mut logged = vec![];
    r.on_message(&message(&[0, 1, 2, 1, 5, 6, 3]), Some(100), 1000, |l| logged.push(l.sequence));
    assert_eq!(logged, [0, 1, 2, 1, 5, 6, 3]);
    let mut damaged = message(&[7, 8, 9]);
    damaged[105] ^= 1;
    r.on_message(&damaged, Some(100), 2000, |_| {});
    r.set_sent_total(10);
    r.finish(9 * SECOND);
    let report = r.report("", None, None);
    assert_eq!((report.packets, report.bytes), (8, 800));
    assert_eq!((report.duplicate_packets, report.reordered_packets), (Some(1), Some(1)));
    assert_eq!((report.corrupted_packets, report.lost_packets), (Some(1), Some(2)));
    assert_eq!(
        (report.crossing, report.time_unit.as_deref()),
        (Some(Crossing::Coalesced), Some("batch"))
    );
    assert_eq!(report.one_way_delay.unwrap().count, 2, "one time for each message");
    // A short last datagram leaves the message its one time; alone among damaged ones it has that time itself.
    for head in [datagram(100, 0, 0, 0), vec![0; 100]] {
        let mut r = receiving("0", |_| {});
        r.set_clock(SenderClock::default());
        let mut message = head;
        message.extend(&datagram(100, 1, 0, 0)[..60]);
        r.on_message(&message, Some(100), 1000, |_| {});
        assert_eq!(r.report("", None, None).one_way_delay.unwrap().count, 1);
    }
    // Small coalesced datagrams take the ordinary path: one time per message as well.
    let mut r = receiving("0", |c| c.payload = Some(ByteSize(16).into()));
    r.set_clock(SenderClock::default());
    let small: Vec<u8> = (0..3).flat_map(|n| datagram(16, n, 0, 0)).collect();
    r.on_message(&small, Some(16), 1000, |_| {});
    assert_eq!(r.report("", None, None).one_way_delay.unwrap().count, 1);
}

#[test]
fn rates_are_over_as_many_gaps_as_packets() {
    let mut r = receiving("1000pps", |_| {});
    for n in 0..3u64 {
        r.on_message(&datagram(100, n, 0, 0), None, SECOND + n * MS, |_| {});
    }
    // A stamp that steps back is replaced by the last one.
    r.on_message(&datagram(100, 3, 0, 0), None, SECOND + 3 * MS, |_| {});
    r.on_message(&datagram(100, 4, 0, 0), None, SECOND + 2 * MS, |_| {});
    assert_eq!(r.last_ns(), SECOND + 3 * MS);
    r.on_message(&datagram(100, 5, 0, 0), None, SECOND + 5 * MS, |_| {});
    r.finish(30 * SECOND);
    let report = r.report("", None, None);
    assert_eq!((report.packets, report.seconds), (6, 0.005));
    assert!((report.packets_per_second.unwrap() - 1000.0).abs() < 1e-9, "{report:?}");
    assert!((report.bits_per_second.unwrap() - 800_000.0).abs() < 1e-6);
    // No empty intervals up to the end of waiting.
    let counts = r.interval_counts();
    assert_eq!(counts.len(), 2);
    assert_eq!((counts[0].packets, counts[1].packets), (0, 6));
    assert_eq!(counts[1].packets_per_second, Some(6.0));
}

#[test]
fn no_figure_includes_the_omitted_start() {
    let s = spec(TransportName::Udp, "1000pps", |c| c.verify = true);
    let mut ring = PayloadRing::new(Content::Random, 1, 100);
    let mut r = Receiving::new(&s, key(), 20 * SECOND, Some(std::sync::Arc::new(ring.clone())));
    r.start(IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns: 2 * SECOND });
    r.set_clock(SenderClock::default());
    let mut tx = Sending::new(&s, key(), 0, false);
    tx.start(0, clock(0));
    let mut at = 0;
    for n in 0..40u64 {
        at = n * 100 * MS;
        let (bytes, _) = tx.fill(&mut ring, 1, at);
        let mut bytes = bytes.to_vec();
        tx.sent(1, 1, at);
        let early = n < 20;
        match n % 5 {
            1 if early => bytes[50] ^= 1,
            2 if early => bytes.truncate(60),
            3 if early => r.on_message(&bytes, None, at, |_| {}),
            _ => {}
        }
        r.on_message(&bytes, None, at + if early { 9 * MS } else { MS }, |_| {});
    }
    r.set_sent_total(40);
    r.finish(at + SECOND);
    let report = r.report("", None, None);
    assert_eq!((report.packets, report.bytes, report.lost_packets), (20, 2000, Some(0)));
    assert_eq!(
        (report.bit_errors, report.truncated_packets, report.corrupted_packets),
        (Some(0), Some(0), Some(0))
    );
    assert_eq!((report.duplicate_packets, report.reordered_packets), (Some(0), Some(0)));
    assert_eq!(report.one_way_delay.unwrap().max_seconds, 0.001);
    assert_eq!(report.one_way_delay_from_intended.unwrap().count, 20);
    assert_eq!(report.seconds, 1.9);
}

#[test]
fn narrow_numbers_are_ambiguous_when_they_may_be_wrong() {
    // 8 bits: an arrival 200 numbers ahead can't be distinguished from one 56 back.
    let mut r = receiving("1000pps", |c| c.payload = Some(ByteSize(1).into()));
    for n in 0..10 {
        r.on_message(&datagram(1, n, 0, 0), None, n, |_| {});
    }
    r.finish(SECOND);
    assert_eq!(r.report("", None, None).ambiguous, Some(false));
    let mut r = receiving("1000pps", |c| c.payload = Some(ByteSize(1).into()));
    r.on_message(&datagram(1, 0, 0, 0), None, 0, |_| {});
    r.on_message(&datagram(1, 100, 0, 0), None, 1, |_| {});
    r.finish(SECOND);
    assert_eq!(r.report("", None, None).ambiguous, Some(true));
    // At 1000/s 128 numbers, half of all, take 128 ms: after such a silence the next number is ambiguous.
    for (silence, ambiguous) in [(127 * MS, false), (128 * MS, true)] {
        let mut r = receiving("1000pps", |c| c.payload = Some(ByteSize(1).into()));
        r.on_message(&datagram(1, 0, 0, 0), None, SECOND, |_| {});
        // A datagram without a number does not end the silence.
        r.on_message(&[], None, SECOND + MS, |_| {});
        r.on_message(&datagram(1, 1, 0, 0), None, SECOND + silence, |_| {});
        r.finish(2 * SECOND);
        assert_eq!(r.report("", None, None).ambiguous, Some(ambiguous), "{silence}");
    }
}

#[test]
fn a_send_that_the_network_refused_starts_no_time() {
    let mut s = sending("0", false, |c| c.duration = None);
    s.sent(0, 1, 10 * SECOND);
    s.sent(1, 1, 11 * SECOND);
    s.sent(1, 1, 12 * SECOND);
    s.stop();
    let r = s.report("send", None);
    assert_eq!((r.packets, r.seconds, r.segments_per_message), (2, 1.0, Some(1.0)));
}

#[test]
fn passing_time_gives_up_overdue_packets() {
    let mut r = receiving("1000pps", |_| {});
    r.on_message(&datagram(100, 0, 0, 0), None, 0, |_| {});
    r.on_message(&datagram(100, 2, 0, 0), None, MS, |_| {});
    r.set_sent_total(3);
    r.advance(SECOND);
    assert!(!r.is_complete(), "it may still come");
    r.advance(4 * SECOND);
    assert!(r.is_complete());
}

#[test]
fn truncated_datagrams_count_what_arrived() {
    // Cut after the header: numbers are valid, bytes are those that arrived. Cut within it: nothing is valid.
    let cut = |sequence: u64, length: usize| datagram(100, sequence, 0, 0)[..length].to_vec();
    let mut r = receiving("0", |_| {});
    r.on_message(&cut(0, 60), None, 1, |_| {});
    r.on_message(&cut(1, 10), None, 2, |_| {});
    let report = r.report("", None, None);
    assert_eq!((report.packets, report.bytes), (1, 60));
    assert_eq!((report.truncated_packets, report.corrupted_packets), (Some(2), Some(2)));
    // The same in a coalesced message.
    let mut r = receiving("0", |_| {});
    r.on_message(&[cut(0, 60), cut(1, 60), cut(2, 60)].concat(), Some(60), 1, |_| {});
    let report = r.report("", None, None);
    assert_eq!((report.packets, report.bytes), (3, 180));
    assert_eq!((report.truncated_packets, report.corrupted_packets), (Some(3), Some(3)));
}

#[test]
fn a_late_datagram_gives_no_delay_and_waiting_has_no_end_without_a_count() {
    let mut r = receiving("1000pps", |_| {});
    r.set_clock(SenderClock::default());
    r.on_message(&datagram(100, 0, 0, 0), None, 10, |_| {});
    r.on_message(&datagram(100, 2, 0, 0), None, 20, |_| {});
    assert!(!r.is_complete(), "the sender has not reported its count");
    r.advance(3 * SECOND);
    r.on_message(&datagram(100, 1, 0, 0), None, 3 * SECOND, |_| {});
    assert_eq!(r.report("", None, None).one_way_delay.unwrap().count, 2);
}

#[test]
fn jitter_is_in_seconds_in_totals_and_intervals() {
    let mut r = receiving("1000pps", |_| {});
    r.on_message(&datagram(100, 0, 0, 0), None, 0, |_| {});
    r.on_message(&datagram(100, 1, MS, 0), None, MS + 160_000, |_| {});
    r.finish(SECOND);
    assert_eq!(r.report("", None, None).jitter_seconds, Some(1e-5));
    assert_eq!(r.interval_counts()[0].jitter_seconds, Some(1e-5));
}

#[test]
fn a_mean_delay_is_over_the_delays_and_not_the_packets() {
    let mut r = receiving("0", |_| {});
    r.set_clock(SenderClock::default());
    let coalesced: Vec<u8> = (0..4).flat_map(|n| datagram(100, n, 0, 0)).collect();
    r.on_message(&coalesced, Some(100), 4000, |_| {});
    r.finish(SECOND);
    assert_eq!(r.interval_counts()[0].mean_delay_seconds, Some(4e-6));
}

#[test]
fn contradicting_counts_and_too_many_runs_are_reported() {
    let mut r = receiving("1000pps", |_| {});
    for n in 0..3 {
        r.on_message(&datagram(100, n, 0, 0), None, n, |_| {});
    }
    r.set_sent_total(2);
    r.finish(SECOND);
    assert_eq!(r.report("", None, None).ambiguous, Some(true), "three arrived of two");
    // Runs of 257 different lengths: one more than are distinguished.
    let mut r = receiving("1000pps", |_| {});
    let mut next = 0;
    for length in 0..=257 {
        next += length;
        r.on_message(&datagram(100, next, 0, 0), None, next, |_| {});
        next += 1;
    }
    r.finish(SECOND);
    let runs = r.report("", None, None).loss_periods.unwrap();
    assert_eq!((runs.len(), runs.get("256"), runs.get("more")), (257, Some(&1), Some(&1)));
}

#[test]
fn variation_of_the_omitted_start_is_not_counted() {
    let mut r = Receiving::new(&spec(TransportName::Udp, "1000pps", |_| {}), key(), SECOND, None);
    r.start(IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns: 2 * SECOND });
    r.set_clock(SenderClock::default());
    for n in 0..4000u64 {
        // Delays swing by 50 us in the omitted two seconds, and are constant after them.
        let delay = if n < 2000 && n % 2 == 0 { 60_000 } else { 10_000 };
        r.on_message(&datagram(100, n, n * MS, 0), None, n * MS + delay, |_| {});
    }
    r.finish(10 * SECOND);
    let variation = r.report("", None, None).delay_variation.unwrap();
    assert_eq!((variation.ipdv_p99_seconds, variation.pdv_p99_seconds), (Some(0.0), Some(0.0)));
}

/// The kernel may refuse requested segmentation, message by message.
#[test]
fn a_sender_has_coalesced_when_a_message_held_more_than_one_datagram() {
    let mut s = sending("0", true, |_| {});
    assert!(!s.has_coalesced());
    s.sent(3, 3, 10 * SECOND);
    assert!(!s.has_coalesced(), "each left alone");
    s.sent(10, 1, 10 * SECOND + 1);
    assert!(s.has_coalesced());
}

#[test]
fn the_ecn_codepoint_of_the_first_message_after_the_omitted_time_counts() {
    let mut r =
        Receiving::new(&spec(TransportName::Udp, "1000pps", |_| {}), key(), 2 * SECOND, None);
    r.start(IntervalClock { omit_ns: SECOND, ..clock(0) });
    let start = clock(0).start_ns;
    // ECT(0) before the boundary, CE after it.
    for (sequence, tos, at) in [(0, 2, start), (1, 3, start + SECOND), (2, 3, start + SECOND + MS)]
    {
        r.note_ecn(tos, 1, at);
        r.on_message(&datagram(100, sequence, at, 0), None, at, |_| {});
    }
    r.finish(start + 2 * SECOND);
    let report = r.report("recvmmsg", None, None);
    let ecn = report.ecn.unwrap();
    assert_eq!((report.packets, ecn.ect0_packets, ecn.ce_packets), (2, 0, 2));
}
