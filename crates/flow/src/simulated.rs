//! A sender and a receiver under one virtual clock, with a path between that loses, copies and delays.

use weir_model::plan::{Connection, Family, FlowSpec, Plan, Transport};
use weir_model::record::Crossing;
use weir_wire::header::TagKey;

use crate::{Demand, IntervalClock, NextSend, PayloadRing, Receiving, Sending};

const SECOND: u64 = 1_000_000_000;

fn spec(connection: Connection) -> FlowSpec {
    let plan = Plan { connections: vec![connection], ..Plan::default() };
    plan.check().unwrap();
    plan.flows(Family::Ipv4, 1500).remove(0)
}

fn udp(rate: &str, payload: u64, seconds: u64) -> Connection {
    Connection {
        transport: Transport::udp(),
        rate: Some(rate.parse().unwrap()),
        payload: Some(weir_model::units::ByteSize(payload).into()),
        duration: Some(weir_model::units::Span::from_seconds(seconds)),
        ..Connection::default()
    }
}

/// The arrivals of packet n, as delays.
type Path<'a> = &'a mut dyn FnMut(u64, &mut Vec<u8>) -> Vec<u64>;

/// Runs a flow to its end; the sender's clock is `offset` ahead of the receiver's.
fn run(spec: &FlowSpec, clock: IntervalClock, offset: u64, path: Path) -> (Sending, Receiving) {
    let key = TagKey::for_flow(&[7; 16], spec.id);
    run_sender(Sending::new(spec, key, clock.omit_ns, false), spec, clock, offset, path)
}

/// The same with a given sender.
fn run_sender(
    mut sending: Sending,
    spec: &FlowSpec,
    clock: IntervalClock,
    offset: u64,
    path: Path,
) -> (Sending, Receiving) {
    let key = TagKey::for_flow(&[7; 16], spec.id);
    let mut ring = PayloadRing::new(spec.connection.content, 1, spec.max_payload() as usize);
    let verify = spec.connection.verify.then(|| std::sync::Arc::new(ring.clone()));
    let mut receiving = Receiving::new(spec, key, 2 * SECOND, verify);
    receiving.set_clock(crate::SenderClock { offset_ns: offset as i64, ..Default::default() });
    receiving.start(clock);
    sending.start(
        clock.start_ns + offset,
        IntervalClock { start_ns: clock.start_ns + offset, ..clock },
    );
    let mut now = clock.start_ns;
    let mut flying: Vec<(u64, u64, Vec<u8>)> = vec![];
    let mut n = 0u64;
    loop {
        match sending.next(now + offset) {
            NextSend::Done => break,
            NextSend::At(t) => now = t - offset,
            NextSend::Now(count) => {
                let (bytes, count) = sending.fill(&mut ring, count.min(32), now + offset);
                let slot = spec.max_payload() as usize;
                for i in 0..count as usize {
                    let mut datagram = bytes[i * slot..][..sending.size(i)].to_vec();
                    for delay in path(n, &mut datagram) {
                        flying.push((now + delay, n, datagram.clone()));
                    }
                    n += 1;
                }
                sending.sent(count, count, now + offset);
                sending.called(1);
            }
        }
    }
    flying.sort_by_key(|f| (f.0, f.1));
    for (at, _, datagram) in &flying {
        receiving.on_message(datagram, None, *at, |_| {});
    }
    sending.finish(now + offset);
    receiving.set_sent_total(sending.total().0);
    receiving.finish(now + 3 * SECOND);
    (sending, receiving)
}

fn clock() -> IntervalClock {
    IntervalClock { start_ns: 5 * SECOND, interval_ns: SECOND, omit_ns: 0 }
}

#[test]
fn a_clean_path_is_measured_as_clean() {
    let s = spec(udp("1000pps", 160, 5));
    let (sending, receiving) = run(&s, clock(), 1000 * SECOND, &mut |_, _| vec![20_000_000]);
    let (tx, rx) = (sending.report("send", None), receiving.report("recvmmsg", None, None));
    assert_eq!((tx.packets, rx.packets, rx.lost_packets), (5000, 5000, Some(0)));
    assert_eq!(tx.bytes, 800_000);
    assert!((tx.packets_per_second.unwrap() - 1000.0).abs() < 0.5, "{tx:?}");
    let delay = rx.one_way_delay.unwrap();
    assert_eq!((delay.min_seconds, delay.max_seconds), (0.02, 0.02));
    assert_eq!(rx.jitter_seconds, Some(0.0));
    assert_eq!(rx.one_way_delay_from_intended.unwrap().max_seconds, 0.02);
    assert_eq!(sending.interval_counts().iter().map(|i| i.packets).sum::<u64>(), 5000);
    assert_eq!(receiving.interval_counts().iter().map(|i| i.packets).sum::<u64>(), 5000);
}

#[test]
fn starts_and_ends_are_reported_on_each_end_s_clock() {
    let s = spec(udp("10pps", 160, 2));
    let (sending, receiving) = run(&s, clock(), 1000 * SECOND, &mut |_, _| vec![20_000_000]);
    let (tx, rx) = (sending.report("send", None), receiving.report("recvmmsg", None, None));
    // The sender continues until its planned end; the last packet is sent a period before.
    assert_eq!((tx.start_seconds, tx.end_seconds), (Some(0.0), Some(2.0)));
    assert_eq!((rx.start_seconds, rx.end_seconds), (Some(0.02), Some(1.92)));
}

#[test]
fn one_packet_has_no_rate_and_a_flow_without_arrivals_no_times() {
    let s = spec(udp("1pps", 160, 1));
    let (_, one) = run(&s, clock(), 0, &mut |_, _| vec![1000]);
    let rx = one.report("recvmmsg", None, None);
    assert_eq!((rx.packets, rx.bits_per_second, rx.packets_per_second), (1, None, None));
    let (_, none) = run(&s, clock(), 0, &mut |_, _| vec![]);
    let rx = none.report("recvmmsg", None, None);
    assert_eq!((rx.start_seconds, rx.end_seconds, rx.bits_per_second), (None, None, None));
    assert_eq!((none.time_source(), rx.user_timed_messages), (None, None));
}

#[test]
fn the_source_of_arrival_times_is_named() {
    let s = spec(udp("10pps", 160, 1));
    let key = TagKey::for_flow(&[7; 16], s.id);
    let source = |untimed: &[u64]| {
        let mut ring = PayloadRing::new(s.connection.content, 1, 160);
        let mut sending = Sending::new(&s, key.clone(), 0, false);
        let mut receiving = Receiving::new(&s, key.clone(), SECOND, None);
        sending.start(0, IntervalClock { start_ns: 0, ..clock() });
        for n in 0..3 {
            let bytes = sending.fill(&mut ring, 1, n).0.to_vec();
            sending.sent(1, 1, n);
            if untimed.contains(&n) {
                receiving.timed_by_reading();
            }
            receiving.on_message(&bytes, None, n + 5, |_| {});
        }
        let report = receiving.report("recvmmsg", None, None);
        (receiving.time_source(), report.user_timed_messages)
    };
    assert_eq!(source(&[]), (Some("kernel"), Some(0)));
    assert_eq!(source(&[1]), (Some("kernel+user"), Some(1)));
    assert_eq!(source(&[0, 1, 2]), (Some("user"), Some(3)));
}

#[test]
fn loss_copies_and_order_are_distinguished() {
    for payload in [2, 3, 4, 8, 16, 40, 1472] {
        let s = spec(udp("1000pps", payload, 4));
        let (_, receiving) = run(&s, clock(), 0, &mut |n, _| match n {
            100..=102 | 500 => vec![],
            1000 => vec![1_000_000, 1_500_000],
            2000 => vec![6_500_000],
            _ => vec![1_000_000],
        });
        let rx = receiving.report("recvmmsg", None, None);
        assert_eq!(rx.lost_packets, Some(4), "payload {payload}");
        assert_eq!(rx.duplicate_packets, Some(1), "payload {payload}");
        assert_eq!(rx.reordered_packets, Some(1), "payload {payload}");
        assert_eq!(rx.reordering_extent_max, Some(5), "payload {payload}");
        assert_eq!(rx.reordering_extent_mean, Some(5.0), "payload {payload}");
        let extents = rx.reordering_extents.unwrap();
        assert_eq!(extents, [("4".to_string(), 1)].into(), "from 4 to 7");
        let runs = rx.loss_periods.unwrap();
        assert_eq!((runs.get("1"), runs.get("3")), (Some(&1), Some(&1)), "payload {payload}");
        assert_eq!(rx.packets, 3996);
        let lost: u64 = receiving.interval_counts().iter().filter_map(|i| i.lost_packets).sum();
        assert_eq!(lost, 4);
    }
}

#[test]
fn variation_has_means_and_counts_its_pairs() {
    // 10 000 packets/s, every other one 40 ms later: neighbours arrive 400 numbers apart.
    let s = spec(udp("10000pps", 160, 1));
    let delay = |n: u64| if n.is_multiple_of(2) { 1_000_000 } else { 41_000_000 };
    let (_, receiving) = run(&s, clock(), 0, &mut |n, _| vec![delay(n)]);
    let variation = receiving.report("recvmmsg", None, None).delay_variation.unwrap();
    assert_eq!((variation.ipdv_pairs, variation.ipdv_omitted_pairs), (Some(9999), Some(0)));
    assert_eq!(variation.ipdv_mean_seconds, Some(0.04));
    assert!((variation.ipdv_p99_seconds.unwrap() - 0.04).abs() < 0.04 / 1024.0);
    assert_eq!(variation.pdv_mean_seconds, Some(0.02));
}

#[test]
fn empty_datagrams_are_counted_by_number_only() {
    let s = spec(udp("1000pps", 0, 1));
    let (_, receiving) =
        run(&s, clock(), 0, &mut |n, _| if n % 10 == 0 { vec![] } else { vec![1000] });
    let rx = receiving.report("recvmmsg", None, None);
    assert_eq!((rx.packets, rx.lost_packets, rx.ambiguous), (900, Some(100), Some(true)));
    assert_eq!((rx.duplicate_packets, rx.one_way_delay, rx.jitter_seconds), (None, None, None));
}

#[test]
fn damage_is_never_a_sequence_number() {
    let mut connection = udp("1000pps", 200, 2);
    connection.verify = true;
    let s = spec(connection);
    let (_, receiving) = run(&s, clock(), 0, &mut |n, d| {
        match n {
            50 => d[3] ^= 0x40,     // header: the tag fails, the packet counts as lost
            60 => d[150] ^= 0b1010, // payload: arrived, with two bit errors
            70 => d.truncate(100),  // cut behind the header
            _ => {}
        }
        vec![1000]
    });
    let rx = receiving.report("recvmmsg", None, None);
    assert_eq!(
        (rx.corrupted_packets, rx.lost_packets, rx.bit_errors, rx.truncated_packets),
        (Some(3), Some(1), Some(2), Some(1))
    );
}

/// Without a header a datagram is content from its first byte, and only counts are known.
#[test]
fn a_flow_without_a_header_is_counted() {
    let s = spec(Connection { header: "none".parse().unwrap(), ..udp("1000pps", 64, 1) });
    let content = PayloadRing::new(s.connection.content, 1, 64);
    let (sending, receiving) = run(&s, clock(), 0, &mut |n, bytes| {
        assert_eq!(bytes, content.expected(n), "datagram {n}");
        match n {
            7 | 999 => vec![],
            20 => vec![30_000_000],
            _ => vec![1000],
        }
    });
    let rx = receiving.report("recvmmsg", None, None);
    assert_eq!((sending.total().0, rx.packets, rx.lost_packets), (1000, 998, Some(2)));
    assert_eq!((rx.loss_ratio, rx.ambiguous), (Some(0.002), Some(true)));
    assert_eq!((rx.jitter_seconds, rx.corrupted_packets), (None, None));
    assert!(rx.one_way_delay.is_none() && rx.delay_variation.is_none() && rx.bursts.is_none());
    assert!(rx.reordered_packets.is_none() && rx.duplicate_packets.is_none());
}

/// The headers of iperf2 and iperf3 have numbers and times of microseconds, no tag, and no clock that is related to another.
#[test]
fn headers_of_iperf_give_loss_order_and_jitter_and_no_delay() {
    for header in ["iperf3", "iperf3-64bit", "iperf2", "iperf2-32bit"] {
        let header: weir_model::plan::HeaderFormat = header.parse().unwrap();
        let s = spec(Connection { header, verify: true, ..udp("1000pps", 64, 2) });
        let (_, receiving) = run(&s, clock(), 1000 * SECOND, &mut |n, _| match n {
            7 | 8 | 1999 => vec![],
            20 => vec![2_500_000],
            30 => vec![1000, 2000],
            _ => vec![1000 + n % 2 * 160_000],
        });
        let rx = receiving.report("recvmmsg", None, None);
        assert_eq!((rx.packets, rx.lost_packets), (1997, Some(3)), "{header}");
        assert_eq!((rx.reordered_packets, rx.duplicate_packets), (Some(1), Some(1)), "{header}");
        let periods = [("1".to_owned(), 1), ("2".to_owned(), 1)].into_iter().collect();
        assert_eq!((rx.loss_periods, rx.ambiguous), (Some(periods), Some(false)), "{header}");
        assert!((rx.jitter_seconds.unwrap() - 160e-6).abs() < 1e-9, "{header}");
        assert_eq!((rx.bit_errors, rx.corrupted_packets), (Some(0), Some(0)), "{header}");
        assert!(rx.one_way_delay.is_none() && rx.delay_variation.is_none(), "{header}");
        assert!(rx.one_way_delay_from_intended.is_none(), "{header}");
    }
}

/// The headers of a flow may have another flow's number and begin with another number, and its receiver expects that.
#[test]
fn numbers_of_headers_may_begin_anywhere() {
    let header = "mgen-crc".parse().unwrap();
    let payload = Some("60..200".parse().unwrap());
    let s = spec(Connection { header, payload, ..udp("1000pps", 64, 1) });
    let key = TagKey::for_flow(&[7; 16], s.id);
    let first = u64::from(u32::MAX) - 499;
    let mut receiving = Receiving::new(&s, key.clone(), 2 * SECOND, None).with_first_number(first);
    receiving.start(clock());
    let sending = Sending::new(&s, key.clone(), 0, false)
        .with_numbering(crate::Numbering { flow: Some(9), first });
    run_sender(sending, &s, clock(), 0, &mut |n, bytes| {
        // The message states its own length, and wraps in the middle.
        assert_eq!(bytes[..2], (bytes.len() as u16).to_be_bytes());
        assert_eq!(bytes[4..8], 9_u32.to_be_bytes());
        assert_eq!(bytes[8..12], ((first + n) as u32).to_be_bytes());
        if n != 700 {
            receiving.on_message(bytes, None, 6 * SECOND + n * 1_000_000, |_| {});
        }
        vec![]
    });
    receiving.finish(9 * SECOND);
    let rx = receiving.report("recvmmsg", None, None);
    assert_eq!((rx.packets, rx.lost_packets, rx.unreadable_packets), (999, Some(1), Some(0)));
}

/// D-ITG's times start again at midnight, which is between two of these packets. Of packets that come back they give the round
/// trip, since they are of this host's clock.
#[test]
fn times_of_day_give_jitter_across_midnight_and_round_trips_of_an_echo() {
    const DAY: u64 = 86_400 * SECOND;
    let header: weir_model::plan::HeaderFormat = "ditg".parse().unwrap();
    let s = spec(Connection { header, ..udp("1000pps", 64, 2) });
    let key = TagKey::for_flow(&[7; 16], s.id);
    let epoch_ns = 20_000 * DAY - SECOND;
    let from = |start_ns| IntervalClock { start_ns, interval_ns: SECOND, omit_ns: 0 };
    let mut sending = Sending::new(&s, key.clone(), 0, false).with_epoch(epoch_ns);
    sending.start(0, from(0));
    let receiving = || Receiving::new(&s, key.clone(), SECOND, None);
    let (mut far, mut back) = (receiving(), receiving().of_echo(None, epoch_ns));
    far.start(from(7 * DAY));
    back.start(from(0));
    let mut ring = PayloadRing::new(s.connection.content, 1, 64);
    for n in 0..2000_u64 {
        let now = n * SECOND / 1000;
        let (bytes, count) = sending.fill(&mut ring, 1, now);
        let bytes = bytes.to_vec();
        sending.sent(count, 1, now);
        // The receiver's clock is another.
        far.on_message(&bytes, None, 7 * DAY + now + 1000 + n % 2 * 160_000, |_| {});
        back.on_message(&bytes, None, now + 5_000_000, |_| {});
    }
    far.finish(8 * DAY);
    back.finish(10 * SECOND);
    let (far, back) = (far.report("", None, None), back.report("", None, None));
    assert_eq!((far.packets, far.reordered_packets), (2000, Some(0)));
    assert!((far.jitter_seconds.unwrap() - 160e-6).abs() < 1e-9);
    assert!(far.one_way_delay.is_none());
    let delay = back.one_way_delay.unwrap();
    let [min, max] = [delay.min_seconds, delay.max_seconds];
    assert!((min - 5e-3).abs() < 2e-6 && (max - 5e-3).abs() < 2e-6, "{min} {max}");
}

/// Without a tag a changed number is accepted, as far as it is plausible. The sender's count contradicts it, and then
/// only counts are used.
#[test]
fn a_number_beyond_the_senders_count_leaves_only_counts() {
    let s = spec(Connection { header: "iperf3-64bit".parse().unwrap(), ..udp("1000pps", 64, 1) });
    let changed = |byte: usize| {
        let (_, receiving) = run(&s, clock(), 0, &mut |n, bytes| {
            bytes[byte] ^= u8::from(n == 500);
            if n == 7 { vec![] } else { vec![1000] }
        });
        receiving.report("recvmmsg", None, None)
    };
    // 65 536 ahead.
    let rx = changed(13);
    assert_eq!((rx.packets, rx.lost_packets, rx.ambiguous), (999, Some(1), Some(true)));
    assert_eq!((rx.corrupted_packets, rx.duplicate_packets, rx.bursts), (None, None, None));
    // 2^48 ahead: no sender is that far.
    let rx = changed(9);
    assert_eq!((rx.packets, rx.lost_packets, rx.implausible_packets), (998, Some(2), Some(1)));
}

#[test]
fn tail_loss_is_seen_by_reconciliation() {
    let s = spec(udp("1000pps", 100, 1));
    let (_, receiving) =
        run(&s, clock(), 0, &mut |n, _| if n >= 950 { vec![] } else { vec![1000] });
    let rx = receiving.report("recvmmsg", None, None);
    assert_eq!(rx.lost_packets, Some(50));
    assert_eq!(rx.loss_periods.unwrap().get("50"), Some(&1));
}

/// Three losses within five packets are a burst; a packet that is reordered within the threshold is not lost.
#[test]
fn bursts_are_of_packets_lost_for_good() {
    let s = spec(udp("1000pps", 100, 1));
    let (_, mut receiving) = run(&s, clock(), 0, &mut |n, _| match n {
        500 | 502 | 504 => vec![],
        501 | 510 => vec![50_000_000],
        700 => vec![],
        _ => vec![1000],
    });
    receiving.set_sender_end(SECOND);
    let rx = receiving.report("recvmmsg", None, None);
    assert_eq!((rx.lost_packets, rx.reordered_packets), (Some(4), Some(2)));
    assert_eq!((rx.bursts, rx.burst_packets, rx.burst_lost_packets), (Some(1), Some(5), Some(3)));
    assert_eq!((rx.gaps, rx.gap_packets, rx.gap_lost_packets), (Some(2), Some(995), Some(1)));
    assert_eq!(rx.burst_density_ratio, Some(0.6));
    let (burst, gap) = (rx.burst_seconds.unwrap(), rx.gap_seconds.unwrap());
    assert!((burst - 0.005).abs() < 1e-9 && (gap - 0.4975).abs() < 1e-9, "{burst} {gap}");
}

#[test]
fn the_omitted_part_is_left_out_everywhere() {
    let s = spec(udp("1000pps", 100, 2));
    let c = IntervalClock { omit_ns: SECOND, ..clock() };
    let (sending, receiving) = run(&s, c, 0, &mut |n, _| match n {
        0..900 if n % 2 == 0 => vec![],
        1500 => vec![],
        0..900 => vec![80_000_000],
        _ => vec![1_000_000],
    });
    let (tx, rx) = (sending.report("send", None), receiving.report("recvmmsg", None, None));
    assert_eq!(tx.packets, 2000);
    assert_eq!(rx.lost_packets, Some(1));
    assert!((1999..=2001).contains(&(rx.packets + 1)), "{}", rx.packets);
    assert_eq!(rx.one_way_delay.unwrap().max_seconds, 0.001);
}

#[test]
fn coalesced_messages_count_every_datagram_and_time_once() {
    let s = spec(udp("0", 160, 1));
    let key = TagKey::for_flow(&[7; 16], s.id);
    let mut ring = PayloadRing::new(s.connection.content, 1, 160);
    let mut sending = Sending::new(&s, key.clone(), 0, true);
    let mut receiving = Receiving::new(&s, key.clone(), 2 * SECOND, None);
    sending.start(0, IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns: 0 });
    receiving.start(IntervalClock { start_ns: 0, interval_ns: SECOND, omit_ns: 0 });
    receiving.set_clock(crate::SenderClock::default());
    let mut logged = 0;
    for n in 0..100u64 {
        let now = n * 1000;
        let (bytes, count) = sending.fill(&mut ring, 64, now);
        let mut bytes = bytes.to_vec();
        if n == 50 {
            bytes.drain(160 * 3..160 * 5); // two datagrams gone from the middle
        }
        receiving.on_message(&bytes, Some(160), now + 500, |_| logged += 1);
        sending.sent(count, 1, now);
    }
    receiving.set_sent_total(sending.total().0);
    receiving.finish(3 * SECOND);
    let rx = receiving.report("gro", None, None);
    assert_eq!(rx.packets + 2, sending.total().0);
    assert_eq!(
        (rx.lost_packets, rx.crossing, rx.time_unit.as_deref()),
        (Some(2), Some(Crossing::Coalesced), Some("batch"))
    );
    assert_eq!(rx.one_way_delay.unwrap().count, 100);
    assert_eq!(logged, rx.packets);
}

#[test]
fn a_skewed_clock_is_followed() {
    // The sender's clock runs 100 ppm fast: without the fit the delay would drift by 500 µs in 5 s.
    let s = spec(udp("100pps", 64, 5));
    let key = TagKey::for_flow(&[7; 16], s.id);
    let mut ring = PayloadRing::new(s.connection.content, 1, 64);
    let mut sending = Sending::new(&s, key.clone(), 0, false);
    let mut receiving = Receiving::new(&s, key.clone(), 2 * SECOND, None);
    let skewed = |t: u64| t + t / 10_000;
    sending.start(0, clock());
    receiving.start(clock());
    receiving.set_clock(crate::SenderClock {
        offset_ns: 0,
        skew_ppb: 100_000,
        reference_ns: 0,
        error_ns: 1000,
    });
    for n in 0..500u64 {
        let now = n * 10_000_000;
        let (bytes, _) = sending.fill(&mut ring, 1, skewed(now));
        let bytes = bytes.to_vec();
        sending.sent(1, 1, skewed(now));
        receiving.on_message(&bytes, None, now + 3_000_000, |_| {});
    }
    receiving.finish(10 * SECOND);
    let delay = receiving.report("recvmmsg", None, None).one_way_delay.unwrap();
    assert!(
        (delay.min_seconds - 0.003).abs() < 2e-6 && (delay.max_seconds - 0.003).abs() < 2e-6,
        "{delay:?}"
    );
    assert_eq!(delay.error_seconds, Some(1e-6));
}

/// Where sizes vary, both ends know each packet's: bytes are exact, content is verified, and shorter datagrams are
/// truncated.
#[test]
fn sizes_follow_their_law_at_both_ends() {
    for (min, max) in [(64, 1400), (4, 40), (33, 34)] {
        let mut connection = udp("1000pps", 1, 3);
        connection.payload = Some(format!("{min}..{max}").parse().unwrap());
        connection.verify = min >= 32;
        let s = spec(connection);
        let sizes = crate::Sizes::of(&s);
        // A byte less leaves no room for the header of 4 bytes.
        let is_unreadable = sizes.at(60) == 4;
        let (sending, receiving) = run(&s, clock(), 0, &mut |n, datagram| {
            assert_eq!(datagram.len(), sizes.at(n));
            match n {
                50 => return vec![],
                60 => {
                    datagram.pop();
                }
                _ => {}
            }
            vec![1_000_000]
        });
        let (tx, rx) = (sending.report("send", None), receiving.report("recvmmsg", None, None));
        assert_eq!((tx.packets, tx.bytes), (3000, sizes.sum(0, 3000)));
        assert_eq!(tx.mean_payload_bytes, Some(tx.bytes as f64 / 3000.0));
        assert_eq!(rx.lost_packets, Some(1 + u64::from(is_unreadable)), "{min}..{max}");
        assert_eq!(rx.truncated_packets, Some(1), "{min}..{max}");
        let missing = sizes.at(50) as u64 + if is_unreadable { 4 } else { 1 };
        assert_eq!(rx.bytes + missing, tx.bytes, "{min}..{max}");
        if s.connection.verify {
            assert_eq!((rx.bit_errors, rx.corrupted_packets), (Some(0), Some(1)));
        }
    }
}

/// 200 packets of 32 to 231 bytes: nine in ten follow 100 µs after the one before, the others 20 ms.
fn recorded() -> (FlowSpec, Sending) {
    let mut recording = crate::Recording::default();
    let mut at = 0;
    for n in 0..200_usize {
        recording.push(at, &vec![n as u8; 32 + n], 32);
        at += if n % 10 == 9 { 20_000_000 } else { 100_000 };
    }
    let supply = recording.at_speed(Some(1.0)).unwrap();
    let (sizes, gaps) = (supply.sizes().unwrap(), supply.gaps().unwrap());
    let connection = Connection {
        content: weir_model::content::Content::File,
        payload: Some(
            format!(
                "recorded(min=32, max=231, mean={}, deviation={})",
                sizes.mean, sizes.deviation
            )
            .parse()
            .unwrap(),
        ),
        spacing: format!(
            "recorded(mean={}ns, min={}ns, max={}ns, deviation={}ns)",
            gaps.mean.round(),
            gaps.min,
            gaps.max,
            gaps.deviation.round()
        )
        .parse()
        .unwrap(),
        catch_up: weir_model::plan::CatchUp::Burst(u32::MAX),
        packets: Some(250),
        duration: None,
        rate: None,
        ..udp("1pps", 32, 1)
    };
    let s = spec(connection);
    let key = TagKey::for_flow(&[7; 16], s.id);
    let sending = Sending::new(&s, key, 0, false).with_supply(&s, std::sync::Arc::new(supply));
    (s, sending)
}

/// Recorded packets are sent with their payloads behind the header, and the receiver takes each size as it arrives.
#[test]
fn recorded_packets_keep_their_payloads_and_sizes() {
    let (s, sending) = recorded();
    let (sending, receiving) = run_sender(sending, &s, clock(), 0, &mut |n, datagram| {
        let n = n as usize % 200;
        assert_eq!(datagram.len(), 32 + n);
        assert!(datagram[32..].iter().all(|byte| *byte == n as u8), "{n}");
        if n == 30 { vec![] } else { vec![1_000_000] }
    });
    let (tx, rx) = (sending.report("send", None), receiving.report("recvmmsg", None, None));
    assert_eq!((tx.packets, tx.bytes), (250, (32 * 250 + 100 * 199 + 49 * 25) as u64));
    assert_eq!((rx.lost_packets, rx.truncated_packets), (Some(2), Some(0)));
    assert_eq!((rx.packets, rx.bytes), (248, tx.bytes - 2 * 62));
    assert_eq!(rx.one_way_delay.unwrap().max_seconds, 0.001);
}

/// Recorded times are kept to the nanosecond; after a stall, packets that are due leave at once and the rest on time.
#[test]
fn recorded_packets_keep_their_times() {
    let due = |n: u64| n / 10 * 20_900_000 + n % 10 * 100_000;
    for stall in [0, 300_000_000] {
        let (_, mut sending) = recorded();
        sending.start(0, IntervalClock { start_ns: 0, ..clock() });
        let (mut now, mut n) = (0, 0);
        while n < 200 {
            match sending.next(now) {
                NextSend::Done => panic!("too early"),
                NextSend::At(at) => now = at,
                NextSend::Now(count) => {
                    let is_late = stall > 0 && now < due(20) + stall + 1;
                    for _ in 0..count {
                        assert!(now == due(n) || is_late && now > due(n), "{n}: {now}");
                        n += 1;
                    }
                    sending.sent(count, count, now);
                    if n == 20 {
                        now = due(20) + stall;
                    }
                }
            }
        }
        assert_eq!(sending.report("send", None).missed_slots, Some(0));
    }
}

#[test]
fn a_rate_in_bits_is_kept_by_the_size_of_each_packet() {
    let mut connection = udp("8M", 1, 10);
    connection.payload = Some("64..1400".parse().unwrap());
    let s = spec(connection);
    let sizes = crate::Sizes::of(&s);
    let mut arrivals = vec![];
    let key = TagKey::for_flow(&[7; 16], s.id);
    let mut sending = Sending::new(&s, key, 0, false);
    sending.start(0, IntervalClock { start_ns: 0, ..clock() });
    let mut now = 0;
    loop {
        match sending.next(now) {
            NextSend::Done => break,
            NextSend::At(at) => now = at,
            NextSend::Now(_) => {
                arrivals.push(now);
                sending.sent(1, 1, now);
            }
        }
    }
    // 1 µs for each byte: every packet is due when the bytes before it have had their time.
    for (n, pair) in arrivals.windows(2).enumerate() {
        let gap = (pair[1] - pair[0]) as i64;
        assert!((gap - 1000 * sizes.at(n as u64) as i64).abs() <= 1, "{n}: {gap}");
    }
    let tx = sending.report("send", None);
    let rate = tx.bits_per_second.unwrap();
    assert!((rate / 8e6 - 1.0).abs() < 1e-3, "{rate}");
    assert_eq!((tx.missed_slots, tx.late_slots), (Some(0), Some(0)));
    // By packets the mean law holds as well.
    let asked = tx.asked_packets_per_second.unwrap();
    assert!((asked - 1e6 / 732.0).abs() < 1e-6);
}

#[test]
fn intervals_follow_their_law() {
    let mut connection = udp("1000pps", 100, 20);
    connection.spacing = "exponential".parse().unwrap();
    let send_times = |connection: &Connection, stall: Option<(u64, u64)>| {
        let s = spec(connection.clone());
        let mut times = vec![];
        let mut sending = Sending::new(&s, TagKey::for_flow(&[7; 16], s.id), 0, false);
        sending.start(0, IntervalClock { start_ns: 0, ..clock() });
        let mut now = 0;
        loop {
            match sending.next(now) {
                NextSend::Done => break,
                NextSend::At(at) => {
                    now = stall.filter(|s| (s.0..s.1).contains(&at)).map_or(at, |s| s.1)
                }
                NextSend::Now(_) => {
                    times.push(now);
                    sending.sent(1, 1, now);
                }
            }
        }
        (times, sending.report("send", None))
    };
    let (times, tx) = send_times(&connection, None);
    let mut gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect();
    let n = gaps.len() as f64;
    // Poisson: 20 000 expected, standard deviation √20 000.
    assert!((n - 20_000.0).abs() < 5.0 * 20_000f64.sqrt(), "{n}");
    gaps.sort_by(f64::total_cmp);
    let distance = gaps.iter().enumerate().map(|(i, x)| (1.0 - (-x).exp() - i as f64 / n).abs());
    assert!(distance.fold(0.0, f64::max) * n.sqrt() < 1.95);
    assert_eq!((tx.missed_slots, tx.late_slots), (Some(0), Some(0)));
    let mean = tx.mean_spacing_seconds.unwrap();
    assert!((mean - 1e-3).abs() < 5e-3 / n.sqrt(), "{mean}");
    // The same seed, the same times; another seed, others.
    assert_eq!(send_times(&connection, None).0, times);
    let s = spec(connection.clone());
    let other = FlowSpec { seed: weir_model::units::Seed(1), ..s };
    let gap = |spec: &FlowSpec| crate::gaps::Gaps::of(spec, 1).unwrap().after(0);
    assert_ne!(gap(&other), gap(&spec(connection.clone())));
    // A stall of 50 ms is made up: the packets are those that were due, later.
    let (made_up, tx) = send_times(&connection, Some((SECOND, SECOND + 50_000_000)));
    assert_eq!((made_up.len(), tx.missed_slots), (times.len(), Some(0)));
    assert!(tx.late_slots.unwrap() > 10);
    // Of a stall of 300 ms, 100 ms are made up, whatever the intervals; the rest is missed at the mean rate.
    let (_, tx) = send_times(&connection, Some((SECOND, SECOND + 300_000_000)));
    assert!((185..=202).contains(&tx.missed_slots.unwrap()), "{:?}", tx.missed_slots);
    // Without catching up no more than the first one late.
    connection.catch_up = weir_model::plan::CatchUp::None;
    let (_, tx) = send_times(&connection, Some((SECOND, SECOND + 50_000_000)));
    assert!((35..=51).contains(&tx.missed_slots.unwrap()), "{:?}", tx.missed_slots);
    connection.catch_up = weir_model::plan::CatchUp::Burst(8);
    let (times, _) = send_times(&connection, Some((SECOND, SECOND + 50_000_000)));
    let together = times.iter().filter(|t| **t == SECOND + 50_000_000).count();
    assert!((1..=24).contains(&together), "{together}");
    // Bursts arrive by the law: their packets together, their intervals longer.
    connection.rate = Some("1000pps/10".parse().unwrap());
    connection.catch_up = weir_model::plan::CatchUp::default();
    let (times, _) = send_times(&connection, None);
    let bursts: std::collections::BTreeSet<u64> = times.iter().copied().collect();
    assert_eq!(times.len(), 10 * bursts.len());
    assert!((bursts.len() as f64 - 2000.0).abs() < 5.0 * 2000f64.sqrt(), "{}", bursts.len());
}

#[test]
fn a_rate_that_changes_is_kept_from_then_on() {
    // 1000 packets/s for 2 s, 4000/s for 3 s, then 500/s.
    let s = spec(udp("1000pps", 1, 10));
    let mut sending = Sending::new(&s, TagKey::for_flow(&[7; 16], s.id), 0, false);
    sending.start(0, IntervalClock { start_ns: 0, ..clock() });
    let mut changes = vec![(5_000_000_000, "500pps"), (2_000_300_000, "4000pps")];
    let (mut now, mut times) = (0, vec![]);
    loop {
        match sending.next(now) {
            NextSend::Done => break,
            NextSend::At(at) => match changes.last() {
                Some(&(change, rate)) if change <= at => {
                    now = change;
                    let changed = FlowSpec { rate: rate.parse().unwrap(), ..s.clone() };
                    assert!(sending.set_rate(&changed, now));
                    changes.pop();
                }
                _ => now = at,
            },
            NextSend::Now(_) => {
                times.push(now);
                sending.sent(1, 1, now);
            }
        }
    }
    let between = |from: u64, to: u64| times.iter().filter(|t| (from..to).contains(*t)).count();
    assert_eq!(between(0, 2_000_300_000), 2001);
    // The first slot of the new rate is one of its periods after the change.
    assert!(times.contains(&2_000_550_000));
    assert_eq!(between(2_000_300_000, 5_000_000_000), 11_998);
    assert_eq!(between(5_000_000_000, 10_000_000_000), 2500);
    let tx = sending.report("send", None);
    assert_eq!((tx.missed_slots, tx.late_slots), (Some(0), Some(0)));
    assert_eq!(tx.intended_slots, Some(times.len() as u64));
    let asked = tx.asked_packets_per_second.unwrap();
    assert!((asked / 1650.0 - 1.0).abs() < 1e-3, "{asked}");
    let changes: Vec<_> = tx.rate_changes.iter().map(|c| c.rate.to_string()).collect();
    assert_eq!(changes, ["4000pps", "500pps"]);
    assert!((tx.rate_changes[0].at_seconds - 2.0003).abs() < 1e-9);
}

#[test]
fn a_rate_may_change_before_the_start_but_not_for_ever() {
    let s = spec(udp("1000pps", 1, 10));
    let faster = FlowSpec { rate: "2000pps".parse().unwrap(), ..s.clone() };
    let mut sending = Sending::new(&s, TagKey::for_flow(&[7; 16], s.id), 0, false);
    assert!(sending.set_rate(&faster, 5));
    sending.start(10, clock());
    let tx = sending.report("send", None);
    assert_eq!((tx.asked_packets_per_second, tx.rate_changes.len()), (Some(2000.0), 0));
    let made = (0..2000).filter(|n| sending.set_rate(&s, 20 + n)).count();
    assert_eq!(made, 1000);
    assert_eq!(sending.report("send", None).rate_changes.len(), 1000);
}

#[test]
fn a_schedule_of_rates_is_followed_to_the_nanosecond() {
    // 1000 packets/s; from 2 s on 4000/s; from 4 s to 6 s up to 8000/s; that to the end at 8 s.
    let mut connection = udp("1000pps", 1, 8);
    connection.rate_schedule = Some("2s:4000pps,4s-6s:8000pps".parse().unwrap());
    let s = spec(connection);
    let mut sending = Sending::new(&s, TagKey::for_flow(&[7; 16], s.id), 0, false);
    assert_eq!(sending.demand(), Demand::paced(8000.0, 1, 1, 1));
    let start = 500_000;
    sending.start(start, IntervalClock { start_ns: start, ..clock() });
    let (mut now, mut times) = (start, vec![]);
    loop {
        match sending.next(now) {
            NextSend::Done => break,
            NextSend::At(at) => now = at,
            NextSend::Now(_) => {
                times.push(now - start);
                sending.sent(1, 1, now);
            }
        }
    }
    let between = |from: u64, to: u64| {
        let (from, to) = (from * 1_000_000_000, to * 1_000_000_000);
        times.iter().filter(|t| (from..to).contains(*t)).count() as f64
    };
    assert_eq!(between(0, 2), 2000.0);
    assert!(
        times.contains(&2_000_250_000),
        "the first slot is one of its periods after the change"
    );
    assert!((between(2, 4) - 8000.0).abs() <= 1.0, "{}", between(2, 4));
    assert!((between(4, 6) / 12_000.0 - 1.0).abs() < 0.01, "{}", between(4, 6));
    assert!((between(6, 8) - 16_000.0).abs() <= 1.0, "{}", between(6, 8));
    let tx = sending.report("send", None);
    assert_eq!((tx.missed_slots, tx.late_slots), (Some(0), Some(0)));
    let asked = tx.asked_packets_per_second.unwrap();
    assert!((asked / 4750.0 - 1.0).abs() < 1e-3, "{asked}");
    assert!(tx.rate_changes.is_empty(), "they are in the plan");
}

#[test]
fn a_command_ends_a_schedule() {
    let mut connection = udp("1000pps", 1, 10);
    connection.rate_schedule = Some("2s:4000pps".parse().unwrap());
    let s = spec(connection);
    let mut sending = Sending::new(&s, TagKey::for_flow(&[7; 16], s.id), 0, false);
    sending.start(0, clock());
    let slower = FlowSpec { rate: "500pps".parse().unwrap(), ..s.clone() };
    assert!(sending.set_rate(&slower, 1_000_000_000));
    while let NextSend::At(at) = sending.next(3_000_000_000) {
        assert!(at > 3_000_000_000);
    }
    assert_eq!(sending.report("send", None).rate_changes.len(), 1);
    assert_eq!(sending.demand(), Demand::paced(500.0, 1, 1, 1));
}

#[test]
fn a_schedule_keeps_the_number_of_slots_whatever_the_intervals_and_stalls() {
    let sent_and_missed = |connection: Connection, asleep: std::ops::Range<u64>| {
        let s = spec(connection);
        let mut sending = Sending::new(&s, TagKey::for_flow(&[7; 16], s.id), 0, false);
        sending.start(0, IntervalClock { start_ns: 0, ..clock() });
        let mut now = 0;
        loop {
            if asleep.contains(&now) {
                now = asleep.end;
            }
            match sending.next(now) {
                NextSend::Done => break,
                NextSend::At(at) => now = at,
                NextSend::Now(n) => sending.sent(n, n, now),
            }
        }
        let tx = sending.report("send", None);
        (tx.packets as f64, tx.missed_slots.unwrap_or(0) as f64)
    };
    let second = 1_000_000_000;
    // 10 to 11 packets/s in 100 steps of 1 s: 1050 packets, with a standard deviation of 32.
    let mut random = udp("10pps", 1, 100);
    random.spacing = "exponential".parse().unwrap();
    random.rate_schedule = Some("0s-100s:11pps".parse().unwrap());
    let (sent, missed) = sent_and_missed(random, 0..0);
    assert!((sent - 1050.0).abs() < 6.5 * 32.4 && missed == 0.0, "{sent} {missed}");
    // Asleep from 1 s to 6 s, with a step from 1000 to 10 packets/s at 3 s: 3000 + 50 slots.
    for (first, then, slots) in [("1000pps", "3s:10pps", 3050.0), ("10pps", "3s:1000pps", 5030.0)] {
        let mut stalled = udp(first, 1, 8);
        stalled.rate_schedule = Some(then.parse().unwrap());
        let (sent, missed) = sent_and_missed(stalled.clone(), second..6 * second);
        assert!((sent + missed - slots).abs() <= 2.0, "{first} {then}: {sent} {missed}");
        // Asleep to the end.
        let (sent, missed) = sent_and_missed(stalled, second..9 * second);
        assert!((sent + missed - slots).abs() <= 2.0, "{first} {then}: {sent} {missed}");
    }
}
